//! Pods and PodDisruptionBudgets as the scheduler parses them.

use muster_api::consts::{conditions, reasons};
use muster_api::paths::{budget, condition as condition_path, pod as path};
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_api::{condition, meta, pod};
use muster_tree::{Text, Tree};

use crate::label::{self, LabelSelector, Labels};
use crate::requirements::SchedulingRequirements;
use crate::{devices, volumes};

/// Namespace and name of a pod.
pub type PodKey = (Text, Text);
/// Namespace and name of a pod group; the pod's own key for a single pod.
pub type GroupKey = PodKey;

/// The parsed fields of a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub key: PodKey,
    pub labels: Labels,
    /// `spec.nodeName`; empty while unbound.
    pub node: Text,
    /// The phase is terminal: it holds no resources.
    pub terminal: bool,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
    /// It is this scheduler's, without scheduling gates and not deleted.
    pub schedulable: bool,
    pub priority: i64,
    /// `preemptionPolicy` is not `Never`.
    pub preempts: bool,
    /// It is a preemption victim (`DisruptionTarget` with reason `PreemptionByScheduler`).
    pub evicted: bool,
    /// `status.nominatedNodeName`; empty for none.
    pub nominated: Text,
    pub created: Time,
    /// The API field `status.startTime`.
    pub started: Option<Time>,
    /// Its pod group; `None` for a single pod.
    pub group: Option<GroupKey>,
    /// `spec.schedulingGates` is not empty.
    pub gated: bool,
    /// Why `PreEnqueue` rejects it, and with it its group.
    pub pre_enqueue_error: Option<Text>,
    /// The API field `spec.schedulerName`.
    pub scheduler: Text,
    pub volumes: volumes::PodVolumeClaims,
    pub devices: devices::PodResourceClaims,
    pub requirements: SchedulingRequirements,
}

impl Pod {
    /// Parses a Pod; `schedulers` are the scheduler names that this instance serves.
    #[must_use]
    pub fn of(tree: &Tree, schedulers: &[&str]) -> Pod {
        let key = (meta::namespace(tree), meta::name(tree));
        let labels = pod::labels_of(tree).map(|tree| label::read(tree.entries())).unwrap_or_default();
        let ours = schedulers.contains(&tree.str_at(path::SCHEDULER));
        let gated = !tree.items_at(path::GATES).is_empty();
        let deleting = meta::deletion_timestamp(tree).is_some();
        Pod {
            node: tree.text_at(path::NODE_NAME),
            terminal: PodPhase::of(tree.str_at(path::PHASE)).is_terminal(),
            deleting,
            schedulable: ours && !gated && !deleting,
            priority: tree.int_at(path::PRIORITY).unwrap_or(0),
            preempts: tree.str_at(path::PREEMPTION_POLICY) != "Never",
            evicted: deleting && is_evicted(tree),
            nominated: tree.text_at(path::NOMINATED),
            created: meta::creation_timestamp(tree).unwrap_or_default(),
            started: Time::of(tree.at(path::START_TIME)),
            group: None,
            gated,
            pre_enqueue_error: None,
            scheduler: tree.text_at(path::SCHEDULER),
            volumes: volumes::PodVolumeClaims::of(tree),
            devices: devices::PodResourceClaims::of(tree),
            requirements: SchedulingRequirements::of(tree, &key.0, &labels),
            key,
            labels,
        }
    }
}

fn is_evicted(tree: &Tree) -> bool {
    let target = condition::find(tree.items_at(path::CONDITIONS), conditions::DISRUPTION_TARGET);
    target.is_some_and(|it| {
        it.str_at(condition_path::STATUS) == "True"
            && it.str_at(condition_path::REASON) == reasons::PREEMPTION_BY_SCHEDULER
    })
}

/// The parsed fields of a PodDisruptionBudget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    namespace: Text,
    selector: LabelSelector,
    allowed: i64,
    disrupted: Vec<Text>,
}

impl Budget {
    #[must_use]
    pub fn of(tree: &Tree) -> Budget {
        let disrupted = tree.entries_at(budget::DISRUPTED).iter();
        Budget {
            namespace: meta::namespace(tree),
            selector: LabelSelector::of(tree.at(budget::SELECTOR)),
            allowed: tree.int_at(budget::ALLOWED).unwrap_or(0),
            disrupted: disrupted.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// The API field `status.disruptionsAllowed`.
    #[must_use]
    pub fn allowed(&self) -> i64 {
        self.allowed
    }

    /// Whether it selects a pod that is not in `status.disruptedPods`.
    #[must_use]
    pub fn protects(&self, key: &PodKey, labels: &Labels) -> bool {
        self.namespace == key.0
            && !labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.matches_labels(labels)
            && !self.disrupted.contains(&key.1)
    }
}
