//! What the operator may do on a cluster: tables of rights, and the roles made of them.
//!
//! # Invariants
//!
//! - Nothing is allowed that is not used: a test of the whole suite compares these tables with the calls that were made.
//! - What belongs to the operator alone is allowed by name, and in its own namespace where it lives there.

use std::collections::{BTreeMap, BTreeSet};

use muster_jobset::rights::Rule;
use muster_tree::{Tree, tree};

use crate::hooks::CONFIGURATIONS;
use crate::names::{OPERATOR, WEBHOOK_SECRET};

/// What is followed, and never asked for by name.
const FOLLOWED: &[&str] = &["list", "watch"];

/// What the scheduler does: places pods, says why it does not, makes room, and gives volumes and devices to claims.
pub const SCHEDULER: &[Rule] = &[
    ("", "pods", &["get", "list", "watch", "delete"]),
    ("", "pods/binding", &["create"]),
    ("", "pods/status", &["patch"]),
    ("", "nodes", FOLLOWED),
    ("", "namespaces", FOLLOWED),
    ("", "events", &["create", "patch"]),
    ("policy", "poddisruptionbudgets", FOLLOWED),
    ("", "persistentvolumeclaims", &["get", "list", "watch", "patch"]),
    ("", "persistentvolumes", &["get", "list", "watch", "patch"]),
    ("storage.k8s.io", "storageclasses", FOLLOWED),
    ("storage.k8s.io", "csinodes", FOLLOWED),
    ("resource.k8s.io", "resourceclaims", &["get", "list", "watch", "patch"]),
    ("resource.k8s.io", "resourceclaims/status", &["patch"]),
    ("resource.k8s.io", "resourceclaims/binding", &["patch"]),
    ("resource.k8s.io", "resourceslices", FOLLOWED),
    ("resource.k8s.io", "deviceclasses", FOLLOWED),
];

/// What it does about gangs, in whichever form the cluster has them: it reads groups, and says in their status what became
/// of them. Workloads are read where groups do not carry their policy themselves, and never written. Groups of our own
/// definition are kept while pods name them; a cluster sees to its own.
pub const GANGS: &[Rule] = &[
    ("scheduling.k8s.io", "workloads", FOLLOWED),
    ("scheduling.k8s.io", "podgroups", FOLLOWED),
    ("scheduling.k8s.io", "podgroups/status", &["patch"]),
    ("scheduling.muster.dev", "workloads", FOLLOWED),
    ("scheduling.muster.dev", "podgroups", &["list", "watch", "patch"]),
    ("scheduling.muster.dev", "podgroups/status", &["patch"]),
    ("scheduling.x-k8s.io", "podgroups", FOLLOWED),
    ("scheduling.x-k8s.io", "podgroups/status", &["patch"]),
    ("scheduling.volcano.sh", "podgroups", FOLLOWED),
    ("scheduling.volcano.sh", "podgroups/status", &["patch"]),
];

/// Rights that a server asks about by itself while it serves another request: nobody sees a request for them.
pub const ASKED_INSIDE: &[Rule] = &[
    ("jobset.x-k8s.io", "jobsets/finalizers", &["update"]),
    ("batch", "jobs/finalizers", &["update"]),
    ("resource.k8s.io", "resourceclaims/binding", &["patch"]),
];

/// A rule about objects of these names alone; all, when there are none.
pub type NamedRule = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// The definition of JobSets.
const DEFINITION: &str = "jobsets.jobset.x-k8s.io";
const NAMED: &[&str] = &["list", "watch", "patch"];

/// What the operator does for itself, anywhere.
pub const OWN_CLUSTER: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[CONFIGURATIONS[0].name]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[CONFIGURATIONS[1].name]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], &[DEFINITION]),
];

/// What the operator does for itself, in its own namespace. Whoever creates has no name yet to be allowed by; a JobSet
/// is only ever rehearsed there, to see that the webhooks are reached.
pub const OWN_NAMESPACE: &[NamedRule] = &[
    ("coordination.k8s.io", "leases", &["create"], &[]),
    ("coordination.k8s.io", "leases", &["get", "patch"], &[OPERATOR]),
    ("", "secrets", &["create"], &[]),
    ("", "secrets", &["list", "watch", "patch"], &[WEBHOOK_SECRET]),
    ("jobset.x-k8s.io", "jobsets", &["create"], &[]),
];

/// Kinds of ours that users work with: their group and resources; each has a status that users read.
pub(crate) type Ours = (&'static str, &'static [&'static str], &'static [&'static str]);
const JOBSETS: Ours = ("jobset.x-k8s.io", &["jobsets"], &["jobsets/status"]);
const OWN_GANGS: Ours = ("scheduling.muster.dev", &["workloads", "podgroups"], &["podgroups/status"]);
const EDIT: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const VIEW: &[&str] = &["get", "list", "watch"];

/// What users may do with our kinds, and which of the cluster's own roles get it.
pub(crate) const USERS: [(&str, Ours, &[&str], &[&str]); 4] = [
    ("muster-jobset-editor", JOBSETS, EDIT, &["admin", "edit"]),
    ("muster-jobset-viewer", JOBSETS, VIEW, &["admin", "edit", "view"]),
    ("muster-gang-editor", OWN_GANGS, EDIT, &["admin", "edit"]),
    ("muster-gang-viewer", OWN_GANGS, VIEW, &["admin", "edit", "view"]),
];

/// Everything that controllers do in all namespaces, once per resource.
#[must_use]
pub fn controllers() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let mut all: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (group, resource, verbs) in muster_jobset::rights::RULES.iter().chain(SCHEDULER).chain(GANGS) {
        all.entry((group, resource)).or_default().extend(verbs.iter());
    }
    all.into_iter().map(|((group, resource), verbs)| (group, resource, verbs.into_iter().collect())).collect()
}

/// The rules of the ClusterRole.
pub(crate) fn cluster_rules() -> Tree {
    let controllers = controllers();
    let general = controllers.iter().map(|(group, resource, verbs)| rule(group, resource, verbs, &[]));
    Tree::list(general.chain(OWN_CLUSTER.iter().map(named)))
}

/// The rules of the Role in the operator's namespace.
pub(crate) fn namespace_rules() -> Tree {
    Tree::list(OWN_NAMESPACE.iter().map(named))
}

/// The rules of a user's role.
pub(crate) fn user_rules((group, resources, statuses): Ours, verbs: &[&str]) -> Tree {
    let whole = resources.iter().map(|it| rule(group, it, verbs, &[]));
    Tree::list(whole.chain(statuses.iter().map(|it| rule(group, it, &["get"], &[]))))
}

fn named((group, resource, verbs, names): &NamedRule) -> Tree {
    rule(group, resource, verbs, names)
}

fn rule(group: &str, resource: &str, verbs: &[&str], names: &[&str]) -> Tree {
    let verbs = Tree::list(verbs.iter().copied());
    let rule = tree!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    match names {
        [] => rule,
        names => rule.with(&["resourceNames"], Tree::list(names.iter().copied())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_have_one_rule_for_each_resource() {
        let all = controllers();
        let pods = all.iter().find(|(group, resource, _)| group.is_empty() && *resource == "pods").unwrap();
        assert_eq!(pods.2, ["delete", "get", "list", "watch"]);
        let keys: BTreeSet<(&str, &str)> = all.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(keys.len(), all.len());
        for (group, resource, verbs) in ASKED_INSIDE {
            let there = all.iter().find(|it| (it.0, it.1) == (*group, *resource)).expect("it is allowed");
            assert_eq!(there.2, *verbs);
        }
    }

    #[test]
    fn nothing_is_allowed_by_a_star_and_secrets_only_at_home() {
        let (cluster, home) = (cluster_rules(), namespace_rules());
        for rule in cluster.items().iter().chain(home.items()) {
            let text = rule.to_json();
            assert!(!text.contains("\"*\""), "{text}");
        }
        assert!(!cluster.to_json().contains("secrets"), "{}", cluster.to_json());
    }
}
