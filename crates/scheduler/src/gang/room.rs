//! Making room for a group by evicting less important pods and groups.
//!
//! All less important units are taken away in thought. If the group then finds nodes, as many units as possible are
//! given back, those first whose budget would be violated, the most important first; what cannot be given back goes.
//! Nodes are chosen by what has to go there: as few violations of budgets as possible, then the least important
//! units, then as few pods as possible. Where that does not lead to a placement, the usual choice of nodes is tried.
//!
//! # Invariants
//!
//! - Whatever is found, the world is left as it was.
//! - Members are looked at once more with everybody back who stays: nobody is bound against a rule because few were
//!   looked at.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::Unit;
use super::cycle::Task;
use super::refuse::Failure;
use crate::choose::Stats;
use crate::class::{ClassId, Verdict};
use crate::counts::{CounterId, SortId};
use crate::pod::Budget;
use crate::table::Row;
use crate::world::{PodId, World};

/// Classes of members up to which nodes are chosen by what has to go there.
const PRICED_CLASSES_MAX: usize = 16;

/// What can be done for a group that found no nodes.
#[derive(Debug)]
pub enum Plan {
    /// Nobody is less important.
    Nobody,
    /// Nothing: with all of them gone too few find nodes.
    Useless(Failure),
    /// Nobody has to go: these nodes are taken.
    Free(Vec<(PodId, Row)>),
    /// When these units are gone, members can have these nodes.
    Evict {
        /// Members and nodes.
        placed: Vec<(PodId, Row)>,
        /// Who goes.
        units: Vec<Unit>,
    },
}

/// A member and its node.
type Seat = (PodId, Row);

/// Members by what may turn against them when a unit comes back. Of members that a count concerns alike there is one.
struct Seats {
    by_row: BTreeMap<Row, Vec<PodId>>,
    /// Those that a count of pods in their domain may forbid where they are.
    by_domain: BTreeMap<(CounterId, u32), Vec<Seat>>,
    /// Those that may stand alone only while they are the first that they want near.
    by_near: BTreeMap<CounterId, Vec<Seat>>,
    /// Those with volumes or devices.
    claimers: Vec<Seat>,
}

/// Against whom a unit with volumes or devices is held that comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// Members on its own nodes: there most that is claimed is.
    Here,
    /// All members with claims.
    Everywhere,
}

/// What has to go from a node: violations of budgets, the most important unit, pods.
type Price = (usize, i64, usize);

/// A node, the cheapest on top, with the version of its tenants.
type Offer = Reverse<(Price, Row, u32)>;

/// Units on one node, the least important first.
#[derive(Debug, Default)]
struct Tenants {
    units: Vec<(usize, Vec<PodId>)>,
    version: u32,
}

/// Nodes by what has to go there.
struct Market<'a> {
    units: &'a [Unit],
    tenants: BTreeMap<Row, Tenants>,
    /// Units that go anyway.
    doomed: Vec<bool>,
    offers: Vec<(ClassId, BinaryHeap<Offer>)>,
}

impl World {
    /// Looks for room for a group; takes nodes only where nobody has to go for it.
    pub fn plan_room(&mut self, task: &Task, budgets: &[&Budget], stats: &mut Stats) -> Plan {
        let units = self.units_below(task.priority, budgets);
        if units.is_empty() {
            return Plan::Nobody;
        }
        let marks = self.mark();
        units.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.lift(*pod));
        let found = self.place_where_cheap(task, &units);
        let placed = match found.map_or_else(|| self.place(task, stats), Ok) {
            Ok(placed) => placed,
            Err(failure) => {
                units.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.give_back(*pod));
                self.undo(&[], marks);
                return Plan::Useless(failure);
            }
        };
        let victims = self.give_back_all_but_victims(&placed, units);
        if victims.is_empty() {
            return Plan::Free(placed);
        }
        victims.iter().flat_map(|unit| &unit.pods).for_each(|pod| self.give_back(*pod));
        self.undo(&placed, marks);
        Plan::Evict { placed, units: victims }
    }

    /// Gives units back as long as the members keep their nodes; those that stay away.
    fn give_back_all_but_victims(&mut self, placed: &[Seat], units: Vec<Unit>) -> Vec<Unit> {
        let (violating, fine): (Vec<Unit>, Vec<Unit>) = units.into_iter().partition(|unit| unit.violates);
        let units: Vec<Unit> = violating.into_iter().chain(fine).collect();
        let seats = Seats::of(self, placed);
        // Siblings that came later may be in the way of a member: no unit is to blame for that.
        let firm: Vec<Seat> = placed.iter().copied().filter(|(pod, row)| self.keeps(*pod, *row)).collect();
        for claims in [Claims::Here, Claims::Everywhere] {
            let goes = self.who_goes(&seats, &units, claims);
            if firm.iter().all(|(pod, row)| self.keeps(*pod, *row)) {
                return units.into_iter().zip(goes).filter_map(|(unit, goes)| goes.then_some(unit)).collect();
            }
            let back = units.iter().zip(&goes).filter(|(_, goes)| !**goes);
            back.flat_map(|(unit, _)| &unit.pods).for_each(|pod| self.lift(*pod));
        }
        units
    }

    /// Gives units back one by one; which of them were taken away again.
    fn who_goes(&mut self, seats: &Seats, units: &[Unit], claims: Claims) -> Vec<bool> {
        let mut goes = Vec::with_capacity(units.len());
        for unit in units {
            unit.pods.iter().for_each(|pod| self.give_back(*pod));
            let fits = self.still_fit(seats, unit, claims);
            if !fits {
                unit.pods.iter().for_each(|pod| self.lift(*pod));
            }
            goes.push(!fits);
        }
        goes
    }

    /// Whether the members keep their nodes with a unit back.
    fn still_fit(&mut self, seats: &Seats, unit: &Unit, claims: Claims) -> bool {
        let mut rows: Vec<Row> = unit.pods.iter().filter_map(|pod| self.pod(*pod).on).collect();
        rows.sort_unstable();
        rows.dedup();
        let concerned = seats.concerned(self, unit, claims);
        rows.into_iter().all(|row| seats.by_row.get(&row).is_none_or(|pods| self.all_keep(pods, row)))
            && concerned.into_iter().all(|(pod, row)| self.keeps(pod, row))
    }

    /// Whether members on one node have what they ask of it alone.
    fn all_keep(&mut self, pods: &[PodId], row: Row) -> bool {
        let plain =
            |id: &PodId| !self.pod(*id).claims() && self.class(self.pod(*id).class).asks.ports.is_empty();
        if self.nominated.contains_key(&row) || !pods.iter().all(plain) {
            return pods.iter().all(|pod| self.keeps(*pod, row));
        }
        let enough = |id: &PodId| {
            let amounts = &self.class(self.pod(*id).class).asks.amounts;
            amounts.iter().all(|(resource, _)| self.table.left(row, *resource) >= 0)
        };
        pods.iter().all(enough)
    }

    /// Whether nothing speaks against a member where it was put.
    fn keeps(&mut self, id: PodId, row: Row) -> bool {
        self.pretend(id, row, -1);
        let fine = self.wrong_with_nominated(id, row).is_none();
        self.pretend(id, row, 1);
        fine
    }

    /// Places members on the nodes where the least has to go; `None` when that does not lead anywhere.
    fn place_where_cheap(&mut self, task: &Task, units: &[Unit]) -> Option<Vec<(PodId, Row)>> {
        let classes: BTreeSet<ClassId> = task.members.iter().map(|id| self.pod(*id).class).collect();
        if task.topology.is_some() || classes.len() > PRICED_CLASSES_MAX {
            return None;
        }
        let marks = self.mark();
        let mut market = Market::open(self, units);
        let mut placed: Vec<(PodId, Row)> = Vec::new();
        for (at, id) in task.members.iter().enumerate() {
            if let Some(row) = market.buy(self, *id) {
                placed.push((*id, row));
            } else if placed.len() + task.members.len() - at - 1 < task.need() {
                break;
            }
        }
        if placed.len() >= task.need() {
            return Some(placed);
        }
        self.undo(&placed, marks);
        None
    }
}

impl Seats {
    fn of(world: &World, placed: &[Seat]) -> Seats {
        let mut seats = Seats {
            by_row: BTreeMap::new(),
            by_domain: BTreeMap::new(),
            by_near: BTreeMap::new(),
            claimers: Vec::new(),
        };
        let mut known: BTreeSet<(CounterId, u32, ClassId, SortId, Option<Row>)> = BTreeSet::new();
        for (id, row) in placed {
            let pod = world.pod(*id);
            let class = world.class(pod.class);
            seats.by_row.entry(*row).or_default().push(*id);
            if pod.claims() {
                seats.claimers.push((*id, *row));
            }
            // Where room is being made for others, they count as well, on that node alone.
            let apart = world.nominated.contains_key(row).then_some(*row);
            let limits = class.far.iter().copied().chain(class.hard.iter().map(|rule| rule.counter));
            for counter in limits.chain(world.counts.may_forbid(pod.sort)) {
                let Some(domain) = world.counts.domain(counter, *row) else { continue };
                if known.insert((counter, domain, pod.class, pod.sort, apart)) {
                    seats.by_domain.entry((counter, domain)).or_default().push((*id, *row));
                }
            }
            if class.near.iter().all(|counter| world.counts.counts_sort(*counter, pod.sort)) {
                class.near.iter().for_each(|it| seats.by_near.entry(*it).or_default().push((*id, *row)));
            }
        }
        seats
    }

    /// The members that are to be looked at one by one with a unit back.
    fn concerned(&self, world: &World, unit: &Unit, claims: Claims) -> BTreeSet<Seat> {
        let mut found = BTreeSet::new();
        let own = i64::try_from(unit.pods.len()).unwrap_or(i64::MAX - 1);
        for id in &unit.pods {
            let pod = world.pod(*id);
            let Some(row) = pod.on else { continue };
            let counters = world.counts.counted_by(pod.sort).iter().chain(&world.class(pod.class).carried);
            for counter in counters {
                let domain = world.counts.domain(*counter, row);
                let here = domain.and_then(|domain| self.by_domain.get(&(*counter, domain)));
                found.extend(here.into_iter().flatten().copied());
                // Beside a second one nobody is the first.
                if world.counts.total(*counter) <= own + 1 {
                    found.extend(self.by_near.get(counter).into_iter().flatten().copied());
                }
            }
            if claims == Claims::Everywhere && pod.claims() {
                found.extend(self.claimers.iter().copied());
            }
        }
        found
    }
}

impl<'a> Market<'a> {
    /// All nodes with the units that were lifted from them.
    fn open(world: &World, units: &'a [Unit]) -> Market<'a> {
        let mut tenants: BTreeMap<Row, Tenants> = BTreeMap::new();
        for (at, unit) in units.iter().enumerate().rev() {
            for pod in &unit.pods {
                let Some(row) = world.pod(*pod).on else { continue };
                let here = &mut tenants.entry(row).or_default().units;
                match here.last_mut().filter(|(last, _)| *last == at) {
                    Some((_, pods)) => pods.push(*pod),
                    None => here.push((at, vec![*pod])),
                }
            }
        }
        Market { units, tenants, doomed: vec![false; units.len()], offers: Vec::new() }
    }

    /// Puts a member where the least has to go.
    fn buy(&mut self, world: &mut World, id: PodId) -> Option<Row> {
        let at = self.offers_for(world, id);
        let company = world.company(id);
        let mut aside = Vec::new();
        let row = loop {
            let Some(Reverse((price, row, version))) = self.offers[at].1.pop() else { break None };
            if version != self.version(row) {
                continue;
            }
            if world.wrong_here(id, &company, row).is_none() {
                break Some(row);
            }
            aside.push(Reverse((price, row, version)));
        };
        self.offers[at].1.extend(aside);
        let row = row?;
        let (_, doomed) = self.price(world, world.pod(id).class, row);
        world.put(id, row);
        self.settle(world, row, &doomed);
        Some(row)
    }

    /// The offers for members of a class.
    fn offers_for(&mut self, world: &mut World, id: PodId) -> usize {
        let class = world.pod(id).class;
        if let Some(at) = self.offers.iter().position(|(known, _)| *known == class) {
            return at;
        }
        let rows: Vec<Row> = world.table.nodes().collect();
        let offers = rows.into_iter().filter_map(|row| self.offer(world, class, row)).collect();
        self.offers.push((class, offers));
        self.offers.len() - 1
    }

    fn offer(&self, world: &mut World, class_id: ClassId, row: Row) -> Option<Offer> {
        let (class, table) = world.class_mut(class_id);
        if !matches!(class.verdict(table, row), Verdict::Yes(_)) || !table.fits(row, &class.asks) {
            return None;
        }
        Some(Reverse((self.price(world, class_id, row).0, row, self.version(row))))
    }

    fn version(&self, row: Row) -> u32 {
        self.tenants.get(&row).map_or(0, |tenants| tenants.version)
    }

    /// What has to go from a node so that a member fits, by amounts.
    fn price(&self, world: &World, class: ClassId, row: Row) -> (Price, Vec<usize>) {
        let asks = &world.class(class).asks.amounts;
        let stay = |unit: &usize| !self.doomed[*unit];
        let none = Tenants::default();
        let tenants = self.tenants.get(&row).unwrap_or(&none);
        let here = || tenants.units.iter().filter(|(unit, _)| stay(unit));
        let asked = |pod: &PodId, resource: usize| world.class(world.pod(*pod).class).asked(resource);
        let mut short: Vec<(usize, i64)> = asks
            .iter()
            .map(|(resource, amount)| {
                let taken: i64 = here().flat_map(|(_, pods)| pods).map(|pod| asked(pod, *resource)).sum();
                (*resource, amount + taken - world.table.left(row, *resource))
            })
            .collect();
        let (mut price, mut doomed): (Price, Vec<usize>) = ((0, i64::MIN, 0), Vec::new());
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
            doomed.push(*unit);
        }
        (price, doomed)
    }

    /// A member was put on a row and these units go for it: what changed is offered anew.
    fn settle(&mut self, world: &mut World, row: Row, doomed: &[usize]) {
        let mut rows = vec![row];
        for unit in doomed {
            self.doomed[*unit] = true;
            rows.extend(self.units[*unit].pods.iter().filter_map(|pod| world.pod(*pod).on));
        }
        rows.sort_unstable();
        rows.dedup();
        for row in rows {
            self.tenants.entry(row).or_default().version += 1;
            for at in 0..self.offers.len() {
                let class = self.offers[at].0;
                if let Some(offer) = self.offer(world, class, row) {
                    self.offers[at].1.push(offer);
                }
            }
        }
    }
}
