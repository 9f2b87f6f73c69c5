//! Maintains the `kubernetes` Service of namespace `default` with its Endpoints and EndpointSlice, by which pods find
//! the API server.
//!
//! # Guarantees
//!
//! - The objects exist from the first request on. A deleted one is created again within [`RECONCILE_EVERY`], and
//!   changed endpoints are restored. Without a change nothing is written.
//! - The Service is created and never updated, as with kube-apiserver: users' changes stay.
//! - The address is the one that kube-apiserver would advertise: the listen address, or that of the interface with
//!   the default route when the server listens on loopback or on all addresses.
//!
//! # Deliberately absent
//!
//! Removing the endpoint on shutdown: there is no other server that could take over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use muster_api::consts::{DEFAULT_NAMESPACE, KUBERNETES_SERVICE, labels};
use muster_tree::{Text, Tree, tree};
use tokio::time::sleep;

use super::shutdown::StopSignal;
use crate::engine::{ApiEngine, MANAGER};
use crate::request::{DeleteOptions, ListOptions, RequestBody, ResourcePath, WriteAct};
use crate::status::Status;

const RECONCILE_EVERY: Duration = Duration::from_secs(10);
const SERVICE_PORT: i64 = 443;
/// The port name in Service, Endpoints and EndpointSlice.
const PORT_NAME: &str = "https";

/// The advertised address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AdvertisedAddress {
    address: Option<IpAddr>,
    port: u16,
}

impl AdvertisedAddress {
    /// The address to advertise for a listen address.
    pub(super) fn of(listening: SocketAddr) -> AdvertisedAddress {
        let ip = listening.ip();
        let is_own = !ip.is_loopback() && !ip.is_unspecified();
        let address = if is_own { Some(ip) } else { default_route_address(ip.is_ipv4()) };
        AdvertisedAddress { address, port: listening.port() }
    }
}

/// The address of the interface with the default route; `None` without one.
fn default_route_address(is_ipv4: bool) -> Option<IpAddr> {
    // Connecting a UDP socket sends nothing: it makes the kernel choose a route. The target is a documentation
    // address (RFC 5737, RFC 3849), which no local route covers.
    let (any, far): (IpAddr, IpAddr) = if is_ipv4 {
        (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(203, 0, 113, 1).into())
    } else {
        (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into())
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((far, 9)).ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// Reconciles periodically until the server stops.
pub(super) async fn run(engine: ApiEngine, advertised: AdvertisedAddress, mut stop: StopSignal) {
    loop {
        tokio::select! {
            () = stop.stopped() => return,
            () = sleep(RECONCILE_EVERY) => reconcile(&engine, advertised),
        }
    }
}

/// Creates missing objects and restores changed endpoints.
pub(super) fn reconcile(engine: &ApiEngine, advertised: AdvertisedAddress) {
    if find(engine, &SERVICES).is_none() {
        create_service(engine, advertised.port);
    }
    match find(engine, &ENDPOINTS) {
        None => write(engine, &ENDPOINTS, WriteAct::Create(body(endpoints(&Tree::Null, advertised)))),
        Some(current) => update(engine, &ENDPOINTS, &current, endpoints(&current, advertised)),
    }
    let wanted = slice(advertised);
    match find(engine, &SLICES) {
        None => write(engine, &SLICES, WriteAct::Create(body(wanted))),
        // `addressType` is immutable: the next reconciliation creates the slice again.
        Some(current) if current.get("addressType") != wanted.get("addressType") => {
            write(engine, &SLICES, WriteAct::Delete(DeleteOptions::default()));
        }
        Some(current) => {
            let mut restored = current.clone();
            for key in ["endpoints", "ports"] {
                restored = restored.with_key(key, wanted.get(key).cloned().unwrap_or_default());
            }
            let marks = wanted.at(&["metadata", "labels"]).cloned().unwrap_or_default();
            update(engine, &SLICES, &current, restored.with(&["metadata", "labels"], marks));
        }
    }
}

/// A resource in which one object with the Service's name is reconciled.
struct ReconciledResource {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
}

const SERVICES: ReconciledResource = ReconciledResource { group: "", version: "v1", plural: "services" };
const ENDPOINTS: ReconciledResource = ReconciledResource { group: "", version: "v1", plural: "endpoints" };
const SLICES: ReconciledResource =
    ReconciledResource { group: "discovery.k8s.io", version: "v1", plural: "endpointslices" };

impl ReconciledResource {
    fn target(&self, name: &str) -> ResourcePath {
        ResourcePath {
            group: self.group.into(),
            version: self.version.into(),
            resource: self.plural.into(),
            namespace: DEFAULT_NAMESPACE.into(),
            name: name.into(),
            ..ResourcePath::default()
        }
    }
}

/// The stored object, with its resourceVersion as precondition of updates.
fn find(engine: &ApiEngine, of: &ReconciledResource) -> Option<Tree> {
    let found = engine.get(&of.target(KUBERNETES_SERVICE), &ListOptions::default()).ok()?;
    Some(found.tree.with(&["metadata", "resourceVersion"], found.revision.to_string()))
}

fn update(engine: &ApiEngine, of: &ReconciledResource, current: &Tree, wanted: Tree) {
    if *current != wanted {
        write(engine, of, WriteAct::Update(body(wanted)));
    }
}

fn body(tree: Tree) -> RequestBody {
    RequestBody { tree, duplicates: Vec::new() }
}

fn write(engine: &ApiEngine, of: &ReconciledResource, act: WriteAct) {
    let name = if matches!(act, WriteAct::Create(_)) { "" } else { KUBERNETES_SERVICE };
    let plural = of.plural;
    engine.write_own(MANAGER, of.target(name), act, move |refused| log(plural, refused.as_ref()));
}

/// A concurrent change (404, 409) is handled by the next reconciliation.
fn log(plural: &str, refused: Option<&Status>) {
    if let Some(status) = refused.filter(|status| !matches!(status.code, 404 | 409)) {
        tracing::error!(%plural, name = KUBERNETES_SERVICE, error = %status.message, "cannot reconcile the kubernetes Service");
    }
}

/// The Service gets the first address of the range. If a Service of an older server holds it, any other address will
/// do.
fn create_service(engine: &ApiEngine, port: u16) {
    let service = tree!({
        "metadata": {
            "name": KUBERNETES_SERVICE, "namespace": DEFAULT_NAMESPACE,
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None",
            "ports": [{"name": PORT_NAME, "protocol": "TCP", "port": SERVICE_PORT, "targetPort": i64::from(port)}],
        },
    });
    let with_address = service.with(&["spec", "clusterIP"], engine.first_service_address());
    let again = engine.clone();
    let act = WriteAct::Create(body(with_address));
    engine.write_own(MANAGER, SERVICES.target(""), act, move |refused| match refused {
        // 422 means that the address is allocated to another Service.
        Some(status) if status.code == 422 => write(&again, &SERVICES, WriteAct::Create(body(service))),
        refused => log(SERVICES.plural, refused.as_ref()),
    });
}

/// The Endpoints with the address of the server; labels and annotations of `current` stay.
fn endpoints(current: &Tree, advertised: AdvertisedAddress) -> Tree {
    let subset = |ip: IpAddr| {
        let addresses = Tree::list([tree!({"ip": ip.to_string()})]);
        tree!({"addresses": addresses, "ports": Tree::list([port(advertised)])})
    };
    let base = if current.is_null() { named() } else { current.clone() };
    let marked = base.with(&["metadata", "labels", labels::SKIP_MIRROR], "true");
    match advertised.address.map(subset) {
        Some(subset) => marked.with_key("subsets", Tree::list([subset])),
        None => marked.without_key("subsets"),
    }
}

fn slice(advertised: AdvertisedAddress) -> Tree {
    let kind = if advertised.address.is_some_and(|ip| ip.is_ipv6()) { "IPv6" } else { "IPv4" };
    let endpoint = advertised.address.map(|ip| {
        let addresses = Tree::list([ip.to_string()]);
        tree!({"addresses": addresses, "conditions": {"ready": true}})
    });
    let ports = endpoint.as_ref().map(|_| port(advertised));
    let slice = tree!({"addressType": kind, "endpoints": Tree::list(endpoint), "ports": Tree::list(ports)});
    named().with(&["metadata", "labels", labels::SERVICE_NAME], KUBERNETES_SERVICE).merge(&slice)
}

fn port(advertised: AdvertisedAddress) -> Tree {
    tree!({"name": PORT_NAME, "port": i64::from(advertised.port), "protocol": "TCP"})
}

fn named() -> Tree {
    let (name, namespace) = (Text::from(KUBERNETES_SERVICE), Text::from(DEFAULT_NAMESPACE));
    tree!({"metadata": {"name": name, "namespace": namespace}})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tests::TestEngine;

    fn at(address: &str) -> AdvertisedAddress {
        AdvertisedAddress::of(address.parse().unwrap())
    }

    fn stored(engine: &ApiEngine, of: &ReconciledResource) -> Tree {
        find(engine, of).unwrap_or_else(|| panic!("no {} {KUBERNETES_SERVICE}", of.plural))
    }

    #[test]
    fn the_objects_are_created_once_and_then_nothing_is_written() {
        let engine = TestEngine::new().engine;
        let here = at("10.1.2.3:6443");
        reconcile(&engine, here);
        let service = stored(&engine, &SERVICES);
        assert_eq!(service.str_at(&["spec", "clusterIP"]), "10.96.0.1");
        assert_eq!(
            service.at(&["spec", "ports"]),
            Some(&tree!([{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]))
        );
        let endpoints = stored(&engine, &ENDPOINTS);
        let subset = tree!([{"addresses": [{"ip": "10.1.2.3"}],
            "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}]);
        assert_eq!(endpoints.get("subsets"), Some(&subset));
        let slice = stored(&engine, &SLICES);
        assert_eq!(
            slice.get("endpoints"),
            Some(&tree!([{"addresses": ["10.1.2.3"], "conditions": {"ready": true}}]))
        );
        let before = engine.revision();
        reconcile(&engine, here);
        assert_eq!(engine.revision(), before, "a steady server writes nothing");
    }

    #[test]
    fn deleted_and_changed_objects_are_restored() {
        let engine = TestEngine::new().engine;
        let here = at("10.1.2.3:6443");
        reconcile(&engine, here);
        for of in [&SERVICES, &ENDPOINTS, &SLICES] {
            write(&engine, of, WriteAct::Delete(DeleteOptions::default()));
            assert!(find(&engine, of).is_none(), "{} is deleted", of.plural);
        }
        reconcile(&engine, here);
        assert_eq!(stored(&engine, &SERVICES).str_at(&["spec", "clusterIP"]), "10.96.0.1");
        let emptied = stored(&engine, &SLICES).with_key("endpoints", Tree::empty_list());
        write(&engine, &SLICES, WriteAct::Update(body(emptied)));
        let emptied = stored(&engine, &ENDPOINTS).without_key("subsets");
        write(&engine, &ENDPOINTS, WriteAct::Update(body(emptied)));
        reconcile(&engine, here);
        assert_eq!(stored(&engine, &SLICES).items_at(&["endpoints"]).len(), 1);
        assert_eq!(stored(&engine, &ENDPOINTS).items_at(&["subsets"]).len(), 1);
        let moved = at("10.1.2.3:7443");
        reconcile(&engine, moved);
        let ports = stored(&engine, &SLICES);
        assert_eq!(ports.items_at(&["ports"])[0].int_at(&["port"]), Some(7443), "another port is published");
    }

    #[test]
    fn an_address_of_another_service_is_not_taken_over() {
        let engine = TestEngine::new().engine;
        let other = tree!({"metadata": {"name": "other", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 1}]}});
        write(&engine, &SERVICES, WriteAct::Create(body(other)));
        reconcile(&engine, at("10.1.2.3:6443"));
        let address = stored(&engine, &SERVICES).text_at(&["spec", "clusterIP"]);
        assert!(address.starts_with("10.96.") && address != "10.96.0.1", "{address}");
    }

    #[test]
    fn the_address_of_another_family_gets_another_slice() {
        let engine = TestEngine::new().engine;
        reconcile(&engine, at("10.1.2.3:6443"));
        let six = at("[2001:db8::5]:6443");
        reconcile(&engine, six);
        reconcile(&engine, six);
        assert_eq!(stored(&engine, &SLICES).str_at(&["addressType"]), "IPv6");
    }
}
