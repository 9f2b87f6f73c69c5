//! In-place restarts: pods publish their attempt, and the status publishes the attempt that all pods reached.

use super::status_update::StatusUpdate;
use super::{JobSetSnapshot, reasons};

/// Updates the current and previous in-place attempt in the status.
pub fn sync(seen: &JobSetSnapshot<'_>, draft: &mut StatusUpdate<'_>) {
    let Some(policy) = &seen.set.failure else { return };
    let pods = seen.lister.pods();
    let too_often = "jobset failed due to reaching max number of restarts";
    if pods.iter().any(|it| i64::from(it.restarts) > policy.max_restarts) {
        return draft.fail("ReachedMaxRestarts", too_often);
    }
    let attempts = pods.iter().filter(|it| !it.failed).filter_map(|it| it.attempt.as_deref());
    let attempts: Result<Vec<u32>, _> = attempts.map(str::parse::<u32>).collect();
    let (Ok(attempts), Some(total)) = (attempts, total(seen)) else {
        let message = "pods must say a number in annotation jobset.sigs.k8s.io/in-place-restart-attempt, and completions must equal parallelism";
        return draft.stalls.push((reasons::LABELS_UNREADABLE, message.to_owned()));
    };
    let most = attempts.iter().max().copied();
    // Restarts that were not counted (`IgnoreMaxRestarts`) do not use up the limit.
    let outside = i64::from(seen.set.status.restarts) - i64::from(seen.set.status.counted);
    if i64::from(most.unwrap_or(0)) - outside > policy.max_restarts {
        return draft.fail("ReachedMaxRestarts", too_often);
    }
    let Some(most) = most else { return };
    let status = &mut draft.status;
    if attempts.len() as u64 == total && attempts.iter().all(|it| *it == most) {
        status.in_place_current = Some(most);
    } else if most > 0 && status.in_place_previous.is_none_or(|old| old < most - 1) {
        status.in_place_previous = Some(most - 1);
    }
}

/// The expected number of pods.
fn total(seen: &JobSetSnapshot<'_>) -> Option<u64> {
    let pods = |it: &muster_api::jobset::ReplicatedJob| {
        let parallelism = it.parallelism.filter(|_| it.parallelism == it.completions)?;
        Some(u64::from(it.replicas) * u64::from(parallelism))
    };
    seen.set.jobs.iter().map(pods).sum()
}
