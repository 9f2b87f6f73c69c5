//! The rolling snapshot: which blocks make up the base, and how far the next one has come.
//!
//! Each commit carries one block along, no larger than itself, so that no commit ever waits for a snapshot. A block
//! shows its keys as they are when it is written; later changes of them are in the log, which is kept from the
//! commit that wrote the first block. Records carry their revision and newer wins.

use muster_tree::{Text, Tree};

use crate::Key;

/// The finished snapshot that a start reads before the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Which blocks are its own; 0 is the empty snapshot of a new store.
    pub(crate) generation: u64,
    /// The log is read from here.
    pub(crate) begin: u64,
    /// No block shows anything later. Up to here the log cannot tell what was before a change.
    pub(crate) end: u64,
    /// The revision of the last change of each resource up to `end`.
    pub(crate) newest: Vec<(Text, u64)>,
}

/// A snapshot being written.
#[derive(Debug, Clone)]
pub(crate) struct Rolling {
    pub(crate) generation: u64,
    pub(crate) begin: u64,
    /// The number of the next block.
    pub(crate) block: u32,
    /// The last key that stands in a block.
    pub(crate) after: Option<Key>,
    pub(crate) bytes: u64,
}

impl Rolling {
    /// A snapshot without a block yet.
    pub(crate) fn new(generation: u64) -> Self {
        Self { generation, begin: 0, block: 0, after: None, bytes: 0 }
    }
}

impl Snapshot {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let number = |n: u64| Tree::from(n.to_string());
        let newest = Tree::map(self.newest.iter().map(|(resource, n)| (resource.clone(), number(*n))));
        Tree::map([
            ("begin", number(self.begin)),
            ("end", number(self.end)),
            ("generation", number(self.generation)),
            ("newest", newest),
        ])
        .to_json_bytes()
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let tree = Tree::parse(bytes).ok()?;
        let number = |path: &str| tree.str_at(&[path]).parse().ok();
        let newest = tree.entries_at(&["newest"]).iter();
        Some(Self {
            generation: number("generation")?,
            begin: number("begin")?,
            end: number("end")?,
            newest: newest
                .map(|(k, v)| Some((k.clone(), v.as_str()?.parse().ok()?)))
                .collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let snapshot = Snapshot { generation: 3, begin: 7, end: 9, newest: vec![(Text::from("pods"), 8)] };
        assert_eq!(Snapshot::of_bytes(&snapshot.to_bytes()), Some(snapshot));
        assert_eq!(Snapshot::of_bytes(b"{\"begin\":\"x\"}"), None);
    }
}
