//! The group that a pod names.

use muster_tree::{Text, Tree};

use crate::consts::gang as consts;
use crate::meta;
use crate::paths::pod as path;

/// Which ways of naming a PodGroup the scheduler honours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnabledMarkers {
    /// PodGroups of the server's API.
    pub groups: bool,
    /// Inline PodGroups of a Workload (Kubernetes 1.35).
    pub entries: bool,
    /// The label of the coscheduling plugin.
    pub coscheduling: bool,
    /// The annotation of Volcano.
    pub volcano: bool,
}

impl EnabledMarkers {
    /// No marker is honoured: every pod is scheduled alone.
    pub const NONE: EnabledMarkers =
        EnabledMarkers { groups: false, entries: false, coscheduling: false, volcano: false };
}

impl Default for EnabledMarkers {
    /// Every marker is honoured.
    fn default() -> EnabledMarkers {
        EnabledMarkers { groups: true, entries: true, coscheduling: true, volcano: true }
    }
}

/// The identity of a group within a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupId {
    /// A PodGroup of the server's API, by name.
    Native(Text),
    /// An inline PodGroup of a Workload, of which there may be replicas.
    Entry {
        /// Name of the Workload.
        workload: Text,
        /// Name of the inline PodGroup.
        entry: Text,
        /// Replica key of the inline PodGroup.
        replica: Text,
    },
    /// A PodGroup of the coscheduling plugin, by name.
    Coscheduling(Text),
    /// A PodGroup of Volcano, by name.
    Volcano(Text),
}

impl GroupId {
    /// The scheduler's key of the group. Prefixes contain a slash or a colon, which object names cannot, so keys of
    /// different APIs never collide.
    #[must_use]
    pub fn key(&self) -> Text {
        match self {
            GroupId::Native(name) => name.clone(),
            GroupId::Entry { workload, entry, replica } => {
                Text::from(format!("{workload}/{entry}/{replica}"))
            }
            GroupId::Coscheduling(name) => Text::from(format!("x-k8s:{name}")),
            GroupId::Volcano(name) => Text::from(format!("volcano:{name}")),
        }
    }
}

/// The group that a pod names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMembership {
    /// Identity of the group.
    pub group: GroupId,
    /// The Workload that the pod names besides its group.
    pub workload: Option<Text>,
}

impl GroupMembership {
    /// Reads the group of a pod; `None` without one. Precedence: spec fields, Muster's annotations, an inline PodGroup,
    /// coscheduling, Volcano.
    #[must_use]
    pub fn of(pod: &Tree, reads: EnabledMarkers) -> Option<GroupMembership> {
        let native = || of_field(pod).or_else(|| of_annotations(pod));
        let mark = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(Text::from);
        let alone = |belongs: GroupId| GroupMembership { group: belongs, workload: None };
        let found = if reads.groups { native() } else { None };
        let found = found.or_else(|| if reads.entries { of_entry(pod) } else { None });
        let found = found.or_else(|| {
            let name = mark(meta::label(pod, consts::COSCHEDULING)).filter(|_| reads.coscheduling)?;
            Some(alone(GroupId::Coscheduling(name)))
        });
        found.or_else(|| {
            let name = mark(meta::annotation(pod, consts::VOLCANO)).filter(|_| reads.volcano)?;
            Some(alone(GroupId::Volcano(name)))
        })
    }
}

fn of_field(pod: &Tree) -> Option<GroupMembership> {
    let said = |at| Some(pod.text_at(at)).filter(|name| !name.is_empty());
    let group = said(path::WORKLOAD_GROUP).or_else(|| said(path::SCHEDULING_GROUP))?;
    Some(GroupMembership { group: GroupId::Native(group), workload: said(path::WORKLOAD) })
}

fn of_annotations(pod: &Tree) -> Option<GroupMembership> {
    let said = |name| meta::annotation(pod, name).filter(|value| !value.is_empty()).map(Text::from);
    // A spec field that names an inline PodGroup takes precedence over annotations.
    if !pod.str_at(path::WORKLOAD_ENTRY).is_empty() {
        return None;
    }
    Some(GroupMembership {
        group: GroupId::Native(said(consts::POD_GROUP)?),
        workload: said(consts::WORKLOAD),
    })
}

fn of_entry(pod: &Tree) -> Option<GroupMembership> {
    let (workload, entry) = (pod.text_at(path::WORKLOAD), pod.text_at(path::WORKLOAD_ENTRY));
    // A pod that names a PodGroup is not a member of an inline one, even if PodGroups are not honoured.
    if workload.is_empty() || entry.is_empty() || !pod.str_at(path::WORKLOAD_GROUP).is_empty() {
        return None;
    }
    let replica = pod.text_at(path::WORKLOAD_REPLICA);
    Some(GroupMembership {
        workload: Some(workload.clone()),
        group: GroupId::Entry { workload, entry, replica },
    })
}
