//! Validation of `metadata`.

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::{label_key_problems, label_value_problems};
use muster_tree::Tree;

use super::metadata::is_deleting;
use crate::kinds::{FieldErrors, NameRule};

/// Maximum total size of annotations in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// Finalizers without a domain that kube-apiserver accepts.
const PLAIN_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Validates the metadata of a new object.
pub(crate) fn check_new(tree: &Tree, rule: NameRule, errors: &mut FieldErrors) {
    let meta = tree.get("metadata").unwrap_or(&Tree::Null);
    let name = meta.str_at(&["name"]);
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let wrong = name_problems(rule, name).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid("metadata.name", name, why)));
    }
    let base = meta.str_at(&["generateName"]);
    if !base.is_empty() {
        // A random suffix follows, so the base may end in a dash.
        let wrong = name_problems(rule, base.trim_end_matches('-')).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid("metadata.generateName", base, why)));
    }
    check_common(meta, errors);
}

/// Validates the metadata of an updated object.
pub(crate) fn check_changed(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let empty = Tree::Null;
    let meta = new.get("metadata").unwrap_or(&empty);
    let before = old.get("metadata").unwrap_or(&empty);
    if meta.same_branch(before) {
        return;
    }
    check_common(meta, errors);
    // Adding finalizers to a deleting object could block its deletion forever.
    if is_deleting(old) {
        check_no_new_finalizer(meta, before, errors);
    }
}

fn name_problems(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::Subdomain => names::subdomain(name),
        NameRule::Label if name.contains('.') && names::subdomain(name).is_empty() => {
            vec!["must not contain dots".to_owned()]
        }
        NameRule::Label => names::label(name),
        NameRule::PathSegment => names::path_segment(name),
    }
}

fn check_common(meta: &Tree, errors: &mut FieldErrors) {
    check_labels(meta.get("labels"), "metadata.labels", errors);
    check_annotations(meta.get("annotations"), "metadata.annotations", errors);
    check_finalizers(meta, errors);
    check_owners(meta, errors);
}

/// Validates a map of labels.
pub(crate) fn check_labels(labels: Option<&Tree>, path: &str, errors: &mut FieldErrors) {
    for (key, value) in labels.map(Tree::entries).unwrap_or_default() {
        let wrong = label_key_problems(key).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(path, key, why)));
        let value = value.as_str().unwrap_or_default();
        let wrong = label_value_problems(value).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(path, value, why)));
    }
}

/// Validates a map of annotations.
pub(crate) fn check_annotations(annotations: Option<&Tree>, path: &str, errors: &mut FieldErrors) {
    let mut bytes = 0;
    for (key, value) in annotations.map(Tree::entries).unwrap_or_default() {
        let wrong = label_key_problems(&key.to_lowercase()).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(path, key, why)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
}

fn check_finalizers(meta: &Tree, errors: &mut FieldErrors) {
    let names: Vec<&str> = meta.items_at(&["finalizers"]).iter().filter_map(Tree::as_str).collect();
    for (at, name) in names.iter().enumerate() {
        let path = || format!("metadata.finalizers[{at}]");
        let wrong = label_key_problems(name).into_iter();
        errors.extend(wrong.map(|why| FieldError::invalid(path(), *name, why)));
        if !name.contains('/') && !PLAIN_FINALIZERS.contains(name) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path(), *name, why));
        }
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid("metadata.finalizers", Tree::list(names), why));
    }
}

fn check_no_new_finalizer(meta: &Tree, before: &Tree, errors: &mut FieldErrors) {
    let old = before.items_at(&["finalizers"]);
    let added: Vec<&str> =
        meta.items_at(&["finalizers"]).iter().filter(|f| !old.contains(f)).filter_map(Tree::as_str).collect();
    if !added.is_empty() {
        let shown =
            format!("[]string{{{}}}", added.iter().map(|f| format!("{f:?}")).collect::<Vec<_>>().join(", "));
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers {shown}"
        );
        errors.push(FieldError::forbidden("metadata.finalizers", why));
    }
}

fn check_owners(meta: &Tree, errors: &mut FieldErrors) {
    let owners = meta.items_at(&["ownerReferences"]);
    let mut controller: Option<String> = None;
    for (at, owner) in owners.iter().enumerate() {
        check_owner(owner, &format!("metadata.ownerReferences[{at}]"), errors);
        if owner.bool_at(&["controller"]) != Some(true) {
            continue;
        }
        let name = format!("{}/{}", owner.str_at(&["kind"]), owner.str_at(&["name"]));
        if let Some(first) = &controller {
            let why = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
            );
            errors.push(FieldError::invalid_shown("metadata.ownerReferences", owners_text(owners), why));
        }
        controller = Some(name);
    }
}

/// Formats owner references as messages show them: keys in the order of the Go type.
fn owners_text(owners: &[Tree]) -> String {
    const KEYS: [&str; 6] = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let one = |owner: &Tree| {
        let pairs = KEYS.iter().filter_map(|key| owner.get(key).map(|value| format!("\"{key}\":{value}")));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
    };
    format!("[{}]", owners.iter().map(one).collect::<Vec<_>>().join(","))
}

fn check_owner(owner: &Tree, path: &str, errors: &mut FieldErrors) {
    let version = owner.str_at(&["apiVersion"]);
    let place = || format!("{path}.apiVersion");
    if version.is_empty() {
        errors.push(FieldError::required(place(), "must not be empty"));
    } else if version.ends_with('/') || version.matches('/').count() > 1 {
        errors.push(FieldError::invalid(place(), version, "must be <group>/<version> or <version>"));
    }
    for key in ["kind", "name", "uid"] {
        if owner.str_at(&[key]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), "must not be empty"));
        }
    }
}
