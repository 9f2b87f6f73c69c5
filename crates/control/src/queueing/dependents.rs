//! Jobs and pods that depend on an object they name, or that admission names for them: a Workload made by a user, a priority
//! class, a ResourceFlavor, an owner, their Namespace.
//!
//! Each of these may be created after the job or pod that needs it, and on a cluster each kind is watched by itself. So the
//! event of the object reconciles its dependents; nothing polls for it.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::ApiObject;
use muster_api::kinds::{NAMESPACES, PODS};
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::queue::consts::labels;
use muster_api::queue::{WorkloadFacts, kinds};
use muster_queue::jobs::reconciler::{prebuilt_of, queue_of};
use muster_queue::pods::reconciler::PodReconcileKey as PodKey;
use muster_tree::Text;

use super::{jobs, pods};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, ReconcileRequest};

/// Jobs and pods by the Workload that they name, as namespace and name. A Workload that a user makes has no owner yet that
/// would lead to them.
#[derive(Debug, Default)]
pub(super) struct Prebuilt {
    users: BTreeMap<(Text, Text), BTreeSet<ObjectKey>>,
}

impl Prebuilt {
    /// Indexes a job or pod by the Workload that it names.
    pub fn on_event(&mut self, seen: &WatchEvent<'_>) {
        let named = |it: &ApiObject| prebuilt_of(&it.tree).map(|name| (seen.key.namespace.clone(), name));
        let [before, after] = [seen.old, seen.new].map(|it| it.and_then(named));
        if before == after {
            return;
        }
        if let Some(old) = before
            && let Some(users) = self.users.get_mut(&old)
        {
            users.remove(seen.key);
            if users.is_empty() {
                self.users.remove(&old);
            }
        }
        if let Some(new) = after {
            self.users.entry(new).or_default().insert(seen.key.clone());
        }
    }

    /// The jobs and pods that name a Workload.
    pub fn users(&self, workload: &ObjectKey, caches: &Caches) -> Vec<ObjectKey> {
        let users = self.users.get(&(workload.namespace.clone(), workload.name.clone()));
        let key = |user: &ObjectKey| match caches.find(user) {
            Some(pod) if user.kind == PODS => pods::key_of(&PodKey::of_pod(&pod.tree)),
            _ => user.clone(),
        };
        users.into_iter().flatten().map(key).collect()
    }
}

/// The jobs and pods with a label that names a new WorkloadPriorityClass.
pub(super) fn of_workload_class(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    if seen.old.is_some() {
        return Vec::new();
    }
    let names_it =
        |it: &ApiObject| meta::label(&it.tree, labels::PRIORITY_CLASS) == Some(seen.key.name.as_str());
    let jobs = jobs::all(caches).filter(|(_, it)| names_it(it)).map(|(key, _)| key);
    let pods = caches.all(&PODS).filter(|it| names_it(it));
    jobs.chain(pods.map(|it| pods::key_of(&PodKey::of_pod(&it.tree)))).map(ReconcileRequest::from).collect()
}

/// The jobs that may wait for a PriorityClass that is new: it is named deep inside some of them, so all that are queued and have
/// no Workload.
pub(super) fn of_class(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    if seen.old.is_some() {
        return Vec::new();
    }
    let has_workload =
        |it: &ApiObject| caches.owned_by(&meta::uid(&it.tree)).any(|(key, _)| key.kind == kinds::WORKLOADS);
    let waits = |it: &ApiObject| !queue_of(&it.tree).is_empty() && !has_workload(it);
    jobs::all(caches).filter(|(_, it)| waits(it)).map(|(key, _)| key.into()).collect()
}

/// The jobs and pods that were admitted with a ResourceFlavor that is new: its node labels and tolerations are needed to start
/// them.
pub(super) fn of_flavor(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    if seen.old.is_some() {
        return Vec::new();
    }
    let given = |it: &&ApiObject| {
        let sets = it.tree.items_at(&["status", "admission", "podSetAssignments"]);
        let mut flavors = sets.iter().flat_map(|set| set.entries_at(&["flavors"]));
        flavors.any(|(_, flavor)| flavor.as_str() == Some(seen.key.name.as_str()))
    };
    let workloads = caches.all(&kinds::WORKLOADS).filter(given).map(|it| WorkloadFacts::of(&it.tree));
    let keys = workloads.flat_map(|it| {
        let mut keys = jobs::concerned(&it, caches);
        keys.extend(pods::concerned(&it, false));
        keys
    });
    keys.map(ReconcileRequest::from).collect()
}

/// The jobs of a Namespace that is new or has other labels: whether they are managed depends on it.
pub(super) fn of_namespace(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    debug_assert!(seen.key.kind == NAMESPACES);
    let labels = |it: Option<&ApiObject>| it.map(|it| it.tree.at(meta_path::LABELS).cloned());
    if seen.new.is_none() || labels(seen.old) == labels(seen.new) {
        return Vec::new();
    }
    jobs::in_namespace(&seen.key.name, caches).map(ReconcileRequest::from).collect()
}
