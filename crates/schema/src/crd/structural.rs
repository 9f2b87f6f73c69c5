//! Validates that a CRD schema is structural: every field has a type, and clauses only add value validations.

use muster_tree::Tree;

use super::keywords::{
    EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, RULES, additional, allows_any,
    clauses, flag, is_int_or_string, items, properties, property_path, text,
};
use crate::error::FieldError;
use crate::pattern;

/// What a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that keeps a schema from being structural, in the order of its words.
pub(super) fn check(base: &str, schema: &Tree) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(schema, base, Level::Root, &mut errors);
    for (path, clause) in clauses(schema, base) {
        check_complete(clause, schema, &path, base, &mut errors);
    }
    errors.sort_by_key(ToString::to_string);
    errors
}

fn walk(schema: &Tree, path: &str, level: Level, errors: &mut Vec<FieldError>) {
    if text(schema, "type") == "array" && schema.get("items").is_none() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(item) = items(schema) {
        walk(item, &format!("{path}.items"), Level::Item, errors);
    }
    for (name, field) in properties(schema) {
        walk(field, &property_path(path, name), Level::Field, errors);
    }
    if let Some(values) = additional(schema) {
        walk(values, &format!("{path}.additionalProperties"), Level::Field, errors);
    }
    if level == Level::Root && schema.get("additionalProperties").is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used at the root",
        ));
    }
    check_extensions(schema, path, errors);
    check_values(schema, path, errors);
    check_type(schema, path, level, errors);
    check_metadata(schema, path, level, errors);
}

fn check_extensions(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    for key in [PRESERVE, EMBEDDED] {
        if flag(schema, INT_OR_STRING) && flag(schema, key) {
            let detail = format!("must be false if {INT_OR_STRING} is true");
            errors.push(FieldError::invalid(format!("{path}.{key}"), true, detail));
        }
    }
    if !flag(schema, EMBEDDED) {
        return;
    }
    if schema.get("additionalProperties").is_some() {
        let detail = format!("must not be used if {EMBEDDED} is set");
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
    if !flag(schema, PRESERVE) && properties(schema).is_empty() {
        let detail = format!("must not be empty if {EMBEDDED} is true without {PRESERVE}");
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

fn check_type(schema: &Tree, path: &str, level: Level, errors: &mut Vec<FieldError>) {
    let at = format!("{path}.type");
    let kind = text(schema, "type");
    if flag(schema, EMBEDDED) && kind != "object" {
        let detail = format!("must be object if {EMBEDDED} is true");
        errors.push(match kind {
            "" => FieldError::required(at, detail),
            _ => FieldError::invalid(at, kind, detail),
        });
    } else if kind.is_empty() && !flag(schema, INT_OR_STRING) && !flag(schema, PRESERVE) {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(at, format!("must not be empty {place}")));
    } else if level == Level::Root && !["", "object"].contains(&kind) {
        errors.push(FieldError::invalid(at, kind, "must be object at the root"));
    }
}

/// What an object says of itself may be narrowed, but not described anew.
fn check_metadata(schema: &Tree, path: &str, level: Level, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || flag(schema, EMBEDDED);
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(field) = schema.at(&["properties", name]).filter(|_| is_resource) else {
            continue;
        };
        let kind = text(field, "type");
        if kind != wanted {
            let path = format!("{}.type", property_path(path, name));
            errors.push(FieldError::invalid(path, kind, format!("must be {wanted}")));
        }
    }
    let metadata = schema.at(&["properties", "metadata"]).filter(|_| level == Level::Root);
    if metadata.is_some_and(|metadata| !narrows_names_only(metadata)) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(property_path(path, "metadata"), detail));
    }
}

fn narrows_names_only(metadata: &Tree) -> bool {
    let known = |key: &str| ["type", "properties", "default"].contains(&key);
    metadata.entries().iter().all(|(key, _)| known(key))
        && properties(metadata).iter().all(|(name, _)| ["name", "generateName"].contains(&name.as_str()))
}

/// Value rules at one place and in its clauses.
fn check_values(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    for (path, clause) in clauses(schema, path) {
        let typed = is_typed_clause(schema, &path);
        check_clause(clause, &path, typed, errors);
    }
    check_pattern(schema, path, errors);
}

fn check_pattern(schema: &Tree, path: &str, errors: &mut Vec<FieldError>) {
    let words = text(schema, "pattern");
    // Making a pattern ready is dear, and most places have none.
    if words.is_empty() {
        return;
    }
    if let Err(why) = pattern::compile(words) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), words, detail));
    }
}

/// How far below a clause types may stand: `anyOf: [{type: integer}, {type: string}]` may, as may the same inside
/// the first clause of `allOf`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typed {
    No,
    Here,
    InAnyOf,
}

fn is_typed_clause(schema: &Tree, path: &str) -> Typed {
    let any_of = schema.items_at(&["anyOf"]);
    let first = schema.items_at(&["allOf"]).first();
    if is_int_or_string(any_of) && (path.ends_with("anyOf[0]") || path.ends_with("anyOf[1]")) {
        Typed::Here
    } else if path.ends_with("allOf[0]") && first.is_some_and(|c| is_int_or_string(c.items_at(&["anyOf"]))) {
        Typed::InAnyOf
    } else {
        Typed::No
    }
}

fn check_clause(clause: &Tree, path: &str, typed: Typed, errors: &mut Vec<FieldError>) {
    if typed == Typed::Here {
        return;
    }
    for (path, below) in clauses(clause, path) {
        let skip = typed == Typed::InAnyOf && path.contains(".anyOf[");
        check_clause(below, &path, if skip { Typed::Here } else { Typed::No }, errors);
    }
    check_pattern(clause, path, errors);
    if let Some(item) = items(clause) {
        check_clause(item, &format!("{path}.items"), Typed::No, errors);
    }
    for (name, field) in properties(clause) {
        check_clause(field, &property_path(path, name), Typed::No, errors);
    }
    for (key, what) in forbidden(clause) {
        errors
            .push(FieldError::forbidden(format!("{path}.{key}"), format!("must be {what} to be structural")));
    }
    if clause.at(&["properties", "metadata"]).is_some() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(property_path(path, "metadata"), detail));
    }
}

/// The keywords of structure that a clause has, and what they must be instead.
fn forbidden(clause: &Tree) -> Vec<(&'static str, &'static str)> {
    let has = |key: &str| clause.get(key).is_some_and(|value| !value.is_empty());
    let mut found: Vec<(&str, &str)> = Vec::new();
    for key in ["type", "title", "description", LIST_KEYS, RULES] {
        found.extend(has(key).then_some((key, "empty")));
    }
    if additional(clause).is_some() || allows_any(clause) {
        found.push(("additionalProperties", "undefined"));
    }
    for key in ["default", LIST_TYPE, MAP_TYPE] {
        found.extend(clause.get(key).is_some_and(|v| !v.is_null()).then_some((key, "undefined")));
    }
    for key in ["nullable", PRESERVE, EMBEDDED, INT_OR_STRING] {
        found.extend(flag(clause, key).then_some((key, "false")));
    }
    found
}

/// Every place that a clause of the root speaks of must have a structure of its own.
fn check_complete(clause: &Tree, schema: &Tree, clause_path: &str, path: &str, errors: &mut Vec<FieldError>) {
    for (clause_path, below) in clauses(clause, clause_path) {
        check_complete(below, schema, &clause_path, path, errors);
    }
    let mut missing = |path: String, clause_path: &str| {
        errors.push(FieldError::required(path, format!("because it is defined in {clause_path}")));
    };
    let mut both = Vec::new();
    if let Some(item) = items(clause) {
        both.push((item, items(schema), format!("{clause_path}.items"), format!("{path}.items")));
    }
    for (name, field) in properties(clause) {
        let structure = schema.at(&["properties", name]);
        both.push((field, structure, property_path(clause_path, name), property_path(path, name)));
    }
    let mut known = Vec::new();
    for (below, structure, clause_path, path) in both {
        match structure {
            Some(structure) => known.push((below, structure, clause_path, path)),
            None => missing(path, &clause_path),
        }
    }
    for (below, structure, clause_path, path) in known {
        check_complete(below, structure, &clause_path, &path, errors);
    }
}
