//! Converts gang manifests in the form of the proposal to the gang API that the server serves.
//!
//! No released server serves the API of the proposal, which the embedded control plane implements. To run the same
//! manifests on a cluster, Workloads and PodGroups get another version and other field names, and pods and pod templates
//! get another reference to their group.
//!
//! # Guarantees
//!
//! - Pure: the same documents and server give the same documents, in the same order.
//! - Documents in another form are not changed.
//! - Nothing is dropped silently: a document that the server's API cannot express is an error that names it.
//!
//! # Deliberately absent
//!
//! Objects that are not in the files: if the server requires the policy in the PodGroup, the Workload with the policy
//! must be in the files.

use muster_api::gang::{GangApi, GangSupport, GroupMarker};
use muster_api::gang_objects::PodGroupMember;
use muster_api::meta;
use muster_api::train::consts as train;
use muster_tree::{Text, Tree, tree};

use crate::run::files::Document;
use crate::run::plan::PlanError;

/// The API version of the proposal.
const PROPOSED: &str = muster_api::consts::PROPOSED_SCHEDULING;
/// The scheduler of pods that name their group by annotations, which the default scheduler ignores.
const SCHEDULER: &str = "muster-scheduler";
/// The pod field of the proposal that refers to the group.
const FIELD: &str = "workloadRef";
/// The fields that are copied from the template into a PodGroup that carries its policy itself.
const COPIED: [&str; 6] = [
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "disruptionMode",
    "schedulingConstraints",
    "resourceClaims",
];

/// The path of the pod templates in a training runtime.
const RUNTIME_PODS: &[&str] =
    &["spec", "template", "spec", "replicatedJobs", "[]", "template", "spec", "template"];

/// The paths of pod templates by kind; `[]` stands for every item of a list.
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

/// The converted documents.
#[derive(Debug, PartialEq)]
pub struct Rewritten {
    pub documents: Vec<Document>,
    /// What was rewritten, as a message to the user; `None` if nothing was.
    pub summary: Option<String>,
}

/// Whether any document uses the gang API of the proposal.
pub fn uses_proposed_api(documents: &[Document]) -> bool {
    documents.iter().any(|it| is_proposed(&it.tree) || names_group(&it.tree))
}

/// Converts the documents to the gang API of a server.
///
/// # Errors
/// The first document that the server's gang API cannot express.
pub fn rewrite(documents: &[Document], gangs: GangSupport) -> Result<Rewritten, PlanError> {
    let unchanged = Rewritten { documents: documents.to_vec(), summary: None };
    if gangs.api == GangApi::Proposal {
        return Ok(unchanged);
    }
    let mut count = RewriteCount::default();
    let mut all = Vec::new();
    for document in documents {
        let wrong = |problem: String, hint: &str| PlanError::Document {
            origin: document.origin.clone(),
            problem,
            hint: hint.to_owned(),
        };
        let rewriting = Rewriting { gangs, all: documents };
        let told = rewriting.document(&document.tree, &mut count);
        let told = told.map_err(|RewriteError { problem, hint }| wrong(problem, hint))?;
        all.extend(told.map(|tree| Document { origin: document.origin.clone(), tree }));
    }
    let said = count.words(gangs);
    Ok(if said.is_none() { unchanged } else { Rewritten { documents: all, summary: said } })
}

/// The problem with a document, and a hint.
#[derive(Debug)]
struct RewriteError {
    problem: String,
    hint: &'static str,
}

#[derive(Debug, Default)]
struct RewriteCount {
    objects: usize,
    pods: usize,
    /// Pods and templates without `schedulerName` that were assigned to our scheduler.
    given: usize,
}

impl RewriteCount {
    fn words(&self, gangs: GangSupport) -> Option<String> {
        if self.objects + self.pods == 0 {
            return None;
        }
        let version = meta::api_version(gangs.api.workloads());
        let marks = match gangs.marker {
            GroupMarker::Field => "its field",
            GroupMarker::Annotations => "annotations",
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
    gangs: GangSupport,
    all: &'a [Document],
}

impl Rewriting<'_> {
    /// Converts one document; `None` if the server's API has no such object.
    fn document(&self, tree: &Tree, count: &mut RewriteCount) -> Result<Option<Tree>, RewriteError> {
        if !is_proposed(tree) {
            return self.pods(tree, count).map(Some);
        }
        count.objects += 1;
        match meta::kind_name(tree).as_str() {
            "Workload" => Ok(Some(self.workload(tree))),
            _ => self.group(tree),
        }
    }

    fn workload(&self, tree: &Tree) -> Tree {
        let form = self.gangs.api;
        let told = tree.with(&["apiVersion"], meta::api_version(form.workloads()));
        if form == GangApi::Own {
            return told;
        }
        let list = if form == GangApi::Legacy { "podGroups" } else { "podGroupTemplates" };
        let templates = templates(tree).map(|it| self.template(it));
        let spec = tree.get("spec").cloned().unwrap_or_default();
        let spec = spec.without_key("podGroups").without_key("podGroupTemplates");
        told.with(&["spec"], spec).with(&["spec", list], Tree::list(templates.collect::<Vec<_>>()))
    }

    fn template(&self, template: &Tree) -> Tree {
        let policy = policy(template);
        let bare = template.without_key("policy").without_key("schedulingPolicy");
        match self.gangs.api {
            GangApi::Legacy => tree!({"name": template.text_at(&["name"]), "policy": policy}),
            _ => self.in_words(&bare).with_key("schedulingPolicy", policy),
        }
    }

    /// The other fields of a template, in the version of the server: an earlier version has `disruptionMode` as a string.
    fn in_words(&self, terms: &Tree) -> Tree {
        let Some(mode) = terms.get("disruptionMode").filter(|_| self.gangs.api == GangApi::Earlier) else {
            return terms.clone();
        };
        let word = if mode.get("all").is_some() { "PodGroup" } else { "Pod" };
        terms.with(&["disruptionMode"], word)
    }

    fn group(&self, tree: &Tree) -> Result<Option<Tree>, RewriteError> {
        let Some(kind) = self.gangs.api.groups() else { return Ok(None) };
        let told = tree.with(&["apiVersion"], meta::api_version(kind));
        let reference = ["spec", "workloadRef", "apiVersion"];
        if self.gangs.api == GangApi::Own {
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

    /// The fields that a PodGroup gets from its template, which must be in the files.
    fn terms(&self, group: &Tree, workload: &str, template: &str) -> Result<Tree, RewriteError> {
        let beside = |it: &&Document| {
            is_proposed(&it.tree)
                && meta::kind_name(&it.tree) == "Workload"
                && meta::name(&it.tree) == workload
                && meta::namespace(&it.tree) == meta::namespace(group)
        };
        let found = self.all.iter().find(beside).map(|it| &it.tree);
        let found = found.and_then(|it| templates(it).find(|it| it.str_at(&["name"]) == template));
        let Some(found) = found else {
            return Err(RewriteError {
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
        match self.gangs.api {
            _ if workload.is_empty() => terms.clone(),
            GangApi::Earlier => terms.with(
                &["podGroupTemplateRef", "workload"],
                tree!({"workloadName": workload, "podGroupTemplateName": template}),
            ),
            _ => terms.with(&["workloadRef"], tree!({"workloadName": workload, "templateName": template})),
        }
    }

    /// Converts the pod templates of any other object.
    fn pods(&self, tree: &Tree, count: &mut RewriteCount) -> Result<Tree, RewriteError> {
        let word = meta::kind_name(tree);
        let Some((_, path)) = TEMPLATES.iter().find(|(kind, _)| *kind == word.as_str()) else {
            return Ok(tree.clone());
        };
        let namespace = meta::namespace(tree);
        self.below(tree, path, &namespace, count)
    }

    fn below(
        &self,
        tree: &Tree,
        path: &[&str],
        namespace: &Text,
        count: &mut RewriteCount,
    ) -> Result<Tree, RewriteError> {
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

    /// Converts a pod or a pod template.
    fn pod(&self, pod: &Tree, namespace: &Text, count: &mut RewriteCount) -> Result<Tree, RewriteError> {
        let Some(named) = pod.at(&["spec", FIELD]) else { return Ok(pod.clone()) };
        if self.gangs.api == GangApi::Legacy && named.get("podGroupName").is_none() {
            return Ok(pod.clone());
        }
        let group = named.text_at(&["podGroupName"]);
        if group.is_empty() {
            return Err(RewriteError {
                problem: "its pods name an entry of a Workload (spec.workloadRef.podGroup), which this server has not"
                    .to_owned(),
                hint: "make a PodGroup and name it in spec.workloadRef.podGroupName",
            });
        }
        count.pods += 1;
        let member = PodGroupMember {
            workload: named.text_at(&["name"]),
            template: self.template_named(&group, namespace),
            group,
            group_uid: None,
        };
        let told = member.mark_template(self.gangs, &pod.without(&["spec", FIELD]));
        // Only our scheduler reads the annotations; the default scheduler would bind each pod on its own.
        if self.gangs.marker == GroupMarker::Annotations && told.str_at(&["spec", "schedulerName"]).is_empty()
        {
            count.given += 1;
            return Ok(told.with(&["spec", "schedulerName"], SCHEDULER));
        }
        Ok(told)
    }

    /// The template of a PodGroup in the files. For a PodGroup that is not in the files, its own name is assumed.
    fn template_named(&self, group: &Text, namespace: &Text) -> Text {
        let is_it = |it: &&Document| {
            is_proposed(&it.tree)
                && meta::kind_name(&it.tree) == "PodGroup"
                && meta::name(&it.tree) == *group
                && meta::namespace(&it.tree) == *namespace
        };
        self.all.iter().find(is_it).map_or_else(|| group.clone(), |it| template_of(&it.tree))
    }
}

fn is_proposed(tree: &Tree) -> bool {
    tree.str_at(&["apiVersion"]) == PROPOSED
        && ["Workload", "PodGroup"].contains(&meta::kind_name(tree).as_str())
}

/// Whether the pods of an object refer to a group by the field of the proposal.
fn names_group(tree: &Tree) -> bool {
    fn below(tree: &Tree, path: &[&str]) -> bool {
        match path.split_first() {
            None => tree.at(&["spec", FIELD]).is_some(),
            Some((first, rest)) if *first == "[]" => tree.items().iter().any(|it| below(it, rest)),
            Some((first, rest)) => tree.get(first).is_some_and(|it| below(it, rest)),
        }
    }
    let word = meta::kind_name(tree);
    TEMPLATES.iter().any(|(kind, path)| *kind == word.as_str() && below(tree, path))
}

fn templates(workload: &Tree) -> impl Iterator<Item = &Tree> {
    let lists = ["podGroupTemplates", "podGroups"];
    lists.into_iter().flat_map(|list| workload.items_at(&["spec", list]))
}

/// The policy of a template, from either field.
fn policy(template: &Tree) -> Tree {
    let spelled = ["policy", "schedulingPolicy"].iter().find_map(|key| template.get(key));
    spelled.cloned().unwrap_or_default()
}

fn workload_of(group: &Tree) -> Text {
    group.text_at(&["spec", "workloadRef", "name"])
}

/// The template of a PodGroup, from either field.
fn template_of(group: &Tree) -> Text {
    let reference = group.text_at(&["spec", "podGroupTemplateRef", "name"]);
    if reference.is_empty() { group.text_at(&["spec", "podGroupTemplateName"]) } else { reference }
}

#[cfg(test)]
mod tests;
