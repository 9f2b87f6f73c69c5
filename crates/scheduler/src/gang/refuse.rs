//! How a group is refused: what it and its members are told, what it waits for, and what is remembered of it.

use muster_api::time::Time;
use muster_api::words::reasons;
use muster_tree::Text;

use super::cycle::Task;
use super::room::Plan;
use super::{GroupVerdict, RefusedMember, TeamId, Unit};
use crate::pod::{Budget, PodKey};
use crate::queue::{Counted, EntryId, Lack};
use crate::reason::{Cures, Preemption, Refused, Tally};
use crate::table::Row;
use crate::world::PodId;
use crate::{Decision, Outcome, Scheduler};

/// Why too few members found nodes.
#[derive(Debug, Clone, Default)]
pub struct Failure {
    /// So many were needed.
    pub need: usize,
    /// So many found nodes.
    pub placed: usize,
    /// So many were not looked at any more.
    pub rest: usize,
    /// So many find nodes at best, when all whom it may evict are gone.
    pub reach: usize,
    /// Whether evicting pods could help any that failed.
    pub resolvable: bool,
    /// Node by node, per kind of those that failed.
    pub tallies: Vec<Tally>,
    /// Those that failed, with the number of their tally.
    pub why: Vec<(PodId, usize)>,
    /// What may change that.
    pub cures: Cures,
    /// What the group says instead of its counts.
    pub instead: Option<String>,
}

impl Failure {
    /// Why no answer could be found at all.
    pub fn broken(&self) -> Option<&Text> {
        self.tallies.iter().find_map(|tally| tally.broken.as_ref())
    }

    /// The cause, in the words of the group.
    pub fn words(&self, task: &Task) -> String {
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

/// Too few members of a group can be placed.
pub fn unsatisfied(task: &Task, placed: usize, rest: usize) -> String {
    format!(
        "minCount ({}) cannot be satisfied: {} scheduled, {rest} remaining",
        task.min,
        task.scheduled + placed
    )
}

/// What came of looking for room that can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Room {
    /// Nobody looked.
    Untried,
    /// The group must not preempt.
    Never,
    /// Victims of an earlier try are still on their way out.
    UnderWay,
    /// Nobody is less important.
    Nobody,
    /// It would not help.
    Useless {
        /// So many would find nodes.
        placed: usize,
        /// So many would not be looked at.
        rest: usize,
    },
    /// So many pods go.
    Found(usize),
}

impl Room {
    fn words(&self, task: &Task) -> Option<String> {
        let words = match self {
            Room::Untried => return None,
            Room::Never => "not eligible due to preemptionPolicy=Never.".to_owned(),
            Room::UnderWay => "ongoing preemption on nominated nodes".to_owned(),
            Room::Nobody => "No preemption victims found for incoming preemptor".to_owned(),
            Room::Useless { placed, rest } if task.scheduled < task.min => unsatisfied(task, *placed, *rest),
            Room::Useless { .. } => "preemption is not helpful".to_owned(),
            Room::Found(victims) => {
                format!("found a placement for podgroup, preempting {victims} victims")
            }
        };
        Some(format!("pod group preemption: {words}"))
    }
}

/// A refusal of a group of equal pods that holds while nothing changes.
#[derive(Debug)]
pub struct Memory {
    at: u64,
    sort: u32,
    rank: (i64, bool),
    need: usize,
    placed: usize,
    reach: usize,
    tally: Tally,
    cures: Cures,
    room: Room,
}

impl Scheduler {
    /// Nobody finds a node: makes room if that helps.
    pub(crate) fn make_room(&mut self, task: &Task, failure: &Failure) -> Decision {
        let mut failure = failure.clone();
        let useless = Room::Useless { placed: failure.placed, rest: failure.rest };
        let room = if !self.world.anybody_below(task.priority) {
            Room::Nobody
        } else if !failure.resolvable {
            useless
        } else {
            let budgets: Vec<&Budget> = self.budgets.values().collect();
            match self.world.plan_room(task, &budgets, &mut self.stats) {
                Plan::Nobody => Room::Nobody,
                Plan::Useless(at_best) => {
                    failure.reach = failure.reach.max(at_best.placed);
                    failure.cures = failure.cures.or(at_best.cures);
                    Room::Useless { placed: at_best.placed, rest: at_best.rest }
                }
                Plan::Free(placed) => return self.keep(task, &placed),
                Plan::Evict { placed, units } => return self.evict_for(task, &failure, &placed, &units),
            }
        };
        self.remember_group(task, &failure, &room);
        self.refuse_group(task, &failure, &room)
    }

    /// Has these units evicted, so that the members can have these nodes.
    fn evict_for(
        &mut self,
        task: &Task,
        failure: &Failure,
        placed: &[(PodId, Row)],
        units: &[Unit],
    ) -> Decision {
        let mut outranked = Vec::new();
        for (pod, row) in placed {
            outranked.extend(self.outrank(*pod, *row));
        }
        placed.iter().for_each(|(pod, row)| self.nominate(*pod, Some(*row)));
        let victims: Vec<PodId> = units.iter().flat_map(|unit| unit.pods.iter().copied()).collect();
        victims.iter().for_each(|victim| self.world.pod_mut(*victim).evicted = true);
        let mut decision = self.refuse_group(task, failure, &Room::Found(victims.len()));
        let key = |id: &PodId| self.world.pod(*id).key.clone();
        if let Outcome::Group(outcome) = &mut decision.outcome {
            outcome.evict = victims.iter().map(key).collect();
            outcome.outranked = outranked.iter().map(key).collect();
            let whole = units.iter().filter_map(|unit| unit.team);
            outcome.evict_groups = whole.map(|team| self.world.teams.of(team).key.clone()).collect();
        }
        decision
    }

    /// Refuses a group, with the words of each member, and has it wait for what may help.
    pub(crate) fn refuse_group(&mut self, task: &Task, failure: &Failure, room: &Room) -> Decision {
        let ending = room.words(task);
        let mut words = failure.words(task);
        if let Some(ending) = &ending {
            words = format!("{words}, {ending}");
        }
        let broken = failure.broken().is_some();
        let reason = if broken { reasons::SCHEDULER_ERROR } else { reasons::UNSCHEDULABLE };
        let tell = |tally: &Tally| {
            let message = Refused { tally: tally.clone(), preemption: Preemption::Untried }.message();
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
        self.queue.park_apart(task.entry, failure.cures, lack);
        self.world.watched = true;
        let verdict = if broken { GroupVerdict::Error(words) } else { self.late_or_not(task, words) };
        self.spoken(task.team, verdict, refused)
    }

    /// Refuses a group that all nodes together are too small for: nothing but nodes and a smaller wish can help.
    pub(crate) fn refuse_for_ever(&mut self, task: &Task, words: &str) -> Decision {
        task.members.iter().for_each(|pod| self.nominate(*pod, None));
        let messages = vec![words.to_owned(); task.members.len()];
        let refused = self.refused_members(&task.members, reasons::UNSCHEDULABLE, messages);
        self.queue.park_apart(task.entry, Cures { node: true, ..Cures::default() }, None);
        self.world.watched = true;
        let verdict = self.late_or_not(task, words.to_owned());
        self.spoken(task.team, verdict, refused)
    }

    /// Refuses a group whose members break a rule: nothing but other members, another group or another label of a node
    /// can help.
    pub(crate) fn break_off(&mut self, entry: EntryId, members: &[PodId], words: &str) -> Decision {
        members.iter().for_each(|pod| self.nominate(*pod, None));
        let messages = vec![words.to_owned(); members.len()];
        let refused = self.refused_members(members, reasons::SCHEDULER_ERROR, messages);
        let team = self.queue.entry(entry).team.expect("a group is refused");
        let node = self.world.teams.of(team).group().is_some_and(|group| group.topology.is_some());
        self.queue.park_apart(entry, Cures { node, ..Cures::default() }, None);
        self.world.watched = true;
        self.spoken(team, GroupVerdict::Error(words.to_owned()), refused)
    }

    fn refused_members(
        &mut self,
        members: &[PodId],
        reason: &'static str,
        messages: Vec<String>,
    ) -> Vec<RefusedMember> {
        let mut refused = Vec::with_capacity(members.len());
        for (id, message) in members.iter().zip(messages) {
            let nominated = self.world.nominated_name(*id);
            let pod = self.world.pod_mut(*id);
            pod.said = Text::new();
            refused.push(RefusedMember { pod: pod.key.clone(), reason, message, nominated });
        }
        refused
    }

    /// A group whose time is over is refused for that; one whose time will be over is looked at then.
    fn late_or_not(&mut self, task: &Task, words: String) -> GroupVerdict {
        let Some(at) = task.late_at.filter(|_| task.scheduled < task.min) else {
            return GroupVerdict::Unschedulable(words);
        };
        if self.queue.now() >= at {
            return GroupVerdict::Late(words);
        }
        self.late_at(task.team, Some(at));
        GroupVerdict::Unschedulable(words)
    }

    /// Looks again at a group when its time is over, unless enough of it are bound by then.
    pub(crate) fn watch_deadline(&mut self, team: TeamId) {
        let at = self.world.teams.of(team).due_at().filter(|at| *at > self.queue.now());
        self.late_at(team, at);
    }

    /// The next group whose time is over.
    pub(crate) fn next_late(&mut self, now: Time) -> Option<TeamId> {
        let (_, due) = self.deadlines.first().copied().filter(|(at, _)| *at <= now)?;
        self.late_at(due, None);
        Some(due)
    }

    /// The time of a group is over: members that have places and are not bound give them back, and wait with the
    /// others. If there are none, it is looked at once more, and refused for that.
    pub(crate) fn out_of_time(&mut self, id: TeamId, now: Time) -> Option<Decision> {
        let team = self.world.teams.of(id);
        let at = team.due_at()?;
        if at > now {
            self.late_at(id, Some(at));
            return None;
        }
        let (key, min, bound) = (team.key.clone(), team.group()?.policy.min(), team.counts().assigned);
        let meant = |pod: &PodId| self.world.pod(*pod).on.is_some() && !self.world.pod(*pod).bound;
        let placed: Vec<PodId> = team.members.iter().copied().filter(meant).collect();
        if placed.is_empty() {
            if let Some(entry) = team.entry {
                self.queue.wake_parked(entry);
            }
            return None;
        }
        let names: Vec<PodKey> = placed.iter().map(|pod| self.world.pod(*pod).key.clone()).collect();
        self.retry_group(&key, &names, now);
        let words = format!(
            "minCount ({min}) was not reached in time: {bound} bound, {} had places but could not be bound yet",
            placed.len()
        );
        let refused =
            self.refused_members(&placed, reasons::UNSCHEDULABLE, vec![words.clone(); placed.len()]);
        Some(self.spoken(id, GroupVerdict::Late(words), refused))
    }

    /// How much room would help a group of equal pods that lack nothing else.
    fn lack(&self, task: &Task, failure: &Failure, room: &Room) -> Option<Lack> {
        let only_room = Cures { node: true, room: true, ..Cures::default() };
        let class = self.one_plain_class(task).filter(|_| failure.cures == only_room)?;
        let (reach, counts) = match room {
            Room::Found(_) | Room::UnderWay => (failure.placed, Counted::Free),
            _ if task.preempts => (failure.reach, Counted::Above(task.priority)),
            _ => (failure.placed, Counted::Above(i64::MIN)),
        };
        Some(Lack { class, pods: failure.need.saturating_sub(reach).max(1), counts })
    }

    /// The class of all members, when other pods and claims mean nothing to them.
    fn one_plain_class(&self, task: &Task) -> Option<u32> {
        let class = self.world.pod(*task.members.first()?).class;
        let plain = |id: &PodId| self.world.pod(*id).class == class && !self.world.pod(*id).claims();
        let plain = !self.world.class(class).looks_at_pods() && task.members.iter().all(plain);
        (plain && task.topology.is_none()).then_some(class)
    }

    /// The class and sort of all members, when a refusal of one such group is a refusal of all.
    fn memorable(&self, task: &Task) -> Option<(u32, u32)> {
        let class = self.one_plain_class(task)?;
        let sort = self.world.pod(*task.members.first()?).sort;
        let same = |id: &PodId| self.world.pod(*id).sort == sort && self.world.pod(*id).nominated.is_none();
        task.members.iter().all(same).then_some((class, sort))
    }

    /// The refusal that a group like this one got, if nothing changed since.
    pub(crate) fn remembered_group(&self, task: &Task) -> Option<(Failure, Room)> {
        let (class, sort) = self.memorable(task)?;
        let it = self.world.class(class).refused_group.as_ref()?;
        let same = it.at == self.world.changes
            && it.sort == sort
            && it.rank == (task.priority, task.preempts)
            && it.need <= task.need();
        if !same {
            return None;
        }
        let rest = |placed: usize| task.need() - 1 - placed;
        let room = match &it.room {
            Room::Useless { placed, .. } => Room::Useless { placed: *placed, rest: rest(*placed) },
            other => other.clone(),
        };
        let failed = &task.members[it.placed..task.members.len() - rest(it.placed)];
        let failure = Failure {
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

    fn remember_group(&mut self, task: &Task, failure: &Failure, room: &Room) {
        let Some((class, sort)) = self.memorable(task) else { return };
        let Some(tally) = failure.tallies.first().filter(|_| failure.reach < failure.need) else { return };
        let memory = Memory {
            at: self.world.changes,
            sort,
            rank: (task.priority, task.preempts),
            need: failure.need,
            placed: failure.placed,
            reach: failure.reach,
            tally: tally.clone(),
            cures: failure.cures,
            room: room.clone(),
        };
        self.world.class_mut(class).0.refused_group = Some(memory);
    }

    /// The group that goes with a pod when that one is evicted.
    #[must_use]
    pub fn goes_with(&self, pod: &PodKey) -> Option<&PodKey> {
        let team = self.world.teams.of(self.world.pod(*self.index.get(pod)?).team?);
        team.goes_whole().then_some(&team.key)
    }
}
