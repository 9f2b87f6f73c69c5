//! What quotas allow, read off stored objects by the rules as they are written down, and not as the engine has them: every
//! number is worked out anew each time.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::queue::{ClusterQueueFacts, CohortFacts, ResourceGroup, WorkloadFacts};
use muster_tree::{Text, Tree};

/// A resource of a flavor: flavor, resource.
pub type Pair = (Text, Text);
/// What is held: by queue and pair.
pub type Used = BTreeMap<(Text, Pair), i64>;

/// A queue or a cohort.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Queue(Text),
    Cohort(Text),
}

#[derive(Debug, Clone, Copy, Default)]
struct Quota {
    nominal: i64,
    borrowing: Option<i64>,
    lending: Option<i64>,
}

/// All quotas there are.
#[derive(Debug, Default)]
pub struct Quotas {
    /// The quotas of all queues and of the cohort.
    owned: BTreeMap<Place, BTreeMap<Pair, Quota>>,
    above: BTreeMap<Place, Text>,
}

impl Quotas {
    /// Those of these ClusterQueues and Cohorts.
    pub fn of<'a>(queues: impl Iterator<Item = &'a Tree>, cohorts: impl Iterator<Item = &'a Tree>) -> Quotas {
        let mut all = Quotas::default();
        for queue in queues.map(ClusterQueueFacts::of) {
            all.add(Place::Queue(queue.name), &queue.groups, &queue.cohort);
        }
        for cohort in cohorts.map(CohortFacts::of) {
            all.add(Place::Cohort(cohort.name), &cohort.groups, &cohort.parent);
        }
        all
    }

    fn add(&mut self, place: Place, groups: &[ResourceGroup], above: &Text) {
        let flavors = groups.iter().flat_map(|group| &group.flavors);
        let pairs = flavors.flat_map(|flavor| {
            flavor.resources.iter().map(|it| {
                let quota =
                    Quota { nominal: it.nominal, borrowing: it.borrowing_limit, lending: it.lending_limit };
                ((flavor.name.clone(), it.name.clone()), quota)
            })
        });
        self.owned.insert(place.clone(), pairs.collect());
        if !above.is_empty() {
            self.above.insert(place, above.clone());
        }
    }

    /// All pairs of a queue.
    pub fn pairs(&self, queue: &Text) -> Vec<Pair> {
        let own = self.owned.get(&Place::Queue(queue.clone()));
        own.into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    /// The available quota of a queue; `None` if its cohorts form a cycle, which blocks admission.
    pub fn available(&self, used: &Used, queue: &Text, pair: &Pair) -> Option<i64> {
        let place = Place::Queue(queue.clone());
        (!self.is_circular(&place)).then(|| Sum { quotas: self, used, pair }.available(&place))
    }

    fn is_circular(&self, place: &Place) -> bool {
        let mut seen = BTreeSet::new();
        let mut at = Some(place.clone());
        while let Some(here) = at {
            if !seen.insert(here.clone()) {
                return true;
            }
            at = self.parent(&here);
        }
        false
    }

    fn parent(&self, place: &Place) -> Option<Place> {
        self.above.get(place).cloned().map(Place::Cohort)
    }

    fn children(&self, place: &Place) -> Vec<&Place> {
        let Place::Cohort(name) = place else { return Vec::new() };
        self.above.iter().filter(|(_, above)| *above == name).map(|(child, _)| child).collect()
    }
}

/// Sums of one pair. The numbers of these worlds are small: nothing overflows.
struct Sum<'a> {
    quotas: &'a Quotas,
    used: &'a Used,
    pair: &'a Pair,
}

impl Sum<'_> {
    fn quota(&self, place: &Place) -> Quota {
        self.quotas.owned.get(place).and_then(|own| own.get(self.pair)).copied().unwrap_or_default()
    }

    /// What a place and all below it own, as far as it is lent.
    fn subtree(&self, place: &Place) -> i64 {
        let below = self.quotas.children(place).into_iter();
        self.quota(place).nominal + below.map(|child| self.subtree(child) - self.kept(child)).sum::<i64>()
    }

    /// The part that is not lent.
    fn kept(&self, place: &Place) -> i64 {
        self.quota(place).lending.map_or(0, |lent| (self.subtree(place) - lent).max(0))
    }

    fn taken(&self, place: &Place) -> i64 {
        match place {
            Place::Queue(name) => self.used.get(&(name.clone(), self.pair.clone())).copied().unwrap_or(0),
            Place::Cohort(_) => {
                let below = self.quotas.children(place).into_iter();
                below.map(|child| (self.taken(child) - self.kept(child)).max(0)).sum()
            }
        }
    }

    fn available(&self, place: &Place) -> i64 {
        let (subtree, kept, taken) = (self.subtree(place), self.kept(place), self.taken(place));
        let Some(parent) = self.quotas.parent(place) else { return subtree - taken };
        let above = self.available(&parent);
        let borrowed =
            self.quota(place).borrowing.map(|limit| subtree - kept - (taken - kept).max(0) + limit);
        (kept - taken).max(0) + borrowed.map_or(above, |limit| above.min(limit))
    }
}

/// What a Workload holds by pair: what it was given, less the pods that need theirs no more.
pub fn held(workload: &WorkloadFacts) -> BTreeMap<Pair, i64> {
    let mut all = BTreeMap::new();
    if !workload.has_quota() || workload.is_finished() {
        return all;
    }
    for given in workload.admission.iter().flat_map(|it| &it.assignments) {
        let set = workload.pod_set(&given.name).map_or(0, |it| it.count);
        let count = given.count.unwrap_or(set);
        let done = workload.reclaimable.get(&given.name).copied().unwrap_or(0);
        let left = set.saturating_sub(done).min(count);
        for (resource, amount) in given.usage.iter().filter(|_| count > 0) {
            let Some(flavor) = given.flavors.get(resource) else { continue };
            let pair = (flavor.clone(), resource.clone());
            *all.entry(pair).or_default() += amount / i64::from(count) * i64::from(left);
        }
    }
    all
}

/// What all of these hold.
pub fn used<'a>(workloads: impl Iterator<Item = &'a WorkloadFacts>) -> Used {
    let mut all = Used::new();
    for workload in workloads {
        let Some(given) = workload.admission.as_ref() else { continue };
        for (pair, amount) in held(workload) {
            *all.entry((given.cluster_queue.clone(), pair)).or_default() += amount;
        }
    }
    all
}
