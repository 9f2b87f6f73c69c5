//! Allocates pod IPs from a /16: unique while the pod exists. Simulated pods use 10.244.0.0/16, local pods a /16 of
//! loopback.

use std::collections::BTreeMap;

use muster_api::client::Uid;
use muster_tree::Text;

/// Allocatable addresses: the /16 without the network and broadcast address.
const ADDRESSES: u32 = 65_534;

/// First two bytes of the simulated pod network.
const SIMULATED: [u8; 2] = [10, 244];

#[derive(Debug)]
pub struct PodIpPool {
    network: [u8; 2],
    pod_by_number: BTreeMap<u32, Uid>,
    number_by_pod: BTreeMap<Uid, u32>,
    next: u32,
}

impl Default for PodIpPool {
    fn default() -> PodIpPool {
        PodIpPool::of(SIMULATED)
    }
}

impl PodIpPool {
    /// The /16 with these first two bytes.
    #[must_use]
    pub fn of(network: [u8; 2]) -> PodIpPool {
        PodIpPool { network, pod_by_number: BTreeMap::new(), number_by_pod: BTreeMap::new(), next: 0 }
    }

    /// Allocates an address for a pod, or returns the one it holds. If the pool is exhausted, an address is shared.
    pub fn allocate(&mut self, pod: &Uid) -> Text {
        if let Some(number) = self.number_by_pod.get(pod) {
            return self.text(*number);
        }
        for _ in 0..ADDRESSES {
            // Round robin: a released address is reused as late as possible.
            self.next = self.next % ADDRESSES + 1;
            if !self.pod_by_number.contains_key(&self.next) {
                break;
            }
        }
        self.hold(pod, self.next);
        self.text(self.next)
    }

    /// Records the address in `status.podIP` as allocated, so that a restart does not hand it out again.
    pub fn occupy(&mut self, pod: &Uid, address: &str) {
        if let Some(number) = self.number(address).filter(|_| !self.number_by_pod.contains_key(pod)) {
            self.hold(pod, number);
        }
    }

    /// A pod is gone.
    pub fn release(&mut self, pod: &Uid) {
        if let Some(number) = self.number_by_pod.remove(pod) {
            self.pod_by_number.remove(&number);
        }
    }

    fn hold(&mut self, pod: &Uid, number: u32) {
        self.pod_by_number.insert(number, pod.clone());
        self.number_by_pod.insert(pod.clone(), number);
    }

    fn text(&self, number: u32) -> Text {
        let [first, second] = self.network;
        Text::from(format!("{first}.{second}.{}.{}", number / 256, number % 256))
    }

    fn number(&self, address: &str) -> Option<u32> {
        let [first, second] = self.network;
        let (high, low) = address.strip_prefix(&format!("{first}.{second}."))?.split_once('.')?;
        Some(high.parse::<u32>().ok()? * 256 + low.parse::<u32>().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_reused_after_release() {
        let mut pool = PodIpPool::default();
        pool.occupy(&"old".into(), "10.244.0.2");
        assert_eq!(pool.allocate(&"a".into()), "10.244.0.1");
        assert_eq!(pool.allocate(&"b".into()), "10.244.0.3", "2 is held by a pod seen before");
        assert_eq!(pool.allocate(&"a".into()), "10.244.0.1", "its own again");
        pool.release(&"a".into());
        for n in 0..ADDRESSES - 3 {
            pool.allocate(&Text::from(format!("p{n}")));
        }
        assert_eq!(pool.allocate(&"c".into()), "10.244.0.1", "the last free one");
    }
}
