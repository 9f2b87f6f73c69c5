//! The book of volumes: who has which, and who may have which where.
//!
//! # Invariants
//!
//! - [`Volumes::take`] undoes [`Volumes::put`] exactly: a cycle that fails is undone in reverse.

use muster_api::node::NodeFacts;
use muster_tree::{Text, Tree};

use crate::asker::Asker as AnyAsker;
use crate::reason::Reason;

/// A pod that asks for volumes.
pub type Asker<'a> = AnyAsker<'a, Wants>;

/// What a pod wants of volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {}

impl Wants {
    /// Reads a Pod.
    #[must_use]
    pub fn of(_pod: &Tree) -> Wants {
        Wants {}
    }

    /// Whether it wants nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        true
    }
}

/// What is wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {}

impl Wrong {
    /// In words.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {}
    }

    /// Whether evicting pods there could help.
    #[must_use]
    pub fn resolvable(self) -> bool {
        match self {}
    }
}

/// What has to be so before a pod may be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {}

/// The book.
#[derive(Debug, Default)]
pub struct Volumes {}

impl Volumes {
    /// What keeps the pod from every node.
    #[must_use]
    pub fn hold(&self, _asker: &Asker<'_>) -> Option<Text> {
        None
    }

    /// What is wrong with a node.
    pub fn wrong(&mut self, _asker: &Asker<'_>, _node: &NodeFacts) -> Option<Wrong> {
        None
    }

    /// The pod is taken to be on the node of this name; its facts are known when we chose it.
    pub fn put(&mut self, _asker: &Asker<'_>, _node: &Text, _facts: Option<&NodeFacts>) {}

    /// The reverse of [`Volumes::put`].
    pub fn take(&mut self, _asker: &Asker<'_>) {}

    /// As if the pod were there (`sign` 1) or not (-1), while it is tried who might make room.
    pub fn pretend(&mut self, _asker: &Asker<'_>, _sign: i32) {}

    /// What has to be so before the pod may be bound.
    #[must_use]
    pub fn errands(&self, _asker: &Asker<'_>) -> Vec<Errand> {
        Vec::new()
    }
}
