//! `muster operator`: what a cluster lacks, run beside what it has.
//!
//! Of several, one is in charge and the others stand by, as does whoever was overtaken: a process ends when it is told
//! to, or cannot work at all.
//!
//! Modules that `muster up` and `muster run` share with the operator are public: the configuration file, feature gates, the
//! connection to an API server, metrics, training reports and pending Workloads.

mod aggregated;
pub mod away;
mod badge;
mod certificates;
mod charge;
pub mod config;
pub mod flags;
pub mod gangs;
pub mod gates;
pub mod log;
pub mod names;
pub mod numbers;
pub mod ports;
pub mod queues;
pub mod reports;
mod rim;
mod sockets;
mod state;
mod surroundings;
pub mod training;
pub mod visibility;
mod wanted;
mod webhooks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Part, Target};
use muster_api::ports::Entropy;
use muster_cluster::{KubeApi, Lead, LeadError};
use muster_tree::{Text, Tree, literal, tree};

use self::away::{Away, AwayError, End};
use self::charge::Charge;
use self::config::{Command, ConfigError};
use self::flags::OperatorFlags;
use self::gates::GateError;
use self::names::UnknownName;
use self::ports::SystemEntropy;
use self::queues::WrongQueues;
use self::reports::Reports;
use self::reports::heard::Heard;
use self::rim::{Asking, Rim, RimError, Shown};
use self::state::State;
pub use self::wanted::Parts;
use self::wanted::Wanted;
use self::webhooks::{Behind, WebhookError};

/// How long after an election that ended by itself the next one begins.
const STAND_AGAIN: Duration = Duration::from_secs(5);

/// How long the server may take to show the Lease to somebody who looks.
const LEASE_READ_MAX: Duration = Duration::from_secs(3);

/// Why `operator` ended.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Flags.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// The file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Gates.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Queues.
    #[error(transparent)]
    Queues(#[from] WrongQueues),
    /// Admission.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// No connection.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// No election.
    #[error(transparent)]
    Lead(#[from] LeadError),
    /// What it shows of itself.
    #[error(transparent)]
    Rim(#[from] RimError),
    /// What training tells of itself.
    #[error(
        "listening on {address} for what training tells of itself: {source}\n\nhint: choose another port with `statusServer.port` of Trainer's document in the configuration"
    )]
    Reports {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Certificates.
    #[error(
        "{0}\n\nhint: see `--certificate-lifetime`, `--authority-lifetime` and `--authority-pause`, and `webhook.certificates` of the configuration"
    )]
    Lifetimes(String),
    /// Which kinds there are.
    #[error("the server does not tell which kinds it has: {0}\n\nhint: is it still starting? start again")]
    Kinds(String),
    /// The controllers.
    #[error(
        "the controllers ended by an error of their own, told above\n\nhint: start again, and report the error"
    )]
    Crashed,
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Stands by until it leads, then works; stands by again when another leads, until a signal comes.
///
/// # Errors
/// When it could not start.
pub fn run(flags: &OperatorFlags) -> Result<(), OperatorError> {
    let file = config::read(flags.config.as_deref(), Command::Operator)?;
    let wanted = Wanted::of(flags, file, |name| std::env::var(name).ok())?;
    log::start(wanted.log_level, wanted.log_format);
    wanted.kept.tell(&wanted.notes);
    wanted.unserved().iter().for_each(|words| tracing::warn!("{words}"));
    let mut away = Away::connect(wanted.kubeconfig.as_deref())?.taking(Wanted::shares());
    let state = Arc::new(State::default());
    let name = identity();
    let _rim = show(&wanted, &state, &away, &name)?;
    let behind = serve(&wanted, &state, &away)?;
    let heard = behind.as_ref().map_or(Ok(None), |behind| hear(&wanted, &away, behind))?;
    let ended = work(&wanted, &state, &mut away, &name, behind.as_ref());
    if let Some(behind) = behind {
        state.hooks_answer(false);
        away.wait(async {
            behind.stop().await;
            if let Some(heard) = heard {
                heard.stop().await;
            }
        });
    }
    ended
}

/// Hears what training tells of itself, where that is asked for, whoever leads.
fn hear(wanted: &Wanted, away: &Away, behind: &Behind) -> Result<Option<Heard>, OperatorError> {
    let Some(hears) = wanted.hears() else { return Ok(None) };
    let (_inside, address) = (away.enter(), hears.address);
    let wrong = |source| OperatorError::Reports { address, source };
    let tls = behind.tls().map_err(WebhookError::from)?;
    let listener = sockets::bind(address).map_err(wrong)?;
    // Slots of its own: pods that tell much hold up nobody else.
    let reports = Reports::new(Arc::new(away.api().beside())).paced(hears.pace);
    let heard = Heard::start(listener, tls, &reports).map_err(wrong)?;
    tracing::info!(%address, server = hears.server, "training is heard");
    Ok(Some(heard))
}

/// Serves the webhooks behind a Service, whoever leads.
fn serve(wanted: &Wanted, state: &Arc<State>, away: &Away) -> Result<Option<Behind>, WebhookError> {
    let Some(manner) = wanted.behind() else { return Ok(None) };
    let (_inside, state) = (away.enter(), state.clone());
    state.hooks_answer(false);
    let (tally, desk) = (state.tally.clone(), state.desk.clone());
    let told = move |can| state.hooks_answer(can);
    Behind::start(away.api(), manner, wanted.deciders(), tally, &desk, told).map(Some)
}

fn work(
    wanted: &Wanted,
    state: &Arc<State>,
    away: &mut Away,
    name: &str,
    behind: Option<&Behind>,
) -> Result<(), OperatorError> {
    let mut led = false;
    loop {
        match stand(wanted, state, away, name, behind) {
            Ok(End::Stopped) => return Ok(()),
            Ok(End::Crashed) => return Err(OperatorError::Crashed),
            Ok(End::Beside) => {
                tracing::warn!(
                    "the lead is lost: another has it, or the server was away too long; standing by"
                );
                led = true;
            }
            Err(error) if is_passing(&error, led) => {
                tracing::warn!(%error, "standing by");
                if away.wait(async { tokio::time::sleep(STAND_AGAIN).await }).is_none() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whoever has led before may do all that is needed, and everybody may ask which kinds there are: the server is just away.
fn is_passing(error: &OperatorError, led: bool) -> bool {
    match error {
        OperatorError::Kinds(_) => true,
        OperatorError::Lead(_) | OperatorError::Webhook(WebhookError::Register(_)) => led,
        _ => false,
    }
}

/// Stands for election once; how it ended.
fn stand(
    wanted: &Wanted,
    state: &Arc<State>,
    away: &mut Away,
    name: &str,
    behind: Option<&Behind>,
) -> Result<End, OperatorError> {
    let api = away.api().clone();
    let seek = async { Lead::seek(&api, &wanted.namespace, name).await };
    let Some(lead) = away.wait(seek) else { return Ok(End::Stopped) };
    let mut lead = lead?;
    let ended = match away.wait(lead.won()) {
        None => Ok(End::Stopped),
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(())) => Charge { wanted, state, away, lead: &mut lead, name, behind }.run(),
    };
    away.wait(lead.step_back());
    ended
}

/// Shows the operator where that was asked for, from now on until what is returned is dropped.
fn show(wanted: &Wanted, state: &Arc<State>, away: &Away, name: &str) -> Result<Rim, RimError> {
    let _inside = away.enter();
    let api = away.api().beside();
    let namespace = Text::from(wanted.namespace.as_str());
    let lease = move || -> Asking {
        let (api, namespace) = (api.clone(), namespace.clone());
        Box::pin(async move { lease(&api, namespace).await })
    };
    Rim::start(
        wanted.shows,
        Shown { state: state.clone(), identity: name.to_owned(), lease: Box::new(lease) },
    )
}

/// The Lease as the server has it.
async fn lease(api: &KubeApi, namespace: Text) -> Tree {
    let name = literal!("muster-operator");
    let on = Target {
        kind: kinds::LEASES.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
        part: Part::Main,
    };
    let call = Call { by: literal!("muster"), on, guard: Guard::default(), act: Act::Get };
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

/// Tells this process from any other.
fn identity() -> String {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    format!("muster-{:016x}", u64::from_le_bytes(bytes))
}

/// The line that scripts wait for.
#[expect(clippy::print_stdout, reason = "that it is in charge is the data of this command")]
fn announce(server: &str) {
    println!("muster is in charge at {server}");
}
