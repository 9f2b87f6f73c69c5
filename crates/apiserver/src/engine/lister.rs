//! Access to other objects for strategies and admission plugins, and the Service IP allocator.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use muster_api::client::Kind;
use muster_store::{Key, Range, StoredObject};
use muster_tree::{Text, Tree};

use super::ApiEngine;
use crate::kinds::{FieldErrors, ObjectLister};
use crate::status::Status;

/// Allocated Service IPs: the last two octets of each. Filled from the store on first use.
pub(super) struct ServiceIpAllocator {
    range: (u8, u8),
    taken: Mutex<Option<BTreeSet<u16>>>,
}

/// The lowest dynamically allocated address; those below are reserved for explicit requests.
const FIRST: u16 = 256;

impl ServiceIpAllocator {
    pub fn new(range: (u8, u8)) -> Self {
        Self { range, taken: Mutex::new(None) }
    }

    fn text(&self, tail: u16) -> String {
        let [high, low] = tail.to_be_bytes();
        format!("{}.{}.{high}.{low}", self.range.0, self.range.1)
    }

    pub fn first(&self) -> String {
        self.text(1)
    }

    fn tail(&self, address: &str) -> Option<u16> {
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        let [a, b, high, low] = address.octets();
        ((a, b) == self.range).then(|| u16::from_be_bytes([high, low]))
    }

    /// Releases the address of a deleted Service.
    pub fn release(&self, service: &Tree) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(taken), Some(tail)) = (taken.as_mut(), self.tail(service.str_at(&["spec", "clusterIP"])))
        {
            taken.remove(&tail);
        }
    }
}

impl ObjectLister for ApiEngine {
    fn newest(&self, key: &Key) -> Option<StoredObject> {
        self.inner.store.newest(key)
    }

    fn all(&self, storage: &str) -> Vec<StoredObject> {
        let page = self.inner.store.list(storage, &Range::default());
        page.map(|page| page.objects).unwrap_or_default()
    }

    fn in_namespace(&self, storage: &str, namespace: &Text) -> Vec<StoredObject> {
        self.with_name_prefix(storage, namespace, "")
    }

    fn with_name_prefix(&self, storage: &str, namespace: &Text, beginning: &str) -> Vec<StoredObject> {
        let range = Range {
            namespace: Some(namespace.clone()),
            beginning: Text::from(beginning),
            ..Range::default()
        };
        self.inner.store.list(storage, &range).map(|page| page.objects).unwrap_or_default()
    }

    fn validate_new(&self, kind: &Kind, object: &Tree) -> Result<FieldErrors, Status> {
        self.problems_of_new(kind, object)
    }

    fn allocate_service_ip(&self, wanted: Option<&str>) -> Option<String> {
        let addresses = &self.inner.addresses;
        let mut taken = addresses.taken.lock().unwrap_or_else(PoisonError::into_inner);
        // Filled lazily: on startup the store is read once, when the first Service is created.
        let taken = taken.get_or_insert_with(|| {
            let services = self.all("services");
            services.iter().filter_map(|s| addresses.tail(s.tree.str_at(&["spec", "clusterIP"]))).collect()
        });
        let tail = match wanted {
            Some(text) => addresses.tail(text).filter(|tail| !taken.contains(tail))?,
            None => (FIRST..u16::MAX).find(|tail| !taken.contains(tail))?,
        };
        taken.insert(tail);
        Some(addresses.text(tail))
    }
}
