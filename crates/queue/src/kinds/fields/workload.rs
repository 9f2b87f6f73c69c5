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
        "!{was} || !{is} || !has(oldSelf.spec.queueName) || !has(self.spec.queueName) || \
         oldSelf.spec.queueName == self.spec.queueName"
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
        ("podSets", keyed("name", pod_set()).min_items(1).max_items(SETS_MAX)),
        ("queueName", reference()),
        ("priority", int32()),
        ("active", truth().default(true)),
        ("maximumExecutionTimeSeconds", int32().min(1)),
    ]);
    match version {
        Version::Old => {
            spec.and("priorityClassName", reference()).and("priorityClassSource", priority_source()).rule(
                "!has(self.priorityClassName) || has(self.priority)",
                "priority should not be nil when priorityClassName is set",
            )
        }
        Version::New => spec.and("priorityClassRef", priority_ref()).rule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority should not be nil when priorityClassRef is set",
        ),
    }
}

fn priority_source() -> Part {
    word(&["kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", ""]).default("")
}

fn priority_ref() -> Part {
    object([
        ("group!", word(&["kueue.x-k8s.io", "scheduling.k8s.io"])),
        ("kind!", word(&["WorkloadPriorityClass", "PriorityClass"])),
        ("name!", reference().length(1, 253)),
    ])
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
        ("name", pod_set_name().default("main")),
        ("template!", kubernetes("io.k8s.api.core.v1.PodTemplateSpec")),
        ("count", int32().min(0).default(1)),
        ("minCount", int32().min(1)),
        ("topologyRequest", topology_request()),
    ])
    .rule(
        "!has(self.minCount) || self.minCount <= self.count",
        "minCount should be positive and less or equal to count",
    )
}

fn topology_request() -> Part {
    object([
        ("required", text().max_length(VALUE_MAX)),
        ("preferred", text().max_length(VALUE_MAX)),
        ("unconstrained", truth()),
        ("podIndexLabel", text().max_length(LABEL_NAME_MAX)),
        ("subGroupIndexLabel", text().max_length(LABEL_NAME_MAX)),
        ("subGroupCount", int32()),
        ("podSetGroupName", text().max_length(256)),
        ("podSetSliceRequiredTopology", text().max_length(VALUE_MAX)),
        ("podSetSliceSize", int32()),
    ])
}

fn status(version: Version) -> Part {
    let accumulated = match version {
        Version::Old => "accumulatedPastExexcutionTimeSeconds",
        Version::New => "accumulatedPastExecutionTimeSeconds",
    };
    object([
        ("conditions", conditions()),
        ("admission", admission(version)),
        ("requeueState", object([("count", int32().min(0)), ("requeueAt", instant())])),
        ("reclaimablePods", keyed("name", reclaimable()).max_items(SETS_MAX)),
        ("admissionChecks", keyed("name", check_state()).max_items(CHECKS_MAX)),
        ("resourceRequests", keyed("name", request()).max_items(SETS_MAX)),
        (accumulated, int32()),
        ("schedulingStats", stats()),
        ("nominatedClusterNames", atoms(text().max_length(256)).max_items(CLUSTERS_MAX)),
        ("clusterName", text().max_length(256)),
        (
            "unhealthyNodes",
            keyed("name", object([("name!", text().max_length(VALUE_MAX))])).max_items(NODES_MAX),
        ),
    ])
    .rule(
        "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
        "clusterName is immutable once set",
    )
    .rule(
        "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
        "clusterName and nominatedClusterNames are mutually exclusive",
    )
}

fn admission(version: Version) -> Part {
    let assignment = object([
        ("name", pod_set_name().default("main")),
        ("flavors", map(reference())),
        ("resourceUsage", map(quantity())),
        ("count", int32().min(0)),
        ("topologyAssignment", topology_assignment(version)),
        ("delayedTopologyRequest", word(&["Pending", "Ready"])),
    ]);
    object([
        ("clusterQueue", reference()),
        ("podSetAssignments", keyed("name", assignment).max_items(SETS_MAX)),
    ])
}

fn topology_assignment(version: Version) -> Part {
    let levels = atoms(text().max_length(LABEL_NAME_MAX)).min_items(1).max_items(LEVELS_MAX);
    match version {
        Version::Old => {
            let values = atoms(text()).min_items(1).max_items(LEVELS_MAX);
            let domain = object([("values!", values), ("count!", int32().min(1))]);
            object([("levels!", levels), ("domains!", list(domain).max_items(DOMAINS_MAX))])
        }
        Version::New => object([("levels!", levels), ("slices!", atoms(slice()).max_items(SLICES_MAX))])
            .rule(
                "self.slices.all(it, size(it.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            ),
    }
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
        ("universal", int32().min(1)),
        ("individual", atoms(int32().min(1)).min_items(1).max_items(DOMAINS_MAX)),
    ]);
    let individual = object([
        ("prefix", value()),
        ("suffix", value()),
        ("roots!", atoms(value()).min_items(1).max_items(DOMAINS_MAX)),
    ]);
    let values = one(object([("universal", value()), ("individual", individual)]));
    object([
        ("domainCount!", int32().min(1)),
        ("podCounts!", one(counts)),
        ("valuesPerLevel!", atoms(values).min_items(1).max_items(LEVELS_MAX)),
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
    object([("name!", pod_set_name()), ("count!", int32().min(0))])
}

fn check_state() -> Part {
    let update = object([
        ("name!", pod_set_name()),
        ("labels", labels()),
        ("annotations", labels()),
        ("nodeSelector", labels()),
        ("tolerations", tolerations()),
    ]);
    object([
        ("name!", check_name()),
        ("state!", word(&["Pending", "Ready", "Retry", "Rejected"])),
        ("lastTransitionTime!", instant()),
        ("message!", text().max_length(32_768)),
        ("requeueAfterSeconds", int32().min(0)),
        ("retryCount", int32().min(0)),
        ("podSetUpdates", atoms(update).max_items(SETS_MAX)),
    ])
}

fn request() -> Part {
    object([("name!", pod_set_name()), ("resources", map(quantity()))])
}

fn stats() -> Part {
    let eviction = object([
        ("reason!", text().max_length(316)),
        ("underlyingCause!", text().max_length(316)),
        ("count!", int32().min(0)),
    ]);
    let evictions = keyed_by(&["reason", "underlyingCause"], eviction).max_items(EVICTIONS_MAX);
    object([("evictions", evictions)])
}
