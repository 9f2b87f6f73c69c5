//! `muster operator`: what a cluster lacks, run beside what it has.
//!
//! # Invariants
//!
//! - Only the one in charge registers its webhooks, and it says so after the server has asked them.
//! - Whoever ends before that leaves no hooks behind that nobody answers.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use muster_api::port::Kind;
use muster_api::ports::Entropy;
use muster_apiserver::http::stop;
use muster_cluster::{Lead, LeadError};
use muster_control::Controller;
use muster_control::jobsets::{Exclusive, JobSets};
use muster_control::schedule::Schedule;
use muster_jobset::admission::Settings;

use crate::away::{Away, AwayError, End};
use crate::cli::OperatorFlags;
use crate::gates::{self, GateError};
use crate::log;
use crate::names::{self, UnknownName};
use crate::ports::SystemEntropy;
use crate::surroundings::Surroundings;
use crate::webhooks::{LiveCluster, WebhookError, Webhooks};

/// The controllers that a cluster has none of its own for.
const CONTROLLERS: [&str; 2] = ["scheduler", JOBSET];
/// The admission steps that it has none of its own for.
const ADMISSION: [&str; 1] = [JOBSET];
const JOBSET: &str = "jobset";

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

    fn controllers(&self, claims: Option<Kind>) -> Vec<Box<dyn Controller>> {
        let all: Vec<Box<dyn Controller>> = vec![
            Box::new(Schedule::beside_another()),
            Box::<Exclusive>::default(),
            Box::new(JobSets::new(self.settings.gates, claims)),
        ];
        all.into_iter().filter(|one| self.controllers.contains(one.name())).collect()
    }
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
    let Some(found) = away.wait(Surroundings::look(&api)) else { return Ok(End::Stopped) };
    let found = found.map_err(|refusal| OperatorError::Kinds(refusal.words()))?;
    if wanted.jobsets() {
        found.tell(None);
    }
    let mut webhooks = None;
    if wanted.admission.contains(JOBSET) {
        let hooks = webhooks.insert(serve(wanted, away)?);
        if let ControlFlow::Break(end) = register(hooks, away, lead, found.jobsets)? {
            return Ok(end);
        }
    }
    let ended = control(wanted, away, lead, found);
    if let Some(webhooks) = webhooks {
        away.wait(webhooks.stop());
    }
    Ok(ended?)
}

/// Registers the webhooks, unless a signal comes or another leads before the server has asked them.
fn register(
    hooks: &Webhooks,
    away: &mut Away,
    lead: &mut Lead,
    jobsets: bool,
) -> Result<ControlFlow<End>, WebhookError> {
    let api = away.api().clone();
    let (stopper, mut stop) = stop::pair();
    let quit = async {
        tokio::select! {
            () = stop.stopped() => End::Stopped,
            () = lead.lost() => End::Beside,
        }
    };
    Ok(away.wait_out(|| stopper.stop(), hooks.register(&api, jobsets, quit))?)
}

/// Runs the controllers, anew whenever device claims are called otherwise.
fn control(wanted: &Wanted, away: &mut Away, lead: &mut Lead, mut found: Surroundings) -> io::Result<End> {
    let api = away.api().clone();
    let mut tell: Option<fn(&str)> = Some(announce);
    loop {
        let (tell, mut newer) = (tell.take(), None);
        let beside = async {
            tokio::select! {
                () = lead.lost() => {}
                now = found.changed(&api), if wanted.jobsets() => newer = Some(now),
            }
        };
        let ready = move |server: &str| {
            if let Some(tell) = tell {
                tell(server);
            }
        };
        let ended = away.run(wanted.controllers(found.claims.clone()), ready, beside)?;
        let Some(now) = newer.filter(|_| ended == End::Beside) else { return Ok(ended) };
        tracing::info!(
            version = now.claims.as_ref().map(|it| it.version.as_str()),
            "device claims are served"
        );
        now.tell(found.complaint.as_ref());
        found = now;
    }
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
