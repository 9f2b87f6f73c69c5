//! The embedded control plane: API server, store, controllers and nodes in this process. `muster up` and
//! `muster run` start it the same way.
//!
//! # Guarantees
//!
//! - A failed start leaves nothing running.
//! - The stop has an order: requests, then controllers and nodes, then the store.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::client::Api;
use muster_api::environment::{Clock, Entropy};
use muster_api::gang_objects::GangSupport;
use muster_api::queue::consts::GROUP;
use muster_apiserver::admission::{AdmissionPlugin, TokenVolume};
use muster_apiserver::engine::{ApiEngine, ConversionFn, EngineOptions};
use muster_apiserver::http::extension_route::ExtensionRoute;
use muster_apiserver::http::health::HealthCheck;
use muster_apiserver::http::identity::{IdentityError, ServerIdentity};
use muster_apiserver::http::kubeconfig::{self, KubeconfigEntry, KubeconfigError};
use muster_apiserver::http::kubelet_location::KubeletHandler;
use muster_apiserver::http::limits::RequestLimits;
use muster_apiserver::http::metrics::SharedRegistry;
use muster_apiserver::http::virtual_api::{ApiProvider, ApiProviders};
use muster_apiserver::http::{ApiServer, ServerOptions, ServerStartError};
use muster_apiserver::local::LocalApi;
use muster_control::queueing::visibility_query::VisibilityHandle;
use muster_control::training::ProgressEndpoint;
use muster_hooks::{JobSetAdmission, QueueAdmission, TrainJobAdmission};
use muster_kubelet::KubeletServer;
use muster_kubelet::dns::DnsServer;
use muster_operator::ports::{SystemClock, SystemEntropy};
use muster_operator::progress_api::ProgressApi;
use muster_operator::visibility::{AllowAllNamespaces, VisibilityApi};
use muster_operator::{gates, names, queues, training};
use muster_store::{OpenError, Store, StoreOptions, SyncMode};
use muster_tree::{Text, Tree};

use crate::cli::Durability;
use crate::control_plane::{self, ControlPlane, ControlPlaneError};
use crate::in_process_kubelet::InProcessKubelet;
use crate::local::{LocalError, LocalNode};
use crate::resource_metrics::ResourceMetricsApi;
use crate::settings::{self, Settings, StorageLocation};
use crate::{local, nodes, port_owner, secure_fs};

/// The name of the cluster, user and context in kubeconfigs.
const CONTEXT: &str = "muster";
/// The name of the local node.
const LOCAL_NODE: &str = "local";
/// The address at which pods of the local node reach the API server.
const LOOPBACK: &str = "127.0.0.1";
/// The controller that creates the default ServiceAccount of each namespace.
const ACCOUNTS_CONTROLLER: &str = "serviceaccount";
const JOBSET_CONTROLLER: &str = "jobset";
const QUEUE_CONTROLLER: &str = "queue";
const TRAINER_CONTROLLER: &str = "trainer";
/// The admission plugin that adds the protection finalizer to a PodGroup, and the controller that removes it after the
/// last pod of the group: one without the other would be useless, or block deletion for ever.
const PODGROUP: &str = "podgroup";
const NODE_CONTROLLER: &str = "node";

/// The control plane did not start.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Another process listens on the port.
    #[error(
        "{address} is in use by {who}\n\nhint: stop it, or choose another port with `--listen` (port 0 picks a free one)"
    )]
    PortTaken { address: std::net::SocketAddr, who: String },
    /// The address cannot be bound for another reason.
    #[error("listening on {address}: {source}")]
    Listen { address: std::net::SocketAddr, source: io::Error },
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Server(#[from] ServerStartError),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Plane(#[from] ControlPlaneError),
    /// The local node did not start.
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Binds the listen address. Callers do this before they open the store, so that the error for a second `muster up`
/// names the process on the port, not a locked data directory.
///
/// # Errors
/// The address is in use, or does not belong to this host.
pub fn listen(settings: &Settings) -> Result<TcpListener, EmbeddedError> {
    let address = settings.listen;
    TcpListener::bind(address).map_err(|source| match port_owner::listening_process(address) {
        Some(who) if source.kind() == io::ErrorKind::AddrInUse => EmbeddedError::PortTaken { address, who },
        _ => EmbeddedError::Listen { address, source },
    })
}

/// A running control plane.
pub struct Embedded {
    store: Store,
    server: ApiServer,
    control_plane: ControlPlane,
    address: String,
    kubeconfig: PathBuf,
    /// The kubelet API (logs, exec, attach, port-forward) of the local node.
    kubelet: Option<Arc<KubeletServer>>,
    /// The cluster DNS of the local node; dropping it stops it.
    _names: Option<DnsServer>,
    /// The temporary directory of pods and volumes when the store is in memory.
    ephemeral_dir: Option<PathBuf>,
}

impl Embedded {
    /// Starts all parts. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The first part that did not start; nothing is left running.
    pub fn start(settings: &Settings, listener: TcpListener) -> Result<Embedded, EmbeddedError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        if let StorageLocation::Directory(folder) = &settings.storage {
            secure_fs::private_dir(folder)?;
        }
        // The store locks the data directory, so from here on no other server can use it.
        let store = open_store(settings, &clock)?;
        let identity = ServerIdentity::load_or_generate(&store, clock.as_ref(), entropy.as_ref())?;
        let access = access(&identity, &listener)?;
        let engine = ApiEngine::new(
            store.clone(),
            clock.clone(),
            entropy.clone(),
            engine_options(settings, &identity),
        );
        // Admission plugins are added before the server starts: no request may pass without them.
        admit_jobsets(settings, &engine);
        admit_queues(settings, &engine);
        admit_trainings(settings, &engine);
        let mut local = local_node(settings, &engine, listener.local_addr()?)?;
        let names = local.as_mut().and_then(|node| node.dns.take());
        let ready = ControlPlane::check();
        let metrics = SharedRegistry::default();
        let mut options = server_options(listener, identity, &ready, &metrics, &clock, &entropy);
        let kubelet = local.as_ref().map(|node| Arc::new(node.kubelet(&clock)));
        options.local_kubelets = kubelet.clone().map(|kubelet| -> Arc<dyn KubeletHandler> {
            Arc::new(InProcessKubelet { node: LOCAL_NODE.into(), kubelet })
        });
        let desk = VisibilityHandle::default();
        let metrics_api = local.as_ref().map(|node| resource_metrics(node, &engine, &clock));
        options.api_provider =
            ApiProviders::of(visibility(settings, &desk, &clock).into_iter().chain(metrics_api).collect());
        options.extension_route = progress_route(settings, &engine);
        let server = ApiServer::start(engine.clone(), options)?;
        let kubeconfig = write_kubeconfigs(settings, &access)?;
        let reporting = progress_endpoint(settings, &access);
        let told = control_plane::ControlPlaneInputs { root_ca: &access.authority, desk, entropy, reporting };
        let plane = ControlPlane::start(&engine, &clock, settings, local, told, &ready, &metrics)?;
        let passing = (settings.storage == StorageLocation::Ephemeral)
            .then(|| nodes::node_dir(&settings.storage))
            .transpose()?;
        Ok(Embedded {
            store,
            server,
            control_plane: plane,
            address: access.server,
            kubeconfig,
            kubelet,
            _names: names,
            ephemeral_dir: passing,
        })
    }

    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The kubeconfig of its admin user.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Resolves when the controllers crash.
    pub async fn crashed(&mut self) {
        self.control_plane.crashed().await;
    }

    /// Stops the server, then controllers and nodes, then the store.
    pub async fn stop(self) {
        if let Some(kubelet) = &self.kubelet {
            kubelet.stop();
        }
        self.server.stop().await;
        self.control_plane.stop();
        self.store.close();
        if let Some(folder) = self.ephemeral_dir {
            // Absent when no pod ever ran. A directory that cannot be removed is left to the cleaner of temporary files.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Adds the admission plugin of JobSets (defaulting and validation), unless it is disabled.
fn admit_jobsets(settings: &Settings, engine: &ApiEngine) {
    if settings.admission.contains(JobSetAdmission::NAME) {
        let settings = muster_jobset::admission::AdmissionSettings {
            gates: gates::jobset_gates(&settings.gates),
            reject_overrides: settings.reject_overrides,
        };
        engine.add_admission_plugin(Arc::new(JobSetAdmission::new(settings)));
    }
}

/// Adds the admission plugin of queues and queued workloads, unless it is disabled. It also needs the controller:
/// without it, workloads that the plugin suspends or gates would never be admitted.
fn admit_queues(settings: &Settings, engine: &ApiEngine) {
    if [&settings.controllers, &settings.admission].iter().all(|on| on.contains(QueueAdmission::NAME)) {
        let gangs = gates::gang_gates(&settings.gates).groups.then(GangSupport::default);
        engine.add_admission_plugin(Arc::new(
            QueueAdmission::new(queues::admission(&settings.queues)).gangs(gangs),
        ));
    }
}

/// Adds the admission plugin of TrainJobs and their runtimes, unless it is disabled. Without the controller the CRDs
/// are not installed, so the plugin is not needed.
fn admit_trainings(settings: &Settings, engine: &ApiEngine) {
    if [&settings.controllers, &settings.admission].iter().all(|on| on.contains(TrainJobAdmission::NAME)) {
        engine.add_admission_plugin(Arc::new(TrainJobAdmission));
    }
}

/// The resource metrics API of the local node.
fn resource_metrics(node: &LocalNode, engine: &ApiEngine, clock: &Arc<dyn Clock>) -> Arc<dyn ApiProvider> {
    let (containers, roster) = (node.containers.clone(), node.registry.clone());
    Arc::new(ResourceMetricsApi::new(LOCAL_NODE.into(), engine.clone(), containers, roster, clock.clone()))
}

/// The visibility API, if the queue controller runs.
fn visibility(
    settings: &Settings,
    desk: &VisibilityHandle,
    clock: &Arc<dyn Clock>,
) -> Option<Arc<dyn ApiProvider>> {
    let visibility = || VisibilityApi::new(desk.clone(), Arc::new(AllowAllNamespaces), clock.clone());
    settings.controllers.contains(QUEUE_CONTROLLER).then(|| Arc::new(visibility()) as Arc<dyn ApiProvider>)
}

/// The local node, unless simulated nodes are configured or the node controller is disabled.
fn local_node(
    settings: &Settings,
    engine: &ApiEngine,
    server: SocketAddr,
) -> Result<Option<LocalNode>, LocalError> {
    if settings.nodes != settings::NodeSetup::Local || !settings.controllers.contains(NODE_CONTROLLER) {
        return Ok(None);
    }
    // Pods get projected tokens only if their ServiceAccounts exist and the kubelet can request tokens for them: a pod
    // with a token volume that is never filled would not start.
    if [ACCOUNTS_CONTROLLER, NODE_CONTROLLER].iter().all(|name| settings.controllers.contains(*name))
        && settings.admission.contains(TokenVolume.name())
    {
        engine.add_admission_plugin(Arc::new(TokenVolume));
    }
    let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
    let wanted = local::LocalNodeOptions {
        name: LOCAL_NODE.into(),
        dir: nodes::node_dir(&settings.storage)
            .map_err(|source| LocalError::Directory { path: std::env::temp_dir(), source })?,
        ephemeral: settings.storage == StorageLocation::Ephemeral,
        isolation: settings.isolation,
        runtime: settings.runtime,
        processes_max: settings.pod_pids_limit,
        kubelet: None,
        server: Some((LOOPBACK.into(), server.port())),
        api: &api,
    };
    local::create_local_node(&wanted).map(Some)
}

fn open_store(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Store, EmbeddedError> {
    let sync = match settings.durability {
        Durability::Strict => SyncMode::EveryCommit,
        Durability::Relaxed => SyncMode::Relaxed,
    };
    let options = StoreOptions { sync, ..StoreOptions::default() };
    let StorageLocation::Directory(folder) = &settings.storage else {
        return Ok(Store::in_memory(options, clock.clone()));
    };
    if sync == SyncMode::Relaxed {
        tracing::warn!("relaxed durability: a crash may lose the writes of the last 100 ms");
    }
    Ok(Store::open(folder, options, clock.clone())?)
}

fn engine_options(settings: &Settings, identity: &ServerIdentity) -> EngineOptions {
    let steps = names::admission_step_names().into_iter();
    let off = steps.filter(|name| !settings.admission.contains(*name)).map(Text::from);
    EngineOptions {
        disabled_admission_plugins: off.collect(),
        root_ca: Text::from(identity.ca_certificate()),
        crds: crds(settings),
        addons: addons(settings),
        conversions: conversions(settings),
        gangs: gates::gang_gates(&settings.gates).api_features(),
        pod_group_protection: [&settings.controllers, &settings.admission]
            .iter()
            .all(|on| on.contains(PODGROUP)),
        ..EngineOptions::default()
    }
}

/// The in-process conversions between versions of our CRDs.
fn conversions(settings: &Settings) -> Vec<(Text, ConversionFn)> {
    let queues = settings.controllers.contains(QUEUE_CONTROLLER);
    let queues = queues.then_some((Text::from(GROUP), muster_queue::kinds::convert::convert as ConversionFn));
    queues.into_iter().collect()
}

/// The CRDs of the enabled controllers. The CRDs of a disabled controller are left to the installation of another one.
fn crds(settings: &Settings) -> Vec<Tree> {
    let jobsets = settings.controllers.contains(JOBSET_CONTROLLER).then(muster_jobset::crd::manifest);
    let queues = settings.controllers.contains(QUEUE_CONTROLLER).then(muster_queue::kinds::definitions);
    let training = settings.controllers.contains(TRAINER_CONTROLLER).then(muster_trainer::kinds::crds);
    jobsets.into_iter().chain([queues, training].into_iter().flatten().flatten()).collect()
}

/// The shipped training runtimes, if the trainer controller runs.
fn addons(settings: &Settings) -> Vec<Tree> {
    let trains = settings.controllers.contains(TRAINER_CONTROLLER);
    if trains { training::bundled_objects(&settings.training) } else { Vec::new() }
}

/// The progress endpoint for training pods, if it is enabled.
fn progress_route(settings: &Settings, engine: &ApiEngine) -> Option<Arc<dyn ExtensionRoute>> {
    let api: Arc<dyn Api> = Arc::new(LocalApi::new(engine.clone()));
    progress_enabled(settings).then(|| Arc::new(ProgressApi::new(api)) as Arc<dyn ExtensionRoute>)
}

/// The address and CA that training pods use to report progress, if that is enabled.
fn progress_endpoint(settings: &Settings, access: &KubeconfigEntry) -> Option<ProgressEndpoint> {
    let here =
        || ProgressEndpoint { server: access.server.as_str().into(), ca: access.authority.as_str().into() };
    progress_enabled(settings).then(here)
}

/// Whether training pods may report progress: the trainer controller runs and the feature gate is on.
fn progress_enabled(settings: &Settings) -> bool {
    settings.controllers.contains(TRAINER_CONTROLLER) && gates::train_job_status(&settings.gates)
}

fn server_options(
    listener: TcpListener,
    identity: ServerIdentity,
    ready: &HealthCheck,
    metrics: &SharedRegistry,
    clock: &Arc<dyn Clock>,
    entropy: &Arc<dyn Entropy>,
) -> ServerOptions {
    ServerOptions {
        listener,
        identity,
        static_tokens: Vec::new(),
        checks: vec![HealthCheck::always_passing("store"), ready.clone()],
        local_kubelets: None,
        api_provider: None,
        extension_route: None,
        bounds: RequestLimits::default(),
        metrics: metrics.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
    }
}

fn access(identity: &ServerIdentity, listener: &TcpListener) -> Result<KubeconfigEntry, EmbeddedError> {
    let mut address = listener.local_addr()?;
    if address.ip().is_unspecified() {
        // Clients cannot connect to the unspecified address; on this host they use loopback.
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    Ok(KubeconfigEntry {
        name: CONTEXT.to_owned(),
        server: format!("https://{address}"),
        authority: identity.ca_certificate().to_owned(),
        client: identity.admin_certificate()?,
    })
}

/// Writes a kubeconfig into the data directory, and one to `--kubeconfig`. Returns the path to print, which is
/// `--kubeconfig` if it is set.
fn write_kubeconfigs(settings: &Settings, access: &KubeconfigEntry) -> Result<PathBuf, EmbeddedError> {
    let own = match &settings.storage {
        StorageLocation::Directory(folder) => Some(folder.join("kubeconfig")),
        // A directory of its own, so that the kubeconfig of a persistent server is not overwritten.
        StorageLocation::Ephemeral if settings.kubeconfig.is_none() => {
            let home = settings::data_home().unwrap_or_else(|| std::env::temp_dir().join("muster"));
            Some(home.join("ephemeral").join("kubeconfig"))
        }
        StorageLocation::Ephemeral => None,
    };
    let all: Vec<PathBuf> = settings.kubeconfig.clone().into_iter().chain(own).collect();
    for path in &all {
        kubeconfig::write(path, access)?;
    }
    Ok(all.into_iter().next().expect("there is one in the data folder, or one that was asked for"))
}
