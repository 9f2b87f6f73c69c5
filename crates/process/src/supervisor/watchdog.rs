//! Enforces memory and process limits where no cgroup does, by polling /proc.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::ContainerCgroup;
use crate::clock;
use crate::container_config::{Isolation, ResourceLimits};
use crate::init_process::command;
use crate::run_files::{self, ProcessIdentity, SupervisorConfig};
use crate::runtime::ExitReason;
use crate::system::processes::ProcTable;

/// Poll interval far from the limits.
const CALM: Duration = Duration::from_millis(200);
/// Poll interval above half of a limit.
const NEAR: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    processes: u64,
    bytes: u64,
}

pub struct Watchdog {
    table: ProcTable,
    dir: PathBuf,
    isolation: Isolation,
    limits: ResourceLimits,
    /// Whether limits are enforced here.
    on: bool,
    next: Duration,
}

impl Watchdog {
    /// Disabled if a cgroup or an engine enforces the limits.
    #[must_use]
    pub fn new(
        table: ProcTable,
        dir: &Path,
        orders: &SupervisorConfig,
        leaf: Option<&ContainerCgroup>,
    ) -> Watchdog {
        Watchdog {
            table,
            dir: dir.to_owned(),
            isolation: orders.launch.isolation,
            limits: orders.launch.limits.clone(),
            on: leaf.is_none() && orders.engine.is_none(),
            next: clock::steady(),
        }
    }

    /// Time until the next check.
    #[must_use]
    pub fn next_check_in(&self) -> Option<Duration> {
        self.on.then(|| self.next.saturating_sub(clock::steady()))
    }

    /// The identity of a process.
    #[must_use]
    pub fn know(&self, pid: i32) -> Option<ProcessIdentity> {
        self.table.know(pid)
    }

    /// Checks the limits if it is time; returns the reason to kill the container.
    pub fn look(&mut self, first: i32) -> Option<ExitReason> {
        let now = clock::steady();
        if !self.on || now < self.next {
            return None;
        }
        let pids = container_processes(&self.table, &self.dir, self.isolation, first);
        let used = self.used(&pids);
        self.next = now + if is_near(used, &self.limits) { NEAR } else { CALM };
        match exceeded_limit(used, &self.limits)? {
            // RSS counts shared memory once per process. Confirm with PSS, which is slower.
            ExitReason::OutOfMemory
                if self.exact_bytes(&pids) <= self.limits.memory_bytes.unwrap_or(u64::MAX) =>
            {
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

/// All processes of a container except init. Exec'd commands do not descend from it: if there were any, all processes
/// of the host are searched, which is slower.
pub fn container_processes(table: &ProcTable, dir: &Path, isolation: Isolation, first: i32) -> Vec<i32> {
    let mut all: BTreeSet<i32> = table.descendants(first).into_iter().collect();
    if dir.join(run_files::EXEC_MARKER).exists() {
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

fn in_namespace_of(table: &ProcTable, first: i32) -> Vec<i32> {
    let Some(own) = table.namespace(first) else { return Vec::new() };
    let mut all = table.all();
    all.retain(|pid| table.namespace(*pid).as_ref() == Some(&own));
    all
}

fn exceeded_limit(used: Used, limits: &ResourceLimits) -> Option<ExitReason> {
    if used.processes > u64::from(limits.processes) {
        return Some(ExitReason::TooManyProcesses);
    }
    limits.memory_bytes.is_some_and(|most| used.bytes > most).then_some(ExitReason::OutOfMemory)
}

/// Above half of a limit the poll interval is shorter.
fn is_near(used: Used, limits: &ResourceLimits) -> bool {
    used.processes.saturating_mul(2) > u64::from(limits.processes)
        || limits.memory_bytes.is_some_and(|most| used.bytes.saturating_mul(2) > most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_checks() {
        let limits = ResourceLimits { cpu_millis: None, memory_bytes: Some(1000), processes: 10 };
        let cases = [
            ("little", 1, 100, None, false),
            ("half of the memory", 1, 501, None, true),
            ("at both limits", 10, 1000, None, true),
            ("one process too many", 11, 0, Some(ExitReason::TooManyProcesses), true),
            ("one byte too many", 1, 1001, Some(ExitReason::OutOfMemory), true),
            ("both: processes first, since a bomb grows", 11, 1001, Some(ExitReason::TooManyProcesses), true),
        ];
        for (says, processes, bytes, want, near) in cases {
            let used = Used { processes, bytes };
            assert_eq!((exceeded_limit(used, &limits), is_near(used, &limits)), (want, near), "{says}");
        }
        assert_eq!(
            exceeded_limit(
                Used { processes: 1, bytes: u64::MAX },
                &ResourceLimits { memory_bytes: None, ..limits }
            ),
            None
        );
    }
}
