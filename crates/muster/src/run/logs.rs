//! Logs of all containers, read while they run.
//!
//! One task per container reads its runs one after the other and hands lines on. When nobody takes them, the task
//! stops reading and the server holds the rest.
//!
//! # Invariants
//!
//! - Every line of a run is handed on once, also over a broken connection and a restart: lines carry the time they
//!   were written. (A server keeps the logs of the last two runs only; who crashes faster than one can ask loses some.)
//! - At most [`LOGS_AT_ONCE_MAX`] logs are read at once; further ones wait their turn, nothing is left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use muster_api::meta;
use muster_api::pod::Phase;
use muster_api::port::{Refusal, Uid};
use muster_cluster::{KubeApi, LogOf, Piece, PieceEnd};
use muster_tree::{Text, Tree};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::run::pods::{self, Run};

/// Logs that are read at once.
pub const LOGS_AT_ONCE_MAX: usize = 256;
/// Lines that may wait to be printed.
const LINES_WAITING_MAX: usize = 1_024;
/// How often a log is asked for that is not there yet, or whose connection broke.
const TRIES_MAX: u32 = 20;
/// The pause between two tries.
const TRY_PAUSE: Duration = Duration::from_millis(250);
/// Stretches of a container's log that are told apart.
const SPANS_MAX: usize = 64;

/// What a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// A line.
    Line(String),
    /// What is drawn over what was drawn before in the same line: a progress bar, a prompt.
    Drawing(String),
    /// The last drawing stays: its line ended with it.
    Settled,
    /// The log cannot be read, and why.
    Unreadable(String),
}

/// Who says something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speaker {
    /// Namespace of the pod.
    pub namespace: Text,
    /// The pod.
    pub pod: Text,
    /// Its UID.
    pub uid: Uid,
    /// The container.
    pub container: Text,
    /// Whether it is one of several.
    pub one_of_several: bool,
}

/// Something said.
pub type Spoken = (Arc<Speaker>, Said);

/// All logs.
pub struct Logs {
    api: KubeApi,
    slots: Arc<Semaphore>,
    to: mpsc::Sender<Spoken>,
    known: BTreeMap<(Uid, Text), Known>,
    tasks: JoinSet<()>,
}

/// A container whose runs are read.
struct Known {
    /// The newest run that was handed to its task as the present one.
    attempt: i64,
    /// And as the one before.
    previous: i64,
    /// Closed when no more runs come.
    runs: Option<mpsc::UnboundedSender<Run>>,
}

impl Logs {
    /// Begins, with no log yet. What they say comes out of the receiver.
    #[must_use]
    pub fn new(api: KubeApi) -> (Logs, mpsc::Receiver<Spoken>) {
        let (to, from) = mpsc::channel(LINES_WAITING_MAX);
        let slots = Arc::new(Semaphore::new(LOGS_AT_ONCE_MAX));
        (Logs { api, slots, to, known: BTreeMap::new(), tasks: JoinSet::new() }, from)
    }

    /// Reads what of this pod's runs is not read yet.
    pub fn look_at(&mut self, pod: &Tree) {
        let uid = meta::uid(pod);
        for run in pods::runs(pod) {
            let key = (uid.clone(), run.container.clone());
            let known = match self.known.get_mut(&key) {
                Some(known) => known,
                None => {
                    let runs = self.begin(pod, &run.container);
                    self.known.entry(key).or_insert(Known { attempt: -1, previous: -1, runs: Some(runs) })
                }
            };
            // A run that was asked for while it was the present one may have been followed by the next meanwhile.
            let newest = if run.previous { &mut known.previous } else { &mut known.attempt };
            if run.attempt > *newest {
                *newest = run.attempt;
                // A task that is gone has said why.
                let _ = known.runs.as_ref().map(|runs| runs.send(run));
            }
        }
        if Phase::of(pod.str_at(&["status", "phase"])).ended() {
            self.close(&uid);
        }
    }

    /// No further runs of this pod come.
    fn close(&mut self, uid: &Uid) {
        let from = (uid.clone(), Text::new());
        let own = self.known.range_mut(from..).take_while(|((of, _), _)| of == uid);
        own.for_each(|(_, known)| known.runs = None);
    }

    /// No further runs come of any pod. Returns what has to be waited for.
    pub fn close_all(self) -> JoinSet<()> {
        self.tasks
    }

    fn begin(&mut self, pod: &Tree, container: &Text) -> mpsc::UnboundedSender<Run> {
        let speaker = Arc::new(Speaker {
            namespace: meta::namespace(pod),
            pod: meta::name(pod),
            uid: meta::uid(pod),
            container: container.clone(),
            one_of_several: pods::has_several(pod),
        });
        let (runs, mut next) = mpsc::unbounded_channel();
        let (api, slots, to) = (self.api.clone(), self.slots.clone(), self.to.clone());
        self.tasks.spawn(async move {
            let mut reader = Reader { api, speaker, to, printed: Printed::default() };
            while let Some(run) = next.recv().await {
                let Ok(_slot) = slots.acquire().await else { return };
                reader.read(&run).await;
            }
        });
        runs
    }
}

/// Reads the runs of one container.
struct Reader {
    api: KubeApi,
    speaker: Arc<Speaker>,
    to: mpsc::Sender<Spoken>,
    printed: Printed,
}

impl Reader {
    async fn read(&mut self, run: &Run) {
        let mut problem = String::new();
        for _ in 0..TRIES_MAX {
            let done = self.try_read(run).await;
            self.printed.end_span();
            match done {
                Ok(()) => return,
                // It was deleted: nobody expects more of it.
                Err(Refusal::NotFound(words)) if words.starts_with("pods ") => return,
                Err(Refusal::NotFound(words) | Refusal::Forbidden(words)) => {
                    problem = words;
                    break;
                }
                Err(other) => problem = other.words(),
            }
            tokio::time::sleep(TRY_PAUSE).await;
        }
        self.say(Said::Unreadable(problem)).await;
    }

    async fn try_read(&mut self, run: &Run) -> Result<(), Refusal> {
        let Speaker { namespace, pod, container, .. } = self.speaker.as_ref();
        let of = LogOf {
            namespace: namespace.clone(),
            pod: pod.clone(),
            container: container.clone(),
            previous: run.previous,
            follow: !run.previous,
        };
        let mut lines = self.api.log(&of).await?;
        let mut line = OpenLine::default();
        while let Some(piece) = lines.next().await.map_err(Refusal::Unknown)? {
            if let Some(said) = line.take(&piece, &mut self.printed) {
                self.say(said).await;
            }
        }
        if let Some(said) = line.close(&mut self.printed) {
            self.say(said).await;
        }
        Ok(())
    }

    async fn say(&self, said: Said) {
        // Nobody listens any more at the end of the run.
        let _ = self.to.send((self.speaker.clone(), said)).await;
    }
}

/// The line of a log that is being read: it may come in pieces.
#[derive(Debug, Default)]
struct OpenLine {
    /// When it was written, once that is known; pieces after the first have no time of their own.
    at: Option<Timestamp>,
    /// Whether its first piece was taken in.
    begun: bool,
    /// What was handed on last as a drawing.
    drawn: Option<String>,
}

impl OpenLine {
    /// What is handed on of a piece.
    fn take(&mut self, piece: &Piece, printed: &mut Printed) -> Option<Said> {
        let mut text = piece.text.as_str();
        if !self.begun {
            let (at, rest) = stamped(text);
            self.at = at.and_then(|at| at.parse().ok());
            text = rest;
        }
        match piece.end {
            // Its time may be cut in two.
            PieceEnd::Pause if !self.begun && self.at.is_none() => None,
            PieceEnd::Pause => self.draw(text, printed),
            PieceEnd::Return => {
                self.begun = true;
                self.draw(text, printed)
            }
            PieceEnd::Line | PieceEnd::Full => {
                let is_new = printed.is_new(self.at);
                let drawn = self.drawn.take();
                *self = OpenLine { begun: piece.end == PieceEnd::Full, ..OpenLine::default() };
                let stays = drawn.is_some_and(|drawn| text.is_empty() || drawn == text);
                let said = if stays { Said::Settled } else { Said::Line(text.to_owned()) };
                is_new.then_some(said)
            }
        }
    }

    /// The log ends, perhaps in the middle of the line.
    fn close(self, printed: &mut Printed) -> Option<Said> {
        let is_new = self.begun && printed.is_new(self.at);
        self.drawn.filter(|_| is_new).map(|_| Said::Settled)
    }

    fn draw(&mut self, text: &str, printed: &Printed) -> Option<Said> {
        let same = self.drawn.as_deref() == Some(text);
        if text.is_empty() || same || !printed.would_be_new(self.at) {
            return None;
        }
        self.drawn = Some(text.to_owned());
        Some(Said::Drawing(text.to_owned()))
    }
}

/// Which stretches of time of a container's log were handed on.
#[derive(Debug, Default)]
struct Printed {
    /// Those of connections that are over.
    spans: Vec<(Timestamp, Timestamp)>,
    /// That of this connection.
    now: Option<(Timestamp, Timestamp)>,
    /// Whether the last line was new: the further parts of a long line have no time of their own.
    last: bool,
}

impl Printed {
    /// Whether a line written at an instant is to be handed on.
    fn would_be_new(&self, at: Option<Timestamp>) -> bool {
        let Some(at) = at else { return self.last };
        !self.spans.iter().any(|(from, to)| (*from..=*to).contains(&at))
    }

    /// Whether a line written at an instant is to be handed on; then it counts as such. A line of which only drawings
    /// were handed on before the connection broke does not count: its end is still to come.
    fn is_new(&mut self, at: Option<Timestamp>) -> bool {
        self.last = self.would_be_new(at);
        if let Some(at) = at.filter(|_| self.last) {
            let from = self.now.map_or(at, |(from, _)| from);
            self.now = Some((from, at));
        }
        self.last
    }

    /// A connection is over.
    fn end_span(&mut self) {
        self.spans.extend(self.now.take());
        if self.spans.len() > SPANS_MAX {
            let (from, _) = self.spans.remove(0);
            self.spans[0].0 = self.spans[0].0.min(from);
        }
    }
}

/// The time in front of a line, and the line. The further parts of a long line have none.
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
        let mut printed = Printed::default();
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
        let piece = |text: String, end| Piece { text, end };
        let drawing = |text: &str| Some(Said::Drawing(text.to_owned()));
        let mut printed = Printed::default();
        let mut line = OpenLine::default();
        for (says, text, end, want) in [
            ("half a time", at[..9].to_owned(), PieceEnd::Pause, None),
            ("the time in front of the first bar", format!("{at} "), PieceEnd::Return, None),
            ("a bar that pauses", " 10%".to_owned(), PieceEnd::Pause, drawing(" 10%")),
            ("it is drawn over", " 10%".to_owned(), PieceEnd::Return, None),
            ("the next", " 20%".to_owned(), PieceEnd::Pause, drawing(" 20%")),
            ("the line ends with it", " 20%".to_owned(), PieceEnd::Line, Some(Said::Settled)),
            ("a line", format!("{at} a"), PieceEnd::Line, Some(Said::Line("a".to_owned()))),
            ("an empty one", format!("{at} "), PieceEnd::Line, Some(Said::Line(String::new()))),
            ("a prompt", format!("{at} name? "), PieceEnd::Pause, drawing("name? ")),
            ("more of it", format!("{at} name? me"), PieceEnd::Line, Some(Said::Line("name? me".to_owned()))),
            ("a long line", format!("{at} x"), PieceEnd::Full, Some(Said::Line("x".to_owned()))),
            (
                "its rest, which looks like a time",
                at.to_owned(),
                PieceEnd::Line,
                Some(Said::Line(at.to_owned())),
            ),
            ("a bar without an end", format!("{at} 5%"), PieceEnd::Return, drawing("5%")),
        ] {
            assert_eq!(line.take(&piece(text, end), &mut printed), want, "{says}");
        }
        assert_eq!(line.close(&mut printed), Some(Said::Settled));
        printed.end_span();
        let again = OpenLine::default().take(&piece(format!("{at} 5%"), PieceEnd::Return), &mut printed);
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
