//! The first process of a container that an engine runs: has it made, starts it, stays until it is over, removes it.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Engine, argv, name};
use crate::files::{self, Orders};
use crate::inside::Said;
use crate::inside::command::{self, Started};
use crate::launch::Pull;
use crate::port::Why;
use crate::system::channel::{self, Want};
use crate::system::processes::{self, Gone};
use crate::system::signals::{self, Sender, Signals};

/// How often we look whether a container that is being started runs.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The longest words of an engine that are told.
const WORDS_BYTES_MAX: usize = 4096;

/// Why there is no container.
enum Unmade {
    /// There is no image: why, and in words.
    NoImage(Why, String),
    /// It was not made of its image: in the engine's words.
    NotMade(String),
}

/// From the first call to the last; what to tell at the end.
///
/// # Errors
/// The container could not be made: in the engine's words.
pub fn live(
    engine: Engine,
    orders: &Orders,
    dir: &Path,
    stdin: Option<File>,
    signals: Signals,
) -> Result<Said, Option<String>> {
    let name = name(&orders.launch.id);
    let said = match make(engine, orders, dir, &name, signals) {
        Ok(signals) => follow(engine, orders, dir, stdin, signals, &name),
        Err(Unmade::NoImage(why, message)) => Ok(Said::NoImage { why, message }),
        Err(Unmade::NotMade(words)) => Err(Some(words)),
    };
    engine.remove(&name);
    said
}

/// Has the image pulled where it is missing, and the container made. Apart, since a pull that fails is tried again.
fn make(
    engine: Engine,
    orders: &Orders,
    dir: &Path,
    name: &str,
    mut signals: Signals,
) -> Result<Signals, Unmade> {
    let launch = &orders.launch;
    if !engine.has_image(&launch.image) {
        if launch.pull == Pull::Never {
            let image = &launch.image;
            let words = format!("Container image {image:?} is not present with pull policy of Never");
            return Err(Unmade::NoImage(Why::ImageAbsent, words));
        }
        signals = call(engine, argv::pull(&launch.image), dir, signals)
            .map_err(|words| Unmade::NoImage(Why::ImageNotPulled, words))?;
    }
    let create = argv::create(launch, name, &dir.join(files::MESSAGE));
    call(engine, create, dir, signals).map_err(Unmade::NotMade)
}

/// Has the engine do something that may take long: a pull takes as long as the network does.
fn call(engine: Engine, args: Vec<String>, dir: &Path, signals: Signals) -> Result<Signals, String> {
    let words = dir.join(files::ENGINE);
    let file = File::create(&words).map_err(|error| format!("{}: {error}", words.display()))?;
    let what = args.first().cloned().unwrap_or_default();
    let mut run = Command::new(engine.program());
    run.args(args);
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    let pid = command::spawn(&mut run, &[engine.program().to_owned()], &signals)?;
    let client = Started { pid, signals };
    let gone = wait(&client, |signal| signals::send(pid, signal), || true);
    match gone {
        Some(gone) if gone.code == 0 => Ok(client.signals),
        Some(gone) => Err(match fs::read_to_string(&words).unwrap_or_default().trim() {
            "" => format!("`{} {what}` ended with {} and said nothing", engine.program(), gone.code),
            said => said[said.ceil_char_boundary(said.len().saturating_sub(WORDS_BYTES_MAX))..].to_owned(),
        }),
        None => {
            processes::end_descendants();
            Err("the supervisor is gone".to_owned())
        }
    }
}

/// Starts it, and stays with it.
fn follow(
    engine: Engine,
    orders: &Orders,
    dir: &Path,
    stdin: Option<File>,
    signals: Signals,
    name: &str,
) -> Result<Said, Option<String>> {
    let argv = argv::start(engine, name, orders.launch.stdin);
    let client = command::start_with(&argv, orders, dir, stdin, signals).map_err(Some)?;
    let mut told = false;
    let forward = |signal| {
        engine.signal(name, signal);
    };
    let gone = wait(&client, forward, || {
        told = told || (engine.look(name).is_some_and(|it| it.runs) && tell_started().is_ok());
        told
    });
    let Some(gone) = gone else {
        processes::end_descendants();
        return Err(None);
    };
    let seen = engine.look(name);
    if !told && !seen.is_some_and(|it| it.ran) {
        // The engine's words are in the log.
        return Ok(Said::NotStarted { message: String::new() });
    }
    if !told {
        tell_started().map_err(|_| None)?;
    }
    if seen.is_some_and(|it| it.out_of_memory) {
        channel::send(io::stdin(), &Said::OutOfMemory, &[]).map_err(|_| None)?;
    }
    // Engines tell only the code.
    Ok(Said::Ended { code: gone.code, signal: None })
}

fn tell_started() -> io::Result<()> {
    channel::send(io::stdin(), &Said::Started { missing: Vec::new() }, &[])
}

/// Until the client has ended; `None` when the supervisor has. `settled` is asked now and then until it is.
fn wait(client: &Started, forward: impl Fn(i32), mut settled: impl FnMut() -> bool) -> Option<Gone> {
    let supervisor = io::stdin();
    let mut is_settled = false;
    loop {
        if let Some(gone) = processes::reap().into_iter().find(|gone| gone.pid == client.pid) {
            return Some(gone);
        }
        is_settled = is_settled || settled();
        let wanted = [(client.signals.as_fd(), Want::Read), (supervisor.as_fd(), Want::Read)];
        let ready = channel::wait(&wanted, (!is_settled).then_some(LOOK_EVERY)).ok()?;
        while let Some((signal, sender)) = client.signals.next_with_sender() {
            // What the terminal sent to us it sent to the client, too.
            if signal != signals::CHILD && sender == Sender::Process {
                forward(signal);
            }
        }
        if ready[1] {
            return None;
        }
    }
}
