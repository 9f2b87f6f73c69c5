//! The strategy of CustomResourceDefinitions: defaults, status, deletion.

use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use super::{DEFINITIONS, names, validation};
use crate::kinds::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext};
use crate::status::Status;

/// The finalizer that holds a CRD until its last object is deleted.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

#[derive(Debug)]
pub(crate) struct CrdStrategy;

impl ResourceStrategy for CrdStrategy {
    fn default(&self, tree: Tree) -> Tree {
        let mut tree = tree;
        let kind = tree.text_at(&["spec", "names", "kind"]);
        let mut fill = |path: &[&str], value: Tree| {
            if tree.at(path).is_none_or(|old| old.as_str() == Some("")) {
                tree = tree.with(path, value);
            }
        };
        if !kind.is_empty() {
            fill(&["spec", "names", "singular"], Tree::from(kind.to_lowercase()));
            fill(&["spec", "names", "listKind"], Tree::from(format!("{kind}List")));
        }
        fill(&["spec", "conversion", "strategy"], Tree::from("None"));
        tree
    }

    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        // Names are accepted in a second write, so that watchers see the CRD become Established.
        let stored = Tree::list(storage_version(&tree).map(Tree::from));
        Ok(tree.with_key(
            "status",
            tree!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": stored}),
        ))
    }

    fn prepare_update(&self, new: Tree, old: &Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        if new.get("spec") == old.get("spec") {
            return Ok(new);
        }
        let stored = old.items_at(&["status", "storedVersions"]);
        let now = storage_version(&new).map(Tree::from).filter(|version| !stored.contains(version));
        let stored: Vec<Tree> = stored.iter().cloned().chain(now).collect();
        Ok(accepted(&new.with(&["status", "storedVersions"], Tree::list(stored)), cx))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        validation::name(new, errors);
        validation::definition(new, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if new.get("spec") != old.get("spec") {
            validation::definition(new, errors);
            validation::changed(new, old, errors);
        }
    }

    fn begin_deletion(&self, tree: &Tree, now: Time) -> Option<Tree> {
        if tree.at(&["metadata", "deletionTimestamp"]).is_some() {
            return Some(tree.clone());
        }
        let others =
            tree.items_at(&["metadata", "finalizers"]).iter().filter(|f| f.as_str() != Some(CLEANUP));
        let finalizers: Vec<Tree> = others.cloned().chain([Tree::from(CLEANUP)]).collect();
        let stamp = now.to_seconds_text();
        let doomed = tree
            .with(&["metadata", "deletionTimestamp"], stamp.as_str())
            .with(&["metadata", "finalizers"], Tree::list(finalizers));
        let why = (
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
        Some(with_condition(&doomed, "Terminating", true, why, now))
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn status_keeps_metadata(&self) -> bool {
        true
    }
}

fn storage_version(tree: &Tree) -> Option<Text> {
    let versions = tree.items_at(&["spec", "versions"]).iter();
    versions.filter(|v| v.bool_at(&["storage"]) == Some(true)).map(|v| v.text_at(&["name"])).next()
}

fn accepted(tree: &Tree, cx: &StrategyContext<'_>) -> Tree {
    let others: Vec<Tree> = cx.lister.all(DEFINITIONS).into_iter().map(|object| object.tree).collect();
    with_acceptance(tree, &others, cx.now)
}

/// Sets accepted names and the conditions that follow from them.
pub(super) fn with_acceptance(tree: &Tree, others: &[Tree], now: Time) -> Tree {
    let (names, conflict) = names::accept(tree, others);
    let tree = tree.with(&["status", "acceptedNames"], names);
    // Read before the conditions change.
    let was = super::is_true(&tree, "Established");
    let (named, established) = match &conflict {
        None => (
            ("NoConflicts", "no conflicts found"),
            ("InitialNamesAccepted", "the initial names have been accepted"),
        ),
        Some((reason, message)) => {
            ((*reason, message.as_str()), ("NotAccepted", "not all names are accepted"))
        }
    };
    let fine = conflict.is_none();
    let tree = with_condition(&tree, "NamesAccepted", fine, named, now);
    // Established never becomes False again.
    if was { tree } else { with_condition(&tree, "Established", fine, established, now) }
}

fn with_condition(tree: &Tree, kind: &str, holds: bool, why: (&str, &str), now: Time) -> Tree {
    let status = if holds { "True" } else { "False" };
    let old = tree.items_at(&["status", "conditions"]);
    let before = old.iter().find(|c| c.str_at(&["type"]) == kind);
    let since =
        before.filter(|c| c.str_at(&["status"]) == status).map(|c| c.text_at(&["lastTransitionTime"]));
    let since = since.unwrap_or_else(|| Text::from(now.to_seconds_text()));
    let new = tree!({"type": kind, "status": status, "reason": why.0, "message": why.1, "lastTransitionTime": since});
    let mut all: Vec<Tree> = old.to_vec();
    match all.iter().position(|c| c.str_at(&["type"]) == kind) {
        Some(at) => all[at] = new,
        None => all.push(new),
    }
    tree.with(&["status", "conditions"], Tree::list(all))
}
