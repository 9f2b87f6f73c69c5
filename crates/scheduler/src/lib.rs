//! Pod scheduling: filter, score, preempt and assume, for single pods and for pod groups (gangs).
//!
//! [`Scheduler`] receives Nodes, Pods, Namespaces, PodDisruptionBudgets and PodGroups as they change and returns
//! decisions. It owns the scheduler cache: a decision is assumed at once, before the binding is written.
//!
//! # Guarantees
//!
//! - Deterministic: the same events give the same decisions. Queue order is priority, then creation time, then arrival.
//! - One queue entry is one pod group or one single pod. A group gets at least `minCount` nodes or none; a failed
//!   scheduling attempt is undone in reverse order.
//! - Every unschedulable decision carries a reason per node, and the entry is requeued by a cluster event that its
//!   queueing hints name. Nothing polls.
//!
//! # Deliberately absent
//!
//! The `ImageLocality` plugin, and node sampling (`percentageOfNodesToScore`): every node is scored.

mod cache;
mod claiming_pod;
mod counter;
mod counts;
pub mod devices;
mod equivalence_class;
mod event_handlers;
mod filters;
mod gang;
mod inspect;
mod label;
mod node_affinity;
mod node_classes;
mod node_table;
mod packing;
mod pod;
mod pod_affinity;
mod preemption;
mod queue;
mod queueing_hints;
mod reason;
mod request;
mod requirements;
mod score;
mod select_node;
pub mod volumes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub use gang::{
    DisruptionMode, GroupCounts, GroupOutcome, GroupReadiness, GroupSpec, GroupStatus, HoldReason,
    MissingReference, SchedulingPolicy, UnschedulableMember,
};
pub use label::{Labels, read as read_labels};
pub use packing::Packing;
pub use pod::{Budget, GroupKey, Pod, PodKey};
pub use queue::QueueLengths;
pub use reason::{FitError, PreemptionResult, QueueingHints, Reason, ReasonCounts};
pub use requirements::SchedulingRequirements;
pub use select_node::Stats;

use crate::cache::{PodId, SchedulerCache};
use crate::equivalence_class::CachedFitError;
use crate::gang::GroupId;
use crate::node_table::NodeRow;
use crate::queue::{EntryId, SchedulingQueue};

/// The result of one scheduling cycle, for one pod group or one single pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchedulingDecision {
    /// The pod group; the pod's own key for a single pod.
    pub group: GroupKey,
    pub outcome: SchedulingOutcome,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchedulingOutcome {
    /// A single pod is assumed on this node and can be bound.
    Scheduled(Vec<(PodKey, Text)>),
    Unschedulable {
        pods: Vec<PodKey>,
        error: FitError,
        victims: Vec<PodKey>,
        /// The value for `status.nominatedNodeName`.
        nominated: Option<Text>,
        /// Pods of lower priority that lose their nomination for that node.
        nominations_cleared: Vec<PodKey>,
    },
    /// The outcome of a pod group.
    Group(Box<GroupOutcome>),
}

/// A write that must succeed before the pod is bound (kube-scheduler's `PreBind`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreBindTask {
    Volume(volumes::VolumeBindTask),
    Device(devices::ClaimBindTask),
}

#[derive(Debug, Default)]
pub struct Scheduler {
    cache: SchedulerCache,
    index: HashMap<PodKey, PodId>,
    free_pods: Vec<PodId>,
    queue: SchedulingQueue,
    /// Held groups with members whose `PodScheduled` condition is not reported yet.
    unreported: BTreeSet<GroupId>,
    /// Held groups by the time at which the condition of their members is due; mirrors `tell_at` of the group.
    report_times: BTreeSet<(Time, GroupId)>,
    /// How long a group is held before the condition of its members is reported.
    report_delay: Duration,
    /// Scheduling deadlines of attempted groups that are not fully bound; mirrors `late_at` of the group.
    deadlines: BTreeSet<(Time, GroupId)>,
    budgets: BTreeMap<PodKey, Budget>,
    /// Rows whose Node changed since the last requeue.
    changed: Vec<NodeRow>,
    stats: Stats,
}

impl Scheduler {
    /// Returns a scheduler with this bin-packing strategy.
    #[must_use]
    pub fn packing(packing: Packing) -> Scheduler {
        let mut scheduler = Scheduler::default();
        scheduler.cache.packing = packing;
        scheduler
    }

    /// Delays the condition of held group members: most groups are held only until their last pod is created, and a
    /// status update per pod for that moment would be wasted.
    #[must_use]
    pub fn report_held_after(mut self, patience: Duration) -> Scheduler {
        self.report_delay = patience;
        self
    }

    /// Runs up to `max` scheduling cycles in queue order. Expired deadlines and held groups are reported first.
    pub fn schedule(&mut self, max: usize, now: Time) -> Vec<SchedulingDecision> {
        let mut decisions = Vec::new();
        while decisions.len() < max {
            // Deadlines and held groups first: they need no scheduling cycle, and a long queue must not delay their conditions.
            if let Some(team) = self.next_expired(now) {
                decisions.extend(self.deadline_exceeded(team, now));
                continue;
            }
            if let Some(team) = self.next_unreported(now) {
                decisions.extend(self.report_held(team));
                continue;
            }
            let Some(id) = self.queue.pop(now) else { break };
            decisions.extend(self.schedule_one(id));
            self.requeue_unschedulable();
        }
        decisions
    }

    /// Whether an entry is in the active or backoff queue, or a held group must be reported.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.queue.has_waiting() || !self.unreported.is_empty()
    }

    /// When [`Scheduler::schedule`] must run again if no event arrives.
    #[must_use]
    pub fn requeue_at(&self) -> Option<Time> {
        let of_groups = [self.deadlines.first(), self.report_times.first()].into_iter().flatten();
        self.queue.requeue_at().into_iter().chain(of_groups.map(|(at, _)| *at)).min()
    }

    /// The number of pods in each sub-queue.
    #[must_use]
    pub fn queue_lengths(&self) -> QueueLengths {
        self.queue.lengths()
    }

    #[must_use]
    pub fn node_count(&self) -> usize {
        self.cache.table.len()
    }

    /// Counters since the start.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The node that a pod is assumed on or bound to.
    #[must_use]
    pub fn node_of(&self, key: &PodKey) -> Option<&Text> {
        let pod = self.cache.pod(*self.index.get(key)?);
        pod.on.map(|row| self.cache.table.name(row))
    }

    /// The node that a pod is nominated for.
    #[must_use]
    pub fn nominated(&self, key: &PodKey) -> Option<&Text> {
        let pod = self.cache.pod(*self.index.get(key)?);
        pod.nominated.map(|row| self.cache.table.name(row))
    }

    /// ResourceClaims with an indeterminate allocation write that no pod waits for: the controller must read them back.
    #[must_use]
    pub fn indeterminate_claims(&self) -> Vec<devices::ClaimKey> {
        self.cache.devices.indeterminate().cloned().collect()
    }

    /// The writes that must succeed before the pod is bound to its assumed node.
    #[must_use]
    pub fn prebind_tasks(&self, key: &PodKey) -> Vec<PreBindTask> {
        let Some(id) = self.index.get(key).copied() else { return Vec::new() };
        let pod = self.cache.pod(id);
        if !pod.has_claims() {
            return Vec::new();
        }
        let volumes =
            self.cache.volumes.prebind_tasks(&pod.volume_claims(id)).into_iter().map(PreBindTask::Volume);
        let devices =
            self.cache.devices.prebind_tasks(&pod.device_claims(id)).into_iter().map(PreBindTask::Device);
        volumes.chain(devices).collect()
    }

    /// One scheduling cycle; `None` if the entry did not pass `PreEnqueue`.
    fn schedule_one(&mut self, id: EntryId) -> Option<SchedulingDecision> {
        if self.queue.entry(id).team.is_some() {
            return self.schedule_group(id);
        }
        let key = self.queue.entry(id).key.clone();
        let pod = *self.queue.entry(id).members.first()?;
        if self.fails_pre_enqueue(pod) {
            self.wait_for_claims(id);
            return None;
        }
        if let Some(why) = self.cached_fit_error(pod) {
            self.stats.repeated += 1;
            return Some(self.unschedulable(id, key, &[pod], why, Vec::new(), Vec::new()));
        }
        let Some(row) = self.cache.select_node(pod, &mut self.stats) else {
            return Some(self.post_filter(id, key, pod));
        };
        self.assume(pod, row);
        self.remove_entry(id);
        let node = self.cache.table.name(row).clone();
        Some(SchedulingDecision {
            group: key.clone(),
            outcome: SchedulingOutcome::Scheduled(vec![(key, node)]),
        })
    }

    /// Whether `PreEnqueue` rejects a pod because one of its ResourceClaims is missing or terminating.
    fn fails_pre_enqueue(&mut self, id: PodId) -> bool {
        let SchedulerCache { pods, devices, .. } = &mut self.cache;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        !pod.devices.is_empty() && devices.pre_enqueue(&pod.device_claims(id))
    }

    /// Parks an entry rejected by `PreEnqueue` without a decision; an event for one of its claims requeues it.
    fn wait_for_claims(&mut self, id: EntryId) {
        self.queue.add_unschedulable_apart(
            id,
            QueueingHints { claims: true, ..QueueingHints::default() },
            None,
        );
        self.cache.has_unschedulable = true;
    }

    fn forget_claims(&mut self, id: PodId) {
        let SchedulerCache { pods, devices, .. } = &mut self.cache;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        if !pod.devices.is_empty() {
            devices.remove_pending(&pod.device_claims(id));
        }
    }

    /// A ResourceClaim of an unschedulable pod that no pod uses and whose allocation excludes some nodes: kube-scheduler's
    /// `PostFilter` deallocates it.
    #[must_use]
    pub fn deallocatable_claim(&self, key: &PodKey) -> Option<devices::ClaimKey> {
        let id = self.index.get(key).copied()?;
        let pod = self.cache.pod(id);
        if pod.devices.is_empty() || pod.on.is_some() {
            return None;
        }
        let table = &self.cache.table;
        let rows = || (0..table.rows()).filter_map(|at| table.facts(NodeRow::try_from(at).ok()?));
        self.cache
            .devices
            .deallocatable(&pod.device_claims(id), |terms| rows().all(|node| terms.matches(node)))
    }

    /// The pods that this scheduler placed and that use a ResourceClaim.
    #[must_use]
    pub fn pods_using_claim(&self, claim: &devices::ClaimKey) -> Vec<PodKey> {
        self.cache.devices.users(claim)
    }

    /// The fit error of an equal pod, if the cache is unchanged since.
    fn cached_fit_error(&self, id: PodId) -> Option<FitError> {
        let pod = self.cache.pod(id);
        let shape = self.claim_specs(id)?;
        let it = self.cache.class(pod.class).fit_error.as_ref()?;
        let same =
            it.at == self.cache.changes && it.sort == pod.profile && it.rank == (pod.priority, pod.preempts);
        let same = same && it.shape == shape;
        same.then(|| it.refused.clone())
    }

    fn post_filter(&mut self, id: EntryId, key: GroupKey, pod: PodId) -> SchedulingDecision {
        self.stats.diagnoses += 1;
        let found = self.cache.diagnose(pod);
        let budgets: Vec<&Budget> = self.budgets.values().collect();
        // No preemption without nodes or after a plugin error: evicting pods would not help, and the result is not reliable.
        let (preemption, plan) = if found.tally.nodes == 0 || found.tally.error.is_some() {
            (PreemptionResult::NotAttempted, None)
        } else if self.cache.fails_before_devices(pod) {
            (PreemptionResult::NotFound, None)
        } else {
            self.cache.preempt(pod, &found, &budgets)
        };
        let why = FitError { reasons: found.tally, preemption };
        let Some(plan) = plan else {
            // As kube-scheduler: the nomination is cleared when preemption cannot help, and kept while victims terminate.
            if matches!(why.preemption, PreemptionResult::NotHelpful(_) | PreemptionResult::NotFound) {
                self.nominate(pod, None);
            }
            self.cache_fit_error(pod, &why);
            return self.unschedulable(id, key, &[pod], why, Vec::new(), Vec::new());
        };
        let outranked = self.clear_lower_nominations(pod, plan.row);
        self.nominate(pod, Some(plan.row));
        for victim in &plan.victims {
            // Marked at once, so that the next cycle counts the victim as terminating before its deletion is observed.
            self.cache.pod_mut(*victim).evicted = true;
        }
        self.unschedulable(id, key, &[pod], why, plan.victims, outranked)
    }

    fn cache_fit_error(&mut self, id: PodId, why: &FitError) {
        let pod = self.cache.pod(id);
        let Some(shape) = self.claim_specs(id) else { return };
        // The error names the ResourceClaim, so it is not valid for another pod.
        if why.reasons.error.is_some() {
            return;
        }
        let (class, sort, rank) = (pod.class, pod.profile, (pod.priority, pod.preempts));
        let at = self.cache.changes;
        let refused = why.clone();
        self.cache.class_mut(class).0.fit_error = Some(CachedFitError { at, sort, rank, shape, refused });
    }

    /// What distinguishes a pod from its equivalence class; `None` if its fit error cannot be shared.
    fn claim_specs(&self, id: PodId) -> Option<Vec<Tree>> {
        let pod = self.cache.pod(id);
        // Nominations and volumes are individual: two such pods may fail for different reasons.
        if pod.nominated.is_some() || !pod.volumes.is_empty() {
            return None;
        }
        if pod.devices.is_empty() {
            Some(Vec::new())
        } else {
            self.cache.devices.claim_specs(&pod.device_claims(id))
        }
    }

    /// Clears the nomination of pods with a lower priority for this node, as kube-scheduler does after preemption.
    fn clear_lower_nominations(&mut self, id: PodId, row: NodeRow) -> Vec<PodId> {
        let priority = self.cache.pod(id).priority;
        let all = self.cache.nominated.get(&row).cloned().unwrap_or_default();
        let below: Vec<PodId> =
            all.into_iter().filter(|it| self.cache.pod(*it).priority < priority).collect();
        below.iter().for_each(|other| self.nominate(*other, None));
        below
    }

    fn unschedulable(
        &mut self,
        id: EntryId,
        group: GroupKey,
        pods: &[PodId],
        why: FitError,
        evict: Vec<PodId>,
        outranked: Vec<PodId>,
    ) -> SchedulingDecision {
        self.park(id, pods[0], why.reasons.cures());
        self.cache.has_unschedulable = true;
        let names = |pods: Vec<PodId>| pods.into_iter().map(|it| self.cache.pod(it).key.clone()).collect();
        let nominated = self.cache.pod(pods[0]).nominated.map(|row| self.cache.table.name(row).clone());
        let (evict, outranked) = (names(evict), names(outranked));
        let outcome = SchedulingOutcome::Unschedulable {
            pods: names(pods.to_vec()),
            error: why,
            victims: evict,
            nominated,
            nominations_cleared: outranked,
        };
        SchedulingDecision { group, outcome }
    }

    /// Moves an entry to the unschedulable pods. An entry with claims is kept apart: it must not block its class.
    fn park(&mut self, id: EntryId, first: PodId, cures: QueueingHints) {
        let pod = self.cache.pod(first);
        let (class, claims) = (pod.class, pod.has_claims() && cures.claims);
        if claims {
            self.queue.add_unschedulable_apart(id, cures, None);
            // The free resources that requeued this entry may fit the next pod of the class.
            self.queue.requeue_class(class, 1);
        } else {
            self.queue.add_unschedulable(id, class, cures);
        }
    }

    fn assume(&mut self, pod: PodId, row: NodeRow) {
        self.cache.add_to_node(pod, row);
        self.clear_queue_state(pod);
    }

    /// Clears the queue state of a pod that has a node.
    fn clear_queue_state(&mut self, pod: PodId) {
        self.nominate(pod, None);
        self.forget_claims(pod);
        self.cache.change(pod, |pod| {
            pod.bound = false;
            pod.entry = None;
            pod.reported_message = Text::new();
        });
    }

    /// Removes an entry whose pods all have a node.
    fn remove_entry(&mut self, id: EntryId) {
        if let Some(team) = self.queue.entry(id).team {
            let team = self.cache.groups.of_mut(team);
            team.entry = None;
            team.held = None;
            team.held_since = None;
            team.unreported.clear();
        }
        self.queue.remove(id);
    }

    /// Sets or clears the nominated node of a pod.
    fn nominate(&mut self, id: PodId, row: Option<NodeRow>) {
        let old = std::mem::replace(&mut self.cache.pod_mut(id).nominated, row);
        if old == row {
            return;
        }
        if let Some(old) = old {
            let list = self.cache.nominated.get_mut(&old).expect("a nominated pod is on a list");
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.cache.nominated.remove(&old);
            }
            self.cache.freed_rows.push(old);
            // The group lost the nomination it waited for and must preempt elsewhere.
            let pod = self.cache.pod(id);
            if let Some(entry) = pod.entry.filter(|_| pod.group.is_some() && row.is_none()) {
                self.queue.requeue(entry);
            }
        }
        if let Some(row) = row {
            self.cache.nominated.entry(row).or_default().push(id);
        }
        self.cache.changes += 1;
    }
}
