//! Dispatches requests to endpoints.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::upgrade::OnUpgrade;
use muster_process::{RegisteredPod, RunId, RunState};
use tokio::time::sleep;

use crate::options::{self, PodLogOptions, QueryParams, StreamOptions};
use crate::port_forward::ForwardTarget;
use crate::response::{self, HttpError, KubeletResponse};
use crate::route::{self, ContainerRef, Route};
use crate::session::Session;
use crate::subprotocol::{self, Subprotocol};
use crate::upgrade::{self, UpgradeRequest};
use crate::{KubeletServer, attach, exec, logs, port_forward, tunnel};

/// Polls for a container that is starting, and their interval.
const START_TRIES: u32 = 250;
const START_PAUSE: Duration = Duration::from_millis(20);

impl KubeletServer {
    /// Serves one request. Must be called within a tokio runtime.
    pub async fn serve<B: Send>(self: &Arc<Self>, mut request: Request<B>) -> KubeletResponse {
        let query = QueryParams::parse(request.uri().query().unwrap_or_default());
        let answer = match route::parse(request.uri().path()) {
            None => Err(HttpError::new(404, "404 page not found")),
            Some(Route::Healthz) => Ok(response::text(200, "ok")),
            Some(Route::Logs(which)) => self.logs(&which, &query).await,
            Some(Route::Exec(which)) => self.exec(&which, &query, &mut request).await,
            Some(Route::Attach(which)) => self.attach(&which, &query, &mut request).await,
            Some(Route::Ports(which)) => self.ports(&which, &query, &mut request),
        };
        answer.unwrap_or_else(KubeletResponse::from)
    }

    async fn logs(
        self: &Arc<Self>,
        which: &ContainerRef,
        query: &QueryParams,
    ) -> Result<KubeletResponse, HttpError> {
        let options = PodLogOptions::of(query, self.clock.now())?;
        let resident = self.roster.find(&which.namespace, &which.pod);
        let resident =
            resident.ok_or_else(|| HttpError::new(404, format!("pod {:?} does not exist", which.pod)))?;
        if !resident.containers.contains(&which.container) {
            let (container, pod) = (&which.container, &which.pod);
            return Err(HttpError::new(404, format!("container {container:?} not found in pod {pod:?}")));
        }
        let id = logs::run_of(self.containers.as_ref(), &resident, which, options.previous)?;
        let place = self.place()?;
        // The permit is held until the log is sent.
        logs::answer(self.containers.clone(), id, options, place, self.stopping()).await
    }

    async fn exec<B>(
        self: &Arc<Self>,
        which: &ContainerRef,
        query: &QueryParams,
        request: &mut Request<B>,
    ) -> Result<KubeletResponse, HttpError> {
        let streams = StreamOptions::of(query)?;
        let argv = options::command(query)?;
        let not_found = || format!("container not found ({:?})", which.container);
        let id = self.running(which, not_found).await?;
        let containers = self.containers.clone();
        self.upgrade(request, subprotocol::REMOTE_COMMAND, move |session| {
            exec::run(containers, id, argv, streams, session)
        })
    }

    async fn attach<B>(
        self: &Arc<Self>,
        which: &ContainerRef,
        query: &QueryParams,
        request: &mut Request<B>,
    ) -> Result<KubeletResponse, HttpError> {
        let streams = StreamOptions::of(query)?;
        let not_found = || format!("container {} not found in pod {}", which.container, which.full_name());
        let id = self.running(which, not_found).await?;
        let containers = self.containers.clone();
        self.upgrade(request, subprotocol::REMOTE_COMMAND, move |session| {
            attach::run(containers, id, streams, session)
        })
    }

    fn ports<B>(
        self: &Arc<Self>,
        which: &ContainerRef,
        query: &QueryParams,
        request: &mut Request<B>,
    ) -> Result<KubeletResponse, HttpError> {
        let resident = self.resident(which)?;
        let runs = |name: &String| {
            self.newest(&resident, name).is_some_and(|(_, state)| !matches!(state, RunState::Exited(_)))
        };
        // A pod without active containers serves no port, and its IP may be reused.
        if !resident.attempts.keys().any(runs) {
            return Err(HttpError::new(500, format!("pod not found ({:?})", which.full_name())));
        }
        let target = ForwardTarget { pod: which.pod.clone(), uid: resident.uid, address: resident.address };
        // A tunnel has a port per connection, so there is no `port` parameter.
        if upgrade::offers(request.headers(), subprotocol::PORT_FORWARD_TUNNEL) {
            return self.upgrade(request, subprotocol::PORT_FORWARD_TUNNEL, move |session| {
                tunnel::run(target, session)
            });
        }
        let ports = options::ports(query)?;
        self.upgrade(request, subprotocol::PORT_FORWARD, move |session| {
            port_forward::run(target, ports, session)
        })
    }

    /// The registered pod of a request.
    fn resident(&self, which: &ContainerRef) -> Result<RegisteredPod, HttpError> {
        let found = self.roster.find(&which.namespace, &which.pod);
        let found = found.filter(|resident| which.uid.as_ref().is_none_or(|uid| *uid == resident.uid));
        found.ok_or_else(|| HttpError::new(404, "pod does not exist"))
    }

    fn newest(&self, resident: &RegisteredPod, container: &str) -> Option<(RunId, RunState)> {
        let attempt = *resident.attempts.get(container)?;
        let id = RunId { pod: resident.uid.clone(), container: container.to_owned(), attempt };
        let state = self.containers.state(&id)?;
        Some((id, state))
    }

    /// The running run of a container; waits for one that is starting.
    async fn running(
        &self,
        which: &ContainerRef,
        not_found: impl Fn() -> String,
    ) -> Result<RunId, HttpError> {
        for _ in 0..START_TRIES {
            match self.newest(&self.resident(which)?, &which.container) {
                Some((id, RunState::Running { .. })) => return Ok(id),
                Some((_, RunState::Starting)) => sleep(START_PAUSE).await,
                Some((_, RunState::Exited(_))) | None => break,
            }
        }
        Err(HttpError::new(500, not_found()))
    }

    /// Upgrades the connection to a WebSocket and runs `work` on it.
    fn upgrade<B, F, W>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        known: &'static [Subprotocol],
        work: W,
    ) -> Result<KubeletResponse, HttpError>
    where
        W: FnOnce(Session) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (key, protocols) = match UpgradeRequest::of(request.headers())? {
            UpgradeRequest::WebSocket { key, protocols } => (key, protocols),
            UpgradeRequest::Spdy => return Err(upgrade::no_spdy()),
        };
        let offered: Vec<&str> = protocols.iter().map(String::as_str).collect();
        let Some(dialect) = subprotocol::negotiate(&offered, known) else {
            let names: Vec<&str> = known.iter().map(|dialect| dialect.name).collect();
            return Err(upgrade::unknown_protocols(&protocols, &names));
        };
        let place = self.place()?;
        let (answer, on_upgrade) = upgrade::accept(request, &key, dialect.name);
        let kubelet = self.clone();
        tokio::spawn(async move {
            kubelet.run_session(on_upgrade, dialect, work).await;
            drop(place);
        });
        Ok(answer)
    }

    async fn run_session<F>(
        &self,
        on_upgrade: OnUpgrade,
        dialect: Subprotocol,
        work: impl FnOnce(Session) -> F,
    ) where
        F: Future<Output = ()>,
    {
        match upgrade::socket(on_upgrade).await {
            Ok(socket) => work(Session::begin(socket, dialect, self.stopping())).await,
            Err(error) => tracing::debug!(%error, "client disconnected before the upgrade"),
        }
    }
}
