//! Every field path that controllers read or write, one table per kind.
//!
//! A test resolves each path against the schema table, so that a misspelt field cannot pass. The root of a
//! table says where its paths start; `[]` stands for the items of a list.

/// One table: where it starts, and its paths.
pub struct Table {
    /// Group, version and kind of the object.
    pub kind: (&'static str, &'static str, &'static str),
    /// Path from the object to where this table's paths start.
    pub root: &'static [&'static str],
    /// The paths.
    pub paths: &'static [&'static [&'static str]],
}

macro_rules! paths {
    ($($(#[$doc:meta])* $module:ident of $group:literal $version:literal $kind:literal at [$($root:literal),*] {
        $($(#[$pdoc:meta])* $name:ident = $($step:literal).+;)+
    })+) => {
        $( $(#[$doc])* pub mod $module {
            $( $(#[$pdoc])* pub const $name: &[&str] = &[$($step),+]; )+
            /// This table.
            pub const TABLE: super::Table = super::Table {
                kind: ($group, $version, $kind), root: &[$($root),*], paths: &[$($name),+] };
        } )+
        /// All tables.
        pub const TABLES: &[Table] = &[$($module::TABLE),+];
    };
}

paths! {
    /// Metadata of every kind; checked on Pods.
    meta of "" "v1" "Pod" at [] {
        /// Name.
        NAME = "metadata"."name";
        /// Namespace.
        NAMESPACE = "metadata"."namespace";
        /// UID.
        UID = "metadata"."uid";
        /// Labels.
        LABELS = "metadata"."labels";
        /// Annotations.
        ANNOTATIONS = "metadata"."annotations";
        /// Finalizers.
        FINALIZERS = "metadata"."finalizers";
        /// Owners.
        OWNERS = "metadata"."ownerReferences";
        /// When created.
        CREATED = "metadata"."creationTimestamp";
        /// When deleted.
        DELETED = "metadata"."deletionTimestamp";
        /// How often the spec was changed.
        GENERATION = "metadata"."generation";
        /// Grace of the delete.
        GRACE = "metadata"."deletionGracePeriodSeconds";
    }
    /// An owner.
    owner of "" "v1" "Pod" at ["metadata", "ownerReferences", "[]"] {
        /// Version.
        API_VERSION = "apiVersion";
        /// Kind.
        KIND = "kind";
        /// Name.
        NAME = "name";
        /// UID.
        UID = "uid";
        /// Whether it manages.
        CONTROLLER = "controller";
        /// Whether it blocks.
        BLOCKS = "blockOwnerDeletion";
    }
    /// A condition; checked on Pods.
    condition of "" "v1" "Pod" at ["status", "conditions", "[]"] {
        /// Type.
        TYPE = "type";
        /// Status.
        STATUS = "status";
        /// Reason.
        REASON = "reason";
        /// Message.
        MESSAGE = "message";
        /// Transition time.
        SINCE = "lastTransitionTime";
        /// Of which generation of the object it tells.
        GENERATION = "observedGeneration";
        /// Probe time.
        PROBED = "lastProbeTime";
    }
    /// Pods.
    pod of "" "v1" "Pod" at [] {
        /// Node.
        NODE_NAME = "spec"."nodeName";
        /// Scheduler.
        SCHEDULER = "spec"."schedulerName";
        /// Gates.
        GATES = "spec"."schedulingGates";
        /// Priority.
        PRIORITY = "spec"."priority";
        /// Node selector.
        NODE_SELECTOR = "spec"."nodeSelector";
        /// Required node affinity.
        NODE_AFFINITY = "spec"."affinity"."nodeAffinity"."requiredDuringSchedulingIgnoredDuringExecution"."nodeSelectorTerms";
        /// Preferred node affinity.
        NODE_PREFERENCES = "spec"."affinity"."nodeAffinity"."preferredDuringSchedulingIgnoredDuringExecution";
        /// Required pod affinity.
        POD_AFFINITY = "spec"."affinity"."podAffinity"."requiredDuringSchedulingIgnoredDuringExecution";
        /// Preferred pod affinity.
        POD_PREFERENCES = "spec"."affinity"."podAffinity"."preferredDuringSchedulingIgnoredDuringExecution";
        /// Required pod anti-affinity.
        ANTI_AFFINITY = "spec"."affinity"."podAntiAffinity"."requiredDuringSchedulingIgnoredDuringExecution";
        /// Preferred pod anti-affinity.
        ANTI_PREFERENCES = "spec"."affinity"."podAntiAffinity"."preferredDuringSchedulingIgnoredDuringExecution";
        /// Rules of spreading.
        SPREAD = "spec"."topologySpreadConstraints";
        /// Whether it may preempt others.
        PREEMPTION_POLICY = "spec"."preemptionPolicy";
        /// Requests of the pod as a whole.
        REQUESTS = "spec"."resources"."requests";
        /// The node that is being cleared for it.
        NOMINATED = "status"."nominatedNodeName";
        /// Tolerations.
        TOLERATIONS = "spec"."tolerations";
        /// Containers.
        CONTAINERS = "spec"."containers";
        /// Init containers.
        INIT_CONTAINERS = "spec"."initContainers";
        /// Overhead.
        OVERHEAD = "spec"."overhead";
        /// Restart policy.
        RESTART_POLICY = "spec"."restartPolicy";
        /// Host name.
        HOSTNAME = "spec"."hostname";
        /// The Service that names the pod.
        SUBDOMAIN = "spec"."subdomain";
        /// Phase.
        PHASE = "status"."phase";
        /// Conditions.
        CONDITIONS = "status"."conditions";
        /// Container statuses.
        CONTAINER_STATUSES = "status"."containerStatuses";
        /// Init container statuses.
        INIT_STATUSES = "status"."initContainerStatuses";
        /// Start.
        START_TIME = "status"."startTime";
        /// Address.
        POD_IP = "status"."podIP";
    }
    /// A container.
    container of "" "v1" "Pod" at ["spec", "containers", "[]"] {
        /// Name.
        NAME = "name";
        /// Image.
        IMAGE = "image";
        /// Requests.
        REQUESTS = "resources"."requests";
        /// Environment.
        ENV = "env";
        /// Restart policy (sidecars).
        RESTART_POLICY = "restartPolicy";
        /// Ports.
        PORTS = "ports";
    }
    /// A port of a container.
    container_port of "" "v1" "Pod" at ["spec", "containers", "[]", "ports", "[]"] {
        /// Port of the host; 0 when it needs none.
        HOST_PORT = "hostPort";
        /// Address of the host.
        HOST_IP = "hostIP";
        /// Protocol.
        PROTOCOL = "protocol";
    }
    /// A preferred term of node affinity.
    node_preference of "" "v1" "Pod" at ["spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "[]"] {
        /// Weight.
        WEIGHT = "weight";
        /// Term.
        TERM = "preference";
    }
    /// A required term of pod affinity or anti-affinity.
    pod_term of "" "v1" "Pod" at ["spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "[]"] {
        /// Which pods.
        SELECTOR = "labelSelector";
        /// Of which namespaces.
        NAMESPACES = "namespaces";
        /// Of which namespaces, by label.
        NAMESPACE_SELECTOR = "namespaceSelector";
        /// Same value of which node label.
        TOPOLOGY_KEY = "topologyKey";
        /// Labels that must be as this pod's.
        MATCH_KEYS = "matchLabelKeys";
        /// Labels that must not be as this pod's.
        MISMATCH_KEYS = "mismatchLabelKeys";
    }
    /// A preferred term of pod affinity or anti-affinity.
    pod_preference of "" "v1" "Pod" at ["spec", "affinity", "podAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "[]"] {
        /// Weight.
        WEIGHT = "weight";
        /// Term.
        TERM = "podAffinityTerm";
    }
    /// A rule of spreading.
    spread of "" "v1" "Pod" at ["spec", "topologySpreadConstraints", "[]"] {
        /// Largest difference.
        MAX_SKEW = "maxSkew";
        /// Over the values of which node label.
        TOPOLOGY_KEY = "topologyKey";
        /// What happens when it cannot be kept.
        WHEN = "whenUnsatisfiable";
        /// Which pods count.
        SELECTOR = "labelSelector";
        /// Fewest domains.
        MIN_DOMAINS = "minDomains";
        /// Whether nodes outside the pod's affinity count.
        AFFINITY_POLICY = "nodeAffinityPolicy";
        /// Whether nodes with taints count.
        TAINTS_POLICY = "nodeTaintsPolicy";
        /// Labels that must be as this pod's.
        MATCH_KEYS = "matchLabelKeys";
    }
    /// Disruption budgets.
    budget of "policy" "v1" "PodDisruptionBudget" at [] {
        /// Which pods.
        SELECTOR = "spec"."selector";
        /// How many may go now.
        ALLOWED = "status"."disruptionsAllowed";
        /// Pods already on their way.
        DISRUPTED = "status"."disruptedPods";
    }
    /// A container's status.
    container_status of "" "v1" "Pod" at ["status", "containerStatuses", "[]"] {
        /// Name.
        NAME = "name";
        /// Restarts.
        RESTARTS = "restartCount";
        /// With which code it ended.
        EXIT_CODE = "state"."terminated"."exitCode";
        /// When it ended.
        FINISHED = "state"."terminated"."finishedAt";
        /// When it began.
        STARTED = "state"."running"."startedAt";
    }
    /// A term of the required node affinity.
    node_term of "" "v1" "Pod" at ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "[]"] {
        /// Expressions over labels.
        EXPRESSIONS = "matchExpressions";
        /// Expressions over fields.
        FIELDS = "matchFields";
    }
    /// An expression of a node affinity term.
    expression of "" "v1" "Pod" at ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "[]", "matchExpressions", "[]"] {
        /// Key.
        KEY = "key";
        /// Operator.
        OPERATOR = "operator";
        /// Values.
        VALUES = "values";
    }
    /// A toleration.
    toleration of "" "v1" "Pod" at ["spec", "tolerations", "[]"] {
        /// Key.
        KEY = "key";
        /// Operator.
        OPERATOR = "operator";
        /// Value.
        VALUE = "value";
        /// Effect.
        EFFECT = "effect";
        /// For how long.
        SECONDS = "tolerationSeconds";
    }
    /// Nodes.
    node of "" "v1" "Node" at [] {
        /// Whether it takes no new pods.
        UNSCHEDULABLE = "spec"."unschedulable";
        /// Taints.
        TAINTS = "spec"."taints";
        /// What it has for pods.
        ALLOCATABLE = "status"."allocatable";
        /// What it has.
        CAPACITY = "status"."capacity";
        /// Conditions.
        CONDITIONS = "status"."conditions";
    }
    /// A taint.
    taint of "" "v1" "Node" at ["spec", "taints", "[]"] {
        /// Key.
        KEY = "key";
        /// Value.
        VALUE = "value";
        /// Effect.
        EFFECT = "effect";
        /// When it was added.
        ADDED = "timeAdded";
    }
    /// Jobs.
    job of "batch" "v1" "Job" at [] {
        /// Parallelism.
        PARALLELISM = "spec"."parallelism";
        /// Completions.
        COMPLETIONS = "spec"."completions";
        /// Completion mode.
        MODE = "spec"."completionMode";
        /// Back-off limit.
        BACKOFF_LIMIT = "spec"."backoffLimit";
        /// Whether suspended.
        SUSPEND = "spec"."suspend";
        /// Deadline.
        DEADLINE = "spec"."activeDeadlineSeconds";
        /// Time to live when finished.
        TTL = "spec"."ttlSecondsAfterFinished";
        /// Who manages it.
        MANAGED_BY = "spec"."managedBy";
        /// When pods are replaced.
        REPLACEMENT = "spec"."podReplacementPolicy";
        /// Pod failure policy.
        FAILURE_POLICY = "spec"."podFailurePolicy";
        /// Success policy.
        SUCCESS_POLICY = "spec"."successPolicy";
        /// Rules of the pod failure policy.
        FAILURE_RULES = "spec"."podFailurePolicy"."rules";
        /// Rules of the success policy.
        SUCCESS_RULES = "spec"."successPolicy"."rules";
        /// Selector of its pods.
        SELECTOR = "spec"."selector";
        /// Limit per index.
        BACKOFF_PER_INDEX = "spec"."backoffLimitPerIndex";
        /// Most failed indexes.
        MAX_FAILED_INDEXES = "spec"."maxFailedIndexes";
        /// Template.
        TEMPLATE = "spec"."template";
        /// Metadata of the template.
        TEMPLATE_META = "spec"."template"."metadata";
        /// Spec of the template.
        TEMPLATE_SPEC = "spec"."template"."spec";
        /// Restart policy of the template.
        RESTART_POLICY = "spec"."template"."spec"."restartPolicy";
        /// Status.
        STATUS = "status";
    }
    /// A rule of a Job's pod failure policy.
    failure_rule of "batch" "v1" "Job" at ["spec", "podFailurePolicy", "rules", "[]"] {
        /// What happens.
        ACTION = "action";
        /// Whether it is about exit codes.
        ON_EXIT_CODES = "onExitCodes";
        /// Container.
        CONTAINER = "onExitCodes"."containerName";
        /// Operator.
        OPERATOR = "onExitCodes"."operator";
        /// Codes.
        CODES = "onExitCodes"."values";
        /// Conditions.
        ON_CONDITIONS = "onPodConditions";
    }
    /// A condition in a rule of a Job's pod failure policy.
    failure_condition of "batch" "v1" "Job" at ["spec", "podFailurePolicy", "rules", "[]", "onPodConditions", "[]"] {
        /// Type.
        TYPE = "type";
        /// Status.
        STATUS = "status";
    }
    /// A rule of a Job's success policy.
    success_rule of "batch" "v1" "Job" at ["spec", "successPolicy", "rules", "[]"] {
        /// Indexes.
        INDEXES = "succeededIndexes";
        /// How many.
        COUNT = "succeededCount";
    }
    /// A label selector; checked on Jobs.
    selector of "batch" "v1" "Job" at ["spec", "selector"] {
        /// Labels.
        LABELS = "matchLabels";
        /// Expressions.
        EXPRESSIONS = "matchExpressions";
    }
    /// An expression of a label selector; checked on Jobs.
    label_expression of "batch" "v1" "Job" at ["spec", "selector", "matchExpressions", "[]"] {
        /// Key.
        KEY = "key";
        /// Operator.
        OPERATOR = "operator";
        /// Values.
        VALUES = "values";
    }
    /// A Job's status.
    job_status of "batch" "v1" "Job" at ["status"] {
        /// Active pods.
        ACTIVE = "active";
        /// Ready pods.
        READY = "ready";
        /// Terminating pods.
        TERMINATING = "terminating";
        /// Succeeded pods.
        SUCCEEDED = "succeeded";
        /// Failed pods.
        FAILED = "failed";
        /// Start.
        START_TIME = "startTime";
        /// Completion.
        COMPLETION_TIME = "completionTime";
        /// Completed indexes.
        COMPLETED_INDEXES = "completedIndexes";
        /// Failed indexes.
        FAILED_INDEXES = "failedIndexes";
        /// Conditions.
        CONDITIONS = "conditions";
        /// Not yet counted.
        UNCOUNTED = "uncountedTerminatedPods";
        /// Not yet counted, succeeded.
        UNCOUNTED_SUCCEEDED = "uncountedTerminatedPods"."succeeded";
        /// Not yet counted, failed.
        UNCOUNTED_FAILED = "uncountedTerminatedPods"."failed";
    }
    /// Namespaces.
    namespace of "" "v1" "Namespace" at [] {
        /// Finalizers of the content.
        FINALIZERS = "spec"."finalizers";
        /// Phase.
        PHASE = "status"."phase";
        /// Conditions.
        CONDITIONS = "status"."conditions";
    }
    /// Services.
    service of "" "v1" "Service" at [] {
        /// Which pods.
        SELECTOR = "spec"."selector";
        /// Its address.
        CLUSTER_IP = "spec"."clusterIP";
        /// Its ports.
        PORTS = "spec"."ports";
        /// Whether pods are named before they are ready.
        PUBLISH_NOT_READY = "spec"."publishNotReadyAddresses";
    }
    /// EndpointSlices.
    endpoint_slice of "discovery.k8s.io" "v1" "EndpointSlice" at [] {
        /// Ports.
        PORTS = "ports";
        /// Endpoints.
        ENDPOINTS = "endpoints";
    }
    /// Leases.
    lease of "coordination.k8s.io" "v1" "Lease" at [] {
        /// When renewed.
        RENEWED = "spec"."renewTime";
        /// Who holds it.
        HOLDER = "spec"."holderIdentity";
    }
}
