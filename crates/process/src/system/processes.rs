//! Telling processes from their namesakes, finding descendants, and ending them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::channel::{Want, wait};
use super::signals;
use crate::files::Known;

/// How long between two looks at processes that are being ended.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// How often processes that are being ended are looked at before we give up.
const LOOKS_MAX: u32 = 5_000;

/// What the table of processes says of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Its parent.
    pub parent: i32,
    /// Its session.
    pub session: i32,
    /// How many threads it has.
    pub threads: u64,
    /// When it started, in ticks since boot.
    pub ticks: u64,
    /// CPU time of it and of those of its children that have ended and were waited for.
    pub cpu: Duration,
    /// Memory it holds, in bytes, what it shares included.
    pub resident_bytes: u64,
    /// Whether it has ended and nobody asked how yet.
    pub is_zombie: bool,
}

/// The table of processes, as seen when it was opened: it stays that one, whatever is mounted later.
pub struct Table {
    dir: OwnedFd,
}

impl Table {
    /// The machine's table, or the container's for those inside.
    ///
    /// # Errors
    /// What the system said.
    pub fn open() -> io::Result<Table> {
        let dir =
            rustix::fs::open("/proc", OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY, Mode::empty())?;
        Ok(Table { dir })
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
    pub fn stat(&self, pid: i32) -> Option<Stat> {
        parse_stat(&self.text(&format!("{pid}/stat"))?)
    }

    /// The process with this number, so that it can be told from later ones.
    #[must_use]
    pub fn know(&self, pid: i32) -> Option<Known> {
        let boot = self.text("sys/kernel/random/boot_id")?.trim().to_owned();
        Some(Known { pid, ticks: self.stat(pid)?.ticks, boot })
    }

    /// A handle on a known process if it is still that one.
    #[must_use]
    pub fn find(&self, known: &Known) -> Option<Handle> {
        let handle = rustix::process::pidfd_open(Pid::from_raw(known.pid)?, PidfdFlags::empty()).ok()?;
        // The handle came first: if the number was given away before, the start time tells.
        (self.know(known.pid).as_ref() == Some(known)).then_some(Handle { handle })
    }

    /// Memory of a process, where what is shared counts in parts.
    #[must_use]
    pub fn proportional_bytes(&self, pid: i32) -> Option<u64> {
        let text = self.text(&format!("{pid}/smaps_rollup"))?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }

    /// Children of a process, and theirs.
    #[must_use]
    pub fn descendants(&self, pid: i32) -> Vec<i32> {
        let mut all = Vec::new();
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
                None if self.text("thread-self/children").is_none() && self.stat(pid).is_some() => {
                    return self.children_by_scan(pid);
                }
                None => {}
            }
        }
        all
    }

    /// For kernels that do not list children.
    fn children_by_scan(&self, pid: i32) -> Vec<i32> {
        self.all().into_iter().filter(|child| self.stat(*child).is_some_and(|it| it.parent == pid)).collect()
    }

    /// All processes.
    #[must_use]
    pub fn all(&self) -> Vec<i32> {
        self.names(".")
    }

    /// Those of all processes whose environment has this entry.
    #[must_use]
    pub fn with_environment(&self, entry: &str) -> Vec<i32> {
        self.all().into_iter().filter(|pid| self.has_environment(*pid, entry)).collect()
    }

    /// Whether a process was begun with this entry in its environment.
    #[must_use]
    pub fn has_environment(&self, pid: i32, entry: &str) -> bool {
        let bytes = self.read(&format!("{pid}/environ")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|it| it == entry.as_bytes())
    }

    /// The process namespace of a process, in the kernel's words.
    #[must_use]
    pub fn namespace(&self, pid: i32) -> Option<String> {
        let link = rustix::fs::readlinkat(&self.dir, format!("{pid}/ns/pid"), Vec::new()).ok()?;
        link.into_string().ok()
    }

    /// The entries of a folder that are numbers.
    fn names(&self, path: &str) -> Vec<i32> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let Ok(dir) = rustix::fs::openat(&self.dir, path, flags, Mode::empty()) else { return Vec::new() };
        let Ok(dir) = rustix::fs::Dir::read_from(dir) else { return Vec::new() };
        dir.filter_map(|entry| entry.ok()?.file_name().to_str().ok()?.parse().ok()).collect()
    }
}

/// A process that cannot be mistaken for another.
pub struct Handle {
    handle: OwnedFd,
}

impl Handle {
    /// Sends a signal. Gone is fine.
    pub fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            let _ = rustix::process::pidfd_send_signal(&self.handle, signal);
        }
    }

    /// Waits until it is gone; whether it is.
    #[must_use]
    pub fn wait_gone(&self, time: Duration) -> bool {
        matches!(wait(&[(self.handle.as_fd(), Want::Read)], Some(time)).as_deref(), Ok([true]))
    }

    /// The handle itself.
    #[must_use]
    pub fn as_raw(&self) -> &OwnedFd {
        &self.handle
    }
}

/// Ends all that `list` names, looking again until it names none: whoever forks meanwhile is found by the next look.
/// Everybody is stopped first, so that a bomb does not grow faster than it is taken apart. After each look `between` is
/// called: who ends its own children must reap them, and who ends others must not reap at all.
pub fn end_all(list: impl Fn() -> Vec<i32>, mut between: impl FnMut()) {
    let mut stopped = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let new: Vec<i32> = list().into_iter().filter(|pid| stopped.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        new.iter().for_each(|pid| signals::send(*pid, nix::sys::signal::Signal::SIGSTOP as i32));
    }
    for _ in 0..LOOKS_MAX {
        let all = list();
        if all.is_empty() {
            break;
        }
        all.iter().for_each(|pid| signals::send(*pid, signals::KILL));
        between();
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Ends all descendants of this process; those that were its children come back.
pub fn end_descendants() -> Vec<Gone> {
    let mut gone = Vec::new();
    if let Ok(table) = Table::open() {
        let own = std::process::id().cast_signed();
        end_all(|| table.descendants(own), || gone.extend(reap()));
    }
    gone
}

/// Ends all processes of this machine whose environment has this entry. They need not be our descendants.
pub fn end_marked(entry: &str) {
    if let Ok(table) = Table::open() {
        end_all(|| table.with_environment(entry), || drop(reap()));
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// Which.
    pub pid: i32,
    /// Exit code; 128 + n for a signal n.
    pub code: i32,
    /// The signal, if it was one.
    pub signal: Option<i32>,
}

/// All children that have ended, adopted ones included.
pub fn reap() -> Vec<Gone> {
    let mut all = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let signal = status.terminating_signal();
        let code = signal.map_or_else(|| status.exit_status().unwrap_or(0), |signal| 128 + signal);
        all.push(Gone { pid: pid.as_raw_nonzero().get(), code, signal });
    }
    all
}

/// Reads a line of the table of processes. The name stands in parentheses and may hold anything, parentheses included.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| words.get(index).and_then(|it| it.parse::<u64>().ok());
    Some(Stat {
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
    fn names_may_hold_anything() {
        let line =
            "42 (a) b (c)) S 7 42 41 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 777 123 2 18446744073709551615";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.parent, stat.session, stat.threads, stat.ticks), (7, 41, 9, 777));
        assert_eq!(stat.cpu, ticks_to_time(5 + 6 + 7 + 8), "its own and that of its children");
        assert_eq!(stat.resident_bytes, 2 * rustix::param::page_size() as u64);
        assert_eq!(parse_stat("42 (x"), None);
    }

    #[test]
    fn a_process_is_known_until_it_is_another() {
        let table = Table::open().unwrap();
        let me = table.know(std::process::id().cast_signed()).unwrap();
        assert!(table.find(&me).is_some());
        assert!(
            table.find(&Known { ticks: me.ticks + 1, ..me.clone() }).is_none(),
            "the number was given away"
        );
        assert!(
            table.find(&Known { boot: "another".into(), ..me }).is_none(),
            "the machine was started again"
        );
    }
}
