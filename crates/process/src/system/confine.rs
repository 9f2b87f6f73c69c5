//! Drops privileges and applies limits: rlimits, no_new_privs, Landlock, UIDs, parent death signals.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use landlock::{ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus};
use nix::sys::resource::Resource;
use nix::unistd::{Gid, Uid};

use crate::container_config::RunAs;

/// PIDs below this are reserved after the first wrap-around of the PID counter.
const RESERVED_PIDS: u32 = 301;
/// The Landlock ABI used; older kernels enforce a subset.
const LANDLOCK: ABI = ABI::V3;

/// SIGKILL for this process when its parent exits.
pub fn die_with_parent() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

/// [`super::signals::KILL_CONTAINER`] for this process when its parent, `parent`, exits.
///
/// # Errors
/// The parent has exited already, or an I/O error.
pub fn signal_on_parent_death(parent: i32) -> io::Result<()> {
    let signal = nix::sys::signal::Signal::try_from(super::signals::KILL_CONTAINER)?;
    nix::sys::prctl::set_pdeathsig(signal)?;
    // It may have exited before prctl.
    match nix::unistd::getppid().as_raw() == parent {
        true => Ok(()),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// Size of the file system of a path, in bytes.
#[must_use]
pub fn disk_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_blocks.saturating_mul(found.f_frsize))
}

/// Makes this process a subreaper: orphaned descendants become its children.
pub fn become_subreaper() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// Creates a session: signals of the server's terminal do not reach it.
pub fn create_session() {
    // EPERM: this process is a session leader already.
    let _ = nix::unistd::setsid();
}

/// Sets no_new_privs: setuid programs grant nothing to this process and its children.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

/// Sets RLIMIT_NPROC of this user namespace, at most the current hard limit.
pub fn limit_processes(most: u64) -> io::Result<()> {
    let (_, hard) = nix::sys::resource::getrlimit(Resource::RLIMIT_NPROC)?;
    let most = most.min(hard);
    Ok(nix::sys::resource::setrlimit(Resource::RLIMIT_NPROC, most, most)?)
}

/// Sets `pid_max` of this PID namespace. On kernels without a per-namespace value it would change the host's, so
/// check [`has_pid_max_per_namespace`]; `/proc` must be the container's own.
pub fn set_pid_max(most: u32) {
    let _ = fs::write("/proc/sys/kernel/pid_max", (most + RESERVED_PIDS).to_string());
}

/// Whether `pid_max` is per PID namespace (Linux 6.14).
#[must_use]
pub fn has_pid_max_per_namespace() -> bool {
    let release = nix::sys::utsname::uname().ok().map(|it| it.release().to_string_lossy().into_owned());
    release.is_some_and(|release| is_at_least(&release, (6, 14)))
}

fn is_at_least(release: &str, want: (u32, u32)) -> bool {
    let mut words = release.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u32>().ok());
    match (words.next(), words.next()) {
        (Some(major), Some(minor)) => (major, minor) >= want,
        _ => false,
    }
}

/// Sets supplementary groups, GID and UID, in this order: each needs the privileges that the next one drops.
pub fn switch_user(who: &RunAs) -> io::Result<()> {
    if *who == RunAs::default() {
        return Ok(());
    }
    let groups: Vec<Gid> = who.groups.iter().map(|it| Gid::from_raw(*it)).collect();
    nix::unistd::setgroups(&groups)?;
    if let Some(gid) = who.gid {
        nix::unistd::setgid(Gid::from_raw(gid))?;
    }
    if let Some(uid) = who.uid {
        nix::unistd::setuid(Uid::from_raw(uid))?;
    }
    Ok(())
}

/// Changes the owner of an open pipe or terminal, so that the user can reopen `/dev/stdout`.
pub fn chown_file(file: impl AsFd, who: &RunAs) {
    let (uid, gid) = (who.uid.map(Uid::from_raw), who.gid.map(Gid::from_raw));
    if uid.is_some() || gid.is_some() {
        let _ = nix::unistd::fchown(file, uid, gid);
    }
}

/// Restricts writes of this process and its children to these paths with Landlock. Missing paths are skipped.
///
/// # Errors
/// The reason why it is not enforced.
pub fn restrict_writes_to<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), String> {
    let status = restrict(paths).map_err(|error| error.to_string())?;
    match status {
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock, or it is switched off".to_owned()),
        RulesetStatus::PartiallyEnforced | RulesetStatus::FullyEnforced => Ok(()),
    }
}

fn restrict<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<RulesetStatus, landlock::RulesetError> {
    let writes = AccessFs::from_write(LANDLOCK);
    let mut rules = Ruleset::default().handle_access(writes)?.create()?;
    for path in paths {
        let Ok(open) = PathFd::new(path) else { continue };
        let rights = if path.is_dir() { writes } else { writes & AccessFs::from_file(LANDLOCK) };
        rules = rules.add_rule(PathBeneath::new(open, rights))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        let cases = [
            ("6.14.0", true),
            ("6.18.44-fc", true),
            ("7.0", true),
            ("6.9.12", false),
            ("5.15.0-91-generic", false),
        ];
        for (release, want) in cases {
            assert_eq!(is_at_least(release, (6, 14)), want, "{release}");
        }
    }
}
