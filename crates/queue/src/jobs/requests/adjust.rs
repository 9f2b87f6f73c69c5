//! Adjusts pod templates as the API server would: RuntimeClass overhead, LimitRange defaults, and requests from
//! limits (Kueue's `AdjustResources`).

use muster_api::paths::{container, pod, runtime_class};
use muster_tree::{Text, Tree};

use super::limits::NamespaceLimits;

/// The objects that affect the requests of pods in a namespace.
pub struct PodEnvironment<'a> {
    pub limits: &'a NamespaceLimits,
    pub runtime_class: &'a dyn Fn(&str) -> Option<Tree>,
}

/// The template with overhead, LimitRange defaults, and requests defaulted from limits.
#[must_use]
pub fn adjust_resources(template: &Tree, around: &PodEnvironment<'_>) -> Tree {
    let template = with_overhead(template, around);
    let template = [pod::INIT_CONTAINERS, pod::CONTAINERS].iter().fold(template, |template, path| {
        let Some(list) = template.at(path) else { return template };
        let list = list.map_items(|_, item| adjusted_container(item, around.limits));
        template.with(path, list)
    });
    with_pod_requests(&template)
}

fn with_overhead(template: &Tree, around: &PodEnvironment<'_>) -> Tree {
    let class = template.str_at(pod::RUNTIME_CLASS);
    // An explicit overhead is kept.
    if class.is_empty() || !template.entries_at(pod::OVERHEAD).is_empty() {
        return template.clone();
    }
    let found = (around.runtime_class)(class).and_then(|it| it.at(runtime_class::OVERHEAD).cloned());
    found.map_or_else(|| template.clone(), |overhead| template.with(pod::OVERHEAD, overhead))
}

fn adjusted_container(item: &Tree, limits: &NamespaceLimits) -> Tree {
    let item = with_missing(item, container::LIMITS, &limits.default_limits);
    let item = with_missing(&item, container::REQUESTS, &limits.default_requests);
    // After the LimitRange defaults, in the order of Kueue's `AdjustResources`: defaulted limits become requests,
    // too.
    let own = item.entries_at(container::LIMITS).to_vec();
    with_missing(&item, container::REQUESTS, &own)
}

/// Pod-level limits default pod-level requests, whatever the containers request, as in Kueue.
fn with_pod_requests(template: &Tree) -> Tree {
    let limits = template.entries_at(pod::LIMITS).to_vec();
    with_missing(template, pod::REQUESTS, &limits)
}

/// Adds the entries that the map at `path` lacks.
fn with_missing(tree: &Tree, path: &[&str], entries: &[(Text, Tree)]) -> Tree {
    let old = tree.at(path);
    let missing = entries.iter().filter(|(name, _)| old.is_none_or(|map| map.get(name).is_none()));
    let missing: Vec<(Text, Tree)> = missing.cloned().collect();
    if missing.is_empty() {
        return tree.clone();
    }
    let all = old.map(Tree::entries).unwrap_or_default().iter().cloned().chain(missing);
    tree.with(path, Tree::map(all))
}
