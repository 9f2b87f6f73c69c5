//! The ways to the nodes that pods run on: a door in this process, or the network.

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

use super::context::Shared;
use crate::status::{Named, Status};

/// The port of a kubelet that does not say another.
const KUBELET_PORT: u16 = 10_250;
/// Kinds of addresses, best first.
const ADDRESSES: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];

/// The body of a node's answer.
pub type NodeBody = UnsyncBoxBody<Bytes, io::Error>;
/// A node's answer to come.
pub type NodeAnswer = Pin<Box<dyn Future<Output = Response<NodeBody>> + Send>>;

/// The nodes of this process.
pub trait NodeDoor: Send + Sync {
    /// Whether a node of this name is one of them.
    fn has(&self, node: &str) -> bool;

    /// Answers a request with the path and query of a kubelet. The request is the one that came from the client: its
    /// connection can be upgraded.
    fn serve(&self, node: &str, request: hyper::Request<Incoming>) -> NodeAnswer;
}

/// The way to one node.
pub(super) enum Road {
    /// In this process.
    Here(Arc<dyn NodeDoor>),
    /// Over the network.
    Away(Address),
    /// Nowhere: nobody listens, and why.
    Nowhere(Address, String),
}

/// Where a kubelet listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub host: String,
    pub port: u16,
}

impl Address {
    /// `host:port`, an IPv6 address in brackets.
    pub fn authority(&self) -> String {
        match self.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
            _ => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The way to the node of this name.
///
/// # Errors
/// 404 when there is no such node, 500 when it has no address; both as a real server says it.
pub(super) fn road(shared: &Shared, name: &Text) -> Result<Road, Status> {
    if let Some(door) = shared.nodes.as_ref().filter(|door| door.has(name)) {
        return Ok(Road::Here(door.clone()));
    }
    let key = Key { resource: "nodes".into(), namespace: Text::new(), name: name.clone() };
    let object = shared.engine.store().get(&key);
    // The kind is that of the request, not that of what is missing.
    let on = Named { group: "", resource: "pods", name };
    let found = object.ok_or_else(|| Status::not_found(on))?;
    let address = address(&found.tree).map_err(|message| Status::new(500, "", message))?;
    Ok(match node::simulator(&found.tree) {
        Some(_) => Road::Nowhere(address, format!("node {name} is simulated: its pods run no processes")),
        None => Road::Away(address),
    })
}

fn address(node: &Tree) -> Result<Address, String> {
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
    Ok(Address { host: host.to_owned(), port: port.unwrap_or(KUBELET_PORT) })
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
