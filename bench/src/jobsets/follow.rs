//! The Jobs of a namespace, from a watch. Events are searched, not read: every cycle of this process is one
//! that those under measurement do not get.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use muster_api::consts::jobset as words;

use crate::client::Target;

const WATCH: &str = "GET /apis/batch/v1/namespaces/default/jobs?watch=1";

/// What is there now.
#[derive(Default)]
pub struct Seen {
    /// Each Job's attempt, and whether it is suspended.
    jobs: BTreeMap<String, (u32, bool)>,
    of_attempt: BTreeMap<u32, usize>,
    suspended: usize,
}

impl Seen {
    /// How many Jobs there are of an attempt of their JobSet.
    pub fn of_attempt(&self, attempt: u32) -> usize {
        self.of_attempt.get(&attempt).copied().unwrap_or(0)
    }

    /// How many Jobs are suspended.
    pub fn suspended(&self) -> usize {
        self.suspended
    }

    fn take(&mut self, event: &str) {
        let (Some(name), Some(attempt)) = (value(event, "name"), value(event, words::RESTART_ATTEMPT)) else {
            return;
        };
        if let Some((attempt, suspended)) = self.jobs.remove(name) {
            *self.of_attempt.entry(attempt).or_default() -= 1;
            self.suspended -= usize::from(suspended);
        }
        if event.starts_with(r#"{"type":"DELETED""#) {
            return;
        }
        let (attempt, suspended) = (attempt.parse().unwrap_or(0), event.contains(r#""suspend":true"#));
        self.jobs.insert(name.to_owned(), (attempt, suspended));
        *self.of_attempt.entry(attempt).or_default() += 1;
        self.suspended += usize::from(suspended);
    }
}

/// The text at the first such key: for `name` that is the Job's own, which comes before those of containers and owners.
fn value<'a>(event: &'a str, key: &str) -> Option<&'a str> {
    let from = event.find(&format!("\"{key}\":\""))? + key.len() + 4;
    event[from..].split('"').next()
}

/// A watch under way. It ends with its server.
pub struct Follow(Arc<(Mutex<Seen>, Condvar)>);

impl Follow {
    pub fn start(target: &Target) -> Follow {
        let shared = Arc::new((Mutex::new(Seen::default()), Condvar::new()));
        let (target, seen) = (target.clone(), shared.clone());
        std::thread::spawn(move || {
            let request = target.request(WATCH, "", b"");
            while let Ok(mut connection) = target.connect() {
                // A server may end a watch; a new one begins with all there is.
                let begin = || *seen.0.lock().unwrap_or_else(PoisonError::into_inner) = Seen::default();
                let _ = connection.watch(&request, begin, |event| {
                    let event = std::str::from_utf8(event).unwrap_or_default();
                    seen.0.lock().unwrap_or_else(PoisonError::into_inner).take(event);
                    seen.1.notify_all();
                    true
                });
            }
        });
        Follow(shared)
    }

    /// Waits until that is seen; when it was, if in time.
    pub fn until(&self, limit: Instant, met: impl Fn(&Seen) -> bool) -> Option<Instant> {
        let (seen, told) = &*self.0;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let left = limit.saturating_duration_since(Instant::now());
        let (_seen, waited) =
            told.wait_timeout_while(seen, left, |seen| !met(seen)).unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(Instant::now)
    }
}
