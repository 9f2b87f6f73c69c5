//! Unschedulable groups: conditions of the group and its members, queueing hints, deadlines, and cached failures.

use muster_api::consts::reasons;
use muster_api::time::Time;
use muster_tree::Text;

use super::cycle::GroupCycle;
use super::preemption::GroupPreemptionPlan;
use super::{GroupId, GroupStatus, PreemptionUnit, UnschedulableMember};
use crate::cache::PodId;
use crate::node_table::NodeRow;
use crate::pod::{Budget, PodKey};
use crate::queue::{CapacityKind, EntryId, Shortage};
use crate::reason::{FitError, PreemptionResult, QueueingHints, ReasonCounts};
use crate::{Scheduler, SchedulingDecision, SchedulingOutcome};

/// Why too few members have feasible nodes.
#[derive(Debug, Clone, Default)]
pub struct GroupFailure {
    /// Members that had to be scheduled.
    pub need: usize,
    /// Members that were scheduled.
    pub placed: usize,
    /// Members that were not tried any more.
    pub rest: usize,
    /// Members that can be scheduled at most if every possible victim is evicted.
    pub reach: usize,
    /// Whether preemption may help a failed member.
    pub resolvable: bool,
    /// Reasons per node, one entry per kind of failed member.
    pub tallies: Vec<ReasonCounts>,
    /// Failed members with the index of their reasons.
    pub why: Vec<(PodId, usize)>,
    pub cures: QueueingHints,
    /// Replaces the message about `minCount`.
    pub instead: Option<String>,
}

impl GroupFailure {
    /// The error of a plugin, if one failed.
    pub fn broken(&self) -> Option<&Text> {
        self.tallies.iter().find_map(|tally| tally.error.as_ref())
    }

    /// The message of the group.
    pub fn words(&self, task: &GroupCycle) -> String {
        if let Some(words) = &self.instead {
            return words.clone();
        }
        if task.scheduled >= task.min {
            return format!(
                "minCount ({}) is satisfied, but there is no place for {} more pods",
                task.min,
                task.members.len()
            );
        }
        unsatisfied(task, self.placed, self.rest)
    }
}

pub fn unsatisfied(task: &GroupCycle, placed: usize, rest: usize) -> String {
    format!(
        "minCount ({}) cannot be satisfied: {} scheduled, {rest} remaining",
        task.min,
        task.scheduled + placed
    )
}

/// The result of group preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupPreemption {
    Untried,
    /// `preemptionPolicy` is `Never`.
    Never,
    /// Victims of an earlier preemption still terminate.
    UnderWay,
    /// No pod has a lower priority.
    NoVictims,
    /// Too few members fit even if every possible victim is evicted.
    NotHelpful {
        /// Members that would be scheduled.
        placed: usize,
        /// Members that would not be tried.
        rest: usize,
    },
    /// The number of victims.
    Found(usize),
}

impl GroupPreemption {
    fn words(&self, task: &GroupCycle) -> Option<String> {
        let words = match self {
            GroupPreemption::Untried => return None,
            GroupPreemption::Never => "not eligible due to preemptionPolicy=Never.".to_owned(),
            GroupPreemption::UnderWay => "ongoing preemption on nominated nodes".to_owned(),
            GroupPreemption::NoVictims => "No preemption victims found for incoming preemptor".to_owned(),
            GroupPreemption::NotHelpful { placed, rest } if task.scheduled < task.min => {
                unsatisfied(task, *placed, *rest)
            }
            GroupPreemption::NotHelpful { .. } => "preemption is not helpful".to_owned(),
            GroupPreemption::Found(victims) => {
                format!("found a placement for podgroup, preempting {victims} victims")
            }
        };
        Some(format!("pod group preemption: {words}"))
    }
}

/// The failure of a group of equal pods, valid until the cache changes.
#[derive(Debug)]
pub struct CachedGroupFailure {
    at: u64,
    sort: u32,
    rank: (i64, bool),
    need: usize,
    placed: usize,
    reach: usize,
    tally: ReasonCounts,
    cures: QueueingHints,
    room: GroupPreemption,
}

impl Scheduler {
    /// Tries to preempt lower-priority pods for a group.
    pub(crate) fn preempt_for_group(
        &mut self,
        task: &GroupCycle,
        failure: &GroupFailure,
    ) -> SchedulingDecision {
        let mut failure = failure.clone();
        let useless = GroupPreemption::NotHelpful { placed: failure.placed, rest: failure.rest };
        let room = if !self.cache.has_lower_priority(task.priority) {
            GroupPreemption::NoVictims
        } else if !failure.resolvable {
            useless
        } else {
            let budgets: Vec<&Budget> = self.budgets.values().collect();
            match self.cache.plan_group_preemption(task, &budgets, &mut self.stats) {
                GroupPreemptionPlan::NoVictims => GroupPreemption::NoVictims,
                GroupPreemptionPlan::Useless(at_best) => {
                    failure.reach = failure.reach.max(at_best.placed);
                    failure.cures = failure.cures.or(at_best.cures);
                    GroupPreemption::NotHelpful { placed: at_best.placed, rest: at_best.rest }
                }
                GroupPreemptionPlan::Free(placed) => return self.commit(task, &placed),
                GroupPreemptionPlan::Evict { placed, units } => {
                    return self.nominate_group(task, &failure, &placed, &units);
                }
            }
        };
        self.remember_group(task, &failure, &room);
        self.group_unschedulable(task, &failure, &room)
    }

    /// Nominates the members for these nodes and evicts these units.
    fn nominate_group(
        &mut self,
        task: &GroupCycle,
        failure: &GroupFailure,
        placed: &[(PodId, NodeRow)],
        units: &[PreemptionUnit],
    ) -> SchedulingDecision {
        let mut outranked = Vec::new();
        for (pod, row) in placed {
            outranked.extend(self.clear_lower_nominations(*pod, *row));
        }
        placed.iter().for_each(|(pod, row)| self.nominate(*pod, Some(*row)));
        let victims: Vec<PodId> = units.iter().flat_map(|unit| unit.pods.iter().copied()).collect();
        victims.iter().for_each(|victim| self.cache.pod_mut(*victim).evicted = true);
        let mut decision = self.group_unschedulable(task, failure, &GroupPreemption::Found(victims.len()));
        let key = |id: &PodId| self.cache.pod(*id).key.clone();
        if let SchedulingOutcome::Group(outcome) = &mut decision.outcome {
            outcome.victims = victims.iter().map(key).collect();
            outcome.nominations_cleared = outranked.iter().map(key).collect();
            let whole = units.iter().filter_map(|unit| unit.team);
            outcome.victim_groups = whole.map(|team| self.cache.groups.of(team).key.clone()).collect();
        }
        decision
    }

    /// Reports a group and its members as unschedulable and parks the entry with its hints.
    pub(crate) fn group_unschedulable(
        &mut self,
        task: &GroupCycle,
        failure: &GroupFailure,
        room: &GroupPreemption,
    ) -> SchedulingDecision {
        let ending = room.words(task);
        let mut words = failure.words(task);
        if let Some(ending) = &ending {
            words = format!("{words}, {ending}");
        }
        let broken = failure.broken().is_some();
        let reason = if broken { reasons::SCHEDULER_ERROR } else { reasons::UNSCHEDULABLE };
        let tell = |tally: &ReasonCounts| {
            let message =
                FitError { reasons: tally.clone(), preemption: PreemptionResult::NotAttempted }.message();
            ending
                .as_ref()
                .filter(|_| tally.nodes > 0)
                .map_or(message.clone(), |it| format!("{message} {it}"))
        };
        let told: Vec<String> = failure.tallies.iter().map(tell).collect();
        let mut own: Vec<(PodId, usize)> = failure.why.clone();
        own.sort_unstable();
        let say = |pod: &PodId| {
            let at = own.binary_search_by_key(pod, |(id, _)| *id).ok();
            at.map_or_else(|| words.clone(), |at| told[own[at].1].clone())
        };
        let messages: Vec<String> = task.members.iter().map(say).collect();
        let refused = self.refused_members(&task.members, reason, messages);
        let lack = self.lack(task, failure, room);
        self.queue.add_unschedulable_apart(task.entry, failure.cures, lack);
        self.cache.has_unschedulable = true;
        let verdict = if broken { GroupStatus::Error(words) } else { self.deadline_status(task, words) };
        self.group_decision(task.team, verdict, refused)
    }

    /// Parks a group that exceeds the capacity of all nodes: only a Node event or an update of the group requeues it.
    pub(crate) fn group_never_fits(&mut self, task: &GroupCycle, words: &str) -> SchedulingDecision {
        task.members.iter().for_each(|pod| self.nominate(*pod, None));
        let messages = vec![words.to_owned(); task.members.len()];
        let refused = self.refused_members(&task.members, reasons::UNSCHEDULABLE, messages);
        self.queue.add_unschedulable_apart(
            task.entry,
            QueueingHints { node: true, ..QueueingHints::default() },
            None,
        );
        self.cache.has_unschedulable = true;
        let verdict = self.deadline_status(task, words.to_owned());
        self.group_decision(task.team, verdict, refused)
    }

    /// Parks a group whose members violate a rule: only an update of its members, of the group or of a node label requeues
    /// it.
    pub(crate) fn group_invalid(
        &mut self,
        entry: EntryId,
        members: &[PodId],
        words: &str,
    ) -> SchedulingDecision {
        members.iter().for_each(|pod| self.nominate(*pod, None));
        let messages = vec![words.to_owned(); members.len()];
        let refused = self.refused_members(members, reasons::SCHEDULER_ERROR, messages);
        let team = self.queue.entry(entry).team.expect("a group is refused");
        let node = self.cache.groups.of(team).group().is_some_and(|group| group.topology.is_some());
        self.queue.add_unschedulable_apart(entry, QueueingHints { node, ..QueueingHints::default() }, None);
        self.cache.has_unschedulable = true;
        self.group_decision(team, GroupStatus::Error(words.to_owned()), refused)
    }

    fn refused_members(
        &mut self,
        members: &[PodId],
        reason: &'static str,
        messages: Vec<String>,
    ) -> Vec<UnschedulableMember> {
        let mut refused = Vec::with_capacity(members.len());
        for (id, message) in members.iter().zip(messages) {
            let nominated = self.cache.nominated_name(*id);
            let pod = self.cache.pod_mut(*id);
            pod.reported_message = Text::new();
            refused.push(UnschedulableMember { pod: pod.key.clone(), reason, message, nominated });
        }
        refused
    }

    /// The status of an unschedulable group, depending on its deadline; a future deadline schedules a check.
    fn deadline_status(&mut self, task: &GroupCycle, words: String) -> GroupStatus {
        let Some(at) = task.late_at.filter(|_| task.scheduled < task.min) else {
            return GroupStatus::Unschedulable(words);
        };
        if self.queue.now() >= at {
            return GroupStatus::DeadlineExceeded(words);
        }
        self.set_deadline(task.team, Some(at));
        GroupStatus::Unschedulable(words)
    }

    /// Schedules the check of the deadline of a group.
    pub(crate) fn watch_deadline(&mut self, team: GroupId) {
        let at = self.cache.groups.of(team).due_at().filter(|at| *at > self.queue.now());
        self.set_deadline(team, at);
    }

    /// The next group with an expired deadline.
    pub(crate) fn next_expired(&mut self, now: Time) -> Option<GroupId> {
        let (_, due) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
        self.set_deadline(due, None);
        Some(due)
    }

    /// The deadline of a group expired: assumed members that are not bound are forgotten and requeued. If there are none,
    /// one more cycle reports the deadline.
    pub(crate) fn deadline_exceeded(&mut self, id: GroupId, now: Time) -> Option<SchedulingDecision> {
        let team = self.cache.groups.of(id);
        let at = team.due_at()?;
        if at > now {
            self.set_deadline(id, Some(at));
            return None;
        }
        let (key, min, bound) = (team.key.clone(), team.group()?.policy.min(), team.counts().assigned);
        let meant = |pod: &PodId| self.cache.pod(*pod).on.is_some() && !self.cache.pod(*pod).bound;
        let placed: Vec<PodId> = team.members.iter().copied().filter(meant).collect();
        if placed.is_empty() {
            if let Some(entry) = team.entry {
                self.queue.requeue(entry);
            }
            return None;
        }
        let names: Vec<PodKey> = placed.iter().map(|pod| self.cache.pod(*pod).key.clone()).collect();
        self.group_binding_failed(&key, &names, now);
        let words = format!(
            "minCount ({min}) was not reached in time: {bound} bound, {} had places but could not be bound yet",
            placed.len()
        );
        let refused =
            self.refused_members(&placed, reasons::UNSCHEDULABLE, vec![words.clone(); placed.len()]);
        Some(self.group_decision(id, GroupStatus::DeadlineExceeded(words), refused))
    }

    /// The missing resources of a group of equal pods that lacks nothing else.
    fn lack(&self, task: &GroupCycle, failure: &GroupFailure, room: &GroupPreemption) -> Option<Shortage> {
        let only_room = QueueingHints { node: true, room: true, ..QueueingHints::default() };
        let class = self.one_plain_class(task).filter(|_| failure.cures == only_room)?;
        let (reach, counts) = match room {
            GroupPreemption::Found(_) | GroupPreemption::UnderWay => (failure.placed, CapacityKind::Free),
            _ if task.preempts => (failure.reach, CapacityKind::Above(task.priority)),
            _ => (failure.placed, CapacityKind::Above(i64::MIN)),
        };
        Some(Shortage { class, pods: failure.need.saturating_sub(reach).max(1), counts })
    }

    /// The class of all members, if they are equal and depend neither on other pods nor on claims.
    fn one_plain_class(&self, task: &GroupCycle) -> Option<u32> {
        let class = self.cache.pod(*task.members.first()?).class;
        let plain = |id: &PodId| self.cache.pod(*id).class == class && !self.cache.pod(*id).has_claims();
        let plain = !self.cache.class(class).depends_on_pods() && task.members.iter().all(plain);
        (plain && task.topology.is_none()).then_some(class)
    }

    /// Class and label profile of all members, if the failure of one such group is valid for all.
    fn memorable(&self, task: &GroupCycle) -> Option<(u32, u32)> {
        let class = self.one_plain_class(task)?;
        let sort = self.cache.pod(*task.members.first()?).profile;
        let same =
            |id: &PodId| self.cache.pod(*id).profile == sort && self.cache.pod(*id).nominated.is_none();
        task.members.iter().all(same).then_some((class, sort))
    }

    /// The failure of an equal group, if the cache is unchanged since.
    pub(crate) fn remembered_group(&self, task: &GroupCycle) -> Option<(GroupFailure, GroupPreemption)> {
        let (class, sort) = self.memorable(task)?;
        let it = self.cache.class(class).group_failure.as_ref()?;
        let same = it.at == self.cache.changes
            && it.sort == sort
            && it.rank == (task.priority, task.preempts)
            && it.need <= task.need();
        if !same {
            return None;
        }
        let rest = |placed: usize| task.need() - 1 - placed;
        let room = match &it.room {
            GroupPreemption::NotHelpful { placed, .. } => {
                GroupPreemption::NotHelpful { placed: *placed, rest: rest(*placed) }
            }
            other => other.clone(),
        };
        let failed = &task.members[it.placed..task.members.len() - rest(it.placed)];
        let failure = GroupFailure {
            need: task.need(),
            placed: it.placed,
            rest: rest(it.placed),
            reach: it.reach,
            resolvable: false,
            cures: it.cures,
            tallies: vec![it.tally.clone()],
            why: failed.iter().map(|pod| (*pod, 0)).collect(),
            instead: None,
        };
        Some((failure, room))
    }

    fn remember_group(&mut self, task: &GroupCycle, failure: &GroupFailure, room: &GroupPreemption) {
        let Some((class, sort)) = self.memorable(task) else { return };
        let Some(tally) = failure.tallies.first().filter(|_| failure.reach < failure.need) else { return };
        let memory = CachedGroupFailure {
            at: self.cache.changes,
            sort,
            rank: (task.priority, task.preempts),
            need: failure.need,
            placed: failure.placed,
            reach: failure.reach,
            tally: tally.clone(),
            cures: failure.cures,
            room: room.clone(),
        };
        self.cache.class_mut(class).0.group_failure = Some(memory);
    }

    /// The group that is evicted together with a pod (`disruptionMode: PodGroup`).
    #[must_use]
    pub fn disrupted_with(&self, pod: &PodKey) -> Option<&PodKey> {
        let team = self.cache.groups.of(self.cache.pod(*self.index.get(pod)?).group?);
        team.disrupted_as_group().then_some(&team.key)
    }
}
