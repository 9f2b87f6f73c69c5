//! Builds the exit record of a run, including the termination message.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::clock;
use crate::container_config::ContainerConfig;
use crate::logs::{LogOptions, LogReader};
use crate::run_files;
use crate::runtime::{ExitReason, ExitRecord};
use crate::system::processes::ChildExit;
use crate::system::signals;

/// Maximum termination message, as in Kubernetes.
const MESSAGE_BYTES_MAX: u64 = 4096;
/// Maximum bytes of the log as termination message (FallbackToLogsOnError).
const MESSAGE_LOG_BYTES_MAX: usize = 2048;
/// Maximum lines of the log as termination message.
const MESSAGE_LOG_LINES_MAX: u64 = 80;
/// Exit code of a command that could not be started.
const NOT_STARTED: i32 = 128;

/// The exit record as far as it is known.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ExitRecordBuilder {
    since_micros: Option<i64>,
    command: Option<(i32, Option<i32>)>,
    why: Option<ExitReason>,
    message: Option<String>,
    lost_lines: u64,
}

impl ExitRecordBuilder {
    /// The command cannot run.
    #[must_use]
    pub fn not_started(message: String) -> ExitRecordBuilder {
        ExitRecordBuilder {
            command: Some((NOT_STARTED, None)),
            why: Some(ExitReason::NotStarted),
            message: Some(message),
            ..ExitRecordBuilder::default()
        }
    }

    /// The image is missing.
    #[must_use]
    pub fn image_unavailable(why: ExitReason, message: String) -> ExitRecordBuilder {
        ExitRecordBuilder { why: Some(why), ..ExitRecordBuilder::not_started(message) }
    }

    /// Killed before the command was started.
    #[must_use]
    pub fn killed_before_start() -> ExitRecordBuilder {
        ExitRecordBuilder {
            command: Some((128 + signals::KILL, Some(signals::KILL))),
            ..ExitRecordBuilder::default()
        }
    }

    pub fn command_started(&mut self, since_micros: i64) {
        self.since_micros = Some(since_micros);
    }

    /// Log lines that were dropped without a note in the log.
    pub fn lost(&mut self, lines: u64) {
        self.lost_lines = lines;
    }

    /// Sets the reason for which the supervisor kills it. The first reason wins.
    pub fn set_reason(&mut self, why: ExitReason) {
        self.why.get_or_insert(why);
    }

    /// The init process reported the exit of the command.
    pub fn command_ended(&mut self, code: i32, signal: Option<i32>) {
        self.command.get_or_insert((code, signal));
    }

    /// The init process has exited. Without a report of the command's exit it was killed.
    pub fn init_exited(&mut self, child_exit: Option<ChildExit>, out_of_memory: bool) {
        let killed = (128 + signals::KILL, Some(signals::KILL));
        let told = child_exit.map_or(killed, |child_exit| (child_exit.code, child_exit.signal));
        let (_, signal) = *self.command.get_or_insert(told);
        if out_of_memory && signal == Some(signals::KILL) {
            self.set_reason(ExitReason::OutOfMemory);
        }
        if self.since_micros.is_none() && self.why.is_none() && signal != Some(signals::KILL) {
            *self = ExitRecordBuilder::not_started(
                "the container's first process ended before the command began".to_owned(),
            );
        }
    }

    fn finish(self, until_micros: i64, message: String) -> ExitRecord {
        let (code, signal) = self.command.unwrap_or((NOT_STARTED, None));
        let why = self.why.unwrap_or(ExitReason::Exited);
        ExitRecord { since_micros: self.since_micros, until_micros, code, signal, why, message }
    }
}

/// Writes the exit record with the termination message.
pub fn write_exit_record(dir: &Path, launch: &ContainerConfig, end: ExitRecordBuilder) -> io::Result<()> {
    let failed = end.command.is_none_or(|(code, _)| code != 0);
    let message = match &end.message {
        // If an engine failed to start the container, its error is in the log.
        Some(message) if message.is_empty() => log_tail(&dir.join(run_files::LOG)),
        Some(message) => clip(message.clone()),
        None => termination_message(dir, launch, failed),
    };
    let message = with_dropped_lines(message, end.lost_lines);
    run_files::write_exit_record(dir, &end.finish(clock::now_micros(), message))
}

/// Appends the number of dropped log lines.
fn with_dropped_lines(mut message: String, lines: u64) -> String {
    if lines == 0 {
        return message;
    }
    let says = format!("{lines} lines of output were lost: the disk was full");
    let most = usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX) - says.len() - 1;
    message.truncate(message.floor_char_boundary(most));
    if !message.is_empty() && !message.ends_with('\n') {
        message.push('\n');
    }
    message + &says
}

fn termination_message(dir: &Path, launch: &ContainerConfig, failed: bool) -> String {
    let said = read_tail(&dir.join(run_files::MESSAGE)).unwrap_or_default();
    if said.is_empty() && failed && launch.message_from_log {
        log_tail(&dir.join(run_files::LOG))
    } else {
        said
    }
}

fn read_tail(path: &Path) -> io::Result<String> {
    // Without isolation a container may have replaced the file by a FIFO, which would block the open.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let mut file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let length = found.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MESSAGE_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(clip(String::from_utf8_lossy(&bytes).into_owned()))
}

fn log_tail(dir: &Path) -> String {
    let options = LogOptions { tail_lines: Some(MESSAGE_LOG_LINES_MAX), ..LogOptions::default() };
    let Ok(mut reader) = LogReader::open(dir, options) else { return String::new() };
    let mut all = Vec::new();
    while let Ok(Some(bytes)) = reader.next_bytes() {
        all.extend_from_slice(&bytes);
        let over = all.len().saturating_sub(MESSAGE_LOG_BYTES_MAX);
        all.drain(..over);
    }
    clip(String::from_utf8_lossy(&all).into_owned())
}

/// Truncates to the maximum message at a character boundary.
fn clip(mut text: String) -> String {
    let most = usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX);
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child_exit(code: i32, signal: Option<i32>) -> Option<ChildExit> {
        Some(ChildExit { pid: 1, code, signal })
    }

    #[test]
    fn exit_records() {
        let ran = |told: Option<(i32, Option<i32>)>| ExitRecordBuilder {
            since_micros: Some(5),
            command: told,
            ..ExitRecordBuilder::default()
        };
        let blamed =
            |why| ExitRecordBuilder { since_micros: Some(5), why: Some(why), ..ExitRecordBuilder::default() };
        let cases = [
            ("by itself", ran(Some((3, None))), child_exit(0, None), false, (3, None, ExitReason::Exited)),
            (
                "by a signal",
                ran(Some((143, Some(15)))),
                child_exit(0, None),
                false,
                (143, Some(15), ExitReason::Exited),
            ),
            ("all killed", ran(None), child_exit(137, Some(9)), false, (137, Some(9), ExitReason::Exited)),
            (
                "the group ran out of memory",
                ran(Some((137, Some(9)))),
                child_exit(0, None),
                true,
                (137, Some(9), ExitReason::OutOfMemory),
            ),
            (
                "it did so and lived on",
                ran(Some((0, None))),
                child_exit(0, None),
                true,
                (0, None, ExitReason::Exited),
            ),
            (
                "the watchdog",
                blamed(ExitReason::TooManyProcesses),
                child_exit(137, Some(9)),
                false,
                (137, Some(9), ExitReason::TooManyProcesses),
            ),
            (
                "died too early",
                ExitRecordBuilder::default(),
                child_exit(101, None),
                false,
                (128, None, ExitReason::NotStarted),
            ),
            (
                "killed early",
                ExitRecordBuilder::default(),
                child_exit(137, Some(9)),
                false,
                (137, Some(9), ExitReason::Exited),
            ),
        ];
        for (says, mut end, child_exit, out_of_memory, want) in cases {
            end.init_exited(child_exit, out_of_memory);
            let ended = end.finish(9, String::new());
            assert_eq!((ended.code, ended.signal, ended.why), want, "{says}");
        }
    }

    #[test]
    fn dropped_lines_are_reported() {
        let note = "7 lines of output were lost: the disk was full";
        assert_eq!(with_dropped_lines("why".into(), 0), "why");
        assert_eq!(with_dropped_lines(String::new(), 7), note);
        assert_eq!(with_dropped_lines("why".into(), 7), format!("why\n{note}"));
        let long = with_dropped_lines("ä".repeat(2048), 7);
        assert!(long.len() <= 4096 && long.ends_with(note), "{}", long.len());
    }

    #[test]
    fn messages_are_truncated_at_character_boundaries() {
        let text = clip("ä".repeat(4000));
        assert!(text.len() <= 4096 && text.ends_with('ä'));
    }
}
