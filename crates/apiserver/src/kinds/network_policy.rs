use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::container_check::{port_name_problems, port_number};
use super::field_path::FieldPath;
use super::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, affinity_check, ip_check};

#[derive(Debug)]
pub(super) struct NetworkPolicy;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");
const TYPES: [&str; 2] = ["Ingress", "Egress"];
/// (rules field, peers field).
const RULES: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

impl ResourceStrategy for NetworkPolicy {
    fn generation(&self) -> GenerationRule {
        GenerationRule::AllButStatus
    }

    fn default(&self, tree: Tree) -> Tree {
        if tree.get("spec").is_none() || !tree.items_at(&["spec", "policyTypes"]).is_empty() {
            return tree;
        }
        let egress = !tree.items_at(&["spec", "egress"]).is_empty();
        let types = if egress { tree!(["Ingress", "Egress"]) } else { tree!(["Ingress"]) };
        tree.with(&["spec", "policyTypes"], types)
    }

    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_update(new, &Tree::Null, cx, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let spec = new.get("spec").unwrap_or(&Tree::Null);
        affinity_check::selector(spec.get("podSelector"), &SPEC.field("podSelector"), errors);
        let known = ranges(old);
        for (rules, peers) in RULES {
            let list = SPEC.field(rules);
            for (i, rule) in spec.items_at(&[rules]).iter().enumerate() {
                let at = list.item(i);
                let ports = at.field("ports");
                for (j, one) in rule.items_at(&["ports"]).iter().enumerate() {
                    port(one, &ports.item(j), errors);
                }
                let list = at.field(peers);
                for (j, one) in rule.items_at(&[peers]).iter().enumerate() {
                    peer(one, &known, &list.item(j), errors);
                }
            }
        }
        let (types, list) = (spec.items_at(&["policyTypes"]), SPEC.field("policyTypes"));
        if types.len() > TYPES.len() {
            let why = "may not specify more than two policyTypes";
            errors.push(FieldError::invalid(list, Tree::list(types.to_vec()), why));
            return;
        }
        for (i, word) in types.iter().enumerate() {
            let word = word.as_str().unwrap_or_default();
            if !TYPES.contains(&word) {
                errors.push(FieldError::not_supported(list.item(i), word, TYPES));
            }
        }
    }
}

/// CIDRs of the stored policy: they stay valid.
fn ranges(policy: &Tree) -> Vec<&str> {
    let rules = RULES.into_iter().flat_map(|(rules, peers)| {
        let all = policy.items_at(&["spec", rules]).iter();
        all.flat_map(move |rule| rule.items_at(&[peers]))
    });
    let blocks = rules.filter_map(|peer| peer.get("ipBlock"));
    blocks
        .flat_map(|block| block.get("cidr").into_iter().chain(block.items_at(&["except"])))
        .filter_map(Tree::as_str)
        .collect()
}

fn port(port: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    at.field("protocol").absent_or_one_of(port.get("protocol"), &["TCP", "UDP", "SCTP"], errors);
    let end = port.int_at(&["endPort"]);
    let place = at.field("endPort");
    match (port.get("port"), end) {
        (None, Some(end)) => {
            errors.push(FieldError::invalid(place, end, "may not be specified when `port` is not specified"));
        }
        (Some(Tree::Text(name)), end) => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(
                    place,
                    end,
                    "may not be specified when `port` is non-numeric",
                ));
            }
            at.field("port").problems(name, port_name_problems(name), errors);
        }
        (Some(number), end) => {
            let number = number.as_int().unwrap_or(0);
            port_number(number, &at.field("port"), errors);
            if let Some(end) = end {
                if end < number {
                    errors.push(FieldError::invalid(place, end, "must be greater than or equal to `port`"));
                }
                port_number(end, &place, errors);
            }
        }
        (None, None) => {}
    }
}

fn peer(peer: &Tree, known: &[&str], at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let selectors = ["podSelector", "namespaceSelector"];
    for key in selectors {
        affinity_check::selector(peer.get(key), &at.field(key), errors);
    }
    let selects = selectors.iter().any(|key| peer.get(key).is_some());
    match peer.get("ipBlock") {
        Some(block) => {
            ip_block(block, known, &at.field("ipBlock"), errors);
            if selects {
                errors.push(FieldError::forbidden(at, "may not specify both ipBlock and another peer"));
            }
        }
        None if !selects => errors.push(FieldError::required(at, "must specify a peer")),
        None => {}
    }
}

fn ip_block(block: &Tree, known: &[&str], at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let range = |text: &str, at: &FieldPath<'_>, errors: &mut FieldErrors| {
        let before = errors.len();
        let range = ip_check::range(text, at, errors);
        if known.contains(&text) {
            errors.truncate(before);
        }
        range
    };
    let cidr = block.str_at(&["cidr"]);
    if cidr.is_empty() {
        at.field("cidr").required(errors);
        return;
    }
    let Some(whole) = range(cidr, &at.field("cidr"), errors) else { return };
    let list = at.field("except");
    for (i, text) in block.items_at(&["except"]).iter().filter_map(Tree::as_str).enumerate() {
        if range(text, &list.item(i), errors).is_some_and(|part| !whole.has(part)) {
            errors.push(FieldError::invalid(list.item(i), text, "must be a strict subset of `cidr`"));
        }
    }
}
