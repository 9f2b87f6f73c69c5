//! Validation of ClusterQueues and Cohorts.

use std::collections::BTreeSet;

use muster_api::queue::paths::{check_rule, cluster_queue, cohort, flavor_quotas, quota, resource_group};
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::{Text, Tree};

use super::common::{self, NEGATIVE, Problems, is_negative, nano, shown};

/// Bound on the flavors of all resource groups.
const FLAVORS_MAX: usize = 256;
/// Bound on the resources of all resource groups.
const RESOURCES_MAX: usize = 256;
/// Bound on flavors times resources of one resource group.
const QUOTAS_MAX: usize = 512;
/// The smallest nonzero weight, in billionths.
const WEIGHT_MIN: i64 = 2;

const GROUPS: &str = "spec.resourceGroups";

/// What differs between a ClusterQueue and a Cohort.
struct Kinship {
    /// The name that messages print for the parent, which borrowing and lending limits require.
    above: &'static str,
    /// Whether that field is set.
    has_above: bool,
    /// Whether the lending limit may exceed the nominal quota.
    lends_more: bool,
}

pub(super) fn check_cluster_queue(queue: &Tree, problems: &mut Problems) {
    let kin = Kinship {
        above: "cohort",
        has_above: !queue.str_at(cluster_queue::COHORT).is_empty(),
        lends_more: false,
    };
    let groups = queue.items_at(cluster_queue::GROUPS);
    check_groups(groups, &kin, problems);
    common::selector(queue.at(cluster_queue::NAMESPACES), "spec.namespaceSelector", problems);
    weight(queue.at(cluster_queue::WEIGHT), problems);
    totals(groups, problems);
    checks(queue, groups, problems);
}

pub(super) fn check_cohort(object: &Tree, problems: &mut Problems) {
    let has_above = !object.str_at(cohort::PARENT).is_empty();
    let kin = Kinship { above: "parent", has_above, lends_more: true };
    weight(object.at(cohort::WEIGHT), problems);
    check_groups(object.items_at(cohort::GROUPS), &kin, problems);
}

fn check_groups(groups: &[Tree], kin: &Kinship, problems: &mut Problems) {
    let (mut resources, mut flavors) = (BTreeSet::new(), BTreeSet::new());
    for (at, group) in groups.iter().enumerate() {
        let covered = group.items_at(resource_group::COVERED);
        for (index, name) in covered.iter().enumerate() {
            let path = format!("{GROUPS}[{at}].coveredResources[{index}]");
            let text = name.as_str().unwrap_or_default();
            common::label_key(text, &path, problems);
            if !resources.insert(text) {
                problems.push(FieldError::duplicate(path, name));
            }
        }
        for (index, flavor) in group.items_at(resource_group::FLAVORS).iter().enumerate() {
            let path = format!("{GROUPS}[{at}].flavors[{index}]");
            // A resource belongs to one group, a flavor as well: both are collected over all groups.
            check_quotas(flavor.items_at(flavor_quotas::RESOURCES), covered, kin, &path, problems);
            let name = flavor.text_at(flavor_quotas::NAME);
            if !flavors.insert(name.clone()) {
                problems.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        }
    }
}

fn check_quotas(quotas: &[Tree], covered: &[Tree], kin: &Kinship, path: &str, problems: &mut Problems) {
    // The CRD ensures equal lengths; here the order must match `coveredResources`.
    for (at, (one, want)) in quotas.iter().zip(covered).enumerate() {
        let path = format!("{path}.resources[{at}]");
        let name = one.text_at(quota::NAME);
        if want.as_text() != Some(&name) {
            let why = "must match the name in coveredResources";
            problems.push(FieldError::invalid(format!("{path}.name"), name, why));
        }
        let nominal = one.at(quota::NOMINAL).cloned().unwrap_or_default();
        not_negative(&nominal, &format!("{path}.nominalQuota"), problems);
        for (field, at) in [("borrowingLimit", quota::BORROWING), ("lendingLimit", quota::LENDING)] {
            let Some(limit) = one.at(at).filter(|it| !it.is_null()) else { continue };
            let path = format!("{path}.{field}");
            not_negative(limit, &path, problems);
            if !kin.has_above {
                let why = format!("must be nil when {} is empty", kin.above);
                problems.push(FieldError::invalid(&path, shown(limit), why));
            }
            // A Cohort may lend more than its own quota.
            if field == "lendingLimit" && !kin.lends_more && nano(limit) > nano(&nominal) {
                let why = "must be less than or equal to the nominalQuota";
                problems.push(FieldError::invalid(&path, shown(limit), why));
            }
        }
    }
}

/// Invalid quantities in quotas and weights.
pub(super) fn unreadable(queue: &Tree) -> Problems {
    let mut problems = Problems::new();
    let mut check = |path: String, field: Option<&Tree>| {
        problems.extend(field.and_then(|field| quantities::of_field(&path, field)));
    };
    for (at, group) in queue.items_at(cluster_queue::GROUPS).iter().enumerate() {
        for (index, flavor) in group.items_at(resource_group::FLAVORS).iter().enumerate() {
            for (i, one) in flavor.items_at(flavor_quotas::RESOURCES).iter().enumerate() {
                let path = format!("{GROUPS}[{at}].flavors[{index}].resources[{i}]");
                check(format!("{path}.nominalQuota"), one.at(quota::NOMINAL));
                check(format!("{path}.borrowingLimit"), one.at(quota::BORROWING));
                check(format!("{path}.lendingLimit"), one.at(quota::LENDING));
            }
        }
    }
    check("spec.fairSharing.weight".to_owned(), queue.at(&["spec", "fairSharing", "weight"]));
    problems
}

fn not_negative(quantity: &Tree, path: &str, problems: &mut Problems) {
    if is_negative(quantity) {
        problems.push(FieldError::invalid(path, shown(quantity), NEGATIVE));
    }
}

fn weight(weight: Option<&Tree>, problems: &mut Problems) {
    let Some(weight) = weight.filter(|it| !it.is_null()) else { return };
    let path = "spec.fairSharing.weight";
    not_negative(weight, path, problems);
    // Smaller weights would be indistinguishable from 0 after rounding.
    if (1..WEIGHT_MIN).contains(&nano(weight)) {
        let why = "When not 0, weight must be > 10e-9";
        problems.push(FieldError::invalid(path, shown(weight), why));
    }
}

fn totals(groups: &[Tree], problems: &mut Problems) {
    let count = |path: &[&str]| groups.iter().map(|group| group.items_at(path).len()).sum::<usize>();
    let flavors = count(resource_group::FLAVORS);
    let resources = count(resource_group::COVERED);
    let all = [("flavors", flavors, FLAVORS_MAX), ("covered resources", resources, RESOURCES_MAX)];
    for (what, total, max) in all.into_iter().filter(|(_, total, max)| total > max) {
        let why = format!("total number of {what} across all resourceGroups must be ≤ {max}, got {total}");
        problems.push(FieldError::invalid(GROUPS, number(total), why));
    }
    for (at, group) in groups.iter().enumerate() {
        let flavors = group.items_at(resource_group::FLAVORS).iter();
        let total: usize = flavors.map(|it| it.items_at(flavor_quotas::RESOURCES).len()).sum();
        if total > QUOTAS_MAX {
            let why = format!(
                "number of flavor-resource combinations in a resourceGroup must be ≤ {QUOTAS_MAX}, got {total}"
            );
            problems.push(FieldError::invalid(format!("{GROUPS}[{at}]"), number(total), why));
        }
    }
}

fn number(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Admission checks may name only flavors of the ClusterQueue.
fn checks(queue: &Tree, groups: &[Tree], problems: &mut Problems) {
    let flavors = groups.iter().flat_map(|group| group.items_at(resource_group::FLAVORS));
    let known: BTreeSet<Text> = flavors.map(|it| it.text_at(flavor_quotas::NAME)).collect();
    for (at, rule) in queue.items_at(cluster_queue::CHECKS).iter().enumerate() {
        for (index, flavor) in rule.items_at(check_rule::FLAVORS).iter().enumerate() {
            if flavor.as_text().is_some_and(|it| known.contains(it)) {
                continue;
            }
            let path = format!("spec.admissionChecksStrategy.admissionChecks[{at}].onFlavors[{index}]");
            problems.push(FieldError::not_supported(path, flavor, known.iter().map(Text::as_str)));
        }
    }
}
