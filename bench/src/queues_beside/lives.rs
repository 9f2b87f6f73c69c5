//! Lifecycles of all Workloads from one watch, and the next step of their simulated jobs.
//!
//! Nothing runs: a Workload that is admitted is finished after its time, and one that is evicted gives its quota back, as
//! its job would. Events are searched, not read: every cycle of this process is one that those under measurement do not
//! get. Only what is evicted is read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use muster_api::queue::consts::{API_VERSION, WORKLOAD, conditions, reasons};
use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::load::{Arrival, Load, NAME, Request, status_path};

/// A condition that holds, as it stands in JSON with sorted keys.
const ADMITTED: &str = r#""status":"True","type":"Admitted""#;
const EVICTED: &str = r#""status":"True","type":"Evicted""#;
const FINISHED: &str = r#""status":"True","type":"Finished""#;
const RESERVED: &str = r#""status":"True","type":"QuotaReserved""#;
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// What is known of a Workload.
#[derive(Clone, Copy, Default)]
pub struct Life {
    pub created: Option<Instant>,
    /// When it was admitted first.
    pub admitted: Option<Instant>,
    pub finished: Option<Instant>,
    /// How often it was admitted; it runs if that is so now.
    admissions: u32,
    running: bool,
}

/// What a job does. The order is that of the instants.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Deed {
    at: Instant,
    id: usize,
    what: What,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It has run to its end, if it is still this admission.
    Finish { admission: u32 },
    /// It has stopped: this patch gives back the quota.
    Release { patch: Vec<u8> },
}

/// What came of all.
#[derive(Default)]
pub struct Counts {
    pub finished: usize,
    pub admissions: usize,
    pub releases: usize,
    pub sent: usize,
    /// Those that came too late.
    pub overtaken: usize,
}

#[derive(Default)]
struct State {
    lives: Vec<Life>,
    deeds: BinaryHeap<Reverse<Deed>>,
    counts: Counts,
    over: bool,
}

/// All lifecycles, shared by the watcher and the workers.
pub struct Lives<'a> {
    load: &'a Load,
    arrivals: &'a [Arrival],
    state: Mutex<State>,
    news: Condvar,
}

impl<'a> Lives<'a> {
    pub fn new(load: &'a Load, arrivals: &'a [Arrival]) -> Lives<'a> {
        let lives = vec![Life::default(); arrivals.len()];
        Lives { load, arrivals, state: Mutex::new(State { lives, ..State::default() }), news: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a watch event; returns whether more are expected.
    pub fn hear(&self, event: &[u8]) -> bool {
        let event = std::str::from_utf8(event).unwrap_or_default();
        let now = Instant::now();
        let mut state = self.state();
        // A bookmark, which comes also when nothing else does.
        let Some(id) = number(event).filter(|id| *id < self.arrivals.len()) else { return !state.over };
        let holds = |condition: &str| event.contains(condition);
        let life = &mut state.lives[id];
        life.created.get_or_insert(now);
        if life.finished.is_some() {
            return !state.over;
        }
        if holds(FINISHED) {
            (life.finished, life.running) = (Some(now), false);
            state.counts.finished += 1;
            state.over = state.counts.finished == self.arrivals.len();
        } else if holds(EVICTED) && holds(RESERVED) {
            life.running = false;
            let patch = Tree::parse(event.as_bytes()).map(|it| released(&it)).unwrap_or_default();
            state.deeds.push(Reverse(Deed { at: now, id, what: What::Release { patch } }));
        } else if holds(ADMITTED) != life.running {
            life.running = !life.running;
            if life.running {
                life.admitted.get_or_insert(now);
                life.admissions += 1;
                let what = What::Finish { admission: life.admissions };
                let at = now + self.load.classes[self.arrivals[id].class].runs;
                state.counts.admissions += 1;
                state.deeds.push(Reverse(Deed { at, id, what }));
            }
        }
        self.news.notify_all();
        !state.over
    }

    /// The next write of a job, once it is due; none when all are over.
    pub fn next(&self) -> Option<Request> {
        let mut state = self.state();
        loop {
            if state.over {
                return None;
            }
            let now = Instant::now();
            let wait = match state.deeds.peek() {
                Some(Reverse(deed)) if deed.at <= now => {
                    let Some(Reverse(deed)) = state.deeds.pop() else { continue };
                    if let Some(request) = self.request(&mut state, deed) {
                        state.counts.sent += 1;
                        return Some(request);
                    }
                    continue;
                }
                Some(Reverse(deed)) => deed.at - now,
                None => Duration::from_secs(1),
            };
            state = self.news.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn request(&self, state: &mut State, deed: Deed) -> Option<Request> {
        let Deed { id, what, .. } = deed;
        let path = status_path(&self.arrivals[id], id);
        match what {
            What::Finish { admission } => {
                let life = &state.lives[id];
                let holds = life.running && life.admissions == admission;
                holds.then(|| (format!("PATCH {path}?fieldManager=bench&force=true"), APPLY, finished(&path)))
            }
            What::Release { patch } => {
                state.counts.releases += 1;
                Some((format!("PATCH {path}?fieldManager=bench"), MERGE, Tree::parse(&patch).ok()?))
            }
        }
    }

    /// Records that a write of a job conflicted; the watch delivers the newer object.
    pub fn overtaken(&self) {
        self.state().counts.overtaken += 1;
    }

    /// Waits for the end of all; whether that came in time.
    pub fn wait(&self, limit: Duration) -> bool {
        let state = self.state();
        let (mut state, _) =
            self.news.wait_timeout_while(state, limit, |it| !it.over).unwrap_or_else(PoisonError::into_inner);
        // Wakes idle workers so that they end, too.
        std::mem::replace(&mut state.over, true)
    }

    /// What has come of all.
    pub fn end(self) -> (Vec<Life>, Counts) {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (state.lives, state.counts)
    }
}

/// The number of the Workload of an event: its own name comes before any other like it.
fn number(event: &str) -> Option<usize> {
    let from = event.find(r#""name":""#)? + r#""name":""#.len();
    event[from..].split('"').next()?.strip_prefix(NAME)?.parse().ok()
}

/// The status to apply for a Workload with a finished job.
fn finished(path: &str) -> Tree {
    let mut parts = path.rsplit('/').skip(1);
    let (name, space) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    let condition = tree!({"type": conditions::FINISHED, "status": "True", "reason": "Succeeded",
        "message": "Ran to its end", "lastTransitionTime": stamp()});
    tree!({"apiVersion": API_VERSION, "kind": WORKLOAD, "metadata": {"name": name, "namespace": space},
        "status": {"conditions": [condition]}})
}

/// The patch by which an evicted Workload gives its quota back, over exactly the revision that was seen.
fn released(event: &Tree) -> Vec<u8> {
    let no_longer = |condition: &Tree| {
        let reason = match condition.str_at(&["type"]) {
            conditions::QUOTA_RESERVED => "Pending",
            conditions::ADMITTED => reasons::NO_RESERVATION,
            _ => return condition.clone(),
        };
        condition.merge(&tree!({"status": "False", "reason": reason, "message": "The job has stopped",
            "lastTransitionTime": stamp()}))
    };
    let conditions = event.items_at(&["object", "status", "conditions"]).iter().map(no_longer);
    let version = event.str_at(&["object", "metadata", "resourceVersion"]);
    tree!({"metadata": {"resourceVersion": version},
        "status": {"admission": null, "conditions": Tree::list(conditions)}})
    .to_json_bytes()
}

fn stamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(now.as_micros()).unwrap_or(i64::MAX)).to_seconds_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: usize, held: &[&str]) -> Vec<u8> {
        let holds = |kind: &&str| tree!({"status": "True", "type": *kind});
        let conditions = Tree::list(held.iter().map(holds));
        let metadata = tree!({"name": format!("{NAME}{id:05}"), "resourceVersion": "7"});
        tree!({"type": "MODIFIED", "object": {"metadata": metadata, "status": {"conditions": conditions}}})
            .to_json_bytes()
    }

    #[test]
    fn what_is_admitted_is_finished_and_what_is_evicted_gives_back() {
        let load = Load::of("test", 50, 1_000_000);
        let arrivals = &load.arrivals()[..2];
        let lives = Lives::new(&load, arrivals);
        assert!(lives.hear(&event(0, &[])));
        assert!(lives.hear(&event(0, &["QuotaReserved", "Admitted"])));
        let (call, _, body) = lives.next().expect("it has run");
        assert!(call.contains("/namespaces/queue-00/workloads/workload-00000/status?"), "{call}");
        assert_eq!(body.str_at(&["metadata", "namespace"]), "queue-00");
        assert!(lives.hear(&event(1, &["QuotaReserved", "Admitted"])));
        assert!(lives.hear(&event(1, &["QuotaReserved", "Admitted", "Evicted"])));
        let (call, _, body) = lives.next().expect("it has to stop");
        assert!(call.contains("workload-00001") && body.str_at(&["metadata", "resourceVersion"]) == "7");
        assert!(
            body.items_at(&["status", "conditions"])[..2].iter().all(|it| it.str_at(&["status"]) == "False")
        );
        assert!(lives.hear(&event(1, &["Evicted"])));
        assert!(lives.hear(&event(0, &["Finished", "Admitted"])));
        assert!(!lives.hear(&event(1, &["Finished"])));
        assert!(lives.next().is_none() && lives.wait(Duration::ZERO));
        let (all, counts) = lives.end();
        assert!(all.iter().all(|it| it.finished.is_some()));
        assert_eq!((counts.finished, counts.admissions, counts.releases), (2, 2, 1));
    }
}
