//! What matters of claims, volumes and storage classes, read once when they change.

use muster_api::node::{NodeFacts, amount};
use muster_api::node_terms::Terms;
use muster_api::paths::{claim, expression, storage_class, topology, volume};
use muster_api::port::Uid;
use muster_api::selector::Selector;
use muster_api::words::{labels, storage};
use muster_api::{meta, pod};
use muster_tree::{Text, Tree, literal};

use crate::label::{self, Labels};

/// A claim by namespace and name.
pub type ClaimKey = (Text, Text);

/// The resource that volumes have and claims ask for.
const STORAGE: &str = "storage";
/// The mode of volumes that do not say.
const FILESYSTEM: Text = literal!("Filesystem");
/// What stands between several zones in one label.
const ZONES: &str = "__";

/// What matters of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFacts {
    /// Namespace and name.
    pub key: ClaimKey,
    /// UID.
    pub uid: Uid,
    /// Class; empty for none, `None` when it says nothing.
    pub class: Option<Text>,
    /// How it is to be used.
    pub modes: Vec<Text>,
    /// How much it asks for.
    pub size: i64,
    /// Which volumes will do; `None` when all do.
    pub selector: Option<Selector>,
    /// File system or block device.
    pub mode: Text,
    /// Class of attributes; empty for none.
    pub attributes: Text,
    /// Its volume; empty when it has none yet.
    pub volume: Text,
    /// Whether its binding is complete.
    pub complete: bool,
    /// The node on which its volume shall be made; empty for none.
    pub node: Text,
    /// Whether it lost its volume.
    pub lost: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The pod that it was made for.
    pub owner: Option<Uid>,
}

impl ClaimFacts {
    /// Reads a claim.
    #[must_use]
    pub fn of(tree: &Tree) -> ClaimFacts {
        ClaimFacts {
            key: (meta::namespace(tree), meta::name(tree)),
            uid: meta::uid(tree),
            class: old_class(tree).or_else(|| tree.at(claim::CLASS)?.as_text().cloned()),
            modes: label::texts(tree.items_at(claim::MODES)),
            size: size(tree.at(claim::REQUESTS)),
            selector: tree.at(claim::SELECTOR).filter(|it| it.is_map()).map(|it| Selector::of(Some(it))),
            mode: mode(tree.text_at(claim::MODE)),
            attributes: tree.text_at(claim::ATTRIBUTES),
            volume: tree.text_at(claim::VOLUME),
            complete: meta::annotation(tree, storage::BIND_COMPLETED).is_some(),
            node: meta::annotation(tree, storage::SELECTED_NODE).map(Text::from).unwrap_or_default(),
            lost: tree.str_at(claim::PHASE) == "Lost",
            deleting: meta::deleting(tree).is_some(),
            owner: meta::controller(tree).map(|owner| owner.uid),
        }
    }

    /// Its class; empty for none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or_default()
    }

    /// Whether it has its volume for good.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.complete && !self.volume.is_empty()
    }

    /// Whether only one pod may use it.
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.modes.iter().any(|mode| mode == storage::ONE_POD)
    }
}

/// Which claim a volume is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// The claim.
    pub key: ClaimKey,
    /// Its UID; empty when any claim of the name will do.
    pub uid: Uid,
}

/// What matters of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFacts {
    /// Name.
    pub name: Text,
    /// Class; empty for none.
    pub class: Text,
    /// How it may be used.
    pub modes: Vec<Text>,
    /// How much it holds.
    pub size: i64,
    /// The claim it is for.
    pub reserved: Option<Reserved>,
    /// Whether it is free and known to be.
    pub available: bool,
    /// File system or block device.
    pub mode: Text,
    /// Class of attributes; empty for none.
    pub attributes: Text,
    /// Labels.
    pub labels: Labels,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Driver and the driver's name of it.
    pub attached: Option<(Text, Text)>,
    /// Labels of a zone or region, with the values that will do.
    zones: Vec<(Text, Vec<Text>)>,
    /// From where it can be reached; `None` when from everywhere.
    affinity: Option<Terms>,
}

impl VolumeFacts {
    /// Reads a volume.
    #[must_use]
    pub fn of(tree: &Tree) -> VolumeFacts {
        let labels = pod::labels_of(tree).map(|it| label::read(it.entries())).unwrap_or_default();
        let reserved = |_: &Tree| Reserved {
            key: (tree.text_at(volume::CLAIM_NAMESPACE), tree.text_at(volume::CLAIM_NAME)),
            uid: tree.text_at(volume::CLAIM_UID),
        };
        let driver = tree.text_at(volume::DRIVER);
        VolumeFacts {
            name: meta::name(tree),
            class: old_class(tree).unwrap_or_else(|| tree.text_at(volume::CLASS)),
            modes: label::texts(tree.items_at(volume::MODES)),
            size: size(tree.at(volume::CAPACITY)),
            reserved: tree.at(volume::CLAIM).filter(|it| it.is_map()).map(reserved),
            available: tree.str_at(volume::PHASE) == "Available",
            mode: mode(tree.text_at(volume::MODE)),
            attributes: tree.text_at(volume::ATTRIBUTES),
            deleting: meta::deleting(tree).is_some(),
            attached: (!driver.is_empty()).then(|| (driver, tree.text_at(volume::HANDLE))),
            zones: zones(&labels),
            affinity: tree.at(volume::AFFINITY).map(Terms::of),
            labels,
        }
    }

    /// Whether it is meant for this claim.
    #[must_use]
    pub fn is_for(&self, claim: &ClaimFacts) -> bool {
        let same = |it: &Reserved| it.key == claim.key && (it.uid.is_empty() || it.uid == claim.uid);
        self.reserved.as_ref().is_some_and(same)
    }

    /// Whether it can be reached from a node.
    #[must_use]
    pub fn reaches(&self, node: &NodeFacts) -> bool {
        self.affinity.as_ref().is_none_or(|terms| terms.matches(node))
    }

    /// Whether the zone it is in is that of a node, as far as the node says where it is.
    #[must_use]
    pub fn is_in_zone(&self, node: &NodeFacts) -> bool {
        let find = |key: &str| label::find(&node.labels, key);
        if ZONE_LABELS.iter().all(|key| find(key).is_none()) {
            return true;
        }
        self.zones.iter().all(|(key, values)| {
            find(key).or_else(|| find(newer(key))).is_some_and(|value| values.contains(value))
        })
    }
}

/// Labels that say where a node or volume is.
const ZONE_LABELS: [&str; 4] = [labels::OLD_ZONE, labels::OLD_REGION, labels::ZONE, labels::REGION];

fn zones(all: &Labels) -> Vec<(Text, Vec<Text>)> {
    let known = all.iter().filter(|(key, _)| ZONE_LABELS.contains(&key.as_str()));
    known.map(|(key, value)| (key.clone(), value.split(ZONES).map(Text::from).collect())).collect()
}

fn newer(key: &str) -> &str {
    match key {
        labels::OLD_ZONE => labels::ZONE,
        labels::OLD_REGION => labels::REGION,
        other => other,
    }
}

/// What matters of a storage class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassFacts {
    /// Name.
    pub name: Text,
    /// Whether claims wait for their first pod.
    pub waits: bool,
    /// Who makes volumes.
    pub provisioner: Text,
    /// Where volumes can be made: any of these terms, each a list of labels with the values that will do.
    topologies: Vec<Vec<(Text, Vec<Text>)>>,
}

impl ClassFacts {
    /// Reads a class.
    #[must_use]
    pub fn of(tree: &Tree) -> ClassFacts {
        let wanted = |it: &Tree| (it.text_at(expression::KEY), label::texts(it.items_at(expression::VALUES)));
        let term = |it: &Tree| it.items_at(topology::EXPRESSIONS).iter().map(wanted).collect();
        ClassFacts {
            name: meta::name(tree),
            waits: tree.str_at(storage_class::BINDING) == "WaitForFirstConsumer",
            provisioner: tree.text_at(storage_class::PROVISIONER),
            topologies: tree.items_at(storage_class::TOPOLOGIES).iter().map(term).collect(),
        }
    }

    /// Whether volumes are made at all.
    #[must_use]
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != storage::NO_PROVISIONER
    }

    /// Whether a volume can be made for pods on a node.
    #[must_use]
    pub fn provisions_for(&self, node: &NodeFacts) -> bool {
        let holds = |(key, values): &(Text, Vec<Text>)| {
            label::find(&node.labels, key).is_some_and(|value| values.contains(value))
        };
        self.provisions()
            && (self.topologies.is_empty() || self.topologies.iter().any(|term| term.iter().all(holds)))
    }
}

fn old_class(tree: &Tree) -> Option<Text> {
    meta::annotation(tree, storage::OLD_CLASS).map(Text::from)
}

fn size(amounts: Option<&Tree>) -> i64 {
    amounts.and_then(|it| amount(STORAGE, it.get(STORAGE)?)).unwrap_or(0)
}

fn mode(said: Text) -> Text {
    if said.is_empty() { FILESYSTEM } else { said }
}
