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
use muster_operator::Parts;
use muster_operator::away::{Away, AwayError};
use muster_operator::config;
use muster_tree::{Tree, tree};

use self::apply::Done;
use self::plane::Plane;
use crate::cli::{InstallFlags, Output};

/// The oldest server that has all we need; conditions of webhooks could still be turned off there, which shows.
const OLDEST: (u32, u32) = (1, 29);

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
        "another controller of JobSets, queues or TrainJobs runs on this cluster: {0}. Two of them would both make the Jobs of every JobSet and the JobSet of every TrainJob, or give away the same quota\n\nhint: `--take-over` stops it (`kubectl scale … --replicas=0`) and goes on; its JobSets, TrainJobs and jobs keep running"
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
    /// The server does not understand when hooks are asked.
    #[error(
        "the server drops `matchConditions` of {0}: it would ask Muster about every write\n\nhint: turn the feature gate AdmissionWebhookMatchConditions of the API server on, which it is by default"
    )]
    NoConditions(String),
    /// Runtimes that nobody judges now.
    #[error(
        "all is written but runtimes that an operator would have to judge first, and none answers:\n{0}\n\nhint: install again when the operator is ready, see `kubectl -n {1} rollout status deployment/muster-operator`"
    )]
    Unjudged(String, String),
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
    let rivals = Rivals { queues: options.queues, training: options.training, take_over: flags.take_over };
    let work = install(&api, &all, rivals, tell);
    let done = away.wait(work).ok_or(InstallError::Stopped)??;
    if let Some(output) = flags.output {
        print(&summary(&done, output));
    }
    unjudged(&done, &options.namespace)
}

/// Runtimes that could not be written.
fn unjudged(done: &[Done], namespace: &str) -> Result<(), InstallError> {
    let left: Vec<String> =
        done.iter().filter(|it| it.became == apply::UNJUDGED).map(|it| format!("  {it}")).collect();
    if left.is_empty() { Ok(()) } else { Err(InstallError::Unjudged(left.join("\n"), namespace.to_owned())) }
}

fn options(flags: &InstallFlags) -> Result<Options, InstallError> {
    let usual = Options::default();
    let (config, parts, training) = match &flags.config {
        None => (usual.config, Parts::default(), config::TrainJobs::default()),
        Some(path) => {
            let wrong = |source| InstallError::Config { path: path.clone(), source };
            let text = std::fs::read_to_string(path).map_err(wrong)?;
            // Pods that end at once would leave webhooks that nobody answers.
            let file = config::parse(&text, config::Command::Operator)
                .map_err(|problem| InstallError::Wrong { path: path.clone(), problem })?;
            (text, Parts::of(&file), file.ours.trainjob)
        }
    };
    Ok(Options {
        namespace: flags.namespace.clone().unwrap_or(usual.namespace),
        image: flags.image.clone().unwrap_or(usual.image),
        replicas: flags.replicas.unwrap_or(usual.replicas),
        webhook_port: flags.webhook_port.unwrap_or(usual.webhook_port),
        queues: parts.queues,
        training: parts.training,
        judges_training: parts.judges_training,
        reports: parts.reports,
        runtimes: !flags.without_runtimes,
        runtime_registry: training.registry,
        data_cache: training.data_cache,
        config,
    })
}

/// What is done about others who do the same.
#[derive(Debug, Clone, Copy, Default)]
struct Rivals {
    /// Whether those who run queues are among them.
    queues: bool,
    /// Whether those who run TrainJobs are.
    training: bool,
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
    let running = others::running(plane, rivals).await?;
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

        async fn labelled(&self, kind: &Kind, _: &[(&str, &str)]) -> Result<Vec<Object>, Refusal> {
            Err(Refusal::Unknown(format!("{kind:?} were asked for")))
        }
    }

    /// Shows: 2899-59.
    #[tokio::test]
    async fn servers_without_conditions_are_too_old() {
        let all = manifests(&Options::default());
        let told =
            async |old: Old| install(&old, &all, Rivals::default(), &|_| {}).await.unwrap_err().to_string();
        let said = told(Old(1, 28)).await;
        assert!(said.contains("Kubernetes 1.28") && said.contains("need 1.29 or newer"), "{said}");
        assert!(told(Old(1, 29)).await.contains("were asked for"), "this one is not");
    }

    #[test]
    fn the_operator_looks_where_it_was_installed() {
        assert_eq!(muster_cluster::NAMESPACE, muster_install::names::NAMESPACE);
    }
}
