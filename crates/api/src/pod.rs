//! The typed view of a Pod, and the patches that controllers write.

use muster_tree::{Text, Tree, tree};

use crate::client::Uid;
use crate::consts::{conditions, finalizers, labels};
use crate::paths::{container, container_status, meta as meta_path, pod as path, pod_volume};
use crate::time::Time;
use crate::{condition, meta};

/// The phase of a pod: `status.phase`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodPhase {
    /// Not all containers have started once.
    #[default]
    Pending,
    /// Bound, and at least one container started.
    Running,
    /// All containers terminated with exit code 0; terminal.
    Succeeded,
    /// All containers terminated, at least one of them with an error; terminal.
    Failed,
    /// Obsolete upstream; the node does not report.
    Unknown,
}

impl PodPhase {
    /// Parses the phase; an unknown value is `Pending`.
    #[must_use]
    pub fn of(word: &str) -> PodPhase {
        match word {
            "Running" => PodPhase::Running,
            "Succeeded" => PodPhase::Succeeded,
            "Failed" => PodPhase::Failed,
            "Unknown" => PodPhase::Unknown,
            _ => PodPhase::Pending,
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PodPhase::Pending => "Pending",
            PodPhase::Running => "Running",
            PodPhase::Succeeded => "Succeeded",
            PodPhase::Failed => "Failed",
            PodPhase::Unknown => "Unknown",
        }
    }

    /// Returns whether the phase is `Succeeded` or `Failed`: the pod never runs again.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, PodPhase::Succeeded | PodPhase::Failed)
    }
}

/// The fields of a Pod that most controllers read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror metadata, spec and status of a Pod")]
pub struct PodFacts {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    /// `spec.nodeName`; empty until the pod is bound.
    pub node: Text,
    pub phase: PodPhase,
    /// The `Ready` condition is `True`.
    pub ready: bool,
    /// `metadata.creationTimestamp`; the epoch when absent.
    pub created: Time,
    /// `metadata.deletionTimestamp`: when the grace period ends.
    pub deleting: Option<Time>,
    /// The finalizer of the Job controller is present.
    pub has_tracking_finalizer: bool,
    /// Completion index of a pod of an Indexed Job.
    pub index: Option<u32>,
    /// Sum over all containers, init containers included.
    pub restarts: i64,
    /// When the pod terminated, as far as its status shows; see [`PodFacts::of`].
    pub ended_at: Time,
}

impl PodFacts {
    /// Reads a Pod.
    ///
    /// `ended_at` is the latest `finishedAt` of a container, else the transition time of a `False` `Ready` condition, else
    /// the time of the delete request, else the creation, as upstream's Job controller computes it.
    #[must_use]
    pub fn of(pod: &Tree) -> PodFacts {
        let created = meta::creation_timestamp(pod).unwrap_or_default();
        PodFacts {
            namespace: meta::namespace(pod),
            name: meta::name(pod),
            uid: meta::uid(pod),
            node: pod.text_at(path::NODE_NAME),
            phase: PodPhase::of(pod.str_at(path::PHASE)),
            ready: condition::is_true(pod.items_at(path::CONDITIONS), conditions::READY),
            created,
            deleting: meta::deletion_timestamp(pod),
            has_tracking_finalizer: meta::has_finalizer(pod, finalizers::JOB_TRACKING),
            index: meta::annotation(pod, labels::COMPLETION_INDEX).and_then(|text| text.parse().ok()),
            restarts: statuses(pod).filter_map(|status| status.int_at(container_status::RESTARTS)).sum(),
            ended_at: ended_at(pod).unwrap_or(created),
        }
    }

    /// Returns whether the pod is neither terminal nor terminating.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.phase.is_terminal() && self.deleting.is_none()
    }

    /// Returns whether the pod has a deletion timestamp and is not terminal.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        !self.phase.is_terminal() && self.deleting.is_some()
    }
}

fn statuses(pod: &Tree) -> impl Iterator<Item = &Tree> {
    pod.items_at(path::INIT_STATUSES).iter().chain(pod.items_at(path::CONTAINER_STATUSES))
}

fn ended_at(pod: &Tree) -> Option<Time> {
    let is_sidecar = |status: &&Tree| {
        let sidecar = |item: &Tree| {
            item.str_at(container::RESTART_POLICY) == "Always"
                && item.str_at(container::NAME) == status.str_at(container_status::NAME)
        };
        pod.items_at(path::INIT_CONTAINERS).iter().any(sidecar)
    };
    // Sidecars terminate after the main containers, so their end counts; that of other init containers does not.
    let sidecars = pod.items_at(path::INIT_STATUSES).iter().filter(is_sidecar);
    let containers = pod.items_at(path::CONTAINER_STATUSES).iter().chain(sidecars);
    // One container without an end makes the whole list None: the pod has not terminated by its status.
    let ends: Option<Vec<Time>> =
        containers.map(|status| Time::of(status.at(container_status::FINISHED))).collect();
    let not_ready = || {
        let ready = condition::find(pod.items_at(path::CONDITIONS), conditions::READY)?;
        let since = Time::of(ready.at(crate::paths::condition::SINCE));
        since.filter(|_| ready.str_at(crate::paths::condition::STATUS) == "False")
    };
    let deleted = || {
        // The deletion timestamp is the end of the grace period; the delete request came earlier.
        let grace = meta::deletion_grace_secs(pod);
        meta::deletion_timestamp(pod).map(|at| Time(at.0 - grace * 1_000_000))
    };
    ends.and_then(|ends| ends.into_iter().max()).or_else(not_ready).or_else(deleted)
}

/// The Binding that binds a pod to a node. It carries the UID, so that a recreated pod of this name is not bound.
#[must_use]
pub fn binding(namespace: &Text, name: &Text, uid: &Uid, node: &Text) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "target": {"kind": "Node", "name": node}})
}

/// A strategic merge patch of `status` that sets one condition, with the pod's current generation.
#[must_use]
pub fn condition_patch(pod: &Tree, wanted: &condition::DesiredCondition<'_>, since: Time) -> Tree {
    // observedGeneration lets clients see that the condition belongs to the current spec.
    let generation = pod.at(crate::paths::meta::GENERATION).cloned();
    let condition = wanted.tree(since).with(crate::paths::condition::PROBED, Tree::Null);
    let condition = condition.with_option(crate::paths::condition::GENERATION, generation);
    Tree::Null.with(path::CONDITIONS, Tree::list([condition]))
}

/// Extends a status patch with `nominatedNodeName`; an empty node clears it.
#[must_use]
pub fn nomination_patch(patch: &Tree, node: &str) -> Tree {
    let value = if node.is_empty() { Tree::Null } else { Tree::from(node) };
    patch.with(path::NOMINATED, value)
}

/// A PersistentVolumeClaim that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodVolumeClaim {
    /// Name of the PVC, in the namespace of the pod.
    pub claim: Text,
    /// Name of the ephemeral volume that the PVC is created for; `None` for a PVC that the pod names.
    pub ephemeral_volume: Option<Text>,
}

/// The PVCs of a pod, in the order of its volumes.
pub fn volume_claims(pod: &Tree) -> impl Iterator<Item = PodVolumeClaim> + '_ {
    let name = meta::name(pod);
    pod.items_at(path::VOLUMES).iter().filter_map(move |volume| {
        let claim = volume.text_at(pod_volume::CLAIM);
        if !claim.is_empty() {
            return Some(PodVolumeClaim { claim, ephemeral_volume: None });
        }
        volume.at(pod_volume::TEMPLATE)?;
        let volume = volume.text_at(pod_volume::NAME);
        Some(PodVolumeClaim { claim: Text::from(format!("{name}-{volume}")), ephemeral_volume: Some(volume) })
    })
}

/// Names and images of the main containers.
pub fn containers(pod: &Tree) -> impl Iterator<Item = (Text, Text)> + '_ {
    let items = pod.items_at(path::CONTAINERS).iter();
    items.map(|item| (item.text_at(container::NAME), item.text_at(container::IMAGE)))
}

/// `metadata.labels` of an object.
#[must_use]
pub fn labels_of(object: &Tree) -> Option<&Tree> {
    object.at(meta_path::LABELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_a_pod() {
        let pod = tree!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["batch.kubernetes.io/job-tracking"],
                "annotations": {"batch.kubernetes.io/job-completion-index": "3"}},
            "spec": {"nodeName": "node-1"},
            "status": {"phase": "Failed", "conditions": [{"type": "Ready", "status": "False"}],
                "containerStatuses": [{"restartCount": 2, "state": {"terminated": {"finishedAt": "2026-01-01T00:01:00Z"}}}]},
        });
        let facts = PodFacts::of(&pod);
        assert_eq!(
            (facts.index, facts.restarts, facts.has_tracking_finalizer, facts.ready),
            (Some(3), 2, true, false)
        );
        assert_eq!(facts.ended_at, Time::parse("2026-01-01T00:01:00Z").unwrap());
        assert!(!facts.is_active() && !facts.is_terminating());
    }

    #[test]
    fn a_pod_without_container_ends_ended_when_it_was_deleted() {
        let pod = tree!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}});
        let facts = PodFacts::of(&pod);
        assert_eq!(facts.ended_at, Time::parse("2026-01-01T00:00:30Z").unwrap());
        assert!(facts.is_terminating());
    }
}
