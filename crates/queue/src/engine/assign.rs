//! Flavors for a workload: which one each resource of each set of pods gets, and at what price.
//!
//! # Invariants
//!
//! - All resources of one group get the same flavor, in one set of pods.
//! - What earlier sets take counts when later ones are looked at.
//! - Everything that was looked at is kept ([`Look`]): an explanation reads it, and never asks again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_tree::Text;

use super::amount::{minus, plus};
use super::flavor;
use super::hold::Scene;
use super::look::{Grade, Look, Obstacle, ResourceLook};
use super::preempt::{self, Ask};
use super::spec::{Group, PODS, Preference, Reclaim, Search};
use super::tree::{NodeId, PairId, Usage};
use super::workload::{Amounts, Info, PodSet, SetAssignment};

/// Who asks for flavors.
pub struct Applicant<'a> {
    /// Its queue.
    pub node: NodeId,
    /// What it is.
    pub info: &'a Info,
    /// Since when it waits.
    pub since: Time,
    /// Where an earlier attempt stopped.
    pub tried: &'a Tried,
}

/// The last flavor looked at, by set of pods and group, where an attempt stopped before the last one.
pub type Tried = BTreeMap<(usize, usize), usize>;

/// Whether an attempt that stopped at `now` is further on than the one that stopped at `before`.
///
/// A group that is not named was looked at to its end, and begins anew. Without an order among such states two sets of
/// pods could take turns: one begins anew whenever the other one stops, for ever.
#[must_use]
pub fn goes_on(before: &Tried, now: &Tried) -> bool {
    let at = |tried: &Tried, place| tried.get(place).copied().unwrap_or(usize::MAX);
    let places: BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let differs = places.into_iter().find(|place| at(before, place) != at(now, place));
    before.is_empty() || differs.is_some_and(|place| at(now, place) > at(before, place))
}

/// What one resource got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The flavor.
    pub flavor: Text,
    /// Both together.
    pub pair: PairId,
    /// How much.
    pub amount: i64,
    /// How well it serves.
    pub grade: Grade,
}

/// What one set of pods got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetChoice {
    /// The set.
    pub name: Text,
    /// For how many pods.
    pub count: i64,
    /// What each resource got; empty if the set got nothing.
    pub choices: BTreeMap<Text, Choice>,
    /// What was looked at.
    pub looks: Vec<Look>,
    /// What is in the way, if the set does not simply fit.
    pub obstacle: Option<Obstacle>,
    /// The same in words, sorted.
    pub sentences: Vec<String>,
    /// It got nothing.
    pub failed: bool,
}

/// The outcome for a whole workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// By set, up to the first one that got nothing.
    pub sets: Vec<SetChoice>,
    /// All that would be taken.
    pub usage: BTreeMap<PairId, i64>,
    /// From how high up it borrows.
    pub height: usize,
    /// Where the search stopped before the last flavor.
    pub tried: Tried,
}

/// What an assignment comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// It cannot be.
    NoFit,
    /// Someone has to go first.
    Preempt,
    /// It fits.
    Fit,
}

impl Assignment {
    /// What it comes to: the worst of its parts.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.sets.iter().any(|set| set.failed) {
            return Mode::NoFit;
        }
        let fits = self.choices().all(|choice| choice.grade == Grade::Fit);
        if fits { Mode::Fit } else { Mode::Preempt }
    }

    fn choices(&self) -> impl Iterator<Item = &Choice> {
        self.sets.iter().flat_map(|set| set.choices.values())
    }

    /// The pairs on which someone would have to go.
    #[must_use]
    pub fn contested(&self) -> Vec<PairId> {
        let mut pairs: Vec<PairId> =
            self.choices().filter(|choice| choice.grade != Grade::Fit).map(|choice| choice.pair).collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    /// All that it takes.
    #[must_use]
    pub fn uses(&self) -> Vec<(PairId, i64)> {
        self.usage.iter().map(|(&pair, &amount)| (pair, amount)).collect()
    }

    /// The worst thing in its way.
    #[must_use]
    pub fn obstacle(&self) -> Option<Obstacle> {
        self.sets.iter().filter_map(|set| set.obstacle).min()
    }

    /// Why it does not simply fit, in the words of the condition.
    #[must_use]
    pub fn message(&self) -> String {
        let sets = self.sets.iter().filter(|set| !set.sentences.is_empty());
        let lines: Vec<String> = sets
            .map(|set| {
                format!("couldn't assign flavors to pod set {}: {}", set.name, set.sentences.join(", "))
            })
            .collect();
        lines.join("; ")
    }

    /// What is written into an admission.
    #[must_use]
    pub fn admitted(&self) -> Vec<SetAssignment> {
        let set = |set: &SetChoice| SetAssignment {
            name: set.name.clone(),
            flavors: set.choices.iter().map(|(name, choice)| (name.clone(), choice.flavor.clone())).collect(),
            usage: set.choices.iter().map(|(name, choice)| (name.clone(), choice.amount)).collect(),
            count: set.count,
        };
        self.sets.iter().map(set).collect()
    }
}

/// Looks for flavors; `counts` are the sizes of the sets, where they are not to be taken as they are.
#[must_use]
pub fn assign(
    scene: &Scene<'_>,
    usage: &mut Usage,
    who: &Applicant<'_>,
    counts: Option<&[i64]>,
) -> Assignment {
    let counts_pods = scene.specs[who.node].group_of(PODS).is_some();
    let mut done = Assignment::default();
    for (index, set) in who.info.pod_sets.iter().enumerate() {
        let count = counts.and_then(|all| all.get(index)).copied().unwrap_or_else(|| set.left());
        let asks = set.asks(count, counts_pods);
        let mut desk = Desk { scene, usage, who, set, index, done: &mut done };
        let choice = desk.serve(count, &asks);
        let failed = choice.failed;
        for it in choice.choices.values() {
            let sum = done.usage.entry(it.pair).or_default();
            *sum = plus(*sum, it.amount);
        }
        done.sets.push(choice);
        if failed {
            break;
        }
    }
    done
}

/// One set of pods being served.
struct Desk<'a, 'b> {
    scene: &'a Scene<'a>,
    usage: &'a mut Usage,
    who: &'a Applicant<'b>,
    set: &'a PodSet,
    index: usize,
    done: &'a mut Assignment,
}

impl Desk<'_, '_> {
    fn serve(&mut self, count: i64, asks: &Amounts) -> SetChoice {
        let mut choice = SetChoice {
            name: self.set.name.clone(),
            count,
            choices: BTreeMap::new(),
            looks: Vec::new(),
            obstacle: None,
            sentences: Vec::new(),
            failed: false,
        };
        for (resource, &amount) in asks {
            if choice.choices.contains_key(resource) {
                continue;
            }
            let Some(group) = self.scene.specs[self.who.node].group_of(resource) else {
                if amount == 0 {
                    continue;
                }
                let sentence = format!("resource {resource} unavailable in ClusterQueue");
                return choice.give_up(Obstacle::NoMatchingFlavor, vec![sentence]);
            };
            let found = self.search(group, asks);
            let obstacle = found.looks.iter().map(Look::obstacle).max().unwrap_or(Obstacle::NoMatchingFlavor);
            let mut sentences: Vec<String> = found.looks.iter().flat_map(Look::sentences).collect();
            choice.looks.extend(found.looks);
            let Some(best) = found.best else {
                return choice.give_up(obstacle, sentences);
            };
            self.done.height = self.done.height.max(best.height);
            let fits = best.choices.values().all(|it| it.grade == Grade::Fit);
            choice.choices.extend(best.choices);
            if !fits {
                choice.obstacle = Some(choice.obstacle.map_or(obstacle, |other| other.min(obstacle)));
                choice.sentences.append(&mut sentences);
            }
        }
        choice.sentences.sort();
        choice
    }

    /// Tries the flavors of a group in order.
    fn search(&mut self, group_index: usize, asks: &Amounts) -> Found {
        let spec = &self.scene.specs[self.who.node];
        let group = &spec.groups[group_index];
        let place = (self.index, group_index);
        let start = self.who.tried.get(&place).map_or(0, |last| last + 1);
        let mut found = Found { best: None, looks: Vec::new() };
        let mut best_rank = None;
        for at in start..group.flavors.len() {
            let look = self.look(group, at, asks);
            let rank = rank(spec.fungibility.preference, look.grade(), look.height());
            if look.grade() > Grade::NoFit && best_rank.is_none_or(|best| rank > best) {
                best_rank = Some(rank);
                found.best = Some(self.take(&look));
            }
            let stop = may_stop(spec.fungibility.when_can_preempt, spec.fungibility.when_can_borrow, &look);
            found.looks.push(look);
            if stop {
                if at + 1 < group.flavors.len() {
                    self.done.tried.insert(place, at);
                }
                break;
            }
        }
        found
    }

    fn take(&self, look: &Look) -> Best {
        let pair = |resource: &Text| self.scene.tree.pair(&look.flavor, resource);
        let choices = look.resources.iter().filter_map(|it| {
            let choice = Choice {
                flavor: look.flavor.clone(),
                pair: pair(&it.resource)?,
                amount: it.requested,
                grade: it.grade,
            };
            Some((it.resource.clone(), choice))
        });
        Best { choices: choices.collect(), height: look.height() }
    }

    fn look(&mut self, group: &Group, at: usize, asks: &Amounts) -> Look {
        let (name, quotas) = &group.flavors[at];
        let unsuitable = match self.scene.flavors.get(name) {
            None => Some(format!("flavor {name} not found")),
            Some(flavor) => flavor::refusal(flavor, self.set),
        };
        let mut look = Look { flavor: name.clone(), unsuitable, resources: Vec::new() };
        if look.unsuitable.is_none() {
            let asked = asks.iter().filter(|(resource, _)| quotas.contains_key(*resource));
            for (resource, &amount) in asked {
                if let Some(pair) = self.scene.tree.pair(name, resource) {
                    look.resources.push(self.weigh(resource, pair, amount));
                }
            }
        }
        look
    }

    /// How well one pair serves a request.
    fn weigh(&mut self, resource: &Text, pair: PairId, requested: i64) -> ResourceLook {
        let (tree, node) = (self.scene.tree, self.who.node);
        let before = self.done.usage.get(&pair).copied().unwrap_or(0);
        let value = plus(before, requested);
        let (available, maximum) = (tree.available(self.usage, node, pair), tree.potential(node, pair));
        let (reach, owed) = tree.reach(self.usage, node, pair, value);
        let (grade, height) = if value > maximum {
            (Grade::NoFit, reach)
        } else if value <= available {
            (Grade::Fit, reach)
        } else if tree.nominal(node, pair) >= value || owed || self.may_preempt_while_borrowing() {
            self.simulate(pair, value, reach)
        } else {
            (Grade::NoFit, reach)
        };
        let shortfall = minus(value, available).max(0);
        ResourceLook {
            resource: resource.clone(),
            requested,
            before,
            available,
            maximum,
            shortfall,
            grade,
            height,
        }
    }

    fn may_preempt_while_borrowing(&self) -> bool {
        let policy = &self.scene.specs[self.who.node].preemption;
        policy.while_borrowing.is_some()
            || (self.scene.settings.fair_sharing.is_some() && policy.reclaim != Reclaim::Never)
    }

    /// Asks whom it would cost to have this much of one pair, and from how high up it would then be borrowed.
    fn simulate(&mut self, pair: PairId, value: i64, reach: usize) -> (Grade, usize) {
        let node = self.who.node;
        let ask = Ask {
            node,
            priority: self.who.info.priority,
            since: self.who.since,
            uses: vec![(pair, value)],
            contested: vec![pair],
        };
        let targets = preempt::targets(self.scene, self.usage, &ask);
        if targets.is_empty() {
            return (Grade::NoCandidates, reach);
        }
        targets.iter().for_each(|it| self.scene.remove(self.usage, &it.holder));
        let (height, _) = self.scene.tree.reach(self.usage, node, pair, value);
        targets.iter().for_each(|it| self.scene.restore(self.usage, &it.holder));
        let own = targets.iter().any(|it| it.holder.node == node);
        (if own { Grade::Preempt } else { Grade::Reclaim }, height)
    }
}

impl SetChoice {
    fn give_up(mut self, obstacle: Obstacle, mut sentences: Vec<String>) -> SetChoice {
        sentences.sort();
        SetChoice {
            choices: BTreeMap::new(),
            obstacle: Some(obstacle),
            sentences,
            failed: true,
            looks: std::mem::take(&mut self.looks),
            ..self
        }
    }
}

struct Best {
    choices: BTreeMap<Text, Choice>,
    height: usize,
}

struct Found {
    best: Option<Best>,
    looks: Vec<Look>,
}

/// Ranks flavors: higher is better.
type FlavorRank = (Grade, Reverse<usize>, Grade);

fn rank(preference: Preference, grade: Grade, height: usize) -> FlavorRank {
    match (preference, grade) {
        // Without hope the price does not matter.
        (_, Grade::NoFit | Grade::NoCandidates) => (grade, Reverse(height), grade),
        (Preference::BorrowingOverPreemption, Grade::Preempt | Grade::Reclaim | Grade::Fit) => {
            (grade, Reverse(height), grade)
        }
        (Preference::PreemptionOverBorrowing, Grade::Preempt | Grade::Reclaim | Grade::Fit) => {
            (Grade::Fit, Reverse(height), grade)
        }
    }
}

/// Whether to be content with what was found.
fn may_stop(when_can_preempt: Search, when_can_borrow: Search, look: &Look) -> bool {
    let content = match look.grade() {
        Grade::NoFit | Grade::NoCandidates => false,
        Grade::Preempt | Grade::Reclaim => when_can_preempt == Search::MayStop,
        Grade::Fit => true,
    };
    content && (look.height() == 0 || when_can_borrow == Search::MayStop)
}
