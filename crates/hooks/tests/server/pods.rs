//! Pods of JobSets with exclusive placement.

use muster_api::consts::{jobset as words, labels};
use muster_api::jobset::names::job_key;
use muster_tree::{Tree, tree};

use crate::world::World;

const PODS: &str = "-/v1/default/pods";
const RACK: &str = "example.com/rack";

fn pod(index: &str, node: &str) -> Tree {
    let notes = [
        (words::NAME, "s"),
        (words::GROUP, "w"),
        (words::JOB_INDEX, "0"),
        (words::EXCLUSIVE_TOPOLOGY, RACK),
        (labels::COMPLETION_INDEX, index),
    ];
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": (format!("s-w-0-{index}-abcde")),
            "annotations": (Tree::map(notes)), "labels": (Tree::map([(words::JOB_KEY, job_key("default", "s-w-0"))])),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "s-w-0", "uid": "u", "controller": true}]},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

fn world(rack: &Tree) -> World {
    let world = World::new();
    let node = tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "labels": rack}});
    world.create("-/v1/-/nodes", &node).expect("a node is accepted");
    world
}

fn refused(world: &World, pod: &Tree) -> String {
    let status = world.create(PODS, pod).expect_err("it is refused");
    assert_eq!((status.code, status.reason), (403, "Forbidden"));
    status.message
}

#[test]
fn followers_wait_for_the_first_pod_and_follow_it() {
    let world = world(&Tree::map([(RACK, "r1")]));
    assert_eq!(
        refused(&world, &pod("1", "")),
        "admission webhook \"vpod.kb.io\" denied the request: follower pod node selector not set"
    );
    let (leader, _) = world.create(PODS, &pod("0", "")).unwrap();
    let terms = |kind: &str| {
        leader.items_at(&["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]).len()
    };
    assert_eq!((terms("podAffinity"), terms("podAntiAffinity")), (1, 1));
    assert_eq!(leader.str_at(&["metadata", "labels", words::PRIORITY]), "0", "every pod has a priority here");
    let astray = pod("1", "").with(&["spec", "nodeSelector"], Tree::map([(RACK, "r1")]));
    assert_eq!(
        refused(&world, &astray),
        "admission webhook \"vpod.kb.io\" denied the request: leader pod not yet scheduled, not creating follower pod. \
         this is an expected, transient error"
    );
    let binding = tree!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "s-w-0-0-abcde"},
        "target": {"kind": "Node", "name": "node"}});
    world.bind(&format!("{PODS}/s-w-0-0-abcde/binding"), &binding);
    let (follower, _) = world.create(PODS, &pod("1", "")).unwrap();
    assert_eq!(follower.at(&["spec", "nodeSelector"]), Some(&Tree::map([(RACK, "r1")])));
}

#[test]
fn a_node_without_the_label_is_a_refusal() {
    let world = world(&tree!({}));
    world.create(PODS, &pod("0", "node")).unwrap();
    assert_eq!(
        refused(&world, &pod("1", "")),
        "admission webhook \"mpod.kb.io\" denied the request: node node of the leader pod does not have the topology \
         label: example.com/rack"
    );
}

#[test]
fn other_pods_are_as_they_were() {
    let world = world(&tree!({}));
    let stranger = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (made, _) = world.create(PODS, &stranger).unwrap();
    assert_eq!(made.at(&["metadata", "labels"]), None);
    assert_eq!(made.at(&["spec", "affinity"]), None);
}
