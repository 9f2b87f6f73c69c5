//! The JobSet controller: maps watch events to JobSets and sends the steps of [`muster_jobset`].
//!
//! # Guarantees
//!
//! - The state in memory can be lost: it only delays status updates and deduplicates events.

mod exclusive_placement;
mod lister;
mod metrics;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, ApiRequest, Kind, RequestVerb, Uid};
use muster_api::consts::NAMESPACE_TERMINATING;
use muster_api::consts::jobset as words;
use muster_api::event::{Event, EventType};
use muster_api::gang_objects::{self, GangSupport, consts as gang_words};
use muster_api::jobset::JobSetFacts;
use muster_api::meta::{self, OwnerReference};
use muster_api::time::Time;
use muster_api::train::TrainJobFacts;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_api::{kinds, paths};
pub use muster_jobset::FeatureGates;
use muster_jobset::child_jobs::ChildJob;
use muster_jobset::gangs::GangObjects;
use muster_jobset::reconcile::{JobSetAction, JobSetSnapshot, reasons, reconcile};
use muster_tree::{Text, Tree};

use self::lister::NamespaceLister;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled};
use crate::metrics::RuntimeMetrics;
pub use exclusive_placement::ExclusivePlacementController;
pub use metrics::JobSetMetrics;
use metrics::JobSetMetricsRecorder;

/// Jobs that are created, finish or are deleted within this period are reconciled together.
const ENDS_TOGETHER: Duration = Duration::from_millis(20);
/// The period grows by this for each Job of the JobSet.
const PER_JOB: Duration = Duration::from_micros(20);
/// Other updates of Jobs are batched over this period.
const CHANGES_TOGETHER: Duration = Duration::from_millis(200);

/// The backoff of failed creations: without it each event of a Job would retry all of them.
#[derive(Debug, Default)]
struct Refused {
    times: u32,
    /// A creation failed since the last reconciliation.
    is_new: bool,
    /// An event about a failed Job creation was recorded.
    is_job_told: bool,
    /// Reason and message of the first failure.
    why: Option<(&'static str, String)>,
    /// When the creation is retried; `None` during the retry.
    until: Option<Time>,
}

/// The first and the longest backoff after a failed creation.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// The JobSet controller.
#[derive(Debug)]
pub struct JobSetController {
    gates: FeatureGates,
    /// The ResourceClaim kind where it is served.
    claims: Option<Kind>,
    /// The gang API where it is served.
    gangs: Option<GangSupport>,
    /// When the status of each JobSet was written last.
    told: BTreeMap<Uid, Time>,
    /// Events recorded once per generation.
    noted: BTreeMap<Uid, (i64, BTreeSet<(Text, String)>)>,
    /// JobSets with failed creations.
    refused: BTreeMap<ObjectKey, Refused>,
    numbers: JobSetMetricsRecorder,
}

impl JobSetController {
    /// A controller with these feature gates; `claims` is the served ResourceClaim kind, if any.
    #[must_use]
    pub fn new(gates: FeatureGates, claims: Option<Kind>) -> JobSetController {
        JobSetController {
            gates,
            claims,
            gangs: None,
            told: BTreeMap::new(),
            noted: BTreeMap::new(),
            refused: BTreeMap::new(),
            numbers: JobSetMetricsRecorder::default(),
        }
    }

    /// This controller with the gang API of the server.
    #[must_use]
    pub fn gangs(mut self, gangs: Option<GangSupport>) -> JobSetController {
        self.gangs = gangs;
        self
    }

    fn plan_set(&mut self, key: &ObjectKey, set: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let facts = JobSetFacts::of(&set.tree);
        let children: Vec<ChildJob<'_>> = caches
            .owned_by(&facts.uid)
            .filter(|(key, job)| is_child(key, job, &facts.uid))
            .map(|(_, job)| ChildJob::of(&job.tree))
            .collect();
        let hold_until = self.hold(key, now);
        let refused =
            self.refused.get(key).and_then(|it| it.why.as_ref()).map(|(reason, why)| (*reason, &**why));
        let gangs = self.gangs;
        let around =
            NamespaceLister { set: &set.tree, facts: &facts, caches, claims: self.claims.as_ref(), gangs };
        let groups = gangs.map(|gangs| match facts.gang {
            Some(_) => groups(gangs, &facts.uid, caches),
            None => GangObjects { gangs, workloads: Vec::new(), groups: Vec::new() },
        });
        let steps = reconcile(&JobSetSnapshot {
            set: &facts,
            children: &children,
            lister: &around,
            gates: self.gates,
            claims: self.claims.as_ref(),
            groups: groups.as_ref(),
            status_updated_at: self.told.get(&facts.uid).copied(),
            create_after: hold_until,
            create_error: refused,
            now,
        });
        let mut plan = Reconciled::done();
        // Events that are recorded once come first: a failed request drops the steps after it, and they would be lost.
        let mut once = Vec::new();
        for action in steps {
            match action {
                JobSetAction::RequeueAt(at) => plan = plan.requeue_at(at),
                JobSetAction::EmitEventOnce(_, reason, message)
                    if !self.is_new(&facts, &reason, &message) => {}
                JobSetAction::EmitEventOnce(severity, reason, message) => {
                    once.extend(requests::steps(
                        set,
                        None,
                        JobSetAction::EmitEvent(severity, reason, message),
                    ));
                }
                other => {
                    if matches!(other, JobSetAction::UpdateStatus(_)) {
                        self.told.insert(facts.uid.clone(), now);
                    }
                    plan.steps.extend(requests::steps(set, self.claims.as_ref(), other));
                }
            }
        }
        once.append(&mut plan.steps);
        plan.steps = once;
        plan
    }

    /// Until when nothing is created: a backoff that doubles with each failure.
    fn hold(&mut self, key: &ObjectKey, now: Time) -> Option<Time> {
        let refused = self.refused.get_mut(key)?;
        if std::mem::take(&mut refused.is_new) {
            let pause = PAUSE.0.saturating_mul(1 << refused.times.min(16)).min(PAUSE.1);
            refused.times += 1;
            refused.until = Some(now + pause);
            refused.is_job_told = false;
        } else if refused.until.is_none() {
            // The retry succeeded.
            self.refused.remove(key);
            return None;
        } else if refused.until.is_some_and(|until| until <= now) {
            // Retried now. The failure count stays until the result is known: reset here, each backoff would be the first.
            refused.until = None;
        }
        refused.until
    }

    /// The JobSets to reconcile after an event, by the old and the new object.
    fn sets_of(&self, seen: &WatchEvent<'_>, caches: &Caches) -> BTreeSet<Text> {
        let kind = &seen.key.kind;
        let labelled =
            *kind == kinds::PERSISTENT_VOLUME_CLAIMS || (*kind == kinds::PODS && self.gates.in_place_restart);
        let is_device_claim = self.claims.as_ref() == Some(kind);
        let mut sets = BTreeSet::new();
        for object in [seen.old, seen.new].into_iter().flatten().map(|it| &it.tree) {
            let owned = [&kinds::JOBS, &kinds::SERVICES, &kinds::PERSISTENT_VOLUME_CLAIMS].contains(&kind)
                || self.is_gang(kind);
            sets.extend(owned.then(|| set_of(object)).flatten().map(|owner| owner.name));
            // A retained PersistentVolumeClaim has no owner, and the Job of a ResourceClaim may be deleted: use the label.
            if labelled || is_device_claim {
                sets.extend(meta::label(object, words::NAME).map(Text::from));
            }
        }
        if *kind == kinds::SERVICES && seen.new.is_none() {
            // JobSets with the same subdomain share the Service of one of them.
            let all = caches.in_namespace(&kinds::JOBSETS, &seen.key.namespace);
            let uses = |set: &&ApiObject| set.tree.str_at(paths::jobset::SUBDOMAIN) == seen.key.name;
            sets.extend(all.filter(uses).map(|set| meta::name(&set.tree)));
        }
        sets
    }

    /// Whether these are Workloads or groups.
    fn is_gang(&self, kind: &Kind) -> bool {
        self.gangs.is_some_and(|gangs| gang_objects::kinds(gangs).any(|it| it == kind))
    }

    /// Whether this was not noted yet about this generation.
    fn is_new(&mut self, set: &JobSetFacts, reason: &Text, message: &str) -> bool {
        let (generation, noted) = self.noted.entry(set.uid.clone()).or_default();
        if *generation != set.generation {
            (*generation, *noted) = (set.generation, BTreeSet::new());
        }
        noted.insert((reason.clone(), message.to_owned()))
    }

    fn forget(&mut self, set: &Tree) {
        let uid = meta::uid(set);
        self.told.remove(&uid);
        self.noted.remove(&uid);
        self.numbers.forget(set);
    }
}

impl Controller for JobSetController {
    fn name(&self) -> &'static str {
        "jobset"
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut all = vec![
            kinds::JOBSETS.clone(),
            kinds::JOBS.clone(),
            kinds::SERVICES.clone(),
            kinds::PERSISTENT_VOLUME_CLAIMS.clone(),
        ];
        all.extend(self.claims.clone());
        all.extend(self.gangs.into_iter().flat_map(gang_objects::kinds).cloned());
        if self.gates.in_place_restart {
            all.push(kinds::PODS.clone());
        }
        all
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        if seen.key.kind == kinds::JOBSETS {
            self.numbers.saw(seen);
            if seen.new.is_none() {
                self.forget(&seen.latest().tree);
                self.refused.remove(seen.key);
            }
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind == TRAIN_JOBS {
            return has_read(seen).then(|| key_of(seen, &seen.key.name).into()).into_iter().collect();
        }
        if self.is_gang(&seen.key.kind) && only_fares(seen) {
            return Vec::new();
        }
        let after = if seen.key.kind == kinds::JOBS { job_pause(seen, caches) } else { ENDS_TOGETHER };
        let sets = self.sets_of(seen, caches);
        sets.iter().map(|set| ReconcileRequest { key: key_of(seen, set), after }).collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        match caches.find(key) {
            Some(set) if key.kind == kinds::JOBSETS => self.plan_set(key, set, caches, now),
            _ => Reconciled::done(),
        }
    }

    fn collect_metrics(&self, counters: &mut RuntimeMetrics) {
        counters.jobsets += self.numbers.told();
    }

    fn on_request_error(
        &mut self,
        key: &ObjectKey,
        call: &ApiRequest,
        why: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        let set = caches.find(key)?;
        if !matches!(call.verb, RequestVerb::Create(_))
            || matches!(why, ApiError::Indeterminate(_) | ApiError::Conflict(_))
        {
            return None;
        }
        if matches!(why, ApiError::AlreadyExists(_)) {
            // Another writer created it first: the next reconciliation checks its owner.
            return None;
        }
        let (words, name) = (why.message(), &call.target.name);
        let (reason, message) = match &call.target.kind {
            kind if *kind == kinds::JOBS => {
                let message = format!("job {:?} creation failed with error: {words}", name.as_str());
                (reasons::JOB_CREATION_FAILED, message)
            }
            kind if *kind == kinds::SERVICES => (reasons::SERVICE_CREATION_FAILED, words),
            kind if *kind == kinds::PERSISTENT_VOLUME_CLAIMS => {
                (reasons::CLAIM_FAILED, format!("Failed to create PVC {name}: {words}"))
            }
            kind if self.gangs.is_some_and(|gangs| gang_objects::kinds(gangs).any(|it| it == kind)) => {
                (gang_words::CREATE_FAILED, format!("Failed to create {name}: {words}"))
            }
            _ => (reasons::DEVICE_CLAIM_FAILED, format!("Failed to create ResourceClaim {name}: {words}")),
        };
        let refused = self.refused.entry(key.clone()).or_default();
        if !std::mem::replace(&mut refused.is_new, true) {
            refused.why = Some((reason, message.clone()));
        }
        // One Job stands for all: they mostly are refused for the same reason.
        let is_told =
            reason == reasons::JOB_CREATION_FAILED && std::mem::replace(&mut refused.is_job_told, true);
        // A namespace that goes takes the JobSet along soon: not worth a note.
        let told = !is_told && !message.contains(NAMESPACE_TERMINATING);
        told.then(|| requests::note(&set.tree, EventType::Warning, reason.into(), message))
    }
}

fn key_of(seen: &WatchEvent<'_>, set: &Text) -> ObjectKey {
    ObjectKey::new(&kinds::JOBSETS, &seen.key.namespace, set)
}

/// The JobSet that controls an object.
fn set_of(object: &Tree) -> Option<OwnerReference> {
    meta::controller_of(object)
        .filter(|owner| owner.kind == words::KIND && owner.group() == kinds::JOBSETS.group)
}

/// Whether a TrainJob has just read the end of its JobSet, which may go from then on.
fn has_read(seen: &WatchEvent<'_>) -> bool {
    let ended = |it: &ApiObject| TrainJobFacts::of(&it.tree).status.is_finished();
    seen.new.is_some_and(ended) && !seen.old.is_some_and(ended)
}

/// Whether only the status of a gang object changed, which JobSets do not use.
fn only_fares(seen: &WatchEvent<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.old, seen.new) else { return false };
    let [before, after] = [before, after].map(|it| it.tree.without(&["status"]));
    before == after
}

/// The Workloads and groups that a JobSet controls.
fn groups<'a>(gangs: GangSupport, set: &Uid, caches: &'a Caches) -> GangObjects<'a> {
    let of = |kind: &Kind| -> Vec<&'a ApiObject> {
        let all = caches.owned_by(set).filter(|(key, _)| key.kind == *kind).map(|(_, object)| object);
        all.filter(|it| meta::controller_of(&it.tree).is_some_and(|owner| owner.uid == *set)).collect()
    };
    let (workloads, groups) = (of(gangs.api.workloads()), gangs.api.groups().map(of).unwrap_or_default());
    GangObjects { gangs, workloads, groups }
}

/// Whether an owner is a Job.
fn is_job(owner: &OwnerReference) -> bool {
    owner.kind == "Job" && owner.group() == kinds::JOBS.group
}

fn is_child(key: &ObjectKey, job: &ApiObject, set: &Uid) -> bool {
    key.kind == kinds::JOBS && meta::controller_of(&job.tree).is_some_and(|owner| owner.uid == *set)
}

/// How long the JobSet of a Job waits for more: less when a Job came, went or ended than when it merely has other pods,
/// and longer the more Jobs there are to look at.
fn job_pause(seen: &WatchEvent<'_>, caches: &Caches) -> Duration {
    let conditions = |job: &ApiObject| {
        job.tree.at(paths::job::STATUS).and_then(|it| it.at(paths::job_status::CONDITIONS)).cloned()
    };
    let same = match (seen.old, seen.new) {
        (Some(before), Some(after)) => {
            conditions(before) == conditions(after)
                && meta::deletion_timestamp(&before.tree) == meta::deletion_timestamp(&after.tree)
                && before.tree.at(&["spec"]) == after.tree.at(&["spec"])
                && before.tree.at(paths::meta::LABELS) == after.tree.at(paths::meta::LABELS)
        }
        _ => false,
    };
    if same {
        return CHANGES_TOGETHER;
    }
    let many = set_of(&seen.latest().tree).map_or(0, |owner| caches.owned_count(&owner.uid));
    ENDS_TOGETHER + PER_JOB.saturating_mul(u32::try_from(many).unwrap_or(u32::MAX))
}
