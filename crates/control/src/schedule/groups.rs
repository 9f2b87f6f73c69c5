//! The group cache of the scheduler: PodGroups, Workloads and their pods, and the status of PodGroups.
//!
//! # Guarantees
//!
//! - A pod stays in the group that it named when it was first seen; a later change is reported by an event and ignored.
//! - A group is scheduled again as soon as an object that it refers to appears or changes. Nothing polls.
//! - Only PodGroups with pods of this scheduler are written, batched over [`STATUS_BATCH_PERIOD`], and only when the status
//!   changes. Workloads are never written.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource, Uid};
use muster_api::consts::managers;
use muster_api::gang::status::{self, SchedulingResult};
use muster_api::gang::{
    self, DisruptionMode, EnabledMarkers, GangApi, GangWorkloadFacts, GroupId, GroupMembership,
    GroupResolution, MissingReference, PodGroupApi, PodGroupFacts, SchedulingPolicy,
};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{pod as path, pod_group};
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_scheduler::{
    self as scheduler, GroupCounts, GroupKey, GroupOutcome, GroupReadiness, GroupSpec, GroupStatus,
    HoldReason, Pod, PodKey, Scheduler,
};
use muster_tree::Text;

use super::steps;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, ReconcileRequest, Reconciled, Step};
use crate::metrics::PodGroupMetrics;

/// How long changes of a group are batched before its status is written.
pub const STATUS_BATCH_PERIOD: Duration = Duration::from_millis(100);
/// How long a group or a pod may be pending before the status shows it: most gangs are complete a moment after their first
/// pod.
pub const PENDING_STATUS_DELAY: Duration = Duration::from_secs(1);

/// The groups, their Workloads and their pods.
#[derive(Debug)]
pub struct Groups {
    form: GangApi,
    reads: EnabledMarkers,
    workloads: BTreeMap<PodKey, GangWorkloadFacts>,
    groups: BTreeMap<GroupKey, GroupState>,
    members: BTreeMap<PodKey, Member>,
    /// Groups by the Workload that they reference.
    of_workload: BTreeMap<PodKey, BTreeSet<GroupKey>>,
    metrics: PodGroupMetrics,
    /// How often the members of a group were checked again.
    #[cfg(test)]
    pub rechecks: usize,
}

/// A group that exists as an object, or that pods name.
#[derive(Debug)]
struct GroupState {
    belongs: GroupId,
    object: Option<(Kind, PodGroupFacts)>,
    pods: BTreeSet<PodKey>,
    /// Pods with a node that have not failed.
    placed: usize,
    /// Pods of this scheduler.
    ours: usize,
    status: GroupStatusState,
}

/// The last decision about a group, for its status.
#[derive(Debug, Default)]
struct GroupStatusState {
    result: SchedulingResult,
    /// The quorum at the time when enough pods had nodes: the group may lose pods before the status is written.
    scheduled_max: Option<usize>,
    /// Since when the group is only pending.
    pending_since: Option<Time>,
    /// Whether a decision waits for the end of its batch period.
    pending_batch: bool,
    /// Whether pods of this scheduler were seen since the object exists.
    is_own: bool,
    /// The scheduler of its pods, used as the field manager of its status.
    scheduler: Option<Text>,
    /// The scheduler that preempts it as a whole.
    evicted_by: Option<Text>,
}

#[derive(Debug)]
struct Member {
    uid: Uid,
    group: GroupKey,
    membership: GroupMembership,
    hold: Option<Text>,
    placed: bool,
    ours: bool,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups::new(GangApi::Proposal, EnabledMarkers::default())
    }
}

impl Groups {
    /// Groups of this API, as far as their markers are enabled.
    pub fn new(form: GangApi, reads: EnabledMarkers) -> Groups {
        Groups {
            form,
            reads: EnabledMarkers {
                groups: reads.groups && form.groups().is_some(),
                entries: reads.entries && form.reads_workloads(),
                ..reads
            },
            workloads: BTreeMap::new(),
            groups: BTreeMap::new(),
            members: BTreeMap::new(),
            of_workload: BTreeMap::new(),
            metrics: PodGroupMetrics::default(),
            #[cfg(test)]
            rechecks: 0,
        }
    }

    /// The kinds to watch.
    pub fn kinds(&self) -> Vec<Kind> {
        let groups = self.form.groups().filter(|_| self.reads.groups);
        let reads = self.form.reads_workloads() && (self.reads.groups || self.reads.entries);
        let workloads = reads.then(|| self.form.workloads());
        groups.into_iter().chain(workloads).cloned().collect()
    }

    /// The kinds to watch where they are served.
    pub fn kinds_if_served(&self) -> Vec<Kind> {
        let foreign = [
            (self.reads.coscheduling, &gang::COSCHEDULING_GROUPS),
            (self.reads.volcano, &gang::VOLCANO_GROUPS),
        ];
        foreign.into_iter().filter(|(reads, _)| *reads).map(|(_, kind)| kind.clone()).collect()
    }

    /// Handles an event of a Workload or a PodGroup; returns the keys to reconcile.
    pub fn on_event(
        &mut self,
        scheduler: &mut Scheduler,
        seen: &WatchEvent<'_>,
        names: &[&str],
        caches: &Caches,
    ) -> Vec<ReconcileRequest> {
        if self.form.reads_workloads() && seen.key.kind == *self.form.workloads() {
            return self.on_workload_event(scheduler, seen);
        }
        match PodGroupApi::of(&seen.key.kind) {
            Some(origin) => {
                // A status update changes nothing that the scheduler uses.
                let Some(group) = self.on_group_event(origin, scheduler, seen) else { return Vec::new() };
                self.recheck_members(scheduler, &group, names, caches);
                let wake = self.request_for(&group);
                self.forget_if_empty(&group);
                wake.into_iter().collect()
            }
            None => Vec::new(),
        }
    }

    fn on_workload_event(
        &mut self,
        scheduler: &mut Scheduler,
        seen: &WatchEvent<'_>,
    ) -> Vec<ReconcileRequest> {
        let name = (seen.key.namespace.clone(), seen.key.name.clone());
        let facts = seen.new.map(|it| GangWorkloadFacts::of(&it.tree));
        if self.workloads.get(&name) == facts.as_ref() {
            return Vec::new();
        }
        match facts {
            Some(facts) => self.workloads.insert(name.clone(), facts),
            None => self.workloads.remove(&name),
        };
        let users: Vec<GroupKey> = self.of_workload.get(&name).into_iter().flatten().cloned().collect();
        users.iter().for_each(|group| self.feed(scheduler, group));
        users.iter().filter_map(|group| self.request_for(group)).collect()
    }

    /// Updates a group; returns it if anything but its status changed.
    fn on_group_event(
        &mut self,
        origin: PodGroupApi,
        scheduler: &mut Scheduler,
        seen: &WatchEvent<'_>,
    ) -> Option<GroupKey> {
        let belongs = origin.group_id(&seen.key.name);
        let group = (seen.key.namespace.clone(), belongs.key());
        let facts = seen.new.map(|it| PodGroupFacts::of(origin, &it.tree));
        let known = self.groups.get(&group).and_then(|it| it.object.as_ref()).map(|(_, facts)| facts);
        if known == facts.as_ref() {
            return None;
        }
        let another = known.map(|it| &it.uid) != facts.as_ref().map(|it| &it.uid);
        self.unlink(&group);
        let known = self.groups.entry(group.clone()).or_insert_with(|| GroupState::new(belongs));
        known.object = facts.map(|facts| (seen.key.kind.clone(), facts));
        if another {
            let scheduler = known.status.scheduler.take();
            known.status =
                GroupStatusState { is_own: known.ours > 0, scheduler, ..GroupStatusState::default() };
        }
        self.link(&group);
        self.feed(scheduler, &group);
        Some(group)
    }

    /// Indexes a group by the Workload that it references.
    fn link(&mut self, group: &GroupKey) {
        if let Some(workload) = self.workload_of(group) {
            self.of_workload.entry(workload).or_default().insert(group.clone());
        }
    }

    fn unlink(&mut self, group: &GroupKey) {
        let Some(workload) = self.workload_of(group) else { return };
        if let Some(users) = self.of_workload.get_mut(&workload) {
            users.remove(group);
            if users.is_empty() {
                self.of_workload.remove(&workload);
            }
        }
    }

    fn workload_of(&self, group: &GroupKey) -> Option<PodKey> {
        let known = self.groups.get(group)?;
        let name = match (&known.belongs, &known.object) {
            (GroupId::Entry { workload, .. }, _) => workload.clone(),
            (_, object) => object.as_ref()?.1.reference.as_ref()?.workload.clone(),
        };
        Some((group.0.clone(), name))
    }

    /// Feeds the current state of a group to the scheduler.
    fn feed(&self, scheduler: &mut Scheduler, group: &GroupKey) {
        match self.resolved(group) {
            Some(resolved) => scheduler.update_group(group, readiness(resolved)),
            None => match self.missing(group) {
                Some(words) => scheduler.update_group(
                    group,
                    GroupReadiness::Waiting { why: scheduler::MissingReference::Group, words },
                ),
                None => scheduler.delete_group(group),
            },
        }
    }

    /// The message of pods whose coscheduling or Volcano PodGroup is missing: with the name as the pod spells it, not the
    /// internal key.
    fn missing(&self, group: &GroupKey) -> Option<Text> {
        let known = self.groups.get(group).filter(|it| !it.pods.is_empty())?;
        let (GroupId::Coscheduling(name) | GroupId::Volcano(name)) = &known.belongs else { return None };
        let words = format!("waiting for pods's pod group \"{name}\" to appear in scheduling queue");
        Some(Text::from(words))
    }

    fn resolved(&self, group: &GroupKey) -> Option<GroupResolution> {
        let known = self.groups.get(group)?;
        let workload = self.workload_of(group).and_then(|name| self.workloads.get(&name));
        if let GroupId::Entry { workload: name, entry, .. } = &known.belongs {
            return (!known.pods.is_empty()).then(|| gang::resolve_entry(workload, name, entry));
        }
        known.object.as_ref().map(|(_, facts)| gang::resolve(facts, workload))
    }

    /// The quorum of a group; `usize::MAX` while its policy is unknown.
    pub fn enough(&self, group: &GroupKey) -> usize {
        match self.resolved(group) {
            Some(GroupResolution::Resolved(it)) => it.policy.min_count(),
            _ => usize::MAX,
        }
    }

    /// Checks the members of a group again: whether a pod contradicts its group depends on the Workload that the group
    /// references, which may change.
    fn recheck_members(
        &mut self,
        scheduler: &mut Scheduler,
        group: &GroupKey,
        names: &[&str],
        caches: &Caches,
    ) {
        #[cfg(test)]
        {
            self.rechecks += 1;
        }
        let pods: Vec<PodKey> = self.groups.get(group).into_iter().flat_map(|it| &it.pods).cloned().collect();
        for name in pods {
            let Some(member) = self.members.get(&name) else { continue };
            let hold = self.hold_of(&member.membership, group);
            if hold == member.hold {
                continue;
            }
            if let Some(member) = self.members.get_mut(&name) {
                member.hold = hold;
            }
            if let Some(pod) = caches.get(&kinds::PODS, &name.0, &name.1) {
                scheduler.update_pod(&self.read_pod(pod, names));
            }
        }
    }

    /// A pod as the scheduler takes it, with its group.
    pub fn read_pod(&self, pod: &ApiObject, names: &[&str]) -> Pod {
        let mut pod = Pod::of(&pod.tree, names);
        if let Some(member) = self.members.get(&pod.key) {
            pod.group = Some(member.group.clone());
            pod.pre_enqueue_error.clone_from(&member.hold);
        }
        pod
    }

    fn hold_of(&self, membership: &GroupMembership, group: &GroupKey) -> Option<Text> {
        let (_, facts) = self.groups.get(group)?.object.as_ref()?;
        gang::workload_mismatch(membership, facts).map(Text::from)
    }

    /// Handles a pod event. Returns the keys to reconcile, and whether the pod names another group now, which is ignored.
    pub fn on_pod_event(
        &mut self,
        scheduler: &mut Scheduler,
        seen: &WatchEvent<'_>,
        names: &[&str],
        caches: &Caches,
    ) -> (Vec<ReconcileRequest>, bool) {
        let name = (seen.key.namespace.clone(), seen.key.name.clone());
        let Some(pod) = seen.new else { return (self.pod_gone(scheduler, &name), false) };
        let uid = meta::uid(&pod.tree);
        let is_new = seen.old.is_none_or(|before| meta::uid(&before.tree) != uid);
        if !is_new {
            let moved = self.changed_group(&name, seen, caches);
            return (self.count(&name, pod, names), moved);
        }
        let mut wakes = self.pod_gone(scheduler, &name);
        if let Some(membership) = self.read(pod, caches) {
            self.join(scheduler, &name, uid, membership, pod);
            wakes.extend(self.count(&name, pod, names));
        }
        (wakes, false)
    }

    /// The group membership of a pod, if the API of that group is served.
    fn read(&self, pod: &ApiObject, caches: &Caches) -> Option<GroupMembership> {
        let membership = GroupMembership::of(&pod.tree, self.reads)?;
        let known = |kind: &Kind| caches.kinds().any(|it| it == kind);
        let is = match &membership.group {
            GroupId::Native(_) | GroupId::Entry { .. } => true,
            GroupId::Coscheduling(_) => known(&gang::COSCHEDULING_GROUPS),
            GroupId::Volcano(_) => known(&gang::VOLCANO_GROUPS),
        };
        is.then_some(membership)
    }

    fn changed_group(&self, name: &PodKey, seen: &WatchEvent<'_>, caches: &Caches) -> bool {
        let (Some(before), Some(after)) = (seen.old, seen.new) else { return false };
        if before.tree.get("metadata") == after.tree.get("metadata") {
            return false;
        }
        let now = self.read(after, caches);
        now != self.read(before, caches) && now.as_ref() != self.members.get(name).map(|it| &it.membership)
    }

    fn join(
        &mut self,
        scheduler: &mut Scheduler,
        name: &PodKey,
        uid: Uid,
        membership: GroupMembership,
        pod: &ApiObject,
    ) {
        let group = (name.0.clone(), membership.group.key());
        let known =
            self.groups.entry(group.clone()).or_insert_with(|| GroupState::new(membership.group.clone()));
        known.status.scheduler = Some(steps::scheduler_of(pod));
        let first = known.pods.is_empty();
        known.pods.insert(name.clone());
        // A group without an own object starts with its first pod.
        if first && !matches!(membership.group, GroupId::Native(_)) {
            self.link(&group);
            self.feed(scheduler, &group);
        }
        let hold = self.hold_of(&membership, &group);
        let member = Member { uid, group, membership, hold, placed: false, ours: false };
        self.members.insert(name.clone(), member);
    }

    /// Updates the counts of a pod's group.
    fn count(&mut self, name: &PodKey, pod: &ApiObject, names: &[&str]) -> Vec<ReconcileRequest> {
        let Some(member) = self.members.get_mut(name) else { return Vec::new() };
        debug_assert_eq!(member.uid, meta::uid(&pod.tree), "a namesake is another member");
        let phase = PodPhase::of(pod.tree.str_at(path::PHASE));
        let placed = !pod.tree.str_at(path::NODE_NAME).is_empty() && phase != PodPhase::Failed;
        let ours = names.contains(&pod.tree.str_at(path::SCHEDULER));
        let was = (std::mem::replace(&mut member.placed, placed), std::mem::replace(&mut member.ours, ours));
        let group = member.group.clone();
        if let Some(known) = self.groups.get_mut(&group) {
            known.recount(was, (placed, ours));
        }
        if placed && !was.0 {
            self.record_scheduled(&group);
        }
        self.request_for(&group).into_iter().collect()
    }

    /// Remembers that a group has reached its quorum.
    fn record_scheduled(&mut self, group: &GroupKey) {
        let enough = self.enough(group);
        if let Some(known) = self.groups.get_mut(group).filter(|it| it.placed >= enough) {
            known.status.scheduled_max = known.status.scheduled_max.max(Some(enough));
        }
    }

    fn pod_gone(&mut self, scheduler: &mut Scheduler, name: &PodKey) -> Vec<ReconcileRequest> {
        let Some(member) = self.members.remove(name) else { return Vec::new() };
        let group = member.group;
        if let Some(known) = self.groups.get_mut(&group) {
            known.pods.remove(name);
            known.recount((member.placed, member.ours), (false, false));
        }
        let wake = self.request_for(&group);
        let ends = self.groups.get(&group).is_some_and(|it| it.pods.is_empty() && it.object.is_none());
        if ends {
            self.unlink(&group);
            self.feed(scheduler, &group);
        }
        self.forget_if_empty(&group);
        wake.into_iter().collect()
    }

    fn forget_if_empty(&mut self, group: &GroupKey) {
        if self.groups.get(group).is_some_and(|it| it.pods.is_empty() && it.object.is_none()) {
            self.groups.remove(group);
        }
    }

    /// The UID of the PodGroup; empty without an object.
    pub fn uid_of(&self, group: &GroupKey) -> Uid {
        let object = self.groups.get(group).and_then(|it| it.object.as_ref());
        object.map(|(_, facts)| facts.uid.clone()).unwrap_or_default()
    }

    /// The scheduler of the pods of a group.
    pub fn scheduler_of(&self, group: &GroupKey) -> Text {
        let by = self.groups.get(group).and_then(|it| it.status.scheduler.clone());
        by.unwrap_or_else(|| managers::SCHEDULER.clone())
    }

    /// Records a decision about a group; returns the keys to reconcile.
    pub fn decided(
        &mut self,
        group: &GroupKey,
        outcome: &GroupOutcome,
        counts: GroupCounts,
    ) -> Vec<ObjectKey> {
        self.metrics.observe_attempt(&outcome.status);
        let by = self.scheduler_of(group);
        let enough = self.enough(group);
        let mut keys = self.evicted(&outcome.victims, &by);
        if let Some(known) = self.groups.get_mut(group) {
            let status = &mut known.status;
            status.pending_batch = true;
            // A group with its quorum assumed is not unschedulable because further pods found no node.
            let on_their_way = counts.assigned + counts.assumed >= enough;
            match scheduling_result(outcome) {
                SchedulingResult::Unschedulable(_) if on_their_way => {}
                result => status.result = result,
            }
        }
        keys.extend(self.key_of(group));
        keys
    }

    /// Records the preemption of groups whose disruption mode is `All`; returns their keys.
    pub fn evicted(&mut self, victims: &[PodKey], by: &Text) -> Vec<ObjectKey> {
        let groups: BTreeSet<GroupKey> =
            victims.iter().filter_map(|pod| Some(self.members.get(pod)?.group.clone())).collect();
        let whole = |group: &GroupKey| matches!(self.resolved(group), Some(GroupResolution::Resolved(it)) if it.disruption == DisruptionMode::All);
        let groups: Vec<GroupKey> = groups.into_iter().filter(whole).collect();
        for group in &groups {
            if let Some(known) = self.groups.get_mut(group) {
                known.status.evicted_by = Some(by.clone());
            }
        }
        groups.iter().filter_map(|group| self.key_of(group)).collect()
    }

    /// The batch of pods that was placed at `since` is bound now.
    pub fn bound(&mut self, since: Time, now: Time) {
        self.metrics.times.observe(now.since(since));
    }

    /// The key of the PodGroup, which reconciles its status.
    fn key_of(&self, group: &GroupKey) -> Option<ObjectKey> {
        let known = self.groups.get(group)?;
        let (GroupId::Native(name) | GroupId::Coscheduling(name) | GroupId::Volcano(name)) = &known.belongs
        else {
            return None;
        };
        let (kind, _) = known.object.as_ref()?;
        Some(ObjectKey::new(kind, &group.0, name))
    }

    fn request_for(&self, group: &GroupKey) -> Option<ReconcileRequest> {
        Some(ReconcileRequest { key: self.key_of(group)?, after: STATUS_BATCH_PERIOD })
    }

    /// Updates the status of a PodGroup, if it differs.
    pub fn reconcile_status(
        &mut self,
        key: &ObjectKey,
        scheduler: &Scheduler,
        caches: &Caches,
        now: Time,
    ) -> Reconciled {
        let Some(origin) = PodGroupApi::of(&key.kind) else { return Reconciled::done() };
        let group = (key.namespace.clone(), origin.group_id(&key.name).key());
        let Some(object) = caches.find(key) else { return Reconciled::done() };
        let resolved = self.resolved(&group);
        let Some(known) = self.groups.get_mut(&group) else { return Reconciled::done() };
        if std::mem::take(&mut known.status.pending_batch) {
            return Reconciled::done().requeue_at(now + STATUS_BATCH_PERIOD);
        }
        known.status.is_own |= known.ours > 0;
        let counted = object.tree.int_at(pod_group::SCHEDULED).unwrap_or(0) > 0;
        let has_stale_count = known.pods.is_empty() && counted;
        if !known.status.is_own && !has_stale_count {
            return Reconciled::done();
        }
        let enough = match &resolved {
            Some(GroupResolution::Resolved(it)) => Ok(it.policy.min_count()),
            Some(GroupResolution::Pending { message: words, .. }) => Err(words.as_str()),
            None => return Reconciled::done(),
        };
        let seen = status::GroupObservation {
            required: enough,
            alive: scheduler.group_counts(&group).all,
            scheduled: known.placed,
            scheduled_max: known.status.scheduled_max,
            result: &known.status.result,
            evicted_by: known.status.evicted_by.as_ref(),
        };
        let waits =
            status::desired_condition(origin, &object.tree, &seen).is_some_and(|it| it.status == "Unknown");
        let patch = status::patch(origin, &object.tree, &seen, now);
        let Some(patch) = patch else { return Reconciled::done() };
        if !waits {
            known.status.pending_since = None;
        } else {
            let until = *known.status.pending_since.get_or_insert(now) + PENDING_STATUS_DELAY;
            if now < until {
                return Reconciled::done().requeue_at(until);
            }
        }
        let by = known.status.scheduler.clone().unwrap_or_else(|| managers::SCHEDULER.clone());
        if is_first_time(origin, object, &object.tree.merge(&patch)) {
            let created = known.pods.iter().filter_map(|(namespace, name)| {
                meta::creation_timestamp(&caches.get(&kinds::PODS, namespace, name)?.tree)
            });
            self.metrics.waits.observe(created.min().map(|first| now.since(first)).unwrap_or_default());
        }
        Reconciled::with_steps(vec![Step::Request(ApiRequest {
            field_manager: by,
            target: key.target(Subresource::Status),
            preconditions: Preconditions {
                uid: Some(meta::uid(&object.tree)),
                revision: Some(object.revision),
            },
            verb: RequestVerb::MergePatch(patch),
        })])
    }

    /// The metrics of groups, with the gauges of those that exist now.
    pub fn metrics(&self) -> PodGroupMetrics {
        let mut metrics = self.metrics.clone();
        for (group, known) in self.groups.iter().filter(|(_, known)| known.object.is_some()) {
            let Some(GroupResolution::Resolved(it)) = self.resolved(group) else {
                *metrics.groups.entry(("unknown", false)).or_default() += 1;
                continue;
            };
            let policy = if it.policy == SchedulingPolicy::Basic { "basic" } else { "gang" };
            let scheduled = known.placed >= it.policy.min_count();
            *metrics.groups.entry((policy, scheduled)).or_default() += 1;
        }
        metrics
    }
}

impl GroupState {
    fn new(belongs: GroupId) -> GroupState {
        GroupState {
            belongs,
            object: None,
            pods: BTreeSet::new(),
            placed: 0,
            ours: 0,
            status: GroupStatusState::default(),
        }
    }

    /// Replaces the counts (placed, own) of one pod.
    fn recount(&mut self, was: (bool, bool), is: (bool, bool)) {
        self.placed = self.placed - usize::from(was.0) + usize::from(is.0);
        self.ours = self.ours - usize::from(was.1) + usize::from(is.1);
        self.status.is_own |= self.ours > 0;
    }
}

fn is_first_time(origin: PodGroupApi, before: &ApiObject, after: &muster_tree::Tree) -> bool {
    !status::is_scheduled(origin, &before.tree) && status::is_scheduled(origin, after)
}

fn readiness(resolved: GroupResolution) -> GroupReadiness {
    let settled = match resolved {
        GroupResolution::Resolved(settled) => settled,
        GroupResolution::Pending {
            missing: MissingReference::Workload | MissingReference::Template,
            message: words,
        } => {
            return GroupReadiness::Waiting {
                why: scheduler::MissingReference::Workload,
                words: Text::from(words),
            };
        }
    };
    GroupReadiness::Ready(GroupSpec {
        policy: match settled.policy {
            SchedulingPolicy::Basic => scheduler::SchedulingPolicy::Basic,
            SchedulingPolicy::Gang { min } => scheduler::SchedulingPolicy::Gang { min },
        },
        priority: settled.priority,
        preempts: settled.preempts,
        disruption: match settled.disruption {
            DisruptionMode::Single => scheduler::DisruptionMode::Single,
            DisruptionMode::All => scheduler::DisruptionMode::All,
        },
        topology: settled.topology,
        deadline: settled.deadline,
    })
}

fn scheduling_result(outcome: &GroupOutcome) -> SchedulingResult {
    match &outcome.status {
        GroupStatus::Placed => SchedulingResult::Scheduled,
        // The status itself shows what is missing: pods are counted, references resolved when it is written.
        GroupStatus::Held(HoldReason::Pods | HoldReason::Group | HoldReason::Workload) => {
            SchedulingResult::None
        }
        GroupStatus::Held(HoldReason::Gated) => {
            let words = outcome.unschedulable.first().map(|it| it.message.clone());
            SchedulingResult::Gated(
                words.unwrap_or_else(|| "a pod of the group cannot be queued yet".to_owned()),
            )
        }
        GroupStatus::Unschedulable(why) => SchedulingResult::Unschedulable(why.clone()),
        GroupStatus::Error(why) => SchedulingResult::Error(why.clone()),
        GroupStatus::DeadlineExceeded(why) => SchedulingResult::TimedOut(why.clone()),
    }
}
