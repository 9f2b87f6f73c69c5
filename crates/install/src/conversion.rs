//! The conversion webhook of the queueing CRDs.
//!
//! # Guarantees
//!
//! - Requests of the storage version need no conversion: they are served while the operator is down.
//! - CRDs with the same schema in both versions have no conversion webhook.

use muster_api::queue::consts::GROUP;
use muster_tree::{Tree, tree};

use crate::webhooks::{CA_INJECTION_ANNOTATIONS, WebhookClientConfig};

/// The path of the conversion webhook.
pub const PATH: &str = "/convert";

/// The CRDs with different schemas in their versions.
pub const CONVERTED_CRDS: [&str; 4] = [
    "admissionchecks.kueue.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
];

/// `spec.conversion` with this client config.
#[must_use]
pub fn webhook_conversion(client: Tree) -> Tree {
    tree!({"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}})
}

/// The merge patch that makes this the only conversion webhook of a CRD: it removes a URL or Service of an earlier one,
/// and annotations for CA injection by cert-manager, which would overwrite our CA bundle.
#[must_use]
pub fn conversion_patch(by: &Tree) -> Tree {
    let client = ["webhook", "clientConfig"];
    let named = |key: &str| by.at(&client).and_then(|it| it.get(key)).cloned().unwrap_or(Tree::Null);
    let whole = Tree::map(["url", "service", "caBundle"].map(|key| (key, named(key))));
    let notes = Tree::map(CA_INJECTION_ANNOTATIONS.map(|key| (key, Tree::Null)));
    tree!({"metadata": {"annotations": notes}, "spec": {"conversion": (by.with(&client, whole))}})
}

/// A CRD with the conversion webhook, if its versions differ.
pub(crate) fn with_conversion(definition: &Tree, reached: &WebhookClientConfig<'_>) -> Tree {
    let name = definition.str_at(&["metadata", "name"]);
    if CONVERTED_CRDS.contains(&name) {
        definition.with(&["spec", "conversion"], webhook_conversion(reached.client(PATH)))
    } else {
        definition.clone()
    }
}

/// Whether objects of this `apiVersion` are converted by our webhook.
#[must_use]
pub fn is_convertible(api_version: &str) -> bool {
    api_version.split_once('/').is_some_and(|(group, _)| group == GROUP)
}

#[cfg(test)]
mod tests {
    use muster_queue::kinds::convert::convert;

    use super::*;

    /// The schema of a version.
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
            assert_eq!(same, !CONVERTED_CRDS.contains(&name), "{name}");
            let reached = WebhookClientConfig::Service { namespace: "n", name: "s", port: 443 };
            let said = with_conversion(&definition, &reached);
            let path = ["spec", "conversion", "webhook", "clientConfig", "service", "path"];
            assert_eq!(said.str_at(&path) == PATH, CONVERTED_CRDS.contains(&name), "{name}");
        }
        let old =
            tree!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "spec": {"cohort": "c"}});
        assert!(
            is_convertible(old.str_at(&["apiVersion"]))
                && !is_convertible("v1")
                && !is_convertible("batch/v1")
        );
        assert_eq!(convert(&old, "kueue.x-k8s.io/v1beta2").str_at(&["spec", "cohortName"]), "c");
    }
}
