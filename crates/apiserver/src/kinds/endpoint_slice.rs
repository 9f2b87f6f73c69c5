use std::collections::BTreeSet;
use std::net::IpAddr;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::{label_key_problems, label_value_problems};
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, ip_check};
use crate::engine::metadata_check::check_labels;

#[derive(Debug)]
pub(super) struct EndpointSlice;

const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const ENDPOINTS_MAX: usize = 1_000;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;

impl ResourceStrategy for EndpointSlice {
    fn generation(&self) -> GenerationRule {
        GenerationRule::AllButStatus
    }

    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_update(new, &Tree::Null, cx, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let kind = new.str_at(&["addressType"]);
        let at = FieldPath::Root("addressType");
        if kind.is_empty() {
            at.required(errors);
        }
        at.one_of(kind, &["FQDN", "IPv4", "IPv6"], errors);
        ports(new.items_at(&["ports"]), &FieldPath::Root("ports"), errors);
        // Addresses that were valid when stored stay valid while unchanged.
        if old.is_null() || old.get("endpoints") != new.get("endpoints") {
            endpoints(new.items_at(&["endpoints"]), kind, &FieldPath::Root("endpoints"), errors);
        }
        if !old.is_null() {
            at.immutable(new.get("addressType"), old.get("addressType"), errors);
        }
    }

    fn warnings(&self, new: &Tree, old: Option<&Tree>) -> Vec<String> {
        let deprecated = old.is_none() && new.str_at(&["addressType"]) == "FQDN";
        let words = "spec.addressType: FQDN endpoints are deprecated";
        deprecated.then(|| words.to_owned()).into_iter().collect()
    }
}

fn ports(all: &[Tree], list: &FieldPath<'_>, errors: &mut FieldErrors) {
    if all.len() > PORTS_MAX {
        errors.push(FieldError::too_many(list, all.len(), PORTS_MAX));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, port) in all.iter().enumerate() {
        let at = list.item(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            at.field("name").problems(name, names::label(name), errors);
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
        match port.get("protocol").and_then(Tree::as_str) {
            None => at.field("protocol").required(errors),
            Some("SCTP" | "TCP" | "UDP") => {}
            Some(word) => {
                errors.push(FieldError::not_supported(at.field("protocol"), word, ["SCTP", "TCP", "UDP"]));
            }
        }
        if let Some(word) = port.get("appProtocol").and_then(Tree::as_str) {
            at.field("appProtocol").problems(word, label_key_problems(word), errors);
        }
    }
}

fn endpoints(all: &[Tree], kind: &str, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    if all.len() > ENDPOINTS_MAX {
        errors.push(FieldError::too_many(list, all.len(), ENDPOINTS_MAX));
        return;
    }
    for (i, endpoint) in all.iter().enumerate() {
        let at = list.item(i);
        addresses(endpoint.items_at(&["addresses"]), kind, &at.field("addresses"), errors);
        if let Some(node) = endpoint.get("nodeName").and_then(Tree::as_str) {
            at.field("nodeName").problems(node, names::subdomain(node), errors);
        }
        let place = at.field("deprecatedTopology");
        let labels = endpoint.entries_at(&["deprecatedTopology"]).len();
        if labels > TOPOLOGY_MAX {
            errors.push(FieldError::too_many(place, labels, TOPOLOGY_MAX));
        }
        check_labels(endpoint.get("deprecatedTopology"), &place.to_string(), errors);
        if let Some(name) = endpoint.get("hostname").and_then(Tree::as_str) {
            at.field("hostname").problems(name, names::label(name), errors);
        }
        if let Some(all) = endpoint.get("hints") {
            hints(all, &at.field("hints"), errors);
        }
    }
}

fn addresses(all: &[Tree], kind: &str, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    if all.is_empty() {
        list.required(errors);
    } else if all.len() > ADDRESSES_MAX {
        errors.push(FieldError::too_many(list, all.len(), ADDRESSES_MAX));
    }
    for (i, text) in all.iter().filter_map(Tree::as_str).enumerate() {
        let at = list.item(i);
        match kind {
            "IPv4" => {
                if let Some(ip) = ip_check::address(text, &at, errors) {
                    if ip.is_ipv6() {
                        errors.push(FieldError::invalid(list, text, "must be an IPv4 address"));
                    }
                    reachable(ip, text, &at, errors);
                }
            }
            "IPv6" => {
                if let Some(ip) = ip_check::canonical_address(text, &at, errors) {
                    if ip.is_ipv4() {
                        errors.push(FieldError::invalid(list, text, "must be an IPv6 address"));
                    }
                    reachable(ip, text, &at, errors);
                }
            }
            "FQDN" => domain(text, &at, errors),
            _ => {}
        }
    }
}

/// Endpoint addresses must not be loopback, link-local or multicast.
fn reachable(ip: IpAddr, text: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let (is_link_local, is_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.is_unicast_link_local(), ip.segments()[0] & 0xff0f == 0xff02),
    };
    let wrong = [
        (ip.is_unspecified(), format!("may not be unspecified ({text})")),
        (ip.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned()),
        (is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned()),
        (
            is_local_multicast,
            "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned(),
        ),
    ];
    for (_, why) in wrong.into_iter().filter(|(is, _)| *is) {
        errors.push(FieldError::invalid(at, text, why));
    }
}

fn domain(text: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if text.is_empty() {
        at.required(errors);
        return;
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let problems = names::subdomain(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(at, name, problems.join(",")));
    } else if !name.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(at, name, why));
    }
}

fn hints(hints: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    type Problems = fn(&str) -> Vec<String>;
    let lists: [(&str, Problems); 2] = [("forZones", label_value_problems), ("forNodes", names::subdomain)];
    for (key, problems) in lists {
        let (all, list) = (hints.items_at(&[key]), at.field(key));
        if all.len() > HINTS_MAX {
            errors.push(FieldError::too_many(list, all.len(), HINTS_MAX));
            return;
        }
        let mut seen = BTreeSet::new();
        for (i, one) in all.iter().enumerate() {
            let (name, item) = (one.str_at(&["name"]), list.item(i));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(item.field("name"), name));
            }
            item.field("name").problems(name, problems(name), errors);
        }
    }
}
