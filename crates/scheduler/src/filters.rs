//! Filter plugins: whether a node is feasible for a pod, and the first failure if it is not.
//!
//! The order (node, host ports, resources, volumes, topology spread, inter-pod affinity, devices) is that of
//! kube-scheduler's default profile, so that a node reports the same reason.

use muster_tree::Text;

use crate::cache::{PodId, SchedulerCache};
use crate::counts::CounterId;
use crate::equivalence_class::{ClassId, NodeFit, NodeMismatch, SpreadRule};
use crate::node_affinity::NamedNodes;
use crate::node_table::{NodeRow, PODS};
use crate::reason::{Reason, ReasonCounts};
use crate::{devices, volumes};

/// The first filter plugin that rejects a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterFailure {
    Node(NodeMismatch),
    Ports,
    Resources,
    Volumes(volumes::VolumeFilterFailure),
    /// The node lacks the topology key of a spread constraint.
    SpreadLabel,
    Spread,
    Affinity,
    AntiAffinity,
    ExistingAntiAffinity,
    Devices(devices::DeviceFilterFailure),
}

/// State that the filters of one cycle share (`PreFilter`); valid until a count changes.
#[derive(Debug, Default)]
pub struct PreFilterState {
    /// Counter, and the most matching pods a domain may have.
    hard: Vec<(CounterId, i64)>,
    /// No pod matches the required affinity, but the pod matches its own terms: it may be the first of its group.
    first: bool,
    /// Required anti-affinity terms of placed pods that match the pod.
    forbidden: Vec<CounterId>,
}

impl SchedulerCache {
    /// Whether the filters of a pod depend on other pods.
    pub fn depends_on_pods(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        self.class(pod.class).depends_on_pods() || self.counts.matching_terms(pod.profile).next().is_some()
    }

    /// Computes the shared filter state of a pod.
    pub fn pre_filter(&self, id: PodId) -> PreFilterState {
        let pod = self.pod(id);
        let class = self.class(pod.class);
        let limit = |rule: &SpreadRule| {
            let (smallest, domains) = self.counts.smallest(rule.counter);
            // Below `minDomains` the global minimum counts as 0, so that pods stay pending until there are enough domains.
            let smallest = if domains < rule.min_domains { 0 } else { i64::from(smallest) };
            let itself = i64::from(self.counts.counts_itself(rule.counter, pod.profile));
            (rule.counter, rule.skew + smallest - itself)
        };
        // The first pod of a group with affinity to itself may go anywhere, or no pod of the group could ever be scheduled.
        let none_near = class.affinity.iter().all(|counter| self.counts.total(*counter) == 0);
        let likes_itself =
            class.affinity.iter().all(|counter| self.counts.counts_profile(*counter, pod.profile));
        let forbidden = self.counts.matching_terms(pod.profile).filter(|(_, likes)| *likes == 0);
        PreFilterState {
            hard: class.hard.iter().map(limit).collect(),
            first: none_near && likes_itself,
            forbidden: forbidden.map(|(counter, _)| counter).collect(),
        }
    }

    /// Runs the filters of a pod on a node; `None` if the node is feasible.
    pub fn filter(&mut self, id: PodId, company: &PreFilterState, row: NodeRow) -> Option<FilterFailure> {
        let class_id = self.pod(id).class;
        let (class, table) = self.class_mut(class_id);
        if let NodeFit::No(no) = class.node_fit(table, row) {
            return Some(FilterFailure::Node(no));
        }
        if table.ports_collide(row, &class.requests) {
            return Some(FilterFailure::Ports);
        }
        if !table.has_amounts(row, &class.requests) {
            return Some(FilterFailure::Resources);
        }
        if !self.pod(id).has_claims() {
            return self.filter_inter_pod(class_id, company, row);
        }
        let volumes = self.filter_volumes(id, row);
        let company = volumes.or_else(|| self.filter_inter_pod(class_id, company, row));
        company.or_else(|| self.filter_devices(id, row))
    }

    fn filter_volumes(&mut self, id: PodId, row: NodeRow) -> Option<FilterFailure> {
        let SchedulerCache { pods, volumes, table, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        volumes.filter(&pod.volume_claims(id), table.facts(row)?).map(FilterFailure::Volumes)
    }

    fn filter_devices(&mut self, id: PodId, row: NodeRow) -> Option<FilterFailure> {
        let SchedulerCache { pods, devices, table, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        devices.filter(&pod.device_claims(id), table.facts(row)?).map(FilterFailure::Devices)
    }

    /// Why a pod is unschedulable on every node (`PreFilter` failure).
    pub fn pre_filter_error(&self, id: PodId) -> Option<Text> {
        let pod = self.pod(id);
        if !pod.has_claims() {
            return None;
        }
        self.volumes
            .pre_filter_error(&pod.volume_claims(id))
            .or_else(|| self.devices.pre_filter_error(&pod.device_claims(id)))
    }

    /// Whether `PreFilter` fails in a plugin that runs before `DynamicResources`.
    pub fn fails_before_devices(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        let contradicts_itself = self.class(pod.class).named == NamedNodes::Unsatisfiable;
        contradicts_itself
            || (pod.has_claims() && self.volumes.pre_filter_error(&pod.volume_claims(id)).is_some())
    }

    fn filter_inter_pod(
        &self,
        class: ClassId,
        company: &PreFilterState,
        row: NodeRow,
    ) -> Option<FilterFailure> {
        let class = self.class(class);
        for (counter, limit) in &company.hard {
            match self.counts.at(*counter, row) {
                None => return Some(FilterFailure::SpreadLabel),
                Some(count) if i64::from(count) > *limit => return Some(FilterFailure::Spread),
                Some(_) => {}
            }
        }
        let at = |counter: &CounterId| self.counts.at(*counter, row);
        if class.affinity.iter().any(|counter| at(counter).is_none()) {
            return Some(FilterFailure::Affinity);
        }
        if !company.first && class.affinity.iter().any(|counter| at(counter) <= Some(0)) {
            return Some(FilterFailure::Affinity);
        }
        if class.anti_affinity.iter().any(|counter| at(counter) > Some(0)) {
            return Some(FilterFailure::AntiAffinity);
        }
        company
            .forbidden
            .iter()
            .any(|counter| at(counter) > Some(0))
            .then_some(FilterFailure::ExistingAntiAffinity)
    }

    /// Runs the filters with and without the pods nominated for the node, as kube-scheduler's
    /// `RunFilterPluginsWithNominatedPods`: nominated pods may not arrive, so affinity must hold in both cases.
    pub fn filter_with_nominated(&mut self, id: PodId, row: NodeRow) -> Option<FilterFailure> {
        let others = self.nominated_above(id, row);
        if !others.is_empty() {
            others.iter().for_each(|other| self.simulate(*other, row, 1));
            let company = self.pre_filter(id);
            let wrong = self.filter(id, &company, row);
            others.iter().for_each(|other| self.simulate(*other, row, -1));
            if wrong.is_some() {
                return wrong;
            }
        }
        let company = self.pre_filter(id);
        self.filter(id, &company, row)
    }

    /// Pods of equal or higher priority that are nominated for a node.
    pub fn nominated_above(&self, id: PodId, row: NodeRow) -> Vec<PodId> {
        let Some(all) = self.nominated.get(&row) else { return Vec::new() };
        let priority = self.pod(id).priority;
        let above = |other: &&PodId| {
            let pod = self.pod(**other);
            **other != id && pod.priority >= priority && pod.on.is_none()
        };
        all.iter().filter(above).copied().collect()
    }

    /// Counts the reasons of a filter failure.
    pub fn count_reasons(&self, id: PodId, row: NodeRow, wrong: FilterFailure, tally: &mut ReasonCounts) {
        let pod = self.pod(id);
        match wrong {
            FilterFailure::Node(no) => tally.add(no.reason()),
            FilterFailure::Ports => tally.add(Reason::Ports),
            FilterFailure::Resources => {
                self.insufficient(pod.class, row).for_each(|reason| tally.add(reason));
            }
            FilterFailure::Volumes(wrong) => tally.add(wrong.reason()),
            FilterFailure::Devices(wrong) => tally.add(wrong.reason()),
            FilterFailure::SpreadLabel => tally.add(Reason::SpreadLabel),
            FilterFailure::Spread => tally.add(Reason::Spread),
            FilterFailure::Affinity => tally.add(Reason::PodAffinity),
            FilterFailure::AntiAffinity => tally.add(Reason::AntiAffinity),
            FilterFailure::ExistingAntiAffinity => tally.add(Reason::ExistingAntiAffinity),
        }
    }

    /// The resources that are insufficient on a node.
    fn insufficient(&self, class: ClassId, row: NodeRow) -> impl Iterator<Item = Reason> + '_ {
        let asks = &self.class(class).requests.amounts;
        let short = asks.iter().filter(move |(resource, amount)| self.table.left(row, *resource) < *amount);
        short.map(|(resource, _)| match *resource {
            PODS => Reason::TooManyPods,
            other => Reason::Insufficient(self.table.resource_name(other).clone()),
        })
    }

    /// Whether preemption on the node may help (`Unschedulable`, not `UnschedulableAndUnresolvable`).
    pub fn resolvable(&self, id: PodId, row: NodeRow, wrong: FilterFailure) -> bool {
        let pod = self.pod(id);
        match wrong {
            FilterFailure::Node(_) | FilterFailure::SpreadLabel | FilterFailure::Affinity => false,
            FilterFailure::Ports
            | FilterFailure::Spread
            | FilterFailure::AntiAffinity
            | FilterFailure::ExistingAntiAffinity => true,
            FilterFailure::Volumes(wrong) => wrong.resolvable(),
            FilterFailure::Devices(wrong) => wrong.resolvable(),
            // kube-scheduler leaves `pods` out of this check, too.
            FilterFailure::Resources => {
                self.class(pod.class).requests.amounts.iter().all(|(resource, amount)| {
                    *resource == PODS || *amount <= self.table.allocatable(row, *resource)
                })
            }
        }
    }
}
