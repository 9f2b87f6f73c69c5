//! `resourcesPerNode`: the TrainJob's resources merged over those of the runtime.

use muster_api::node::amount;
use muster_api::paths::container;
use muster_api::queue::amount_text;
use muster_api::train::gpu_count;
use muster_tree::{Text, Tree};

use super::lists::with_claims;

/// Path of a container's resource requirements.
const RESOURCES: &[&str] = &["resources"];

/// Merges requirements into a container: quantities by resource name, claims by claim name.
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

/// A quantity as text: clients may send numbers, even with fractions; JobSets accept text only.
fn quantity(name: &Text, value: &Tree) -> Tree {
    match (value, amount(name, value)) {
        (Tree::Int(_) | Tree::Float(_), Some(amount)) => amount_text(name, amount).into(),
        _ => value.clone(),
    }
}

/// The number of GPUs of a container.
pub(super) fn gpus(container: &Tree) -> u32 {
    let count = container.at(RESOURCES).and_then(gpu_count).unwrap_or(0);
    u32::try_from(count).unwrap_or(0)
}

/// CPUs of a container, rounded up: its request, else its limit, and at least one.
pub(super) fn cpus(container: &Tree) -> u32 {
    let said =
        [container::REQUESTS, container::LIMITS].into_iter().find_map(|path| container.at(path)?.get("cpu"));
    let thousandths = said.and_then(|it| amount("cpu", it)).unwrap_or(0).max(1);
    u32::try_from(thousandths.div_euclid(1000) + i64::from(thousandths % 1000 != 0)).unwrap_or(u32::MAX)
}
