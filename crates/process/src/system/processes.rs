//! Process trees from /proc, PID-reuse-safe handles, killing and reaping.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::channel::{Interest, wait};
use super::signals;
use crate::run_files::ProcessIdentity;

/// Poll interval while processes are being killed.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum polls before giving up.
const POLLS_MAX: u32 = 5_000;

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcStat {
    pub parent: i32,
    pub session: i32,
    /// How many threads it has.
    pub threads: u64,
    /// Start time, in ticks since boot.
    pub ticks: u64,
    /// CPU time, including reaped children.
    pub cpu: Duration,
    /// RSS in bytes, including shared memory.
    pub resident_bytes: u64,
    /// Whether it has exited and is not reaped yet.
    pub is_zombie: bool,
}

/// `/proc` as it was mounted when opened, independent of later mounts.
pub struct ProcTable {
    dir: OwnedFd,
}

impl ProcTable {
    /// Opens `/proc` of the current mount namespace.
    pub fn open() -> io::Result<ProcTable> {
        let dir =
            rustix::fs::open("/proc", OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())?;
        Ok(ProcTable { dir })
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = rustix::fs::openat(&self.dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut all = Vec::new();
        File::from(file).read_to_end(&mut all)?;
        Ok(all)
    }

    fn text(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.read(path).ok()?).into_owned())
    }

    /// What is known of a process.
    #[must_use]
    pub fn stat(&self, pid: i32) -> Option<ProcStat> {
        parse_stat(&self.text(&format!("{pid}/stat"))?)
    }

    /// The identity of a process, safe against PID reuse.
    #[must_use]
    pub fn know(&self, pid: i32) -> Option<ProcessIdentity> {
        let boot = self.text("sys/kernel/random/boot_id")?.trim().to_owned();
        Some(ProcessIdentity { pid, ticks: self.stat(pid)?.ticks, boot })
    }

    /// A pidfd of a process, if it still is the same one.
    #[must_use]
    pub fn find(&self, known: &ProcessIdentity) -> Option<PidHandle> {
        let handle = rustix::process::pidfd_open(Pid::from_raw(known.pid)?, PidfdFlags::empty()).ok()?;
        // The pidfd is opened first: if the PID was reused before, the start time differs.
        (self.know(known.pid).as_ref() == Some(known)).then_some(PidHandle { handle })
    }

    /// PSS of a process: shared memory counts proportionally.
    #[must_use]
    pub fn proportional_bytes(&self, pid: i32) -> Option<u64> {
        let text = self.text(&format!("{pid}/smaps_rollup"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }

    /// All descendants of a process.
    #[must_use]
    pub fn descendants(&self, pid: i32) -> Vec<i32> {
        let mut all = Vec::new();
        // Guards against cycles when PIDs are reused during the walk.
        let mut seen = BTreeSet::from([pid]);
        let mut next = vec![pid];
        while let Some(parent) = next.pop() {
            for child in self.children(parent) {
                if seen.insert(child) {
                    all.push(child);
                    next.push(child);
                }
            }
        }
        all
    }

    fn children(&self, pid: i32) -> Vec<i32> {
        let mut all = Vec::new();
        for task in self.names(&format!("{pid}/task")) {
            match self.text(&format!("{pid}/task/{task}/children")) {
                Some(text) => all.extend(text.split_whitespace().filter_map(|it| it.parse::<i32>().ok())),
                // The file is missing for every thread: the kernel does not provide it.
                None if self.text("thread-self/children").is_none() && self.stat(pid).is_some() => {
                    return self.children_by_scan(pid);
                }
                None => {}
            }
        }
        all
    }

    /// For kernels without CONFIG_PROC_CHILDREN.
    fn children_by_scan(&self, pid: i32) -> Vec<i32> {
        self.all().into_iter().filter(|child| self.stat(*child).is_some_and(|it| it.parent == pid)).collect()
    }

    #[must_use]
    pub fn all(&self) -> Vec<i32> {
        self.names(".")
    }

    /// All processes with this entry in their environment.
    #[must_use]
    pub fn with_environment(&self, entry: &str) -> Vec<i32> {
        self.all().into_iter().filter(|pid| self.has_environment(*pid, entry)).collect()
    }

    /// Whether a process was started with this environment entry.
    #[must_use]
    pub fn has_environment(&self, pid: i32, entry: &str) -> bool {
        let bytes = self.read(&format!("{pid}/environ")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|it| it == entry.as_bytes())
    }

    /// The PID namespace of a process, as the kernel formats it.
    #[must_use]
    pub fn namespace(&self, pid: i32) -> Option<String> {
        let link = rustix::fs::readlinkat(&self.dir, format!("{pid}/ns/pid"), Vec::new()).ok()?;
        link.into_string().ok()
    }

    /// The numeric entries of a directory.
    fn names(&self, path: &str) -> Vec<i32> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let Ok(dir) = rustix::fs::openat(&self.dir, path, flags, Mode::empty()) else { return Vec::new() };
        let Ok(dir) = rustix::fs::Dir::read_from(dir) else { return Vec::new() };
        dir.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok()).collect()
    }
}

pub struct PidHandle {
    handle: OwnedFd,
}

impl PidHandle {
    /// Sends a signal; ignored if it has exited.
    pub fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = rustix::process::pidfd_send_signal(&self.handle, signal);
        }
    }

    /// Waits for the exit; returns whether it happened.
    #[must_use]
    pub fn wait_gone(&self, time: Duration) -> bool {
        matches!(wait(&[(self.handle.as_fd(), Interest::Read)], Some(time)).as_deref(), Ok([true]))
    }

    #[must_use]
    pub fn as_raw(&self) -> &OwnedFd {
        &self.handle
    }
}

/// Kills all processes that `list` returns, repeatedly until it returns none, since processes may fork meanwhile. All
/// are stopped first, so that a fork bomb does not outgrow the kills. `between` runs after each round: a caller that
/// kills its own children must reap them, any other must not.
pub fn kill_all(list: impl Fn() -> Vec<i32>, mut between: impl FnMut()) {
    let mut stopped = BTreeSet::new();
    for _ in 0..POLLS_MAX {
        let new: Vec<i32> = list().into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|pid| signals::send(*pid, nix::sys::signal::Signal::SIGSTOP as i32));
    }
    for _ in 0..POLLS_MAX {
        let all = list();
        if all.is_empty() {
            break;
        }
        all.iter().for_each(|pid| signals::send(*pid, signals::KILL));
        between();
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Kills all descendants of this process; returns the exits of its children.
pub fn kill_descendants() -> Vec<ChildExit> {
    let mut gone = Vec::new();
    if let Ok(table) = ProcTable::open() {
        let own = std::process::id().cast_signed();
        kill_all(|| table.descendants(own), || gone.extend(reap()));
    }
    gone
}

/// Kills all processes of the host with this environment entry, descendants or not.
pub fn kill_with_environment(entry: &str) {
    if let Ok(table) = ProcTable::open() {
        kill_all(|| table.with_environment(entry), || drop(reap()));
    }
}

/// The exit of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChildExit {
    pub pid: i32,
    /// Exit code: 128 + n for signal n.
    pub code: i32,
    pub signal: Option<i32>,
}

/// Reaps all exited children, including adopted ones.
pub fn reap() -> Vec<ChildExit> {
    let mut all = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let signal = status.terminating_signal();
        let code = signal.map_or_else(|| status.exit_status().unwrap_or(0), |signal| 128 + signal);
        all.push(ChildExit { pid: pid.as_raw_nonzero().get(), code, signal });
    }
    all
}

/// Parses `/proc/<pid>/stat`. The name is in parentheses and may contain any character.
fn parse_stat(text: &str) -> Option<ProcStat> {
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| words.get(index).and_then(|it| it.parse::<u64>().ok());
    Some(ProcStat {
        parent: words.get(1)?.parse().ok()?,
        session: words.get(3)?.parse().ok()?,
        threads: number(17)?,
        ticks: number(19)?,
        cpu: ticks_to_time((11..=14).map(number).sum::<Option<u64>>()?),
        resident_bytes: number(21)? * rustix::param::page_size() as u64,
        is_zombie: matches!(words.first().copied(), Some("Z" | "X")),
    })
}

fn ticks_to_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(1_000) / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_may_contain_any_character() {
        let line =
            "42 (a) b (c)) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 777 123 2 18446744073709551615";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.parent, stat.session, stat.threads, stat.ticks), (7, 41, 9, 777));
        assert_eq!(stat.cpu, ticks_to_time(5 + 6 + 7 + 8), "its own and that of its children");
        assert_eq!(stat.resident_bytes, 2 * rustix::param::page_size() as u64);
        assert_eq!(parse_stat("42 (x"), None);
    }

    #[test]
    fn a_handle_is_not_opened_after_pid_reuse() {
        let table = ProcTable::open().unwrap();
        let me = table.know(std::process::id().cast_signed()).unwrap();
        assert!(table.find(&me).is_some());
        assert!(
            table.find(&ProcessIdentity { ticks: me.ticks + 1, ..me.clone() }).is_none(),
            "the number was given away"
        );
        assert!(
            table.find(&ProcessIdentity { boot: "another".into(), ..me }).is_none(),
            "the machine was started again"
        );
    }
}
