//! `muster up`: a control plane on this machine, from start to clean stop.

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use muster_api::ports::{Clock, Entropy};
use muster_apiserver::engine::{Engine, EngineOptions};
use muster_apiserver::http::health::Check;
use muster_apiserver::http::identity::{Identity, IdentityError};
use muster_apiserver::http::kubeconfig::{self, Access, KubeconfigError};
use muster_apiserver::http::limits::Bounds;
use muster_apiserver::http::metrics::SharedRegistry;
use muster_apiserver::http::{Server, ServerOptions, StartError};
use muster_store::{OpenError, Store, StoreOptions, SyncMode};
use muster_tree::Text;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Durability, UpFlags};
use crate::config::{self, Config, ConfigError};
use crate::plane::{Plane, PlaneError};
use crate::ports::{SystemClock, SystemEntropy};
use crate::settings::{self, Place, Settings, SettingsError};
use crate::who;
use crate::{log, names};

/// The name of the cluster, user and context in kubeconfigs.
const CONTEXT: &str = "muster";

/// Why `up` ended.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// Flags or file.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Flags or file.
    #[error(transparent)]
    Settings(#[from] SettingsError),
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
    /// The controllers.
    #[error(
        "the controllers ended by an error of their own, told above; all that was accepted is kept\n\nhint: start again, and report the error"
    )]
    Crashed,
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Runs until a signal comes.
///
/// # Errors
/// When it could not start.
pub fn run(flags: UpFlags) -> Result<(), UpError> {
    let file = flags.config.as_deref().map(config::read).transpose()?.unwrap_or_else(Config::default);
    let settings = settings::settle(flags, file, settings::data_home())?;
    log::start(settings.log_level, settings.log_format);
    let listener = listen(&settings)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&settings, listener))
}

async fn serve(settings: &Settings, listener: TcpListener) -> Result<(), UpError> {
    // Signals count from here on: a stop during the start is a stop as well.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let store = open_store(settings, &clock)?;
    let identity = Identity::of_store(&store, clock.as_ref(), entropy.as_ref())?;
    let access = access(&identity, &listener)?;
    let engine =
        Engine::new(store.clone(), clock.clone(), entropy.clone(), engine_options(settings, &identity));
    let ready = Plane::check();
    let metrics = SharedRegistry::default();
    let options = server_options(listener, identity, &ready, &metrics, &clock, &entropy);
    let server = Server::start(engine.clone(), options)?;
    let written = write_kubeconfigs(settings, &access)?;
    let mut plane = Plane::start(&engine, &clock, settings, &access.authority, &ready, &metrics)?;
    announce(&access.server, &written);
    // A server that accepts work nobody does is worse than none: whoever watches over the process starts it again.
    let ended = tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        () = plane.crashed() => Err(UpError::Crashed),
    };
    server.stop().await;
    plane.stop();
    store.close();
    ended
}

fn listen(settings: &Settings) -> Result<TcpListener, UpError> {
    let address = settings.listen;
    TcpListener::bind(address).map_err(|source| match who::listens_on(address) {
        Some(who) if source.kind() == io::ErrorKind::AddrInUse => UpError::PortTaken { address, who },
        _ => UpError::Listen { address, source },
    })
}

fn open_store(settings: &Settings, clock: &Arc<dyn Clock>) -> Result<Store, UpError> {
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
        ..EngineOptions::default()
    }
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
        bounds: Bounds::default(),
        metrics: metrics.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
    }
}

fn access(identity: &Identity, listener: &TcpListener) -> Result<Access, UpError> {
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
fn write_kubeconfigs(settings: &Settings, access: &Access) -> Result<PathBuf, UpError> {
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

/// The line that scripts wait for goes to stdout, talk to stderr.
#[expect(clippy::print_stdout, reason = "the address is the data of this command")]
fn announce(server: &str, kubeconfig: &Path) {
    println!("muster is ready at {server}");
    eprintln!();
    eprintln!("Try, in another terminal:");
    eprintln!("  export KUBECONFIG={}", kubeconfig.display());
    eprintln!("  kubectl create job hello --image=busybox -- echo hi");
    eprintln!("  kubectl wait --for=condition=complete job/hello");
    eprintln!("  kubectl get jobs,pods -o wide");
}
