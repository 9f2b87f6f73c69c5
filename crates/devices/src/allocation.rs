//! What is given to a claim, as it is written into its status and read from there.

use muster_api::node_terms::Terms;
use muster_api::paths::{allocation as path, device_config, device_result, expression, node_term};
use muster_tree::{Text, Tree, tree};

use crate::claim::{Ask, Claim, Request};
use crate::facts::{Class, Device, DeviceId, Place};

/// Most alternatives of a request.
const CHOICES_MAX: i64 = 8;
/// The field that stands for a node's name.
const NODE_NAME_FIELD: &str = "metadata.name";

/// What a search gives to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// As the status says it.
    pub tree: Tree,
    /// What that means.
    pub held: Held,
    /// How good the choices are that were made where there were several.
    pub choices: i64,
}

/// The devices of a claim that nobody else may have, and from where they can be used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Held {
    /// The devices.
    pub devices: Vec<DeviceId>,
    /// The nodes; `None` for all.
    pub reach: Option<Terms>,
}

/// Reads `status.allocation`.
#[must_use]
pub fn held(allocation: &Tree) -> Held {
    let results = allocation.items_at(path::RESULTS).iter();
    let own = results.filter(|it| {
        it.bool_at(device_result::ADMIN) != Some(true) && it.str_at(device_result::SHARE).is_empty()
    });
    let id = |it: &Tree| DeviceId {
        driver: it.text_at(device_result::DRIVER),
        pool: it.text_at(device_result::POOL),
        device: it.text_at(device_result::DEVICE),
    };
    Held { devices: own.map(id).collect(), reach: allocation.at(path::TERMS).map(Terms::of) }
}

/// One device for one thing asked for.
pub(crate) struct Given<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) device: &'a Device,
}

/// The allocation of a claim. `chosen` has one entry per request: what was chosen for it, and its class.
pub(crate) fn allocation(
    claim: &Claim,
    given: &[Given<'_>],
    chosen: &[(&Ask, &Class)],
    node: &Text,
) -> Allocation {
    let results = Tree::list(given.iter().map(result));
    let config = config(claim, chosen);
    let whole = Tree::empty_map().with(path::RESULTS, results);
    let whole = if config.is_empty() { whole } else { whole.with(path::CONFIG, Tree::list(config)) };
    let tree = whole.with_option(path::NODE_SELECTOR, node_selector(given, node));
    let place = |(request, (ask, _)): (&Request, &(&Ask, &Class))| {
        let at = request.asks.iter().position(|it| it.name == ask.name).filter(|_| request.is_list())?;
        Some(CHOICES_MAX - i64::try_from(at).unwrap_or(CHOICES_MAX))
    };
    let choices = claim.requests.iter().zip(chosen).filter_map(place).sum();
    Allocation { held: held(&tree), tree, choices }
}

fn result(given: &Given<'_>) -> Tree {
    let id = &given.device.id;
    let tree = Tree::empty_map()
        .with(device_result::REQUEST, &given.ask.name)
        .with(device_result::DRIVER, &id.driver)
        .with(device_result::POOL, &id.pool)
        .with(device_result::DEVICE, &id.device);
    let tree = if given.ask.admin { tree.with(device_result::ADMIN, true) } else { tree };
    tree.with_option(device_result::TOLERATIONS, given.ask.tolerations_tree.clone())
}

/// Settings: those of each class once, then the claim's own that concern what was chosen.
fn config(claim: &Claim, chosen: &[(&Ask, &Class)]) -> Vec<Tree> {
    let names = |class: &Class| -> Vec<Text> {
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

fn speaks_of(named: &[Text], claim: &Claim, chosen: &[(&Ask, &Class)], at: usize) -> bool {
    named.contains(&claim.requests[at].name) || named.contains(&chosen[at].0.name)
}

/// From where the devices can be used: from the node when one of them is bound to it, else where all can be.
fn node_selector(given: &[Given<'_>], node: &Text) -> Option<Tree> {
    let (mut fields, mut expressions): (Vec<Tree>, Vec<Tree>) = (Vec::new(), Vec::new());
    for one in given {
        if one.device.binds || matches!(one.device.place, Place::Node(_)) {
            let only = tree!({"key": NODE_NAME_FIELD, "operator": "In", "values": [node]});
            return Some(tree!({"nodeSelectorTerms": [{"matchFields": [only]}]}));
        }
        if let Place::Some(_, selector) = &one.device.place
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
