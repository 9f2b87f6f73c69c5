//! Services: allocates cluster IPs and node ports.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::container_check::{port_name_problems, port_number};
use super::field_path::FieldPath;
use super::service_parts::{self, is_reached_from_outside};
use super::{FieldErrors, NameRule, ResourceStrategy, StrategyContext, go_format};
use crate::engine::metadata_check::check_labels;
use crate::status::Status;

#[derive(Debug)]
pub(super) struct Service;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");
/// Default timeout of ClientIP session affinity in seconds.
const AFFINITY_SECS: i64 = 10_800;
/// The node port range.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

impl ResourceStrategy for Service {
    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn default(&self, tree: Tree) -> Tree {
        let Some(spec) = tree.get("spec") else {
            return tree;
        };
        let kind = spec.str_at(&["type"]);
        let mut spec = spec.map_entries(|key, value| {
            Some(if key == "ports" { value.map_items(|_, port| with_target(port)) } else { value.clone() })
        });
        let timeout = ["sessionAffinityConfig", "clientIP", "timeoutSeconds"];
        match spec.str_at(&["sessionAffinity"]) {
            // Without ClientIP affinity the configuration is meaningless; kube-apiserver drops it.
            "" | "None" => spec = spec.without_key(timeout[0]),
            "ClientIP" if spec.at(&timeout).is_none_or(Tree::is_null) => {
                let config = tree!({"clientIP": {"timeoutSeconds": AFFINITY_SECS}});
                spec = spec.with_key(timeout[0], config);
            }
            _ => {}
        }
        let outside = is_reached_from_outside(&spec);
        let mut fill = |key: &str, value: Tree| {
            if spec.get(key).is_none() {
                spec = spec.with_key(key, value);
            }
        };
        if kind != "ExternalName" {
            fill("internalTrafficPolicy", Tree::from("Cluster"));
        }
        if outside {
            fill("externalTrafficPolicy", Tree::from("Cluster"));
        }
        if kind == "LoadBalancer" {
            fill("allocateLoadBalancerNodePorts", Tree::from(true));
        }
        tree.with_key("spec", spec)
    }

    fn prepare_create(&self, tree: Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let tree = tree.with_key("status", tree!({"loadBalancer": {}}));
        with_addresses(tree, None, cx)
    }

    fn prepare_update(&self, new: Tree, old: &Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        let mut new = new;
        let address = |tree: &Tree| !tree.str_at(&["spec", "clusterIP"]).is_empty();
        let external = |tree: &Tree| tree.str_at(&["spec", "type"]) == "ExternalName";
        // Allocated values are kept when an update leaves them out.
        if !external(&new) && !external(old) && !address(&new) {
            for key in ["clusterIP", "clusterIPs"] {
                new = new.with_option(&["spec", key], old.at(&["spec", key]).cloned());
            }
        }
        new = service_parts::without_outlived(new, old);
        // ExternalName Services have no address: switching to the type releases all network fields.
        if external(&new) {
            for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
                new = new.without(&["spec", key]);
            }
            return Ok(new);
        }
        with_addresses(service_parts::keep_node_ports(new, old), Some(old), cx)
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        service(new, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        service(new, errors);
        let address = |tree: &Tree| tree.text_at(&["spec", "clusterIP"]);
        let external = [new, old].iter().any(|tree| tree.str_at(&["spec", "type"]) == "ExternalName");
        if !external && address(new) != address(old) {
            let list = SPEC.field("clusterIPs");
            let shown = new.at(&["spec", "clusterIPs"]).cloned().unwrap_or(Tree::Null);
            errors.push(FieldError::invalid(list.item(0), shown, "may not change once set"));
        }
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let balanced = new.str_at(&["spec", "type"]) == "LoadBalancer";
        if !balanced && !new.items_at(&["status", "loadBalancer", "ingress"]).is_empty() {
            let why = "may only be used when `spec.type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden("status.loadBalancer.ingress", why));
        }
    }

    fn warnings(&self, new: &Tree, _old: Option<&Tree>) -> Vec<String> {
        service_parts::warnings(new.get("spec").unwrap_or(&Tree::Null))
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn with_target(port: &Tree) -> Tree {
    match (port.get("targetPort"), port.get("port")) {
        (None, Some(number)) => port.with_key("targetPort", number.clone()),
        _ => port.clone(),
    }
}

fn with_addresses(tree: Tree, old: Option<&Tree>, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
    let kind = tree.str_at(&["spec", "type"]);
    if kind == "ExternalName" {
        return Ok(tree);
    }
    let mut tree = tree;
    let wanted = tree.text_at(&["spec", "clusterIP"]);
    let mine = |service: &Tree| service.str_at(&["metadata", "uid"]) == tree.str_at(&["metadata", "uid"]);
    let address = match wanted.as_str() {
        "None" => "None".to_owned(),
        "" => cx
            .lister
            .allocate_service_ip(None)
            .ok_or_else(|| Status::internal("no service address is left"))?,
        // The Service's own address is not allocated again.
        given
            if cx
                .lister
                .all("services")
                .iter()
                .any(|s| mine(&s.tree) && s.tree.str_at(&["spec", "clusterIP"]) == given) =>
        {
            given.to_owned()
        }
        given if given.parse::<std::net::IpAddr>().is_err() => return Err(no_address(&tree, given, cx)),
        given => cx.lister.allocate_service_ip(Some(given)).ok_or_else(|| refused(&tree, given, cx))?,
    };
    tree = tree
        .with(&["spec", "clusterIP"], address.as_str())
        .with(&["spec", "clusterIPs"], Tree::list([address.as_str()]));
    let tree = service_parts::with_families(&tree, old).map_err(|(tree, errors)| {
        Status::invalid(cx.resource.named_kind(tree.str_at(&["metadata", "name"])), &errors)
    })?;
    // Last: the families decide whether the Service has an address at all.
    Ok(with_node_ports(tree, cx))
}

fn no_address(tree: &Tree, address: &str, cx: &StrategyContext<'_>) -> Status {
    let why = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    let list = SPEC.field("clusterIPs");
    let error = FieldError::invalid(list.item(0), address, why);
    Status::invalid(cx.resource.named_kind(tree.str_at(&["metadata", "name"])), &[error])
}

fn refused(tree: &Tree, address: &str, cx: &StrategyContext<'_>) -> Status {
    let why = format!(
        "failed to allocate IP {address}: the provided IP ({address}) is already allocated or not in the valid range"
    );
    let error = FieldError::invalid(SPEC.field("clusterIPs"), Tree::list([address]), why);
    Status::invalid(cx.resource.named_kind(tree.str_at(&["metadata", "name"])), &[error])
}

fn with_node_ports(tree: Tree, cx: &StrategyContext<'_>) -> Tree {
    let wants = matches!(tree.str_at(&["spec", "type"]), "NodePort" | "LoadBalancer");
    let missing =
        tree.items_at(&["spec", "ports"]).iter().any(|port| port.int_at(&["nodePort"]).unwrap_or(0) == 0);
    if !wants || !missing || tree.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) == Some(false) {
        return tree;
    }
    let services = cx.lister.all("services");
    let all = services
        .iter()
        .flat_map(|s| s.tree.items_at(&["spec", "ports"]))
        .chain(tree.items_at(&["spec", "ports"]));
    let mut taken: BTreeSet<i64> = all.filter_map(|port| port.int_at(&["nodePort"])).collect();
    let ports = tree.at(&["spec", "ports"]).cloned().unwrap_or(Tree::Null).map_items(|_, port| {
        if port.int_at(&["nodePort"]).unwrap_or(0) != 0 {
            return port.clone();
        }
        match NODE_PORTS.into_iter().find(|n| taken.insert(*n)) {
            Some(number) => port.with_key("nodePort", Tree::from(number)),
            None => port.clone(),
        }
    });
    tree.with(&["spec", "ports"], ports)
}

fn service(tree: &Tree, errors: &mut FieldErrors) {
    let spec = tree.get("spec").unwrap_or(&Tree::Null);
    let kind = spec.str_at(&["type"]);
    let ports = spec.items_at(&["ports"]);
    if ports.is_empty() && spec.str_at(&["clusterIP"]) != "None" && kind != "ExternalName" {
        SPEC.field("ports").required(errors);
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    SPEC.field("type").one_of(kind, &kinds, errors);
    if kind == "ExternalName" && spec.str_at(&["externalName"]).is_empty() {
        SPEC.field("externalName").required(errors);
    }
    if kind == "ExternalName" {
        external(spec, errors);
    }
    if kind == "ClusterIP" {
        for (i, port) in ports.iter().enumerate() {
            if port.int_at(&["nodePort"]).unwrap_or(0) != 0 {
                let why = "may not be used when `type` is 'ClusterIP'";
                let list = SPEC.field("ports");
                let at = list.item(i);
                errors.push(FieldError::forbidden(at.field("nodePort"), why));
            }
        }
    }
    if let Some(policy) = spec.get("externalTrafficPolicy").filter(|_| !is_reached_from_outside(spec)) {
        let why = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid(SPEC.field("externalTrafficPolicy"), policy.clone(), why));
    }
    let policies = ["Cluster", "Local"];
    for key in ["internalTrafficPolicy", "externalTrafficPolicy"] {
        SPEC.field(key).one_of(spec.str_at(&[key]), &policies, errors);
    }
    SPEC.field("sessionAffinity").one_of(spec.str_at(&["sessionAffinity"]), &["ClientIP", "None"], errors);
    check_labels(spec.get("selector"), "spec.selector", errors);
    self::ports(ports, errors);
}

fn external(spec: &Tree, errors: &mut FieldErrors) {
    let given = spec.get("clusterIP").or_else(|| spec.get("clusterIPs"));
    if given.is_some_and(|value| !value.is_empty()) {
        let why = "may not be set for ExternalName services";
        errors.push(FieldError::forbidden(SPEC.field("clusterIPs"), why));
    }
    let name = spec.str_at(&["externalName"]).trim_end_matches('.');
    if !name.is_empty() {
        SPEC.field("externalName").problems(name, muster_schema::names::subdomain(name), errors);
    }
}

/// A port as duplicate errors show it.
const PORT: [go_format::Part; 6] = [
    ("Name", "name", "\"\""),
    ("Protocol", "protocol", "\"\""),
    ("AppProtocol", "appProtocol", "null"),
    ("Port", "port", "0"),
    ("TargetPort", "targetPort", "0"),
    ("NodePort", "nodePort", "0"),
];

fn ports(ports: &[Tree], errors: &mut FieldErrors) {
    let list = SPEC.field("ports");
    let mut names = BTreeSet::new();
    let mut numbers = BTreeSet::new();
    for (i, port) in ports.iter().enumerate() {
        let at = list.item(i);
        let name = port.str_at(&["name"]);
        match name {
            "" if ports.len() > 1 => at.field("name").required(errors),
            "" => {}
            name => {
                at.field("name").problems(name, muster_schema::names::label(name), errors);
                if !names.insert(name) {
                    errors.push(FieldError::duplicate(at.field("name"), name));
                }
            }
        }
        port_number(port.int_at(&["port"]).unwrap_or(0), &at.field("port"), errors);
        let protocol = port.str_at(&["protocol"]);
        if protocol.is_empty() {
            at.field("protocol").required(errors);
        }
        at.field("protocol").one_of(protocol, &["SCTP", "TCP", "UDP"], errors);
        match port.get("targetPort") {
            Some(Tree::Int(number)) => port_number(*number, &at.field("targetPort"), errors),
            Some(Tree::Text(name)) => at.field("targetPort").problems(name, port_name_problems(name), errors),
            _ => {}
        }
        if !numbers.insert((port.int_at(&["port"]), protocol)) {
            let shown = tree!({"port": port.int_at(&["port"]), "protocol": protocol});
            errors.push(FieldError::duplicate_as(at, go_format::typed(&shown, &PORT)));
        }
    }
}
