//! The port to an API server: calls are data.
//!
//! [`Api`] has two makers: the embedded server's in-process entrance and a client of a real cluster. A [`Call`]
//! can be logged, counted, delayed, lost, repeated and turned into an RBAC rule.

use std::time::Duration;

use muster_tree::{Text, Tree};

/// A kind as controllers name it. `version` is the version whose shape the controller reads and writes.
///
/// What differs most stands first: kinds are compared all the time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Plural resource name.
    pub plural: Text,
    /// API group; empty for core.
    pub group: Text,
    /// Version.
    pub version: Text,
}

/// Which part of an object a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// The object itself.
    Main,
    /// `/status`.
    Status,
    /// `/binding`.
    Binding,
    /// `/eviction`.
    Eviction,
    /// `/scale`.
    Scale,
    /// `/finalize`.
    Finalize,
    /// `/token`: a create that answers with a token.
    Token,
}

/// What a call is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// Part of the object.
    pub part: Part,
}

/// The UID of one incarnation of an object.
pub type Uid = Text;
/// A store revision: the number in `metadata.resourceVersion`.
pub type Revision = u64;

/// What must be true of the live object for a call to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// It is this incarnation.
    pub uid: Option<Uid>,
    /// Nobody has written since this revision.
    pub revision: Option<Revision>,
}

/// How dependents fare when their owner is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cascade {
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// What a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Reads the newest state.
    Get,
    /// Creates.
    Create(Tree),
    /// Server-side apply: we own what we list, and what we stop listing goes away.
    Apply {
        /// The fields we want.
        body: Tree,
        /// Whether to take fields that others own.
        force: bool,
    },
    /// RFC 7396. A few fields, guarded: finalizers, suspend, annotations, status of kinds with one writer.
    Merge(Tree),
    /// Strategic merge, built-in kinds only: conditions of Pods and Nodes, which have several writers.
    Strategic(Tree),
    /// Deletes; [`Call::delete`] is the only way to build one, and it wants a UID.
    Delete {
        /// What happens to dependents.
        cascade: Cascade,
        /// Grace in seconds; the kind's own when absent.
        grace_secs: Option<u32>,
    },
}

/// One request as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Who calls: the field manager, and the user `system:controller:<by>` on the embedded plane.
    pub by: Text,
    /// What it is about.
    pub on: Target,
    /// What must be true.
    pub guard: Guard,
    /// What it does.
    pub act: Act,
}

impl Call {
    /// Deletes exactly this incarnation: a namesake born meanwhile is safe.
    #[must_use]
    pub fn delete(by: Text, on: Target, uid: Uid, cascade: Cascade) -> Call {
        let guard = Guard { uid: Some(uid), revision: None };
        Call { by, on, guard, act: Act::Delete { cascade, grace_secs: None } }
    }

    /// Whether a server could do what the call means.
    ///
    /// # Errors
    /// It could not: it would make anew what was deleted meanwhile, since only a UID tells it that there was one.
    pub fn makes_sense(&self) -> Result<(), Refusal> {
        let applies = matches!(self.act, Act::Apply { .. });
        if applies && self.guard.revision.is_some() && self.guard.uid.is_none() {
            let why = "an apply that means one revision must name the uid too";
            return Err(Refusal::Invalid(format!("{}: {why}", self.on.name)));
        }
        Ok(())
    }

    /// A created object as it is sent: under its name, and meaning one incarnation where it is bound or evicted.
    #[must_use]
    pub fn made(&self, made: &Tree) -> Tree {
        let named = self.named(made);
        match (self.on.part, &self.guard.uid) {
            (Part::Binding, Some(uid)) => named.with(&["metadata", "uid"], uid),
            (Part::Eviction, Some(uid)) => named.with(&["deleteOptions", "preconditions", "uid"], uid),
            _ => named,
        }
    }

    /// What a refusal means to the caller. Servers tell of a guard that does not hold in several ways, some of them
    /// as if the object itself were wrong.
    #[must_use]
    pub fn understood(&self, refusal: Refusal) -> Refusal {
        let (Act::Apply { .. } | Act::Merge(_) | Act::Strategic(_), Some(uid)) = (&self.act, &self.guard.uid)
        else {
            return refusal;
        };
        match &refusal {
            Refusal::Invalid(words)
                if words.contains(&format!("metadata.uid: Invalid value: {:?}", uid.as_str())) =>
            {
                self.another()
            }
            Refusal::Conflict(words) if words.contains("UID in precondition") => self.another(),
            Refusal::Conflict(words) if words.contains("no existing object was found") => self.absent(),
            _ => refusal,
        }
    }

    fn another(&self) -> Refusal {
        Refusal::Conflict(format!("{} is not the object that was meant", self.on.name))
    }

    fn absent(&self) -> Refusal {
        let Kind { group, plural, .. } = &self.on.kind;
        let dot = if group.is_empty() { "" } else { "." };
        Refusal::NotFound(format!("{plural}{dot}{group} {:?} not found", self.on.name.as_str()))
    }

    /// A created object carries its name itself; the target's stands in for a missing one.
    fn named(&self, made: &Tree) -> Tree {
        let says = |key: &str| !made.str_at(&["metadata", key]).is_empty();
        if self.on.part != Part::Main || self.on.name.is_empty() || says("name") || says("generateName") {
            return made.clone();
        }
        made.with(&["metadata", "name"], &self.on.name)
    }

    /// Whether an object that was read is the one that was meant.
    ///
    /// # Errors
    /// It is another incarnation or another revision.
    pub fn check(&self, object: &Object) -> Result<(), Refusal> {
        let uid = object.tree.str_at(&["metadata", "uid"]);
        let differs = self.guard.uid.as_ref().is_some_and(|want| want.as_str() != uid)
            || self.guard.revision.is_some_and(|want| want != object.revision);
        if differs {
            return Err(self.another());
        }
        Ok(())
    }
}

/// An object as the server holds it. `metadata.resourceVersion` and `metadata.managedFields` are not in the
/// tree: the revision stands beside it, and field ownership is the server's own business.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The object, shared.
    pub tree: Tree,
    /// The revision of its last change.
    pub revision: Revision,
}

impl Object {
    /// The object as it is on the wire, without its revision and field owners.
    #[must_use]
    pub fn of_wire(tree: &Tree) -> Object {
        let revision = tree.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
        let bare = |metadata: &Tree| metadata.without_key("resourceVersion").without_key("managedFields");
        let tree = match tree.get("metadata") {
            Some(metadata) => tree.with(&["metadata"], bare(metadata)),
            None => tree.clone(),
        };
        Object { tree, revision }
    }
}

/// One change of one object, as a watch tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// New or changed.
    Put(Object),
    /// Gone; the last state with the revision of its deletion.
    Gone(Object),
}

/// What following a kind yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Batch {
    /// Everything there is; forget what was known.
    Reset(Vec<Object>),
    /// What changed since, in order.
    Changes(Vec<Change>),
}

/// Why a call was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such object.
    #[error("not found: {0}")]
    NotFound(String),
    /// There is one already.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// Somebody wrote first, or a guard did not hold.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The object can never be accepted as it stands.
    #[error("invalid: {0}")]
    Invalid(String),
    /// Not allowed.
    #[error("forbidden: {0}")]
    Forbidden(String),
    /// Too much at once; try again later.
    #[error("busy, try again in {retry_after:?}")]
    Busy {
        /// When to try again.
        retry_after: Duration,
    },
    /// The reply was lost: it may have happened.
    #[error("no reply: {0}")]
    Unknown(String),
}

impl Refusal {
    /// The server's own words, without ours in front of them.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Refusal::NotFound(words)
            | Refusal::AlreadyExists(words)
            | Refusal::Conflict(words)
            | Refusal::Invalid(words)
            | Refusal::Forbidden(words)
            | Refusal::Unknown(words) => words.clone(),
            Refusal::Busy { .. } => self.to_string(),
        }
    }
}

/// How long to wait when a busy server does not say.
const RETRY_DEFAULT: Duration = Duration::from_secs(1);

impl Refusal {
    /// What a `Status` of this code and reason means to a caller.
    #[must_use]
    pub fn of(code: u16, reason: &str, message: String, retry_after: Option<Duration>) -> Refusal {
        match (code, reason) {
            (404 | 405, _) => Refusal::NotFound(message),
            (409, "AlreadyExists") => Refusal::AlreadyExists(message),
            (409, _) => Refusal::Conflict(message),
            (401 | 403, _) => Refusal::Forbidden(message),
            (429 | 503, _) => Refusal::Busy { retry_after: retry_after.unwrap_or(RETRY_DEFAULT) },
            (400..=499, _) => Refusal::Invalid(message),
            _ => Refusal::Unknown(message),
        }
    }
}

/// Where a reply goes: called exactly once, on any thread.
pub type Reply<T> = Box<dyn FnOnce(T) + Send>;

/// A server that performs calls and tells of changes.
///
/// Both functions return at once. On the embedded plane a call is prepared and accepted on the caller's
/// thread, and its reply comes when it is durable.
pub trait Api: Send + Sync {
    /// Performs one call. A reply that never comes does not mean that the call was not done.
    fn call(&self, call: Call, reply: Reply<Result<Object, Refusal>>);

    /// Performs calls all or none, in one commit, where [`Abilities::atomic`]; elsewhere side by side.
    fn together(&self, calls: Vec<Call>, reply: Reply<Vec<Result<Object, Refusal>>>);

    /// Everything of a kind, then every change, for ever; re-lists by itself after a gap.
    fn follow(&self, kind: &Kind) -> Box<dyn Follow>;

    /// What this server can do.
    fn abilities(&self) -> Abilities;
}

/// A stream of changes that is pulled.
pub trait Follow: Send {
    /// What has happened since the last pull; `None` when nothing has.
    fn pull(&mut self) -> Option<Batch>;

    /// Has `wake` called once, soon after there may be something to pull.
    fn wake_when_ready(&mut self, wake: Box<dyn FnOnce() + Send>);
}

/// What a server can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// Whether [`Api::together`] is all or nothing.
    pub atomic: bool,
    /// The kinds served, in their preferred version.
    pub kinds: Vec<Kind>,
}
