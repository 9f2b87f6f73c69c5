//! What a webhook configuration needs so that the API server asks our Service and trusts it.
//!
//! Pure. Only the `clientConfig` of our hooks is ours to mend, and what would have another write over it.

use muster_api::meta;
use muster_install::hooks::{Configuration, INJECTED};
use muster_tree::{Tree, tree};

use super::Service;

/// The port of a Service that names none.
pub const PORT: i64 = 443;

/// Where the hook of this name is asked, if it is one of ours.
fn path(of: &Configuration, name: &str) -> Option<&'static str> {
    of.of().find(|hook| hook.name == name).map(|hook| hook.path)
}

/// The port by which this configuration asks our Service, if it does.
#[must_use]
pub fn port(of: &Configuration, configuration: &Tree, service: &Service) -> Option<i64> {
    let hooks = configuration.items_at(&["webhooks"]).iter();
    let ours = hooks.filter(|hook| path(of, hook.str_at(&["name"])).is_some());
    ours.filter_map(|hook| hook.at(&["clientConfig", "service"])).find_map(|it| {
        let same = it.str_at(&["name"]) == service.name && it.str_at(&["namespace"]) == service.namespace;
        it.int_at(&["port"]).filter(|_| same)
    })
}

/// The change that has our hooks ask this Service at this port, trusting these authorities (PEM, in base64); `None` when all is so.
#[must_use]
pub fn mended(
    of: &Configuration,
    configuration: &Tree,
    service: &Service,
    port: Option<i64>,
    bundle: &str,
) -> Option<Tree> {
    let hooks = configuration.get("webhooks").cloned().unwrap_or_else(|| tree!([]));
    let ours = hooks.map_items(|_, hook| match path(of, hook.str_at(&["name"])) {
        Some(path) => hook.with(&["clientConfig"], client(path, service, port.unwrap_or(PORT), bundle)),
        None => hook.clone(),
    });
    let injected: Vec<_> =
        INJECTED.into_iter().filter(|key| meta::annotation(configuration, key).is_some()).collect();
    if ours == hooks && injected.is_empty() {
        return None;
    }
    let notes = Tree::map(injected.into_iter().map(|key| (key, Tree::Null)));
    let patch = tree!({"webhooks": ours});
    Some(if notes.is_empty() { patch } else { patch.with(&["metadata", "annotations"], notes) })
}

/// How our Service is asked at this path.
pub fn client(path: &str, service: &Service, port: i64, bundle: &str) -> Tree {
    let service = tree!({
        "namespace": service.namespace.as_str(),
        "name": service.name.as_str(),
        "path": path,
        "port": port,
    });
    tree!({"service": service, "caBundle": bundle})
}

/// The names of hooks of ours that it lacks.
#[must_use]
pub fn lacks(of: &Configuration, configuration: &Tree) -> Vec<&'static str> {
    let hooks = configuration.items_at(&["webhooks"]);
    of.of()
        .map(|hook| hook.name)
        .filter(|name| !hooks.iter().any(|hook| hook.str_at(&["name"]) == *name))
        .collect()
}

#[cfg(test)]
mod tests {
    use muster_install::hooks::CONFIGURATIONS;

    use super::*;

    fn service() -> Service {
        Service { namespace: "muster-system".to_owned(), name: "muster-webhook".to_owned() }
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
    fn our_hooks_ask_our_service_and_others_are_left_alone() {
        let (of, service) = (&CONFIGURATIONS[4], service());
        let upstream = tree!({"service": {"namespace": "jobset-system", "name": "jobset-webhook-service", "path": "/p", "port": 443}});
        for (says, client, known, want) in [
            ("as installed", asks(9443, ""), None, 9443),
            ("an authority of another", asks(9443, "theirs"), None, 9443),
            ("another's Service", upstream.clone(), None, 443),
            ("another's Service, and the port was known", upstream, Some(9443), 9443),
            ("an address", tree!({"url": "https://127.0.0.1:1"}), Some(7), 7),
        ] {
            let before = configuration(&client);
            let port = port(of, &before, &service).or(known);
            let patch = mended(of, &before, &service, port, "ours").unwrap();
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
            assert_eq!(mended(of, &after, &service, Some(want), "ours"), None, "{says}: once is enough");
        }
    }

    #[test]
    fn nobody_else_puts_an_authority_there() {
        let (of, service) = (&CONFIGURATIONS[4], service());
        let fine = configuration(&asks(443, ""));
        let fine = fine.merge(&mended(of, &fine, &service, None, "ours").unwrap());
        let noted = fine.with(
            &["metadata", "annotations"],
            Tree::map([("cert-manager.io/inject-ca-from", "a/b"), ("kept", "yes")]),
        );
        let after = noted.merge(&mended(of, &noted, &service, None, "ours").unwrap());
        assert_eq!(after.get("metadata").unwrap().get("annotations"), Some(&tree!({"kept": "yes"})));
    }

    #[test]
    fn hooks_that_are_not_there() {
        assert!(lacks(&CONFIGURATIONS[4], &configuration(&tree!({}))).is_empty());
        assert_eq!(lacks(&CONFIGURATIONS[5], &tree!({})), ["vjobset.kb.io", "vpod.kb.io"]);
    }
}
