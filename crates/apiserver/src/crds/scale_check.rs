//! Validates the fields behind the `scale` subresource of a custom resource.

use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use crate::kinds::FieldErrors;

const REPLICAS_MAX: i64 = i32::MAX as i64;

/// Validates the values at the paths of spec replicas, status replicas and selector.
pub(super) fn check(tree: &Tree, paths: &(Text, Text, Text), errors: &mut FieldErrors) {
    for path in [&paths.0, &paths.1] {
        match reached(tree, path) {
            Err(why) => errors.push(FieldError::invalid(path.as_str(), 0, why)),
            Ok(None) => {}
            Ok(Some(Tree::Int(n))) if *n < 0 => {
                errors.push(FieldError::invalid(path.as_str(), *n, "should be a non-negative integer"));
            }
            Ok(Some(Tree::Int(n))) if *n > REPLICAS_MAX => {
                let why = format!("should be less than or equal to {REPLICAS_MAX}");
                errors.push(FieldError::invalid(path.as_str(), *n, why));
            }
            Ok(Some(Tree::Int(_))) => {}
            Ok(Some(other)) => {
                errors.push(FieldError::invalid(path.as_str(), 0, mistyped(path, other, "int64")));
            }
        }
    }
    match reached(tree, &paths.2) {
        Err(why) => errors.push(FieldError::invalid(paths.2.as_str(), "", why)),
        Ok(Some(other)) if !paths.2.is_empty() && other.as_str().is_none() => {
            errors.push(FieldError::invalid(paths.2.as_str(), "", mistyped(&paths.2, other, "string")));
        }
        Ok(_) => {}
    }
}

/// The value at a path; an error if a step is not a map.
fn reached<'a>(tree: &'a Tree, path: &str) -> Result<Option<&'a Tree>, String> {
    let mut here = tree;
    let mut way = String::new();
    for step in path.split('.').filter(|step| !step.is_empty()) {
        if !here.is_map() {
            return Err(mistyped(&way, here, "map[string]interface{}"));
        }
        let Some(below) = here.get(step) else {
            return Ok(None);
        };
        here = below;
        way = format!("{way}.{step}");
    }
    Ok(Some(here))
}

fn mistyped(path: &str, value: &Tree, wanted: &str) -> String {
    let (shown, kind) = match value {
        Tree::Text(text) => (text.to_string(), "string"),
        Tree::Null => ("<nil>".to_owned(), "<nil>"),
        Tree::Bool(_) => (value.to_json(), "bool"),
        Tree::Float(_) => (value.to_json(), "float64"),
        Tree::List(_) => (value.to_json(), "[]interface {}"),
        Tree::Map(_) => (value.to_json(), "map[string]interface {}"),
        Tree::Int(_) => (value.to_json(), "int64"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn replicas_must_be_counts() {
        for (spec, want) in [
            (tree!({"n": 3}), None),
            (tree!({}), None),
            (tree!({"n": -1}), Some("Invalid value: -1: should be a non-negative integer")),
            (
                tree!({"n": "many"}),
                Some("Invalid value: 0: .spec.n accessor error: many is of the type string, expected int64"),
            ),
            (
                tree!("no map"),
                Some(
                    "Invalid value: 0: .spec accessor error: no map is of the type string, expected map[string]interface{}",
                ),
            ),
        ] {
            let mut errors = FieldErrors::new();
            let paths = (Text::from(".spec.n"), Text::from(".status.n"), Text::new());
            check(&tree!({"spec": spec}), &paths, &mut errors);
            let got: Vec<String> = errors.iter().map(FieldError::message).collect();
            assert_eq!(got, want.into_iter().collect::<Vec<_>>());
        }
    }
}
