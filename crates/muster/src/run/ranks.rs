//! `--ranks N -- command`: generates an Indexed Job that runs N copies of a command, and its headless Service.
//!
//! The ranks reach each other by pod host name, and their environment is that of torch's static rendezvous. The current
//! directory and the home directory are mounted at their own paths.

use std::path::{Path, PathBuf};

use muster_api::client::Kind;
use muster_api::consts::labels;
use muster_api::{kinds, meta};
use muster_tree::{Tree, tree};

/// The port of rank 0, torch's default.
const MASTER_PORT: &str = "29500";
/// A placeholder: the local node runs programs of the host and pulls no images.
const IMAGE: &str = "host";
const CONTAINER: &str = "rank";
/// The environment variables that are passed to the ranks. Others may be secrets, which would be stored in the Job.
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
/// Run names: words are easier to recognize in a list of pods than random characters.
const WORDS: [&str; 32] = [
    "amber", "aspen", "badger", "basil", "birch", "cedar", "clover", "comet", "coral", "crane", "delta",
    "ember", "falcon", "fern", "finch", "garnet", "hazel", "heron", "indigo", "iris", "juniper", "lark",
    "maple", "nova", "onyx", "otter", "pearl", "quartz", "raven", "sage", "topaz", "willow",
];

/// The options of `--ranks`.
#[derive(Debug, Clone)]
pub struct Ranks {
    pub count: u32,
    pub command: Vec<String>,
    pub folder: PathBuf,
    /// The home directory, if it exists.
    pub home: Option<PathBuf>,
    pub env: Vec<(String, String)>,
    /// The variables of `--env`; they take precedence over all others.
    pub extra_env: Vec<EnvVariable>,
    /// The mounts of `--mount`.
    pub mounts: Vec<HostMount>,
}

/// An environment variable of `--env`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVariable {
    pub name: String,
    pub value: String,
}

/// A directory or file of the host, and its path in the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMount {
    pub host: PathBuf,
    /// The path in the pod; absolute.
    pub path: PathBuf,
}

/// The source of a mount does not exist.
#[derive(Debug, thiserror::Error)]
#[error("--mount {host}:{path}: {host}: {source}\n\nhint: name a folder or file of this machine")]
pub struct MountError {
    host: String,
    path: String,
    source: std::io::Error,
}

impl HostMount {
    /// The mount with the canonical path of its source.
    ///
    /// # Errors
    /// The source does not exist.
    pub fn canonical(&self) -> Result<HostMount, MountError> {
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

/// The name of a run, from a random byte.
#[must_use]
pub fn name(chance: u8) -> String {
    format!("run-{}", WORDS[usize::from(chance) % WORDS.len()])
}

/// The Service and the Job.
#[must_use]
pub fn objects(ranks: &Ranks, name: &str) -> Vec<Tree> {
    vec![service(name), job(ranks, name)]
}

fn head(kind: &Kind, word: &str, name: &str) -> Tree {
    tree!({"apiVersion": meta::api_version(kind), "kind": word, "metadata": {"name": name}})
}

/// A headless Service, so that each pod host name resolves. Not-ready addresses are published, because ranks connect to
/// each other before they are ready.
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

/// The volumes and the volume mounts.
fn volumes(ranks: &Ranks) -> (Vec<Tree>, Vec<Tree>) {
    // A path of `--mount` wins over the directory that would be mounted there by default.
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
        // Without it Python buffers its output, and log lines would arrive late.
        plain("PYTHONUNBUFFERED", "1".to_owned()),
    ];
    for wanted in VARIABLES {
        let found = ranks.env.iter().find(|(name, _)| name == wanted);
        all.extend(found.map(|(name, value)| plain(name, literal(value))));
    }
    all.retain(|known| ranks.extra_env.iter().all(|it| it.name != known.str_at(&["name"])));
    for (at, it) in ranks.extra_env.iter().enumerate() {
        // Of several `--env` flags with one name the last wins.
        if ranks.extra_env[at + 1..].iter().all(|later| later.name != it.name) {
            all.push(plain(&it.name, literal(&it.value)));
        }
    }
    all
}

/// The directories to mount: current and home directory, without one that is inside the other. The root directory is
/// never mounted.
pub fn mounted(folder: &Path, home: Option<&Path>) -> Vec<String> {
    let mut all: Vec<&Path> = [Some(folder), home].into_iter().flatten().collect();
    all.retain(|path| path.parent().is_some());
    all.dedup();
    let inside_other = |path: &Path| all.iter().any(|other| path != *other && path.starts_with(other));
    let needed = all.iter().filter(|path| !inside_other(path));
    needed.map(|path| path.display().to_string()).collect()
}

/// Escapes text of a command or variable: Kubernetes expands `$(NAME)`, and reads `$$` as a dollar sign.
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
            extra_env: Vec::new(),
            mounts: Vec::new(),
        }
    }

    #[test]
    fn variables_and_folders_that_are_asked_for() {
        let variable =
            |name: &str, value: &str| EnvVariable { name: name.to_owned(), value: value.to_owned() };
        let mount = |host: &str, path: &str| HostMount { host: host.into(), path: path.into() };
        let asked = Ranks {
            extra_env: vec![variable("PATH", "/mine"), variable("A", "1"), variable("A", "$(x)")],
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
