//! What pod sets ask of a queue: one pod, and all of them.
//!
//! [`adjusted`] fills in what the API server would, [`of_pod`] counts one pod, [`of_sets`] counts the sets of a Workload
//! that waits and [`of_admission`] those of one that was admitted; [`of_workload`]
//! chooses between them.
//!
//! # Invariants
//!
//! - Thousandths of `cpu`, whole units of everything else, rounded up; never negative, and at most what fits.
//! - Counting changes no object: adjusted templates are made for counting alone and are never written.

mod adjust;
mod limits;
mod transform;
mod unsupported;

use std::collections::BTreeMap;

use muster_api::pod_requests;
use muster_api::queue::words::PODS;
use muster_api::queue::{Admission, Amounts, PodSet, WorkloadFacts};
use muster_tree::{Text, Tree};

pub use adjust::{Around, adjusted};
pub use limits::{Bounds, Inadmissible, Limits, check};
pub use transform::{Accounting, Strategy, Transformation};
pub use unsupported::{Unsupported, unsupported};

/// What one pod set asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRequests {
    /// Its name.
    pub name: Text,
    /// Pods that count: those of the set without those that have given back their share.
    pub count: u32,
    /// What one pod asks for.
    pub per_pod: Amounts,
}

impl SetRequests {
    /// What all its pods ask for.
    #[must_use]
    pub fn total(&self) -> Amounts {
        self.total_of(self.count)
    }

    /// What so many of its pods ask for.
    #[must_use]
    pub fn total_of(&self, count: u32) -> Amounts {
        self.per_pod.iter().map(|(name, amount)| (name.clone(), times(*amount, count))).collect()
    }

    /// The same in a queue that covers [`PODS`]: each pod also asks for one of those.
    #[must_use]
    pub fn counting_pods(mut self) -> SetRequests {
        self.per_pod.insert(Text::from(PODS), 1);
        self
    }
}

/// What one pod of this template asks for, by what is configured.
#[must_use]
pub fn of_pod(template: &Tree, accounting: &Accounting) -> Amounts {
    let mut asked = pod_requests::effective(template, &[]);
    for amount in asked.values_mut() {
        *amount = (*amount).max(0);
    }
    accounting.apply(asked)
}

/// What the sets of a Workload without a reservation ask for. `reclaimable` pods count no more; templates are adjusted.
#[must_use]
pub fn of_sets(
    sets: &[PodSet],
    reclaimable: &BTreeMap<Text, u32>,
    accounting: &Accounting,
) -> Vec<SetRequests> {
    let one = |set: &PodSet| SetRequests {
        name: set.name.clone(),
        count: remaining(set.count, &set.name, reclaimable),
        per_pod: of_pod(&set.template, accounting),
    };
    sets.iter().map(one).collect()
}

/// What the sets of a Workload with a reservation hold: what they were admitted with, by the pods that are left.
#[must_use]
pub fn of_admission(admission: &Admission, workload: &WorkloadFacts) -> Vec<SetRequests> {
    let assigned = admission.assignments.iter();
    let one = |(name, count, usage): (&Text, u32, &Amounts)| {
        let share = |amount: i64| amount.max(0).checked_div(i64::from(count)).unwrap_or(0);
        SetRequests {
            name: name.clone(),
            count: remaining(count, name, &workload.reclaimable),
            per_pod: usage.iter().map(|(resource, amount)| (resource.clone(), share(*amount))).collect(),
        }
    };
    let whole = |name: &Text| workload.pod_set(name).map_or(0, |set| set.count);
    assigned.map(|it| one((&it.name, it.count.unwrap_or_else(|| whole(&it.name)), &it.usage))).collect()
}

/// What a Workload asks for, or holds: by its admission if it has one, else by its pod sets, adjusted.
#[must_use]
pub fn of_workload(
    workload: &WorkloadFacts,
    around: &Around<'_>,
    accounting: &Accounting,
) -> Vec<SetRequests> {
    match &workload.admission {
        Some(admission) => of_admission(admission, workload),
        None => of_sets(&adjusted_sets(&workload.pod_sets, around), &workload.reclaimable, accounting),
    }
}

/// Pod sets with templates as their pods would be.
#[must_use]
pub fn adjusted_sets(sets: &[PodSet], around: &Around<'_>) -> Vec<PodSet> {
    let one = |set: &PodSet| PodSet { template: adjusted(&set.template, around), ..set.clone() };
    sets.iter().map(one).collect()
}

fn remaining(count: u32, set: &Text, reclaimable: &BTreeMap<Text, u32>) -> u32 {
    count.saturating_sub(reclaimable.get(set).copied().unwrap_or(0))
}

fn times(amount: i64, count: u32) -> i64 {
    amount.saturating_mul(i64::from(count))
}
