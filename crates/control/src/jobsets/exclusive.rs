//! Followers of exclusive JobSets that are not where their leader is: they go, and are made anew.
//!
//! The leader of a Job (its pod with index 0) is placed first; admission sends the others after it. A leader that came
//! back elsewhere leaves followers behind.

use muster_api::condition::Wanted;
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as path};
use muster_api::pod::Phase;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Uid};
use muster_api::time::Time;
use muster_api::words::jobset as words;
use muster_api::words::{conditions, labels, managers};
use muster_api::{condition, kinds, pod};
use muster_tree::{Text, Tree};

use super::is_job;
use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// How long until a node that is not there, or says nothing of its place, is looked for again.
const RETRY: std::time::Duration = std::time::Duration::from_secs(5);

/// Looks after leaders; a part of the JobSet controller.
#[derive(Debug, Default)]
pub struct Exclusive;

impl Controller for Exclusive {
    fn name(&self) -> &'static str {
        "jobset"
    }

    /// As dashboards know it.
    fn counted_as(&self) -> &'static str {
        "pod"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::PODS.clone(), kinds::NODES.clone()]
    }

    /// Of pods, those that are sent to one place.
    fn concerns(&self, kind: &Kind, object: &Tree) -> bool {
        *kind != kinds::PODS || meta::annotation(object, words::EXCLUSIVE_TOPOLOGY).is_some()
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let Some(pod) = seen.after.filter(|_| seen.key.kind == kinds::PODS) else { return Vec::new() };
        if topology(&pod.tree).is_none() {
            return Vec::new();
        }
        if is_leader(&pod.tree) {
            return vec![seen.key.clone().into()];
        }
        // A new follower: is it where its leader is?
        let job = meta::controller(&pod.tree).filter(|_| seen.before.is_none()).filter(is_job);
        let Some(owner) = job else { return Vec::new() };
        let leaders = pods_of(&owner.uid, caches).filter(|it| is_leader(&it.tree) && is_alive(&it.tree));
        leaders.map(|leader| Key::of(&kinds::PODS, &leader.tree).into()).collect()
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(leader) = caches.find(key).map(|it| &it.tree) else { return Plan::nothing() };
        let (Some(topology), Some(job)) = (topology(leader), meta::controller(leader).filter(is_job)) else {
            return Plan::nothing();
        };
        let node = leader.text_at(path::NODE_NAME);
        if !is_leader(leader) || node.is_empty() || !is_alive(leader) {
            return Plan::nothing();
        }
        let same =
            |it: &&Object| meta::label(&it.tree, words::JOB_KEY) == meta::label(leader, words::JOB_KEY);
        let followers: Vec<&Object> = pods_of(&job.uid, caches)
            .filter(same)
            .filter(|it| !is_leader(&it.tree) && is_alive(&it.tree))
            .collect();
        let node = caches.get(&kinds::NODES, &Text::new(), &node);
        let place = node.and_then(|it| meta::label(&it.tree, topology));
        let is_elsewhere = |it: &&Object| place.is_none() || selected(&it.tree, topology) != place;
        match (followers.iter().any(is_elsewhere), place) {
            (false, _) => Plan::nothing(),
            // Where the leader is cannot be told: nobody goes for that.
            (true, None) => Plan::nothing().again(now + RETRY),
            (true, Some(_)) => evict(&followers, now),
        }
    }
}

/// The label whose values are the places, where followers are sent after their leader.
fn topology(pod: &Tree) -> Option<&str> {
    let all = pod.at(meta_path::ANNOTATIONS)?;
    let topology = all.get(words::EXCLUSIVE_TOPOLOGY)?.as_str()?;
    all.get(words::NODE_SELECTOR).is_none().then_some(topology)
}

fn is_leader(pod: &Tree) -> bool {
    meta::annotation(pod, labels::COMPLETION_INDEX) == Some("0")
}

/// Pods that have ended, or are about to, are nobody's concern: others come in their place.
fn is_alive(pod: &Tree) -> bool {
    meta::deleting(pod).is_none() && !Phase::of(pod.str_at(path::PHASE)).ended()
}

fn selected<'a>(pod: &'a Tree, topology: &str) -> Option<&'a str> {
    pod.at(path::NODE_SELECTOR)?.get(topology)?.as_str()
}

fn pods_of<'a>(job: &'a Uid, caches: &'a Caches) -> impl Iterator<Item = &'a Object> {
    let pods = caches.owned_by(job).filter(|(key, _)| key.kind == kinds::PODS).map(|(_, pod)| pod);
    pods.filter(|pod| meta::controller(&pod.tree).is_some_and(|owner| owner.uid == *job))
}

/// Says why on each, then deletes them.
fn evict(followers: &[&Object], now: Time) -> Plan {
    let wanted = Wanted {
        kind: conditions::DISRUPTION_TARGET,
        holds: true,
        reason: "ExclusivePlacementViolation",
        message: "Pod violated JobSet exclusive placement policy",
    };
    let going = followers;
    let untold = |it: &&&Object| !condition::holds(it.tree.items_at(path::CONDITIONS), wanted.kind);
    let tell = |it: &&Object| Call {
        by: managers::JOBSET.clone(),
        on: meta::target(&kinds::PODS, &it.tree, Part::Status),
        guard: Guard { uid: Some(meta::uid(&it.tree)), revision: None },
        act: Act::Strategic(pod::condition_patch(&it.tree, &wanted, now)),
    };
    let delete = |it: &&Object| {
        let on = meta::target(&kinds::PODS, &it.tree, Part::Main);
        Call::delete(managers::JOBSET.clone(), on, meta::uid(&it.tree), Cascade::Background)
    };
    let told = going.iter().filter(untold).map(tell).collect();
    Plan::of(vec![Step::Each(told), Step::Each(going.iter().map(delete).collect())])
}

#[cfg(test)]
mod tests {
    use muster_api::port::Change;
    use muster_tree::tree;

    use super::*;

    fn pod(name: &str, index: u32, place: &str) -> Tree {
        let owner = meta::Owner::controller_tree("batch/v1", "Job", &"j".into(), &"ju".into());
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
                caches.change(&kinds::PODS, Change::Put(Object { tree: it.clone(), revision: 1 }));
            }
            if let Some(node) = node {
                caches.change(&kinds::NODES, Change::Put(Object { tree: node.clone(), revision: 1 }));
            }
            let plan = Exclusive.plan(&Key::of(&kinds::PODS, &leader), &caches, Time(0));
            let sizes: Vec<usize> = plan
                .steps
                .iter()
                .map(|it| if let Step::Each(calls) = it { calls.len() } else { 99 })
                .collect();
            assert_eq!(sizes, if gone == 0 { vec![] } else { vec![gone, gone] }, "{says}");
            assert_eq!(plan.again_at.is_some(), again, "{says}");
        }
    }
}
