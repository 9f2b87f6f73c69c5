//! Field errors, with upstream's messages (`k8s.io/apimachinery/pkg/util/validation/field`).

use std::fmt;

use muster_tree::Tree;

/// The type of a field error; determines `reason` in `details.causes` and the prefix of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// Message prefix `Required value`.
    Required,
    /// Message prefix `Invalid value`.
    Invalid,
    /// Message prefix `Invalid value`, for a value of the wrong type.
    TypeInvalid,
    /// Message prefix `Invalid value`, for a list or map, which the message does not contain.
    InvalidBranch,
    /// Message prefix `Invalid value`, for a value that is formatted already.
    InvalidShown,
    /// Message prefix `Unsupported value`.
    NotSupported,
    /// Message prefix `Duplicate value`.
    Duplicate,
    /// Message prefix `Duplicate value`, for a list or map, which the message does not contain.
    DuplicateBranch,
    /// Message prefix `Forbidden`.
    Forbidden,
    /// Message prefix `Too long`.
    TooLong,
    /// Message prefix `Too many`.
    TooMany,
    /// Message prefix `Not found`.
    NotFound,
    /// Message prefix `Internal error`.
    Internal,
    /// An error reported by another validator: the detail is the whole message.
    Reported,
}

impl Problem {
    /// The `reason` in `details.causes` of a Status.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid | Problem::InvalidBranch | Problem::InvalidShown => "FieldValueInvalid",
            Problem::TypeInvalid => "FieldValueTypeInvalid",
            Problem::NotSupported => "FieldValueNotSupported",
            Problem::Duplicate | Problem::DuplicateBranch => "FieldValueDuplicate",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong => "FieldValueTooLong",
            Problem::TooMany => "FieldValueTooMany",
            Problem::NotFound => "FieldValueNotFound",
            Problem::Internal => "InternalError",
            Problem::Reported => "FieldValueInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Problem::Required => "Required value",
            Problem::Invalid | Problem::TypeInvalid | Problem::InvalidBranch | Problem::InvalidShown => {
                "Invalid value"
            }
            Problem::NotSupported => "Unsupported value",
            Problem::Duplicate | Problem::DuplicateBranch => "Duplicate value",
            Problem::Forbidden => "Forbidden",
            Problem::TooLong => "Too long",
            Problem::TooMany => "Too many",
            Problem::NotFound => "Not found",
            Problem::Internal => "Internal error",
            Problem::Reported => "",
        }
    }
}

/// An error of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Path of the field, for example `spec.containers[0].image`.
    pub path: String,
    /// Type of the error.
    pub problem: Problem,
    /// Value of the field; part of the message for `Invalid`, `NotSupported`, `Duplicate` and `NotFound`.
    pub value: Tree,
    /// Description of the error and of valid values.
    pub detail: String,
}

impl FieldError {
    /// A required value is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Required, value: Tree::Null, detail: detail.into() }
    }

    /// A value is invalid.
    pub fn invalid(path: impl Into<String>, value: impl Into<Tree>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Invalid, value: value.into(), detail: detail.into() }
    }

    /// A value is invalid; `shown` is its formatted form, for values with a fixed order of keys.
    pub fn invalid_shown(
        path: impl Into<String>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let value = Tree::from(shown.into());
        Self { path: path.into(), problem: Problem::InvalidShown, value, detail: detail.into() }
    }

    /// A value is invalid; `shown` is its formatted form, as upstream prints its Go types.
    pub fn invalid_as(path: impl Into<String>, shown: &str, detail: &str) -> Self {
        Self {
            path: path.into(),
            problem: Problem::InvalidBranch,
            value: Tree::Null,
            detail: format!("{shown}: {detail}"),
        }
    }

    /// A value is a duplicate, formatted as upstream prints its Go types.
    pub fn duplicate_as(path: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::DuplicateBranch, value: Tree::Null, detail: shown.into() }
    }

    /// A value has the wrong type.
    pub fn type_invalid(path: impl Into<String>, value: impl Into<Tree>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::TypeInvalid, value: value.into(), detail: detail.into() }
    }

    /// A value is outside an enum; the detail lists the valid values.
    pub fn not_supported<'a>(
        path: impl Into<String>,
        value: impl Into<Tree>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let words: Vec<String> = supported.into_iter().map(|w| format!("{w:?}")).collect();
        let detail = format!("supported values: {}", words.join(", "));
        Self { path: path.into(), problem: Problem::NotSupported, value: value.into(), detail }
    }

    /// A value is a duplicate.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Tree>) -> Self {
        Self { path: path.into(), problem: Problem::Duplicate, value: value.into(), detail: String::new() }
    }

    /// A field must not be set or changed.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Forbidden, value: Tree::Null, detail: detail.into() }
    }

    /// A string is longer than `max` bytes.
    pub fn too_long(path: impl Into<String>, max: usize) -> Self {
        let detail = format!("may not be more than {max} bytes");
        Self { path: path.into(), problem: Problem::TooLong, value: Tree::Null, detail }
    }

    /// A list or map has more than `max` items.
    pub fn too_many(path: impl Into<String>, count: usize, max: usize) -> Self {
        Self {
            path: path.into(),
            problem: Problem::TooMany,
            value: Tree::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            detail: format!("must have at most {max} {}", if max == 1 { "item" } else { "items" }),
        }
    }

    /// A referenced value does not exist.
    pub fn not_found(path: impl Into<String>, value: impl Into<Tree>) -> Self {
        Self { path: path.into(), problem: Problem::NotFound, value: value.into(), detail: String::new() }
    }

    /// An error without a specific field.
    pub fn internal(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Internal, value: Tree::Null, detail: detail.into() }
    }

    /// An error with the message of another validator.
    pub fn reported(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Reported, value: Tree::Null, detail: message.into() }
    }

    /// `details.causes[].message`: the message without the path.
    #[must_use]
    pub fn message(&self) -> String {
        if self.problem == Problem::Reported {
            return self.detail.clone();
        }
        let shows_value = !matches!(
            self.problem,
            Problem::Required
                | Problem::InvalidBranch
                | Problem::DuplicateBranch
                | Problem::Forbidden
                | Problem::TooLong
                | Problem::Internal
        );
        let mut text = String::from(self.problem.words());
        if shows_value {
            text.push_str(": ");
            match (self.problem, &self.value) {
                (Problem::InvalidShown, Tree::Text(shown)) => text.push_str(shown),
                (_, value) => text.push_str(&shown(value)),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

/// Formats a value for a message: strings in quotes, other values as JSON.
fn shown(value: &Tree) -> String {
    match value {
        Tree::Text(text) => format!("{:?}", text.as_str()),
        other => other.to_json(),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_words_of_the_wire() {
        for (error, want) in [
            (FieldError::required("spec.a", ""), "spec.a: Required value"),
            (FieldError::required("spec.a", "say it"), "spec.a: Required value: say it"),
            (FieldError::invalid_shown("l", "[{\"b\":1}]", "no"), "l: Invalid value: [{\"b\":1}]: no"),
            (FieldError::invalid("spec.n", 3, "too big"), "spec.n: Invalid value: 3: too big"),
            (
                FieldError::not_supported("t", "x", ["a", "b"]),
                "t: Unsupported value: \"x\": supported values: \"a\", \"b\"",
            ),
            (FieldError::duplicate("l[1]", "x"), "l[1]: Duplicate value: \"x\""),
            (FieldError::duplicate_as("l[1]", "{\"A\":1}"), "l[1]: Duplicate value: {\"A\":1}"),
            (FieldError::invalid_as("r", "{\"A\":1}", "no"), "r: Invalid value: {\"A\":1}: no"),
            (FieldError::forbidden("f", "no"), "f: Forbidden: no"),
            (FieldError::too_long("f", 63), "f: Too long: may not be more than 63 bytes"),
            (FieldError::too_many("f", 9, 8), "f: Too many: 9: must have at most 8 items"),
            (FieldError::reported("f", "Not found: \"x\""), "f: Not found: \"x\""),
        ] {
            assert_eq!(error.to_string(), want);
        }
    }
}
