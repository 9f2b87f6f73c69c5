//! What is read of a TrainJob.

use muster_tree::{Text, Tree};

use super::paths::train_job as path;
use super::runtime::RuntimeKind;
use super::status::TrainJobStatus;
use super::words::{CLUSTER_TRAINING_RUNTIME, CONTROLLER, GROUP};
use crate::meta;
use crate::port::Uid;
use crate::queue::words::labels::QUEUE;
use crate::time::Time;

/// What is read of a TrainJob.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainJobFacts {
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// When it was made.
    pub created: Option<Time>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Who manages it.
    pub managed: Managed,
    /// Which runtime it is made of.
    pub runtime: RuntimeRef,
    /// Whether nothing may run.
    pub suspend: bool,
    /// For how long it may be active, in seconds.
    pub deadline_secs: Option<u64>,
    /// For how long it stays when finished, in seconds.
    pub ttl_secs: Option<u32>,
    /// Whether it waits in a queue before it runs.
    pub queued: bool,
    /// Its status as written.
    pub status: TrainJobStatus,
}

/// Who manages a TrainJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Managed {
    /// We do.
    ByUs,
    /// Somebody else: neither it nor what it would own is touched.
    Elsewhere,
}

/// Which runtime a TrainJob is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeRef {
    /// Name.
    pub name: Text,
    /// Group.
    pub group: Text,
    /// Kind.
    pub kind: Text,
}

impl RuntimeRef {
    /// What a TrainJob says.
    #[must_use]
    pub fn of(job: &Tree) -> RuntimeRef {
        let or = |path: &[&str], default: &str| match job.at(path).and_then(Tree::as_text) {
            Some(text) => text.clone(),
            None => Text::from(default),
        };
        RuntimeRef {
            name: job.text_at(path::RUNTIME_NAME),
            group: or(path::RUNTIME_GROUP, GROUP),
            kind: or(path::RUNTIME_KIND, CLUSTER_TRAINING_RUNTIME),
        }
    }

    /// Which of the kinds that we know; none when it is no runtime of ours.
    #[must_use]
    pub fn known(&self) -> Option<RuntimeKind> {
        RuntimeKind::of(&self.kind).filter(|_| self.group == GROUP)
    }
}

impl TrainJobFacts {
    /// Reads a TrainJob.
    #[must_use]
    pub fn of(job: &Tree) -> TrainJobFacts {
        TrainJobFacts {
            namespace: meta::namespace(job),
            name: meta::name(job),
            uid: meta::uid(job),
            created: meta::created(job),
            deleting: meta::deleting(job).is_some(),
            managed: match job.str_at(path::MANAGED_BY) {
                "" | CONTROLLER => Managed::ByUs,
                _ => Managed::Elsewhere,
            },
            runtime: RuntimeRef::of(job),
            suspend: job.bool_at(path::SUSPEND) == Some(true),
            // Zero was written by others for "none", before there was a least value.
            deadline_secs: job.int_at(path::DEADLINE).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0),
            ttl_secs: job.int_at(path::TTL).and_then(|n| u32::try_from(n).ok()),
            queued: meta::label(job, QUEUE).is_some_and(|it| !it.is_empty()),
            status: TrainJobStatus::of(job.at(path::STATUS).unwrap_or(&Tree::Null)),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_admission_would_fill_in_is_read_as_if_it_had() {
        let job = TrainJobFacts::of(&tree!({"spec": {"runtimeRef": {"name": "torch"}}}));
        assert_eq!(job.runtime.known(), Some(RuntimeKind::Cluster));
        assert_eq!((job.managed, job.suspend, job.queued), (Managed::ByUs, false, false));
        assert_eq!((job.ttl_secs, job.deadline_secs), (None, None));
    }

    #[test]
    fn only_what_says_so_is_queued_or_managed_elsewhere() {
        let job = TrainJobFacts::of(&tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
            "spec": {"runtimeRef": {"name": "r", "kind": "TrainingRuntime", "apiGroup": "other.io"},
                "managedBy": "kueue.x-k8s.io/multikueue", "ttlSecondsAfterFinished": 0}}));
        assert_eq!((job.managed, job.queued), (Managed::Elsewhere, true));
        assert_eq!((job.runtime.known(), job.ttl_secs), (None, Some(0)));
    }
}
