//! What is wrong with a field, in the words that clients and scripts know.

use std::fmt;

use muster_tree::Tree;

/// The kind of a field error. Its two words are part of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// `Required value`.
    Required,
    /// `Invalid value`.
    Invalid,
    /// `Invalid value`, because it is of another type than the schema wants.
    TypeInvalid,
    /// `Invalid value`, of a list or map that is not shown.
    InvalidBranch,
    /// `Invalid value`, which is already text as messages show it.
    InvalidShown,
    /// `Unsupported value`.
    NotSupported,
    /// `Duplicate value`.
    Duplicate,
    /// `Duplicate value`, of a list or map that is not shown.
    DuplicateBranch,
    /// `Forbidden`.
    Forbidden,
    /// `Too long`.
    TooLong,
    /// `Too many`.
    TooMany,
    /// `Not found`.
    NotFound,
    /// `Internal error`.
    Internal,
    /// What another server reports about a field: the detail is the whole message.
    Reported,
}

impl Problem {
    /// The machine-readable reason in `details.causes`.
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

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// Where, e.g. `spec.containers[0].image`.
    pub path: String,
    /// What kind of problem.
    pub problem: Problem,
    /// The offending value; shown for `Invalid`, `NotSupported`, `Duplicate` and `NotFound`.
    pub value: Tree,
    /// What is wrong, and what would be right.
    pub detail: String,
}

impl FieldError {
    /// A value is missing.
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Required, value: Tree::Null, detail: detail.into() }
    }

    /// A value is not acceptable.
    pub fn invalid(path: impl Into<String>, value: impl Into<Tree>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Invalid, value: value.into(), detail: detail.into() }
    }

    /// A value is not acceptable; `shown` is how a message shows it, for values whose keys have an order of their own.
    pub fn invalid_shown(
        path: impl Into<String>,
        shown: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let value = Tree::from(shown.into());
        Self { path: path.into(), problem: Problem::InvalidShown, value, detail: detail.into() }
    }

    /// A value is not acceptable, shown as the real server shows its own types (`shown` is that text).
    pub fn invalid_as(path: impl Into<String>, shown: &str, detail: &str) -> Self {
        Self {
            path: path.into(),
            problem: Problem::InvalidBranch,
            value: Tree::Null,
            detail: format!("{shown}: {detail}"),
        }
    }

    /// A value stands twice, shown as the real server shows its own types.
    pub fn duplicate_as(path: impl Into<String>, shown: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::DuplicateBranch, value: Tree::Null, detail: shown.into() }
    }

    /// A value is of another type than the schema wants.
    pub fn type_invalid(path: impl Into<String>, value: impl Into<Tree>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::TypeInvalid, value: value.into(), detail: detail.into() }
    }

    /// A value stands outside a closed set; the detail lists the set.
    pub fn not_supported<'a>(
        path: impl Into<String>,
        value: impl Into<Tree>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let words: Vec<String> = supported.into_iter().map(|w| format!("{w:?}")).collect();
        let detail = format!("supported values: {}", words.join(", "));
        Self { path: path.into(), problem: Problem::NotSupported, value: value.into(), detail }
    }

    /// A value stands twice where it may stand once.
    pub fn duplicate(path: impl Into<String>, value: impl Into<Tree>) -> Self {
        Self { path: path.into(), problem: Problem::Duplicate, value: value.into(), detail: String::new() }
    }

    /// A value may not be set here.
    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Forbidden, value: Tree::Null, detail: detail.into() }
    }

    /// Text longer than `max` bytes.
    pub fn too_long(path: impl Into<String>, max: usize) -> Self {
        let detail = format!("may not be more than {max} bytes");
        Self { path: path.into(), problem: Problem::TooLong, value: Tree::Null, detail }
    }

    /// A list or map with more than `max` items.
    pub fn too_many(path: impl Into<String>, count: usize, max: usize) -> Self {
        Self {
            path: path.into(),
            problem: Problem::TooMany,
            value: Tree::Int(i64::try_from(count).unwrap_or(i64::MAX)),
            detail: format!("must have at most {max} {}", if max == 1 { "item" } else { "items" }),
        }
    }

    /// A reference to something that is not there.
    pub fn not_found(path: impl Into<String>, value: impl Into<Tree>) -> Self {
        Self { path: path.into(), problem: Problem::NotFound, value: value.into(), detail: String::new() }
    }

    /// A problem that is no single field's.
    pub fn internal(path: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Internal, value: Tree::Null, detail: detail.into() }
    }

    /// A problem in the words of another validator.
    pub fn reported(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), problem: Problem::Reported, value: Tree::Null, detail: message.into() }
    }

    /// The message without the path: what stands in `details.causes[].message`.
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

/// A value as messages show it: text in quotes, the rest as JSON.
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
