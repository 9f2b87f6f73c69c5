//! Reconciles the `clientConfig` of our webhooks: service reference and CA bundle.
//!
//! Pure. Only our webhooks are patched, and the annotations by which cert-manager would overwrite the CA bundle.

use muster_api::meta;
use muster_install::webhooks::{CA_INJECTION_ANNOTATIONS, WebhookConfiguration};
use muster_tree::{Tree, tree};

use super::ServiceRef;

/// The default of `clientConfig.service.port`.
pub const PORT: i64 = 443;

/// The path of the webhook of this name, if it is ours.
fn path(of: &WebhookConfiguration, name: &str) -> Option<&'static str> {
    of.webhooks().find(|hook| hook.name == name).map(|hook| hook.path)
}

/// The port of our Service in this configuration, if it references our Service.
#[must_use]
pub fn service_port(of: &WebhookConfiguration, configuration: &Tree, service: &ServiceRef) -> Option<i64> {
    let hooks = configuration.items_at(&["webhooks"]).iter();
    let ours = hooks.filter(|hook| path(of, hook.str_at(&["name"])).is_some());
    ours.filter_map(|hook| hook.at(&["clientConfig", "service"])).find_map(|it| {
        let same = it.str_at(&["name"]) == service.name && it.str_at(&["namespace"]) == service.namespace;
        it.int_at(&["port"]).filter(|_| same)
    })
}

/// The merge patch that has our webhooks reference this Service and trust this CA bundle (PEM, base64); `None` when they do.
#[must_use]
pub fn ca_patch(
    of: &WebhookConfiguration,
    configuration: &Tree,
    service: &ServiceRef,
    port: Option<i64>,
    bundle: &str,
) -> Option<Tree> {
    let hooks = configuration.get("webhooks").cloned().unwrap_or_else(|| tree!([]));
    // A merge patch replaces the whole list: other webhooks in it are sent unchanged.
    let ours = hooks.map_items(|_, hook| match path(of, hook.str_at(&["name"])) {
        Some(path) => {
            hook.with(&["clientConfig"], client_config(path, service, port.unwrap_or(PORT), bundle))
        }
        None => hook.clone(),
    });
    let injected: Vec<_> = CA_INJECTION_ANNOTATIONS
        .into_iter()
        .filter(|key| meta::annotation(configuration, key).is_some())
        .collect();
    if ours == hooks && injected.is_empty() {
        return None;
    }
    // `null` removes the annotation, by which cert-manager would overwrite the bundle again.
    let notes = Tree::map(injected.into_iter().map(|key| (key, Tree::Null)));
    let patch = tree!({"webhooks": ours});
    Some(if notes.is_empty() { patch } else { patch.with(&["metadata", "annotations"], notes) })
}

/// A `clientConfig` with our Service.
pub fn client_config(path: &str, service: &ServiceRef, port: i64, bundle: &str) -> Tree {
    let service = tree!({
        "namespace": service.namespace.as_str(),
        "name": service.name.as_str(),
        "path": path,
        "port": port,
    });
    tree!({"service": service, "caBundle": bundle})
}

/// The names of our webhooks that are missing from a configuration.
#[must_use]
pub fn missing_webhooks(of: &WebhookConfiguration, configuration: &Tree) -> Vec<&'static str> {
    let hooks = configuration.items_at(&["webhooks"]);
    of.webhooks()
        .map(|hook| hook.name)
        .filter(|name| !hooks.iter().any(|hook| hook.str_at(&["name"]) == *name))
        .collect()
}

#[cfg(test)]
mod tests {
    use muster_install::webhooks::CONFIGURATIONS;

    use super::*;

    fn service() -> ServiceRef {
        ServiceRef { namespace: "muster-system".to_owned(), name: "muster-webhook".to_owned() }
    }

    fn hook(name: &str, client: &Tree) -> Tree {
        tree!({"name": name, "clientConfig": client.clone(), "failurePolicy": "Fail"})
    }

    fn configuration(client: &Tree) -> Tree {
        let theirs = tree!({"url": "https://elsewhere", "caBundle": "theirs"});
        tree!({"metadata": {"name": "c"}, "webhooks": [
            (hook("mjobset.kb.io", client)), (hook("theirs", &theirs)), (hook("mpod.kb.io", client))]})
    }

    fn asks(port: i64, bundle: &str) -> Tree {
        let service =
            tree!({"namespace": "muster-system", "name": "muster-webhook", "path": "/p", "port": port});
        tree!({"service": service, "caBundle": bundle})
    }

    #[test]
    fn our_webhooks_reference_our_service_and_others_are_unchanged() {
        let (of, service) = (&CONFIGURATIONS[4], service());
        let upstream = tree!({"service": {"namespace": "jobset-system", "name": "jobset-webhook-service", "path": "/p", "port": 443}});
        for (says, client, known, want) in [
            ("as installed", asks(9443, ""), None, 9443),
            ("a CA of another issuer", asks(9443, "theirs"), None, 9443),
            ("another's Service", upstream.clone(), None, 443),
            ("another's Service, and the port was known", upstream, Some(9443), 9443),
            ("an address", tree!({"url": "https://127.0.0.1:1"}), Some(7), 7),
        ] {
            let before = configuration(&client);
            let port = service_port(of, &before, &service).or(known);
            let patch = ca_patch(of, &before, &service, port, "ours").unwrap();
            assert_eq!(patch.get("metadata"), None, "{says}");
            let after = before.merge(&patch);
            let hooks = after.items_at(&["webhooks"]);
            for at in [0, 2] {
                assert_eq!(hooks[at].int_at(&["clientConfig", "service", "port"]), Some(want), "{says}");
                assert_eq!(hooks[at].str_at(&["clientConfig", "caBundle"]), "ours", "{says}");
                assert_eq!(hooks[at].get("clientConfig").unwrap().get("url"), None, "{says}");
                assert_eq!(hooks[at].str_at(&["failurePolicy"]), "Fail", "{says}");
            }
            let path = hooks[2].str_at(&["clientConfig", "service", "path"]);
            assert_eq!(path, "/mutate--v1-pod", "{says}");
            assert_eq!(hooks[1], before.items_at(&["webhooks"])[1], "{says}");
            assert_eq!(ca_patch(of, &after, &service, Some(want), "ours"), None, "{says}: once is enough");
        }
    }

    #[test]
    fn ca_injection_annotations_are_removed() {
        let (of, service) = (&CONFIGURATIONS[4], service());
        let fine = configuration(&asks(443, ""));
        let fine = fine.merge(&ca_patch(of, &fine, &service, None, "ours").unwrap());
        let noted = fine.with(
            &["metadata", "annotations"],
            Tree::map([("cert-manager.io/inject-ca-from", "a/b"), ("kept", "yes")]),
        );
        let after = noted.merge(&ca_patch(of, &noted, &service, None, "ours").unwrap());
        assert_eq!(after.get("metadata").unwrap().get("annotations"), Some(&tree!({"kept": "yes"})));
    }

    #[test]
    fn missing_webhooks_are_named() {
        assert!(missing_webhooks(&CONFIGURATIONS[4], &configuration(&tree!({}))).is_empty());
        assert_eq!(missing_webhooks(&CONFIGURATIONS[5], &tree!({})), ["vjobset.kb.io", "vpod.kb.io"]);
    }
}
