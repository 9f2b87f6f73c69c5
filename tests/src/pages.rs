//! Pages of the documentation whose commands are run: each block of `sh` in them, in order; and, played from top to
//! bottom, the commands in their sentences and the examples that they link, too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use muster_tree::Tree;
use tempfile::TempDir;

use crate::clients::note;
use crate::plane::{Plane, binary};

const BEGIN: &str = "```sh";
const END: &str = "```";

/// A page of the documentation.
#[must_use]
pub fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// The commands of a page, block by block, as they stand there.
///
/// # Errors
/// It cannot be read, or a block has no end.
pub fn commands(page: &Path) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
    blocks(&text).map_err(|line| format!("{}:{line}: this block has no end", page.display()))
}

/// The blocks of a text.
///
/// # Errors
/// The line of a block that has no end.
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

/// Lines of blocks other than `sh` that are commands: no test would run them.
#[must_use]
pub fn commands_outside_of_scripts(text: &str) -> Vec<String> {
    let blocks = text.split(END).skip(1).step_by(2).filter(|block| !block.starts_with("sh\n"));
    let lines = blocks.flat_map(|block| block.lines().skip(1)).map(str::trim);
    let is_command = |line: &&str| ["kubectl ", "muster ", "helm "].iter().any(|it| line.starts_with(it));
    lines.filter(is_command).map(str::to_owned).collect()
}

/// One thing that a page has its reader do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Start a server with these arguments of `muster up`.
    Up(Vec<String>),
    /// Run a line in a shell.
    Shell(String),
    /// Do what the comment of an example says.
    Example(String),
    /// Do something that no test can, and why.
    LeftOut(String, &'static str),
}

/// Beginnings of lines that are not run, and why.
const LEFT_OUT: [(&str, &str); 6] = [
    ("export KUBECONFIG", "the player does it"),
    ("cargo xtask", "these are the tests"),
    ("docker build", "wants a registry"),
    ("muster install", "wants a cluster; the tests of `install` run it"),
    ("python examples/", "wants Kubeflow's SDK; the tests of TrainJobs run it"),
    ("muster up --help", "prints only"),
];

/// Examples that are not played with their pages, and why.
const EXAMPLES_LEFT_OUT: [(&str, &str); 4] = [
    ("torch-allreduce.yaml", "wants PyTorch; the tests of TrainJobs run it"),
    ("train-deadline.yaml", "takes two minutes to fail; the tests of TrainJobs run it with less"),
    ("operator-config.yaml", "is no manifest"),
    ("trainjob.yaml", "is as the proposal prints it, without a command; the tests of TrainJobs run it"),
];

/// A block without the lines that begin with one of these words. Each line that is left out is noted with its reason.
#[must_use]
pub fn playable(block: &str, left_out: &[(&str, &str)]) -> String {
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
    format!("pages: not run: `{line}`: {reason}")
}

/// What a page has its reader do, in order.
#[must_use]
pub fn deeds(text: &str) -> Vec<Deed> {
    let mut all = Vec::new();
    for (at, part) in text.split("```").enumerate() {
        if at % 2 == 1 {
            let block = part.strip_prefix("sh\n").unwrap_or_default();
            all.extend(lines(block).iter().map(|line| deed(line)));
            continue;
        }
        let text = part.split_whitespace().collect::<Vec<_>>().join(" ");
        for (at, piece) in text.split('`').enumerate() {
            let is_command = ["kubectl apply -f examples/", "muster run -f examples/"]
                .iter()
                .any(|it| piece.starts_with(it));
            if at % 2 == 1 && is_command {
                all.push(deed(piece));
            }
            all.extend(linked(piece).map(Deed::Example));
        }
    }
    all.dedup();
    all
}

/// The examples that a piece of text links.
fn linked(text: &str) -> impl Iterator<Item = String> {
    text.split("/examples/").skip(1).filter_map(|rest| {
        let (name, _) = rest.split_once(".yaml)")?;
        (!name.contains(['/', ' '])).then(|| format!("{name}.yaml"))
    })
}

/// Lines of a script: those that go on are joined, comments taken off.
#[must_use]
pub fn lines(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let line = |line: &str| {
        line.split(" #").next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    joined.lines().map(line).filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

fn deed(line: &str) -> Deed {
    let line = line.replace("cargo run --release -- ", "muster ");
    if let Some((_, reason)) = LEFT_OUT.iter().find(|(start, _)| line.starts_with(start)) {
        return Deed::LeftOut(line, reason);
    }
    match line.strip_prefix("muster up") {
        Some(args) => Deed::Up(args.split_whitespace().map(str::to_owned).collect()),
        None => Deed::Shell(line),
    }
}

/// The commands in the comment at the top of an example: lines that are indented by three blanks.
#[must_use]
pub fn commands_of_example(text: &str) -> Vec<Deed> {
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    let block: String =
        comment.filter_map(|line| line.strip_prefix("#   ")).map(|line| format!("{line}\n")).collect();
    lines(&block).iter().map(|line| deed(line)).collect()
}

/// How often the pods of a server are looked at, and how long apart.
const LOOKS_MAX: usize = 1200;
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// Plays pages.
pub struct Player {
    kubectl: PathBuf,
    folder: TempDir,
    plane: Option<Plane>,
}

impl Player {
    /// With this kubectl, in a folder that has the examples in it.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(kubectl: &Path) -> Result<Player, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().map_err(|e| e.to_string())?;
        for (what, name) in [(root.join("examples"), "examples"), (binary()?, "muster")] {
            std::os::unix::fs::symlink(what, folder.path().join(name)).map_err(|e| e.to_string())?;
        }
        std::os::unix::fs::symlink(kubectl, folder.path().join("kubectl")).map_err(|e| e.to_string())?;
        Ok(Player { kubectl: kubectl.to_owned(), folder, plane: None })
    }

    /// Plays a page from top to bottom: at the end of each server all pods run, or have ended well.
    ///
    /// # Errors
    /// The line that failed, or the pods that do not run.
    pub fn play(&mut self, page: &Path) -> Result<(), String> {
        let text = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
        for deed in deeds(&text) {
            self.perform(&deed).map_err(|e| format!("{}: {e}", page.display()))?;
        }
        self.finish()
    }

    fn perform(&mut self, deed: &Deed) -> Result<(), String> {
        match deed {
            Deed::Up(args) => {
                self.finish()?;
                self.plane = Some(self.start(args)?);
                Ok(())
            }
            Deed::Shell(line) => self.shell(line),
            Deed::Example(name) => self.example(name),
            Deed::LeftOut(line, reason) => {
                note(&not_run(line, reason));
                Ok(())
            }
        }
    }

    fn start(&self, args: &[String]) -> Result<Plane, String> {
        let root = self.folder.path().display().to_string();
        let args: Vec<String> =
            args.iter().map(|arg| arg.replace("examples/", &format!("{root}/examples/"))).collect();
        Plane::start(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// An example that names a server of its own has one beside that of the page.
    fn example(&mut self, name: &str) -> Result<(), String> {
        if let Some((name, reason)) = EXAMPLES_LEFT_OUT.iter().find(|(left_out, _)| *left_out == name) {
            note(&not_run(name, reason));
            return Ok(());
        }
        let path = self.folder.path().join("examples").join(name);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let commands = commands_of_example(&text);
        let own = commands.iter().any(|it| matches!(it, Deed::Up(_)));
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
        let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
        if output.status.success() { Ok(()) } else { Err(format!("`{line}` failed: {said}")) }
    }

    /// Waits until everything on the present server runs or has ended well, and ends it.
    ///
    /// # Errors
    /// What does not.
    pub fn finish(&mut self) -> Result<(), String> {
        let Some(plane) = self.plane.take() else { return Ok(()) };
        let mut bad = Vec::new();
        for _ in 0..LOOKS_MAX {
            bad = self.not_well(&plane)?;
            // What failed does not get well.
            if bad.is_empty() || bad.iter().any(|it| it.contains("Failed")) {
                break;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        if bad.is_empty() { Ok(()) } else { Err(format!("these do not run: {}", bad.join("; "))) }
    }

    /// Pods that neither run nor have ended well, and why.
    fn not_well(&self, plane: &Plane) -> Result<Vec<String>, String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(plane.kubeconfig()).args(["get", "pods", "-A", "--output", "json"]);
        let output = command.output().map_err(|e| e.to_string())?;
        let list = Tree::parse(&output.stdout).map_err(|e| e.to_string())?;
        let phase = |pod: &Tree| pod.str_at(&["status", "phase"]).to_owned();
        let is_well = |pod: &&Tree| {
            matches!(phase(pod).as_str(), "Running" | "Succeeded")
                || pod.at(&["metadata", "deletionTimestamp"]).is_some()
        };
        let told = |pod: &Tree| {
            let status = pod.at(&["status"]).map(Tree::to_json).unwrap_or_default();
            format!("{} is {}: {status}", pod.str_at(&["metadata", "name"]), phase(pod))
        };
        Ok(list.items_at(&["items"]).iter().filter(|pod| !is_well(pod)).map(told).collect())
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
    fn a_page_is_played_in_order() {
        let text = "Try `muster run -f\nexamples/a.yaml` and `muster why`.\n```sh\ncargo run --release -- up --ephemeral\n\
                    kubectl get x \\\n  -o wide   # all of it\n```\n[`b`](../../examples/b.yaml) or [b](examples/b.txt)\n";
        let shell = |line: &str| Deed::Shell(line.to_owned());
        assert_eq!(
            deeds(text),
            [
                shell("muster run -f examples/a.yaml"),
                Deed::Up(vec!["--ephemeral".to_owned()]),
                shell("kubectl get x -o wide"),
                Deed::Example("b.yaml".to_owned()),
            ]
        );
        let example = "# Words.\n#   muster up --ephemeral --nodes n\n#   kubectl apply -f x\nkind: Pod\n#   not this\n";
        let want = [
            Deed::Up(["--ephemeral", "--nodes", "n"].map(str::to_owned).to_vec()),
            shell("kubectl apply -f x"),
        ];
        assert_eq!(commands_of_example(example), want);
    }

    #[test]
    fn commands_belong_in_scripts() {
        let text = "```sh\nkubectl a\n```\n```text\n$ muster b\n```\n  ```text\n  kubectl c\n  d\n  ```\n";
        assert_eq!(commands_outside_of_scripts(text), ["kubectl c"]);
    }

    #[test]
    fn lines_that_are_left_out_keep_their_reason() {
        let text = "```sh\nmuster install --image x\nkubectl get pods\n```\n";
        let reason = "wants a cluster; the tests of `install` run it";
        let left_out = Deed::LeftOut("muster install --image x".to_owned(), reason);
        assert_eq!(deeds(text), [left_out, Deed::Shell("kubectl get pods".to_owned())]);
        assert_eq!(playable("a b\nc d\n", &[("a", "why")]), "c d\n");
    }
}
