//! The node lifecycle controller: a node with an expired Lease gets Ready=Unknown and taints, and NoExecute taints evict pods.
//!
//! # Guarantees
//!
//! - A node that never had a Lease is ignored: its agent sends no heartbeats.
//! - `tolerationSeconds` counts from `timeAdded` of the taint, so that a restart neither shortens nor extends it.
//!
//! # Deliberately absent
//!
//! Eviction rate limits per zone.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::{NODE_LEASES, conditions, managers, reasons, taints};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::lease;
use muster_api::node::{self, Taint, TaintEffect};
use muster_api::paths::{node as path, pod as pod_path, taint as taint_path};
use muster_api::pod::{self, PodPhase};
use muster_api::time::Time;
use muster_api::toleration::{Toleration, TolerationPeriod, toleration_period};
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// The node lifecycle controller, with the taint eviction controller.
#[derive(Debug, Default)]
pub struct NodeLifecycleController;

impl Controller for NodeLifecycleController {
    /// Shares its `--controllers` switch with the node controllers.
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::NODES.clone(), kinds::PODS.clone(), kinds::LEASES.clone()]
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let of_node = |name: &Text| ObjectKey::new(&kinds::NODES, &Text::new(), name);
        if seen.key.kind == kinds::NODES {
            let pods = caches.on_node(&seen.key.name).filter(|_| taints_changed(seen));
            let pods = pods.map(|pod| ObjectKey::of(&kinds::PODS, &pod.tree));
            return pods.chain([seen.key.clone()]).map(ReconcileRequest::from).collect();
        }
        if seen.key.kind == kinds::PODS {
            let node = seen.new.map(|pod| of_node(&pod.tree.text_at(pod_path::NODE_NAME)));
            let tainted =
                node.and_then(|node| caches.find(&node)).is_some_and(|it| !executing(&it.tree).is_empty());
            return if tainted { vec![seen.key.clone().into()] } else { Vec::new() };
        }
        // A renewal matters only for a node that is not ready; every other node is requeued at the expiry of its Lease.
        let node = of_node(&seen.key.name);
        let matters = seen.key.namespace == NODE_LEASES
            && (seen.old.is_none() || caches.find(&node).is_some_and(|it| !node::is_ready(&it.tree)));
        if matters { vec![node.into()] } else { Vec::new() }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(object) = caches.find(key) else {
            return Reconciled::done();
        };
        if key.kind == kinds::PODS {
            plan_pod(key, object, caches, now)
        } else {
            plan_node(key, object, caches, now)
        }
    }
}

fn plan_node(key: &ObjectKey, node: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
    let Some(lease) = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &key.name) else {
        return Reconciled::done();
    };
    let silent = lease::is_expired(&lease.tree, now);
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
        steps.push(Step::Request(call(
            key,
            node,
            Subresource::Status,
            RequestVerb::StrategicMergePatch(patch),
            false,
        )));
    }
    let state = match (silent, node::is_ready(&node.tree)) {
        (true, _) => Some(taints::UNREACHABLE),
        (false, true) => None,
        (false, false) => Some(taints::NOT_READY),
    };
    let wanted = with_taint(node.tree.items_at(path::TAINTS), state, now);
    if let Some(wanted) = wanted {
        let patch = Tree::Null.with(path::TAINTS, Tree::list(wanted));
        steps.push(Step::Request(call(key, node, Subresource::Main, RequestVerb::MergePatch(patch), true)));
    }
    let plan = Reconciled::with_steps(steps);
    if silent { plan } else { plan.requeue_at(lease::ends(&lease.tree).unwrap_or(now)) }
}

/// The taints with those for the state of the node, or `None` if they are unchanged.
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

/// The condition of a node without heartbeats.
fn unknown(condition: &Tree, now: Time) -> Tree {
    let kind = condition.str_at(muster_api::paths::condition::TYPE);
    let message = "Kubelet stopped posting node status.";
    let said = DesiredCondition {
        condition_type: kind,
        status: false,
        reason: reasons::NODE_STATUS_UNKNOWN,
        message,
    };
    said.tree(now).with(muster_api::paths::condition::STATUS, "Unknown")
}

fn plan_pod(key: &ObjectKey, pod: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
    let ended = PodPhase::of(pod.tree.str_at(pod_path::PHASE)).is_terminal();
    let node = caches.get(&kinds::NODES, &Text::new(), &pod.tree.text_at(pod_path::NODE_NAME));
    let Some(node) = node.filter(|_| !ended && meta::deletion_timestamp(&pod.tree).is_none()) else {
        return Reconciled::done();
    };
    let tolerations = Toleration::all_of(&pod.tree);
    let until = executing(&node.tree).into_iter().filter_map(|(taint, added)| {
        match toleration_period(&tolerations, &taint) {
            TolerationPeriod::For(time) => Some(added.unwrap_or(now) + time),
            TolerationPeriod::Forever => None,
        }
    });
    match until.min() {
        None => Reconciled::done(),
        Some(at) if at > now => Reconciled::done().requeue_at(at),
        Some(_) => evict(key, pod, now),
    }
}

fn evict(key: &ObjectKey, pod: &ApiObject, now: Time) -> Reconciled {
    let wanted = DesiredCondition {
        condition_type: conditions::DISRUPTION_TARGET,
        status: true,
        reason: reasons::DELETION_BY_TAINT_MANAGER,
        message: "Taint manager: deleting due to NoExecute taint",
    };
    let said = condition::is_true(pod.tree.items_at(pod_path::CONDITIONS), conditions::DISRUPTION_TARGET);
    let mark = (!said).then(|| {
        Step::Request(call(
            key,
            pod,
            Subresource::Status,
            RequestVerb::StrategicMergePatch(pod::condition_patch(&pod.tree, &wanted, now)),
            false,
        ))
    });
    let delete =
        RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    let note = Event {
        action: Text::new(),
        reporting_controller: managers::TAINTS.clone(),
        regarding: ObjectReference::of(&kinds::PODS, "Pod", &pod.tree),
        event_type: EventType::Normal,
        reason: "TaintManagerEviction".into(),
        message: format!("Marking for deletion Pod {}/{}", key.namespace, key.name).into(),
    };
    let steps = [Step::Event(note)].into_iter().chain(mark);
    Reconciled::with_steps(
        steps.chain([Step::Request(call(key, pod, Subresource::Main, delete, false))]).collect(),
    )
}

/// The NoExecute taints, and when each was added.
fn executing(node: &Tree) -> Vec<(Taint, Option<Time>)> {
    let all = node.items_at(path::TAINTS).iter();
    let read = all.filter_map(|tree| Some((node::read_taint(tree)?, Time::of(tree.at(taint_path::ADDED)))));
    read.filter(|(taint, _)| taint.effect == TaintEffect::NoExecute).collect()
}

fn taints_changed(seen: &WatchEvent<'_>) -> bool {
    let taints = |object: Option<&ApiObject>| object.and_then(|it| it.tree.at(path::TAINTS).cloned());
    taints(seen.old) != taints(seen.new)
}

fn call(key: &ObjectKey, object: &ApiObject, part: Subresource, act: RequestVerb, exact: bool) -> ApiRequest {
    let by = if key.kind == kinds::PODS { &managers::TAINTS } else { &managers::NODE_LIFECYCLE };
    let guard =
        Preconditions { uid: Some(meta::uid(&object.tree)), revision: exact.then_some(object.revision) };
    ApiRequest { field_manager: by.clone(), target: key.target(part), preconditions: guard, verb: act }
}
