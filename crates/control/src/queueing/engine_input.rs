//! Converts API objects into the input of the quota engine: names and numbers.

use std::collections::BTreeMap;

use muster_api::kinds::{LIMIT_RANGES, RUNTIME_CLASSES};
use muster_api::node::read_taint;
use muster_api::paths::{expression, node_term, pod as pod_path};
use muster_api::queue::consts::{conditions, labels, reasons};
use muster_api::queue::{
    CheckState, ClusterQueueFacts, CohortFacts, FlavorFacts, LocalQueueFacts, PodSet, ResourceGroup,
    StopPolicy, WorkloadFacts,
};
use muster_api::queue::{PreemptionPolicy as QueueWithin, QueueingStrategy as QueueStrategy};
use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_queue::engine::spec::{
    BorrowWithinCohortPolicy, ClusterQueueSpec, CohortSpec, FlavorResourceQuota, FlavorSearchPolicy,
    FlavorSpec, FungibilityPolicies, FungibilityPreference, InactiveReason, LocalQueueSpec,
    PreemptionPolicies, QueueingPolicy, ReclaimWithinCohortPolicy, ResourceGroupSpec,
    WithinClusterQueuePolicy,
};
use muster_queue::engine::workload::{
    Eviction, EvictionCause, FlavorNodeRequirements, NamespacedName, NodeSelectorOperator,
    NodeSelectorRequirement, PodSetResources, PodSetSpec as EngineSet, QuotaReservation, QuotaStatus,
    WorkloadInfo,
};
use muster_queue::jobs::requests::{self, NamespaceLimits, PodEnvironment, ResourceAccounting};
use muster_queue::reconcilers::queues::ActiveCondition;
use muster_queue::reconcilers::transitions;
use muster_tree::{Text, Tree};

use crate::cache::Caches;

pub fn key_of(namespace: &Text, name: &Text) -> NamespacedName {
    NamespacedName { namespace: namespace.clone(), name: name.clone() }
}

/// A ClusterQueue, with the reason if it is inactive.
pub fn cluster_queue(facts: &ClusterQueueFacts, ready: &ActiveCondition) -> ClusterQueueSpec {
    let search =
        |next: bool| if next { FlavorSearchPolicy::TryNextFlavor } else { FlavorSearchPolicy::MayStopSearch };
    let fungibility = FungibilityPolicies {
        when_can_borrow: search(facts.fungibility.next_before_borrowing),
        when_can_preempt: search(facts.fungibility.next_before_preempting),
        preference: if facts.fungibility.preemption_over_borrowing {
            FungibilityPreference::PreemptionOverBorrowing
        } else {
            FungibilityPreference::BorrowingOverPreemption
        },
    };
    let borrow = facts.preemption.borrow;
    let preemption = PreemptionPolicies {
        within_cluster_queue: match facts.preemption.within {
            QueueWithin::Never => WithinClusterQueuePolicy::Never,
            QueueWithin::LowerPriority => WithinClusterQueuePolicy::LowerPriority,
            QueueWithin::LowerOrNewerEqualPriority | QueueWithin::Any => {
                WithinClusterQueuePolicy::LowerOrNewerEqualPriority
            }
        },
        reclaim_within_cohort: match facts.preemption.reclaim {
            QueueWithin::Never => ReclaimWithinCohortPolicy::Never,
            QueueWithin::LowerPriority | QueueWithin::LowerOrNewerEqualPriority => {
                ReclaimWithinCohortPolicy::LowerPriority
            }
            QueueWithin::Any => ReclaimWithinCohortPolicy::Any,
        },
        borrow_within_cohort: borrow
            .lower_priority
            .then_some(BorrowWithinCohortPolicy { max_priority_threshold: borrow.max_priority }),
    };
    ClusterQueueSpec {
        name: facts.name.clone(),
        cohort: some(&facts.cohort),
        groups: groups(&facts.groups),
        strategy: match facts.strategy {
            QueueStrategy::StrictFifo => QueueingPolicy::StrictFifo,
            QueueStrategy::BestEffortFifo => QueueingPolicy::BestEffortFifo,
        },
        namespace_selector: facts.namespaces.clone(),
        fungibility,
        preemption,
        weight: weight(facts.weight_nano),
        inactive: idle(ready),
    }
}

fn idle(ready: &ActiveCondition) -> Option<InactiveReason> {
    match ready.reason {
        _ if ready.holds => None,
        reasons::TERMINATING => Some(InactiveReason::Terminating),
        reasons::STOPPED => Some(InactiveReason::Stopped),
        reasons::FLAVOR_NOT_FOUND => Some(InactiveReason::FlavorNotFound),
        _ => Some(InactiveReason::AdmissionChecks),
    }
}

pub fn cohort(facts: &CohortFacts) -> CohortSpec {
    CohortSpec {
        name: facts.name.clone(),
        parent: some(&facts.parent),
        groups: groups(&facts.groups),
        weight: weight(facts.weight_nano),
    }
}

/// A ResourceFlavor.
pub fn flavor(facts: &FlavorFacts) -> FlavorSpec {
    FlavorSpec {
        name: facts.name.clone(),
        labels: facts.labels.iter().cloned().collect(),
        taints: facts.taints.iter().filter_map(read_taint).collect(),
        tolerations: facts.tolerations.iter().map(Toleration::of).collect(),
    }
}

/// A LocalQueue.
pub fn local_queue(facts: &LocalQueueFacts) -> LocalQueueSpec {
    LocalQueueSpec {
        namespace: facts.namespace.clone(),
        name: facts.name.clone(),
        cluster_queue: facts.cluster_queue.clone(),
        stopped: facts.stop != StopPolicy::None || facts.deleting,
    }
}

fn some(name: &Text) -> Option<Text> {
    (!name.is_empty()).then(|| name.clone())
}

fn weight(nano: i64) -> u64 {
    u64::try_from(nano).unwrap_or(0)
}

fn groups(all: &[ResourceGroup]) -> Vec<ResourceGroupSpec> {
    let one = |group: &ResourceGroup| {
        let flavors = group.flavors.iter().map(|flavor| {
            let quotas = flavor.resources.iter().map(|it| {
                let quota = FlavorResourceQuota {
                    nominal: it.nominal,
                    borrowing_limit: it.borrowing_limit,
                    lending_limit: it.lending_limit,
                };
                (it.name.clone(), quota)
            });
            (flavor.name.clone(), quotas.collect())
        });
        ResourceGroupSpec { flavors: flavors.collect() }
    };
    all.iter().map(one).collect()
}

/// The bounds of a namespace.
pub fn limits(namespace: &Text, caches: &Caches) -> NamespaceLimits {
    NamespaceLimits::of(caches.in_namespace(&LIMIT_RANGES, namespace).map(|it| &it.tree))
}

/// The RuntimeClass of a name.
pub fn runtime_class(name: &str, caches: &Caches) -> Option<Tree> {
    caches.get(&RUNTIME_CLASSES, &Text::new(), &name.into()).map(|it| it.tree.clone())
}

/// Whether pods of a Workload run by this RuntimeClass.
pub fn runs_by(facts: &WorkloadFacts, class: &str) -> bool {
    facts.pod_sets.iter().any(|set| set.template.str_at(pod_path::RUNTIME_CLASS) == class)
}

/// A Workload, with the effective requests of its pods.
pub fn workload(
    facts: &WorkloadFacts,
    around: &PodEnvironment<'_>,
    accounting: &ResourceAccounting,
) -> WorkloadInfo {
    let adjusted = requests::adjust_pod_sets(&facts.pod_sets, around);
    let wrong = requests::validate(&adjusted, around.limits).err().map(|why| why.to_string());
    // Admitting it would start pods on nodes or devices that the quota does not account for.
    let wrong = wrong.or_else(|| requests::unsupported(&adjusted).map(|why| why.to_string()));
    let failed = |state: CheckState| matches!(state, CheckState::Retry | CheckState::Rejected);
    WorkloadInfo {
        key: key_of(&facts.namespace, &facts.name),
        uid: facts.uid.clone(),
        job_uid: facts.label(labels::JOB_UID).map(Text::from),
        local_queue: facts.queue.clone(),
        priority: facts.priority,
        created: facts.created.unwrap_or_default(),
        pod_sets: adjusted.iter().map(|set| pod_set(set, facts, accounting)).collect(),
        status: stand(facts),
        evicted: eviction(facts),
        on_hold: facts.condition(conditions::REQUEUED).is_some_and(|it| !it.holds),
        requeue_at: facts.requeue.and_then(|it| it.at),
        checks_failed: facts.checks.iter().any(|it| failed(it.state)),
        invalid_resources: wrong,
        pods_ready: facts.holds(conditions::PODS_READY),
    }
}

fn stand(facts: &WorkloadFacts) -> QuotaStatus {
    match (transitions::phase(facts), &facts.admission) {
        (transitions::WorkloadPhase::Finished, _) => QuotaStatus::Finished,
        (
            transitions::WorkloadPhase::QuotaReserved | transitions::WorkloadPhase::Admitted,
            Some(admission),
        ) => {
            let since = facts.condition(conditions::QUOTA_RESERVED).and_then(|it| it.since);
            let sets = admission.assignments.iter().map(|it| PodSetResources {
                name: it.name.clone(),
                flavors: it.flavors.clone(),
                usage: it.usage.clone(),
                count: i64::from(
                    it.count.unwrap_or_else(|| facts.pod_set(&it.name).map_or(0, |set| set.count)),
                ),
            });
            QuotaStatus::QuotaReserved(QuotaReservation {
                queue: admission.cluster_queue.clone(),
                pod_sets: sets.collect(),
                since: since.unwrap_or_default(),
                admitted: facts.is_admitted(),
            })
        }
        (
            transitions::WorkloadPhase::QuotaReserved
            | transitions::WorkloadPhase::Admitted
            | transitions::WorkloadPhase::Pending,
            _,
        ) => {
            if transitions::is_queueable(facts) {
                QuotaStatus::Pending
            } else {
                QuotaStatus::Blocked
            }
        }
    }
}

fn eviction(facts: &WorkloadFacts) -> Option<Eviction> {
    let evicted = facts.condition(conditions::EVICTED).filter(|it| it.holds)?;
    let cause = match evicted.reason.as_str() {
        reasons::PODS_READY_TIMEOUT => EvictionCause::PodsReadyTimeout,
        reasons::ADMISSION_CHECK => EvictionCause::AdmissionCheck,
        _ => EvictionCause::Other,
    };
    Some(Eviction { cause, at: evicted.since.unwrap_or(Time::default()) })
}

fn pod_set(set: &PodSet, facts: &WorkloadFacts, accounting: &ResourceAccounting) -> EngineSet {
    EngineSet {
        name: set.name.clone(),
        count: i64::from(set.count),
        min_count: set.min_count.map(i64::from),
        reclaimable: facts.reclaimable.get(&set.name).copied().map_or(0, i64::from),
        requests: requests::of_pod(&set.template, accounting),
        tolerations: Toleration::all_of(&set.template),
        affinity: affinity(&set.template),
    }
}

fn affinity(template: &Tree) -> FlavorNodeRequirements {
    let selector = template.entries_at(pod_path::NODE_SELECTOR).iter();
    let selector: BTreeMap<Text, Text> =
        selector.filter_map(|(key, it)| Some((key.clone(), it.as_text()?.clone()))).collect();
    let term =
        |term: &Tree| term.items_at(node_term::EXPRESSIONS).iter().filter_map(read_expression).collect();
    FlavorNodeRequirements {
        selector,
        terms: template.items_at(pod_path::NODE_AFFINITY).iter().map(term).collect(),
    }
}

fn read_expression(tree: &Tree) -> Option<NodeSelectorRequirement> {
    let operator = match tree.str_at(expression::OPERATOR) {
        "In" => NodeSelectorOperator::In,
        "NotIn" => NodeSelectorOperator::NotIn,
        "Exists" => NodeSelectorOperator::Exists,
        "DoesNotExist" => NodeSelectorOperator::DoesNotExist,
        "Gt" => NodeSelectorOperator::Gt,
        "Lt" => NodeSelectorOperator::Lt,
        _ => return None,
    };
    let values = tree.items_at(expression::VALUES).iter().filter_map(|it| it.as_text().cloned());
    Some(NodeSelectorRequirement { key: tree.text_at(expression::KEY), operator, values: values.collect() })
}
