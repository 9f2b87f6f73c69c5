//! The TrainJobs of `examples/`, and the guide's commands, do what they say.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use muster_tests::clients::{note, program};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::trainjob_fixture::{
    example, example_text, lock_rendezvous_port, muster, muster_with, path_with, processes, root, run,
};
use muster_tree::Tree;

/// A plane, and kubectl for it.
struct Stage {
    kubectl: PathBuf,
    plane: EmbeddedServer,
}

impl Stage {
    /// `None`, and the test noted as skipped, without kubectl.
    fn new(test: &str, args: &[&str]) -> Option<Stage> {
        let kubectl = program("MUSTER_TEST_KUBECTL", test)?;
        let plane = EmbeddedServer::start(&[&["--ephemeral"], args].concat()).unwrap();
        Some(Stage { kubectl, plane })
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(args).output().unwrap()
    }

    fn kubectl(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Applies a text; what kubectl complained about although it went well.
    fn apply(&self, text: &str) -> String {
        let file = self.plane.directory().join("work.yaml");
        std::fs::write(&file, text).unwrap();
        let output = self.run(&["apply", "-f", &file.display().to_string()]);
        let complaints = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{complaints}");
        complaints
    }

    fn wait(&self, condition: &str, job: &str) {
        let (of, job) = (format!("--for=condition={condition}"), format!("trainjob/{job}"));
        self.kubectl(&["wait", &of, &job, "--timeout=90s"]);
    }

    fn object(&self, what: &str) -> Tree {
        Tree::parse(self.kubectl(&["get", what, "--output", "json"]).as_bytes()).unwrap()
    }

    fn list(&self, what: &str) -> Vec<Tree> {
        self.object(what).items_at(&["items"]).to_vec()
    }

    /// Waits until nothing of a kind is left.
    fn none_left(&self, what: &str) {
        for _ in 0..600 {
            if self.list(what).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("there are still {what}: {}", self.kubectl(&["get", what]));
    }

    fn why(&self, what: &str) -> String {
        let kubeconfig = self.plane.kubeconfig().display().to_string();
        let ran = muster(&["why", what, "--kubeconfig", &kubeconfig]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out
    }
}

/// The example of the proposal, to the letter below its first comment, as it is in the file.
const PRINTED: &str = "apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: my-training
spec:
  ttlSecondsAfterFinished: 3600    # Delete 1 hour after completion
  activeDeadlineSeconds: 7200      # Max 2 hours runtime
  runtimeRef:
    name: torch-distributed
  trainer:
    numNodes: 2
";

/// Shows: 2899-30.
#[test]
fn the_example_of_the_proposal_works_as_printed() {
    let Some(stage) = Stage::new("the_example_of_the_proposal_works_as_printed", &["--sim-nodes", "2"])
    else {
        return;
    };
    let text = example_text("trainjob.yaml");
    let shown: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(shown.join("\n") + "\n", PRINTED);
    assert_eq!(stage.apply(&text), "", "no warning");
    let made = stage.object("trainjob/my-training");
    assert_eq!(made.str_at(&["spec", "runtimeRef", "kind"]), "ClusterTrainingRuntime");
    assert_eq!(made.str_at(&["spec", "runtimeRef", "apiGroup"]), "trainer.kubeflow.org");
    stage.wait("Complete", "my-training");
    let pods = stage.list("pods");
    assert_eq!(pods.len(), 2);
    let why = stage.why("trainjob/my-training");
    assert!(why.contains("default/my-training: Finished") && why.contains("it is deleted at "), "{why}");
    assert!(stage.kubectl(&["get", "trainjobs"]).contains("my-training   Complete"), "its state is a column");
}

/// The commands of the guide that save what there is before it goes, with nodes that have something to say.
///
/// Shows: 2899-66.
#[test]
fn what_there_is_can_be_saved_before_it_goes() {
    let Some(stage) = Stage::new("what_there_is_can_be_saved_before_it_goes", &[]) else { return };
    stage.apply(&example_text("train-limits.yaml"));
    stage.wait("Complete", "first-training");
    for command in commands("Save it before it goes") {
        let said = stage.kubectl(&command);
        assert!(said.contains("first-training"), "{command:?}: {said}");
        if command[0] == "logs" {
            assert_eq!(said.matches("the results of first-training").count(), 2, "{said}");
        }
    }
}

/// kubectl's words of the first block of commands below a heading, or a line, of the guide.
fn commands(after: &str) -> Vec<Vec<&'static str>> {
    let guide = std::fs::read_to_string(root().join("docs/guides/trainjob.md")).unwrap();
    let guide: &'static str = Box::leak(guide.into_boxed_str());
    let (_, rest) = guide.split_once(after).unwrap_or_else(|| panic!("{after:?} is not in the guide"));
    let (_, block) = rest.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().filter(|line| line.starts_with("kubectl"));
    let without = |line: &'static str| line.split(" > ").next().unwrap().split(" #").next().unwrap();
    let all: Vec<Vec<&str>> = lines.map(|line| without(line).split_whitespace().skip(1).collect()).collect();
    assert!(!all.is_empty(), "no commands after {after:?}");
    all
}

/// What the guide must say, besides commands.
///
/// Shows: 2899-66, 2899-27.
#[test]
fn the_guide_says_what_must_be_known() {
    let guide = std::fs::read_to_string(root().join("docs/guides/trainjob.md")).unwrap();
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "under 60 seconds",
        "before it goes",
        "cannot be extended",
        "`whenDeleted: Delete`",
        "`deadlineClock`",
        "`auto`",
        "`creation`",
        "`active`",
        "synchronised",
        "There is no `muster hist`",
        "The JobSet's own",
    ] {
        assert!(guide.contains(words), "{words:?} is not in the guide");
    }
}

/// As processes of this machine, with names and without.
#[test]
fn two_nodes_meet_and_agree() {
    let _alone = lock_rendezvous_port();
    for isolation in ["auto", "none"] {
        let file = example("train-nodes.yaml").display().to_string();
        let ran = muster(&["run", "--timeout", "2m", "--isolation", isolation, "-f", &file]);
        let words = [
            "rank 0 of 2 has 250500",
            "rank 1 of 2 has 250000",
            "rank 0 knows that the sum is 500500",
            "rank 1 knows that the sum is 500500",
            "trainjob/sum  completed  2",
        ];
        ran.assert(isolation, 0, &words);
        for rank in 0..2 {
            let of_rank = |line: &&str| line.starts_with(&format!("sum-node-0-{rank}-"));
            let said: Vec<&str> = ran.out.lines().filter(of_rank).collect();
            assert_eq!(said.len(), 2, "{isolation}: {}", ran.out);
            assert!(said.iter().all(|line| line.contains(&format!("| rank {rank} "))), "{said:?}");
        }
    }
    note("muster run: two nodes of a TrainJob find each other by the variables of their runtime");
}

/// Four processes of PyTorch, two on each node.
#[test]
fn torch_agrees_on_a_sum() {
    let Some(bin) = program("MUSTER_TEST_TORCH", "torch_agrees_on_a_sum") else { return };
    let _alone = lock_rendezvous_port();
    let bin = bin.display().to_string();
    for isolation in ["auto", "none"] {
        let file = example("torch-allreduce.yaml").display().to_string();
        let ran = muster_with(&bin, &["run", "--timeout", "5m", "--isolation", isolation, "-f", &file]);
        let ranks = (0..4).map(|rank| format!("rank {rank} of 4: all-reduce gives [6.0, 6.0, 6.0, 6.0]"));
        let ranks: Vec<String> = ranks.collect();
        let mut words: Vec<&str> = ranks.iter().map(String::as_str).collect();
        words.push("trainjob/allreduce  completed  2");
        ran.assert(isolation, 0, &words);
    }
    note("PyTorch: two nodes with two processes each agreed on an all-reduce, by torchrun and gloo");
}

/// A researcher's training that hangs.
///
/// Shows: 2899-19, 2899-63.
#[test]
fn what_hangs_is_ended() {
    let text = example_text("train-deadline.yaml");
    let marker = format!("86400.{}", std::process::id());
    let text =
        text.replace("activeDeadlineSeconds: 120", "activeDeadlineSeconds: 6").replace("86400", &marker);
    let ran = run(&text, &[]);
    ran.assert(
        "it hangs",
        1,
        &[
            "node 0 waits for somebody who never comes",
            "node 1 waits for somebody who never comes",
            "trainjob/hangs failed: DeadlineExceeded: TrainJob exceeded its active deadline",
        ],
    );
    assert_eq!(processes(&marker), [""; 0], "nothing runs on");
}

/// Defaults of a platform team for nightly training: the JobSet is deleted first, the TrainJob later.
///
/// Shows: 2899-29.
#[test]
fn a_nightly_training_tidies_up_after_itself() {
    let file = example("train-tidy.yaml").display().to_string();
    let ran = muster(&["run", "--timeout", "2m", "-f", &file]);
    let words = ["node 0 of 2 trained", "node 1 of 2 trained", "trainjob/tonight  completed  2"];
    ran.assert("as it is", 0, &words);
    let Some(stage) = Stage::new("a_nightly_training_tidies_up_after_itself", &[]) else { return };
    let shorter = example_text("train-tidy.yaml")
        .replace("ttlSecondsAfterFinished: 600", "ttlSecondsAfterFinished: 1")
        .replace("ttlSecondsAfterFinished: 86400", "ttlSecondsAfterFinished: 20");
    let warning = stage.apply(&shorter);
    assert!(
        warning.contains("less than 60 seconds") && warning.contains("may be deleted before"),
        "{warning}"
    );
    stage.wait("Complete", "tonight");
    stage.none_left("jobsets");
    let left = stage.list("trainjobs");
    assert_eq!(left.len(), 1, "the record stays while its pods are gone");
    stage.none_left("pods");
    stage.none_left("trainjobs");
    assert_eq!(
        stage
            .list("clustertrainingruntimes")
            .iter()
            .filter(|it| it.str_at(&["metadata", "name"]) == "nightly")
            .count(),
        1
    );
}

/// Shows: 572-43.
#[test]
fn initializers_fetch_what_the_nodes_share() {
    for isolation in ["auto", "none"] {
        let file = example("train-initializers.yaml").display().to_string();
        let ran = muster(&["run", "--timeout", "2m", "--isolation", isolation, "-f", &file]);
        let words = [
            "fetched hf://tatsu-lab/alpaca",
            "fetched hf://Qwen/Qwen2.5-1.5B-Instruct",
            "node 0 tunes hf://Qwen/Qwen2.5-1.5B-Instruct with hf://tatsu-lab/alpaca",
            "node 1 tunes hf://Qwen/Qwen2.5-1.5B-Instruct with hf://tatsu-lab/alpaca",
            "trainjob/tune  completed  4",
        ];
        ran.assert(isolation, 0, &words);
    }
    let Some(stage) = Stage::new("initializers_fetch_what_the_nodes_share", &["--sim-nodes", "2"]) else {
        return;
    };
    stage.apply(&example_text("train-initializers.yaml"));
    stage.wait("Complete", "tune");
    let claims = stage.list("persistentvolumeclaims");
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].str_at(&["metadata", "name"]), "initializer-tune");
    stage.kubectl(&["delete", "trainjob", "tune"]);
    stage.none_left("persistentvolumeclaims");
}

/// Shows: 762-09.
#[test]
fn nodes_share_a_channel_and_have_gpus_of_their_own() {
    let nodes = example("jobset-devices.yaml").display().to_string();
    let test = "nodes_share_a_channel_and_have_gpus_of_their_own";
    let Some(stage) = Stage::new(test, &["--nodes", &nodes]) else { return };
    // Long enough to be looked at.
    let text = example_text("train-devices.yaml");
    stage.apply(&text.replace("sim-run-seconds: \"2\"", "sim-run-seconds: \"20\""));
    stage.kubectl(&["wait", "--for=create", "job/pretrain-node-0", "--timeout=60s"]);
    stage.kubectl(&["wait", "--for=jsonpath={.status.ready}=2", "job/pretrain-node-0", "--timeout=60s"]);
    let claims = stage.list("resourceclaims");
    let named = |name: &str| claims.iter().find(|it| it.str_at(&["metadata", "name"]) == name);
    let channel = named("pretrain-node-0-channel").expect("a channel for the Job");
    assert_eq!(channel.items_at(&["status", "reservedFor"]).len(), 2, "both nodes share it");
    assert_eq!(claims.len(), 3, "and each has a GPU beside it");
    for pod in stage.list("pods") {
        let of_node = pod.items_at(&["spec", "containers"])[0].items_at(&["resources", "claims"]).to_vec();
        let mut names: Vec<&str> = of_node.iter().map(|it| it.str_at(&["name"])).collect();
        names.sort_unstable();
        assert_eq!(names, ["channel", "gpu"]);
    }
    stage.wait("Complete", "pretrain");
    stage.none_left("resourceclaims");
}

/// The SDK example against a control plane whose nodes have its Python.
#[test]
fn a_function_is_trained_by_the_sdk() {
    let Some(python) = program("MUSTER_TEST_KUBEFLOW", "a_function_is_trained_by_the_sdk") else { return };
    let _alone = lock_rendezvous_port();
    let bin = python.parent().unwrap().display().to_string();
    let plane = EmbeddedServer::start_with_path(&path_with(&bin), &["--ephemeral"]).unwrap();
    let mut command = Command::new(python);
    let output =
        command.arg(example("train-function.py")).env("KUBECONFIG", plane.kubeconfig()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    for words in [
        "node 0 of 2 has 250500",
        "node 1 of 2 has 250000",
        "node 0 knows that the sum is 500500",
        "node 1 knows that the sum is 500500",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}

/// The commands of the guide's first part.
#[test]
fn the_commands_of_the_guide_work() {
    let Some(stage) = Stage::new("the_commands_of_the_guide_work", &["--sim-nodes", "2"]) else { return };
    for file in ["trainjob.yaml", "train-nodes.yaml"] {
        assert!(
            std::fs::read_to_string(root().join("docs/guides/trainjob.md")).unwrap().contains(file),
            "{file}"
        );
    }
    for command in commands("Then, in a second terminal") {
        let in_root: Vec<String> = command
            .iter()
            .map(|word| word.replace("examples/", &format!("{}/examples/", root().display())))
            .collect();
        let words: Vec<&str> = in_root.iter().map(String::as_str).collect();
        stage.kubectl(&words);
    }
}
