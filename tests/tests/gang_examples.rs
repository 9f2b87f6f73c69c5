//! The gangs of `examples/` do what they say.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_tests::clients::program;
use muster_tests::embedded_server::EmbeddedServer;
use muster_tree::Tree;

/// Looks until something is so, at most.
const LOOKS_MAX: usize = 1800;

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
}

/// A plane with nodes of sixteen processors, and kubectl for it.
struct Stage {
    kubectl: PathBuf,
    plane: EmbeddedServer,
}

impl Stage {
    /// `None`, and the test noted as skipped, without kubectl.
    fn new(test: &str, more: &[&str]) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        let nodes = example("jobset-nodes.yaml");
        let args = [&["--ephemeral", "--nodes", nodes.as_str()][..], more].concat();
        Some(Stage { kubectl, plane: EmbeddedServer::start(&args).unwrap() })
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let mut command = Command::new(&self.kubectl);
        let output = command.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, name: &str) {
        self.kubectl(&["apply", "-f", &example(name)]);
    }

    fn apply_text(&self, text: &str) {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(["apply", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{text}");
    }

    fn get(&self, args: &[&str]) -> Tree {
        let text = self.kubectl(&[&["get", "--output", "json"][..], args].concat());
        Tree::parse(text.as_bytes()).unwrap()
    }

    fn names(&self, what: &str) -> Vec<String> {
        let list = self.get(&[what]);
        list.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect()
    }

    /// Waits until the status of a PodGroup counts this many scheduled pods and reports it as scheduled; returns the PodGroup.
    fn placed(&self, namespace: &str, group: &str, pods: i64) -> Tree {
        let mut seen = Tree::Null;
        for _ in 0..LOOKS_MAX {
            seen = self.get(&["-n", namespace, GROUPS, group]);
            let is_true =
                |it: &Tree| it.str_at(&["type"]) == "PodGroupScheduled" && it.str_at(&["status"]) == "True";
            let told = seen.items_at(&["status", "conditions"]).iter().any(is_true);
            if told && seen.int_at(&["status", "scheduledPods"]) == Some(pods) {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{group} has not {pods} pods with nodes: {seen}");
    }

    /// Waits until nothing of a kind is left.
    fn none_left(&self, what: &str) {
        for _ in 0..LOOKS_MAX {
            if self.names(what).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("there are still {what}: {:?}", self.names(what));
    }
}

const WORKLOADS: &str = "workloads.scheduling.k8s.io";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

/// Shows: 5832-03.
#[test]
fn two_pods_are_placed_together() {
    let Some(stage) = Stage::new("two_pods_are_placed_together", &[]) else { return };
    stage.apply("podgroup.yaml");
    let group = stage.placed("ns-1", "pd-1", 2);
    let told = &group.items_at(&["status", "conditions"])[0];
    assert_eq!(told.str_at(&["reason"]), "MinCountSatisfied");
    assert_eq!(told.str_at(&["message"]), "All required pods (2/2) have been assigned to nodes");
    assert_ne!(
        told.str_at(&["lastTransitionTime"]),
        "2024-01-26T10:00:00Z",
        "told by the scheduler, not by the file"
    );
}

/// Shows: 5832-44, 5832-45, 5832-46, 5832-50.
#[test]
fn a_jobset_is_one_gang() {
    let Some(stage) = Stage::new("a_jobset_is_one_gang", &[]) else { return };
    stage.apply("gang-jobset.yaml");
    let group = stage.placed("default", "pretrain-gang", 5);
    let owners = group.items_at(&["metadata", "ownerReferences"]);
    assert_eq!((owners.len(), owners[0].str_at(&["kind"])), (1, "JobSet"));
    let workload = stage.get(&[WORKLOADS, "pretrain-gang"]);
    let template = &workload.items_at(&["spec", "podGroupTemplates"])[0];
    assert_eq!(
        (template.str_at(&["name"]), template.int_at(&["policy", "gang", "minCount"])),
        ("all", Some(5))
    );
    let pods = stage.get(&["pods"]);
    let joined = |pod: &Tree| pod.str_at(&["spec", "workloadRef", "podGroupName"]) == "pretrain-gang";
    assert!(pods.items_at(&["items"]).iter().all(joined), "{pods}");
    stage.kubectl(&["wait", "--for=condition=Completed", "jobset/pretrain-gang", "--timeout=90s"]);
    stage.kubectl(&["delete", "jobset", "pretrain-gang"]);
    for what in [GROUPS, WORKLOADS, "jobs", "pods"] {
        stage.none_left(what);
    }
}

/// Shows: 5832-54.
#[test]
fn a_gang_grows_while_it_runs() {
    let Some(stage) = Stage::new("a_gang_grows_while_it_runs", &[]) else { return };
    stage.apply("gang-scaling.yaml");
    let uids = || {
        [(WORKLOADS, "elastic"), (GROUPS, "elastic-workers")]
            .map(|(kind, name)| stage.get(&[kind, name]).str_at(&["metadata", "uid"]).to_owned())
    };
    stage.placed("default", "elastic-workers", 4);
    let (before, running) = (uids(), stage.names("pods"));
    let larger =
        r#"[{"op": "replace", "path": "/spec/podGroupTemplates/0/policy/gang/minCount", "value": 8}]"#;
    stage.kubectl(&["patch", WORKLOADS, "elastic", "--type", "json", "-p", larger]);
    stage.kubectl(&["patch", "job", "elastic", "--type", "merge", "-p", r#"{"spec": {"parallelism": 8}}"#]);
    stage.placed("default", "elastic-workers", 8);
    assert_eq!(uids(), before, "the same Workload and PodGroup");
    let now = stage.names("pods");
    assert!(running.iter().all(|pod| now.contains(pod)), "{running:?} ran, {now:?} are there");
}

/// The same by a Job whose controller creates the PodGroup: the size is written once.
///
/// Shows: 5832-54, 5832-50.
#[test]
fn a_job_makes_its_gang_as_large_as_itself() {
    let gate = ["--feature-gates", "WorkloadWithJob=true"];
    let Some(stage) = Stage::new("a_job_makes_its_gang_as_large_as_itself", &gate) else { return };
    stage.apply_text(JOB);
    let (mut groups, mut looks) = (stage.names(GROUPS), 0);
    while groups.is_empty() && looks < LOOKS_MAX {
        std::thread::sleep(Duration::from_millis(100));
        (groups, looks) = (stage.names(GROUPS), looks + 1);
    }
    let [group] = &groups[..] else { panic!("one group: {groups:?}") };
    stage.placed("default", group, 4);
    let (workloads, running) = (stage.names(WORKLOADS), stage.names("pods"));
    stage.kubectl(&["patch", "job", "train", "--type", "merge", "-p", r#"{"spec": {"parallelism": 8}}"#]);
    stage.placed("default", group, 8);
    assert_eq!((stage.names(WORKLOADS), stage.names(GROUPS)), (workloads, groups.clone()));
    let now = stage.names("pods");
    assert!(running.iter().all(|pod| now.contains(pod)), "{running:?} ran, {now:?} are there");
    stage.kubectl(&["delete", "job", "train"]);
    for what in [GROUPS, WORKLOADS, "pods"] {
        stage.none_left(what);
    }
}

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  parallelism: 4
  completions: 100
  scheduling: {schedulingPolicy: {gang: {}}}
  template:
    metadata: {annotations: {muster.dev/sim-run-seconds: "600"}}
    spec:
      restartPolicy: Never
      containers:
      - {name: train, image: train, resources: {requests: {cpu: "1"}}}
"#;
