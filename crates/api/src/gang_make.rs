//! Making gangs: the Workload that says how groups are scheduled, the PodGroups themselves, and the mark by which a pod
//! joins one. Each in the form that the server spells it in.
//!
//! # Invariants
//!
//! - A form is chosen once, by whoever knows the server; nothing here asks.
//! - Whoever makes a Workload or a PodGroup controls it, so that both go with their maker.
//! - Names are functions of what they are made for: a create that is repeated meets itself.
//!
//! # Deliberately absent
//!
//! When to make them, and reading groups for placing pods.

mod asked;
pub mod names;
pub mod words;

use muster_tree::{Text, Tree, tree};

pub use asked::{JobAsks, Makes, Wish};

pub use crate::gang::{Form, Gangs, Mark};
use crate::meta::{self, Owner};
use crate::paths::meta as meta_path;
use crate::port::{Kind, Uid};

/// Most templates of one Workload.
pub const TEMPLATES_MAX: usize = 8;

const FIELD_GROUP: &[&str] = &["spec", "schedulingGroup"];
const FIELD_REF: &[&str] = &["spec", "workloadRef"];
const POLICIES: [&str; 2] = ["policy", "schedulingPolicy"];
const LISTS: [&str; 2] = ["podGroupTemplates", "podGroups"];

/// The kinds of the objects.
pub fn kinds(gangs: Gangs) -> impl Iterator<Item = &'static Kind> {
    [Some(gangs.form.workloads()), gangs.form.groups()].into_iter().flatten()
}

/// Whether a PodGroup carries its policy itself, and depends on its Workload.
#[must_use]
pub fn is_inline(form: Form) -> bool {
    !form.reads_workloads()
}

/// Whether minCount may change.
#[must_use]
pub fn is_elastic(form: Form) -> bool {
    !matches!(form, Form::Earlier | Form::Legacy)
}

/// Where a template has its policy.
fn policy_key(form: Form) -> &'static str {
    POLICIES[usize::from(is_inline(form))]
}

/// How the pods of a group are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Each for itself.
    Basic,
    /// So many together, or none.
    Gang {
        /// How many.
        min: u32,
    },
}

impl Policy {
    fn tree(self) -> Tree {
        match self {
            Policy::Basic => tree!({"basic": {}}),
            Policy::Gang { min } => tree!({"gang": {"minCount": min}}),
        }
    }

    fn of(tree: &Tree) -> Option<Policy> {
        let min = |gang: &Tree| gang.int_at(&["minCount"]).and_then(|n| u32::try_from(n).ok());
        match (tree.get("basic"), tree.get("gang")) {
            (Some(_), None) => Some(Policy::Basic),
            (None, Some(gang)) => Some(Policy::Gang { min: min(gang)? }),
            _ => None,
        }
    }
}

/// What groups are made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// Name, a DNS label.
    pub name: Text,
    /// How pods are placed.
    pub policy: Policy,
    /// Everything else that it says, in the words of today: `disruptionMode`, `schedulingConstraints` and the like.
    pub more: Tree,
}

impl Template {
    /// One that says nothing but a policy.
    #[must_use]
    pub fn new(name: impl Into<Text>, policy: Policy) -> Template {
        Template { name: name.into(), policy, more: Tree::empty_map() }
    }

    /// The template of this name in a Workload of any form.
    #[must_use]
    pub fn find(workload: &Tree, name: &str) -> Option<Template> {
        let found = templates(workload).find(|it| it.str_at(&["name"]) == name)?;
        let policy = POLICIES.iter().find_map(|key| Policy::of(found.get(key)?))?;
        let more = POLICIES.iter().fold(found.without_key("name"), |rest, key| rest.without_key(key));
        Some(Template { name: name.into(), policy, more })
    }

    fn rest(&self, form: Form) -> Tree {
        let Some(mode) = self.more.get("disruptionMode").filter(|_| form == Form::Earlier) else {
            return self.more.clone();
        };
        let word = if mode.get("all").is_some() { "PodGroup" } else { "Pod" };
        self.more.with(&["disruptionMode"], word)
    }
}

fn templates(workload: &Tree) -> impl Iterator<Item = &Tree> {
    LISTS.iter().flat_map(|list| workload.items_at(&["spec", *list]))
}

/// Whoever makes gangs: the true workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maker {
    /// `apiVersion`.
    pub api_version: Text,
    /// `kind`.
    pub kind: &'static str,
    /// Namespace.
    pub namespace: Text,
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
}

impl Maker {
    /// An object of this kind.
    #[must_use]
    pub fn of(kind: &Kind, word: &'static str, object: &Tree) -> Maker {
        Maker {
            api_version: meta::api_version(kind),
            kind: word,
            namespace: meta::namespace(object),
            name: meta::name(object),
            uid: meta::uid(object),
        }
    }

    fn owner(&self) -> Tree {
        Owner::controller_tree(&self.api_version, self.kind, &self.name, &self.uid)
    }

    fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// A Workload with these templates.
#[must_use]
pub fn workload(form: Form, maker: &Maker, name: &Text, templates: &[Template]) -> Tree {
    let one =
        |it: &Template| it.rest(form).with(&["name"], &it.name).with(&[policy_key(form)], it.policy.tree());
    let list = if form == Form::Legacy { LISTS[1] } else { LISTS[0] };
    tree!({"apiVersion": meta::api_version(form.workloads()), "kind": words::WORKLOAD_KIND,
        "metadata": {"name": name, "namespace": &maker.namespace, "ownerReferences": [(maker.owner())]},
        "spec": {"controllerRef": {"apiGroup": maker.group(), "kind": maker.kind, "name": &maker.name}}})
    .with(&["spec", list], Tree::list(templates.iter().map(one)))
}

/// Whether a Workload says that this is its controller.
#[must_use]
pub fn is_for(workload: &Tree, api_group: &str, kind: &str, name: &str) -> bool {
    let says = |key: &str| workload.str_at(&["spec", "controllerRef", key]);
    (says("apiGroup"), says("kind"), says("name")) == (api_group, kind, name)
}

/// Which group is made, and from what.
#[derive(Debug, Clone, PartialEq)]
pub struct NewGroup<'a> {
    /// Its name.
    pub name: &'a Text,
    /// The Workload.
    pub workload: &'a Text,
    /// The Workload's UID, where the group goes with it.
    pub workload_uid: Option<&'a Uid>,
    /// The template.
    pub template: &'a Template,
    /// Labels; none when empty.
    pub labels: Tree,
}

/// A PodGroup.
#[must_use]
pub fn group(form: Form, maker: &Maker, new: &NewGroup<'_>) -> Tree {
    let kind = form.groups().unwrap_or(form.workloads());
    let beside = new.workload_uid.filter(|_| is_inline(form)).map(|uid| {
        tree!({"apiVersion": meta::api_version(form.workloads()), "kind": words::WORKLOAD_KIND,
            "name": new.workload, "uid": uid})
    });
    let metadata = tree!({"name": new.name, "namespace": &maker.namespace,
        "ownerReferences": Tree::list([maker.owner()].into_iter().chain(beside))});
    let labels = (!new.labels.is_empty()).then(|| new.labels.clone());
    tree!({"apiVersion": meta::api_version(kind), "kind": words::GROUP_KIND})
        .with(&["metadata"], metadata.with_option(&["labels"], labels))
        .with(&["spec"], group_spec(form, new))
}

fn group_spec(form: Form, new: &NewGroup<'_>) -> Tree {
    let (workload, template) = (new.workload, &new.template.name);
    let own = || new.template.rest(form).with(&["schedulingPolicy"], new.template.policy.tree());
    match form {
        Form::Released => {
            own().with(&["workloadRef"], tree!({"workloadName": workload, "templateName": template}))
        }
        Form::Earlier => own().with(
            &["podGroupTemplateRef", "workload"],
            tree!({"workloadName": workload, "podGroupTemplateName": template}),
        ),
        // Where nobody fills in the one from the other, every reader finds its field nevertheless.
        Form::Proposal | Form::Own | Form::Legacy => tree!({"workloadRef": {"name": workload},
            "podGroupTemplateRef": {"name": template}, "podGroupTemplateName": template}),
    }
}

/// The Workload that a PodGroup names.
#[must_use]
pub fn workload_of(group: &Tree) -> Text {
    let places: [&[&str]; 3] = [
        &["spec", "workloadRef", "name"],
        &["spec", "workloadRef", "workloadName"],
        &["spec", "podGroupTemplateRef", "workload", "workloadName"],
    ];
    places.iter().map(|path| group.text_at(path)).find(|name| !name.is_empty()).unwrap_or_default()
}

/// Which group a pod joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The Workload.
    pub workload: Text,
    /// Its template.
    pub template: Text,
    /// The PodGroup.
    pub group: Text,
    /// The PodGroup's UID, where pods go with it.
    pub group_uid: Option<Uid>,
}

impl Member {
    /// A Pod, or the template of one, that joins.
    #[must_use]
    pub fn mark(&self, gangs: Gangs, pod: &Tree) -> Tree {
        match (gangs.mark, gangs.form) {
            (Mark::Annotations, _) | (_, Form::Own) => self.noted(pod),
            (Mark::Field, Form::Proposal) => {
                pod.with(FIELD_REF, tree!({"name": &self.workload, "podGroupName": &self.group}))
            }
            (Mark::Field, Form::Legacy) => pod.with(
                FIELD_REF,
                tree!({"name": &self.workload, "podGroup": &self.template,
                    "podGroupReplicaKey": names::label(&self.group)}),
            ),
            (Mark::Field, Form::Released | Form::Earlier) => {
                pod.with(FIELD_GROUP, tree!({"podGroupName": &self.group}))
            }
        }
    }

    /// A Pod that joins, with the group among its owners where servers of this form do so.
    #[must_use]
    pub fn join(&self, gangs: Gangs, pod: &Tree) -> Tree {
        let marked = self.mark(gangs, pod);
        let (true, Some(uid), Some(kind)) = (is_inline(gangs.form), &self.group_uid, gangs.form.groups())
        else {
            return marked;
        };
        let owner = tree!({"apiVersion": meta::api_version(kind), "kind": words::GROUP_KIND,
            "name": &self.group, "uid": uid});
        let all = marked.items_at(meta_path::OWNERS).iter().cloned().chain([owner]);
        marked.with(meta_path::OWNERS, Tree::list(all))
    }

    fn noted(&self, pod: &Tree) -> Tree {
        let notes = Tree::map([(words::POD_GROUP, &self.group), (words::WORKLOAD, &self.workload)]);
        let label = Tree::map([(words::POD_GROUP_HASH, names::group_hash(&self.group))]);
        let over = |path: &[&str], more: &Tree| match pod.at(path).filter(|it| it.is_map()) {
            Some(old) => old.merge(more),
            None => more.clone(),
        };
        pod.with(meta_path::ANNOTATIONS, over(meta_path::ANNOTATIONS, &notes))
            .with(meta_path::LABELS, over(meta_path::LABELS, &label))
    }
}

/// Whether a Pod, or the template of one, names a group of its own, in whatever form.
#[must_use]
pub fn is_marked(pod: &Tree) -> bool {
    let field = |path: &[&str]| pod.at(path).is_some_and(|it| !it.is_empty());
    field(FIELD_GROUP) || field(FIELD_REF) || meta::annotation(pod, words::POD_GROUP).is_some()
}

/// The PodGroup that a Pod, or the template of one, names.
#[must_use]
pub fn group_of(pod: &Tree) -> Option<Text> {
    let places: [&[&str]; 3] = [
        &["spec", "schedulingGroup", "podGroupName"],
        &["spec", "workloadRef", "podGroupName"],
        &["spec", "workloadRef", "podGroupReplicaKey"],
    ];
    let named = places.iter().map(|path| pod.text_at(path)).find(|name| !name.is_empty());
    named.or_else(|| meta::annotation(pod, words::POD_GROUP).map(Text::from))
}

/// A merge patch that sets the minCount of a template, if that differs; wants a revision guard: the list goes as a whole.
#[must_use]
pub fn resize_template(workload: &Tree, template: &str, min: u32) -> Option<Tree> {
    let (Policy::Gang { min: old }, true) = (Template::find(workload, template)?.policy, min > 0) else {
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

/// A merge patch that sets the minCount that a PodGroup carries itself, if it does and that differs.
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

/// How many pods a gang has to have, as far as its maker knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// As many as were asked for.
    pub asked: u32,
    /// So many can there be at once, now that some have done their work for good.
    pub room: u32,
    /// Whether some of them wait, or are about to be made.
    pub waiting: bool,
}

impl Need {
    /// The minCount that `old` is to become, if another. A gang that has become smaller is told only while somebody waits
    /// for it: pods that run do not care, and each of them that ends would cost a write.
    #[must_use]
    pub fn change(self, old: u32) -> Option<u32> {
        let new = self.asked.min(self.room).max(1);
        let tell = self.room >= self.asked || self.waiting || old > self.asked.max(1);
        (tell && new != old).then_some(new)
    }
}

#[cfg(test)]
mod tests;
