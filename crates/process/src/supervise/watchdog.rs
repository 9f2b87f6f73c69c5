//! Holds a container to its limits where no control group does: looks at its processes and has it ended.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::Leaf;
use crate::clock;
use crate::files::{self, Known, Orders};
use crate::inside::command;
use crate::launch::{Isolation, Limits};
use crate::port::Why;
use crate::system::processes::Table;

/// How often a container far from its limits is looked at.
const CALM: Duration = Duration::from_millis(200);
/// How often one near its limits is.
const NEAR: Duration = Duration::from_millis(20);

/// What a container uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    processes: u64,
    bytes: u64,
}

/// Looks after one container.
pub struct Watchdog {
    table: Table,
    /// The run's folder.
    dir: PathBuf,
    isolation: Isolation,
    limits: Limits,
    /// Whether there is anything to look for.
    on: bool,
    next: Duration,
}

impl Watchdog {
    /// Nothing to do where a control group or an engine has the limits.
    #[must_use]
    pub fn new(table: Table, dir: &Path, orders: &Orders, leaf: Option<&Leaf>) -> Watchdog {
        Watchdog {
            table,
            dir: dir.to_owned(),
            isolation: orders.launch.isolation,
            limits: orders.launch.limits.clone(),
            on: leaf.is_none() && orders.engine.is_none(),
            next: clock::steady(),
        }
    }

    /// When to look next.
    #[must_use]
    pub fn look_in(&self) -> Option<Duration> {
        self.on.then(|| self.next.saturating_sub(clock::steady()))
    }

    /// The process with this number, to be told from later ones.
    #[must_use]
    pub fn know(&self, pid: i32) -> Option<Known> {
        self.table.know(pid)
    }

    /// Looks if it is time; why the container must end, if it must.
    pub fn look(&mut self, first: i32) -> Option<Why> {
        let now = clock::steady();
        if !self.on || now < self.next {
            return None;
        }
        let pids = members(&self.table, &self.dir, self.isolation, first);
        let used = self.used(&pids);
        self.next = now + if is_near(used, &self.limits) { NEAR } else { CALM };
        match judge(used, &self.limits)? {
            // Memory that is shared was counted for each who has it. Count again, exactly: that takes longer.
            Why::OutOfMemory if self.exact_bytes(&pids) <= self.limits.memory_bytes.unwrap_or(u64::MAX) => {
                None
            }
            why => {
                self.on = false;
                Some(why)
            }
        }
    }

    fn used(&self, pids: &[i32]) -> Used {
        let stats = pids.iter().filter_map(|pid| self.table.stat(*pid)).filter(|stat| !stat.is_zombie);
        stats.fold(Used::default(), |used, stat| Used {
            processes: used.processes + stat.threads,
            bytes: used.bytes.saturating_add(stat.resident_bytes),
        })
    }

    fn exact_bytes(&self, pids: &[i32]) -> u64 {
        let bytes = |pid: &i32| {
            let exact = self.table.proportional_bytes(*pid);
            exact.or_else(|| self.table.stat(*pid).map(|stat| stat.resident_bytes)).unwrap_or(0)
        };
        pids.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

/// All processes of the container in this folder but the first. Commands beside it are no descendants of that: where there
/// were any, the whole machine is searched, which takes longer.
pub fn members(table: &Table, dir: &Path, isolation: Isolation, first: i32) -> Vec<i32> {
    let mut all: BTreeSet<i32> = table.descendants(first).into_iter().collect();
    if dir.join(files::BESIDE).exists() {
        let beside = match isolation {
            Isolation::None => table.with_environment(&command::mark(dir)),
            Isolation::Namespaces => in_namespace_of(table, first),
        };
        let below: Vec<i32> = beside.iter().flat_map(|pid| table.descendants(*pid)).collect();
        all.extend(beside.into_iter().chain(below));
        all.remove(&first);
    }
    all.into_iter().collect()
}

fn in_namespace_of(table: &Table, first: i32) -> Vec<i32> {
    let Some(own) = table.namespace(first) else { return Vec::new() };
    let mut all = table.all();
    all.retain(|pid| table.namespace(*pid).as_ref() == Some(&own));
    all
}

fn judge(used: Used, limits: &Limits) -> Option<Why> {
    if used.processes > u64::from(limits.processes) {
        return Some(Why::TooManyProcesses);
    }
    limits.memory_bytes.is_some_and(|most| used.bytes > most).then_some(Why::OutOfMemory)
}

/// Half way to a limit the next look comes sooner.
fn is_near(used: Used, limits: &Limits) -> bool {
    used.processes.saturating_mul(2) > u64::from(limits.processes)
        || limits.memory_bytes.is_some_and(|most| used.bytes.saturating_mul(2) > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits() {
        let limits = Limits { cpu_millis: None, memory_bytes: Some(1000), processes: 10 };
        let cases = [
            ("little", 1, 100, None, false),
            ("half of the memory", 1, 501, None, true),
            ("at both limits", 10, 1000, None, true),
            ("one process too many", 11, 0, Some(Why::TooManyProcesses), true),
            ("one byte too many", 1, 1001, Some(Why::OutOfMemory), true),
            ("both: processes first, since a bomb grows", 11, 1001, Some(Why::TooManyProcesses), true),
        ];
        for (says, processes, bytes, want, near) in cases {
            let used = Used { processes, bytes };
            assert_eq!((judge(used, &limits), is_near(used, &limits)), (want, near), "{says}");
        }
        assert_eq!(
            judge(Used { processes: 1, bytes: u64::MAX }, &Limits { memory_bytes: None, ..limits }),
            None
        );
    }
}
