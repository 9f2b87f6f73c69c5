//! The names of Services and pods as a name server tells them.
//!
//! [`answer`] takes a query as it came over the wire and gives the reply; whatever is not of the cluster's domain is for
//! another server. Listening and asking that server is the rim's.
//!
//! # Invariants
//!
//! - Same query, same names, same bytes.
//! - No query, whatever is in it, does more than cost its own length.
//!
//! # Deliberately absent
//!
//! Zone transfers, signatures, `ExternalName` Services, names of single pods below `pod.cluster.local`.

mod book;
mod names;
mod wire;

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use muster_api::words::CLUSTER_DOMAIN as DOMAIN;

pub use book::Book;
pub use names::Names;
use wire::{Query, Refusal, Reply};

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Record {
    /// An address.
    Address(IpAddr),
    /// A port of a Service, at this name.
    Service {
        /// The port.
        port: u16,
        /// Who has it.
        target: String,
    },
    /// The name of an address.
    Pointer(String),
}

/// What becomes of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// This is the reply.
    Reply(Vec<u8>),
    /// The name is not ours: another server may know it.
    Elsewhere,
    /// It is not a query, and gets no reply.
    Nothing,
}

/// Answers a query. `room` is how many bytes a reply may have when the asker does not say more.
#[must_use]
pub fn answer(query: &[u8], names: &Names, room: usize) -> Answer {
    let asked = match Query::read(query) {
        Ok(asked) => asked,
        Err(Refusal::NotAQuery) => return Answer::Nothing,
        Err(Refusal::Malformed(id)) => return Answer::Reply(wire::refusal(id, wire::FORMAT_ERROR)),
        Err(Refusal::NotHere(id)) => return Answer::Reply(wire::refusal(id, wire::NOT_IMPLEMENTED)),
    };
    let all = names.find(&asked.name);
    if all.is_none() && !is_ours(&asked.name) {
        return Answer::Elsewhere;
    }
    let mut reply = Reply::to(&asked);
    let fitting: Vec<&Record> = all.unwrap_or_default().iter().filter(|it| asked.wants(it)).collect();
    // Askers take the first; each shall have its turn.
    let first = if fitting.is_empty() { 0 } else { usize::from(asked.id) % fitting.len() };
    for record in fitting[first..].iter().chain(&fitting[..first]) {
        reply.answer(record);
    }
    for record in &fitting {
        if let Record::Service { target, .. } = record {
            let known = names.find(target).unwrap_or_default();
            known.iter().for_each(|address| reply.beside(target, address));
        }
    }
    if fitting.is_empty() {
        reply.nothing(all.is_some() || names.has_below(&asked.name));
    }
    Answer::Reply(reply.bytes(asked.room.unwrap_or(room).max(room)))
}

/// A reply that says that nothing could be found out.
#[must_use]
pub fn failure(query: &[u8]) -> Option<Vec<u8>> {
    Query::read(query).ok().map(|asked| {
        let mut reply = Reply::to(&asked);
        reply.failed();
        reply.bytes(usize::MAX)
    })
}

fn is_ours(name: &str) -> bool {
    name.strip_suffix(DOMAIN).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
