//! A cache of serialized watch events: each is encoded once for all watchers of the same form (kube-apiserver's
//! `cachingObject`).
//!
//! # Invariants
//!
//! - A revision is one change, so (revision, version, event type, encoding) identifies one serialized event of a
//!   resource. A resource that was replaced (its CRD changed) has other entries.
//! - The newest events are cached: a watcher that reads older ones encodes them without evicting those.
//!
//! # Deliberately absent
//!
//! Tables and `PartialObjectMetadata`: few clients watch them, and a Table also depends on the stream.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::negotiation::Encoding;
use crate::registry::Resource;

/// Bounds the serialized bytes in the cache.
const LINES_BYTES_MAX: usize = 1 << 20;

/// (revision, version index, event type, encoding).
pub type SerializationKey = (u64, usize, &'static str, Encoding);

/// The serialized events that watchers are likely to request next.
#[derive(Default)]
pub struct SerializationCache {
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    lines: BTreeMap<SerializationKey, (Arc<Resource>, Bytes)>,
    bytes: usize,
}

impl SerializationCache {
    /// Returns the cached event, or encodes and caches it.
    pub fn get(
        &self,
        key: SerializationKey,
        resource: &Arc<Resource>,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        if let Some((of, line)) = self.recent().lines.get(&key)
            && Arc::ptr_eq(of, resource)
        {
            return line.clone();
        }
        // Encode outside the lock: two watchers may encode the same event, but none blocks another.
        let line = Bytes::from(encode());
        self.recent().keep(key, resource.clone(), line.clone());
        line
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn keep(&mut self, key: SerializationKey, resource: Arc<Resource>, line: Bytes) {
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
        let lines = SerializationCache::default();
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
        let lines = SerializationCache::default();
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
