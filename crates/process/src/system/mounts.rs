//! Mounts, each with the one meaning this crate has for it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};

const NONE: Option<&str> = None;

/// What this process mounts from now on is seen by nobody else; what the machine unmounts goes away here too, until
/// [`make_all_read_only`].
///
/// # Errors
/// What the system said.
pub fn detach_from_machine() -> io::Result<()> {
    Ok(nix::mount::mount(NONE, "/", NONE, MsFlags::MS_SLAVE | MsFlags::MS_REC, NONE)?)
}

/// An empty folder in memory at `at`.
///
/// # Errors
/// What the system said.
pub fn memory(at: &Path, options: &str) -> io::Result<()> {
    Ok(nix::mount::mount(
        Some("tmpfs"),
        at,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some(options),
    )?)
}

/// Keeps a mount from being copied along when a folder above it is shown elsewhere.
///
/// # Errors
/// What the system said.
pub fn keep_out_of_copies(at: &Path) -> io::Result<()> {
    Ok(nix::mount::mount(NONE, at, NONE, MsFlags::MS_UNBINDABLE, NONE)?)
}

/// Shows `what`, with all that is mounted below it, at `at`.
///
/// # Errors
/// What the system said.
pub fn show(what: &Path, at: &Path) -> io::Result<()> {
    Ok(nix::mount::mount(Some(what), at, NONE, MsFlags::MS_BIND | MsFlags::MS_REC, NONE)?)
}

/// Makes what is shown at `at` read-only. Flags it came with must be repeated, or the kernel refuses.
///
/// # Errors
/// What the system said.
pub fn make_read_only(at: &Path) -> io::Result<()> {
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

/// Makes everything that is mounted at or below `root` read-only, but for what `keep` names, and lets nothing that the
/// machine mounts later in. `root` must be a mount, by its path without symbolic links. Which mounts refused, and why.
///
/// # Errors
/// What the system said.
pub fn make_all_read_only(
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
            // One that is hidden by another, or below a closed folder, cannot be reached, nor written to.
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::EINVAL) => {}
            Err(error) => refused.push((at, error.into())),
        }
    }
    Ok(refused)
}

/// What is mounted where, with the flags that must be repeated. Of several at one path the last lies on top.
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

/// Blanks and their like stand as octal numbers in the table of mounts.
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

/// Terminals of this process's own namespace at `at`; whoever opens `ptmx` there gets one of them.
///
/// # Errors
/// What the system said.
pub fn terminals(at: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    Ok(nix::mount::mount(Some("devpts"), at, Some("devpts"), flags, options)?)
}

/// The processes of this process's namespace, at `/proc`.
///
/// # Errors
/// The machine hides parts of its own table: then it does not show a new one either.
pub fn processes() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(nix::mount::mount(Some("proc"), "/proc", Some("proc"), flags, NONE)?)
}

/// What switches the machine itself in a table of processes. Root inside is the machine's root to these files: they ask
/// for no capability.
const SWITCHES: [&str; 5] = ["/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/sysrq-trigger"];

/// Makes those parts of `/proc` read-only that switch the machine; which refused.
#[must_use]
pub fn make_switches_read_only() -> Vec<&'static str> {
    let refused = |at: &&str| {
        let at = Path::new(at);
        at.exists() && show(at, at).and_then(|()| make_read_only(at)).is_err()
    };
    SWITCHES.into_iter().filter(refused).collect()
}

/// Makes `root` the root of this process, and lets go of the machine's.
///
/// # Errors
/// What the system said.
pub fn enter(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)?;
    // Old and new on the same spot, then the old one, which lies on top, is taken away: no folder is needed for it.
    nix::unistd::pivot_root(".", ".")?;
    nix::mount::umount2(".", MntFlags::MNT_DETACH)?;
    std::env::set_current_dir("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts() {
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
