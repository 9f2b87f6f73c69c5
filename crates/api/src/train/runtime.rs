//! Typed views of training runtimes.

use muster_tree::{Text, Tree};

use super::consts::{CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME, labels, names};
use super::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES};
use crate::client::Kind;
use crate::paths::replicated_job;

/// The kinds of training runtimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeKind {
    /// A TrainingRuntime, for TrainJobs of its namespace.
    Namespaced,
    /// A ClusterTrainingRuntime, for TrainJobs of any namespace.
    Cluster,
}

impl RuntimeKind {
    /// Parses the kind; `None` for an unknown one.
    #[must_use]
    pub fn of(word: &str) -> Option<RuntimeKind> {
        match word {
            TRAINING_RUNTIME => Some(RuntimeKind::Namespaced),
            CLUSTER_TRAINING_RUNTIME => Some(RuntimeKind::Cluster),
            _ => None,
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RuntimeKind::Namespaced => TRAINING_RUNTIME,
            RuntimeKind::Cluster => CLUSTER_TRAINING_RUNTIME,
        }
    }

    /// The resource of this kind.
    #[must_use]
    pub fn kind(self) -> &'static Kind {
        match self {
            RuntimeKind::Namespaced => &TRAINING_RUNTIMES,
            RuntimeKind::Cluster => &CLUSTER_TRAINING_RUNTIMES,
        }
    }
}

/// The role of a replicatedJob in a runtime (label `trainjob-ancestor-step`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ancestor {
    /// The training nodes themselves (`trainer`).
    Trainer,
    /// Downloads the dataset before training.
    Dataset,
    /// Downloads the model before training.
    Model,
}

impl Ancestor {
    /// Reads the label of a replicatedJob; `None` without a known value.
    #[must_use]
    pub fn of(job: &Tree) -> Option<Ancestor> {
        match job.at(replicated_job::JOB_LABELS)?.get(labels::ANCESTOR)?.as_str()? {
            names::TRAINER => Some(Ancestor::Trainer),
            names::DATASET_INITIALIZER => Some(Ancestor::Dataset),
            names::MODEL_INITIALIZER => Some(Ancestor::Model),
            _ => None,
        }
    }

    /// The value as written to the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Ancestor::Trainer => names::TRAINER,
            Ancestor::Dataset => names::DATASET_INITIALIZER,
            Ancestor::Model => names::MODEL_INITIALIZER,
        }
    }

    /// Name of the container that does the step's work.
    #[must_use]
    pub fn container(self) -> &'static str {
        match self {
            Ancestor::Trainer => names::NODE,
            Ancestor::Dataset => names::DATASET_INITIALIZER,
            Ancestor::Model => names::MODEL_INITIALIZER,
        }
    }
}

/// Returns whether a resource name counts as a GPU, by Trainer's rule: it contains `gpu`.
#[must_use]
pub fn is_gpu(resource: &str) -> bool {
    resource.to_lowercase().contains("gpu")
}

/// Number of GPUs in resource requirements: from requests, else from limits; of several GPU resources the alphabetically
/// first counts. `None` without any.
#[must_use]
pub fn gpu_count(requirements: &Tree) -> Option<i64> {
    ["requests", "limits"].into_iter().find_map(|part| {
        let gpu = |(name, _): &&(Text, Tree)| is_gpu(name);
        let (_, quantity) = requirements.entries_at(&[part]).iter().find(gpu)?;
        whole(quantity)
    })
}

fn whole(quantity: &Tree) -> Option<i64> {
    crate::quantity::nano(&crate::quantity::text(quantity)).map(|nano| nano / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn gpus_are_counted_by_requests_then_by_limits() {
        for (requirements, want) in [
            (tree!({}), None),
            (tree!({"requests": {"cpu": 2}, "limits": {"nvidia.com/gpu": "4"}}), Some(4)),
            (tree!({"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": 4}}), Some(2)),
            (tree!({"limits": {"b.io/gpu": 1, "amd.com/GPU": 3}}), Some(3)),
            (tree!({"limits": {"nvidia.com/mig-1g.5gb": 1, "google.com/tpu": 4}}), None),
            (tree!({"limits": {"nvidia.com/gpu": 1.0}}), Some(1)),
        ] {
            assert_eq!(gpu_count(&requirements), want, "{requirements}");
        }
    }
}
