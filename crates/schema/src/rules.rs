//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! Rules are compiled once per schema. Validation visits only values with rules at or below them, converts only the
//! fields that a rule references, and skips unchanged branches unless they have transition rules.
//!
//! # Guarantees
//!
//! - A transition rule (`oldSelf`) runs only if the value can be correlated with the stored one.
//! - A violation of an unchanged value is not reported (ratcheting).
//! - A validation executes at most [`STEPS_MAX`] loop iterations: the interpreter has no cost limit, so every loop of a
//!   compiled rule counts its iterations.
//!
//! # Deliberately absent
//!
//! A type checker: fields and functions are resolved at compile time, but `self.text == 1` fails only at run time. Cost
//! estimation at compile time.

mod context;
mod known;
mod names;
mod program;
mod scope;
mod selector;
mod values;
mod walk;

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::{Text, Tree};

use self::program::Program;
pub use self::selector::{Datum, Expression};
use crate::crd;
use crate::error::FieldError;
use crate::node::{ListKind, Node, NodeId, Rule, SchemaRef, Shape, View};
use crate::path::Path;

/// Largest number of loop iterations of all rules in one validation.
pub const STEPS_MAX: u64 = 200_000;
/// Largest length of a rule in bytes.
pub const RULE_BYTES_MAX: usize = 8 * 1024;

/// The compiled rules of one schema.
#[derive(Debug)]
pub struct Rules {
    schema: SchemaRef,
    nodes: BTreeMap<NodeId, NodeRules>,
    /// Nodes with rules at or below them.
    with_rules: BTreeSet<NodeId>,
    /// Nodes with transition rules at or below them.
    with_transitions: BTreeSet<NodeId>,
}

/// The rules of one node.
#[derive(Debug)]
struct NodeRules {
    rules: Vec<Compiled>,
    /// Fields that they reference in the new and in the stored value.
    needs: Needs,
    old_needs: Needs,
}

/// One compiled rule of a node.
#[derive(Debug)]
struct Compiled {
    rule: Rule,
    program: Program,
    message: Option<Program>,
    uses_old: bool,
    /// `fieldPath`: the field that a violation is reported at, relative to the rule's node.
    blames: String,
}

/// The fields of a value that a rule references.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Needs {
    /// No fields at all.
    #[default]
    Nothing,
    /// Only the fields of these names.
    Fields(BTreeSet<Text>),
    /// The value as a whole.
    Everything,
}

/// Parses an expression; the error is the message for its author.
pub fn syntax(expression: &str) -> Result<(), String> {
    program::Program::parse(expression).map(|_| ())
}

impl Rules {
    /// Compiles all rules of a schema. Errors have paths within the CRD.
    pub fn compile(schema: &SchemaRef) -> Result<Rules, Vec<FieldError>> {
        Rules::compile_at(crd::BASE, schema)
    }

    /// As [`Rules::compile`], with a prefix of error paths.
    pub fn compile_at(base: &str, schema: &SchemaRef) -> Result<Rules, Vec<FieldError>> {
        let mut rules = Rules {
            schema: schema.clone(),
            nodes: BTreeMap::new(),
            with_rules: BTreeSet::new(),
            with_transitions: BTreeSet::new(),
        };
        let mut compiler = Compiler { rules: &mut rules, errors: Vec::new(), open: Vec::new() };
        compiler.walk(schema.view(), base, None);
        let mut errors = compiler.errors;
        if errors.is_empty() {
            errors = rules.check_defaults(base);
        }
        if errors.is_empty() { Ok(rules) } else { Err(errors) }
    }

    /// Returns whether the schema has no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.with_rules.is_empty()
    }

    /// Validates `new`, which is to replace `old`; returns the violations.
    #[must_use]
    pub fn check(&self, new: &Tree, old: Option<&Tree>) -> Vec<FieldError> {
        if self.is_empty() {
            return Vec::new();
        }
        walk::check(self, self.schema.view(), new, old, &Path::Root(""))
    }

    /// Validates the defaults of the schema against its rules.
    fn check_defaults(&self, base: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        for_each_place(self.schema.view(), base, &mut |view, path| {
            if let Some(value) = view.node().default.as_ref().filter(|_| self.with_rules.contains(&view.id)) {
                errors.extend(walk::check(self, view, value, None, &Path::Root(&format!("{path}.default"))));
            }
        });
        errors
    }
}

/// Calls `visit` for every node that an object can reach, with its path in the schema.
fn for_each_place(view: View<'_>, path: &str, visit: &mut impl FnMut(View<'_>, &str)) {
    visit(view, path);
    for (below, path) in places_below(view, path) {
        for_each_place(below, &path, visit);
    }
}

/// The nodes directly below, without named types: those have no rules and may be recursive.
fn places_below<'s>(view: View<'s>, path: &str) -> Vec<(View<'s>, String)> {
    let mut below = match &view.node().shape {
        Shape::List(item) => vec![(view.to(*item), format!("{path}.items"))],
        Shape::Map(values) => vec![(view.to(*values), format!("{path}.additionalProperties"))],
        Shape::Fields(fields) => {
            fields.iter().map(|f| (view.to(f.node), format!("{path}.properties[{}]", f.name))).collect()
        }
        _ => Vec::new(),
    };
    below.retain(|(view, _)| view.node().name.is_empty());
    below
}

struct Compiler<'r> {
    rules: &'r mut Rules,
    errors: Vec<FieldError>,
    /// The nodes from the root to the current one.
    open: Vec<NodeId>,
}

impl Compiler<'_> {
    /// `fixed` is the path of the ancestor below which new values cannot be correlated with stored ones.
    fn walk(&mut self, view: View<'_>, path: &str, fixed: Option<&str>) {
        self.open.push(view.id);
        let node = view.node();
        if !node.rules.is_empty() {
            self.compile(view, path, fixed);
        }
        let fixed = fixed.or_else(|| (!keeps_identity(node)).then_some(path));
        for (below, path) in places_below(view, path) {
            self.walk(below, &path, fixed);
        }
        self.open.pop();
    }

    fn compile(&mut self, view: View<'_>, path: &str, fixed: Option<&str>) {
        let mut all = NodeRules { rules: Vec::new(), needs: Needs::Nothing, old_needs: Needs::Nothing };
        for (i, rule) in view.node().rules.iter().enumerate() {
            let path = format!("{path}.{}[{i}]", crd::RULES);
            match program::compile_rule(view, rule, &path) {
                Ok(compiled) => {
                    self.check_old(&compiled, &path, fixed);
                    for program in [Some(&compiled.program), compiled.message.as_ref()].into_iter().flatten()
                    {
                        all.needs = std::mem::take(&mut all.needs).and(program.needs("self"));
                        all.old_needs = std::mem::take(&mut all.old_needs).and(program.needs("oldSelf"));
                    }
                    if compiled.uses_old {
                        self.rules.with_transitions.extend(&self.open);
                    }
                    all.rules.push(compiled);
                }
                Err(errors) => self.errors.extend(errors),
            }
        }
        self.rules.with_rules.extend(&self.open);
        self.rules.nodes.insert(view.id, all);
    }

    fn check_old(&mut self, compiled: &Compiled, path: &str, fixed: Option<&str>) {
        let rule = &compiled.rule;
        if let (true, Some(fixed)) = (compiled.uses_old, fixed) {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {fixed}");
            self.errors.push(FieldError::invalid(format!("{path}.rule"), &rule.rule, detail));
        }
        if !compiled.uses_old && rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(format!("{path}.optionalOldSelf"), true, detail));
        }
    }
}

/// Returns whether values below a node can be correlated with stored ones.
fn keeps_identity(node: &Node) -> bool {
    match &node.shape {
        Shape::List(_) => matches!(node.list, ListKind::Map(_)),
        _ => !node.atomic_map,
    }
}

impl Needs {
    fn and(self, other: Needs) -> Needs {
        match (self, other) {
            (Needs::Everything, _) | (_, Needs::Everything) => Needs::Everything,
            (Needs::Nothing, needs) | (needs, Needs::Nothing) => needs,
            (Needs::Fields(mut a), Needs::Fields(b)) => {
                a.extend(b);
                Needs::Fields(a)
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Needs::Nothing => false,
            Needs::Fields(names) => names.contains(name),
            Needs::Everything => true,
        }
    }
}

pub(crate) use self::names::field_path_steps;

#[cfg(test)]
#[path = "rules/tests.rs"]
mod tests;
