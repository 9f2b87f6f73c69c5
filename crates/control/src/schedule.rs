//! Runs the scheduler: feeds it, asks it, and turns its decisions into bindings, conditions and evictions.
//!
//! One key stands for "decide": it never calls anybody, it only wakes the keys of the pods decided about. Those
//! carry out their decisions side by side. The pods of a gang have one key together, under which they are bound, and
//! their group has one under which its status is written.

mod binding;
mod devices;
mod groups;
mod numbers;
mod steps;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::Event;
use muster_api::gang::{Form, Origin, Reads};
use muster_api::node::NodeFacts;
use muster_api::paths::{condition as condition_path, meta as meta_path, pod as path};
use muster_api::pod::Phase;
use muster_api::port::{Call, Kind, Object, Part, Refusal, Uid};
use muster_api::time::Time;
use muster_api::words::{conditions, managers, reasons};
use muster_api::{condition, kinds, meta};
use muster_scheduler::{
    Budget, Decision, Errand, GroupKey, GroupOutcome, GroupVerdict, Outcome, PodKey, Scheduler, read_labels,
};
use muster_tree::Text;

pub use muster_scheduler::Packing;

use crate::cache::{Caches, Seen};
use crate::counters::Counters;
use crate::plan::{Controller, Key, Plan, Wake};
use binding::Bindings;
use groups::Groups;

/// Groups decided in one go.
const DECISIONS_PER_TURN_MAX: usize = 256;

/// How long a placed pod waits for its volumes and devices before it is decided about again.
const ERRANDS_TIMEOUT: Duration = Duration::from_secs(600);

/// The scheduler as a controller.
#[derive(Debug)]
pub struct Schedule {
    /// The scheduler names of the pods that are its own.
    names: Vec<&'static str>,
    scheduler: Scheduler,
    /// Decided, not yet seen carried out.
    open: BTreeMap<PodKey, Open>,
    /// Gangs.
    groups: Groups,
    bindings: Bindings,
    /// Whether calls that are sent together happen all or none.
    all_or_none: bool,
    /// Pods that named another group in vain, and have to hear it.
    moved: BTreeSet<PodKey>,
    /// The latest time we were told.
    now: Time,
    numbers: numbers::Numbers,
}

#[derive(Debug)]
enum Open {
    Bind {
        node: Text,
        /// When it was decided.
        since: Time,
        /// Whether a binding was sent whose reply told nothing: it may have happened.
        unheard: bool,
    },
    Explain {
        reason: &'static str,
        message: String,
        nominated: Text,
        /// When that was so; it is no event and may pass: nothing was tried.
        held: Option<Time>,
    },
    EndNomination,
    Evict {
        victim: Uid,
        by: Text,
        /// What the victim is told.
        told: String,
    },
}

impl Default for Schedule {
    /// The only scheduler there is.
    fn default() -> Schedule {
        Schedule::of(vec![managers::SCHEDULER.as_str(), managers::MUSTER_SCHEDULER.as_str(), ""])
    }
}

impl Controller for Schedule {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn kinds(&self) -> Vec<Kind> {
        let own = [&kinds::PODS, &kinds::NODES, &kinds::NAMESPACES, &kinds::BUDGETS].map(Clone::clone);
        own.into_iter().chain(volumes::kinds()).chain(devices::kinds()).chain(self.groups.kinds()).collect()
    }

    fn kinds_if_served(&self) -> Vec<Kind> {
        self.groups.kinds_if_served()
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let mut keys: Vec<Wake> = Vec::new();
        if seen.key.kind == kinds::PODS {
            keys.extend(self.hear_pod(seen, caches));
            self.numbers.hear(seen, self.now);
            let name = (seen.key.namespace.clone(), seen.key.name.clone());
            let told = self.open.contains_key(&name) || self.moved.contains(&name);
            if told || seen.after.is_some_and(is_newly_gated) {
                keys.push(seen.key.clone().into());
            }
            keys.extend(self.bindings.group_of(&name).map(|group| binding::key_of(group).into()));
        } else {
            self.hear(seen);
            keys.extend(self.groups.hear(&mut self.scheduler, seen, &self.names, caches));
            let mut pods = volumes::hear(&mut self.scheduler, seen, caches);
            pods.extend(devices::hear(&mut self.scheduler, seen, caches));
            keys.extend(pods.into_iter().map(|pod| self.key_of(pod).into()));
        }
        if self.scheduler.has_waiting() {
            keys.push(decide_key().into());
        }
        keys
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        self.now = now;
        if *key == decide_key() {
            return self.decide(caches, now);
        }
        let mut plan = if let Some(group) = binding::group_of(key) {
            self.bind_group(&group, caches, now)
        } else if Origin::of(&key.kind).is_some() {
            self.groups.say(key, &self.scheduler, caches, now)
        } else {
            self.carry_out(key, caches, now)
        };
        // Somebody may have to be decided about again, now or later.
        if self.scheduler.has_waiting() || self.scheduler.wake_at().is_some() {
            plan.wake.push(decide_key());
        }
        plan
    }

    fn tell(&self, counters: &mut Counters) {
        counters.scheduling = self.numbers.tell(self.scheduler.queue_lengths(), self.groups.numbers());
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        devices::refused(&mut self.scheduler, call, why);
        if let Some(group) = binding::group_of(key) {
            self.refused_group(&group, call, why);
            return None;
        }
        // A group may have the name of a pod.
        if key.kind != kinds::PODS {
            return None;
        }
        let name = (key.namespace.clone(), key.name.clone());
        // A lost reply may still have done it; who was overtaken or told to wait looks again.
        if matches!(why, Refusal::Unknown(_) | Refusal::Conflict(_) | Refusal::Busy { .. }) {
            if let Some(Open::Bind { unheard, .. }) = self.open.get_mut(&name) {
                *unheard |= call.on.part == Part::Binding;
            }
            return None;
        }
        match self.open.get(&name) {
            // Whoever cannot be bound as decided is decided about again.
            Some(Open::Bind { .. }) => {
                self.open.remove(&name);
                self.numbers.failed(
                    caches.find(key).map_or_else(|| managers::SCHEDULER.clone(), steps::scheduler_of),
                );
                self.scheduler.retry(&name, self.now);
            }
            Some(Open::Evict { .. }) => {
                self.open.remove(&name);
                self.scheduler.spared(&name, self.now);
            }
            _ => {}
        }
        None
    }
}

impl Schedule {
    /// One beside the scheduler that a cluster has: it leaves that one's pods alone. How gangs are spelled there has to
    /// be found out; until then there are none.
    #[must_use]
    pub fn beside_another() -> Schedule {
        let ours = Schedule::of(vec![managers::MUSTER_SCHEDULER.as_str()]);
        Schedule { all_or_none: false, ..ours.gangs(Form::default(), Reads::NONE) }
    }

    /// The same, where gangs are spelled so and these marks of pods count; the others leave pods alone.
    #[must_use]
    pub fn gangs(self, form: Form, reads: Reads) -> Schedule {
        Schedule { groups: Groups::new(form, reads), ..self }
    }

    /// The same, filling nodes up by these resources.
    #[must_use]
    pub fn packing(self, packing: Packing) -> Schedule {
        Schedule { scheduler: Scheduler::packing(packing), ..self }
    }

    fn of(names: Vec<&'static str>) -> Schedule {
        Schedule {
            names,
            scheduler: Scheduler::default(),
            open: BTreeMap::new(),
            groups: Groups::default(),
            bindings: Bindings::default(),
            all_or_none: true,
            moved: BTreeSet::new(),
            now: Time::default(),
            numbers: numbers::Numbers::default(),
        }
    }

    fn hear(&mut self, seen: &Seen<'_>) {
        let name = &seen.key.name;
        match (&seen.key.kind, seen.after) {
            (kind, Some(node)) if *kind == kinds::NODES => self.scheduler.node(NodeFacts::of(&node.tree)),
            (kind, None) if *kind == kinds::NODES => self.scheduler.node_gone(name),
            (kind, after) if *kind == kinds::NAMESPACES => {
                let labels =
                    after.map(|it| read_labels(it.tree.entries_at(meta_path::LABELS))).unwrap_or_default();
                self.scheduler.namespace(name, &labels);
            }
            (kind, after) if *kind == kinds::BUDGETS => {
                let key = (seen.key.namespace.clone(), name.clone());
                match after {
                    Some(budget) => self.scheduler.budget(&key, Budget::of(&budget.tree)),
                    None => self.scheduler.budget_gone(&key),
                }
            }
            _ => {}
        }
    }

    fn hear_pod(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let name = (seen.key.namespace.clone(), seen.key.name.clone());
        let Some(pod) = seen.after else {
            self.scheduler.pod_gone(&name);
            self.moved.remove(&name);
            return self.groups.take_in(&mut self.scheduler, seen, &self.names, caches).0;
        };
        let change = change(seen.before, pod);
        match change {
            Change::Nothing => return Vec::new(),
            Change::Started => {
                self.scheduler.started(&name, Time::of(pod.tree.at(path::START_TIME)));
                return Vec::new();
            }
            Change::Bound | Change::Other => {}
        }
        // A namesake may belong elsewhere.
        if seen.before.is_some_and(|before| meta::uid(&before.tree) != meta::uid(&pod.tree)) {
            self.scheduler.pod_gone(&name);
        }
        let (wakes, moved) = self.groups.take_in(&mut self.scheduler, seen, &self.names, caches);
        if moved {
            self.moved.insert(name.clone());
        }
        let confirmed = matches!(change, Change::Bound)
            && self.scheduler.confirm(&name, &pod.tree.text_at(path::NODE_NAME));
        if !confirmed {
            self.scheduler.pod(&self.groups.read_pod(pod, &self.names));
        }
        wakes
    }

    /// The key under which something is done for a pod: its own, or that of those it is bound with.
    fn key_of(&self, pod: Key) -> Key {
        let name = (pod.namespace.clone(), pod.name.clone());
        self.bindings.group_of(&name).map_or(pod, binding::key_of)
    }

    fn decide(&mut self, caches: &Caches, now: Time) -> Plan {
        let mut plan = Plan::nothing();
        for decision in self.scheduler.decide(DECISIONS_PER_TURN_MAX, now) {
            self.numbers.decided(&decision, caches, now);
            let opened = match decision.outcome {
                Outcome::Group(it) => {
                    plan.wake.extend(self.open_group(&decision.group, &it, caches, now));
                    self.opened_by_group(&decision.group, *it, caches, now)
                }
                outcome => {
                    plan.wake.extend(self.evicted_for_one(&outcome, caches));
                    opened(Decision { outcome, ..decision }, caches, now)
                }
            };
            for (pod, open) in opened {
                plan.wake.push(Key::new(&kinds::PODS, &pod.0, &pod.1));
                self.open_up(pod, open);
            }
        }
        if self.scheduler.has_waiting() {
            return plan.again(now);
        }
        match self.scheduler.wake_at() {
            Some(at) => plan.again(at),
            None => plan,
        }
    }

    /// Groups that make room for a pod as a whole say so.
    fn evicted_for_one(&mut self, outcome: &Outcome, caches: &Caches) -> Vec<Key> {
        let Outcome::Refused { pods, evict, .. } = outcome else { return Vec::new() };
        if evict.is_empty() {
            return Vec::new();
        }
        let pod = pods.first().and_then(|(namespace, name)| caches.get(&kinds::PODS, namespace, name));
        self.groups.evicted(evict, &pod.map(steps::scheduler_of).unwrap_or_default())
    }

    /// Takes down what was decided about a gang: who is bound, and what is said of it. The keys to look at.
    fn open_group(
        &mut self,
        group: &GroupKey,
        outcome: &GroupOutcome,
        caches: &Caches,
        now: Time,
    ) -> Vec<Key> {
        let counts = self.scheduler.group_counts(group);
        let mut keys = self.groups.decided(group, outcome, counts);
        if !outcome.placed.is_empty() {
            // What was to be said of them is not true any more.
            outcome.placed.iter().for_each(|(pod, _)| {
                self.open.remove(pod);
            });
            self.bindings.open(group, &outcome.placed, caches, now);
        }
        // There are more to bind, or none any more.
        if self.bindings.is_open(group) {
            keys.push(binding::key_of(group));
        }
        keys
    }

    /// What a decision about a gang asks to be done to single pods.
    fn opened_by_group(
        &self,
        group: &GroupKey,
        outcome: GroupOutcome,
        caches: &Caches,
        now: Time,
    ) -> Vec<(PodKey, Open)> {
        let find = |name: &PodKey| caches.find(&Key::new(&kinds::PODS, &name.0, &name.1));
        let held = matches!(outcome.verdict, GroupVerdict::Held(_)).then_some(now);
        let gated = |name: &PodKey| find(name).is_some_and(|it| !it.tree.items_at(path::GATES).is_empty());
        // Whoever has gates of its own is told of those.
        let refused = outcome.refused.into_iter().filter(|it| !gated(&it.pod)).map(|it| {
            let nominated = it.nominated.unwrap_or_default();
            (it.pod, Open::Explain { reason: it.reason, message: it.message, nominated, held })
        });
        let by = self.groups.scheduler_of(group);
        let uid = self.groups.uid_of(group);
        let victims = outcome.evict.into_iter().filter_map(|name| {
            let pod = find(&name)?;
            let told = format!("Preempted by pod group {uid} on node {}", pod.tree.str_at(path::NODE_NAME));
            Some((name, Open::Evict { victim: meta::uid(&pod.tree), by: by.clone(), told }))
        });
        let outranked = outcome.outranked.into_iter().map(|pod| (pod, Open::EndNomination));
        refused.chain(outranked).chain(victims).collect()
    }

    fn bind_group(&mut self, group: &GroupKey, caches: &Caches, now: Time) -> Plan {
        let enough = self.groups.enough(group);
        let looked = self.bindings.look(group, enough, &mut self.scheduler, caches, now);
        looked.bound.iter().for_each(|since| self.groups.bound(*since, now));
        if looked.given_back {
            self.numbers.failed(self.groups.scheduler_of(group));
        }
        looked.plan
    }

    fn refused_group(&mut self, group: &GroupKey, call: &Call, why: &Refusal) {
        let enough = self.groups.enough(group);
        let (how, now) = (self.all_or_none, self.now);
        if self.bindings.refused(group, enough, (call, why), how, &mut self.scheduler, now) {
            self.numbers.failed(self.groups.scheduler_of(group));
        }
    }

    /// Takes down what is to be done about a pod. One that is refused and outranked in one go still has to hear why.
    fn open_up(&mut self, pod: PodKey, open: Open) {
        if let (Open::EndNomination, Some(Open::Explain { nominated, .. })) = (&open, self.open.get_mut(&pod))
        {
            *nominated = Text::new();
            return;
        }
        self.open.insert(pod, open);
    }

    fn carry_out(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let name = (key.namespace.clone(), key.name.clone());
        let Some(pod) = caches.find(key) else {
            self.open.remove(&name);
            return Plan::of(devices::make_sure(&self.scheduler, caches));
        };
        if self.moved.remove(&name) {
            let mut plan = self.carry_out(key, caches, now);
            plan.steps.insert(0, steps::change_ignored(pod));
            return plan;
        }
        if is_newly_gated(pod) {
            return steps::gate(pod, now);
        }
        let placed = !pod.tree.str_at(path::NODE_NAME).is_empty();
        let deleting = meta::deleting(&pod.tree).is_some();
        let plan = match self.open.get(&name) {
            // A namesake of the victim has not been asked to make room.
            Some(Open::Evict { victim, by, told }) if !deleting && *victim == meta::uid(&pod.tree) => {
                steps::evict(pod, by, told, now)
            }
            // The binding had happened: what was to be told then is told now.
            Some(Open::Bind { node, unheard: true, .. }) if pod.tree.str_at(path::NODE_NAME) == node => {
                let told = steps::bound(pod, node);
                self.open.remove(&name);
                return Plan::of(vec![told]);
            }
            _ if placed => Plan::nothing(),
            Some(Open::Bind { node, since, .. }) if self.scheduler.node_of(&name) == Some(node) => {
                let until = *since + ERRANDS_TIMEOUT;
                match errands(&mut self.scheduler, &name, pod, caches, now) {
                    Ready::Now => steps::bind(pod, node),
                    Ready::After(plan) if now < until => return plan.again(until),
                    Ready::After(_) | Ready::Never => {
                        self.scheduler.retry(&name, now);
                        Plan::nothing()
                    }
                }
            }
            Some(Open::Explain { held: Some(since), .. }) if now < *since + groups::PATIENCE => {
                return Plan::nothing().again(*since + groups::PATIENCE);
            }
            Some(Open::Explain { reason, message, nominated, held }) => {
                let mut plan = steps::explain(pod, reason, message, nominated, held.is_some(), now);
                plan.steps.extend(devices::give_back(&self.scheduler, pod, caches));
                plan
            }
            Some(Open::EndNomination) => steps::end_nomination(pod),
            _ => Plan::nothing(),
        };
        if plan.steps.is_empty() {
            self.open.remove(&name);
        }
        plan
    }
}

/// Whether a pod may be bound.
#[derive(Debug, PartialEq, Eq)]
enum Ready {
    Now,
    /// When this is done, and what it waits for has come: a change of what it waits for wakes the pod.
    After(Plan),
    /// What was decided cannot be had: it is decided anew.
    Never,
}

/// What is to be done before a pod may be bound.
fn errands(scheduler: &mut Scheduler, name: &PodKey, pod: &Object, caches: &Caches, now: Time) -> Ready {
    for errand in scheduler.errands(name) {
        let ready = match errand {
            Errand::Volume(errand) => volumes::run(pod, &errand, caches, now),
            Errand::Device(errand) => devices::run(scheduler, pod, &errand, caches, now),
        };
        if ready != Ready::Now {
            return ready;
        }
    }
    Ready::Now
}

/// The key that stands for deciding: no pod has an empty name.
fn decide_key() -> Key {
    Key::new(&kinds::PODS, &Text::new(), &Text::new())
}

/// What a decision asks to be done to which pods.
fn opened(decision: Decision, caches: &Caches, now: Time) -> Vec<(PodKey, Open)> {
    let (pods, why, evict, nominated, outranked) = match decision.outcome {
        Outcome::Placed(pods) => {
            let open = |(pod, node)| (pod, Open::Bind { node, since: now, unheard: false });
            return pods.into_iter().map(open).collect();
        }
        Outcome::Refused { pods, why, evict, nominated, outranked } => {
            (pods, why, evict, nominated.unwrap_or_default(), outranked)
        }
        // What concerns several pods is taken down as one.
        Outcome::Group(_) => return Vec::new(),
    };
    let (reason, message) = (why.reason(), why.message());
    let find = |name: &PodKey| caches.find(&Key::new(&kinds::PODS, &name.0, &name.1));
    let uid_of = |name: &PodKey| find(name).map(|it| meta::uid(&it.tree));
    let for_uid = pods.first().and_then(uid_of).unwrap_or_default();
    let by = pods.first().and_then(find).map(steps::scheduler_of).unwrap_or_default();
    let explain = |pod| {
        let (message, nominated) = (message.clone(), nominated.clone());
        (pod, Open::Explain { reason, message, nominated, held: None })
    };
    let make_room = |pod| {
        let victim = uid_of(&pod).unwrap_or_default();
        let told = format!("Preempted by pod {for_uid} on node {nominated}");
        (pod, Open::Evict { victim, by: by.clone(), told })
    };
    let mut all: Vec<(PodKey, Open)> = pods.into_iter().map(explain).collect();
    all.extend(outranked.into_iter().map(|pod| (pod, Open::EndNomination)));
    all.extend(evict.into_iter().map(make_room));
    all
}

/// What a change of a pod means for placement; most changes of the status mean nothing.
enum Change {
    Nothing,
    /// It began to run.
    Started,
    /// It got its node.
    Bound,
    Other,
}

fn change(before: Option<&Object>, after: &Object) -> Change {
    let Some(before) = before else { return Change::Other };
    let same = |at: &[&str]| before.tree.at(at) == after.tree.at(at);
    let ended = |object: &Object| Phase::of(object.tree.str_at(path::PHASE)).ended();
    if ended(before) != ended(after)
        || !same(&["metadata"])
        || !same(path::NOMINATED)
        || !same(path::MADE_CLAIMS)
    {
        Change::Other
    } else if same(&["spec"]) {
        if same(path::START_TIME) { Change::Nothing } else { Change::Started }
    } else if before.tree.without(path::NODE_NAME).at(&["spec"])
        == after.tree.without(path::NODE_NAME).at(&["spec"])
    {
        Change::Bound
    } else {
        Change::Other
    }
}

/// Gated, and its condition does not say so yet.
fn is_newly_gated(pod: &Object) -> bool {
    let scheduled = condition::find(pod.tree.items_at(path::CONDITIONS), conditions::POD_SCHEDULED);
    let said = scheduled.is_some_and(|c| c.str_at(condition_path::REASON) == reasons::SCHEDULING_GATED);
    !pod.tree.items_at(path::GATES).is_empty() && !said && meta::deleting(&pod.tree).is_none()
}
