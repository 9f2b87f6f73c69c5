//! Watches over nodes: one whose lease is over is unknown and tainted, and pods that do not put up with it go.
//!
//! # Invariants
//!
//! - A node that never had a lease is left alone: nobody promised to be heard of.
//! - A pod is evicted when it was tolerated long enough, counted from when the taint was added, so that a restart
//!   neither shortens nor lengthens it.
//!
//! # Deliberately absent
//!
//! Rate limits by zone: what is evicted here was given up by its node.

use muster_api::condition::{self, Wanted};
use muster_api::event::{About, Event, Severity};
use muster_api::lease;
use muster_api::node::{self, Effect, Taint};
use muster_api::paths::{node as path, pod as pod_path, taint as taint_path};
use muster_api::pod::{self, Phase};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part};
use muster_api::time::Time;
use muster_api::toleration::{Stay, Toleration, stay};
use muster_api::words::{NODE_LEASES, conditions, managers, reasons, taints};
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// The watcher over nodes.
#[derive(Debug, Default)]
pub struct Lifecycle;

impl Controller for Lifecycle {
    /// One switch with the nodes themselves.
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NODES.clone(), kinds::PODS.clone(), kinds::LEASES.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let of_node = |name: &Text| Key::new(&kinds::NODES, &Text::new(), name);
        if seen.key.kind == kinds::NODES {
            let pods = caches.on_node(&seen.key.name).filter(|_| taints_changed(seen));
            let pods = pods.map(|pod| Key::of(&kinds::PODS, &pod.tree));
            return pods.chain([seen.key.clone()]).map(Wake::from).collect();
        }
        if seen.key.kind == kinds::PODS {
            let node = seen.after.map(|pod| of_node(&pod.tree.text_at(pod_path::NODE_NAME)));
            let tainted =
                node.and_then(|node| caches.find(&node)).is_some_and(|it| !executing(&it.tree).is_empty());
            return if tainted { vec![seen.key.clone().into()] } else { Vec::new() };
        }
        // A renewal matters only to a node that was given up; every other one is looked at when it is due.
        let node = of_node(&seen.key.name);
        let matters = seen.key.namespace == NODE_LEASES
            && (seen.before.is_none() || caches.find(&node).is_some_and(|it| !node::is_ready(&it.tree)));
        if matters { vec![node.into()] } else { Vec::new() }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(object) = caches.find(key) else {
            return Plan::nothing();
        };
        if key.kind == kinds::PODS {
            plan_pod(key, object, caches, now)
        } else {
            plan_node(key, object, caches, now)
        }
    }
}

fn plan_node(key: &Key, node: &Object, caches: &Caches, now: Time) -> Plan {
    let Some(lease) = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &key.name) else {
        return Plan::nothing();
    };
    let silent = lease::is_over(&lease.tree, now);
    let mut steps = Vec::new();
    let told: Vec<Tree> = node
        .tree
        .items_at(path::CONDITIONS)
        .iter()
        .filter(|c| silent && !is_unknown(c))
        .map(|c| unknown(c, now))
        .collect();
    if !told.is_empty() {
        let patch = Tree::Null.with(path::CONDITIONS, Tree::list(told));
        steps.push(Step::One(call(key, node, Part::Status, Act::Strategic(patch), false)));
    }
    let state = match (silent, node::is_ready(&node.tree)) {
        (true, _) => Some(taints::UNREACHABLE),
        (false, true) => None,
        (false, false) => Some(taints::NOT_READY),
    };
    let wanted = with_taint(node.tree.items_at(path::TAINTS), state, now);
    if let Some(wanted) = wanted {
        let patch = Tree::Null.with(path::TAINTS, Tree::list(wanted));
        steps.push(Step::One(call(key, node, Part::Main, Act::Merge(patch), true)));
    }
    let plan = Plan::of(steps);
    if silent { plan } else { plan.again(lease::ends(&lease.tree).unwrap_or(now)) }
}

/// The taints with the one that says how the node is, or `None` when they say so already.
fn with_taint(there: &[Tree], state: Option<&str>, now: Time) -> Option<Vec<Tree>> {
    let ours =
        |taint: &Tree| [taints::UNREACHABLE, taints::NOT_READY].contains(&taint.str_at(taint_path::KEY));
    let is = |taint: &&Tree| ours(taint) && Some(taint.str_at(taint_path::KEY)) == state;
    let right = there.iter().filter(is).count();
    let wrong = there.iter().filter(|taint| ours(taint)).count() - right;
    let effects = ["NoSchedule", "NoExecute"];
    if wrong == 0 && right == state.map_or(0, |_| effects.len()) {
        return None;
    }
    let made = |key: &str, effect: &str| {
        let taint = Tree::Null.with(taint_path::KEY, key).with(taint_path::EFFECT, effect);
        taint.with(taint_path::ADDED, now.to_seconds_text())
    };
    let kept = there.iter().filter(|taint| !ours(taint)).cloned();
    Some(kept.chain(state.into_iter().flat_map(|key| effects.map(|effect| made(key, effect)))).collect())
}

fn is_unknown(condition: &Tree) -> bool {
    condition.str_at(muster_api::paths::condition::STATUS) == "Unknown"
}

/// The condition as it reads when nothing is heard of the node.
fn unknown(condition: &Tree, now: Time) -> Tree {
    let kind = condition.str_at(muster_api::paths::condition::TYPE);
    let message = "Kubelet stopped posting node status.";
    let said = Wanted { kind, holds: false, reason: reasons::NODE_STATUS_UNKNOWN, message };
    said.tree(now).with(muster_api::paths::condition::STATUS, "Unknown")
}

fn plan_pod(key: &Key, pod: &Object, caches: &Caches, now: Time) -> Plan {
    let ended = Phase::of(pod.tree.str_at(pod_path::PHASE)).ended();
    let node = caches.get(&kinds::NODES, &Text::new(), &pod.tree.text_at(pod_path::NODE_NAME));
    let Some(node) = node.filter(|_| !ended && meta::deleting(&pod.tree).is_none()) else {
        return Plan::nothing();
    };
    let tolerations = Toleration::all_of(&pod.tree);
    let until =
        executing(&node.tree).into_iter().filter_map(|(taint, added)| match stay(&tolerations, &taint) {
            Stay::For(time) => Some(added.unwrap_or(now) + time),
            Stay::Forever => None,
        });
    match until.min() {
        None => Plan::nothing(),
        Some(at) if at > now => Plan::nothing().again(at),
        Some(_) => evict(key, pod, now),
    }
}

fn evict(key: &Key, pod: &Object, now: Time) -> Plan {
    let wanted = Wanted {
        kind: conditions::DISRUPTION_TARGET,
        holds: true,
        reason: reasons::DELETION_BY_TAINT_MANAGER,
        message: "Taint manager: deleting due to NoExecute taint",
    };
    let said = condition::holds(pod.tree.items_at(pod_path::CONDITIONS), conditions::DISRUPTION_TARGET);
    let mark = (!said).then(|| {
        Step::One(call(
            key,
            pod,
            Part::Status,
            Act::Strategic(pod::condition_patch(&pod.tree, &wanted, now)),
            false,
        ))
    });
    let delete = Act::Delete { cascade: Cascade::Background, grace_secs: None };
    let note = Event {
        action: Text::new(),
        by: managers::TAINTS.clone(),
        about: About::of(&kinds::PODS, "Pod", &pod.tree),
        severity: Severity::Normal,
        reason: "TaintManagerEviction".into(),
        message: format!("Marking for deletion Pod {}/{}", key.namespace, key.name).into(),
    };
    let steps = [Step::Note(note)].into_iter().chain(mark);
    Plan::of(steps.chain([Step::One(call(key, pod, Part::Main, delete, false))]).collect())
}

/// The taints that end pods, and when each was added.
fn executing(node: &Tree) -> Vec<(Taint, Option<Time>)> {
    let all = node.items_at(path::TAINTS).iter();
    let read = all.filter_map(|tree| Some((node::read_taint(tree)?, Time::of(tree.at(taint_path::ADDED)))));
    read.filter(|(taint, _)| taint.effect == Effect::NoExecute).collect()
}

fn taints_changed(seen: &Seen<'_>) -> bool {
    let taints = |object: Option<&Object>| object.and_then(|it| it.tree.at(path::TAINTS).cloned());
    taints(seen.before) != taints(seen.after)
}

fn call(key: &Key, object: &Object, part: Part, act: Act, exact: bool) -> Call {
    let by = if key.kind == kinds::PODS { &managers::TAINTS } else { &managers::NODE_LIFECYCLE };
    let guard = Guard { uid: Some(meta::uid(&object.tree)), revision: exact.then_some(object.revision) };
    Call { by: by.clone(), on: key.target(part), guard, act }
}
