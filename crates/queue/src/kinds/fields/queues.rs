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
        (
            cohort,
            reference().about(
                "The cohort whose ClusterQueues lend each other unused quota. It needs no Cohort object.",
            ),
        ),
        ("queueingStrategy", queueing_strategy()),
        (
            "namespaceSelector",
            kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").about(
                "The namespaces whose Workloads are admitted. {} selects all; left out, none is selected.",
            ),
        ),
        ("flavorFungibility", fungibility(version).default(tree!({}))),
        ("preemption", preemption().default(tree!({}))),
        ("admissionChecksStrategy", checks(version)),
        ("stopPolicy", stop_policy()),
        ("fairSharing", fair_sharing()),
        ("admissionScope", admission_scope()),
    ])
    .about("Quotas, and how they are handed out.");
    let spec = match version {
        Version::Old => spec.and(
            "admissionChecks",
            list(text().max_length(316)).max_items(CHECKS_MAX).about(
                "AdmissionChecks of all Workloads of this ClusterQueue. It is stored as admissionChecksStrategy, which \
                 it replaces where both are set.",
            ),
        ),
        Version::New => spec,
    };
    let rule = format!("has(self.{cohort}) || {NO_LIMIT}");
    root(spec.rule(&rule, "borrowingLimit must be nil when cohort is empty"))
        .and("status", cluster_queue_status(version))
        .about("A ClusterQueue has quotas and admits the Workloads of its LocalQueues within them.")
}

fn queueing_strategy() -> Part {
    word(&["StrictFIFO", "BestEffortFIFO"]).default("BestEffortFIFO").about(
        "Workloads are ordered by priority, then by time of creation. StrictFIFO: one that does not fit blocks those \
         behind it. BestEffortFIFO, the default: those behind it that fit are admitted.",
    )
}

fn fungibility(version: Version) -> Part {
    let (borrow, preempt): (&[&str], &[&str]) = match version {
        Version::Old => {
            (&["MayStopSearch", "TryNextFlavor", "Borrow"], &["MayStopSearch", "TryNextFlavor", "Preempt"])
        }
        Version::New => (&["MayStopSearch", "TryNextFlavor"], &["MayStopSearch", "TryNextFlavor"]),
    };
    let old = |word: &str| match version {
        Version::Old => format!(" {word} is the older word for MayStopSearch."),
        Version::New => String::new(),
    };
    let when_borrow = format!(
        "When a Workload fits a flavor by borrowing: MayStopSearch, the default, takes that flavor; TryNextFlavor looks \
         at the next ones first.{}",
        old("Borrow")
    );
    let when_preempt = format!(
        "When a Workload fits a flavor by preemption: MayStopSearch takes that flavor; TryNextFlavor, the default, looks \
         at the next ones first.{}",
        old("Preempt")
    );
    let words = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor";
    object([
        ("whenCanBorrow", word(borrow).default("MayStopSearch").about(&when_borrow)),
        ("whenCanPreempt", word(preempt).default("TryNextFlavor").about(&when_preempt)),
        (
            "preference",
            word(&["BorrowingOverPreemption", "PreemptionOverBorrowing"]).about(
                "Which flavor is better when both are looked at: one with borrowing, the default, or one with preemption.",
            ),
        ),
    ])
    .about("When the search through the flavors of a group ends.")
    .rule(PREFERENCE, words)
}

fn preemption() -> Part {
    let borrow = object([
        (
            "policy",
            word(&["Never", "LowerPriority"]).default("Never").about(
                "LowerPriority: Workloads of lower priority in other ClusterQueues. Never, the default: no preemption \
                 while borrowing.",
            ),
        ),
        (
            "maxPriorityThreshold",
            int32().about("Only Workloads of this priority or a lower one. Left out, there is no threshold."),
        ),
    ])
    .about("Which Workloads of the cohort a Workload may preempt when it borrows afterwards.");
    object([
        (
            "reclaimWithinCohort",
            word(&["Never", "LowerPriority", "Any"]).default("Never").about(
                "Which Workloads of other ClusterQueues that borrow a Workload within nominal quota may preempt: none (the \
                 default), those of lower priority, or any.",
            ),
        ),
        ("borrowWithinCohort", borrow.default(tree!({}))),
        (
            "withinClusterQueue",
            word(&["Never", "LowerPriority", "LowerOrNewerEqualPriority"]).default("Never").about(
                "Which Workloads of this ClusterQueue a Workload that does not fit may preempt: none (the default), those \
                 of lower priority, or also newer ones of equal priority.",
            ),
        ),
    ])
    .about("Which Workloads may be preempted for a pending Workload of this ClusterQueue.")
    .rule(BORROW_OR_NEVER, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")
}

fn checks(version: Version) -> Part {
    let flavors = set(reference()).max_items(FLAVORS_MAX);
    let rule = object([
        ("name!", check_name().about("The AdmissionCheck.")),
        (
            "onFlavors",
            flavors.about(
                "The check is for Workloads that are assigned one of these flavors; for all when empty.",
            ),
        ),
    ]);
    let list = keyed("name", rule).max_items(CHECKS_MAX).about("The AdmissionChecks.");
    let strategy = match version {
        Version::Old => object([("admissionChecks", list)]),
        Version::New => object([("admissionChecks!", list.min_items(1))]),
    };
    strategy.about("AdmissionChecks that must be Ready before a Workload with reserved quota is admitted.")
}

fn admission_scope() -> Part {
    let mode = word(&["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]).about(
        "UsageBasedAdmissionFairSharing prefers LocalQueues that used less, which is not implemented here: it is stored, \
         and Workloads are ordered by priority and creation.",
    );
    object([("admissionMode!", mode)]).about("Fair sharing between the LocalQueues of this ClusterQueue.")
}

fn cluster_queue_status(version: Version) -> Part {
    let flavors = || usage(true);
    let status = counters()
        .and("conditions", conditions("Active: whether Workloads can be admitted, and if not, why."))
        .and(
            "flavorsReservation",
            flavors().about("Quota reserved by Workloads, admitted or not yet, by flavor and resource."),
        )
        .and("flavorsUsage", flavors().about("Quota used by admitted Workloads, by flavor and resource."));
    let status = match version {
        Version::Old => status
            .and("fairSharing", share().and("admissionFairSharingStatus", consumed()))
            .and("pendingWorkloadsStatus", pending_status()),
        Version::New => status.and("fairSharing", share()),
    };
    status.about("How much of the quota is in use; written by the queue controller.")
}

/// Kueue stopped writing this field; a write of it by an older client succeeds.
fn pending_status() -> Part {
    let one = object([
        ("name!", text().about("The name of the Workload.")),
        ("namespace!", text().about("The namespace of the Workload.")),
    ]);
    object([
        ("clusterQueuePendingWorkload", atoms(one).about("The first pending Workloads.")),
        ("lastChangeTime!", instant().about("When the list last changed.")),
    ])
    .about(
        "Deprecated; no controller here writes it. The API group visibility.kueue.x-k8s.io lists pending Workloads.",
    )
}

fn counters() -> Part {
    object([
        ("pendingWorkloads", int32().about("Workloads that wait for quota.")),
        (
            "reservingWorkloads",
            int32().about("Workloads that have reserved quota, admitted ones among them."),
        ),
        ("admittedWorkloads", int32().about("Workloads that are admitted and not finished.")),
    ])
}

/// What is used of flavors; `borrowed` where quota can be. A status has as many flavors, and resources of each, as a group
/// of quotas may have.
fn usage(borrowed: bool) -> Part {
    let resource = object([
        ("name!", text().about("The resource.")),
        ("total", quantity().about("How much is in use, borrowed quota included.")),
    ]);
    let resource = if borrowed {
        resource.and(
            "borrowed",
            quantity().about("How much of it is above nominalQuota, borrowed from the cohort."),
        )
    } else {
        resource
    };
    let resources = keyed("name", resource).max_items(FLAVORS_MAX);
    let flavor = object([
        ("name!", reference().about("The ResourceFlavor.")),
        ("resources!", resources.about("Its resources, by name.")),
    ]);
    keyed("name", flavor).max_items(FLAVORS_MAX)
}

/// A LocalQueue.
pub(in super::super) fn local_queue(version: Version) -> Part {
    let spec = object([
        (
            "clusterQueue",
            reference()
                .rule("self == oldSelf", "field is immutable")
                .about("The ClusterQueue that admits the Workloads of this queue; immutable."),
        ),
        ("stopPolicy", stop_policy()),
        ("fairSharing", fair_sharing()),
    ])
    .about("Which ClusterQueue it leads to.");
    let used = match version {
        Version::Old => "flavorUsage",
        Version::New => "flavorsUsage",
    };
    let status = counters()
        .and(
            "conditions",
            conditions("Active: whether Workloads of this queue can be admitted, and if not, why."),
        )
        .and(
            "flavorsReservation",
            usage(false).about("Quota reserved by Workloads of this queue, by flavor and resource."),
        )
        .and(
            used,
            usage(false).about("Quota used by admitted Workloads of this queue, by flavor and resource."),
        )
        .and("fairSharing", share().and("admissionFairSharingStatus", consumed()));
    root(spec)
        .and(
            "status",
            status.about("The Workloads of this queue and what they use; written by the queue controller."),
        )
        .about(
            "A LocalQueue is the queue of a namespace. Jobs name it by the label kueue.x-k8s.io/queue-name.",
        )
}

/// A Cohort.
pub(in super::super) fn cohort(_: Version) -> Part {
    let spec = object([
        (
            "parentName",
            reference()
                .about("The Cohort that this one belongs to, and can borrow from. Left out, it is a root."),
        ),
        ("resourceGroups", resource_groups()),
        ("fairSharing", fair_sharing()),
    ])
    .about("Its place in the tree of cohorts, and quota that its members share.");
    root(spec)
        .and(
            "status",
            object([("fairSharing", share())]).about("Its standing; written by the queue controller."),
        )
        .about("A Cohort groups ClusterQueues and other Cohorts that lend each other unused quota.")
}
