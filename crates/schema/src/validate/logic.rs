//! Validation of `allOf`, `anyOf`, `oneOf` and `not`, and of the type metadata of embedded resources.

use muster_tree::Tree;

use super::{Level, NOWHERE, Walk};
use crate::error::FieldError;
use crate::node::{Bounds, NodeId, View};
use crate::path::Path;

/// What one clause found.
struct Outcome {
    errors: Vec<FieldError>,
    visits: usize,
}

impl Walk {
    pub(super) fn check_logic(&mut self, view: View<'_>, bounds: &Bounds, new: &Tree, path: &Path<'_>) {
        if !bounds.any_of.is_empty() {
            self.check_any_of(view, &bounds.any_of, new, path);
        }
        if !bounds.one_of.is_empty() {
            self.check_one_of(view, &bounds.one_of, new, path);
        }
        if !bounds.all_of.is_empty() {
            self.check_all_of(view, &bounds.all_of, new, path);
        }
        if let Some(not) = bounds.not
            && outcome(view.to(not), new, path).errors.is_empty()
        {
            self.nowhere(path, "must not validate the schema (not)");
        }
    }

    fn check_any_of(&mut self, view: View<'_>, clauses: &[NodeId], new: &Tree, path: &Path<'_>) {
        let mut failed = Vec::with_capacity(clauses.len());
        for clause in clauses {
            let found = outcome(view.to(*clause), new, path);
            if found.errors.is_empty() {
                return;
            }
            failed.push(found);
        }
        self.nowhere(path, "must validate at least one schema (anyOf)");
        self.errors.append(&mut closest(failed));
    }

    fn check_one_of(&mut self, view: View<'_>, clauses: &[NodeId], new: &Tree, path: &Path<'_>) {
        let (valid, failed): (Vec<_>, Vec<_>) = clauses
            .iter()
            .map(|clause| outcome(view.to(*clause), new, path))
            .partition(|found| found.errors.is_empty());
        const SENTENCE: &str = "must validate one and only one schema (oneOf).";
        match valid.len() {
            1 => {}
            0 => {
                self.nowhere(path, &format!("{SENTENCE} Found none valid"));
                self.errors.append(&mut closest(failed));
            }
            n => self.nowhere(path, &format!("{SENTENCE} Found {n} valid alternatives")),
        }
    }

    fn check_all_of(&mut self, view: View<'_>, clauses: &[NodeId], new: &Tree, path: &Path<'_>) {
        let mut failed = 0;
        for clause in clauses {
            let mut found = outcome(view.to(*clause), new, path);
            failed += usize::from(!found.errors.is_empty());
            self.errors.append(&mut found.errors);
        }
        if failed > 0 {
            let none = if failed == clauses.len() { ". None validated" } else { "" };
            self.nowhere(path, &format!("must validate all the schemas (allOf){none}"));
        }
    }

    fn nowhere(&mut self, path: &Path<'_>, what: &str) {
        self.errors.push(FieldError::invalid(NOWHERE, "", format!("{:?} {what}", path.body())));
    }

    /// An embedded resource says what it is; that it says so at all is a matter of required fields.
    pub(super) fn check_embedded(&mut self, new: &Tree, path: &Path<'_>) {
        if let Some(version) = new.get("apiVersion").and_then(Tree::as_str) {
            let problem = match version.split('/').count() {
                _ if version.is_empty() => Some("must not be empty".to_owned()),
                0..=2 => None,
                _ => Some(format!("unexpected GroupVersion string: {version}")),
            };
            self.report(version, problem, &path.key("apiVersion"));
        }
        if let Some(kind) = new.get("kind").and_then(Tree::as_str) {
            let problem = match kind {
                "" => Some("must not be empty".to_owned()),
                _ if is_kind(kind) => None,
                _ => Some(KIND_FORM.to_owned()),
            };
            self.report(kind, problem, &path.key("kind"));
        }
    }

    fn report(&mut self, value: &str, problem: Option<String>, path: &Path<'_>) {
        self.errors.extend(problem.map(|problem| FieldError::invalid(path.to_string(), value, problem)));
    }
}

const KIND_FORM: &str = "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case \
     alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character \
     (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_kind(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

fn outcome(clause: View<'_>, new: &Tree, path: &Path<'_>) -> Outcome {
    let mut walk = Walk::new(false);
    walk.check(clause, Level::Clause, new, None, path);
    Outcome { errors: walk.errors, visits: walk.visits }
}

/// The errors of the clause that got furthest; the first of equals.
fn closest(failed: Vec<Outcome>) -> Vec<FieldError> {
    let best = failed.into_iter().reduce(|best, next| if next.visits > best.visits { next } else { best });
    best.map(|found| found.errors).unwrap_or_default()
}
