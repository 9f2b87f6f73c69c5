//! cgroup v2, where the host delegates a cgroup to the server.
//!
//! The server needs a delegated cgroup with the required controllers. It moves itself into a leaf, since only leaves
//! may have processes, and each container gets another leaf. Supervisors stay in the server's leaf: an OOM kill of
//! the container must not kill its supervisor.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::container_config::ResourceLimits;
use crate::pod_dirs::RunId;
use crate::runtime::ContainerUsage;

/// Leaf cgroup of the server and its supervisors.
const OWN_LEAF: &str = "muster.server";
/// Controllers that enforce container limits.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// CFS period of `cpu.max`, in microseconds.
const PERIOD_MICROS: u64 = 100_000;
/// Retries of `rmdir` while killed processes exit.
const REMOVALS_MAX: u32 = 100;
/// Interval of the retries.
const BETWEEN_REMOVALS: Duration = Duration::from_millis(2);

/// The delegated cgroup in which containers get their leaves.
///
/// # Errors
/// Why there is none, and the remedy.
pub fn delegated_parent() -> Result<PathBuf, String> {
    let own =
        fs::read_to_string("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup: {error}"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| format!("/proc/self/mountinfo: {error}"))?;
    let group = own_group(&own, &mounts).ok_or("this machine has no control groups of version 2")?;
    enable_delegation(&group)?;
    Ok(group)
}

/// The cgroup directory of this process.
fn own_group(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let is_v2 = |line: &&str| line.split(" - ").nth(1).is_some_and(|rest| rest.starts_with("cgroup2 "));
    let at = mounts.lines().find(is_v2)?.split(' ').nth(4)?;
    // An earlier server in this cgroup has moved to its leaf: the delegated cgroup is the parent.
    let path = path.strip_suffix(OWN_LEAF).unwrap_or(path);
    Some(Path::new(at).join(path.trim_end_matches('/')))
}

/// Moves the server into its leaf and enables the controllers.
fn enable_delegation(group: &Path) -> Result<(), String> {
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
    // cgroup v2 allows controllers for children only in cgroups without processes.
    let leaf = group.join(OWN_LEAF);
    fs::create_dir_all(&leaf).map_err(refused)?;
    fs::write(leaf.join("cgroup.procs"), std::process::id().to_string()).map_err(refused)?;
    let all = CONTROLLERS.map(|it| format!("+{it}")).join(" ");
    fs::write(group.join("cgroup.subtree_control"), all).map_err(|error| {
        // Other processes are in this cgroup: restore its state.
        let _ = fs::write(group.join("cgroup.procs"), std::process::id().to_string());
        let _ = fs::remove_dir(&leaf);
        refused(error)
    })
}

/// The cgroup of one container.
pub struct ContainerCgroup {
    dir: PathBuf,
}

impl ContainerCgroup {
    /// The cgroup that a lost run left, if any.
    #[must_use]
    pub fn of_lost_run(parent: &Path, id: &RunId) -> Option<ContainerCgroup> {
        let dir = parent.join(leaf_name(id));
        dir.is_dir().then_some(ContainerCgroup { dir })
    }

    /// Creates a cgroup with these limits; `None` if that fails, when the watchdog enforces them.
    #[must_use]
    pub fn make(parent: &Path, id: &RunId, limits: &ResourceLimits) -> Option<ContainerCgroup> {
        let dir = parent.join(leaf_name(id));
        fs::create_dir_all(&dir).ok()?;
        let leaf = ContainerCgroup { dir };
        for (file, text) in settings(limits) {
            if fs::write(leaf.dir.join(file), text).is_err() {
                return None;
            }
        }
        Some(leaf)
    }

    /// Moves a process into the cgroup; its children inherit it.
    pub fn add(&self, pid: i32) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string())
    }

    /// Whether the OOM killer killed a process in it.
    #[must_use]
    pub fn was_oom_killed(&self) -> bool {
        fs::read_to_string(self.dir.join("memory.events")).is_ok_and(|text| oom_kills(&text) > 0)
    }
}

/// Kills its processes and removes it.
impl Drop for ContainerCgroup {
    fn drop(&mut self) {
        if let Ok(mut kill) = fs::File::options().write(true).open(self.dir.join("cgroup.kill")) {
            let _ = io::Write::write_all(&mut kill, b"1");
        }
        for _ in 0..REMOVALS_MAX {
            match fs::remove_dir(&self.dir) {
                // Killed processes take a moment to exit.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(BETWEEN_REMOVALS);
                }
                _ => return,
            }
        }
    }
}

/// Moves this process into the cgroup of a run.
///
/// # Errors
/// The run has no cgroup, or an I/O error.
pub fn enter(parent: &Path, id: &RunId) -> io::Result<()> {
    let mut procs = fs::File::options().write(true).open(parent.join(leaf_name(id)).join("cgroup.procs"))?;
    io::Write::write_all(&mut procs, std::process::id().to_string().as_bytes())
}

/// Usage of a run from its cgroup; `None` without one.
#[must_use]
pub fn usage(parent: &Path, id: &RunId) -> Option<ContainerUsage> {
    let dir = parent.join(leaf_name(id));
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let micros = value(&read("cpu.stat")?, "usage_usec")?;
    let held: u64 = read("memory.current")?.trim().parse().ok()?;
    // Working set, as the kubelet computes it: inactive file cache is reclaimable.
    let idle = read("memory.stat").and_then(|text| value(&text, "inactive_file")).unwrap_or(0);
    Some(ContainerUsage { cpu: Duration::from_micros(micros), memory_bytes: held.saturating_sub(idle) })
}

/// The value of a `key value` line.
fn value(text: &str, word: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// A cgroup name without separators.
fn leaf_name(id: &RunId) -> String {
    format!("muster.{}.{}.{}", id.pod, id.container, id.attempt)
}

/// Cgroup files and their content.
fn settings(limits: &ResourceLimits) -> Vec<(&'static str, String)> {
    let mut all = vec![("pids.max", limits.processes.to_string())];
    if let Some(bytes) = limits.memory_bytes {
        all.push(("memory.max", bytes.to_string()));
        // Kill all processes on OOM: a half killed container would hang.
        all.push(("memory.oom.group", "1".to_owned()));
    }
    if let Some(millis) = limits.cpu_millis {
        // The kernel's minimum quota is 1 ms per period.
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
    fn usage_from_cgroup_counters() {
        let parent = tempfile::tempdir().unwrap();
        let id = RunId { pod: "p".into(), container: "c".into(), attempt: 0 };
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
        let want = ContainerUsage { cpu: Duration::from_millis(2_500), memory_bytes: 9 << 20 };
        assert_eq!(usage(parent.path(), &id), Some(want));
    }

    #[test]
    fn cgroup_files_of_limits() {
        let limits = ResourceLimits { cpu_millis: Some(1500), memory_bytes: Some(1 << 20), processes: 64 };
        let want = [
            ("pids.max", "64"),
            ("memory.max", "1048576"),
            ("memory.oom.group", "1"),
            ("cpu.max", "150000 100000"),
        ];
        assert_eq!(settings(&limits), want.map(|(file, text)| (file, text.to_owned())));
        let none = ResourceLimits { processes: 7, ..ResourceLimits::default() };
        assert_eq!(settings(&none), [("pids.max", "7".to_owned())], "no limit, no file");
        let tiny = ResourceLimits { cpu_millis: Some(1), processes: 7, ..ResourceLimits::default() };
        assert_eq!(settings(&tiny)[1].1, "1000 100000", "the kernel takes no less than a millisecond");
    }

    #[test]
    fn cgroup_of_this_process() {
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
    fn a_cgroup_is_removed_with_its_run() {
        let parent = tempfile::tempdir().unwrap();
        let id = RunId { pod: "uid".into(), container: "main".into(), attempt: 2 };
        assert!(ContainerCgroup::of_lost_run(parent.path(), &id).is_none());
        assert!(enter(parent.path(), &id).is_err(), "it has none");
        fs::create_dir(parent.path().join(leaf_name(&id))).unwrap();
        drop(ContainerCgroup::of_lost_run(parent.path(), &id).unwrap());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn oom_kill_events() {
        assert_eq!(oom_kills("low 0\nhigh 0\nmax 12\noom 2\noom_kill 3\noom_group_kill 1\n"), 3);
        assert_eq!(oom_kills(""), 0);
    }
}
