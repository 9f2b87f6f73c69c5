//! The LimitRanger plugin: defaults requests and limits of containers, and enforces bounds of containers, pods and
//! claims.

use muster_tree::Tree;

use super::{AdmissionDecision, AdmissionPlugin, AdmissionRequest, BUILTIN, Operation};
use crate::kinds::quantity::{Amount, Quantity};
use crate::quota::{self, Amounts};
use crate::status::Status;

pub(super) struct LimitRanger;

/// Lists the defaulted values.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl AdmissionPlugin for LimitRanger {
    fn name(&self) -> &str {
        BUILTIN[1]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let Some(Subject::Pod(pod)) = Subject::of(request) else { return AdmissionDecision::allow() };
        let filled = ranges(request).iter().fold(pod.clone(), |pod, range| with_defaults(&pod, range));
        if filled == *pod { AdmissionDecision::allow() } else { AdmissionDecision::change(filled) }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> AdmissionDecision {
        let Some(subject) = Subject::of(request) else { return AdmissionDecision::allow() };
        for range in ranges(request) {
            let mut problems = Vec::new();
            for limit in range.items_at(&["spec", "limits"]) {
                subject.check(limit, &mut problems);
            }
            if let Some(words) = join_messages(problems) {
                let name = subject.tree().str_at(&["metadata", "name"]);
                return AdmissionDecision::Deny(Status::forbidden(request.resource.named(name), &words));
            }
        }
        AdmissionDecision::allow()
    }
}

/// An object that LimitRanges constrain.
enum Subject<'a> {
    Pod(&'a Tree),
    Claim(&'a Tree),
}

impl<'a> Subject<'a> {
    /// The constrained object of a request. Resources of a stored pod change through `resize` only.
    fn of(request: &AdmissionRequest<'a>) -> Option<Subject<'a>> {
        let tree = request.object?;
        if request.old.is_some_and(|old| old.at(&["metadata", "deletionTimestamp"]).is_some()) {
            return None;
        }
        let resource = request.resource;
        let what = (resource.group.as_str(), resource.plural.as_str(), request.subresource.as_str());
        match (request.operation, what) {
            (Operation::Create, ("", "pods", "")) | (Operation::Update, ("", "pods", "resize")) => {
                Some(Subject::Pod(tree))
            }
            (Operation::Create | Operation::Update, ("", "persistentvolumeclaims", "")) => {
                Some(Subject::Claim(tree))
            }
            _ => None,
        }
    }

    fn tree(&self) -> &'a Tree {
        match self {
            Subject::Pod(tree) | Subject::Claim(tree) => tree,
        }
    }

    /// Reports violations of one item of a range.
    fn check(&self, limit: &Tree, problems: &mut Vec<String>) {
        match (self, limit.str_at(&["type"])) {
            (Subject::Pod(pod), "Container") => {
                let lists = ["containers", "initContainers"].map(|list| pod.items_at(&["spec", list]));
                for container in lists.into_iter().flatten() {
                    let part = |part: &str| quota::of_tree(container.at(&["resources", part]));
                    ResourceAmounts { requests: part("requests"), limits: part("limits") }
                        .check(limit, problems);
                }
            }
            (Subject::Pod(pod), "Pod") => {
                let spec = pod.get("spec").unwrap_or(&Tree::Null);
                let part = |part: &str| {
                    let mut total = quota::of_containers(spec, part);
                    let own = quota::of_tree(spec.at(&["resources", part]));
                    total.extend(
                        own.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")),
                    );
                    total
                };
                ResourceAmounts { requests: part("requests"), limits: part("limits") }.check(limit, problems);
            }
            (Subject::Claim(claim), "PersistentVolumeClaim") => {
                let requests = quota::of_tree(claim.at(&["spec", "resources", "requests"]));
                ResourceAmounts { requests, limits: Amounts::new() }.check_claim(limit, problems);
            }
            _ => {}
        }
    }
}

fn ranges(request: &AdmissionRequest<'_>) -> Vec<Tree> {
    let all = request.lister.in_namespace("limitranges", request.namespace);
    all.into_iter().map(|range| range.tree).collect()
}

/// Applies the defaults of a range to containers.
fn with_defaults(pod: &Tree, range: &Tree) -> Tree {
    let items = range.items_at(&["spec", "limits"]).iter();
    let items: Vec<&Tree> = items.filter(|limit| limit.str_at(&["type"]) == "Container").collect();
    let mut notes = Vec::new();
    let mut filled = pod.clone();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = filled.at(&["spec", list]) else { continue };
        let containers = containers.map_items(|_, container| {
            let mut container = container.clone();
            // Defaults of several ranges apply in order; an earlier one is not overwritten.
            let before = container.clone();
            for (part, key, what) in
                [("requests", "defaultRequest", "request"), ("limits", "default", "limit")]
            {
                let mut set: Vec<String> = Vec::new();
                for (name, amount) in items.iter().flat_map(|item| item.entries_at(&[key])) {
                    if before.at(&["resources", part, name]).is_none() {
                        container = container.with(&["resources", part, name], amount.clone());
                        set.push(name.to_string());
                    }
                }
                set.sort();
                if !set.is_empty() {
                    notes.push(format!(
                        "{} {what} for {word} {}",
                        set.join(", "),
                        container.str_at(&["name"])
                    ));
                }
            }
            container
        });
        filled = filled.with(&["spec", list], containers);
    }
    if notes.is_empty() {
        return pod.clone();
    }
    filled.with(
        &["metadata", "annotations", ANNOTATION],
        format!("LimitRanger plugin set: {}", notes.join("; ")),
    )
}

/// Requests and limits of a container, pod or claim.
struct ResourceAmounts {
    requests: Amounts,
    limits: Amounts,
}

impl ResourceAmounts {
    fn check(&self, limit: &Tree, problems: &mut Vec<String>) {
        let per = limit.str_at(&["type"]);
        for (name, bound) in quota::of_tree(limit.get("min")) {
            problems.extend(self.below(&name, bound).map(|why| least(&name, per, bound, &why)));
        }
        for (name, bound) in quota::of_tree(limit.get("max")) {
            problems.extend(self.above(&name, bound).map(|why| most(&name, per, bound, &why)));
        }
        for (name, bound) in quota::of_tree(limit.get("maxLimitRequestRatio")) {
            let words = |why| format!("{name} max limit to request ratio per {per} is {bound}, but {why}");
            problems.extend(self.stretched(&name, bound).map(words));
        }
    }

    /// As [`Self::check`] for claims, which have requests only.
    fn check_claim(&self, limit: &Tree, problems: &mut Vec<String>) {
        let per = limit.str_at(&["type"]);
        for (name, bound) in quota::of_tree(limit.get("min")) {
            problems.extend(self.below(&name, bound).map(|why| least(&name, per, bound, &why)));
        }
        for (name, bound) in quota::of_tree(limit.get("max")) {
            let why = match self.requests.get(name.as_str()) {
                None => ".  No request is specified".to_owned(),
                Some(has) if has.value > bound.value => format!(", but request is {has}"),
                Some(_) => continue,
            };
            problems.push(most(&name, per, bound, &why));
        }
    }

    fn below(&self, name: &str, bound: Amount) -> Option<String> {
        let Some(request) = self.requests.get(name) else {
            return Some(".  No request is specified".to_owned());
        };
        if request.value < bound.value {
            return Some(format!(", but request is {request}"));
        }
        let limit = self.limits.get(name).filter(|limit| limit.value < bound.value);
        limit.map(|limit| format!(", but limit is {limit}"))
    }

    fn above(&self, name: &str, bound: Amount) -> Option<String> {
        let Some(limit) = self.limits.get(name) else {
            return Some(".  No limit is specified".to_owned());
        };
        if limit.value > bound.value {
            return Some(format!(", but limit is {limit}"));
        }
        let request = self.requests.get(name).filter(|request| request.value > bound.value);
        request.map(|request| format!(", but request is {request}"))
    }

    #[expect(clippy::cast_precision_loss, reason = "a ratio, shown with six digits as the real server does")]
    fn stretched(&self, name: &str, bound: Amount) -> Option<String> {
        let of = |list: &Amounts| {
            list.get(name).map(|amount| amount.value).filter(|value| *value != Quantity::ZERO)
        };
        let Some(request) = of(&self.requests) else {
            return Some("no request is specified or request is 0".to_owned());
        };
        let Some(limit) = of(&self.limits) else {
            return Some("no limit is specified or limit is 0".to_owned());
        };
        let ratio = limit.0 as f64 / request.0 as f64;
        (ratio > bound.value.0 as f64 / 1e9).then(|| format!("provided ratio is {ratio:.6}"))
    }
}

fn least(name: &str, per: &str, bound: Amount, why: &str) -> String {
    format!("minimum {name} usage per {per} is {bound}{why}")
}

fn most(name: &str, per: &str, bound: Amount, why: &str) -> String {
    format!("maximum {name} usage per {per} is {bound}{why}")
}

/// Joins distinct problems into one message.
fn join_messages(problems: Vec<String>) -> Option<String> {
    let mut once: Vec<String> = Vec::new();
    for problem in problems {
        if !once.contains(&problem) {
            once.push(problem);
        }
    }
    match once.len() {
        0 => None,
        1 => once.pop(),
        _ => Some(format!("[{}]", once.join(", "))),
    }
}
