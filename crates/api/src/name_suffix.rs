//! Deterministic name suffixes for child objects, from owner UID, index and attempt.
//!
//! A create that is retried after a lost reply uses the same name and fails with `AlreadyExists`; a random suffix would
//! create a second object.

use muster_tree::Text;

use crate::environment::SUFFIX_LETTERS;

/// Five characters for the `attempt`th object of an owner or of one of its indexes.
#[must_use]
pub fn suffix(owner_uid: &str, index: Option<u32>, attempt: u32) -> Text {
    let words = format!("{owner_uid}/{}/{attempt}", index.map_or(-1, i64::from));
    let mut hash = mix(words.as_bytes());
    let mut letters = String::with_capacity(5);
    for _ in 0..5 {
        let at = usize::try_from(hash % SUFFIX_LETTERS.len() as u64).expect("a remainder of 27 fits");
        letters.push(char::from(SUFFIX_LETTERS[at]));
        hash /= SUFFIX_LETTERS.len() as u64;
    }
    Text::from(letters)
}

/// FNV-1a with a finalizing mix, so that consecutive attempts get unrelated suffixes.
fn mix(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_pod_has_the_same_name_and_others_have_others() {
        assert_eq!(suffix("u", Some(1), 0), suffix("u", Some(1), 0));
        let many: BTreeSet<Text> = (0..1000).map(|n| suffix("u", None, n)).collect();
        assert!(many.len() > 990, "{}", many.len());
        assert_ne!(suffix("u", Some(1), 0), suffix("u", Some(0), 1));
        assert_ne!(suffix("u", None, 0), suffix("v", None, 0));
    }
}
