//! The parts that act on objects: controllers, scheduler and nodes, started over the in-process API.
//!
//! This is the one place where they are wired.

use std::io;
use std::sync::Arc;

use muster_api::gang::Reads;
use muster_api::gang_make::Gangs;
use muster_api::port::Api;
use muster_api::ports::{Clock, Entropy};
use muster_apiserver::engine::Engine;
use muster_apiserver::http::health::Check;
use muster_apiserver::http::metrics::SharedRegistry;
use muster_apiserver::local::LocalApi;
use muster_control::queueing::desk::Desk;
use muster_control::training::Reporting;
use muster_node::plane::{self, Shells, Tidings, Train};
use muster_operator::gates;
use muster_operator::{numbers, queues, training};
use tokio::sync::oneshot;

use crate::local::LocalNode;
use crate::nodes::{self, NodesError};
use crate::settings::Settings;

/// Why the parts did not start.
#[derive(Debug, thiserror::Error)]
pub enum PlaneError {
    /// The file of nodes.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// No folder.
    #[error("making a folder for what is not kept: {0}")]
    Folder(io::Error),
    /// No thread.
    #[error("starting the controllers: {0}")]
    Thread(io::Error),
}

/// What the parts are told besides the settings.
pub struct Told<'a> {
    /// The certificate that every namespace publishes.
    pub root_ca: &'a str,
    /// Where queues are asked about.
    pub desk: Desk,
    /// What the keys of TrainJobs are made of.
    pub entropy: Arc<dyn Entropy>,
    /// Where training tells how far it is, if it does.
    pub reporting: Option<Reporting>,
}

/// The running parts.
pub struct Plane {
    engine: Engine,
    shells: Shells,
    crashed: oneshot::Receiver<()>,
}

impl Plane {
    /// What `/readyz` waits for.
    #[must_use]
    pub fn check() -> Check {
        Check::pending("controllers")
    }

    /// Starts what the settings choose; `ready` passes when caches are in step.
    ///
    /// # Errors
    /// The nodes cannot be read, or there is no thread.
    pub fn start(
        engine: &Engine,
        clock: &Arc<dyn Clock>,
        settings: &Settings,
        local: Option<LocalNode>,
        told: Told<'_>,
        ready: &Check,
        metrics: &SharedRegistry,
    ) -> Result<Plane, PlaneError> {
        tracing::info!(controllers = ?settings.controllers, nodes = ?settings.nodes, gates = ?settings.gates, "starting");
        let nodes = nodes::read(&settings.nodes, local)?;
        let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
        let (ready, lost) = (ready.clone(), ready.clone());
        let (crash, crashed) = oneshot::channel();
        let tidings = Tidings {
            ready: Box::new(move || ready.pass()),
            crashed: Box::new(move || {
                lost.fail();
                let _ = crash.send(());
            }),
        };
        let jobsets = gates::jobset(&settings.gates);
        let gangs = gates::gangs(&settings.gates);
        let queues = queues::control(&settings.queues, clock, told.desk);
        let written = gangs.groups.then(Gangs::default);
        let training = training::control(&settings.training, written, told.reporting);
        let told = plane::Told {
            root_ca: told.root_ca.into(),
            packing: settings.packing,
            jobsets,
            reads: reads(gangs),
            gangs: written,
            jobs_make_gangs: gangs.jobs,
            queues: Some(queues),
            training: Some(Train { settings: training, entropy: told.entropy }),
        };
        let folders = Box::new(nodes::folders(&settings.place).map_err(PlaneError::Folder)?);
        let shells = plane::start(&api, clock, &settings.controllers, nodes, folders, told, tidings)
            .map_err(PlaneError::Thread)?;
        numbers::register(metrics, shells.asked());
        Ok(Plane { engine: engine.clone(), shells, crashed })
    }

    /// Waits until they have ended by an error of their own; for ever, if they have none.
    pub async fn crashed(&mut self) {
        if (&mut self.crashed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Stops them; what they were about to do is done again after the next start.
    pub fn stop(self) {
        self.shells.stop();
        tracing::info!(revision = self.engine.revision(), "stopped");
    }
}

/// Which marks of gangs count: without their kinds, or without gangs altogether, pods are placed one by one. Groups that
/// are entries of a Workload need no kind of their own.
fn reads(gangs: gates::Gangs) -> Reads {
    Reads { groups: gangs.scheduling && gangs.groups, entries: gangs.scheduling, ..Reads::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows: 5832-56, 5832-58, 5832-60.
    #[test]
    fn gates_say_which_gangs_count() {
        let of = |list: &'static str| reads(gates::gangs(&gates::with(gates::parse(list).unwrap()).unwrap()));
        let all = Reads::default();
        let none = Reads { groups: false, entries: false, ..all };
        assert_eq!(of(""), all);
        assert_eq!(of("GenericWorkloadPodGroup=false"), Reads { groups: false, ..all });
        assert_eq!(of("GangScheduling=false"), none);
        assert_eq!(of("GenericWorkload=false,GenericWorkloadPodGroup=false"), none);
    }
}
