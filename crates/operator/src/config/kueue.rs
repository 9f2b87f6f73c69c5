//! The configuration file of Kueue, both versions: which keys there are, and which of them do nothing here.

use muster_queue::kinds::config::Settings;
use muster_tree::{Text, Tree};

use super::shape::{Field, Shape, Wrong, needless, used};
use super::upstream::{
    API_VERSION, CERTIFICATES, CLIENT_CONNECTION, CONTROLLER, HEALTH, KIND, LEADER_ELECTION, PORT, WEBHOOK,
};

/// Its versions.
pub const V1: &str = "config.kueue.x-k8s.io/v1beta1";
/// The newer one.
pub const V2: &str = "config.kueue.x-k8s.io/v1beta2";

const ONE_CLUSTER: &str = "not built in, work is queued for one cluster";
const NO_HISTORY: &str = "not built in, usage of the past does not count";
const NO_CLAIMS: &str = "not built in, devices of claims do not count";
const NO_GATES: &str = "not used, gates of Kueue switch nothing here";
const ALWAYS_TOLD: &str = "not needed, those numbers are always told";
const ASKED: &str = "not needed, whoever asks the visibility API is told as things stand";
const NO_LABELS: &str = "not built in, numbers have the labels that Kueue gives them by default";
const NO_STRATEGY: &str = "not built in, what a queue does not cover is not admitted there";
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
        needless("enableClusterQueueResources", Shape::Bool, ALWAYS_TOLD),
        needless(
            "localQueueMetrics",
            Shape::Fields(&[used("enable", Shape::Bool), used("localQueueSelector", SELECTOR)]),
            ALWAYS_TOLD,
        ),
        needless(
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

/// How webhooks are encrypted.
const TLS: Field = used(
    "tls",
    Shape::Fields(&[
        used("minVersion", Shape::Text),
        used("cipherSuites", Shape::List(&Shape::Text)),
        needless(
            "curvePreferences",
            Shape::List(&Shape::Anything),
            "not used, curves are those of the library",
        ),
    ]),
);

const VISIBILITY: Field = needless(
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

const MULTI_V1: Field = needless(
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

const MULTI_V2: Field = needless(
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
        needless(
            "deviceClassMappings",
            Shape::List(&Shape::Fields(&[
                used("name", Shape::Text),
                used("deviceClassNames", Shape::List(&Shape::Text)),
                used("sources", Shape::List(&Shape::Anything)),
            ])),
            NO_CLAIMS,
        ),
        needless("quotaCheckStrategy", Shape::Text, NO_STRATEGY),
    ]),
);

const SHARING: Field = needless(
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

const NAMESPACE: Field = needless("namespace", Shape::Text, "not used, the operator's namespace is its own");
const PPROF: Field =
    needless("pprofBindAddress", Shape::Text, "not there; `debug.listen` of ours shows queues and calls");
const WITHOUT_NAME: Field = used("manageJobsWithoutQueueName", Shape::Bool);
const NAMESPACES: Field = used("managedJobsNamespaceSelector", SELECTOR);
const INTERNAL: Field = used("internalCertManagement", CERTIFICATES);
const GATES: Field = needless("featureGates", Shape::Map(&Shape::Bool), NO_GATES);
const FAIR_V2: Field = used("fairSharing", Shape::Fields(&[STRATEGIES]));

/// Version `v1beta1`.
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
    needless(
        "queueVisibility",
        Shape::Fields(&[
            used("clusterQueues", Shape::Fields(&[used("maxCount", SECONDS)])),
            used("updateIntervalSeconds", SECONDS),
        ]),
        ASKED,
    ),
    MULTI_V1,
    used("fairSharing", Shape::Fields(&[used("enable", Shape::Bool), STRATEGIES])),
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
    TLS,
];

/// Version `v1beta2`.
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

/// What stands below `queueing` in a document of ours: the keys of `v1beta2` that are about queues, and `podOptions`,
/// which that version has no more.
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
    used("metrics", Shape::Fields(&[needless("enableClusterQueueResources", Shape::Bool, ALWAYS_TOLD)])),
];

/// Keys that `muster up` acts upon, too.
pub const EVERYWHERE: [&str; 7] = [
    "manageJobsWithoutQueueName",
    "managedJobsNamespaceSelector",
    "waitForPodsReady",
    "integrations",
    "fairSharing",
    "resources",
    "objectRetentionPolicies",
];

/// Rules beyond keys. Which namespace is our own is not known here yet.
pub fn check(document: &Tree, wrong: &mut Vec<Wrong>) {
    let told = Settings::of(Some(document), "").err().unwrap_or_default();
    wrong.extend(told.into_iter().map(|it| Wrong::at(it.path, it.words)));
}

/// What was asked for and is not built in: a line for the log.
pub fn unserved(document: &Tree) -> Option<String> {
    let names = Settings::of(Some(document), "").ok()?.unserved;
    let names: Vec<&str> = names.iter().map(Text::as_str).collect();
    (!names.is_empty()).then(|| format!("integrations.frameworks: {}: not built in", names.join(", ")))
}
