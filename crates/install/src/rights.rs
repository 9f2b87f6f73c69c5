//! What the operator may do on a cluster: tables of rights, and the roles made of them.
//!
//! # Invariants
//!
//! - Nothing is allowed that is not used: a test of the whole suite compares these tables with the calls that were made.
//! - What belongs to the operator alone is allowed by name, and in its own namespace where it lives there.
//! - What is done for queues alone is a role of its own: where they are not run, nobody has it.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::queue::words::{EXPLANATION_GROUP, VISIBILITY_GROUP};
use muster_jobset::rights::Rule;
use muster_tree::{Tree, tree};

use crate::aggregated;
use crate::conversion::CONVERTED;
use crate::hooks::NAMES;
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

/// What is done about queues: quota is given by writing to Workloads, jobs are stopped and started, pods are let go or
/// deleted. What is in use is kept by a finalizer. Whoever opens a gate himself is asked about.
pub const QUEUES: &[Rule] = &[
    ("kueue.x-k8s.io", "resourceflavors", &["get", "list", "watch", "patch"]),
    ("kueue.x-k8s.io", "clusterqueues", &["get", "list", "watch", "patch"]),
    ("kueue.x-k8s.io", "clusterqueues/status", &["patch"]),
    ("kueue.x-k8s.io", "localqueues", &["get", "list", "watch"]),
    ("kueue.x-k8s.io", "localqueues/status", &["patch"]),
    ("kueue.x-k8s.io", "cohorts", &["get", "list", "watch"]),
    ("kueue.x-k8s.io", "cohorts/status", &["patch"]),
    ("kueue.x-k8s.io", "workloads", &["get", "list", "watch", "create", "patch", "delete"]),
    ("kueue.x-k8s.io", "workloads/status", &["patch"]),
    ("kueue.x-k8s.io", "workloadpriorityclasses", &["get", "list", "watch"]),
    ("kueue.x-k8s.io", "admissionchecks", FOLLOWED),
    ("kueue.x-k8s.io", "topologies", FOLLOWED),
    ("", "namespaces", &["get", "list", "watch"]),
    ("", "pods", &["get", "list", "watch", "patch", "delete"]),
    ("", "pods/status", &["patch"]),
    ("", "pods/finalizers", &["update"]),
    ("batch", "jobs", &["get", "list", "watch", "patch", "delete"]),
    ("batch", "jobs/status", &["patch"]),
    ("batch", "jobs/finalizers", &["update"]),
    ("jobset.x-k8s.io", "jobsets", &["get", "list", "watch", "patch", "delete"]),
    ("jobset.x-k8s.io", "jobsets/finalizers", &["update"]),
    ("trainer.kubeflow.org", "trainjobs", &["get", "list", "watch", "patch", "delete"]),
    ("trainer.kubeflow.org", "trainjobs/finalizers", &["update"]),
    ("trainer.kubeflow.org", "trainingruntimes", FOLLOWED),
    ("trainer.kubeflow.org", "clustertrainingruntimes", FOLLOWED),
    ("", "configmaps", FOLLOWED),
    ("scheduling.k8s.io", "priorityclasses", FOLLOWED),
    ("", "limitranges", FOLLOWED),
    ("node.k8s.io", "runtimeclasses", FOLLOWED),
    ("authentication.k8s.io", "selfsubjectreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("", "events", &["create", "patch"]),
];

/// Whoever owns what is put into a queue is looked at, kind by kind: where he waits himself, it does not.
pub const OWNERS: &[Rule] = &[
    ("apps", "deployments", READ),
    ("apps", "replicasets", READ),
    ("apps", "statefulsets", READ),
    ("kubeflow.org", "jaxjobs", READ),
    ("kubeflow.org", "mpijobs", READ),
    ("kubeflow.org", "paddlejobs", READ),
    ("kubeflow.org", "pytorchjobs", READ),
    ("kubeflow.org", "tfjobs", READ),
    ("kubeflow.org", "xgboostjobs", READ),
    ("leaderworkerset.x-k8s.io", "leaderworkersets", READ),
    ("ray.io", "rayclusters", READ),
    ("ray.io", "rayjobs", READ),
    ("ray.io", "rayservices", READ),
    ("sparkoperator.k8s.io", "sparkapplications", READ),
    ("trainer.kubeflow.org", "trainjobs", READ),
    ("workload.codeflare.dev", "appwrappers", READ),
];
const READ: &[&str] = &["get"];

/// Rights that a server asks about by itself while it serves another request: nobody sees a request for them.
pub const ASKED_INSIDE: &[Rule] = &[
    ("jobset.x-k8s.io", "jobsets/finalizers", &["update"]),
    ("trainer.kubeflow.org", "trainjobs/finalizers", &["update"]),
    ("batch", "jobs/finalizers", &["update"]),
    ("", "pods/finalizers", &["update"]),
    ("resource.k8s.io", "resourceclaims/binding", &["patch"]),
];

/// A rule about objects of these names alone; all, when there are none.
pub type NamedRule = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// The definitions that are looked at.
const DEFINITIONS: &[&str] = &["jobsets.jobset.x-k8s.io"];
/// Those of queues.
const QUEUE_DEFINITIONS: &[&str] = &[
    "admissionchecks.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "cohorts.kueue.x-k8s.io",
    "localqueues.kueue.x-k8s.io",
    "resourceflavors.kueue.x-k8s.io",
    "topologies.kueue.x-k8s.io",
    "workloadpriorityclasses.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
];
const NAMED: &[&str] = &["list", "watch", "patch"];

/// What the operator does for itself about TrainJobs, anywhere.
pub const OWN_TRAINING: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[NAMES[2]]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[NAMES[3]]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], TRAINED),
];
const TRAINED: &[&str] = &[
    "clustertrainingruntimes.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
    "trainjobs.trainer.kubeflow.org",
];

/// What the operator does for itself, anywhere.
pub const OWN_CLUSTER: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[NAMES[4]]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[NAMES[5]]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], DEFINITIONS),
];

/// What it does for itself where it runs queues.
pub const OWN_QUEUES: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[NAMES[0]]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[NAMES[1]]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], QUEUE_DEFINITIONS),
    ("apiextensions.k8s.io", "customresourcedefinitions", NAMED, &CONVERTED),
    ("apiregistration.k8s.io", "apiservices", NAMED, &aggregated::NAMES),
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

/// What the operator reads of how an API server is known that hands questions on, where that is published.
pub const PUBLISHED: &[NamedRule] = &[("", "configmaps", FOLLOWED, &[aggregated::PUBLISHED])];

/// Resources of ours that users work with: their group, and what may be done with them.
pub(crate) type Ours = (&'static str, &'static [&'static str], &'static [&'static str]);
/// A role of users: its rules, and which of the cluster's own roles get it.
pub(crate) type Users = (&'static str, &'static [Ours], &'static [&'static str]);
const EDIT: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const VIEW: &[&str] = &["get", "list", "watch"];
const STATUS: &[&str] = &["get"];
const TOLD: &[&str] = &["get"];
/// Creating one tries a manifest out and makes nothing.
const EXPLAINED: &[&str] = &["create", "get"];

const JOBSET: &str = "jobset.x-k8s.io";
const GANG: &str = "scheduling.muster.dev";
const QUEUE: &str = "kueue.x-k8s.io";
const TRAINER: &str = "trainer.kubeflow.org";

/// What users may do with our kinds. Whoever may write Workloads has all quota there is, so that tenants only read
/// them; queues and quota belong to those who hand them out, who get that role by a binding.
pub(crate) const USERS: [Users; 8] = [
    (
        "muster-jobset-editor",
        &[(JOBSET, &["jobsets"], EDIT), (JOBSET, &["jobsets/status"], STATUS)],
        &["admin", "edit"],
    ),
    (
        "muster-jobset-viewer",
        &[(JOBSET, &["jobsets"], VIEW), (JOBSET, &["jobsets/status"], STATUS)],
        &["admin", "edit", "view"],
    ),
    (
        "muster-gang-editor",
        &[(GANG, &["workloads"], EDIT), (GANG, &["podgroups"], EDIT), (GANG, &["podgroups/status"], STATUS)],
        &["admin", "edit"],
    ),
    (
        "muster-gang-viewer",
        &[(GANG, &["workloads"], VIEW), (GANG, &["podgroups"], VIEW), (GANG, &["podgroups/status"], STATUS)],
        &["admin", "edit", "view"],
    ),
    (
        "muster-trainjob-editor",
        &[
            (TRAINER, &["trainingruntimes", "trainjobs"], EDIT),
            (TRAINER, &["clustertrainingruntimes"], VIEW),
            (TRAINER, &["trainjobs/status"], STATUS),
        ],
        &["admin", "edit"],
    ),
    (
        "muster-trainjob-viewer",
        &[
            (TRAINER, &["clustertrainingruntimes", "trainingruntimes", "trainjobs"], VIEW),
            (TRAINER, &["trainjobs/status"], STATUS),
        ],
        &["admin", "edit", "view"],
    ),
    (
        "muster-batch-user",
        &[
            (QUEUE, &["localqueues", "workloads"], VIEW),
            (QUEUE, &["localqueues/status", "workloads/status"], STATUS),
            (VISIBILITY_GROUP, &["localqueues/pendingworkloads"], TOLD),
            (EXPLANATION_GROUP, &["explanations"], EXPLAINED),
        ],
        &["admin", "edit", "view"],
    ),
    (
        "muster-batch-admin",
        &[
            (
                QUEUE,
                &[
                    "admissionchecks",
                    "clusterqueues",
                    "cohorts",
                    "localqueues",
                    "resourceflavors",
                    "topologies",
                    "workloadpriorityclasses",
                ],
                EDIT,
            ),
            (QUEUE, &["workloads"], &["delete", "get", "list", "patch", "update", "watch"]),
            (
                QUEUE,
                &["clusterqueues/status", "cohorts/status", "localqueues/status", "workloads/status"],
                STATUS,
            ),
            (VISIBILITY_GROUP, &["clusterqueues/pendingworkloads", "localqueues/pendingworkloads"], TOLD),
            (EXPLANATION_GROUP, &["explanations"], EXPLAINED),
        ],
        &[],
    ),
];

/// What controllers may do with a resource: its group, its name, verbs.
type Allowed = (&'static str, &'static str, Vec<&'static str>);

/// Everything that controllers do in all namespaces, once per resource; what they do about TrainJobs only where those
/// are run.
#[must_use]
pub fn controllers(training: bool) -> Vec<Allowed> {
    gathered(always(training).chain(for_queues(training)))
}

/// What they do whether queues are run or not.
fn always(training: bool) -> impl Iterator<Item = &'static Rule> {
    let trains = if training { muster_trainer::rights::RULES } else { &[] };
    [muster_jobset::rights::RULES, SCHEDULER, GANGS, trains].into_iter().flatten()
}

/// What they do for queues.
fn for_queues(training: bool) -> impl Iterator<Item = &'static Rule> {
    QUEUES.iter().filter(move |(group, ..)| training || *group != TRAINER).chain(OWNERS)
}

fn gathered(rules: impl Iterator<Item = &'static Rule>) -> Vec<Allowed> {
    let mut all: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (group, resource, verbs) in rules {
        all.entry((group, resource)).or_default().extend(verbs.iter());
    }
    all.into_iter().map(|((group, resource), verbs)| (group, resource, verbs.into_iter().collect())).collect()
}

/// The rules of the ClusterRole.
pub(crate) fn cluster_rules(training: bool) -> Tree {
    let own = OWN_CLUSTER.iter().chain(if training { OWN_TRAINING } else { &[] });
    rules(&gathered(always(training)), own)
}

/// The rules of the ClusterRole of queues.
pub(crate) fn queue_rules(training: bool) -> Tree {
    rules(&gathered(for_queues(training)), OWN_QUEUES.iter())
}

fn rules(controllers: &[Allowed], own: impl Iterator<Item = &'static NamedRule>) -> Tree {
    let general = controllers.iter().map(|(group, resource, verbs)| rule(group, resource, verbs, &[]));
    Tree::list(general.chain(own.map(named)))
}

/// The rules of the Role in the operator's namespace.
pub(crate) fn namespace_rules() -> Tree {
    Tree::list(OWN_NAMESPACE.iter().map(named))
}

/// The rules of the Role where an API server publishes how it is known.
pub(crate) fn published_rules() -> Tree {
    Tree::list(PUBLISHED.iter().map(named))
}

/// Whether a role of users is about queues.
pub(crate) fn is_about_queues((_, rules, _): &Users) -> bool {
    rules.iter().any(|(group, ..)| *group == QUEUE)
}

/// Whether a role of users is about TrainJobs.
pub(crate) fn is_about_training((_, rules, _): &Users) -> bool {
    rules.iter().any(|(group, ..)| *group == TRAINER)
}

/// The rules of a user's role.
pub(crate) fn user_rules(rules: &[Ours]) -> Tree {
    let of = |(group, resources, verbs): &Ours| {
        let verbs = Tree::list(verbs.iter().copied());
        let resources = Tree::list(resources.iter().copied());
        tree!({"apiGroups": [(*group)], "resources": resources, "verbs": verbs})
    };
    Tree::list(rules.iter().map(of))
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
        let all = controllers(true);
        let pods = all.iter().find(|(group, resource, _)| group.is_empty() && *resource == "pods").unwrap();
        assert_eq!(pods.2, ["delete", "get", "list", "patch", "watch"]);
        let keys: BTreeSet<(&str, &str)> = all.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!(keys.len(), all.len());
        for (group, resource, verbs) in ASKED_INSIDE {
            let there = all.iter().find(|it| (it.0, it.1) == (*group, *resource)).expect("it is allowed");
            assert_eq!(there.2, *verbs);
        }
    }

    #[test]
    fn every_kind_that_may_be_above_another_may_be_looked_at() {
        let all = controllers(false);
        for it in muster_queue::jobs::ancestors::INTEGRATIONS {
            let plural = format!("{}s", it.kind.to_lowercase());
            let found = all.iter().find(|(group, resource, _)| *group == it.group && *resource == plural);
            assert!(found.is_some_and(|(_, _, verbs)| verbs.contains(&"get")), "{}", it.name);
        }
    }

    #[test]
    fn whoever_uses_queues_gives_himself_no_quota() {
        let batch = USERS.iter().find(|it| it.0 == "muster-batch-user").unwrap();
        let writes = |(group, _, verbs): &&Ours| {
            *group != EXPLANATION_GROUP && verbs.iter().any(|verb| !VIEW.contains(verb))
        };
        assert_eq!(batch.1.iter().find(writes), None);
        let shares = |(_, resources, verbs): &&Ours| {
            resources.contains(&"workloads/status") && verbs.iter().any(|verb| !VIEW.contains(verb))
        };
        assert_eq!(USERS.iter().flat_map(|it| it.1).find(shares), None);
    }

    #[test]
    fn every_definition_may_be_looked_at() {
        let queues = muster_queue::kinds::definitions().into_iter();
        let training = muster_trainer::kinds::definitions().into_iter();
        for (of, definition) in
            queues.map(|it| (QUEUE_DEFINITIONS, it)).chain(training.map(|it| (TRAINED, it)))
        {
            let name = definition.str_at(&["metadata", "name"]).to_owned();
            assert!(of.contains(&name.as_str()), "{name}");
        }
    }

    #[test]
    fn nothing_is_allowed_by_a_star_and_secrets_only_at_home() {
        let (cluster, queues, home) = (cluster_rules(true), queue_rules(true), namespace_rules());
        for rule in cluster.items().iter().chain(queues.items()).chain(home.items()) {
            let text = rule.to_json();
            assert!(!text.contains("\"*\""), "{text}");
        }
        for without in [cluster_rules(false).to_json(), queues.to_json()] {
            assert!(!without.contains("secrets"), "{without}");
        }
    }

    #[test]
    fn where_queues_are_not_run_nothing_of_them_is_allowed() {
        let (cluster, queues) = (cluster_rules(true).to_json(), queue_rules(true).to_json());
        for words in ["kueue", "subjectaccessreviews", "apiservices", "limitranges", "rayjobs"] {
            assert!(!cluster.contains(words), "{words}: {cluster}");
            assert!(queues.contains(words), "{words}: {queues}");
        }
    }

    /// Shows: 2899-50.
    #[test]
    fn training_is_allowed_where_it_is_run() {
        let may = |training: bool, resource: &str, verb: &str| {
            let all = controllers(training);
            all.iter().any(|it| (it.0, it.1) == (TRAINER, resource) && it.2.contains(&verb))
        };
        assert!(may(true, "trainjobs", "delete") && may(true, "trainjobs/status", "patch"));
        for resource in ["trainjobs", "trainjobs/status", "trainingruntimes", "clustertrainingruntimes"] {
            for verb in ["delete", "patch", "list", "watch"] {
                assert!(!may(false, resource, verb), "{verb} {resource}");
            }
        }
        let without = cluster_rules(false).to_json();
        assert!(!without.contains("validator.trainer"), "{without}");
    }
}
