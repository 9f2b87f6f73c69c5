//! Serving heads one after the other on a copy of the usage.
//!
//! # Invariants
//!
//! - What is admitted fits what is really used, and also what is left once promises are kept and victims are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;

use super::Chances;
use super::assign::{Applicant, Assignment, Mode, assign};
use super::decision::{NO_LONGER_FITS, OVERLAPPING};
use super::hold::{Holder, Scene};
use super::nominate::Nomination;
use super::preempt::Target;
use super::spec::{Reclaim, UNLIMITED};
use super::tree::{NodeId, PairId, Usage};
use super::workload::{Info, Key};

/// A head that is being served.
pub(super) struct Head {
    pub(super) key: Key,
    pub(super) node: NodeId,
    pub(super) nomination: Arc<Nomination>,
    /// The generation of its tree that it was made in.
    pub(super) generation: u64,
    /// How things stand.
    pub(super) chances: Chances,
    /// It fits elsewhere, where others were served first: it keeps nothing here. How things stood then.
    pub(super) passed_over: Option<Chances>,
}

/// What became of it.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Admitted,
    /// It cannot have what it asks for now.
    NoRoom,
    /// Its victims are told to go.
    Preempting,
    /// Victims of others make room for it, too.
    SharesVictims,
    /// Another was served first.
    Skipped(&'static str),
    /// Something admitted is not ready.
    NotAllReady,
}

impl Head {
    /// Whether it keeps what it needs out of reach of those behind it: nobody can be told to go for it now.
    pub(super) fn keeps_room(&self) -> bool {
        let nobody_goes =
            self.nomination.assignment.mode() == Mode::Preempt && self.nomination.targets.is_empty();
        nobody_goes && self.passed_over.is_none()
    }
}

/// The copy on which heads are served.
pub(super) struct Board<'a> {
    pub(super) scene: &'a Scene<'a>,
    /// What is really used, with what this round admitted.
    pub(super) live: Usage,
    /// The same with what was promised to those who wait for their victims.
    pub(super) usage: Usage,
    /// Victims of this round; they are still counted in `usage`.
    pub(super) gone: BTreeMap<Key, Arc<Holder>>,
    pub(super) all_ready: bool,
    pub(super) block: bool,
}

impl Board<'_> {
    /// Decides about one head, and counts what follows from it.
    pub(super) fn serve(&mut self, head: &Head, info: &Info, since: Time) -> Fate {
        let (assignment, targets) = (&head.nomination.assignment, &head.nomination.targets);
        let uses = assignment.uses();
        match assignment.mode() {
            Mode::NoFit => return Fate::NoRoom,
            Mode::Preempt if targets.is_empty() => {
                if head.keeps_room() {
                    self.keep_room(head.node, assignment);
                }
                return Fate::NoRoom;
            }
            Mode::Preempt | Mode::Fit => {}
        }
        if targets.iter().any(|target| self.gone.contains_key(&target.holder.key)) {
            return self.share_victims(head, info, since);
        }
        let fits_now = assignment.mode() == Mode::Preempt || self.scene.fits(&self.live, head.node, &uses);
        if !fits_now || !self.fits_without(head.node, &uses, targets) {
            return Fate::Skipped(NO_LONGER_FITS);
        }
        self.gone
            .extend(targets.iter().map(|target| (target.holder.key.clone(), Arc::clone(&target.holder))));
        self.scene.add(&mut self.usage, head.node, &uses);
        if assignment.mode() == Mode::Preempt {
            return Fate::Preempting;
        }
        if !self.all_ready {
            return Fate::NotAllReady;
        }
        self.scene.add(&mut self.live, head.node, &uses);
        self.all_ready = !self.block;
        Fate::Admitted
    }

    /// Whether a request fits once all victims so far and these are gone.
    fn fits_without(&mut self, node: NodeId, uses: &[(PairId, i64)], targets: &[Target]) -> bool {
        let mut gone = self.gone.clone();
        gone.extend(targets.iter().map(|target| (target.holder.key.clone(), Arc::clone(&target.holder))));
        gone.values().for_each(|holder| self.scene.remove(&mut self.usage, holder));
        let fits = self.scene.fits(&self.usage, node, uses);
        gone.values().for_each(|holder| self.scene.restore(&mut self.usage, holder));
        fits
    }

    /// Another stops the same victims. If their going makes room for this one too, it waits for them; else it has to
    /// look for others.
    fn share_victims(&mut self, head: &Head, info: &Info, since: Time) -> Fate {
        let tried = BTreeMap::new();
        let who = Applicant { node: head.node, info, since, tried: &tried };
        self.gone.values().for_each(|holder| self.scene.remove(&mut self.usage, holder));
        let again = assign(self.scene, &mut self.usage, &who, None);
        self.gone.values().for_each(|holder| self.scene.restore(&mut self.usage, holder));
        if again.mode() != Mode::Fit {
            return Fate::Skipped(OVERLAPPING);
        }
        self.scene.add(&mut self.usage, head.node, &again.uses());
        Fate::SharesVictims
    }

    /// Keeps what a workload needs out of reach of those behind it, unless its queue can always take it back.
    fn keep_room(&mut self, node: NodeId, assignment: &Assignment) {
        if self.scene.specs[node].preemption.reclaim == Reclaim::Any {
            return;
        }
        let tree = self.scene.tree;
        for (&pair, &amount) in &assignment.usage {
            let limit = if assignment.height > 0 { tree.borrowing_limit(node, pair) } else { 0 };
            let room = if limit == UNLIMITED {
                amount
            } else {
                tree.nominal(node, pair).saturating_add(limit) - tree.used(&self.usage, node, pair)
            };
            tree.take(&mut self.usage, node, pair, amount.min(room).max(0));
        }
    }
}
