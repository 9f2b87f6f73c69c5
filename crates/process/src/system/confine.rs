//! Limits, no new privileges, Landlock, identities.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use landlock::{ABI, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus};
use nix::sys::resource::Resource;
use nix::unistd::{Gid, Uid};

use crate::launch::Identity;

/// Numbers that the kernel never gives to ordinary processes once it has counted through.
const RESERVED_PIDS: u32 = 301;
/// The Landlock rights known to this program; older kernels hold fewer of them.
const LANDLOCK: ABI = ABI::V3;

/// Ends this process when its parent ends.
///
/// # Errors
/// What the system said.
pub fn die_with_parent() -> io::Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?)
}

/// Has this process told to end everything when its parent, the process with this number, ends.
///
/// # Errors
/// It is gone already, or what the system said.
pub fn end_all_with(parent: i32) -> io::Result<()> {
    let signal = nix::sys::signal::Signal::try_from(super::signals::END_ALL)?;
    nix::sys::prctl::set_pdeathsig(signal)?;
    // It may have gone just before.
    match nix::unistd::getppid().as_raw() == parent {
        true => Ok(()),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

/// How many bytes the file system of a path has.
#[must_use]
pub fn disk_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_blocks.saturating_mul(found.f_frsize))
}

/// Orphans among our descendants become our children.
///
/// # Errors
/// What the system said.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

/// A session of our own: no terminal of the server's can signal us.
pub fn own_session() {
    // The only refusal is that we lead one already.
    let _ = nix::unistd::setsid();
}

/// Neither this process nor its children gain rights by running a program.
///
/// # Errors
/// What the system said.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(nix::sys::prctl::set_no_new_privs()?)
}

/// Bounds the number of processes of this user namespace. What the user had before stays the upper bound.
///
/// # Errors
/// What the system said.
pub fn bound_processes(most: u64) -> io::Result<()> {
    let (_, hard) = nix::sys::resource::getrlimit(Resource::RLIMIT_NPROC)?;
    let most = most.min(hard);
    Ok(nix::sys::resource::setrlimit(Resource::RLIMIT_NPROC, most, most)?)
}

/// Bounds the process numbers of this process namespace, on kernels that have such a bound per namespace; elsewhere this
/// would bound the machine, so `proc` must be the container's own.
pub fn bound_process_numbers(most: u32) {
    let _ = fs::write("/proc/sys/kernel/pid_max", (most + RESERVED_PIDS).to_string());
}

/// Whether this kernel bounds process numbers per namespace (6.14).
#[must_use]
pub fn bounds_process_numbers() -> bool {
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

/// Becomes somebody else, as far as asked.
///
/// # Errors
/// What the system said.
pub fn become_user(who: &Identity) -> io::Result<()> {
    if *who == Identity::default() {
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

/// Gives an open pipe or terminal to a user, who may want to open it again by name.
pub fn give(file: impl AsFd, who: &Identity) {
    let (uid, gid) = (who.uid.map(Uid::from_raw), who.gid.map(Gid::from_raw));
    if uid.is_some() || gid.is_some() {
        let _ = nix::unistd::fchown(file, uid, gid);
    }
}

/// From now on this process and its children write below these paths only. Paths that are not there are passed over.
///
/// # Errors
/// Why it is not applied, in words.
pub fn write_only_below<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), String> {
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
