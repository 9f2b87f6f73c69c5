//! `muster run`: exit codes, what it says, and what it leaves behind.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use muster_tests::embedded_server::{EmbeddedServer, binary};
use muster_tree::Tree;
use tempfile::TempDir;

/// A folder with manifests, and what runs them on simulated nodes.
struct Runs {
    folder: TempDir,
}

/// A Job whose simulated pods exit with this code.
fn job(name: &str, code: i64) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  backoffLimit: 0\n  completions: 2\n  parallelism: 2
  template:\n    metadata: {{annotations: {{muster.dev/sim-exit-code: '{code}', muster.dev/sim-run-seconds: '0.1'}}}}
    spec: {{restartPolicy: Never, containers: [{{name: c, image: x}}]}}\n"
    )
}

/// A Pod that no node has room for.
const TOO_LARGE: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: large}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: '10000'}}}]}\n";
/// A Pod for a node label that is set later.
const ELSEWHERE: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: elsewhere}
spec: {nodeSelector: {place: elsewhere}, containers: [{name: c, image: x}]}\n";

impl Runs {
    fn new() -> Runs {
        Runs { folder: TempDir::new().unwrap() }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(args: &[&str]) -> Command {
        let mut command = Command::new(binary().unwrap());
        command.arg("run").args(args).stdin(Stdio::null());
        command
    }

    fn run(&self, text: &str, args: &[&str]) -> Output {
        let file = self.file("work.yaml", text);
        Runs::command(&["-f", file.to_str().unwrap(), "--sim-nodes", "1"]).args(args).output().unwrap()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn codes_and_summaries() {
    let runs = Runs::new();
    for (says, text, want, words) in [
        ("it completes", job("good", 0), 0, "job/good  completed  2"),
        ("it fails", job("bad", 3), 1, "container c exited with code 3"),
        ("both", format!("{}---\n{}", job("good", 0), job("bad", 3)), 1, "job/good  completed  2"),
    ] {
        let output = runs.run(&text, &[]);
        let (stdout, stderr) = said(&output);
        assert_eq!(code(&output), want, "{says}: {stderr}");
        assert!(stderr.contains(words), "{says}: {stderr}");
        assert_eq!(stdout, "", "simulated pods say nothing");
    }
}

#[test]
fn a_summary_for_machines() {
    let output = Runs::new().run(&job("bad", 3), &["-o", "json"]);
    let summary = Tree::parse(&output.stdout).unwrap();
    assert_eq!(summary.int_at(&["exitCode"]), Some(1));
    let work = &summary.items_at(&["work"])[0];
    assert_eq!((work.str_at(&["name"]), work.str_at(&["result"])), ("bad", "failed"));
    let pods = work.items_at(&["failedPods"]);
    assert_eq!(pods[0].items_at(&["containers"])[0].int_at(&["exitCode"]), Some(3));
}

#[test]
fn the_time_is_up() {
    let output = Runs::new().run(ELSEWHERE, &["--timeout", "12s"]);
    let (_, stderr) = said(&output);
    assert_eq!(code(&output), 124, "{stderr}");
    assert!(stderr.contains("pod/elsewhere  timed out"), "{stderr}");
    assert!(stderr.contains("elsewhere: Unschedulable: 0/1 nodes are available"), "{stderr}");
    assert!(
        stderr.contains("Pod default/elsewhere: Pending\n  Unschedulable: 0/1 nodes"),
        "explained: {stderr}"
    );
    assert_eq!(stderr.matches("Pod default/elsewhere: Pending").count(), 1, "once: {stderr}");
}

#[test]
fn work_in_a_queue_says_why_it_waits() {
    let queue = "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: default}
---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: all}
spec:\n  namespaceSelector: {}\n  resourceGroups: [{coveredResources: [cpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 1}]}]}]
---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: main}\nspec: {clusterQueue: all}\n";
    let queued = |name: &str, cpu: &str| {
        let of_queue = format!("metadata: {{name: {name}, labels: {{kueue.x-k8s.io/queue-name: main}}}}");
        job(name, 0)
            .replace(&format!("metadata: {{name: {name}}}"), &of_queue)
            .replace("image: x", &format!("image: x, resources: {{requests: {{cpu: {cpu}}}}}"))
    };
    let runs = Runs::new();
    let output = runs.run(&format!("{queue}---\n{}", queued("greedy", "4")), &[]);
    let (_, stderr) = said(&output);
    assert_eq!(code(&output), 2, "{stderr}");
    assert!(stderr.contains("Job default/greedy: Pending"), "{stderr}");
    let never =
        "it can never be admitted: pod set main asks for 8 of cpu, and quota of flavor default is at most 1";
    assert!(stderr.contains(never), "{stderr}");
}

#[test]
fn what_can_never_fit_is_given_up_with_a_sentence() {
    let output = Runs::new().run(TOO_LARGE, &[]);
    let (_, stderr) = said(&output);
    assert_eq!(code(&output), 2, "{stderr}");
    assert!(stderr.contains("pod/large  could not be run"), "{stderr}");
    let sentence = "it can never run here: pod large asks for 10k of cpu, and the only node has ";
    assert!(stderr.contains(sentence), "{stderr}");
}

/// A bar on stderr and lines on stdout: drawn as they come, and none inside another.
#[test]
fn bars_and_lines_of_ranks_are_kept_apart() {
    let script = "printf '\\r 10%%' >&2; sleep 0.4; printf '\\r 20%%' >&2; sleep 0.4; echo epoch $RANK; \
                  sleep 0.4; printf '\\r 30%%' >&2; sleep 0.4; echo >&2; echo done";
    let output = Runs::command(&["--ranks", "2", "--", "sh", "-c", script]).output().unwrap();
    let (stdout, stderr) = said(&output);
    assert_eq!(code(&output), 0, "{stderr}");
    for rank in 0..2 {
        let of = |line: &str| line.contains(&format!("-{rank}-"));
        let texts: Vec<&str> =
            stdout.lines().filter(|line| of(line)).map(|line| line.split_once(" | ").unwrap().1).collect();
        let epoch = format!("epoch {rank}");
        assert_eq!(texts, [" 10%", " 20%", epoch.as_str(), " 30%", "done"], "{stdout}");
    }
    assert_eq!(stdout.lines().count(), 10, "{stdout}");
}

#[test]
fn ranks_have_what_was_asked_for_and_say_who_failed_first() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("word"), "of the folder\n").unwrap();
    let mount = format!("{}:/given", folder.path().display());
    let script = "cat /given/word; echo $A $B; test $RANK = 1 && exit 3; sleep 60";
    let args = ["--ranks", "2", "-e", "A=one", "-e", "B", "--mount", &mount, "--", "sh", "-c", script];
    let output = Runs::command(&args).env("B", "two").output().unwrap();
    let (stdout, stderr) = said(&output);
    assert_eq!(code(&output), 1, "{stderr}");
    assert_eq!(stdout.matches("| of the folder\n").count(), 2, "{stdout}");
    assert_eq!(stdout.matches("| one two\n").count(), 2, "{stdout}");
    let first = stderr.lines().find(|line| line.contains("failed first")).unwrap_or_default();
    assert!(first.starts_with("  rank 1 (run-") && first.contains("exited with code 3"), "{stderr}");
    let stopped = stderr.lines().find(|line| line.contains("stopped because of it")).unwrap_or_default();
    assert!(stopped.contains("rank 0 (run-"), "{stderr}");
}

#[test]
fn a_program_that_pods_do_not_see_is_warned_of() {
    let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let program = folder.path().join("bin/mine");
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(&program, "#!/bin/sh\necho mine\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}/bin:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let run = |args: &[&str]| {
        let mut command = Runs::command(&[&["--ranks", "1"], args, &["--", "mine"]].concat());
        command.env("PATH", &path).current_dir("/").output().unwrap()
    };
    let (_, stderr) = said(&run(&["--timeout", "60s"]));
    assert!(stderr.contains(&format!("warning: mine is {} here", program.display())), "{stderr}");
    let mount = format!("{0}:{0}", folder.path().display());
    let output = run(&["--mount", &mount]);
    let (stdout, stderr) = said(&output);
    assert_eq!(code(&output), 0, "{stderr}");
    assert!(stdout.contains("| mine\n") && !stderr.contains("warning"), "{stdout}{stderr}");
}

#[test]
fn signals_end_the_work() {
    let runs = Runs::new();
    let file = runs.file("work.yaml", ELSEWHERE);
    for (signal, want) in [("INT", 130), ("TERM", 143)] {
        let mut command = Runs::command(&["-f", file.to_str().unwrap(), "--sim-nodes", "1"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        // It waits, and says so: from here on the work is there.
        while !line.contains("1 waiting") {
            line.clear();
            assert!(std::io::BufRead::read_line(&mut stderr, &mut line).unwrap() > 0, "it ended too early");
        }
        assert!(
            Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap().success()
        );
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut rest).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(want), "{rest}");
        assert!(rest.contains("Stopping (Ctrl-C again to force)"), "{rest}");
    }
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let runs = Runs::new();
    let unknown = "apiVersion: a.dev/v1\nkind: Thing\nmetadata: {name: x}\n";
    for (says, text, words) in [
        ("no YAML", "a: [".to_owned(), "work.yaml: "),
        ("an unknown kind", format!("{}---\n{unknown}", job("j", 0)), "work.yaml document 2: no kind Thing"),
        ("no work", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n".to_owned(), "there is no work"),
        ("an unknown field", job("j", 0).replace("completions", "completion"), "unknown field"),
        ("twice the same", format!("{}---\n{}", job("j", 0), job("j", 0)), "Job j stands in "),
    ] {
        let output = runs.run(&text, &[]);
        let (stdout, stderr) = said(&output);
        assert_eq!((code(&output), stdout.as_str()), (2, ""), "{says}: {stderr}");
        assert!(stderr.contains(words) && stderr.contains("\n\nhint: "), "{says}: {stderr}");
    }
}

#[test]
fn what_can_never_run_ends_by_itself() {
    let without = job("stuck", 0).replace("command", "args");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("work.yaml");
    std::fs::write(&file, without).unwrap();
    let output = Runs::command(&["-f", &file.display().to_string()]).output().unwrap();
    let (_, stderr) = said(&output);
    assert_eq!(code(&output), 2, "{stderr}");
    assert!(stderr.contains("could not be run") && stderr.contains("has no command"), "{stderr}");
}

#[test]
fn a_dry_run_prints_what_it_would_submit() {
    let runs = Runs::new();
    let output = runs.run(&job("j", 0), &["--dry-run", "-n", "there"]);
    let documents = Tree::parse_yaml_documents(&said(&output).0).unwrap();
    let words: Vec<&str> = documents.iter().map(|tree| tree.str_at(&["kind"])).collect();
    assert_eq!((code(&output), words), (0, vec!["Namespace", "Job"]));
    assert_eq!(documents[1].str_at(&["metadata", "namespace"]), "there");
    let output = runs.run(&job("j", 0), &["--dry-run", "-o", "json"]);
    assert_eq!(Tree::parse(&output.stdout).unwrap().items_at(&["items"]).len(), 1);
}

#[test]
fn ranks_and_standard_input() {
    let output = Runs::command(&["--ranks", "3", "--sim-nodes", "1", "--", "true"]).output().unwrap();
    let (_, stderr) = said(&output);
    assert_eq!(code(&output), 0, "{stderr}");
    assert!(stderr.contains("completed  3"), "{stderr}");
    let mut command = Runs::command(&["-f", "-", "--sim-nodes", "1", "-q"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(job("piped", 0).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = said(&output);
    assert_eq!(code(&output), 0, "{stderr}");
    assert_eq!(stdout, "");
    assert!(!stderr.contains("SUCCEEDED"), "quiet: {stderr}");
}

/// On a server that stays: what was made is gone afterwards, what was there before is not.
#[test]
fn another_server_is_left_as_it_was() {
    let plane = EmbeddedServer::shared();
    let server = plane.server().unwrap();
    let runs = Runs::new();
    let config = |name: &str, value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: {value}}}\n")
    };
    let space = "run-away";
    let run = |text: &str, args: &[&str]| {
        let file = runs.file("work.yaml", text);
        let kubeconfig = plane.kubeconfig().to_str().unwrap();
        let args = [&["-f", file.to_str().unwrap(), "--kubeconfig", kubeconfig, "-n", space], args].concat();
        Runs::command(&args).output().unwrap()
    };
    let there = |path: &str| server.get(&format!("/{path}")).unwrap().code == 200;
    let maps = format!("api/v1/namespaces/{space}/configmaps");
    let jobs = format!("apis/batch/v1/namespaces/{space}/jobs");
    let missing = run(&job("early", 0), &[]);
    assert_eq!(code(&missing), 2, "there is no such namespace: {}", said(&missing).1);

    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {space}}}\n");
    let kept = run(&format!("{}---\n{namespace}---\n{}", job("kept", 0), config("before", "x")), &["--keep"]);
    assert_eq!(code(&kept), 0, "{}", said(&kept).1);
    assert!(there(&format!("{maps}/before")) && there(&format!("{jobs}/kept")), "kept");

    let again =
        run(&format!("{}---\n{}---\n{}", config("before", "x"), config("new", "w"), job("again", 0)), &[]);
    assert_eq!(code(&again), 0, "{}", said(&again).1);
    assert!(there(&format!("{maps}/before")), "it was there before");
    assert!(!there(&format!("{maps}/new")) && !there(&format!("{jobs}/again")), "taken back");

    let text = format!("{}---\n{}---\n{}", config("new", "w"), config("before", "z"), job("never", 0));
    let other = run(&text, &[]);
    assert_eq!(code(&other), 2);
    assert!(
        said(&other).1.contains("ConfigMap before: it exists already with other content"),
        "{}",
        said(&other).1
    );
    assert!(!there(&format!("{maps}/new")) && !there(&format!("{jobs}/never")), "taken back");
}

/// A control plane of its own leaves no folder behind.
#[test]
fn nothing_is_left_on_disk() {
    let runs = Runs::new();
    let folder = TempDir::new().unwrap();
    let file = runs.file("work.yaml", &job("j", 0));
    let mut command = Runs::command(&["-f", file.to_str().unwrap(), "--sim-nodes", "1"]);
    assert_eq!(code(&command.env("TMPDIR", folder.path()).output().unwrap()), 0);
    assert_eq!(files_in(folder.path()), Vec::<PathBuf>::new());
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The stories of queues, each with the queue that it waits in; the fourth in both forms.
///
/// Shows: 976-70.
#[test]
fn stories_of_queues_run_from_their_files() {
    let example = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name).display().to_string()
    };
    for (story, pods) in [
        ("queue-pod.yaml", 1),
        ("queue-group.yaml", 10),
        ("queue-roles.yaml", 10),
        ("queue-driver.yaml", 1),
        ("queue-driver-as-printed.yaml", 1),
    ] {
        let (queue, story) = (example("queue-quota.yaml"), example(story));
        let words = ["-f", &queue, "-f", &story, "--sim-nodes", "3", "--no-logs", "-o", "json"];
        let output = Runs::command(&words).output().unwrap();
        let (summary, words) = said(&output);
        assert_eq!(code(&output), 0, "{story}: {words}");
        let summary = Tree::parse(summary.as_bytes()).unwrap();
        let work = summary.items_at(&["work"]);
        let completed = |it: &&Tree| it.str_at(&["result"]) == "completed";
        assert_eq!((work.len(), work.iter().filter(completed).count()), (pods, pods), "{story}: {summary}");
    }
}
