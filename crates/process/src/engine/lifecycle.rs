//! The init process of an engine run: creates the container, starts it, waits for it, removes it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{ContainerEngine, argv, container_name};
use crate::container_config::ImagePullPolicy;
use crate::init_process::InitEvent;
use crate::init_process::command::{self, Started};
use crate::run_files::{self, SupervisorConfig};
use crate::runtime::ExitReason;
use crate::system::channel::{self, Interest};
use crate::system::processes::{self, ChildExit};
use crate::system::signals::{self, Sender, SignalReceiver};

/// Poll interval until a started container is running.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum engine error in a message, in bytes.
const WORDS_BYTES_MAX: usize = 4096;

/// Why there is no container.
enum CreateError {
    /// The image is missing: reason and message.
    NoImage(ExitReason, String),
    /// `create` failed: the engine's error.
    NotMade(String),
}

/// Runs the container from create to remove; returns the final event.
///
/// # Errors
/// The container could not be created: the engine's error.
pub fn live(
    engine: ContainerEngine,
    orders: &SupervisorConfig,
    dir: &Path,
    stdin: Option<File>,
    signals: SignalReceiver,
) -> Result<InitEvent, Option<String>> {
    let name = container_name(&orders.launch.id);
    let said = match pull_and_create(engine, orders, dir, &name, signals) {
        Ok(signals) => attach_and_wait(engine, orders, dir, stdin, signals, &name),
        Err(CreateError::NoImage(why, message)) => Ok(InitEvent::NoImage { why, message }),
        Err(CreateError::NotMade(words)) => Err(Some(words)),
    };
    // Also after errors: `create` may have succeeded before `start` failed.
    engine.remove(&name);
    said
}

/// Pulls a missing image and creates the container. Separate steps, since a failed pull is retried with backoff.
fn pull_and_create(
    engine: ContainerEngine,
    orders: &SupervisorConfig,
    dir: &Path,
    name: &str,
    mut signals: SignalReceiver,
) -> Result<SignalReceiver, CreateError> {
    let launch = &orders.launch;
    if !engine.has_image(&launch.image) {
        if launch.pull == ImagePullPolicy::Never {
            let image = &launch.image;
            let words = format!("Container image {image:?} is not present with pull policy of Never");
            return Err(CreateError::NoImage(ExitReason::ImageAbsent, words));
        }
        signals = call(engine, argv::pull(&launch.image), dir, signals)
            .map_err(|words| CreateError::NoImage(ExitReason::ImageNotPulled, words))?;
    }
    let create = argv::create(launch, name, &dir.join(run_files::MESSAGE));
    call(engine, create, dir, signals).map_err(CreateError::NotMade)
}

/// Runs an engine command without timeout: a pull takes as long as the network does.
fn call(
    engine: ContainerEngine,
    args: Vec<String>,
    dir: &Path,
    signals: SignalReceiver,
) -> Result<SignalReceiver, String> {
    let words = dir.join(run_files::ENGINE);
    let file = File::create(&words).map_err(|error| format!("{}: {error}", words.display()))?;
    let what = args.first().cloned().unwrap_or_default();
    let mut run = Command::new(engine.program());
    run.args(args);
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let pid = command::spawn(&mut run, &[engine.program().to_owned()], &signals)?;
    let client = Started { pid, signals };
    let gone = wait_for_client(&client, |signal| signals::send(pid, signal), || true);
    match gone {
        Some(gone) if gone.code == 0 => Ok(client.signals),
        Some(gone) => Err(match fs::read_to_string(&words).unwrap_or_default().trim() {
            "" => format!("`{} {what}` ended with {} and said nothing", engine.program(), gone.code),
            said => said[said.ceil_char_boundary(said.len().saturating_sub(WORDS_BYTES_MAX))..].to_owned(),
        }),
        None => {
            processes::kill_descendants();
            Err("the supervisor is gone".to_owned())
        }
    }
}

/// Starts the container and waits for its exit.
fn attach_and_wait(
    engine: ContainerEngine,
    orders: &SupervisorConfig,
    dir: &Path,
    stdin: Option<File>,
    signals: SignalReceiver,
    name: &str,
) -> Result<InitEvent, Option<String>> {
    let argv = argv::start(engine, name, orders.launch.stdin);
    let client = command::start_with(&argv, orders, dir, stdin, signals).map_err(Some)?;
    let mut told = false;
    let forward = |signal| {
        engine.signal(name, signal);
    };
    let gone = wait_for_client(&client, forward, || {
        told = told || (engine.look(name).is_some_and(|it| it.runs) && report_started().is_ok());
        told
    });
    let Some(gone) = gone else {
        processes::kill_descendants();
        return Err(None);
    };
    let seen = engine.look(name);
    // The client failed before the container ever ran.
    if !told && !seen.is_some_and(|it| it.ran) {
        // The engine's error is in the log.
        return Ok(InitEvent::NotStarted { message: String::new() });
    }
    // The container ran and exited between two polls.
    if !told {
        report_started().map_err(|_| None)?;
    }
    if seen.is_some_and(|it| it.out_of_memory) {
        channel::send(io::stdin(), &InitEvent::OutOfMemory, &[]).map_err(|_| None)?;
    }
    // Engines report only the exit code.
    Ok(InitEvent::Ended { code: gone.code, signal: None })
}

fn report_started() -> io::Result<()> {
    channel::send(io::stdin(), &InitEvent::Started { missing: Vec::new() }, &[])
}

/// Waits for the client; `None` if the supervisor is gone. Calls `settled` periodically until it returns true.
fn wait_for_client(
    client: &Started,
    forward: impl Fn(i32),
    mut settled: impl FnMut() -> bool,
) -> Option<ChildExit> {
    let supervisor = io::stdin();
    let mut is_settled = false;
    loop {
        if let Some(gone) = processes::reap().into_iter().find(|gone| gone.pid == client.pid) {
            return Some(gone);
        }
        is_settled = is_settled || settled();
        let wanted = [(client.signals.as_fd(), Interest::Read), (supervisor.as_fd(), Interest::Read)];
        let ready = channel::wait(&wanted, (!is_settled).then_some(LOOK_EVERY)).ok()?;
        while let Some((signal, sender)) = client.signals.next_with_sender() {
            // The terminal has signalled the client, too.
            if signal != signals::CHILD && sender == Sender::Process {
                forward(signal);
            }
        }
        if ready[1] {
            return None;
        }
    }
}
