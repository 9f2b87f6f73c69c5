//! The kubelet of this host: pods bound to its Node run as processes.
//!
//! [`LocalKubelet`] is a controller. [`pod_lifecycle`] decides the next actions of a pod (kubelet: SyncPod),
//! [`pod_status`] generates its status, [`container_spec`] resolves volumes, environment and mounts from other
//! objects, and [`host`] is the port to the container runtime and the disk.
//!
//! # Guarantees
//!
//! - Every sync of a pod starts from the state of the container runtime. In-memory state is a cache: after a crash it
//!   is rebuilt from the run directories and the pod's status.
//! - A container run is started before the status reports it, and never twice.
//! - A pod in a terminal phase is terminated here too, and its status is not written again.
//! - The directory of a pod is kept while one of its runs is alive or the API server has the pod.

pub mod container_record;
pub mod container_spec;
pub mod dns;
pub mod host;
pub mod host_ports;
mod lister;
mod node_status;
pub mod pleg;
pub mod pod_lifecycle;
pub mod pod_status;
mod pod_worker;

#[cfg(test)]
mod pod_lifecycle_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::{ApiObject, ApiRequest, DeletionPropagation, Kind, RequestVerb, Subresource, Uid};
use muster_api::node::MachineInfo;
use muster_api::paths::pod as pod_path;
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_control::{
    Caches, Controller, ExternalTrigger, ObjectKey, ReconcileRequest, Reconciled, Step, WatchEvent,
};
use muster_process::{Isolation, PodRegistry};
use muster_tree::{Text, Tree};

use self::container_spec::ClusterDns;
use self::dns::Book;
use self::host::NodeHost;
use self::host_ports::HostPorts;
use self::pleg::PodEvents;
use self::pod_worker::PodWorker;
use crate::pod_ip_pool::PodIpPool;
use crate::{call, uid_guard};

/// Delay of the sync after a change of another pod's hostname: batches the changes of a starting job.
const NEIGHBOURS_AFTER: Duration = Duration::from_millis(20);
/// Upper bound of the graceful node shutdown.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Poll interval of the graceful node shutdown.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Configuration of the local kubelet.
pub struct LocalKubeletConfig {
    pub name: Text,
    /// Unique ID of this node, stored in its root directory. It distinguishes the Node object from that of another
    /// host with the same name.
    pub mark: Text,
    /// Capacity, addresses and versions of the Node status.
    pub told: MachineInfo,
    /// How containers are isolated from the host.
    pub isolation: Isolation,
    /// Whether a container engine (docker, podman) runs images. Without one, images are ignored and commands are
    /// programs of the host.
    pub images: bool,
    /// First two bytes of the pod network, a /16 of loopback.
    pub net: [u8; 2],
    /// `PATH` of containers that set none.
    pub search_path: Text,
    /// UID and GID of this process.
    pub user: (u32, u32),
    /// Address of the API server for pods; the Service `kubernetes` if absent.
    pub server: Option<(Text, u16)>,
    /// The cluster DNS zone and its name server; without one, pods use the resolvers of the host.
    pub names: Option<(Arc<Book>, ClusterDns)>,
    /// Allocates host ports where pods share the network of the host; absent where each pod has its own address.
    pub ports: Option<HostPorts>,
    /// `pids.max` of a container; the default limit if absent.
    pub processes_max: Option<u32>,
    /// Sends a TokenRequest; the token arrives through [`PodEvents`].
    pub ask_token: Option<RequestToken>,
}

/// Requests a service account token: pod, audience, lifetime in seconds, now.
pub type RequestToken = Box<dyn Fn(&Tree, &str, i64, Time) + Send>;

pub struct LocalKubelet {
    setup: LocalKubeletConfig,
    machine: Box<dyn NodeHost>,
    ring: Arc<PodEvents>,
    roster: Arc<PodRegistry>,
    addresses: PodIpPool,
    workers: BTreeMap<Uid, PodWorker>,
    /// UIDs of pod directories without a pod in the API server.
    orphaned_pods: BTreeSet<String>,
    /// Whether the Node object is ours. No pod is touched before that is known: another host may run them.
    registered: bool,
    /// Whether the Node was deleted by a client or belongs to another host: it is not registered before the next
    /// start.
    gone: bool,
    /// The time of the newest reconcile, for calls without a clock.
    newest: Time,
    /// Whether Services or pods have changed since the DNS zone was updated.
    names_changed: bool,
}

impl LocalKubelet {
    /// Creates the kubelet; it registers its Node when the controller starts.
    #[must_use]
    pub fn new(
        setup: LocalKubeletConfig,
        machine: Box<dyn NodeHost>,
        ring: Arc<PodEvents>,
        roster: Arc<PodRegistry>,
    ) -> LocalKubelet {
        LocalKubelet {
            addresses: PodIpPool::of(setup.net),
            setup,
            machine,
            ring,
            roster,
            workers: BTreeMap::new(),
            orphaned_pods: BTreeSet::new(),
            registered: false,
            gone: false,
            newest: Time::default(),
            names_changed: true,
        }
    }

    fn is_local(&self, pod: &Tree) -> bool {
        pod.str_at(pod_path::NODE_NAME) == self.setup.name.as_str()
    }

    fn plan_pod(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let pod = caches.find(key).filter(|pod| self.registered && self.is_local(&pod.tree));
        let uid = pod.map(|pod| meta::uid(&pod.tree));
        // A pod with the same name and another UID is a new pod: the old one is torn down first.
        let gone = self.workers.iter().filter(|(known, it)| it.key == *key && Some(*known) != uid.as_ref());
        let gone: Vec<Uid> = gone.map(|(known, _)| known.clone()).collect();
        gone.iter().for_each(|uid| self.tear_down(uid));
        match pod {
            Some(pod) => self.sync_pod(key, pod, caches, now),
            None => Reconciled::done(),
        }
    }

    /// Kills the containers of a deleted pod, then removes its directory.
    fn tear_down(&mut self, uid: &Uid) {
        let Some(worker) = self.workers.get_mut(uid) else { return };
        if worker.kill(&*self.machine) {
            // The exit of the last run triggers the next reconcile.
            return;
        }
        if let Err(error) = self.machine.containers().remove_pod(uid) {
            tracing::warn!(%uid, %error, "failed to remove the pod directory; retrying");
            self.orphaned_pods.insert(uid.to_string());
        }
        let key = worker.key.clone();
        self.roster.remove(&key.namespace, &key.name, uid);
        self.workers.remove(uid);
        self.addresses.release(uid);
        self.ring.forget(uid);
    }

    fn sync_pod(&mut self, key: &ObjectKey, pod: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let uid = meta::uid(&pod.tree);
        if !self.workers.contains_key(&uid) {
            let known = pod.tree.str_at(pod_path::POD_IP);
            self.addresses.occupy(&uid, known);
            let address = if known.is_empty() { self.addresses.allocate(&uid) } else { known.into() };
            self.ring.know(&uid, key);
            self.workers.insert(uid.clone(), PodWorker::restore(key, &pod.tree, address, &*self.machine));
        }
        let worker = self.workers.get_mut(&uid).expect("it was put there");
        let mut at = lister::SyncContext {
            setup: &self.setup,
            machine: &mut *self.machine,
            ring: &self.ring,
            caches,
            now,
        };
        let result = worker.sync(&pod.tree, &mut at);
        self.roster.set(&key.namespace, &key.name, worker.registered_pod());
        let mut plan = Reconciled { requeue_at: result.requeue_at, ..Reconciled::with_steps(result.events) };
        if let Some(status) = result.status {
            // The revision precondition prevents a second terminal status when another client ended the pod
            // meanwhile.
            let guard = muster_api::client::Preconditions { revision: Some(pod.revision), ..uid_guard(pod) };
            plan.steps.insert(
                0,
                Step::Request(call(
                    key.target(Subresource::Status),
                    guard,
                    RequestVerb::StrategicMergePatch(status),
                )),
            );
        } else if result.delete_pod {
            let act = RequestVerb::Delete {
                propagation_policy: DeletionPropagation::Background,
                grace_secs: Some(0),
            };
            plan.steps.push(Step::Request(call(key.target(Subresource::Main), uid_guard(pod), act)));
        }
        plan
    }

    /// The pods in a namespace; all of them if it is empty.
    fn workers_in(&mut self, namespace: &Text) -> impl Iterator<Item = &mut PodWorker> {
        self.workers.values_mut().filter(move |it| namespace.is_empty() || it.key.namespace == *namespace)
    }

    /// Kills and removes the runs of pods that no longer exist in the API server.
    fn remove_orphaned_pods(&mut self) {
        for uid in std::mem::take(&mut self.orphaned_pods) {
            let containers = self.machine.containers();
            let runs = containers.list_runs().into_iter().filter(|id| id.pod == uid);
            let alive =
                runs.filter(|id| containers.state(id).is_some_and(|state| pod_worker::is_active(&state)));
            let alive: Vec<_> = alive.collect();
            // Killed now; the directory is removed by a later reconcile of the Node.
            alive.iter().for_each(|id| containers.kill(id));
            if !alive.is_empty() || containers.remove_pod(&uid).is_err() {
                self.orphaned_pods.insert(uid);
            }
        }
    }
}

impl Controller for LocalKubelet {
    fn name(&self) -> &'static str {
        "node"
    }

    fn kinds(&self) -> Vec<Kind> {
        [
            &kinds::NODES,
            &kinds::PODS,
            &kinds::LEASES,
            &kinds::CONFIG_MAPS,
            &kinds::SECRETS,
            &kinds::SERVICES,
            &kinds::PERSISTENT_VOLUME_CLAIMS,
            &kinds::PERSISTENT_VOLUMES,
            &kinds::RESOURCE_CLAIMS,
        ]
        .into_iter()
        .cloned()
        .collect()
    }

    fn set_trigger(&mut self, bell: ExternalTrigger) {
        self.ring.hang(bell);
    }

    fn initial_requests(&mut self, caches: &Caches, _now: Time) -> Vec<ObjectKey> {
        let mine: Vec<&ApiObject> = caches.on_node(&self.setup.name).collect();
        let known: BTreeSet<String> = mine.iter().map(|pod| meta::uid(&pod.tree).to_string()).collect();
        // Reserve the IPs of existing pods before new pods are allocated any.
        for pod in &mine {
            self.addresses.occupy(&meta::uid(&pod.tree), pod.tree.str_at(pod_path::POD_IP));
        }
        let on_disk = self.machine.containers().list_runs().into_iter().map(|id| id.pod);
        self.orphaned_pods = on_disk.filter(|uid| !known.contains(uid)).collect();
        let node = ObjectKey::new(&kinds::NODES, &Text::new(), &self.setup.name);
        mine.iter().map(|pod| ObjectKey::of(&kinds::PODS, &pod.tree)).chain([node]).collect()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let namespace = &seen.key.namespace;
        if seen.key.kind == kinds::NODES {
            let mine = seen.key.name == self.setup.name;
            if mine && seen.new.is_none() && self.registered {
                (self.registered, self.gone) = (false, true);
            }
            return mine.then(|| seen.key.clone().into()).into_iter().collect();
        }
        if seen.key.kind == kinds::LEASES {
            return Vec::new();
        }
        if seen.key.kind == kinds::PODS || seen.key.kind == kinds::SERVICES {
            let mine = seen.key.kind == kinds::PODS && self.is_local(&seen.latest().tree);
            let mut wakes: Vec<ReconcileRequest> =
                if mine { vec![seen.key.clone().into()] } else { Vec::new() };
            if lister::changes_hostnames(seen) {
                self.names_changed = true;
                for worker in self.workers_in(namespace) {
                    worker.invalidate_hosts();
                    // The hosts file of every pod in the namespace may list this pod.
                    wakes.push(ReconcileRequest { key: worker.key.clone(), after: NEIGHBOURS_AFTER });
                }
            }
            return wakes;
        }
        self.workers_in(namespace).map(|worker| ReconcileRequest::from(worker.invalidate_volumes())).collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        self.newest = now;
        if std::mem::take(&mut self.names_changed)
            && let Some((book, _)) = &self.setup.names
        {
            lister::update_zone(book, caches);
        }
        if key.kind == kinds::NODES {
            self.remove_orphaned_pods();
            self.plan_node(key, caches, now)
        } else {
            self.plan_pod(key, caches, now)
        }
    }

    /// Graceful node shutdown: containers get their grace period, pods are reported as terminated, and the Lease is
    /// released.
    fn on_shutdown(&mut self, caches: &Caches) -> Vec<ApiRequest> {
        let mut calls = self.stop_all(caches);
        calls.extend(self.release(caches));
        calls
    }
}
