//! Keeps groups that pods still name: a group that is deleted stays, terminating, until the last of its pods has ended
//! or is gone.
//!
//! Our own server puts the finalizer on when a group is made; here it is put on groups that lack it, and taken off.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::gang::{Belongs, Form, Membership, Reads};
use muster_api::paths::pod as pod_path;
use muster_api::pod::Phase;
use muster_api::port::{Act, Call, Guard, Kind, Object, Part};
use muster_api::time::Time;
use muster_api::words::managers;
use muster_api::{kinds, meta, volume};
use muster_tree::Text;

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// An object by namespace and name.
type Name = (Text, Text);

/// The controller.
#[derive(Debug, Default)]
pub struct PodGroups {
    form: Form,
    /// Pods that have not ended, by their group.
    pods: BTreeMap<Name, BTreeSet<Text>>,
    /// The group of each: the one that it named when it was first seen, for ever.
    group_of: BTreeMap<Name, Text>,
}

impl PodGroups {
    /// Groups that are spelled so.
    #[must_use]
    pub fn new(form: Form) -> PodGroups {
        PodGroups { form, ..PodGroups::default() }
    }

    /// The kind of groups and what keeps them, where that is our business.
    fn keeps(&self) -> Option<(&'static Kind, &'static str)> {
        self.form.groups().zip(self.form.protection())
    }

    /// A pod joins the group that it names.
    fn join(&mut self, pod: &Object) {
        let Some((namespace, group)) = group_of(pod) else { return };
        let name = meta::name(&pod.tree);
        self.group_of.insert((namespace.clone(), name.clone()), group.clone());
        self.pods.entry((namespace, group)).or_default().insert(name);
    }

    /// A pod has ended or is gone; the group that it kept.
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

impl Controller for PodGroups {
    fn name(&self) -> &'static str {
        "podgroup"
    }

    fn kinds(&self) -> Vec<Kind> {
        self.keeps().map(|(groups, _)| vec![kinds::PODS.clone(), groups.clone()]).unwrap_or_default()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let Some((groups, _)) = self.keeps() else { return Vec::new() };
        if seen.key.kind == *groups {
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let uid = |pod: Option<&Object>| pod.map(|it| meta::uid(&it.tree));
        let is_new = uid(seen.before) != uid(seen.after);
        let left = if is_new || seen.after.is_some_and(ended) {
            self.drop_pod(&(seen.key.namespace.clone(), seen.key.name.clone()))
        } else {
            None
        };
        if let Some(pod) = seen.after.filter(|pod| is_new && !ended(pod)) {
            self.join(pod);
        }
        left.map(|(namespace, name)| Key::new(groups, &namespace, &name).into()).into_iter().collect()
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let (Some((_, finalizer)), Some(group)) = (self.keeps(), caches.find(key)) else {
            return Plan::nothing();
        };
        let used = self.pods.contains_key(&(key.namespace.clone(), key.name.clone()));
        let kept = meta::has_finalizer(&group.tree, finalizer);
        let patch = match (meta::deleting(&group.tree).is_some(), kept) {
            (true, true) if !used => meta::without_finalizer(&group.tree, finalizer),
            (false, false) => volume::protected(&group.tree, finalizer),
            _ => return Plan::nothing(),
        };
        Plan::of(vec![Step::One(Call {
            by: managers::GROUP_PROTECTION.clone(),
            on: key.target(Part::Main),
            guard: Guard { uid: Some(meta::uid(&group.tree)), revision: Some(group.revision) },
            act: Act::Merge(patch),
        })])
    }
}

fn ended(pod: &Object) -> bool {
    Phase::of(pod.tree.str_at(pod_path::PHASE)).ended()
}

/// The group that a pod names.
fn group_of(pod: &Object) -> Option<Name> {
    match Membership::of(&pod.tree, Reads::default())?.belongs {
        Belongs::Native(name) => Some((meta::namespace(&pod.tree), name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_api::gang::OWN_GROUPS;
    use muster_api::port::Change;
    use muster_tree::{Tree, tree};

    use super::*;

    fn group(change: &Tree) -> Object {
        let tree = tree!({"metadata": {"namespace": "ns", "name": "g", "uid": "u"}, "spec": {}});
        Object { tree: tree.merge(&tree!({"metadata": change})), revision: 5 }
    }

    fn pod(name: &str, phase: &str, revision: u64) -> Object {
        let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": name},
            "spec": {"workloadRef": {"name": "w", "podGroupName": "g"}}, "status": {"phase": phase}});
        Object { tree, revision }
    }

    fn key() -> Key {
        Key::new(&kinds::POD_GROUPS, &"ns".into(), &"g".into())
    }

    /// What is written to a group, with these pods.
    fn written(change: &Tree, pods: &[Object]) -> Option<Tree> {
        let (mut it, mut caches) = (PodGroups::default(), Caches::default());
        it.kinds().iter().for_each(|kind| caches.add_kind(kind));
        let mut taken: Vec<_> =
            pods.iter().filter_map(|pod| caches.change(&kinds::PODS, Change::Put(pod.clone()))).collect();
        taken.extend(caches.change(&kinds::POD_GROUPS, Change::Put(group(change))));
        taken.iter().for_each(|one| {
            it.wakes(&one.seen(), &caches);
        });
        let step = it.plan(&key(), &caches, Time(0)).steps.pop()?;
        let Step::One(Call { act: Act::Merge(patch), .. }) = step else { panic!("one merge") };
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
        let mut it = PodGroups::default();
        let mut caches = Caches::default();
        caches.add_kind(&kinds::PODS);
        let mut wakes = |object: Object| {
            let taken = caches.change(&kinds::PODS, Change::Put(object)).expect("news");
            it.wakes(&taken.seen(), &caches).into_iter().map(|wake| wake.key).collect::<Vec<_>>()
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
            Object { tree, revision }
        };
        let deleting = tree!({"deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["scheduling.k8s.io/podgroup-protection"]});
        let moved = [marked("a", "g", "Running", 1), marked("a", "h", "Running", 2)];
        assert_eq!(written(&deleting, &moved), None, "its mark was edited");
        let bare = Object { tree: moved[1].tree.without(&["metadata", "annotations"]), revision: 3 };
        assert_eq!(written(&deleting, &[moved[0].clone(), bare]), None, "or taken away");
        let ended = [moved[0].clone(), marked("a", "h", "Succeeded", 2)];
        assert!(written(&deleting, &ended).is_some());
        let late = [marked("a", "h", "Running", 1), marked("a", "g", "Running", 2)];
        assert!(written(&deleting, &late).is_some(), "it was never one of this group");
        let namesake = tree!({"metadata": {"uid": "other"}});
        let namesake = Object { tree: late[1].tree.merge(&namesake), revision: 4 };
        assert_eq!(written(&deleting, &[late[0].clone(), namesake]), None, "a namesake is another pod");
    }

    #[test]
    fn servers_that_keep_groups_themselves_are_left_alone() {
        assert!(PodGroups::new(Form::Released).kinds().is_empty());
        assert!(PodGroups::new(Form::Own).kinds().contains(&OWN_GROUPS));
    }
}
