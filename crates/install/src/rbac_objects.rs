//! RBAC objects: the ServiceAccount of the operator with its roles and bindings, and the aggregated roles of users.

use muster_tree::{Tree, tree};

use crate::names::{OPERATOR, OPERATOR_QUEUES};
use crate::{Options, rbac, with_labels};

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The ServiceAccount, its roles and bindings, and the roles of users.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    let namespace = options.namespace.as_str();
    let account = tree!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": OPERATOR, "namespace": namespace}});
    let cluster = role("ClusterRole", OPERATOR, rbac::cluster_rules(options.training));
    let own = role("Role", OPERATOR, rbac::namespace_rules()).with(&["metadata", "namespace"], namespace);
    let mut all =
        vec![with_labels(&account, "operator"), cluster, binding("ClusterRole", OPERATOR, namespace), own];
    all.push(binding("Role", OPERATOR, namespace).with(&["metadata", "namespace"], namespace));
    if options.queues {
        all.push(role("ClusterRole", OPERATOR_QUEUES, rbac::queue_rules(options.training)));
        all.push(binding("ClusterRole", OPERATOR_QUEUES, namespace));
    }
    let wanted = |it: &rbac::UserRole| {
        (options.queues || !rbac::is_about_queues(it)) && (options.training || !rbac::is_about_training(it))
    };
    all.extend(rbac::USERS.into_iter().filter(wanted).map(user_role));
    all
}

pub(crate) fn role(kind: &str, name: &str, rules: Tree) -> Tree {
    with_labels(
        &tree!({"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "rules": rules}),
        "rbac",
    )
}

/// Binds the operator's ServiceAccount to the role of this kind and name.
pub(crate) fn binding(role: &str, name: &str, namespace: &str) -> Tree {
    let binding = tree!({
        "apiVersion": VERSION,
        "kind": format!("{role}Binding"),
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
    });
    with_labels(&binding, "rbac")
}

/// A ClusterRole that is aggregated to the default roles: users with `edit` in a namespace can create JobSets, TrainJobs
/// and gangs there.
fn user_role((name, rules, into): rbac::UserRole) -> Tree {
    into.iter().fold(role("ClusterRole", name, rbac::user_rules(rules)), |role, into| {
        role.with(&["metadata", "labels", &format!("rbac.authorization.k8s.io/aggregate-to-{into}")], "true")
    })
}
