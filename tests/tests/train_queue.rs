//! Queued TrainJobs on the embedded control plane: pending, admitted, preempted and requeued, and that quota is never
//! exceeded.

use std::time::Duration;

use muster_tests::clients::skip;
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::queue_fixture::QueueFixture;
use muster_tests::trainjob_queueing::{self as stories, KUEUE_MANAGER, queue_patches};
use muster_tree::{Tree, tree};

fn play(test: &str, story: fn(&QueueFixture)) {
    if let Some(stage) = QueueFixture::embedded(test, &[]) {
        story(&stage);
    }
}

#[test]
fn a_suspended_trainjob_starts_when_quota_is_released() {
    play(
        "a_suspended_trainjob_starts_when_quota_is_released",
        stories::a_suspended_trainjob_starts_when_quota_is_released,
    );
}

#[test]
fn the_pending_reason_is_explained() {
    play("the_pending_reason_is_explained", stories::the_pending_reason_is_explained);
}

#[test]
fn a_preempted_trainjob_is_suspended_and_resumed() {
    play(
        "a_preempted_trainjob_is_suspended_and_resumed",
        stories::a_preempted_trainjob_is_suspended_and_resumed,
    );
}

/// Shows: 2899-14.
#[test]
fn an_expired_ttl_deletes_all_children_and_releases_quota() {
    play(
        "an_expired_ttl_deletes_all_children_and_releases_quota",
        stories::an_expired_ttl_deletes_all_children_and_releases_quota,
    );
}

#[test]
fn a_completed_step_releases_its_quota() {
    play("a_completed_step_releases_its_quota", stories::a_completed_step_releases_its_quota);
}

#[test]
fn a_trainjob_resumes_with_its_runtime_snapshot() {
    play(
        "a_trainjob_resumes_with_its_runtime_snapshot",
        stories::a_trainjob_resumes_with_its_runtime_snapshot,
    );
}

/// Shows: 2899-17.
#[test]
fn time_in_the_queue_does_not_count_towards_the_deadline() {
    let test = "time_in_the_queue_does_not_count_towards_the_deadline";
    play(test, stories::time_in_the_queue_does_not_count_towards_the_deadline);
}

#[test]
fn an_admitted_gang_is_scheduled_all_or_nothing() {
    let test = "an_admitted_gang_is_scheduled_all_or_nothing";
    play(test, stories::an_admitted_gang_is_scheduled_all_or_nothing);
}

#[test]
fn the_example_runs() {
    play("the_example_runs", stories::the_example_runs);
}

/// A namespace with a LocalQueue for one CPU, and a user in it without administrator rights.
struct Tenancy {
    _plane: EmbeddedServer,
    admin: ApiClient,
    tenant: ApiClient,
}

const QUEUES: &str = "kueue.x-k8s.io/v1beta2";
const TRAINING: &str = "trainer.kubeflow.org/v1alpha1";
const SPACE: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

fn manifest(api_version: &str, kind: &str, name: &str, spec: &Tree) -> Tree {
    tree!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": (spec.clone())})
}

impl Tenancy {
    fn new(test: &str) -> Option<Tenancy> {
        let plane = match EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "3"]) {
            Ok(plane) => plane,
            Err(why) => {
                skip(test, &why);
                return None;
            }
        };
        let admin = plane.server().expect("it answers");
        let tenancy = Tenancy { tenant: ApiClient::new(admin.base(), ""), admin, _plane: plane };
        let share = tree!({"name": "cpu", "nominalQuota": "1"});
        let groups = tree!([{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [share]}]}]);
        let cluster = tree!({"namespaceSelector": {}, "resourceGroups": groups});
        let local = || tree!({"clusterQueue": "cq"});
        let linux = tree!({"nodeLabels": {"kubernetes.io/os": "linux"}});
        for (plural, kind, name, spec) in [
            ("resourceflavors", "ResourceFlavor", "f", linux),
            ("clusterqueues", "ClusterQueue", "cq", cluster),
            ("namespaces/default/localqueues", "LocalQueue", "q", local()),
            ("namespaces/default/localqueues", "LocalQueue", "r", local()),
        ] {
            tenancy.give(&format!("/apis/{QUEUES}/{plural}"), &manifest(QUEUES, kind, name, &spec));
        }
        let runtime = manifest(TRAINING, "TrainingRuntime", "one", &one_node());
        tenancy.give(&format!("{SPACE}/trainingruntimes"), &runtime);
        let account = tree!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "tenant"}});
        tenancy.give(ACCOUNTS, &account);
        let asked = tree!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let token = tenancy.give(&format!("{ACCOUNTS}/tenant/token"), &asked);
        let tenant = ApiClient::new(tenancy.admin.base(), token.str_at(&["status", "token"]));
        Some(Tenancy { tenant, ..tenancy })
    }

    /// The administrator makes this.
    fn give(&self, path: &str, object: &Tree) -> Tree {
        let (code, made) = send(&self.admin, "POST", path, object);
        assert!(code < 300, "{path}: {made}");
        made
    }

    /// Makes a TrainJob as the tenant; what came of it.
    fn make(&self, name: &str, spec: &Tree) -> Tree {
        let plain = manifest(
            TRAINING,
            "TrainJob",
            name,
            &tree!({"runtimeRef": {"name": "one", "kind": "TrainingRuntime"}}),
        )
        .with(&["metadata", "labels"], tree!({"kueue.x-k8s.io/queue-name": "q"}));
        let made =
            send(&self.tenant, "POST", &format!("{SPACE}/trainjobs"), &plain.merge(&tree!({"spec": spec})));
        assert_eq!(made.0, 201, "{}", made.1);
        made.1
    }

    /// The tenant changes something of a TrainJob.
    fn change(&self, name: &str, patch: &Tree) -> (u16, Tree) {
        send(&self.tenant, "PATCH", &format!("{SPACE}/trainjobs/{name}"), patch)
    }

    /// That is refused, in these words.
    fn refused(&self, name: &str, patch: &Tree, words: &str) {
        let (code, answer) = self.change(name, patch);
        assert!(matches!(code, 403 | 422), "{patch} is answered {code}");
        assert!(answer.str_at(&["message"]).contains(words), "{patch}: {words} is not in {answer}");
    }

    fn read(&self, path: &str) -> Tree {
        self.admin.get(path).expect("it answers").body
    }

    fn job(&self, name: &str) -> Tree {
        self.read(&format!("{SPACE}/trainjobs/{name}"))
    }

    /// Processors of pods that have a node and have not ended.
    fn running(&self) -> usize {
        let pods = self.read("/api/v1/namespaces/default/pods");
        let counts = |pod: &&Tree| {
            let ended = ["Succeeded", "Failed"].contains(&pod.str_at(&["status", "phase"]));
            !pod.str_at(&["spec", "nodeName"]).is_empty() && !ended
        };
        pods.items_at(&["items"]).iter().filter(counts).count()
    }

    fn until(&self, what: &str, is: impl Fn(&Tenancy) -> bool) {
        for _ in 0..LOOKS_MAX {
            if is(self) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{what}: {}", self.read(&format!("{SPACE}/trainjobs")));
    }

    /// Usage stays within quota, now and for a while.
    fn assert_quota_is_respected(&self) {
        for _ in 0..LOOKS_QUIET {
            assert!(self.running() <= 1, "{}", self.read("/api/v1/namespaces/default/pods"));
            std::thread::sleep(PAUSE);
        }
    }
}

const LOOKS_MAX: usize = 1800;
const LOOKS_QUIET: usize = 15;
const PAUSE: Duration = Duration::from_millis(100);

/// A runtime of one node with a processor.
fn one_node() -> Tree {
    let container = tree!({"name": "node", "image": "train", "resources": {"requests": {"cpu": "1"}}});
    let pod = tree!({"metadata": {"annotations": {"muster.dev/sim-run-seconds": "600"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}});
    let step = tree!({"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}});
    let job = tree!({"name": "node", "template": {"metadata": step, "spec": {"template": pod}}});
    tree!({"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [job]}}})
}

fn send(server: &ApiClient, method: &str, path: &str, body: &Tree) -> (u16, Tree) {
    let kind = if method == "PATCH" { "merge" } else { "" };
    let step = RequestStep { kind: kind.to_owned(), ..RequestStep::default() };
    let answer = server.send(method, path, &step, body.to_json_bytes()).expect("the server answers");
    (answer.code, answer.body)
}

/// An entry of this manager that puts pods elsewhere.
fn elsewhere(manager: &str) -> Tree {
    let pod = tree!({"spec": {"nodeSelector": {"kubernetes.io/os": "gold"}}});
    tree!({"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [
        {"name": "node", "template": {"spec": {"template": pod}}}]}}}})
}

fn is_suspended(job: &Tree) -> bool {
    job.bool_at(&["spec", "suspend"]) == Some(true)
}

#[test]
fn what_a_tenant_edits_of_one_that_runs_buys_nothing() {
    let Some(it) = Tenancy::new("what_a_tenant_edits_of_one_that_runs_buys_nothing") else { return };
    it.make("t", &tree!({"trainer": {"numNodes": 1}}));
    it.until("it runs", |it| it.running() == 1);
    let given = it.job("t").at(&["spec", "runtimePatches"]).cloned().unwrap_or_default();
    for (patch, words) in [
        (tree!({"spec": {"trainer": {"numNodes": 5}}}), "field is immutable"),
        (tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "r"}}}), "field is immutable"),
        (tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": null}}}), "field is immutable"),
        (tree!({"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}}), "field is immutable"),
        (tree!({"spec": {"runtimePatches": null}}), "runtimePatches"),
        (tree!({"spec": {"runtimePatches": [(elsewhere(KUEUE_MANAGER))]}}), "runtimePatches"),
        (
            tree!({"spec": {"suspend": true, "runtimePatches": [(elsewhere(KUEUE_MANAGER))]}}),
            "runtimePatches",
        ),
    ] {
        it.refused("t", &patch, words);
    }
    assert_eq!(it.job("t").at(&["spec", "runtimePatches"]), Some(&given));
    it.assert_quota_is_respected();
    // What it kept of its runtime is in the tenant's reach: what is asked for changes, and so does what is waited for.
    let kept = it.read("/api/v1/namespaces/default/configmaps/t-runtime-snapshot");
    let wide = kept
        .str_at(&["data", "runtime"])
        .replace("cpu: \"1\"", "cpu: \"2\"")
        .replace("cpu: '1'", "cpu: \"2\"");
    assert_ne!(wide, kept.str_at(&["data", "runtime"]), "{kept}");
    let path = "/api/v1/namespaces/default/configmaps/t-runtime-snapshot";
    let (code, answer) = send(&it.tenant, "PATCH", path, &tree!({"data": {"runtime": wide}}));
    assert_eq!(code, 200, "{answer}");
    send(&it.tenant, "DELETE", "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/t", &tree!({}));
    it.until("it stops", |it| is_suspended(&it.job("t")) && it.running() == 0);
    it.assert_quota_is_respected();
    assert!(is_suspended(&it.job("t")), "there is no room for what it asks now");
}

#[test]
fn what_a_tenant_forges_of_one_that_waits_lets_nothing_run() {
    let Some(it) = Tenancy::new("what_a_tenant_forges_of_one_that_waits_lets_nothing_run") else { return };
    it.make("t", &tree!({}));
    it.until("it runs", |it| it.running() == 1);
    let made = it.make(
        "w",
        &tree!({"suspend": false, "runtimePatches": [(elsewhere(KUEUE_MANAGER)), {"manager": "acme.io/x"}]}),
    );
    let managers: Vec<&str> =
        made.items_at(&["spec", "runtimePatches"]).iter().map(|it| it.str_at(&["manager"])).collect();
    assert_eq!(
        (managers, queue_patches(&made).len()),
        (vec!["acme.io/x", KUEUE_MANAGER], 0),
        "what is forged is not kept"
    );
    assert!(is_suspended(&made));
    it.refused(
        "w",
        &tree!({"spec": {"runtimePatches": [(elsewhere(KUEUE_MANAGER))]}}),
        "only the queue writes the entry",
    );
    let both = tree!({"spec": {"suspend": false, "runtimePatches": [(elsewhere("acme.io/x"))]}});
    it.refused("w", &both, "change while it is suspended");
    for patch in [
        tree!({"spec": {"suspend": false}}),
        tree!({"spec": {"runtimePatches": [(elsewhere("acme.io/x"))]}}),
        tree!({"spec": {"suspend": false}}),
    ] {
        let (code, answer) = it.change("w", &patch);
        assert_eq!(code, 200, "{answer}");
        it.until("it is suspended", |it| is_suspended(&it.job("w")));
    }
    it.assert_quota_is_respected();
    send(&it.tenant, "DELETE", &format!("{SPACE}/trainjobs/t"), &tree!({}));
    it.until("it never starts where it was not admitted", |it| {
        let all = it.read("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads");
        all.to_json().contains("FailedToStart")
    });
    it.change("w", &tree!({"spec": {"suspend": false}}));
    it.until("and does not run without a share", |it| is_suspended(&it.job("w")));
    it.assert_quota_is_respected();
    assert_eq!(it.running(), 0);
}
