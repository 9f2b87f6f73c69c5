//! The TrainJob controller: maps watch events to TrainJobs and sends the steps of [`muster_trainer::controller`].
//!
//! # Guarantees
//!
//! - The state in memory can be lost: it only avoids repeated writes and events. All deadlines follow from the objects.
//! - The state of a TrainJob is dropped with it.
//! - At most [`TrainJobControllerConfig::deletions_max`] deletions of TrainJobs are in flight; waiting ones are not polled.
//! - A deletion is sent after all keys that are ready at that time were reconciled: many expired TrainJobs do not delay a
//!   deadline.
//!
//! # Deliberately absent
//!
//! LimitRanges and RuntimeClasses: a build does not depend on them.

mod deletion_window;
mod lister;
mod requests;
mod state;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::client::{ApiError, ApiObject, ApiRequest, DeletionPropagation, Kind, RequestVerb, Uid};
use muster_api::consts::NAMESPACE_TERMINATING;
use muster_api::environment::Entropy;
use muster_api::event::{Event, EventType};
use muster_api::gang::{COSCHEDULING_GROUPS, VOLCANO_GROUPS};
use muster_api::gang_objects::{self, GangSupport};
use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::consts::{GROUP, TRAIN_JOB, messages, reasons};
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES};
use muster_api::train::{RuntimeKind, TrainJobFacts};
use muster_api::{kinds, train};
use muster_trainer::build;
pub use muster_trainer::controller::DeadlineClock;
use muster_trainer::controller::backoff::TrainJobBackoff;
use muster_trainer::controller::metrics::TrainJobMetrics;
use muster_trainer::controller::{self, TrainJobEvent, TrainJobSnapshot, wants_objects};
use muster_tree::{Text, Tree};

use self::deletion_window::DeletionWindow;
use self::lister::TrainJobLister;
use self::state::{FailedRequest, TrainJobState, TrainJobStates};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, Precondition, ReconcileRequest, Reconciled, Requeue, Step};
use crate::metrics::RuntimeMetrics;

/// The default of [`TrainJobControllerConfig::deletions_max`].
pub const DELETIONS_MAX: usize = 5;

/// Configuration of the TrainJob controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainJobControllerConfig {
    /// The start of `activeDeadlineSeconds`.
    pub clock: DeadlineClock,
    /// The gang API where it is served.
    pub gangs: Option<GangSupport>,
    /// Where training code reports its progress; `None` disables reporting.
    pub progress_endpoint: Option<ProgressEndpoint>,
    /// The most deletions of TrainJobs in flight.
    pub deletions_max: usize,
}

impl Default for TrainJobControllerConfig {
    fn default() -> TrainJobControllerConfig {
        TrainJobControllerConfig {
            clock: DeadlineClock::default(),
            gangs: None,
            progress_endpoint: None,
            deletions_max: DELETIONS_MAX,
        }
    }
}

/// The endpoint for progress reports of training code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressEndpoint {
    /// Scheme, host and port.
    pub server: Text,
    /// The CA certificate of that server, in PEM.
    pub ca: Text,
}

impl ProgressEndpoint {
    fn borrowed(&self) -> build::Reporting<'_> {
        build::Reporting { server: &self.server, ca: &self.ca }
    }
}

/// The TrainJob controller.
pub struct TrainJobController {
    settings: TrainJobControllerConfig,
    entropy: Arc<dyn Entropy>,
    /// The state of TrainJobs that have any.
    kept: BTreeMap<ObjectKey, TrainJobState>,
    retries: TrainJobBackoff,
    deletions: DeletionWindow,
    numbers: TrainJobMetrics,
    /// Updates of TrainJobs (old, new) that are not counted yet: the time is known in `reconcile` only.
    news: Vec<(Option<Tree>, Option<Tree>)>,
}

impl TrainJobController {
    /// A controller with this configuration; `entropy` generates SSH keys.
    #[must_use]
    pub fn new(settings: TrainJobControllerConfig, entropy: Arc<dyn Entropy>) -> TrainJobController {
        TrainJobController {
            deletions: DeletionWindow::new(settings.deletions_max),
            settings,
            entropy,
            kept: BTreeMap::new(),
            retries: TrainJobBackoff::default(),
            numbers: TrainJobMetrics::default(),
            news: Vec::new(),
        }
    }

    fn plan_job(&mut self, key: &ObjectKey, job: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let facts = TrainJobFacts::of(&job.tree);
        self.kept.retain_of(key, &facts.uid);
        let lister = TrainJobLister {
            job: &job.tree,
            facts: &facts,
            caches,
            settings: &self.settings,
            entropy: &*self.entropy,
            kept: self.kept.get(key),
        };
        let made = wants_objects(&facts).then(|| lister.made());
        let jobset = lister.jobset();
        let steps = controller::reconcile(
            &TrainJobSnapshot {
                job: &job.tree,
                jobset: jobset.as_ref(),
                made: made.as_ref(),
                around: &lister,
                clock: self.settings.clock,
            },
            now,
        );
        Pass { training: self, key, job, facts: &facts, caches, now }.run(steps)
    }

    /// Removes the finalizer that earlier releases put on runtimes.
    fn plan_runtime(key: &ObjectKey, runtime: &ApiObject) -> Reconciled {
        let patch = controller::runtimes::remove_finalizer_patch(&runtime.tree);
        Reconciled::with_steps(
            patch.map(|patch| Step::Request(requests::merge(key, runtime, patch))).into_iter().collect(),
        )
    }

    /// Counts the updates since the last reconciliation.
    fn count(&mut self, now: Time) {
        for (before, after) in std::mem::take(&mut self.news) {
            self.numbers.observe_change(before.as_ref(), after.as_ref(), self.settings.clock, now);
        }
    }

    fn forget(&mut self, key: &ObjectKey, job: &Tree) {
        self.retries.forget(&meta::uid(job));
        self.kept.remove(key);
    }

    /// TrainJobs that wait for this runtime.
    fn waiting_for(&self, runtime: &ObjectKey) -> Vec<ReconcileRequest> {
        let waits = self.kept.iter().filter(|(_, kept)| kept.lacks.as_ref() == Some(runtime));
        waits.map(|(key, _)| key.clone().into()).collect()
    }

    /// The requeue after a failed reconciliation.
    fn follows(
        &mut self,
        key: &ObjectKey,
        job: &Tree,
        what: FailedRequest,
        why: &ApiError,
        now: Time,
    ) -> Requeue {
        let uid = meta::uid(job);
        let kept = self.kept.of(key, &uid);
        if what == FailedRequest::Deletion {
            if matches!(why, ApiError::TooManyRequests { .. } | ApiError::Indeterminate(_)) {
                self.deletions.slow_down();
            }
            let again = self.retries.deletion_failed(&uid, why, now);
            kept.hold_until = again.as_ref().map(|it| it.at);
            let note = again.and_then(|it| it.note);
            if note.is_some() {
                tracing::warn!(namespace = %key.namespace, name = %key.name, error = %why, "TrainJob not deleted after its time to live");
            }
            let notes = note.map(|note| requests::event(job, note));
            return Requeue {
                no_later_than: kept.hold_until,
                events: notes.into_iter().collect(),
                ..Requeue::default()
            };
        }
        // Parts of the reconciliation may have happened: the applied objects are unknown.
        kept.applied.clear();
        kept.is_doubtful = is_race(why);
        if kept.is_doubtful {
            return Requeue::default();
        }
        let note = complaint(kept, &why.message());
        let notes = note.map(|note| requests::event(job, note)).into_iter().collect();
        Requeue {
            no_later_than: Some(self.retries.requeue_at(&uid, now)),
            events: notes,
            ..Requeue::default()
        }
    }
}

impl Controller for TrainJobController {
    fn name(&self) -> &'static str {
        "trainer"
    }

    fn metrics_name(&self) -> &'static str {
        "trainjob_controller"
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut all = vec![TRAIN_JOBS.clone(), TRAINING_RUNTIMES.clone(), CLUSTER_TRAINING_RUNTIMES.clone()];
        // The JobSet CRD may be installed later. A kind that is not served has no objects until then, and does not block the
        // TTL of finished TrainJobs.
        all.extend([kinds::JOBSETS.clone(), kinds::CONFIG_MAPS.clone(), kinds::SECRETS.clone()]);
        all.extend(self.settings.gangs.into_iter().flat_map(gang_objects::kinds).cloned());
        all
    }

    fn kinds_if_served(&self) -> Vec<Kind> {
        vec![COSCHEDULING_GROUPS.clone(), VOLCANO_GROUPS.clone()]
    }

    fn predicate(&self, kind: &Kind, object: &Tree) -> bool {
        (*kind != kinds::CONFIG_MAPS && *kind != kinds::SECRETS) || may_be_generated(object)
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let kind = &seen.key.kind;
        if *kind == TRAIN_JOBS {
            let [before, after] = [seen.old, seen.new].map(|it| it.map(|it| it.tree.clone()));
            let is_same = |before: &Tree| after.as_ref().is_some_and(|it| meta::uid(it) == meta::uid(before));
            if let Some(before) = before.as_ref().filter(|it| !is_same(it)) {
                self.forget(seen.key, before);
            }
            self.news.push((before, after));
            return vec![seen.key.clone().into()];
        }
        if is_runtime(kind) {
            let released = seen.new.is_some().then(|| ReconcileRequest::from(seen.key.clone()));
            return released.into_iter().chain(self.waiting_for(seen.key)).collect();
        }
        let made = [&kinds::JOBSETS, &kinds::CONFIG_MAPS, &kinds::SECRETS].contains(&kind);
        let is_group = || {
            let gangs = self.settings.gangs.into_iter().flat_map(gang_objects::kinds);
            gangs.chain([&COSCHEDULING_GROUPS, &VOLCANO_GROUPS]).any(|it| it == kind)
        };
        if made || (is_group() && !only_fares(seen)) { jobs_of(seen) } else { Vec::new() }
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        self.count(now);
        // A key that is reconciled has no request in flight: a deletion in flight has succeeded.
        self.deletions.taken(key);
        let mut plan = match caches.find(key) {
            Some(job) if key.kind == TRAIN_JOBS => self.plan_job(key, job, caches, now),
            Some(runtime) if is_runtime(&key.kind) => TrainJobController::plan_runtime(key, runtime),
            _ => Reconciled::done(),
        };
        plan.enqueue.extend(self.deletions.next_after(key));
        plan
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn collect_metrics(&self, counters: &mut RuntimeMetrics) {
        counters.training = self.numbers.clone();
    }

    fn on_request_error(
        &mut self,
        key: &ObjectKey,
        call: &ApiRequest,
        why: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        let uid = meta::uid(&caches.find(key)?.tree);
        let is_deletion = call.target.kind == TRAIN_JOBS && matches!(call.verb, RequestVerb::Delete { .. });
        if !matches!(why, ApiError::Indeterminate(_)) {
            self.numbers.deletion_failed(&uid);
        }
        let what = if is_deletion { FailedRequest::Deletion } else { FailedRequest::Other };
        if key.kind == TRAIN_JOBS {
            self.kept.of(key, &uid).refused = Some((what, why.clone()));
        }
        None
    }

    fn error_policy(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Requeue {
        self.deletions.refused(key);
        let job = caches.find(key).filter(|_| key.kind == TRAIN_JOBS);
        let refused = self.kept.get_mut(key).and_then(|kept| kept.refused.take());
        let mut after = match (job, refused) {
            (Some(job), Some((what, why))) => self.follows(key, &job.tree, what, &why, now),
            _ => {
                // A precondition failed and the remaining steps were not sent. If they counted as applied, fields that a
                // manager no longer wants would stay in the JobSet.
                self.kept.entry(key.clone()).and_modify(|kept| kept.applied.clear());
                Requeue::default()
            }
        };
        let timer = job.and_then(|job| next_due(&TrainJobFacts::of(&job.tree), self.settings.clock, now));
        after.no_later_than = [after.no_later_than, timer].into_iter().flatten().min();
        after.enqueue.extend(self.deletions.next_after(key));
        after
    }
}

/// One reconciliation of a TrainJob: turns lifecycle steps into requests.
struct Pass<'a> {
    training: &'a mut TrainJobController,
    key: &'a ObjectKey,
    job: &'a ApiObject,
    facts: &'a TrainJobFacts,
    caches: &'a Caches,
    now: Time,
}

impl Pass<'_> {
    fn run(mut self, steps: Vec<controller::TrainJobStep>) -> Reconciled {
        let mut plan = Reconciled::done();
        let mut expiry = None;
        self.settle(&steps);
        for step in steps {
            match step {
                controller::TrainJobStep::Event(note) if note.reason == reasons::TTL_EXPIRED => {
                    expiry = Some(note);
                }
                controller::TrainJobStep::Event(note) => plan.steps.extend(self.note(note)),
                controller::TrainJobStep::UpdateStatus(patch) => {
                    plan.steps.push(Step::Request(requests::write_status(self.key, self.job, patch)));
                }
                controller::TrainJobStep::DeleteJobSet(uid) => {
                    plan.steps.push(Step::Request(requests::delete_jobset(self.key, uid)));
                }
                controller::TrainJobStep::DeleteTrainJob { due, cascade } => {
                    self.delete(due, cascade, expiry.take(), &mut plan);
                }
                controller::TrainJobStep::Apply(object) => {
                    let (steps, is_last) = self.apply(object);
                    plan.steps.extend(steps);
                    if is_last {
                        break;
                    }
                }
                controller::TrainJobStep::RequeueAt(at) => plan = plan.requeue_at(at),
                controller::TrainJobStep::Retry => {
                    let at = self.training.retries.requeue_at(&self.facts.uid, self.now);
                    plan = plan.requeue_at(at);
                }
            }
        }
        plan
    }

    /// Drops errors when nothing is left to do, and remembers a missing runtime.
    fn settle(&mut self, steps: &[controller::TrainJobStep]) {
        let rests = |it: &controller::TrainJobStep| {
            matches!(it, controller::TrainJobStep::Event(_) | controller::TrainJobStep::RequeueAt(_))
        };
        let lacks = steps.contains(&controller::TrainJobStep::Retry).then(|| self.runtime()).flatten();
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
    fn runtime(&self) -> Option<ObjectKey> {
        let kind = self.facts.runtime.runtime_kind()?;
        Some(runtime_key(kind, &self.facts.namespace, &self.facts.runtime.name))
    }

    /// An event; a repeated creation error is dropped.
    fn note(&mut self, note: TrainJobEvent) -> Option<Step> {
        if note.reason == reasons::CREATION_FAILED {
            let kept = self.training.kept.of(self.key, &self.facts.uid);
            if kept.complaint.replace(note.message.clone()).as_ref() == Some(&note.message) {
                return None;
            }
        }
        Some(Step::Event(requests::event(&self.job.tree, note)))
    }

    /// Deletes the TrainJob, unless that was refused a moment ago or too many others are being deleted.
    fn delete(
        &mut self,
        due: Time,
        cascade: DeletionPropagation,
        note: Option<TrainJobEvent>,
        plan: &mut Reconciled,
    ) {
        let (uid, training) = (&self.facts.uid, &mut *self.training);
        let hold = training.kept.get(self.key).and_then(|kept| kept.hold_until);
        if let Some(until) = hold.filter(|until| *until > self.now) {
            plan.requeue_at = Some(plan.requeue_at.map_or(until, |at| at.min(until)));
            return;
        }
        if !training.deletions.enter(self.key) {
            return;
        }
        let told = std::mem::replace(&mut training.kept.of(self.key, uid).is_expiry_told, true);
        let note = note.filter(|_| !told).map(|note| Step::Event(requests::event(&self.job.tree, note)));
        plan.steps.extend(note);
        plan.steps.push(Step::Request(requests::delete_job(self.key, uid.clone(), cascade)));
        training.numbers.deletion_sent(uid, due);
    }

    /// Applies an object, and returns whether the remaining steps have to wait for it: a PodGroup references its Workload by UID.
    /// If the cached TrainJob may be outdated, it is read first: nothing is created for a finished TrainJob.
    fn apply(&mut self, object: Tree) -> (Vec<Step>, bool) {
        let gangs = self.training.settings.gangs;
        let kind = lister::kind_of(gangs, &object);
        let there = kind.and_then(|kind| self.caches.find(&ObjectKey::of(kind, &object)));
        let is_workload = gangs.is_some_and(|gangs| kind == Some(gangs.api.workloads()));
        let is_last = is_workload && there.is_none();
        let call = requests::apply(kind, there, &object);
        let kept = self.training.kept.of(self.key, &self.facts.uid);
        kept.remember(object);
        let look = kept.is_doubtful.then(|| {
            Step::Precondition(requests::look(self.key), Precondition::Unchanged(self.job.revision))
        });
        (look.into_iter().chain([Step::Request(call)]).collect(), is_last)
    }
}

/// The next deadline of a TrainJob: its active deadline or its TTL.
fn next_due(job: &TrainJobFacts, clock: DeadlineClock, now: Time) -> Option<Time> {
    let all = [controller::deadline(job, &job.status, clock), controller::ttl_expiry(job, &job.status)];
    all.into_iter().flatten().filter(|at| *at > now).min()
}

/// The event of a creation error, unless it repeats the last one or the namespace is terminating.
fn complaint(kept: &mut TrainJobState, words: &str) -> Option<TrainJobEvent> {
    let message = Text::from(messages::creation_failed(words));
    let is_old = kept.complaint.replace(message.clone()).as_ref() == Some(&message);
    let told = !is_old && !words.contains(NAMESPACE_TERMINATING);
    told.then(|| TrainJobEvent {
        event_type: EventType::Warning,
        reason: reasons::CREATION_FAILED.into(),
        message,
    })
}

/// Whether the error is transient: a fresh cache resolves it, or the server could not be reached.
fn is_race(why: &ApiError) -> bool {
    matches!(
        why,
        ApiError::Conflict(_)
            | ApiError::AlreadyExists(_)
            | ApiError::Indeterminate(_)
            | ApiError::TooManyRequests { .. }
    )
}

fn is_runtime(kind: &Kind) -> bool {
    *kind == TRAINING_RUNTIMES || *kind == CLUSTER_TRAINING_RUNTIMES
}

fn runtime_key(kind: RuntimeKind, namespace: &Text, name: &Text) -> ObjectKey {
    let namespace = match kind {
        RuntimeKind::Namespaced => namespace.clone(),
        RuntimeKind::Cluster => Text::new(),
    };
    ObjectKey::new(kind.kind(), &namespace, name)
}

/// Whether a ConfigMap or Secret may belong to a TrainJob: it is controlled by one, or has a generated name, in which case a
/// foreign owner is a name conflict to report.
#[must_use]
pub fn may_be_generated(object: &Tree) -> bool {
    owner(object).is_some() || train::is_generated_name(&meta::name(object))
}

/// The TrainJob that controls an object.
fn owner(object: &Tree) -> Option<(Text, Uid)> {
    let owner = meta::controller_of(object).filter(|it| it.kind == TRAIN_JOB && it.group() == GROUP)?;
    Some((owner.name, owner.uid))
}

/// The TrainJobs to reconcile after an event of a child, by the old and the new object.
fn jobs_of(seen: &WatchEvent<'_>) -> Vec<ReconcileRequest> {
    let both = [seen.old, seen.new].into_iter().flatten();
    let mut names: Vec<Text> = both.filter_map(|it| Some(owner(&it.tree)?.0)).collect();
    names.dedup();
    names.iter().map(|name| ObjectKey::new(&TRAIN_JOBS, &seen.key.namespace, name).into()).collect()
}

/// Whether only the status of a gang object changed, which TrainJobs do not use.
fn only_fares(seen: &WatchEvent<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.old, seen.new) else { return false };
    let [before, after] = [before, after].map(|it| it.tree.without(&["status"]));
    before == after
}
