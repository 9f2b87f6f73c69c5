//! What a claim asks for.

use muster_api::meta;
use muster_api::paths::{device_ask as ask_path, device_constraint, device_request, resource_claim as path};
use muster_api::toleration::Toleration;
use muster_tree::{Text, Tree};

use crate::facts;

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Namespace and name, as messages say it.
    pub called: String,
    /// Requests, in order.
    pub requests: Vec<Request>,
    /// What must hold between devices.
    pub constraints: Vec<Constraint>,
    /// Settings for drivers.
    pub config: Vec<Tree>,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Name.
    pub name: Text,
    /// What it asks for: the first of these that can be had.
    pub asks: Vec<Ask>,
}

/// One thing to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The name of the request, with that of the alternative behind a slash.
    pub name: Text,
    /// Name without that of the request.
    pub short: Text,
    /// Class.
    pub class: Text,
    /// Expressions.
    pub selectors: Vec<Text>,
    /// How many devices; `None` for all there are.
    pub count: Option<i64>,
    /// Whether it does not matter who else has them.
    pub admin: bool,
    /// Taints that do not matter.
    pub tolerations: Vec<Toleration>,
    /// The same, as they were written.
    pub tolerations_tree: Option<Tree>,
    /// Capacities they must have at least.
    pub capacities: Vec<(Text, Text)>,
}

/// What must hold between the devices of some requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    /// Of these requests; all when empty.
    pub requests: Vec<Text>,
    /// About this attribute.
    pub attribute: Text,
    /// All differ, rather than all are the same.
    pub distinct: bool,
}

impl Claim {
    /// Reads a `ResourceClaim`.
    #[must_use]
    pub fn of(tree: &Tree) -> Claim {
        Claim {
            called: format!("{}/{}", meta::namespace(tree), meta::name(tree)),
            requests: tree.items_at(path::REQUESTS).iter().map(Request::of).collect(),
            constraints: tree.items_at(path::CONSTRAINTS).iter().map(Constraint::of).collect(),
            config: tree.items_at(path::CONFIG).to_vec(),
        }
    }

    /// All that may be asked for.
    pub fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.requests.iter().flat_map(|request| &request.asks)
    }
}

impl Request {
    fn of(tree: &Tree) -> Request {
        let name = tree.text_at(device_request::NAME);
        let asks = match tree.at(device_request::EXACTLY) {
            Some(one) => vec![Ask::of(one, name.clone(), name.clone())],
            None => {
                let each = tree.items_at(device_request::FIRST).iter().map(|one| {
                    let short = one.text_at(device_request::NAME);
                    Ask::of(one, format!("{name}/{short}").into(), short)
                });
                each.collect()
            }
        };
        Request { name, asks }
    }

    /// Whether it lists alternatives.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.asks.first().is_some_and(|ask| ask.name != self.name)
    }
}

impl Ask {
    fn of(tree: &Tree, name: Text, short: Text) -> Ask {
        let tolerations = tree.items_at(ask_path::TOLERATIONS);
        let amount = |(name, value): &(Text, Tree)| {
            (name.clone(), value.as_text().cloned().unwrap_or_else(|| value.to_json().into()))
        };
        let all = tree.str_at(ask_path::MODE) == "All";
        Ask {
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

    /// Whether it speaks of a request, or of this alternative of it.
    #[must_use]
    pub fn concerns(&self, request: &Request, ask: &Ask) -> bool {
        self.requests.is_empty() || self.requests.contains(&request.name) || self.requests.contains(&ask.name)
    }
}
