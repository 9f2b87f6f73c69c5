//! Fields of Workloads.

use muster_api::definition::{
    Part, atoms, instant, int32, keyed, keyed_by, kubernetes, labels, list, map, object, quantity, text,
    truth, word,
};

use super::Version;
use super::parts::{check_name, conditions, pod_set_name, reference, root, tolerations};

/// Pod sets of a Workload.
const SETS_MAX: i64 = 18;
/// Checks of a Workload.
const CHECKS_MAX: i64 = 8;
/// Levels of a topology.
const LEVELS_MAX: i64 = 16;
/// Slices of a topology assignment, and domains of one.
const SLICES_MAX: i64 = 1000;
const DOMAINS_MAX: i64 = 100_000;
/// Kinds of evictions that are counted.
const EVICTIONS_MAX: i64 = 256;
/// Clusters that are nominated.
const CLUSTERS_MAX: i64 = 10;
/// Nodes that are told as failed.
const NODES_MAX: i64 = 8;
/// A label's name with its domain.
const LABEL_NAME_MAX: i64 = 317;
/// A label's value.
const VALUE_MAX: i64 = 63;

/// Whether a condition holds of an object.
fn holds(object: &str, kind: &str) -> String {
    format!(
        "(has({object}.status) && has({object}.status.conditions) && {object}.status.conditions.exists(it, \
         it.type == '{kind}' && it.status == 'True'))"
    )
}

/// A Workload.
pub(in super::super) fn workload(version: Version) -> Part {
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
        .and("status", status(version))
        .about("A Workload is the request of a job or a group of pods for quota; it is admitted as a whole.")
        .rule(&same_number, "podSetAssignments must have the same number of podSets as the spec")
        .rule(&queue, "queueName is immutable while workload quota reserved")
        .rule(&time, "maximumExecutionTimeSeconds is immutable while workload quota reserved");
    match version {
        Version::Old => old_priority_rules(whole, &was),
        Version::New => priority_rules(whole, &was),
    }
}

fn priority_rules(whole: Part, was: &str) -> Part {
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

fn old_priority_rules(whole: Part, was: &str) -> Part {
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

fn spec(version: Version) -> Part {
    let spec = object([
        (
            "podSets",
            keyed("name", pod_set())
                .min_items(1)
                .max_items(SETS_MAX)
                .about("Sets of equal pods. They cannot change while quota is reserved."),
        ),
        (
            "queueName",
            reference().about("The LocalQueue of the namespace. It cannot change while quota is reserved."),
        ),
        (
            "priority",
            int32().about("The priority in the queue, and for preemption; required where a priority class is named."),
        ),
        (
            "active",
            truth().default(true).about(
                "Whether the Workload may be admitted. false evicts an admitted Workload and keeps it out of the queue.",
            ),
        ),
        (
            "maximumExecutionTimeSeconds",
            int32().min(1).about(
                "Seconds that the Workload may be admitted, over all admissions; beyond them it is evicted and \
                 deactivated.",
            ),
        ),
    ])
    .about("What the job asks for, and of which queue.");
    match version {
        Version::Old => spec
            .and("priorityClassName", reference().about("The priority class that priority was taken from."))
            .and("priorityClassSource", priority_source())
            .rule(
                "!has(self.priorityClassName) || has(self.priority)",
                "priority should not be nil when priorityClassName is set",
            ),
        Version::New => spec.and("priorityClassRef", priority_ref()).rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority should not be nil when priorityClassRef is set",
        ),
    }
}

fn priority_source() -> Part {
    word(&["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""])
        .default("")
        .about("Whether priorityClassName is a WorkloadPriorityClass or a PriorityClass of pods.")
}

fn priority_ref() -> Part {
    object([
        ("group!", word(&["kueue.x-k8s.io", "scheduling.k8s.io"]).about("The API group of the class.")),
        ("kind!", word(&["WorkloadPriorityClass", "PriorityClass"]).about("The kind of the class.")),
        ("name!", reference().length(1, 253).about("The name of the class.")),
    ])
    .about("The priority class that priority was taken from.")
    .rule(
        "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
        "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
    )
    .rule(
        "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
        "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
    )
}

fn pod_set() -> Part {
    object([
        ("name", pod_set_name().default("main").about("The name of the pod set; main by default.")),
        (
            "template!",
            kubernetes("io.k8s.api.core.v1.PodTemplateSpec").about("The pods; their requests count as usage of quota."),
        ),
        ("count", int32().min(0).default(1).about("How many pods.")),
        (
            "minCount",
            int32().min(1).about(
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

fn topology_request() -> Part {
    let level = || text().max_length(VALUE_MAX);
    let label = || text().max_length(LABEL_NAME_MAX);
    object([
        ("required", level().about("The level, as a node label, at which all pods must be in one domain.")),
        ("preferred", level().about("The level at which all pods should be in one domain.")),
        ("unconstrained", truth().about("Whether the pods may be in any domains, counted by topology.")),
        ("podIndexLabel", label().about("The pod label with the index of the pod, by which pods are ordered.")),
        ("subGroupIndexLabel", label().about("The pod label with the index of the Job that the pod belongs to.")),
        ("subGroupCount", int32().about("How many Jobs the pod set is made of.")),
        (
            "podSetGroupName",
            text().max_length(256).about("Pod sets of the same group name get the same domain and flavor."),
        ),
        ("podSetSliceRequiredTopology", level().about("The level at which each slice must be in one domain.")),
        ("podSetSliceSize", int32().about("How many pods are one slice.")),
    ])
    .about("Placement by topology, which is not implemented: a Workload with such a request is held in its queue.")
}

fn status(version: Version) -> Part {
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
            keyed("name", reclaimable())
                .max_items(SETS_MAX)
                .about("Pods that have ended and are not replaced; their quota is released."),
        ),
        (
            "admissionChecks",
            keyed("name", check_state()).max_items(CHECKS_MAX).about("The state of each AdmissionCheck."),
        ),
        (
            "resourceRequests",
            keyed("name", request())
                .max_items(SETS_MAX)
                .about("What each pod set requests of quota, while the Workload has no reservation."),
        ),
        (
            accumulated,
            int32().about("Seconds that the Workload was admitted before, for maximumExecutionTimeSeconds."),
        ),
        ("schedulingStats", stats()),
        (
            "nominatedClusterNames",
            atoms(text().max_length(256)).max_items(CLUSTERS_MAX).about(
                "Clusters that a MultiKueue controller nominated for the Workload. It is kept as it is: no controller \
                 here acts on it.",
            ),
        ),
        (
            "clusterName",
            text()
                .max_length(256)
                .about("The cluster that a MultiKueue controller chose for the Workload; immutable once set."),
        ),
        ("unhealthyNodes", unhealthy_nodes()),
    ])
    .about("How far the Workload is; written by the queue controller and the controllers of its checks.")
    .rule(
        "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
        "clusterName is immutable once set",
    )
    .rule(
        "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
        "clusterName and nominatedClusterNames are mutually exclusive",
    )
}

fn requeue_state() -> Part {
    object([
        (
            "count",
            int32()
                .min(0)
                .about("How often the Workload was evicted because its pods were not ready in time."),
        ),
        ("requeueAt", instant().about("Before this time the Workload is not considered again.")),
    ])
    .about("When an evicted Workload is considered again.")
}

fn unhealthy_nodes() -> Part {
    let node = object([("name!", text().max_length(VALUE_MAX).about("The name of the node."))]);
    keyed("name", node).max_items(NODES_MAX).about(
        "Nodes of the topology assignment that failed. It is kept as it is: no controller here acts on it.",
    )
}

fn admission(version: Version) -> Part {
    let assignment = object([
        ("name", pod_set_name().default("main").about("The pod set.")),
        ("flavors", map(reference()).about("The flavor that each resource is assigned.")),
        ("resourceUsage", map(quantity()).about("The quota that all pods of the set take, by resource.")),
        (
            "count",
            int32()
                .min(0)
                .about("How many pods are admitted; less than in the spec where minCount allows it."),
        ),
        ("topologyAssignment", topology_assignment(version)),
        (
            "delayedTopologyRequest",
            word(&["Pending", "Ready"])
                .about("Whether a topology assignment that waits for an AdmissionCheck is still Pending."),
        ),
    ]);
    object([
        ("clusterQueue", reference().about("The ClusterQueue whose quota is reserved.")),
        (
            "podSetAssignments",
            keyed("name", assignment).max_items(SETS_MAX).about("Flavors and usage of each pod set."),
        ),
    ])
    .about("The reserved quota. Without it no quota is reserved.")
}

fn topology_assignment(version: Version) -> Part {
    let levels = atoms(text().max_length(LABEL_NAME_MAX))
        .min_items(1)
        .max_items(LEVELS_MAX)
        .about("Node labels of the levels, the widest first.");
    let assignment = match version {
        Version::Old => {
            let values = atoms(text()).min_items(1).max_items(LEVELS_MAX);
            let domain = object([
                ("values!", values.about("The label values of the domain, one for each level.")),
                ("count!", int32().min(1).about("How many pods go to the domain.")),
            ]);
            let domains = list(domain).max_items(DOMAINS_MAX);
            object([("levels!", levels), ("domains!", domains.about("The domains, and the pods of each."))])
        }
        Version::New => {
            let slices = atoms(slice()).max_items(SLICES_MAX);
            object([
                ("levels!", levels),
                ("slices!", slices.about("The domains, in slices of similar names.")),
            ])
            .rule(
                "self.slices.all(it, size(it.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            )
        }
    };
    assignment.about("The domains that the pods go to, where another controller assigned them.")
}

fn slice() -> Part {
    let value = || text().max_length(VALUE_MAX);
    let one = |part: Part| {
        part.rule(
            "has(self.universal) != has(self.individual)",
            "exactly one of the fields in [universal individual] must be set",
        )
    };
    let counts = object([
        ("universal", int32().min(1).about("The number of pods of every domain.")),
        (
            "individual",
            atoms(int32().min(1))
                .min_items(1)
                .max_items(DOMAINS_MAX)
                .about("The number of pods of each domain, in the order of the domains."),
        ),
    ]);
    let individual = object([
        ("prefix", value().about("What all values begin with.")),
        ("suffix", value().about("What all values end with.")),
        (
            "roots!",
            atoms(value())
                .min_items(1)
                .max_items(DOMAINS_MAX)
                .about("What is between prefix and suffix, one for each domain."),
        ),
    ]);
    let values = one(object([
        ("universal", value().about("The value of every domain.")),
        ("individual", individual.about("A value for each domain.")),
    ]));
    object([
        ("domainCount!", int32().min(1).about("How many domains are in the slice.")),
        ("podCounts!", one(counts).about("How many pods each domain gets.")),
        (
            "valuesPerLevel!",
            atoms(values)
                .min_items(1)
                .max_items(LEVELS_MAX)
                .about("The label values of the domains, one entry for each level."),
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

fn reclaimable() -> Part {
    object([
        ("name!", pod_set_name().about("The pod set.")),
        ("count!", int32().min(0).about("How many of its pods need no quota any more.")),
    ])
}

fn check_state() -> Part {
    let update = object([
        ("name!", pod_set_name().about("The pod set.")),
        ("labels", labels().about("Labels that its pods get.")),
        ("annotations", labels().about("Annotations that its pods get.")),
        ("nodeSelector", labels().about("Node selector that its pods get.")),
        ("tolerations", tolerations().about("Tolerations that its pods get.")),
    ]);
    object([
        ("name!", check_name().about("The AdmissionCheck.")),
        (
            "state!",
            word(&["Pending", "Ready", "Retry", "Rejected"]).about(
                "Pending: not decided. Ready: passed. Retry: the Workload is evicted and tried again. Rejected: it is \
                 evicted and deactivated.",
            ),
        ),
        ("lastTransitionTime!", instant().about("When the state last changed.")),
        ("message!", text().max_length(32_768).about("Why, in words for people.")),
        (
            "requeueAfterSeconds",
            int32().min(0).about("With Retry: seconds after lastTransitionTime until the Workload is tried again."),
        ),
        ("retryCount", int32().min(0).about("How often the check has asked for another try.")),
        (
            "podSetUpdates",
            atoms(update).max_items(SETS_MAX).about("What the check adds to the pods when the Workload is admitted."),
        ),
    ])
}

fn request() -> Part {
    object([
        ("name!", pod_set_name().about("The pod set.")),
        ("resources", map(quantity()).about("What all its pods request, by resource.")),
    ])
}

fn stats() -> Part {
    let eviction = object([
        ("reason!", text().max_length(316).about("The reason of the Evicted condition.")),
        (
            "underlyingCause!",
            text().max_length(316).about("What led to that reason; empty where it says all."),
        ),
        ("count!", int32().min(0).about("How many evictions.")),
    ]);
    let evictions = keyed_by(&["reason", "underlyingCause"], eviction).max_items(EVICTIONS_MAX);
    object([("evictions", evictions.about("How often the Workload was evicted, by reason and cause."))])
        .about("What happened to the Workload so far, in numbers.")
}
