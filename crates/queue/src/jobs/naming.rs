//! Names of Workloads.
//!
//! # Guarantees
//!
//! - The name is a function of the owner: a repeated create gets AlreadyExists for its own object.
//! - It fits its limit, and is a valid object name if the owner's name is.

use muster_tree::Text;
use sha1::{Digest, Sha1};

/// Length of the hash suffix in hex digits.
const HASH_DIGITS: usize = 5;

/// Length limit of Workload names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameLimit {
    #[default]
    Long,
    /// 63: DNS labels, feature gate `ShortWorkloadNames`.
    Short,
}

impl NameLimit {
    #[must_use]
    pub fn max_len(self) -> usize {
        match self {
            NameLimit::Long => 253,
            NameLimit::Short => 63,
        }
    }
}

/// The owner of a Workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkloadOwner<'a> {
    pub kind: &'a str,
    /// Empty for the core group.
    pub group: &'a str,
    pub name: &'a str,
    /// Empty for an object that does not exist yet.
    pub uid: &'a str,
}

/// The name of the owner's Workload.
#[must_use]
pub fn workload_name(maker: WorkloadOwner<'_>, room: NameLimit) -> Text {
    with_hash(maker, &hash(maker, None), room)
}

/// The name of a further Workload of the owner, distinguished by `extra`.
#[must_use]
pub fn workload_name_with_suffix(maker: WorkloadOwner<'_>, extra: &str, room: NameLimit) -> Text {
    with_hash(maker, &hash(maker, Some(extra)), room)
}

fn hash(maker: WorkloadOwner<'_>, extra: Option<&str>) -> String {
    let mut words = [maker.kind, maker.group, maker.name, maker.uid].join("\n");
    if let Some(extra) = extra {
        words.push('\n');
        words.push_str(extra);
    }
    let all: String = Sha1::digest(words).iter().map(|byte| format!("{byte:02x}")).collect();
    all[..HASH_DIGITS].to_owned()
}

fn with_hash(maker: WorkloadOwner<'_>, hash: &str, room: NameLimit) -> Text {
    let front = format!("{}-{}", maker.kind.to_lowercase(), maker.name);
    let most = room.max_len() - HASH_DIGITS - 1;
    // Object names are ASCII; others are rejected earlier.
    let cut = front.get(..front.len().min(most)).unwrap_or(&front);
    // A dot before the dash would make the name invalid.
    Text::from(format!("{}-{hash}", cut.trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job<'a>(name: &'a str, uid: &'a str) -> WorkloadOwner<'a> {
        WorkloadOwner { kind: "Job", group: "batch", name, uid }
    }

    #[test]
    fn names_equal_kueue() {
        let pod = WorkloadOwner { kind: "Pod", group: "", name: "pod", uid: "test-uid" };
        assert_eq!(workload_name(pod, NameLimit::Long), "pod-pod-43ebf");
        assert_eq!(workload_name(job("name", "uid"), NameLimit::Long), "job-name-ef3a1");
        assert_eq!(workload_name_with_suffix(job("name", "uid"), "1", NameLimit::Long), "job-name-2514c");
    }

    #[test]
    fn long_names_are_truncated_before_the_hash() {
        let long = "n".repeat(300);
        for room in [NameLimit::Long, NameLimit::Short] {
            let name = workload_name(job(&long, "u"), room);
            assert_eq!(name.len(), room.max_len());
            let other = workload_name(job(&long, "v"), room);
            assert_ne!(name, other, "the hash tells owners apart");
            assert_eq!(name[..name.len() - 5], other[..other.len() - 5]);
        }
    }

    #[test]
    fn truncation_never_leaves_a_dot_before_the_dash() {
        let dotted = format!("{}.{}", "n".repeat(NameLimit::Short.max_len() - 6 - 5), "tail");
        let name = workload_name(job(&dotted, "u"), NameLimit::Short);
        assert!(name.starts_with("job-nnn") && !name.contains(".-"), "{name}");
    }

    #[test]
    fn hash_distinguishes_owner_fields() {
        let all = [
            workload_name(job("a", "b"), NameLimit::Long),
            workload_name(job("a", "c"), NameLimit::Long),
            workload_name(WorkloadOwner { group: "x", ..job("a", "b") }, NameLimit::Long),
            workload_name_with_suffix(job("a", "b"), "1", NameLimit::Long),
            workload_name_with_suffix(job("a", "b"), "2", NameLimit::Long),
        ];
        let mut distinct = all.to_vec();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "{all:?}");
    }
}
