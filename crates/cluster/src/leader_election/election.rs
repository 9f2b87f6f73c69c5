//! What a candidate does next about the Lease.
//!
//! # Guarantees
//!
//! - The timestamps in the Lease decide nothing, since clocks of hosts differ: what counts is for how long the candidate has
//!   observed the Lease unchanged.

use std::time::Duration;

use muster_api::client::{ApiObject, Revision};
use muster_api::meta;
use muster_api::paths::lease as path;
use muster_tree::{Text, Tree, tree};
use tokio::time::Instant;

#[derive(Debug, PartialEq)]
pub enum LeaseAction {
    /// The Lease does not exist: create it.
    Create(Tree),
    /// Merge-patch the Lease, provided that it still has this `resourceVersion`.
    Update(Tree, Revision),
    /// Another candidate holds it for so long, unless it is renewed.
    Wait(Duration),
}

/// The observations of a candidate.
pub struct Election {
    identity: Text,
    lease_duration: Duration,
    /// The last observed Lease of another holder: UID, revision, and since when it is unchanged.
    observed: Option<(Text, Revision, Instant)>,
}

impl Election {
    /// A candidate with this identity and lease duration.
    pub fn new(identity: Text, lease_duration: Duration) -> Election {
        Election { identity, lease_duration, observed: None }
    }

    /// Whether this candidate holds the Lease.
    pub fn is_held_by_self(&self, lease: &Tree) -> bool {
        lease.str_at(path::HOLDER) == self.identity
    }

    /// What to do about the Lease as read at `now`; `clock` is the timestamp to write, for display only.
    pub fn next_action(&mut self, lease: Option<&ApiObject>, now: Instant, clock: Tree) -> LeaseAction {
        let Some(ApiObject { tree, revision }) = lease else {
            self.observed = None;
            return LeaseAction::Create(
                tree!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": self.acquire_spec(&clock, 0)}),
            );
        };
        if self.is_held_by_self(tree) {
            self.observed = None;
            return LeaseAction::Update(tree!({"spec": {"renewTime": clock}}), *revision);
        }
        if !tree.str_at(path::HOLDER).is_empty() {
            let left = self.remaining(tree, *revision, now);
            if !left.is_zero() {
                return LeaseAction::Wait(left);
            }
        }
        let changes = tree.int_at(&["spec", "leaseTransitions"]).unwrap_or(0);
        LeaseAction::Update(tree!({"spec": self.acquire_spec(&clock, changes.saturating_add(1))}), *revision)
    }

    /// How much longer the Lease of another holder is valid.
    fn remaining(&mut self, lease: &Tree, revision: Revision, now: Instant) -> Duration {
        let uid = meta::uid(lease);
        let since = match &self.observed {
            Some((of, at, since)) if *of == uid && *at == revision => *since,
            _ => now,
        };
        self.observed = Some((uid, revision, since));
        let said = lease.int_at(&["spec", "leaseDurationSeconds"]).and_then(|secs| u64::try_from(secs).ok());
        let lasts = said.map_or(self.lease_duration, Duration::from_secs);
        lasts.saturating_sub(now.duration_since(since))
    }

    fn acquire_spec(&self, clock: &Tree, changes: i64) -> Tree {
        let secs = i64::try_from(self.lease_duration.as_secs()).unwrap_or(i64::MAX);
        tree!({"holderIdentity": self.identity.clone(), "leaseDurationSeconds": secs, "acquireTime": clock.clone(),
            "renewTime": clock.clone(), "leaseTransitions": changes})
    }
}

/// The patch that releases the Lease.
pub fn release_patch() -> Tree {
    tree!({"spec": {"holderIdentity": null, "renewTime": null, "acquireTime": null}})
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn lease(holder: &str, revision: Revision) -> ApiObject {
        let holder = if holder.is_empty() { Tree::Null } else { holder.into() };
        let spec = tree!({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3});
        ApiObject { tree: tree!({"metadata": {"uid": "u"}, "spec": spec}), revision }
    }

    #[tokio::test]
    async fn a_candidate_waits_acquires_and_renews() {
        let start = Instant::now();
        let mut election = Election::new("me".into(), LASTS);
        let taken = tree!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "t",
            "renewTime": "t", "leaseTransitions": 4}});
        let secs = Duration::from_secs;
        for (says, after, seen, want) in [
            ("another's was just seen", 0, lease("b", 1), LeaseAction::Wait(secs(15))),
            ("unchanged", 10, lease("b", 1), LeaseAction::Wait(secs(5))),
            ("a sign of life", 14, lease("b", 2), LeaseAction::Wait(secs(15))),
            ("of a third", 20, lease("c", 3), LeaseAction::Wait(secs(15))),
            ("not quite over", 34, lease("c", 3), LeaseAction::Wait(secs(1))),
            ("over", 35, lease("c", 3), LeaseAction::Update(taken.clone(), 3)),
            ("given back", 36, lease("", 9), LeaseAction::Update(taken, 9)),
            ("our own", 37, lease("me", 10), LeaseAction::Update(tree!({"spec": {"renewTime": "t"}}), 10)),
            ("overtaken: seen for the first time", 60, lease("b", 10), LeaseAction::Wait(secs(15))),
        ] {
            let next = election.next_action(Some(&seen), start + secs(after), "t".into());
            assert_eq!(next, want, "{says}");
        }
    }

    #[test]
    fn a_missing_lease_is_created() {
        let mut election = Election::new("me".into(), LASTS);
        let LeaseAction::Create(made) = election.next_action(None, Instant::now(), "t".into()) else {
            panic!("it is made")
        };
        assert!(election.is_held_by_self(&made));
    }
}
