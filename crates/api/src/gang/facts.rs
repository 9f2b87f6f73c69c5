//! Typed views of Workloads and PodGroups of every API.

use std::time::Duration;

use muster_tree::{Text, Tree};

use super::PodGroupApi;
use crate::client::Uid;
use crate::consts::gang as consts;
use crate::meta;
use crate::paths::{
    group_policy, group_template, group_terms, group_topology, meta as meta_path, pod_group, released_group,
    workload,
};

/// Paths of APIs that the embedded server does not serve; table tests check them instead of the schema test.
mod path {
    /// Workload of a PodGroup of Kubernetes 1.36.
    pub const EARLIER_WORKLOAD: &[&str] = &["spec", "podGroupTemplateRef", "workload", "workloadName"];
    /// Template of a PodGroup of Kubernetes 1.36.
    pub const EARLIER_TEMPLATE: &[&str] =
        &["spec", "podGroupTemplateRef", "workload", "podGroupTemplateName"];
    /// `minCount` of coscheduling and Volcano.
    pub const MIN_MEMBER: &[&str] = &["spec", "minMember"];
    /// Scheduling timeout of coscheduling.
    pub const TIMEOUT: &[&str] = &["spec", "scheduleTimeoutSeconds"];
}

/// The scheduling policy of a PodGroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// Pods are scheduled one by one.
    Basic,
    /// At least `minCount` pods are scheduled together, or none.
    Gang {
        /// `minCount`, at least 1.
        min: usize,
    },
}

impl SchedulingPolicy {
    /// Reads a policy; `None` if neither `basic` nor `gang` is set.
    #[must_use]
    pub fn of(tree: &Tree) -> Option<SchedulingPolicy> {
        if tree.at(group_policy::GANG).is_some() {
            let min = tree.int_at(group_policy::MIN).and_then(|min| usize::try_from(min).ok()).unwrap_or(0);
            return Some(SchedulingPolicy::Gang { min: min.max(1) });
        }
        tree.at(group_policy::BASIC).map(|_| SchedulingPolicy::Basic)
    }

    /// Number of bound pods that make the group schedulable; 1 for basic groups.
    #[must_use]
    pub fn min_count(self) -> usize {
        match self {
            SchedulingPolicy::Basic => 1,
            SchedulingPolicy::Gang { min } => min,
        }
    }
}

/// `disruptionMode`: the unit of preemption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisruptionMode {
    /// Pods are preempted one by one.
    Single,
    /// The PodGroup is preempted as a whole.
    All,
}

impl DisruptionMode {
    /// Reads the string or the object spelling; `None` if unset.
    fn of(terms: &Tree) -> Option<DisruptionMode> {
        match terms.str_at(group_terms::DISRUPTION) {
            "PodGroup" => return Some(DisruptionMode::All),
            "Pod" => return Some(DisruptionMode::Single),
            _ => {}
        }
        if terms.at(group_terms::DISRUPTION_ALL).is_some() {
            return Some(DisruptionMode::All);
        }
        terms.at(group_terms::DISRUPTION_SINGLE).map(|_| DisruptionMode::Single)
    }
}

/// Scheduling fields of a PodGroup or of its template; `None` means not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupSchedulingSpec {
    /// Read from `policy` or `schedulingPolicy`.
    pub policy: Option<SchedulingPolicy>,
    /// Both spellings of the policy are set and differ.
    pub conflicting_policies: bool,
    /// Priority of the group, if set.
    pub priority: Option<i64>,
    /// `preemptionPolicy` is not `Never`.
    pub preempts: Option<bool>,
    /// Unit of preemption, if set.
    pub disruption: Option<DisruptionMode>,
    /// Node label; all nodes of the group have the same value.
    pub topology: Option<Text>,
}

impl GroupSchedulingSpec {
    /// Reads the spec of a PodGroup or a template; a template may use either name of the policy.
    #[must_use]
    pub fn of(tree: &Tree) -> GroupSchedulingSpec {
        let policies = [group_template::POLICY, group_template::SCHEDULING_POLICY];
        let mut policies = policies.into_iter().filter_map(|at| tree.at(at)).filter_map(SchedulingPolicy::of);
        let (policy, other) = (policies.next(), policies.next());
        let preempts = match tree.str_at(group_terms::PREEMPTION) {
            "Never" => Some(false),
            "" => None,
            _ => Some(true),
        };
        let topology = tree.items_at(group_terms::TOPOLOGY).first().map(|it| it.text_at(group_topology::KEY));
        GroupSchedulingSpec {
            conflicting_policies: other.is_some() && other != policy,
            policy,
            priority: tree.int_at(group_terms::PRIORITY),
            preempts,
            disruption: DisruptionMode::of(tree),
            topology: topology.filter(|key| !key.is_empty()),
        }
    }

    /// Fills unset fields from `others`.
    #[must_use]
    pub fn or(self, others: &GroupSchedulingSpec) -> GroupSchedulingSpec {
        GroupSchedulingSpec {
            conflicting_policies: self.policy.is_none() && others.conflicting_policies,
            policy: self.policy.or(others.policy),
            priority: self.priority.or(others.priority),
            preempts: self.preempts.or(others.preempts),
            disruption: self.disruption.or(others.disruption),
            topology: self.topology.or_else(|| others.topology.clone()),
        }
    }
}

/// The fields of a `scheduling.k8s.io` Workload that the scheduler reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangWorkloadFacts {
    /// UID of the Workload object.
    pub uid: Uid,
    /// PodGroup templates and inline PodGroups, by name.
    pub templates: Vec<(Text, GroupSchedulingSpec)>,
}

impl GangWorkloadFacts {
    /// Reads a Workload of any API.
    #[must_use]
    pub fn of(tree: &Tree) -> GangWorkloadFacts {
        let lists = [tree.items_at(workload::TEMPLATES), tree.items_at(workload::ENTRIES)];
        let one = |it: &Tree| (it.text_at(group_template::NAME), GroupSchedulingSpec::of(it));
        GangWorkloadFacts { uid: meta::uid(tree), templates: lists.into_iter().flatten().map(one).collect() }
    }

    /// The scheduling fields of a template.
    #[must_use]
    pub fn template(&self, name: &str) -> Option<&GroupSchedulingSpec> {
        self.templates.iter().find(|(its, _)| its == name).map(|(_, terms)| terms)
    }
}

/// The template that a PodGroup was created from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateReference {
    /// Name of the Workload.
    pub workload: Text,
    /// Namespace of the Workload; empty means that of the PodGroup.
    pub namespace: Text,
    /// UID of the Workload; empty accepts any.
    pub uid: Uid,
    /// Name of the template.
    pub template: Text,
}

/// The fields of a PodGroup that the scheduler reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a PodGroup")]
pub struct PodGroupFacts {
    /// The API that the PodGroup belongs to.
    pub api: PodGroupApi,
    pub namespace: Text,
    pub uid: Uid,
    pub generation: Option<i64>,
    /// Template reference, if there is one.
    pub reference: Option<TemplateReference>,
    /// Scheduling fields of the PodGroup itself.
    pub spec: GroupSchedulingSpec,
    /// Scheduling timeout, from the first attempt.
    pub deadline: Option<Duration>,
}

impl PodGroupFacts {
    /// Reads a PodGroup of this API.
    #[must_use]
    pub fn of(origin: PodGroupApi, tree: &Tree) -> PodGroupFacts {
        let foreign = matches!(origin, PodGroupApi::Coscheduling | PodGroupApi::Volcano);
        PodGroupFacts {
            api: origin,
            namespace: meta::namespace(tree),
            uid: meta::uid(tree),
            generation: tree.int_at(meta_path::GENERATION),
            reference: reference(origin, tree),
            spec: if foreign { foreign_terms(tree) } else { native_terms(tree) },
            deadline: deadline(origin, tree),
        }
    }
}

fn reference(origin: PodGroupApi, tree: &Tree) -> Option<TemplateReference> {
    let (workload, templates): (_, &[_]) = match origin {
        PodGroupApi::Proposal | PodGroupApi::Own => {
            (pod_group::WORKLOAD, &[pod_group::TEMPLATE, pod_group::TEMPLATE_NAME])
        }
        PodGroupApi::Released => (released_group::WORKLOAD, &[released_group::TEMPLATE]),
        PodGroupApi::Earlier => (path::EARLIER_WORKLOAD, &[path::EARLIER_TEMPLATE]),
        PodGroupApi::Coscheduling | PodGroupApi::Volcano => return None,
    };
    let workload = tree.text_at(workload);
    let template = templates.iter().map(|at| tree.text_at(at)).find(|name| !name.is_empty());
    (!workload.is_empty()).then(|| TemplateReference {
        workload,
        namespace: tree.text_at(pod_group::WORKLOAD_NAMESPACE),
        uid: tree.text_at(pod_group::WORKLOAD_UID),
        template: template.unwrap_or_default(),
    })
}

fn native_terms(tree: &Tree) -> GroupSchedulingSpec {
    tree.get("spec").map(GroupSchedulingSpec::of).unwrap_or_default()
}

/// PodGroups of coscheduling and Volcano are always gangs.
fn foreign_terms(tree: &Tree) -> GroupSchedulingSpec {
    let min = tree.int_at(path::MIN_MEMBER).and_then(|min| usize::try_from(min).ok()).unwrap_or(0);
    GroupSchedulingSpec {
        policy: Some(SchedulingPolicy::Gang { min: min.max(1) }),
        ..GroupSchedulingSpec::default()
    }
}

fn deadline(origin: PodGroupApi, tree: &Tree) -> Option<Duration> {
    let secs = match origin {
        PodGroupApi::Coscheduling => tree.int_at(path::TIMEOUT),
        _ => meta::annotation(tree, consts::DEADLINE).and_then(|text| text.parse().ok()),
    };
    secs.and_then(|secs| u64::try_from(secs).ok()).filter(|secs| *secs > 0).map(Duration::from_secs)
}
