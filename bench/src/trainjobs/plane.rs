//! Our own plane as these scenes need it.

use std::process::Child;
use std::time::{Duration, Instant};

use muster_tests::real;
use muster_tree::Tree;
use tempfile::TempDir;

use super::numbers::Numbers;
use super::objects::{Request, SETS_ROOT};
use crate::client::Target;
use crate::measure::{await_quiet, resident_of};
use crate::up;

/// How long a plane may take to take what a scene needs.
const READY_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Where objects are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Store {
    Memory,
    /// Every commit is synced to disk, which is the default.
    Disk,
}

impl Store {
    pub fn name(self) -> &'static str {
        match self {
            Store::Memory => "memory",
            Store::Disk => "disk",
        }
    }
}

/// A plane at work; it ends with the value.
pub struct Plane {
    pub target: Target,
    pub pid: u32,
    child: Child,
    _folder: TempDir,
}

impl Plane {
    /// No JobSet controller runs: the bench writes the final status of JobSets.
    pub fn bare(store: Store) -> Plane {
        let plane = Plane::start(store, &["--sim-nodes", "0", "--controllers", "trainer,gc,namespace"]);
        // Their API is served by default only where their controller runs.
        let definition = real::crd_manifest(&up::binary(), real::JOBSET_CRD).expect("JobSets are defined");
        plane.furnish([(format!("POST {DEFINITIONS}"), "application/json", definition)]);
        let served = || plane.target.ask(&format!("GET {SETS_ROOT}/jobsets"), &Tree::Null).0 == 200;
        let began = Instant::now();
        while !served() {
            assert!(began.elapsed() < READY_MAX, "JobSets are not served within {READY_MAX:?}");
            std::thread::sleep(LOOK_EVERY);
        }
        plane
    }

    /// All parts, with simulated nodes.
    pub fn whole(store: Store, nodes: usize) -> Plane {
        Plane::start(store, &["--sim-nodes", &nodes.to_string()])
    }

    fn start(store: Store, words: &[&str]) -> Plane {
        let folder = TempDir::new().expect("a folder can be made");
        let kubeconfig = folder.path().join("kubeconfig");
        let data = folder.path().join("data").display().to_string();
        let place: &[&str] = match store {
            Store::Memory => &["--ephemeral"],
            Store::Disk => &["--data-dir", &data],
        };
        let child = up::start(&kubeconfig.display().to_string(), &[place, words].concat());
        Plane { target: Target::of_kubeconfig(&kubeconfig), pid: child.id(), child, _folder: folder }
    }

    /// Makes what the scene needs, each as soon as it is taken.
    pub fn furnish(&self, requests: impl IntoIterator<Item = Request>) {
        for (call, _, body) in requests {
            let began = Instant::now();
            loop {
                let (code, answer) = self.target.ask(&call, &body);
                if matches!(code, 201 | 409) {
                    break;
                }
                let answer = String::from_utf8_lossy(&answer);
                assert!(began.elapsed() < READY_MAX, "{call}: {code}: {answer}");
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    pub fn numbers(&self) -> Numbers {
        let (_, body) = self.target.ask("GET /metrics", &Tree::Null);
        Numbers(String::from_utf8_lossy(&body).into_owned())
    }

    /// How many objects of these resources are stored.
    pub fn stored<const N: usize>(&self, resources: [&str; N]) -> [usize; N] {
        let numbers = self.numbers();
        let of = |label: &str| numbers.sum("apiserver_storage_objects", label) as usize;
        // Of the core group, or of another, which follows.
        resources.map(|it| of(&format!("resource=\"{it}\"")) + of(&format!("resource=\"{it}.")))
    }

    /// Waits until controllers have nothing left to look at: they may use little CPU and still have much to do.
    pub fn await_still(&self) {
        let looks = || self.numbers().sum("muster_controller_plans_total", "");
        let began = Instant::now();
        let mut before = looks();
        while began.elapsed() < READY_MAX {
            await_quiet(self.pid);
            let now = looks();
            if now == before {
                return;
            }
            before = now;
        }
    }

    pub fn resident(&self) -> u64 {
        resident_of(self.pid)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
