//! Queues under faults and user actions.
//!
//! Users submit Jobs, JobSets, TrainJobs, pods and groups, and change and delete everything they can, while the controllers
//! crash, lose leadership and have stale caches. [`laws`] checks after every step, [`rest`] when the world is idle.
//! `cargo xtask sim queues` runs a thousand seeds in release mode; variables as in [`seeds`](crate::seeds).

mod laws;
mod made;
mod quotas;
mod rest;
mod seeds;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::selector::LabelSelector;
use muster_control::queueing::QueueControllerConfig;
use muster_control::training::DeadlineClock;
use muster_node::control_plane::ControllerOptions;
use muster_queue::engine::spec::{EngineSettings, FairSharingStrategy};
use muster_queue::jobs::owner_chain::ManagedKinds;
use muster_queue::jobs::reconciler::JobReconcilerSettings as JobSettings;
use muster_queue::pods::reconciler::PodReconcilerSettings as PodSettings;
use muster_queue::reconcilers::settings::{PodsReadyPolicy, ReconcilerSettings as LifeSettings};
use muster_sim::{Faults, SeededRng, World};
use muster_tree::{Text, Tree, tree};

use crate::scenario::minutes;
use crate::training;
use laws::Watch;
use made::{Group, Queue};

/// Nodes of every world: enough for what quotas allow.
const NODES: usize = 3;
/// Rounds in which users do something.
const ROUNDS: u32 = 14;
/// How long it takes until nothing happens any more: the longest runs that end at all, and every pause.
const CALM: Duration = Duration::from_secs(600);

/// What is different from world to world, apart from the dice.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub says: &'static str,
    /// How often Jobs, JobSets, pods and groups come.
    pub mix: [usize; 4],
    /// How often TrainJobs come; where they never do, they are not served.
    pub train: usize,
    pub preempts: bool,
    /// Whether shares are fair.
    pub fair: bool,
    /// Whether pods must be ready in time, and others wait for them.
    pub ready: bool,
    /// Whether users change quotas and queues.
    pub edits: bool,
}

/// All of them; the number of a world says which it is.
pub const KINDS: [Kind; 8] = [
    Kind { says: "Jobs in queues that are left alone", mix: [4, 1, 0, 0], ..PLAIN },
    Kind {
        says: "pods and groups in queues that are left alone",
        mix: [0, 0, 3, 4],
        preempts: true,
        ..PLAIN
    },
    Kind { says: "Jobs in queues that change", mix: [4, 1, 0, 0], edits: true, preempts: true, ..PLAIN },
    Kind { says: "pods and groups in queues that change", mix: [0, 0, 2, 4], edits: true, ..PLAIN },
    Kind {
        says: "JobSets and pods that preempt each other",
        mix: [1, 4, 3, 1],
        edits: true,
        preempts: true,
        ..PLAIN
    },
    Kind { says: "everything, in fair shares", fair: true, edits: true, preempts: true, ..PLAIN },
    Kind { says: "everything, and pods must be ready in time", ready: true, edits: true, ..PLAIN },
    Kind { says: "everything", edits: true, preempts: true, ..PLAIN },
];

const PLAIN: Kind =
    Kind { says: "", mix: [2, 1, 2, 3], train: 0, preempts: false, fair: false, ready: false, edits: false };

/// Those with TrainJobs, which have numbers of their own.
pub const TRAINED: [Kind; 3] = [
    Kind {
        says: "TrainJobs in queues that are left alone",
        mix: [1, 0, 0, 0],
        train: 4,
        preempts: true,
        ..PLAIN
    },
    Kind {
        says: "TrainJobs among others in queues that change",
        mix: [1, 1, 1, 1],
        train: 3,
        edits: true,
        preempts: true,
        ..PLAIN
    },
    Kind {
        says: "TrainJobs, and pods must be ready in time",
        mix: [1, 1, 0, 0],
        train: 3,
        ready: true,
        edits: true,
        ..PLAIN
    },
];

impl Kind {
    /// Controller settings with queues.
    pub fn told(self, seed: u64) -> ControllerOptions {
        let rules =
            vec![FairSharingStrategy::LessThanOrEqualToFinalShare, FairSharingStrategy::LessThanInitialShare];
        let ready = self.ready.then(|| PodsReadyPolicy {
            timeout: Duration::from_secs(20),
            recovery_timeout: Some(Duration::from_secs(20)),
            block_admission: seed.is_multiple_of(3),
            backoff_limit: seed.is_multiple_of(2).then_some(2),
            backoff_base: Duration::from_secs(2),
            backoff_max: Duration::from_secs(10),
        });
        let queues = QueueControllerConfig {
            engine: EngineSettings {
                heads_per_cycle: 1 + usize::try_from(seed % 2).expect("small"),
                fair_sharing_strategies: self.fair.then_some(rules),
                block_admission: ready.as_ref().is_some_and(|it| it.block_admission),
                ..EngineSettings::default()
            },
            jobs: JobSettings { reports_pods_ready: self.ready, ..JobSettings::default() },
            pods: PodSettings { reports_pods_ready: self.ready, ..PodSettings::default() },
            life: LifeSettings { pods_ready: ready, ..LifeSettings::default() },
            managed: ManagedKinds { enabled: self.enabled(), ..ManagedKinds::default() },
            namespaces: LabelSelector::of(Some(&tree!({}))),
            ..QueueControllerConfig::default()
        };
        let training = (self.train > 0).then(|| training::told(DeadlineClock::Auto, seed).training).flatten();
        ControllerOptions { queues: Some(queues), training, ..ControllerOptions::default() }
    }

    fn enabled(self) -> BTreeSet<Text> {
        let train = (self.train > 0).then_some("trainer.kubeflow.org/trainjob");
        let all = ["batch/job", "jobset.x-k8s.io/jobset", "pod"].into_iter().chain(train);
        all.map(Text::from).collect()
    }
}

/// A world with users in it.
pub struct Town<'a> {
    pub world: &'a mut World,
    pub kind: Kind,
    pub dice: SeededRng,
    pub watch: Watch,
    pub queues: BTreeMap<&'static str, Queue>,
    /// Pods of groups that come later.
    pub later: Vec<Tree>,
    /// All groups there were.
    pub groups: Vec<Group>,
    /// The number of created objects.
    pub born: u32,
    /// What users did, in numbers.
    pub done: BTreeMap<&'static str, u64>,
}

impl<'a> Town<'a> {
    fn new(world: &'a mut World, kind: Kind, seed: u64) -> Town<'a> {
        Town {
            world,
            kind,
            dice: SeededRng::new(seed ^ 0x0009_0e5e),
            watch: Watch::default(),
            queues: BTreeMap::new(),
            later: Vec::new(),
            groups: Vec::new(),
            born: 0,
            done: BTreeMap::new(),
        }
    }

    /// Runs for some time with checks after every step.
    pub fn run(&mut self, faults: Faults, time: Duration) {
        let watch = &mut self.watch;
        self.world.run_with_checks(faults, time, &mut |world| watch.look(world));
    }

    /// Runs to the end: user actions, then idle, then enough quota for all, then deletion of everything.
    fn play(&mut self, faults: Faults) {
        self.settle_down();
        self.run(faults, Duration::from_secs(2));
        for _ in 0..ROUNDS {
            self.act(faults);
            let time = Duration::from_millis(500 + self.dice.next() % 3_000);
            self.run(faults, time);
        }
        self.come_all();
        self.run(faults, Duration::from_secs(20));
        self.run(Faults::none(), CALM);
        rest::check(self.world);
        self.give_plenty();
        self.run(faults, Duration::from_secs(10));
        self.run(Faults::none(), CALM);
        rest::check(self.world);
        rest::everybody_runs(self.world);
        self.clear_away();
        self.run(faults, Duration::from_secs(20));
        self.run(Faults::none(), CALM);
        rest::nothing_is_left(self.world);
        self.take_queues_away();
        self.run(Faults::none(), minutes(2));
        rest::no_queue_is_left(self.world);
    }
}
