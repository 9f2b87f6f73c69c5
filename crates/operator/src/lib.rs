//! `muster operator`: the controllers and admission webhooks that a cluster lacks, run as a controller manager.
//!
//! Leader election lets one replica run the controllers. Standby replicas, and a leader that lost its Lease, keep serving
//! webhooks and wait for the next election; the process exits only on a signal or when it cannot start.
//!
//! Modules that `muster up` and `muster run` share with the operator are public: the configuration file, feature gates, the
//! connection to an API server, metrics, the training progress endpoint and the visibility API.

mod admin_server;
mod aggregated;
mod certificates;
pub mod cluster_runtime;
pub mod config;
mod discovery;
pub mod flags;
pub mod gates;
mod leader;
mod leader_label;
pub mod log;
pub mod metrics;
pub mod names;
mod options;
pub mod podgroup_detect;
pub mod ports;
pub mod progress_api;
pub mod queues;
mod sockets;
mod status;
pub mod training;
pub mod visibility;
mod webhooks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource};
use muster_api::environment::Entropy;
use muster_api::kinds;
use muster_cluster::{KubeApi, LeaderElectionError, LeaderElector};
use muster_tree::{Text, Tree, literal, tree};

use self::admin_server::{AdminServer, AdminServerError, AdminSources, LeaseFuture};
use self::cluster_runtime::{ClusterRuntime, ClusterRuntimeError, RunOutcome};
use self::config::{Command, ConfigError};
use self::flags::OperatorFlags;
use self::gates::GateError;
use self::leader::Leader;
use self::names::UnknownName;
use self::options::OperatorOptions;
pub use self::options::OptionalComponents;
use self::ports::SystemEntropy;
use self::progress_api::ProgressApi;
use self::progress_api::server::ProgressServer;
use self::queues::QueueConfigError;
use self::status::OperatorStatus;
use self::webhooks::{ServiceWebhookServer, WebhookError};

/// Pause between an election that failed with a transient error and the next candidacy.
const ELECTION_RETRY: Duration = Duration::from_secs(5);

/// Deadline for reading the Lease on behalf of a debug request.
const LEASE_READ_MAX: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    #[error(transparent)]
    Name(#[from] UnknownName),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Queues(#[from] QueueConfigError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Runtime(#[from] ClusterRuntimeError),
    #[error(transparent)]
    LeaderElection(#[from] LeaderElectionError),
    #[error(transparent)]
    AdminServer(#[from] AdminServerError),
    #[error(
        "listening on {address} for training progress: {source}\n\nhint: choose another port with `statusServer.port` of Trainer's document in the configuration"
    )]
    StatusServer {
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    #[error(
        "{0}\n\nhint: see `--certificate-lifetime`, `--authority-lifetime` and `--authority-pause`, and `webhook.certificates` of the configuration"
    )]
    Lifetimes(String),
    #[error("API discovery failed: {0}\n\nhint: check that the API server is healthy, then start again")]
    Discovery(String),
    #[error("the controllers crashed; the error is logged above\n\nhint: start again, and report the error")]
    Crashed,
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Waits for leadership, runs the controllers while it leads, and waits again after the Lease was lost, until a signal
/// comes.
///
/// # Errors
/// The configuration is invalid, or an address, the API server or a permission is missing at the start.
pub fn run(flags: &OperatorFlags) -> Result<(), OperatorError> {
    let file = config::read(flags.config.as_deref(), Command::Operator)?;
    let wanted = OperatorOptions::resolve(flags, file, |name| std::env::var(name).ok())?;
    log::start(wanted.log_level, wanted.log_format);
    wanted.documents.log(&wanted.warnings);
    wanted.missing_dependencies().iter().for_each(|words| tracing::warn!("{words}"));
    let mut away = ClusterRuntime::connect(wanted.kubeconfig.as_deref())?
        .with_projections(OperatorOptions::projections());
    let state = Arc::new(OperatorStatus::default());
    let name = identity();
    let _rim = start_admin_server(&wanted, &state, &away, &name)?;
    let behind = start_webhook_server(&wanted, &state, &away)?;
    let heard = behind.as_ref().map_or(Ok(None), |behind| start_progress_server(&wanted, &away, behind))?;
    let ended = run_election_loop(&wanted, &state, &mut away, &name, behind.as_ref());
    if let Some(behind) = behind {
        state.set_webhooks_ready(false);
        away.until_signal(async {
            behind.stop().await;
            if let Some(heard) = heard {
                heard.stop().await;
            }
        });
    }
    ended
}

/// Starts the progress endpoint where it is enabled. Every replica serves it, leader or not: pods reach any of them
/// through the Service.
fn start_progress_server(
    wanted: &OperatorOptions,
    away: &ClusterRuntime,
    behind: &ServiceWebhookServer,
) -> Result<Option<ProgressServer>, OperatorError> {
    let Some(hears) = wanted.status_server() else { return Ok(None) };
    let (_inside, address) = (away.enter(), hears.address);
    let wrong = |source| OperatorError::StatusServer { address, source };
    let tls = behind.tls_config().map_err(WebhookError::from)?;
    let listener = sockets::bind(address).map_err(wrong)?;
    // Separate request slots: a burst of progress reports must not delay webhooks and controllers.
    let reports =
        ProgressApi::new(Arc::new(away.api().with_separate_slots())).with_rate_limit(hears.rate_limit);
    let heard = ProgressServer::start(listener, tls, &reports).map_err(wrong)?;
    tracing::info!(%address, server = hears.server, "status server listening");
    Ok(Some(heard))
}

/// Starts the webhook server behind a Service. Every replica serves it, leader or not.
fn start_webhook_server(
    wanted: &OperatorOptions,
    state: &Arc<OperatorStatus>,
    away: &ClusterRuntime,
) -> Result<Option<ServiceWebhookServer>, WebhookError> {
    let Some(manner) = wanted.webhook_server() else { return Ok(None) };
    let (_inside, state) = (away.enter(), state.clone());
    state.set_webhooks_ready(false);
    let (tally, desk) = (state.webhook_metrics.clone(), state.desk.clone());
    let told = move |can| state.set_webhooks_ready(can);
    ServiceWebhookServer::start(away.api(), manner, wanted.admission_handlers(), tally, &desk, told).map(Some)
}

fn run_election_loop(
    wanted: &OperatorOptions,
    state: &Arc<OperatorStatus>,
    away: &mut ClusterRuntime,
    name: &str,
    behind: Option<&ServiceWebhookServer>,
) -> Result<(), OperatorError> {
    let mut led = false;
    loop {
        match run_as_candidate(wanted, state, away, name, behind) {
            Ok(RunOutcome::Stopped) => return Ok(()),
            Ok(RunOutcome::Crashed) => return Err(OperatorError::Crashed),
            Ok(RunOutcome::Cancelled) => {
                tracing::warn!("lost leader lease; standing by");
                led = true;
            }
            Err(error) if is_transient(&error, led) => {
                tracing::warn!(%error, "could not lead; standing by");
                if away.until_signal(async { tokio::time::sleep(ELECTION_RETRY).await }).is_none() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether an error is worth another candidacy.
///
/// Discovery needs no permission of its own, so its failure means that the API server is unavailable. A replica that has
/// led before has proved its RBAC permissions; before that, the same error is more likely a permission that is missing,
/// and the process exits with it.
fn is_transient(error: &OperatorError, led: bool) -> bool {
    match error {
        OperatorError::Discovery(_) => true,
        OperatorError::LeaderElection(_) | OperatorError::Webhook(WebhookError::Register(_)) => led,
        _ => false,
    }
}

/// One candidacy: acquires the Lease, runs as the leader, releases the Lease.
fn run_as_candidate(
    wanted: &OperatorOptions,
    state: &Arc<OperatorStatus>,
    away: &mut ClusterRuntime,
    name: &str,
    behind: Option<&ServiceWebhookServer>,
) -> Result<RunOutcome, OperatorError> {
    let api = away.api().clone();
    let seek = async { LeaderElector::start(&api, &wanted.namespace, name).await };
    let Some(lead) = away.until_signal(seek) else { return Ok(RunOutcome::Stopped) };
    let mut lead = lead?;
    let ended = match away.until_signal(lead.acquired()) {
        None => Ok(RunOutcome::Stopped),
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(())) => Leader {
            options: wanted,
            state,
            runtime: away,
            elector: &mut lead,
            identity: name,
            webhook_server: behind,
        }
        .run(),
    };
    away.until_signal(lead.release());
    ended
}

/// Starts the admin server (probes, metrics, debug) on the configured addresses; it serves until the result is dropped.
fn start_admin_server(
    wanted: &OperatorOptions,
    state: &Arc<OperatorStatus>,
    away: &ClusterRuntime,
    name: &str,
) -> Result<AdminServer, AdminServerError> {
    let _inside = away.enter();
    let api = away.api().with_separate_slots();
    let namespace = Text::from(wanted.namespace.as_str());
    let lease = move || -> LeaseFuture {
        let (api, namespace) = (api.clone(), namespace.clone());
        Box::pin(async move { read_lease(&api, namespace).await })
    };
    AdminServer::start(
        wanted.admin,
        AdminSources { state: state.clone(), identity: name.to_owned(), lease: Box::new(lease) },
    )
}

/// The Lease as the API server returns it, or the reason why it could not be read.
async fn read_lease(api: &KubeApi, namespace: Text) -> Tree {
    let name = literal!("muster-operator");
    let on = RequestTarget {
        kind: kinds::LEASES.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        subresource: Subresource::Main,
    };
    let call = ApiRequest {
        field_manager: literal!("muster"),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    };
    let known = tree!({"namespace": namespace, "name": name});
    match tokio::time::timeout(LEASE_READ_MAX, api.perform(&call)).await {
        Ok(Ok(lease)) => {
            let spec = ["holderIdentity", "acquireTime", "renewTime", "leaseTransitions"];
            let told = spec.iter().filter_map(|key| Some((*key, lease.tree.at(&["spec", key])?.clone())));
            known.merge(&Tree::map(told))
        }
        Ok(Err(refusal)) => known.with(&["problem"], refusal.to_string()),
        Err(_) => known.with(&["problem"], format!("no answer within {LEASE_READ_MAX:?}")),
    }
}

/// A holder identity that is unique to this process.
fn identity() -> String {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    format!("muster-{:016x}", u64::from_le_bytes(bytes))
}

/// The line on stdout that scripts wait for.
#[expect(clippy::print_stdout, reason = "the readiness line is the data of this command")]
fn announce(server: &str) {
    println!("muster is the leader at {server}");
}
