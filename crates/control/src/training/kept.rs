//! What is remembered of a TrainJob between two looks at it.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::port::{Refusal, Uid};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::plan::Key;

/// Most objects of one TrainJob of which it is remembered what was applied: more than it is ever made into.
const APPLIED_MAX: usize = 8;

/// What a refused call was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A TrainJob whose time is over.
    Deletion,
    /// Anything else.
    Other,
}

/// What is remembered of one TrainJob.
#[derive(Debug, Default)]
pub struct Kept {
    /// Which incarnation.
    uid: Uid,
    /// What was applied last.
    pub applied: Vec<Tree>,
    /// What it complained about last.
    pub complaint: Option<Text>,
    /// The runtime without which it cannot go on, perhaps.
    pub lacks: Option<Key>,
    /// That its time is over is told.
    pub is_expiry_told: bool,
    /// Its deletion is not tried before this time.
    pub hold_until: Option<Time>,
    /// What is known of it may be out of date: a write of ours was lost, or met another one.
    pub is_doubtful: bool,
    /// What was refused of its plan.
    pub refused: Option<(What, Refusal)>,
}

impl Kept {
    /// Whether there is nothing to remember.
    pub fn is_empty(&self) -> bool {
        self.applied.is_empty()
            && self.complaint.is_none()
            && self.lacks.is_none()
            && !self.is_expiry_told
            && !self.is_doubtful
            && self.hold_until.is_none()
            && self.refused.is_none()
    }

    /// What was applied last to the object of this kind and name.
    pub fn applied(&self, object: &Tree) -> Option<&Tree> {
        self.applied.iter().find(|it| is_same(it, object))
    }

    /// Remembers that this is applied.
    pub fn remember(&mut self, object: Tree) {
        self.applied.retain(|it| !is_same(it, &object));
        if self.applied.len() < APPLIED_MAX {
            self.applied.push(object);
        }
    }
}

fn is_same(a: &Tree, b: &Tree) -> bool {
    let place = |it: &Tree| (it.text_at(&["apiVersion"]), meta::kind_word(it), meta::name(it));
    place(a) == place(b)
}

/// Memories by TrainJob.
pub trait Memories {
    /// What is remembered of this incarnation.
    fn of(&mut self, key: &Key, uid: &Uid) -> &mut Kept;

    /// Forgets a namesake.
    fn retain_of(&mut self, key: &Key, uid: &Uid);

    /// All is well: forgets what was wrong, and what was applied unless that may be asked for again.
    fn settle(&mut self, key: &Key, applies: bool);
}

impl Memories for BTreeMap<Key, Kept> {
    fn of(&mut self, key: &Key, uid: &Uid) -> &mut Kept {
        self.retain_of(key, uid);
        self.entry(key.clone()).or_insert_with(|| Kept { uid: uid.clone(), ..Kept::default() })
    }

    fn retain_of(&mut self, key: &Key, uid: &Uid) {
        if self.get(key).is_some_and(|kept| kept.uid != *uid) {
            self.remove(key);
        }
    }

    fn settle(&mut self, key: &Key, applies: bool) {
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
