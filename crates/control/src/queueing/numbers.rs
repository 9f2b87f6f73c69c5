//! What queueing counts, for `/metrics`.
//!
//! # Invariants
//!
//! - What is decided counts once its write is seen; what was there at the start is not news.
//! - Gauges are set when a queue is looked at, at most once a second while its Workloads change: telling costs nothing.
//! - News cost what changed, however many queues there are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::kinds::PODS;
use muster_api::meta;
use muster_api::paths::pod as pod_path;
use muster_api::port::{Call, Object, Uid};
use muster_api::ports::Clock;
use muster_api::queue::words::{conditions, gates, reasons};
use muster_api::queue::{ClusterQueueFacts, LocalQueueFacts, WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_queue::engine::decision::Decision;
use muster_queue::engine::report::{FlavorUsage, QueueUsage};
use muster_queue::engine::workload::{Amounts, Key as WorkloadKey};
use muster_queue::life::blockers::Why;
use muster_queue::life::numbers::{
    Attempt, Happened, Numbers, PairGauges, QueueGauges, QueueState, Queues, Sample, Tally,
};
use muster_queue::life::queues::Readiness;
use muster_queue::life::workload::cluster_queue_of;
use muster_queue::pods::decl;
use muster_tree::{Text, Tree};

use super::unadmitted::Unadmitted;
use crate::cache::{Caches, Seen};
use crate::plan::{Plan, Step};

/// Measures how long the engine takes; without a clock everything takes no time.
#[derive(Clone, Default)]
pub struct Stopwatch(pub Option<Arc<dyn Clock>>);

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopwatch")
    }
}

impl Stopwatch {
    /// What `work` gives, and how long it took.
    pub fn time<T>(&self, work: impl FnOnce() -> T) -> (T, Duration) {
        let began = self.0.as_ref().map(|clock| clock.now());
        let done = work();
        let took = self.0.as_ref().zip(began).map(|(clock, began)| clock.now().since(began));
        (done, took.unwrap_or_default())
    }
}

/// Numbers that go on being counted while others read them.
#[derive(Debug, Clone, Default)]
pub struct Live(Arc<Mutex<Numbers>>);

impl Live {
    /// All numbers as they are now, by name.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let now = self.lock().clone();
        now.samples()
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Live {
    fn eq(&self, other: &Live) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        let own = self.lock().clone();
        own == *other.lock()
    }
}

impl Eq for Live {}

/// What is gauged of a queue besides its usage.
pub(super) struct Beside {
    /// What those who wait ask for.
    pub asked: Amounts,
    /// Its share of the cohort, where shares count.
    pub share: Option<i64>,
}

/// Numbers, and what they are made from.
#[derive(Debug, Default)]
pub(super) struct Counting {
    numbers: Live,
    /// Decided, not yet seen written.
    unseen: BTreeMap<WorkloadKey, Vec<Happened>>,
    /// Pods that are being let go, not yet seen without their gate, and how long after their admission that is.
    opening: BTreeMap<Uid, Duration>,
    unadmitted: Unadmitted,
    /// How long the last ones of each ClusterQueue waited for quota.
    waits: BTreeMap<Text, VecDeque<Duration>>,
    started: bool,
}

/// How many waits are remembered.
const WAITS_MAX: usize = 20;

impl Counting {
    /// All of it, for whoever tells.
    pub fn numbers(&self) -> Live {
        self.numbers.clone()
    }

    /// From here on, what comes is news.
    pub fn start(&mut self) {
        self.started = true;
    }

    /// How long the last ones of a ClusterQueue waited for quota.
    pub fn waits(&self, queue: &str) -> Vec<Duration> {
        self.waits.get(queue).into_iter().flatten().copied().collect()
    }

    fn count(&mut self, happened: &Happened) {
        if let Happened::Reserved { queues, waited } = happened {
            let last = self.waits.entry(queues.cluster.clone()).or_default();
            last.push_back(*waited);
            if last.len() > WAITS_MAX {
                last.pop_front();
            }
        }
        self.numbers.lock().count(happened);
    }

    /// Counts what happened in queues, of which some may be gone by now: they leave no series behind.
    fn count_there(&mut self, happened: &Happened, caches: &Caches) {
        self.count(happened);
        let by = match happened {
            Happened::Preempted { by, .. } => Some(by),
            other => other.queues().map(|it| &it.cluster),
        };
        let is_gone = |name: &&Text| caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), name).is_none();
        if let Some(gone) = by.filter(|name| !name.is_empty()).filter(is_gone) {
            self.forget_queue(gone);
        }
        if let Some((namespace, name)) = happened.queues().map(|it| &it.local)
            && caches.get(&kinds::LOCAL_QUEUES, namespace, name).is_none()
        {
            self.numbers.lock().forget_local(&(namespace.clone(), name.clone()));
        }
    }

    /// Counts a cycle of the engine, if it decided anything.
    pub fn attempted(&mut self, (decisions, took): (Vec<Decision>, Duration)) -> Vec<Decision> {
        if !decisions.is_empty() {
            let admitted = decisions.iter().any(|it| matches!(it, Decision::Admit(_)));
            let result = if admitted { Attempt::Success } else { Attempt::Inadmissible };
            self.count(&Happened::Attempted { result, took });
        }
        decisions
    }

    /// These count once the Workload is seen changed.
    pub fn once_seen(&mut self, key: WorkloadKey, happened: Vec<Happened>) {
        // Ends are told by several; they are counted when they are seen, whoever told.
        let ours = happened.into_iter().filter(|it| !matches!(it, Happened::Finished { .. }));
        self.unseen.insert(key, ours.collect());
    }

    /// The write was refused: nothing happened.
    pub fn refused(&mut self, key: &WorkloadKey) {
        self.unseen.remove(key);
    }

    /// A Workload changed.
    pub fn hear(
        &mut self,
        key: &WorkloadKey,
        before: Option<&WorkloadFacts>,
        after: Option<&WorkloadFacts>,
        caches: &Caches,
    ) {
        let (seen, unseen): (Vec<Happened>, Vec<Happened>) =
            self.unseen.remove(key).into_iter().flatten().partition(|it| is_seen(it, before, after));
        seen.iter().for_each(|it| self.count_there(it, caches));
        if !unseen.is_empty() && after.is_some() {
            self.unseen.insert(key.clone(), unseen);
        }
        self.regroup(before, after);
        let Some(after) = after.filter(|_| self.started) else { return };
        match before {
            None => self.created(after, caches),
            Some(before) if after.is_finished() && !before.is_finished() => {
                let local = caches.get(&kinds::LOCAL_QUEUES, &after.namespace, &after.queue);
                let local = local.map(|it| LocalQueueFacts::of(&it.tree));
                let cluster = cluster_queue_of(after, local.as_ref()).unwrap_or_default();
                let queues = Queues { cluster, local: (after.namespace.clone(), after.queue.clone()) };
                self.count_there(&Happened::Finished { queues }, caches);
            }
            Some(_) => {}
        }
    }

    fn regroup(&mut self, before: Option<&WorkloadFacts>, after: Option<&WorkloadFacts>) {
        let place = |it: &WorkloadFacts| Some(((it.namespace.clone(), it.queue.clone()), unadmitted(it)?));
        let (old, new) = (before.and_then(place), after.and_then(place));
        if old == new {
            return;
        }
        if let Some((local, reason)) = old {
            self.unadmitted.leave(&local, &reason);
        }
        if let Some((local, reason)) = new {
            self.unadmitted.enter(&local, &reason);
        }
    }

    fn created(&mut self, workload: &WorkloadFacts, caches: &Caches) {
        let owner = workload.controller().and_then(|it| caches.by_uid(&it.uid));
        let job = owner.and_then(|(_, job)| meta::created(&job.tree));
        if let Some((job, made)) = job.zip(workload.created) {
            self.count(&Happened::Created { took: made.since(job) });
        }
    }

    /// Pods are let go by this plan; each counts once it is seen without its gate.
    pub fn opening(&mut self, plan: &Plan, caches: &Caches, now: Time) {
        let told = plan.steps.iter().filter_map(|step| match step {
            Step::EachTold(told) => Some(told),
            _ => None,
        });
        let started = told.flatten().filter(|(_, event)| event.reason == reasons::STARTED);
        let those = started
            .filter_map(|(call, _)| Some((call.guard.uid.clone()?, now.since(admitted_at(call, caches)?))));
        self.opening.extend(those);
    }

    /// A pod changed: it may have been let go.
    pub fn hear_pod(&mut self, seen: &Seen<'_>) {
        let opens = seen.before.is_some_and(|it| is_gated(&it.tree))
            && seen.after.is_some_and(|it| !is_gated(&it.tree));
        if !opens && seen.after.is_some() {
            return;
        }
        if let Some(took) = self.opening.remove(&meta::uid(&seen.newest().tree)).filter(|_| opens) {
            self.count(&Happened::Ungated { took });
        }
    }

    /// A pod was not let go after all.
    pub fn not_opened(&mut self, pod: &Uid) {
        self.opening.remove(pod);
    }

    /// What a ClusterQueue is like.
    pub fn queue(
        &mut self,
        facts: &ClusterQueueFacts,
        ready: &Readiness,
        usage: &QueueUsage,
        beside: &Beside,
    ) {
        let mut pairs = pairs(facts);
        add(&mut pairs, &usage.reserved, |pair, total| pair.reserved = total);
        add(&mut pairs, &usage.admitted, |pair, total| pair.used = total);
        let covered = pairs.keys().map(|(_, resource)| resource).collect::<BTreeSet<_>>();
        let pending = covered.into_iter();
        let pending = pending.map(|it| (it.clone(), beside.asked.get(it).copied().unwrap_or(0))).collect();
        let gauges = QueueGauges {
            cohort: facts.cohort.clone(),
            state: match ready.reason {
                _ if ready.holds => QueueState::Active,
                reasons::TERMINATING => QueueState::Terminating,
                _ => QueueState::Pending,
            },
            tally: Tally { unadmitted: self.unadmitted.of_queue(&facts.name), ..tally(usage) },
            pairs,
            pending,
            share: beside.share,
        };
        self.numbers.lock().set_queue(&facts.name, gauges);
    }

    /// What a LocalQueue is like.
    pub fn local(&mut self, namespace: &Text, name: &Text, usage: &QueueUsage) {
        let of = (namespace.clone(), name.clone());
        let unadmitted = self.unadmitted.of_local(&of);
        self.numbers.lock().set_local(&of, Tally { unadmitted, ..tally(usage) });
    }

    /// A LocalQueue belongs to this ClusterQueue.
    pub fn place_local(&mut self, queue: &LocalQueueFacts) {
        let of = (queue.namespace.clone(), queue.name.clone());
        self.unadmitted.moved(&of, Some(&queue.cluster_queue));
    }

    /// A ClusterQueue is gone.
    pub fn forget_queue(&mut self, name: &str) {
        self.numbers.lock().forget_queue(name);
        self.waits.remove(name);
    }

    /// A LocalQueue is gone.
    pub fn forget_local(&mut self, namespace: &Text, name: &Text) {
        let of = (namespace.clone(), name.clone());
        self.numbers.lock().forget_local(&of);
        self.unadmitted.moved(&of, None);
    }
}

fn is_gated(pod: &Tree) -> bool {
    pod.items_at(pod_path::GATES).iter().any(|gate| gate.str_at(&["name"]) == gates::ADMISSION)
}

/// Whether this is the change by which a Workload shows what was decided about it.
fn is_seen(it: &Happened, before: Option<&WorkloadFacts>, after: Option<&WorkloadFacts>) -> bool {
    let becomes = |is: &dyn Fn(&WorkloadFacts) -> bool| after.is_some_and(is) && !before.is_some_and(is);
    match it {
        Happened::Reserved { .. } => becomes(&|it| it.has_quota()),
        Happened::Admitted { .. } => becomes(&|it| it.is_admitted()),
        Happened::Evicted { .. } => becomes(&|it| it.is_evicted()),
        Happened::Preempted { .. } => becomes(&|it| it.holds(conditions::PREEMPTED)),
        Happened::Finished { .. } => becomes(&|it| it.is_finished()),
        Happened::Attempted { .. } | Happened::Ungated { .. } | Happened::Created { .. } => true,
    }
}

/// Why a Workload is not admitted; `None` if it is, or has ended.
fn unadmitted(it: &WorkloadFacts) -> Option<Text> {
    if it.is_finished() || it.is_admitted() {
        return None;
    }
    let kind = if it.has_quota() { conditions::ADMITTED } else { conditions::QUOTA_RESERVED };
    let told = it.condition(kind).map(|it| it.reason.clone()).filter(|it| !it.is_empty());
    Some(told.unwrap_or_else(|| Why::PendingEvaluation.reason(Default::default()).into()))
}

/// When the Workload of a pod was admitted.
fn admitted_at(call: &Call, caches: &Caches) -> Option<Time> {
    let pod = caches.get(&PODS, &call.on.namespace, &call.on.name)?;
    let workload: &Object = match decl::group_name(&pod.tree) {
        Some((group, _)) => caches.get(&kinds::WORKLOADS, &call.on.namespace, &group)?,
        None => {
            let uid = meta::uid(&pod.tree);
            caches.owned_by(&uid).find(|(key, _)| key.kind == kinds::WORKLOADS)?.1
        }
    };
    WorkloadFacts::of(&workload.tree).condition(conditions::ADMITTED).filter(|it| it.holds)?.since
}

fn tally(usage: &QueueUsage) -> Tally {
    let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    Tally {
        active: number(usage.active),
        inadmissible: number(usage.pending.saturating_sub(usage.active)),
        reserving: number(usage.reserving),
        admitted: number(usage.admitted_workloads),
        unadmitted: BTreeMap::new(),
    }
}

fn pairs(facts: &ClusterQueueFacts) -> BTreeMap<(Text, Text), PairGauges> {
    let mut all = BTreeMap::new();
    for flavor in facts.flavors() {
        for it in &flavor.resources {
            let (nominal, borrowing, lending) = (it.nominal, it.borrowing_limit, it.lending_limit);
            let gauges = PairGauges { nominal, borrowing, lending, ..PairGauges::default() };
            all.insert((flavor.name.clone(), it.name.clone()), gauges);
        }
    }
    all
}

fn add(
    pairs: &mut BTreeMap<(Text, Text), PairGauges>,
    usage: &FlavorUsage,
    set: impl Fn(&mut PairGauges, i64),
) {
    for (flavor, resources) in usage {
        for it in resources {
            if let Some(pair) = pairs.get_mut(&(flavor.clone(), it.resource.clone())) {
                set(pair, it.total);
            }
        }
    }
}
