//! How a run ended, put together from what the supervisor saw; and its last words.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::clock;
use crate::files;
use crate::launch::Launch;
use crate::logs::{LogOptions, LogReader};
use crate::port::{Ended, Why};
use crate::system::processes::Gone;
use crate::system::signals;

/// The longest last words.
const MESSAGE_BYTES_MAX: u64 = 4096;
/// How much of the log stands in for missing last words.
const MESSAGE_LOG_BYTES_MAX: usize = 2048;
/// The same in lines.
const MESSAGE_LOG_LINES_MAX: u64 = 80;
/// The exit code of what could not be started.
const NOT_STARTED: i32 = 128;

/// What is known of the end so far.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct End {
    since_micros: Option<i64>,
    command: Option<(i32, Option<i32>)>,
    why: Option<Why>,
    message: Option<String>,
    lost_lines: u64,
}

impl End {
    /// The command cannot run.
    #[must_use]
    pub fn not_started(message: String) -> End {
        End {
            command: Some((NOT_STARTED, None)),
            why: Some(Why::NotStarted),
            message: Some(message),
            ..End::default()
        }
    }

    /// There is no image to run.
    #[must_use]
    pub fn no_image(why: Why, message: String) -> End {
        End { why: Some(why), ..End::not_started(message) }
    }

    /// Somebody ended it before there was anything to end.
    #[must_use]
    pub fn killed_before_it_began() -> End {
        End { command: Some((128 + signals::KILL, Some(signals::KILL))), ..End::default() }
    }

    /// The command runs.
    pub fn began(&mut self, since_micros: i64) {
        self.since_micros = Some(since_micros);
    }

    /// So many lines of its output are not in the log, and nothing there says so.
    pub fn lost(&mut self, lines: u64) {
        self.lost_lines = lines;
    }

    /// The supervisor is about to end it for this reason. The first reason counts.
    pub fn blame(&mut self, why: Why) {
        self.why.get_or_insert(why);
    }

    /// The first process told how the command ended.
    pub fn command_ended(&mut self, code: i32, signal: Option<i32>) {
        self.command.get_or_insert((code, signal));
    }

    /// The first process is gone too. If it told nothing, it was ended from outside.
    pub fn first_gone(&mut self, gone: Option<Gone>, out_of_memory: bool) {
        let killed = (128 + signals::KILL, Some(signals::KILL));
        let told = gone.map_or(killed, |gone| (gone.code, gone.signal));
        let (_, signal) = *self.command.get_or_insert(told);
        if out_of_memory && signal == Some(signals::KILL) {
            self.blame(Why::OutOfMemory);
        }
        if self.since_micros.is_none() && self.why.is_none() && signal != Some(signals::KILL) {
            *self =
                End::not_started("the container's first process ended before the command began".to_owned());
        }
    }

    fn finish(self, until_micros: i64, message: String) -> Ended {
        let (code, signal) = self.command.unwrap_or((NOT_STARTED, None));
        let why = self.why.unwrap_or(Why::Exited);
        Ended { since_micros: self.since_micros, until_micros, code, signal, why, message }
    }
}

/// Writes the end of a run down, with its last words.
///
/// # Errors
/// What the system said.
pub fn write_down(dir: &Path, launch: &Launch, end: End) -> io::Result<()> {
    let failed = end.command.is_none_or(|(code, _)| code != 0);
    let message = match &end.message {
        // What an engine said when it could not start the container is in the log.
        Some(message) if message.is_empty() => log_tail(&dir.join(files::LOG)),
        Some(message) => clip(message.clone()),
        None => last_words(dir, launch, failed),
    };
    let message = with_lost(message, end.lost_lines);
    files::write_end(dir, &end.finish(clock::now_micros(), message))
}

/// Adds what the log could not say itself.
fn with_lost(mut message: String, lines: u64) -> String {
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

fn last_words(dir: &Path, launch: &Launch, failed: bool) -> String {
    let said = read_tail(&dir.join(files::MESSAGE)).unwrap_or_default();
    if said.is_empty() && failed && launch.message_from_log { log_tail(&dir.join(files::LOG)) } else { said }
}

fn read_tail(path: &Path) -> io::Result<String> {
    // Without isolation a container may have put anything there: a pipe would be waited for without end.
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

/// Cuts text to the longest last words, between characters.
fn clip(mut text: String) -> String {
    let most = usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX);
    text.truncate(text.floor_char_boundary(most));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(code: i32, signal: Option<i32>) -> Option<Gone> {
        Some(Gone { pid: 1, code, signal })
    }

    #[test]
    fn ends() {
        let ran =
            |told: Option<(i32, Option<i32>)>| End { since_micros: Some(5), command: told, ..End::default() };
        let blamed = |why| End { since_micros: Some(5), why: Some(why), ..End::default() };
        let cases = [
            ("by itself", ran(Some((3, None))), gone(0, None), false, (3, None, Why::Exited)),
            ("by a signal", ran(Some((143, Some(15)))), gone(0, None), false, (143, Some(15), Why::Exited)),
            ("all killed", ran(None), gone(137, Some(9)), false, (137, Some(9), Why::Exited)),
            (
                "the group ran out of memory",
                ran(Some((137, Some(9)))),
                gone(0, None),
                true,
                (137, Some(9), Why::OutOfMemory),
            ),
            ("it did so and lived on", ran(Some((0, None))), gone(0, None), true, (0, None, Why::Exited)),
            (
                "the watchdog",
                blamed(Why::TooManyProcesses),
                gone(137, Some(9)),
                false,
                (137, Some(9), Why::TooManyProcesses),
            ),
            ("died too early", End::default(), gone(101, None), false, (128, None, Why::NotStarted)),
            ("killed early", End::default(), gone(137, Some(9)), false, (137, Some(9), Why::Exited)),
        ];
        for (says, mut end, gone, out_of_memory, want) in cases {
            end.first_gone(gone, out_of_memory);
            let ended = end.finish(9, String::new());
            assert_eq!((ended.code, ended.signal, ended.why), want, "{says}");
        }
    }

    #[test]
    fn lost_output_is_told() {
        let note = "7 lines of output were lost: the disk was full";
        assert_eq!(with_lost("why".into(), 0), "why");
        assert_eq!(with_lost(String::new(), 7), note);
        assert_eq!(with_lost("why".into(), 7), format!("why\n{note}"));
        let long = with_lost("ä".repeat(2048), 7);
        assert!(long.len() <= 4096 && long.ends_with(note), "{}", long.len());
    }

    #[test]
    fn words_are_cut_between_characters() {
        let text = clip("ä".repeat(4000));
        assert!(text.len() <= 4096 && text.ends_with('ä'));
    }
}
