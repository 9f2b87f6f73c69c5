//! Queues on the embedded plane, as the examples show them: who waits, who runs, and what is given back.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use muster_tests::clients::program;
use muster_tests::plane::Plane;
use muster_tree::Tree;

/// Looks until something is so, at most.
const LOOKS_MAX: usize = 600;
/// Looks for as long as something has to stay as it is.
const LOOKS_QUIET: usize = 10;
const PAUSE: Duration = Duration::from_millis(100);
const WORKLOADS: &str = "workloads.kueue.x-k8s.io";

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// A plane with simulated nodes, and kubectl for it.
struct Stage {
    kubectl: PathBuf,
    plane: Plane,
}

impl Stage {
    /// `None`, and the test noted as skipped, without kubectl.
    fn new(test: &str) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        Some(Stage { kubectl, plane: Plane::start(&["--ephemeral", "--sim-nodes", "3"]).unwrap() })
    }

    fn run(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        let output = command.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(args).output().unwrap();
        let told = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(told(output.stdout)) } else { Err(told(output.stderr)) }
    }

    fn kubectl(&self, args: &[&str]) -> String {
        self.run(args).unwrap_or_else(|why| panic!("{args:?}: {why}"))
    }

    fn apply(&self, name: &str) {
        self.kubectl(&["apply", "-f", &example(name).display().to_string()]);
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

    /// Applies the queue of the examples with another quota.
    fn quota(&self, cpu: &str) {
        let text = std::fs::read_to_string(example("queue-quota.yaml")).unwrap();
        assert!(text.contains("nominalQuota: 10m"), "the example has ten");
        self.apply_text(&text.replace("nominalQuota: 10m", &format!("nominalQuota: {cpu}")));
    }

    /// Waits until something is so.
    fn until(&self, what: &str, mut is: impl FnMut(&Stage) -> Result<(), String>) {
        let mut last = String::new();
        for _ in 0..LOOKS_MAX {
            match is(self) {
                Ok(()) => return,
                Err(seen) => last = seen,
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{what}: {last}");
    }

    /// Something stays as it is for a while.
    fn stays(&self, what: &str, mut is: impl FnMut(&Stage) -> Result<(), String>) {
        for _ in 0..LOOKS_QUIET {
            is(self).unwrap_or_else(|seen| panic!("{what}: {seen}"));
            std::thread::sleep(PAUSE);
        }
    }

    /// How many pods have our gate, and how many there are.
    fn gated(&self) -> (usize, usize) {
        let pods = self.get(&["pods"]);
        let pods = pods.items_at(&["items"]);
        let ours = |gate: &Tree| gate.str_at(&["name"]) == "kueue.x-k8s.io/admission";
        let gated = |pod: &&Tree| pod.items_at(&["spec", "schedulingGates"]).iter().any(ours);
        (pods.iter().filter(gated).count(), pods.len())
    }

    fn all_wait(&self, count: usize) -> Result<(), String> {
        let seen = self.gated();
        if seen == (count, count) { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    fn none_waits(&self, count: usize) -> Result<(), String> {
        let seen = self.gated();
        if seen == (0, count) { Ok(()) } else { Err(format!("{seen:?}")) }
    }

    /// The reason of a condition of a Workload that is true.
    fn has(&self, workload: &str, condition: &str) -> Result<String, String> {
        let seen = self.get(&[WORKLOADS, workload]);
        let is = |it: &&Tree| it.str_at(&["type"]) == condition && it.str_at(&["status"]) == "True";
        let found = seen.items_at(&["status", "conditions"]).iter().find(is);
        found.map(|it| it.str_at(&["reason"]).to_owned()).ok_or_else(|| seen.to_json())
    }

    fn finished(&self, workload: &str) {
        self.until("it ends", |stage| stage.has(workload, "Finished").map(drop));
        assert_eq!(self.has(workload, "Finished").as_deref(), Ok("Succeeded"));
        self.until("pods are let go", |stage| {
            let pods = stage.get(&["pods"]);
            let held = |pod: &Tree| !pod.items_at(&["metadata", "finalizers"]).is_empty();
            if pods.items_at(&["items"]).iter().any(held) { Err(pods.to_json()) } else { Ok(()) }
        });
        self.until("the quota is free", |stage| stage.uses("team", "0"));
    }

    /// Whether a queue has this much of its processors in use.
    fn uses(&self, queue: &str, cpu: &str) -> Result<(), String> {
        let seen = self.get(&["clusterqueues.kueue.x-k8s.io", queue]);
        let flavors = seen.items_at(&["status", "flavorsUsage"]);
        let total = flavors
            .first()
            .and_then(|it| it.items_at(&["resources"]).first())
            .map(|it| it.str_at(&["total"]));
        if total == Some(cpu) { Ok(()) } else { Err(seen.to_json()) }
    }

    fn sets(&self, workload: &str) -> Vec<(String, i64)> {
        let seen = self.get(&[WORKLOADS, workload]);
        let sets = seen.items_at(&["spec", "podSets"]).iter();
        sets.map(|it| (it.str_at(&["name"]).to_owned(), it.int_at(&["count"]).unwrap_or(0))).collect()
    }
}

/// Shows: 976-01, 976-07, 976-08, 976-09, 976-10, 976-36, 976-61.
#[test]
fn a_pod_by_itself_waits_for_quota() {
    let Some(stage) = Stage::new("a_pod_by_itself_waits_for_quota") else { return };
    stage.quota("0");
    stage.apply("queue-pod.yaml");
    stage.until("it asks for quota", |stage| {
        let list = stage.get(&[WORKLOADS]);
        if list.items_at(&["items"]).is_empty() { Err(list.to_json()) } else { Ok(()) }
    });
    stage.stays("it waits", |stage| stage.all_wait(1));
    let list = stage.get(&[WORKLOADS]);
    let name = list.items_at(&["items"])[0].str_at(&["metadata", "name"]).to_owned();
    assert!(name.starts_with("pod-foo-"), "{name}");
    assert_eq!(stage.sets(&name), [("main".to_owned(), 1)]);
    stage.quota("10m");
    stage.until("it starts", |stage| stage.none_waits(1));
    stage.finished(&name);
    let pod = stage.get(&["pod", "foo"]);
    assert_eq!(pod.str_at(&["metadata", "labels", "kueue.x-k8s.io/managed"]), "true", "for good");
}

/// Shows: 976-33, 976-39, 976-40, 976-49, 976-55, 976-59, 976-60.
#[test]
fn a_group_starts_as_a_whole() {
    let Some(stage) = Stage::new("a_group_starts_as_a_whole") else { return };
    stage.quota("9m");
    stage.apply("queue-group.yaml");
    stage.until("they wait", |stage| stage.all_wait(10));
    stage.stays("nine are not enough", |stage| stage.all_wait(10));
    assert_eq!(stage.sets("pod-group"), [("main".to_owned(), 10)]);
    let one = std::fs::read_to_string(example("queue-group.yaml")).unwrap();
    let one = one.split("---\n").next().unwrap().replace("pod-index-0", "too-many");
    stage.quota("10m");
    stage.until("all start", |stage| stage.none_waits(10));
    stage.apply_text(&one);
    stage.until("one too many goes", |stage| match stage.run(&["get", "pod", "too-many"]) {
        Err(why) if why.contains("NotFound") => Ok(()),
        other => Err(format!("{other:?}")),
    });
    stage.finished("pod-group");
}

/// With the controller switched off nobody would let pods go, so nobody holds them.
#[test]
fn nothing_is_held_where_nobody_runs_queues() {
    let Some(kubectl) = program("MUSTER_TEST_KUBECTL", "nothing_is_held_where_nobody_runs_queues") else {
        return;
    };
    let plane = Plane::start(&["--ephemeral", "--sim-nodes", "1", "--controllers", "*,-queue"]).unwrap();
    let stage = Stage { kubectl, plane };
    stage.apply("queue-pod.yaml");
    stage.kubectl(&["wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/foo", "--timeout=60s"]);
    let pod = stage.get(&["pod", "foo"]);
    assert!(pod.items_at(&["metadata", "finalizers"]).is_empty(), "{pod}");
}

/// Shows: 976-22, 976-41.
#[test]
fn roles_are_waited_for() {
    let Some(stage) = Stage::new("roles_are_waited_for") else { return };
    stage.quota("10m");
    let text = std::fs::read_to_string(example("queue-roles.yaml")).unwrap();
    let (driver, workers) = text.split_once("---\n").unwrap();
    stage.apply_text(driver);
    stage.stays("it waits for workers", |stage| stage.all_wait(1));
    assert!(stage.get(&[WORKLOADS]).items_at(&["items"]).is_empty(), "nothing is asked for yet");
    stage.apply_text(workers);
    stage.until("all start", |stage| stage.none_waits(10));
    assert_eq!(stage.sets("pod-group"), [("driver".to_owned(), 1), ("worker".to_owned(), 9)]);
    stage.finished("pod-group");
}

/// Shows: 976-23, 976-24, 976-25, 976-26, 976-42, 976-58.
#[test]
fn a_driver_has_room_for_its_workers() {
    for file in ["queue-driver.yaml", "queue-driver-as-printed.yaml"] {
        let Some(stage) = Stage::new("a_driver_has_room_for_its_workers") else { return };
        stage.quota("9m");
        stage.apply(file);
        stage.stays("its workers would not fit", |stage| stage.all_wait(1));
        stage.quota("10m");
        stage.until("it starts", |stage| stage.none_waits(1));
        assert_eq!(stage.sets("pod-group"), [("driver".to_owned(), 1), ("workers".to_owned(), 9)], "{file}");
        let worker = |n: usize| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata:\n  name: job-worker-{n}\n  labels:\n    \
                 kueue.x-k8s.io/queue-name: user-queue\n    kueue.x-k8s.io/pod-group-name: pod-group\n    \
                 kueue.x-k8s.io/pod-group-role: worker\nspec:\n  restartPolicy: Never\n  containers:\n  - name: job\n    \
                 image: hello-world\n    resources: {{requests: {{cpu: 1m}}}}\n---\n"
            )
        };
        stage.apply_text(&(0..9).map(worker).collect::<String>());
        stage.until("workers start at once", |stage| stage.none_waits(10));
        stage.finished("pod-group");
    }
}

#[test]
fn a_team_borrows_until_the_other_wants_its_own_back() {
    let Some(stage) = Stage::new("a_team_borrows_until_the_other_wants_its_own_back") else { return };
    let running = |stage: &Stage, job: &str, want: &str| {
        let seen = stage.get(&["job", job]);
        let suspended = seen.bool_at(&["spec", "suspend"]) == Some(true);
        let is = if suspended { "waits" } else { "runs" };
        if is == want { Ok(()) } else { Err(seen.to_json()) }
    };
    stage.apply("queue-cohort.yaml");
    stage.until("the borrower runs", |stage| running(stage, "borrower", "runs"));
    stage.until("and uses all", |stage| stage.uses("blue", "4"));
    stage.apply("queue-reclaim.yaml");
    stage.until("the owner runs", |stage| running(stage, "owner", "runs"));
    stage.until("the borrower waits", |stage| running(stage, "borrower", "waits"));
    stage.until("nothing is borrowed", |stage| stage.uses("blue", "0").and(stage.uses("green", "2")));
    let borrower = stage.get(&[WORKLOADS, "-l", "kueue.x-k8s.io/job-uid"]);
    let evicted = borrower.items_at(&["items"]).iter().flat_map(|it| it.items_at(&["status", "conditions"]));
    let mut evicted = evicted.filter(|it| it.str_at(&["type"]) == "Preempted");
    assert_eq!(evicted.next().map(|it| it.str_at(&["reason"])), Some("InCohortReclamation"));
}
