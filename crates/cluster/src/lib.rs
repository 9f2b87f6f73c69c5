//! The port to an API server, made over the network: the one crate that knows a Kubernetes client.
//!
//! [`KubeApi`] turns calls into requests and watches into batches. Connection, TLS, credentials and the watch
//! protocol are kube's; what a call means on the wire is in [`request`], what an answer means in [`reply`].
//!
//! # Invariants
//!
//! - At most [`CALLS_IN_FLIGHT_MAX`] requests are under way; further ones wait their turn.
//! - Every call gets exactly one reply. One that took longer than [`CALL_TIME_MAX`] is `Unknown`: it may have
//!   happened.
//! - While the server is away or asks for patience one call at a time finds out whether it is back; the others wait.
//! - A kind that is followed holds back its socket when nobody pulls.
//!
//! # Deliberately absent
//!
//! Calls that happen all or none: a real API server has no such thing, and the abilities say so.

mod discover;
mod follow;
mod gate;
mod held;
mod lead;
mod list;
mod logs;
mod pace;
pub mod reply;
pub mod request;
mod share;
mod term;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use futures::future::join_all;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster_api::port::{Abilities, Act, Api, Call, Follow, Kind, Object, Refusal, Reply};
use muster_tree::{Sharing, Text, Tree};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::follow::Which;
use crate::gate::{Gate, Said};
use crate::share::Shares;
use crate::term::Ended;

pub use discover::Served;
pub use lead::{Lead, LeadError, NAMESPACE};
pub use logs::{LINE_BYTES_MAX, LogLines, LogOf, Piece, PieceEnd};
pub use share::Share;
pub use term::Term;

/// Requests under way at any time.
pub const CALLS_IN_FLIGHT_MAX: usize = 64;
/// How long a request may take before its reply counts as lost.
pub const CALL_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a call may wait for a server that is away; then its caller may think of something else.
const AWAY_TIME_MAX: Duration = Duration::from_secs(30);
/// When such a caller may come again.
const AWAY_AGAIN: Duration = Duration::from_secs(1);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The kubeconfig cannot be used.
    #[error("{path}: {problem}\n\nhint: give a kubeconfig with a current context", path = path.display())]
    Kubeconfig {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// There is none.
    #[error("no cluster to talk to: {0}\n\nhint: name one with `--kubeconfig FILE` or in $KUBECONFIG")]
    Nowhere(String),
    /// The server does not answer.
    #[error("{server} does not answer: {problem}\n\nhint: is it running, and is this the right kubeconfig?")]
    Silent {
        /// Its address.
        server: String,
        /// What happened.
        problem: String,
    },
    /// The server answers, but not to us.
    #[error(
        "{server} does not accept the credentials: {problem}\n\nhint: is this the right kubeconfig, and is it still valid?"
    )]
    Stranger {
        /// Its address.
        server: String,
        /// What it said.
        problem: String,
    },
}

/// The port over the network.
#[derive(Clone)]
pub struct KubeApi {
    client: Client,
    server: Arc<str>,
    authority: Arc<str>,
    runtime: Handle,
    slots: Arc<Semaphore>,
    gate: Arc<Gate>,
    ended: Ended,
    /// What the caches hold shares its branches, as in the embedded store.
    sharing: Arc<Mutex<Sharing>>,
    shares: Shares,
}

impl KubeApi {
    /// Connects with a kubeconfig, or as the environment says: `$KUBECONFIG`, the home folder, inside a cluster.
    ///
    /// # Errors
    /// There is no usable configuration, or the server does not answer.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<KubeApi, ConnectError> {
        let mut config = configuration(kubeconfig).await?;
        // How often and when to try again is decided here, by who knows what is at stake.
        config.default_retry = false;
        let server = config.cluster_url.to_string();
        let authority: String = config.root_cert.iter().flatten().map(|der| pem(der)).collect();
        let silent = |problem: String| ConnectError::Silent { server: server.clone(), problem };
        let client = Client::try_from(config).map_err(|e| silent(in_full(&e)))?;
        client
            .apiserver_version()
            .await
            .map_err(|e| stranger(&e, &server).unwrap_or_else(|| silent(in_full(&e))))?;
        welcome(&client, &server).await?;
        Ok(KubeApi {
            client,
            server: server.into(),
            authority: authority.into(),
            runtime: Handle::current(),
            slots: Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX)),
            gate: Arc::default(),
            ended: Ended::never(),
            sharing: Arc::default(),
            shares: Arc::default(),
        })
    }

    /// The address of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Host and port of the server.
    #[must_use]
    pub fn host(&self) -> Option<(Text, u16)> {
        let address: http::Uri = self.server.parse().ok()?;
        Some((address.host()?.into(), address.port_u16().unwrap_or(443)))
    }

    /// The authority that certifies the server, in PEM; empty when the kubeconfig names none.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The namespace that the kubeconfig's context names.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.client.default_namespace()
    }

    /// The version of the server, major and minor.
    ///
    /// # Errors
    /// The server does not tell.
    pub async fn version(&self) -> Result<(u32, u32), Refusal> {
        let told = self.client.apiserver_version().await.map_err(|e| Refusal::Unknown(in_full(&e)))?;
        // Some clouds write `30+`.
        let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        let read = number(&told.major).zip(number(&told.minor));
        read.ok_or_else(|| Refusal::Unknown(format!("{} is no version", told.git_version)))
    }

    /// All kinds of which the server can make objects, in all versions.
    ///
    /// # Errors
    /// The server does not tell.
    pub async fn served(&self) -> Result<Vec<Served>, Refusal> {
        let late = |_| Refusal::Unknown(format!("no answer within {CALL_TIME_MAX:?}"));
        let told = tokio::time::timeout(CALL_TIME_MAX, discover::served(&self.client)).await.map_err(late)?;
        told.map_err(|e| Refusal::Unknown(in_full(&e)))
    }

    /// As [`Api::follow`], in one namespace only.
    #[must_use]
    pub fn follow_in(&self, kind: &Kind, namespace: &str) -> Box<dyn Follow> {
        let client = self.client.clone();
        let which = Which { namespace: Some(namespace), ..Which::default() };
        Box::new(follow::start(&self.runtime, client, kind, &which, self.sharing.clone()))
    }

    /// As [`Api::follow`], one object only; the namespace is empty where objects have none.
    #[must_use]
    pub fn follow_one(&self, kind: &Kind, namespace: &str, name: &str) -> Box<dyn Follow> {
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        let which = Which { namespace, name: Some(name), ..Which::default() };
        Box::new(follow::start(&self.runtime, self.client.clone(), kind, &which, self.sharing.clone()))
    }

    /// Begins to read the log of a container.
    ///
    /// # Errors
    /// There is none, or not yet.
    pub async fn log(&self, of: &LogOf) -> Result<LogLines, Refusal> {
        logs::open(&self.client, of).await
    }

    /// The same connection, over which of some kinds only a share is taken where they are followed as a whole.
    #[must_use]
    pub fn taking(&self, shares: impl IntoIterator<Item = (Kind, Share)>) -> KubeApi {
        KubeApi { shares: Arc::new(shares.into_iter().collect()), ..self.clone() }
    }

    /// The same connection with slots of its own: for answers that calls of this one may be waiting for.
    #[must_use]
    pub fn beside(&self) -> KubeApi {
        KubeApi { slots: Arc::new(Semaphore::new(CALLS_IN_FLIGHT_MAX)), ..self.clone() }
    }

    /// The same connection for calls that must not wait for others, whatever the server is like: their callers bound
    /// their number and their time.
    #[must_use]
    pub fn unhindered(&self) -> KubeApi {
        KubeApi { gate: Arc::new(Gate::open()), ..self.beside() }
    }

    /// The same connection for calls that are to be made only until the term ends: those under way are broken off then.
    #[must_use]
    pub fn for_a_term(&self) -> (KubeApi, Term) {
        let (term, ended) = term::begin();
        (KubeApi { ended, ..self.clone() }, term)
    }

    /// The objects of a namespace that have all of these labels.
    ///
    /// # Errors
    /// Why they are not told.
    pub async fn labelled(
        &self,
        kind: &Kind,
        namespace: &str,
        labels: &[(&str, &str)],
    ) -> Result<Vec<Object>, Refusal> {
        self.in_turn(async |said| {
            *said = Said::Away;
            let listed = list::labelled(&self.client, kind, namespace, labels).await;
            *said = reply::of_list(&listed);
            listed
        })
        .await
    }

    /// Events about the object of this UID, at most one page of them.
    ///
    /// # Errors
    /// Why they are not told.
    pub async fn events_of(&self, namespace: &str, uid: &str) -> Result<Vec<Object>, Refusal> {
        self.in_turn(async |said| {
            *said = Said::Away;
            let listed = list::events_of(&self.client, namespace, uid).await;
            *said = reply::of_list(&listed);
            listed
        })
        .await
    }

    /// Has the server go through one call without keeping anything.
    ///
    /// # Errors
    /// Why it would not be done, or that nobody knows.
    pub async fn rehearse(&self, call: &Call) -> Result<Object, Refusal> {
        let request = request::rehearsal(call)?;
        self.in_turn(async |said| self.exchange(call, request, said).await).await
    }

    /// The code and the body of the answer to a dry run of one call: the object, or a `Status` with its causes.
    ///
    /// # Errors
    /// The server did not answer.
    pub async fn dry_run(&self, call: &Call) -> Result<(u16, Tree), Refusal> {
        let request = request::rehearsal(call)?;
        self.in_turn(async |said| {
            let (code, _, bytes) = self.send(call, request, said).await?;
            let unread = |e| Refusal::Unknown(format!("the answer cannot be read: {e}"));
            Ok((code, Tree::parse(bytes.as_ref()).map_err(unread)?))
        })
        .await
    }

    /// Performs one call and waits for its reply.
    ///
    /// # Errors
    /// Why it was not done, or that nobody knows.
    pub async fn perform(&self, call: &Call) -> Result<Object, Refusal> {
        let request = request::of(call)?;
        self.in_turn(async |said| self.exchange(call, request, said).await).await
    }

    /// Waits for a slot and for the gate, and no longer than a reply may take; `work` notes how the server was.
    async fn in_turn<T>(
        &self,
        work: impl AsyncFnOnce(&mut Said) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let exchange = async {
            // The slot first: whoever waited for one must not go out through a gate that has closed meanwhile.
            let _slot = self.slots.acquire().await.map_err(|e| Refusal::Unknown(e.to_string()))?;
            let entered = tokio::time::timeout(AWAY_TIME_MAX, self.gate.enter()).await;
            let pass = entered.map_err(|_| Refusal::Busy { retry_after: AWAY_AGAIN })?;
            let mut said = Said::Nothing;
            let done = tokio::time::timeout(CALL_TIME_MAX, work(&mut said)).await;
            // One call without an answer may have waited for a webhook of somebody else: that says nothing of the server.
            pass.said(if done.is_ok() { said } else { Said::Nothing });
            done.unwrap_or_else(|_| Err(Refusal::Unknown(format!("no answer within {CALL_TIME_MAX:?}"))))
        };
        tokio::select! {
            biased;
            () = self.ended.wait() => Err(Refusal::Unknown("broken off: another may be in charge".to_owned())),
            done = exchange => done,
        }
    }

    async fn exchange(
        &self,
        call: &Call,
        request: http::Request<Vec<u8>>,
        said: &mut Said,
    ) -> Result<Object, Refusal> {
        let (code, asked, bytes) = self.send(call, request, said).await?;
        let object = reply::read(code, asked, bytes.as_ref()).map_err(|refusal| call.understood(refusal))?;
        if call.act == Act::Get {
            // The server itself only checks writes.
            call.check(&object)?;
        }
        Ok(held::share(&self.sharing, &object))
    }

    /// The code, the patience that is asked for, and the body of an answer.
    async fn send(
        &self,
        call: &Call,
        request: http::Request<Vec<u8>>,
        said: &mut Said,
    ) -> Result<(u16, Option<Duration>, impl AsRef<[u8]>), Refusal> {
        let unknown = |e: kube::Error| Refusal::Unknown(in_full(&e));
        call.makes_sense()?;
        *said = Said::Away;
        let response = self.client.send(request.map(Body::from)).await.map_err(unknown)?;
        let code = response.status().as_u16();
        let asked = reply::patience(response.headers());
        *said = reply::of_server(code, asked, call.on.part);
        let bytes = response.into_body().collect_bytes().await.map_err(unknown)?;
        Ok((code, asked, bytes))
    }
}

impl Api for KubeApi {
    fn call(&self, call: Call, reply: Reply<Result<Object, Refusal>>) {
        let this = self.clone();
        self.runtime.spawn(async move { reply(this.perform(&call).await) });
    }

    fn together(&self, calls: Vec<Call>, reply: Reply<Vec<Result<Object, Refusal>>>) {
        let this = self.clone();
        self.runtime.spawn(async move { reply(join_all(calls.iter().map(|call| this.perform(call))).await) });
    }

    fn follow(&self, kind: &Kind) -> Box<dyn Follow> {
        let share = self.shares.get(kind).copied().unwrap_or_default();
        let which = Which { share, ..Which::default() };
        Box::new(follow::start(&self.runtime, self.client.clone(), kind, &which, self.sharing.clone()))
    }

    fn abilities(&self) -> Abilities {
        // The loop asks on its own thread, which is none of the runtime's.
        let kinds = self
            .runtime
            .block_on(async { tokio::time::timeout(CALL_TIME_MAX, discover::kinds(&self.client)).await });
        let problem = match kinds {
            Ok(Ok(kinds)) => return Abilities { atomic: false, kinds },
            Ok(Err(error)) => in_full(&error),
            Err(_) => format!("no answer within {CALL_TIME_MAX:?}"),
        };
        tracing::warn!(problem, "the kinds that the server has cannot be read");
        Abilities { atomic: false, kinds: Vec::new() }
    }
}

/// Everybody may ask for the version; whoever is not known at all would else wait for ever.
async fn welcome(client: &Client, server: &str) -> Result<(), ConnectError> {
    let request = http::Request::get("/api").body(Vec::new()).expect("a path that never changes");
    let refused = client.request_text(request).await.err().and_then(|error| stranger(&error, server));
    // What else may be wrong shows, and may pass, when something is asked for.
    refused.map_or(Ok(()), Err)
}

/// The server answers, but does not know us.
fn stranger(error: &kube::Error, server: &str) -> Option<ConnectError> {
    match error {
        kube::Error::Api(status) if status.code == 401 => {
            Some(ConnectError::Stranger { server: server.to_owned(), problem: status.message.clone() })
        }
        _ => None,
    }
}

/// A certificate in PEM.
fn pem(der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(LINE).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

async fn configuration(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let Some(path) = kubeconfig else {
        return Config::infer().await.map_err(|e| ConnectError::Nowhere(in_full(&e)));
    };
    let wrong = |problem: String| ConnectError::Kubeconfig { path: path.to_owned(), problem };
    let file = Kubeconfig::read_from(path).map_err(|e| wrong(in_full(&e)))?;
    let options = KubeConfigOptions::default();
    Config::from_custom_kubeconfig(file, &options).await.map_err(|e| wrong(in_full(&e)))
}

/// An error with its causes, each said once.
fn in_full(error: &(dyn std::error::Error + 'static)) -> String {
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
