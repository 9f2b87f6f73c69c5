//! The pending queue of one ClusterQueue.
//!
//! Workloads with equal scheduling inputs form an *equivalence class*, in queue order. Only the first Workload of a
//! class is in the heap: marking a class inadmissible, or requeueing it, moves one entry however many Workloads it
//! has, and all keep their positions. Kueue's scheduling equivalence hashing does the same.
//!
//! # Guarantees
//!
//! - A Workload is in exactly one class, or ineligible by itself.
//! - `heads` holds exactly the first Workload of every class that is not inadmissible; `due` those in requeue
//!   backoff.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_tree::Text;

use super::TreeVersion;
use super::decision::Evaluation;
use super::tree::FlavorResourceId;
use super::workload::{FlavorNodeRequirements, NamespacedName, PodSetSpec, Requests, WorkloadInfo};

/// Bound on the inadmissible classes that are kept without members, so that the next equivalent Workload shares the
/// result.
pub const REMEMBERED_CLASSES_MAX: usize = 1024;

/// The position of a Workload in its queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    pub priority: Reverse<i64>,
    pub since: Time,
    pub uid: Text,
    pub key: NamespacedName,
}

/// All inputs of a Workload that the scheduling result depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EquivalenceKey {
    priority: i64,
    sets: Vec<PodSetKey>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PodSetKey {
    left: i64,
    min_count: Option<i64>,
    requests: Requests,
    tolerations: Vec<Toleration>,
    affinity: FlavorNodeRequirements,
}

impl EquivalenceKey {
    /// The shape of a workload.
    #[must_use]
    pub fn of(info: &WorkloadInfo) -> EquivalenceKey {
        let set = |set: &PodSetSpec| PodSetKey {
            left: set.count_after_reclaim(),
            min_count: set.min_count,
            requests: set.requests.clone(),
            tolerations: set.tolerations.clone(),
            affinity: set.affinity.clone(),
        };
        EquivalenceKey { priority: info.priority, sets: info.pod_sets.iter().map(set).collect() }
    }

    /// The total requests of `count` Workloads of this class.
    #[must_use]
    pub fn asked(&self, count: usize) -> Requests {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut all = Requests::new();
        for set in &self.sets {
            for (resource, amount) in &set.requests {
                let sum = all.entry(resource.clone()).or_default();
                *sum = sum.saturating_add(amount.saturating_mul(set.left).saturating_mul(count));
            }
        }
        all
    }
}

/// Why a Workload cannot be a head, independent of quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ineligibility {
    /// Requeue backoff until this time.
    Backoff(Time),
    /// Condition `Requeued` is False: its controller requeues it.
    OnHold,
    /// The ClusterQueue's namespace selector does not match.
    NamespaceMismatch,
    /// Failed admission checks or invalid resources.
    Invalid,
}

/// An inadmissible class: none of these flavor-resources had quota or candidates, or other heads took precedence.
#[derive(Debug, Clone)]
pub struct InadmissibleClass {
    /// A release of any of these requeues the class.
    pub pairs: Vec<FlavorResourceId>,
    /// Set when the class was skipped: any change of the tree requeues it.
    pub chances: Option<TreeVersion>,
    /// The result that all members share.
    pub verdict: Arc<Evaluation>,
}

#[derive(Debug, Clone, Default)]
struct EquivalenceClass {
    members: BTreeSet<QueuePosition>,
    inadmissible: Option<InadmissibleClass>,
    /// Members without a reported pending status.
    unreported: BTreeSet<NamespacedName>,
}

/// The line of one queue.
#[derive(Debug, Clone, Default)]
pub struct PendingQueue {
    classes: BTreeMap<Arc<EquivalenceKey>, EquivalenceClass>,
    heads: BTreeSet<(QueuePosition, Arc<EquivalenceKey>)>,
    aside: BTreeMap<NamespacedName, (QueuePosition, Ineligibility)>,
    /// Ineligible Workloads in requeue backoff, by its end.
    due: BTreeSet<(Time, NamespacedName)>,
    sticky: Option<(QueuePosition, Arc<EquivalenceKey>)>,
}

impl PendingQueue {
    /// Adds a Workload to its class; returns whether the class is inadmissible.
    pub fn push(&mut self, place: QueuePosition, shape: &Arc<EquivalenceKey>) -> bool {
        self.remove_head(shape);
        let class = self.classes.entry(Arc::clone(shape)).or_default();
        let parked = class.inadmissible.is_some();
        if parked {
            class.unreported.insert(place.key.clone());
        }
        class.members.insert(place);
        self.insert_head(shape);
        parked
    }

    /// Puts a workload aside.
    pub fn insert_ineligible(&mut self, place: QueuePosition, why: Ineligibility) {
        if let Ineligibility::Backoff(at) = why {
            self.due.insert((at, place.key.clone()));
        }
        self.aside.insert(place.key.clone(), (place, why));
    }

    fn remove_ineligible(&mut self, key: &NamespacedName) {
        if let Some((_, Ineligibility::Backoff(at))) = self.aside.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }

    pub fn remove(&mut self, place: &QueuePosition, shape: &Arc<EquivalenceKey>) {
        self.remove_ineligible(&place.key);
        self.clear_sticky(&place.key);
        self.remove_head(shape);
        if let Some(class) = self.classes.get_mut(shape) {
            class.members.remove(place);
            class.unreported.remove(&place.key);
            // An inadmissible class without members is kept: the next equivalent Workload shares its result without
            // a nomination.
            // Beyond the bound an empty class is dropped; the next equivalent Workload is nominated again.
            let many = self.classes.len() > REMEMBERED_CLASSES_MAX;
            if self
                .classes
                .get(shape)
                .is_some_and(|class| class.members.is_empty() && (many || class.inadmissible.is_none()))
            {
                self.classes.remove(shape);
            }
        }
        self.insert_head(shape);
    }

    fn remove_head(&mut self, shape: &Arc<EquivalenceKey>) {
        if let Some(first) = self.classes.get(shape).and_then(|class| class.members.first()) {
            self.heads.remove(&(first.clone(), Arc::clone(shape)));
        }
    }

    fn insert_head(&mut self, shape: &Arc<EquivalenceKey>) {
        if let Some(class) = self.classes.get(shape)
            && class.inadmissible.is_none()
            && let Some(first) = class.members.first()
        {
            self.heads.insert((first.clone(), Arc::clone(shape)));
        }
    }

    /// The next Workload to nominate: the sticky one, which waits for its victims, else the first.
    #[must_use]
    pub fn head(&self) -> Option<&NamespacedName> {
        self.sticky.as_ref().or_else(|| self.heads.first()).map(|(place, _)| &place.key)
    }

    /// Keeps a Workload at the head until it changes (Kueue's sticky workload): otherwise a later one could take
    /// the quota of its victims.
    pub fn set_sticky(&mut self, place: &QueuePosition, shape: &Arc<EquivalenceKey>) {
        self.sticky = Some((place.clone(), Arc::clone(shape)));
    }

    /// Clears the sticky head if it is this one.
    pub fn clear_sticky(&mut self, key: &NamespacedName) {
        if self.sticky.as_ref().is_some_and(|(place, _)| place.key == *key) {
            self.sticky = None;
        }
    }

    /// Marks a class inadmissible; returns the other members in order.
    pub fn mark_inadmissible(
        &mut self,
        shape: &Arc<EquivalenceKey>,
        told: &NamespacedName,
        parked: InadmissibleClass,
    ) -> Vec<NamespacedName> {
        self.remove_head(shape);
        self.clear_sticky(told);
        let Some(class) = self.classes.get_mut(shape) else { return Vec::new() };
        class.inadmissible = Some(parked);
        class.members.iter().map(|place| place.key.clone()).filter(|key| key != told).collect()
    }

    /// Takes the members that joined an inadmissible class and were not reported yet.
    pub fn take_unreported(&mut self) -> Vec<NamespacedName> {
        let mut all: Vec<NamespacedName> = Vec::new();
        for class in self.classes.values_mut().filter(|class| class.inadmissible.is_some()) {
            all.extend(std::mem::take(&mut class.unreported));
        }
        all
    }

    /// Requeues the classes that lacked these flavor-resources; returns whether there were any.
    pub fn requeue_by_flavor_resources(&mut self, pairs: &[FlavorResourceId]) -> bool {
        self.requeue_classes(|parked| parked.pairs.iter().any(|pair| pairs.contains(pair)))
    }

    /// Requeues the classes that were skipped at another tree version.
    pub fn requeue_skipped(&mut self, now: TreeVersion) {
        self.requeue_classes(|parked| parked.chances.is_some_and(|then| then != now));
    }

    /// Requeues all classes; returns whether any was inadmissible.
    pub fn requeue_all(&mut self) -> bool {
        self.requeue_classes(|_| true)
    }

    fn requeue_classes(&mut self, which: impl Fn(&InadmissibleClass) -> bool) -> bool {
        let woken: Vec<Arc<EquivalenceKey>> = self
            .classes
            .iter()
            .filter(|(_, class)| class.inadmissible.as_ref().is_some_and(&which))
            .map(|(shape, _)| Arc::clone(shape))
            .collect();
        for shape in &woken {
            if let Some(class) = self.classes.get_mut(shape) {
                class.inadmissible = None;
                // They are nominated now, and get their own status.
                class.unreported.clear();
                if class.members.is_empty() {
                    self.classes.remove(shape);
                }
            }
            self.insert_head(shape);
        }
        !woken.is_empty()
    }

    /// Takes out the ineligible Workloads that match.
    pub fn take_ineligible(
        &mut self,
        which: impl Fn(&NamespacedName, &Ineligibility) -> bool,
    ) -> Vec<NamespacedName> {
        let found: Vec<NamespacedName> =
            self.aside.iter().filter(|(key, (_, why))| which(key, why)).map(|(key, _)| key.clone()).collect();
        found.iter().for_each(|key| self.remove_ineligible(key));
        found
    }

    /// The end of the next requeue backoff.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The shared result of its class, if inadmissible.
    #[must_use]
    pub fn shared_evaluation(&self, shape: &Arc<EquivalenceKey>) -> Option<&Arc<Evaluation>> {
        self.classes.get(shape)?.inadmissible.as_ref().map(|parked| &parked.verdict)
    }

    #[must_use]
    pub fn aside(&self, key: &NamespacedName) -> Option<&Ineligibility> {
        self.aside.get(key).map(|(_, why)| why)
    }

    /// The classes and their member counts, without ineligible Workloads.
    pub fn shapes(&self) -> impl Iterator<Item = (&EquivalenceKey, usize)> {
        self.classes.iter().map(|(shape, class)| (&**shape, class.members.len()))
    }

    pub fn aside_keys(&self) -> impl Iterator<Item = &NamespacedName> {
        self.aside.keys()
    }

    /// All pending Workloads, admissible or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.aside.len() + self.classes.values().map(|class| class.members.len()).sum::<usize>()
    }

    /// Workloads that a coming cycle can nominate (`pending_workloads{status="active"}`).
    #[must_use]
    pub fn active(&self) -> usize {
        self.classes
            .values()
            .filter(|class| class.inadmissible.is_none())
            .map(|class| class.members.len())
            .sum()
    }

    #[must_use]
    pub fn count_ahead(&self, place: &QueuePosition) -> usize {
        let members = self.classes.values().flat_map(|class| &class.members);
        members
            .chain(self.aside.values().map(|(place, _)| place))
            .filter(|it| self.is_before(it, place))
            .count()
    }

    /// Whether one place is before another.
    #[must_use]
    pub fn is_before(&self, one: &QueuePosition, other: &QueuePosition) -> bool {
        let sticky = self.sticky.as_ref().map(|(place, _)| &place.key);
        (sticky != Some(&one.key), one) < (sticky != Some(&other.key), other)
    }

    /// The positions of all pending Workloads, in order.
    #[must_use]
    pub fn positions(&self) -> Vec<&QueuePosition> {
        let members = self.classes.values().flat_map(|class| &class.members);
        let mut all: Vec<&QueuePosition> =
            members.chain(self.aside.values().map(|(place, _)| place)).collect();
        let sticky = self.sticky.as_ref().map(|(place, _)| &place.key);
        all.sort_by_key(|place| (sticky != Some(&place.key), *place));
        all
    }
}
