//! The Priority plugin: resolves the PriorityClass of pods, PodGroups and Workloads.

use muster_store::Key;
use muster_tree::{Text, Tree};

use super::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, BUILTIN, Operation};
use crate::status::Status;

pub(super) struct Priority;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";

impl AdmissionPlugin for Priority {
    fn name(&self) -> &str {
        BUILTIN[5]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let Some(tree) = request.object else {
            return AdmissionDecision::allow();
        };
        if request.operation == Operation::Create && request.is("scheduling.k8s.io", "podgroups") {
            return verdict(group(request, tree));
        }
        if request.operation == Operation::Create && request.is("scheduling.k8s.io", "workloads") {
            return verdict(workload(request, tree));
        }
        if !request.is("", "pods") {
            return AdmissionDecision::allow();
        }
        match (request.operation, request.old) {
            (Operation::Create, _) => resolve(request, tree),
            (Operation::Update, Some(old)) => AdmissionDecision::change(kept(tree, old)),
            _ => AdmissionDecision::allow(),
        }
    }
}

/// Keeps the resolved values of a stored pod when an update leaves them out.
fn kept(tree: &Tree, old: &Tree) -> Tree {
    ["priority", "preemptionPolicy"].iter().fold(tree.clone(), |tree, key| {
        match (tree.at(&["spec", key]), old.at(&["spec", key])) {
            (None, Some(value)) => tree.with(&["spec", key], value.clone()),
            _ => tree,
        }
    })
}

fn resolve(request: &AdmissionRequest<'_>, tree: &Tree) -> AdmissionDecision {
    let object = tree.str_at(&["metadata", "name"]);
    let name = tree.text_at(&["spec", "priorityClassName"]);
    let class = if name.is_empty() { global_default(request) } else { class(request, &name) };
    let class = match class {
        None if !name.is_empty() => {
            let why = format!("no PriorityClass with name {name} was found");
            return AdmissionDecision::Deny(Status::forbidden(request.resource.named(object), &why));
        }
        class => class,
    };
    let value = class.as_ref().and_then(|c| c.int_at(&["value"])).unwrap_or(0);
    let policy = class.as_ref().map(|c| c.text_at(&["preemptionPolicy"])).unwrap_or_default();
    let policy = if policy.is_empty() { Text::from("PreemptLowerPriority") } else { policy };
    if let Some(given) = tree.int_at(&["spec", "priority"]).filter(|given| *given != value) {
        let why = format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return AdmissionDecision::Deny(Status::forbidden(request.resource.named(object), &why));
    }
    if let Some(given) =
        tree.at(&["spec", "preemptionPolicy"]).and_then(Tree::as_str).filter(|g| *g != policy.as_str())
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return AdmissionDecision::Deny(Status::forbidden(request.resource.named(object), &why));
    }
    let tree = match &class {
        Some(class) => tree.with(&["spec", "priorityClassName"], class.text_at(&["metadata", "name"])),
        None => tree.clone(),
    };
    AdmissionDecision::change(
        tree.with(&["spec", "priority"], value).with(&["spec", "preemptionPolicy"], policy),
    )
}

fn verdict(changed: Result<Tree, Status>) -> AdmissionDecision {
    changed.map_or_else(AdmissionDecision::Deny, AdmissionDecision::change)
}

/// Whether the request uses `v1beta1`, where every PodGroup has its own priority. In `v1alpha1` only a group with a
/// class has one; others take that of their pods.
fn is_v1beta1(request: &AdmissionRequest<'_>) -> bool {
    request.version != request.resource.storage_version
}

fn group(request: &AdmissionRequest<'_>, tree: &Tree) -> Result<Tree, Status> {
    match tree.get("spec") {
        Some(spec) => Ok(tree.with_key("spec", filled(request, tree, spec, is_v1beta1(request))?)),
        None => Ok(tree.clone()),
    }
}

/// In `v1alpha1` templates are resolved, too.
fn workload(request: &AdmissionRequest<'_>, tree: &Tree) -> Result<Tree, Status> {
    let path = ["spec", "podGroupTemplates"];
    let templates = tree.items_at(&path);
    if is_v1beta1(request) || templates.iter().all(|t| t.str_at(&["priorityClassName"]).is_empty()) {
        return Ok(tree.clone());
    }
    let templates: Result<Vec<Tree>, Status> =
        templates.iter().map(|template| filled(request, tree, template, false)).collect();
    Ok(tree.with(&path, Tree::list(templates?)))
}

/// Resolves class, priority and preemption policy of a group or template. Without a class, `must` applies the global
/// default.
fn filled(request: &AdmissionRequest<'_>, tree: &Tree, said: &Tree, must: bool) -> Result<Tree, Status> {
    let forbidden = |why: &str| {
        let object = tree.str_at(&["metadata", "name"]);
        Err(Status::forbidden(request.resource.named(object), why))
    };
    let name = said.text_at(&["priorityClassName"]);
    let given = said.int_at(&["priority"]);
    // A class always resolves to a number.
    let must = must || !name.is_empty();
    if !must && given.is_none() {
        return Ok(said.clone());
    }
    let class = if name.is_empty() { global_default(request) } else { class(request, &name) };
    if class.is_none() && !name.is_empty() {
        return forbidden(&format!("no PriorityClass with name {name} was found"));
    }
    let value = class.as_ref().and_then(|c| c.int_at(&["value"])).unwrap_or(0);
    if let Some(given) = given.filter(|given| *given != value) {
        return forbidden(&format!(
            "priority set in the pod group ({given}) must match the priority computed ({value}) based on the priority class set in the spec"
        ));
    }
    if !must {
        return Ok(said.clone());
    }
    let policy = class.as_ref().map(|c| c.text_at(&["preemptionPolicy"])).unwrap_or_default();
    let policy = if policy.is_empty() { Text::from("PreemptLowerPriority") } else { policy };
    let given = said.str_at(&["preemptionPolicy"]);
    // `v1beta1` defaults this value, so it is not the user's choice.
    let is_default = is_v1beta1(request) && given == "PreemptLowerPriority";
    let is_wish = !given.is_empty() && !is_default;
    if is_wish && given != policy.as_str() {
        return forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod group spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    let named = class.map(|class| Tree::from(class.text_at(&["metadata", "name"])));
    let named = said.with_option(&["priorityClassName"], named);
    Ok(named.with(&["priority"], value).with(&["preemptionPolicy"], policy))
}

fn class(request: &AdmissionRequest<'_>, name: &Text) -> Option<Tree> {
    let key = Key { resource: Text::from(CLASSES), namespace: Text::new(), name: name.clone() };
    request.lister.newest(&key).map(|object| object.tree)
}

fn global_default(request: &AdmissionRequest<'_>) -> Option<Tree> {
    let classes = request.lister.all(CLASSES).into_iter().map(|object| object.tree);
    classes
        .filter(|class| class.bool_at(&["globalDefault"]) == Some(true))
        .min_by_key(|class| class.int_at(&["value"]))
}
