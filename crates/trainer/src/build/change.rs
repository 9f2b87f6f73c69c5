//! What may become of objects that are there already.

use muster_api::paths::{jobset, meta, pod, replicated_job as job};
use muster_api::train::TrainJobFacts;
use muster_tree::{Text, Tree};

/// What is done about an object that was built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It is applied.
    Apply,
    /// What is there stays as it is.
    Leave,
}

/// A JobSet that runs for a TrainJob that may run is let be; in every other case it becomes what was built: made,
/// suspended, changed while it is suspended, or resumed with what changed meanwhile.
#[must_use]
pub fn of_jobset(train_job: &TrainJobFacts, live: Option<&Tree>) -> Deed {
    let runs = live.is_some_and(|it| it.bool_at(jobset::SUSPEND) != Some(true));
    if runs && !train_job.suspend { Deed::Leave } else { Deed::Apply }
}

/// A group, once made, changes only while the TrainJob is suspended.
#[must_use]
pub fn of_group(train_job: &TrainJobFacts, is_there: bool) -> Deed {
    if is_there && !train_job.suspend { Deed::Leave } else { Deed::Apply }
}

/// What of the pods may change while nothing runs.
const FREE: [&[&str]; 5] =
    [meta::LABELS, meta::ANNOTATIONS, pod::NODE_SELECTOR, pod::TOLERATIONS, pod::GATES];

/// The replicatedJobs in which the JobSet that was built wants what a JobSet that is there may never become, suspended
/// or not: applying it will be refused. What servers fill in beside what is wanted does not count.
#[must_use]
pub fn refused(live: &Tree, wanted: &Tree) -> Vec<Text> {
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

/// Whether a tree says all that is wanted, and maybe more in its maps.
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
