//! The planes that scenarios of queues are played on.

use crate::differential::Server;
use crate::jobsets::Place;
use crate::plane::{self, Plane};
use crate::planes::wait_for_nodes;
use crate::real::Real;

/// Enough nodes that none is ever full: whoever waits here waits for quota.
const NODES: usize = 30;
/// What a real plane needs beside our operator.
const CONTROLLERS: [&str; 6] = ["gc", "namespace", "job", "podgc", "node", "role"];

/// A plane on which all scenarios can be played.
pub struct Playground {
    /// Talks to it as the administrator.
    pub server: Server,
    /// Which it is.
    pub place: Place,
    /// End with the value.
    _plane: Option<Plane>,
    /// With the process of its operator.
    real: Option<(Real, u32)>,
}

impl Playground {
    /// `muster up`.
    pub fn embedded() -> Result<Playground, String> {
        let plane = Plane::start(&["--ephemeral", "--sim-nodes", &NODES.to_string()])?;
        let server = plane.server()?;
        wait_for_nodes(&server, NODES)?;
        Ok(Playground { server, place: Place::Embedded, _plane: Some(plane), real: None })
    }

    /// A real server with its own scheduler and controllers of Jobs, simulated nodes, and the operator as it is installed.
    /// The definitions come before the controllers: the garbage collector looks only now and then for new kinds.
    pub fn real() -> Result<Playground, String> {
        let binary = plane::binary()?;
        let mut running = Real::with(&[])?;
        let installed = running.install(&binary)?;
        running.start_controllers(&CONTROLLERS)?;
        running.start_scheduler()?;
        running.join(&binary, NODES)?;
        let operator = running.operate_as(&binary, &installed, &["--log-level", "info"])?;
        let server = Server::new(running.server.base(), running.token());
        wait_for_nodes(&server, NODES)?;
        Ok(Playground { server, place: Place::Real, _plane: None, real: Some((running, operator)) })
    }

    /// For people: a server that was there before.
    #[must_use]
    pub fn given(server: Server, place: Place) -> Playground {
        Playground { server, place, _plane: None, real: None }
    }

    /// Ends the operator of a real plane for good, without warning.
    pub fn kill_operator(&mut self) -> Result<(), String> {
        let (real, operator) = self.real.as_mut().ok_or("this plane has no operator")?;
        real.kill(*operator)
    }

    /// What the operator of a real plane has complained about.
    #[must_use]
    pub fn complaints(&self) -> String {
        self.real.as_ref().map(|(real, _)| real.complaints()).unwrap_or_default()
    }
}
