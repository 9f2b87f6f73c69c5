//! `muster install`: puts the operator on a cluster, or brings it up to date.
//!
//! # Invariants
//!
//! - Nothing is written before it is known that all of it may be.
//! - Installing twice changes nothing the second time; what the operator keeps in its objects stays.
//! - What goes was installed by us: it has our label, and is deleted by its UID. Definitions and namespaces never go.
//!
//! # Deliberately absent
//!
//! Waiting for the pods: `kubectl rollout status` does.

mod apply;
mod others;
mod plane;
mod prune;

use std::io;
use std::path::PathBuf;

use muster_api::port::Refusal;
use muster_install::{Options, manifests};
use muster_tree::{Tree, tree};

use self::apply::Done;
use self::plane::Plane;
use crate::away::{Away, AwayError};
use crate::cli::{InstallFlags, Output};
use crate::config;
use crate::operator::runs_queues;

/// The oldest server whose webhooks have conditions that can be relied on.
const OLDEST: (u32, u32) = (1, 30);

/// Why nothing, or not all, was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The configuration file.
    #[error("reading {path}: {source}", path = path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What the configuration file says.
    #[error("configuration {path}: {problem}", path = path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No connection.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// A server that cannot do it.
    #[error(
        "the server is Kubernetes {0}.{1}, and the webhooks of Muster need {major}.{minor} or newer (matchConditions)",
        major = OLDEST.0,
        minor = OLDEST.1
    )]
    TooOld(u32, u32),
    /// Two controllers would work against each other.
    #[error(
        "another controller of JobSets or queues runs on this cluster: {0}. Two of them would both make the Jobs of every JobSet, or give away the same quota\n\nhint: `--take-over` stops it (`kubectl scale … --replicas=0`) and goes on; its JobSets and jobs keep running"
    )]
    Another(String),
    /// The other one does not stop.
    #[error("{0} was told to stop, and still has pods\n\nhint: look at them, and install again")]
    StillThere(String),
    /// The user may not.
    #[error(
        "this user may not install Muster; nothing was changed. The server says:\n{0}\n\nhint: install as an administrator of the cluster, or give one what `muster install --dry-run -o yaml` prints"
    )]
    Forbidden(String),
    /// The server refuses.
    #[error("{object}: {problem}\n\nhint: what was written before stays; mend this and install again")]
    Refused {
        /// What was to be written.
        object: String,
        /// What the server said.
        problem: String,
    },
    /// The definition is there but not served.
    #[error("{0} is not established; the server says: {1}")]
    NotServed(String, String),
    /// A signal.
    #[error("stopped; install again to complete it")]
    Stopped,
}

impl InstallError {
    fn refused(object: &str, why: &Refusal) -> InstallError {
        InstallError::Refused { object: object.to_owned(), problem: why.words() }
    }
}

/// Installs, or prints what would be.
///
/// # Errors
/// See [`InstallError`].
pub fn run(flags: &InstallFlags) -> Result<(), InstallError> {
    let options = options(flags)?;
    let all = manifests(&options);
    if flags.dry_run {
        print(&rendered(&all, flags.output.unwrap_or(Output::Yaml)));
        return Ok(());
    }
    let mut away = Away::connect(flags.kubeconfig.as_deref())?;
    let api = away.api().clone();
    let tell: &dyn Fn(&Done) = &|done| {
        if flags.output.is_none() {
            print(&format!("{done}\n"));
        }
    };
    let work = install(&api, &all, Rivals { queues: options.queues, take_over: flags.take_over }, tell);
    let done = away.wait(work).ok_or(InstallError::Stopped)??;
    if let Some(output) = flags.output {
        print(&summary(&done, output));
    }
    Ok(())
}

fn options(flags: &InstallFlags) -> Result<Options, InstallError> {
    let usual = Options::default();
    let (config, queues) = match &flags.config {
        None => (usual.config, usual.queues),
        Some(path) => {
            let wrong = |source| InstallError::Config { path: path.clone(), source };
            let text = std::fs::read_to_string(path).map_err(wrong)?;
            // Pods that end at once would leave webhooks that nobody answers.
            let file = config::parse(&text, config::Command::Operator)
                .map_err(|problem| InstallError::Wrong { path: path.clone(), problem })?;
            (text, runs_queues(&file))
        }
    };
    Ok(Options {
        namespace: flags.namespace.clone().unwrap_or(usual.namespace),
        image: flags.image.clone().unwrap_or(usual.image),
        replicas: flags.replicas.unwrap_or(usual.replicas),
        webhook_port: flags.webhook_port.unwrap_or(usual.webhook_port),
        queues,
        config,
    })
}

/// What is done about others who do the same.
#[derive(Debug, Clone, Copy, Default)]
struct Rivals {
    /// Whether those who run queues are among them.
    queues: bool,
    /// Whether they are stopped.
    take_over: bool,
}

async fn install(
    plane: &impl Plane,
    all: &[Tree],
    rivals: Rivals,
    tell: &dyn Fn(&Done),
) -> Result<Vec<Done>, InstallError> {
    let unread = |why: Refusal| InstallError::refused("the version of the server", &why);
    let (major, minor) = plane.version().await.map_err(unread)?;
    if (major, minor) < OLDEST {
        return Err(InstallError::TooOld(major, minor));
    }
    apply::rehearse(plane, all).await?;
    let running = others::running(plane, rivals.queues).await?;
    if let (Some(other), false) = (running.first(), rivals.take_over) {
        return Err(InstallError::Another(other.to_string()));
    }
    others::stop(plane, &running, tell).await?;
    let mut done = Vec::new();
    for object in all {
        let one = apply::apply(plane, object).await?;
        tell(&one);
        done.push(one);
    }
    for one in prune::prune(plane, all).await? {
        tell(&one);
        done.push(one);
    }
    Ok(done)
}

/// The objects as text.
fn rendered(all: &[Tree], output: Output) -> String {
    match output {
        Output::Yaml => all.iter().map(|object| format!("---\n{}", object.to_yaml())).collect(),
        Output::Json => {
            let list = tree!({"apiVersion": "v1", "kind": "List", "items": Tree::list(all.iter().cloned())});
            list.to_json() + "\n"
        }
    }
}

/// What became of each.
fn summary(done: &[Done], output: Output) -> String {
    let all = tree!({"objects": Tree::list(done.iter().map(Done::tree))});
    match output {
        Output::Yaml => all.to_yaml(),
        Output::Json => all.to_json() + "\n",
    }
}

#[expect(clippy::print_stdout, reason = "data of the command line goes to stdout")]
fn print(text: &str) {
    print!("{text}");
}

#[cfg(test)]
mod tests {
    use muster_api::port::{Call, Kind, Object};

    use super::*;

    /// A server of this version that must not be asked for more.
    struct Old(u32, u32);

    impl Plane for Old {
        async fn version(&self) -> Result<(u32, u32), Refusal> {
            Ok((self.0, self.1))
        }

        async fn perform(&self, call: &Call) -> Result<Object, Refusal> {
            panic!("{call:?}");
        }

        async fn rehearse(&self, _: &Call) -> Result<Object, Refusal> {
            Err(Refusal::Unknown("it does not matter".to_owned()))
        }

        async fn labelled(&self, kind: &Kind, _: (&str, &str)) -> Result<Vec<Object>, Refusal> {
            Err(Refusal::Unknown(format!("{kind:?} were asked for")))
        }
    }

    #[tokio::test]
    async fn servers_without_conditions_are_too_old() {
        let all = manifests(&Options::default());
        let told =
            async |old: Old| install(&old, &all, Rivals::default(), &|_| {}).await.unwrap_err().to_string();
        let said = told(Old(1, 29)).await;
        assert!(said.contains("Kubernetes 1.29") && said.contains("need 1.30 or newer"), "{said}");
        assert!(told(Old(1, 30)).await.contains("were asked for"), "this one is not");
    }

    #[test]
    fn the_operator_looks_where_it_was_installed() {
        assert_eq!(muster_cluster::NAMESPACE, muster_install::names::NAMESPACE);
    }
}
