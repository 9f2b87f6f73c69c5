//! The scheduler as a controller: feeds watch events to the scheduling engine and turns its decisions into bindings,
//! conditions, nominations and preemptions.
//!
//! One key runs the scheduling cycle: it sends no requests and only enqueues the keys of the pods that were decided, which
//! are reconciled concurrently. The pods of a gang share one key for their bindings; their PodGroup has one for its status.

mod binding;
mod devices;
mod groups;
mod metrics;
mod steps;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, ApiRequest, Kind, Subresource, Uid};
use muster_api::consts::{conditions, managers, reasons};
use muster_api::event::Event;
use muster_api::gang::{EnabledMarkers, GangApi, PodGroupApi};
use muster_api::node::NodeFacts;
use muster_api::paths::{condition as condition_path, meta as meta_path, pod as path};
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_api::{condition, kinds, meta};
use muster_scheduler::{
    Budget, GroupKey, GroupOutcome, GroupStatus, PodKey, PreBindTask, Scheduler, SchedulingDecision,
    SchedulingOutcome, read_labels,
};
use muster_tree::Text;

pub use muster_scheduler::Packing;

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled};
use crate::metrics::RuntimeMetrics;
use binding::Bindings;
use groups::Groups;

/// Pods or groups decided in one reconciliation of the scheduling key.
const DECISIONS_PER_RECONCILE_MAX: usize = 256;

/// How long a placed pod waits for its volumes and devices before it is scheduled again.
const PREBIND_TIMEOUT: Duration = Duration::from_secs(600);

/// The scheduler as a controller.
#[derive(Debug)]
pub struct SchedulerController {
    /// The values of `spec.schedulerName` that this scheduler is responsible for.
    names: Vec<&'static str>,
    scheduler: Scheduler,
    /// Decisions whose result is not in the cache yet.
    decisions: BTreeMap<PodKey, PodDecision>,
    groups: Groups,
    bindings: Bindings,
    /// Whether the API server commits a [`Step::Transaction`](crate::Step::Transaction) atomically.
    has_transactions: bool,
    /// Pods that changed their group label, which has no effect and is reported by an event.
    group_changed: BTreeSet<PodKey>,
    /// The time of the last reconciliation.
    now: Time,
    metrics: metrics::SchedulerMetricsRecorder,
}

#[derive(Debug)]
enum PodDecision {
    Bind {
        node: Text,
        /// When it was decided.
        since: Time,
        /// Whether the reply to a binding was lost: the pod may be bound.
        reply_lost: bool,
    },
    Unschedulable {
        reason: &'static str,
        message: String,
        nominated: Text,
        /// Since when the pod's group is held back. That may pass at any moment, so it is reported late and without an event.
        held_since: Option<Time>,
    },
    ClearNomination,
    Evict {
        victim: Uid,
        by: Text,
        /// The message of the Preempted event.
        told: String,
    },
}

impl Default for SchedulerController {
    /// The only scheduler of a control plane: it also takes the pods of the default scheduler.
    fn default() -> SchedulerController {
        SchedulerController::of(vec![managers::SCHEDULER.as_str(), managers::MUSTER_SCHEDULER.as_str(), ""])
    }
}

impl Controller for SchedulerController {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn kinds(&self) -> Vec<Kind> {
        let own = [&kinds::PODS, &kinds::NODES, &kinds::NAMESPACES, &kinds::POD_DISRUPTION_BUDGETS]
            .map(Clone::clone);
        own.into_iter().chain(volumes::kinds()).chain(devices::kinds()).chain(self.groups.kinds()).collect()
    }

    fn kinds_if_served(&self) -> Vec<Kind> {
        self.groups.kinds_if_served()
    }

    fn map_event(&mut self, event: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let mut keys: Vec<ReconcileRequest> = Vec::new();
        if event.key.kind == kinds::PODS {
            keys.extend(self.on_pod_event(event, caches));
            self.metrics.on_pod_event(event, self.now);
            let name = (event.key.namespace.clone(), event.key.name.clone());
            let told = self.decisions.contains_key(&name) || self.group_changed.contains(&name);
            if told || event.new.is_some_and(is_newly_gated) {
                keys.push(event.key.clone().into());
            }
            keys.extend(self.bindings.group_of(&name).map(|group| binding::key_of(group).into()));
        } else {
            self.on_event(event);
            keys.extend(self.groups.on_event(&mut self.scheduler, event, &self.names, caches));
            let mut pods = volumes::on_event(&mut self.scheduler, event, caches);
            pods.extend(devices::on_event(&mut self.scheduler, event, caches));
            keys.extend(pods.into_iter().map(|pod| self.key_of(pod).into()));
        }
        if self.scheduler.has_pending() {
            keys.push(decide_key().into());
        }
        keys
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        self.now = now;
        if *key == decide_key() {
            return self.decide(caches, now);
        }
        let mut plan = if let Some(group) = binding::group_of(key) {
            self.bind_group(&group, caches, now)
        } else if PodGroupApi::of(&key.kind).is_some() {
            self.groups.reconcile_status(key, &self.scheduler, caches, now)
        } else {
            self.reconcile_pod(key, caches, now)
        };
        // The reconciliation may have made pods schedulable, or pods in backoff may be due later.
        if self.scheduler.has_pending() || self.scheduler.requeue_at().is_some() {
            plan.enqueue.push(decide_key());
        }
        plan
    }

    fn collect_metrics(&self, counters: &mut RuntimeMetrics) {
        counters.scheduling = self.metrics.snapshot(self.scheduler.queue_lengths(), self.groups.metrics());
    }

    fn on_request_error(
        &mut self,
        key: &ObjectKey,
        request: &ApiRequest,
        error: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        devices::on_request_error(&mut self.scheduler, request, error);
        if let Some(group) = binding::group_of(key) {
            self.on_group_request_error(&group, request, error);
            return None;
        }
        // A PodGroup key may have the name of a pod.
        if key.kind != kinds::PODS {
            return None;
        }
        let name = (key.namespace.clone(), key.name.clone());
        // A request whose reply was lost may have happened; a conflict and a busy server are retried with fresh caches.
        if matches!(
            error,
            ApiError::Indeterminate(_) | ApiError::Conflict(_) | ApiError::TooManyRequests { .. }
        ) {
            if let Some(PodDecision::Bind { reply_lost, .. }) = self.decisions.get_mut(&name) {
                *reply_lost |= request.target.subresource == Subresource::Binding;
            }
            return None;
        }
        match self.decisions.get(&name) {
            // The binding was rejected: forget the assumed pod and schedule it again.
            Some(PodDecision::Bind { .. }) => {
                self.decisions.remove(&name);
                self.metrics.failed(
                    caches.find(key).map_or_else(|| managers::SCHEDULER.clone(), steps::scheduler_of),
                );
                self.scheduler.binding_failed(&name, self.now);
            }
            Some(PodDecision::Evict { .. }) => {
                self.decisions.remove(&name);
                self.scheduler.eviction_failed(&name, self.now);
            }
            _ => {}
        }
        None
    }
}

impl SchedulerController {
    /// A second scheduler on a cluster: it ignores the pods of the default scheduler. The gang API of the cluster has to be
    /// discovered; until then there are no gangs.
    #[must_use]
    pub fn beside_another() -> SchedulerController {
        let ours = SchedulerController::of(vec![managers::MUSTER_SCHEDULER.as_str()]);
        SchedulerController {
            has_transactions: false,
            ..ours.gangs(GangApi::default(), EnabledMarkers::NONE)
        }
    }

    /// This scheduler with the gang API of the server and the pod labels that count as group membership.
    #[must_use]
    pub fn gangs(self, form: GangApi, reads: EnabledMarkers) -> SchedulerController {
        SchedulerController { groups: Groups::new(form, reads), ..self }
    }

    /// This scheduler with bin packing by these resources.
    #[must_use]
    pub fn packing(self, packing: Packing) -> SchedulerController {
        SchedulerController { scheduler: Scheduler::packing(packing), ..self }
    }

    fn of(names: Vec<&'static str>) -> SchedulerController {
        SchedulerController {
            names,
            scheduler: Scheduler::default(),
            decisions: BTreeMap::new(),
            groups: Groups::default(),
            bindings: Bindings::default(),
            has_transactions: true,
            group_changed: BTreeSet::new(),
            now: Time::default(),
            metrics: metrics::SchedulerMetricsRecorder::default(),
        }
    }

    fn on_event(&mut self, event: &WatchEvent<'_>) {
        let name = &event.key.name;
        match (&event.key.kind, event.new) {
            (kind, Some(node)) if *kind == kinds::NODES => {
                self.scheduler.update_node(NodeFacts::of(&node.tree));
            }
            (kind, None) if *kind == kinds::NODES => self.scheduler.delete_node(name),
            (kind, after) if *kind == kinds::NAMESPACES => {
                let labels =
                    after.map(|it| read_labels(it.tree.entries_at(meta_path::LABELS))).unwrap_or_default();
                self.scheduler.update_namespace(name, &labels);
            }
            (kind, after) if *kind == kinds::POD_DISRUPTION_BUDGETS => {
                let key = (event.key.namespace.clone(), name.clone());
                match after {
                    Some(budget) => self.scheduler.update_budget(&key, Budget::of(&budget.tree)),
                    None => self.scheduler.delete_budget(&key),
                }
            }
            _ => {}
        }
    }

    fn on_pod_event(&mut self, event: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let name = (event.key.namespace.clone(), event.key.name.clone());
        let Some(pod) = event.new else {
            self.scheduler.delete_pod(&name);
            self.group_changed.remove(&name);
            return self.groups.on_pod_event(&mut self.scheduler, event, &self.names, caches).0;
        };
        let change = classify(event.old, pod);
        match change {
            PodChange::Irrelevant => return Vec::new(),
            PodChange::Started => {
                self.scheduler.set_start_time(&name, Time::of(pod.tree.at(path::START_TIME)));
                return Vec::new();
            }
            PodChange::Bound | PodChange::Other => {}
        }
        // The pod was recreated under its name: drop the old one first, it may belong to another node or group.
        if event.old.is_some_and(|before| meta::uid(&before.tree) != meta::uid(&pod.tree)) {
            self.scheduler.delete_pod(&name);
        }
        let (wakes, moved) = self.groups.on_pod_event(&mut self.scheduler, event, &self.names, caches);
        if moved {
            self.group_changed.insert(name.clone());
        }
        let confirmed = matches!(change, PodChange::Bound)
            && self.scheduler.confirm_bound(&name, &pod.tree.text_at(path::NODE_NAME));
        if !confirmed {
            self.scheduler.update_pod(&self.groups.read_pod(pod, &self.names));
        }
        wakes
    }

    /// The key that reconciles a pod: its own, or that of the gang it is bound with.
    fn key_of(&self, pod: ObjectKey) -> ObjectKey {
        let name = (pod.namespace.clone(), pod.name.clone());
        self.bindings.group_of(&name).map_or(pod, binding::key_of)
    }

    fn decide(&mut self, caches: &Caches, now: Time) -> Reconciled {
        let mut plan = Reconciled::done();
        for decision in self.scheduler.schedule(DECISIONS_PER_RECONCILE_MAX, now) {
            self.metrics.decided(&decision, caches, now);
            let decisions = match decision.outcome {
                SchedulingOutcome::Group(it) => {
                    plan.enqueue.extend(self.record_group_decision(&decision.group, &it, caches, now));
                    self.group_pod_decisions(&decision.group, *it, caches, now)
                }
                outcome => {
                    plan.enqueue.extend(self.groups_evicted_for_pod(&outcome, caches));
                    pod_decisions(SchedulingDecision { outcome, ..decision }, caches, now)
                }
            };
            for (pod, open) in decisions {
                plan.enqueue.push(ObjectKey::new(&kinds::PODS, &pod.0, &pod.1));
                self.record_pod_decision(pod, open);
            }
        }
        if self.scheduler.has_pending() {
            return plan.requeue_at(now);
        }
        match self.scheduler.requeue_at() {
            Some(at) => plan.requeue_at(at),
            None => plan,
        }
    }

    /// Marks the PodGroups that are preempted as a whole for a single pod; returns their keys.
    fn groups_evicted_for_pod(&mut self, outcome: &SchedulingOutcome, caches: &Caches) -> Vec<ObjectKey> {
        let SchedulingOutcome::Unschedulable { pods, victims: evict, .. } = outcome else {
            return Vec::new();
        };
        if evict.is_empty() {
            return Vec::new();
        }
        let pod = pods.first().and_then(|(namespace, name)| caches.get(&kinds::PODS, namespace, name));
        self.groups.evicted(evict, &pod.map(steps::scheduler_of).unwrap_or_default())
    }

    /// Records the decision about a gang: its bindings and its status. Returns the keys to reconcile.
    fn record_group_decision(
        &mut self,
        group: &GroupKey,
        outcome: &GroupOutcome,
        caches: &Caches,
        now: Time,
    ) -> Vec<ObjectKey> {
        let counts = self.scheduler.group_counts(group);
        let mut keys = self.groups.decided(group, outcome, counts);
        if !outcome.scheduled.is_empty() {
            // Pending messages about these pods are outdated: they are placed now.
            outcome.scheduled.iter().for_each(|(pod, _)| {
                self.decisions.remove(pod);
            });
            self.bindings.open(group, &outcome.scheduled, caches, now);
        }
        // Enqueued also when the last binding was dropped: its key cleans up.
        if self.bindings.is_open(group) {
            keys.push(binding::key_of(group));
        }
        keys
    }

    /// The decisions about single pods that follow from the decision about their gang.
    fn group_pod_decisions(
        &self,
        group: &GroupKey,
        outcome: GroupOutcome,
        caches: &Caches,
        now: Time,
    ) -> Vec<(PodKey, PodDecision)> {
        let find = |name: &PodKey| caches.find(&ObjectKey::new(&kinds::PODS, &name.0, &name.1));
        let held = matches!(outcome.status, GroupStatus::Held(_)).then_some(now);
        let gated = |name: &PodKey| find(name).is_some_and(|it| !it.tree.items_at(path::GATES).is_empty());
        // A gated pod reports its own scheduling gates, not those of its group.
        let refused = outcome.unschedulable.into_iter().filter(|it| !gated(&it.pod)).map(|it| {
            let nominated = it.nominated.unwrap_or_default();
            (
                it.pod,
                PodDecision::Unschedulable {
                    reason: it.reason,
                    message: it.message,
                    nominated,
                    held_since: held,
                },
            )
        });
        let by = self.groups.scheduler_of(group);
        let uid = self.groups.uid_of(group);
        let victims = outcome.victims.into_iter().filter_map(|name| {
            let pod = find(&name)?;
            let told = format!("Preempted by pod group {uid} on node {}", pod.tree.str_at(path::NODE_NAME));
            Some((name, PodDecision::Evict { victim: meta::uid(&pod.tree), by: by.clone(), told }))
        });
        let outranked =
            outcome.nominations_cleared.into_iter().map(|pod| (pod, PodDecision::ClearNomination));
        refused.chain(outranked).chain(victims).collect()
    }

    fn bind_group(&mut self, group: &GroupKey, caches: &Caches, now: Time) -> Reconciled {
        let enough = self.groups.enough(group);
        let looked = self.bindings.look(group, enough, &mut self.scheduler, caches, now);
        looked.bound.iter().for_each(|since| self.groups.bound(*since, now));
        if looked.given_back {
            self.metrics.failed(self.groups.scheduler_of(group));
        }
        looked.plan
    }

    fn on_group_request_error(&mut self, group: &GroupKey, request: &ApiRequest, error: &ApiError) {
        let enough = self.groups.enough(group);
        let (has_transactions, now) = (self.has_transactions, self.now);
        if self.bindings.refused(group, enough, (request, error), has_transactions, &mut self.scheduler, now)
        {
            self.metrics.failed(self.groups.scheduler_of(group));
        }
    }

    /// Records the decision about a pod. Clearing the nomination of a pod that was found unschedulable in the same cycle must
    /// not drop its condition.
    fn record_pod_decision(&mut self, pod: PodKey, open: PodDecision) {
        if let (PodDecision::ClearNomination, Some(PodDecision::Unschedulable { nominated, .. })) =
            (&open, self.decisions.get_mut(&pod))
        {
            *nominated = Text::new();
            return;
        }
        self.decisions.insert(pod, open);
    }

    fn reconcile_pod(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let name = (key.namespace.clone(), key.name.clone());
        let Some(pod) = caches.find(key) else {
            self.decisions.remove(&name);
            return Reconciled::with_steps(devices::resolve_unknown_allocations(&self.scheduler, caches));
        };
        if self.group_changed.remove(&name) {
            let mut plan = self.reconcile_pod(key, caches, now);
            plan.steps.insert(0, steps::change_ignored(pod));
            return plan;
        }
        if is_newly_gated(pod) {
            return steps::gate(pod, now);
        }
        let placed = !pod.tree.str_at(path::NODE_NAME).is_empty();
        let deleting = meta::deletion_timestamp(&pod.tree).is_some();
        let plan = match self.decisions.get(&name) {
            // Matched by UID: a pod that was recreated under the victim's name must not be preempted.
            Some(PodDecision::Evict { victim, by, told }) if !deleting && *victim == meta::uid(&pod.tree) => {
                steps::evict(pod, by, told, now)
            }
            // The binding whose reply was lost has happened: record its event now.
            Some(PodDecision::Bind { node, reply_lost: true, .. })
                if pod.tree.str_at(path::NODE_NAME) == node =>
            {
                let told = steps::bound(pod, node);
                self.decisions.remove(&name);
                return Reconciled::with_steps(vec![told]);
            }
            _ if placed => Reconciled::done(),
            Some(PodDecision::Bind { node, since, .. }) if self.scheduler.node_of(&name) == Some(node) => {
                let until = *since + PREBIND_TIMEOUT;
                match prebind(&mut self.scheduler, &name, pod, caches, now) {
                    PreBind::Done => steps::bind(pod, node),
                    PreBind::Pending(plan) if now < until => return plan.requeue_at(until),
                    PreBind::Pending(_) | PreBind::Failed => {
                        self.scheduler.binding_failed(&name, now);
                        Reconciled::done()
                    }
                }
            }
            Some(PodDecision::Unschedulable { held_since: Some(since), .. })
                if now < *since + groups::PENDING_STATUS_DELAY =>
            {
                return Reconciled::done().requeue_at(*since + groups::PENDING_STATUS_DELAY);
            }
            Some(PodDecision::Unschedulable { reason, message, nominated, held_since: held }) => {
                let mut plan = steps::explain(pod, reason, message, nominated, held.is_some(), now);
                plan.steps.extend(devices::deallocate(&self.scheduler, pod, caches));
                plan
            }
            Some(PodDecision::ClearNomination) => steps::end_nomination(pod),
            _ => Reconciled::done(),
        };
        if plan.steps.is_empty() {
            self.decisions.remove(&name);
        }
        plan
    }
}

/// The result of the steps before a pod is bound.
#[derive(Debug, PartialEq, Eq)]
enum PreBind {
    Done,
    /// These requests come first; a change of the object they wait for reconciles the pod.
    Pending(Reconciled),
    /// The volumes or devices of the decision are no longer available: the pod is scheduled again.
    Failed,
}

/// Prepares the volumes and devices of a pod, as kube-scheduler's PreBind.
fn prebind(scheduler: &mut Scheduler, name: &PodKey, pod: &ApiObject, caches: &Caches, now: Time) -> PreBind {
    for errand in scheduler.prebind_tasks(name) {
        let ready = match errand {
            PreBindTask::Volume(errand) => volumes::run(pod, &errand, caches, now),
            PreBindTask::Device(errand) => devices::run(scheduler, pod, &errand, caches, now),
        };
        if ready != PreBind::Done {
            return ready;
        }
    }
    PreBind::Done
}

/// The key of the scheduling cycle: no pod has an empty name.
fn decide_key() -> ObjectKey {
    ObjectKey::new(&kinds::PODS, &Text::new(), &Text::new())
}

/// The decisions per pod: bindings, conditions, nominations and preemptions.
fn pod_decisions(decision: SchedulingDecision, caches: &Caches, now: Time) -> Vec<(PodKey, PodDecision)> {
    let (pods, why, evict, nominated, outranked) = match decision.outcome {
        SchedulingOutcome::Scheduled(pods) => {
            let open = |(pod, node)| (pod, PodDecision::Bind { node, since: now, reply_lost: false });
            return pods.into_iter().map(open).collect();
        }
        SchedulingOutcome::Unschedulable {
            pods,
            error: why,
            victims: evict,
            nominated,
            nominations_cleared: outranked,
        } => (pods, why, evict, nominated.unwrap_or_default(), outranked),
        // Handled by `group_pod_decisions`.
        SchedulingOutcome::Group(_) => return Vec::new(),
    };
    let (reason, message) = (why.reason(), why.message());
    let find = |name: &PodKey| caches.find(&ObjectKey::new(&kinds::PODS, &name.0, &name.1));
    let uid_of = |name: &PodKey| find(name).map(|it| meta::uid(&it.tree));
    let for_uid = pods.first().and_then(uid_of).unwrap_or_default();
    let by = pods.first().and_then(find).map(steps::scheduler_of).unwrap_or_default();
    let explain = |pod| {
        let (message, nominated) = (message.clone(), nominated.clone());
        (pod, PodDecision::Unschedulable { reason, message, nominated, held_since: None })
    };
    let make_room = |pod| {
        let victim = uid_of(&pod).unwrap_or_default();
        let told = format!("Preempted by pod {for_uid} on node {nominated}");
        (pod, PodDecision::Evict { victim, by: by.clone(), told })
    };
    let mut all: Vec<(PodKey, PodDecision)> = pods.into_iter().map(explain).collect();
    all.extend(outranked.into_iter().map(|pod| (pod, PodDecision::ClearNomination)));
    all.extend(evict.into_iter().map(make_room));
    all
}

/// What an update of a pod means for scheduling; most status updates mean nothing.
enum PodChange {
    Irrelevant,
    /// It got its start time, which preemption compares.
    Started,
    /// It was bound.
    Bound,
    Other,
}

fn classify(before: Option<&ApiObject>, after: &ApiObject) -> PodChange {
    let Some(before) = before else { return PodChange::Other };
    let same = |at: &[&str]| before.tree.at(at) == after.tree.at(at);
    let ended = |object: &ApiObject| PodPhase::of(object.tree.str_at(path::PHASE)).is_terminal();
    if ended(before) != ended(after)
        || !same(&["metadata"])
        || !same(path::NOMINATED)
        || !same(path::MADE_CLAIMS)
    {
        PodChange::Other
    } else if same(&["spec"]) {
        if same(path::START_TIME) { PodChange::Irrelevant } else { PodChange::Started }
    } else if before.tree.without(path::NODE_NAME).at(&["spec"])
        == after.tree.without(path::NODE_NAME).at(&["spec"])
    {
        PodChange::Bound
    } else {
        PodChange::Other
    }
}

/// Whether a pod has scheduling gates and its condition does not show them yet.
fn is_newly_gated(pod: &ApiObject) -> bool {
    let scheduled = condition::find(pod.tree.items_at(path::CONDITIONS), conditions::POD_SCHEDULED);
    let said = scheduled.is_some_and(|c| c.str_at(condition_path::REASON) == reasons::SCHEDULING_GATED);
    !pod.tree.items_at(path::GATES).is_empty() && !said && meta::deletion_timestamp(&pod.tree).is_none()
}
