//! The device requests of a ResourceClaim.

use muster_api::meta;
use muster_api::paths::{device_ask as ask_path, device_constraint, device_request, resource_claim as path};
use muster_api::toleration::Toleration;
use muster_tree::{Text, Tree};

use crate::facts;

/// The parsed spec of a ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// `namespace/name`, for messages.
    pub display_name: String,
    pub requests: Vec<DeviceRequest>,
    pub constraints: Vec<Constraint>,
    pub config: Vec<Tree>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRequest {
    pub name: Text,
    /// The alternatives in order of preference; one for `exactly`.
    pub alternatives: Vec<DeviceAlternative>,
}

/// `exactly`, or one entry of `firstAvailable`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAlternative {
    /// `request` or `request/subrequest`, as it is written into the allocation.
    pub name: Text,
    /// The name without that of the request, for messages.
    pub short: Text,
    pub class: Text,
    pub selectors: Vec<Text>,
    /// The number of devices; `None` for `allocationMode: All`.
    pub count: Option<i64>,
    /// `adminAccess`: devices allocated to other claims are eligible.
    pub admin: bool,
    pub tolerations: Vec<Toleration>,
    /// The tolerations as written, to copy them into the allocation.
    pub tolerations_tree: Option<Tree>,
    pub capacities: Vec<(Text, Text)>,
}

/// A constraint between the devices of some requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// The requests it applies to; empty for all.
    pub requests: Vec<Text>,
    pub attribute: Text,
    /// `distinctAttribute` instead of `matchAttribute`.
    pub distinct: bool,
}

impl Claim {
    #[must_use]
    pub fn of(tree: &Tree) -> Claim {
        Claim {
            display_name: format!("{}/{}", meta::namespace(tree), meta::name(tree)),
            requests: tree.items_at(path::REQUESTS).iter().map(DeviceRequest::of).collect(),
            constraints: tree.items_at(path::CONSTRAINTS).iter().map(Constraint::of).collect(),
            config: tree.items_at(path::CONFIG).to_vec(),
        }
    }

    /// All alternatives of all requests.
    pub fn alternatives(&self) -> impl Iterator<Item = &DeviceAlternative> {
        self.requests.iter().flat_map(|request| &request.alternatives)
    }
}

impl DeviceRequest {
    fn of(tree: &Tree) -> DeviceRequest {
        let name = tree.text_at(device_request::NAME);
        let asks = match tree.at(device_request::EXACTLY) {
            Some(one) => vec![DeviceAlternative::of(one, name.clone(), name.clone())],
            None => {
                let each = tree.items_at(device_request::FIRST).iter().map(|one| {
                    let short = one.text_at(device_request::NAME);
                    DeviceAlternative::of(one, format!("{name}/{short}").into(), short)
                });
                each.collect()
            }
        };
        DeviceRequest { name, alternatives: asks }
    }

    /// Whether it is a `firstAvailable` request.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.alternatives.first().is_some_and(|ask| ask.name != self.name)
    }
}

impl DeviceAlternative {
    fn of(tree: &Tree, name: Text, short: Text) -> DeviceAlternative {
        let tolerations = tree.items_at(ask_path::TOLERATIONS);
        let amount = |(name, value): &(Text, Tree)| {
            (name.clone(), value.as_text().cloned().unwrap_or_else(|| value.to_json().into()))
        };
        let all = tree.str_at(ask_path::MODE) == "All";
        DeviceAlternative {
            name,
            short,
            class: tree.text_at(ask_path::CLASS),
            selectors: facts::selectors(tree.items_at(ask_path::SELECTORS)),
            count: (!all).then(|| tree.int_at(ask_path::COUNT).unwrap_or(1)),
            admin: tree.bool_at(ask_path::ADMIN) == Some(true),
            tolerations: tolerations.iter().map(Toleration::of).collect(),
            tolerations_tree: tree.at(ask_path::TOLERATIONS).filter(|it| !it.is_empty()).cloned(),
            capacities: tree.entries_at(ask_path::CAPACITIES).iter().map(amount).collect(),
        }
    }
}

impl Constraint {
    fn of(tree: &Tree) -> Constraint {
        let distinct = tree.at(device_constraint::DISTINCT).is_some();
        let path = if distinct { device_constraint::DISTINCT } else { device_constraint::MATCH };
        let requests = tree.items_at(device_constraint::REQUESTS).iter();
        Constraint {
            requests: requests.filter_map(|it| it.as_text().cloned()).collect(),
            attribute: tree.text_at(path),
            distinct,
        }
    }

    /// Whether it applies to a request or to this alternative.
    #[must_use]
    pub fn concerns(&self, request: &DeviceRequest, ask: &DeviceAlternative) -> bool {
        self.requests.is_empty() || self.requests.contains(&request.name) || self.requests.contains(&ask.name)
    }
}
