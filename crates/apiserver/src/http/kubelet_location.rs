//! Locates the kubelet of a node: in this process, or over the network.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use muster_api::node;
use muster_store::Key;
use muster_tree::{Text, Tree};

use super::server_state::ServerState;
use crate::status::{Status, StatusObject};

/// Used when the Node status names no port.
const KUBELET_PORT: u16 = 10_250;
/// Address types in order of preference (kube-apiserver: `--kubelet-preferred-address-types`).
const ADDRESSES: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];

/// The body of a kubelet's response.
pub type KubeletBody = UnsyncBoxBody<Bytes, io::Error>;
pub type KubeletFuture = Pin<Box<dyn Future<Output = Response<KubeletBody>> + Send>>;

/// Kubelets in this process.
pub trait KubeletHandler: Send + Sync {
    /// Whether this process runs the kubelet of this node.
    fn has_node(&self, node: &str) -> bool;

    /// Serves a request with a kubelet's path and query. It is the client's request: its connection can be upgraded.
    fn serve(&self, node: &str, request: hyper::Request<Incoming>) -> KubeletFuture;
}

/// How the kubelet of a node is reached.
pub(super) enum KubeletConnection {
    InProcess(Arc<dyn KubeletHandler>),
    Remote(KubeletAddress),
    /// No kubelet runs (simulated nodes): its nominal address, and the reason.
    Unreachable(KubeletAddress, String),
}

/// Host and port of a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KubeletAddress {
    pub host: String,
    pub port: u16,
}

impl KubeletAddress {
    /// `host:port`, an IPv6 address in brackets.
    pub fn authority(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
            _ => format!("{}:{}", self.host, self.port),
        }
    }
}

/// Looks up the kubelet of a Node.
///
/// # Errors
/// 404 when the Node does not exist, 500 when it has no address; messages as from kube-apiserver.
pub(super) fn locate(shared: &ServerState, name: &Text) -> Result<KubeletConnection, Status> {
    if let Some(door) = shared.local_kubelets.as_ref().filter(|door| door.has_node(name)) {
        return Ok(KubeletConnection::InProcess(door.clone()));
    }
    let key = Key { resource: "nodes".into(), namespace: Text::new(), name: name.clone() };
    let object = shared.engine.store().get(&key);
    // The message names the resource of the request (pods), as kube-apiserver's does, not that of the missing object.
    let on = StatusObject { group: "", resource: "pods", name };
    let found = object.ok_or_else(|| Status::not_found(on))?;
    let address = address(&found.tree).map_err(|message| Status::new(500, "", message))?;
    Ok(match node::simulator_id(&found.tree) {
        Some(_) => KubeletConnection::Unreachable(
            address,
            format!("node {name} is simulated: its pods run no processes"),
        ),
        None => KubeletConnection::Remote(address),
    })
}

fn address(node: &Tree) -> Result<KubeletAddress, String> {
    let all = node.items_at(&["status", "addresses"]);
    let best = ADDRESSES.iter().find_map(|kind| all.iter().find(|a| a.str_at(&["type"]) == *kind));
    let host = best.map(|address| address.str_at(&["address"])).filter(|host| !host.is_empty());
    let Some(host) = host else {
        let known = all.iter().map(|a| format!("{{{} {}}}", a.str_at(&["type"]), a.str_at(&["address"])));
        let known: Vec<String> = known.collect();
        return Err(format!("no preferred addresses found; known addresses: [{}]", known.join(" ")));
    };
    let port = node.int_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
    let port = port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    Ok(KubeletAddress { host: host.to_owned(), port: port.unwrap_or(KUBELET_PORT) })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn addresses() {
        let at = |node: &Tree| address(node).map(|a| a.authority());
        let node = tree!({"status": {
            "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 41}},
        }});
        assert_eq!(at(&node), Ok("10.0.0.1:41".to_owned()));
        let node = tree!({"status": {"addresses": [{"type": "InternalIP", "address": "::1"}]}});
        assert_eq!(at(&node), Ok("[::1]:10250".to_owned()), "the usual port");
        let node = tree!({"status": {"addresses": [{"type": "InternalDNS", "address": "x"}]}});
        let why = "no preferred addresses found; known addresses: [{InternalDNS x}]";
        assert_eq!(at(&node), Err(why.to_owned()));
    }
}
