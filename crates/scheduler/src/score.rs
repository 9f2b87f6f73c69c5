//! How good a node is for a pod: whole numbers from 0 to 100 per aspect, weighted and summed.

use crate::class::Class;
use crate::table::{CPU, MEMORY, Row, Table};

/// The best an aspect can be.
pub const BEST: i64 = 100;
/// Weight of soft taints.
const TAINTS: i64 = 3;
/// Weight of preferred node affinity.
const PREFERENCE: i64 = 2;
/// Weight of preferred pod affinity.
pub const COMPANY: i64 = 2;
/// Weight of spreading.
pub const SPREAD: i64 = 2;
/// Weight of the choices of devices.
pub const CHOICES: i64 = 2;

/// So many pods weigh less than one point.
const PODS_PER_POINT: i64 = 1 << 20;

/// What the node itself gives: soft taints not tolerated, weights of matching preferences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Raw {
    /// Soft taints that are not tolerated.
    pub taints: i64,
    /// Weights of the preferences that match.
    pub preference: i64,
}

impl Raw {
    /// The larger of each.
    #[must_use]
    pub fn max(self, other: Raw) -> Raw {
        Raw { taints: self.taints.max(other.taints), preference: self.preference.max(other.preference) }
    }

    /// The weighted score, measured against the largest there is.
    #[must_use]
    pub fn score(self, top: Raw) -> i64 {
        let taints = if top.taints == 0 { BEST } else { BEST - BEST * self.taints / top.taints };
        let preference = if top.preference == 0 { 0 } else { BEST * self.preference / top.preference };
        TAINTS * taints + PREFERENCE * preference
    }
}

/// Of nodes with equal scores the one with fewer pods is better.
pub fn among_equals(score: i64, table: &Table, row: Row) -> i64 {
    score * PODS_PER_POINT - i64::try_from(table.pods(row).len()).unwrap_or(0).min(PODS_PER_POINT - 1)
}

/// How well the pod's amounts suit the node: its fullness, and how balanced its use stays.
pub fn amounts(table: &Table, row: Row, class: &Class) -> i64 {
    let fullness = if class.packed.is_empty() {
        least_allocated(table, row, class)
    } else {
        most_allocated(table, row, class)
    };
    fullness + if class.balances { balanced(table, row, class) } else { 0 }
}

/// The emptier, the better.
fn least_allocated(table: &Table, row: Row, class: &Class) -> i64 {
    let taken = table.scored(row);
    let (mut sum, mut parts) = (0, 0);
    for resource in [CPU, MEMORY] {
        let all = table.allocatable(row, resource);
        if all != 0 {
            let asked = taken[resource] + class.asks.scored[resource];
            sum += if asked > all { 0 } else { part(all - asked, all) };
            parts += 1;
        }
    }
    if parts == 0 { 0 } else { sum / parts }
}

/// The fuller, the better: scarce devices are packed, so that whole nodes stay free for those who need many.
fn most_allocated(table: &Table, row: Row, class: &Class) -> i64 {
    let (mut sum, mut parts) = (0, 0);
    for (resource, amount) in &class.packed {
        let all = table.allocatable(row, *resource);
        if all != 0 {
            sum += part((table.used(row, *resource) + amount).min(all), all);
            parts += 1;
        }
    }
    if parts == 0 { 0 } else { sum / parts }
}

fn part(some: i64, all: i64) -> i64 {
    some.checked_mul(BEST).map_or_else(|| some / (all / BEST).max(1), |product| product / all)
}

/// Whether the node's use of CPU and memory gets more balanced (above 75) or less.
fn balanced(table: &Table, row: Row, class: &Class) -> i64 {
    let after = balance(table, row, [class.asked(CPU), class.asked(MEMORY)]);
    let before = balance(table, row, [0, 0]);
    BEST / 2 + (BEST / 2 + after - before) / 2
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "fractions of one")]
fn balance(table: &Table, row: Row, more: [i64; 2]) -> i64 {
    let fraction = |resource: usize| {
        let all = table.allocatable(row, resource);
        let asked = table.used(row, resource) + more[resource];
        (all != 0).then(|| (asked as f64 / all as f64).min(1.0))
    };
    let uneven = match (fraction(CPU), fraction(MEMORY)) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - uneven) * BEST as f64) as i64
}
