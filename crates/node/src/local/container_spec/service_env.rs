//! Service environment variables (`enableServiceLinks`).

use std::collections::BTreeMap;

use muster_api::consts::{DEFAULT_NAMESPACE, KUBERNETES_SERVICE};
use muster_api::meta;
use muster_api::paths::{pod as pod_path, service as path, service_port as port};
use muster_tree::{Text, Tree, tree};

use super::PodContext;

/// Variables of the API server and, with `enableServiceLinks`, of the Services of the namespace.
pub(super) fn of(pod: &Tree, context: &PodContext<'_>) -> BTreeMap<String, String> {
    let namespace = meta::namespace(pod);
    let mut services = BTreeMap::new();
    if pod.bool_at(pod_path::SERVICE_LINKS) != Some(false) {
        services.extend(context.lookup.services(&namespace).into_iter().map(|it| (meta::name(&it), it)));
    }
    services.extend(api_server(context).map(|it| (meta::name(&it), it)));
    services.values().filter(|it| has_address(it)).flat_map(variables_of).collect()
}

fn api_server(context: &PodContext<'_>) -> Option<Tree> {
    if let Some((host, port)) = &context.server {
        return Some(tree!({"metadata": {"name": KUBERNETES_SERVICE},
            "spec": {"clusterIP": host, "ports": [{"name": "https", "port": i64::from(*port), "protocol": "TCP"}]}}));
    }
    let all = context.lookup.services(&Text::from(DEFAULT_NAMESPACE));
    all.into_iter().find(|it| meta::name(it) == KUBERNETES_SERVICE)
}

fn has_address(service: &Tree) -> bool {
    !matches!(service.str_at(path::CLUSTER_IP), "" | "None")
}

/// A Service or port name as part of a variable name.
pub(super) fn env_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn variables_of(service: &Tree) -> Vec<(String, String)> {
    let name = env_name(&meta::name(service));
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
        // The first port also has variables without a port name, as Docker links had.
        if place == 0 {
            all.push((format!("{name}_SERVICE_PORT"), number.clone()));
            all.push((format!("{name}_PORT"), link.clone()));
        }
        let within = item.str_at(port::NAME);
        if !within.is_empty() {
            all.push((format!("{name}_SERVICE_PORT_{}", env_name(within)), number.clone()));
        }
        let prefix = format!("{name}_PORT_{number}_{}", protocol.to_uppercase());
        all.push((prefix.clone(), link));
        all.push((format!("{prefix}_PROTO"), lower));
        all.push((format!("{prefix}_PORT"), number));
        all.push((format!("{prefix}_ADDR"), address.to_owned()));
    }
    all
}
