//! The answer of an admission function, in process or as a webhook, and how a refusal of it reads.
//!
//! controller-runtime answers an error of a validator with 403, `Forbidden` and the text of the error, and the API server puts
//! `admission webhook "…" denied the request: ` in front. Kueue and Trainer return such errors for what is wrong with fields, too.
//! JobSet (since 0.12) returns 422, `Invalid`, with a cause for each field, and so does a schema or rule of any definition.

use muster_tree::Tree;

use crate::error::FieldError;

/// The answer of an admission function.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The object with changes; `None` when there are none.
    pub changed: Option<Tree>,
    /// Everything that is wrong with fields: the write is refused with 422, or as one denial ([`Answer::denied`]).
    pub problems: Vec<FieldError>,
    /// Why the write is denied, with 403.
    pub refused: Option<String>,
    /// What the client should hear.
    pub warnings: Vec<String>,
}

impl Answer {
    /// The answer with its problems as one denial: a single one stands alone, several are `[a, b]`, equal ones once.
    #[must_use]
    pub fn denied(self) -> Answer {
        Answer { refused: aggregate(&self.problems).or(self.refused), problems: Vec::new(), ..self }
    }

    /// Whether the write is refused.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.refused.is_some() || !self.problems.is_empty()
    }
}

/// Problems as one text: a single one stands alone, equal ones are listed once. `None` when there are none.
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
