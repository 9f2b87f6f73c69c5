//! What somebody who stands for election does next about the Lease.
//!
//! # Invariants
//!
//! - The times in the Lease decide nothing: clocks of machines differ. What counts is how long one has seen it unchanged.

use std::time::Duration;

use muster_api::meta;
use muster_api::paths::lease as path;
use muster_api::port::{Object, Revision};
use muster_tree::{Text, Tree, tree};
use tokio::time::Instant;

/// The next step.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// There is none: make this one.
    Make(Tree),
    /// Merge this, provided that the Lease is still at this revision.
    Write(Tree, Revision),
    /// It is another's for so long, unless that one gives a sign of life.
    Wait(Duration),
}

/// What a candidate remembers.
pub struct Election {
    me: Text,
    lasts: Duration,
    /// The Lease of another: its incarnation and revision, and since when it has been seen so.
    seen: Option<(Text, Revision, Instant)>,
}

impl Election {
    /// A candidate of this name, whose leases last so long.
    pub fn new(me: Text, lasts: Duration) -> Election {
        Election { me, lasts, seen: None }
    }

    /// Whether a Lease names this candidate.
    pub fn is_mine(&self, lease: &Tree) -> bool {
        lease.str_at(path::HOLDER) == self.me
    }

    /// What to do about the Lease as it is seen at this instant; `clock` is what people are told.
    pub fn next(&mut self, lease: Option<&Object>, now: Instant, clock: Tree) -> Next {
        let Some(Object { tree, revision }) = lease else {
            self.seen = None;
            return Next::Make(
                tree!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": self.taken(&clock, 0)}),
            );
        };
        if self.is_mine(tree) {
            self.seen = None;
            return Next::Write(tree!({"spec": {"renewTime": clock}}), *revision);
        }
        if !tree.str_at(path::HOLDER).is_empty() {
            let left = self.left(tree, *revision, now);
            if !left.is_zero() {
                return Next::Wait(left);
            }
        }
        let changes = tree.int_at(&["spec", "leaseTransitions"]).unwrap_or(0);
        Next::Write(tree!({"spec": self.taken(&clock, changes.saturating_add(1))}), *revision)
    }

    /// How much longer another's Lease lasts.
    fn left(&mut self, lease: &Tree, revision: Revision, now: Instant) -> Duration {
        let uid = meta::uid(lease);
        let since = match &self.seen {
            Some((of, at, since)) if *of == uid && *at == revision => *since,
            _ => now,
        };
        self.seen = Some((uid, revision, since));
        let said = lease.int_at(&["spec", "leaseDurationSeconds"]).and_then(|secs| u64::try_from(secs).ok());
        let lasts = said.map_or(self.lasts, Duration::from_secs);
        lasts.saturating_sub(now.duration_since(since))
    }

    fn taken(&self, clock: &Tree, changes: i64) -> Tree {
        let secs = i64::try_from(self.lasts.as_secs()).unwrap_or(i64::MAX);
        tree!({"holderIdentity": self.me.clone(), "leaseDurationSeconds": secs, "acquireTime": clock.clone(),
            "renewTime": clock.clone(), "leaseTransitions": changes})
    }
}

/// A patch by which a leader lets go.
pub fn given_back() -> Tree {
    tree!({"spec": {"holderIdentity": null, "renewTime": null, "acquireTime": null}})
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn lease(holder: &str, revision: Revision) -> Object {
        let holder = if holder.is_empty() { Tree::Null } else { holder.into() };
        let spec = tree!({"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3});
        Object { tree: tree!({"metadata": {"uid": "u"}, "spec": spec}), revision }
    }

    #[tokio::test]
    async fn what_is_done_about_a_lease() {
        let start = Instant::now();
        let mut election = Election::new("me".into(), LASTS);
        let taken = tree!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "t",
            "renewTime": "t", "leaseTransitions": 4}});
        let secs = Duration::from_secs;
        for (says, after, seen, want) in [
            ("another's was just seen", 0, lease("b", 1), Next::Wait(secs(15))),
            ("unchanged", 10, lease("b", 1), Next::Wait(secs(5))),
            ("a sign of life", 14, lease("b", 2), Next::Wait(secs(15))),
            ("of a third", 20, lease("c", 3), Next::Wait(secs(15))),
            ("not quite over", 34, lease("c", 3), Next::Wait(secs(1))),
            ("over", 35, lease("c", 3), Next::Write(taken.clone(), 3)),
            ("given back", 36, lease("", 9), Next::Write(taken, 9)),
            ("our own", 37, lease("me", 10), Next::Write(tree!({"spec": {"renewTime": "t"}}), 10)),
            ("overtaken: seen for the first time", 60, lease("b", 10), Next::Wait(secs(15))),
        ] {
            let next = election.next(Some(&seen), start + secs(after), "t".into());
            assert_eq!(next, want, "{says}");
        }
    }

    #[test]
    fn there_is_none() {
        let mut election = Election::new("me".into(), LASTS);
        let Next::Make(made) = election.next(None, Instant::now(), "t".into()) else { panic!("it is made") };
        assert!(election.is_mine(&made));
    }
}
