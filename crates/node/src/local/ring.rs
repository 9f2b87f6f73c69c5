//! How news of processes and checks reach the loop: left here by any thread, and the pod's key is rung.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use muster_api::time::Time;
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
    tokens: Mutex<BTreeMap<String, Tokens>>,
}

/// A token that was asked for is asked for again after this time.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// The tokens of a pod by audience.
#[derive(Debug, Default)]
struct Tokens {
    /// Each with the time when a new one is wanted.
    tokens: BTreeMap<Text, (Text, Time)>,
    asked: BTreeMap<Text, Time>,
    /// Whether one came that nobody has looked at.
    fresh: bool,
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

    /// Leaves a token for this audience; a new one is wanted at `refresh`.
    pub fn leave_token(&self, uid: &str, audience: &str, token: Text, refresh: Time) {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(uid.to_owned()).or_default();
        known.fresh = true;
        known.tokens.insert(audience.into(), (token, refresh));
        drop(all);
        self.ring(uid);
    }

    /// The token for this audience, if it came, and when a new one is wanted.
    pub fn token(&self, uid: &str, audience: &str) -> Option<(Text, Time)> {
        let all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uid)?.tokens.get(audience).cloned()
    }

    /// Whether a token for this audience may be asked for now; notes that it is.
    pub fn may_ask(&self, uid: &str, audience: &str, now: Time) -> bool {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = &mut all.entry(uid.to_owned()).or_default().asked;
        let waits = asked.get(audience).is_some_and(|at| now < *at + ASK_AGAIN);
        if !waits {
            asked.insert(audience.into(), now);
        }
        !waits
    }

    /// Whether tokens came since the last time, and when the next new one is wanted.
    pub fn take_fresh(&self, uid: &str) -> (bool, Option<Time>) {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get_mut(uid) else { return (false, None) };
        let next = known.tokens.values().map(|(_, refresh)| *refresh).min();
        (std::mem::take(&mut known.fresh), next)
    }
}
