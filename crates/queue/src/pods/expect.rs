//! What was sent and not seen yet: openings of gates, and removals of pods.
//!
//! Both are memories of a controller and nothing more: after a restart they are empty, which is safe because everything
//! is listed before the first look.
//!
//! # Invariants
//!
//! - A pod is remembered from before its call is sent until it is seen without its gate or finalizer, until it is
//!   gone, or until the call was refused: never longer.
//! - A call means the revision that it names. Once a pod is seen at a later one the call has happened or never will.
//! - A call that nobody has heard of is sent again as long as that is not so: a reply may be lost more often than it is
//!   waited for, and a pod must not be stuck for it.
//! - What is remembered has a bound. At the bound nothing more is sent, which is slow and never wrong.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::port::{Object, Revision, Uid};
use muster_api::queue::words::{finalizers, gates};
use muster_tree::{Text, Tree};

use super::member::PodRef;
use super::plan::{Action, Key};

/// The most openings that are under way at one time.
pub const OPENINGS_MAX: usize = 50_000;
/// The most removals that are under way at one time.
pub const CLEANUPS_MAX: usize = 50_000;

/// A call about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent<P> {
    /// What it is counted for.
    place: P,
    /// The revision that it means.
    revision: Revision,
    /// Nobody knows whether it happened.
    unheard: bool,
}

/// Pods whose gate was taken off by a call, and that were not seen without it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Openings {
    by_set: BTreeMap<(Uid, Text), BTreeSet<Uid>>,
    by_pod: BTreeMap<Uid, Sent<(Uid, Text)>>,
}

impl Openings {
    /// How many more may be sent.
    #[must_use]
    pub fn room(&self) -> usize {
        OPENINGS_MAX.saturating_sub(self.by_pod.len())
    }

    /// The pods of a set of a Workload.
    pub fn of<'a>(&'a self, workload: &Uid, set: &Text) -> impl Iterator<Item = &'a Uid> + use<'a> {
        self.by_set.get(&(workload.clone(), set.clone())).into_iter().flatten()
    }

    /// Whether a pod is among them.
    #[must_use]
    pub fn has(&self, pod: &Uid) -> bool {
        self.by_pod.contains_key(pod)
    }

    /// Whether a pod is counted for this set.
    #[must_use]
    pub fn counts(&self, workload: &Uid, set: &Text, pod: &Uid) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.place.0 == *workload && sent.place.1 == *set)
    }

    /// Whether the call about a pod has to be waited for.
    #[must_use]
    pub fn is_under_way(&self, pod: &Uid) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| !sent.unheard)
    }

    /// A call is about to be sent, perhaps once more. Whether it may be: there is a bound.
    pub fn sending(&mut self, workload: &Uid, set: &Text, pod: &PodRef) -> bool {
        self.forget(&pod.uid);
        if self.room() == 0 {
            return false;
        }
        let place = (workload.clone(), set.clone());
        self.by_set.entry(place.clone()).or_default().insert(pod.uid.clone());
        self.by_pod.insert(pod.uid.clone(), Sent { place, revision: pod.revision, unheard: false });
        true
    }

    /// No reply came.
    fn unheard(&mut self, pod: &Uid) {
        if let Some(sent) = self.by_pod.get_mut(pod) {
            sent.unheard = true;
        }
    }

    fn is_past(&self, pod: &Uid, revision: Revision) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.revision < revision)
    }

    /// The pod was seen without its gate or at a later revision, it is gone, or the call was refused.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(sent) = self.by_pod.remove(pod) else { return };
        if let Some(pods) = self.by_set.get_mut(&sent.place) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_set.remove(&sent.place);
            }
        }
    }

    /// Everything is being listed anew.
    pub fn clear(&mut self) {
        *self = Openings::default();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}

/// A group: its namespace and its name.
pub type GroupKey = (Text, Text);

/// Pods that were let go or deleted as too many or replaced, and that were not seen like that yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleanups {
    by_group: BTreeMap<GroupKey, BTreeSet<Uid>>,
    by_pod: BTreeMap<Uid, Sent<GroupKey>>,
}

impl Cleanups {
    /// Whether everything that was sent for a group has been seen.
    #[must_use]
    pub fn satisfied(&self, group: &GroupKey) -> bool {
        !self.by_group.contains_key(group)
    }

    /// Whether nobody knows what became of the call about a pod.
    #[must_use]
    pub fn is_unheard(&self, pod: &Uid) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.unheard)
    }

    /// Calls are about to be sent, perhaps once more. Whether they may be: there is a bound.
    pub fn sending<'a>(&mut self, group: &GroupKey, pods: impl IntoIterator<Item = &'a PodRef>) -> bool {
        let all: Vec<&PodRef> = pods.into_iter().collect();
        let new = all.iter().filter(|pod| !self.by_pod.contains_key(&pod.uid)).count();
        if self.by_pod.len() + new > CLEANUPS_MAX {
            return false;
        }
        for pod in all {
            self.forget(&pod.uid);
            self.by_group.entry(group.clone()).or_default().insert(pod.uid.clone());
            let sent = Sent { place: group.clone(), revision: pod.revision, unheard: false };
            self.by_pod.insert(pod.uid.clone(), sent);
        }
        true
    }

    /// No reply came.
    fn unheard(&mut self, pod: &Uid) {
        if let Some(sent) = self.by_pod.get_mut(pod) {
            sent.unheard = true;
        }
    }

    fn is_past(&self, pod: &Uid, revision: Revision) -> bool {
        self.by_pod.get(pod).is_some_and(|sent| sent.revision < revision)
    }

    /// The pod was seen without our finalizer or at a later revision, it is gone, or the call was refused.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(sent) = self.by_pod.remove(pod) else { return };
        if let Some(pods) = self.by_group.get_mut(&sent.place) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_group.remove(&sent.place);
            }
        }
    }

    /// Everything is being listed anew.
    pub fn clear(&mut self) {
        *self = Cleanups::default();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_pod.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_pod.is_empty()
    }
}

/// Everything that is remembered between looks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Gates.
    pub openings: Openings,
    /// Removals.
    pub cleanups: Cleanups,
}

impl Memory {
    /// Whether a step is remembered from before it is sent until it is seen.
    #[must_use]
    pub fn remembers(step: &Action) -> bool {
        match step {
            Action::Open(_) | Action::LetGo(_) | Action::DeleteExcess(_) | Action::DeletePods(_) => true,
            Action::CreateWorkload(..)
            | Action::RewriteWorkload(..)
            | Action::DeleteWorkload(_)
            | Action::LetWorkloadGo(_)
            | Action::AddOwners(..)
            | Action::ChangeQueue(..)
            | Action::ChangePriority(..)
            | Action::Finish { .. }
            | Action::TellWaiting { .. }
            | Action::TellReclaimable(..)
            | Action::TellReady(..)
            | Action::Release(..)
            | Action::Stop { .. }
            | Action::Note(_)
            | Action::NoteOnce(_)
            | Action::LookAgain(_)
            | Action::Hold(_) => false,
        }
    }

    /// A step is about to be sent. Whether it may be: at a bound it has to wait.
    pub fn sending(&mut self, key: &Key, step: &Action) -> bool {
        match step {
            Action::Open(all) => {
                all.iter().all(|one| self.openings.sending(&one.workload, &one.set, &one.pod))
            }
            Action::LetGo(pods) | Action::DeleteExcess(pods) | Action::DeletePods(pods) => {
                let (namespace, name) = key.names();
                self.cleanups.sending(&(namespace.clone(), name.clone()), pods)
            }
            _ => true,
        }
    }

    /// A call about a pod was refused: what it would have done has not happened.
    pub fn refused(&mut self, pod: &Uid) {
        self.openings.forget(pod);
        self.cleanups.forget(pod);
    }

    /// Nobody knows what became of a call about a pod: its reply was lost, or somebody was faster, which may have been the
    /// same call before its reply was lost.
    pub fn unheard(&mut self, pod: &Uid) {
        self.openings.unheard(pod);
        self.cleanups.unheard(pod);
    }

    /// A pod was seen like this.
    pub fn saw(&mut self, pod: &Object) {
        let uid = meta::uid(&pod.tree);
        let is_gate = |gate: &Tree| gate.str_at(&["name"]) == gates::ADMISSION;
        let is_open = !pod.tree.items_at(pod_path::GATES).iter().any(is_gate);
        if is_open || self.openings.is_past(&uid, pod.revision) {
            self.openings.forget(&uid);
        }
        let is_free = !meta::has_finalizer(&pod.tree, finalizers::POD);
        if is_free || self.cleanups.is_past(&uid, pod.revision) {
            self.cleanups.forget(&uid);
        }
    }

    /// A pod is gone.
    pub fn gone(&mut self, pod: &Uid) {
        self.openings.forget(pod);
        self.cleanups.forget(pod);
    }

    /// Everything is being listed anew.
    pub fn clear(&mut self) {
        *self = Memory::default();
    }
}
