//! What a definition needs so that the API server asks our Service for other versions, and trusts it.
//!
//! Pure. Only who converts is ours to mend.

use muster_api::meta;
use muster_install::conversion::{PATH, by, instead};
use muster_install::hooks::INJECTED;
use muster_tree::Tree;

use super::Service;
use super::configurations::{PORT, client};

const CONVERSION: [&str; 2] = ["spec", "conversion"];

/// The port by which this definition asks our Service, if it does.
#[must_use]
pub fn port(definition: &Tree, service: &Service) -> Option<i64> {
    let asked = definition.at(&["spec", "conversion", "webhook", "clientConfig", "service"])?;
    let same = asked.str_at(&["name"]) == service.name && asked.str_at(&["namespace"]) == service.namespace;
    asked.int_at(&["port"]).filter(|_| same)
}

/// The change that has it ask this Service at this port, trusting these authorities (PEM, in base64); `None` when it does.
#[must_use]
pub fn mended(definition: &Tree, service: &Service, port: Option<i64>, bundle: &str) -> Option<Tree> {
    let wanted = by(client(PATH, service, port.unwrap_or(PORT), bundle));
    let injected = INJECTED.iter().any(|key| meta::annotation(definition, key).is_some());
    (injected || definition.at(&CONVERSION) != Some(&wanted)).then(|| instead(&wanted))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn versions_are_asked_for_at_our_service() {
        let service = Service { namespace: "n".to_owned(), name: "s".to_owned() };
        let upstream = tree!({"service": {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": "/convert", "port": 443}});
        let ours = tree!({"service": {"namespace": "n", "name": "s", "path": "/convert", "port": 9443}});
        for (says, conversion, known, want) in [
            ("as installed", by(ours), None, 9443),
            ("another's", by(upstream), None, 443),
            ("an address", by(tree!({"url": "https://127.0.0.1:1/convert", "caBundle": "old"})), Some(7), 7),
            ("nobody", tree!({"strategy": "None"}), Some(9443), 9443),
        ] {
            let before = tree!({"metadata": {"name": "d"}}).with(&CONVERSION, conversion);
            let port = port(&before, &service).or(known);
            let after = before.merge(&mended(&before, &service, port, "ours").unwrap());
            let asked = after.at(&["spec", "conversion", "webhook", "clientConfig"]).unwrap();
            assert_eq!((asked.get("url"), asked.str_at(&["caBundle"])), (None, "ours"), "{says}");
            assert_eq!(asked.int_at(&["service", "port"]), Some(want), "{says}");
            assert_eq!(after.str_at(&["spec", "conversion", "strategy"]), "Webhook", "{says}");
            assert_eq!(mended(&after, &service, Some(want), "ours"), None, "{says}: once is enough");
            let noted = after.with(&["metadata", "annotations"], Tree::map([(INJECTED[1], "a/b")]));
            assert!(
                mended(&noted, &service, Some(want), "ours").is_some(),
                "{says}: nobody else puts one there"
            );
        }
    }
}
