//! Queues, cohorts and flavors: whether they are ready, their numbers, and how long they stay.

use std::collections::BTreeMap;

use muster_api::port::{Object, Part};
use muster_api::queue::kinds;
use muster_api::queue::words::finalizers;
use muster_api::queue::{
    CheckFacts, ClusterQueueFacts, FlavorFacts, LocalQueueFacts, QueueStatus, WorkloadFacts, finalizer_added,
};
use muster_api::time::Time;
use muster_queue::engine::report::QueueUsage;
use muster_queue::life::cohorts::Parents;
use muster_queue::life::queues::{
    Action, Around, CohortAction, Counted, Moment, Readiness, Taken, cluster_queue_rests, local_queue_rests,
    names_flavor, plan_cluster_queue, plan_cohort, plan_flavor as flavor_step, plan_local_queue, readiness,
};
use muster_queue::life::workload::cluster_queue_of;
use muster_tree::{Text, Tree};

use super::numbers::Beside;
use super::{Queueing, calls, feed};
use crate::cache::Caches;
use crate::plan::{Key, Plan, Wake};

/// What a ClusterQueue refers to, read when it is asked for.
struct Surroundings<'a> {
    flavors: BTreeMap<Text, FlavorFacts>,
    checks: BTreeMap<Text, CheckFacts>,
    caches: &'a Caches,
    parents: &'a Parents,
}

impl Around for Surroundings<'_> {
    fn flavor(&self, name: &str) -> Option<&FlavorFacts> {
        self.flavors.get(name)
    }

    fn check(&self, name: &str) -> Option<&CheckFacts> {
        self.checks.get(name)
    }

    fn has_topology(&self, name: &str) -> bool {
        self.caches.get(&kinds::TOPOLOGIES, &Text::new(), &name.into()).is_some()
    }

    fn cohorts(&self) -> &Parents {
        self.parents
    }
}

impl Queueing {
    /// Whether a ClusterQueue takes Workloads.
    pub(super) fn readiness(&self, queue: &ClusterQueueFacts, caches: &Caches) -> Readiness {
        let one = |kind, name: &Text| caches.get(kind, &Text::new(), name);
        let flavors = queue.flavors().filter_map(|it| one(&kinds::RESOURCE_FLAVORS, &it.name));
        let checks = queue.checks.iter().filter_map(|it| one(&kinds::ADMISSION_CHECKS, &it.name));
        let around = Surroundings {
            flavors: flavors.map(|it| FlavorFacts::of(&it.tree)).map(|it| (it.name.clone(), it)).collect(),
            checks: checks.map(|it| CheckFacts::of(&it.tree)).map(|it| (it.name.clone(), it)).collect(),
            caches,
            parents: &self.parents,
        };
        readiness(queue, &around)
    }

    /// Tells the engine of a ClusterQueue as it is now.
    pub(super) fn feed_queue(&mut self, queue: &Object, caches: &Caches) {
        let facts = ClusterQueueFacts::of(&queue.tree);
        let ready = self.readiness(&facts, caches);
        self.engine.cluster_queue(feed::cluster_queue(&facts, &ready));
    }

    /// Something that ClusterQueues refer to changed. The keys to look at.
    pub(super) fn feed_queues(&mut self, caches: &Caches) -> Vec<Wake> {
        let all = caches.all(&kinds::CLUSTER_QUEUES);
        all.map(|queue| {
            self.feed_queue(queue, caches);
            Key::of(&kinds::CLUSTER_QUEUES, &queue.tree).into()
        })
        .collect()
    }

    pub(super) fn plan_cluster_queue(
        &mut self,
        key: &Key,
        object: &Object,
        caches: &Caches,
        now: Time,
    ) -> Plan {
        let facts = ClusterQueueFacts::of(&object.tree);
        let ready = self.readiness(&facts, caches);
        let old = status_of(object);
        let moment = self.moment(key, now);
        if let Some(at) = cluster_queue_rests(&facts, &QueueStatus::of(&old), &ready, moment) {
            return Plan::nothing().again(at);
        }
        let usage = self.engine.usage(&key.name);
        if let Some(usage) = &usage {
            let asked = self.engine.asked(&key.name);
            let share = self.is_fair().then_some(usage.weighted_share);
            self.counting.queue(&facts, &ready, usage, &Beside { asked, share });
        }
        let counted = counted(usage, self.is_fair());
        let steps = plan_cluster_queue(&facts, &QueueStatus::of(&old), &ready, &counted, moment);
        self.queue_steps(key, object, &old, steps, now)
    }

    pub(super) fn plan_local_queue(
        &mut self,
        key: &Key,
        object: &Object,
        caches: &Caches,
        now: Time,
    ) -> Plan {
        let facts = LocalQueueFacts::of(&object.tree);
        let queue = caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &facts.cluster_queue);
        let queue = queue.map(|it| ClusterQueueFacts::of(&it.tree));
        let ready = queue.as_ref().map(|it| self.readiness(it, caches));
        let of = queue.as_ref().zip(ready.as_ref());
        let old = status_of(object);
        let moment = self.moment(key, now);
        if let Some(at) = local_queue_rests(&facts, &QueueStatus::of(&old), of, moment) {
            return Plan::nothing().again(at);
        }
        let usage = self.engine.local_usage(&key.namespace, &key.name);
        if let Some(usage) = &usage {
            self.counting.local(&key.namespace, &key.name, usage);
        }
        let counted = counted(usage, false);
        let steps = plan_local_queue(&facts, &QueueStatus::of(&old), of, &counted, moment);
        self.queue_steps(key, object, &old, steps, now)
    }

    pub(super) fn plan_cohort(&mut self, key: &Key, object: &Object, now: Time) -> Plan {
        let share = if self.is_fair() { self.engine.cohort_share(&key.name) } else { None };
        match plan_cohort(&status_of(object), share, self.moment(key, now)) {
            Some(CohortAction::Patch(patch)) => {
                self.told_at.insert(key.clone(), now);
                Plan::of(vec![calls::merge(&kinds::COHORTS, object, Part::Status, patch)])
            }
            Some(CohortAction::LookAgain(at)) => Plan::nothing().again(at),
            None => Plan::nothing(),
        }
    }

    pub(super) fn is_fair(&self) -> bool {
        self.settings.engine.fair_sharing.is_some()
    }

    fn moment(&self, key: &Key, now: Time) -> Moment {
        Moment { told_at: self.told_at.get(key).copied(), now }
    }

    fn queue_steps(&mut self, key: &Key, object: &Object, old: &Tree, steps: Vec<Action>, now: Time) -> Plan {
        let mut plan = Plan::nothing();
        for step in steps {
            match step {
                Action::Write(status) => {
                    self.told_at.insert(key.clone(), now);
                    let patch = status.patch(old);
                    plan.steps.extend(patch.map(|it| calls::merge(&key.kind, object, Part::Status, it)));
                }
                Action::LookAgain(at) => plan = plan.again(at),
                Action::AddFinalizer | Action::DropFinalizer => {
                    plan.steps.extend(finalizer_step(key, object, &step));
                }
            }
        }
        plan
    }
}

/// What a flavor needs next.
pub(super) fn plan_flavor(object: &Object, caches: &Caches) -> Plan {
    let facts = FlavorFacts::of(&object.tree);
    let mut queues = caches.all(&kinds::CLUSTER_QUEUES).map(|it| ClusterQueueFacts::of(&it.tree));
    let step = flavor_step(&facts, queues.any(|it| names_flavor(&it, &facts.name)));
    let key = Key::of(&kinds::RESOURCE_FLAVORS, &object.tree);
    Plan::of(step.and_then(|it| finalizer_step(&key, object, &it)).into_iter().collect())
}

fn finalizer_step(key: &Key, object: &Object, step: &Action) -> Option<crate::plan::Step> {
    match step {
        Action::AddFinalizer => {
            let patch = finalizer_added(&object.tree, finalizers::IN_USE)?;
            Some(calls::merge(&key.kind, object, Part::Main, patch))
        }
        Action::DropFinalizer => calls::drop_finalizer(&key.kind, object),
        Action::Write(_) | Action::LookAgain(_) => None,
    }
}

fn status_of(object: &Object) -> Tree {
    object.tree.at(&["status"]).cloned().unwrap_or_default()
}

fn counted(usage: Option<QueueUsage>, fair: bool) -> Counted {
    let Some(usage) = usage else { return Counted::default() };
    let mut taken: BTreeMap<(Text, Text), Taken> = BTreeMap::new();
    for (flavor, resources) in &usage.reserved {
        for it in resources {
            taken.entry((flavor.clone(), it.resource.clone())).or_default().reserved = it.total;
        }
    }
    for (flavor, resources) in &usage.admitted {
        for it in resources {
            taken.entry((flavor.clone(), it.resource.clone())).or_default().used = it.total;
        }
    }
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Counted {
        taken,
        pending: small(usage.pending),
        reserving: small(usage.reserving),
        admitted: small(usage.admitted_workloads),
        share: fair.then_some(usage.weighted_share),
    }
}

/// The flavors that a ClusterQueue names.
pub(super) fn flavors_of(queue: &Tree) -> Vec<Text> {
    ClusterQueueFacts::of(queue).flavors().map(|it| it.name.clone()).collect()
}

/// The queues whose numbers a Workload is in.
pub(super) fn concerned(workload: &WorkloadFacts, is_fair: bool, caches: &Caches) -> Vec<Key> {
    let local = caches.get(&kinds::LOCAL_QUEUES, &workload.namespace, &workload.queue);
    let local = local.map(|it| LocalQueueFacts::of(&it.tree));
    let cluster = cluster_queue_of(workload, local.as_ref());
    let own = local.map(|it| Key::new(&kinds::LOCAL_QUEUES, &it.namespace, &it.name));
    let cluster = cluster.map(|name| Key::new(&kinds::CLUSTER_QUEUES, &Text::new(), &name));
    // Cohorts tell their shares, which only fair sharing has.
    let cohorts =
        caches.all(&kinds::COHORTS).filter(|_| is_fair).map(|it| Key::of(&kinds::COHORTS, &it.tree));
    own.into_iter().chain(cluster).chain(cohorts).collect()
}
