//! `muster snapshot`: what was saved is there again elsewhere.

use std::path::Path;
use std::process::{Command, Output};

use muster_tests::differential::RequestStep;
use muster_tests::embedded_server::{RestartableServer, binary};
use muster_tree::{Tree, tree};
use tempfile::TempDir;

/// What is compared: kinds that the server makes by itself, and kinds that only we make.
const LISTS: [&str; 6] = [
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/apis/batch/v1/jobs",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
];

fn snapshot(what: &str, file: &Path, data: &Path) -> Output {
    let mut command = Command::new(binary().unwrap());
    command.args(["snapshot", what]).arg(file).arg("--data-dir").arg(data).output().unwrap()
}

fn fill(server: &RestartableServer) {
    let server = server.server().unwrap();
    for n in 0..20 {
        let name = format!("m{n}");
        let map =
            tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": &name}, "data": {"a": "x"}});
        let template =
            tree!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
        let job = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": &name},
            "spec": {"template": template}});
        for (path, body) in
            [("/api/v1/namespaces/default/configmaps", map), ("/apis/batch/v1/namespaces/default/jobs", job)]
        {
            let answer = server.send("POST", path, &RequestStep::default(), body.to_json_bytes()).unwrap();
            assert_eq!(answer.code, 201, "{}", answer.body);
        }
    }
}

fn lists(server: &RestartableServer) -> Vec<Vec<Tree>> {
    let server = server.server().unwrap();
    LISTS.iter().map(|path| server.get(path).unwrap().body.items_at(&["items"]).to_vec()).collect()
}

#[test]
fn all_objects_come_back() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("saved");
    let mut first = RestartableServer::start().unwrap();
    fill(&first);
    let before = lists(&first);
    assert!(before[1].len() >= 20 && before[2].len() == 20);

    let in_use = snapshot("save", &file, &first.data_dir());
    let words = String::from_utf8(in_use.stderr).unwrap();
    assert_eq!(in_use.status.code(), Some(2), "{words}");
    assert!(words.contains("is in use by muster (pid "), "{words}");
    assert!(!file.exists());

    first.kill();
    let saved = snapshot("save", &file, &first.data_dir());
    assert!(saved.status.success(), "{}", String::from_utf8_lossy(&saved.stderr));
    let refused = snapshot("restore", &file, &first.data_dir());
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(2) && words.contains("is not empty"), "{words}");

    let mut second = RestartableServer::start().unwrap();
    second.kill();
    std::fs::remove_dir_all(second.data_dir()).unwrap();
    let restored = snapshot("restore", &file, &second.data_dir());
    assert!(restored.status.success(), "{}", String::from_utf8_lossy(&restored.stderr));
    second.restart().unwrap();
    assert_eq!(lists(&second), before, "the same objects with the same revisions");
    is_private(&file);
}

/// The file contains private keys.
fn is_private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
}
