//! Variables that tell where Services are.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::paths::{pod as pod_path, service as path, service_port as port};
use muster_api::words::{DEFAULT_NAMESPACE, KUBERNETES_SERVICE};
use muster_tree::{Text, Tree, tree};

use super::House;

/// The variables of the API server and, unless the pod does not want them, of the Services of its namespace.
pub(super) fn of(pod: &Tree, house: &House<'_>) -> BTreeMap<String, String> {
    let namespace = meta::namespace(pod);
    let mut services = BTreeMap::new();
    if pod.bool_at(pod_path::SERVICE_LINKS) != Some(false) {
        services.extend(house.lookup.services(&namespace).into_iter().map(|it| (meta::name(&it), it)));
    }
    services.extend(api_server(house).map(|it| (meta::name(&it), it)));
    services.values().filter(|it| has_address(it)).flat_map(variables).collect()
}

fn api_server(house: &House<'_>) -> Option<Tree> {
    if let Some((host, port)) = &house.server {
        return Some(tree!({"metadata": {"name": KUBERNETES_SERVICE},
            "spec": {"clusterIP": host, "ports": [{"name": "https", "port": i64::from(*port), "protocol": "TCP"}]}}));
    }
    let all = house.lookup.services(&Text::from(DEFAULT_NAMESPACE));
    all.into_iter().find(|it| meta::name(it) == KUBERNETES_SERVICE)
}

fn has_address(service: &Tree) -> bool {
    !matches!(service.str_at(path::CLUSTER_IP), "" | "None")
}

/// A name as a part of a variable's.
pub(super) fn shouted(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn variables(service: &Tree) -> Vec<(String, String)> {
    let name = shouted(&meta::name(service));
    let address = service.str_at(path::CLUSTER_IP);
    let mut all = vec![(format!("{name}_SERVICE_HOST"), address.to_owned())];
    for (place, item) in service.items_at(path::PORTS).iter().enumerate() {
        let number = item.int_at(port::PORT).unwrap_or(0).to_string();
        let protocol = match item.str_at(port::PROTOCOL) {
            "" => "TCP",
            told => told,
        };
        let lower = protocol.to_lowercase();
        let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        let link = format!("{lower}://{host}:{number}");
        if place == 0 {
            all.push((format!("{name}_SERVICE_PORT"), number.clone()));
            all.push((format!("{name}_PORT"), link.clone()));
        }
        let within = item.str_at(port::NAME);
        if !within.is_empty() {
            all.push((format!("{name}_SERVICE_PORT_{}", shouted(within)), number.clone()));
        }
        let prefix = format!("{name}_PORT_{number}_{}", protocol.to_uppercase());
        all.push((prefix.clone(), link));
        all.push((format!("{prefix}_PROTO"), lower));
        all.push((format!("{prefix}_PORT"), number));
        all.push((format!("{prefix}_ADDR"), address.to_owned()));
    }
    all
}
