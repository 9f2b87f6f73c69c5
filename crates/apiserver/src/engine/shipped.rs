//! Objects that come with the server: made where they are missing, and brought up to date by a new version.
//!
//! Each says in an annotation what was shipped last. That tells what somebody changed since from what a new version
//! changes, and whose an object of the same name is.
//!
//! # Invariants
//!
//! - What somebody changed, or took away, of a shipped object stays as it is, and so does the rest of that object.
//! - An object without the annotation is nobody's but its maker's.
//! - A start with nothing new writes nothing.

use std::sync::Arc;

use muster_api::words::annotations::SHIPPED;
use muster_tree::{Text, Tree};

use super::Engine;
use crate::registry::Resource;
use crate::request::{Body, Patch, Target, WriteAct};

/// Who writes them.
const MANAGER: &str = "muster";

impl Engine {
    /// Makes or renews what is shipped. Nobody waits: later writes see what is still on its way to the disk.
    pub(super) fn ship(&self) {
        for shipped in &self.inner.options.shipped {
            self.ship_one(shipped);
        }
    }

    fn ship_one(&self, shipped: &Tree) {
        let (kind, name) = (shipped.str_at(&["kind"]), shipped.text_at(&["metadata", "name"]));
        let Some((resource, target)) = self.shipped_to(shipped) else {
            return tracing::error!(kind, %name, "a shipped object whose kind is not served");
        };
        let live = self.store().get(&resource.key(&target.namespace, &target.name));
        let wanted = match next(live.as_ref().map(|it| &it.tree), shipped) {
            Next::Write(wanted) => wanted,
            Next::Leave => return,
            Next::Changed => {
                return tracing::info!(kind, %name, "somebody changed what was shipped: it is not renewed");
            }
        };
        // Without force: a field that somebody else wrote, too, is theirs.
        let act = WriteAct::Patch(Patch::Apply {
            body: Body { tree: wanted, duplicates: Vec::new() },
            force: false,
        });
        self.write_own(MANAGER, target, act, move |refused| match refused {
            Some(status) if status.code == 409 => {
                tracing::info!(%name, message = %status.message, "a shipped object is not renewed");
            }
            Some(status) => tracing::error!(%name, message = %status.message, "a shipped object"),
            None => {}
        });
    }

    fn shipped_to(&self, shipped: &Tree) -> Option<(Arc<Resource>, Target)> {
        let version = shipped.str_at(&["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let registry = self.registry();
        let is_it = |it: &&Arc<Resource>| it.group == group && it.kind == shipped.str_at(&["kind"]);
        let resource = registry.all().iter().find(is_it)?.clone();
        let target = Target {
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

/// What is done about a shipped object.
#[derive(Debug, PartialEq)]
enum Next {
    /// This is applied.
    Write(Tree),
    /// It is as it was shipped, or was never ours.
    Leave,
    /// Somebody changed it.
    Changed,
}

fn next(live: Option<&Tree>, shipped: &Tree) -> Next {
    let marked = || shipped.with(&["metadata", "annotations", SHIPPED], shipped.to_json());
    let Some(live) = live else { return Next::Write(marked()) };
    let last = live.str_at(&["metadata", "annotations", SHIPPED]);
    match Tree::parse(last.as_bytes()) {
        Ok(last) if last == *shipped => Next::Leave,
        Ok(last) if holds(live, &last) => Next::Write(marked()),
        Ok(_) => Next::Changed,
        Err(_) => Next::Leave,
    }
}

/// Whether everything that was said still is; what was filled in or added beside it does not count.
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
        let Next::Write(made) = next(None, &shipped(image)) else { panic!("it is made") };
        // As a server keeps it.
        made.with(&["metadata", "uid"], "u").with(&["spec", "replicas"], 1)
    }

    #[test]
    fn only_what_nobody_touched_is_renewed() {
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
            let want = if renewed { matches!(next, Next::Write(_)) } else { next == Next::Changed };
            assert!(want, "{says}: {next:?}");
        }
    }

    #[test]
    fn what_is_up_to_date_or_was_never_ours_is_left_alone() {
        for (says, live) in [
            ("nothing new", stored("new")),
            ("nothing new, and changed", stored("new").without(&["spec", "limit"])),
            ("somebody else's", stored("old").without(&["metadata", "annotations"])),
            ("made somebody's own", stored("old").with(&["metadata", "annotations", SHIPPED], "mine")),
        ] {
            assert_eq!(next(Some(&live), &shipped("new")), Next::Leave, "{says}");
        }
    }
}
