//! Which pods name which claims and templates.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::claim::Named;
use muster_api::kinds;

use crate::plan::Key;

/// Pods by the claims and templates they name.
#[derive(Debug, Default)]
pub(super) struct Index(BTreeMap<Key, BTreeSet<Key>>);

impl Index {
    /// A pod named these, and names those now.
    pub(super) fn change(&mut self, pod: &Key, before: &[Named], after: &[Named]) {
        for key in before.iter().flat_map(|it| keys(pod, it)) {
            if let Some(pods) = self.0.get_mut(&key) {
                pods.remove(pod);
                if pods.is_empty() {
                    self.0.remove(&key);
                }
            }
        }
        for key in after.iter().flat_map(|it| keys(pod, it)) {
            self.0.entry(key).or_default().insert(pod.clone());
        }
    }

    /// The pods that name a claim or template.
    pub(super) fn users(&self, key: &Key) -> Vec<Key> {
        self.0.get(key).into_iter().flatten().cloned().collect()
    }
}

fn keys(pod: &Key, named: &Named) -> Vec<Key> {
    let claim = named.claim.as_ref().map(|it| Key::new(&kinds::RESOURCE_CLAIMS, &pod.namespace, it));
    let template = Some(&named.template).filter(|it| !it.is_empty());
    let template = template.map(|it| Key::new(&kinds::RESOURCE_CLAIM_TEMPLATES, &pod.namespace, it));
    claim.into_iter().chain(template).collect()
}
