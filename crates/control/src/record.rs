//! The event recorder: many notes become few Events.
//!
//! The same note again counts up the Event there is. Many different notes of one reason about one object become
//! one Event. An object that is noted too often falls silent for a while, but what it would have said is counted.
//! Events are half of all writes up to "bound": this is a performance feature.
//!
//! # Invariants
//!
//! - What is remembered is bounded: [`REMEMBERED_MAX`] groups, and of each the notes of two windows at most.
//! - An Event that the server has forgotten meanwhile is made anew under its name, with what was counted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_api::event::{self, About, Event, Severity};
use muster_api::kinds;
use muster_api::port::{Act, Call, Guard, Part, Target};
use muster_api::time::Time;
use muster_tree::Text;

/// Different notes of one reason about one object before they are combined: the tenth is.
pub const AGGREGATE_MAX: usize = 9;
/// How long after the last of such notes a different one counts as the first again.
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
    action: Text,
}

#[derive(Debug, Default)]
struct Series {
    /// When the last note came.
    last: Option<Time>,
    /// The different messages of this window.
    different: BTreeSet<Text>,
    /// By message; the combined one has an empty message.
    written: BTreeMap<Text, Written>,
}

#[derive(Debug)]
struct Written {
    name: Text,
    count: u32,
    first: Time,
    /// Whether there is an Event; an object that has fallen silent gets one later.
    stored: bool,
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
        // Events of the new kind follow from changes of a status, which are few: none is left out.
        let allowed = !event.action.is_empty() || self.allowed(event, now);
        let made = self.made;
        self.made += 1;
        let series = self.series_of(event);
        series.enter(now);
        let combined = series.is_combined(&event.message);
        let key = if combined { Text::new() } else { event.message.clone() };
        let message = match combined {
            true => Text::from(format!("(combined from similar events): {}", event.message)),
            false => event.message.clone(),
        };
        let written = series.written.entry(key).or_insert_with(|| Written {
            // Nanoseconds in name only: the last three digits keep names of one microsecond apart.
            name: Text::from(format!(
                "{}.{:016x}",
                event.about.name,
                now.0 * 1000 + (made % 1000).cast_signed()
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
            true => call(event, &written.name, Act::Merge(event.counted(&message, written.count, now))),
            false => {
                let tree = event.tree(&written.name, &message, written.count, written.first, now);
                call(event, &written.name, Act::Create(tree))
            }
        };
        written.stored = true;
        Some(call)
    }

    /// The call that makes an Event anew which could not be counted up because it is no longer there.
    #[must_use]
    pub fn again(&self, lost: &Call, now: Time) -> Option<Call> {
        let Act::Merge(patch) = &lost.act else {
            return None;
        };
        let (group, written) = self.series.iter().find_map(|(group, series)| {
            let written = series.written.values().find(|written| written.name == lost.on.name)?;
            (lost.by == group.by).then_some((group, written))
        })?;
        let message = event::message_of(patch);
        let event = Event {
            by: group.by.clone(),
            about: group.about.clone(),
            severity: group.severity,
            reason: group.reason.clone(),
            message: message.clone(),
            action: group.action.clone(),
        };
        let tree = event.tree(&written.name, &message, written.count, written.first, now);
        Some(call(&event, &written.name, Act::Create(tree)))
    }

    fn series_of(&mut self, event: &Event) -> &mut Series {
        let group = Group {
            by: event.by.clone(),
            about: event.about.clone(),
            severity: event.severity,
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

impl Series {
    /// Begins a new window when the last note is long ago. Events of the window before may still be counted up.
    fn enter(&mut self, now: Time) {
        if self.last.replace(now).is_some_and(|last| now.since(last) > AGGREGATE_WINDOW) {
            let ended = std::mem::take(&mut self.different);
            self.written.retain(|message, _| message.is_empty() || ended.contains(message));
        }
    }

    /// Whether this message goes into the combined Event: it is one too many in this window.
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

fn call(event: &Event, name: &Text, act: Act) -> Call {
    let on = Target {
        kind: kinds::EVENTS.clone(),
        namespace: event.namespace(),
        name: name.clone(),
        part: Part::Main,
    };
    Call { by: event.by.clone(), on, guard: Guard::default(), act }
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
            action: Text::new(),
        }
    }

    fn count(call: &Call) -> i64 {
        match &call.act {
            Act::Create(tree) | Act::Merge(tree) => tree.int_at(&["count"]).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// What becomes of a note: `+` an Event, `^` one counted up, `-` nothing; with the count.
    fn shown(call: Option<&Call>) -> String {
        match call.map(|call| (&call.act, count(call))) {
            Some((Act::Create(_), count)) => format!("+{count}"),
            Some((_, count)) => format!("^{count}"),
            None => "-".to_owned(),
        }
    }

    #[test]
    fn notes_become_few_events() {
        let minute = 60_000_000;
        let different = |n: i64| format!("pod {n}");
        // What it says, notes with their times, and what becomes of each.
        type Case = (&'static str, Vec<(i64, String)>, Vec<&'static str>);
        let cases: Vec<Case> = vec![
            ("the same again counts up", vec![(0, "a".into()), (1, "a".into())], vec!["+1", "^2"]),
            ("different ones stand alone", vec![(0, "a".into()), (1, "b".into())], vec!["+1", "+1"]),
            (
                "the same much later still counts up",
                vec![(0, "a".into()), (11 * minute, "a".into()), (22 * minute, "a".into())],
                vec!["+1", "^2", "^3"],
            ),
            (
                "the tenth different one is combined, and so are those after it; known ones count up",
                (0..12).map(|n| (n, different(n))).chain([(12, different(3))]).collect(),
                vec!["+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "^2", "^3", "^2"],
            ),
            (
                "the window is counted from the last note, not from the first",
                (0..10)
                    .map(|n| (n * 9 * minute, different(n)))
                    .chain([(82 * minute, different(11))])
                    .collect(),
                vec!["+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "^2"],
            ),
            (
                "after a quiet window different ones stand alone again",
                (0..10).map(|n| (n, different(n))).chain([(11 * minute, "new".into())]).collect(),
                vec!["+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1", "+1"],
            ),
        ];
        for (says, notes, want) in cases {
            let mut recorder = Recorder::default();
            let found: Vec<String> = notes
                .iter()
                .map(|(at, message)| shown(recorder.note(&event(message), Time(*at)).as_ref()))
                .collect();
            assert_eq!(found, want, "{says}");
        }
    }

    #[test]
    fn too_many_fall_silent_and_are_counted_nevertheless() {
        let mut recorder = Recorder::default();
        let calls: Vec<Option<Call>> = (0..40).map(|n| recorder.note(&event("a"), Time(n))).collect();
        assert_eq!(calls.iter().flatten().count(), SPAM_BURST as usize);
        let later = Time(0) + SPAM_REFILL + SPAM_REFILL;
        assert_eq!(shown(recorder.note(&event("a"), later).as_ref()), "^41", "all forty were counted");
        assert_eq!(
            shown(recorder.note(&event("b"), later).as_ref()),
            "+1",
            "one is refilled every five minutes"
        );
        assert_eq!(shown(recorder.note(&event("c"), later).as_ref()), "-");
        let still = later + SPAM_REFILL;
        assert_eq!(shown(recorder.note(&event("c"), still).as_ref()), "+2", "it has an Event now, for both");
    }

    #[test]
    fn names_of_one_instant_differ() {
        let mut recorder = Recorder::default();
        let notes = ["a", "b", "c"].map(|message| recorder.note(&event(message), Time(0)).unwrap().on.name);
        assert!(notes[0] != notes[1] && notes[1] != notes[2], "{notes:?}");
    }

    #[test]
    fn what_the_server_forgot_is_made_anew() {
        let mut recorder = Recorder::default();
        let first = recorder.note(&event("a"), Time(0)).unwrap();
        assert_eq!(recorder.again(&first, Time(1)), None, "a create that fails is not tried again");
        let second = recorder.note(&event("a"), Time(1)).unwrap();
        let again = recorder.again(&second, Time(2)).unwrap();
        assert_eq!((shown(Some(&again)).as_str(), &again.on), ("+2", &first.on));
        let Act::Create(tree) = &again.act else { panic!("it is created") };
        assert_eq!(tree.str_at(&["message"]), "a");
        let unknown = Call { on: Target { name: "x.1".into(), ..second.on.clone() }, ..second };
        assert_eq!(recorder.again(&unknown, Time(2)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut recorder = Recorder::default();
        let about = |n: usize| {
            let mut event = event("a");
            event.about.name = Text::from(format!("j{n}"));
            event
        };
        for n in 0..REMEMBERED_MAX + 100 {
            recorder.note(&about(n), Time(0));
        }
        assert_eq!(recorder.series.len(), REMEMBERED_MAX);
        assert_eq!(recorder.allowances.len(), REMEMBERED_MAX);
        assert_eq!(
            (recorder.series_order.len(), recorder.allowance_order.len()),
            (REMEMBERED_MAX, REMEMBERED_MAX)
        );
        for n in 0..1_000 {
            // A window and a second apart, each with notes never seen before.
            let now = Time(n * 601_000_000);
            for more in 0..12 {
                recorder.note(&event(&format!("{n} {more}")), now);
            }
        }
        let most = recorder.series.values().map(|series| series.written.len()).max();
        assert!(most <= Some(2 * (AGGREGATE_MAX + 1)), "{most:?} of one group");
    }
}
