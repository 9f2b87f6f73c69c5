//! `muster node` as a script sees it: nodes of ours at any API server, lines, exit codes.

use std::path::Path;
use std::process::Output;

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::muster_process::{MusterProcess, command, until};
use muster_tests::real::{self, RealCluster};
use muster_tree::{Tree, tree};

const NODES: &str = "/api/v1/nodes";
const DEVICES: &str = "/apis/resource.k8s.io/v1/resourceslices/mine-devices";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn join(kubeconfig: &Path, flags: &[&str]) -> MusterProcess {
    let mut joined = MusterProcess::start(&[&["node"], flags].concat(), kubeconfig);
    joined.wait_for_line("simulated nodes join https://");
    joined
}

fn names(list: &[&Tree]) -> Vec<String> {
    let mut all: Vec<String> = list.iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect();
    all.sort();
    all
}

/// The names of the nodes, once there are so many and all are ready.
fn ready_nodes(server: &ApiClient, count: usize) -> Vec<String> {
    until(server, NODES, &format!("{count} nodes that are ready"), |list| {
        let is_ready = |node: &&Tree| {
            let mut conditions = node.items_at(&["status", "conditions"]).iter();
            conditions.any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True")
        };
        let ready: Vec<&Tree> = list.items_at(&["items"]).iter().filter(is_ready).collect();
        (ready.len() == count && list.items_at(&["items"]).len() == count).then(|| names(&ready))
    })
}

/// The names of the Leases with a holder, once there are this many.
fn held_leases(server: &ApiClient, count: usize) -> Vec<String> {
    until(server, LEASES, &format!("{count} leases that are held"), |list| {
        let held = |lease: &&Tree| !lease.str_at(&["spec", "holderIdentity"]).is_empty();
        let held: Vec<&Tree> = list.items_at(&["items"]).iter().filter(held).collect();
        (held.len() == count).then(|| names(&held))
    })
}

/// Runs a Job and says where its pods ran.
fn work(server: &ApiClient, name: &str) -> Vec<String> {
    let job = tree!({"metadata": {"name": name}, "spec": {"completions": 4, "parallelism": 4,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let made = server.send("POST", JOBS, &RequestStep::default(), job.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body.to_json());
    until(server, &format!("{JOBS}/{name}"), "a Job that is complete", |job| {
        let mut conditions = job.items_at(&["status", "conditions"]).iter();
        conditions.any(|c| c.str_at(&["type"]) == "Complete" && c.str_at(&["status"]) == "True").then_some(())
    });
    let pods = server.get(&format!("/api/v1/namespaces/default/pods?labelSelector=job-name={name}")).unwrap();
    let pods = pods.body.items_at(&["items"]);
    assert!(pods.iter().all(|pod| pod.str_at(&["status", "phase"]) == "Succeeded"));
    let mut nodes: Vec<String> =
        pods.iter().map(|pod| pod.str_at(&["spec", "nodeName"]).to_owned()).collect();
    nodes.sort();
    nodes.dedup();
    nodes
}

/// Joins, works, leaves and comes back.
fn nodes_come_and_go(server: &ApiClient, kubeconfig: &Path) {
    let first = join(kubeconfig, &["--sim-nodes", "2"]);
    let nodes = ready_nodes(server, 2);
    assert_eq!(held_leases(server, 2), nodes, "each node renews its lease");
    let used = work(server, "first");
    assert!(used.iter().all(|node| nodes.contains(node)), "{used:?} of {nodes:?}");

    let manifest = kubeconfig.with_file_name("nodes.yaml");
    let slice = "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: mine-devices}\nspec: {driver: \
        gpu.example.com, nodeName: mine, pool: {name: mine, generation: 1, resourceSliceCount: 1}, devices: [{name: d}]}\n";
    let text =
        format!("apiVersion: v1\nkind: Node\nmetadata: {{name: mine, labels: {{a: b}}}}\n---\n{slice}");
    std::fs::write(&manifest, text).unwrap();
    let second = join(kubeconfig, &["--nodes", manifest.to_str().unwrap()]);
    let more = ready_nodes(server, 3);
    assert!(more.contains(&"mine".to_owned()) && nodes.iter().all(|node| more.contains(node)), "{more:?}");
    until(server, DEVICES, "devices that belong to the node", |slice| {
        let owner = slice.items_at(&["metadata", "ownerReferences"]).first()?;
        (owner.str_at(&["name"]) == "mine").then_some(())
    });

    assert_eq!(first.terminate(), 0);
    assert_eq!(held_leases(server, 1), ["mine"], "who leaves gives the leases back");
    let left = server.get(NODES).unwrap().body;
    assert_eq!(left.items_at(&["items"]).len(), 3, "the nodes stay");

    let again = join(kubeconfig, &["--sim-nodes", "2"]);
    assert_eq!(held_leases(server, 3), more, "the next one takes the same nodes up again");
    assert_eq!(ready_nodes(server, 3), more);
    assert!(!work(server, "second").is_empty());
    assert_eq!((again.terminate(), second.terminate()), (0, 0));
}

#[test]
fn nodes_come_and_go_at_our_own_server() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "0"]).unwrap();
    nodes_come_and_go(&plane.server().unwrap(), plane.kubeconfig());
}

#[test]
fn nodes_come_and_go_at_a_real_server() {
    if let Some(reason) = real::missing() {
        return skip("nodes_come_and_go_at_a_real_server", &reason);
    }
    let real = RealCluster::with(&["gc", "job", "scheduler", "node"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = real.kubeconfig(folder.path(), real.server.base()).unwrap();
    nodes_come_and_go(&real.server, &kubeconfig);
    note("muster node: joins, works, leaves and comes back on both planes");
}

#[test]
fn what_cannot_be_run_is_said_with_exit_code_two() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "0", "--controllers", ""]).unwrap();
    let (good, folder) = (plane.kubeconfig().display().to_string(), plane.directory());
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    let stranger = |server: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: '{server}', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: u, user: {{token: nonsense}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        )
    };
    let nowhere = file("nowhere", &stranger("https://127.0.0.1:1"));
    let unknown = file("unknown", &stranger(plane.server().unwrap().base()));
    let garbage = file("garbage", "a: [");
    let (pods, nameless, nothing) = (
        file("pods.yaml", "kind: Pod\nmetadata: {name: a}\n"),
        file("nameless.yaml", "kind: Node\nmetadata: {}\n"),
        file("nothing.yaml", "# nobody\n"),
    );
    let absent = folder.join("absent").display().to_string();
    for (says, kubeconfig, flags, words) in [
        ("no such kubeconfig", &absent, &["--sim-nodes", "1"][..], &["absent"][..]),
        ("no kubeconfig", &garbage, &["--sim-nodes", "1"], &["garbage", "hint: give a kubeconfig"]),
        (
            "nobody there",
            &nowhere,
            &["--sim-nodes", "1"],
            &["https://127.0.0.1:1", "does not answer", "hint:"],
        ),
        (
            "nobody who knows us",
            &unknown,
            &["--sim-nodes", "1"],
            &["does not accept", "Unauthorized", "hint:"],
        ),
        ("no such nodes", &good, &["--nodes", &absent], &["absent", "No such file"]),
        ("nodes that are pods", &good, &["--nodes", &pods], &["pods.yaml", "\"Pod\" is not a Node"]),
        ("a node without a name", &good, &["--nodes", &nameless], &["nameless.yaml", "has no name"]),
        ("no nodes at all", &good, &["--nodes", &nothing], &["nothing.yaml", "there is no Node in it"]),
        ("no YAML", &good, &["--nodes", &garbage], &["garbage"]),
        ("no number", &good, &["--sim-nodes", "few"], &["few"]),
        ("no nodes asked for", &good, &[], &["required", "--sim-nodes"]),
    ] {
        let Output { status, stderr, stdout } =
            command(&[&["node"], flags].concat(), Path::new(kubeconfig)).output().unwrap();
        let error = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{says}: {error}");
        for words in words {
            assert!(error.contains(words), "{says}: {words:?} is not in {error}");
        }
        assert!(stdout.is_empty(), "{says}: talk goes to stderr");
    }
}
