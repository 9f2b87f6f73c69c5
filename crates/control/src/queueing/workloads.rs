//! Workloads: decisions carried out, and what their life asks for.

use std::time::Duration;

use muster_api::event::{About, Severity};
use muster_api::meta;
use muster_api::port::{Call, Cascade, Object, Part};
use muster_api::queue::kinds;
use muster_api::queue::words::{WORKLOAD, conditions, managers, reasons};
use muster_api::queue::{
    Admission, AdmissionStatus, Assignment, ClusterQueueFacts, Condition, LocalQueueFacts,
    PriorityClassFacts, WorkloadFacts,
};
use muster_api::time::Time;
use muster_queue::engine::Outcome;
use muster_queue::engine::decision::{Admission as Share, Refusal};
use muster_queue::engine::preempt::Because;
use muster_queue::engine::workload::Key as WorkloadKey;
use muster_queue::jobs::plan::{Seen as SeenWorkload, plan_gone};
use muster_queue::life::admission::{self, Party, Preemption};
use muster_queue::life::blockers::Why;
use muster_queue::life::settings::Wording;
use muster_queue::life::turns::Line;
use muster_queue::life::workload::{Action, Observed, Queue, actions, cluster_queue_of, plan, wake_at};
use muster_queue::life::{At, Known, Note, Written, cohorts, priority, steps};
use muster_tree::Text;

use super::{Decided, Queueing, call_key, calls, feed, jobs, queues};
use crate::cache::Caches;
use crate::plan::{Key, Plan, Step};

/// Of a group of pods so many are told why it waits: the others are no different.
pub(super) const OWNERS_TOLD_MAX: usize = 10;
/// For how long a Workload is new, as far as whole seconds tell.
const NEW: Duration = Duration::from_secs(2);
/// When to look again at one that the engine is about to look at.
const SOON: Duration = Duration::from_millis(100);
/// What is told when the job of a deactivated Workload goes.
const RETIRED: &str = "Deleted the job of a deactivated workload due to elapsed retention";

impl Queueing {
    /// What a Workload needs next: first what was decided about it, then what its life asks for.
    pub(super) fn plan_workload(&mut self, object: &Object, caches: &Caches, now: Time) -> Plan {
        let facts = WorkloadFacts::of(&object.tree);
        let status = AdmissionStatus::of(&object.tree);
        let known = Known { workload: &facts, status: &status };
        let key = feed::key_of(&facts.namespace, &facts.name);
        if let Some(plan) = self.orphan(object, &facts, caches, now) {
            return plan;
        }
        if facts.has_quota() || facts.is_finished() {
            self.turns.forget(&key);
        }
        if let Some(decided) = self.next_decided(&key, &facts) {
            let written = match &decided {
                Decided::Admit(share) => self.reserve(known, share, caches, now),
                // Not kept until then: the engine may have other reasons when its turn comes, or none.
                Decided::Refuse(refusal) => Some(match self.waits_its_turn(known, &key, refusal, now) {
                    true => Written::default(),
                    false => self.refuse(known, refusal, now),
                }),
                Decided::Evict { victim, by, because } => {
                    let by = caches.get(&kinds::WORKLOADS, &by.namespace, &by.name);
                    let by = by.filter(|_| *victim == facts.uid);
                    let plan = self.evict(object, known, by, *because, caches, now);
                    if !plan.steps.is_empty() {
                        self.decided.insert(key, decided);
                        return plan;
                    }
                    Some(Written::default())
                }
            };
            match written {
                Some(written) if !written.is_empty() => {
                    // It is taken down again until the write is seen: pods and jobs write to a Workload, too, and the
                    // engine does not say twice what it decided.
                    if matches!(decided, Decided::Admit(_)) || written.status.is_some() {
                        self.decided.insert(key, decided);
                    }
                    return self.carried_out(object, known, actions(written), caches, now);
                }
                Some(_) => {}
                None => self.take_back(&key, &facts, caches),
            }
        }
        let mut steps = self.live(known, caches, now);
        self.reclassed.sent(&Key::new(&kinds::WORKLOADS, &facts.namespace, &facts.name), &steps);
        let words = words(known.status, &steps);
        let why = match words.is_some() || wake_only(&steps) {
            true => self.why_it_waits(known, &key, words.as_ref(), now),
            false => Telling::AsPlanned,
        };
        if !matches!(why, Telling::AsPlanned) {
            steps.retain(|it| matches!(it, Action::LookAgain(_)));
        }
        let mut in_line = false;
        match why {
            Telling::AsPlanned => {}
            Telling::Now(actions) => steps.extend(actions),
            Telling::InLine => in_line = true,
        }
        let mut plan = self.carried_out(object, known, steps, caches, now);
        if in_line {
            plan.wake.push(call_key());
        }
        if plan.steps.is_empty() { self.retire(object, &facts, plan, caches, now) } else { plan }
    }

    /// Actions as steps; whoever made the Workload is told when it waits for another reason than before.
    fn carried_out(
        &mut self,
        object: &Object,
        known: Known<'_>,
        actions: Vec<Action>,
        caches: &Caches,
        now: Time,
    ) -> Plan {
        let news = news(known.status, &actions);
        let mut plan = self.steps(object, actions);
        if let Some(why) = news {
            plan.steps.extend(self.tell_owners(known.workload, &why, caches, now));
        }
        plan
    }

    /// Tells those whose Workload waits why: people look at their Job or Pod. The same words are one event a minute. Its
    /// place in the queue is not told, since it costs a look at everyone who waits.
    fn tell_owners(
        &mut self,
        facts: &WorkloadFacts,
        why: &Condition,
        caches: &Caches,
        now: Time,
    ) -> Vec<Step> {
        let owners = facts.owners.iter().filter_map(|it| Some((it, caches.by_uid(&it.uid)?)));
        let news = owners
            .take(OWNERS_TOLD_MAX)
            .filter(|(owner, _)| self.told.is_news(&owner.uid, &why.reason, &why.message, now));
        let told = news.map(|(owner, (key, it))| {
            let about = About::of(&key.kind, &owner.kind, &it.tree);
            Step::Note(calls::told_of(about, Severity::Normal, &why.reason, why.message.to_string()))
        });
        told.collect()
    }

    /// The job of a Workload that was deactivated here is deleted when its time is over; pods see to themselves.
    fn retire(&self, object: &Object, facts: &WorkloadFacts, plan: Plan, caches: &Caches, now: Time) -> Plan {
        let Some(at) = steps::deactivated_until(facts, &self.settings.life) else { return plan };
        if at > now {
            return plan.again(at);
        }
        let owner = facts.controller().and_then(|it| caches.by_uid(&it.uid));
        let Some((key, job)) = owner.filter(|(key, _)| jobs::are_jobs(&key.kind)) else {
            return plan;
        };
        if meta::deleting(&job.tree).is_some() {
            return plan;
        }
        let call = Call::delete(
            managers::KUEUE.clone(),
            key.target(Part::Main),
            meta::uid(&job.tree),
            Cascade::Background,
        );
        let note = calls::note_workload(object, Note::normal(reasons::DELETED, RETIRED));
        Plan { steps: vec![Step::One(call), note], ..plan }
    }

    /// What was decided and is to be carried out now. Whoever had to leave before its share was even written leaves once
    /// that is seen.
    fn next_decided(&mut self, key: &WorkloadKey, facts: &WorkloadFacts) -> Option<Decided> {
        match self.decided.remove(key) {
            Some(Decided::Admit(_)) if facts.has_quota() => self.leaving.remove(key),
            decided => decided,
        }
    }

    /// A share that was decided is not given after all: whoever counted it counts anew.
    pub(super) fn take_back(&mut self, key: &WorkloadKey, workload: &WorkloadFacts, caches: &Caches) {
        self.leaving.remove(key);
        self.engine.settle(key, Outcome::Failed);
        self.miscounted.extend(queues::concerned(workload, self.is_fair(), caches));
    }

    /// How it is told why it waits, for which its life has these words. The engine knows better, if it has looked at it: what it
    /// said last is told where something else stands, since its words were lost, or overwritten by what stood in the way
    /// meanwhile, or waited for their turn.
    fn why_it_waits(
        &mut self,
        known: Known<'_>,
        key: &WorkloadKey,
        words: Option<&Condition>,
        now: Time,
    ) -> Telling {
        let said = self.engine.said(key).filter(|_| !known.workload.has_quota());
        if let Some(said) = said.filter(|it| self.is_news(known, it)) {
            return match self.waits_its_turn(known, key, &said, now) {
                true => Telling::InLine,
                false => Telling::Now(actions(self.refuse(known, &said, now))),
            };
        }
        let soon = Telling::Now(vec![Action::LookAgain(now + SOON)]);
        let Some(words) = words else {
            // What it stands in line for may be said again when the engine has looked at what changed.
            if self.turns.stands(key) && self.engine.is_restless() {
                return soon;
            }
            self.turns.forget(key);
            return Telling::AsPlanned;
        };
        let unseen = words.reason == *Why::PendingEvaluation.reason(self.settings.life.wording);
        let is_new = known.workload.created.is_some_and(|at| now.since(at) < NEW);
        if unseen && is_new && self.engine.is_restless() {
            return soon;
        }
        if self.turns.may_tell(key, line(known), now) { Telling::AsPlanned } else { Telling::InLine }
    }

    /// Whether a refusal is to be told, and it is the turn of others.
    fn waits_its_turn(&mut self, known: Known<'_>, key: &WorkloadKey, refusal: &Refusal, now: Time) -> bool {
        self.is_news(known, refusal) && !self.turns.may_tell(key, line(known), now)
    }

    /// Whether a refusal says something else than what stands.
    fn is_news(&self, known: Known<'_>, refusal: &Refusal) -> bool {
        let reason = why(refusal).reason(self.settings.life.wording);
        let stands = known.workload.condition(conditions::QUOTA_RESERVED);
        stands.is_none_or(|it| !it.holds && (it.reason != *reason || it.message != *refusal.message))
    }

    /// A Workload whose job is gone ends, and then nothing keeps it.
    fn orphan(&self, object: &Object, facts: &WorkloadFacts, caches: &Caches, now: Time) -> Option<Plan> {
        let owner = facts.controller()?;
        if !jobs::is_job(owner) || caches.by_uid(&owner.uid).is_some() {
            return None;
        }
        let seen = [SeenWorkload::of(&object.tree)];
        let mut plan = Plan::nothing();
        for action in plan_gone(&seen, now) {
            plan.steps.extend(jobs::workload_steps(object, action, self.at(now)));
        }
        Some(plan)
    }

    fn reserve(&self, known: Known<'_>, share: &Share, caches: &Caches, now: Time) -> Option<Written> {
        if known.workload.has_quota() {
            return Some(Written::default());
        }
        let queue = caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &share.queue)?;
        if !steps::is_queueable(known.workload) {
            return None;
        }
        let facts = ClusterQueueFacts::of(&queue.tree);
        let assignments = share.sets.iter().map(|it| Assignment {
            name: it.name.clone(),
            flavors: it.flavors.clone(),
            usage: it.usage.clone(),
            count: u32::try_from(it.count).ok(),
            ..Assignment::default()
        });
        let given = Admission { cluster_queue: share.queue.clone(), assignments: assignments.collect() };
        let share = admission::Share { admission: given, queue: &facts, considered: String::new() };
        Some(admission::reserve(known, &share, self.at(now)))
    }

    fn refuse(&mut self, known: Known<'_>, refusal: &Refusal, now: Time) -> Written {
        let requests = refusal.requests.clone();
        let refusal = admission::Refusal { why: why(refusal), message: refusal.message.clone(), requests };
        let at = self.at(now);
        admission::refuse(known, &refusal, &mut self.told, at)
    }

    fn evict(
        &mut self,
        object: &Object,
        known: Known<'_>,
        by: Option<&Object>,
        because: Because,
        caches: &Caches,
        now: Time,
    ) -> Plan {
        let Some(by) = by else { return Plan::nothing() };
        let preemptor = WorkloadFacts::of(&by.tree);
        // It has what it wanted, or wants nothing any more: nobody has to leave for it.
        if preemptor.has_quota() || preemptor.is_finished() {
            self.engine.settle(&feed::key_of(&preemptor.namespace, &preemptor.name), Outcome::Failed);
            return Plan::nothing();
        }
        let queue_of = |it: &WorkloadFacts| {
            let local = caches.get(&kinds::LOCAL_QUEUES, &it.namespace, &it.queue);
            cluster_queue_of(it, local.map(|it| LocalQueueFacts::of(&it.tree)).as_ref()).unwrap_or_default()
        };
        let path_of = |queue: &Text| {
            let found = caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), queue);
            let cohort = found.map(|it| ClusterQueueFacts::of(&it.tree).cohort).unwrap_or_default();
            cohorts::path_text(&self.parents, &cohort, queue)
        };
        let (own, other) = (queue_of(known.workload), queue_of(&preemptor));
        let (own_path, other_path) = (path_of(&own), path_of(&other));
        let victim = Party { workload: known.workload, path: &own_path, cluster_queue: &own, boost: 0 };
        let preemptor = Party { workload: &preemptor, path: &other_path, cluster_queue: &other, boost: 0 };
        let why = match because {
            Because::InClusterQueue => Preemption::InClusterQueue,
            Because::InCohortReclamation => Preemption::Reclamation,
            Because::InCohortFairSharing => Preemption::FairSharing,
            Because::InCohortReclaimWhileBorrowing => Preemption::ReclaimWhileBorrowing,
        };
        let Some(done) = admission::preempt(known, victim, preemptor, why, self.at(now)) else {
            return Plan::nothing();
        };
        let mut plan = self.steps(object, actions(done.victim));
        plan.steps.push(calls::note_workload(by, done.preemptor));
        plan
    }

    fn live(&self, known: Known<'_>, caches: &Caches, now: Time) -> Vec<Action> {
        let it = known.workload;
        let local = caches.get(&kinds::LOCAL_QUEUES, &it.namespace, &it.queue);
        let local = local.map(|it| LocalQueueFacts::of(&it.tree));
        let queue = cluster_queue_of(it, local.as_ref());
        let queue = queue.and_then(|name| caches.get(&kinds::CLUSTER_QUEUES, &Text::new(), &name));
        let queue = queue.map(|it| ClusterQueueFacts::of(&it.tree));
        let active = queue.as_ref().is_some_and(|it| self.readiness(it, caches).holds);
        let workload = Key::new(&kinds::WORKLOADS, &it.namespace, &it.name);
        let class = it.priority_class.as_ref();
        let class = class.filter(|class| class.is_workload() && self.reclassed.is_due(&workload));
        let class = class.and_then(|class| caches.get(&kinds::PRIORITY_CLASSES, &Text::new(), &class.name));
        let class = class.map(|it| PriorityClassFacts::of(&it.tree));
        plan(&Observed {
            workload: it,
            status: known.status,
            local_queue: local.as_ref(),
            cluster_queue: queue.as_ref().map(|facts| Queue { facts, active }),
            priority_class: class.as_ref(),
            settings: &self.settings.life,
            now,
        })
    }

    pub(super) fn at(&self, now: Time) -> At {
        At { now, wording: self.settings.life.wording }
    }

    /// Actions of a Workload's life as steps.
    pub(super) fn steps(&mut self, object: &Object, actions: Vec<Action>) -> Plan {
        let mut plan = Plan { again_at: wake_at(&actions), ..Plan::nothing() };
        let mut counted = Vec::new();
        for action in actions {
            match action {
                Action::Write(status) => plan.steps.push(calls::apply(object, &status)),
                Action::Deactivate => plan.steps.push(calls::deactivate(object)),
                Action::SetPriority(priority) => plan.steps.push(calls::set_priority(object, priority)),
                Action::DropFinalizer => plan.steps.extend(calls::drop_finalizer(&kinds::WORKLOADS, object)),
                Action::Delete => plan.steps.push(calls::delete(object, Cascade::Background)),
                Action::Note(note) => {
                    let by = &managers::WORKLOAD_EVENTS;
                    plan.steps.push(calls::note(&kinds::WORKLOADS, WORKLOAD, &object.tree, by, note));
                }
                Action::Count(happened) => counted.push(happened),
                Action::LookAgain(_) => {}
            }
        }
        if !counted.is_empty() {
            let key = feed::key_of(&meta::namespace(&object.tree), &meta::name(&object.tree));
            self.counting.once_seen(key, counted);
        }
        plan
    }
}

/// How a Workload is told why it waits.
enum Telling {
    /// As its life has it, if at all.
    AsPlanned,
    /// By this.
    Now(Vec<Action>),
    /// When it is called.
    InLine,
}

fn line(known: Known<'_>) -> Line {
    let told = known.workload.condition(conditions::QUOTA_RESERVED).is_some();
    if told { Line::Again } else { Line::First }
}

fn why(refusal: &Refusal) -> Why {
    Why::of(refusal.reason.word()).unwrap_or(Why::PendingEvaluation)
}

/// Why a Workload waits from now on, if that is another reason than before and not only that nobody looked yet.
fn news(known: &AdmissionStatus, actions: &[Action]) -> Option<Condition> {
    let waits = |status: &AdmissionStatus| {
        let found = status.conditions.iter().find(|it| it.kind == conditions::QUOTA_RESERVED && !it.holds);
        found.filter(|it| it.reason != Why::PendingEvaluation.reason(Wording::Telling)).cloned()
    };
    let new = actions.iter().find_map(|it| match it {
        Action::Write(status) => waits(status),
        _ => None,
    })?;
    let same = |old: &Condition| old.reason == new.reason && old.message == new.message;
    if waits(known).is_some_and(|old| same(&old)) { None } else { Some(new) }
}

/// Why a Workload waits, if all that is to be done is to tell that.
fn words(known: &AdmissionStatus, actions: &[Action]) -> Option<Condition> {
    let mut writes = actions.iter().filter(|it| !matches!(it, Action::LookAgain(_)));
    let (Some(Action::Write(status)), None) = (writes.next(), writes.next()) else { return None };
    let silent = |status: &AdmissionStatus| {
        let mut status = status.clone();
        status.conditions.retain(|it| it.kind != conditions::QUOTA_RESERVED || it.holds);
        status
    };
    let told = status.conditions.iter().find(|it| it.kind == conditions::QUOTA_RESERVED && !it.holds)?;
    (silent(known) == silent(status)).then(|| told.clone())
}

/// Whether nothing is to be done but to look again.
fn wake_only(steps: &[Action]) -> bool {
    steps.iter().all(|it| matches!(it, Action::LookAgain(_)))
}

/// The Workloads that refer to a class of priority.
pub(super) fn of_class(class: &str, caches: &Caches) -> Vec<Key> {
    let all = caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
    let those = all.filter(|it| priority::refers_to(it, class));
    those.map(|it| Key::new(&kinds::WORKLOADS, &it.namespace, &it.name)).collect()
}
