//! What several kinds have.

use muster_api::definition::{
    Part, atoms, condition, instant, int64, keyed, kubernetes, map, object, quantity, text, word,
};

/// A DNS label.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A DNS subdomain.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Conditions of one object.
const CONDITIONS_MAX: i64 = 16;
/// Tolerations, and taints.
const TOLERATIONS_MAX: i64 = 8;
/// Groups of resources of a queue.
const GROUPS_MAX: i64 = 16;
/// Flavors of a group, resources of a flavor.
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

/// A whole object.
pub(super) fn root(spec: Part) -> Part {
    bare().and("spec", spec)
}

/// An object without a spec.
pub(super) fn bare() -> Part {
    object([
        ("apiVersion", text().about("The group and version of this object.")),
        ("kind", text().about("The kind of this object.")),
        ("metadata", object([])),
    ])
}

/// The name of a queue, cohort, flavor or topology.
pub(super) fn reference() -> Part {
    text().max_length(253).pattern(SUBDOMAIN)
}

/// The name of a pod set.
pub(super) fn pod_set_name() -> Part {
    text().max_length(63).pattern(LABEL)
}

/// The name of a check.
pub(super) fn check_name() -> Part {
    text().length(1, 316)
}

/// Conditions of these types.
pub(super) fn conditions(types: &str) -> Part {
    keyed("type", condition()).max_items(CONDITIONS_MAX).about(types)
}

pub(super) fn tolerations() -> Part {
    atoms(kubernetes("io.k8s.api.core.v1.Toleration"))
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

pub(super) fn taints() -> Part {
    atoms(kubernetes("io.k8s.api.core.v1.Taint")).max_items(TOLERATIONS_MAX).rule(EFFECTS, EFFECTS_WORDS)
}

pub(super) fn stop_policy() -> Part {
    word(&["None", "Hold", "HoldAndDrain"]).default("None").about(
        "Hold admits no further Workload and releases quota of Workloads that are not admitted yet; HoldAndDrain also \
         evicts admitted ones. None, the default, admits.",
    )
}

pub(super) fn fair_sharing() -> Part {
    let weight = quantity().default(1).about(
        "Its weight: twice the weight may borrow twice as much before others of the cohort are preferred. 0 is \
         preempted first; 1 by default.",
    );
    object([("weight", weight)])
        .about("Its part in fair sharing; it counts only where the configuration turns fair sharing on.")
}

/// What was used over time.
pub(super) fn consumed() -> Part {
    object([
        ("consumedResources!", map(quantity()).about("Resources used over time, by resource.")),
        ("lastUpdate!", instant().about("When consumedResources was last written.")),
    ])
    .about("Usage over time, for admission fair sharing. It is kept as it is: no controller here writes it.")
}

pub(super) fn share() -> Part {
    let share = int64().about(
        "What it borrows, in thousandths of what its parent can lend, divided by its weight; the largest over all \
         resources. 0: it borrows nothing.",
    );
    object([("weightedShare!", share)])
        .about("Its standing in fair sharing; unset where fair sharing is off.")
}

/// What a queue or a cohort has.
pub(super) fn resource_groups() -> Part {
    let quota = object([
        ("name!", text().about("The resource, as cpu, memory or nvidia.com/gpu.")),
        ("nominalQuota!", quantity().about("The quota of its own: what it can use without borrowing.")),
        (
            "borrowingLimit",
            quantity().about("How much it may borrow above nominalQuota. Left out, there is no limit."),
        ),
        (
            "lendingLimit",
            quantity().about(
                "How much of its unused quota others of the cohort may borrow. Left out, all of it may be borrowed.",
            ),
        ),
    ]);
    let resources = keyed("name", quota).min_items(1).max_items(FLAVORS_MAX);
    let flavor = object([
        ("name!", reference().about("The ResourceFlavor.")),
        (
            "resources!",
            resources.about("The quota of each covered resource, in the order of coveredResources."),
        ),
    ]);
    let covered = atoms(text()).min_items(1).max_items(FLAVORS_MAX);
    let flavors = keyed("name", flavor).min_items(1).max_items(FLAVORS_MAX);
    let group = object([
        (
            "coveredResources!",
            covered.about("The resources of the group. A resource is covered by one group at most."),
        ),
        ("flavors!", flavors.about("The flavors of these resources, in the order in which they are tried.")),
    ]);
    let words = "flavors must have the same number of resources as the coveredResources";
    atoms(group.rule(SAME_NUMBER, words)).max_items(GROUPS_MAX).about(
        "Quotas. The resources of one group are assigned together: a pod set gets all of them in the same flavor.",
    )
}
