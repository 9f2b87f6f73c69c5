//! A compiled expression: parsed, checked against the schema, and instrumented to count loop iterations.

use std::collections::BTreeSet;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators,
};
use kube_cel::cel::common::types::{CelBool, CelString};
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, Value};
use muster_tree::{Text, Tree};

use super::{Compiled, Needs, RULE_BYTES_MAX, context, names, scope};
use crate::error::FieldError;
use crate::node::{Rule, Shape, View};

/// How deeply an expression may nest; evaluation recurses as deep.
const DEPTH_MAX: usize = 160;
/// How deeply brackets and conditions may nest; the parser recurses as deep, and breaks somewhat beyond.
const NESTING_MAX: usize = 64;

/// An expression that is ready to run.
#[derive(Debug)]
pub(super) struct Program(IdedExpr);

impl Program {
    /// Parses an expression and counts its loops; the error is the sentence for the author of the rule.
    pub(super) fn parse(source: &str) -> Result<Program, String> {
        if source.len() > RULE_BYTES_MAX {
            let have = source.len();
            return Err(format!("expression of {have} bytes is longer than {RULE_BYTES_MAX}; split it"));
        }
        if nesting(source) > NESTING_MAX {
            return Err(format!("expression nests deeper than {NESTING_MAX}; split it"));
        }
        let mut expression = parse(source)?;
        if depth(&expression) > DEPTH_MAX {
            return Err(format!("expression nests deeper than {DEPTH_MAX}; split it"));
        }
        prepare(&mut expression);
        Ok(Program(expression))
    }

    /// Evaluates the expression in a context.
    pub(super) fn run(&self, context: &Context<'_>) -> Result<Value, ExecutionError> {
        Value::resolve(&self.0, context)
    }

    /// What the expression looks at in the variable `name`.
    pub(super) fn needs(&self, name: &str) -> Needs {
        needs(&self.0, name)
    }

    /// The parsed expression tree.
    pub(super) fn expression(&self) -> &IdedExpr {
        &self.0
    }

    fn literal(&self) -> Option<&LiteralValue> {
        match &self.0.expr {
            Expr::Literal(value) => Some(value),
            _ => None,
        }
    }
}

fn parse(source: &str) -> Result<IdedExpr, String> {
    let parser = || Parser::new().enable_optional_syntax(true).parse(source);
    // The parser is generated third-party code: a panic in it must not abort the request.
    match std::panic::catch_unwind(parser) {
        // The lines that show the place stand one column in.
        Ok(parsed) => parsed.map_err(|e| e.to_string().replace("\n|", "\n |")),
        Err(_) => Err("expression cannot be parsed".to_owned()),
    }
}

/// An upper bound of how deeply brackets and conditions nest.
fn nesting(source: &str) -> usize {
    let (mut open, mut deepest, mut before) = (0_usize, 0, ' ');
    for c in source.chars() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            // Conditions nest to the right and have no closing mark; `.?` and `[?` are no conditions.
            '?' if before != '.' && before != '[' => open += 1,
            _ => {}
        }
        deepest = deepest.max(open);
        before = c;
    }
    deepest
}

/// Compiles one rule of a place in a schema; `path` is the rule's own.
pub(super) fn compile_rule(view: View<'_>, rule: &Rule, path: &str) -> Result<Compiled, Vec<FieldError>> {
    let mut errors = Vec::new();
    let shown = shown(rule);
    let program = compile(view, rule, &rule.rule).and_then(|program| match program.literal() {
        None | Some(LiteralValue::Boolean(_)) => Ok(program),
        Some(_) => Err("cel expression must evaluate to a bool".to_owned()),
    });
    let message = (!rule.message_expression.trim().is_empty()).then(|| {
        let program = compile(view, rule, &rule.message_expression);
        match program.map_err(|why| format!("messageExpression {why}"))?.checked_text() {
            Some(program) => Ok(program),
            None => Err("messageExpression must evaluate to a string".to_owned()),
        }
    });
    if let Err(why) = &program {
        errors.push(FieldError::invalid_as(format!("{path}.rule"), &shown, why));
    }
    if let Some(Err(why)) = &message {
        errors.push(FieldError::invalid_as(format!("{path}.messageExpression"), &shown, why));
    }
    match (program, message.transpose()) {
        (Ok(program), Ok(message)) => {
            let uses_old = program.needs("oldSelf") != Needs::Nothing;
            Ok(Compiled {
                rule: rule.clone(),
                program,
                message,
                uses_old,
                blames: blamed(view, &rule.field_path),
            })
        }
        _ => Err(errors),
    }
}

impl Program {
    fn checked_text(self) -> Option<Program> {
        match self.literal() {
            None | Some(LiteralValue::String(_)) => Some(self),
            Some(_) => None,
        }
    }
}

fn compile(view: View<'_>, rule: &Rule, source: &str) -> Result<Program, String> {
    let program = Program::parse(source).map_err(|why| format!("compilation failed: {why}"))?;
    let problems = scope::check(&program.0, view, rule.optional_old_self, source);
    if problems.is_empty() {
        Ok(program)
    } else {
        Err(format!("compilation failed: {}", problems.join("\n")))
    }
}

/// A rule as messages show it.
fn shown(rule: &Rule) -> String {
    let some = |text: &Text| Some(text).filter(|t| !t.is_empty()).map_or(Tree::Null, Tree::from);
    let parts = [
        ("Rule", Tree::from(&rule.rule)),
        ("Message", Tree::from(&rule.message)),
        ("MessageExpression", Tree::from(&rule.message_expression)),
        ("Reason", some(&rule.reason)),
        ("FieldPath", Tree::from(&rule.field_path)),
        ("OptionalOldSelf", if rule.optional_old_self { Tree::from(true) } else { Tree::Null }),
    ];
    let parts: Vec<String> =
        parts.iter().map(|(name, value)| format!("{name:?}:{}", value.to_json())).collect();
    format!("{{{}}}", parts.join(","))
}

/// The path to blame as it is added to the path of the place: fields with a point, free keys in brackets.
fn blamed(view: View<'_>, path: &str) -> String {
    let mut here = Some(view);
    let mut out = String::new();
    for name in names::field_path_steps(path).unwrap_or_default() {
        let free = here.is_some_and(|view| matches!(view.node().shape, Shape::Map(_)));
        out.push_str(&if free { format!("[{name}]") } else { format!(".{name}") });
        here = here.and_then(|view| view.below(&name));
    }
    out
}

/// The expressions directly inside another.
pub(super) fn children(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(c) => {
            vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(e) => vec![&e.key, &e.value],
                EntryExpr::StructField(f) => vec![&f.value],
            })
            .collect(),
        Expr::Select(select) => vec![&select.operand],
    }
}

fn children_mut(expression: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(c) => {
            vec![&mut c.iter_range, &mut c.accu_init, &mut c.loop_cond, &mut c.loop_step, &mut c.result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => map
            .entries
            .iter_mut()
            .flat_map(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(e) => vec![&mut e.key, &mut e.value],
                EntryExpr::StructField(f) => vec![&mut f.value],
            })
            .collect(),
        Expr::Select(select) => vec![&mut select.operand],
    }
}

fn depth(expression: &IdedExpr) -> usize {
    1 + children(expression).into_iter().map(depth).max().unwrap_or(0)
}

/// Makes every loop count its turns, and spells out macros that the parser does not know.
fn prepare(expression: &mut IdedExpr) {
    for child in children_mut(expression) {
        prepare(child);
    }
    match &mut expression.expr {
        Expr::Comprehension(loops) => count_turns(loops),
        Expr::Call(call) if is_opt_map(call) => *expression = opt_map(std::mem::take(call)),
        Expr::Call(call) if is_bind(call) => *expression = bound(std::mem::take(call)),
        _ => {}
    }
}

fn count_turns(loops: &mut ComprehensionExpr) {
    let goes_on = std::mem::take(&mut loops.loop_cond);
    loops.loop_cond = call(operators::CONDITIONAL, vec![call(context::STEP, vec![]), goes_on, truth(false)]);
}

fn is_opt_map(call: &CallExpr) -> bool {
    let named = matches!(call.func_name.as_str(), "optMap" | "optFlatMap") && call.target.is_some();
    named && matches!(call.args.as_slice(), [IdedExpr { expr: Expr::Ident(_), .. }, _])
}

fn is_bind(call: &CallExpr) -> bool {
    let space =
        call.target.as_deref().is_some_and(|it| matches!(&it.expr, Expr::Ident(name) if name == "cel"));
    let named = matches!(call.args.as_slice(), [IdedExpr { expr: Expr::Ident(_), .. }, _, _]);
    space && call.func_name == "bind" && named
}

/// `cel.bind(v, x, e)` is `e` with `v` standing for `x`.
fn bound(mut whole: CallExpr) -> IdedExpr {
    let result = whole.args.pop().unwrap_or_default();
    let value = whole.args.pop().unwrap_or_default();
    match whole.args.pop().map(|it| it.expr) {
        Some(Expr::Ident(name)) => bind(name, value, result),
        _ => IdedExpr::default(),
    }
}

/// A call of a function with one text.
pub(super) fn called(function: &str, words: &str) -> Program {
    let words = LiteralValue::String(CelString::from(words.to_owned()));
    Program(call(function, vec![node(Expr::Literal(words))]))
}

/// `x.optMap(v, e)` is `x.hasValue() ? optional.of(e with v = x.value()) : optional.none()`.
fn opt_map(mut whole: CallExpr) -> IdedExpr {
    let target = whole.target.take().map(|t| *t).unwrap_or_default();
    let made = whole.args.pop().unwrap_or_default();
    let Some(IdedExpr { expr: Expr::Ident(name), .. }) = whole.args.pop() else {
        return IdedExpr::default();
    };
    let bound = bind(name, method(target.clone(), "value"), made);
    let some = match whole.func_name.as_str() {
        "optFlatMap" => bound,
        _ => spaced("optional", "of", vec![bound]),
    };
    let none = spaced("optional", "none", vec![]);
    call(operators::CONDITIONAL, vec![method(target, "hasValue"), some, none])
}

/// Binds `name` to `value` in `result`, as a loop over nothing with the name as accumulator.
fn bind(name: String, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    node(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: node(Expr::List(ListExpr::default())),
        iter_var: "@unused".to_owned(),
        iter_var2: None,
        accu_init: value,
        loop_cond: truth(false),
        loop_step: node(Expr::Ident(name.clone())),
        accu_var: name,
        result,
    })))
}

fn node(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

fn truth(value: bool) -> IdedExpr {
    node(Expr::Literal(LiteralValue::Boolean(CelBool::from(value))))
}

fn call(name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn method(target: IdedExpr, name: &str) -> IdedExpr {
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(target)), args: vec![] }))
}

fn spaced(space: &str, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    let target = Some(Box::new(node(Expr::Ident(space.to_owned()))));
    node(Expr::Call(CallExpr { func_name: name.to_owned(), target, args }))
}

fn needs(expression: &IdedExpr, variable: &str) -> Needs {
    let is_variable = |e: &IdedExpr| matches!(&e.expr, Expr::Ident(name) if name == variable);
    match &expression.expr {
        Expr::Ident(name) if name == variable => Needs::Everything,
        Expr::Select(select) if is_variable(&select.operand) => one(&select.field),
        Expr::Call(call)
            if call.func_name == operators::OPT_SELECT && call.args.first().is_some_and(is_variable) =>
        {
            match call.args.get(1).map(|a| &a.expr) {
                Some(Expr::Literal(LiteralValue::String(name))) => one(name.inner()),
                _ => Needs::Everything,
            }
        }
        _ => children(expression)
            .into_iter()
            .fold(Needs::Nothing, |all, child| all.and(needs(child, variable))),
    }
}

fn one(name: &str) -> Needs {
    Needs::Fields(BTreeSet::from([Text::from(names::unescape(name))]))
}
