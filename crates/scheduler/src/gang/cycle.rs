//! One try to place a group: as many members as it needs, or none.
//!
//! What a try takes is given back in reverse when it fails, and nobody hears of it: the world is the one it was
//! before, down to the count of its changes.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_tree::Text;

use super::order::KindOfPod;
use super::refuse::{Failure, Room};
use super::{Group, GroupOutcome, GroupVerdict, TeamId};
use crate::choose::{Diagnosis, Stats};
use crate::queue::EntryId;
use crate::reason::Cures;
use crate::table::{CPU, MEMORY, Row};
use crate::world::{PodId, World};
use crate::{Decision, Outcome, Scheduler};

/// What a cycle is about.
#[derive(Debug)]
pub struct Task {
    /// The group.
    pub team: TeamId,
    /// Its entry in the queue.
    pub entry: EntryId,
    /// Members that wait, in the order in which they are placed.
    pub members: Vec<PodId>,
    /// So many have to be on nodes.
    pub min: usize,
    /// So many are.
    pub scheduled: usize,
    /// Priority of the group.
    pub priority: i64,
    /// Whether it may have others evicted.
    pub preempts: bool,
    /// The node label whose value all members must share.
    pub topology: Option<Text>,
    /// When its time is over.
    pub late_at: Option<Time>,
}

impl Task {
    /// So many have to be placed this time.
    pub fn need(&self) -> usize {
        self.min.saturating_sub(self.scheduled).max(1)
    }
}

/// What came of placing members one by one.
#[derive(Debug, Default)]
pub struct Try {
    /// Those that have nodes.
    pub placed: Vec<(PodId, Row)>,
    /// Those that found none.
    pub failed: Vec<PodId>,
    /// How many were not looked at any more.
    pub rest: usize,
}

/// What nobody must hear of when a try is undone.
#[derive(Debug, Clone, Copy)]
pub struct Marks {
    freed: usize,
    moved: usize,
    claims_moved: bool,
    changes: u64,
}

impl Scheduler {
    /// One try to place a group; `None` when it is held after all.
    pub(crate) fn group_cycle(&mut self, id: EntryId) -> Option<Decision> {
        let team_id = self.queue.entry(id).team?;
        let team = self.world.teams.of(team_id);
        let group = team.group().filter(|_| team.held.is_none())?.clone();
        let members = self.world.in_order(&self.queue.entry(id).members);
        // All are asked: each is told when its claims come.
        let gated = members.iter().filter(|pod| self.gate(**pod)).count();
        if gated > 0 {
            self.wait_for_claims(id);
            return None;
        }
        self.stats.groups += 1;
        let task = match self.task(id, team_id, &group, members) {
            Ok(task) => task,
            Err((members, words)) => return Some(self.break_off(id, &members, &words)),
        };
        if let Some(words) = self.world.can_never_fit(&task) {
            return Some(self.refuse_for_ever(&task, &words));
        }
        if let Some((failure, room)) = self.remembered_group(&task) {
            self.stats.repeated += 1;
            return Some(self.refuse_group(&task, &failure, &room));
        }
        match self.world.place(&task, &mut self.stats) {
            Ok(placed) => Some(self.keep(&task, &placed)),
            Err(failure) => Some(self.look_for_room(&task, &failure)),
        }
    }

    /// What is to be done, or which rule of groups the members break.
    fn task(
        &mut self,
        entry: EntryId,
        team: TeamId,
        group: &Group,
        members: Vec<PodId>,
    ) -> Result<Task, (Vec<PodId>, String)> {
        let (priority, preempts) = match self.world.agree(team, group) {
            Ok(rank) => rank,
            Err(words) => return Err((members, words)),
        };
        let now = self.queue.now();
        let known = self.world.teams.of_mut(team);
        // Once enough are bound there is nothing to be late for.
        let whole = known.counts().assigned >= group.policy.min();
        let since = if whole { now } else { *known.tried.get_or_insert(now) };
        Ok(Task {
            team,
            entry,
            members,
            min: group.policy.min(),
            scheduled: known.scheduled(),
            priority,
            preempts,
            topology: group.topology.clone(),
            late_at: group.deadline.map(|deadline| since + deadline),
        })
    }

    /// Keeps what a try took: enough members have nodes.
    pub(crate) fn keep(&mut self, task: &Task, placed: &[(PodId, Row)]) -> Decision {
        let names = |(pod, row): &(PodId, Row)| {
            (self.world.pod(*pod).key.clone(), self.world.table.name(*row).clone())
        };
        let outcome = GroupOutcome {
            verdict: GroupVerdict::Placed,
            placed: placed.iter().map(names).collect(),
            refused: Vec::new(),
            evict: Vec::new(),
            evict_groups: Vec::new(),
            outranked: Vec::new(),
        };
        let group = self.world.teams.of(task.team).key.clone();
        placed.iter().for_each(|(pod, _)| self.settle(*pod));
        let mut left = task.members.clone();
        left.retain(|pod| self.world.pod(*pod).on.is_none());
        if left.is_empty() {
            self.dismiss(task.entry);
        } else {
            self.queue.entry_mut(task.entry).members = left;
            self.queue.put_back(task.entry);
        }
        self.watch_deadline(task.team);
        Decision { group, outcome: Outcome::Group(Box::new(outcome)) }
    }

    /// Nobody finds a node: looks for room that can be made.
    fn look_for_room(&mut self, task: &Task, failure: &Failure) -> Decision {
        if failure.broken().is_some() || self.world.table.len() == 0 {
            return self.refuse_group(task, failure, &Room::Untried);
        }
        if !task.preempts {
            self.end_nominations(task);
            return self.refuse_group(task, failure, &Room::Never);
        }
        if self.room_under_way(task.entry) {
            return self.refuse_group(task, failure, &Room::UnderWay);
        }
        if self.end_nominations(task) {
            // What was kept free for one member may have been in the way of another.
            return match self.world.place(task, &mut self.stats) {
                Ok(placed) => self.keep(task, &placed),
                Err(failure) => self.make_room(task, &failure),
            };
        }
        self.make_room(task, failure)
    }

    /// Ends the nominations of all members; whether there were any.
    fn end_nominations(&mut self, task: &Task) -> bool {
        let mut any = false;
        for pod in &task.members {
            any |= self.world.pod(*pod).nominated.is_some();
            self.nominate(*pod, None);
        }
        if any {
            // Before it is parked: what it gives up is news for others only.
            self.wake();
        }
        any
    }
}

impl World {
    /// Priority of a group and whether it preempts, or which rule its members break. Those on nodes count, too.
    fn agree(&self, team: TeamId, group: &Group) -> Result<(i64, bool), String> {
        let members = || self.teams.of(team).members.iter().map(|id| self.pod(*id));
        let counted = || members().filter(|pod| !(pod.deleting && pod.on.is_none()));
        let waiting = counted().find(|pod| pod.entry.is_some()).expect("an entry has members");
        let priority = group.priority.unwrap_or(waiting.priority);
        let preempts = group.preempts.unwrap_or(waiting.preempts);
        for pod in counted() {
            if pod.scheduler != waiting.scheduler {
                return Err(format!(
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: {:?} and {:?}",
                    pod.scheduler.as_str(),
                    waiting.scheduler.as_str()
                ));
            }
            if pod.priority != priority {
                return Err(format!(
                    "all pods in a single pod group should have the same priority as the pod group's priority, \
                     got {} and {priority}",
                    pod.priority
                ));
            }
            if pod.preempts != preempts {
                let whose =
                    if group.preempts.is_some() { " as the pod group's preemption policy" } else { "" };
                return Err(format!(
                    "all pods in a single pod group should have the same preemption policy{whose}, got {} and {}",
                    preemption_policy(pod.preempts),
                    preemption_policy(preempts)
                ));
            }
        }
        let domains = group.topology.as_ref().map(|key| (key, self.domains_of(team, key)));
        if let Some((key, domains)) = domains.filter(|(_, domains)| domains.len() > 1) {
            let names: Vec<&str> = domains.iter().map(Text::as_str).collect();
            return Err(format!(
                "all pods in a single pod group should be in the same domain of {key}, got {}",
                names.join(" and ")
            ));
        }
        Ok((priority, preempts))
    }

    /// Finds nodes for as many as a group needs, and takes them; or says why not, and takes nothing.
    pub fn place(&mut self, task: &Task, stats: &mut Stats) -> Result<Vec<(PodId, Row)>, Failure> {
        match &task.topology {
            None => self.place_members(task, stats),
            Some(label) => self.place_in_a_domain(task, label, stats),
        }
    }

    /// The same, on whatever nodes are to be looked at.
    pub fn place_members(&mut self, task: &Task, stats: &mut Stats) -> Result<Vec<(PodId, Row)>, Failure> {
        let marks = self.mark();
        let first = self.attempt(&task.members, task.need(), stats);
        if first.placed.len() >= task.need() {
            return Ok(first.placed);
        }
        let mut failure = self.explain(task, &first, stats);
        self.undo(&first.placed, marks);
        // Who finds no node on its own is not helped by another order.
        let orders = if task.need() > 1 { self.other_orders(&task.members) } else { Vec::new() };
        for order in orders {
            let again = self.attempt(&order, task.need(), stats);
            if again.placed.len() >= task.need() {
                return Ok(again.placed);
            }
            self.undo(&again.placed, marks);
            // In another order others fail, for reasons that nobody asked for.
            failure.cures = Cures { claims: failure.cures.claims, ..Cures::ANY };
        }
        Err(failure)
    }

    /// Places members one by one, until so many as are needed cannot be had any more.
    fn attempt(&mut self, members: &[PodId], need: usize, stats: &mut Stats) -> Try {
        let mut result = Try::default();
        let mut hopeless: BTreeSet<KindOfPod> = BTreeSet::new();
        for (at, id) in members.iter().enumerate() {
            let kind = self.kind_of(*id);
            let known = self.pod(*id).nominated.is_none() && hopeless.contains(&kind);
            match if known { None } else { self.choose(*id, stats) } {
                Some(row) => {
                    self.put(*id, row);
                    result.placed.push((*id, row));
                }
                None => {
                    result.failed.push(*id);
                    if !known && self.fails_for_all(*id) {
                        hopeless.insert(kind);
                    }
                }
            }
            result.rest = members.len() - at - 1;
            if result.placed.len() + result.rest < need {
                break;
            }
        }
        result
    }

    /// Whether a pod that found no node speaks for all of its kind, whatever is placed after it: rules of other pods
    /// forbid ever more.
    fn fails_for_all(&self, id: PodId) -> bool {
        !self.pod(id).claims() && !self.class(self.pod(id).class).looks_at_pods()
    }

    /// Why members found no nodes, each kind looked at once, with those that found some in mind. Of too many kinds the
    /// last are not looked at: they hear what their group hears, and whatever changes may help them.
    fn explain(&mut self, task: &Task, result: &Try, stats: &mut Stats) -> Failure {
        let mut found: Vec<Diagnosis> = Vec::new();
        let mut known: BTreeMap<(KindOfPod, Option<PodId>), usize> = BTreeMap::new();
        let mut first: BTreeMap<KindOfPod, usize> = BTreeMap::new();
        let mut why: Vec<(PodId, usize)> = Vec::new();
        for id in &result.failed {
            let kind = self.kind_of(*id);
            let own = self.pod(*id).claims().then_some(*id);
            let same = known.get(&(kind, own)).copied();
            // Claims have words of their own, but not without end.
            let same = same.or_else(|| first.get(&kind).copied().filter(|_| found.len() >= DIAGNOSES_MAX));
            if same.is_none() && found.len() >= KINDS_MAX {
                continue;
            }
            let at = same.unwrap_or_else(|| {
                stats.diagnoses += 1;
                found.push(self.diagnose(*id));
                found.len() - 1
            });
            known.entry((kind, own)).or_insert(at);
            first.entry(kind).or_insert(at);
            why.push((*id, at));
        }
        let all = why.len() == result.failed.len();
        let cures = found.iter().fold(NODES, |sum, it| sum.or(it.tally.cures()));
        Failure {
            placed: result.placed.len(),
            rest: result.rest,
            reach: result.placed.len(),
            resolvable: !all || found.iter().any(|it| !it.resolvable.is_empty()),
            cures: if all { cures } else { Cures::ANY },
            tallies: found.into_iter().map(|it| it.tally).collect(),
            why,
            instead: None,
            need: task.need(),
        }
    }

    /// What is to be left as it is when a try is undone.
    pub fn mark(&self) -> Marks {
        Marks {
            freed: self.freed.len(),
            moved: self.moved.len(),
            claims_moved: self.claims_moved,
            changes: self.changes,
        }
    }

    /// Gives back what a try took, in reverse; nobody is woken by it.
    pub fn undo(&mut self, placed: &[(PodId, Row)], marks: Marks) {
        placed.iter().rev().for_each(|(pod, _)| self.take(*pod));
        self.freed.truncate(marks.freed);
        self.moved.truncate(marks.moved);
        self.claims_moved = marks.claims_moved;
        self.changes = marks.changes;
    }

    /// Whether all nodes together, empty, have too little for a group; the words that say so.
    fn can_never_fit(&self, task: &Task) -> Option<String> {
        if self.table.len() == 0 || task.scheduled >= task.min {
            return None;
        }
        let need = task.need();
        let kinds = self.kinds(&task.members);
        let mut least: Vec<(usize, i64)> = self.class(kinds.first()?.0).asks.amounts.clone();
        for (class, _) in &kinds[1..] {
            least.iter_mut().for_each(|(resource, amount)| {
                *amount = (*amount).min(self.class(*class).asked(*resource));
            });
        }
        let asked = |amount: i64| i128::from(amount) * i128::try_from(need).unwrap_or(i128::MAX >> 64);
        let (resource, amount) =
            *least.iter().find(|(resource, amount)| asked(*amount) > self.table.total(*resource))?;
        Some(format!(
            "minCount ({}) can never be satisfied: {need} pods ask for {} {}, all nodes together have {}",
            task.min,
            readable(resource, asked(amount)),
            self.table.resource_name(resource),
            readable(resource, self.table.total(resource)),
        ))
    }
}

/// What may always help.
const NODES: Cures = Cures { node: true, room: false, pods: false, claims: false };

/// Diagnoses of one cycle, at most, before those of one class are taken for each other.
const DIAGNOSES_MAX: usize = 16;

/// Diagnoses of one cycle, at most, of whatever kinds.
const KINDS_MAX: usize = 64;

fn preemption_policy(preempts: bool) -> &'static str {
    if preempts { "PreemptLowerPriority" } else { "Never" }
}

/// An amount as people write it.
fn readable(resource: usize, amount: i128) -> String {
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY if amount >= 1 << 20 => format!("{}Mi", amount >> 20),
        _ => amount.to_string(),
    }
}
