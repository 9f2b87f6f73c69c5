//! `muster up`: runs the embedded control plane until SIGINT or SIGTERM, then stops it cleanly.

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

#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The control plane did not start.
    #[error(transparent)]
    Start(#[from] EmbeddedError),
    #[error(
        "the controllers crashed; the error is logged above, and all acknowledged writes are stored\n\nhint: start again, and report the error"
    )]
    Crashed,
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Runs until SIGINT, SIGTERM or a crash of the controllers.
///
/// # Errors
/// The control plane did not start, or its controllers crashed.
pub fn run(flags: UpFlags) -> Result<(), UpError> {
    let mut file = config::read(flags.config.as_deref(), Command::Up)?;
    let notes = std::mem::take(&mut file.warnings);
    let settings = settings::resolve(flags, file, settings::data_home())?;
    log::start(settings.log_level, settings.log_format);
    settings.documents.log(&notes);
    names::missing_dependencies(&settings.controllers, &CONTROLLERS)
        .iter()
        .for_each(|words| tracing::warn!("{words}"));
    let listener = embedded::listen(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&settings, listener))
}

async fn serve(settings: &Settings, listener: TcpListener) -> Result<(), UpError> {
    // Signal handlers are installed before the start, so that a signal during the start is not lost: it stops the
    // control plane as soon as it is up.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut running = Embedded::start(settings, listener)?;
    announce(running.address(), running.kubeconfig());
    // Without its controllers the server would accept objects that nothing reconciles. The process exits, so that its
    // service manager restarts it.
    let ended = tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        () = running.crashed() => Err(UpError::Crashed),
    };
    running.stop().await;
    ended
}

/// Prints the address, which scripts wait for, to stdout, and the hints to stderr.
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
