//! The Node object of this machine, its lease, and its orderly stop.

use std::time::Duration;

use muster_api::port::{Act, Call, Guard, Object, Part};
use muster_api::time::Time;
use muster_api::words::NODE_LEASES;
use muster_api::{kinds, lease, meta, node};
use muster_control::{Caches, Key, Plan, Step};
use muster_tree::Text;

use super::inmate::Inmate;
use super::{Local, STOP_LOOK, STOP_MAX};
use crate::{call, name_taken, renew, uid_guard};

impl Local {
    pub(super) fn plan_node(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        if self.gone {
            return Plan::nothing();
        }
        let mark = &self.setup.mark;
        let Some(live) = caches.find(key) else {
            let bare = node::with_host(&node::simulated(&key.name, &self.setup.told.capacity));
            let made = bare.merge(&node::run_by(mark));
            return Plan::of(vec![Step::One(call(
                key.target(Part::Main),
                Guard::default(),
                Act::Create(made),
            ))]);
        };
        if node::machine_mark(&live.tree) != Some(mark.as_str()) {
            return self.take_over(key, live, caches, now);
        }
        let newly = !std::mem::replace(&mut self.registered, true);
        let mut steps = Vec::new();
        let status = self.setup.told.ready_status(&live.tree, now);
        if live.tree.merge(&status) != live.tree {
            steps.push(Step::One(call(key.target(Part::Status), uid_guard(live), Act::Strategic(status))));
        }
        let (renewal, next) = renew(key, live, caches, now);
        steps.extend(renewal.map(Step::One));
        let pods = caches.on_node(&key.name).filter(|_| newly);
        let wake = pods.map(|pod| Key::of(&kinds::PODS, &pod.tree)).collect();
        Plan { wake, ..Plan::of(steps).again(next) }
    }

    /// A node of this name is taken over when nobody runs it: a simulated one, or one whose lease is over.
    fn take_over(&mut self, key: &Key, live: &Object, caches: &Caches, now: Time) -> Plan {
        let ours = node::machine_mark(&live.tree).is_some() || node::simulator(&live.tree).is_some();
        let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &key.name);
        let abandoned = lease.is_none_or(|lease| lease::is_over(&lease.tree, now));
        if ours && abandoned {
            let guard = Guard { revision: Some(live.revision), ..uid_guard(live) };
            let take = Act::Merge(node::run_by(&self.setup.mark));
            return Plan::of(vec![Step::One(call(key.target(Part::Main), guard, take))]);
        }
        (self.registered, self.gone) = (false, true);
        tracing::error!(
            node = %key.name,
            "a node of this name is run by somebody else; delete it, or choose another name"
        );
        Plan::of(vec![Step::Note(name_taken(live))])
    }

    /// Stops all processes with grace, bounded, and says what to tell of their pods.
    pub(super) fn stop_all(&mut self, caches: &Caches) -> Vec<Call> {
        let longest = self.inmates.values().map(Inmate::grace).max().unwrap_or_default().min(STOP_MAX);
        let looks = 1 + longest.as_millis() / STOP_LOOK.as_millis();
        for look in 0..=looks {
            let last = look == looks;
            let left = self.inmates.values_mut().map(|it| it.stop_now(&*self.machine, look == 0, last));
            if left.fold(false, |any, up| any | up) && !last {
                std::thread::sleep(STOP_LOOK);
            } else {
                break;
            }
        }
        self.let_ends_be_seen();
        let told = self.inmates.values_mut().filter_map(|inmate| {
            let pod = caches.find(&inmate.key)?;
            let status = inmate.last_words(pod, &self.setup, &*self.machine)?;
            let guard = Guard { revision: Some(pod.revision), ..uid_guard(pod) };
            Some(call(inmate.key.target(Part::Status), guard, Act::Strategic(status)))
        });
        told.collect()
    }

    /// What was ended by force is seen as ended a moment later.
    fn let_ends_be_seen(&mut self) {
        const LOOKS_MAX: u32 = 100;
        for _ in 0..LOOKS_MAX {
            let up = self.inmates.values_mut().map(|it| it.stop_now(&*self.machine, false, false));
            if !up.fold(false, |any, up| any | up) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Nobody shall send pods here any more, and the next one may take the node over at once.
    pub(super) fn release(&self, caches: &Caches) -> Vec<Call> {
        if !self.registered {
            return Vec::new();
        }
        let node = caches.get(&kinds::NODES, &Text::new(), &self.setup.name).map(|live| {
            let on = meta::target(&kinds::NODES, &live.tree, Part::Status);
            let status = node::stopped_status(&live.tree, self.newest);
            call(on, uid_guard(live), Act::Strategic(status))
        });
        let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &self.setup.name).map(|lease| {
            let on = meta::target(&kinds::LEASES, &lease.tree, Part::Main);
            call(on, uid_guard(lease), Act::Merge(lease::release()))
        });
        node.into_iter().chain(lease).collect()
    }
}
