//! `--ranks N -- command`: the Job that runs a command so many times, side by side.
//!
//! Each copy is an index of one Job. It finds the others by name, and the environment is what torch's static
//! rendezvous reads. The folder one stands in and the home folder are there under their own names.

use std::path::{Path, PathBuf};

use muster_api::port::Kind;
use muster_api::words::labels;
use muster_api::{kinds, meta};
use muster_tree::{Tree, tree};

/// The port on which the first rank listens, as torch has it.
const MASTER_PORT: &str = "29500";
/// The image: on the local node a command runs with the programs of the machine.
const IMAGE: &str = "host";
/// The container.
const CONTAINER: &str = "rank";
/// What of the environment goes along.
const VARIABLES: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
    "CUDA_VISIBLE_DEVICES",
    "HF_HOME",
    "TORCH_HOME",
    "XDG_CACHE_HOME",
];
/// Names are easier to tell apart, and to say, than random letters.
const WORDS: [&str; 32] = [
    "amber", "aspen", "badger", "basil", "birch", "cedar", "clover", "comet", "coral", "crane", "delta",
    "ember", "falcon", "fern", "finch", "garnet", "hazel", "heron", "indigo", "iris", "juniper", "lark",
    "maple", "nova", "onyx", "otter", "pearl", "quartz", "raven", "sage", "topaz", "willow",
];

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Ranks {
    /// How many.
    pub count: u32,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// The home folder, if there is one.
    pub home: Option<PathBuf>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// Variables that were asked for; they win over all others.
    pub also: Vec<Variable>,
    /// Folders and files that were asked for.
    pub mounts: Vec<HostMount>,
}

/// A variable of the environment that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A folder or file of this machine, and where it is in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    /// On this machine.
    pub host: PathBuf,
    /// In the pod; absolute.
    pub path: PathBuf,
}

/// What is to be mounted is not there.
#[derive(Debug, thiserror::Error)]
#[error("--mount {host}:{path}: {host}: {source}\n\nhint: name a folder or file of this machine")]
pub struct MountError {
    host: String,
    path: String,
    source: std::io::Error,
}

impl HostMount {
    /// The same with the full path on this machine.
    ///
    /// # Errors
    /// It is not there.
    pub fn found(&self) -> Result<HostMount, MountError> {
        let HostMount { host, path } = self;
        match host.canonicalize() {
            Ok(host) => Ok(HostMount { host, path: path.clone() }),
            Err(source) => {
                let (host, path) = (host.display().to_string(), path.display().to_string());
                Err(MountError { host, path, source })
            }
        }
    }
}

/// A name for a run, by chance.
#[must_use]
pub fn name(chance: u8) -> String {
    format!("run-{}", WORDS[usize::from(chance) % WORDS.len()])
}

/// The Service and the Job for it.
#[must_use]
pub fn objects(ranks: &Ranks, name: &str) -> Vec<Tree> {
    vec![service(name), job(ranks, name)]
}

fn head(kind: &Kind, word: &str, name: &str) -> Tree {
    tree!({"apiVersion": meta::api_version(kind), "kind": word, "metadata": {"name": name}})
}

/// Headless: the name of each rank is that of its pod. Ranks look for each other before they are ready.
fn service(name: &str) -> Tree {
    let selector = tree!({}).with_key(labels::JOB_NAME, name.into());
    let spec = tree!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector});
    head(&kinds::SERVICES, "Service", name).with(&["spec"], spec)
}

fn job(ranks: &Ranks, name: &str) -> Tree {
    let folder = ranks.folder.display().to_string();
    let (volumes, mounts) = volumes(ranks);
    let command: Vec<Tree> = ranks.command.iter().map(|word| Tree::from(literal(word))).collect();
    let container = tree!({"name": CONTAINER, "image": IMAGE, "imagePullPolicy": "IfNotPresent",
        "command": Tree::list(command), "workingDir": folder, "env": Tree::list(env(ranks, name)),
        "volumeMounts": Tree::list(mounts)});
    let pod = tree!({"restartPolicy": "Never", "subdomain": name, "containers": [container],
        "volumes": Tree::list(volumes)});
    let count = i64::from(ranks.count);
    let spec = tree!({"completionMode": "Indexed", "completions": count, "parallelism": count, "backoffLimit": 0,
        "template": {"spec": pod}});
    head(&kinds::JOBS, "Job", name).with(&["spec"], spec)
}

/// The volumes of the pod, and where its container has them.
fn volumes(ranks: &Ranks) -> (Vec<Tree>, Vec<Tree>) {
    // A place that was asked for has what was asked for.
    let is_free = |path: &String| !ranks.mounts.iter().any(|it| it.path == Path::new(path));
    let folders = mounted(&ranks.folder, ranks.home.as_deref()).into_iter().filter(is_free);
    let folders = folders.enumerate().map(|(at, path)| {
        let name = format!("folder-{at}");
        (
            tree!({"name": name.as_str(), "hostPath": {"path": path.as_str(), "type": "Directory"}}),
            tree!({"name": name, "mountPath": path}),
        )
    });
    let asked = ranks.mounts.iter().enumerate().map(|(at, it)| {
        let (name, host) = (format!("mount-{at}"), it.host.display().to_string());
        (
            tree!({"name": name.as_str(), "hostPath": {"path": host}}),
            tree!({"name": name, "mountPath": it.path.display().to_string()}),
        )
    });
    folders.chain(asked).unzip()
}

fn env(ranks: &Ranks, name: &str) -> Vec<Tree> {
    let index = format!("metadata.annotations['{}']", labels::COMPLETION_INDEX);
    let plain = |name: &str, value: String| tree!({"name": name, "value": value});
    let mut all = vec![
        tree!({"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": index}}}),
        plain("WORLD_SIZE", ranks.count.to_string()),
        plain("LOCAL_RANK", "0".to_owned()),
        plain("LOCAL_WORLD_SIZE", "1".to_owned()),
        plain("MASTER_ADDR", format!("{name}-0.{name}")),
        plain("MASTER_PORT", MASTER_PORT.to_owned()),
        // Lines show when they are printed, not when the buffer is full.
        plain("PYTHONUNBUFFERED", "1".to_owned()),
    ];
    for wanted in VARIABLES {
        let found = ranks.env.iter().find(|(name, _)| name == wanted);
        all.extend(found.map(|(name, value)| plain(name, literal(value))));
    }
    all.retain(|known| ranks.also.iter().all(|it| it.name != known.str_at(&["name"])));
    for (at, it) in ranks.also.iter().enumerate() {
        // The last of several of one name counts.
        if ranks.also[at + 1..].iter().all(|later| later.name != it.name) {
            all.push(plain(&it.name, literal(&it.value)));
        }
    }
    all
}

/// The folders that must be there. One that lies inside the other comes with it; the root is nobody's folder.
pub fn mounted(folder: &Path, home: Option<&Path>) -> Vec<String> {
    let mut all: Vec<&Path> = [Some(folder), home].into_iter().flatten().collect();
    all.retain(|path| path.parent().is_some());
    all.dedup();
    let inside_other = |path: &Path| all.iter().any(|other| path != *other && path.starts_with(other));
    let needed = all.iter().filter(|path| !inside_other(path));
    needed.map(|path| path.display().to_string()).collect()
}

/// Text that means itself: `$(NAME)` would be replaced, and `$$` is one dollar sign.
fn literal(text: &str) -> String {
    if text.contains("$(") || text.contains("$$") { text.replace('$', "$$") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks() -> Ranks {
        Ranks {
            count: 4,
            command: ["sh", "-c", "echo $RANK $(hostname)"].map(str::to_owned).to_vec(),
            folder: "/srv/train".into(),
            home: Some("/home/me".into()),
            env: [("SECRET", "x"), ("PATH", "/usr/bin:/bin"), ("VIRTUAL_ENV", "/v")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            also: Vec::new(),
            mounts: Vec::new(),
        }
    }

    #[test]
    fn variables_and_folders_that_are_asked_for() {
        let variable = |name: &str, value: &str| Variable { name: name.to_owned(), value: value.to_owned() };
        let mount = |host: &str, path: &str| HostMount { host: host.into(), path: path.into() };
        let asked = Ranks {
            also: vec![variable("PATH", "/mine"), variable("A", "1"), variable("A", "$(x)")],
            mounts: vec![mount("/tmp/data", "/data"), mount("/other", "/home/me")],
            ..ranks()
        };
        let pod = job(&asked, "run-amber").at(&["spec", "template", "spec"]).cloned().unwrap();
        let container = pod.items_at(&["containers"])[0].clone();
        let values = |name: &str| -> Vec<String> {
            let all = container.items_at(&["env"]).iter().filter(|it| it.str_at(&["name"]) == name);
            all.map(|it| it.str_at(&["value"]).to_owned()).collect()
        };
        assert_eq!((values("PATH"), values("A")), (vec!["/mine".to_owned()], vec!["$$(x)".to_owned()]));
        let places: Vec<&str> =
            container.items_at(&["volumeMounts"]).iter().map(|it| it.str_at(&["mountPath"])).collect();
        assert_eq!(places, ["/srv/train", "/data", "/home/me"]);
        let hosts: Vec<&str> =
            pod.items_at(&["volumes"]).iter().map(|it| it.str_at(&["hostPath", "path"])).collect();
        assert_eq!(hosts, ["/srv/train", "/tmp/data", "/other"]);
    }

    #[test]
    fn the_job_of_four_ranks() {
        let text: Vec<String> = objects(&ranks(), "run-amber").iter().map(Tree::to_yaml).collect();
        insta::assert_snapshot!(text.join("---\n"));
    }

    #[test]
    fn folders_are_mounted_once() {
        for (folder, home, want) in [
            ("/a", Some("/b"), vec!["/a", "/b"]),
            ("/home/me/x", Some("/home/me"), vec!["/home/me"]),
            ("/home", Some("/home/me"), vec!["/home"]),
            ("/home/me", Some("/home/me"), vec!["/home/me"]),
            ("/", Some("/root"), vec!["/root"]),
            ("/a", Some("/"), vec!["/a"]),
            ("/a", None, vec!["/a"]),
        ] {
            assert_eq!(mounted(Path::new(folder), home.map(Path::new)), want, "{folder} {home:?}");
        }
    }

    #[test]
    fn text_means_itself() {
        for (text, want) in [("a $HOME", "a $HOME"), ("$(pwd) $x", "$$(pwd) $$x"), ("$$", "$$$$")] {
            assert_eq!(literal(text), want);
        }
    }
}
