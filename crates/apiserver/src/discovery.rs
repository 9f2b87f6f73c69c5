//! API discovery: aggregated discovery and the five unaggregated documents.
//!
//! Documents are computed from the registry on demand; caching is up to HTTP.
//!
//! # Invariants
//!
//! - Groups have a fixed order: built-in ones as in kube-apiserver, then custom ones by name.
//! - Versions of a group are in order of preference.
//! - Equal registries give equal bytes, so that their hash is a valid `ETag`.
//!
//! # Deliberately absent
//!
//! Negotiation of `Accept` for `/api` and `/apis`: HTTP does it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_tree::{Text, Tree, tree};
use sha2::{Digest, Sha256};

use crate::registry::{ApiVersion, Resource, ServedSubresource};

/// Built-in groups in kube-apiserver's order.
const GROUP_ORDER: &[&str] = &[
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
];

/// The group that prefers its alpha version to beta: `kubectl get podgroup` shows the KEP's form.
const ALPHA_BEFORE_BETA: &str = "scheduling.k8s.io";

/// The version of aggregated discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveryVersion {
    V2,
    V2Beta1,
}

impl DiscoveryVersion {
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            DiscoveryVersion::V2 => "v2",
            DiscoveryVersion::V2Beta1 => "v2beta1",
        }
    }

    /// The media type of the response.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            DiscoveryVersion::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            DiscoveryVersion::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }
}

/// The root of aggregated discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// `/api`: the core group.
    Core,
    /// `/apis`: all others.
    Named,
}

/// `APIGroupDiscoveryList` for `/api` or `/apis`.
#[must_use]
pub fn aggregated(resources: &[Arc<Resource>], root: Root, form: DiscoveryVersion) -> Tree {
    let items = groups(resources).into_iter().filter(|g| g.is_empty() == (root == Root::Core));
    let items = items.map(|name| {
        let versions = group_versions(resources, &name);
        let versions = versions.iter().map(|version| aggregated_version(resources, &name, version));
        let meta = if name.is_empty() { Tree::empty_map() } else { tree!({"name": &name}) };
        tree!({"metadata": meta, "versions": Tree::list(versions)})
    });
    tree!({
        "apiVersion": format!("apidiscovery.k8s.io/{}", form.version()),
        "kind": "APIGroupDiscoveryList",
        "metadata": {},
        "items": Tree::list(items),
    })
}

/// `APIVersions`, the response of `GET /api`. `address` is the server's address.
#[must_use]
pub fn versions(address: &str) -> Tree {
    tree!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `APIGroupList`, the response of `GET /apis`.
#[must_use]
pub fn group_list(resources: &[Arc<Resource>]) -> Tree {
    let named = groups(resources).into_iter().filter(|g| !g.is_empty());
    let items = named.map(|name| group_entry(resources, &name));
    tree!({"kind": "APIGroupList", "apiVersion": "v1", "groups": Tree::list(items)})
}

/// `APIGroup`, the response of `GET /apis/<group>`; `None` when the group is not served.
#[must_use]
pub fn group(resources: &[Arc<Resource>], name: &str) -> Option<Tree> {
    let known = !name.is_empty() && resources.iter().any(|r| r.group == name && is_served(r));
    known.then(|| group_entry(resources, name).with(&["kind"], "APIGroup").with(&["apiVersion"], "v1"))
}

/// `APIResourceList`, the response of `GET /api/v1` and `GET /apis/<group>/<version>`; `None` when the version is not
/// served.
#[must_use]
pub fn resource_list(resources: &[Arc<Resource>], group: &str, version: &str) -> Option<Tree> {
    let served = served_at(resources, group, version);
    if served.is_empty() {
        return None;
    }
    let mut entries = Vec::new();
    for (resource, version) in served {
        entries.push(plain_resource(resource, version));
        let subs = sorted_subresources(version);
        entries.extend(subs.into_iter().map(|sub| plain_subresource(resource, version, sub)));
    }
    let of = group_version(group, version);
    Some(tree!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": of, "resources": entries}))
}

/// All served (group, version) pairs in discovery order.
#[must_use]
pub fn served_group_versions(resources: &[Arc<Resource>]) -> Vec<(Text, Text)> {
    let mut all = Vec::new();
    for group in groups(resources) {
        for version in group_versions(resources, &group) {
            all.push((group.clone(), version));
        }
    }
    all
}

/// The resources of a group version, by name.
#[must_use]
pub fn served_at<'a>(
    resources: &'a [Arc<Resource>],
    group: &str,
    version: &str,
) -> Vec<(&'a Resource, &'a ApiVersion)> {
    let mut found: Vec<(&Resource, &ApiVersion)> = resources
        .iter()
        .filter(|r| r.group == group)
        .filter_map(|r| Some((&**r, r.versions.iter().find(|v| v.served && v.name == version)?)))
        .collect();
    found.sort_by(|a, b| a.0.plural.cmp(&b.0.plural));
    found
}

/// `v1` for the core group, `batch/v1` for others.
#[must_use]
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[must_use]
pub fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", hash(bytes))
}

/// SHA-256 in upper-case hex, as kube-apiserver's.
#[must_use]
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02X}").expect("writing to a string never fails");
        text
    })
}

fn is_served(resource: &Resource) -> bool {
    resource.versions.iter().any(|v| v.served)
}

/// Served groups in discovery order.
fn groups(resources: &[Arc<Resource>]) -> Vec<Text> {
    let names: BTreeSet<&Text> = resources.iter().filter(|r| is_served(r)).map(|r| &r.group).collect();
    let place = |name: &Text| GROUP_ORDER.iter().position(|known| known == name).unwrap_or(GROUP_ORDER.len());
    let mut names: Vec<Text> = names.into_iter().cloned().collect();
    // A stable sort keeps custom groups in name order.
    names.sort_by_key(place);
    names
}

/// The served versions of a group, the preferred one first.
fn group_versions(resources: &[Arc<Resource>], group: &str) -> Vec<Text> {
    let of_group = resources.iter().filter(|r| r.group == group);
    let names: BTreeSet<&Text> =
        of_group.flat_map(|r| &r.versions).filter(|v| v.served).map(|v| &v.name).collect();
    let mut names: Vec<Text> = names.into_iter().cloned().collect();
    // The set iterates by name, so versions of equal rank stay in name order.
    names.sort_by_key(|name| std::cmp::Reverse(version_rank(group, name)));
    names
}

/// Version priority: stable before beta before alpha, then the larger number.
fn version_rank(group: &str, version: &str) -> (u8, u32, u32) {
    let Some((major, stage, minor)) = parse_version(version) else {
        return (0, 0, 0);
    };
    let stage = match stage {
        "" => 3,
        "alpha" if group == ALPHA_BEFORE_BETA => 2,
        "beta" if group == ALPHA_BEFORE_BETA => 1,
        "beta" => 2,
        _ => 1,
    };
    (stage, major, minor)
}

/// Parses `v2beta1` into `(2, "beta", 1)`; `None` for other forms.
fn parse_version(version: &str) -> Option<(u32, &str, u32)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().ok()?;
    let tail = &rest[digits..];
    for stage in ["alpha", "beta"] {
        if let Some(minor) = tail.strip_prefix(stage) {
            return Some((major, stage, minor.parse().ok()?));
        }
    }
    tail.is_empty().then_some((major, "", 0))
}

fn aggregated_version(resources: &[Arc<Resource>], group: &str, version: &str) -> Tree {
    let served = served_at(resources, group, version);
    let items = served.into_iter().map(|(resource, version)| aggregated_resource(resource, version));
    tree!({"version": version, "freshness": "Current", "resources": Tree::list(items)})
}

fn aggregated_resource(resource: &Resource, version: &ApiVersion) -> Tree {
    let own = (resource.group.clone(), version.name.clone(), resource.kind.clone());
    let scope = if resource.namespaced { "Namespaced" } else { "Cluster" };
    let mut entry = tree!({
        "resource": &resource.plural,
        "responseKind": response_kind(resource, version, &own),
        "scope": scope,
        "singularResource": &resource.singular,
        "verbs": sorted(&version.verbs),
    });
    entry = with_words(entry, "shortNames", &resource.short_names);
    entry = with_words(entry, "categories", &resource.categories);
    let subs = sorted_subresources(version);
    if subs.is_empty() {
        return entry;
    }
    let subs = subs.into_iter().map(|sub| {
        tree!({
            "subresource": &sub.name,
            "responseKind": response_kind(resource, version, &sub.response_kind),
            "verbs": sorted(&sub.verbs),
        })
    });
    entry.with(&["subresources"], Tree::list(subs))
}

/// The response kind. kube-apiserver leaves group and version empty when they equal those of the list, except for
/// custom resources.
fn response_kind(resource: &Resource, version: &ApiVersion, of: &(Text, Text, Text)) -> Tree {
    let (group, kind_version, kind) = of;
    // Clients read an empty group as that of the list.
    let same = *group == resource.group && *kind_version == version.name;
    if same && !resource.custom {
        return tree!({"group": "", "version": "", "kind": kind});
    }
    tree!({"group": group, "version": kind_version, "kind": kind})
}

fn group_entry(resources: &[Arc<Resource>], name: &str) -> Tree {
    let one = |version: &Text| tree!({"groupVersion": group_version(name, version), "version": version});
    let versions: Vec<Tree> = group_versions(resources, name).iter().map(one).collect();
    let preferred = versions.first().cloned();
    tree!({"name": name, "versions": versions, "preferredVersion": preferred})
}

fn plain_resource(resource: &Resource, version: &ApiVersion) -> Tree {
    let mut entry = tree!({
        "name": &resource.plural,
        "singularName": &resource.singular,
        "namespaced": resource.namespaced,
        "kind": &resource.kind,
        "verbs": sorted(&version.verbs),
    });
    entry = with_words(entry, "shortNames", &resource.short_names);
    entry = with_words(entry, "categories", &resource.categories);
    if version.verbs.iter().any(|verb| verb == "list") {
        entry = entry.with(&["storageVersionHash"], storage_version_hash(resource));
    }
    entry
}

fn plain_subresource(resource: &Resource, version: &ApiVersion, sub: &ServedSubresource) -> Tree {
    let (group, kind_version, kind) = &sub.response_kind;
    let entry = tree!({
        "name": format!("{}/{}", resource.plural, sub.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": kind,
        "verbs": sorted(&sub.verbs),
    });
    if *group == resource.group && *kind_version == version.name {
        return entry;
    }
    entry.with(&["group"], group).with(&["version"], kind_version)
}

/// An opaque hash by which clients detect a changed storage version.
fn storage_version_hash(resource: &Resource) -> String {
    let version = &resource.versions[resource.storage_version].name;
    let text = format!("{}/{}/{}", resource.group, version, resource.kind);
    BASE64_STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}

fn sorted_subresources(version: &ApiVersion) -> Vec<&ServedSubresource> {
    let mut subs: Vec<&ServedSubresource> = version.subresources.iter().collect();
    subs.sort_by(|a, b| a.name.cmp(&b.name));
    subs
}

fn sorted(words: &[Text]) -> Tree {
    let mut words = words.to_vec();
    words.sort();
    Tree::list(words)
}

fn with_words(entry: Tree, key: &str, words: &[Text]) -> Tree {
    if words.is_empty() { entry } else { entry.with(&[key], Tree::list(words)) }
}

#[cfg(test)]
mod tests {
    use muster_schema::node::{NodeId, Schema, SchemaRef};

    use super::*;

    fn texts(words: &[&str]) -> Vec<Text> {
        words.iter().map(|w| Text::from(*w)).collect()
    }

    fn resource(group: &str, plural: &str, kind: &str, versions: &[&str]) -> Arc<Resource> {
        let schema = SchemaRef { schema: Arc::new(Schema::default()), id: NodeId(0) };
        let version = |name: &&str| ApiVersion {
            name: Text::from(*name),
            served: true,
            schema: schema.clone(),
            verbs: texts(&["list", "get"]),
            subresources: vec![ServedSubresource {
                name: "status".into(),
                response_kind: (group.into(), Text::from(*name), kind.into()),
                verbs: texts(&["get"]),
                scale_paths: None,
            }],
            columns: vec![],
            selectable_fields: vec![],
            deprecation: Text::default(),
        };
        Arc::new(Resource {
            group: group.into(),
            plural: plural.into(),
            singular: kind.to_lowercase().into(),
            kind: kind.into(),
            list_kind: format!("{kind}List").into(),
            short_names: vec![],
            categories: texts(&["all"]),
            namespaced: true,
            versions: versions.iter().map(version).collect(),
            storage_version: 0,
            storage: plural.into(),
            custom: group.contains("example"),
            strategy: Arc::new(crate::kinds::DefaultStrategy),
        })
    }

    fn names(list: &Tree, path: &[&str]) -> Vec<String> {
        list.items().iter().map(|item| item.str_at(path).to_owned()).collect()
    }

    #[test]
    fn groups_and_versions_stand_in_the_order_of_preference() {
        let all = [
            resource("z.example.com", "zs", "Z", &["v1alpha1", "v10", "v2", "v1beta2", "odd"]),
            resource("a.example.com", "as", "A", &["v1"]),
            resource("scheduling.k8s.io", "podgroups", "PodGroup", &["v1beta1", "v1alpha1"]),
            resource("scheduling.k8s.io", "priorityclasses", "PriorityClass", &["v1"]),
            resource("batch", "jobs", "Job", &["v1"]),
            resource("", "pods", "Pod", &["v1"]),
        ];
        let list = group_list(&all);
        let groups = list.get("groups").unwrap();
        assert_eq!(
            names(groups, &["name"]),
            ["batch", "scheduling.k8s.io", "a.example.com", "z.example.com"]
        );
        assert_eq!(
            names(groups.items()[1].get("versions").unwrap(), &["version"]),
            ["v1", "v1alpha1", "v1beta1"]
        );
        assert_eq!(
            names(groups.items()[3].get("versions").unwrap(), &["version"]),
            ["v10", "v2", "v1beta2", "v1alpha1", "odd"]
        );
        assert_eq!(groups.items()[3].str_at(&["preferredVersion", "groupVersion"]), "z.example.com/v10");
    }

    #[test]
    fn the_core_group_stands_alone_at_its_own_root() {
        let all = [resource("batch", "jobs", "Job", &["v1"]), resource("", "pods", "Pod", &["v1"])];
        let core = aggregated(&all, Root::Core, DiscoveryVersion::V2);
        assert_eq!(core.items_at(&["items"]).len(), 1);
        assert_eq!(core.items_at(&["items"])[0].get("metadata"), Some(&Tree::empty_map()));
        let named = aggregated(&all, Root::Named, DiscoveryVersion::V2Beta1);
        assert_eq!(named.str_at(&["apiVersion"]), "apidiscovery.k8s.io/v2beta1");
        assert_eq!(names(named.get("items").unwrap(), &["metadata", "name"]), ["batch"]);
    }

    #[test]
    fn an_entry_says_what_a_real_server_says() {
        let all = [resource("batch", "cronjobs", "CronJob", &["v1"])];
        let list = resource_list(&all, "batch", "v1").unwrap();
        let entry = &list.items_at(&["resources"])[0];
        assert_eq!(entry.str_at(&["storageVersionHash"]), "sd5LIXh4Fjs=");
        assert_eq!(entry.get("verbs"), Some(&tree!(["get", "list"])));
        assert_eq!(names(list.get("resources").unwrap(), &["name"]), ["cronjobs", "cronjobs/status"]);
        assert_eq!(resource_list(&all, "batch", "v2"), None);
        assert_eq!(group(&all, "apps"), None);
    }
}
