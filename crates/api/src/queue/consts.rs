//! Wire constants of the Kueue API: keys, field managers, condition types, reasons and messages.
//!
//! Each value is Kueue's and spelled here and nowhere else. Messages with parameters are functions.

/// API group of Kueue.
pub const GROUP: &str = "kueue.x-k8s.io";
/// Storage version; everything in [`crate::queue`] reads and builds this one.
pub const VERSION: &str = "v1beta2";
/// The previous version, served by conversion.
pub const OLD_VERSION: &str = "v1beta1";
/// `apiVersion` in the storage version.
pub const API_VERSION: &str = "kueue.x-k8s.io/v1beta2";
/// `apiVersion` in the previous version.
pub const OLD_API_VERSION: &str = "kueue.x-k8s.io/v1beta1";
/// API group of the visibility API (pending workloads).
pub const VISIBILITY_GROUP: &str = "visibility.kueue.x-k8s.io";
/// API group of Muster's explanations of pending Workloads.
pub const EXPLANATION_GROUP: &str = "visibility.muster.dev";
/// The only version of [`EXPLANATION_GROUP`].
pub const EXPLANATION_VERSION: &str = "v1alpha1";
/// Kind of an explanation.
pub const EXPLANATION: &str = "Explanation";
/// API group of PriorityClass.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// `kind` of a Workload object.
pub const WORKLOAD: &str = "Workload";
/// `kind` of a ClusterQueue object.
pub const CLUSTER_QUEUE: &str = "ClusterQueue";
/// `kind` of a LocalQueue object.
pub const LOCAL_QUEUE: &str = "LocalQueue";
/// `kind` of a Cohort object.
pub const COHORT: &str = "Cohort";
/// `kind` of a ResourceFlavor object.
pub const RESOURCE_FLAVOR: &str = "ResourceFlavor";
/// `kind` of an AdmissionCheck object.
pub const ADMISSION_CHECK: &str = "AdmissionCheck";
/// `kind` of a WorkloadPriorityClass object.
pub const WORKLOAD_PRIORITY_CLASS: &str = "WorkloadPriorityClass";
/// `kind` of a PriorityClass object.
pub const PRIORITY_CLASS: &str = "PriorityClass";

/// `apiVersion` of Kueue's configuration file, the previous version.
pub const CONFIG_V1BETA1: &str = "config.kueue.x-k8s.io/v1beta1";
/// `apiVersion` of Kueue's configuration file; Muster's own file has the keys of this version.
pub const CONFIG_V1BETA2: &str = "config.kueue.x-k8s.io/v1beta2";
/// `spec.priorityClassSource` of a Workload whose priority is a WorkloadPriorityClass.
pub const WORKLOAD_PRIORITY_SOURCE: &str = "kueue.x-k8s.io/workloadpriorityclass";
/// `spec.priorityClassSource` of a Workload whose priority is a PriorityClass.
pub const POD_PRIORITY_SOURCE: &str = "scheduling.k8s.io/priorityclass";
/// JobSet in `integrations.frameworks`.
pub const JOBSET_INTEGRATION: &str = "jobset.x-k8s.io/jobset";
/// TrainJob in `integrations.frameworks`.
pub const TRAINJOB_INTEGRATION: &str = "trainer.kubeflow.org/trainjob";

/// Name of the default LocalQueue and of the default WorkloadPriorityClass.
pub const DEFAULT: &str = "default";
/// Default name of a pod set.
pub const MAIN: &str = "main";
/// The resource name that counts pods against quota.
pub const PODS: &str = "pods";
/// Value of flag labels and annotations.
pub const TRUE: &str = "true";
/// Value that unsets a flag.
pub const FALSE: &str = "false";

/// Label keys of Kueue.
pub mod labels {
    /// Name of the LocalQueue.
    pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";
    /// Marks a pod that Kueue manages; `true` is the only valid value.
    pub const MANAGED: &str = "kueue.x-k8s.io/managed";
    /// Name of the pod group; an annotation of the same key takes precedence.
    pub const POD_GROUP_NAME: &str = "kueue.x-k8s.io/pod-group-name";
    /// Role of the pod within its pod group.
    pub const POD_GROUP_ROLE: &str = "kueue.x-k8s.io/pod-group-role";
    /// Index of the pod within its pod group.
    pub const POD_GROUP_POD_INDEX: &str = "kueue.x-k8s.io/pod-group-pod-index";
    /// Name of a prebuilt Workload; also an annotation.
    pub const PREBUILT_WORKLOAD: &str = "kueue.x-k8s.io/prebuilt-workload-name";
    /// `maximumExecutionTimeSeconds` of the Workload to create.
    pub const MAX_EXEC_SECONDS: &str = "kueue.x-k8s.io/max-exec-time-seconds";
    /// Name of the WorkloadPriorityClass.
    pub const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
    /// On admitted pods: name of the pod set.
    pub const PODSET: &str = "kueue.x-k8s.io/podset";
    /// On admitted pods: name of the LocalQueue.
    pub const LOCAL_QUEUE: &str = "kueue.x-k8s.io/local-queue-name";
    /// On admitted pods: name of the ClusterQueue, if it is a valid label value.
    pub const CLUSTER_QUEUE: &str = "kueue.x-k8s.io/cluster-queue-name";
    /// On Workloads: UID of the owner.
    pub const JOB_UID: &str = "kueue.x-k8s.io/job-uid";
}

/// Annotation keys of Kueue.
pub mod annotations {
    /// Number of pods of the pod group.
    pub const POD_GROUP_TOTAL_COUNT: &str = "kueue.x-k8s.io/pod-group-total-count";
    /// Number of pods of the pod group, in the spelling of the proposal.
    pub const POD_GROUP_COUNT: &str = "kueue.x-k8s.io/pod-group-count";
    /// Number of roles of the pod group.
    pub const POD_GROUP_ROLES: &str = "kueue.x-k8s.io/pod-group-roles";
    /// Number of pods of this pod's role.
    pub const POD_GROUP_ROLE_COUNT: &str = "kueue.x-k8s.io/pod-group-role-count";
    /// A second spelling of [`POD_GROUP_ROLE_COUNT`] in the proposal.
    pub const POD_GROUP_ROLE_COUNT_ALIAS: &str = "kueue.k8s.io/pod-group-role-count";
    /// Declared pod sets of the pod group.
    pub const POD_GROUP_SETS: &str = "kueue.x-k8s.io/pod-group-sets";
    /// Hash of the pod's scheduling-relevant fields; pods with equal hashes form one pod set.
    pub const ROLE_HASH: &str = "kueue.x-k8s.io/role-hash";
    /// The Workload is created from the first pod, before the others exist.
    pub const FAST_ADMISSION: &str = "kueue.x-k8s.io/pod-group-fast-admission";
    /// The pod group serves and never finishes.
    pub const SERVING: &str = "kueue.x-k8s.io/pod-group-serving";
    /// Whether failed pods may be replaced.
    pub const RETRIABLE_IN_GROUP: &str = "kueue.x-k8s.io/retriable-in-group";
    /// On Workloads: created for a pod group.
    pub const IS_GROUP_WORKLOAD: &str = "kueue.x-k8s.io/is-group-workload";
    /// Name of the integration that gated the pod.
    pub const SUSPENDING_PARENT: &str = "kueue.x-k8s.io/pod-suspending-parent";
    /// Key of the label that holds the pod index.
    pub const POD_INDEX_LABEL: &str = "kueue.x-k8s.io/pod-group-pod-index-label";
    /// Names of external admission gates, separated by commas.
    pub const ADMISSION_GATED_BY: &str = "kueue.x-k8s.io/admission-gated-by";
    /// On admitted pods: name of the Workload.
    pub const WORKLOAD: &str = "kueue.x-k8s.io/workload";
    /// Prefix of annotations that are parameters of a ProvisioningRequest.
    pub const PROVISIONING_PREFIX: &str = "provreq.kueue.x-k8s.io/";
    /// The Job is being suspended.
    pub const STOPPING: &str = "kueue.x-k8s.io/stopping";
    /// Smallest parallelism of a Job, for partial admission.
    pub const JOB_MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
    /// `completions` follows `parallelism` in partial admission.
    pub const JOB_COMPLETIONS_EQUAL_PARALLELISM: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";
    /// Added to the priority of the Workload.
    pub const PRIORITY_BOOST: &str = "kueue.x-k8s.io/priority-boost";
    /// The Job may be resized while admitted.
    pub const ELASTIC_JOB: &str = "kueue.x-k8s.io/elastic-job";
    /// All pods in one domain of this topology level.
    pub const TOPOLOGY_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
    /// All pods in one domain of this topology level if possible.
    pub const TOPOLOGY_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
    /// Any domains, with per-node capacity accounting.
    pub const TOPOLOGY_UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
    /// Each slice of pods in one domain of this topology level.
    pub const SLICE_REQUIRED: &str = "kueue.x-k8s.io/podset-slice-required-topology";
    /// Number of pods of a slice.
    pub const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
}

/// Scheduling gates that Kueue adds to pods.
pub mod gates {
    /// Removed when the Workload is admitted.
    pub const ADMISSION: &str = "kueue.x-k8s.io/admission";
    /// Removed when the topology is assigned.
    pub const TOPOLOGY: &str = "kueue.x-k8s.io/topology";
}

/// Finalizers that Kueue sets.
pub mod finalizers {
    /// On managed pods: blocks deletion until the pod is accounted for in its Workload.
    pub const POD: &str = "kueue.x-k8s.io/managed";
    /// On Workloads, ResourceFlavors and queues: blocks deletion while they are in use.
    pub const IN_USE: &str = "kueue.x-k8s.io/resource-in-use";
}

/// Field managers and event sources.
pub mod managers {
    use muster_tree::{Text, literal};

    /// Owns the admission fields of a Workload's status; see [`AdmissionStatus`](crate::queue::AdmissionStatus).
    pub static ADMISSION: Text = literal!("kueue-admission");
    /// Owns `reclaimablePods` of a Workload's status.
    pub static RECLAIMABLE: Text = literal!("kueue-reclaimable-pods");
    /// Owns the conditions about the pods of a pod group.
    pub static PODS: Text = literal!("kueue-pod-controller");
    /// Everything else: suspend, gates, finalizers, Workload specs.
    pub static KUEUE: Text = literal!("kueue");
    /// `manager` of the runtime patch by which admission sets the pods' scheduling fields of a TrainJob.
    pub const RUNTIME_PATCH: &str = "kueue.x-k8s.io/manager";
    /// Event source for jobs and pods.
    pub static JOB_EVENTS: Text = literal!("kueue-job-controller");
    /// Event source for admission.
    pub static ADMISSION_EVENTS: Text = literal!("kueue-admission");
    /// Event source for Workloads.
    pub static WORKLOAD_EVENTS: Text = literal!("kueue-workload-controller");
}

/// Condition types of Kueue.
pub mod conditions {
    /// Workload: quota is reserved in a ClusterQueue.
    pub const QUOTA_RESERVED: &str = "QuotaReserved";
    /// Workload: quota is reserved and all admission checks are `Ready`.
    pub const ADMITTED: &str = "Admitted";
    /// Workload: terminal, with the reason of the end.
    pub const FINISHED: &str = "Finished";
    /// Workload: all pods are ready or succeeded.
    pub const PODS_READY: &str = "PodsReady";
    /// Workload: evicted; its quota is released once its job is suspended.
    pub const EVICTED: &str = "Evicted";
    /// Workload: evicted by preemption.
    pub const PREEMPTED: &str = "Preempted";
    /// Workload: may be queued again after an eviction.
    pub const REQUEUED: &str = "Requeued";
    /// Workload: about to be deactivated.
    pub const DEACTIVATION_TARGET: &str = "DeactivationTarget";
    /// Workload: blocked by preemption gates.
    pub const BLOCKED_ON_PREEMPTION_GATES: &str = "BlockedOnPreemptionGates";
    /// Workload of a pod group: failed pods have no replacement yet.
    pub const WAITING_FOR_REPLACEMENT_PODS: &str = "WaitingForReplacementPods";
    /// Pod: terminated by Kueue.
    pub const TERMINATION_TARGET: &str = "TerminationTarget";
    /// ClusterQueue, LocalQueue and AdmissionCheck: usable.
    pub const ACTIVE: &str = "Active";

    /// The types owned by [`managers::ADMISSION`](super::managers::ADMISSION); every other type has its own field manager.
    pub const OF_ADMISSION: &[&str] = &[
        QUOTA_RESERVED,
        ADMITTED,
        EVICTED,
        PREEMPTED,
        REQUEUED,
        DEACTIVATION_TARGET,
        FINISHED,
        PODS_READY,
        BLOCKED_ON_PREEMPTION_GATES,
    ];
}

/// Reasons of conditions and events of Kueue.
pub mod reasons {
    /// `QuotaReserved` condition and event.
    pub const QUOTA_RESERVED: &str = "QuotaReserved";
    /// `Admitted` condition and event.
    pub const ADMITTED: &str = "Admitted";
    /// Not admitted: no quota is reserved.
    pub const NO_RESERVATION: &str = "NoReservation";
    /// Not admitted: an admission check is not `Ready`.
    pub const UNSATISFIED_CHECKS: &str = "UnsatisfiedAdmissionChecks";
    /// Not admitted: the topology assignment is still pending.
    pub const PENDING_TOPOLOGY: &str = "PendingDelayedTopologyRequests";
    /// The reason for [`NO_RESERVATION`] in `v1beta1`.
    pub const OLD_NO_RESERVATION: &str = "NoReservationUnsatisfiedChecks";
    /// The reason for [`UNSATISFIED_CHECKS`] in `v1beta1`.
    pub const OLD_UNSATISFIED_CHECKS: &str = "UnsatisfiedChecks";

    /// Finished: the job succeeded.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Finished: the job failed.
    pub const FAILED: &str = "Failed";
    /// Finished: a prebuilt Workload does not match its job.
    pub const OUT_OF_SYNC: &str = "OutOfSync";
    /// Finished: the owner was deleted.
    pub const OWNER_NOT_FOUND: &str = "OwnerNotFound";
    /// Finished: the job could not be started.
    pub const FAILED_TO_START: &str = "FailedToStart";
    /// Finished: replaced by a newer workload slice.
    pub const SLICE_REPLACED: &str = "WorkloadSliceReplaced";

    /// `PodsReady`: all pods are ready for the first time.
    pub const STARTED: &str = "Started";
    /// `PodsReady`: all pods are ready again after a failure.
    pub const RECOVERED: &str = "Recovered";
    /// `PodsReady`: pods have not been ready yet.
    pub const WAIT_FOR_START: &str = "WaitForStart";
    /// `PodsReady`: a pod stopped being ready.
    pub const WAIT_FOR_RECOVERY: &str = "WaitForRecovery";

    /// Evicted: preempted by another Workload.
    pub const PREEMPTED: &str = "Preempted";
    /// Evicted: its pods were not ready within `waitForPodsReady.timeout`.
    pub const PODS_READY_TIMEOUT: &str = "PodsReadyTimeout";
    /// Evicted: an admission check answered `Retry` or `Rejected`.
    pub const ADMISSION_CHECK: &str = "AdmissionCheck";
    /// Evicted: the ClusterQueue has stop policy `HoldAndDrain`.
    pub const CLUSTER_QUEUE_STOPPED: &str = "ClusterQueueStopped";
    /// Evicted: the LocalQueue has stop policy `HoldAndDrain`.
    pub const LOCAL_QUEUE_STOPPED: &str = "LocalQueueStopped";
    /// Evicted: nodes of the topology assignment failed.
    pub const NODE_FAILURES: &str = "NodeFailures";
    /// Evicted: `spec.active` was set to false.
    pub const DEACTIVATED: &str = "Deactivated";
    /// Prefix of the eviction reason when a controller deactivated the Workload.
    pub const DEACTIVATED_DUE_TO: &str = "DeactivatedDueTo";
    /// Prefix of the reasons of eviction events.
    pub const EVICTED_DUE_TO: &str = "EvictedDueTo";
    /// Prefix of the `TerminationTarget` reason of pods of an evicted Workload.
    pub const WORKLOAD_EVICTED_DUE_TO: &str = "WorkloadEvictedDueTo";

    /// Preempted within the ClusterQueue.
    pub const IN_CLUSTER_QUEUE: &str = "InClusterQueue";
    /// Preempted by a ClusterQueue that reclaims its nominal quota.
    pub const IN_COHORT_RECLAMATION: &str = "InCohortReclamation";
    /// Preempted by fair sharing.
    pub const IN_COHORT_FAIR_SHARING: &str = "InCohortFairSharing";
    /// Preempted by a ClusterQueue that borrows.
    pub const IN_COHORT_RECLAIM_WHILE_BORROWING: &str = "InCohortReclaimWhileBorrowing";

    /// Requeued: the backoff finished.
    pub const BACKOFF_FINISHED: &str = "BackoffFinished";
    /// Requeued: `spec.active` was set to true.
    pub const REACTIVATED: &str = "Reactivated";
    /// Requeued: the ClusterQueue was restarted.
    pub const CLUSTER_QUEUE_RESTARTED: &str = "ClusterQueueRestarted";
    /// Requeued: the LocalQueue was restarted.
    pub const LOCAL_QUEUE_RESTARTED: &str = "LocalQueueRestarted";
    /// Not requeued: inadmissible until its queue or quota changes.
    pub const INADMISSIBLE: &str = "Inadmissible";

    /// Deactivated: too many requeues.
    pub const REQUEUING_LIMIT_EXCEEDED: &str = "RequeuingLimitExceeded";
    /// Deactivated: it ran for `maximumExecutionTimeSeconds`.
    pub const MAX_EXEC_EXCEEDED: &str = "MaximumExecutionTimeExceeded";

    /// Pending: a referenced object is missing or invalid.
    pub const MISCONFIGURED: &str = "Misconfigured";
    /// Pending: the queue is stopped.
    pub const SUSPENDED: &str = "Suspended";
    /// Pending: external admission gates.
    pub const ADMISSION_GATED: &str = "AdmissionGated";
    /// Pending: no ResourceFlavor matches.
    pub const NO_MATCHING_FLAVOR: &str = "NoMatchingFlavor";
    /// Pending: the request exceeds the quota that can ever be available.
    pub const EXCEEDS_MAX_QUOTA: &str = "ExceedsMaxQuota";
    /// Pending: the quota is in use.
    pub const WAITING_FOR_QUOTA: &str = "WaitingForQuota";
    /// Pending: no topology domain fits all pods.
    pub const TOPOLOGY_PLACEMENT_FAILED: &str = "TopologyPlacementFailed";
    /// Pending: preempted Workloads have not released their quota yet.
    pub const WAITING_FOR_PREEMPTED: &str = "WaitingForPreemptedWorkloads";
    /// Pending: admission is blocked until the pods of admitted Workloads are ready.
    pub const WAITING_FOR_PODS_READY: &str = "WaitingForPodsReady";
    /// Pending: no scheduling cycle has evaluated it.
    pub const PENDING_EVALUATION: &str = "PendingEvaluation";
    /// Pending: the Workload is on hold.
    pub const ON_HOLD: &str = "OnHold";
    /// Most pending reasons in `v1beta1`.
    pub const PENDING: &str = "Pending";
    /// The reason for [`WAITING_FOR_PODS_READY`] in `v1beta1`.
    pub const WAITING: &str = "Waiting";

    /// Queues and AdmissionChecks: active.
    pub const READY: &str = "Ready";
    /// ClusterQueue: it is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// Queues: stopped by `stopPolicy`.
    pub const STOPPED: &str = "Stopped";
    /// ClusterQueue: a ResourceFlavor does not exist.
    pub const FLAVOR_NOT_FOUND: &str = "FlavorNotFound";
    /// ClusterQueue: an AdmissionCheck does not exist.
    pub const CHECK_NOT_FOUND: &str = "AdmissionCheckNotFound";
    /// ClusterQueue: an AdmissionCheck is not active.
    pub const CHECK_INACTIVE: &str = "AdmissionCheckInactive";
    /// ClusterQueue: a Topology does not exist.
    pub const TOPOLOGY_NOT_FOUND: &str = "TopologyNotFound";
    /// ClusterQueue: inactive for another reason.
    pub const UNKNOWN: &str = "Unknown";
    /// LocalQueue: the ClusterQueue does not exist.
    pub const CLUSTER_QUEUE_MISSING: &str = "ClusterQueueDoesNotExist";
    /// LocalQueue: the ClusterQueue is not active.
    pub const CLUSTER_QUEUE_INACTIVE: &str = "ClusterQueueIsInactive";

    /// Pod group: failed pods need a replacement.
    pub const PODS_FAILED: &str = "PodsFailed";
    /// Pod group: no replacement is needed.
    pub const PODS_READY: &str = "PodsReady";

    /// Job suspended: its Workload was deleted.
    pub const WORKLOAD_DELETED: &str = "WorkloadDeleted";
    /// Job suspended: no Workload matches it.
    pub const NO_MATCHING_WORKLOAD: &str = "NoMatchingWorkload";
    /// Job suspended: its Workload is not admitted.
    pub const NOT_ADMITTED: &str = "NotAdmitted";

    /// Event: a Workload was created.
    pub const CREATED_WORKLOAD: &str = "CreatedWorkload";
    /// Event: the Workload was replaced.
    pub const UPDATED_WORKLOAD: &str = "UpdatedWorkload";
    /// Event: a Workload was deleted.
    pub const DELETED_WORKLOAD: &str = "DeletedWorkload";
    /// Event: the Workload finished.
    pub const FINISHED_WORKLOAD: &str = "FinishedWorkload";
    /// Event: the Workload could not be composed.
    pub const ERR_WORKLOAD_COMPOSE: &str = "ErrWorkloadCompose";
    /// Event: a Workload of this name has another owner.
    pub const WORKLOAD_NAME_CONFLICT: &str = "WorkloadNameConflict";
    /// Event: pods were added to the Workload's owner references.
    pub const OWNERS_ADDED: &str = "OwnerReferencesAdded";
    /// Event: an excess pod of the group was deleted.
    pub const EXCESS_POD_DELETED: &str = "ExcessPodDeleted";
    /// Event: admission checks changed state.
    pub const UPDATED_CHECK: &str = "UpdatedAdmissionCheck";
    /// Event: the chain of owners is too long.
    pub const NESTING_TOO_DEEP: &str = "JobNestingTooDeep";
    /// Event: the WorkloadPriorityClass does not exist.
    pub const PRIORITY_CLASS_NOT_FOUND: &str = "WorkloadPriorityClassNotFound";
    /// Event: an admission check answered `Rejected`.
    pub const CHECK_REJECTED: &str = "AdmissionCheckRejected";
    /// Event: it preempted other Workloads.
    pub const PREEMPTED_WORKLOAD: &str = "PreemptedWorkload";
    /// Event: deleted by retention.
    pub const DELETED: &str = "Deleted";
}

/// Messages of conditions and events of Kueue.
pub mod messages {
    /// `Admitted` condition that is `True`.
    pub const ADMITTED: &str = "The workload is admitted";
    /// `Admitted` condition without a quota reservation.
    pub const NO_RESERVATION: &str = "The workload has no reservation";
    /// `Admitted` condition with an admission check that is not `Ready`.
    pub const UNSATISFIED_CHECKS: &str = "The workload has not all checks ready";
    /// `Admitted` condition with a pending topology assignment.
    pub const PENDING_TOPOLOGY: &str = "There are pending delayed topology requests";
    /// Pending before the first scheduling cycle.
    pub const PENDING_EVALUATION: &str = "Workload is pending evaluation in the scheduling queue";
    /// `Evicted` condition after `spec.active` was set to false.
    pub const DEACTIVATED: &str = "The workload is deactivated";
    /// `Requeued` condition after `spec.active` was set to true.
    pub const REACTIVATED: &str = "The workload was reactivated";
    /// `Requeued` condition after the backoff.
    pub const BACKOFF_FINISHED: &str = "The workload backoff was finished";
    /// `Evicted` and pending while the ClusterQueue is stopped.
    pub const CLUSTER_QUEUE_STOPPED: &str = "The ClusterQueue is stopped";
    /// `Evicted` and pending while the LocalQueue is stopped.
    pub const LOCAL_QUEUE_STOPPED: &str = "The LocalQueue is stopped";
    /// `Requeued` condition after the ClusterQueue was restarted.
    pub const CLUSTER_QUEUE_RESTARTED: &str = "The ClusterQueue was restarted after being stopped";
    /// `Requeued` condition after the LocalQueue was restarted.
    pub const LOCAL_QUEUE_RESTARTED: &str = "The LocalQueue was restarted after being stopped";
    /// `Finished` condition without an owner.
    pub const OWNER_NOT_FOUND: &str = "The workload's owner no longer exists";
    /// `Finished` condition of a prebuilt Workload that does not match its job.
    pub const OUT_OF_SYNC: &str = "The prebuilt workload is out of sync with its user job";
    /// `PodsReady` condition before all pods are ready.
    pub const PODS_NOT_READY: &str = "Not all pods are ready or succeeded";
    /// `PodsReady` condition with all pods ready.
    pub const PODS_READY: &str = "All pods reached readiness and the workload is running";
    /// `PodsReady` condition after a pod failed.
    pub const PODS_LOST: &str = "At least one pod has failed, waiting for recovery";
    /// `Active` condition of a ClusterQueue.
    pub const CAN_ADMIT: &str = "Can admit new workloads";
    /// `Active` condition of a ClusterQueue that is being deleted.
    pub const TERMINATING: &str = "Can't admit new workloads; clusterQueue is terminating";
    /// `Active` condition of a LocalQueue.
    pub const CAN_SUBMIT: &str = "Can submit new workloads to localQueue";
    /// `Active` condition of a LocalQueue with an inactive ClusterQueue.
    pub const CANNOT_SUBMIT: &str = "Can't submit new workloads to clusterQueue";
    /// `Active` condition of a stopped LocalQueue.
    pub const LOCAL_QUEUE_IS_STOPPED: &str = "LocalQueue is stopped";
    /// Message while `WaitingForReplacementPods` is `True`.
    pub const PODS_FAILED: &str = "Some Failed pods need replacement";
    /// Message while `WaitingForReplacementPods` is `False`.
    pub const NO_PODS_NEEDED: &str = "No pods need replacement";

    /// `QuotaReserved` condition that is `True`.
    #[must_use]
    pub fn quota_reserved(cluster_queue: &str) -> String {
        format!("Quota reserved in ClusterQueue {cluster_queue}")
    }

    /// Message of a condition that was reset to `False`: quotes the previous message.
    #[must_use]
    pub fn previously(old: &str) -> String {
        format!("Previously: {old}")
    }
}
