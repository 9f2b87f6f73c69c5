//! The scheduler cache: nodes, assumed and bound pods, equivalence classes, topology counts, volumes and devices.
//!
//! # Invariants
//!
//! - A pod is on at most one row; its requests are charged there and its labels are counted there.
//! - [`SchedulerCache::add_to_node`] and [`SchedulerCache::remove_from_node`] are inverse: a cycle is undone by the
//!   opposite calls in reverse order.

use std::collections::{BTreeMap, HashMap};

use muster_api::time::Time;
use muster_tree::Text;

use crate::counts::{CounterId, CounterSpec, LabelProfileId, TopologyCounts};
use crate::devices::DynamicResources;
use crate::equivalence_class::{ClassId, EquivalenceClass, SpreadRule};
use crate::gang::{GroupCache, GroupId, MemberState, NodeScope};
use crate::label::Labels;
use crate::node_affinity::NodeRequirements;
use crate::node_classes::NodeClasses;
use crate::node_table::{NodeRow, NodeTable};
use crate::packing::Packing;
use crate::pod::{GroupKey, PodKey};
use crate::pod_affinity::TopologySpreadConstraint;
use crate::requirements::SchedulingRequirements;
use crate::volumes::VolumeBinder;
use crate::{devices, volumes};

/// Index of a pod in the cache.
pub type PodId = u32;

/// Equivalence classes without pods that stay compiled, in case more pods of the class are created.
const IDLE_CLASSES_MAX: usize = 256;

/// A pod as the cache holds it.
#[derive(Debug)]
pub struct PodInfo {
    pub key: PodKey,
    pub labels: Labels,
    pub class: ClassId,
    pub profile: LabelProfileId,
    pub priority: i64,
    /// `preemptionPolicy` is not `Never`.
    pub preempts: bool,
    /// It is a preemption victim.
    pub evicted: bool,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
    /// The API field `status.startTime`.
    pub started: Option<Time>,
    pub on: Option<NodeRow>,
    /// `spec.nodeName` is set at the API server; otherwise the pod is only assumed.
    pub bound: bool,
    pub nominated: Option<NodeRow>,
    /// The Pod carried a `status.nominatedNodeName` when last observed.
    pub nominated_in_status: bool,
    pub created: Time,
    /// Failed bindings and evictions; the backoff grows with it.
    pub failures: u32,
    /// The pod group it is scheduled with.
    pub group: Option<GroupId>,
    /// `spec.schedulingGates` is not empty.
    pub gated: bool,
    /// Why `PreEnqueue` rejects it.
    pub pre_enqueue_error: Option<Text>,
    /// The API field `spec.schedulerName`.
    pub scheduler: Text,
    /// The last message reported for its held group.
    pub reported_message: Text,
    pub volumes: volumes::PodVolumeClaims,
    pub devices: devices::PodResourceClaims,
    pub entry: Option<u32>,
}

impl PodInfo {
    /// Whether it uses PersistentVolumeClaims or ResourceClaims.
    pub fn has_claims(&self) -> bool {
        !self.volumes.is_empty() || !self.devices.is_empty()
    }

    /// Its state in the counts of its group.
    pub fn state(&self) -> MemberState {
        match (self.on, self.bound) {
            (Some(_), true) => MemberState::Assigned,
            (Some(_), false) => MemberState::Assumed,
            (None, _) if self.deleting => MemberState::Terminating,
            (None, _) => MemberState::Waiting { gated: self.gated, held: self.pre_enqueue_error.is_some() },
        }
    }

    pub fn volume_claims(&self, id: PodId) -> volumes::VolumeClaimingPod<'_> {
        volumes::VolumeClaimingPod { id, key: &self.key, claims: &self.volumes, bound: self.bound }
    }

    pub fn device_claims(&self, id: PodId) -> devices::DeviceClaimingPod<'_> {
        devices::DeviceClaimingPod { id, key: &self.key, claims: &self.devices, bound: self.bound }
    }
}

/// All state that filter and score plugins read.
#[derive(Debug, Default)]
pub struct SchedulerCache {
    pub table: NodeTable,
    pub node_classes: NodeClasses,
    pub counts: TopologyCounts,
    pub volumes: VolumeBinder,
    pub devices: DynamicResources,
    /// Resources that are scored by `MostAllocated`.
    pub packing: Packing,
    /// Equivalence classes; `None` is a free id.
    pub classes: Vec<Option<EquivalenceClass>>,
    class_of: HashMap<SchedulingRequirements, ClassId>,
    free_classes: Vec<ClassId>,
    idle: Vec<ClassId>,
    /// Pods; `None` is a free id.
    pub pods: Vec<Option<PodInfo>>,
    pub groups: GroupCache,
    /// Restricts filter and score to these nodes while one topology domain is tried.
    pub scope: Option<NodeScope>,
    /// Scopes created so far.
    pub scopes_created: u64,
    /// Nominated pods by node.
    pub nominated: BTreeMap<NodeRow, Vec<PodId>>,
    /// Number of placed pods by priority.
    pub placed: BTreeMap<i64, usize>,
    pub changes: u64,
    /// Counters changed since the last requeue.
    pub changed_counters: Vec<CounterId>,
    /// Rows with more free resources since the last requeue.
    pub freed_rows: Vec<NodeRow>,
    /// Whether volumes, devices or claims changed since the last requeue.
    pub claims_changed: bool,
    /// Whether an unschedulable entry exists, so that the three fields above must be recorded.
    pub has_unschedulable: bool,
}

impl SchedulerCache {
    pub fn pod(&self, id: PodId) -> &PodInfo {
        self.pods[id as usize].as_ref().expect("a numbered pod exists")
    }

    pub fn pod_mut(&mut self, id: PodId) -> &mut PodInfo {
        self.pods[id as usize].as_mut().expect("a numbered pod exists")
    }

    /// Changes a pod and keeps the counts of its group in step.
    pub fn change<T>(&mut self, id: PodId, change: impl FnOnce(&mut PodInfo) -> T) -> T {
        let pod = self.pods[id as usize].as_mut().expect("a numbered pod exists");
        let before = pod.state();
        let answer = change(pod);
        let after = pod.state();
        if let Some(team) = pod.group.filter(|_| before != after) {
            let team = self.groups.of_mut(team);
            team.count(before, false);
            team.count(after, true);
        }
        answer
    }

    pub fn nominated_name(&self, id: PodId) -> Option<Text> {
        self.pod(id).nominated.map(|row| self.table.name(row).clone())
    }

    pub fn join_group(&mut self, id: PodId, group: &GroupKey) {
        let team = self.groups.id(group);
        let pod = self.pods[id as usize].as_mut().expect("a numbered pod exists");
        pod.group = Some(team);
        let team = self.groups.of_mut(team);
        team.count(pod.state(), true);
        team.members.insert(id);
    }

    /// Removes a deleted pod from its group.
    pub fn leave_group(&mut self, id: PodId) -> Option<GroupId> {
        let pod = self.pods[id as usize].as_mut().expect("a numbered pod exists");
        let team = pod.group.take()?;
        let known = self.groups.of_mut(team);
        known.count(pod.state(), false);
        known.members.remove(&id);
        known.unreported.remove(&id);
        if known.members.is_empty() {
            known.first_attempt = None;
        }
        Some(team)
    }

    pub fn class(&self, id: ClassId) -> &EquivalenceClass {
        self.classes[id as usize].as_ref().expect("a class in use exists")
    }

    /// A class, with the table its ranking reads.
    pub fn class_mut(&mut self, id: ClassId) -> (&mut EquivalenceClass, &NodeTable) {
        (self.classes[id as usize].as_mut().expect("a class in use exists"), &self.table)
    }

    /// Charges and counts an assumed or bound pod on a row.
    pub fn add_to_node(&mut self, id: PodId, row: NodeRow) {
        let SchedulerCache { pods, classes, table, counts, volumes, devices, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.add_pod(row, id, &class.requests);
        counts.count(row, pod.profile, &class.own_terms, 1);
        if pod.has_claims() {
            volumes.assume(&pod.volume_claims(id), table.name(row), table.facts(row));
            devices.assume(&pod.device_claims(id), table.name(row), table.facts(row));
        }
        *self.placed.entry(pod.priority).or_default() += 1;
        self.change(id, |pod| pod.on = Some(row));
        self.changes += 1;
        self.record_changed_counters(id);
    }

    /// Releases what a pod holds on its row.
    pub fn remove_from_node(&mut self, id: PodId) {
        self.record_changed_counters(id);
        let SchedulerCache { pods, classes, table, counts, volumes, devices, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let Some(row) = pod.on else { return };
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.remove_pod(row, id, &class.requests);
        counts.count(row, pod.profile, &class.own_terms, -1);
        if pod.has_claims() {
            // Devices before volumes, the reverse of adding: a rollback must restore the exact state.
            let freed = devices.forget(&pod.device_claims(id));
            volumes.forget(&pod.volume_claims(id));
            self.claims_changed |= freed || !pod.volumes.is_empty();
        }
        let many = self.placed.get_mut(&pod.priority).expect("a placed pod was counted");
        *many -= 1;
        if *many == 0 {
            self.placed.remove(&pod.priority);
        }
        self.change(id, |pod| pod.on = None);
        self.changes += 1;
        if self.has_unschedulable {
            self.freed_rows.push(row);
        }
    }

    /// Adds a pod to a row (`sign` 1) or removes it (-1) for a dry run: stamps and the change log stay as they are.
    pub fn simulate(&mut self, id: PodId, row: NodeRow, sign: i32) {
        let SchedulerCache { pods, classes, table, counts, volumes, devices, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.charge(row, &class.requests, i64::from(sign));
        counts.count(row, pod.profile, &class.own_terms, sign);
        if pod.has_claims() {
            volumes.simulate(&pod.volume_claims(id), sign);
            devices.simulate(&pod.device_claims(id), sign);
        }
    }

    /// Removes a pod from its row for a dry run that rankings must see. [`SchedulerCache::restore`] is the inverse.
    pub fn dry_run_evict(&mut self, id: PodId) {
        if let Some(row) = self.pod(id).on {
            self.simulate(id, row, -1);
            self.table.touch(row);
        }
    }

    pub fn restore(&mut self, id: PodId) {
        if let Some(row) = self.pod(id).on {
            self.simulate(id, row, 1);
            self.table.touch(row);
        }
    }

    fn record_changed_counters(&mut self, id: PodId) {
        if self.has_unschedulable {
            let pod = self.pods[id as usize].as_ref().expect("a numbered pod exists");
            let class = self.classes[pod.class as usize].as_ref().expect("a class in use exists");
            self.changed_counters.extend(self.counts.counted_by(pod.profile).iter().chain(&class.own_terms));
        }
    }

    /// The equivalence class of these requirements, with one more user.
    pub fn acquire_class(&mut self, demand: &SchedulingRequirements) -> ClassId {
        if let Some(id) = self.class_of.get(demand) {
            let class = self.classes[*id as usize].as_mut().expect("a known class exists");
            class.users += 1;
            return *id;
        }
        let mut class = EquivalenceClass::new(demand.clone(), self.packing, &mut self.table);
        self.compile(&mut class);
        class.users = 1;
        let id = self.free_classes.pop().unwrap_or_else(|| {
            self.classes.push(None);
            ClassId::try_from(self.classes.len() - 1).expect("fewer classes than 2^32")
        });
        self.classes[id as usize] = Some(class);
        self.class_of.insert(demand.clone(), id);
        id
    }

    /// Releases a class; the longest idle classes are evicted.
    pub fn release_class(&mut self, id: ClassId) {
        let class = self.classes[id as usize].as_mut().expect("a class in use exists");
        class.users -= 1;
        if class.users > 0 {
            return;
        }
        self.idle.push(id);
        if self.idle.len() <= IDLE_CLASSES_MAX {
            return;
        }
        // Evict half at once: evicting one class at a time would shift the list on every release.
        let half: Vec<ClassId> = self.idle.drain(..IDLE_CLASSES_MAX / 2).collect();
        for id in half {
            let unused = self.classes[id as usize].as_ref().is_some_and(|class| class.users == 0);
            if unused && let Some(class) = self.classes[id as usize].take() {
                class.counters().for_each(|counter| self.counts.release_counter(counter));
                self.class_of.remove(&class.demand);
                self.free_classes.push(id);
            }
        }
    }

    fn compile(&mut self, class: &mut EquivalenceClass) {
        let company = class.demand.pods.clone();
        let near_keys: Vec<Text> = company.affinity.iter().map(|term| term.key.clone()).collect();
        for key in near_keys {
            let counter = self.counter(&CounterSpec::Matching(company.affinity.clone(), key));
            class.affinity.push(counter);
        }
        for term in &company.anti_affinity {
            let counter = self.counter(&CounterSpec::Matching(vec![term.clone()], term.key.clone()));
            class.anti_affinity.push(counter);
            let carried = self.counter(&CounterSpec::PodsWithTerm(term.clone(), 0));
            class.own_terms.push(carried);
        }
        for (weight, term) in &company.preferred {
            let counter = self.counter(&CounterSpec::Matching(vec![term.clone()], term.key.clone()));
            class.preferred.push((*weight, counter));
            let carried = self.counter(&CounterSpec::PodsWithTerm(term.clone(), *weight));
            class.own_terms.push(carried);
        }
        // A required affinity term of a placed pod counts for the incoming pod with `hardPodAffinityWeight` 1.
        for term in &company.affinity {
            let carried = self.counter(&CounterSpec::PodsWithTerm(term.clone(), 1));
            class.own_terms.push(carried);
        }
        class.hard = self.rules(&company.hard, &class.demand.node);
        class.soft = self.rules(&company.soft, &class.demand.node);
    }

    fn rules(&mut self, rules: &[TopologySpreadConstraint], site: &NodeRequirements) -> Vec<SpreadRule> {
        let keys: Vec<Text> = rules.iter().map(|rule| rule.key.clone()).collect();
        let rule = |rule: &TopologySpreadConstraint| {
            // Constraints that ignore node affinity and taints share one counter between pods with different requirements.
            let site = if rule.honor_affinity || rule.honor_taints {
                site.clone()
            } else {
                NodeRequirements::default()
            };
            SpreadRule {
                counter: self.counter(&CounterSpec::Spread(rule.clone(), site, keys.clone())),
                skew: rule.skew,
                min_domains: rule.min_domains,
            }
        };
        rules.iter().map(rule).collect()
    }

    fn counter(&mut self, spec: &CounterSpec) -> CounterId {
        if self.counts.track_labels(spec) {
            self.reprofile_pods();
        }
        let SchedulerCache { table, counts, pods, .. } = self;
        let rows = u32::try_from(table.rows()).expect("fewer nodes than 2^32");
        let nodes = (0..rows).map(|row| (row, table.facts(row)));
        let placed = pods.iter().flatten().filter_map(|pod| Some((pod.on?, pod.profile)));
        counts.counter(spec, nodes, placed)
    }

    /// Recomputes the label profile of every pod, because a selector uses a label key that was not tracked so far. No
    /// existing counter selects by that key, so no count changes.
    fn reprofile_pods(&mut self) {
        for pod in self.pods.iter_mut().flatten() {
            let sort = self.counts.acquire_profile(&pod.key.0, &pod.labels, pod.deleting);
            self.counts.release_profile(std::mem::replace(&mut pod.profile, sort));
        }
    }

    /// Uncounts all pods, runs `change`, and counts them again.
    pub fn recount(&mut self, change: impl FnOnce(&mut TopologyCounts)) {
        self.count_all(-1);
        change(&mut self.counts);
        self.counts.join_all();
        self.count_all(1);
        self.changes += 1;
    }

    fn count_all(&mut self, sign: i32) {
        for pod in self.pods.iter().flatten() {
            if let Some(row) = pod.on {
                let class = self.classes[pod.class as usize].as_ref().expect("a class in use exists");
                self.counts.count(row, pod.profile, &class.own_terms, sign);
            }
        }
    }

    /// Counts the pods of one row (`sign` 1) or uncounts them (-1).
    pub fn count_row(&mut self, row: NodeRow, sign: i32) {
        for id in self.table.pods(row) {
            let pod = self.pods[*id as usize].as_ref().expect("a numbered pod exists");
            let class = self.classes[pod.class as usize].as_ref().expect("a class in use exists");
            self.counts.count(row, pod.profile, &class.own_terms, sign);
        }
    }
}
