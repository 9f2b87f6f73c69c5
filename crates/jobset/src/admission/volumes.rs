//! Validation of `volumeClaimPolicies`.

use std::collections::BTreeSet;

use muster_api::jobset::names::volume_claim;
use muster_api::paths::{
    jobset as path, jobset_volume, jobset_volumes, pod, pod_volume, replicated_job as job,
};
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::create::NewSet;
use super::{Answer, retained_claims};
use crate::build;

/// A template with its position, for error paths.
pub(super) struct TemplatePath<'a> {
    pub policy: &'a Tree,
    pub policy_at: usize,
    pub template: &'a Tree,
    pub template_at: usize,
}

impl TemplatePath<'_> {
    /// The path of a field of the template, as upstream reports it.
    pub fn field(&self, name: &str) -> String {
        format!("spec.volumeClaimPolicies[{}].template[{}].{name}", self.policy_at, self.template_at)
    }
}

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    let mut seen = BTreeSet::new();
    for (policy_at, policy) in set.tree().items_at(path::VOLUMES).iter().enumerate() {
        for (template_at, template) in policy.items_at(jobset_volumes::TEMPLATES).iter().enumerate() {
            let place = TemplatePath { policy, policy_at, template, template_at };
            let is_new = seen.insert(template.str_at(jobset_volume::NAME));
            one(set, &place, is_new, answer);
        }
    }
}

fn one(set: &NewSet<'_>, place: &TemplatePath<'_>, is_new: bool, answer: &mut Answer) {
    let name = place.template.str_at(jobset_volume::NAME);
    let path = place.field("name");
    if !is_new {
        // Both generate the same claim name; further errors were reported for the first.
        let why = "names must be unique for VolumeClaimPolicies template";
        answer.problems.push(FieldError::invalid(&path, name, why));
        return;
    }
    let before = answer.problems.len();
    answer
        .problems
        .extend(names::subdomain(name).into_iter().map(|why| FieldError::invalid(&path, name, why)));
    let claim = volume_claim(name, &set.facts.name);
    if claim.len() > names::LABEL_MAX {
        let why = "VolumeClaimPolicies template name is too long";
        answer.problems.push(FieldError::invalid(&path, name, why));
    }
    let is_right = answer.problems.len() == before;
    if is_right && name.contains('.') {
        answer.warnings.push(format!(
            "volume claim template {name}: a volume of a pod cannot have a dot in its name, so Jobs that mount it will \
             be refused"
        ));
    }
    mounts(set, name, answer);
    clashes(set, name, answer);
    if is_right && set.is_named {
        retained_claims::check(set, place, &claim, answer);
    }
}

/// A volume that no container mounts is probably misspelt.
fn mounts(set: &NewSet<'_>, name: &str, answer: &mut Answer) {
    if !set.tree().items_at(path::JOBS).iter().any(|it| build::mounts(build::pod_spec(it), name)) {
        let why = format!(
            "replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies"
        );
        answer.problems.push(FieldError::invalid("spec.replicatedJobs", name, why));
    }
}

fn clashes(set: &NewSet<'_>, name: &str, answer: &mut Answer) {
    for (at, one) in set.tree().items_at(path::JOBS).iter().enumerate() {
        let volumes = one.at(job::POD_TEMPLATE).map(|pods| pods.items_at(pod::VOLUMES)).unwrap_or_default();
        for (volume, _) in volumes.iter().enumerate().filter(|(_, it)| it.str_at(pod_volume::NAME) == name) {
            answer.problems.push(FieldError::invalid(
                format!("spec.replicatedJobs[{at}].template.spec.template.spec.volumes[{volume}].name"),
                name,
                format!("volume name conflicts with VolumeClaimPolicy template name: {name}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_api::paths::meta;
    use muster_tree::tree;

    use super::*;
    use crate::admission::testing::{FakeLister, asked, expect, set};
    use crate::admission::validate_jobset;

    /// Two policies with these templates; all of `mounted` are mounted.
    fn with(names: &[&[&str]], mounted: &[&str]) -> Tree {
        let templates = |names: &&[&str]| {
            let templates = names.iter().map(|name| tree!({"metadata": {"name": *name}, "spec": {}}));
            tree!({"templates": Tree::list(templates)})
        };
        let mounts = Tree::list(mounted.iter().map(|name| tree!({"name": *name, "mountPath": "/x"})));
        set(&tree!({"volumeClaimPolicies": Tree::list(names.iter().map(templates)), "replicatedJobs": [
            {"name": "w", "template": {"spec": {"template": {"spec": {"containers": [{"name": "c"}],
                "initContainers": [{"name": "i", "volumeMounts": mounts}]}}}}}]}))
    }

    /// Shows: 572-31.
    #[test]
    fn a_volume_must_be_mounted() {
        expect(&with(&[&["a"]], &["a"]), &[]);
        expect(
            &with(&[&["a"]], &["b"]),
            &[
                "spec.replicatedJobs: Invalid value: \"a\": replicatedJob containers don't have a matching volumeMount: a \
               from VolumeClaimPolicies",
            ],
        );
    }

    /// Shows: 572-32.
    #[test]
    fn no_volume_may_have_its_name() {
        let pods = ["template", "spec", "template", "spec", "volumes"];
        let jobs = with(&[&["a"]], &["a"]).at(path::JOBS).unwrap().map_items(|_, job| {
            job.with(&pods, tree!([{"name": "own", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]))
        });
        expect(
            &with(&[&["a"]], &["a"]).with(path::JOBS, jobs),
            &[
                "spec.replicatedJobs[0].template.spec.template.spec.volumes[1].name: Invalid value: \"a\": volume name \
               conflicts with VolumeClaimPolicy template name: a",
            ],
        );
    }

    /// Shows: 572-34.
    #[test]
    fn names_are_unique_over_all_policies() {
        expect(&with(&[&["a", "b"], &["c"]], &["a", "b", "c"]), &[]);
        let words = "Invalid value: \"a\": names must be unique for VolumeClaimPolicies template";
        expect(
            &with(&[&["a", "a"]], &["a"]),
            &[&format!("spec.volumeClaimPolicies[0].template[1].name: {words}")],
        );
        expect(
            &with(&[&["b"], &["a"], &["c", "a"]], &["a", "b", "c"]),
            &[&format!("spec.volumeClaimPolicies[2].template[1].name: {words}")],
        );
    }

    /// Shows: 572-35.
    #[test]
    fn names_are_subdomains() {
        for name in ["", "Data_1", "-a"] {
            let words = format!(
                "spec.volumeClaimPolicies[0].template[0].name: Invalid value: {name:?}: a lowercase RFC 1123 subdomain \
                 must consist of"
            );
            expect(&with(&[&[name]], &[name]), &[&words]);
        }
    }

    /// Shows: 572-36.
    #[test]
    fn a_dotted_name_is_a_warning() {
        let (set, nothing) = (with(&[&["a.b"]], &["a.b"]), FakeLister::default());
        let answer = validate_jobset(&asked(&set, None, &nothing));
        assert_eq!((answer.problems.len(), answer.warnings.len()), (0, 1));
        assert!(answer.warnings[0].starts_with("volume claim template a.b: "));
    }

    /// Shows: 572-37.
    #[test]
    fn the_name_of_the_claim_has_its_limit() {
        let words = "spec.volumeClaimPolicies[0].template[0].name: Invalid value: \"aaa";
        let too_long = "VolumeClaimPolicies template name is too long";
        let named = |length: usize| {
            let name = "a".repeat(length);
            with(&[&[&name]], &[&name])
        };
        // A dash and the name of the set, `s`.
        expect(&named(61), &[]);
        expect(&named(62), &[too_long]);
        expect(&named(62), &[words]);
        let made = |length| named(length).without(meta::NAME).with(meta::GENERATE_NAME, "s");
        expect(&made(56), &[]);
        expect(&made(57), &[too_long]);
    }

    /// Shows: 572-38.
    #[test]
    fn two_errors_are_returned_at_once() {
        expect(
            &with(&[&["a", "B"]], &[]),
            &["matching volumeMount: a", "RFC 1123 subdomain", "matching volumeMount: B"],
        );
    }

    /// Shows: 572-02.
    #[test]
    fn a_policy_without_templates_is_fine() {
        expect(&set(&tree!({"volumeClaimPolicies": [{}, {"templates": []}]})), &[]);
    }
}
