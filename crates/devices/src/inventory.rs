//! All devices by resource pool, and which of them are available on a node.
//!
//! # Invariants
//!
//! - Only the newest generation of a pool counts, and only if all its ResourceSlices are observed.
//! - The pools of a node are cached until a slice that concerns the node changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_api::meta;
use muster_api::node::NodeFacts;
use muster_tree::{Text, Tree};

use crate::allocation::Allocation;
use crate::allocator::{AllocationError, Search};
use crate::cel::Expressions;
use crate::claim::Claim;
use crate::device_table::{DeviceIndex, Numbers};
use crate::facts::{Device, DeviceClassFacts, DeviceId, NodeAvailability, PoolId, SliceFacts};

/// Cached node views above which the cache is cleared.
const VIEWS_MAX: usize = 100_000;

/// The devices of a pool that are available on a node.
#[derive(Debug)]
pub(crate) struct ResourcePool {
    pub(crate) id: PoolId,
    pub(crate) state: PoolState,
    pub(crate) devices: Vec<Arc<Device>>,
}

/// Whether devices of a pool can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolState {
    Ready,
    Incomplete,
    /// Two devices have the same name.
    Invalid,
}

/// The pools available on a node.
#[derive(Debug)]
struct NodeView {
    epoch: u64,
    labels: Vec<(Text, Text)>,
    pools: Vec<ResourcePool>,
}

#[derive(Debug, Default)]
pub struct Inventory {
    slices: BTreeMap<Text, SliceFacts>,
    on_node: BTreeMap<Text, BTreeSet<Text>>,
    /// Slices that are not local to one node.
    shared: BTreeSet<Text>,
    pools: BTreeMap<PoolId, BTreeSet<Text>>,
    classes: BTreeMap<Text, DeviceClassFacts>,
    numbers: Numbers,
    expressions: Expressions,
    views: HashMap<Text, Arc<NodeView>>,
    epoch: u64,
}

impl Inventory {
    pub fn update_slice(&mut self, tree: &Tree) {
        let name = meta::name(tree);
        let numbers = &mut self.numbers;
        let slice = SliceFacts::of(tree, |id| numbers.hire(id));
        slice.devices.iter().for_each(|device| numbers.forget(device.number));
        self.remove(&name);
        match &slice.place {
            NodeAvailability::Node(node) => {
                self.on_node.entry(node.clone()).or_default().insert(name.clone());
            }
            NodeAvailability::Unknown => {}
            _ => {
                self.shared.insert(name.clone());
            }
        }
        self.pools.entry(slice.pool.clone()).or_default().insert(name.clone());
        let pool = slice.pool.clone();
        self.slices.insert(name, slice);
        self.outdate(&pool);
    }

    pub fn delete_slice(&mut self, name: &Text) {
        self.remove(name);
    }

    fn remove(&mut self, name: &Text) {
        let Some(pool) = self.slices.get(name).map(|slice| slice.pool.clone()) else { return };
        self.outdate(&pool);
        let slice = self.slices.remove(name).expect("just looked at");
        slice.devices.iter().for_each(|device| self.numbers.release(device.number));
        self.shared.remove(name);
        if let NodeAvailability::Node(node) = &slice.place {
            drop_from(&mut self.on_node, node, name);
        }
        drop_from(&mut self.pools, &pool, name);
    }

    /// Invalidates the views of the nodes that a pool concerns.
    fn outdate(&mut self, pool: &PoolId) {
        let names = self.pools.get(pool).into_iter().flatten();
        let mut places = names.filter_map(|name| Some(&self.slices.get(name)?.place));
        match places.next() {
            // Most pools are local to one node: only its view is invalidated, not those of all nodes.
            Some(NodeAvailability::Node(node))
                if places.all(|it| matches!(it, NodeAvailability::Node(other) if other == node)) =>
            {
                self.views.remove(node);
            }
            _ => self.epoch += 1,
        }
    }

    pub fn update_class(&mut self, class: DeviceClassFacts) {
        self.classes.insert(class.name.clone(), class);
    }

    pub fn delete_class(&mut self, name: &Text) {
        self.classes.remove(name);
    }

    #[must_use]
    pub fn has_class(&self, name: &Text) -> bool {
        self.classes.contains_key(name)
    }

    /// Marks devices as held by a claim; returns what [`Inventory::release`] needs.
    pub fn hold(&mut self, devices: &[DeviceId]) -> Vec<DeviceIndex> {
        let hold = |id: &DeviceId| {
            let number = self.numbers.hire(id);
            self.numbers.hold(number, 1);
            number
        };
        devices.iter().map(hold).collect()
    }

    /// Releases devices held by a claim.
    pub fn release(&mut self, numbers: &[DeviceIndex]) {
        for number in numbers {
            self.numbers.hold(*number, -1);
            self.numbers.release(*number);
        }
    }

    /// The number of claims that hold a device.
    #[must_use]
    pub fn holders(&self, id: &DeviceId) -> u32 {
        self.numbers.holders(id)
    }

    /// The number of held devices.
    #[must_use]
    pub fn held(&self) -> usize {
        self.numbers.held()
    }

    /// Allocates claims on a node: one allocation per claim.
    ///
    /// # Errors
    /// No free devices match, or a claim, class or pool is invalid.
    pub fn allocate(
        &mut self,
        node: &NodeFacts,
        claims: &[&Claim],
    ) -> Result<Vec<Allocation>, AllocationError> {
        let view = self.view(node);
        let Inventory { classes, numbers, expressions, .. } = self;
        Search::new(&view.pools, claims, classes, numbers, expressions)?.run(node)
    }

    /// Whether any device is available on a node.
    pub fn reaches(&mut self, node: &NodeFacts) -> bool {
        !self.view(node).pools.is_empty()
    }

    fn view(&mut self, node: &NodeFacts) -> Arc<NodeView> {
        if let Some(view) = self.views.get(&node.name)
            && view.epoch == self.epoch
            && (self.shared.is_empty() || view.labels == node.labels)
        {
            return view.clone();
        }
        let pools = self.gather(node);
        let view = Arc::new(NodeView { epoch: self.epoch, labels: node.labels.clone(), pools });
        if self.views.len() >= VIEWS_MAX {
            self.views.clear();
        }
        self.views.insert(node.name.clone(), view.clone());
        view
    }

    /// The pools available on a node, by driver and name.
    fn gather(&self, node: &NodeFacts) -> Vec<ResourcePool> {
        let own = self.on_node.get(&node.name).into_iter().flatten();
        let names: BTreeSet<&Text> = own.chain(&self.shared).collect();
        let mut found: BTreeMap<&PoolId, Vec<&SliceFacts>> = BTreeMap::new();
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

    fn pool(&self, id: &PoolId, slices: &[&SliceFacts], node: &NodeFacts) -> Option<ResourcePool> {
        let (generation, count) = (slices[0].generation, slices[0].count);
        let mut have = slices.len();
        // Some slices of the generation may be for other nodes only: count all of the pool before calling it incomplete.
        if as_count(have) != count {
            let all = self.pools.get(id).into_iter().flatten().map(|name| &self.slices[name]);
            let generations: Vec<i64> = all.map(|it| it.generation).collect();
            // A newer generation of the pool has no device for this node.
            if generations.iter().any(|it| *it > generation) {
                return None;
            }
            have = generations.iter().filter(|it| **it == generation).count();
        }
        if as_count(have) != count {
            return Some(ResourcePool { id: id.clone(), state: PoolState::Incomplete, devices: Vec::new() });
        }
        let all: Vec<&Arc<Device>> = slices.iter().flat_map(|slice| &slice.devices).collect();
        let names: BTreeSet<&Text> = all.iter().map(|device| &device.id.device).collect();
        if names.len() != all.len() {
            return Some(ResourcePool { id: id.clone(), state: PoolState::Invalid, devices: Vec::new() });
        }
        let within = all.into_iter().filter(|device| device.availability.reaches(node)).cloned();
        Some(ResourcePool { id: id.clone(), state: PoolState::Ready, devices: within.collect() })
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
