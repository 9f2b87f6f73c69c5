//! The words of the wire: labels, annotations, finalizers, condition types, reasons and messages.
//!
//! Each is spelled here and nowhere else.

/// Labels.
pub mod labels {
    /// Marks the pod of the operator that is in charge, with its value.
    pub const LEADS: (&str, &str) = ("muster.dev/leads", "true");
    /// The UID of the Job that made a Pod.
    pub const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
    /// The name of the Job that made a Pod.
    pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
    /// The completion index of a Pod of an indexed Job; also an annotation.
    pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
    /// The Service of an EndpointSlice.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Endpoints with it (`"true"`) are not mirrored to EndpointSlices.
    pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
    /// Who keeps an EndpointSlice.
    pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// The value of that label that means us.
    pub const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
    /// On slices of Services without an address.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
    /// The node's zone.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The node's region.
    pub const REGION: &str = "topology.kubernetes.io/region";
    /// How the zone was called before.
    pub const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
    /// How the region was called before.
    pub const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";
    /// Annotation: failures of a Pod's index before it, where indexes have limits of their own.
    pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
    /// Annotation: failures of a Pod's index before it that did not count.
    pub const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
    /// The node's host name.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// The node's operating system.
    pub const OS: &str = "kubernetes.io/os";
    /// The node's processor architecture.
    pub const ARCH: &str = "kubernetes.io/arch";
}

/// Annotations of our own.
pub mod annotations {
    /// How long the containers of a simulated pod run; seconds, may have a fraction.
    pub const SIM_RUN_SECONDS: &str = "muster.dev/sim-run-seconds";
    /// The exit code of the containers of a simulated pod.
    pub const SIM_EXIT_CODE: &str = "muster.dev/sim-exit-code";
    /// How long a simulated pod takes to start; seconds, may have a fraction.
    pub const SIM_START_SECONDS: &str = "muster.dev/sim-start-seconds";
    /// Of a claim that was made for a pod: its name within the pod. Not ours, but written by us.
    pub const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
    /// What was declared of a simulated device, in few letters.
    pub const SIM_MANIFEST: &str = "muster.dev/sim-manifest";
    /// What the certificates in a Secret are for.
    pub const CERTIFICATES: &str = "muster.dev/certificates";
    /// A JobSet that is never made: it shows whether admission is asked.
    pub const REHEARSAL: &str = "muster.dev/rehearsal";
    /// The same, after those who fill in JobSets have seen it.
    pub const REHEARSED: &str = "muster.dev/rehearsed";
    /// Of an object that came with the server: what was shipped last.
    pub const SHIPPED: &str = "muster.dev/shipped";
    /// Marks a node that runs processes, and of which machine.
    pub const LOCAL_NODE: &str = "muster.dev/local";
    /// Marks a node whose kubelet is simulated, and by whom; its devices too.
    pub const SIM_NODE: &str = "muster.dev/simulated";
}

/// Annotations of volumes and claims.
pub mod storage {
    /// On a claim: its binding is complete.
    pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
    /// On a claim or volume: it was bound by a controller, not by its author.
    pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
    /// On a claim: the node on which a volume shall be made.
    pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    /// On a claim: who shall make its volume.
    pub const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
    /// The same, as it was called before.
    pub const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
    /// On a volume: who made it.
    pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
    /// On a claim or volume: its class, as it was said before there was a field.
    pub const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    /// On a class: it is the one of claims that name none.
    pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
    /// The value of all these that are only there or not.
    pub const YES: &str = "yes";
    /// The provisioner that makes no volumes.
    pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
    /// Our own provisioner: folders on this machine.
    pub const LOCAL_PATH: &str = "muster.dev/local-path";
    /// How provisioners that were once part of Kubernetes begin.
    pub const IN_TREE: &str = "kubernetes.io/";
    /// The access mode of one pod.
    pub const ONE_POD: &str = "ReadWriteOncePod";
}

/// Finalizers.
pub mod finalizers {
    /// Keeps a claim while a pod uses it.
    pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
    /// Keeps a volume while it is bound.
    pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
    /// Keeps a Job's Pod until it is counted.
    pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
    /// Keeps an owner until its blocking dependents are gone.
    pub const FOREGROUND: &str = "foregroundDeletion";
    /// Keeps an owner until its dependents have forgotten it.
    pub const ORPHAN: &str = "orphan";
    /// Keeps a claim while devices are given to it.
    pub const CLAIM_PROTECTION: &str = "resource.kubernetes.io/delete-protection";
    /// Keeps a group while pods of it are there.
    pub const GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
    /// The same, of groups of our own definition.
    pub const OWN_GROUP_PROTECTION: &str = "scheduling.muster.dev/podgroup-protection";
    /// The one in `spec.finalizers` of a Namespace.
    pub const KUBERNETES: &str = "kubernetes";
}

/// Types of conditions.
pub mod conditions {
    /// The Job met its goal; its pods are still ending.
    pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
    /// The Job is done.
    pub const COMPLETE: &str = "Complete";
    /// The Job is going to fail; its pods are still ending.
    pub const FAILURE_TARGET: &str = "FailureTarget";
    /// The Job failed.
    pub const FAILED: &str = "Failed";
    /// The Job is, or was, suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// A Pod has a node.
    pub const POD_SCHEDULED: &str = "PodScheduled";
    /// A Pod or Node is ready.
    pub const READY: &str = "Ready";
    /// All containers of a Pod are ready.
    pub const CONTAINERS_READY: &str = "ContainersReady";
    /// A Pod's init containers have ended.
    pub const INITIALIZED: &str = "Initialized";
    /// A Pod's sandbox and network exist.
    pub const READY_TO_START: &str = "PodReadyToStartContainers";
    /// A Pod is about to be ended by the system.
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// Not all kinds of the namespace could be discovered.
    pub const NS_DISCOVERY_FAILURE: &str = "NamespaceDeletionDiscoveryFailure";
    /// A group or version could not be understood.
    pub const NS_PARSING_FAILURE: &str = "NamespaceDeletionGroupVersionParsingFailure";
    /// Something could not be deleted.
    pub const NS_CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
    /// There is content left.
    pub const NS_CONTENT_REMAINING: &str = "NamespaceContentRemaining";
    /// There are finalizers on content left.
    pub const NS_FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";
}

/// Reasons of conditions and events.
pub mod reasons {
    /// The wanted number of pods succeeded.
    pub const COMPLETIONS_REACHED: &str = "CompletionsReached";
    /// Too many pods failed.
    pub const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
    /// The Job ran too long.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// A rule of the pod failure policy says that the Job fails.
    pub const POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// More indexes failed than the Job allows.
    pub const MAX_FAILED_INDEXES_EXCEEDED: &str = "MaxFailedIndexesExceeded";
    /// Every index has ended, and some failed.
    pub const FAILED_INDEXES: &str = "FailedIndexes";
    /// A rule of the success policy is met.
    pub const SUCCESS_POLICY: &str = "SuccessPolicy";
    /// The Job was suspended.
    pub const JOB_SUSPENDED: &str = "JobSuspended";
    /// The Job was resumed.
    pub const JOB_RESUMED: &str = "JobResumed";
    /// Event: the Job was suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// Event: the Job was resumed.
    pub const RESUMED: &str = "Resumed";
    /// Event: the Job is done.
    pub const COMPLETED: &str = "Completed";
    /// Event: a pod was made.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// Event: a pod was deleted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// Event: a pod could not be made.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// Event: a pod could not be deleted.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// Event: more pods succeeded than wanted.
    pub const TOO_MANY_SUCCEEDED: &str = "TooManySucceededPods";
    /// Event: the completion mode is not known.
    pub const UNKNOWN_COMPLETION_MODE: &str = "UnknownCompletionMode";
    /// Event: a pod got its node.
    pub const SCHEDULED: &str = "Scheduled";
    /// Event: a pod found no node.
    pub const FAILED_SCHEDULING: &str = "FailedScheduling";
    /// Condition: no node could be looked for.
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    /// Event: a claim of a pod could not be made.
    pub const FAILED_CLAIM_CREATION: &str = "FailedResourceClaimCreation";
    /// Condition: a pod found no node.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Event: a pod had to make room.
    pub const PREEMPTED: &str = "Preempted";
    /// Condition: a pod makes room for a more important one.
    pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";
    /// Condition: a pod waits for its gates.
    pub const SCHEDULING_GATED: &str = "SchedulingGated";
    /// Condition: the containers have ended well.
    pub const POD_COMPLETED: &str = "PodCompleted";
    /// Condition: the containers have ended badly.
    pub const POD_FAILED: &str = "PodFailed";
    /// Condition: some containers are not ready.
    pub const CONTAINERS_NOT_READY: &str = "ContainersNotReady";
    /// Condition: some init containers are not done.
    pub const CONTAINERS_NOT_INITIALIZED: &str = "ContainersNotInitialized";
    /// Condition: what others must set is not set.
    pub const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";
    /// Container state: waits for the init containers.
    pub const POD_INITIALIZING: &str = "PodInitializing";
    /// Container state: waits before it is restarted.
    pub const CRASH_LOOP: &str = "CrashLoopBackOff";
    /// Container state: it could not be started.
    pub const START_ERROR: &str = "StartError";
    /// Container state: the machine cannot start it now.
    pub const RUN_ERROR: &str = "RunContainerError";
    /// Container state: it took more memory than it may.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// Container state: nobody knows how it ended.
    pub const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
    /// Pod: the node was stopped in good order.
    pub const TERMINATED: &str = "Terminated";
    /// Condition: the kubelet ended the pod.
    pub const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
    /// Event: a container was made.
    pub const CREATED: &str = "Created";
    /// Event: a container is being stopped.
    pub const KILLING: &str = "Killing";
    /// Event: something of a container failed.
    pub const FAILED: &str = "Failed";
    /// Event: a container waits before it is restarted.
    pub const BACK_OFF: &str = "BackOff";
    /// Event: a probe failed.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Event: what is done once a container runs went wrong.
    pub const FAILED_POST_START: &str = "FailedPostStartHook";
    /// Event: what is done before a container stops went wrong.
    pub const FAILED_PRE_STOP: &str = "FailedPreStopHook";
    /// Event: a command runs with the programs of this machine.
    pub const HOST_PROGRAM: &str = "HostProgram";
    /// Container state: being made.
    pub const CONTAINER_CREATING: &str = "ContainerCreating";
    /// Container state: it cannot be run as it is written.
    pub const CREATE_CONTAINER_CONFIG: &str = "CreateContainerConfigError";
    /// Event: a volume could not be made.
    pub const FAILED_MOUNT: &str = "FailedMount";
    /// Event: devices are not there yet.
    pub const FAILED_PREPARE_DEVICES: &str = "FailedPrepareDynamicResources";
    /// Container state: ended with 0.
    pub const CONTAINER_COMPLETED: &str = "Completed";
    /// Container state: ended with another code.
    pub const CONTAINER_ERROR: &str = "Error";
    /// Node condition: it takes no pods.
    pub const KUBELET_NOT_READY: &str = "KubeletNotReady";
    /// Node condition: all is well.
    pub const KUBELET_READY: &str = "KubeletReady";
    /// Event: a container runs.
    pub const STARTED: &str = "Started";
    /// Event: a node of this name is simulated by another, or by nobody.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// Condition: a pod's node is gone.
    pub const DELETION_BY_POD_GC: &str = "DeletionByPodGC";
    /// Condition: a pod does not tolerate a taint of its node.
    pub const DELETION_BY_TAINT_MANAGER: &str = "DeletionByTaintManager";
    /// Node condition: nothing was heard of the node.
    pub const NODE_STATUS_UNKNOWN: &str = "NodeStatusUnknown";
    /// Event: the object waits for a controller that does not run here.
    pub const NO_CONTROLLER: &str = "NoController";
    /// Event: an owner is named in another namespace.
    pub const OWNER_REF_INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
    /// Namespace condition: everything was deleted.
    pub const CONTENT_DELETED: &str = "ContentDeleted";
    /// Namespace condition: all content is gone.
    pub const CONTENT_REMOVED: &str = "ContentRemoved";
    /// Namespace condition: some is left.
    pub const SOME_RESOURCES_REMAIN: &str = "SomeResourcesRemain";
    /// Namespace condition: no finalizers are left.
    pub const CONTENT_HAS_NO_FINALIZERS: &str = "ContentHasNoFinalizers";
    /// Namespace condition: some finalizers are left.
    pub const SOME_FINALIZERS_REMAIN: &str = "SomeFinalizersRemain";
    /// Namespace condition: all kinds were discovered.
    pub const RESOURCES_DISCOVERED: &str = "ResourcesDiscovered";
    /// Namespace condition: all groups and versions were understood.
    pub const PARSED_GROUP_VERSIONS: &str = "ParsedGroupVersions";
}

/// Taints.
pub mod taints {
    /// The node takes no new pods.
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    /// Nothing is heard of the node.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// The node says that it is not ready.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
}

/// Names of the parts that write: field managers and event sources.
pub mod managers {
    use muster_tree::{Text, literal};

    /// The loop that runs controllers; it only looks.
    pub static LOOP: Text = literal!("muster");
    /// The Job controller.
    pub static JOB: Text = literal!("job-controller");
    /// The controller that deletes finished Jobs.
    pub static TTL: Text = literal!("ttl-after-finished-controller");
    /// The scheduler, also the default `schedulerName`.
    pub static SCHEDULER: Text = literal!("default-scheduler");
    /// Our scheduler, beside that of a real cluster.
    pub static MUSTER_SCHEDULER: Text = literal!("muster-scheduler");
    /// The controller that binds claims to volumes.
    pub static VOLUME_BINDER: Text = literal!("persistentvolume-controller");
    /// The controller that keeps claims in use.
    pub static CLAIM_PROTECTION: Text = literal!("pvc-protection-controller");
    /// The controller that keeps volumes in use.
    pub static VOLUME_PROTECTION: Text = literal!("pv-protection-controller");
    /// The controller that makes claims for single pods.
    pub static EPHEMERAL: Text = literal!("ephemeral_volume");
    /// Our provisioner.
    pub static LOCAL_PATH: Text = literal!("muster.dev/local-path");
    /// The (simulated) kubelet.
    pub static KUBELET: Text = literal!("kubelet");
    /// The garbage collector.
    pub static GC: Text = literal!("generic-garbage-collector");
    /// The namespace controller.
    pub static NAMESPACE: Text = literal!("namespace-controller");
    /// The pod garbage collector.
    pub static POD_GC: Text = literal!("pod-garbage-collector");
    /// The controller of service accounts.
    pub static ACCOUNTS: Text = literal!("service-account-controller");
    /// The publisher of the authority's certificate.
    pub static ROOT_CA: Text = literal!("root-ca-cert-publisher");
    /// The controller of endpoint slices.
    pub static SLICES: Text = literal!("endpoint-slice-controller");
    /// The controller of claims to devices.
    pub static CLAIMS: Text = literal!("ResourceClaimController");
    /// The same, as the source of events.
    pub static CLAIM_EVENTS: Text = literal!("resource_claim");
    /// The watcher over nodes.
    pub static NODE_LIFECYCLE: Text = literal!("node-lifecycle-controller");
    /// The JobSet controller, as it writes.
    pub static JOBSET: Text = literal!("jobset-controller");
    /// The same, as the source of events.
    pub static JOBSET_EVENTS: Text = literal!("jobset");
    /// The controller that keeps groups in use.
    pub static GROUP_PROTECTION: Text = literal!("podgroup-protection-controller");
    /// Evicts pods from tainted nodes.
    pub static TAINTS: Text = literal!("taint-eviction-controller");
}

/// The value of a Job's `spec.managedBy` that means us.
pub const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
/// The environment variable with the completion index.
pub const COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";
/// The service account that every namespace has.
pub const DEFAULT_ACCOUNT: &str = "default";
/// The ConfigMap with the certificate of the server's authority.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// What the server says of a create in a namespace that is being deleted.
pub const NAMESPACE_TERMINATING: &str = "because it is being terminated";
/// The namespace of the leases of nodes.
pub const NODE_LEASES: &str = "kube-node-lease";
/// Under which name the cluster stands in all whole names.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// The Service of the API server.
pub const KUBERNETES_SERVICE: &str = "kubernetes";
/// The namespace of events about cluster-scoped objects.
pub const DEFAULT_NAMESPACE: &str = "default";

/// JobSets: their group, and the keys that are a label and an annotation alike of Jobs and of their pods.
pub mod jobset {
    /// The group and version of JobSets.
    pub const API_VERSION: &str = "jobset.x-k8s.io/v1alpha2";
    /// The kind of JobSets.
    pub const KIND: &str = "JobSet";
    /// The value of `spec.managedBy` that means us.
    pub const CONTROLLER: &str = "jobset.sigs.k8s.io/jobset-controller";
    /// The JobSet's name.
    pub const NAME: &str = "jobset.sigs.k8s.io/jobset-name";
    /// The JobSet's UID.
    pub const UID: &str = "jobset.sigs.k8s.io/jobset-uid";
    /// The replicatedJob's name.
    pub const GROUP: &str = "jobset.sigs.k8s.io/replicatedjob-name";
    /// How many Jobs the replicatedJob has.
    pub const REPLICAS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
    /// How many Jobs the JobSet has.
    pub const GLOBAL_REPLICAS: &str = "jobset.sigs.k8s.io/global-replicas";
    /// The Job's place in its replicatedJob.
    pub const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
    /// The Job's place in the JobSet.
    pub const JOB_GLOBAL_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
    /// A hash of namespace and Job name.
    pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
    /// The group that several replicatedJobs may form.
    pub const GROUP_NAME: &str = "jobset.sigs.k8s.io/group-name";
    /// How many Jobs that group has.
    pub const GROUP_REPLICAS: &str = "jobset.sigs.k8s.io/group-replicas";
    /// The Job's place in that group.
    pub const JOB_GROUP_INDEX: &str = "jobset.sigs.k8s.io/job-group-index";
    /// How often the whole JobSet had been restarted when the Job was made.
    pub const RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
    /// How often the Job itself had been restarted when it was made.
    pub const JOB_RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/job-restart-attempt";
    /// The address of the coordinator.
    pub const COORDINATOR: &str = "jobset.sigs.k8s.io/coordinator";
    /// Annotation of users: the label of nodes whose values are the places of which each Job has one for itself.
    pub const EXCLUSIVE_TOPOLOGY: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    /// Annotation of users: nodes are labelled beforehand.
    pub const NODE_SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";
    /// The label of such nodes.
    pub const NAMESPACED_JOB: &str = "alpha.jobset.sigs.k8s.io/namespaced-job";
    /// The taint of such nodes.
    pub const NO_SCHEDULE: &str = "alpha.jobset.sigs.k8s.io/no-schedule";
    /// Label of pods: their priority.
    pub const PRIORITY: &str = "jobset.sigs.k8s.io/priority";
    /// Annotation of pods: how often they were restarted in place.
    pub const IN_PLACE_ATTEMPT: &str = "jobset.sigs.k8s.io/in-place-restart-attempt";
    /// Annotation of JobSets: the agent in their pods does nothing.
    pub const NO_IN_PLACE: &str = "jobset.sigs.k8s.io/disable-in-place-restart";
    /// Label of device claims: the template they were made from.
    pub const CLAIM_TEMPLATE: &str = "jobset.sigs.k8s.io/resource-claim-template";

    /// Condition types.
    pub mod conditions {
        /// All is done.
        pub const COMPLETED: &str = "Completed";
        /// It failed.
        pub const FAILED: &str = "Failed";
        /// It is suspended.
        pub const SUSPENDED: &str = "Suspended";
        /// Its Jobs are being made anew.
        pub const RESTARTING: &str = "RestartingJobSet";
        /// Its replicatedJobs start one after the other.
        pub const STARTING: &str = "StartupPolicyInProgress";
        /// They have all started.
        pub const STARTED: &str = "StartupPolicyCompleted";
        /// It cannot make progress: the reason and message say what is in the way. Ours; the word is that of kstatus.
        pub const STALLED: &str = "Stalled";
    }
}

/// Gangs: how pods say to which group they belong, and what is said of groups.
pub mod gang {
    /// The group of our own definitions.
    pub const OWN_GROUP: &str = "scheduling.muster.dev";
    /// Annotation of pods where they have no field for it: the name of their group.
    pub const POD_GROUP: &str = "scheduling.muster.dev/pod-group";
    /// Annotation beside it: the name of the Workload.
    pub const WORKLOAD: &str = "scheduling.muster.dev/workload";
    /// Label beside it, for selectors: a hash of the group's name, which may be longer than labels are.
    pub const POD_GROUP_HASH: &str = "scheduling.muster.dev/pod-group-hash";
    /// Annotation of groups: seconds from the first try until the group is called late.
    pub const DEADLINE: &str = "scheduling.muster.dev/schedule-timeout-seconds";
    /// Label of pods: the name of their group, as coscheduling reads it.
    pub const COSCHEDULING: &str = "scheduling.x-k8s.io/pod-group";
    /// Annotation of pods: the name of their group, as Volcano reads it.
    pub const VOLCANO: &str = "scheduling.k8s.io/group-name";

    /// Condition: enough pods of the group have nodes.
    pub const SCHEDULED: &str = "PodGroupScheduled";
    /// The same, as it was released.
    pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";

    /// Reason: enough pods have nodes.
    pub const MIN_COUNT_SATISFIED: &str = "MinCountSatisfied";
    /// Reason: the deadline passed.
    pub const TIMEOUT: &str = "SchedulingTimeout";
    /// Reason: too few pods are there.
    pub const WAITING_FOR_PODS: &str = "WaitingForPods";
    /// Reason: what the group refers to is not there.
    pub const WAITING_FOR_WORKLOAD: &str = "WaitingForWorkload";
    /// Reason: places were found, and pods are on their way to them.
    pub const IN_PROGRESS: &str = "SchedulingInProgress";

    /// Event: a pod that was seen names another group now, in vain.
    pub const CHANGE_IGNORED: &str = "PodGroupChangeIgnored";
}
