//! Name resolution in an expression: every variable, function and field must exist.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::program::children;
use super::{context, known, names};
use crate::node::{OBJECT_META, Shape, View};

/// What is wrong with the names, one sentence each.
pub(super) fn check(expression: &IdedExpr, view: View<'_>, optional_old: bool, source: &str) -> Vec<String> {
    let mut scope = Scope { variables: BTreeMap::new(), problems: Vec::new(), source };
    scope.variables.insert("self".to_owned(), Some(view));
    scope.variables.insert("oldSelf".to_owned(), (!optional_old).then_some(view));
    scope.infer(expression);
    scope.problems
}

struct Scope<'s, 't> {
    /// Variables in reach, with the place of their value where it is known.
    variables: BTreeMap<String, Option<View<'s>>>,
    problems: Vec<String>,
    source: &'t str,
}

impl<'s> Scope<'s, '_> {
    /// The schema node that the value of an expression comes from, if it is known.
    fn infer(&mut self, expression: &IdedExpr) -> Option<View<'s>> {
        match &expression.expr {
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(loops) => self.comprehension(loops),
            Expr::Struct(made) => {
                self.undeclared(&made.type_name);
                None
            }
            Expr::Unspecified => {
                self.problem("incomplete expression", "");
                None
            }
            Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => {
                for child in children(expression) {
                    self.infer(child);
                }
                None
            }
        }
    }

    fn variable(&mut self, name: &str) -> Option<View<'s>> {
        if let Some(place) = self.variables.get(name) {
            return *place;
        }
        if !context::TYPE_NAMES.contains(&name) && !name.starts_with('@') {
            self.undeclared(name);
        }
        None
    }

    fn select(&mut self, select: &SelectExpr) -> Option<View<'s>> {
        let place = self.infer(&select.operand)?;
        self.field(place, &select.field)
    }

    fn field(&mut self, place: View<'s>, name: &str) -> Option<View<'s>> {
        let node = place.node();
        let plain = names::unescape(name);
        match &node.shape {
            Shape::Map(values) => Some(place.to(*values)),
            Shape::Fields(_) if node.name == OBJECT_META && !is_shown_metadata(&plain) => {
                self.undefined(name)
            }
            Shape::Fields(_) => match place.below(&plain) {
                Some(below) => Some(below),
                None if node.preserve_unknown => None,
                None => self.undefined(name),
            },
            _ => None,
        }
    }

    fn call(&mut self, call: &CallExpr) -> Option<View<'s>> {
        match (&call.target, call.func_name.as_str(), call.args.as_slice()) {
            (None, operators::INDEX, [list, index]) => {
                let place = self.infer(list)?;
                self.infer(index);
                item(place)
            }
            (None, operators::OPT_SELECT, [operand, name]) => {
                let place = self.infer(operand)?;
                if let Expr::Literal(LiteralValue::String(name)) = &name.expr {
                    self.field(place, name.inner());
                }
                None
            }
            _ => {
                self.function(call);
                None
            }
        }
    }

    fn function(&mut self, call: &CallExpr) {
        let name = call.func_name.as_str();
        let space = call.target.as_deref().and_then(|target| match &target.expr {
            Expr::Ident(space) if !self.variables.contains_key(space) => Some(space),
            _ => None,
        });
        let is_spaced = space.is_some_and(|space| known::is_spaced(space, name));
        if !is_spaced {
            if !known::is_function(name) && name != context::STEP {
                self.undeclared(name);
            }
            if let Some(target) = &call.target {
                self.infer(target);
            }
        }
        for arg in &call.args {
            self.infer(arg);
        }
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Option<View<'s>> {
        let range = self.infer(&loops.iter_range);
        self.infer(&loops.accu_init);
        let outer = self.variables.clone();
        let turn = range.filter(|place| matches!(place.node().shape, Shape::List(_))).and_then(item);
        self.variables.insert(loops.iter_var.clone(), turn);
        self.variables.insert(loops.accu_var.clone(), None);
        self.infer(&loops.loop_cond);
        self.infer(&loops.loop_step);
        self.infer(&loops.result);
        self.variables = outer;
        None
    }

    fn undeclared(&mut self, name: &str) {
        self.problem(&format!("undeclared reference to '{name}' (in container '')"), name);
    }

    fn undefined(&mut self, name: &str) -> Option<View<'s>> {
        self.problem(&format!("undefined field '{name}'"), &format!(".{name}"));
        None
    }

    /// A sentence with the place in the source where `words` stand first.
    fn problem(&mut self, what: &str, words: &str) {
        let at = self.source.find(words).unwrap_or(0);
        let before = &self.source[..at];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let text = self.source.lines().nth(line - 1).unwrap_or_default();
        let mark = format!("{}^", ".".repeat(column - 1));
        self.problems.push(format!("ERROR: <input>:{line}:{column}: {what}\n | {text}\n | {mark}"));
    }
}

fn item(place: View<'_>) -> Option<View<'_>> {
    match place.node().shape {
        Shape::List(below) | Shape::Map(below) => Some(place.to(below)),
        _ => None,
    }
}

/// All that rules may see of the metadata of an object.
pub(super) fn is_shown_metadata(name: &str) -> bool {
    matches!(name, "name" | "generateName")
}
