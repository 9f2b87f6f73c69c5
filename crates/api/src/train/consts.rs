//! Wire constants of the Kubeflow Trainer API: keys, field managers, names, condition types, reasons and messages.
//!
//! Each value is Trainer's and spelled here and nowhere else. Messages with parameters are functions.

use muster_tree::{Text, literal};

/// API group of Trainer.
pub const GROUP: &str = "trainer.kubeflow.org";
/// The only API version.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of all kinds.
pub const API_VERSION: &str = "trainer.kubeflow.org/v1alpha1";

/// `apiVersion` of Trainer's configuration file.
pub const CONFIG_VERSION: &str = "config.trainer.kubeflow.org/v1alpha1";

/// `kind` of a TrainJob object.
pub const TRAIN_JOB: &str = "TrainJob";
/// Kind of namespaced runtimes.
pub const TRAINING_RUNTIME: &str = "TrainingRuntime";
/// Kind of cluster-scoped runtimes.
pub const CLUSTER_TRAINING_RUNTIME: &str = "ClusterTrainingRuntime";

/// The default of `spec.managedBy`.
pub const CONTROLLER: &str = "trainer.kubeflow.org/trainjob-controller";
/// The value of `spec.managedBy` for dispatch to another cluster.
pub const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// Finalizer that earlier releases put on runtimes in use; it is only removed.
pub const IN_USE: &str = "trainer.kubeflow.org/resource-in-use";

/// Field manager of the objects created for a TrainJob.
pub static MANAGER: Text = literal!("trainer");
/// Field manager of `status.trainerStatus`.
pub static STATUS_MANAGER: Text = literal!("trainer-status");
/// Event source of the TrainJob controller.
pub static EVENTS_BY: Text = literal!("trainer-trainjob-controller");
/// `action` of its events.
pub static ACTION: Text = literal!("Reconciling");

/// Port of the first node, for rendezvous.
pub const TRAINER_PORT: u16 = 29_500;
/// Name suffix of the ConfigMap that keeps the runtime of a TrainJob.
pub const SNAPSHOT_SUFFIX: &str = "-runtime-snapshot";
/// Key of the runtime in that ConfigMap.
pub const SNAPSHOT_KEY: &str = "runtime";

/// Label and annotation keys of Trainer.
pub mod labels {
    /// On a Job template of a runtime: its role, see [`Ancestor`](crate::train::Ancestor).
    pub const ANCESTOR: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
    /// On a runtime: its framework; SDK clients hide runtimes without it.
    pub const FRAMEWORK: &str = "trainer.kubeflow.org/framework";
    /// On a runtime: its support status.
    pub const SUPPORT: &str = "trainer.kubeflow.org/support";
    /// Value of [`SUPPORT`] for a deprecated runtime.
    pub const DEPRECATED: &str = "deprecated";
    /// On a runtime: switches its validation.
    pub const VALIDATION: &str = "trainer.kubeflow.org/webhook-validation";
    /// Value of [`VALIDATION`] that disables validation.
    pub const DISABLED: &str = "disabled";
    /// Annotation of a JobSet: the Volcano queue.
    pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
}

/// Names of replicatedJobs, containers and volumes that have a role.
pub mod names {
    /// ReplicatedJob and container of the training nodes.
    pub const NODE: &str = "node";
    /// ReplicatedJob of the MPI launcher.
    pub const LAUNCHER: &str = "launcher";
    /// Ancestor step, replicatedJob and container of the dataset initializer.
    pub const DATASET_INITIALIZER: &str = "dataset-initializer";
    /// Ancestor step, replicatedJob and container of the model initializer.
    pub const MODEL_INITIALIZER: &str = "model-initializer";
    /// Ancestor step of the training nodes.
    pub const TRAINER: &str = "trainer";
    /// Volume that initializers download into.
    pub const INITIALIZER_VOLUME: &str = "initializer";
    /// Init container that installs Flux.
    pub const FLUX_INSTALLER: &str = "flux-installer";
}

/// Environment variables that the ML policies set.
pub mod env {
    /// torchrun: number of nodes.
    pub const PET_NNODES: &str = "PET_NNODES";
    /// torchrun: processes per node.
    pub const PET_NPROC_PER_NODE: &str = "PET_NPROC_PER_NODE";
    /// torchrun: rank of the node.
    pub const PET_NODE_RANK: &str = "PET_NODE_RANK";
    /// torchrun: DNS name of node 0.
    pub const PET_MASTER_ADDR: &str = "PET_MASTER_ADDR";
    /// torchrun: rendezvous port of node 0.
    pub const PET_MASTER_PORT: &str = "PET_MASTER_PORT";
    /// All torchrun variables, in the order in which they are written.
    pub const TORCH: [&str; 5] =
        [PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT];

    /// OpenMPI: path of the hostfile.
    pub const OMPI_HOSTFILE: &str = "OMPI_MCA_orte_default_hostfile";
    /// OpenMPI: keep fully qualified host names.
    pub const OMPI_KEEP_FQDN: &str = "OMPI_MCA_orte_keep_fqdn_hostnames";
    /// OpenMPI: default number of slots.
    pub const OMPI_SLOTS: &str = "OMPI_MCA_orte_set_default_slots";
    /// OpenMPI: arguments of ssh.
    pub const OMPI_RSH_ARGS: &str = "OMPI_MCA_plm_rsh_args";
    /// All OpenMPI variables, in the order in which they are written.
    pub const OPEN_MPI: [&str; 4] = [OMPI_HOSTFILE, OMPI_KEEP_FQDN, OMPI_SLOTS, OMPI_RSH_ARGS];

    /// JAX: number of processes.
    pub const JAX_NUM_PROCESSES: &str = "JAX_NUM_PROCESSES";
    /// JAX: index of the process.
    pub const JAX_PROCESS_ID: &str = "JAX_PROCESS_ID";
    /// JAX: address of process 0.
    pub const JAX_COORDINATOR_ADDRESS: &str = "JAX_COORDINATOR_ADDRESS";

    /// XGBoost: DNS name of the tracker, on node 0.
    pub const DMLC_TRACKER_URI: &str = "DMLC_TRACKER_URI";
    /// XGBoost: port of the tracker.
    pub const DMLC_TRACKER_PORT: &str = "DMLC_TRACKER_PORT";
    /// XGBoost: index of the worker.
    pub const DMLC_TASK_ID: &str = "DMLC_TASK_ID";
    /// XGBoost: number of workers.
    pub const DMLC_NUM_WORKER: &str = "DMLC_NUM_WORKER";
    /// All XGBoost variables, in the order in which they are written.
    pub const XGBOOST: [&str; 4] = [DMLC_TRACKER_URI, DMLC_TRACKER_PORT, DMLC_TASK_ID, DMLC_NUM_WORKER];

    /// Initializers: URI to download from.
    pub const STORAGE_URI: &str = "STORAGE_URI";
}

/// Condition types of TrainJobs.
pub mod conditions {
    /// `True` while suspended, `False` after it was resumed.
    pub const SUSPENDED: &str = "Suspended";
    /// Terminal condition: training succeeded.
    pub const COMPLETE: &str = "Complete";
    /// Terminal condition: training failed.
    pub const FAILED: &str = "Failed";
}

/// Reasons of TrainJob conditions and events.
pub mod reasons {
    /// Condition and event: suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// Condition and event: resumed.
    pub const RESUMED: &str = "Resumed";
    /// Failed: `runtimeRef` names an unknown group or kind.
    pub const RUNTIME_NOT_SUPPORTED: &str = "TrainingRuntimeNotSupported";
    /// Failed: it was active for `activeDeadlineSeconds`.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Event: child objects could not be created.
    pub const CREATION_FAILED: &str = "TrainJobResourcesCreationFailed";
    /// Event: the TrainJob completed.
    pub const COMPLETED: &str = "Completed";
    /// Event: the TrainJob failed.
    pub const FAILED: &str = "Failed";
    /// Event: deleted after `ttlSecondsAfterFinished`.
    pub const TTL_EXPIRED: &str = "TTLExpired";
    /// Event: the delete after `ttlSecondsAfterFinished` was rejected.
    pub const TTL_DELETION_FAILED: &str = "TTLDeletionFailed";
}

/// Messages of TrainJob conditions and events.
pub mod messages {
    /// `Suspended` condition and event.
    pub const SUSPENDED: &str = "TrainJob is suspended";
    /// `Suspended` condition and event after a resume.
    pub const RESUMED: &str = "TrainJob is resumed";
    /// `Failed` condition after `activeDeadlineSeconds`.
    pub const DEADLINE_EXCEEDED: &str = "TrainJob exceeded its active deadline";

    /// Longest error in an event message, in characters; leaves room for the prefix within the limit of 1024.
    const ERROR_CHARS_MAX: usize = 950;
    /// Suffix of a truncated error.
    const CUT: &str = " ...";

    /// `Failed` condition of an unknown runtime.
    #[must_use]
    pub fn unsupported_runtime(kind: &str, group: &str) -> String {
        format!("unsupported runtime: {kind}.{group}")
    }

    /// Event: child objects could not be created, with the error.
    #[must_use]
    pub fn creation_failed(error: &str) -> String {
        let error = match error.char_indices().nth(ERROR_CHARS_MAX) {
            Some((end, _)) => format!("{}{CUT}", &error[..end]),
            None => error.to_owned(),
        };
        format!("TrainJob resources reconciliation failed: {error}")
    }

    /// Event: deleted after its TTL.
    #[must_use]
    pub fn ttl_expired(ttl_secs: u32) -> String {
        format!("TrainJob is deleted: it finished more than {ttl_secs} s ago")
    }

    /// Event: the delete after the TTL was rejected.
    #[must_use]
    pub fn ttl_deletion_failed(error: &str) -> String {
        format!("TrainJob could not be deleted after its time to live: {error}")
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_long_error_is_cut_between_characters() {
            assert_eq!(creation_failed("no"), "TrainJob resources reconciliation failed: no");
            let exact = "ä".repeat(ERROR_CHARS_MAX);
            assert!(creation_failed(&exact).ends_with('ä'));
            assert!(creation_failed(&format!("{exact}x")).ends_with("ä ..."));
        }
    }
}
