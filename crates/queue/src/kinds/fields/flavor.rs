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
        ("nodeLabels", labels().max_entries(LABELS_MAX).whole()),
        ("nodeTaints", taints()),
        ("tolerations", tolerations()),
        ("topologyName", reference()),
    ]);
    root(
        spec.rule(LABELLED, "at least one nodeLabel is required when topology is set")
            .rule(TOPOLOGY_STAYS, "topologyName is immutable once set"),
    )
}

/// An AdmissionCheck.
pub(in super::super) fn check(version: Version) -> Part {
    let parameters = object([
        ("apiGroup!", text().length(1, 253).pattern(SUBDOMAIN)),
        ("kind!", text().length(1, 63).pattern(KIND)),
        ("name!", text().length(1, 63).pattern("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")),
    ]);
    let controller = text().length(1, 253).rule("self == oldSelf", "field is immutable");
    let spec = object([("controllerName!", controller), ("parameters", parameters)]);
    let spec = match version {
        Version::Old => spec.and("retryDelayMinutes", int64().default(15)),
        Version::New => spec,
    };
    root(spec).and("status", object([("conditions", conditions())]))
}

/// A WorkloadPriorityClass.
pub(in super::super) fn priority_class(_: Version) -> Part {
    bare().and("value!", int32()).and("description", text().max_length(2048))
}

/// A Topology.
pub(in super::super) fn topology(_: Version) -> Part {
    let level = object([("nodeLabel!", label_key().max_length(316))]);
    let levels = atoms(level)
        .min_items(1)
        .max_items(LEVELS_MAX)
        .rule(
            LEVELS_STAY,
            "field is immutable unless kubernetes.io/hostname is the lowest level before and after",
        )
        .rule(UNIQUE, "must be unique")
        .rule(HOST_LAST, "the kubernetes.io/hostname label can only be used at the lowest level of topology");
    root(object([("levels!", levels)]))
}
