//! Manifests in the words of the gang proposal, in the words of the server they are meant for.
//!
//! No released server speaks the proposal's own form: what is written for the embedded plane is told anew for a real one.
//! Workloads and PodGroups change their version and the names of their fields, pods and templates of pods the mark by
//! which they name their group.
//!
//! # Invariants
//!
//! - Pure: the same documents and server, the same documents out, in the same order.
//! - What is not of the proposal's form stays as it is, byte for byte.
//! - Nothing is dropped without a word: what the server cannot say is an error that names the document.
//!
//! # Deliberately absent
//!
//! Objects that are not in the files: a PodGroup whose server wants its policy copied needs its Workload beside it.

use muster_api::gang::{Form, Gangs, Mark};
use muster_api::gang_make::Member;
use muster_api::meta;
use muster_api::train::words as train;
use muster_tree::{Text, Tree, tree};

use crate::run::files::Document;
use crate::run::plan::PlanError;

/// The version in which the proposal writes.
const PROPOSED: &str = "scheduling.k8s.io/v1alpha1";
/// Who places pods whose marks the server's own scheduler cannot read.
const SCHEDULER: &str = "muster-scheduler";
/// The field by which the proposal's pods name their group.
const FIELD: &str = "workloadRef";
/// What a group has of its template where it carries its policy itself.
const COPIED: [&str; 6] = [
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "disruptionMode",
    "schedulingConstraints",
    "resourceClaims",
];

/// Where runtimes of TrainJobs have them.
const RUNTIME_PODS: &[&str] =
    &["spec", "template", "spec", "replicatedJobs", "[]", "template", "spec", "template"];

/// Where kinds have the templates of their pods. `[]` stands for every item.
const TEMPLATES: [(&str, &[&str]); 11] = [
    ("Pod", &[]),
    ("Job", &["spec", "template"]),
    ("JobSet", &["spec", "replicatedJobs", "[]", "template", "spec", "template"]),
    (train::TRAINING_RUNTIME, RUNTIME_PODS),
    (train::CLUSTER_TRAINING_RUNTIME, RUNTIME_PODS),
    ("CronJob", &["spec", "jobTemplate", "spec", "template"]),
    ("Deployment", &["spec", "template"]),
    ("ReplicaSet", &["spec", "template"]),
    ("StatefulSet", &["spec", "template"]),
    ("DaemonSet", &["spec", "template"]),
    ("ReplicationController", &["spec", "template"]),
];

/// Documents for one server, and what was done to them.
#[derive(Debug, PartialEq)]
pub struct Rewritten {
    /// The documents.
    pub documents: Vec<Document>,
    /// What was rewritten, in words; `None` when nothing was.
    pub said: Option<String>,
}

/// Whether anything in the files speaks of gangs as the proposal does.
pub fn speaks(documents: &[Document]) -> bool {
    documents.iter().any(|it| is_proposed(&it.tree) || names_group(&it.tree))
}

/// Tells the documents anew for a server that spells gangs so.
///
/// # Errors
/// The first document that cannot be said there.
pub fn rewrite(documents: &[Document], gangs: Gangs) -> Result<Rewritten, PlanError> {
    let unchanged = Rewritten { documents: documents.to_vec(), said: None };
    if gangs.form == Form::Proposal {
        return Ok(unchanged);
    }
    let mut count = Count::default();
    let mut all = Vec::new();
    for document in documents {
        let wrong = |problem: String, hint: &str| PlanError::Document {
            origin: document.origin.clone(),
            problem,
            hint: hint.to_owned(),
        };
        let rewriting = Rewriting { gangs, all: documents };
        let told = rewriting.document(&document.tree, &mut count);
        let told = told.map_err(|Wrong { problem, hint }| wrong(problem, hint))?;
        all.extend(told.map(|tree| Document { origin: document.origin.clone(), tree }));
    }
    let said = count.words(gangs);
    Ok(if said.is_none() { unchanged } else { Rewritten { documents: all, said } })
}

/// What is wrong with a document, and what to do.
#[derive(Debug)]
struct Wrong {
    problem: String,
    hint: &'static str,
}

/// What was rewritten.
#[derive(Debug, Default)]
struct Count {
    objects: usize,
    pods: usize,
    /// Pods that were given to our scheduler.
    given: usize,
}

impl Count {
    fn words(&self, gangs: Gangs) -> Option<String> {
        if self.objects + self.pods == 0 {
            return None;
        }
        let version = meta::api_version(gangs.form.workloads());
        let marks = match gangs.mark {
            Mark::Field => "its field",
            Mark::Annotations => "annotations",
        };
        let given = match self.given {
            0 => String::new(),
            given => format!("; {given} without a scheduler of their own are placed by {SCHEDULER}"),
        };
        Some(format!(
            "this server has no {PROPOSED}: {} objects are told as {version}, {} pods or templates name their group by \
             {marks}{given}",
            self.objects, self.pods
        ))
    }
}

struct Rewriting<'a> {
    gangs: Gangs,
    all: &'a [Document],
}

impl Rewriting<'_> {
    /// One document; `None` where the server has no such object.
    fn document(&self, tree: &Tree, count: &mut Count) -> Result<Option<Tree>, Wrong> {
        if !is_proposed(tree) {
            return self.pods(tree, count).map(Some);
        }
        count.objects += 1;
        match meta::kind_word(tree).as_str() {
            "Workload" => Ok(Some(self.workload(tree))),
            _ => self.group(tree),
        }
    }

    fn workload(&self, tree: &Tree) -> Tree {
        let form = self.gangs.form;
        let told = tree.with(&["apiVersion"], meta::api_version(form.workloads()));
        if form == Form::Own {
            return told;
        }
        let list = if form == Form::Legacy { "podGroups" } else { "podGroupTemplates" };
        let templates = templates(tree).map(|it| self.template(it));
        let spec = tree.get("spec").cloned().unwrap_or_default();
        let spec = spec.without_key("podGroups").without_key("podGroupTemplates");
        told.with(&["spec"], spec).with(&["spec", list], Tree::list(templates.collect::<Vec<_>>()))
    }

    fn template(&self, template: &Tree) -> Tree {
        let policy = policy(template);
        let bare = template.without_key("policy").without_key("schedulingPolicy");
        match self.gangs.form {
            Form::Legacy => tree!({"name": template.text_at(&["name"]), "policy": policy}),
            _ => self.in_words(&bare).with_key("schedulingPolicy", policy),
        }
    }

    /// What stands beside the policy, in the words of the form.
    fn in_words(&self, terms: &Tree) -> Tree {
        let Some(mode) = terms.get("disruptionMode").filter(|_| self.gangs.form == Form::Earlier) else {
            return terms.clone();
        };
        let word = if mode.get("all").is_some() { "PodGroup" } else { "Pod" };
        terms.with(&["disruptionMode"], word)
    }

    fn group(&self, tree: &Tree) -> Result<Option<Tree>, Wrong> {
        let Some(kind) = self.gangs.form.groups() else { return Ok(None) };
        let told = tree.with(&["apiVersion"], meta::api_version(kind));
        let reference = ["spec", "workloadRef", "apiVersion"];
        if self.gangs.form == Form::Own {
            let named = !tree.str_at(&reference).is_empty();
            return Ok(Some(if named { told.with(&reference, meta::api_version(kind)) } else { told }));
        }
        let (workload, template) = (workload_of(tree), template_of(tree));
        let spec = tree.get("spec").cloned().unwrap_or_default();
        let own =
            COPIED.iter().chain(&["schedulingPolicy"]).filter_map(|key| Some((*key, spec.get(key)?.clone())));
        let own = Tree::map(own);
        let terms = if own.get("schedulingPolicy").is_some() {
            own
        } else {
            self.terms(tree, &workload, &template)?.merge(&own)
        };
        Ok(Some(told.with(&["spec"], self.referring(&self.in_words(&terms), &workload, &template))))
    }

    /// What the template of a group says, which stands in the files.
    fn terms(&self, group: &Tree, workload: &str, template: &str) -> Result<Tree, Wrong> {
        let beside = |it: &&Document| {
            is_proposed(&it.tree)
                && meta::kind_word(&it.tree) == "Workload"
                && meta::name(&it.tree) == workload
                && meta::namespace(&it.tree) == meta::namespace(group)
        };
        let found = self.all.iter().find(beside).map(|it| &it.tree);
        let found = found.and_then(|it| templates(it).find(|it| it.str_at(&["name"]) == template));
        let Some(found) = found else {
            return Err(Wrong {
                problem: format!(
                    "this server wants the policy of a PodGroup in the PodGroup, and template {template:?} of Workload \
                     {workload:?} is not in the files"
                ),
                hint: "put the Workload into the files, or write spec.schedulingPolicy into the PodGroup",
            });
        };
        let copied = COPIED.iter().filter_map(|key| Some((*key, found.get(key)?.clone())));
        Ok(Tree::map(copied).with_key("schedulingPolicy", policy(found)))
    }

    fn referring(&self, terms: &Tree, workload: &str, template: &str) -> Tree {
        match self.gangs.form {
            _ if workload.is_empty() => terms.clone(),
            Form::Earlier => terms.with(
                &["podGroupTemplateRef", "workload"],
                tree!({"workloadName": workload, "podGroupTemplateName": template}),
            ),
            _ => terms.with(&["workloadRef"], tree!({"workloadName": workload, "templateName": template})),
        }
    }

    /// The pods of any other object.
    fn pods(&self, tree: &Tree, count: &mut Count) -> Result<Tree, Wrong> {
        let word = meta::kind_word(tree);
        let Some((_, path)) = TEMPLATES.iter().find(|(kind, _)| *kind == word.as_str()) else {
            return Ok(tree.clone());
        };
        let namespace = meta::namespace(tree);
        self.below(tree, path, &namespace, count)
    }

    fn below(&self, tree: &Tree, path: &[&str], namespace: &Text, count: &mut Count) -> Result<Tree, Wrong> {
        let Some((first, rest)) = path.split_first() else { return self.pod(tree, namespace, count) };
        if *first == "[]" {
            let items = tree.items().iter().map(|item| self.below(item, rest, namespace, count));
            return Ok(Tree::list(items.collect::<Result<Vec<_>, _>>()?));
        }
        match tree.get(first) {
            Some(inner) => Ok(tree.with_key(first, self.below(inner, rest, namespace, count)?)),
            None => Ok(tree.clone()),
        }
    }

    /// A pod, or the template of one.
    fn pod(&self, pod: &Tree, namespace: &Text, count: &mut Count) -> Result<Tree, Wrong> {
        let Some(named) = pod.at(&["spec", FIELD]) else { return Ok(pod.clone()) };
        if self.gangs.form == Form::Legacy && named.get("podGroupName").is_none() {
            return Ok(pod.clone());
        }
        let group = named.text_at(&["podGroupName"]);
        if group.is_empty() {
            return Err(Wrong {
                problem: "its pods name an entry of a Workload (spec.workloadRef.podGroup), which this server has not"
                    .to_owned(),
                hint: "make a PodGroup and name it in spec.workloadRef.podGroupName",
            });
        }
        count.pods += 1;
        let member = Member {
            workload: named.text_at(&["name"]),
            template: self.template_named(&group, namespace),
            group,
            group_uid: None,
        };
        let told = member.mark(self.gangs, &pod.without(&["spec", FIELD]));
        // Only ours reads marks; the server's own scheduler would place each pod for itself.
        if self.gangs.mark == Mark::Annotations && told.str_at(&["spec", "schedulerName"]).is_empty() {
            count.given += 1;
            return Ok(told.with(&["spec", "schedulerName"], SCHEDULER));
        }
        Ok(told)
    }

    /// The template of a group in the files; a group that is not there is taken for one of its name.
    fn template_named(&self, group: &Text, namespace: &Text) -> Text {
        let is_it = |it: &&Document| {
            is_proposed(&it.tree)
                && meta::kind_word(&it.tree) == "PodGroup"
                && meta::name(&it.tree) == *group
                && meta::namespace(&it.tree) == *namespace
        };
        self.all.iter().find(is_it).map_or_else(|| group.clone(), |it| template_of(&it.tree))
    }
}

fn is_proposed(tree: &Tree) -> bool {
    tree.str_at(&["apiVersion"]) == PROPOSED
        && ["Workload", "PodGroup"].contains(&meta::kind_word(tree).as_str())
}

/// Whether pods of an object name a group by the proposal's field.
fn names_group(tree: &Tree) -> bool {
    fn below(tree: &Tree, path: &[&str]) -> bool {
        match path.split_first() {
            None => tree.at(&["spec", FIELD]).is_some(),
            Some((first, rest)) if *first == "[]" => tree.items().iter().any(|it| below(it, rest)),
            Some((first, rest)) => tree.get(first).is_some_and(|it| below(it, rest)),
        }
    }
    let word = meta::kind_word(tree);
    TEMPLATES.iter().any(|(kind, path)| *kind == word.as_str() && below(tree, path))
}

fn templates(workload: &Tree) -> impl Iterator<Item = &Tree> {
    let lists = ["podGroupTemplates", "podGroups"];
    lists.into_iter().flat_map(|list| workload.items_at(&["spec", list]))
}

/// The policy of a template, in either spelling.
fn policy(template: &Tree) -> Tree {
    let spelled = ["policy", "schedulingPolicy"].iter().find_map(|key| template.get(key));
    spelled.cloned().unwrap_or_default()
}

fn workload_of(group: &Tree) -> Text {
    group.text_at(&["spec", "workloadRef", "name"])
}

/// The template of a group, in either spelling.
fn template_of(group: &Tree) -> Text {
    let reference = group.text_at(&["spec", "podGroupTemplateRef", "name"]);
    if reference.is_empty() { group.text_at(&["spec", "podGroupTemplateName"]) } else { reference }
}

#[cfg(test)]
mod tests;
