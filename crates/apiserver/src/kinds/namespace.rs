//! Namespaces: `spec.finalizers` holds a deleting one until its content is deleted.

use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::{NameRule, ResourceStrategy, StrategyContext};
use crate::status::Status;

#[derive(Debug)]
pub(super) struct Namespace;

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl ResourceStrategy for Namespace {
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn default(&self, tree: Tree) -> Tree {
        let name = tree.text_at(&["metadata", "name"]);
        if name.is_empty() || tree.str_at(&["metadata", "labels", NAME_LABEL]) == name.as_str() {
            return tree;
        }
        tree.with(&["metadata", "labels", NAME_LABEL], name)
    }

    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let has = tree.items_at(&["spec", "finalizers"]);
        let others = has.iter().filter(|f| f.as_str() != Some("kubernetes")).cloned();
        let finalizers: Vec<Tree> = others.chain([Tree::from("kubernetes")]).collect();
        let tree = tree.with(&["spec", "finalizers"], Tree::list(finalizers));
        // `generateName` is resolved after defaulting, so the name label is set here.
        Ok(self.default(tree.with_key("status", tree!({"phase": "Active"}))))
    }

    fn prepare_update(&self, new: Tree, old: &Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(new.with_option(&["spec", "finalizers"], old.at(&["spec", "finalizers"]).cloned()))
    }

    fn holds_deletion(&self, tree: &Tree) -> bool {
        !tree.items_at(&["spec", "finalizers"]).is_empty()
    }

    fn begin_deletion(&self, tree: &Tree, now: Time) -> Option<Tree> {
        if !self.holds_deletion(tree) && tree.items_at(&["metadata", "finalizers"]).is_empty() {
            return None;
        }
        if tree.at(&["metadata", "deletionTimestamp"]).is_some() {
            return Some(tree.clone());
        }
        let tree = tree.with(&["metadata", "deletionTimestamp"], now.to_seconds_text());
        Some(tree.with(&["status", "phase"], "Terminating"))
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }
}
