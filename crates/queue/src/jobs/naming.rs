//! The names of Workloads that belong to one object.
//!
//! # Invariants
//!
//! - The name is a function of the owner alone: a create that is repeated meets its own object.
//! - It is never longer than its [`Room`], and a legal object name if the owner's is.

use muster_tree::Text;
use sha1::{Digest, Sha1};

/// Digits of the hash at the end of a name.
const HASH_DIGITS: usize = 5;

/// How long names may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Room {
    /// As long as object names.
    #[default]
    Long,
    /// As long as DNS labels: the switch for short names is on.
    Short,
}

impl Room {
    /// The most bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Room::Long => 253,
            Room::Short => 63,
        }
    }
}

/// Who a Workload belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker<'a> {
    /// Kind, as objects write it.
    pub kind: &'a str,
    /// API group; empty for core.
    pub group: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID; empty while a name is wanted for something that does not exist yet.
    pub uid: &'a str,
}

/// The name of the Workload of `maker`.
#[must_use]
pub fn workload(maker: Maker<'_>, room: Room) -> Text {
    with_hash(maker, &hash(maker, None), room)
}

/// The name of a further Workload of `maker`; `extra` tells it from the others.
#[must_use]
pub fn another(maker: Maker<'_>, extra: &str, room: Room) -> Text {
    with_hash(maker, &hash(maker, Some(extra)), room)
}

fn hash(maker: Maker<'_>, extra: Option<&str>) -> String {
    let mut words = [maker.kind, maker.group, maker.name, maker.uid].join("\n");
    if let Some(extra) = extra {
        words.push('\n');
        words.push_str(extra);
    }
    let all: String = Sha1::digest(words).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..HASH_DIGITS].to_owned()
}

fn with_hash(maker: Maker<'_>, hash: &str, room: Room) -> Text {
    let front = format!("{}-{}", maker.kind.to_lowercase(), maker.name);
    let most = room.bytes() - HASH_DIGITS - 1;
    // Names of objects are ASCII; anything else is refused long before.
    let cut = front.get(..front.len().min(most)).unwrap_or(&front);
    // A dot before the dash would make a name that no server takes.
    Text::from(format!("{}-{hash}", cut.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job<'a>(name: &'a str, uid: &'a str) -> Maker<'a> {
        Maker { kind: "Job", group: "batch", name, uid }
    }

    /// Shows: 976-37.
    #[test]
    fn names_as_existing_clients_know_them() {
        let pod = Maker { kind: "Pod", group: "", name: "pod", uid: "test-uid" };
        assert_eq!(workload(pod, Room::Long), "pod-pod-43ebf");
        assert_eq!(workload(job("name", "uid"), Room::Long), "job-name-ef3a1");
        assert_eq!(another(job("name", "uid"), "1", Room::Long), "job-name-2514c");
    }

    #[test]
    fn long_names_give_way_before_the_hash() {
        let long = "n".repeat(300);
        for room in [Room::Long, Room::Short] {
            let name = workload(job(&long, "u"), room);
            assert_eq!(name.len(), room.bytes());
            let other = workload(job(&long, "v"), room);
            assert_ne!(name, other, "the hash tells owners apart");
            assert_eq!(name[..name.len() - 5], other[..other.len() - 5]);
        }
    }

    #[test]
    fn a_cut_never_leaves_a_dot_before_the_dash() {
        let dotted = format!("{}.{}", "n".repeat(Room::Short.bytes() - 6 - 5), "tail");
        let name = workload(job(&dotted, "u"), Room::Short);
        assert!(name.starts_with("job-nnn") && !name.contains(".-"), "{name}");
    }

    #[test]
    fn the_hash_tells_parts_apart() {
        let all = [
            workload(job("a", "b"), Room::Long),
            workload(job("a", "c"), Room::Long),
            workload(Maker { group: "x", ..job("a", "b") }, Room::Long),
            another(job("a", "b"), "1", Room::Long),
            another(job("a", "b"), "2", Room::Long),
        ];
        let mut distinct = all.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }
}
