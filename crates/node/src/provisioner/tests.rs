//! Tests of the provisioner: what it creates, when, and that it leaks no directory.

use std::sync::{Arc, Mutex};

use muster_api::client::{WatchBatch, WatchChange};
use muster_control::{ControlLoop, RuntimeInput, RuntimeOptions, RuntimeOutput};
use muster_tree::tree;

use super::*;

/// In-memory volume directories that can be made to fail.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Disk>>);

#[derive(Default)]
struct Disk {
    all: BTreeSet<Text>,
    new: BTreeSet<Text>,
    full: bool,
}

impl VolumeDirs for Kept {
    fn path(&self, name: &str) -> String {
        format!("/data/{name}")
    }

    fn create(&mut self, name: &str) -> Result<(), String> {
        let mut it = self.0.lock().unwrap();
        if it.full {
            return Err("the disk is full".to_owned());
        }
        if it.all.insert(name.into()) {
            it.new.insert(name.into());
        }
        Ok(())
    }

    fn mark_published(&mut self, name: &str) -> Result<(), String> {
        self.0.lock().unwrap().new.remove(name);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), String> {
        self.0.lock().unwrap().all.remove(name);
        self.mark_published(name)
    }

    fn unpublished(&self) -> Vec<Text> {
        self.0.lock().unwrap().new.iter().cloned().collect()
    }
}

impl Kept {
    fn all(&self) -> Vec<Text> {
        self.0.lock().unwrap().all.iter().cloned().collect()
    }
}

fn object(tree: Tree) -> ApiObject {
    ApiObject { tree, revision: 1 }
}

fn claim(change: &Tree) -> Tree {
    tree!({"metadata": {"namespace": "ns", "name": "c", "uid": "u", "annotations": {
            "volume.kubernetes.io/storage-provisioner": "muster.dev/local-path", "volume.kubernetes.io/selected-node": "n"}},
        "spec": {"storageClassName": "local-path", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    .merge(change)
}

fn released(policy: &str) -> Tree {
    tree!({"metadata": {"name": "pvc-u", "uid": "v", "annotations": {"pv.kubernetes.io/provisioned-by": "muster.dev/local-path"}},
        "spec": {"persistentVolumeReclaimPolicy": policy, "hostPath": {"path": "/data/pvc-u"}}, "status": {"phase": "Released"}})
}

/// The requests for a cache state, as text.
fn sent(folders: &Kept, claims: Vec<Tree>, volumes: Vec<Tree>) -> Vec<String> {
    let node = tree!({"metadata": {"name": "n", "annotations": {"muster.dev/simulated": "me"}}});
    let class = tree!({"metadata": {"name": "local-path"}, "provisioner": "muster.dev/local-path",
        "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"});
    let it = LocalPathProvisioner::new("me", Box::new(folders.clone()));
    let mut it = ControlLoop::new(vec![Box::new(it)], &[], RuntimeOptions::default());
    let all = [
        (&kinds::NODES, vec![node]),
        (&kinds::STORAGE_CLASSES, vec![class]),
        (&kinds::PERSISTENT_VOLUMES, volumes),
        (&kinds::PERSISTENT_VOLUME_CLAIMS, claims),
    ];
    let mut outputs = Vec::new();
    for (kind, trees) in all {
        let objects = trees.into_iter().map(object).collect();
        outputs
            .extend(it.handle(RuntimeInput::Watched(kind.clone(), WatchBatch::Restarted(objects)), Time(0)));
    }
    let calls = outputs.into_iter().filter_map(|output| match output {
        RuntimeOutput::Send(_, calls) => Some(calls.as_slice().to_vec()),
        _ => None,
    });
    calls.flatten().map(|call| spoken(&call)).collect()
}

fn spoken(call: &ApiRequest) -> String {
    match &call.verb {
        RequestVerb::Create(tree) if call.target.kind == kinds::EVENTS => tree.str_at(&["reason"]).to_owned(),
        RequestVerb::Create(tree) => {
            let here = tree.at(volume_path::AFFINITY).map_or("everywhere", |_| "one node");
            format!("make {} for {here}", tree.str_at(&["metadata", "name"]))
        }
        RequestVerb::MergePatch(_) => "choose again".to_owned(),
        RequestVerb::Delete { .. } => format!("delete {}", call.target.name),
        other => format!("{other:?}"),
    }
}

#[test]
fn claims_get_what_they_ask_for() {
    let none = tree!({});
    let annotation = |key: &str, value: Tree| tree!({"metadata": {"annotations": Tree::map([(key, value)])}});
    for (says, change, want) in [
        ("a folder of one node", none.clone(), vec!["make pvc-u for one node", "Provisioning"]),
        (
            "what many use is there for all",
            tree!({"spec": {"accessModes": ["ReadWriteMany"]}}),
            vec!["make pvc-u for everywhere", "Provisioning"],
        ),
        ("no node is chosen yet", annotation(storage::SELECTED_NODE, Tree::Null), vec![]),
        ("the node is gone", annotation(storage::SELECTED_NODE, Tree::from("m")), vec!["choose again"]),
        ("another makes it", annotation(storage::PROVISIONER, Tree::from("x")), vec![]),
        ("it has a volume", tree!({"spec": {"volumeName": "v"}}), vec![]),
        (
            "no block devices",
            tree!({"spec": {"volumeMode": "Block"}}),
            vec!["choose again", "Provisioning", "ProvisioningFailed"],
        ),
    ] {
        let mut found = sent(&Kept::default(), vec![claim(&change)], vec![]);
        found.sort_by_key(|it| it.starts_with('P'));
        assert_eq!(found, want, "{says}");
    }
}

#[test]
fn an_io_error_is_reported_and_the_scheduler_selects_another_node() {
    let folders = Kept::default();
    folders.0.lock().unwrap().full = true;
    let found = sent(&folders, vec![claim(&tree!({}))], vec![]);
    assert!(
        found.contains(&"ProvisioningFailed".to_owned()) && found.contains(&"choose again".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_released_volume_is_deleted_with_its_directory_unless_retained() {
    for (policy, want, left) in [("Delete", vec!["delete pvc-u"], 0), ("Retain", vec![], 1)] {
        let mut folders = Kept::default();
        folders.create("pvc-u").unwrap();
        assert_eq!(sent(&folders, vec![], vec![released(policy)]), want, "{policy}");
        assert_eq!(folders.all().len(), left, "{policy}");
    }
}

#[test]
fn an_orphaned_directory_is_removed_at_startup() {
    let mut folders = Kept::default();
    for name in ["pvc-gone", "pvc-u", "other"] {
        folders.create(name).unwrap();
    }
    sent(&folders, vec![claim(&tree!({}))], vec![]);
    assert_eq!(folders.all(), ["other", "pvc-u"], "a claim may still get the one, the other is not ours");
}

#[test]
fn a_published_directory_is_never_removed_as_orphan() {
    let mut folders = Kept::default();
    folders.create("pvc-u").unwrap();
    sent(&folders, vec![], vec![released("Retain")]);
    sent(&folders, vec![], vec![]);
    assert_eq!(
        folders.all(),
        ["pvc-u"],
        "its volume was seen once, and removed by somebody: the data is theirs"
    );
}

#[test]
fn a_claim_gets_its_volume_when_its_node_becomes_ours() {
    let node = |mark: &str| tree!({"metadata": {"name": "n", "annotations": {"muster.dev/simulated": mark}}});
    let class = tree!({"metadata": {"name": "local-path"}, "provisioner": "muster.dev/local-path",
        "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete"});
    let it = LocalPathProvisioner::new("me", Box::new(Kept::default()));
    let mut it = ControlLoop::new(vec![Box::new(it)], &[], RuntimeOptions::default());
    let calls = |outputs: Vec<RuntimeOutput>| {
        outputs.iter().filter(|it| matches!(it, RuntimeOutput::Send(..))).count()
    };
    for (kind, tree) in [
        (&kinds::NODES, Some(node("old"))),
        (&kinds::STORAGE_CLASSES, Some(class)),
        (&kinds::PERSISTENT_VOLUMES, None),
        (&kinds::PERSISTENT_VOLUME_CLAIMS, Some(claim(&tree!({})))),
    ] {
        let objects = tree.into_iter().map(object).collect();
        assert_eq!(
            calls(it.handle(RuntimeInput::Watched(kind.clone(), WatchBatch::Restarted(objects)), Time(0))),
            0,
            "another's node"
        );
    }
    let ours = WatchChange::Applied(ApiObject { tree: node("me"), revision: 2 });
    let outputs =
        it.handle(RuntimeInput::Watched(kinds::NODES.clone(), WatchBatch::Changes(vec![ours])), Time(0));
    assert!(calls(outputs) > 0, "it is made now");
}
