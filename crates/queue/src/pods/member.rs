//! What is read of one pod that was taken in.

use muster_api::condition;
use muster_api::meta;
use muster_api::paths::{condition as condition_path, pod as path};
use muster_api::pod::Phase;
use muster_api::port::{Object, Revision, Uid};
use muster_api::queue::words::{TRUE, annotations, conditions, finalizers, gates, labels};
use muster_api::time::Time;
use muster_api::words::{conditions as pod_conditions, reasons};
use muster_tree::{Text, Tree};

use super::decl::{self, Decl};
use super::hash;

/// Exactly this pod, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// The revision on which a decision stands.
    pub revision: Revision,
}

/// A delete that somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleting {
    /// `metadata.deletionTimestamp`.
    pub at: Time,
    /// `metadata.deletionGracePeriodSeconds`.
    pub grace_secs: i64,
}

impl Deleting {
    /// When its time is over for good.
    #[must_use]
    pub fn over_at(&self) -> Time {
        Time(self.at.0.saturating_add(self.grace_secs.saturating_mul(1_000_000)))
    }
}

/// Whether somebody above a pod is queued in its stead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Above {
    /// Nobody: the pod queues for itself.
    #[default]
    Nobody,
    /// An ancestor that is managed.
    Managed,
}

/// One pod.
#[derive(Debug, Clone)]
pub struct Member {
    /// Which.
    pub this: PodRef,
    /// The pod itself.
    pub tree: Tree,
    /// What it says about its group.
    pub decl: Decl,
    /// The first thing that is wrong with that.
    pub flaw: Option<String>,
    /// Its fingerprint.
    pub hash: Text,
    /// Its queue; empty when it names none.
    pub queue: Text,
    /// When it was created.
    pub created: Time,
    /// Whether and until when it is being deleted.
    pub deleting: Option<Deleting>,
    /// Phase.
    pub phase: Phase,
    /// Whether it has a node.
    pub bound: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Whether our gate is on it.
    pub gated: bool,
    /// Whether gates of others are on it.
    pub foreign_gates: bool,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Whether we have told it to stop.
    pub stopped: bool,
    /// Whether it was taken in.
    pub managed: bool,
    /// Whether the integration of a parent has gated it.
    pub parented: bool,
    /// Whether somebody above it is queued in its stead.
    pub above: Above,
    /// When it was active last, where that can be told.
    last_active: Option<Time>,
}

impl Member {
    /// Reads a pod.
    #[must_use]
    pub fn of(object: &Object, above: Above) -> Member {
        let tree = &object.tree;
        let (decl, flaws) = decl::read(tree);
        let deleting = meta::deleting(tree).map(|at| Deleting { at, grace_secs: meta::grace_secs(tree) });
        let gate_names = || tree.items_at(path::GATES).iter().map(|gate| gate.str_at(&["name"]));
        let ours = [gates::ADMISSION, gates::TOPOLOGY];
        Member {
            this: PodRef { name: meta::name(tree), uid: meta::uid(tree), revision: object.revision },
            decl,
            flaw: flaws.first().map(ToString::to_string),
            hash: hash::role(tree),
            queue: meta::label(tree, labels::QUEUE).map(Text::from).unwrap_or_default(),
            created: meta::created(tree).unwrap_or_default(),
            deleting,
            phase: Phase::of(tree.str_at(path::PHASE)),
            bound: !tree.str_at(path::NODE_NAME).is_empty(),
            ready: condition::holds(tree.items_at(path::CONDITIONS), pod_conditions::READY),
            gated: gate_names().any(|gate| gate == gates::ADMISSION),
            foreign_gates: gate_names().any(|gate| !ours.contains(&gate)),
            finalizer: meta::has_finalizer(tree, finalizers::POD),
            stopped: condition::holds(tree.items_at(path::CONDITIONS), conditions::TERMINATION_TARGET),
            managed: meta::label(tree, labels::MANAGED) == Some(TRUE),
            parented: meta::annotation(tree, annotations::SUSPENDING_PARENT).is_some(),
            above,
            last_active: last_active(tree, deleting),
            tree: tree.clone(),
        }
    }

    /// Whether it succeeded or failed.
    #[must_use]
    pub fn terminated(&self) -> bool {
        self.phase.ended()
    }

    /// Whether it waits for us, or has ended: nothing of it runs.
    #[must_use]
    pub fn suspended(&self) -> bool {
        self.gated || self.terminated()
    }

    /// Whether it has ended and nothing of it is counted any more.
    #[must_use]
    pub fn let_go(&self) -> bool {
        self.terminated() && !self.finalizer && !self.parented
    }

    /// Whether it was deleted before it had a node: it will never run.
    #[must_use]
    pub fn stillborn(&self) -> bool {
        self.deleting.is_some() && !self.bound && !self.terminated()
    }

    /// Whether it can no longer do its part: failed, or deleted before it had a node. A pod that succeeded has done it, even if
    /// it was stopped meanwhile.
    #[must_use]
    pub fn inactive(&self) -> bool {
        self.phase == Phase::Failed || self.stillborn()
    }

    /// Whether it ended after it was stopped for its Workload.
    #[must_use]
    pub fn ended_stopped(&self) -> bool {
        self.stopped && self.terminated()
    }

    /// Whether it holds what it was given: it runs, may start on its node, or waits for others' gates, and the time
    /// of a delete is not over.
    #[must_use]
    pub fn holds_quota(&self, now: Time) -> bool {
        let may_run = self.phase == Phase::Running
            || (!self.terminated()
                && (self.bound || (!self.gated && self.foreign_gates && self.deleting.is_none())));
        may_run && self.deleting.is_none_or(|deleting| now < deleting.over_at())
    }

    /// Whether it may run though it has not ended: our gate is off, and nobody deletes it.
    #[must_use]
    pub fn at_large(&self) -> bool {
        !self.suspended() && self.deleting.is_none()
    }

    /// When it was active last; now when that cannot be told.
    #[must_use]
    pub fn last_active(&self, now: Time) -> Time {
        self.last_active.unwrap_or(now)
    }
}

/// The earlier of the end of its containers and of its deletion.
fn last_active(tree: &Tree, deleting: Option<Deleting>) -> Option<Time> {
    let failed = condition::find(tree.items_at(path::CONDITIONS), pod_conditions::CONTAINERS_READY)
        .filter(|it| {
            it.str_at(condition_path::STATUS) == "False" && is_failure(it.str_at(condition_path::REASON))
        })
        .and_then(|it| Time::of(it.at(condition_path::SINCE)));
    [failed, deleting.map(|it| it.at)].into_iter().flatten().min()
}

/// Whether a reason says that the pod failed: kubelets and those who write statuses for them spell it differently.
fn is_failure(reason: &str) -> bool {
    matches!(reason, reasons::POD_FAILED | reasons::FAILED)
}
