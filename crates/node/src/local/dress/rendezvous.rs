//! Variables that name the pod at which others meet.
//!
//! Without a hosts file of its own a process cannot resolve the names of pods: there these variables get addresses.

use std::net::IpAddr;

use muster_process::Isolation;
use muster_tree::Text;

use super::House;

/// The variables, in the words of those who read them.
const VARIABLES: &[&str] = &[
    "MASTER_ADDR",
    "PET_MASTER_ADDR",
    "PET_RDZV_ENDPOINT",
    "RDZV_ENDPOINT",
    "JAX_COORDINATOR_ADDRESS",
    "COORDINATOR_ADDRESS",
    "MEGASCALE_COORDINATOR_ADDRESS",
    "TPU_WORKER_HOSTNAMES",
    "DMLC_PS_ROOT_URI",
    "DMLC_TRACKER_URI",
];

/// The value with addresses for names, where names cannot be resolved. Ports, schemes and unknown names stay.
pub(super) fn resolved(variable: &str, value: String, namespace: &Text, house: &House<'_>) -> String {
    if house.isolation != Isolation::None || !VARIABLES.contains(&variable) {
        return value;
    }
    let one = |part: &str| with_address(part, |host| house.lookup.address_of(host, namespace));
    value.split(',').map(one).collect::<Vec<_>>().join(",")
}

/// `[scheme://]host[:port]` with an address.
fn with_address(part: &str, find: impl Fn(&str) -> Option<Text>) -> String {
    let start = part.find("://").map_or(0, |at| at + "://".len());
    let (scheme, rest) = part.split_at(start);
    let (host, port) = rest.find(':').map_or((rest, ""), |at| rest.split_at(at));
    let is_name = !host.is_empty() && host != "localhost" && host.parse::<IpAddr>().is_err();
    match find(host).filter(|_| is_name) {
        Some(address) => format!("{scheme}{address}{port}"),
        None => part.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_become_addresses() {
        let find = |host: &str| (host == "train-0.train").then(|| Text::from("127.1.0.1"));
        for (says, part, want) in [
            ("alone", "train-0.train", "127.1.0.1"),
            ("with a port", "train-0.train:29500", "127.1.0.1:29500"),
            ("with a scheme", "tcp://train-0.train:29500", "tcp://127.1.0.1:29500"),
            ("another name", "example.org:80", "example.org:80"),
            ("an address", "127.1.0.9:80", "127.1.0.9:80"),
            ("an address of the sixth version", "[::1]:80", "[::1]:80"),
            ("nothing", "", ""),
        ] {
            assert_eq!(with_address(part, find), want, "{says}");
        }
    }
}
