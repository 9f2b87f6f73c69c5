//! The generic engine: handles requests below HTTP with plain synchronous functions (kube-apiserver's generic
//! registry).
//!
//! Reads come from the store's published state. A write is prepared on the caller's thread (decode, default, admit,
//! record field ownership, validate), accepted by the store under a short lock, and answered when it is durable.
//! Nothing here blocks.
//!
//! # Invariants
//!
//! - A write is prepared against the newest state and prepared again when a concurrent write overtakes it; preparing
//!   never holds a lock.
//! - A write that changes nothing consumes no revision.
//! - Every error is a [`Status`].
//!
//! # Deliberately absent
//!
//! Bytes, sockets, media types, authentication and authorization: the HTTP layer.

mod addons;
mod bootstrap;
mod collection;
mod continue_token;
mod create;
mod decode;
mod delete;
mod evict;
mod list;
mod lister;
pub(crate) mod metadata;
pub(crate) mod metadata_check;
mod patch;
mod post_commit;
mod prepare;
mod quota_usage;
mod read;
mod reviews;
mod scale;
mod scale_write;
mod selection;
mod subresources;
mod token_request;
mod update;
mod watch;
mod write;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use muster_api::environment::{Clock, Entropy};
use muster_store::Store;
use muster_tree::{Text, Tree};

pub(crate) use bootstrap::MANAGER;
pub(crate) use decode::unregistered;
pub use read::is_future;
pub use reviews::ServiceAccountRef;
pub use reviews::TokenIssuer;
pub use watch::ResourceWatch;
pub use write::WriteDone;
pub(crate) use write::{
    CommittedKeys, PendingReply, PreparedWrite, StoragePreconditions, WritePlan, durability,
};

use crate::admission::{AdmissionChain, AdmissionPlugin, GROUP_PROTECTION, QUOTA as PLUGIN_QUOTA};
use crate::kinds::GangFeatures;
use crate::registry::{Registry, Resource};
use crate::request::ResourcePath;
use crate::status::Status;

/// Maximum number of attempts of a write that loses the race for its own object.
pub const TRIES_MAX: u32 = 5;
/// Maximum number of attempts of a write that loses the race for a ResourceQuota: all creates in a namespace compete
/// for it.
pub const QUOTA_TRIES_MAX: u32 = 100;
/// Maximum number of names tried for `generateName`.
pub const NAME_TRIES_MAX: u32 = 8;
/// Maximum size of a stored object in bytes of JSON; etcd's default request limit.
pub const OBJECT_BYTES_MAX: usize = 1_572_864;

/// Converts a custom object to this `apiVersion`.
pub type ConversionFn = fn(&Tree, &str) -> Tree;

/// Configuration of the engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Disabled built-in admission plugins.
    pub disabled_admission_plugins: Vec<Text>,
    /// The CA certificate (PEM), published as `kube-root-ca.crt` in every namespace.
    pub root_ca: Text,
    /// The first two octets of the Service CIDR, a /16.
    pub service_range: (u8, u8),
    /// CRDs that the server installs with server-side apply and `force` on every start.
    pub crds: Vec<Tree>,
    /// Complete objects that the server installs: created when missing, updated unless users changed them.
    pub addons: Vec<Tree>,
    /// Conversion functions by API group. In other groups only `apiVersion` changes.
    pub conversions: Vec<(Text, ConversionFn)>,
    /// Feature gates of Workloads and PodGroups.
    pub gangs: GangFeatures,
    /// Whether new PodGroups get the protection finalizer. Only if a controller runs that removes it.
    pub pod_group_protection: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            disabled_admission_plugins: Vec::new(),
            root_ca: Text::new(),
            service_range: (10, 96),
            crds: Vec::new(),
            addons: Vec::new(),
            conversions: Vec::new(),
            gangs: GangFeatures::default(),
            pod_group_protection: false,
        }
    }
}

/// A handle on the engine; clones share it.
#[derive(Clone)]
pub struct ApiEngine {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    options: EngineOptions,
    registry: RwLock<Arc<Registry>>,
    chain: RwLock<Arc<AdmissionChain>>,
    addresses: lister::ServiceIpAllocator,
    uids: metadata::UidGenerator,
    tokens: OnceLock<Arc<dyn TokenIssuer>>,
}

/// A resource and the index of the version that a request uses.
#[derive(Debug, Clone)]
pub(crate) struct VersionedResource {
    pub resource: Arc<Resource>,
    pub version: usize,
}

impl ApiEngine {
    /// Loads the registry from the store, then creates bootstrap objects, CRDs and addons.
    #[must_use]
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: EngineOptions,
    ) -> ApiEngine {
        let served = crate::registry::builtin().into_iter().filter(|resource| options.gangs.serve(resource));
        let registry = RwLock::new(Arc::new(Registry::new(served.collect(), 1)));
        let mut off = options.disabled_admission_plugins.clone();
        off.extend((!options.pod_group_protection).then(|| Text::from(GROUP_PROTECTION)));
        let chain = RwLock::new(Arc::new(AdmissionChain::builtin(&off)));
        let addresses = lister::ServiceIpAllocator::new(options.service_range);
        let tokens = OnceLock::new();
        let inner = Inner {
            store,
            clock,
            entropy,
            options,
            registry,
            chain,
            addresses,
            uids: metadata::UidGenerator::default(),
            tokens,
        };
        let engine = ApiEngine { inner: Arc::new(inner) };
        // CRDs before addons, which may be custom resources; quotas last, since the steps before may create or delete
        // counted objects.
        engine.reload_custom();
        engine.bootstrap();
        engine.install_crds();
        engine.apply_addons();
        engine.gc_orphaned_groups();
        engine.recount_all_quotas();
        engine
    }

    /// The current registry snapshot.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.inner.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn swap_registry(&self, make: impl FnOnce(&Registry) -> Registry) {
        let mut slot = self.inner.registry.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Arc::new(make(&slot));
    }

    pub(crate) fn chain(&self) -> Arc<AdmissionChain> {
        self.inner.chain.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Appends an admission plugin to the chain.
    pub fn add_admission_plugin(&self, hook: Arc<dyn AdmissionPlugin>) {
        let mut slot = self.inner.chain.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Arc::new(slot.with(hook));
    }

    /// The conversion function of an API group.
    pub(crate) fn conversion(&self, group: &str) -> Option<ConversionFn> {
        self.inner.options.conversions.iter().find(|(its, _)| its == group).map(|(_, convert)| *convert)
    }

    /// Sets the issuer of ServiceAccount tokens. Later calls have no effect.
    pub fn set_tokens(&self, tokens: Arc<dyn TokenIssuer>) {
        let _ = self.inner.tokens.set(tokens);
    }

    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }

    /// The first address of the Service CIDR, reserved for the `kubernetes` Service.
    pub(crate) fn first_service_address(&self) -> String {
        self.inner.addresses.first()
    }

    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Notifies on every published transaction.
    #[must_use]
    pub fn listen(&self) -> event_listener::EventListener {
        self.inner.store.listen()
    }

    pub(crate) fn resolve(&self, target: &ResourcePath) -> Result<VersionedResource, Status> {
        let found = self.registry().find(&target.group, &target.version, &target.resource);
        let (resource, version) = found.ok_or_else(Status::unknown_path)?;
        Ok(VersionedResource { resource, version })
    }
}

#[cfg(test)]
pub(crate) mod tests;
