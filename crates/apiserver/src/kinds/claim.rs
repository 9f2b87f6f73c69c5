//! PersistentVolumeClaims.

use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::at::At;
use super::quantity::Quantity;
use super::{Cx, Errors, Strategy, affinity_check};
use crate::engine::names;
use crate::status::Status;

/// What claims do differently.
#[derive(Debug)]
pub(super) struct VolumeClaim;

/// Ways to use a volume.
pub(super) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

const IMMUTABLE: &str = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

impl Strategy for VolumeClaim {
    fn prepare_create(&self, tree: Tree, _cx: &Cx<'_>) -> Result<Tree, Status> {
        Ok(tree.with_key("status", tree!({"phase": "Pending"})))
    }

    fn validate_create(&self, new: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        claim(new.get("spec").unwrap_or(&Tree::Null), &At::Root("spec"), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        let (Some(spec), Some(before)) = (new.get("spec"), old.get("spec")) else {
            return;
        };
        if spec == before {
            return;
        }
        claim(spec, &At::Root("spec"), errors);
        let size = ["resources", "requests", "storage"];
        let bound = old.str_at(&["status", "phase"]) == "Bound";
        let mut loose = spec.clone();
        // Binding fills the volume in once; the size of a bound claim may grow.
        if before.str_at(&["volumeName"]).is_empty() {
            loose = loose.with_option(&["volumeName"], before.get("volumeName").cloned());
        }
        if bound {
            loose = loose.with_option(&size, before.at(&size).cloned());
            loose = loose.with_option(
                &["volumeAttributesClassName"],
                before.get("volumeAttributesClassName").cloned(),
            );
            let amount = |tree: &Tree| tree.at(&size).and_then(Quantity::of);
            if amount(spec) < amount(before) {
                errors.push(FieldError::forbidden(
                    "spec.resources.requests.storage",
                    "field can not be less than status.capacity",
                ));
            }
        }
        if loose != *before {
            errors.push(FieldError::forbidden("spec", IMMUTABLE));
        }
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// What is wrong with the spec of a claim.
pub(super) fn claim(spec: &Tree, at: &At<'_>, errors: &mut Errors) {
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
}
