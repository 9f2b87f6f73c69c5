//! Admission of JobSets by `muster operator` on a real server, and by `muster up` in process: the same decisions.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, HttpAnswer, RequestStep};
use muster_tests::embedded_server::{self, EmbeddedServer};
use muster_tests::muster_process::{MusterProcess, command, until};
use muster_tests::real::{self, RealCluster};
use muster_tests::server_pair::ServerPair;
use muster_tree::{Tree, tree};

const NAMESPACES: &str = "/api/v1/namespaces";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";

fn sets(namespace: &str) -> String {
    format!("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets")
}

fn post(server: &ApiClient, path: &str, object: &Tree) -> HttpAnswer {
    server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).expect("the server answers")
}

fn named(name: &str, spec: &Tree) -> Tree {
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": spec.clone()})
}

/// One replicatedJob that never starts.
fn spec() -> Tree {
    spec_of(&tree!({"name": "c", "image": "i"}))
}

fn spec_of(container: &Tree) -> Tree {
    let pod = tree!({"containers": [container]});
    let job = tree!({"name": "w", "template": {"spec": {"template": {"spec": pod}}}});
    tree!({"suspend": true, "replicatedJobs": [job]})
}

/// What a client can compare: the code, the stored object, the causes with their fields, and the warnings.
fn seen(answer: &HttpAnswer) -> (u16, Option<Tree>, String, Vec<Tree>, Vec<String>) {
    let causes = answer.body.items_at(&["details", "causes"]).to_vec();
    let message = answer.body.str_at(&["message"]).to_owned();
    (answer.code, answer.body.get("spec").cloned(), message, causes, answer.warnings.clone())
}

#[test]
fn both_planes_decide_alike() {
    let Some(planes) = ServerPair::admitting_jobsets("both_planes_decide_alike") else { return };
    let space = tree!({"metadata": {"name": "admission"}});
    for server in [&planes.ours, &planes.real] {
        assert_eq!(post(server, NAMESPACES, &space).code, 201);
    }
    let rule = |more: &Tree| {
        let rule = tree!({"action": "FailJobSet"}).merge(more);
        tree!({"rules": [rule]})
    };
    let pattern = rule(&tree!({"name": "r", "onJobFailureMessagePatterns": ["("]}));
    let broken =
        spec_of(&tree!({"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}));
    for (says, name, more, code) in [
        ("what is left out is filled in", "plain", tree!({}), 201),
        ("rules get names", "rules", tree!({"failurePolicy": rule(&tree!({"name": ""}))}), 201),
        ("an odd pattern is warned about", "pattern", tree!({"failurePolicy": pattern}), 201),
        ("names that get too long", &"n".repeat(62), tree!({}), 422),
        (
            "two things wrong at once",
            "two",
            tree!({"successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]}, "managedBy": "nobody"}),
            422,
        ),
        ("a Job that cannot be", "job", broken, 422),
    ] {
        let set = named(name, &spec().merge(&more));
        let [ours, real] = [&planes.ours, &planes.real].map(|server| post(server, &sets("admission"), &set));
        assert_eq!(real.code, code, "{says}: {}", real.body.to_json());
        assert_eq!(seen(&ours), seen(&real), "{says}");
        assert_eq!(real.warnings.len(), usize::from(name == "pattern"), "{says}");
        if code == 422 {
            assert_eq!(real.body.str_at(&["reason"]), "Invalid", "{says}");
            let message = real.body.str_at(&["message"]);
            assert!(message.contains("admission webhook \"vjobset.kb.io\" denied the request"), "{message}");
        }
    }
    let change = tree!({"spec": {"replicatedJobs": []}});
    let step = RequestStep { kind: "merge".into(), ..RequestStep::default() };
    let [ours, real] = [&planes.ours, &planes.real].map(|server| {
        let path = format!("{}/plain", sets("admission"));
        server.send("PATCH", &path, &step, change.to_json_bytes()).expect("the server answers")
    });
    assert_eq!((real.code, seen(&ours)), (422, seen(&real)), "what may not change");
    note("muster operator: JobSets are filled in, refused and warned about on a real server as by muster up");
}

/// A real server with an operator of its own, which logs to a file.
struct Stage {
    real: RealCluster,
    kubeconfig: PathBuf,
    complaints: PathBuf,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let real = RealCluster::with(&["gc", "namespace", "job"]).unwrap();
        let kubeconfig = real.kubeconfig(folder.path(), real.server.base()).unwrap();
        Stage { real, kubeconfig, complaints: folder.path().join("complaints"), _folder: folder }
    }

    fn operator(&self) -> MusterProcess {
        let complaints = std::fs::File::create(&self.complaints).unwrap();
        let mut operator =
            MusterProcess::start_with_stderr(&["operator"], &self.kubeconfig, complaints.into());
        operator.wait_for_line("muster is the leader at https://");
        operator
    }

    fn create(&self, set: &Tree) -> (bool, String) {
        kubectl(&self.kubeconfig, &["create", "-f", "-"], set)
    }
}

fn kubectl(kubeconfig: &Path, words: &[&str], input: &Tree) -> (bool, String) {
    let mut kubectl = Command::new(real::program("kubectl").unwrap());
    kubectl.arg("--kubeconfig").arg(kubeconfig).args(words).stdin(Stdio::piped());
    let mut child = kubectl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &input.to_json_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// An apply replaces lists as a whole: on the server those of the failure rules and volumes, on the client all.
#[test]
fn a_manifest_is_applied_twice() {
    let test = "a_manifest_is_applied_twice";
    if let Err(reason) = real::program("kubectl") {
        return skip(test, &reason);
    }
    let Some(planes) = ServerPair::admitting_jobsets(test) else { return };
    let claim = tree!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let spec =
        spec_of(&tree!({"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}));
    let volumes = tree!([{"templates": [{"metadata": {"name": "data"}, "spec": claim}]}]);
    let more =
        tree!({"failurePolicy": {"rules": [{"action": "FailJobSet"}]}, "volumeClaimPolicies": volumes});
    let ways =
        [("on-the-server", &["apply", "--server-side", "-f", "-"][..]), ("here", &["apply", "-f", "-"])];
    let servers = [&planes.ours, &planes.real];
    for (server, kubeconfig) in servers.into_iter().zip(planes.kubeconfigs().unwrap()) {
        assert_eq!(post(server, NAMESPACES, &tree!({"metadata": {"name": "applied"}})).code, 201);
        for (name, words) in ways {
            let set = named(name, &spec.merge(&more)).with(&["metadata", "namespace"], "applied");
            let apply = || {
                let (done, said) = kubectl(&kubeconfig, words, &set);
                assert!(done, "{} {name}: {said}", server.base());
                let kept = server.get(&format!("{}/{name}", sets("applied"))).unwrap().body;
                (kept.int_at(&["metadata", "generation"]), kept.get("spec").cloned().unwrap())
            };
            let first = apply();
            let rule = &first.1.items_at(&["failurePolicy", "rules"])[0];
            assert_eq!(rule.str_at(&["name"]), "failurePolicyRule0");
            let policy = &first.1.items_at(&["volumeClaimPolicies"])[0];
            assert_eq!(policy.str_at(&["retentionPolicy", "whenDeleted"]), "Delete");
            assert_eq!(apply(), first, "{} {name}: the same manifest changes nothing", server.base());
        }
    }
    note("muster operator: the same JobSet can be applied twice, on the server and on the client");
}

/// Shows: 762-52.
#[test]
fn with_the_operator_away_jobsets_are_refused_and_nothing_else_suffers() {
    let test = "with_the_operator_away_jobsets_are_refused_and_nothing_else_suffers";
    if let Some(reason) = real::missing().or_else(|| real::program("kubectl").err()) {
        return skip(test, &reason);
    }
    let stage = Stage::new();
    let server = &stage.real.server;
    let operator = stage.operator();
    let told = std::fs::read_to_string(&stage.complaints).unwrap();
    assert!(told.contains("jobsets.jobset.x-k8s.io is missing"), "what is missing: {told}");
    assert!(told.contains("muster crds | kubectl apply"), "and what to do: {told}");
    stage.real.create_jobset_crd(&embedded_server::binary().unwrap()).unwrap();
    let (made, said) = stage.create(&named("first", &spec()));
    assert!(made, "{said}");
    let first = server.get(&format!("{}/first", sets("default"))).unwrap().body;
    assert_eq!(
        first.str_at(&["spec", "successPolicy", "operator"]),
        "All",
        "defined later, admitted all the same"
    );
    let (made, said) = stage.create(&named(&"n".repeat(62), &spec()));
    assert!(
        !made && said.contains("job names generated for this JobSet will exceed 63 characters"),
        "{said}"
    );
    assert_eq!(operator.terminate(), 0);

    let refused = post(server, &sets("default"), &named("second", &spec()));
    let message = refused.body.str_at(&["message"]);
    assert_eq!(refused.code, 500, "{message}");
    assert!(message.contains("failed calling webhook \"mjobset.kb.io\""), "{message}");
    let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}});
    assert_eq!(
        post(server, "/apis/batch/v1/namespaces/default/jobs", &job).code,
        201,
        "other work is accepted"
    );
    until(server, "/apis/batch/v1/namespaces/default/jobs/j", "a Job with a pod", |job| {
        (job.int_at(&["status", "active"]) == Some(1)).then_some(())
    });
    let gone =
        server.send("DELETE", &format!("{}/first", sets("default")), &RequestStep::default(), Vec::new());
    assert_eq!(gone.unwrap().code, 200, "what is there can be deleted");

    let again = stage.operator();
    let made = post(server, &sets("default"), &named("second", &spec()));
    assert_eq!(made.code, 201, "after the next start they are accepted: {}", made.body.to_json());
    assert_eq!(again.terminate(), 0);
    note("muster operator: while it is away JobSets are refused, and other Jobs run");
}

fn hooks(server: &ApiClient) -> usize {
    let count =
        |plural: &str| server.get(&format!("{HOOKS}/{plural}")).unwrap().body.items_at(&["items"]).len();
    count("mutatingwebhookconfigurations") + count("validatingwebhookconfigurations")
}

/// A server that does not ask us: here our own, which admits JobSets by itself.
#[test]
fn webhooks_that_nobody_asks_are_taken_back() {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "0", "--controllers", "gc,namespace,jobset"])
            .unwrap();
    let ended = |words: &[&str], kubeconfig: &Path| {
        let output = command(words, kubeconfig).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, error) = ended(&["operator", "--webhook-listen", "0.0.0.0:0"], plane.kubeconfig());
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("webhooks cannot be called at 0.0.0.0:0"), "{error}");
    let (code, error) = ended(&["operator"], plane.kubeconfig());
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("does not reach the webhooks at https://127.0.0.1:"), "{error}");
    assert_eq!(hooks(&plane.server().unwrap()), 0, "nothing is left that would refuse JobSets");
}
