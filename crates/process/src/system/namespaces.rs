//! User, mount, PID, UTS and IPC namespaces.
//!
//! A root server creates the other namespaces with its own privileges and gives the container a user namespace last,
//! with identity ID maps: root in the container has no privileges over the host or its own mounts. A rootless server
//! needs the user namespace first and is root in it.

use std::fs;
use std::io;
use std::path::Path;

use nix::sched::CloneFlags;

use super::processes::PidHandle;

/// Whether namespaces can be created without a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamespacePrivilege {
    /// Running as root with CAP_SYS_ADMIN.
    Root,
    /// A user namespace is needed.
    Unprivileged,
}

/// Unshares the PID namespace: the next child of this process is its init.
///
/// # Errors
/// The host does not allow it.
pub fn unshare_pid() -> io::Result<NamespacePrivilege> {
    if nix::unistd::geteuid().is_root() && nix::sched::unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(NamespacePrivilege::Root);
    }
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)?;
    // Root in the new namespace has the CAP_SYS_ADMIN that mounting needs.
    map_self(0, uid.as_raw(), 0, gid.as_raw())?;
    Ok(NamespacePrivilege::Unprivileged)
}

/// Unshares mounts, hostname and IPC.
///
/// # Errors
/// The host does not allow it.
pub fn unshare_mount_uts_ipc(hostname: &str) -> io::Result<()> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)?;
    nix::unistd::sethostname(hostname)?;
    Ok(())
}

/// Unshares the user namespace; the parent must write its ID maps.
///
/// # Errors
/// The host does not allow it.
pub fn unshare_user() -> io::Result<()> {
    Ok(nix::sched::unshare(CloneFlags::CLONE_NEWUSER)?)
}

/// Unshares the user namespace and maps this UID and GID to those of the process outside.
///
/// # Errors
/// The host does not allow it.
pub fn unshare_user_mapped(uid: u32, gid: u32) -> io::Result<()> {
    let (outside_uid, outside_gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare_user()?;
    map_self(uid, outside_uid.as_raw(), gid, outside_gid.as_raw())
}

fn map_self(uid: u32, outside_uid: u32, gid: u32, outside_gid: u32) -> io::Result<()> {
    fs::write("/proc/self/uid_map", format!("{uid} {outside_uid} 1"))?;
    // Without CAP_SETGID, setgroups must be denied before gid_map is writable.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/gid_map", format!("{gid} {outside_gid} 1"))
}

/// Writes identity maps for the user namespace of a child.
pub fn write_identity_id_maps(pid: i32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let ours = fs::read_to_string(Path::new("/proc/self").join(map))?;
        fs::write(format!("/proc/{pid}/{map}"), identity_map(&ours))?;
    }
    Ok(())
}

/// Identity map of all IDs of this namespace. Lines are: first ID inside, first ID outside, count.
fn identity_map(ours: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (first, _, count) = (words.next()?, words.next()?, words.next()?);
        Some(format!("{first} {first} {count}\n"))
    };
    ours.lines().filter_map(line).collect()
}

/// Enters all namespaces of another process; children also enter its PID namespace.
///
/// # Errors
/// The process has exited, or the host does not allow it.
pub fn setns_all(other: &PidHandle) -> io::Result<()> {
    let all = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWIPC;
    Ok(nix::sched::setns(other.as_raw(), all)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_copied_by_their_inner_ids() {
        let cases = [
            ("the machine itself", "         0          0 4294967295\n", "0 0 4294967295\n"),
            ("root of a container", "0 100000 1000\n1000 1000 1\n", "0 0 1000\n1000 1000 1\n"),
            ("nothing", "", ""),
        ];
        for (says, ours, want) in cases {
            assert_eq!(identity_map(ours), want, "{says}");
        }
    }
}
