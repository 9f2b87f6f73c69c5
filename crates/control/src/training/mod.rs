//! Keeps TrainJobs on their way: which changes concern them, and their plans as calls.
//!
//! # Invariants
//!
//! - What is kept here can be lost: it only keeps what was done or told from being done or told again. Every time at which
//!   something is due stands in the objects.
//! - What is kept of a TrainJob goes with it.
//! - At most [`Settings::deletions_max`] deletions of TrainJobs are without a reply; what waits for its turn is not polled.
//! - A deletion is sent after whatever else is ready at that instant was planned: a crowd of TrainJobs whose time to live is
//!   over keeps no deadline from being written.
//!
//! # Deliberately absent
//!
//! LimitRanges and RuntimeClasses: nothing that is built here depends on them.

mod calls;
mod deletions;
mod kept;
mod sight;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::event::{Event, Severity};
use muster_api::gang::{COSCHEDULING_GROUPS, VOLCANO_GROUPS};
use muster_api::gang_make::{self, Gangs};
use muster_api::meta;
use muster_api::port::{Act, Call, Cascade, Kind, Object, Refusal, Uid};
use muster_api::ports::Entropy;
use muster_api::time::Time;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES};
use muster_api::train::words::{GROUP, TRAIN_JOB, messages, reasons};
use muster_api::train::{RuntimeKind, TrainJobFacts};
use muster_api::words::NAMESPACE_TERMINATING;
use muster_api::{kinds, train};
use muster_trainer::build;
pub use muster_trainer::life::DeadlineClock;
use muster_trainer::life::numbers::Numbers;
use muster_trainer::life::retries::Retries;
use muster_trainer::life::{self, Note, Picture, wants_objects};
use muster_tree::{Text, Tree};

use self::deletions::Deletions;
use self::kept::{Kept, Memories, What};
use self::sight::Sight;
use crate::cache::{Caches, Seen};
use crate::counters::Counters;
use crate::plan::{Controller, GaveUp, Key, Plan, Step, Wake, Want};

/// Deletions in flight where nothing is said.
pub const DELETIONS_MAX: usize = 5;

/// How TrainJobs are run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// From when on deadlines count.
    pub clock: DeadlineClock,
    /// How gangs are written where they are served.
    pub gangs: Option<Gangs>,
    /// Where training tells of itself; none where it does not.
    pub reporting: Option<Reporting>,
    /// Deletions of TrainJobs without a reply, at most.
    pub deletions_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            clock: DeadlineClock::default(),
            gangs: None,
            reporting: None,
            deletions_max: DELETIONS_MAX,
        }
    }
}

/// Where training tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporting {
    /// Scheme, host and port.
    pub server: Text,
    /// The authority of that server, in PEM.
    pub ca: Text,
}

impl Reporting {
    fn borrowed(&self) -> build::Reporting<'_> {
        build::Reporting { server: &self.server, ca: &self.ca }
    }
}

/// The TrainJob controller.
pub struct Training {
    settings: Settings,
    entropy: Arc<dyn Entropy>,
    /// What is remembered of TrainJobs, where there is anything.
    kept: BTreeMap<Key, Kept>,
    retries: Retries,
    deletions: Deletions,
    numbers: Numbers,
    /// TrainJobs as they were and as they are, not counted yet: only who plans knows what time it is.
    news: Vec<(Option<Tree>, Option<Tree>)>,
}

impl Training {
    /// With these settings, and chance for keys.
    #[must_use]
    pub fn new(settings: Settings, entropy: Arc<dyn Entropy>) -> Training {
        Training {
            deletions: Deletions::new(settings.deletions_max),
            settings,
            entropy,
            kept: BTreeMap::new(),
            retries: Retries::default(),
            numbers: Numbers::default(),
            news: Vec::new(),
        }
    }

    fn plan_job(&mut self, key: &Key, job: &Object, caches: &Caches, now: Time) -> Plan {
        let facts = TrainJobFacts::of(&job.tree);
        self.kept.retain_of(key, &facts.uid);
        let sight = Sight {
            job: &job.tree,
            facts: &facts,
            caches,
            settings: &self.settings,
            entropy: &*self.entropy,
            kept: self.kept.get(key),
        };
        let made = wants_objects(&facts).then(|| sight.made());
        let jobset = sight.jobset();
        let steps = life::plan(
            &Picture {
                job: &job.tree,
                jobset: jobset.as_ref(),
                made: made.as_ref(),
                around: &sight,
                clock: self.settings.clock,
            },
            now,
        );
        Pass { training: self, key, job, facts: &facts, caches, now }.run(steps)
    }

    /// Takes off what earlier releases held runtimes with.
    fn plan_runtime(key: &Key, runtime: &Object) -> Plan {
        let patch = life::runtimes::release(&runtime.tree);
        Plan::of(patch.map(|patch| Step::One(calls::merge(key, runtime, patch))).into_iter().collect())
    }

    /// Counts what was seen since the last look.
    fn count(&mut self, now: Time) {
        for (before, after) in std::mem::take(&mut self.news) {
            self.numbers.saw(before.as_ref(), after.as_ref(), self.settings.clock, now);
        }
    }

    fn forget(&mut self, key: &Key, job: &Tree) {
        self.retries.forget(&meta::uid(job));
        self.kept.remove(key);
    }

    /// TrainJobs that wait for a runtime of this name.
    fn waiting_for(&self, runtime: &Key) -> Vec<Wake> {
        let waits = self.kept.iter().filter(|(_, kept)| kept.lacks.as_ref() == Some(runtime));
        waits.map(|(key, _)| key.clone().into()).collect()
    }

    /// What a refusal that ended a plan leads to.
    fn follows(&mut self, key: &Key, job: &Tree, what: What, why: &Refusal, now: Time) -> GaveUp {
        let uid = meta::uid(job);
        let kept = self.kept.of(key, &uid);
        if what == What::Deletion {
            if matches!(why, Refusal::Busy { .. } | Refusal::Unknown(_)) {
                self.deletions.slow_down();
            }
            let again = self.retries.deletion_refused(&uid, why, now);
            kept.hold_until = again.as_ref().map(|it| it.at);
            let note = again.and_then(|it| it.note);
            if note.is_some() {
                tracing::warn!(namespace = %key.namespace, name = %key.name, %why, "TrainJob not deleted after its time to live");
            }
            let notes = note.map(|note| calls::event(job, note));
            return GaveUp { by: kept.hold_until, notes: notes.into_iter().collect(), ..GaveUp::default() };
        }
        // Nobody knows what of it happened.
        kept.applied.clear();
        kept.is_doubtful = is_race(why);
        if kept.is_doubtful {
            return GaveUp::default();
        }
        let note = complaint(kept, &why.words());
        let notes = note.map(|note| calls::event(job, note)).into_iter().collect();
        GaveUp { by: Some(self.retries.refused(&uid, now)), notes, ..GaveUp::default() }
    }
}

impl Controller for Training {
    fn name(&self) -> &'static str {
        "trainer"
    }

    fn counted_as(&self) -> &'static str {
        "trainjob_controller"
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut all = vec![TRAIN_JOBS.clone(), TRAINING_RUNTIMES.clone(), CLUSTER_TRAINING_RUNTIMES.clone()];
        // JobSets may be defined later than this starts, by the installation of another controller. A kind that is not
        // served has no objects until then, and keeps nothing that has ended from going.
        all.extend([kinds::JOBSETS.clone(), kinds::CONFIG_MAPS.clone(), kinds::SECRETS.clone()]);
        all.extend(self.settings.gangs.into_iter().flat_map(gang_make::kinds).cloned());
        all
    }

    fn kinds_if_served(&self) -> Vec<Kind> {
        vec![COSCHEDULING_GROUPS.clone(), VOLCANO_GROUPS.clone()]
    }

    fn concerns(&self, kind: &Kind, object: &Tree) -> bool {
        (*kind != kinds::CONFIG_MAPS && *kind != kinds::SECRETS) || may_be_made(object)
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        let kind = &seen.key.kind;
        if *kind == TRAIN_JOBS {
            let [before, after] = [seen.before, seen.after].map(|it| it.map(|it| it.tree.clone()));
            let is_same = |before: &Tree| after.as_ref().is_some_and(|it| meta::uid(it) == meta::uid(before));
            if let Some(before) = before.as_ref().filter(|it| !is_same(it)) {
                self.forget(seen.key, before);
            }
            self.news.push((before, after));
            return vec![seen.key.clone().into()];
        }
        if is_runtime(kind) {
            let released = seen.after.is_some().then(|| Wake::from(seen.key.clone()));
            return released.into_iter().chain(self.waiting_for(seen.key)).collect();
        }
        let made = [&kinds::JOBSETS, &kinds::CONFIG_MAPS, &kinds::SECRETS].contains(&kind);
        let is_group = || {
            let gangs = self.settings.gangs.into_iter().flat_map(gang_make::kinds);
            gangs.chain([&COSCHEDULING_GROUPS, &VOLCANO_GROUPS]).any(|it| it == kind)
        };
        if made || (is_group() && !only_fares(seen)) { jobs_of(seen) } else { Vec::new() }
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        self.count(now);
        // A key that is planned has no call in flight: if there was one, it was taken.
        self.deletions.taken(key);
        let mut plan = match caches.find(key) {
            Some(job) if key.kind == TRAIN_JOBS => self.plan_job(key, job, caches, now),
            Some(runtime) if is_runtime(&key.kind) => Training::plan_runtime(key, runtime),
            _ => Plan::nothing(),
        };
        plan.wake.extend(self.deletions.next_after(key));
        plan
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn tell(&self, counters: &mut Counters) {
        counters.training = self.numbers.clone();
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        let uid = meta::uid(&caches.find(key)?.tree);
        let is_deletion = call.on.kind == TRAIN_JOBS && matches!(call.act, Act::Delete { .. });
        if !matches!(why, Refusal::Unknown(_)) {
            self.numbers.refused(&uid);
        }
        let what = if is_deletion { What::Deletion } else { What::Other };
        if key.kind == TRAIN_JOBS {
            self.kept.of(key, &uid).refused = Some((what, why.clone()));
        }
        None
    }

    fn gave_up(&mut self, key: &Key, caches: &Caches, now: Time) -> GaveUp {
        self.deletions.refused(key);
        let job = caches.find(key).filter(|_| key.kind == TRAIN_JOBS);
        let refused = self.kept.get_mut(key).and_then(|kept| kept.refused.take());
        let mut after = match (job, refused) {
            (Some(job), Some((what, why))) => self.follows(key, &job.tree, what, &why, now),
            _ => {
                // A look met something else, and the rest was never sent: were it taken for applied, what a manager took
                // back would stay in the JobSet, which has all that is still wanted.
                self.kept.entry(key.clone()).and_modify(|kept| kept.applied.clear());
                GaveUp::default()
            }
        };
        let timer = job.and_then(|job| next_due(&TrainJobFacts::of(&job.tree), self.settings.clock, now));
        after.by = [after.by, timer].into_iter().flatten().min();
        after.wake.extend(self.deletions.next_after(key));
        after
    }
}

/// The steps of one plan as calls.
struct Pass<'a> {
    training: &'a mut Training,
    key: &'a Key,
    job: &'a Object,
    facts: &'a TrainJobFacts,
    caches: &'a Caches,
    now: Time,
}

impl Pass<'_> {
    fn run(mut self, steps: Vec<life::Step>) -> Plan {
        let mut plan = Plan::nothing();
        let mut expiry = None;
        self.settle(&steps);
        for step in steps {
            match step {
                life::Step::Note(note) if note.reason == reasons::TTL_EXPIRED => expiry = Some(note),
                life::Step::Note(note) => plan.steps.extend(self.note(note)),
                life::Step::Write(patch) => {
                    plan.steps.push(Step::One(calls::write_status(self.key, self.job, patch)));
                }
                life::Step::DeleteJobSet(uid) => {
                    plan.steps.push(Step::One(calls::delete_jobset(self.key, uid)));
                }
                life::Step::DeleteJob { due, cascade } => {
                    self.delete(due, cascade, expiry.take(), &mut plan);
                }
                life::Step::Apply(object) => {
                    let (steps, is_last) = self.apply(object);
                    plan.steps.extend(steps);
                    if is_last {
                        break;
                    }
                }
                life::Step::LookAgain(at) => plan = plan.again(at),
                life::Step::Retry => {
                    let at = self.training.retries.refused(&self.facts.uid, self.now);
                    plan = plan.again(at);
                }
            }
        }
        plan
    }

    /// Where nothing is left to do, what was wrong is not wrong any more.
    fn settle(&mut self, steps: &[life::Step]) {
        let rests = |it: &life::Step| matches!(it, life::Step::Note(_) | life::Step::LookAgain(_));
        let lacks = steps.contains(&life::Step::Retry).then(|| self.runtime()).flatten();
        let training = &mut *self.training;
        if steps.iter().all(rests) {
            training.retries.forget(&self.facts.uid);
            training.kept.settle(self.key, wants_objects(self.facts));
        } else if let Some(kept) = training.kept.get_mut(self.key) {
            kept.lacks = lacks;
        } else if lacks.is_some() {
            training.kept.of(self.key, &self.facts.uid).lacks = lacks;
        }
    }

    /// The runtime that it names.
    fn runtime(&self) -> Option<Key> {
        let kind = self.facts.runtime.known()?;
        Some(runtime_key(kind, &self.facts.namespace, &self.facts.runtime.name))
    }

    /// A note; a complaint is told when it is another one than the last.
    fn note(&mut self, note: Note) -> Option<Step> {
        if note.reason == reasons::CREATION_FAILED {
            let kept = self.training.kept.of(self.key, &self.facts.uid);
            if kept.complaint.replace(note.message.clone()).as_ref() == Some(&note.message) {
                return None;
            }
        }
        Some(Step::Note(calls::event(&self.job.tree, note)))
    }

    /// Deletes the TrainJob, unless that was refused a moment ago or too many others are being deleted.
    fn delete(&mut self, due: Time, cascade: Cascade, note: Option<Note>, plan: &mut Plan) {
        let (uid, training) = (&self.facts.uid, &mut *self.training);
        let hold = training.kept.get(self.key).and_then(|kept| kept.hold_until);
        if let Some(until) = hold.filter(|until| *until > self.now) {
            plan.again_at = Some(plan.again_at.map_or(until, |at| at.min(until)));
            return;
        }
        if !training.deletions.enter(self.key) {
            return;
        }
        let told = std::mem::replace(&mut training.kept.of(self.key, uid).is_expiry_told, true);
        let note = note.filter(|_| !told).map(|note| Step::Note(calls::event(&self.job.tree, note)));
        plan.steps.extend(note);
        plan.steps.push(Step::One(calls::delete_job(self.key, uid.clone(), cascade)));
        training.numbers.sent(uid, due);
    }

    /// Applies an object; whether the rest has to wait for it: a group names its Workload by its UID. Where the TrainJob may
    /// have ended unseen it is looked at first: nothing is made for who has ended.
    fn apply(&mut self, object: Tree) -> (Vec<Step>, bool) {
        let gangs = self.training.settings.gangs;
        let kind = sight::kind_of(gangs, &object);
        let there = kind.and_then(|kind| self.caches.find(&Key::of(kind, &object)));
        let is_workload = gangs.is_some_and(|gangs| kind == Some(gangs.form.workloads()));
        let is_last = is_workload && there.is_none();
        let call = calls::apply(kind, there, &object);
        let kept = self.training.kept.of(self.key, &self.facts.uid);
        kept.remember(object);
        let look =
            kept.is_doubtful.then(|| Step::Look(calls::look(self.key), Want::Unchanged(self.job.revision)));
        (look.into_iter().chain([Step::One(call)]).collect(), is_last)
    }
}

/// When a TrainJob needs something next by itself, if that is to come.
fn next_due(job: &TrainJobFacts, clock: DeadlineClock, now: Time) -> Option<Time> {
    let all = [life::due(job, &job.status, clock), life::expires(job, &job.status)];
    all.into_iter().flatten().filter(|at| *at > now).min()
}

/// A complaint, if it is another one than the last. A namespace that goes takes the TrainJob along soon: not worth a note.
fn complaint(kept: &mut Kept, words: &str) -> Option<Note> {
    let message = Text::from(messages::creation_failed(words));
    let is_old = kept.complaint.replace(message.clone()).as_ref() == Some(&message);
    let told = !is_old && !words.contains(NAMESPACE_TERMINATING);
    told.then(|| Note { severity: Severity::Warning, reason: reasons::CREATION_FAILED.into(), message })
}

/// Whether the next look is likely to mend it, or nobody could hear of it.
fn is_race(why: &Refusal) -> bool {
    matches!(
        why,
        Refusal::Conflict(_) | Refusal::AlreadyExists(_) | Refusal::Unknown(_) | Refusal::Busy { .. }
    )
}

fn is_runtime(kind: &Kind) -> bool {
    *kind == TRAINING_RUNTIMES || *kind == CLUSTER_TRAINING_RUNTIMES
}

fn runtime_key(kind: RuntimeKind, namespace: &Text, name: &Text) -> Key {
    let namespace = match kind {
        RuntimeKind::Namespaced => namespace.clone(),
        RuntimeKind::Cluster => Text::new(),
    };
    Key::new(kind.kind(), &namespace, name)
}

/// Whether a ConfigMap or Secret may have to do with a TrainJob: it is one's, or, being another's with a name of ours, in the
/// way, which is told.
#[must_use]
pub fn may_be_made(object: &Tree) -> bool {
    owner(object).is_some() || train::is_made_name(&meta::name(object))
}

/// The TrainJob that controls an object.
fn owner(object: &Tree) -> Option<(Text, Uid)> {
    let owner = meta::controller(object).filter(|it| it.kind == TRAIN_JOB && it.group() == GROUP)?;
    Some((owner.name, owner.uid))
}

/// The TrainJobs that an object concerns: as it is, and as it was.
fn jobs_of(seen: &Seen<'_>) -> Vec<Wake> {
    let both = [seen.before, seen.after].into_iter().flatten();
    let mut names: Vec<Text> = both.filter_map(|it| Some(owner(&it.tree)?.0)).collect();
    names.dedup();
    names.iter().map(|name| Key::new(&TRAIN_JOBS, &seen.key.namespace, name).into()).collect()
}

/// Whether a group merely fares otherwise: how its pods are placed concerns nobody here.
fn only_fares(seen: &Seen<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.before, seen.after) else { return false };
    let [before, after] = [before, after].map(|it| it.tree.without(&["status"]));
    before == after
}
