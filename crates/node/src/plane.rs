//! One call that starts everything there is, by name.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::node;
use muster_api::port::Api;
use muster_api::ports::Clock;
use muster_control::accounts::Accounts;
use muster_control::claims::Claims;
use muster_control::gc::GarbageCollector;
use muster_control::jobs::Jobs;
use muster_control::lifecycle::Lifecycle;
use muster_control::namespaces::Namespaces;
use muster_control::podgc::PodGc;
pub use muster_control::run::{Shells, Tidings};
use muster_control::schedule::{Packing, Schedule};
use muster_control::slices::Slices;
use muster_control::volumes::Volumes;
use muster_control::{Controller, LoopOptions};
use muster_tree::{Text, Tree, literal};

use crate::folders::Folders;
use crate::provision::Provisioner;
use crate::published::{self, Published};
use crate::{SimNodes, capacity};

/// Which nodes there are.
#[derive(Debug, Clone)]
pub enum Nodes {
    /// One node called `local`; simulated until there is a node that runs processes.
    Local,
    /// So many simulated ones.
    Count(usize),
    /// One simulated node for each Node manifest, with the devices of ResourceSlices and DeviceClasses.
    Manifests(Vec<Tree>),
}

impl Nodes {
    /// The nodes and their devices, marked as those of `mark`.
    #[must_use]
    pub fn controllers(self, mark: &str) -> Vec<Box<dyn Controller>> {
        let (nodes, devices) = match self {
            Nodes::Local => {
                (SimNodes::of([node::simulated(&literal!("local"), &capacity())], mark), Vec::new())
            }
            Nodes::Count(count) => (SimNodes::count(count, mark), Vec::new()),
            Nodes::Manifests(manifests) => {
                let (devices, nodes): (Vec<Tree>, Vec<Tree>) =
                    manifests.into_iter().partition(|it| published::kind_of(it).is_some());
                (SimNodes::of(nodes, mark), devices)
            }
        };
        vec![Box::new(nodes), Box::new(Published::of(devices, mark))]
    }
}

/// The mark of the nodes that come with the plane itself: they are taken up again at every start.
const OWN_NODES: &str = "up";

/// What controllers have to be told.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The certificate that every namespace publishes.
    pub root_ca: Text,
    /// What nodes are filled up by.
    pub packing: Packing,
}

/// All controllers there are, nodes apart.
#[must_use]
pub fn controllers(told: Told) -> Vec<Box<dyn Controller>> {
    vec![
        Box::<Jobs>::default(),
        Box::<GarbageCollector>::default(),
        Box::<Namespaces>::default(),
        Box::new(Schedule::default().packing(told.packing)),
        Box::<PodGc>::default(),
        Box::<Slices>::default(),
        Box::<Volumes>::default(),
        Box::<Lifecycle>::default(),
        Box::<Claims>::default(),
        Box::new(Accounts::new(told.root_ca)),
    ]
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
    let mut nodes = nodes.controllers(OWN_NODES);
    nodes.push(Box::new(Provisioner::new(OWN_NODES, folders)));
    if nodes.iter().all(|one| names.contains(one.name())) {
        groups.push(nodes);
    }
    Shells::start(api, clock, groups, &LoopOptions::default(), tidings)
}
