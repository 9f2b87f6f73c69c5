//! A scheduling cycle: take the heads, nominate them, process them in order, requeue the rest.
//!
//! # Guarantees
//!
//! - Nominations are computed against actual usage. Heads are processed on a snapshot with victims removed and
//!   reserved capacity added. An admission must fit both.
//! - A tree is processed again only if something in it changed: a Workload was admitted, became inadmissible, or
//!   has untried flavors and is further than before. So repeated cycles terminate.
//! - A Workload that fits and is skipped is nominated again when something in its tree changes or a head that took
//!   precedence is replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::cycle_snapshot::{CycleSnapshot, HeadOutcome, NominatedHead};
use super::decision::{
    AdmitDecision, BYPASSED, CHECKS_FAILED, Decision, Evaluation, NAMESPACE_MISMATCH, NO_LONGER_FITS,
    NOT_ALL_READY, OVERLAPPING_FITS, PendingStatus, PreemptionVictim, RequeueReason,
};
use super::entry_order::{self, OrderedHead};
use super::flavor_assigner::{self, Nominee, WorkloadAssignment};
use super::nominate::nominate;
use super::pending_queue::{InadmissibleClass, Ineligibility};
use super::preempt::PreemptionTarget;
use super::spec::{PODS, QueueingPolicy};
use super::tree::{FlavorResourceId, QuotaNodeId};
use super::workload::{NamespacedName, QuotaReservation, QuotaStatus, Requests, WorkloadInfo};
use super::{CachedNomination, Engine, LastAssignment, TreeVersion};

impl Engine {
    /// Runs one scheduling cycle and returns its decisions.
    pub fn run_cycle(&mut self, now: Time) -> Vec<Decision> {
        self.rebuild_if_stale();
        self.recall_due(now);
        let mut decisions = Vec::new();
        // Later rounds process the next heads of trees that are still dirty.
        for _ in 0..self.settings.heads_per_cycle.max(1) {
            if !self.process_heads(now, &mut decisions) {
                break;
            }
        }
        self.report_bypassed(&mut decisions);
        decisions
    }

    /// Processes one head of every ClusterQueue in the changed trees; false if there was none.
    fn process_heads(&mut self, now: Time, decisions: &mut Vec<Decision>) -> bool {
        let keys = self.pop_heads();
        let mut heads = Vec::new();
        for (node, key) in keys {
            match self.ineligibility_of(node, &key) {
                Some((aside, reason, message)) => {
                    let refusal =
                        self.record_pending(&key, reason, message, now, WorkloadAssignment::default());
                    decisions.extend(refusal.map(Decision::Requeue));
                    self.mark_ineligible(node, &key, aside);
                }
                None => heads.extend(self.nominate_head(node, &key)),
            }
        }
        // Ineligible heads were taken out; the next ones may have become heads.
        if heads.is_empty() {
            return self.ledger.trees.iter().any(|tree| tree.dirty);
        }
        self.work.rounds += 1;
        // Trees with a head that waits for an event which will come: evictions or pods becoming ready.
        let mut busy: BTreeSet<QuotaNodeId> = BTreeSet::new();
        let mut passed_over = Vec::new();
        for (index, fate) in self.process_nominated(&heads) {
            let head = &heads[index];
            let fate = self.resolve_skipped(head, fate);
            match fate {
                HeadOutcome::Skipped(_) => passed_over.push(index),
                HeadOutcome::Preempting | HeadOutcome::OverlappingTargets | HeadOutcome::WaitForPodsReady => {
                    busy.insert(self.ledger.tree.nodes[head.node].root);
                }
                HeadOutcome::Admitted | HeadOutcome::NoFit => {}
            }
            self.apply_outcome(head, fate, now, decisions);
        }
        for index in passed_over {
            let head = &heads[index];
            let node = &self.ledger.tree.nodes[head.node];
            let (queue, root) = (node.name.clone(), node.root);
            // Decided after all outcomes are applied, so that admissions of this very round count as changes.
            if self.tree_version(head.node) != head.passed_over.unwrap_or(head.chances) {
                // A head that took precedence earlier may be out of the way by now.
                self.schedule_queue(&queue);
            } else if !busy.contains(&root) {
                self.park_skipped(head, decisions);
            }
        }
        true
    }

    /// A head that found no quota in its last flavors, and was skipped in an earlier flavor that fits, counts as
    /// skipped.
    fn resolve_skipped(&self, head: &NominatedHead, fate: HeadOutcome) -> HeadOutcome {
        let tried = &head.nomination.assignment.last_tried_flavors;
        let before = self.workloads.get(&head.key).map(|entry| &entry.last_assignment.tried);
        let goes_on =
            !tried.is_empty() && before.is_some_and(|before| flavor_assigner::advances(before, tried));
        match fate {
            HeadOutcome::NoFit if head.passed_over.is_some() && !goes_on => {
                HeadOutcome::Skipped(NO_LONGER_FITS)
            }
            fate => fate,
        }
    }

    /// Marks a skipped head inadmissible if nothing in its tree is pending, so that the heads behind it get a
    /// chance. A StrictFIFO head stays and keeps blocking its queue.
    fn park_skipped(&mut self, head: &NominatedHead, decisions: &mut Vec<Decision>) {
        let Some(entry) = self.workloads.get(&head.key) else { return };
        let best_effort = self.ledger.specs[head.node].strategy == QueueingPolicy::BestEffortFifo;
        if best_effort
            && entry.last_assignment.tried.is_empty()
            && let Some(verdict) = entry.verdict.clone()
        {
            let chances = Some(self.tree_version(head.node));
            self.mark_inadmissible(head, chances, verdict, decisions);
        }
    }

    /// Marks the equivalence class of a head inadmissible and reports that to its members.
    fn mark_inadmissible(
        &mut self,
        head: &NominatedHead,
        chances: Option<TreeVersion>,
        verdict: Arc<Evaluation>,
        decisions: &mut Vec<Decision>,
    ) {
        let queue = self.ledger.tree.nodes[head.node].name.clone();
        let Some(shape) = self.workloads.get(&head.key).map(|entry| Arc::clone(&entry.shape)) else { return };
        let pairs =
            self.ledger.pairs_considered(head.node, &evaluated_resources(&head.nomination.assignment));
        let Some(line) = self.pending_queues.get_mut(&queue) else { return };
        let bypassed =
            line.mark_inadmissible(&shape, &head.key, InadmissibleClass { pairs, chances, verdict });
        let goes_on = line.head().is_some();
        if head.reserves_capacity() {
            self.new_head(&queue);
        } else if goes_on {
            self.schedule_queue(&queue);
        }
        for key in &bypassed {
            decisions.extend(self.report_bypass(key));
        }
    }

    /// The heads of all active ClusterQueues in changed trees.
    fn pop_heads(&mut self) -> Vec<(QuotaNodeId, NamespacedName)> {
        let mut heads = Vec::new();
        let ledger = &mut self.ledger;
        for root in 0..ledger.trees.len() {
            if !std::mem::take(&mut ledger.trees[root].dirty) || ledger.tree.nodes[root].root != root {
                continue;
            }
            // Before the heads are read: a class that was skipped at an older version must compete again.
            let chances = ledger.trees[root].version();
            for node in ledger.tree.subtree_cluster_queues(root) {
                let line = self.pending_queues.get_mut(&ledger.tree.nodes[node].name);
                let line = line.filter(|_| ledger.idle[node].is_none()).map(|line| {
                    line.requeue_skipped(chances);
                    &*line
                });
                heads.extend(line.and_then(|line| line.head()).map(|key| (node, key.clone())));
            }
        }
        heads
    }

    /// Why a head is not nominated: failed checks, namespace mismatch, invalid resources.
    fn ineligibility_of(
        &self,
        node: QuotaNodeId,
        key: &NamespacedName,
    ) -> Option<(Ineligibility, RequeueReason, String)> {
        let info = &self.workloads.get(key)?.info;
        if info.checks_failed {
            return Some((Ineligibility::Invalid, RequeueReason::PendingEvaluation, CHECKS_FAILED.into()));
        }
        let labels = self.namespaces.get(&key.namespace).map_or(&[][..], Vec::as_slice);
        if !self.ledger.specs[node].namespace_selector.matches_labels(labels) {
            return Some((
                Ineligibility::NamespaceMismatch,
                RequeueReason::Misconfigured,
                NAMESPACE_MISMATCH.into(),
            ));
        }
        info.invalid_resources
            .clone()
            .map(|wrong| (Ineligibility::Invalid, RequeueReason::Misconfigured, wrong))
    }

    /// Takes an ineligible Workload out of the heap. In a StrictFIFO queue it stays at its position, except on
    /// namespace mismatch.
    fn mark_ineligible(&mut self, node: QuotaNodeId, key: &NamespacedName, why: Ineligibility) {
        if self.ledger.specs[node].strategy == QueueingPolicy::StrictFifo
            && why != Ineligibility::NamespaceMismatch
        {
            return;
        }
        let Some(queue) = self.workloads.get(key).and_then(|entry| entry.line.clone()) else { return };
        self.dequeue(key);
        let Some(entry) = self.workloads.get_mut(key) else { return };
        entry.line = Some(queue.clone());
        let place = entry.place();
        self.pending_queues.entry(queue).or_default().insert_ineligible(place, why);
    }

    /// Nominates a head, or returns the cached nomination of this tree generation.
    fn nominate_head(&mut self, node: QuotaNodeId, key: &NamespacedName) -> Option<NominatedHead> {
        let generation = self.ledger.trees[self.ledger.tree.nodes[node].root].generation;
        let entry = self.workloads.get_mut(key)?;
        // Quota changed since: an earlier flavor may fit now.
        if entry.last_assignment.generation != generation {
            entry.last_assignment = LastAssignment::default();
        }
        let passed_over = entry.last_assignment.passed_over;
        let known =
            self.ledger.memo[node].as_ref().filter(|it| it.generation == generation && it.key == *key);
        let nomination = match known {
            // Same Workload, same generation: the inputs are equal.
            Some(memo) => Arc::clone(&memo.nomination),
            None => {
                self.work.nominations += 1;
                let entry = self.workloads.get(key)?;
                let nominee = Nominee {
                    node,
                    info: &entry.info,
                    since: entry.since,
                    tried: &entry.last_assignment.tried,
                };
                let mut usage = self.ledger.usage.clone();
                Arc::new(nominate(&self.snapshot(), &mut usage, &nominee))
            }
        };
        self.ledger.memo[node] =
            Some(CachedNomination { key: key.clone(), generation, nomination: Arc::clone(&nomination) });
        let chances = self.tree_version(node);
        Some(NominatedHead { key: key.clone(), node, nomination, generation, chances, passed_over })
    }

    /// Processes the heads in order; returns the outcome of each.
    fn process_nominated(&self, heads: &[NominatedHead]) -> Vec<(usize, HeadOutcome)> {
        let snapshot = self.snapshot();
        let mut cycle_snapshot = CycleSnapshot {
            snapshot: &snapshot,
            actual_usage: self.ledger.usage.clone(),
            usage: self.ledger.usage.clone(),
            preempted: BTreeMap::new(),
            all_pods_ready: !self.settings.block_admission || self.pods_not_ready.is_empty(),
            block_admission: self.settings.block_admission,
        };
        let mut left: Vec<(OrderedHead, usize)> =
            heads.iter().enumerate().map(|(n, it)| (self.ordered_head(it), n)).collect();
        entry_order::line_up(&snapshot, &mut left);
        let mut fates = Vec::new();
        // With fair sharing the order depends on the usage, which each processed head changes.
        while let Some(index) = entry_order::next(&snapshot, &mut cycle_snapshot.usage, &mut left) {
            let head = &heads[index];
            if let Some(entry) = self.workloads.get(&head.key) {
                fates.push((index, cycle_snapshot.process_head(head, &entry.info, entry.since)));
            }
        }
        fates
    }

    fn ordered_head(&self, head: &NominatedHead) -> OrderedHead {
        let entry = self.workloads.get(&head.key);
        OrderedHead {
            node: head.node,
            height: head.nomination.assignment.borrowing_height,
            priority: entry.map_or(0, |entry| entry.info.priority),
            since: entry.map_or(Time::default(), |entry| entry.since),
            uid: entry.map_or_else(Text::default, |entry| entry.info.uid.clone()),
            uses: head.nomination.assignment.total_usage(),
        }
    }

    fn apply_outcome(
        &mut self,
        head: &NominatedHead,
        fate: HeadOutcome,
        now: Time,
        decisions: &mut Vec<Decision>,
    ) {
        let assignment = &head.nomination.assignment;
        let (reason, message) = match fate {
            HeadOutcome::Admitted => {
                decisions.extend(self.assume_admission(head, now).map(Decision::Admit));
                return;
            }
            HeadOutcome::NoFit => (
                assignment.no_fit_reason().map_or(RequeueReason::WaitingForQuota, RequeueReason::from),
                assignment.message(),
            ),
            HeadOutcome::Preempting => {
                let count = head.nomination.targets.len();
                let text = format!("{}. Pending the preemption of {count} workload(s)", assignment.message());
                (RequeueReason::WaitingForPreemptedWorkloads, text)
            }
            HeadOutcome::OverlappingTargets => {
                (RequeueReason::WaitingForPreemptedWorkloads, OVERLAPPING_FITS.into())
            }
            HeadOutcome::Skipped(why) => (RequeueReason::WaitingForQuota, why.into()),
            HeadOutcome::WaitForPodsReady => {
                self.pods_ready_awaited = true;
                (RequeueReason::WaitingForPodsReady, NOT_ALL_READY.into())
            }
        };
        let refusal = self.record_pending(&head.key, reason, message, now, assignment.clone());
        let victims =
            if matches!(fate, HeadOutcome::Preempting) { self.issue_preemptions(head) } else { Vec::new() };
        if victims.is_empty() {
            decisions.extend(refusal.map(Decision::Requeue));
        } else if let Some(refusal) = refusal.or_else(|| self.pending_status(&head.key)) {
            decisions.push(Decision::Preempt { pending: refusal, victims });
        }
        self.requeue(head, fate, decisions);
    }

    /// Assumes the admission: usage is counted now, before the status update is written.
    fn assume_admission(&mut self, head: &NominatedHead, now: Time) -> Option<AdmitDecision> {
        self.dequeue(&head.key);
        let queue = self.ledger.tree.nodes[head.node].name.clone();
        let sets = head.nomination.assignment.pod_set_resources();
        let entry = self.workloads.get_mut(&head.key)?;
        // Conditions have a resolution of seconds; the assumed time must equal the one that is read back.
        let since = now.whole_seconds();
        entry.info.status = QuotaStatus::QuotaReserved(QuotaReservation {
            queue: queue.clone(),
            pod_sets: sets.clone(),
            since,
            admitted: false,
        });
        // From now on it counts for `blockAdmission`, before its condition is written.
        entry.info.pods_ready = false;
        entry.assumed = true;
        entry.reported = None;
        entry.last_assignment = LastAssignment::default();
        let queued_since = entry.since;
        self.hold(&head.key);
        Some(AdmitDecision {
            key: head.key.clone(),
            message: format!("Quota reserved in ClusterQueue {queue}"),
            queue,
            sets,
            borrowing_height: head.nomination.assignment.borrowing_height,
            queued_since,
        })
    }

    /// Requeues a head that was not admitted.
    fn requeue(&mut self, head: &NominatedHead, fate: HeadOutcome, decisions: &mut Vec<Decision>) {
        let queue = self.ledger.tree.nodes[head.node].name.clone();
        let Some(entry) = self.workloads.get_mut(&head.key) else { return };
        let (place, shape) = (entry.place(), Arc::clone(&entry.shape));
        let (untried, park, stick) = match fate {
            HeadOutcome::Admitted => return,
            HeadOutcome::NoFit => (true, true, false),
            HeadOutcome::Skipped(_) => (true, false, false),
            // Sticky: the quota of its victims must not go to a Workload behind it.
            HeadOutcome::Preempting | HeadOutcome::OverlappingTargets => (false, false, true),
            HeadOutcome::WaitForPodsReady => (false, false, false),
        };
        let before = std::mem::take(&mut entry.last_assignment.tried);
        let tried = &head.nomination.assignment.last_tried_flavors;
        if untried && flavor_assigner::advances(&before, tried) {
            entry.last_assignment.tried.clone_from(tried);
        }
        // The cached nomination was computed for another starting flavor.
        if entry.last_assignment.tried != before {
            self.ledger.memo[head.node] = None;
        }
        if !entry.last_assignment.tried.is_empty() {
            entry.last_assignment.generation = head.generation;
            if matches!(fate, HeadOutcome::Skipped(_)) {
                // Keep the first one: any change since that attempt makes the earlier flavor worth another try.
                entry.last_assignment.passed_over.get_or_insert(head.chances);
            }
            self.schedule_queue(&queue);
            return;
        }
        entry.last_assignment = LastAssignment::default();
        let verdict = entry.verdict.clone();
        let best_effort = self.ledger.specs[head.node].strategy == QueueingPolicy::BestEffortFifo;
        let Some(line) = self.pending_queues.get_mut(&queue) else { return };
        if best_effort && stick {
            line.set_sticky(&place, &shape);
        }
        if best_effort
            && park
            && let Some(verdict) = verdict
        {
            self.mark_inadmissible(head, None, verdict, decisions);
        }
    }

    /// Reports the pending status to Workloads that joined an inadmissible class later.
    fn report_bypassed(&mut self, decisions: &mut Vec<Decision>) {
        for queue in std::mem::take(&mut self.unreported) {
            let keys = self
                .pending_queues
                .get_mut(&queue)
                .map(super::pending_queue::PendingQueue::take_unreported)
                .unwrap_or_default();
            for key in &keys {
                decisions.extend(self.report_bypass(key));
            }
        }
    }

    /// Reports to one Workload that it shares the result of its equivalence class.
    fn report_bypass(&mut self, key: &NamespacedName) -> Option<Decision> {
        let entry = self.workloads.get(key)?;
        let verdict = self.pending_queues.get(entry.line.as_ref()?)?.shared_evaluation(&entry.shape)?.clone();
        let told = (verdict.reason, String::from(BYPASSED));
        self.record_report(key, told, verdict).map(Decision::Requeue)
    }

    /// Records why a Workload is pending; returns the status if it changed.
    fn record_pending(
        &mut self,
        key: &NamespacedName,
        reason: RequeueReason,
        message: String,
        at: Time,
        assignment: WorkloadAssignment,
    ) -> Option<PendingStatus> {
        let verdict = Arc::new(Evaluation { at, reason, message: message.clone(), assignment });
        self.record_report(key, (reason, message), verdict)
    }

    fn record_report(
        &mut self,
        key: &NamespacedName,
        told: (RequeueReason, String),
        verdict: Arc<Evaluation>,
    ) -> Option<PendingStatus> {
        let entry = self.workloads.get_mut(key)?;
        entry.verdict = Some(verdict);
        // Unchanged: no status update is written. A steady cluster writes nothing.
        if entry.reported.as_ref() == Some(&told) {
            return None;
        }
        entry.reported = Some(told);
        self.pending_status(key)
    }

    /// The last reported pending status of a Workload that may be nominated: it is in a queue, the ClusterQueue is
    /// active, and neither requeue backoff nor `Requeued=False` holds it.
    #[must_use]
    pub fn reported_status(&self, key: &NamespacedName) -> Option<PendingStatus> {
        let entry = self.workloads.get(key).filter(|entry| entry.info.status == QuotaStatus::Pending)?;
        let queue = entry.line.as_ref()?;
        let node = self.ledger.tree.cluster_queue(queue).filter(|_| self.stale.is_none())?;
        let held_back = matches!(
            self.pending_queues.get(queue)?.aside(key),
            Some(Ineligibility::Backoff(_) | Ineligibility::OnHold)
        );
        if held_back || self.ledger.idle[node].is_some() { None } else { self.pending_status(key) }
    }

    fn pending_status(&self, key: &NamespacedName) -> Option<PendingStatus> {
        let entry = self.workloads.get(key)?;
        let (reason, message) = entry.reported.clone()?;
        let node = entry.line.as_ref().and_then(|queue| self.ledger.tree.cluster_queue(queue));
        let counts_pods = node.is_some_and(|node| self.ledger.specs[node].group_of(PODS).is_some());
        Some(PendingStatus {
            key: key.clone(),
            reason,
            message,
            requests: requests(&entry.info, counts_pods),
        })
    }

    /// The targets without an open preemption expectation.
    fn issue_preemptions(&mut self, head: &NominatedHead) -> Vec<PreemptionVictim> {
        let Some(preemptor) = self.workloads.get(&head.key).map(|entry| entry.info.clone()) else {
            return Vec::new();
        };
        let mut victims = Vec::new();
        for target in &head.nomination.targets {
            // Already evicted, or issued for another preemptor: a second eviction would write the same conditions
            // again.
            if !target.workload.evicted && !self.preemption_expectations.contains_key(&target.workload.key) {
                self.preemption_expectations.insert(target.workload.key.clone(), head.key.clone());
                victims.push(self.preemption_victim(&preemptor, head.node, target));
            }
        }
        victims
    }

    fn preemption_victim(
        &self,
        preemptor: &WorkloadInfo,
        node: QuotaNodeId,
        target: &PreemptionTarget,
    ) -> PreemptionVictim {
        let tree = &self.ledger.tree;
        let or_unknown = |text: &str| if text.is_empty() { "UNKNOWN".to_owned() } else { text.to_owned() };
        let message = format!(
            "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to {}; preemptor path: {}; preemptee path: {}",
            or_unknown(&preemptor.uid),
            or_unknown(preemptor.job_uid.as_deref().unwrap_or_default()),
            target.reason.human_readable(),
            tree.path_text(node),
            tree.path_text(target.workload.node),
        );
        let (ours, theirs) = (preemptor.priority, target.workload.priority);
        let event_suffix = format!(
            "; preemptor effective priority: {ours} (base: {ours}, boost: 0); preemptee effective priority: {theirs} \
             (base: {theirs}, boost: 0)"
        );
        let (key, uid) = (target.workload.key.clone(), target.workload.uid.clone());
        PreemptionVictim { key, uid, reason: target.reason, message, event_suffix }
    }
}

impl super::QuotaCache {
    /// Every flavor-resource that could provide these resources.
    fn pairs_considered(&self, node: QuotaNodeId, resources: &[Text]) -> Vec<FlavorResourceId> {
        let flavors = self.specs[node].groups.iter().flat_map(|group| &group.flavors);
        let pairs = flavors.flat_map(|(flavor, quotas)| {
            let wanted = resources.iter().filter(|name| quotas.contains_key(*name));
            wanted.filter_map(|resource| self.tree.flavor_resource(flavor, resource))
        });
        pairs.collect()
    }
}

/// The resources an assignment evaluated.
fn evaluated_resources(assignment: &WorkloadAssignment) -> Vec<Text> {
    let looks = assignment.sets.iter().flat_map(|set| &set.traces);
    let mut names: Vec<Text> = looks.flat_map(|look| &look.resources).map(|it| it.resource.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn requests(info: &WorkloadInfo, counts_pods: bool) -> Vec<(Text, Requests)> {
    info.pod_sets
        .iter()
        .map(|set| (set.name.clone(), set.total_requests(set.count_after_reclaim(), counts_pods)))
        .collect()
}
