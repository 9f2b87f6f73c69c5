//! The aggregated visibility API: APIServices, the Service that selects the leader, and RBAC to read the front-proxy CA.
//!
//! # Guarantees
//!
//! - Installed only with queues: Kueue has APIServices of the same names.

use muster_api::consts::labels::LEADS;
use muster_tree::{Tree, tree};

use crate::deployment::service;
use crate::names::VISIBILITY_SERVICE;
use crate::rbac;
use crate::rbac_objects::{binding, role};
use crate::{Options, selector, with_labels};

/// The APIServices.
pub const NAMES: [&str; 3] = [
    "v1alpha1.visibility.muster.dev",
    "v1beta1.visibility.kueue.x-k8s.io",
    "v1beta2.visibility.kueue.x-k8s.io",
];
/// The ConfigMap in which kube-apiserver publishes its front-proxy CA and header names, and its namespace.
pub const AUTHENTICATION_CONFIG_MAP: &str = "extension-apiserver-authentication";
pub const AUTHENTICATION_NAMESPACE: &str = "kube-system";

/// The Role to read that ConfigMap, and its binding.
const READER: &str = "muster-front-proxy";
/// `groupPriorityMinimum`: below all built-in groups.
const GROUP_PRIORITY: i64 = 100;

/// All objects of the visibility API; none without queues.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    if !options.queues {
        return Vec::new();
    }
    let reader = role("Role", READER, rbac::authentication_reader_rules());
    let bound = binding("Role", READER, &options.namespace);
    let there =
        [reader, bound].into_iter().map(|it| it.with(&["metadata", "namespace"], AUTHENTICATION_NAMESPACE));
    let groups = (1..).zip(NAMES).map(|(priority, name)| api_service(options, name, priority));
    there.chain([leader_service(options)]).chain(groups).collect()
}

/// The Service that selects the leader's pod by its label: only the leader has the queues in memory.
fn leader_service(options: &Options) -> Tree {
    let selector = selector().with_key(LEADS.0, Tree::from(LEADS.1));
    service(options, VISIBILITY_SERVICE, &[("webhook", options.webhook_port)])
        .with(&["spec", "selector"], selector)
}

/// The APIService of this name; of two versions of a group, discovery prefers the one with the higher priority.
fn api_service(options: &Options, name: &str, priority: i64) -> Tree {
    let (version, group) = name.split_once('.').unwrap_or_default();
    let service = tree!({"namespace": (options.namespace.as_str()), "name": VISIBILITY_SERVICE,
        "port": i64::from(options.webhook_port)});
    let spec = tree!({
        "group": group,
        "version": version,
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": priority,
        "service": service,
        // Set explicitly, to overwrite the value of an earlier installation.
        "insecureSkipTLSVerify": false,
    });
    let object =
        tree!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}});
    with_labels(&object, "visibility").with(&["spec"], spec)
}

#[cfg(test)]
mod tests {
    use muster_api::queue::consts::{EXPLANATION_GROUP, EXPLANATION_VERSION, VISIBILITY_GROUP};

    use super::*;
    use crate::manifests;

    #[test]
    fn groups_are_called_by_their_version_and_name() {
        let options = Options::default();
        let made: Vec<Tree> =
            objects(&options).into_iter().filter(|it| it.str_at(&["kind"]) == "APIService").collect();
        let named = |it: &Tree| ["group", "version"].map(|key| it.str_at(&["spec", key]).to_owned());
        let named: Vec<[String; 2]> = made.iter().map(named).collect();
        let want = [
            [EXPLANATION_GROUP, EXPLANATION_VERSION],
            [VISIBILITY_GROUP, "v1beta1"],
            [VISIBILITY_GROUP, "v1beta2"],
        ];
        assert_eq!(named, want.map(|it| it.map(str::to_owned)));
    }

    #[test]
    fn without_queues_nothing_of_them_is_there() {
        let without = manifests(&Options { queues: false, ..Options::default() });
        for object in &without {
            let (kind, name) = (object.str_at(&["kind"]), object.str_at(&["metadata", "name"]));
            // The role of the operator is the same: what is not there cannot be reached by it.
            let of_queues =
                ["kueue", "visibility", "batch", "front-proxy"].iter().any(|it| name.contains(it));
            assert!(!of_queues, "{kind} {name}");
        }
        let with = manifests(&Options::default());
        assert!(without.iter().all(|it| with.contains(it)), "the rest is the same");
    }
}
