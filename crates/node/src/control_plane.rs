//! Starts the controllers and the nodes of the embedded control plane.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use muster_api::client::Api;
use muster_api::environment::{Clock, Entropy};
use muster_api::gang::{EnabledMarkers, GangApi};
use muster_api::gang_objects::GangSupport;
use muster_api::kinds;
use muster_control::disruption::DisruptionController;
pub use muster_control::driver::{RuntimeCallbacks, RuntimeGroup};
use muster_control::endpoint_slices::EndpointSliceController;
use muster_control::gc::GarbageCollector;
use muster_control::jobs::JobController;
use muster_control::jobsets::{ExclusivePlacementController, FeatureGates, JobSetController};
use muster_control::namespaces::NamespaceController;
use muster_control::node_lifecycle::NodeLifecycleController;
use muster_control::pod_gc::PodGcController;
use muster_control::pod_groups::PodGroupController;
use muster_control::queueing::{QueueController, QueueControllerConfig as Queues};
use muster_control::resource_claims::ResourceClaimController;
use muster_control::schedule::{Packing, SchedulerController};
use muster_control::service_accounts::ServiceAccountController;
use muster_control::training::{TrainJobController, TrainJobControllerConfig as Trainings};
use muster_control::unsupported::UnsupportedKindController;
use muster_control::volumes::VolumeController;
use muster_control::{Controller, RuntimeOptions};
use muster_tree::{Text, Tree};

use crate::SimulatedNodes;
use crate::provisioner::LocalPathProvisioner;
use crate::resource_slices::{self, ResourceSlicePublisher};
use crate::volume_dirs::VolumeDirs;

/// The nodes of the control plane.
pub enum NodeSource {
    /// The local kubelet, which runs pods as processes of this host, and its node ID.
    Local(Text, Box<dyn Controller>),
    /// This many simulated nodes.
    Count(usize),
    /// One simulated node for each Node manifest, with the devices of ResourceSlices and DeviceClasses.
    Manifests(Vec<Tree>),
}

impl NodeSource {
    /// The controllers of nodes, devices and volumes. Objects carry the simulator ID `mark`, or the node ID of the
    /// local kubelet.
    #[must_use]
    pub fn with_volumes(self, mark: &str, volume_dirs: Box<dyn VolumeDirs>) -> Vec<Box<dyn Controller>> {
        let mark = match &self {
            NodeSource::Local(own, _) => own.clone(),
            _ => mark.into(),
        };
        let mut all = self.controllers(&mark);
        all.push(Box::new(LocalPathProvisioner::new(&mark, volume_dirs)));
        all
    }

    fn controllers(self, mark: &str) -> Vec<Box<dyn Controller>> {
        let (nodes, devices): (Box<dyn Controller>, _) = match self {
            NodeSource::Local(_, node) => (node, Vec::new()),
            NodeSource::Count(count) => (Box::new(SimulatedNodes::count(count, mark)), Vec::new()),
            NodeSource::Manifests(manifests) => {
                let (devices, nodes): (Vec<Tree>, Vec<Tree>) =
                    manifests.into_iter().partition(|it| resource_slices::kind_of(it).is_some());
                (Box::new(SimulatedNodes::of(nodes, mark)), devices)
            }
        };
        vec![nodes, Box::new(ResourceSlicePublisher::of(devices, mark))]
    }
}

/// Simulator ID of the nodes of `muster up`: fixed, so that a restart adopts them.
const OWN_NODES: &str = "up";

/// Options of the controllers.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// The CA certificate of the ConfigMap `kube-root-ca.crt` in each namespace.
    pub root_ca: Text,
    /// The scheduler's scoring strategy.
    pub packing: Packing,
    pub jobsets: FeatureGates,
    /// Which gang labels and annotations the scheduler reads.
    pub reads: EnabledMarkers,
    /// How controllers create gangs; `None` disables that.
    pub gangs: Option<GangSupport>,
    /// Whether the Job controller creates a gang per Job (feature gate `WorkloadWithJob`).
    pub jobs_make_gangs: bool,
    /// Options of the Kueue-style queue controllers; `None` disables them.
    pub queues: Option<Queues>,
    /// Options of the TrainJob controller; `None` disables it.
    pub training: Option<TrainingOptions>,
}

/// Options of the TrainJob controller and the entropy source of its SSH keys.
#[derive(Clone)]
pub struct TrainingOptions {
    /// Its `gangs` is replaced by [`ControllerOptions::gangs`].
    pub settings: Trainings,
    pub entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for TrainingOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

impl Default for ControllerOptions {
    fn default() -> ControllerOptions {
        ControllerOptions {
            root_ca: Text::new(),
            packing: Packing::default(),
            jobsets: FeatureGates::default(),
            reads: EnabledMarkers::default(),
            gangs: Some(GangSupport::default()),
            jobs_make_gangs: false,
            queues: None,
            training: None,
        }
    }
}

/// All controllers except those of nodes.
#[must_use]
pub fn controllers(options: ControllerOptions) -> Vec<Box<dyn Controller>> {
    let mut all: Vec<Box<dyn Controller>> = vec![
        Box::new(JobController::with_gangs(options.gangs.filter(|_| options.jobs_make_gangs))),
        Box::<GarbageCollector>::default(),
        Box::<NamespaceController>::default(),
        Box::new(
            SchedulerController::default().packing(options.packing).gangs(GangApi::Proposal, options.reads),
        ),
        Box::<PodGcController>::default(),
        Box::<EndpointSliceController>::default(),
        Box::<DisruptionController>::default(),
        Box::<VolumeController>::default(),
        Box::<NodeLifecycleController>::default(),
        Box::<ResourceClaimController>::default(),
        Box::new(ServiceAccountController::new(options.root_ca)),
        Box::<UnsupportedKindController>::default(),
        Box::<ExclusivePlacementController>::default(),
        Box::new(
            JobSetController::new(options.jobsets, Some(kinds::RESOURCE_CLAIMS.clone())).gangs(options.gangs),
        ),
    ];
    if options.reads.groups {
        all.push(Box::new(PodGroupController::new(GangApi::Proposal)));
    }
    let queues = options.queues.map(|queues| QueueController::new(queues).gangs(options.gangs));
    all.extend(queues.map(|it| Box::new(it) as Box<dyn Controller>));
    let training = options.training.map(|train| {
        TrainJobController::new(Trainings { gangs: options.gangs, ..train.settings }, train.entropy)
    });
    all.extend(training.map(|it| Box::new(it) as Box<dyn Controller>));
    all
}

/// Starts the named controllers over `api`; unknown names are ignored. The node controllers run in a loop of their
/// own, as kubelets do, so that pods start while the control plane is busy.
///
/// # Errors
///
/// The thread cannot be spawned.
pub fn start(
    api: &Arc<dyn Api>,
    clock: &Arc<dyn Clock>,
    names: &BTreeSet<String>,
    nodes: NodeSource,
    volume_dirs: Box<dyn VolumeDirs>,
    options: ControllerOptions,
    callbacks: RuntimeCallbacks,
) -> std::io::Result<RuntimeGroup> {
    let mut chosen = controllers(options);
    chosen.retain(|one| names.contains(one.name()));
    let mut groups = vec![chosen];
    let nodes = nodes.with_volumes(OWN_NODES, volume_dirs);
    if nodes.iter().all(|one| names.contains(one.name())) {
        groups.push(nodes);
    }
    RuntimeGroup::start(api, clock, groups, &RuntimeOptions::default(), callbacks)
}
