//! The disruption controller: how many pods of a PodDisruptionBudget may be evicted now.
//!
//! # Guarantees
//!
//! - A status is a function of the budget, its pods and their controllers; an unchanged one is not written again.
//! - A pod in `status.disruptedPods` counts as deleted for `DELETION_SECS`, then as existing again.
//!
//! # Deliberately absent
//!
//! Events about pods without a controller and about budgets without pods.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource, Uid};
use muster_api::condition::{self, DesiredCondition};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::{budget as path, meta as meta_path, pod as pod_path};
use muster_api::selector::LabelSelector;
use muster_api::time::Time;
use muster_tree::{Text, Tree, literal, tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// How long a pod in `status.disruptedPods` counts as deleted, in seconds (upstream's `DeletionTimeout`).
const DELETION_SECS: i64 = 120;
const MICROS: i64 = 1_000_000;
static MANAGER: Text = literal!("disruption-controller");

/// The disruption controller.
#[derive(Debug, Default)]
pub struct DisruptionController;

impl Controller for DisruptionController {
    fn name(&self) -> &'static str {
        "disruption"
    }

    fn kinds(&self) -> Vec<Kind> {
        [&kinds::POD_DISRUPTION_BUDGETS, &kinds::PODS].map(Clone::clone).into()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        if seen.key.kind == kinds::POD_DISRUPTION_BUDGETS {
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let states: Vec<&ApiObject> = seen.old.into_iter().chain(seen.new).collect();
        let budgets = caches.in_namespace(&kinds::POD_DISRUPTION_BUDGETS, &seen.key.namespace);
        let covering = budgets.filter(|budget| states.iter().any(|pod| covers(&budget.tree, &pod.tree)));
        let key = |budget: &ApiObject| {
            ObjectKey::new(&kinds::POD_DISRUPTION_BUDGETS, &seen.key.namespace, &meta::name(&budget.tree))
        };
        covering.map(|budget| key(budget).into()).collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let Some(budget) = caches.find(key) else {
            return Reconciled::done();
        };
        let pods: Vec<&ApiObject> = caches
            .in_namespace(&kinds::PODS, &key.namespace)
            .filter(|pod| covers(&budget.tree, &pod.tree))
            .collect();
        let (status, again) = status(&budget.tree, &pods, caches, now);
        let plan = if budget.tree.get("status") == Some(&status) {
            Reconciled::done()
        } else {
            let guard = Preconditions { uid: Some(meta::uid(&budget.tree)), revision: Some(budget.revision) };
            let act = RequestVerb::MergePatch(replaced(budget.tree.get("status"), &status));
            let call = ApiRequest {
                field_manager: MANAGER.clone(),
                target: key.target(Subresource::Status),
                preconditions: guard,
                verb: act,
            };
            Reconciled::with_steps(vec![Step::Request(call)])
        };
        match again {
            Some(at) => plan.requeue_at(at),
            None => plan,
        }
    }
}

/// A merge patch to this status that removes absent keys.
fn replaced(old: Option<&Tree>, new: &Tree) -> Tree {
    let gone = |part: &str| {
        let names =
            old.map(|old| old.entries_at(&[part]).iter()).into_iter().flatten().map(|(name, _)| name.clone());
        names.filter(|name| new.at(&[part, name]).is_none()).collect::<Vec<Text>>()
    };
    let patch = gone("disruptedPods")
        .into_iter()
        .fold(new.clone(), |patch, name| patch.with(&["disruptedPods", &name], Tree::Null));
    tree!({"status": patch})
}

/// An empty selector covers all pods, an absent one none.
fn covers(budget: &Tree, pod: &Tree) -> bool {
    LabelSelector::of(budget.at(path::SELECTOR)).matches(pod)
}

/// The status of a budget, and when it changes by itself.
fn status(budget: &Tree, pods: &[&ApiObject], caches: &Caches, now: Time) -> (Tree, Option<Time>) {
    let (disrupted, again) = disrupted(budget, pods, now);
    let healthy = |pod: &&&ApiObject| {
        meta::deletion_timestamp(&pod.tree).is_none()
            && !disrupted.contains_key(&meta::name(&pod.tree))
            && condition::is_true(pod.tree.items_at(pod_path::CONDITIONS), "Ready")
    };
    let current = count(pods.iter().filter(healthy).count());
    let before = budget.get("status").cloned().unwrap_or_else(Tree::empty_map);
    let generation = budget.int_at(meta_path::GENERATION).unwrap_or(0);
    let (allowed, wanted, why) = match expected(budget, pods, caches) {
        Ok((expected, desired)) => {
            let allowed = if expected > 0 { (current - desired).max(0) } else { 0 };
            let status = before
                .with(&["currentHealthy"], current)
                .with(&["desiredHealthy"], desired)
                .with(&["expectedPods"], expected)
                .with(&["disruptedPods"], Tree::map(disrupted))
                .with(&["observedGeneration"], generation);
            (allowed, status, None)
        }
        Err(why) => (0, before, Some(why)),
    };
    let reason = match why {
        Some(_) => "SyncFailed",
        None if allowed > 0 => "SufficientPods",
        None => "InsufficientPods",
    };
    let message = why.unwrap_or_default();
    let mut conditions = wanted.items_at(&["conditions"]).to_vec();
    let allows = DesiredCondition {
        condition_type: "DisruptionAllowed",
        status: allowed > 0,
        reason,
        message: &message,
    };
    condition::set(&mut conditions, &allows, now);
    let conditions =
        conditions.into_iter().map(|condition| condition.with(&["observedGeneration"], generation));
    let status = wanted.with(&["disruptionsAllowed"], allowed).with(&["conditions"], Tree::list(conditions));
    let status = if status.at(&["disruptedPods"]).is_some_and(Tree::is_empty) {
        status.without(&["disruptedPods"])
    } else {
        status
    };
    (status, again)
}

/// The disrupted pods that still exist, and when the first entry expires.
fn disrupted(budget: &Tree, pods: &[&ApiObject], now: Time) -> (BTreeMap<Text, Tree>, Option<Time>) {
    let live: BTreeSet<Text> = pods
        .iter()
        .filter(|pod| meta::deletion_timestamp(&pod.tree).is_none())
        .map(|pod| meta::name(&pod.tree))
        .collect();
    let promised = budget.entries_at(path::DISRUPTED).iter().filter(|(name, _)| live.contains(name));
    let mut first: Option<Time> = None;
    let mut still = BTreeMap::new();
    for (name, at) in promised {
        let end = Time(Time::of(Some(at)).unwrap_or_default().0 + DELETION_SECS * MICROS);
        if end >= now {
            still.insert(name.clone(), at.clone());
            first = Some(first.map_or(end, |first| first.min(end)));
        }
    }
    // One microsecond after the expiry the entry no longer counts.
    (still, first.map(|first| Time(first.0 + 1)))
}

/// How many pods there should be, and how many of them must be healthy.
fn expected(budget: &Tree, pods: &[&ApiObject], caches: &Caches) -> Result<(i64, i64), String> {
    if let Some(most) = budget.at(&["spec", "maxUnavailable"]) {
        let expected = scale(pods, caches)?;
        return Ok((expected, (expected - scaled(most, expected)).max(0)));
    }
    match budget.at(&["spec", "minAvailable"]) {
        Some(least) if least.as_int().is_some() => Ok((count(pods.len()), least.as_int().unwrap_or(0))),
        Some(least) => {
            let expected = scale(pods, caches)?;
            Ok((expected, scaled(least, expected)))
        }
        None => Ok((0, 0)),
    }
}

/// A number, or a percentage of `whole`, rounded up.
fn scaled(value: &Tree, whole: i64) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')).and_then(|n| n.parse::<i64>().ok());
    match percent {
        Some(percent) => {
            (percent.saturating_mul(whole)).div_euclid(100) + i64::from(percent * whole % 100 > 0)
        }
        None => value.as_int().unwrap_or(0),
    }
}

/// How many pods the controllers of these pods want, all together. A pod without a controller adds none.
fn scale(pods: &[&ApiObject], caches: &Caches) -> Result<i64, String> {
    let mut wanted: BTreeMap<Uid, i64> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = meta::owner_references(&pod.tree).find(|owner| owner.controller) else {
            continue;
        };
        if wanted.contains_key(&owner.uid) {
            continue;
        }
        let replicas = match owner.kind.as_str() {
            "ReplicaSet" | "StatefulSet" | "ReplicationController" | "Deployment" => {
                let found = caches.by_uid(&owner.uid);
                found.and_then(|(_, object)| object.tree.int_at(&["spec", "replicas"]))
            }
            _ => None,
        };
        let Some(replicas) = replicas else {
            let (kind, group) = (owner.kind.to_ascii_lowercase(), owner.group());
            let dot = if group.is_empty() { "" } else { "." };
            return Err(format!("{kind}s{dot}{group} does not implement the scale subresource"));
        };
        wanted.insert(owner.uid.clone(), replicas);
    }
    Ok(wanted.values().sum())
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use muster_api::client::WatchChange;

    use super::*;

    const NOW: Time = Time(1_000 * MICROS);

    fn pod(name: &str, ready: bool) -> Tree {
        tree!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "a"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": condition::status_text(ready)}]}})
    }

    fn budget(spec: &Tree, status: Tree) -> Tree {
        let spec = spec.with(&["selector", "matchLabels", "app"], "a");
        tree!({"metadata": {"name": "b", "namespace": "n", "uid": "b", "generation": 3}, "spec": spec, "status": status})
    }

    /// The status that is written for a budget over these pods, and when it is looked at again.
    fn written(budget: Tree, pods: &[Tree]) -> (Option<Tree>, Option<Time>) {
        let mut caches = Caches::default();
        let put = |caches: &mut Caches, kind: &Kind, tree: Tree| {
            caches.apply_watch_change(kind, WatchChange::Applied(ApiObject { tree, revision: 1 }));
        };
        put(&mut caches, &kinds::POD_DISRUPTION_BUDGETS, budget);
        for tree in pods {
            put(&mut caches, &kinds::PODS, tree.clone());
        }
        let key = ObjectKey::new(&kinds::POD_DISRUPTION_BUDGETS, &"n".into(), &"b".into());
        let plan = DisruptionController.reconcile(&key, &caches, NOW);
        let patch = plan.steps.into_iter().find_map(|step| match step {
            Step::Request(ApiRequest { verb: RequestVerb::MergePatch(patch), .. }) => {
                patch.get("status").cloned()
            }
            _ => None,
        });
        (patch, plan.requeue_at)
    }

    fn numbers(status: &Tree) -> [i64; 4] {
        ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
            .map(|key| status.int_at(&[key]).unwrap_or(-1))
    }

    #[test]
    fn healthy_pods_beyond_the_budget_may_go() {
        let three = [pod("p0", true), pod("p1", true), pod("p2", false)];
        for (spec, want, reason) in [
            (tree!({"minAvailable": 1}), [3, 1, 2, 1], "SufficientPods"),
            (tree!({"minAvailable": 2}), [3, 2, 2, 0], "InsufficientPods"),
            (tree!({"minAvailable": 5}), [3, 5, 2, 0], "InsufficientPods"),
        ] {
            let (status, _) = written(budget(&spec, tree!({})), &three);
            let status = status.expect("a status");
            assert_eq!(numbers(&status), want);
            assert_eq!(status.items_at(&["conditions"])[0].str_at(&["reason"]), reason);
            assert_eq!(status.int_at(&["observedGeneration"]), Some(3));
            let again = budget(&tree!({"minAvailable": want[1]}), status);
            assert_eq!(written(again, &three).0, None, "an unchanged status is not written again");
        }
    }

    #[test]
    fn a_budget_without_pods_allows_nothing() {
        let (status, _) = written(budget(&tree!({"minAvailable": 0}), tree!({})), &[]);
        assert_eq!(numbers(&status.expect("a status")), [0, 0, 0, 0]);
    }

    #[test]
    fn a_promised_pod_counts_as_gone_for_two_minutes() {
        let promised = |at: &str| tree!({"disruptedPods": {"p0": at, "gone": at}});
        let pods = [pod("p0", true), pod("p1", true)];
        let (status, again) =
            written(budget(&tree!({"minAvailable": 1}), promised("1970-01-01T00:15:00Z")), &pods);
        let status = status.expect("a status");
        assert_eq!(numbers(&status), [2, 1, 1, 0]);
        assert_eq!(status.at(&["disruptedPods", "gone"]), Some(&Tree::Null), "its promise was kept");
        assert_eq!(again, Some(Time(1_020 * MICROS + 1)));
        let (status, again) =
            written(budget(&tree!({"minAvailable": 1}), promised("1970-01-01T00:14:00Z")), &pods);
        assert_eq!((numbers(&status.expect("a status")), again), ([2, 1, 2, 1], None));
    }

    #[test]
    fn without_a_scale_a_share_cannot_be_counted() {
        let owner =
            tree!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]);
        let owned = pod("p0", true).with(meta_path::OWNERS, owner);
        let (status, _) = written(budget(&tree!({"maxUnavailable": 1}), tree!({})), &[owned]);
        let status = status.expect("a status");
        let condition = &status.items_at(&["conditions"])[0];
        assert_eq!(condition.str_at(&["reason"]), "SyncFailed");
        assert_eq!(condition.str_at(&["message"]), "jobs.batch does not implement the scale subresource");
        assert_eq!(status.int_at(&["disruptionsAllowed"]), Some(0));
    }

    #[test]
    fn shares_are_rounded_up() {
        for (value, whole, want) in [("50%", 3, 2), ("0%", 3, 0), ("100%", 3, 3), ("34%", 3, 2)] {
            assert_eq!(scaled(&Tree::from(value), whole), want, "{value} of {whole}");
        }
    }
}
