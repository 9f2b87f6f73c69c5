//! Reconciles ClusterQueues, LocalQueues, Cohorts and ResourceFlavors: readiness, usage in the status, finalizers.

use std::collections::BTreeMap;

use muster_api::client::{ApiObject, Subresource};
use muster_api::queue::consts::finalizers;
use muster_api::queue::kinds;
use muster_api::queue::{
    AdmissionCheckFacts, ClusterQueueFacts, FlavorFacts, LocalQueueFacts, QueueStatus, WorkloadFacts,
    finalizer_added,
};
use muster_api::time::Time;
use muster_queue::engine::report::QueueUsage;
use muster_queue::reconcilers::cohorts::CohortParents;
use muster_queue::reconcilers::queues::{
    ActiveCondition, CohortAction, FlavorResourceUsage, QueueAction, QueueCounts, ReadinessLister,
    StatusTiming, cluster_queue_active, cluster_queue_update_deferred_until,
    local_queue_update_deferred_until, reconcile_cluster_queue, reconcile_cohort,
    reconcile_flavor as flavor_step, reconcile_local_queue, references_flavor,
};
use muster_queue::reconcilers::workload::cluster_queue_of;
use muster_tree::{Text, Tree};

use super::metrics::QueueGaugeInputs;
use super::{QueueController, engine_input, requests};
use crate::cache::Caches;
use crate::controller::{ObjectKey, ReconcileRequest, Reconciled};

/// The objects that a ClusterQueue references.
struct Surroundings<'a> {
    flavors: BTreeMap<Text, FlavorFacts>,
    checks: BTreeMap<Text, AdmissionCheckFacts>,
    caches: &'a Caches,
    parents: &'a CohortParents,
}

impl ReadinessLister for Surroundings<'_> {
    fn flavor(&self, name: &str) -> Option<&FlavorFacts> {
        self.flavors.get(name)
    }

    fn check(&self, name: &str) -> Option<&AdmissionCheckFacts> {
        self.checks.get(name)
    }

    fn has_topology(&self, name: &str) -> bool {
        self.caches.get(&kinds::TOPOLOGIES, &Text::new(), &name.into()).is_some()
    }

    fn cohorts(&self) -> &CohortParents {
        self.parents
    }
}

impl QueueController {
    /// Whether a ClusterQueue is active.
    pub(super) fn readiness(&self, queue: &ClusterQueueFacts, caches: &Caches) -> ActiveCondition {
        let one = |kind, name: &Text| caches.get(kind, &Text::new(), name);
        let flavors = queue.flavors().filter_map(|it| one(&kinds::RESOURCE_FLAVORS, &it.name));
        let checks = queue.checks.iter().filter_map(|it| one(&kinds::ADMISSION_CHECKS, &it.name));
        let around = Surroundings {
            flavors: flavors.map(|it| FlavorFacts::of(&it.tree)).map(|it| (it.name.clone(), it)).collect(),
            checks: checks
                .map(|it| AdmissionCheckFacts::of(&it.tree))
                .map(|it| (it.name.clone(), it))
                .collect(),
            caches,
            parents: &self.parents,
        };
        cluster_queue_active(queue, &around)
    }

    /// Feeds the current state of a ClusterQueue to the engine.
    pub(super) fn feed_queue(&mut self, queue: &ApiObject, caches: &Caches) {
        let facts = ClusterQueueFacts::of(&queue.tree);
        let ready = self.readiness(&facts, caches);
        self.engine.apply_cluster_queue(engine_input::cluster_queue(&facts, &ready));
    }

    /// An object that ClusterQueues reference changed: feeds all of them and returns their keys.
    pub(super) fn feed_queues(&mut self, caches: &Caches) -> Vec<ReconcileRequest> {
        let all = caches.all(&kinds::CLUSTER_QUEUES);
        all.map(|queue| {
            self.feed_queue(queue, caches);
            ObjectKey::of(&kinds::CLUSTER_QUEUES, &queue.tree).into()
        })
        .collect()
    }

    pub(super) fn plan_cluster_queue(
        &mut self,
        key: &ObjectKey,
        object: &ApiObject,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        let facts = ClusterQueueFacts::of(&object.tree);
        let ready = self.readiness(&facts, caches);
        let old = status_of(object);
        let moment = self.moment(key, now);
        if let Some(at) = cluster_queue_update_deferred_until(&facts, &QueueStatus::of(&old), &ready, moment)
        {
            return Reconciled::done().requeue_at(at);
        }
        let usage = self.engine.cluster_queue_usage(&key.name);
        if let Some(usage) = &usage {
            let asked = self.engine.pending_requests(&key.name);
            let share = self.is_fair().then_some(usage.weighted_share);
            self.recorder.queue(&facts, &ready, usage, &QueueGaugeInputs { asked, share });
        }
        let counted = counted(usage, self.is_fair());
        let steps = reconcile_cluster_queue(&facts, &QueueStatus::of(&old), &ready, &counted, moment);
        self.queue_steps(key, object, &old, steps, now)
    }

    pub(super) fn plan_local_queue(
        &mut self,
        key: &ObjectKey,
        object: &ApiObject,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        let facts = LocalQueueFacts::of(&object.tree);
        let queue = caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &facts.cluster_queue);
        let queue = queue.map(|it| ClusterQueueFacts::of(&it.tree));
        let ready = queue.as_ref().map(|it| self.readiness(it, caches));
        let of = queue.as_ref().zip(ready.as_ref());
        let old = status_of(object);
        let moment = self.moment(key, now);
        if let Some(at) = local_queue_update_deferred_until(&facts, &QueueStatus::of(&old), of, moment) {
            return Reconciled::done().requeue_at(at);
        }
        let usage = self.engine.local_queue_usage(&key.namespace, &key.name);
        if let Some(usage) = &usage {
            self.recorder.local(&key.namespace, &key.name, usage);
        }
        let counted = counted(usage, false);
        let steps = reconcile_local_queue(&facts, &QueueStatus::of(&old), of, &counted, moment);
        self.queue_steps(key, object, &old, steps, now)
    }

    pub(super) fn plan_cohort(&mut self, key: &ObjectKey, object: &ApiObject, now: Time) -> Reconciled {
        let share = if self.is_fair() { self.engine.cohort_weighted_share(&key.name) } else { None };
        match reconcile_cohort(&status_of(object), share, self.moment(key, now)) {
            Some(CohortAction::Patch(patch)) => {
                self.status_written_at.insert(key.clone(), now);
                Reconciled::with_steps(vec![requests::merge(
                    &kinds::COHORTS,
                    object,
                    Subresource::Status,
                    patch,
                )])
            }
            Some(CohortAction::RequeueAt(at)) => Reconciled::done().requeue_at(at),
            None => Reconciled::done(),
        }
    }

    pub(super) fn is_fair(&self) -> bool {
        self.settings.engine.fair_sharing_strategies.is_some()
    }

    fn moment(&self, key: &ObjectKey, now: Time) -> StatusTiming {
        StatusTiming { last_written_at: self.status_written_at.get(key).copied(), now }
    }

    fn queue_steps(
        &mut self,
        key: &ObjectKey,
        object: &ApiObject,
        old: &Tree,
        steps: Vec<QueueAction>,
        now: Time,
    ) -> Reconciled {
        let mut plan = Reconciled::done();
        for step in steps {
            match step {
                QueueAction::Write(status) => {
                    self.status_written_at.insert(key.clone(), now);
                    let patch = status.patch(old);
                    plan.steps
                        .extend(patch.map(|it| requests::merge(&key.kind, object, Subresource::Status, it)));
                }
                QueueAction::RequeueAt(at) => plan = plan.requeue_at(at),
                QueueAction::AddFinalizer | QueueAction::RemoveFinalizer => {
                    plan.steps.extend(finalizer_step(key, object, &step));
                }
            }
        }
        plan
    }
}

/// Reconciles a ResourceFlavor: its finalizer.
pub(super) fn plan_flavor(object: &ApiObject, caches: &Caches) -> Reconciled {
    let facts = FlavorFacts::of(&object.tree);
    let mut queues = caches.all(&kinds::CLUSTER_QUEUES).map(|it| ClusterQueueFacts::of(&it.tree));
    let step = flavor_step(&facts, queues.any(|it| references_flavor(&it, &facts.name)));
    let key = ObjectKey::of(&kinds::RESOURCE_FLAVORS, &object.tree);
    Reconciled::with_steps(step.and_then(|it| finalizer_step(&key, object, &it)).into_iter().collect())
}

fn finalizer_step(
    key: &ObjectKey,
    object: &ApiObject,
    step: &QueueAction,
) -> Option<crate::controller::Step> {
    match step {
        QueueAction::AddFinalizer => {
            let patch = finalizer_added(&object.tree, finalizers::IN_USE)?;
            Some(requests::merge(&key.kind, object, Subresource::Main, patch))
        }
        QueueAction::RemoveFinalizer => requests::drop_finalizer(&key.kind, object),
        QueueAction::Write(_) | QueueAction::RequeueAt(_) => None,
    }
}

fn status_of(object: &ApiObject) -> Tree {
    object.tree.at(&["status"]).cloned().unwrap_or_default()
}

fn counted(usage: Option<QueueUsage>, fair: bool) -> QueueCounts {
    let Some(usage) = usage else { return QueueCounts::default() };
    let mut taken: BTreeMap<(Text, Text), FlavorResourceUsage> = BTreeMap::new();
    for (flavor, resources) in &usage.flavors_reservation {
        for it in resources {
            taken.entry((flavor.clone(), it.resource.clone())).or_default().reserved = it.total;
        }
    }
    for (flavor, resources) in &usage.flavors_usage {
        for it in resources {
            taken.entry((flavor.clone(), it.resource.clone())).or_default().used = it.total;
        }
    }
    let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    QueueCounts {
        usage: taken,
        pending: small(usage.pending),
        reserving: small(usage.reserving),
        admitted: small(usage.admitted_workloads),
        share: fair.then_some(usage.weighted_share),
    }
}

/// The ResourceFlavors that a ClusterQueue references.
pub(super) fn flavors_of(queue: &Tree) -> Vec<Text> {
    ClusterQueueFacts::of(queue).flavors().map(|it| it.name.clone()).collect()
}

/// The queues that count a Workload in their status.
pub(super) fn concerned(workload: &WorkloadFacts, is_fair: bool, caches: &Caches) -> Vec<ObjectKey> {
    let local = caches.get(&kinds::LOCAL_QUEUES, &workload.namespace, &workload.queue);
    let local = local.map(|it| LocalQueueFacts::of(&it.tree));
    let cluster = cluster_queue_of(workload, local.as_ref());
    let own = local.map(|it| ObjectKey::new(&kinds::LOCAL_QUEUES, &it.namespace, &it.name));
    let cluster = cluster.map(|name| ObjectKey::new(&kinds::CLUSTER_QUEUES, &Text::new(), &name));
    // The status of a Cohort has its weighted share only, which fair sharing computes.
    let cohorts =
        caches.all(&kinds::COHORTS).filter(|_| is_fair).map(|it| ObjectKey::of(&kinds::COHORTS, &it.tree));
    own.into_iter().chain(cluster).chain(cohorts).collect()
}
