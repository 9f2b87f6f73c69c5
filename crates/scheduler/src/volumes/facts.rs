//! PersistentVolumeClaims, PersistentVolumes and StorageClasses, parsed once per change.

use muster_api::client::Uid;
use muster_api::consts::{labels, storage};
use muster_api::node::{NodeFacts, amount};
use muster_api::node_selector::NodeSelector;
use muster_api::paths::{claim, expression, storage_class, topology, volume};
use muster_api::selector::LabelSelector;
use muster_api::{meta, pod};
use muster_tree::{Text, Tree, literal};

use crate::label::{self, Labels};

/// Namespace and name of a PersistentVolumeClaim.
pub type ClaimKey = (Text, Text);

const STORAGE: &str = "storage";
/// The default of `spec.volumeMode`.
const FILESYSTEM: Text = literal!("Filesystem");
/// Separates several zones in one label value.
const ZONES: &str = "__";

/// The parsed fields of a PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFacts {
    pub key: ClaimKey,
    pub uid: Uid,
    /// `storageClassName`: empty disables dynamic provisioning, `None` is unset.
    pub class: Option<Text>,
    /// The API field `accessModes`.
    pub modes: Vec<Text>,
    /// Requested storage in bytes.
    pub size: i64,
    /// Selects volumes; `None` selects all.
    pub selector: Option<LabelSelector>,
    /// The API field `volumeMode`.
    pub mode: Text,
    /// `volumeAttributesClassName`; empty for none.
    pub attributes: Text,
    /// `volumeName`; empty while unbound.
    pub volume: Text,
    /// The annotation `pv.kubernetes.io/bind-completed` is set.
    pub complete: bool,
    /// The selected node for provisioning; empty for none.
    pub node: Text,
    /// The phase is `Lost`: its volume was deleted.
    pub lost: bool,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
    /// UID of its controller: the pod of an ephemeral volume.
    pub owner: Option<Uid>,
}

impl ClaimFacts {
    #[must_use]
    pub fn of(tree: &Tree) -> ClaimFacts {
        ClaimFacts {
            key: (meta::namespace(tree), meta::name(tree)),
            uid: meta::uid(tree),
            class: old_class(tree).or_else(|| tree.at(claim::CLASS)?.as_text().cloned()),
            modes: label::texts(tree.items_at(claim::MODES)),
            size: size(tree.at(claim::REQUESTS)),
            selector: tree.at(claim::SELECTOR).filter(|it| it.is_map()).map(|it| LabelSelector::of(Some(it))),
            mode: mode(tree.text_at(claim::MODE)),
            attributes: tree.text_at(claim::ATTRIBUTES),
            volume: tree.text_at(claim::VOLUME),
            complete: meta::annotation(tree, storage::BIND_COMPLETED).is_some(),
            node: meta::annotation(tree, storage::SELECTED_NODE).map(Text::from).unwrap_or_default(),
            lost: tree.str_at(claim::PHASE) == "Lost",
            deleting: meta::deletion_timestamp(tree).is_some(),
            owner: meta::controller_of(tree).map(|owner| owner.uid),
        }
    }

    /// Its storage class; empty for none.
    #[must_use]
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or_default()
    }

    /// Whether it is fully bound.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.complete && !self.volume.is_empty()
    }

    /// Whether its access mode is `ReadWriteOncePod`.
    #[must_use]
    pub fn is_for_one_pod(&self) -> bool {
        self.modes.iter().any(|mode| mode == storage::ONE_POD)
    }
}

/// `claimRef` of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedClaim {
    pub key: ClaimKey,
    /// The UID; empty if any claim of this name matches.
    pub uid: Uid,
}

/// The parsed fields of a PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeFacts {
    pub name: Text,
    /// `storageClassName`; empty for none.
    pub class: Text,
    /// The API field `accessModes`.
    pub modes: Vec<Text>,
    /// Storage capacity in bytes.
    pub size: i64,
    /// The API field `claimRef`.
    pub reserved: Option<ReservedClaim>,
    /// The phase is `Available`: not bound.
    pub available: bool,
    /// The API field `volumeMode`.
    pub mode: Text,
    /// `volumeAttributesClassName`; empty for none.
    pub attributes: Text,
    pub labels: Labels,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
    /// CSI driver and volume handle.
    pub attached: Option<(Text, Text)>,
    /// Zone and region labels with the accepted values.
    zones: Vec<(Text, Vec<Text>)>,
    /// Required node affinity; `None` matches every node.
    affinity: Option<NodeSelector>,
}

impl VolumeFacts {
    #[must_use]
    pub fn of(tree: &Tree) -> VolumeFacts {
        let labels = pod::labels_of(tree).map(|it| label::read(it.entries())).unwrap_or_default();
        let reserved = |_: &Tree| ReservedClaim {
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
            deleting: meta::deletion_timestamp(tree).is_some(),
            attached: (!driver.is_empty()).then(|| (driver, tree.text_at(volume::HANDLE))),
            zones: zones(&labels),
            affinity: tree.at(volume::AFFINITY).map(NodeSelector::of),
            labels,
        }
    }

    /// Whether its `claimRef` names this claim.
    #[must_use]
    pub fn is_for(&self, claim: &ClaimFacts) -> bool {
        let same = |it: &ReservedClaim| it.key == claim.key && (it.uid.is_empty() || it.uid == claim.uid);
        self.reserved.as_ref().is_some_and(same)
    }

    /// Whether a node matches its node affinity.
    #[must_use]
    pub fn reaches(&self, node: &NodeFacts) -> bool {
        self.affinity.as_ref().is_none_or(|terms| terms.matches(node))
    }

    /// Whether its zone labels match a node; a node without zone labels matches.
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

/// Zone and region labels, beta ones included.
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

/// The parsed fields of a StorageClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClassFacts {
    pub name: Text,
    /// The API field `volumeBindingMode: WaitForFirstConsumer`.
    pub waits: bool,
    pub provisioner: Text,
    /// `allowedTopologies`: any term must match; a term lists label keys with accepted values.
    topologies: Vec<Vec<(Text, Vec<Text>)>>,
}

impl StorageClassFacts {
    #[must_use]
    pub fn of(tree: &Tree) -> StorageClassFacts {
        let wanted = |it: &Tree| (it.text_at(expression::KEY), label::texts(it.items_at(expression::VALUES)));
        let term = |it: &Tree| it.items_at(topology::EXPRESSIONS).iter().map(wanted).collect();
        StorageClassFacts {
            name: meta::name(tree),
            waits: tree.str_at(storage_class::BINDING) == "WaitForFirstConsumer",
            provisioner: tree.text_at(storage_class::PROVISIONER),
            topologies: tree.items_at(storage_class::TOPOLOGIES).iter().map(term).collect(),
        }
    }

    /// Whether it has a dynamic provisioner.
    #[must_use]
    pub fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && self.provisioner != storage::NO_PROVISIONER
    }

    /// Whether a volume can be provisioned for a pod on a node.
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
