//! One cycle: take the heads, nominate them, serve them in order, put the rest back where it belongs.
//!
//! # Invariants
//!
//! - Nominations are made against what is really used; serving is done on a copy on which victims are gone and
//!   promises are counted. What is admitted must fit both.
//! - Each tree that is looked at again has something new in it: someone was admitted, parked, or has flavors left to
//!   try and is further on than the last time. So cycles come to rest by themselves.
//! - Whoever fits and is passed over is looked at again as soon as that may end: when something in its tree changes, or
//!   somebody is no longer head there who kept it from being served.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::assign::{self, Applicant, Assignment};
use super::board::{Board, Fate, Head};
use super::decision::{
    Admission, BYPASSED, CHECKS_FAILED, Decision, NAMESPACE_MISMATCH, NO_LONGER_FITS, NOT_ALL_READY,
    OVERLAPPING_FITS, Reason, Refusal, Verdict, Victim,
};
use super::line::{Aside, Parked};
use super::nominate::nominate;
use super::order::{self, Contender};
use super::preempt::Target;
use super::spec::{PODS, Strategy};
use super::tree::{NodeId, PairId};
use super::workload::{Amounts, Info, Key, Reservation, Stand};
use super::{Chances, Engine, Memo, Tour};

impl Engine {
    /// Decides what can be decided now.
    pub fn cycle(&mut self, now: Time) -> Vec<Decision> {
        self.refresh();
        self.recall_due(now);
        let mut decisions = Vec::new();
        for _ in 0..self.settings.heads_per_cycle.max(1) {
            if !self.round(now, &mut decisions) {
                break;
            }
        }
        self.tell_bypassed(&mut decisions);
        decisions
    }

    /// Serves one head of every queue in the trees that changed; whether there was any.
    fn round(&mut self, now: Time, decisions: &mut Vec<Decision>) -> bool {
        let keys = self.take_heads();
        let mut heads = Vec::new();
        for (node, key) in keys {
            match self.objection(node, &key) {
                Some((aside, reason, message)) => {
                    let refusal = self.refuse(&key, reason, message, now, Assignment::default());
                    decisions.extend(refusal.map(Decision::Refuse));
                    self.set_aside(node, &key, aside);
                }
                None => heads.extend(self.nominated(node, &key)),
            }
        }
        if heads.is_empty() {
            return self.ledger.trees.iter().any(|tree| tree.dirty);
        }
        self.work.rounds += 1;
        // Trees in which somebody waits for something that comes by itself.
        let mut busy: BTreeSet<NodeId> = BTreeSet::new();
        let mut passed_over = Vec::new();
        for (index, fate) in self.serve(&heads) {
            let head = &heads[index];
            let fate = self.toured(head, fate);
            match fate {
                Fate::Skipped(_) => passed_over.push(index),
                Fate::Preempting | Fate::SharesVictims | Fate::NotAllReady => {
                    busy.insert(self.ledger.tree.nodes[head.node].root);
                }
                Fate::Admitted | Fate::NoRoom => {}
            }
            self.conclude(head, fate, now, decisions);
        }
        for index in passed_over {
            let head = &heads[index];
            let node = &self.ledger.tree.nodes[head.node];
            let (queue, root) = (node.name.clone(), node.root);
            if self.chances(head.node) != head.passed_over.unwrap_or(head.chances) {
                // Whoever was served first, when a flavor that fits was its turn, may be out of its way by now.
                self.look_at(&queue);
            } else if !busy.contains(&root) {
                self.put_by(head, decisions);
            }
        }
        true
    }

    /// What became of a head in the end: one that found no room in its last flavors and fits in another was passed over.
    fn toured(&self, head: &Head, fate: Fate) -> Fate {
        let tried = &head.nomination.assignment.tried;
        let before = self.workloads.get(&head.key).map(|entry| &entry.tour.tried);
        let goes_on = !tried.is_empty() && before.is_some_and(|before| assign::goes_on(before, tried));
        match fate {
            Fate::NoRoom if head.passed_over.is_some() && !goes_on => Fate::Skipped(NO_LONGER_FITS),
            fate => fate,
        }
    }

    /// Parks a head that was passed over though nothing in its tree is on its way, so that those behind it have a chance:
    /// the head of a strict queue may keep what it needs for as long as it waits.
    fn put_by(&mut self, head: &Head, decisions: &mut Vec<Decision>) {
        let Some(entry) = self.workloads.get(&head.key) else { return };
        let best_effort = self.ledger.specs[head.node].strategy == Strategy::BestEffortFifo;
        if best_effort
            && entry.tour.tried.is_empty()
            && let Some(verdict) = entry.verdict.clone()
        {
            let chances = Some(self.chances(head.node));
            self.park(head, chances, verdict, decisions);
        }
    }

    /// Puts the class of a head aside, and tells all of it.
    fn park(
        &mut self,
        head: &Head,
        chances: Option<Chances>,
        verdict: Arc<Verdict>,
        decisions: &mut Vec<Decision>,
    ) {
        let queue = self.ledger.tree.nodes[head.node].name.clone();
        let Some(shape) = self.workloads.get(&head.key).map(|entry| Arc::clone(&entry.shape)) else { return };
        let pairs = self.ledger.pairs_considered(head.node, &shape_resources(&head.nomination.assignment));
        let Some(line) = self.lines.get_mut(&queue) else { return };
        let bypassed = line.park(&shape, &head.key, Parked { pairs, chances, verdict });
        let goes_on = line.head().is_some();
        if head.keeps_room() {
            self.new_head(&queue);
        } else if goes_on {
            self.look_at(&queue);
        }
        for key in &bypassed {
            decisions.extend(self.bypass(key));
        }
    }

    /// The heads of all queues that take something, in trees in which something changed.
    fn take_heads(&mut self) -> Vec<(NodeId, Key)> {
        let mut heads = Vec::new();
        let ledger = &mut self.ledger;
        for root in 0..ledger.trees.len() {
            if !std::mem::take(&mut ledger.trees[root].dirty) || ledger.tree.nodes[root].root != root {
                continue;
            }
            let chances = ledger.trees[root].chances();
            for node in ledger.tree.queues_below(root) {
                let line = self.lines.get_mut(&ledger.tree.nodes[node].name);
                let line = line.filter(|_| ledger.idle[node].is_none()).map(|line| {
                    line.wake_passed_over(chances);
                    &*line
                });
                heads.extend(line.and_then(|line| line.head()).map(|key| (node, key.clone())));
            }
        }
        heads
    }

    /// What keeps a workload from being nominated at all.
    fn objection(&self, node: NodeId, key: &Key) -> Option<(Aside, Reason, String)> {
        let info = &self.workloads.get(key)?.info;
        if info.checks_failed {
            return Some((Aside::Refused, Reason::PendingEvaluation, CHECKS_FAILED.into()));
        }
        let labels = self.namespaces.get(&key.namespace).map_or(&[][..], Vec::as_slice);
        if !self.ledger.specs[node].namespaces.selects_labels(labels) {
            return Some((Aside::NamespaceMismatch, Reason::Misconfigured, NAMESPACE_MISMATCH.into()));
        }
        info.wrong.clone().map(|wrong| (Aside::Refused, Reason::Misconfigured, wrong))
    }

    /// Puts aside who cannot be nominated; in a strict queue all but strangers stay where they are.
    fn set_aside(&mut self, node: NodeId, key: &Key, why: Aside) {
        if self.ledger.specs[node].strategy == Strategy::StrictFifo && why != Aside::NamespaceMismatch {
            return;
        }
        let Some(queue) = self.workloads.get(key).and_then(|entry| entry.line.clone()) else { return };
        self.dequeue(key);
        let Some(entry) = self.workloads.get_mut(key) else { return };
        entry.line = Some(queue.clone());
        let place = entry.place();
        self.lines.entry(queue).or_default().put_aside(place, why);
    }

    /// Nominates a head, unless that was done and nothing changed since.
    fn nominated(&mut self, node: NodeId, key: &Key) -> Option<Head> {
        let generation = self.ledger.trees[self.ledger.tree.nodes[node].root].generation;
        let entry = self.workloads.get_mut(key)?;
        if entry.tour.generation != generation {
            entry.tour = Tour::default();
        }
        let passed_over = entry.tour.passed_over;
        let known =
            self.ledger.memo[node].as_ref().filter(|it| it.generation == generation && it.key == *key);
        let nomination = match known {
            Some(memo) => Arc::clone(&memo.nomination),
            None => {
                self.work.nominations += 1;
                let entry = self.workloads.get(key)?;
                let who = Applicant { node, info: &entry.info, since: entry.since, tried: &entry.tour.tried };
                let mut usage = self.ledger.usage.clone();
                Arc::new(nominate(&self.scene(), &mut usage, &who))
            }
        };
        self.ledger.memo[node] =
            Some(Memo { key: key.clone(), generation, nomination: Arc::clone(&nomination) });
        let chances = self.chances(node);
        Some(Head { key: key.clone(), node, nomination, generation, chances, passed_over })
    }

    /// Serves the heads in order; what becomes of each, in that order.
    fn serve(&self, heads: &[Head]) -> Vec<(usize, Fate)> {
        let scene = self.scene();
        let mut board = Board {
            scene: &scene,
            live: self.ledger.usage.clone(),
            usage: self.ledger.usage.clone(),
            gone: BTreeMap::new(),
            all_ready: !self.settings.block_admission || self.unready.is_empty(),
            block: self.settings.block_admission,
        };
        let mut left: Vec<(Contender, usize)> =
            heads.iter().enumerate().map(|(n, it)| (self.contender(it), n)).collect();
        order::line_up(&scene, &mut left);
        let mut fates = Vec::new();
        while let Some(index) = order::next(&scene, &mut board.usage, &mut left) {
            let head = &heads[index];
            if let Some(entry) = self.workloads.get(&head.key) {
                fates.push((index, board.serve(head, &entry.info, entry.since)));
            }
        }
        fates
    }

    fn contender(&self, head: &Head) -> Contender {
        let entry = self.workloads.get(&head.key);
        Contender {
            node: head.node,
            height: head.nomination.assignment.height,
            priority: entry.map_or(0, |entry| entry.info.priority),
            since: entry.map_or(Time::default(), |entry| entry.since),
            uid: entry.map_or_else(Text::default, |entry| entry.info.uid.clone()),
            uses: head.nomination.assignment.uses(),
        }
    }

    fn conclude(&mut self, head: &Head, fate: Fate, now: Time, decisions: &mut Vec<Decision>) {
        let assignment = &head.nomination.assignment;
        let (reason, message) = match fate {
            Fate::Admitted => {
                decisions.extend(self.admit(head, now).map(Decision::Admit));
                return;
            }
            Fate::NoRoom => {
                (assignment.obstacle().map_or(Reason::WaitingForQuota, Reason::from), assignment.message())
            }
            Fate::Preempting => {
                let count = head.nomination.targets.len();
                let text = format!("{}. Pending the preemption of {count} workload(s)", assignment.message());
                (Reason::WaitingForPreemptedWorkloads, text)
            }
            Fate::SharesVictims => (Reason::WaitingForPreemptedWorkloads, OVERLAPPING_FITS.into()),
            Fate::Skipped(why) => (Reason::WaitingForQuota, why.into()),
            Fate::NotAllReady => {
                self.ready_awaited = true;
                (Reason::WaitingForPodsReady, NOT_ALL_READY.into())
            }
        };
        let refusal = self.refuse(&head.key, reason, message, now, assignment.clone());
        let victims = if matches!(fate, Fate::Preempting) { self.name_victims(head) } else { Vec::new() };
        if victims.is_empty() {
            decisions.extend(refusal.map(Decision::Refuse));
        } else if let Some(refusal) = refusal.or_else(|| self.last_refusal(&head.key)) {
            decisions.push(Decision::Preempt { refusal, victims });
        }
        self.requeue(head, fate, decisions);
    }

    /// Takes the quota and waits for the write.
    fn admit(&mut self, head: &Head, now: Time) -> Option<Admission> {
        self.dequeue(&head.key);
        let queue = self.ledger.tree.nodes[head.node].name.clone();
        let sets = head.nomination.assignment.admitted();
        let entry = self.workloads.get_mut(&head.key)?;
        let since = now.whole_seconds();
        entry.info.stand =
            Stand::Reserved(Reservation { queue: queue.clone(), sets: sets.clone(), since, admitted: false });
        entry.info.pods_ready = false;
        entry.assumed = true;
        entry.told = None;
        entry.tour = Tour::default();
        let queued_since = entry.since;
        self.hold(&head.key);
        Some(Admission {
            key: head.key.clone(),
            message: format!("Quota reserved in ClusterQueue {queue}"),
            queue,
            sets,
            height: head.nomination.assignment.height,
            queued_since,
        })
    }

    /// Puts a head that got nothing where it belongs.
    fn requeue(&mut self, head: &Head, fate: Fate, decisions: &mut Vec<Decision>) {
        let queue = self.ledger.tree.nodes[head.node].name.clone();
        let Some(entry) = self.workloads.get_mut(&head.key) else { return };
        let (place, shape) = (entry.place(), Arc::clone(&entry.shape));
        let (untried, park, stick) = match fate {
            Fate::Admitted => return,
            Fate::NoRoom => (true, true, false),
            Fate::Skipped(_) => (true, false, false),
            Fate::Preempting | Fate::SharesVictims => (false, false, true),
            Fate::NotAllReady => (false, false, false),
        };
        let before = std::mem::take(&mut entry.tour.tried);
        let tried = &head.nomination.assignment.tried;
        if untried && assign::goes_on(&before, tried) {
            entry.tour.tried.clone_from(tried);
        }
        if entry.tour.tried != before {
            self.ledger.memo[head.node] = None;
        }
        if !entry.tour.tried.is_empty() {
            entry.tour.generation = head.generation;
            if matches!(fate, Fate::Skipped(_)) {
                entry.tour.passed_over.get_or_insert(head.chances);
            }
            self.look_at(&queue);
            return;
        }
        entry.tour = Tour::default();
        let verdict = entry.verdict.clone();
        let best_effort = self.ledger.specs[head.node].strategy == Strategy::BestEffortFifo;
        let Some(line) = self.lines.get_mut(&queue) else { return };
        if best_effort && stick {
            line.stick(&place, &shape);
        }
        if best_effort
            && park
            && let Some(verdict) = verdict
        {
            self.park(head, None, verdict, decisions);
        }
    }

    /// Tells those who came later to a parked class.
    fn tell_bypassed(&mut self, decisions: &mut Vec<Decision>) {
        for queue in std::mem::take(&mut self.untold) {
            let keys = self.lines.get_mut(&queue).map(super::line::Line::take_untold).unwrap_or_default();
            for key in &keys {
                decisions.extend(self.bypass(key));
            }
        }
    }

    /// Tells one that it shares the fate of its class.
    fn bypass(&mut self, key: &Key) -> Option<Decision> {
        let entry = self.workloads.get(key)?;
        let verdict = self.lines.get(entry.line.as_ref()?)?.verdict_of(&entry.shape)?.clone();
        let told = (verdict.reason, String::from(BYPASSED));
        self.tell(key, told, verdict).map(Decision::Refuse)
    }

    /// Remembers why a workload waits; what is new in it is to be told.
    fn refuse(
        &mut self,
        key: &Key,
        reason: Reason,
        message: String,
        at: Time,
        assignment: Assignment,
    ) -> Option<Refusal> {
        let verdict = Arc::new(Verdict { at, reason, message: message.clone(), assignment });
        self.tell(key, (reason, message), verdict)
    }

    fn tell(&mut self, key: &Key, told: (Reason, String), verdict: Arc<Verdict>) -> Option<Refusal> {
        let entry = self.workloads.get_mut(key)?;
        entry.verdict = Some(verdict);
        if entry.told.as_ref() == Some(&told) {
            return None;
        }
        entry.told = Some(told);
        self.last_refusal(key)
    }

    /// What a workload was told last, if it may be looked at at all: it is in line, its queue takes something, and neither a
    /// clock nor somebody's word keeps it.
    #[must_use]
    pub fn said(&self, key: &Key) -> Option<Refusal> {
        let entry = self.workloads.get(key).filter(|entry| entry.info.stand == Stand::Waiting)?;
        let queue = entry.line.as_ref()?;
        let node = self.ledger.tree.queue(queue).filter(|_| self.stale.is_none())?;
        let kept = matches!(self.lines.get(queue)?.aside(key), Some(Aside::Until(_) | Aside::OnHold));
        if kept || self.ledger.idle[node].is_some() { None } else { self.last_refusal(key) }
    }

    fn last_refusal(&self, key: &Key) -> Option<Refusal> {
        let entry = self.workloads.get(key)?;
        let (reason, message) = entry.told.clone()?;
        let node = entry.line.as_ref().and_then(|queue| self.ledger.tree.queue(queue));
        let counts_pods = node.is_some_and(|node| self.ledger.specs[node].group_of(PODS).is_some());
        Some(Refusal { key: key.clone(), reason, message, requests: requests(&entry.info, counts_pods) })
    }

    /// Those of the targets that were not named before.
    fn name_victims(&mut self, head: &Head) -> Vec<Victim> {
        let Some(preemptor) = self.workloads.get(&head.key).map(|entry| entry.info.clone()) else {
            return Vec::new();
        };
        let mut victims = Vec::new();
        for target in &head.nomination.targets {
            if !target.holder.evicted && !self.named.contains_key(&target.holder.key) {
                self.named.insert(target.holder.key.clone(), head.key.clone());
                victims.push(self.victim(&preemptor, head.node, target));
            }
        }
        victims
    }

    fn victim(&self, preemptor: &Info, node: NodeId, target: &Target) -> Victim {
        let tree = &self.ledger.tree;
        let or_unknown = |text: &str| if text.is_empty() { "UNKNOWN".to_owned() } else { text.to_owned() };
        let message = format!(
            "Preempted to accommodate a workload (UID: {}, JobUID: {}) due to {}; preemptor path: {}; preemptee path: {}",
            or_unknown(&preemptor.uid),
            or_unknown(preemptor.job_uid.as_deref().unwrap_or_default()),
            target.because.words(),
            tree.path_text(node),
            tree.path_text(target.holder.node),
        );
        let (ours, theirs) = (preemptor.priority, target.holder.priority);
        let event_suffix = format!(
            "; preemptor effective priority: {ours} (base: {ours}, boost: 0); preemptee effective priority: {theirs} \
             (base: {theirs}, boost: 0)"
        );
        let (key, uid) = (target.holder.key.clone(), target.holder.uid.clone());
        Victim { key, uid, because: target.because, message, event_suffix }
    }
}

impl super::Ledger {
    /// Every pair from which these resources could come.
    fn pairs_considered(&self, node: NodeId, resources: &[Text]) -> Vec<PairId> {
        let flavors = self.specs[node].groups.iter().flat_map(|group| &group.flavors);
        let pairs = flavors.flat_map(|(flavor, quotas)| {
            let wanted = resources.iter().filter(|name| quotas.contains_key(*name));
            wanted.filter_map(|resource| self.tree.pair(flavor, resource))
        });
        pairs.collect()
    }
}

/// The resources at which an assignment looked.
fn shape_resources(assignment: &Assignment) -> Vec<Text> {
    let looks = assignment.sets.iter().flat_map(|set| &set.looks);
    let mut names: Vec<Text> = looks.flat_map(|look| &look.resources).map(|it| it.resource.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// What each set asks for.
fn requests(info: &Info, counts_pods: bool) -> Vec<(Text, Amounts)> {
    info.pod_sets.iter().map(|set| (set.name.clone(), set.asks(set.left(), counts_pods))).collect()
}
