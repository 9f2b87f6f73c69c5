//! Conditions as upstream's job controller writes them: a changed condition gets a new transition time and a new probe time.

use muster_api::condition::{self, DesiredCondition};
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_tree::Tree;

/// Sets `wanted` and returns whether anything changed.
pub fn set(all: &mut Vec<Tree>, wanted: &DesiredCondition<'_>, now: Time) -> bool {
    let next = wanted.tree(now).with(path::PROBED, now.to_seconds_text());
    let same = |old: &Tree| {
        old.str_at(path::STATUS) == condition::status_text(wanted.status)
            && old.str_at(path::REASON) == wanted.reason
            && old.str_at(path::MESSAGE) == wanted.message
    };
    match all.iter_mut().find(|old| old.str_at(path::TYPE) == wanted.condition_type) {
        Some(old) if same(old) => return false,
        Some(old) => *old = next,
        None => all.push(next),
    }
    true
}
