//! Runs the scheduler: feeds it, asks it, and turns its decisions into bindings and conditions.
//!
//! One key stands for "decide": it never calls anybody, it only wakes the keys of the pods decided about. Those
//! carry out their decisions side by side.

use std::collections::BTreeMap;

use muster_api::condition::{self, Wanted};
use muster_api::event::{About, Event, Severity};
use muster_api::node::NodeFacts;
use muster_api::paths::{condition as condition_path, pod as path};
use muster_api::pod::{self, Phase};
use muster_api::port::{Act, Call, Guard, Kind, Object, Part, Refusal};
use muster_api::time::Time;
use muster_api::words::{conditions, managers, reasons};
use muster_api::{kinds, meta};
use muster_scheduler::first::{Demand, Outcome, Pod, PodKey, Scheduler};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// Groups decided in one go.
const DECISIONS_PER_TURN_MAX: usize = 256;

/// The scheduler as a controller.
#[derive(Debug, Default)]
pub struct Schedule {
    scheduler: Scheduler,
    /// Decided, not yet seen carried out.
    open: BTreeMap<PodKey, Open>,
}

#[derive(Debug)]
enum Open {
    Bind(Text),
    Explain(String),
}

impl Controller for Schedule {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::PODS.clone(), kinds::NODES.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let mut keys = Vec::new();
        if seen.key.kind == kinds::NODES {
            match seen.after {
                Some(node) => self.scheduler.node(NodeFacts::of(&node.tree)),
                None => self.scheduler.node_gone(&seen.key.name),
            }
        } else if seen.key.kind == kinds::PODS {
            let name = (seen.key.namespace.clone(), seen.key.name.clone());
            match seen.after {
                Some(pod) if matters(seen.before, pod) => self.scheduler.pod(&picture(&pod.tree)),
                Some(_) => {}
                None => self.scheduler.pod_gone(&name),
            }
            if self.open.contains_key(&name) || seen.after.is_some_and(is_newly_gated) {
                keys.push(seen.key.clone().into());
            }
        }
        if self.scheduler.has_waiting() {
            keys.push(decide_key().into());
        }
        keys
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        if *key == decide_key() {
            return self.decide(now);
        }
        let name = (key.namespace.clone(), key.name.clone());
        let Some(pod) = caches.find(key) else {
            self.open.remove(&name);
            return Plan::nothing();
        };
        if is_newly_gated(pod) {
            return explain(pod, reasons::SCHEDULING_GATED, GATED, now, false);
        }
        match self.open.get(&name) {
            _ if !pod.tree.str_at(path::NODE_NAME).is_empty() => {
                self.open.remove(&name);
                Plan::nothing()
            }
            Some(Open::Bind(node)) if self.scheduler.node_of(&name) == Some(node) => bind(pod, node),
            Some(Open::Explain(message)) => {
                let plan = explain(pod, reasons::UNSCHEDULABLE, message, now, true);
                if plan.steps.is_empty() {
                    self.open.remove(&name);
                }
                plan
            }
            _ => {
                self.open.remove(&name);
                Plan::nothing()
            }
        }
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, _caches: &Caches) -> Option<Event> {
        let name = (key.namespace.clone(), key.name.clone());
        // Whoever cannot be bound as decided is decided about again; a lost reply may still have done it.
        if call.on.part == Part::Binding && !matches!(why, Refusal::Unknown(_) | Refusal::Conflict(_)) {
            self.open.remove(&name);
            self.scheduler.retry(&name);
        }
        None
    }
}

const GATED: &str = "Scheduling is blocked due to non-empty scheduling gates";

impl Schedule {
    fn decide(&mut self, now: Time) -> Plan {
        let mut plan = Plan::nothing();
        for decision in self.scheduler.decide(DECISIONS_PER_TURN_MAX) {
            let open = match decision.outcome {
                Outcome::Placed(pods) => {
                    pods.into_iter().map(|(pod, node)| (pod, Open::Bind(node))).collect()
                }
                Outcome::Refused(refused) => vec![(decision.group, Open::Explain(refused.message()))],
            };
            for (pod, open) in open {
                plan.wake.push(Key::new(&kinds::PODS, &pod.0, &pod.1));
                self.open.insert(pod, open);
            }
        }
        if self.scheduler.has_waiting() { plan.again(now) } else { plan }
    }
}

/// The key that stands for deciding: no pod has an empty name.
fn decide_key() -> Key {
    Key::new(&kinds::PODS, &Text::new(), &Text::new())
}

/// Whether a change of a pod can change a decision; most changes of the status cannot.
fn matters(before: Option<&Object>, after: &Object) -> bool {
    let Some(before) = before else { return true };
    let same = |key| before.tree.get(key) == after.tree.get(key);
    let ended = |object: &Object| Phase::of(object.tree.str_at(path::PHASE)).ended();
    !same("spec") || !same("metadata") || ended(before) != ended(after)
}

fn picture(tree: &Tree) -> Pod {
    let ours = [managers::SCHEDULER.as_str(), ""].contains(&tree.str_at(path::SCHEDULER));
    let gated = !tree.items_at(path::GATES).is_empty();
    Pod {
        key: (meta::namespace(tree), meta::name(tree)),
        node: tree.text_at(path::NODE_NAME),
        ended: Phase::of(tree.str_at(path::PHASE)).ended(),
        wants: ours && !gated && meta::deleting(tree).is_none(),
        priority: tree.int_at(path::PRIORITY).unwrap_or(0),
        created: meta::created(tree).unwrap_or_default(),
        demand: Demand::of(tree),
    }
}

/// Gated, and its condition does not say so yet.
fn is_newly_gated(pod: &Object) -> bool {
    let scheduled = condition::find(pod.tree.items_at(path::CONDITIONS), conditions::POD_SCHEDULED);
    let said = scheduled.is_some_and(|c| c.str_at(condition_path::REASON) == reasons::SCHEDULING_GATED);
    !pod.tree.items_at(path::GATES).is_empty() && !said && meta::deleting(&pod.tree).is_none()
}

fn bind(pod: &Object, node: &Text) -> Plan {
    let (namespace, name, uid) = (meta::namespace(&pod.tree), meta::name(&pod.tree), meta::uid(&pod.tree));
    let message = format!("Successfully assigned {namespace}/{name} to {node}");
    let call = Call {
        by: managers::SCHEDULER.clone(),
        on: meta::target(&kinds::PODS, &pod.tree, Part::Binding),
        act: Act::Create(pod::binding(&namespace, &name, &uid, node)),
        guard: Guard { uid: Some(uid), revision: None },
    };
    Plan::of(vec![Step::One(call), Step::Note(note(pod, Severity::Normal, reasons::SCHEDULED, message))])
}

/// Says in the pod's condition why it has no node, unless it says so already.
fn explain(pod: &Object, reason: &str, message: &str, now: Time, noted: bool) -> Plan {
    let wanted = Wanted { kind: conditions::POD_SCHEDULED, holds: false, reason, message };
    let mut all = pod.tree.items_at(path::CONDITIONS).to_vec();
    if !condition::set(&mut all, &wanted, now) {
        return Plan::nothing();
    }
    let set =
        condition::find(&all, conditions::POD_SCHEDULED).and_then(|c| Time::of(c.at(condition_path::SINCE)));
    let call = Call {
        by: managers::SCHEDULER.clone(),
        on: meta::target(&kinds::PODS, &pod.tree, Part::Status),
        guard: Guard { uid: Some(meta::uid(&pod.tree)), revision: None },
        act: Act::Strategic(pod::condition_patch(&wanted, set.unwrap_or(now))),
    };
    let mut steps = vec![Step::One(call)];
    if noted {
        steps.push(Step::Note(note(pod, Severity::Warning, reasons::FAILED_SCHEDULING, message.to_owned())));
    }
    Plan::of(steps)
}

fn note(pod: &Object, severity: Severity, reason: &str, message: String) -> Event {
    let about = About::of(&kinds::PODS, "Pod", &pod.tree);
    Event { by: managers::SCHEDULER.clone(), about, severity, reason: reason.into(), message: message.into() }
}
