//! Where the processes of a job meet.
//!
//! With a hosts file of its own a process finds the pod at which others meet by its name, and an address of its own keeps
//! ports apart. Without, what is told of the meeting point is rewritten when a container starts: variables and arguments
//! get the address of that pod, and a port of this machine that nobody else uses, the same for all who meet there. The
//! objects keep what they say.

use std::net::IpAddr;

use muster_api::paths::{container as path, env as var, pod as pod_path};
use muster_api::train::made::torchtune::MEETING_POINT;
use muster_api::train::words::env as train;
use muster_api::{meta, words};
use muster_process::Isolation;
use muster_tree::{Text, Tree};

use super::env::Env;
use super::{House, Problem};

/// Variables with addresses, in the words of those who read them.
const ADDRESSES: &[&str] = &[
    "MASTER_ADDR",
    train::PET_MASTER_ADDR,
    "PET_RDZV_ENDPOINT",
    "RDZV_ENDPOINT",
    train::JAX_COORDINATOR_ADDRESS,
    "COORDINATOR_ADDRESS",
    "MEGASCALE_COORDINATOR_ADDRESS",
    "TPU_WORKER_HOSTNAMES",
    "DMLC_PS_ROOT_URI",
    train::DMLC_TRACKER_URI,
];

/// Variables with nothing but a port, and those that tell whose.
const PORTS: &[(&str, &str)] = &[
    ("MASTER_PORT", "MASTER_ADDR"),
    (train::PET_MASTER_PORT, train::PET_MASTER_ADDR),
    ("DMLC_PS_ROOT_PORT", "DMLC_PS_ROOT_URI"),
    (train::DMLC_TRACKER_PORT, train::DMLC_TRACKER_URI),
];

/// Rewrites what a container of this pod is told.
pub(super) struct Meeting<'a> {
    pod: &'a Tree,
    container: &'a Tree,
    house: &'a House<'a>,
}

impl<'a> Meeting<'a> {
    /// For a container; none where names can be resolved.
    pub(super) fn of(pod: &'a Tree, container: &'a Tree, house: &'a House<'a>) -> Option<Meeting<'a>> {
        (house.isolation == Isolation::None).then_some(Meeting { pod, container, house })
    }

    /// The value of a variable: with addresses for names, and ports of this machine. Schemes and unknown names stay.
    ///
    /// # Errors
    /// A pod that others meet at has no address yet.
    pub(super) fn variable(&self, name: &str, value: String, known: &Env) -> Result<String, Problem> {
        if ADDRESSES.contains(&name) {
            return self.endpoints(&value);
        }
        let Some((_, of)) = PORTS.iter().find(|(port, _)| *port == name) else { return Ok(value) };
        let later = || self.container.items_at(path::ENV).iter().find(|it| it.str_at(var::NAME) == *of);
        let host = known.get(of).or_else(|| later().map(|it| it.str_at(var::VALUE)));
        let address = host.map(|it| self.address(bare(it))).transpose()?.flatten();
        Ok(match (address, value.parse()) {
            (Some(address), Ok(port)) => self.port(&address, port).to_string(),
            _ => value,
        })
    }

    /// A command with the meeting point in it.
    ///
    /// # Errors
    /// As for variables.
    pub(super) fn command(&self, argv: Vec<String>) -> Result<Vec<String>, Problem> {
        let is_option = |word: &str| word.replace('-', "_") == MEETING_POINT.replace('-', "_");
        let mut follows = false;
        let mut all = Vec::with_capacity(argv.len());
        for word in argv {
            let changed = match word.split_once('=') {
                _ if follows => self.endpoints(&word)?,
                Some((option, value)) if is_option(option) => format!("{option}={}", self.endpoints(value)?),
                _ => word.clone(),
            };
            follows = is_option(&word);
            all.push(changed);
        }
        Ok(all)
    }

    fn endpoints(&self, value: &str) -> Result<String, Problem> {
        let all: Result<Vec<String>, Problem> = value.split(',').map(|one| self.endpoint(one)).collect();
        Ok(all?.join(","))
    }

    /// `[scheme://]host[:port]` as it can be reached.
    fn endpoint(&self, part: &str) -> Result<String, Problem> {
        let start = part.find("://").map_or(0, |at| at + "://".len());
        let (scheme, rest) = part.split_at(start);
        let (host, port) = rest.split_once(':').unwrap_or((rest, ""));
        let Some(address) = self.address(host)? else { return Ok(part.to_owned()) };
        Ok(match port.parse() {
            Ok(port) => format!("{scheme}{address}:{}", self.port(&address, port)),
            Err(_) if port.is_empty() => format!("{scheme}{address}"),
            Err(_) => format!("{scheme}{address}:{port}"),
        })
    }

    /// The address of a host that is a pod or Service; an address stays one.
    fn address(&self, host: &str) -> Result<Option<Text>, Problem> {
        if host.is_empty() || host == "localhost" {
            return Ok(None);
        }
        if host.parse::<IpAddr>().is_ok() {
            return Ok(Some(host.into()));
        }
        let namespace = meta::namespace(self.pod);
        if self.names(self.pod.str_at(pod_path::HOSTNAME)).iter().any(|own| own == host) {
            return Ok(Some(self.house.pod_address.clone()));
        }
        match self.house.lookup.address_of(host, &namespace) {
            None if self.house.patient && self.is_neighbour(host) => Err(Problem::with_neighbour(host)),
            found => Ok(found),
        }
    }

    /// Whether a name is one that a pod beside this one has as soon as it has an address.
    fn is_neighbour(&self, host: &str) -> bool {
        let own = host.split('.').next().unwrap_or_default();
        self.names(own).iter().any(|name| name == host)
    }

    /// The names of a pod with this host name in the domain of this one; none when it has no domain.
    fn names(&self, own: &str) -> Vec<String> {
        let subdomain = self.pod.str_at(pod_path::SUBDOMAIN);
        if subdomain.is_empty() {
            return Vec::new();
        }
        let namespace = meta::namespace(self.pod);
        let near = format!("{own}.{subdomain}");
        let wide = format!("{near}.{namespace}");
        vec![format!("{wide}.svc.{}", words::CLUSTER_DOMAIN), format!("{wide}.svc"), wide, near]
    }

    fn port(&self, address: &Text, port: u16) -> u16 {
        let (house, own) = (self.house, || meta::uid(self.pod));
        let pod = if *address == house.pod_address { Some(own()) } else { house.lookup.pod_at(address) };
        pod.and_then(|pod| house.lookup.port_of(&pod, port)).unwrap_or(port)
    }
}

/// A host without scheme and port.
fn bare(value: &str) -> &str {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    rest.split(':').next().unwrap_or_default()
}
