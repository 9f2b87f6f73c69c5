//! What the reconciler reads of a managed pod.

use muster_api::client::{ApiObject, Revision, Uid};
use muster_api::condition;
use muster_api::consts::{conditions as pod_conditions, reasons};
use muster_api::meta;
use muster_api::paths::{condition as condition_path, pod as path};
use muster_api::pod::PodPhase;
use muster_api::queue::consts::{TRUE, annotations, conditions, finalizers, gates, labels};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::group_metadata::{self, PodGroupMetadata};
use super::role_hash;

/// A pod with UID and resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodReference {
    pub name: Text,
    pub uid: Uid,
    /// The resourceVersion the decision is based on.
    pub revision: Revision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodDeletion {
    pub at: Time,
    pub grace_secs: i64,
}

impl PodDeletion {
    /// The end of the grace period.
    #[must_use]
    pub fn grace_period_ends_at(&self) -> Time {
        Time(self.at.0.saturating_add(self.grace_secs.saturating_mul(1_000_000)))
    }
}

/// Whether an ancestor of the pod is queued instead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PodAncestry {
    #[default]
    Unmanaged,
    /// An ancestor is managed.
    Managed,
}

#[derive(Debug, Clone)]
pub struct QueuedPod {
    pub reference: PodReference,
    pub tree: Tree,
    pub group_metadata: PodGroupMetadata,
    /// The first validation error of its group metadata.
    pub validation_error: Option<String>,
    pub hash: Text,
    /// Empty without a queue name.
    pub queue: Text,
    /// When it was created.
    pub created: Time,
    pub deleting: Option<PodDeletion>,
    pub phase: PodPhase,
    /// Whether it has a node.
    pub bound: bool,
    /// Whether it is ready.
    pub ready: bool,
    /// Has the admission gate.
    pub gated: bool,
    /// Has gates of other controllers.
    pub foreign_gates: bool,
    pub finalizer: bool,
    /// Has condition `TerminationTarget`: we stopped it.
    pub stopped: bool,
    pub managed: bool,
    /// Has annotation `pod-suspending-parent`: the integration of its parent gated it.
    pub suspended_by_parent: bool,
    pub ancestry: PodAncestry,
    /// End of its containers or its deletion, if known.
    last_active: Option<Time>,
}

impl QueuedPod {
    #[must_use]
    pub fn of(object: &ApiObject, above: PodAncestry) -> QueuedPod {
        let tree = &object.tree;
        let (decl, flaws) = group_metadata::read(tree);
        let deleting = meta::deletion_timestamp(tree)
            .map(|at| PodDeletion { at, grace_secs: meta::deletion_grace_secs(tree) });
        let gate_names = || tree.items_at(path::GATES).iter().map(|gate| gate.str_at(&["name"]));
        let ours = [gates::ADMISSION, gates::TOPOLOGY];
        QueuedPod {
            reference: PodReference {
                name: meta::name(tree),
                uid: meta::uid(tree),
                revision: object.revision,
            },
            group_metadata: decl,
            validation_error: flaws.first().map(ToString::to_string),
            hash: role_hash::role_hash(tree),
            queue: meta::label(tree, labels::QUEUE).map(Text::from).unwrap_or_default(),
            created: meta::creation_timestamp(tree).unwrap_or_default(),
            deleting,
            phase: PodPhase::of(tree.str_at(path::PHASE)),
            bound: !tree.str_at(path::NODE_NAME).is_empty(),
            ready: condition::is_true(tree.items_at(path::CONDITIONS), pod_conditions::READY),
            gated: gate_names().any(|gate| gate == gates::ADMISSION),
            foreign_gates: gate_names().any(|gate| !ours.contains(&gate)),
            finalizer: meta::has_finalizer(tree, finalizers::POD),
            stopped: condition::is_true(tree.items_at(path::CONDITIONS), conditions::TERMINATION_TARGET),
            managed: meta::label(tree, labels::MANAGED) == Some(TRUE),
            suspended_by_parent: meta::annotation(tree, annotations::SUSPENDING_PARENT).is_some(),
            ancestry: above,
            last_active: last_active(tree, deleting),
            tree: tree.clone(),
        }
    }

    #[must_use]
    pub fn terminated(&self) -> bool {
        self.phase.is_terminal()
    }

    /// Gated or terminated: none of its containers runs.
    #[must_use]
    pub fn suspended(&self) -> bool {
        self.gated || self.terminated()
    }

    /// Terminated, and without finalizer: it is not counted any more.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.terminated() && !self.finalizer && !self.suspended_by_parent
    }

    /// Deleted before it was scheduled: it never runs.
    #[must_use]
    pub fn deleted_unscheduled(&self) -> bool {
        self.deleting.is_some() && !self.bound && !self.terminated()
    }

    /// Failed, or deleted before it was scheduled. A succeeded pod has done its part, even if it was stopped
    /// meanwhile.
    #[must_use]
    pub fn inactive(&self) -> bool {
        self.phase == PodPhase::Failed || self.deleted_unscheduled()
    }

    /// Terminated after we stopped it.
    #[must_use]
    pub fn ended_stopped(&self) -> bool {
        self.stopped && self.terminated()
    }

    /// Whether it uses quota: it runs, may start on its node, or is held by gates of other controllers only, and
    /// its grace period has not ended.
    #[must_use]
    pub fn holds_quota(&self, now: Time) -> bool {
        let may_run = self.phase == PodPhase::Running
            || (!self.terminated()
                && (self.bound || (!self.gated && self.foreign_gates && self.deleting.is_none())));
        // A node that does not answer never terminates the pod: quota is released when the grace period has ended.
        may_run && self.deleting.is_none_or(|deleting| now < deleting.grace_period_ends_at())
    }

    /// Ungated, not terminated, and not being deleted.
    #[must_use]
    pub fn may_run(&self) -> bool {
        !self.suspended() && self.deleting.is_none()
    }

    /// `now` if it is not known.
    #[must_use]
    pub fn last_active(&self, now: Time) -> Time {
        self.last_active.unwrap_or(now)
    }
}

/// The earlier of container termination and deletion.
fn last_active(tree: &Tree, deleting: Option<PodDeletion>) -> Option<Time> {
    let failed = condition::find(tree.items_at(path::CONDITIONS), pod_conditions::CONTAINERS_READY)
        .filter(|it| {
            it.str_at(condition_path::STATUS) == "False" && is_failure(it.str_at(condition_path::REASON))
        })
        .and_then(|it| Time::of(it.at(condition_path::SINCE)));
    [failed, deleting.map(|it| it.at)].into_iter().flatten().min()
}

/// Kubelets and other status writers spell the failure reason differently.
fn is_failure(reason: &str) -> bool {
    matches!(reason, reasons::POD_FAILED | reasons::FAILED)
}
