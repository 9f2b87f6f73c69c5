//! Conditions as the Job controller writes them: what changes is written anew, both times included.

use muster_api::condition::{self, Wanted};
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_tree::Tree;

/// Sets `wanted`; returns whether anything changed.
pub fn set(all: &mut Vec<Tree>, wanted: &Wanted<'_>, now: Time) -> bool {
    let next = wanted.tree(now).with(path::PROBED, now.to_seconds_text());
    let same = |old: &Tree| {
        old.str_at(path::STATUS) == condition::word(wanted.holds)
            && old.str_at(path::REASON) == wanted.reason
            && old.str_at(path::MESSAGE) == wanted.message
    };
    match all.iter_mut().find(|old| old.str_at(path::TYPE) == wanted.kind) {
        Some(old) if same(old) => return false,
        Some(old) => *old = next,
        None => all.push(next),
    }
    true
}
