//! The devices there are, by pool, and which of them are within reach of a node.
//!
//! # Invariants
//!
//! - Of a pool only the newest generation counts, and nothing is given of it unless all its slices are there.
//! - What a node reaches is worked out once, and anew when a slice that matters to it changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_api::meta;
use muster_api::node::NodeFacts;
use muster_tree::{Text, Tree};

use crate::allocation::Allocation;
use crate::claim::Claim;
use crate::facts::{Class, Device, DeviceId, Place, PoolId, Slice};
use crate::numbers::{Number, Numbers};
use crate::search::{Search, Trouble};
use crate::select::Expressions;

/// Nodes whose reach is remembered before all of it is forgotten.
const VIEWS_MAX: usize = 100_000;

/// What a node reaches of a pool.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) state: State,
    pub(crate) devices: Vec<Arc<Device>>,
}

/// Whether something can be given of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Slices are missing.
    Incomplete,
    /// Two devices have one name.
    Invalid,
}

/// What a node reaches.
#[derive(Debug)]
struct View {
    epoch: u64,
    labels: Vec<(Text, Text)>,
    pools: Vec<Pool>,
}

/// All devices and classes.
#[derive(Debug, Default)]
pub struct Inventory {
    slices: BTreeMap<Text, Slice>,
    on_node: BTreeMap<Text, BTreeSet<Text>>,
    /// Slices for several nodes.
    shared: BTreeSet<Text>,
    pools: BTreeMap<PoolId, BTreeSet<Text>>,
    classes: BTreeMap<Text, Class>,
    numbers: Numbers,
    expressions: Expressions,
    views: HashMap<Text, Arc<View>>,
    epoch: u64,
}

impl Inventory {
    /// A slice is there, or changed.
    pub fn slice(&mut self, tree: &Tree) {
        let name = meta::name(tree);
        let numbers = &mut self.numbers;
        let slice = Slice::of(tree, |id| numbers.hire(id));
        slice.devices.iter().for_each(|device| numbers.forget(device.number));
        self.remove(&name);
        match &slice.place {
            Place::Node(node) => {
                self.on_node.entry(node.clone()).or_default().insert(name.clone());
            }
            Place::Unknown => {}
            _ => {
                self.shared.insert(name.clone());
            }
        }
        self.pools.entry(slice.pool.clone()).or_default().insert(name.clone());
        let pool = slice.pool.clone();
        self.slices.insert(name, slice);
        self.outdate(&pool);
    }

    /// A slice is gone.
    pub fn slice_gone(&mut self, name: &Text) {
        self.remove(name);
    }

    fn remove(&mut self, name: &Text) {
        let Some(pool) = self.slices.get(name).map(|slice| slice.pool.clone()) else { return };
        self.outdate(&pool);
        let slice = self.slices.remove(name).expect("just looked at");
        slice.devices.iter().for_each(|device| self.numbers.release(device.number));
        self.shared.remove(name);
        if let Place::Node(node) = &slice.place {
            drop_from(&mut self.on_node, node, name);
        }
        drop_from(&mut self.pools, &pool, name);
    }

    /// Forgets the reach of the nodes that a pool matters to.
    fn outdate(&mut self, pool: &PoolId) {
        let names = self.pools.get(pool).into_iter().flatten();
        let mut places = names.filter_map(|name| Some(&self.slices.get(name)?.place));
        match places.next() {
            // Most pools are one node's.
            Some(Place::Node(node)) if places.all(|it| matches!(it, Place::Node(other) if other == node)) => {
                self.views.remove(node);
            }
            _ => self.epoch += 1,
        }
    }

    /// A class is there, or changed.
    pub fn class(&mut self, class: Class) {
        self.classes.insert(class.name.clone(), class);
    }

    /// A class is gone.
    pub fn class_gone(&mut self, name: &Text) {
        self.classes.remove(name);
    }

    /// Whether there is such a class.
    #[must_use]
    pub fn has_class(&self, name: &Text) -> bool {
        self.classes.contains_key(name)
    }

    /// A claim holds these devices; what to give back later.
    pub fn take(&mut self, devices: &[DeviceId]) -> Vec<Number> {
        let hold = |id: &DeviceId| {
            let number = self.numbers.hire(id);
            self.numbers.hold(number, 1);
            number
        };
        devices.iter().map(hold).collect()
    }

    /// A claim holds these devices no longer.
    pub fn give_back(&mut self, numbers: &[Number]) {
        for number in numbers {
            self.numbers.hold(*number, -1);
            self.numbers.release(*number);
        }
    }

    /// How many claims hold a device.
    #[must_use]
    pub fn holders(&self, id: &DeviceId) -> u32 {
        self.numbers.holders(id)
    }

    /// How many devices are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.numbers.held()
    }

    /// Devices for claims on a node: one allocation for each.
    ///
    /// # Errors
    /// There is none, or something is wrong with the claims, classes or slices.
    pub fn find(&mut self, node: &NodeFacts, claims: &[&Claim]) -> Result<Vec<Allocation>, Trouble> {
        let view = self.view(node);
        let Inventory { classes, numbers, expressions, .. } = self;
        Search::new(&view.pools, claims, classes, numbers, expressions)?.run(node)
    }

    /// Whether a node reaches any device.
    pub fn reaches(&mut self, node: &NodeFacts) -> bool {
        !self.view(node).pools.is_empty()
    }

    fn view(&mut self, node: &NodeFacts) -> Arc<View> {
        if let Some(view) = self.views.get(&node.name)
            && view.epoch == self.epoch
            && (self.shared.is_empty() || view.labels == node.labels)
        {
            return view.clone();
        }
        let pools = self.gather(node);
        let view = Arc::new(View { epoch: self.epoch, labels: node.labels.clone(), pools });
        if self.views.len() >= VIEWS_MAX {
            self.views.clear();
        }
        self.views.insert(node.name.clone(), view.clone());
        view
    }

    /// The pools that a node reaches, by driver and name.
    fn gather(&self, node: &NodeFacts) -> Vec<Pool> {
        let own = self.on_node.get(&node.name).into_iter().flatten();
        let names: BTreeSet<&Text> = own.chain(&self.shared).collect();
        let mut found: BTreeMap<&PoolId, Vec<&Slice>> = BTreeMap::new();
        for name in names {
            let slice = &self.slices[name];
            if !slice.reaches(node) {
                continue;
            }
            let list = found.entry(&slice.pool).or_default();
            let newest = list.first().map_or(slice.generation, |it| it.generation);
            if slice.generation > newest {
                list.clear();
            }
            if slice.generation >= newest {
                list.push(slice);
            }
        }
        found.into_iter().filter_map(|(id, slices)| self.pool(id, &slices, node)).collect()
    }

    fn pool(&self, id: &PoolId, slices: &[&Slice], node: &NodeFacts) -> Option<Pool> {
        let (generation, count) = (slices[0].generation, slices[0].count);
        let mut have = slices.len();
        if as_count(have) != count {
            let all = self.pools.get(id).into_iter().flatten().map(|name| &self.slices[name]);
            let generations: Vec<i64> = all.map(|it| it.generation).collect();
            // The newer generation has nothing for this node.
            if generations.iter().any(|it| *it > generation) {
                return None;
            }
            have = generations.iter().filter(|it| **it == generation).count();
        }
        if as_count(have) != count {
            return Some(Pool { id: id.clone(), state: State::Incomplete, devices: Vec::new() });
        }
        let all: Vec<&Arc<Device>> = slices.iter().flat_map(|slice| &slice.devices).collect();
        let names: BTreeSet<&Text> = all.iter().map(|device| &device.id.device).collect();
        if names.len() != all.len() {
            return Some(Pool { id: id.clone(), state: State::Invalid, devices: Vec::new() });
        }
        let within = all.into_iter().filter(|device| device.place.reaches(node)).cloned();
        Some(Pool { id: id.clone(), state: State::Ready, devices: within.collect() })
    }
}

fn as_count(many: usize) -> i64 {
    i64::try_from(many).unwrap_or(i64::MAX)
}

fn drop_from<K: Ord>(map: &mut BTreeMap<K, BTreeSet<Text>>, key: &K, name: &Text) {
    if let Some(set) = map.get_mut(key) {
        set.remove(name);
        if set.is_empty() {
            map.remove(key);
        }
    }
}
