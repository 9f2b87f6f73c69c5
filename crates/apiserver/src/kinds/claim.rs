//! PersistentVolumeClaims.

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::quantity::Quantity;
use super::{FieldErrors, ResourceStrategy, StrategyContext, affinity_check};
use crate::status::Status;

#[derive(Debug)]
pub(super) struct VolumeClaim;

pub(super) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

impl ResourceStrategy for VolumeClaim {
    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(with_sources(tree, None).with_key("status", tree!({"phase": "Pending"})))
    }

    fn prepare_update(&self, new: Tree, old: &Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(with_sources(new, Some(old)))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        claim(new.get("spec").unwrap_or(&Tree::Null), &FieldPath::Root("spec"), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (Some(spec), Some(before)) = (new.get("spec"), old.get("spec")) else {
            return;
        };
        if spec == before {
            return;
        }
        claim(spec, &FieldPath::Root("spec"), errors);
        let size = ["resources", "requests", "storage"];
        let bound = old.str_at(&["status", "phase"]) == "Bound";
        let mut loose = spec.clone();
        // `volumeName` may be set once; a bound claim may be expanded.
        if before.str_at(&["volumeName"]).is_empty() {
            loose = loose.with_option(&["volumeName"], before.get("volumeName").cloned());
        }
        // The default class may be assigned retroactively.
        if before.get("storageClassName").is_none() {
            loose = loose.without_key("storageClassName");
        }
        // Only bound claims can be expanded or change their attributes class.
        if bound {
            loose = loose.with_option(&size, before.at(&size).cloned());
            loose = loose.with_option(
                &["volumeAttributesClassName"],
                before.get("volumeAttributesClassName").cloned(),
            );
        }
        if loose != *before {
            errors.push(FieldError::forbidden("spec", IMMUTABLE));
        }
        let amount = |tree: Option<&Tree>| tree.and_then(Quantity::of).unwrap_or(Quantity::ZERO);
        let (wanted, capacity) = (amount(spec.at(&size)), amount(old.at(&["status", "capacity", "storage"])));
        // A failed expansion may be retried with a smaller size, above the current capacity.
        if wanted < amount(before.at(&size)) && wanted <= capacity {
            let why = "field can not be less than status.capacity";
            errors.push(FieldError::forbidden("spec.resources.requests.storage", why));
        }
        // kube-apiserver omits `spec` in this path.
        FieldPath::Root("volumeMode").immutable(spec.get("volumeMode"), before.get("volumeMode"), errors);
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// Keeps `dataSource` and `dataSourceRef` in sync. `dataSource` allows only claims and snapshots; anything else is
/// dropped.
fn with_sources(tree: Tree, before: Option<&Tree>) -> Tree {
    let (old_way, new_way) = (&["spec", "dataSource"][..], &["spec", "dataSourceRef"][..]);
    // A stored source of another kind (an earlier version allowed it) is not dropped on update.
    let in_use = before.is_some_and(|before| before.at(old_way).or(before.at(new_way)).is_some());
    match (tree.at(old_way), tree.at(new_way)) {
        (Some(source), None) if !in_use && !is_claim_or_snapshot(source) => tree.without(old_way),
        (Some(source), None) => tree.with(new_way, source.clone()),
        (None, Some(source)) if source.str_at(&["namespace"]).is_empty() => {
            tree.with(old_way, source.without_key("namespace"))
        }
        _ => tree,
    }
}

fn is_claim_or_snapshot(source: &Tree) -> bool {
    matches!(
        (source.str_at(&["apiGroup"]), source.str_at(&["kind"])),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    )
}

fn source(source: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    for key in ["name", "kind"] {
        if source.str_at(&[key]).is_empty() {
            at.field(key).required(errors);
        }
    }
    let (group, kind) = (source.str_at(&["apiGroup"]), source.str_at(&["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(at, kind, why));
    }
    if !group.is_empty() {
        at.field("apiGroup").problems(group, names::subdomain(group), errors);
    }
    let namespace = source.str_at(&["namespace"]);
    if !namespace.is_empty() {
        at.field("namespace").problems(namespace, names::label(namespace), errors);
    }
}

/// If both are set, they must be equal.
fn sources(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let (old, new) = (spec.get("dataSource"), spec.get("dataSourceRef"));
    for (key, value) in [("dataSource", old), ("dataSourceRef", new)] {
        if let Some(value) = value {
            source(value, &at.field(key), errors);
        }
    }
    let (Some(old), Some(new)) = (old, new) else {
        return;
    };
    let parts = |tree: &Tree| ["apiGroup", "kind", "name"].map(|key| tree.text_at(&[key]));
    let why = if !new.str_at(&["namespace"]).is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if parts(old) != parts(new) {
        "must match dataSourceRef"
    } else {
        return;
    };
    // The shown value is kube-apiserver's path object, which has no JSON fields.
    errors.push(FieldError::invalid(at, Tree::empty_map(), why));
}

/// Validates a PersistentVolumeClaim spec.
pub(super) fn claim(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let modes = spec.items_at(&["accessModes"]);
    let place = at.field("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(place, "at least 1 access mode is required"));
    }
    for mode in modes.iter().filter_map(Tree::as_str) {
        place.one_of(mode, &ACCESS_MODES, errors);
    }
    let once = modes.iter().any(|mode| mode.as_str() == Some("ReadWriteOncePod"));
    if once && modes.len() > 1 {
        let why = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(place, why));
    }
    affinity_check::selector(spec.get("selector"), &at.field("selector"), errors);
    let place = at.field("resources");
    match spec.at(&["resources", "requests", "storage"]) {
        None => place.key("storage").required(errors),
        Some(size) if Quantity::of(size).is_some_and(|q| q <= Quantity::ZERO) => {
            errors.push(FieldError::invalid(place.key("storage"), size.clone(), "must be greater than zero"));
        }
        Some(_) => {}
    }
    let class = spec.str_at(&["storageClassName"]);
    if !class.is_empty() {
        at.field("storageClassName").problems(class, names::subdomain(class), errors);
    }
    at.field("volumeMode").one_of(spec.str_at(&["volumeMode"]), &["Block", "Filesystem"], errors);
    sources(spec, at, errors);
}
