//! Validation of pod specs, in pods and templates.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::label_key_problems;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{
    FieldErrors, affinity_check, container_check, go_format, resource_check, security_check, volume_check,
};
use crate::engine::metadata_check::check_labels;

const DEADLINE_MAX: i64 = i32::MAX as i64;

/// Validates a pod spec.
pub(super) fn spec(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let volumes = volume_check::volumes(spec.items_at(&["volumes"]), &at.field("volumes"), errors);
    let claims = claims(spec, &at.field("resourceClaims"), errors);
    container_check::containers(spec, at, &volumes, &claims, errors);
    resource_check::pod(spec, at, &claims, errors);
    words(spec, at, errors);
    numbers(spec, at, errors);
    place(spec, at, errors);
    security_check::pod(spec, at, errors);
    host_ports(spec, at, errors);
    gates(spec, at, errors);
    tolerations(spec.items_at(&["tolerations"]), &at.field("tolerations"), errors);
    affinity_check::affinity(spec, at, errors);
    groups(spec, at, errors);
}

fn words(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let policies = ["Always", "OnFailure", "Never"];
    at.field("restartPolicy").one_of(spec.str_at(&["restartPolicy"]), &policies, errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    at.field("dnsPolicy").one_of(spec.str_at(&["dnsPolicy"]), &policies, errors);
    let policies = ["Never", "PreemptLowerPriority"];
    at.field("preemptionPolicy").one_of(spec.str_at(&["preemptionPolicy"]), &policies, errors);
    for key in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let name = spec.str_at(&[key]);
        if !name.is_empty() {
            at.field(key).problems(name, names::subdomain(name), errors);
        }
    }
    for key in ["hostname", "subdomain"] {
        let name = spec.str_at(&[key]);
        if !name.is_empty() {
            at.field(key).problems(name, names::label(name), errors);
        }
    }
}

fn numbers(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if spec.str_at(&["dnsPolicy"]) == "None" && spec.get("dnsConfig").is_none() {
        let why = "must provide `dnsConfig` when `dnsPolicy` is None";
        errors.push(FieldError::required(at.field("dnsConfig"), why));
    }
    if let Some(secs) = spec.int_at(&["activeDeadlineSeconds"]).filter(|n| !(1..=DEADLINE_MAX).contains(n)) {
        let why = format!("must be between 1 and {DEADLINE_MAX}, inclusive");
        errors.push(FieldError::invalid(at.field("activeDeadlineSeconds"), secs, why));
    }
    for (i, alias) in spec.items_at(&["hostAliases"]).iter().enumerate() {
        let ip = alias.str_at(&["ip"]);
        if ip.parse::<std::net::IpAddr>().is_err() {
            let list = at.field("hostAliases");
            let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
            errors.push(FieldError::invalid(list.item(i).field("ip"), ip, why));
        }
    }
}

/// With host network, host port and container port must be equal.
fn host_ports(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if spec.bool_at(&["hostNetwork"]) != Some(true) {
        return;
    }
    let list = at.field("containers");
    for (i, container) in spec.items_at(&["containers"]).iter().enumerate() {
        let at = list.item(i);
        let ports = at.field("ports");
        for (j, port) in container.items_at(&["ports"]).iter().enumerate() {
            let host = port.int_at(&["hostPort"]).unwrap_or(0);
            if port.int_at(&["containerPort"]) != Some(host) {
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(ports.item(j).field("hostPort"), host, why));
            }
        }
    }
}

fn place(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    check_labels(spec.get("nodeSelector"), &at.field("nodeSelector").to_string(), errors);
    let list = at.field("topologySpreadConstraints");
    for (i, rule) in spec.items_at(&["topologySpreadConstraints"]).iter().enumerate() {
        let at = list.item(i);
        let skew = rule.int_at(&["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            errors.push(FieldError::invalid(at.field("maxSkew"), skew, "must be greater than zero"));
        }
        if rule.str_at(&["topologyKey"]).is_empty() {
            errors.push(FieldError::required(at.field("topologyKey"), "can not be empty"));
        }
        let words = ["DoNotSchedule", "ScheduleAnyway"];
        let word = rule.str_at(&["whenUnsatisfiable"]);
        if !words.contains(&word) {
            errors.push(FieldError::not_supported(at.field("whenUnsatisfiable"), word, words));
        }
        affinity_check::selector(rule.get("labelSelector"), &at.field("labelSelector"), errors);
        let pair = |rule: &Tree| (rule.text_at(&["topologyKey"]), rule.text_at(&["whenUnsatisfiable"]));
        // The duplicate is reported at the earlier of the two, as upstream.
        let later = &spec.items_at(&["topologySpreadConstraints"])[i + 1..];
        if later.iter().any(|other| pair(other) == pair(rule)) {
            let (key, word) = pair(rule);
            let place = at.field("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(place, format!("{{{key}, {word}}}")));
        }
    }
}

fn gates(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let gates = spec.items_at(&["schedulingGates"]);
    let list = at.field("schedulingGates");
    let mut seen = BTreeSet::new();
    for (i, gate) in gates.iter().enumerate() {
        let name = gate.str_at(&["name"]);
        list.item(i).problems(name, label_key_problems(name), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(list.item(i), name));
        }
    }
    // A pod with a node bypasses the scheduler, so its gates would never hold.
    if !gates.is_empty() && !spec.str_at(&["nodeName"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(at.field("nodeName"), why));
    }
}

pub(super) fn tolerations(all: &[Tree], list: &FieldPath<'_>, errors: &mut FieldErrors) {
    for (i, toleration) in all.iter().enumerate() {
        let at = list.item(i);
        let part = |key: &str| toleration.at(&[key]).and_then(Tree::as_str).unwrap_or_default();
        let (key, operator, value, effect) = (part("key"), part("operator"), part("value"), part("effect"));
        if !key.is_empty() {
            at.field("key").problems(key, label_key_problems(key), errors);
        } else if operator != "Exists" {
            let why =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(at.field("operator"), operator, why));
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(at.field("effect"), effect, why));
        }
        match operator {
            // The path is `operator`, although the value is wrong: upstream's path.
            "" | "Equal" => {
                let problems = muster_schema::selector::label_value_problems(value);
                at.field("operator").problems(value, problems, errors);
            }
            "Exists" if !value.is_empty() => {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(at.field("operator"), value, why));
            }
            "Exists" => {}
            other => errors.push(FieldError::not_supported(at.field("operator"), other, ["Equal", "Exists"])),
        }
        at.field("effect").one_of(effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
    }
}

/// The names of resource claims; reports invalid ones.
fn claims<'a>(spec: &'a Tree, list: &FieldPath<'_>, errors: &mut FieldErrors) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    for (i, claim) in spec.items_at(&["resourceClaims"]).iter().enumerate() {
        let at = list.item(i);
        let name = claim.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
        } else {
            at.field("name").problems(name, names::label(name), errors);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(at.field("name"), name));
            }
        }
        let (by_name, by_template) = (claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName"));
        let why = match (by_name, by_template) {
            (None, None) => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            (Some(_), Some(_)) => {
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            }
            _ => continue,
        };
        errors.push(FieldError::invalid_as(at, &go_format::typed(claim, &go_format::POD_CLAIM), why));
    }
    seen
}

/// Deprecation warnings of a pod spec at `place`.
pub(super) fn warnings(spec: Option<&Tree>, place: &str) -> Vec<String> {
    let key = spec.and_then(|spec| spec.at(&["workloadRef", "podGroupReplicaKey"]));
    let words = "deprecated, every replica has a PodGroup of its own: name it by podGroupName";
    key.map(|_| format!("{place}.workloadRef.podGroupReplicaKey: {words}")).into_iter().collect()
}

/// PodGroup membership: the KEP's `workloadRef` and the field of Kubernetes 1.37.
fn groups(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let place = FieldPath::Field(at, "schedulingGroup");
    let place = place.field("podGroupName");
    let released = spec.at(&["schedulingGroup", "podGroupName"]).and_then(Tree::as_str);
    match released {
        Some(name) => place.problems(name, names::subdomain(name), errors),
        None if spec.get("schedulingGroup").is_some() => {
            errors.push(FieldError::invalid(place, Tree::Null, "must specify one of: `podGroupName`"));
        }
        None => {}
    }
    let Some(reference) = spec.get("workloadRef") else {
        return;
    };
    let at = at.field("workloadRef");
    let workload = reference.str_at(&["name"]);
    if workload.is_empty() {
        at.field("name").required(errors);
    } else {
        at.field("name").problems(workload, names::subdomain(workload), errors);
    }
    let (group, legacy) = (reference.str_at(&["podGroupName"]), reference.str_at(&["podGroup"]));
    if group.is_empty() && legacy.is_empty() {
        at.field("podGroupName").required(errors);
    }
    if !group.is_empty() {
        at.field("podGroupName").problems(group, names::subdomain(group), errors);
    }
    for key in ["podGroup", "podGroupReplicaKey"] {
        let name = reference.str_at(&[key]);
        if !name.is_empty() {
            at.field(key).problems(name, names::label(name), errors);
        }
    }
    // Both fields may be set if they name the same group.
    let Some(other) = released else {
        return;
    };
    if group.is_empty() && !legacy.is_empty() {
        let why = format!("may not be set together with {place}: a pod belongs to one group");
        errors.push(FieldError::forbidden(at.field("podGroup"), why));
    } else if !group.is_empty() && other != group {
        let why = format!("must equal {place} ({other:?})");
        errors.push(FieldError::invalid(at.field("podGroupName"), group, why));
    }
}
