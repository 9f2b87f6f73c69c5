//! Terms over a node's labels and name: affinity of pods, reach of volumes and devices.

use muster_tree::{Text, Tree};

use crate::node::NodeFacts;
use crate::paths::{expression, node_term};
use crate::selector::find_label;

/// Terms, any of which must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Terms(Vec<Term>);

/// Expressions, all of which must hold. A term without any matches nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Term(Vec<Expression>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Expression {
    key: Text,
    operator: Text,
    values: Vec<Text>,
    /// Over `metadata.name` instead of labels.
    field: bool,
}

impl Terms {
    /// Reads a list of terms.
    #[must_use]
    pub fn of(list: &Tree) -> Terms {
        Terms(list.items().iter().map(Term::of).collect())
    }

    /// Whether one of them matches.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        self.0.iter().any(|term| term.matches(node))
    }

    /// The nodes that they name one by one, sorted; `None` when a term does not, or there is none.
    #[must_use]
    pub fn named(&self) -> Option<Vec<Text>> {
        let mut all: Vec<Text> = Vec::new();
        for term in &self.0 {
            all.extend(term.named()?);
        }
        all.sort();
        all.dedup();
        (!self.0.is_empty()).then_some(all)
    }
}

impl Term {
    /// Reads a term.
    #[must_use]
    pub fn of(tree: &Tree) -> Term {
        let labels = tree.items_at(node_term::EXPRESSIONS).iter().map(|item| Expression::of(item, false));
        Term(
            labels
                .chain(tree.items_at(node_term::FIELDS).iter().map(|it| Expression::of(it, true)))
                .collect(),
        )
    }

    /// Whether it matches.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        !self.0.is_empty() && self.0.iter().all(|expression| expression.holds(node))
    }

    fn named(&self) -> Option<Vec<Text>> {
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
