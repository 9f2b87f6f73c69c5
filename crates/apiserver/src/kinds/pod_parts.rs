//! Validation of the `resize` and `ephemeralcontainers` subresources.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::FieldErrors;
use super::field_path::FieldPath;
use super::pod::quality;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");

/// Ephemeral containers may be added, but neither changed nor removed.
pub(super) fn ephemeral(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let path = ["spec", "ephemeralContainers"];
    let list = SPEC.field("ephemeralContainers");
    for before in old.items_at(&path) {
        let name = before.str_at(&["name"]);
        let why = match new.items_at(&path).iter().find(|now| now.str_at(&["name"]) == name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(now) if now != before => {
                format!("existing ephemeral containers {name:?} may not be changed\n")
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(list, why));
    }
}

/// Only cpu and memory may be resized, and none may be removed.
pub(super) fn resize(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let (Some(spec), Some(before)) = (new.get("spec"), old.get("spec")) else {
        return;
    };
    if quality(spec) != quality(before) {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", new.text_at(&["status", "qosClass"]), why));
    }
    let list = SPEC.field("containers");
    let containers = spec.items_at(&["containers"]).iter().zip(before.items_at(&["containers"]));
    for (i, (now, then)) in containers.enumerate() {
        let at = list.item(i);
        let at = at.field("resources");
        for (part, words) in [("limits", "resource limits"), ("requests", "resource requests")] {
            let had = then.entries_at(&["resources", part]);
            let gone = |(name, _): &(_, _)| is_sized(name) && now.at(&["resources", part, name]).is_none();
            if had.iter().any(gone) {
                errors.push(FieldError::forbidden(at.field(part), format!("{words} cannot be removed")));
            }
        }
        if fixed(now) != fixed(then) {
            errors.push(FieldError::forbidden("spec", "only cpu and memory resources are mutable"));
        }
    }
}

fn is_sized(name: &muster_tree::Text) -> bool {
    matches!(name.as_str(), "cpu" | "memory")
}

/// A container without resizable resources.
fn fixed(container: &Tree) -> Tree {
    let mut container = container.without_key("resizePolicy");
    for part in ["limits", "requests"] {
        for name in ["cpu", "memory"] {
            container = container.without(&["resources", part, name]);
        }
        if container.at(&["resources", part]).is_some_and(Tree::is_empty) {
            container = container.without(&["resources", part]);
        }
    }
    container
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn pod(resources: Tree) -> Tree {
        tree!({"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"qosClass": "Burstable"}})
    }

    #[test]
    fn only_amounts_of_cpu_and_memory_change() {
        let old = pod(tree!({"requests": {"cpu": "1"}}));
        for (resources, want) in [
            (tree!({"requests": {"cpu": "2"}}), vec![]),
            (tree!({"requests": {"cpu": "2", "memory": "1Gi"}}), vec![]),
            (tree!({"requests": {"cpu": "1"}, "limits": {"x/gpu": "1"}}), vec!["spec"]),
            (tree!({}), vec!["spec", "spec.containers[0].resources.requests"]),
        ] {
            let mut errors = FieldErrors::new();
            resize(&pod(resources.clone()), &old, &mut errors);
            assert_eq!(errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), want, "{resources:?}");
        }
    }

    #[test]
    fn added_containers_stay_as_they_are() {
        let with = |list: Tree| tree!({"spec": {"ephemeralContainers": list}});
        let old = with(tree!([{"name": "d", "image": "i"}]));
        for (list, want) in [
            (tree!([{"name": "d", "image": "i"}, {"name": "e"}]), 0),
            (tree!([{"name": "d", "image": "j"}]), 1),
            (tree!([]), 1),
        ] {
            let mut errors = FieldErrors::new();
            ephemeral(&with(list), &old, &mut errors);
            assert_eq!(errors.len(), want);
        }
    }
}
