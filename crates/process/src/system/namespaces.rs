//! Own users, mounts, processes, host name and IPC.
//!
//! A server that runs as root makes the container's namespaces with its own power and gives the container a user
//! namespace of its own last, with all ids mapped to themselves: the container's root has no power over the machine, and
//! none over its own mounts. An ordinary user needs the user namespace first, and is root in it.

use std::fs;
use std::io;
use std::path::Path;

use nix::sched::CloneFlags;

use super::processes::Handle;

/// Whether this process can make namespaces without a user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It is root, and the machine lets it.
    Root,
    /// It needs a user namespace.
    Ordinary,
}

/// Children of this process from now on live in a process namespace of their own; the next one is its first.
///
/// # Errors
/// The machine does not allow it.
pub fn separate_processes() -> io::Result<Power> {
    if nix::unistd::geteuid().is_root() && nix::sched::unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(Power::Root);
    }
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)?;
    map_self(0, uid.as_raw(), 0, gid.as_raw())?;
    Ok(Power::Ordinary)
}

/// Own mounts, host name and IPC for this process.
///
/// # Errors
/// The machine does not allow it.
pub fn separate_the_rest(hostname: &str) -> io::Result<()> {
    nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUTS | CloneFlags::CLONE_NEWIPC)?;
    nix::unistd::sethostname(hostname)?;
    Ok(())
}

/// Own users for this process; somebody outside must map them.
///
/// # Errors
/// The machine does not allow it.
pub fn separate_users() -> io::Result<()> {
    Ok(nix::sched::unshare(CloneFlags::CLONE_NEWUSER)?)
}

/// Own users for this process, which is seen as this one user and group in there and is still itself outside.
///
/// # Errors
/// The machine does not allow it.
pub fn become_in_own_users(uid: u32, gid: u32) -> io::Result<()> {
    let (outside_uid, outside_gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    separate_users()?;
    map_self(uid, outside_uid.as_raw(), gid, outside_gid.as_raw())
}

fn map_self(uid: u32, outside_uid: u32, gid: u32, outside_gid: u32) -> io::Result<()> {
    fs::write("/proc/self/uid_map", format!("{uid} {outside_uid} 1"))?;
    // Whoever may not choose groups freely must give up changing them first.
    match fs::write("/proc/self/setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write("/proc/self/gid_map", format!("{gid} {outside_gid} 1"))
}

/// Maps all users and groups of a child's new namespace to themselves.
///
/// # Errors
/// What the system said.
pub fn map_all(pid: i32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let ours = fs::read_to_string(Path::new("/proc/self").join(map))?;
        fs::write(format!("/proc/{pid}/{map}"), identity_map(&ours))?;
    }
    Ok(())
}

/// Every id that exists here, mapped to itself. Lines are: first id inside, first id outside, how many.
fn identity_map(ours: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (first, _, count) = (words.next()?, words.next()?, words.next()?);
        Some(format!("{first} {first} {count}\n"))
    };
    ours.lines().filter_map(line).collect()
}

/// Moves this process into all namespaces of another; its children also into that one's process namespace.
///
/// # Errors
/// It is gone, or the machine does not allow it.
pub fn join(other: &Handle) -> io::Result<()> {
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
