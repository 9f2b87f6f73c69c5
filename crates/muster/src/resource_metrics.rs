//! The resource metrics API (`metrics.k8s.io/v1beta1`) of the local node: what `kubectl top` shows.
//!
//! # Guarantees
//!
//! - CPU is measured between two samples that are between [`WINDOW_MIN`] and [`WINDOW_MAX`] apart; `window` says how far.
//!   The sample of the last request is the first one of the next, so that only a request after a pause waits.
//! - Memory is the working set: what a pod holds and cannot give back at once.
//!
//! # Deliberately absent
//!
//! A history, and anything that runs while no client asks. Simulated nodes and their pods, which use nothing, and containers
//! that docker or podman runs: they are not in lists, and a GET of one says why.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::environment::Clock;
use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::time::Time;
use muster_apiserver::engine::ApiEngine;
use muster_apiserver::http::virtual_api::{ApiProvider, ProviderFuture, ProviderRequest, VirtualResource};
use muster_apiserver::registry::Resource;
use muster_apiserver::request::{ListOptions, ResourcePath};
use muster_apiserver::status::{Status, StatusObject};
use muster_process::{ContainerRuntime, ContainerUsage, PodRegistry, RunId, node_usage};
use muster_tree::{Text, Tree, tree};
use tokio::time::{Instant, sleep};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
const API_VERSION: &str = "metrics.k8s.io/v1beta1";
const NODES: &str = "nodes";
const PODS: &str = "pods";
/// The shortest window of CPU usage.
const WINDOW_MIN: Duration = Duration::from_secs(1);
/// The longest window: a rate over an older sample would hide current load.
const WINDOW_MAX: Duration = Duration::from_secs(60);
const COLUMNS: &[(&str, &str, &str)] = &[
    ("CPU", "string", ".usage.cpu"),
    ("Memory", "string", ".usage.memory"),
    ("Window", "string", ".window"),
];
const POD_COLUMNS: &[(&str, &str, &str)] = &[
    ("CPU", "string", ".containers[*].usage.cpu"),
    ("Memory", "string", ".containers[*].usage.memory"),
    ("Window", "string", ".window"),
];

/// The cumulative usage of the node and of all containers at one instant.
#[derive(Debug, Clone)]
struct UsageSample {
    at: Instant,
    node: ContainerUsage,
    runs: BTreeMap<RunId, ContainerUsage>,
}

/// Usage between two samples, as `metrics.k8s.io` writes it.
struct UsageWindow {
    runs: BTreeMap<RunId, Tree>,
    node: Tree,
    window: String,
    at: Time,
}

pub struct ResourceMetricsApi {
    inner: Arc<Inner>,
    resources: Vec<Arc<Resource>>,
}

struct Inner {
    node: Text,
    engine: ApiEngine,
    containers: Arc<dyn ContainerRuntime>,
    registry: Arc<PodRegistry>,
    clock: Arc<dyn Clock>,
    previous: Mutex<Option<UsageSample>>,
}

impl ResourceMetricsApi {
    /// The metrics of the node with this name.
    #[must_use]
    pub fn new(
        node: Text,
        engine: ApiEngine,
        containers: Arc<dyn ContainerRuntime>,
        roster: Arc<PodRegistry>,
        clock: Arc<dyn Clock>,
    ) -> ResourceMetricsApi {
        let offered = |plural, kind, namespaced, columns| VirtualResource {
            group: GROUP,
            versions: &[VERSION],
            plural,
            kind,
            namespaced,
            verbs: &["get", "list"],
            subresources: &[],
            columns,
        };
        let all =
            [offered(NODES, "NodeMetrics", false, COLUMNS), offered(PODS, "PodMetrics", true, POD_COLUMNS)];
        let inner = Inner { node, engine, containers, registry: roster, clock, previous: Mutex::default() };
        ResourceMetricsApi {
            inner: Arc::new(inner),
            resources: all.iter().map(VirtualResource::resource).collect(),
        }
    }
}

impl ApiProvider for ResourceMetricsApi {
    fn resources(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    fn answer(&self, question: ProviderRequest) -> ProviderFuture {
        let inner = self.inner.clone();
        Box::pin(async move {
            // Look the objects up first: a GET of an unknown object must not wait a second for a sample.
            let objects = inner.target_objects(&question)?;
            let measured = inner.measure().await?;
            inner.respond(&question.target, &objects, &measured)
        })
    }
}

impl Inner {
    /// The Nodes or Pods that a request selects.
    fn target_objects(&self, question: &ProviderRequest) -> Result<Vec<Tree>, Status> {
        let target = ResourcePath { group: Text::new(), version: "v1".into(), ..question.target.clone() };
        if !target.name.is_empty() {
            let found = self.engine.get(&target, &ListOptions::default());
            return found.map(|object| vec![object.tree]).map_err(|status| match status.code {
                404 => Status::not_found(status_object(&question.target)),
                _ => status,
            });
        }
        let asked = question.query.list_options()?;
        let options = ListOptions {
            label_selector: asked.label_selector,
            field_selector: asked.field_selector,
            ..ListOptions::default()
        };
        Ok(self.engine.list(&target, &options)?.objects.into_iter().map(|object| object.tree).collect())
    }

    async fn measure(self: &Arc<Inner>) -> Result<UsageWindow, Status> {
        let recent = self.previous.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = match recent.filter(|sample| sample.at.elapsed() <= WINDOW_MAX) {
            Some(sample) => sample,
            None => self.sample().await?,
        };
        sleep(WINDOW_MIN.saturating_sub(before.at.elapsed())).await;
        let now = self.sample().await?;
        *self.previous.lock().unwrap_or_else(PoisonError::into_inner) = Some(now.clone());
        Ok(measured(&before, &now, self.clock.now()))
    }

    /// Takes a sample on a blocking thread: it reads `/proc`, so its time grows with the number of processes.
    async fn sample(self: &Arc<Inner>) -> Result<UsageSample, Status> {
        let inner = self.clone();
        let sample = tokio::task::spawn_blocking(move || {
            let runs = inner.containers.list_runs().into_iter();
            let runs = runs.filter_map(|id| inner.containers.usage(&id).map(|usage| (id, usage))).collect();
            UsageSample { at: Instant::now(), node: node_usage(), runs }
        });
        sample.await.map_err(|error| Status::internal(format!("measuring containers: {error}")))
    }

    fn respond(
        &self,
        target: &ResourcePath,
        objects: &[Tree],
        measured: &UsageWindow,
    ) -> Result<Tree, Status> {
        let is_nodes = target.resource == NODES;
        let metrics = |object: &Tree| match is_nodes {
            true => self.node_metrics(object, measured),
            false => self.pod_metrics(object, measured),
        };
        if target.name.is_empty() {
            let kind = if is_nodes { "NodeMetricsList" } else { "PodMetricsList" };
            let items = Tree::list(objects.iter().filter_map(metrics));
            return Ok(tree!({"kind": kind, "apiVersion": API_VERSION, "metadata": {}, "items": items}));
        }
        objects.first().and_then(metrics).ok_or_else(|| self.unmeasured(target))
    }

    /// The 404 for an object that exists but is not measured.
    fn unmeasured(&self, target: &ResourcePath) -> Status {
        let status = Status::not_found(status_object(target));
        let why = "only running containers of the local node are measured: simulated nodes, other machines and \
                   containers of docker or podman are not";
        Status { message: format!("{}: {why} (local node: {})", status.message, self.node), ..status }
    }

    fn node_metrics(&self, node: &Tree, measured: &UsageWindow) -> Option<Tree> {
        let is_local = meta::name(node) == self.node;
        let usage = ("usage", measured.node.clone());
        is_local.then(|| metrics_object("NodeMetrics", node, measured, usage))
    }

    fn pod_metrics(&self, pod: &Tree, measured: &UsageWindow) -> Option<Tree> {
        if pod.str_at(pod_path::NODE_NAME) != self.node.as_str() {
            return None;
        }
        let (namespace, name, uid) = (meta::namespace(pod), meta::name(pod), meta::uid(pod).to_string());
        let resident = self.registry.find(&namespace, &name).filter(|it| it.uid == uid)?;
        let containers = resident.attempts.into_iter().filter_map(|(container, attempt)| {
            let usage =
                measured.runs.get(&RunId { pod: uid.clone(), container: container.clone(), attempt })?;
            Some(tree!({"name": container, "usage": usage.clone()}))
        });
        let containers: Vec<Tree> = containers.collect();
        let used = ("containers", Tree::list(containers.clone()));
        (!containers.is_empty()).then(|| metrics_object("PodMetrics", pod, measured, used))
    }
}

fn status_object(target: &ResourcePath) -> StatusObject<'_> {
    StatusObject { group: GROUP, resource: &target.resource, name: &target.name }
}

/// A NodeMetrics or PodMetrics object with the name and labels of the object that it measures.
fn metrics_object(kind: &str, of: &Tree, measured: &UsageWindow, (key, used): (&str, Tree)) -> Tree {
    let mut metadata = tree!({"name": meta::name(of), "creationTimestamp": measured.at.to_seconds_text()});
    for key in ["namespace", "labels"] {
        metadata = metadata.with_option(&[key], of.at(&["metadata", key]).cloned());
    }
    tree!({"kind": kind, "apiVersion": API_VERSION, "metadata": metadata,
        "timestamp": measured.at.to_seconds_text(), "window": &measured.window})
    .with_key(key, used)
}

/// Pure: usage between two samples. A container that the earlier sample lacks started after it, from zero.
fn measured(before: &UsageSample, now: &UsageSample, at: Time) -> UsageWindow {
    let window = now.at.saturating_duration_since(before.at);
    let none = ContainerUsage::default();
    let runs = now.runs.iter().map(|(id, usage)| {
        let earlier = before.runs.get(id).unwrap_or(&none);
        (id.clone(), quantities(*earlier, *usage, window))
    });
    UsageWindow {
        runs: runs.collect(),
        node: quantities(before.node, now.node, window),
        window: format!("{:.3}s", window.as_secs_f64()),
        at,
    }
}

/// CPU in billionths of a core and memory in KiB, as metrics-server writes them.
fn quantities(before: ContainerUsage, now: ContainerUsage, window: Duration) -> Tree {
    let spent = now.cpu.saturating_sub(before.cpu).as_nanos();
    let nanos = spent.saturating_mul(1_000_000_000) / window.as_nanos().max(1);
    tree!({"cpu": format!("{nanos}n"), "memory": format!("{}Ki", now.memory_bytes / 1024)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_what_was_spent_between_two_samples() {
        let id = |name: &str| RunId { pod: "u".into(), container: name.into(), attempt: 0 };
        let usage =
            |millis, mib: u64| ContainerUsage { cpu: Duration::from_millis(millis), memory_bytes: mib << 20 };
        let at = Instant::now();
        let before = UsageSample { at, node: usage(1_000, 100), runs: [(id("old"), usage(500, 10))].into() };
        let runs = [(id("old"), usage(1_500, 20)), (id("new"), usage(100, 5))].into();
        let now = UsageSample { at: at + Duration::from_secs(2), node: usage(4_000, 300), runs };
        let measured = measured(&before, &now, Time(0));
        assert_eq!(measured.window, "2.000s");
        assert_eq!(measured.node, tree!({"cpu": "1500000000n", "memory": "307200Ki"}));
        assert_eq!(measured.runs[&id("old")], tree!({"cpu": "500000000n", "memory": "20480Ki"}));
        assert_eq!(
            measured.runs[&id("new")],
            tree!({"cpu": "50000000n", "memory": "5120Ki"}),
            "it began in between"
        );
    }
}
