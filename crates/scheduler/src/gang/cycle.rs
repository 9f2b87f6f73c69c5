//! The scheduling cycle of a pod group: at least `minCount` members get nodes, or none does.
//!
//! A failed attempt is rolled back in reverse order and leaves no event: the cache is as before, including its change
//! count, so cached fit errors stay valid.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_tree::Text;

use super::order::MemberKind;
use super::unschedulable::{GroupFailure, GroupPreemption};
use super::{GroupId, GroupOutcome, GroupSpec, GroupStatus};
use crate::cache::{PodId, SchedulerCache};
use crate::node_table::{CPU, MEMORY, NodeRow};
use crate::queue::EntryId;
use crate::reason::QueueingHints;
use crate::select_node::{Diagnosis, Stats};
use crate::{Scheduler, SchedulingDecision, SchedulingOutcome};

/// A scheduling cycle of a group.
#[derive(Debug)]
pub struct GroupCycle {
    pub team: GroupId,
    /// Its entry in the queue.
    pub entry: EntryId,
    /// Pending members in scheduling order.
    pub members: Vec<PodId>,
    /// The API field `minCount`.
    pub min: usize,
    pub scheduled: usize,
    /// Priority of the group.
    pub priority: i64,
    /// `preemptionPolicy` is not `Never`.
    pub preempts: bool,
    /// The topology key whose value all members must share.
    pub topology: Option<Text>,
    pub late_at: Option<Time>,
}

impl GroupCycle {
    /// Members that this cycle must schedule, at least.
    pub fn need(&self) -> usize {
        self.min.saturating_sub(self.scheduled).max(1)
    }
}

/// The result of scheduling members one by one.
#[derive(Debug, Default)]
pub struct PlacementAttempt {
    /// Members with their nodes.
    pub placed: Vec<(PodId, NodeRow)>,
    /// Members without a feasible node.
    pub failed: Vec<PodId>,
    /// Members that were not tried any more.
    pub rest: usize,
}

/// Recorded changes of the cache that a rollback discards.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    freed: usize,
    moved: usize,
    claims_moved: bool,
    changes: u64,
}

impl Scheduler {
    /// One scheduling cycle of a group; `None` if the group is held.
    pub(crate) fn schedule_group(&mut self, id: EntryId) -> Option<SchedulingDecision> {
        let team_id = self.queue.entry(id).team?;
        let team = self.cache.groups.of(team_id);
        let group = team.group().filter(|_| team.held.is_none())?.clone();
        let members = self.cache.in_order(&self.queue.entry(id).members);
        // Every member is checked, so that each one is registered for events of its claims.
        let gated = members.iter().filter(|pod| self.fails_pre_enqueue(**pod)).count();
        if gated > 0 {
            self.wait_for_claims(id);
            return None;
        }
        self.stats.groups += 1;
        let task = match self.task(id, team_id, &group, members) {
            Ok(task) => task,
            Err((members, words)) => return Some(self.group_invalid(id, &members, &words)),
        };
        if let Some(words) = self.cache.can_never_fit(&task) {
            return Some(self.group_never_fits(&task, &words));
        }
        if let Some((failure, room)) = self.remembered_group(&task) {
            self.stats.repeated += 1;
            return Some(self.group_unschedulable(&task, &failure, &room));
        }
        match self.cache.place_group(&task, &mut self.stats) {
            Ok(placed) => Some(self.commit(&task, &placed)),
            Err(failure) => Some(self.post_filter_group(&task, &failure)),
        }
    }

    /// The cycle of a group, or the rule that its members violate.
    fn task(
        &mut self,
        entry: EntryId,
        team: GroupId,
        group: &GroupSpec,
        members: Vec<PodId>,
    ) -> Result<GroupCycle, (Vec<PodId>, String)> {
        let (priority, preempts) = match self.cache.validate_members(team, group) {
            Ok(rank) => rank,
            Err(words) => return Err((members, words)),
        };
        let now = self.queue.now();
        let known = self.cache.groups.of_mut(team);
        // The deadline does not apply once `minCount` members are bound.
        let whole = known.counts().assigned >= group.policy.min();
        let since = if whole { now } else { *known.first_attempt.get_or_insert(now) };
        Ok(GroupCycle {
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

    /// Assumes the members of a successful attempt.
    pub(crate) fn commit(&mut self, task: &GroupCycle, placed: &[(PodId, NodeRow)]) -> SchedulingDecision {
        let names = |(pod, row): &(PodId, NodeRow)| {
            (self.cache.pod(*pod).key.clone(), self.cache.table.name(*row).clone())
        };
        let outcome = GroupOutcome {
            status: GroupStatus::Placed,
            scheduled: placed.iter().map(names).collect(),
            unschedulable: Vec::new(),
            victims: Vec::new(),
            victim_groups: Vec::new(),
            nominations_cleared: Vec::new(),
        };
        let group = self.cache.groups.of(task.team).key.clone();
        placed.iter().for_each(|(pod, _)| self.clear_queue_state(*pod));
        let mut left = task.members.clone();
        left.retain(|pod| self.cache.pod(*pod).on.is_none());
        if left.is_empty() {
            self.remove_entry(task.entry);
        } else {
            self.queue.entry_mut(task.entry).members = left;
            // Members beyond `minCount` are tried again at once, after entries of higher priority.
            self.queue.put_back(task.entry);
        }
        self.watch_deadline(task.team);
        SchedulingDecision { group, outcome: SchedulingOutcome::Group(Box::new(outcome)) }
    }

    /// Too few members have nodes (`PostFilter`): tries preemption.
    fn post_filter_group(&mut self, task: &GroupCycle, failure: &GroupFailure) -> SchedulingDecision {
        if failure.broken().is_some() || self.cache.table.len() == 0 {
            return self.group_unschedulable(task, failure, &GroupPreemption::Untried);
        }
        if !task.preempts {
            self.end_nominations(task);
            return self.group_unschedulable(task, failure, &GroupPreemption::Never);
        }
        if self.preemption_in_progress(task.entry) {
            return self.group_unschedulable(task, failure, &GroupPreemption::UnderWay);
        }
        if self.end_nominations(task) {
            // Resources reserved by the nomination of one member may be what another member needs.
            return match self.cache.place_group(task, &mut self.stats) {
                Ok(placed) => self.commit(task, &placed),
                Err(failure) => self.preempt_for_group(task, &failure),
            };
        }
        self.preempt_for_group(task, failure)
    }

    /// Clears the nominations of all members; whether there were any.
    fn end_nominations(&mut self, task: &GroupCycle) -> bool {
        let mut any = false;
        for pod in &task.members {
            any |= self.cache.pod(*pod).nominated.is_some();
            self.nominate(*pod, None);
        }
        if any {
            // Before the group is parked: the freed nodes must requeue other entries, not this one.
            self.requeue_unschedulable();
        }
        any
    }
}

impl SchedulerCache {
    /// Priority and preemption policy of a group, or the rule that its members violate. Placed members count, too.
    fn validate_members(&self, team: GroupId, group: &GroupSpec) -> Result<(i64, bool), String> {
        let members = || self.groups.of(team).members.iter().map(|id| self.pod(*id));
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

    /// Finds nodes for the members that a group needs and assumes them; on failure nothing is assumed.
    pub fn place_group(
        &mut self,
        task: &GroupCycle,
        stats: &mut Stats,
    ) -> Result<Vec<(PodId, NodeRow)>, GroupFailure> {
        match &task.topology {
            None => self.place_members(task, stats),
            Some(label) => self.place_in_a_domain(task, label, stats),
        }
    }

    /// The same within the current node scope.
    pub fn place_members(
        &mut self,
        task: &GroupCycle,
        stats: &mut Stats,
    ) -> Result<Vec<(PodId, NodeRow)>, GroupFailure> {
        let marks = self.checkpoint();
        let first = self.attempt(&task.members, task.need(), stats);
        if first.placed.len() >= task.need() {
            return Ok(first.placed);
        }
        let mut failure = self.explain(task, &first, stats);
        self.roll_back(&first.placed, marks);
        // A single member without a feasible node is not helped by another order.
        let orders = if task.need() > 1 { self.other_orders(&task.members) } else { Vec::new() };
        for order in orders {
            let again = self.attempt(&order, task.need(), stats);
            if again.placed.len() >= task.need() {
                return Ok(again.placed);
            }
            self.roll_back(&again.placed, marks);
            // In another order other members fail, whose reasons are not diagnosed: any event may help.
            failure.cures = QueueingHints { claims: failure.cures.claims, ..QueueingHints::ANY };
        }
        Err(failure)
    }

    /// Schedules members one by one until `need` cannot be reached any more.
    fn attempt(&mut self, members: &[PodId], need: usize, stats: &mut Stats) -> PlacementAttempt {
        let mut result = PlacementAttempt::default();
        let mut hopeless: BTreeSet<MemberKind> = BTreeSet::new();
        for (at, id) in members.iter().enumerate() {
            let kind = self.kind_of(*id);
            // An equal member failed in this attempt: filtering all nodes again would give the same result.
            let known = self.pod(*id).nominated.is_none() && hopeless.contains(&kind);
            match if known { None } else { self.select_node(*id, stats) } {
                Some(row) => {
                    self.add_to_node(*id, row);
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
            // `minCount` cannot be reached any more.
            if result.placed.len() + result.rest < need {
                break;
            }
        }
        result
    }

    /// Whether a failed pod proves that all members of its kind fail in this attempt. That does not hold with pod affinity
    /// (a member placed later may satisfy it) or with claims of its own.
    fn fails_for_all(&self, id: PodId) -> bool {
        !self.pod(id).has_claims() && !self.class(self.pod(id).class).depends_on_pods()
    }

    /// Why members have no feasible node, one diagnosis per kind, with the scheduled members assumed. Beyond the limit of
    /// kinds a member reports the message of its group and is requeued by any event.
    fn explain(&mut self, task: &GroupCycle, result: &PlacementAttempt, stats: &mut Stats) -> GroupFailure {
        let mut found: Vec<Diagnosis> = Vec::new();
        let mut known: BTreeMap<(MemberKind, Option<PodId>), usize> = BTreeMap::new();
        let mut first: BTreeMap<MemberKind, usize> = BTreeMap::new();
        let mut why: Vec<(PodId, usize)> = Vec::new();
        for id in &result.failed {
            let kind = self.kind_of(*id);
            let own = self.pod(*id).has_claims().then_some(*id);
            let same = known.get(&(kind, own)).copied();
            // Members with claims get a diagnosis of their own, up to the limit.
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
        GroupFailure {
            placed: result.placed.len(),
            rest: result.rest,
            reach: result.placed.len(),
            resolvable: !all || found.iter().any(|it| !it.resolvable.is_empty()),
            cures: if all { cures } else { QueueingHints::ANY },
            tallies: found.into_iter().map(|it| it.tally).collect(),
            why,
            instead: None,
            need: task.need(),
        }
    }

    /// The state that a rollback restores.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            freed: self.freed_rows.len(),
            moved: self.changed_counters.len(),
            claims_moved: self.claims_changed,
            changes: self.changes,
        }
    }

    /// Rolls back an attempt in reverse order without requeueing any entry.
    pub fn roll_back(&mut self, placed: &[(PodId, NodeRow)], marks: Checkpoint) {
        placed.iter().rev().for_each(|(pod, _)| self.remove_from_node(*pod));
        self.freed_rows.truncate(marks.freed);
        self.changed_counters.truncate(marks.moved);
        self.claims_changed = marks.claims_moved;
        self.changes = marks.changes;
    }

    /// The message for a group that does not fit even if all nodes were empty.
    fn can_never_fit(&self, task: &GroupCycle) -> Option<String> {
        if self.table.len() == 0 || task.scheduled >= task.min {
            return None;
        }
        let need = task.need();
        let kinds = self.kinds(&task.members);
        let mut least: Vec<(usize, i64)> = self.class(kinds.first()?.0).requests.amounts.clone();
        for (class, _) in &kinds[1..] {
            least.iter_mut().for_each(|(resource, amount)| {
                *amount = (*amount).min(self.class(*class).requested(*resource));
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

/// The hints of every group: a new or changed Node.
const NODES: QueueingHints = QueueingHints { node: true, room: false, pods: false, claims: false };

/// Diagnoses per cycle above which members with claims share the diagnosis of their kind.
const DIAGNOSES_MAX: usize = 16;

/// Diagnoses per cycle, at most.
const KINDS_MAX: usize = 64;

fn preemption_policy(preempts: bool) -> &'static str {
    if preempts { "PreemptLowerPriority" } else { "Never" }
}

/// An amount with its unit, for messages.
fn readable(resource: usize, amount: i128) -> String {
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        MEMORY if amount >= 1 << 20 => format!("{}Mi", amount >> 20),
        _ => amount.to_string(),
    }
}
