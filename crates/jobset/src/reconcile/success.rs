//! The success policy.

use muster_api::jobset::JobSetFacts;

use crate::child_jobs::ChildJobs;

/// Whether enough Jobs succeeded.
pub fn is_met(set: &JobSetFacts, sorted: &ChildJobs<'_>) -> bool {
    let policy = &set.success;
    let counts = |name: &str| policy.targets.is_empty() || policy.targets.iter().any(|it| it == name);
    if sorted.successful.is_empty() {
        return false;
    }
    let done = sorted.successful.iter().filter(|it| it.group.is_some_and(counts)).count() as u64;
    let all: u64 = set.jobs.iter().filter(|it| counts(&it.name)).map(|it| u64::from(it.replicas)).sum();
    done >= if policy.any { 1 } else { all }
}
