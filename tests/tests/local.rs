//! Pods run as processes of this machine: each file of `tests/pods` with namespaces and without, adoption after a
//! `kill -9`, and an end that leaves nothing behind.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::{self, EmbeddedServer, RestartableServer};
use muster_tests::muster_process::until;
use muster_tests::real::{self, RealCluster};
use muster_tree::{Tree, tree};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// So few processes that a bomb is small.
const CONFIG: &str = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\npodPidsLimit: 100\n";

/// A file of `tests/pods`.
struct Case {
    name: String,
    want: Tree,
    without: String,
    objects: Vec<Tree>,
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("pods");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let mut documents =
            Tree::parse_yaml_documents(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let head = documents.remove(0);
        assert!(!head.entries_at(&["want"]).is_empty(), "{}: nothing is wanted", path.display());
        Case {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            want: head.at(&["want"]).cloned().unwrap(),
            without: head.str_at(&["without"]).to_owned(),
            objects: documents,
        }
    };
    files.iter().map(read).collect()
}

fn create(server: &ApiClient, object: &Tree) {
    let path = match object.str_at(&["kind"]) {
        "Pod" => "/api/v1/namespaces/default/pods",
        "ConfigMap" => "/api/v1/namespaces/default/configmaps",
        "Secret" => "/api/v1/namespaces/default/secrets",
        "Service" => "/api/v1/namespaces/default/services",
        "Job" => "/apis/batch/v1/namespaces/default/jobs",
        "StorageClass" => "/apis/storage.k8s.io/v1/storageclasses",
        "PersistentVolumeClaim" => "/api/v1/namespaces/default/persistentvolumeclaims",
        other => panic!("no path for {other}"),
    };
    let answer = server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).unwrap();
    assert!(answer.code == 201, "{}: {}", object.to_json(), answer.body);
}

/// What stands at a path such as `containerStatuses.0.ready` of the status.
fn at(status: &Tree, path: &str) -> Tree {
    path.split('.').fold(status.clone(), |tree, step| match step.parse::<usize>() {
        Ok(index) => tree.items().get(index).cloned().unwrap_or(Tree::Null),
        Err(_) => tree.get(step).cloned().unwrap_or(Tree::Null),
    })
}

/// Where a pod is not as it is wanted.
fn differs(pod: &Tree, want: &Tree) -> Vec<String> {
    let status = pod.at(&["status"]).cloned().unwrap_or(Tree::Null);
    let check = |(path, want): &(muster_tree::Text, Tree)| {
        let found = at(&status, path);
        let is = match (want.as_str(), found.as_str()) {
            (Some(want), Some(found)) if want.starts_with('~') => found.contains(&want[1..]),
            (Some(want), Some(found)) => found.trim_end() == want.trim_end(),
            _ => found == *want,
        };
        (!is).then(|| format!("{path} is {}, not {}", found.to_json(), want.to_json()))
    };
    want.entries().iter().filter_map(check).collect()
}

/// Plays all files but those that cannot be had in this isolation.
fn play(server: &ApiClient, isolation: &str, left_out: &[&str]) {
    let mut cases: Vec<Case> = cases().into_iter().filter(|case| case.without != isolation).collect();
    cases.retain(|case| !left_out.contains(&case.name.as_str()));
    assert!(cases.len() > 10);
    cases.iter().flat_map(|case| &case.objects).for_each(|object| create(server, object));
    let wrong: Vec<String> = cases.iter().filter_map(|case| wait(server, case)).collect();
    assert!(wrong.is_empty(), "with isolation {isolation}:\n{}", wrong.join("\n"));
    eprintln!("{} pods ran as processes with isolation {isolation}", cases.len());
}

/// Waits until a pod is as it is wanted; what is wrong when it never is.
fn wait(server: &ApiClient, case: &Case) -> Option<String> {
    let path = format!("{PODS}/{}", case.name);
    let mut found = Vec::new();
    for _ in 0..600 {
        let pod = server.get(&path).unwrap().body;
        found = differs(&pod, &case.want);
        if found.is_empty() {
            return None;
        }
        if ["Succeeded", "Failed"].contains(&phase(&pod)) {
            found.push(pod.at(&["status"]).map(Tree::to_json).unwrap_or_default());
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Some(format!("{}:\n  {}", case.name, found.join("\n  ")))
}

fn play_embedded(isolation: &str) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("muster.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let config = config.display().to_string();
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--isolation", isolation, "--config", &config]).unwrap();
    play(&plane.server().unwrap(), isolation, &[]);
}

#[test]
fn pods_of_a_real_server() {
    if let Some(why) = real::missing() {
        eprintln!("skipped: pods_of_a_real_server: {why}");
        return;
    }
    let mut real = RealCluster::with(&["scheduler", "volume", "node", "serviceaccount"]).unwrap();
    real.add_local_node(&embedded_server::binary().unwrap(), "local", "namespaces").unwrap();
    let class = tree!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "local-path", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "muster.dev/local-path", "volumeBindingMode": "WaitForFirstConsumer"});
    create(&real.server, &class);
    // Without the configuration file of `up` a container may have more processes than that bomb makes; and a real
    // server gives accounts their volumes by a step of its own, which this one has switched off.
    play(&real.server, "namespaces", &["many-processes", "account"]);
}

#[test]
fn pods_with_namespaces() {
    play_embedded("namespaces");
}

#[test]
fn pods_without_namespaces() {
    play_embedded("none");
}

fn pod(name: &str, command: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "any", "command": ["sh", "-c", command]}]}})
}

fn phase(pod: &Tree) -> &str {
    pod.str_at(&["status", "phase"])
}

/// Processes of this machine whose command line has this in it. A shell that has just forked to run something is there
/// twice, for a moment.
fn processes(mark: &str) -> usize {
    (0..10).map(|_| processes_now(mark)).min().unwrap_or(0)
}

fn processes_now(mark: &str) -> usize {
    let output = Command::new("ps").args(["-eo", "args"]).output().expect("ps starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains(mark) && !line.contains("__")).count()
}

/// A word that no other process has.
fn mark(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

#[test]
fn a_killed_server_finds_its_pods_again() {
    for isolation in ["namespaces", "none"] {
        let mut mortal = RestartableServer::with_args(&["--isolation", isolation]).unwrap();
        let server = mortal.server().unwrap();
        let marker = mark(&format!("adopted-{isolation}"));
        create(&server, &pod("stays", &format!("echo {marker}; while true; do sleep 0.1; done")));
        let ending = mark(&format!("ending-{isolation}"));
        create(&server, &pod("ends", &format!("echo {ending}; sleep 12; exit 5")));
        for name in ["stays", "ends"] {
            until(&server, &format!("{PODS}/{name}"), "it runs", |pod| {
                (phase(pod) == "Running").then_some(())
            });
        }
        let before = server.get(&format!("{PODS}/stays")).unwrap().body;
        mortal.kill();
        assert_eq!(processes(&marker), 1, "pods outlive a killed server");
        while processes(&ending) > 0 {
            std::thread::sleep(Duration::from_millis(200));
        }
        mortal.restart().unwrap();
        let server = mortal.server().unwrap();
        let ended = until(&server, &format!("{PODS}/ends"), "its end is told", |pod| {
            (phase(pod) == "Failed").then(|| pod.clone())
        });
        assert_eq!(differs(&ended, &tree!({"containerStatuses.0.state.terminated.exitCode": 5})), [""; 0]);
        let after = server.get(&format!("{PODS}/stays")).unwrap().body;
        let state = |pod: &Tree| at(pod, "status.containerStatuses.0");
        assert_eq!(state(&before), state(&after), "nothing happened to it");
        assert_eq!(processes(&marker), 1, "neither lost nor doubled");
        server.send("DELETE", &format!("{PODS}/stays"), &RequestStep::default(), Vec::new()).unwrap();
        until(&server, &format!("{PODS}/stays"), "it is gone", |pod| {
            (pod.str_at(&["kind"]) == "Status").then_some(())
        });
        assert_eq!(processes(&marker), 0, "with isolation {isolation} a deleted pod leaves nothing");
    }
}

#[test]
fn an_orderly_stop_leaves_nothing_behind() {
    for isolation in ["namespaces", "none"] {
        let marker = mark(&format!("stopped-{isolation}"));
        let plane = EmbeddedServer::start(&["--ephemeral", "--isolation", isolation]).unwrap();
        let server = plane.server().unwrap();
        create(&server, &pod("deaf", &format!("trap '' TERM; echo {marker}; (sleep 1000 & sleep 1000)")));
        until(&server, &format!("{PODS}/deaf"), "it runs", |pod| (phase(pod) == "Running").then_some(()));
        assert!(processes(&marker) >= 1);
        drop(plane);
        assert_eq!(processes(&marker), 0, "isolation {isolation}");
    }
}

/// A small file system of its own, gone with the value.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(megabytes: u32) -> Result<Small, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let size = format!("size={megabytes}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path());
        match mount.output() {
            Ok(output) if output.status.success() => Ok(Small(folder)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_stops_a_pod_and_nobody_else() {
    let small = match Small::mount(32) {
        Ok(small) => small,
        Err(why) => {
            return eprintln!("skipped: a_full_disk_stops_a_pod_and_nobody_else: no small disk: {why}");
        }
    };
    let plane = EmbeddedServer::start_in(small.0.path(), &["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    create(&server, &pod("greedy", "dd if=/dev/zero of=/tmp/big bs=1M count=64 || exit 3"));
    let ended = until(&server, &format!("{PODS}/greedy"), "it ends", |pod| {
        (phase(pod) == "Failed").then(|| pod.clone())
    });
    let code = at(&ended, "status.containerStatuses.0.state.terminated.exitCode");
    assert_eq!(code, Tree::Int(3), "{}", ended.to_json());
    // With no room at all a pod cannot begin, and says why; with room again it does.
    create(&server, &pod("next", "echo here"));
    until(&server, &format!("{PODS}/next"), "it waits and says why", |pod| {
        let waiting = at(pod, "status.containerStatuses.0.state.waiting.message");
        let told = waiting.as_str().is_some_and(|text| text.contains("No space left"));
        (told || phase(pod) == "Succeeded").then_some(())
    });
    server.send("DELETE", &format!("{PODS}/greedy"), &RequestStep::default(), Vec::new()).unwrap();
    until(&server, &format!("{PODS}/next"), "it runs", |pod| (phase(pod) == "Succeeded").then_some(()));
}

#[test]
fn what_was_missing_comes_and_the_pod_runs() {
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let waits = pod("waits", "test \"$A\" = x").with(
        &["spec", "containers"],
        tree!([{"name": "main", "image": "any", "command": ["sh", "-c", "test \"$A\" = x"],
            "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]}]),
    );
    create(&server, &waits);
    until(&server, &format!("{PODS}/waits"), "it waits", |pod| {
        let told = at(pod, "status.containerStatuses.0.state.waiting.message");
        told.as_str().is_some_and(|text| text.contains("configmap \"late\" not found")).then_some(())
    });
    let late =
        tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}, "data": {"a": "x"}});
    create(&server, &late);
    until(&server, &format!("{PODS}/waits"), "it is done", |pod| (phase(pod) == "Succeeded").then_some(()));
}

#[test]
fn a_deadline_set_on_a_running_pod_counts() {
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    create(&server, &pod("limited", "sleep 600"));
    let path = format!("{PODS}/limited");
    until(&server, &path, "it runs", |pod| (phase(pod) == "Running").then_some(()));
    let patch = tree!({"spec": {"activeDeadlineSeconds": 1}}).to_json_bytes();
    let merge = RequestStep { kind: "merge".to_owned(), ..RequestStep::default() };
    assert_eq!(server.send("PATCH", &path, &merge, patch).unwrap().code, 200);
    let ended = until(&server, &path, "it ends", |pod| {
        (phase(pod) == "Failed").then(|| pod.at(&["status"]).cloned())
    });
    let status = ended.unwrap_or_default();
    assert_eq!(status.str_at(&["reason"]), "DeadlineExceeded", "{status}");
}

#[test]
fn the_usage_of_running_pods_is_measured() {
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let labelled = |name: &str, command: &str| pod(name, command).with(&["metadata", "labels", "app"], name);
    create(&server, &labelled("busy", "while :; do :; done"));
    create(&server, &labelled("done", "exit 0"));
    until(&server, &format!("{PODS}/busy"), "it runs", |pod| (phase(pod) == "Running").then_some(()));
    until(&server, &format!("{PODS}/done"), "it ends", |pod| (phase(pod) == "Succeeded").then_some(()));
    let metrics = "/apis/metrics.k8s.io/v1beta1";
    let path = format!("{metrics}/namespaces/default/pods");
    // A busy machine may give it no time within a second; it gets some within this many looks.
    let nanos = |pod: &Tree| {
        let cpu = at(pod, "containers.0.usage.cpu");
        cpu.as_str().and_then(|text| text.strip_suffix('n')?.parse::<u64>().ok())
    };
    let busy = until(&server, &format!("{path}/busy"), "it uses CPU", |pod| {
        nanos(pod).is_some_and(|nanos| nanos > 0).then(|| pod.clone())
    });
    assert_eq!((busy.str_at(&["kind"]), busy.str_at(&["metadata", "name"])), ("PodMetrics", "busy"));
    assert_eq!(at(&busy, "containers.0.name"), Tree::from("main"));
    assert!(
        at(&busy, "containers.0.usage.memory").as_str().is_some_and(|text| text.ends_with("Ki")),
        "{busy}"
    );
    assert!(!busy.str_at(&["timestamp"]).is_empty() && busy.str_at(&["window"]).ends_with('s'), "{busy}");
    for (query, names) in [("", vec!["busy"]), ("?labelSelector=app%3Ddone", vec![])] {
        let list = server.get(&format!("{path}{query}")).unwrap().body;
        let found: Vec<&str> =
            list.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"])).collect();
        assert_eq!(found, names, "{query}: {list}");
    }
    let ended = server.get(&format!("{path}/done")).unwrap();
    assert_eq!(ended.code, 404, "{}", ended.body);
    assert!(ended.body.str_at(&["message"]).contains("only running containers"), "{}", ended.body);
    let node = server.get(&format!("{metrics}/nodes/local")).unwrap().body;
    assert_eq!(node.str_at(&["kind"]), "NodeMetrics", "{node}");
    assert!(node.str_at(&["usage", "cpu"]).ends_with('n'), "{node}");
    let missing = server.get(&format!("{path}/missing")).unwrap().body;
    assert_eq!(missing.str_at(&["message"]), "pods.metrics.k8s.io \"missing\" not found");
}
