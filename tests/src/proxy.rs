//! An HTTP proxy between a client and an API server that injects faults.
//!
//! TLS on both sides, without certificate verification. It forwards requests or answers them itself, and records every request.
//!
//! # Deliberately absent
//!
//! HTTP/2 and connection upgrades: the client under test uses neither.

mod connection;

pub(crate) use connection::AcceptAnyCertificate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// A class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestFilter {
    All,
    /// Requests that modify objects.
    Writes,
    Watches,
}

/// How the proxy treats requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    PassThrough,
    /// Closes every connection as soon as it is opened.
    Disconnected,
    /// Answers a class of requests with this status code and `Retry-After` in seconds.
    Rejecting(RequestFilter, u16, Option<u32>),
    /// Answers watches with an empty stream.
    ShortWatches,
    Slow(Duration),
}

/// A recorded request, or a connection that was closed before one arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    pub at: Instant,
    /// HTTP method; empty for a connection without a request.
    pub method: String,
    /// Path without the query.
    pub path: String,
    pub watch: bool,
}

impl RecordedRequest {
    fn matches(&self, which: RequestFilter) -> bool {
        match which {
            RequestFilter::All => true,
            RequestFilter::Writes => !matches!(self.method.as_str(), "GET" | "HEAD" | ""),
            RequestFilter::Watches => self.watch,
        }
    }
}

/// A running proxy, stopped when the value is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<SharedState>,
    runtime: Option<Runtime>,
}

/// State shared by all connections.
struct SharedState {
    server: SocketAddr,
    state: Mutex<ProxyState>,
}

struct ProxyState {
    mode: ProxyMode,
    requests: Vec<RecordedRequest>,
    connections: BTreeMap<u64, ClientConnection>,
}

struct ClientConnection {
    task: AbortHandle,
    watches: bool,
}

impl SharedState {
    fn lock(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Proxy {
    /// Starts a proxy for `server` on a free port.
    pub fn start(server: SocketAddr) -> Result<Proxy, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let state =
            ProxyState { mode: ProxyMode::PassThrough, requests: Vec::new(), connections: BTreeMap::new() };
        let shared = Arc::new(SharedState { server, state: Mutex::new(state) });
        runtime.spawn(connection::accept(listener, connection::Tls::new()?, shared.clone()));
        Ok(Proxy { address, shared, runtime: Some(runtime) })
    }

    #[must_use]
    pub fn base(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Sets the mode. [`ProxyMode::Disconnected`] also closes the existing connections.
    pub fn set_mode(&self, mode: ProxyMode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        if mode == ProxyMode::Disconnected {
            state.connections.values().for_each(|line| line.task.abort());
            state.connections.clear();
        }
    }

    /// Closes the connections with a watch and returns their number.
    #[must_use]
    pub fn cut_watches(&self) -> usize {
        let mut state = self.shared.lock();
        let before = state.connections.len();
        state.connections.retain(|_, line| {
            if line.watches {
                line.task.abort();
            }
            !line.watches
        });
        before - state.connections.len()
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn request_count(&self) -> usize {
        self.shared.lock().requests.len()
    }

    /// Returns the requests after the first `mark` ones.
    #[must_use]
    pub fn requests_since(&self, mark: usize) -> Vec<RecordedRequest> {
        self.shared.lock().requests[mark..].to_vec()
    }
}

/// Returns the maximum number of requests within one second.
#[must_use]
pub fn busiest_second(seen: &[RecordedRequest]) -> usize {
    let second = Duration::from_secs(1);
    let within = |from: &RecordedRequest| {
        seen.iter().filter(|it| it.at >= from.at && it.at.duration_since(from.at) < second).count()
    };
    seen.iter().map(within).max().unwrap_or(0)
}
