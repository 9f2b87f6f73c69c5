//! What a loop takes from replies, and how much it sends at a time.

use muster_api::event::{About, Event, Severity};
use muster_api::kinds::{CONFIG_MAPS, JOBSETS};
use muster_api::port::{Act, Batch, Call, Change, Guard, Kind, Object, Part, Refusal, Target};
use muster_api::time::Time;
use muster_tree::{Text, tree};

use super::{CallId, Input, Loop, LoopOptions, Output};
use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake, Want};

const NOW: Time = Time(1_767_225_600_000_000);

/// Asks for the JobSet of a name, whoever that is, whenever there is a ConfigMap of this name.
struct Asks;

impl Controller for Asks {
    fn name(&self) -> &'static str {
        "asks"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![CONFIG_MAPS.clone(), JOBSETS.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let asks = seen.key.kind == CONFIG_MAPS;
        asks.then(|| seen.key.clone().into()).into_iter().collect()
    }

    fn plan(&mut self, key: &Key, _caches: &Caches, _now: Time) -> Plan {
        let on = Target {
            kind: JOBSETS.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            part: Part::Main,
        };
        let call = Call { by: Text::from("asks"), on, guard: Guard::default(), act: Act::Get };
        Plan::of(vec![Step::Look(call, Want::Absent)])
    }
}

fn object(uid: &str, revision: u64) -> Object {
    Object { tree: tree!({"metadata": {"namespace": "ns", "name": "a", "uid": uid}}), revision }
}

fn put(it: &mut Loop, kind: &Kind, object: Object) -> Vec<CallId> {
    let sent = it.on(Input::Changed(kind.clone(), Batch::Changes(vec![Change::Put(object)])), NOW);
    let ids = sent.into_iter().filter_map(|output| match output {
        Output::Send(id, _) => Some(id),
        _ => None,
    });
    ids.collect()
}

fn begin() -> Loop {
    let all = [CONFIG_MAPS.clone(), JOBSETS.clone()];
    let mut it = Loop::new(vec![Box::new(Asks)], &all, LoopOptions::default());
    for kind in all {
        let _ = it.on(Input::Changed(kind, Batch::Reset(Vec::new())), NOW);
    }
    it
}

fn is_known(it: &Loop) -> bool {
    it.caches().get(&JOBSETS, &"ns".into(), &"a".into()).is_some()
}

fn not_found() -> Vec<Result<Object, Refusal>> {
    vec![Err(Refusal::NotFound("a".to_owned()))]
}

#[test]
fn who_is_not_found_is_gone() {
    let mut it = begin();
    put(&mut it, &JOBSETS, object("old", 1));
    let asked = put(&mut it, &CONFIG_MAPS, object("c", 2));
    let _ = it.on(Input::Replied(asked[0], not_found()), NOW);
    assert!(!is_known(&it));
}

#[test]
fn who_was_born_while_a_namesake_was_asked_for_is_not() {
    let mut it = begin();
    let asked = put(&mut it, &CONFIG_MAPS, object("c", 2));
    put(&mut it, &JOBSETS, object("new", 3));
    let _ = it.on(Input::Replied(asked[0], not_found()), NOW);
    assert!(is_known(&it), "the watch would not tell of it again");
}

/// Writes to every ConfigMap.
struct Writes(Act);

impl Controller for Writes {
    fn name(&self) -> &'static str {
        "writes"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![CONFIG_MAPS.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        vec![seen.key.clone().into()]
    }

    fn plan(&mut self, key: &Key, _caches: &Caches, _now: Time) -> Plan {
        let on = key.target(Part::Status);
        let call = Call { by: Text::from("writes"), on, guard: Guard::default(), act: self.0.clone() };
        Plan::of(vec![Step::One(call)])
    }
}

#[test]
fn writes_that_are_rejected_for_what_they_say_are_counted() {
    let (merge, create) = (Act::Merge(tree!({"status": {}})), Act::Create(tree!({})));
    let (invalid, forbidden) = (Refusal::Invalid("too many".to_owned()), Refusal::Forbidden("no".to_owned()));
    for (act, why, count) in [
        (merge.clone(), invalid.clone(), 1),
        (create.clone(), invalid, 1),
        (merge.clone(), forbidden.clone(), 1),
        (create, forbidden, 0),
        (merge, Refusal::Conflict("later".to_owned()), 0),
    ] {
        let all = [CONFIG_MAPS.clone()];
        let says = format!("{act:?} {why}");
        let mut it = Loop::new(vec![Box::new(Writes(act))], &all, LoopOptions::default());
        let _ = it.on(Input::Changed(CONFIG_MAPS.clone(), Batch::Reset(Vec::new())), NOW);
        let sent = put(&mut it, &CONFIG_MAPS, object("c", 2));
        let _ = it.on(Input::Replied(sent[0], vec![Err(why)]), NOW);
        let counters = it.counters();
        assert_eq!(counters.rejected.values().sum::<u64>(), count, "{says}");
        assert_eq!(counters.refusals, 1, "{says}");
        assert!(counters.rejected.keys().all(|(_, plural)| plural == "configmaps"), "{says}");
    }
}

/// Tells of every ConfigMap.
struct Tells;

impl Controller for Tells {
    fn name(&self) -> &'static str {
        "tells"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![CONFIG_MAPS.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        vec![seen.key.clone().into()]
    }

    fn plan(&mut self, key: &Key, caches: &Caches, _now: Time) -> Plan {
        let Some(object) = caches.find(key) else { return Plan::nothing() };
        Plan::of(vec![Step::Note(Event {
            by: Text::from("tells"),
            about: About::of(&CONFIG_MAPS, "ConfigMap", &object.tree),
            severity: Severity::Normal,
            reason: Text::from("Seen"),
            message: Text::new(),
            action: Text::new(),
        })])
    }
}

#[test]
fn only_so_many_events_are_under_way_and_none_is_lost() {
    let options = LoopOptions { notes_in_flight_max: 2, ..LoopOptions::default() };
    let mut it = Loop::new(vec![Box::new(Tells)], &[], options);
    let named = |n: u64| Object {
        tree: tree!({"metadata": {"namespace": "ns", "name": format!("c{n}"), "uid": format!("u{n}")}}),
        revision: n,
    };
    let all = (1..=5).map(named).collect();
    let mut outputs = it.on(Input::Changed(CONFIG_MAPS.clone(), Batch::Reset(all)), NOW);
    let mut told = Vec::new();
    loop {
        let sent = outputs.iter().filter_map(|output| match output {
            Output::Send(id, _) => Some(*id),
            _ => None,
        });
        let sent: Vec<CallId> = sent.collect();
        if sent.is_empty() {
            break;
        }
        told.push(sent.len());
        for id in sent {
            it.take(Input::Replied(id, vec![Ok(object("event", 9))]), NOW);
        }
        outputs = it.turn(NOW);
    }
    assert_eq!(told, [2, 2, 1]);
}
