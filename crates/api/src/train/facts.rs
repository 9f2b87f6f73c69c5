//! The typed view of a TrainJob.

use muster_tree::{Text, Tree};

use super::consts::{CLUSTER_TRAINING_RUNTIME, CONTROLLER, GROUP};
use super::paths::train_job as path;
use super::runtime::RuntimeKind;
use super::status::TrainJobStatus;
use crate::client::Uid;
use crate::meta;
use crate::queue::consts::labels::QUEUE;
use crate::time::Time;

/// The fields of a TrainJob that its controller reads, with the webhook's defaults filled in.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a TrainJob")]
pub struct TrainJobFacts {
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
    pub created: Option<Time>,
    pub deleting: bool,
    pub managed_by: ManagedBy,
    pub runtime: RuntimeRef,
    pub suspend: bool,
    /// `activeDeadlineSeconds`; 0 is read as absent.
    pub active_deadline_secs: Option<u64>,
    pub ttl_secs: Option<u32>,
    /// It has a queue label: Kueue-style admission suspends and resumes it.
    pub queued: bool,
    /// The status as last written.
    pub status: TrainJobStatus,
}

/// Which controller reconciles a TrainJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManagedBy {
    /// Muster's Trainer controller reconciles it.
    Trainer,
    /// Another controller: neither the TrainJob nor objects of its name are modified.
    External,
}

/// `spec.runtimeRef`, with defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror RuntimeRef")]
pub struct RuntimeRef {
    pub name: Text,
    pub group: Text,
    pub kind: Text,
}

impl RuntimeRef {
    /// Reads `spec.runtimeRef` of a TrainJob.
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

    /// The kind of the runtime; `None` for another group or an unknown kind.
    #[must_use]
    pub fn runtime_kind(&self) -> Option<RuntimeKind> {
        RuntimeKind::of(&self.kind).filter(|_| self.group == GROUP)
    }
}

impl TrainJobFacts {
    /// Reads a TrainJob, with or without the webhook's defaults.
    #[must_use]
    pub fn of(job: &Tree) -> TrainJobFacts {
        TrainJobFacts {
            namespace: meta::namespace(job),
            name: meta::name(job),
            uid: meta::uid(job),
            created: meta::creation_timestamp(job),
            deleting: meta::deletion_timestamp(job).is_some(),
            managed_by: match job.str_at(path::MANAGED_BY) {
                "" | CONTROLLER => ManagedBy::Trainer,
                _ => ManagedBy::External,
            },
            runtime: RuntimeRef::of(job),
            suspend: job.bool_at(path::SUSPEND) == Some(true),
            // 0 meant "no deadline" before the schema got a minimum of 1; such objects may still be stored.
            active_deadline_secs: job
                .int_at(path::DEADLINE)
                .and_then(|n| u64::try_from(n).ok())
                .filter(|n| *n > 0),
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
    fn webhook_defaults_are_filled_in_on_reading() {
        let job = TrainJobFacts::of(&tree!({"spec": {"runtimeRef": {"name": "torch"}}}));
        assert_eq!(job.runtime.runtime_kind(), Some(RuntimeKind::Cluster));
        assert_eq!((job.managed_by, job.suspend, job.queued), (ManagedBy::Trainer, false, false));
        assert_eq!((job.ttl_secs, job.active_deadline_secs), (None, None));
    }

    #[test]
    fn queue_label_and_managed_by_are_read() {
        let job = TrainJobFacts::of(&tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}},
            "spec": {"runtimeRef": {"name": "r", "kind": "TrainingRuntime", "apiGroup": "other.io"},
                "managedBy": "kueue.x-k8s.io/multikueue", "ttlSecondsAfterFinished": 0}}));
        assert_eq!((job.managed_by, job.queued), (ManagedBy::External, true));
        assert_eq!((job.runtime.runtime_kind(), job.ttl_secs), (None, Some(0)));
    }
}
