//! Applying with kubectl: on the client, on the server with conflicts, diff, edit, replace.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use muster_tests::clients::{Kubectl, assert_has};

fn config(name: &str, data: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {data}}}")
}

const POD: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: web}}
spec:
  schedulerName: nobody
  containers:
  - {name: a, image: 'one:1', env: [{name: X, value: '1'}]}
  - {name: b, image: 'two:1'}
";

#[test]
fn apply_creates_changes_and_removes() {
    let Some(kubectl) = Kubectl::new("apply") else { return };
    let apply = |text: &str| kubectl.ok_with(&["apply", "-f", "-"], text);
    assert_has(&apply(&config("m", "{a: '1', b: '2'}")), &["configmap/m created"]);
    assert_has(&apply(&config("m", "{a: '1', b: '2'}")), &["configmap/m unchanged"]);
    kubectl.ok(&["patch", "configmap", "m", "-p", r#"{"data":{"mine":"kept"}}"#]);
    assert_has(&apply(&config("m", "{a: '9'}")), &["configmap/m configured"]);
    let data = kubectl.object("configmap/m").get("data").unwrap().to_json();
    assert_eq!(data, r#"{"a":"9","mine":"kept"}"#, "what was applied goes, what others wrote stays");

    apply(POD);
    assert_has(&apply(POD), &["pod/p unchanged"]);
    apply(&POD.replace("one:1", "one:2"));
    let pod = kubectl.object("pod/p");
    let containers = pod.items_at(&["spec", "containers"]);
    assert_eq!(containers.len(), 2, "containers merge by name");
    assert_eq!(containers[0].str_at(&["image"]), "one:2");
    let refusal = kubectl.run_with(&["apply", "-f", "-"], &POD.replace("name: b", "name: c")).refused();
    assert_has(&refusal, &["The Pod \"p\" is invalid"]);
}

#[test]
fn server_side_apply_meets_conflicts_and_forces_them() {
    let Some(kubectl) = Kubectl::new("server_side") else { return };
    let apply = |manager: &str, data: &str, more: &[&str]| {
        let manager = format!("--field-manager={manager}");
        let args = [&["apply", "--server-side", &manager, "-f", "-"], more].concat();
        kubectl.run_with(&args, &config("shared", data))
    };
    assert_has(&apply("first", "{a: '1', b: '1'}", &[]).ok(), &["configmap/shared serverside-applied"]);
    let refusal = apply("second", "{a: '2'}", &[]).refused();
    assert_has(&refusal, &["conflict with \"first\"", ".data.a", "--force-conflicts"]);
    apply("second", "{a: '1', c: '3'}", &[]).ok();
    apply("second", "{a: '2', c: '3'}", &["--force-conflicts"]).ok();
    let map = kubectl.object("configmap/shared");
    assert_eq!(map.get("data").unwrap().to_json(), r#"{"a":"2","b":"1","c":"3"}"#);
    let managed = kubectl.ok(&["get", "cm", "shared", "-o", "json", "--show-managed-fields"]);
    assert_has(&managed, &["\"manager\": \"first\"", "\"manager\": \"second\"", "\"f:c\""]);
    // `first` lost `a` and drops `b`: nobody is left to hold it.
    apply("first", "{}", &[]).ok();
    assert_eq!(kubectl.object("configmap/shared").get("data").unwrap().to_json(), r#"{"a":"2","c":"3"}"#);

    // From client-side to server-side: kubectl moves its own ownership over.
    kubectl.ok_with(&["apply", "-f", "-"], &config("moved", "{a: '1'}"));
    kubectl.ok_with(&["apply", "--server-side", "-f", "-"], &config("moved", "{a: '2'}"));
    assert_eq!(kubectl.object("configmap/moved").str_at(&["data", "a"]), "2");
}

#[test]
fn diff_shows_what_apply_would_do() {
    let Some(kubectl) = Kubectl::new("diff") else { return };
    kubectl.ok_with(&["apply", "-f", "-"], &config("d", "{a: '1'}"));
    kubectl.ok_with(&["diff", "-f", "-"], &config("d", "{a: '1'}"));
    let said = kubectl.run_with(&["diff", "-f", "-"], &config("d", "{a: '2'}"));
    assert!(!said.success, "a difference ends with 1");
    assert_has(&said.out, &["-  a: \"1\"", "+  a: \"2\""]);
    let said = kubectl.run_with(&["diff", "--server-side", "-f", "-"], &config("new", "{a: '2'}"));
    assert_has(&said.out, &["+  a: \"2\""]);
    assert_has(&kubectl.run(&["get", "cm", "new"]).refused(), &["(NotFound)"]);
}

#[test]
fn edit_by_script_saves_what_the_editor_wrote() {
    let Some(kubectl) = Kubectl::new("edit") else { return };
    kubectl.ok(&["create", "configmap", "e", "--from-literal=word=before"]);
    let editor = kubectl
        .file("editor.sh", "#!/bin/sh\nsed 's/before/after/' \"$1\" > \"$1.new\" && mv \"$1.new\" \"$1\"\n");
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let output = kubectl.command(&["edit", "configmap", "e"]).env("KUBE_EDITOR", &editor).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_has(&String::from_utf8_lossy(&output.stdout), &["configmap/e edited"]);
    assert_eq!(kubectl.object("configmap/e").str_at(&["data", "word"]), "after");
}

#[test]
fn replace_needs_the_object_and_force_makes_it_anew() {
    let Some(kubectl) = Kubectl::new("replace") else { return };
    let refusal = kubectl.run_with(&["replace", "-f", "-"], &config("r", "{a: '1'}")).refused();
    assert_has(&refusal, &["(NotFound)"]);
    kubectl.ok_with(&["create", "-f", "-"], &config("r", "{a: '1', b: '1'}"));
    kubectl.ok_with(&["replace", "-f", "-"], &config("r", "{a: '2'}"));
    let old = kubectl.object("configmap/r");
    assert_eq!(old.get("data").unwrap().to_json(), r#"{"a":"2"}"#, "replace leaves nothing behind");
    let stale = old.with(&["metadata", "resourceVersion"], "1").to_json();
    assert_has(
        &kubectl.run_with(&["replace", "-f", "-"], &stale).refused(),
        &["(Conflict)", "the object has been modified"],
    );
    kubectl.ok_with(&["replace", "--force", "-f", "-"], &config("r", "{a: '3'}"));
    let new = kubectl.object("configmap/r");
    assert_ne!(new.str_at(&["metadata", "uid"]), old.str_at(&["metadata", "uid"]));
}
