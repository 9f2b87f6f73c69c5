//! Everything in a loop, for somebody who wonders what it is doing.
//!
//! # Invariants
//!
//! - Reading changes nothing, and nothing is kept for it beyond what the loop needs anyway.
//! - Of each list only the first [`SHOWN_MAX`] are told, beside how many there are.

use std::time::Duration;

use muster_api::port::Kind;
use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::{Calls, Loop, Sent};
use crate::counters::{Counters, verb};
use crate::plan::Key;
use crate::queue::Look;

/// Keys and calls told of each list.
pub const SHOWN_MAX: usize = 50;

impl Loop {
    /// Everything in it at this time.
    #[must_use]
    pub fn dump(&self, now: Time) -> Tree {
        let controllers = 0..self.controllers.len();
        tree!({
            "now": now.to_micros_text(),
            "synced": self.synced(),
            "kinds": Tree::list(self.caches.kinds().map(|kind| self.kind(kind))),
            "controllers": Tree::list(controllers.map(|place| self.controller(place, now))),
            "calls": {
                "underWay": count(self.sent.len()),
                "waiting": count(self.outbox.len()),
                "eventsWaiting": count(self.notes.len()),
                "oldest": Tree::list(self.sent.values().take(SHOWN_MAX).map(|sent| call(sent, now))),
            },
            "refusals": Tree::list(self.refusals()),
            "counters": counters(&self.told(now)),
        })
    }

    fn kind(&self, kind: &Kind) -> Tree {
        let heard = self.heard.get(kind);
        tree!({
            "kind": named(kind),
            "objects": count(self.caches.count(kind)),
            "synced": self.caches.kind_synced(kind),
            "lists": number(self.caches.resets(kind)),
        })
        .with_option(&["listedAt"], heard.map(|it| time(it.listed)))
        .with_option(&["lastChangeAt"], heard.map(|it| time(it.last)))
    }

    fn controller(&self, place: usize, now: Time) -> Tree {
        let (mut ready, mut under_way, mut due, mut failing) =
            (Shown::default(), Shown::default(), Shown::default(), Shown::default());
        for look in self.queue.looks().filter(|look| look.slot.controller == place) {
            if look.ready {
                ready.add(|| since(&look, now));
            }
            if look.under_way {
                under_way.add(|| since(&look, now));
            }
            if look.failures > 0 {
                failing.add(|| failure(&look));
            } else if let Some(at) = look.due {
                due.add(|| key(&look.slot.key).with(&["at"], time(at)));
            }
        }
        tree!({
            "name": self.controllers[place].counted_as(),
            "ready": ready.told(),
            "underWay": under_way.told(),
            "due": due.told(),
            "failing": failing.told(),
        })
    }
}

/// The first of a list, and how many there are.
#[derive(Default)]
struct Shown {
    count: usize,
    first: Vec<Tree>,
}

impl Shown {
    fn add(&mut self, what: impl FnOnce() -> Tree) {
        self.count += 1;
        if self.first.len() < SHOWN_MAX {
            self.first.push(what());
        }
    }

    fn told(self) -> Tree {
        tree!({"count": count(self.count), "first": Tree::list(self.first)})
    }
}

fn key(key: &Key) -> Tree {
    tree!({"kind": named(&key.kind), "namespace": (key.namespace.clone()), "name": (key.name.clone())})
}

fn since(look: &Look<'_>, now: Time) -> Tree {
    key(&look.slot.key).with(&["seconds"], seconds(now.since(look.since)))
}

fn failure(look: &Look<'_>) -> Tree {
    key(&look.slot.key)
        .with(&["failures"], i64::from(look.failures))
        .with(&["why"], look.why.unwrap_or_default())
        .with_option(&["at"], look.due.map(time))
}

fn call(sent: &Sent, now: Time) -> Tree {
    let first = sent.calls.as_slice().first();
    let on = first.map(|call| {
        let on = &call.on;
        tree!({"verb": verb(call), "kind": named(&on.kind), "namespace": (on.namespace.clone()),
            "name": (on.name.clone()), "by": (call.by.clone())})
    });
    let together = matches!(&sent.calls, Calls::Together(all) if all.len() > 1);
    on.unwrap_or_else(Tree::empty_map)
        .with(&["seconds"], seconds(now.since(sent.at)))
        .with(&["repeats"], i64::from(sent.repeats))
        .with_option(&["together"], together.then(|| count(sent.calls.as_slice().len())))
}

fn counters(all: &Counters) -> Tree {
    let work = all.work.iter().map(|(name, work)| {
        let told = tree!({"adds": number(work.adds), "done": number(work.done), "again": number(work.again),
            "refused": number(work.refused)});
        (*name, told)
    });
    tree!({
        "plans": number(all.plans),
        "calls": number(all.calls),
        "writes": number(all.writes),
        "events": number(all.events),
        "eventsDropped": number(all.events_dropped),
        "refusals": number(all.refusals),
        "rejected": number(all.rejected.values().sum()),
        "repeats": number(all.repeats),
        "work": Tree::map(work),
    })
}

fn named(kind: &Kind) -> String {
    let group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
    format!("{}{group}/{}", kind.plural, kind.version)
}

fn time(at: Time) -> Tree {
    at.to_micros_text().into()
}

fn seconds(age: Duration) -> Tree {
    Tree::Float(age.as_secs_f64())
}

fn count(many: usize) -> Tree {
    number(many as u64)
}

fn number(many: u64) -> Tree {
    Tree::Int(i64::try_from(many).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use muster_api::kinds;
    use muster_api::port::{Act, Batch, Call, Guard, Object, Part, Refusal};
    use muster_tree::literal;

    use super::*;
    use crate::cache::{Caches, Seen};
    use crate::loops::{Input, LoopOptions, Output};
    use crate::plan::{Controller, Plan, Step, Wake};

    /// Writes to every pod; one is to be looked at later.
    struct Writer;

    impl Controller for Writer {
        fn name(&self) -> &'static str {
            "writer"
        }

        fn kinds(&self) -> Vec<Kind> {
            vec![kinds::PODS.clone()]
        }

        fn wakes(&mut self, seen: &Seen<'_>, _: &Caches) -> Vec<Wake> {
            vec![seen.key.clone().into()]
        }

        fn plan(&mut self, key: &Key, _: &Caches, now: Time) -> Plan {
            if key.name == "later" {
                return Plan::nothing().again(now + Duration::from_secs(9));
            }
            let act = Act::Merge(tree!({}));
            let call = Call { by: literal!("me"), on: key.target(Part::Main), guard: Guard::default(), act };
            Plan::of(vec![Step::One(call)])
        }
    }

    fn pod(name: &str) -> Object {
        let tree = tree!({"metadata": {"name": name, "namespace": "ns", "uid": name}});
        Object { revision: 7, tree }
    }

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000)
    }

    #[test]
    fn what_waits_what_is_under_way_and_what_failed_are_told_with_their_reasons() {
        let mut it = Loop::new(vec![Box::new(Writer)], &[], LoopOptions::default());
        let empty = it.dump(at(0));
        assert_eq!(empty.bool_at(&["synced"]), Some(false));
        assert_eq!(empty.items_at(&["kinds"])[0].at(&["listedAt"]), None);
        let pods = vec![pod("later"), pod("refused"), pod("slow")];
        let sent = it.on(Input::Changed(kinds::PODS.clone(), Batch::Reset(pods)), at(1));
        for output in sent {
            let Output::Send(id, calls) = output else { continue };
            if calls.as_slice()[0].on.name == "refused" {
                let why = Refusal::Forbidden("no right to patch pods".repeat(100));
                it.take(Input::Replied(id, vec![Err(why)]), at(3));
            }
        }
        let dump = it.dump(at(4));
        let kind = &dump.items_at(&["kinds"])[0];
        assert_eq!((kind.str_at(&["kind"]), kind.int_at(&["objects"])), ("pods/v1", Some(3)));
        assert_eq!(kind.str_at(&["listedAt"]), at(1).to_micros_text());
        let controller = &dump.items_at(&["controllers"])[0];
        let first = |list: &str| controller.items_at(&[list, "first"])[0].clone();
        assert_eq!(first("due").str_at(&["name"]), "later");
        assert_eq!(first("due").str_at(&["at"]), at(10).to_micros_text());
        assert_eq!(first("underWay").str_at(&["name"]), "slow");
        assert_eq!(first("underWay").at(&["seconds"]), Some(&Tree::Float(3.0)));
        assert_eq!(first("failing").str_at(&["name"]), "refused");
        assert!(first("failing").str_at(&["why"]).starts_with("forbidden: no right to patch pods"));
        assert!(first("failing").str_at(&["why"]).len() < 400, "not all of it is kept");
        assert_eq!(controller.int_at(&["ready", "count"]), Some(0));
        let call = &dump.items_at(&["calls", "oldest"])[0];
        assert_eq!((call.str_at(&["verb"]), call.str_at(&["name"])), ("patch", "slow"));
        let work = dump.at(&["counters", "work", "writer"]).unwrap();
        let counts = ["adds", "done", "again", "refused"].map(|name| work.int_at(&[name]));
        assert_eq!(counts, [Some(3), Some(0), Some(1), Some(1)]);
        let told = it.told(at(4)).work["writer"].clone();
        assert_eq!((told.under_way, told.unfinished), (1, Duration::from_secs(3)));
        assert_eq!(told.times.sum, Duration::from_secs(2), "the refused one");
    }

    #[test]
    fn of_many_the_first_are_told() {
        let mut it = Loop::new(
            vec![Box::new(Writer)],
            &[],
            LoopOptions { calls_in_flight_max: 1, ..LoopOptions::default() },
        );
        let pods = (0..1_000).map(|n| pod(&format!("p{n}"))).collect();
        it.on(Input::Changed(kinds::PODS.clone(), Batch::Reset(pods)), at(1));
        let dump = it.dump(at(2));
        let ready = dump.items_at(&["controllers"])[0].at(&["ready"]).unwrap();
        assert_eq!(ready.items_at(&["first"]).len(), SHOWN_MAX);
        assert!(ready.int_at(&["count"]).unwrap() > 900);
    }
}
