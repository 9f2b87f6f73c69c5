//! Evaluates the rules of a schema over an object.

use kube_cel::cel::{Context, ExecutionError, Value};
use muster_tree::Tree;

use super::values::{old_value, optional, value};
use super::{Compiled, NodeRules, Rules, STEPS_MAX, context};
use crate::error::{FieldError, Problem};
use crate::formats;
use crate::node::{Shape, View};
use crate::path::Path;
use crate::validate::correlate;

/// The longest message that an expression may make, in bytes.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// Runs all rules at and below a place.
pub(super) fn check(
    rules: &Rules,
    view: View<'_>,
    new: &Tree,
    old: Option<&Tree>,
    path: &Path<'_>,
) -> Vec<FieldError> {
    context::allow_steps(STEPS_MAX);
    let mut walk = Walk { rules, errors: Vec::new() };
    walk.visit(view, new, old, false, path);
    walk.errors
}

struct Walk<'r> {
    rules: &'r Rules,
    errors: Vec<FieldError>,
}

/// What the rules at one place look at.
struct Here<'a> {
    view: View<'a>,
    new: &'a Tree,
    old: Option<&'a Tree>,
    /// Whether the value, or the nearest one above that can be compared, did not change.
    unchanged: bool,
    path: &'a Path<'a>,
}

impl Walk<'_> {
    fn visit(&mut self, view: View<'_>, new: &Tree, old: Option<&Tree>, unchanged: bool, path: &Path<'_>) {
        if new.is_null() || !self.rules.with_rules.contains(&view.id) || context::is_exhausted() {
            return;
        }
        let unchanged = old.map_or(unchanged, |old| old == new);
        if unchanged && !self.rules.with_transitions.contains(&view.id) {
            return;
        }
        if let Some(rules) = self.rules.nodes.get(&view.id) {
            let old = old.filter(|old| !old.is_null());
            self.run(rules, &Here { view, new, old, unchanged, path });
        }
        self.descend(view, new, old, unchanged, path);
    }

    fn descend(&mut self, view: View<'_>, new: &Tree, old: Option<&Tree>, unchanged: bool, path: &Path<'_>) {
        let old_below = |key: &str| if view.node().atomic_map { None } else { old?.get(key) };
        match (&view.node().shape, new) {
            (Shape::List(item), Tree::List(_)) => {
                for (index, value) in new.items().iter().enumerate() {
                    let old = old.and_then(|old| correlate(view, old, value));
                    self.visit(view.to(*item), value, old, unchanged, &path.item(index));
                }
            }
            (Shape::Map(values), Tree::Map(_)) => {
                for (key, value) in new.entries() {
                    self.visit(view.to(*values), value, old_below(key), unchanged, &path.entry(key));
                }
            }
            (Shape::Fields(_), Tree::Map(_)) => {
                for (key, value) in new.entries() {
                    if let Some(below) = view.below(key) {
                        self.visit(below, value, old_below(key), unchanged, &path.key(key));
                    }
                }
            }
            _ => {}
        }
    }

    fn run(&mut self, rules: &NodeRules, here: &Here<'_>) {
        let due = |rule: &&Compiled| {
            let has_old = here.old.is_some() || rule.rule.optional_old_self;
            if rule.uses_old { has_old } else { !here.unchanged }
        };
        if !rules.rules.iter().any(|rule| due(&rule)) {
            return;
        }
        let mut scope = context::root().new_inner_scope();
        scope.add_variable_from_value("self", value(here.view, here.new, &rules.needs));
        let old = here.old.map(|old| old_value(here.view, old, here.new, &rules.old_needs));
        let mut with_optional = scope.new_inner_scope();
        with_optional.add_variable_from_value("oldSelf", optional(old.clone()));
        let mut with_old = scope.new_inner_scope();
        if let Some(old) = old {
            with_old.add_variable_from_value("oldSelf", old);
        }
        for rule in rules.rules.iter().filter(due) {
            let is_optional = rule.rule.optional_old_self;
            self.run_one(rule, here, if is_optional { &with_optional } else { &with_old });
            if context::is_exhausted() {
                return;
            }
        }
    }

    fn run_one(&mut self, rule: &Compiled, here: &Here<'_>, scope: &Context<'_>) {
        match rule.program.run(scope) {
            Ok(Value::Bool(true)) => {}
            Ok(Value::Bool(false)) => self.errors.push(broken(rule, here, message(rule, scope))),
            Ok(_) => self.errors.push(failed(rule, here, &ExecutionError::NoSuchOverload)),
            Err(error) => self.errors.push(failed(rule, here, &error)),
        }
    }
}

/// A rule that does not hold.
fn broken(rule: &Compiled, here: &Here<'_>, detail: String) -> FieldError {
    let is_branch = here.new.is_map() || here.new.is_list();
    let problem = match (rule.rule.reason.as_str(), is_branch) {
        ("FieldValueForbidden", _) => Problem::Forbidden,
        ("FieldValueRequired", _) => Problem::Required,
        ("FieldValueDuplicate", true) => Problem::DuplicateBranch,
        ("FieldValueDuplicate", false) => Problem::Duplicate,
        (_, true) => Problem::InvalidBranch,
        (_, false) => Problem::Invalid,
    };
    let detail = if rule.rule.reason == "FieldValueDuplicate" { String::new() } else { detail };
    let path = whole_path(here.path, &rule.blames);
    FieldError { path, problem, value: here.new.clone(), detail }
}

/// A rule that could not be run to its end.
fn failed(rule: &Compiled, here: &Here<'_>, error: &ExecutionError) -> FieldError {
    let words = if rule.rule.message.is_empty() { rule.rule.rule.trim() } else { rule.rule.message.trim() };
    let detail = match error {
        _ if context::is_exhausted() => format!(
            "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
             call cost exceeds limit for rule: {words}"
        ),
        error if is_overload(error) => format!(
            "'no such overload': call arguments did not match a supported operator, function or macro signature \
             for rule: {words}"
        ),
        error => format!("{} evaluating rule: {words}", spelled(error)),
    };
    FieldError::invalid(whole_path(here.path, ""), type_word(here.view), detail)
}

/// The `type` that the schema gives to a place, which is shown in place of the value.
fn type_word(view: View<'_>) -> &'static str {
    match view.node().shape {
        Shape::Any => "",
        Shape::Bool => "boolean",
        Shape::Int => "integer",
        Shape::Number => "number",
        Shape::Text => "string",
        Shape::List(_) => "array",
        Shape::Map(_) | Shape::Fields(_) => "object",
    }
}

fn is_overload(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::NoSuchOverload
            | ExecutionError::ValuesNotComparable(..)
            | ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::UnsupportedUnaryOperator(..)
            | ExecutionError::UnsupportedTargetType { .. }
            | ExecutionError::NotSupportedAsMethod { .. }
            | ExecutionError::UnexpectedType { .. }
    )
}

/// An error of the interpreter in the words of the real one.
fn spelled(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(Value::Int(at)) => format!("index out of bounds: {at}"),
        // Any text that is no quantity will do: its error is what we are after.
        ExecutionError::FunctionError { function, .. } if function == "quantity" => {
            formats::quantity("").err().unwrap_or_default().to_owned()
        }
        ExecutionError::FunctionError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}

/// What to say of a rule that does not hold.
fn message(rule: &Compiled, scope: &Context<'_>) -> String {
    let made = rule.message.as_ref().and_then(|program| match program.run(scope) {
        Ok(Value::String(text)) => Some(text.trim().to_owned()),
        _ => None,
    });
    let fits =
        |text: &String| !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains(['\n', '\r']);
    made.filter(fits).unwrap_or_else(|| match rule.rule.message.trim() {
        "" => format!("failed rule: {}", rule.rule.rule.trim()),
        message => message.to_owned(),
    })
}

/// The path of a place and of a field below it; the root alone has none.
fn whole_path(path: &Path<'_>, below: &str) -> String {
    let whole = format!("{path}{below}");
    match whole.as_str() {
        "" => "<nil>".to_owned(),
        _ => whole.strip_prefix('.').unwrap_or(&whole).to_owned(),
    }
}
