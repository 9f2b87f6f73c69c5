//! Mount operations of the container rootfs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};

const NONE: Option<&str> = None;

/// Makes all mounts slaves: mounts of this process are invisible to the host, while unmounts of the host propagate
/// until [`remount_all_read_only`].
pub fn make_mounts_slave() -> io::Result<()> {
    Ok(nix::mount::mount(NONE, "/", NONE, MsFlags::MS_SLAVE | MsFlags::MS_REC, NONE)?)
}

pub fn mount_tmpfs(at: &Path, options: &str) -> io::Result<()> {
    Ok(nix::mount::mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(options),
    )?)
}

/// Makes a mount unbindable, so that a recursive bind mount of its parent skips it.
pub fn make_unbindable(at: &Path) -> io::Result<()> {
    Ok(nix::mount::mount(NONE, at, NONE, MsFlags::MS_UNBINDABLE, NONE)?)
}

/// Recursively bind-mounts `what` at `at`.
pub fn bind_mount(what: &Path, at: &Path) -> io::Result<()> {
    Ok(nix::mount::mount(Some(what), at, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?)
}

/// Remounts a bind mount read-only. Its existing flags must be repeated, or the kernel returns EPERM.
pub fn remount_read_only(at: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY | flags_of(at)?;
    Ok(nix::mount::mount(NONE, at, NONE, flags, NONE)?)
}

fn flags_of(at: &Path) -> io::Result<MsFlags> {
    use rustix::fs::StatVfsMountFlags as Has;
    let has = rustix::fs::statvfs(at)?.f_flag;
    let pairs = [
        (Has::NOSUID, MsFlags::MS_NOSUID),
        (Has::NODEV, MsFlags::MS_NODEV),
        (Has::NOEXEC, MsFlags::MS_NOEXEC),
        (Has::NOATIME, MsFlags::MS_NOATIME),
        (Has::NODIRATIME, MsFlags::MS_NODIRATIME),
        (Has::RELATIME, MsFlags::MS_RELATIME),
    ];
    Ok(pairs.into_iter().filter(|(flag, _)| has.contains(*flag)).map(|(_, flag)| flag).collect())
}

/// Remounts everything at or below `root` read-only, except what `keep` selects, and stops propagation from the host.
/// `root` must be a mount point without symlinks. Returns the mounts that failed.
pub fn remount_all_read_only(
    root: &Path,
    keep: impl Fn(&Path) -> bool,
) -> io::Result<Vec<(PathBuf, io::Error)>> {
    nix::mount::mount(NONE, root, NONE, MsFlags::MS_PRIVATE | MsFlags::MS_REC, NONE)?;
    let all = mounted_below(root, &fs::read("/proc/self/mountinfo")?);
    if !all.contains_key(root) {
        return Err(io::Error::other(format!("{} is not in the table of mounts", root.display())));
    }
    let mut refused = Vec::new();
    for (at, flags) in all {
        if keep(&at) || flags.contains(MsFlags::MS_RDONLY) {
            continue;
        }
        let flags = flags | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        match nix::mount::mount(NONE, &at, NONE, flags, NONE) {
            // A mount hidden by another one, or below an inaccessible directory, cannot be written to either.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::EINVAL) => {}
            Err(error) => refused.push((at, error.into())),
        }
    }
    Ok(refused)
}

/// Mount points with the flags to repeat. Of several at one path, the last is on top.
fn mounted_below(root: &Path, table: &[u8]) -> BTreeMap<PathBuf, MsFlags> {
    let one = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').skip(4);
        let at = PathBuf::from(OsString::from_vec(unescape(words.next()?)));
        at.starts_with(root).then_some((at, flags_in(&String::from_utf8_lossy(words.next()?))))
    };
    table.split(|byte| *byte == b'\n').filter_map(one).collect()
}

fn flags_in(options: &str) -> MsFlags {
    let flag = |word: &str| match word {
        "ro" => MsFlags::MS_RDONLY,
        "nosuid" => MsFlags::MS_NOSUID,
        "nodev" => MsFlags::MS_NODEV,
        "noexec" => MsFlags::MS_NOEXEC,
        "noatime" => MsFlags::MS_NOATIME,
        "nodiratime" => MsFlags::MS_NODIRATIME,
        "relatime" => MsFlags::MS_RELATIME,
        _ => MsFlags::empty(),
    };
    options.split(',').map(flag).collect()
}

/// mountinfo escapes blanks as octal numbers.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 8).ok());
        match (byte, octal) {
            (b'\\', Some(byte)) => {
                all.push(byte);
                rest = &after[3..];
            }
            _ => {
                all.push(*byte);
                rest = after;
            }
        }
    }
    all
}

/// Mounts a private devpts instance.
pub fn mount_devpts(at: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    Ok(nix::mount::mount(Some("devpts"), at, Some("devpts"), flags, options)?)
}

/// Mounts `/proc` of this PID namespace.
///
/// # Errors
/// The kernel refuses if the host's `/proc` is partly hidden by mounts.
pub fn mount_proc() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(nix::mount::mount(Some("proc"), "/proc", Some("proc"), flags, NONE)?)
}

/// Paths in `/proc` that configure the host. Root in the container owns them, and they check no capability.
const HOST_SYSCTLS: [&str; 5] = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger"];

/// Remounts the host configuration in `/proc` read-only; returns the paths that failed.
#[must_use]
pub fn make_sysctls_read_only() -> Vec<&'static str> {
    let refused = |at: &&str| {
        let at = Path::new(at);
        at.exists() && bind_mount(at, at).and_then(|()| remount_read_only(at)).is_err()
    };
    HOST_SYSCTLS.into_iter().filter(refused).collect()
}

/// Makes `root` the root of this process and detaches the host's.
pub fn enter(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    // Pivots onto the same directory, then unmounts the old root on top of it: no directory for it is needed.
    nix::unistd::pivot_root(".", ".")?;
    nix::mount::umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_is_parsed() {
        let table = b"27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
            30 27 0:9 / /v/a\\040b\\134c rw,nosuid,nodev,noatime shared:3 - ext4 /dev/vda rw\n\
            31 27 0:9 / /v/x rw - ext4 /dev/vda rw\n32 27 0:9 / /v/x ro,noexec - tmpfs tmpfs rw\n";
        let found = mounted_below(Path::new("/v"), table);
        let want = [
            ("/v/a b\\c", MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOATIME),
            ("/v/x", MsFlags::MS_RDONLY | MsFlags::MS_NOEXEC),
        ];
        assert_eq!(
            found,
            want.map(|(at, flags)| (PathBuf::from(at), flags)).into(),
            "the upper of two counts"
        );
    }
}
