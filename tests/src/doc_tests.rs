//! Documentation tests: runs every `sh` block of a page in order; for tutorials also the inline commands and the linked examples.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_tree::Tree;
use tempfile::TempDir;

use crate::clients::note;
use crate::embedded_server::{EmbeddedServer, binary};

const BEGIN: &str = "```sh";
const END: &str = "```";

/// Returns the path of a page in `docs`.
#[must_use]
pub fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// Returns the `sh` blocks of a page.
///
/// # Errors
/// The page cannot be read, or a block is not closed.
pub fn commands(page: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
    blocks(&text).map_err(|line| format!("{}:{line}: this block has no end", page.display()))
}

/// Returns the `sh` blocks of a text.
///
/// # Errors
/// The line of a block that is not closed.
pub fn blocks(text: &str) -> Result<Vec<String>, usize> {
    let (mut all, mut lines) = (Vec::new(), text.lines().enumerate());
    while let Some((at, line)) = lines.next() {
        if line.trim() != BEGIN {
            continue;
        }
        let mut block = String::new();
        loop {
            let (_, line) = lines.next().ok_or(at + 1)?;
            if line.trim() == END {
                break;
            }
            block.push_str(line.trim());
            block.push('\n');
        }
        all.push(block);
    }
    Ok(all)
}

/// Returns commands in blocks other than `sh`, which no test would run.
#[must_use]
pub fn commands_outside_of_scripts(text: &str) -> Vec<String> {
    let blocks = text.split(END).skip(1).step_by(2).filter(|block| !block.starts_with("sh\n"));
    let lines = blocks.flat_map(|block| block.lines().skip(1)).map(str::trim);
    let is_command = |line: &&str| ["kubectl ", "muster ", "helm "].iter().any(|it| line.starts_with(it));
    lines.filter(is_command).map(str::to_owned).collect()
}

/// A step of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocStep {
    /// Starts a server with these arguments of `muster up`.
    Up(Vec<String>),
    /// Runs a line in a shell.
    Shell(String),
    /// Runs the commands in the comment of an example.
    Example(String),
    /// A command that is not run, and why.
    LeftOut(String, &'static str),
}

/// Prefixes of commands that are not run, and why.
const LEFT_OUT: [(&str, &str); 6] = [
    ("export KUBECONFIG", "the test sets it"),
    ("cargo xtask", "these are the tests"),
    ("docker build", "needs a registry"),
    ("muster install", "needs a cluster; covered by the tests of `install`"),
    ("python examples/", "needs Kubeflow's SDK; covered by the tests of TrainJobs"),
    ("muster up --help", "only prints"),
];

/// Examples that are not run with their pages, and why.
const EXAMPLES_LEFT_OUT: [(&str, &str); 4] = [
    ("torch-allreduce.yaml", "needs PyTorch; covered by the tests of TrainJobs"),
    (
        "train-deadline.yaml",
        "fails after two minutes; covered by the tests of TrainJobs with a shorter deadline",
    ),
    ("operator-config.yaml", "not a manifest"),
    ("trainjob.yaml", "as in the KEP, without a command; covered by the tests of TrainJobs"),
];

/// Removes the lines that start with one of these prefixes, and records each with its reason.
#[must_use]
pub fn runnable_lines(block: &str, left_out: &[(&str, &str)]) -> String {
    let mut played = String::new();
    for line in block.lines() {
        match left_out.iter().find(|(start, _)| line.starts_with(start)) {
            Some((_, reason)) => note(&not_run(line, reason)),
            None => played.extend([line, "\n"]),
        }
    }
    played
}

fn not_run(line: &str, reason: &str) -> String {
    format!("docs: not run: `{line}`: {reason}")
}

/// Returns the steps of a page, in order.
#[must_use]
pub fn doc_steps(text: &str) -> Vec<DocStep> {
    let mut all = Vec::new();
    for (at, part) in text.split("```").enumerate() {
        if at % 2 == 1 {
            let block = part.strip_prefix("sh\n").unwrap_or_default();
            all.extend(lines(block).iter().map(|line| doc_step(line)));
            continue;
        }
        let text = part.split_whitespace().collect::<Vec<_>>().join(" ");
        for (at, piece) in text.split('`').enumerate() {
            let is_command = ["kubectl apply -f examples/", "muster run -f examples/"]
                .iter()
                .any(|it| piece.starts_with(it));
            if at % 2 == 1 && is_command {
                all.push(doc_step(piece));
            }
            all.extend(linked(piece).map(DocStep::Example));
        }
    }
    all.dedup();
    all
}

/// Returns the examples that a text links.
fn linked(text: &str) -> impl Iterator<Item = String> {
    text.split("/examples/").skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once(".yaml)")?;
        (!name.contains(['/', ' '])).then(|| format!("{name}.yaml"))
    })
}

/// Returns the lines of a script, with continuations joined and comments removed.
#[must_use]
pub fn lines(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let line = |line: &str| {
        line.split(" #").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    joined.lines().map(line).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn doc_step(line: &str) -> DocStep {
    let line = line.replace("cargo run --release -- ", "muster ");
    if let Some((_, reason)) = LEFT_OUT.iter().find(|(start, _)| line.starts_with(start)) {
        return DocStep::LeftOut(line, reason);
    }
    match line.strip_prefix("muster up") {
        Some(args) => DocStep::Up(args.split_whitespace().map(str::to_owned).collect()),
        None => DocStep::Shell(line),
    }
}

/// Returns the commands in the comment at the top of an example: lines indented by three spaces.
#[must_use]
pub fn commands_of_example(text: &str) -> Vec<DocStep> {
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    let block: String =
        comment.filter_map(|line| line.strip_prefix("#   ")).map(|line| format!("{line}\n")).collect();
    lines(&block).iter().map(|line| doc_step(line)).collect()
}

/// Polls of the pods, and the interval between them: four minutes in total.
const POLLS_MAX: usize = 1200;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs pages against servers that they start.
pub struct DocTester {
    kubectl: PathBuf,
    folder: TempDir,
    plane: Option<EmbeddedServer>,
}

impl DocTester {
    /// Prepares a directory with kubectl, muster and the examples.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub fn new(kubectl: &Path) -> Result<DocTester, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().map_err(|e| e.to_string())?;
        for (what, name) in [(root.join("examples"), "examples"), (binary()?, "muster")] {
            std::os::unix::fs::symlink(what, folder.path().join(name)).map_err(|e| e.to_string())?;
        }
        std::os::unix::fs::symlink(kubectl, folder.path().join("kubectl")).map_err(|e| e.to_string())?;
        Ok(DocTester { kubectl: kubectl.to_owned(), folder, plane: None })
    }

    /// Runs a page. Before each server stops, all its pods must be running or succeeded.
    ///
    /// # Errors
    /// The command that failed, or the pods that do not run.
    pub fn run_page(&mut self, page: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
        for deed in doc_steps(&text) {
            self.perform(&deed).map_err(|e| format!("{}: {e}", page.display()))?;
        }
        self.finish()
    }

    fn perform(&mut self, deed: &DocStep) -> Result<(), String> {
        match deed {
            DocStep::Up(args) => {
                self.finish()?;
                self.plane = Some(self.start(args)?);
                Ok(())
            }
            DocStep::Shell(line) => self.shell(line),
            DocStep::Example(name) => self.example(name),
            DocStep::LeftOut(line, reason) => {
                note(&not_run(line, reason));
                Ok(())
            }
        }
    }

    fn start(&self, args: &[String]) -> Result<EmbeddedServer, String> {
        let root = self.folder.path().display().to_string();
        let args: Vec<String> =
            args.iter().map(|arg| arg.replace("examples/", &format!("{root}/examples/"))).collect();
        EmbeddedServer::start(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Runs an example. An example that starts its own server does so beside the server of the page.
    fn example(&mut self, name: &str) -> Result<(), String> {
        if let Some((name, reason)) = EXAMPLES_LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
            note(&not_run(name, reason));
            return Ok(());
        }
        let path = self.folder.path().join("examples").join(name);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let commands = commands_of_example(&text);
        let own = commands.iter().any(|it| matches!(it, DocStep::Up(_)));
        let of_page = if own { self.plane.take() } else { None };
        for command in &commands {
            self.perform(command).map_err(|e| format!("{name}: {e}"))?;
        }
        if own {
            self.finish().map_err(|e| format!("{name}: {e}"))?;
            self.plane = of_page;
        }
        Ok(())
    }

    fn shell(&self, line: &str) -> Result<(), String> {
        let mut command = Command::new("sh");
        let path = format!("{}:{}", self.folder.path().display(), std::env::var("PATH").unwrap_or_default());
        command.args(["-c", line]).current_dir(self.folder.path()).env("PATH", path);
        match &self.plane {
            Some(plane) => command.env("KUBECONFIG", plane.kubeconfig()),
            None => command.env_remove("KUBECONFIG"),
        };
        let output = command.output().map_err(|e| format!("{line}: {e}"))?;
        let printed = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        if output.status.success() { Ok(()) } else { Err(format!("`{line}` failed: {printed}")) }
    }

    /// Waits until all pods of the current server are running or succeeded, then stops the server.
    ///
    /// # Errors
    /// The pods that are neither.
    pub fn finish(&mut self) -> Result<(), String> {
        let Some(plane) = self.plane.take() else { return Ok(()) };
        let mut bad = Vec::new();
        for _ in 0..POLLS_MAX {
            bad = self.unhealthy_pods(&plane)?;
            // A failed pod stays failed.
            if bad.is_empty() || bad.iter().any(|it| it.contains("Failed")) {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        if bad.is_empty() { Ok(()) } else { Err(format!("these do not run: {}", bad.join("; "))) }
    }

    /// Returns the pods that are neither running nor succeeded, with their status.
    fn unhealthy_pods(&self, plane: &EmbeddedServer) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(plane.kubeconfig()).args(["get", "pods", "-A", "--output", "json"]);
        let output = command.output().map_err(|e| e.to_string())?;
        let list = Tree::parse(&output.stdout).map_err(|e| e.to_string())?;
        let phase = |pod: &Tree| pod.str_at(&["status", "phase"]).to_owned();
        let is_well = |pod: &&Tree| {
            matches!(phase(pod).as_str(), "Running" | "Succeeded")
                || pod.at(&["metadata", "deletionTimestamp"]).is_some()
        };
        let describe = |pod: &Tree| {
            let status = pod.at(&["status"]).map(Tree::to_json).unwrap_or_default();
            format!("{} is {}: {status}", pod.str_at(&["metadata", "name"]), phase(pod))
        };
        Ok(list.items_at(&["items"]).iter().filter(|pod| !is_well(pod)).map(describe).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_commands_are_found() {
        let text = "a\n```sh\none\ntwo\n```\n```text\nno\n```\n  ```sh\n  three\n  ```\n";
        assert_eq!(blocks(text), Ok(vec!["one\ntwo\n".to_owned(), "three\n".to_owned()]));
        assert_eq!(blocks("\n```sh\na\n"), Err(2));
    }

    #[test]
    fn the_steps_of_a_page_are_in_order() {
        let text = "Try `muster run -f\nexamples/a.yaml` and `muster why`.\n```sh\ncargo run --release -- up --ephemeral\n\
                    kubectl get x \\\n  -o wide   # all of it\n```\n[`b`](../../examples/b.yaml) or [b](examples/b.txt)\n";
        let shell = |line: &str| DocStep::Shell(line.to_owned());
        assert_eq!(
            doc_steps(text),
            [
                shell("muster run -f examples/a.yaml"),
                DocStep::Up(vec!["--ephemeral".to_owned()]),
                shell("kubectl get x -o wide"),
                DocStep::Example("b.yaml".to_owned()),
            ]
        );
        let example = "# Words.\n#   muster up --ephemeral --nodes n\n#   kubectl apply -f x\nkind: Pod\n#   not this\n";
        let want = [
            DocStep::Up(["--ephemeral", "--nodes", "n"].map(str::to_owned).to_vec()),
            shell("kubectl apply -f x"),
        ];
        assert_eq!(commands_of_example(example), want);
    }

    #[test]
    fn commands_outside_of_sh_blocks_are_found() {
        let text = "```sh\nkubectl a\n```\n```text\n$ muster b\n```\n  ```text\n  kubectl c\n  d\n  ```\n";
        assert_eq!(commands_outside_of_scripts(text), ["kubectl c"]);
    }

    #[test]
    fn skipped_commands_have_a_reason() {
        let text = "```sh\nmuster install --image x\nkubectl get pods\n```\n";
        let reason = "needs a cluster; covered by the tests of `install`";
        let left_out = DocStep::LeftOut("muster install --image x".to_owned(), reason);
        assert_eq!(doc_steps(text), [left_out, DocStep::Shell("kubectl get pods".to_owned())]);
        assert_eq!(runnable_lines("a b\nc d\n", &[("a", "why")]), "c d\n");
    }
}
