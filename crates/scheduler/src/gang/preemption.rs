//! Preemption for a pod group: selects pods and whole groups of lower priority as victims.
//!
//! A dry run evicts every unit of lower priority. If the group then fits, as many units as possible are reprieved, first
//! those whose PodDisruptionBudget would be violated, then by priority; the rest are the victims. Nodes are chosen by
//! eviction cost: fewest budget violations, then the lowest priority, then the fewest pods. If that finds no placement,
//! the normal scores are used.
//!
//! # Guarantees
//!
//! - The cache is left unchanged, except if no victim is needed: then the members are assumed.
//! - Every member is filtered again with all reprieved units in place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::PreemptionUnit;
use super::cycle::GroupCycle;
use super::unschedulable::GroupFailure;
use crate::cache::{PodId, SchedulerCache};
use crate::counts::{CounterId, LabelProfileId};
use crate::equivalence_class::{ClassId, NodeFit};
use crate::node_table::NodeRow;
use crate::pod::Budget;
use crate::select_node::Stats;

/// Equivalence classes of members above which nodes are chosen by the normal scores.
const COSTED_CLASSES_MAX: usize = 16;

/// The outcome of group preemption.
#[derive(Debug)]
pub enum GroupPreemptionPlan {
    /// No pod has a lower priority.
    NoVictims,
    /// Too few members fit even with every unit evicted.
    Useless(GroupFailure),
    /// No victim is needed: the members are assumed.
    Free(Vec<(PodId, NodeRow)>),
    /// The members fit on these nodes once these units are evicted.
    Evict { placed: Vec<(PodId, NodeRow)>, units: Vec<PreemptionUnit> },
}

type Assignment = (PodId, NodeRow);

/// Members by what a reprieved unit may violate. Members that a count affects equally are represented by one.
struct MemberIndex {
    by_row: BTreeMap<NodeRow, Vec<PodId>>,
    /// Members with anti-affinity or spread constraints, by counter and domain.
    by_domain: BTreeMap<(CounterId, u32), Vec<Assignment>>,
    /// Members whose own affinity only holds while no other pod matches it.
    by_affinity: BTreeMap<CounterId, Vec<Assignment>>,
    with_claims: Vec<Assignment>,
}

/// Which members are filtered again when a unit with claims is reprieved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// Members on the nodes of the unit: most claims are local to a node.
    Here,
    /// All members with claims.
    Everywhere,
}

/// Eviction cost of a node: budget violations, highest priority, number of pods.
type EvictionCost = (usize, i64, usize);

/// A node in a min-heap by cost, with the version of its units.
type RankedUnit = Reverse<(EvictionCost, NodeRow, u32)>;

/// Preemptible units on one node, the lowest priority first.
#[derive(Debug, Default)]
struct NodeUnits {
    units: Vec<(usize, Vec<PodId>)>,
    version: u32,
}

/// Nodes by eviction cost.
struct NodesByCost<'a> {
    units: &'a [PreemptionUnit],
    units_by_row: BTreeMap<NodeRow, NodeUnits>,
    /// Units that are victims already.
    victims_so_far: Vec<bool>,
    offers: Vec<(ClassId, BinaryHeap<RankedUnit>)>,
}

impl SchedulerCache {
    /// Plans preemption for a group; assumes members only if no victim is needed.
    pub fn plan_group_preemption(
        &mut self,
        task: &GroupCycle,
        budgets: &[&Budget],
        stats: &mut Stats,
    ) -> GroupPreemptionPlan {
        let units = self.units_below(task.priority, budgets);
        if units.is_empty() {
            return GroupPreemptionPlan::NoVictims;
        }
        let marks = self.checkpoint();
        units.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.dry_run_evict(*pod));
        let found = self.place_at_lowest_cost(task, &units);
        let placed = match found.map_or_else(|| self.place_group(task, stats), Ok) {
            Ok(placed) => placed,
            Err(failure) => {
                units.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.restore(*pod));
                self.roll_back(&[], marks);
                return GroupPreemptionPlan::Useless(failure);
            }
        };
        let victims = self.reprieve_units_except_victims(&placed, units);
        if victims.is_empty() {
            return GroupPreemptionPlan::Free(placed);
        }
        victims.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.restore(*pod));
        self.roll_back(&placed, marks);
        GroupPreemptionPlan::Evict { placed, units: victims }
    }

    /// Reprieves units as long as the members stay feasible; returns the victims.
    fn reprieve_units_except_victims(
        &mut self,
        placed: &[Assignment],
        units: Vec<PreemptionUnit>,
    ) -> Vec<PreemptionUnit> {
        let (violating, fine): (Vec<PreemptionUnit>, Vec<PreemptionUnit>) =
            units.into_iter().partition(|unit| unit.violates);
        let units: Vec<PreemptionUnit> = violating.into_iter().chain(fine).collect();
        let seats = MemberIndex::of(self, placed);
        // A member may be infeasible because of members placed after it; no unit causes that.
        let firm: Vec<Assignment> =
            placed.iter().copied().filter(|(pod, row)| self.keeps(*pod, *row)).collect();
        // Most claims are local to a node: check all members only if the cheap check left a member infeasible.
        for claims in [Claims::Here, Claims::Everywhere] {
            let goes = self.reprieve_units(&seats, &units, claims);
            if firm.iter().all(|(pod, row)| self.keeps(*pod, *row)) {
                return units.into_iter().zip(goes).filter_map(|(unit, goes)| goes.then_some(unit)).collect();
            }
            let back = units.iter().zip(&goes).filter(|(_, goes)| !**goes);
            back.flat_map(|(unit, _)| &unit.pods).for_each(|pod| self.dry_run_evict(*pod));
        }
        units
    }

    /// Reprieves units one by one; returns which of them stay victims.
    fn reprieve_units(&mut self, seats: &MemberIndex, units: &[PreemptionUnit], claims: Claims) -> Vec<bool> {
        let mut goes = Vec::with_capacity(units.len());
        for unit in units {
            unit.pods.iter().for_each(|pod| self.restore(*pod));
            let fits = self.still_fit(seats, unit, claims);
            if !fits {
                unit.pods.iter().for_each(|pod| self.dry_run_evict(*pod));
            }
            goes.push(!fits);
        }
        goes
    }

    /// Whether the members stay feasible with a unit reprieved.
    fn still_fit(&mut self, seats: &MemberIndex, unit: &PreemptionUnit, claims: Claims) -> bool {
        let mut rows: Vec<NodeRow> = unit.pods.iter().filter_map(|pod| self.pod(*pod).on).collect();
        rows.sort_unstable();
        rows.dedup();
        let affected_by = seats.affected_by(self, unit, claims);
        rows.into_iter()
            .all(|row| seats.by_row.get(&row).is_none_or(|pods| self.resources_suffice(pods, row)))
            && affected_by.into_iter().all(|(pod, row)| self.keeps(pod, row))
    }

    /// Whether the resources of one node suffice for the members on it.
    fn resources_suffice(&mut self, pods: &[PodId], row: NodeRow) -> bool {
        let plain = |id: &PodId| {
            !self.pod(*id).has_claims() && self.class(self.pod(*id).class).requests.ports.is_empty()
        };
        if self.nominated.contains_key(&row) || !pods.iter().all(plain) {
            return pods.iter().all(|pod| self.keeps(*pod, row));
        }
        let enough = |id: &PodId| {
            let amounts = &self.class(self.pod(*id).class).requests.amounts;
            amounts.iter().all(|(resource, _)| self.table.left(row, *resource) >= 0)
        };
        pods.iter().all(enough)
    }

    /// Whether all filters pass for a member on its node.
    fn keeps(&mut self, id: PodId, row: NodeRow) -> bool {
        self.simulate(id, row, -1);
        let fine = self.filter_with_nominated(id, row).is_none();
        self.simulate(id, row, 1);
        fine
    }

    /// Schedules members on the nodes with the lowest eviction cost; `None` if too few fit.
    fn place_at_lowest_cost(
        &mut self,
        task: &GroupCycle,
        units: &[PreemptionUnit],
    ) -> Option<Vec<(PodId, NodeRow)>> {
        let classes: BTreeSet<ClassId> = task.members.iter().map(|id| self.pod(*id).class).collect();
        if task.topology.is_some() || classes.len() > COSTED_CLASSES_MAX {
            return None;
        }
        let marks = self.checkpoint();
        let mut market = NodesByCost::open(self, units);
        let mut placed: Vec<(PodId, NodeRow)> = Vec::new();
        for (at, id) in task.members.iter().enumerate() {
            if let Some(row) = market.place_member(self, *id) {
                placed.push((*id, row));
            } else if placed.len() + task.members.len() - at - 1 < task.need() {
                break;
            }
        }
        if placed.len() >= task.need() {
            return Some(placed);
        }
        self.roll_back(&placed, marks);
        None
    }
}

impl MemberIndex {
    fn of(world: &SchedulerCache, placed: &[Assignment]) -> MemberIndex {
        let mut seats = MemberIndex {
            by_row: BTreeMap::new(),
            by_domain: BTreeMap::new(),
            by_affinity: BTreeMap::new(),
            with_claims: Vec::new(),
        };
        let mut known: BTreeSet<(CounterId, u32, ClassId, LabelProfileId, Option<NodeRow>)> = BTreeSet::new();
        for (id, row) in placed {
            let pod = world.pod(*id);
            let class = world.class(pod.class);
            seats.by_row.entry(*row).or_default().push(*id);
            if pod.has_claims() {
                seats.with_claims.push((*id, *row));
            }
            // Pods nominated for this node count here, and on this node only.
            let apart = world.nominated.contains_key(row).then_some(*row);
            let limits =
                class.anti_affinity.iter().copied().chain(class.hard.iter().map(|rule| rule.counter));
            for counter in limits.chain(world.counts.anti_affinity_terms(pod.profile)) {
                let Some(domain) = world.counts.domain(counter, *row) else { continue };
                if known.insert((counter, domain, pod.class, pod.profile, apart)) {
                    seats.by_domain.entry((counter, domain)).or_default().push((*id, *row));
                }
            }
            if class.affinity.iter().all(|counter| world.counts.counts_profile(*counter, pod.profile)) {
                class
                    .affinity
                    .iter()
                    .for_each(|it| seats.by_affinity.entry(*it).or_default().push((*id, *row)));
            }
        }
        seats
    }

    /// The members that must be filtered again when a unit is reprieved.
    fn affected_by(
        &self,
        world: &SchedulerCache,
        unit: &PreemptionUnit,
        claims: Claims,
    ) -> BTreeSet<Assignment> {
        let mut found = BTreeSet::new();
        let own = i64::try_from(unit.pods.len()).unwrap_or(i64::MAX - 1);
        for id in &unit.pods {
            let pod = world.pod(*id);
            let Some(row) = pod.on else { continue };
            let counters =
                world.counts.counted_by(pod.profile).iter().chain(&world.class(pod.class).own_terms);
            for counter in counters {
                let domain = world.counts.domain(*counter, row);
                let here = domain.and_then(|domain| self.by_domain.get(&(*counter, domain)));
                found.extend(here.into_iter().flatten().copied());
                // With a second matching pod the first-pod exception of affinity no longer holds.
                if world.counts.total(*counter) <= own + 1 {
                    found.extend(self.by_affinity.get(counter).into_iter().flatten().copied());
                }
            }
            if claims == Claims::Everywhere && pod.has_claims() {
                found.extend(self.with_claims.iter().copied());
            }
        }
        found
    }
}

impl<'a> NodesByCost<'a> {
    /// All nodes with the units that were evicted from them in the dry run.
    fn open(world: &SchedulerCache, units: &'a [PreemptionUnit]) -> NodesByCost<'a> {
        let mut units_by_row: BTreeMap<NodeRow, NodeUnits> = BTreeMap::new();
        for (at, unit) in units.iter().enumerate().rev() {
            for pod in &unit.pods {
                let Some(row) = world.pod(*pod).on else { continue };
                let here = &mut units_by_row.entry(row).or_default().units;
                match here.last_mut().filter(|(last, _)| *last == at) {
                    Some((_, pods)) => pods.push(*pod),
                    None => here.push((at, vec![*pod])),
                }
            }
        }
        NodesByCost { units, units_by_row, victims_so_far: vec![false; units.len()], offers: Vec::new() }
    }

    /// Schedules a member on the feasible node with the lowest cost.
    fn place_member(&mut self, world: &mut SchedulerCache, id: PodId) -> Option<NodeRow> {
        let at = self.heap_for(world, id);
        let company = world.pre_filter(id);
        let mut aside = Vec::new();
        let row = loop {
            let Some(Reverse((price, row, version))) = self.offers[at].1.pop() else { break None };
            // A stale heap entry: the units on the row changed since it was pushed.
            if version != self.version(row) {
                continue;
            }
            if world.filter_node(id, &company, row).is_none() {
                break Some(row);
            }
            aside.push(Reverse((price, row, version)));
        };
        self.offers[at].1.extend(aside);
        let row = row?;
        let (_, victims_so_far) = self.price(world, world.pod(id).class, row);
        world.add_to_node(id, row);
        self.settle(world, row, &victims_so_far);
        Some(row)
    }

    /// The heap of nodes for a class, built at its first member.
    fn heap_for(&mut self, world: &mut SchedulerCache, id: PodId) -> usize {
        let class = world.pod(id).class;
        if let Some(at) = self.offers.iter().position(|(known, _)| *known == class) {
            return at;
        }
        let rows: Vec<NodeRow> = world.table.nodes().collect();
        let offers = rows.into_iter().filter_map(|row| self.offer(world, class, row)).collect();
        self.offers.push((class, offers));
        self.offers.len() - 1
    }

    fn offer(&self, world: &mut SchedulerCache, class_id: ClassId, row: NodeRow) -> Option<RankedUnit> {
        let (class, table) = world.class_mut(class_id);
        if !matches!(class.node_fit(table, row), NodeFit::Yes(_)) || !table.fits(row, &class.requests) {
            return None;
        }
        Some(Reverse((self.price(world, class_id, row).0, row, self.version(row))))
    }

    fn version(&self, row: NodeRow) -> u32 {
        self.units_by_row.get(&row).map_or(0, |units_by_row| units_by_row.version)
    }

    /// The cost and the units to evict from a node so that the requests of a member fit.
    fn price(&self, world: &SchedulerCache, class: ClassId, row: NodeRow) -> (EvictionCost, Vec<usize>) {
        let asks = &world.class(class).requests.amounts;
        let stay = |unit: &usize| !self.victims_so_far[*unit];
        let none = NodeUnits::default();
        let units_by_row = self.units_by_row.get(&row).unwrap_or(&none);
        let here = || units_by_row.units.iter().filter(|(unit, _)| stay(unit));
        let asked = |pod: &PodId, resource: usize| world.class(world.pod(*pod).class).requested(resource);
        let mut short: Vec<(usize, i64)> = asks
            .iter()
            .map(|(resource, amount)| {
                let taken: i64 = here().flat_map(|(_, pods)| pods).map(|pod| asked(pod, *resource)).sum();
                (*resource, amount + taken - world.table.left(row, *resource))
            })
            .collect();
        let (mut price, mut victims_so_far): (EvictionCost, Vec<usize>) = ((0, i64::MIN, 0), Vec::new());
        for (unit, pods) in here() {
            if short.iter().all(|(_, short)| *short <= 0) {
                break;
            }
            let helps = |(resource, short): &(usize, i64)| {
                *short > 0 && pods.iter().any(|pod| asked(pod, *resource) > 0)
            };
            if !short.iter().any(helps) {
                continue;
            }
            for (resource, short) in &mut short {
                *short -= pods.iter().map(|pod| asked(pod, *resource)).sum::<i64>();
            }
            let it = &self.units[*unit];
            price.0 += usize::from(it.violates);
            price.1 = price.1.max(it.priority);
            price.2 += it.pods.len();
            victims_so_far.push(*unit);
        }
        (price, victims_so_far)
    }

    /// Updates the heaps after a member was placed on a row at the cost of these units.
    fn settle(&mut self, world: &mut SchedulerCache, row: NodeRow, victims_so_far: &[usize]) {
        let mut rows = vec![row];
        for unit in victims_so_far {
            self.victims_so_far[*unit] = true;
            rows.extend(self.units[*unit].pods.iter().filter_map(|pod| world.pod(*pod).on));
        }
        rows.sort_unstable();
        rows.dedup();
        for row in rows {
            self.units_by_row.entry(row).or_default().version += 1;
            for at in 0..self.offers.len() {
                let class = self.offers[at].0;
                if let Some(offer) = self.offer(world, class, row) {
                    self.offers[at].1.push(offer);
                }
            }
        }
    }
}
