//! Processes the nominated heads of a cycle one after another on a snapshot of the usage.
//!
//! # Guarantees
//!
//! - An admission fits the actual usage, and also the usage with reserved capacity added and victims removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;

use super::TreeVersion;
use super::decision::{NO_LONGER_FITS, OVERLAPPING};
use super::flavor_assigner::{AssignmentMode, Nominee, WorkloadAssignment, assign_flavors};
use super::nominate::Nomination;
use super::preempt::PreemptionTarget;
use super::snapshot::{QuotaSnapshot, ReservingWorkload};
use super::spec::{ReclaimWithinCohortPolicy, UNLIMITED};
use super::tree::{FlavorResourceId, QuotaNodeId, Usage};
use super::workload::{NamespacedName, WorkloadInfo};

/// A nominated head (Kueue's `entry`).
pub(super) struct NominatedHead {
    pub(super) key: NamespacedName,
    pub(super) node: QuotaNodeId,
    pub(super) nomination: Arc<Nomination>,
    /// The tree generation for which the nomination was computed.
    pub(super) generation: u64,
    pub(super) chances: TreeVersion,
    /// Set when an earlier flavor fitted and the Workload was skipped: it reserves no capacity in this flavor.
    pub(super) passed_over: Option<TreeVersion>,
}

/// The outcome for one head.
#[derive(Clone, Copy)]
pub(super) enum HeadOutcome {
    Admitted,
    /// Does not fit, and preemption does not help.
    NoFit,
    Preempting,
    /// The victims of another preemptor make it fit, too.
    OverlappingTargets,
    /// A head processed earlier took the quota or has the same victims.
    Skipped(&'static str),
    /// It fits, and `blockAdmission` waits for pods of admitted Workloads.
    WaitForPodsReady,
}

impl NominatedHead {
    /// Whether it reserves capacity against the heads behind it: it needs preemption, and there is nothing to
    /// preempt now.
    pub(super) fn reserves_capacity(&self) -> bool {
        let nobody_goes = self.nomination.assignment.representative_mode() == AssignmentMode::Preempt
            && self.nomination.targets.is_empty();
        nobody_goes && self.passed_over.is_none()
    }
}

/// The usage on which the heads of one cycle are processed.
pub(super) struct CycleSnapshot<'a> {
    pub(super) snapshot: &'a QuotaSnapshot<'a>,
    /// Actual usage plus this cycle's admissions.
    pub(super) actual_usage: Usage,
    /// `actual_usage` plus capacity reserved for heads that wait for preemption.
    pub(super) usage: Usage,
    /// Victims selected in this cycle. `usage` still contains them.
    pub(super) preempted: BTreeMap<NamespacedName, Arc<ReservingWorkload>>,
    pub(super) all_pods_ready: bool,
    pub(super) block_admission: bool,
}

impl CycleSnapshot<'_> {
    /// Decides about one head and updates the usage accordingly (Kueue's `processEntry`).
    pub(super) fn process_head(
        &mut self,
        head: &NominatedHead,
        info: &WorkloadInfo,
        since: Time,
    ) -> HeadOutcome {
        let (assignment, targets) = (&head.nomination.assignment, &head.nomination.targets);
        let uses = assignment.total_usage();
        match assignment.representative_mode() {
            AssignmentMode::NoFit => return HeadOutcome::NoFit,
            AssignmentMode::Preempt if targets.is_empty() => {
                if head.reserves_capacity() {
                    self.reserve_capacity(head.node, assignment);
                }
                return HeadOutcome::NoFit;
            }
            AssignmentMode::Preempt | AssignmentMode::Fit => {}
        }
        if targets.iter().any(|target| self.preempted.contains_key(&target.workload.key)) {
            return self.wait_for_overlapping_targets(head, info, since);
        }
        let fits_now = assignment.representative_mode() == AssignmentMode::Preempt
            || self.snapshot.fits(&self.actual_usage, head.node, &uses);
        if !fits_now || !self.fits_after_preemptions(head.node, &uses, targets) {
            return HeadOutcome::Skipped(NO_LONGER_FITS);
        }
        self.preempted
            .extend(targets.iter().map(|target| (target.workload.key.clone(), Arc::clone(&target.workload))));
        self.snapshot.add_usage(&mut self.usage, head.node, &uses);
        if assignment.representative_mode() == AssignmentMode::Preempt {
            return HeadOutcome::Preempting;
        }
        if !self.all_pods_ready {
            return HeadOutcome::WaitForPodsReady;
        }
        self.snapshot.add_usage(&mut self.actual_usage, head.node, &uses);
        // With `blockAdmission` at most one Workload is admitted per cycle: it is not ready yet itself.
        self.all_pods_ready = !self.block_admission;
        HeadOutcome::Admitted
    }

    /// Whether a request fits once all victims selected so far, and these, are removed.
    fn fits_after_preemptions(
        &mut self,
        node: QuotaNodeId,
        uses: &[(FlavorResourceId, i64)],
        targets: &[PreemptionTarget],
    ) -> bool {
        let mut preempted = self.preempted.clone();
        preempted
            .extend(targets.iter().map(|target| (target.workload.key.clone(), Arc::clone(&target.workload))));
        preempted.values().for_each(|holder| self.snapshot.remove_workload(&mut self.usage, holder));
        let fits = self.snapshot.fits(&self.usage, node, uses);
        preempted.values().for_each(|holder| self.snapshot.add_workload(&mut self.usage, holder));
        fits
    }

    /// Another preemptor has some of the same victims. If the request fits once these are removed, it waits for
    /// them; otherwise it is skipped and needs other victims in a later cycle.
    fn wait_for_overlapping_targets(
        &mut self,
        head: &NominatedHead,
        info: &WorkloadInfo,
        since: Time,
    ) -> HeadOutcome {
        // Assigned anew from the first flavor: the victims of the other preemptor change which flavor fits.
        let tried = BTreeMap::new();
        let nominee = Nominee { node: head.node, info, since, tried: &tried };
        self.preempted.values().for_each(|holder| self.snapshot.remove_workload(&mut self.usage, holder));
        let again = assign_flavors(self.snapshot, &mut self.usage, &nominee, None);
        self.preempted.values().for_each(|holder| self.snapshot.add_workload(&mut self.usage, holder));
        if again.representative_mode() != AssignmentMode::Fit {
            return HeadOutcome::Skipped(OVERLAPPING);
        }
        self.snapshot.add_usage(&mut self.usage, head.node, &again.total_usage());
        HeadOutcome::OverlappingTargets
    }

    /// Reserves capacity for a head that cannot preempt now, unless its ClusterQueue can reclaim it at any time.
    /// Without it, lower Workloads of the cohort would take each released part and the head would starve.
    fn reserve_capacity(&mut self, node: QuotaNodeId, assignment: &WorkloadAssignment) {
        // A ClusterQueue that may preempt any borrower gets its nominal quota back at any time; nothing needs to be
        // reserved (Kueue's `CanAlwaysReclaim`).
        if self.snapshot.specs[node].preemption.reclaim_within_cohort == ReclaimWithinCohortPolicy::Any {
            return;
        }
        let tree = self.snapshot.tree;
        for (&pair, &amount) in &assignment.usage {
            // Reserve no more than the ClusterQueue could use itself: up to its borrowing limit if it borrows, else
            // up to its nominal quota.
            let limit = if assignment.borrowing_height > 0 { tree.borrowing_limit(node, pair) } else { 0 };
            let room = if limit == UNLIMITED {
                amount
            } else {
                tree.nominal(node, pair).saturating_add(limit) - tree.used(&self.usage, node, pair)
            };
            tree.add_usage(&mut self.usage, node, pair, amount.min(room).max(0));
        }
    }
}
