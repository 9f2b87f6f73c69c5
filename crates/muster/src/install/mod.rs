//! `muster install`: installs or upgrades the operator on a cluster.
//!
//! # Guarantees
//!
//! - Nothing is written unless a dry run shows that the user may write all of it.
//! - Installing the same version twice changes nothing; fields that the operator manages in its objects are preserved.
//! - Only objects with our label are pruned, with a UID precondition. CRDs and namespaces are never deleted.
//!
//! # Deliberately absent
//!
//! Waiting for the Deployment: use `kubectl rollout status`.

mod apply;
mod cluster_client;
mod conflicts;
mod prune;

use std::io;
use std::path::PathBuf;

use muster_api::client::ApiError;
use muster_install::{Options, manifests};
use muster_operator::OptionalComponents;
use muster_operator::cluster_runtime::{ClusterRuntime, ClusterRuntimeError};
use muster_operator::config;
use muster_tree::{Tree, tree};

use self::apply::AppliedObject;
use self::cluster_client::InstallClient;
use crate::cli::{InstallFlags, Output};

/// The oldest supported server. `matchConditions` of webhooks are beta there and may be disabled, which the dry run
/// detects.
const OLDEST: (u32, u32) = (1, 29);

/// Nothing, or not all, was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("reading {path}: {source}", path = path.display())]
    Config { path: PathBuf, source: io::Error },
    /// The configuration file is invalid.
    #[error("configuration {path}: {problem}", path = path.display())]
    Wrong { path: PathBuf, problem: String },
    #[error(transparent)]
    Runtime(#[from] ClusterRuntimeError),
    /// The server is older than [`OLDEST`].
    #[error(
        "the server is Kubernetes {0}.{1}, and the webhooks of Muster need {major}.{minor} or newer (matchConditions)",
        major = OLDEST.0,
        minor = OLDEST.1
    )]
    TooOld(u32, u32),
    /// Another controller reconciles the same kinds.
    #[error(
        "another controller of JobSets, queues or TrainJobs runs on this cluster: {0}. Two of them would both make the Jobs of every JobSet and the JobSet of every TrainJob, or give away the same quota\n\nhint: `--take-over` stops it (`kubectl scale … --replicas=0`) and goes on; its JobSets, TrainJobs and jobs keep running"
    )]
    Conflict(String),
    /// The Deployment of the other controller was scaled to zero, but its pods did not terminate in time.
    #[error("{0} was told to stop, and still has pods\n\nhint: look at them, and install again")]
    ConflictRunning(String),
    /// RBAC denies some of the writes.
    #[error(
        "this user may not install Muster; nothing was changed. The server says:\n{0}\n\nhint: install as an administrator of the cluster, or give one what `muster install --dry-run -o yaml` prints"
    )]
    Forbidden(String),
    #[error(
        "{object}: {problem}\n\nhint: objects applied before it are kept; fix this and run `muster install` again"
    )]
    Refused {
        /// The object as kubectl names it.
        object: String,
        /// The message of the server.
        problem: String,
    },
    /// The server drops `matchConditions`, so the webhooks would be called for every write.
    #[error(
        "the server drops `matchConditions` of {0}: it would ask Muster about every write\n\nhint: turn the feature gate AdmissionWebhookMatchConditions of the API server on, which it is by default"
    )]
    MatchConditionsDropped(String),
    /// Training runtimes were not written, because their validating webhook did not answer.
    #[error(
        "all is written but runtimes that an operator would have to judge first, and none answers:\n{0}\n\nhint: install again when the operator is ready, see `kubectl -n {1} rollout status deployment/muster-operator`"
    )]
    NotValidated(String, String),
    /// A CRD was written but is not established.
    #[error("{0} is not established; the server says: {1}")]
    NotServed(String, String),
    #[error("stopped; install again to complete it")]
    Stopped,
}

impl InstallError {
    fn refused(object: &str, why: &ApiError) -> InstallError {
        InstallError::Refused { object: object.to_owned(), problem: why.message() }
    }
}

/// Installs, or prints the manifests.
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
    let mut away = ClusterRuntime::connect(flags.kubeconfig.as_deref())?;
    let api = away.api().clone();
    let tell: &dyn Fn(&AppliedObject) = &|done| {
        if flags.output.is_none() {
            print(&format!("{done}\n"));
        }
    };
    let rivals =
        ConflictPolicy { queues: options.queues, training: options.training, take_over: flags.take_over };
    let work = install(&api, &all, rivals, tell);
    let done = away.until_signal(work).ok_or(InstallError::Stopped)??;
    if let Some(output) = flags.output {
        print(&summary(&done, output));
    }
    check_not_validated(&done, &options.namespace)
}

/// An error if training runtimes could not be written.
fn check_not_validated(done: &[AppliedObject], namespace: &str) -> Result<(), InstallError> {
    let left: Vec<String> =
        done.iter().filter(|it| it.result == apply::NOT_VALIDATED).map(|it| format!("  {it}")).collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(InstallError::NotValidated(left.join("\n"), namespace.to_owned()))
    }
}

fn options(flags: &InstallFlags) -> Result<Options, InstallError> {
    let usual = Options::default();
    let (config, parts, training) = match &flags.config {
        None => (usual.config, OptionalComponents::default(), config::TrainJobConfig::default()),
        Some(path) => {
            let wrong = |source| InstallError::Config { path: path.clone(), source };
            let text = std::fs::read_to_string(path).map_err(wrong)?;
            // The operator exits when its configuration is invalid. Check it here: otherwise its webhooks would be registered
            // with nothing behind them, and reject every write.
            let file = config::parse(&text, config::Command::Operator)
                .map_err(|problem| InstallError::Wrong { path: path.clone(), problem })?;
            (text, OptionalComponents::of(&file), file.config.trainjob)
        }
    };
    Ok(Options {
        namespace: flags.namespace.clone().unwrap_or(usual.namespace),
        image: flags.image.clone().unwrap_or(usual.image),
        replicas: flags.replicas.unwrap_or(usual.replicas),
        webhook_port: flags.webhook_port.unwrap_or(usual.webhook_port),
        queues: parts.queues,
        training: parts.training,
        validates_training: parts.validates_training,
        status_port: parts.status_port,
        runtimes: !flags.without_runtimes,
        runtime_registry: training.registry,
        data_cache: training.data_cache,
        config,
    })
}

/// Which other controllers conflict with this installation, and what to do about them.
#[derive(Debug, Clone, Copy, Default)]
struct ConflictPolicy {
    /// Whether other queue controllers conflict: ours is enabled.
    queues: bool,
    /// Whether other TrainJob controllers conflict: ours is enabled.
    training: bool,
    /// Scale them to zero instead of failing.
    take_over: bool,
}

async fn install(
    plane: &impl InstallClient,
    all: &[Tree],
    rivals: ConflictPolicy,
    tell: &dyn Fn(&AppliedObject),
) -> Result<Vec<AppliedObject>, InstallError> {
    let unread = |why: ApiError| InstallError::refused("the version of the server", &why);
    let (major, minor) = plane.version().await.map_err(unread)?;
    if (major, minor) < OLDEST {
        return Err(InstallError::TooOld(major, minor));
    }
    // Check permissions before scaling anything down: a failure here must leave the cluster as it was.
    apply::dry_run_all(plane, all).await?;
    let running = conflicts::find_running(plane, rivals).await?;
    if let (Some(other), false) = (running.first(), rivals.take_over) {
        return Err(InstallError::Conflict(other.to_string()));
    }
    // The other controllers stop before our objects are written, so that two never reconcile at the same time.
    conflicts::scale_down(plane, &running, tell).await?;
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

/// The manifests as text.
fn rendered(all: &[Tree], output: Output) -> String {
    match output {
        Output::Yaml => all.iter().map(|object| format!("---\n{}", object.to_yaml())).collect(),
        Output::Json => {
            let list = tree!({"apiVersion": "v1", "kind": "List", "items": Tree::list(all.iter().cloned())});
            list.to_json() + "\n"
        }
    }
}

/// The result of each object, as data.
fn summary(done: &[AppliedObject], output: Output) -> String {
    let all = tree!({"objects": Tree::list(done.iter().map(AppliedObject::tree))});
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
    use muster_api::client::{ApiObject, ApiRequest, Kind};

    use super::*;

    /// A server of this version that fails every other request.
    struct Old(u32, u32);

    impl InstallClient for Old {
        async fn version(&self) -> Result<(u32, u32), ApiError> {
            Ok((self.0, self.1))
        }

        async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
            panic!("{call:?}");
        }

        async fn dry_run(&self, _: &ApiRequest) -> Result<ApiObject, ApiError> {
            Err(ApiError::Indeterminate("it does not matter".to_owned()))
        }

        async fn list_by_labels(&self, kind: &Kind, _: &[(&str, &str)]) -> Result<Vec<ApiObject>, ApiError> {
            Err(ApiError::Indeterminate(format!("{kind:?} were asked for")))
        }
    }

    /// Shows: 2899-59.
    #[tokio::test]
    async fn servers_without_conditions_are_too_old() {
        let all = manifests(&Options::default());
        let told = async |old: Old| {
            install(&old, &all, ConflictPolicy::default(), &|_| {}).await.unwrap_err().to_string()
        };
        let said = told(Old(1, 28)).await;
        assert!(said.contains("Kubernetes 1.28") && said.contains("need 1.29 or newer"), "{said}");
        assert!(told(Old(1, 29)).await.contains("were asked for"), "this one is not");
    }

    #[test]
    fn the_operator_looks_where_it_was_installed() {
        assert_eq!(muster_cluster::DEFAULT_NAMESPACE, muster_install::names::NAMESPACE);
    }
}
