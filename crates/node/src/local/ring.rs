//! How news of processes and checks reach the loop: left here by any thread, and the pod's key is rung.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use muster_control::{Doorbell, Key};
use muster_tree::Text;

use super::life::Looks;

/// What a check of a run found.
#[derive(Debug)]
pub struct Found {
    /// Which container of the pod.
    pub container: usize,
    /// Which run of it.
    pub attempt: u32,
    /// What was looked at.
    pub what: Looks,
    /// What was found.
    pub result: Result<(), String>,
}

/// The bell and what was left for whom. Pods by UID.
#[derive(Default)]
pub struct Ring {
    bell: OnceLock<Doorbell>,
    keys: Mutex<BTreeMap<String, Key>>,
    found: Mutex<BTreeMap<String, Vec<Found>>>,
    tokens: Mutex<BTreeMap<String, BTreeMap<Text, Text>>>,
}

impl Ring {
    /// Takes the bell of the loop.
    pub fn hang(&self, bell: Doorbell) {
        let _ = self.bell.set(bell);
    }

    /// News of this pod ring for this key.
    pub fn know(&self, uid: &str, key: &Key) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), key.clone());
    }

    /// A pod is gone.
    pub fn forget(&self, uid: &str) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Something happened to this pod.
    pub fn ring(&self, uid: &str) {
        let key = self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
        if let (Some(key), Some(bell)) = (key, self.bell.get()) {
            bell(key);
        }
    }

    /// Leaves what a check found.
    pub fn leave(&self, uid: &str, found: Found) {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(uid.to_owned()).or_default().push(found);
        drop(all);
        self.ring(uid);
    }

    /// What checks found since the last time.
    pub fn take(&self, uid: &str) -> Vec<Found> {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(uid).unwrap_or_default()
    }

    /// Leaves a token for this audience.
    pub fn leave_token(&self, uid: &str, audience: &str, token: Text) {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(uid.to_owned()).or_default().insert(audience.into(), token);
        drop(all);
        self.ring(uid);
    }

    /// The token for this audience, if it came.
    pub fn token(&self, uid: &str, audience: &str) -> Option<Text> {
        let all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uid)?.get(audience).cloned()
    }
}
