//! Rows of RBAC, admission and API extension kinds.

use muster_tree::Tree;

use super::cells::{Row, UNSET, cells, selector, words};

pub(super) fn binding(row: &Row<'_>) -> Vec<Tree> {
    let role = format!("{}/{}", row.text(&["roleRef", "kind"]), row.text(&["roleRef", "name"]));
    let subjects = |kind: &str| {
        let all = row.object.items_at(&["subjects"]).iter().filter(|s| s.str_at(&["kind"]) == kind);
        let names = all.map(|s| match kind {
            "ServiceAccount" => format!("{}/{}", s.str_at(&["namespace"]), s.str_at(&["name"])),
            _ => s.str_at(&["name"]).to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    cells![row.name(), role, row.age(), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

pub(super) fn webhooks(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), row.count(&["webhooks"]), row.age()]
}

pub(super) fn admission_policy(row: &Row<'_>) -> Vec<Tree> {
    let params = row.object.at(&["spec", "paramKind"]).map_or(UNSET.to_owned(), |params| {
        format!("{}/{}", params.str_at(&["apiVersion"]), params.str_at(&["kind"]))
    });
    cells![row.name(), row.count(&["spec", "validations"]), params, row.age()]
}

pub(super) fn admission_policy_binding(row: &Row<'_>) -> Vec<Tree> {
    let params = row.object.at(&["spec", "paramRef"]).map_or(UNSET.to_owned(), |params| {
        match (params.str_at(&["namespace"]), params.str_at(&["name"])) {
            (_, "") => selector(params.get("selector")),
            ("", name) => format!("*/{name}"),
            (namespace, name) => format!("{namespace}/{name}"),
        }
    });
    cells![row.name(), row.text(&["spec", "policyName"]), params, row.age()]
}

pub(super) fn custom_resource_definition(row: &Row<'_>) -> Vec<Tree> {
    let served =
        row.object.items_at(&["spec", "versions"]).iter().filter(|v| v.bool_at(&["served"]) == Some(true));
    let label = |version: &Tree| {
        let stored = version.bool_at(&["storage"]) == Some(true);
        format!("{}{}", version.str_at(&["name"]), if stored { "(storage)" } else { "" })
    };
    let mut versions: Vec<String> = served.map(label).collect();
    versions.sort();
    cells![
        row.name(),
        row.text(&["spec", "scope"]),
        versions.join(","),
        row.created(),
        row.text(&["spec", "group"]),
        row.text(&["spec", "names", "kind"]),
        words(row.object.items_at(&["spec", "names", "shortNames"])),
        row.holds("Established"),
    ]
}

pub(super) fn api_service(row: &Row<'_>) -> Vec<Tree> {
    let service = row.object.at(&["spec", "service"]).map_or("Local".to_owned(), |service| {
        format!("{}/{}", service.str_at(&["namespace"]), service.str_at(&["name"]))
    });
    let available = match row.condition("Available") {
        Some(_) if row.holds("Available") => "True".to_owned(),
        Some(found) => format!("{} ({})", found.str_at(&["status"]), found.str_at(&["reason"])),
        None => "Unknown".to_owned(),
    };
    cells![row.name(), service, available, row.age()]
}
