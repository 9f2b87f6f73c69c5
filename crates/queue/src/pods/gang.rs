//! Gang scheduling of pod groups: creates the PodGroup and its Workload (`scheduling.k8s.io`) for an admitted
//! group.
//!
//! # Guarantees
//!
//! - Objects are created in order: Workload, PodGroup, ungating. Each waits until the previous one is observed.
//! - A gang that could never be complete is not created: workers created by a running driver are scheduled one by
//!   one, and pods that did not opt in or have succeeded are not counted.
//! - Both objects are owned by all pods of the group and are garbage-collected with the last one. Foreign objects
//!   are not used.

use muster_api::client::{ApiObject, Kind};
use muster_api::gang_objects::{
    self, GangOwner, GangSupport, MinCountUpdate, NewPodGroup, PodGroupMember as Mark, PodGroupTemplate,
    TemplatePolicy, consts, names,
};
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::pod::PodPhase;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::consts::{GROUP, TRUE, WORKLOAD, annotations};
use muster_api::queue::kinds::WORKLOADS;
use muster_tree::{Text, Tree, tree};

use super::group_metadata;

/// Everything a gang decision reads, taken at one instant.
#[derive(Debug, Clone, Copy)]
pub struct GangSnapshot<'a> {
    /// The gang API that the server supports.
    pub gangs: GangSupport,
    pub admitted: &'a WorkloadFacts,
    /// All pods of the group.
    pub pods: &'a [&'a Tree],
    /// The `scheduling.k8s.io` Workload with the group's name.
    pub workload: Option<&'a ApiObject>,
    pub group: Option<&'a ApiObject>,
}

/// The decision about the gang of a group.
#[derive(Debug, Clone, PartialEq)]
pub enum GangDecision {
    NotRequested,
    /// Create these objects; ungate after they are observed.
    CreateFirst(Vec<GangWrite>),
    /// Pods may be ungated; apply these updates.
    Ready(Vec<GangWrite>),
    /// A foreign object has the name; the message.
    NameConflict(String),
}

/// A write to a gang object.
#[derive(Debug, Clone, PartialEq)]
pub enum GangWrite {
    Make(&'static Kind, Tree),
    /// Merge patch, with the resourceVersion that was read.
    Patch(&'static Kind, ApiObject, Tree),
}

/// Whether a new pod opts into gang scheduling.
#[must_use]
pub fn requests_gang(pod: &Tree) -> bool {
    has_gang_annotation(pod) && meta::annotation(pod, annotations::POD_GROUP_SETS).is_none()
}

/// Whether the opt-in is ignored, since the pod declares its pod sets.
#[must_use]
pub fn is_gang_request_ignored(pod: &Tree) -> bool {
    has_gang_annotation(pod) && meta::annotation(pod, annotations::POD_GROUP_SETS).is_some()
}

fn has_gang_annotation(pod: &Tree) -> bool {
    meta::annotation(pod, consts::GANG) == Some(TRUE) && group_metadata::group_name(pod).is_some()
}

/// Adds the reference to its gang, unless the pod does not opt in or references another gang.
#[must_use]
pub fn with_gang(pod: &Tree, gangs: GangSupport) -> Tree {
    let named =
        group_metadata::group_name(pod).filter(|_| requests_gang(pod) && !gang_objects::names_group(pod));
    named.map_or_else(|| pod.clone(), |(group, _)| mark_of(&group).mark_template(gangs, pod))
}

fn mark_of(group: &Text) -> Mark {
    Mark { workload: group.clone(), template: names::label(group), group: group.clone(), group_uid: None }
}

/// Decides about the gang of an admitted group.
#[must_use]
pub fn reconcile(seen: &GangSnapshot<'_>) -> GangDecision {
    let Some(kind) = seen.gangs.api.groups() else { return GangDecision::NotRequested };
    let name = &seen.admitted.name;
    let (joined, others): (Vec<&Tree>, Vec<&Tree>) = seen
        .pods
        .iter()
        .partition(|pod| gang_objects::group_of(pod).as_ref() == Some(name) && requests_gang(pod));
    // No unscheduled pod is left: nothing to create. Creating it now would leave objects that no pod uses.
    if !joined.iter().any(|pod| !ended(pod) && meta::deletion_timestamp(pod).is_none()) {
        return GangDecision::NotRequested;
    }
    let look = GangReconciliation { seen, kind, joined, others };
    let Some(workload) = seen.workload else { return GangDecision::CreateFirst(vec![look.make_workload()]) };
    if !gang_objects::is_for(&workload.tree, GROUP, WORKLOAD, name) {
        return GangDecision::NameConflict(name_conflict_message(consts::WORKLOAD_KIND, name));
    }
    let Some(group) = seen.group else { return GangDecision::CreateFirst(vec![look.make_group(workload)]) };
    if gang_objects::workload_of(&group.tree) != *name {
        return GangDecision::NameConflict(name_conflict_message(consts::GROUP_KIND, name));
    }
    // Objects of a deleted group with this name are terminating: wait until they are deleted.
    if [workload, group].iter().any(|it| meta::deletion_timestamp(&it.tree).is_some()) {
        return GangDecision::CreateFirst(Vec::new());
    }
    let owners = [(seen.gangs.api.workloads(), workload), (kind, group)];
    let owners = owners.into_iter().filter_map(|(kind, object)| look.add_owners(kind, object));
    GangDecision::Ready(owners.chain(look.resize(workload, group)).collect())
}

fn name_conflict_message(word: &str, name: &Text) -> String {
    format!("{word} {name} is another's: the group of that name cannot be placed together and waits")
}

struct GangReconciliation<'a> {
    seen: &'a GangSnapshot<'a>,
    kind: &'static Kind,
    /// Pods that reference the gang.
    joined: Vec<&'a Tree>,
    /// All others of the group.
    others: Vec<&'a Tree>,
}

impl GangReconciliation<'_> {
    fn template(&self) -> PodGroupTemplate {
        let declared = |pod: &&&Tree| meta::annotation(pod, annotations::POD_GROUP_SETS).is_some();
        // Workers that a running driver creates never exist all at once: no gang, only grouping.
        let policy = match self.others.iter().any(|pod| declared(&pod)) {
            true => TemplatePolicy::Basic,
            false => TemplatePolicy::Gang { min: self.expected_pods().min(self.room()).max(1) },
        };
        let class = self.joined.first().map(|pod| pod.str_at(pod_path::PRIORITY_CLASS));
        // Such servers never schedule a pod with another priority than its group.
        // Only the API version with inline templates has the field.
        let class = class.filter(|it| !it.is_empty() && gang_objects::is_inline(self.seen.gangs.api));
        let more = Tree::empty_map().with_option(&["priorityClassName"], class.map(Tree::from));
        PodGroupTemplate { name: names::label(&self.seen.admitted.name), policy, passthrough: more }
    }

    /// The admitted pod count without pods that did not opt in.
    fn expected_pods(&self) -> u32 {
        let admitted = self.seen.admitted;
        let assignments = admitted.admission.iter().flat_map(|it| &it.assignments);
        let whole = |name: &str| admitted.pod_set(name).map_or(0, |set| set.count);
        let counts = assignments.map(|it| it.count.unwrap_or_else(|| whole(&it.name)));
        let alone = self.others.iter().filter(|pod| !ended(pod)).count();
        counts.sum::<u32>().saturating_sub(number(alone))
    }

    /// The pod count that can still be reached, without succeeded pods.
    fn room(&self) -> u32 {
        let done = self.joined.iter().filter(|pod| phase(pod) == PodPhase::Succeeded).count();
        self.expected_pods().saturating_sub(number(done))
    }

    fn maker(&self) -> GangOwner {
        let admitted = self.seen.admitted;
        GangOwner {
            api_version: meta::api_version(&WORKLOADS),
            kind: WORKLOAD,
            namespace: admitted.namespace.clone(),
            name: admitted.name.clone(),
            uid: admitted.uid.clone(),
        }
    }

    fn make_workload(&self) -> GangWrite {
        let form = self.seen.gangs.api;
        let object =
            gang_objects::workload(form, &self.maker(), &self.seen.admitted.name, &[self.template()]);
        GangWrite::Make(form.workloads(), object.with(meta_path::OWNERS, self.owners([])))
    }

    fn make_group(&self, workload: &ApiObject) -> GangWrite {
        let (form, name) = (self.seen.gangs.api, &self.seen.admitted.name);
        let new = NewPodGroup {
            name,
            workload: name,
            workload_uid: Some(&meta::uid(&workload.tree)),
            template: &self.template(),
            labels: Tree::empty_map(),
        };
        let object = gang_objects::group(form, &self.maker(), &new);
        // The first owner is replaced by the pods.
        let rest = object.items_at(meta_path::OWNERS).iter().skip(1).cloned().collect::<Vec<_>>();
        GangWrite::Make(self.kind, object.with(meta_path::OWNERS, self.owners(rest)))
    }

    fn owners(&self, beside: impl IntoIterator<Item = Tree>) -> Tree {
        let living =
            self.seen.pods.iter().filter(|pod| !ended(pod) && meta::deletion_timestamp(pod).is_none());
        Tree::list(living.map(|pod| owner(pod)).chain(beside))
    }

    /// Adds missing owner references.
    fn add_owners(&self, kind: &'static Kind, object: &ApiObject) -> Option<GangWrite> {
        let known: Vec<_> = meta::owner_references(&object.tree).map(|it| it.uid).collect();
        let new: Vec<Tree> = self
            .owners([])
            .items()
            .iter()
            .filter(|it| !known.iter().any(|uid| **uid == *it.str_at(&["uid"])))
            .cloned()
            .collect();
        if new.is_empty() {
            return None;
        }
        let all = object.tree.items_at(meta_path::OWNERS).iter().cloned().chain(new);
        Some(GangWrite::Patch(kind, object.clone(), Tree::Null.with(meta_path::OWNERS, Tree::list(all))))
    }

    fn resize(&self, workload: &ApiObject, group: &ApiObject) -> Vec<GangWrite> {
        let form = self.seen.gangs.api;
        let template = names::label(&self.seen.admitted.name);
        let Some(TemplatePolicy::Gang { min }) =
            PodGroupTemplate::find(&workload.tree, &template).map(|it| it.policy)
        else {
            return Vec::new();
        };
        let waiting = self.joined.iter().any(|pod| pod.str_at(pod_path::NODE_NAME).is_empty() && !ended(pod));
        let need = MinCountUpdate { requested: self.expected_pods(), possible: self.room(), waiting };
        let Some(new) = need.new_min_count(min).filter(|_| gang_objects::is_elastic(form)) else {
            return Vec::new();
        };
        let template = gang_objects::resize_template(&workload.tree, &template, new)
            .map(|patch| GangWrite::Patch(form.workloads(), workload.clone(), patch));
        let inline = gang_objects::resize_group(&group.tree, new)
            .map(|patch| GangWrite::Patch(self.kind, group.clone(), patch));
        template.into_iter().chain(inline).collect()
    }
}

fn owner(pod: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": meta::uid(pod)})
}

fn phase(pod: &Tree) -> PodPhase {
    PodPhase::of(pod.str_at(pod_path::PHASE))
}

fn ended(pod: &Tree) -> bool {
    phase(pod).is_terminal()
}

fn number(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
