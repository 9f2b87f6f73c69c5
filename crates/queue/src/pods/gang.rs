//! Groups of pods that are placed together: which pods ask for it, and the gang that is made once a group is admitted.
//!
//! # Invariants
//!
//! - Workload, then PodGroup, then the gates: each is made when the one before it was seen.
//! - A gang that could never fill is not made: workers that come when their driver runs are placed one by one, and pods
//!   that did not ask, or have done their work, are not counted on.
//! - Both objects belong to all pods of the group and go with the last one. What is another's is not used.

use muster_api::gang_make::{
    self, Gangs, Maker, Member as Mark, Need, NewGroup, Policy, Template, names, words,
};
use muster_api::meta;
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::pod::Phase;
use muster_api::port::{Kind, Object};
use muster_api::queue::WorkloadFacts;
use muster_api::queue::kinds::WORKLOADS;
use muster_api::queue::words::{GROUP, TRUE, WORKLOAD, annotations};
use muster_tree::{Text, Tree, tree};

use super::decl;

/// Everything that concerns the gang of an admitted group.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// How gangs are written here.
    pub gangs: Gangs,
    /// What the queue admitted.
    pub admitted: &'a WorkloadFacts,
    /// All pods of the group.
    pub pods: &'a [&'a Tree],
    /// The Workload of gangs that has the group's name.
    pub workload: Option<&'a Object>,
    /// The PodGroup of that name.
    pub group: Option<&'a Object>,
}

/// What has to be done about a gang.
#[derive(Debug, Clone, PartialEq)]
pub enum Gang {
    /// Nothing: nobody asked.
    Plain,
    /// These, and gates are opened when they were seen.
    First(Vec<Step>),
    /// Gates may be opened; these beside.
    There(Vec<Step>),
    /// A name is another's, in words.
    Taken(String),
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Makes an object of this kind.
    Make(&'static Kind, Tree),
    /// Merges a patch into an object, over what was read.
    Patch(&'static Kind, Object, Tree),
}

/// Whether a new pod asks to be placed together with its group.
#[must_use]
pub fn asks(pod: &Tree) -> bool {
    wishes(pod) && meta::annotation(pod, annotations::POD_GROUP_SETS).is_none()
}

/// Whether it asks in vain.
#[must_use]
pub fn asks_in_vain(pod: &Tree) -> bool {
    wishes(pod) && meta::annotation(pod, annotations::POD_GROUP_SETS).is_some()
}

fn wishes(pod: &Tree) -> bool {
    meta::annotation(pod, words::GANG) == Some(TRUE) && decl::group_name(pod).is_some()
}

/// A new pod that names its gang, unless it asks for none or names another.
#[must_use]
pub fn marked(pod: &Tree, gangs: Gangs) -> Tree {
    let named = decl::group_name(pod).filter(|_| asks(pod) && !gang_make::is_marked(pod));
    named.map_or_else(|| pod.clone(), |(group, _)| mark_of(&group).mark(gangs, pod))
}

fn mark_of(group: &Text) -> Mark {
    Mark { workload: group.clone(), template: names::label(group), group: group.clone(), group_uid: None }
}

/// Decides about the gang of a group that was admitted.
#[must_use]
pub fn decide(seen: &Seen<'_>) -> Gang {
    let Some(kind) = seen.gangs.form.groups() else { return Gang::Plain };
    let name = &seen.admitted.name;
    let (joined, others): (Vec<&Tree>, Vec<&Tree>) =
        seen.pods.iter().partition(|pod| gang_make::group_of(pod).as_ref() == Some(name) && asks(pod));
    // Once nobody is left to be placed there is nothing to make.
    if !joined.iter().any(|pod| !ended(pod) && meta::deleting(pod).is_none()) {
        return Gang::Plain;
    }
    let look = Look { seen, kind, joined, others };
    let Some(workload) = seen.workload else { return Gang::First(vec![look.make_workload()]) };
    if !gang_make::is_for(&workload.tree, GROUP, WORKLOAD, name) {
        return Gang::Taken(taken(words::WORKLOAD_KIND, name));
    }
    let Some(group) = seen.group else { return Gang::First(vec![look.make_group(workload)]) };
    if gang_make::workload_of(&group.tree) != *name {
        return Gang::Taken(taken(words::GROUP_KIND, name));
    }
    // What is left of a group of that name that is going.
    if [workload, group].iter().any(|it| meta::deleting(&it.tree).is_some()) {
        return Gang::First(Vec::new());
    }
    let owners = [(seen.gangs.form.workloads(), workload), (kind, group)];
    let owners = owners.into_iter().filter_map(|(kind, object)| look.own(kind, object));
    Gang::There(owners.chain(look.resize(workload, group)).collect())
}

fn taken(word: &str, name: &Text) -> String {
    format!("{word} {name} is another's: the group of that name cannot be placed together and waits")
}

struct Look<'a> {
    seen: &'a Seen<'a>,
    kind: &'static Kind,
    /// The pods that name the gang.
    joined: Vec<&'a Tree>,
    /// All others of the group.
    others: Vec<&'a Tree>,
}

impl Look<'_> {
    fn template(&self) -> Template {
        let declared = |pod: &&&Tree| meta::annotation(pod, annotations::POD_GROUP_SETS).is_some();
        let policy = match self.others.iter().any(|pod| declared(&pod)) {
            true => Policy::Basic,
            false => Policy::Gang { min: self.asked().min(self.room()).max(1) },
        };
        let class = self.joined.first().map(|pod| pod.str_at(pod_path::PRIORITY_CLASS));
        // There a pod of another priority than its group would never be placed.
        let class = class.filter(|it| !it.is_empty() && gang_make::is_inline(self.seen.gangs.form));
        let more = Tree::empty_map().with_option(&["priorityClassName"], class.map(Tree::from));
        Template { name: names::label(&self.seen.admitted.name), policy, more }
    }

    /// As many as were admitted, without those that did not ask.
    fn asked(&self) -> u32 {
        let admitted = self.seen.admitted;
        let given = admitted.admission.iter().flat_map(|it| &it.assignments);
        let whole = |name: &str| admitted.pod_set(name).map_or(0, |set| set.count);
        let counts = given.map(|it| it.count.unwrap_or_else(|| whole(&it.name)));
        let alone = self.others.iter().filter(|pod| !ended(pod)).count();
        counts.sum::<u32>().saturating_sub(number(alone))
    }

    /// As many as there can be now that some have done their work for good.
    fn room(&self) -> u32 {
        let done = self.joined.iter().filter(|pod| phase(pod) == Phase::Succeeded).count();
        self.asked().saturating_sub(number(done))
    }

    fn maker(&self) -> Maker {
        let admitted = self.seen.admitted;
        Maker {
            api_version: meta::api_version(&WORKLOADS),
            kind: WORKLOAD,
            namespace: admitted.namespace.clone(),
            name: admitted.name.clone(),
            uid: admitted.uid.clone(),
        }
    }

    fn make_workload(&self) -> Step {
        let form = self.seen.gangs.form;
        let made = gang_make::workload(form, &self.maker(), &self.seen.admitted.name, &[self.template()]);
        Step::Make(form.workloads(), made.with(meta_path::OWNERS, self.owners([])))
    }

    fn make_group(&self, workload: &Object) -> Step {
        let (form, name) = (self.seen.gangs.form, &self.seen.admitted.name);
        let new = NewGroup {
            name,
            workload: name,
            workload_uid: Some(&meta::uid(&workload.tree)),
            template: &self.template(),
            labels: Tree::empty_map(),
        };
        let made = gang_make::group(form, &self.maker(), &new);
        // The first owner is its maker, which the pods are instead.
        let rest = made.items_at(meta_path::OWNERS).iter().skip(1).cloned().collect::<Vec<_>>();
        Step::Make(self.kind, made.with(meta_path::OWNERS, self.owners(rest)))
    }

    fn owners(&self, beside: impl IntoIterator<Item = Tree>) -> Tree {
        let living = self.seen.pods.iter().filter(|pod| !ended(pod) && meta::deleting(pod).is_none());
        Tree::list(living.map(|pod| owner(pod)).chain(beside))
    }

    /// Owners that an object lacks.
    fn own(&self, kind: &'static Kind, object: &Object) -> Option<Step> {
        let known: Vec<_> = meta::owners(&object.tree).map(|it| it.uid).collect();
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
        Some(Step::Patch(kind, object.clone(), Tree::Null.with(meta_path::OWNERS, Tree::list(all))))
    }

    fn resize(&self, workload: &Object, group: &Object) -> Vec<Step> {
        let form = self.seen.gangs.form;
        let template = names::label(&self.seen.admitted.name);
        let Some(Policy::Gang { min }) = Template::find(&workload.tree, &template).map(|it| it.policy) else {
            return Vec::new();
        };
        let waiting = self.joined.iter().any(|pod| pod.str_at(pod_path::NODE_NAME).is_empty() && !ended(pod));
        let need = Need { asked: self.asked(), room: self.room(), waiting };
        let Some(new) = need.change(min).filter(|_| gang_make::is_elastic(form)) else { return Vec::new() };
        let template = gang_make::resize_template(&workload.tree, &template, new)
            .map(|patch| Step::Patch(form.workloads(), workload.clone(), patch));
        let inline = gang_make::resize_group(&group.tree, new)
            .map(|patch| Step::Patch(self.kind, group.clone(), patch));
        template.into_iter().chain(inline).collect()
    }
}

fn owner(pod: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "name": meta::name(pod), "uid": meta::uid(pod)})
}

fn phase(pod: &Tree) -> Phase {
    Phase::of(pod.str_at(pod_path::PHASE))
}

fn ended(pod: &Tree) -> bool {
    phase(pod).ended()
}

fn number(many: usize) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}
