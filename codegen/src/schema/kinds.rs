//! The served kinds and their discovery.

use std::path::Path;

use serde_json::{Value, json};

use super::read_json;

/// Group, version, and the kinds that are not served.
const SERVED: &[(&str, &str, &[&str])] = &[
    ("", "v1", &["ComponentStatus"]),
    ("admissionregistration.k8s.io", "v1", &[]),
    ("apiextensions.k8s.io", "v1", &[]),
    ("apiregistration.k8s.io", "v1", &[]),
    ("apps", "v1", &[]),
    ("authentication.k8s.io", "v1", &[]),
    ("authorization.k8s.io", "v1", &[]),
    ("batch", "v1", &[]),
    ("coordination.k8s.io", "v1", &[]),
    ("discovery.k8s.io", "v1", &[]),
    ("events.k8s.io", "v1", &[]),
    ("networking.k8s.io", "v1", &[]),
    ("node.k8s.io", "v1", &[]),
    ("policy", "v1", &[]),
    ("rbac.authorization.k8s.io", "v1", &[]),
    ("resource.k8s.io", "v1", &[]),
    ("resource.k8s.io", "v1beta1", &[]),
    ("resource.k8s.io", "v1beta2", &[]),
    ("scheduling.k8s.io", "v1", &[]),
    ("scheduling.k8s.io", "v1beta1", &[]),
    ("storage.k8s.io", "v1", &[]),
];

/// Kinds of request or response bodies without a resource: group, version, kind.
const WITHOUT_RESOURCE: &[(&str, &str, &str)] = &[
    ("", "v1", "DeleteOptions"),
    ("", "v1", "Status"),
    ("", "v1", "APIResourceList"),
    ("", "v1", "APIGroup"),
    ("", "v1", "APIGroupList"),
    ("", "v1", "APIVersions"),
    ("", "v1", "WatchEvent"),
    ("autoscaling", "v1", "Scale"),
    ("authentication.k8s.io", "v1", "TokenRequest"),
    ("policy", "v1", "Eviction"),
];

/// Returns one row per served resource, then the kinds without one.
pub fn read(discovery: &Path) -> Result<Vec<Value>, String> {
    let mut rows = Vec::new();
    for (group, version, left_out) in SERVED {
        let file = match *group {
            "" => format!("api__{version}.json"),
            group => format!("apis__{group}__{version}.json"),
        };
        let document = read_json(&discovery.join(file))?;
        let resources = document["resources"].as_array().ok_or("a discovery document without resources")?;
        let is_left_out = |row: &&Value| left_out.iter().any(|kind| row["kind"] == **kind);
        let mains = resources.iter().filter(|row| is_main(row) && !is_left_out(row));
        rows.extend(mains.map(|main| row(group, version, main, resources)));
    }
    rows.extend(WITHOUT_RESOURCE.iter().map(|(g, v, k)| json!({"group": g, "version": v, "kind": k})));
    Ok(rows)
}

fn name(row: &Value) -> &str {
    row["name"].as_str().unwrap_or_default()
}

fn is_main(row: &Value) -> bool {
    !name(row).contains('/')
}

fn row(group: &str, version: &str, main: &Value, all: &[Value]) -> Value {
    let prefix = format!("{}/", name(main));
    let subresources: Vec<Value> = all
        .iter()
        .filter_map(|row| {
            let sub = name(row).strip_prefix(&prefix)?;
            let or = |key: &str, own: &str| row[key].as_str().unwrap_or(own).to_owned();
            Some(json!({
                "name": sub, "group": or("group", group), "version": or("version", version),
                "kind": row["kind"], "verbs": row["verbs"],
            }))
        })
        .collect();
    let kind = main["kind"].as_str().unwrap_or_default();
    json!({
        "group": group, "version": version, "kind": kind, "listKind": format!("{kind}List"),
        "plural": main["name"], "singular": main["singularName"], "namespaced": main["namespaced"],
        "verbs": main["verbs"], "shortNames": main["shortNames"], "categories": main["categories"],
        "subresources": subresources,
    })
}
