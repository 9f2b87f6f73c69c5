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
    let templates = || {
        keyed("name", template())
            .min_items(1)
            .max_items(TEMPLATES_MAX)
            .rule(SAME_NAMES, "items cannot be added or removed: field is immutable")
    };
    let spec = object([
        ("controllerRef", controller()),
        ("podGroupTemplates", templates()),
        ("podGroups", templates()),
    ])
    .rule(ONE_LIST, "exactly one of podGroupTemplates and podGroups must be set")
    .rule(SAME_LIST, IMMUTABLE)
    .rule(SAME_CONTROLLER, "controllerRef: field is immutable");
    object([("apiVersion", text()), ("kind", text()), ("metadata", object([])), ("spec!", spec)])
}

/// Who the pods come from; nothing is decided by it.
fn controller() -> Part {
    let group = text().length(0, WORD_MAX).pattern(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$");
    object([("apiGroup", group), ("kind!", segment()), ("name!", segment())])
}

fn segment() -> Part {
    text().length(1, WORD_MAX).pattern(SEGMENT).rule(NO_DOTS, "may not be '.' or '..'")
}

fn template() -> Part {
    object([
        ("name!", label()),
        ("policy", policy()),
        ("schedulingPolicy", policy()),
        ("priorityClassName", subdomain()),
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
        ("podGroupTemplateRef", object([("name!", label())])),
        ("podGroupTemplateName", label()),
        ("schedulingPolicy", policy()),
        ("priorityClassName", subdomain()),
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
    .rule(OWN_POLICY_VARIANT, "schedulingPolicy: field is immutable");
    let claim = object([("name!", label()), ("resourceClaimName", subdomain())]);
    let status = object([
        ("scheduledPods", int32().min(0)),
        ("conditions", keyed("type", condition())),
        ("resourceClaimStatuses", keyed("name", claim).max_items(CLAIMS_MAX)),
    ]);
    object([
        ("apiVersion", text()),
        ("kind", text()),
        ("metadata", object([])),
        ("spec!", spec),
        ("status", status),
    ])
}

/// As any reference to an object is; most of it may be left out.
fn workload_ref() -> Part {
    let word = || text().length(0, WORD_MAX);
    object([
        ("name!", subdomain()),
        ("namespace", word()),
        ("kind", word()),
        ("apiVersion", word()),
        ("uid", word()),
        ("resourceVersion", word()),
        ("fieldPath", word()),
    ])
    .rule(OF_A_WORKLOAD, "kind must be Workload")
    .rule(OF_OUR_GROUP, "apiVersion must be of scheduling.muster.dev")
}

fn policy() -> Part {
    let gang = object([("minCount!", int32().min(1))]);
    object([("basic", object([])), ("gang", gang)]).rule("has(self.basic) != has(self.gang)", ONE_POLICY)
}

fn priority() -> Part {
    int32().max(PRIORITY_MAX)
}

fn preemption() -> Part {
    word(&["Never", "PreemptLowerPriority"])
}

fn disruption() -> Part {
    object([("single", object([])), ("all", object([]))])
        .rule("has(self.single) != has(self.all)", "exactly one of single and all must be set")
}

fn constraints() -> Part {
    object([("topology", atoms(object([("key!", label_key())])).max_items(TOPOLOGIES_MAX))])
}

fn claims() -> Part {
    let claim = object([
        ("name!", label()),
        ("resourceClaimName", subdomain()),
        ("resourceClaimTemplateName", subdomain()),
    ])
    .rule(ONE_CLAIM, "exactly one of resourceClaimName and resourceClaimTemplateName must be set");
    keyed("name", claim).max_items(CLAIMS_MAX)
}
