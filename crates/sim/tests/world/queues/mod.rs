//! Queues, whatever happens and whatever users do meanwhile.
//!
//! Users fill queues with Jobs, JobSets, TrainJobs, pods and groups, and change and take away everything they can, while the
//! controllers crash, lose the lead and see things late. [`laws`] looks after every step, [`rest`] when nothing happens any
//! more. `cargo xtask sim queues` plays a thousand numbers in release; variables as in [`seeds`](crate::seeds).

mod laws;
mod made;
mod quotas;
mod rest;
mod seeds;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::selector::Selector;
use muster_control::queueing::Settings;
use muster_control::training::DeadlineClock;
use muster_node::plane::Told;
use muster_queue::engine::spec::{Settings as EngineSettings, ShareRule};
use muster_queue::jobs::ancestors::Managed;
use muster_queue::jobs::plan::Settings as JobSettings;
use muster_queue::life::settings::{ReadyRules, Settings as LifeSettings};
use muster_queue::pods::plan::Settings as PodSettings;
use muster_sim::{Dice, Faults, World};
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
    /// Whether queues preempt.
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
    /// What controllers are told in such a world.
    pub fn told(self, seed: u64) -> Told {
        let rules = vec![ShareRule::LessThanOrEqualToFinalShare, ShareRule::LessThanInitialShare];
        let ready = self.ready.then(|| ReadyRules {
            timeout: Duration::from_secs(20),
            recovery_timeout: Some(Duration::from_secs(20)),
            block_admission: seed.is_multiple_of(3),
            backoff_limit: seed.is_multiple_of(2).then_some(2),
            backoff_base: Duration::from_secs(2),
            backoff_max: Duration::from_secs(10),
        });
        let queues = Settings {
            engine: EngineSettings {
                heads_per_cycle: 1 + usize::try_from(seed % 2).expect("small"),
                fair_sharing: self.fair.then_some(rules),
                block_admission: ready.as_ref().is_some_and(|it| it.block_admission),
                ..EngineSettings::default()
            },
            jobs: JobSettings { tells_pods_ready: self.ready, ..JobSettings::default() },
            pods: PodSettings { tells_ready: self.ready, ..PodSettings::default() },
            life: LifeSettings { ready, ..LifeSettings::default() },
            managed: Managed { enabled: self.enabled(), ..Managed::default() },
            namespaces: Selector::of(Some(&tree!({}))),
            ..Settings::default()
        };
        let training = (self.train > 0).then(|| training::told(DeadlineClock::Auto, seed).training).flatten();
        Told { queues: Some(queues), training, ..Told::default() }
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
    pub dice: Dice,
    pub watch: Watch,
    pub queues: BTreeMap<&'static str, Queue>,
    /// Pods of groups that come later.
    pub later: Vec<Tree>,
    /// All groups there were.
    pub groups: Vec<Group>,
    /// How many things were made.
    pub born: u32,
    /// What users did, in numbers.
    pub done: BTreeMap<&'static str, u64>,
}

impl<'a> Town<'a> {
    fn new(world: &'a mut World, kind: Kind, seed: u64) -> Town<'a> {
        Town {
            world,
            kind,
            dice: Dice::new(seed ^ 0x0009_0e5e),
            watch: Watch::default(),
            queues: BTreeMap::new(),
            later: Vec::new(),
            groups: Vec::new(),
            born: 0,
            done: BTreeMap::new(),
        }
    }

    /// Lets time pass and looks after every step.
    pub fn run(&mut self, faults: Faults, time: Duration) {
        let watch = &mut self.watch;
        self.world.run_watched(faults, time, &mut |world| watch.look(world));
    }

    /// Plays to the end: what users do, then rest, then plenty for everybody, then nothing is left.
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
