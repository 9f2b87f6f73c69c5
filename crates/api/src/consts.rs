//! Wire constants: labels, annotations, finalizers, condition types, reasons and names of controllers.
//!
//! Each value is spelled here and nowhere else; values without the prefix `muster.dev/` are upstream's.

/// Label keys and values of built-in kinds.
pub mod labels {
    /// Label of the operator's pod that is the leader; the Service of the webhooks and aggregated APIs selects it.
    pub const LEADS: (&str, &str) = ("muster.dev/leads", "true");
    /// UID of the Job that created a Pod.
    pub const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
    /// Name of the Job that created a Pod.
    pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
    /// The completion index of a Pod of an indexed Job; also an annotation.
    pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
    /// Name of the Service that an EndpointSlice belongs to.
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Endpoints with it (`"true"`) are not mirrored to EndpointSlices.
    pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
    /// The controller that manages an EndpointSlice.
    pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// The value of [`SLICE_MANAGED_BY`] for the EndpointSlice controller.
    pub const SLICE_CONTROLLER: &str = "endpointslice-controller.k8s.io";
    /// Marks EndpointSlices of headless Services.
    pub const HEADLESS: &str = "service.kubernetes.io/headless";
    /// The availability zone of a node.
    pub const ZONE: &str = "topology.kubernetes.io/zone";
    /// The region of a node.
    pub const REGION: &str = "topology.kubernetes.io/region";
    /// Deprecated key of [`ZONE`].
    pub const OLD_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
    /// Deprecated key of [`REGION`].
    pub const OLD_REGION: &str = "failure-domain.beta.kubernetes.io/region";
    /// Annotation: earlier failures of a Pod's index; set only with `backoffLimitPerIndex`.
    pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
    /// Annotation: earlier failures of a Pod's index that the pod failure policy ignored.
    pub const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
    /// Host name of a node; the topology key of one node.
    pub const HOSTNAME: &str = "kubernetes.io/hostname";
    /// Operating system of a node, `linux`.
    pub const OS: &str = "kubernetes.io/os";
    /// CPU architecture of a node in Go's spelling, for example `amd64`.
    pub const ARCH: &str = "kubernetes.io/arch";
}

/// Annotations of Muster, and upstream ones that only Muster's own controllers write.
pub mod annotations {
    /// Run time of the containers of a simulated pod, in seconds, with an optional fraction.
    pub const SIM_RUN_SECONDS: &str = "muster.dev/sim-run-seconds";
    /// Exit code of the containers of a simulated pod; 0 when absent.
    pub const SIM_EXIT_CODE: &str = "muster.dev/sim-exit-code";
    /// Start-up time of a simulated pod, in seconds, with an optional fraction.
    pub const SIM_START_SECONDS: &str = "muster.dev/sim-start-seconds";
    /// Upstream: the entry of `spec.resourceClaims` for which a ResourceClaim was generated.
    pub const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
    /// The declaration that a simulated device was made from, in short form.
    pub const SIM_MANIFEST: &str = "muster.dev/sim-manifest";
    /// What the certificates of a Secret serve.
    pub const CERTIFICATES: &str = "muster.dev/certificates";
    /// Marks the dry-run JobSet of the webhook self-test; it is never stored.
    pub const REHEARSAL: &str = "muster.dev/rehearsal";
    /// Set on the self-test JobSet by the mutating webhook, so that its answer proves that the webhook was called.
    pub const REHEARSED: &str = "muster.dev/rehearsed";
    /// The configuration that a bundled object was last applied with; detects edits by users.
    pub const SHIPPED: &str = "muster.dev/shipped";
    /// Marks a node that runs pods as local processes; the value identifies the host.
    pub const LOCAL_NODE: &str = "muster.dev/local";
    /// Marks a node and its ResourceSlices as simulated; the value identifies the simulator.
    pub const SIM_NODE: &str = "muster.dev/simulated";
}

/// Annotations and constants of PersistentVolumes, PersistentVolumeClaims and StorageClasses.
pub mod storage {
    /// On a PVC: the volume controller completed its binding.
    pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
    /// On a PVC or PV: the controller chose the binding, so it may undo it.
    pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
    /// On a PVC: the node that the scheduler chose for a volume with delayed binding.
    pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
    /// On a PVC: the provisioner that is to create its volume.
    pub const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
    /// Deprecated key of [`PROVISIONER`], still written for external provisioners.
    pub const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
    /// On a PV: the provisioner that created it.
    pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
    /// On a PVC or PV: the deprecated annotation for `storageClassName`.
    pub const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
    /// On a StorageClass: `"true"` makes it the default class.
    pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
    /// Value of the annotations that are flags.
    pub const YES: &str = "yes";
    /// The provisioner of classes without dynamic provisioning.
    pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
    /// Muster's provisioner: directories on the host.
    pub const LOCAL_PATH: &str = "muster.dev/local-path";
    /// Prefix of the provisioners that were in-tree.
    pub const IN_TREE: &str = "kubernetes.io/";
    /// The access mode that admits a single pod.
    pub const ONE_POD: &str = "ReadWriteOncePod";
}

/// `apiVersion` of Muster's configuration file.
pub const CONFIG_VERSION: &str = "muster.dev/v1alpha1";
/// `apiVersion` of PodGroups and Workloads as KEP-5832 proposes them.
pub const PROPOSED_SCHEDULING: &str = "scheduling.k8s.io/v1alpha1";

/// Finalizers of built-in kinds.
pub mod finalizers {
    /// On a PVC: blocks deletion while a pod uses it.
    pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
    /// On a PV: blocks deletion while it is bound.
    pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
    /// On a Job's Pod: blocks deletion until the Job controller counted it in the Job's status.
    pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
    /// On an owner: blocks deletion until its blocking dependents are deleted.
    pub const FOREGROUND: &str = "foregroundDeletion";
    /// On an owner: blocks deletion until its dependents lost their owner reference.
    pub const ORPHAN: &str = "orphan";
    /// On a ResourceClaim: blocks deletion while devices are allocated to it.
    pub const CLAIM_PROTECTION: &str = "resource.kubernetes.io/delete-protection";
    /// On a PodGroup: blocks deletion while pods belong to it.
    pub const GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
    /// [`GROUP_PROTECTION`] for the PodGroups of `scheduling.muster.dev`.
    pub const OWN_GROUP_PROTECTION: &str = "scheduling.muster.dev/podgroup-protection";
    /// The finalizer in `spec.finalizers` of a Namespace: blocks deletion until its content is deleted.
    pub const KUBERNETES: &str = "kubernetes";
}

/// Condition types of built-in kinds.
pub mod conditions {
    /// Job: the success criteria are met and its pods are terminating.
    pub const SUCCESS_CRITERIA_MET: &str = "SuccessCriteriaMet";
    /// Job: terminal, it succeeded.
    pub const COMPLETE: &str = "Complete";
    /// Job: it will fail once its pods have terminated.
    pub const FAILURE_TARGET: &str = "FailureTarget";
    /// Job: terminal, it failed.
    pub const FAILED: &str = "Failed";
    /// Job: `True` while suspended, `False` after it was resumed.
    pub const SUSPENDED: &str = "Suspended";
    /// Pod: bound to a node, or why not.
    pub const POD_SCHEDULED: &str = "PodScheduled";
    /// Pod: able to serve. Node: able to run pods.
    pub const READY: &str = "Ready";
    /// Pod: all containers are ready.
    pub const CONTAINERS_READY: &str = "ContainersReady";
    /// Pod: all init containers completed.
    pub const INITIALIZED: &str = "Initialized";
    /// Pod: the sandbox is created and its network configured.
    pub const READY_TO_START: &str = "PodReadyToStartContainers";
    /// Pod: about to be terminated by a disruption (preemption, eviction, taint, node loss).
    pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
    /// Namespace: API discovery failed for some groups.
    pub const NS_DISCOVERY_FAILURE: &str = "NamespaceDeletionDiscoveryFailure";
    /// Namespace: a group or version could not be parsed.
    pub const NS_PARSING_FAILURE: &str = "NamespaceDeletionGroupVersionParsingFailure";
    /// Namespace: some objects could not be deleted.
    pub const NS_CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
    /// Namespace: some of its objects remain.
    pub const NS_CONTENT_REMAINING: &str = "NamespaceContentRemaining";
    /// Namespace: remaining objects have finalizers.
    pub const NS_FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";
}

/// Reasons of conditions, events and container states.
pub mod reasons {
    /// Job condition: `completions` pods succeeded.
    pub const COMPLETIONS_REACHED: &str = "CompletionsReached";
    /// Job condition: more pods failed than `backoffLimit`.
    pub const BACKOFF_LIMIT_EXCEEDED: &str = "BackoffLimitExceeded";
    /// Job condition and pod status: `activeDeadlineSeconds` passed.
    pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
    /// Job condition: a rule of `podFailurePolicy` with action `FailJob` matched.
    pub const POD_FAILURE_POLICY: &str = "PodFailurePolicy";
    /// Job condition: more indexes failed than `maxFailedIndexes`.
    pub const MAX_FAILED_INDEXES_EXCEEDED: &str = "MaxFailedIndexesExceeded";
    /// Job condition: every index is terminal and some failed.
    pub const FAILED_INDEXES: &str = "FailedIndexes";
    /// Job condition: a rule of `successPolicy` is met.
    pub const SUCCESS_POLICY: &str = "SuccessPolicy";
    /// Job condition: the Job was suspended.
    pub const JOB_SUSPENDED: &str = "JobSuspended";
    /// Job condition: the Job was resumed.
    pub const JOB_RESUMED: &str = "JobResumed";
    /// Event: the Job was suspended.
    pub const SUSPENDED: &str = "Suspended";
    /// Event: the Job was resumed.
    pub const RESUMED: &str = "Resumed";
    /// Event: the Job completed.
    pub const COMPLETED: &str = "Completed";
    /// Event: a pod was created.
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    /// Event: a pod was deleted.
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    /// Event: the API server rejected the create of a pod.
    pub const FAILED_CREATE: &str = "FailedCreate";
    /// Event: the API server rejected the delete of a pod.
    pub const FAILED_DELETE: &str = "FailedDelete";
    /// Event: more pods succeeded than `completions`.
    pub const TOO_MANY_SUCCEEDED: &str = "TooManySucceededPods";
    /// Event: unknown `completionMode`; the Job is not reconciled.
    pub const UNKNOWN_COMPLETION_MODE: &str = "UnknownCompletionMode";
    /// Event: a pod was bound to a node.
    pub const SCHEDULED: &str = "Scheduled";
    /// Event: no node fits a pod.
    pub const FAILED_SCHEDULING: &str = "FailedScheduling";
    /// `PodScheduled` condition: scheduling failed with an error.
    pub const SCHEDULER_ERROR: &str = "SchedulerError";
    /// Event: a ResourceClaim for a pod could not be created.
    pub const FAILED_CLAIM_CREATION: &str = "FailedResourceClaimCreation";
    /// `PodScheduled` condition: no node fits.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// Event: a pod was preempted.
    pub const PREEMPTED: &str = "Preempted";
    /// `DisruptionTarget` condition: preempted by a pod of higher priority.
    pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";
    /// `PodScheduled` condition: the pod has scheduling gates.
    pub const SCHEDULING_GATED: &str = "SchedulingGated";
    /// `Ready` condition: all containers terminated with exit code 0.
    pub const POD_COMPLETED: &str = "PodCompleted";
    /// `Ready` condition: a container terminated with an error.
    pub const POD_FAILED: &str = "PodFailed";
    /// `Ready` condition: some containers are not ready.
    pub const CONTAINERS_NOT_READY: &str = "ContainersNotReady";
    /// `Initialized` condition: some init containers have not completed.
    pub const CONTAINERS_NOT_INITIALIZED: &str = "ContainersNotInitialized";
    /// `Ready` condition: a readiness gate is not `True`.
    pub const READINESS_GATES_NOT_READY: &str = "ReadinessGatesNotReady";
    /// Container state: waiting for the init containers.
    pub const POD_INITIALIZING: &str = "PodInitializing";
    /// Container state: waiting for the restart backoff.
    pub const CRASH_LOOP: &str = "CrashLoopBackOff";
    /// Container state: terminated because its process could not be started.
    pub const START_ERROR: &str = "StartError";
    /// Container state: waiting because the runtime could not start it; retried with backoff.
    pub const RUN_ERROR: &str = "RunContainerError";
    /// Container state: killed for exceeding its memory limit.
    pub const OOM_KILLED: &str = "OOMKilled";
    /// Container state: the exit status is lost, for example over a restart of the kubelet.
    pub const CONTAINER_STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
    /// Pod status: terminated by a graceful node shutdown.
    pub const TERMINATED: &str = "Terminated";
    /// `DisruptionTarget` condition: the kubelet terminated the pod.
    pub const TERMINATION_BY_KUBELET: &str = "TerminationByKubelet";
    /// Event: a container was created.
    pub const CREATED: &str = "Created";
    /// Event: a container is being stopped.
    pub const KILLING: &str = "Killing";
    /// Event: a step of a container's start failed.
    pub const FAILED: &str = "Failed";
    /// Event: a container restart is delayed by its backoff.
    pub const BACK_OFF: &str = "BackOff";
    /// Event: a probe failed.
    pub const UNHEALTHY: &str = "Unhealthy";
    /// Event: a `postStart` hook failed.
    pub const FAILED_POST_START: &str = "FailedPostStartHook";
    /// Event: a `preStop` hook failed.
    pub const FAILED_PRE_STOP: &str = "FailedPreStopHook";
    /// Event: a container runs a program of the host instead of its image.
    pub const HOST_PROGRAM: &str = "HostProgram";
    /// Container state: waiting for volumes, devices or the sandbox.
    pub const CONTAINER_CREATING: &str = "ContainerCreating";
    /// Container state: its configuration is invalid, for example a missing ConfigMap key.
    pub const CREATE_CONTAINER_CONFIG: &str = "CreateContainerConfigError";
    /// Event: a volume could not be set up.
    pub const FAILED_MOUNT: &str = "FailedMount";
    /// Event: the devices of a ResourceClaim could not be prepared.
    pub const FAILED_PREPARE_DEVICES: &str = "FailedPrepareDynamicResources";
    /// Container state: terminated with exit code 0.
    pub const CONTAINER_COMPLETED: &str = "Completed";
    /// Container state: terminated with another exit code.
    pub const CONTAINER_ERROR: &str = "Error";
    /// Node condition: the kubelet is stopped.
    pub const KUBELET_NOT_READY: &str = "KubeletNotReady";
    /// Node condition: the kubelet is ready.
    pub const KUBELET_READY: &str = "KubeletReady";
    /// Event: a container started.
    pub const STARTED: &str = "Started";
    /// Event: another simulator, or a real kubelet, owns a node of this name.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// `DisruptionTarget` condition: the node of the pod was deleted.
    pub const DELETION_BY_POD_GC: &str = "DeletionByPodGC";
    /// `DisruptionTarget` condition: the pod does not tolerate a `NoExecute` taint of its node.
    pub const DELETION_BY_TAINT_MANAGER: &str = "DeletionByTaintManager";
    /// Node condition: the kubelet stopped renewing its Lease.
    pub const NODE_STATUS_UNKNOWN: &str = "NodeStatusUnknown";
    /// Event: the object needs a controller that does not run on the embedded control plane.
    pub const NO_CONTROLLER: &str = "NoController";
    /// Event: an owner reference points into another namespace.
    pub const OWNER_REF_INVALID_NAMESPACE: &str = "OwnerRefInvalidNamespace";
    /// Namespace condition: all deletes succeeded.
    pub const CONTENT_DELETED: &str = "ContentDeleted";
    /// Namespace condition: no objects remain.
    pub const CONTENT_REMOVED: &str = "ContentRemoved";
    /// Namespace condition: some objects remain.
    pub const SOME_RESOURCES_REMAIN: &str = "SomeResourcesRemain";
    /// Namespace condition: no remaining object has finalizers.
    pub const CONTENT_HAS_NO_FINALIZERS: &str = "ContentHasNoFinalizers";
    /// Namespace condition: some remaining objects have finalizers.
    pub const SOME_FINALIZERS_REMAIN: &str = "SomeFinalizersRemain";
    /// Namespace condition: API discovery succeeded.
    pub const RESOURCES_DISCOVERED: &str = "ResourcesDiscovered";
    /// Namespace condition: every group and version could be parsed.
    pub const PARSED_GROUP_VERSIONS: &str = "ParsedGroupVersions";
}

/// Taint keys that the node lifecycle controller sets.
pub mod taints {
    /// The node is cordoned.
    pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
    /// The kubelet stopped renewing its Lease.
    pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
    /// The kubelet reports not ready.
    pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
}

/// Names of controllers: field managers, users and event sources.
pub mod managers {
    use muster_tree::{Text, literal};

    /// The controller runtime itself; it only reads.
    pub static LOOP: Text = literal!("muster");
    /// Field manager of the Job controller.
    pub static JOB: Text = literal!("job-controller");
    /// Deletes finished Jobs after `ttlSecondsAfterFinished`.
    pub static TTL: Text = literal!("ttl-after-finished-controller");
    /// The scheduler of the embedded control plane, also the default `schedulerName`.
    pub static SCHEDULER: Text = literal!("default-scheduler");
    /// The `schedulerName` of Muster's scheduler on a real cluster.
    pub static MUSTER_SCHEDULER: Text = literal!("muster-scheduler");
    /// Binds PVCs to PVs.
    pub static VOLUME_BINDER: Text = literal!("persistentvolume-controller");
    /// Maintains the protection finalizer of PVCs.
    pub static CLAIM_PROTECTION: Text = literal!("pvc-protection-controller");
    /// Maintains the protection finalizer of PVs.
    pub static VOLUME_PROTECTION: Text = literal!("pv-protection-controller");
    /// Creates the PVCs of ephemeral volumes.
    pub static EPHEMERAL: Text = literal!("ephemeral_volume");
    /// Muster's provisioner of host directories.
    pub static LOCAL_PATH: Text = literal!("muster.dev/local-path");
    /// The kubelet, simulated or local.
    pub static KUBELET: Text = literal!("kubelet");
    /// Deletes dependents of deleted owners.
    pub static GC: Text = literal!("generic-garbage-collector");
    /// Deletes the content of terminating Namespaces.
    pub static NAMESPACE: Text = literal!("namespace-controller");
    /// Deletes pods of deleted nodes, and surplus terminated pods.
    pub static POD_GC: Text = literal!("pod-garbage-collector");
    /// Creates the default ServiceAccount of every namespace.
    pub static ACCOUNTS: Text = literal!("service-account-controller");
    /// Publishes the API server's CA certificate to every namespace.
    pub static ROOT_CA: Text = literal!("root-ca-cert-publisher");
    /// Maintains the EndpointSlices of Services.
    pub static SLICES: Text = literal!("endpoint-slice-controller");
    /// Creates ResourceClaims from templates and releases them.
    pub static CLAIMS: Text = literal!("ResourceClaimController");
    /// Event source of the ResourceClaim controller.
    pub static CLAIM_EVENTS: Text = literal!("resource_claim");
    /// Taints nodes with an expired Lease.
    pub static NODE_LIFECYCLE: Text = literal!("node-lifecycle-controller");
    /// Field manager of the JobSet controller.
    pub static JOBSET: Text = literal!("jobset-controller");
    /// Event source of the JobSet controller.
    pub static JOBSET_EVENTS: Text = literal!("jobset");
    /// Maintains the protection finalizer of PodGroups.
    pub static GROUP_PROTECTION: Text = literal!("podgroup-protection-controller");
    /// Evicts pods from tainted nodes.
    pub static TAINTS: Text = literal!("taint-eviction-controller");
}

/// The default of a Job's `spec.managedBy`: the built-in controller.
pub const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";
/// Environment variable with the completion index.
pub const COMPLETION_INDEX_ENV: &str = "JOB_COMPLETION_INDEX";
/// The ServiceAccount that every namespace has, used by pods that name none.
pub const DEFAULT_ACCOUNT: &str = "default";
/// The ConfigMap in every namespace with the API server's CA certificate.
pub const ROOT_CA: &str = "kube-root-ca.crt";
/// Part of the API server's message when it rejects a create in a terminating namespace.
pub const NAMESPACE_TERMINATING: &str = "because it is being terminated";
/// The namespace of the Leases that kubelets renew.
pub const NODE_LEASES: &str = "kube-node-lease";
/// The cluster domain of DNS names.
pub const CLUSTER_DOMAIN: &str = "cluster.local";
/// The Service of the API server.
pub const KUBERNETES_SERVICE: &str = "kubernetes";
/// The namespace of Events about cluster-scoped objects.
pub const DEFAULT_NAMESPACE: &str = "default";

/// JobSet: group, kind, and the keys that are both label and annotation of child Jobs and their pods.
pub mod jobset {
    /// The group and version of JobSets.
    pub const API_VERSION: &str = "jobset.x-k8s.io/v1alpha2";
    /// `apiVersion` of JobSet's configuration file.
    pub const CONFIG_VERSION: &str = "config.jobset.x-k8s.io/v1alpha1";
    /// The kind of JobSets.
    pub const KIND: &str = "JobSet";
    /// The default of `spec.managedBy`.
    pub const CONTROLLER: &str = "jobset.sigs.k8s.io/jobset-controller";
    /// Name of the JobSet.
    pub const NAME: &str = "jobset.sigs.k8s.io/jobset-name";
    /// UID of the JobSet.
    pub const UID: &str = "jobset.sigs.k8s.io/jobset-uid";
    /// Name of the replicatedJob.
    pub const GROUP: &str = "jobset.sigs.k8s.io/replicatedjob-name";
    /// Number of Jobs of the replicatedJob.
    pub const REPLICAS: &str = "jobset.sigs.k8s.io/replicatedjob-replicas";
    /// Number of Jobs of the JobSet.
    pub const GLOBAL_REPLICAS: &str = "jobset.sigs.k8s.io/global-replicas";
    /// Index of the Job within its replicatedJob.
    pub const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
    /// Index of the Job within the JobSet.
    pub const JOB_GLOBAL_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
    /// SHA-1 of namespace and Job name, unique within the cluster.
    pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";
    /// Group of replicatedJobs (`groupName`).
    pub const GROUP_NAME: &str = "jobset.sigs.k8s.io/group-name";
    /// Number of Jobs of the group.
    pub const GROUP_REPLICAS: &str = "jobset.sigs.k8s.io/group-replicas";
    /// Index of the Job within the group.
    pub const JOB_GROUP_INDEX: &str = "jobset.sigs.k8s.io/job-group-index";
    /// `status.restarts` of the JobSet when the Job was created.
    pub const RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
    /// Number of restarts of this Job alone when it was created.
    pub const JOB_RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/job-restart-attempt";
    /// DNS name of the coordinator pod.
    pub const COORDINATOR: &str = "jobset.sigs.k8s.io/coordinator";
    /// Annotation set by users: the topology key; each of its domains is exclusive to one Job.
    pub const EXCLUSIVE_TOPOLOGY: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    /// Annotation set by users: exclusive placement by pre-labelled nodes and a node selector.
    pub const NODE_SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";
    /// Node label of the pre-labelled strategy, with the namespaced Job name.
    pub const NAMESPACED_JOB: &str = "alpha.jobset.sigs.k8s.io/namespaced-job";
    /// Node taint of the pre-labelled strategy.
    pub const NO_SCHEDULE: &str = "alpha.jobset.sigs.k8s.io/no-schedule";
    /// Pod label with the priority, for exclusive placement.
    pub const PRIORITY: &str = "jobset.sigs.k8s.io/priority";
    /// Pod annotation: the in-place restart attempt that the pod has reached.
    pub const IN_PLACE_ATTEMPT: &str = "jobset.sigs.k8s.io/in-place-restart-attempt";
    /// JobSet annotation: disables the in-place restart agent.
    pub const NO_IN_PLACE: &str = "jobset.sigs.k8s.io/disable-in-place-restart";
    /// ResourceClaim label: the ResourceClaimTemplate it was generated from.
    pub const CLAIM_TEMPLATE: &str = "jobset.sigs.k8s.io/resource-claim-template";

    /// Condition types of JobSets.
    pub mod conditions {
        /// Terminal: the success policy is met.
        pub const COMPLETED: &str = "Completed";
        /// Terminal: the JobSet failed.
        pub const FAILED: &str = "Failed";
        /// `True` while suspended, `False` after it was resumed.
        pub const SUSPENDED: &str = "Suspended";
        /// Child Jobs are being recreated.
        pub const RESTARTING: &str = "RestartingJobSet";
        /// The startup policy is `InOrder` and not all replicatedJobs have started.
        pub const STARTING: &str = "StartupPolicyInProgress";
        /// The startup policy is `InOrder` and all replicatedJobs have started.
        pub const STARTED: &str = "StartupPolicyCompleted";
        /// No progress is possible; reason and message give the cause. Muster's own, with the name that kstatus uses.
        pub const STALLED: &str = "Stalled";
    }
}

/// Gang scheduling: how pods name their PodGroup, and the conditions of PodGroups.
pub mod gang {
    /// API group of Muster's own PodGroup and Workload CRDs.
    pub const OWN_GROUP: &str = "scheduling.muster.dev";
    /// Pod annotation with the name of the PodGroup, for servers that have no Pod field for it.
    pub const POD_GROUP: &str = "scheduling.muster.dev/pod-group";
    /// Pod annotation with the name of the Workload, set together with [`POD_GROUP`].
    pub const WORKLOAD: &str = "scheduling.muster.dev/workload";
    /// Pod label for selectors: a hash of the PodGroup's name, which may exceed the length of a label value.
    pub const POD_GROUP_HASH: &str = "scheduling.muster.dev/pod-group-hash";
    /// PodGroup annotation: seconds from the first scheduling attempt until the timeout condition.
    pub const DEADLINE: &str = "scheduling.muster.dev/schedule-timeout-seconds";
    /// Pod label with the PodGroup name that the coscheduling plugin reads.
    pub const COSCHEDULING: &str = "scheduling.x-k8s.io/pod-group";
    /// Pod annotation with the PodGroup name that Volcano reads.
    pub const VOLCANO: &str = "scheduling.k8s.io/group-name";

    /// Condition type of the proposal: `minCount` pods are bound.
    pub const SCHEDULED: &str = "PodGroupScheduled";
    /// Condition type from Kubernetes 1.37 on.
    pub const INITIALLY_SCHEDULED: &str = "PodGroupInitiallyScheduled";

    /// Reason: `minCount` pods are bound.
    pub const MIN_COUNT_SATISFIED: &str = "MinCountSatisfied";
    /// Reason: the scheduling timeout passed.
    pub const TIMEOUT: &str = "SchedulingTimeout";
    /// Reason: fewer than `minCount` pods exist.
    pub const WAITING_FOR_PODS: &str = "WaitingForPods";
    /// Reason: the referenced Workload or template does not exist.
    pub const WAITING_FOR_WORKLOAD: &str = "WaitingForWorkload";
    /// Reason: nodes are chosen and the binds are in flight.
    pub const IN_PROGRESS: &str = "SchedulingInProgress";

    /// Event: a pod changed its group after the scheduler read it; the change is ignored.
    pub const CHANGE_IGNORED: &str = "PodGroupChangeIgnored";
}
