//! The workqueue: one entry per key, exponential backoff after failures, delayed requeues.
//!
//! # Guarantees
//!
//! - A key is ready at most once, and never while it is processed; a key that is added meanwhile is marked dirty and becomes
//!   ready again afterwards, as in client-go.
//! - A key that is added while its reconciliation fails keeps its backoff (the watch events of its own writes would end every
//!   backoff otherwise), but not longer than [`DIRTY_BACKOFF_MAX`].
//! - An entry exists only while its key is ready, processed, scheduled or failing.
//! - At most `ERROR_CHARS_MAX` characters of an error are kept, for the debug dump.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_api::client::ApiError;
use muster_api::time::Time;

use crate::controller::ObjectKey;
use crate::metrics::WorkqueueMetrics;

/// The base delay after an error that fresh caches are likely to resolve: conflict, not found, already exists.
pub const CONFLICT_BACKOFF_BASE: Duration = Duration::from_millis(20);
/// The base delay after any other error; it doubles with each failure in a row.
pub const BACKOFF_BASE: Duration = Duration::from_secs(1);
/// The longest backoff.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
const ERROR_CHARS_MAX: usize = 300;
/// The longest backoff of a key that was added while it was processed: the failed reconciliation saw an outdated state.
pub const DIRTY_BACKOFF_MAX: Duration = Duration::from_secs(2);

/// A key of one controller; the element of the queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkItem {
    /// The index of the controller in the control loop.
    pub controller: usize,
    /// The key to reconcile.
    pub key: ObjectKey,
}

#[derive(Debug, Default)]
struct Entry {
    ready: bool,
    processing: bool,
    dirty: bool,
    requeue_at: Option<Time>,
    failures: u32,
    /// When it became ready or began to be processed.
    since: Time,
    last_error: Option<Box<str>>,
}

/// The state of a key, for the debug dump.
#[derive(Debug)]
pub struct WorkItemStatus<'a> {
    /// The controller and its key.
    pub item: &'a WorkItem,
    /// Whether it is in the queue.
    pub ready: bool,
    /// Whether a reconciliation of it is in flight.
    pub processing: bool,
    /// When it became ready or began to be processed.
    pub since: Time,
    /// When it becomes ready without an event.
    pub requeue_at: Option<Time>,
    /// Failed reconciliations in a row.
    pub failures: u32,
    /// The error of the last one, shortened.
    pub last_error: Option<&'a str>,
}

/// The workqueue of all controllers of a control loop.
#[derive(Debug, Default)]
pub struct WorkQueue {
    entries: BTreeMap<WorkItem, Entry>,
    ready: VecDeque<WorkItem>,
    due: BTreeSet<(Time, WorkItem)>,
    /// Metrics by index of the controller.
    metrics: Vec<WorkqueueMetrics>,
    now: Time,
}

impl WorkQueue {
    /// Sets the time of the calls that follow.
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// All keys that have an entry, ordered by controller and key.
    pub fn items(&self) -> impl Iterator<Item = WorkItemStatus<'_>> {
        self.entries.iter().map(|(item, entry)| WorkItemStatus {
            item,
            ready: entry.ready,
            processing: entry.processing,
            since: entry.since,
            requeue_at: entry.requeue_at,
            failures: entry.failures,
            last_error: entry.last_error.as_deref(),
        })
    }

    /// When a key became ready or began to be processed.
    pub fn since(&self, item: &WorkItem) -> Option<Time> {
        self.entries.get(item).map(|entry| entry.since)
    }

    /// The metrics of the controller with this index, without those of keys that are processed right now.
    pub fn metrics(&self, controller: usize) -> WorkqueueMetrics {
        self.metrics.get(controller).cloned().unwrap_or_default()
    }

    /// Makes a key ready, now or at `at`. The earlier of two times wins.
    pub fn add(&mut self, item: WorkItem, at: Option<Time>) {
        let entry = self.entries.entry(item.clone()).or_default();
        match at {
            None if entry.processing => entry.dirty = true,
            None if entry.ready => {}
            None => {
                (entry.ready, entry.since) = (true, self.now);
                let metrics = metrics_of(&mut self.metrics, item.controller);
                metrics.adds += 1;
                metrics.depth += 1;
                self.ready.push_back(item);
            }
            Some(_) if entry.ready => {}
            Some(at) => self.add_at(item, at),
        }
    }

    fn add_at(&mut self, item: WorkItem, at: Time) {
        let entry = self.entries.entry(item.clone()).or_default();
        match entry.requeue_at {
            Some(old) if old <= at => return,
            Some(old) => {
                self.due.remove(&(old, item.clone()));
            }
            None => {}
        }
        entry.requeue_at = Some(at);
        self.due.insert((at, item));
    }

    /// Makes every key ready whose time has come.
    pub fn promote_due(&mut self, now: Time) {
        self.now = now;
        while let Some((at, item)) = self.due.pop_first() {
            if at > now {
                self.due.insert((at, item));
                return;
            }
            if let Some(entry) = self.entries.get_mut(&item) {
                entry.requeue_at = None;
            }
            self.add(item, None);
        }
    }

    /// Takes the next ready key, which is processed from now on.
    pub fn pop(&mut self) -> Option<WorkItem> {
        let item = self.ready.pop_front()?;
        let entry = self.entries.entry(item.clone()).or_default();
        let metrics = metrics_of(&mut self.metrics, item.controller);
        metrics.depth -= 1;
        metrics.queue_duration.observe(self.now.since(entry.since));
        entry.since = self.now;
        entry.ready = false;
        entry.processing = true;
        entry.dirty = false;
        // The reconciliation that starts now returns its own requeue time.
        if let Some(at) = entry.requeue_at.take() {
            self.due.remove(&(at, item.clone()));
        }
        Some(item)
    }

    /// The reconciliation of a key succeeded; its backoff is reset.
    pub fn done(&mut self, item: &WorkItem, requeue_at: Option<Time>) {
        let metrics = metrics_of(&mut self.metrics, item.controller);
        *if requeue_at.is_some() { &mut metrics.requeues } else { &mut metrics.done } += 1;
        self.finish(item, requeue_at, 0, None);
    }

    /// The reconciliation of a key failed: it is retried with exponential backoff.
    pub fn failed(&mut self, item: &WorkItem, error: &ApiError, now: Time) {
        let entry = self.entries.get(item);
        let failures = entry.map_or(0, |entry| entry.failures) + 1;
        let mut backoff = backoff(error, failures);
        if entry.is_some_and(|entry| entry.dirty) {
            backoff = backoff.min(DIRTY_BACKOFF_MAX);
        }
        metrics_of(&mut self.metrics, item.controller).errors += 1;
        let text: String = error.to_string().chars().take(ERROR_CHARS_MAX).collect();
        self.finish(item, Some(now + backoff), failures, Some(text.into()));
    }

    /// Whether the last reconciliation of a key failed.
    #[must_use]
    pub fn has_failed(&self, item: &WorkItem) -> bool {
        self.entries.get(item).is_some_and(|entry| entry.failures > 0)
    }

    fn finish(&mut self, item: &WorkItem, requeue_at: Option<Time>, failures: u32, error: Option<Box<str>>) {
        let entry = self.entries.entry(item.clone()).or_default();
        metrics_of(&mut self.metrics, item.controller).work_duration.observe(self.now.since(entry.since));
        entry.last_error = error;
        entry.processing = false;
        entry.failures = failures;
        // A failed key that was added meanwhile waits for its backoff, which `failed` has shortened.
        if std::mem::take(&mut entry.dirty) && failures == 0 {
            self.add(item.clone(), None);
        }
        if let Some(at) = requeue_at {
            self.add_at(item.clone(), at);
        }
        let idle = |entry: &Entry| !entry.ready && entry.requeue_at.is_none() && entry.failures == 0;
        if self.entries.get(item).is_some_and(idle) {
            self.entries.remove(item);
        }
    }

    /// The number of ready keys.
    #[must_use]
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// When the next key becomes ready without an event.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}

fn metrics_of(metrics: &mut Vec<WorkqueueMetrics>, controller: usize) -> &mut WorkqueueMetrics {
    if metrics.len() <= controller {
        metrics.resize_with(controller + 1, WorkqueueMetrics::default);
    }
    &mut metrics[controller]
}

fn backoff(error: &ApiError, failures: u32) -> Duration {
    let first = match error {
        ApiError::TooManyRequests { retry_after } => {
            return (*retry_after).clamp(CONFLICT_BACKOFF_BASE, BACKOFF_MAX);
        }
        ApiError::Conflict(_) | ApiError::NotFound(_) | ApiError::AlreadyExists(_) => CONFLICT_BACKOFF_BASE,
        ApiError::Invalid(_) | ApiError::Forbidden(_) | ApiError::Indeterminate(_) => BACKOFF_BASE,
    };
    first.saturating_mul(1 << (failures - 1).min(16)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use muster_api::kinds;

    use super::*;

    fn item(name: &str) -> WorkItem {
        WorkItem { controller: 0, key: ObjectKey::new(&kinds::PODS, &"ns".into(), &name.into()) }
    }

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    #[test]
    fn a_key_is_ready_once_and_dirty_while_processed() {
        let mut queue = WorkQueue::default();
        queue.add(item("a"), None);
        queue.add(item("a"), None);
        assert_eq!(queue.ready_len(), 1);
        let first = queue.pop().unwrap();
        queue.add(item("a"), None);
        assert_eq!(queue.pop(), None, "not while under way");
        queue.done(&first, None);
        assert_eq!(queue.pop(), Some(item("a")));
        queue.done(&item("a"), None);
        assert!(queue.entries.is_empty(), "nothing to remember");
    }

    #[test]
    fn backoff_doubles_up_to_a_bound() {
        let conflict = ApiError::Conflict(String::new());
        let forbidden = ApiError::Forbidden(String::new());
        for (error, failures, want) in [
            (&conflict, 1, 20),
            (&conflict, 2, 40),
            (&forbidden, 1, 1000),
            (&forbidden, 3, 4000),
            (&forbidden, 40, 60_000),
            (&ApiError::TooManyRequests { retry_after: Duration::from_secs(3) }, 9, 3000),
        ] {
            assert_eq!(backoff(error, failures), Duration::from_millis(want), "{error} {failures}");
        }
    }

    #[test]
    fn a_failed_key_is_not_ready_before_its_backoff_unless_it_is_added() {
        let mut queue = WorkQueue::default();
        queue.add(item("a"), None);
        let a = queue.pop().unwrap();
        queue.add(item("a"), None);
        queue.failed(&a, &ApiError::Conflict(String::new()), at(0));
        assert_eq!(queue.ready_len(), 0, "our own writes must not cut the pause short");
        assert_eq!(queue.next_due(), Some(at(20)));
        queue.add(item("a"), None);
        assert_eq!(queue.pop(), Some(item("a")), "a change does");
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_wake_while_a_plan_fails_shortens_a_long_pause() {
        let forbidden = ApiError::Forbidden(String::new());
        let mut queue = WorkQueue::default();
        for (says, woken, want) in [
            ("the first", false, 1000),
            ("woken, but the pause is short", true, 2000),
            ("longer", false, 4000),
            ("woken", true, 2000),
            ("the next is as long as it would have been", false, 16_000),
        ] {
            queue.add(item("a"), None);
            let a = queue.pop().unwrap();
            if woken {
                queue.add(item("a"), None);
            }
            queue.failed(&a, &forbidden, at(0));
            assert_eq!(queue.next_due(), Some(at(want)), "{says}");
            assert!(queue.has_failed(&a));
        }
    }

    #[test]
    fn the_earlier_of_two_times_counts() {
        let mut queue = WorkQueue::default();
        queue.add(item("a"), Some(at(50)));
        queue.add(item("a"), Some(at(30)));
        queue.add(item("a"), Some(at(70)));
        queue.promote_due(at(29));
        assert_eq!(queue.ready_len(), 0);
        queue.promote_due(at(30));
        assert_eq!(queue.pop(), Some(item("a")));
        assert_eq!(queue.next_due(), None);
    }
}
