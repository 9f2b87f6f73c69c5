//! The built-in resources, built from the schema table; rows of several versions become one resource.

use std::sync::Arc;

use muster_schema::node::SchemaRef;
use muster_schema::table::{self, KindRow, SubRow};
use muster_tree::Text;

use super::{ApiVersion, Resource, ServedSubresource};
use crate::kinds;

/// Resources of the schema table that are not served.
const NOT_SERVED: [(&str, &str); 2] = [("", "componentstatuses"), ("apiregistration.k8s.io", "apiservices")];

/// Served subresources: by the engine, or by kubelets.
const SUBRESOURCES: [&str; 12] = [
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "finalize",
    "log",
    "portforward",
    "resize",
    "scale",
    "status",
    "token",
];

#[must_use]
pub fn builtin() -> Vec<Arc<Resource>> {
    let table = table::builtin();
    let mut found: Vec<Resource> = Vec::new();
    let rows = table.kinds.iter().filter(|row| !row.plural.is_empty());
    for row in rows.filter(|row| !NOT_SERVED.contains(&(row.group.as_str(), row.plural.as_str()))) {
        let schema = SchemaRef { schema: table.schema.clone(), id: row.root };
        let version = version(row, schema);
        match found.iter_mut().find(|r| r.group == row.group && r.plural == row.plural) {
            Some(resource) => resource.versions.push(version),
            None => found.push(resource(row, version)),
        }
    }
    found.sort_by_key(place_in_group);
    found.into_iter().map(|resource| Arc::new(ordered(resource))).collect()
}

/// Stable kinds come before others of their group.
fn place_in_group(resource: &Resource) -> (Text, bool, Text) {
    let stable = resource.versions.iter().any(|v| v.name == "v1");
    (resource.group.clone(), !stable, resource.plural.clone())
}

fn resource(row: &KindRow, version: ApiVersion) -> Resource {
    Resource {
        group: row.group.clone(),
        plural: row.plural.clone(),
        singular: row.singular.clone(),
        kind: row.kind.clone(),
        list_kind: row.list_kind.clone(),
        short_names: row.short_names.clone(),
        categories: row.categories.clone(),
        namespaced: row.namespaced,
        versions: vec![version],
        storage_version: 0,
        storage: storage_name(&row.group, &row.plural),
        custom: false,
        strategy: kinds::strategy(&row.group, &row.plural),
    }
}

/// The storage name: `pods`, `jobs.batch`. Events of both groups are the same objects.
#[must_use]
pub fn storage_name(group: &str, plural: &str) -> Text {
    match (group, plural) {
        ("", _) | ("events.k8s.io", "events") => Text::from(plural),
        _ => Text::from(format!("{plural}.{group}")),
    }
}

fn version(row: &KindRow, schema: SchemaRef) -> ApiVersion {
    let served = row.subresources.iter().filter(|sub| SUBRESOURCES.contains(&sub.name.as_str()));
    ApiVersion {
        name: row.version.clone(),
        served: true,
        schema,
        verbs: row.verbs.clone(),
        subresources: served.map(subresource).collect(),
        columns: Vec::new(),
        selectable_fields: Vec::new(),
        deprecation: deprecation(row),
    }
}

/// The warning for deprecated versions.
fn deprecation(row: &KindRow) -> Text {
    // Upstream's prerelease lifecycle of the API versions in Kubernetes 1.37.
    let (since, until) = match (row.group.as_str(), row.version.as_str(), row.plural.as_str()) {
        ("resource.k8s.io", "v1beta1", _) => ("1.35", "1.38"),
        ("resource.k8s.io", "v1beta2", _) => ("1.36", "1.39"),
        ("", "v1", "endpoints") => {
            let instead = "use discovery.k8s.io/v1 EndpointSlice";
            return Text::from(format!("v1 Endpoints is deprecated in v1.33+; {instead}"));
        }
        _ => return Text::new(),
    };
    let (group, version, kind) = (&row.group, &row.version, &row.kind);
    Text::from(format!("{group}/{version} {kind} is deprecated in v{since}+, unavailable in v{until}+"))
}

fn subresource(row: &SubRow) -> ServedSubresource {
    ServedSubresource {
        name: row.name.clone(),
        response_kind: row.response_kind.clone(),
        verbs: row.verbs.clone(),
        scale_paths: None,
    }
}

/// The versions in order of preference, and the storage version.
fn ordered(mut resource: Resource) -> Resource {
    let group = resource.group.clone();
    resource.versions.sort_by_key(|version| rank(&group, &version.name));
    // The first is stored: v1 where it exists, else `v1alpha1` of the gang kinds.
    resource.storage_version = 0;
    resource
}

fn rank(group: &str, version: &str) -> u8 {
    match (group, version) {
        (_, "v1") => 0,
        // `v1alpha1` comes before `v1beta1`: the KEP's form is the more expressive one.
        ("scheduling.k8s.io", "v1alpha1") => 1,
        (_, "v1beta2") => 2,
        (_, "v1beta1") => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_one_resource_stand_together() {
        let all = builtin();
        let find = |group: &str, plural: &str| {
            let found = all.iter().find(|r| r.group == group && r.plural == plural);
            found.unwrap_or_else(|| panic!("{plural}.{group} is served")).clone()
        };
        let versions = |r: &Resource| r.versions.iter().map(|v| v.name.to_string()).collect::<Vec<_>>();
        assert_eq!(versions(&find("resource.k8s.io", "resourceclaims")), ["v1", "v1beta2", "v1beta1"]);
        assert_eq!(versions(&find("scheduling.k8s.io", "podgroups")), ["v1alpha1", "v1beta1"]);
        assert_eq!(find("events.k8s.io", "events").storage, find("", "events").storage);
        assert!(find("", "pods").has_status(0));
        assert!(!all.iter().any(|r| r.plural == "componentstatuses"));
        for resource in &all {
            assert!(!resource.versions[0].verbs.is_empty(), "{} has verbs", resource.plural);
        }
    }
}
