//! What is counted: TrainJobs that ended by a deadline or went by their time to live, and how they all stand.
//!
//! Numbers come from what is seen of objects, not from what was sent: a write whose reply was lost counts once, and so
//! does one that had to be repeated.
//!
//! # Invariants
//!
//! - Nothing is negative but the seconds that a late deadline is overdue.
//! - What is gauged of a TrainJob goes with it: nothing grows but the counters.
//! - A copy costs the same however many TrainJobs there are.

mod jobs;
mod spans;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::port::Uid;
use muster_api::time::Time;
use muster_api::train::words::conditions;
use muster_api::train::{Managed, TrainJobFacts};
use muster_tree::{Text, Tree};

use jobs::Jobs;
pub use spans::{Bounds, Spans};

use super::clock::{DeadlineClock, due, expires, started};

/// Something that is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// A TrainJob was active for too long.
    DeadlineExceeded {
        /// Where.
        namespace: Text,
    },
    /// The server took the deletion of a TrainJob whose time was over.
    TtlAccepted {
        /// Where.
        namespace: Text,
    },
    /// A TrainJob that was deleted since its time was over is gone.
    TtlGone {
        /// How long after it was due.
        late: Duration,
    },
    /// The first pods of a TrainJob are ready.
    Running {
        /// Since it was made, or resumed.
        waited: Duration,
    },
    /// A TrainJob was looked at.
    Reconciled {
        /// How long that took.
        took: Duration,
    },
}

/// How a TrainJob stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing may run.
    Suspended,
    /// Nothing runs yet.
    Pending,
    /// It trains, or fetches what it needs for that.
    Running,
    /// It is done.
    Complete,
    /// It failed.
    Failed,
}

impl State {
    const ALL: [State; 5] =
        [State::Suspended, State::Pending, State::Running, State::Complete, State::Failed];

    /// How a TrainJob stands.
    #[must_use]
    pub fn of(job: &TrainJobFacts) -> State {
        let status = &job.status;
        if status.holds(conditions::COMPLETE) {
            State::Complete
        } else if status.holds(conditions::FAILED) {
            State::Failed
        } else if job.suspend {
            State::Suspended
        } else if status.jobs.iter().any(|it| it.ready > 0) {
            State::Running
        } else {
            State::Pending
        }
    }

    fn word(self) -> &'static str {
        match self {
            State::Suspended => "suspended",
            State::Pending => "pending",
            State::Running => "running",
            State::Complete => "complete",
            State::Failed => "failed",
        }
    }
}

/// One labelled number.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The whole name.
    pub name: &'static str,
    /// Labels and their values.
    pub labels: Labels,
    /// The number.
    pub value: Value,
}

/// The number of a sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Only ever grows.
    Count(u64),
    /// Goes up and down.
    Gauge(f64),
    /// How many were how long.
    Spans(Spans),
}

/// Labels and their values.
pub type Labels = Vec<(&'static str, Text)>;

/// What is gauged of one TrainJob.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gauged {
    runtime: Text,
    state: State,
    /// When it will have been active for too long.
    due: Option<Time>,
    /// Whether it waits for its time to be over.
    waits: bool,
}

/// Numbers since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    counts: BTreeMap<(&'static str, Text), u64>,
    spans: BTreeMap<&'static str, Spans>,
    jobs: Jobs,
    /// Deletions that were sent of TrainJobs that are not gone yet.
    sent: BTreeMap<Uid, Sent>,
}

/// A deletion that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sent {
    due: Time,
    /// Whether it was seen that the server took it. Finalizers may hold the TrainJob for long after that.
    accepted: bool,
}

impl Numbers {
    /// Counts what happened.
    pub fn count(&mut self, happened: &Happened) {
        match happened {
            Happened::DeadlineExceeded { namespace } => {
                self.add("trainjob_deadline_exceeded_total", namespace);
            }
            Happened::TtlAccepted { namespace } => self.add("trainjob_ttl_deletions_total", namespace),
            Happened::TtlGone { late } => {
                self.span("trainjob_ttl_deletion_latency_seconds", Bounds::Latency, *late);
            }
            Happened::Running { waited } => {
                self.span("trainjob_time_to_running_seconds", Bounds::Waiting, *waited);
            }
            Happened::Reconciled { took } => {
                self.span("trainjob_reconcile_duration_seconds", Bounds::Work, *took);
            }
        }
    }

    /// A TrainJob came, changed or went. What was there before the start is gauged, not counted.
    pub fn saw(&mut self, before: Option<&Tree>, after: Option<&Tree>, clock: DeadlineClock, now: Time) {
        let [before, after] = [before, after].map(|it| it.map(TrainJobFacts::of));
        let Some(newest) = after.as_ref().or(before.as_ref()) else { return };
        let key = (newest.namespace.clone(), newest.name.clone());
        match after.as_ref().filter(|it| it.managed == Managed::ByUs) {
            Some(job) => self.jobs.insert(key, gauged(job, clock)),
            None => self.jobs.remove(&key),
        }
        if let Some(before) = &before {
            let later = after.as_ref().filter(|it| it.uid == before.uid);
            for happened in self.happened(before, later, now) {
                self.count(&happened);
            }
        }
    }

    /// What happened between two looks at one TrainJob.
    fn happened(
        &mut self,
        before: &TrainJobFacts,
        after: Option<&TrainJobFacts>,
        now: Time,
    ) -> Vec<Happened> {
        let mut all = Vec::new();
        let namespace = || before.namespace.clone();
        let sent = self.sent.get_mut(&before.uid).filter(|_| after.is_none_or(|it| it.deleting));
        if sent.is_some_and(|sent| !std::mem::replace(&mut sent.accepted, true)) {
            all.push(Happened::TtlAccepted { namespace: namespace() });
        }
        let Some(after) = after else {
            let sent = self.sent.remove(&before.uid);
            all.extend(sent.map(|sent| Happened::TtlGone { late: now.since(sent.due) }));
            return all;
        };
        if after.status.is_overdue() && !before.status.is_overdue() {
            all.push(Happened::DeadlineExceeded { namespace: namespace() });
        }
        if State::of(after) == State::Running && State::of(before) != State::Running {
            let since = started(&after.status, after.created);
            all.extend(since.map(|since| Happened::Running { waited: now.since(since) }));
        }
        all
    }

    /// A deletion is sent; it counts when it is seen that the server took it, and how late it was when the TrainJob is gone.
    pub fn sent(&mut self, uid: &Uid, due: Time) {
        self.sent.entry(uid.clone()).or_insert(Sent { due, accepted: false });
    }

    /// A deletion that was sent is not done, unless it was taken before.
    pub fn refused(&mut self, uid: &Uid) {
        if self.sent.get(uid).is_some_and(|sent| !sent.accepted) {
            self.sent.remove(uid);
        }
    }

    /// How much is kept of single TrainJobs.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.jobs.len() + self.sent.len()
    }

    /// All numbers at an instant, by name and labels.
    #[must_use]
    pub fn samples(&self, now: Time) -> Vec<Sample> {
        let count = |((name, namespace), n): (&(&'static str, Text), &u64)| Sample {
            name,
            labels: vec![("namespace", namespace.clone())],
            value: Value::Count(*n),
        };
        let span = |(name, spans): (&&'static str, &Spans)| Sample {
            name,
            labels: Vec::new(),
            value: Value::Spans(spans.clone()),
        };
        let mut all: Vec<Sample> = self.counts.iter().map(count).collect();
        all.extend(self.spans.iter().map(span));
        all.extend(self.remaining(now));
        all.push(self.pending());
        all.extend(self.states());
        all.sort_by(|a, b| (a.name, &a.labels).cmp(&(b.name, &b.labels)));
        all
    }

    /// How long each may still be active; below zero when that is over and nobody has acted.
    fn remaining(&self, now: Time) -> impl Iterator<Item = Sample> + '_ {
        self.jobs.iter().filter_map(move |((namespace, name), job)| {
            Some(Sample {
                name: "trainjob_active_deadline_remaining_seconds",
                labels: vec![("name", name.clone()), ("namespace", namespace.clone())],
                value: Value::Gauge(seconds(job.due?.0.saturating_sub(now.0))),
            })
        })
    }

    /// How many wait for their time to be over.
    fn pending(&self) -> Sample {
        let waiting = self.jobs.iter().filter(|(_, it)| it.waits).count();
        let value = Value::Gauge(number(waiting));
        Sample { name: "trainjob_ttl_pending_deletions", labels: Vec::new(), value }
    }

    fn states(&self) -> Vec<Sample> {
        let mut tally: BTreeMap<(&Text, &Text), BTreeMap<State, usize>> = BTreeMap::new();
        for ((namespace, _), job) in self.jobs.iter() {
            *tally.entry((namespace, &job.runtime)).or_default().entry(job.state).or_default() += 1;
        }
        let one = |((namespace, runtime), states): (&(&Text, &Text), &BTreeMap<State, usize>)| {
            State::ALL.map(|state| Sample {
                name: "trainjob_status",
                labels: vec![
                    ("namespace", (*namespace).clone()),
                    ("runtime", (*runtime).clone()),
                    ("state", state.word().into()),
                ],
                value: Value::Gauge(number(states.get(&state).copied().unwrap_or(0))),
            })
        };
        tally.iter().flat_map(one).collect()
    }

    fn add(&mut self, name: &'static str, namespace: &Text) {
        *self.counts.entry((name, namespace.clone())).or_default() += 1;
    }

    fn span(&mut self, name: &'static str, bounds: Bounds, took: Duration) {
        self.spans.entry(name).or_insert_with(|| Spans::new(bounds)).add(took);
    }
}

fn gauged(job: &TrainJobFacts, clock: DeadlineClock) -> Gauged {
    Gauged {
        runtime: job.runtime.name.clone(),
        state: State::of(job),
        due: due(job, &job.status, clock).filter(|_| !job.deleting),
        waits: expires(job, &job.status).is_some(),
    }
}

// Dashboards have no whole numbers; what is beyond 2^53 is not told apart there anyway.
#[allow(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1_000_000.0
}

#[allow(clippy::cast_precision_loss, reason = "metrics are floating point by their format")]
fn number(n: usize) -> f64 {
    n as f64
}
