//! Choosing a node for one pod.
//!
//! The class's ranking gives the node: the best one that nothing beyond the class speaks against (fast path). Where
//! other pods make some nodes better than others, or too many of the best are spoken against, every node is looked
//! at, with the counts at hand (full scan). Both leave the world as it was; the caller takes the node.
//!
//! # Deliberately absent
//!
//! Sampling: the best of all nodes is taken. Chance among equals: the lowest row wins.

use crate::class::Verdict;
use crate::counts::CounterId;
use crate::reason::Tally;
use crate::score::{self, BEST, Raw};
use crate::site::Named;
use crate::table::Row;
use crate::world::{PodId, World};
use crate::wrong::{Company, Wrong};

/// What every term of the pod's affinity contradicting itself is called.
const CONFLICT: &str = "pod affinity terms conflict";

/// Nodes of the ranking that are spoken against before every node is looked at instead.
const ASIDE_MAX: usize = 64;

/// How placing went, for the bench.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pods that were given a node by the ranking alone.
    pub fast: u64,
    /// Pods for which every node was looked at.
    pub scans: u64,
    /// How often a class ranked all nodes anew.
    pub rankings: u64,
    /// Refusals that were worked out node by node.
    pub diagnoses: u64,
    /// Refusals that were still true and only repeated.
    pub repeated: u64,
    /// Tries to place a group.
    pub groups: u64,
}

/// Why no node was chosen.
#[derive(Debug, Default)]
pub struct Diagnosis {
    /// Node by node.
    pub tally: Tally,
    /// Nodes where evicting pods could help.
    pub resolvable: Vec<Row>,
}

/// What the ranking gave.
enum Best {
    Row(Row),
    None,
    TooManyAside,
}

/// A node that would do, with what its score is made of.
struct Candidate {
    row: Row,
    raw: Raw,
    amounts: i64,
    likes: i64,
    spread: Option<i64>,
    /// How good the choices of devices are.
    choices: i64,
}

impl World {
    /// The node for a pod, if one does.
    pub fn choose(&mut self, id: PodId, stats: &mut Stats) -> Option<Row> {
        let pod = self.pod(id);
        let class = pod.class;
        let impossible = self.class(class).named == Named::Nobody || self.hold(id).is_some();
        if self.table.len() == 0 || impossible {
            return None;
        }
        if let Some(row) = pod.nominated.filter(|row| self.is_inside(*row))
            && self.wrong_with_nominated(id, row).is_none()
        {
            return Some(row);
        }
        if !self.is_drawn(id) {
            match self.best(id, stats) {
                Best::Row(row) => {
                    stats.fast += 1;
                    return Some(row);
                }
                Best::None => return None,
                Best::TooManyAside => {}
            }
        }
        stats.scans += 1;
        self.scan(id)
    }

    /// Whether other pods make some nodes better than others.
    fn is_drawn(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        let class = self.class(pod.class);
        let liked = || self.counts.asked_by(pod.sort).any(|(_, likes)| likes != 0);
        let prefers = || !pod.devices.is_empty() && self.devices.prefers(&pod.asks_devices(id));
        !class.likes.is_empty() || !class.soft.is_empty() || liked() || prefers()
    }

    /// The best node of the ranking that nothing beyond the class speaks against.
    fn best(&mut self, id: PodId, stats: &mut Stats) -> Best {
        let class = self.pod(id).class;
        let free = self.nominated.is_empty() && !self.pod(id).claims();
        let company = (!free || self.looks_at_pods(id)).then(|| self.company(id));
        let mut aside = Vec::new();
        let found = loop {
            let World { classes, table, twins, fence, .. } = self;
            let ranked = classes[class as usize].as_mut().expect("a class in use exists");
            let (best, anew) = ranked.best(table, twins, fence.as_ref());
            stats.rankings += u64::from(anew);
            let Some(row) = best else { break Best::None };
            if company.as_ref().is_none_or(|company| self.wrong_here(id, company, row).is_none()) {
                break Best::Row(row);
            }
            if aside.len() >= ASIDE_MAX {
                break Best::TooManyAside;
            }
            let fenced = self.fence.is_some();
            let (ranked, table) = self.class_mut(class);
            aside.extend(ranked.set_aside(table, fenced));
        };
        let fenced = self.fence.is_some();
        self.class_mut(class).0.put_back(aside, fenced);
        found
    }

    fn scan(&mut self, id: PodId) -> Option<Row> {
        let mut best: Option<(i64, Row)> = None;
        for (row, score) in self.scores(id) {
            let score = score::among_equals(score, &self.table, row);
            if best.is_none_or(|(top, _)| score > top) {
                best = Some((score, row));
            }
        }
        best.map(|(_, row)| row)
    }

    /// Every node that would do, with its score.
    pub fn scores(&mut self, id: PodId) -> Vec<(Row, i64)> {
        let company = self.company(id);
        let mut candidates: Vec<Candidate> = Vec::new();
        for at in 0..self.table.rows() {
            let row = Row::try_from(at).expect("fewer nodes than 2^32");
            let looked_at = self.table.is_node(row) && self.is_inside(row);
            if !looked_at || self.wrong_here(id, &company, row).is_some() {
                continue;
            }
            let pod = self.pod(id);
            let choices =
                if pod.devices.is_empty() { 0 } else { self.devices.choices(&pod.asks_devices(id)) };
            let class_id = pod.class;
            let (class, table) = self.class_mut(class_id);
            if let Verdict::Yes(raw) = class.verdict(table, row) {
                let amounts = score::amounts(table, row, class);
                candidates.push(Candidate { row, raw, amounts, likes: 0, spread: None, choices });
            }
        }
        self.score_likes(id, &mut candidates);
        self.score_spread(id, &mut candidates);
        sums(&candidates)
    }

    /// What is wrong with a node, those in mind for whom room is being made there if there are any.
    pub fn wrong_here(&mut self, id: PodId, company: &Company, row: Row) -> Option<Wrong> {
        if self.nominated.contains_key(&row) {
            return self.wrong_with_nominated(id, row);
        }
        self.wrong(id, company, row)
    }

    /// What is wrong with every node.
    pub fn diagnose(&mut self, id: PodId) -> Diagnosis {
        let mut found = Diagnosis::default();
        self.devices.broken();
        found.tally.nodes = self.fence.as_ref().map_or(self.table.len(), |fence| fence.rows.len());
        let pod = self.pod(id);
        let conflict = (self.class(pod.class).named == Named::Nobody).then(|| CONFLICT.into());
        found.tally.whole = self.hold(id).or(conflict);
        if found.tally.whole.is_some() {
            return found;
        }
        let company = self.company(id);
        for at in 0..self.table.rows() {
            let row = Row::try_from(at).expect("fewer nodes than 2^32");
            if !self.table.is_node(row) || !self.is_inside(row) {
                continue;
            }
            if let Some(wrong) = self.wrong_here(id, &company, row) {
                self.tally_with_nominated(id, row, wrong, &mut found.tally);
                if self.resolvable(id, row, wrong) {
                    found.resolvable.push(row);
                }
            }
        }
        found.tally.broken = self.devices.broken();
        found
    }

    /// Amounts are short only with those in mind for whom room is being made: so is the tally.
    pub fn tally_with_nominated(&mut self, id: PodId, row: Row, wrong: Wrong, tally: &mut Tally) {
        let others = if wrong == Wrong::Amounts { self.nominated_above(id, row) } else { Vec::new() };
        others.iter().for_each(|other| self.pretend(*other, row, 1));
        self.tally(id, row, wrong, tally);
        others.iter().for_each(|other| self.pretend(*other, row, -1));
    }

    fn score_likes(&self, id: PodId, candidates: &mut [Candidate]) {
        let pod = self.pod(id);
        let mut likes: Vec<(i64, CounterId)> = self.class(pod.class).likes.clone();
        let carried = self.counts.asked_by(pod.sort).filter(|(_, weight)| *weight != 0);
        likes.extend(carried.map(|(counter, weight)| (weight, counter)));
        for candidate in candidates {
            let each = likes.iter().filter_map(|(weight, counter)| {
                Some(weight * i64::from(self.counts.at(*counter, candidate.row)?))
            });
            candidate.likes = each.sum();
        }
    }

    fn score_spread(&self, id: PodId, candidates: &mut [Candidate]) {
        let rules = &self.class(self.pod(id).class).soft;
        if rules.is_empty() {
            return;
        }
        let has_all = |row: Row| rules.iter().all(|rule| self.counts.domain(rule.counter, row).is_some());
        let inside: Vec<Row> = candidates.iter().map(|it| it.row).filter(|row| has_all(*row)).collect();
        let weights: Vec<f64> = rules.iter().map(|rule| self.domain_weight(rule.counter, &inside)).collect();
        for candidate in candidates.iter_mut().filter(|it| has_all(it.row)) {
            let each = rules.iter().zip(&weights).map(|(rule, weight)| {
                let count = self.counts.at(rule.counter, candidate.row).unwrap_or(0);
                #[expect(clippy::cast_precision_loss, reason = "a skew is small")]
                let skew = (rule.skew - 1) as f64;
                f64::from(count) * weight + skew
            });
            #[expect(clippy::cast_possible_truncation, reason = "counts of pods")]
            let sum = each.sum::<f64>().round() as i64;
            candidate.spread = Some(sum);
        }
    }

    /// More domains weigh more, so that small ones are not watered down by large ones.
    fn domain_weight(&self, counter: CounterId, rows: &[Row]) -> f64 {
        let mut domains: Vec<u32> = rows.iter().filter_map(|row| self.counts.domain(counter, *row)).collect();
        domains.sort_unstable();
        domains.dedup();
        #[expect(clippy::cast_precision_loss, reason = "numbers of domains")]
        let many = domains.len() as f64;
        (many + 2.0).ln()
    }
}

/// The sums of the candidates: each aspect is measured against the best of them.
fn sums(candidates: &[Candidate]) -> Vec<(Row, i64)> {
    let top = candidates.iter().fold(Raw::default(), |top, it| top.max(it.raw));
    let most = candidates.iter().map(|it| it.likes).max().unwrap_or(0);
    let least = candidates.iter().map(|it| it.likes).min().unwrap_or(0);
    let best_choices = candidates.iter().map(|it| it.choices).max().unwrap_or(0).max(1);
    let spreads = || candidates.iter().filter_map(|it| it.spread);
    let (high, low) = (spreads().max().unwrap_or(0), spreads().min().unwrap_or(0));
    let sum = |it: &Candidate| {
        let likes = if most == least { 0 } else { BEST * (it.likes - least) / (most - least) };
        let spread = match it.spread {
            None => 0,
            Some(_) if high == 0 => BEST,
            Some(sum) => BEST * (high + low - sum) / high,
        };
        (
            it.row,
            it.raw.score(top)
                + it.amounts
                + score::COMPANY * likes
                + score::SPREAD * spread
                + score::CHOICES * (BEST * it.choices / best_choices),
        )
    };
    candidates.iter().map(sum).collect()
}
