//! CEL rules of custom resources (`x-kubernetes-validations`).
//!
//! Rules are compiled once per schema. A check visits only places that have rules at or below them, converts only the
//! fields that a rule names, and passes over branches that did not change unless a rule compares old with new.
//!
//! # Invariants
//!
//! - A rule that speaks of `oldSelf` runs only where the stored value can be told to be the same one.
//! - A rule that did not hold before, of a value that did not change, is not reported (ratcheting).
//! - No check takes more than [`STEPS_MAX`] turns of a loop: the interpreter has no cost limit, so every loop of a
//!   compiled rule counts its turns.
//!
//! # Deliberately absent
//!
//! A type checker. What a rule names is looked up in the schema and functions must be known, but `self.text == 1` is
//! found out only when it runs. Cost is not estimated at compile time either.

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

/// The most turns that all loops of all rules together may take in one check.
pub const STEPS_MAX: u64 = 200_000;
/// The longest rule, in bytes.
pub const RULE_BYTES_MAX: usize = 8 * 1024;

/// The compiled rules of one schema.
#[derive(Debug)]
pub struct Rules {
    schema: SchemaRef,
    nodes: BTreeMap<NodeId, NodeRules>,
    /// Places that have rules at or below them.
    with_rules: BTreeSet<NodeId>,
    /// Places that have rules about the old value at or below them.
    with_transitions: BTreeSet<NodeId>,
}

/// The rules at one place.
#[derive(Debug)]
struct NodeRules {
    rules: Vec<Compiled>,
    /// What they need of the value, and of the stored value.
    needs: Needs,
    old_needs: Needs,
}

/// One rule, ready to run.
#[derive(Debug)]
struct Compiled {
    rule: Rule,
    program: Program,
    message: Option<Program>,
    uses_old: bool,
    /// The path of the field to blame, below the place of the rule.
    blames: String,
}

/// Which fields of a value a rule looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Needs {
    /// None.
    #[default]
    Nothing,
    /// These.
    Fields(BTreeSet<Text>),
    /// The value as a whole.
    Everything,
}

/// Whether a text is an expression at all; the error is the sentence for its author.
pub fn syntax(expression: &str) -> Result<(), String> {
    program::Program::parse(expression).map(|_| ())
}

impl Rules {
    /// Compiles all rules of a schema. The errors have the paths of the schema, not of an object.
    pub fn compile(schema: &SchemaRef) -> Result<Rules, Vec<FieldError>> {
        Rules::compile_at(crd::BASE, schema)
    }

    /// As [`Rules::compile`], with `base` in front of every path.
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

    /// Whether there are no rules at all, so that a check costs nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.with_rules.is_empty()
    }

    /// The rules that do not hold for `new`, which is about to replace `old`.
    #[must_use]
    pub fn check(&self, new: &Tree, old: Option<&Tree>) -> Vec<FieldError> {
        if self.is_empty() {
            return Vec::new();
        }
        walk::check(self, self.schema.view(), new, old, &Path::Root(""))
    }

    /// Defaults must keep the rules too.
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

/// Calls `visit` for every place of a schema that an object can reach, with its path in the schema.
fn for_each_place(view: View<'_>, path: &str, visit: &mut impl FnMut(View<'_>, &str)) {
    visit(view, path);
    for (below, path) in places_below(view, path) {
        for_each_place(below, &path, visit);
    }
}

/// The places directly below; named types have no rules, and may be recursive, so they are left out.
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
    /// The places from the root to here.
    open: Vec<NodeId>,
}

impl Compiler<'_> {
    /// `fixed` is the path of the part above in which old and new values cannot be told to be the same.
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

/// Whether values below can be told to be the same as stored ones.
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
