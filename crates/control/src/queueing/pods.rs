//! The plain pod integration: snapshots of pods and pod groups, and their steps as requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{
    ApiError, ApiObject, ApiRequest, DeletionPropagation, Preconditions, RequestVerb, Subresource,
};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::gang_objects::consts as gang_words;
use muster_api::kinds::PODS;
use muster_api::meta::{self, OwnerReference};
use muster_api::paths::{meta as meta_path, pod as pod_path};
use muster_api::pod::PodPhase;
use muster_api::queue::condition::Condition;
use muster_api::queue::consts::{WORKLOAD, conditions, finalizers, labels, managers, reasons};
use muster_api::queue::paths::workload as path;
use muster_api::queue::{AdmissionStatus, FlavorFacts, PriorityRef, WorkloadFacts, condition_body, kinds};
use muster_api::time::Time;
use muster_queue::jobs::owner_chain::{self, OwnerInfo as Looked};
use muster_queue::jobs::reconciler::{prebuilt_of, queue_of};
use muster_queue::jobs::requests::PodEnvironment;
use muster_queue::pods::expectations::PodExpectations;
use muster_queue::pods::group_metadata;
use muster_queue::pods::queued_pod::{PodAncestry, PodReference, QueuedPod};
use muster_queue::pods::reconciler::{
    self, ObservedWorkload, PodAction, PodEvent, PodEventObject, PodReconcileKey as PodKey,
    PodRequeueability, PodSnapshot, WorkloadRef,
};
use muster_queue::reconcilers::transitions::{self, Requeueability as Back};
use muster_queue::reconcilers::{StatusBase, StatusUpdate, UpdateContext};
use muster_tree::{Text, Tree, tree};

use super::jobs::Priorities;
use super::{QueueController, engine_input, requests};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, ReconcileRequest, Reconciled, Step};

/// Namespace prefix of the keys of pod groups: not a valid namespace name, so no pod key collides.
const GROUPS: &str = "group/";
/// Word of the kind.
const POD: &str = "Pod";

/// The state of plain pods between reconciliations.
#[derive(Debug, Default)]
pub(super) struct Pods {
    memory: PodExpectations,
    /// Pod names by group.
    groups: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// Workload names by single pod: a deleted pod is found by the Workloads it had.
    singles: BTreeMap<(Text, Text), BTreeSet<Text>>,
    /// Events recorded once.
    noted: BTreeSet<(PodEventObject, &'static str, String)>,
}

/// When to requeue steps that wait for the requests before them, if no watch event does so earlier.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The most events remembered; beyond that the memory is cleared and events may repeat.
const NOTED_MAX: usize = 100_000;

pub(super) fn key_of(of: &PodKey) -> ObjectKey {
    match of {
        PodKey::Pod { namespace, name } => ObjectKey::new(&PODS, namespace, name),
        PodKey::Group { namespace, name } => {
            ObjectKey::new(&PODS, &Text::from(format!("{GROUPS}{namespace}")), name)
        }
    }
}

fn pod_key(key: &ObjectKey) -> PodKey {
    let name = key.name.clone();
    match key.namespace.strip_prefix(GROUPS) {
        Some(namespace) => PodKey::Group { namespace: namespace.into(), name },
        None => PodKey::Pod { namespace: key.namespace.clone(), name },
    }
}

impl Pods {
    /// Handles a pod event; returns the keys of its pod or group.
    pub fn on_event(&mut self, seen: &WatchEvent<'_>) -> Vec<ReconcileRequest> {
        let concerns = |it: &ApiObject| {
            meta::label(&it.tree, labels::MANAGED).is_some() || meta::has_finalizer(&it.tree, finalizers::POD)
        };
        if ![seen.old, seen.new].into_iter().flatten().any(concerns) {
            return Vec::new();
        }
        match seen.new {
            Some(pod) => self.memory.observe_pod(pod),
            None => self.memory.observe_deletion(&meta::uid(&seen.latest().tree)),
        }
        let group = |it: &ApiObject| {
            group_metadata::group_name(&it.tree).map(|(name, _)| (seen.key.namespace.clone(), name))
        };
        let (before, after) = (seen.old.and_then(group), seen.new.and_then(group));
        if let Some(old) = before.filter(|it| Some(it) != after.as_ref())
            && let Some(members) = self.groups.get_mut(&old)
        {
            members.remove(&seen.key.name);
            if members.is_empty() {
                self.groups.remove(&old);
            }
        }
        if let Some(group) = after {
            self.groups.entry(group).or_default().insert(seen.key.name.clone());
        }
        let keys: BTreeSet<ObjectKey> =
            [seen.old, seen.new].into_iter().flatten().map(|it| key_of(&PodKey::of_pod(&it.tree))).collect();
        keys.into_iter().map(ReconcileRequest::from).collect()
    }

    /// Handles a Workload event: indexes the Workload by its single pod.
    pub fn on_workload_event(&mut self, before: Option<&WorkloadFacts>, after: Option<&WorkloadFacts>) {
        let [old, new] = [before, after].map(|it| it.and_then(pod_of));
        if old == new {
            return;
        }
        if let (Some(pod), Some(it)) = (old, before)
            && let Some(had) = self.singles.get_mut(&pod)
        {
            had.remove(&it.name);
            if had.is_empty() {
                self.singles.remove(&pod);
            }
        }
        if let (Some(pod), Some(it)) = (new, after) {
            self.singles.entry(pod).or_default().insert(it.name.clone());
        }
    }

    /// A request about a pod failed, or its reply was lost: updates the expectations.
    pub fn refused(&mut self, call: &ApiRequest, why: &ApiError) {
        let Some(uid) = call.preconditions.uid.as_ref().filter(|_| call.target.kind == PODS) else { return };
        match why {
            ApiError::Indeterminate(_) | ApiError::Conflict(_) => self.memory.unheard(uid),
            _ => self.memory.observe_failure(uid),
        }
    }

    fn is_news(&mut self, note: &PodEvent) -> bool {
        if self.noted.len() >= NOTED_MAX {
            self.noted.clear();
        }
        self.noted.insert((note.object.clone(), note.reason, note.message.clone()))
    }
}

/// Whether a pod is queued: it has the finalizer, or the managed label and has not terminated.
pub(super) fn concerns(pod: &Tree) -> bool {
    let ended = PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal();
    meta::has_finalizer(pod, finalizers::POD) || (meta::label(pod, labels::MANAGED).is_some() && !ended)
}

/// The keys to reconcile after an event of a Workload.
pub(super) fn concerned(workload: &WorkloadFacts, gone: bool) -> Vec<ObjectKey> {
    PodKey::of_workload(workload, gone).iter().map(key_of).collect()
}

impl QueueController {
    /// Reconciles a single pod or a pod group.
    pub(super) fn plan_pods(&mut self, key: &ObjectKey, caches: &Caches, now: Time) -> Reconciled {
        let of = pod_key(key);
        let (namespace, _) = of.names();
        let names: Vec<Text> = match &of {
            PodKey::Pod { name, .. } => vec![name.clone()],
            PodKey::Group { namespace, name } => {
                let group = self.pods.groups.get(&(namespace.clone(), name.clone()));
                group.into_iter().flatten().cloned().collect()
            }
        };
        let objects: Vec<&ApiObject> =
            names.iter().filter_map(|it| caches.get(&PODS, namespace, it)).collect();
        let members: Vec<QueuedPod> =
            objects.iter().map(|it| QueuedPod::of(it, self.above_pod(it, caches))).collect();
        let workloads = self.workloads(&of, &objects, caches);
        let flavor = |name: &str| {
            caches
                .get(&kinds::RESOURCE_FLAVORS, &Text::new(), &name.into())
                .map(|it| FlavorFacts::of(&it.tree))
        };
        let retire_at = workloads
            .iter()
            .find_map(|it| transitions::deactivated_job_expires_at(&it.facts, &self.settings.life));
        let limits = engine_input::limits(namespace, caches);
        let steps = reconciler::reconcile(&PodSnapshot {
            key: &of,
            pods: &members,
            workloads: &workloads,
            flavor: &flavor,
            ungates: &self.pods.memory.ungates,
            cleanups: &self.pods.memory.cleanups,
            classes: &Priorities(caches),
            environment: &PodEnvironment {
                limits: &limits,
                runtime_class: &|name| engine_input::runtime_class(name, caches),
            },
            delete_deactivated_at: retire_at,
            settings: &self.settings.pods,
            now,
        });
        let gang = self.gang_of(&of, &objects, &workloads, caches);
        let mut plan = Reconciled::done();
        for action in steps {
            if matches!(action, PodAction::Ungate(_)) && !gang.open {
                continue;
            }
            // A failed request drops the steps after it, but an expectation may only be set for a request that is sent. So an
            // action with an expectation comes first, or waits for the next reconciliation.
            if PodExpectations::tracks(&action) && plan.steps.iter().any(|it| !matches!(it, Step::Event(_))) {
                return plan.requeue_at(now + RECHECK_INTERVAL);
            }
            if !self.pods.memory.sending(&of, &action) {
                continue;
            }
            if let PodAction::RequeueAt(at) = action {
                plan = plan.requeue_at(at);
                continue;
            }
            if let PodAction::NoteOnce(note) = &action
                && !self.pods.is_news(note)
            {
                continue;
            }
            plan.steps.extend(self.pod_steps(namespace, action, caches, now));
        }
        if let (Some(message), Some(pod)) = (gang.taken, members.first()) {
            let (topic, severity) = (PodEventObject::Pod(pod.reference.clone()), EventType::Warning);
            let note = PodEvent { object: topic, severity, reason: gang_words::NAME_CONFLICT, message };
            let news = self.pods.is_news(&note);
            plan.steps.extend(news.then(|| tell(namespace, note, caches)).flatten());
        }
        // Last: an error here must not keep pods gated or with a finalizer.
        plan.steps.extend(gang.steps);
        plan
    }

    fn workloads(&self, of: &PodKey, pods: &[&ApiObject], caches: &Caches) -> Vec<ObservedWorkload> {
        let (namespace, name) = of.names();
        let named = |name: &Text| caches.get(&kinds::WORKLOADS, namespace, name);
        match of {
            PodKey::Group { .. } => named(name).map(ObservedWorkload::of).into_iter().collect(),
            PodKey::Pod { .. } => {
                let Some(pod) = pods.first() else {
                    // The pod is deleted: find the Workloads that it controlled under this name.
                    let had = self.pods.singles.get(&(namespace.clone(), name.clone()));
                    return had.into_iter().flatten().filter_map(named).map(ObservedWorkload::of).collect();
                };
                let uid = meta::uid(&pod.tree);
                let owned = caches.owned_by(&uid).filter(|(key, it)| {
                    key.kind == kinds::WORKLOADS
                        && meta::owner_references(&it.tree).any(|it| it.controller && it.uid == uid)
                });
                let mut all: Vec<ObservedWorkload> = owned.map(|(_, it)| ObservedWorkload::of(it)).collect();
                let prebuilt = prebuilt_of(&pod.tree).and_then(|name| named(&name)).map(ObservedWorkload::of);
                all.extend(prebuilt.filter(|it| all.iter().all(|own| own.facts.uid != it.facts.uid)));
                all
            }
        }
    }

    fn above_pod(&self, pod: &ApiObject, caches: &Caches) -> PodAncestry {
        let controller = meta::owner_references(&pod.tree).find(|it| it.controller);
        let look = |owner: &OwnerReference| {
            let found = caches.by_uid(&owner.uid).map(|(_, it)| it);
            Ok(found.map(|it| Looked {
                uid: meta::uid(&it.tree),
                queue: queue_of(&it.tree),
                controller: meta::owner_references(&it.tree).find(|it| it.controller),
            }))
        };
        match owner_chain::find_managed_ancestor(
            &meta::uid(&pod.tree),
            controller.as_ref(),
            &self.settings.managed,
            look,
        ) {
            Ok(Some(_)) => PodAncestry::Managed,
            // An owner that is not in the cache counts as unmanaged.
            Ok(None) | Err(_) => PodAncestry::Unmanaged,
        }
    }

    fn pod_steps(&self, namespace: &Text, action: PodAction, caches: &Caches, now: Time) -> Vec<Step> {
        let at = self.at(now);
        let workload = |of: &WorkloadRef| {
            caches.get(&kinds::WORKLOADS, namespace, &of.name).filter(|it| meta::uid(&it.tree) == of.uid)
        };
        let patch = |of: &WorkloadRef, make: &dyn Fn(&Tree) -> Tree| {
            let found = workload(of);
            let step =
                found.map(|it| requests::merge(&kinds::WORKLOADS, it, Subresource::Main, make(&it.tree)));
            step.into_iter().collect::<Vec<Step>>()
        };
        let written =
            |of: &WorkloadRef, make: &dyn Fn(StatusBase<'_>) -> Option<StatusUpdate>| match workload(of) {
                Some(it) => write(it, make),
                None => Vec::new(),
            };
        match action {
            PodAction::CreateWorkload(tree, note) => {
                let mut steps = vec![requests::create(tree)];
                steps.extend(tell(namespace, note, caches));
                steps
            }
            PodAction::UpdateWorkloadSpec(of, spec) => patch(&of, &|old| {
                old.merge_patch_to(&old.with(&["spec"], spec.clone())).unwrap_or_else(Tree::empty_map)
            }),
            PodAction::DeleteWorkload(of) => match workload(&of) {
                Some(it) => {
                    let finalizer = requests::drop_finalizer(&kinds::WORKLOADS, it);
                    finalizer
                        .into_iter()
                        .chain([requests::delete(it, DeletionPropagation::Background)])
                        .collect()
                }
                None => Vec::new(),
            },
            PodAction::RemoveWorkloadFinalizer(of) => workload(&of)
                .and_then(|it| requests::drop_finalizer(&kinds::WORKLOADS, it))
                .into_iter()
                .collect(),
            PodAction::AddOwnerReferences(of, owners) => patch(&of, &|old| {
                let all = old.items_at(meta_path::OWNERS).iter().cloned().chain(owners.iter().cloned());
                Tree::Null.with(meta_path::OWNERS, Tree::list(all))
            }),
            PodAction::ChangeQueue(of, queue) => patch(&of, &|_| Tree::Null.with(path::QUEUE, &queue)),
            PodAction::ChangePriority(of, resolved) => patch(&of, &|_| {
                Tree::Null
                    .with(path::PRIORITY, resolved.priority)
                    .with_option(path::PRIORITY_CLASS, resolved.class.as_ref().map(PriorityRef::tree))
            }),
            PodAction::Finish { workload, reason, message } => {
                written(&workload, &|known| transitions::finish(known, reason, &message, at))
            }
            PodAction::SetPodsReady(of, ready) => {
                written(&of, &|known| transitions::set_pods_ready(known, ready, &self.settings.life, now))
            }
            PodAction::ReleaseQuota(of, comeback) => {
                let back = match comeback {
                    PodRequeueability::Possible => Back::Possible,
                    PodRequeueability::Never => Back::Never,
                };
                written(&of, &|known| transitions::release_quota(known, back, at))
            }
            PodAction::SetWaitingForReplacementPods { workload: of, holds, reason, message } => {
                workload(&of).map(|it| tell_waiting(it, holds, &reason, &message, at)).into_iter().collect()
            }
            PodAction::SetReclaimablePods(of, pods) => {
                let pods = pods.into_iter().collect();
                workload(&of).map(|it| requests::apply_reclaimable(it, &pods)).into_iter().collect()
            }
            PodAction::Ungate(all) => {
                let told = all.into_iter().filter_map(|one| {
                    let pod = caches.get(&PODS, namespace, &one.pod.name)?;
                    let call = change(namespace, &one.pod, RequestVerb::MergePatch(one.patch));
                    Some((call, note_pod(&pod.tree, reasons::STARTED, one.message)))
                });
                vec![Step::ParallelWithEvents(told.collect())]
            }
            PodAction::RemoveFinalizer(pods) => vec![let_go(namespace, &pods, caches)],
            PodAction::DeletePods(pods) => vec![let_go(namespace, &pods, caches), delete(namespace, &pods)],
            PodAction::DeleteExcess(pods) => {
                let told = pods.iter().filter_map(|it| {
                    let pod = caches.get(&PODS, namespace, &it.name)?;
                    let event = note_pod(&pod.tree, EXCESS, "Excess pod deleted".to_owned());
                    Some((delete_call(namespace, it), event))
                });
                vec![let_go(namespace, &pods, caches), Step::ParallelWithEvents(told.collect())]
            }
            PodAction::Stop { pods, reason, message } => {
                let marks = pods.iter().map(|it| mark(namespace, it, &reason, &message, now));
                let told = pods.iter().filter_map(|it| {
                    let pod = caches.get(&PODS, namespace, &it.name)?;
                    Some((delete_call(namespace, it), note_pod(&pod.tree, STOPPED, message.clone())))
                });
                vec![Step::Parallel(marks.collect()), Step::ParallelWithEvents(told.collect())]
            }
            PodAction::Note(note) | PodAction::NoteOnce(note) => {
                tell(namespace, note, caches).into_iter().collect()
            }
            PodAction::RequeueAt(_) | PodAction::Wait(_) => Vec::new(),
        }
    }
}

/// Reasons of events.
const EXCESS: &str = "ExcessPodDeleted";
const STOPPED: &str = "Stopped";

/// The pod, by namespace and name, that a Workload is of.
fn pod_of(workload: &WorkloadFacts) -> Option<(Text, Text)> {
    let pod = workload.controller().filter(|it| it.kind == POD && it.group().is_empty())?;
    Some((workload.namespace.clone(), pod.name.clone()))
}

fn write(workload: &ApiObject, make: &dyn Fn(StatusBase<'_>) -> Option<StatusUpdate>) -> Vec<Step> {
    let (facts, status) = (WorkloadFacts::of(&workload.tree), AdmissionStatus::of(&workload.tree));
    let Some(written) = make(StatusBase { workload: &facts, status: &status }) else { return Vec::new() };
    let status = written.status.iter().map(|it| requests::apply(workload, it));
    let notes = written.notes.iter().cloned().map(|it| requests::note_workload(workload, it));
    status.chain(notes).collect()
}

fn tell_waiting(workload: &ApiObject, holds: bool, reason: &str, message: &str, at: UpdateContext) -> Step {
    let (namespace, name) = (meta::namespace(&workload.tree), meta::name(&workload.tree));
    let kind = conditions::WAITING_FOR_REPLACEMENT_PODS;
    let generation = workload.tree.int_at(meta_path::GENERATION).unwrap_or(0);
    let condition = Condition::new(kind, holds, reason, message, at.now).of_generation(generation);
    Step::Request(ApiRequest {
        field_manager: managers::PODS.clone(),
        target: meta::target(&kinds::WORKLOADS, &workload.tree, Subresource::Status),
        preconditions: requests::as_read(workload),
        verb: RequestVerb::Apply { body: condition_body(&namespace, &name, &condition), force: true },
    })
}

fn change(namespace: &Text, pod: &PodReference, act: RequestVerb) -> ApiRequest {
    let guard = Preconditions { uid: Some(pod.uid.clone()), revision: Some(pod.revision) };
    let on = ObjectKey::new(&PODS, namespace, &pod.name).target(Subresource::Main);
    ApiRequest { field_manager: managers::KUEUE.clone(), target: on, preconditions: guard, verb: act }
}

fn let_go(namespace: &Text, pods: &[PodReference], caches: &Caches) -> Step {
    let calls = pods.iter().filter_map(|it| {
        let pod = caches.get(&PODS, namespace, &it.name)?;
        let patch = meta::remove_finalizer_merge_patch(&pod.tree, finalizers::POD);
        Some(change(namespace, it, RequestVerb::MergePatch(patch)))
    });
    Step::Parallel(calls.collect())
}

fn delete(namespace: &Text, pods: &[PodReference]) -> Step {
    Step::Parallel(pods.iter().map(|it| delete_call(namespace, it)).collect())
}

fn delete_call(namespace: &Text, pod: &PodReference) -> ApiRequest {
    let on = ObjectKey::new(&PODS, namespace, &pod.name).target(Subresource::Main);
    ApiRequest::delete(managers::KUEUE.clone(), on, pod.uid.clone(), DeletionPropagation::Background)
}

/// Sets the TerminationTarget condition of a pod before it is deleted.
fn mark(namespace: &Text, pod: &PodReference, reason: &str, message: &str, now: Time) -> ApiRequest {
    let condition = Condition::new(conditions::TERMINATION_TARGET, true, reason, message, now);
    let body = tree!({"apiVersion": "v1", "kind": POD,
        "metadata": {"name": &pod.name, "namespace": namespace, "uid": &pod.uid},
        "status": {"conditions": [(condition.tree())]}});
    let on = ObjectKey::new(&PODS, namespace, &pod.name).target(Subresource::Status);
    let guard = Preconditions { uid: Some(pod.uid.clone()), revision: None };
    ApiRequest {
        field_manager: managers::KUEUE.clone(),
        target: on,
        preconditions: guard,
        verb: RequestVerb::Apply { body, force: true },
    }
}

fn note_pod(pod: &Tree, reason: &str, message: String) -> Event {
    requests::told_of(ObjectReference::of(&PODS, POD, pod), EventType::Normal, reason, message)
}

fn tell(namespace: &Text, note: PodEvent, caches: &Caches) -> Option<Step> {
    let about = match &note.object {
        PodEventObject::Pod(of) => {
            ObjectReference::of(&PODS, POD, &caches.get(&PODS, namespace, &of.name)?.tree)
        }
        PodEventObject::Workload(of) => ObjectReference::of(
            &kinds::WORKLOADS,
            WORKLOAD,
            &caches.get(&kinds::WORKLOADS, namespace, &of.name)?.tree,
        ),
    };
    Some(Step::Event(requests::told_of(about, note.severity, note.reason, note.message)))
}
