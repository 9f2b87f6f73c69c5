//! What the scheduler is told of pods and budgets.

use muster_api::paths::{budget, condition as condition_path, pod as path};
use muster_api::pod::Phase;
use muster_api::time::Time;
use muster_api::words::{conditions, reasons};
use muster_api::{condition, meta, pod};
use muster_tree::{Text, Tree};

use crate::demand::Demand;
use crate::label::{self, Labels, Selector};
use crate::{devices, volumes};

/// A pod by namespace and name.
pub type PodKey = (Text, Text);
/// A group of pods: the pod's own key for a single pod.
pub type GroupKey = PodKey;

/// What the scheduler is told of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    /// Namespace and name.
    pub key: PodKey,
    /// Labels.
    pub labels: Labels,
    /// Its node; empty when it has none.
    pub node: Text,
    /// Whether it holds nothing any more.
    pub ended: bool,
    /// Whether somebody deleted it.
    pub deleting: bool,
    /// Whether it wants a node from us, now: ours, not gated, not deleted.
    pub wants: bool,
    /// Priority.
    pub priority: i64,
    /// Whether it may have others evicted.
    pub preempts: bool,
    /// Whether it is being evicted to make room.
    pub evicted: bool,
    /// The node that is being cleared for it; empty when none is.
    pub nominated: Text,
    /// Age.
    pub created: Time,
    /// When it began to run.
    pub started: Option<Time>,
    /// The group it is placed with; `None` when it is alone.
    pub group: Option<GroupKey>,
    /// Whether it has scheduling gates.
    pub gated: bool,
    /// Why this member must not be queued, and with it its group.
    pub hold: Option<Text>,
    /// The scheduler it asks for.
    pub scheduler: Text,
    /// What it wants of volumes.
    pub volumes: volumes::Wants,
    /// What it wants of devices.
    pub devices: devices::Wants,
    /// What placement looks at.
    pub demand: Demand,
}

impl Pod {
    /// Reads a Pod that one of `schedulers` is to place.
    #[must_use]
    pub fn of(tree: &Tree, schedulers: &[&str]) -> Pod {
        let key = (meta::namespace(tree), meta::name(tree));
        let labels = pod::labels_of(tree).map(|tree| label::read(tree.entries())).unwrap_or_default();
        let ours = schedulers.contains(&tree.str_at(path::SCHEDULER));
        let gated = !tree.items_at(path::GATES).is_empty();
        let deleting = meta::deleting(tree).is_some();
        Pod {
            node: tree.text_at(path::NODE_NAME),
            ended: Phase::of(tree.str_at(path::PHASE)).ended(),
            deleting,
            wants: ours && !gated && !deleting,
            priority: tree.int_at(path::PRIORITY).unwrap_or(0),
            preempts: tree.str_at(path::PREEMPTION_POLICY) != "Never",
            evicted: deleting && is_evicted(tree),
            nominated: tree.text_at(path::NOMINATED),
            created: meta::created(tree).unwrap_or_default(),
            started: Time::of(tree.at(path::START_TIME)),
            group: None,
            gated,
            hold: None,
            scheduler: tree.text_at(path::SCHEDULER),
            volumes: volumes::Wants::of(tree),
            devices: devices::Wants::of(tree),
            demand: Demand::of(tree, &key.0, &labels),
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

/// What the scheduler is told of a disruption budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    namespace: Text,
    selector: Selector,
    allowed: i64,
    disrupted: Vec<Text>,
}

impl Budget {
    /// Reads a `PodDisruptionBudget`.
    #[must_use]
    pub fn of(tree: &Tree) -> Budget {
        let disrupted = tree.entries_at(budget::DISRUPTED).iter();
        Budget {
            namespace: meta::namespace(tree),
            selector: Selector::of(tree.at(budget::SELECTOR)),
            allowed: tree.int_at(budget::ALLOWED).unwrap_or(0),
            disrupted: disrupted.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// How many pods may go now.
    #[must_use]
    pub fn allowed(&self) -> i64 {
        self.allowed
    }

    /// Whether it protects a pod that is not on its way out already.
    #[must_use]
    pub fn protects(&self, key: &PodKey, labels: &Labels) -> bool {
        self.namespace == key.0
            && !labels.is_empty()
            && !self.selector.is_everything()
            && self.selector.selects_labels(labels)
            && !self.disrupted.contains(&key.1)
    }
}
