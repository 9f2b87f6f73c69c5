//! Validation of `resourceClaimTemplates`.

use std::collections::BTreeSet;

use muster_api::jobset::{ReplicatedJob, names as made};
use muster_api::paths::{container, jobset as path, jobset_claim as claim, pod, replicated_job as job};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::create::NewSet;
use super::{Answer, claim_names, devices, live_claims};
use crate::build::{ALL_CONTAINERS, own_claim};

/// Maximum of pods that share a claim.
const CONSUMERS_MAX: u32 = 256;

/// The path of a claim template.
pub(super) fn place(at: usize, template: usize) -> String {
    format!("spec.replicatedJobs[{at}].resourceClaimTemplates[{template}]")
}

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    for (at, (one, tree)) in set.facts.jobs.iter().zip(set.tree().items_at(path::JOBS)).enumerate() {
        let templates = tree.items_at(job::CLAIMS);
        if templates.is_empty() {
            continue;
        }
        if !set.asked.settings.gates.claim_templates {
            let why = "resourceClaimTemplates cannot be set when JobSetResourceClaimTemplates feature gate is disabled";
            let path = format!("spec.replicatedJobs[{at}].resourceClaimTemplates");
            answer.problems.push(FieldError::forbidden(path, why));
            continue;
        }
        template_names(set, one, at, answer);
        for (template_at, template) in templates.iter().enumerate() {
            let path = place(at, template_at);
            identity(template, &path, answer);
            devices::check(template, &path, answer);
            targets(template, tree, &path, answer);
            overridden(set, template, one, at, answer);
        }
        crowd(one, answer);
    }
    claim_names::check(set, answer);
    live_claims::check(set, answer);
}

fn template_names(set: &NewSet<'_>, one: &ReplicatedJob, at: usize, answer: &mut Answer) {
    let mut seen = BTreeSet::new();
    for (template_at, template) in one.claims.iter().enumerate() {
        let (name, path) = (&template.name, format!("{}.metadata.name", place(at, template_at)));
        let wrong = names::label(name);
        if !seen.insert(name) {
            // Also for different containers: claim names are unique per pod.
            let why = format!("duplicate resourceClaimTemplate name {name}");
            answer.problems.push(FieldError::invalid(path, name, why));
        } else if wrong.is_empty() {
            let last = made::job(&set.facts.name, &one.name, one.replicas.saturating_sub(1));
            let claim = made::device_claim(&last, name);
            let wrong = names::subdomain(&claim).into_iter();
            answer.problems.extend(wrong.map(|why| FieldError::invalid(&path, &claim, why)));
        } else {
            answer.problems.extend(wrong.into_iter().map(|why| FieldError::invalid(&path, name, why)));
        }
    }
}

/// The controller sets name and namespace of the claim.
fn identity(template: &Tree, path: &str, answer: &mut Answer) {
    for unset in [claim::NAMESPACE, claim::GENERATE_NAME, claim::SPEC_NAME] {
        if template.at(unset).is_some_and(|it| !it.is_empty()) {
            let why = "must be unset: the JobSet names the claim and makes it in its own namespace";
            answer.problems.push(FieldError::forbidden(format!("{path}.{}", unset.join(".")), why));
        }
    }
}

/// The containers that it references must exist.
fn targets(template: &Tree, job: &Tree, path: &str, answer: &mut Answer) {
    let pods = job.at(job::POD_TEMPLATE).unwrap_or(&Tree::Null);
    let there = |name: &str| {
        let lists = [pod::CONTAINERS, pod::INIT_CONTAINERS];
        lists.iter().any(|list| pods.items_at(list).iter().any(|it| it.str_at(container::NAME) == name))
    };
    let wanted = template.items_at(claim::CONTAINERS);
    let mut seen = BTreeSet::new();
    for (at, name) in wanted.iter().map(|it| it.as_str().unwrap_or_default()).enumerate() {
        let path = format!("{path}.containers[{at}]");
        if !seen.insert(name) {
            answer.problems.push(FieldError::duplicate(path, name));
        } else if name == ALL_CONTAINERS {
            if wanted.len() > 1 {
                let why = "means all containers and must stand alone";
                answer.problems.push(FieldError::invalid(path, name, why));
            }
        } else if !there(name) {
            let why = format!("no container or init container of the pod template has the name {name}");
            answer.problems.push(FieldError::invalid(path, name, why));
        }
    }
}

/// A claim of the pod template overrides the claim template.
fn overridden(set: &NewSet<'_>, template: &Tree, one: &ReplicatedJob, at: usize, answer: &mut Answer) {
    let name = template.str_at(claim::NAME);
    let Some(own) = own_claim(one, name) else { return };
    let why = format!(
        "pod-level resource claim {name} overrides the JobSet resource claim template of the same name"
    );
    if set.asked.settings.reject_overrides {
        let path =
            format!("spec.replicatedJobs[{at}].template.spec.template.spec.resourceClaims[{own}].name");
        answer.problems.push(FieldError::invalid(path, name, why));
    } else {
        answer.warnings.push(why);
    }
}

fn crowd(one: &ReplicatedJob, answer: &mut Answer) {
    if let Some(pods) = one.parallelism.filter(|pods| *pods > CONSUMERS_MAX) {
        answer.warnings.push(format!(
            "replicatedJob {}: parallelism is {pods}, but at most {CONSUMERS_MAX} pods can use a resource claim at a \
             time; the others stay pending",
            one.name
        ));
    }
}

#[cfg(test)]
mod tests {
    use muster_api::paths::meta;
    use muster_tree::tree;

    use super::*;
    use crate::FeatureGates;
    use crate::admission::testing::{FakeLister, asked, expect, expect_with, set};
    use crate::admission::validate_jobset;

    const AT: &str = "spec.replicatedJobs[0].resourceClaimTemplates";

    fn template(name: &str) -> Tree {
        tree!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r"}]}}})
    }

    fn with(templates: impl IntoIterator<Item = Tree>) -> Tree {
        set(
            &tree!({"replicatedJobs": [{"name": "w", "replicas": 2, "resourceClaimTemplates": Tree::list(templates),
            "template": {"spec": {"template": {"spec": {"containers": [{"name": "c"}],
                "initContainers": [{"name": "i"}]}}}}}]}),
        )
    }

    fn changed(set: &Tree, path: &[&str], value: &Tree) -> Tree {
        let jobs = set.at(path::JOBS).unwrap().map_items(|_, job| job.with(path, value.clone()));
        set.with(path::JOBS, jobs)
    }

    fn warnings(set: &Tree) -> Vec<String> {
        let nothing = FakeLister::default();
        let answer = validate_jobset(&asked(set, None, &nothing));
        assert!(answer.problems.is_empty(), "{:?}", answer.problems);
        answer.warnings
    }

    /// Shows: 762-38, 762-39, 762-40.
    #[test]
    fn the_gate() {
        let off = FakeLister::gated(FeatureGates { claim_templates: false, ..FeatureGates::default() });
        let words = format!(
            "{AT}: Forbidden: resourceClaimTemplates cannot be set when JobSetResourceClaimTemplates feature gate is \
             disabled"
        );
        expect_with(&with([template("A"), template("A")]), &off, &[&words]);
        expect(&with([template("a")]), &[]);
        for none in [with([]), set(&tree!({}))] {
            expect_with(&none, &off, &[]);
            expect(&none, &[]);
        }
    }

    /// Shows: 762-31.
    #[test]
    fn names_are_unique_in_a_replicated_job() {
        expect(&with([template("a"), template("b")]), &[]);
        let words =
            format!("{AT}[1].metadata.name: Invalid value: \"a\": duplicate resourceClaimTemplate name a");
        expect(&with([template("a"), template("a")]), &[&words]);
        let aimed = |name: &str, container: &str| template(name).with(claim::CONTAINERS, tree!([container]));
        expect(&with([aimed("a", "c"), aimed("a", "i")]), &[&words]);
    }

    /// Shows: 762-33.
    #[test]
    fn names_are_labels_and_claims_are_subdomains() {
        let long = "a".repeat(64);
        expect(&with([template(&long[1..])]), &[]);
        let words = format!("{AT}[0].metadata.name: Invalid value: ");
        expect(&with([template(&long)]), &[&format!("{words}\"{long}\": must be no more than 63 bytes")]);
        expect(&with([template("a.b")]), &[&format!("{words}\"a.b\": must not contain dots")]);
        expect(
            &with([template("A")]),
            &[&format!("{words}\"A\": a lowercase RFC 1123 label must consist of")],
        );
        let named = |length: usize| with([template("a")]).with(meta::NAME, "s".repeat(length));
        // A Job with such a name is refused, too; `-w-1-a` are six more.
        expect(&named(247), &["job names generated for this JobSet will exceed 63 characters"]);
        expect(&named(248), &["will exceed 63", "-w-1-a\": must be no more than 253 bytes"]);
    }

    #[test]
    fn what_is_ours_to_say() {
        for (path, field) in [
            (claim::NAMESPACE, "metadata.namespace"),
            (claim::GENERATE_NAME, "metadata.generateName"),
            (claim::SPEC_NAME, "spec.metadata.name"),
        ] {
            let words = format!("{AT}[0].{field}: Forbidden: must be unset");
            expect(&with([template("a").with(path, "x")]), &[&words]);
        }
    }

    /// Shows: 762-14, 762-15, 762-16.
    #[test]
    fn containers_must_be_there() {
        let aimed = |names: Tree| with([template("a").with(claim::CONTAINERS, names)]);
        for good in [tree!([]), tree!(["c"]), tree!(["i", "c"]), tree!(["*"])] {
            expect(&aimed(good), &[]);
        }
        let at = |at: usize| format!("{AT}[0].containers[{at}]");
        let nobody = "no container or init container of the pod template has the name x";
        expect(&aimed(tree!(["c", "x"])), &[&format!("{}: Invalid value: \"x\": {nobody}", at(1))]);
        expect(&aimed(tree!(["c", "c"])), &[&format!("{}: Duplicate value: \"c\"", at(1))]);
        expect(&aimed(tree!(["*", "c"])), &[&format!("{}: Invalid value: \"*\": means all", at(0))]);
    }

    /// Shows: 762-27, 762-28, 762-30, 762-53.
    #[test]
    fn pods_may_bring_a_claim_of_their_own() {
        let own = tree!([{"name": "other"}, {"name": "a", "resourceClaimName": "mine"}]);
        let set = changed(
            &with([template("a")]),
            &["template", "spec", "template", "spec", "resourceClaims"],
            &own,
        );
        let words =
            "pod-level resource claim a overrides the JobSet resource claim template of the same name";
        assert_eq!(warnings(&set), [words]);
        let mut strict = FakeLister::default();
        strict.settings.reject_overrides = true;
        let path = "spec.replicatedJobs[0].template.spec.template.spec.resourceClaims[1].name";
        expect_with(&set, &strict, &[&format!("{path}: Invalid value: \"a\": {words}")]);
        expect_with(&with([template("a")]), &strict, &[]);
    }

    /// Shows: 762-50.
    #[test]
    fn more_pods_than_can_share_a_claim_draw_a_warning() {
        let crowd = |pods: i64| changed(&with([template("a")]), job::PARALLELISM, &pods.into());
        assert_eq!(warnings(&crowd(256)), Vec::<String>::new());
        assert!(warnings(&crowd(257))[0].contains("at most 256 pods"), "{:?}", warnings(&crowd(257)));
        let without = changed(&set(&tree!({})), job::PARALLELISM, &257.into());
        assert_eq!(warnings(&without), Vec::<String>::new());
    }
}
