//! Pods: what controllers read of them, and the patches they write.

use muster_tree::{Text, Tree, tree};

use crate::paths::{container, container_status, meta as meta_path, pod as path, pod_volume};
use crate::port::Uid;
use crate::time::Time;
use crate::words::{conditions, finalizers, labels};
use crate::{condition, meta};

/// `status.phase`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Not running yet.
    #[default]
    Pending,
    /// Running.
    Running,
    /// All containers ended with 0.
    Succeeded,
    /// Some container ended otherwise.
    Failed,
    /// The node does not answer.
    Unknown,
}

impl Phase {
    /// Reads the word.
    #[must_use]
    pub fn of(word: &str) -> Phase {
        match word {
            "Running" => Phase::Running,
            "Succeeded" => Phase::Succeeded,
            "Failed" => Phase::Failed,
            "Unknown" => Phase::Unknown,
            _ => Phase::Pending,
        }
    }

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Running => "Running",
            Phase::Succeeded => "Succeeded",
            Phase::Failed => "Failed",
            Phase::Unknown => "Unknown",
        }
    }

    /// Whether the pod will never run again.
    #[must_use]
    pub fn ended(self) -> bool {
        matches!(self, Phase::Succeeded | Phase::Failed)
    }
}

/// What most controllers read of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// Node; empty when it has none.
    pub node: Text,
    /// Phase.
    pub phase: Phase,
    /// Whether it is ready.
    pub ready: bool,
    /// When it was created.
    pub created: Time,
    /// When it is to be gone, if deleted.
    pub deleting: Option<Time>,
    /// Whether the Job controller's finalizer is on it.
    pub tracked: bool,
    /// Its completion index.
    pub index: Option<u32>,
    /// Restarts of all its containers.
    pub restarts: i64,
    /// When it ended, as well as can be told; see [`PodFacts::of`].
    pub ended_at: Time,
}

impl PodFacts {
    /// Reads a Pod. The end is the latest end of a container, else when it stopped being ready, else when it
    /// was deleted, else its creation.
    #[must_use]
    pub fn of(pod: &Tree) -> PodFacts {
        let created = meta::created(pod).unwrap_or_default();
        PodFacts {
            namespace: meta::namespace(pod),
            name: meta::name(pod),
            uid: meta::uid(pod),
            node: pod.text_at(path::NODE_NAME),
            phase: Phase::of(pod.str_at(path::PHASE)),
            ready: condition::holds(pod.items_at(path::CONDITIONS), conditions::READY),
            created,
            deleting: meta::deleting(pod),
            tracked: meta::has_finalizer(pod, finalizers::JOB_TRACKING),
            index: meta::annotation(pod, labels::COMPLETION_INDEX).and_then(|text| text.parse().ok()),
            restarts: statuses(pod).filter_map(|status| status.int_at(container_status::RESTARTS)).sum(),
            ended_at: ended_at(pod).unwrap_or(created),
        }
    }

    /// Whether it runs or may still run, and nobody deleted it.
    #[must_use]
    pub fn active(&self) -> bool {
        !self.phase.ended() && self.deleting.is_none()
    }

    /// Whether it was deleted and has not ended yet.
    #[must_use]
    pub fn terminating(&self) -> bool {
        !self.phase.ended() && self.deleting.is_some()
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
    // Sidecars outlive the others.
    let sidecars = pod.items_at(path::INIT_STATUSES).iter().filter(is_sidecar);
    let containers = pod.items_at(path::CONTAINER_STATUSES).iter().chain(sidecars);
    let ends: Option<Vec<Time>> =
        containers.map(|status| Time::of(status.at(container_status::FINISHED))).collect();
    let not_ready = || {
        let ready = condition::find(pod.items_at(path::CONDITIONS), conditions::READY)?;
        let since = Time::of(ready.at(crate::paths::condition::SINCE));
        since.filter(|_| ready.str_at(crate::paths::condition::STATUS) == "False")
    };
    let deleted = || {
        let grace = meta::grace_secs(pod);
        meta::deleting(pod).map(|at| Time(at.0 - grace * 1_000_000))
    };
    ends.and_then(|ends| ends.into_iter().max()).or_else(not_ready).or_else(deleted)
}

/// The body that binds a pod to a node.
#[must_use]
pub fn binding(namespace: &Text, name: &Text, uid: &Uid, node: &Text) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": uid},
        "target": {"kind": "Node", "name": node}})
}

/// A strategic status patch that sets one condition of a pod, as it is known now.
#[must_use]
pub fn condition_patch(pod: &Tree, wanted: &condition::Wanted<'_>, since: Time) -> Tree {
    let generation = pod.at(crate::paths::meta::GENERATION).cloned();
    let condition = wanted.tree(since).with(crate::paths::condition::PROBED, Tree::Null);
    let condition = condition.with_option(crate::paths::condition::GENERATION, generation);
    Tree::Null.with(path::CONDITIONS, Tree::list([condition]))
}

/// A strategic status patch that also names the node being cleared for a pod; nothing for none.
#[must_use]
pub fn nomination_patch(patch: &Tree, node: &str) -> Tree {
    let value = if node.is_empty() { Tree::Null } else { Tree::from(node) };
    patch.with(path::NOMINATED, value)
}

/// A claim to a volume that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedClaim {
    /// Name of the claim, in the pod's namespace.
    pub claim: Text,
    /// The volume that the claim is made for, when it is made for this pod alone.
    pub made_for: Option<Text>,
}

/// The claims of a pod, in the order of its volumes.
pub fn claims(pod: &Tree) -> impl Iterator<Item = UsedClaim> + '_ {
    let name = meta::name(pod);
    pod.items_at(path::VOLUMES).iter().filter_map(move |volume| {
        let claim = volume.text_at(pod_volume::CLAIM);
        if !claim.is_empty() {
            return Some(UsedClaim { claim, made_for: None });
        }
        volume.at(pod_volume::TEMPLATE)?;
        let volume = volume.text_at(pod_volume::NAME);
        Some(UsedClaim { claim: Text::from(format!("{name}-{volume}")), made_for: Some(volume) })
    })
}

/// The names and images of the containers of a pod.
pub fn containers(pod: &Tree) -> impl Iterator<Item = (Text, Text)> + '_ {
    let items = pod.items_at(path::CONTAINERS).iter();
    items.map(|item| (item.text_at(container::NAME), item.text_at(container::IMAGE)))
}

/// The labels of an object, as a tree.
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
        assert_eq!((facts.index, facts.restarts, facts.tracked, facts.ready), (Some(3), 2, true, false));
        assert_eq!(facts.ended_at, Time::parse("2026-01-01T00:01:00Z").unwrap());
        assert!(!facts.active() && !facts.terminating());
    }

    #[test]
    fn a_pod_without_container_ends_ended_when_it_was_deleted() {
        let pod = tree!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z",
            "deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}});
        let facts = PodFacts::of(&pod);
        assert_eq!(facts.ended_at, Time::parse("2026-01-01T00:00:30Z").unwrap());
        assert!(facts.terminating());
    }
}
