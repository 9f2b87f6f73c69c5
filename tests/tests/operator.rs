//! `muster operator` installed on a real Kubernetes: our scheduler for pods that name it.

use std::path::Path;

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::muster_process::{MusterProcess, command, until};
use muster_tests::real::{self, GangSupport, RealCluster};
use muster_tests::server_pair::wait_for_nodes;
use muster_tree::{Tree, tree};

const PODS: &str = "/api/v1/namespaces/default/pods";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";

/// The webhooks are elsewhere: here two operators are on one machine, of which the API server could reach one.
const OPERATOR: [&str; 3] = ["operator", "--admission", ""];
/// Certificates that last for moments.
const SHORT_LIVED: [&str; 6] =
    ["--certificate-lifetime", "15s", "--authority-lifetime", "60s", "--authority-pause", "5s"];
const CERTIFICATES: &str = "/api/v1/namespaces/muster-system/secrets/muster-webhook-certs";

fn lead(kubeconfig: &Path) -> MusterProcess {
    let mut operator = MusterProcess::start(&OPERATOR, kubeconfig);
    operator.wait_for_line("muster is the leader at https://");
    operator
}

fn create(server: &ApiClient, name: &str, spec: &Tree) {
    let plain = tree!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    let pod = tree!({"metadata": {"name": name, "annotations": {"muster.dev/sim-run-seconds": "600"}}, "spec": plain.merge(spec)});
    let made = server.send("POST", PODS, &RequestStep::default(), pod.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body.to_json());
}

fn ours(more: &Tree) -> Tree {
    tree!({"schedulerName": "muster-scheduler"}).merge(more)
}

fn runs(server: &ApiClient, name: &str) {
    until(server, &format!("{PODS}/{name}"), "a pod that runs", |pod| {
        (pod.str_at(&["status", "phase"]) == "Running").then_some(())
    });
}

fn holder(server: &ApiClient) -> String {
    server.get(LEASE).unwrap().body.str_at(&["spec", "holderIdentity"]).to_owned()
}

/// A pod that matters more takes the place of another: all of them want the same port, and there are two nodes.
fn makes_room(server: &ApiClient) {
    let port = tree!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}],
        "terminationGracePeriodSeconds": 1});
    for name in ["first", "second"] {
        create(server, name, &ours(&port));
        runs(server, name);
    }
    create(server, "urgent", &ours(&port.merge(&tree!({"priorityClassName": "system-cluster-critical"}))));
    runs(server, "urgent");
}

/// The event about the node of the first pod.
fn told(events: &Tree) -> Vec<Tree> {
    let mine = |event: &&Tree| {
        event.str_at(&["involvedObject", "name"]) == "ours" && event.str_at(&["reason"]) == "Scheduled"
    };
    events.items_at(&["items"]).iter().filter(mine).cloned().collect()
}

/// Places its own pods and no others, says why not, and is followed by the next when it dies.
fn schedules_its_own(server: &ApiClient, kubeconfig: &Path) {
    let first = lead(kubeconfig);
    let first_holder = holder(server);
    create(server, "anybodys", &tree!({}));
    create(server, "ours", &ours(&tree!({})));
    runs(server, "ours");
    create(server, "nowhere", &ours(&tree!({"nodeSelector": {"a": "b"}})));
    until(server, &format!("{PODS}/nowhere"), "a pod that knows why it waits", |pod| {
        let says = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. \
            preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
        let mut conditions = pod.items_at(&["status", "conditions"]).iter();
        conditions
            .any(|it| it.str_at(&["reason"]) == "Unschedulable" && it.str_at(&["message"]) == says)
            .then_some(())
    });
    // Events go out last.
    until(server, "/api/v1/namespaces/default/events", "word of its node", |all| told(all).first().cloned());
    let other = server.get(&format!("{PODS}/anybodys")).unwrap().body;
    assert_eq!(other.str_at(&["spec", "nodeName"]), "", "the pods of another scheduler are left alone");

    makes_room(server);
    let events = server.get("/api/v1/namespaces/default/events").unwrap().body;
    let told = told(&events);
    assert_eq!(told.len(), 1, "it tells once that the pod has a node");
    assert_eq!(told[0].str_at(&["reportingComponent"]), "muster-scheduler");
    let mut second = MusterProcess::start(&OPERATOR, kubeconfig);
    drop(first);
    second.wait_for_line("muster is the leader at https://");
    assert_ne!(holder(server), first_holder);
    create(server, "later", &ours(&tree!({})));
    runs(server, "later");
    assert_eq!(second.terminate(), 0);
    assert_eq!(holder(server), "", "who ends in good order gives the lease back");
}

/// Shows: 5832-65.
#[test]
fn schedules_its_own_pods_at_a_real_server() {
    if let Some(reason) = real::missing() {
        return skip("schedules_its_own_pods_at_a_real_server", &reason);
    }
    let mut real = RealCluster::for_install(GangSupport::AllFields).unwrap();
    let binary = muster_tests::embedded_server::binary().unwrap();
    let installed = real.install(&binary).unwrap();
    real.start_controllers(&["gc", "namespace", "node"]).unwrap();
    real.add_simulated_nodes(&binary, 2).unwrap();
    wait_for_nodes(&real.server, 2).unwrap();
    schedules_its_own(&real.server, &installed.kubeconfig);
    note(
        "muster operator: schedules its own pods beside a real control plane, and is followed by the next when it dies",
    );
}

/// What it does once in months needs rights, too.
#[test]
fn an_installed_operator_may_renew_its_certificates() {
    if let Some(reason) = real::missing() {
        return skip("an_installed_operator_may_renew_its_certificates", &reason);
    }
    let real = RealCluster::for_install(GangSupport::AllFields).unwrap();
    let installed = real.install(&muster_tests::embedded_server::binary().unwrap()).unwrap();
    let mut operator = MusterProcess::start(&installed.args(&SHORT_LIVED), &installed.kubeconfig);
    operator.wait_for_line("muster is the leader at https://");
    let first = real.server.get(CERTIFICATES).unwrap().body.at(&["data"]).cloned().unwrap();
    until(&real.server, CERTIFICATES, "other certificates", |secret| {
        secret.at(&["data"]).is_some_and(|data| *data != first).then_some(())
    });
}

#[test]
fn what_cannot_be_run_is_said_with_exit_code_two() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "0", "--controllers", ""]).unwrap();
    for (kubeconfig, flags, words) in [
        (Path::new("/absent"), &[][..], "/absent"),
        (plane.kubeconfig(), &["--controllers", "job"], "known are scheduler"),
    ] {
        let output = command(&[&["operator"], flags].concat(), kubeconfig).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
