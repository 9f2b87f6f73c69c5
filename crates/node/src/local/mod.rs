//! This machine as a node: pods bound to it run as processes.
//!
//! [`Local`] is a controller like any other; what it decides about a pod is [`life`], what it tells of it is [`report`],
//! what a pod needs from other objects is [`dress`], and what it asks of the machine is [`machine`].
//!
//! # Invariants
//!
//! - Every look at a pod begins with what the machine says of its runs. Memory is only a convenience: after a crash it is
//!   made anew from the folders and the pod's status.
//! - A run is begun before it is told of, and never twice.
//! - A pod that the server says has ended is ended here too, and never told of again.
//! - Nothing of a pod is removed from disk while a run of it is alive, or while the server knows the pod.

pub mod being;
pub mod dns;
pub mod dress;
mod inmate;
pub mod life;
mod look;
pub mod machine;
mod node;
pub mod ports;
pub mod report;
pub mod ring;

#[cfg(test)]
mod life_tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use muster_api::node::Machine as Told;
use muster_api::paths::pod as pod_path;
use muster_api::port::{Act, Call, Cascade, Kind, Object, Part, Uid};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_control::{Caches, Controller, Doorbell, Key, Plan, Seen, Step, Wake};
use muster_process::{Isolation, Roster};
use muster_tree::{Text, Tree};

use self::dns::Book;
use self::dress::Resolver;
use self::inmate::Inmate;
use self::machine::Machine;
use self::ports::Ports;
use self::ring::Ring;
use crate::addresses::Pool;
use crate::{call, uid_guard};

/// Changes of neighbours are taken together for this long.
const NEIGHBOURS_AFTER: Duration = Duration::from_millis(20);
/// How long an orderly stop waits for processes, at most.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How often an orderly stop looks.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// What the local node is made of.
pub struct Setup {
    /// The node's name.
    pub name: Text,
    /// What tells this machine from others: kept where its pods are kept.
    pub mark: Text,
    /// What it tells of itself.
    pub told: Told,
    /// How containers are kept apart.
    pub isolation: Isolation,
    /// Whether a container engine runs images.
    pub images: bool,
    /// The first two bytes of the addresses of its pods.
    pub net: [u8; 2],
    /// Where programs are looked for.
    pub search_path: Text,
    /// User and group number of this process.
    pub user: (u32, u32),
    /// Where pods reach the API server; what the Service `kubernetes` says when absent.
    pub server: Option<(Text, u16)>,
    /// The name server of its pods, and the book it reads; without one they ask those of this machine.
    pub names: Option<(Arc<Book>, Resolver)>,
    /// Ports of this machine for those of its pods; absent where each pod keeps its own.
    pub ports: Option<Ports>,
    /// Processes and threads of a container, at most; a usual bound when absent.
    pub processes_max: Option<u32>,
    /// Asks for a token of a pod's service account; it comes by the ring.
    pub ask_token: Option<AskToken>,
}

/// Asks for a token of the service account of a pod, for an audience, for so many seconds from now on.
pub type AskToken = Box<dyn Fn(&Tree, &str, i64, Time) + Send>;

/// The local node.
pub struct Local {
    setup: Setup,
    machine: Box<dyn Machine>,
    ring: Arc<Ring>,
    roster: Arc<Roster>,
    addresses: Pool,
    inmates: BTreeMap<Uid, Inmate>,
    /// Pods on disk that the server does not know any more.
    strangers: BTreeSet<String>,
    /// Whether the name is ours: nothing is done to pods before that is known.
    registered: bool,
    /// Whether somebody deleted the node, or has its name: it stays away until the next start.
    gone: bool,
    /// The time of the last look at anything.
    newest: Time,
    /// Whether names have changed since they were put into the book.
    names_changed: bool,
}

impl Local {
    /// This machine as a node.
    #[must_use]
    pub fn new(setup: Setup, machine: Box<dyn Machine>, ring: Arc<Ring>, roster: Arc<Roster>) -> Local {
        Local {
            addresses: Pool::of(setup.net),
            setup,
            machine,
            ring,
            roster,
            inmates: BTreeMap::new(),
            strangers: BTreeSet::new(),
            registered: false,
            gone: false,
            newest: Time::default(),
            names_changed: true,
        }
    }

    fn is_mine(&self, pod: &Tree) -> bool {
        pod.str_at(pod_path::NODE_NAME) == self.setup.name.as_str()
    }

    fn plan_pod(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let pod = caches.find(key).filter(|pod| self.registered && self.is_mine(&pod.tree));
        let uid = pod.map(|pod| meta::uid(&pod.tree));
        let gone = self.inmates.iter().filter(|(known, it)| it.key == *key && Some(*known) != uid.as_ref());
        let gone: Vec<Uid> = gone.map(|(known, _)| known.clone()).collect();
        gone.iter().for_each(|uid| self.see_off(uid));
        match pod {
            Some(pod) => self.drive(key, pod, caches, now),
            None => Plan::nothing(),
        }
    }

    /// Ends what is left of a pod that is gone, and removes it.
    fn see_off(&mut self, uid: &Uid) {
        let Some(inmate) = self.inmates.get_mut(uid) else { return };
        if inmate.end_by_force(&*self.machine) {
            // The end of its last run rings.
            return;
        }
        if let Err(error) = self.machine.containers().remove(uid) {
            tracing::warn!(%uid, %error, "the folder of a pod cannot be removed; it is tried again later");
            self.strangers.insert(uid.to_string());
        }
        let key = inmate.key.clone();
        self.roster.remove(&key.namespace, &key.name, uid);
        self.inmates.remove(uid);
        self.addresses.give_back(uid);
        self.ring.forget(uid);
    }

    fn drive(&mut self, key: &Key, pod: &Object, caches: &Caches, now: Time) -> Plan {
        let uid = meta::uid(&pod.tree);
        if !self.inmates.contains_key(&uid) {
            let known = pod.tree.str_at(pod_path::POD_IP);
            self.addresses.known(&uid, known);
            let address = if known.is_empty() { self.addresses.take(&uid) } else { known.into() };
            self.ring.know(&uid, key);
            self.inmates.insert(uid.clone(), Inmate::revive(key, &pod.tree, address, &*self.machine));
        }
        let inmate = self.inmates.get_mut(&uid).expect("it was put there");
        let mut at =
            look::Place { setup: &self.setup, machine: &mut *self.machine, ring: &self.ring, caches, now };
        let stepped = inmate.step(&pod.tree, &mut at);
        self.roster.set(&key.namespace, &key.name, inmate.resident());
        let mut plan = Plan { again_at: stepped.again_at, ..Plan::of(stepped.notes) };
        if let Some(status) = stepped.status {
            // Had somebody else ended the pod meanwhile, it would end twice.
            let guard = muster_api::port::Guard { revision: Some(pod.revision), ..uid_guard(pod) };
            plan.steps.insert(0, Step::One(call(key.target(Part::Status), guard, Act::Strategic(status))));
        } else if stepped.bury {
            let act = Act::Delete { cascade: Cascade::Background, grace_secs: Some(0) };
            plan.steps.push(Step::One(call(key.target(Part::Main), uid_guard(pod), act)));
        }
        plan
    }

    /// Pods of this machine in a namespace, all of them when it is empty.
    fn inmates_of(&mut self, namespace: &Text) -> impl Iterator<Item = &mut Inmate> {
        self.inmates.values_mut().filter(move |it| namespace.is_empty() || it.key.namespace == *namespace)
    }

    /// Runs on disk of pods that nobody knows any more are ended and removed.
    fn sweep(&mut self) {
        for uid in std::mem::take(&mut self.strangers) {
            let containers = self.machine.containers();
            let runs = containers.all().into_iter().filter(|id| id.pod == uid);
            let alive = runs.filter(|id| containers.state(id).is_some_and(|state| inmate::is_up(&state)));
            let alive: Vec<_> = alive.collect();
            alive.iter().for_each(|id| containers.kill(id));
            if !alive.is_empty() || containers.remove(&uid).is_err() {
                self.strangers.insert(uid);
            }
        }
    }
}

impl Controller for Local {
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
            &kinds::CLAIMS,
            &kinds::VOLUMES,
            &kinds::RESOURCE_CLAIMS,
        ]
        .into_iter()
        .cloned()
        .collect()
    }

    fn hears(&mut self, bell: Doorbell) {
        self.ring.hang(bell);
    }

    fn starts(&mut self, caches: &Caches, _now: Time) -> Vec<Key> {
        let mine: Vec<&Object> = caches.on_node(&self.setup.name).collect();
        let known: BTreeSet<String> = mine.iter().map(|pod| meta::uid(&pod.tree).to_string()).collect();
        for pod in &mine {
            self.addresses.known(&meta::uid(&pod.tree), pod.tree.str_at(pod_path::POD_IP));
        }
        let on_disk = self.machine.containers().all().into_iter().map(|id| id.pod);
        self.strangers = on_disk.filter(|uid| !known.contains(uid)).collect();
        let node = Key::new(&kinds::NODES, &Text::new(), &self.setup.name);
        mine.iter().map(|pod| Key::of(&kinds::PODS, &pod.tree)).chain([node]).collect()
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let namespace = &seen.key.namespace;
        if seen.key.kind == kinds::NODES {
            let mine = seen.key.name == self.setup.name;
            if mine && seen.after.is_none() && self.registered {
                (self.registered, self.gone) = (false, true);
            }
            return mine.then(|| seen.key.clone().into()).into_iter().collect();
        }
        if seen.key.kind == kinds::LEASES {
            return Vec::new();
        }
        if seen.key.kind == kinds::PODS || seen.key.kind == kinds::SERVICES {
            let mine = seen.key.kind == kinds::PODS && self.is_mine(&seen.newest().tree);
            let mut wakes: Vec<Wake> = if mine { vec![seen.key.clone().into()] } else { Vec::new() };
            if look::names_changed(seen) {
                self.names_changed = true;
                for inmate in self.inmates_of(namespace) {
                    inmate.neighbours_changed();
                    wakes.push(Wake { key: inmate.key.clone(), after: NEIGHBOURS_AFTER });
                }
            }
            return wakes;
        }
        self.inmates_of(namespace).map(|inmate| Wake::from(inmate.wardrobe_changed())).collect()
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        self.newest = now;
        if std::mem::take(&mut self.names_changed)
            && let Some((book, _)) = &self.setup.names
        {
            look::fill(book, caches);
        }
        if key.kind == kinds::NODES {
            self.sweep();
            self.plan_node(key, caches, now)
        } else {
            self.plan_pod(key, caches, now)
        }
    }

    /// Processes are stopped with grace, pods are told as ended by the node's stop, and the lease goes back.
    fn farewell(&mut self, caches: &Caches) -> Vec<Call> {
        let mut calls = self.stop_all(caches);
        calls.extend(self.release(caches));
        calls
    }
}
