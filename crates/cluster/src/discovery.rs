//! Aggregated discovery: the resources that a server serves.

use kube::Client;
use muster_api::client::Kind;
use muster_tree::{Text, Tree};

/// The media type of aggregated discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A served resource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedResource {
    /// Group, version and plural.
    pub kind: Kind,
    /// The `kind` of manifests.
    pub kind_name: Text,
    /// Whether it is namespaced.
    pub namespaced: bool,
}

/// All resources that support list and watch, each in the preferred version.
pub async fn kinds(client: &Client) -> Result<Vec<Kind>, kube::Error> {
    Ok(documents(client).await?.iter().flat_map(read).collect())
}

/// All resources that support create, in all versions.
pub async fn served(client: &Client) -> Result<Vec<ServedResource>, kube::Error> {
    Ok(documents(client).await?.iter().flat_map(read_served).collect())
}

async fn documents(client: &Client) -> Result<Vec<Tree>, kube::Error> {
    let mut all = Vec::new();
    for root in ["/api", "/apis"] {
        let request = http::Request::get(root).header(http::header::ACCEPT, AGGREGATED).body(Vec::new());
        let text = client.request_text(request.map_err(kube::Error::HttpError)?).await?;
        all.push(Tree::parse(text.as_bytes()).unwrap_or_default());
    }
    Ok(all)
}

/// The watchable kinds of a discovery document. Versions are in order of preference: the first with the resource wins.
fn read(document: &Tree) -> Vec<Kind> {
    let mut all: Vec<Kind> = Vec::new();
    for group in document.items_at(&["items"]) {
        let name = group.text_at(&["metadata", "name"]);
        for version in group.items_at(&["versions"]) {
            for resource in version.items_at(&["resources"]).iter().filter(|r| is_watchable(r)) {
                let plural = resource.text_at(&["resource"]);
                if !all.iter().any(|kind| kind.group == name && kind.plural == plural) {
                    all.push(Kind { group: name.clone(), version: version.text_at(&["version"]), plural });
                }
            }
        }
    }
    all
}

/// The creatable resources of a discovery document.
fn read_served(document: &Tree) -> Vec<ServedResource> {
    let mut all = Vec::new();
    for group in document.items_at(&["items"]) {
        for version in group.items_at(&["versions"]) {
            for resource in version.items_at(&["resources"]).iter().filter(|r| can(r, "create")) {
                let kind = Kind {
                    group: group.text_at(&["metadata", "name"]),
                    version: version.text_at(&["version"]),
                    plural: resource.text_at(&["resource"]),
                };
                let word = resource.text_at(&["responseKind", "kind"]);
                let namespaced = resource.str_at(&["scope"]) == "Namespaced";
                all.push(ServedResource { kind, kind_name: word, namespaced });
            }
        }
    }
    all
}

fn is_watchable(resource: &Tree) -> bool {
    ["list", "watch"].iter().all(|want| can(resource, want))
}

fn can(resource: &Tree, want: &str) -> bool {
    resource.items_at(&["verbs"]).iter().any(|verb| verb.as_str() == Some(want))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn every_version_of_what_can_be_made() {
        let resource = |plural: &str, word: &str, scope: &str| tree!({"resource": plural, "responseKind": {"kind": word}, "scope": scope, "verbs": ["create", "get"]});
        let (inside, outside) = (resource("as", "A", "Namespaced"), resource("as", "A", "Cluster"));
        let document = tree!({"items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "resources": [inside, {"resource": "cs", "verbs": ["get"]}]},
            {"version": "v1beta1", "resources": [outside]}]}]});
        let found = read_served(&document);
        let words = |s: &ServedResource| {
            format!("{}/{} {} {}", s.kind.group, s.kind.version, s.kind_name, s.namespaced)
        };
        assert_eq!(found.iter().map(words).collect::<Vec<_>>(), ["g/v1 A true", "g/v1beta1 A false"]);
    }

    #[test]
    fn the_preferred_version_of_what_can_be_followed() {
        let followed = tree!(["get", "list", "watch"]);
        let document = tree!({"items": [
            {"metadata": {}, "versions": [{"version": "v1", "resources": [
                {"resource": "pods", "verbs": followed.clone()}, {"resource": "bindings", "verbs": ["create"]}]}]},
            {"metadata": {"name": "g"}, "versions": [
                {"version": "v1", "resources": [{"resource": "as", "verbs": followed.clone()}]},
                {"version": "v1beta1", "resources": [
                    {"resource": "as", "verbs": followed.clone()}, {"resource": "bs", "verbs": followed}]}]},
        ]});
        let kind = |k: &Kind| format!("{}/{}/{}", k.group, k.version, k.plural);
        let found: Vec<String> = read(&document).iter().map(kind).collect();
        assert_eq!(found, ["/v1/pods", "g/v1/as", "g/v1beta1/bs"]);
    }
}
