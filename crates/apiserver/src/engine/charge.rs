//! Keeps `status.used` of ResourceQuotas in step with the objects that they count.
//!
//! A write that changes what a quota counts also writes the quota, in one transaction and only over the revision that it was
//! checked against. Two creates that both fit alone but not together cannot both succeed: the second is overtaken,
//! prepared again and refused.
//!
//! A quota is counted anew when it is created, when its `spec.hard` changes, when the server starts, before a request is
//! refused, and after a pod is removed later than its grace period: such a pod stopped counting at no write.

use std::collections::BTreeSet;

use muster_api::time::Time;
use muster_schema::object::Object;
use muster_store::{Change, Durability, Expect, Key, Write};
use muster_tree::{Text, Tree};

use super::prepare::Ask;
use super::write::{Prepared, Touched};
use super::{Engine, PLUGIN_QUOTA};
use crate::admission::Operation;
use crate::kinds::Look;
use crate::quota::{self, Amounts, Item};
use crate::status::Status;

/// The storage name of quotas.
pub(super) const QUOTAS: &str = "resourcequotas";

impl Ask<'_> {
    /// The writes of quotas that go along with a change from `old` to `new`.
    ///
    /// # Errors
    /// The refusal when a quota is exceeded or needs a resource that a container leaves out.
    pub(super) fn charges(
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
        let others = quotas.into_iter().filter(|(key, _)| *key != own);
        let item = |tree| Item { resource, tree, now: self.now };
        let (new, old) = (new.map(item), old.map(item));
        let mut writes = Vec::new();
        for (key, live) in others {
            let changed = self.charge(&key, &live, operation, new.as_ref(), old.as_ref())?;
            if changed != live.tree {
                let expect = Expect::Revision(live.revision);
                writes.push(Write { key, expect, change: Change::Put(Object { tree: changed, ..live }) });
            }
        }
        Ok(writes)
    }

    /// One quota after the change.
    fn charge(
        &self,
        key: &Key,
        live: &Object,
        operation: Operation,
        new: Option<&Item<'_>>,
        old: Option<&Item<'_>>,
    ) -> Result<Tree, Status> {
        // What is charged to a quota is published together with it: while a charge is not, counting would miss its object.
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
                let quota = if is_published { self.engine.recounted(&quota, self.now) } else { quota };
                return match quota::exceeded(&quota, &before, &after) {
                    Some(_) => Err(self.over_quota(new, &words)),
                    None => Ok(quota::charged(&quota, &before, &after)),
                };
            }
        }
        Ok(quota::charged(&quota, &before, &after))
    }

    fn over_quota(&self, item: &Item<'_>, words: &str) -> Status {
        Status::forbidden(self.place.resource.named(item.tree.str_at(&["metadata", "name"])), words)
    }
}

/// A plan with further writes; an answer needs none.
pub(super) fn beside(prepared: Prepared, more: Vec<Write>) -> Prepared {
    match prepared {
        Prepared::Writes(mut plan) => {
            plan.writes.extend(more);
            Prepared::Writes(plan)
        }
        answer => answer,
    }
}

impl Engine {
    fn enforces_quota(&self) -> bool {
        !self.inner.options.admission_off.iter().any(|name| name == PLUGIN_QUOTA)
    }

    /// The quotas of a namespace as the next write would find them.
    fn quotas(&self, namespace: &Text) -> Vec<(Key, Object)> {
        let published = self.in_namespace(QUOTAS, namespace);
        let newest = published.into_iter().filter_map(|object| {
            let name = object.tree.text_at(&["metadata", "name"]);
            let key = Key { resource: Text::from(QUOTAS), namespace: namespace.clone(), name };
            let newest = self.newest(&key)?;
            Some((key, newest))
        });
        newest.collect()
    }

    /// The quota with usage counted from what is stored.
    fn recounted(&self, quota: &Tree, now: Time) -> Tree {
        let namespace = quota.text_at(&["metadata", "namespace"]);
        let registry = self.registry();
        let mut seen = BTreeSet::new();
        let resources = registry.all().iter().map(|resource| &**resource);
        let resources = resources.filter(|resource| seen.insert(resource.storage.clone()));
        quota::recounted(quota, resources, |resource| self.in_namespace(&resource.storage, &namespace), now)
    }

    /// Counts the quotas that a commit created, changed or left behind.
    pub(super) fn recount_quotas(&self, touched: &Touched) {
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

    /// Counts all quotas, e.g. after a restart.
    pub(super) fn recount_all_quotas(&self) {
        for quota in if self.enforces_quota() { self.all(QUOTAS) } else { Vec::new() } {
            let meta = |key| quota.tree.text_at(&["metadata", key]);
            let key = Key { resource: Text::from(QUOTAS), namespace: meta("namespace"), name: meta("name") };
            self.recount_unless(&key, |_| false);
        }
    }

    /// A write that overtakes this one is itself followed by a count, as long as the quota needs one.
    fn recount_unless(&self, key: &Key, is_current: impl Fn(&Tree) -> bool) {
        let Some(live) = self.inner.store.get(key).filter(|live| !is_current(&live.tree)) else {
            return;
        };
        let tree = self.recounted(&live.tree, self.inner.clock.now());
        if tree == live.tree {
            return;
        }
        let expect = Expect::Revision(live.revision);
        let write = Write { key: key.clone(), expect, change: Change::Put(Object { tree, ..live }) };
        self.inner.store.accept(vec![write], Durability::Wait, Box::new(|_| {}));
    }
}
