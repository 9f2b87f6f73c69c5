//! The rolling snapshot: the blocks of the active snapshot, and the progress of the next one.
//!
//! Each commit also writes one block of at most its own size, so that no commit waits for a snapshot. A block contains
//! the state of its keys at the time of its commit; later changes are in the log, which is retained from the commit that
//! wrote the first block. Records carry their revision, and the newer one wins.

use muster_tree::{Text, Tree};

use crate::Key;
use crate::codec::checksum;

/// The active snapshot, which is loaded before the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Generation of its blocks; 0 is the empty snapshot of a new store.
    pub(crate) generation: u64,
    /// First revision of the log to load.
    pub(crate) begin: u64,
    /// Latest revision in any block. Up to it, the state before a change is unknown, so there is no history.
    pub(crate) end: u64,
    /// Revision of the last change of each resource up to `end`.
    pub(crate) newest: Vec<(Text, u64)>,
    /// Number of blocks; `None` in files of versions that did not record it.
    pub(crate) blocks: Option<u32>,
}

/// The snapshot in progress.
#[derive(Debug, Clone)]
pub(crate) struct Rolling {
    pub(crate) generation: u64,
    pub(crate) begin: u64,
    /// Number of the next block.
    pub(crate) block: u32,
    /// Last key that was written to a block.
    pub(crate) after: Option<Key>,
    pub(crate) bytes: u64,
}

impl Rolling {
    /// A snapshot without blocks.
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

    /// Parses a description; `None` if it is corrupt. Old descriptions have no checksum.
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

/// Field of the checksum of a description.
const SUM: &str = "sum";

fn sum_of(described: &Tree) -> String {
    checksum(&described.to_json_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_round_trips() {
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
