//! What is counted of JobSets, under the names that dashboards know.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use muster_api::condition;
use muster_api::consts::jobset::conditions;
use muster_api::jobset::JobSetStatus;
use muster_api::meta;
use muster_api::paths::{condition as path, jobset};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::cache::WatchEvent;
use crate::metrics::DurationHistogram;

/// A JobSet by namespace and name.
type Name = (Text, Text);

/// What is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobSetMetrics {
    /// Completed, by JobSet; gone with the JobSet.
    pub completed: BTreeMap<Name, u64>,
    /// Failed, by JobSet; gone with the JobSet.
    pub failed: BTreeMap<Name, u64>,
    /// Restarts of whole JobSets, by namespace and the reason of the condition.
    pub restarts: BTreeMap<Name, u64>,
    /// How long it took from a restart until all Jobs were ready.
    pub restart_times: DurationHistogram,
}

impl AddAssign<&JobSetMetrics> for JobSetMetrics {
    fn add_assign(&mut self, other: &JobSetMetrics) {
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

/// What is counted.
#[derive(Debug, Default)]
pub struct JobSetMetricsRecorder {
    shown: JobSetMetrics,
}

impl JobSetMetricsRecorder {
    /// What is shown.
    pub fn told(&self) -> &JobSetMetrics {
        &self.shown
    }

    /// A JobSet changed. What had happened before we came is not counted.
    pub fn saw(&mut self, seen: &WatchEvent<'_>) {
        let (Some(before), Some(after)) = (seen.old, seen.new) else { return };
        let [old, new] = [before, after].map(|it| it.tree.at(jobset::STATUS).unwrap_or(&Tree::Null));
        if old == new {
            return;
        }
        let [old, new] = [old, new].map(JobSetStatus::of);
        let name = || (seen.key.namespace.clone(), seen.key.name.clone());
        if old.terminal.is_empty() && !new.terminal.is_empty() {
            let failed = new.terminal == "Failed";
            let ends = if failed { &mut self.shown.failed } else { &mut self.shown.completed };
            ends.insert(name(), 1);
        }
        let restarting = condition::find(&new.conditions, conditions::RESTARTING);
        if new.restarts > old.restarts {
            let reason = restarting.map(|it| it.text_at(path::REASON)).unwrap_or_default();
            *self.shown.restarts.entry((seen.key.namespace.clone(), reason)).or_default() += 1;
        }
        // Both ends stand in the condition itself.
        let since = |all: &[Tree]| Time::of(condition::find(all, conditions::RESTARTING)?.at(path::SINCE));
        let was = condition::is_true(&old.conditions, conditions::RESTARTING);
        let is = condition::is_true(&new.conditions, conditions::RESTARTING);
        if let (true, Some(from), Some(to)) = (was && !is, since(&old.conditions), since(&new.conditions)) {
            self.shown.restart_times.observe(to.since(from));
        }
    }

    /// A JobSet is gone, and its series with it.
    pub fn forget(&mut self, set: &Tree) {
        let name = (meta::namespace(set), meta::name(set));
        self.shown.completed.remove(&name);
        self.shown.failed.remove(&name);
    }
}
