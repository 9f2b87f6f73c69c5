//! Who turns objects of queueing into the version that somebody asks for.
//!
//! # Invariants
//!
//! - Nobody is asked about the stored version: it is served whether somebody converts or not.
//! - Kinds that say the same in both versions need nobody.

use muster_api::queue::words::GROUP;
use muster_tree::{Tree, tree};

use crate::hooks::{INJECTED, Reached};

/// Where it is asked for.
pub const PATH: &str = "/convert";

/// The definitions whose versions differ.
pub const CONVERTED: [&str; 4] = [
    "admissionchecks.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
];

/// What a definition says of whoever converts, reached so.
#[must_use]
pub fn by(client: Tree) -> Tree {
    tree!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
}

/// The change that has a definition name this one, and nobody else, be he reached by address or through a Service.
#[must_use]
pub fn instead(by: &Tree) -> Tree {
    let client = ["webhook", "clientConfig"];
    let named = |key: &str| by.at(&client).and_then(|it| it.get(key)).cloned().unwrap_or(Tree::Null);
    let whole = Tree::map(["url", "service", "caBundle"].map(|key| (key, named(key))));
    let notes = Tree::map(INJECTED.map(|key| (key, Tree::Null)));
    tree!({"metadata": {"annotations": notes}, "spec": {"conversion": (by.with(&client, whole))}})
}

/// A definition that says who converts, if it needs somebody.
pub(crate) fn converted(definition: &Tree, reached: &Reached<'_>) -> Tree {
    let name = definition.str_at(&["metadata", "name"]);
    if CONVERTED.contains(&name) {
        definition.with(&["spec", "conversion"], by(reached.client(PATH)))
    } else {
        definition.clone()
    }
}

/// Whether objects of this version of a group are converted here.
#[must_use]
pub fn serves(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
}

#[cfg(test)]
mod tests {
    use muster_queue::kinds::convert::convert;

    use super::*;

    /// The fields of a version, wherever they are.
    fn fields(definition: &Tree, version: &str) -> Tree {
        let mut versions = definition.items_at(&["spec", "versions"]).iter();
        let found = versions.find(|it| it.str_at(&["name"]) == version);
        found.and_then(|it| it.get("schema")).cloned().unwrap_or_default()
    }

    #[test]
    fn whoever_says_the_same_in_both_versions_needs_nobody() {
        for definition in muster_queue::kinds::definitions() {
            let name = definition.str_at(&["metadata", "name"]);
            let same = fields(&definition, "v1beta1") == fields(&definition, "v1beta2");
            assert_eq!(same, !CONVERTED.contains(&name), "{name}");
            let reached = Reached::Service { namespace: "n", name: "s", port: 443 };
            let said = converted(&definition, &reached);
            let path = ["spec", "conversion", "webhook", "clientConfig", "service", "path"];
            assert_eq!(said.str_at(&path) == PATH, CONVERTED.contains(&name), "{name}");
        }
        let old =
            tree!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "spec": {"cohort": "c"}});
        assert!(serves(old.str_at(&["apiVersion"])) && !serves("v1") && !serves("batch/v1"));
        assert_eq!(convert(&old, "kueue.x-k8s.io/v1beta2").str_at(&["spec", "cohortName"]), "c");
    }
}
