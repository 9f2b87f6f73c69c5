//! The Node of this host: registration, status, Lease and graceful shutdown.

use std::time::Duration;

use muster_api::client::{ApiObject, ApiRequest, Preconditions, RequestVerb, Subresource};
use muster_api::consts::NODE_LEASES;
use muster_api::time::Time;
use muster_api::{kinds, lease, meta, node};
use muster_control::{Caches, ObjectKey, Reconciled, Step};
use muster_tree::Text;

use super::pod_worker::PodWorker;
use super::{LocalKubelet, STOP_LOOK, STOP_MAX};
use crate::{call, name_taken, renew, uid_guard};

impl LocalKubelet {
    pub(super) fn plan_node(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        if self.gone {
            return Reconciled::done();
        }
        let mark = &self.setup.mark;
        let Some(live) = caches.find(key) else {
            let bare = node::with_hostname_label(&node::simulated_node(&key.name, &self.setup.told.capacity));
            let made = bare.merge(&node::local_node_patch(mark));
            return Reconciled::with_steps(vec![Step::Request(call(
                key.target(Subresource::Main),
                Preconditions::default(),
                RequestVerb::Create(made),
            ))]);
        };
        if node::local_node_id(&live.tree) != Some(mark.as_str()) {
            return self.take_over(key, live, caches, now);
        }
        let newly = !std::mem::replace(&mut self.registered, true);
        let mut steps = Vec::new();
        let status = self.setup.told.ready_status(&live.tree, now);
        // Only changes are written: a steady node writes nothing but its Lease.
        if live.tree.merge(&status) != live.tree {
            steps.push(Step::Request(call(
                key.target(Subresource::Status),
                uid_guard(live),
                RequestVerb::StrategicMergePatch(status),
            )));
        }
        let (renewal, next) = renew(key, live, caches, now);
        steps.extend(renewal.map(Step::Request));
        // Pods were not synced before the Node was ours.
        let pods = caches.on_node(&key.name).filter(|_| newly);
        let wake = pods.map(|pod| ObjectKey::of(&kinds::PODS, &pod.tree)).collect();
        Reconciled { enqueue: wake, ..Reconciled::with_steps(steps).requeue_at(next) }
    }

    /// Adopts a Node of our name if it is simulated or its Lease has expired.
    fn take_over(&mut self, key: &ObjectKey, live: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let ours = node::local_node_id(&live.tree).is_some() || node::simulator_id(&live.tree).is_some();
        let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &key.name);
        let abandoned = lease.is_none_or(|lease| lease::is_expired(&lease.tree, now));
        if ours && abandoned {
            let guard = Preconditions { revision: Some(live.revision), ..uid_guard(live) };
            let take = RequestVerb::MergePatch(node::local_node_patch(&self.setup.mark));
            return Reconciled::with_steps(vec![Step::Request(call(
                key.target(Subresource::Main),
                guard,
                take,
            ))]);
        }
        (self.registered, self.gone) = (false, true);
        tracing::error!(
            node = %key.name,
            "node name is owned by another kubelet; delete the Node or choose another name"
        );
        Reconciled::with_steps(vec![Step::Event(name_taken(live))])
    }

    /// Terminates all containers within [`STOP_MAX`] and returns the status updates of their pods.
    pub(super) fn stop_all(&mut self, caches: &Caches) -> Vec<ApiRequest> {
        let longest = self.workers.values().map(PodWorker::grace).max().unwrap_or_default().min(STOP_MAX);
        let looks = 1 + longest.as_millis() / STOP_LOOK.as_millis();
        for look in 0..=looks {
            let last = look == looks;
            let left = self.workers.values_mut().map(|it| it.stop(&*self.machine, look == 0, last));
            if left.fold(false, |any, up| any | up) && !last {
                std::thread::sleep(STOP_LOOK);
            } else {
                break;
            }
        }
        self.wait_for_exits();
        let told = self.workers.values_mut().filter_map(|worker| {
            let pod = caches.find(&worker.key)?;
            let status = worker.shutdown_status(pod, &self.setup, &*self.machine)?;
            let guard = Preconditions { revision: Some(pod.revision), ..uid_guard(pod) };
            Some(call(
                worker.key.target(Subresource::Status),
                guard,
                RequestVerb::StrategicMergePatch(status),
            ))
        });
        told.collect()
    }

    /// Waits until killed containers are observed as exited.
    fn wait_for_exits(&mut self) {
        const LOOKS_MAX: u32 = 100;
        for _ in 0..LOOKS_MAX {
            let up = self.workers.values_mut().map(|it| it.stop(&*self.machine, false, false));
            if !up.fold(false, |any, up| any | up) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Reports the Node as not ready, so that no pod is scheduled here, and releases its Lease for the next start.
    pub(super) fn release(&self, caches: &Caches) -> Vec<ApiRequest> {
        if !self.registered {
            return Vec::new();
        }
        let node = caches.get(&kinds::NODES, &Text::new(), &self.setup.name).map(|live| {
            let on = meta::target(&kinds::NODES, &live.tree, Subresource::Status);
            let status = node::stopped_status(&live.tree, self.newest);
            call(on, uid_guard(live), RequestVerb::StrategicMergePatch(status))
        });
        let lease = caches.get(&kinds::LEASES, &Text::from(NODE_LEASES), &self.setup.name).map(|lease| {
            let on = meta::target(&kinds::LEASES, &lease.tree, Subresource::Main);
            call(on, uid_guard(lease), RequestVerb::MergePatch(lease::release()))
        });
        node.into_iter().chain(lease).collect()
    }
}
