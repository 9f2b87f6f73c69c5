//! The queue controller: feeds the quota engine and turns its decisions, the Workload lifecycle and the state of jobs into
//! requests.
//!
//! One key runs the admission cycle: it sends no requests and only enqueues the keys of the Workloads that were decided. The
//! key of a Workload writes everything that admission owns of it, the key of a job starts and stops it, the key of a queue
//! writes its status.
//!
//! # Guarantees
//!
//! - The state in memory can be lost: the engine is rebuilt from the caches, and every decision is written with the
//!   `resourceVersion` of the Workload that it was made for.
//! - Quota that the engine decided stays assumed until the write is in the cache, or failed.

mod create_errors;
mod dependents;
mod engine_input;
mod gangs;
mod jobs;
mod metrics;
mod pods;
mod priority_classes;
mod queues;
mod requests;
#[cfg(test)]
mod tests;
mod trainjobs;
mod unadmitted_workloads;
pub mod visibility_query;
mod visibility_results;
mod workloads;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiError, ApiRequest, Kind, RequestVerb, Uid};
use muster_api::event::Event;
use muster_api::gang_objects::{self, GangSupport};
use muster_api::kinds::{
    CONFIG_MAPS, JOBS, JOBSETS, LIMIT_RANGES, NAMESPACES, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES,
};
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::queue::kinds;
use muster_api::queue::{CohortFacts, FlavorFacts, LocalQueueFacts, WorkloadFacts};
use muster_api::selector::LabelSelector;
use muster_api::time::Time;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::engine::Engine;
use muster_queue::engine::WriteOutcome;
use muster_queue::engine::decision::{AdmitDecision, Decision, PendingStatus as Refused};
use muster_queue::engine::preempt::PreemptionReason;
use muster_queue::engine::spec::EngineSettings;
use muster_queue::engine::workload::NamespacedName as WorkloadKey;
use muster_queue::jobs::owner_chain::ManagedKinds;
use muster_queue::jobs::reconciler::JobReconcilerSettings as JobSettings;
use muster_queue::jobs::requests::{PodEnvironment, ResourceAccounting};
use muster_queue::pods::reconciler::PodReconcilerSettings as PodSettings;
use muster_queue::reconcilers::cohorts::CohortParents;
use muster_queue::reconcilers::event_dedup::EventDeduplicator;
use muster_queue::reconcilers::settings::ReconcilerSettings as LifeSettings;
use muster_queue::reconcilers::status_rate_limit::StatusRateLimiter;
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ExternalTrigger, ObjectKey, ReconcileRequest, Reconciled};
use crate::metrics::RuntimeMetrics;

pub use metrics::{CycleTimer, SharedQueueMetrics};
use visibility_query::VisibilityHandle;

/// Configuration of the queue controller.
#[derive(Debug, Clone, Default)]
pub struct QueueControllerConfig {
    /// Settings of the quota engine.
    pub engine: EngineSettings,
    /// Settings of the Workload lifecycle.
    pub life: LifeSettings,
    /// Settings of job integrations.
    pub jobs: JobSettings,
    /// Settings of the plain pod integration.
    pub pods: PodSettings,
    /// The enabled integrations.
    pub managed: ManagedKinds,
    /// How resource requests are counted.
    pub accounting: ResourceAccounting,
    /// Selects the namespaces whose jobs are managed (`managedJobsNamespaceSelector`).
    pub namespaces: LabelSelector,
    /// Measures admission cycles.
    pub cycle_timer: CycleTimer,
    /// Receives the queries of the visibility API.
    pub visibility: VisibilityHandle,
}

/// The queue controller: LocalQueues, ClusterQueues, Cohorts, ResourceFlavors, Workloads, and the jobs and pods that use them.
#[derive(Debug)]
pub struct QueueController {
    settings: QueueControllerConfig,
    /// The gang API of the server; `None` without one.
    gangs: Option<GangSupport>,
    engine: Engine,
    /// Decisions whose write is not in the cache yet.
    decisions: BTreeMap<WorkloadKey, EngineDecision>,
    /// Evictions of Workloads whose admission, decided before, is not written yet.
    pending_evictions: BTreeMap<WorkloadKey, EngineDecision>,
    /// Queues whose status may count quota that was rolled back.
    stale_usage: BTreeSet<ObjectKey>,
    /// Names of Workloads by namespace and LocalQueue.
    of_local: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// The parent of each Cohort.
    parents: CohortParents,
    prebuilt: dependents::Prebuilt,
    pods: pods::Pods,
    trainings: trainjobs::Trainings,
    told: EventDeduplicator,
    turns: StatusRateLimiter,
    recorder: metrics::MetricsRecorder,
    /// Recently sorted pending Workloads per ClusterQueue, for the visibility API.
    orders: BTreeMap<Text, visibility_results::Ordered>,
    /// When the status of each queue was written last.
    status_written_at: BTreeMap<ObjectKey, Time>,
    /// Failed creations that were reported.
    create_errors: create_errors::CreateErrors,
    priority_updates: priority_classes::PriorityUpdates,
}

/// A decision of the engine about a Workload.
#[derive(Debug)]
enum EngineDecision {
    Admit(AdmitDecision),
    Refuse(Refused),
    Evict {
        /// UID of the Workload: one that was recreated under its name is not evicted.
        victim: Uid,
        /// The preemptor.
        by: WorkloadKey,
        because: PreemptionReason,
    },
}

impl QueueController {
    /// A queue controller without gangs.
    #[must_use]
    pub fn new(settings: QueueControllerConfig) -> QueueController {
        QueueController {
            engine: Engine::new(settings.engine.clone()),
            settings,
            gangs: None,
            decisions: BTreeMap::new(),
            pending_evictions: BTreeMap::new(),
            stale_usage: BTreeSet::new(),
            of_local: BTreeMap::new(),
            parents: CohortParents::new(),
            prebuilt: dependents::Prebuilt::default(),
            pods: pods::Pods::default(),
            trainings: trainjobs::Trainings::default(),
            told: EventDeduplicator::default(),
            turns: StatusRateLimiter::default(),
            recorder: metrics::MetricsRecorder::default(),
            orders: BTreeMap::new(),
            status_written_at: BTreeMap::new(),
            create_errors: create_errors::CreateErrors::default(),
            priority_updates: priority_classes::PriorityUpdates::default(),
        }
    }

    /// This controller with the gang API of the server.
    #[must_use]
    pub fn gangs(mut self, gangs: Option<GangSupport>) -> QueueController {
        self.gangs = gangs;
        self
    }

    /// The quota engine, for tests that compare it with the stored objects.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn on_flavor_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        match seen.new {
            Some(it) => self.engine.apply_flavor(engine_input::flavor(&FlavorFacts::of(&it.tree))),
            None => self.engine.delete_flavor(&seen.key.name),
        }
        let mut wakes = self.feed_queues(caches);
        wakes.push(seen.key.clone().into());
        wakes.extend(dependents::of_flavor(seen, caches));
        wakes
    }

    fn on_cohort_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        match seen.new {
            Some(it) => {
                let facts = CohortFacts::of(&it.tree);
                self.parents.insert(facts.name.clone(), facts.parent.clone());
                self.engine.apply_cohort(engine_input::cohort(&facts));
            }
            None => {
                self.parents.remove(&seen.key.name);
                self.engine.delete_cohort(&seen.key.name);
            }
        }
        let mut wakes = self.feed_queues(caches);
        wakes.push(seen.key.clone().into());
        wakes
    }

    fn on_cluster_queue_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        match seen.new {
            Some(it) => self.feed_queue(it, caches),
            None => {
                self.engine.delete_cluster_queue(&seen.key.name);
                self.recorder.forget_queue(&seen.key.name);
                self.orders.remove(&seen.key.name);
            }
        }
        let mut wakes = vec![seen.key.clone().into()];
        if is_only_counts(seen) {
            return wakes;
        }
        let flavors = [seen.old, seen.new].into_iter().flatten().flat_map(|it| queues::flavors_of(&it.tree));
        wakes
            .extend(flavors.map(|name| ObjectKey::new(&kinds::RESOURCE_FLAVORS, &Text::new(), &name).into()));
        for local in caches.all(&kinds::LOCAL_QUEUES).map(|it| LocalQueueFacts::of(&it.tree)) {
            if local.cluster_queue == seen.key.name {
                wakes.push(ObjectKey::new(&kinds::LOCAL_QUEUES, &local.namespace, &local.name).into());
                wakes.extend(self.workloads_of(&local.namespace, &local.name));
            }
        }
        wakes
    }

    fn on_local_queue_event(&mut self, seen: &WatchEvent<'_>) -> Vec<ReconcileRequest> {
        match seen.new {
            Some(it) => {
                let facts = LocalQueueFacts::of(&it.tree);
                self.recorder.place_local(&facts);
                self.engine.apply_local_queue(engine_input::local_queue(&facts));
            }
            None => {
                self.engine.delete_local_queue(&seen.key.namespace, &seen.key.name);
                self.recorder.forget_local(&seen.key.namespace, &seen.key.name);
            }
        }
        let mut wakes = vec![seen.key.clone().into()];
        if !is_only_counts(seen) {
            wakes.extend(self.workloads_of(&seen.key.namespace, &seen.key.name));
            // The counts of pending Workloads move with the LocalQueue.
            let queues = [seen.old, seen.new].into_iter().flatten();
            let queues = queues.map(|it| LocalQueueFacts::of(&it.tree).cluster_queue);
            wakes.extend(queues.map(|it| ObjectKey::new(&kinds::CLUSTER_QUEUES, &Text::new(), &it).into()));
        }
        wakes
    }

    fn on_namespace_event(&mut self, seen: &WatchEvent<'_>) {
        let Some(it) = seen.new else {
            self.engine.delete_namespace(&seen.key.name);
            return;
        };
        let labels = it.tree.entries_at(meta_path::LABELS).iter();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_text()?.clone())));
        self.engine.apply_namespace(&seen.key.name, labels.collect());
    }

    fn on_workload_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let key = engine_input::key_of(&seen.key.namespace, &seen.key.name);
        let [before, after] = [seen.old, seen.new].map(|it| it.map(|it| WorkloadFacts::of(&it.tree)));
        if before.is_none() {
            // The creation succeeded: should the Workload be deleted and its next creation fail, that is reported again.
            after.iter().flat_map(|it| &it.owners).for_each(|owner| self.create_errors.forget(&owner.uid));
        }
        self.priority_updates.on_workload_event(seen.key, before.as_ref(), after.as_ref());
        self.recorder.on_workload_event(&key, before.as_ref(), after.as_ref(), caches);
        self.pods.on_workload_event(before.as_ref(), after.as_ref());
        if let (Some(old), Some(new)) = (&before, &after) {
            if old.uid != new.uid {
                // The Workload was recreated: decisions about the old one do not apply.
                self.forget_decided(&key);
            } else if !new.has_quota()
                && (old.pod_sets != new.pod_sets || old.queue != new.queue)
                && matches!(self.decisions.get(&key), Some(EngineDecision::Admit(_)))
            {
                // The requests changed between decision and write: the engine must drop the assumed quota.
                self.decisions.remove(&key);
                self.rollback_assumed(&key, new, caches);
            }
        }
        let places = [&before, &after].map(|it| it.as_ref().map(|it| it.queue.clone()));
        if places[0] != places[1] {
            self.move_workload(&seen.key.namespace, &seen.key.name, &places);
        }
        match &after {
            Some(facts) => self.feed_workload(facts, caches),
            None => {
                self.engine.delete_workload(&key);
                self.forget_decided(&key);
                self.told.forget(&meta::uid(&seen.latest().tree));
                self.turns.forget(&key);
            }
        }
        let mut wakes: Vec<ReconcileRequest> = vec![seen.key.clone().into()];
        let is_gone = after.is_none();
        if let Some(facts) = after.as_ref().or(before.as_ref()) {
            wakes.extend(jobs::concerned(facts, caches).into_iter().map(ReconcileRequest::from));
            wakes.extend(pods::concerned(facts, is_gone).into_iter().map(ReconcileRequest::from));
        }
        wakes.extend(self.prebuilt.users(seen.key, caches).into_iter().map(ReconcileRequest::from));
        for facts in [before, after].into_iter().flatten() {
            wakes.extend(
                queues::concerned(&facts, self.is_fair(), caches).into_iter().map(ReconcileRequest::from),
            );
        }
        wakes
    }

    fn feed_workload(&mut self, facts: &WorkloadFacts, caches: &Caches) {
        let limits = engine_input::limits(&facts.namespace, caches);
        let around = PodEnvironment {
            limits: &limits,
            runtime_class: &|name| engine_input::runtime_class(name, caches),
        };
        self.engine.apply_workload(engine_input::workload(facts, &around, &self.settings.accounting));
    }

    /// A LimitRange or RuntimeClass changed, and with it the effective requests of pods.
    fn on_resource_context_event(&mut self, key: &ObjectKey, caches: &Caches) {
        let all: Vec<WorkloadFacts> = if key.kind == LIMIT_RANGES {
            caches
                .in_namespace(&kinds::WORKLOADS, &key.namespace)
                .map(|it| WorkloadFacts::of(&it.tree))
                .collect()
        } else {
            let all = caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
            all.filter(|it| engine_input::runs_by(it, &key.name)).collect()
        };
        all.iter().for_each(|facts| self.feed_workload(facts, caches));
    }

    fn forget_decided(&mut self, key: &WorkloadKey) {
        self.decisions.remove(key);
        self.pending_evictions.remove(key);
    }

    fn move_workload(&mut self, namespace: &Text, name: &Text, places: &[Option<Text>; 2]) {
        if let Some(old) = &places[0] {
            let place = (namespace.clone(), old.clone());
            if let Some(members) = self.of_local.get_mut(&place) {
                members.remove(name);
                if members.is_empty() {
                    self.of_local.remove(&place);
                }
            }
        }
        if let Some(new) = &places[1] {
            self.of_local.entry((namespace.clone(), new.clone())).or_default().insert(name.clone());
        }
    }

    fn workloads_of(&self, namespace: &Text, name: &Text) -> Vec<ReconcileRequest> {
        let members = self.of_local.get(&(namespace.clone(), name.clone()));
        members
            .into_iter()
            .flatten()
            .map(|it| ObjectKey::new(&kinds::WORKLOADS, namespace, it).into())
            .collect()
    }

    /// Forgets the events that were deduplicated for this object and its owners: the write that they followed failed.
    fn forget_events(&mut self, key: &ObjectKey, caches: &Caches) {
        let Some(object) = caches.find(key) else { return };
        self.told.forget(&meta::uid(&object.tree));
        if key.kind == kinds::WORKLOADS {
            let owners = meta::owner_references(&object.tree).take(workloads::OWNER_EVENTS_MAX);
            owners.for_each(|owner| self.told.forget(&owner.uid));
        }
    }

    /// Runs an admission cycle and records its decisions.
    fn decide(&mut self, now: Time) -> Reconciled {
        let mut plan = Reconciled {
            enqueue: std::mem::take(&mut self.stale_usage).into_iter().collect(),
            ..Reconciled::done()
        };
        let decisions = self.settings.cycle_timer.time(|| self.engine.run_cycle(now));
        let decisions = self.recorder.attempted(decisions);
        for decision in decisions {
            let woken = self.record_decision(decision);
            plan.enqueue.extend(woken.iter().map(workload_key));
        }
        if self.engine.has_work() {
            plan.enqueue.push(decide_key());
        }
        plan.requeue_at = self.engine.next_requeue_at();
        plan
    }

    fn record_decision(&mut self, decision: Decision) -> Vec<WorkloadKey> {
        match decision {
            Decision::Admit(it) => {
                let key = it.key.clone();
                self.decisions.insert(key.clone(), EngineDecision::Admit(it));
                vec![key]
            }
            Decision::Requeue(it) => {
                let key = it.key.clone();
                self.decisions.insert(key.clone(), EngineDecision::Refuse(it));
                vec![key]
            }
            Decision::Preempt { pending: refusal, victims } => {
                let by = refusal.key.clone();
                let mut woken = vec![by.clone()];
                self.decisions.insert(by.clone(), EngineDecision::Refuse(refusal));
                for victim in victims {
                    let evict =
                        EngineDecision::Evict { victim: victim.uid, by: by.clone(), because: victim.reason };
                    let unwritten = matches!(self.decisions.get(&victim.key), Some(EngineDecision::Admit(_)));
                    let list = if unwritten { &mut self.pending_evictions } else { &mut self.decisions };
                    list.insert(victim.key.clone(), evict);
                    woken.push(victim.key);
                }
                woken
            }
        }
    }
}

impl Drop for QueueController {
    fn drop(&mut self) {
        self.settings.visibility.detach();
    }
}

impl Controller for QueueController {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn kinds(&self) -> Vec<Kind> {
        let own = [
            &kinds::RESOURCE_FLAVORS,
            &kinds::CLUSTER_QUEUES,
            &kinds::LOCAL_QUEUES,
            &kinds::COHORTS,
            &kinds::WORKLOADS,
            &kinds::PRIORITY_CLASSES,
            &kinds::ADMISSION_CHECKS,
            &kinds::TOPOLOGIES,
        ];
        let others =
            [&NAMESPACES, &PODS, &JOBS, &JOBSETS, &PRIORITY_CLASSES, &LIMIT_RANGES, &RUNTIME_CLASSES];
        let gangs = self.gangs.into_iter().flat_map(gang_objects::kinds);
        own.into_iter().chain(others).chain(trainjobs::KINDS).chain(gangs).cloned().collect()
    }

    fn initial_requests(&mut self, _caches: &Caches, _now: Time) -> Vec<ObjectKey> {
        self.recorder.start();
        Vec::new()
    }

    fn set_trigger(&mut self, trigger: ExternalTrigger) {
        self.settings.visibility.attach(trigger);
    }

    fn collect_metrics(&self, counters: &mut RuntimeMetrics) {
        counters.queueing = self.recorder.numbers();
    }

    /// Only queued pods that still hold quota, and only ConfigMaps with the runtime snapshot of a TrainJob.
    fn predicate(&self, kind: &Kind, object: &Tree) -> bool {
        match kind {
            kind if *kind == PODS => pods::concerns(object),
            kind if *kind == CONFIG_MAPS => trainjobs::concerns(object),
            _ => true,
        }
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let kind = &seen.key.kind;
        if seen.new.is_none() {
            self.status_written_at.remove(seen.key);
            self.create_errors.forget(&meta::uid(&seen.latest().tree));
        }
        if *kind == PODS || jobs::is_job_kind(kind) {
            self.prebuilt.on_event(seen);
        }
        let mut wakes = if *kind == PODS {
            self.recorder.on_pod_event(seen);
            self.pods.on_event(seen)
        } else if *kind == kinds::WORKLOADS {
            self.on_workload_event(seen, caches)
        } else if *kind == kinds::CLUSTER_QUEUES {
            self.on_cluster_queue_event(seen, caches)
        } else if *kind == kinds::LOCAL_QUEUES {
            self.on_local_queue_event(seen)
        } else if *kind == kinds::RESOURCE_FLAVORS {
            self.on_flavor_event(seen, caches)
        } else if *kind == kinds::COHORTS {
            self.on_cohort_event(seen, caches)
        } else if *kind == kinds::ADMISSION_CHECKS || *kind == kinds::TOPOLOGIES {
            self.engine.requeue_all_inadmissible();
            self.feed_queues(caches)
        } else if *kind == kinds::PRIORITY_CLASSES {
            // Its Workloads may not be listed yet: the key of the class looks them up when all caches are synced.
            let workloads =
                priority_classes::PriorityUpdates::has_new_value(seen).then(|| seen.key.clone().into());
            workloads.into_iter().chain(dependents::of_workload_class(seen, caches)).collect()
        } else if *kind == PRIORITY_CLASSES {
            dependents::of_class(seen, caches)
        } else if *kind == NAMESPACES {
            self.on_namespace_event(seen);
            dependents::of_namespace(seen, caches)
        } else if *kind == LIMIT_RANGES || *kind == RUNTIME_CLASSES {
            self.on_resource_context_event(seen.key, caches);
            Vec::new()
        } else if self.is_gang(kind) {
            let heard = !gangs::is_only_status(seen.old, seen.new);
            heard.then(|| gangs::concerned(&seen.key.namespace, &seen.key.name).into()).into_iter().collect()
        } else if jobs::is_job_kind(kind) {
            if seen.new.is_none() && *kind == TRAIN_JOBS {
                self.trainings.forget(&meta::uid(&seen.latest().tree));
            }
            jobs::map_event(seen, caches)
        } else if trainjobs::KINDS.contains(&kind) {
            trainjobs::map_event(seen, caches)
        } else {
            // Kinds of other controllers in the same control loop.
            Vec::new()
        };
        if self.engine.has_work() {
            wakes.push(decide_key().into());
        }
        wakes
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        if *key == decide_key() {
            return self.decide(now);
        }
        if *key == status_update_key() {
            let called = self.turns.take_ready(now);
            let wake = called.iter().map(workload_key).collect();
            return Reconciled {
                enqueue: wake,
                requeue_at: self.turns.next_ready_at(),
                ..Reconciled::done()
            };
        }
        if *key == visibility_key() {
            return self.answer_queries(caches, now);
        }
        if key.kind == PODS {
            let plan = self.plan_pods(key, caches, now);
            self.recorder.opening(&plan, caches, now);
            return plan;
        }
        if key.kind == kinds::PRIORITY_CLASSES {
            let wake = workloads::of_class(&key.name, caches);
            self.priority_updates.mark(&wake);
            return Reconciled { enqueue: wake, ..Reconciled::done() };
        }
        let Some(object) = caches.find(key) else { return Reconciled::done() };
        let mut plan = if key.kind == kinds::WORKLOADS {
            self.plan_workload(object, caches, now)
        } else if key.kind == kinds::CLUSTER_QUEUES {
            self.plan_cluster_queue(key, object, caches, now)
        } else if key.kind == kinds::LOCAL_QUEUES {
            self.plan_local_queue(key, object, caches, now)
        } else if key.kind == kinds::COHORTS {
            self.plan_cohort(key, object, now)
        } else if key.kind == kinds::RESOURCE_FLAVORS {
            queues::plan_flavor(object, caches)
        } else {
            self.plan_job(key, object, caches, now)
        };
        if self.engine.has_work() {
            plan.enqueue.push(decide_key());
        }
        plan
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn on_request_error(
        &mut self,
        key: &ObjectKey,
        call: &ApiRequest,
        why: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        self.pods.refused(call, why);
        // The request may have happened and is retried: keep the decision and its assumed quota.
        if matches!(why, ApiError::Indeterminate(_)) {
            return None;
        }
        if let Some(uid) = call.preconditions.uid.as_ref().filter(|_| call.target.kind == PODS) {
            self.recorder.not_opened(uid);
        }
        self.forget_events(key, caches);
        if let RequestVerb::Create(object) = &call.verb {
            return self.create_errors.event_for(&call.target.kind, object, why, caches);
        }
        if key.kind == kinds::WORKLOADS {
            let name = engine_input::key_of(&key.namespace, &key.name);
            self.recorder.refused(&name);
            let passes = matches!(why, ApiError::Conflict(_) | ApiError::TooManyRequests { .. });
            let decided = if passes { None } else { self.decisions.remove(&name) };
            match (decided, caches.find(key)) {
                (Some(EngineDecision::Admit(_)), Some(object)) => {
                    self.rollback_assumed(&name, &WorkloadFacts::of(&object.tree), caches);
                }
                // The preemptor is evaluated again and may choose another victim.
                (Some(EngineDecision::Evict { by, .. }), _) => {
                    self.engine.record_write_outcome(&by, WriteOutcome::Failed);
                }
                (Some(EngineDecision::Refuse(_)), _) => {
                    self.engine.record_write_outcome(&name, WriteOutcome::Failed);
                }
                (Some(EngineDecision::Admit(_)) | None, _) => {}
            }
        }
        trainjobs::refused(call, why, caches)
    }
}

/// The key of the admission cycle: no Workload has an empty name.
fn decide_key() -> ObjectKey {
    ObjectKey::new(&kinds::WORKLOADS, &Text::new(), &Text::new())
}

/// The key that enqueues Workloads whose rate-limited status update is due: no LocalQueue has an empty name.
fn status_update_key() -> ObjectKey {
    ObjectKey::new(&kinds::LOCAL_QUEUES, &Text::new(), &Text::new())
}

/// The key that answers visibility queries: no ClusterQueue has an empty name.
fn visibility_key() -> ObjectKey {
    ObjectKey::new(&kinds::CLUSTER_QUEUES, &Text::new(), &Text::new())
}

fn workload_key(of: &WorkloadKey) -> ObjectKey {
    ObjectKey::new(&kinds::WORKLOADS, &of.namespace, &of.name)
}

/// Whether only the counts in a status changed, which the controller writes itself.
fn is_only_counts(seen: &WatchEvent<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.old, seen.new) else { return false };
    let same = |path: &[&str]| before.tree.at(path) == after.tree.at(path);
    let plain = |tree: &Tree| tree.at(&["metadata", "deletionTimestamp"]).is_some();
    same(&["spec"]) && same(&["status", "conditions"]) && plain(&before.tree) == plain(&after.tree)
}
