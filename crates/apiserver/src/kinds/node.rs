//! Nodes, Leases and PriorityClasses.

use muster_schema::error::FieldError;
use muster_schema::selector::{label_key_problems, label_value_problems};
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::quantity::Quantity;
use super::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, go_format};
use crate::status::Status;

#[derive(Debug)]
pub(super) struct Node;

impl ResourceStrategy for Node {
    fn default(&self, tree: Tree) -> Tree {
        // Allocatable defaults to capacity.
        match (tree.at(&["status", "capacity"]), tree.at(&["status", "allocatable"])) {
            (Some(capacity), None) => {
                let capacity = capacity.clone();
                tree.with(&["status", "allocatable"], capacity)
            }
            _ => tree,
        }
    }

    fn keeps_status_on_create(&self) -> bool {
        true
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        taints(new, errors);
        amounts(new, errors);
        networks(new, errors);
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        amounts(new, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        taints(new, errors);
        for key in ["podCIDR", "podCIDRs", "providerID"] {
            // Set once: the node IPAM controller or the kubelet may fill an empty value.
            let before = old.at(&["spec", key]).filter(|value| !value.is_empty());
            if before.is_some() && new.at(&["spec", key]) != before {
                if key == "providerID" {
                    let why = "field cannot be modified once set";
                    errors.push(FieldError::invalid("spec.providerID", Tree::Null, why));
                    continue;
                }
                let why = "node updates may not change this field once it is set";
                errors.push(FieldError::forbidden(format!("spec.{key}"), why));
            }
        }
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn field(&self, tree: &Tree, path: &str) -> String {
        match path {
            "spec.unschedulable" => tree.bool_at(&["spec", "unschedulable"]).unwrap_or(false).to_string(),
            _ => super::field_text(tree, path),
        }
    }
}

/// A taint as error messages show it.
const TAINT: [go_format::Part; 4] = [
    ("Key", "key", "\"\""),
    ("Value", "value", "\"\""),
    ("Effect", "effect", "\"\""),
    ("TimeAdded", "timeAdded", "null"),
];

/// Validates capacity and allocatable.
fn amounts(node: &Tree, errors: &mut FieldErrors) {
    for part in ["capacity", "allocatable"] {
        for (name, value) in node.entries_at(&["status", part]) {
            let Some(amount) = Quantity::of(value) else {
                continue;
            };
            let path = format!("status.{part}.{name}");
            if amount < Quantity::ZERO {
                errors.push(FieldError::invalid(&*path, value.clone(), "must be greater than or equal to 0"));
            }
            let whole = name.contains('/') && !name.contains("kubernetes.io/");
            if whole && !amount.is_whole() {
                errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
            }
        }
    }
}

fn networks(node: &Tree, errors: &mut FieldErrors) {
    let one = node.at(&["spec", "podCIDR"]).into_iter().cloned();
    let all = node.items_at(&["spec", "podCIDRs"]);
    let all: Vec<Tree> = if all.is_empty() { one.collect() } else { all.to_vec() };
    for (i, network) in all.iter().filter_map(Tree::as_str).enumerate() {
        let (ip, bits) = network.split_once('/').unwrap_or((network, ""));
        let fits =
            |ip: std::net::IpAddr| bits.parse::<u8>().is_ok_and(|n| n <= if ip.is_ipv4() { 32 } else { 128 });
        if !ip.parse().is_ok_and(fits) {
            let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            errors.push(FieldError::invalid(format!("spec.podCIDRs[{i}]"), network, why));
        }
    }
}

/// Validates a taint of a node or device; `effects` are the valid ones.
pub(super) fn check_taint(taint: &Tree, at: &FieldPath<'_>, effects: &[&str], errors: &mut FieldErrors) {
    let (key, value, effect) = (taint.str_at(&["key"]), taint.str_at(&["value"]), taint.str_at(&["effect"]));
    at.field("key").problems(key, label_key_problems(key), errors);
    at.field("value").problems(value, label_value_problems(value), errors);
    if effect.is_empty() {
        at.field("effect").required(errors);
    }
    at.field("effect").one_of(effect, effects, errors);
}

fn taints(node: &Tree, errors: &mut FieldErrors) {
    let list = FieldPath::Root("metadata.taints");
    let taints = node.items_at(&["spec", "taints"]);
    for (i, taint) in taints.iter().enumerate() {
        let at = list.item(i);
        let (key, effect) = (taint.str_at(&["key"]), taint.str_at(&["effect"]));
        check_taint(taint, &at, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        let same = |other: &&Tree| other.str_at(&["key"]) == key && other.str_at(&["effect"]) == effect;
        if taints[..i].iter().any(|other| same(&other)) {
            let twin =
                format!("{}: taints must be unique by key and effect pair", go_format::typed(taint, &TAINT));
            errors.push(FieldError::duplicate_as(at, twin));
        }
    }
}

#[derive(Debug)]
pub(super) struct Lease;

impl ResourceStrategy for Lease {
    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(without_election(&tree))
    }

    fn prepare_update(&self, new: Tree, _old: &Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(without_election(&new))
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let at = FieldPath::Root("spec");
        if let Some(secs) = new.int_at(&["spec", "leaseDurationSeconds"]).filter(|secs| *secs <= 0) {
            errors.push(FieldError::invalid(
                at.field("leaseDurationSeconds"),
                secs,
                "must be greater than 0",
            ));
        }
        at.field("leaseTransitions").not_negative(new.int_at(&["spec", "leaseTransitions"]), errors);
    }

    fn validate_update(&self, new: &Tree, _old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_create(new, cx, errors);
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// Coordinated leader election is disabled by default upstream, which drops its fields.
fn without_election(lease: &Tree) -> Tree {
    lease.without(&["spec", "strategy"]).without(&["spec", "preferredHolder"])
}

#[derive(Debug)]
pub(super) struct PriorityClass;

/// Maximum value of a user-defined class.
const PRIORITY_MAX: i64 = 1_000_000_000;
/// System classes and their values.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

impl ResourceStrategy for PriorityClass {
    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (name, value) = (new.str_at(&["metadata", "name"]), new.int_at(&["value"]).unwrap_or(0));
        let known = SYSTEM.contains(&(name, value));
        if name.starts_with("system-") && !known {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
            );
            errors.push(FieldError::forbidden("metadata.name", why));
        } else if value > PRIORITY_MAX && !known {
            let why = format!("maximum allowed value of a user defined priority is {PRIORITY_MAX}");
            errors.push(FieldError::forbidden("value", why));
        }
        FieldPath::Root("preemptionPolicy").one_of(
            new.str_at(&["preemptionPolicy"]),
            &["PreemptLowerPriority", "Never"],
            errors,
        );
        one_default(new, cx, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        if new.get("value") != old.get("value") {
            errors.push(FieldError::forbidden("value", "may not be changed in an update."));
        }
        FieldPath::Root("preemptionPolicy").immutable(
            new.get("preemptionPolicy"),
            old.get("preemptionPolicy"),
            errors,
        );
        one_default(new, cx, errors);
    }

    fn generation(&self) -> GenerationRule {
        // The spec-like fields are immutable, so the generation stays 1; kube-apiserver sets it all the same.
        GenerationRule::Spec
    }
}

fn one_default(new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
    if new.bool_at(&["globalDefault"]) != Some(true) {
        return;
    }
    let all = cx.lister.all("priorityclasses.scheduling.k8s.io");
    let name = new.str_at(&["metadata", "name"]);
    let other = all.iter().map(|class| &class.tree).find(|class| {
        class.bool_at(&["globalDefault"]) == Some(true) && class.str_at(&["metadata", "name"]) != name
    });
    if let Some(other) = other {
        let why = format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            other.str_at(&["metadata", "name"])
        );
        errors.push(FieldError::forbidden("globalDefault", why));
    }
}
