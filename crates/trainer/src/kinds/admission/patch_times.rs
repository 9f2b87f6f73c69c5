//! Sets the `time` of runtimePatches: when each manager last changed its patch.

use muster_api::train::paths::{patch, train_job};
use muster_tree::Tree;

use super::TrainingReview;

/// The TrainJob with the times of its patches; `None` if they are up to date.
pub(super) fn filled_in(asked: &TrainingReview<'_>) -> Option<Tree> {
    let patches = asked.object.at(train_job::PATCHES).filter(|it| it.is_list())?;
    let now = Tree::from(asked.now.to_seconds_text());
    let before = asked.old.map(|old| old.items_at(train_job::PATCHES)).unwrap_or_default();
    let known =
        |new: &Tree| before.iter().find(|old| old.str_at(patch::MANAGER) == new.str_at(patch::MANAGER));
    let timed = patches.map_items(|_, new| match known(new) {
        // An unchanged patch keeps its time, also if the client sends another.
        Some(old) if old.without(patch::TIME) == new.without(patch::TIME) => {
            new.with_option(patch::TIME, old.at(patch::TIME).cloned())
        }
        Some(_) => new.with(patch::TIME, now.clone()),
        None if new.at(patch::TIME).is_none_or(Tree::is_null) => new.with(patch::TIME, now.clone()),
        None => new.clone(),
    });
    (timed != *patches).then(|| asked.object.with(train_job::PATCHES, timed))
}
