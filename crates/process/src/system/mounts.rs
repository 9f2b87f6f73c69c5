//! Mounts, each with the one meaning this crate has for it.

use std::fs;
use std::io;
use std::path::Path;

use nix::mount::{MntFlags, MsFlags};

const NONE: Option<&str> = None;

/// What this process mounts from now on is seen by nobody else; what the machine unmounts goes away here too.
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

/// Makes everything that is mounted at or below `root` read-only, but for what `keep` names.
///
/// # Errors
/// What the system said.
pub fn make_all_read_only(root: &Path, keep: impl Fn(&Path) -> bool) -> io::Result<()> {
    for line in fs::read_to_string("/proc/self/mountinfo")?.lines() {
        let Some(at) = line.split(' ').nth(4).map(unescape) else { continue };
        let at = Path::new(&at);
        if at.starts_with(root) && !keep(at) {
            // A mount below another may be hidden by it: it cannot be reached, nor written to.
            match make_read_only(at) {
                Err(error) if error.kind() != io::ErrorKind::NotFound && is_plain(line) => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a mount holds files of people, not of the kernel.
fn is_plain(line: &str) -> bool {
    let kind = line.split(" - ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    !matches!(kind, "proc" | "sysfs" | "cgroup" | "cgroup2" | "devpts" | "mqueue" | "autofs" | "binfmt_misc")
}

/// Blanks and their like stand as octal numbers in the table of mounts.
fn unescape(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

/// The processes of this process's namespace, at `/proc`.
///
/// # Errors
/// The machine hides parts of its own table: then it does not show a new one either.
pub fn processes() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    Ok(nix::mount::mount(Some("proc"), "/proc", Some("proc"), flags, NONE)?)
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
