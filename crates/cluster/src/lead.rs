//! Who of several is in charge: the holder of one Lease.
//!
//! # Invariants
//!
//! - Every write of the Lease names the revision it was decided on: of two who want it, one is refused.
//! - Whoever leads says so no longer than [`RENEW_WITHIN`] after its last renewal was sent. Another may take the Lease
//!   after [`LEASE_SECS`] without a sign of life, counted from when it saw the last one; so there is never a moment with
//!   two leaders, whatever their clocks say, as long as they run at the same pace.
//! - A server that is away costs the lead, never the process: it stands on for election.

mod election;

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use muster_api::kinds::LEASES;
use muster_api::port::{Act, Call, Guard, Object, Part, Refusal, Target};
use muster_api::time::Time;
use muster_tree::{Text, Tree, literal};
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::election::{Election, Next, given_back};
use crate::KubeApi;

/// The namespace of what we keep on a cluster, unless told otherwise.
pub const NAMESPACE: &str = "muster-system";
/// The Lease.
const LEASE: Text = literal!("muster-operator");
/// Seconds without a renewal after which another may take over.
const LEASE_SECS: u64 = 15;
/// How long after its last renewal a leader may call itself one: well before another can.
const RENEW_WITHIN: Duration = Duration::from_secs(10);
/// How often a leader renews.
const RENEW_EVERY: Duration = Duration::from_secs(2);
/// How often everybody else looks, and how long after a try that failed the next one is.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long one try may take.
const TRY_MAX: Duration = Duration::from_secs(4);
/// A try is worth no less than this, however close the end is.
const TRY_MIN: Duration = Duration::from_millis(100);
/// How long giving the Lease back may take: a server that goes down with us may never answer.
const STEP_BACK_MAX: Duration = Duration::from_secs(3);

/// Why nobody can lead.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Lease {namespace}/{LEASE} cannot be used: {problem}\n\nhint: may this user create namespaces and leases?"
)]
pub struct LeadError {
    namespace: String,
    problem: String,
}

impl LeadError {
    fn of(namespace: &str, problem: &dyn std::fmt::Display) -> LeadError {
        LeadError { namespace: namespace.to_owned(), problem: problem.to_string() }
    }
}

/// A part in the election.
pub struct Lead {
    leads: Receiver<bool>,
    task: JoinHandle<()>,
    namespace: String,
}

impl Lead {
    /// Stands for election under this name, which nobody else has, with a Lease in this namespace. The namespace is made
    /// if there is none: who was installed needs no right to do so.
    ///
    /// # Errors
    /// The Lease can neither be found nor made.
    pub async fn seek(api: &KubeApi, namespace: &str, name: &str) -> Result<Lead, LeadError> {
        let mut candidate = Candidate {
            api: api.unhindered(),
            namespace: namespace.into(),
            election: Election::new(name.into(), Duration::from_secs(LEASE_SECS)),
            known: None,
            renewed: None,
        };
        let (leads, told) = watch::channel(false);
        let first = match candidate.first(&leads).await {
            Err(Refusal::NotFound(_)) => {
                make_namespace(&api.client, namespace).await.map_err(|e| LeadError::of(namespace, &e))?;
                candidate.first(&leads).await
            }
            done => done,
        };
        first.map_err(|e| LeadError::of(namespace, &e))?;
        let task = tokio::spawn(candidate.stand(leads));
        Ok(Lead { leads: told, task, namespace: namespace.to_owned() })
    }

    /// Waits until it leads.
    ///
    /// # Errors
    /// The election has ended by an error of its own: nobody will ever be chosen.
    pub async fn won(&mut self) -> Result<(), LeadError> {
        let won = self.leads.wait_for(|leads| *leads).await;
        won.map(|_| ()).map_err(|_| LeadError::of(&self.namespace, &"the election has ended"))
    }

    /// Waits until it no longer leads, or does not know.
    pub async fn lost(&mut self) {
        let _ = self.leads.wait_for(|leads| !*leads).await;
    }

    /// The end of the lead, for somebody who waits elsewhere.
    pub fn end(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut leads = self.leads.clone();
        async move {
            let _ = leads.wait_for(|leads| !*leads).await;
        }
    }

    /// Steps back, so that another may lead at once.
    pub async fn step_back(self) {
        let Lead { leads, mut task, .. } = self;
        drop(leads);
        // Whether the server heard it or not, the lease runs out; what is left of the try must not meet our next one.
        if tokio::time::timeout(STEP_BACK_MAX, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// Somebody who stands for election.
struct Candidate {
    api: KubeApi,
    namespace: Text,
    election: Election,
    /// The Lease as our own last write left it.
    known: Option<Object>,
    /// When the last renewal was sent that the server confirmed.
    renewed: Option<Instant>,
}

impl Candidate {
    /// The first try, whose refusal is told: later ones pass.
    async fn first(&mut self, leads: &Sender<bool>) -> Result<(), Refusal> {
        let began = Instant::now();
        let outcome = self.round().await?;
        self.tell(outcome, began, leads);
        Ok(())
    }

    async fn stand(mut self, leads: Sender<bool>) {
        let mut pause = LOOK_EVERY;
        loop {
            let turn = async {
                tokio::time::sleep(pause).await;
                self.turn(&leads).await
            };
            pause = tokio::select! {
                biased;
                () = leads.closed() => break,
                pause = turn => pause,
            };
        }
        self.give_back().await;
    }

    /// Tries once, and tells what came of it; how long to wait for the next try.
    async fn turn(&mut self, leads: &Sender<bool>) -> Duration {
        // First of all: this process may have been asleep.
        self.give_up_in_time(Duration::ZERO, leads);
        let began = Instant::now();
        let left = self.renewed.map_or(TRY_MAX, |at| (at + RENEW_WITHIN).duration_since(began));
        let refusal = match tokio::time::timeout(left.clamp(TRY_MIN, TRY_MAX), self.round()).await {
            Ok(Ok(outcome)) => {
                let pause = self.tell(outcome, began, leads);
                return self.give_up_in_time(pause, leads);
            }
            Ok(Err(refusal)) => refusal.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        tracing::warn!(refusal, leads = self.renewed.is_some(), "the Lease cannot be read or written");
        self.give_up_in_time(LOOK_EVERY, leads)
    }

    /// Whoever has not renewed for too long leads no more; the next try is no later than that.
    fn give_up_in_time(&mut self, pause: Duration, leads: &Sender<bool>) -> Duration {
        let Some(ends) = self.renewed.map(|at| at + RENEW_WITHIN) else { return pause };
        let left = ends.duration_since(Instant::now());
        if left.is_zero() {
            self.renewed = None;
            leads.send_replace(false);
        }
        pause.min(left.max(TRY_MIN))
    }

    fn tell(&mut self, outcome: Outcome, began: Instant, leads: &Sender<bool>) -> Duration {
        match outcome {
            // An answer that took too long tells of a time in which another may have followed.
            Outcome::Renewed if began.elapsed() >= RENEW_WITHIN => TRY_MIN,
            Outcome::Renewed => {
                self.renewed = Some(began);
                leads.send_if_modified(|told| !std::mem::replace(told, true));
                RENEW_EVERY
            }
            Outcome::Anothers(pause) => {
                self.renewed = None;
                leads.send_if_modified(|told| std::mem::replace(told, false));
                pause.min(LOOK_EVERY)
            }
            // Somebody wrote in between: who, is seen at the next look.
            Outcome::Unclear => TRY_MIN,
        }
    }

    /// Looks at the Lease, unless it is known, and writes what has to be written.
    async fn round(&mut self) -> Result<Outcome, Refusal> {
        let lease = match self.known.take() {
            Some(lease) => Some(lease),
            None => self.look().await?,
        };
        let (guard, act) = match self.election.next(lease.as_ref(), Instant::now(), now()) {
            Next::Make(body) => (Guard::default(), Act::Create(body)),
            Next::Write(patch, revision) => {
                (Guard { uid: None, revision: Some(revision) }, Act::Merge(patch))
            }
            Next::Wait(pause) => return Ok(Outcome::Anothers(pause)),
        };
        let making = matches!(act, Act::Create(_));
        match self.perform(guard, act).await {
            Ok(written) => {
                self.known = Some(written);
                Ok(Outcome::Renewed)
            }
            Err(Refusal::Conflict(_) | Refusal::AlreadyExists(_)) => Ok(Outcome::Unclear),
            // Of a Lease that was there: deleted meanwhile. Of one to be made: its namespace is missing.
            Err(Refusal::NotFound(_)) if !making => Ok(Outcome::Unclear),
            Err(refusal) => Err(refusal),
        }
    }

    async fn look(&self) -> Result<Option<Object>, Refusal> {
        match self.perform(Guard::default(), Act::Get).await {
            Ok(lease) => Ok(Some(lease)),
            Err(Refusal::NotFound(_)) => Ok(None),
            Err(refusal) => Err(refusal),
        }
    }

    /// Gives the Lease back, if it is ours. A renewal that was broken off may arrive in between: then it looks again, for
    /// as long as [`Lead::step_back`] waits.
    async fn give_back(mut self) {
        loop {
            let lease = match self.known.take() {
                Some(lease) => Ok(Some(lease)),
                None => self.look().await,
            };
            let mine = lease.map(|found| found.filter(|lease| self.election.is_mine(&lease.tree)));
            let done = match mine {
                Ok(None) => return,
                Ok(Some(lease)) => {
                    let guard = Guard { uid: None, revision: Some(lease.revision) };
                    self.perform(guard, Act::Merge(given_back())).await.map(drop)
                }
                Err(refusal) => Err(refusal),
            };
            match done {
                Ok(()) => return,
                Err(Refusal::Conflict(_)) => {}
                Err(refusal) => {
                    tracing::debug!(%refusal, "the Lease is not given back: it runs out");
                    return;
                }
            }
        }
    }

    async fn perform(&self, guard: Guard, act: Act) -> Result<Object, Refusal> {
        let on =
            Target { kind: LEASES.clone(), namespace: self.namespace.clone(), name: LEASE, part: Part::Main };
        self.api.perform(&Call { by: LEASE, on, guard, act }).await
    }
}

/// What one try came to.
#[derive(Clone, Copy)]
enum Outcome {
    /// It is ours.
    Renewed,
    /// It is another's, for so long at least.
    Anothers(Duration),
    /// Nobody knows.
    Unclear,
}

/// For the eyes of people: nothing is decided by it.
fn now() -> Tree {
    Time(Timestamp::now().as_microsecond()).to_micros_text().into()
}

async fn make_namespace(client: &Client, name: &str) -> kube::Result<()> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    match spaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await {
        // Somebody was quicker.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        done => done.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_never_answers_does_not_keep_us() {
        let (_, leads) = watch::channel(true);
        let task = tokio::spawn(std::future::pending());
        Lead { leads, task, namespace: String::new() }.step_back().await;
    }
}
