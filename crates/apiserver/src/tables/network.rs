//! Rows of Services, EndpointSlices, Ingresses and related kinds.

use std::collections::BTreeSet;

use muster_tree::{Text, Tree};

use super::cells::{NONE, Row, UNSET, at_most_three, cells, labels, plain, selector, words};

pub(super) fn service(row: &Row<'_>) -> Vec<Tree> {
    let ports: Vec<String> = row.object.items_at(&["spec", "ports"]).iter().map(service_port).collect();
    let address = row.object.items_at(&["spec", "clusterIPs"]).first().and_then(Tree::as_str);
    cells![
        row.name(),
        row.text(&["spec", "type"]),
        address.unwrap_or(NONE),
        external_address(row),
        if ports.is_empty() { NONE.to_owned() } else { ports.join(",") },
        row.age(),
        labels(row.object.at(&["spec", "selector"])),
    ]
}

fn service_port(port: &Tree) -> String {
    let number = port.int_at(&["port"]).unwrap_or(0);
    let protocol = port.str_at(&["protocol"]);
    match port.int_at(&["nodePort"]) {
        Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_address(row: &Row<'_>) -> String {
    let given = words(row.object.items_at(&["spec", "externalIPs"]));
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    match row.text(&["spec", "type"]).as_str() {
        "ClusterIP" | "NodePort" => or(given, NONE),
        "LoadBalancer" => {
            let balancers = balancer_addresses(row);
            let all: Vec<String> = [balancers, given].into_iter().filter(|text| !text.is_empty()).collect();
            or(all.join(","), "<pending>")
        }
        "ExternalName" => row.text(&["spec", "externalName"]).to_string(),
        _ => "<unknown>".to_owned(),
    }
}

fn balancer_addresses(row: &Row<'_>) -> String {
    let all = row.object.items_at(&["status", "loadBalancer", "ingress"]);
    let address = |entry: &Tree| {
        let ip = entry.text_at(&["ip"]);
        if ip.is_empty() { entry.text_at(&["hostname"]) } else { ip }
    };
    let all: BTreeSet<Text> = all.iter().map(address).filter(|text| !text.is_empty()).collect();
    all.iter().map(Text::as_str).collect::<Vec<_>>().join(",")
}

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Tree> {
    let mut all = Vec::new();
    for subset in row.object.items_at(&["subsets"]) {
        let addresses = subset.items_at(&["addresses"]).iter().map(|address| address.str_at(&["ip"]));
        let ports = subset.items_at(&["ports"]);
        if ports.is_empty() {
            all.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let port = port.int_at(&["port"]).unwrap_or(0);
            all.extend(addresses.clone().map(|ip| host_port(ip, port)));
        }
    }
    let none = if row.count(&["subsets"]) == 0 { NONE } else { "" };
    cells![row.name(), at_most_three(&all, none), row.age()]
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Tree> {
    let port = |port: &Tree| match (port.get("port"), port.str_at(&["name"])) {
        (Some(number), _) => plain(number),
        (None, "") => "*".to_owned(),
        (None, name) => name.to_owned(),
    };
    let ports: Vec<String> = row.object.items_at(&["ports"]).iter().map(port).collect();
    let endpoints = row.object.items_at(&["endpoints"]).iter();
    let addresses: Vec<String> = endpoints.flat_map(|e| e.items_at(&["addresses"])).map(plain).collect();
    cells![
        row.name(),
        row.text(&["addressType"]),
        at_most_three(&ports, UNSET),
        at_most_three(&addresses, UNSET),
        row.age(),
    ]
}

pub(super) fn ingress(row: &Row<'_>) -> Vec<Tree> {
    let rules = row.object.items_at(&["spec", "rules"]).iter();
    let hosts = rules.map(|rule| rule.str_at(&["host"]).to_owned()).filter(|host| !host.is_empty());
    let hosts: Vec<String> = hosts.collect();
    cells![
        row.name(),
        row.text_or(&["spec", "ingressClassName"], NONE),
        at_most_three(&hosts, "*"),
        balancer_addresses(row),
        if row.count(&["spec", "tls"]) > 0 { "80, 443" } else { "80" },
        row.age(),
    ]
}

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Tree> {
    let parameters = row.object.at(&["spec", "parameters"]).map_or(NONE.to_owned(), |p| {
        let group = p.str_at(&["apiGroup"]);
        let group = if group.is_empty() { String::new() } else { format!(".{group}") };
        format!("{}{group}/{}", p.str_at(&["kind"]), p.str_at(&["name"]))
    });
    cells![row.name(), row.text(&["spec", "controller"]), parameters, row.age()]
}

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Tree> {
    cells![row.name(), selector(row.object.at(&["spec", "podSelector"])), row.age()]
}
