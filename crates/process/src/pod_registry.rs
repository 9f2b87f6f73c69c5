//! The registry of local pods (kubelet: pod manager), written by the kubelet and read by the servers of logs, exec
//! and metrics.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// A pod of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredPod {
    pub uid: String,
    pub address: String,
    /// The current attempt of each container that was started.
    pub attempts: BTreeMap<String, u32>,
    /// Names of all containers, including those not started.
    pub containers: Vec<String>,
    /// Waiting reasons of containers that were never started.
    pub waiting: BTreeMap<String, String>,
}

/// All pods of this node by namespace and name.
#[derive(Debug, Default)]
pub struct PodRegistry {
    all: RwLock<BTreeMap<(String, String), RegisteredPod>>,
}

impl PodRegistry {
    /// A pod of this node.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<RegisteredPod> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Adds or updates a pod.
    pub fn set(&self, namespace: &str, name: &str, resident: RegisteredPod) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert((namespace.to_owned(), name.to_owned()), resident);
    }

    /// Removes a pod, unless a newer pod (another UID) has its name.
    pub fn remove(&self, namespace: &str, name: &str, uid: &str) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let key = (namespace.to_owned(), name.to_owned());
        if all.get(&key).is_some_and(|resident| resident.uid == uid) {
            all.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remove_keeps_a_recreated_pod() {
        let roster = PodRegistry::default();
        let resident = |uid: &str| RegisteredPod {
            uid: uid.to_owned(),
            address: String::new(),
            attempts: BTreeMap::new(),
            containers: Vec::new(),
            waiting: BTreeMap::new(),
        };
        roster.set("n", "p", resident("old"));
        roster.set("n", "p", resident("new"));
        roster.remove("n", "p", "old");
        assert_eq!(roster.find("n", "p").map(|it| it.uid).as_deref(), Some("new"));
        roster.remove("n", "p", "new");
        assert_eq!(roster.find("n", "p"), None);
    }
}
