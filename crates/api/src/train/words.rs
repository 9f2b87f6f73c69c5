//! The words of training: keys, managers, names, condition types, reasons and messages.
//!
//! Each is spelled here and nowhere else. Messages with parts in them are functions.

use muster_tree::{Text, literal};

/// The group.
pub const GROUP: &str = "trainer.kubeflow.org";
/// The version.
pub const VERSION: &str = "v1alpha1";
/// The group and version of what is built here.
pub const API_VERSION: &str = "trainer.kubeflow.org/v1alpha1";

/// The word of TrainJobs.
pub const TRAIN_JOB: &str = "TrainJob";
/// The word of runtimes of a namespace.
pub const TRAINING_RUNTIME: &str = "TrainingRuntime";
/// The word of runtimes of the cluster.
pub const CLUSTER_TRAINING_RUNTIME: &str = "ClusterTrainingRuntime";

/// The value of `spec.managedBy` that means us.
pub const CONTROLLER: &str = "trainer.kubeflow.org/trainjob-controller";
/// The value of `spec.managedBy` that means a queue of another cluster.
pub const MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// The finalizer that earlier releases put on runtimes in use; it is only ever taken off.
pub const IN_USE: &str = "trainer.kubeflow.org/resource-in-use";

/// Who writes what a TrainJob is made into.
pub static MANAGER: Text = literal!("trainer");
/// Who writes what training tells of itself.
pub static STATUS_MANAGER: Text = literal!("trainer-status");
/// Who tells events.
pub static EVENTS_BY: Text = literal!("trainer-trainjob-controller");
/// What the teller of an event was doing.
pub static ACTION: Text = literal!("Reconciling");

/// The port of the node that others look for.
pub const TRAINER_PORT: u16 = 29_500;
/// What the name of a runtime's snapshot ends with.
pub const SNAPSHOT_SUFFIX: &str = "-runtime-snapshot";
/// The key of a runtime in its snapshot.
pub const SNAPSHOT_KEY: &str = "runtime";

/// Labels and annotations.
pub mod labels {
    /// Of a Job in a runtime: which step of training it is.
    pub const ANCESTOR: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
    /// Of a runtime: its framework; clients hide runtimes without one.
    pub const FRAMEWORK: &str = "trainer.kubeflow.org/framework";
    /// Of a runtime: whether it is still supported.
    pub const SUPPORT: &str = "trainer.kubeflow.org/support";
    /// The value of that which says that it will go.
    pub const DEPRECATED: &str = "deprecated";
    /// Of a runtime: whether it is looked at when it is written.
    pub const VALIDATION: &str = "trainer.kubeflow.org/webhook-validation";
    /// The value of that which says no.
    pub const DISABLED: &str = "disabled";
    /// Annotation of a JobSet: the queue of Volcano.
    pub const VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
}

/// Names of replicatedJobs and containers that mean something.
pub mod names {
    /// What trains; also the step's container.
    pub const NODE: &str = "node";
    /// What starts the others.
    pub const LAUNCHER: &str = "launcher";
    /// What fetches data: the step, its replicatedJob and its container.
    pub const DATASET_INITIALIZER: &str = "dataset-initializer";
    /// What fetches a model: the step, its replicatedJob and its container.
    pub const MODEL_INITIALIZER: &str = "model-initializer";
    /// The step that trains.
    pub const TRAINER: &str = "trainer";
    /// The volume into which things are fetched.
    pub const INITIALIZER_VOLUME: &str = "initializer";
    /// What puts Flux into place.
    pub const FLUX_INSTALLER: &str = "flux-installer";
}

/// Variables of the environment.
pub mod env {
    /// How many nodes.
    pub const PET_NNODES: &str = "PET_NNODES";
    /// How many processes on each node.
    pub const PET_NPROC_PER_NODE: &str = "PET_NPROC_PER_NODE";
    /// Which node.
    pub const PET_NODE_RANK: &str = "PET_NODE_RANK";
    /// Where the first node is.
    pub const PET_MASTER_ADDR: &str = "PET_MASTER_ADDR";
    /// Its port.
    pub const PET_MASTER_PORT: &str = "PET_MASTER_PORT";
    /// All of PyTorch, in the order in which they are written.
    pub const TORCH: [&str; 5] =
        [PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT];

    /// The file with all nodes.
    pub const OMPI_HOSTFILE: &str = "OMPI_MCA_orte_default_hostfile";
    /// Whether names of nodes are whole.
    pub const OMPI_KEEP_FQDN: &str = "OMPI_MCA_orte_keep_fqdn_hostnames";
    /// How many processes where nothing is said.
    pub const OMPI_SLOTS: &str = "OMPI_MCA_orte_set_default_slots";
    /// How nodes are reached.
    pub const OMPI_RSH_ARGS: &str = "OMPI_MCA_plm_rsh_args";
    /// All of OpenMPI, in the order in which they are written.
    pub const OPEN_MPI: [&str; 4] = [OMPI_HOSTFILE, OMPI_KEEP_FQDN, OMPI_SLOTS, OMPI_RSH_ARGS];

    /// How many processes.
    pub const JAX_NUM_PROCESSES: &str = "JAX_NUM_PROCESSES";
    /// Which process.
    pub const JAX_PROCESS_ID: &str = "JAX_PROCESS_ID";
    /// Where the first process is.
    pub const JAX_COORDINATOR_ADDRESS: &str = "JAX_COORDINATOR_ADDRESS";

    /// Where the first node is.
    pub const DMLC_TRACKER_URI: &str = "DMLC_TRACKER_URI";
    /// Its port.
    pub const DMLC_TRACKER_PORT: &str = "DMLC_TRACKER_PORT";
    /// Which worker.
    pub const DMLC_TASK_ID: &str = "DMLC_TASK_ID";
    /// How many workers.
    pub const DMLC_NUM_WORKER: &str = "DMLC_NUM_WORKER";
    /// All of XGBoost, in the order in which they are written.
    pub const XGBOOST: [&str; 4] = [DMLC_TRACKER_URI, DMLC_TRACKER_PORT, DMLC_TASK_ID, DMLC_NUM_WORKER];

    /// From where something is fetched.
    pub const STORAGE_URI: &str = "STORAGE_URI";
}

/// Condition types.
pub mod conditions {
    /// It is, or was, suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// It is done.
    pub const COMPLETE: &str = "Complete";
    /// It failed.
    pub const FAILED: &str = "Failed";
}

/// Reasons of conditions and events.
pub mod reasons {
    /// It is suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// It is not suspended any more.
    pub const RESUMED: &str = "Resumed";
    /// Nobody knows such runtimes.
    pub const RUNTIME_NOT_SUPPORTED: &str = "TrainingRuntimeNotSupported";
    /// It was active for too long.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Event: what it is made of could not be made.
    pub const CREATION_FAILED: &str = "TrainJobResourcesCreationFailed";
    /// Event: it is done.
    pub const COMPLETED: &str = "Completed";
    /// Event: it failed.
    pub const FAILED: &str = "Failed";
    /// Event: it is deleted since its time is over.
    pub const TTL_EXPIRED: &str = "TTLExpired";
    /// Event: it could not be deleted although its time is over.
    pub const TTL_DELETION_FAILED: &str = "TTLDeletionFailed";
}

/// Messages of conditions and events.
pub mod messages {
    /// It is suspended.
    pub const SUSPENDED: &str = "TrainJob is suspended";
    /// It is not suspended any more.
    pub const RESUMED: &str = "TrainJob is resumed";
    /// It was active for too long.
    pub const DEADLINE_EXCEEDED: &str = "TrainJob exceeded its active deadline";

    /// Most characters of an error in an event.
    const ERROR_CHARS_MAX: usize = 950;
    /// How an error ends that was cut.
    const CUT: &str = " ...";

    /// Nobody knows such runtimes.
    #[must_use]
    pub fn unsupported_runtime(kind: &str, group: &str) -> String {
        format!("unsupported runtime: {kind}.{group}")
    }

    /// What it is made of could not be made.
    #[must_use]
    pub fn creation_failed(error: &str) -> String {
        let error = match error.char_indices().nth(ERROR_CHARS_MAX) {
            Some((end, _)) => format!("{}{CUT}", &error[..end]),
            None => error.to_owned(),
        };
        format!("TrainJob resources reconciliation failed: {error}")
    }

    /// It is deleted since its time is over.
    #[must_use]
    pub fn ttl_expired(ttl_secs: u32) -> String {
        format!("TrainJob is deleted: it finished more than {ttl_secs} s ago")
    }

    /// It could not be deleted although its time is over.
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
