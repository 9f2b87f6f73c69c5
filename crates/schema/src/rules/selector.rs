//! CEL device selectors: an expression over a named value, without a schema.
//!
//! Values are [`Datum`]s, so that callers do not depend on the CEL library.
//!
//! # Guarantees
//!
//! - An evaluation takes at most [`STEPS_MAX`] loop iterations.
//! - The result depends on the expression and the value only.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Value};
use muster_tree::Text;

use super::program::{self, Program};
use super::{STEPS_MAX, context};

/// A value that an expression can look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Datum {
    /// A CEL value of type `string`.
    Text(Text),
    /// A CEL value of type `int`.
    Int(i64),
    /// A CEL value of type `bool`.
    Bool(bool),
    /// A semantic version (`semver`).
    Version(Text),
    /// A resource quantity, as text.
    Quantity(Text),
    /// A CEL value of type `list`.
    List(Vec<Datum>),
    /// A CEL map with string keys.
    Map(Vec<(Text, Datum)>),
}

/// An expression that says yes or no.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    indexed: BTreeSet<Text>,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The sentence for its author.
    pub fn compile(source: &str) -> Result<Expression, String> {
        let program = Program::parse(source)?;
        let mut indexed = BTreeSet::new();
        collect_indexes(program.expression(), &mut indexed);
        Ok(Expression { program, indexed })
    }

    /// The texts that it looks up in square brackets.
    #[must_use]
    pub fn indexed(&self) -> &BTreeSet<Text> {
        &self.indexed
    }

    /// Whether it holds when `name` stands for `value`.
    ///
    /// # Errors
    /// It does not come to an answer; the words are those of the real server as far as we know them.
    pub fn holds(&self, name: &str, value: &Datum) -> Result<bool, String> {
        let root = context::root();
        let mut inner = root.new_inner_scope();
        let value = value_of(value, root).map_err(|why| said(&why))?;
        inner.add_variable_from_value(name, value);
        context::allow_steps(STEPS_MAX);
        match self.program.run(&inner).map_err(|why| said(&why))? {
            Value::Bool(yes) => Ok(yes),
            other => {
                let is = other.type_of().to_string();
                Err(format!(
                    "CEL result of type {is} could not be converted to bool: type conversion error from '{is}' to 'bool'"
                ))
            }
        }
    }
}

/// The value of a datum. Versions and quantities are made by the functions that expressions call for it.
fn value_of(datum: &Datum, root: &Context<'_>) -> Result<Value, ExecutionError> {
    let made = |function: &str, words: &Text| program::called(function, words).run(root);
    Ok(match datum {
        Datum::Text(words) => Value::String(Arc::new(words.to_string())),
        Datum::Int(n) => Value::Int(*n),
        Datum::Bool(yes) => Value::Bool(*yes),
        Datum::Version(words) => made("semver", words)?,
        Datum::Quantity(words) => made("quantity", words)?,
        Datum::List(items) => {
            let items: Result<Vec<Value>, _> = items.iter().map(|it| value_of(it, root)).collect();
            Value::List(Arc::new(items?))
        }
        Datum::Map(entries) => {
            let entry = |(name, value): &(Text, Datum)| {
                Ok((Key::String(Arc::new(name.to_string())), value_of(value, root)?))
            };
            let entries: Result<HashMap<Key, Value>, ExecutionError> = entries.iter().map(entry).collect();
            Value::Map(Map { map: Arc::new(entries?) })
        }
    })
}

/// An error in the words of the real server.
fn said(why: &ExecutionError) -> String {
    match why {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        other => other.to_string(),
    }
}

fn collect_indexes(expression: &IdedExpr, found: &mut BTreeSet<Text>) {
    if let Expr::Call(call) = &expression.expr
        && (call.func_name == operators::INDEX || call.func_name == operators::OPT_INDEX)
        && let Some(Expr::Literal(LiteralValue::String(name))) = call.args.get(1).map(|it| &it.expr)
    {
        found.insert(Text::from(name.inner()));
    }
    program::children(expression).into_iter().for_each(|child| collect_indexes(child, found));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Datum {
        let attributes = vec![
            ("model".into(), Datum::Text("a100".into())),
            ("index".into(), Datum::Int(3)),
            ("shared".into(), Datum::Bool(false)),
            ("driverVersion".into(), Datum::Version("1.2.3".into())),
        ];
        let memory = vec![("memory".into(), Datum::Quantity("80Gi".into()))];
        let domain = |entries| Datum::Map(vec![("gpu.example.com".into(), Datum::Map(entries))]);
        Datum::Map(vec![
            ("driver".into(), Datum::Text("gpu.example.com".into())),
            ("attributes".into(), domain(attributes)),
            ("capacity".into(), domain(memory)),
        ])
    }

    #[test]
    fn answers() {
        let gpu = "device.attributes[\"gpu.example.com\"]";
        let capacity = "device.capacity[\"gpu.example.com\"]";
        for (about, source, want) in [
            ("driver", "device.driver == \"gpu.example.com\"".to_owned(), Ok(true)),
            ("text", format!("{gpu}.model == \"a100\""), Ok(true)),
            ("number", format!("{gpu}.index > 2"), Ok(true)),
            ("truth", format!("{gpu}.shared"), Ok(false)),
            ("version above", format!("{gpu}.driverVersion.isGreaterThan(semver(\"1.2.0\"))"), Ok(true)),
            ("same version", format!("{gpu}.driverVersion == semver(\"1.2.3\")"), Ok(true)),
            ("version compared", format!("{gpu}.driverVersion.compareTo(semver(\"2.0.0\")) < 0"), Ok(true)),
            ("quantity", format!("{capacity}.memory.compareTo(quantity(\"40Gi\")) >= 0"), Ok(true)),
            ("same quantity", format!("{capacity}.memory == quantity(\"81920Mi\")"), Ok(true)),
            ("quantity too small", format!("{capacity}.memory.isGreaterThan(quantity(\"1Ti\"))"), Ok(false)),
            ("presence", format!("has({gpu}.model) && !has({gpu}.other)"), Ok(true)),
            ("optional", format!("{gpu}[?\"other\"].orValue(\"x\") == \"x\""), Ok(true)),
            ("binding", format!("cel.bind(gpu, {gpu}, gpu.index == 3 && gpu.model == \"a100\")"), Ok(true)),
            ("missing", format!("{gpu}.other == 1"), Err("no such key: other")),
        ] {
            let answer = Expression::compile(&source).unwrap().holds("device", &device());
            assert_eq!(answer, want.map_err(str::to_owned), "{about}: {source}");
        }
    }

    #[test]
    fn knows_what_it_indexes() {
        let source = "device.attributes[\"a\"].x == 1 && \"b\" in device.attributes";
        let found = Expression::compile(source).unwrap();
        assert_eq!(found.indexed().iter().map(Text::as_str).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn no_answer_is_an_error() {
        let words = Expression::compile("device.driver").unwrap().holds("device", &device()).unwrap_err();
        assert!(words.contains("could not be converted to bool"), "{words}");
        assert!(Expression::compile("device.driver ==").is_err());
    }
}
