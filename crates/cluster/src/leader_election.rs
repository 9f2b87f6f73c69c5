//! Leader election with a Lease: the leader is its holder.
//!
//! # Guarantees
//!
//! - Every write of the Lease carries the `resourceVersion` it was decided on: of two candidates one gets a conflict.
//! - A replica is leader no longer than [`RENEW_DEADLINE`] after it sent its last successful renewal. Another acquires the Lease
//!   after [`LEASE_DURATION_SECS`] without a renewal, counted from when it observed the last one. So there are never two leaders,
//!   whatever the clocks show, as long as they run at the same rate.
//! - An unavailable API server costs the leadership, never the process: it stays a candidate.

mod election;

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use muster_api::client::{
    ApiError, ApiObject, ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource,
};
use muster_api::kinds::LEASES;
use muster_api::time::Time;
use muster_tree::{Text, Tree, literal};
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use self::election::{Election, LeaseAction, release_patch};
use crate::KubeApi;

/// The default namespace of the operator's objects.
pub const DEFAULT_NAMESPACE: &str = "muster-system";
/// The name of the Lease.
const LEASE: Text = literal!("muster-operator");
/// `leaseDurationSeconds`: without a renewal for so long, another candidate may acquire the Lease.
const LEASE_DURATION_SECS: u64 = 15;
/// How long after its last renewal a replica is leader: well below the lease duration (client-go's `RenewDeadline`).
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// The interval at which a leader renews.
const RENEW_PERIOD: Duration = Duration::from_secs(2);
/// The interval at which other candidates read the Lease, and the delay after a failed attempt.
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// The timeout of one attempt.
const ATTEMPT_TIMEOUT_MAX: Duration = Duration::from_secs(4);
/// The minimal timeout of an attempt, however close the renew deadline is.
const ATTEMPT_TIMEOUT_MIN: Duration = Duration::from_millis(100);
/// The timeout of releasing the Lease: a server that shuts down at the same time may never answer.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);

/// Leader election cannot work.
#[derive(Debug, thiserror::Error)]
#[error(
    "the Lease {namespace}/{LEASE} cannot be used: {problem}\n\nhint: may this user create namespaces and leases?"
)]
pub struct LeaderElectionError {
    namespace: String,
    problem: String,
}

impl LeaderElectionError {
    fn of(namespace: &str, problem: &dyn std::fmt::Display) -> LeaderElectionError {
        LeaderElectionError { namespace: namespace.to_owned(), problem: problem.to_string() }
    }
}

/// A candidate of the leader election, running in a task of its own.
pub struct LeaderElector {
    is_leader: Receiver<bool>,
    task: JoinHandle<()>,
    namespace: String,
}

impl LeaderElector {
    /// Starts a candidate with this identity, which must be unique, on a Lease in this namespace. Creates the namespace only if
    /// it does not exist: an installed operator needs no RBAC permission for that.
    ///
    /// # Errors
    /// The Lease can neither be read nor created.
    pub async fn start(
        api: &KubeApi,
        namespace: &str,
        name: &str,
    ) -> Result<LeaderElector, LeaderElectionError> {
        let mut candidate = Candidate {
            api: api.without_circuit_breaker(),
            namespace: namespace.into(),
            election: Election::new(name.into(), Duration::from_secs(LEASE_DURATION_SECS)),
            last_written: None,
            renewed_at: None,
        };
        let (leads, receiver) = watch::channel(false);
        let first = match candidate.first_attempt(&leads).await {
            Err(ApiError::NotFound(_)) => {
                create_namespace(&api.client, namespace)
                    .await
                    .map_err(|e| LeaderElectionError::of(namespace, &e))?;
                candidate.first_attempt(&leads).await
            }
            done => done,
        };
        first.map_err(|e| LeaderElectionError::of(namespace, &e))?;
        let task = tokio::spawn(candidate.run(leads));
        Ok(LeaderElector { is_leader: receiver, task, namespace: namespace.to_owned() })
    }

    /// Waits until this candidate is leader.
    ///
    /// # Errors
    /// The task of the candidate has ended.
    pub async fn acquired(&mut self) -> Result<(), LeaderElectionError> {
        let won = self.is_leader.wait_for(|leads| *leads).await;
        won.map(|_| ()).map_err(|_| LeaderElectionError::of(&self.namespace, &"the election has ended"))
    }

    /// Waits until leadership is lost or unknown.
    pub async fn lost(&mut self) {
        let _ = self.is_leader.wait_for(|leads| !*leads).await;
    }

    /// A future that completes when leadership is lost.
    pub fn lost_signal(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut leads = self.is_leader.clone();
        async move {
            let _ = leads.wait_for(|leads| !*leads).await;
        }
    }

    /// Releases the Lease, so that another candidate can acquire it at once.
    pub async fn release(self) {
        let LeaderElector { is_leader, mut task, .. } = self;
        drop(is_leader);
        // Released or not, the Lease expires. Abort the attempt: it must not race with the next candidate of this process.
        if tokio::time::timeout(RELEASE_TIMEOUT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// The state of a candidate.
struct Candidate {
    api: KubeApi,
    namespace: Text,
    election: Election,
    /// The Lease as the last own write returned it; avoids a read per renewal.
    last_written: Option<ApiObject>,
    /// When the last successful renewal was sent.
    renewed_at: Option<Instant>,
}

impl Candidate {
    /// The first attempt, which returns its error to the caller; later ones are retried.
    async fn first_attempt(&mut self, leads: &Sender<bool>) -> Result<(), ApiError> {
        let began = Instant::now();
        let outcome = self.acquire_or_renew().await?;
        self.apply_outcome(outcome, began, leads);
        Ok(())
    }

    async fn run(mut self, leads: Sender<bool>) {
        let mut pause = RETRY_PERIOD;
        loop {
            let turn = async {
                tokio::time::sleep(pause).await;
                self.try_acquire_or_renew(&leads).await
            };
            pause = tokio::select! {
                biased;
                () = leads.closed() => break,
                pause = turn => pause,
            };
        }
        self.release_lease().await;
    }

    /// One attempt; returns the delay before the next one.
    async fn try_acquire_or_renew(&mut self, leads: &Sender<bool>) -> Duration {
        // First: the process may have been suspended past its renew deadline.
        self.check_renew_deadline(Duration::ZERO, leads);
        let began = Instant::now();
        let left =
            self.renewed_at.map_or(ATTEMPT_TIMEOUT_MAX, |at| (at + RENEW_DEADLINE).duration_since(began));
        let error = match tokio::time::timeout(
            left.clamp(ATTEMPT_TIMEOUT_MIN, ATTEMPT_TIMEOUT_MAX),
            self.acquire_or_renew(),
        )
        .await
        {
            Ok(Ok(outcome)) => {
                let pause = self.apply_outcome(outcome, began, leads);
                return self.check_renew_deadline(pause, leads);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "timed out".to_owned(),
        };
        tracing::warn!(
            error,
            is_leader = self.renewed_at.is_some(),
            "cannot acquire or renew the leader lease"
        );
        self.check_renew_deadline(RETRY_PERIOD, leads)
    }

    /// Gives up leadership at the renew deadline; the next attempt is no later than that.
    fn check_renew_deadline(&mut self, pause: Duration, leads: &Sender<bool>) -> Duration {
        let Some(ends) = self.renewed_at.map(|at| at + RENEW_DEADLINE) else { return pause };
        let left = ends.duration_since(Instant::now());
        if left.is_zero() {
            self.renewed_at = None;
            leads.send_replace(false);
        }
        pause.min(left.max(ATTEMPT_TIMEOUT_MIN))
    }

    fn apply_outcome(&mut self, outcome: Outcome, began: Instant, leads: &Sender<bool>) -> Duration {
        match outcome {
            // The response took longer than the renew deadline: another candidate may have acquired the Lease since.
            Outcome::Renewed if began.elapsed() >= RENEW_DEADLINE => ATTEMPT_TIMEOUT_MIN,
            Outcome::Renewed => {
                self.renewed_at = Some(began);
                leads.send_if_modified(|told| !std::mem::replace(told, true));
                RENEW_PERIOD
            }
            Outcome::HeldByOther(pause) => {
                self.renewed_at = None;
                leads.send_if_modified(|told| std::mem::replace(told, false));
                pause.min(RETRY_PERIOD)
            }
            // Another candidate wrote in between: read the Lease again.
            Outcome::Conflict => ATTEMPT_TIMEOUT_MIN,
        }
    }

    /// Reads the Lease, unless it is cached, and acquires or renews it.
    async fn acquire_or_renew(&mut self) -> Result<Outcome, ApiError> {
        let lease = match self.last_written.take() {
            Some(lease) => Some(lease),
            None => self.get_lease().await?,
        };
        let (guard, act) = match self.election.next_action(lease.as_ref(), Instant::now(), now()) {
            LeaseAction::Create(body) => (Preconditions::default(), RequestVerb::Create(body)),
            LeaseAction::Update(patch, revision) => {
                (Preconditions { uid: None, revision: Some(revision) }, RequestVerb::MergePatch(patch))
            }
            LeaseAction::Wait(pause) => return Ok(Outcome::HeldByOther(pause)),
        };
        let making = matches!(act, RequestVerb::Create(_));
        match self.perform(guard, act).await {
            Ok(written) => {
                self.last_written = Some(written);
                Ok(Outcome::Renewed)
            }
            Err(ApiError::Conflict(_) | ApiError::AlreadyExists(_)) => Ok(Outcome::Conflict),
            // An update: the Lease was deleted meanwhile. A create: the namespace does not exist, which is an error.
            Err(ApiError::NotFound(_)) if !making => Ok(Outcome::Conflict),
            Err(error) => Err(error),
        }
    }

    async fn get_lease(&self) -> Result<Option<ApiObject>, ApiError> {
        match self.perform(Preconditions::default(), RequestVerb::Get).await {
            Ok(lease) => Ok(Some(lease)),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Releases the Lease, if this candidate holds it. A canceled renewal may still arrive in between and cause a conflict: then
    /// it tries again, as long as [`LeaderElector::release`] waits.
    async fn release_lease(mut self) {
        loop {
            let lease = match self.last_written.take() {
                Some(lease) => Ok(Some(lease)),
                None => self.get_lease().await,
            };
            let own = lease.map(|found| found.filter(|lease| self.election.is_held_by_self(&lease.tree)));
            let done = match own {
                Ok(None) => return,
                Ok(Some(lease)) => {
                    let guard = Preconditions { uid: None, revision: Some(lease.revision) };
                    self.perform(guard, RequestVerb::MergePatch(release_patch())).await.map(drop)
                }
                Err(error) => Err(error),
            };
            match done {
                Ok(()) => return,
                Err(ApiError::Conflict(_)) => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot release the leader lease: it expires by itself");
                    return;
                }
            }
        }
    }

    async fn perform(&self, guard: Preconditions, act: RequestVerb) -> Result<ApiObject, ApiError> {
        let on = RequestTarget {
            kind: LEASES.clone(),
            namespace: self.namespace.clone(),
            name: LEASE,
            subresource: Subresource::Main,
        };
        self.api
            .perform(&ApiRequest { field_manager: LEASE, target: on, preconditions: guard, verb: act })
            .await
    }
}

/// The outcome of one attempt.
#[derive(Clone, Copy)]
enum Outcome {
    Renewed,
    /// Another candidate holds the Lease, for so long at least.
    HeldByOther(Duration),
    Conflict,
}

/// The timestamps in the Lease, for display only: nothing is decided by them.
fn now() -> Tree {
    Time(Timestamp::now().as_microsecond()).to_micros_text().into()
}

async fn create_namespace(client: &Client, name: &str) -> kube::Result<()> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    match spaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await {
        // Created by another replica.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        done => done.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn releasing_the_lease_times_out() {
        let (_, leads) = watch::channel(true);
        let task = tokio::spawn(std::future::pending());
        LeaderElector { is_leader: leads, task, namespace: String::new() }.release().await;
    }
}
