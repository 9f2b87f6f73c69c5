//! The planes that scenarios in few words are played on.

use std::ffi::OsStr;
use std::path::Path;

use crate::differential::Server;
use crate::gangs::planes::define_foreign;
use crate::jobsets::Place;
use crate::plane::{self, Plane};
use crate::planes::wait_for_nodes;
use crate::real::Real;

/// The controllers that a real plane has beside our operator: those of pods in queues and those of TrainJobs.
const CONTROLLERS: [&str; 9] =
    ["gc", "namespace", "job", "podgc", "node", "role", "volume", "resourceclaim", "podgroup"];
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
    /// `muster up`, with the PodGroups of other schedulers defined; or the server whose kubeconfig `OURS` names.
    pub fn embedded() -> Result<Playground, String> {
        if let Some(file) = std::env::var_os("OURS") {
            return Playground::given(&file, Place::Embedded);
        }
        let plane = Plane::start(&["--ephemeral", "--sim-nodes", &NODES.to_string()])?;
        let server = plane.server()?;
        define_foreign(&server)?;
        wait_for_nodes(&server, NODES)?;
        Ok(Playground { server, place: Place::Embedded, _plane: Some(plane), real: None })
    }

    /// A real server with its own scheduler and controllers, simulated nodes, the PodGroups of other schedulers, and the
    /// operator as `muster install` installs it; or the server whose kubeconfig `REAL` names.
    ///
    /// The CRDs are created before the controller manager starts: its garbage collector looks for new kinds only now and
    /// then.
    pub fn real() -> Result<Playground, String> {
        if let Some(file) = std::env::var_os("REAL") {
            return Playground::given(&file, Place::Real);
        }
        let binary = plane::binary()?;
        let mut running = Real::with(&[])?;
        define_foreign(&running.server)?;
        let installed = running.install(&binary)?;
        running.start_controllers(&CONTROLLERS)?;
        running.start_scheduler()?;
        running.join(&binary, NODES)?;
        let operator = running.operate_as(&binary, &installed, &["--log-level", "info"])?;
        let server = Server::new(running.server.base(), running.token());
        wait_for_nodes(&server, NODES)?;
        running.wait_for_collector()?;
        Ok(Playground { server, place: Place::Real, _plane: None, real: Some((running, operator)) })
    }

    fn given(kubeconfig: &OsStr, place: Place) -> Result<Playground, String> {
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
