//! Admission of JobSets by `muster operator` on a real server, and by `muster up` in process: the same decisions.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use muster_tests::beside::{Beside, until};
use muster_tests::clients::{note, skip};
use muster_tests::differential::{Answer, Server, Step};
use muster_tests::plane;
use muster_tests::real::{self, Real};
use muster_tree::{Tree, tree};

fn sets(namespace: &str) -> String {
    format!("/apis/jobset.x-k8s.io/v1alpha2/namespaces/{namespace}/jobsets")
}

fn post(server: &Server, path: &str, object: &Tree) -> Answer {
    server.send("POST", path, &Step::default(), object.to_json_bytes()).expect("the server answers")
}

fn named(name: &str, spec: &Tree) -> Tree {
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name}, "spec": spec.clone()})
}

/// One replicatedJob that never starts.
fn spec() -> Tree {
    let pod = tree!({"containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"name": "w", "template": {"spec": {"template": {"spec": pod}}}});
    tree!({"suspend": true, "replicatedJobs": [job]})
}

/// A real server with an operator of its own, whose complaints are in a file.
struct Stage {
    real: Real,
    kubeconfig: PathBuf,
    complaints: PathBuf,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let real = Real::with(&["gc", "namespace", "job"]).unwrap();
        let kubeconfig = real.kubeconfig(folder.path(), real.server.base()).unwrap();
        Stage { real, kubeconfig, complaints: folder.path().join("complaints"), _folder: folder }
    }

    fn operator(&self) -> Beside {
        let complaints = std::fs::File::create(&self.complaints).unwrap();
        let mut operator = Beside::telling(&["operator"], &self.kubeconfig, complaints.into());
        operator.says("muster is in charge at https://");
        operator
    }

    fn kubectl(&self, words: &[&str], input: &Tree) -> (bool, String) {
        let mut kubectl = Command::new(real::program("kubectl").unwrap());
        kubectl.arg("--kubeconfig").arg(&self.kubeconfig).args(words).stdin(Stdio::piped());
        let mut child = kubectl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), &input.to_json_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    }
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
    stage.real.define_jobsets(&plane::binary().unwrap()).unwrap();
    let (made, said) = stage.kubectl(&["create", "-f", "-"], &named("first", &spec()));
    assert!(made, "{said}");
    let first = server.get(&format!("{}/first", sets("default"))).unwrap().body;
    assert_eq!(
        first.str_at(&["spec", "successPolicy", "operator"]),
        "All",
        "defined later, admitted all the same"
    );
    let (made, said) = stage.kubectl(&["create", "-f", "-"], &named(&"n".repeat(62), &spec()));
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
    let gone = server.send("DELETE", &format!("{}/first", sets("default")), &Step::default(), Vec::new());
    assert_eq!(gone.unwrap().code, 200, "what is there can be deleted");

    let again = stage.operator();
    let made = post(server, &sets("default"), &named("second", &spec()));
    assert_eq!(made.code, 201, "after the next start they are accepted: {}", made.body.to_json());
    assert_eq!(again.terminate(), 0);
    note("muster operator: while it is away JobSets are refused, and other Jobs run");
}
