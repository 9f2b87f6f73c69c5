//! Fields of ResourceFlavors, AdmissionChecks, WorkloadPriorityClasses and Topologies.

use muster_api::crd_schema::{FieldSchema, atomic_list, int32, int64, label_key, object, string, string_map};

use super::Version;
use super::parts::{bare, conditions, reference, root, taints, tolerations};

/// Bound on node labels.
const LABELS_MAX: i64 = 8;
/// Bound on topology levels.
const LEVELS_MAX: i64 = 16;
/// An API group name.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const KIND: &str = "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$";

const LABELLED: &str = "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)";
const TOPOLOGY_STAYS: &str =
    "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)";
const LEVELS_STAY: &str = "self == oldSelf || (self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname' && \
     oldSelf[size(oldSelf) - 1].nodeLabel == 'kubernetes.io/hostname')";
const UNIQUE: &str = "self.all(one, self.exists_one(other, other.nodeLabel == one.nodeLabel))";
const HOST_LAST: &str = "!self.exists(it, it.nodeLabel == 'kubernetes.io/hostname') || \
     self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'";

pub(in super::super) fn flavor(_: Version) -> FieldSchema {
    let spec = object([
        (
            "nodeLabels",
            string_map().max_properties(LABELS_MAX).atomic_map().description(
                "Labels of the flavor's nodes. Pods admitted to the flavor get them as node selector; a pod whose own \
                 selector or affinity requires other values does not fit the flavor.",
            ),
        ),
        (
            "nodeTaints",
            taints().description("Taints of the flavor's nodes. Pods that do not tolerate them do not fit the flavor."),
        ),
        (
            "tolerations",
            tolerations().description("Tolerations that pods admitted to the flavor get, besides their own."),
        ),
        (
            "topologyName",
            reference().description(
                "The Topology of the flavor's nodes; without it the ClusterQueue is inactive. It cannot change once \
                 set, and needs a node label. Pods are not placed by it.",
            ),
        ),
    ])
    .description("Which nodes the flavor stands for.");
    root(
        spec.rule(LABELLED, "at least one nodeLabel is required when topology is set")
            .rule(TOPOLOGY_STAYS, "topologyName is immutable once set"),
    )
    .description("A ResourceFlavor is a sort of nodes for which ClusterQueues have quota, as spot or a100.")
}

pub(in super::super) fn check(version: Version) -> FieldSchema {
    let parameters = object([
        ("apiGroup!", string().length(1, 253).pattern(SUBDOMAIN).description("The API group of the object.")),
        ("kind!", string().length(1, 63).pattern(KIND).description("The kind of the object.")),
        (
            "name!",
            string()
                .length(1, 63)
                .pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
                .description("The name of the object."),
        ),
    ]);
    let controller = string().length(1, 253).rule("self == oldSelf", "field is immutable");
    let spec = object([
        (
            "controllerName!",
            controller
                .description("The controller that sets the state of this check on Workloads; immutable."),
        ),
        ("parameters", parameters.description("An object with further settings for that controller.")),
    ])
    .description("Which controller performs the check.");
    let spec = match version {
        Version::Old => spec.with_field(
            "retryDelayMinutes",
            int64().default(15).description(
                "Deprecated and without effect; use requeueAfterSeconds in the state of the check.",
            ),
        ),
        Version::New => spec,
    };
    let conditions = conditions("Active: whether the check's controller is ready to perform it.");
    root(spec)
        .with_field("status", object([("conditions", conditions)]).description("Whether the check can be used."))
        .description(
            "An AdmissionCheck is a condition beside quota: a Workload that reserved quota is admitted when all its \
             checks are Ready.",
        )
}

pub(in super::super) fn priority_class(_: Version) -> FieldSchema {
    bare()
        .with_field(
            "value!",
            int32().description(
                "The priority of Workloads of this class; higher ones are considered first. The priority of pods stays \
                 as it is.",
            ),
        )
        .with_field("description", string().max_length(2048).description("When to use this class, for its users."))
        .description(
            "A WorkloadPriorityClass is a priority in queues. Jobs name it by the label kueue.x-k8s.io/priority-class.",
        )
}

pub(in super::super) fn topology(_: Version) -> FieldSchema {
    let level = object([(
        "nodeLabel!",
        label_key().max_length(316).description(
            "The node label whose value names the domain; kubernetes.io/hostname only as the last level.",
        ),
    )]);
    let levels = atomic_list(level)
        .min_items(1)
        .max_items(LEVELS_MAX)
        .rule(
            LEVELS_STAY,
            "field is immutable unless kubernetes.io/hostname is the lowest level before and after",
        )
        .rule(UNIQUE, "must be unique")
        .rule(HOST_LAST, "the kubernetes.io/hostname label can only be used at the lowest level of topology");
    root(
        object([("levels!", levels.description("Levels from the widest to the narrowest, as block, rack, host."))])
            .description("How the nodes are grouped."),
    )
    .description(
        "A Topology lists how nodes are grouped, as in blocks and racks. ResourceFlavors name it; pods are not placed \
         by it.",
    )
}
