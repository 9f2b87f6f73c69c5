//! The HTTP layer: connections, TLS, authentication, content negotiation, routing, watch streams.
//!
//! # Invariants
//!
//! - TLS only. Unauthenticated requests may read health and version, nothing else.
//! - A client can neither stop the server nor exhaust its memory: bodies, headers, requests, watches and connections
//!   are bounded, panics are caught, and a slow watcher gets 410 and must list again.
//! - All async code of this crate is in this module.
//!
//! # Deliberately absent
//!
//! Authorization: every authenticated user may do everything.

pub mod aggregated_api;
pub mod authentication;
pub mod certificate;
pub mod certificate_authority;
mod client_verifier;
pub mod extension_route;
mod handler_chain;
pub mod health;
pub mod identity;
pub mod in_process;
pub mod kubeconfig;
pub mod kubelet_client;
pub mod kubelet_location;
mod kubelet_proxy;
mod kubernetes_service;
pub mod limits;
mod list_encoder;
pub mod listen;
pub mod metrics;
pub mod negotiation;
pub mod non_resource;
mod pod_subresource;
pub mod query;
mod read_handlers;
pub mod request_body;
pub mod request_info;
pub mod response;
mod sec1;
pub mod serialization_cache;
pub mod server_state;
pub mod service_account_jwt;
pub mod serving_cert;
pub mod shutdown;
pub mod verb;
pub mod virtual_api;
mod watch;
mod watch_websocket;
mod write_handlers;
mod write_timeout;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use muster_api::environment::{Clock, Entropy};

use self::authentication::{Authenticator, ServiceAccountTokens, user_of_certificate};
use self::extension_route::ExtensionRoute;
use self::health::HealthCheck;
use self::identity::{ADMIN_USER, IdentityError, MASTERS, SERVING_NAMES, ServerIdentity};
use self::kubelet_client::KubeletClient;
use self::kubelet_location::KubeletHandler;
use self::kubernetes_service::AdvertisedAddress;
use self::limits::{CONNECTIONS_MAX, InFlightLimits, RequestLimits};
use self::listen::{Listener, TlsConnection};
use self::metrics::{ApiServerMetrics, SharedRegistry};
use self::server_state::ServerState;
use self::service_account_jwt::TokenSigningKey;
use self::shutdown::StopHandle;
use self::virtual_api::ApiProvider;
use crate::engine::ApiEngine;
use crate::request::UserInfo;

pub struct ServerOptions {
    /// The bound socket to serve on.
    pub listener: StdListener,
    pub identity: ServerIdentity,
    /// Bearer tokens and the users they authenticate, besides the admin token.
    pub static_tokens: Vec<(String, UserInfo)>,
    /// Checks for `/readyz` and `/livez` besides `ping`.
    pub checks: Vec<HealthCheck>,
    /// Kubelets in this process: requests for logs and exec of their pods bypass the network.
    pub local_kubelets: Option<Arc<dyn KubeletHandler>>,
    /// Serves API groups without storage.
    pub api_provider: Option<Arc<dyn ApiProvider>>,
    /// Serves paths with tokens of their own.
    pub extension_route: Option<Arc<dyn ExtensionRoute>>,
    pub bounds: RequestLimits,
    /// The metrics registry of the whole process.
    pub metrics: SharedRegistry,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
}

#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("listening: {0}")]
    Listen(#[from] io::Error),
}

/// A running server; dropping it shuts it down, too.
pub struct ApiServer {
    address: SocketAddr,
    stopper: StopHandle,
    accepting: tokio::task::JoinHandle<()>,
}

impl ApiServer {
    /// Starts serving. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Certificates cannot be generated, or the socket cannot be used.
    pub fn start(engine: ApiEngine, options: ServerOptions) -> Result<ApiServer, ServerStartError> {
        let address = options.listener.local_addr()?;
        let tls = options.identity.tls(Some(address.ip()))?;
        let dialer = KubeletClient::new(&options.identity.node_client_certificate()?)?;
        let (stopper, stop) = shutdown::pair();
        let key = TokenSigningKey::new(options.identity.token_key())
            .ok_or(IdentityError::Damaged("key for service account tokens"))?;
        let accounts = Arc::new(ServiceAccountTokens::new(
            key,
            engine.store().clone(),
            options.clock.clone(),
            options.entropy.clone(),
        ));
        // The engine issues tokens (TokenRequest), the authenticator verifies them: both share one key.
        engine.set_tokens(accounts.clone());
        let mut tokens = options.static_tokens;
        tokens.push((options.identity.admin_token().to_owned(), admin()));
        let mut checks = vec![HealthCheck::always_passing("ping")];
        checks.extend(options.checks);
        let shared = Arc::new(ServerState {
            engine,
            auth: Authenticator::new(tokens, accounts),
            limits: InFlightLimits::new(&options.bounds),
            bounds: options.bounds,
            metrics: ApiServerMetrics::new(options.metrics),
            discovery: non_resource::DiscoveryCache::default(),
            lines: Arc::default(),
            checks,
            local_kubelets: options.local_kubelets,
            api_provider: options.api_provider,
            extension_route: options.extension_route,
            dialer,
            address,
            hosts: hosts(address),
            clock: options.clock,
            entropy: options.entropy,
            stop: stop.clone(),
        });
        let advertised = AdvertisedAddress::of(address);
        // Before the first connection is accepted, so that no client sees a cluster without the `kubernetes` Service.
        kubernetes_service::reconcile(&shared.engine, advertised);
        tokio::spawn(kubernetes_service::run(shared.engine.clone(), advertised, stop.clone()));
        let listener = Listener::new(options.listener, tls, CONNECTIONS_MAX, stop)?;
        let accepting = tokio::spawn(listener.serve(move |stream: &TlsConnection| {
            let (shared, peer, open) = (shared.clone(), peer_of(stream), OpenConnection::new(&shared));
            move |request| {
                let _counted = &open;
                handler_chain::serve(shared.clone(), peer.clone(), request)
            }
        }));
        Ok(ApiServer { address, stopper, accepting })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shuts down: watches end, requests in flight get a short grace period, then connections are closed.
    pub async fn stop(self) {
        self.stopper.stop();
        let _ = self.accepting.await;
    }
}

fn admin() -> UserInfo {
    UserInfo { name: ADMIN_USER.into(), groups: vec![MASTERS.into()], ..UserInfo::default() }
}

/// On loopback only known host names are accepted, which blocks DNS rebinding; on other addresses the server cannot
/// know its names.
fn hosts(address: SocketAddr) -> Option<Vec<String>> {
    address.ip().is_loopback().then(|| {
        let mut names: Vec<String> = SERVING_NAMES.iter().map(ToString::to_string).collect();
        let ip = address.ip().to_string();
        if !names.contains(&ip) {
            names.push(ip);
        }
        names
    })
}

/// The user of the connection's client certificate.
fn peer_of(stream: &TlsConnection) -> Option<Arc<UserInfo>> {
    let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
    certificate.and_then(|der| user_of_certificate(der)).map(Arc::new)
}

/// Counts a connection in the metrics while it is open.
struct OpenConnection(Arc<ServerState>);

impl OpenConnection {
    fn new(shared: &Arc<ServerState>) -> OpenConnection {
        shared.metrics.connections.inc();
        OpenConnection(shared.clone())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}
