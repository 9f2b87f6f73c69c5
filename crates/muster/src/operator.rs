//! `muster operator`: what a cluster lacks, run beside what it has.

use std::io;

use muster_api::ports::Entropy;
use muster_cluster::{Lead, LeadError};
use muster_control::Controller;
use muster_control::schedule::Schedule;

use crate::away::{Away, AwayError, End};
use crate::cli::OperatorFlags;
use crate::log;
use crate::names::{self, UnknownName};
use crate::ports::SystemEntropy;

/// The controllers that a cluster has none of its own for.
const CONTROLLERS: [&str; 1] = ["scheduler"];

/// Why `operator` ended.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// Flags.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// No connection.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// No election.
    #[error(transparent)]
    Lead(#[from] LeadError),
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

/// Stands by until it leads, then runs until a signal comes.
///
/// # Errors
/// When it could not start, or was overtaken.
pub fn run(flags: &OperatorFlags) -> Result<(), OperatorError> {
    log::start(flags.log_level, flags.log_format);
    let chosen = names::choose("controller", flags.controllers.as_deref().unwrap_or("*"), &CONTROLLERS)?;
    let all: Vec<Box<dyn Controller>> = vec![Box::new(Schedule::beside_another())];
    let controllers = all.into_iter().filter(|one| chosen.contains(one.name())).collect();
    let mut away = Away::connect(flags.kubeconfig.as_deref())?;
    let api = away.api().clone();
    let Some(lead) = away.wait(async { Lead::seek(&api, &identity()).await }) else { return Ok(()) };
    let mut lead = lead?;
    let ended = match away.wait(lead.won()) {
        None => Ok(End::Stopped),
        Some(Err(error)) => return Err(error.into()),
        Some(Ok(())) => away.run(controllers, announce, lead.lost()),
    };
    away.wait(lead.step_back());
    match ended? {
        End::Stopped => Ok(()),
        End::Crashed => Err(OperatorError::Crashed),
        End::Beside => Err(OperatorError::Overtaken),
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
