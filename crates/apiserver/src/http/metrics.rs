//! Prometheus metrics of the API server.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The media type of OpenMetrics text.
pub const EXPOSITION: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Histogram buckets of request durations, in seconds.
const DURATIONS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 60.0];

/// The metrics registry of the process.
pub type SharedRegistry = Arc<Mutex<Registry>>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    pub verb: String,
    pub group: String,
    /// Plural resource; empty for non-resource paths.
    pub resource: String,
    pub code: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct DurationLabels {
    pub verb: String,
    pub resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ResourceLabels {
    /// The storage name, e.g. `jobs.batch`.
    pub resource: String,
}

/// The metrics of one server.
#[derive(Clone)]
pub struct ApiServerMetrics {
    registry: SharedRegistry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram>,
    pub watches: Gauge,
    pub connections: Gauge,
    revision: Gauge,
    objects: Family<ResourceLabels, Gauge>,
}

impl ApiServerMetrics {
    #[must_use]
    pub fn new(registry: SharedRegistry) -> Self {
        let durations = Family::new_with_constructor((|| Histogram::new(DURATIONS)) as fn() -> Histogram);
        let made = Self {
            registry,
            requests: Family::default(),
            durations,
            watches: Gauge::default(),
            connections: Gauge::default(),
            revision: Gauge::default(),
            objects: Family::default(),
        };
        made.register();
        made
    }

    fn register(&self) {
        let mut all = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        all.register("apiserver_request", "Requests answered", self.requests.clone());
        let help = "How long requests took, watches aside";
        all.register("apiserver_request_duration_seconds", help, self.durations.clone());
        all.register("apiserver_watches", "Watches under way", self.watches.clone());
        all.register("apiserver_connections", "Connections open", self.connections.clone());
        all.register("muster_store_revision", "Revision of the store", self.revision.clone());
        all.register("apiserver_storage_objects", "Objects stored", self.objects.clone());
    }

    /// Records a served request; durations of watches are left out, since they measure the client.
    pub fn record_request(&self, labels: &RequestLabels, took: Duration) {
        self.requests.get_or_create(labels).inc();
        if labels.verb != "watch" {
            let labels = DurationLabels { verb: labels.verb.clone(), resource: labels.resource.clone() };
            self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        }
    }

    /// Sets the gauges that are computed on scrape.
    pub fn set_store_gauges(&self, revision: u64, objects: impl IntoIterator<Item = (String, usize)>) {
        self.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
        // Resources without objects are not listed: drop their old values.
        self.objects.clear();
        for (resource, count) in objects {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.objects.get_or_create(&ResourceLabels { resource }).set(count);
        }
    }

    /// Encodes all metrics of the process.
    #[must_use]
    pub fn to_text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        text::encode(&mut out, &registry).expect("writing to a string never fails");
        out
    }
}
