//! The API variants for Workloads, PodGroups and membership.

use muster_tree::{Tree, tree};
use serde::Deserialize;

use super::scenario::{GroupPolicy, PodGroupSpec, TemplateRefForm};

/// The gang scheduling API of a control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GangApiVariant {
    /// `scheduling.k8s.io/v1alpha1` of the KEP, served by the embedded server.
    Embedded,
    /// `scheduling.k8s.io/v1beta1`, served by kube-apiserver with the `GenericWorkload` feature gate.
    Native,
    /// `scheduling.muster.dev/v1alpha1`: our CRDs and pod annotations, on a server without the feature gate.
    Own,
}

/// Annotations for pod membership on servers without a pod field.
const MARK: &str = "scheduling.muster.dev/pod-group";
const MARK_WORKLOAD: &str = "scheduling.muster.dev/workload";

impl GangApiVariant {
    /// `apiVersion` of its objects.
    #[must_use]
    pub fn version(self) -> &'static str {
        match self {
            GangApiVariant::Embedded => "scheduling.k8s.io/v1alpha1",
            GangApiVariant::Native => "scheduling.k8s.io/v1beta1",
            GangApiVariant::Own => "scheduling.muster.dev/v1alpha1",
        }
    }

    /// Condition type that reports whether a PodGroup is scheduled.
    #[must_use]
    pub fn condition(self) -> &'static str {
        match self {
            GangApiVariant::Native => "PodGroupInitiallyScheduled",
            _ => "PodGroupScheduled",
        }
    }

    /// Maps a condition reason of the KEP to the reason in this variant.
    #[must_use]
    pub fn reason(self, reason: &str) -> &str {
        match (self, reason) {
            (GangApiVariant::Native, "MinCountSatisfied") => "Scheduled",
            (GangApiVariant::Native, "SchedulingTimeout") => "Unschedulable",
            _ => reason,
        }
    }

    /// Whether a PodGroup has a condition and a `scheduledPods` count before the scheduler has decided.
    #[must_use]
    pub fn reports_unknown(self) -> bool {
        self != GangApiVariant::Native
    }

    /// Builds a pod group template of a Workload.
    #[must_use]
    pub fn template(self, name: &str, policy: &GroupPolicy) -> Tree {
        let spelled = if self == GangApiVariant::Native { "schedulingPolicy" } else { "policy" };
        tree!({"name": name}).with(&[spelled], union(policy)).merge(&rest(policy))
    }

    /// Builds a PodGroup. `Native` copies the policy of its template.
    #[must_use]
    pub fn group(self, group: &PodGroupSpec, template: &GroupPolicy) -> Tree {
        let copied = (self == GangApiVariant::Native).then_some(template);
        let own = group.policy.as_ref().or(copied).map_or_else(Tree::empty_map, |policy| {
            tree!({"schedulingPolicy": union(policy)}).merge(&rest(policy))
        });
        let spec = if group.workload.is_empty() { own } else { self.reference(group).merge(&own) };
        let notes = Tree::map(group.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        tree!({"apiVersion": self.version(), "kind": "PodGroup",
            "metadata": {"name": group.name.as_str(), "annotations": notes}, "spec": spec})
    }

    /// Builds the reference from a PodGroup to its Workload and template.
    fn reference(self, group: &PodGroupSpec) -> Tree {
        let (workload, template) = (group.workload.as_str(), group.template.as_str());
        let named = tree!({"workloadRef": {"name": workload}});
        let word = tree!({"podGroupTemplateName": template});
        let reference = tree!({"podGroupTemplateRef": {"name": template}});
        match (self, group.spelled) {
            (GangApiVariant::Native, _) => {
                tree!({"workloadRef": {"workloadName": workload, "templateName": template}})
            }
            (_, TemplateRefForm::Reference) => named.merge(&reference),
            (_, TemplateRefForm::Word) => named.merge(&word),
            (_, TemplateRefForm::Both) => named.merge(&word).merge(&reference),
        }
    }

    /// Makes a pod a member of a PodGroup, which may have no Workload.
    #[must_use]
    pub fn member(self, pod: &Tree, workload: &str, group: &str) -> Tree {
        match self {
            GangApiVariant::Embedded if !workload.is_empty() => {
                pod.with(&["spec", "workloadRef"], tree!({"name": workload, "podGroupName": group}))
            }
            GangApiVariant::Embedded | GangApiVariant::Native => {
                pod.with(&["spec", "schedulingGroup"], tree!({"podGroupName": group}))
            }
            GangApiVariant::Own => {
                let marked = pod.with(&["metadata", "annotations", MARK], group);
                if workload.is_empty() {
                    return marked;
                }
                marked.with(&["metadata", "annotations", MARK_WORKLOAD], workload)
            }
        }
    }
}

fn union(policy: &GroupPolicy) -> Tree {
    match policy.min {
        Some(min) => tree!({"gang": {"minCount": min}}),
        None => tree!({"basic": {}}),
    }
}

/// The fields beside the policy, which are the same in all variants.
fn rest(policy: &GroupPolicy) -> Tree {
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
