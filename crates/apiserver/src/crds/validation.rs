//! Validation of CustomResourceDefinitions.

use std::collections::BTreeSet;

use muster_schema::crd;
use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use crate::kinds::{FieldErrors, go_format};

const APPROVED: &str = "api-approved.kubernetes.io";

/// Validates the name of a new CRD.
pub(super) fn name(tree: &Tree, errors: &mut FieldErrors) {
    let spec = tree.get("spec").unwrap_or(&Tree::Null);
    let (plural, group) = (spec.str_at(&["names", "plural"]), spec.str_at(&["group"]));
    let name = tree.str_at(&["metadata", "name"]);
    if name != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
}

pub(super) fn definition(tree: &Tree, errors: &mut FieldErrors) {
    let spec = tree.get("spec").unwrap_or(&Tree::Null);
    let group = spec.str_at(&["group"]);
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
    let stored = tree.items_at(&["status", "storedVersions"]);
    for version in spec.items_at(&["versions"]).iter().filter(|v| v.bool_at(&["storage"]) == Some(true)) {
        let name = version.text_at(&["name"]);
        if !stored.is_empty() && !stored.contains(&Tree::from(&name)) {
            let why = format!("must have the storage version {name}");
            errors.push(FieldError::invalid("status.storedVersions", Tree::list(stored.to_vec()), why));
        }
    }
    if stored.is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid("status.storedVersions", Tree::Null, why));
    }
}

fn group(tree: &Tree, group: &str, errors: &mut FieldErrors) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let wrong = names::subdomain(group);
    named("spec.group", group, "", &wrong, errors);
    if wrong.is_empty() && group.split('.').count() < 2 {
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

/// Reports all problems of a name as one error.
fn named(path: &str, value: &str, lead: &str, wrong: &[String], errors: &mut FieldErrors) {
    if !wrong.is_empty() {
        errors.push(FieldError::invalid(path, value, format!("{lead}{}", wrong.join(","))));
    }
}

fn words(all: &Tree, errors: &mut FieldErrors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let word = all.str_at(&[key]);
        let path = format!("spec.names.{key}");
        if word.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if matches!(key, "plural" | "singular") {
            named(&path, word, "", &names::word(word), errors);
        } else {
            let lead = "may have mixed case, but should otherwise match: ";
            named(&path, word, lead, &names::word(&word.to_lowercase()), errors);
        }
    }
    if !all.str_at(&["kind"]).is_empty() && all.str_at(&["kind"]) == all.str_at(&["listKind"]) {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", all.str_at(&["listKind"]), why));
    }
    for key in ["shortNames", "categories"] {
        for (i, word) in all.items_at(&[key]).iter().filter_map(Tree::as_str).enumerate() {
            named(&format!("spec.names.{key}[{i}]"), word, "", &names::word(word), errors);
        }
    }
}

fn versions(spec: &Tree, errors: &mut FieldErrors) {
    let all = spec.items_at(&["versions"]);
    let mut seen = BTreeSet::new();
    let mut twice = false;
    for (i, version) in all.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        let name = version.str_at(&["name"]);
        let wrong = names::word(name);
        named(&format!("{path}.name"), name, "", &wrong, errors);
        if i == 0 && !name.is_empty() {
            // Go's internal type has the first version as `spec.version`, and validates it twice.
            named("spec.version", name, "", &wrong, errors);
        }
        twice |= !seen.insert(name);
        self::version(version, &path, all, i, errors);
    }
    if twice {
        let why = "must contain unique version names";
        errors.push(FieldError::invalid_as("spec.versions", &shown_versions(all), why));
    }
    let stored = all.iter().filter(|version| version.bool_at(&["storage"]) == Some(true)).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_as("spec.versions", &shown_versions(all), why));
    }
}

/// Formats versions as Go's internal type: values that all versions share are fields of the spec.
fn shown_versions(all: &[Tree]) -> String {
    const PARTS: [go_format::Part; 9] = [
        ("Name", "name", "\"\""),
        ("Served", "served", "false"),
        ("Storage", "storage", "false"),
        ("Deprecated", "deprecated", "false"),
        ("DeprecationWarning", "deprecationWarning", "null"),
        ("Schema", "schema", "null"),
        ("Subresources", "subresources", "null"),
        ("AdditionalPrinterColumns", "additionalPrinterColumns", "null"),
        ("SelectableFields", "selectableFields", "null"),
    ];
    let own = |version: &Tree| {
        let shared = COMMON.into_iter().filter(|key| is_common(all, key));
        shared.fold(version.clone(), |version, key| version.without_key(key))
    };
    go_format::all_typed(&all.iter().map(own).collect::<Vec<_>>(), &PARTS)
}

/// Fields that Go's conversion moves to the spec when all versions agree.
const COMMON: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

fn is_common(all: &[Tree], key: &str) -> bool {
    all.iter().all(|version| version.get(key) == all[0].get(key))
}

fn version(version: &Tree, path: &str, all: &[Tree], at: usize, errors: &mut FieldErrors) {
    // Shared values are validated once, under `spec`.
    // Errors in a shared value are reported once, under the path that Go's conversion gives it.
    let place = |key: &str| match (is_common(all, key), at) {
        (true, 0) => Some("spec"),
        (true, _) => None,
        (false, _) => Some(path),
    };
    schema(version, path, place("schema"), errors);
    if let Some(place) = place("additionalPrinterColumns") {
        for (i, column) in version.items_at(&["additionalPrinterColumns"]).iter().enumerate() {
            self::column(column, &format!("{place}.additionalPrinterColumns[{i}]"), errors);
        }
    }
    if let (Some(place), Some(scale)) = (place("subresources"), version.at(&["subresources", "scale"])) {
        self::scale(scale, &format!("{place}.subresources.scale"), errors);
    }
    if let (Some(place), Some(schema)) =
        (place("selectableFields"), version.at(&["schema", "openAPIV3Schema"]))
    {
        selectable(version, schema, place, errors);
    }
    if let Some(warning) = version.get("deprecationWarning").and_then(Tree::as_str) {
        let path = format!("{path}.deprecationWarning");
        for why in warning_problems(warning, version.bool_at(&["deprecated"]) == Some(true)) {
            errors.push(FieldError::invalid(&*path, warning, why));
        }
    }
}

/// Maximum length of `deprecationWarning`.
const WARNING_MAX: usize = 256;

fn warning_problems(warning: &str, deprecated: bool) -> Vec<String> {
    if !deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut wrong = Vec::new();
    if warning.len() > WARNING_MAX {
        wrong.push(format!("must be <= {WARNING_MAX} characters long"));
    }
    if warning.is_empty() {
        wrong.push("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        let why = "must only contain printable UTF-8 characters; non-printable character found at index";
        wrong.push(format!("{why} {at}"));
    }
    wrong
}

fn schema(version: &Tree, path: &str, place: Option<&str>, errors: &mut FieldErrors) {
    let base = format!("{path}.schema.openAPIV3Schema");
    let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) else {
        errors.push(FieldError::required(base, ""));
        return;
    };
    let base = match place {
        None => return,
        Some("spec") => crd::BASE,
        Some(_) => &base,
    };
    if let Err(found) = super::schema_cache::at(base, schema) {
        errors.extend(found);
    }
}

fn column(column: &Tree, path: &str, errors: &mut FieldErrors) {
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
    let formats = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let format = column.str_at(&["format"]);
    if !format.is_empty() && !formats.contains(&format) {
        let why = format!("must be one of {}", formats.join(","));
        errors.push(FieldError::invalid(format!("{path}.format"), format, why));
    }
    match column.str_at(&["jsonPath"]) {
        "" => errors.push(FieldError::required(format!("{path}.JSONPath"), "")),
        json_path => simple_path(json_path, &format!("{path}.JSONPath"), errors),
    }
}

fn simple_path(text: &str, path: &str, errors: &mut FieldErrors) {
    if !text.starts_with('.') {
        let why = "must be a simple json path starting with .";
        errors.push(FieldError::invalid(path, text, why));
    }
}

fn scale(scale: &Tree, path: &str, errors: &mut FieldErrors) {
    let selector = scale.str_at(&["labelSelectorPath"]);
    if !selector.is_empty() && !selector.starts_with('.') {
        simple_path(selector, &format!("{path}.labelSelectorPath"), errors);
    } else if !selector.is_empty() && !selector.starts_with(".spec.") && !selector.starts_with(".status.") {
        let why = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(format!("{path}.labelSelectorPath"), selector, why));
    }
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

/// Maximum number of `selectableFields`.
const SELECTABLE_MAX: usize = 8;

fn selectable(version: &Tree, schema: &Tree, path: &str, errors: &mut FieldErrors) {
    let list = format!("{path}.selectableFields");
    let mut seen = BTreeSet::new();
    for (i, field) in version.items_at(&["selectableFields"]).iter().enumerate() {
        let text = field.str_at(&["jsonPath"]);
        let path = format!("{list}[{i}].jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let found = text
            .strip_prefix('.')
            .and_then(|text| text.split('.').try_fold(schema, |at, step| at.at(&["properties", step])));
        let Some(found) = found else {
            let why = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(path, text, why));
            continue;
        };
        if text.starts_with(".metadata.") || text == ".metadata" {
            errors.push(FieldError::invalid(&*path, text, "must not point to fields in metadata"));
        }
        if !matches!(found.str_at(&["type"]), "string" | "integer" | "boolean") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&*path, text, why));
        }
        if !seen.insert(text) {
            errors.push(FieldError::duplicate(path, text));
        }
    }
    if seen.len() > SELECTABLE_MAX {
        errors.push(FieldError::too_many(list, seen.len(), SELECTABLE_MAX));
    }
}

fn conversion(spec: &Tree, errors: &mut FieldErrors) {
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

/// Validates an update of a CRD.
pub(super) fn changed(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
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
