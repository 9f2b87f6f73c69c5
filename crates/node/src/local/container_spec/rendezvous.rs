//! Rewrites the rendezvous address of a distributed job (torchrun, JAX, MPI, DMLC) where pods have no DNS.
//!
//! In a mount namespace the pod's hosts file resolves its peers, and its own IP keeps ports apart. Without one,
//! rendezvous variables and arguments are rewritten when a container starts: hostnames become the IP of the peer, and
//! its port becomes the host port mapped to it. The objects are not modified.

use std::net::IpAddr;

use muster_api::paths::{container as path, env as var, pod as pod_path};
use muster_api::train::consts::env as train;
use muster_api::train::generated::torchtune::MEETING_POINT;
use muster_api::{consts, meta};
use muster_process::Isolation;
use muster_tree::{Text, Tree};

use super::env::Env;
use super::{ContainerConfigError, PodContext};

/// Variables with addresses, as the launchers define them.
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

/// Variables with a port, and the variable of its host.
const PORTS: &[(&str, &str)] = &[
    ("MASTER_PORT", "MASTER_ADDR"),
    (train::PET_MASTER_PORT, train::PET_MASTER_ADDR),
    ("DMLC_PS_ROOT_PORT", "DMLC_PS_ROOT_URI"),
    (train::DMLC_TRACKER_PORT, train::DMLC_TRACKER_URI),
];

/// Rewrites the environment and arguments of one container.
pub(super) struct Rendezvous<'a> {
    pod: &'a Tree,
    container: &'a Tree,
    context: &'a PodContext<'a>,
}

impl<'a> Rendezvous<'a> {
    /// `None` in mount namespaces, where hostnames resolve.
    pub(super) fn of(
        pod: &'a Tree,
        container: &'a Tree,
        context: &'a PodContext<'a>,
    ) -> Option<Rendezvous<'a>> {
        (context.isolation == Isolation::None).then_some(Rendezvous { pod, container, context })
    }

    /// The value of a variable with hostnames resolved and ports mapped. Schemes and unknown hosts are kept.
    ///
    /// # Errors
    /// The rendezvous peer has no IP yet.
    pub(super) fn variable(
        &self,
        name: &str,
        value: String,
        known: &Env,
    ) -> Result<String, ContainerConfigError> {
        if ADDRESSES.contains(&name) {
            return self.endpoints(&value);
        }
        let Some((_, of)) = PORTS.iter().find(|(port, _)| *port == name) else { return Ok(value) };
        let later = || self.container.items_at(path::ENV).iter().find(|it| it.str_at(var::NAME) == *of);
        let host = known.get(of).or_else(|| later().map(|it| it.str_at(var::VALUE)));
        let address = host.map(|it| self.address(host_of(it))).transpose()?.flatten();
        Ok(match (address, value.parse()) {
            (Some(address), Ok(port)) => self.port(&address, port).to_string(),
            _ => value,
        })
    }

    /// Arguments with the rendezvous endpoint rewritten.
    pub(super) fn command(&self, argv: Vec<String>) -> Result<Vec<String>, ContainerConfigError> {
        // torchrun accepts dashes and underscores in option names.
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

    fn endpoints(&self, value: &str) -> Result<String, ContainerConfigError> {
        let all: Result<Vec<String>, ContainerConfigError> =
            value.split(',').map(|one| self.endpoint(one)).collect();
        Ok(all?.join(","))
    }

    /// Resolves one `[scheme://]host[:port]` endpoint.
    fn endpoint(&self, part: &str) -> Result<String, ContainerConfigError> {
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

    /// The IP of a pod or Service hostname; an IP is returned as it is.
    fn address(&self, host: &str) -> Result<Option<Text>, ContainerConfigError> {
        if host.is_empty() || host == "localhost" {
            return Ok(None);
        }
        if host.parse::<IpAddr>().is_ok() {
            return Ok(Some(host.into()));
        }
        let namespace = meta::namespace(self.pod);
        if self.names(self.pod.str_at(pod_path::HOSTNAME)).iter().any(|own| own == host) {
            return Ok(Some(self.context.pod_address.clone()));
        }
        match self.context.lookup.address_of(host, &namespace) {
            None if self.context.patient && self.is_peer(host) => {
                Err(ContainerConfigError::with_neighbour(host))
            }
            found => Ok(found),
        }
    }

    /// Whether this is the hostname of a pod in the same subdomain, which may not have an IP yet.
    fn is_peer(&self, host: &str) -> bool {
        let own = host.split('.').next().unwrap_or_default();
        self.names(own).iter().any(|name| name == host)
    }

    /// The hostname forms of a pod in the same subdomain; none without a subdomain.
    fn names(&self, own: &str) -> Vec<String> {
        let subdomain = self.pod.str_at(pod_path::SUBDOMAIN);
        if subdomain.is_empty() {
            return Vec::new();
        }
        let namespace = meta::namespace(self.pod);
        let near = format!("{own}.{subdomain}");
        let wide = format!("{near}.{namespace}");
        vec![format!("{wide}.svc.{}", consts::CLUSTER_DOMAIN), format!("{wide}.svc"), wide, near]
    }

    fn port(&self, address: &Text, port: u16) -> u16 {
        let (context, own) = (self.context, || meta::uid(self.pod));
        let pod = if *address == context.pod_address { Some(own()) } else { context.lookup.pod_at(address) };
        pod.and_then(|pod| context.lookup.port_of(&pod, port)).unwrap_or(port)
    }
}

/// A host without scheme and port.
fn host_of(value: &str) -> &str {
    let rest = value.split_once("://").map_or(value, |(_, rest)| rest);
    rest.split(':').next().unwrap_or_default()
}
