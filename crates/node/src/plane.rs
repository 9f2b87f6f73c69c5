//! One call that starts everything there is, by name.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use muster_api::gang::{Form, Reads};
use muster_api::gang_make::Gangs;
use muster_api::kinds;
use muster_api::port::Api;
use muster_api::ports::{Clock, Entropy};
use muster_control::accounts::Accounts;
use muster_control::claims::Claims;
use muster_control::disruption::Disruption;
use muster_control::gc::GarbageCollector;
use muster_control::jobs::Jobs;
use muster_control::jobsets::{Exclusive, Gates, JobSets};
use muster_control::lifecycle::Lifecycle;
use muster_control::namespaces::Namespaces;
use muster_control::podgc::PodGc;
use muster_control::podgroups::PodGroups;
use muster_control::queueing::{Queueing, Settings as Queues};
pub use muster_control::run::{Shells, Tidings};
use muster_control::schedule::{Packing, Schedule};
use muster_control::slices::Slices;
use muster_control::training::{Settings as Trainings, Training};
use muster_control::unsupported::UnsupportedKinds;
use muster_control::volumes::Volumes;
use muster_control::{Controller, LoopOptions};
use muster_tree::{Text, Tree};

use crate::SimNodes;
use crate::folders::Folders;
use crate::provision::Provisioner;
use crate::published::{self, Published};

/// Which nodes there are.
pub enum Nodes {
    /// This machine, whose pods are processes, and its mark.
    Local(Text, Box<dyn Controller>),
    /// So many simulated ones.
    Count(usize),
    /// One simulated node for each Node manifest, with the devices of ResourceSlices and DeviceClasses.
    Manifests(Vec<Tree>),
}

impl Nodes {
    /// The nodes, their devices and their volumes, marked as those of `mark` unless they have a mark of their own.
    #[must_use]
    pub fn with_volumes(self, mark: &str, folders: Box<dyn Folders>) -> Vec<Box<dyn Controller>> {
        let mark = match &self {
            Nodes::Local(own, _) => own.clone(),
            _ => mark.into(),
        };
        let mut all = self.controllers(&mark);
        all.push(Box::new(Provisioner::new(&mark, folders)));
        all
    }

    fn controllers(self, mark: &str) -> Vec<Box<dyn Controller>> {
        let (nodes, devices): (Box<dyn Controller>, _) = match self {
            Nodes::Local(_, node) => (node, Vec::new()),
            Nodes::Count(count) => (Box::new(SimNodes::count(count, mark)), Vec::new()),
            Nodes::Manifests(manifests) => {
                let (devices, nodes): (Vec<Tree>, Vec<Tree>) =
                    manifests.into_iter().partition(|it| published::kind_of(it).is_some());
                (Box::new(SimNodes::of(nodes, mark)), devices)
            }
        };
        vec![nodes, Box::new(Published::of(devices, mark))]
    }
}

/// The mark of the nodes that come with the plane itself: they are taken up again at every start.
const OWN_NODES: &str = "up";

/// What controllers have to be told.
#[derive(Debug, Clone)]
pub struct Told {
    /// The certificate that every namespace publishes.
    pub root_ca: Text,
    /// What nodes are filled up by.
    pub packing: Packing,
    /// Features of JobSets.
    pub jobsets: Gates,
    /// Which marks of gangs count.
    pub reads: Reads,
    /// How gangs are written; `None` where they are switched off.
    pub gangs: Option<Gangs>,
    /// Whether Jobs have gangs of their own (`WorkloadWithJob`).
    pub jobs_make_gangs: bool,
    /// How queues are run; `None` where they are not served.
    pub queues: Option<Queues>,
    /// How TrainJobs are run; `None` where they are not served.
    pub training: Option<Train>,
}

/// How TrainJobs are run, and the chance that their keys are made of.
#[derive(Clone)]
pub struct Train {
    /// How they are run; gangs are written as they are elsewhere.
    pub settings: Trainings,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Train {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl Default for Told {
    fn default() -> Told {
        Told {
            root_ca: Text::new(),
            packing: Packing::default(),
            jobsets: Gates::default(),
            reads: Reads::default(),
            gangs: Some(Gangs::default()),
            jobs_make_gangs: false,
            queues: None,
            training: None,
        }
    }
}

/// All controllers there are, nodes apart.
#[must_use]
pub fn controllers(told: Told) -> Vec<Box<dyn Controller>> {
    let mut all: Vec<Box<dyn Controller>> = vec![
        Box::new(Jobs::making(told.gangs.filter(|_| told.jobs_make_gangs))),
        Box::<GarbageCollector>::default(),
        Box::<Namespaces>::default(),
        Box::new(Schedule::default().packing(told.packing).gangs(Form::Proposal, told.reads)),
        Box::<PodGc>::default(),
        Box::<Slices>::default(),
        Box::<Disruption>::default(),
        Box::<Volumes>::default(),
        Box::<Lifecycle>::default(),
        Box::<Claims>::default(),
        Box::new(Accounts::new(told.root_ca)),
        Box::<UnsupportedKinds>::default(),
        Box::<Exclusive>::default(),
        Box::new(JobSets::new(told.jobsets, Some(kinds::RESOURCE_CLAIMS.clone())).gangs(told.gangs)),
    ];
    if told.reads.groups {
        all.push(Box::new(PodGroups::new(Form::Proposal)));
    }
    let queues = told.queues.map(|queues| Queueing::new(queues).gangs(told.gangs));
    all.extend(queues.map(|it| Box::new(it) as Box<dyn Controller>));
    let training = told
        .training
        .map(|train| Training::new(Trainings { gangs: told.gangs, ..train.settings }, train.entropy));
    all.extend(training.map(|it| Box::new(it) as Box<dyn Controller>));
    all
}

/// Starts the controllers of these names (those without a controller yet are passed over) over `api`, and the nodes in
/// a loop of their own, as they are on a cluster: the control plane is busy while pods start.
///
/// # Errors
///
/// The system refuses to give a thread.
pub fn start(
    api: &Arc<dyn Api>,
    clock: &Arc<dyn Clock>,
    names: &BTreeSet<String>,
    nodes: Nodes,
    folders: Box<dyn Folders>,
    told: Told,
    tidings: Tidings,
) -> std::io::Result<Shells> {
    let mut chosen = controllers(told);
    chosen.retain(|one| names.contains(one.name()));
    let mut groups = vec![chosen];
    let nodes = nodes.with_volumes(OWN_NODES, folders);
    if nodes.iter().all(|one| names.contains(one.name())) {
        groups.push(nodes);
    }
    Shells::start(api, clock, groups, &LoopOptions::default(), tidings)
}
