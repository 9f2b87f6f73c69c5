//! What happens to a request below HTTP, as plain functions.
//!
//! Reads come from the store's published state. A write is prepared on the caller's thread (decode, default, admit,
//! own, validate), accepted by the store under a short lock, and answered when it is durable. Nothing here waits.
//!
//! # Invariants
//!
//! - Preparing looks at the newest state and is repeated when somebody else was faster; it never holds a lock.
//! - A write that changes nothing consumes no revision.
//! - Every refusal is a [`Status`].
//!
//! # Deliberately absent
//!
//! Bytes, sockets, media types and who may do what: HTTP has decided before it asks.

mod bootstrap;
mod charge;
mod collection;
mod create;
mod decode;
mod delete;
mod evict;
mod finish;
mod list;
mod look;
pub(crate) mod metadata;
pub(crate) mod metadata_check;
mod patch;
mod prepare;
mod read;
mod reviews;
mod scale;
mod scale_write;
mod select;
mod shipped;
mod subresources;
mod token;
mod token_request;
mod update;
mod watch;
mod write;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use muster_api::ports::{Clock, Entropy};
use muster_store::Store;
use muster_tree::{Text, Tree};

pub(crate) use bootstrap::MANAGER;
pub(crate) use decode::unregistered;
pub use read::is_future;
pub use reviews::Account;
pub use reviews::Tokens;
pub use watch::Watch;
pub use write::WriteDone;
pub(crate) use write::{Guard, Pending, Plan, Prepared, Touched, durability};

use crate::admission::{Chain, GROUP_PROTECTION, Hook, QUOTA as PLUGIN_QUOTA};
use crate::kinds::Gangs;
use crate::registry::{Registry, Resource};
use crate::request::Target;
use crate::status::Status;

/// How often a write that was overtaken is prepared again.
pub const TRIES_MAX: u32 = 5;
/// How often a write is prepared again because a quota that it is charged to was overtaken.
pub const QUOTA_TRIES_MAX: u32 = 100;
/// How many generated names are tried.
pub const NAME_TRIES_MAX: u32 = 8;
/// The largest object that is stored, in bytes of JSON.
pub const OBJECT_BYTES_MAX: usize = 1_572_864;

/// Says a custom object in the version of this `apiVersion`.
pub type Convert = fn(&Tree, &str) -> Tree;

/// What can be chosen about an engine.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// Names of built-in admission steps that are switched off.
    pub admission_off: Vec<Text>,
    /// The certificate of the authority that signs the server's, for `kube-root-ca.crt` in every namespace.
    pub root_ca: Text,
    /// The first two numbers of the range of service addresses.
    pub service_range: (u8, u8),
    /// Definitions of custom resources that come with the server. What is stored under their names becomes what they say.
    pub definitions: Vec<Tree>,
    /// Objects that come with the server, whole: made where they are missing, renewed unless somebody changed them.
    pub shipped: Vec<Tree>,
    /// Who says objects of a group in another version, by the group's name. Elsewhere only `apiVersion` changes.
    pub conversions: Vec<(Text, Convert)>,
    /// Which kinds and fields of gangs are served.
    pub gangs: Gangs,
    /// Whether new PodGroups wait for their pods when they are deleted: only where somebody lets them go in the end.
    pub protect_groups: bool,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            admission_off: Vec::new(),
            root_ca: Text::new(),
            service_range: (10, 96),
            definitions: Vec::new(),
            shipped: Vec::new(),
            conversions: Vec::new(),
            gangs: Gangs::default(),
            protect_groups: false,
        }
    }
}

/// A handle on the engine; clones share it.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    options: EngineOptions,
    registry: RwLock<Arc<Registry>>,
    chain: RwLock<Arc<Chain>>,
    addresses: look::Addresses,
    uids: metadata::Uids,
    tokens: OnceLock<Arc<dyn Tokens>>,
}

/// A resource and the version a request came through.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub resource: Arc<Resource>,
    pub version: usize,
}

impl Engine {
    /// Serves what the store holds, and makes the objects that every cluster starts with.
    #[must_use]
    pub fn new(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: EngineOptions,
    ) -> Engine {
        let served = crate::registry::builtin().into_iter().filter(|resource| options.gangs.serve(resource));
        let registry = RwLock::new(Arc::new(Registry::new(served.collect(), 1)));
        let mut off = options.admission_off.clone();
        off.extend((!options.protect_groups).then(|| Text::from(GROUP_PROTECTION)));
        let chain = RwLock::new(Arc::new(Chain::builtin(&off)));
        let addresses = look::Addresses::new(options.service_range);
        let tokens = OnceLock::new();
        let inner = Inner {
            store,
            clock,
            entropy,
            options,
            registry,
            chain,
            addresses,
            uids: metadata::Uids::default(),
            tokens,
        };
        let engine = Engine { inner: Arc::new(inner) };
        engine.reload_custom();
        engine.bootstrap();
        engine.install();
        engine.ship();
        engine.collect_homeless();
        engine.recount_all_quotas();
        engine
    }

    /// What is served now.
    #[must_use]
    pub fn registry(&self) -> Arc<Registry> {
        self.inner.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn swap_registry(&self, make: impl FnOnce(&Registry) -> Registry) {
        let mut slot = self.inner.registry.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Arc::new(make(&slot));
    }

    pub(crate) fn chain(&self) -> Arc<Chain> {
        self.inner.chain.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds an admission hook after those already there.
    pub fn add_hook(&self, hook: Arc<dyn Hook>) {
        let mut slot = self.inner.chain.write().unwrap_or_else(PoisonError::into_inner);
        *slot = Arc::new(slot.with(hook));
    }

    /// Who says objects of this group in other versions.
    pub(crate) fn conversion(&self, group: &str) -> Option<Convert> {
        self.inner.options.conversions.iter().find(|(its, _)| its == group).map(|(_, convert)| *convert)
    }

    /// Says who issues and judges tokens. Only the first one counts.
    pub fn set_tokens(&self, tokens: Arc<dyn Tokens>) {
        let _ = self.inner.tokens.set(tokens);
    }

    /// The published revision.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }

    /// The first address of the range of Services: that of the API server itself.
    pub(crate) fn first_service_address(&self) -> String {
        self.inner.addresses.first()
    }

    /// The store below.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// Wakes on every publish.
    #[must_use]
    pub fn listen(&self) -> event_listener::EventListener {
        self.inner.store.listen()
    }

    pub(crate) fn place(&self, target: &Target) -> Result<Place, Status> {
        let found = self.registry().find(&target.group, &target.version, &target.resource);
        let (resource, version) = found.ok_or_else(Status::unknown_path)?;
        Ok(Place { resource, version })
    }
}

#[cfg(test)]
pub(crate) mod tests;
