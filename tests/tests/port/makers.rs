//! The makers of the port, each over a server of its own that has no controllers: what a table does to a server is
//! all that happens there.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use muster_api::client::Api;
use muster_api::consts::KUBERNETES_SERVICE;
use muster_api::environment::{Clock, Entropy};
use muster_api::time::Time;
use muster_apiserver::engine::{ApiEngine, EngineOptions};
use muster_apiserver::http::identity::ServerIdentity;
use muster_apiserver::http::kubeconfig::{self, KubeconfigEntry};
use muster_apiserver::http::limits::RequestLimits;
use muster_apiserver::http::{ApiServer, ServerOptions};
use muster_apiserver::local::LocalApi;
use muster_cluster::KubeApi;
use muster_store::{Range, Store, StoreOptions, StoredObject};
use muster_tests::clients::skip;
use muster_tests::embedded_server;
use muster_tests::real::{self, Disk, RealCluster};
use muster_tree::Tree;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::between::Between;

pub struct Maker {
    /// What it is, for messages.
    pub name: &'static str,
    pub api: Arc<dyn Api>,
    /// The embedded server behind it.
    pub engine: Option<ApiEngine>,
    /// Where the connection can be cut; absent in process.
    pub between: Option<Between>,
    _kept: Kept,
}

/// What lives as long as a maker.
#[derive(Default)]
struct Kept {
    /// Dropped first: nothing runs on after its server.
    runtime: Option<Runtime>,
    _server: Option<ApiServer>,
    _folder: Option<TempDir>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Maker {
    /// In process, below HTTP.
    pub fn local(options: StoreOptions) -> Maker {
        let (engine, _) = embedded(options);
        let api = Arc::new(LocalApi::new(engine.clone()));
        Maker { name: "in process", api, engine: Some(engine), between: None, _kept: Kept::default() }
    }

    /// Over the network to our own server.
    pub fn ours(options: StoreOptions) -> Maker {
        let (engine, identity) = embedded(options);
        let runtime = Runtime::new().unwrap();
        let folder = TempDir::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let between = Between::new(listener.local_addr().unwrap());
        let file = folder.path().join("kubeconfig");
        kubeconfig::write(&file, &access(&identity, between.address())).unwrap();
        let server = {
            let _inside = runtime.enter();
            ApiServer::start(engine.clone(), server_options(listener, identity)).unwrap()
        };
        let api = connect(&runtime, &file);
        let kept = Kept { runtime: Some(runtime), _server: Some(server), _folder: Some(folder) };
        Maker { name: "ours over HTTPS", api, engine: Some(engine), between: Some(between), _kept: kept }
    }

    /// Over the network to the real kube-apiserver that all tests share; `None`, and the test noted as skipped, where there is none.
    pub fn real(test: &str) -> Option<Maker> {
        if let Some(reason) = real::missing() {
            skip(test, &reason);
            return None;
        }
        static REAL: OnceLock<RealCluster> = OnceLock::new();
        let real = REAL.get_or_init(|| {
            let real = RealCluster::start_without_controllers(Disk::Unsynced).unwrap();
            real.create_jobset_crd(&embedded_server::binary().unwrap()).unwrap();
            real
        });
        let address = real.server.base().trim_start_matches("https://").parse().unwrap();
        let between = Between::new(address);
        let folder = TempDir::new().unwrap();
        let file = real.kubeconfig(folder.path(), &format!("https://{}", between.address())).unwrap();
        let runtime = Runtime::new().unwrap();
        let api = connect(&runtime, &file);
        let kept = Kept { runtime: Some(runtime), _server: None, _folder: Some(folder) };
        Some(Maker { name: "the real one", api, engine: None, between: Some(between), _kept: kept })
    }

    /// Everything the embedded store holds of these resources, as it is on the wire.
    pub fn stored(&self, resources: &[&str]) -> Tree {
        let engine = self.engine.as_ref().expect("an embedded store");
        let registry = engine.registry();
        let all = registry.all().iter().filter(|resource| resources.contains(&resource.storage.as_str()));
        let lists = all.map(|resource| {
            let page = engine.store().list(&resource.storage, &Range::default()).unwrap();
            // A server that listens has a Service of its own.
            let is_own =
                |object: &&StoredObject| object.tree.str_at(&["metadata", "name"]) == KUBERNETES_SERVICE;
            let objects = page.objects.iter().filter(|object| !is_own(object));
            let objects = objects.map(|object| resource.present(object, 0));
            (resource.storage.to_string(), Tree::list(objects.collect::<Vec<_>>()))
        });
        Tree::map(lists.collect::<Vec<_>>())
    }
}

fn connect(runtime: &Runtime, kubeconfig: &Path) -> Arc<dyn Api> {
    Arc::new(runtime.block_on(KubeApi::connect(Some(kubeconfig))).unwrap())
}

fn embedded(options: StoreOptions) -> (ApiEngine, ServerIdentity) {
    let (clock, entropy): (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(Machine), chance());
    let store = Store::in_memory(options, clock.clone());
    let identity = ServerIdentity::load_or_generate(&store, clock.as_ref(), entropy.as_ref()).unwrap();
    // As on the real one: what a node does with tokens is not compared here.
    let definitions = vec![muster_jobset::crd::manifest()];
    let admission_off = vec!["ServiceAccount".into()];
    let options = EngineOptions {
        disabled_admission_plugins: admission_off,
        crds: definitions,
        ..EngineOptions::default()
    };
    (ApiEngine::new(store, clock, entropy, options), identity)
}

fn server_options(listener: TcpListener, identity: ServerIdentity) -> ServerOptions {
    ServerOptions {
        listener,
        identity,
        static_tokens: Vec::new(),
        checks: Vec::new(),
        local_kubelets: None,
        api_provider: None,
        extension_route: None,
        bounds: RequestLimits::default(),
        metrics: Arc::default(),
        clock: Arc::new(Machine),
        entropy: chance(),
    }
}

fn access(identity: &ServerIdentity, address: SocketAddr) -> KubeconfigEntry {
    KubeconfigEntry {
        name: "test".to_owned(),
        server: format!("https://{address}"),
        authority: identity.ca_certificate().to_owned(),
        client: identity.admin_certificate().unwrap(),
    }
}

/// The time of this machine: certificates are looked at by others.
struct Machine;

#[expect(clippy::disallowed_methods, reason = "this is a clock")]
impl Clock for Machine {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Time(i64::try_from(since.as_micros()).unwrap())
    }
}

struct Counted(AtomicU64);

fn chance() -> Arc<dyn Entropy> {
    Arc::new(Counted(AtomicU64::new(1)))
}

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        for byte in bytes {
            let n = self.0.fetch_add(1, Ordering::Relaxed);
            *byte = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7];
        }
    }
}
