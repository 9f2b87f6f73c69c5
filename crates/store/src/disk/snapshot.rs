//! The rolling snapshot: which blocks make up the base, and how far the next one has come.
//!
//! Each commit carries one block along, no larger than itself, so that no commit ever waits for a snapshot. A block
//! shows its keys as they are when it is written; later changes of them are in the log, which is kept from the
//! commit that wrote the first block. Records carry their revision and newer wins.

use muster_tree::{Text, Tree};

use crate::Key;
use crate::codec::checksum;

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
    /// How many blocks it has; unknown for those that were written before this was kept.
    pub(crate) blocks: Option<u32>,
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
        let tree = self.described();
        tree.with(&[SUM], sum_of(&tree)).to_json_bytes()
    }

    fn described(&self) -> Tree {
        let number = |n: u64| Tree::from(n.to_string());
        let newest = Tree::map(self.newest.iter().map(|(resource, n)| (resource.clone(), number(*n))));
        let described = Tree::map([
            ("begin", number(self.begin)),
            ("end", number(self.end)),
            ("generation", number(self.generation)),
            ("newest", newest),
        ]);
        described.with_option(&["blocks"], self.blocks.map(|blocks| number(blocks.into())))
    }

    /// Reads a description; `None` when it is not what was written. Old ones have no sum.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let tree = Tree::parse(bytes).ok()?;
        let sum = tree.get(SUM);
        if sum.is_some_and(|sum| sum.as_str() != Some(&sum_of(&tree.without(&[SUM])))) {
            return None;
        }
        let number = |path: &str| tree.str_at(&[path]).parse().ok();
        let newest = tree.entries_at(&["newest"]).iter();
        Some(Self {
            generation: number("generation")?,
            begin: number("begin")?,
            end: number("end")?,
            newest: newest
                .map(|(k, v)| Some((k.clone(), v.as_str()?.parse().ok()?)))
                .collect::<Option<_>>()?,
            blocks: number("blocks").and_then(|blocks: u64| blocks.try_into().ok()),
        })
    }
}

/// Where the sum of a description stands.
const SUM: &str = "sum";

fn sum_of(described: &Tree) -> String {
    checksum(&described.to_json_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_again() {
        let newest = vec![(Text::from("pods"), 8)];
        let snapshot = Snapshot { generation: 3, begin: 7, end: 9, newest, blocks: Some(2) };
        assert_eq!(Snapshot::of_bytes(&snapshot.to_bytes()), Some(snapshot.clone()));
        assert_eq!(Snapshot::of_bytes(b"{\"begin\":\"x\"}"), None);
        let changed = String::from_utf8(snapshot.to_bytes()).unwrap().replace("\"3\"", "\"2\"");
        assert_eq!(Snapshot::of_bytes(changed.as_bytes()), None, "another generation");
        let old = br#"{"begin":"7","end":"9","generation":"3","newest":{"pods":"8"}}"#;
        assert_eq!(Snapshot::of_bytes(old), Some(Snapshot { blocks: None, ..snapshot }));
    }
}
