//! Every field of the kinds of queueing that is read or written, in the stored version.

use crate::paths::paths;

paths! {
    /// A Workload.
    workload of "kueue.x-k8s.io" "v1beta2" "Workload" at [] {
        /// Its pods, by template.
        POD_SETS = "spec"."podSets";
        /// The LocalQueue.
        QUEUE = "spec"."queueName";
        /// The class of priority.
        PRIORITY_CLASS = "spec"."priorityClassRef";
        /// Priority.
        PRIORITY = "spec"."priority";
        /// Whether it wants to run.
        ACTIVE = "spec"."active";
        /// For how long it may run.
        MAX_EXEC = "spec"."maximumExecutionTimeSeconds";
        /// Status.
        STATUS = "status";
    }
    /// A pod set of a Workload.
    pod_set of "kueue.x-k8s.io" "v1beta2" "Workload" at ["spec", "podSets", "[]"] {
        /// Name.
        NAME = "name";
        /// The pods.
        TEMPLATE = "template";
        /// Labels of the pods.
        TEMPLATE_LABELS = "template"."metadata"."labels";
        /// Annotations of the pods.
        TEMPLATE_ANNOTATIONS = "template"."metadata"."annotations";
        /// What the pods are.
        TEMPLATE_SPEC = "template"."spec";
        /// How many.
        COUNT = "count";
        /// So many are enough.
        MIN_COUNT = "minCount";
        /// How they lie to each other.
        TOPOLOGY = "topologyRequest";
    }
    /// A reference to a class of priority.
    priority_ref of "kueue.x-k8s.io" "v1beta2" "Workload" at ["spec", "priorityClassRef"] {
        /// Group.
        GROUP = "group";
        /// Kind.
        KIND = "kind";
        /// Name.
        NAME = "name";
    }
    /// The status of a Workload.
    workload_status of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status"] {
        /// Conditions.
        CONDITIONS = "conditions";
        /// What it was given.
        ADMISSION = "admission";
        /// When it may queue again.
        REQUEUE = "requeueState";
        /// Pods whose share is free again.
        RECLAIMABLE = "reclaimablePods";
        /// Checks.
        CHECKS = "admissionChecks";
        /// What it asks for while it waits.
        REQUESTS = "resourceRequests";
        /// For how long it ran in earlier tries.
        ACCUMULATED = "accumulatedPastExecutionTimeSeconds";
        /// How often it was evicted.
        EVICTIONS = "schedulingStats"."evictions";
        /// Clusters it might go to.
        NOMINATED_CLUSTERS = "nominatedClusterNames";
        /// The cluster it went to.
        CLUSTER = "clusterName";
        /// Nodes that failed under it.
        UNHEALTHY_NODES = "unhealthyNodes";
    }
    /// What a Workload was given.
    admission of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admission"] {
        /// By which queue.
        CLUSTER_QUEUE = "clusterQueue";
        /// What each pod set was given.
        ASSIGNMENTS = "podSetAssignments";
    }
    /// What a pod set was given.
    assignment of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admission", "podSetAssignments", "[]"] {
        /// Name.
        NAME = "name";
        /// Flavors, by resource.
        FLAVORS = "flavors";
        /// Amounts, by resource.
        USAGE = "resourceUsage";
        /// How many pods.
        COUNT = "count";
        /// Where.
        TOPOLOGY = "topologyAssignment";
        /// Whether that is still to be found.
        DELAYED_TOPOLOGY = "delayedTopologyRequest";
    }
    /// When a Workload may queue again.
    requeue of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "requeueState"] {
        /// How often it did.
        COUNT = "count";
        /// When.
        AT = "requeueAt";
    }
    /// Pods of a set whose share is free again.
    reclaimable of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "reclaimablePods", "[]"] {
        /// Name of the set.
        NAME = "name";
        /// How many.
        COUNT = "count";
    }
    /// A check of a Workload.
    check_state of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admissionChecks", "[]"] {
        /// Name.
        NAME = "name";
        /// State.
        STATE = "state";
        /// Since when.
        SINCE = "lastTransitionTime";
        /// Message.
        MESSAGE = "message";
        /// How long to wait before queueing again.
        REQUEUE_AFTER = "requeueAfterSeconds";
        /// How often it said that.
        RETRIES = "retryCount";
        /// What it changes of the pods.
        UPDATES = "podSetUpdates";
    }
    /// What a check changes of pods.
    pod_set_update of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admissionChecks", "[]", "podSetUpdates", "[]"] {
        /// Name of the set.
        NAME = "name";
        /// Labels.
        LABELS = "labels";
        /// Annotations.
        ANNOTATIONS = "annotations";
        /// Node selector.
        NODE_SELECTOR = "nodeSelector";
        /// Tolerations.
        TOLERATIONS = "tolerations";
    }
    /// What a pod set asks for.
    request of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "resourceRequests", "[]"] {
        /// Name of the set.
        NAME = "name";
        /// Amounts, by resource.
        RESOURCES = "resources";
    }
    /// How often a Workload was evicted for one reason.
    eviction of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "schedulingStats", "evictions", "[]"] {
        /// Reason.
        REASON = "reason";
        /// What is behind it.
        CAUSE = "underlyingCause";
        /// How often.
        COUNT = "count";
    }
    /// A ClusterQueue.
    cluster_queue of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at [] {
        /// What it has, by groups of resources.
        GROUPS = "spec"."resourceGroups";
        /// With whom it shares.
        COHORT = "spec"."cohortName";
        /// Order.
        STRATEGY = "spec"."queueingStrategy";
        /// Whose LocalQueues may use it.
        NAMESPACES = "spec"."namespaceSelector";
        /// Whether to look further when it would borrow.
        WHEN_CAN_BORROW = "spec"."flavorFungibility"."whenCanBorrow";
        /// Whether to look further when it would preempt.
        WHEN_CAN_PREEMPT = "spec"."flavorFungibility"."whenCanPreempt";
        /// Which of the two it would rather do.
        PREFERENCE = "spec"."flavorFungibility"."preference";
        /// Whom it may make leave elsewhere.
        RECLAIM = "spec"."preemption"."reclaimWithinCohort";
        /// Whom it may make leave while it borrows.
        BORROW_POLICY = "spec"."preemption"."borrowWithinCohort"."policy";
        /// Up to which priority.
        BORROW_THRESHOLD = "spec"."preemption"."borrowWithinCohort"."maxPriorityThreshold";
        /// Whom it may make leave of its own.
        WITHIN = "spec"."preemption"."withinClusterQueue";
        /// What else must agree.
        CHECKS = "spec"."admissionChecksStrategy"."admissionChecks";
        /// Whether it is stopped.
        STOP = "spec"."stopPolicy";
        /// Its weight among others.
        WEIGHT = "spec"."fairSharing"."weight";
        /// Whether LocalQueues are weighed by what they used.
        ADMISSION_MODE = "spec"."admissionScope"."admissionMode";
        /// Status.
        STATUS = "status";
    }
    /// A group of resources.
    resource_group of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "resourceGroups", "[]"] {
        /// Resources.
        COVERED = "coveredResources";
        /// Flavors.
        FLAVORS = "flavors";
    }
    /// A flavor of a group.
    flavor_quotas of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "resourceGroups", "[]", "flavors", "[]"] {
        /// Name.
        NAME = "name";
        /// Quotas, by resource.
        RESOURCES = "resources";
    }
    /// The quota of one resource of one flavor.
    quota of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "resourceGroups", "[]", "flavors", "[]", "resources", "[]"] {
        /// Name of the resource.
        NAME = "name";
        /// How much.
        NOMINAL = "nominalQuota";
        /// How much of others.
        BORROWING = "borrowingLimit";
        /// How much for others.
        LENDING = "lendingLimit";
    }
    /// A check of a ClusterQueue.
    check_rule of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "admissionChecksStrategy", "admissionChecks", "[]"] {
        /// Name.
        NAME = "name";
        /// For which flavors; for all when empty.
        FLAVORS = "onFlavors";
    }
    /// The status of a queue; LocalQueues have the same but for what is borrowed.
    queue_status of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["status"] {
        /// Conditions.
        CONDITIONS = "conditions";
        /// What is set aside.
        RESERVATION = "flavorsReservation";
        /// What is in use.
        USAGE = "flavorsUsage";
        /// How many wait.
        PENDING = "pendingWorkloads";
        /// How many have shares.
        RESERVING = "reservingWorkloads";
        /// How many may run.
        ADMITTED = "admittedWorkloads";
        /// Its share, weighed.
        SHARE = "fairSharing"."weightedShare";
    }
    /// What is used of a flavor.
    flavor_usage of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["status", "flavorsUsage", "[]"] {
        /// Name.
        NAME = "name";
        /// By resource.
        RESOURCES = "resources";
    }
    /// What is used of a resource.
    resource_usage of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["status", "flavorsUsage", "[]", "resources", "[]"] {
        /// Name.
        NAME = "name";
        /// How much.
        TOTAL = "total";
        /// How much of it belongs to others.
        BORROWED = "borrowed";
    }
    /// A LocalQueue.
    local_queue of "kueue.x-k8s.io" "v1beta2" "LocalQueue" at [] {
        /// Its ClusterQueue.
        CLUSTER_QUEUE = "spec"."clusterQueue";
        /// Whether it is stopped.
        STOP = "spec"."stopPolicy";
        /// Its weight among others.
        WEIGHT = "spec"."fairSharing"."weight";
        /// Status.
        STATUS = "status";
        /// What it used, over time.
        CONSUMED = "status"."fairSharing"."admissionFairSharingStatus";
    }
    /// A Cohort.
    cohort of "kueue.x-k8s.io" "v1beta2" "Cohort" at [] {
        /// The Cohort it is in.
        PARENT = "spec"."parentName";
        /// What it has, by groups of resources.
        GROUPS = "spec"."resourceGroups";
        /// Its weight among others.
        WEIGHT = "spec"."fairSharing"."weight";
        /// Status.
        STATUS = "status";
    }
    /// A ResourceFlavor.
    flavor of "kueue.x-k8s.io" "v1beta2" "ResourceFlavor" at [] {
        /// Labels of its nodes.
        LABELS = "spec"."nodeLabels";
        /// Taints of its nodes.
        TAINTS = "spec"."nodeTaints";
        /// Tolerations that pods get.
        TOLERATIONS = "spec"."tolerations";
        /// How its nodes lie to each other.
        TOPOLOGY = "spec"."topologyName";
    }
    /// An AdmissionCheck.
    check of "kueue.x-k8s.io" "v1beta2" "AdmissionCheck" at [] {
        /// Who decides.
        CONTROLLER = "spec"."controllerName";
        /// What he is told.
        PARAMETERS = "spec"."parameters";
        /// Conditions.
        CONDITIONS = "status"."conditions";
    }
    /// A class of priority.
    priority_class of "kueue.x-k8s.io" "v1beta2" "WorkloadPriorityClass" at [] {
        /// Value.
        VALUE = "value";
        /// Description.
        DESCRIPTION = "description";
    }
    /// A Topology.
    topology of "kueue.x-k8s.io" "v1beta2" "Topology" at [] {
        /// Levels, the widest first.
        LEVELS = "spec"."levels";
    }
    /// A level of a Topology.
    topology_level of "kueue.x-k8s.io" "v1beta2" "Topology" at ["spec", "levels", "[]"] {
        /// The label whose values are the domains.
        LABEL = "nodeLabel";
    }
}
