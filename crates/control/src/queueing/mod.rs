//! Runs the queues: feeds the engine, asks it, and turns its decisions, the life of Workloads and the needs of jobs into
//! calls.
//!
//! One key stands for "decide": it never calls anybody, it only wakes the keys of the Workloads decided about. A Workload
//! has one key under which everything of it that admission owns is written, a job one under which it is started and
//! stopped, a queue one for its status.
//!
//! # Invariants
//!
//! - What is kept here can be lost: the engine is fed anew from the caches, and every decision is written to the Workload
//!   over the revision it was made for.
//! - Quota that was decided stays taken in the engine until the write is seen, or refused.

mod answers;
mod calls;
mod classes;
mod dependents;
pub mod desk;
mod feed;
mod gangs;
mod jobs;
mod numbers;
mod pods;
mod queues;
#[cfg(test)]
mod tests;
mod trainjobs;
mod unadmitted;
mod unmade;
mod workloads;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::event::Event;
use muster_api::gang_make::{self, Gangs};
use muster_api::kinds::{
    CONFIG_MAPS, JOBS, JOBSETS, LIMIT_RANGES, NAMESPACES, PODS, PRIORITY_CLASSES, RUNTIME_CLASSES,
};
use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::port::{Act, Call, Kind, Refusal, Uid};
use muster_api::queue::kinds;
use muster_api::queue::{CohortFacts, FlavorFacts, LocalQueueFacts, WorkloadFacts};
use muster_api::selector::Selector;
use muster_api::time::Time;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_queue::engine::Engine;
use muster_queue::engine::Outcome;
use muster_queue::engine::decision::{Admission, Decision, Refusal as Refused};
use muster_queue::engine::preempt::Because;
use muster_queue::engine::spec::Settings as EngineSettings;
use muster_queue::engine::workload::Key as WorkloadKey;
use muster_queue::jobs::ancestors::Managed;
use muster_queue::jobs::plan::Settings as JobSettings;
use muster_queue::jobs::requests::{Accounting, Around};
use muster_queue::life::cohorts::Parents;
use muster_queue::life::settings::Settings as LifeSettings;
use muster_queue::life::told::Told;
use muster_queue::life::turns::Turns;
use muster_queue::pods::plan::Settings as PodSettings;
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::counters::Counters;
use crate::plan::{Controller, Doorbell, Key, Plan, Wake};

use desk::Desk;
pub use numbers::{Live, Stopwatch};

/// What is configured.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Of the engine.
    pub engine: EngineSettings,
    /// Of the life of Workloads.
    pub life: LifeSettings,
    /// Of jobs.
    pub jobs: JobSettings,
    /// Of plain pods.
    pub pods: PodSettings,
    /// Which kinds are managed.
    pub managed: Managed,
    /// What counts how.
    pub accounting: Accounting,
    /// The namespaces whose jobs are managed.
    pub namespaces: Selector,
    /// Tells how long the engine takes.
    pub stopwatch: Stopwatch,
    /// Where questions are asked.
    pub desk: Desk,
}

/// Queueing as a controller.
#[derive(Debug)]
pub struct Queueing {
    settings: Settings,
    /// How gangs are written; `None` where there are none.
    gangs: Option<Gangs>,
    engine: Engine,
    /// Decided, not yet seen carried out.
    decided: BTreeMap<WorkloadKey, Decided>,
    /// Who has to leave as soon as its share is written, which was decided before.
    leaving: BTreeMap<WorkloadKey, Decided>,
    /// Queues whose numbers may have counted a share that was not given after all.
    miscounted: BTreeSet<Key>,
    /// Workloads by the LocalQueue that they name.
    of_local: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// Parents of cohorts.
    parents: Parents,
    prebuilt: dependents::Prebuilt,
    pods: pods::Pods,
    trainings: trainjobs::Trainings,
    told: Told,
    turns: Turns,
    counting: numbers::Counting,
    /// Who waits in which queue, for those who ask.
    orders: BTreeMap<Text, answers::Ordered>,
    /// When statuses of queues were written last.
    told_at: BTreeMap<Key, Time>,
    /// What could not be made.
    unmade: unmade::Unmade,
    reclassed: classes::Reclassed,
}

/// What was decided about a Workload.
#[derive(Debug)]
enum Decided {
    Admit(Admission),
    Refuse(Refused),
    Evict {
        /// Exactly this one.
        victim: Uid,
        /// For whom.
        by: WorkloadKey,
        because: Because,
    },
}

impl Queueing {
    /// With these settings.
    #[must_use]
    pub fn new(settings: Settings) -> Queueing {
        Queueing {
            engine: Engine::new(settings.engine.clone()),
            settings,
            gangs: None,
            decided: BTreeMap::new(),
            leaving: BTreeMap::new(),
            miscounted: BTreeSet::new(),
            of_local: BTreeMap::new(),
            parents: Parents::new(),
            prebuilt: dependents::Prebuilt::default(),
            pods: pods::Pods::default(),
            trainings: trainjobs::Trainings::default(),
            told: Told::default(),
            turns: Turns::default(),
            counting: numbers::Counting::default(),
            orders: BTreeMap::new(),
            told_at: BTreeMap::new(),
            unmade: unmade::Unmade::default(),
            reclassed: classes::Reclassed::default(),
        }
    }

    /// Groups of pods that ask for it are placed together, in gangs that are written so.
    #[must_use]
    pub fn gangs(mut self, gangs: Option<Gangs>) -> Queueing {
        self.gangs = gangs;
        self
    }

    /// The engine as it stands, for whoever compares it with what there is.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    fn hear_flavor(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        match seen.after {
            Some(it) => self.engine.flavor(feed::flavor(&FlavorFacts::of(&it.tree))),
            None => self.engine.flavor_gone(&seen.key.name),
        }
        let mut wakes = self.feed_queues(caches);
        wakes.push(seen.key.clone().into());
        wakes.extend(dependents::of_flavor(seen, caches));
        wakes
    }

    fn hear_cohort(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        match seen.after {
            Some(it) => {
                let facts = CohortFacts::of(&it.tree);
                self.parents.insert(facts.name.clone(), facts.parent.clone());
                self.engine.cohort(feed::cohort(&facts));
            }
            None => {
                self.parents.remove(&seen.key.name);
                self.engine.cohort_gone(&seen.key.name);
            }
        }
        let mut wakes = self.feed_queues(caches);
        wakes.push(seen.key.clone().into());
        wakes
    }

    fn hear_cluster_queue(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        match seen.after {
            Some(it) => self.feed_queue(it, caches),
            None => {
                self.engine.cluster_queue_gone(&seen.key.name);
                self.counting.forget_queue(&seen.key.name);
                self.orders.remove(&seen.key.name);
            }
        }
        let mut wakes = vec![seen.key.clone().into()];
        if only_numbers(seen) {
            return wakes;
        }
        let flavors =
            [seen.before, seen.after].into_iter().flatten().flat_map(|it| queues::flavors_of(&it.tree));
        wakes.extend(flavors.map(|name| Key::new(&kinds::RESOURCE_FLAVORS, &Text::new(), &name).into()));
        for local in caches.all(&kinds::LOCAL_QUEUES).map(|it| LocalQueueFacts::of(&it.tree)) {
            if local.cluster_queue == seen.key.name {
                wakes.push(Key::new(&kinds::LOCAL_QUEUES, &local.namespace, &local.name).into());
                wakes.extend(self.workloads_of(&local.namespace, &local.name));
            }
        }
        wakes
    }

    fn hear_local_queue(&mut self, seen: &Seen<'_>) -> Vec<Wake> {
        match seen.after {
            Some(it) => {
                let facts = LocalQueueFacts::of(&it.tree);
                self.counting.place_local(&facts);
                self.engine.local_queue(feed::local_queue(&facts));
            }
            None => {
                self.engine.local_queue_gone(&seen.key.namespace, &seen.key.name);
                self.counting.forget_local(&seen.key.namespace, &seen.key.name);
            }
        }
        let mut wakes = vec![seen.key.clone().into()];
        if !only_numbers(seen) {
            wakes.extend(self.workloads_of(&seen.key.namespace, &seen.key.name));
            // Whoever waits in it counts there, or does not.
            let queues = [seen.before, seen.after].into_iter().flatten();
            let queues = queues.map(|it| LocalQueueFacts::of(&it.tree).cluster_queue);
            wakes.extend(queues.map(|it| Key::new(&kinds::CLUSTER_QUEUES, &Text::new(), &it).into()));
        }
        wakes
    }

    fn hear_namespace(&mut self, seen: &Seen<'_>) {
        let Some(it) = seen.after else {
            self.engine.namespace_gone(&seen.key.name);
            return;
        };
        let labels = it.tree.entries_at(meta_path::LABELS).iter();
        let labels = labels.filter_map(|(key, value)| Some((key.clone(), value.as_text()?.clone())));
        self.engine.namespace(&seen.key.name, labels.collect());
    }

    fn hear_workload(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let key = feed::key_of(&seen.key.namespace, &seen.key.name);
        let [before, after] = [seen.before, seen.after].map(|it| it.map(|it| WorkloadFacts::of(&it.tree)));
        if before.is_none() {
            // Whoever has one now, and none later, is told anew why.
            after.iter().flat_map(|it| &it.owners).for_each(|owner| self.unmade.gone(&owner.uid));
        }
        self.reclassed.hear(seen.key, before.as_ref(), after.as_ref());
        self.counting.hear(&key, before.as_ref(), after.as_ref(), caches);
        self.pods.hear_workload(before.as_ref(), after.as_ref());
        if let (Some(old), Some(new)) = (&before, &after) {
            if old.uid != new.uid {
                // Another of the same name: nothing was decided about this one.
                self.forget_decided(&key);
            } else if !new.has_quota()
                && (old.pod_sets != new.pod_sets || old.queue != new.queue)
                && matches!(self.decided.get(&key), Some(Decided::Admit(_)))
            {
                // It asks for something else now: what was decided is not given.
                self.decided.remove(&key);
                self.take_back(&key, new, caches);
            }
        }
        let places = [&before, &after].map(|it| it.as_ref().map(|it| it.queue.clone()));
        if places[0] != places[1] {
            self.move_workload(&seen.key.namespace, &seen.key.name, &places);
        }
        match &after {
            Some(facts) => self.feed_workload(facts, caches),
            None => {
                self.engine.workload_gone(&key);
                self.forget_decided(&key);
                self.told.forget(&meta::uid(&seen.newest().tree));
                self.turns.forget(&key);
            }
        }
        let mut wakes: Vec<Wake> = vec![seen.key.clone().into()];
        let is_gone = after.is_none();
        if let Some(facts) = after.as_ref().or(before.as_ref()) {
            wakes.extend(jobs::concerned(facts, caches).into_iter().map(Wake::from));
            wakes.extend(pods::concerned(facts, is_gone).into_iter().map(Wake::from));
        }
        wakes.extend(self.prebuilt.users(seen.key, caches).into_iter().map(Wake::from));
        for facts in [before, after].into_iter().flatten() {
            wakes.extend(queues::concerned(&facts, self.is_fair(), caches).into_iter().map(Wake::from));
        }
        wakes
    }

    fn feed_workload(&mut self, facts: &WorkloadFacts, caches: &Caches) {
        let limits = feed::limits(&facts.namespace, caches);
        let around = Around { limits: &limits, runtime_class: &|name| feed::runtime_class(name, caches) };
        self.engine.workload(feed::workload(facts, &around, &self.settings.accounting));
    }

    /// What surrounds pods changed, and with it what they ask for.
    fn hear_surroundings(&mut self, key: &Key, caches: &Caches) {
        let all: Vec<WorkloadFacts> = if key.kind == LIMIT_RANGES {
            caches
                .in_namespace(&kinds::WORKLOADS, &key.namespace)
                .map(|it| WorkloadFacts::of(&it.tree))
                .collect()
        } else {
            let all = caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
            all.filter(|it| feed::runs_by(it, &key.name)).collect()
        };
        all.iter().for_each(|facts| self.feed_workload(facts, caches));
    }

    fn forget_decided(&mut self, key: &WorkloadKey) {
        self.decided.remove(key);
        self.leaving.remove(key);
    }

    fn move_workload(&mut self, namespace: &Text, name: &Text, places: &[Option<Text>; 2]) {
        if let Some(old) = &places[0] {
            let place = (namespace.clone(), old.clone());
            if let Some(members) = self.of_local.get_mut(&place) {
                members.remove(name);
                if members.is_empty() {
                    self.of_local.remove(&place);
                }
            }
        }
        if let Some(new) = &places[1] {
            self.of_local.entry((namespace.clone(), new.clone())).or_default().insert(name.clone());
        }
    }

    /// The Workloads of a LocalQueue.
    fn workloads_of(&self, namespace: &Text, name: &Text) -> Vec<Wake> {
        let members = self.of_local.get(&(namespace.clone(), name.clone()));
        members.into_iter().flatten().map(|it| Key::new(&kinds::WORKLOADS, namespace, it).into()).collect()
    }

    /// What was to be told after a write was not: neither of what is behind this key, nor of its owners.
    fn unsay(&mut self, key: &Key, caches: &Caches) {
        let Some(object) = caches.find(key) else { return };
        self.told.forget(&meta::uid(&object.tree));
        if key.kind == kinds::WORKLOADS {
            let owners = meta::owners(&object.tree).take(workloads::OWNERS_TOLD_MAX);
            owners.for_each(|owner| self.told.forget(&owner.uid));
        }
    }

    /// Asks the engine, and takes down what it decided.
    fn decide(&mut self, now: Time) -> Plan {
        let mut plan =
            Plan { wake: std::mem::take(&mut self.miscounted).into_iter().collect(), ..Plan::nothing() };
        let decisions = self.settings.stopwatch.time(|| self.engine.cycle(now));
        let decisions = self.counting.attempted(decisions);
        for decision in decisions {
            let woken = self.take_down(decision);
            plan.wake.extend(woken.iter().map(workload_key));
        }
        if self.engine.is_restless() {
            plan.wake.push(decide_key());
        }
        plan.again_at = self.engine.next_wake();
        plan
    }

    fn take_down(&mut self, decision: Decision) -> Vec<WorkloadKey> {
        match decision {
            Decision::Admit(it) => {
                let key = it.key.clone();
                self.decided.insert(key.clone(), Decided::Admit(it));
                vec![key]
            }
            Decision::Refuse(it) => {
                let key = it.key.clone();
                self.decided.insert(key.clone(), Decided::Refuse(it));
                vec![key]
            }
            Decision::Preempt { refusal, victims } => {
                let by = refusal.key.clone();
                let mut woken = vec![by.clone()];
                self.decided.insert(by.clone(), Decided::Refuse(refusal));
                for victim in victims {
                    let evict =
                        Decided::Evict { victim: victim.uid, by: by.clone(), because: victim.because };
                    let unwritten = matches!(self.decided.get(&victim.key), Some(Decided::Admit(_)));
                    let list = if unwritten { &mut self.leaving } else { &mut self.decided };
                    list.insert(victim.key.clone(), evict);
                    woken.push(victim.key);
                }
                woken
            }
        }
    }
}

impl Drop for Queueing {
    fn drop(&mut self) {
        self.settings.desk.close();
    }
}

impl Controller for Queueing {
    fn name(&self) -> &'static str {
        "queue"
    }

    fn kinds(&self) -> Vec<Kind> {
        let own = [
            &kinds::RESOURCE_FLAVORS,
            &kinds::CLUSTER_QUEUES,
            &kinds::LOCAL_QUEUES,
            &kinds::COHORTS,
            &kinds::WORKLOADS,
            &kinds::PRIORITY_CLASSES,
            &kinds::ADMISSION_CHECKS,
            &kinds::TOPOLOGIES,
        ];
        let others =
            [&NAMESPACES, &PODS, &JOBS, &JOBSETS, &PRIORITY_CLASSES, &LIMIT_RANGES, &RUNTIME_CLASSES];
        let gangs = self.gangs.into_iter().flat_map(gang_make::kinds);
        own.into_iter().chain(others).chain(trainjobs::KINDS).chain(gangs).cloned().collect()
    }

    fn starts(&mut self, _caches: &Caches, _now: Time) -> Vec<Key> {
        self.counting.start();
        Vec::new()
    }

    fn hears(&mut self, bell: Doorbell) {
        self.settings.desk.open(bell);
    }

    fn tell(&self, counters: &mut Counters) {
        counters.queueing = self.counting.numbers();
    }

    /// Of pods, those that are queued and have not been let go; of ConfigMaps, those in which TrainJobs keep their runtime.
    fn concerns(&self, kind: &Kind, object: &Tree) -> bool {
        match kind {
            kind if *kind == PODS => pods::concerns(object),
            kind if *kind == CONFIG_MAPS => trainjobs::concerns(object),
            _ => true,
        }
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let kind = &seen.key.kind;
        if seen.after.is_none() {
            self.told_at.remove(seen.key);
            self.unmade.gone(&meta::uid(&seen.newest().tree));
        }
        if *kind == PODS || jobs::are_jobs(kind) {
            self.prebuilt.hear(seen);
        }
        let mut wakes = if *kind == PODS {
            self.counting.hear_pod(seen);
            self.pods.hear(seen)
        } else if *kind == kinds::WORKLOADS {
            self.hear_workload(seen, caches)
        } else if *kind == kinds::CLUSTER_QUEUES {
            self.hear_cluster_queue(seen, caches)
        } else if *kind == kinds::LOCAL_QUEUES {
            self.hear_local_queue(seen)
        } else if *kind == kinds::RESOURCE_FLAVORS {
            self.hear_flavor(seen, caches)
        } else if *kind == kinds::COHORTS {
            self.hear_cohort(seen, caches)
        } else if *kind == kinds::ADMISSION_CHECKS || *kind == kinds::TOPOLOGIES {
            self.engine.flush();
            self.feed_queues(caches)
        } else if *kind == kinds::PRIORITY_CLASSES {
            // Its Workloads may not be listed yet: they are looked up when everything is.
            let workloads = classes::Reclassed::has_new_value(seen).then(|| seen.key.clone().into());
            workloads.into_iter().chain(dependents::of_workload_class(seen, caches)).collect()
        } else if *kind == PRIORITY_CLASSES {
            dependents::of_class(seen, caches)
        } else if *kind == NAMESPACES {
            self.hear_namespace(seen);
            dependents::of_namespace(seen, caches)
        } else if *kind == LIMIT_RANGES || *kind == RUNTIME_CLASSES {
            self.hear_surroundings(seen.key, caches);
            Vec::new()
        } else if self.is_gang(kind) {
            let heard = !gangs::is_only_status(seen.before, seen.after);
            heard.then(|| gangs::concerned(&seen.key.namespace, &seen.key.name).into()).into_iter().collect()
        } else if jobs::are_jobs(kind) {
            if seen.after.is_none() && *kind == TRAIN_JOBS {
                self.trainings.forget(&meta::uid(&seen.newest().tree));
            }
            jobs::hear(seen, caches)
        } else if trainjobs::KINDS.contains(&kind) {
            trainjobs::hear(seen, caches)
        } else {
            // Other controllers have kinds of their own.
            Vec::new()
        };
        if self.engine.is_restless() {
            wakes.push(decide_key().into());
        }
        wakes
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        if *key == decide_key() {
            return self.decide(now);
        }
        if *key == call_key() {
            let called = self.turns.call(now);
            let wake = called.iter().map(workload_key).collect();
            return Plan { wake, again_at: self.turns.next_call(), ..Plan::nothing() };
        }
        if *key == answer_key() {
            return self.answer_some(caches, now);
        }
        if key.kind == PODS {
            let plan = self.plan_pods(key, caches, now);
            self.counting.opening(&plan, caches, now);
            return plan;
        }
        if key.kind == kinds::PRIORITY_CLASSES {
            let wake = workloads::of_class(&key.name, caches);
            self.reclassed.mark(&wake);
            return Plan { wake, ..Plan::nothing() };
        }
        let Some(object) = caches.find(key) else { return Plan::nothing() };
        let mut plan = if key.kind == kinds::WORKLOADS {
            self.plan_workload(object, caches, now)
        } else if key.kind == kinds::CLUSTER_QUEUES {
            self.plan_cluster_queue(key, object, caches, now)
        } else if key.kind == kinds::LOCAL_QUEUES {
            self.plan_local_queue(key, object, caches, now)
        } else if key.kind == kinds::COHORTS {
            self.plan_cohort(key, object, now)
        } else if key.kind == kinds::RESOURCE_FLAVORS {
            queues::plan_flavor(object, caches)
        } else {
            self.plan_job(key, object, caches, now)
        };
        if self.engine.is_restless() {
            plan.wake.push(decide_key());
        }
        plan
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        self.pods.refused(call, why);
        // It may have happened, and is repeated: what was remembered of it stays.
        if matches!(why, Refusal::Unknown(_)) {
            return None;
        }
        if let Some(uid) = call.guard.uid.as_ref().filter(|_| call.on.kind == PODS) {
            self.counting.not_opened(uid);
        }
        self.unsay(key, caches);
        if let Act::Create(object) = &call.act {
            return self.unmade.tell(&call.on.kind, object, why, caches);
        }
        if key.kind == kinds::WORKLOADS {
            let name = feed::key_of(&key.namespace, &key.name);
            self.counting.refused(&name);
            let passes = matches!(why, Refusal::Conflict(_) | Refusal::Busy { .. });
            let decided = if passes { None } else { self.decided.remove(&name) };
            match (decided, caches.find(key)) {
                (Some(Decided::Admit(_)), Some(object)) => {
                    self.take_back(&name, &WorkloadFacts::of(&object.tree), caches);
                }
                // Its preemptor is looked at again, and may name another.
                (Some(Decided::Evict { by, .. }), _) => self.engine.settle(&by, Outcome::Failed),
                (Some(Decided::Refuse(_)), _) => self.engine.settle(&name, Outcome::Failed),
                (Some(Decided::Admit(_)) | None, _) => {}
            }
        }
        trainjobs::refused(call, why, caches)
    }
}

/// The key that stands for deciding: no Workload has an empty name.
fn decide_key() -> Key {
    Key::new(&kinds::WORKLOADS, &Text::new(), &Text::new())
}

/// The key that stands for calling those whose turn has come to be told why they wait: no LocalQueue has an empty name.
fn call_key() -> Key {
    Key::new(&kinds::LOCAL_QUEUES, &Text::new(), &Text::new())
}

/// The key that stands for answering: no ClusterQueue has an empty name.
fn answer_key() -> Key {
    Key::new(&kinds::CLUSTER_QUEUES, &Text::new(), &Text::new())
}

fn workload_key(of: &WorkloadKey) -> Key {
    Key::new(&kinds::WORKLOADS, &of.namespace, &of.name)
}

/// Whether nothing but the numbers of a status changed.
fn only_numbers(seen: &Seen<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.before, seen.after) else { return false };
    let same = |path: &[&str]| before.tree.at(path) == after.tree.at(path);
    let plain = |tree: &Tree| tree.at(&["metadata", "deletionTimestamp"]).is_some();
    same(&["spec"]) && same(&["status", "conditions"]) && plain(&before.tree) == plain(&after.tree)
}
