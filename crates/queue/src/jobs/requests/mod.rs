//! Requests of pod sets.
//!
//! [`adjusted`] applies what the API server would default, [`of_pod`] computes the requests of one pod,
//! [`of_sets`] those of a pending Workload and [`of_admission`] those of an admitted one; [`of_workload`] selects
//! between them.
//!
//! # Guarantees
//!
//! - Millicores of `cpu`, whole units of everything else, rounded up; never negative, saturating.
//! - Adjusted templates are used for counting only and are never written.

mod adjust;
mod limits;
mod transform;
mod unsupported;

use std::collections::BTreeMap;

use muster_api::pod_requests;
use muster_api::queue::consts::PODS;
use muster_api::queue::{Admission, Amounts, PodSet, WorkloadFacts};
use muster_tree::{Text, Tree};

pub use adjust::{PodEnvironment, adjust_resources};
pub use limits::{InvalidResources, LimitRangeBounds, NamespaceLimits, validate};
pub use transform::{ResourceAccounting, ResourceTransformation, TransformationStrategy};
pub use unsupported::{UnsupportedRequest, unsupported};

/// The requests of one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetRequests {
    pub name: Text,
    /// The pod count without reclaimable pods.
    pub count: u32,
    /// The requests of one pod.
    pub per_pod: Amounts,
}

impl PodSetRequests {
    /// The requests of all its pods.
    #[must_use]
    pub fn total(&self) -> Amounts {
        self.total_of(self.count)
    }

    /// The requests of `count` pods.
    #[must_use]
    pub fn total_of(&self, count: u32) -> Amounts {
        self.per_pod.iter().map(|(name, amount)| (name.clone(), times(*amount, count))).collect()
    }

    /// Adds [`PODS`], for a ClusterQueue that covers it.
    #[must_use]
    pub fn counting_pods(mut self) -> PodSetRequests {
        self.per_pod.insert(Text::from(PODS), 1);
        self
    }
}

/// The requests of one pod of this template, with resource transformations applied.
#[must_use]
pub fn of_pod(template: &Tree, accounting: &ResourceAccounting) -> Amounts {
    let mut requests = pod_requests::effective(template, &[]);
    for amount in requests.values_mut() {
        *amount = (*amount).max(0);
    }
    accounting.apply(requests)
}

/// The requests of pod sets without a reservation. Templates must be adjusted.
#[must_use]
pub fn of_sets(
    sets: &[PodSet],
    reclaimable: &BTreeMap<Text, u32>,
    accounting: &ResourceAccounting,
) -> Vec<PodSetRequests> {
    let one = |set: &PodSet| PodSetRequests {
        name: set.name.clone(),
        count: remaining(set.count, &set.name, reclaimable),
        per_pod: of_pod(&set.template, accounting),
    };
    sets.iter().map(one).collect()
}

/// The requests of admitted pod sets: the admitted usage, scaled by the remaining pods.
#[must_use]
pub fn of_admission(admission: &Admission, workload: &WorkloadFacts) -> Vec<PodSetRequests> {
    let assigned = admission.assignments.iter();
    let one = |(name, count, usage): (&Text, u32, &Amounts)| {
        // Admitted usage is a total over all pods; divide it back to one pod.
        let share = |amount: i64| amount.max(0).checked_div(i64::from(count)).unwrap_or(0);
        PodSetRequests {
            name: name.clone(),
            count: remaining(count, name, &workload.reclaimable),
            per_pod: usage.iter().map(|(resource, amount)| (resource.clone(), share(*amount))).collect(),
        }
    };
    let whole = |name: &Text| workload.pod_set(name).map_or(0, |set| set.count);
    assigned.map(|it| one((&it.name, it.count.unwrap_or_else(|| whole(&it.name)), &it.usage))).collect()
}

/// The requests of a Workload: by its admission if it has one, else by its adjusted pod sets.
#[must_use]
pub fn of_workload(
    workload: &WorkloadFacts,
    around: &PodEnvironment<'_>,
    accounting: &ResourceAccounting,
) -> Vec<PodSetRequests> {
    match &workload.admission {
        Some(admission) => of_admission(admission, workload),
        None => of_sets(&adjust_pod_sets(&workload.pod_sets, around), &workload.reclaimable, accounting),
    }
}

/// Pod sets with adjusted templates.
#[must_use]
pub fn adjust_pod_sets(sets: &[PodSet], around: &PodEnvironment<'_>) -> Vec<PodSet> {
    let one = |set: &PodSet| PodSet { template: adjust_resources(&set.template, around), ..set.clone() };
    sets.iter().map(one).collect()
}

fn remaining(count: u32, set: &Text, reclaimable: &BTreeMap<Text, u32>) -> u32 {
    count.saturating_sub(reclaimable.get(set).copied().unwrap_or(0))
}

fn times(amount: i64, count: u32) -> i64 {
    amount.saturating_mul(i64::from(count))
}
