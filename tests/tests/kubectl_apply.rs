//! Applying with kubectl: on the client, on the server with conflicts, with pruning, diff, edit, replace.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use muster_tests::clients::{Kubectl, assert_contains};

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
    assert_contains(&apply(&config("m", "{a: '1', b: '2'}")), &["configmap/m created"]);
    assert_contains(&apply(&config("m", "{a: '1', b: '2'}")), &["configmap/m unchanged"]);
    kubectl.ok(&["patch", "configmap", "m", "-p", r#"{"data":{"mine":"kept"}}"#]);
    assert_contains(&apply(&config("m", "{a: '9'}")), &["configmap/m configured"]);
    let data = kubectl.object("configmap/m").get("data").unwrap().to_json();
    assert_eq!(data, r#"{"a":"9","mine":"kept"}"#, "what was applied goes, what others wrote stays");

    apply(POD);
    assert_contains(&apply(POD), &["pod/p unchanged"]);
    apply(&POD.replace("one:1", "one:2"));
    let pod = kubectl.object("pod/p");
    let containers = pod.items_at(&["spec", "containers"]);
    assert_eq!(containers.len(), 2, "containers merge by name");
    assert_eq!(containers[0].str_at(&["image"]), "one:2");
    let refusal =
        kubectl.run_with(&["apply", "-f", "-"], &POD.replace("name: b", "name: c")).expect_failure();
    assert_contains(&refusal, &["The Pod \"p\" is invalid"]);
}

#[test]
fn server_side_apply_meets_conflicts_and_forces_them() {
    let Some(kubectl) = Kubectl::new("server_side") else { return };
    let apply = |manager: &str, data: &str, more: &[&str]| {
        let manager = format!("--field-manager={manager}");
        let args = [&["apply", "--server-side", &manager, "-f", "-"], more].concat();
        kubectl.run_with(&args, &config("shared", data))
    };
    assert_contains(&apply("first", "{a: '1', b: '1'}", &[]).ok(), &["configmap/shared serverside-applied"]);
    let refusal = apply("second", "{a: '2'}", &[]).expect_failure();
    assert_contains(&refusal, &["conflict with \"first\"", ".data.a", "--force-conflicts"]);
    apply("second", "{a: '1', c: '3'}", &[]).ok();
    apply("second", "{a: '2', c: '3'}", &["--force-conflicts"]).ok();
    let map = kubectl.object("configmap/shared");
    assert_eq!(map.get("data").unwrap().to_json(), r#"{"a":"2","b":"1","c":"3"}"#);
    let managed = kubectl.ok(&["get", "cm", "shared", "-o", "json", "--show-managed-fields"]);
    assert_contains(&managed, &["\"manager\": \"first\"", "\"manager\": \"second\"", "\"f:c\""]);
    // `first` no longer owns `a` and drops `b`, which has no other field manager.
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
    assert_contains(&said.out, &["-  a: \"1\"", "+  a: \"2\""]);
    let said = kubectl.run_with(&["diff", "--server-side", "-f", "-"], &config("new", "{a: '2'}"));
    assert_contains(&said.out, &["+  a: \"2\""]);
    assert_contains(&kubectl.run(&["get", "cm", "new"]).expect_failure(), &["(NotFound)"]);
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
    assert_contains(&String::from_utf8_lossy(&output.stdout), &["configmap/e edited"]);
    assert_eq!(kubectl.object("configmap/e").str_at(&["data", "word"]), "after");
}

#[test]
fn replace_needs_the_object_and_force_makes_it_anew() {
    let Some(kubectl) = Kubectl::new("replace") else { return };
    let refusal = kubectl.run_with(&["replace", "-f", "-"], &config("r", "{a: '1'}")).expect_failure();
    assert_contains(&refusal, &["(NotFound)"]);
    kubectl.ok_with(&["create", "-f", "-"], &config("r", "{a: '1', b: '1'}"));
    kubectl.ok_with(&["replace", "-f", "-"], &config("r", "{a: '2'}"));
    let old = kubectl.object("configmap/r");
    assert_eq!(old.get("data").unwrap().to_json(), r#"{"a":"2"}"#, "replace leaves nothing behind");
    let stale = old.with(&["metadata", "resourceVersion"], "1").to_json();
    assert_contains(
        &kubectl.run_with(&["replace", "-f", "-"], &stale).expect_failure(),
        &["(Conflict)", "the object has been modified"],
    );
    kubectl.ok_with(&["replace", "--force", "-f", "-"], &config("r", "{a: '3'}"));
    let new = kubectl.object("configmap/r");
    assert_ne!(new.str_at(&["metadata", "uid"]), old.str_at(&["metadata", "uid"]));
}

/// ConfigMaps with these names, a Secret and a suspended JobSet, all with the label `app`.
fn labelled(app: &str, maps: &[&str], others: &[&str]) -> String {
    let meta = |name: &str| format!("metadata: {{name: {name}, labels: {{app: {app}}}}}");
    let map = |name: &&str| format!("---\n{{apiVersion: v1, kind: ConfigMap, {}}}\n", meta(name));
    let other = |kind: &&str| match *kind {
        "secret" => format!("---\n{{apiVersion: v1, kind: Secret, {}}}\n", meta("s")),
        "jobset" => format!(
            "---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n{}\nspec:\n  suspend: true\n  replicatedJobs:\n  - name: w\n    \
             template: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}}}}}}}\n",
            meta("j")
        ),
        other => panic!("no manifest of a {other}"),
    };
    maps.iter().map(map).chain(others.iter().map(other)).collect()
}

/// The objects of a namespace that these tests make, by name.
fn there(kubectl: &Kubectl) -> Vec<String> {
    let all = kubectl.ok(&["get", "configmaps,secrets,jobsets", "-o", "name"]);
    all.lines().filter(|line| !line.contains("kube-root-ca")).map(str::to_owned).collect()
}

#[test]
fn prune_deletes_what_the_manifests_no_longer_have() {
    let Some(kubectl) = Kubectl::new("prune") else { return };
    kubectl.ok_with(&["apply", "-f", "-"], &labelled("other", &["other"], &[]));
    kubectl.ok_with(&["apply", "-f", "-"], &labelled("web", &["a", "b"], &["secret"]));
    kubectl.ok(&["create", "configmap", "created"]);
    kubectl.ok(&["label", "configmap", "created", "app=web"]);

    let prune = ["apply", "--prune", "-l", "app=web", "-f", "-"];
    let said = kubectl.ok_with(&[&prune[..], &["--dry-run=server"]].concat(), &labelled("web", &["a"], &[]));
    assert_contains(&said, &["configmap/b pruned (server dry run)", "secret/s pruned (server dry run)"]);
    assert_eq!(there(&kubectl).len(), 5, "a dry run deletes nothing");

    let said = kubectl.ok_with(&prune, &labelled("web", &["a"], &["secret"]));
    assert_contains(&said, &["configmap/a unchanged", "secret/s unchanged", "configmap/b pruned"]);
    let want = ["configmap/a", "configmap/created", "configmap/other", "secret/s"];
    assert_eq!(there(&kubectl), want, "other labels stay, and so does what was not applied");

    // With an allowlist only these kinds are pruned, custom ones among them.
    kubectl.ok_with(&["apply", "-f", "-"], &labelled("web", &[], &["jobset"]));
    let allow = ["apply", "--prune", "--all", "-f", "-", "--prune-allowlist=core/v1/ConfigMap"];
    let said = kubectl.ok_with(&allow, &labelled("other", &["other"], &[]));
    assert_contains(&said, &["configmap/a pruned"]);
    assert_eq!(
        there(&kubectl),
        ["configmap/created", "configmap/other", "secret/s", "jobset.jobset.x-k8s.io/j"]
    );
    let allow = ["apply", "--prune", "--all", "-f", "-", "--prune-allowlist=jobset.x-k8s.io/v1alpha2/JobSet"];
    let said = kubectl.ok_with(&allow, &labelled("other", &["other"], &[]));
    assert_contains(&said, &["jobset.jobset.x-k8s.io/j pruned"]);
}

#[test]
fn an_apply_set_prunes_what_left_it() {
    let Some(kubectl) = Kubectl::new("apply_set") else { return };
    let apply = |set: &str, text: &str, more: &[&str]| {
        let file = kubectl.file("set.yaml", text);
        let set = format!("--applyset={set}");
        let args = [&["apply", "--prune", &set, "-f", &file], more].concat();
        let output = kubectl.command(&args).env("KUBECTL_APPLYSET", "true").output().unwrap();
        let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        assert!(output.status.success(), "{said}");
        said
    };
    // The parent is a Secret unless another kind is named.
    for (set, parent) in [("one", "secret/one"), ("configmaps/two", "configmap/two")] {
        let said = apply(set, &labelled("web", &["a", "b"], &["jobset"]), &[]);
        assert_contains(
            &said,
            &["configmap/a created", "configmap/b created", "jobset.jobset.x-k8s.io/j created"],
        );
        let id = |object: &str, key: &str| {
            kubectl
                .object(object)
                .str_at(&["metadata", "labels", &format!("applyset.kubernetes.io/{key}")])
                .to_owned()
        };
        assert!(!id(parent, "id").is_empty(), "the parent has the id of the set");
        assert_eq!(id("configmap/a", "part-of"), id(parent, "id"));
        let said = apply(set, &labelled("web", &["a"], &[]), &["--dry-run=server"]);
        assert_contains(&said, &["configmap/b pruned (server dry run)"]);
        let said = apply(set, &labelled("web", &["a"], &[]), &[]);
        assert_contains(&said, &["configmap/b pruned", "jobset.jobset.x-k8s.io/j pruned"]);
        let kinds = kubectl.object(parent);
        let kinds = kinds.str_at(&["metadata", "annotations", "applyset.kubernetes.io/contains-group-kinds"]);
        assert_eq!(kinds, "ConfigMap");
        kubectl.ok(&["delete", "configmap", "a"]);
    }
    let file = kubectl.file("set.yaml", &labelled("web", &["a"], &[]));
    let args = ["apply", "--prune", "--applyset=pods/no", "-f", &file];
    let output = kubectl.command(&args).env("KUBECTL_APPLYSET", "true").output().unwrap();
    assert_contains(&String::from_utf8_lossy(&output.stderr), &["is not permitted as an ApplySet parent"]);
    assert!(!output.status.success());
}
