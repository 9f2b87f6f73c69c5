//! `muster up`: a control plane on this machine, from start to clean stop.

use std::io;
use std::net::TcpListener;
use std::path::Path;

use muster_operator::config::{self, Command, ConfigError};
use muster_operator::log;
use muster_operator::names::{self, CONTROLLERS};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::UpFlags;
use crate::embedded::{self, Embedded, EmbeddedError};
use crate::settings::{self, Settings, SettingsError};

/// Why `up` ended.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// Flags or file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Flags or file.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// It did not start.
    #[error(transparent)]
    Start(#[from] EmbeddedError),
    /// The controllers.
    #[error(
        "the controllers ended by an error of their own, told above; all that was accepted is kept\n\nhint: start again, and report the error"
    )]
    Crashed,
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Runs until a signal comes.
///
/// # Errors
/// When it could not start.
pub fn run(flags: UpFlags) -> Result<(), UpError> {
    let mut file = config::read(flags.config.as_deref(), Command::Up)?;
    let notes = std::mem::take(&mut file.notes);
    let settings = settings::settle(flags, file, settings::data_home())?;
    log::start(settings.log_level, settings.log_format);
    settings.kept.tell(&notes);
    names::unserved(&settings.controllers, &CONTROLLERS).iter().for_each(|words| tracing::warn!("{words}"));
    let listener = embedded::listen(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&settings, listener))
}

async fn serve(settings: &Settings, listener: TcpListener) -> Result<(), UpError> {
    // Signals count from here on: a stop during the start is a stop as well.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut running = Embedded::start(settings, listener)?;
    announce(running.address(), running.kubeconfig());
    // A server that accepts work nobody does is worse than none: whoever watches over the process starts it again.
    let ended = tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        () = running.crashed() => Err(UpError::Crashed),
    };
    running.stop().await;
    ended
}

/// The line that scripts wait for goes to stdout, talk to stderr.
#[expect(clippy::print_stdout, reason = "the address is the data of this command")]
fn announce(server: &str, kubeconfig: &Path) {
    println!("muster is ready at {server}");
    eprintln!();
    eprintln!("Try, in another terminal:");
    eprintln!("  export KUBECONFIG={}", kubeconfig.display());
    eprintln!("  kubectl create job hello --image=busybox -- echo hi");
    eprintln!("  kubectl wait --for=condition=complete job/hello");
    eprintln!("  kubectl get jobs,pods -o wide");
}
