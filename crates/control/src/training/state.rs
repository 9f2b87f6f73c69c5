//! The state of a TrainJob between two reconciliations.

use std::collections::BTreeMap;

use muster_api::client::{ApiError, Uid};
use muster_api::meta;
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::controller::ObjectKey;

/// The most applied objects remembered per TrainJob: more than it has children of distinct kind and name.
const APPLIED_MAX: usize = 8;

/// The kind of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedRequest {
    /// The deletion of an expired TrainJob.
    Deletion,
    /// Anything else.
    Other,
}

/// The state of one TrainJob.
#[derive(Debug, Default)]
pub struct TrainJobState {
    /// UID of the TrainJob: a recreated one starts anew.
    uid: Uid,
    /// The objects as they were applied last.
    pub applied: Vec<Tree>,
    /// The last error that was reported by an event.
    pub complaint: Option<Text>,
    /// The missing runtime that it may wait for.
    pub lacks: Option<ObjectKey>,
    /// The event about its expiry was recorded.
    pub is_expiry_told: bool,
    /// Its deletion is not retried before this time.
    pub hold_until: Option<Time>,
    /// The cache may be outdated: a write conflicted or its reply was lost.
    pub is_doubtful: bool,
    /// The failed request of its last reconciliation.
    pub refused: Option<(FailedRequest, ApiError)>,
}

impl TrainJobState {
    pub fn is_empty(&self) -> bool {
        self.applied.is_empty()
            && self.complaint.is_none()
            && self.lacks.is_none()
            && !self.is_expiry_told
            && !self.is_doubtful
            && self.hold_until.is_none()
            && self.refused.is_none()
    }

    /// The last applied object of this kind and name.
    pub fn applied(&self, object: &Tree) -> Option<&Tree> {
        self.applied.iter().find(|it| is_same(it, object))
    }

    /// Remembers an applied object.
    pub fn remember(&mut self, object: Tree) {
        self.applied.retain(|it| !is_same(it, &object));
        if self.applied.len() < APPLIED_MAX {
            self.applied.push(object);
        }
    }
}

fn is_same(a: &Tree, b: &Tree) -> bool {
    let place = |it: &Tree| (it.text_at(&["apiVersion"]), meta::kind_name(it), meta::name(it));
    place(a) == place(b)
}

/// States by TrainJob.
pub trait TrainJobStates {
    /// The state of the TrainJob with this UID.
    fn of(&mut self, key: &ObjectKey, uid: &Uid) -> &mut TrainJobState;

    /// Drops the state of a deleted TrainJob with the same name.
    fn retain_of(&mut self, key: &ObjectKey, uid: &Uid);

    /// Converged: drops errors, and the applied objects unless they may be needed again.
    fn settle(&mut self, key: &ObjectKey, applies: bool);
}

impl TrainJobStates for BTreeMap<ObjectKey, TrainJobState> {
    fn of(&mut self, key: &ObjectKey, uid: &Uid) -> &mut TrainJobState {
        self.retain_of(key, uid);
        self.entry(key.clone())
            .or_insert_with(|| TrainJobState { uid: uid.clone(), ..TrainJobState::default() })
    }

    fn retain_of(&mut self, key: &ObjectKey, uid: &Uid) {
        if self.get(key).is_some_and(|kept| kept.uid != *uid) {
            self.remove(key);
        }
    }

    fn settle(&mut self, key: &ObjectKey, applies: bool) {
        let Some(kept) = self.get_mut(key) else { return };
        (kept.complaint, kept.lacks, kept.hold_until, kept.refused) = (None, None, None, None);
        kept.is_doubtful = false;
        if !applies {
            kept.applied.clear();
        }
        if kept.is_empty() {
            self.remove(key);
        }
    }
}
