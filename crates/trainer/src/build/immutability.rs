//! Which fields of an existing JobSet a rebuilt one may change.

use muster_api::paths::{jobset, meta, pod, replicated_job as job};
use muster_tree::{Text, Tree};

/// Pod template fields that are mutable while the JobSet is suspended.
const FREE: [&[&str]; 5] =
    [meta::LABELS, meta::ANNOTATIONS, pod::NODE_SELECTOR, pod::TOLERATIONS, pod::GATES];

/// The replicatedJobs of `wanted` that differ from `live` in immutable fields: applying them would be rejected, suspended or
/// not. Fields that the API server defaults beside the wanted ones do not count.
#[must_use]
pub fn immutable_changes(live: &Tree, wanted: &Tree) -> Vec<Text> {
    let fixed = |it: &Tree| {
        let pods = it.at(job::POD_TEMPLATE).cloned().unwrap_or_else(Tree::empty_map);
        it.with(job::POD_TEMPLATE, FREE.iter().fold(pods, |pods, path| pods.without(path)))
    };
    let wanted = wanted.items_at(jobset::JOBS).iter();
    let live = live.items_at(jobset::JOBS);
    let is_refused = |it: &&Tree| {
        let same = live.iter().find(|old| old.at(job::NAME) == it.at(job::NAME));
        same.is_none_or(|old| !says(&fixed(old), &fixed(it)))
    };
    wanted.filter(is_refused).map(|it| it.text_at(job::NAME)).collect()
}

/// Whether `live` contains every wanted field; its maps may have more.
fn says(live: &Tree, wanted: &Tree) -> bool {
    match (live, wanted) {
        (Tree::Map(_), Tree::Map(_)) => wanted.entries().iter().all(|(key, value)| match live.get(key) {
            Some(live) => says(live, value),
            None => value.is_empty(),
        }),
        (Tree::List(_), Tree::List(_)) => {
            let (live, wanted) = (live.items(), wanted.items());
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| says(live, wanted))
        }
        _ => live == wanted,
    }
}
