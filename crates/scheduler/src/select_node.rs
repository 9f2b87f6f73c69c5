//! Selects a node for one pod.
//!
//! Fast path: the best node of the class ranking that passes the remaining filters. Full scan: if scores depend on other
//! pods or devices, or too many top nodes are filtered out, every node is filtered and scored. Both leave the cache
//! unchanged; the caller assumes the pod.
//!
//! # Deliberately absent
//!
//! Node sampling, and a random choice among nodes with the same score: the lowest row wins, so runs are repeatable.

use crate::cache::{PodId, SchedulerCache};
use crate::counts::CounterId;
use crate::equivalence_class::NodeFit;
use crate::filters::{FilterFailure, PreFilterState};
use crate::node_affinity::NamedNodes;
use crate::node_table::NodeRow;
use crate::reason::ReasonCounts;
use crate::score::{self, BEST, RawScore};

/// kube-scheduler's message if no term of the required node affinity can match.
const AFFINITY_CONFLICT: &str = "pod affinity terms conflict";

/// Top nodes that may fail a filter before the full scan is used.
const FILTERED_TOP_MAX: usize = 64;

/// Scheduling counters, for benchmarks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Pods scheduled by the ranking alone.
    pub fast: u64,
    pub scans: u64,
    /// Rankings rebuilt from all nodes.
    pub rankings: u64,
    /// Fit errors computed node by node.
    pub diagnoses: u64,
    /// Fit errors served from the cache.
    pub repeated: u64,
    /// Scheduling attempts of groups.
    pub groups: u64,
}

/// Why no node is feasible.
#[derive(Debug, Default)]
pub struct Diagnosis {
    pub tally: ReasonCounts,
    /// Nodes where preemption may help.
    pub resolvable: Vec<NodeRow>,
}

enum Best {
    Row(NodeRow),
    None,
    TooManyFiltered,
}

/// A feasible node with its plugin scores.
struct Candidate {
    row: NodeRow,
    raw: RawScore,
    amounts: i64,
    likes: i64,
    spread: Option<i64>,
    /// Preference of the allocated `firstAvailable` alternatives.
    choices: i64,
}

impl SchedulerCache {
    /// The best feasible node for a pod.
    pub fn select_node(&mut self, id: PodId, stats: &mut Stats) -> Option<NodeRow> {
        let pod = self.pod(id);
        let class = pod.class;
        let impossible =
            self.class(class).named == NamedNodes::Unsatisfiable || self.pre_filter_error(id).is_some();
        if self.table.len() == 0 || impossible {
            return None;
        }
        // The nominated node is tried first, as kube-scheduler's evaluateNominatedNode: its victims were evicted for this pod.
        if let Some(row) = pod.nominated.filter(|row| self.in_scope(*row))
            && self.filter_with_nominated(id, row).is_none()
        {
            return Some(row);
        }
        if !self.needs_full_scan(id) {
            match self.best(id, stats) {
                Best::Row(row) => {
                    stats.fast += 1;
                    return Some(row);
                }
                Best::None => return None,
                Best::TooManyFiltered => {}
            }
        }
        stats.scans += 1;
        self.scan(id)
    }

    /// Whether scores depend on other pods or on devices, so that the ranking is not enough.
    fn needs_full_scan(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        let class = self.class(pod.class);
        let liked = || self.counts.matching_terms(pod.profile).any(|(_, likes)| likes != 0);
        let prefers = || !pod.devices.is_empty() && self.devices.prefers(&pod.device_claims(id));
        !class.preferred.is_empty() || !class.soft.is_empty() || liked() || prefers()
    }

    /// The best node of the ranking that passes the filters outside the class.
    fn best(&mut self, id: PodId, stats: &mut Stats) -> Best {
        let class = self.pod(id).class;
        let free = self.nominated.is_empty() && !self.pod(id).has_claims();
        let company = (!free || self.depends_on_pods(id)).then(|| self.pre_filter(id));
        let mut aside = Vec::new();
        let found = loop {
            let SchedulerCache { classes, table, node_classes: twins, scope: fence, .. } = self;
            let ranked = classes[class as usize].as_mut().expect("a class in use exists");
            let (best, anew) = ranked.best(table, twins, fence.as_ref());
            stats.rankings += u64::from(anew);
            let Some(row) = best else { break Best::None };
            if company.as_ref().is_none_or(|company| self.filter_node(id, company, row).is_none()) {
                break Best::Row(row);
            }
            // Each failed node costs a full filter run; beyond the limit a scan of all nodes is cheaper.
            if aside.len() >= FILTERED_TOP_MAX {
                break Best::TooManyFiltered;
            }
            let fenced = self.scope.is_some();
            let (ranked, table) = self.class_mut(class);
            aside.extend(ranked.pop_best(table, fenced));
        };
        let fenced = self.scope.is_some();
        self.class_mut(class).0.put_back(aside, fenced);
        found
    }

    fn scan(&mut self, id: PodId) -> Option<NodeRow> {
        let mut best: Option<(i64, NodeRow)> = None;
        for (row, score) in self.scores(id) {
            let score = score::among_equals(score, &self.table, row);
            if best.is_none_or(|(top, _)| score > top) {
                best = Some((score, row));
            }
        }
        best.map(|(_, row)| row)
    }

    /// Every feasible node with its weighted score.
    pub fn scores(&mut self, id: PodId) -> Vec<(NodeRow, i64)> {
        let company = self.pre_filter(id);
        let mut candidates: Vec<Candidate> = Vec::new();
        for at in 0..self.table.rows() {
            let row = NodeRow::try_from(at).expect("fewer nodes than 2^32");
            let looked_at = self.table.is_node(row) && self.in_scope(row);
            if !looked_at || self.filter_node(id, &company, row).is_some() {
                continue;
            }
            let pod = self.pod(id);
            let choices =
                if pod.devices.is_empty() { 0 } else { self.devices.choices(&pod.device_claims(id)) };
            let class_id = pod.class;
            let (class, table) = self.class_mut(class_id);
            if let NodeFit::Yes(raw) = class.node_fit(table, row) {
                let amounts = score::amounts(table, row, class);
                candidates.push(Candidate { row, raw, amounts, likes: 0, spread: None, choices });
            }
        }
        self.score_pod_affinity(id, &mut candidates);
        self.score_spread(id, &mut candidates);
        sums(&candidates)
    }

    /// Filters a node, with its nominated pods if there are any.
    pub fn filter_node(
        &mut self,
        id: PodId,
        company: &PreFilterState,
        row: NodeRow,
    ) -> Option<FilterFailure> {
        if self.nominated.contains_key(&row) {
            return self.filter_with_nominated(id, row);
        }
        self.filter(id, company, row)
    }

    /// Filters every node and collects the reasons.
    pub fn diagnose(&mut self, id: PodId) -> Diagnosis {
        let mut found = Diagnosis::default();
        // Drop an error of an earlier cycle: it must not be reported for this pod.
        self.devices.take_error();
        found.tally.nodes = self.scope.as_ref().map_or(self.table.len(), |fence| fence.rows.len());
        let pod = self.pod(id);
        let conflict =
            (self.class(pod.class).named == NamedNodes::Unsatisfiable).then(|| AFFINITY_CONFLICT.into());
        found.tally.pre_filter = self.pre_filter_error(id).or(conflict);
        if found.tally.pre_filter.is_some() {
            return found;
        }
        let company = self.pre_filter(id);
        for at in 0..self.table.rows() {
            let row = NodeRow::try_from(at).expect("fewer nodes than 2^32");
            if !self.table.is_node(row) || !self.in_scope(row) {
                continue;
            }
            if let Some(wrong) = self.filter_node(id, &company, row) {
                self.count_reasons_with_nominated(id, row, wrong, &mut found.tally);
                if self.resolvable(id, row, wrong) {
                    found.resolvable.push(row);
                }
            }
        }
        found.tally.error = self.devices.take_error();
        found
    }

    /// Counts the reasons of a node; insufficient resources are computed with the nominated pods added.
    pub fn count_reasons_with_nominated(
        &mut self,
        id: PodId,
        row: NodeRow,
        wrong: FilterFailure,
        tally: &mut ReasonCounts,
    ) {
        let others =
            if wrong == FilterFailure::Resources { self.nominated_above(id, row) } else { Vec::new() };
        others.iter().for_each(|other| self.simulate(*other, row, 1));
        self.count_reasons(id, row, wrong, tally);
        others.iter().for_each(|other| self.simulate(*other, row, -1));
    }

    fn score_pod_affinity(&self, id: PodId, candidates: &mut [Candidate]) {
        let pod = self.pod(id);
        let mut likes: Vec<(i64, CounterId)> = self.class(pod.class).preferred.clone();
        let carried = self.counts.matching_terms(pod.profile).filter(|(_, weight)| *weight != 0);
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
        let has_all = |row: NodeRow| rules.iter().all(|rule| self.counts.domain(rule.counter, row).is_some());
        let inside: Vec<NodeRow> = candidates.iter().map(|it| it.row).filter(|row| has_all(*row)).collect();
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

    /// `ln(domains + 2)`, as kube-scheduler's `topologyNormalizingWeight`: without it a key with many small domains would
    /// hardly count beside one with few large domains.
    fn domain_weight(&self, counter: CounterId, rows: &[NodeRow]) -> f64 {
        let mut domains: Vec<u32> = rows.iter().filter_map(|row| self.counts.domain(counter, *row)).collect();
        domains.sort_unstable();
        domains.dedup();
        #[expect(clippy::cast_precision_loss, reason = "numbers of domains")]
        let many = domains.len() as f64;
        (many + 2.0).ln()
    }
}

/// The weighted sum per candidate; each plugin score is normalised to 0..=100 over the candidates.
fn sums(candidates: &[Candidate]) -> Vec<(NodeRow, i64)> {
    let top = candidates.iter().fold(RawScore::default(), |top, it| top.max(it.raw));
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
                + score::INTER_POD_AFFINITY * likes
                + score::SPREAD * spread
                + score::DYNAMIC_RESOURCES * (BEST * it.choices / best_choices),
        )
    };
    candidates.iter().map(sum).collect()
}
