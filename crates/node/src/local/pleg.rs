//! The kubelet's PLEG: delivers process events, probe results and tokens from any thread to the reconcile loop.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use muster_api::time::Time;
use muster_control::{ExternalTrigger, ObjectKey};
use muster_tree::Text;

use super::pod_lifecycle::ContainerCheck;

/// The result of a probe or hook.
#[derive(Debug)]
pub struct CheckResult {
    /// Index of the container in the pod.
    pub container: usize,
    /// Attempt number of the run.
    pub attempt: u32,
    /// The probe or hook.
    pub what: ContainerCheck,
    pub result: Result<(), String>,
}

/// Pending events by pod UID, and the trigger that enqueues the pod.
#[derive(Default)]
pub struct PodEvents {
    bell: OnceLock<ExternalTrigger>,
    keys: Mutex<BTreeMap<String, ObjectKey>>,
    found: Mutex<BTreeMap<String, Vec<CheckResult>>>,
    tokens: Mutex<BTreeMap<String, Tokens>>,
}

/// A TokenRequest without a reply is repeated after this time.
const REQUEST_RETRY: Duration = Duration::from_secs(10);

/// The tokens of a pod by audience.
#[derive(Debug, Default)]
struct Tokens {
    /// Tokens by audience, each with its refresh time.
    tokens: BTreeMap<Text, (Text, Time)>,
    asked: BTreeMap<Text, Time>,
    /// Whether a token arrived since the last sync.
    fresh: bool,
}

impl PodEvents {
    /// Sets the trigger of the reconcile loop.
    pub fn hang(&self, bell: ExternalTrigger) {
        let _ = self.bell.set(bell);
    }

    /// Events of this pod enqueue this key.
    pub fn know(&self, uid: &str, key: &ObjectKey) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), key.clone());
    }

    /// A pod is gone.
    pub fn forget(&self, uid: &str) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    pub fn ring(&self, uid: &str) {
        let key = self.keys.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned();
        if let (Some(key), Some(bell)) = (key, self.bell.get()) {
            bell(key);
        }
    }

    /// Stores the result of a check and enqueues the pod.
    pub fn leave(&self, uid: &str, found: CheckResult) {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(uid.to_owned()).or_default().push(found);
        drop(all);
        self.ring(uid);
    }

    /// Takes the results since the last call.
    pub fn take(&self, uid: &str) -> Vec<CheckResult> {
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(uid).unwrap_or_default()
    }

    /// Stores a token for an audience, to be refreshed at `refresh`, and enqueues the pod.
    pub fn leave_token(&self, uid: &str, audience: &str, token: Text, refresh: Time) {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(uid.to_owned()).or_default();
        known.fresh = true;
        // Replaces an older token of the same audience.
        known.tokens.insert(audience.into(), (token, refresh));
        drop(all);
        self.ring(uid);
    }

    /// The token for an audience and its refresh time.
    pub fn token(&self, uid: &str, audience: &str) -> Option<(Text, Time)> {
        let all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uid)?.tokens.get(audience).cloned()
    }

    /// Whether a token for an audience should be requested now; records the request.
    pub fn may_ask(&self, uid: &str, audience: &str, now: Time) -> bool {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = &mut all.entry(uid.to_owned()).or_default().asked;
        let waits = asked.get(audience).is_some_and(|at| now < *at + REQUEST_RETRY);
        if !waits {
            asked.insert(audience.into(), now);
        }
        !waits
    }

    /// Whether a token arrived since the last call, and the next refresh time.
    pub fn take_fresh(&self, uid: &str) -> (bool, Option<Time>) {
        let mut all = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = all.get_mut(uid) else { return (false, None) };
        let next = known.tokens.values().map(|(_, refresh)| *refresh).min();
        (std::mem::take(&mut known.fresh), next)
    }
}
