//! The control planes that run scenarios in shorthand.

use std::ffi::OsStr;
use std::path::Path;

use crate::differential::ApiClient;
use crate::embedded_server::{self, EmbeddedServer};
use crate::gangs::environment::create_foreign_crds;
use crate::jobsets::Environment;
use crate::real::RealCluster;
use crate::server_pair::wait_for_nodes;

/// Upstream controllers beside our operator: those that pods in queues and TrainJobs need.
const CONTROLLERS: [&str; 9] =
    ["gc", "namespace", "job", "podgc", "node", "role", "volume", "resourceclaim", "podgroup"];
/// Enough nodes that no pod waits for capacity.
const NODES: usize = 30;

/// A control plane that can run all scenarios.
pub struct ScenarioEnvironment {
    pub server: ApiClient,
    pub place: Environment,
    _plane: Option<EmbeddedServer>,
    /// The real cluster and the process id of its operator.
    real: Option<(RealCluster, u32)>,
}

impl ScenarioEnvironment {
    /// Starts `muster up` with the PodGroup CRDs of other schedulers, or uses the server of the kubeconfig in `OURS`.
    pub fn embedded() -> Result<ScenarioEnvironment, String> {
        if let Some(file) = std::env::var_os("OURS") {
            return ScenarioEnvironment::existing(&file, Environment::Embedded);
        }
        let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", &NODES.to_string()])?;
        let server = plane.server()?;
        create_foreign_crds(&server)?;
        wait_for_nodes(&server, NODES)?;
        Ok(ScenarioEnvironment { server, place: Environment::Embedded, _plane: Some(plane), real: None })
    }

    /// Starts a real server with upstream's scheduler and controllers, simulated nodes, the PodGroup CRDs of other schedulers and the
    /// installed operator, or uses the server of the kubeconfig in `REAL`.
    ///
    /// The CRDs are created before the controller manager starts: its garbage collector refreshes discovery rarely.
    pub fn real() -> Result<ScenarioEnvironment, String> {
        if let Some(file) = std::env::var_os("REAL") {
            return ScenarioEnvironment::existing(&file, Environment::Real);
        }
        let binary = embedded_server::binary()?;
        let mut running = RealCluster::with(&[])?;
        create_foreign_crds(&running.server)?;
        let installed = running.install(&binary)?;
        running.start_controllers(&CONTROLLERS)?;
        running.start_scheduler()?;
        running.add_simulated_nodes(&binary, NODES)?;
        let operator = running.start_installed_operator(&binary, &installed, &["--log-level", "info"])?;
        let server = ApiClient::new(running.server.base(), running.token());
        wait_for_nodes(&server, NODES)?;
        running.wait_for_collector()?;
        Ok(ScenarioEnvironment {
            server,
            place: Environment::Real,
            _plane: None,
            real: Some((running, operator)),
        })
    }

    fn existing(kubeconfig: &OsStr, place: Environment) -> Result<ScenarioEnvironment, String> {
        let server = ApiClient::of_kubeconfig(Path::new(kubeconfig))?;
        Ok(ScenarioEnvironment { server, place, _plane: None, real: None })
    }

    /// Kills the operator with SIGKILL.
    pub fn kill_operator(&mut self) -> Result<(), String> {
        let (real, operator) = self.real.as_mut().ok_or("this environment has no operator")?;
        real.kill(*operator)
    }

    /// Log of the operator; empty for the embedded server.
    #[must_use]
    pub fn operator_log(&self) -> String {
        self.real.as_ref().map(|(real, _)| real.operator_log()).unwrap_or_default()
    }
}
