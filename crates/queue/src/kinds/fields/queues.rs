//! Fields of ClusterQueues, LocalQueues and Cohorts.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, date_time, enumeration, int32, kubernetes, list, map_list, object, quantity,
    set, string,
};
use muster_tree::tree;

use super::Version;
use super::parts::{
    FLAVORS_MAX, check_name, conditions, consumed, fair_sharing, reference, resource_groups, root, share,
    stop_policy,
};

/// Bound on admission checks.
const CHECKS_MAX: i64 = 64;

const NO_LIMIT: &str = "!has(self.resourceGroups) || self.resourceGroups.all(group, group.flavors.all(flavor, \
     flavor.resources.all(it, !has(it.borrowingLimit))))";
const PREFERENCE: &str = "!has(self.preference) || \
     (self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor')";
const BORROW_OR_NEVER: &str = "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || \
     self.borrowWithinCohort.policy == 'Never'";

pub(in super::super) fn cluster_queue(version: Version) -> FieldSchema {
    let cohort = match version {
        Version::Old => "cohort",
        Version::New => "cohortName",
    };
    let spec = object([
        ("resourceGroups", resource_groups()),
        (
            cohort,
            reference().description(
                "The cohort whose ClusterQueues lend each other unused quota. It needs no Cohort object.",
            ),
        ),
        ("queueingStrategy", queueing_strategy()),
        (
            "namespaceSelector",
            kubernetes("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").description(
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
    .description("Quotas, and how they are handed out.");
    let spec = match version {
        Version::Old => spec.with_field(
            "admissionChecks",
            list(string().max_length(316)).max_items(CHECKS_MAX).description(
                "AdmissionChecks of all Workloads of this ClusterQueue. It is stored as admissionChecksStrategy, which \
                 it replaces where both are set.",
            ),
        ),
        Version::New => spec,
    };
    let rule = format!("has(self.{cohort}) || {NO_LIMIT}");
    root(spec.rule(&rule, "borrowingLimit must be nil when cohort is empty"))
        .with_field("status", cluster_queue_status(version))
        .description("A ClusterQueue has quotas and admits the Workloads of its LocalQueues within them.")
}

fn queueing_strategy() -> FieldSchema {
    enumeration(&["StrictFIFO", "BestEffortFIFO"]).default("BestEffortFIFO").description(
        "Workloads are ordered by priority, then by time of creation. StrictFIFO: one that does not fit blocks those \
         behind it. BestEffortFIFO, the default: those behind it that fit are admitted.",
    )
}

fn fungibility(version: Version) -> FieldSchema {
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
        ("whenCanBorrow", enumeration(borrow).default("MayStopSearch").description(&when_borrow)),
        ("whenCanPreempt", enumeration(preempt).default("TryNextFlavor").description(&when_preempt)),
        (
            "preference",
            enumeration(&["BorrowingOverPreemption", "PreemptionOverBorrowing"]).description(
                "Which flavor is better when both are looked at: one with borrowing, the default, or one with preemption.",
            ),
        ),
    ])
    .description("When the search through the flavors of a group ends.")
    .rule(PREFERENCE, words)
}

fn preemption() -> FieldSchema {
    let borrow = object([
        (
            "policy",
            enumeration(&["Never", "LowerPriority"]).default("Never").description(
                "LowerPriority: Workloads of lower priority in other ClusterQueues. Never, the default: no preemption \
                 while borrowing.",
            ),
        ),
        (
            "maxPriorityThreshold",
            int32().description("Only Workloads of this priority or a lower one. Left out, there is no threshold."),
        ),
    ])
    .description("Which Workloads of the cohort a Workload may preempt when it borrows afterwards.");
    object([
        (
            "reclaimWithinCohort",
            enumeration(&["Never", "LowerPriority", "Any"]).default("Never").description(
                "Which Workloads of other ClusterQueues that borrow a Workload within nominal quota may preempt: none (the \
                 default), those of lower priority, or any.",
            ),
        ),
        ("borrowWithinCohort", borrow.default(tree!({}))),
        (
            "withinClusterQueue",
            enumeration(&["Never", "LowerPriority", "LowerOrNewerEqualPriority"]).default("Never").description(
                "Which Workloads of this ClusterQueue a Workload that does not fit may preempt: none (the default), those \
                 of lower priority, or also newer ones of equal priority.",
            ),
        ),
    ])
    .description("Which Workloads may be preempted for a pending Workload of this ClusterQueue.")
    .rule(BORROW_OR_NEVER, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never")
}

fn checks(version: Version) -> FieldSchema {
    let flavors = set(reference()).max_items(FLAVORS_MAX);
    let rule = object([
        ("name!", check_name().description("The AdmissionCheck.")),
        (
            "onFlavors",
            flavors.description(
                "The check is for Workloads that are assigned one of these flavors; for all when empty.",
            ),
        ),
    ]);
    let list = map_list("name", rule).max_items(CHECKS_MAX).description("The AdmissionChecks.");
    let strategy = match version {
        Version::Old => object([("admissionChecks", list)]),
        Version::New => object([("admissionChecks!", list.min_items(1))]),
    };
    strategy
        .description("AdmissionChecks that must be Ready before a Workload with reserved quota is admitted.")
}

fn admission_scope() -> FieldSchema {
    let mode = enumeration(&["UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"]).description(
        "UsageBasedAdmissionFairSharing prefers LocalQueues that used less, which is not implemented here: it is stored, \
         and Workloads are ordered by priority and creation.",
    );
    object([("admissionMode!", mode)])
        .description("Fair sharing between the LocalQueues of this ClusterQueue.")
}

fn cluster_queue_status(version: Version) -> FieldSchema {
    let flavors = || usage(true);
    let status = counters()
        .with_field("conditions", conditions("Active: whether Workloads can be admitted, and if not, why."))
        .with_field(
            "flavorsReservation",
            flavors()
                .description("Quota reserved by Workloads, admitted or not yet, by flavor and resource."),
        )
        .with_field(
            "flavorsUsage",
            flavors().description("Quota used by admitted Workloads, by flavor and resource."),
        );
    let status = match version {
        Version::Old => status
            .with_field("fairSharing", share().with_field("admissionFairSharingStatus", consumed()))
            .with_field("pendingWorkloadsStatus", pending_status()),
        Version::New => status.with_field("fairSharing", share()),
    };
    status.description("How much of the quota is in use; written by the queue controller.")
}

/// Kueue does not write this field any more; a write by an older client still succeeds.
fn pending_status() -> FieldSchema {
    let one = object([
        ("name!", string().description("The name of the Workload.")),
        ("namespace!", string().description("The namespace of the Workload.")),
    ]);
    object([
        ("clusterQueuePendingWorkload", atomic_list(one).description("The first pending Workloads.")),
        ("lastChangeTime!", date_time().description("When the list last changed.")),
    ])
    .description(
        "Deprecated; no controller here writes it. The API group visibility.kueue.x-k8s.io lists pending Workloads.",
    )
}

fn counters() -> FieldSchema {
    object([
        ("pendingWorkloads", int32().description("Workloads that wait for quota.")),
        (
            "reservingWorkloads",
            int32().description("Workloads that have reserved quota, admitted ones among them."),
        ),
        ("admittedWorkloads", int32().description("Workloads that are admitted and not finished.")),
    ])
}

/// Usage by flavor; `borrowed` where quota can be borrowed. Bounded like a resource group.
fn usage(borrowed: bool) -> FieldSchema {
    let resource = object([
        ("name!", string().description("The resource.")),
        ("total", quantity().description("How much is in use, borrowed quota included.")),
    ]);
    let resource = if borrowed {
        resource.with_field(
            "borrowed",
            quantity().description("How much of it is above nominalQuota, borrowed from the cohort."),
        )
    } else {
        resource
    };
    let resources = map_list("name", resource).max_items(FLAVORS_MAX);
    let flavor = object([
        ("name!", reference().description("The ResourceFlavor.")),
        ("resources!", resources.description("Its resources, by name.")),
    ]);
    map_list("name", flavor).max_items(FLAVORS_MAX)
}

pub(in super::super) fn local_queue(version: Version) -> FieldSchema {
    let spec = object([
        (
            "clusterQueue",
            reference()
                .rule("self == oldSelf", "field is immutable")
                .description("The ClusterQueue that admits the Workloads of this queue; immutable."),
        ),
        ("stopPolicy", stop_policy()),
        ("fairSharing", fair_sharing()),
    ])
    .description("Which ClusterQueue it leads to.");
    let used = match version {
        Version::Old => "flavorUsage",
        Version::New => "flavorsUsage",
    };
    let status = counters()
        .with_field(
            "conditions",
            conditions("Active: whether Workloads of this queue can be admitted, and if not, why."),
        )
        .with_field(
            "flavorsReservation",
            usage(false).description("Quota reserved by Workloads of this queue, by flavor and resource."),
        )
        .with_field(
            used,
            usage(false)
                .description("Quota used by admitted Workloads of this queue, by flavor and resource."),
        )
        .with_field("fairSharing", share().with_field("admissionFairSharingStatus", consumed()));
    root(spec)
        .with_field(
            "status",
            status.description(
                "The Workloads of this queue and what they use; written by the queue controller.",
            ),
        )
        .description(
            "A LocalQueue is the queue of a namespace. Jobs name it by the label kueue.x-k8s.io/queue-name.",
        )
}

pub(in super::super) fn cohort(_: Version) -> FieldSchema {
    let spec = object([
        (
            "parentName",
            reference().description(
                "The Cohort that this one belongs to, and can borrow from. Left out, it is a root.",
            ),
        ),
        ("resourceGroups", resource_groups()),
        ("fairSharing", fair_sharing()),
    ])
    .description("Its place in the tree of cohorts, and quota that its members share.");
    root(spec)
        .with_field(
            "status",
            object([("fairSharing", share())]).description("Its standing; written by the queue controller."),
        )
        .description("A Cohort groups ClusterQueues and other Cohorts that lend each other unused quota.")
}
