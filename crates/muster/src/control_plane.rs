//! Wires and starts the controllers, the scheduler and the nodes of the embedded control plane, over the in-process
//! API.

use std::io;
use std::sync::Arc;

use muster_api::client::Api;
use muster_api::environment::{Clock, Entropy};
use muster_api::gang::EnabledMarkers;
use muster_api::gang_objects::GangSupport;
use muster_apiserver::engine::ApiEngine;
use muster_apiserver::http::health::HealthCheck;
use muster_apiserver::http::metrics::SharedRegistry;
use muster_apiserver::local::LocalApi;
use muster_control::queueing::visibility_query::VisibilityHandle;
use muster_control::training::ProgressEndpoint;
use muster_node::control_plane::{self, RuntimeCallbacks, RuntimeGroup, TrainingOptions};
use muster_operator::gates;
use muster_operator::{metrics, queues, training};
use tokio::sync::oneshot;

use crate::local::LocalNode;
use crate::nodes::{self, NodesError};
use crate::settings::Settings;

/// The controllers did not start.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// `--nodes` is invalid.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    #[error("making a folder for what is not kept: {0}")]
    Folder(io::Error),
    #[error("starting the controllers: {0}")]
    Thread(io::Error),
}

/// What the controllers need besides the settings.
pub struct ControlPlaneInputs<'a> {
    /// The CA certificate (PEM) that every namespace publishes in the ConfigMap `kube-root-ca.crt`.
    pub root_ca: &'a str,
    /// The handle of the visibility API; the queue controller answers it.
    pub desk: VisibilityHandle,
    /// The source of SSH keys for TrainJobs that use MPI.
    pub entropy: Arc<dyn Entropy>,
    /// The progress endpoint for training pods, if it is enabled.
    pub reporting: Option<ProgressEndpoint>,
}

pub struct ControlPlane {
    engine: ApiEngine,
    runtimes: RuntimeGroup,
    crashed: oneshot::Receiver<()>,
}

impl ControlPlane {
    /// The check of `/readyz` that passes once all caches have synced.
    #[must_use]
    pub fn check() -> HealthCheck {
        HealthCheck::pending("controllers")
    }

    /// Starts the enabled controllers; `ready` passes when their caches have synced, and fails when they crash.
    ///
    /// # Errors
    /// The nodes cannot be read, a directory cannot be created, or no thread can be started.
    pub fn start(
        engine: &ApiEngine,
        clock: &Arc<dyn Clock>,
        settings: &Settings,
        local: Option<LocalNode>,
        told: ControlPlaneInputs<'_>,
        ready: &HealthCheck,
        metrics: &SharedRegistry,
    ) -> Result<ControlPlane, ControlPlaneError> {
        tracing::info!(controllers = ?settings.controllers, nodes = ?settings.nodes, gates = ?settings.gates, "starting");
        let nodes = nodes::read(&settings.nodes, local)?;
        let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
        let (ready, lost) = (ready.clone(), ready.clone());
        let (crash, crashed) = oneshot::channel();
        let tidings = RuntimeCallbacks {
            ready: Box::new(move || ready.pass()),
            crashed: Box::new(move || {
                lost.fail();
                let _ = crash.send(());
            }),
        };
        let jobsets = gates::jobset_gates(&settings.gates);
        let gangs = gates::gang_gates(&settings.gates);
        let queues = queues::controller_settings(&settings.queues, clock, told.desk);
        let written = gangs.groups.then(GangSupport::default);
        let training = training::controller_settings(&settings.training, written, told.reporting);
        let told = control_plane::ControllerOptions {
            root_ca: told.root_ca.into(),
            packing: settings.packing,
            jobsets,
            reads: reads(gangs),
            gangs: written,
            jobs_make_gangs: gangs.jobs,
            queues: Some(queues),
            training: Some(TrainingOptions { settings: training, entropy: told.entropy }),
        };
        let folders = Box::new(nodes::volume_dirs(&settings.storage).map_err(ControlPlaneError::Folder)?);
        let shells = control_plane::start(&api, clock, &settings.controllers, nodes, folders, told, tidings)
            .map_err(ControlPlaneError::Thread)?;
        metrics::register(metrics, shells.health_reader());
        Ok(ControlPlane { engine: engine.clone(), runtimes: shells, crashed })
    }

    /// Resolves when the controllers crash; otherwise never.
    pub async fn crashed(&mut self) {
        if (&mut self.crashed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops the controllers. Steps that were not sent are decided again from the stored objects at the next start.
    pub fn stop(self) {
        self.runtimes.stop();
        tracing::info!(revision = self.engine.revision(), "stopped");
    }
}

/// Which markers of gangs the scheduler reads. Without the feature gates, pods are scheduled one by one. Groups that are
/// entries of a Workload do not need the PodGroup API.
fn reads(gangs: gates::GangGates) -> EnabledMarkers {
    EnabledMarkers {
        groups: gangs.scheduling && gangs.groups,
        entries: gangs.scheduling,
        ..EnabledMarkers::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: 5832-56, 5832-58, 5832-60.
    #[test]
    fn gates_say_which_gangs_count() {
        let of = |list: &'static str| {
            reads(gates::gang_gates(&gates::resolve(gates::parse(list).unwrap()).unwrap()))
        };
        let all = EnabledMarkers::default();
        let none = EnabledMarkers { groups: false, entries: false, ..all };
        assert_eq!(of(""), all);
        assert_eq!(of("GenericWorkloadPodGroup=false"), EnabledMarkers { groups: false, ..all });
        assert_eq!(of("GangScheduling=false"), none);
        assert_eq!(of("GenericWorkload=false,GenericWorkloadPodGroup=false"), none);
    }
}
