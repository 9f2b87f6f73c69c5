//! Node selectors: node affinity of pods, and node affinity of PersistentVolumes and ResourceSlices.

use muster_tree::{Text, Tree};

use crate::node::NodeFacts;
use crate::paths::{expression, node_term};
use crate::selector::find_label;

/// A node selector: at least one term must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelector(Vec<NodeSelectorTerm>);

/// A node selector term: every requirement must match. An empty term matches no node.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm(Vec<Expression>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Expression {
    key: Text,
    operator: Text,
    values: Vec<Text>,
    /// Matches the field `metadata.name` instead of a label.
    field: bool,
}

impl NodeSelector {
    /// Reads the list `nodeSelectorTerms`.
    #[must_use]
    pub fn of(list: &Tree) -> NodeSelector {
        NodeSelector(list.items().iter().map(NodeSelectorTerm::of).collect())
    }

    /// Returns whether any term matches a node.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        self.0.iter().any(|term| term.matches(node))
    }

    /// Names of the only nodes that can match, sorted; `None` if a term does not restrict `metadata.name`.
    #[must_use]
    pub fn node_names(&self) -> Option<Vec<Text>> {
        let mut all: Vec<Text> = Vec::new();
        for term in &self.0 {
            all.extend(term.named()?);
        }
        all.sort();
        all.dedup();
        (!self.0.is_empty()).then_some(all)
    }
}

impl NodeSelectorTerm {
    /// Reads a term: `matchExpressions` and `matchFields`.
    #[must_use]
    pub fn of(tree: &Tree) -> NodeSelectorTerm {
        let labels = tree.items_at(node_term::EXPRESSIONS).iter().map(|item| Expression::of(item, false));
        NodeSelectorTerm(
            labels
                .chain(tree.items_at(node_term::FIELDS).iter().map(|it| Expression::of(it, true)))
                .collect(),
        )
    }

    /// Returns whether every requirement matches a node; false for a term without any.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        !self.0.is_empty() && self.0.iter().all(|expression| expression.holds(node))
    }

    fn named(&self) -> Option<Vec<Text>> {
        // DaemonSet pods and local volumes name nodes by metadata.name; then only those need to be checked.
        let mut lists = self.0.iter().filter(|e| e.field && e.operator == "In").map(|e| &e.values);
        let first = lists.next()?;
        let rest: Vec<&Vec<Text>> = lists.collect();
        Some(first.iter().filter(|name| rest.iter().all(|list| list.contains(name))).cloned().collect())
    }
}

impl Expression {
    fn of(tree: &Tree, field: bool) -> Expression {
        let values = tree.items_at(expression::VALUES).iter().filter_map(Tree::as_text);
        Expression {
            key: tree.text_at(expression::KEY),
            operator: tree.text_at(expression::OPERATOR),
            values: values.cloned().collect(),
            field,
        }
    }

    fn holds(&self, node: &NodeFacts) -> bool {
        let found = if self.field { Some(&node.name) } else { find_label(&node.labels, &self.key) };
        let listed = || found.is_some_and(|value| self.values.contains(value));
        let number = |text: &Text| text.parse::<i64>().ok();
        let compared = |ok: fn(&i64, &i64) -> bool| {
            found.and_then(number).zip(self.values.first().and_then(number)).is_some_and(|(a, b)| ok(&a, &b))
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compared(i64::gt),
            "Lt" => compared(i64::lt),
            _ => false,
        }
    }
}
