//! Which kinds a server has.

use kube::Client;
use muster_api::port::Kind;
use muster_tree::{Text, Tree};

/// The form that lists everything in one answer.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// All kinds that can be followed, each in the version the server prefers.
pub async fn kinds(client: &Client) -> Result<Vec<Kind>, kube::Error> {
    let mut all = Vec::new();
    for root in ["/api", "/apis"] {
        let request = http::Request::get(root).header(http::header::ACCEPT, AGGREGATED).body(Vec::new());
        let text = client.request_text(request.map_err(kube::Error::HttpError)?).await?;
        all.extend(read(&Tree::parse(text.as_bytes()).unwrap_or_default()));
    }
    Ok(all)
}

/// The kinds in a discovery document. Versions stand in order of preference: the first that has a resource wins.
fn read(document: &Tree) -> Vec<Kind> {
    let mut all: Vec<Kind> = Vec::new();
    for group in document.items_at(&["items"]) {
        let name = group.text_at(&["metadata", "name"]);
        for version in group.items_at(&["versions"]) {
            for resource in version.items_at(&["resources"]).iter().filter(|r| can_be_followed(r)) {
                let plural = resource.text_at(&["resource"]);
                if !all.iter().any(|kind| kind.group == name && kind.plural == plural) {
                    all.push(Kind { group: name.clone(), version: version.text_at(&["version"]), plural });
                }
            }
        }
    }
    all
}

fn can_be_followed(resource: &Tree) -> bool {
    let verbs: Vec<Text> = resource.items_at(&["verbs"]).iter().map(|verb| verb.text_at(&[])).collect();
    ["list", "watch"].iter().all(|want| verbs.iter().any(|verb| verb == want))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

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
