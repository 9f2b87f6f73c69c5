//! Every field path that controllers read or write, one table per object or nested type.
//!
//! A test resolves each path against the schema table, so that a misspelt field fails the build. The root of a
//! table is the path from the object to the nested type; `[]` stands for the items of a list. Constants carry no
//! comment of their own: their documentation is the path itself, and the field's meaning is upstream's.

/// One table of paths, for the test that resolves them.
pub struct Table {
    /// Group, version and kind of the object.
    pub kind: (&'static str, &'static str, &'static str),
    /// Path from the object to where the paths of this table start.
    pub root: &'static [&'static str],
    /// Every path of the table, relative to `root`.
    pub paths: &'static [&'static [&'static str]],
}

macro_rules! paths {
    ($($(#[$doc:meta])* $module:ident of $group:literal $version:literal $kind:literal at [$($root:literal),*] {
        $($(#[$pdoc:meta])* $name:ident = $($step:literal).+;)+
    })+) => {
        $( $(#[$doc])* #[doc = concat!("Paths of `", $kind, $(".", $root,)* "`.")] pub mod $module {
            $( $(#[$pdoc])* #[doc = concat!("`", $(".", $step,)+ "`")] pub const $name: &[&str] = &[$($step),+]; )+
            /// Every path of this module, for the test that resolves them.
            pub const TABLE: $crate::paths::Table = $crate::paths::Table {
                kind: ($group, $version, $kind), root: &[$($root),*], paths: &[$($name),+] };
        } )+
        /// Every table of this module, for the test that resolves them.
        pub const TABLES: &[$crate::paths::Table] = &[$($module::TABLE),+];
    };
}
pub(crate) use paths;

paths! {
    /// Metadata of every kind; the schema test checks them on Pods.
    meta of "" "v1" "Pod" at [] {
        NAME = "metadata"."name";
        NAMESPACE = "metadata"."namespace";
        UID = "metadata"."uid";
        LABELS = "metadata"."labels";
        ANNOTATIONS = "metadata"."annotations";
        FINALIZERS = "metadata"."finalizers";
        OWNERS = "metadata"."ownerReferences";
        CREATED = "metadata"."creationTimestamp";
        DELETED = "metadata"."deletionTimestamp";
        GENERATE_NAME = "metadata"."generateName";
        GENERATION = "metadata"."generation";
        GRACE = "metadata"."deletionGracePeriodSeconds";
    }
    owner of "" "v1" "Pod" at ["metadata", "ownerReferences", "[]"] {
        API_VERSION = "apiVersion";
        KIND = "kind";
        NAME = "name";
        UID = "uid";
        CONTROLLER = "controller";
        BLOCKS = "blockOwnerDeletion";
    }
    /// Conditions of every kind; the schema test checks them on Pods.
    condition of "" "v1" "Pod" at ["status", "conditions", "[]"] {
        TYPE = "type";
        STATUS = "status";
        REASON = "reason";
        MESSAGE = "message";
        SINCE = "lastTransitionTime";
        GENERATION = "observedGeneration";
        PROBED = "lastProbeTime";
    }
    pod of "" "v1" "Pod" at [] {
        NODE_NAME = "spec"."nodeName";
        SCHEDULER = "spec"."schedulerName";
        GATES = "spec"."schedulingGates";
        PRIORITY = "spec"."priority";
        NODE_SELECTOR = "spec"."nodeSelector";
        NODE_AFFINITY = "spec"."affinity"."nodeAffinity"."requiredDuringSchedulingIgnoredDuringExecution"."nodeSelectorTerms";
        NODE_PREFERENCES = "spec"."affinity"."nodeAffinity"."preferredDuringSchedulingIgnoredDuringExecution";
        POD_AFFINITY = "spec"."affinity"."podAffinity"."requiredDuringSchedulingIgnoredDuringExecution";
        POD_PREFERENCES = "spec"."affinity"."podAffinity"."preferredDuringSchedulingIgnoredDuringExecution";
        ANTI_AFFINITY = "spec"."affinity"."podAntiAffinity"."requiredDuringSchedulingIgnoredDuringExecution";
        ANTI_PREFERENCES = "spec"."affinity"."podAntiAffinity"."preferredDuringSchedulingIgnoredDuringExecution";
        AFFINITY = "spec"."affinity";
        SPREAD = "spec"."topologySpreadConstraints";
        PREEMPTION_POLICY = "spec"."preemptionPolicy";
        REQUESTS = "spec"."resources"."requests";
        NOMINATED = "status"."nominatedNodeName";
        CLAIMS = "spec"."resourceClaims";
        MADE_CLAIMS = "status"."resourceClaimStatuses";
        TOLERATIONS = "spec"."tolerations";
        VOLUMES = "spec"."volumes";
        CONTAINERS = "spec"."containers";
        INIT_CONTAINERS = "spec"."initContainers";
        OVERHEAD = "spec"."overhead";
        RUNTIME_CLASS = "spec"."runtimeClassName";
        PRIORITY_CLASS = "spec"."priorityClassName";
        RESTART_POLICY = "spec"."restartPolicy";
        HOSTNAME = "spec"."hostname";
        SUBDOMAIN = "spec"."subdomain";
        DEADLINE = "spec"."activeDeadlineSeconds";
        GRACE = "spec"."terminationGracePeriodSeconds";
        READINESS_GATES = "spec"."readinessGates";
        PHASE = "status"."phase";
        REASON = "status"."reason";
        MESSAGE = "status"."message";
        CONDITIONS = "status"."conditions";
        CONTAINER_STATUSES = "status"."containerStatuses";
        INIT_STATUSES = "status"."initContainerStatuses";
        START_TIME = "status"."startTime";
        POD_IP = "status"."podIP";
        EPHEMERAL_CONTAINERS = "spec"."ephemeralContainers";
        ACCOUNT = "spec"."serviceAccountName";
        SERVICE_LINKS = "spec"."enableServiceLinks";
        HOST_ALIASES = "spec"."hostAliases";
        HOST_NETWORK = "spec"."hostNetwork";
        DNS_POLICY = "spec"."dnsPolicy";
        DNS_SERVERS = "spec"."dnsConfig"."nameservers";
        DNS_SEARCHES = "spec"."dnsConfig"."searches";
        DNS_OPTIONS = "spec"."dnsConfig"."options";
        FQDN = "spec"."setHostnameAsFQDN";
        HOSTNAME_OVERRIDE = "spec"."hostnameOverride";
        LIMITS = "spec"."resources"."limits";
        RUN_AS_USER = "spec"."securityContext"."runAsUser";
        RUN_AS_GROUP = "spec"."securityContext"."runAsGroup";
        NON_ROOT = "spec"."securityContext"."runAsNonRoot";
        GROUPS = "spec"."securityContext"."supplementalGroups";
        FS_GROUP = "spec"."securityContext"."fsGroup";
        WORKLOAD = "spec"."workloadRef"."name";
        WORKLOAD_GROUP = "spec"."workloadRef"."podGroupName";
        /// Kubernetes 1.35: the PodGroup is an entry of its Workload.
        WORKLOAD_ENTRY = "spec"."workloadRef"."podGroup";
        WORKLOAD_REPLICA = "spec"."workloadRef"."podGroupReplicaKey";
        /// Kubernetes 1.36 and later.
        SCHEDULING_GROUP = "spec"."schedulingGroup"."podGroupName";
    }
    dns_option of "" "v1" "Pod" at ["spec", "dnsConfig", "options", "[]"] {
        NAME = "name";
        VALUE = "value";
    }
    host_alias of "" "v1" "Pod" at ["spec", "hostAliases", "[]"] {
        IP = "ip";
        NAMES = "hostnames";
    }
    /// A container; init containers have the same fields.
    container of "" "v1" "Pod" at ["spec", "containers", "[]"] {
        NAME = "name";
        IMAGE = "image";
        REQUESTS = "resources"."requests";
        ENV = "env";
        RESTART_POLICY = "restartPolicy";
        PORTS = "ports";
        COMMAND = "command";
        ARGS = "args";
        ENV_FROM = "envFrom";
        WORKING_DIR = "workingDir";
        STDIN = "stdin";
        STDIN_ONCE = "stdinOnce";
        TTY = "tty";
        MESSAGE_PATH = "terminationMessagePath";
        MESSAGE_POLICY = "terminationMessagePolicy";
        LIMITS = "resources"."limits";
        CLAIMS = "resources"."claims";
        MOUNTS = "volumeMounts";
        DEVICES = "volumeDevices";
        RUN_AS_USER = "securityContext"."runAsUser";
        RUN_AS_GROUP = "securityContext"."runAsGroup";
        NON_ROOT = "securityContext"."runAsNonRoot";
        PULL_POLICY = "imagePullPolicy";
        READ_ONLY_ROOT = "securityContext"."readOnlyRootFilesystem";
        RESTART_RULES = "restartPolicyRules";
        STARTUP = "startupProbe";
        LIVENESS = "livenessProbe";
        READINESS = "readinessProbe";
        POST_START = "lifecycle"."postStart";
        PRE_STOP = "lifecycle"."preStop";
        STOP_SIGNAL = "lifecycle"."stopSignal";
    }
    container_claim of "" "v1" "Pod" at ["spec", "containers", "[]", "resources", "claims", "[]"] {
        NAME = "name";
        /// None means every request of the claim.
        REQUEST = "request";
    }
    env of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]"] {
        NAME = "name";
        VALUE = "value";
        FROM = "valueFrom";
        FIELD = "valueFrom"."fieldRef";
        RESOURCE = "valueFrom"."resourceFieldRef";
        CONFIG_MAP = "valueFrom"."configMapKeyRef";
        SECRET = "valueFrom"."secretKeyRef";
        FILE = "valueFrom"."fileKeyRef";
    }
    field_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "fieldRef"] {
        PATH = "fieldPath";
    }
    resource_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "resourceFieldRef"] {
        /// Absent means the container that has the variable.
        CONTAINER = "containerName";
        RESOURCE = "resource";
        DIVISOR = "divisor";
    }
    /// A key of a ConfigMap or Secret; both references have the same fields.
    key_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "secretKeyRef"] {
        NAME = "name";
        KEY = "key";
        OPTIONAL = "optional";
    }
    file_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "fileKeyRef"] {
        VOLUME = "volumeName";
        PATH = "path";
        KEY = "key";
        OPTIONAL = "optional";
    }
    env_from of "" "v1" "Pod" at ["spec", "containers", "[]", "envFrom", "[]"] {
        PREFIX = "prefix";
        CONFIG_MAP = "configMapRef";
        SECRET = "secretRef";
    }
    mount of "" "v1" "Pod" at ["spec", "containers", "[]", "volumeMounts", "[]"] {
        NAME = "name";
        PATH = "mountPath";
        SUB_PATH = "subPath";
        SUB_PATH_EXPR = "subPathExpr";
        READ_ONLY = "readOnly";
    }
    volume_device of "" "v1" "Pod" at ["spec", "containers", "[]", "volumeDevices", "[]"] {
        NAME = "name";
    }
    restart_rule of "" "v1" "Pod" at ["spec", "containers", "[]", "restartPolicyRules", "[]"] {
        ACTION = "action";
        OPERATOR = "exitCodes"."operator";
        VALUES = "exitCodes"."values";
    }
    /// A probe; all three probes of a container have these fields.
    probe of "" "v1" "Pod" at ["spec", "containers", "[]", "livenessProbe"] {
        DELAY = "initialDelaySeconds";
        PERIOD = "periodSeconds";
        TIMEOUT = "timeoutSeconds";
        SUCCESSES = "successThreshold";
        FAILURES = "failureThreshold";
        GRACE = "terminationGracePeriodSeconds";
    }
    /// The handler of a probe or of a lifecycle hook.
    check of "" "v1" "Pod" at ["spec", "containers", "[]", "lifecycle", "preStop"] {
        EXEC = "exec"."command";
        HTTP = "httpGet";
        HTTP_PATH = "httpGet"."path";
        HTTP_PORT = "httpGet"."port";
        HTTP_HOST = "httpGet"."host";
        HTTP_SCHEME = "httpGet"."scheme";
        HTTP_HEADERS = "httpGet"."httpHeaders";
        TCP = "tcpSocket";
        TCP_PORT = "tcpSocket"."port";
        TCP_HOST = "tcpSocket"."host";
        SLEEP = "sleep"."seconds";
    }
    container_port of "" "v1" "Pod" at ["spec", "containers", "[]", "ports", "[]"] {
        NAME = "name";
        PORT = "containerPort";
        /// 0 means no host port.
        HOST_PORT = "hostPort";
        HOST_IP = "hostIP";
        PROTOCOL = "protocol";
    }
    node_preference of "" "v1" "Pod" at ["spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "[]"] {
        WEIGHT = "weight";
        TERM = "preference";
    }
    /// A required term of pod affinity or anti-affinity.
    pod_term of "" "v1" "Pod" at ["spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "[]"] {
        SELECTOR = "labelSelector";
        NAMESPACES = "namespaces";
        NAMESPACE_SELECTOR = "namespaceSelector";
        TOPOLOGY_KEY = "topologyKey";
        MATCH_KEYS = "matchLabelKeys";
        MISMATCH_KEYS = "mismatchLabelKeys";
    }
    /// A preferred term of pod affinity or anti-affinity.
    pod_preference of "" "v1" "Pod" at ["spec", "affinity", "podAffinity", "preferredDuringSchedulingIgnoredDuringExecution", "[]"] {
        WEIGHT = "weight";
        TERM = "podAffinityTerm";
    }
    spread of "" "v1" "Pod" at ["spec", "topologySpreadConstraints", "[]"] {
        MAX_SKEW = "maxSkew";
        TOPOLOGY_KEY = "topologyKey";
        WHEN = "whenUnsatisfiable";
        SELECTOR = "labelSelector";
        MIN_DOMAINS = "minDomains";
        AFFINITY_POLICY = "nodeAffinityPolicy";
        TAINTS_POLICY = "nodeTaintsPolicy";
        MATCH_KEYS = "matchLabelKeys";
    }
    budget of "policy" "v1" "PodDisruptionBudget" at [] {
        SELECTOR = "spec"."selector";
        ALLOWED = "status"."disruptionsAllowed";
        DISRUPTED = "status"."disruptedPods";
    }
    resource_claim of "resource.k8s.io" "v1" "ResourceClaim" at [] {
        SPEC = "spec";
        REQUESTS = "spec"."devices"."requests";
        CONSTRAINTS = "spec"."devices"."constraints";
        CONFIG = "spec"."devices"."config";
        ALLOCATION = "status"."allocation";
        RESERVED_FOR = "status"."reservedFor";
    }
    allocation of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "allocation"] {
        RESULTS = "devices"."results";
        CONFIG = "devices"."config";
        NODE_SELECTOR = "nodeSelector";
        TERMS = "nodeSelector"."nodeSelectorTerms";
        TIME = "allocationTimestamp";
    }
    device_result of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "allocation", "devices", "results", "[]"] {
        REQUEST = "request";
        DRIVER = "driver";
        POOL = "pool";
        DEVICE = "device";
        ADMIN = "adminAccess";
        SHARE = "shareID";
        TOLERATIONS = "tolerations";
    }
    claim_consumer of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "reservedFor", "[]"] {
        GROUP = "apiGroup";
        RESOURCE = "resource";
        NAME = "name";
        UID = "uid";
    }
    device_request of "resource.k8s.io" "v1" "ResourceClaim" at ["spec", "devices", "requests", "[]"] {
        NAME = "name";
        EXACTLY = "exactly";
        FIRST = "firstAvailable";
    }
    /// An exact device request; `exactly` has the same fields.
    device_ask of "resource.k8s.io" "v1" "ResourceClaim" at ["spec", "devices", "requests", "[]", "exactly"] {
        CLASS = "deviceClassName";
        SELECTORS = "selectors";
        MODE = "allocationMode";
        COUNT = "count";
        ADMIN = "adminAccess";
        TOLERATIONS = "tolerations";
        CAPACITIES = "capacity"."requests";
    }
    device_selector of "resource.k8s.io" "v1" "DeviceClass" at ["spec", "selectors", "[]"] {
        EXPRESSION = "cel"."expression";
    }
    device_constraint of "resource.k8s.io" "v1" "ResourceClaim" at ["spec", "devices", "constraints", "[]"] {
        REQUESTS = "requests";
        MATCH = "matchAttribute";
        DISTINCT = "distinctAttribute";
    }
    device_config of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "allocation", "devices", "config", "[]"] {
        REQUESTS = "requests";
        SOURCE = "source";
    }
    device_class of "resource.k8s.io" "v1" "DeviceClass" at ["spec"] {
        SELECTORS = "selectors";
        CONFIG = "config";
    }
    resource_slice of "resource.k8s.io" "v1" "ResourceSlice" at ["spec"] {
        DRIVER = "driver";
        POOL = "pool"."name";
        GENERATION = "pool"."generation";
        COUNT = "pool"."resourceSliceCount";
        NODE_NAME = "nodeName";
        NODE_SELECTOR = "nodeSelector";
        ALL_NODES = "allNodes";
        PER_DEVICE = "perDeviceNodeSelection";
        COUNTERS = "sharedCounters";
        DEVICES = "devices";
    }
    device of "resource.k8s.io" "v1" "ResourceSlice" at ["spec", "devices", "[]"] {
        NAME = "name";
        ATTRIBUTES = "attributes";
        CAPACITY = "capacity";
        TAINTS = "taints";
        NODE_NAME = "nodeName";
        NODE_SELECTOR = "nodeSelector";
        ALL_NODES = "allNodes";
        COUNTERS = "consumesCounters";
        BINDING = "bindingConditions";
        BINDS = "bindsToNode";
        MULTIPLE = "allowMultipleAllocations";
    }
    claim_template of "resource.k8s.io" "v1" "ResourceClaimTemplate" at [] {
        LABELS = "spec"."metadata"."labels";
        ANNOTATIONS = "spec"."metadata"."annotations";
        SPEC = "spec"."spec";
    }
    pod_claim of "" "v1" "Pod" at ["spec", "resourceClaims", "[]"] {
        NAME = "name";
        CLAIM = "resourceClaimName";
        TEMPLATE = "resourceClaimTemplateName";
    }
    made_claim of "" "v1" "Pod" at ["status", "resourceClaimStatuses", "[]"] {
        NAME = "name";
        CLAIM = "resourceClaimName";
    }
    container_status of "" "v1" "Pod" at ["status", "containerStatuses", "[]"] {
        NAME = "name";
        RESTARTS = "restartCount";
        EXIT_CODE = "state"."terminated"."exitCode";
        FINISHED = "state"."terminated"."finishedAt";
        STARTED = "state"."running"."startedAt";
        TERMINATED = "state"."terminated";
        LAST_END = "lastState"."terminated";
    }
    terminated of "" "v1" "Pod" at ["status", "containerStatuses", "[]", "state", "terminated"] {
        CODE = "exitCode";
        SIGNAL = "signal";
        STARTED = "startedAt";
        FINISHED = "finishedAt";
        MESSAGE = "message";
    }
    node_term of "" "v1" "Pod" at ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "[]"] {
        EXPRESSIONS = "matchExpressions";
        FIELDS = "matchFields";
    }
    expression of "" "v1" "Pod" at ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", "[]", "matchExpressions", "[]"] {
        KEY = "key";
        OPERATOR = "operator";
        VALUES = "values";
    }
    toleration of "" "v1" "Pod" at ["spec", "tolerations", "[]"] {
        KEY = "key";
        OPERATOR = "operator";
        VALUE = "value";
        EFFECT = "effect";
        SECONDS = "tolerationSeconds";
    }
    pod_volume of "" "v1" "Pod" at ["spec", "volumes", "[]"] {
        NAME = "name";
        CLAIM = "persistentVolumeClaim"."claimName";
        TEMPLATE = "ephemeral"."volumeClaimTemplate";
        CLAIM_READ_ONLY = "persistentVolumeClaim"."readOnly";
        CONFIG_MAP = "configMap";
        SECRET = "secret";
        DOWNWARD = "downwardAPI";
        PROJECTED = "projected";
        EMPTY = "emptyDir";
        EMPTY_MEDIUM = "emptyDir"."medium";
        EMPTY_LIMIT = "emptyDir"."sizeLimit";
        HOST = "hostPath";
        HOST_PATH = "hostPath"."path";
        HOST_TYPE = "hostPath"."type";
    }
    /// A volume with files from an object; ConfigMap volumes have the same fields.
    file_volume of "" "v1" "Pod" at ["spec", "volumes", "[]", "secret"] {
        SECRET = "secretName";
        /// Absent means every key, each under its own name.
        ITEMS = "items";
        MODE = "defaultMode";
        OPTIONAL = "optional";
    }
    file_item of "" "v1" "Pod" at ["spec", "volumes", "[]", "secret", "items", "[]"] {
        KEY = "key";
        PATH = "path";
        MODE = "mode";
    }
    downward_item of "" "v1" "Pod" at ["spec", "volumes", "[]", "downwardAPI", "items", "[]"] {
        PATH = "path";
        MODE = "mode";
        FIELD = "fieldRef";
        RESOURCE = "resourceFieldRef";
    }
    projected of "" "v1" "Pod" at ["spec", "volumes", "[]", "projected"] {
        SOURCES = "sources";
        MODE = "defaultMode";
    }
    projection of "" "v1" "Pod" at ["spec", "volumes", "[]", "projected", "sources", "[]"] {
        CONFIG_MAP = "configMap";
        SECRET = "secret";
        DOWNWARD = "downwardAPI";
        TOKEN = "serviceAccountToken";
    }
    token_projection of "" "v1" "Pod" at ["spec", "volumes", "[]", "projected", "sources", "[]", "serviceAccountToken"] {
        AUDIENCE = "audience";
        SECONDS = "expirationSeconds";
        PATH = "path";
    }
    limit_range of "" "v1" "LimitRange" at [] {
        LIMITS = "spec"."limits";
    }
    limit_item of "" "v1" "LimitRange" at ["spec", "limits", "[]"] {
        TYPE = "type";
        MAX = "max";
        MIN = "min";
        DEFAULT = "default";
        DEFAULT_REQUEST = "defaultRequest";
    }
    priority_class of "scheduling.k8s.io" "v1" "PriorityClass" at [] {
        VALUE = "value";
        GLOBAL_DEFAULT = "globalDefault";
    }
    runtime_class of "node.k8s.io" "v1" "RuntimeClass" at [] {
        OVERHEAD = "overhead"."podFixed";
    }
    config_map of "" "v1" "ConfigMap" at [] {
        DATA = "data";
        BINARY = "binaryData";
    }
    secret of "" "v1" "Secret" at [] {
        DATA = "data";
    }
    claim of "" "v1" "PersistentVolumeClaim" at [] {
        CLASS = "spec"."storageClassName";
        MODES = "spec"."accessModes";
        VOLUME = "spec"."volumeName";
        REQUESTS = "spec"."resources"."requests";
        SELECTOR = "spec"."selector";
        MODE = "spec"."volumeMode";
        ATTRIBUTES = "spec"."volumeAttributesClassName";
        PHASE = "status"."phase";
        CAPACITY = "status"."capacity";
        GIVEN_MODES = "status"."accessModes";
        GIVEN_ATTRIBUTES = "status"."currentVolumeAttributesClassName";
        CONDITIONS = "status"."conditions";
    }
    volume of "" "v1" "PersistentVolume" at [] {
        CLASS = "spec"."storageClassName";
        MODES = "spec"."accessModes";
        CAPACITY = "spec"."capacity";
        CLAIM = "spec"."claimRef";
        CLAIM_NAMESPACE = "spec"."claimRef"."namespace";
        CLAIM_NAME = "spec"."claimRef"."name";
        CLAIM_UID = "spec"."claimRef"."uid";
        POLICY = "spec"."persistentVolumeReclaimPolicy";
        MODE = "spec"."volumeMode";
        ATTRIBUTES = "spec"."volumeAttributesClassName";
        AFFINITY = "spec"."nodeAffinity"."required"."nodeSelectorTerms";
        DRIVER = "spec"."csi"."driver";
        HANDLE = "spec"."csi"."volumeHandle";
        HOST_PATH = "spec"."hostPath"."path";
        HOST_TYPE = "spec"."hostPath"."type";
        LOCAL_PATH = "spec"."local"."path";
        PHASE = "status"."phase";
    }
    storage_class of "storage.k8s.io" "v1" "StorageClass" at [] {
        PROVISIONER = "provisioner";
        BINDING = "volumeBindingMode";
        TOPOLOGIES = "allowedTopologies";
        RECLAIM = "reclaimPolicy";
        MOUNT_OPTIONS = "mountOptions";
    }
    topology of "storage.k8s.io" "v1" "StorageClass" at ["allowedTopologies", "[]"] {
        EXPRESSIONS = "matchLabelExpressions";
    }
    csi_node of "storage.k8s.io" "v1" "CSINode" at [] {
        DRIVERS = "spec"."drivers";
    }
    csi_driver of "storage.k8s.io" "v1" "CSINode" at ["spec", "drivers", "[]"] {
        NAME = "name";
        COUNT = "allocatable"."count";
    }
    node of "" "v1" "Node" at [] {
        UNSCHEDULABLE = "spec"."unschedulable";
        TAINTS = "spec"."taints";
        ALLOCATABLE = "status"."allocatable";
        CAPACITY = "status"."capacity";
        CONDITIONS = "status"."conditions";
    }
    taint of "" "v1" "Node" at ["spec", "taints", "[]"] {
        KEY = "key";
        VALUE = "value";
        EFFECT = "effect";
        ADDED = "timeAdded";
    }
    job of "batch" "v1" "Job" at [] {
        PARALLELISM = "spec"."parallelism";
        COMPLETIONS = "spec"."completions";
        MODE = "spec"."completionMode";
        BACKOFF_LIMIT = "spec"."backoffLimit";
        SUSPEND = "spec"."suspend";
        DEADLINE = "spec"."activeDeadlineSeconds";
        TTL = "spec"."ttlSecondsAfterFinished";
        MANAGED_BY = "spec"."managedBy";
        REPLACEMENT = "spec"."podReplacementPolicy";
        FAILURE_POLICY = "spec"."podFailurePolicy";
        SUCCESS_POLICY = "spec"."successPolicy";
        FAILURE_RULES = "spec"."podFailurePolicy"."rules";
        SUCCESS_RULES = "spec"."successPolicy"."rules";
        SELECTOR = "spec"."selector";
        BACKOFF_PER_INDEX = "spec"."backoffLimitPerIndex";
        MAX_FAILED_INDEXES = "spec"."maxFailedIndexes";
        TEMPLATE = "spec"."template";
        TEMPLATE_META = "spec"."template"."metadata";
        TEMPLATE_SPEC = "spec"."template"."spec";
        RESTART_POLICY = "spec"."template"."spec"."restartPolicy";
        STATUS = "status";
    }
    failure_rule of "batch" "v1" "Job" at ["spec", "podFailurePolicy", "rules", "[]"] {
        ACTION = "action";
        ON_EXIT_CODES = "onExitCodes";
        CONTAINER = "onExitCodes"."containerName";
        OPERATOR = "onExitCodes"."operator";
        CODES = "onExitCodes"."values";
        ON_CONDITIONS = "onPodConditions";
    }
    failure_condition of "batch" "v1" "Job" at ["spec", "podFailurePolicy", "rules", "[]", "onPodConditions", "[]"] {
        TYPE = "type";
        STATUS = "status";
    }
    success_rule of "batch" "v1" "Job" at ["spec", "successPolicy", "rules", "[]"] {
        INDEXES = "succeededIndexes";
        COUNT = "succeededCount";
    }
    /// A label selector of any kind; the schema test checks it on Jobs.
    selector of "batch" "v1" "Job" at ["spec", "selector"] {
        LABELS = "matchLabels";
        EXPRESSIONS = "matchExpressions";
    }
    /// A requirement of a label selector of any kind; the schema test checks it on Jobs.
    label_expression of "batch" "v1" "Job" at ["spec", "selector", "matchExpressions", "[]"] {
        KEY = "key";
        OPERATOR = "operator";
        VALUES = "values";
    }
    jobset of "jobset.x-k8s.io" "v1alpha2" "JobSet" at [] {
        JOBS = "spec"."replicatedJobs";
        HOSTNAMES = "spec"."network"."enableDNSHostnames";
        SUBDOMAIN = "spec"."network"."subdomain";
        PUBLISH_NOT_READY = "spec"."network"."publishNotReadyAddresses";
        SUCCESS = "spec"."successPolicy";
        SUCCESS_OPERATOR = "spec"."successPolicy"."operator";
        SUCCESS_TARGETS = "spec"."successPolicy"."targetReplicatedJobs";
        FAILURE = "spec"."failurePolicy";
        STARTUP = "spec"."startupPolicy";
        STARTUP_ORDER = "spec"."startupPolicy"."startupPolicyOrder";
        SUSPEND = "spec"."suspend";
        COORDINATOR = "spec"."coordinator";
        MANAGED_BY = "spec"."managedBy";
        TTL = "spec"."ttlSecondsAfterFinished";
        VOLUMES = "spec"."volumeClaimPolicies";
        STATUS = "status";
    }
    jobset_failure of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "failurePolicy"] {
        MAX_RESTARTS = "maxRestarts";
        STRATEGY = "restartStrategy";
        RULES = "rules";
    }
    jobset_rule of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "failurePolicy", "rules", "[]"] {
        NAME = "name";
        ACTION = "action";
        REASONS = "onJobFailureReasons";
        PATTERNS = "onJobFailureMessagePatterns";
        TARGETS = "targetReplicatedJobs";
    }
    jobset_coordinator of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "coordinator"] {
        JOB = "replicatedJob";
        JOB_INDEX = "jobIndex";
        POD_INDEX = "podIndex";
    }
    replicated_job of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "replicatedJobs", "[]"] {
        NAME = "name";
        GROUP = "groupName";
        REPLICAS = "replicas";
        TEMPLATE = "template";
        JOB_LABELS = "template"."metadata"."labels";
        JOB_ANNOTATIONS = "template"."metadata"."annotations";
        JOB_SPEC = "template"."spec";
        PARALLELISM = "template"."spec"."parallelism";
        COMPLETIONS = "template"."spec"."completions";
        MODE = "template"."spec"."completionMode";
        POD_TEMPLATE = "template"."spec"."template";
        POD_SPEC = "template"."spec"."template"."spec";
        RESTART_POLICY = "template"."spec"."template"."spec"."restartPolicy";
        BACKOFF_LIMIT = "template"."spec"."backoffLimit";
        REPLACEMENT = "template"."spec"."podReplacementPolicy";
        DEPENDS_ON = "dependsOn";
        CLAIMS = "resourceClaimTemplates";
    }
    jobset_dependency of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "replicatedJobs", "[]", "dependsOn", "[]"] {
        NAME = "name";
        STATUS = "status";
    }
    jobset_claim of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "replicatedJobs", "[]", "resourceClaimTemplates", "[]"] {
        NAME = "metadata"."name";
        LABELS = "metadata"."labels";
        ANNOTATIONS = "metadata"."annotations";
        NAMESPACE = "metadata"."namespace";
        GENERATE_NAME = "metadata"."generateName";
        SPEC_NAME = "spec"."metadata"."name";
        SPEC_LABELS = "spec"."metadata"."labels";
        SPEC_ANNOTATIONS = "spec"."metadata"."annotations";
        DEVICES = "spec"."devices";
        LONG_DEVICES = "spec"."spec"."devices";
        CONTAINERS = "containers";
        DELETION = "deletionPolicy";
    }
    jobset_volumes of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "volumeClaimPolicies", "[]"] {
        TEMPLATES = "templates";
        WHEN_DELETED = "retentionPolicy"."whenDeleted";
    }
    jobset_volume of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "volumeClaimPolicies", "[]", "templates", "[]"] {
        NAME = "metadata"."name";
        NAMESPACE = "metadata"."namespace";
        LABELS = "metadata"."labels";
        ANNOTATIONS = "metadata"."annotations";
        SPEC = "spec";
    }
    jobset_status of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["status"] {
        CONDITIONS = "conditions";
        RESTARTS = "restarts";
        COUNTED = "restartsCountTowardsMax";
        TERMINAL = "terminalState";
        JOBS = "replicatedJobsStatus";
        IN_PLACE_PREVIOUS = "previousInPlaceRestartAttempt";
        IN_PLACE_CURRENT = "currentInPlaceRestartAttempt";
    }
    replicated_status of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["status", "replicatedJobsStatus", "[]"] {
        NAME = "name";
        READY = "ready";
        SUCCEEDED = "succeeded";
        FAILED = "failed";
        ACTIVE = "active";
        SUSPENDED = "suspended";
        RESTARTS = "jobRestarts";
        COUNTED = "jobRestartsCountTowardsMax";
    }
    job_status of "batch" "v1" "Job" at ["status"] {
        ACTIVE = "active";
        READY = "ready";
        TERMINATING = "terminating";
        SUCCEEDED = "succeeded";
        FAILED = "failed";
        START_TIME = "startTime";
        COMPLETION_TIME = "completionTime";
        COMPLETED_INDEXES = "completedIndexes";
        FAILED_INDEXES = "failedIndexes";
        CONDITIONS = "conditions";
        UNCOUNTED = "uncountedTerminatedPods";
        UNCOUNTED_SUCCEEDED = "uncountedTerminatedPods"."succeeded";
        UNCOUNTED_FAILED = "uncountedTerminatedPods"."failed";
    }
    namespace of "" "v1" "Namespace" at [] {
        FINALIZERS = "spec"."finalizers";
        PHASE = "status"."phase";
        CONDITIONS = "status"."conditions";
    }
    service of "" "v1" "Service" at [] {
        SELECTOR = "spec"."selector";
        CLUSTER_IP = "spec"."clusterIP";
        PORTS = "spec"."ports";
        PUBLISH_NOT_READY = "spec"."publishNotReadyAddresses";
    }
    service_port of "" "v1" "Service" at ["spec", "ports", "[]"] {
        NAME = "name";
        PORT = "port";
        PROTOCOL = "protocol";
    }
    endpoint_slice of "discovery.k8s.io" "v1" "EndpointSlice" at [] {
        PORTS = "ports";
        ENDPOINTS = "endpoints";
    }
    workload of "scheduling.k8s.io" "v1alpha1" "Workload" at [] {
        TEMPLATES = "spec"."podGroupTemplates";
        ENTRIES = "spec"."podGroups";
    }
    group_template of "scheduling.k8s.io" "v1alpha1" "Workload" at ["spec", "podGroupTemplates", "[]"] {
        NAME = "name";
        POLICY = "policy";
        /// The name of `policy` from Kubernetes 1.36 on.
        SCHEDULING_POLICY = "schedulingPolicy";
    }
    group_policy of "scheduling.k8s.io" "v1alpha1" "PodGroup" at ["spec", "schedulingPolicy"] {
        BASIC = "basic";
        GANG = "gang";
        MIN = "gang"."minCount";
    }
    /// Scheduling fields that a PodGroup and its template share, without the policy.
    group_terms of "scheduling.k8s.io" "v1alpha1" "PodGroup" at ["spec"] {
        POLICY = "schedulingPolicy";
        PRIORITY = "priority";
        PREEMPTION = "preemptionPolicy";
        DISRUPTION = "disruptionMode";
        DISRUPTION_ALL = "disruptionMode"."all";
        DISRUPTION_SINGLE = "disruptionMode"."single";
        TOPOLOGY = "schedulingConstraints"."topology";
    }
    group_topology of "scheduling.k8s.io" "v1alpha1" "PodGroup" at ["spec", "schedulingConstraints", "topology", "[]"] {
        KEY = "key";
    }
    pod_group of "scheduling.k8s.io" "v1alpha1" "PodGroup" at [] {
        WORKLOAD = "spec"."workloadRef"."name";
        WORKLOAD_UID = "spec"."workloadRef"."uid";
        WORKLOAD_NAMESPACE = "spec"."workloadRef"."namespace";
        TEMPLATE = "spec"."podGroupTemplateRef"."name";
        /// A second spelling of the template reference in the proposal; both are written and either is read.
        TEMPLATE_NAME = "spec"."podGroupTemplateName";
        SCHEDULED = "status"."scheduledPods";
        CONDITIONS = "status"."conditions";
    }
    /// A PodGroup in the API of Kubernetes 1.37; only the fields that differ from `v1alpha1`.
    released_group of "scheduling.k8s.io" "v1beta1" "PodGroup" at [] {
        WORKLOAD = "spec"."workloadRef"."workloadName";
        TEMPLATE = "spec"."workloadRef"."templateName";
    }
    lease of "coordination.k8s.io" "v1" "Lease" at [] {
        RENEWED = "spec"."renewTime";
        HOLDER = "spec"."holderIdentity";
    }
}
