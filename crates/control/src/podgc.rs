//! The pod garbage collector: pods that no node will ever finish.
//!
//! - A pod whose node is gone for [`QUARANTINE`] is marked as failed, so that whoever counts it can, and deleted.
//! - A deleted pod that never had a node is ended after [`PATIENCE`]: no kubelet will do it.
//! - Of pods that have ended, only the newest [`ENDED_MAX`] are kept.
//!
//! # Invariants
//!
//! - A pod that has ended keeps its phase.
//! - Deletes name the UID.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::condition::Wanted;
use muster_api::paths::pod as path;
use muster_api::pod::{self, Phase};
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part};
use muster_api::time::Time;
use muster_api::words::{conditions, managers, reasons};
use muster_api::{kinds, meta};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// How long a node may be missing before its pods are given up.
pub const QUARANTINE: Duration = Duration::from_secs(40);
/// How long a deleted pod without a node is left to those who hold it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How many ended pods are kept.
pub const ENDED_MAX: usize = 12_500;

/// The pod garbage collector.
#[derive(Debug, Default)]
pub struct PodGc {
    /// Ended pods, oldest first.
    ended: BTreeSet<(Time, Key)>,
}

impl Controller for PodGc {
    fn name(&self) -> &'static str {
        "podgc"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::PODS.clone(), kinds::NODES.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::NODES {
            let orphans = caches.on_node(&seen.key.name).filter(|_| seen.after.is_none());
            let later = |pod: &Object| Wake { key: Key::of(&kinds::PODS, &pod.tree), after: QUARANTINE };
            return orphans.map(later).collect();
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let mut wakes = self.surplus(seen);
        match seen.after.map(|pod| need(pod, caches)) {
            Some(Need::Nothing) | None => {}
            Some(Need::End) => wakes.push(Wake { key: seen.key.clone(), after: PATIENCE }),
            // Nodes may come to the caches after their pods; and a node that was just made may be on its way.
            Some(Need::GiveUp) => wakes.push(Wake { key: seen.key.clone(), after: QUARANTINE }),
        }
        wakes
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let Some(pod) = caches.find(key) else {
            return Plan::nothing();
        };
        match need(pod, caches) {
            Need::End => match meta::deleting(&pod.tree).map(|at| at + PATIENCE) {
                Some(due) if due > now => Plan::nothing().again(due),
                _ => end(key, pod, None, now),
            },
            Need::GiveUp => end(key, pod, Some("PodGC: node no longer exists"), now),
            Need::Nothing if self.is_surplus(pod, key) => end(key, pod, None, now),
            Need::Nothing => Plan::nothing(),
        }
    }
}

impl PodGc {
    /// Keeps the list of ended pods and names the oldest one when there are too many.
    fn surplus(&mut self, seen: &Seen<'_>) -> Vec<Wake> {
        let entry = |pod: &Object| (meta::created(&pod.tree).unwrap_or_default(), seen.key.clone());
        if let Some(before) = seen.before {
            self.ended.remove(&entry(before));
        }
        if let Some(after) = seen.after.filter(|pod| phase(pod).ended()) {
            self.ended.insert(entry(after));
        }
        let over = self.ended.len().saturating_sub(ENDED_MAX);
        self.ended.iter().take(over).map(|(_, key)| key.clone().into()).collect()
    }

    fn is_surplus(&self, pod: &Object, key: &Key) -> bool {
        let over = self.ended.len().saturating_sub(ENDED_MAX);
        let entry = (meta::created(&pod.tree).unwrap_or_default(), key.clone());
        meta::deleting(&pod.tree).is_none() && self.ended.iter().take(over).any(|it| *it == entry)
    }
}

/// What a pod needs.
enum Need {
    Nothing,
    /// It is deleted and has no node.
    End,
    /// Its node is not there.
    GiveUp,
}

fn need(pod: &Object, caches: &Caches) -> Need {
    let node = pod.tree.text_at(path::NODE_NAME);
    let released = meta::deleting(&pod.tree).is_some() && meta::grace_secs(&pod.tree) == 0;
    match node.is_empty() {
        // It waits for its finalizers only.
        _ if released && phase(pod).ended() => Need::Nothing,
        true if meta::deleting(&pod.tree).is_some() => Need::End,
        false if caches.get(&kinds::NODES, &Text::new(), &node).is_none() => Need::GiveUp,
        _ => Need::Nothing,
    }
}

fn phase(pod: &Object) -> Phase {
    Phase::of(pod.tree.str_at(path::PHASE))
}

/// Marks the pod as failed, unless it has ended, and deletes it without grace.
fn end(key: &Key, pod: &Object, message: Option<&str>, now: Time) -> Plan {
    let call = |part, revision, act| Call {
        by: managers::POD_GC.clone(),
        on: key.target(part),
        guard: Guard { uid: Some(meta::uid(&pod.tree)), revision },
        act,
    };
    let mut steps = Vec::new();
    if !phase(pod).ended() {
        // Had its node ended it meanwhile, it would end twice.
        let patch = Act::Strategic(failed(&pod.tree, message, now));
        steps.push(Step::One(call(Part::Status, Some(pod.revision), patch)));
    }
    let delete = Act::Delete { cascade: Cascade::Background, grace_secs: Some(0) };
    steps.push(Step::One(call(Part::Main, None, delete)));
    Plan::of(steps)
}

fn failed(pod: &Tree, message: Option<&str>, now: Time) -> Tree {
    let phase = Tree::Null.with(path::PHASE, Phase::Failed.word());
    let Some(message) = message else {
        return phase;
    };
    let wanted = Wanted {
        kind: conditions::DISRUPTION_TARGET,
        holds: true,
        reason: reasons::DELETION_BY_POD_GC,
        message,
    };
    phase.merge(&pod::condition_patch(pod, &wanted, now))
}
