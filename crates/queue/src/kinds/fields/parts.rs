//! Fields shared by several kinds.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, condition, date_time, enumeration, int64, kubernetes, map, map_list, object,
    quantity, string,
};

const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const CONDITIONS_MAX: i64 = 16;
const TOLERATIONS_MAX: i64 = 8;
/// Bound on resource groups.
const GROUPS_MAX: i64 = 16;
/// Bound on flavors of a resource group, and on resources of a flavor.
pub(super) const FLAVORS_MAX: i64 = 64;

const EMPTY_KEY: &str = "self.all(it, has(it.key) || (has(it.operator) && it.operator == 'Exists'))";
const SECONDS: &str =
    "self.all(it, !has(it.tolerationSeconds) || (has(it.effect) && it.effect == 'NoExecute'))";
const OPERATORS: &str = "self.all(it, !has(it.operator) || it.operator in ['Equal', 'Exists'])";
const NO_VALUE: &str = "self.all(it, !has(it.operator) || it.operator != 'Exists' || !has(it.value))";
const EFFECTS: &str =
    "self.all(it, !has(it.effect) || it.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])";
const EFFECTS_WORDS: &str = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'";
const SAME_NUMBER: &str = "self.flavors.all(it, size(it.resources) == size(self.coveredResources))";

pub(super) fn root(spec: FieldSchema) -> FieldSchema {
    bare().with_field("spec", spec)
}

pub(super) fn bare() -> FieldSchema {
    object([
        ("apiVersion", string().description("The group and version of this object.")),
        ("kind", string().description("The kind of this object.")),
        ("metadata", object([])),
    ])
}

/// A reference to a queue, cohort, flavor or topology.
pub(super) fn reference() -> FieldSchema {
    string().max_length(253).pattern(SUBDOMAIN)
}

pub(super) fn pod_set_name() -> FieldSchema {
    string().max_length(63).pattern(LABEL)
}

pub(super) fn check_name() -> FieldSchema {
    string().length(1, 316)
}

pub(super) fn conditions(types: &str) -> FieldSchema {
    map_list("type", condition()).max_items(CONDITIONS_MAX).description(types)
}

pub(super) fn tolerations() -> FieldSchema {
    atomic_list(kubernetes("io.k8s.api.core.v1.Toleration"))
        .max_items(TOLERATIONS_MAX)
        .rule(
            EMPTY_KEY,
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        )
        .rule(SECONDS, "effect must be 'NoExecute' when 'tolerationSeconds' is set")
        .rule(OPERATORS, "supported toleration values: 'Equal'(default), 'Exists'")
        .rule(NO_VALUE, "a value must be empty when 'operator' is 'Exists'")
        .rule(EFFECTS, EFFECTS_WORDS)
}

pub(super) fn taints() -> FieldSchema {
    atomic_list(kubernetes("io.k8s.api.core.v1.Taint"))
        .max_items(TOLERATIONS_MAX)
        .rule(EFFECTS, EFFECTS_WORDS)
}

pub(super) fn stop_policy() -> FieldSchema {
    enumeration(&["None", "Hold", "HoldAndDrain"]).default("None").description(
        "Hold admits no further Workload and releases quota of Workloads that are not admitted yet; HoldAndDrain also \
         evicts admitted ones. None, the default, admits.",
    )
}

pub(super) fn fair_sharing() -> FieldSchema {
    let weight = quantity().default(1).description(
        "Its weight: twice the weight may borrow twice as much before others of the cohort are preferred. 0 is \
         preempted first; 1 by default.",
    );
    object([("weight", weight)]).description(
        "Its part in fair sharing; it counts only where the configuration turns fair sharing on.",
    )
}

/// Usage history of admission fair sharing.
pub(super) fn consumed() -> FieldSchema {
    object([
        ("consumedResources!", map(quantity()).description("Resources used over time, by resource.")),
        ("lastUpdate!", date_time().description("When consumedResources was last written.")),
    ])
    .description(
        "Usage over time, for admission fair sharing. It is kept as it is: no controller here writes it.",
    )
}

pub(super) fn share() -> FieldSchema {
    let share = int64().description(
        "What it borrows, in thousandths of what its parent can lend, divided by its weight; the largest over all \
         resources. 0: it borrows nothing.",
    );
    object([("weightedShare!", share)])
        .description("Its standing in fair sharing; unset where fair sharing is off.")
}

/// API field `spec.resourceGroups` of Kueue.
pub(super) fn resource_groups() -> FieldSchema {
    let quota = object([
        ("name!", string().description("The resource, as cpu, memory or nvidia.com/gpu.")),
        ("nominalQuota!", quantity().description("The quota of its own: what it can use without borrowing.")),
        (
            "borrowingLimit",
            quantity().description("How much it may borrow above nominalQuota. Left out, there is no limit."),
        ),
        (
            "lendingLimit",
            quantity().description(
                "How much of its unused quota others of the cohort may borrow. Left out, all of it may be borrowed.",
            ),
        ),
    ]);
    let resources = map_list("name", quota).min_items(1).max_items(FLAVORS_MAX);
    let flavor = object([
        ("name!", reference().description("The ResourceFlavor.")),
        (
            "resources!",
            resources.description("The quota of each covered resource, in the order of coveredResources."),
        ),
    ]);
    let covered = atomic_list(string()).min_items(1).max_items(FLAVORS_MAX);
    let flavors = map_list("name", flavor).min_items(1).max_items(FLAVORS_MAX);
    let group = object([
        (
            "coveredResources!",
            covered.description("The resources of the group. A resource is covered by one group at most."),
        ),
        (
            "flavors!",
            flavors.description("The flavors of these resources, in the order in which they are tried."),
        ),
    ]);
    let words = "flavors must have the same number of resources as the coveredResources";
    atomic_list(group.rule(SAME_NUMBER, words)).max_items(GROUPS_MAX).description(
        "Quotas. The resources of one group are assigned together: a pod set gets all of them in the same flavor.",
    )
}
