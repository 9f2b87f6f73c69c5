//! Field paths of validation errors (Go's `field.Path`), formatted only when an error is reported.

use std::fmt;

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::FieldErrors;

/// A field path on the stack.
#[derive(Debug, Clone, Copy)]
pub enum FieldPath<'a> {
    Root(&'a str),
    Field(&'a FieldPath<'a>, &'a str),
    Item(&'a FieldPath<'a>, usize),
    Key(&'a FieldPath<'a>, &'a str),
}

impl<'a> FieldPath<'a> {
    #[must_use]
    pub fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Field(self, name)
    }

    #[must_use]
    pub fn item(&'a self, at: usize) -> FieldPath<'a> {
        FieldPath::Item(self, at)
    }

    #[must_use]
    pub fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath::Key(self, key)
    }

    /// Reports one error per problem.
    pub fn problems(&self, value: &str, problems: Vec<String>, errors: &mut FieldErrors) {
        errors.extend(problems.into_iter().map(|why| FieldError::invalid(self, value, why)));
    }

    /// Reports a missing value.
    pub fn required(&self, errors: &mut FieldErrors) {
        errors.push(FieldError::required(self, ""));
    }

    /// Checks an enum value; an empty one is accepted.
    pub fn one_of(&self, value: &str, words: &[&str], errors: &mut FieldErrors) {
        if !value.is_empty() && !words.contains(&value) {
            errors.push(FieldError::not_supported(self, value, words.iter().copied()));
        }
    }

    /// Checks an enum value that may be absent but not empty.
    pub fn absent_or_one_of(&self, value: Option<&Tree>, words: &[&str], errors: &mut FieldErrors) {
        if let Some(value) = value.and_then(Tree::as_str).filter(|value| !words.contains(value)) {
            errors.push(FieldError::not_supported(self, value, words.iter().copied()));
        }
    }

    /// Reports a missing enum value with the valid ones.
    pub fn required_word(&self, words: &[&str], errors: &mut FieldErrors) {
        let shown: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        errors.push(FieldError::required(self, format!("valid values: [{}]", shown.join(" "))));
    }

    pub fn not_negative(&self, value: Option<i64>, errors: &mut FieldErrors) {
        if let Some(value) = value.filter(|v| *v < 0) {
            errors.push(FieldError::invalid(self, value, "must be greater than or equal to 0"));
        }
    }

    pub fn immutable(&self, new: Option<&Tree>, old: Option<&Tree>, errors: &mut FieldErrors) {
        if new != old {
            let shown = new.cloned().unwrap_or(Tree::Null);
            errors.push(FieldError::invalid(self, shown, "field is immutable"));
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root(name) => f.write_str(name),
            FieldPath::Field(parent, name) => write!(f, "{parent}.{name}"),
            FieldPath::Item(parent, at) => write!(f, "{parent}[{at}]"),
            FieldPath::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

impl From<&FieldPath<'_>> for String {
    fn from(at: &FieldPath<'_>) -> String {
        at.to_string()
    }
}

impl From<FieldPath<'_>> for String {
    fn from(at: FieldPath<'_>) -> String {
        at.to_string()
    }
}
