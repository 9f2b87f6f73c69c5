//! Queues as they are asked about through the API server: the groups that it hands on to the operator in charge, the
//! Service that leads there, and the right to read how an API server is known when it asks.
//!
//! # Invariants
//!
//! - Only where queues are run: these names are upstream's, too, and another may have them.

use muster_api::words::labels::LEADS;
use muster_tree::{Tree, tree};

use crate::access::{binding, role};
use crate::names::VISIBILITY_SERVICE;
use crate::rights;
use crate::workload::service;
use crate::{Options, labelled, selector};

/// The groups, each in one version.
pub const NAMES: [&str; 3] = [
    "v1alpha1.visibility.muster.dev",
    "v1beta1.visibility.kueue.x-k8s.io",
    "v1beta2.visibility.kueue.x-k8s.io",
];
/// The ConfigMap in which an API server publishes how it is known, and its namespace.
pub const PUBLISHED: &str = "extension-apiserver-authentication";
/// See [`PUBLISHED`].
pub const PUBLISHED_IN: &str = "kube-system";

/// The role by which the operator reads that, and its binding.
const READER: &str = "muster-front-proxy";
/// Behind all groups of the server itself.
const GROUP_PRIORITY: i64 = 100;

/// All of it, where queues are run.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    if !options.queues {
        return Vec::new();
    }
    let reader = role("Role", READER, rights::published_rules());
    let bound = binding("Role", READER, &options.namespace);
    let there = [reader, bound].into_iter().map(|it| it.with(&["metadata", "namespace"], PUBLISHED_IN));
    let groups = (1..).zip(NAMES).map(|(priority, name)| group(options, name, priority));
    there.chain([leader(options)]).chain(groups).collect()
}

/// Leads to the pod of whoever is in charge: the others have nothing to tell.
fn leader(options: &Options) -> Tree {
    let selector = selector().with_key(LEADS.0, Tree::from(LEADS.1));
    service(options, VISIBILITY_SERVICE, &[("webhook", options.webhook_port)])
        .with(&["spec", "selector"], selector)
}

/// A group of this name; of two versions the one with the higher priority is preferred.
fn group(options: &Options, name: &str, priority: i64) -> Tree {
    let (version, group) = name.split_once('.').unwrap_or_default();
    let service = tree!({"namespace": (options.namespace.as_str()), "name": VISIBILITY_SERVICE,
        "port": i64::from(options.webhook_port)});
    let spec = tree!({
        "group": group,
        "version": version,
        "groupPriorityMinimum": GROUP_PRIORITY,
        "versionPriority": priority,
        "service": service,
        // Whoever was here before may have said otherwise.
        "insecureSkipTLSVerify": false,
    });
    let object =
        tree!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name}});
    labelled(&object, "visibility").with(&["spec"], spec)
}

#[cfg(test)]
mod tests {
    use muster_api::queue::words::{EXPLANATION_GROUP, EXPLANATION_VERSION, VISIBILITY_GROUP};

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
