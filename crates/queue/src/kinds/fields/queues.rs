//! Fields of ClusterQueues, LocalQueues and Cohorts.

use muster_api::definition::{
    Part, atoms, instant, int32, keyed, kubernetes, list, object, quantity, set, text, word,
};
use muster_tree::tree;

use super::Version;
use super::parts::{
    FLAVORS_MAX, check_name, conditions, consumed, fair_sharing, reference, resource_groups, root, share,
    stop_policy,
};

/// Checks of a queue.
const CHECKS_MAX: i64 = 64;
/// Flavors in the status of a LocalQueue, and resources of each.
const LOCAL_MAX: i64 = 16;

const NO_LIMIT: &str = "!has(self.resourceGroups) || self.resourceGroups.all(group, group.flavors.all(flavor, \
     flavor.resources.all(it, !has(it.borrowingLimit))))";
const PREFERENCE: &str = "!has(self.preference) || \
     (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')";
const BORROW_OR_NEVER: &str = "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || \
     self.borrowWithinCohort.policy == 'Never'";

/// A ClusterQueue.
pub(in super::super) fn cluster_queue(version: Version) -> Part {
    let cohort = match version {
        Version::Old => "cohort",
        Version::New => "cohortName",
    };
    let spec = object([
        ("resourceGroups", resource_groups()),
        (cohort, reference()),
        ("queueingStrategy", word(&["StrictFIFO", "BestEffortFIFO"]).default("BestEffortFIFO")),
        ("namespaceSelector", kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector")),
        ("flavorFungibility", fungibility(version).default(tree!({}))),
        ("preemption", preemption().default(tree!({}))),
        ("admissionChecksStrategy", checks(version)),
        ("stopPolicy", stop_policy()),
        ("fairSharing", fair_sharing()),
        ("admissionScope", admission_scope()),
    ]);
    let spec = match version {
        Version::Old => spec.and("admissionChecks", list(text().max_length(316)).max_items(CHECKS_MAX)),
        Version::New => spec,
    };
    let rule = format!("has(self.{cohort}) || {NO_LIMIT}");
    root(spec.rule(&rule, "borrowingLimit must be nil when cohort is empty"))
        .and("status", cluster_queue_status(version))
}

fn fungibility(version: Version) -> Part {
    let (borrow, preempt): (&[&str], &[&str]) = match version {
        Version::Old => {
            (&["MayStopSearch", "TryNextFlavor", "Borrow"], &["MayStopSearch", "TryNextFlavor", "Preempt"])
        }
        Version::New => (&["MayStopSearch", "TryNextFlavor"], &["MayStopSearch", "TryNextFlavor"]),
    };
    let words = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor";
    object([
        ("whenCanBorrow", word(borrow).default("MayStopSearch")),
        ("whenCanPreempt", word(preempt).default("TryNextFlavor")),
        ("preference", word(&["BorrowingOverPreemption", "PreemptionOverBorrowing"])),
    ])
    .rule(PREFERENCE, words)
}

fn preemption() -> Part {
    let borrow = object([
        ("policy", word(&["Never", "LowerPriority"]).default("Never")),
        ("maxPriorityThreshold", int32()),
    ]);
    object([
        ("reclaimWithinCohort", word(&["Never", "LowerPriority", "Any"]).default("Never")),
        ("borrowWithinCohort", borrow.default(tree!({}))),
        (
            "withinClusterQueue",
            word(&["Never", "LowerPriority", "LowerOrNewerEqualPriority"]).default("Never"),
        ),
    ])
    .rule(BORROW_OR_NEVER, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")
}

fn checks(version: Version) -> Part {
    let rule = object([("name!", check_name()), ("onFlavors", set(reference()).max_items(FLAVORS_MAX))]);
    let list = keyed("name", rule).max_items(CHECKS_MAX);
    match version {
        Version::Old => object([("admissionChecks", list)]),
        Version::New => object([("admissionChecks!", list.min_items(1))]),
    }
}

fn admission_scope() -> Part {
    object([("admissionMode!", word(&["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]))])
}

fn cluster_queue_status(version: Version) -> Part {
    let flavors = || usage(true, FLAVORS_MAX);
    let status = counters()
        .and("conditions", conditions())
        .and("flavorsReservation", flavors())
        .and("flavorsUsage", flavors());
    match version {
        Version::Old => status
            .and("fairSharing", share().and("admissionFairSharingStatus", consumed()))
            .and("pendingWorkloadsStatus", pending_status()),
        Version::New => status.and("fairSharing", share()),
    }
}

/// Nobody writes this any more; what an old client sends is kept out of errors.
fn pending_status() -> Part {
    let one = object([("name!", text()), ("namespace!", text())]);
    object([("clusterQueuePendingWorkload", atoms(one)), ("lastChangeTime!", instant())])
}

fn counters() -> Part {
    object([("pendingWorkloads", int32()), ("reservingWorkloads", int32()), ("admittedWorkloads", int32())])
}

/// What is used of flavors; `borrowed` where quota can be.
fn usage(borrowed: bool, most: i64) -> Part {
    let resource = object([("name!", text()), ("total", quantity())]);
    let resource = if borrowed { resource.and("borrowed", quantity()) } else { resource };
    let resources = keyed("name", resource).max_items(most);
    keyed("name", object([("name!", reference()), ("resources!", resources)])).max_items(most)
}

/// A LocalQueue.
pub(in super::super) fn local_queue(version: Version) -> Part {
    let spec = object([
        ("clusterQueue", reference().rule("self == oldSelf", "field is immutable")),
        ("stopPolicy", stop_policy()),
        ("fairSharing", fair_sharing()),
    ]);
    let used = match version {
        Version::Old => "flavorUsage",
        Version::New => "flavorsUsage",
    };
    let status = counters()
        .and("conditions", conditions())
        .and("flavorsReservation", usage(false, LOCAL_MAX))
        .and(used, usage(false, LOCAL_MAX))
        .and("fairSharing", share().and("admissionFairSharingStatus", consumed()));
    root(spec).and("status", status)
}

/// A Cohort.
pub(in super::super) fn cohort(_: Version) -> Part {
    let spec = object([
        ("parentName", reference()),
        ("resourceGroups", resource_groups()),
        ("fairSharing", fair_sharing()),
    ]);
    root(spec).and("status", object([("fairSharing", share())]))
}
