//! Who of several is in charge: the holder of one Lease.
//!
//! # Invariants
//!
//! - Whoever leads knows it from the server; whoever cannot renew for the lease's duration is followed by another.
//!   While the server cannot be reached the former leader does not hear of that, but cannot write either.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;

use crate::KubeApi;

/// The namespace of what we keep on a cluster, unless told otherwise.
pub const NAMESPACE: &str = "muster-system";
/// The Lease.
const LEASE: &str = "muster-operator";
/// Seconds after which another may take over.
const LEASE_SECS: u64 = 15;
/// Seconds before that at which the holder renews.
const RENEW_SECS_BEFORE: u64 = 10;
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
    task: JoinHandle<kube_lease_manager::Result<LeaseManager>>,
    namespace: String,
}

impl Lead {
    /// Stands for election under this name, which nobody else has, with a Lease in this namespace. The namespace is made
    /// if there is none: who was installed needs no right to do so.
    ///
    /// # Errors
    /// The Lease can neither be found nor made.
    pub async fn seek(api: &KubeApi, namespace: &str, name: &str) -> Result<Lead, LeadError> {
        let wrong = |error: &dyn std::fmt::Display| LeadError::of(namespace, error);
        let manager = match manager(api, namespace, name).await {
            Err(LeaseManagerError::KubeError(kube::Error::Api(status))) if status.code == 404 => {
                make_namespace(&api.client, namespace).await.map_err(|e| wrong(&e))?;
                manager(api, namespace, name).await
            }
            done => done,
        };
        let (leads, task) = manager.map_err(|e| wrong(&e))?.watch().await;
        Ok(Lead { leads, task, namespace: namespace.to_owned() })
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

    /// Steps back, so that another may lead at once.
    pub async fn step_back(self) {
        drop(self.leads);
        // Whether the server heard it or not, the lease runs out.
        let _ = tokio::time::timeout(STEP_BACK_MAX, self.task).await;
    }
}

async fn manager(api: &KubeApi, namespace: &str, name: &str) -> kube_lease_manager::Result<LeaseManager> {
    LeaseManagerBuilder::new(api.client.clone(), LEASE)
        .with_namespace(namespace)
        .with_identity(name)
        .with_field_manager(name)
        .with_duration(LEASE_SECS)
        .with_grace(RENEW_SECS_BEFORE)
        .build()
        .await
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
        let (_, leads) = tokio::sync::watch::channel(true);
        let task = tokio::spawn(std::future::pending());
        Lead { leads, task, namespace: String::new() }.step_back().await;
    }
}
