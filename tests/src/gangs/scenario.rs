//! Scenarios of gangs as they stand in the YAML files, in words that no form of the API has.

use std::collections::BTreeMap;
use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use super::forms::Form;
use crate::documents;

/// What happens to groups and their pods, and what is to be seen of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file it stands in, without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it shows, as a sentence.
    pub name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// The planes on which it can be played; all, unless said otherwise.
    #[serde(default)]
    pub on: Vec<Form>,
    /// Its nodes. Nobody else's pods are on them, and its pods are nowhere else.
    pub nodes: Vec<Nodes>,
    /// What happens and what is waited for, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Whether it can be played where groups are spelled so.
    #[must_use]
    pub fn plays_on(&self, form: Form) -> bool {
        self.on.is_empty() || self.on.contains(&form)
    }
}

/// Nodes that are alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nodes {
    /// How many.
    #[serde(default = "one")]
    pub count: usize,
    /// How many CPUs each has.
    pub cpu: u32,
    /// Whether they are there only after they were told to join.
    #[serde(default)]
    pub later: bool,
    /// Their labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

fn one() -> usize {
    1
}

/// How a group is to be placed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// So many or none; each for itself when absent.
    #[serde(default)]
    pub min: Option<i64>,
    /// The whole group goes when a member has to.
    #[serde(default)]
    pub all_go: bool,
    /// The node label whose value all members share.
    #[serde(default)]
    pub topology: Option<String>,
    /// The priority class of the group itself.
    #[serde(default)]
    pub priority: Option<String>,
}

/// How a group names its template, in the form that has two ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spelled {
    /// By a reference.
    #[default]
    Reference,
    /// By a plain word.
    Word,
    /// By both.
    Both,
}

/// A group and what it is made of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Its Workload; none when empty.
    #[serde(default)]
    pub workload: String,
    /// The template there.
    #[serde(default)]
    pub template: String,
    /// How the template is named.
    #[serde(default)]
    pub spelled: Spelled,
    /// A policy of its own, whatever the template says.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// The Job that owns it.
    #[serde(default)]
    pub owner: Option<String>,
}

/// Pods that are alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pods {
    /// Their names.
    pub names: Vec<String>,
    /// Their group.
    #[serde(default)]
    pub group: Option<String>,
    /// The Workload they name, where that is another than the group's.
    #[serde(default)]
    pub workload: Option<String>,
    /// The group of the scheduler plugin that they belong to.
    #[serde(default)]
    pub coscheduling: Option<String>,
    /// The group of Volcano that they belong to.
    #[serde(default)]
    pub volcano: Option<String>,
    /// The CPUs that each asks for.
    #[serde(default = "one_each")]
    pub cpu: u32,
    /// Their priority class.
    #[serde(default)]
    pub priority: Option<String>,
    /// Whether they have a scheduling gate.
    #[serde(default)]
    pub gated: bool,
    /// How long they run; for ever when absent.
    #[serde(default)]
    pub runs_secs: Option<u32>,
    /// What they end with.
    #[serde(default)]
    pub exit: u8,
    /// The port of their node that they want.
    #[serde(default)]
    pub port: Option<u32>,
    /// The claim that they use.
    #[serde(default)]
    pub claim: Option<String>,
    /// The node they are given by their maker: the number of it.
    #[serde(default)]
    pub node: Option<usize>,
    /// The rest of their spec.
    #[serde(default)]
    pub spec: Tree,
    /// The Job that owns them.
    #[serde(default)]
    pub owner: Option<String>,
}

fn one_each() -> u32 {
    1
}

/// A JobSet whose pods run on the nodes of the scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Its name.
    pub name: String,
    /// Which of its pods are a gang.
    #[serde(default)]
    pub gang: Option<String>,
    /// Its replicatedJobs, by name.
    pub jobs: BTreeMap<String, Jobs>,
    /// The rest of its spec.
    #[serde(default)]
    pub spec: Tree,
}

/// Jobs of a JobSet that are alike.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// How many.
    #[serde(default = "one_each")]
    pub replicas: u32,
    /// How many pods each has.
    #[serde(default = "one_each")]
    pub pods: u32,
    /// The CPUs that each pod asks for.
    #[serde(default = "one_each")]
    pub cpu: u32,
    /// How long they run; for ever when absent.
    #[serde(default)]
    pub runs_secs: Option<u32>,
    /// What they end with.
    #[serde(default)]
    pub exit: u8,
    /// The replicatedJob whose pods are ready first.
    #[serde(default)]
    pub after: Option<String>,
}

/// Something of a scenario, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Named {
    /// A pod.
    Pod(String),
    /// A group.
    Group(String),
    /// A Workload.
    Workload(String),
    /// A Job.
    Job(String),
    /// A JobSet.
    Set(String),
    /// A node, by its number.
    Node(usize),
}

/// One thing that is done, or that is waited for.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Makes a Workload.
    Workload {
        /// Its name.
        name: String,
        /// Its templates, by name.
        templates: BTreeMap<String, Policy>,
        /// The Job that owns it.
        #[serde(default)]
        owner: Option<String>,
    },
    /// Makes a PodGroup.
    Group(Group),
    /// Makes a Workload and a PodGroup of one name: the template is called `t`.
    Gang {
        /// The name of both.
        name: String,
        /// What the template says.
        policy: Policy,
    },
    /// Makes a group of the scheduler plugin.
    Coscheduling {
        /// Its name.
        name: String,
        /// `minMember`.
        min: i64,
        /// `scheduleTimeoutSeconds`.
        #[serde(default)]
        timeout_secs: Option<i64>,
    },
    /// Makes a group of Volcano.
    Volcano {
        /// Its name.
        name: String,
        /// `minMember`.
        min: i64,
    },
    /// Makes a Job that makes no pods, to own something.
    Job(String),
    /// Makes a JobSet.
    Set(Set),
    /// Makes a claim that only one pod at a time can use, and the volume for it.
    Claim(String),
    /// Makes a budget that would let none of these pods go.
    Budget(Vec<String>),
    /// Makes pods, in this order.
    Pods(Pods),
    /// Another number for a template, and for all groups that have a copy of it.
    Min {
        /// The Workload.
        workload: String,
        /// The template.
        #[serde(default = "usual_template")]
        template: String,
        /// The number.
        to: i64,
    },
    /// Changes something by a merge patch.
    Patch {
        /// What.
        of: Named,
        /// The patch.
        with: Tree,
    },
    /// The nodes that come later come.
    Join,
    /// The same steps again and again: `#` in them is the number of the round, from 0.
    Each {
        /// How often.
        times: usize,
        /// What.
        steps: Tree,
    },
    /// Takes the gates away.
    Ungate(Vec<String>),
    /// Deletes these.
    Delete(Vec<Named>),
    /// The node takes no more pods, and the scheduler has heard of it.
    Cordon(usize),
    /// The node takes pods again.
    Uncordon(usize),
    /// The node takes only pods that tolerate `gangs.test/taint`, and the scheduler has heard of it.
    Taint(usize),
    /// The node takes all pods again.
    Untaint(usize),
    /// Notes what something is now.
    Remember(Named),
    /// It is the very same object and nobody has written it since.
    Untouched(Named),
    /// It is the very same object.
    Same(Named),
    /// Waits until all of these have nodes.
    Bound(Vec<String>),
    /// Waits until so many of these have nodes.
    BoundOf {
        /// How many.
        count: usize,
        /// Of these.
        pods: Vec<String>,
    },
    /// Waits until so many of these groups of pods have nodes, all their pods; no pod of the others has one.
    Whole {
        /// How many.
        count: usize,
        /// The pods of each.
        of: Vec<Vec<String>>,
    },
    /// Waits until so many pods of a JobSet have nodes, and have not ended.
    Placed {
        /// The JobSet.
        set: String,
        /// How many.
        count: usize,
    },
    /// Waits until these pods have ended.
    Ended(Vec<String>),
    /// Waits until a JobSet has ended so.
    Finished {
        /// The JobSet.
        set: String,
        /// `Completed` or `Failed`.
        r#as: String,
    },
    /// Waits until there are just these.
    Just {
        /// All Workloads.
        #[serde(default)]
        workloads: Vec<String>,
        /// All groups.
        #[serde(default)]
        groups: Vec<String>,
    },
    /// Waits until so many of these are there, with nodes; the others are gone.
    Left {
        /// How many.
        count: usize,
        /// Of these.
        pods: Vec<String>,
    },
    /// These are there and stay.
    There(Vec<Named>),
    /// None of these has a node now.
    Unbound(Vec<String>),
    /// Waits until the condition of these pods says why they have no node.
    Waits {
        /// Which.
        pods: Vec<String>,
        /// The reason.
        #[serde(default = "unschedulable")]
        reason: String,
        /// A part of the message.
        says: String,
    },
    /// Waits until the group's condition is so.
    Status {
        /// Which.
        group: String,
        /// `True`, `False` or `Unknown`.
        is: String,
        /// The reason, in the proposal's words; any when absent.
        #[serde(default)]
        reason: Option<String>,
        /// A part of the message.
        #[serde(default)]
        says: String,
        /// `scheduledPods`.
        #[serde(default)]
        pods: Option<i64>,
    },
    /// Waits until the group is the target of a disruption.
    Disrupted(String),
    /// All of these, which have nodes, are on nodes with one value of this label.
    Share {
        /// The label.
        label: String,
        /// The pods.
        pods: Vec<String>,
    },
    /// Waits until these are gone.
    Gone(Vec<Named>),
    /// Waits until this is to go, and is still there.
    Going(Named),
    /// Nobody has said of these pods yet that they could not be placed.
    NeverTried(Vec<String>),
}

fn usual_template() -> String {
    "t".to_owned()
}

fn unschedulable() -> String {
    "Unschedulable".to_owned()
}

/// All scenarios of a folder, with every round of what they repeat.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, String> {
    let all = documents::load_with_files(folder)?;
    let mut all: Vec<Scenario> = all.into_iter().map(|(file, it)| Scenario { file, ..it }).collect();
    for scenario in &mut all {
        scenario.steps = unrolled(&scenario.steps).map_err(|e| format!("{}: {e}", scenario.name))?;
    }
    Ok(all)
}

fn unrolled(steps: &[Step]) -> Result<Vec<Step>, String> {
    let mut all = Vec::new();
    for step in steps {
        let Step::Each { times, steps } = step else {
            all.push(step.clone());
            continue;
        };
        for round in 0..*times {
            let text = steps.to_json().replace('#', &round.to_string());
            let steps = Tree::parse(text.as_bytes()).map_err(|e| e.to_string())?;
            let steps: Vec<Step> = from_tree(&steps).map_err(|e| e.to_string())?;
            all.extend(steps);
        }
    }
    Ok(all)
}
