//! The cluster DNS: names of Services and pods, after the Kubernetes DNS specification.
//!
//! [`answer`] takes a query from the wire and returns the reply; names outside of the cluster domain are forwarded.
//! Sockets and upstream servers are in the `kubelet` crate.
//!
//! # Guarantees
//!
//! - The same query and records give the same bytes.
//! - The work per query is linear in its length.
//!
//! # Deliberately absent
//!
//! Zone transfers, DNSSEC, `ExternalName` Services, pod names below `pod.cluster.local`.

mod records;
mod wire;
mod zone;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use muster_api::consts::CLUSTER_DOMAIN as DOMAIN;

pub use records::Names;
use wire::{Query, QueryError, Reply};
pub use zone::Book;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Record {
    Address(IpAddr),
    /// SRV: a port of a Service and its target.
    Service {
        port: u16,
        target: String,
    },
    /// PTR: the name of an IP.
    Pointer(String),
}

/// What to do with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Reply(Vec<u8>),
    /// The name is outside of the cluster domain: forward the query.
    Elsewhere,
    /// Not a query: send no reply.
    Nothing,
}

/// Answers a query. `room` is the reply limit in bytes unless EDNS allows more.
#[must_use]
pub fn answer(query: &[u8], names: &Names, room: usize) -> Answer {
    let parsed = match Query::read(query) {
        Ok(parsed) => parsed,
        Err(QueryError::NotAQuery) => return Answer::Nothing,
        Err(QueryError::Malformed(id)) => return Answer::Reply(wire::refusal(id, wire::FORMAT_ERROR)),
        Err(QueryError::NotHere(id)) => return Answer::Reply(wire::refusal(id, wire::NOT_IMPLEMENTED)),
    };
    let all = names.find(&parsed.name);
    if all.is_none() && !is_ours(&parsed.name) {
        return Answer::Elsewhere;
    }
    let mut reply = Reply::to(&parsed);
    let fitting: Vec<&Record> = all.unwrap_or_default().iter().filter(|it| parsed.wants(it)).collect();
    // Round robin: clients use the first record.
    let first = if fitting.is_empty() { 0 } else { usize::from(parsed.id) % fitting.len() };
    for record in fitting[first..].iter().chain(&fitting[..first]) {
        reply.answer(record);
    }
    // RFC 2782: the addresses of SRV targets go to the additional section.
    for record in &fitting {
        if let Record::Service { target, .. } = record {
            let known = names.find(target).unwrap_or_default();
            known.iter().for_each(|address| reply.beside(target, address));
        }
    }
    if fitting.is_empty() {
        reply.nothing(all.is_some() || names.has_below(&parsed.name));
    }
    Answer::Reply(reply.bytes(parsed.room.unwrap_or(room).max(room)))
}

#[must_use]
pub fn failure(query: &[u8]) -> Option<Vec<u8>> {
    Query::read(query).ok().map(|parsed| {
        let mut reply = Reply::to(&parsed);
        reply.failed();
        reply.bytes(usize::MAX)
    })
}

fn is_ours(name: &str) -> bool {
    name.strip_suffix(DOMAIN).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
