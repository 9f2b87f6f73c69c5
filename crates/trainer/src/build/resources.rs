//! What nodes need: what a TrainJob says over what its runtime says.

use muster_api::node::amount;
use muster_api::paths::container;
use muster_api::queue::amount_text;
use muster_api::train::gpu_count;
use muster_tree::{Text, Tree};

use super::lists::with_claims;

/// Where a container says what it needs.
const RESOURCES: &[&str] = &["resources"];

/// A container that needs this, too: amounts go over its own one by one, claims by their names.
pub(super) fn with_resources(container: &Tree, more: &Tree) -> Tree {
    let amounts = [(container::REQUESTS, "requests"), (container::LIMITS, "limits")];
    let container = amounts.iter().fold(container.clone(), |container, (path, key)| {
        match more.get(key).filter(|it| !it.is_empty()) {
            Some(more) => container.with(path, over(container.at(path), more)),
            None => container,
        }
    });
    with_claims(&container, more.items_at(&["claims"]))
}

fn over(old: Option<&Tree>, new: &Tree) -> Tree {
    let new = new.map_entries(|name, value| Some(quantity(name, value)));
    old.map_or_else(|| new.clone(), |old| old.merge(&new))
}

/// Clients may send numbers, with fractions even; JobSets take text.
fn quantity(name: &Text, value: &Tree) -> Tree {
    match (value, amount(name, value)) {
        (Tree::Int(_) | Tree::Float(_), Some(amount)) => amount_text(name, amount).into(),
        _ => value.clone(),
    }
}

/// GPUs of a container; 0 for none.
pub(super) fn gpus(container: &Tree) -> u32 {
    let count = container.at(RESOURCES).and_then(gpu_count).unwrap_or(0);
    u32::try_from(count).unwrap_or(0)
}

/// Processors of a container, rounded up: what it asks for, else what it is limited to, and at least one.
pub(super) fn cpus(container: &Tree) -> u32 {
    let said =
        [container::REQUESTS, container::LIMITS].into_iter().find_map(|path| container.at(path)?.get("cpu"));
    let thousandths = said.and_then(|it| amount("cpu", it)).unwrap_or(0).max(1);
    u32::try_from(thousandths.div_euclid(1000) + i64::from(thousandths % 1000 != 0)).unwrap_or(u32::MAX)
}
