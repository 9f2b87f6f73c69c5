//! Validation against existing PersistentVolumeClaims.
//!
//! A retained claim is reused by the next JobSet of the same name. It is compared with the template semantically:
//! defaulted fields match, quantities are compared by value, and a claim that was expanded since matches. An error names
//! the fields that differ.

use std::collections::BTreeSet;

use muster_api::consts::jobset as words;
use muster_api::{meta, paths::jobset_volume, paths::jobset_volumes};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use super::Answer;
use super::create::NewSet;
use super::template_diff::{is_covered_by, is_same_quantity};
use super::volumes::TemplatePath;

/// Fields that the API server, a provisioner or the PV controller set.
const FILLED: [&str; 6] = [
    "volumeMode",
    "storageClassName",
    "volumeName",
    "dataSource",
    "dataSourceRef",
    "volumeAttributesClassName",
];

pub(super) fn check(set: &NewSet<'_>, place: &TemplatePath<'_>, claim: &Text, answer: &mut Answer) {
    let there = match set.asked.live.volume_claim(set.asked.namespace, claim) {
        Ok(there) => there,
        Err(why) => {
            let why = format!("failed to check for existing PVC {claim}: {why}");
            answer.problems.push(FieldError::internal(place.field("name"), why));
            return;
        }
    };
    if let Some(there) = there {
        existing(set, place, &there, answer);
    }
}

fn existing(set: &NewSet<'_>, place: &TemplatePath<'_>, claim: &Tree, answer: &mut Answer) {
    let name = meta::name(claim);
    let [wanted, given] = [place.template, claim].map(|it| it.at(jobset_volume::SPEC).unwrap_or(&Tree::Null));
    for Unmet { field, wanted, given } in unmet(wanted, given) {
        let there = match given {
            Tree::Null => format!("which has no {field}"),
            given => format!("whose {field} is {given}"),
        };
        let why =
            format!("spec does not match existing PVC {name} in namespace {}, {there}", set.asked.namespace);
        let path = place.field(&format!("spec.{field}"));
        answer.problems.push(FieldError::invalid(path, wanted.clone(), why));
    }
    let when = place.policy.str_at(jobset_volumes::WHEN_DELETED);
    if when != "Retain" {
        let path = format!("spec.volumeClaimPolicies[{}].retentionPolicy.whenDeleted", place.policy_at);
        let why = "retentionPolicy must be retain when PVC exists";
        answer.problems.push(FieldError::invalid(path, when, why));
    }
    // An owned claim is garbage collected with its owner.
    if let Some(owner) = meta::controller_of(claim) {
        let why = format!("PVC {name} is controlled by {} {}", owner.kind, owner.name);
        let template = place.template.str_at(jobset_volume::NAME);
        answer.problems.push(FieldError::invalid(place.field("name"), template, why));
    } else if let Some(other) = meta::label(claim, words::NAME).filter(|it| *it != set.facts.name) {
        // Retained by another JobSet: template `a` of JobSet `b-c` and `a-b` of `c` generate the same name.
        let why = format!(
            "PVC {name} was retained by JobSet {other}: rename the template, or change the label {} of the PVC",
            words::NAME
        );
        let template = place.template.str_at(jobset_volume::NAME);
        answer.problems.push(FieldError::invalid(place.field("name"), template, why));
    }
}

/// A field in which a claim differs from a template.
struct Unmet<'a> {
    field: String,
    wanted: &'a Tree,
    given: &'a Tree,
}

/// The fields in which a claim differs from a template.
fn unmet<'a>(wanted: &'a Tree, given: &'a Tree) -> Vec<Unmet<'a>> {
    let mut all = Vec::new();
    for key in keys(wanted, given) {
        let (wanted, given) = (said(wanted, key), said(given, key));
        match key {
            "resources" => amounts(wanted, given, &mut all),
            key if wanted.is_null() && FILLED.contains(&key) => {}
            key if wanted != given => all.push(Unmet { field: key.to_owned(), wanted, given }),
            _ => {}
        }
    }
    all
}

/// Requests may be larger than in the template: the claim may have been expanded.
fn amounts<'a>(wanted: &'a Tree, given: &'a Tree, all: &mut Vec<Unmet<'a>>) {
    for part in ["requests", "limits"] {
        let [wanted, given] = [wanted, given].map(|it| it.get(part).unwrap_or(&Tree::Null));
        for key in keys(wanted, given) {
            let [wanted, given] = [wanted, given].map(|it| it.get(key).unwrap_or(&Tree::Null));
            let is_met = match part {
                "requests" => is_covered_by(wanted, given),
                _ => is_same_quantity(wanted, given),
            };
            if !is_met {
                all.push(Unmet { field: format!("resources.{part}.{key}"), wanted, given });
            }
        }
    }
}

/// The keys of both maps, without duplicates.
fn keys<'a>(one: &'a Tree, other: &'a Tree) -> BTreeSet<&'a str> {
    one.entries().iter().chain(other.entries()).map(|(key, _)| key.as_str()).collect()
}

/// A field. An empty list or map counts as unset; an empty string does not: `storageClassName: ""` is a choice.
fn said<'a>(spec: &'a Tree, key: &str) -> &'a Tree {
    spec.get(key).filter(|it| it.as_text().is_some() || !it.is_empty()).unwrap_or(&Tree::Null)
}

#[cfg(test)]
mod tests {
    use muster_api::paths::meta as meta_path;
    use muster_tree::tree;

    use super::*;
    use crate::admission::testing::{FakeLister, expect_with, set};

    fn with(spec: &Tree, when: &str) -> Tree {
        set(&tree!({
            "volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": when},
                "templates": [{"metadata": {"name": "a"}, "spec": spec}]}],
            "replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": {"containers": [
                {"name": "c", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}]}}}}}]}))
    }

    fn there(spec: &Tree) -> FakeLister {
        let claim = tree!({"metadata": {"name": "a-s"}, "spec": spec});
        FakeLister { volume_claims: [("a-s".to_owned(), claim)].into(), ..FakeLister::default() }
    }

    fn asks(size: &str) -> Tree {
        tree!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}})
    }

    /// Shows: 572-40, 572-41.
    #[test]
    fn a_retained_claim_serves_the_next_set() {
        let given = asks("1Gi").merge(&tree!({"volumeMode": "Filesystem", "storageClassName": "standard",
            "volumeName": "pv-1", "volumeAttributesClassName": "gold"}));
        let retain = "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted: Invalid value: \"Delete\": \
                      retentionPolicy must be retain when PVC exists";
        let at = |field: &str, wanted: &str, there: &str| {
            format!(
                "spec.volumeClaimPolicies[0].template[0].spec.{field}: Invalid value: {wanted}: spec does not match \
                 existing PVC a-s in namespace n, {there}"
            )
        };
        let class = |wanted: &str| at("storageClassName", wanted, "whose storageClassName is \"standard\"");
        let size = "resources.requests.storage";
        let bigger = at(size, "\"2Gi\"", &format!("whose {size} is \"1Gi\""));
        let limit = at("resources.limits.storage", "\"1Gi\"", "which has no resources.limits.storage");
        let modes = |wanted: &str| at("accessModes", wanted, "whose accessModes is [\"ReadWriteOnce\"]");
        for (says, wanted, when, want) in [
            ("as it was", asks("1Gi"), "Retain", &[][..]),
            ("another way to write the size", asks("1024Mi"), "Retain", &[]),
            ("the class that it got", asks("1Gi").with(&["storageClassName"], "standard"), "Retain", &[]),
            ("nothing where nothing is", asks("1Gi").with(&["selector"], tree!({})), "Retain", &[]),
            ("less than it has", asks("512Mi"), "Retain", &[]),
            (
                "another class",
                asks("1Gi").with(&["storageClassName"], "fast"),
                "Retain",
                &[&*class("\"fast\"")],
            ),
            ("no class at all", asks("1Gi").with(&["storageClassName"], ""), "Retain", &[&*class("\"\"")]),
            ("more than it has", asks("2Gi"), "Retain", &[&*bigger]),
            (
                "a limit",
                asks("1Gi").with(&["resources", "limits"], tree!({"storage": "1Gi"})),
                "Retain",
                &[&*limit],
            ),
            (
                "other modes",
                asks("1Gi").with(&["accessModes"], tree!(["ReadOnlyMany"])),
                "Retain",
                &[&*modes("[\"ReadOnlyMany\"]")],
            ),
            ("no modes", asks("1Gi").without(&["accessModes"]), "Retain", &[&*modes("null")]),
            (
                "two fields",
                asks("2Gi").with(&["storageClassName"], "fast"),
                "Retain",
                &[&*bigger, &*class("\"fast\"")],
            ),
            ("it would be deleted", asks("1Gi"), "Delete", &[retain]),
            ("both", asks("2Gi"), "Delete", &[&*bigger, retain]),
        ] {
            println!("{says}");
            expect_with(&with(&wanted, when), &there(&given), want);
        }
    }

    #[test]
    fn sizes_beyond_what_thousandths_can_count_differ() {
        expect_with(&with(&asks("20Pi"), "Retain"), &there(&asks("10Pi")), &["spec does not match"]);
        expect_with(&with(&asks("20Pi"), "Retain"), &there(&asks("20480Ti")), &[]);
    }

    /// Shows: 572-42.
    #[test]
    fn a_claim_of_another_owner_is_not_used() {
        let mut live = there(&asks("1Gi"));
        let owner = tree!([{"kind": "JobSet", "name": "other", "uid": "u", "controller": true}]);
        for claim in live.volume_claims.values_mut() {
            *claim = claim.with(meta_path::OWNERS, owner.clone());
        }
        let words = "spec.volumeClaimPolicies[0].template[0].name: Invalid value: \"a\": PVC a-s is controlled by \
                     JobSet other";
        expect_with(&with(&asks("1Gi"), "Retain"), &live, &[words]);
        expect_with(&with(&asks("1Gi"), "Delete"), &live, &["must be retain", words]);
    }

    #[test]
    fn a_claim_retained_by_another_jobset_is_not_used() {
        let labelled = |name: &str| {
            let mut live = there(&asks("1Gi"));
            for claim in live.volume_claims.values_mut() {
                *claim = claim.with(&["metadata", "labels", words::NAME], name);
            }
            live
        };
        expect_with(&with(&asks("1Gi"), "Retain"), &labelled("s"), &[]);
        let words = "spec.volumeClaimPolicies[0].template[0].name: Invalid value: \"a\": PVC a-s was retained by JobSet \
                     other";
        expect_with(&with(&asks("1Gi"), "Retain"), &labelled("other"), &[words]);
    }

    #[test]
    fn a_failed_read_is_an_error() {
        let live = FakeLister { broken: Some("the server is away"), ..FakeLister::default() };
        let words = "spec.volumeClaimPolicies[0].template[0].name: Internal error: failed to check for existing PVC \
                     a-s: the server is away";
        expect_with(&with(&asks("1Gi"), "Retain"), &live, &[words]);
    }

    /// Shows: 572-01.
    #[test]
    fn a_set_without_volumes_looks_at_none() {
        let live = FakeLister { broken: Some("nobody may look"), ..FakeLister::default() };
        expect_with(&set(&tree!({})), &live, &[]);
    }
}
