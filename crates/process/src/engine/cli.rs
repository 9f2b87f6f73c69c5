//! Runs a short engine command and captures its output, with a timeout.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::MemfdFlags;

use super::ContainerEngine;
use crate::clock;

/// Poll interval for the exit of the command.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Maximum output, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// What it wrote.
///
/// # Errors
/// In the engine's words.
pub fn ask(engine: ContainerEngine, args: &[String], within: Duration) -> Result<String, String> {
    let said = |error: io::Error| error.to_string();
    let (mut out, mut err) = (buffer().map_err(said)?, buffer().map_err(said)?);
    let mut command = Command::new(engine.program());
    command.args(args).stdin(Stdio::null());
    command.stdout(out.try_clone().map_err(said)?).stderr(err.try_clone().map_err(said)?);
    let child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!("there is no program {:?} in PATH", engine.program()),
        _ => error.to_string(),
    })?;
    let status = wait(child, within).map_err(said)?;
    match status {
        Some(status) if status.success() => text(&mut out).map_err(said),
        Some(status) => Err(error_message(&text(&mut err).map_err(said)?, status)),
        None => Err(format!("no answer within {} s", within.as_secs())),
    }
}

/// A memfd: unlike a pipe it never fills up, and a grandchild that keeps it open does not block the reader.
fn buffer() -> io::Result<File> {
    Ok(File::from(rustix::fs::memfd_create("answer", MemfdFlags::CLOEXEC)?))
}

/// The exit status; `None` after a timeout.
fn wait(mut child: Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let until = clock::steady() + within;
    while clock::steady() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn text(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn error_message(said: &str, status: ExitStatus) -> String {
    match said.trim() {
        "" => format!("it ended with {status} and said nothing"),
        said => said.to_owned(),
    }
}
