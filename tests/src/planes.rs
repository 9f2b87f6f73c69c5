//! Both planes side by side, for tests that send the same to each.
//!
//! # Invariants
//!
//! - Both run the same controllers, named as our `--controllers` names them.
//! - Each is started once per test process and shared by all tests that need no more than the two controllers that
//!   delete; every test works in namespaces of its own and leaves no cluster-scoped object behind.

use std::path::Path;
use std::sync::OnceLock;

use crate::clients::skip;
use crate::differential::Server;
use crate::plane::Plane;
use crate::real::{self, Real};

/// The controllers that write into no object that is compared.
const QUIET: [&str; 2] = ["gc", "namespace"];

/// The controllers that run work.
const AT_WORK: [&str; 7] = ["gc", "namespace", "job", "podgc", "endpointslice", "scheduler", "node"];
/// The nodes that work runs on.
const NODES: usize = 4;

/// Our server and a real one.
pub struct Planes {
    /// Talks to ours as the administrator.
    pub ours: Server,
    /// Talks to the real one as the administrator.
    pub real: Server,
    /// End with the value; absent for servers that were there before.
    _running: Option<(Plane, Real)>,
}

impl Planes {
    /// The pair that all differential tests of a process share; `None`, and the test noted as skipped, where no real
    /// plane can be had.
    pub fn shared(test: &str) -> Option<&'static Planes> {
        static PLANES: OnceLock<Planes> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        Some(PLANES.get_or_init(|| Planes::start(&QUIET).expect("both planes start")))
    }

    /// The pair on which work runs, with all controllers of Jobs, a scheduler and the same simulated nodes.
    pub fn at_work(test: &str) -> Option<&'static Planes> {
        static PLANES: OnceLock<Planes> = OnceLock::new();
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        Some(PLANES.get_or_init(|| Planes::work().expect("both planes start")))
    }

    /// Starts a pair on which work runs.
    pub fn work() -> Result<Planes, String> {
        let plane = ours_with(&AT_WORK, NODES)?;
        let mut running = Real::with(&AT_WORK)?;
        running.join(&crate::plane::binary()?, NODES)?;
        let real = Server::new(running.server.base(), real::TOKEN);
        Ok(Planes { ours: plane.server()?, real, _running: Some((plane, running)) })
    }

    /// For people: the servers whose kubeconfigs `OURS` and `REAL` name, or else a new pair.
    pub fn given_or_new() -> Result<Planes, String> {
        match (std::env::var_os("OURS"), std::env::var_os("REAL")) {
            (Some(ours), Some(real)) => {
                let server = |file| Server::of_kubeconfig(Path::new(file));
                Ok(Planes { ours: server(&ours)?, real: server(&real)?, _running: None })
            }
            _ => Planes::start(&QUIET),
        }
    }

    /// Starts a pair with these controllers.
    pub fn start(controllers: &[&str]) -> Result<Planes, String> {
        let (running, plane) = std::thread::scope(|scope| {
            let ours = scope.spawn(|| ours(controllers));
            (Real::with(controllers), ours.join().expect("starting ours does not panic"))
        });
        let (running, plane) = (running?, plane?);
        let real = Server::new(running.server.base(), real::TOKEN);
        Ok(Planes { ours: plane.server()?, real, _running: Some((plane, running)) })
    }
}

/// Starts our server with these controllers, without nodes, the way it is compared with a real one: what the node
/// does with a ServiceAccount's token is left out on both sides.
pub fn ours(controllers: &[&str]) -> Result<Plane, String> {
    ours_with(controllers, 0)
}

fn ours_with(controllers: &[&str], nodes: usize) -> Result<Plane, String> {
    let (controllers, nodes) = (controllers.join(","), nodes.to_string());
    let mut args = vec!["--ephemeral", "--sim-nodes", &nodes, "--controllers", &controllers];
    args.extend(["--admission", "*,-ServiceAccount"]);
    Plane::start(&args)
}
