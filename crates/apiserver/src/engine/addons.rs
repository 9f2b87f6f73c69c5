//! Addons: objects bundled with the server, created when missing and updated by a new version.
//!
//! An annotation on each holds the manifest that was applied last (compare kubectl's last-applied-configuration). It
//! separates users' changes from those of a new version, and our objects from foreign ones of the same name.
//!
//! # Invariants
//!
//! - An addon that users changed in any field of the manifest is not updated any more.
//! - An object without the annotation is never touched.
//! - A restart without a new version writes nothing.

use std::sync::Arc;

use muster_api::consts::annotations::SHIPPED;
use muster_tree::{Text, Tree};

use super::ApiEngine;
use crate::registry::Resource;
use crate::request::{Patch, RequestBody, ResourcePath, WriteAct};

const MANAGER: &str = "muster";

impl ApiEngine {
    /// Creates or updates the addons. Does not wait for durability: later writes see the pending ones.
    pub(super) fn apply_addons(&self) {
        for shipped in &self.inner.options.addons {
            self.apply_addon(shipped);
        }
    }

    fn apply_addon(&self, shipped: &Tree) {
        let (kind, name) = (shipped.str_at(&["kind"]), shipped.text_at(&["metadata", "name"]));
        let Some((resource, target)) = self.resolve_addon(shipped) else {
            return tracing::error!(kind, %name, "cannot apply addon: its kind is not served");
        };
        let live = self.store().get(&resource.key(&target.namespace, &target.name));
        let wanted = match next(live.as_ref().map(|it| &it.tree), shipped) {
            AddonAction::Write(wanted) => wanted,
            AddonAction::Skip => return,
            AddonAction::UserModified => {
                return tracing::info!(kind, %name, "addon was changed by a user, not updated");
            }
        };
        // No `force`: a field with another owner stays as it is.
        let act = WriteAct::Patch(Patch::Apply {
            body: RequestBody { tree: wanted, duplicates: Vec::new() },
            force: false,
        });
        self.write_own(MANAGER, target, act, move |refused| match refused {
            Some(status) if status.code == 409 => {
                tracing::info!(%name, error = %status.message, "addon has conflicting field owners, not updated");
            }
            Some(status) => tracing::error!(%name, error = %status.message, "cannot apply addon"),
            None => {}
        });
    }

    fn resolve_addon(&self, shipped: &Tree) -> Option<(Arc<Resource>, ResourcePath)> {
        let version = shipped.str_at(&["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let registry = self.registry();
        let is_it = |it: &&Arc<Resource>| it.group == group && it.kind == shipped.str_at(&["kind"]);
        let resource = registry.all().iter().find(is_it)?.clone();
        let target = ResourcePath {
            group: Text::from(group),
            version: Text::from(version),
            resource: resource.plural.clone(),
            namespace: shipped.text_at(&["metadata", "namespace"]),
            name: shipped.text_at(&["metadata", "name"]),
            subresource: Text::new(),
        };
        Some((resource, target))
    }
}

/// What to do about one addon.
#[derive(Debug, PartialEq)]
enum AddonAction {
    Write(Tree),
    /// Up to date, or not an addon.
    Skip,
    /// Changed by a user.
    UserModified,
}

fn next(live: Option<&Tree>, shipped: &Tree) -> AddonAction {
    let marked = || shipped.with(&["metadata", "annotations", SHIPPED], shipped.to_json());
    let Some(live) = live else { return AddonAction::Write(marked()) };
    let last = live.str_at(&["metadata", "annotations", SHIPPED]);
    match Tree::parse(last.as_bytes()) {
        // Same manifest as last time: users' changes stay, and nothing is written.
        Ok(last) if last == *shipped => AddonAction::Skip,
        Ok(last) if holds(live, &last) => AddonAction::Write(marked()),
        Ok(_) => AddonAction::UserModified,
        // Without our annotation the object belongs to its creator.
        Err(_) => AddonAction::Skip,
    }
}

/// Whether the object still has every value of the manifest; defaulted and added fields do not count.
fn holds(live: &Tree, said: &Tree) -> bool {
    match said {
        Tree::Map(_) => {
            said.entries().iter().all(|(key, said)| live.get(key).is_some_and(|live| holds(live, said)))
        }
        Tree::List(_) => {
            let (live, said) = (live.items(), said.items());
            live.len() == said.len() && live.iter().zip(said).all(|(live, said)| holds(live, said))
        }
        _ => live == said,
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn shipped(image: &str) -> Tree {
        tree!({"kind": "Runtime", "metadata": {"name": "a", "labels": {"of": "torch"}},
            "spec": {"limit": 2, "containers": [{"name": "node", "image": image}]}})
    }

    fn stored(image: &str) -> Tree {
        let AddonAction::Write(made) = next(None, &shipped(image)) else { panic!("it is made") };
        // As stored by a server.
        made.with(&["metadata", "uid"], "u").with(&["spec", "replicas"], 1)
    }

    #[test]
    fn only_unchanged_addons_are_updated() {
        let live = stored("old");
        let containers = |more: Tree| live.with(&["spec", "containers"], more);
        for (says, live, renewed) in [
            ("as it was shipped", live.clone(), true),
            ("more beside it", live.with(&["metadata", "labels", "mine"], "x"), true),
            ("another image", containers(tree!([{"name": "node", "image": "mine"}])), false),
            (
                "one container more",
                containers(tree!([{"name": "node", "image": "old"}, {"name": "b"}])),
                false,
            ),
            ("a field taken away", live.without(&["spec", "limit"]), false),
            ("a label taken away", live.without(&["metadata", "labels", "of"]), false),
        ] {
            let next = next(Some(&live), &shipped("new"));
            let want = if renewed {
                matches!(next, AddonAction::Write(_))
            } else {
                next == AddonAction::UserModified
            };
            assert!(want, "{says}: {next:?}");
        }
    }

    #[test]
    fn current_and_foreign_objects_are_not_touched() {
        for (says, live) in [
            ("nothing new", stored("new")),
            ("nothing new, and changed", stored("new").without(&["spec", "limit"])),
            ("a foreign object", stored("old").without(&["metadata", "annotations"])),
            ("an invalid annotation", stored("old").with(&["metadata", "annotations", SHIPPED], "mine")),
        ] {
            assert_eq!(next(Some(&live), &shipped("new")), AddonAction::Skip, "{says}");
        }
    }
}
