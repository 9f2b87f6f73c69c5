//! The JobSets of `examples/`, and the guide's commands, do what they say.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use muster_tests::clients::{note, program};
use muster_tests::embedded_server::{EmbeddedServer, binary};
use muster_tree::Tree;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn example(name: &str) -> String {
    root().join("examples").join(name).display().to_string()
}

/// A plane with the nodes of an example, and kubectl for it.
struct Stage {
    kubectl: PathBuf,
    plane: EmbeddedServer,
}

impl Stage {
    /// `None`, and the test noted as skipped, without kubectl.
    fn new(test: &str, nodes: &str) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        let plane = EmbeddedServer::start(&["--ephemeral", "--nodes", &example(nodes)]).unwrap();
        Some(Stage { kubectl, plane })
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new(&self.kubectl)
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .args(args)
            .output()
            .unwrap()
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn apply(&self, name: &str) {
        self.kubectl(&["apply", "-f", &example(name)]);
    }

    fn completed(&self, namespace: &str, set: &str) {
        let of = format!("jobset/{set}");
        self.kubectl(&["wait", "-n", namespace, "--for=condition=Completed", &of, "--timeout=90s"]);
    }

    fn list(&self, namespace: &str, what: &str) -> Vec<Tree> {
        let text = self.kubectl(&["get", "-n", namespace, what, "--output", "json"]);
        Tree::parse(text.as_bytes()).unwrap().items_at(&["items"]).to_vec()
    }

    fn names(&self, namespace: &str, what: &str) -> Vec<String> {
        self.list(namespace, what).iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect()
    }

    /// Waits until nothing of a kind is left.
    fn none_left(&self, namespace: &str, what: &str) {
        for _ in 0..300 {
            if self.list(namespace, what).is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("there are still {what}: {:?}", self.names(namespace, what));
    }
}

/// An initializer writes what the workers read: as processes of this machine.
///
/// Shows: 572-30, 572-47.
#[test]
fn an_initializer_writes_what_the_workers_read() {
    for isolation in ["auto", "none"] {
        let mut run = Command::new(binary().unwrap());
        run.args([
            "run",
            "--timeout",
            "2m",
            "--isolation",
            isolation,
            "-f",
            &example("jobset-shared-volume.yaml"),
        ]);
        let output = run.output().unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{isolation}: {said}");
        for words in [
            "wrote 100 numbers",
            "rank 0 read 50 numbers, their sum is 2500",
            "rank 1 read 50 numbers, their sum is 2550",
            "jobset/learn  completed  3",
        ] {
            assert!(said.contains(words), "{isolation}: {words:?} is not in {said}");
        }
    }
    note("muster run: a JobSet whose initializer writes to a shared volume and whose workers read it");
}

/// Shows: 572-43, 572-07, 572-15.
#[test]
fn a_model_is_fetched_once_for_all() {
    let Some(stage) = Stage::new("a_model_is_fetched_once_for_all", "jobset-nodes.yaml") else { return };
    stage.apply("jobset-classes.yaml");
    stage.apply("jobset-shared-model.yaml");
    stage.completed("default", "trainjob-qwen2.5");
    assert_eq!(stage.names("default", "persistentvolumeclaims"), ["initializer-trainjob-qwen2.5"]);
    let jobs = stage.list("default", "jobs");
    assert_eq!(jobs.len(), 3);
    for job in &jobs {
        let volumes = job.items_at(&["spec", "template", "spec", "volumes"]);
        assert_eq!(
            volumes[0].str_at(&["persistentVolumeClaim", "claimName"]),
            "initializer-trainjob-qwen2.5"
        );
    }
    let time = |suffix: &str, key: &str| {
        let job = jobs.iter().find(|it| it.str_at(&["metadata", "name"]).ends_with(suffix)).unwrap();
        job.str_at(&["status", key]).to_owned()
    };
    for initializer in ["dataset-initializer-0", "model-initializer-0"] {
        assert!(
            time(initializer, "completionTime") <= time("-node-0", "startTime"),
            "the training comes after {initializer}"
        );
    }
    stage.kubectl(&["delete", "jobset", "trainjob-qwen2.5"]);
    stage.none_left("default", "persistentvolumeclaims");
}

/// Also runs the guide's commands that find and remove what was kept.
///
/// Shows: 572-45, 572-16, 572-41, 572-50, 572-51, 572-28.
#[test]
fn data_is_kept_for_the_next_one() {
    let Some(stage) = Stage::new("data_is_kept_for_the_next_one", "jobset-nodes.yaml") else { return };
    stage.apply("jobset-classes.yaml");
    let uid = || stage.list("hpc", "persistentvolumeclaims")[0].str_at(&["metadata", "uid"]).to_owned();
    stage.apply("jobset-kept-data.yaml");
    stage.completed("hpc", "hpc-simulation");
    let first = uid();
    assert_eq!(stage.names("hpc", "persistentvolumeclaims"), ["simulation-data-hpc-simulation"]);
    let mounts = |job: &Tree| !job.items_at(&["spec", "template", "spec", "volumes"]).is_empty();
    let jobs = stage.list("hpc", "jobs");
    assert_eq!(
        (jobs.len(), jobs.iter().filter(|it| mounts(it)).count()),
        (17, 16),
        "the coordinator has no volume"
    );
    stage.kubectl(&["delete", "-n", "hpc", "jobset", "hpc-simulation"]);
    stage.none_left("hpc", "jobs");
    stage.apply("jobset-kept-data.yaml");
    stage.completed("hpc", "hpc-simulation");
    assert_eq!(uid(), first, "the same volume serves the next one");
    let guide = std::fs::read_to_string(root().join("docs/guides/jobset.md")).unwrap();
    assert!(guide.contains("ReadWriteMany") && guide.contains("What the administrator provides"));
    let commands: Vec<&str> =
        guide.lines().filter(|it| it.starts_with("kubectl") && it.contains("pvc -n hpc")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    stage.kubectl(&["delete", "-n", "hpc", "jobset", "hpc-simulation"]);
    for command in commands {
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        assert!(stage.kubectl(&words).contains("simulation-data-hpc-simulation"), "{command}");
    }
    stage.none_left("hpc", "persistentvolumeclaims");
}

/// The claims that a pod uses, by the name it has for them.
fn allocated<'a>(claims: &'a [Tree], name: &str) -> &'a Tree {
    claims
        .iter()
        .find(|it| it.str_at(&["metadata", "name"]) == name)
        .unwrap_or_else(|| panic!("no claim {name}"))
}

/// Shows: 762-42, 762-10, 762-19, 762-58.
#[test]
fn pods_on_several_nodes_share_a_channel() {
    let Some(stage) = Stage::new("pods_on_several_nodes_share_a_channel", "jobset-devices.yaml") else {
        return;
    };
    // Long enough to be looked at.
    let text = std::fs::read_to_string(example("jobset-imex.yaml")).unwrap();
    let text = text.replace(
        "labels: {app: simulation}}",
        "labels: {app: simulation}, annotations: {muster.dev/sim-run-seconds: '20'}}",
    );
    let file = stage.plane.directory().join("imex.yaml");
    std::fs::write(&file, text).unwrap();
    stage.kubectl(&["apply", "-f", &file.display().to_string()]);
    stage.kubectl(&["wait", "--for=jsonpath={.status.ready}=3", "job/simulation-ranks-0", "--timeout=60s"]);
    let claims = stage.list("default", "resourceclaims");
    let claim = allocated(&claims, "simulation-ranks-0-channel");
    assert_eq!(
        (claims.len(), claim.items_at(&["status", "reservedFor"]).len()),
        (1, 3),
        "one claim, three pods"
    );
    assert_eq!(claim.items_at(&["status", "allocation", "devices", "results"]).len(), 1);
    let mut nodes: Vec<String> =
        stage.list("default", "pods").iter().map(|it| it.str_at(&["spec", "nodeName"]).to_owned()).collect();
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 3, "each on a node of its own");
    stage.completed("default", "simulation");
    stage.none_left("default", "resourceclaims");
}

/// Shows: 762-43, 762-09.
#[test]
fn each_job_has_a_slice_of_its_own() {
    let Some(stage) = Stage::new("each_job_has_a_slice_of_its_own", "jobset-devices.yaml") else { return };
    // Long enough to be looked at.
    let text = std::fs::read_to_string(example("jobset-tpu-slices.yaml")).unwrap();
    let file = stage.plane.directory().join("slices.yaml");
    std::fs::write(&file, text.replace("sim-run-seconds: \"4\"", "sim-run-seconds: \"20\"")).unwrap();
    stage.kubectl(&["apply", "-f", &file.display().to_string()]);
    stage.kubectl(&[
        "wait",
        "--for=jsonpath={.status.replicatedJobsStatus[0].ready}=2",
        "jobset/sweep",
        "--timeout=60s",
    ]);
    let claims = stage.list("default", "resourceclaims");
    let slices = |claim: &Tree| {
        claim.items_at(&["status", "allocation", "devices", "results"])[0].str_at(&["device"]).to_owned()
    };
    let with = claims.iter().filter(|it| it.at(&["status", "allocation"]).is_some());
    let mut taken: Vec<String> = with.map(slices).collect();
    taken.sort();
    assert_eq!(taken, ["slice-0", "slice-1"], "two Jobs, two slices");
    let waits = |pod: &&Tree| pod.str_at(&["status", "phase"]) == "Pending";
    let told = |pod: &Tree| {
        let conditions = pod.items_at(&["status", "conditions"]);
        let scheduled = conditions.iter().find(|it| it.str_at(&["type"]) == "PodScheduled");
        scheduled.map(|it| (it.str_at(&["reason"]).to_owned(), it.str_at(&["message"]).to_owned()))
    };
    // Their status is written a moment after the others run.
    let mut pods = stage.list("default", "pods");
    for _ in 0..100 {
        let waiting: Vec<&Tree> = pods.iter().filter(waits).collect();
        if waiting.len() == 2 && waiting.iter().all(|pod| told(pod).is_some()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        pods = stage.list("default", "pods");
    }
    let waiting: Vec<&Tree> = pods.iter().filter(waits).collect();
    assert_eq!(waiting.len(), 2, "the third Job waits");
    for pod in waiting {
        let (reason, message) = told(pod).unwrap();
        assert_eq!(reason, "Unschedulable");
        assert!(message.contains("cannot allocate all claims"), "{message}");
    }
    for job in stage.list("default", "jobs") {
        let name = job.str_at(&["metadata", "name"]).to_owned();
        let of_job = |pod: &&Tree| pod.str_at(&["metadata", "labels", "job-name"]) == name && !waits(pod);
        let half: Vec<String> =
            pods.iter().filter(of_job).map(|it| it.str_at(&["spec", "nodeName"]).to_owned()).collect();
        let first = |node: &str| node == "host-0" || node == "host-1";
        assert!(
            half.iter().all(|it| first(it)) || !half.iter().any(|it| first(it)),
            "{name} is on the hosts of one slice: {half:?}"
        );
    }
    stage.completed("default", "sweep");
    stage.none_left("default", "resourceclaims");
}

/// Also the same example with the container field that pods do not have any more.
///
/// Shows: 762-36, 762-37, 762-12, 762-13, 762-06.
#[test]
fn claims_of_jobs_and_claims_of_pods_stand_side_by_side() {
    let Some(stage) =
        Stage::new("claims_of_jobs_and_claims_of_pods_stand_side_by_side", "jobset-devices.yaml")
    else {
        return;
    };
    stage.apply("jobset-channels.yaml");
    stage.completed("default", "shared-resource-jobset");
    let pods = stage.list("default", "pods");
    assert_eq!(pods.len(), 3);
    for pod in &pods {
        let names: Vec<&str> =
            pod.items_at(&["spec", "resourceClaims"]).iter().map(|it| it.str_at(&["name"])).collect();
        assert_eq!(names, ["gpu-claim", "imex-channel", "shared-data"]);
        let of = |at: usize| {
            pod.items_at(&["spec", "containers"])[at]
                .items_at(&["resources", "claims"])
                .iter()
                .map(|it| it.str_at(&["name"]).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!((of(0), of(1)), (vec!["gpu-claim".to_owned(), "imex-channel".to_owned()], vec![]));
    }
    stage.kubectl(&["delete", "jobset", "--all"]);
    stage.none_left("default", "resourceclaims");
    let text = std::fs::read_to_string(example("jobset-channels.yaml")).unwrap();
    let obsolete = "              resourceClaims: [{name: gpu-claim, source: {resourceClaimTemplateName: pod-gpu-template}}]\n";
    let printed = text.replace(
        "              command: [python, train.py]\n",
        &format!("              command: [python, train.py]\n{obsolete}"),
    );
    assert_ne!(printed, text);
    let file = stage.plane.directory().join("printed.yaml");
    std::fs::write(&file, printed).unwrap();
    let file = file.display().to_string();
    let strict = stage.run(&["apply", "-f", &file]);
    let words = String::from_utf8_lossy(&strict.stderr).into_owned();
    let path = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].resourceClaims";
    assert!(!strict.status.success() && words.contains("unknown field") && words.contains(path), "{words}");
    for (mode, warns) in [("warn", true), ("ignore", false)] {
        let output = stage.run(&["apply", "-f", &file, &format!("--validate={mode}")]);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && words.contains(path) == warns, "{mode}: {words}");
        stage.kubectl(&[
            "wait",
            "--for=create",
            "resourceclaim/shared-resource-jobset-worker-group-2-shared-data",
            "--timeout=30s",
        ]);
        stage.completed("default", "shared-resource-jobset");
        stage.kubectl(&["delete", "jobset", "--all"]);
        stage.none_left("default", "jobs");
    }
}
