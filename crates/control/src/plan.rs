//! What a controller is, and what it answers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use muster_api::event::Event;
use muster_api::meta;
use muster_api::port::{Call, Kind, Part, Refusal, Revision, Target, Uid};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::counters::Counters;

/// One object, by name.
///
/// What differs most stands first: keys are compared all the time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Name.
    pub name: Text,
    /// Namespace; empty when cluster-scoped.
    pub namespace: Text,
    /// Kind.
    pub kind: Kind,
}

impl Key {
    /// The key of an object.
    #[must_use]
    pub fn of(kind: &Kind, object: &Tree) -> Key {
        Key { kind: kind.clone(), namespace: meta::namespace(object), name: meta::name(object) }
    }

    /// A key of this kind.
    #[must_use]
    pub fn new(kind: &Kind, namespace: &Text, name: &Text) -> Key {
        Key { kind: kind.clone(), namespace: namespace.clone(), name: name.clone() }
    }

    /// A part of the object as the target of a call.
    #[must_use]
    pub fn target(&self, part: Part) -> Target {
        Target { kind: self.kind.clone(), namespace: self.namespace.clone(), name: self.name.clone(), part }
    }
}

/// A key to be looked at, at once or a little later so that more changes are taken together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wake {
    /// Which.
    pub key: Key,
    /// How much later.
    pub after: Duration,
}

impl From<Key> for Wake {
    fn from(key: Key) -> Wake {
        Wake { key, after: Duration::ZERO }
    }
}

/// What the answer to a look must be for the plan to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// There is no object of this UID at that name.
    Gone(Uid),
    /// There is nothing at that name.
    Absent,
    /// There is no object of this UID at that name, or it names another volume: a claim that let go of its volume.
    Elsewhere {
        /// The claim.
        uid: Uid,
        /// The volume.
        volume: Text,
    },
    /// The object is there at this very revision.
    Unchanged(Revision),
}

/// One step of a plan. A step begins when the one before it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// One call.
    One(Call),
    /// Calls that happen all or none.
    Together(Vec<Call>),
    /// Calls side by side: each may happen or not, the step is done when all did.
    Each(Vec<Call>),
    /// The same, and each that happened is told.
    EachTold(Vec<(Call, Event)>),
    /// Looks at live state first; another answer than wanted drops the rest.
    Look(Call, Want),
    /// Notes an event; never waited for.
    Note(Event),
}

/// What to do about a key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// When to look again if nothing changes.
    pub again_at: Option<Time>,
    /// Other keys of the same controller to look at next.
    pub wake: Vec<Key>,
}

impl Plan {
    /// Nothing to do.
    #[must_use]
    pub fn nothing() -> Plan {
        Plan::default()
    }

    /// These steps and nothing else.
    #[must_use]
    pub fn of(steps: Vec<Step>) -> Plan {
        Plan { steps, ..Plan::default() }
    }

    /// This plan, looking again no later than `at`.
    #[must_use]
    pub fn again(mut self, at: Time) -> Plan {
        self.again_at = Some(self.again_at.map_or(at, |old| old.min(at)));
        self
    }
}

/// What follows from a plan that was refused, beside the pause of its key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GaveUp {
    /// When to look again at the latest, however long the pause would be.
    pub by: Option<Time>,
    /// Other keys of the same controller that may go on now.
    pub wake: Vec<Key>,
    /// What is told of it.
    pub notes: Vec<Event>,
}

/// Wakes a key of the controller it was given to, from any thread: something happened that no watch tells.
pub type Doorbell = Arc<dyn Fn(Key) + Send + Sync>;

/// One controller: which keys a change concerns, and what to do about a key.
pub trait Controller: Send {
    /// Its name, as `--controllers` spells it.
    fn name(&self) -> &'static str;

    /// The name that its numbers are kept under.
    fn counted_as(&self) -> &'static str {
        self.name()
    }

    /// The kinds it must see.
    fn kinds(&self) -> Vec<Kind>;

    /// Kinds it sees where the server has them, now or later.
    fn kinds_if_served(&self) -> Vec<Kind> {
        Vec::new()
    }

    /// Whether it must see every kind the server has.
    fn sees_all_kinds(&self) -> bool {
        false
    }

    /// Whether it has anything to do with an object of a kind that it sees. What nobody has is not kept: it is as good as
    /// gone.
    fn concerns(&self, _kind: &Kind, _object: &Tree) -> bool {
        true
    }

    /// Keys to look at once, when all caches are filled for the first time.
    fn starts(&mut self, _caches: &Caches, _now: Time) -> Vec<Key> {
        Vec::new()
    }

    /// What to tell the server when the loop is stopped in good order. A crash says nothing, so nothing may
    /// depend on it.
    fn farewell(&mut self, _caches: &Caches) -> Vec<Call> {
        Vec::new()
    }

    /// The keys a change concerns. Engines update their state here; the whole world comes through here once
    /// at the start.
    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake>;

    /// What to do about a key. Must be safe to repeat: any step may be lost or happen twice.
    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan;

    /// Takes the bell for what happens outside the API: ended processes, say. Given once, before anything else.
    fn hears(&mut self, _bell: Doorbell) {}

    /// Itself, for whoever wants to look into it: a test that compares what it keeps with what there is.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }

    /// Adds what it counts itself.
    fn tell(&self, _counters: &mut Counters) {}

    /// What to note when a call of this key's plan was refused.
    fn refused(&mut self, _key: &Key, _call: &Call, _why: &Refusal, _caches: &Caches) -> Option<Event> {
        None
    }

    /// What follows when the plan of this key ended by a refusal.
    fn gave_up(&mut self, _key: &Key, _caches: &Caches, _now: Time) -> GaveUp {
        GaveUp::default()
    }
}
