//! ResourceSlices, devices and DeviceClasses as the allocator parses them.

use std::fmt;
use std::sync::Arc;

use muster_api::meta;
use muster_api::node::{self, NodeFacts, Taint};
use muster_api::node_selector::NodeSelector;
use muster_api::paths::{device as path, device_class, device_selector, resource_slice as slice_path};
use muster_schema::rules::Datum;
use muster_tree::{Text, Tree};

use crate::device_table::DeviceIndex;

/// The terms of a node selector.
const TERMS: &[&str] = &["nodeSelectorTerms"];

/// Driver, pool and name of a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: Text,
    pub pool: Text,
    pub device: Text,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// Driver and name of a resource pool.
pub type PoolId = (Text, Text);

/// The nodes on which devices are available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeAvailability {
    Node(Text),
    /// `nodeSelector`: parsed terms, and the selector as written.
    Some(NodeSelector, Tree),
    All,
    /// The API field `perDeviceNodeSelection`.
    PerDevice,
    /// None of the known fields is set: available on no node.
    Unknown,
}

impl NodeAvailability {
    /// Whether the devices are available on a node.
    #[must_use]
    pub fn reaches(&self, node: &NodeFacts) -> bool {
        match self {
            NodeAvailability::Node(name) => *name == node.name,
            NodeAvailability::Some(terms, _) => terms.matches(node),
            NodeAvailability::All => true,
            NodeAvailability::PerDevice | NodeAvailability::Unknown => false,
        }
    }

    fn of(node: Text, selector: Option<&Tree>, all: bool) -> NodeAvailability {
        match (node.is_empty(), selector) {
            (false, _) => NodeAvailability::Node(node),
            _ if all => NodeAvailability::All,
            (_, Some(tree)) => {
                NodeAvailability::Some(tree.at(TERMS).map(NodeSelector::of).unwrap_or_default(), tree.clone())
            }
            _ => NodeAvailability::Unknown,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Device {
    pub number: DeviceIndex,
    pub id: DeviceId,
    /// Attributes by domain and name; a name without a domain has that of the driver.
    pub attributes: Vec<(Text, Text, Datum)>,
    /// Capacities by domain and name.
    pub capacity: Vec<(Text, Text, Text)>,
    pub taints: Vec<Taint>,
    /// The nodes it is available on.
    pub availability: NodeAvailability,
    /// `bindsToNode`: its allocation is restricted to the selected node.
    pub binds_to_node: bool,
    /// It uses counters, binding conditions or multiple allocations, which are not implemented.
    pub unsupported: bool,
}

#[derive(Debug)]
pub struct SliceFacts {
    pub pool: PoolId,
    /// The API field `pool.generation`.
    pub generation: i64,
    /// The API field `pool.resourceSliceCount`.
    pub count: i64,
    /// The nodes its devices are available on.
    pub place: NodeAvailability,
    pub devices: Vec<Arc<Device>>,
}

impl SliceFacts {
    /// Parses a ResourceSlice; `number` assigns device indexes.
    pub fn of(tree: &Tree, mut number: impl FnMut(&DeviceId) -> DeviceIndex) -> SliceFacts {
        let spec = tree.get("spec").unwrap_or(&Tree::Null);
        // Device names are unique within driver and pool only.
        let pool = (spec.text_at(slice_path::DRIVER), spec.text_at(slice_path::POOL));
        let place = if spec.bool_at(slice_path::PER_DEVICE) == Some(true) {
            NodeAvailability::PerDevice
        } else {
            let all = spec.bool_at(slice_path::ALL_NODES) == Some(true);
            NodeAvailability::of(spec.text_at(slice_path::NODE_NAME), spec.at(slice_path::NODE_SELECTOR), all)
        };
        let devices = spec.items_at(slice_path::DEVICES).iter();
        let devices = devices.map(|tree| {
            let device = tree.text_at(path::NAME);
            let id = DeviceId { driver: pool.0.clone(), pool: pool.1.clone(), device };
            Arc::new(Device::of(tree, number(&id), id, &place))
        });
        SliceFacts {
            generation: spec.int_at(slice_path::GENERATION).unwrap_or(0),
            count: spec.int_at(slice_path::COUNT).unwrap_or(0),
            devices: devices.collect(),
            place,
            pool,
        }
    }

    /// Whether any of its devices is available on a node.
    #[must_use]
    pub fn reaches(&self, node: &NodeFacts) -> bool {
        match &self.place {
            NodeAvailability::PerDevice => {
                self.devices.iter().any(|device| device.availability.reaches(node))
            }
            place => place.reaches(node),
        }
    }
}

impl Device {
    fn of(tree: &Tree, number: DeviceIndex, id: DeviceId, slice: &NodeAvailability) -> Device {
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
        let place = if *slice == NodeAvailability::PerDevice {
            let all = tree.bool_at(path::ALL_NODES) == Some(true);
            NodeAvailability::of(tree.text_at(path::NODE_NAME), tree.at(path::NODE_SELECTOR), all)
        } else {
            slice.clone()
        };
        let many = |path: &[&str]| !tree.items_at(path).is_empty();
        Device {
            number,
            attributes: tree.entries_at(path::ATTRIBUTES).iter().filter_map(attribute).collect(),
            capacity: tree.entries_at(path::CAPACITY).iter().filter_map(amount).collect(),
            taints: tree.items_at(path::TAINTS).iter().filter_map(node::read_taint).collect(),
            availability: place,
            binds_to_node: tree.bool_at(path::BINDS) == Some(true),
            unsupported: many(path::COUNTERS)
                || many(path::BINDING)
                || tree.bool_at(path::MULTIPLE) == Some(true),
            id,
        }
    }

    /// An attribute by its qualified name.
    #[must_use]
    pub fn attribute(&self, full: &str) -> Option<&Datum> {
        let (domain, name) = full.split_once('/')?;
        let found = self.attributes.iter().find(|(d, n, _)| d == domain && n == name);
        found.map(|(_, _, value)| value)
    }

    /// A capacity by the name used in a request.
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

/// The parsed fields of a DeviceClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceClassFacts {
    pub name: Text,
    pub selectors: Vec<Text>,
    pub config: Vec<Tree>,
}

impl DeviceClassFacts {
    #[must_use]
    pub fn of(tree: &Tree) -> DeviceClassFacts {
        let spec = tree.get("spec").unwrap_or(&Tree::Null);
        DeviceClassFacts {
            name: meta::name(tree),
            selectors: selectors(spec.items_at(device_class::SELECTORS)),
            config: spec.items_at(device_class::CONFIG).to_vec(),
        }
    }
}

/// The CEL expressions of a list of selectors.
pub(crate) fn selectors(list: &[Tree]) -> Vec<Text> {
    list.iter().map(|it| it.text_at(device_selector::EXPRESSION)).collect()
}
