//! LimitRanges: defaults for containers that do not say, and bounds for containers, pods and claims.

use muster_tree::Tree;

use super::{AdmissionRequest, BUILTIN, Hook, Operation, Verdict};
use crate::kinds::quantity::{Amount, Quantity};
use crate::quota::{self, Amounts};
use crate::status::Status;

pub(super) struct LimitRanger;

/// Says what was filled in.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

impl Hook for LimitRanger {
    fn name(&self) -> &str {
        BUILTIN[1]
    }

    fn admit(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let Some(Subject::Pod(pod)) = Subject::of(request) else { return Verdict::allow() };
        let filled = ranges(request).iter().fold(pod.clone(), |pod, range| with_defaults(&pod, range));
        if filled == *pod { Verdict::allow() } else { Verdict::change(filled) }
    }

    fn validate(&self, request: &AdmissionRequest<'_>) -> Verdict {
        let Some(subject) = Subject::of(request) else { return Verdict::allow() };
        for range in ranges(request) {
            let mut problems = Vec::new();
            for limit in range.items_at(&["spec", "limits"]) {
                subject.check(limit, &mut problems);
            }
            if let Some(words) = together(problems) {
                let name = subject.tree().str_at(&["metadata", "name"]);
                return Verdict::Deny(Status::forbidden(request.resource.named(name), &words));
            }
        }
        Verdict::allow()
    }
}

/// What ranges are about.
enum Subject<'a> {
    Pod(&'a Tree),
    Claim(&'a Tree),
}

impl<'a> Subject<'a> {
    /// The object of a request that ranges have a say in. The containers of a stored pod change by `resize` alone.
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

    /// What of an item of a range the object breaks.
    fn check(&self, limit: &Tree, problems: &mut Vec<String>) {
        match (self, limit.str_at(&["type"])) {
            (Subject::Pod(pod), "Container") => {
                let lists = ["containers", "initContainers"].map(|list| pod.items_at(&["spec", list]));
                for container in lists.into_iter().flatten() {
                    let part = |part: &str| quota::of_tree(container.at(&["resources", part]));
                    Has { requests: part("requests"), limits: part("limits") }.check(limit, problems);
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
                Has { requests: part("requests"), limits: part("limits") }.check(limit, problems);
            }
            (Subject::Claim(claim), "PersistentVolumeClaim") => {
                let requests = quota::of_tree(claim.at(&["spec", "resources", "requests"]));
                Has { requests, limits: Amounts::new() }.check_claim(limit, problems);
            }
            _ => {}
        }
    }
}

fn ranges(request: &AdmissionRequest<'_>) -> Vec<Tree> {
    let all = request.look.in_namespace("limitranges", request.namespace);
    all.into_iter().map(|range| range.tree).collect()
}

/// The pod with the defaults of a range for its containers.
fn with_defaults(pod: &Tree, range: &Tree) -> Tree {
    let items = range.items_at(&["spec", "limits"]).iter();
    let items: Vec<&Tree> = items.filter(|limit| limit.str_at(&["type"]) == "Container").collect();
    let mut notes = Vec::new();
    let mut filled = pod.clone();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(containers) = filled.at(&["spec", list]) else { continue };
        let containers = containers.map_items(|_, container| {
            let mut container = container.clone();
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

/// What a container, a pod or a claim asks for.
struct Has {
    requests: Amounts,
    limits: Amounts,
}

impl Has {
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

    /// Claims have requests only.
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

/// Several problems in one sentence, each once.
fn together(problems: Vec<String>) -> Option<String> {
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
