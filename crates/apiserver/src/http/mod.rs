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
mod ask;
pub mod auth;
pub mod away;
pub mod body;
pub mod context;
pub mod discover;
pub mod health;
pub mod identity;
pub mod info;
pub mod jwt;
pub mod kubeconfig;
pub mod limits;
pub mod lines;
pub mod metrics;
pub mod nodes;
mod pieces;
pub mod query;
mod reads;
mod route;
mod stop;
mod streams;
pub mod verb;
mod watch;
mod writes;

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use muster_api::ports::{Clock, Entropy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use self::answer::AnswerBody;
use self::auth::{AccountTokens, Authenticator, user_of_certificate};
use self::away::Dialer;
use self::context::Shared;
use self::health::Check;
use self::identity::{ADMIN_USER, Identity, IdentityError, MASTERS, SERVING_NAMES};
use self::jwt::TokenKey;
use self::limits::{Bounds, CONNECTIONS_MAX, HANDSHAKE_MAX, HEADER_BYTES_MAX, Limits};
use self::metrics::{Metrics, SharedRegistry};
use self::nodes::NodeDoor;
use self::stop::{Stop, Stopper};
use crate::engine::Engine;
use crate::request::User;

/// How long requests under way may take to finish when the server stops.
const STOP_WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a client may take to send the head of a request.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(30);
/// How often an idle HTTP/2 connection is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 1_000;

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
        options.listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(options.listener)?;
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
            dialer,
            address,
            hosts: hosts(address),
            clock: options.clock,
            entropy: options.entropy,
            stop: stop.clone(),
        });
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let accepting = tokio::spawn(accept_all(shared, listener, acceptor, stop));
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
    User { name: ADMIN_USER.into(), uid: Default::default(), groups: vec![MASTERS.into()] }
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

async fn accept_all(shared: Arc<Shared>, listener: TcpListener, acceptor: TlsAcceptor, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.stopped() => break,
            accepted = listener.accept() => accepted,
        };
        while connections.try_join_next().is_some() {}
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: those who leave give some back.
                tracing::warn!(%error, "accepting a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(max = CONNECTIONS_MAX, "too many connections: one was refused");
            continue;
        };
        let work = connection(shared.clone(), stream, acceptor.clone());
        connections.spawn(async move {
            work.await;
            drop(place);
        });
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(STOP_WAIT_MAX, all).await;
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, acceptor: TlsAcceptor) {
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, acceptor.accept(stream));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
    let peer = certificate.and_then(|der| user_of_certificate(der)).map(Arc::new);
    shared.metrics.connections.inc();
    let mut stop = shared.stop.clone();
    let metrics = shared.metrics.clone();
    let service = service_fn(move |request| {
        let work = route::serve(shared.clone(), peer.clone(), request);
        async move { Ok::<hyper::Response<AnswerBody>, std::convert::Infallible>(work.await) }
    });
    let builder = builder();
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let result = tokio::select! {
        result = serving.as_mut() => result,
        () = stop.stopped() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection");
    }
    metrics.connections.dec();
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .max_buf_size(HEADER_BYTES_MAX as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .keep_alive_interval(PING_EVERY);
    builder
}
