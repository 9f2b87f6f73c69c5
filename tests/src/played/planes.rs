//! The planes that scenarios in few words are played on.

use std::ffi::OsStr;
use std::path::Path;

use crate::differential::Server;
use crate::jobsets::Place;
use crate::plane::{self, Plane};
use crate::planes::wait_for_nodes;
use crate::real::Real;

/// Enough nodes that none is ever full: whoever waits here waits for something else.
const NODES: usize = 30;

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

    /// A real server with its own scheduler and these controllers, simulated nodes, and the operator as it is installed.
    /// What `define` makes and the definitions come before the controllers: the garbage collector looks only now and then
    /// for new kinds.
    pub fn real(
        controllers: &[&str],
        define: impl FnOnce(&Real) -> Result<(), String>,
    ) -> Result<Playground, String> {
        let binary = plane::binary()?;
        let mut running = Real::with(&[])?;
        define(&running)?;
        let installed = running.install(&binary)?;
        running.start_controllers(controllers)?;
        running.start_scheduler()?;
        running.join(&binary, NODES)?;
        let operator = running.operate_as(&binary, &installed, &["--log-level", "info"])?;
        let server = Server::new(running.server.base(), running.token());
        wait_for_nodes(&server, NODES)?;
        Ok(Playground { server, place: Place::Real, _plane: None, real: Some((running, operator)) })
    }

    /// For people: a server that was there before.
    pub fn given(kubeconfig: &OsStr, place: Place) -> Result<Playground, String> {
        let server = Server::of_kubeconfig(Path::new(kubeconfig))?;
        Ok(Playground { server, place, _plane: None, real: None })
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
