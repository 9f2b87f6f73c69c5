//! Slices, devices and classes, as searching looks at them.

use std::fmt;
use std::sync::Arc;

use muster_api::meta;
use muster_api::node::{self, NodeFacts, Taint};
use muster_api::node_terms::Terms;
use muster_api::paths::{device as path, device_class, device_selector, resource_slice as slice_path};
use muster_schema::rules::Datum;
use muster_tree::{Text, Tree};

use crate::numbers::Number;

/// The terms of a node selector.
const TERMS: &[&str] = &["nodeSelectorTerms"];

/// A device by driver, pool and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// Driver.
    pub driver: Text,
    /// Pool.
    pub pool: Text,
    /// Name.
    pub device: Text,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// A pool by driver and name.
pub type PoolId = (Text, Text);

/// From where devices can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// From this node.
    Node(Text),
    /// From the nodes of these terms; the selector as it was written.
    Some(Terms, Tree),
    /// From every node.
    All,
    /// Each device says it itself.
    PerDevice,
    /// Nothing that we understand.
    Unknown,
}

impl Place {
    /// Whether it is within reach of a node.
    #[must_use]
    pub fn reaches(&self, node: &NodeFacts) -> bool {
        match self {
            Place::Node(name) => *name == node.name,
            Place::Some(terms, _) => terms.matches(node),
            Place::All => true,
            Place::PerDevice | Place::Unknown => false,
        }
    }

    fn of(node: Text, selector: Option<&Tree>, all: bool) -> Place {
        match (node.is_empty(), selector) {
            (false, _) => Place::Node(node),
            _ if all => Place::All,
            (_, Some(tree)) => Place::Some(tree.at(TERMS).map(Terms::of).unwrap_or_default(), tree.clone()),
            _ => Place::Unknown,
        }
    }
}

/// A device.
#[derive(Debug, PartialEq, Eq)]
pub struct Device {
    /// Its number while it is known.
    pub number: Number,
    /// What it is called.
    pub id: DeviceId,
    /// What it is, by domain and name; a name without a domain has the driver's.
    pub attributes: Vec<(Text, Text, Datum)>,
    /// How much it has, likewise.
    pub capacity: Vec<(Text, Text, Text)>,
    /// Taints that matter.
    pub taints: Vec<Taint>,
    /// From where it can be used.
    pub place: Place,
    /// Whether an allocation of it holds for one node only.
    pub binds: bool,
    /// Whether it is of a sort that we cannot give.
    pub strange: bool,
}

/// A slice.
#[derive(Debug)]
pub struct Slice {
    /// Its pool.
    pub pool: PoolId,
    /// The generation of the pool.
    pub generation: i64,
    /// How many slices the pool has in this generation.
    pub count: i64,
    /// From where its devices can be used.
    pub place: Place,
    /// Its devices.
    pub devices: Vec<Arc<Device>>,
}

impl Slice {
    /// Reads a `ResourceSlice`; `number` gives devices their numbers.
    pub fn of(tree: &Tree, mut number: impl FnMut(&DeviceId) -> Number) -> Slice {
        let spec = tree.get("spec").unwrap_or(&Tree::Null);
        let pool = (spec.text_at(slice_path::DRIVER), spec.text_at(slice_path::POOL));
        let place = if spec.bool_at(slice_path::PER_DEVICE) == Some(true) {
            Place::PerDevice
        } else {
            let all = spec.bool_at(slice_path::ALL_NODES) == Some(true);
            Place::of(spec.text_at(slice_path::NODE_NAME), spec.at(slice_path::NODE_SELECTOR), all)
        };
        let devices = spec.items_at(slice_path::DEVICES).iter();
        let devices = devices.map(|tree| {
            let device = tree.text_at(path::NAME);
            let id = DeviceId { driver: pool.0.clone(), pool: pool.1.clone(), device };
            Arc::new(Device::of(tree, number(&id), id, &place))
        });
        Slice {
            generation: spec.int_at(slice_path::GENERATION).unwrap_or(0),
            count: spec.int_at(slice_path::COUNT).unwrap_or(0),
            devices: devices.collect(),
            place,
            pool,
        }
    }

    /// Whether some of its devices are within reach of a node.
    #[must_use]
    pub fn reaches(&self, node: &NodeFacts) -> bool {
        match &self.place {
            Place::PerDevice => self.devices.iter().any(|device| device.place.reaches(node)),
            place => place.reaches(node),
        }
    }
}

impl Device {
    fn of(tree: &Tree, number: Number, id: DeviceId, slice: &Place) -> Device {
        let named = |name: &Text| match name.split_once('/') {
            Some((domain, name)) => (Text::from(domain), Text::from(name)),
            None => (id.driver.clone(), name.clone()),
        };
        let attribute = |(name, value): &(Text, Tree)| {
            let (domain, name) = named(name);
            Some((domain, name, read_attribute(value)?))
        };
        let amount = |(name, value): &(Text, Tree)| {
            let (domain, name) = named(name);
            let amount = value.get("value")?;
            Some((domain, name, amount.as_text().cloned().unwrap_or_else(|| amount.to_json().into())))
        };
        let place = if *slice == Place::PerDevice {
            let all = tree.bool_at(path::ALL_NODES) == Some(true);
            Place::of(tree.text_at(path::NODE_NAME), tree.at(path::NODE_SELECTOR), all)
        } else {
            slice.clone()
        };
        let many = |path: &[&str]| !tree.items_at(path).is_empty();
        Device {
            number,
            attributes: tree.entries_at(path::ATTRIBUTES).iter().filter_map(attribute).collect(),
            capacity: tree.entries_at(path::CAPACITY).iter().filter_map(amount).collect(),
            taints: tree.items_at(path::TAINTS).iter().filter_map(node::read_taint).collect(),
            place,
            binds: tree.bool_at(path::BINDS) == Some(true),
            strange: many(path::COUNTERS)
                || many(path::BINDING)
                || tree.bool_at(path::MULTIPLE) == Some(true),
            id,
        }
    }

    /// An attribute by its full name.
    #[must_use]
    pub fn attribute(&self, full: &str) -> Option<&Datum> {
        let (domain, name) = full.split_once('/')?;
        let found = self.attributes.iter().find(|(d, n, _)| d == domain && n == name);
        found.map(|(_, _, value)| value)
    }

    /// A capacity by the name that a request gives it.
    #[must_use]
    pub fn capacity(&self, name: &str) -> Option<&Text> {
        let (domain, name) = name.split_once('/').unwrap_or((self.id.driver.as_str(), name));
        self.capacity.iter().find(|(d, n, _)| d == domain && n == name).map(|(_, _, amount)| amount)
    }
}

fn read_attribute(value: &Tree) -> Option<Datum> {
    let (word, value) = value.entries().first()?;
    match word.as_str() {
        "string" => value.as_text().map(|it| Datum::Text(it.clone())),
        "version" => value.as_text().map(|it| Datum::Version(it.clone())),
        "int" => value.as_int().map(Datum::Int),
        "bool" => value.as_bool().map(Datum::Bool),
        _ => None,
    }
}

/// A class of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Name.
    pub name: Text,
    /// Its expressions.
    pub selectors: Vec<Text>,
    /// Settings for drivers.
    pub config: Vec<Tree>,
}

impl Class {
    /// Reads a `DeviceClass`.
    #[must_use]
    pub fn of(tree: &Tree) -> Class {
        let spec = tree.get("spec").unwrap_or(&Tree::Null);
        Class {
            name: meta::name(tree),
            selectors: selectors(spec.items_at(device_class::SELECTORS)),
            config: spec.items_at(device_class::CONFIG).to_vec(),
        }
    }
}

/// The expressions of a list of selectors.
pub(crate) fn selectors(list: &[Tree]) -> Vec<Text> {
    list.iter().map(|it| it.text_at(device_selector::EXPRESSION)).collect()
}
