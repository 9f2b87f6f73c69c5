//! Fields of Workloads.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, boolean, date_time, enumeration, int32, kubernetes, list, map, map_list,
    map_list_by, object, quantity, string, string_map,
};
use muster_api::queue::consts::{POD_PRIORITY_SOURCE, WORKLOAD_PRIORITY_SOURCE};

use super::Version;
use super::parts::{check_name, conditions, pod_set_name, reference, root, tolerations};

/// Bound on pod sets.
const SETS_MAX: i64 = 18;
/// Bound on admission checks.
const CHECKS_MAX: i64 = 8;
/// Bound on topology levels.
const LEVELS_MAX: i64 = 16;
/// Bound on slices of a topology assignment, and on domains per slice.
const SLICES_MAX: i64 = 1000;
const DOMAINS_MAX: i64 = 100_000;
/// Bound on eviction counters.
const EVICTIONS_MAX: i64 = 256;
/// Bound on nominated clusters (MultiKueue).
const CLUSTERS_MAX: i64 = 10;
/// Bound on unhealthy nodes.
const NODES_MAX: i64 = 8;
/// Maximum length of a label key with prefix.
const LABEL_NAME_MAX: i64 = 317;
const VALUE_MAX: i64 = 63;

/// A CEL expression: the condition is True.
fn holds(object: &str, kind: &str) -> String {
    format!(
        "(has({object}.status) && has({object}.status.conditions) && {object}.status.conditions.exists(it, \
         it.type == '{kind}' && it.status == 'True'))"
    )
}

pub(in super::super) fn workload(version: Version) -> FieldSchema {
    let (was, is) = (holds("oldSelf", "QuotaReserved"), holds("self", "QuotaReserved"));
    let same_number = format!(
        "!{is} || !has(self.status.admission) || \
         size(self.spec.podSets) == size(self.status.admission.podSetAssignments)"
    );
    let queue = format!(
        "!{was} || !{is} || (has(oldSelf.spec.queueName) ? has(self.spec.queueName) && \
         oldSelf.spec.queueName == self.spec.queueName : !has(self.spec.queueName))"
    );
    let ran = format!("!{} || !{}", holds("oldSelf", "Admitted"), holds("self", "Admitted"));
    let secs = |object: &str| {
        format!(
            "(has({object}.spec.maximumExecutionTimeSeconds) ? {object}.spec.maximumExecutionTimeSeconds : 0)"
        )
    };
    let time = format!("{ran} || {} == {}", secs("oldSelf"), secs("self"));
    let whole = root(spec(version))
        .with_field("status", status(version))
        .description(
            "A Workload is the request of a job or a group of pods for quota; it is admitted as a whole.",
        )
        .rule(&same_number, "podSetAssignments must have the same number of podSets as the spec")
        .rule(&queue, "queueName is immutable while workload quota reserved")
        .rule(&time, "maximumExecutionTimeSeconds is immutable while workload quota reserved");
    match version {
        Version::Old => old_priority_rules(whole, &was),
        Version::New => priority_rules(whole, &was),
    }
}

fn priority_rules(whole: FieldSchema, was: &str) -> FieldSchema {
    let both = "!has(oldSelf.spec.priorityClassRef) || !has(self.spec.priorityClassRef)";
    let same = |field: &str| {
        format!(
            "!{was} || {both} || oldSelf.spec.priorityClassRef.{field} == self.spec.priorityClassRef.{field}"
        )
    };
    let there = format!("!{was} || has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef)");
    let name = format!("{} || self.spec.priorityClassRef.group != 'scheduling.k8s.io'", same("name"));
    whole
        .rule(&there, "priorityClassRef is immutable while workload quota reserved")
        .rule(&same("group"), "priorityClassRef.group is immutable while workload quota reserved")
        .rule(&same("kind"), "priorityClassRef.kind is immutable while workload quota reserved")
        .rule(
            &name,
            "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
        )
}

fn old_priority_rules(whole: FieldSchema, was: &str) -> FieldSchema {
    let source = format!("!{was} || oldSelf.spec.priorityClassSource == self.spec.priorityClassSource");
    let name = format!(
        "!{was} || self.spec.priorityClassSource == 'kueue.x-k8s.io/workloadpriorityclass' || \
         !has(oldSelf.spec.priorityClassName) || !has(self.spec.priorityClassName) || \
         oldSelf.spec.priorityClassName == self.spec.priorityClassName"
    );
    whole.rule(&source, "priorityClassSource is immutable while workload quota reserved").rule(
        &name,
        "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to \
         kueue.x-k8s.io/workloadpriorityclass",
    )
}

fn spec(version: Version) -> FieldSchema {
    let spec = object([
        (
            "podSets",
            map_list("name", pod_set())
                .min_items(1)
                .max_items(SETS_MAX)
                .description("Sets of equal pods. They cannot change while quota is reserved."),
        ),
        (
            "queueName",
            reference().description("The LocalQueue of the namespace. It cannot change while quota is reserved."),
        ),
        (
            "priority",
            int32().description("The priority in the queue, and for preemption; required where a priority class is named."),
        ),
        (
            "active",
            boolean().default(true).description(
                "Whether the Workload may be admitted. false evicts an admitted Workload and keeps it out of the queue.",
            ),
        ),
        (
            "maximumExecutionTimeSeconds",
            int32().min(1).description(
                "Seconds that the Workload may be admitted, over all admissions; beyond them it is evicted and \
                 deactivated.",
            ),
        ),
    ])
    .description("The resources that the job requests, and its LocalQueue.");
    match version {
        Version::Old => spec
            .with_field(
                "priorityClassName",
                reference().description("The priority class that priority was taken from."),
            )
            .with_field("priorityClassSource", priority_source())
            .rule(
                "!has(self.priorityClassName) || has(self.priority)",
                "priority should not be nil when priorityClassName is set",
            ),
        Version::New => spec.with_field("priorityClassRef", priority_ref()).rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority should not be nil when priorityClassRef is set",
        ),
    }
}

fn priority_source() -> FieldSchema {
    enumeration(&[WORKLOAD_PRIORITY_SOURCE, POD_PRIORITY_SOURCE, ""])
        .default("")
        .description("Whether priorityClassName is a WorkloadPriorityClass or a PriorityClass of pods.")
}

fn priority_ref() -> FieldSchema {
    object([
        (
            "group!",
            enumeration(&["kueue.x-k8s.io", "scheduling.k8s.io"]).description("The API group of the class."),
        ),
        (
            "kind!",
            enumeration(&["WorkloadPriorityClass", "PriorityClass"]).description("The kind of the class."),
        ),
        ("name!", reference().length(1, 253).description("The name of the class.")),
    ])
    .description("The priority class that priority was taken from.")
    .rule(
        "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
        "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
    )
    .rule(
        "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
        "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
    )
}

fn pod_set() -> FieldSchema {
    object([
        ("name", pod_set_name().default("main").description("The name of the pod set; main by default.")),
        (
            "template!",
            kubernetes("io.k8s.api.core.v1.PodTemplateSpec").description("The pods; their requests count as usage of quota."),
        ),
        ("count", int32().min(0).default(1).description("How many pods.")),
        (
            "minCount",
            int32().min(1).description(
                "The fewest pods the job can run with: where count pods do not fit, fewer are admitted. At most one pod \
                 set may have it.",
            ),
        ),
        ("topologyRequest", topology_request()),
    ])
    .rule(
        "!has(self.minCount) || self.minCount <= self.count",
        "minCount should be positive and less or equal to count",
    )
}

fn topology_request() -> FieldSchema {
    let level = || string().max_length(VALUE_MAX);
    let label = || string().max_length(LABEL_NAME_MAX);
    object([
        ("required", level().description("The level, as a node label, at which all pods must be in one domain.")),
        ("preferred", level().description("The level at which all pods should be in one domain.")),
        ("unconstrained", boolean().description("Whether the pods may be in any domains, counted by topology.")),
        ("podIndexLabel", label().description("The pod label with the index of the pod, by which pods are ordered.")),
        ("subGroupIndexLabel", label().description("The pod label with the index of the Job that the pod belongs to.")),
        ("subGroupCount", int32().description("How many Jobs the pod set is made of.")),
        (
            "podSetGroupName",
            string().max_length(256).description("Pod sets of the same group name get the same domain and flavor."),
        ),
        ("podSetSliceRequiredTopology", level().description("The level at which each slice must be in one domain.")),
        ("podSetSliceSize", int32().description("How many pods are one slice.")),
    ])
    .description("Placement by topology, which is not implemented: a Workload with such a request is held in its queue.")
}

fn status(version: Version) -> FieldSchema {
    let accumulated = match version {
        Version::Old => "accumulatedPastExexcutionTimeSeconds",
        Version::New => "accumulatedPastExecutionTimeSeconds",
    };
    let conditions = conditions(
        "QuotaReserved, Admitted, PodsReady, Evicted, Preempted, Requeued, DeactivationTarget and Finished, each with the \
         reason and message of its last change.",
    );
    object([
        ("conditions", conditions),
        ("admission", admission(version)),
        ("requeueState", requeue_state()),
        (
            "reclaimablePods",
            map_list("name", reclaimable())
                .max_items(SETS_MAX)
                .description("Pods that have ended and are not replaced; their quota is released."),
        ),
        (
            "admissionChecks",
            map_list("name", check_state()).max_items(CHECKS_MAX).description("The state of each AdmissionCheck."),
        ),
        (
            "resourceRequests",
            map_list("name", request())
                .max_items(SETS_MAX)
                .description("What each pod set requests of quota, while the Workload has no reservation."),
        ),
        (
            accumulated,
            int32().description("Seconds that the Workload was admitted before, for maximumExecutionTimeSeconds."),
        ),
        ("schedulingStats", stats()),
        (
            "nominatedClusterNames",
            atomic_list(string().max_length(256)).max_items(CLUSTERS_MAX).description(
                "Clusters that a MultiKueue controller nominated for the Workload. It is kept as it is: no controller \
                 here acts on it.",
            ),
        ),
        (
            "clusterName",
            string()
                .max_length(256)
                .description("The cluster that a MultiKueue controller chose for the Workload; immutable once set."),
        ),
        ("unhealthyNodes", unhealthy_nodes()),
    ])
    .description("How far the Workload is; written by the queue controller and the controllers of its checks.")
    .rule(
        "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
        "clusterName is immutable once set",
    )
    .rule(
        "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
        "clusterName and nominatedClusterNames are mutually exclusive",
    )
}

fn requeue_state() -> FieldSchema {
    object([
        (
            "count",
            int32()
                .min(0)
                .description("How often the Workload was evicted because its pods were not ready in time."),
        ),
        ("requeueAt", date_time().description("Before this time the Workload is not considered again.")),
    ])
    .description("When an evicted Workload is considered again.")
}

fn unhealthy_nodes() -> FieldSchema {
    let node = object([("name!", string().max_length(VALUE_MAX).description("The name of the node."))]);
    map_list("name", node).max_items(NODES_MAX).description(
        "Nodes of the topology assignment that failed. It is kept as it is: no controller here acts on it.",
    )
}

fn admission(version: Version) -> FieldSchema {
    let assignment = object([
        ("name", pod_set_name().default("main").description("The pod set.")),
        ("flavors", map(reference()).description("The flavor that each resource is assigned.")),
        (
            "resourceUsage",
            map(quantity()).description("The quota that all pods of the set take, by resource."),
        ),
        (
            "count",
            int32()
                .min(0)
                .description("How many pods are admitted; less than in the spec where minCount allows it."),
        ),
        ("topologyAssignment", topology_assignment(version)),
        (
            "delayedTopologyRequest",
            enumeration(&["Pending", "Ready"]).description(
                "Whether a topology assignment that waits for an AdmissionCheck is still Pending.",
            ),
        ),
    ]);
    object([
        ("clusterQueue", reference().description("The ClusterQueue whose quota is reserved.")),
        (
            "podSetAssignments",
            map_list("name", assignment)
                .max_items(SETS_MAX)
                .description("Flavors and usage of each pod set."),
        ),
    ])
    .description("The reserved quota. Without it no quota is reserved.")
}

fn topology_assignment(version: Version) -> FieldSchema {
    let levels = atomic_list(string().max_length(LABEL_NAME_MAX))
        .min_items(1)
        .max_items(LEVELS_MAX)
        .description("Node labels of the levels, the widest first.");
    let assignment = match version {
        Version::Old => {
            let values = atomic_list(string()).min_items(1).max_items(LEVELS_MAX);
            let domain = object([
                ("values!", values.description("The label values of the domain, one for each level.")),
                ("count!", int32().min(1).description("How many pods go to the domain.")),
            ]);
            let domains = list(domain).max_items(DOMAINS_MAX);
            object([
                ("levels!", levels),
                ("domains!", domains.description("The domains, and the pods of each.")),
            ])
        }
        Version::New => {
            let slices = atomic_list(slice()).max_items(SLICES_MAX);
            object([
                ("levels!", levels),
                ("slices!", slices.description("The domains, in slices of similar names.")),
            ])
            .rule(
                "self.slices.all(it, size(it.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            )
        }
    };
    assignment.description("The domains that the pods go to, where another controller assigned them.")
}

fn slice() -> FieldSchema {
    let value = || string().max_length(VALUE_MAX);
    let one = |part: FieldSchema| {
        part.rule(
            "has(self.universal) != has(self.individual)",
            "exactly one of the fields in [universal individual] must be set",
        )
    };
    let counts = object([
        ("universal", int32().min(1).description("The number of pods of every domain.")),
        (
            "individual",
            atomic_list(int32().min(1))
                .min_items(1)
                .max_items(DOMAINS_MAX)
                .description("The number of pods of each domain, in the order of the domains."),
        ),
    ]);
    let individual = object([
        ("prefix", value().description("What all values begin with.")),
        ("suffix", value().description("What all values end with.")),
        (
            "roots!",
            atomic_list(value())
                .min_items(1)
                .max_items(DOMAINS_MAX)
                .description("What is between prefix and suffix, one for each domain."),
        ),
    ]);
    let values = one(object([
        ("universal", value().description("The value of every domain.")),
        ("individual", individual.description("A value for each domain.")),
    ]));
    object([
        ("domainCount!", int32().min(1).description("How many domains are in the slice.")),
        ("podCounts!", one(counts).description("How many pods each domain gets.")),
        (
            "valuesPerLevel!",
            atomic_list(values)
                .min_items(1)
                .max_items(LEVELS_MAX)
                .description("The label values of the domains, one entry for each level."),
        ),
    ])
    .rule(
        "!has(self.podCounts.individual) || size(self.podCounts.individual) == self.domainCount",
        "podCounts.individual must have length equal to domainCount",
    )
    .rule(
        "self.valuesPerLevel.all(it, !has(it.individual) || size(it.individual.roots) == self.domainCount)",
        "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this \
         TopologyAssignmentSlice",
    )
}

fn reclaimable() -> FieldSchema {
    object([
        ("name!", pod_set_name().description("The pod set.")),
        ("count!", int32().min(0).description("How many of its pods need no quota any more.")),
    ])
}

fn check_state() -> FieldSchema {
    let update = object([
        ("name!", pod_set_name().description("The pod set.")),
        ("labels", string_map().description("Labels that its pods get.")),
        ("annotations", string_map().description("Annotations that its pods get.")),
        ("nodeSelector", string_map().description("Node selector that its pods get.")),
        ("tolerations", tolerations().description("Tolerations that its pods get.")),
    ]);
    object([
        ("name!", check_name().description("The AdmissionCheck.")),
        (
            "state!",
            enumeration(&["Pending", "Ready", "Retry", "Rejected"]).description(
                "Pending: not decided. Ready: passed. Retry: the Workload is evicted and tried again. Rejected: it is \
                 evicted and deactivated.",
            ),
        ),
        ("lastTransitionTime!", date_time().description("When the state last changed.")),
        ("message!", string().max_length(32_768).description("Why, in words for people.")),
        (
            "requeueAfterSeconds",
            int32().min(0).description("With Retry: seconds after lastTransitionTime until the Workload is tried again."),
        ),
        ("retryCount", int32().min(0).description("How often the admission check has requested a retry.")),
        (
            "podSetUpdates",
            atomic_list(update).max_items(SETS_MAX).description("What the check adds to the pods when the Workload is admitted."),
        ),
    ])
}

fn request() -> FieldSchema {
    object([
        ("name!", pod_set_name().description("The pod set.")),
        ("resources", map(quantity()).description("What all its pods request, by resource.")),
    ])
}

fn stats() -> FieldSchema {
    let eviction = object([
        ("reason!", string().max_length(316).description("The reason of the Evicted condition.")),
        (
            "underlyingCause!",
            string().max_length(316).description("What led to that reason; empty where it says all."),
        ),
        ("count!", int32().min(0).description("How many evictions.")),
    ]);
    let evictions = map_list_by(&["reason", "underlyingCause"], eviction).max_items(EVICTIONS_MAX);
    object([("evictions", evictions.description("How often the Workload was evicted, by reason and cause."))])
        .description("What happened to the Workload so far, in numbers.")
}
