//! Who the operator is and what it may do, and what users may do with our kinds.

use muster_tree::{Tree, tree};

use crate::names::{OPERATOR, OPERATOR_QUEUES};
use crate::{Options, labelled, rights};

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";

/// The account, its roles, and the roles of users.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    let namespace = options.namespace.as_str();
    let account = tree!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": OPERATOR, "namespace": namespace}});
    let cluster = role("ClusterRole", OPERATOR, rights::cluster_rules(options.training));
    let own = role("Role", OPERATOR, rights::namespace_rules()).with(&["metadata", "namespace"], namespace);
    let mut all =
        vec![labelled(&account, "operator"), cluster, binding("ClusterRole", OPERATOR, namespace), own];
    all.push(binding("Role", OPERATOR, namespace).with(&["metadata", "namespace"], namespace));
    if options.queues {
        all.push(role("ClusterRole", OPERATOR_QUEUES, rights::queue_rules(options.training)));
        all.push(binding("ClusterRole", OPERATOR_QUEUES, namespace));
    }
    let wanted = |it: &rights::Users| {
        (options.queues || !rights::is_about_queues(it))
            && (options.training || !rights::is_about_training(it))
    };
    all.extend(rights::USERS.into_iter().filter(wanted).map(user_role));
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

/// Becomes part of the cluster's own roles: whoever may edit a namespace may run JobSets, TrainJobs and gangs there.
fn user_role((name, rules, into): rights::Users) -> Tree {
    into.iter().fold(role("ClusterRole", name, rights::user_rules(rules)), |role, into| {
        role.with(&["metadata", "labels", &format!("rbac.authorization.k8s.io/aggregate-to-{into}")], "true")
    })
}
