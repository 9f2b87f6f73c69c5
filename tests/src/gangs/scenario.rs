//! Deserialises `tests/gangs/*.yaml`, in terms that are independent of the API variant.

use std::collections::BTreeMap;
use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use super::api_variant::GangApiVariant;
use crate::yaml_documents;

/// A gang scheduling scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangScenario {
    /// File name without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it proves, as a sentence.
    pub name: String,
    /// Ids of `docs/requirements` that it covers; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// API variants on which it can run; all when empty.
    #[serde(default)]
    pub on: Vec<GangApiVariant>,
    /// Its nodes. Only its pods run on them, and its pods run nowhere else.
    pub nodes: Vec<NodesSpec>,
    /// Actions and assertions, in order.
    pub steps: Vec<GangStep>,
}

impl GangScenario {
    /// Whether it can run on this API variant.
    #[must_use]
    pub fn runs_on(&self, form: GangApiVariant) -> bool {
        self.on.is_empty() || self.on.contains(&form)
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodesSpec {
    #[serde(default = "one")]
    pub count: usize,
    /// Allocatable CPUs of each.
    pub cpu: u32,
    /// Whether they join only at the step `join`.
    #[serde(default)]
    pub later: bool,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

fn one() -> usize {
    1
}

/// Scheduling policy of a PodGroup.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupPolicy {
    /// `minCount` of the gang; absent for the basic policy, which schedules each pod alone.
    #[serde(default)]
    pub min: Option<i64>,
    /// Disruption mode `all`: preempting one pod preempts the whole group.
    #[serde(default)]
    pub all_go: bool,
    /// Topology key: all members are on nodes with the same value of this label.
    #[serde(default)]
    pub topology: Option<String>,
    /// PriorityClass of the group.
    #[serde(default)]
    pub priority: Option<String>,
}

/// How a v1alpha1 PodGroup references its template.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplateRefForm {
    #[default]
    Reference,
    Word,
    Both,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodGroupSpec {
    pub name: String,
    /// Workload that it references; none when empty.
    #[serde(default)]
    pub workload: String,
    /// Template of the Workload.
    #[serde(default)]
    pub template: String,
    #[serde(default)]
    pub spelled: TemplateRefForm,
    /// Policy that overrides the template.
    #[serde(default)]
    pub policy: Option<GroupPolicy>,
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    #[serde(default)]
    pub owner: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PodsSpec {
    pub names: Vec<String>,
    #[serde(default)]
    pub group: Option<String>,
    /// Workload that they reference, if it differs from the group's.
    #[serde(default)]
    pub workload: Option<String>,
    /// PodGroup of the coscheduling plugin.
    #[serde(default)]
    pub coscheduling: Option<String>,
    #[serde(default)]
    pub volcano: Option<String>,
    /// CPU request of each.
    #[serde(default = "one_each")]
    pub cpu: u32,
    #[serde(default)]
    pub priority: Option<String>,
    #[serde(default)]
    pub gated: bool,
    /// Seconds until they terminate; never when absent.
    #[serde(default)]
    pub runs_secs: Option<u32>,
    #[serde(default)]
    pub exit: u8,
    #[serde(default)]
    pub port: Option<u32>,
    /// PersistentVolumeClaim that they mount.
    #[serde(default)]
    pub claim: Option<String>,
    /// Index of the node to which the creator binds them (`spec.nodeName`).
    #[serde(default)]
    pub node: Option<usize>,
    /// Merged into the spec.
    #[serde(default)]
    pub spec: Tree,
    #[serde(default)]
    pub owner: Option<String>,
}

fn one_each() -> u32 {
    1
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangJobSet {
    pub name: String,
    /// Value of the gang annotation.
    #[serde(default)]
    pub gang: Option<String>,
    pub jobs: BTreeMap<String, GangReplicatedJob>,
    /// Merged into the spec.
    #[serde(default)]
    pub spec: Tree,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GangReplicatedJob {
    #[serde(default = "one_each")]
    pub replicas: u32,
    /// Parallelism and completions of each Job.
    #[serde(default = "one_each")]
    pub pods: u32,
    /// CPU request of each pod.
    #[serde(default = "one_each")]
    pub cpu: u32,
    /// Seconds until pods terminate; never when absent.
    #[serde(default)]
    pub runs_secs: Option<u32>,
    /// Exit code of the pods.
    #[serde(default)]
    pub exit: u8,
    /// The replicatedJob that must be `Ready` first (`dependsOn`).
    #[serde(default)]
    pub after: Option<String>,
}

/// An object of the scenario, by kind and name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ObjectName {
    Pod(String),
    Group(String),
    Workload(String),
    Job(String),
    Set(String),
    /// A node, by its index.
    Node(usize),
}

/// An action or an assertion.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GangStep {
    Workload {
        name: String,
        templates: BTreeMap<String, GroupPolicy>,
        #[serde(default)]
        owner: Option<String>,
    },
    Group(PodGroupSpec),
    /// Creates a Workload with a template `t` and a PodGroup of the same name.
    Gang {
        name: String,
        /// Policy of the template.
        policy: GroupPolicy,
    },
    /// Creates a PodGroup of the coscheduling plugin.
    Coscheduling {
        name: String,
        min: i64,
        #[serde(default)]
        timeout_secs: Option<i64>,
    },
    /// Creates a PodGroup of Volcano.
    Volcano {
        name: String,
        min: i64,
    },
    /// Creates a suspended Job, as an owner of other objects.
    Job(String),
    Set(GangJobSet),
    /// Creates a `ReadWriteOncePod` claim and its volume.
    Claim(String),
    /// Creates a PodDisruptionBudget that allows no disruption of these pods.
    Budget(Vec<String>),
    /// Creates pods in this order.
    Pods(PodsSpec),
    /// Changes `minCount` of a template, and of the PodGroups that copy it.
    Min {
        workload: String,
        #[serde(default = "default_template")]
        template: String,
        to: i64,
    },
    /// Sends a merge patch.
    Patch {
        of: ObjectName,
        with: Tree,
    },
    /// Starts the nodes marked `later`.
    Join,
    /// Repeats steps; `#` in them is the number of the round, from 0.
    Each {
        times: usize,
        steps: Tree,
    },
    /// Removes the scheduling gates of pods.
    Ungate(Vec<String>),
    Delete(Vec<ObjectName>),
    /// Cordons a node and waits until the scheduler has observed it.
    Cordon(usize),
    Uncordon(usize),
    /// Adds the taint `gangs.test/taint` to a node and waits until the scheduler has observed it.
    Taint(usize),
    Untaint(usize),
    /// Records UID and resource version of an object.
    Remember(ObjectName),
    /// Asserts that the object has the recorded UID and resource version.
    Untouched(ObjectName),
    /// Asserts that the object has the recorded UID.
    Same(ObjectName),
    /// Waits until all these pods are bound.
    Bound(Vec<String>),
    /// Waits until exactly `count` of these pods are bound.
    BoundOf {
        count: usize,
        pods: Vec<String>,
    },
    /// Waits until exactly `count` of these groups are bound completely and no pod of the others is bound.
    Whole {
        count: usize,
        /// The pods of each group.
        of: Vec<Vec<String>>,
    },
    /// Waits until exactly `count` pods of a JobSet are bound and active.
    Placed {
        set: String,
        count: usize,
    },
    /// Waits until these pods have terminated.
    Ended(Vec<String>),
    /// Waits until a JobSet has this terminal state.
    Finished {
        set: String,
        r#as: String,
    },
    /// Waits until exactly these objects exist.
    Just {
        #[serde(default)]
        workloads: Vec<String>,
        #[serde(default)]
        groups: Vec<String>,
    },
    /// Waits until exactly `count` of these pods exist; all of them must be bound and not terminating.
    Left {
        count: usize,
        pods: Vec<String>,
    },
    /// Asserts that these objects exist and are not terminating.
    There(Vec<ObjectName>),
    /// Asserts that none of these pods is bound now.
    Unbound(Vec<String>),
    /// Waits until these pods have a `PodScheduled` condition with this reason and message.
    Waits {
        pods: Vec<String>,
        #[serde(default = "unschedulable")]
        reason: String,
        says: String,
    },
    /// Waits until the condition of a PodGroup has this status, reason and message.
    Status {
        group: String,
        /// `True`, `False` or `Unknown`.
        is: String,
        /// Reason as in the KEP; any when absent.
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        says: String,
        #[serde(default)]
        pods: Option<i64>,
    },
    /// Waits until the PodGroup has the condition `DisruptionTarget`.
    Disrupted(String),
    /// Asserts that the nodes of these pods have the same value of a label.
    Share {
        label: String,
        pods: Vec<String>,
    },
    /// Waits until these objects are deleted.
    Gone(Vec<ObjectName>),
    /// Waits until this object has a deletion timestamp and still exists.
    Going(ObjectName),
    /// Asserts that no `FailedScheduling` event exists for these pods.
    NeverTried(Vec<String>),
}

fn default_template() -> String {
    "t".to_owned()
}

fn unschedulable() -> String {
    "Unschedulable".to_owned()
}

/// Reads all scenarios of a directory and expands their `each` steps.
pub fn load(folder: &Path) -> Result<Vec<GangScenario>, String> {
    let all = yaml_documents::load_with_files(folder)?;
    let mut all: Vec<GangScenario> = all.into_iter().map(|(file, it)| GangScenario { file, ..it }).collect();
    for scenario in &mut all {
        scenario.steps = expand_rounds(&scenario.steps).map_err(|e| format!("{}: {e}", scenario.name))?;
    }
    Ok(all)
}

fn expand_rounds(steps: &[GangStep]) -> Result<Vec<GangStep>, String> {
    let mut all = Vec::new();
    for step in steps {
        let GangStep::Each { times, steps } = step else {
            all.push(step.clone());
            continue;
        };
        for round in 0..*times {
            let text = steps.to_json().replace('#', &round.to_string());
            let steps = Tree::parse(text.as_bytes()).map_err(|e| e.to_string())?;
            let steps: Vec<GangStep> = from_tree(&steps).map_err(|e| e.to_string())?;
            all.extend(steps);
        }
    }
    Ok(all)
}
