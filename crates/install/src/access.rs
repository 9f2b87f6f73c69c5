//! Who the operator is and what it may do, and what users may do with our kinds.

use muster_tree::{Tree, tree};

use crate::names::OPERATOR;
use crate::{Options, labelled, rights};

const RBAC: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The account, its roles, and the roles of users.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    let namespace = options.namespace.as_str();
    let account = tree!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": OPERATOR, "namespace": namespace}});
    let cluster = role("ClusterRole", OPERATOR, rights::cluster_rules());
    let own = role("Role", OPERATOR, rights::namespace_rules()).with(&["metadata", "namespace"], namespace);
    let mut all =
        vec![labelled(&account, "operator"), cluster, binding("ClusterRole", OPERATOR, namespace), own];
    all.push(binding("Role", OPERATOR, namespace).with(&["metadata", "namespace"], namespace));
    let wanted = rights::USERS.into_iter().filter(|it| options.queues || !rights::is_about_queues(it));
    all.extend(wanted.map(user_role));
    all
}

pub(crate) fn role(kind: &str, name: &str, rules: Tree) -> Tree {
    labelled(
        &tree!({"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "rules": rules}),
        "rbac",
    )
}

/// Gives the account the role of this kind and name.
pub(crate) fn binding(role: &str, name: &str, namespace: &str) -> Tree {
    let binding = tree!({
        "apiVersion": VERSION,
        "kind": format!("{role}Binding"),
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": namespace}],
    });
    labelled(&binding, "rbac")
}

/// Becomes part of the cluster's own roles: whoever may edit a namespace may run JobSets and gangs there.
fn user_role((name, rules, into): rights::Users) -> Tree {
    into.iter().fold(role("ClusterRole", name, rights::user_rules(rules)), |role, into| {
        role.with(&["metadata", "labels", &format!("rbac.authorization.k8s.io/aggregate-to-{into}")], "true")
    })
}
