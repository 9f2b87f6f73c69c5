//! The operator's admin server: `/healthz`, `/readyz` and `/metrics` for the kubelet and Prometheus, `/debug` on loopback.
//!
//! # Guarantees
//!
//! - Bounded memory: connections and request heads are limited, bodies are not read.
//! - `/debug` is served on loopback only: it names objects of all namespaces.
//!
//! # Deliberately absent
//!
//! TLS and authentication. Probes need none, metrics hold no secrets, and a process on the host can read more than `/debug`.

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
use muster_apiserver::http::shutdown::{self, StopHandle};
use muster_tree::{Tree, tree};
use prometheus_client::encoding::text as exposition;
use tokio::time::Instant;

use super::status::OperatorStatus;
use crate::metrics;
use crate::sockets;
use crate::webhooks::WebhookCounts;

/// Concurrent connections per address: a kubelet, a few Prometheus servers and a person with curl.
const CONNECTIONS_MAX: usize = 64;
/// Deadline for the dump of the controller loop.
const DUMP_TIMEOUT: Duration = Duration::from_secs(10);
const TEXT: &str = "text/plain; charset=utf-8";

/// The addresses to serve on; `None` disables the endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AdminAddresses {
    pub health: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub debug: Option<SocketAddr>,
}

#[derive(Debug, thiserror::Error)]
pub enum AdminServerError {
    #[error(
        "the debug dump is not served at {0}: it names objects of the cluster, and other hosts may reach that address\n\nhint: use a loopback address, such as 127.0.0.1:6060, and `kubectl port-forward`"
    )]
    DebugNotLoopback(SocketAddr),
    #[error("listening on {address}: {source}\n\nhint: choose another address with `{flag}`")]
    Listen {
        address: SocketAddr,
        flag: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl AdminAddresses {
    /// These addresses, after the check that the debug address is a loopback one.
    ///
    /// # Errors
    /// The debug address can be reached from other hosts.
    pub fn checked(self) -> Result<AdminAddresses, AdminServerError> {
        match self.debug {
            Some(address) if !address.ip().is_loopback() => Err(AdminServerError::DebugNotLoopback(address)),
            _ => Ok(self),
        }
    }
}

/// The Lease, read on demand for the dump.
pub type LeaseFuture = Pin<Box<dyn Future<Output = Tree> + Send>>;

pub struct AdminSources {
    pub state: Arc<OperatorStatus>,
    /// The holder identity of this replica.
    pub identity: String,
    /// Reads the Lease from the API server.
    pub lease: Box<dyn Fn() -> LeaseFuture + Send + Sync>,
}

/// A running admin server; it stops when this is dropped.
pub struct AdminServer {
    _stopper: StopHandle,
}

struct Endpoints {
    sources: AdminSources,
    registry: SharedRegistry,
}

type Reply = Response<Full<Bytes>>;

impl AdminServer {
    /// Serves on these addresses; an address that is given twice is bound once. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// An address cannot be used.
    pub fn start(at: AdminAddresses, shown: AdminSources) -> Result<AdminServer, AdminServerError> {
        let registry = SharedRegistry::default();
        metrics::register_operator(&registry, shown.state.clone());
        let desk = Arc::new(Endpoints { sources: shown, registry });
        let (stopper, stop) = shutdown::pair();
        let mut used = BTreeSet::new();
        let open = [("--health-listen", at.health), ("--metrics-listen", at.metrics)];
        for (flag, address) in open.into_iter().filter_map(|(flag, address)| Some((flag, address?))) {
            // Port 0 gives a new port each time, so two of them are never one address.
            if address.port() == 0 || used.insert(address) {
                let desk = desk.clone();
                let serving = listener(flag, "probes and metrics", address, stop.clone())?;
                tokio::spawn(serving.serve(move |request: Request<_>| desk.clone().serve_probes(request)));
            }
        }
        if let Some(address) = at.checked()?.debug {
            let serving = listener("--debug-listen", "the debug dump", address, stop)?;
            tokio::spawn(serving.serve(move |request: Request<_>| desk.clone().serve_debug(request)));
        }
        Ok(AdminServer { _stopper: stopper })
    }
}

fn listener(
    flag: &'static str,
    what: &str,
    address: SocketAddr,
    stop: shutdown::StopSignal,
) -> Result<PlainListener, AdminServerError> {
    let wrong = |source| AdminServerError::Listen { address, flag, source };
    let listener = sockets::bind(address).map_err(wrong)?;
    let address = listener.local_addr().map_err(wrong)?;
    tracing::info!(%address, flag, "serving {what}");
    PlainListener::new(listener, CONNECTIONS_MAX, stop).map_err(wrong)
}

impl Endpoints {
    async fn serve_probes<B>(self: Arc<Self>, request: Request<B>) -> Reply {
        let state = &self.sources.state;
        match read_path(&request) {
            Ok("/healthz") => probe_reply(state.check_healthz(Instant::now())),
            Ok("/readyz") => probe_reply(state.check_readyz()),
            Ok("/metrics") => reply(200, EXPOSITION, self.metrics_text()),
            Ok(path) => not_found(path, "/healthz, /readyz and /metrics"),
            Err(refused) => refused,
        }
    }

    async fn serve_debug<B>(self: Arc<Self>, request: Request<B>) -> Reply {
        match read_path(&request) {
            Ok("/debug") => reply(200, "application/json", self.dump().await.to_json()),
            Ok(path) => not_found(path, "/debug"),
            Err(refused) => refused,
        }
    }

    fn metrics_text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = String::new();
        exposition::encode(&mut out, &registry).expect("writing to a string never fails");
        out
    }

    async fn dump(&self) -> Tree {
        let shown = &self.sources;
        let told = |what: Result<(), String>| what.map_or_else(Tree::from, |()| "ok".into());
        let dump = tree!({
            "identity": shown.identity.as_str(),
            "lease": (shown.lease)().await,
            "healthz": told(shown.state.check_healthz(Instant::now())),
            "readyz": told(shown.state.check_readyz()),
            "webhooks": webhook_counts(&shown.state.webhook_metrics.counts()),
        });
        let Some(window) = shown.state.inspector() else { return dump.with(&["role"], "stands by") };
        let dump = dump.with(&["role"], "leads");
        let look = tokio::task::spawn_blocking(move || window.dump(DUMP_TIMEOUT)).await;
        match look.ok().flatten() {
            Some(seen) => dump.merge(&seen),
            None => dump.with(&["controllers"], format!("no answer within {DUMP_TIMEOUT:?}")),
        }
    }
}

fn webhook_counts(all: &WebhookCounts) -> Tree {
    let number = |many: u64| i64::try_from(many).unwrap_or(i64::MAX);
    Tree::map(all.iter().map(|(path, one)| {
        let told = tree!({"allowed": number(one.allowed), "refused": number(one.refused),
            "failed": number(one.failed)});
        (*path, told)
    }))
}

/// The path of a GET or HEAD request; 405 for other methods.
fn read_path<B>(request: &Request<B>) -> Result<&str, Reply> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(request.uri().path()),
        _ => Err(reply(405, TEXT, "method not allowed: use GET\n")),
    }
}

fn probe_reply(what: Result<(), String>) -> Reply {
    match what {
        Ok(()) => reply(200, TEXT, "ok"),
        Err(why) => reply(503, TEXT, format!("{why}\n")),
    }
}

fn not_found(path: &str, what: &str) -> Reply {
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
    use muster_control::driver::{Inspector, RuntimeHealth};

    use super::*;
    use crate::status::Role;

    fn desk(state: OperatorStatus) -> Arc<Endpoints> {
        let state = Arc::new(state);
        let registry = SharedRegistry::default();
        metrics::register_operator(&registry, state.clone());
        let lease = Box::new(|| -> LeaseFuture { Box::pin(async { tree!({"holder": "another"}) }) });
        Arc::new(Endpoints { sources: AdminSources { state, identity: "me".to_owned(), lease }, registry })
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
    async fn probes_and_metrics_report_role_and_health() {
        let broken = || {
            let state = OperatorStatus::default();
            state.set_role(Role::Leader(Inspector::fixed(RuntimeHealth::default())));
            state.set_webhooks_ready(false);
            state
        };
        for (says, state, path, code, words) in [
            ("a standby is live", OperatorStatus::default(), "/healthz", 200, "ok"),
            ("and is ready", OperatorStatus::default(), "/readyz", 200, "ok"),
            ("and is exported", OperatorStatus::default(), "/metrics", 200, "muster_operator_leads 0"),
            ("a crash fails liveness", broken(), "/healthz", 503, "the controllers have crashed"),
            (
                "webhooks that are not ready fail readiness",
                broken(),
                "/readyz",
                503,
                "the webhooks are not ready",
            ),
            ("the leader is exported", broken(), "/metrics", 200, "muster_operator_leads 1"),
            (
                "the dump is on another port",
                OperatorStatus::default(),
                "/debug",
                404,
                "/healthz, /readyz and /metrics",
            ),
        ] {
            let (got, body) = text(desk(state).serve_probes(get(path)).await).await;
            assert_eq!(got, code, "{says}: {body}");
            assert!(body.contains(words), "{says}: {body}");
        }
        let post = Request::post("/healthz").body(()).unwrap();
        assert_eq!(desk(OperatorStatus::default()).serve_probes(post).await.status(), 405);
    }

    #[tokio::test]
    async fn the_dump_reports_the_role_and_an_unresponsive_loop() {
        let (code, body) = text(desk(OperatorStatus::default()).serve_debug(get("/debug")).await).await;
        let dump = Tree::parse(body.as_bytes()).unwrap();
        assert_eq!(code, 200);
        assert_eq!((dump.str_at(&["role"]), dump.str_at(&["identity"])), ("stands by", "me"));
        assert_eq!(dump.str_at(&["lease", "holder"]), "another");
        let state = OperatorStatus::default();
        state.set_role(Role::Leader(Inspector::fixed(RuntimeHealth::default())));
        let (_, body) = text(desk(state).serve_debug(get("/debug")).await).await;
        let dump = Tree::parse(body.as_bytes()).unwrap();
        assert_eq!(dump.str_at(&["role"]), "leads");
        assert!(dump.str_at(&["controllers"]).starts_with("no answer"), "{body}");
        let (code, body) = text(desk(OperatorStatus::default()).serve_debug(get("/metrics")).await).await;
        assert_eq!((code, body.as_str()), (404, "nothing is served at /metrics: there are /debug\n"));
    }

    #[test]
    fn the_dump_is_served_on_loopback_only() {
        for (address, fine) in
            [("127.0.0.1:6060", true), ("[::1]:6060", true), ("0.0.0.0:6060", false), ("10.0.0.1:1", false)]
        {
            let at = AdminAddresses { debug: Some(address.parse().unwrap()), ..AdminAddresses::default() };
            assert_eq!(at.checked().is_ok(), fine, "{address}");
            if !fine {
                assert!(at.checked().unwrap_err().to_string().contains("use a loopback address"));
            }
        }
    }
}
