//! Why a workload waits: position, verdict per flavor with numbers, who has the quota, what forbids to take it.
//!
//! # Invariants
//!
//! - Numbers are those of the verdict that was made, never of a second one made for display.
//! - A workload that waits always has a reason and a sentence.

use muster_api::time::Time;
use muster_tree::Text;

use super::assign::{Applicant, Assignment};
use super::decision::{NAMESPACE_MISMATCH, PENDING_EVALUATION, Reason};
use super::line::Aside;
use super::look::{Look, ResourceLook};
use super::nominate::nominate;
use super::preempt::Target;
use super::spec::{Reclaim, Within};
use super::tree::{NodeId, PairId};
use super::workload::{Info, Key, Stand};
use super::{Engine, Entry};

/// The most holders that are named per resource and flavor; the rest is counted.
pub const HOLDERS_MAX: usize = 16;

/// Why a workload waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// The reason of the condition.
    pub reason: Reason,
    /// Its message.
    pub message: String,
    /// The queue it waits in, if it waits in one.
    pub queue: Option<Text>,
    /// How many of its local queue are before it.
    pub position_in_local_queue: Option<usize>,
    /// How many of its queue are before it.
    pub position_in_cluster_queue: Option<usize>,
    /// When it was looked at last; absent for those who share another's verdict without a look of their own.
    pub evaluated: Option<Time>,
    /// What was looked at, by set of pods.
    pub sets: Vec<SetWhy>,
    /// What forbids to take quota from others.
    pub barriers: Vec<Barrier>,
    /// How many were told to go for it and are not gone.
    pub victims: usize,
}

/// What was looked at for one set of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetWhy {
    /// The set.
    pub name: Text,
    /// Each flavor that was tried.
    pub flavors: Vec<FlavorWhy>,
}

/// What was seen of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorWhy {
    /// The flavor.
    pub flavor: Text,
    /// Why the pods cannot use it, if they cannot.
    pub unsuitable: Option<String>,
    /// Its resources.
    pub resources: Vec<ResourceWhy>,
}

/// What was seen of one resource, and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceWhy {
    /// Requested, available, maximum, shortfall.
    pub look: ResourceLook,
    /// Who has most of it, at most [`HOLDERS_MAX`] of them; only where something is missing.
    pub holders: Vec<Share>,
    /// How many more there are.
    pub more_holders: usize,
}

/// Someone's part of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Who.
    pub key: Key,
    /// In which queue.
    pub queue: Text,
    /// How much.
    pub amount: i64,
    /// With which priority.
    pub priority: i64,
}

/// A rule that keeps a workload from taking quota from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Barrier {
    /// `withinClusterQueue: Never`.
    WithinNever,
    /// Nobody in the own queue has a lower rank.
    WithinNobodyLower,
    /// `reclaimWithinCohort: Never`.
    ReclaimNever,
    /// Nobody elsewhere borrows, or nobody who does has a lower priority where that is asked.
    ReclaimNobody,
    /// `borrowWithinCohort: Never`.
    WhileBorrowingNever,
}

/// What would become of a workload if it were there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The queue it would wait in.
    pub queue: Text,
    /// Its flavors.
    pub assignment: Assignment,
    /// Who would have to go.
    pub targets: Vec<Target>,
    /// What was looked at, by set of pods.
    pub sets: Vec<SetWhy>,
    /// What forbids to take quota from others.
    pub barriers: Vec<Barrier>,
}

impl Engine {
    /// Why a workload waits; `None` if it does not.
    #[must_use]
    pub fn why(&self, key: &Key) -> Option<Why> {
        let entry = self.workloads.get(key).filter(|entry| entry.info.stand == Stand::Waiting)?;
        let (reason, message) =
            self.blocker(&entry.info).or_else(|| entry.told.clone()).unwrap_or_else(|| {
                let shared = self.shared_verdict(key);
                shared.unwrap_or((Reason::PendingEvaluation, PENDING_EVALUATION.into()))
            });
        let (in_local, in_queue) = self.positions(key).map_or((None, None), |(l, q)| (Some(l), Some(q)));
        // Whoever shares another's fate shares what was looked at for that one.
        let shared = entry.line.as_ref().and_then(|queue| self.lines.get(queue)?.verdict_of(&entry.shape));
        let verdict = entry.verdict.as_ref().or(shared);
        let node = entry.line.as_ref().and_then(|queue| self.ledger.tree.queue(queue));
        let sets = match (verdict, node) {
            (Some(verdict), Some(node)) => self.sets_why(&verdict.assignment, node),
            (None, _) | (_, None) => Vec::new(),
        };
        let barriers = match node {
            Some(node) if sets.iter().any(SetWhy::lacks) => self.barriers(node, &entry.info, entry.since),
            Some(_) | None => Vec::new(),
        };
        Some(Why {
            reason,
            message,
            queue: entry.line.clone(),
            position_in_local_queue: in_local,
            position_in_cluster_queue: in_queue,
            evaluated: verdict.map(|verdict| verdict.at),
            sets,
            barriers,
            victims: self.named.values().filter(|by| *by == key).count(),
        })
    }

    /// What would become of a workload in the queue of its local queue, were it looked at now. Nothing is changed.
    ///
    /// # Errors
    /// It would not be looked at, and why.
    pub fn try_out(&mut self, info: &Info) -> Result<Trial, (Reason, String)> {
        self.refresh();
        if let Some(blocked) = self.blocker(info) {
            return Err(blocked);
        }
        let local = Key { namespace: info.key.namespace.clone(), name: info.local_queue.clone() };
        let queue = self.locals.get(&local).map(|it| it.queue.clone()).unwrap_or_default();
        let Some(node) = self.ledger.tree.queue(&queue) else {
            return Err((Reason::Misconfigured, format!("ClusterQueue {queue} doesn't exist")));
        };
        let labels = self.namespaces.get(&info.key.namespace).map_or(&[][..], Vec::as_slice);
        if !self.ledger.specs[node].namespaces.selects_labels(labels) {
            return Err((Reason::Misconfigured, NAMESPACE_MISMATCH.into()));
        }
        if let Some(wrong) = &info.wrong {
            return Err((Reason::Misconfigured, wrong.clone()));
        }
        let tried = Default::default();
        let since = info.queued_since(self.settings.requeue_from);
        let who = Applicant { node, info, since, tried: &tried };
        let found = nominate(&self.scene(), &mut self.ledger.usage.clone(), &who);
        let sets = self.sets_why(&found.assignment, node);
        let lacks = found.targets.is_empty() && sets.iter().any(SetWhy::lacks);
        let barriers = if lacks { self.barriers(node, info, since) } else { Vec::new() };
        Ok(Trial { queue, assignment: found.assignment, targets: found.targets, sets, barriers })
    }

    /// What keeps a waiting workload out of any line, or its line from moving.
    fn blocker(&self, info: &Info) -> Option<(Reason, String)> {
        let name = &info.local_queue;
        let local = Key { namespace: info.key.namespace.clone(), name: name.clone() };
        let Some(local) = self.locals.get(&local) else {
            return Some((Reason::Misconfigured, format!("LocalQueue {name} doesn't exist")));
        };
        let queue = &local.queue;
        if !self.queues.contains_key(queue) {
            return Some((Reason::Misconfigured, format!("ClusterQueue {queue} doesn't exist")));
        }
        if local.stopped {
            return Some((Reason::Suspended, format!("LocalQueue {name} is inactive")));
        }
        let node = self.ledger.tree.queue(queue)?;
        if self.ledger.idle.get(node).copied().flatten().is_some() {
            return Some((Reason::Suspended, format!("ClusterQueue {queue} is inactive")));
        }
        match self.lines.get(queue)?.aside(&info.key)? {
            Aside::OnHold | Aside::Until(_) => {
                Some((Reason::OnHold, "Workload is on hold until it is requeued".into()))
            }
            Aside::NamespaceMismatch | Aside::Refused => None,
        }
    }

    fn shared_verdict(&self, key: &Key) -> Option<(Reason, String)> {
        let entry = self.workloads.get(key)?;
        let verdict = self.lines.get(entry.line.as_ref()?)?.verdict_of(&entry.shape)?;
        Some((verdict.reason, super::decision::BYPASSED.into()))
    }

    /// How many of its local queue, and of its queue, are before a workload. Nothing is put in order for it.
    fn positions(&self, key: &Key) -> Option<(usize, usize)> {
        let entry = self.workloads.get(key)?;
        let line = self.lines.get(entry.line.as_ref()?)?;
        let local = Key { namespace: key.namespace.clone(), name: entry.info.local_queue.clone() };
        let own = entry.place();
        let beside = self.by_local.get(&local).into_iter().flatten().filter_map(|it| self.workloads.get(it));
        let beside = beside.filter(|it| it.line == entry.line).map(Entry::place);
        let in_local = beside.filter(|place| line.is_before(place, &own)).count();
        Some((in_local, line.before(&own)))
    }

    fn sets_why(&self, assignment: &Assignment, node: NodeId) -> Vec<SetWhy> {
        let flavor = |look: &Look| FlavorWhy {
            flavor: look.flavor.clone(),
            unsuitable: look.unsuitable.clone(),
            resources: look.resources.iter().map(|it| self.resource_why(node, &look.flavor, it)).collect(),
        };
        let sets = assignment.sets.iter();
        sets.map(|set| SetWhy { name: set.name.clone(), flavors: set.looks.iter().map(flavor).collect() })
            .collect()
    }

    fn resource_why(&self, node: NodeId, flavor: &Text, look: &ResourceLook) -> ResourceWhy {
        let pair = self.ledger.tree.pair(flavor, &look.resource).filter(|_| look.shortfall > 0);
        let mut holders = pair.map(|pair| self.holders_of(node, pair)).unwrap_or_default();
        let more_holders = holders.len().saturating_sub(HOLDERS_MAX);
        holders.truncate(HOLDERS_MAX);
        ResourceWhy { look: look.clone(), holders, more_holders }
    }

    /// Who in the tree of a queue has something of a pair, the largest part first.
    fn holders_of(&self, node: NodeId, pair: PairId) -> Vec<Share> {
        let tree = &self.ledger.tree;
        let mut found = Vec::new();
        for queue in tree.queues_below(tree.nodes[node].root) {
            for holder in self.ledger.holders[queue].values() {
                let parts = holder.uses.iter().filter(|(used, _)| *used == pair);
                found.extend(parts.map(|&(_, amount)| Share {
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

    fn barriers(&self, node: NodeId, info: &Info, since: Time) -> Vec<Barrier> {
        let (tree, policy) = (&self.ledger.tree, &self.ledger.specs[node].preemption);
        let ask = super::preempt::Ask {
            node,
            priority: info.priority,
            since,
            uses: Vec::new(),
            contested: Vec::new(),
        };
        let mut found = Vec::new();
        let own_helps = self.ledger.holders[node]
            .values()
            .any(|it| super::preempt::may_preempt_own(policy.within, &ask, it));
        match policy.within {
            Within::Never => found.push(Barrier::WithinNever),
            Within::LowerPriority | Within::LowerOrNewerEqualPriority if !own_helps => {
                found.push(Barrier::WithinNobodyLower);
            }
            Within::LowerPriority | Within::LowerOrNewerEqualPriority => {}
        }
        if tree.nodes[node].parent.is_none() {
            return found;
        }
        let borrows = |queue: NodeId| {
            (0..tree.pairs.len()).any(|pair| tree.borrows_with(&self.ledger.usage, queue, pair, 0))
        };
        let others = tree
            .queues_below(tree.nodes[node].root)
            .into_iter()
            .filter(|&queue| queue != node && borrows(queue));
        let mut reachable = others.flat_map(|queue| self.ledger.holders[queue].values());
        match policy.reclaim {
            Reclaim::Never => found.push(Barrier::ReclaimNever),
            Reclaim::LowerPriority | Reclaim::Any => {
                if !reachable.any(|it| super::preempt::may_preempt_elsewhere(policy.reclaim, &ask, it)) {
                    found.push(Barrier::ReclaimNobody);
                }
            }
        }
        if policy.while_borrowing.is_none() {
            found.push(Barrier::WhileBorrowingNever);
        }
        found
    }
}

impl SetWhy {
    fn lacks(&self) -> bool {
        self.flavors.iter().flat_map(|flavor| &flavor.resources).any(|it| it.look.shortfall > 0)
    }
}
