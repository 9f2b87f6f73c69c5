//! What is counted of JobSets, under the names that dashboards know.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use muster_api::condition;
use muster_api::jobset::{JobSetFacts, JobSetStatus};
use muster_api::meta;
use muster_api::paths::condition as path;
use muster_api::port::Uid;
use muster_api::time::Time;
use muster_api::words::jobset::conditions;
use muster_tree::{Text, Tree};

use crate::counters::Waits;

/// A JobSet by namespace and name.
type Name = (Text, Text);

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSetNumbers {
    /// Completed, by JobSet; gone with the JobSet.
    pub completed: BTreeMap<Name, u64>,
    /// Failed, by JobSet; gone with the JobSet.
    pub failed: BTreeMap<Name, u64>,
    /// Restarts of whole JobSets, by namespace and the reason of the condition.
    pub restarts: BTreeMap<Name, u64>,
    /// How long it took from a restart until all Jobs were ready.
    pub restart_times: Waits,
}

impl AddAssign<&JobSetNumbers> for JobSetNumbers {
    fn add_assign(&mut self, other: &JobSetNumbers) {
        let pairs = [
            (&mut self.completed, &other.completed),
            (&mut self.failed, &other.failed),
            (&mut self.restarts, &other.restarts),
        ];
        for (mine, others) in pairs {
            others.iter().for_each(|(key, count)| *mine.entry(key.clone()).or_default() += count);
        }
        self.restart_times += &other.restart_times;
    }
}

/// What is counted, and what is needed to do so.
#[derive(Debug, Default)]
pub struct Numbers {
    shown: JobSetNumbers,
    /// When the restart under way of each began.
    restarting: BTreeMap<Uid, Time>,
}

impl Numbers {
    /// What is shown.
    pub fn told(&self) -> &JobSetNumbers {
        &self.shown
    }

    /// A status is about to be written.
    pub fn wrote(&mut self, set: &JobSetFacts, status: &JobSetStatus, now: Time) {
        let name = || (set.namespace.clone(), set.name.clone());
        if set.status.terminal.is_empty() && !status.terminal.is_empty() {
            let ends =
                if status.terminal == "Failed" { &mut self.shown.failed } else { &mut self.shown.completed };
            ends.insert(name(), 1);
        }
        if status.restarts > set.status.restarts {
            let reason = condition::find(&status.conditions, conditions::RESTARTING)
                .map(|it| it.text_at(path::REASON));
            *self.shown.restarts.entry((set.namespace.clone(), reason.unwrap_or_default())).or_default() += 1;
            self.restarting.insert(set.uid.clone(), now);
        } else if !condition::holds(&status.conditions, conditions::RESTARTING)
            && let Some(since) = self.restarting.remove(&set.uid)
        {
            self.shown.restart_times.add(now.since(since));
        }
    }

    /// A JobSet is gone, and its series with it.
    pub fn forget(&mut self, set: &Tree) {
        let name = (meta::namespace(set), meta::name(set));
        self.shown.completed.remove(&name);
        self.shown.failed.remove(&name);
        self.restarting.remove(&meta::uid(set));
    }
}
