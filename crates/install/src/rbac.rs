//! The RBAC rules of the operator and of users, as tables, and the roles built from them.
//!
//! # Guarantees
//!
//! - Least privilege: a test of the whole suite compares these tables with the requests that were made.
//! - Objects of the operator itself are allowed by name, and namespaced ones only in its own namespace.
//! - The rules of queues are a separate ClusterRole, which is not installed without them.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::queue::consts::{EXPLANATION_GROUP, VISIBILITY_GROUP};
use muster_jobset::rbac::PolicyRule;
use muster_tree::{Tree, tree};

use crate::aggregated;
use crate::conversion::CONVERTED_CRDS;
use crate::names::{OPERATOR, WEBHOOK_SECRET};
use crate::webhooks::CONFIGURATION_NAMES;

/// Verbs of an informer; the objects are never read by name.
const WATCH: &[&str] = &["list", "watch"];

/// The scheduler: binds pods, writes their conditions, preempts, and binds volumes and devices to claims.
pub const SCHEDULER: &[PolicyRule] = &[
    ("", "pods", &["get", "list", "watch", "delete"]),
    ("", "pods/binding", &["create"]),
    ("", "pods/status", &["patch"]),
    ("", "nodes", WATCH),
    ("", "namespaces", WATCH),
    ("", "events", &["create", "patch"]),
    ("policy", "poddisruptionbudgets", WATCH),
    ("", "persistentvolumeclaims", &["get", "list", "watch", "patch"]),
    ("", "persistentvolumes", &["get", "list", "watch", "patch"]),
    ("storage.k8s.io", "storageclasses", WATCH),
    ("storage.k8s.io", "csinodes", WATCH),
    ("resource.k8s.io", "resourceclaims", &["get", "list", "watch", "patch"]),
    ("resource.k8s.io", "resourceclaims/status", &["patch"]),
    ("resource.k8s.io", "resourceclaims/binding", &["patch"]),
    ("resource.k8s.io", "resourceslices", WATCH),
    ("resource.k8s.io", "deviceclasses", WATCH),
];

/// Gangs, in any API that a cluster may serve: the scheduler reads PodGroups and writes their status. Workloads are only
/// read, for the policy of groups without one. A PodGroup of our own CRD is patched for its protection finalizer; for
/// native PodGroups the cluster does that.
pub const GANGS: &[PolicyRule] = &[
    ("scheduling.k8s.io", "workloads", WATCH),
    ("scheduling.k8s.io", "podgroups", WATCH),
    ("scheduling.k8s.io", "podgroups/status", &["patch"]),
    ("scheduling.muster.dev", "workloads", WATCH),
    ("scheduling.muster.dev", "podgroups", &["list", "watch", "patch"]),
    ("scheduling.muster.dev", "podgroups/status", &["patch"]),
    ("scheduling.x-k8s.io", "podgroups", WATCH),
    ("scheduling.x-k8s.io", "podgroups/status", &["patch"]),
    ("scheduling.volcano.sh", "podgroups", WATCH),
    ("scheduling.volcano.sh", "podgroups/status", &["patch"]),
];

/// Queues: admits Workloads by their status, suspends and resumes jobs, ungates or deletes pods, and protects queues in
/// use by finalizers. SubjectAccessReviews authorize users who remove a scheduling gate themselves.
pub const QUEUES: &[PolicyRule] = &[
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
    ("kueue.x-k8s.io", "admissionchecks", WATCH),
    ("kueue.x-k8s.io", "topologies", WATCH),
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
    ("trainer.kubeflow.org", "trainingruntimes", WATCH),
    ("trainer.kubeflow.org", "clustertrainingruntimes", WATCH),
    ("", "configmaps", WATCH),
    ("scheduling.k8s.io", "priorityclasses", WATCH),
    ("", "limitranges", WATCH),
    ("node.k8s.io", "runtimeclasses", WATCH),
    ("authentication.k8s.io", "selfsubjectreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("", "events", &["create", "patch"]),
];

/// The owners of queued objects, by kind: an object is not queued if its owner is.
pub const OWNERS: &[PolicyRule] = &[
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

/// Permissions that the API server checks while it serves another request, such as `OwnerReferencesPermissionEnforcement`
/// on finalizers: the test of requests cannot observe them.
pub const CHECKED_IMPLICITLY: &[PolicyRule] = &[
    ("jobset.x-k8s.io", "jobsets/finalizers", &["update"]),
    ("trainer.kubeflow.org", "trainjobs/finalizers", &["update"]),
    ("batch", "jobs/finalizers", &["update"]),
    ("", "pods/finalizers", &["update"]),
    ("resource.k8s.io", "resourceclaims/binding", &["patch"]),
];

/// A rule with resource names; without names it covers all objects.
pub type NamedRule = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// The CRDs that the operator checks at the start.
const JOBSET_CRDS: &[&str] = &["jobsets.jobset.x-k8s.io"];
const QUEUE_CRDS: &[&str] = &[
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

/// The operator's own webhook configurations and CRDs of TrainJobs.
pub const OWN_TRAINING: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[CONFIGURATION_NAMES[2]]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[CONFIGURATION_NAMES[3]]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], TRAINING_CRDS),
];
const TRAINING_CRDS: &[&str] = &[
    "clustertrainingruntimes.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
    "trainjobs.trainer.kubeflow.org",
];

/// The operator's own cluster-scoped objects.
pub const OWN_CLUSTER: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[CONFIGURATION_NAMES[4]]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[CONFIGURATION_NAMES[5]]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], JOBSET_CRDS),
];

/// The operator's own cluster-scoped objects of queues.
pub const OWN_QUEUES: &[NamedRule] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAMED, &[CONFIGURATION_NAMES[0]]),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", NAMED, &[CONFIGURATION_NAMES[1]]),
    ("apiextensions.k8s.io", "customresourcedefinitions", &["get"], QUEUE_CRDS),
    ("apiextensions.k8s.io", "customresourcedefinitions", NAMED, &CONVERTED_CRDS),
    ("apiregistration.k8s.io", "apiservices", NAMED, &aggregated::NAMES),
];

/// The operator's own namespace. RBAC cannot restrict `create` by name. JobSets are created there with a dry run only,
/// as a self-test of the webhooks.
pub const OWN_NAMESPACE: &[NamedRule] = &[
    ("coordination.k8s.io", "leases", &["create"], &[]),
    ("coordination.k8s.io", "leases", &["get", "patch"], &[OPERATOR]),
    ("", "secrets", &["create"], &[]),
    ("", "secrets", &["list", "watch", "patch"], &[WEBHOOK_SECRET]),
    ("jobset.x-k8s.io", "jobsets", &["create"], &[]),
];

/// The ConfigMap with the front-proxy CA, which authenticates the requests of the aggregation layer.
pub const AUTHENTICATION_READER: &[NamedRule] =
    &[("", "configmaps", WATCH, &[aggregated::AUTHENTICATION_CONFIG_MAP])];

/// A rule of a user role: API group, resources, verbs.
pub(crate) type UserRule = (&'static str, &'static [&'static str], &'static [&'static str]);
/// A user role: its name, its rules, and the default ClusterRoles that it is aggregated to.
pub(crate) type UserRole = (&'static str, &'static [UserRule], &'static [&'static str]);
const EDIT: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const VIEW: &[&str] = &["get", "list", "watch"];
const STATUS: &[&str] = &["get"];
const VISIBILITY: &[&str] = &["get"];
/// Creating an explanation evaluates a manifest and stores nothing.
const EXPLANATION: &[&str] = &["create", "get"];

const JOBSET: &str = "jobset.x-k8s.io";
const GANG: &str = "scheduling.muster.dev";
const QUEUE: &str = "kueue.x-k8s.io";
const TRAINER: &str = "trainer.kubeflow.org";

/// The roles of users. Write access to Workloads would allow a user to admit any workload, so tenants only read them.
/// The role that manages queues and quota is not aggregated; administrators get it by a binding.
pub(crate) const USERS: [UserRole; 8] = [
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
            (VISIBILITY_GROUP, &["localqueues/pendingworkloads"], VISIBILITY),
            (EXPLANATION_GROUP, &["explanations"], EXPLANATION),
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
            (
                VISIBILITY_GROUP,
                &["clusterqueues/pendingworkloads", "localqueues/pendingworkloads"],
                VISIBILITY,
            ),
            (EXPLANATION_GROUP, &["explanations"], EXPLANATION),
        ],
        &[],
    ),
];

/// A merged rule: API group, resource, verbs.
type ControllerRule = (&'static str, &'static str, Vec<&'static str>);

/// The rules of all controllers in all namespaces, merged per resource; those of TrainJobs only if `training` is set.
#[must_use]
pub fn controllers(training: bool) -> Vec<ControllerRule> {
    merge_rules(always(training).chain(for_queues(training)))
}

/// The rules that do not depend on queues.
fn always(training: bool) -> impl Iterator<Item = &'static PolicyRule> {
    let trains = if training { muster_trainer::rbac::RULES } else { &[] };
    [muster_jobset::rbac::RULES, SCHEDULER, GANGS, trains].into_iter().flatten()
}

/// The rules of queues.
fn for_queues(training: bool) -> impl Iterator<Item = &'static PolicyRule> {
    QUEUES.iter().filter(move |(group, ..)| training || *group != TRAINER).chain(OWNERS)
}

fn merge_rules(rules: impl Iterator<Item = &'static PolicyRule>) -> Vec<ControllerRule> {
    let mut all: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (group, resource, verbs) in rules {
        all.entry((group, resource)).or_default().extend(verbs.iter());
    }
    all.into_iter().map(|((group, resource), verbs)| (group, resource, verbs.into_iter().collect())).collect()
}

/// The rules of the ClusterRole.
pub(crate) fn cluster_rules(training: bool) -> Tree {
    let own = OWN_CLUSTER.iter().chain(if training { OWN_TRAINING } else { &[] });
    rules(&merge_rules(always(training)), own)
}

/// The rules of the ClusterRole of queues.
pub(crate) fn queue_rules(training: bool) -> Tree {
    rules(&merge_rules(for_queues(training)), OWN_QUEUES.iter())
}

fn rules(controllers: &[ControllerRule], own: impl Iterator<Item = &'static NamedRule>) -> Tree {
    let general = controllers.iter().map(|(group, resource, verbs)| rule(group, resource, verbs, &[]));
    Tree::list(general.chain(own.map(named)))
}

/// The rules of the Role in the operator's namespace.
pub(crate) fn namespace_rules() -> Tree {
    Tree::list(OWN_NAMESPACE.iter().map(named))
}

/// The rules of the Role to read the front-proxy CA.
pub(crate) fn authentication_reader_rules() -> Tree {
    Tree::list(AUTHENTICATION_READER.iter().map(named))
}

/// Whether a user role has rules of queues.
pub(crate) fn is_about_queues((_, rules, _): &UserRole) -> bool {
    rules.iter().any(|(group, ..)| *group == QUEUE)
}

/// Whether a user role has rules of TrainJobs.
pub(crate) fn is_about_training((_, rules, _): &UserRole) -> bool {
    rules.iter().any(|(group, ..)| *group == TRAINER)
}

/// The rules of a user role.
pub(crate) fn user_rules(rules: &[UserRule]) -> Tree {
    let of = |(group, resources, verbs): &UserRule| {
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
        for (group, resource, verbs) in CHECKED_IMPLICITLY {
            let there = all.iter().find(|it| (it.0, it.1) == (*group, *resource)).expect("it is allowed");
            assert_eq!(there.2, *verbs);
        }
    }

    #[test]
    fn every_kind_that_may_be_above_another_may_be_looked_at() {
        let all = controllers(false);
        for it in muster_queue::jobs::owner_chain::INTEGRATIONS {
            let plural = format!("{}s", it.kind.to_lowercase());
            let found = all.iter().find(|(group, resource, _)| *group == it.group && *resource == plural);
            assert!(found.is_some_and(|(_, _, verbs)| verbs.contains(&"get")), "{}", it.name);
        }
    }

    #[test]
    fn whoever_uses_queues_gives_himself_no_quota() {
        let batch = USERS.iter().find(|it| it.0 == "muster-batch-user").unwrap();
        let writes = |(group, _, verbs): &&UserRule| {
            *group != EXPLANATION_GROUP && verbs.iter().any(|verb| !VIEW.contains(verb))
        };
        assert_eq!(batch.1.iter().find(writes), None);
        let shares = |(_, resources, verbs): &&UserRule| {
            resources.contains(&"workloads/status") && verbs.iter().any(|verb| !VIEW.contains(verb))
        };
        assert_eq!(USERS.iter().flat_map(|it| it.1).find(shares), None);
    }

    #[test]
    fn every_definition_may_be_looked_at() {
        let queues = muster_queue::kinds::definitions().into_iter();
        let training = muster_trainer::kinds::crds().into_iter();
        for (of, definition) in
            queues.map(|it| (QUEUE_CRDS, it)).chain(training.map(|it| (TRAINING_CRDS, it)))
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
