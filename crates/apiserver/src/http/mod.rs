//! HTTP around the engine: connections, TLS, authentication, negotiation, routing, watch streams.
//!
//! # Invariants
//!
//! - TLS always. Somebody unknown sees health and version, nothing else.
//! - A client can neither stop the server nor make it grow: bodies, headers, requests, watches and connections
//!   have bounds, panics are caught, a slow reader of a watch is told to list again.
//! - Everything async of this crate lives here.
//!
//! # Deliberately absent
//!
//! Who may do what: in this tier everybody who is known may do everything.

pub mod accept;
pub mod answer;
pub mod aside;
mod ask;
pub mod auth;
pub mod authority;
pub mod away;
pub mod body;
pub mod certificate;
pub mod context;
pub mod discover;
pub mod handed;
pub mod health;
pub mod identity;
pub mod in_process;
pub mod info;
pub mod jwt;
pub mod kubeconfig;
mod kubernetes_service;
pub mod limits;
pub mod lines;
pub mod listen;
pub mod metrics;
pub mod nodes;
mod pieces;
pub mod query;
mod reads;
mod route;
mod sec1;
pub mod serving;
pub mod stop;
mod streams;
mod timely;
pub mod told;
pub mod verb;
mod watch;
mod watch_socket;
mod writes;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;

use muster_api::ports::{Clock, Entropy};

use self::aside::Aside;
use self::auth::{AccountTokens, Authenticator, user_of_certificate};
use self::away::Dialer;
use self::context::Shared;
use self::health::Check;
use self::identity::{ADMIN_USER, Identity, IdentityError, MASTERS, SERVING_NAMES};
use self::jwt::TokenKey;
use self::kubernetes_service::Advertised;
use self::limits::{Bounds, CONNECTIONS_MAX, Limits};
use self::listen::{Connected, Listener};
use self::metrics::{Metrics, SharedRegistry};
use self::nodes::NodeDoor;
use self::stop::Stopper;
use self::told::Teller;
use crate::engine::Engine;
use crate::request::User;

/// What a server is made of.
pub struct ServerOptions {
    /// Where it listens.
    pub listener: StdListener,
    /// Its keys.
    pub identity: Identity,
    /// Further tokens and whom they stand for.
    pub static_tokens: Vec<(String, User)>,
    /// What must be ready besides the server itself.
    pub checks: Vec<Check>,
    /// The nodes of this process, if it has any: their pods' logs and commands need no network.
    pub nodes: Option<Arc<dyn NodeDoor>>,
    /// Who answers for groups that are not stored, if anybody does.
    pub teller: Option<Arc<dyn Teller>>,
    /// Who answers what is asked with tokens of its own, if anybody does.
    pub aside: Option<Arc<dyn Aside>>,
    /// Bounds.
    pub bounds: Bounds,
    /// Numbers of all parts of the process.
    pub metrics: SharedRegistry,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its keys.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket.
    #[error("listening: {0}")]
    Listen(#[from] io::Error),
}

/// A server that runs until it is stopped.
pub struct Server {
    address: SocketAddr,
    stopper: Stopper,
    accepting: tokio::task::JoinHandle<()>,
}

impl Server {
    /// Starts answering. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When certificates cannot be made or the socket cannot be used.
    pub fn start(engine: Engine, options: ServerOptions) -> Result<Server, StartError> {
        let address = options.listener.local_addr()?;
        let tls = options.identity.tls(Some(address.ip()))?;
        let dialer = Dialer::new(&options.identity.node_client_certificate()?)?;
        let (stopper, stop) = stop::pair();
        let key = TokenKey::new(options.identity.token_key())
            .ok_or(IdentityError::Damaged("key for service account tokens"))?;
        let accounts = Arc::new(AccountTokens::new(
            key,
            engine.store().clone(),
            options.clock.clone(),
            options.entropy.clone(),
        ));
        engine.set_tokens(accounts.clone());
        let mut tokens = options.static_tokens;
        tokens.push((options.identity.admin_token().to_owned(), admin()));
        let mut checks = vec![Check::passed("ping")];
        checks.extend(options.checks);
        let shared = Arc::new(Shared {
            engine,
            auth: Authenticator::new(tokens, accounts),
            limits: Limits::new(&options.bounds),
            bounds: options.bounds,
            metrics: Metrics::new(options.metrics),
            discovery: discover::Discovery::default(),
            lines: Arc::default(),
            checks,
            nodes: options.nodes,
            teller: options.teller,
            aside: options.aside,
            dialer,
            address,
            hosts: hosts(address),
            clock: options.clock,
            entropy: options.entropy,
            stop: stop.clone(),
        });
        let advertised = Advertised::of(address);
        kubernetes_service::reconcile(&shared.engine, advertised);
        tokio::spawn(kubernetes_service::keep(shared.engine.clone(), advertised, stop.clone()));
        let listener = Listener::new(options.listener, tls, CONNECTIONS_MAX, stop)?;
        let accepting = tokio::spawn(listener.serve(move |stream: &Connected| {
            let (shared, peer, open) = (shared.clone(), peer_of(stream), Open::new(&shared));
            move |request| {
                let _counted = &open;
                route::serve(shared.clone(), peer.clone(), request)
            }
        }));
        Ok(Server { address, stopper, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops: ends watches, lets requests under way finish for a moment, closes the rest.
    pub async fn stop(self) {
        self.stopper.stop();
        let _ = self.accepting.await;
    }
}

fn admin() -> User {
    User { name: ADMIN_USER.into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// On loopback only our own names are answered; elsewhere we cannot know what we are called.
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

/// Whom the certificate of a connection names.
fn peer_of(stream: &Connected) -> Option<Arc<User>> {
    let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
    certificate.and_then(|der| user_of_certificate(der)).map(Arc::new)
}

/// Counts a connection for as long as it is open.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Open {
        shared.metrics.connections.inc();
        Open(shared.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.metrics.connections.dec();
    }
}
