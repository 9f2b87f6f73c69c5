//! What the API server would fill in before a pod runs: overhead, defaults of the namespace, and requests from limits.

use muster_api::paths::{container, pod, runtime_class};
use muster_tree::{Text, Tree};

use super::limits::Limits;

/// What surrounds the pods of a namespace.
pub struct Around<'a> {
    /// The bounds of the namespace.
    pub limits: &'a Limits,
    /// The RuntimeClass of a name.
    pub runtime_class: &'a dyn Fn(&str) -> Option<Tree>,
}

/// The template as its pods would be: what they cost on top, what containers get that name nothing, and limits where a
/// request is missing.
#[must_use]
pub fn adjusted(template: &Tree, around: &Around<'_>) -> Tree {
    let template = with_overhead(template, around);
    let template = [pod::INIT_CONTAINERS, pod::CONTAINERS].iter().fold(template, |template, path| {
        let Some(list) = template.at(path) else { return template };
        let list = list.map_items(|_, item| adjusted_container(item, around.limits));
        template.with(path, list)
    });
    with_pod_requests(&template)
}

fn with_overhead(template: &Tree, around: &Around<'_>) -> Tree {
    let class = template.str_at(pod::RUNTIME_CLASS);
    if class.is_empty() || !template.entries_at(pod::OVERHEAD).is_empty() {
        return template.clone();
    }
    let found = (around.runtime_class)(class).and_then(|it| it.at(runtime_class::OVERHEAD).cloned());
    found.map_or_else(|| template.clone(), |overhead| template.with(pod::OVERHEAD, overhead))
}

fn adjusted_container(item: &Tree, limits: &Limits) -> Tree {
    let item = with_missing(item, container::LIMITS, &limits.default_limits);
    let item = with_missing(&item, container::REQUESTS, &limits.default_requests);
    let own = item.entries_at(container::LIMITS).to_vec();
    with_missing(&item, container::REQUESTS, &own)
}

/// A pod that limits itself as a whole asks for as much where its pod-level requests name less, whatever its containers
/// ask for by themselves or by the defaults of the namespace. Kueue counts the same.
fn with_pod_requests(template: &Tree) -> Tree {
    let limits = template.entries_at(pod::LIMITS).to_vec();
    with_missing(template, pod::REQUESTS, &limits)
}

/// The tree with those of the entries that the map at `path` lacks.
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
