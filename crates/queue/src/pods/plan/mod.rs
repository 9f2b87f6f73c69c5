//! What the pods of one key need next: a pod by itself, or a group.
//!
//! # Invariants
//!
//! - [`plan`] is pure: same picture, same steps, same order.
//! - Each step is safe to repeat, and a crash between any two of them loses nothing: what ends is told to the Workload
//!   before pods are let go, and a delete names the pod that was seen.
//! - A write to the Workload is the last one to it in a plan: it changes the revision that all others rely on.
//! - Never more pods of a set are open and alive than were admitted, whatever was not seen yet.
//! - Nothing of a stranger's is touched: neither a Workload that no group made, nor a pod that another is queued for.
//!
//! # Deliberately absent
//!
//! Quota. Whether a Workload may start is read off it; who decided that is not known here.

mod end;
mod group;
mod matching;
mod single;
mod start;
mod stop;
mod wait;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use muster_api::event::Severity;
use muster_api::meta;
use muster_api::port::{Object, Revision, Uid};
use muster_api::queue::{FlavorFacts, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::expect::{Cleanups, GroupKey, Openings};
use super::member::{Above, Member, PodRef};
use crate::jobs::naming::Room;
use crate::jobs::priority::Classes;
use crate::jobs::requests::Around;

/// When to look again at what only the cache can tell.
const SOON: Duration = Duration::from_millis(500);
/// When to look again at what others must mend.
const LATER: Duration = Duration::from_secs(10);

/// Whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// A pod by itself.
    Pod {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
    /// A group.
    Group {
        /// Namespace.
        namespace: Text,
        /// Name.
        name: Text,
    },
}

impl Key {
    /// The key under which a pod is looked at.
    #[must_use]
    pub fn of_pod(pod: &Tree) -> Key {
        let namespace = muster_api::meta::namespace(pod);
        match super::decl::group_name(pod) {
            Some((name, _)) => Key::Group { namespace, name },
            None => Key::Pod { namespace, name: muster_api::meta::name(pod) },
        }
    }

    /// The keys that a change of a Workload concerns; `gone` when it was deleted, which may unblock a group.
    #[must_use]
    pub fn of_workload(workload: &WorkloadFacts, gone: bool) -> Vec<Key> {
        let namespace = workload.namespace.clone();
        let group = || Key::Group { namespace: namespace.clone(), name: workload.name.clone() };
        if end::is_of_group(workload) {
            return vec![group()];
        }
        let pod = workload.controller().filter(|owner| owner.kind == "Pod" && owner.group().is_empty());
        let pod = pod.map(|owner| Key::Pod { namespace: namespace.clone(), name: owner.name.clone() });
        pod.into_iter().chain(gone.then(group)).collect()
    }

    /// Namespace and name.
    #[must_use]
    pub fn names(&self) -> (&Text, &Text) {
        match self {
            Key::Pod { namespace, name } | Key::Group { namespace, name } => (namespace, name),
        }
    }

    fn group(&self) -> GroupKey {
        let (namespace, name) = self.names();
        (namespace.clone(), name.clone())
    }
}

/// Exactly this Workload, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRef {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// The revision on which a decision stands.
    pub revision: Revision,
}

/// A Workload.
#[derive(Debug, Clone, PartialEq)]
pub struct SeenWorkload {
    /// What is read of it.
    pub facts: WorkloadFacts,
    /// Since when it is being deleted.
    pub deleted_at: Option<Time>,
    /// Its revision.
    pub revision: Revision,
}

impl SeenWorkload {
    /// Reads it.
    #[must_use]
    pub fn of(workload: &Object) -> SeenWorkload {
        let Object { tree, revision } = workload;
        SeenWorkload { facts: WorkloadFacts::of(tree), deleted_at: meta::deleting(tree), revision: *revision }
    }

    /// Which.
    #[must_use]
    pub fn this(&self) -> WorkloadRef {
        WorkloadRef { name: self.facts.name.clone(), uid: self.facts.uid.clone(), revision: self.revision }
    }

    /// Whether it knows this pod for one of its own.
    fn knows(&self, pod: &Member) -> bool {
        self.facts.owners.iter().any(|owner| owner.uid == pod.this.uid)
    }
}

/// What is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long names of Workloads may be.
    pub room: Room,
    /// Labels that Workloads take over.
    pub label_keys: Vec<Text>,
    /// Whether anybody asks if pods are ready.
    pub tells_ready: bool,
    /// Pods are looked at only for the sake of another integration: those without its mark are not.
    pub only_parented: bool,
}

/// Everything one decision may look at, read at a single instant.
pub struct Picture<'a> {
    /// Whose turn it is.
    pub key: &'a Key,
    /// The pods of the key. Strangers among them do no harm.
    pub pods: &'a [Member],
    /// A pod's: the Workloads that it controls, and the one it names. A group's: the one of its name.
    pub workloads: &'a [SeenWorkload],
    /// The flavor of a name.
    pub flavor: &'a dyn Fn(&str) -> Option<FlavorFacts>,
    /// Gates that were opened and not seen open yet.
    pub openings: &'a Openings,
    /// Pods that were let go and not seen gone yet.
    pub cleanups: &'a Cleanups,
    /// Classes of priority.
    pub classes: &'a dyn Classes,
    /// What surrounds the pods of the namespace.
    pub around: &'a Around<'a>,
    /// When the pods of a Workload that was deactivated by us are to go, if they are.
    pub retire_at: Option<Time>,
    /// What is configured.
    pub settings: &'a Settings,
    /// The instant of the reading.
    pub now: Time,
}

/// A gate that is opened: everything in one write.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// Which pod; the patch means this revision.
    pub pod: PodRef,
    /// The Workload that admits it.
    pub workload: Uid,
    /// The pod set.
    pub set: Text,
    /// A merge patch: the gate off, and what admission gives on.
    pub patch: Tree,
    /// What is told of it: reason `Started`.
    pub message: String,
}

/// Whether an evicted Workload may queue again by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comeback {
    /// Its pods wait still, or others take their place.
    Possible,
    /// Its only pod is gone for good.
    Never,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// A pod.
    Pod(PodRef),
    /// A Workload.
    Workload(WorkloadRef),
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// About what.
    pub topic: Topic,
    /// How serious.
    pub severity: Severity,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

/// Why nothing more is done for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// The key is that of a pod by itself, and the pod is of a group.
    WrongKey,
    /// Pods that were let go were not seen gone.
    UnseenCleanups,
    /// Gates that were opened were not seen open.
    UnseenOpenings,
    /// Pods still hold what they were given.
    StillActive,
    /// The pods make no Workload.
    Compose(String),
    /// A class of priority is missing.
    PriorityClass(Text),
    /// What was admitted cannot be looked up.
    Flavor(Text),
    /// The Workload says that it is admitted, and not with what.
    NotAdmitted,
    /// The Workload that the user makes is not there.
    Prebuilt(Text),
    /// The Workload is another's.
    NameConflict(Text),
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::WrongKey => {
                f.write_str("event handler error: got a single pod reconcile request for a pod group")
            }
            Hold::UnseenCleanups => f.write_str("waiting to observe previous operations on pods"),
            Hold::UnseenOpenings => f.write_str("waiting to observe pods whose gate was removed"),
            Hold::StillActive => f.write_str("pods are still active"),
            Hold::Compose(why) => f.write_str(why),
            Hold::PriorityClass(name) => write!(f, "priority class {name} not found"),
            Hold::NotAdmitted => f.write_str("the workload has no admission"),
            Hold::Flavor(name) => write!(f, "flavor {name} not found"),
            Hold::Prebuilt(name) => write!(f, "prebuilt workload {name} not found"),
            Hold::NameConflict(name) => write!(f, "workload {name} is not of this group"),
        }
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes the Workload, and tells the pod.
    CreateWorkload(Tree, Note),
    /// Overwrites the spec of a Workload, if it is what it was.
    RewriteWorkload(WorkloadRef, Tree),
    /// Lets a Workload go and deletes it.
    DeleteWorkload(WorkloadRef),
    /// Lets a Workload go: takes our finalizer off.
    LetWorkloadGo(WorkloadRef),
    /// Adds owners to a Workload, if it is what it was.
    AddOwners(WorkloadRef, Vec<Tree>),
    /// Puts a Workload into another queue, if it is what it was.
    ChangeQueue(WorkloadRef, Text),
    /// Gives a Workload another priority, if it is what it was.
    ChangePriority(WorkloadRef, crate::jobs::priority::Resolved),
    /// The Workload has ended.
    Finish {
        /// Which.
        workload: WorkloadRef,
        /// Reason of the condition.
        reason: &'static str,
        /// Message of the condition.
        message: String,
    },
    /// Writes whether a group waits for replacements.
    TellWaiting {
        /// Which.
        workload: WorkloadRef,
        /// Whether it does.
        holds: bool,
        /// Reason of the condition.
        reason: Text,
        /// Message of the condition.
        message: Text,
    },
    /// Writes whose share is free again, by pod set.
    TellReclaimable(WorkloadRef, Vec<(Text, u32)>),
    /// Tells whether the pods are ready.
    TellReady(WorkloadRef, bool),
    /// Gives back the share of an evicted Workload.
    Release(WorkloadRef, Comeback),
    /// Opens gates; each is told.
    Open(Vec<Opening>),
    /// Takes our finalizer off pods.
    LetGo(Vec<PodRef>),
    /// Lets go and deletes pods that are too many; each is told.
    DeleteExcess(Vec<PodRef>),
    /// Lets go and deletes pods whose time is over.
    DeletePods(Vec<PodRef>),
    /// Marks pods with `TerminationTarget`, deletes them, and tells each.
    Stop {
        /// Which.
        pods: Vec<PodRef>,
        /// Reason of the condition.
        reason: String,
        /// Message of the condition and of the event.
        message: String,
    },
    /// Notes an event.
    Note(Note),
    /// Notes an event unless the same was noted before about the same.
    NoteOnce(Note),
    /// Looks again at this time.
    LookAgain(Time),
    /// Why nothing more is done.
    Hold(Hold),
}

/// Decides what the pods of a key need next.
#[must_use]
pub fn plan(seen: &Picture<'_>) -> Vec<Action> {
    let mut pass = Pass { seen, steps: Vec::new() };
    let ours = pass.ours();
    match seen.key {
        Key::Pod { .. } => single::run(&mut pass, &ours),
        Key::Group { name, .. } => group::run(&mut pass, name, &ours),
    }
    pass.steps
}

/// One look at a key.
struct Pass<'a> {
    seen: &'a Picture<'a>,
    steps: Vec<Action>,
}

impl<'a> Pass<'a> {
    fn add(&mut self, step: Action) {
        self.steps.push(step);
    }

    fn hold(&mut self, why: Hold) {
        self.add(Action::Hold(why));
    }

    fn look_again(&mut self, at: Time) {
        self.add(Action::LookAgain(at.max(self.seen.now)));
    }

    fn note(&mut self, pod: &Member, severity: Severity, reason: &'static str, message: impl Into<String>) {
        let topic = Topic::Pod(pod.this.clone());
        self.add(Action::Note(Note { topic, severity, reason, message: message.into() }));
    }

    fn warn_once(&mut self, pod: &Member, reason: &'static str, message: impl Into<String>) {
        let topic = Topic::Pod(pod.this.clone());
        let note = Note { topic, severity: Severity::Warning, reason, message: message.into() };
        self.add(Action::NoteOnce(note));
    }

    fn let_go<'p>(&mut self, pods: impl IntoIterator<Item = &'p Member>) {
        let all: Vec<PodRef> =
            pods.into_iter().filter(|pod| pod.finalizer).map(|pod| pod.this.clone()).collect();
        if !all.is_empty() {
            self.add(Action::LetGo(all));
        }
    }

    /// `<namespace>/<name>` of a Workload.
    fn full_name(&self, workload: &str) -> String {
        format!("{}/{workload}", self.seen.key.names().0)
    }

    /// The pods that this key is about, the oldest first. Those below a managed owner are none of it, unless they have a
    /// Workload already: whoever is given an owner later keeps what he holds. If one of the others wears our finalizer it
    /// must not be stuck with it.
    fn ours(&mut self) -> Vec<&'a Member> {
        let seen = self.seen;
        let owners = seen.workloads.iter().flat_map(|it| &it.facts.owners);
        let known: BTreeSet<&Text> = owners.map(|owner| &owner.uid).collect();
        let (foreign, mut ours): (Vec<&Member>, Vec<&Member>) = seen
            .pods
            .iter()
            .partition(|pod| pod.above == Above::Managed && !pod.parented && !known.contains(&pod.this.uid));
        self.let_go(foreign.into_iter().filter(|pod| pod.terminated() || pod.deleting.is_some()));
        ours.retain(|pod| pod.parented || (pod.managed && !seen.settings.only_parented));
        ours.sort_by(|a, b| (a.created, &a.this.name).cmp(&(b.created, &b.this.name)));
        ours
    }

    /// When the first of these pods stops holding what it has by itself.
    fn look_when_over(&mut self, pods: &[&Member]) {
        let now = self.seen.now;
        let over =
            pods.iter().filter(|pod| pod.holds_quota(now)).filter_map(|pod| Some(pod.deleting?.over_at()));
        if let Some(at) = over.min() {
            self.look_again(at);
        }
    }
}

/// Whether any of these pods still holds what it was given.
fn any_holds(pods: &[&Member], now: Time) -> bool {
    pods.iter().any(|pod| pod.holds_quota(now))
}

/// The Workload to be made, and the pod that is told.
struct Plea<'p> {
    name: Text,
    queue: Text,
    sets: Vec<muster_api::queue::PodSet>,
    pods: Vec<&'p Member>,
}
