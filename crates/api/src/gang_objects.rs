//! Builders of gang scheduling objects: Workloads, PodGroups and the marker of member pods, for the API of the server.
//!
//! # Guarantees
//!
//! - The API is chosen once, at start-up, and passed in; nothing here detects it.
//! - A Workload or PodGroup has its creator as controller owner, so that garbage collection deletes it with the creator.
//! - Names are deterministic: a retried create fails with `AlreadyExists` instead of creating a second object.
//!
//! # Deliberately absent
//!
//! When to create them, and reading groups for scheduling (see `gang`).

pub mod consts;
mod job_gang;
pub mod names;

use muster_tree::{Text, Tree, tree};

pub use job_gang::{GangRequest, JobGang, ObjectsToCreate};

use crate::client::{Kind, Uid};
pub use crate::gang::{GangApi, GangSupport, GroupMarker};
use crate::meta::{self, OwnerReference};
use crate::paths::meta as meta_path;

/// Largest number of templates of a Workload, from upstream's validation.
pub const TEMPLATES_MAX: usize = 8;

const FIELD_GROUP: &[&str] = &["spec", "schedulingGroup"];
const FIELD_REF: &[&str] = &["spec", "workloadRef"];
const POLICIES: [&str; 2] = ["policy", "schedulingPolicy"];
const LISTS: [&str; 2] = ["podGroupTemplates", "podGroups"];

/// The resources that are written: Workloads and, where they are objects, PodGroups.
pub fn kinds(gangs: GangSupport) -> impl Iterator<Item = &'static Kind> {
    [Some(gangs.api.workloads()), gangs.api.groups()].into_iter().flatten()
}

/// Returns whether a PodGroup carries its own policy and is owned by its Workload.
#[must_use]
pub fn is_inline(form: GangApi) -> bool {
    !form.reads_workloads()
}

/// Returns whether `minCount` is mutable.
#[must_use]
pub fn is_elastic(form: GangApi) -> bool {
    !matches!(form, GangApi::Earlier | GangApi::Legacy)
}

/// The field of a template that holds its policy.
fn policy_key(form: GangApi) -> &'static str {
    POLICIES[usize::from(is_inline(form))]
}

/// The policy of a PodGroup template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplatePolicy {
    /// Pods are scheduled one by one.
    Basic,
    /// At least `minCount` pods are scheduled together, or none.
    Gang {
        /// `minCount`, at least 1.
        min: u32,
    },
}

impl TemplatePolicy {
    fn tree(self) -> Tree {
        match self {
            TemplatePolicy::Basic => tree!({"basic": {}}),
            TemplatePolicy::Gang { min } => tree!({"gang": {"minCount": min}}),
        }
    }

    fn of(tree: &Tree) -> Option<TemplatePolicy> {
        let min = |gang: &Tree| gang.int_at(&["minCount"]).and_then(|n| u32::try_from(n).ok());
        match (tree.get("basic"), tree.get("gang")) {
            (Some(_), None) => Some(TemplatePolicy::Basic),
            (None, Some(gang)) => Some(TemplatePolicy::Gang { min: min(gang)? }),
            _ => None,
        }
    }
}

/// A PodGroup template of a Workload.
#[derive(Debug, Clone, PartialEq)]
pub struct PodGroupTemplate {
    /// Name of the template, a DNS label.
    pub name: Text,
    /// Policy that its PodGroups get.
    pub policy: TemplatePolicy,
    /// All other fields in the spelling of the newest API, for example `disruptionMode`.
    pub passthrough: Tree,
}

impl PodGroupTemplate {
    /// A template with only a policy.
    #[must_use]
    pub fn new(name: impl Into<Text>, policy: TemplatePolicy) -> PodGroupTemplate {
        PodGroupTemplate { name: name.into(), policy, passthrough: Tree::empty_map() }
    }

    /// Finds a template by name in a Workload of any API.
    #[must_use]
    pub fn find(workload: &Tree, name: &str) -> Option<PodGroupTemplate> {
        let found = templates(workload).find(|it| it.str_at(&["name"]) == name)?;
        let policy = POLICIES.iter().find_map(|key| TemplatePolicy::of(found.get(key)?))?;
        let more = POLICIES.iter().fold(found.without_key("name"), |rest, key| rest.without_key(key));
        Some(PodGroupTemplate { name: name.into(), policy, passthrough: more })
    }

    fn rest(&self, form: GangApi) -> Tree {
        let Some(mode) = self.passthrough.get("disruptionMode").filter(|_| form == GangApi::Earlier) else {
            return self.passthrough.clone();
        };
        let word = if mode.get("all").is_some() { "PodGroup" } else { "Pod" };
        self.passthrough.with(&["disruptionMode"], word)
    }
}

fn templates(workload: &Tree) -> impl Iterator<Item = &Tree> {
    LISTS.iter().flat_map(|list| workload.items_at(&["spec", *list]))
}

/// The object that gang scheduling objects are created for; their controller owner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror OwnerReference")]
pub struct GangOwner {
    pub api_version: Text,
    pub kind: &'static str,
    pub namespace: Text,
    pub name: Text,
    pub uid: Uid,
}

impl GangOwner {
    /// References an object of this kind.
    #[must_use]
    pub fn of(kind: &Kind, word: &'static str, object: &Tree) -> GangOwner {
        GangOwner {
            api_version: meta::api_version(kind),
            kind: word,
            namespace: meta::namespace(object),
            name: meta::name(object),
            uid: meta::uid(object),
        }
    }

    fn owner(&self) -> Tree {
        OwnerReference::controller_reference(&self.api_version, self.kind, &self.name, &self.uid)
    }

    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A Workload to create, with these templates.
#[must_use]
pub fn workload(form: GangApi, maker: &GangOwner, name: &Text, templates: &[PodGroupTemplate]) -> Tree {
    let one = |it: &PodGroupTemplate| {
        it.rest(form).with(&["name"], &it.name).with(&[policy_key(form)], it.policy.tree())
    };
    let list = if form == GangApi::Legacy { LISTS[1] } else { LISTS[0] };
    tree!({"apiVersion": meta::api_version(form.workloads()), "kind": consts::WORKLOAD_KIND,
        "metadata": {"name": name, "namespace": &maker.namespace, "ownerReferences": [(maker.owner())]},
        "spec": {"controllerRef": {"apiGroup": maker.group(), "kind": maker.kind, "name": &maker.name}}})
    .with(&["spec", list], Tree::list(templates.iter().map(one)))
}

/// Returns whether `spec.controllerRef` of a Workload references this object.
#[must_use]
pub fn is_for(workload: &Tree, api_group: &str, kind: &str, name: &str) -> bool {
    let says = |key: &str| workload.str_at(&["spec", "controllerRef", key]);
    (says("apiGroup"), says("kind"), says("name")) == (api_group, kind, name)
}

/// A PodGroup to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewPodGroup<'a> {
    /// Name of the PodGroup.
    pub name: &'a Text,
    /// Name of the Workload.
    pub workload: &'a Text,
    /// UID of the Workload, where the PodGroup is deleted with it.
    pub workload_uid: Option<&'a Uid>,
    /// Template to create it from.
    pub template: &'a PodGroupTemplate,
    /// Labels; omitted when empty.
    pub labels: Tree,
}

/// A PodGroup to create.
#[must_use]
pub fn group(form: GangApi, maker: &GangOwner, new: &NewPodGroup<'_>) -> Tree {
    let kind = form.groups().unwrap_or(form.workloads());
    let beside = new.workload_uid.filter(|_| is_inline(form)).map(|uid| {
        tree!({"apiVersion": meta::api_version(form.workloads()), "kind": consts::WORKLOAD_KIND,
            "name": new.workload, "uid": uid})
    });
    let metadata = tree!({"name": new.name, "namespace": &maker.namespace,
        "ownerReferences": Tree::list([maker.owner()].into_iter().chain(beside))});
    let labels = (!new.labels.is_empty()).then(|| new.labels.clone());
    tree!({"apiVersion": meta::api_version(kind), "kind": consts::GROUP_KIND})
        .with(&["metadata"], metadata.with_option(&["labels"], labels))
        .with(&["spec"], group_spec(form, new))
}

fn group_spec(form: GangApi, new: &NewPodGroup<'_>) -> Tree {
    let (workload, template) = (new.workload, &new.template.name);
    let own = || new.template.rest(form).with(&["schedulingPolicy"], new.template.policy.tree());
    match form {
        GangApi::Released => {
            own().with(&["workloadRef"], tree!({"workloadName": workload, "templateName": template}))
        }
        GangApi::Earlier => own().with(
            &["podGroupTemplateRef", "workload"],
            tree!({"workloadName": workload, "podGroupTemplateName": template}),
        ),
        // Without the API server's defaulting, readers of either spelling must find their field, so both are written.
        GangApi::Proposal | GangApi::Own | GangApi::Legacy => tree!({"workloadRef": {"name": workload},
            "podGroupTemplateRef": {"name": template}, "podGroupTemplateName": template}),
    }
}

/// Name of the Workload that a PodGroup references; empty without one.
#[must_use]
pub fn workload_of(group: &Tree) -> Text {
    let places: [&[&str]; 3] = [
        &["spec", "workloadRef", "name"],
        &["spec", "workloadRef", "workloadName"],
        &["spec", "podGroupTemplateRef", "workload", "workloadName"],
    ];
    places.iter().map(|path| group.text_at(path)).find(|name| !name.is_empty()).unwrap_or_default()
}

/// The group that a pod is to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodGroupMember {
    /// Name of the Workload.
    pub workload: Text,
    /// Name of the template.
    pub template: Text,
    /// Name of the PodGroup.
    pub group: Text,
    /// UID of the PodGroup, where pods are deleted with it.
    pub group_uid: Option<Uid>,
}

impl PodGroupMember {
    /// A pod or pod template with the marker of this group.
    #[must_use]
    pub fn mark_template(&self, gangs: GangSupport, pod: &Tree) -> Tree {
        match (gangs.marker, gangs.api) {
            (GroupMarker::Annotations, _) | (_, GangApi::Own) => self.mark_by_annotations(pod),
            (GroupMarker::Field, GangApi::Proposal) => {
                pod.with(FIELD_REF, tree!({"name": &self.workload, "podGroupName": &self.group}))
            }
            (GroupMarker::Field, GangApi::Legacy) => pod.with(
                FIELD_REF,
                tree!({"name": &self.workload, "podGroup": &self.template,
                    "podGroupReplicaKey": names::label(&self.group)}),
            ),
            (GroupMarker::Field, GangApi::Released | GangApi::Earlier) => {
                pod.with(FIELD_GROUP, tree!({"podGroupName": &self.group}))
            }
        }
    }

    /// A pod with the marker of this group and, where the server's controllers do so, the PodGroup as owner.
    #[must_use]
    pub fn mark_pod(&self, gangs: GangSupport, pod: &Tree) -> Tree {
        let marked = self.mark_template(gangs, pod);
        let (true, Some(uid), Some(kind)) = (is_inline(gangs.api), &self.group_uid, gangs.api.groups())
        else {
            return marked;
        };
        let owner = tree!({"apiVersion": meta::api_version(kind), "kind": consts::GROUP_KIND,
            "name": &self.group, "uid": uid});
        let all = marked.items_at(meta_path::OWNERS).iter().cloned().chain([owner]);
        marked.with(meta_path::OWNERS, Tree::list(all))
    }

    fn mark_by_annotations(&self, pod: &Tree) -> Tree {
        let notes = Tree::map([(consts::POD_GROUP, &self.group), (consts::WORKLOAD, &self.workload)]);
        let label = Tree::map([(consts::POD_GROUP_HASH, names::group_hash(&self.group))]);
        let over = |path: &[&str], more: &Tree| match pod.at(path).filter(|it| it.is_map()) {
            Some(old) => old.merge(more),
            None => more.clone(),
        };
        pod.with(meta_path::ANNOTATIONS, over(meta_path::ANNOTATIONS, &notes))
            .with(meta_path::LABELS, over(meta_path::LABELS, &label))
    }
}

/// Returns whether a pod or pod template names a group, in any API.
#[must_use]
pub fn names_group(pod: &Tree) -> bool {
    let field = |path: &[&str]| pod.at(path).is_some_and(|it| !it.is_empty());
    field(FIELD_GROUP) || field(FIELD_REF) || meta::annotation(pod, consts::POD_GROUP).is_some()
}

/// Name of the PodGroup that a pod or pod template names.
#[must_use]
pub fn group_of(pod: &Tree) -> Option<Text> {
    let places: [&[&str]; 3] = [
        &["spec", "schedulingGroup", "podGroupName"],
        &["spec", "workloadRef", "podGroupName"],
        &["spec", "workloadRef", "podGroupReplicaKey"],
    ];
    let named = places.iter().map(|path| pod.text_at(path)).find(|name| !name.is_empty());
    named.or_else(|| meta::annotation(pod, consts::POD_GROUP).map(Text::from))
}

/// A merge patch that sets `minCount` of a template, or `None` if it is set; replaces the list, so it needs a resource
/// version precondition.
#[must_use]
pub fn resize_template(workload: &Tree, template: &str, min: u32) -> Option<Tree> {
    let (TemplatePolicy::Gang { min: old }, true) =
        (PodGroupTemplate::find(workload, template)?.policy, min > 0)
    else {
        return None;
    };
    let list = LISTS.into_iter().find(|list| !workload.items_at(&["spec", *list]).is_empty())?;
    let one = |_: usize, it: &Tree| match it.str_at(&["name"]) == template {
        true => POLICIES.iter().fold(it.clone(), |it, key| resized(&it, &[key], min)),
        false => it.clone(),
    };
    let all = workload.at(&["spec", list])?.map_items(one);
    (old != min).then(|| Tree::empty_map().with(&["spec", list], all))
}

/// A merge patch that sets `minCount` of a PodGroup, or `None` if it is set or the PodGroup has no policy of its own.
#[must_use]
pub fn resize_group(group: &Tree, min: u32) -> Option<Tree> {
    let old = group.int_at(&["spec", "schedulingPolicy", "gang", "minCount"])?;
    let differs = old != i64::from(min) && min > 0;
    differs.then(|| tree!({"spec": {"schedulingPolicy": {"gang": {"minCount": min}}}}))
}

fn resized(tree: &Tree, path: &[&str], min: u32) -> Tree {
    let gang = [path, &["gang"]].concat();
    match tree.at(&gang) {
        Some(_) => tree.with(&[&gang[..], &["minCount"]].concat(), min),
        None => tree.clone(),
    }
}

/// Inputs of the `minCount` of a running gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinCountUpdate {
    /// `minCount` that the spec requests.
    pub requested: u32,
    /// Pods that can still exist at once, without those that completed for good.
    pub possible: u32,
    /// Some of these pods are unscheduled or still to be created.
    pub waiting: bool,
}

impl MinCountUpdate {
    /// The new `minCount`, if it differs from `old`. It is lowered only while pods are waiting for it: running pods are not
    /// affected, and otherwise every completed pod would cost a write.
    #[must_use]
    pub fn new_min_count(self, old: u32) -> Option<u32> {
        let new = self.requested.min(self.possible).max(1);
        let tell = self.possible >= self.requested || self.waiting || old > self.requested.max(1);
        (tell && new != old).then_some(new)
    }
}

#[cfg(test)]
mod tests;
