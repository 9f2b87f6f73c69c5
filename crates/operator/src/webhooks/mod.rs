//! Admission and conversion webhooks for JobSets, queues and TrainJobs: the decisions of the embedded server over HTTPS.
//!
//! # Guarantees
//!
//! - First the server listens, then the webhooks are registered, then the operator announces that it leads.
//! - Bounded memory and time: connections, concurrent reviews, body sizes and durations are limited.
//! - By URL the CA is created at every start and never persisted; the registration publishes it. Behind a Service the
//!   certificates are persisted and rotated ([`crate::certificates`]).
//!
//! # Deliberately absent
//!
//! Authentication of reviews: a client that reaches the port learns nothing from a decision. The visibility API on the
//! same port authenticates and authorizes ([`crate::aggregated`]).

mod admission_review;
mod conversion;
mod handlers;
mod http_limits;
mod live_lister;
mod metrics;
mod namespace_scope;
mod registration;
mod review_server;
mod self_test;
mod service_server;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::ControlFlow;
use std::sync::Arc;

use http::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use muster_api::consts::jobset as words;
use muster_apiserver::http::certificate_authority::CertificateAuthority;
use muster_apiserver::http::identity::IdentityError;
use muster_apiserver::http::listen::{self, Listener, ServerConfig, TlsConnection};
use muster_apiserver::http::shutdown::{self, StopHandle};
use muster_cluster::KubeApi;
use muster_install::webhooks::AdmissionStep;

pub use self::handlers::AdmissionHandlers;
use self::live_lister::ListerFactory;
pub use self::live_lister::{LiveCluster, SUBJECT_ACCESS_REVIEWS};
pub use self::metrics::{WebhookCounts, WebhookMetrics};
pub use self::namespace_scope::run as keep_everybody;
use self::registration::Registration;
pub use self::registration::{MANAGER, RegisterError, cluster_request, exact_preconditions};
use self::review_server::ReviewServer;
pub use self::service_server::{ServiceServerOptions, ServiceWebhookServer};
use crate::aggregated::AggregatedEndpoint;
use crate::ports::SystemClock;

/// Concurrent connections: an API server keeps few and multiplexes requests over each.
const CONNECTIONS_MAX: usize = 256;
/// Subject names; a CA must not have the subject of what it signs.
const SERVING_SUBJECT: &str = "muster-webhooks";
const CA_SUBJECT: &str = "muster-webhooks-ca";

#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The unspecified address is none that an API server could call.
    #[error(
        "webhooks cannot be called at {0}\n\nhint: name the one address that the API server reaches with `--webhook-listen ADDRESS:PORT`"
    )]
    UnspecifiedAddress(SocketAddr),
    #[error("listening on {address}: {source}\n\nhint: choose another address with `--webhook-listen`")]
    Listen {
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    #[error(transparent)]
    Certificate(#[from] IdentityError),
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// A running HTTPS listener.
struct HttpsServer {
    stopper: StopHandle,
    serving: tokio::task::JoinHandle<()>,
}

impl HttpsServer {
    /// Serves webhooks on this socket, and the visibility API where it is given. Must be called inside a tokio runtime.
    fn start(
        listener: TcpListener,
        tls: ServerConfig,
        reviews: Arc<ReviewServer>,
        handed: Option<Arc<AggregatedEndpoint>>,
    ) -> io::Result<HttpsServer> {
        let (stopper, stop) = shutdown::pair();
        let listener = Listener::new(listener, tls, CONNECTIONS_MAX, stop)?;
        let serving = tokio::spawn(listener.serve(move |by: &TlsConnection| {
            let (desk, handed, shown) =
                (reviews.clone(), handed.clone(), Arc::new(listen::peer_certificates(by)));
            move |request: Request<Incoming>| {
                let (desk, shown) = (desk.clone(), shown.clone());
                let handed = handed.clone().filter(|_| AggregatedEndpoint::serves(request.uri().path()));
                async move {
                    match handed {
                        Some(handed) => handed.serve(&shown, request).await.map(Either::Right),
                        None => desk.serve(request).await.map(Either::Left),
                    }
                }
            }
        }));
        Ok(HttpsServer { stopper, serving })
    }

    /// Stops accepting, and completes requests in flight.
    async fn stop(self) {
        self.stopper.stop();
        let _ = self.serving.await;
    }
}

/// A running webhook server that is reached by URL.
pub struct UrlWebhookServer {
    desk: Arc<ReviewServer>,
    steps: Vec<AdmissionStep>,
    base: String,
    authority: CertificateAuthority,
    server: HttpsServer,
}

impl UrlWebhookServer {
    /// Serves at this address; port 0 picks a free one. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn start(
        address: SocketAddr,
        live: Box<dyn ListerFactory>,
        deciders: AdmissionHandlers,
        tally: Arc<WebhookMetrics>,
    ) -> Result<UrlWebhookServer, WebhookError> {
        if address.ip().is_unspecified() {
            return Err(WebhookError::UnspecifiedAddress(address));
        }
        let wrong = |source| WebhookError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(wrong)?;
        let base = format!("https://{}", listener.local_addr().map_err(wrong)?);
        let authority = CertificateAuthority::generate_default(CA_SUBJECT, &SystemClock)?;
        let tls = authority.server_config(SERVING_SUBJECT, vec![address.ip().to_string()], None)?;
        let steps = deciders.steps().collect();
        let desk = Arc::new(ReviewServer::new(live, deciders, tally));
        let served = HttpsServer::start(listener, tls, desk.clone(), None).map_err(wrong)?;
        Ok(UrlWebhookServer { desk, steps, base, authority, server: served })
    }

    /// Registers the webhooks and waits until the API server calls them, if it serves JobSets: a dry run of a JobSet in this
    /// namespace, the operator's own, triggers the calls. Rolls back and returns early when `quit` resolves.
    ///
    /// # Errors
    /// The API server rejects the registration, or does not reach the webhooks.
    pub async fn register<Q>(
        &self,
        api: &KubeApi,
        namespace: &str,
        jobsets: bool,
        quit: impl Future<Output = Q>,
    ) -> Result<ControlFlow<Q>, RegisterError> {
        let (authority, steps) = (self.authority.certificate(), &self.steps);
        let registration = Registration::new(api, namespace, &self.base, authority, steps);
        let heard: &dyn Fn() -> bool = &|| self.desk.was_called(words::KIND);
        let done = registration.run(jobsets.then_some(heard), quit).await?;
        if done.is_continue() {
            self.desk.set_ready(true);
        }
        Ok(done)
    }

    /// Stops accepting, and completes requests in flight.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}
