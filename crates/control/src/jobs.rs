//! The Job controller: maps watch events to Jobs and sends the steps of [`muster_job`].
//!
//! # Guarantees
//!
//! - The state in memory can be lost: orphaned pods are found by the initial list, and losing failures only shortens a backoff.
//! - A pod without an owner, or of a deleted Job, does not keep the tracking finalizer.

mod gangs;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiError, ApiObject, ApiRequest, Kind, RequestVerb, Uid};
use muster_api::consts::{NAMESPACE_TERMINATING, finalizers, reasons};
use muster_api::event::{Event, EventType};
use muster_api::gang_objects::{self, GangSupport, JobGang, ObjectsToCreate, consts as gang_words};
use muster_api::job::{JobFacts, JobStatus};
use muster_api::job_pod::JobPod;
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::job as path;
use muster_api::pod::PodFacts;
use muster_api::selector::LabelSelector;
use muster_api::time::Time;
use muster_job::{BackoffRecord, JobAction, JobSnapshot};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// Pods that terminate within this period are counted together (upstream's `syncJobBatchPeriod`).
const TERMINATION_BATCH_PERIOD: Duration = Duration::from_millis(20);
/// Other updates of pods change a Job's status at most this often.
const STATUS_BATCH_PERIOD: Duration = Duration::from_secs(1);

/// The Job controller, with the TTL-after-finished controller.
#[derive(Debug, Default)]
pub struct JobController {
    /// UIDs of Jobs with tracked pods by key, to find the pods of a deleted Job.
    uids: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    /// Pods without a controller, by namespace.
    orphans: BTreeMap<Text, BTreeSet<Text>>,
    /// Failures of each Job since its last success.
    backoff_records: BTreeMap<Uid, BackoffRecord>,
    /// Jobs with a failed pod creation in the last reconciliation.
    create_failed: BTreeSet<Uid>,
    /// The gang API, where Jobs create gangs.
    gangs: Option<GangSupport>,
}

impl Controller for JobController {
    fn name(&self) -> &'static str {
        "job"
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut all = vec![kinds::JOBS.clone(), kinds::PODS.clone()];
        all.extend(self.gangs.into_iter().flat_map(gang_objects::kinds).cloned());
        all
    }

    fn map_event(&mut self, event: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        if event.key.kind == kinds::JOBS {
            if event.new.is_none() {
                self.forget(&meta::uid(&event.latest().tree));
            }
            let after = if is_own_status_update(event) { STATUS_BATCH_PERIOD } else { Duration::ZERO };
            return vec![ReconcileRequest { key: event.key.clone(), after }];
        }
        if event.key.kind != kinds::PODS {
            let ours = self.gangs.is_some_and(|gangs| gangs::is_kind(gangs, &event.key.kind));
            return if ours { gangs::requests_for(event, caches) } else { Vec::new() };
        }
        let [before, after] = [event.old, event.new].map(|pod| pod.map(|pod| &pod.tree));
        let mut requests: Vec<ReconcileRequest> = self.owner_requests(event).into_iter().collect();
        if let (Some(old), true) = (before.and_then(job_of), after.is_some()) {
            let key = ObjectKey::new(&kinds::JOBS, &event.key.namespace, &old.name);
            requests.extend((after.and_then(job_of).as_ref() != Some(&old)).then(|| key.into()));
        }
        requests.extend(self.orphan_requests(event, caches));
        requests
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        if key.kind == kinds::PODS {
            return caches.find(key).map(reconcile_orphan).unwrap_or_default();
        }
        let live = caches.find(key).map(|job| meta::uid(&job.tree));
        let mut plan = caches.find(key).map(|job| self.reconcile_job(job, caches, now)).unwrap_or_default();
        let untrack = self.untrack_pods_of_deleted_job(key, live.as_ref(), caches);
        if !untrack.is_empty() {
            plan.steps.push(Step::Parallel(untrack));
        }
        plan
    }

    fn on_request_error(
        &mut self,
        key: &ObjectKey,
        request: &ApiRequest,
        error: &ApiError,
        caches: &Caches,
    ) -> Option<Event> {
        let job = caches.find(key).filter(|_| key.kind == kinds::JOBS)?;
        let (reason, message) = match (&request.verb, error) {
            (_, ApiError::AlreadyExists(_) | ApiError::Indeterminate(_) | ApiError::Conflict(_)) => {
                return None;
            }
            (RequestVerb::Create(_), _) if request.target.kind != kinds::PODS => {
                let cause = error.message();
                let message =
                    format!("Failed to create {} for Job {}: {cause}", request.target.name, key.name);
                (gang_words::CREATE_FAILED, message)
            }
            (RequestVerb::Create(_), _) => {
                self.create_failed.insert(meta::uid(&job.tree));
                (reasons::FAILED_CREATE, format!("Error creating: {}", error.message()))
            }
            (RequestVerb::Delete { .. }, _) if request.target.kind == kinds::PODS => {
                (reasons::FAILED_DELETE, format!("Error deleting: {}", error.message()))
            }
            _ => return None,
        };
        // A terminating namespace deletes the Job soon, too.
        let is_news = !message.contains(NAMESPACE_TERMINATING);
        is_news.then(|| requests::note(&job.tree, EventType::Warning, reason.into(), message))
    }
}

impl JobController {
    /// A controller with this gang API; `None` disables gangs.
    #[must_use]
    pub fn with_gangs(gangs: Option<GangSupport>) -> JobController {
        JobController { gangs, ..JobController::default() }
    }

    fn forget(&mut self, job: &Uid) {
        self.backoff_records.remove(job);
        self.create_failed.remove(job);
    }

    /// The request for the Job that controls a pod.
    fn owner_requests(&mut self, event: &WatchEvent<'_>) -> Option<ReconcileRequest> {
        let pod = &event.latest().tree;
        let owner = job_of(pod)?;
        let key = ObjectKey::new(&kinds::JOBS, &event.key.namespace, &owner.name);
        if meta::has_finalizer(pod, finalizers::JOB_TRACKING) {
            self.uids.entry(key.clone()).or_default().insert(owner.uid);
        }
        let urgent = event.new.is_none() || !PodFacts::of(pod).is_active();
        Some(ReconcileRequest {
            key,
            after: if urgent { TERMINATION_BATCH_PERIOD } else { STATUS_BATCH_PERIOD },
        })
    }

    /// Indexes orphaned pods; returns requests for the pod itself if it has the finalizer, and for the Jobs that may adopt it.
    fn orphan_requests(&mut self, event: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let is_orphan = |pod: &&ApiObject| meta::controller_of(&pod.tree).is_none();
        let Some(orphan) = event.new.filter(is_orphan) else {
            if event.old.is_some_and(|pod| is_orphan(&pod)) {
                drop_name(&mut self.orphans, event.key);
            }
            return Vec::new();
        };
        let names = self.orphans.entry(event.key.namespace.clone()).or_default();
        let new = names.insert(event.key.name.clone());
        let tracked = meta::has_finalizer(&orphan.tree, finalizers::JOB_TRACKING);
        let mut requests: Vec<ReconcileRequest> =
            tracked.then(|| event.key.clone().into()).into_iter().collect();
        let same = |before: &ApiObject| LabelSelector::same_labels(&before.tree, &orphan.tree);
        if new || !event.old.is_some_and(same) {
            let jobs = caches.in_namespace(&kinds::JOBS, &event.key.namespace);
            let may = jobs.filter(|job| selector(&job.tree).matches(&orphan.tree));
            requests.extend(may.map(|job| ReconcileRequest {
                key: ObjectKey::of(&kinds::JOBS, &job.tree),
                after: TERMINATION_BATCH_PERIOD,
            }));
        }
        requests
    }

    fn reconcile_job(&mut self, job: &ApiObject, caches: &Caches, now: Time) -> Reconciled {
        let facts = JobFacts::of(&job.tree);
        let pods: Vec<JobPod> =
            pods_of(&facts.uid, caches).map(|pod| JobPod::of(&pod.tree, &facts)).collect();
        let names = self.orphans.get(&facts.namespace).into_iter().flatten();
        let orphans = names.filter_map(|name| caches.get(&kinds::PODS, &facts.namespace, name));
        let orphans = orphans.filter(|pod| facts.selector.matches(&pod.tree));
        let orphans: Vec<JobPod> = orphans.map(|pod| JobPod::of(&pod.tree, &facts)).collect();
        let name_in_use = |name: &Text| caches.get(&kinds::PODS, &facts.namespace, name).is_some();
        let asks = self
            .gangs
            .map(|_| JobGang::of(&job.tree))
            .filter(|asks| asks.objects != ObjectsToCreate::Nothing);
        let held = |kind: &Kind, name: &Text| caches.get(kind, &facts.namespace, name).is_some();
        let groups =
            self.gangs.zip(asks.as_ref()).map(|(gangs, asks)| gangs::groups(gangs, asks, caches, &held));
        let result = muster_job::reconcile(&JobSnapshot {
            job: &facts,
            pods: &pods,
            orphans: &orphans,
            backoff_record: self.backoff_records.get(&facts.uid).unwrap_or(&BackoffRecord::default()),
            name_in_use: &name_in_use,
            groups: groups.as_ref(),
            create_failed: self.create_failed.remove(&facts.uid),
            now,
        });
        self.remember(&facts.uid, result.backoff_record);
        let gang = self.gangs.zip(result.member.as_ref());
        let mut plan = Reconciled::done();
        for action in result.steps {
            match action {
                JobAction::RequeueAt(at) => plan = plan.requeue_at(at),
                other => plan.steps.extend(requests::steps(job, gang, other)),
            }
        }
        plan
    }

    fn remember(&mut self, job: &Uid, backoff_record: BackoffRecord) {
        if backoff_record == BackoffRecord::default() {
            self.backoff_records.remove(job);
        } else {
            self.backoff_records.insert(job.clone(), backoff_record);
        }
    }

    /// Requests that remove the tracking finalizer from pods of a deleted Job.
    fn untrack_pods_of_deleted_job(
        &mut self,
        key: &ObjectKey,
        live: Option<&Uid>,
        caches: &Caches,
    ) -> Vec<ApiRequest> {
        let Some(uids) = self.uids.get_mut(key) else { return Vec::new() };
        let mut calls = Vec::new();
        uids.retain(|uid| {
            let pods =
                pods_of(uid, caches).filter(|pod| meta::has_finalizer(&pod.tree, finalizers::JOB_TRACKING));
            let held: Vec<ApiRequest> = pods.map(requests::untrack_orphan).collect();
            let is_live = live == Some(uid);
            let keep = is_live || !held.is_empty();
            calls.extend(held.into_iter().filter(|_| !is_live));
            keep
        });
        if uids.is_empty() {
            self.uids.remove(key);
        }
        calls
    }
}

/// Whether only the pod counts in the status of a Job changed, which the controller writes itself. If these updates reconciled
/// the Job at once, it would write the status as fast as pods become ready.
fn is_own_status_update(event: &WatchEvent<'_>) -> bool {
    let (Some(before), Some(after)) = (event.old, event.new) else { return false };
    let status = after.tree.at(path::STATUS).cloned().unwrap_or_default();
    if before.tree.with(path::STATUS, status) != after.tree {
        return false;
    }
    let [before, after] = [before, after].map(|job| JobStatus {
        active: 0,
        ready: None,
        terminating: None,
        start_time: None,
        has_uncounted_field: true,
        ..JobFacts::of(&job.tree).status
    });
    before == after
}

fn drop_name(orphans: &mut BTreeMap<Text, BTreeSet<Text>>, key: &ObjectKey) {
    if let Some(names) = orphans.get_mut(&key.namespace) {
        names.remove(&key.name);
        if names.is_empty() {
            orphans.remove(&key.namespace);
        }
    }
}

/// The Job that controls a pod.
fn job_of(pod: &Tree) -> Option<meta::OwnerReference> {
    meta::controller_of(pod).filter(|owner| owner.kind == "Job" && owner.group() == kinds::JOBS.group)
}

fn selector(job: &Tree) -> LabelSelector {
    LabelSelector::of(job.at(path::SELECTOR))
}

/// Removes the tracking finalizer of a pod without an owner.
fn reconcile_orphan(pod: &ApiObject) -> Reconciled {
    let tracked = meta::has_finalizer(&pod.tree, finalizers::JOB_TRACKING);
    if !tracked || meta::controller_of(&pod.tree).is_some() {
        return Reconciled::done();
    }
    Reconciled::with_steps(vec![Step::Request(requests::untrack_orphan(pod))])
}

fn pods_of<'a>(uid: &'a Uid, caches: &'a Caches) -> impl Iterator<Item = &'a ApiObject> {
    let pods = caches.owned_by(uid).filter(|(key, _)| key.kind == kinds::PODS);
    pods.map(|(_, pod)| pod)
        .filter(move |pod| meta::controller_of(&pod.tree).is_some_and(|owner| owner.uid == *uid))
}
