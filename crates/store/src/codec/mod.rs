//! How records are written: one segment or block at a time, each branch once.
//!
//! Trees that come out of the sharing table share branches, so a branch, a text or a list of owners that was
//! written before in the same bytes is written as a number. Reading hands every new branch to the sharing table
//! once, however many objects hold it. The whole is compressed and carries a checksum.
//!
//! # Invariants
//!
//! - What [`encode`] wrote, [`decode`] reads back equal.
//! - Damaged bytes are an error with a sentence, never a panic and never another object.

mod decode;
mod encode;

pub(crate) use decode::decode;
pub(crate) use encode::Encoder;
use muster_api::time::Time;

use crate::{Key, Object};

/// One change as the disk knows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logged {
    pub(crate) revision: u64,
    pub(crate) key: Key,
    pub(crate) what: What,
}

/// The change itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Put(Object),
    /// With the last state where it differs from the one before.
    Delete(Option<Object>),
}

/// Records read back, with the instant of their commit.
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

/// Bytes in front of the compressed ones.
const CHECKSUM_BYTES: usize = 8;

/// FNV-1a over words: cheap, and stable over versions and machines, which a hasher of the language is not.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let start = 0xcbf2_9ce4_8422_2325 ^ bytes.len() as u64;
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let all = words.chain(rest.iter().map(|byte| u64::from(*byte)));
    all.fold(start, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23))
}

#[cfg(test)]
mod tests;
