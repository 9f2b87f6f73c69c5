//! Explanations of pending Workloads: queue position, trace per flavor, consumers of the quota, and policies that
//! prevent preemption.
//!
//! # Guarantees
//!
//! - Amounts are those of the last scheduling attempt; nothing is evaluated again for display.
//! - A pending Workload always has a reason and a message.

use muster_api::time::Time;
use muster_tree::Text;

use super::assignment_trace::{FlavorTrace, ResourceTrace};
use super::decision::{NAMESPACE_MISMATCH, PENDING_EVALUATION, RequeueReason};
use super::flavor_assigner::{Nominee, WorkloadAssignment};
use super::nominate::nominate;
use super::pending_queue::Ineligibility;
use super::preempt::PreemptionTarget;
use super::spec::{ReclaimWithinCohortPolicy, WithinClusterQueuePolicy};
use super::tree::{FlavorResourceId, QuotaNodeId};
use super::workload::{NamespacedName, QuotaStatus, WorkloadInfo};
use super::{Engine, WorkloadEntry};

/// Bound on the consumers listed per flavor-resource; the rest is counted.
pub const CONSUMERS_MAX: usize = 16;

/// Why a Workload is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadExplanation {
    /// The reason of the condition.
    pub reason: RequeueReason,
    pub message: String,
    /// The ClusterQueue, if it is queued.
    pub queue: Option<Text>,
    /// Counted from 0, the head.
    pub position_in_local_queue: Option<usize>,
    /// Counted from 0, the head.
    pub position_in_cluster_queue: Option<usize>,
    /// Time of the last nomination; None for a Workload that shares the result of an equivalent one and was never
    /// nominated itself.
    pub evaluated: Option<Time>,
    /// The trace by pod set.
    pub sets: Vec<PodSetExplanation>,
    /// Policies that prevent preemption.
    pub barriers: Vec<PreemptionBarrier>,
    /// Victims with an open preemption expectation.
    pub victims: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetExplanation {
    pub name: Text,
    /// Each flavor that was tried.
    pub flavors: Vec<FlavorExplanation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorExplanation {
    pub flavor: Text,
    /// Taint or node affinity mismatch.
    pub unsuitable: Option<String>,
    pub resources: Vec<ResourceExplanation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceExplanation {
    pub trace: ResourceTrace,
    /// The largest consumers, at most [`HOLDERS_MAX`]; only where quota is missing.
    pub consumers: Vec<QuotaConsumer>,
    /// How many more there are.
    pub more_consumers: usize,
}

/// A Workload that uses a flavor-resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaConsumer {
    pub key: NamespacedName,
    pub queue: Text,
    pub amount: i64,
    pub priority: i64,
}

/// A preemption policy that finds no victims, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PreemptionBarrier {
    WithinClusterQueueNever,
    /// `withinClusterQueue` allows preemption, and no Workload of the ClusterQueue ranks lower.
    WithinClusterQueueNoCandidates,
    ReclaimWithinCohortNever,
    /// `reclaimWithinCohort` allows preemption, and no borrowing ClusterQueue has a Workload that it covers.
    ReclaimWithinCohortNoCandidates,
    BorrowWithinCohortNever,
}

/// The result of a dry run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionDryRun {
    pub queue: Text,
    pub assignment: WorkloadAssignment,
    pub targets: Vec<PreemptionTarget>,
    /// The trace by pod set.
    pub sets: Vec<PodSetExplanation>,
    /// Policies that prevent preemption.
    pub barriers: Vec<PreemptionBarrier>,
}

impl Engine {
    /// Why a Workload is pending.
    #[must_use]
    pub fn explain(&self, key: &NamespacedName) -> Option<WorkloadExplanation> {
        let entry = self.workloads.get(key).filter(|entry| entry.info.status == QuotaStatus::Pending)?;
        let (reason, message) =
            self.not_queued_reason(&entry.info).or_else(|| entry.reported.clone()).unwrap_or_else(|| {
                let shared = self.shared_verdict(key);
                shared.unwrap_or((RequeueReason::PendingEvaluation, PENDING_EVALUATION.into()))
            });
        let (in_local, in_queue) = self.positions(key).map_or((None, None), |(l, q)| (Some(l), Some(q)));
        // A Workload that shares the result of an equivalent one shares its trace.
        let shared = entry
            .line
            .as_ref()
            .and_then(|queue| self.pending_queues.get(queue)?.shared_evaluation(&entry.shape));
        let verdict = entry.verdict.as_ref().or(shared);
        let node = entry.line.as_ref().and_then(|queue| self.ledger.tree.cluster_queue(queue));
        let sets = match (verdict, node) {
            (Some(verdict), Some(node)) => self.explain_pod_sets(&verdict.assignment, node),
            (None, _) | (_, None) => Vec::new(),
        };
        let barriers = match node {
            Some(node) if sets.iter().any(PodSetExplanation::lacks) => {
                self.barriers(node, &entry.info, entry.since)
            }
            Some(_) | None => Vec::new(),
        };
        Some(WorkloadExplanation {
            reason,
            message,
            queue: entry.line.clone(),
            position_in_local_queue: in_local,
            position_in_cluster_queue: in_queue,
            evaluated: verdict.map(|verdict| verdict.at),
            sets,
            barriers,
            victims: self.preemption_expectations.values().filter(|by| *by == key).count(),
        })
    }

    /// Nominates a Workload as a dry run; nothing is changed.
    ///
    /// # Errors
    /// The reason and message if it would not be nominated.
    pub fn dry_run(&mut self, info: &WorkloadInfo) -> Result<AdmissionDryRun, (RequeueReason, String)> {
        self.rebuild_if_stale();
        if let Some(blocked) = self.not_queued_reason(info) {
            return Err(blocked);
        }
        let local = NamespacedName { namespace: info.key.namespace.clone(), name: info.local_queue.clone() };
        let queue = self.locals.get(&local).map(|it| it.cluster_queue.clone()).unwrap_or_default();
        let Some(node) = self.ledger.tree.cluster_queue(&queue) else {
            return Err((RequeueReason::Misconfigured, format!("ClusterQueue {queue} doesn't exist")));
        };
        let labels = self.namespaces.get(&info.key.namespace).map_or(&[][..], Vec::as_slice);
        if !self.ledger.specs[node].namespace_selector.matches_labels(labels) {
            return Err((RequeueReason::Misconfigured, NAMESPACE_MISMATCH.into()));
        }
        if let Some(wrong) = &info.invalid_resources {
            return Err((RequeueReason::Misconfigured, wrong.clone()));
        }
        let tried = Default::default();
        let since = info.queue_order_timestamp(self.settings.requeuing_timestamp);
        let nominee = Nominee { node, info, since, tried: &tried };
        let found = nominate(&self.snapshot(), &mut self.ledger.usage.clone(), &nominee);
        let sets = self.explain_pod_sets(&found.assignment, node);
        // Policies are explained only if they stood in the way.
        let lacks = found.targets.is_empty() && sets.iter().any(PodSetExplanation::lacks);
        let barriers = if lacks { self.barriers(node, info, since) } else { Vec::new() };
        Ok(AdmissionDryRun { queue, assignment: found.assignment, targets: found.targets, sets, barriers })
    }

    /// Why a pending Workload is not queued, or its ClusterQueue is not processed.
    fn not_queued_reason(&self, info: &WorkloadInfo) -> Option<(RequeueReason, String)> {
        let name = &info.local_queue;
        let local = NamespacedName { namespace: info.key.namespace.clone(), name: name.clone() };
        let Some(local) = self.locals.get(&local) else {
            return Some((RequeueReason::Misconfigured, format!("LocalQueue {name} doesn't exist")));
        };
        let queue = &local.cluster_queue;
        if !self.queues.contains_key(queue) {
            return Some((RequeueReason::Misconfigured, format!("ClusterQueue {queue} doesn't exist")));
        }
        if local.stopped {
            return Some((RequeueReason::Suspended, format!("LocalQueue {name} is inactive")));
        }
        let node = self.ledger.tree.cluster_queue(queue)?;
        if self.ledger.idle.get(node).copied().flatten().is_some() {
            return Some((RequeueReason::Suspended, format!("ClusterQueue {queue} is inactive")));
        }
        match self.pending_queues.get(queue)?.aside(&info.key)? {
            Ineligibility::OnHold | Ineligibility::Backoff(_) => {
                Some((RequeueReason::OnHold, "Workload is on hold until it is requeued".into()))
            }
            Ineligibility::NamespaceMismatch | Ineligibility::Invalid => None,
        }
    }

    fn shared_verdict(&self, key: &NamespacedName) -> Option<(RequeueReason, String)> {
        let entry = self.workloads.get(key)?;
        let verdict = self.pending_queues.get(entry.line.as_ref()?)?.shared_evaluation(&entry.shape)?;
        Some((verdict.reason, super::decision::BYPASSED.into()))
    }

    /// Counts the Workloads ahead, in the LocalQueue and the ClusterQueue, without sorting the queue.
    fn positions(&self, key: &NamespacedName) -> Option<(usize, usize)> {
        let entry = self.workloads.get(key)?;
        let line = self.pending_queues.get(entry.line.as_ref()?)?;
        let local = NamespacedName { namespace: key.namespace.clone(), name: entry.info.local_queue.clone() };
        let own = entry.place();
        let beside = self.by_local.get(&local).into_iter().flatten().filter_map(|it| self.workloads.get(it));
        let beside = beside.filter(|it| it.line == entry.line).map(WorkloadEntry::place);
        let in_local = beside.filter(|place| line.is_before(place, &own)).count();
        Some((in_local, line.count_ahead(&own)))
    }

    fn explain_pod_sets(&self, assignment: &WorkloadAssignment, node: QuotaNodeId) -> Vec<PodSetExplanation> {
        let flavor = |look: &FlavorTrace| FlavorExplanation {
            flavor: look.flavor.clone(),
            unsuitable: look.unsuitable.clone(),
            resources: look
                .resources
                .iter()
                .map(|it| self.explain_resource(node, &look.flavor, it))
                .collect(),
        };
        let sets = assignment.sets.iter();
        sets.map(|set| PodSetExplanation {
            name: set.name.clone(),
            flavors: set.traces.iter().map(flavor).collect(),
        })
        .collect()
    }

    fn explain_resource(
        &self,
        node: QuotaNodeId,
        flavor: &Text,
        look: &ResourceTrace,
    ) -> ResourceExplanation {
        let pair = self.ledger.tree.flavor_resource(flavor, &look.resource).filter(|_| look.shortfall > 0);
        let mut holders = pair.map(|pair| self.consumers_of(node, pair)).unwrap_or_default();
        let more_holders = holders.len().saturating_sub(CONSUMERS_MAX);
        holders.truncate(CONSUMERS_MAX);
        ResourceExplanation { trace: look.clone(), consumers: holders, more_consumers: more_holders }
    }

    /// Workloads of the cohort tree that use a flavor-resource, largest amount first.
    fn consumers_of(&self, node: QuotaNodeId, pair: FlavorResourceId) -> Vec<QuotaConsumer> {
        let tree = &self.ledger.tree;
        let mut found = Vec::new();
        for queue in tree.subtree_cluster_queues(tree.nodes[node].root) {
            for holder in self.ledger.holders[queue].values() {
                let parts = holder.usage.iter().filter(|(used, _)| *used == pair);
                found.extend(parts.map(|&(_, amount)| QuotaConsumer {
                    key: holder.key.clone(),
                    queue: tree.nodes[queue].name.clone(),
                    amount,
                    priority: holder.priority,
                }));
            }
        }
        found.sort_by(|a, b| b.amount.cmp(&a.amount).then_with(|| a.key.cmp(&b.key)));
        found
    }

    fn barriers(&self, node: QuotaNodeId, info: &WorkloadInfo, since: Time) -> Vec<PreemptionBarrier> {
        let (tree, policy) = (&self.ledger.tree, &self.ledger.specs[node].preemption);
        let ask = super::preempt::PreemptionRequest {
            node,
            priority: info.priority,
            since,
            usage: Vec::new(),
            needs_preemption: Vec::new(),
        };
        let mut found = Vec::new();
        let own_helps = self.ledger.holders[node]
            .values()
            .any(|it| super::preempt::satisfies_within_cluster_queue(policy.within_cluster_queue, &ask, it));
        match policy.within_cluster_queue {
            WithinClusterQueuePolicy::Never => found.push(PreemptionBarrier::WithinClusterQueueNever),
            WithinClusterQueuePolicy::LowerPriority | WithinClusterQueuePolicy::LowerOrNewerEqualPriority
                if !own_helps =>
            {
                found.push(PreemptionBarrier::WithinClusterQueueNoCandidates);
            }
            WithinClusterQueuePolicy::LowerPriority | WithinClusterQueuePolicy::LowerOrNewerEqualPriority => {
            }
        }
        // Without a cohort there is nothing to reclaim.
        if tree.nodes[node].parent.is_none() {
            return found;
        }
        let borrows = |queue: QuotaNodeId| {
            (0..tree.flavor_resources.len())
                .any(|pair| tree.is_borrowing_with(&self.ledger.usage, queue, pair, 0))
        };
        let others = tree
            .subtree_cluster_queues(tree.nodes[node].root)
            .into_iter()
            .filter(|&queue| queue != node && borrows(queue));
        let mut reachable = others.flat_map(|queue| self.ledger.holders[queue].values());
        match policy.reclaim_within_cohort {
            ReclaimWithinCohortPolicy::Never => found.push(PreemptionBarrier::ReclaimWithinCohortNever),
            ReclaimWithinCohortPolicy::LowerPriority | ReclaimWithinCohortPolicy::Any => {
                if !reachable.any(|it| {
                    super::preempt::satisfies_reclaim_within_cohort(policy.reclaim_within_cohort, &ask, it)
                }) {
                    found.push(PreemptionBarrier::ReclaimWithinCohortNoCandidates);
                }
            }
        }
        if policy.borrow_within_cohort.is_none() {
            found.push(PreemptionBarrier::BorrowWithinCohortNever);
        }
        found
    }
}

impl PodSetExplanation {
    fn lacks(&self) -> bool {
        self.flavors.iter().flat_map(|flavor| &flavor.resources).any(|it| it.trace.shortfall > 0)
    }
}
