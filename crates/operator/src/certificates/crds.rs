//! Reconciles the conversion webhook of a CRD: service reference and CA bundle.
//!
//! Pure. Only `spec.conversion` is patched.

use muster_api::meta;
use muster_install::conversion::{PATH, conversion_patch, webhook_conversion};
use muster_install::webhooks::CA_INJECTION_ANNOTATIONS;
use muster_tree::Tree;

use super::ServiceRef;
use super::webhook_configurations::{PORT, client_config};

const CONVERSION: [&str; 2] = ["spec", "conversion"];

/// The port of our Service in this CRD, if it references our Service.
#[must_use]
pub fn service_port(definition: &Tree, service: &ServiceRef) -> Option<i64> {
    let asked = definition.at(&["spec", "conversion", "webhook", "clientConfig", "service"])?;
    let same = asked.str_at(&["name"]) == service.name && asked.str_at(&["namespace"]) == service.namespace;
    asked.int_at(&["port"]).filter(|_| same)
}

/// The merge patch that has a CRD convert at this Service and trust this CA bundle (PEM, base64); `None` when it does.
#[must_use]
pub fn ca_patch(definition: &Tree, service: &ServiceRef, port: Option<i64>, bundle: &str) -> Option<Tree> {
    let wanted = webhook_conversion(client_config(PATH, service, port.unwrap_or(PORT), bundle));
    let injected = CA_INJECTION_ANNOTATIONS.iter().any(|key| meta::annotation(definition, key).is_some());
    (injected || definition.at(&CONVERSION) != Some(&wanted)).then(|| conversion_patch(&wanted))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn conversion_references_our_service() {
        let service = ServiceRef { namespace: "n".to_owned(), name: "s".to_owned() };
        let upstream = tree!({"service": {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/convert", "port": 443}});
        let ours = tree!({"service": {"namespace": "n", "name": "s", "path": "/convert", "port": 9443}});
        for (says, conversion, known, want) in [
            ("as installed", webhook_conversion(ours), None, 9443),
            ("another's", webhook_conversion(upstream), None, 443),
            (
                "an address",
                webhook_conversion(tree!({"url": "https://127.0.0.1:1/convert", "caBundle": "old"})),
                Some(7),
                7,
            ),
            ("no webhook", tree!({"strategy": "None"}), Some(9443), 9443),
        ] {
            let before = tree!({"metadata": {"name": "d"}}).with(&CONVERSION, conversion);
            let port = service_port(&before, &service).or(known);
            let after = before.merge(&ca_patch(&before, &service, port, "ours").unwrap());
            let asked = after.at(&["spec", "conversion", "webhook", "clientConfig"]).unwrap();
            assert_eq!((asked.get("url"), asked.str_at(&["caBundle"])), (None, "ours"), "{says}");
            assert_eq!(asked.int_at(&["service", "port"]), Some(want), "{says}");
            assert_eq!(after.str_at(&["spec", "conversion", "strategy"]), "Webhook", "{says}");
            assert_eq!(ca_patch(&after, &service, Some(want), "ours"), None, "{says}: once is enough");
            let noted =
                after.with(&["metadata", "annotations"], Tree::map([(CA_INJECTION_ANNOTATIONS[1], "a/b")]));
            assert!(
                ca_patch(&noted, &service, Some(want), "ours").is_some(),
                "{says}: no injected CA remains"
            );
        }
    }
}
