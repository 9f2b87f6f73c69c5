//! Objects as the engine wants to hear of them: names and numbers.

use std::collections::BTreeMap;

use muster_api::kinds::{LIMIT_RANGES, RUNTIME_CLASSES};
use muster_api::node::read_taint;
use muster_api::paths::{expression, node_term, pod as pod_path};
use muster_api::queue::words::{conditions, labels, reasons};
use muster_api::queue::{
    ClusterQueueFacts, CohortFacts, FlavorFacts, LocalQueueFacts, PodSet, ResourceGroup, State, StopPolicy,
    WorkloadFacts,
};
use muster_api::queue::{Strategy as QueueStrategy, Within as QueueWithin};
use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_queue::engine::spec::{
    CohortSpec, FlavorSpec, Fungibility, Group, Idle, LocalQueueSpec, Preemption, Preference, QueueSpec,
    Quota, Reclaim, Search, Strategy, WhileBorrowing, Within,
};
use muster_queue::engine::workload::{
    Affinity, Eviction, EvictionCause, Expression, Info, Key, Operator, PodSet as EngineSet, Reservation,
    SetAssignment, Stand,
};
use muster_queue::jobs::requests::{self, Accounting, Around, Limits};
use muster_queue::life::queues::Readiness;
use muster_queue::life::steps;
use muster_tree::{Text, Tree};

use crate::cache::Caches;

/// The name of a Workload.
pub fn key_of(namespace: &Text, name: &Text) -> Key {
    Key { namespace: namespace.clone(), name: name.clone() }
}

/// A ClusterQueue, and whether it takes Workloads.
pub fn cluster_queue(facts: &ClusterQueueFacts, ready: &Readiness) -> QueueSpec {
    let search = |next: bool| if next { Search::TryNext } else { Search::MayStop };
    let fungibility = Fungibility {
        when_can_borrow: search(facts.fungibility.next_before_borrowing),
        when_can_preempt: search(facts.fungibility.next_before_preempting),
        preference: if facts.fungibility.preemption_over_borrowing {
            Preference::PreemptionOverBorrowing
        } else {
            Preference::BorrowingOverPreemption
        },
    };
    let borrow = facts.preemption.borrow;
    let preemption = Preemption {
        within: match facts.preemption.within {
            QueueWithin::Never => Within::Never,
            QueueWithin::LowerPriority => Within::LowerPriority,
            QueueWithin::LowerOrNewerEqualPriority | QueueWithin::Any => Within::LowerOrNewerEqualPriority,
        },
        reclaim: match facts.preemption.reclaim {
            QueueWithin::Never => Reclaim::Never,
            QueueWithin::LowerPriority | QueueWithin::LowerOrNewerEqualPriority => Reclaim::LowerPriority,
            QueueWithin::Any => Reclaim::Any,
        },
        while_borrowing: borrow.lower_priority.then_some(WhileBorrowing { threshold: borrow.max_priority }),
    };
    QueueSpec {
        name: facts.name.clone(),
        cohort: some(&facts.cohort),
        groups: groups(&facts.groups),
        strategy: match facts.strategy {
            QueueStrategy::StrictFifo => Strategy::StrictFifo,
            QueueStrategy::BestEffortFifo => Strategy::BestEffortFifo,
        },
        namespaces: facts.namespaces.clone(),
        fungibility,
        preemption,
        weight: weight(facts.weight_nano),
        idle: idle(ready),
    }
}

fn idle(ready: &Readiness) -> Option<Idle> {
    match ready.reason {
        _ if ready.holds => None,
        reasons::TERMINATING => Some(Idle::Terminating),
        reasons::STOPPED => Some(Idle::Stopped),
        reasons::FLAVOR_NOT_FOUND => Some(Idle::FlavorNotFound),
        _ => Some(Idle::Checks),
    }
}

/// A Cohort.
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
        queue: facts.cluster_queue.clone(),
        stopped: facts.stop != StopPolicy::None || facts.deleting,
    }
}

fn some(name: &Text) -> Option<Text> {
    (!name.is_empty()).then(|| name.clone())
}

fn weight(nano: i64) -> u64 {
    u64::try_from(nano).unwrap_or(0)
}

fn groups(all: &[ResourceGroup]) -> Vec<Group> {
    let one = |group: &ResourceGroup| {
        let flavors = group.flavors.iter().map(|flavor| {
            let quotas = flavor.resources.iter().map(|it| {
                let quota =
                    Quota { nominal: it.nominal, borrowing: it.borrowing_limit, lending: it.lending_limit };
                (it.name.clone(), quota)
            });
            (flavor.name.clone(), quotas.collect())
        });
        Group { flavors: flavors.collect() }
    };
    all.iter().map(one).collect()
}

/// The bounds of a namespace.
pub fn limits(namespace: &Text, caches: &Caches) -> Limits {
    Limits::of(caches.in_namespace(&LIMIT_RANGES, namespace).map(|it| &it.tree))
}

/// The RuntimeClass of a name.
pub fn runtime_class(name: &str, caches: &Caches) -> Option<Tree> {
    caches.get(&RUNTIME_CLASSES, &Text::new(), &name.into()).map(|it| it.tree.clone())
}

/// Whether pods of a Workload run by this RuntimeClass.
pub fn runs_by(facts: &WorkloadFacts, class: &str) -> bool {
    facts.pod_sets.iter().any(|set| set.template.str_at(pod_path::RUNTIME_CLASS) == class)
}

/// A Workload, and what surrounds the pods of its namespace.
pub fn workload(facts: &WorkloadFacts, around: &Around<'_>, accounting: &Accounting) -> Info {
    let adjusted = requests::adjusted_sets(&facts.pod_sets, around);
    let wrong = requests::check(&adjusted, around.limits).err().map(|why| why.to_string());
    // Admitting it would start pods in other places, or on other devices, than the quota stands for.
    let wrong = wrong.or_else(|| requests::unsupported(&adjusted).map(|why| why.to_string()));
    let failed = |state: State| matches!(state, State::Retry | State::Rejected);
    Info {
        key: key_of(&facts.namespace, &facts.name),
        uid: facts.uid.clone(),
        job_uid: facts.label(labels::JOB_UID).map(Text::from),
        local_queue: facts.queue.clone(),
        priority: facts.priority,
        created: facts.created.unwrap_or_default(),
        pod_sets: adjusted.iter().map(|set| pod_set(set, facts, accounting)).collect(),
        stand: stand(facts),
        evicted: eviction(facts),
        on_hold: facts.condition(conditions::REQUEUED).is_some_and(|it| !it.holds),
        requeue_at: facts.requeue.and_then(|it| it.at),
        checks_failed: facts.checks.iter().any(|it| failed(it.state)),
        wrong,
        pods_ready: facts.holds(conditions::PODS_READY),
    }
}

fn stand(facts: &WorkloadFacts) -> Stand {
    match (steps::phase(facts), &facts.admission) {
        (steps::Phase::Finished, _) => Stand::Finished,
        (steps::Phase::QuotaReserved | steps::Phase::Admitted, Some(admission)) => {
            let since = facts.condition(conditions::QUOTA_RESERVED).and_then(|it| it.since);
            let sets = admission.assignments.iter().map(|it| SetAssignment {
                name: it.name.clone(),
                flavors: it.flavors.clone(),
                usage: it.usage.clone(),
                count: i64::from(
                    it.count.unwrap_or_else(|| facts.pod_set(&it.name).map_or(0, |set| set.count)),
                ),
            });
            Stand::Reserved(Reservation {
                queue: admission.cluster_queue.clone(),
                sets: sets.collect(),
                since: since.unwrap_or_default(),
                admitted: facts.is_admitted(),
            })
        }
        (steps::Phase::QuotaReserved | steps::Phase::Admitted | steps::Phase::Pending, _) => {
            if steps::is_queueable(facts) {
                Stand::Waiting
            } else {
                Stand::Barred
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

fn pod_set(set: &PodSet, facts: &WorkloadFacts, accounting: &Accounting) -> EngineSet {
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

fn affinity(template: &Tree) -> Affinity {
    let selector = template.entries_at(pod_path::NODE_SELECTOR).iter();
    let selector: BTreeMap<Text, Text> =
        selector.filter_map(|(key, it)| Some((key.clone(), it.as_text()?.clone()))).collect();
    let term =
        |term: &Tree| term.items_at(node_term::EXPRESSIONS).iter().filter_map(read_expression).collect();
    Affinity { selector, terms: template.items_at(pod_path::NODE_AFFINITY).iter().map(term).collect() }
}

fn read_expression(tree: &Tree) -> Option<Expression> {
    let operator = match tree.str_at(expression::OPERATOR) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        "Gt" => Operator::Gt,
        "Lt" => Operator::Lt,
        _ => return None,
    };
    let values = tree.items_at(expression::VALUES).iter().filter_map(|it| it.as_text().cloned());
    Some(Expression { key: tree.text_at(expression::KEY), operator, values: values.collect() })
}
