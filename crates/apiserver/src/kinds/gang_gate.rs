//! Which kinds and fields of gangs are served, and what becomes of the others.
//!
//! Groups come in two generations. Those inside a Workload, which a pod names by `workloadRef.podGroup`, need the Workload
//! alone; PodGroups with an object of their own need both kinds. A server without a kind answers as if it had never
//! heard of it, and drops the fields of new pods and templates that only make sense with it. What is stored stays: objects
//! unseen, fields as they are, until the kind is served again.

use muster_tree::{Text, Tree};

use crate::registry::{Resource, storage_name};

/// The group of both kinds.
const GROUP: &str = "scheduling.k8s.io";
/// The kinds by their plural names.
const WORKLOADS: &str = "workloads";
const GROUPS: &str = "podgroups";

/// Which kinds of gangs are served, with the fields of pods that belong to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gangs {
    /// Workloads, and the groups inside them.
    pub workloads: bool,
    /// PodGroups, which need Workloads.
    pub groups: bool,
}

impl Default for Gangs {
    fn default() -> Self {
        Self { workloads: true, groups: true }
    }
}

impl Gangs {
    /// Whether a built-in resource is served.
    #[must_use]
    pub fn serve(&self, resource: &Resource) -> bool {
        match (resource.group.as_str(), resource.plural.as_str()) {
            (GROUP, WORKLOADS) => self.workloads,
            (GROUP, GROUPS) => self.workloads && self.groups,
            _ => true,
        }
    }

    /// Storage names of the kinds that are served.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Text> {
        let served = [(WORKLOADS, self.workloads), (GROUPS, self.workloads && self.groups)];
        served.into_iter().filter(|(_, on)| *on).map(|(plural, _)| storage_name(GROUP, plural))
    }

    /// An object on its way in without the fields that are not served, unless the `live` one has them already.
    pub(crate) fn without_fields(&self, resource: &Resource, tree: Tree, live: Option<&Tree>) -> Tree {
        if self.workloads && self.groups {
            return tree;
        }
        let Some(path) = pod_spec(&resource.group, &resource.plural) else {
            return tree;
        };
        let Some(spec) = tree.at(path) else {
            return tree;
        };
        let has =
            |key: &str| live.is_some_and(|live| live.at(path).is_some_and(|spec| spec.get(key).is_some()));
        let is_legacy = self.workloads && spec.get("workloadRef").is_some_and(is_legacy);
        let kept = spec.map_entries(|key, value| {
            let dropped = match key.as_str() {
                "workloadRef" => !is_legacy,
                "schedulingGroup" => true,
                _ => false,
            };
            (!dropped || has(key)).then(|| value.clone())
        });
        if kept.same_branch(spec) { tree } else { tree.with(path, kept) }
    }
}

/// Whether a pod names a group inside the Workload.
fn is_legacy(reference: &Tree) -> bool {
    reference.str_at(&["podGroupName"]).is_empty() && !reference.str_at(&["podGroup"]).is_empty()
}

/// Where a kind has the spec of a pod.
fn pod_spec(group: &str, plural: &str) -> Option<&'static [&'static str]> {
    Some(match (group, plural) {
        ("", "pods") => &["spec"],
        ("", "podtemplates") => &["template", "spec"],
        ("", "replicationcontrollers")
        | ("batch", "jobs")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => {
            &["spec", "template", "spec"]
        }
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return None,
    })
}
