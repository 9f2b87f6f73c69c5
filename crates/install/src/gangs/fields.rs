//! The schemas of Workload and PodGroup.
//!
//! Versions of the proposal differ: a policy is `policy` or `schedulingPolicy`, and a template is named by a reference or
//! by a string. Both fields are accepted and stored as written; if both are set and differ, validation fails.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, condition, enumeration, int32, label, label_key, map_list, object, string,
    subdomain,
};

/// The upper bound of templates in a Workload.
const TEMPLATES_MAX: i64 = 8;
/// The upper bound of ResourceClaims that the pods of a group share.
const CLAIMS_MAX: i64 = 4;
/// The upper bound of topology constraints.
const TOPOLOGIES_MAX: i64 = 1;
/// The highest priority of users; higher ones are reserved for system PriorityClasses.
const PRIORITY_MAX: i64 = 1_000_000_000;
/// The longest kind, version or UID.
const WORD_MAX: i64 = 253;
/// A valid path segment.
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
/// Compared field by field: to CEL, two object schemas are two types even if they are equal.
const ONE_SPELLING: &str = "!has(self.policy) || !has(self.schedulingPolicy) || \
     (has(self.policy.gang) == has(self.schedulingPolicy.gang) && (!has(self.policy.gang) || \
     self.policy.gang.minCount == self.schedulingPolicy.gang.minCount))";
/// The policy variant must not change, in whichever field it is and was.
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

pub(super) fn workload() -> FieldSchema {
    let templates = |words: &str| {
        map_list("name", template())
            .min_items(1)
            .max_items(TEMPLATES_MAX)
            .description(words)
            .rule(SAME_NAMES, "items cannot be added or removed: field is immutable")
    };
    let spec = object([
        ("controllerRef", controller()),
        ("podGroupTemplates", templates("Templates of the PodGroups. None can be added or removed later.")),
        ("podGroups", templates("The older name of podGroupTemplates; exactly one of both is set.")),
    ])
    .description("The groups of pods that the workload is made of.")
    .rule(ONE_LIST, "exactly one of podGroupTemplates and podGroups must be set")
    .rule(SAME_LIST, IMMUTABLE)
    .rule(SAME_CONTROLLER, "controllerRef: field is immutable");
    bare()
        .with_field("spec!", spec)
        .description("A Workload describes the gangs of one job: how many pods of each start together.")
}

/// The type metadata of an object.
fn bare() -> FieldSchema {
    object([
        ("apiVersion", string().description("The group and version of this object.")),
        ("kind", string().description("The kind of this object.")),
        ("metadata", object([])),
    ])
}

/// The owner of the pods; informational.
fn controller() -> FieldSchema {
    let group = string().length(0, WORD_MAX).pattern(r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$");
    object([
        ("apiGroup", group.description("The API group of the object; empty for the core group.")),
        ("kind!", segment().description("The kind of the object.")),
        ("name!", segment().description("The name of the object.")),
    ])
    .description("The object that the pods belong to, as a Job; information only. It cannot change once set.")
}

fn segment() -> FieldSchema {
    string().length(1, WORD_MAX).pattern(SEGMENT).rule(NO_DOTS, "may not be '.' or '..'")
}

fn template() -> FieldSchema {
    object([
        ("name!", label().description("The name by which PodGroups refer to the template.")),
        ("policy", policy()),
        (
            "schedulingPolicy",
            policy().description("Another name of policy. Where both are set, they must agree."),
        ),
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

pub(super) fn pod_group() -> FieldSchema {
    let spec = object([
        ("workloadRef", workload_ref()),
        (
            "podGroupTemplateRef",
            object([("name!", label().description("The name of the template."))])
                .description("The template of the Workload that the group is made of; immutable."),
        ),
        (
            "podGroupTemplateName",
            label().description(
                "Another spelling of podGroupTemplateRef.name. Where both are set, they must agree.",
            ),
        ),
        (
            "schedulingPolicy",
            policy().description("The policy of the group itself; required where there is no workloadRef."),
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
    .description("How the pods of the group are scheduled.");
    bare()
        .with_field("spec!", spec)
        .with_field("status", status().description("How far the group is; written by the scheduler."))
        .description("A PodGroup is a set of pods that are scheduled together. Pods name it by the annotation scheduling.muster.dev/pod-group.")
}

fn status() -> FieldSchema {
    let claim = object([
        ("name!", label().description("The entry of spec.resourceClaims.")),
        (
            "resourceClaimName",
            subdomain().description("The ResourceClaim that was created from its template."),
        ),
    ]);
    object([
        ("scheduledPods", int32().min(0).description("Pods of the group that have a node.")),
        (
            "conditions",
            map_list("type", condition()).description(
                "PodGroupScheduled: whether the group has been placed, and if not, why. DisruptionTarget: the group is \
                 preempted.",
            ),
        ),
        (
            "resourceClaimStatuses",
            map_list("name", claim).max_items(CLAIMS_MAX).description("The ResourceClaims of the group."),
        ),
    ])
}

/// The fields of an ObjectReference; most are optional.
fn workload_ref() -> FieldSchema {
    let word = || string().length(0, WORD_MAX);
    object([
        ("name!", subdomain().description("The name of the Workload.")),
        ("namespace", word().description("The namespace of the PodGroup itself, or empty.")),
        ("kind", word().description("Workload, or empty.")),
        ("apiVersion", word().description("A version of scheduling.muster.dev, or empty.")),
        ("uid", word().description("The UID of the Workload; information only.")),
        ("resourceVersion", word().description("The resource version of the Workload; information only.")),
        ("fieldPath", word().description("A field of the Workload; information only.")),
    ])
    .description("The Workload whose template the group is made of; immutable.")
    .rule(OF_A_WORKLOAD, "kind must be Workload")
    .rule(OF_OUR_GROUP, "apiVersion must be of scheduling.muster.dev")
}

fn policy() -> FieldSchema {
    let least = int32().min(1).description("The fewest pods that start together.");
    let gang = object([("minCount!", least)])
        .description("All or nothing: pods wait until minCount of them fit at once.");
    object([("basic", object([]).description("Each pod is scheduled on its own.")), ("gang", gang)])
        .description("How the pods are scheduled: exactly one of basic and gang.")
        .rule("has(self.basic) != has(self.gang)", ONE_POLICY)
}

fn priority_class() -> FieldSchema {
    subdomain().description("The PriorityClass of the group.")
}

fn priority() -> FieldSchema {
    int32()
        .max(PRIORITY_MAX)
        .description("The priority of the group; it takes the place of that of its pods.")
}

fn preemption() -> FieldSchema {
    enumeration(&["Never", "PreemptLowerPriority"])
        .description("Whether pods of lower priority may be preempted for the group.")
}

fn disruption() -> FieldSchema {
    let single = object([]).description("Each pod can be preempted on its own.");
    let all = object([]).description("The pods are preempted together or not at all.");
    object([("single", single), ("all", all)])
        .description("What preemption does to the group: exactly one of single and all.")
        .rule("has(self.single) != has(self.all)", "exactly one of single and all must be set")
}

fn constraints() -> FieldSchema {
    let term = object([("key!", label_key().description("The node label whose value names the domain."))]);
    let topology = atomic_list(term).max_items(TOPOLOGIES_MAX);
    object([("topology", topology.description("The pods are placed on nodes of one domain."))])
        .description("What the nodes of the group have in common.")
}

fn claims() -> FieldSchema {
    let claim = object([
        ("name!", label().description("The name of the entry.")),
        ("resourceClaimName", subdomain().description("A ResourceClaim that exists.")),
        (
            "resourceClaimTemplateName",
            subdomain().description("A ResourceClaimTemplate; one claim is created from it for the group."),
        ),
    ])
    .rule(ONE_CLAIM, "exactly one of resourceClaimName and resourceClaimTemplateName must be set");
    map_list("name", claim)
        .max_items(CLAIMS_MAX)
        .description("ResourceClaims that all pods of the group share.")
}
