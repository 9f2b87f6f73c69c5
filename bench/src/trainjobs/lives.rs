//! Lifecycles of TrainJobs, or of their JobSets, from one watch.
//!
//! Events are searched, not read: every cycle of this process is one that those under measurement do not get. Only the
//! event of a finished object is parsed, for the timestamps stored in it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::time::Time;
use muster_api::train::consts::conditions;
use muster_tree::Tree;

use super::objects::{ROOT, SETS_ROOT, number};
use crate::client::Target;

/// How long to wait before a watch is opened again.
const WATCH_AGAIN: Duration = Duration::from_millis(200);

/// Something that is seen of an object, once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Made,
    Suspended,
    Resumed,
    Complete,
    Failed,
    Gone,
}
const MARKS: usize = 6;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    TrainJobs,
    JobSets,
}

impl Of {
    fn path(self) -> String {
        match self {
            Of::TrainJobs => format!("{ROOT}/trainjobs"),
            Of::JobSets => format!("{SETS_ROOT}/jobsets"),
        }
    }

    /// How it shows in the JSON of an object, whose keys are sorted.
    fn shows(self) -> &'static [(Mark, &'static str)] {
        match self {
            Of::TrainJobs => &[
                (Mark::Suspended, r#""status":"True","type":"Suspended""#),
                (Mark::Resumed, r#""status":"False","type":"Suspended""#),
                (Mark::Complete, r#""status":"True","type":"Complete""#),
                (Mark::Failed, r#""status":"True","type":"Failed""#),
            ],
            Of::JobSets => &[
                (Mark::Suspended, r#""suspend":true"#),
                (Mark::Resumed, r#""suspend":false"#),
                (Mark::Complete, r#""status":"True","type":"Completed""#),
            ],
        }
    }
}

/// What is known of one of them.
#[derive(Clone, Default)]
pub struct Life {
    at: [Option<Time>; MARKS],
    /// When it was made, as it is stored.
    pub created: Option<Time>,
    /// When it ended, as it is stored.
    pub ended: Option<Time>,
}

impl Life {
    /// When this was seen first.
    pub fn at(&self, mark: Mark) -> Option<Time> {
        self.at[mark as usize]
    }
}

#[derive(Default)]
struct State {
    lives: Vec<Life>,
    counts: [usize; MARKS],
    /// The revision that the watch has reached.
    revision: Option<String>,
}

pub struct Lives {
    of: Of,
    state: Mutex<State>,
    news: Condvar,
}

impl Lives {
    /// Begins to watch so many. The watch ends with its server.
    pub fn follow(target: &Target, of: Of, count: usize) -> Arc<Lives> {
        let lives = Arc::new(Lives::new(of, count));
        let (target, shared) = (target.clone(), lives.clone());
        let (open, opened) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // A server may end a watch; a new one goes on where it ended.
            while let Ok(mut connection) = target.connect() {
                let from = shared.state().revision.clone().map(|at| format!("&resourceVersion={at}"));
                let call = format!("GET {}?watch=1{}", of.path(), from.unwrap_or_default());
                let request = target.request(&call, "", b"");
                let _ = connection.watch(&request, || _ = open.send(()), |event| shared.hear(event, now()));
                std::thread::sleep(WATCH_AGAIN);
            }
        });
        opened.recv().expect("the watch opens");
        lives
    }

    fn new(of: Of, count: usize) -> Lives {
        let lives = vec![Life::default(); count];
        Lives { of, state: Mutex::new(State { lives, ..State::default() }), news: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles an event; returns whether the watch continues.
    fn hear(&self, event: &[u8], now: Time) -> bool {
        let event = std::str::from_utf8(event).unwrap_or_default();
        let mut state = self.state();
        if event.starts_with(r#"{"type":"ERROR""#) {
            state.revision = None;
            return false;
        }
        state.revision = revision(event).or(state.revision.take());
        let Some(id) = number(event).filter(|id| *id < state.lives.len()) else { return true };
        if event.starts_with(r#"{"type":"DELETED""#) {
            state.mark(id, Mark::Gone, now);
        } else {
            state.mark(id, Mark::Made, now);
            for (mark, text) in self.of.shows() {
                if state.lives[id].at(*mark).is_none() && event.contains(text) {
                    state.mark(id, *mark, now);
                    if self.of == Of::TrainJobs && matches!(mark, Mark::Complete | Mark::Failed) {
                        state.lives[id].read(event);
                    }
                }
            }
        }
        self.news.notify_all();
        true
    }

    /// Waits until so many have this mark; whether that came in time.
    pub fn until(&self, mark: Mark, count: usize, limit: Duration) -> bool {
        let met = |state: &mut State| state.counts[mark as usize] < count;
        let (_state, waited) =
            self.news.wait_timeout_while(self.state(), limit, met).unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }

    /// How many have this mark.
    pub fn count(&self, mark: Mark) -> usize {
        self.state().counts[mark as usize]
    }

    /// All lives as they are now.
    pub fn all(&self) -> Vec<Life> {
        self.state().lives.clone()
    }
}

impl State {
    fn mark(&mut self, id: usize, mark: Mark, now: Time) {
        let at = &mut self.lives[id].at[mark as usize];
        self.counts[mark as usize] += usize::from(at.is_none());
        at.get_or_insert(now);
    }
}

impl Life {
    /// Reads the times that are stored in a TrainJob that has ended.
    fn read(&mut self, event: &str) {
        let event = Tree::parse(event.as_bytes()).unwrap_or_default();
        self.created = Time::of(event.at(&["object", "metadata", "creationTimestamp"]));
        let ends = [conditions::COMPLETE, conditions::FAILED];
        let mut all = event.items_at(&["object", "status", "conditions"]).iter();
        let end = all.find(|it| ends.contains(&it.str_at(&["type"])) && it.str_at(&["status"]) == "True");
        self.ended = Time::of(end.and_then(|it| it.at(&["lastTransitionTime"])));
    }
}

/// The revision of an event: that of its object comes before any other.
fn revision(event: &str) -> Option<String> {
    const BEGIN: &str = "\"resourceVersion\":\"";
    let from = event.find(BEGIN)? + BEGIN.len();
    event[from..].split('"').next().map(str::to_owned)
}

/// The wall clock, which due times are compared with.
pub fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn event(kind: &str, conditions: &[(&str, &str)]) -> Vec<u8> {
        let one = |(kind, status): &(&str, &str)| tree!({"type": *kind, "status": *status, "lastTransitionTime": "2026-01-01T00:00:07Z"});
        let metadata = tree!({"name": "train-000001", "creationTimestamp": "2026-01-01T00:00:00Z",
            "resourceVersion": "7"});
        let status = tree!({"conditions": Tree::list(conditions.iter().map(one))});
        // The type comes first on the wire.
        let object = tree!({"metadata": metadata, "status": status}).to_json();
        format!(r#"{{"type":"{kind}","object":{object}}}"#).into_bytes()
    }

    #[test]
    fn each_mark_keeps_the_time_at_which_it_was_seen_first() {
        let lives = Lives::new(Of::TrainJobs, 2);
        type Heard<'a> = (i64, &'a str, &'a [(&'a str, &'a str)]);
        let heard: [Heard<'_>; 5] = [
            (1, "ADDED", &[]),
            (2, "MODIFIED", &[("Suspended", "True")]),
            (3, "MODIFIED", &[("Suspended", "False")]),
            (4, "MODIFIED", &[("Suspended", "False"), ("Complete", "True")]),
            (5, "DELETED", &[("Suspended", "False"), ("Complete", "True")]),
        ];
        for (at, kind, conditions) in heard {
            assert!(lives.hear(&event(kind, conditions), Time(at)));
        }
        let life = &lives.all()[1];
        let marks = [Mark::Made, Mark::Suspended, Mark::Resumed, Mark::Complete, Mark::Failed, Mark::Gone];
        let times = marks.map(|mark| life.at(mark).map(|at| at.0));
        assert_eq!(times, [Some(1), Some(2), Some(3), Some(4), None, Some(5)]);
        assert_eq!(life.ended.zip(life.created).map(|(end, made)| end.since(made).as_secs()), Some(7));
        assert_eq!((lives.count(Mark::Gone), lives.count(Mark::Failed)), (1, 0));
        assert!(lives.until(Mark::Gone, 1, Duration::ZERO) && !lives.until(Mark::Gone, 2, Duration::ZERO));
    }

    #[test]
    fn a_watch_goes_on_where_it_ended_unless_that_is_forgotten() {
        let lives = Lives::new(Of::TrainJobs, 2);
        assert!(lives.hear(&event("ADDED", &[]), Time(1)));
        assert_eq!(lives.state().revision.as_deref(), Some("7"));
        assert!(!lives.hear(br#"{"type":"ERROR","object":{"code":410}}"#, Time(2)));
        assert_eq!(lives.state().revision, None);
    }
}
