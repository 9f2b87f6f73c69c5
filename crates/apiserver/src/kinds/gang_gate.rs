//! Feature gates of the gang scheduling APIs: which kinds and fields are served.
//!
//! Two generations of pod groups exist. Groups inside a Workload, which pods name by `workloadRef.podGroup`, need the
//! Workload kind only; PodGroup objects need both kinds. With a gate off, the kind is unknown to clients, and its
//! fields are dropped from new pods and templates. Stored data stays: objects hidden, fields unchanged, until the
//! gate is on again.

use muster_tree::{Text, Tree};

use crate::registry::{Resource, storage_name};

/// The API group of both kinds.
const GROUP: &str = "scheduling.k8s.io";
const WORKLOADS: &str = "workloads";
const GROUPS: &str = "podgroups";

/// The gates: served kinds, with the pod fields that belong to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GangFeatures {
    /// Serve Workloads and the groups inside them.
    pub workloads: bool,
    /// Serve PodGroups; requires `workloads`.
    pub groups: bool,
}

impl Default for GangFeatures {
    fn default() -> Self {
        Self { workloads: true, groups: true }
    }
}

impl GangFeatures {
    /// Whether a resource passes the gates.
    #[must_use]
    pub fn serve(&self, resource: &Resource) -> bool {
        match (resource.group.as_str(), resource.plural.as_str()) {
            (GROUP, WORKLOADS) => self.workloads,
            (GROUP, GROUPS) => self.workloads && self.groups,
            _ => true,
        }
    }

    /// Storage names of the served kinds.
    pub(crate) fn stored(&self) -> impl Iterator<Item = Text> {
        let served = [(WORKLOADS, self.workloads), (GROUPS, self.workloads && self.groups)];
        served.into_iter().filter(|(_, on)| *on).map(|(plural, _)| storage_name(GROUP, plural))
    }

    /// Drops gated fields of a written object, unless the `live` one has them already (as upstream's
    /// dropDisabledFields).
    pub(crate) fn without_fields(&self, resource: &Resource, tree: Tree, live: Option<&Tree>) -> Tree {
        // The default: nothing is gated, so nothing is copied.
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
        // With PodGroups off, references to groups inside a Workload still work.
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

/// Whether a pod refers to a group inside a Workload.
fn is_legacy(reference: &Tree) -> bool {
    reference.str_at(&["podGroupName"]).is_empty() && !reference.str_at(&["podGroup"]).is_empty()
}

/// The path of the pod spec in a kind.
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
