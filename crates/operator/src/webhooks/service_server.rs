//! The webhook server behind a Service: every replica serves it, leader or not.
//!
//! # Guarantees
//!
//! - Without a valid certificate TLS handshakes fail and `/readyz` reports not ready.
//! - After a stop signal requests are still served for a moment: API servers observe endpoint changes late.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_apiserver::http::identity::IdentityError;
use muster_apiserver::http::listen::ServerConfig;
use muster_apiserver::http::serving_cert::TlsOptions;
use muster_cluster::KubeApi;
use muster_control::queueing::visibility_query::VisibilityHandle;
use muster_install::webhooks::AdmissionStep;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::handlers::AdmissionHandlers;
use super::live_lister::LiveCluster;
use super::review_server::ReviewServer;
use super::{HttpsServer, WebhookError, WebhookMetrics, self_test};
use crate::aggregated::AggregatedEndpoint;
use crate::certificates::{CertReloader, CertRotator, CertificateLifetimes, SECRET, ServiceRef};
use crate::sockets;

/// How long the self-test may fail before it is logged; its interval until then, and after.
const SELF_TEST_GRACE: Duration = Duration::from_secs(30);
const SELF_TEST_INTERVAL: Duration = Duration::from_millis(200);
const SELF_TEST_SLOW_INTERVAL: Duration = Duration::from_secs(5);
/// How often the validity of the certificate is checked again.
const VALIDITY_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long requests are still served after a stop signal.
const SHUTDOWN_DELAY: Duration = Duration::from_secs(3);

/// Options of the server.
pub struct ServiceServerOptions {
    pub address: SocketAddr,
    /// The Service that selects the replicas.
    pub service: ServiceRef,
    pub tls: TlsOptions,
    pub lifetimes: CertificateLifetimes,
}

/// A running webhook server.
pub struct ServiceWebhookServer {
    options: ServiceServerOptions,
    server: HttpsServer,
    reloader: Arc<CertReloader>,
    /// The enabled admission steps.
    steps: Vec<AdmissionStep>,
    background: JoinSet<()>,
}

impl ServiceWebhookServer {
    /// Starts serving; `told` is called with the readiness after every change and periodically. With queue admission enabled,
    /// the visibility API is served on the same port. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn start(
        api: &KubeApi,
        manner: ServiceServerOptions,
        deciders: AdmissionHandlers,
        tally: Arc<WebhookMetrics>,
        queues: &VisibilityHandle,
        told: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<ServiceWebhookServer, WebhookError> {
        let address = manner.address;
        let listener = sockets::bind(address).map_err(|source| WebhookError::Listen { address, source })?;
        let holder = Arc::new(CertReloader::default());
        let tls = holder.resolver().config(&manner.tls)?;
        let steps: Vec<AdmissionStep> = deciders.steps().collect();
        let handed =
            steps.contains(&AdmissionStep::Queues).then(|| Arc::new(AggregatedEndpoint::new(api, queues)));
        let live = LiveCluster::new(api, &manner.service.namespace);
        let desk = Arc::new(ReviewServer::new(Box::new(live), deciders, tally));
        let ready = desk.clone();
        let told = move |holds: bool| {
            ready.set_ready(holds);
            told(holds);
        };
        let served = HttpsServer::start(listener, tls, desk, handed.clone())
            .map_err(|source| WebhookError::Listen { address, source })?;
        let mut following = JoinSet::new();
        if let Some(handed) = handed {
            let api = api.clone();
            following.spawn(async move { handed.watch_front_proxy_config(&api).await });
        }
        following.spawn(track_readiness(api.clone(), holder.clone(), manner.service.clone(), told));
        Ok(ServiceWebhookServer {
            options: manner,
            server: served,
            reloader: holder,
            steps,
            background: following,
        })
    }

    /// The certificate rotator, to be run by the leader.
    pub fn cert_rotator(&self, api: &KubeApi) -> CertRotator {
        CertRotator::new(api, &self.options.service, self.options.lifetimes, &self.reloader, &self.steps)
    }

    /// TLS configuration for another port of the same Service; it shares the certificate and its reloads.
    ///
    /// # Errors
    /// The TLS options are not supported.
    pub fn tls_config(&self) -> Result<ServerConfig, IdentityError> {
        self.reloader.resolver().config(&self.options.tls)
    }

    /// The CA bundle (PEM) and its changes; empty while there is no certificate.
    pub fn ca_bundle(&self) -> watch::Receiver<String> {
        self.reloader.ca_bundle()
    }

    /// Runs the self-test until the API server has called any replica; `word` makes this run's reply unique.
    pub fn wait_until_called(&self, api: &KubeApi, word: &str) -> impl Future<Output = ()> + Send + use<> {
        let (api, service, word) = (api.clone(), self.options.service.clone(), word.to_owned());
        async move { run_self_test(&api, &service, &word).await }
    }

    /// Serves for a moment longer, then stops.
    pub async fn stop(mut self) {
        self.background.shutdown().await;
        tokio::time::sleep(SHUTDOWN_DELAY).await;
        self.server.stop().await;
    }
}

async fn track_readiness(api: KubeApi, holder: Arc<CertReloader>, service: ServiceRef, told: impl Fn(bool)) {
    let still = async {
        loop {
            tokio::time::sleep(VALIDITY_CHECK_INTERVAL).await;
            told(holder.is_ready(&service));
        }
    };
    tokio::join!(holder.run(&api, &service, SECRET, &told), still);
}

/// Repeats the self-test until it succeeds; logs the last failure when that takes long.
async fn run_self_test(api: &KubeApi, service: &ServiceRef, word: &str) {
    let call = self_test::request(&service.namespace, Some(word));
    let (began, mut told) = (Instant::now(), String::new());
    loop {
        let said = match api.dry_run(&call).await {
            Err(refusal) if self_test::is_acknowledged(&refusal.message(), word) => return,
            Err(refusal) => refusal.message(),
            Ok(_) => "nothing; it accepts JobSets without calling the webhooks".to_owned(),
        };
        let late = began.elapsed() > SELF_TEST_GRACE;
        if late && said != told {
            tracing::warn!("{}", unreachable_warning(service, &said));
            told = said;
        }
        tokio::time::sleep(if late { SELF_TEST_SLOW_INTERVAL } else { SELF_TEST_INTERVAL }).await;
    }
}

fn unreachable_warning(service: &ServiceRef, said: &str) -> String {
    let ServiceRef { namespace, name } = service;
    format!(
        "the API server does not reach the webhooks through the Service {namespace}/{name}; it says: {said}. Until it does, \
         JobSets, queues and TrainJobs cannot be created or changed. Check that the Service has the port that the webhook configurations name, and selects \
         ready pods: `kubectl -n {namespace} get service {name}` and `kubectl -n {namespace} get endpointslices \
         -l kubernetes.io/service-name={name}`, or run `muster install` again"
    )
}
