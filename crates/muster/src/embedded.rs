//! The whole control plane in this process: started the same way by `up` and `run`, and stopped in order.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::gang_make::Gangs;
use muster_api::port::Api;
use muster_api::ports::{Clock, Entropy};
use muster_api::queue::words::GROUP;
use muster_apiserver::admission::{Hook, TokenVolume};
use muster_apiserver::engine::{Convert, Engine, EngineOptions};
use muster_apiserver::http::aside::Aside;
use muster_apiserver::http::health::Check;
use muster_apiserver::http::identity::{Identity, IdentityError};
use muster_apiserver::http::kubeconfig::{self, Access, KubeconfigError};
use muster_apiserver::http::limits::Bounds;
use muster_apiserver::http::metrics::SharedRegistry;
use muster_apiserver::http::nodes::NodeDoor;
use muster_apiserver::http::told::{Teller, Tellers};
use muster_apiserver::http::{Server, ServerOptions, StartError};
use muster_apiserver::local::LocalApi;
use muster_control::queueing::desk::Desk;
use muster_control::training::Reporting;
use muster_hooks::{JobSets, Queues, Trainings};
use muster_kubelet::Kubelet;
use muster_kubelet::dns::NameServer;
use muster_operator::ports::{SystemClock, SystemEntropy};
use muster_operator::reports::Reports;
use muster_operator::visibility::{Everything, Visibility};
use muster_operator::{gates, names, queues, training};
use muster_store::{OpenError, Store, StoreOptions, SyncMode};
use muster_tree::{Text, Tree};

use crate::cli::Durability;
use crate::door::Door;
use crate::local::{LocalError, LocalNode};
use crate::plane::{self, Plane, PlaneError};
use crate::settings::{self, Place, Settings};
use crate::usage::Metrics;
use crate::{local, nodes, private, who};

/// The name of the cluster, user and context in kubeconfigs.
const CONTEXT: &str = "muster";
/// The name of the node that this machine is.
const LOCAL_NODE: &str = "local";
/// Where pods of this machine reach the server.
const LOOPBACK: &str = "127.0.0.1";
/// The controller that makes service accounts.
const ACCOUNTS_CONTROLLER: &str = "serviceaccount";
/// The controller of JobSets.
const JOBSET_CONTROLLER: &str = "jobset";
/// The controller of queues.
const QUEUE_CONTROLLER: &str = "queue";
/// The controller of TrainJobs.
const TRAINER_CONTROLLER: &str = "trainer";
/// The admission step that has new PodGroups wait for their pods, and the controller that lets them go after the last one:
/// either is of use only with the other.
const PODGROUP: &str = "podgroup";
/// The controller that runs nodes.
const NODE_CONTROLLER: &str = "node";

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// The port is taken.
    #[error(
        "{address} is in use by {who}\n\nhint: stop it, or choose another port with `--listen` (port 0 picks a free one)"
    )]
    PortTaken {
        /// The address.
        address: std::net::SocketAddr,
        /// Who has it.
        who: String,
    },
    /// The address cannot be used.
    #[error("listening on {address}: {source}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The data directory.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// Keys and certificates.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The server.
    #[error(transparent)]
    Server(#[from] StartError),
    /// The kubeconfig.
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    /// The controllers.
    #[error(transparent)]
    Plane(#[from] PlaneError),
    /// This machine as a node.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Takes the address: before anything else, since whoever has it must be named.
///
/// # Errors
/// Somebody has it, or it is none of this machine's.
pub fn listen(settings: &Settings) -> Result<TcpListener, EmbeddedError> {
    let address = settings.listen;
    TcpListener::bind(address).map_err(|source| match who::listens_on(address) {
        Some(who) if source.kind() == io::ErrorKind::AddrInUse => EmbeddedError::PortTaken { address, who },
        _ => EmbeddedError::Listen { address, source },
    })
}

/// A running control plane.
pub struct Embedded {
    store: Store,
    server: Server,
    plane: Plane,
    address: String,
    kubeconfig: PathBuf,
    /// Serves logs and commands of this machine's pods.
    kubelet: Option<Arc<Kubelet>>,
    /// Ends with this value.
    _names: Option<NameServer>,
    /// The folder of what does not outlive it.
    passing: Option<PathBuf>,
}

impl Embedded {
    /// Starts everything. Wants to be called inside a runtime.
    ///
    /// # Errors
    /// Whatever is in the way; nothing is left running.
    pub fn start(settings: &Settings, listener: TcpListener) -> Result<Embedded, EmbeddedError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        if let Place::Folder(folder) = &settings.place {
            private::folder(folder)?;
        }
        let store = open_store(settings, &clock)?;
        let identity = Identity::of_store(&store, clock.as_ref(), entropy.as_ref())?;
        let access = access(&identity, &listener)?;
        let engine =
            Engine::new(store.clone(), clock.clone(), entropy.clone(), engine_options(settings, &identity));
        admit_jobsets(settings, &engine);
        admit_queues(settings, &engine);
        admit_trainings(settings, &engine);
        let mut local = local_node(settings, &engine, listener.local_addr()?)?;
        let names = local.as_mut().and_then(|node| node.names.take());
        let ready = Plane::check();
        let metrics = SharedRegistry::default();
        let mut options = server_options(listener, identity, &ready, &metrics, &clock, &entropy);
        let kubelet = local.as_ref().map(|node| Arc::new(node.kubelet(&clock)));
        options.nodes = kubelet
            .clone()
            .map(|kubelet| -> Arc<dyn NodeDoor> { Arc::new(Door { node: LOCAL_NODE.into(), kubelet }) });
        let desk = Desk::default();
        let metrics_api = local.as_ref().map(|node| usage_of(node, &engine, &clock));
        options.teller =
            Tellers::of(visibility(settings, &desk, &clock).into_iter().chain(metrics_api).collect());
        options.aside = reports(settings, &engine);
        let server = Server::start(engine.clone(), options)?;
        let kubeconfig = write_kubeconfigs(settings, &access)?;
        let reporting = reporting(settings, &access);
        let told = plane::Told { root_ca: &access.authority, desk, entropy, reporting };
        let plane = Plane::start(&engine, &clock, settings, local, told, &ready, &metrics)?;
        let passing =
            (settings.place == Place::Ephemeral).then(|| nodes::home(&settings.place)).transpose()?;
        Ok(Embedded {
            store,
            server,
            plane,
            address: access.server,
            kubeconfig,
            kubelet,
            _names: names,
            passing,
        })
    }

    /// Where it serves.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A kubeconfig for it.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Waits until the controllers have ended by an error of their own.
    pub async fn crashed(&mut self) {
        self.plane.crashed().await;
    }

    /// Stops in order: no request is taken any more, then controllers and nodes end, then the store is closed.
    pub async fn stop(self) {
        if let Some(kubelet) = &self.kubelet {
            kubelet.stop();
        }
        self.server.stop().await;
        self.plane.stop();
        self.store.close();
        if let Some(folder) = self.passing {
            // Absent when no pod ever ran; what cannot be removed is left to whoever cleans temporary files.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// JobSets are filled in and judged, unless that is switched off.
fn admit_jobsets(settings: &Settings, engine: &Engine) {
    if settings.admission.contains(JobSets::NAME) {
        let settings = muster_jobset::admission::Settings {
            gates: gates::jobset(&settings.gates),
            reject_overrides: settings.reject_overrides,
        };
        engine.add_hook(Arc::new(JobSets::new(settings)));
    }
}

/// Queues and what waits in them are filled in and judged, unless that is switched off. Without the controller nobody would
/// let go what is held here.
fn admit_queues(settings: &Settings, engine: &Engine) {
    if [&settings.controllers, &settings.admission].iter().all(|on| on.contains(Queues::NAME)) {
        let gangs = gates::gangs(&settings.gates).groups.then(Gangs::default);
        engine.add_hook(Arc::new(Queues::new(queues::admission(&settings.queues)).gangs(gangs)));
    }
}

/// TrainJobs and runtimes are filled in and judged, unless that is switched off. Without the controller there are none.
fn admit_trainings(settings: &Settings, engine: &Engine) {
    if [&settings.controllers, &settings.admission].iter().all(|on| on.contains(Trainings::NAME)) {
        engine.add_hook(Arc::new(Trainings));
    }
}

/// The resource metrics of this machine as a node.
fn usage_of(node: &LocalNode, engine: &Engine, clock: &Arc<dyn Clock>) -> Arc<dyn Teller> {
    let (containers, roster) = (node.containers.clone(), node.roster.clone());
    Arc::new(Metrics::new(LOCAL_NODE.into(), engine.clone(), containers, roster, clock.clone()))
}

/// Questions about queues are answered where queues are run.
fn visibility(settings: &Settings, desk: &Desk, clock: &Arc<dyn Clock>) -> Option<Arc<dyn Teller>> {
    let visibility = || Visibility::new(desk.clone(), Arc::new(Everything), clock.clone());
    settings.controllers.contains(QUEUE_CONTROLLER).then(|| Arc::new(visibility()) as Arc<dyn Teller>)
}

/// This machine as a node, unless others were asked for.
fn local_node(
    settings: &Settings,
    engine: &Engine,
    server: SocketAddr,
) -> Result<Option<LocalNode>, LocalError> {
    if settings.nodes != settings::Nodes::Local || !settings.controllers.contains(NODE_CONTROLLER) {
        return Ok(None);
    }
    // Where accounts are looked after, and their steps are not switched off, pods have their tokens.
    if [ACCOUNTS_CONTROLLER, NODE_CONTROLLER].iter().all(|name| settings.controllers.contains(*name))
        && settings.admission.contains(TokenVolume.name())
    {
        engine.add_hook(Arc::new(TokenVolume));
    }
    let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
    let wanted = local::Wanted {
        name: LOCAL_NODE.into(),
        folder: nodes::home(&settings.place)
            .map_err(|source| LocalError::Folder { path: std::env::temp_dir(), source })?,
        passing: settings.place == Place::Ephemeral,
        isolation: settings.isolation,
        runtime: settings.runtime,
        processes_max: settings.pod_pids_limit,
        kubelet: None,
        server: Some((LOOPBACK.into(), server.port())),
        api: &api,
    };
    local::make(&wanted).map(Some)
}

fn open_store(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Store, EmbeddedError> {
    let sync = match settings.durability {
        Durability::Strict => SyncMode::EveryCommit,
        Durability::Relaxed => SyncMode::Relaxed,
    };
    let options = StoreOptions { sync, ..StoreOptions::default() };
    let Place::Folder(folder) = &settings.place else {
        return Ok(Store::in_memory(options, clock.clone()));
    };
    if sync == SyncMode::Relaxed {
        tracing::warn!("relaxed durability: a crash may lose the writes of the last 100 ms");
    }
    Ok(Store::open(folder, options, clock.clone())?)
}

fn engine_options(settings: &Settings, identity: &Identity) -> EngineOptions {
    let steps = names::admission_steps().into_iter();
    let off = steps.filter(|name| !settings.admission.contains(*name)).map(Text::from);
    EngineOptions {
        admission_off: off.collect(),
        root_ca: Text::from(identity.authority()),
        definitions: definitions(settings),
        shipped: shipped(settings),
        conversions: conversions(settings),
        gangs: gates::gangs(&settings.gates).served(),
        protect_groups: [&settings.controllers, &settings.admission].iter().all(|on| on.contains(PODGROUP)),
        ..EngineOptions::default()
    }
}

/// How objects of our definitions are turned into other versions.
fn conversions(settings: &Settings) -> Vec<(Text, Convert)> {
    let queues = settings.controllers.contains(QUEUE_CONTROLLER);
    let queues = queues.then_some((Text::from(GROUP), muster_queue::kinds::convert::convert as Convert));
    queues.into_iter().collect()
}

/// What our controllers work on. With one of them off, its kinds are left to whoever brings another.
fn definitions(settings: &Settings) -> Vec<Tree> {
    let jobsets = settings.controllers.contains(JOBSET_CONTROLLER).then(muster_jobset::crd::definition);
    let queues = settings.controllers.contains(QUEUE_CONTROLLER).then(muster_queue::kinds::definitions);
    let training = settings.controllers.contains(TRAINER_CONTROLLER).then(muster_trainer::kinds::definitions);
    jobsets.into_iter().chain([queues, training].into_iter().flatten().flatten()).collect()
}

/// What TrainJobs are made of comes along where they are run.
fn shipped(settings: &Settings) -> Vec<Tree> {
    let trains = settings.controllers.contains(TRAINER_CONTROLLER);
    if trains { training::comes_along(&settings.training) } else { Vec::new() }
}

/// Training that tells how far it is is heard, where that is switched on.
fn reports(settings: &Settings, engine: &Engine) -> Option<Arc<dyn Aside>> {
    let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
    heard(settings).then(|| Arc::new(Reports::new(api)) as Arc<dyn Aside>)
}

/// Where training tells how far it is, if it does.
fn reporting(settings: &Settings, access: &Access) -> Option<Reporting> {
    let here = || Reporting { server: access.server.as_str().into(), ca: access.authority.as_str().into() };
    heard(settings).then(here)
}

/// Whether training tells how far it is.
fn heard(settings: &Settings) -> bool {
    settings.controllers.contains(TRAINER_CONTROLLER) && gates::reports(&settings.gates)
}

fn server_options(
    listener: TcpListener,
    identity: Identity,
    ready: &Check,
    metrics: &SharedRegistry,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> ServerOptions {
    ServerOptions {
        listener,
        identity,
        static_tokens: Vec::new(),
        checks: vec![Check::passed("store"), ready.clone()],
        nodes: None,
        teller: None,
        aside: None,
        bounds: Bounds::default(),
        metrics: metrics.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
    }
}

fn access(identity: &Identity, listener: &TcpListener) -> Result<Access, EmbeddedError> {
    let mut address = listener.local_addr()?;
    if address.ip().is_unspecified() {
        // Everywhere is no address to call: on this machine it is loopback.
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    Ok(Access {
        name: CONTEXT.to_owned(),
        server: format!("https://{address}"),
        authority: identity.authority().to_owned(),
        client: identity.admin_certificate()?,
    })
}

/// One in the data folder, always; one more where it was asked for. Returns the one to show.
fn write_kubeconfigs(settings: &Settings, access: &Access) -> Result<PathBuf, EmbeddedError> {
    let own = match &settings.place {
        Place::Folder(folder) => Some(folder.join("kubeconfig")),
        // A folder of its own: a kept server's file beside it stays what it is.
        Place::Ephemeral if settings.kubeconfig.is_none() => {
            let home = settings::data_home().unwrap_or_else(|| std::env::temp_dir().join("muster"));
            Some(home.join("ephemeral").join("kubeconfig"))
        }
        Place::Ephemeral => None,
    };
    let all: Vec<PathBuf> = settings.kubeconfig.clone().into_iter().chain(own).collect();
    for path in &all {
        kubeconfig::write(path, access)?;
    }
    Ok(all.into_iter().next().expect("there is one in the data folder, or one that was asked for"))
}
