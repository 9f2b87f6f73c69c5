//! Validates the keywords of a CRD schema: where they are allowed, and in which combinations.

use muster_tree::Tree;

use super::keywords::{
    EMBEDDED, LIST_KEYS, LIST_TYPE, MAP_TYPE, META_KEYS, PRESERVE, RULES, additional, allows_any, clauses,
    default, flag, items, properties, property_path, text,
};
use crate::error::{FieldError, Problem};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
/// Keywords of JSON Schema that Kubernetes does not know.
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

/// What holds for a whole part of a schema.
#[derive(Clone, Copy, Default)]
struct Inside<'a> {
    /// The root of the resource.
    root: bool,
    /// In the description of an object's own metadata.
    meta: bool,
    /// Why there may be no defaults.
    no_defaults: Option<&'a str>,
}

/// Everything wrong with the keywords of a schema.
pub(super) fn check(base: &str, schema: &Tree) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, base, Inside { root: true, ..Inside::default() }, &mut errors);
    errors
}

/// Whether this error means that the schema cannot be read as a structural one at all.
pub(super) fn is_unsupported(error: &FieldError) -> bool {
    (error.problem == Problem::Forbidden && error.detail.ends_with("is not supported"))
        || error.detail.starts_with("items must be a schema object")
        || error.path.ends_with(PRESERVE)
}

fn walk(schema: &Tree, path: &str, inside: Inside<'_>, errors: &mut Vec<FieldError>) {
    check_words(schema, path, inside, errors);
    check_additional(schema, path, errors);
    check_below(schema, path, inside, errors);
    check_map_type(schema, path, errors);
    check_list_type(schema, path, errors);
    check_list_keys(schema, path, errors);
    check_key_fields(schema, path, errors);
    for (i, rule) in schema.items_at(&[RULES]).iter().enumerate() {
        check_rule(schema, rule, &format!("{path}.{RULES}[{i}]"), errors);
    }
}

fn check_below(schema: &Tree, path: &str, inside: Inside<'_>, errors: &mut Vec<FieldError>) {
    let below = Inside { root: false, ..inside };
    if let Some(values) = additional(schema) {
        let why = Some("inside additionalProperties applying to object metadata").filter(|_| inside.meta);
        let below = Inside { no_defaults: why.or(below.no_defaults), ..below };
        walk(values, &format!("{path}.additionalProperties"), below, errors);
    }
    for (name, field) in properties(schema) {
        let meta = (inside.root || flag(schema, EMBEDDED)) && META_KEYS.contains(&name.as_str());
        let why = format!("in top-level {name}");
        let no_defaults = if meta && inside.root { Some(why.as_str()) } else { below.no_defaults };
        let below = Inside { meta: meta || below.meta, no_defaults, ..below };
        walk(field, &property_path(path, name), below, errors);
    }
    for (path, clause) in clauses(schema, path) {
        walk(clause, &path, below, errors);
    }
    if let Some(item) = items(schema) {
        walk(item, &format!("{path}.items"), below, errors);
    }
}

fn check_words(schema: &Tree, path: &str, inside: Inside<'_>, errors: &mut Vec<FieldError>) {
    let at = |key: &str| format!("{path}.{key}");
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(at("type"), kind, TYPES));
    }
    if let (Some(_), Some(why)) = (default(schema), inside.no_defaults) {
        errors.push(FieldError::forbidden(at("default"), format!("must not be set {why}")));
    }
    for word in UNSUPPORTED.iter().filter(|word| schema.get(word).is_some_and(|v| !v.is_empty())) {
        errors.push(FieldError::forbidden(at(word), format!("{word} is not supported")));
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(at("type"), detail));
    }
    if schema.get("items").is_some_and(Tree::is_list) {
        errors.push(FieldError::forbidden(at("items"), "items must be a schema object and not an array"));
    }
    if inside.meta && flag(schema, EMBEDDED) {
        errors.push(FieldError::forbidden(at(EMBEDDED), "must not be used inside of resource meta"));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(at("uniqueItems"), detail));
    }
    if schema.bool_at(&[PRESERVE]) == Some(false) {
        errors.push(FieldError::invalid(at(PRESERVE), false, "must be true or undefined"));
    }
}

fn check_additional(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let both = schema.get("additionalProperties").is_some() && !properties(schema).is_empty();
    if both && !allows_any(schema) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
}

/// The type must be `wanted` because of a keyword.
fn check_needs(schema: &Tree, path: &str, wanted: &str, keyword: &str, errors: &mut Vec<FieldError>) {
    let detail = format!("must be {wanted} if {keyword} is specified");
    match text(schema, "type") {
        kind if kind == wanted => {}
        "" => errors.push(FieldError::required(format!("{path}.type"), detail)),
        kind => errors.push(FieldError::invalid(format!("{path}.type"), kind, detail)),
    }
}

fn check_map_type(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let Some(kind) = schema.get(MAP_TYPE).and_then(Tree::as_str) else {
        return;
    };
    check_needs(schema, path, "object", MAP_TYPE, errors);
    if !["atomic", "granular"].contains(&kind) {
        errors.push(FieldError::not_supported(format!("{path}.{MAP_TYPE}"), kind, ["atomic", "granular"]));
    }
}

fn check_list_type(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let Some(kind) = schema.get(LIST_TYPE).and_then(Tree::as_str) else {
        return;
    };
    check_needs(schema, path, "array", LIST_TYPE, errors);
    if text(schema, "type") == "array" && kind == "set" {
        check_set_items(schema, path, errors);
    }
    if !["atomic", "set", "map"].contains(&kind) {
        let known = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(format!("{path}.{LIST_TYPE}"), kind, known));
    }
}

/// Items of a set are compared whole, so they must be owned whole.
fn check_set_items(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let Some(item) = items(schema) else {
        return;
    };
    let detail = format!("must be atomic as item of a list with {LIST_TYPE}=set");
    let list = item.get(LIST_TYPE).cloned();
    let granular = |kind: &str| !["", "atomic"].contains(&kind);
    if text(item, "type") == "array" && granular(text(item, LIST_TYPE)) {
        errors.push(FieldError::invalid(format!("{path}.items.{LIST_TYPE}"), list, detail));
    } else if text(item, "type") == "object" && text(item, MAP_TYPE) != "atomic" {
        errors.push(FieldError::invalid(format!("{path}.items.{MAP_TYPE}"), list, detail));
    }
}

fn check_list_keys(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let keys = schema.items_at(&[LIST_KEYS]);
    let kind = text(schema, LIST_TYPE);
    if !keys.is_empty() && kind != "map" {
        let detail = format!("must be map if {LIST_KEYS} is non-empty");
        let path = format!("{path}.{LIST_TYPE}");
        errors.push(match kind {
            "" => FieldError::required(path, detail),
            _ => FieldError::invalid(path, kind, detail),
        });
    }
    if kind != "map" {
        return;
    }
    if keys.is_empty() {
        let detail = format!("must not be empty if {LIST_TYPE} is map");
        errors.push(FieldError::required(format!("{path}.{LIST_KEYS}"), detail));
    }
    match items(schema) {
        None => {
            let detail = format!("must have a schema if {LIST_TYPE} is map");
            errors.push(FieldError::required(format!("{path}.items"), detail));
        }
        Some(item) if text(item, "type") != "object" => {
            let detail = format!("must be object if parent array's {LIST_TYPE} is map");
            errors.push(FieldError::invalid(format!("{path}.items.type"), text(item, "type"), detail));
        }
        Some(item) => check_key_names(schema, item, path, errors),
    }
}

fn check_key_names(schema: &Tree, item: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let all = schema.get(LIST_KEYS).cloned().unwrap_or_default();
    let at = format!("{path}.{LIST_KEYS}");
    for (i, key) in all.items().iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match item.at(&["properties", name]) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(at.clone(), &all, detail));
            }
            Some(field) if ["array", "object"].contains(&text(field, "type")) => {
                let path = format!("{}.type", property_path(&format!("{path}.items"), name));
                let detail = format!("must be a scalar type if parent array's {LIST_TYPE} is map");
                errors.push(FieldError::invalid(path, text(item, "type"), detail));
            }
            Some(_) => {}
        }
        if all.items()[..i].contains(key) {
            errors.push(FieldError::invalid(at.clone(), &all, "must not contain duplicate entries"));
        }
    }
}

/// Key fields of a map list must be required or defaulted, and not nullable.
fn check_key_fields(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(schema, LIST_TYPE);
    let (Some(item), true) = (items(schema), ["set", "map"].contains(&kind)) else {
        return;
    };
    if flag(item, "nullable") {
        let detail = format!("cannot be nullable when {LIST_TYPE} is {kind}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
    }
    if kind != "map" {
        return;
    }
    let because = format!("this property is in {LIST_KEYS}, so it");
    for key in schema.items_at(&[LIST_KEYS]) {
        let name = key.as_str().unwrap_or_default();
        let Some(field) = item.at(&["properties", name]) else {
            continue;
        };
        let path = property_path(&format!("{path}.items"), name);
        if default(field).is_none() && !item.items_at(&["required"]).contains(key) {
            let detail = format!("{because} must have a default or be a required property");
            errors.push(FieldError::required(format!("{path}.default"), detail));
        }
        if flag(field, "nullable") {
            errors.push(FieldError::forbidden(
                format!("{path}.nullable"),
                format!("{because} cannot be nullable"),
            ));
        }
    }
}

fn check_rule(schema: &Tree, rule: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let at = |key: &str| format!("{path}.{key}");
    let (words, message) = (text(rule, "rule"), text(rule, "message"));
    let has_break = |text: &str| text.trim().contains(['\n', '\r']);
    if words.trim().is_empty() {
        errors.push(FieldError::required(at("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(at("message"), message, "must be non-empty if specified"));
    } else if has_break(message) {
        errors.push(FieldError::invalid(at("message"), message, "must not contain line breaks"));
    } else if has_break(words) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(at("message"), detail));
    }
    let expression = text(rule, "messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(at("messageExpression"), detail));
    }
    let reason = text(rule, "reason");
    if !reason.is_empty() && !REASONS.contains(&reason) {
        errors.push(FieldError::not_supported(at("reason"), reason, REASONS));
    }
    check_field_path(schema, text(rule, "fieldPath"), &at("fieldPath"), errors);
}

fn check_field_path(schema: &Tree, field: &str, path: &str, errors: &mut Vec<FieldError>) {
    if field.is_empty() {
        return;
    }
    if field.trim().is_empty() {
        errors.push(FieldError::invalid(path, field, "must be non-empty if specified"));
    }
    if field.contains(['\n', '\r']) {
        errors.push(FieldError::invalid(path, field, "must not contain line breaks"));
    }
    if !leads_somewhere(schema, field) {
        errors.push(FieldError::invalid(path, field, "must be a valid path"));
    }
}

/// Whether `.a.b['c']` names fields of this schema.
fn leads_somewhere(schema: &Tree, field: &str) -> bool {
    let Some(steps) = crate::rules::field_path_steps(field) else {
        return false;
    };
    let step = |schema: Option<&Tree>, name: &String| -> Option<Tree> {
        let schema = schema?;
        schema.at(&["properties", name]).or_else(|| additional(schema)).cloned()
    };
    let mut here = Some(schema.clone());
    for name in &steps {
        here = step(here.as_ref(), name);
    }
    here.is_some()
}
