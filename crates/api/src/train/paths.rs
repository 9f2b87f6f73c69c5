//! Every field of the kinds of training that is read or written.
//!
//! What a runtime's template holds is a JobSet: below [`runtime::TEMPLATE_SPEC`] the tables of JobSets and of pods count.

use crate::paths::paths;

paths! {
    /// A TrainJob.
    train_job of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at [] {
        /// Which runtime it is made of.
        RUNTIME = "spec"."runtimeRef";
        /// The runtime's name.
        RUNTIME_NAME = "spec"."runtimeRef"."name";
        /// The runtime's group.
        RUNTIME_GROUP = "spec"."runtimeRef"."apiGroup";
        /// The runtime's kind.
        RUNTIME_KIND = "spec"."runtimeRef"."kind";
        /// What is fetched before training.
        INITIALIZER = "spec"."initializer";
        /// The data.
        DATASET = "spec"."initializer"."dataset";
        /// The model.
        MODEL = "spec"."initializer"."model";
        /// What trains.
        TRAINER = "spec"."trainer";
        /// What others change of the runtime.
        PATCHES = "spec"."runtimePatches";
        /// Whether nothing may run.
        SUSPEND = "spec"."suspend";
        /// For how long it may be active, in seconds.
        DEADLINE = "spec"."activeDeadlineSeconds";
        /// For how long it stays when finished, in seconds.
        TTL = "spec"."ttlSecondsAfterFinished";
        /// Who manages it.
        MANAGED_BY = "spec"."managedBy";
        /// Status.
        STATUS = "status";
    }
    /// What fetches data; what fetches a model is the same.
    initializer of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "initializer", "dataset"] {
        /// From where.
        STORAGE_URI = "storageUri";
        /// Environment.
        ENV = "env";
        /// The Secret with what is needed for it.
        SECRET = "secretRef"."name";
    }
    /// What trains.
    trainer of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "trainer"] {
        /// Image.
        IMAGE = "image";
        /// Program.
        COMMAND = "command";
        /// Arguments.
        ARGS = "args";
        /// Environment.
        ENV = "env";
        /// How many nodes.
        NODES = "numNodes";
        /// What each node needs.
        RESOURCES = "resourcesPerNode";
        /// How many processes on each node.
        PROCS = "numProcPerNode";
    }
    /// What somebody changes of the runtime.
    patch of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "runtimePatches", "[]"] {
        /// Who.
        MANAGER = "manager";
        /// When.
        TIME = "time";
        /// What.
        SPEC = "trainingRuntimeSpec";
        /// Labels of the JobSet.
        LABELS = "trainingRuntimeSpec"."template"."metadata"."labels";
        /// Annotations of the JobSet.
        ANNOTATIONS = "trainingRuntimeSpec"."template"."metadata"."annotations";
        /// The JobSet.
        TEMPLATE_SPEC = "trainingRuntimeSpec"."template"."spec";
        /// Its replicatedJobs.
        JOBS = "trainingRuntimeSpec"."template"."spec"."replicatedJobs";
    }
    /// What somebody changes of a replicatedJob.
    patch_job of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "runtimePatches", "[]", "trainingRuntimeSpec", "template", "spec", "replicatedJobs", "[]"] {
        /// Name.
        NAME = "name";
        /// Labels of the Job.
        JOB_LABELS = "template"."metadata"."labels";
        /// Annotations of the Job.
        JOB_ANNOTATIONS = "template"."metadata"."annotations";
        /// Labels of the pods.
        POD_LABELS = "template"."spec"."template"."metadata"."labels";
        /// Annotations of the pods.
        POD_ANNOTATIONS = "template"."spec"."template"."metadata"."annotations";
        /// The pods.
        POD_SPEC = "template"."spec"."template"."spec";
        /// Which nodes are good enough for them.
        NODE_SELECTOR = "template"."spec"."template"."spec"."nodeSelector";
        /// What they put up with, as a whole.
        TOLERATIONS = "template"."spec"."template"."spec"."tolerations";
        /// What holds them back.
        GATES = "template"."spec"."template"."spec"."schedulingGates";
        /// Their containers.
        CONTAINERS = "template"."spec"."template"."spec"."containers";
        /// What runs before those.
        INIT_CONTAINERS = "template"."spec"."template"."spec"."initContainers";
    }
    /// What somebody changes of a container.
    patch_container of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "runtimePatches", "[]", "trainingRuntimeSpec", "template", "spec", "replicatedJobs", "[]", "template", "spec", "template", "spec", "containers", "[]"] {
        /// Name.
        NAME = "name";
        /// Environment.
        ENV = "env";
        /// Volumes in it.
        MOUNTS = "volumeMounts";
    }
    /// The status of a TrainJob.
    status of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["status"] {
        /// Conditions.
        CONDITIONS = "conditions";
        /// Each replicatedJob.
        JOBS = "jobsStatus";
        /// What training tells of itself.
        TRAINER = "trainerStatus";
    }
    /// The status of a replicatedJob.
    job_status of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["status", "jobsStatus", "[]"] {
        /// Name.
        NAME = "name";
        /// Jobs whose pods are all ready or done.
        READY = "ready";
        /// Jobs that succeeded.
        SUCCEEDED = "succeeded";
        /// Jobs that failed.
        FAILED = "failed";
        /// Jobs with pods.
        ACTIVE = "active";
        /// Suspended Jobs.
        SUSPENDED = "suspended";
    }
    /// What training tells of itself.
    trainer_status of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["status", "trainerStatus"] {
        /// How much of it is done.
        PROGRESS = "progressPercentage";
        /// How long it will take, in seconds.
        REMAINING = "estimatedRemainingSeconds";
        /// Numbers with names.
        METRICS = "metrics";
        /// When it was told.
        UPDATED = "lastUpdatedTime";
    }
    /// A runtime; those of a namespace have the same fields.
    runtime of "trainer.kubeflow.org" "v1alpha1" "ClusterTrainingRuntime" at [] {
        /// How its pods find each other.
        ML_POLICY = "spec"."mlPolicy";
        /// How many nodes.
        NODES = "spec"."mlPolicy"."numNodes";
        /// As PyTorch does it.
        TORCH = "spec"."mlPolicy"."torch";
        /// Further containers that are told.
        TORCH_TARGETS = "spec"."mlPolicy"."torch"."envInjection"."targets";
        /// As MPI does it.
        MPI = "spec"."mlPolicy"."mpi";
        /// How many processes on each node.
        MPI_PROCS = "spec"."mlPolicy"."mpi"."numProcPerNode";
        /// Whose MPI.
        MPI_IMPLEMENTATION = "spec"."mlPolicy"."mpi"."mpiImplementation";
        /// Where keys are.
        MPI_SSH_PATH = "spec"."mlPolicy"."mpi"."sshAuthMountPath";
        /// Whether the launcher trains, too.
        MPI_LAUNCHER_AS_NODE = "spec"."mlPolicy"."mpi"."runLauncherAsNode";
        /// As JAX does it.
        JAX = "spec"."mlPolicy"."jax";
        /// As XGBoost does it.
        XGBOOST = "spec"."mlPolicy"."xgboost";
        /// As Flux does it.
        FLUX = "spec"."mlPolicy"."flux";
        /// How many processes on each node.
        FLUX_PROCS = "spec"."mlPolicy"."flux"."numProcPerNode";
        /// How its pods are placed together.
        GROUP_POLICY = "spec"."podGroupPolicy";
        /// By coscheduling.
        COSCHEDULING = "spec"."podGroupPolicy"."coscheduling";
        /// How long that waits.
        COSCHEDULING_TIMEOUT = "spec"."podGroupPolicy"."coscheduling"."scheduleTimeoutSeconds";
        /// By Volcano.
        VOLCANO = "spec"."podGroupPolicy"."volcano";
        /// How near to each other.
        VOLCANO_TOPOLOGY = "spec"."podGroupPolicy"."volcano"."networkTopology";
        /// By gangs of the scheduler itself.
        WORKLOAD = "spec"."podGroupPolicy"."workload";
        /// The JobSet, with its metadata.
        TEMPLATE = "spec"."template";
        /// Labels of the JobSet.
        TEMPLATE_LABELS = "spec"."template"."metadata"."labels";
        /// Annotations of the JobSet.
        TEMPLATE_ANNOTATIONS = "spec"."template"."metadata"."annotations";
        /// What the JobSet is.
        TEMPLATE_SPEC = "spec"."template"."spec";
        /// Its replicatedJobs.
        JOBS = "spec"."template"."spec"."replicatedJobs";
    }
    /// A container that is told how to find the others.
    env_target of "trainer.kubeflow.org" "v1alpha1" "ClusterTrainingRuntime" at ["spec", "mlPolicy", "torch", "envInjection", "targets", "[]"] {
        /// Of which replicatedJob.
        JOB = "jobName";
        /// Which ones.
        CONTAINERS = "containerNames";
    }
}
