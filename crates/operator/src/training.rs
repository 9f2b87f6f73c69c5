//! What is configured of TrainJobs, as their parts want to hear it.

use std::time::Duration;

use muster_api::gang_make::Gangs;
use muster_control::training::{Reporting, Settings};
use muster_install::names::TRAINING_NAMESPACE;
use muster_install::training::cache_account;
use muster_trainer::kinds::shipped::{VERSION, WITH_CACHE, public, shipped};
use muster_trainer::life::DeadlineClock;
use muster_tree::{Tree, tree};

use crate::config::{Kept, TRAIN_JOBS_AT_ONCE, TrainJobs};
use crate::reports::pace::Pace;

/// How many TrainJobs an operator deletes at once at most when nothing is said: of the calls that a cluster is sent at once
/// (`muster_cluster::CALLS_IN_FLIGHT_MAX`) a quarter stays for everything else.
pub(crate) const AT_ONCE: usize = 48;
/// How many `muster up` does: each deletion waits for the disk of its own server, which takes many in one go.
pub const AT_ONCE_HERE: usize = 100;
/// Where an operator hears what training tells of itself, and how often that is written, when nothing is said.
const REPORTS_PORT: u16 = 10443;
const REPORTS_A_SECOND: f64 = 5.0;
const REPORTS_BURST: u32 = 10;
/// The least reports a second that can be asked for: one in a thousand seconds.
const SLOWEST: f64 = 0.001;

/// What is configured of TrainJobs: by a document of Trainer's and by `trainjob` of ours, the rest by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configured {
    /// From when on deadlines count.
    pub clock: DeadlineClock,
    /// How many are deleted at once, at most.
    pub at_once: usize,
    /// The mirror that takes the place of the registries of the images of shipped runtimes.
    pub registry: String,
    /// Whether the runtime with a data cache comes along.
    pub data_cache: bool,
    /// The port at which an operator hears what training tells of itself.
    pub reports_port: u16,
    /// How often that is written.
    pub reports_pace: Pace,
}

/// What is configured of TrainJobs, so many of them at once where nothing is said.
#[must_use]
pub fn configured(ours: &TrainJobs, kept: &Kept, usual: usize) -> Configured {
    let number = |path: &[&str]| kept.training.as_ref().and_then(|it| it.int_at(path));
    let at_once = number(&["controller", "groupKindConcurrency", TRAIN_JOBS_AT_ONCE]);
    Configured {
        clock: ours.deadline_clock.0,
        at_once: at_once.and_then(|it| usize::try_from(it).ok()).unwrap_or(usual),
        registry: ours.registry.clone(),
        data_cache: ours.data_cache,
        reports_port: number(&["statusServer", "port"])
            .and_then(|it| u16::try_from(it).ok())
            .unwrap_or(REPORTS_PORT),
        reports_pace: pace(kept),
    }
}

/// Zero is as good as nothing: the rest is by default.
fn pace(kept: &Kept) -> Pace {
    let server = kept.training.as_ref().and_then(|it| it.get("statusServer"));
    let a_second = server.and_then(|it| it.get("qps")?.as_float()).filter(|it| *it > 0.0);
    let burst = server.and_then(|it| u32::try_from(it.int_at(&["burst"])?).ok()).filter(|it| *it > 0);
    Pace {
        every: Duration::from_secs_f64(1.0 / a_second.unwrap_or(REPORTS_A_SECOND).max(SLOWEST)),
        burst: burst.unwrap_or(REPORTS_BURST),
    }
}

/// What the controller goes by: how gangs are written, where they are, and where training tells how far it is, if it does.
#[must_use]
pub fn control(of: &Configured, gangs: Option<Gangs>, reporting: Option<Reporting>) -> Settings {
    Settings { clock: of.clock, gangs, reporting, deletions_max: of.at_once }
}

/// What an embedded server has from the first start on: the runtimes, and what tells clients the version. The runtime with
/// a cache, and the ServiceAccount of its initializer, are added by `dataCache`.
#[must_use]
pub fn comes_along(of: &Configured) -> Vec<Tree> {
    let namespace =
        tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TRAINING_NAMESPACE}});
    let mut all = vec![namespace, public(TRAINING_NAMESPACE, VERSION)];
    let is_wanted = |it: &Tree| of.data_cache || it.str_at(&["metadata", "name"]) != WITH_CACHE;
    all.extend(shipped(&of.registry).into_iter().filter(is_wanted));
    if of.data_cache {
        all.extend(cache_account());
    }
    all
}
