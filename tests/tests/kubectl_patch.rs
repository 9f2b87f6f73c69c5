//! Changing with kubectl: patch in three types, label, annotate, set, scale.

use muster_tests::clients::{Kubectl, assert_contains};

const DEPLOYMENT: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - {name: a, image: 'one:1', ports: [{containerPort: 80}]}
      - {name: b, image: 'two:1'}
";

#[test]
fn patch_in_three_types() {
    let Some(kubectl) = Kubectl::new("patch") else { return };
    kubectl.ok_with(&["create", "-f", "-"], DEPLOYMENT);
    let patch =
        |kind: &str, text: &str| kubectl.run(&["patch", "deployment", "d", "--type", kind, "-p", text]);
    let images = || {
        let d = kubectl.object("deployment/d");
        let all = d.items_at(&["spec", "template", "spec", "containers"]).iter();
        all.map(|c| c.str_at(&["image"]).to_owned()).collect::<Vec<_>>()
    };
    let one = r#"{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"two:2"}]}}}}"#;
    patch("strategic", one).ok();
    assert_eq!(images(), ["one:1", "two:2"], "strategic merge finds the container by name");
    patch("merge", r#"{"spec":{"replicas":null,"paused":true}}"#).ok();
    let d = kubectl.object("deployment/d");
    assert_eq!(d.int_at(&["spec", "replicas"]), Some(1), "what null removed is defaulted again");
    assert_eq!(d.bool_at(&["spec", "paused"]), Some(true));
    patch("json", r#"[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"one:3"}]"#)
        .ok();
    assert_eq!(images(), ["one:3", "two:2"]);
    patch("merge", one).ok();
    assert_eq!(images(), ["two:2"], "merge patch replaces lists");
    assert_contains(
        &patch("json", r#"[{"op":"test","path":"/spec/paused","value":false}]"#).expect_failure(),
        &["invalid"],
    );
    assert_contains(&patch("strategic", r#"{"spec":{"replicas":"many"}}"#).expect_failure(), &["replicas"]);
    let unchanged = patch("merge", r#"{"spec":{"paused":true}}"#).ok();
    assert_contains(&unchanged, &["deployment.apps/d patched (no change)"]);
}

#[test]
fn labels_and_annotations_come_and_go() {
    let Some(kubectl) = Kubectl::new("label") else { return };
    kubectl.ok(&["create", "configmap", "l"]);
    kubectl.ok(&["label", "cm", "l", "tier=front", "zone=a"]);
    let refusal = kubectl.run(&["label", "cm", "l", "tier=back"]).expect_failure();
    assert_contains(&refusal, &["--overwrite"]);
    kubectl.ok(&["label", "cm", "l", "tier=back", "--overwrite"]);
    kubectl.ok(&["label", "cm", "l", "zone-"]);
    kubectl.ok(&["annotate", "cm", "l", "note=a long story, told in words"]);
    let map = kubectl.object("cm/l");
    assert_eq!(map.at(&["metadata", "labels"]).unwrap().to_json(), r#"{"tier":"back"}"#);
    assert_eq!(map.str_at(&["metadata", "annotations", "note"]), "a long story, told in words");
    kubectl.ok(&["annotate", "cm", "l", "note-"]);
    assert_eq!(kubectl.object("cm/l").str_at(&["metadata", "annotations", "note"]), "");
    let refusal = kubectl.run(&["label", "cm", "l", "tier=not a value", "--overwrite"]).expect_failure();
    assert_contains(&refusal, &["invalid label value"]);
}

#[test]
fn set_and_scale_change_one_thing() {
    let Some(kubectl) = Kubectl::new("set_image") else { return };
    kubectl.ok_with(&["create", "-f", "-"], DEPLOYMENT);
    kubectl.ok(&["set", "image", "deployment/d", "a=one:9"]);
    kubectl.ok(&["set", "env", "deployment/d", "--containers=b", "COLOUR=red"]);
    kubectl.ok(&["scale", "deployment/d", "--replicas=4"]);
    let d = kubectl.object("deployment/d");
    let containers = d.items_at(&["spec", "template", "spec", "containers"]);
    assert_eq!(containers[0].str_at(&["image"]), "one:9");
    assert_eq!(containers[1].items_at(&["env"])[0].str_at(&["value"]), "red");
    assert_eq!(d.int_at(&["spec", "replicas"]), Some(4));
    assert_eq!(d.int_at(&["metadata", "generation"]), Some(4));
}
