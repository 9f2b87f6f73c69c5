//! The [`Api`] port over HTTP: the only crate that knows a Kubernetes client.
//!
//! [`KubeApi`] turns API requests into HTTP requests and watches into batches. Connection, TLS, credentials and the watch protocol
//! are kube's; [`request`] builds HTTP requests, [`response`] reads HTTP responses.
//!
//! # Guarantees
//!
//! - At most [`REQUESTS_IN_FLIGHT_MAX`] requests are in flight; further ones wait for a slot.
//! - Every request gets exactly one reply. After [`REQUEST_TIMEOUT`] it is [`ApiError::Indeterminate`]: it may have happened.
//! - While the server is unreachable or overloaded, one request at a time probes it and the others wait (a circuit breaker).
//! - A watch applies backpressure: its task stops reading when its batches are not drained.
//!
//! # Deliberately absent
//!
//! Transactions: a Kubernetes API server has none, and the capabilities say so.

mod circuit_breaker;
mod discovery;
mod dynamic_object;
mod leader_election;
mod leadership_epoch;
mod list;
mod logs;
mod projection;
pub mod request;
pub mod response;
mod watch;
mod watch_backoff;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use futures::future::join_all;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster_api::client::{
    Api, ApiCapabilities, ApiError, ApiObject, ApiRequest, Kind, ReplyCallback, RequestVerb, Watcher,
};
use muster_tree::{Sharing, Text, Tree};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::circuit_breaker::{CircuitBreaker, ServerHealth};
use crate::leadership_epoch::EpochEnd;
use crate::projection::Projections;
use crate::watch::WatchScope;

pub use discovery::ServedResource;
pub use leader_election::{DEFAULT_NAMESPACE, LeaderElectionError, LeaderElector};
pub use leadership_epoch::LeadershipEpoch;
pub use logs::{LINE_BYTES_MAX, LogChunk, LogChunkEnd, LogRequest, LogStream};
pub use projection::Projection;

/// Requests in flight at any time.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 64;
/// After this time the reply to a request counts as lost.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a request may wait for an unavailable server before it fails.
const UNAVAILABLE_WAIT_MAX: Duration = Duration::from_secs(30);
/// The `Retry-After` of such a request.
const UNAVAILABLE_RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("{path}: {problem}\n\nhint: give a kubeconfig with a current context", path = path.display())]
    Kubeconfig { path: PathBuf, problem: String },
    #[error("no cluster to talk to: {0}\n\nhint: name one with `--kubeconfig FILE` or in $KUBECONFIG")]
    NoCluster(String),
    #[error("{server} does not answer: {problem}\n\nhint: is it running, and is this the right kubeconfig?")]
    Unreachable { server: String, problem: String },
    /// The server answers 401.
    #[error(
        "{server} does not accept the credentials: {problem}\n\nhint: is this the right kubeconfig, and is it still valid?"
    )]
    Unauthorized { server: String, problem: String },
}

/// A connection to a Kubernetes API server. Clones share the connection, its slots and its circuit breaker.
#[derive(Clone)]
pub struct KubeApi {
    client: Client,
    server: Arc<str>,
    ca_pem: Arc<str>,
    runtime: Handle,
    request_slots: Arc<Semaphore>,
    breaker: Arc<CircuitBreaker>,
    epoch_end: EpochEnd,
    /// Interns the branches of cached objects, as the embedded store does.
    sharing: Arc<Mutex<Sharing>>,
    shares: Projections,
}

impl KubeApi {
    /// Connects with a kubeconfig, or with the default: `$KUBECONFIG`, `~/.kube/config`, the service account of a pod.
    ///
    /// # Errors
    /// There is no usable configuration, or the server does not answer.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<KubeApi, ConnectError> {
        let mut config = load_config(kubeconfig).await?;
        // Retries belong to the control loop and the circuit breaker; kube's own would multiply with them.
        config.default_retry = false;
        let server = config.cluster_url.to_string();
        let ca_pem: String = config.root_cert.iter().flatten().map(|der| pem(der)).collect();
        let silent = |problem: String| ConnectError::Unreachable { server: server.clone(), problem };
        let client = Client::try_from(config).map_err(|e| silent(error_chain(&e)))?;
        client
            .apiserver_version()
            .await
            .map_err(|e| unauthorized(&e, &server).unwrap_or_else(|| silent(error_chain(&e))))?;
        check_authenticated(&client, &server).await?;
        Ok(KubeApi {
            client,
            server: server.into(),
            ca_pem: ca_pem.into(),
            runtime: Handle::current(),
            request_slots: Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT_MAX)),
            breaker: Arc::default(),
            epoch_end: EpochEnd::never(),
            sharing: Arc::default(),
            shares: Arc::default(),
        })
    }

    /// The URL of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    #[must_use]
    pub fn host(&self) -> Option<(Text, u16)> {
        let address: http::Uri = self.server.parse().ok()?;
        Some((address.host()?.into(), address.port_u16().unwrap_or(443)))
    }

    /// The CA certificates of the server, in PEM; empty when the kubeconfig has none.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The namespace of the kubeconfig's current context.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The version of the server, major and minor.
    ///
    /// # Errors
    /// The request failed.
    pub async fn version(&self) -> Result<(u32, u32), ApiError> {
        let told =
            self.client.apiserver_version().await.map_err(|e| ApiError::Indeterminate(error_chain(&e)))?;
        // Some cloud providers write `30+`.
        let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        let read = number(&told.major).zip(number(&told.minor));
        read.ok_or_else(|| ApiError::Indeterminate(format!("{} is no version", told.git_version)))
    }

    /// All resources that support create, in all versions.
    ///
    /// # Errors
    /// Discovery failed.
    pub async fn served_resources(&self) -> Result<Vec<ServedResource>, ApiError> {
        let late = |_| ApiError::Indeterminate(format!("no answer within {REQUEST_TIMEOUT:?}"));
        let told =
            tokio::time::timeout(REQUEST_TIMEOUT, discovery::served(&self.client)).await.map_err(late)?;
        told.map_err(|e| ApiError::Indeterminate(error_chain(&e)))
    }

    /// As [`Api::watch`], in one namespace only.
    #[must_use]
    pub fn watch_namespace(&self, kind: &Kind, namespace: &str) -> Box<dyn Watcher> {
        let client = self.client.clone();
        let which = WatchScope { namespace: Some(namespace), ..WatchScope::default() };
        Box::new(watch::start(&self.runtime, client, kind, &which, self.sharing.clone()))
    }

    /// As [`Api::watch`], one object only; the namespace is empty for a cluster-scoped object.
    #[must_use]
    pub fn watch_object(&self, kind: &Kind, namespace: &str, name: &str) -> Box<dyn Watcher> {
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        let which = WatchScope { namespace, name: Some(name), ..WatchScope::default() };
        Box::new(watch::start(&self.runtime, self.client.clone(), kind, &which, self.sharing.clone()))
    }

    /// Opens the log of a container.
    ///
    /// # Errors
    /// The container does not exist or has no log yet.
    pub async fn log(&self, of: &LogRequest) -> Result<LogStream, ApiError> {
        logs::open(&self.client, of).await
    }

    /// This connection with projections for watches of some kinds in all namespaces.
    #[must_use]
    pub fn with_projections(&self, shares: impl IntoIterator<Item = (Kind, Projection)>) -> KubeApi {
        KubeApi { shares: Arc::new(shares.into_iter().collect()), ..self.clone() }
    }

    /// This connection with separate slots: for requests that requests of this one may depend on, such as those of a webhook.
    #[must_use]
    pub fn with_separate_slots(&self) -> KubeApi {
        KubeApi { request_slots: Arc::new(Semaphore::new(REQUESTS_IN_FLIGHT_MAX)), ..self.clone() }
    }

    /// This connection with separate slots and without circuit breaker, for callers that bound the number and time of their
    /// requests themselves: leader election.
    #[must_use]
    pub fn without_circuit_breaker(&self) -> KubeApi {
        KubeApi { breaker: Arc::new(CircuitBreaker::disabled()), ..self.with_separate_slots() }
    }

    /// This connection for one leadership epoch: when the epoch ends, requests in flight are canceled and no further one is sent.
    #[must_use]
    pub fn for_epoch(&self) -> (KubeApi, LeadershipEpoch) {
        let (epoch, epoch_end) = leadership_epoch::start_epoch();
        (KubeApi { epoch_end, ..self.clone() }, epoch)
    }

    /// Lists the objects of a namespace that have all of these labels.
    ///
    /// # Errors
    /// The list failed.
    pub async fn list_by_labels(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Result<Vec<ApiObject>, ApiError> {
        self.with_permit(async |health| {
            *health = ServerHealth::Unreachable;
            let listed = list::labelled(&self.client, kind, namespace, labels).await;
            *health = response::list_health(&listed);
            listed
        })
        .await
    }

    /// Lists the Events about the object of this UID, at most one page.
    ///
    /// # Errors
    /// The list failed.
    pub async fn events_of(&self, namespace: &str, uid: &str) -> Result<Vec<ApiObject>, ApiError> {
        self.with_permit(async |health| {
            *health = ServerHealth::Unreachable;
            let listed = list::events_of(&self.client, namespace, uid).await;
            *health = response::list_health(&listed);
            listed
        })
        .await
    }

    /// Performs one request with `dryRun=All`.
    ///
    /// # Errors
    /// The server would reject the request, or the reply was lost.
    pub async fn dry_run(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        let request = request::build_dry_run(call)?;
        self.with_permit(async |health| self.request_object(call, request, health).await).await
    }

    /// As [`KubeApi::dry_run`], with the status code and body as received: the object, or a `Status` with its causes.
    ///
    /// # Errors
    /// The reply was lost.
    pub async fn dry_run_raw(&self, call: &ApiRequest) -> Result<(u16, Tree), ApiError> {
        let request = request::build_dry_run(call)?;
        self.with_permit(async |health| {
            let (code, _, bytes) = self.send_http(call, request, health).await?;
            let unread = |e| ApiError::Indeterminate(format!("the answer cannot be read: {e}"));
            Ok((code, Tree::parse(bytes.as_ref()).map_err(unread)?))
        })
        .await
    }

    /// Performs one request and waits for its reply.
    ///
    /// # Errors
    /// The server rejected the request, or the reply was lost.
    pub async fn perform(&self, call: &ApiRequest) -> Result<ApiObject, ApiError> {
        let request = request::build(call)?;
        self.with_permit(async |health| self.request_object(call, request, health).await).await
    }

    /// Runs `work` with a slot and a permit of the circuit breaker, within the request timeout; `work` records the health of the
    /// server.
    async fn with_permit<T>(
        &self,
        work: impl AsyncFnOnce(&mut ServerHealth) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let exchange = async {
            // The slot comes first: the breaker may open while a request waits for a slot, and a permit taken before would let it
            // through.
            let _slot =
                self.request_slots.acquire().await.map_err(|e| ApiError::Indeterminate(e.to_string()))?;
            let entered = tokio::time::timeout(UNAVAILABLE_WAIT_MAX, self.breaker.acquire()).await;
            let permit =
                entered.map_err(|_| ApiError::TooManyRequests { retry_after: UNAVAILABLE_RETRY_AFTER })?;
            let mut health = ServerHealth::Unknown;
            let done = tokio::time::timeout(REQUEST_TIMEOUT, work(&mut health)).await;
            // A single timeout says nothing about the server: the request may have waited for a slow webhook.
            permit.report(if done.is_ok() { health } else { ServerHealth::Unknown });
            done.unwrap_or_else(|_| {
                Err(ApiError::Indeterminate(format!("no answer within {REQUEST_TIMEOUT:?}")))
            })
        };
        tokio::select! {
            biased;
            () = self.epoch_end.wait() => Err(ApiError::Indeterminate("canceled: leadership was lost".to_owned())),
            done = exchange => done,
        }
    }

    async fn request_object(
        &self,
        call: &ApiRequest,
        request: http::Request<Vec<u8>>,
        health: &mut ServerHealth,
    ) -> Result<ApiObject, ApiError> {
        let (code, asked, bytes) = self.send_http(call, request, health).await?;
        let object =
            response::read(code, asked, bytes.as_ref()).map_err(|refusal| call.normalize_error(refusal))?;
        if call.verb == RequestVerb::Get {
            // The server checks preconditions of writes only.
            call.check_preconditions(&object)?;
        }
        Ok(dynamic_object::share(&self.sharing, &object))
    }

    /// The status code, `Retry-After` and body of the response.
    async fn send_http(
        &self,
        call: &ApiRequest,
        request: http::Request<Vec<u8>>,
        health: &mut ServerHealth,
    ) -> Result<(u16, Option<Duration>, impl AsRef<[u8]>), ApiError> {
        let indeterminate = |e: kube::Error| ApiError::Indeterminate(error_chain(&e));
        call.validate()?;
        *health = ServerHealth::Unreachable;
        let response = self.client.send(request.map(Body::from)).await.map_err(indeterminate)?;
        let code = response.status().as_u16();
        let asked = response::retry_after(response.headers());
        *health = response::server_health(code, asked, call.target.subresource);
        let bytes = response.into_body().collect_bytes().await.map_err(indeterminate)?;
        Ok((code, asked, bytes))
    }
}

impl Api for KubeApi {
    fn send(&self, call: ApiRequest, reply: ReplyCallback<Result<ApiObject, ApiError>>) {
        let this = self.clone();
        self.runtime.spawn(async move { reply(this.perform(&call).await) });
    }

    fn send_transaction(
        &self,
        calls: Vec<ApiRequest>,
        reply: ReplyCallback<Vec<Result<ApiObject, ApiError>>>,
    ) {
        let this = self.clone();
        self.runtime.spawn(async move { reply(join_all(calls.iter().map(|call| this.perform(call))).await) });
    }

    fn watch(&self, kind: &Kind) -> Box<dyn Watcher> {
        let share = self.shares.get(kind).copied().unwrap_or_default();
        let which = WatchScope { share, ..WatchScope::default() };
        Box::new(watch::start(&self.runtime, self.client.clone(), kind, &which, self.sharing.clone()))
    }

    fn capabilities(&self) -> ApiCapabilities {
        // The control loop calls this on its own thread, outside the async runtime: blocking is allowed.
        let kinds = self
            .runtime
            .block_on(async { tokio::time::timeout(REQUEST_TIMEOUT, discovery::kinds(&self.client)).await });
        let problem = match kinds {
            Ok(Ok(kinds)) => return ApiCapabilities { atomic: false, kinds },
            Ok(Err(error)) => error_chain(&error),
            Err(_) => format!("no answer within {REQUEST_TIMEOUT:?}"),
        };
        tracing::warn!(error = problem, "API discovery failed");
        ApiCapabilities { atomic: false, kinds: Vec::new() }
    }
}

/// Checks that the credentials are accepted. `/version` is public: without this check a client with invalid credentials would
/// retry for ever.
async fn check_authenticated(client: &Client, server: &str) -> Result<(), ConnectError> {
    let request = http::Request::get("/api").body(Vec::new()).expect("a path that never changes");
    let refused = client.request_text(request).await.err().and_then(|error| unauthorized(&error, server));
    // Other errors are reported, and may pass, with later requests.
    refused.map_or(Ok(()), Err)
}

/// The error of a 401 response.
fn unauthorized(error: &kube::Error, server: &str) -> Option<ConnectError> {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            Some(ConnectError::Unauthorized { server: server.to_owned(), problem: status.message.clone() })
        }
        _ => None,
    }
}

fn pem(der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(LINE).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

async fn load_config(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let Some(path) = kubeconfig else {
        return Config::infer().await.map_err(|e| ConnectError::NoCluster(error_chain(&e)));
    };
    let wrong = |problem: String| ConnectError::Kubeconfig { path: path.to_owned(), problem };
    let file = Kubeconfig::read_from(path).map_err(|e| wrong(error_chain(&e)))?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(file, &options).await.map_err(|e| wrong(error_chain(&e)))
}

/// The text of an error with its causes, without repetitions.
fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let more = inner.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = inner.source();
    }
    text
}
