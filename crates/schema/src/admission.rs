//! The response of an admission plugin, in process or as a webhook, and the text of a denial.
//!
//! controller-runtime answers an error of a validator with 403 `Forbidden` and the error text, and the API server prefixes
//! `admission webhook "…" denied the request: `. Kueue and Trainer do so for field errors, too. JobSet (since 0.12)
//! returns 422 `Invalid` with a cause per field, as schema and CEL validation do.

use muster_tree::Tree;

use crate::error::FieldError;

/// The response of an admission plugin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The mutated object; `None` without changes.
    pub changed: Option<Tree>,
    /// Field errors: the request is rejected with 422, or with 403 after [`Answer::denied`].
    pub problems: Vec<FieldError>,
    /// Reason of a denial with 403.
    pub refused: Option<String>,
    /// Texts of `Warning` headers for the client.
    pub warnings: Vec<String>,
}

impl Answer {
    /// Converts field errors to a denial, formatted as upstream's error aggregate: `a`, or `[a, b]` without duplicates.
    #[must_use]
    pub fn denied(self) -> Answer {
        Answer { refused: aggregate(&self.problems).or(self.refused), problems: Vec::new(), ..self }
    }

    /// Returns whether the request is rejected.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || !self.problems.is_empty()
    }
}

/// Formats field errors as upstream's error aggregate, without duplicates; `None` without errors.
#[must_use]
pub fn aggregate(problems: &[FieldError]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    for text in problems.iter().map(ToString::to_string) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        0 => None,
        1 => texts.pop(),
        _ => Some(format!("[{}]", texts.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_become_one_denial() {
        let problem = |path: &str| FieldError::required(path, "");
        let a = "a: Required value";
        for (says, problems, want) in [
            ("none", vec![], None),
            ("one stands alone", vec![problem("a")], Some(a)),
            (
                "several in brackets",
                vec![problem("a"), problem("b")],
                Some("[a: Required value, b: Required value]"),
            ),
            ("equal ones are listed once", vec![problem("a"), problem("a")], Some(a)),
        ] {
            let answer = Answer { problems, ..Answer::default() };
            assert_eq!(answer.is_refused(), want.is_some(), "{says}");
            let denied = answer.denied();
            assert_eq!((denied.refused.as_deref(), denied.problems.len()), (want, 0), "{says}");
        }
        let refused = Answer { refused: Some("no".to_owned()), ..Answer::default() };
        assert_eq!(refused.denied().refused.as_deref(), Some("no"));
    }
}
