//! Decides which pods go to which nodes.
//!
//! [`Scheduler`] is fed nodes, pods, namespaces, budgets and groups as they change and asked for decisions. It is
//! the only book-keeper of what is taken: a decision is taken into account at once, before anybody has carried it
//! out.
//!
//! # Invariants
//!
//! - Same feed, same decisions. Order is priority, then age, then who came first.
//! - One queue entry is one group, or a pod alone. So many pods of a group as it needs are placed, or none; what a
//!   failed try took is given back in reverse.
//! - Every refusal says why, node by node, and waits for a change that may cure it. Nothing polls.
//!
//! # Deliberately absent
//!
//! Images. Sampling of nodes.

mod asker;
mod choose;
mod class;
mod counter;
mod counts;
mod demand;
pub mod devices;
mod feed;
mod gang;
mod inspect;
mod label;
mod packing;
mod pod;
mod preempt;
mod queue;
mod reason;
mod request;
mod score;
mod site;
mod table;
mod term;
mod twins;
pub mod volumes;
mod wake;
mod world;
mod wrong;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub use choose::Stats;
pub use demand::Demand;
pub use gang::{
    Disruption, Group, GroupCounts, GroupOutcome, GroupVerdict, Held, Policy, RefusedMember, Standing,
    Waiting,
};
pub use label::{Labels, read as read_labels};
pub use packing::Packing;
pub use pod::{Budget, GroupKey, Pod, PodKey};
pub use queue::Lengths;
pub use reason::{Cures, Preemption, Reason, Refused, Tally};

use crate::class::Remembered;
use crate::gang::TeamId;
use crate::queue::{EntryId, Queue};
use crate::table::Row;
use crate::world::{PodId, World};

/// A decision about one group, or a pod alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Which group; the pod's own key when it is alone.
    pub group: GroupKey,
    /// What was decided.
    pub outcome: Outcome,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This pod has a node.
    Placed(Vec<(PodKey, Text)>),
    /// It has none.
    Refused {
        /// The pod.
        pods: Vec<PodKey>,
        /// Why.
        why: Refused,
        /// Pods to evict so that it can have one later.
        evict: Vec<PodKey>,
        /// The node on which room is being made; `None` when there is none.
        nominated: Option<Text>,
        /// Others whose nomination for that node ends.
        outranked: Vec<PodKey>,
    },
    /// About a group of several.
    Group(Box<GroupOutcome>),
}

/// What has to be so before a pod may be bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// About a volume.
    Volume(volumes::Errand),
    /// About a device.
    Device(devices::Errand),
}

/// The scheduler.
#[derive(Debug, Default)]
pub struct Scheduler {
    world: World,
    index: HashMap<PodKey, PodId>,
    free_pods: Vec<PodId>,
    queue: Queue,
    /// Held groups with members that do not know yet.
    talk: BTreeSet<TeamId>,
    /// Held groups whose members will be told, with the time, which they know as well.
    hushed: BTreeSet<(Time, TeamId)>,
    /// How long a group is held before its members are told.
    patience: Duration,
    /// When the time of groups is over that were tried and are not bound, which they know as well.
    deadlines: BTreeSet<(Time, TeamId)>,
    budgets: BTreeMap<PodKey, Budget>,
    /// Rows whose facts changed since somebody was woken.
    changed: Vec<Row>,
    stats: Stats,
}

impl Scheduler {
    /// A scheduler that fills nodes up by these resources.
    #[must_use]
    pub fn packing(packing: Packing) -> Scheduler {
        let mut scheduler = Scheduler::default();
        scheduler.world.packing = packing;
        scheduler
    }

    /// The same, but members of a group that is held are told only after a while: most groups are held for a moment,
    /// until their last pod is there, and nobody has use for those words.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Scheduler {
        self.patience = patience;
        self
    }

    /// Decides about up to `max` groups, the most urgent first. Those that are held hear of it before anything else.
    pub fn decide(&mut self, max: usize, now: Time) -> Vec<Decision> {
        let mut decisions = Vec::new();
        while decisions.len() < max {
            if let Some(team) = self.next_late(now) {
                decisions.extend(self.out_of_time(team, now));
                continue;
            }
            if let Some(team) = self.next_to_tell(now) {
                decisions.extend(self.say_held(team));
                continue;
            }
            let Some(id) = self.queue.pop(now) else { break };
            decisions.extend(self.cycle(id));
            self.wake();
        }
        decisions
    }

    /// Whether somebody waits for a decision.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.queue.has_waiting() || !self.talk.is_empty()
    }

    /// When to ask for decisions again if nothing changes.
    #[must_use]
    pub fn wake_at(&self) -> Option<Time> {
        let of_groups = [self.deadlines.first(), self.hushed.first()].into_iter().flatten();
        self.queue.wake_at().into_iter().chain(of_groups.map(|(at, _)| *at)).min()
    }

    /// How many pods wait where in the queue.
    #[must_use]
    pub fn queue_lengths(&self) -> Lengths {
        self.queue.lengths()
    }

    /// How many nodes there are.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.world.table.len()
    }

    /// How placing went so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The node we mean a pod to have, or that it has.
    #[must_use]
    pub fn node_of(&self, key: &PodKey) -> Option<&Text> {
        let pod = self.world.pod(*self.index.get(key)?);
        pod.on.map(|row| self.world.table.name(row))
    }

    /// The node on which room is being made for a pod.
    #[must_use]
    pub fn nominated(&self, key: &PodKey) -> Option<&Text> {
        let pod = self.world.pod(*self.index.get(key)?);
        pod.nominated.map(|row| self.world.table.name(row))
    }

    /// Claims of which we do not know whether devices were given to them, and that no pod waits for any more.
    #[must_use]
    pub fn doubtful_claims(&self) -> Vec<devices::ClaimKey> {
        self.world.devices.doubtful().cloned().collect()
    }

    /// What has to be so before a pod may be bound to the node it shall have.
    #[must_use]
    pub fn errands(&self, key: &PodKey) -> Vec<Errand> {
        let Some(id) = self.index.get(key).copied() else { return Vec::new() };
        let pod = self.world.pod(id);
        if !pod.claims() {
            return Vec::new();
        }
        let volumes = self.world.volumes.errands(&pod.asks_volumes(id)).into_iter().map(Errand::Volume);
        let devices = self.world.devices.errands(&pod.asks_devices(id)).into_iter().map(Errand::Device);
        volumes.chain(devices).collect()
    }

    /// One try to place a group; `None` when it is not ready.
    fn cycle(&mut self, id: EntryId) -> Option<Decision> {
        if self.queue.entry(id).team.is_some() {
            return self.group_cycle(id);
        }
        let key = self.queue.entry(id).key.clone();
        let pod = *self.queue.entry(id).members.first()?;
        if self.gate(pod) {
            self.wait_for_claims(id);
            return None;
        }
        if let Some(why) = self.remembered(pod) {
            self.stats.repeated += 1;
            return Some(self.refuse(id, key, &[pod], why, Vec::new(), Vec::new()));
        }
        let Some(row) = self.world.choose(pod, &mut self.stats) else {
            return Some(self.refuse_one(id, key, pod));
        };
        self.assume(pod, row);
        self.dismiss(id);
        let node = self.world.table.name(row).clone();
        Some(Decision { group: key.clone(), outcome: Outcome::Placed(vec![(key, node)]) })
    }

    /// Whether a pod is not even looked at: claims of it are not there.
    fn gate(&mut self, id: PodId) -> bool {
        let World { pods, devices, .. } = &mut self.world;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        !pod.devices.is_empty() && devices.gate(&pod.asks_devices(id))
    }

    /// Nothing is said of an entry with a pod that is not even looked at; claims that come wake it.
    fn wait_for_claims(&mut self, id: EntryId) {
        self.queue.park_apart(id, Cures { claims: true, ..Cures::default() }, None);
        self.world.watched = true;
    }

    fn forget_claims(&mut self, id: PodId) {
        let World { pods, devices, .. } = &mut self.world;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        if !pod.devices.is_empty() {
            devices.forget(&pod.asks_devices(id));
        }
    }

    /// A claim of a refused pod whose devices keep it from some nodes and are of no use to anybody.
    #[must_use]
    pub fn useless_claim(&self, key: &PodKey) -> Option<devices::ClaimKey> {
        let id = self.index.get(key).copied()?;
        let pod = self.world.pod(id);
        if pod.devices.is_empty() || pod.on.is_some() {
            return None;
        }
        let table = &self.world.table;
        let rows = || (0..table.rows()).filter_map(|at| table.facts(Row::try_from(at).ok()?));
        self.world.devices.useless(&pod.asks_devices(id), |terms| rows().all(|node| terms.matches(node)))
    }

    /// The pods on nodes of ours that use a claim.
    #[must_use]
    pub fn users_of_claim(&self, claim: &devices::ClaimKey) -> Vec<PodKey> {
        self.world.devices.users(claim)
    }

    /// The refusal that a pod like this one got, if nothing changed since.
    fn remembered(&self, id: PodId) -> Option<Refused> {
        let pod = self.world.pod(id);
        let shape = self.shape(id)?;
        let it = self.world.class(pod.class).remembered.as_ref()?;
        let same =
            it.at == self.world.changes && it.sort == pod.sort && it.rank == (pod.priority, pod.preempts);
        let same = same && it.shape == shape;
        same.then(|| it.refused.clone())
    }

    fn refuse_one(&mut self, id: EntryId, key: GroupKey, pod: PodId) -> Decision {
        self.stats.diagnoses += 1;
        let found = self.world.diagnose(pod);
        let budgets: Vec<&Budget> = self.budgets.values().collect();
        let (preemption, plan) = if found.tally.nodes == 0 || found.tally.broken.is_some() {
            (Preemption::Untried, None)
        } else if self.world.is_held_early(pod) {
            (Preemption::NotFound, None)
        } else {
            self.world.preempt(pod, &found, &budgets)
        };
        let why = Refused { tally: found.tally, preemption };
        let Some(plan) = plan else {
            if matches!(why.preemption, Preemption::Useless(_) | Preemption::NotFound) {
                self.nominate(pod, None);
            }
            self.remember(pod, &why);
            return self.refuse(id, key, &[pod], why, Vec::new(), Vec::new());
        };
        let outranked = self.outrank(pod, plan.row);
        self.nominate(pod, Some(plan.row));
        for victim in &plan.victims {
            self.world.pod_mut(*victim).evicted = true;
        }
        self.refuse(id, key, &[pod], why, plan.victims, outranked)
    }

    fn remember(&mut self, id: PodId, why: &Refused) {
        let pod = self.world.pod(id);
        let Some(shape) = self.shape(id) else { return };
        // Such words name the claim.
        if why.tally.broken.is_some() {
            return;
        }
        let (class, sort, rank) = (pod.class, pod.sort, (pod.priority, pod.preempts));
        let at = self.world.changes;
        let refused = why.clone();
        self.world.class_mut(class).0.remembered = Some(Remembered { at, sort, rank, shape, refused });
    }

    /// What a pod asks for beyond its class; `None` when its refusal is its own business.
    fn shape(&self, id: PodId) -> Option<Vec<Tree>> {
        let pod = self.world.pod(id);
        if pod.nominated.is_some() || !pod.volumes.is_empty() {
            return None;
        }
        if pod.devices.is_empty() {
            Some(Vec::new())
        } else {
            self.world.devices.shape(&pod.asks_devices(id))
        }
    }

    /// Less important pods lose their nomination for a node.
    fn outrank(&mut self, id: PodId, row: Row) -> Vec<PodId> {
        let priority = self.world.pod(id).priority;
        let all = self.world.nominated.get(&row).cloned().unwrap_or_default();
        let below: Vec<PodId> =
            all.into_iter().filter(|it| self.world.pod(*it).priority < priority).collect();
        below.iter().for_each(|other| self.nominate(*other, None));
        below
    }

    fn refuse(
        &mut self,
        id: EntryId,
        group: GroupKey,
        pods: &[PodId],
        why: Refused,
        evict: Vec<PodId>,
        outranked: Vec<PodId>,
    ) -> Decision {
        self.park(id, pods[0], why.tally.cures());
        self.world.watched = true;
        let names = |pods: Vec<PodId>| pods.into_iter().map(|it| self.world.pod(it).key.clone()).collect();
        let nominated = self.world.pod(pods[0]).nominated.map(|row| self.world.table.name(row).clone());
        let (evict, outranked) = (names(evict), names(outranked));
        let outcome = Outcome::Refused { pods: names(pods.to_vec()), why, evict, nominated, outranked };
        Decision { group, outcome }
    }

    /// A refused entry waits. One that is not like others of its class must not stand before them.
    fn park(&mut self, id: EntryId, first: PodId, cures: Cures) {
        let pod = self.world.pod(first);
        let (class, claims) = (pod.class, pod.claims() && cures.claims);
        if claims {
            self.queue.park_apart(id, cures, None);
            // The room for which it was woken may do for another.
            self.queue.wake(class, 1);
        } else {
            self.queue.park(id, class, cures);
        }
    }

    fn assume(&mut self, pod: PodId, row: Row) {
        self.world.put(pod, row);
        self.settle(pod);
    }

    /// A placed pod waits for nothing any more.
    fn settle(&mut self, pod: PodId) {
        self.nominate(pod, None);
        self.forget_claims(pod);
        self.world.change(pod, |pod| {
            pod.bound = false;
            pod.entry = None;
            pod.said = Text::new();
        });
    }

    /// Ends an entry whose pods are all placed.
    fn dismiss(&mut self, id: EntryId) {
        if let Some(team) = self.queue.entry(id).team {
            let team = self.world.teams.of_mut(team);
            team.entry = None;
            team.held = None;
            team.held_since = None;
            team.unsaid.clear();
        }
        self.queue.remove(id);
    }

    /// Sets or ends the nomination of a pod.
    fn nominate(&mut self, id: PodId, row: Option<Row>) {
        let old = std::mem::replace(&mut self.world.pod_mut(id).nominated, row);
        if old == row {
            return;
        }
        if let Some(old) = old {
            let list = self.world.nominated.get_mut(&old).expect("a nominated pod is on a list");
            list.retain(|other| *other != id);
            if list.is_empty() {
                self.world.nominated.remove(&old);
            }
            self.world.freed.push(old);
            // A group that waited for this room has to look for other.
            let pod = self.world.pod(id);
            if let Some(entry) = pod.entry.filter(|_| pod.team.is_some() && row.is_none()) {
                self.queue.wake_parked(entry);
            }
        }
        if let Some(row) = row {
            self.world.nominated.entry(row).or_default().push(id);
        }
        self.world.changes += 1;
    }
}
