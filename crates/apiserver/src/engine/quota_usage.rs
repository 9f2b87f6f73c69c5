//! Keeps `status.used` of ResourceQuotas consistent with the objects that they count.
//!
//! A write that changes usage also writes the quota, in one transaction and with the checked revision as
//! precondition. Of two creates that fit alone but not together one loses the race, is prepared again and rejected.
//!
//! Usage is recalculated when a quota is created, when its `spec.hard` changes, on startup, before a request is
//! rejected, and after a pod is removed later than its grace period: such a pod stopped counting without a write.

use std::collections::BTreeSet;

use muster_api::time::Time;
use muster_schema::object::StoredObject;
use muster_store::{Durability, ExpectedRevision, Key, Mutation, Write};
use muster_tree::{Text, Tree};

use super::prepare::WriteContext;
use super::write::{CommittedKeys, PreparedWrite};
use super::{ApiEngine, PLUGIN_QUOTA};
use crate::admission::Operation;
use crate::kinds::ObjectLister;
use crate::quota::{self, Amounts, CountedObject};
use crate::status::Status;

pub(super) const QUOTAS: &str = "resourcequotas";

impl WriteContext<'_> {
    /// Quota updates for a change from `old` to `new`.
    ///
    /// # Errors
    /// 403 when a quota is exceeded, or requires a resource that a container does not specify.
    pub(super) fn quota_writes(
        &self,
        operation: Operation,
        new: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<Vec<Write>, Status> {
        let resource = &*self.place.resource;
        let Some(any) = new.or(old) else { return Ok(Vec::new()) };
        if !quota::is_counted(resource) || !self.engine.enforces_quota() {
            return Ok(Vec::new());
        }
        let namespace = any.text_at(&["metadata", "namespace"]);
        let own = resource.key(&namespace, &any.text_at(&["metadata", "name"]));
        let quotas = self.engine.quotas(&namespace);
        // A write of a quota must not update the same quota: two writes of one key in a transaction conflict.
        let others = quotas.into_iter().filter(|(key, _)| *key != own);
        let item = |tree| CountedObject { resource, tree, now: self.now };
        let (new, old) = (new.map(item), old.map(item));
        let mut writes = Vec::new();
        for (key, live) in others {
            let changed = self.charge(&key, &live, operation, new.as_ref(), old.as_ref())?;
            if changed != live.tree {
                let expect = ExpectedRevision::Revision(live.revision);
                writes.push(Write {
                    key,
                    expect,
                    change: Mutation::Put(StoredObject { tree: changed, ..live }),
                });
            }
        }
        Ok(writes)
    }

    /// The quota with its usage after the change.
    fn charge(
        &self,
        key: &Key,
        live: &StoredObject,
        operation: Operation,
        new: Option<&CountedObject<'_>>,
        old: Option<&CountedObject<'_>>,
    ) -> Result<Tree, Status> {
        // A quota and the objects it counts are published together: while the quota's newest write is pending, a
        // recalculation from published objects would miss some.
        let is_published = self.engine.store().get(key).is_some_and(|seen| seen.revision == live.revision);
        let stays = quota::is_current(&live.tree) || !is_published;
        let quota = if stays { live.tree.clone() } else { self.engine.recounted(&live.tree, self.now) };
        let before = old.and_then(|old| quota::charge(&quota, old)).unwrap_or_default();
        let Some((new, after)) = new.and_then(|new| Some((new, quota::charge(&quota, new)?))) else {
            return Ok(quota::charged(&quota, &before, &Amounts::new()));
        };
        if quota::is_handled(operation, &self.request.target.subresource, old.map(|old| old.tree), new) {
            if let Some(words) = quota::unspecified(&quota, new) {
                let words = format!("failed quota: {}: {words}", quota.str_at(&["metadata", "name"]));
                return Err(self.over_quota(new, &words));
            }
            if let Some(words) = quota::exceeded(&quota, &before, &after) {
                // Recalculate before rejecting: usage may still include pods that outlived their grace period.
                let quota = if is_published { self.engine.recounted(&quota, self.now) } else { quota };
                return match quota::exceeded(&quota, &before, &after) {
                    Some(_) => Err(self.over_quota(new, &words)),
                    None => Ok(quota::charged(&quota, &before, &after)),
                };
            }
        }
        Ok(quota::charged(&quota, &before, &after))
    }

    fn over_quota(&self, item: &CountedObject<'_>, words: &str) -> Status {
        Status::forbidden(self.place.resource.named(item.tree.str_at(&["metadata", "name"])), words)
    }
}

/// Adds writes to the transaction.
pub(super) fn with_writes(prepared: PreparedWrite, more: Vec<Write>) -> PreparedWrite {
    match prepared {
        PreparedWrite::Writes(mut plan) => {
            plan.writes.extend(more);
            PreparedWrite::Writes(plan)
        }
        answer => answer,
    }
}

impl ApiEngine {
    fn enforces_quota(&self) -> bool {
        !self.inner.options.disabled_admission_plugins.iter().any(|name| name == PLUGIN_QUOTA)
    }

    /// The quotas of a namespace in their newest state, pending writes included.
    fn quotas(&self, namespace: &Text) -> Vec<(Key, StoredObject)> {
        let published = self.in_namespace(QUOTAS, namespace);
        let newest = published.into_iter().filter_map(|object| {
            let name = object.tree.text_at(&["metadata", "name"]);
            let key = Key { resource: Text::from(QUOTAS), namespace: namespace.clone(), name };
            let newest = self.newest(&key)?;
            Some((key, newest))
        });
        newest.collect()
    }

    /// Recalculates usage from the stored objects.
    fn recounted(&self, quota: &Tree, now: Time) -> Tree {
        let namespace = quota.text_at(&["metadata", "namespace"]);
        let registry = self.registry();
        let mut seen = BTreeSet::new();
        let resources = registry.all().iter().map(|resource| &**resource);
        let resources = resources.filter(|resource| seen.insert(resource.storage.clone()));
        quota::recounted(quota, resources, |resource| self.in_namespace(&resource.storage, &namespace), now)
    }

    /// Recalculates quotas that a commit created or changed, and those of pods that it removed late.
    pub(super) fn recount_quotas(&self, touched: &CommittedKeys) {
        if !self.enforces_quota() {
            return;
        }
        for key in touched.put.iter().filter(|key| key.resource == QUOTAS) {
            self.recount_unless(key, quota::is_current);
        }
        let now = self.inner.clock.now();
        let late = touched
            .deleted
            .iter()
            .filter(|(key, last)| key.resource == "pods" && quota::is_overdue(last, now));
        let namespaces: BTreeSet<&Text> = late.map(|(key, _)| &key.namespace).collect();
        for (key, _) in namespaces.into_iter().flat_map(|namespace| self.quotas(namespace)) {
            self.recount_unless(&key, |_| false);
        }
    }

    /// Recalculates all quotas on startup.
    pub(super) fn recount_all_quotas(&self) {
        for quota in if self.enforces_quota() { self.all(QUOTAS) } else { Vec::new() } {
            let meta = |key| quota.tree.text_at(&["metadata", key]);
            let key = Key { resource: Text::from(QUOTAS), namespace: meta("namespace"), name: meta("name") };
            self.recount_unless(&key, |_| false);
        }
    }

    /// A concurrent write of the quota triggers its own recalculation, so losing the race needs no retry.
    fn recount_unless(&self, key: &Key, is_current: impl Fn(&Tree) -> bool) {
        let Some(live) = self.inner.store.get(key).filter(|live| !is_current(&live.tree)) else {
            return;
        };
        let tree = self.recounted(&live.tree, self.inner.clock.now());
        if tree == live.tree {
            return;
        }
        let expect = ExpectedRevision::Revision(live.revision);
        let write = Write { key: key.clone(), expect, change: Mutation::Put(StoredObject { tree, ..live }) };
        self.inner.store.accept(vec![write], Durability::Wait, Box::new(|_| {}));
    }
}
