//! Those under comparison, each beside a real plane of its own on which all queues are there and active.

use std::time::{Duration, Instant};

use muster_tests::real::{Disk, RealCluster};
use muster_tree::Tree;
use tempfile::TempDir;

use super::kueue::{self, Limits};
use super::load::{Load, cluster_queues};
use crate::client::Target;
use crate::jobsets::calls::Count;
use crate::up;

/// How long it may take until all queues are active.
const READY_MAX: Duration = Duration::from_secs(180);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The controllers under comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Operator,
    Upstream(Limits),
}

/// One of them, ready for the load.
pub struct Plane {
    pub name: &'static str,
    pub target: Target,
    pub controller: u32,
    /// The processes of the API server.
    pub server: Vec<u32>,
    /// Both end with the plane.
    real: RealCluster,
    folder: TempDir,
}

impl Who {
    pub const ALL: [Who; 4] = [
        Who::Operator,
        Who::Upstream(Limits::Published),
        Who::Upstream(Limits::Stock),
        Who::Upstream(Limits::Lifted),
    ];
    pub const OPERATOR: &'static str = "muster operator";

    pub fn name(self) -> &'static str {
        match self {
            Who::Operator => Who::OPERATOR,
            Who::Upstream(Limits::Published) => "upstream, 50/s",
            Who::Upstream(Limits::Stock) => "upstream, stock",
            Who::Upstream(Limits::Lifted) => "upstream, lifted",
        }
    }

    /// Starts it, makes the queues of a load and waits until they are active.
    pub fn start(self, disk: Disk, load: &Load) -> Result<Plane, String> {
        if let Some(why) = kueue::missing().filter(|_| self != Who::Operator) {
            // Before a plane is started for nothing.
            return Err(why);
        }
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let mut real = RealCluster::start_without_controllers(disk)?;
        let server = real.pids();
        let controller = match self {
            Who::Operator => operate(&mut real)?,
            Who::Upstream(limits) => kueue::start(&mut real, folder.path(), limits)
                .map_err(|why| format!("{why}\n{}", kueue::log_tail(folder.path())))?,
        };
        let target = Target::of_token(real.server.base(), real.token());
        let plane = Plane { name: self.name(), target, controller, server, real, folder };
        plane.furnish(load).map_err(|why| format!("{why}\n{}", plane.log_tail()))?;
        Ok(plane)
    }
}

/// Starts our operator with the options of an installation, but as an administrator: without the audit log of its own account.
fn operate(real: &mut RealCluster) -> Result<u32, String> {
    let installed = real.install(&up::binary())?;
    let words = installed.args(&["--controllers", "queue", "--admission", "queue"]);
    real.start_operator_as_admin(&up::binary(), &words[1..])
}

impl Plane {
    /// The calls so far.
    pub fn count(&self) -> Count {
        Count::of_server(&String::from_utf8_lossy(&self.target.ask("GET /metrics", &Tree::Null).1))
    }

    fn furnish(&self, load: &Load) -> Result<(), String> {
        let (call, _, flavor) = Load::flavor();
        self.until("takes no flavor", || matches!(self.target.ask(&call, &flavor).0, 201 | 409))?;
        self.target.send_all(load.queues(), |n| load.queue(n));
        self.until("has queues that are not active", || self.active() == load.queues())
    }

    fn active(&self) -> usize {
        let (_, body) = self.target.ask(&format!("GET {}", cluster_queues()), &Tree::Null);
        let is_active = |queue: &&Tree| {
            let mut conditions = queue.items_at(&["status", "conditions"]).iter();
            conditions.any(|it| it.str_at(&["type"]) == "Active" && it.str_at(&["status"]) == "True")
        };
        Tree::parse(&body).map_or(0, |list| list.items_at(&["items"]).iter().filter(is_active).count())
    }

    fn until(&self, not_yet: &str, met: impl Fn() -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !met() {
            if began.elapsed() > READY_MAX {
                return Err(format!("{} {not_yet} within {READY_MAX:?}", self.name));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn log_tail(&self) -> String {
        if self.name == Who::OPERATOR {
            self.real.operator_log()
        } else {
            kueue::log_tail(self.folder.path())
        }
    }
}
