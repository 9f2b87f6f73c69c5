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
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder};
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;

use crate::KubeApi;

/// The namespace of what we keep on a cluster.
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
    "the Lease {NAMESPACE}/{LEASE} cannot be used: {0}\n\nhint: may this user create namespaces and leases?"
)]
pub struct LeadError(String);

/// A part in the election.
pub struct Lead {
    leads: Receiver<bool>,
    task: JoinHandle<kube_lease_manager::Result<LeaseManager>>,
}

impl Lead {
    /// Stands for election under this name, which nobody else has.
    ///
    /// # Errors
    /// The Lease can neither be found nor made.
    pub async fn seek(api: &KubeApi, name: &str) -> Result<Lead, LeadError> {
        let wrong = |error: &dyn std::fmt::Display| LeadError(error.to_string());
        make_namespace(&api.client).await.map_err(|e| wrong(&e))?;
        let manager = LeaseManagerBuilder::new(api.client.clone(), LEASE)
            .with_namespace(NAMESPACE)
            .with_identity(name)
            .with_field_manager(name)
            .with_duration(LEASE_SECS)
            .with_grace(RENEW_SECS_BEFORE)
            .build()
            .await
            .map_err(|e| wrong(&e))?;
        let (leads, task) = manager.watch().await;
        Ok(Lead { leads, task })
    }

    /// Waits until it leads.
    ///
    /// # Errors
    /// The election has ended by an error of its own: nobody will ever be chosen.
    pub async fn won(&mut self) -> Result<(), LeadError> {
        let won = self.leads.wait_for(|leads| *leads).await;
        won.map(|_| ()).map_err(|_| LeadError("the election has ended".to_owned()))
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

async fn make_namespace(client: &Client) -> kube::Result<()> {
    let spaces: Api<Namespace> = Api::all(client.clone());
    if spaces.get_opt(NAMESPACE).await?.is_some() {
        return Ok(());
    }
    let metadata = ObjectMeta { name: Some(NAMESPACE.to_owned()), ..ObjectMeta::default() };
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
        Lead { leads, task }.step_back().await;
    }
}
