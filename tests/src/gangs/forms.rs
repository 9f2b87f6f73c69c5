//! How each plane spells Workloads, groups and membership.

use muster_tree::{Tree, tree};
use serde::Deserialize;

use super::scenario::{Group, Policy, Spelled};

/// How a plane spells gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// The embedded server: the proposal's own.
    Embedded,
    /// A real server whose gate is on.
    Native,
    /// A real server whose gate is off: definitions of ours, and marks on pods.
    Own,
}

/// The label and the annotations by which pods are marked where there is no field.
const MARK: &str = "scheduling.muster.dev/pod-group";
const MARK_WORKLOAD: &str = "scheduling.muster.dev/workload";

impl Form {
    /// Group and version.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            Form::Embedded => "scheduling.k8s.io/v1alpha1",
            Form::Native => "scheduling.k8s.io/v1beta1",
            Form::Own => "scheduling.muster.dev/v1alpha1",
        }
    }

    /// The condition that tells whether a group is placed.
    #[must_use]
    pub fn condition(self) -> &'static str {
        match self {
            Form::Native => "PodGroupInitiallyScheduled",
            _ => "PodGroupScheduled",
        }
    }

    /// A reason of the proposal in the words of this form.
    #[must_use]
    pub fn reason(self, reason: &str) -> &str {
        match (self, reason) {
            (Form::Native, "MinCountSatisfied") => "Scheduled",
            (Form::Native, "SchedulingTimeout") => "Unschedulable",
            _ => reason,
        }
    }

    /// Whether a group that is still looked at has a condition, and a count at all times.
    #[must_use]
    pub fn tells_more(self) -> bool {
        self != Form::Native
    }

    /// A template of a Workload.
    #[must_use]
    pub fn template(self, name: &str, policy: &Policy) -> Tree {
        let spelled = if self == Form::Native { "schedulingPolicy" } else { "policy" };
        tree!({"name": name}).with(&[spelled], union(policy)).merge(&rest(policy))
    }

    /// A PodGroup; `template` is what its template says, which one form copies.
    #[must_use]
    pub fn group(self, group: &Group, template: &Policy) -> Tree {
        let copied = (self == Form::Native).then_some(template);
        let own = group.policy.as_ref().or(copied).map_or_else(Tree::empty_map, |policy| {
            tree!({"schedulingPolicy": union(policy)}).merge(&rest(policy))
        });
        let spec = if group.workload.is_empty() { own } else { self.reference(group).merge(&own) };
        let notes = Tree::map(group.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        tree!({"apiVersion": self.version(), "kind": "PodGroup",
            "metadata": {"name": group.name.as_str(), "annotations": notes}, "spec": spec})
    }

    /// How a group names its Workload and its template.
    fn reference(self, group: &Group) -> Tree {
        let (workload, template) = (group.workload.as_str(), group.template.as_str());
        let named = tree!({"workloadRef": {"name": workload}});
        let word = tree!({"podGroupTemplateName": template});
        let reference = tree!({"podGroupTemplateRef": {"name": template}});
        match (self, group.spelled) {
            (Form::Native, _) => {
                tree!({"workloadRef": {"workloadName": workload, "templateName": template}})
            }
            (_, Spelled::Reference) => named.merge(&reference),
            (_, Spelled::Word) => named.merge(&word),
            (_, Spelled::Both) => named.merge(&word).merge(&reference),
        }
    }

    /// A pod as a member of a group; without a Workload where the group has none.
    #[must_use]
    pub fn member(self, pod: &Tree, workload: &str, group: &str) -> Tree {
        match self {
            Form::Embedded if !workload.is_empty() => {
                pod.with(&["spec", "workloadRef"], tree!({"name": workload, "podGroupName": group}))
            }
            Form::Embedded | Form::Native => {
                pod.with(&["spec", "schedulingGroup"], tree!({"podGroupName": group}))
            }
            Form::Own => {
                let marked = pod.with(&["metadata", "annotations", MARK], group);
                if workload.is_empty() {
                    return marked;
                }
                marked.with(&["metadata", "annotations", MARK_WORKLOAD], workload)
            }
        }
    }
}

fn union(policy: &Policy) -> Tree {
    match policy.min {
        Some(min) => tree!({"gang": {"minCount": min}}),
        None => tree!({"basic": {}}),
    }
}

/// What stands beside the policy, spelled alike everywhere.
fn rest(policy: &Policy) -> Tree {
    let mut rest = Tree::empty_map();
    if policy.all_go {
        rest = rest.with(&["disruptionMode"], tree!({"all": {}}));
    }
    if let Some(key) = &policy.topology {
        rest = rest.with(&["schedulingConstraints"], tree!({"topology": [{"key": key.as_str()}]}));
    }
    if let Some(class) = &policy.priority {
        rest = rest.with(&["priorityClassName"], class.as_str());
    }
    rest
}
