//! PodGroup protection: a deleted PodGroup stays terminating until the last of its pods has terminated or is deleted.
//!
//! The embedded API server adds the finalizer when a PodGroup is created; the controller adds it to groups without it, and
//! removes it.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource};
use muster_api::consts::managers;
use muster_api::gang::{EnabledMarkers, GangApi, GroupId, GroupMembership};
use muster_api::paths::pod as pod_path;
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_api::{kinds, meta, volume};
use muster_tree::Text;

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// An object by namespace and name.
type Name = (Text, Text);

/// The controller.
#[derive(Debug, Default)]
pub struct PodGroupController {
    form: GangApi,
    /// Pods that have not terminated, by group.
    pods: BTreeMap<Name, BTreeSet<Text>>,
    /// The group of each pod: the one that it named when it was first seen.
    group_of: BTreeMap<Name, Text>,
}

impl PodGroupController {
    /// A controller for this gang API.
    #[must_use]
    pub fn new(form: GangApi) -> PodGroupController {
        PodGroupController { form, ..PodGroupController::default() }
    }

    /// The PodGroup kind and its protection finalizer, if this gang API has one.
    fn keeps(&self) -> Option<(&'static Kind, &'static str)> {
        self.form.groups().zip(self.form.protection_finalizer())
    }

    fn join(&mut self, pod: &ApiObject) {
        let Some((namespace, group)) = group_of(pod) else { return };
        let name = meta::name(&pod.tree);
        self.group_of.insert((namespace.clone(), name.clone()), group.clone());
        self.pods.entry((namespace, group)).or_default().insert(name);
    }

    /// Removes a terminated or deleted pod; returns its group.
    fn drop_pod(&mut self, (namespace, pod): &Name) -> Option<Name> {
        let group = self.group_of.remove(&(namespace.clone(), pod.clone()))?;
        let group = (namespace.clone(), group);
        if let Some(pods) = self.pods.get_mut(&group) {
            pods.remove(pod);
            if pods.is_empty() {
                self.pods.remove(&group);
            }
        }
        Some(group)
    }
}

impl Controller for PodGroupController {
    fn name(&self) -> &'static str {
        "podgroup"
    }

    fn kinds(&self) -> Vec<Kind> {
        self.keeps().map(|(groups, _)| vec![kinds::PODS.clone(), groups.clone()]).unwrap_or_default()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let Some((groups, _)) = self.keeps() else { return Vec::new() };
        if seen.key.kind == *groups {
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let uid = |pod: Option<&ApiObject>| pod.map(|it| meta::uid(&it.tree));
        let is_new = uid(seen.old) != uid(seen.new);
        let left = if is_new || seen.new.is_some_and(ended) {
            self.drop_pod(&(seen.key.namespace.clone(), seen.key.name.clone()))
        } else {
            None
        };
        if let Some(pod) = seen.new.filter(|pod| is_new && !ended(pod)) {
            self.join(pod);
        }
        left.map(|(namespace, name)| ObjectKey::new(groups, &namespace, &name).into()).into_iter().collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let (Some((_, finalizer)), Some(group)) = (self.keeps(), caches.find(key)) else {
            return Reconciled::done();
        };
        let used = self.pods.contains_key(&(key.namespace.clone(), key.name.clone()));
        let kept = meta::has_finalizer(&group.tree, finalizer);
        let patch = match (meta::deletion_timestamp(&group.tree).is_some(), kept) {
            (true, true) if !used => meta::remove_finalizer_merge_patch(&group.tree, finalizer),
            (false, false) => volume::protected(&group.tree, finalizer),
            _ => return Reconciled::done(),
        };
        Reconciled::with_steps(vec![Step::Request(ApiRequest {
            field_manager: managers::GROUP_PROTECTION.clone(),
            target: key.target(Subresource::Main),
            preconditions: Preconditions {
                uid: Some(meta::uid(&group.tree)),
                revision: Some(group.revision),
            },
            verb: RequestVerb::MergePatch(patch),
        })])
    }
}

fn ended(pod: &ApiObject) -> bool {
    PodPhase::of(pod.tree.str_at(pod_path::PHASE)).is_terminal()
}

/// The group that a pod names.
fn group_of(pod: &ApiObject) -> Option<Name> {
    match GroupMembership::of(&pod.tree, EnabledMarkers::default())?.group {
        GroupId::Native(name) => Some((meta::namespace(&pod.tree), name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_api::client::WatchChange;
    use muster_api::gang::OWN_GROUPS;
    use muster_tree::{Tree, tree};

    use super::*;

    fn group(change: &Tree) -> ApiObject {
        let tree = tree!({"metadata": {"namespace": "ns", "name": "g", "uid": "u"}, "spec": {}});
        ApiObject { tree: tree.merge(&tree!({"metadata": change})), revision: 5 }
    }

    fn pod(name: &str, phase: &str, revision: u64) -> ApiObject {
        let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}, "status": {"phase": phase}});
        ApiObject { tree, revision }
    }

    fn key() -> ObjectKey {
        ObjectKey::new(&kinds::POD_GROUPS, &"ns".into(), &"g".into())
    }

    /// The patch of a group with these pods.
    fn written(change: &Tree, pods: &[ApiObject]) -> Option<Tree> {
        let (mut it, mut caches) = (PodGroupController::default(), Caches::default());
        it.kinds().iter().for_each(|kind| caches.add_kind(kind));
        let mut taken: Vec<_> = pods
            .iter()
            .filter_map(|pod| caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(pod.clone())))
            .collect();
        taken.extend(caches.apply_watch_change(&kinds::POD_GROUPS, WatchChange::Applied(group(change))));
        taken.iter().for_each(|one| {
            it.map_event(&one.event(), &caches);
        });
        let step = it.reconcile(&key(), &caches, Time(0)).steps.pop()?;
        let Step::Request(ApiRequest { verb: RequestVerb::MergePatch(patch), .. }) = step else {
            panic!("one merge")
        };
        Some(patch)
    }

    /// Shows: 5832-49.
    #[test]
    fn a_group_in_use_is_kept() {
        let finalizers = ["metadata", "finalizers"];
        let kept = tree!({"finalizers": ["other", "scheduling.k8s.io/podgroup-protection"]});
        let deleting = kept.merge(&tree!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        let new = written(&tree!({}), &[]).expect("it gets its finalizer");
        assert_eq!(new.items_at(&finalizers).len(), 1);
        assert_eq!(written(&kept, &[]), None, "it has it");
        assert_eq!(written(&deleting, &[pod("a", "Running", 1)]), None, "a pod is there");
        assert_eq!(written(&deleting, &[pod("a", "Succeeded", 1), pod("b", "Pending", 2)]), None);
        let free = written(&deleting, &[pod("a", "Succeeded", 1), pod("b", "Failed", 2)]).expect("free");
        assert_eq!(free.items_at(&finalizers).len(), 1, "others' finalizers stay");
        let gone = tree!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["other"]});
        assert_eq!(written(&gone, &[]), None, "nothing is put on what goes");
    }

    #[test]
    fn the_last_pod_wakes_its_group() {
        let mut it = PodGroupController::default();
        let mut caches = Caches::default();
        caches.add_kind(&kinds::PODS);
        let mut wakes = |object: ApiObject| {
            let change = caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(object)).expect("news");
            it.map_event(&change.event(), &caches).into_iter().map(|wake| wake.key).collect::<Vec<_>>()
        };
        assert_eq!(wakes(pod("a", "Pending", 1)), []);
        assert_eq!(wakes(pod("a", "Running", 2)), []);
        assert_eq!(wakes(pod("a", "Succeeded", 3)), [key()]);
    }

    #[test]
    fn a_pod_keeps_the_group_that_it_named_first() {
        let marked = |name: &str, group: &str, phase: &str, revision: u64| {
            let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": name,
                "annotations": {"scheduling.muster.dev/pod-group": group}}, "status": {"phase": phase}});
            ApiObject { tree, revision }
        };
        let deleting = tree!({"deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["scheduling.k8s.io/podgroup-protection"]});
        let moved = [marked("a", "g", "Running", 1), marked("a", "h", "Running", 2)];
        assert_eq!(written(&deleting, &moved), None, "its mark was edited");
        let bare = ApiObject { tree: moved[1].tree.without(&["metadata", "annotations"]), revision: 3 };
        assert_eq!(written(&deleting, &[moved[0].clone(), bare]), None, "or taken away");
        let ended = [moved[0].clone(), marked("a", "h", "Succeeded", 2)];
        assert!(written(&deleting, &ended).is_some());
        let late = [marked("a", "h", "Running", 1), marked("a", "g", "Running", 2)];
        assert!(written(&deleting, &late).is_some(), "it was never one of this group");
        let namesake = tree!({"metadata": {"uid": "other"}});
        let namesake = ApiObject { tree: late[1].tree.merge(&namesake), revision: 4 };
        assert_eq!(written(&deleting, &[late[0].clone(), namesake]), None, "a namesake is another pod");
    }

    #[test]
    fn servers_that_keep_groups_themselves_are_left_alone() {
        assert!(PodGroupController::new(GangApi::Released).kinds().is_empty());
        assert!(PodGroupController::new(GangApi::Own).kinds().contains(&OWN_GROUPS));
    }
}
