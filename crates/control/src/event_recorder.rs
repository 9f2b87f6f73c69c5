//! The event recorder: correlates events before they are written, as client-go's `EventCorrelator`.
//!
//! A repeated event increments the `count` of the stored Event. Many different messages with one reason about one object are
//! combined into one Event. An object with too many events is rate-limited by a token bucket; dropped events still count.
//! Events are half of all writes until a pod is bound: this is a performance feature.
//!
//! # Guarantees
//!
//! - Bounded memory: [`REMEMBERED_MAX`] series, and of each the events of two windows at most.
//! - An Event that expired on the server is recreated under its name, with its count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_api::client::{ApiRequest, Preconditions, RequestTarget, RequestVerb, Subresource};
use muster_api::event::{self, Event, EventType, ObjectReference};
use muster_api::kinds;
use muster_api::time::Time;
use muster_tree::Text;

/// Different messages of one reason about one object before they are combined: the tenth is.
pub const AGGREGATE_MAX: usize = 9;
/// How long after the last of such events a different message starts a new window.
pub const AGGREGATE_WINDOW: Duration = Duration::from_secs(600);
/// The size of the token bucket of an object: events in a burst before it is rate-limited.
pub const SPAM_BURST: u32 = 25;
/// The interval at which one token is refilled.
pub const SPAM_REFILL: Duration = Duration::from_secs(300);
/// Series and token buckets remembered; the oldest are forgotten.
pub const REMEMBERED_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SeriesKey {
    by: Text,
    about: ObjectReference,
    severity: EventType,
    reason: Text,
    action: Text,
}

#[derive(Debug, Default)]
struct Series {
    /// When the last event was recorded.
    last: Option<Time>,
    /// The different messages of this window.
    different: BTreeSet<Text>,
    /// Stored Events by message; the combined one has an empty message.
    written: BTreeMap<Text, StoredEvent>,
}

#[derive(Debug)]
struct StoredEvent {
    name: Text,
    count: u32,
    first: Time,
    /// Whether the Event was written; a rate-limited object gets its Event later, with the full count.
    stored: bool,
}

#[derive(Debug)]
struct TokenBucket {
    tokens: u32,
    since: Time,
}

/// Correlates events and makes the requests that write them.
#[derive(Debug, Default)]
pub struct EventRecorder {
    series: BTreeMap<SeriesKey, Series>,
    series_order: VecDeque<SeriesKey>,
    buckets: BTreeMap<(Text, ObjectReference), TokenBucket>,
    bucket_order: VecDeque<(Text, ObjectReference)>,
    sequence: u64,
}

impl EventRecorder {
    /// The request that writes `event`, as a create or as a patch of the count; `None` when its object is rate-limited.
    pub fn record(&mut self, event: &Event, now: Time) -> Option<ApiRequest> {
        // Events of `events.k8s.io` (those with an action) follow status changes, which are few: they are not rate-limited.
        let allowed = !event.action.is_empty() || self.allowed(event, now);
        let sequence = self.sequence;
        self.sequence += 1;
        let series = self.series_of(event);
        series.enter(now);
        let combined = series.is_combined(&event.message);
        let key = if combined { Text::new() } else { event.message.clone() };
        let message = match combined {
            true => Text::from(format!("(combined from similar events): {}", event.message)),
            false => event.message.clone(),
        };
        let written = series.written.entry(key).or_insert_with(|| StoredEvent {
            // client-go names Events by nanoseconds. Times here have microseconds: the last three digits are a sequence number
            // that keeps the names of one microsecond apart.
            name: Text::from(format!(
                "{}.{:016x}",
                event.regarding.name,
                now.0 * 1000 + (sequence % 1000).cast_signed()
            )),
            count: 0,
            first: now,
            stored: false,
        });
        written.count += 1;
        if !allowed {
            return None;
        }
        let call = match written.stored {
            true => call(
                event,
                &written.name,
                RequestVerb::MergePatch(event.series_patch(&message, written.count, now)),
            ),
            false => {
                let tree = event.tree(&written.name, &message, written.count, written.first, now);
                call(event, &written.name, RequestVerb::Create(tree))
            }
        };
        written.stored = true;
        Some(call)
    }

    /// The request that recreates an Event whose count could not be patched because it expired.
    #[must_use]
    pub fn recreate(&self, lost: &ApiRequest, now: Time) -> Option<ApiRequest> {
        let RequestVerb::MergePatch(patch) = &lost.verb else {
            return None;
        };
        let (group, written) = self.series.iter().find_map(|(group, series)| {
            let written = series.written.values().find(|written| written.name == lost.target.name)?;
            (lost.field_manager == group.by).then_some((group, written))
        })?;
        let message = event::event_message(patch);
        let event = Event {
            reporting_controller: group.by.clone(),
            regarding: group.about.clone(),
            event_type: group.severity,
            reason: group.reason.clone(),
            message: message.clone(),
            action: group.action.clone(),
        };
        let tree = event.tree(&written.name, &message, written.count, written.first, now);
        Some(call(&event, &written.name, RequestVerb::Create(tree)))
    }

    fn series_of(&mut self, event: &Event) -> &mut Series {
        let group = SeriesKey {
            by: event.reporting_controller.clone(),
            about: event.regarding.clone(),
            severity: event.event_type,
            reason: event.reason.clone(),
            action: event.action.clone(),
        };
        if !self.series.contains_key(&group) {
            self.series_order.push_back(group.clone());
            forget_oldest(&mut self.series, &mut self.series_order);
        }
        self.series.entry(group).or_default()
    }

    fn allowed(&mut self, event: &Event, now: Time) -> bool {
        let key = (event.reporting_controller.clone(), event.regarding.clone());
        if !self.buckets.contains_key(&key) {
            self.bucket_order.push_back(key.clone());
            forget_oldest(&mut self.buckets, &mut self.bucket_order);
        }
        let bucket = self.buckets.entry(key).or_insert(TokenBucket { tokens: SPAM_BURST, since: now });
        while bucket.tokens < SPAM_BURST && now.since(bucket.since) >= SPAM_REFILL {
            bucket.tokens += 1;
            bucket.since = bucket.since + SPAM_REFILL;
        }
        if bucket.tokens == SPAM_BURST {
            bucket.since = now;
        }
        bucket.tokens = match bucket.tokens.checked_sub(1) {
            Some(tokens) => tokens,
            None => return false,
        };
        true
    }
}

impl Series {
    /// Starts a new window when the last event is long ago. Events of the previous window may still be counted up.
    fn enter(&mut self, now: Time) {
        if self.last.replace(now).is_some_and(|last| now.since(last) > AGGREGATE_WINDOW) {
            let ended = std::mem::take(&mut self.different);
            self.written.retain(|message, _| message.is_empty() || ended.contains(message));
        }
    }

    /// Whether this message belongs to the combined Event: the window has [`AGGREGATE_MAX`] other messages.
    fn is_combined(&mut self, message: &Text) -> bool {
        if self.different.contains(message) {
            return false;
        }
        if self.different.len() >= AGGREGATE_MAX {
            return true;
        }
        self.different.insert(message.clone());
        false
    }
}

fn forget_oldest<K: Ord, V>(map: &mut BTreeMap<K, V>, order: &mut VecDeque<K>) {
    while order.len() > REMEMBERED_MAX {
        if let Some(oldest) = order.pop_front() {
            map.remove(&oldest);
        }
    }
}

fn call(event: &Event, name: &Text, act: RequestVerb) -> ApiRequest {
    let on = RequestTarget {
        kind: kinds::EVENTS.clone(),
        namespace: event.namespace(),
        name: name.clone(),
        subresource: Subresource::Main,
    };
    ApiRequest {
        field_manager: event.reporting_controller.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: act,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Event {
        let about = ObjectReference {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            namespace: "ns".into(),
            name: "j".into(),
            uid: "u".into(),
        };
        Event {
            reporting_controller: "job-controller".into(),
            regarding: about,
            event_type: EventType::Normal,
            reason: "SuccessfulCreate".into(),
            message: message.into(),
            action: Text::new(),
        }
    }

    fn count(call: &ApiRequest) -> i64 {
        match &call.verb {
            RequestVerb::Create(tree) | RequestVerb::MergePatch(tree) => tree.int_at(&["count"]).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The request of an event: `+` a create, `^` a patch of the count, `-` none; with the count.
    fn shown(call: Option<&ApiRequest>) -> String {
        match call.map(|call| (&call.verb, count(call))) {
            Some((RequestVerb::Create(_), count)) => format!("+{count}"),
            Some((_, count)) => format!("^{count}"),
            None => "-".to_owned(),
        }
    }

    #[test]
    fn repeated_and_different_events_are_correlated() {
        let minute = 60_000_000;
        let different = |n: i64| format!("pod {n}");
        // Name, messages with their times, and the request of each.
        type Case = (&'static str, Vec<(i64, String)>, Vec<&'static str>);
        let cases: Vec<Case> = vec![
            (
                "the same message increments the count",
                vec![(0, "a".into()), (1, "a".into())],
                vec!["+1", "^2"],
            ),
            (
                "different messages are separate Events",
                vec![(0, "a".into()), (1, "b".into())],
                vec!["+1", "+1"],
            ),
            (
                "the same message much later still increments the count",
                vec![(0, "a".into()), (11 * minute, "a".into()), (22 * minute, "a".into())],
                vec!["+1", "^2", "^3"],
            ),
            (
                "the tenth different message is combined, and so are those after it; known ones increment their count",
                (0..12).map(|n| (n, different(n))).chain([(12, different(3))]).collect(),
                vec!["+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "^2", "^3", "^2"],
            ),
            (
                "the window starts at the last event, not at the first",
                (0..10)
                    .map(|n| (n * 9 * minute, different(n)))
                    .chain([(82 * minute, different(11))])
                    .collect(),
                vec!["+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "^2"],
            ),
            (
                "after a quiet window different messages are separate Events again",
                (0..10).map(|n| (n, different(n))).chain([(11 * minute, "new".into())]).collect(),
                vec!["+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1"],
            ),
        ];
        for (name, events, want) in cases {
            let mut recorder = EventRecorder::default();
            let found: Vec<String> = events
                .iter()
                .map(|(at, message)| shown(recorder.record(&event(message), Time(*at)).as_ref()))
                .collect();
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn rate_limited_events_are_counted() {
        let mut recorder = EventRecorder::default();
        let calls: Vec<Option<ApiRequest>> = (0..40).map(|n| recorder.record(&event("a"), Time(n))).collect();
        assert_eq!(calls.iter().flatten().count(), SPAM_BURST as usize);
        let later = Time(0) + SPAM_REFILL + SPAM_REFILL;
        assert_eq!(shown(recorder.record(&event("a"), later).as_ref()), "^41", "all forty are counted");
        assert_eq!(
            shown(recorder.record(&event("b"), later).as_ref()),
            "+1",
            "one token is refilled every five minutes"
        );
        assert_eq!(shown(recorder.record(&event("c"), later).as_ref()), "-");
        let still = later + SPAM_REFILL;
        assert_eq!(
            shown(recorder.record(&event("c"), still).as_ref()),
            "+2",
            "its Event is written now, for both"
        );
    }

    #[test]
    fn events_of_one_microsecond_have_different_names() {
        let mut recorder = EventRecorder::default();
        let notes =
            ["a", "b", "c"].map(|message| recorder.record(&event(message), Time(0)).unwrap().target.name);
        assert!(notes[0] != notes[1] && notes[1] != notes[2], "{notes:?}");
    }

    #[test]
    fn an_expired_event_is_recreated() {
        let mut recorder = EventRecorder::default();
        let first = recorder.record(&event("a"), Time(0)).unwrap();
        assert_eq!(recorder.recreate(&first, Time(1)), None, "a create that fails is not retried");
        let second = recorder.record(&event("a"), Time(1)).unwrap();
        let again = recorder.recreate(&second, Time(2)).unwrap();
        assert_eq!((shown(Some(&again)).as_str(), &again.target), ("+2", &first.target));
        let RequestVerb::Create(tree) = &again.verb else { panic!("it is created") };
        assert_eq!(tree.str_at(&["message"]), "a");
        let unknown =
            ApiRequest { target: RequestTarget { name: "x.1".into(), ..second.target.clone() }, ..second };
        assert_eq!(recorder.recreate(&unknown, Time(2)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recorder = EventRecorder::default();
        let about = |n: usize| {
            let mut event = event("a");
            event.regarding.name = Text::from(format!("j{n}"));
            event
        };
        for n in 0..REMEMBERED_MAX + 100 {
            recorder.record(&about(n), Time(0));
        }
        assert_eq!(recorder.series.len(), REMEMBERED_MAX);
        assert_eq!(recorder.buckets.len(), REMEMBERED_MAX);
        assert_eq!(
            (recorder.series_order.len(), recorder.bucket_order.len()),
            (REMEMBERED_MAX, REMEMBERED_MAX)
        );
        for n in 0..1_000 {
            // A window and a second apart, each with notes never seen before.
            let now = Time(n * 601_000_000);
            for more in 0..12 {
                recorder.record(&event(&format!("{n} {more}")), now);
            }
        }
        let most = recorder.series.values().map(|series| series.written.len()).max();
        assert!(most <= Some(2 * (AGGREGATE_MAX + 1)), "{most:?} of one group");
    }
}
