//! The binary format of log segments and snapshot blocks.
//!
//! Interned trees share branches, so a branch, string or list of managed fields that occurred before in the same segment
//! is written as a back-reference. Decoding interns every new branch once, however many objects share it. A segment is
//! compressed and has a checksum.
//!
//! # Guarantees
//!
//! - [`decode`] returns what was given to [`encode`].
//! - Corrupt bytes are an error with a message, never a panic and never another object.

mod decode;
mod encode;

pub(crate) use decode::decode;
pub(crate) use encode::Encoder;
use muster_api::time::Time;

use crate::{Key, StoredObject};

/// A decoded record: one change of one key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logged {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) what: What,
}

/// The decoded mutation of a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Put(StoredObject),
    /// With the last state if it differs from the state before.
    Delete(Option<StoredObject>),
}

/// A decoded segment or block, with the time of its commit.
pub(crate) struct Segment {
    pub(crate) at: Time,
    pub(crate) records: Vec<Logged>,
}

const PUT: u8 = 0;
const DELETE: u8 = 1;
const DELETE_CHANGED: u8 = 2;

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INT: u8 = 3;
const FLOAT: u8 = 4;
const TEXT: u8 = 5;
const LIST: u8 = 6;
const MAP: u8 = 7;
const KNOWN: u8 = 8;

/// Size of the checksum before the compressed bytes.
const CHECKSUM_BYTES: usize = 8;

/// FNV-1a over 64-bit words: stable across versions and hosts, unlike the standard library's hashers.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let start = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let all = words.chain(rest.iter().map(|byte| u64::from(*byte)));
    all.fold(start, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23))
}

#[cfg(test)]
mod tests;
