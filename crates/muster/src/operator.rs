//! `muster operator`: what a cluster lacks, run beside what it has.
//!
//! # Invariants
//!
//! - Only the one in charge registers its webhooks, and it says so after the server has asked them.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;

use muster_api::kinds;
use muster_api::port::Kind;
use muster_api::ports::Entropy;
use muster_cluster::{Lead, LeadError, Served};
use muster_control::Controller;
use muster_control::jobsets::{Exclusive, JobSets};
use muster_control::schedule::Schedule;
use muster_jobset::admission::Settings;
use muster_tree::{Text, literal};

use crate::away::{Away, AwayError, End};
use crate::cli::OperatorFlags;
use crate::gates::{self, GateError};
use crate::log;
use crate::names::{self, UnknownName};
use crate::ports::SystemEntropy;
use crate::webhooks::{LiveCluster, WebhookError, Webhooks};

/// The controllers that a cluster has none of its own for.
const CONTROLLERS: [&str; 2] = ["scheduler", JOBSET];
/// The admission steps that it has none of its own for.
const ADMISSION: [&str; 1] = [JOBSET];
const JOBSET: &str = "jobset";
/// The versions of device claims that are understood, the best first.
const CLAIM_VERSIONS: [Text; 3] = [literal!("v1"), literal!("v1beta2"), literal!("v1beta1")];

/// Nothing waits for the definition: hooks and controllers take JobSets up as soon as there are some.
const NO_JOBSETS: &str = "this cluster does not know JobSets: the definition jobsets.jobset.x-k8s.io is missing. \
    Install it with `muster crds | kubectl apply --server-side -f -`; JobSets are taken up when it is there";

/// Why `operator` ended.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Flags.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// Gates.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Admission.
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    /// No connection.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// No election.
    #[error(transparent)]
    Lead(#[from] LeadError),
    /// Which kinds there are.
    #[error("the server does not tell which kinds it has: {0}")]
    Kinds(String),
    /// Another leads.
    #[error("another took over the lead\n\nhint: start again to stand by")]
    Overtaken,
    /// The controllers.
    #[error(
        "the controllers ended by an error of their own, told above\n\nhint: start again, and report the error"
    )]
    Crashed,
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// What was asked for.
struct Wanted {
    controllers: BTreeSet<String>,
    admission: BTreeSet<String>,
    settings: Settings,
    webhooks: SocketAddr,
}

impl Wanted {
    fn of(flags: &OperatorFlags) -> Result<Wanted, OperatorError> {
        let list = |flag: &Option<String>| flag.clone().unwrap_or_else(|| "*".to_owned());
        let chosen = gates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
        let gates = gates::jobset(&gates::with(chosen)?);
        Ok(Wanted {
            controllers: names::choose("controller", &list(&flags.controllers), &CONTROLLERS)?,
            admission: names::choose("admission step", &list(&flags.admission), &ADMISSION)?,
            settings: Settings { gates, ..Settings::default() },
            webhooks: flags.webhook_listen,
        })
    }

    /// Whether anything is to be done about JobSets.
    fn jobsets(&self) -> bool {
        self.controllers.contains(JOBSET) || self.admission.contains(JOBSET)
    }

    fn controllers(&self, served: &[Served]) -> Vec<Box<dyn Controller>> {
        let all: Vec<Box<dyn Controller>> = vec![
            Box::new(Schedule::beside_another()),
            Box::<Exclusive>::default(),
            Box::new(JobSets::new(self.settings.gates, claims(served))),
        ];
        all.into_iter().filter(|one| self.controllers.contains(one.name())).collect()
    }
}

/// How device claims are called here.
fn claims(served: &[Served]) -> Option<Kind> {
    let mut versions =
        CLAIM_VERSIONS.map(|version| Kind { version, ..kinds::RESOURCE_CLAIMS.clone() }).into_iter();
    versions.find(|kind| served.iter().any(|it| it.kind == *kind))
}

/// Stands by until it leads, then runs until a signal comes.
///
/// # Errors
/// When it could not start, or was overtaken.
pub fn run(flags: &OperatorFlags) -> Result<(), OperatorError> {
    log::start(flags.log_level, flags.log_format);
    let wanted = Wanted::of(flags)?;
    let mut away = Away::connect(flags.kubeconfig.as_deref())?;
    let api = away.api().clone();
    let Some(lead) = away.wait(async { Lead::seek(&api, &identity()).await }) else { return Ok(()) };
    let mut lead = lead?;
    let ended = match away.wait(lead.won()) {
        None => Ok(End::Stopped),
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(())) => in_charge(&wanted, &mut away, &mut lead),
    };
    away.wait(lead.step_back());
    match ended? {
        End::Stopped => Ok(()),
        End::Crashed => Err(OperatorError::Crashed),
        End::Beside => Err(OperatorError::Overtaken),
    }
}

/// Serves and registers the webhooks, then runs the controllers until a signal comes or another leads.
fn in_charge(wanted: &Wanted, away: &mut Away, lead: &mut Lead) -> Result<End, OperatorError> {
    let api = away.api().clone();
    let Some(served) = away.wait(api.served()) else { return Ok(End::Stopped) };
    let served = served.map_err(|refusal| OperatorError::Kinds(refusal.words()))?;
    if !served.iter().any(|it| it.kind == kinds::JOBSETS) && wanted.jobsets() {
        tracing::warn!("{NO_JOBSETS}");
    }
    let mut webhooks = None;
    if wanted.admission.contains(JOBSET) {
        let hooks = webhooks.insert(serve(wanted, away)?);
        match away.wait(hooks.register(&api, &served)) {
            None => return Ok(End::Stopped),
            Some(registered) => registered.map_err(WebhookError::from)?,
        }
    }
    let ended = away.run(wanted.controllers(&served), announce, lead.lost());
    if let Some(webhooks) = webhooks {
        away.wait(webhooks.stop());
    }
    Ok(ended?)
}

fn serve(wanted: &Wanted, away: &Away) -> Result<Webhooks, WebhookError> {
    let _inside = away.enter();
    let live = Box::new(LiveCluster::new(away.api()));
    Webhooks::start(wanted.webhooks, live, wanted.settings)
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
