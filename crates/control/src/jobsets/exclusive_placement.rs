//! Exclusive placement of JobSets: deletes follower pods that are in another topology domain than their leader.
//!
//! The leader of a Job (its pod with index 0) is scheduled first; the pod webhook gives the followers a node selector for its
//! domain. When the leader is recreated in another domain, the followers have to be recreated, too.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource, Uid,
};
use muster_api::condition::DesiredCondition;
use muster_api::consts::jobset as words;
use muster_api::consts::{conditions, labels, managers};
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as path};
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_api::{condition, kinds, pod};
use muster_tree::{Text, Tree};

use super::is_job;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// When to requeue if the node of the leader is missing, or has no topology label.
const RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// Reconciles leader pods; a part of the JobSet controller.
#[derive(Debug, Default)]
pub struct ExclusivePlacementController;

impl Controller for ExclusivePlacementController {
    fn name(&self) -> &'static str {
        "jobset"
    }

    /// The name that upstream's dashboards use.
    fn metrics_name(&self) -> &'static str {
        "pod"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::PODS.clone(), kinds::NODES.clone()]
    }

    /// Only pods with an exclusive topology.
    fn predicate(&self, kind: &Kind, object: &Tree) -> bool {
        *kind != kinds::PODS || meta::annotation(object, words::EXCLUSIVE_TOPOLOGY).is_some()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let Some(pod) = seen.new.filter(|_| seen.key.kind == kinds::PODS) else { return Vec::new() };
        if topology(&pod.tree).is_none() {
            return Vec::new();
        }
        if is_leader(&pod.tree) {
            return vec![seen.key.clone().into()];
        }
        // A new follower: reconcile its leader, which checks the domain.
        let job = meta::controller_of(&pod.tree).filter(|_| seen.old.is_none()).filter(is_job);
        let Some(owner) = job else { return Vec::new() };
        let leaders = pods_of(&owner.uid, caches).filter(|it| is_leader(&it.tree) && is_alive(&it.tree));
        leaders.map(|leader| ObjectKey::of(&kinds::PODS, &leader.tree).into()).collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(leader) = caches.find(key).map(|it| &it.tree) else { return Reconciled::done() };
        let (Some(topology), Some(job)) = (topology(leader), meta::controller_of(leader).filter(is_job))
        else {
            return Reconciled::done();
        };
        let node = leader.text_at(path::NODE_NAME);
        if !is_leader(leader) || node.is_empty() || !is_alive(leader) {
            return Reconciled::done();
        }
        let same =
            |it: &&ApiObject| meta::label(&it.tree, words::JOB_KEY) == meta::label(leader, words::JOB_KEY);
        let followers: Vec<&ApiObject> = pods_of(&job.uid, caches)
            .filter(same)
            .filter(|it| !is_leader(&it.tree) && is_alive(&it.tree))
            .collect();
        let node = caches.get(&kinds::NODES, &Text::new(), &node);
        let place = node.and_then(|it| meta::label(&it.tree, topology));
        let is_elsewhere = |it: &&ApiObject| place.is_none() || selected(&it.tree, topology) != place;
        match (followers.iter().any(is_elsewhere), place) {
            (false, _) => Reconciled::done(),
            // The domain of the leader is unknown: no follower is deleted for that.
            (true, None) => Reconciled::done().requeue_at(now + RETRY),
            (true, Some(_)) => evict(&followers, now),
        }
    }
}

/// The topology key, if followers get their node selector from the leader.
fn topology(pod: &Tree) -> Option<&str> {
    let all = pod.at(meta_path::ANNOTATIONS)?;
    let topology = all.get(words::EXCLUSIVE_TOPOLOGY)?.as_str()?;
    all.get(words::NODE_SELECTOR).is_none().then_some(topology)
}

fn is_leader(pod: &Tree) -> bool {
    meta::annotation(pod, labels::COMPLETION_INDEX) == Some("0")
}

/// Terminated or terminating pods are ignored: the Job controller replaces them.
fn is_alive(pod: &Tree) -> bool {
    meta::deletion_timestamp(pod).is_none() && !PodPhase::of(pod.str_at(path::PHASE)).is_terminal()
}

fn selected<'a>(pod: &'a Tree, topology: &str) -> Option<&'a str> {
    pod.at(path::NODE_SELECTOR)?.get(topology)?.as_str()
}

fn pods_of<'a>(job: &'a Uid, caches: &'a Caches) -> impl Iterator<Item = &'a ApiObject> {
    let pods = caches.owned_by(job).filter(|(key, _)| key.kind == kinds::PODS).map(|(_, pod)| pod);
    pods.filter(|pod| meta::controller_of(&pod.tree).is_some_and(|owner| owner.uid == *job))
}

/// Sets the DisruptionTarget condition on each follower, then deletes them.
fn evict(followers: &[&ApiObject], now: Time) -> Reconciled {
    let wanted = DesiredCondition {
        condition_type: conditions::DISRUPTION_TARGET,
        status: true,
        reason: "ExclusivePlacementViolation",
        message: "Pod violated JobSet exclusive placement policy",
    };
    let going = followers;
    let untold =
        |it: &&&ApiObject| !condition::is_true(it.tree.items_at(path::CONDITIONS), wanted.condition_type);
    let tell = |it: &&ApiObject| ApiRequest {
        field_manager: managers::JOBSET.clone(),
        target: meta::target(&kinds::PODS, &it.tree, Subresource::Status),
        preconditions: Preconditions { uid: Some(meta::uid(&it.tree)), revision: None },
        verb: RequestVerb::StrategicMergePatch(pod::condition_patch(&it.tree, &wanted, now)),
    };
    let delete = |it: &&ApiObject| {
        let on = meta::target(&kinds::PODS, &it.tree, Subresource::Main);
        ApiRequest::delete(managers::JOBSET.clone(), on, meta::uid(&it.tree), DeletionPropagation::Background)
    };
    let told = going.iter().filter(untold).map(tell).collect();
    Reconciled::with_steps(vec![Step::Parallel(told), Step::Parallel(going.iter().map(delete).collect())])
}

#[cfg(test)]
mod tests {
    use muster_api::client::WatchChange;
    use muster_tree::tree;

    use super::*;

    fn pod(name: &str, index: u32, place: &str) -> Tree {
        let owner = meta::OwnerReference::controller_reference("batch/v1", "Job", &"j".into(), &"ju".into());
        let selector = if place.is_empty() { Tree::empty_map() } else { tree!({"rack": place}) };
        tree!({"metadata": {"name": name, "namespace": "n", "uid": name, "ownerReferences": Tree::list([owner]),
            "labels": Tree::map([(words::JOB_KEY, "k")]),
            "annotations": Tree::map([(words::EXCLUSIVE_TOPOLOGY, "rack".to_owned()), (labels::COMPLETION_INDEX, index.to_string())])},
            "spec": {"nodeName": "node", "nodeSelector": selector}})
    }

    #[test]
    fn followers_elsewhere_go() {
        let rack = tree!({"metadata": {"name": "node", "labels": {"rack": "r1"}}});
        let bare = tree!({"metadata": {"name": "node"}});
        let cases = [
            ("all where the leader is", Some(&rack), vec![pod("b", 1, "r1"), pod("c", 2, "r1")], 0, false),
            ("one elsewhere: all go", Some(&rack), vec![pod("b", 1, "r1"), pod("c", 2, "r2")], 2, false),
            ("one that says nothing", Some(&rack), vec![pod("b", 1, "")], 1, false),
            ("the node says nothing", Some(&bare), vec![pod("b", 1, "r2")], 0, true),
            ("the node is gone", None, vec![pod("b", 1, "r2")], 0, true),
            ("no followers yet", Some(&rack), vec![], 0, false),
            (
                "one elsewhere that has ended",
                Some(&rack),
                vec![pod("b", 1, "r1"), pod("c", 2, "r2").with(&["status", "phase"], "Failed")],
                0,
                false,
            ),
        ];
        for (says, node, followers, gone, again) in cases {
            let mut caches = Caches::default();
            let leader = pod("a", 0, "");
            for it in followers.iter().chain([&leader]) {
                caches.apply_watch_change(
                    &kinds::PODS,
                    WatchChange::Applied(ApiObject { tree: it.clone(), revision: 1 }),
                );
            }
            if let Some(node) = node {
                caches.apply_watch_change(
                    &kinds::NODES,
                    WatchChange::Applied(ApiObject { tree: node.clone(), revision: 1 }),
                );
            }
            let plan = ExclusivePlacementController.reconcile(
                &ObjectKey::of(&kinds::PODS, &leader),
                &caches,
                Time(0),
            );
            let sizes: Vec<usize> = plan
                .steps
                .iter()
                .map(|it| if let Step::Parallel(calls) = it { calls.len() } else { 99 })
                .collect();
            assert_eq!(sizes, if gone == 0 { vec![] } else { vec![gone, gone] }, "{says}");
            assert_eq!(plan.requeue_at.is_some(), again, "{says}");
        }
    }
}
