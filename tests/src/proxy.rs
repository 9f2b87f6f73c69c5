//! Somebody between a client and an API server who understands HTTP: a load balancer on a bad day.
//!
//! TLS on both sides, certificates unchecked. It passes everything on, or answers in the server's place, and notes every
//! request that reaches it.
//!
//! # Deliberately absent
//!
//! HTTP/2 and upgrades: the client under test uses neither.

mod line;

pub(crate) use line::Anybody;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// Which requests are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those that change something.
    Writes,
    /// Watches.
    Watches,
}

/// How it is today.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Everything passes.
    Fair,
    /// Nobody gets through: connections are closed as soon as they are opened.
    Cut,
    /// These are answered with this code, and with this number of seconds after which to come again.
    Refuses(Which, u16, Option<u32>),
    /// Watches begin well and end at once.
    BriefWatches,
    /// Everything takes longer.
    Slow(Duration),
}

/// A request that came, or a connection that was closed before one could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// `GET`; empty for a connection without a request.
    pub method: String,
    /// Without what follows the question mark.
    pub path: String,
    /// Whether it is a watch.
    pub watch: bool,
}

impl Seen {
    fn is(&self, which: Which) -> bool {
        match which {
            Which::All => true,
            Which::Writes => !matches!(self.method.as_str(), "GET" | "HEAD" | ""),
            Which::Watches => self.watch,
        }
    }
}

/// The proxy; it ends with the value.
pub struct Proxy {
    address: SocketAddr,
    desk: Arc<Desk>,
    runtime: Option<Runtime>,
}

/// What its connections share.
struct Desk {
    server: SocketAddr,
    state: Mutex<State>,
}

struct State {
    weather: Weather,
    seen: Vec<Seen>,
    lines: BTreeMap<u64, Line>,
}

/// A connection of a client.
struct Line {
    task: AbortHandle,
    watches: bool,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
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
    /// Listens on a port of its own for what is meant for `server`.
    pub fn start(server: SocketAddr) -> Result<Proxy, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).map_err(|e| e.to_string())?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        let state = State { weather: Weather::Fair, seen: Vec::new(), lines: BTreeMap::new() };
        let desk = Arc::new(Desk { server, state: Mutex::new(state) });
        runtime.spawn(line::accept(listener, line::Tls::new()?, desk.clone()));
        Ok(Proxy { address, desk, runtime: Some(runtime) })
    }

    /// `https://host:port`.
    #[must_use]
    pub fn base(&self) -> String {
        format!("https://{}", self.address)
    }

    /// From now on it is so. When it is [`Weather::Cut`] the connections that there are end too.
    pub fn is(&self, weather: Weather) {
        let mut state = self.desk.lock();
        state.weather = weather;
        if weather == Weather::Cut {
            state.lines.values().for_each(|line| line.task.abort());
            state.lines.clear();
        }
    }

    /// Ends the connections over which something is watched; how many those were.
    #[must_use]
    pub fn cut_watches(&self) -> usize {
        let mut state = self.desk.lock();
        let before = state.lines.len();
        state.lines.retain(|_, line| {
            if line.watches {
                line.task.abort();
            }
            !line.watches
        });
        before - state.lines.len()
    }

    /// How many requests came so far.
    #[must_use]
    pub fn mark(&self) -> usize {
        self.desk.lock().seen.len()
    }

    /// The requests since a mark.
    #[must_use]
    pub fn since(&self, mark: usize) -> Vec<Seen> {
        self.desk.lock().seen[mark..].to_vec()
    }
}

/// The busiest second of these.
#[must_use]
pub fn busiest_second(seen: &[Seen]) -> usize {
    let second = Duration::from_secs(1);
    let within = |from: &Seen| {
        seen.iter().filter(|it| it.at >= from.at && it.at.duration_since(from.at) < second).count()
    };
    seen.iter().map(within).max().unwrap_or(0)
}
