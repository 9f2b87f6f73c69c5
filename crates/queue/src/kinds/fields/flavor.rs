//! Fields of flavors, checks, classes of priority and topologies.

use muster_api::definition::{Part, atoms, int32, int64, label_key, labels, object, text};

use super::Version;
use super::parts::{bare, conditions, reference, root, taints, tolerations};

/// Labels of the nodes of a flavor.
const LABELS_MAX: i64 = 8;
/// Levels of a topology.
const LEVELS_MAX: i64 = 16;
/// A group of a kind.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A kind.
const KIND: &str = "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$";

const LABELLED: &str = "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)";
const TOPOLOGY_STAYS: &str =
    "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)";
const LEVELS_STAY: &str = "self == oldSelf || (self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname' && \
     oldSelf[size(oldSelf) - 1].nodeLabel == 'kubernetes.io/hostname')";
const UNIQUE: &str = "self.all(one, self.exists_one(other, other.nodeLabel == one.nodeLabel))";
const HOST_LAST: &str = "!self.exists(it, it.nodeLabel == 'kubernetes.io/hostname') || \
     self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'";

/// A ResourceFlavor.
pub(in super::super) fn flavor(_: Version) -> Part {
    let spec = object([
        (
            "nodeLabels",
            labels().max_entries(LABELS_MAX).whole().about(
                "Labels of the flavor's nodes. Pods admitted to the flavor get them as node selector; a pod whose own \
                 selector or affinity asks for other values does not fit the flavor.",
            ),
        ),
        (
            "nodeTaints",
            taints().about("Taints of the flavor's nodes. Pods that do not tolerate them do not fit the flavor."),
        ),
        (
            "tolerations",
            tolerations().about("Tolerations that pods admitted to the flavor get, besides their own."),
        ),
        (
            "topologyName",
            reference().about(
                "The Topology of the flavor's nodes; without it the ClusterQueue is inactive. It cannot change once \
                 set, and needs a node label. Pods are not placed by it.",
            ),
        ),
    ])
    .about("Which nodes the flavor stands for.");
    root(
        spec.rule(LABELLED, "at least one nodeLabel is required when topology is set")
            .rule(TOPOLOGY_STAYS, "topologyName is immutable once set"),
    )
    .about("A ResourceFlavor is a sort of nodes for which ClusterQueues have quota, as spot or a100.")
}

/// An AdmissionCheck.
pub(in super::super) fn check(version: Version) -> Part {
    let parameters = object([
        ("apiGroup!", text().length(1, 253).pattern(SUBDOMAIN).about("The API group of the object.")),
        ("kind!", text().length(1, 63).pattern(KIND).about("The kind of the object.")),
        (
            "name!",
            text().length(1, 63).pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$").about("The name of the object."),
        ),
    ]);
    let controller = text().length(1, 253).rule("self == oldSelf", "field is immutable");
    let spec = object([
        (
            "controllerName!",
            controller.about("The controller that sets the state of this check on Workloads; immutable."),
        ),
        ("parameters", parameters.about("An object with further settings for that controller.")),
    ])
    .about("Which controller performs the check.");
    let spec = match version {
        Version::Old => spec.and(
            "retryDelayMinutes",
            int64()
                .default(15)
                .about("Deprecated and without effect; use requeueAfterSeconds in the state of the check."),
        ),
        Version::New => spec,
    };
    let conditions = conditions("Active: whether the check's controller is ready to perform it.");
    root(spec)
        .and("status", object([("conditions", conditions)]).about("Whether the check can be used."))
        .about(
            "An AdmissionCheck is a condition beside quota: a Workload that reserved quota is admitted when all its \
             checks are Ready.",
        )
}

/// A WorkloadPriorityClass.
pub(in super::super) fn priority_class(_: Version) -> Part {
    bare()
        .and(
            "value!",
            int32().about(
                "The priority of Workloads of this class; higher ones are considered first. The priority of pods stays \
                 as it is.",
            ),
        )
        .and("description", text().max_length(2048).about("When to use this class, for its users."))
        .about(
            "A WorkloadPriorityClass is a priority in queues. Jobs name it by the label kueue.x-k8s.io/priority-class.",
        )
}

/// A Topology.
pub(in super::super) fn topology(_: Version) -> Part {
    let level = object([(
        "nodeLabel!",
        label_key().max_length(316).about(
            "The node label whose value names the domain; kubernetes.io/hostname only as the last level.",
        ),
    )]);
    let levels = atoms(level)
        .min_items(1)
        .max_items(LEVELS_MAX)
        .rule(
            LEVELS_STAY,
            "field is immutable unless kubernetes.io/hostname is the lowest level before and after",
        )
        .rule(UNIQUE, "must be unique")
        .rule(HOST_LAST, "the kubernetes.io/hostname label can only be used at the lowest level of topology");
    root(
        object([("levels!", levels.about("Levels from the widest to the narrowest, as block, rack, host."))])
            .about("How the nodes are grouped."),
    )
    .about(
        "A Topology lists how nodes are grouped, as in blocks and racks. ResourceFlavors name it; pods are not placed \
         by it.",
    )
}
