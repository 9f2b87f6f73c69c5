//! What an operator shows of itself: `/healthz`, `/readyz` and `/metrics` for a kubelet and Prometheus, `/debug` for
//! somebody on the same machine.
//!
//! # Invariants
//!
//! - Nothing grows with what clients send: connections are bounded, heads too, bodies are not read.
//! - `/debug` is told on loopback only: it names objects of all namespaces.
//!
//! # Deliberately absent
//!
//! TLS and credentials. Probes need none, numbers tell no secrets, and whoever is on the machine may look.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use muster_apiserver::http::listen::PlainListener;
use muster_apiserver::http::metrics::{EXPOSITION, SharedRegistry};
use muster_apiserver::http::stop::{self, Stopper};
use muster_tree::{Tree, tree};
use prometheus_client::encoding::text as exposition;
use tokio::time::Instant;

use super::state::State;
use crate::numbers;
use crate::sockets;
use crate::webhooks::Counts;

/// Connections at once on one address: a kubelet, a few Prometheuses, somebody who is curious.
const CONNECTIONS_MAX: usize = 64;
/// How long the controllers may take to show themselves.
const LOOK_MAX: Duration = Duration::from_secs(10);
const TEXT: &str = "text/plain; charset=utf-8";

/// Where it shows itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Addresses {
    /// For probes.
    pub health: Option<SocketAddr>,
    /// For numbers.
    pub metrics: Option<SocketAddr>,
    /// For the dump.
    pub debug: Option<SocketAddr>,
}

/// Why it does not show itself.
#[derive(Debug, thiserror::Error)]
pub enum RimError {
    /// Others would see it.
    #[error(
        "the debug dump is not shown at {0}: it names what is in the cluster, and others may reach that address\n\nhint: use one of loopback, such as 127.0.0.1:6060, and `kubectl port-forward`"
    )]
    Reachable(SocketAddr),
    /// The address.
    #[error("listening on {address}: {source}\n\nhint: choose another address with `{flag}`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What chooses it.
        flag: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl Addresses {
    /// These, if the dump is for this machine alone.
    ///
    /// # Errors
    /// It is not.
    pub fn checked(self) -> Result<Addresses, RimError> {
        match self.debug {
            Some(address) if !address.ip().is_loopback() => Err(RimError::Reachable(address)),
            _ => Ok(self),
        }
    }
}

/// Something that is found out when somebody asks.
pub type Asking = Pin<Box<dyn Future<Output = Tree> + Send>>;

/// What is shown.
pub struct Shown {
    /// The operator.
    pub state: Arc<State>,
    /// The name under which it stands for election.
    pub identity: String,
    /// Tells of the Lease, as the server has it.
    pub lease: Box<dyn Fn() -> Asking + Send + Sync>,
}

/// An operator that shows itself, until this is dropped.
pub struct Rim {
    _stopper: Stopper,
}

struct Desk {
    shown: Shown,
    registry: SharedRegistry,
}

type Reply = Response<Full<Bytes>>;

impl Rim {
    /// Shows it at these addresses; one that stands twice is used once. Wants to be called inside a runtime.
    ///
    /// # Errors
    /// An address cannot be used.
    pub fn start(at: Addresses, shown: Shown) -> Result<Rim, RimError> {
        let registry = SharedRegistry::default();
        numbers::register_operator(&registry, shown.state.clone());
        let desk = Arc::new(Desk { shown, registry });
        let (stopper, stop) = stop::pair();
        let mut used = BTreeSet::new();
        let open = [("--health-listen", at.health), ("--metrics-listen", at.metrics)];
        for (flag, address) in open.into_iter().filter_map(|(flag, address)| Some((flag, address?))) {
            // Port 0 is another one each time.
            if address.port() == 0 || used.insert(address) {
                let desk = desk.clone();
                let serving = listener(flag, "probes and metrics", address, stop.clone())?;
                tokio::spawn(serving.serve(move |request: Request<_>| desk.clone().plain(request)));
            }
        }
        if let Some(address) = at.checked()?.debug {
            let serving = listener("--debug-listen", "the debug dump", address, stop)?;
            tokio::spawn(serving.serve(move |request: Request<_>| desk.clone().debug(request)));
        }
        Ok(Rim { _stopper: stopper })
    }
}

fn listener(
    flag: &'static str,
    what: &str,
    address: SocketAddr,
    stop: stop::Stop,
) -> Result<PlainListener, RimError> {
    let wrong = |source| RimError::Listen { address, flag, source };
    let listener = sockets::bind(address).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    tracing::info!(%address, flag, "serving {what}");
    PlainListener::new(listener, CONNECTIONS_MAX, stop).map_err(wrong)
}

impl Desk {
    async fn plain<B>(self: Arc<Self>, request: Request<B>) -> Reply {
        let state = &self.shown.state;
        match asked(&request) {
            Ok("/healthz") => told(state.alive(Instant::now())),
            Ok("/readyz") => told(state.ready()),
            Ok("/metrics") => reply(200, EXPOSITION, self.numbers()),
            Ok(path) => nothing(path, "/healthz, /readyz and /metrics"),
            Err(refused) => refused,
        }
    }

    async fn debug<B>(self: Arc<Self>, request: Request<B>) -> Reply {
        match asked(&request) {
            Ok("/debug") => reply(200, "application/json", self.dump().await.to_json()),
            Ok(path) => nothing(path, "/debug"),
            Err(refused) => refused,
        }
    }

    fn numbers(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        exposition::encode(&mut out, &registry).expect("writing to a string never fails");
        out
    }

    async fn dump(&self) -> Tree {
        let shown = &self.shown;
        let told = |what: Result<(), String>| what.map_or_else(Tree::from, |()| "ok".into());
        let dump = tree!({
            "identity": shown.identity.as_str(),
            "lease": (shown.lease)().await,
            "healthz": told(shown.state.alive(Instant::now())),
            "readyz": told(shown.state.ready()),
            "webhooks": hooks(&shown.state.tally.counts()),
        });
        let Some(window) = shown.state.window() else { return dump.with(&["role"], "stands by") };
        let dump = dump.with(&["role"], "leads");
        let look = tokio::task::spawn_blocking(move || window.look(LOOK_MAX)).await;
        match look.ok().flatten() {
            Some(seen) => dump.merge(&seen),
            None => dump.with(&["controllers"], format!("no answer within {LOOK_MAX:?}")),
        }
    }
}

fn hooks(all: &Counts) -> Tree {
    let number = |many: u64| i64::try_from(many).unwrap_or(i64::MAX);
    Tree::map(all.iter().map(|(path, one)| {
        let told = tree!({"allowed": number(one.allowed), "refused": number(one.refused),
            "failed": number(one.failed)});
        (*path, told)
    }))
}

/// The path of a request that only reads.
fn asked<B>(request: &Request<B>) -> Result<&str, Reply> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(request.uri().path()),
        _ => Err(reply(405, TEXT, "there is nothing to change here: use GET\n")),
    }
}

fn told(what: Result<(), String>) -> Reply {
    match what {
        Ok(()) => reply(200, TEXT, "ok"),
        Err(why) => reply(503, TEXT, format!("{why}\n")),
    }
}

fn nothing(path: &str, what: &str) -> Reply {
    reply(404, TEXT, format!("nothing is served at {path}: there are {what}\n"))
}

fn reply(code: u16, media: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(Full::new(body.into()));
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    reply
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use muster_control::run::{Health, Window};

    use super::*;
    use crate::state::Role;

    fn desk(state: State) -> Arc<Desk> {
        let state = Arc::new(state);
        let registry = SharedRegistry::default();
        numbers::register_operator(&registry, state.clone());
        let lease = Box::new(|| -> Asking { Box::pin(async { tree!({"holder": "another"}) }) });
        Arc::new(Desk { shown: Shown { state, identity: "me".to_owned(), lease }, registry })
    }

    async fn text(reply: Reply) -> (u16, String) {
        let code = reply.status().as_u16();
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(bytes.to_vec()).unwrap())
    }

    fn get(path: &str) -> Request<()> {
        Request::get(path).body(()).unwrap()
    }

    #[tokio::test]
    async fn each_path_tells_its_part() {
        let broken = || {
            let state = State::default();
            state.is(Role::Leads(Window::painted(Health::default())));
            state.hooks_answer(false);
            state
        };
        for (says, state, path, code, words) in [
            ("who stands by lives", State::default(), "/healthz", 200, "ok"),
            ("and is ready", State::default(), "/readyz", 200, "ok"),
            ("and is counted", State::default(), "/metrics", 200, "muster_operator_leads 0"),
            ("a crash is told", broken(), "/healthz", 503, "the controllers have ended"),
            ("missing hooks too", broken(), "/readyz", 503, "the webhooks cannot answer yet"),
            ("who leads is counted", broken(), "/metrics", 200, "muster_operator_leads 1"),
            ("the dump is elsewhere", State::default(), "/debug", 404, "/healthz, /readyz and /metrics"),
        ] {
            let (got, body) = text(desk(state).plain(get(path)).await).await;
            assert_eq!(got, code, "{says}: {body}");
            assert!(body.contains(words), "{says}: {body}");
        }
        let post = Request::post("/healthz").body(()).unwrap();
        assert_eq!(desk(State::default()).plain(post).await.status(), 405);
    }

    #[tokio::test]
    async fn the_dump_tells_who_leads_and_who_does_not_answer() {
        let (code, body) = text(desk(State::default()).debug(get("/debug")).await).await;
        let dump = Tree::parse(body.as_bytes()).unwrap();
        assert_eq!(code, 200);
        assert_eq!((dump.str_at(&["role"]), dump.str_at(&["identity"])), ("stands by", "me"));
        assert_eq!(dump.str_at(&["lease", "holder"]), "another");
        let state = State::default();
        state.is(Role::Leads(Window::painted(Health::default())));
        let (_, body) = text(desk(state).debug(get("/debug")).await).await;
        let dump = Tree::parse(body.as_bytes()).unwrap();
        assert_eq!(dump.str_at(&["role"]), "leads");
        assert!(dump.str_at(&["controllers"]).starts_with("no answer"), "{body}");
        let (code, body) = text(desk(State::default()).debug(get("/metrics")).await).await;
        assert_eq!((code, body.as_str()), (404, "nothing is served at /metrics: there are /debug\n"));
    }

    #[test]
    fn the_dump_is_for_this_machine_alone() {
        for (address, fine) in
            [("127.0.0.1:6060", true), ("[::1]:6060", true), ("0.0.0.0:6060", false), ("10.0.0.1:1", false)]
        {
            let at = Addresses { debug: Some(address.parse().unwrap()), ..Addresses::default() };
            assert_eq!(at.checked().is_ok(), fine, "{address}");
            if !fine {
                assert!(at.checked().unwrap_err().to_string().contains("use one of loopback"));
            }
        }
    }
}
