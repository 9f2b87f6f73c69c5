//! What a definition of a custom resource may say.

use std::collections::BTreeSet;

use muster_schema::crd;
use muster_schema::error::FieldError;
use muster_tree::Tree;

use crate::engine::names;
use crate::kinds::Errors;

const APPROVED: &str = "api-approved.kubernetes.io";

/// What is wrong with a definition.
pub(super) fn definition(tree: &Tree, errors: &mut Errors) {
    let spec = tree.get("spec").unwrap_or(&Tree::Null);
    let (plural, group) = (spec.str_at(&["names", "plural"]), spec.str_at(&["group"]));
    let name = tree.str_at(&["metadata", "name"]);
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    self::group(tree, group, errors);
    match spec.str_at(&["scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, ["Cluster", "Namespaced"])),
    }
    versions(spec, errors);
    words(spec.get("names").unwrap_or(&Tree::Null), errors);
    conversion(spec, errors);
    if spec.bool_at(&["preserveUnknownFields"]) == Some(true) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, why));
    }
    if tree.items_at(&["status", "storedVersions"]).is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", Tree::Null, why));
    }
}

fn group(tree: &Tree, group: &str, errors: &mut Errors) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    errors
        .extend(names::subdomain(group).into_iter().map(|why| FieldError::invalid("spec.group", group, why)));
    if group.split('.').count() < 2 {
        let why = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group, why));
    }
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|end| group == *end || group.ends_with(&format!(".{end}")));
    if protected && tree.at(&["metadata", "annotations", APPROVED]).is_none() {
        let why = format!(
            "protected groups must have approval annotation {APPROVED:?}, see https://github.com/kubernetes/enhancements/pull/1111"
        );
        errors.push(FieldError::required(format!("metadata.annotations[{APPROVED}]"), why));
    }
}

fn words(all: &Tree, errors: &mut Errors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let word = all.str_at(&[key]);
        let path = format!("spec.names.{key}");
        if word.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let wrong = names::label(&word.to_lowercase()).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(&*path, word, why)));
        if matches!(key, "plural" | "singular") && word != word.to_lowercase() {
            let wrong = names::label(word).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(&*path, word, why)));
        }
    }
    if !all.str_at(&["kind"]).is_empty() && all.str_at(&["kind"]) == all.str_at(&["listKind"]) {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", all.str_at(&["listKind"]), why));
    }
    for key in ["shortNames", "categories"] {
        for (i, word) in all.items_at(&[key]).iter().filter_map(Tree::as_str).enumerate() {
            let wrong = names::label(word).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(format!("spec.names.{key}[{i}]"), word, why)));
        }
    }
}

fn versions(spec: &Tree, errors: &mut Errors) {
    let all = spec.items_at(&["versions"]);
    let mut seen = BTreeSet::new();
    let mut twice = false;
    for (i, version) in all.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let name = version.str_at(&["name"]);
        let wrong = names::label(name).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(format!("{path}.name"), name, why)));
        twice |= !seen.insert(name);
        self::version(version, &path, all.len(), errors);
    }
    let shown = || spec.get("versions").cloned().unwrap_or(Tree::Null);
    if twice {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    let stored = all.iter().filter(|version| version.bool_at(&["storage"]) == Some(true)).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), why));
    }
}

fn version(version: &Tree, path: &str, count: usize, errors: &mut Errors) {
    // With one version, the real server speaks of its parts as parts of the spec.
    let short = if count == 1 { "spec" } else { path };
    let base = format!("{path}.schema.openAPIV3Schema");
    match version.at(&["schema", "openAPIV3Schema"]) {
        None => errors.push(FieldError::required(&*base, "")),
        Some(schema) => {
            let base = if count == 1 { crd::BASE } else { &base };
            match crd::compile_at(base, schema) {
                Ok(compiled) => {
                    super::check_rules(&compiled, base, errors);
                    selectable(version, schema, short, errors);
                }
                Err(found) => errors.extend(found),
            }
        }
    }
    for (i, column) in version.items_at(&["additionalPrinterColumns"]).iter().enumerate() {
        self::column(column, &format!("{short}.additionalPrinterColumns[{i}]"), errors);
    }
    if let Some(scale) = version.at(&["subresources", "scale"]) {
        self::scale(scale, &format!("{short}.subresources.scale"), errors);
    }
    if version.get("deprecationWarning").is_some() && version.bool_at(&["deprecated"]) != Some(true) {
        let why = "can only be set for deprecated versions";
        let value = version.text_at(&["deprecationWarning"]);
        errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), value, why));
    }
}

fn column(column: &Tree, path: &str, errors: &mut Errors) {
    if column.str_at(&["name"]).is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let words = ["boolean", "date", "integer", "number", "string"];
    match column.str_at(&["type"]) {
        "" => errors.push(FieldError::required(
            format!("{path}.type"),
            format!("must be one of {}", words.join(",")),
        )),
        word if !words.contains(&word) => {
            let why = format!("must be one of {}", words.join(","));
            errors.push(FieldError::invalid(format!("{path}.type"), word, why));
        }
        _ => {}
    }
    match column.str_at(&["jsonPath"]) {
        "" => errors.push(FieldError::required(format!("{path}.JSONPath"), "")),
        json_path => simple_path(json_path, &format!("{path}.JSONPath"), errors),
    }
}

fn simple_path(text: &str, path: &str, errors: &mut Errors) {
    if !text.starts_with('.') {
        let why = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(path, text, why));
    }
}

fn scale(scale: &Tree, path: &str, errors: &mut Errors) {
    for (key, start) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let text = scale.str_at(&[key]);
        let path = format!("{path}.{key}");
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !text.starts_with('.') {
            simple_path(text, &path, errors);
        } else if !text.starts_with(start) {
            let why = format!("should be a json path under {}", start.trim_end_matches('.'));
            errors.push(FieldError::invalid(path, text, why));
        }
    }
}

fn selectable(version: &Tree, schema: &Tree, path: &str, errors: &mut Errors) {
    for (i, field) in version.items_at(&["selectableFields"]).iter().enumerate() {
        let text = field.str_at(&["jsonPath"]);
        let path = format!("{path}.selectableFields[{i}].jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let steps = text.trim_start_matches('.').split('.');
        let found = steps.clone().try_fold(schema, |at, step| at.at(&["properties", step]));
        match found.map(|node| node.str_at(&["type"])) {
            None => {
                let why = "is an invalid path: does not refer to a valid field";
                errors.push(FieldError::invalid(path, text, why));
            }
            Some("string" | "integer" | "boolean") if !text.starts_with(".metadata.") => {}
            Some(_) => {
                let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                errors.push(FieldError::invalid(path, text, why));
            }
        }
    }
}

fn conversion(spec: &Tree, errors: &mut Errors) {
    match spec.str_at(&["conversion", "strategy"]) {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" => {
            if spec.at(&["conversion", "webhook"]).is_some() {
                let why = "should not be set when strategy is not set to Webhook";
                errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", why));
            }
        }
        "Webhook" => {
            let why = "conversion webhooks are not served by this server; use strategy None";
            errors.push(FieldError::invalid("spec.conversion.strategy", "Webhook", why));
        }
        other => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, ["None", "Webhook"]));
        }
    }
}

/// What is wrong with a change of a definition.
pub(super) fn changed(new: &Tree, old: &Tree, errors: &mut Errors) {
    for (path, shown) in [
        (&["spec", "group"][..], "spec.group"),
        (&["spec", "scope"], "spec.scope"),
        (&["spec", "names", "kind"], "spec.names.kind"),
        (&["spec", "names", "plural"], "spec.names.plural"),
    ] {
        let always = shown.ends_with("group") || shown.ends_with("plural");
        if (always || super::is_true(old, "Established")) && new.at(path) != old.at(path) {
            errors.push(FieldError::invalid(shown, new.text_at(path), "field is immutable"));
        }
    }
    let versions: Vec<&str> =
        new.items_at(&["spec", "versions"]).iter().map(|v| v.str_at(&["name"])).collect();
    let stored = old.items_at(&["status", "storedVersions"]).iter().filter_map(Tree::as_str);
    for (i, version) in stored.enumerate().filter(|(_, version)| !versions.contains(version)) {
        let why = format!(
            "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {version} and removes {version} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("status.storedVersions[{i}]"), version, why));
    }
}
