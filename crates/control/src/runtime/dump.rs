//! The debug dump of a control loop: caches, workqueues, requests in flight, recent errors.
//!
//! # Guarantees
//!
//! - A dump changes nothing and needs no state beyond that of the loop.
//! - A list holds at most [`SHOWN_MAX`] entries, beside the total count.

use std::time::Duration;

use muster_api::client::Kind;
use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::{ControlLoop, PendingRequest, RequestBatch};
use crate::controller::ObjectKey;
use crate::metrics::{RuntimeMetrics, verb};
use crate::workqueue::WorkItemStatus;

/// Keys or requests shown of each list.
pub const SHOWN_MAX: usize = 50;

impl ControlLoop {
    /// The state of the loop at this time, as JSON.
    #[must_use]
    pub fn dump(&self, now: Time) -> Tree {
        let controllers = 0..self.controllers.len();
        tree!({
            "now": now.to_micros_text(),
            "synced": self.synced(),
            "kinds": Tree::list(self.caches.kinds().map(|kind| self.kind(kind))),
            "controllers": Tree::list(controllers.map(|index| self.controller(index, now))),
            "calls": {
                "underWay": count(self.awaiting_reply.len()),
                "waiting": count(self.send_queue.len()),
                "eventsWaiting": count(self.event_queue.len()),
                "oldest": Tree::list(self.awaiting_reply.values().take(SHOWN_MAX).map(|pending| request(pending, now))),
            },
            "refusals": Tree::list(self.recent_errors()),
            "counters": counters(&self.collect_metrics(now)),
        })
    }

    fn kind(&self, kind: &Kind) -> Tree {
        let times = self.watch_times.get(kind);
        tree!({
            "kind": named(kind),
            "objects": count(self.caches.count(kind)),
            "synced": self.caches.kind_synced(kind),
            "lists": number(self.caches.relists(kind)),
        })
        .with_option(&["listedAt"], times.map(|it| time(it.last_listed)))
        .with_option(&["lastChangeAt"], times.map(|it| time(it.last_event)))
    }

    fn controller(&self, index: usize, now: Time) -> Tree {
        let (mut ready, mut under_way, mut due, mut failing) =
            (Shown::default(), Shown::default(), Shown::default(), Shown::default());
        for status in self.queue.items().filter(|status| status.item.controller == index) {
            if status.ready {
                ready.add(|| since(&status, now));
            }
            if status.processing {
                under_way.add(|| since(&status, now));
            }
            if status.failures > 0 {
                failing.add(|| failure(&status));
            } else if let Some(at) = status.requeue_at {
                due.add(|| key(&status.item.key).with(&["at"], time(at)));
            }
        }
        tree!({
            "name": self.controllers[index].metrics_name(),
            "ready": ready.tree(),
            "underWay": under_way.tree(),
            "due": due.tree(),
            "failing": failing.tree(),
        })
    }
}

/// The first entries of a list, and the total count.
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

    fn tree(self) -> Tree {
        tree!({"count": count(self.count), "first": Tree::list(self.first)})
    }
}

fn key(key: &ObjectKey) -> Tree {
    tree!({"kind": named(&key.kind), "namespace": (key.namespace.clone()), "name": (key.name.clone())})
}

fn since(status: &WorkItemStatus<'_>, now: Time) -> Tree {
    key(&status.item.key).with(&["seconds"], seconds(now.since(status.since)))
}

fn failure(status: &WorkItemStatus<'_>) -> Tree {
    key(&status.item.key)
        .with(&["failures"], i64::from(status.failures))
        .with(&["why"], status.last_error.unwrap_or_default())
        .with_option(&["at"], status.requeue_at.map(time))
}

fn request(pending: &PendingRequest, now: Time) -> Tree {
    let first = pending.batch.as_slice().first();
    let on = first.map(|request| {
        let on = &request.target;
        tree!({"verb": verb(request), "kind": named(&on.kind), "namespace": (on.namespace.clone()),
            "name": (on.name.clone()), "by": (request.field_manager.clone())})
    });
    let together = matches!(&pending.batch, RequestBatch::Transaction(all) if all.len() > 1);
    on.unwrap_or_else(Tree::empty_map)
        .with(&["seconds"], seconds(now.since(pending.sent_at)))
        .with(&["repeats"], i64::from(pending.retries))
        .with_option(&["together"], together.then(|| count(pending.batch.as_slice().len())))
}

fn counters(all: &RuntimeMetrics) -> Tree {
    let work = all.workqueues.iter().map(|(name, work)| {
        let tree = tree!({"adds": number(work.adds), "done": number(work.done), "again": number(work.requeues),
            "refused": number(work.errors)});
        (*name, tree)
    });
    tree!({
        "plans": number(all.reconciles),
        "calls": number(all.requests),
        "writes": number(all.writes),
        "events": number(all.events),
        "eventsDropped": number(all.events_dropped),
        "refusals": number(all.request_errors),
        "rejected": number(all.rejected.values().sum()),
        "repeats": number(all.retries),
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
    use muster_api::client::{
        ApiError, ApiObject, ApiRequest, Preconditions, RequestVerb, Subresource, WatchBatch,
    };
    use muster_api::kinds;
    use muster_tree::literal;

    use super::*;
    use crate::cache::{Caches, WatchEvent};
    use crate::controller::{Controller, ReconcileRequest, Reconciled, Step};
    use crate::runtime::{RuntimeInput, RuntimeOptions, RuntimeOutput};

    struct Writer;

    impl Controller for Writer {
        fn name(&self) -> &'static str {
            "writer"
        }

        fn kinds(&self) -> Vec<Kind> {
            vec![kinds::PODS.clone()]
        }

        fn map_event(&mut self, seen: &WatchEvent<'_>, _: &Caches) -> Vec<ReconcileRequest> {
            vec![seen.key.clone().into()]
        }

        fn reconcile(&mut self, key: &ObjectKey, _: &Caches, now: Time) -> Reconciled {
            if key.name == "later" {
                return Reconciled::done().requeue_at(now + Duration::from_secs(9));
            }
            let act = RequestVerb::MergePatch(tree!({}));
            let request = ApiRequest {
                field_manager: literal!("me"),
                target: key.target(Subresource::Main),
                preconditions: Preconditions::default(),
                verb: act,
            };
            Reconciled::with_steps(vec![Step::Request(request)])
        }
    }

    fn pod(name: &str) -> ApiObject {
        let tree = tree!({"metadata": {"name": name, "namespace": "ns", "uid": name}});
        ApiObject { revision: 7, tree }
    }

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000)
    }

    #[test]
    fn the_dump_shows_scheduled_in_flight_and_failing_keys() {
        let mut it = ControlLoop::new(vec![Box::new(Writer)], &[], RuntimeOptions::default());
        let empty = it.dump(at(0));
        assert_eq!(empty.bool_at(&["synced"]), Some(false));
        assert_eq!(empty.items_at(&["kinds"])[0].at(&["listedAt"]), None);
        let pods = vec![pod("later"), pod("refused"), pod("slow")];
        let outputs =
            it.handle(RuntimeInput::Watched(kinds::PODS.clone(), WatchBatch::Restarted(pods)), at(1));
        for output in outputs {
            let RuntimeOutput::Send(id, batch) = output else { continue };
            if batch.as_slice()[0].target.name == "refused" {
                let error = ApiError::Forbidden("no right to patch pods".repeat(100));
                it.observe(RuntimeInput::Replied(id, vec![Err(error)]), at(3));
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
        assert!(first("failing").str_at(&["why"]).len() < 400, "the error is shortened");
        assert_eq!(controller.int_at(&["ready", "count"]), Some(0));
        let request = &dump.items_at(&["calls", "oldest"])[0];
        assert_eq!((request.str_at(&["verb"]), request.str_at(&["name"])), ("patch", "slow"));
        let work = dump.at(&["counters", "work", "writer"]).unwrap();
        let counts = ["adds", "done", "again", "refused"].map(|name| work.int_at(&[name]));
        assert_eq!(counts, [Some(3), Some(0), Some(1), Some(1)]);
        let metrics = it.collect_metrics(at(4)).workqueues["writer"].clone();
        assert_eq!((metrics.active_workers, metrics.unfinished_work), (1, Duration::from_secs(3)));
        assert_eq!(metrics.work_duration.sum, Duration::from_secs(2), "of the failed one");
    }

    #[test]
    fn lists_are_bounded() {
        let mut it = ControlLoop::new(
            vec![Box::new(Writer)],
            &[],
            RuntimeOptions { requests_in_flight_max: 1, ..RuntimeOptions::default() },
        );
        let pods = (0..1_000).map(|n| pod(&format!("p{n}"))).collect();
        it.handle(RuntimeInput::Watched(kinds::PODS.clone(), WatchBatch::Restarted(pods)), at(1));
        let dump = it.dump(at(2));
        let ready = dump.items_at(&["controllers"])[0].at(&["ready"]).unwrap();
        assert_eq!(ready.items_at(&["first"]).len(), SHOWN_MAX);
        assert!(ready.int_at(&["count"]).unwrap() > 900);
    }
}
