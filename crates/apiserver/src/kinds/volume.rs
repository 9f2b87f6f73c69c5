//! PersistentVolumes and StorageClasses.

use muster_api::volume::NOT_SOURCES;
use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::claim::ACCESS_MODES;
use super::field_path::FieldPath;
use super::quantity::Quantity;
use super::{FieldErrors, ResourceStrategy, StrategyContext, affinity_check};
use crate::status::Status;

#[derive(Debug)]
pub(super) struct Volume;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");

impl ResourceStrategy for Volume {
    fn prepare_create(&self, tree: Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let status = tree!({"phase": "Pending", "lastPhaseTransitionTime": cx.now.to_seconds_text()});
        Ok(tree.with_key("status", status))
    }

    fn prepare_status(&self, new: Tree, old: &Tree, cx: &StrategyContext<'_>) -> Tree {
        let phase = |tree: &Tree| tree.text_at(&["status", "phase"]);
        let stamp = ["status", "lastPhaseTransitionTime"];
        // Set by the server unless the client set it itself.
        if phase(&new) != phase(old) && new.at(&stamp) == old.at(&stamp) {
            return new.with(&stamp, cx.now.to_seconds_text());
        }
        new
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        volume(new.get("spec").unwrap_or(&Tree::Null), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let spec = new.get("spec").unwrap_or(&Tree::Null);
        volume(spec, errors);
        let source = |tree: &Tree| {
            tree.map_entries(|key, value| (!NOT_SOURCES.contains(&key.as_str())).then(|| value.clone()))
        };
        if old.get("spec").map(source) != Some(source(spec)) {
            let why = "spec.persistentvolumesource is immutable after creation";
            errors.push(FieldError::forbidden("spec.persistentvolumesource", why));
        }
        let mode = |tree: &Tree| tree.at(&["spec", "volumeMode"]).cloned();
        SPEC.field("volumeMode").immutable(mode(new).as_ref(), mode(old).as_ref(), errors);
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn volume(spec: &Tree, errors: &mut FieldErrors) {
    let modes = spec.items_at(&["accessModes"]);
    let place = SPEC.field("accessModes");
    if modes.is_empty() {
        place.required(errors);
    }
    for mode in modes.iter().filter_map(Tree::as_str) {
        place.one_of(mode, &ACCESS_MODES, errors);
    }
    let place = SPEC.field("capacity");
    match spec.at(&["capacity", "storage"]) {
        None => {
            if spec.entries_at(&["capacity"]).is_empty() {
                place.required(errors);
            }
            let shown = spec.get("capacity").cloned().unwrap_or(Tree::Null);
            errors.push(FieldError::not_supported(place, shown, ["storage"]));
        }
        Some(size) if Quantity::of(size).is_some_and(|q| q <= Quantity::ZERO) => {
            errors.push(FieldError::invalid(place.key("storage"), size.clone(), "must be greater than zero"));
        }
        Some(_) => {}
    }
    let sources =
        spec.entries().iter().filter(|(key, value)| !NOT_SOURCES.contains(&key.as_str()) && !value.is_null());
    match sources.clone().count() {
        0 => errors.push(FieldError::required("spec", "must specify a volume type")),
        1 => {}
        _ => {
            for (key, _) in sources.skip(1) {
                errors
                    .push(FieldError::forbidden(SPEC.field(key), "may not specify more than 1 volume type"));
            }
        }
    }
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = spec.str_at(&["persistentVolumeReclaimPolicy"]);
    SPEC.field("persistentVolumeReclaimPolicy").one_of(policy, &policies, errors);
    SPEC.field("volumeMode").one_of(spec.str_at(&["volumeMode"]), &["Block", "Filesystem"], errors);
    if let Some(required) = spec.at(&["nodeAffinity", "required"]) {
        let place = SPEC.field("nodeAffinity");
        affinity_check::node_selector(required, &place.field("required"), errors);
    }
}

#[derive(Debug)]
pub(super) struct StorageClass;

impl ResourceStrategy for StorageClass {
    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if new.str_at(&["provisioner"]).is_empty() {
            errors.push(FieldError::required("provisioner", ""));
        }
        FieldPath::Root("reclaimPolicy").one_of(
            new.str_at(&["reclaimPolicy"]),
            &["Delete", "Retain"],
            errors,
        );
        let modes = ["Immediate", "WaitForFirstConsumer"];
        FieldPath::Root("volumeBindingMode").one_of(new.str_at(&["volumeBindingMode"]), &modes, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        for key in ["parameters", "provisioner", "reclaimPolicy"] {
            if new.get(key) != old.get(key) {
                errors.push(FieldError::invalid(key, Tree::Null, "field is immutable"));
            }
        }
        FieldPath::Root("volumeBindingMode").immutable(
            new.get("volumeBindingMode"),
            old.get("volumeBindingMode"),
            errors,
        );
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}
