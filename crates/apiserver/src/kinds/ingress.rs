use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::Tree;

use super::container_check::{port_name_problems, port_number};
use super::field_path::FieldPath;
use super::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, ip_check};

#[derive(Debug)]
pub(super) struct Ingress;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");
const CLASS: &str = "kubernetes.io/ingress.class";

impl ResourceStrategy for Ingress {
    fn generation(&self) -> GenerationRule {
        GenerationRule::AllButStatus
    }

    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_update(new, new, cx, errors);
        let annotated = new.at(&["metadata", "annotations", CLASS]).and_then(Tree::as_str);
        let class = new.at(&["spec", "ingressClassName"]).and_then(Tree::as_str);
        if let (Some(annotated), Some(class)) = (annotated, class)
            && annotated != class
        {
            let why = "must match `ingressClassName` when both are specified";
            errors.push(FieldError::invalid(FieldPath::Root("annotations").field(CLASS), annotated, why));
        }
    }

    fn validate_update(&self, new: &Tree, _old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let spec = new.get("spec").unwrap_or(&Tree::Null);
        let default = spec.get("defaultBackend");
        if spec.items_at(&["rules"]).is_empty() && default.is_none() {
            let shown = spec.get("rules").cloned().unwrap_or(Tree::Null);
            let why = "either `defaultBackend` or `rules` must be specified";
            errors.push(FieldError::invalid(SPEC, shown, why));
        }
        if let Some(default) = default {
            backend(default, &SPEC.field("defaultBackend"), errors);
        }
        let list = SPEC.field("rules");
        for (i, one) in spec.items_at(&["rules"]).iter().enumerate() {
            rule(one, &list.item(i), errors);
        }
        let list = SPEC.field("tls");
        for (i, one) in spec.items_at(&["tls"]).iter().enumerate() {
            tls(one, &list.item(i), errors);
        }
        if let Some(class) = spec.get("ingressClassName").and_then(Tree::as_str) {
            SPEC.field("ingressClassName").problems(class, names::subdomain(class), errors);
        }
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        let annotated = new.at(&["metadata", "annotations", CLASS]).is_some();
        if old.is_none() && annotated && new.at(&["spec", "ingressClassName"]).is_none() {
            return vec![format!(
                "annotation {CLASS:?} is deprecated, please use 'spec.ingressClassName' instead"
            )];
        }
        Vec::new()
    }
}

fn rule(rule: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let host = rule.str_at(&["host"]);
    if !host.is_empty() {
        if ip_check::sloppy(host).is_some() {
            errors.push(FieldError::invalid(at.field("host"), host, "must be a DNS name, not an IP address"));
        }
        ip_check::host(host, &at.field("host"), errors);
    }
    let Some(http) = rule.get("http") else { return };
    let at = at.field("http");
    let list = at.field("paths");
    if http.items_at(&["paths"]).is_empty() {
        list.required(errors);
    }
    for (i, one) in http.items_at(&["paths"]).iter().enumerate() {
        path(one, &list.item(i), errors);
    }
}

fn path(tree: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(kind) = tree.get("pathType").and_then(Tree::as_str) else {
        errors.push(FieldError::required(at.field("pathType"), "pathType must be specified"));
        return;
    };
    let (path, place) = (tree.str_at(&["path"]), at.field("path"));
    let mut wrong = |why: String| errors.push(FieldError::invalid(place, path, why));
    let is_absolute = path.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !is_absolute {
                wrong("must be an absolute path".to_owned());
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| path.contains(part)) {
                wrong(format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."].into_iter().filter(|end| path.ends_with(end)) {
                wrong(format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" if !path.is_empty() && !is_absolute => {
            wrong("must be an absolute path".to_owned());
        }
        "ImplementationSpecific" => {}
        other => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(at.field("pathType"), other, kinds));
        }
    }
    backend(tree.get("backend").unwrap_or(&Tree::Null), &at.field("backend"), errors);
}

fn backend(tree: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let why = match (tree.get("resource"), tree.get("service")) {
        (Some(_), Some(_)) => "cannot set both resource and service backends",
        (Some(reference), None) => return local_reference(reference, &at.field("resource"), errors),
        (None, Some(service)) => return backend_service(service, at, errors),
        (None, None) => "resource or service backend is required",
    };
    errors.push(FieldError::invalid(at, "", why));
}

fn backend_service(service: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let place = at.field("service");
    let name = service.str_at(&["name"]);
    if name.is_empty() {
        place.field("name").required(errors);
    } else {
        place.field("name").problems(name, names::label(name), errors);
    }
    let (port, number) =
        (service.str_at(&["port", "name"]), service.int_at(&["port", "number"]).unwrap_or(0));
    let place = place.field("port");
    match (port, number) {
        ("", 0) => errors.push(FieldError::required(at, "port name or number is required")),
        ("", number) => port_number(number, &place.field("number"), errors),
        (name, 0) => place.field("name").problems(name, port_name_problems(name), errors),
        _ => errors.push(FieldError::invalid(at, "", "cannot set both port name & port number")),
    }
}

fn local_reference(reference: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if let Some(group) = reference.get("apiGroup").and_then(Tree::as_str) {
        at.field("apiGroup").problems(group, names::subdomain(group), errors);
    }
    for key in ["kind", "name"] {
        match reference.str_at(&[key]) {
            "" => at.field(key).required(errors),
            text => at.field(key).problems(text, names::path_segment(text), errors),
        }
    }
}

fn tls(tls: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("hosts");
    for (i, host) in tls.items_at(&["hosts"]).iter().enumerate() {
        ip_check::host(host.as_str().unwrap_or_default(), &list.item(i), errors);
    }
    let secret = tls.str_at(&["secretName"]);
    if !secret.is_empty() {
        at.field("secretName").problems(secret, names::subdomain(secret), errors);
    }
}
