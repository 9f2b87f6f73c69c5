//! Which pods of a Job to create and which to delete, as upstream's `manageJob`.

use std::collections::BTreeSet;

use muster_api::job::{CompletionMode, JobStatus};
use muster_api::job_pod::{IndexFailures, JobPod, NewPod};
use muster_api::name_suffix::suffix;
use muster_api::pod::PodPhase;
use muster_api::time::Time;
use muster_tree::Text;

use crate::backoff::{self, BackoffRecord};
use crate::index_set::IndexSet;
use crate::sync_context::{SyncContext, number};
use crate::{JobAction, JobSnapshot, PODS_PER_SYNC_MAX, PodRef, policies};

/// Pods to create or to delete, never both, and when to reconcile again.
#[derive(Debug, Clone, Default)]
pub struct PodChanges {
    create: Vec<NewPod>,
    discard: Vec<PodRef>,
    discarded_ready: u32,
    /// When the backoff after a failure ends.
    pub requeue_at: Option<Time>,
}

impl PodChanges {
    pub fn none() -> PodChanges {
        PodChanges::default()
    }

    pub fn creates(&self) -> Option<JobAction> {
        (!self.create.is_empty()).then(|| JobAction::CreatePods(self.create.clone()))
    }

    pub fn discards(&self) -> Option<JobAction> {
        (!self.discard.is_empty()).then(|| JobAction::DeleteUncounted(self.discard.clone()))
    }

    /// Active pods once these changes are made.
    pub fn active_after(&self, ctx: &SyncContext<'_>) -> u32 {
        number(ctx.active.len() + self.create.len() - self.discard.len())
    }

    /// Sets `active`, `ready` and `terminating` of the status as they are once these changes are made.
    pub fn set_counts(&self, ctx: &SyncContext<'_>, status: &mut JobStatus) {
        let ready = ctx.active.iter().filter(|pod| pod.ready).count();
        status.active = self.active_after(ctx);
        status.ready = Some(number(ready).saturating_sub(self.discarded_ready));
        status.terminating = Some(ctx.terminating.saturating_add(number(self.discard.len())));
    }

    pub fn without_creates(&self) -> PodChanges {
        PodChanges { create: Vec::new(), ..self.clone() }
    }
}

/// Compares the wanted with the active pods.
pub fn changes(
    snapshot: &JobSnapshot<'_>,
    ctx: &SyncContext<'_>,
    backoff_record: &BackoffRecord,
) -> PodChanges {
    let active = ctx.active.clone();
    if ctx.job.suspend {
        return discard(active, ctx.now);
    }
    let wanted = wanted(ctx);
    let removed = pods_to_delete(ctx, active, ctx.active.len().saturating_sub(wanted));
    if !removed.is_empty() {
        return discard(removed, ctx.now);
    }
    let coming = if ctx.job.replace_failed_only { ctx.terminating as usize } else { 0 };
    let missing = wanted.saturating_sub(ctx.active.len() + coming);
    let now = missing.min(PODS_PER_SYNC_MAX);
    let change = match (missing, ctx.job.backoff_per_index) {
        (0, _) => PodChanges::none(),
        (_, Some(_)) => create_per_index(snapshot, ctx, now),
        (_, None) => match backoff_record.until().filter(|until| *until > ctx.now) {
            Some(until) => PodChanges { requeue_at: Some(until), ..PodChanges::default() },
            None => PodChanges {
                create: new_pods(snapshot, ctx, missing_indexes(ctx, now)),
                ..PodChanges::default()
            },
        },
    };
    // More than one reconciliation may create: requeue now for the rest.
    let rest = (missing > now && !change.create.is_empty()).then_some(ctx.now);
    PodChanges { requeue_at: rest.or(change.requeue_at), ..change }
}

fn discard(mut pods: Vec<&JobPod>, now: Time) -> PodChanges {
    let rest = pods.len() > PODS_PER_SYNC_MAX;
    pods.truncate(PODS_PER_SYNC_MAX);
    PodChanges {
        requeue_at: rest.then_some(now),
        discarded_ready: number(pods.iter().filter(|pod| pod.ready).count()),
        discard: pods.into_iter().map(PodRef::of).collect(),
        ..PodChanges::default()
    }
}

/// How many pods should be active. A work queue (no `completions`) starts no further pods once one succeeded.
fn wanted(ctx: &SyncContext<'_>) -> usize {
    let parallelism = ctx.job.parallelism as usize;
    match ctx.job.completions {
        None if ctx.succeeded > 0 => ctx.active.len(),
        None => parallelism,
        Some(completions) => parallelism.min(completions.saturating_sub(ctx.succeeded) as usize),
    }
}

/// At least `surplus` active pods to delete: duplicates of an index and indexes out of range first, then by
/// [`deletion_rank`].
fn pods_to_delete<'a>(ctx: &SyncContext<'a>, mut active: Vec<&'a JobPod>, surplus: usize) -> Vec<&'a JobPod> {
    active.sort_by_key(|pod| deletion_rank(pod));
    let mut removed = Vec::new();
    if ctx.job.mode == CompletionMode::Indexed {
        let mut kept = BTreeSet::new();
        // From the highest rank down, so that the best pod of each index stays.
        active.reverse();
        active.retain(|pod| {
            let keep = ctx.in_range(pod) && pod.index.is_some_and(|index| kept.insert(index));
            if !keep {
                removed.push(*pod);
            }
            keep
        });
        active.reverse();
    }
    let more = surplus.saturating_sub(removed.len()).min(active.len());
    removed.extend(active.drain(..more));
    removed
}

/// The order of deletion, as upstream's `ActivePods`: unscheduled, pending, unready, recently ready, often restarted, young.
fn deletion_rank(pod: &JobPod) -> impl Ord {
    use std::cmp::Reverse;
    let phase = match pod.phase {
        PodPhase::Pending => 0,
        PodPhase::Unknown => 1,
        _ => 2,
    };
    let restarts = Reverse(pod.restarts);
    (
        !pod.node.is_empty(),
        phase,
        pod.ready,
        Reverse(pod.ready_since),
        restarts,
        Reverse(pod.created),
        pod.name.clone(),
    )
}

/// New pods with backoff per index: an index in backoff keeps its place, so that no other index starts in its stead.
fn create_per_index(snapshot: &JobSnapshot<'_>, ctx: &SyncContext<'_>, missing: usize) -> PodChanges {
    let waits = |place: &Option<u32>| {
        let last = place.and_then(|index| ctx.awaiting_replacement.get(&index));
        last.map(|last| backoff::index_backoff_until(last)).filter(|until| *until > ctx.now)
    };
    let (wait, go): (Vec<_>, Vec<_>) =
        missing_indexes(ctx, missing).into_iter().partition(|place| waits(place).is_some());
    let requeue_at = wait.iter().filter_map(waits).min();
    PodChanges { create: new_pods(snapshot, ctx, go), requeue_at, ..PodChanges::default() }
}

/// The lowest free indexes of an Indexed Job; `None` per pod of a NonIndexed one.
fn missing_indexes(ctx: &SyncContext<'_>, missing: usize) -> Vec<Option<u32>> {
    if ctx.job.mode != CompletionMode::Indexed {
        return vec![None; missing];
    }
    let held = |pod: &&&JobPod| pod.is_active() || (ctx.job.replace_failed_only && pod.is_terminating());
    let held = ctx.pods.iter().filter(held).filter_map(|pod| pod.index).collect();
    let mut busy = ctx.completed.union(&IndexSet::of(&held));
    if let Some(failed) = &ctx.failed_indexes {
        busy = busy.union(failed);
    }
    busy.missing(ctx.job.completions.unwrap_or(0)).take(missing).map(Some).collect()
}

fn new_pods(
    snapshot: &JobSnapshot<'_>,
    ctx: &SyncContext<'_>,
    missing_indexes: Vec<Option<u32>>,
) -> Vec<NewPod> {
    let mut names = BTreeSet::new();
    let new = |index| {
        let before = ctx.job.backoff_per_index.and(index).map(|index| previous_failures(ctx, index));
        new_pod(snapshot, index, before, &mut names)
    };
    missing_indexes.into_iter().map(new).collect()
}

/// The failures of an index that its next pod inherits.
fn previous_failures(ctx: &SyncContext<'_>, index: u32) -> IndexFailures {
    let Some(last) = ctx.awaiting_replacement.get(&index) else { return IndexFailures::default() };
    let IndexFailures { counted, ignored } = last.index_failures;
    match policies::counts_as_failure(ctx.job, last) {
        true => IndexFailures { counted: counted.saturating_add(1), ignored },
        false => IndexFailures { counted, ignored: ignored.saturating_add(1) },
    }
}

/// The next pod of an index, under a name that is not in use. Attempts start at the number of counted pods, so that the name
/// of a deleted pod is not reused.
fn new_pod(
    snapshot: &JobSnapshot<'_>,
    index: Option<u32>,
    before: Option<IndexFailures>,
    names: &mut BTreeSet<Text>,
) -> NewPod {
    let status = &snapshot.job.status;
    let listed = status.uncounted_failed.len() + status.uncounted_succeeded.len();
    let first = status.failed.saturating_add(status.succeeded).saturating_add(number(listed));
    let tries = (first..=u32::MAX).map(|attempt| NewPod {
        index,
        suffix: suffix(&snapshot.job.uid, index, attempt),
        index_failures: before,
    });
    let free = |new: &NewPod| {
        let name = new.name(&snapshot.job.name);
        !(snapshot.name_in_use)(&name) && names.insert(name)
    };
    tries.into_iter().find(free).expect("five letters have more names than a Job has pods")
}
