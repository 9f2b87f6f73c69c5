//! Workloads that take the value of their WorkloadPriorityClass.
//!
//! As with Kueue a class gives its value when it is created, changed, or first seen by a new leader. At any other time the
//! priority of a Workload is what a user writes into it.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::queue::{PriorityClassFacts, WorkloadFacts};
use muster_queue::reconcilers::workload::Action;

use crate::cache::WatchEvent;
use crate::controller::ObjectKey;

/// Workloads that have yet to take the value of their class, with the values that were written to them since.
#[derive(Debug, Default)]
pub(super) struct PriorityUpdates(BTreeMap<ObjectKey, BTreeSet<i64>>);

impl PriorityUpdates {
    /// Whether a class is new or its value changed.
    pub fn has_new_value(seen: &WatchEvent<'_>) -> bool {
        let [before, after] =
            [seen.old, seen.new].map(|it| it.map(|it| PriorityClassFacts::of(&it.tree).value));
        after.is_some() && before != after
    }

    /// The class of these Workloads has a new value.
    pub fn mark(&mut self, workloads: &[ObjectKey]) {
        for key in workloads {
            self.0.entry(key.clone()).or_default();
        }
    }

    pub fn is_due(&self, workload: &ObjectKey) -> bool {
        self.0.contains_key(workload)
    }

    /// Remembers the priority that is written next, to tell it from a user's.
    pub fn sent(&mut self, workload: &ObjectKey, steps: &[Action]) {
        let written = steps.iter().find_map(|step| match step {
            Action::SetPriority(priority) => Some(*priority),
            _ => None,
        });
        if let (Some(values), Some(priority)) = (self.0.get_mut(workload), written) {
            values.insert(priority);
        }
    }

    /// A Workload changed. A job integration may have built it with a value that the class no longer has; a priority that
    /// was not written here is a user's, and stays.
    pub fn on_workload_event(
        &mut self,
        key: &ObjectKey,
        before: Option<&WorkloadFacts>,
        after: Option<&WorkloadFacts>,
    ) {
        let Some(after) = after else {
            self.0.remove(key);
            return;
        };
        match before.filter(|it| it.uid == after.uid) {
            None if after.owners.is_empty() => {
                self.0.remove(key);
            }
            None => {
                self.0.insert(key.clone(), BTreeSet::new());
            }
            Some(before) => {
                let by_user = |values: &BTreeSet<i64>| {
                    before.priority != after.priority && !values.contains(&after.priority)
                };
                if self.0.get(key).is_some_and(by_user) {
                    self.0.remove(key);
                }
            }
        }
    }
}
