//! The event recorder: many notes become few Events.
//!
//! The same note again counts up the Event there is. Many different notes of one reason about one object become
//! one Event. An object that is noted too often falls silent for a while. Events are half of all writes up to
//! "bound": this is a performance feature.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use muster_api::event::{self, About, Event, Severity};
use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Part, Target};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

/// Different notes of one reason about one object before they are combined: the tenth is.
pub const AGGREGATE_MAX: usize = 9;
/// How long such notes are remembered.
pub const AGGREGATE_WINDOW: Duration = Duration::from_secs(600);
/// Notes about one object before it falls silent.
pub const SPAM_BURST: u32 = 25;
/// One more note is allowed this often.
pub const SPAM_REFILL: Duration = Duration::from_secs(300);
/// Groups and objects remembered; the oldest are forgotten.
pub const REMEMBERED_MAX: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    by: Text,
    about: About,
    severity: Severity,
    reason: Text,
}

#[derive(Debug)]
struct Series {
    since: Time,
    /// By message; the combined one has an empty message.
    written: BTreeMap<Text, Written>,
}

#[derive(Debug)]
struct Written {
    name: Text,
    count: u32,
}

#[derive(Debug)]
struct Allowance {
    left: u32,
    since: Time,
}

/// The recorder.
#[derive(Debug, Default)]
pub struct Recorder {
    series: BTreeMap<Group, Series>,
    series_order: VecDeque<Group>,
    allowances: BTreeMap<(Text, About), Allowance>,
    allowance_order: VecDeque<(Text, About)>,
    made: u64,
}

impl Recorder {
    /// The call that notes `event`; none when its object was noted too often.
    pub fn note(&mut self, event: &Event, now: Time) -> Option<Call> {
        if !self.allowed(event, now) {
            return None;
        }
        let made = self.made;
        let series = self.series_of(event, now);
        let combined = !series.written.contains_key(&event.message) && series.written.len() >= AGGREGATE_MAX;
        let key = if combined { Text::new() } else { event.message.clone() };
        let message = match combined {
            true => Text::from(format!("(combined from similar events): {}", event.message)),
            false => event.message.clone(),
        };
        if let Some(written) = series.written.get_mut(&key) {
            written.count += 1;
            let patch = event::counted(&message, written.count, now);
            return Some(call(event, &written.name, Act::Merge(patch)));
        }
        // Nanoseconds in name only: the last three digits keep names of one microsecond apart.
        let name =
            Text::from(format!("{}.{:016x}", event.about.name, now.0 * 1000 + (made % 1000).cast_signed()));
        series.written.insert(key, Written { name: name.clone(), count: 1 });
        self.made += 1;
        let tree = event.tree(&name, &message, 1, now, now);
        Some(call(event, &name, Act::Create(tree)))
    }

    fn series_of(&mut self, event: &Event, now: Time) -> &mut Series {
        let group = Group {
            by: event.by.clone(),
            about: event.about.clone(),
            severity: event.severity,
            reason: event.reason.clone(),
        };
        let new = || Series { since: now, written: BTreeMap::new() };
        if !self.series.contains_key(&group) {
            self.series_order.push_back(group.clone());
            forget_oldest(&mut self.series, &mut self.series_order);
        }
        let series = self.series.entry(group).or_insert_with(new);
        if now.since(series.since) > AGGREGATE_WINDOW {
            *series = new();
        }
        series
    }

    fn allowed(&mut self, event: &Event, now: Time) -> bool {
        let key = (event.by.clone(), event.about.clone());
        if !self.allowances.contains_key(&key) {
            self.allowance_order.push_back(key.clone());
            forget_oldest(&mut self.allowances, &mut self.allowance_order);
        }
        let allowance = self.allowances.entry(key).or_insert(Allowance { left: SPAM_BURST, since: now });
        while allowance.left < SPAM_BURST && now.since(allowance.since) >= SPAM_REFILL {
            allowance.left += 1;
            allowance.since = allowance.since + SPAM_REFILL;
        }
        if allowance.left == SPAM_BURST {
            allowance.since = now;
        }
        allowance.left = match allowance.left.checked_sub(1) {
            Some(left) => left,
            None => return false,
        };
        true
    }
}

fn forget_oldest<K: Ord, V>(map: &mut BTreeMap<K, V>, order: &mut VecDeque<K>) {
    while order.len() > REMEMBERED_MAX {
        if let Some(oldest) = order.pop_front() {
            map.remove(&oldest);
        }
    }
}

fn call(event: &Event, name: &Text, act: Act) -> Call {
    let on = Target {
        kind: kinds::EVENTS.clone(),
        namespace: event.namespace(),
        name: name.clone(),
        part: Part::Main,
    };
    Call { by: event.by.clone(), on, guard: Guard::default(), act }
}

/// Whether a tree is an Event the recorder could have made; used by tests.
#[must_use]
pub fn is_event(tree: &Tree) -> bool {
    tree.get("involvedObject").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Event {
        let about = About {
            api_version: "batch/v1".into(),
            kind: "Job".into(),
            namespace: "ns".into(),
            name: "j".into(),
            uid: "u".into(),
        };
        Event {
            by: "job-controller".into(),
            about,
            severity: Severity::Normal,
            reason: "SuccessfulCreate".into(),
            message: message.into(),
        }
    }

    fn count(call: &Call) -> i64 {
        match &call.act {
            Act::Create(tree) | Act::Merge(tree) => tree.int_at(&["count"]).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_same_note_counts_up() {
        let mut recorder = Recorder::default();
        let first = recorder.note(&event("a"), Time(0)).unwrap();
        let second = recorder.note(&event("a"), Time(1)).unwrap();
        assert!(matches!(first.act, Act::Create(_)) && matches!(second.act, Act::Merge(_)));
        assert_eq!((first.on.name == second.on.name, count(&second)), (true, 2));
    }

    #[test]
    fn many_notes_are_combined_and_too_many_fall_silent() {
        let mut recorder = Recorder::default();
        let calls: Vec<Option<Call>> =
            (0..40).map(|n| recorder.note(&event(&format!("pod {n}")), Time(n))).collect();
        let made = calls.iter().flatten().filter(|call| matches!(call.act, Act::Create(_))).count();
        assert_eq!(made, AGGREGATE_MAX + 1, "nine of their own and the combined one");
        assert_eq!(calls.iter().flatten().count(), SPAM_BURST as usize);
        assert_eq!(count(calls[24].as_ref().unwrap()), 16);
        let names: std::collections::BTreeSet<Text> =
            calls.into_iter().flatten().map(|c| c.on.name).collect();
        assert_eq!(names.len(), AGGREGATE_MAX + 1);
        let later = Time(0) + SPAM_REFILL + SPAM_REFILL;
        assert!(recorder.note(&event("x"), later).is_some() && recorder.note(&event("y"), later).is_some());
        assert!(recorder.note(&event("z"), later).is_none());
    }
}
