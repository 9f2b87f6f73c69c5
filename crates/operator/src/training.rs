//! Maps Trainer's configuration to the settings of the TrainJob controller, the progress endpoint and bundled objects.

use std::time::Duration;

use muster_api::gang_objects::GangSupport;
use muster_control::training::{ProgressEndpoint, TrainJobControllerConfig};
use muster_install::names::TRAINING_NAMESPACE;
use muster_install::training::cache_account;
use muster_trainer::controller::DeadlineClock;
use muster_trainer::kinds::bundled_runtimes::{
    DATA_CACHE_RUNTIME, VERSION, bundled_runtimes, version_config_map,
};
use muster_tree::{Tree, tree};

use crate::config::{TRAIN_JOBS_AT_ONCE, TrainJobConfig, UpstreamDocuments};
use crate::progress_api::rate_limit::ProgressRateLimit;

/// Concurrent TrainJob deletions of the operator by default: a quarter of the request slots of a cluster connection
/// (`REQUESTS_IN_FLIGHT_MAX` of `muster_cluster`) stays free for everything else.
pub(crate) const CLUSTER_DELETIONS_MAX: usize = 48;
/// The default of `muster up`: each deletion waits for the disk of its own server, which commits many at once.
pub const EMBEDDED_DELETIONS_MAX: usize = 100;
/// Trainer's defaults for `statusServer`: port, queries per second, burst.
const STATUS_SERVER_PORT: u16 = 10443;
const STATUS_SERVER_QPS: f64 = 5.0;
const STATUS_SERVER_BURST: u32 = 10;
/// The lowest configurable rate: one report in a thousand seconds.
const QPS_MIN: f64 = 0.001;

/// TrainJob settings from Trainer's document and `trainjob` of our own, defaults for the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainJobSettings {
    /// What `activeDeadlineSeconds` counts from.
    pub clock: DeadlineClock,
    pub deletions_max: usize,
    /// Registry mirror for the images of the bundled runtimes; empty for the upstream registries.
    pub registry: String,
    /// Whether the runtime with a data cache is bundled.
    pub data_cache: bool,
    /// Port of the progress endpoint.
    pub status_port: u16,
    /// Rate limit for writing reports to the API server.
    pub status_rate_limit: ProgressRateLimit,
}

/// The settings; `usual` is the default for concurrent deletions.
#[must_use]
pub fn settings(ours: &TrainJobConfig, kept: &UpstreamDocuments, usual: usize) -> TrainJobSettings {
    let number = |path: &[&str]| kept.training.as_ref().and_then(|it| it.int_at(path));
    let at_once = number(&["controller", "groupKindConcurrency", TRAIN_JOBS_AT_ONCE]);
    TrainJobSettings {
        clock: ours.deadline_clock.0,
        deletions_max: at_once.and_then(|it| usize::try_from(it).ok()).unwrap_or(usual),
        registry: ours.registry.clone(),
        data_cache: ours.data_cache,
        status_port: number(&["statusServer", "port"])
            .and_then(|it| u16::try_from(it).ok())
            .unwrap_or(STATUS_SERVER_PORT),
        status_rate_limit: rate_limit(kept),
    }
}

/// The rate limit of reports; zero means the default, as in Trainer.
fn rate_limit(kept: &UpstreamDocuments) -> ProgressRateLimit {
    let server = kept.training.as_ref().and_then(|it| it.get("statusServer"));
    let a_second = server.and_then(|it| it.get("qps")?.as_float()).filter(|it| *it > 0.0);
    let burst = server.and_then(|it| u32::try_from(it.int_at(&["burst"])?).ok()).filter(|it| *it > 0);
    ProgressRateLimit {
        interval: Duration::from_secs_f64(1.0 / a_second.unwrap_or(STATUS_SERVER_QPS).max(QPS_MIN)),
        burst: burst.unwrap_or(STATUS_SERVER_BURST),
    }
}

/// The settings of the TrainJob controller for this gang API and progress endpoint.
#[must_use]
pub fn controller_settings(
    of: &TrainJobSettings,
    gangs: Option<GangSupport>,
    reporting: Option<ProgressEndpoint>,
) -> TrainJobControllerConfig {
    TrainJobControllerConfig {
        clock: of.clock,
        gangs,
        progress_endpoint: reporting,
        deletions_max: of.deletions_max,
    }
}

/// Objects that an embedded server creates at the start: the bundled runtimes and the version ConfigMap. The runtime with a
/// cache, and the ServiceAccount of its initializer, are added by `dataCache`.
#[must_use]
pub fn bundled_objects(of: &TrainJobSettings) -> Vec<Tree> {
    let namespace =
        tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TRAINING_NAMESPACE}});
    let mut all = vec![namespace, version_config_map(TRAINING_NAMESPACE, VERSION)];
    let is_wanted = |it: &Tree| of.data_cache || it.str_at(&["metadata", "name"]) != DATA_CACHE_RUNTIME;
    all.extend(bundled_runtimes(&of.registry).into_iter().filter(is_wanted));
    if of.data_cache {
        all.extend(cache_account());
    }
    all
}
