//! Defaulting of JobSets.
//!
//! Most fields are defaulted on create. An apply or update that replaces a list loses the defaults of its items: they are
//! set again, otherwise the same manifest could not be applied twice. A JobSet that was created without defaulting stays
//! without: the defaulted fields are immutable, so it could not be updated any more.
//!
//! Defaulting is idempotent: applying the same manifest again does not change `metadata.generation`. A value of the wrong
//! type is left for schema validation to reject.

use muster_api::paths::{jobset as path, jobset_failure, jobset_rule, jobset_volumes, replicated_job as job};
use muster_tree::{Tree, tree};

use super::{AdmissionContext, Answer};

/// Defaults a JobSet; on update only items of lists.
#[must_use]
pub fn default_jobset(asked: &AdmissionContext<'_>) -> Answer {
    if !asked.object.is_map() {
        return Answer::default();
    }
    let filled = match asked.old {
        None => lists(&default_on_create(asked.object)),
        Some(old) if lists(old) == *old => lists(asked.object),
        Some(_) => return Answer::default(),
    };
    Answer { changed: (filled != *asked.object).then_some(filled), ..Answer::default() }
}

fn default_on_create(set: &Tree) -> Tree {
    let set = default_if_absent(set, path::SUCCESS, || tree!({"operator": "All"}));
    let set = default_if_absent(&set, path::STARTUP, || tree!({"startupPolicyOrder": "AnyOrder"}));
    // The subdomain is not defaulted: with `generateName` the name of the JobSet is not known yet.
    let set = default_if_absent(&set, path::HOSTNAMES, || true.into());
    default_if_absent(&set, path::PUBLISH_NOT_READY, || true.into())
}

fn lists(set: &Tree) -> Tree {
    let rules = [path::FAILURE, jobset_failure::RULES].concat();
    let set = each(set, path::JOBS, |_, one| replicated_job(one));
    let set = each(&set, &rules, rule);
    each(&set, path::VOLUMES, |_, policy| {
        default_if_absent(policy, jobset_volumes::WHEN_DELETED, || "Delete".into())
    })
}

fn replicated_job(one: &Tree) -> Tree {
    // A default must not create a template that the user left out.
    let one = match one.at(job::JOB_SPEC) {
        Some(_) => default_if_absent(one, job::MODE, || "Indexed".into()),
        None => one.clone(),
    };
    match one.at(job::POD_TEMPLATE) {
        Some(_) => default_if_empty(&one, job::RESTART_POLICY, || "OnFailure".into()),
        None => one,
    }
}

fn rule(at: usize, rule: &Tree) -> Tree {
    default_if_empty(rule, jobset_rule::NAME, || format!("failurePolicyRule{at}").into())
}

/// Sets what is absent, unless something on the way there is no map.
fn default_if_absent(tree: &Tree, path: &[&str], value: impl FnOnce() -> Tree) -> Tree {
    match path.split_last() {
        Some((_, way)) if tree.at(path).is_none_or(Tree::is_null) && is_way(tree, way) => {
            tree.with(path, value())
        }
        _ => tree.clone(),
    }
}

/// The same for empty text.
fn default_if_empty(tree: &Tree, path: &[&str], value: impl FnOnce() -> Tree) -> Tree {
    match tree.at(path) {
        Some(Tree::Text(text)) if text.is_empty() => tree.with(path, value()),
        _ => default_if_absent(tree, path, value),
    }
}

fn is_way(tree: &Tree, way: &[&str]) -> bool {
    (0..=way.len()).all(|steps| tree.at(&way[..steps]).is_none_or(|it| it.is_map() || it.is_null()))
}

/// Changes each item of the list at a path.
fn each(tree: &Tree, path: &[&str], change: impl FnMut(usize, &Tree) -> Tree) -> Tree {
    match tree.at(path) {
        Some(list) if list.is_list() => tree.with(path, list.map_items(change)),
        _ => tree.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::testing::{FakeLister, asked};

    fn filled(set: &Tree) -> Tree {
        let nothing = FakeLister::default();
        default_jobset(&asked(set, None, &nothing)).changed.unwrap_or_else(|| set.clone())
    }

    #[test]
    fn what_is_absent_is_filled_in() {
        let set = tree!({"spec": {
            "failurePolicy": {"rules": [{"action": "FailJobSet"}, {"name": "", "action": "FailJobSet"},
                {"name": "mine", "action": "FailJobSet"}]},
            "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {}}}}}],
            "volumeClaimPolicies": [{}, {"retentionPolicy": {}}, {"retentionPolicy": {"whenDeleted": "Retain"}}]}});
        assert_eq!(
            filled(&set),
            tree!({"spec": {
                "failurePolicy": {"rules": [{"name": "failurePolicyRule0", "action": "FailJobSet"},
                    {"name": "failurePolicyRule1", "action": "FailJobSet"},
                    {"name": "mine", "action": "FailJobSet"}]},
                "network": {"enableDNSHostnames": true, "publishNotReadyAddresses": true},
                "replicatedJobs": [{"name": "a", "template": {"spec": {"completionMode": "Indexed",
                    "template": {"spec": {"restartPolicy": "OnFailure"}}}}}],
                "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
                "successPolicy": {"operator": "All"},
                "volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": "Delete"}},
                    {"retentionPolicy": {"whenDeleted": "Delete"}},
                    {"retentionPolicy": {"whenDeleted": "Retain"}}]}})
        );
    }

    #[test]
    fn what_is_said_stays() {
        let set = tree!({"spec": {
            "network": {"enableDNSHostnames": false, "publishNotReadyAddresses": false, "subdomain": "s"},
            "replicatedJobs": [{"name": "a", "template": {"spec": {"completionMode": "NonIndexed",
                "template": {"spec": {"restartPolicy": "Never"}}}}}],
            "startupPolicy": {"startupPolicyOrder": "InOrder"}, "successPolicy": {"operator": "Any"}}});
        let nothing = FakeLister::default();
        assert_eq!(default_jobset(&asked(&set, None, &nothing)), Answer::default());
    }

    #[test]
    fn filling_in_twice_changes_nothing() {
        let nothing = FakeLister::default();
        for set in [
            tree!({}),
            tree!({"spec": {}}),
            tree!({"spec": {"network": {}, "replicatedJobs": [], "failurePolicy": {"maxRestarts": 1}}}),
            tree!({"spec": {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": {}}}}]}}),
        ] {
            let once = filled(&set);
            assert_eq!(default_jobset(&asked(&once, None, &nothing)), Answer::default(), "{set}");
        }
    }

    #[test]
    fn what_the_schema_refuses_is_left_to_it() {
        for set in [
            tree!({"spec": "text"}),
            tree!({"spec": {"network": 1, "successPolicy": [], "startupPolicy": 2}}),
            tree!({"spec": {"network": 1, "successPolicy": [], "startupPolicy": 2,
                "replicatedJobs": [1, {"template": 2}, {"template": {"spec": []}}, {}], "failurePolicy": {"rules": 3},
                "volumeClaimPolicies": [4, {"retentionPolicy": 5}]}}),
        ] {
            assert_eq!(filled(&set), set);
        }
        assert_eq!(filled(&Tree::Null), Tree::Null);
    }

    #[test]
    fn updates_get_what_is_lost_with_a_list() {
        let nothing = FakeLister::default();
        let update = |old: &Tree, new: &Tree| default_jobset(&asked(new, Some(old), &nothing)).changed;
        let empty = tree!({"spec": {}});
        assert_eq!(update(&empty, &empty), None, "what is no list is filled in at the beginning only");
        let sent = tree!({"spec": {
            "failurePolicy": {"rules": [{"action": "FailJobSet"}]},
            "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec": {}}}}}],
            "volumeClaimPolicies": [{}]}});
        let kept = filled(&sent);
        let again = update(&kept, &sent).unwrap();
        for path in [path::JOBS, path::FAILURE, path::VOLUMES] {
            assert_eq!(again.at(path), kept.at(path));
        }
        assert_eq!(update(&kept, &kept), None);
        assert_eq!(update(&sent, &sent), None, "what was never filled in could not be written any more");
    }
}
