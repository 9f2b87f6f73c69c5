//! Who lives on the local node: kept by the node, read by those who serve logs and commands.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// A pod of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resident {
    /// Its UID.
    pub uid: String,
    /// Its address.
    pub address: String,
    /// The newest attempt of each container that was ever begun.
    pub attempts: BTreeMap<String, u32>,
    /// Names of all its containers, those that never began included.
    pub containers: Vec<String>,
    /// Why a container that never began waits, by name: the reason in its status.
    pub waiting: BTreeMap<String, String>,
}

/// All pods of this node by namespace and name.
#[derive(Debug, Default)]
pub struct Roster {
    all: RwLock<BTreeMap<(String, String), Resident>>,
}

impl Roster {
    /// A pod, if it lives here.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<Resident> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    /// A pod is here, or has changed.
    pub fn set(&self, namespace: &str, name: &str, resident: Resident) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.insert((namespace.to_owned(), name.to_owned()), resident);
    }

    /// A pod is gone; a namesake that came since stays.
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
    fn a_namesake_stays() {
        let roster = Roster::default();
        let resident = |uid: &str| Resident {
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
