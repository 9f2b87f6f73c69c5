//! Hooks behind a Service: every replica answers, whoever leads.
//!
//! # Invariants
//!
//! - Without a certificate no connection comes about, and `/readyz` does not hold.
//! - Whoever is told to stop answers a little longer: API servers hear of it late.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use muster_apiserver::http::identity::IdentityError;
use muster_apiserver::http::listen::ServerConfig;
use muster_apiserver::http::serving::Tls;
use muster_cluster::KubeApi;
use muster_control::queueing::desk::Desk as QueueDesk;
use muster_install::hooks::Step;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::hooks::Deciders;
use super::live::LiveCluster;
use super::serve::Desk;
use super::{Served, Tally, WebhookError, rehearsal};
use crate::aggregated::Aggregated;
use crate::certificates::{Holder, Keeper, Lifetimes, SECRET, Service};
use crate::sockets;

/// How long API servers may take to ask us before that is worth a word; how often it is tried until then, and later.
const ASKED_WITHIN: Duration = Duration::from_secs(30);
const TRY_SOON: Duration = Duration::from_millis(200);
const TRY_LATER: Duration = Duration::from_secs(5);
/// How often it is looked whether the certificate is still valid.
const VALID_EVERY: Duration = Duration::from_secs(10);
/// How long one who is told to stop still answers.
const LINGERS: Duration = Duration::from_secs(3);

/// How hooks are served.
pub struct Manner {
    /// Where they listen.
    pub address: SocketAddr,
    /// The Service before them.
    pub service: Service,
    /// How TLS is spoken.
    pub tls: Tls,
    /// How long certificates last.
    pub lives: Lifetimes,
}

/// Hooks that are served.
pub struct Behind {
    manner: Manner,
    served: Served,
    holder: Arc<Holder>,
    /// Whose hooks are answered.
    steps: Vec<Step>,
    following: JoinSet<()>,
}

impl Behind {
    /// Has these decide as soon as there is a certificate, and tells whether there is one, again and again. Where queues
    /// are among them, whoever asks about those is answered at their desk. Wants to be called inside a runtime.
    ///
    /// # Errors
    /// The address cannot be used.
    pub fn start(
        api: &KubeApi,
        manner: Manner,
        deciders: Deciders,
        tally: Arc<Tally>,
        queues: &QueueDesk,
        told: impl Fn(bool) + Send + Sync + 'static,
    ) -> Result<Behind, WebhookError> {
        let address = manner.address;
        let listener = sockets::bind(address).map_err(|source| WebhookError::Listen { address, source })?;
        let holder = Arc::new(Holder::default());
        let tls = holder.serving().config(&manner.tls)?;
        let steps: Vec<Step> = deciders.steps().collect();
        let handed = steps.contains(&Step::Queues).then(|| Arc::new(Aggregated::new(api, queues)));
        let live = LiveCluster::new(api, &manner.service.namespace);
        let desk = Arc::new(Desk::new(Box::new(live), deciders, tally));
        let ready = desk.clone();
        let told = move |holds: bool| {
            ready.ready(holds);
            told(holds);
        };
        let served = Served::start(listener, tls, desk, handed.clone())
            .map_err(|source| WebhookError::Listen { address, source })?;
        let mut following = JoinSet::new();
        if let Some(handed) = handed {
            let api = api.clone();
            following.spawn(async move { handed.follow(&api).await });
        }
        following.spawn(follow(api.clone(), holder.clone(), manner.service.clone(), told));
        Ok(Behind { manner, served, holder, steps, following })
    }

    /// The certificates' keeper, who only the leader is.
    pub fn keeper(&self, api: &KubeApi) -> Keeper {
        Keeper::new(api, &self.manner.service, self.manner.lives, &self.holder, &self.steps)
    }

    /// The TLS side of another port of the same Service: the same certificate, renewed with it.
    ///
    /// # Errors
    /// What was asked for of TLS cannot be.
    pub fn tls(&self) -> Result<ServerConfig, IdentityError> {
        self.holder.serving().config(&self.manner.tls)
    }

    /// The authorities to trust, PEM, now and whenever they are others; empty while there is no certificate.
    pub fn trusted(&self) -> watch::Receiver<String> {
        self.holder.trusted()
    }

    /// Waits until the server asks any replica, with a word that is ours alone.
    pub fn asked(&self, api: &KubeApi, word: &str) -> impl Future<Output = ()> + Send + use<> {
        let (api, service, word) = (api.clone(), self.manner.service.clone(), word.to_owned());
        async move { until_asked(&api, &service, &word).await }
    }

    /// Answers a little longer, then no more.
    pub async fn stop(mut self) {
        self.following.shutdown().await;
        tokio::time::sleep(LINGERS).await;
        self.served.stop().await;
    }
}

async fn follow(api: KubeApi, holder: Arc<Holder>, service: Service, told: impl Fn(bool)) {
    let still = async {
        loop {
            tokio::time::sleep(VALID_EVERY).await;
            told(holder.is_ready(&service));
        }
    };
    tokio::join!(holder.follow(&api, &service, SECRET, &told), still);
}

/// Rehearses a JobSet until the server asks about it, and says so when that takes long.
async fn until_asked(api: &KubeApi, service: &Service, word: &str) {
    let call = rehearsal::call(&service.namespace, Some(word));
    let (began, mut told) = (Instant::now(), String::new());
    loop {
        let said = match api.rehearse(&call).await {
            Err(refusal) if rehearsal::is_heard(&refusal.words(), word) => return,
            Err(refusal) => refusal.words(),
            Ok(_) => "nothing; it accepts JobSets without asking".to_owned(),
        };
        let late = began.elapsed() > ASKED_WITHIN;
        if late && said != told {
            tracing::warn!("{}", unreached(service, &said));
            told = said;
        }
        tokio::time::sleep(if late { TRY_LATER } else { TRY_SOON }).await;
    }
}

fn unreached(service: &Service, said: &str) -> String {
    let Service { namespace, name } = service;
    format!(
        "the API server does not reach the webhooks through the Service {namespace}/{name}; it says: {said}. Until it does, \
         JobSets, queues and TrainJobs cannot be made or changed. Does the Service have the port that the webhook configurations name, and lead \
         to ready pods? See `kubectl -n {namespace} get service {name}` and `kubectl -n {namespace} get endpointslices \
         -l kubernetes.io/service-name={name}`, or run `muster install` again"
    )
}
