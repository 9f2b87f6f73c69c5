//! The configuration file of Kueue, both versions: read, checked, and kept; nothing is done about it yet.

use super::shape::{Field, Shape, kept, needless, used};
use super::upstream::{
    API_VERSION, CERTIFICATES, CLIENT_CONNECTION, CONTROLLER, HEALTH, KIND, LEADER_ELECTION, WEBHOOK,
};

/// Its versions.
pub const V1: &str = "config.kueue.x-k8s.io/v1beta1";
/// The newer one.
pub const V2: &str = "config.kueue.x-k8s.io/v1beta2";

const LATER: &str = "kept, and does nothing yet";
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
        kept("enableClusterQueueResources", Shape::Bool, LATER),
    ]),
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

const WAIT_V1: Field = kept(
    "waitForPodsReady",
    Shape::Fields(&[
        used("enable", Shape::Bool),
        used("timeout", Shape::Span),
        used("blockAdmission", Shape::Bool),
        REQUEUING,
        used("recoveryTimeout", Shape::Pause),
    ]),
    LATER,
);

const WAIT_V2: Field = kept(
    "waitForPodsReady",
    Shape::Fields(&[
        used("timeout", Shape::Span),
        used("blockAdmission", Shape::Bool),
        REQUEUING,
        used("recoveryTimeout", Shape::Pause),
    ]),
    LATER,
);

const FRAMEWORKS: Field = used("frameworks", Shape::List(&Shape::Text));
const EXTERNAL_FRAMEWORKS: Field = used("externalFrameworks", Shape::List(&Shape::Text));
const LABEL_KEYS: Field = used("labelKeysToCopy", Shape::List(&Shape::Text));

const INTEGRATIONS_V1: Field = kept(
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
    LATER,
);

const INTEGRATIONS_V2: Field =
    kept("integrations", Shape::Fields(&[FRAMEWORKS, EXTERNAL_FRAMEWORKS, LABEL_KEYS]), LATER);

const STRATEGIES: Field = used(
    "preemptionStrategies",
    Shape::List(&Shape::Word(&["LessThanOrEqualToFinalShare", "LessThanInitialShare"])),
);

const MULTI_NAMES: Field =
    used("externalFrameworks", Shape::List(&Shape::Fields(&[used("name", Shape::Text)])));

const MULTI_V1: Field = kept(
    "multiKueue",
    Shape::Fields(&[
        used("gcInterval", Shape::Pause),
        used("origin", Shape::Text),
        used("workerLostTimeout", Shape::Pause),
        used("dispatcherName", Shape::Text),
        MULTI_NAMES,
    ]),
    LATER,
);

const MULTI_V2: Field = kept(
    "multiKueue",
    Shape::Fields(&[
        used("gcInterval", Shape::Pause),
        used("origin", Shape::Text),
        used("workerLostTimeout", Shape::Pause),
        used("dispatcherName", Shape::Text),
        MULTI_NAMES,
        used(
            "clusterProfile",
            Shape::Fields(&[used(
                "credentialsProviders",
                Shape::List(&Shape::Fields(&[
                    used("name", Shape::Text),
                    used("execConfig", Shape::Anything),
                ])),
            )]),
        ),
    ]),
    LATER,
);

const RESOURCES: Field = kept(
    "resources",
    Shape::Fields(&[
        used("excludeResourcePrefixes", Shape::List(&Shape::Text)),
        used(
            "transformations",
            Shape::List(&Shape::Fields(&[
                used("input", Shape::Text),
                used("strategy", Shape::Word(&["Retain", "Replace"])),
                used("outputs", Shape::Map(&Shape::Anything)),
            ])),
        ),
        used(
            "deviceClassMappings",
            Shape::List(&Shape::Fields(&[
                used("name", Shape::Text),
                used("deviceClassNames", Shape::List(&Shape::Text)),
            ])),
        ),
    ]),
    LATER,
);

const SHARING: Field = kept(
    "admissionFairSharing",
    Shape::Fields(&[
        used("usageHalfLifeTime", Shape::Pause),
        used("usageSamplingInterval", Shape::Pause),
        used("resourceWeights", Shape::Map(&Shape::Number)),
    ]),
    LATER,
);

const RETENTION: Field = kept(
    "objectRetentionPolicies",
    Shape::Fields(&[used(
        "workloads",
        Shape::Fields(&[used("afterFinished", Shape::Pause), used("afterDeactivatedByKueue", Shape::Pause)]),
    )]),
    LATER,
);

const NAMESPACE: Field = needless("namespace", Shape::Text, "not used, the operator's namespace is its own");
const PPROF: Field =
    needless("pprofBindAddress", Shape::Text, "not there; `debug.listen` of ours shows queues and calls");
const WITHOUT_NAME: Field = kept("manageJobsWithoutQueueName", Shape::Bool, LATER);
const NAMESPACES: Field = kept("managedJobsNamespaceSelector", SELECTOR, LATER);
const INTERNAL: Field = used("internalCertManagement", CERTIFICATES);
const GATES: Field = kept("featureGates", Shape::Map(&Shape::Bool), LATER);

/// Version `v1beta1`.
pub const V1BETA1: [Field; 22] = [
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
    kept(
        "queueVisibility",
        Shape::Fields(&[
            used("clusterQueues", Shape::Fields(&[used("maxCount", SECONDS)])),
            used("updateIntervalSeconds", SECONDS),
        ]),
        LATER,
    ),
    MULTI_V1,
    kept("fairSharing", Shape::Fields(&[used("enable", Shape::Bool), STRATEGIES]), LATER),
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
];

/// Version `v1beta2`.
pub const V1BETA2: [Field; 21] = [
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
    kept("fairSharing", Shape::Fields(&[STRATEGIES]), LATER),
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
];

/// What stands below `queueing` in a document of ours: the keys of `v1beta2` that are about queues.
pub const QUEUEING: [Field; 11] = [
    WITHOUT_NAME,
    NAMESPACES,
    WAIT_V2,
    INTEGRATIONS_V2,
    MULTI_V2,
    kept("fairSharing", Shape::Fields(&[STRATEGIES]), LATER),
    SHARING,
    RESOURCES,
    GATES,
    RETENTION,
    METRICS,
];
