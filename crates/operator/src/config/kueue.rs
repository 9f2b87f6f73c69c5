//! The schemas of Kueue's configuration file, both versions, and which keys have no effect here.

use muster_queue::kinds::config::QueueConfig;
use muster_tree::{Text, Tree};

use super::shape::{ConfigProblem, Field, Shape, ignored, used};
use super::upstream::{
    API_VERSION, CERTIFICATES, CLIENT_CONNECTION, CONTROLLER, HEALTH, KIND, LEADER_ELECTION, PORT, WEBHOOK,
};

pub const V1: &str = muster_api::queue::consts::CONFIG_V1BETA1;
pub const V2: &str = muster_api::queue::consts::CONFIG_V1BETA2;

const ONE_CLUSTER: &str = "not supported, Workloads are queued for one cluster";
const NO_HISTORY: &str = "not supported, past usage is not tracked";
const NO_CLAIMS: &str = "not supported, devices of ResourceClaims are not counted";
const NO_GATES: &str = "not used, Kueue's feature gates have no effect";
const ALWAYS_EXPOSED: &str = "not needed, these metrics are always exposed";
const ALWAYS_CURRENT: &str = "not needed, the visibility API is always current";
const NO_LABELS: &str = "not supported, metrics have Kueue's default labels";
const NO_STRATEGY: &str = "not supported, Workloads that request undeclared resources are not admitted";
const VISIBLE: &str = "not used, the visibility API is served beside the webhooks";
const SECONDS: Shape = Shape::Whole(0, i32::MAX as i64);

const SELECTOR: Shape = Shape::Fields(&[
    used("matchLabels", Shape::Map(&Shape::Text)),
    used(
        "matchExpressions",
        Shape::List(&Shape::Fields(&[
            used("key", Shape::Text),
            used("operator", Shape::Word(&["In", "NotIn", "Exists", "DoesNotExist"])),
            used("values", Shape::List(&Shape::Text)),
        ])),
    ),
]);

const METRICS: Field = used(
    "metrics",
    Shape::Fields(&[
        used("bindAddress", Shape::Bind),
        ignored("enableClusterQueueResources", Shape::Bool, ALWAYS_EXPOSED),
        ignored(
            "localQueueMetrics",
            Shape::Fields(&[used("enable", Shape::Bool), used("localQueueSelector", SELECTOR)]),
            ALWAYS_EXPOSED,
        ),
        ignored(
            "customLabels",
            Shape::List(&Shape::Fields(&[
                used("name", Shape::Text),
                used("sourceKind", Shape::Text),
                used("sourceLabelKey", Shape::Text),
                used("sourceAnnotationKey", Shape::Text),
                used("trackedValues", Shape::List(&Shape::Text)),
            ])),
            NO_LABELS,
        ),
    ]),
);

const TLS: Field = used(
    "tls",
    Shape::Fields(&[
        used("minVersion", Shape::Text),
        used("cipherSuites", Shape::List(&Shape::Text)),
        ignored(
            "curvePreferences",
            Shape::List(&Shape::Anything),
            "not used, the TLS library selects the curves",
        ),
    ]),
);

const VISIBILITY: Field = ignored(
    "visibilityServer",
    Shape::Fields(&[used("bindAddress", Shape::Text), used("bindPort", PORT)]),
    VISIBLE,
);

const REQUEUING: Field = used(
    "requeuingStrategy",
    Shape::Fields(&[
        used("timestamp", Shape::Word(&["Eviction", "Creation"])),
        used("backoffLimitCount", SECONDS),
        used("backoffBaseSeconds", SECONDS),
        used("backoffMaxSeconds", SECONDS),
    ]),
);

const WAIT_V1: Field = used(
    "waitForPodsReady",
    Shape::Fields(&[
        used("enable", Shape::Bool),
        used("timeout", Shape::Span),
        used("blockAdmission", Shape::Bool),
        REQUEUING,
        used("recoveryTimeout", Shape::Pause),
    ]),
);

const WAIT_V2: Field = used(
    "waitForPodsReady",
    Shape::Fields(&[
        used("timeout", Shape::Span),
        used("blockAdmission", Shape::Bool),
        REQUEUING,
        used("recoveryTimeout", Shape::Pause),
    ]),
);

const FRAMEWORKS: Field = used("frameworks", Shape::List(&Shape::Text));
const EXTERNAL_FRAMEWORKS: Field = used("externalFrameworks", Shape::List(&Shape::Text));
const LABEL_KEYS: Field = used("labelKeysToCopy", Shape::List(&Shape::Text));

const INTEGRATIONS_V1: Field = used(
    "integrations",
    Shape::Fields(&[
        FRAMEWORKS,
        EXTERNAL_FRAMEWORKS,
        LABEL_KEYS,
        used(
            "podOptions",
            Shape::Fields(&[used("namespaceSelector", SELECTOR), used("podSelector", SELECTOR)]),
        ),
    ]),
);

const INTEGRATIONS_V2: Field =
    used("integrations", Shape::Fields(&[FRAMEWORKS, EXTERNAL_FRAMEWORKS, LABEL_KEYS]));

const STRATEGIES: Field = used(
    "preemptionStrategies",
    Shape::List(&Shape::Word(&["LessThanOrEqualToFinalShare", "LessThanInitialShare"])),
);

const MULTI_NAMES: Field =
    used("externalFrameworks", Shape::List(&Shape::Fields(&[used("name", Shape::Text)])));

const MULTI_V1: Field = ignored(
    "multiKueue",
    Shape::Fields(&[
        used("gcInterval", Shape::Pause),
        used("origin", Shape::Text),
        used("workerLostTimeout", Shape::Pause),
        used("dispatcherName", Shape::Text),
        MULTI_NAMES,
    ]),
    ONE_CLUSTER,
);

const PROVIDERS: Shape =
    Shape::List(&Shape::Fields(&[used("name", Shape::Text), used("execConfig", Shape::Anything)]));

const MULTI_V2: Field = ignored(
    "multiKueue",
    Shape::Fields(&[
        used("gcInterval", Shape::Pause),
        used("origin", Shape::Text),
        used("workerLostTimeout", Shape::Pause),
        used("dispatcherName", Shape::Text),
        MULTI_NAMES,
        used(
            "clusterProfile",
            Shape::Fields(&[used("credentialsProviders", PROVIDERS), used("accessProviders", PROVIDERS)]),
        ),
        used("incrementalDispatcherConfig", Shape::Fields(&[used("stepSize", SECONDS)])),
    ]),
    ONE_CLUSTER,
);

const RESOURCES: Field = used(
    "resources",
    Shape::Fields(&[
        used("excludeResourcePrefixes", Shape::List(&Shape::Text)),
        used(
            "transformations",
            Shape::List(&Shape::Fields(&[
                used("input", Shape::Text),
                used("strategy", Shape::Word(&["Retain", "Replace"])),
                used("outputs", Shape::Map(&Shape::Anything)),
                used("multiplyBy", Shape::Text),
            ])),
        ),
        ignored(
            "deviceClassMappings",
            Shape::List(&Shape::Fields(&[
                used("name", Shape::Text),
                used("deviceClassNames", Shape::List(&Shape::Text)),
                used("sources", Shape::List(&Shape::Anything)),
            ])),
            NO_CLAIMS,
        ),
        ignored("quotaCheckStrategy", Shape::Text, NO_STRATEGY),
    ]),
);

const SHARING: Field = ignored(
    "admissionFairSharing",
    Shape::Fields(&[
        used("usageHalfLifeTime", Shape::Pause),
        used("usageSamplingInterval", Shape::Pause),
        used("resourceWeights", Shape::Map(&Shape::Number)),
    ]),
    NO_HISTORY,
);

const RETENTION: Field = used(
    "objectRetentionPolicies",
    Shape::Fields(&[used(
        "workloads",
        Shape::Fields(&[used("afterFinished", Shape::Pause), used("afterDeactivatedByKueue", Shape::Pause)]),
    )]),
);

const NAMESPACE: Field = ignored(
    "namespace",
    Shape::Text,
    "not used, the operator's namespace is `namespace` of our own document",
);
const PPROF: Field = ignored(
    "pprofBindAddress",
    Shape::Text,
    "not supported; `debug.listen` of our own document serves a debug dump",
);
const WITHOUT_NAME: Field = used("manageJobsWithoutQueueName", Shape::Bool);
const NAMESPACES: Field = used("managedJobsNamespaceSelector", SELECTOR);
const INTERNAL: Field = used("internalCertManagement", CERTIFICATES);
const GATES: Field = ignored("featureGates", Shape::Map(&Shape::Bool), NO_GATES);
const FAIR_V2: Field = used("fairSharing", Shape::Fields(&[STRATEGIES]));

pub const V1BETA1: [Field; 23] = [
    API_VERSION,
    KIND,
    NAMESPACE,
    WEBHOOK,
    LEADER_ELECTION,
    METRICS,
    HEALTH,
    PPROF,
    CONTROLLER,
    WITHOUT_NAME,
    NAMESPACES,
    INTERNAL,
    WAIT_V1,
    CLIENT_CONNECTION,
    INTEGRATIONS_V1,
    ignored(
        "queueVisibility",
        Shape::Fields(&[
            used("clusterQueues", Shape::Fields(&[used("maxCount", SECONDS)])),
            used("updateIntervalSeconds", SECONDS),
        ]),
        ALWAYS_CURRENT,
    ),
    MULTI_V1,
    used("fairSharing", Shape::Fields(&[used("enable", Shape::Bool), STRATEGIES])),
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
    TLS,
];

pub const V1BETA2: [Field; 23] = [
    API_VERSION,
    KIND,
    NAMESPACE,
    WEBHOOK,
    LEADER_ELECTION,
    METRICS,
    HEALTH,
    PPROF,
    CONTROLLER,
    WITHOUT_NAME,
    NAMESPACES,
    INTERNAL,
    WAIT_V2,
    CLIENT_CONNECTION,
    INTEGRATIONS_V2,
    MULTI_V2,
    FAIR_V2,
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
    TLS,
    VISIBILITY,
];

/// The keys below `queueing` of our own document: those of `v1beta2` that concern queues, and `podOptions`,
/// which that version removed.
pub const QUEUEING: [Field; 11] = [
    WITHOUT_NAME,
    NAMESPACES,
    WAIT_V2,
    INTEGRATIONS_V1,
    MULTI_V2,
    FAIR_V2,
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
    used("metrics", Shape::Fields(&[ignored("enableClusterQueueResources", Shape::Bool, ALWAYS_EXPOSED)])),
];

/// Keys that `muster up` uses, too.
pub const USED_BY_UP: [&str; 7] = [
    "manageJobsWithoutQueueName",
    "managedJobsNamespaceSelector",
    "waitForPodsReady",
    "integrations",
    "fairSharing",
    "resources",
    "objectRetentionPolicies",
];

/// Validation beyond the schema. The operator's own namespace is not known yet, and is checked later.
pub fn check(document: &Tree, wrong: &mut Vec<ConfigProblem>) {
    let told = QueueConfig::of(Some(document), "").err().unwrap_or_default();
    wrong.extend(told.into_iter().map(|it| ConfigProblem::at(it.path, it.words)));
}

/// A warning about integrations that are not supported.
pub fn unsupported_integrations(document: &Tree) -> Option<String> {
    let names = QueueConfig::of(Some(document), "").ok()?.unsupported_frameworks;
    let names: Vec<&str> = names.iter().map(Text::as_str).collect();
    (!names.is_empty()).then(|| format!("integrations.frameworks: {}: not supported", names.join(", ")))
}
