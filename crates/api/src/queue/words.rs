//! The words of queueing: keys, managers, condition types, reasons and messages.
//!
//! Each is spelled here and nowhere else. Messages with parts in them are functions.

/// The group.
pub const GROUP: &str = "kueue.x-k8s.io";
/// The version that is stored, and that all readers and builders here speak.
pub const VERSION: &str = "v1beta2";
/// The version before it, which is served too.
pub const OLD_VERSION: &str = "v1beta1";
/// The group and version of what is built here.
pub const API_VERSION: &str = "kueue.x-k8s.io/v1beta2";
/// The same of the version before it.
pub const OLD_API_VERSION: &str = "kueue.x-k8s.io/v1beta1";
/// The group in which queues tell who waits.
pub const VISIBILITY_GROUP: &str = "visibility.kueue.x-k8s.io";
/// The group in which waiting is explained.
pub const EXPLANATION_GROUP: &str = "visibility.muster.dev";
/// Its version.
pub const EXPLANATION_VERSION: &str = "v1alpha1";
/// The kind of an explanation.
pub const EXPLANATION: &str = "Explanation";
/// The group of the classes of priority that pods name.
pub const SCHEDULING_GROUP: &str = "scheduling.k8s.io";

/// The word of Workloads.
pub const WORKLOAD: &str = "Workload";
/// The word of ClusterQueues.
pub const CLUSTER_QUEUE: &str = "ClusterQueue";
/// The word of LocalQueues.
pub const LOCAL_QUEUE: &str = "LocalQueue";
/// The word of Cohorts.
pub const COHORT: &str = "Cohort";
/// The word of ResourceFlavors.
pub const RESOURCE_FLAVOR: &str = "ResourceFlavor";
/// The word of AdmissionChecks.
pub const ADMISSION_CHECK: &str = "AdmissionCheck";
/// The word of classes of priority of queues.
pub const WORKLOAD_PRIORITY_CLASS: &str = "WorkloadPriorityClass";
/// The word of classes of priority of pods.
pub const PRIORITY_CLASS: &str = "PriorityClass";

/// The queue, and the class of priority, of whoever names none.
pub const DEFAULT: &str = "default";
/// The pod set of whoever has one without a name.
pub const MAIN: &str = "main";
/// The resource that counts pods.
pub const PODS: &str = "pods";
/// The value of all marks.
pub const TRUE: &str = "true";
/// The value that takes a mark back.
pub const FALSE: &str = "false";

/// Labels.
pub mod labels {
    /// The LocalQueue.
    pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";
    /// Marks a pod that was taken in; `true` is the only legal value.
    pub const MANAGED: &str = "kueue.x-k8s.io/managed";
    /// The group of a pod; an annotation of this key comes before it.
    pub const POD_GROUP_NAME: &str = "kueue.x-k8s.io/pod-group-name";
    /// The role of a pod in its group.
    pub const POD_GROUP_ROLE: &str = "kueue.x-k8s.io/pod-group-role";
    /// The index of a pod in its group.
    pub const POD_GROUP_POD_INDEX: &str = "kueue.x-k8s.io/pod-group-pod-index";
    /// The Workload that the user made; also an annotation.
    pub const PREBUILT_WORKLOAD: &str = "kueue.x-k8s.io/prebuilt-workload-name";
    /// For how long it may run.
    pub const MAX_EXEC_SECONDS: &str = "kueue.x-k8s.io/max-exec-time-seconds";
    /// The class of priority.
    pub const PRIORITY_CLASS: &str = "kueue.x-k8s.io/priority-class";
    /// Stamped at the start: the pod set.
    pub const PODSET: &str = "kueue.x-k8s.io/podset";
    /// Stamped at the start: the LocalQueue.
    pub const LOCAL_QUEUE: &str = "kueue.x-k8s.io/local-queue-name";
    /// Stamped at the start: the ClusterQueue, where its name is a DNS label.
    pub const CLUSTER_QUEUE: &str = "kueue.x-k8s.io/cluster-queue-name";
    /// Of Workloads: the UID of their owner.
    pub const JOB_UID: &str = "kueue.x-k8s.io/job-uid";
}

/// Annotations.
pub mod annotations {
    /// How many pods a group has, later form.
    pub const POD_GROUP_TOTAL_COUNT: &str = "kueue.x-k8s.io/pod-group-total-count";
    /// How many pods a group has, as proposed.
    pub const POD_GROUP_COUNT: &str = "kueue.x-k8s.io/pod-group-count";
    /// How many roles a group has.
    pub const POD_GROUP_ROLES: &str = "kueue.x-k8s.io/pod-group-roles";
    /// How many pods this pod's role has.
    pub const POD_GROUP_ROLE_COUNT: &str = "kueue.x-k8s.io/pod-group-role-count";
    /// The same, as the proposal spells it elsewhere.
    pub const POD_GROUP_ROLE_COUNT_ALIAS: &str = "kueue.k8s.io/pod-group-role-count";
    /// The pod sets of a group, declared.
    pub const POD_GROUP_SETS: &str = "kueue.x-k8s.io/pod-group-sets";
    /// A fingerprint of the pod.
    pub const ROLE_HASH: &str = "kueue.x-k8s.io/role-hash";
    /// The Workload is built from the first pod alone.
    pub const FAST_ADMISSION: &str = "kueue.x-k8s.io/pod-group-fast-admission";
    /// The group serves and never finishes.
    pub const SERVING: &str = "kueue.x-k8s.io/pod-group-serving";
    /// Whether replacements are waited for.
    pub const RETRIABLE_IN_GROUP: &str = "kueue.x-k8s.io/retriable-in-group";
    /// Marks the Workload of a group.
    pub const IS_GROUP_WORKLOAD: &str = "kueue.x-k8s.io/is-group-workload";
    /// The integration that gates the pod.
    pub const SUSPENDING_PARENT: &str = "kueue.x-k8s.io/pod-suspending-parent";
    /// Which label holds the index.
    pub const POD_INDEX_LABEL: &str = "kueue.x-k8s.io/pod-group-pod-index-label";
    /// Who else must let a Workload in, separated by commas.
    pub const ADMISSION_GATED_BY: &str = "kueue.x-k8s.io/admission-gated-by";
    /// Stamped at the start: the Workload.
    pub const WORKLOAD: &str = "kueue.x-k8s.io/workload";
    /// How the annotations begin that are parameters of provisioning.
    pub const PROVISIONING_PREFIX: &str = "provreq.kueue.x-k8s.io/";
    /// The Job is on its way to being stopped.
    pub const STOPPING: &str = "kueue.x-k8s.io/stopping";
    /// Least parallelism of a Job.
    pub const JOB_MIN_PARALLELISM: &str = "kueue.x-k8s.io/job-min-parallelism";
    /// Completions of a Job follow its parallelism.
    pub const JOB_COMPLETIONS_EQUAL_PARALLELISM: &str = "kueue.x-k8s.io/job-completions-equal-parallelism";
    /// Added to the priority.
    pub const PRIORITY_BOOST: &str = "kueue.x-k8s.io/priority-boost";
    /// The Job grows and shrinks while it runs.
    pub const ELASTIC_JOB: &str = "kueue.x-k8s.io/elastic-job";
    /// Pods lie within one domain of this level.
    pub const TOPOLOGY_REQUIRED: &str = "kueue.x-k8s.io/podset-required-topology";
    /// Pods lie within one domain of this level if that can be.
    pub const TOPOLOGY_PREFERRED: &str = "kueue.x-k8s.io/podset-preferred-topology";
    /// Pods lie anywhere, and are counted.
    pub const TOPOLOGY_UNCONSTRAINED: &str = "kueue.x-k8s.io/podset-unconstrained-topology";
    /// Slices of pods lie within one domain of this level.
    pub const SLICE_REQUIRED: &str = "kueue.x-k8s.io/podset-slice-required-topology";
    /// How many pods a slice has.
    pub const SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
}

/// Scheduling gates.
pub mod gates {
    /// Until admission.
    pub const ADMISSION: &str = "kueue.x-k8s.io/admission";
    /// Until a place is chosen.
    pub const TOPOLOGY: &str = "kueue.x-k8s.io/topology";
}

/// Finalizers.
pub mod finalizers {
    /// Of pods that were taken in.
    pub const POD: &str = "kueue.x-k8s.io/managed";
    /// Of Workloads, flavors and queues.
    pub const IN_USE: &str = "kueue.x-k8s.io/resource-in-use";
}

/// Who writes, and who reports.
pub mod managers {
    use muster_tree::{Text, literal};

    /// All about admission: conditions of its types, admission, checks, requeueing, requests, statistics.
    pub static ADMISSION: Text = literal!("kueue-admission");
    /// Pods whose share is free again.
    pub static RECLAIMABLE: Text = literal!("kueue-reclaimable-pods");
    /// Conditions about a group's pods.
    pub static PODS: Text = literal!("kueue-pod-controller");
    /// Everything else: jobs, pods, finalizers.
    pub static KUEUE: Text = literal!("kueue");
    /// In the patches of a TrainJob: what admission gives to its pods.
    pub const RUNTIME_PATCH: &str = "kueue.x-k8s.io/manager";
    /// Source of events of jobs and pods.
    pub static JOB_EVENTS: Text = literal!("kueue-job-controller");
    /// Source of events of admission.
    pub static ADMISSION_EVENTS: Text = literal!("kueue-admission");
    /// Source of events of Workloads.
    pub static WORKLOAD_EVENTS: Text = literal!("kueue-workload-controller");
}

/// Condition types.
pub mod conditions {
    /// Of Workloads: their share is set aside.
    pub const QUOTA_RESERVED: &str = "QuotaReserved";
    /// Of Workloads: they may run.
    pub const ADMITTED: &str = "Admitted";
    /// Of Workloads: they have ended.
    pub const FINISHED: &str = "Finished";
    /// Of Workloads: their pods are ready.
    pub const PODS_READY: &str = "PodsReady";
    /// Of Workloads: they have to leave.
    pub const EVICTED: &str = "Evicted";
    /// Of Workloads: they have to leave for others.
    pub const PREEMPTED: &str = "Preempted";
    /// Of Workloads: they may queue again.
    pub const REQUEUED: &str = "Requeued";
    /// Of Workloads: they are about to be deactivated.
    pub const DEACTIVATION_TARGET: &str = "DeactivationTarget";
    /// Of Workloads: gates of preemption hold them.
    pub const BLOCKED_ON_PREEMPTION_GATES: &str = "BlockedOnPreemptionGates";
    /// Of Workloads of groups: pods are missing.
    pub const WAITING_FOR_REPLACEMENT_PODS: &str = "WaitingForReplacementPods";
    /// Of pods: they are stopped.
    pub const TERMINATION_TARGET: &str = "TerminationTarget";
    /// Of queues and checks.
    pub const ACTIVE: &str = "Active";

    /// Those that belong to whoever applies admission; all others have writers of their own.
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

/// Reasons of conditions and of events.
pub mod reasons {
    /// A share is set aside.
    pub const QUOTA_RESERVED: &str = "QuotaReserved";
    /// It may run.
    pub const ADMITTED: &str = "Admitted";
    /// Not admitted: it has no share.
    pub const NO_RESERVATION: &str = "NoReservation";
    /// Not admitted: a check does not agree.
    pub const UNSATISFIED_CHECKS: &str = "UnsatisfiedAdmissionChecks";
    /// Not admitted: places are still to be chosen.
    pub const PENDING_TOPOLOGY: &str = "PendingDelayedTopologyRequests";
    /// As older clients know the first.
    pub const OLD_NO_RESERVATION: &str = "NoReservationUnsatisfiedChecks";
    /// As older clients know the second.
    pub const OLD_UNSATISFIED_CHECKS: &str = "UnsatisfiedChecks";

    /// Ended well.
    pub const SUCCEEDED: &str = "Succeeded";
    /// Ended badly.
    pub const FAILED: &str = "Failed";
    /// It is not what its job is.
    pub const OUT_OF_SYNC: &str = "OutOfSync";
    /// Nobody owns it any more.
    pub const OWNER_NOT_FOUND: &str = "OwnerNotFound";
    /// It could not be started.
    pub const FAILED_TO_START: &str = "FailedToStart";
    /// Another slice takes its place.
    pub const SLICE_REPLACED: &str = "WorkloadSliceReplaced";

    /// Ready for the first time.
    pub const STARTED: &str = "Started";
    /// Ready again.
    pub const RECOVERED: &str = "Recovered";
    /// Not ready yet.
    pub const WAIT_FOR_START: &str = "WaitForStart";
    /// Not ready any more.
    pub const WAIT_FOR_RECOVERY: &str = "WaitForRecovery";

    /// Others come first.
    pub const PREEMPTED: &str = "Preempted";
    /// Pods were not ready in time.
    pub const PODS_READY_TIMEOUT: &str = "PodsReadyTimeout";
    /// A check says so.
    pub const ADMISSION_CHECK: &str = "AdmissionCheck";
    /// The ClusterQueue is stopped.
    pub const CLUSTER_QUEUE_STOPPED: &str = "ClusterQueueStopped";
    /// The LocalQueue is stopped.
    pub const LOCAL_QUEUE_STOPPED: &str = "LocalQueueStopped";
    /// Nodes failed.
    pub const NODE_FAILURES: &str = "NodeFailures";
    /// It was deactivated.
    pub const DEACTIVATED: &str = "Deactivated";
    /// How the reason begins when it was deactivated by us.
    pub const DEACTIVATED_DUE_TO: &str = "DeactivatedDueTo";
    /// How the reasons of events about evictions begin.
    pub const EVICTED_DUE_TO: &str = "EvictedDueTo";
    /// How the reasons begin that pods are told when their Workload is evicted.
    pub const WORKLOAD_EVICTED_DUE_TO: &str = "WorkloadEvictedDueTo";

    /// Preempted within the queue.
    pub const IN_CLUSTER_QUEUE: &str = "InClusterQueue";
    /// Preempted by who takes back what is his.
    pub const IN_COHORT_RECLAMATION: &str = "InCohortReclamation";
    /// Preempted for fair shares.
    pub const IN_COHORT_FAIR_SHARING: &str = "InCohortFairSharing";
    /// Preempted by who borrows.
    pub const IN_COHORT_RECLAIM_WHILE_BORROWING: &str = "InCohortReclaimWhileBorrowing";

    /// Requeued: the pause is over.
    pub const BACKOFF_FINISHED: &str = "BackoffFinished";
    /// Requeued: active again.
    pub const REACTIVATED: &str = "Reactivated";
    /// Requeued: the ClusterQueue runs again.
    pub const CLUSTER_QUEUE_RESTARTED: &str = "ClusterQueueRestarted";
    /// Requeued: the LocalQueue runs again.
    pub const LOCAL_QUEUE_RESTARTED: &str = "LocalQueueRestarted";
    /// Not requeued: it cannot be admitted.
    pub const INADMISSIBLE: &str = "Inadmissible";

    /// Deactivated after too many tries.
    pub const REQUEUING_LIMIT_EXCEEDED: &str = "RequeuingLimitExceeded";
    /// Deactivated after too long a run.
    pub const MAX_EXEC_EXCEEDED: &str = "MaximumExecutionTimeExceeded";

    /// Pending: something it names is not there or does not fit.
    pub const MISCONFIGURED: &str = "Misconfigured";
    /// Pending: its queue is stopped.
    pub const SUSPENDED: &str = "Suspended";
    /// Pending: others have to let it in.
    pub const ADMISSION_GATED: &str = "AdmissionGated";
    /// Pending: no flavor suits it.
    pub const NO_MATCHING_FLAVOR: &str = "NoMatchingFlavor";
    /// Pending: it asks for more than there can ever be.
    pub const EXCEEDS_MAX_QUOTA: &str = "ExceedsMaxQuota";
    /// Pending: others have what it needs.
    pub const WAITING_FOR_QUOTA: &str = "WaitingForQuota";
    /// Pending: no place for all of it.
    pub const TOPOLOGY_PLACEMENT_FAILED: &str = "TopologyPlacementFailed";
    /// Pending: others are leaving for it.
    pub const WAITING_FOR_PREEMPTED: &str = "WaitingForPreemptedWorkloads";
    /// Pending: pods of others are not ready.
    pub const WAITING_FOR_PODS_READY: &str = "WaitingForPodsReady";
    /// Pending: not looked at yet.
    pub const PENDING_EVALUATION: &str = "PendingEvaluation";
    /// Pending: held.
    pub const ON_HOLD: &str = "OnHold";
    /// As older clients know most of these.
    pub const PENDING: &str = "Pending";
    /// As older clients know waiting for pods.
    pub const WAITING: &str = "Waiting";

    /// Of queues and checks: all is well.
    pub const READY: &str = "Ready";
    /// Of ClusterQueues: being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// Of queues: stopped.
    pub const STOPPED: &str = "Stopped";
    /// Of ClusterQueues: a flavor is missing.
    pub const FLAVOR_NOT_FOUND: &str = "FlavorNotFound";
    /// Of ClusterQueues: a check is missing.
    pub const CHECK_NOT_FOUND: &str = "AdmissionCheckNotFound";
    /// Of ClusterQueues: a check is not active.
    pub const CHECK_INACTIVE: &str = "AdmissionCheckInactive";
    /// Of ClusterQueues: a topology is missing.
    pub const TOPOLOGY_NOT_FOUND: &str = "TopologyNotFound";
    /// Of ClusterQueues: something else.
    pub const UNKNOWN: &str = "Unknown";
    /// Of LocalQueues: their ClusterQueue is missing.
    pub const CLUSTER_QUEUE_MISSING: &str = "ClusterQueueDoesNotExist";
    /// Of LocalQueues: their ClusterQueue is not active.
    pub const CLUSTER_QUEUE_INACTIVE: &str = "ClusterQueueIsInactive";

    /// Of groups: failed pods are missing.
    pub const PODS_FAILED: &str = "PodsFailed";
    /// Of groups: no pod is missing.
    pub const PODS_READY: &str = "PodsReady";

    /// Stopped: its Workload was deleted.
    pub const WORKLOAD_DELETED: &str = "WorkloadDeleted";
    /// Stopped: no Workload is like it.
    pub const NO_MATCHING_WORKLOAD: &str = "NoMatchingWorkload";
    /// Stopped: it was not admitted.
    pub const NOT_ADMITTED: &str = "NotAdmitted";

    /// Event: a Workload was made.
    pub const CREATED_WORKLOAD: &str = "CreatedWorkload";
    /// Event: a Workload was made anew in its place.
    pub const UPDATED_WORKLOAD: &str = "UpdatedWorkload";
    /// Event: a Workload was deleted.
    pub const DELETED_WORKLOAD: &str = "DeletedWorkload";
    /// Event: a Workload has ended.
    pub const FINISHED_WORKLOAD: &str = "FinishedWorkload";
    /// Event: a Workload cannot be made.
    pub const ERR_WORKLOAD_COMPOSE: &str = "ErrWorkloadCompose";
    /// Event: another's Workload has the name.
    pub const WORKLOAD_NAME_CONFLICT: &str = "WorkloadNameConflict";
    /// Event: new pods own the Workload too.
    pub const OWNERS_ADDED: &str = "OwnerReferencesAdded";
    /// Event: a pod too many is gone.
    pub const EXCESS_POD_DELETED: &str = "ExcessPodDeleted";
    /// Event: checks have something to say.
    pub const UPDATED_CHECK: &str = "UpdatedAdmissionCheck";
    /// Event: owners own owners without end.
    pub const NESTING_TOO_DEEP: &str = "JobNestingTooDeep";
    /// Event: no such class of priority.
    pub const PRIORITY_CLASS_NOT_FOUND: &str = "WorkloadPriorityClassNotFound";
    /// Event: a check refuses for good.
    pub const CHECK_REJECTED: &str = "AdmissionCheckRejected";
    /// Event: others leave for it.
    pub const PREEMPTED_WORKLOAD: &str = "PreemptedWorkload";
    /// Event: deleted when its time was over.
    pub const DELETED: &str = "Deleted";
}

/// Messages of conditions and events.
pub mod messages {
    /// It may run.
    pub const ADMITTED: &str = "The workload is admitted";
    /// It has no share.
    pub const NO_RESERVATION: &str = "The workload has no reservation";
    /// A check does not agree.
    pub const UNSATISFIED_CHECKS: &str = "The workload has not all checks ready";
    /// Places are still to be chosen.
    pub const PENDING_TOPOLOGY: &str = "There are pending delayed topology requests";
    /// Not looked at yet.
    pub const PENDING_EVALUATION: &str = "Workload is pending evaluation in the scheduling queue";
    /// It was deactivated.
    pub const DEACTIVATED: &str = "The workload is deactivated";
    /// It is active again.
    pub const REACTIVATED: &str = "The workload was reactivated";
    /// The pause is over.
    pub const BACKOFF_FINISHED: &str = "The workload backoff was finished";
    /// The ClusterQueue is stopped.
    pub const CLUSTER_QUEUE_STOPPED: &str = "The ClusterQueue is stopped";
    /// The LocalQueue is stopped.
    pub const LOCAL_QUEUE_STOPPED: &str = "The LocalQueue is stopped";
    /// The ClusterQueue runs again.
    pub const CLUSTER_QUEUE_RESTARTED: &str = "The ClusterQueue was restarted after being stopped";
    /// The LocalQueue runs again.
    pub const LOCAL_QUEUE_RESTARTED: &str = "The LocalQueue was restarted after being stopped";
    /// Nobody owns it any more.
    pub const OWNER_NOT_FOUND: &str = "The workload's owner no longer exists";
    /// It is not what its job is.
    pub const OUT_OF_SYNC: &str = "The prebuilt workload is out of sync with its user job";
    /// Pods are not ready yet.
    pub const PODS_NOT_READY: &str = "Not all pods are ready or succeeded";
    /// All pods are ready.
    pub const PODS_READY: &str = "All pods reached readiness and the workload is running";
    /// A pod is not ready any more.
    pub const PODS_LOST: &str = "At least one pod has failed, waiting for recovery";
    /// A ClusterQueue is well.
    pub const CAN_ADMIT: &str = "Can admit new workloads";
    /// A ClusterQueue is being deleted.
    pub const TERMINATING: &str = "Can't admit new workloads; clusterQueue is terminating";
    /// A LocalQueue is well.
    pub const CAN_SUBMIT: &str = "Can submit new workloads to localQueue";
    /// A LocalQueue's ClusterQueue is not.
    pub const CANNOT_SUBMIT: &str = "Can't submit new workloads to clusterQueue";
    /// A LocalQueue is stopped.
    pub const LOCAL_QUEUE_IS_STOPPED: &str = "LocalQueue is stopped";
    /// Failed pods are missing.
    pub const PODS_FAILED: &str = "Some Failed pods need replacement";
    /// No pod is missing.
    pub const NO_PODS_NEEDED: &str = "No pods need replacement";

    /// A share is set aside.
    #[must_use]
    pub fn quota_reserved(cluster_queue: &str) -> String {
        format!("Quota reserved in ClusterQueue {cluster_queue}")
    }

    /// What was there before a condition was taken back.
    #[must_use]
    pub fn previously(old: &str) -> String {
        format!("Previously: {old}")
    }
}
