//! Field paths of the Kubeflow Trainer API.
//!
//! The template of a runtime is a JobSet: below [`runtime::TEMPLATE_SPEC`], use the tables of JobSets and pods.

use crate::paths::paths;

paths! {
    train_job of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at [] {
        RUNTIME = "spec"."runtimeRef";
        RUNTIME_NAME = "spec"."runtimeRef"."name";
        RUNTIME_GROUP = "spec"."runtimeRef"."apiGroup";
        RUNTIME_KIND = "spec"."runtimeRef"."kind";
        INITIALIZER = "spec"."initializer";
        DATASET = "spec"."initializer"."dataset";
        MODEL = "spec"."initializer"."model";
        TRAINER = "spec"."trainer";
        PATCHES = "spec"."runtimePatches";
        SUSPEND = "spec"."suspend";
        DEADLINE = "spec"."activeDeadlineSeconds";
        TTL = "spec"."ttlSecondsAfterFinished";
        MANAGED_BY = "spec"."managedBy";
        STATUS = "status";
    }
    /// The dataset initializer; the model initializer has the same fields.
    initializer of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "initializer", "dataset"] {
        STORAGE_URI = "storageUri";
        ENV = "env";
        SECRET = "secretRef"."name";
    }
    trainer of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "trainer"] {
        IMAGE = "image";
        COMMAND = "command";
        ARGS = "args";
        ENV = "env";
        NODES = "numNodes";
        RESOURCES = "resourcesPerNode";
        PROCS = "numProcPerNode";
    }
    patch of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "runtimePatches", "[]"] {
        MANAGER = "manager";
        TIME = "time";
        SPEC = "trainingRuntimeSpec";
        LABELS = "trainingRuntimeSpec"."template"."metadata"."labels";
        ANNOTATIONS = "trainingRuntimeSpec"."template"."metadata"."annotations";
        TEMPLATE_SPEC = "trainingRuntimeSpec"."template"."spec";
        JOBS = "trainingRuntimeSpec"."template"."spec"."replicatedJobs";
    }
    patch_job of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "runtimePatches", "[]", "trainingRuntimeSpec", "template", "spec", "replicatedJobs", "[]"] {
        NAME = "name";
        JOB_LABELS = "template"."metadata"."labels";
        JOB_ANNOTATIONS = "template"."metadata"."annotations";
        POD_LABELS = "template"."spec"."template"."metadata"."labels";
        POD_ANNOTATIONS = "template"."spec"."template"."metadata"."annotations";
        POD_SPEC = "template"."spec"."template"."spec";
        NODE_SELECTOR = "template"."spec"."template"."spec"."nodeSelector";
        TOLERATIONS = "template"."spec"."template"."spec"."tolerations";
        GATES = "template"."spec"."template"."spec"."schedulingGates";
        CONTAINERS = "template"."spec"."template"."spec"."containers";
        INIT_CONTAINERS = "template"."spec"."template"."spec"."initContainers";
    }
    patch_container of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["spec", "runtimePatches", "[]", "trainingRuntimeSpec", "template", "spec", "replicatedJobs", "[]", "template", "spec", "template", "spec", "containers", "[]"] {
        NAME = "name";
        ENV = "env";
        MOUNTS = "volumeMounts";
    }
    status of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["status"] {
        CONDITIONS = "conditions";
        JOBS = "jobsStatus";
        TRAINER = "trainerStatus";
    }
    job_status of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["status", "jobsStatus", "[]"] {
        NAME = "name";
        READY = "ready";
        SUCCEEDED = "succeeded";
        FAILED = "failed";
        ACTIVE = "active";
        SUSPENDED = "suspended";
    }
    trainer_status of "trainer.kubeflow.org" "v1alpha1" "TrainJob" at ["status", "trainerStatus"] {
        PROGRESS = "progressPercentage";
        REMAINING = "estimatedRemainingSeconds";
        METRICS = "metrics";
        UPDATED = "lastUpdatedTime";
    }
    /// A runtime; a TrainingRuntime has the same fields.
    runtime of "trainer.kubeflow.org" "v1alpha1" "ClusterTrainingRuntime" at [] {
        ML_POLICY = "spec"."mlPolicy";
        NODES = "spec"."mlPolicy"."numNodes";
        TORCH = "spec"."mlPolicy"."torch";
        TORCH_TARGETS = "spec"."mlPolicy"."torch"."envInjection"."targets";
        MPI = "spec"."mlPolicy"."mpi";
        MPI_PROCS = "spec"."mlPolicy"."mpi"."numProcPerNode";
        MPI_IMPLEMENTATION = "spec"."mlPolicy"."mpi"."mpiImplementation";
        MPI_SSH_PATH = "spec"."mlPolicy"."mpi"."sshAuthMountPath";
        MPI_LAUNCHER_AS_NODE = "spec"."mlPolicy"."mpi"."runLauncherAsNode";
        JAX = "spec"."mlPolicy"."jax";
        XGBOOST = "spec"."mlPolicy"."xgboost";
        FLUX = "spec"."mlPolicy"."flux";
        FLUX_PROCS = "spec"."mlPolicy"."flux"."numProcPerNode";
        GROUP_POLICY = "spec"."podGroupPolicy";
        COSCHEDULING = "spec"."podGroupPolicy"."coscheduling";
        COSCHEDULING_TIMEOUT = "spec"."podGroupPolicy"."coscheduling"."scheduleTimeoutSeconds";
        VOLCANO = "spec"."podGroupPolicy"."volcano";
        VOLCANO_TOPOLOGY = "spec"."podGroupPolicy"."volcano"."networkTopology";
        WORKLOAD = "spec"."podGroupPolicy"."workload";
        TEMPLATE = "spec"."template";
        TEMPLATE_LABELS = "spec"."template"."metadata"."labels";
        TEMPLATE_ANNOTATIONS = "spec"."template"."metadata"."annotations";
        TEMPLATE_SPEC = "spec"."template"."spec";
        JOBS = "spec"."template"."spec"."replicatedJobs";
    }
    env_target of "trainer.kubeflow.org" "v1alpha1" "ClusterTrainingRuntime" at ["spec", "mlPolicy", "torch", "envInjection", "targets", "[]"] {
        JOB = "jobName";
        CONTAINERS = "containerNames";
    }
}
