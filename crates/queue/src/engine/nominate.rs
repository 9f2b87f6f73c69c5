//! Nomination: flavors, victims if there must be any, and fewer pods if that helps.

use super::assign::{Applicant, Assignment, Mode, assign};
use super::hold::Scene;
use super::preempt::{self, Ask, Target};
use super::tree::Usage;

/// What a workload would get, and at whose expense.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Nomination {
    /// Its flavors.
    pub assignment: Assignment,
    /// Who would have to go.
    pub targets: Vec<Target>,
}

impl Nomination {
    fn helps(&self) -> bool {
        match self.assignment.mode() {
            Mode::Fit => true,
            Mode::Preempt => !self.targets.is_empty(),
            Mode::NoFit => false,
        }
    }
}

/// Nominates a workload as a whole, or with as many pods as can be had; if nothing helps, as a whole.
#[must_use]
pub fn nominate(scene: &Scene<'_>, usage: &mut Usage, who: &Applicant<'_>) -> Nomination {
    let whole = with_counts(scene, usage, who, None);
    if whole.helps() {
        return whole;
    }
    fewer(scene, usage, who).unwrap_or(whole)
}

fn with_counts(
    scene: &Scene<'_>,
    usage: &mut Usage,
    who: &Applicant<'_>,
    counts: Option<&[i64]>,
) -> Nomination {
    let assignment = assign(scene, usage, who, counts);
    let targets = match assignment.mode() {
        Mode::Fit | Mode::NoFit => Vec::new(),
        Mode::Preempt => {
            let ask = Ask {
                node: who.node,
                priority: who.info.priority,
                since: who.since,
                uses: assignment.uses(),
                contested: assignment.contested(),
            };
            preempt::targets(scene, usage, &ask)
        }
    };
    Nomination { assignment, targets }
}

/// The largest sizes between the least and the full ones that help, found by halving: fewer pods never need more.
fn fewer(scene: &Scene<'_>, usage: &mut Usage, who: &Applicant<'_>) -> Option<Nomination> {
    let full: Vec<i64> = who.info.pod_sets.iter().map(super::workload::PodSet::left).collect();
    let spare: Vec<i64> = who
        .info
        .pod_sets
        .iter()
        .zip(&full)
        .map(|(set, &count)| set.min_count.map_or(0, |least| (count - least).max(0)))
        .collect();
    let total: i64 = spare.iter().sum();
    let mut best = None;
    let (mut low, mut high) = (1, total);
    while low <= high {
        let cut = low + (high - low) / 2;
        let counts: Vec<i64> =
            full.iter().zip(&spare).map(|(&count, &spare)| count - spare * cut / total).collect();
        let tried = with_counts(scene, usage, who, Some(&counts));
        if tried.helps() {
            best = Some(tried);
            high = cut - 1;
        } else {
            low = cut + 1;
        }
    }
    best
}
