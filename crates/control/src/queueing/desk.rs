//! Where queueing is asked from outside its loop: whoever asks leaves a question and rings, the loop answers between
//! two keys.
//!
//! # Invariants
//!
//! - There are only so many questions, and only so many are answered between two keys: whoever asks a lot waits, not those
//!   who are queued.
//! - What is long is shared, not copied: who turns it into words does so on a thread of its own.

use std::fmt;
use std::mem::replace;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_queue::engine::report::Waiting;
use muster_queue::engine::workload::Key as WorkloadKey;
use muster_queue::life::pending::Pending;
use muster_tree::{Text, Tree};

use super::answer_key;
use crate::plan::Doorbell;

/// The most questions that wait.
pub const QUESTIONS_MAX: usize = 256;
/// The most questions that are answered between two keys.
pub const ANSWERS_PER_TURN_MAX: usize = 16;
/// The most Workloads whose owners are told at once: whoever wants more asks again.
pub const OWNERS_MAX: usize = 1_000;

/// What can be asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Question {
    /// Who waits in a ClusterQueue.
    InClusterQueue(Text),
    /// Who waits in a LocalQueue.
    InLocalQueue(Text, Text),
    /// Who owns these Workloads, of which there are at most [`OWNERS_MAX`].
    Owners(Vec<WorkloadKey>),
    /// Why a Workload waits, by namespace and name.
    Why(Text, Text),
    /// What would become of this manifest in this namespace.
    Try(Text, Tree),
}

/// What is answered.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Everyone in a ClusterQueue, in order.
    Waiting(Arc<Vec<Waiting>>),
    /// The owners of each, as its metadata has them; null where it has none.
    Owners(Vec<Tree>),
    /// Why it waits, or would.
    Why(Box<Pending>),
    /// There is no such thing.
    NotFound,
    /// The manifest cannot be tried, in words.
    Wrong(String),
}

/// Why a question is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Nobody answers here: another does, or queues are not run.
    Nobody,
    /// Too many wait already.
    Full,
}

/// Takes an answer.
pub type Reply = Box<dyn FnOnce(Answer) + Send>;

/// The desk. Clones are the same desk.
#[derive(Clone, Default)]
pub struct Desk(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    bell: Option<Doorbell>,
    asked: Vec<(Question, Reply)>,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl Desk {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks; `reply` is called on another thread, or dropped when the loop ends.
    ///
    /// # Errors
    /// Nobody answers.
    pub fn ask(&self, question: Question, reply: Reply) -> Result<(), Closed> {
        let mut inside = self.inside();
        let bell = inside.bell.clone().ok_or(Closed::Nobody)?;
        if inside.asked.len() >= QUESTIONS_MAX {
            return Err(Closed::Full);
        }
        inside.asked.push((question, reply));
        drop(inside);
        bell(answer_key());
        Ok(())
    }

    /// Whether somebody answers.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inside().bell.is_some()
    }

    pub(super) fn open(&self, bell: Doorbell) {
        self.inside().bell = Some(bell);
    }

    pub(super) fn close(&self) {
        let mut inside = self.inside();
        inside.bell = None;
        inside.asked.clear();
    }

    /// Those whose turn it is, the first to ask first; whether others wait still.
    pub(super) fn asked(&self) -> (Vec<(Question, Reply)>, bool) {
        let mut inside = self.inside();
        let now = inside.asked.len().min(ANSWERS_PER_TURN_MAX);
        let later = inside.asked.split_off(now);
        let asked = replace(&mut inside.asked, later);
        (asked, !inside.asked.is_empty())
    }
}
