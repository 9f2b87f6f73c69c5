//! ResourceClaims, ResourceClaimTemplates, DeviceClasses and ResourceSlices.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::rules;
use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::{
    FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, device_check, device_convert, go_format,
};
use crate::registry::Resource;
use crate::status::Status;

/// Maximum number of requests of a claim.
const REQUESTS_MAX: usize = 32;
/// Maximum number of consumers of a claim.
const RESERVED_MAX: usize = 256;
/// Field order of a request in error messages.
const ORDER: [&str; 10] = [
    "name",
    "exactly",
    "firstAvailable",
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
];
/// Maximum number of devices of a slice.
const DEVICES_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct ResourceClaim;

impl ResourceStrategy for ResourceClaim {
    fn default(&self, tree: Tree) -> Tree {
        defaulted(tree, &["spec"])
    }

    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(tree.with_key("status", tree!({})))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        claim(new.get("spec").unwrap_or(&Tree::Null), &FieldPath::Root("spec"), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        // kube-apiserver does not show the spec here.
        if new.get("spec") != old.get("spec") {
            errors.push(FieldError::invalid("spec", Tree::Null, "field is immutable"));
        }
    }

    fn validate_status(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let at = FieldPath::Root("status");
        let allocation = |tree: &Tree| tree.at(&["status", "allocation"]).cloned();
        let (now, before) = (allocation(new), allocation(old));
        // An allocation can be set and removed, but not changed in place: drivers may have prepared the devices.
        if before.is_some() && now.is_some() && now != before {
            at.field("allocation").immutable(now.as_ref(), before.as_ref(), errors);
        }
        let reserved = new.items_at(&["status", "reservedFor"]);
        let list = at.field("reservedFor");
        if reserved.len() > RESERVED_MAX {
            errors.push(FieldError::too_many(list, reserved.len(), RESERVED_MAX));
        }
        // Deallocation must wait until no pod uses the claim.
        if !reserved.is_empty() && now.is_none() {
            errors.push(FieldError::forbidden(list, "may not be specified when `allocated` is not set"));
        }
        let mut seen = BTreeSet::new();
        for (i, consumer) in reserved.iter().enumerate() {
            for key in ["resource", "name", "uid"] {
                if consumer.str_at(&[key]).is_empty() {
                    list.item(i).field(key).required(errors);
                }
            }
            if !seen.insert(consumer.str_at(&["uid"])) {
                let order = ["apiGroup", "resource", "name", "uid"];
                errors.push(FieldError::duplicate_as(list.item(i), go_format::ordered(consumer, &order)));
            }
        }
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        device_convert::to_wire(resource, tree, version, &["spec"])
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        device_convert::to_storage(resource, tree, version, &["spec"])
    }
}

#[derive(Debug)]
pub(super) struct ResourceClaimTemplate;

impl ResourceStrategy for ResourceClaimTemplate {
    fn default(&self, tree: Tree) -> Tree {
        defaulted(tree, &["spec", "spec"])
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let spec = new.at(&["spec", "spec"]).unwrap_or(&Tree::Null);
        claim(spec, &FieldPath::Root("spec").field("spec"), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        FieldPath::Root("spec").immutable(new.get("spec"), old.get("spec"), errors);
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        device_convert::to_wire(resource, tree, version, &["spec", "spec"])
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        device_convert::to_storage(resource, tree, version, &["spec", "spec"])
    }
}

/// The default of `count` is 1.
fn defaulted(tree: Tree, spec: &[&str]) -> Tree {
    let path: Vec<&str> = spec.iter().copied().chain(["devices", "requests"]).collect();
    let Some(requests) = tree.at(&path) else {
        return tree;
    };
    let requests = requests.map_items(|_, request| {
        request.map_entries(|key, value| {
            Some(match key.as_str() {
                "exactly" => counted(value),
                "firstAvailable" => value.map_items(|_, one| counted(one)),
                _ => value.clone(),
            })
        })
    });
    tree.with(&path, requests)
}

fn counted(request: &Tree) -> Tree {
    let mode = request.str_at(&["allocationMode"]);
    let request =
        if mode.is_empty() { request.with(&["allocationMode"], "ExactCount") } else { request.clone() };
    if request.str_at(&["allocationMode"]) == "ExactCount" && request.int_at(&["count"]).unwrap_or(0) == 0 {
        return request.with(&["count"], 1);
    }
    request
}

fn claim(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let place = at.field("devices");
    let list = place.field("requests");
    let requests = spec.items_at(&["devices", "requests"]);
    if requests.len() > REQUESTS_MAX {
        errors.push(FieldError::too_many(list, requests.len(), REQUESTS_MAX));
    }
    let mut seen = BTreeSet::new();
    for (i, request) in requests.iter().enumerate() {
        let at = list.item(i);
        let name = request.str_at(&["name"]);
        at.field("name").problems(name, names::label(name), errors);
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate_as(at, go_format::ordered(request, &ORDER)));
        }
        match (request.get("exactly"), request.items_at(&["firstAvailable"])) {
            (None, []) => errors
                .push(FieldError::required(at, "exactly one of `exactly` or `firstAvailable` is required")),
            (Some(_), [_, ..]) => {
                let why =
                    "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
                errors.push(FieldError::invalid(at, Tree::Null, why));
            }
            (Some(one), []) => device_request(one, &at.field("exactly"), errors),
            (None, several) => {
                alternatives(several, &at.field("firstAvailable"), errors);
            }
        }
    }
    constraints(spec, &place.field("constraints"), errors);
    let list = place.field("config");
    for (i, config) in spec.items_at(&["devices", "config"]).iter().enumerate() {
        let at = list.item(i);
        device_check::known_requests(spec, config, &at, errors);
        device_check::configuration(config, &at, errors);
    }
}

fn alternatives(several: &[Tree], list: &FieldPath<'_>, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (i, one) in several.iter().enumerate() {
        let at = list.item(i);
        let name = one.str_at(&["name"]);
        at.field("name").problems(name, names::label(name), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate_as(at, go_format::ordered(one, &ORDER)));
        }
        device_request(one, &at, errors);
    }
}

fn device_request(request: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let class = request.str_at(&["deviceClassName"]);
    if class.is_empty() {
        at.field("deviceClassName").required(errors);
    } else {
        at.field("deviceClassName").problems(class, names::subdomain(class), errors);
    }
    let count = request.int_at(&["count"]).unwrap_or(0);
    match request.str_at(&["allocationMode"]) {
        "ExactCount" if count <= 0 => {
            errors.push(FieldError::invalid(at.field("count"), count, "must be greater than zero"));
        }
        "All" if count != 0 => {
            let why = "must not be specified when allocationMode is 'All'";
            errors.push(FieldError::invalid(at.field("count"), count, why));
        }
        mode => at.field("allocationMode").one_of(mode, &["All", "ExactCount"], errors),
    }
    selectors(request, at, errors);
}

fn selectors(owner: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("selectors");
    for (i, selector) in owner.items_at(&["selectors"]).iter().enumerate() {
        let at = list.item(i);
        let cel = at.field("cel");
        match selector.get("cel") {
            None => cel.required(errors),
            Some(rule) => {
                let expression = rule.str_at(&["expression"]);
                if let Err(why) = rules::syntax(expression) {
                    let why = format!("compilation failed: {why}");
                    errors.push(FieldError::invalid(cel.field("expression"), expression, why));
                }
            }
        }
    }
}

fn constraints(spec: &Tree, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    for (i, constraint) in spec.items_at(&["devices", "constraints"]).iter().enumerate() {
        device_check::known_requests(spec, constraint, &list.item(i), errors);
        if constraint.get("matchAttribute").is_none() && constraint.get("distinctAttribute").is_none() {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.push(FieldError::required(list.item(i), why));
        }
        let Some(attribute) = constraint.get("matchAttribute").and_then(Tree::as_str) else {
            continue;
        };
        if !attribute.contains('/') {
            let why = "a fully qualified name must be a domain and a name separated by a slash";
            let at = list.item(i);
            errors.push(FieldError::invalid(at.field("matchAttribute"), attribute, why));
        }
    }
}

#[derive(Debug)]
pub(super) struct DeviceClass;

impl ResourceStrategy for DeviceClass {
    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let root = FieldPath::Root("spec");
        selectors(new.get("spec").unwrap_or(&Tree::Null), &root, errors);
        let list = root.field("config");
        for (i, config) in new.items_at(&["spec", "config"]).iter().enumerate() {
            device_check::configuration(config, &list.item(i), errors);
        }
    }

    fn validate_update(&self, new: &Tree, _old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_create(new, cx, errors);
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }
}

/// `timeAdded` defaults to now.
fn taints_timed(tree: Tree, cx: &StrategyContext<'_>) -> Tree {
    let path = ["spec", "devices"];
    let Some(devices) = tree.at(&path) else {
        return tree;
    };
    let timed = |_: usize, taint: &Tree| match taint.get("timeAdded") {
        Some(_) => taint.clone(),
        None => taint.with(&["timeAdded"], cx.now.to_seconds_text()),
    };
    let devices = devices.map_items(|_, device| match device.get("taints") {
        Some(taints) => device.with(&["taints"], taints.map_items(timed)),
        None => device.clone(),
    });
    tree.with(&path, devices)
}

#[derive(Debug)]
pub(super) struct ResourceSlice;

const PLACES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

impl ResourceStrategy for ResourceSlice {
    fn prepare_create(&self, tree: Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(taints_timed(tree, cx))
    }

    fn prepare_update(&self, new: Tree, _old: &Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(taints_timed(new, cx))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        slice(new.get("spec").unwrap_or(&Tree::Null), errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        slice(new.get("spec").unwrap_or(&Tree::Null), errors);
        let at = FieldPath::Root("spec");
        for path in [&["driver"][..], &["pool", "name"], &["nodeName"]] {
            let of = |tree: &Tree| tree.get("spec").and_then(|spec| spec.at(path)).cloned();
            let place = path.join(".");
            at.field(&place).immutable(of(new).as_ref(), of(old).as_ref(), errors);
        }
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.nodeName", "spec.driver"]
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        device_convert::slice_to_wire(resource, tree, version)
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        device_convert::slice_to_storage(resource, tree, version)
    }
}

fn slice(spec: &Tree, errors: &mut FieldErrors) {
    let at = FieldPath::Root("spec");
    let driver = spec.str_at(&["driver"]);
    if driver.is_empty() {
        at.field("driver").required(errors);
    } else {
        at.field("driver").problems(driver, names::subdomain(&driver.to_lowercase()), errors);
    }
    let pool = at.field("pool");
    if spec.str_at(&["pool", "name"]).is_empty() {
        pool.field("name").required(errors);
    }
    if let Some(n) = spec.int_at(&["pool", "generation"]).filter(|n| *n < 0) {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(pool.field("generation"), n, why));
    }
    let count = spec.int_at(&["pool", "resourceSliceCount"]).unwrap_or(0);
    if count <= 0 {
        errors.push(FieldError::invalid(
            pool.field("resourceSliceCount"),
            count,
            "must be greater than zero",
        ));
    }
    let is_set =
        |key: &&str| spec.get(key).is_some_and(|value| !value.is_empty() && value.as_bool() != Some(false));
    let set: Vec<&str> = PLACES.into_iter().filter(is_set).collect();
    let all = PLACES.map(|key| format!("`{key}`")).join(", ");
    match set.len() {
        1 => {}
        0 => errors.push(FieldError::required(at, format!("exactly one of {all} is required"))),
        _ => {
            let shown = set.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
            let why = format!("exactly one of {all} is required, but multiple fields are set");
            errors.push(FieldError::invalid(at, format!("{{{shown}}}"), why));
        }
    }
    devices(spec, &at.field("devices"), errors);
}

fn devices(spec: &Tree, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    let devices = spec.items_at(&["devices"]);
    if devices.len() > DEVICES_MAX {
        errors.push(FieldError::too_many(list, devices.len(), DEVICES_MAX));
    }
    let mut seen = BTreeSet::new();
    for (i, device) in devices.iter().enumerate() {
        let at = list.item(i);
        let name = device.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
            continue;
        }
        at.field("name").problems(name, names::label(name), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at, name));
        }
        device_check::device(device, &at, errors);
    }
}
