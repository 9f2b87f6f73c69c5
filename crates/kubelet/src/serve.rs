//! From a request to its answer.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::upgrade::OnUpgrade;
use muster_process::{Id, Resident, State};
use tokio::time::sleep;

use crate::answer::{self, Answer, Refusal};
use crate::dialect::{self, Dialect};
use crate::forward::Target;
use crate::options::{self, LogOptions, Query, Streams};
use crate::path::{self, Ask, Which};
use crate::session::Session;
use crate::upgrade::{self, Wish};
use crate::{Kubelet, attach, exec, forward, logs, tunnel};

/// How often one looks whether a container has started, and how long apart.
const START_TRIES: u32 = 250;
const START_PAUSE: Duration = Duration::from_millis(20);

impl Kubelet {
    /// Answers one request. Must be called within a tokio runtime.
    pub async fn serve<B: Send>(self: &Arc<Self>, mut request: Request<B>) -> Answer {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let answer = match path::parse(request.uri().path()) {
            None => Err(Refusal::new(404, "404 page not found")),
            Some(Ask::Healthz) => Ok(answer::text(200, "ok")),
            Some(Ask::Logs(which)) => self.logs(&which, &query).await,
            Some(Ask::Exec(which)) => self.exec(&which, &query, &mut request).await,
            Some(Ask::Attach(which)) => self.attach(&which, &query, &mut request).await,
            Some(Ask::Ports(which)) => self.ports(&which, &query, &mut request),
        };
        answer.unwrap_or_else(Answer::from)
    }

    async fn logs(self: &Arc<Self>, which: &Which, query: &Query) -> Result<Answer, Refusal> {
        let options = LogOptions::of(query, self.clock.now())?;
        let resident = self.roster.find(&which.namespace, &which.pod);
        let resident =
            resident.ok_or_else(|| Refusal::new(404, format!("pod {:?} does not exist", which.pod)))?;
        if !resident.containers.contains(&which.container) {
            let (container, pod) = (&which.container, &which.pod);
            return Err(Refusal::new(404, format!("container {container:?} not found in pod {pod:?}")));
        }
        let id = logs::run_of(self.containers.as_ref(), &resident, which, options.previous)?;
        let place = self.place()?;
        logs::answer(self.containers.clone(), id, options, place, self.stopping()).await
    }

    async fn exec<B>(
        self: &Arc<Self>,
        which: &Which,
        query: &Query,
        request: &mut Request<B>,
    ) -> Result<Answer, Refusal> {
        let streams = Streams::of(query)?;
        let argv = options::command(query)?;
        let lacks = || format!("container not found ({:?})", which.container);
        let id = self.running(which, lacks).await?;
        let containers = self.containers.clone();
        self.upgrade(request, dialect::COMMANDS, move |session| {
            exec::run(containers, id, argv, streams, session)
        })
    }

    async fn attach<B>(
        self: &Arc<Self>,
        which: &Which,
        query: &Query,
        request: &mut Request<B>,
    ) -> Result<Answer, Refusal> {
        let streams = Streams::of(query)?;
        let lacks = || format!("container {} not found in pod {}", which.container, which.full_name());
        let id = self.running(which, lacks).await?;
        let containers = self.containers.clone();
        self.upgrade(request, dialect::COMMANDS, move |session| attach::run(containers, id, streams, session))
    }

    fn ports<B>(
        self: &Arc<Self>,
        which: &Which,
        query: &Query,
        request: &mut Request<B>,
    ) -> Result<Answer, Refusal> {
        let resident = self.resident(which)?;
        let runs = |name: &String| {
            self.newest(&resident, name).is_some_and(|(_, state)| !matches!(state, State::Ended(_)))
        };
        if !resident.attempts.keys().any(runs) {
            return Err(Refusal::new(500, format!("pod not found ({:?})", which.full_name())));
        }
        let target = Target { pod: which.pod.clone(), uid: resident.uid, address: resident.address };
        // Through a tunnel each connection says its own port.
        if upgrade::offers(request.headers(), dialect::TUNNEL) {
            return self.upgrade(request, dialect::TUNNEL, move |session| tunnel::run(target, session));
        }
        let ports = options::ports(query)?;
        self.upgrade(request, dialect::PORTS, move |session| forward::run(target, ports, session))
    }

    /// The pod that is meant.
    fn resident(&self, which: &Which) -> Result<Resident, Refusal> {
        let found = self.roster.find(&which.namespace, &which.pod);
        let found = found.filter(|resident| which.uid.as_ref().is_none_or(|uid| *uid == resident.uid));
        found.ok_or_else(|| Refusal::new(404, "pod does not exist"))
    }

    fn newest(&self, resident: &Resident, container: &str) -> Option<(Id, State)> {
        let attempt = *resident.attempts.get(container)?;
        let id = Id { pod: resident.uid.clone(), container: container.to_owned(), attempt };
        let state = self.containers.state(&id)?;
        Some((id, state))
    }

    /// The run of the container that is meant. One that is just starting is waited for.
    async fn running(&self, which: &Which, lacks: impl Fn() -> String) -> Result<Id, Refusal> {
        for _ in 0..START_TRIES {
            match self.newest(&self.resident(which)?, &which.container) {
                Some((id, State::Running { .. })) => return Ok(id),
                Some((_, State::Starting)) => sleep(START_PAUSE).await,
                Some((_, State::Ended(_))) | None => break,
            }
        }
        Err(Refusal::new(500, lacks()))
    }

    /// Turns the connection into a WebSocket and lets `work` talk over it.
    fn upgrade<B, F, W>(
        self: &Arc<Self>,
        request: &mut Request<B>,
        known: &'static [Dialect],
        work: W,
    ) -> Result<Answer, Refusal>
    where
        W: FnOnce(Session) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (key, protocols) = match Wish::of(request.headers())? {
            Wish::WebSocket { key, protocols } => (key, protocols),
            Wish::Spdy => return Err(upgrade::no_spdy()),
        };
        let offered: Vec<&str> = protocols.iter().map(String::as_str).collect();
        let Some(dialect) = dialect::choose(&offered, known) else {
            let names: Vec<&str> = known.iter().map(|dialect| dialect.name).collect();
            return Err(upgrade::unknown_protocols(&protocols, &names));
        };
        let place = self.place()?;
        let (answer, on_upgrade) = upgrade::accept(request, &key, dialect.name);
        let kubelet = self.clone();
        tokio::spawn(async move {
            kubelet.talk(on_upgrade, dialect, work).await;
            drop(place);
        });
        Ok(answer)
    }

    async fn talk<F>(&self, on_upgrade: OnUpgrade, dialect: Dialect, work: impl FnOnce(Session) -> F)
    where
        F: Future<Output = ()>,
    {
        match upgrade::socket(on_upgrade).await {
            Ok(socket) => work(Session::begin(socket, dialect, self.stopping())).await,
            Err(error) => tracing::debug!(%error, "a client went before its stream began"),
        }
    }
}
