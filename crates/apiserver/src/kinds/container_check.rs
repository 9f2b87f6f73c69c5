//! Validation of containers.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, resource_check, security_check};

/// Names that containers may refer to.
struct Known<'a> {
    volumes: &'a BTreeSet<&'a str>,
    claims: &'a BTreeSet<&'a str>,
}

/// Validates the containers of a pod spec.
pub(super) fn containers(
    spec: &Tree,
    at: &FieldPath<'_>,
    volumes: &BTreeSet<&str>,
    claims: &BTreeSet<&str>,
    errors: &mut FieldErrors,
) {
    let known = Known { volumes, claims };
    let mut names = BTreeSet::new();
    let list = at.field("containers");
    if spec.items_at(&["containers"]).is_empty() {
        list.required(errors);
    }
    for (i, one) in spec.items_at(&["containers"]).iter().enumerate() {
        container(one, &list.item(i), &known, &mut names, errors);
        let policies = ["Always", "Never", "OnFailure"];
        list.item(i).field("restartPolicy").one_of(one.str_at(&["restartPolicy"]), &policies, errors);
        probes(one, &list.item(i), errors);
    }
    let list = at.field("initContainers");
    for (i, one) in spec.items_at(&["initContainers"]).iter().enumerate() {
        let at = list.item(i);
        container(one, &at, &known, &mut names, errors);
        let policies = ["Always", "Never", "OnFailure"];
        at.field("restartPolicy").one_of(one.str_at(&["restartPolicy"]), &policies, errors);
        // Sidecars may have probes; other init containers run to completion.
        if one.str_at(&["restartPolicy"]) == "Always" {
            probes(one, &at, errors);
            continue;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if one.get(key).is_some() {
                let why = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(at.field(key), why));
            }
        }
    }
    ephemeral(spec, at, &known, &mut names, errors);
}

/// Fields that ephemeral containers must not have.
const NOT_EPHEMERAL: [&str; 7] =
    ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resources", "resizePolicy"];

fn ephemeral<'a>(
    spec: &'a Tree,
    at: &FieldPath<'_>,
    known: &Known<'_>,
    names: &mut BTreeSet<&'a str>,
    errors: &mut FieldErrors,
) {
    // Ephemeral containers can target regular and init containers, not each other.
    let targets: BTreeSet<&str> = names.clone();
    let list = at.field("ephemeralContainers");
    for (i, one) in spec.items_at(&["ephemeralContainers"]).iter().enumerate() {
        let at = list.item(i);
        container(one, &at, known, names, errors);
        for key in NOT_EPHEMERAL.iter().filter(|key| one.get(key).is_some_and(|value| !value.is_empty())) {
            errors.push(FieldError::forbidden(at.field(key), "cannot be set for an Ephemeral Container"));
        }
        let target = one.str_at(&["targetContainerName"]);
        if !target.is_empty() && !targets.contains(target) {
            errors.push(FieldError::not_found(at.field("targetContainerName"), target));
        }
    }
}

fn container<'a>(
    tree: &'a Tree,
    at: &FieldPath<'_>,
    known: &Known<'_>,
    seen: &mut BTreeSet<&'a str>,
    errors: &mut FieldErrors,
) {
    let name = tree.str_at(&["name"]);
    if name.is_empty() {
        at.field("name").required(errors);
    } else {
        at.field("name").problems(name, names::label(name), errors);
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
    }
    image(tree.str_at(&["image"]), &at.field("image"), errors);
    ports(tree, &at.field("ports"), errors);
    environment(tree, at, errors);
    let policies = ["File", "FallbackToLogsOnError"];
    at.field("terminationMessagePolicy").one_of(
        tree.str_at(&["terminationMessagePolicy"]),
        &policies,
        errors,
    );
    mounts(tree, at, known, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    at.field("imagePullPolicy").one_of(tree.str_at(&["imagePullPolicy"]), &policies, errors);
    let own = tree.get("resources").unwrap_or(&Tree::Null);
    resource_check::container(own, &at.field("resources"), known.claims, errors);
    if let Some(context) = tree.get("securityContext") {
        security_check::container(context, &at.field("securityContext"), errors);
    }
}

fn image(image: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if image.is_empty() {
        at.required(errors);
    } else if image.trim() != image {
        errors.push(FieldError::invalid(at, image, "must not have leading or trailing whitespace"));
    }
}

fn ports(tree: &Tree, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (i, port) in tree.items_at(&["ports"]).iter().enumerate() {
        let at = list.item(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            at.field("name").problems(name, port_name_problems(name), errors);
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(at.field("name"), name));
            }
        }
        match port.int_at(&["containerPort"]).unwrap_or(0) {
            0 => at.field("containerPort").required(errors),
            n => port_number(n, &at.field("containerPort"), errors),
        }
        if let Some(n) = port.int_at(&["hostPort"]).filter(|n| *n != 0) {
            port_number(n, &at.field("hostPort"), errors);
        }
        at.field("protocol").one_of(port.str_at(&["protocol"]), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Validates a port number.
pub(super) fn port_number(number: i64, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if !(1..=65535).contains(&number) {
        errors.push(FieldError::invalid(at, number, "must be between 1 and 65535, inclusive"));
    }
}

/// Validates the name of a port.
pub(super) fn port_name_problems(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if name.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

fn environment(tree: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("env");
    for (i, variable) in tree.items_at(&["env"]).iter().enumerate() {
        let at = list.item(i);
        let name = variable.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
        } else if name.bytes().any(|b| b == b'=' || !(0x20..0x7f).contains(&b)) {
            let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
            errors.push(FieldError::invalid(at.field("name"), name, why));
        }
        if let Some(from) = variable.get("valueFrom") {
            if !variable.str_at(&["value"]).is_empty() {
                let why = "may not be specified when `value` is not empty";
                errors.push(FieldError::invalid(at.field("valueFrom"), "", why));
            }
            if from.entries().is_empty() {
                let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
                errors.push(FieldError::invalid(at.field("valueFrom"), "", why));
            }
            value_source(from, &at.field("valueFrom"), errors);
        }
    }
    let list = at.field("envFrom");
    for source in tree.items_at(&["envFrom"]) {
        if source.get("configMapRef").is_none() && source.get("secretRef").is_none() {
            let why = "must specify one of: `configMapRef` or `secretRef`";
            errors.push(FieldError::invalid(list, "", why));
        }
    }
}

/// Pod fields available through the downward API.
const READABLE: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

fn value_source(from: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if from.get("fieldRef").is_some() {
        let path = from.str_at(&["fieldRef", "fieldPath"]);
        let place = at.field("fieldRef");
        // One label or annotation; whole maps are available to volumes only.
        let one = path.starts_with("metadata.labels['") || path.starts_with("metadata.annotations['");
        if path.is_empty() {
            place.field("fieldPath").required(errors);
        } else if !READABLE.contains(&path) && !one {
            let why = format!("error converting fieldPath: field label not supported: {path}");
            errors.push(FieldError::invalid(place.field("fieldPath"), path, why));
        }
    }
    for key in ["configMapKeyRef", "secretKeyRef"] {
        if from.get(key).is_some() && from.str_at(&[key, "key"]).is_empty() {
            at.field(key).field("key").required(errors);
        }
    }
}

fn mounts(tree: &Tree, at: &FieldPath<'_>, known: &Known<'_>, errors: &mut FieldErrors) {
    let mut paths = BTreeSet::new();
    let list = at.field("volumeMounts");
    for (i, mount) in tree.items_at(&["volumeMounts"]).iter().enumerate() {
        let at = list.item(i);
        let (name, path) = (mount.str_at(&["name"]), mount.str_at(&["mountPath"]));
        if name.is_empty() {
            at.field("name").required(errors);
        } else if !known.volumes.contains(name) {
            errors.push(FieldError::not_found(at.field("name"), name));
        }
        if path.is_empty() {
            at.field("mountPath").required(errors);
        } else if !paths.insert(path) {
            errors.push(FieldError::invalid(at.field("mountPath"), path, "must be unique"));
        }
        for key in ["subPath", "subPathExpr"] {
            let path = mount.str_at(&[key]);
            if path.split('/').any(|part| part == "..") {
                errors.push(FieldError::invalid(list.field(key), path, "must not contain '..'"));
            } else if path.starts_with('/') {
                errors.push(FieldError::invalid(list.field(key), path, "must be a relative path"));
            }
        }
    }
    let list = at.field("volumeDevices");
    for (i, device) in tree.items_at(&["volumeDevices"]).iter().enumerate() {
        let name = device.str_at(&["name"]);
        if !known.volumes.contains(name) {
            errors.push(FieldError::not_found(list.item(i).field("name"), name));
        }
        if device.str_at(&["devicePath"]).is_empty() {
            list.item(i).field("devicePath").required(errors);
        }
    }
}

fn probes(tree: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    for key in ["postStart", "preStop"] {
        let place = at.field("lifecycle");
        if let Some(hook) = tree.at(&["lifecycle", key])
            && ["exec", "httpGet", "tcpSocket", "sleep"].iter().all(|kind| hook.get(kind).is_none())
        {
            errors.push(FieldError::required(place.field(key), "must specify a handler type"));
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = tree.get(key) {
            self::probe(probe, &at.field(key), errors);
            let threshold = probe.int_at(&["successThreshold"]).unwrap_or(1);
            if key != "readinessProbe" && threshold != 1 {
                let place = at.field(key);
                errors.push(FieldError::invalid(place.field("successThreshold"), threshold, "must be 1"));
            }
        }
    }
}

fn probe(probe: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let handlers: Vec<&str> =
        ["exec", "httpGet", "tcpSocket", "grpc"].into_iter().filter(|key| probe.get(key).is_some()).collect();
    if handlers.is_empty() {
        errors.push(FieldError::required(at, "must specify a handler type"));
    }
    for extra in handlers.iter().skip(1) {
        errors.push(FieldError::forbidden(at.field(extra), "may not specify more than 1 handler type"));
    }
    if probe.get("exec").is_some() && probe.items_at(&["exec", "command"]).is_empty() {
        let place = at.field("exec");
        place.field("command").required(errors);
    }
    for key in ["httpGet", "tcpSocket", "grpc"] {
        if let Some(port) = probe.at(&[key, "port"]).and_then(Tree::as_int) {
            let place = at.field(key);
            port_number(port, &place.field("port"), errors);
        }
    }
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        at.field(key).not_negative(probe.int_at(&[key]), errors);
    }
}
