//! Control groups (v2), where this machine lets the server have them.
//!
//! The server needs a control group of its own to divide: one that it alone is in, in which it may make others, with the
//! controllers it needs. It moves itself to a leaf there, since only leaves hold processes, and every container gets
//! another leaf. Supervisors stay with the server: a container that runs out of memory must not take its own with it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::Limits;
use crate::layout::Id;
use crate::port::Usage;

/// The leaf of the server and its supervisors.
const OWN_LEAF: &str = "muster.server";
/// What a container's limits need.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// The length of a turn for a share of the processors, in microseconds.
const PERIOD_MICROS: u64 = 100_000;
/// How often a leaf whose processes are being ended is tried to be removed.
const REMOVALS_MAX: u32 = 100;
/// How long between two tries.
const BETWEEN_REMOVALS: Duration = Duration::from_millis(2);

/// The control group in which containers get their leaves.
///
/// # Errors
/// Why this machine gives none, and what to do.
pub fn delegated() -> Result<PathBuf, String> {
    let own =
        fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let group = own_group(&own, &mounts).ok_or("this machine has no control groups of version 2")?;
    divide(&group)?;
    Ok(group)
}

/// The folder of this process's control group.
fn own_group(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let is_v2 = |line: &&str| line.split(" - ").nth(1).is_some_and(|rest| rest.starts_with("cgroup2 "));
    let at = mounts.lines().find(is_v2)?.split(' ').nth(4)?;
    // A leaf that an earlier server of this process's group moved to: its parent is what can be divided.
    let path = path.strip_suffix(OWN_LEAF).unwrap_or(path);
    Some(Path::new(at).join(path.trim_end_matches('/')))
}

/// Makes the group ready for leaves.
fn divide(group: &Path) -> Result<(), String> {
    let has = fs::read_to_string(group.join("cgroup.controllers"))
        .map_err(|error| format!("{}: {error}", group.display()))?;
    let lacks: Vec<&str> =
        CONTROLLERS.into_iter().filter(|it| !has.split_whitespace().any(|has| has == *it)).collect();
    if !lacks.is_empty() {
        return Err(format!("control group {} has no controllers {}", group.display(), lacks.join(", ")));
    }
    let refused = |error: io::Error| {
        format!(
            "control group {} is not this user's to divide ({error}): start the server with \
             `systemd-run --user --scope -p Delegate=yes`",
            group.display()
        )
    };
    let leaf = group.join(OWN_LEAF);
    fs::create_dir_all(&leaf).map_err(refused)?;
    fs::write(leaf.join("cgroup.procs"), std::process::id().to_string()).map_err(refused)?;
    let all = CONTROLLERS.map(|it| format!("+{it}")).join(" ");
    fs::write(group.join("cgroup.subtree_control"), all).map_err(|error| {
        // Others live in this group: leave it as it was.
        let _ = fs::write(group.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&leaf);
        refused(error)
    })
}

/// The control group of one container.
pub struct Leaf {
    dir: PathBuf,
}

impl Leaf {
    /// The one that a lost run left, if it did.
    #[must_use]
    pub fn left_by(parent: &Path, id: &Id) -> Option<Leaf> {
        let dir = parent.join(leaf_name(id));
        dir.is_dir().then_some(Leaf { dir })
    }

    /// Makes one with these limits; `None` when it cannot be made: the watchdog has to do then.
    #[must_use]
    pub fn make(parent: &Path, id: &Id, limits: &Limits) -> Option<Leaf> {
        let dir = parent.join(leaf_name(id));
        fs::create_dir_all(&dir).ok()?;
        let leaf = Leaf { dir };
        for (file, text) in settings(limits) {
            if fs::write(leaf.dir.join(file), text).is_err() {
                return None;
            }
        }
        Some(leaf)
    }

    /// Moves a process in; its children are born there.
    ///
    /// # Errors
    /// What the system said.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string())
    }

    /// Whether the kernel ended something in it for want of memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        fs::read_to_string(self.dir.join("memory.events")).is_ok_and(|text| oom_kills(&text) > 0)
    }
}

/// Ends what is in it, and removes it: nobody else will.
impl Drop for Leaf {
    fn drop(&mut self) {
        if let Ok(mut kill) = fs::File::options().write(true).open(self.dir.join("cgroup.kill")) {
            let _ = io::Write::write_all(&mut kill, b"1");
        }
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(&self.dir) {
                // Those that were ended take a moment to go.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                _ => return,
            }
        }
    }
}

/// Moves this process into the leaf of a run.
///
/// # Errors
/// The run has none, or what the system said.
pub fn enter(parent: &Path, id: &Id) -> io::Result<()> {
    let mut procs = fs::File::options().write(true).open(parent.join(leaf_name(id)).join("cgroup.procs"))?;
    io::Write::write_all(&mut procs, std::process::id().to_string().as_bytes())
}

/// What a run uses, by the counters of its leaf; `None` when it has none. A leaf that is read stays.
#[must_use]
pub fn usage(parent: &Path, id: &Id) -> Option<Usage> {
    let dir = parent.join(leaf_name(id));
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let micros = value(&read("cpu.stat")?, "usage_usec")?;
    let held: u64 = read("memory.current")?.trim().parse().ok()?;
    // The kernel reclaims cached files that are not in use when memory is needed.
    let idle = read("memory.stat").and_then(|text| value(&text, "inactive_file")).unwrap_or(0);
    Some(Usage { cpu: Duration::from_micros(micros), memory_bytes: held.saturating_sub(idle) })
}

/// The number after a word at the beginning of a line.
fn value(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// A name that is one word and cannot lead out of its folder.
fn leaf_name(id: &Id) -> String {
    format!("muster.{}.{}.{}", id.pod, id.container, id.attempt)
}

/// Which files get which text.
fn settings(limits: &Limits) -> Vec<(&'static str, String)> {
    let mut all = vec![("pids.max", limits.processes.to_string())];
    if let Some(bytes) = limits.memory_bytes {
        all.push(("memory.max", bytes.to_string()));
        // All or none: half a container is of no use to anybody.
        all.push(("memory.oom.group", "1".to_owned()));
    }
    if let Some(millis) = limits.cpu_millis {
        all.push(("cpu.max", format!("{} {PERIOD_MICROS}", millis.max(10) * PERIOD_MICROS / 1000)));
    }
    all
}

fn oom_kills(events: &str) -> u64 {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_leaf() {
        let parent = tempfile::tempdir().unwrap();
        let id = Id { pod: "p".into(), container: "c".into(), attempt: 0 };
        assert_eq!(usage(parent.path(), &id), None, "a run without a leaf");
        let dir = parent.path().join(leaf_name(&id));
        fs::create_dir(&dir).unwrap();
        for (file, text) in [
            ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n"),
            ("memory.current", "10485760\n"),
            ("memory.stat", "anon 1\ninactive_file 1048576\n"),
        ] {
            fs::write(dir.join(file), text).unwrap();
        }
        let want = Usage { cpu: Duration::from_millis(2_500), memory_bytes: 9 << 20 };
        assert_eq!(usage(parent.path(), &id), Some(want));
    }

    #[test]
    fn files_and_texts() {
        let limits = Limits { cpu_millis: Some(1500), memory_bytes: Some(1 << 20), processes: 64 };
        let want = [
            ("pids.max", "64"),
            ("memory.max", "1048576"),
            ("memory.oom.group", "1"),
            ("cpu.max", "150000 100000"),
        ];
        assert_eq!(settings(&limits), want.map(|(file, text)| (file, text.to_owned())));
        let none = Limits { processes: 7, ..Limits::default() };
        assert_eq!(settings(&none), [("pids.max", "7".to_owned())], "no limit, no file");
        let tiny = Limits { cpu_millis: Some(1), processes: 7, ..Limits::default() };
        assert_eq!(settings(&tiny)[1].1, "1000 100000", "the kernel takes no less than a millisecond");
    }

    #[test]
    fn the_group_of_this_process() {
        let mounts = "25 1 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let cases = [
            ("a scope", "0::/user.slice/run.scope\n", Some("/sys/fs/cgroup/user.slice/run.scope")),
            (
                "the leaf of an earlier server",
                "0::/run.scope/muster.server\n",
                Some("/sys/fs/cgroup/run.scope"),
            ),
            ("the root", "0::/\n", Some("/sys/fs/cgroup")),
            ("beside version 1", "12:pids:/x\n0::/y\n", Some("/sys/fs/cgroup/y")),
            ("version 1 only", "12:pids:/x\n", None),
        ];
        for (says, own, want) in cases {
            assert_eq!(own_group(own, mounts), want.map(PathBuf::from), "{says}");
        }
        assert_eq!(own_group("0::/x\n", "25 1 0:22 / /sys rw - sysfs sysfs rw\n"), None, "not mounted");
    }

    #[test]
    fn a_leaf_goes_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let id = Id { pod: "uid".into(), container: "main".into(), attempt: 2 };
        assert!(Leaf::left_by(parent.path(), &id).is_none());
        assert!(enter(parent.path(), &id).is_err(), "it has none");
        fs::create_dir(parent.path().join(leaf_name(&id))).unwrap();
        drop(Leaf::left_by(parent.path(), &id).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn events() {
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n"), 3);
        assert_eq!(oom_kills(""), 0);
    }
}
