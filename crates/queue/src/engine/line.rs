//! The workloads that wait in one queue.
//!
//! Workloads of equal shape stand in one *class*, in order. Only the first of each class is a head: putting a class
//! aside, or waking it, moves one head however many wait behind it, and everyone keeps their place.
//!
//! # Invariants
//!
//! - A workload is in exactly one class, or aside.
//! - `heads` holds the first of every class that is not parked, and nothing else; `due` those who come back by the clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_tree::Text;

use super::Chances;
use super::decision::Verdict;
use super::tree::PairId;
use super::workload::{Affinity, Amounts, Info, Key, PodSet};

/// How many classes of one queue are remembered for the sake of members that may yet come.
pub const REMEMBERED_CLASSES_MAX: usize = 1024;

/// A place in the order of a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Higher first.
    pub priority: Reverse<i64>,
    /// Older first.
    pub since: Time,
    /// At last.
    pub uid: Text,
    /// Whose place it is.
    pub key: Key,
}

/// All of a workload that a verdict depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    priority: i64,
    sets: Vec<SetShape>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SetShape {
    left: i64,
    min_count: Option<i64>,
    requests: Amounts,
    tolerations: Vec<Toleration>,
    affinity: Affinity,
}

impl Shape {
    /// The shape of a workload.
    #[must_use]
    pub fn of(info: &Info) -> Shape {
        let set = |set: &PodSet| SetShape {
            left: set.left(),
            min_count: set.min_count,
            requests: set.requests.clone(),
            tolerations: set.tolerations.clone(),
            affinity: set.affinity.clone(),
        };
        Shape { priority: info.priority, sets: info.pod_sets.iter().map(set).collect() }
    }

    /// What so many workloads of this shape ask for together.
    #[must_use]
    pub fn asked(&self, count: usize) -> Amounts {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut all = Amounts::new();
        for set in &self.sets {
            for (resource, amount) in &set.requests {
                let sum = all.entry(resource.clone()).or_default();
                *sum = sum.saturating_add(amount.saturating_mul(set.left).saturating_mul(count));
            }
        }
        all
    }
}

/// Why a workload is not in its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Aside {
    /// Not before this instant.
    Until(Time),
    /// Until someone says so.
    OnHold,
    /// Its namespace is not taken.
    NamespaceMismatch,
    /// Something about itself is wrong.
    Refused,
}

/// A class that was put aside: none of these pairs had room, nor anyone to take it from; or others were served first.
#[derive(Debug, Clone)]
pub struct Parked {
    /// A change of these wakes it.
    pub pairs: Vec<PairId>,
    /// Where others were served first: any change of these wakes it, too.
    pub chances: Option<Chances>,
    /// What the first of them was told.
    pub verdict: Arc<Verdict>,
}

#[derive(Debug, Clone, Default)]
struct Class {
    members: BTreeSet<Place>,
    parked: Option<Parked>,
    /// Members that were not told yet why they wait.
    untold: BTreeSet<Key>,
}

/// The line of one queue.
#[derive(Debug, Clone, Default)]
pub struct Line {
    classes: BTreeMap<Arc<Shape>, Class>,
    heads: BTreeSet<(Place, Arc<Shape>)>,
    aside: BTreeMap<Key, (Place, Aside)>,
    /// Those of them that come back by the clock.
    due: BTreeSet<(Time, Key)>,
    sticky: Option<(Place, Arc<Shape>)>,
}

impl Line {
    /// Puts a workload in its class; whether the class is parked.
    pub fn join(&mut self, place: Place, shape: &Arc<Shape>) -> bool {
        self.forget_head(shape);
        let class = self.classes.entry(Arc::clone(shape)).or_default();
        let parked = class.parked.is_some();
        if parked {
            class.untold.insert(place.key.clone());
        }
        class.members.insert(place);
        self.show_head(shape);
        parked
    }

    /// Puts a workload aside.
    pub fn put_aside(&mut self, place: Place, why: Aside) {
        if let Aside::Until(at) = why {
            self.due.insert((at, place.key.clone()));
        }
        self.aside.insert(place.key.clone(), (place, why));
    }

    fn forget_aside(&mut self, key: &Key) {
        if let Some((_, Aside::Until(at))) = self.aside.remove(key) {
            self.due.remove(&(at, key.clone()));
        }
    }

    /// Takes a workload out, wherever it is.
    pub fn leave(&mut self, place: &Place, shape: &Arc<Shape>) {
        self.forget_aside(&place.key);
        self.unstick(&place.key);
        self.forget_head(shape);
        if let Some(class) = self.classes.get_mut(shape) {
            class.members.remove(place);
            class.untold.remove(&place.key);
            // A class that is parked is remembered: the next one of its kind shares the verdict.
            let many = self.classes.len() > REMEMBERED_CLASSES_MAX;
            if self
                .classes
                .get(shape)
                .is_some_and(|class| class.members.is_empty() && (many || class.parked.is_none()))
            {
                self.classes.remove(shape);
            }
        }
        self.show_head(shape);
    }

    fn forget_head(&mut self, shape: &Arc<Shape>) {
        if let Some(first) = self.classes.get(shape).and_then(|class| class.members.first()) {
            self.heads.remove(&(first.clone(), Arc::clone(shape)));
        }
    }

    fn show_head(&mut self, shape: &Arc<Shape>) {
        if let Some(class) = self.classes.get(shape)
            && class.parked.is_none()
            && let Some(first) = class.members.first()
        {
            self.heads.insert((first.clone(), Arc::clone(shape)));
        }
    }

    /// Who is to be looked at next: the one that waits for its victims, else the first.
    #[must_use]
    pub fn head(&self) -> Option<&Key> {
        self.sticky.as_ref().or_else(|| self.heads.first()).map(|(place, _)| &place.key)
    }

    /// Keeps a workload at the head until it goes or changes.
    pub fn stick(&mut self, place: &Place, shape: &Arc<Shape>) {
        self.sticky = Some((place.clone(), Arc::clone(shape)));
    }

    /// Lets go of the head, if it is this one.
    pub fn unstick(&mut self, key: &Key) {
        if self.sticky.as_ref().is_some_and(|(place, _)| place.key == *key) {
            self.sticky = None;
        }
    }

    /// Parks a whole class; names those who were not told why, in order.
    pub fn park(&mut self, shape: &Arc<Shape>, told: &Key, parked: Parked) -> Vec<Key> {
        self.forget_head(shape);
        self.unstick(told);
        let Some(class) = self.classes.get_mut(shape) else { return Vec::new() };
        class.parked = Some(parked);
        class.members.iter().map(|place| place.key.clone()).filter(|key| key != told).collect()
    }

    /// Those who joined a parked class and were not told; they are told now.
    pub fn take_untold(&mut self) -> Vec<Key> {
        let mut all: Vec<Key> = Vec::new();
        for class in self.classes.values_mut().filter(|class| class.parked.is_some()) {
            all.extend(std::mem::take(&mut class.untold));
        }
        all
    }

    /// Wakes the classes that these pairs stopped; whether there were any.
    pub fn wake_by(&mut self, pairs: &[PairId]) -> bool {
        self.wake(|parked| parked.pairs.iter().any(|pair| pairs.contains(pair)))
    }

    /// Wakes the classes that were passed over as things stood then, and stand no more.
    pub fn wake_passed_over(&mut self, now: Chances) {
        self.wake(|parked| parked.chances.is_some_and(|then| then != now));
    }

    /// Wakes all classes; whether any was parked.
    pub fn wake_all(&mut self) -> bool {
        self.wake(|_| true)
    }

    fn wake(&mut self, which: impl Fn(&Parked) -> bool) -> bool {
        let woken: Vec<Arc<Shape>> = self
            .classes
            .iter()
            .filter(|(_, class)| class.parked.as_ref().is_some_and(&which))
            .map(|(shape, _)| Arc::clone(shape))
            .collect();
        for shape in &woken {
            if let Some(class) = self.classes.get_mut(shape) {
                class.parked = None;
                class.untold.clear();
                if class.members.is_empty() {
                    self.classes.remove(shape);
                }
            }
            self.show_head(shape);
        }
        !woken.is_empty()
    }

    /// Those aside for which `which` holds, taken out.
    pub fn take_aside(&mut self, which: impl Fn(&Key, &Aside) -> bool) -> Vec<Key> {
        let found: Vec<Key> =
            self.aside.iter().filter(|(key, (_, why))| which(key, why)).map(|(key, _)| key.clone()).collect();
        found.iter().for_each(|key| self.forget_aside(key));
        found
    }

    /// When the next one aside may come back by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// What its class was told, if it is parked.
    #[must_use]
    pub fn verdict_of(&self, shape: &Arc<Shape>) -> Option<&Arc<Verdict>> {
        self.classes.get(shape)?.parked.as_ref().map(|parked| &parked.verdict)
    }

    /// Why this one is aside, if it is.
    #[must_use]
    pub fn aside(&self, key: &Key) -> Option<&Aside> {
        self.aside.get(key).map(|(_, why)| why)
    }

    /// The shapes that wait, and how many are of each; those aside are not among them.
    pub fn shapes(&self) -> impl Iterator<Item = (&Shape, usize)> {
        self.classes.iter().map(|(shape, class)| (&**shape, class.members.len()))
    }

    /// Those who are aside.
    pub fn aside_keys(&self) -> impl Iterator<Item = &Key> {
        self.aside.keys()
    }

    /// How many wait, wherever they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.aside.len() + self.classes.values().map(|class| class.members.len()).sum::<usize>()
    }

    /// How many may be looked at in a coming cycle.
    #[must_use]
    pub fn active(&self) -> usize {
        self.classes.values().filter(|class| class.parked.is_none()).map(|class| class.members.len()).sum()
    }

    /// How many are before this place.
    #[must_use]
    pub fn before(&self, place: &Place) -> usize {
        let members = self.classes.values().flat_map(|class| &class.members);
        members
            .chain(self.aside.values().map(|(place, _)| place))
            .filter(|it| self.is_before(it, place))
            .count()
    }

    /// Whether one place is before another.
    #[must_use]
    pub fn is_before(&self, one: &Place, other: &Place) -> bool {
        let sticky = self.sticky.as_ref().map(|(place, _)| &place.key);
        (sticky != Some(&one.key), one) < (sticky != Some(&other.key), other)
    }

    /// Everyone in order, wherever they are.
    #[must_use]
    pub fn places(&self) -> Vec<&Place> {
        let members = self.classes.values().flat_map(|class| &class.members);
        let mut all: Vec<&Place> = members.chain(self.aside.values().map(|(place, _)| place)).collect();
        let sticky = self.sticky.as_ref().map(|(place, _)| &place.key);
        all.sort_by_key(|place| (sticky != Some(&place.key), *place));
        all
    }
}
