//! Validation of Workloads and their updates.

use std::collections::BTreeSet;

use muster_api::node::amount;
use muster_api::queue::consts::{PODS, TRUE, annotations, conditions};
use muster_api::queue::paths::{
    admission, assignment, check_state, pod_set, pod_set_update, workload as path, workload_status as status,
};
use muster_api::queue::{Admission, CheckState, WorkloadFacts};
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::{Text, Tree};

use super::common::{self, IMMUTABLE, NEGATIVE, Problems, is_negative, shown};
use super::reclaim;

const SETS: &str = "spec.podSets";
const ADMISSION: &str = "status.admission";
const CHECKS: &str = "status.admissionChecks";

/// Validation independent of the old object.
pub(super) fn check(workload: &Tree, problems: &mut Problems) {
    let facts = WorkloadFacts::of(workload);
    let sets = workload.items_at(path::POD_SETS);
    for (at, set) in sets.iter().enumerate() {
        check_template(set, &format!("{SETS}[{at}].template"), problems);
    }
    let elastic = sets.iter().filter(|set| set.at(pod_set::MIN_COUNT).is_some()).count();
    // As in Kueue, partial admission is limited to one pod set.
    if elastic > 1 {
        let count = i64::try_from(elastic).unwrap_or(i64::MAX);
        problems.push(FieldError::invalid(SETS, count, "at most one podSet can use minCount"));
    }
    let none = Tree::Null;
    let told = workload.at(path::STATUS).unwrap_or(&none);
    // Without a reservation `status.admission` is ignored.
    if facts.holds(conditions::QUOTA_RESERVED) {
        check_admission(told.at(status::ADMISSION), &facts, problems);
    }
    reclaim::check(&facts, problems);
    check_updates(told.items_at(status::CHECKS), &facts, problems);
}

fn check_template(set: &Tree, path: &str, problems: &mut Problems) {
    common::labels(set.at(pod_set::TEMPLATE_LABELS), &format!("{path}.metadata.labels"), problems);
    let annotated = set.at(pod_set::TEMPLATE_ANNOTATIONS);
    common::annotations(annotated, &format!("{path}.metadata.annotations"), problems);
    let none = Tree::Null;
    let spec = set.at(pod_set::TEMPLATE_SPEC).unwrap_or(&none);
    for list in ["initContainers", "containers"] {
        for (at, container) in spec.items_at(&[list]).iter().enumerate() {
            for part in ["requests", "limits"] {
                let path = format!("{path}.spec.{list}[{at}].resources.{part}");
                check_resources(container.entries_at(&["resources", part]), &path, problems);
            }
        }
    }
}

/// Invalid quantities in pod templates.
pub(super) fn unreadable(workload: &Tree) -> Problems {
    let sets = workload.items_at(path::POD_SETS).iter().enumerate();
    sets.flat_map(|(at, set)| {
        quantities::of_pod_spec(&format!("{SETS}[{at}].template.spec"), set.at(pod_set::TEMPLATE_SPEC))
    })
    .collect()
}

fn check_resources(entries: &[(Text, Tree)], path: &str, problems: &mut Problems) {
    for (name, quantity) in entries {
        let path = format!("{path}[{name}]");
        if name == PODS {
            problems.push(FieldError::invalid(&path, PODS, "the key is reserved for internal kueue use"));
        }
        if is_negative(quantity) {
            problems.push(FieldError::invalid(&path, shown(quantity), NEGATIVE));
        }
    }
}

fn check_admission(given: Option<&Tree>, facts: &WorkloadFacts, problems: &mut Problems) {
    let Some(given) = given.filter(|it| it.is_map()) else {
        let why = "must be set while the QuotaReserved condition is true";
        problems.push(FieldError::required(ADMISSION, why));
        return;
    };
    for (at, one) in given.items_at(admission::ASSIGNMENTS).iter().enumerate() {
        let path = format!("{ADMISSION}.podSetAssignments[{at}]");
        let name = one.text_at(assignment::NAME);
        if facts.pod_set(&name).is_none() {
            problems.push(FieldError::not_found(format!("{path}.name"), name));
        }
        let Some(count) = one.int_at(assignment::COUNT).filter(|count| *count > 0) else { continue };
        for (resource, quantity) in one.entries_at(assignment::USAGE) {
            // Usage is scaled by pod count later; a remainder would be lost.
            if amount(resource, quantity).is_some_and(|n| n % count != 0) {
                let path = format!("{path}.resourceUsage[{resource}]");
                let why = format!("is not a multiple of {count}");
                problems.push(FieldError::invalid(path, shown(quantity), why));
            }
        }
    }
}

fn check_updates(checks: &[Tree], facts: &WorkloadFacts, problems: &mut Problems) {
    let known: BTreeSet<&str> = facts.pod_sets.iter().map(|it| it.name.as_str()).collect();
    for (at, check) in checks.iter().enumerate() {
        for (index, update) in check.items_at(check_state::UPDATES).iter().enumerate() {
            let path = format!("{CHECKS}[{at}].podSetUpdates[{index}]");
            let name = update.text_at(pod_set_update::NAME);
            if !known.contains(name.as_str()) {
                let names = known.iter().copied();
                problems.push(FieldError::not_supported(format!("{path}.name"), name, names));
            }
            let tolerations = update.items_at(pod_set_update::TOLERATIONS);
            common::tolerations(tolerations, &format!("{path}.tolerations"), problems);
            let annotations = update.at(pod_set_update::ANNOTATIONS);
            common::annotations(annotations, &format!("{path}.annotations"), problems);
            let nodes = update.at(pod_set_update::NODE_SELECTOR);
            common::labels(nodes, &format!("{path}.nodeSelector"), problems);
            common::labels(update.at(pod_set_update::LABELS), &format!("{path}.labels"), problems);
        }
    }
}

/// Validation of an update.
pub(super) fn check_change(new: &Tree, old: &Tree, problems: &mut Problems) {
    let (after, before) = (WorkloadFacts::of(new), WorkloadFacts::of(old));
    if before.holds(conditions::QUOTA_RESERVED) {
        // Elastic jobs may scale down while admitted; everything else is immutable with quota.
        let shrinks = after.annotation(annotations::ELASTIC_JOB) == Some(TRUE);
        sets_stay(new.items_at(path::POD_SETS), old.items_at(path::POD_SETS), shrinks, problems);
        if after.holds(conditions::QUOTA_RESERVED) {
            reclaim::check_change(&after, &before, problems);
        }
    }
    admission_stays(&after, &before, new, problems);
    updates_stay(&after, &before, problems);
    cluster_was_nominated(new, old, problems);
}

fn sets_stay(new: &[Tree], old: &[Tree], shrinks: bool, problems: &mut Problems) {
    if new.len() != old.len() {
        problems.push(FieldError::invalid(SETS, Tree::list(new.iter().cloned()), IMMUTABLE));
        return;
    }
    for (at, (new, old)) in new.iter().zip(old).enumerate() {
        let (more, less) = (old.int_at(pod_set::COUNT), new.int_at(pod_set::COUNT));
        let fits = shrinks && less < more;
        let counted =
            if fits { new.with_option(pod_set::COUNT, old.at(pod_set::COUNT).cloned()) } else { new.clone() };
        if counted != *old {
            problems.push(FieldError::invalid(format!("{SETS}[{at}]"), new, IMMUTABLE));
        }
    }
}

/// `status.admission` can be cleared as a whole; otherwise only topology assignments may change.
fn admission_stays(new: &WorkloadFacts, old: &WorkloadFacts, object: &Tree, problems: &mut Problems) {
    let (Some(after), Some(before)) = (&new.admission, &old.admission) else { return };
    if without_places(after) != without_places(before) {
        let value = object.at(path::STATUS).and_then(|it| it.at(status::ADMISSION)).cloned();
        problems.push(FieldError::invalid(ADMISSION, value.unwrap_or_default(), IMMUTABLE));
    }
}

fn without_places(admission: &Admission) -> Admission {
    let mut plain = admission.clone();
    for one in &mut plain.assignments {
        one.topology = Tree::Null;
        one.delayed_topology = Text::new();
    }
    plain
}

/// The PodSetUpdates of a check are immutable while it is Ready.
fn updates_stay(new: &WorkloadFacts, old: &WorkloadFacts, problems: &mut Problems) {
    for (at, before) in old.checks.iter().enumerate().filter(|(_, it)| it.state == CheckState::Ready) {
        let after = new.checks.iter().find(|it| it.name == before.name && it.state == CheckState::Ready);
        // The pods may have been started with them.
        if let Some(after) = after.filter(|it| it.updates != before.updates) {
            let value = Tree::list(after.updates.iter().cloned());
            problems.push(FieldError::invalid(format!("{CHECKS}[{at}].podSetUpdates"), value, IMMUTABLE));
        }
    }
}

fn cluster_was_nominated(new: &Tree, old: &Tree, problems: &mut Problems) {
    let none = Tree::Null;
    let [new, old] = [new, old].map(|it| it.at(path::STATUS).unwrap_or(&none));
    let name = new.text_at(status::CLUSTER);
    let nominated = old.items_at(status::NOMINATED_CLUSTERS).iter().any(|it| it.as_text() == Some(&name));
    if !name.is_empty() && old.str_at(status::CLUSTER).is_empty() && !nominated {
        let why = "when setting clusterName it must be one of the nominatedClusterNames";
        problems.push(FieldError::invalid("status.clusterName", name, why));
    }
}
