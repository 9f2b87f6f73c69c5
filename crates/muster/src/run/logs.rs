//! Follows the logs of all containers.
//!
//! One task per container reads its runs in order and sends lines to the display. If the display is slow, the channel
//! fills, the task stops reading, and backpressure reaches the server.
//!
//! # Guarantees
//!
//! - Every line of a run is printed once, over broken connections and restarts: the timestamps of lines show which were
//!   printed. (A kubelet keeps the logs of the last two runs only; of a container that restarts faster than requests
//!   can follow, lines are lost.)
//! - At most [`LOGS_AT_ONCE_MAX`] logs are followed at once; further containers wait for a free slot.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::client::{ApiError, Uid};
use muster_api::meta;
use muster_api::pod::PodPhase;
use muster_cluster::{KubeApi, LogChunk, LogChunkEnd, LogRequest};
use muster_tree::{Text, Tree};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::run::pods::{self, ContainerRun};

/// The upper bound of open log requests.
pub const LOGS_AT_ONCE_MAX: usize = 256;
/// The capacity of the channel to the display, in lines.
const LINES_WAITING_MAX: usize = 1_024;
/// Attempts to read a log that is not available yet, or after a broken connection.
const TRIES_MAX: u32 = 20;
/// The pause between two attempts.
const TRY_PAUSE: Duration = Duration::from_millis(250);
/// The upper bound of printed time ranges per container; older ranges are merged.
const SPANS_MAX: usize = 64;

/// A piece of log output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogOutput {
    Line(String),
    /// Output without a newline, which overwrites the previous drawing of the line: a progress bar, a prompt.
    Drawing(String),
    /// The line ended; its last drawing is its text.
    Settled,
    /// The log cannot be read, with the reason.
    Unreadable(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSource {
    /// Namespace of the pod.
    pub namespace: Text,
    pub pod: Text,
    pub uid: Uid,
    pub container: Text,
    /// Whether the pod has several containers.
    pub one_of_several: bool,
}

pub type LogEvent = (Arc<LogSource>, LogOutput);

pub struct Logs {
    api: KubeApi,
    slots: Arc<Semaphore>,
    to: mpsc::Sender<LogEvent>,
    known: BTreeMap<(Uid, Text), TailedContainer>,
    tasks: JoinSet<()>,
}

/// A container with a followed log.
struct TailedContainer {
    /// The newest run that was sent to its task as the current one.
    attempt: i64,
    /// The newest run that was sent to its task as the previous one.
    previous: i64,
    /// Dropped when no more runs are expected.
    runs: Option<mpsc::UnboundedSender<ContainerRun>>,
}

impl Logs {
    /// Log output of all containers arrives at the receiver.
    #[must_use]
    pub fn new(api: KubeApi) -> (Logs, mpsc::Receiver<LogEvent>) {
        let (to, from) = mpsc::channel(LINES_WAITING_MAX);
        let slots = Arc::new(Semaphore::new(LOGS_AT_ONCE_MAX));
        (Logs { api, slots, to, known: BTreeMap::new(), tasks: JoinSet::new() }, from)
    }

    /// Starts to follow the runs of a pod that are not followed yet.
    pub fn tail_pod(&mut self, pod: &Tree) {
        let uid = meta::uid(pod);
        for run in pods::runs(pod) {
            let key = (uid.clone(), run.container.clone());
            let known = match self.known.get_mut(&key) {
                Some(known) => known,
                None => {
                    let runs = self.begin(pod, &run.container);
                    self.known.entry(key).or_insert(TailedContainer {
                        attempt: -1,
                        previous: -1,
                        runs: Some(runs),
                    })
                }
            };
            // A run is requested both as the current and, after a restart, as the previous one: between the pod status and the
            // request the container may have restarted, and then the first request got the log of the next run. The
            // timestamps drop duplicates.
            let newest = if run.previous { &mut known.previous } else { &mut known.attempt };
            if run.attempt > *newest {
                *newest = run.attempt;
                // A task that has ended has reported why.
                let _ = known.runs.as_ref().map(|runs| runs.send(run));
            }
        }
        if PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal() {
            self.close(&uid);
        }
    }

    /// No further runs of this pod are expected.
    fn close(&mut self, uid: &Uid) {
        let from = (uid.clone(), Text::new());
        let own = self.known.range_mut(from..).take_while(|((of, _), _)| of == uid);
        own.for_each(|(_, known)| known.runs = None);
    }

    /// No further runs of any pod are expected. Returns the tasks to wait for.
    pub fn close_all(self) -> JoinSet<()> {
        self.tasks
    }

    fn begin(&mut self, pod: &Tree, container: &Text) -> mpsc::UnboundedSender<ContainerRun> {
        let speaker = Arc::new(LogSource {
            namespace: meta::namespace(pod),
            pod: meta::name(pod),
            uid: meta::uid(pod),
            container: container.clone(),
            one_of_several: pods::has_several(pod),
        });
        let (runs, mut next) = mpsc::unbounded_channel();
        let (api, slots, to) = (self.api.clone(), self.slots.clone(), self.to.clone());
        self.tasks.spawn(async move {
            let mut reader = Reader { api, speaker, to, printed: PrintedRanges::default() };
            while let Some(run) = next.recv().await {
                let Ok(_slot) = slots.acquire().await else { return };
                reader.read(&run).await;
            }
        });
        runs
    }
}

/// Reads the logs of one container.
struct Reader {
    api: KubeApi,
    speaker: Arc<LogSource>,
    to: mpsc::Sender<LogEvent>,
    printed: PrintedRanges,
}

impl Reader {
    async fn read(&mut self, run: &ContainerRun) {
        let mut problem = String::new();
        for _ in 0..TRIES_MAX {
            let done = self.try_read(run).await;
            self.printed.end_span();
            match done {
                Ok(()) => return,
                // The pod was deleted, and its log with it.
                Err(ApiError::NotFound(words)) if words.starts_with("pods ") => return,
                Err(ApiError::NotFound(words) | ApiError::Forbidden(words)) => {
                    problem = words;
                    break;
                }
                Err(other) => problem = other.message(),
            }
            tokio::time::sleep(TRY_PAUSE).await;
        }
        self.say(LogOutput::Unreadable(problem)).await;
    }

    async fn try_read(&mut self, run: &ContainerRun) -> Result<(), ApiError> {
        let LogSource { namespace, pod, container, .. } = self.speaker.as_ref();
        let of = LogRequest {
            namespace: namespace.clone(),
            pod: pod.clone(),
            container: container.clone(),
            previous: run.previous,
            follow: !run.previous,
        };
        let mut lines = self.api.log(&of).await?;
        let mut line = PartialLine::default();
        while let Some(piece) = lines.next().await.map_err(ApiError::Indeterminate)? {
            if let Some(said) = line.take(&piece, &mut self.printed) {
                self.say(said).await;
            }
        }
        if let Some(said) = line.close(&mut self.printed) {
            self.say(said).await;
        }
        Ok(())
    }

    async fn say(&self, said: LogOutput) {
        // The receiver is dropped at the end of the run.
        let _ = self.to.send((self.speaker.clone(), said)).await;
    }
}

/// The current line of a log, which may arrive in several chunks.
#[derive(Debug, Default)]
struct PartialLine {
    /// The timestamp of the line, once it has arrived; only the first chunk has one.
    at: Option<Timestamp>,
    /// Whether the first chunk, with the timestamp, was processed.
    begun: bool,
    /// The last drawing that was sent.
    drawn: Option<String>,
}

impl PartialLine {
    /// Processes a chunk and returns the output to print.
    fn take(&mut self, piece: &LogChunk, printed: &mut PrintedRanges) -> Option<LogOutput> {
        let mut text = piece.text.as_str();
        if !self.begun {
            let (at, rest) = stamped(text);
            self.at = at.and_then(|at| at.parse().ok());
            text = rest;
        }
        match piece.end {
            // The chunk may end within the timestamp: wait for the rest.
            LogChunkEnd::Pause if !self.begun && self.at.is_none() => None,
            LogChunkEnd::Pause => self.draw(text, printed),
            LogChunkEnd::Return => {
                self.begun = true;
                self.draw(text, printed)
            }
            LogChunkEnd::Line | LogChunkEnd::Full => {
                let is_new = printed.is_new(self.at);
                let drawn = self.drawn.take();
                *self = PartialLine { begun: piece.end == LogChunkEnd::Full, ..PartialLine::default() };
                let stays = drawn.is_some_and(|drawn| text.is_empty() || drawn == text);
                let said = if stays { LogOutput::Settled } else { LogOutput::Line(text.to_owned()) };
                is_new.then_some(said)
            }
        }
    }

    /// The log ended, possibly without a newline.
    fn close(self, printed: &mut PrintedRanges) -> Option<LogOutput> {
        let is_new = self.begun && printed.is_new(self.at);
        self.drawn.filter(|_| is_new).map(|_| LogOutput::Settled)
    }

    fn draw(&mut self, text: &str, printed: &PrintedRanges) -> Option<LogOutput> {
        let same = self.drawn.as_deref() == Some(text);
        if text.is_empty() || same || !printed.would_be_new(self.at) {
            return None;
        }
        self.drawn = Some(text.to_owned());
        Some(LogOutput::Drawing(text.to_owned()))
    }
}

/// The time ranges of a container's log that were printed.
#[derive(Debug, Default)]
struct PrintedRanges {
    /// Ranges of closed connections.
    spans: Vec<(Timestamp, Timestamp)>,
    /// The range of the current connection.
    now: Option<(Timestamp, Timestamp)>,
    /// Whether the last line was new. It decides for the continuation of a long line, which has no timestamp.
    last: bool,
}

impl PrintedRanges {
    /// Whether a line with this timestamp was not printed yet.
    fn would_be_new(&self, at: Option<Timestamp>) -> bool {
        let Some(at) = at else { return self.last };
        !self.spans.iter().any(|(from, to)| (*from..=*to).contains(&at))
    }

    /// Like [`Self::would_be_new`], and marks the line as printed. A line of which only drawings were printed before the
    /// connection broke is not marked, because its end is still to come.
    fn is_new(&mut self, at: Option<Timestamp>) -> bool {
        self.last = self.would_be_new(at);
        if let Some(at) = at.filter(|_| self.last) {
            let from = self.now.map_or(at, |(from, _)| from);
            self.now = Some((from, at));
        }
        self.last
    }

    /// Closes the range of a connection.
    fn end_span(&mut self) {
        self.spans.extend(self.now.take());
        if self.spans.len() > SPANS_MAX {
            let (from, _) = self.spans.remove(0);
            self.spans[0].0 = self.spans[0].0.min(from);
        }
    }
}

/// Splits the timestamp from a line. Continuations of a long line have none.
fn stamped(line: &str) -> (Option<&str>, &str) {
    let looks_like_time =
        |word: &str| word.len() >= 20 && word.as_bytes()[4] == b'-' && word.as_bytes()[10] == b'T';
    match line.split_once(' ') {
        Some((at, text)) if looks_like_time(at) => (Some(at), text),
        _ if looks_like_time(line) => (Some(line), ""),
        _ => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_new_once() {
        let at = |secs: i64| Some(Timestamp::from_second(secs).unwrap());
        let mut printed = PrintedRanges::default();
        // Asked for the first run, and the second was there already.
        assert!(
            printed.is_new(at(10)) && printed.is_new(at(11)) && printed.is_new(at(11)),
            "two at one time"
        );
        assert!(printed.is_new(None), "the rest of a long line");
        printed.end_span();
        assert!(printed.is_new(at(1)) && printed.is_new(at(2)), "the run before");
        printed.end_span();
        assert!(
            !printed.is_new(at(10)) && !printed.is_new(None) && !printed.is_new(at(11)),
            "again the second run"
        );
        assert!(printed.is_new(at(12)), "and what it said since");
        printed.end_span();
        for n in 0..3 * SPANS_MAX as i64 {
            assert!(printed.is_new(at(100 + n)));
            printed.end_span();
        }
        assert!(printed.spans.len() <= SPANS_MAX);
        assert!(!printed.is_new(at(101)) && !printed.is_new(at(12)));
    }

    #[test]
    fn bars_are_handed_on_as_they_are_drawn() {
        let at = "2026-01-02T03:04:05.123456789Z";
        let piece = |text: String, end| LogChunk { text, end };
        let drawing = |text: &str| Some(LogOutput::Drawing(text.to_owned()));
        let mut printed = PrintedRanges::default();
        let mut line = PartialLine::default();
        for (says, text, end, want) in [
            ("half a time", at[..9].to_owned(), LogChunkEnd::Pause, None),
            ("the time in front of the first bar", format!("{at} "), LogChunkEnd::Return, None),
            ("a bar that pauses", " 10%".to_owned(), LogChunkEnd::Pause, drawing(" 10%")),
            ("it is drawn over", " 10%".to_owned(), LogChunkEnd::Return, None),
            ("the next", " 20%".to_owned(), LogChunkEnd::Pause, drawing(" 20%")),
            ("the line ends with it", " 20%".to_owned(), LogChunkEnd::Line, Some(LogOutput::Settled)),
            ("a line", format!("{at} a"), LogChunkEnd::Line, Some(LogOutput::Line("a".to_owned()))),
            ("an empty one", format!("{at} "), LogChunkEnd::Line, Some(LogOutput::Line(String::new()))),
            ("a prompt", format!("{at} name? "), LogChunkEnd::Pause, drawing("name? ")),
            (
                "more of it",
                format!("{at} name? me"),
                LogChunkEnd::Line,
                Some(LogOutput::Line("name? me".to_owned())),
            ),
            ("a long line", format!("{at} x"), LogChunkEnd::Full, Some(LogOutput::Line("x".to_owned()))),
            (
                "its rest, which looks like a time",
                at.to_owned(),
                LogChunkEnd::Line,
                Some(LogOutput::Line(at.to_owned())),
            ),
            ("a bar without an end", format!("{at} 5%"), LogChunkEnd::Return, drawing("5%")),
        ] {
            assert_eq!(line.take(&piece(text, end), &mut printed), want, "{says}");
        }
        assert_eq!(line.close(&mut printed), Some(LogOutput::Settled));
        printed.end_span();
        let again =
            PartialLine::default().take(&piece(format!("{at} 5%"), LogChunkEnd::Return), &mut printed);
        assert_eq!(again, None, "over the next connection nothing comes twice");
    }

    #[test]
    fn lines_carry_their_time() {
        let at = "2026-01-02T03:04:05.123456789Z";
        for (line, want) in [
            (format!("{at} hello world"), (Some(at), "hello world")),
            (format!("{at} "), (Some(at), "")),
            (at.to_owned(), (Some(at), "")),
            ("rest of a long line".to_owned(), (None, "rest of a long line")),
            (String::new(), (None, "")),
        ] {
            assert_eq!(stamped(&line), want, "{line}");
        }
    }
}
