//! Enumerates the CEL rules of a CRD.

use std::fmt;

use muster_tree::Tree;

use super::modules::Crd;

/// Identifies a rule: where it is in the schema, and its message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleLocation {
    pub kind: String,
    pub version: String,
    /// Path in the object, with `[]` for any item of a list and `{}` for any value of a map; empty for the root.
    pub at: String,
    /// The rule's message, or its expression if it has none.
    pub message: String,
}

impl fmt::Display for RuleLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} at {:?}: {}", self.kind, self.version, self.at, self.message)
    }
}

#[must_use]
pub fn places(crd: &Crd) -> Vec<RuleLocation> {
    let mut all = Vec::new();
    for version in crd.versions() {
        let mut found = Vec::new();
        if let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) {
            walk(schema, "", &mut found);
        }
        let (kind, version) = (crd.kind().to_owned(), version.str_at(&["name"]).to_owned());
        all.extend(found.into_iter().map(|(at, message)| RuleLocation {
            kind: kind.clone(),
            version: version.clone(),
            at,
            message,
        }));
    }
    all
}

/// Collects (path, message) of all rules at and below a schema.
fn walk(schema: &Tree, path: &str, found: &mut Vec<(String, String)>) {
    for rule in schema.items_at(&["x-kubernetes-validations"]) {
        let message = rule.str_at(&["message"]);
        let message = if message.is_empty() { rule.str_at(&["rule"]) } else { message };
        found.push((path.to_owned(), message.to_owned()));
    }
    for (name, below) in schema.entries_at(&["properties"]) {
        let dot = if path.is_empty() { "" } else { "." };
        walk(below, &format!("{path}{dot}{name}"), found);
    }
    if let Some(items) = schema.get("items") {
        walk(items, &format!("{path}[]"), found);
    }
    if let Some(values) = schema.get("additionalProperties") {
        walk(values, &format!("{path}{{}}"), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_at_every_location() {
        let text = "
            x-kubernetes-validations: [{rule: a, message: root}]
            properties:
              list: {items: {x-kubernetes-validations: [{rule: b, message: item}]}}
              map: {additionalProperties: {properties: {x: {x-kubernetes-validations: [{rule: c}]}}}}
        ";
        let mut found = Vec::new();
        walk(&Tree::parse_yaml(text).unwrap(), "", &mut found);
        let want = [("", "root"), ("list[]", "item"), ("map{}.x", "c")];
        assert_eq!(found, want.map(|(at, message)| (at.to_owned(), message.to_owned())));
    }
}
