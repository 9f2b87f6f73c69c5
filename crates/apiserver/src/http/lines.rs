//! Lines of watch streams, encoded once for all who watch the same form.
//!
//! # Invariants
//!
//! - A revision is one change, so revision, version and event type name one line of a resource. A resource that was
//!   replaced (its CRD changed) is another one.
//! - The newest lines are kept: whoever reads older ones encodes them without driving those out.
//!
//! # Deliberately absent
//!
//! Tables and partial objects: few watch them, and their lines depend on more than the change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::accept::Encoding;
use crate::registry::Resource;

/// The most bytes of lines that are kept.
const LINES_BYTES_MAX: usize = 1 << 20;

/// (revision, place of the version, event type, encoding).
pub type LineKey = (u64, usize, &'static str, Encoding);

/// The lines that watchers are likely to ask for next.
#[derive(Default)]
pub struct Lines {
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    lines: BTreeMap<LineKey, (Arc<Resource>, Bytes)>,
    bytes: usize,
}

impl Lines {
    /// The line of this key: one that is kept, or else the one that `encode` makes.
    pub fn get(&self, key: LineKey, resource: &Arc<Resource>, encode: impl FnOnce() -> Vec<u8>) -> Bytes {
        if let Some((of, line)) = self.recent().lines.get(&key)
            && Arc::ptr_eq(of, resource)
        {
            return line.clone();
        }
        // Not under the lock: two may encode the same line, nobody waits.
        let line = Bytes::from(encode());
        self.recent().keep(key, resource.clone(), line.clone());
        line
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn keep(&mut self, key: LineKey, resource: Arc<Resource>, line: Bytes) {
        self.bytes += line.len();
        if let Some((_, replaced)) = self.lines.insert(key, (resource, line)) {
            self.bytes -= replaced.len();
        }
        while self.bytes > LINES_BYTES_MAX
            && let Some((_, (_, oldest))) = self.lines.pop_first()
        {
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn a_line_is_encoded_once_for_a_resource() {
        let all = registry::builtin();
        let (pods, other) = (all[0].clone(), all[1].clone());
        let lines = Lines::default();
        let get = |revision, kind, resource: &Arc<Resource>, text: &str| {
            let line = lines.get((revision, 0, kind, Encoding::Json), resource, || text.as_bytes().to_vec());
            String::from_utf8(line.to_vec()).unwrap()
        };
        assert_eq!(get(7, "ADDED", &pods, "first"), "first");
        assert_eq!(get(7, "ADDED", &pods, "second"), "first", "the same change is not encoded again");
        assert_eq!(get(7, "DELETED", &pods, "third"), "third", "another event type is another line");
        assert_eq!(get(8, "ADDED", &pods, "fourth"), "fourth", "another change is another line");
        assert_eq!(get(7, "ADDED", &other, "fifth"), "fifth", "a replaced resource is another one");
    }

    #[test]
    fn the_newest_are_kept_within_bounds() {
        let pods = registry::builtin()[0].clone();
        let lines = Lines::default();
        let line = vec![b'x'; LINES_BYTES_MAX / 4];
        for revision in [10, 11, 12, 13, 14, 1] {
            lines.get((revision, 0, "ADDED", Encoding::Json), &pods, || line.clone());
        }
        let recent = lines.recent();
        let kept: Vec<u64> = recent.lines.keys().map(|key| key.0).collect();
        assert_eq!(kept, [11, 12, 13, 14], "the oldest change went, and an older one does not stay");
        assert_eq!(recent.bytes, LINES_BYTES_MAX);
    }
}
