//! The devices of simulated nodes: ResourceSlices and DeviceClasses as they stand in the file of nodes.
//!
//! A slice is what a driver on the node would have published: it belongs to its Node, where it names one.
//!
//! # Invariants
//!
//! - What is published carries the mark of whoever simulates, and the hash of what was declared: it is written again
//!   when the declaration changed, not when the server spells it another way.
//! - What carries our mark and is no longer declared is deleted. What somebody else made is left alone, and so is what
//!   another simulator published, as long as a node carries its mark.

use std::collections::BTreeMap;

use muster_api::meta::{self, Owner};
use muster_api::paths::{meta as meta_path, resource_slice};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part};
use muster_api::suffix::suffix;
use muster_api::time::Time;
use muster_api::words::{annotations, managers};
use muster_api::{kinds, node};
use muster_control::{Caches, Controller, Key, Plan, Seen, Step, Wake};
use muster_tree::{Text, Tree};

/// What is declared beside nodes.
#[derive(Debug)]
pub struct Published {
    mark: Text,
    declared: BTreeMap<Key, Tree>,
}

impl Published {
    /// These manifests, marked as those of `mark`.
    #[must_use]
    pub fn of(manifests: impl IntoIterator<Item = Tree>, mark: &str) -> Published {
        let known = |tree: Tree| Some((Key::new(kind_of(&tree)?, &Text::new(), &meta::name(&tree)), tree));
        Published { mark: mark.into(), declared: manifests.into_iter().filter_map(known).collect() }
    }

    /// Whether what is there is ours, or was that of a simulator of which no node is left.
    fn may_take(&self, live: &Object, caches: &Caches) -> bool {
        let Some(mark) = node::simulator(&live.tree) else { return false };
        mark == self.mark || caches.all(&kinds::NODES).all(|it| node::simulator(&it.tree) != Some(mark))
    }

    fn make(&self, key: &Key, manifest: &Tree, caches: &Caches) -> Option<Tree> {
        let marks = Tree::map([
            (annotations::SIM_NODE, self.mark.clone()),
            (annotations::SIM_MANIFEST, digest(manifest)),
        ]);
        let named = manifest.with(&["apiVersion"], meta::api_version(&key.kind));
        let marked = named.merge(&Tree::empty_map().with(meta_path::ANNOTATIONS, marks));
        let spec = manifest.get("spec").unwrap_or(&Tree::Null);
        let name = spec.text_at(resource_slice::NODE_NAME);
        if key.kind != kinds::RESOURCE_SLICES || name.is_empty() {
            return Some(marked);
        }
        // A slice of a node that is not there yet would be nobody's.
        let live = caches.get(&kinds::NODES, &Text::new(), &name)?;
        if node::simulator(&live.tree).is_some_and(|mark| mark != self.mark) {
            return None;
        }
        let owner = Owner::controller_tree("v1", "Node", &name, &meta::uid(&live.tree));
        Some(marked.with(meta_path::OWNERS, Tree::list([owner])))
    }
}

/// The kind of a manifest that can be published.
#[must_use]
pub fn kind_of(manifest: &Tree) -> Option<&'static Kind> {
    match meta::kind_word(manifest).as_str() {
        "ResourceSlice" => Some(&kinds::RESOURCE_SLICES),
        "DeviceClass" => Some(&kinds::DEVICE_CLASSES),
        _ => None,
    }
}

fn digest(manifest: &Tree) -> Text {
    let words = manifest.to_json();
    Text::from(format!("{}{}", suffix(&words, None, 0), suffix(&words, None, 1)))
}

impl Controller for Published {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::NODES, &kinds::RESOURCE_SLICES, &kinds::DEVICE_CLASSES].map(Clone::clone).to_vec()
    }

    fn starts(&mut self, _caches: &Caches, _now: Time) -> Vec<Key> {
        self.declared.keys().cloned().collect()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::NODES {
            let of_node = |tree: &Tree| {
                let spec = tree.get("spec").unwrap_or(&Tree::Null);
                spec.str_at(resource_slice::NODE_NAME) == seen.key.name
            };
            let player = |it: Option<&Object>| it.map(|it| node::simulator(&it.tree).map(str::to_owned));
            if player(seen.before) == player(seen.after) {
                return Vec::new();
            }
            // With its last node another simulator may have gone: what it published may be ours now.
            let everywhere = |tree: &Tree| {
                seen.before.is_some()
                    && tree.get("spec").is_none_or(|spec| spec.at(resource_slice::NODE_NAME).is_none())
            };
            let concerned = self.declared.iter().filter(|(_, tree)| of_node(tree) || everywhere(tree));
            return concerned.map(|(key, _)| key.clone().into()).collect();
        }
        let ours = node::simulator(&seen.newest().tree).is_some() || self.declared.contains_key(seen.key);
        if ours { vec![seen.key.clone().into()] } else { Vec::new() }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let live = caches.find(key);
        let Some(manifest) = self.declared.get(key) else {
            let ours = live.filter(|it| node::simulator(&it.tree) == Some(self.mark.as_str()));
            return ours.map_or_else(Plan::nothing, |it| one(delete(key, it)));
        };
        let Some(made) = self.make(key, manifest, caches) else { return Plan::nothing() };
        let Some(live) = live else {
            let on = key.target(Part::Main);
            return one(Call { by: by(), on, guard: Guard::default(), act: Act::Create(made) });
        };
        if !self.may_take(live, caches) || is_same(&live.tree, &made) || meta::deleting(&live.tree).is_some()
        {
            return Plan::nothing();
        }
        if !is_same_pool(&live.tree, &made) {
            return one(delete(key, live));
        }
        let guard = Guard { uid: Some(meta::uid(&live.tree)), revision: Some(live.revision) };
        one(Call { by: by(), on: key.target(Part::Main), guard, act: Act::Merge(made) })
    }
}

fn is_same(live: &Tree, made: &Tree) -> bool {
    let mark = |tree: &Tree, name: &str| meta::annotation(tree, name).map(str::to_owned);
    let same = |name: &str| mark(live, name) == mark(made, name);
    let owner = |tree: &Tree| meta::controller(tree).map(|it| it.uid);
    same(annotations::SIM_NODE) && same(annotations::SIM_MANIFEST) && owner(live) == owner(made)
}

/// Where a slice belongs cannot be changed, nor can the way in which it says from where it is reached.
fn is_same_pool(live: &Tree, made: &Tree) -> bool {
    let spec = |tree: &Tree| tree.get("spec").cloned().unwrap_or_default();
    let (live, made) = (spec(live), spec(made));
    let fixed = [resource_slice::DRIVER, resource_slice::POOL, resource_slice::NODE_NAME];
    let reach = [resource_slice::NODE_SELECTOR, resource_slice::ALL_NODES, resource_slice::PER_DEVICE];
    fixed.iter().all(|path| live.at(path) == made.at(path))
        && reach.iter().all(|path| live.at(path).is_some() == made.at(path).is_some())
}

fn delete(key: &Key, live: &Object) -> Call {
    Call::delete(by(), key.target(Part::Main), meta::uid(&live.tree), Cascade::Background)
}

fn one(call: Call) -> Plan {
    Plan::of(vec![Step::One(call)])
}

fn by() -> Text {
    managers::KUBELET.clone()
}

#[cfg(test)]
mod tests {
    use muster_api::port::Batch;
    use muster_control::{Input, Loop, LoopOptions, Output};
    use muster_tree::tree;

    use super::*;

    fn manifest(devices: i64) -> Tree {
        let all = (0..devices).map(|n| tree!({"name": format!("d{n}")}));
        tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {"driver": "x", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": Tree::list(all)}})
    }

    fn live(tree: &Tree) -> Object {
        Object { tree: tree.with(meta_path::UID, "u"), revision: 3 }
    }

    /// The calls that are sent when this is there.
    fn sent(declared: Vec<Tree>, nodes: Vec<Object>, slices: Vec<Object>) -> Vec<Call> {
        let published = Published::of(declared, "me");
        let mut it = Loop::new(vec![Box::new(published)], &[], LoopOptions::default());
        let mut calls = Vec::new();
        for (kind, objects) in
            [(&kinds::NODES, nodes), (&kinds::RESOURCE_SLICES, slices), (&kinds::DEVICE_CLASSES, vec![])]
        {
            for output in it.on(Input::Changed(kind.clone(), Batch::Reset(objects)), Time(0)) {
                if let Output::Send(_, sent) = output {
                    calls.extend(sent.as_slice().to_vec());
                }
            }
        }
        calls
    }

    #[test]
    fn what_is_declared_is_published_and_nothing_else() {
        let node = || live(&tree!({"kind": "Node", "metadata": {"name": "n"}}));
        let [create] = &sent(vec![manifest(1)], vec![node()], vec![])[..] else { panic!("one create") };
        let Act::Create(made) = &create.act else { panic!("{create:?}") };
        assert_eq!(meta::controller(made).map(|it| (it.kind, it.uid)), Some(("Node".into(), "u".into())));
        let made = || live(made);
        assert_eq!(sent(vec![manifest(1)], vec![], vec![]), [], "its node is not there yet");
        assert_eq!(sent(vec![manifest(1)], vec![node()], vec![made()]), [], "it is there");
        let calls = sent(vec![manifest(2)], vec![node()], vec![made()]);
        assert!(matches!(&calls[..], [Call { act: Act::Merge(_), .. }]), "it changed: {calls:?}");
        let calls = sent(vec![], vec![node()], vec![made()]);
        assert!(
            matches!(&calls[..], [Call { act: Act::Delete { .. }, .. }]),
            "it is declared no more: {calls:?}"
        );
        assert_eq!(sent(vec![], vec![node()], vec![live(&manifest(1))]), [], "somebody else's is left alone");
        assert_eq!(
            sent(vec![manifest(2)], vec![node()], vec![live(&manifest(1))]),
            [],
            "of the same name too"
        );
    }

    #[test]
    fn what_another_simulator_published_is_left_to_it_while_it_lives() {
        let node = |mark: &str| {
            live(&tree!({"kind": "Node", "metadata": {"name": "n"}}).merge(&node::simulated_by(mark)))
        };
        let theirs = || live(&manifest(1).merge(&node::simulated_by("other")));
        assert_eq!(sent(vec![manifest(2)], vec![node("other")], vec![theirs()]), [], "it lives");
        let calls = sent(vec![manifest(2)], vec![node("me")], vec![theirs()]);
        assert!(matches!(&calls[..], [Call { act: Act::Merge(_), .. }]), "its node is ours now: {calls:?}");
    }
}
