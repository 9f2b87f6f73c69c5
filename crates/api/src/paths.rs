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
            pub const TABLE: $crate::paths::Table = $crate::paths::Table {
                kind: ($group, $version, $kind), root: &[$($root),*], paths: &[$($name),+] };
        } )+
        /// All tables.
        pub const TABLES: &[$crate::paths::Table] = &[$($module::TABLE),+];
    };
}
pub(crate) use paths;

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
        /// The beginning of a name that the server makes.
        GENERATE_NAME = "metadata"."generateName";
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
        /// What it wants to be near to, and far from.
        AFFINITY = "spec"."affinity";
        /// Rules of spreading.
        SPREAD = "spec"."topologySpreadConstraints";
        /// Whether it may preempt others.
        PREEMPTION_POLICY = "spec"."preemptionPolicy";
        /// Requests of the pod as a whole.
        REQUESTS = "spec"."resources"."requests";
        /// The node that is being cleared for it.
        NOMINATED = "status"."nominatedNodeName";
        /// Claims to devices.
        CLAIMS = "spec"."resourceClaims";
        /// The claims that were made for it.
        MADE_CLAIMS = "status"."resourceClaimStatuses";
        /// Tolerations.
        TOLERATIONS = "spec"."tolerations";
        /// Volumes.
        VOLUMES = "spec"."volumes";
        /// Containers.
        CONTAINERS = "spec"."containers";
        /// Init containers.
        INIT_CONTAINERS = "spec"."initContainers";
        /// Overhead.
        OVERHEAD = "spec"."overhead";
        /// How its containers are run.
        RUNTIME_CLASS = "spec"."runtimeClassName";
        /// The name of its priority.
        PRIORITY_CLASS = "spec"."priorityClassName";
        /// Restart policy.
        RESTART_POLICY = "spec"."restartPolicy";
        /// Host name.
        HOSTNAME = "spec"."hostname";
        /// The Service that names the pod.
        SUBDOMAIN = "spec"."subdomain";
        /// How long it may be active.
        DEADLINE = "spec"."activeDeadlineSeconds";
        /// How long it may take to stop.
        GRACE = "spec"."terminationGracePeriodSeconds";
        /// What else must hold before it is ready.
        READINESS_GATES = "spec"."readinessGates";
        /// Phase.
        PHASE = "status"."phase";
        /// Why it is in this phase.
        REASON = "status"."reason";
        /// The same in words.
        MESSAGE = "status"."message";
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
        /// Debug containers.
        EPHEMERAL_CONTAINERS = "spec"."ephemeralContainers";
        /// Service account.
        ACCOUNT = "spec"."serviceAccountName";
        /// Whether containers are told of the namespace's Services.
        SERVICE_LINKS = "spec"."enableServiceLinks";
        /// More lines of the hosts file.
        HOST_ALIASES = "spec"."hostAliases";
        /// Whether the network is the host's.
        HOST_NETWORK = "spec"."hostNetwork";
        /// Who is asked for names.
        DNS_POLICY = "spec"."dnsPolicy";
        /// Further name servers.
        DNS_SERVERS = "spec"."dnsConfig"."nameservers";
        /// Further domains in which short names are looked for.
        DNS_SEARCHES = "spec"."dnsConfig"."searches";
        /// Further options of looking up names.
        DNS_OPTIONS = "spec"."dnsConfig"."options";
        /// Whether the whole name is the host name.
        FQDN = "spec"."setHostnameAsFQDN";
        /// A host name that comes before all others.
        HOSTNAME_OVERRIDE = "spec"."hostnameOverride";
        /// Limits of the pod as a whole.
        LIMITS = "spec"."resources"."limits";
        /// User number.
        RUN_AS_USER = "spec"."securityContext"."runAsUser";
        /// Group number.
        RUN_AS_GROUP = "spec"."securityContext"."runAsGroup";
        /// Whether no container may be root.
        NON_ROOT = "spec"."securityContext"."runAsNonRoot";
        /// Further groups.
        GROUPS = "spec"."securityContext"."supplementalGroups";
        /// The group of volumes.
        FS_GROUP = "spec"."securityContext"."fsGroup";
        /// The Workload of its gang.
        WORKLOAD = "spec"."workloadRef"."name";
        /// Its gang.
        WORKLOAD_GROUP = "spec"."workloadRef"."podGroupName";
        /// Its gang, where that is an entry of the Workload.
        WORKLOAD_ENTRY = "spec"."workloadRef"."podGroup";
        /// Which copy of that entry.
        WORKLOAD_REPLICA = "spec"."workloadRef"."podGroupReplicaKey";
        /// Its gang, in the released form.
        SCHEDULING_GROUP = "spec"."schedulingGroup"."podGroupName";
    }
    /// An option of looking up names.
    dns_option of "" "v1" "Pod" at ["spec", "dnsConfig", "options", "[]"] {
        /// Name.
        NAME = "name";
        /// Value.
        VALUE = "value";
    }
    /// A line of a pod's hosts file.
    host_alias of "" "v1" "Pod" at ["spec", "hostAliases", "[]"] {
        /// Address.
        IP = "ip";
        /// Names.
        NAMES = "hostnames";
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
        /// Program.
        COMMAND = "command";
        /// Arguments.
        ARGS = "args";
        /// Objects whose keys are variables.
        ENV_FROM = "envFrom";
        /// Where it starts.
        WORKING_DIR = "workingDir";
        /// Whether it has an input.
        STDIN = "stdin";
        /// Whether that ends with the first who leaves it.
        STDIN_ONCE = "stdinOnce";
        /// Whether it has a terminal.
        TTY = "tty";
        /// Where it leaves its last words.
        MESSAGE_PATH = "terminationMessagePath";
        /// What stands in for them.
        MESSAGE_POLICY = "terminationMessagePolicy";
        /// Limits.
        LIMITS = "resources"."limits";
        /// Claims to devices.
        CLAIMS = "resources"."claims";
        /// Volumes.
        MOUNTS = "volumeMounts";
        /// Block devices.
        DEVICES = "volumeDevices";
        /// User number.
        RUN_AS_USER = "securityContext"."runAsUser";
        /// Group number.
        RUN_AS_GROUP = "securityContext"."runAsGroup";
        /// Whether it may not be root.
        NON_ROOT = "securityContext"."runAsNonRoot";
        /// When its image is fetched.
        PULL_POLICY = "imagePullPolicy";
        /// Whether it cannot write outside its volumes.
        READ_ONLY_ROOT = "securityContext"."readOnlyRootFilesystem";
        /// Exit codes that decide about a restart.
        RESTART_RULES = "restartPolicyRules";
        /// Whether it has come up.
        STARTUP = "startupProbe";
        /// Whether it is alive.
        LIVENESS = "livenessProbe";
        /// Whether it can serve.
        READINESS = "readinessProbe";
        /// What is done once it runs.
        POST_START = "lifecycle"."postStart";
        /// What is done before it is stopped.
        PRE_STOP = "lifecycle"."preStop";
        /// The signal that asks it to stop.
        STOP_SIGNAL = "lifecycle"."stopSignal";
    }
    /// A claim that a container uses.
    container_claim of "" "v1" "Pod" at ["spec", "containers", "[]", "resources", "claims", "[]"] {
        /// Name within the pod.
        NAME = "name";
        /// One request of it; all when absent.
        REQUEST = "request";
    }
    /// A variable.
    env of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]"] {
        /// Name.
        NAME = "name";
        /// Value.
        VALUE = "value";
        /// Or where it comes from.
        FROM = "valueFrom";
        /// A field of the pod.
        FIELD = "valueFrom"."fieldRef";
        /// A resource of a container.
        RESOURCE = "valueFrom"."resourceFieldRef";
        /// A key of a ConfigMap.
        CONFIG_MAP = "valueFrom"."configMapKeyRef";
        /// A key of a Secret.
        SECRET = "valueFrom"."secretKeyRef";
        /// A key in a file of a volume.
        FILE = "valueFrom"."fileKeyRef";
    }
    /// A field of the pod.
    field_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "fieldRef"] {
        /// Which.
        PATH = "fieldPath";
    }
    /// A resource of a container.
    resource_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "resourceFieldRef"] {
        /// Which container; this one when absent.
        CONTAINER = "containerName";
        /// Which resource.
        RESOURCE = "resource";
        /// In which unit.
        DIVISOR = "divisor";
    }
    /// A key of a ConfigMap or Secret.
    key_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "secretKeyRef"] {
        /// Name of the object.
        NAME = "name";
        /// Key.
        KEY = "key";
        /// Whether it may be missing.
        OPTIONAL = "optional";
    }
    /// A key in a file of a volume.
    file_ref of "" "v1" "Pod" at ["spec", "containers", "[]", "env", "[]", "valueFrom", "fileKeyRef"] {
        /// Volume.
        VOLUME = "volumeName";
        /// File within it.
        PATH = "path";
        /// Key.
        KEY = "key";
        /// Whether it may be missing.
        OPTIONAL = "optional";
    }
    /// An object whose keys are variables.
    env_from of "" "v1" "Pod" at ["spec", "containers", "[]", "envFrom", "[]"] {
        /// What stands before each name.
        PREFIX = "prefix";
        /// A ConfigMap.
        CONFIG_MAP = "configMapRef";
        /// A Secret.
        SECRET = "secretRef";
    }
    /// A volume in a container.
    mount of "" "v1" "Pod" at ["spec", "containers", "[]", "volumeMounts", "[]"] {
        /// Name.
        NAME = "name";
        /// Where.
        PATH = "mountPath";
        /// Which part of it.
        SUB_PATH = "subPath";
        /// The same, with variables.
        SUB_PATH_EXPR = "subPathExpr";
        /// Whether it can only be read.
        READ_ONLY = "readOnly";
    }
    /// A block device in a container.
    volume_device of "" "v1" "Pod" at ["spec", "containers", "[]", "volumeDevices", "[]"] {
        /// Name.
        NAME = "name";
    }
    /// A rule about restarts.
    restart_rule of "" "v1" "Pod" at ["spec", "containers", "[]", "restartPolicyRules", "[]"] {
        /// What to do.
        ACTION = "action";
        /// How the codes are meant.
        OPERATOR = "exitCodes"."operator";
        /// The codes.
        VALUES = "exitCodes"."values";
    }
    /// A probe.
    probe of "" "v1" "Pod" at ["spec", "containers", "[]", "livenessProbe"] {
        /// The first time, so long after the start.
        DELAY = "initialDelaySeconds";
        /// How often.
        PERIOD = "periodSeconds";
        /// How long it may take.
        TIMEOUT = "timeoutSeconds";
        /// Successes in a row that count.
        SUCCESSES = "successThreshold";
        /// Failures in a row that count.
        FAILURES = "failureThreshold";
        /// Grace of a container that fails it.
        GRACE = "terminationGracePeriodSeconds";
    }
    /// What a probe or a hook does.
    check of "" "v1" "Pod" at ["spec", "containers", "[]", "lifecycle", "preStop"] {
        /// A command.
        EXEC = "exec"."command";
        /// A request.
        HTTP = "httpGet";
        /// Its path.
        HTTP_PATH = "httpGet"."path";
        /// Its port.
        HTTP_PORT = "httpGet"."port";
        /// Its host.
        HTTP_HOST = "httpGet"."host";
        /// Its scheme.
        HTTP_SCHEME = "httpGet"."scheme";
        /// Its headers.
        HTTP_HEADERS = "httpGet"."httpHeaders";
        /// A connection.
        TCP = "tcpSocket";
        /// Its port.
        TCP_PORT = "tcpSocket"."port";
        /// Its host.
        TCP_HOST = "tcpSocket"."host";
        /// A pause.
        SLEEP = "sleep"."seconds";
    }
    /// A port of a container.
    container_port of "" "v1" "Pod" at ["spec", "containers", "[]", "ports", "[]"] {
        /// Name.
        NAME = "name";
        /// Port.
        PORT = "containerPort";
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
    /// Claims to devices.
    resource_claim of "resource.k8s.io" "v1" "ResourceClaim" at [] {
        /// What is asked for.
        SPEC = "spec";
        /// Requests.
        REQUESTS = "spec"."devices"."requests";
        /// What must hold between devices.
        CONSTRAINTS = "spec"."devices"."constraints";
        /// Settings for drivers.
        CONFIG = "spec"."devices"."config";
        /// What was given.
        ALLOCATION = "status"."allocation";
        /// Who may use it.
        RESERVED_FOR = "status"."reservedFor";
    }
    /// What was given to a claim.
    allocation of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "allocation"] {
        /// The devices.
        RESULTS = "devices"."results";
        /// Settings for drivers.
        CONFIG = "devices"."config";
        /// The nodes from which they can be used.
        NODE_SELECTOR = "nodeSelector";
        /// The terms of that.
        TERMS = "nodeSelector"."nodeSelectorTerms";
        /// When.
        TIME = "allocationTimestamp";
    }
    /// A device that was given to a claim.
    device_result of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "allocation", "devices", "results", "[]"] {
        /// Of which request.
        REQUEST = "request";
        /// Driver.
        DRIVER = "driver";
        /// Pool.
        POOL = "pool";
        /// Name.
        DEVICE = "device";
        /// Whether others may have it too.
        ADMIN = "adminAccess";
        /// The share of a device that several may have.
        SHARE = "shareID";
        /// Taints that do not matter.
        TOLERATIONS = "tolerations";
    }
    /// Who may use a claim.
    claim_consumer of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "reservedFor", "[]"] {
        /// API group.
        GROUP = "apiGroup";
        /// Resource.
        RESOURCE = "resource";
        /// Name.
        NAME = "name";
        /// UID.
        UID = "uid";
    }
    /// A request of a claim.
    device_request of "resource.k8s.io" "v1" "ResourceClaim" at ["spec", "devices", "requests", "[]"] {
        /// Name.
        NAME = "name";
        /// The one thing it asks for.
        EXACTLY = "exactly";
        /// Or the first of these that can be had.
        FIRST = "firstAvailable";
    }
    /// What a request asks for; checked on the one of several.
    device_ask of "resource.k8s.io" "v1" "ResourceClaim" at ["spec", "devices", "requests", "[]", "exactly"] {
        /// Class.
        CLASS = "deviceClassName";
        /// Selectors.
        SELECTORS = "selectors";
        /// How many: so many, or all.
        MODE = "allocationMode";
        /// How many.
        COUNT = "count";
        /// Whether others may have them too.
        ADMIN = "adminAccess";
        /// Taints that do not matter.
        TOLERATIONS = "tolerations";
        /// Capacities they must have.
        CAPACITIES = "capacity"."requests";
    }
    /// A selector of devices.
    device_selector of "resource.k8s.io" "v1" "DeviceClass" at ["spec", "selectors", "[]"] {
        /// The expression.
        EXPRESSION = "cel"."expression";
    }
    /// What must hold between the devices of a claim.
    device_constraint of "resource.k8s.io" "v1" "ResourceClaim" at ["spec", "devices", "constraints", "[]"] {
        /// Of which requests.
        REQUESTS = "requests";
        /// This attribute is the same.
        MATCH = "matchAttribute";
        /// This attribute differs.
        DISTINCT = "distinctAttribute";
    }
    /// Settings for the driver of a claim's devices.
    device_config of "resource.k8s.io" "v1" "ResourceClaim" at ["status", "allocation", "devices", "config", "[]"] {
        /// Of which requests.
        REQUESTS = "requests";
        /// Whether they come from the class or the claim.
        SOURCE = "source";
    }
    /// Classes of devices.
    device_class of "resource.k8s.io" "v1" "DeviceClass" at ["spec"] {
        /// Selectors.
        SELECTORS = "selectors";
        /// Settings for drivers.
        CONFIG = "config";
    }
    /// Lists of devices.
    resource_slice of "resource.k8s.io" "v1" "ResourceSlice" at ["spec"] {
        /// Driver.
        DRIVER = "driver";
        /// Pool.
        POOL = "pool"."name";
        /// Generation of the pool.
        GENERATION = "pool"."generation";
        /// How many slices the pool has.
        COUNT = "pool"."resourceSliceCount";
        /// The node that has the devices.
        NODE_NAME = "nodeName";
        /// The nodes from which they can be used.
        NODE_SELECTOR = "nodeSelector";
        /// Whether they can be used from all nodes.
        ALL_NODES = "allNodes";
        /// Whether each device says that itself.
        PER_DEVICE = "perDeviceNodeSelection";
        /// What several devices share.
        COUNTERS = "sharedCounters";
        /// The devices.
        DEVICES = "devices";
    }
    /// A device.
    device of "resource.k8s.io" "v1" "ResourceSlice" at ["spec", "devices", "[]"] {
        /// Name.
        NAME = "name";
        /// What it is.
        ATTRIBUTES = "attributes";
        /// How much it has.
        CAPACITY = "capacity";
        /// Taints.
        TAINTS = "taints";
        /// The node that has it.
        NODE_NAME = "nodeName";
        /// The nodes from which it can be used.
        NODE_SELECTOR = "nodeSelector";
        /// Whether it can be used from all nodes.
        ALL_NODES = "allNodes";
        /// What it takes of what several share.
        COUNTERS = "consumesCounters";
        /// What must hold before a pod is bound to it.
        BINDING = "bindingConditions";
        /// Whether an allocation holds for one node only.
        BINDS = "bindsToNode";
        /// Whether several claims may have it.
        MULTIPLE = "allowMultipleAllocations";
    }
    /// Templates of claims.
    claim_template of "resource.k8s.io" "v1" "ResourceClaimTemplate" at [] {
        /// Labels of the claims.
        LABELS = "spec"."metadata"."labels";
        /// Annotations of the claims.
        ANNOTATIONS = "spec"."metadata"."annotations";
        /// What the claims ask for.
        SPEC = "spec"."spec";
    }
    /// A claim of a pod.
    pod_claim of "" "v1" "Pod" at ["spec", "resourceClaims", "[]"] {
        /// Name within the pod.
        NAME = "name";
        /// The claim.
        CLAIM = "resourceClaimName";
        /// Or the template of one.
        TEMPLATE = "resourceClaimTemplateName";
    }
    /// The claim that was made for a pod.
    made_claim of "" "v1" "Pod" at ["status", "resourceClaimStatuses", "[]"] {
        /// Name within the pod.
        NAME = "name";
        /// The claim.
        CLAIM = "resourceClaimName";
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
        /// How it ended.
        TERMINATED = "state"."terminated";
        /// How the run before ended.
        LAST_END = "lastState"."terminated";
    }
    /// How a container ended.
    terminated of "" "v1" "Pod" at ["status", "containerStatuses", "[]", "state", "terminated"] {
        /// With which code.
        CODE = "exitCode";
        /// By which signal.
        SIGNAL = "signal";
        /// When it began.
        STARTED = "startedAt";
        /// When it ended.
        FINISHED = "finishedAt";
        /// Last words.
        MESSAGE = "message";
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
    /// A volume of a Pod.
    pod_volume of "" "v1" "Pod" at ["spec", "volumes", "[]"] {
        /// Name.
        NAME = "name";
        /// The claim it is.
        CLAIM = "persistentVolumeClaim"."claimName";
        /// What a claim is made of for this pod alone.
        TEMPLATE = "ephemeral"."volumeClaimTemplate";
        /// Whether the claim can only be read.
        CLAIM_READ_ONLY = "persistentVolumeClaim"."readOnly";
        /// A ConfigMap.
        CONFIG_MAP = "configMap";
        /// A Secret.
        SECRET = "secret";
        /// Facts about the pod.
        DOWNWARD = "downwardAPI";
        /// Several in one folder.
        PROJECTED = "projected";
        /// An empty folder.
        EMPTY = "emptyDir";
        /// What it is made of.
        EMPTY_MEDIUM = "emptyDir"."medium";
        /// How much it may hold.
        EMPTY_LIMIT = "emptyDir"."sizeLimit";
        /// Something of the host.
        HOST = "hostPath";
        /// Where.
        HOST_PATH = "hostPath"."path";
        /// What it must be.
        HOST_TYPE = "hostPath"."type";
    }
    /// A volume made of files; checked on Secrets.
    file_volume of "" "v1" "Pod" at ["spec", "volumes", "[]", "secret"] {
        /// Name of the Secret.
        SECRET = "secretName";
        /// Which keys go where; all when absent.
        ITEMS = "items";
        /// Mode of the files.
        MODE = "defaultMode";
        /// Whether the object and its keys may be missing.
        OPTIONAL = "optional";
    }
    /// Where a key goes.
    file_item of "" "v1" "Pod" at ["spec", "volumes", "[]", "secret", "items", "[]"] {
        /// Key.
        KEY = "key";
        /// File.
        PATH = "path";
        /// Mode.
        MODE = "mode";
    }
    /// A file with a fact about the pod.
    downward_item of "" "v1" "Pod" at ["spec", "volumes", "[]", "downwardAPI", "items", "[]"] {
        /// File.
        PATH = "path";
        /// Mode.
        MODE = "mode";
        /// A field of the pod.
        FIELD = "fieldRef";
        /// A resource of a container.
        RESOURCE = "resourceFieldRef";
    }
    /// Several volumes in one folder.
    projected of "" "v1" "Pod" at ["spec", "volumes", "[]", "projected"] {
        /// Which.
        SOURCES = "sources";
        /// Mode of the files.
        MODE = "defaultMode";
    }
    /// One of them.
    projection of "" "v1" "Pod" at ["spec", "volumes", "[]", "projected", "sources", "[]"] {
        /// A ConfigMap.
        CONFIG_MAP = "configMap";
        /// A Secret.
        SECRET = "secret";
        /// Facts about the pod.
        DOWNWARD = "downwardAPI";
        /// A token of the service account.
        TOKEN = "serviceAccountToken";
    }
    /// A token of a service account, in a file.
    token_projection of "" "v1" "Pod" at ["spec", "volumes", "[]", "projected", "sources", "[]", "serviceAccountToken"] {
        /// For whom.
        AUDIENCE = "audience";
        /// For how long.
        SECONDS = "expirationSeconds";
        /// File.
        PATH = "path";
    }
    /// Bounds of what containers and pods ask for.
    limit_range of "" "v1" "LimitRange" at [] {
        /// The bounds.
        LIMITS = "spec"."limits";
    }
    /// Bounds of one sort of thing.
    limit_item of "" "v1" "LimitRange" at ["spec", "limits", "[]"] {
        /// Of what.
        TYPE = "type";
        /// Most.
        MAX = "max";
        /// Least.
        MIN = "min";
        /// Limits of containers that name none.
        DEFAULT = "default";
        /// Requests of containers that name none.
        DEFAULT_REQUEST = "defaultRequest";
    }
    /// A class of priority.
    priority_class of "scheduling.k8s.io" "v1" "PriorityClass" at [] {
        /// Its number.
        VALUE = "value";
        /// Whether pods that name none are of it.
        GLOBAL_DEFAULT = "globalDefault";
    }
    /// How containers are run.
    runtime_class of "node.k8s.io" "v1" "RuntimeClass" at [] {
        /// What every pod costs on top.
        OVERHEAD = "overhead"."podFixed";
    }
    /// ConfigMaps.
    config_map of "" "v1" "ConfigMap" at [] {
        /// Text by key.
        DATA = "data";
        /// Bytes by key.
        BINARY = "binaryData";
    }
    /// Secrets.
    secret of "" "v1" "Secret" at [] {
        /// Bytes by key.
        DATA = "data";
    }
    /// Claims to volumes.
    claim of "" "v1" "PersistentVolumeClaim" at [] {
        /// Class.
        CLASS = "spec"."storageClassName";
        /// Access modes.
        MODES = "spec"."accessModes";
        /// Its volume.
        VOLUME = "spec"."volumeName";
        /// How much it asks for.
        REQUESTS = "spec"."resources"."requests";
        /// Which volumes will do.
        SELECTOR = "spec"."selector";
        /// File system or block device.
        MODE = "spec"."volumeMode";
        /// Class of attributes.
        ATTRIBUTES = "spec"."volumeAttributesClassName";
        /// Phase.
        PHASE = "status"."phase";
        /// How much it has.
        CAPACITY = "status"."capacity";
        /// Access modes of its volume.
        GIVEN_MODES = "status"."accessModes";
        /// Class of attributes of its volume.
        GIVEN_ATTRIBUTES = "status"."currentVolumeAttributesClassName";
        /// Conditions.
        CONDITIONS = "status"."conditions";
    }
    /// Volumes.
    volume of "" "v1" "PersistentVolume" at [] {
        /// Class.
        CLASS = "spec"."storageClassName";
        /// Access modes.
        MODES = "spec"."accessModes";
        /// How much it holds.
        CAPACITY = "spec"."capacity";
        /// The claim it is for.
        CLAIM = "spec"."claimRef";
        /// Namespace of that claim.
        CLAIM_NAMESPACE = "spec"."claimRef"."namespace";
        /// Name of that claim.
        CLAIM_NAME = "spec"."claimRef"."name";
        /// UID of that claim; empty when it is only meant for it.
        CLAIM_UID = "spec"."claimRef"."uid";
        /// What becomes of it when its claim is gone.
        POLICY = "spec"."persistentVolumeReclaimPolicy";
        /// File system or block device.
        MODE = "spec"."volumeMode";
        /// Class of attributes.
        ATTRIBUTES = "spec"."volumeAttributesClassName";
        /// From which nodes it can be reached.
        AFFINITY = "spec"."nodeAffinity"."required"."nodeSelectorTerms";
        /// Driver.
        DRIVER = "spec"."csi"."driver";
        /// Its name to the driver.
        HANDLE = "spec"."csi"."volumeHandle";
        /// Folder on the host.
        HOST_PATH = "spec"."hostPath"."path";
        /// What that must be.
        HOST_TYPE = "spec"."hostPath"."type";
        /// Folder of one node.
        LOCAL_PATH = "spec"."local"."path";
        /// Phase.
        PHASE = "status"."phase";
    }
    /// Storage classes.
    storage_class of "storage.k8s.io" "v1" "StorageClass" at [] {
        /// Who makes volumes.
        PROVISIONER = "provisioner";
        /// When claims are bound.
        BINDING = "volumeBindingMode";
        /// On which nodes volumes can be made.
        TOPOLOGIES = "allowedTopologies";
        /// What becomes of volumes when their claims are gone.
        RECLAIM = "reclaimPolicy";
        /// Options of mounts.
        MOUNT_OPTIONS = "mountOptions";
    }
    /// A term of the topologies of a storage class.
    topology of "storage.k8s.io" "v1" "StorageClass" at ["allowedTopologies", "[]"] {
        /// Expressions.
        EXPRESSIONS = "matchLabelExpressions";
    }
    /// What nodes can attach.
    csi_node of "storage.k8s.io" "v1" "CSINode" at [] {
        /// Drivers.
        DRIVERS = "spec"."drivers";
    }
    /// A driver of a node.
    csi_driver of "storage.k8s.io" "v1" "CSINode" at ["spec", "drivers", "[]"] {
        /// Name.
        NAME = "name";
        /// How many volumes it can attach.
        COUNT = "allocatable"."count";
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
    /// A JobSet.
    jobset of "jobset.x-k8s.io" "v1alpha2" "JobSet" at [] {
        /// Its replicatedJobs.
        JOBS = "spec"."replicatedJobs";
        /// Whether pods have names.
        HOSTNAMES = "spec"."network"."enableDNSHostnames";
        /// The domain of those names.
        SUBDOMAIN = "spec"."network"."subdomain";
        /// Whether pods that are not ready have them, too.
        PUBLISH_NOT_READY = "spec"."network"."publishNotReadyAddresses";
        /// When it is complete.
        SUCCESS = "spec"."successPolicy";
        /// All or any.
        SUCCESS_OPERATOR = "spec"."successPolicy"."operator";
        /// Of which replicatedJobs.
        SUCCESS_TARGETS = "spec"."successPolicy"."targetReplicatedJobs";
        /// What failures mean.
        FAILURE = "spec"."failurePolicy";
        /// How replicatedJobs start.
        STARTUP = "spec"."startupPolicy";
        /// In which order.
        STARTUP_ORDER = "spec"."startupPolicy"."startupPolicyOrder";
        /// Whether suspended.
        SUSPEND = "spec"."suspend";
        /// The coordinator.
        COORDINATOR = "spec"."coordinator";
        /// Who manages it.
        MANAGED_BY = "spec"."managedBy";
        /// Time to live when finished.
        TTL = "spec"."ttlSecondsAfterFinished";
        /// Shared volumes.
        VOLUMES = "spec"."volumeClaimPolicies";
        /// Status.
        STATUS = "status";
    }
    /// What failures of a JobSet mean.
    jobset_failure of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "failurePolicy"] {
        /// Restarts that count, at most.
        MAX_RESTARTS = "maxRestarts";
        /// How Jobs are made anew.
        STRATEGY = "restartStrategy";
        /// Rules.
        RULES = "rules";
    }
    /// A rule about failures of a JobSet.
    jobset_rule of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "failurePolicy", "rules", "[]"] {
        /// Name.
        NAME = "name";
        /// What to do.
        ACTION = "action";
        /// For which reasons.
        REASONS = "onJobFailureReasons";
        /// For which messages.
        PATTERNS = "onJobFailureMessagePatterns";
        /// For which replicatedJobs.
        TARGETS = "targetReplicatedJobs";
    }
    /// The coordinator of a JobSet.
    jobset_coordinator of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "coordinator"] {
        /// Of which replicatedJob.
        JOB = "replicatedJob";
        /// Which Job.
        JOB_INDEX = "jobIndex";
        /// Which pod.
        POD_INDEX = "podIndex";
    }
    /// A replicatedJob of a JobSet.
    replicated_job of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "replicatedJobs", "[]"] {
        /// Name.
        NAME = "name";
        /// The group it belongs to.
        GROUP = "groupName";
        /// How many Jobs.
        REPLICAS = "replicas";
        /// The Job.
        TEMPLATE = "template";
        /// Labels of the Job.
        JOB_LABELS = "template"."metadata"."labels";
        /// Annotations of the Job.
        JOB_ANNOTATIONS = "template"."metadata"."annotations";
        /// Spec of the Job.
        JOB_SPEC = "template"."spec";
        /// Pods at once.
        PARALLELISM = "template"."spec"."parallelism";
        /// Successes wanted.
        COMPLETIONS = "template"."spec"."completions";
        /// Completion mode.
        MODE = "template"."spec"."completionMode";
        /// The pods.
        POD_TEMPLATE = "template"."spec"."template";
        /// Spec of the pods.
        POD_SPEC = "template"."spec"."template"."spec";
        /// Whether their containers start again.
        RESTART_POLICY = "template"."spec"."template"."spec"."restartPolicy";
        /// Failed pods of a Job, at most.
        BACKOFF_LIMIT = "template"."spec"."backoffLimit";
        /// When failed pods are replaced.
        REPLACEMENT = "template"."spec"."podReplacementPolicy";
        /// What must be before it.
        DEPENDS_ON = "dependsOn";
        /// Device claims.
        CLAIMS = "resourceClaimTemplates";
    }
    /// What a replicatedJob waits for.
    jobset_dependency of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "replicatedJobs", "[]", "dependsOn", "[]"] {
        /// Which other one.
        NAME = "name";
        /// How far that must be.
        STATUS = "status";
    }
    /// The template of a device claim of a replicatedJob.
    jobset_claim of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "replicatedJobs", "[]", "resourceClaimTemplates", "[]"] {
        /// Name.
        NAME = "metadata"."name";
        /// Labels.
        LABELS = "metadata"."labels";
        /// Annotations.
        ANNOTATIONS = "metadata"."annotations";
        /// Namespace, which it may not have.
        NAMESPACE = "metadata"."namespace";
        /// The beginning of a name, which it may not have.
        GENERATE_NAME = "metadata"."generateName";
        /// A second name, which it may not have.
        SPEC_NAME = "spec"."metadata"."name";
        /// Labels again.
        SPEC_LABELS = "spec"."metadata"."labels";
        /// Annotations again.
        SPEC_ANNOTATIONS = "spec"."metadata"."annotations";
        /// Devices.
        DEVICES = "spec"."devices";
        /// Devices, as claim templates of the cluster have them.
        LONG_DEVICES = "spec"."spec"."devices";
        /// Which containers name it.
        CONTAINERS = "containers";
        /// When it goes.
        DELETION = "deletionPolicy";
    }
    /// Shared volumes of a JobSet.
    jobset_volumes of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "volumeClaimPolicies", "[]"] {
        /// Templates.
        TEMPLATES = "templates";
        /// What becomes of them.
        WHEN_DELETED = "retentionPolicy"."whenDeleted";
    }
    /// The template of a shared volume of a JobSet.
    jobset_volume of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["spec", "volumeClaimPolicies", "[]", "templates", "[]"] {
        /// Name.
        NAME = "metadata"."name";
        /// Namespace, which it may not have.
        NAMESPACE = "metadata"."namespace";
        /// Labels.
        LABELS = "metadata"."labels";
        /// Annotations.
        ANNOTATIONS = "metadata"."annotations";
        /// Spec.
        SPEC = "spec";
    }
    /// The status of a JobSet.
    jobset_status of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["status"] {
        /// Conditions.
        CONDITIONS = "conditions";
        /// Restarts of the whole.
        RESTARTS = "restarts";
        /// Those that count.
        COUNTED = "restartsCountTowardsMax";
        /// How it ended.
        TERMINAL = "terminalState";
        /// Each replicatedJob.
        JOBS = "replicatedJobsStatus";
        /// The last attempt in place that is over.
        IN_PLACE_PREVIOUS = "previousInPlaceRestartAttempt";
        /// The attempt in place that all pods have reached.
        IN_PLACE_CURRENT = "currentInPlaceRestartAttempt";
    }
    /// The status of a replicatedJob.
    replicated_status of "jobset.x-k8s.io" "v1alpha2" "JobSet" at ["status", "replicatedJobsStatus", "[]"] {
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
        /// Restarts of single Jobs.
        RESTARTS = "jobRestarts";
        /// Those that count.
        COUNTED = "jobRestartsCountTowardsMax";
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
    /// A port of a Service.
    service_port of "" "v1" "Service" at ["spec", "ports", "[]"] {
        /// Name.
        NAME = "name";
        /// Number.
        PORT = "port";
        /// Protocol.
        PROTOCOL = "protocol";
    }
    /// EndpointSlices.
    endpoint_slice of "discovery.k8s.io" "v1" "EndpointSlice" at [] {
        /// Ports.
        PORTS = "ports";
        /// Endpoints.
        ENDPOINTS = "endpoints";
    }
    /// How gangs are to be placed.
    workload of "scheduling.k8s.io" "v1alpha1" "Workload" at [] {
        /// Templates of groups.
        TEMPLATES = "spec"."podGroupTemplates";
        /// Groups without an object of their own.
        ENTRIES = "spec"."podGroups";
    }
    /// A template of groups.
    group_template of "scheduling.k8s.io" "v1alpha1" "Workload" at ["spec", "podGroupTemplates", "[]"] {
        /// Name.
        NAME = "name";
        /// Policy.
        POLICY = "policy";
        /// Policy, as it was called later.
        SCHEDULING_POLICY = "schedulingPolicy";
    }
    /// A policy of placing.
    group_policy of "scheduling.k8s.io" "v1alpha1" "PodGroup" at ["spec", "schedulingPolicy"] {
        /// Each pod for itself.
        BASIC = "basic";
        /// So many or none.
        GANG = "gang";
        /// How many.
        MIN = "gang"."minCount";
    }
    /// What a group or its template says beside its policy.
    group_terms of "scheduling.k8s.io" "v1alpha1" "PodGroup" at ["spec"] {
        /// Policy.
        POLICY = "schedulingPolicy";
        /// Priority.
        PRIORITY = "priority";
        /// Whether others may be evicted for it.
        PREEMPTION = "preemptionPolicy";
        /// What goes when a pod of it goes.
        DISRUPTION = "disruptionMode";
        /// It goes as a whole.
        DISRUPTION_ALL = "disruptionMode"."all";
        /// Its pods go one by one.
        DISRUPTION_SINGLE = "disruptionMode"."single";
        /// What its nodes have in common.
        TOPOLOGY = "schedulingConstraints"."topology";
    }
    /// What the nodes of a group have in common.
    group_topology of "scheduling.k8s.io" "v1alpha1" "PodGroup" at ["spec", "schedulingConstraints", "topology", "[]"] {
        /// The label.
        KEY = "key";
    }
    /// Gangs.
    pod_group of "scheduling.k8s.io" "v1alpha1" "PodGroup" at [] {
        /// The Workload.
        WORKLOAD = "spec"."workloadRef"."name";
        /// The incarnation of it that is meant.
        WORKLOAD_UID = "spec"."workloadRef"."uid";
        /// Where it is: nowhere but beside the group.
        WORKLOAD_NAMESPACE = "spec"."workloadRef"."namespace";
        /// The template.
        TEMPLATE = "spec"."podGroupTemplateRef"."name";
        /// The template, spelled otherwise.
        TEMPLATE_NAME = "spec"."podGroupTemplateName";
        /// Pods with nodes.
        SCHEDULED = "status"."scheduledPods";
        /// Conditions.
        CONDITIONS = "status"."conditions";
    }
    /// Gangs, as they were released.
    released_group of "scheduling.k8s.io" "v1beta1" "PodGroup" at [] {
        /// The Workload.
        WORKLOAD = "spec"."workloadRef"."workloadName";
        /// The template.
        TEMPLATE = "spec"."workloadRef"."templateName";
    }
    /// Leases.
    lease of "coordination.k8s.io" "v1" "Lease" at [] {
        /// When renewed.
        RENEWED = "spec"."renewTime";
        /// Who holds it.
        HOLDER = "spec"."holderIdentity";
    }
}
