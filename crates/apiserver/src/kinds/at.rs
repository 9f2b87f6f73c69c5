//! Where in an object a check stands: a path that costs nothing until an error is told.

use std::fmt;

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::Errors;

/// A place in an object.
#[derive(Debug, Clone, Copy)]
pub enum At<'a> {
    /// Where the check begins.
    Root(&'a str),
    /// A field below.
    Field(&'a At<'a>, &'a str),
    /// An item of a list.
    Item(&'a At<'a>, usize),
    /// An entry of a map.
    Key(&'a At<'a>, &'a str),
}

impl<'a> At<'a> {
    /// A field below.
    #[must_use]
    pub fn field(&'a self, name: &'a str) -> At<'a> {
        At::Field(self, name)
    }

    /// An item of a list.
    #[must_use]
    pub fn item(&'a self, at: usize) -> At<'a> {
        At::Item(self, at)
    }

    /// An entry of a map.
    #[must_use]
    pub fn key(&'a self, key: &'a str) -> At<'a> {
        At::Key(self, key)
    }

    /// One error for each problem with a name.
    pub fn problems(&self, value: &str, problems: Vec<String>, errors: &mut Errors) {
        errors.extend(problems.into_iter().map(|why| FieldError::invalid(self, value, why)));
    }

    /// Something that must be there.
    pub fn required(&self, errors: &mut Errors) {
        errors.push(FieldError::required(self, ""));
    }

    /// A word out of a closed set; the empty text passes.
    pub fn one_of(&self, value: &str, words: &[&str], errors: &mut Errors) {
        if !value.is_empty() && !words.contains(&value) {
            errors.push(FieldError::not_supported(self, value, words.iter().copied()));
        }
    }

    /// A word out of a closed set that may be absent, but not empty.
    pub fn absent_or_one_of(&self, value: Option<&Tree>, words: &[&str], errors: &mut Errors) {
        if let Some(value) = value.and_then(Tree::as_str).filter(|value| !words.contains(value)) {
            errors.push(FieldError::not_supported(self, value, words.iter().copied()));
        }
    }

    /// A word that must be there; `words` are those that may stand here.
    pub fn required_word(&self, words: &[&str], errors: &mut Errors) {
        let shown: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
        errors.push(FieldError::required(self, format!("valid values: [{}]", shown.join(" "))));
    }

    /// A number that may be absent but not negative.
    pub fn not_negative(&self, value: Option<i64>, errors: &mut Errors) {
        if let Some(value) = value.filter(|v| *v < 0) {
            errors.push(FieldError::invalid(self, value, "must be greater than or equal to 0"));
        }
    }

    /// A value that may not change.
    pub fn immutable(&self, new: Option<&Tree>, old: Option<&Tree>, errors: &mut Errors) {
        if new != old {
            let shown = new.cloned().unwrap_or(Tree::Null);
            errors.push(FieldError::invalid(self, shown, "field is immutable"));
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Root(name) => f.write_str(name),
            At::Field(parent, name) => write!(f, "{parent}.{name}"),
            At::Item(parent, at) => write!(f, "{parent}[{at}]"),
            At::Key(parent, key) => write!(f, "{parent}[{key}]"),
        }
    }
}

impl From<&At<'_>> for String {
    fn from(at: &At<'_>) -> String {
        at.to_string()
    }
}

impl From<At<'_>> for String {
    fn from(at: At<'_>) -> String {
        at.to_string()
    }
}
