//! Field paths of the Kueue API, in the storage version (`v1beta2`).

use crate::paths::paths;

paths! {
    workload of "kueue.x-k8s.io" "v1beta2" "Workload" at [] {
        POD_SETS = "spec"."podSets";
        QUEUE = "spec"."queueName";
        PRIORITY_CLASS = "spec"."priorityClassRef";
        PRIORITY = "spec"."priority";
        ACTIVE = "spec"."active";
        MAX_EXEC = "spec"."maximumExecutionTimeSeconds";
        STATUS = "status";
    }
    pod_set of "kueue.x-k8s.io" "v1beta2" "Workload" at ["spec", "podSets", "[]"] {
        NAME = "name";
        TEMPLATE = "template";
        TEMPLATE_LABELS = "template"."metadata"."labels";
        TEMPLATE_ANNOTATIONS = "template"."metadata"."annotations";
        TEMPLATE_SPEC = "template"."spec";
        COUNT = "count";
        MIN_COUNT = "minCount";
        TOPOLOGY = "topologyRequest";
    }
    priority_ref of "kueue.x-k8s.io" "v1beta2" "Workload" at ["spec", "priorityClassRef"] {
        GROUP = "group";
        KIND = "kind";
        NAME = "name";
    }
    workload_status of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status"] {
        CONDITIONS = "conditions";
        ADMISSION = "admission";
        REQUEUE = "requeueState";
        RECLAIMABLE = "reclaimablePods";
        CHECKS = "admissionChecks";
        REQUESTS = "resourceRequests";
        ACCUMULATED = "accumulatedPastExecutionTimeSeconds";
        EVICTIONS = "schedulingStats"."evictions";
        NOMINATED_CLUSTERS = "nominatedClusterNames";
        CLUSTER = "clusterName";
        UNHEALTHY_NODES = "unhealthyNodes";
    }
    admission of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admission"] {
        CLUSTER_QUEUE = "clusterQueue";
        ASSIGNMENTS = "podSetAssignments";
    }
    assignment of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admission", "podSetAssignments", "[]"] {
        NAME = "name";
        FLAVORS = "flavors";
        USAGE = "resourceUsage";
        COUNT = "count";
        TOPOLOGY = "topologyAssignment";
        DELAYED_TOPOLOGY = "delayedTopologyRequest";
    }
    requeue of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "requeueState"] {
        COUNT = "count";
        AT = "requeueAt";
    }
    reclaimable of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "reclaimablePods", "[]"] {
        NAME = "name";
        COUNT = "count";
    }
    check_state of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admissionChecks", "[]"] {
        NAME = "name";
        STATE = "state";
        SINCE = "lastTransitionTime";
        MESSAGE = "message";
        REQUEUE_AFTER = "requeueAfterSeconds";
        RETRIES = "retryCount";
        UPDATES = "podSetUpdates";
    }
    pod_set_update of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "admissionChecks", "[]", "podSetUpdates", "[]"] {
        NAME = "name";
        LABELS = "labels";
        ANNOTATIONS = "annotations";
        NODE_SELECTOR = "nodeSelector";
        TOLERATIONS = "tolerations";
    }
    request of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "resourceRequests", "[]"] {
        NAME = "name";
        RESOURCES = "resources";
    }
    eviction of "kueue.x-k8s.io" "v1beta2" "Workload" at ["status", "schedulingStats", "evictions", "[]"] {
        REASON = "reason";
        CAUSE = "underlyingCause";
        COUNT = "count";
    }
    cluster_queue of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at [] {
        GROUPS = "spec"."resourceGroups";
        COHORT = "spec"."cohortName";
        STRATEGY = "spec"."queueingStrategy";
        NAMESPACES = "spec"."namespaceSelector";
        WHEN_CAN_BORROW = "spec"."flavorFungibility"."whenCanBorrow";
        WHEN_CAN_PREEMPT = "spec"."flavorFungibility"."whenCanPreempt";
        PREFERENCE = "spec"."flavorFungibility"."preference";
        RECLAIM = "spec"."preemption"."reclaimWithinCohort";
        BORROW_POLICY = "spec"."preemption"."borrowWithinCohort"."policy";
        BORROW_THRESHOLD = "spec"."preemption"."borrowWithinCohort"."maxPriorityThreshold";
        WITHIN = "spec"."preemption"."withinClusterQueue";
        CHECKS = "spec"."admissionChecksStrategy"."admissionChecks";
        STOP = "spec"."stopPolicy";
        WEIGHT = "spec"."fairSharing"."weight";
        ADMISSION_MODE = "spec"."admissionScope"."admissionMode";
        STATUS = "status";
    }
    resource_group of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "resourceGroups", "[]"] {
        COVERED = "coveredResources";
        FLAVORS = "flavors";
    }
    flavor_quotas of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "resourceGroups", "[]", "flavors", "[]"] {
        NAME = "name";
        RESOURCES = "resources";
    }
    quota of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "resourceGroups", "[]", "flavors", "[]", "resources", "[]"] {
        NAME = "name";
        NOMINAL = "nominalQuota";
        BORROWING = "borrowingLimit";
        LENDING = "lendingLimit";
    }
    check_rule of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["spec", "admissionChecksStrategy", "admissionChecks", "[]"] {
        NAME = "name";
        /// Empty means every flavor.
        FLAVORS = "onFlavors";
    }
    /// The status of a ClusterQueue; a LocalQueue has the same fields, without `borrowed`.
    queue_status of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["status"] {
        CONDITIONS = "conditions";
        RESERVATION = "flavorsReservation";
        USAGE = "flavorsUsage";
        PENDING = "pendingWorkloads";
        RESERVING = "reservingWorkloads";
        ADMITTED = "admittedWorkloads";
        SHARE = "fairSharing"."weightedShare";
    }
    flavor_usage of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["status", "flavorsUsage", "[]"] {
        NAME = "name";
        RESOURCES = "resources";
    }
    resource_usage of "kueue.x-k8s.io" "v1beta2" "ClusterQueue" at ["status", "flavorsUsage", "[]", "resources", "[]"] {
        NAME = "name";
        TOTAL = "total";
        BORROWED = "borrowed";
    }
    local_queue of "kueue.x-k8s.io" "v1beta2" "LocalQueue" at [] {
        CLUSTER_QUEUE = "spec"."clusterQueue";
        STOP = "spec"."stopPolicy";
        WEIGHT = "spec"."fairSharing"."weight";
        STATUS = "status";
        CONSUMED = "status"."fairSharing"."admissionFairSharingStatus";
    }
    cohort of "kueue.x-k8s.io" "v1beta2" "Cohort" at [] {
        PARENT = "spec"."parentName";
        GROUPS = "spec"."resourceGroups";
        WEIGHT = "spec"."fairSharing"."weight";
        STATUS = "status";
    }
    flavor of "kueue.x-k8s.io" "v1beta2" "ResourceFlavor" at [] {
        LABELS = "spec"."nodeLabels";
        TAINTS = "spec"."nodeTaints";
        TOLERATIONS = "spec"."tolerations";
        TOPOLOGY = "spec"."topologyName";
    }
    check of "kueue.x-k8s.io" "v1beta2" "AdmissionCheck" at [] {
        CONTROLLER = "spec"."controllerName";
        PARAMETERS = "spec"."parameters";
        CONDITIONS = "status"."conditions";
    }
    priority_class of "kueue.x-k8s.io" "v1beta2" "WorkloadPriorityClass" at [] {
        VALUE = "value";
        DESCRIPTION = "description";
    }
    topology of "kueue.x-k8s.io" "v1beta2" "Topology" at [] {
        LEVELS = "spec"."levels";
    }
    topology_level of "kueue.x-k8s.io" "v1beta2" "Topology" at ["spec", "levels", "[]"] {
        LABEL = "nodeLabel";
    }
}
