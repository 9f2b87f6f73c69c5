//! Reconciles an APIService of the visibility API: service reference and CA bundle.
//!
//! Pure.

use muster_api::meta;
use muster_install::webhooks::CA_INJECTION_ANNOTATIONS;
use muster_tree::{Tree, tree};

use super::ServiceRef;
use super::webhook_configurations::PORT;

/// The port of our Service in this APIService, if it references our Service.
#[must_use]
pub fn service_port(there: &Tree, service: &ServiceRef) -> Option<i64> {
    let asked = there.at(&["spec", "service"])?;
    let same = asked.str_at(&["name"]) == service.name && asked.str_at(&["namespace"]) == service.namespace;
    asked.int_at(&["port"]).filter(|_| same)
}

/// The merge patch that has an APIService reference this Service and trust this CA bundle (PEM, base64); `None` when it does.
#[must_use]
pub fn ca_patch(there: &Tree, service: &ServiceRef, port: Option<i64>, bundle: &str) -> Option<Tree> {
    let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
    let asked = tree!({"namespace": namespace, "name": name, "port": port.unwrap_or(PORT)});
    let injected = CA_INJECTION_ANNOTATIONS.iter().any(|key| meta::annotation(there, key).is_some());
    let trusts = there.str_at(&["spec", "caBundle"]) == bundle
        && there.bool_at(&["spec", "insecureSkipTLSVerify"]) != Some(true);
    if trusts && !injected && there.at(&["spec", "service"]) == Some(&asked) {
        return None;
    }
    let notes = Tree::map(CA_INJECTION_ANNOTATIONS.map(|key| (key, Tree::Null)));
    Some(tree!({"metadata": {"annotations": notes},
        "spec": {"service": asked, "caBundle": bundle, "insecureSkipTLSVerify": false}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_service_is_referenced_and_trusted() {
        let service = ServiceRef { namespace: "n".to_owned(), name: "s".to_owned() };
        let upstream = tree!({"service": {"namespace": "kueue-system", "name": "kueue-visibility-server", "port": 443},
                "insecureSkipTLSVerify": true});
        let ours = tree!({"service": {"namespace": "n", "name": "s", "port": 9443}});
        for (says, spec, known, want) in [
            ("as installed", ours.clone(), None, 9443),
            ("an authority of another", ours.with(&["caBundle"], "theirs"), None, 9443),
            ("another's", upstream.clone(), None, 443),
            ("another's, and the port was known", upstream, Some(9443), 9443),
        ] {
            let before = tree!({"metadata": {"name": "a"}, "spec": spec});
            let port = service_port(&before, &service).or(known);
            let after = before.merge(&ca_patch(&before, &service, port, "ours").unwrap());
            assert_eq!(after.int_at(&["spec", "service", "port"]), Some(want), "{says}");
            assert_eq!(after.str_at(&["spec", "caBundle"]), "ours", "{says}");
            assert_eq!(after.bool_at(&["spec", "insecureSkipTLSVerify"]), Some(false), "{says}");
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
