//! How strategies and admission see other objects, and the addresses of services.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use muster_api::port::Kind;
use muster_store::{Key, Object, Range};
use muster_tree::{Text, Tree};

use super::Engine;
use crate::kinds::{Errors, Look};
use crate::status::Status;

/// Addresses handed out by one engine: the last two numbers of each.
pub(super) struct Addresses {
    range: (u8, u8),
    taken: Mutex<Option<BTreeSet<u16>>>,
}

/// Lowest address for services that do not ask for one; those below are for the server itself.
const FIRST: u16 = 256;

impl Addresses {
    pub fn new(range: (u8, u8)) -> Self {
        Self { range, taken: Mutex::new(None) }
    }

    fn text(&self, tail: u16) -> String {
        let [high, low] = tail.to_be_bytes();
        format!("{}.{}.{high}.{low}", self.range.0, self.range.1)
    }

    /// The first address of the range.
    pub fn first(&self) -> String {
        self.text(1)
    }

    fn tail(&self, address: &str) -> Option<u16> {
        let address: std::net::Ipv4Addr = address.parse().ok()?;
        let [a, b, high, low] = address.octets();
        ((a, b) == self.range).then(|| u16::from_be_bytes([high, low]))
    }

    /// Gives addresses of a deleted service back.
    pub fn release(&self, service: &Tree) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(taken), Some(tail)) = (taken.as_mut(), self.tail(service.str_at(&["spec", "clusterIP"])))
        {
            taken.remove(&tail);
        }
    }
}

impl Look for Engine {
    fn newest(&self, key: &Key) -> Option<Object> {
        self.inner.store.newest(key)
    }

    fn all(&self, storage: &str) -> Vec<Object> {
        let page = self.inner.store.list(storage, &Range::default());
        page.map(|page| page.objects).unwrap_or_default()
    }

    fn in_namespace(&self, storage: &str, namespace: &Text) -> Vec<Object> {
        self.named(storage, namespace, "")
    }

    fn named(&self, storage: &str, namespace: &Text, beginning: &str) -> Vec<Object> {
        let range = Range {
            namespace: Some(namespace.clone()),
            beginning: Text::from(beginning),
            ..Range::default()
        };
        self.inner.store.list(storage, &range).map(|page| page.objects).unwrap_or_default()
    }

    fn validate_new(&self, kind: &Kind, object: &Tree) -> Result<Errors, Status> {
        self.problems_of_new(kind, object)
    }

    fn take_service_ip(&self, wanted: Option<&str>) -> Option<String> {
        let addresses = &self.inner.addresses;
        let mut taken = addresses.taken.lock().unwrap_or_else(PoisonError::into_inner);
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
