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
    object([("apiVersion", text()), ("kind", text()), ("metadata", object([]))])
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

pub(super) fn conditions() -> Part {
    keyed("type", condition()).max_items(CONDITIONS_MAX)
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
    word(&["None", "Hold", "HoldAndDrain"]).default("None")
}

pub(super) fn fair_sharing() -> Part {
    object([("weight", quantity().default(1))])
}

/// What was used over time.
pub(super) fn consumed() -> Part {
    object([("consumedResources!", map(quantity())), ("lastUpdate!", instant())])
}

pub(super) fn share() -> Part {
    object([("weightedShare!", int64())])
}

/// What a queue or a cohort has.
pub(super) fn resource_groups() -> Part {
    let quota = object([
        ("name!", text()),
        ("nominalQuota!", quantity()),
        ("borrowingLimit", quantity()),
        ("lendingLimit", quantity()),
    ]);
    let resources = keyed("name", quota).min_items(1).max_items(FLAVORS_MAX);
    let flavor = object([("name!", reference()), ("resources!", resources)]);
    let group = object([
        ("coveredResources!", atoms(text()).min_items(1).max_items(FLAVORS_MAX)),
        ("flavors!", keyed("name", flavor).min_items(1).max_items(FLAVORS_MAX)),
    ]);
    let words = "flavors must have the same number of resources as the coveredResources";
    atoms(group.rule(SAME_NUMBER, words)).max_items(GROUPS_MAX)
}
