//! `status.allocation` of a ResourceClaim: written and parsed.

use muster_api::node_selector::NodeSelector;
use muster_api::paths::{allocation as path, device_config, device_result, expression, node_term};
use muster_tree::{Text, Tree, tree};

use crate::claim::{Claim, DeviceAlternative, DeviceRequest};
use crate::facts::{Device, DeviceClassFacts, DeviceId, NodeAvailability};

/// The API's limit of alternatives per request.
const CHOICES_MAX: i64 = 8;
/// The node selector field of the node name.
const NODE_NAME_FIELD: &str = "metadata.name";

/// The allocation of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The value of `status.allocation`.
    pub tree: Tree,
    pub devices: AllocatedDevices,
    /// Score of the chosen alternatives: earlier ones are higher.
    pub alternative_score: i64,
}

/// The devices that a claim holds exclusively, and the nodes on which they are available.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllocatedDevices {
    pub devices: Vec<DeviceId>,
    /// The nodes; `None` for all.
    pub node_selector: Option<NodeSelector>,
}

#[must_use]
pub fn allocated_devices(allocation: &Tree) -> AllocatedDevices {
    let results = allocation.items_at(path::RESULTS).iter();
    let own = results.filter(|it| {
        it.bool_at(device_result::ADMIN) != Some(true) && it.str_at(device_result::SHARE).is_empty()
    });
    let id = |it: &Tree| DeviceId {
        driver: it.text_at(device_result::DRIVER),
        pool: it.text_at(device_result::POOL),
        device: it.text_at(device_result::DEVICE),
    };
    AllocatedDevices {
        devices: own.map(id).collect(),
        node_selector: allocation.at(path::TERMS).map(NodeSelector::of),
    }
}

/// A device allocated for an alternative.
pub(crate) struct DeviceResult<'a> {
    pub(crate) ask: &'a DeviceAlternative,
    pub(crate) device: &'a Device,
}

/// Builds the allocation of a claim. `chosen` has the chosen alternative and its class per request.
pub(crate) fn allocation(
    claim: &Claim,
    given: &[DeviceResult<'_>],
    chosen: &[(&DeviceAlternative, &DeviceClassFacts)],
    node: &Text,
) -> Allocation {
    let results = Tree::list(given.iter().map(result));
    let config = config(claim, chosen);
    let whole = Tree::empty_map().with(path::RESULTS, results);
    let whole = if config.is_empty() { whole } else { whole.with(path::CONFIG, Tree::list(config)) };
    let tree = whole.with_option(path::NODE_SELECTOR, node_selector(given, node));
    let place = |(request, (ask, _)): (&DeviceRequest, &(&DeviceAlternative, &DeviceClassFacts))| {
        let at =
            request.alternatives.iter().position(|it| it.name == ask.name).filter(|_| request.is_list())?;
        Some(CHOICES_MAX - i64::try_from(at).unwrap_or(CHOICES_MAX))
    };
    let choices = claim.requests.iter().zip(chosen).filter_map(place).sum();
    Allocation { devices: allocated_devices(&tree), tree, alternative_score: choices }
}

fn result(given: &DeviceResult<'_>) -> Tree {
    let id = &given.device.id;
    let tree = Tree::empty_map()
        .with(device_result::REQUEST, &given.ask.name)
        .with(device_result::DRIVER, &id.driver)
        .with(device_result::POOL, &id.pool)
        .with(device_result::DEVICE, &id.device);
    let tree = if given.ask.admin { tree.with(device_result::ADMIN, true) } else { tree };
    tree.with_option(device_result::TOLERATIONS, given.ask.tolerations_tree.clone())
}

/// Driver configuration: that of each class once, then that of the claim for the chosen alternatives.
fn config(claim: &Claim, chosen: &[(&DeviceAlternative, &DeviceClassFacts)]) -> Vec<Tree> {
    let names = |class: &DeviceClassFacts| -> Vec<Text> {
        chosen.iter().filter(|(_, it)| it.name == class.name).map(|(ask, _)| ask.name.clone()).collect()
    };
    let mut all: Vec<(&str, Vec<Text>, Tree)> = Vec::new();
    let mut seen: Vec<&Text> = Vec::new();
    for (_, class) in chosen {
        if !seen.contains(&&class.name) {
            seen.push(&class.name);
            all.extend(class.config.iter().map(|it| ("FromClass", names(class), it.clone())));
        }
    }
    for config in &claim.config {
        let named: Vec<Text> =
            config.items_at(device_config::REQUESTS).iter().filter_map(|it| it.as_text().cloned()).collect();
        let concerned = (0..chosen.len()).any(|at| speaks_of(&named, claim, chosen, at));
        if named.is_empty() || concerned {
            all.push(("FromClaim", named, config.clone()));
        }
    }
    let made = |(source, named, tree): (&str, Vec<Text>, Tree)| {
        let everything = (0..chosen.len()).all(|at| speaks_of(&named, claim, chosen, at));
        let bare = tree.without(device_config::REQUESTS).with(device_config::SOURCE, source);
        if everything || named.is_empty() {
            bare
        } else {
            bare.with(device_config::REQUESTS, Tree::list(named))
        }
    };
    all.into_iter().map(made).collect()
}

fn speaks_of(
    named: &[Text],
    claim: &Claim,
    chosen: &[(&DeviceAlternative, &DeviceClassFacts)],
    at: usize,
) -> bool {
    named.contains(&claim.requests[at].name) || named.contains(&chosen[at].0.name)
}

/// The node selector of the allocation: the node if a device is local to it, else the intersection of the selectors.
fn node_selector(given: &[DeviceResult<'_>], node: &Text) -> Option<Tree> {
    let (mut fields, mut expressions): (Vec<Tree>, Vec<Tree>) = (Vec::new(), Vec::new());
    for one in given {
        if one.device.binds_to_node || matches!(one.device.availability, NodeAvailability::Node(_)) {
            let only = tree!({"key": NODE_NAME_FIELD, "operator": "In", "values": [node]});
            return Some(tree!({"nodeSelectorTerms": [{"matchFields": [only]}]}));
        }
        if let NodeAvailability::Some(_, selector) = &one.device.availability
            && let [term] = selector.items_at(&["nodeSelectorTerms"])
        {
            add_new(&mut fields, term.items_at(node_term::FIELDS));
            add_new(&mut expressions, term.items_at(node_term::EXPRESSIONS));
        }
    }
    if fields.is_empty() && expressions.is_empty() {
        return None;
    }
    let some = |list: Vec<Tree>| (!list.is_empty()).then(|| Tree::list(list));
    let term = Tree::empty_map().with_option(node_term::FIELDS, some(fields));
    let term = term.with_option(node_term::EXPRESSIONS, some(expressions));
    Some(tree!({"nodeSelectorTerms": [term]}))
}

fn add_new(all: &mut Vec<Tree>, more: &[Tree]) {
    let values = |tree: &Tree| -> Vec<Text> {
        let mut all: Vec<Text> =
            tree.items_at(expression::VALUES).iter().filter_map(|it| it.as_text().cloned()).collect();
        all.sort();
        all
    };
    let same = |a: &Tree, b: &Tree| {
        a.at(expression::KEY) == b.at(expression::KEY)
            && a.at(expression::OPERATOR) == b.at(expression::OPERATOR)
            && values(a) == values(b)
    };
    for one in more {
        if !all.iter().any(|it| same(it, one)) {
            all.push(one.clone());
        }
    }
}
