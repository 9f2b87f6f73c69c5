//! Classes of pods: equal demands, compiled once, with the nodes ranked for them.
//!
//! A class reads the change log of the table from where it last stopped: only rows that changed are looked at
//! again. Stale entries of the heap are recognised by the stamp of their row.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use muster_api::node::NodeFacts;

use muster_tree::Tree;

use crate::counts::CounterId;
use crate::demand::Demand;
use crate::gang::{Fence, Memory};
use crate::packing::Packing;
use crate::reason::{Reason, Refused};
use crate::score::{self, Raw};
use crate::site::Named;
use crate::table::{Asks, CPU, MEMORY, Row, Table};
use crate::twins::{Sort, Twins};

/// A class.
pub type ClassId = u32;

/// Entries of a heap per node, stale ones included, before it is built anew.
const HEAP_PER_NODE_MAX: usize = 4;

/// What a class says of a node, free amounts and other pods aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Never.
    No(No),
    /// It may do.
    Yes(Raw),
}

/// Why never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum No {
    /// Nobody told us of the node.
    Unknown,
    /// The affinity names others.
    NotNamed,
    /// Cordoned.
    Unschedulable,
    /// A taint.
    Taint,
    /// Selector or affinity.
    Affinity,
}

impl No {
    /// As a reason.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            No::Unknown | No::NotNamed => Reason::NotNamed,
            No::Unschedulable => Reason::Unschedulable,
            No::Taint => Reason::UntoleratedTaint,
            No::Affinity => Reason::Affinity,
        }
    }
}

/// A rule of spreading, compiled.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// What counts.
    pub counter: CounterId,
    /// Largest difference.
    pub skew: i64,
    /// Fewest domains.
    pub min_domains: i64,
}

/// A refusal that holds while nothing changes.
#[derive(Debug)]
pub struct Remembered {
    /// When it was made, as a count of changes.
    pub at: u64,
    /// The sort of the pod.
    pub sort: u32,
    /// Its priority and whether it may preempt.
    pub rank: (i64, bool),
    /// What it asked for beyond its class.
    pub shape: Vec<Tree>,
    /// The refusal.
    pub refused: Refused,
}

/// One class.
#[derive(Debug)]
pub struct Class {
    /// The demand.
    pub demand: Demand,
    /// How many pods have it.
    pub users: u32,
    /// What a pod takes.
    pub asks: Asks,
    /// Whether it asks nothing of a node without taints.
    bland: bool,
    /// Which nodes it names.
    pub named: Named,
    /// What it asks for that nodes are filled up by.
    pub packed: Vec<(usize, i64)>,
    /// Whether it asks for CPU or memory at all.
    pub balances: bool,
    /// Counters of pods that must be near, one per label.
    pub near: Vec<CounterId>,
    /// Counters of pods that must not be near.
    pub far: Vec<CounterId>,
    /// Counters of pods better near, or not.
    pub likes: Vec<(i64, CounterId)>,
    /// Rules that must hold.
    pub hard: Vec<Rule>,
    /// Rules that would be nice.
    pub soft: Vec<Rule>,
    /// Counters of the terms its pods carry.
    pub carried: Vec<CounterId>,
    /// The last refusal.
    pub remembered: Option<Remembered>,
    /// The last refusal of a group of such pods alone.
    pub refused_group: Option<Memory>,
    verdicts: Vec<(u32, Verdict)>,
    ranking: Ranking,
    /// The same within the fence of this number.
    fenced: (u64, Ranking),
}

/// A node of a ranking: score, row, the stamp of the row when it was ranked, and the sort for which it stands.
type Ranked = (i64, Reverse<Row>, u32, u32);

/// The sort of a node that stands for itself alone.
const ALONE: u32 = u32::MAX;

/// Nodes, the best on top.
#[derive(Debug, Default)]
struct Ranking {
    top: Raw,
    heap: BinaryHeap<Ranked>,
    read: Option<u64>,
    /// Where the change log ended when all were ranked.
    ranked: u64,
    /// Nodes that were alike then, of each sort one in the heap.
    sorts: Vec<Rest>,
}

/// Nodes that are alike, and how many of them were in the heap so far.
#[derive(Debug)]
struct Rest {
    rows: Sort,
    seen: usize,
}

impl Ranking {
    /// Puts a sort in, with its first row.
    fn push_sort(&mut self, score: i64, rows: &Sort, table: &Table) {
        let sort = u32::try_from(self.sorts.len()).expect("fewer nodes than 2^32");
        self.sorts.push(Rest { rows: rows.clone(), seen: 0 });
        self.push_next(score, sort, table);
    }

    /// The next of a sort takes its place in the heap; those that changed since stand for themselves.
    fn push_next(&mut self, score: i64, sort: u32, table: &Table) {
        let Some(rest) = self.sorts.get_mut(sort as usize) else { return };
        let next = rest.rows[rest.seen..].iter().position(|row| table.is_as_at(*row, self.ranked));
        let Some(next) = next.map(|skipped| rest.seen + skipped) else {
            rest.seen = rest.rows.len();
            return;
        };
        rest.seen = next + 1;
        let row = rest.rows[next];
        self.heap.push((score, Reverse(row), table.stamp(row), sort));
    }

    /// Takes the best off, which stands for itself from now on.
    fn pop(&mut self, table: &Table) -> Option<Ranked> {
        let (score, row, stamp, sort) = self.heap.pop()?;
        self.push_next(score, sort, table);
        Some((score, row, stamp, ALONE))
    }
}

impl Class {
    /// A class without counters yet.
    pub fn new(demand: Demand, packing: Packing, table: &mut Table) -> Class {
        let asks = table.asks(&demand.request);
        let packs = |(resource, _): &&(usize, i64)| packing.packs(table.resource_name(*resource));
        let packed = asks.amounts.iter().filter(packs).copied().collect();
        let mut class = Class {
            bland: demand.site.is_bland(),
            named: demand.site.named(),
            demand,
            users: 0,
            asks,
            packed,
            balances: false,
            near: Vec::new(),
            far: Vec::new(),
            likes: Vec::new(),
            hard: Vec::new(),
            soft: Vec::new(),
            carried: Vec::new(),
            remembered: None,
            refused_group: None,
            verdicts: Vec::new(),
            ranking: Ranking::default(),
            fenced: (0, Ranking::default()),
        };
        class.balances = class.asked(CPU) > 0 || class.asked(MEMORY) > 0;
        class
    }

    /// How much it asks of a resource.
    pub fn asked(&self, resource: usize) -> i64 {
        self.asks.amounts.iter().find(|(known, _)| *known == resource).map_or(0, |(_, amount)| *amount)
    }

    /// Whether other pods matter to it.
    pub fn looks_at_pods(&self) -> bool {
        let terms = self.near.len() + self.far.len() + self.likes.len();
        terms + self.hard.len() + self.soft.len() > 0
    }

    /// All counters it holds.
    pub fn counters(&self) -> impl Iterator<Item = CounterId> + '_ {
        let rules = self.hard.iter().chain(&self.soft).map(|rule| rule.counter);
        let likes = self.likes.iter().map(|(_, counter)| *counter);
        self.near.iter().chain(&self.far).chain(&self.carried).copied().chain(likes).chain(rules)
    }

    /// What it says of a node.
    pub fn verdict(&mut self, table: &Table, row: Row) -> Verdict {
        if self.bland && table.is_plain(row) {
            return Verdict::Yes(Raw::default());
        }
        let at = row as usize;
        if self.verdicts.len() <= at {
            // No row has had this many changes: it stands for "not looked at".
            self.verdicts.resize(table.rows().max(at + 1), (u32::MAX, Verdict::No(No::Unknown)));
        }
        let (stamp, verdict) = self.verdicts[at];
        if stamp == table.facts_stamp(row) {
            return verdict;
        }
        let verdict = table.facts(row).map_or(Verdict::No(No::Unknown), |facts| self.judge(facts));
        self.verdicts[at] = (table.facts_stamp(row), verdict);
        verdict
    }

    fn judge(&self, facts: &NodeFacts) -> Verdict {
        let site = &self.demand.site;
        if matches!(&self.named, Named::Only(names) if names.binary_search(&facts.name).is_err()) {
            Verdict::No(No::NotNamed)
        } else if facts.unschedulable && !site.accepts_cordon() {
            Verdict::No(No::Unschedulable)
        } else if !site.accepts_taints(facts) {
            Verdict::No(No::Taint)
        } else if !site.matches(facts) {
            Verdict::No(No::Affinity)
        } else {
            Verdict::Yes(Raw { taints: site.soft_taints(facts), preference: site.preference(facts) })
        }
    }

    /// The best node that fits, within the fence if there is one; it stays on top until something about it changes.
    /// Whether all were ranked anew.
    pub fn best(&mut self, table: &Table, twins: &mut Twins, fence: Option<&Fence>) -> (Option<Row>, bool) {
        let mut ranking = self.take_ranking(fence);
        let anew = self.catch_up(&mut ranking, table, twins, fence);
        let mut best = None;
        while let Some((_, Reverse(row), stamp, _)) = ranking.heap.peek() {
            if *stamp == table.stamp(*row) {
                best = Some(*row);
                break;
            }
            ranking.pop(table);
        }
        *self.ranking_mut(fence.is_some()) = ranking;
        (best, anew)
    }

    /// Takes the best node off the ranking; give it back with [`Class::put_back`].
    pub fn set_aside(&mut self, table: &Table, fenced: bool) -> Option<Ranked> {
        self.ranking_mut(fenced).pop(table)
    }

    /// Gives back what was set aside.
    pub fn put_back(&mut self, aside: Vec<Ranked>, fenced: bool) {
        self.ranking_mut(fenced).heap.extend(aside);
    }

    fn ranking_mut(&mut self, fenced: bool) -> &mut Ranking {
        if fenced { &mut self.fenced.1 } else { &mut self.ranking }
    }

    /// The ranking, out of its place; an empty one when it is of another fence.
    fn take_ranking(&mut self, fence: Option<&Fence>) -> Ranking {
        let Some(fence) = fence else { return std::mem::take(&mut self.ranking) };
        if self.fenced.0 != fence.number {
            self.fenced = (fence.number, Ranking::default());
        }
        std::mem::take(&mut self.fenced.1)
    }

    /// Looks at what changed since the last time; whether everything was ranked anew.
    fn catch_up(
        &mut self,
        ranking: &mut Ranking,
        table: &Table,
        twins: &mut Twins,
        fence: Option<&Fence>,
    ) -> bool {
        let changed = ranking.read.and_then(|read| table.changed_since(read));
        ranking.read = Some(table.log_end());
        let many = fence.map_or(table.rows(), |fence| fence.rows.len());
        let littered = ranking.heap.len() > HEAP_PER_NODE_MAX * (many + 1);
        let few = |changed: &&[Row]| !littered && changed.len() * 2 <= many + 2;
        let Some(changed) = changed.filter(few) else {
            self.rank_all(ranking, table, twins, fence);
            return true;
        };
        for row in changed.iter().filter(|row| fence.is_none_or(|fence| fence.has(**row))) {
            let before = self.verdicts.get(*row as usize).map(|(_, verdict)| *verdict);
            let after = self.verdict(table, *row);
            if moves_top(before, after) {
                self.rank_all(ranking, table, twins, fence);
                return true;
            }
            if let Verdict::Yes(raw) = after
                && table.fits(*row, &self.asks)
            {
                let entry = self.entry(ranking.top, table, *row, raw);
                ranking.heap.push(entry);
            }
        }
        false
    }

    fn rank_all(&mut self, ranking: &mut Ranking, table: &Table, twins: &mut Twins, fence: Option<&Fence>) {
        *ranking = Ranking { read: ranking.read, ranked: table.log_end(), ..Ranking::default() };
        match fence {
            Some(fence) => self.rank_singly(ranking, table, fence.rows.iter().copied()),
            // Which ports are taken is each row's own.
            None if !self.bland || !self.asks.ports.is_empty() || !twins.catch_up(table) => {
                self.rank_singly(ranking, table, table.nodes());
            }
            None => {
                self.rank_singly(ranking, table, twins.others());
                self.rank_sorts(ranking, table, twins);
            }
        }
    }

    /// Ranks rows one by one.
    fn rank_singly(&mut self, ranking: &mut Ranking, table: &Table, rows: impl Iterator<Item = Row>) {
        let looked = rows.filter_map(|row| match self.verdict(table, row) {
            Verdict::Yes(raw) => Some((row, raw)),
            Verdict::No(_) => None,
        });
        let yes: Vec<(Row, Raw)> = looked.collect();
        ranking.top = yes.iter().fold(Raw::default(), |top, (_, raw)| top.max(*raw));
        let fits = yes.into_iter().filter(|(row, _)| table.fits(*row, &self.asks));
        let entries: Vec<_> = fits.map(|(row, raw)| self.entry(ranking.top, table, row, raw)).collect();
        ranking.heap = BinaryHeap::from(entries);
    }

    /// Adds the nodes of which it wants nothing, one of each sort: the others are as good.
    fn rank_sorts(&self, ranking: &mut Ranking, table: &Table, twins: &Twins) {
        for rows in twins.sorts() {
            let Some(first) = rows.first().filter(|row| table.has_amounts(**row, &self.asks)) else {
                continue;
            };
            let (score, ..) = self.entry(ranking.top, table, *first, Raw::default());
            ranking.push_sort(score, rows, table);
        }
    }

    fn entry(&self, top: Raw, table: &Table, row: Row, raw: Raw) -> Ranked {
        let score = raw.score(top) + score::amounts(table, row, self);
        (score::among_equals(score, table, row), Reverse(row), table.stamp(row), ALONE)
    }
}

/// Whether what the others are measured against may have changed.
fn moves_top(before: Option<Verdict>, after: Verdict) -> bool {
    let raw = |verdict: Verdict| if let Verdict::Yes(raw) = verdict { raw } else { Raw::default() };
    before.map(raw).unwrap_or_default() != raw(after)
}
