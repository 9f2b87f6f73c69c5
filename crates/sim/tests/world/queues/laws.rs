//! Invariants checked after every step.
//!
//! The usage in the engine is that of the observed Workloads plus the assumed ones, and equals a recount; every new
//! decision fits. In the store no quota is exceeded, no pod is ungated without an admitted Workload, and never more pods
//! than were admitted.
//!
//! A controller decides on its cache: checks against the store allow for changes that it may not have observed yet.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::Kind;
use muster_api::meta;
use muster_api::pod::PodPhase;
use muster_api::queue::consts::{annotations, gates, labels};
use muster_api::queue::{WorkloadFacts, kinds};
use muster_api::time::Time;
use muster_api::train::consts::TRAIN_JOB;
use muster_control::queueing::QueueController;
use muster_queue::engine::Engine;
use muster_queue::engine::workload::{NamespacedName, WorkloadInfo};
use muster_sim::{STALL_SECS_MAX, World};
use muster_store::Record;
use muster_tree::{Text, Tree};

use super::quotas::{Quotas, Used, used};

/// How long a change may stay unobserved: three watch stalls in a row.
const UNSEEN: Duration = Duration::from_secs(3 * STALL_SECS_MAX);

type Name = (Text, Text);

/// The checks after each step.
#[derive(Default)]
pub struct Watch {
    /// How many records were read.
    read: usize,
    /// The reconcile count at the last check: without a reconcile since, the engine is unchanged.
    planned: u64,
    store: Stored,
    /// When what a Workload holds was decided.
    decided: BTreeMap<NamespacedName, Decided>,
    /// The number of checks.
    pub seen: Seen,
}

/// Objects as they are stored.
#[derive(Default)]
struct Stored {
    workloads: BTreeMap<Name, WorkloadFacts>,
    pods: BTreeMap<Name, Tree>,
    queues: BTreeMap<Text, Tree>,
    cohorts: BTreeMap<Text, Tree>,
    /// When anything that quotas depend on changed.
    requoted: Option<Time>,
    /// When a Workload, or the one before it of that name, changed in what lets its pods run.
    swayed: BTreeMap<Name, Time>,
}

struct Decided {
    at: Time,
    /// Whether it is still to be written.
    open: bool,
}

/// The checks so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Steps after which the engine was compared with a recount.
    pub steps: u64,
    /// Decisions that had to fit.
    pub decisions: u64,
    /// Shares written that had to fit what is stored.
    pub shares: u64,
    /// Of those, excused since quotas had just changed.
    pub excused: u64,
    pub opened: u64,
    pub released: u64,
    /// Jobs and JobSets started.
    pub started: u64,
}

impl Seen {
    /// The label and count of each check.
    pub fn rows(&self) -> [(&'static str, u64); 7] {
        [
            ("steps looked at", self.steps),
            ("shares decided", self.decisions),
            ("shares written", self.shares),
            ("  right after quotas changed", self.excused),
            ("pods opened", self.opened),
            ("jobs started", self.started),
            ("shares given back", self.released),
        ]
    }
}

impl std::ops::AddAssign for Seen {
    fn add_assign(&mut self, other: Seen) {
        self.steps += other.steps;
        self.decisions += other.decisions;
        self.shares += other.shares;
        self.excused += other.excused;
        self.opened += other.opened;
        self.released += other.released;
        self.started += other.started;
    }
}

/// The engine of the controllers, if they have seen everything once.
pub fn engine(world: &World) -> Option<&Engine> {
    let control = world.control();
    control
        .synced()
        .then(|| control.controller_of_type::<QueueController>().expect("queues are run").engine())
}

/// Whether a pod waits behind our gate.
pub fn is_gated(pod: &Tree) -> bool {
    pod.items_at(&["spec", "schedulingGates"]).iter().any(|it| it.str_at(&["name"]) == gates::ADMISSION)
}

/// Whether a pod has ended.
pub fn has_ended(pod: &Tree) -> bool {
    PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal()
}

impl Watch {
    pub fn look(&mut self, world: &mut World) {
        let records: Vec<(Time, Record)> = world.records()[self.read..].to_vec();
        self.read += records.len();
        for (_, record) in &records {
            self.hear(world.now(), record);
        }
        let planned = world.control().metrics().reconciles;
        if planned != self.planned {
            self.planned = planned;
            self.look_into(world);
        }
    }

    /// The engine matches its Workloads, and new decisions fit.
    fn look_into(&mut self, world: &World) {
        let Some(engine) = engine(world) else { return };
        self.seen.steps += 1;
        let all =
            |kind: &Kind| world.control().caches().all(kind).map(|it| it.tree.clone()).collect::<Vec<Tree>>();
        let workloads: Vec<WorkloadFacts> = all(&kinds::WORKLOADS).iter().map(WorkloadFacts::of).collect();
        let assumed: Vec<&WorkloadInfo> =
            engine.workload_infos().filter(|(_, open)| *open).map(|(info, _)| info).collect();
        let mut held = used(workloads.iter());
        for info in &assumed {
            let queue = &info.reservation().expect("what was decided is held").queue;
            for (pair, amount) in info.flavor_resource_usage() {
                *held.entry((queue.clone(), pair)).or_default() += amount;
            }
        }
        let (queues, cohorts) = (all(&kinds::CLUSTER_QUEUES), all(&kinds::COHORTS));
        let quotas = Quotas::of(queues.iter(), cohorts.iter());
        counts(engine, &held, &quotas, &queues);
        self.decides(&assumed, &held, &quotas, world.now());
    }

    /// What was newly decided fits what was seen by then.
    fn decides(&mut self, assumed: &[&WorkloadInfo], held: &Used, quotas: &Quotas, now: Time) {
        let open: Vec<&NamespacedName> = assumed.iter().map(|info| &info.key).collect();
        for (key, it) in &mut self.decided {
            it.open &= open.contains(&key);
        }
        for info in assumed {
            if self.decided.get(&info.key).is_some_and(|it| it.open) {
                continue;
            }
            self.decided.insert(info.key.clone(), Decided { at: now, open: true });
            self.seen.decisions += 1;
            let queue = &info.reservation().expect("what was decided is held").queue;
            for (pair, amount) in info.flavor_resource_usage().into_iter().filter(|(_, amount)| *amount > 0) {
                let left = quotas.available(held, queue, &pair);
                assert!(
                    left.is_some_and(|left| left >= 0),
                    "{:?} was given {amount} of {pair:?} in {queue}, which leaves {left:?}: {held:?} {quotas:?}",
                    info.key
                );
            }
        }
    }

    fn hear(&mut self, now: Time, record: &Record) {
        let name = (record.key.namespace.clone(), record.key.name.clone());
        let after = record.after.as_ref().map(|it| it.tree.clone());
        match record.key.resource.as_str() {
            "workloads.kueue.x-k8s.io" => self.workload(now, &name, after.as_ref()),
            "pods" => self.pod(now, &name, after),
            "jobs.batch" | "jobsets.jobset.x-k8s.io" | "trainjobs.trainer.kubeflow.org" => {
                self.job(now, record);
            }
            "clusterqueues.kueue.x-k8s.io" => {
                let slot = put(&mut self.store.queues, name.1, after);
                self.store.requoted = if slot { Some(now) } else { self.store.requoted };
            }
            "cohorts.kueue.x-k8s.io" => {
                let slot = put(&mut self.store.cohorts, name.1, after);
                self.store.requoted = if slot { Some(now) } else { self.store.requoted };
            }
            _ => {}
        }
    }

    fn workload(&mut self, now: Time, name: &Name, after: Option<&Tree>) {
        let before = self.store.workloads.get(name).cloned();
        let had = before.as_ref().is_some_and(|it| it.has_quota() && !it.is_finished());
        let Some(after) = after.map(WorkloadFacts::of) else {
            self.store.workloads.remove(name);
            self.store.swayed.insert(name.clone(), now);
            return;
        };
        let may_run = |it: &WorkloadFacts| {
            (it.uid.clone(), it.is_admitted(), it.is_evicted(), it.is_finished(), it.deleting)
        };
        if before.as_ref().is_none_or(|it| may_run(it) != may_run(&after)) {
            self.store.swayed.insert(name.clone(), now);
        }
        let has = after.has_quota() && !after.is_finished();
        self.store.workloads.insert(name.clone(), after.clone());
        if has && !had {
            self.given(now, name, &after);
        } else if had && !has && !after.is_finished() {
            self.seen.released += 1;
            self.released(name, &after);
        }
    }

    /// A share was written: it fits what is stored.
    fn given(&mut self, now: Time, name: &Name, workload: &WorkloadFacts) {
        self.seen.shares += 1;
        let key = NamespacedName { namespace: name.0.clone(), name: name.1.clone() };
        let decided = self.decided.get(&key).map_or(now, |it| it.at);
        if self.store.requoted.is_some_and(|at| at + UNSEEN > decided) {
            self.seen.excused += 1;
            return;
        }
        let quotas = Quotas::of(self.store.queues.values(), self.store.cohorts.values());
        let held = used(self.store.workloads.values());
        let queue = &workload.admission.as_ref().expect("a share says what it is").cluster_queue;
        for (pair, amount) in super::quotas::held(workload).into_iter().filter(|(_, amount)| *amount > 0) {
            let left = quotas.available(&held, queue, &pair);
            assert!(
                left.is_some_and(|left| left >= 0),
                "{name:?} has {amount} of {pair:?} in {queue}, which leaves {left:?} of what is stored"
            );
        }
    }

    /// A share was given back: no pod that we opened runs on it any more. Pods of Jobs are the Job controller's: those that it
    /// was just making when its Job was suspended come late, and go at once.
    fn released(&self, name: &Name, workload: &WorkloadFacts) {
        let ours = |pod: &Tree| meta::label(pod, labels::MANAGED).is_some();
        let runs = |pod: &Tree| {
            ours(pod) && !is_gated(pod) && !has_ended(pod) && meta::deletion_timestamp(pod).is_none()
        };
        let left: Vec<Text> = self.pods_of(name).filter(|it| runs(it)).map(meta::name).collect();
        assert!(left.is_empty(), "{left:?} run on the share that {name:?} gave back: {workload:#?}");
    }

    /// The pods that were opened for a Workload.
    fn pods_of<'a>(&'a self, name: &'a Name) -> impl Iterator<Item = &'a Tree> {
        let of_it = move |pod: &&Tree| {
            meta::namespace(pod) == name.0
                && meta::annotation(pod, annotations::WORKLOAD) == Some(name.1.as_str())
        };
        self.store.pods.values().filter(of_it)
    }

    fn pod(&mut self, now: Time, name: &Name, after: Option<Tree>) {
        let was_gated = self.store.pods.get(name).is_some_and(is_gated);
        let Some(pod) = after else {
            self.store.pods.remove(name);
            return;
        };
        self.store.pods.insert(name.clone(), pod.clone());
        if was_gated && !is_gated(&pod) {
            self.opened(now, &pod);
        }
    }

    /// A pod was opened: its Workload may run, and no more of its set are open than were admitted.
    fn opened(&mut self, now: Time, pod: &Tree) {
        self.seen.opened += 1;
        let workload = meta::annotation(pod, annotations::WORKLOAD).expect("an open pod names its Workload");
        let name = (meta::namespace(pod), Text::from(workload));
        if self.was_swayed(now, &name) {
            return;
        }
        let workload = self.store.workloads.get(&name);
        let workload = workload.unwrap_or_else(|| panic!("{} was opened for nobody", meta::name(pod)));
        assert!(workload.is_admitted() && workload.has_quota(), "{} was opened too early", meta::name(pod));
        let set = meta::label(pod, labels::PODSET).expect("an open pod names its set");
        let given = workload.admission.as_ref().and_then(|it| it.assignment(set));
        let admitted = given.and_then(|it| it.count).expect("its set was given something") as usize;
        let phase = |it: &Tree| PodPhase::of(it.str_at(&["status", "phase"]));
        // One that is deleted before it ran never will.
        let may_run = |it: &Tree| meta::deletion_timestamp(it).is_none() || phase(it) == PodPhase::Running;
        let same = |it: &&Tree| {
            meta::label(it, labels::PODSET) == Some(set) && !is_gated(it) && !has_ended(it) && may_run(it)
        };
        let open = self.pods_of(&name).filter(same).count();
        assert!(open <= admitted, "{open} pods of {set} of {name:?} are open, {admitted} were admitted");
    }

    /// Whether what lets pods run changed so lately that it may not be seen yet.
    fn was_swayed(&self, now: Time, name: &Name) -> bool {
        self.store.swayed.get(name).is_some_and(|at| *at + UNSEEN > now)
            && !self.store.workloads.get(name).is_some_and(|it| it.is_admitted() && !it.is_evicted())
    }

    /// A job that begins may, and so may the JobSet of a TrainJob.
    fn job(&mut self, now: Time, record: &Record) {
        let suspended = |tree: &Tree| tree.bool_at(&["spec", "suspend"]) == Some(true);
        let (Some(before), Some(after)) = (&record.before, &record.after) else { return };
        let (before, after) = (&before.tree, &after.tree);
        let trained = meta::controller_of(after).filter(|it| it.kind == TRAIN_JOB).map(|it| it.uid);
        let queued = meta::label(after, labels::QUEUE).is_some() && meta::controller_of(after).is_none();
        if !(queued || trained.is_some()) || !suspended(before) || suspended(after) {
            return;
        }
        self.seen.started += 1;
        let uid = trained.unwrap_or_else(|| meta::uid(after));
        let own = |it: &&WorkloadFacts| it.controller().is_some_and(|owner| owner.uid == uid);
        let all: Vec<&WorkloadFacts> = self.store.workloads.values().filter(own).collect();
        let excused = |it: &WorkloadFacts| self.was_swayed(now, &(it.namespace.clone(), it.name.clone()));
        let lost = self.store.swayed.values().any(|at| *at + UNSEEN > now) && all.is_empty();
        assert!(
            lost || all.iter().any(|it| (it.is_admitted() && it.has_quota()) || excused(it)),
            "{} was started too early",
            meta::name(after)
        );
    }
}

/// The usage in the engine equals a recount.
fn counts(engine: &Engine, held: &Used, quotas: &Quotas, queues: &[Tree]) {
    let mut counted = engine.clone();
    for queue in queues.iter().map(meta::name) {
        let of_queue = held.keys().filter(|(name, _)| *name == queue).map(|(_, pair)| pair.clone());
        for pair in of_queue.chain(quotas.pairs(&queue)) {
            let room = counted.availability(&queue, &pair.0, &pair.1).map_or(0, |it| it.used);
            let want = held.get(&(queue.clone(), pair.clone())).copied().unwrap_or(0);
            assert_eq!(room, want, "{queue} uses {pair:?}");
        }
    }
    assert_eq!(counted.recountable_state(), engine.rebuilt().recountable_state(), "counted anew");
}

/// Records an object; whether its spec changed or it was deleted.
fn put(all: &mut BTreeMap<Text, Tree>, name: Text, after: Option<Tree>) -> bool {
    let looks = |tree: &Tree| {
        (tree.at(&["spec"]).cloned(), meta::uid(tree), meta::deletion_timestamp(tree).is_some())
    };
    let before = all.get(&name).map(looks);
    let changed = before != after.as_ref().map(looks);
    match after {
        Some(tree) => all.insert(name, tree),
        None => all.remove(&name),
    };
    changed
}
