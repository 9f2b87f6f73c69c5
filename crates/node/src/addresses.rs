//! Addresses of pods: unique ones of a /16, while they last. Simulated pods have 10.244.0.0/16, processes one of loopback.

use std::collections::BTreeMap;

use muster_api::port::Uid;
use muster_tree::Text;

/// How many addresses there are; network and broadcast are left out.
const ADDRESSES: u32 = 65_534;

/// The addresses of simulated pods.
const SIMULATED: [u8; 2] = [10, 244];

/// The pool.
#[derive(Debug)]
pub struct Pool {
    net: [u8; 2],
    held: BTreeMap<u32, Uid>,
    by_pod: BTreeMap<Uid, u32>,
    next: u32,
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::of(SIMULATED)
    }
}

impl Pool {
    /// The addresses that begin with these two bytes.
    #[must_use]
    pub fn of(net: [u8; 2]) -> Pool {
        Pool { net, held: BTreeMap::new(), by_pod: BTreeMap::new(), next: 0 }
    }

    /// An address for a pod; the one it has, if it has one. When all are taken, one is shared.
    pub fn take(&mut self, pod: &Uid) -> Text {
        if let Some(number) = self.by_pod.get(pod) {
            return self.text(*number);
        }
        for _ in 0..ADDRESSES {
            self.next = self.next % ADDRESSES + 1;
            if !self.held.contains_key(&self.next) {
                break;
            }
        }
        self.hold(pod, self.next);
        self.text(self.next)
    }

    /// A pod that was seen with an address holds it.
    pub fn known(&mut self, pod: &Uid, address: &str) {
        if let Some(number) = self.number(address).filter(|_| !self.by_pod.contains_key(pod)) {
            self.hold(pod, number);
        }
    }

    /// A pod is gone.
    pub fn give_back(&mut self, pod: &Uid) {
        if let Some(number) = self.by_pod.remove(pod) {
            self.held.remove(&number);
        }
    }

    fn hold(&mut self, pod: &Uid, number: u32) {
        self.held.insert(number, pod.clone());
        self.by_pod.insert(pod.clone(), number);
    }

    fn text(&self, number: u32) -> Text {
        let [first, second] = self.net;
        Text::from(format!("{first}.{second}.{}.{}", number / 256, number % 256))
    }

    fn number(&self, address: &str) -> Option<u32> {
        let [first, second] = self.net;
        let (high, low) = address.strip_prefix(&format!("{first}.{second}."))?.split_once('.')?;
        Some(high.parse::<u32>().ok()? * 256 + low.parse::<u32>().ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_come_back() {
        let mut pool = Pool::default();
        pool.known(&"old".into(), "10.244.0.2");
        assert_eq!(pool.take(&"a".into()), "10.244.0.1");
        assert_eq!(pool.take(&"b".into()), "10.244.0.3", "2 is held by a pod seen before");
        assert_eq!(pool.take(&"a".into()), "10.244.0.1", "its own again");
        pool.give_back(&"a".into());
        for n in 0..ADDRESSES - 3 {
            pool.take(&Text::from(format!("p{n}")));
        }
        assert_eq!(pool.take(&"c".into()), "10.244.0.1", "the last free one");
    }
}
