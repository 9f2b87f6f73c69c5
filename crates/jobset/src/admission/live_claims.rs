//! Validation against existing ResourceClaims.
//!
//! A claim of another object is never adopted, so a JobSet that generates its name could not run. A claim of an earlier
//! Job of the same name is garbage collected with that Job and is no error.

use muster_api::jobset::{ReplicatedJob, names};
use muster_api::meta;
use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::Answer;
use super::claim_names::place_of_job;
use super::claims::place;
use super::create::NewSet;
use crate::build::own_claim;

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    let has_claims = set.facts.jobs.iter().any(|it| !it.claims.is_empty());
    if !has_claims || !set.is_named || !set.asked.settings.gates.claim_templates {
        return;
    }
    let beginning = format!("{}-", names::dns_label(&set.facts.name));
    let there = match set.asked.live.device_claims(set.asked.namespace, &beginning) {
        Ok(there) => there,
        Err(why) => {
            let why = format!("failed to check for existing ResourceClaims: {why}");
            answer.problems.push(FieldError::internal("spec.replicatedJobs", why));
            return;
        }
    };
    for claim in there.iter().filter(|it| meta::deletion_timestamp(it).is_none()) {
        for (at, one) in set.facts.jobs.iter().enumerate() {
            taken(claim, &format!("{beginning}{}-", one.name), (at, one), answer);
        }
    }
}

/// Rejects the template that generates the name of this claim; `beginning` is the prefix of the Job names.
fn taken(claim: &Tree, beginning: &str, (at, one): (usize, &ReplicatedJob), answer: &mut Answer) {
    let name = meta::name(claim);
    let Some((index, template)) = name.strip_prefix(beginning).and_then(|rest| rest.split_once('-')) else {
        return;
    };
    let is_made = |it: &str| it == template && own_claim(one, it).is_none();
    let Some(template_at) = one.claims.iter().position(|it| is_made(&it.name)) else { return };
    let Some(index) = place_of_job(index, one) else { return };
    let job = format!("{beginning}{index}");
    let owner = meta::controller_of(claim);
    if owner.as_ref().is_some_and(|it| it.kind == "Job" && it.name == job.as_str()) {
        return;
    }
    let whose = owner.map_or_else(
        || "no object controls it".to_owned(),
        |it| format!("it is controlled by {} {}", it.kind, it.name),
    );
    let why = format!("ResourceClaim {name} exists and is not owned by Job {job}: {whose}");
    let path = format!("{}.metadata.name", place(at, template_at));
    answer.problems.push(FieldError::invalid(path, template, why));
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::FeatureGates;
    use crate::admission::testing::{FakeLister, expect_with, set};

    fn with(job: &str, template: &str) -> Tree {
        set(&tree!({"replicatedJobs": [{"name": job, "replicas": 2, "resourceClaimTemplates": [
            {"metadata": {"name": template}, "spec": {"devices": {"requests": [{"name": "r"}]}}}]}]}))
    }

    fn there(claim: Tree) -> FakeLister {
        FakeLister { device_claims: vec![claim], ..FakeLister::default() }
    }

    fn owned(name: &str, job: &str) -> Tree {
        tree!({"metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": "u", "controller": true}]}})
    }

    /// Shows: 762-48.
    #[test]
    fn a_name_that_another_object_has_is_refused() {
        let at = "spec.replicatedJobs[0].resourceClaimTemplates[0].metadata.name: Invalid value: \"c\": ";
        let words =
            |whose: &str| format!("{at}ResourceClaim s-w-1-c exists and is not owned by Job s-w-1: {whose}");
        let made = tree!({"metadata": {"name": "s-w-1-c"}});
        expect_with(&with("w", "c"), &there(made.clone()), &[&words("no object controls it")]);
        let other = owned("s-w-1-c", "s-w");
        expect_with(&with("w", "c"), &there(other), &[&words("it is controlled by Job s-w")]);
        for (says, live, asked) in [
            ("an earlier Job's", owned("s-w-1-c", "s-w-1"), with("w", "c")),
            (
                "one that goes",
                made.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z"),
                with("w", "c"),
            ),
            ("beyond the last Job", tree!({"metadata": {"name": "s-w-2-c"}}), with("w", "c")),
            ("no number of a Job", tree!({"metadata": {"name": "s-w-01-c"}}), with("w", "c")),
            ("of another template", made.clone(), with("w", "d")),
            ("of another replicatedJob", made.clone(), with("v", "c")),
        ] {
            println!("{says}");
            expect_with(&asked, &there(live), &[]);
        }
    }

    #[test]
    fn what_is_not_made_meets_nothing() {
        let made = tree!({"metadata": {"name": "s-w-1-c"}});
        let named = with("w", "c");
        let jobs = named.at(&["spec", "replicatedJobs"]).unwrap().map_items(|_, job| {
            let own = ["template", "spec", "template", "spec", "resourceClaims"];
            job.with(&own, tree!([{"name": "c", "resourceClaimName": "mine"}]))
        });
        expect_with(&named.with(&["spec", "replicatedJobs"], jobs), &there(made.clone()), &[]);
        let later = named.without(&["metadata", "name"]).with(&["metadata", "generateName"], "s");
        expect_with(&later, &there(made), &[]);
    }

    #[test]
    fn not_knowing_is_a_refusal_where_it_matters() {
        let dark = || FakeLister { broken: Some("the server is away"), ..FakeLister::default() };
        let words = "spec.replicatedJobs: Internal error: failed to check for existing ResourceClaims: the server is away";
        expect_with(&with("w", "c"), &dark(), &[words]);
        expect_with(&set(&tree!({})), &dark(), &[]);
        let mut off = dark();
        off.settings.gates = FeatureGates { claim_templates: false, ..FeatureGates::default() };
        expect_with(&with("w", "c"), &off, &["feature gate is disabled"]);
    }
}
