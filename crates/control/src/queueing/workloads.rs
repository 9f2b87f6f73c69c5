//! Reconciles Workloads: writes the engine's decisions, then what the lifecycle needs.

use std::time::Duration;

use muster_api::client::{ApiObject, ApiRequest, DeletionPropagation, Subresource};
use muster_api::event::{EventType, ObjectReference};
use muster_api::meta;
use muster_api::queue::consts::{WORKLOAD, conditions, managers, reasons};
use muster_api::queue::kinds;
use muster_api::queue::{
    Admission, AdmissionStatus, ClusterQueueFacts, Condition, LocalQueueFacts, PodSetAssignment,
    PriorityClassFacts, WorkloadFacts,
};
use muster_api::time::Time;
use muster_queue::engine::WriteOutcome;
use muster_queue::engine::decision::{AdmitDecision as Share, PendingStatus};
use muster_queue::engine::preempt::PreemptionReason;
use muster_queue::engine::workload::NamespacedName as WorkloadKey;
use muster_queue::jobs::reconciler::{WorkloadView as SeenWorkload, reconcile_deleted};
use muster_queue::reconcilers::admission::{self, PreemptedReason, PreemptionSide};
use muster_queue::reconcilers::pending_reason::PendingReason;
use muster_queue::reconcilers::settings::ReasonFormat;
use muster_queue::reconcilers::status_rate_limit::StatusUpdateClass;
use muster_queue::reconcilers::workload::{
    Action, ClusterQueueView, WorkloadSnapshot, cluster_queue_of, reconcile, status_update_actions, wake_at,
};
use muster_queue::reconcilers::{
    StatusBase, StatusUpdate, UpdateContext, WorkloadEvent, cohorts, priority, transitions,
};
use muster_tree::Text;

use super::{EngineDecision, QueueController, engine_input, jobs, queues, requests, status_update_key};
use crate::cache::Caches;
use crate::controller::{ObjectKey, Reconciled, Step};

/// The most pods of a group that get a Pending event: the others would get the same.
pub(super) const OWNER_EVENTS_MAX: usize = 10;
/// How long after its creation a Workload is new; `creationTimestamp` has whole seconds only.
const CREATION_GRACE: Duration = Duration::from_secs(2);
/// When to requeue a Workload that the engine is about to evaluate.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Message of the Deleted event of a deactivated Workload.
const JOB_DELETED_MESSAGE: &str = "Deleted the job of a deactivated workload due to elapsed retention";

impl QueueController {
    /// Reconciles a Workload: first the decision about it, if any, then its lifecycle.
    pub(super) fn plan_workload(&mut self, object: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let facts = WorkloadFacts::of(&object.tree);
        let status = AdmissionStatus::of(&object.tree);
        let known = StatusBase { workload: &facts, status: &status };
        let key = engine_input::key_of(&facts.namespace, &facts.name);
        if let Some(plan) = self.orphan(object, &facts, caches, now) {
            return plan;
        }
        if facts.has_quota() || facts.is_finished() {
            self.turns.forget(&key);
        }
        if let Some(decided) = self.take_decision(&key, &facts) {
            let written = match &decided {
                EngineDecision::Admit(share) => self.reserve(known, share, caches, now),
                // A rate-limited decision is not kept: by the time it may be written the engine may have another reason.
                EngineDecision::Refuse(refusal) => {
                    Some(match self.is_rate_limited(known, &key, refusal, now) {
                        true => StatusUpdate::default(),
                        false => self.refuse(known, refusal, now),
                    })
                }
                EngineDecision::Evict { victim, by, because } => {
                    let by = caches.get(&kinds::WORKLOADS, &by.namespace, &by.name);
                    let by = by.filter(|_| *victim == facts.uid);
                    let plan = self.evict(object, known, by, *because, caches, now);
                    if !plan.steps.is_empty() {
                        self.decisions.insert(key, decided);
                        return plan;
                    }
                    Some(StatusUpdate::default())
                }
            };
            match written {
                Some(written) if !written.is_empty() => {
                    // Keep the decision until its write is in the cache: other writers (pods, jobs) may cause a conflict, and
                    // the engine does not repeat a decision.
                    if matches!(decided, EngineDecision::Admit(_)) || written.status.is_some() {
                        self.decisions.insert(key, decided);
                    }
                    return self.steps_of(object, known, status_update_actions(written), caches, now);
                }
                Some(_) => {}
                None => self.rollback_assumed(&key, &facts, caches),
            }
        }
        let mut steps = self.live(known, caches, now);
        self.priority_updates.sent(&ObjectKey::new(&kinds::WORKLOADS, &facts.namespace, &facts.name), &steps);
        let words = words(known.status, &steps);
        let why = match words.is_some() || wake_only(&steps) {
            true => self.pending_status_update(known, &key, words.as_ref(), now),
            false => PendingStatusUpdate::AsReconciled,
        };
        if !matches!(why, PendingStatusUpdate::AsReconciled) {
            steps.retain(|it| matches!(it, Action::RequeueAt(_)));
        }
        let mut in_line = false;
        match why {
            PendingStatusUpdate::AsReconciled => {}
            PendingStatusUpdate::Now(actions) => steps.extend(actions),
            PendingStatusUpdate::RateLimited => in_line = true,
        }
        let mut plan = self.steps_of(object, known, steps, caches, now);
        if in_line {
            plan.enqueue.push(status_update_key());
        }
        if plan.steps.is_empty() {
            self.delete_deactivated_job(object, &facts, plan, caches, now)
        } else {
            plan
        }
    }

    /// Actions as steps, with events for the owners when the pending reason changes.
    fn steps_of(
        &mut self,
        object: &ApiObject,
        known: StatusBase<'_>,
        actions: Vec<Action>,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        let news = news(known.status, &actions);
        let mut plan = self.steps(object, actions);
        if let Some(why) = news {
            plan.steps.extend(self.owner_events(known.workload, &why, caches, now));
        }
        plan
    }

    /// Pending events for the owners of a Workload, since users look at their Job or Pod. A repeated message is one event a
    /// minute. The position in the queue is left out: it would need the whole queue sorted.
    fn owner_events(
        &mut self,
        facts: &WorkloadFacts,
        why: &Condition,
        caches: &Caches,
        now: Time,
    ) -> Vec<Step> {
        let owners = facts.owners.iter().filter_map(|it| Some((it, caches.by_uid(&it.uid)?)));
        let news = owners
            .take(OWNER_EVENTS_MAX)
            .filter(|(owner, _)| self.told.should_emit(&owner.uid, &why.reason, &why.message, now));
        let told = news.map(|(owner, (key, it))| {
            let about = ObjectReference::of(&key.kind, &owner.kind, &it.tree);
            Step::Event(requests::told_of(about, EventType::Normal, &why.reason, why.message.to_string()))
        });
        told.collect()
    }

    /// Deletes the job of a Workload that was deactivated by Kueue when its retention has elapsed. Pods are handled by their own
    /// reconciliation.
    fn delete_deactivated_job(
        &self,
        object: &ApiObject,
        facts: &WorkloadFacts,
        plan: Reconciled,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        let Some(at) = transitions::deactivated_job_expires_at(facts, &self.settings.life) else {
            return plan;
        };
        if at > now {
            return plan.requeue_at(at);
        }
        let owner = facts.controller().and_then(|it| caches.by_uid(&it.uid));
        let Some((key, job)) = owner.filter(|(key, _)| jobs::is_job_kind(&key.kind)) else {
            return plan;
        };
        if meta::deletion_timestamp(&job.tree).is_some() {
            return plan;
        }
        let call = ApiRequest::delete(
            managers::KUEUE.clone(),
            key.target(Subresource::Main),
            meta::uid(&job.tree),
            DeletionPropagation::Background,
        );
        let note =
            requests::note_workload(object, WorkloadEvent::normal(reasons::DELETED, JOB_DELETED_MESSAGE));
        Reconciled { steps: vec![Step::Request(call), note], ..plan }
    }

    /// Takes the decision to write now. A Workload that is to be evicted before its admission was written is evicted once the
    /// admission is in the cache.
    fn take_decision(&mut self, key: &WorkloadKey, facts: &WorkloadFacts) -> Option<EngineDecision> {
        match self.decisions.remove(key) {
            Some(EngineDecision::Admit(_)) if facts.has_quota() => self.pending_evictions.remove(key),
            decided => decided,
        }
    }

    /// Rolls back assumed quota: the engine releases it, and the queues that may have counted it are reconciled.
    pub(super) fn rollback_assumed(&mut self, key: &WorkloadKey, workload: &WorkloadFacts, caches: &Caches) {
        self.pending_evictions.remove(key);
        self.engine.record_write_outcome(key, WriteOutcome::Failed);
        self.stale_usage.extend(queues::concerned(workload, self.is_fair(), caches));
    }

    /// How the pending reason gets into the status, for which the lifecycle proposes `words`. The engine's last decision takes
    /// precedence: it is written again where the status shows something else, because the write failed, was overwritten, or was
    /// rate-limited.
    fn pending_status_update(
        &mut self,
        known: StatusBase<'_>,
        key: &WorkloadKey,
        words: Option<&Condition>,
        now: Time,
    ) -> PendingStatusUpdate {
        let said = self.engine.reported_status(key).filter(|_| !known.workload.has_quota());
        if let Some(said) = said.filter(|it| self.is_news(known, it)) {
            return match self.is_rate_limited(known, key, &said, now) {
                true => PendingStatusUpdate::RateLimited,
                false => PendingStatusUpdate::Now(status_update_actions(self.refuse(known, &said, now))),
            };
        }
        let soon = PendingStatusUpdate::Now(vec![Action::RequeueAt(now + RECHECK_INTERVAL)]);
        let Some(words) = words else {
            // A rate-limited update is pending and the engine has work: it may evaluate this Workload again first.
            if self.turns.is_queued(key) && self.engine.has_work() {
                return soon;
            }
            self.turns.forget(key);
            return PendingStatusUpdate::AsReconciled;
        };
        let unseen =
            words.reason == *PendingReason::PendingEvaluation.condition_reason(self.settings.life.wording);
        let is_new = known.workload.created.is_some_and(|at| now.since(at) < CREATION_GRACE);
        if unseen && is_new && self.engine.has_work() {
            return soon;
        }
        if self.turns.try_accept(key, line(known), now) {
            PendingStatusUpdate::AsReconciled
        } else {
            PendingStatusUpdate::RateLimited
        }
    }

    /// Whether a pending status has to be written and the rate limit of its queue defers it.
    fn is_rate_limited(
        &mut self,
        known: StatusBase<'_>,
        key: &WorkloadKey,
        refusal: &PendingStatus,
        now: Time,
    ) -> bool {
        self.is_news(known, refusal) && !self.turns.try_accept(key, line(known), now)
    }

    /// Whether a refusal says something else than what stands.
    fn is_news(&self, known: StatusBase<'_>, refusal: &PendingStatus) -> bool {
        let reason = why(refusal).condition_reason(self.settings.life.wording);
        let stands = known.workload.condition(conditions::QUOTA_RESERVED);
        stands.is_none_or(|it| !it.holds && (it.reason != *reason || it.message != *refusal.message))
    }

    /// Finishes a Workload after the deletion of its job, and removes its finalizer.
    fn orphan(
        &self,
        object: &ApiObject,
        facts: &WorkloadFacts,
        caches: &Caches,
        now: Time,
    ) -> Option<Reconciled> {
        let owner = facts.controller()?;
        if !jobs::is_job(owner) || caches.by_uid(&owner.uid).is_some() {
            return None;
        }
        let seen = [SeenWorkload::of(&object.tree)];
        let mut plan = Reconciled::done();
        for action in reconcile_deleted(&seen, now) {
            plan.steps.extend(jobs::workload_steps(object, action, self.at(now)));
        }
        Some(plan)
    }

    fn reserve(
        &self,
        known: StatusBase<'_>,
        share: &Share,
        caches: &Caches,
        now: Time,
    ) -> Option<StatusUpdate> {
        if known.workload.has_quota() {
            return Some(StatusUpdate::default());
        }
        let queue = caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &share.queue)?;
        if !transitions::is_queueable(known.workload) {
            return None;
        }
        let facts = ClusterQueueFacts::of(&queue.tree);
        let assignments = share.sets.iter().map(|it| PodSetAssignment {
            name: it.name.clone(),
            flavors: it.flavors.clone(),
            usage: it.usage.clone(),
            count: u32::try_from(it.count).ok(),
            ..PodSetAssignment::default()
        });
        let given = Admission { cluster_queue: share.queue.clone(), assignments: assignments.collect() };
        let share = admission::NewReservation { admission: given, queue: &facts, considered: String::new() };
        Some(admission::reserve_quota(known, &share, self.at(now)))
    }

    fn refuse(&mut self, known: StatusBase<'_>, refusal: &PendingStatus, now: Time) -> StatusUpdate {
        let requests = refusal.requests.clone();
        let refusal =
            admission::PendingUpdate { reason: why(refusal), message: refusal.message.clone(), requests };
        let at = self.at(now);
        admission::set_pending(known, &refusal, &mut self.told, at)
    }

    fn evict(
        &mut self,
        object: &ApiObject,
        known: StatusBase<'_>,
        by: Option<&ApiObject>,
        because: PreemptionReason,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        let Some(by) = by else { return Reconciled::done() };
        let preemptor = WorkloadFacts::of(&by.tree);
        // The preemptor has quota already, or is finished: nothing is preempted for it.
        if preemptor.has_quota() || preemptor.is_finished() {
            self.engine.record_write_outcome(
                &engine_input::key_of(&preemptor.namespace, &preemptor.name),
                WriteOutcome::Failed,
            );
            return Reconciled::done();
        }
        let queue_of = |it: &WorkloadFacts| {
            let local = caches.get(&kinds::LOCAL_QUEUES, &it.namespace, &it.queue);
            cluster_queue_of(it, local.map(|it| LocalQueueFacts::of(&it.tree)).as_ref()).unwrap_or_default()
        };
        let path_of = |queue: &Text| {
            let found = caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), queue);
            let cohort = found.map(|it| ClusterQueueFacts::of(&it.tree).cohort).unwrap_or_default();
            cohorts::path_text(&self.parents, &cohort, queue)
        };
        let (own, other) = (queue_of(known.workload), queue_of(&preemptor));
        let (own_path, other_path) = (path_of(&own), path_of(&other));
        let victim =
            PreemptionSide { workload: known.workload, path: &own_path, cluster_queue: &own, boost: 0 };
        let preemptor =
            PreemptionSide { workload: &preemptor, path: &other_path, cluster_queue: &other, boost: 0 };
        let why = match because {
            PreemptionReason::InClusterQueue => PreemptedReason::InClusterQueue,
            PreemptionReason::InCohortReclamation => PreemptedReason::Reclamation,
            PreemptionReason::InCohortFairSharing => PreemptedReason::FairSharing,
            PreemptionReason::InCohortReclaimWhileBorrowing => PreemptedReason::ReclaimWhileBorrowing,
        };
        let Some(done) = admission::preempt(known, victim, preemptor, why, self.at(now)) else {
            return Reconciled::done();
        };
        let mut plan = self.steps(object, status_update_actions(done.victim));
        plan.steps.push(requests::note_workload(by, done.preemptor_event));
        plan
    }

    fn live(&self, known: StatusBase<'_>, caches: &Caches, now: Time) -> Vec<Action> {
        let it = known.workload;
        let local = caches.get(&kinds::LOCAL_QUEUES, &it.namespace, &it.queue);
        let local = local.map(|it| LocalQueueFacts::of(&it.tree));
        let queue = cluster_queue_of(it, local.as_ref());
        let queue = queue.and_then(|name| caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &name));
        let queue = queue.map(|it| ClusterQueueFacts::of(&it.tree));
        let active = queue.as_ref().is_some_and(|it| self.readiness(it, caches).holds);
        let workload = ObjectKey::new(&kinds::WORKLOADS, &it.namespace, &it.name);
        let class = it.priority_class.as_ref();
        let class = class.filter(|class| class.is_workload() && self.priority_updates.is_due(&workload));
        let class = class.and_then(|class| caches.get(&kinds::PRIORITY_CLASSES, &Text::new(), &class.name));
        let class = class.map(|it| PriorityClassFacts::of(&it.tree));
        reconcile(&WorkloadSnapshot {
            workload: it,
            status: known.status,
            local_queue: local.as_ref(),
            cluster_queue: queue.as_ref().map(|facts| ClusterQueueView { facts, active }),
            priority_class: class.as_ref(),
            settings: &self.settings.life,
            now,
        })
    }

    pub(super) fn at(&self, now: Time) -> UpdateContext {
        UpdateContext { now, format: self.settings.life.wording }
    }

    /// Actions of a Workload's life as steps.
    pub(super) fn steps(&mut self, object: &ApiObject, actions: Vec<Action>) -> Reconciled {
        let mut plan = Reconciled { requeue_at: wake_at(&actions), ..Reconciled::done() };
        let mut counted = Vec::new();
        for action in actions {
            match action {
                Action::Write(status) => plan.steps.push(requests::apply(object, &status)),
                Action::Deactivate => plan.steps.push(requests::deactivate(object)),
                Action::SetPriority(priority) => plan.steps.push(requests::set_priority(object, priority)),
                Action::RemoveFinalizer => {
                    plan.steps.extend(requests::drop_finalizer(&kinds::WORKLOADS, object));
                }
                Action::Delete => plan.steps.push(requests::delete(object, DeletionPropagation::Background)),
                Action::Note(note) => {
                    let by = &managers::WORKLOAD_EVENTS;
                    plan.steps.push(requests::note(&kinds::WORKLOADS, WORKLOAD, &object.tree, by, note));
                }
                Action::RecordMetric(happened) => counted.push(happened),
                Action::RequeueAt(_) => {}
            }
        }
        if !counted.is_empty() {
            let key = engine_input::key_of(&meta::namespace(&object.tree), &meta::name(&object.tree));
            self.recorder.once_seen(key, counted);
        }
        plan
    }
}

/// How the pending reason of a Workload gets into its status.
enum PendingStatusUpdate {
    /// As its life has it, if at all.
    AsReconciled,
    /// By this.
    Now(Vec<Action>),
    /// When it is called.
    RateLimited,
}

fn line(known: StatusBase<'_>) -> StatusUpdateClass {
    let told = known.workload.condition(conditions::QUOTA_RESERVED).is_some();
    if told { StatusUpdateClass::ChangedReport } else { StatusUpdateClass::FirstReport }
}

fn why(refusal: &PendingStatus) -> PendingReason {
    PendingReason::from_condition_reason(refusal.reason.word()).unwrap_or(PendingReason::PendingEvaluation)
}

/// The new pending condition, if its reason or message changed and it is not the initial PendingEvaluation.
fn news(known: &AdmissionStatus, actions: &[Action]) -> Option<Condition> {
    let waits = |status: &AdmissionStatus| {
        let found = status.conditions.iter().find(|it| it.kind == conditions::QUOTA_RESERVED && !it.holds);
        found
            .filter(|it| {
                it.reason != PendingReason::PendingEvaluation.condition_reason(ReasonFormat::Detailed)
            })
            .cloned()
    };
    let new = actions.iter().find_map(|it| match it {
        Action::Write(status) => waits(status),
        _ => None,
    })?;
    let same = |old: &Condition| old.reason == new.reason && old.message == new.message;
    if waits(known).is_some_and(|old| same(&old)) { None } else { Some(new) }
}

/// The pending condition, if writing it is the only thing to do.
fn words(known: &AdmissionStatus, actions: &[Action]) -> Option<Condition> {
    let mut writes = actions.iter().filter(|it| !matches!(it, Action::RequeueAt(_)));
    let (Some(Action::Write(status)), None) = (writes.next(), writes.next()) else { return None };
    let silent = |status: &AdmissionStatus| {
        let mut status = status.clone();
        status.conditions.retain(|it| it.kind != conditions::QUOTA_RESERVED || it.holds);
        status
    };
    let told = status.conditions.iter().find(|it| it.kind == conditions::QUOTA_RESERVED && !it.holds)?;
    (silent(known) == silent(status)).then(|| told.clone())
}

/// Whether the actions only requeue.
fn wake_only(steps: &[Action]) -> bool {
    steps.iter().all(|it| matches!(it, Action::RequeueAt(_)))
}

/// The Workloads that reference a WorkloadPriorityClass.
pub(super) fn of_class(class: &str, caches: &Caches) -> Vec<ObjectKey> {
    let all = caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
    let those = all.filter(|it| priority::refers_to(it, class));
    those.map(|it| ObjectKey::new(&kinds::WORKLOADS, &it.namespace, &it.name)).collect()
}
