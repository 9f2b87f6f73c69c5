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
    let mut all = vec![labelled(&account, "operator"), cluster, binding("ClusterRole", namespace), own];
    all.push(binding("Role", namespace).with(&["metadata", "namespace"], namespace));
    all.extend(rights::USERS.map(user_role));
    all
}

fn role(kind: &str, name: &str, rules: Tree) -> Tree {
    labelled(
        &tree!({"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "rules": rules}),
        "rbac",
    )
}

/// Gives the account the role of this kind.
fn binding(role: &str, namespace: &str) -> Tree {
    let binding = tree!({
        "apiVersion": VERSION,
        "kind": format!("{role}Binding"),
        "metadata": {"name": OPERATOR},
        "roleRef": {"apiGroup": RBAC, "kind": role, "name": OPERATOR},
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
