//! Publishes the devices of simulated nodes: the ResourceSlices and DeviceClasses of the node manifest file.
//!
//! A ResourceSlice with `spec.nodeName` is owned by its Node, as if a DRA driver on that node had published it.
//!
//! # Guarantees
//!
//! - Published objects carry the simulator ID and a hash of their manifest. They are updated when the manifest
//!   changes, not when the server serializes them differently.
//! - An object with our ID that is no longer declared is deleted. Objects of others are not modified, nor are those
//!   of another simulator while a Node carries its ID.

use std::collections::BTreeMap;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::consts::{annotations, managers};
use muster_api::meta::{self, OwnerReference};
use muster_api::name_suffix::suffix;
use muster_api::paths::{meta as meta_path, resource_slice};
use muster_api::time::Time;
use muster_api::{kinds, node};
use muster_control::{Caches, Controller, ObjectKey, ReconcileRequest, Reconciled, Step, WatchEvent};
use muster_tree::{Text, Tree};

/// Reconciles the declared ResourceSlices and DeviceClasses.
#[derive(Debug)]
pub struct ResourceSlicePublisher {
    mark: Text,
    declared: BTreeMap<ObjectKey, Tree>,
}

impl ResourceSlicePublisher {
    /// Publishes these manifests with the simulator ID `mark`.
    #[must_use]
    pub fn of(manifests: impl IntoIterator<Item = Tree>, mark: &str) -> ResourceSlicePublisher {
        let known =
            |tree: Tree| Some((ObjectKey::new(kind_of(&tree)?, &Text::new(), &meta::name(&tree)), tree));
        ResourceSlicePublisher {
            mark: mark.into(),
            declared: manifests.into_iter().filter_map(known).collect(),
        }
    }

    /// Whether the live object is ours, or belongs to a simulator that has no Node left.
    fn may_adopt(&self, live: &ApiObject, caches: &Caches) -> bool {
        let Some(mark) = node::simulator_id(&live.tree) else { return false };
        mark == self.mark || caches.all(&kinds::NODES).all(|it| node::simulator_id(&it.tree) != Some(mark))
    }

    fn make(&self, key: &ObjectKey, manifest: &Tree, caches: &Caches) -> Option<Tree> {
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
        // Without its Node the slice has no owner and would never be garbage collected.
        let live = caches.get(&kinds::NODES, &Text::new(), &name)?;
        if node::simulator_id(&live.tree).is_some_and(|mark| mark != self.mark) {
            return None;
        }
        let owner = OwnerReference::controller_reference("v1", "Node", &name, &meta::uid(&live.tree));
        Some(marked.with(meta_path::OWNERS, Tree::list([owner])))
    }
}

/// The kind of a device manifest; `None` for other kinds.
#[must_use]
pub fn kind_of(manifest: &Tree) -> Option<&'static Kind> {
    match meta::kind_name(manifest).as_str() {
        "ResourceSlice" => Some(&kinds::RESOURCE_SLICES),
        "DeviceClass" => Some(&kinds::DEVICE_CLASSES),
        _ => None,
    }
}

fn digest(manifest: &Tree) -> Text {
    let json = manifest.to_json();
    Text::from(format!("{}{}", suffix(&json, None, 0), suffix(&json, None, 1)))
}

impl Controller for ResourceSlicePublisher {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::NODES, &kinds::RESOURCE_SLICES, &kinds::DEVICE_CLASSES].map(Clone::clone).to_vec()
    }

    fn initial_requests(&mut self, _caches: &Caches, _now: Time) -> Vec<ObjectKey> {
        self.declared.keys().cloned().collect()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        if seen.key.kind == kinds::NODES {
            let of_node = |tree: &Tree| {
                let spec = tree.get("spec").unwrap_or(&Tree::Null);
                spec.str_at(resource_slice::NODE_NAME) == seen.key.name
            };
            let player =
                |it: Option<&ApiObject>| it.map(|it| node::simulator_id(&it.tree).map(str::to_owned));
            if player(seen.old) == player(seen.new) {
                return Vec::new();
            }
            // When the last Node of another simulator disappears, its published objects can be adopted.
            let everywhere = |tree: &Tree| {
                seen.old.is_some()
                    && tree.get("spec").is_none_or(|spec| spec.at(resource_slice::NODE_NAME).is_none())
            };
            let concerned = self.declared.iter().filter(|(_, tree)| of_node(tree) || everywhere(tree));
            return concerned.map(|(key, _)| key.clone().into()).collect();
        }
        let ours = node::simulator_id(&seen.latest().tree).is_some() || self.declared.contains_key(seen.key);
        if ours { vec![seen.key.clone().into()] } else { Vec::new() }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let live = caches.find(key);
        let Some(manifest) = self.declared.get(key) else {
            let ours = live.filter(|it| node::simulator_id(&it.tree) == Some(self.mark.as_str()));
            return ours.map_or_else(Reconciled::done, |it| one(delete(key, it)));
        };
        let Some(made) = self.make(key, manifest, caches) else { return Reconciled::done() };
        let Some(live) = live else {
            let on = key.target(Subresource::Main);
            return one(ApiRequest {
                field_manager: by(),
                target: on,
                preconditions: Preconditions::default(),
                verb: RequestVerb::Create(made),
            });
        };
        if !self.may_adopt(live, caches)
            || is_same(&live.tree, &made)
            || meta::deletion_timestamp(&live.tree).is_some()
        {
            return Reconciled::done();
        }
        if !is_same_pool(&live.tree, &made) {
            return one(delete(key, live));
        }
        let guard = Preconditions { uid: Some(meta::uid(&live.tree)), revision: Some(live.revision) };
        one(ApiRequest {
            field_manager: by(),
            target: key.target(Subresource::Main),
            preconditions: guard,
            verb: RequestVerb::MergePatch(made),
        })
    }
}

fn is_same(live: &Tree, made: &Tree) -> bool {
    let mark = |tree: &Tree, name: &str| meta::annotation(tree, name).map(str::to_owned);
    let same = |name: &str| mark(live, name) == mark(made, name);
    let owner = |tree: &Tree| meta::controller_of(tree).map(|it| it.uid);
    same(annotations::SIM_NODE) && same(annotations::SIM_MANIFEST) && owner(live) == owner(made)
}

/// Driver, pool, node name and the way the slice is scoped are immutable: a change needs delete and create.
fn is_same_pool(live: &Tree, made: &Tree) -> bool {
    let spec = |tree: &Tree| tree.get("spec").cloned().unwrap_or_default();
    let (live, made) = (spec(live), spec(made));
    let fixed = [resource_slice::DRIVER, resource_slice::POOL, resource_slice::NODE_NAME];
    let reach = [resource_slice::NODE_SELECTOR, resource_slice::ALL_NODES, resource_slice::PER_DEVICE];
    fixed.iter().all(|path| live.at(path) == made.at(path))
        && reach.iter().all(|path| live.at(path).is_some() == made.at(path).is_some())
}

fn delete(key: &ObjectKey, live: &ApiObject) -> ApiRequest {
    ApiRequest::delete(
        by(),
        key.target(Subresource::Main),
        meta::uid(&live.tree),
        DeletionPropagation::Background,
    )
}

fn one(call: ApiRequest) -> Reconciled {
    Reconciled::with_steps(vec![Step::Request(call)])
}

fn by() -> Text {
    managers::KUBELET.clone()
}

#[cfg(test)]
mod tests {
    use muster_api::client::WatchBatch;
    use muster_control::{ControlLoop, RuntimeInput, RuntimeOptions, RuntimeOutput};
    use muster_tree::tree;

    use super::*;

    fn manifest(devices: i64) -> Tree {
        let all = (0..devices).map(|n| tree!({"name": format!("d{n}")}));
        tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {"driver": "x", "nodeName": "n", "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": Tree::list(all)}})
    }

    fn live(tree: &Tree) -> ApiObject {
        ApiObject { tree: tree.with(meta_path::UID, "u"), revision: 3 }
    }

    /// The calls that are sent when this is there.
    fn sent(declared: Vec<Tree>, nodes: Vec<ApiObject>, slices: Vec<ApiObject>) -> Vec<ApiRequest> {
        let published = ResourceSlicePublisher::of(declared, "me");
        let mut it = ControlLoop::new(vec![Box::new(published)], &[], RuntimeOptions::default());
        let mut calls = Vec::new();
        for (kind, objects) in
            [(&kinds::NODES, nodes), (&kinds::RESOURCE_SLICES, slices), (&kinds::DEVICE_CLASSES, vec![])]
        {
            for output in
                it.handle(RuntimeInput::Watched(kind.clone(), WatchBatch::Restarted(objects)), Time(0))
            {
                if let RuntimeOutput::Send(_, sent) = output {
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
        let RequestVerb::Create(made) = &create.verb else { panic!("{create:?}") };
        assert_eq!(meta::controller_of(made).map(|it| (it.kind, it.uid)), Some(("Node".into(), "u".into())));
        let made = || live(made);
        assert_eq!(sent(vec![manifest(1)], vec![], vec![]), [], "its node is not there yet");
        assert_eq!(sent(vec![manifest(1)], vec![node()], vec![made()]), [], "it is there");
        let calls = sent(vec![manifest(2)], vec![node()], vec![made()]);
        assert!(
            matches!(&calls[..], [ApiRequest { verb: RequestVerb::MergePatch(_), .. }]),
            "it changed: {calls:?}"
        );
        let calls = sent(vec![], vec![node()], vec![made()]);
        assert!(
            matches!(&calls[..], [ApiRequest { verb: RequestVerb::Delete { .. }, .. }]),
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
            live(&tree!({"kind": "Node", "metadata": {"name": "n"}}).merge(&node::simulated_node_patch(mark)))
        };
        let theirs = || live(&manifest(1).merge(&node::simulated_node_patch("other")));
        assert_eq!(sent(vec![manifest(2)], vec![node("other")], vec![theirs()]), [], "it lives");
        let calls = sent(vec![manifest(2)], vec![node("me")], vec![theirs()]);
        assert!(
            matches!(&calls[..], [ApiRequest { verb: RequestVerb::MergePatch(_), .. }]),
            "its node is ours now: {calls:?}"
        );
    }
}
