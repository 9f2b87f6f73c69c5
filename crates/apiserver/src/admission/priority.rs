//! The priority of a pod or of a group of pods is the number of its class.

use muster_store::Key;
use muster_tree::{Text, Tree};

use super::{AdmissionRequest, BUILTIN, Hook, Operation, Verdict};
use crate::status::Status;

pub(super) struct Priority;

const CLASSES: &str = "priorityclasses.scheduling.k8s.io";

impl Hook for Priority {
    fn name(&self) -> &str {
        BUILTIN[4]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let Some(tree) = request.object else {
            return Verdict::allow();
        };
        let released = request.version != request.resource.storage_version;
        if request.is("scheduling.k8s.io", "podgroups") && released && request.operation == Operation::Create
        {
            return resolve_group(request, tree);
        }
        if !request.is("", "pods") {
            return Verdict::allow();
        }
        match (request.operation, request.old) {
            (Operation::Create, _) => resolve(request, tree),
            (Operation::Update, Some(old)) => Verdict::change(kept(tree, old)),
            _ => Verdict::allow(),
        }
    }
}

/// An updated pod with the numbers that it was born with, where it says none.
fn kept(tree: &Tree, old: &Tree) -> Tree {
    ["priority", "preemptionPolicy"].iter().fold(tree.clone(), |tree, key| {
        match (tree.at(&["spec", key]), old.at(&["spec", key])) {
            (None, Some(value)) => tree.with(&["spec", key], value.clone()),
            _ => tree,
        }
    })
}

fn resolve(request: &AdmissionRequest<'_>, tree: &Tree) -> Verdict {
    let object = tree.str_at(&["metadata", "name"]);
    let name = tree.text_at(&["spec", "priorityClassName"]);
    let class = if name.is_empty() { global_default(request) } else { class(request, &name) };
    let class = match class {
        None if !name.is_empty() => {
            let why = format!("no PriorityClass with name {name} was found");
            return Verdict::Deny(Status::forbidden(request.resource.named(object), &why));
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
        return Verdict::Deny(Status::forbidden(request.resource.named(object), &why));
    }
    if let Some(given) =
        tree.at(&["spec", "preemptionPolicy"]).and_then(Tree::as_str).filter(|g| *g != policy.as_str())
    {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        );
        return Verdict::Deny(Status::forbidden(request.resource.named(object), &why));
    }
    let tree = match &class {
        Some(class) => tree.with(&["spec", "priorityClassName"], class.text_at(&["metadata", "name"])),
        None => tree.clone(),
    };
    Verdict::change(tree.with(&["spec", "priority"], value).with(&["spec", "preemptionPolicy"], policy))
}

/// The number of a group's class. Unlike pods, groups keep no policy of their own from it.
fn resolve_group(request: &AdmissionRequest<'_>, tree: &Tree) -> Verdict {
    let object = tree.str_at(&["metadata", "name"]);
    let name = tree.text_at(&["spec", "priorityClassName"]);
    let class = if name.is_empty() { global_default(request) } else { class(request, &name) };
    if class.is_none() && !name.is_empty() {
        let why = format!("no PriorityClass with name {name} was found");
        return Verdict::Deny(Status::forbidden(request.resource.named(object), &why));
    }
    let value = class.as_ref().and_then(|c| c.int_at(&["value"])).unwrap_or(0);
    let tree = match &class {
        Some(class) => tree.with(&["spec", "priorityClassName"], class.text_at(&["metadata", "name"])),
        None => tree.clone(),
    };
    Verdict::change(tree.with(&["spec", "priority"], value))
}

fn class(request: &AdmissionRequest<'_>, name: &Text) -> Option<Tree> {
    let key = Key { resource: Text::from(CLASSES), namespace: Text::new(), name: name.clone() };
    request.look.newest(&key).map(|object| object.tree)
}

fn global_default(request: &AdmissionRequest<'_>) -> Option<Tree> {
    let classes = request.look.all(CLASSES).into_iter().map(|object| object.tree);
    classes
        .filter(|class| class.bool_at(&["globalDefault"]) == Some(true))
        .min_by_key(|class| class.int_at(&["value"]))
}
