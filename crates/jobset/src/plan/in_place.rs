//! Restarts in place: pods agree on an attempt, and this side tells when all have reached it.

use super::draft::Draft;
use super::{Observed, reasons};

/// Sets which attempt all pods have reached, or which one is over.
pub fn sync(seen: &Observed<'_>, draft: &mut Draft<'_>) {
    let Some(policy) = &seen.set.failure else { return };
    let pods = seen.around.pods();
    let too_often = "jobset failed due to reaching max number of restarts";
    if pods.iter().any(|it| i64::from(it.restarts) > policy.max_restarts) {
        return draft.fail("ReachedMaxRestarts", too_often);
    }
    let attempts = pods.iter().filter(|it| !it.failed).filter_map(|it| it.attempt.as_deref());
    let attempts: Result<Vec<u32>, _> = attempts.map(str::parse::<u32>).collect();
    let (Ok(attempts), Some(total)) = (attempts, total(seen)) else {
        let message = "pods must say a number in annotation jobset.sigs.k8s.io/in-place-restart-attempt, and completions must equal parallelism";
        return draft.complaints.push((reasons::LABELS_UNREADABLE, message.to_owned()));
    };
    let most = attempts.iter().max().copied();
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

/// How many pods there are when all are there.
fn total(seen: &Observed<'_>) -> Option<u64> {
    let pods = |it: &muster_api::jobset::ReplicatedJob| {
        let parallelism = it.parallelism.filter(|_| it.parallelism == it.completions)?;
        Some(u64::from(it.replicas) * u64::from(parallelism))
    };
    seen.set.jobs.iter().map(pods).sum()
}
