//! Every field of a Workload and of a PodGroup.
//!
//! A policy is spelled `policy` by some and `schedulingPolicy` by others, a template is named by a reference or by a plain
//! word: each spelling is kept as it was written, and two that differ are refused.

use muster_api::definition::{
    Part, atoms, condition, int32, keyed, label, label_key, object, subdomain, text, word,
};

/// Templates of a Workload.
const TEMPLATES_MAX: i64 = 8;
/// Claims to devices that all pods of a group share.
const CLAIMS_MAX: i64 = 4;
/// Labels that say what belongs together.
const TOPOLOGIES_MAX: i64 = 1;
/// Above are priorities of the system alone.
const PRIORITY_MAX: i64 = 1_000_000_000;
/// Names of kinds, of versions, UIDs.
const WORD_MAX: i64 = 253;
/// What may be a part of a path.
const SEGMENT: &str = "^[^/%]+$";

const IMMUTABLE: &str = "field is immutable";
const ONE_POLICY: &str = "exactly one of basic and gang must be set";
const ONE_LIST: &str = "has(self.podGroupTemplates) != has(self.podGroups)";
const SAME_LIST: &str = "has(self.podGroupTemplates) == has(oldSelf.podGroupTemplates)";
const SAME_CONTROLLER: &str = "!has(oldSelf.controllerRef) || \
     (has(self.controllerRef) && self.controllerRef == oldSelf.controllerRef)";
const SAME_NAMES: &str =
    "self.size() == oldSelf.size() && self.all(item, oldSelf.exists(old, old.name == item.name))";
const SOME_POLICY: &str = "has(self.policy) || has(self.schedulingPolicy)";
/// Part by part: to a server two objects are of two types, however alike.
const ONE_SPELLING: &str = "!has(self.policy) || !has(self.schedulingPolicy) || \
     (has(self.policy.gang) == has(self.schedulingPolicy.gang) && (!has(self.policy.gang) || \
     self.policy.gang.minCount == self.schedulingPolicy.gang.minCount))";
/// Whichever way it is spelled now and was before.
const SAME_VARIANT: &str = "(has(self.policy) ? has(self.policy.gang) : has(self.schedulingPolicy.gang)) == \
     (has(oldSelf.policy) ? has(oldSelf.policy.gang) : has(oldSelf.schedulingPolicy.gang))";
const OWN_POLICY_VARIANT: &str = "has(self.schedulingPolicy) == has(oldSelf.schedulingPolicy) && \
     (!has(self.schedulingPolicy) || has(self.schedulingPolicy.gang) == has(oldSelf.schedulingPolicy.gang))";
const A_POLICY: &str = "has(self.workloadRef) || has(self.schedulingPolicy)";
const A_TEMPLATE: &str =
    "!has(self.workloadRef) || has(self.podGroupTemplateRef) || has(self.podGroupTemplateName)";
const ONE_TEMPLATE: &str = "!has(self.podGroupTemplateRef) || !has(self.podGroupTemplateName) || \
     self.podGroupTemplateRef.name == self.podGroupTemplateName";
const SAME_WORKLOAD: &str = "has(self.workloadRef) == has(oldSelf.workloadRef) && \
     (!has(self.workloadRef) || self.workloadRef == oldSelf.workloadRef)";
const SAME_TEMPLATE: &str = "(has(self.podGroupTemplateRef) ? self.podGroupTemplateRef.name : \
     (has(self.podGroupTemplateName) ? self.podGroupTemplateName : '')) == \
     (has(oldSelf.podGroupTemplateRef) ? oldSelf.podGroupTemplateRef.name : \
     (has(oldSelf.podGroupTemplateName) ? oldSelf.podGroupTemplateName : ''))";
const OF_A_WORKLOAD: &str = "!has(self.kind) || self.kind == '' || self.kind == 'Workload'";
const OF_OUR_GROUP: &str = "!has(self.apiVersion) || self.apiVersion == '' || \
     self.apiVersion.startsWith('scheduling.muster.dev/')";
const ONE_CLAIM: &str = "has(self.resourceClaimName) != has(self.resourceClaimTemplateName)";
const NO_DOTS: &str = "self != '.' && self != '..'";

/// A Workload.
pub(super) fn workload() -> Part {
    let templates = |words: &str| {
        keyed("name", template())
            .min_items(1)
            .max_items(TEMPLATES_MAX)
            .about(words)
            .rule(SAME_NAMES, "items cannot be added or removed: field is immutable")
    };
    let spec = object([
        ("controllerRef", controller()),
        ("podGroupTemplates", templates("Templates of the PodGroups. None can be added or removed later.")),
        ("podGroups", templates("The older name of podGroupTemplates; exactly one of both is set.")),
    ])
    .about("The groups of pods that the workload is made of.")
    .rule(ONE_LIST, "exactly one of podGroupTemplates and podGroups must be set")
    .rule(SAME_LIST, IMMUTABLE)
    .rule(SAME_CONTROLLER, "controllerRef: field is immutable");
    bare()
        .and("spec!", spec)
        .about("A Workload describes the gangs of one job: how many pods of each start together.")
}

/// An object without a spec.
fn bare() -> Part {
    object([
        ("apiVersion", text().about("The group and version of this object.")),
        ("kind", text().about("The kind of this object.")),
        ("metadata", object([])),
    ])
}

/// Who the pods come from; nothing is decided by it.
fn controller() -> Part {
    let group = text().length(0, WORD_MAX).pattern(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$");
    object([
        ("apiGroup", group.about("The API group of the object; empty for the core group.")),
        ("kind!", segment().about("The kind of the object.")),
        ("name!", segment().about("The name of the object.")),
    ])
    .about("The object that the pods belong to, as a Job; information only. It cannot change once set.")
}

fn segment() -> Part {
    text().length(1, WORD_MAX).pattern(SEGMENT).rule(NO_DOTS, "may not be '.' or '..'")
}

fn template() -> Part {
    object([
        ("name!", label().about("The name by which PodGroups refer to the template.")),
        ("policy", policy()),
        ("schedulingPolicy", policy().about("Another name of policy. Where both are set, they must agree.")),
        ("priorityClassName", priority_class()),
        ("priority", priority()),
        ("preemptionPolicy", preemption()),
        ("disruptionMode", disruption()),
        ("schedulingConstraints", constraints()),
        ("resourceClaims", claims()),
    ])
    .rule(SOME_POLICY, "policy is required")
    .rule(ONE_SPELLING, "policy and schedulingPolicy must agree")
    .rule(SAME_VARIANT, "policy: field is immutable")
}

/// A PodGroup.
pub(super) fn pod_group() -> Part {
    let spec = object([
        ("workloadRef", workload_ref()),
        (
            "podGroupTemplateRef",
            object([("name!", label().about("The name of the template."))])
                .about("The template of the Workload that the group is made of; immutable."),
        ),
        (
            "podGroupTemplateName",
            label()
                .about("Another spelling of podGroupTemplateRef.name. Where both are set, they must agree."),
        ),
        (
            "schedulingPolicy",
            policy().about("The policy of the group itself; required where there is no workloadRef."),
        ),
        ("priorityClassName", priority_class()),
        ("priority", priority()),
        ("preemptionPolicy", preemption()),
        ("disruptionMode", disruption()),
        ("schedulingConstraints", constraints()),
        ("resourceClaims", claims()),
    ])
    .rule(A_POLICY, "workloadRef is required where there is no schedulingPolicy")
    .rule(A_TEMPLATE, "podGroupTemplateRef is required beside workloadRef")
    .rule(ONE_TEMPLATE, "podGroupTemplateRef.name and podGroupTemplateName must agree")
    .rule(SAME_WORKLOAD, "workloadRef: field is immutable")
    .rule(SAME_TEMPLATE, "podGroupTemplateRef: field is immutable")
    .rule(OWN_POLICY_VARIANT, "schedulingPolicy: field is immutable")
    .about("How the pods of the group are scheduled.");
    bare()
        .and("spec!", spec)
        .and("status", status().about("How far the group is; written by the scheduler."))
        .about("A PodGroup is a set of pods that are scheduled together. Pods name it by the annotation scheduling.muster.dev/pod-group.")
}

fn status() -> Part {
    let claim = object([
        ("name!", label().about("The entry of spec.resourceClaims.")),
        ("resourceClaimName", subdomain().about("The ResourceClaim that was created from its template.")),
    ]);
    object([
        ("scheduledPods", int32().min(0).about("Pods of the group that have a node.")),
        (
            "conditions",
            keyed("type", condition()).about(
                "PodGroupScheduled: whether the group has been placed, and if not, why. DisruptionTarget: the group is \
                 preempted.",
            ),
        ),
        (
            "resourceClaimStatuses",
            keyed("name", claim).max_items(CLAIMS_MAX).about("The ResourceClaims of the group."),
        ),
    ])
}

/// As any reference to an object is; most of it may be left out.
fn workload_ref() -> Part {
    let word = || text().length(0, WORD_MAX);
    object([
        ("name!", subdomain().about("The name of the Workload.")),
        ("namespace", word().about("The namespace of the PodGroup itself, or empty.")),
        ("kind", word().about("Workload, or empty.")),
        ("apiVersion", word().about("A version of scheduling.muster.dev, or empty.")),
        ("uid", word().about("The UID of the Workload; information only.")),
        ("resourceVersion", word().about("The resource version of the Workload; information only.")),
        ("fieldPath", word().about("A field of the Workload; information only.")),
    ])
    .about("The Workload whose template the group is made of; immutable.")
    .rule(OF_A_WORKLOAD, "kind must be Workload")
    .rule(OF_OUR_GROUP, "apiVersion must be of scheduling.muster.dev")
}

fn policy() -> Part {
    let least = int32().min(1).about("The fewest pods that start together.");
    let gang =
        object([("minCount!", least)]).about("All or nothing: pods wait until minCount of them fit at once.");
    object([("basic", object([]).about("Each pod is scheduled on its own.")), ("gang", gang)])
        .about("How the pods are scheduled: exactly one of basic and gang.")
        .rule("has(self.basic) != has(self.gang)", ONE_POLICY)
}

fn priority_class() -> Part {
    subdomain().about("The PriorityClass of the group.")
}

fn priority() -> Part {
    int32().max(PRIORITY_MAX).about("The priority of the group; it takes the place of that of its pods.")
}

fn preemption() -> Part {
    word(&["Never", "PreemptLowerPriority"])
        .about("Whether pods of lower priority may be preempted for the group.")
}

fn disruption() -> Part {
    let single = object([]).about("Each pod can be preempted on its own.");
    let all = object([]).about("The pods are preempted together or not at all.");
    object([("single", single), ("all", all)])
        .about("What preemption does to the group: exactly one of single and all.")
        .rule("has(self.single) != has(self.all)", "exactly one of single and all must be set")
}

fn constraints() -> Part {
    let term = object([("key!", label_key().about("The node label whose value names the domain."))]);
    let topology = atoms(term).max_items(TOPOLOGIES_MAX);
    object([("topology", topology.about("The pods are placed on nodes of one domain."))])
        .about("What the nodes of the group have in common.")
}

fn claims() -> Part {
    let claim = object([
        ("name!", label().about("The name of the entry.")),
        ("resourceClaimName", subdomain().about("A ResourceClaim that exists.")),
        (
            "resourceClaimTemplateName",
            subdomain().about("A ResourceClaimTemplate; one claim is created from it for the group."),
        ),
    ])
    .rule(ONE_CLAIM, "exactly one of resourceClaimName and resourceClaimTemplateName must be set");
    keyed("name", claim).max_items(CLAIMS_MAX).about("ResourceClaims that all pods of the group share.")
}
