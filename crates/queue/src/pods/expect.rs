//! What was sent and not seen yet: openings of gates, and removals of pods.
//!
//! Both are memories of a controller and nothing more: after a restart they are empty, which is safe because everything
//! is listed before the first look.
//!
//! # Invariants
//!
//! - A pod is remembered from before its call is sent until it is seen without its gate or finalizer, until it is
//!   gone, or until the call was refused: never longer.
//! - What is remembered has a bound. At the bound nothing more is sent, which is slow and never wrong.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::port::Uid;
use muster_api::queue::words::{finalizers, gates};
use muster_tree::{Text, Tree};

use super::member::PodRef;
use super::plan::{Action, Key};

/// The most openings that are under way at one time.
pub const OPENINGS_MAX: usize = 50_000;
/// The most removals that are under way at one time.
pub const CLEANUPS_MAX: usize = 50_000;

/// Pods whose gate was taken off by a call, and that were not seen without it yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Openings {
    by_set: BTreeMap<(Uid, Text), BTreeSet<Uid>>,
    by_pod: BTreeMap<Uid, (Uid, Text)>,
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

    /// A call is about to be sent. Whether it may be: there is a bound.
    pub fn sending(&mut self, workload: &Uid, set: &Text, pod: &Uid) -> bool {
        if self.has(pod) {
            return true;
        }
        if self.room() == 0 {
            return false;
        }
        let place = (workload.clone(), set.clone());
        self.by_set.entry(place.clone()).or_default().insert(pod.clone());
        self.by_pod.insert(pod.clone(), place);
        true
    }

    /// The pod was seen without its gate, it is gone, or the call was refused.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(place) = self.by_pod.remove(pod) else { return };
        if let Some(pods) = self.by_set.get_mut(&place) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_set.remove(&place);
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
    by_pod: BTreeMap<Uid, GroupKey>,
}

impl Cleanups {
    /// Whether everything that was sent for a group has been seen.
    #[must_use]
    pub fn satisfied(&self, group: &GroupKey) -> bool {
        !self.by_group.contains_key(group)
    }

    /// Calls are about to be sent. Whether they may be: there is a bound.
    pub fn sending<'a>(&mut self, group: &GroupKey, pods: impl IntoIterator<Item = &'a Uid>) -> bool {
        let new: Vec<&Uid> = pods.into_iter().filter(|pod| !self.by_pod.contains_key(*pod)).collect();
        if self.by_pod.len() + new.len() > CLEANUPS_MAX {
            return false;
        }
        for pod in new {
            self.by_group.entry(group.clone()).or_default().insert(pod.clone());
            self.by_pod.insert(pod.clone(), group.clone());
        }
        true
    }

    /// The pod was seen without our finalizer, it is gone, or the call was refused.
    pub fn forget(&mut self, pod: &Uid) {
        let Some(group) = self.by_pod.remove(pod) else { return };
        if let Some(pods) = self.by_group.get_mut(&group) {
            pods.remove(pod);
            if pods.is_empty() {
                self.by_group.remove(&group);
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
///
/// When no reply came to a call, it may have happened: then nothing is forgotten, and whoever sent it reads the pod once
/// and passes it to [`Memory::saw`], or [`Memory::refused`] if it is as it was.
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
                all.iter().all(|one| self.openings.sending(&one.workload, &one.set, &one.pod.uid))
            }
            Action::LetGo(pods) | Action::DeleteExcess(pods) | Action::DeletePods(pods) => {
                let (namespace, name) = key.names();
                let uids = pods.iter().map(|pod| &pod.uid);
                self.cleanups.sending(&(namespace.clone(), name.clone()), uids)
            }
            _ => true,
        }
    }

    /// A call about a pod was refused: what it would have done has not happened.
    pub fn refused(&mut self, pod: &PodRef) {
        self.openings.forget(&pod.uid);
        self.cleanups.forget(&pod.uid);
    }

    /// A pod was seen like this.
    pub fn saw(&mut self, pod: &Tree) {
        let uid = meta::uid(pod);
        let is_gate = |gate: &Tree| gate.str_at(&["name"]) == gates::ADMISSION;
        if !pod.items_at(pod_path::GATES).iter().any(is_gate) {
            self.openings.forget(&uid);
        }
        if !meta::has_finalizer(pod, finalizers::POD) {
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
