//! The operations of a resource.
//!
//! kubectl reads one thing here: whether PATCH of a kind supports `dryRun` and `fieldValidation`. The rest is for
//! code generators and people.

use muster_tree::{Text, Tree, tree};

use super::schema::{Components, kind_tag, reference};
use super::{DELETE_OPTIONS, STATUS};
use crate::registry::{ApiVersion, Resource, ServedSubresource};

const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
const PATCH: &[&str] = &["dryRun", "fieldManager", "fieldValidation", "force"];
const DELETE: &[&str] = &["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"];
const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
];
const PATCH_TYPES: &[&str] = &[
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

struct Operation {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    parameters: &'static [&'static str],
}

const fn operation(
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    parameters: &'static [&'static str],
) -> Operation {
    Operation { verb, method, action, parameters }
}

const ON_COLLECTION: &[Operation] = &[
    operation("list", "get", "list", LIST),
    operation("create", "post", "post", WRITE),
    operation("deletecollection", "delete", "deletecollection", DELETE),
];
const ON_OBJECT: &[Operation] = &[
    operation("get", "get", "get", &[]),
    operation("update", "put", "put", WRITE),
    operation("patch", "patch", "patch", PATCH),
    operation("delete", "delete", "delete", DELETE),
];
const ON_SUBRESOURCE: &[Operation] = &[
    operation("get", "get", "get", &[]),
    operation("create", "post", "post", WRITE),
    operation("update", "put", "put", WRITE),
    operation("patch", "patch", "patch", PATCH),
];

/// Shared by the operations of one path.
struct Place<'a> {
    tag: Tree,
    object: &'a str,
    list: &'a str,
    custom: bool,
    suffix: String,
}

/// The paths of a resource below `base`, each with its operations.
pub(super) fn of(
    resource: &Resource,
    version: &ApiVersion,
    base: &str,
    components: &mut Components,
) -> Vec<(String, Tree)> {
    let object = components.object(resource, version);
    let list = components.list(resource, version);
    let place = Place {
        tag: kind_tag(&resource.group, &version.name, &resource.kind),
        object: &object,
        list: &list,
        custom: resource.custom,
        suffix: format!("{}{}", if resource.namespaced { "Namespaced" } else { "" }, resource.kind),
    };
    let inner = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{base}{inner}/{}", resource.plural);
    let one = format!("{collection}/{{name}}");
    let mut all = Vec::new();
    if resource.namespaced && version.verbs.iter().any(|verb| verb == "list") {
        let everywhere = Place { suffix: format!("{}ForAllNamespaces", resource.kind), ..place.like() };
        let path = format!("{base}/{}", resource.plural);
        all.push((path.clone(), path_item(&path, &ON_COLLECTION[..1], &version.verbs, &everywhere)));
    }
    all.push((collection.clone(), path_item(&collection, ON_COLLECTION, &version.verbs, &place)));
    all.push((one.clone(), path_item(&one, ON_OBJECT, &version.verbs, &place)));
    for sub in &version.subresources {
        all.extend(subresource(sub, &format!("{one}/{}", sub.name), &place, components));
    }
    all.retain(|(_, item)| item.entries().len() > 1);
    all
}

impl<'a> Place<'a> {
    /// The path prefix without a suffix.
    fn like(&self) -> Place<'a> {
        Place { tag: self.tag.clone(), suffix: String::new(), ..*self }
    }
}

/// A subresource with an object schema; streams (`log`, `exec`) have none.
fn subresource(
    sub: &ServedSubresource,
    path: &str,
    of: &Place<'_>,
    components: &mut Components,
) -> Option<(String, Tree)> {
    if sub.name == "log" {
        return None;
    }
    let (group, version, kind) = &sub.response_kind;
    let tag = kind_tag(group, version, kind);
    let object = if tag == of.tag { Text::from(of.object) } else { components.kind(&sub.response_kind)? };
    let mut word = sub.name.to_string();
    word[..1].make_ascii_uppercase();
    let place = Place { tag, object: &object, suffix: format!("{}{word}", of.suffix), ..*of };
    Some((path.to_owned(), path_item(path, ON_SUBRESOURCE, &sub.verbs, &place)))
}

fn path_item(path: &str, operations: &[Operation], verbs: &[Text], place: &Place<'_>) -> Tree {
    let in_path = ["namespace", "name"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let parameters = in_path.map(|name| {
        tree!({"name": name, "in": "path", "required": true, "schema": {"type": "string", "uniqueItems": true}})
    });
    let served = operations.iter().filter(|operation| verbs.iter().any(|verb| verb == operation.verb));
    let mut entries: Vec<(&str, Tree)> = served.map(|o| (o.method, describe(o, place))).collect();
    entries.push(("parameters", Tree::list(parameters)));
    Tree::map(entries)
}

fn describe(operation: &Operation, place: &Place<'_>) -> Tree {
    let answer = match operation.action {
        "list" => place.list,
        "delete" | "deletecollection" => STATUS,
        _ => place.object,
    };
    let code = if operation.method == "post" { "201" } else { "200" };
    let content = tree!({"application/json": {"schema": reference(answer)}});
    let responses = Tree::map([(code, tree!({"description": "OK", "content": content}))]);
    let made = tree!({
        "operationId": format!("{}{}", operation.verb, place.suffix),
        "parameters": Tree::list(operation.parameters.iter().map(|name| query_parameter(name))),
        "responses": responses,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": &place.tag,
    });
    match body(operation, place) {
        Some(body) => made.with(&["requestBody"], body),
        None => made,
    }
}

fn body(operation: &Operation, place: &Place<'_>) -> Option<Tree> {
    let of = |types: &[&str], schema: Tree| {
        let content = types.iter().map(|media| (*media, tree!({"schema": &schema})));
        tree!({"content": Tree::map(content)})
    };
    match operation.method {
        "post" | "put" => Some(of(&["*/*"], reference(place.object)).with(&["required"], true)),
        // Custom resources do not support strategic merge patch.
        "patch" if place.custom => Some(of(&PATCH_TYPES[..3], tree!({"type": "object"}))),
        "patch" => Some(of(PATCH_TYPES, tree!({"type": "object"}))),
        "delete" => Some(of(&["*/*"], reference(DELETE_OPTIONS))),
        _ => None,
    }
}

fn query_parameter(name: &str) -> Tree {
    let kind = match name {
        "allowWatchBookmarks" | "force" | "orphanDependents" | "sendInitialEvents" | "watch" => "boolean",
        "gracePeriodSeconds" | "limit" | "timeoutSeconds" => "integer",
        _ => "string",
    };
    tree!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
}
