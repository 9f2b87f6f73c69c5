//! Keeps Jobs on their way: which changes concern them, and their plans as calls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::{About, Event, Severity};
use muster_api::job::{JobFacts, NewPod, pod_of};
use muster_api::meta;
use muster_api::paths::job as path;
use muster_api::pod::PodFacts;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Object, Part, Refusal, Uid};
use muster_api::time::Time;
use muster_api::words::{finalizers, managers, reasons};
use muster_api::{kinds, port::Target};
use muster_job::{Action, Observed, PodRef};
use muster_tree::{Text, Tree, tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake, Want};

/// Pods that end within this time are counted together.
const ENDS_TOGETHER: Duration = Duration::from_millis(20);
/// Other changes of pods are shown in a Job's status at most this often.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// The Job controller, the one that deletes finished Jobs included.
#[derive(Debug, Default)]
pub struct Jobs {
    /// UIDs under which tracked pods know the Job of a key: to find its pods when the Job is gone.
    known: BTreeMap<Key, BTreeSet<Uid>>,
}

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        "job"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::JOBS.clone(), kinds::PODS.clone()]
    }

    fn wakes(&mut self, seen: &Seen<'_>, _caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::JOBS {
            return vec![seen.key.clone().into()];
        }
        if seen.key.kind != kinds::PODS {
            return Vec::new();
        }
        let pod = &seen.newest().tree;
        let Some(owner) = meta::controller(pod).filter(|owner| owner.kind == "Job") else {
            return Vec::new();
        };
        let key = Key::new(&kinds::JOBS, &seen.key.namespace, &owner.name);
        if meta::has_finalizer(pod, finalizers::JOB_TRACKING) {
            self.known.entry(key.clone()).or_default().insert(owner.uid);
        }
        let facts = PodFacts::of(pod);
        let urgent = seen.after.is_none() || !facts.active();
        vec![Wake { key, after: if urgent { ENDS_TOGETHER } else { STATUS_EVERY } }]
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        let live = caches.find(key).map(|job| meta::uid(&job.tree));
        let mut plan = caches.find(key).map(|job| plan_of(job, caches, now)).unwrap_or_default();
        let orphans = self.orphans(key, live.as_ref(), caches);
        if !orphans.is_empty() {
            plan.steps.push(Step::Each(orphans));
        }
        plan
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        let (Act::Create(_), Some(job)) = (&call.act, caches.find(key)) else { return None };
        if matches!(why, Refusal::AlreadyExists(_) | Refusal::Unknown(_)) {
            return None;
        }
        Some(note(
            &job.tree,
            Severity::Warning,
            reasons::FAILED_CREATE.into(),
            format!("Error creating: {why}"),
        ))
    }
}

impl Jobs {
    /// Calls that let go of pods whose Job is gone.
    fn orphans(&mut self, key: &Key, live: Option<&Uid>, caches: &Caches) -> Vec<Call> {
        let Some(uids) = self.known.get_mut(key) else { return Vec::new() };
        let mut calls = Vec::new();
        uids.retain(|uid| {
            let pods =
                pods_of(uid, caches).filter(|pod| meta::has_finalizer(&pod.tree, finalizers::JOB_TRACKING));
            let held: Vec<Call> = pods.map(|pod| release(&PodFacts::of(&pod.tree))).collect();
            let is_live = live == Some(uid);
            let keep = is_live || !held.is_empty();
            calls.extend(held.into_iter().filter(|_| !is_live));
            keep
        });
        if uids.is_empty() {
            self.known.remove(key);
        }
        calls
    }
}

fn pods_of<'a>(uid: &'a Uid, caches: &'a Caches) -> impl Iterator<Item = &'a Object> {
    let pods = caches.owned_by(uid).filter(|(key, _)| key.kind == kinds::PODS);
    pods.map(|(_, pod)| pod)
        .filter(move |pod| meta::controller(&pod.tree).is_some_and(|owner| owner.uid == *uid))
}

fn plan_of(job: &Object, caches: &Caches, now: Time) -> Plan {
    let facts = JobFacts::of(&job.tree);
    let pods: Vec<PodFacts> = pods_of(&facts.uid, caches).map(|pod| PodFacts::of(&pod.tree)).collect();
    let taken = |name: &Text| caches.get(&kinds::PODS, &facts.namespace, name).is_some();
    let seen = Observed { job: &facts, pods: &pods, taken: &taken, now };
    let mut plan = Plan::nothing();
    for action in muster_job::plan(&seen) {
        match action {
            Action::LookAgain(at) => plan = plan.again(at),
            other => plan.steps.extend(steps(job, other)),
        }
    }
    plan
}

/// One action as steps.
fn steps(job: &Object, action: Action) -> Vec<Step> {
    match action {
        Action::Create(pods) => create(&job.tree, &pods),
        Action::Delete(pods) => delete(&job.tree, &pods),
        Action::Discard(pods) => {
            let mut steps = vec![Step::Each(pods.iter().map(|pod| release_ref(&job.tree, pod)).collect())];
            steps.extend(delete(&job.tree, &pods));
            steps
        }
        Action::Release(pods) => {
            vec![Step::Each(pods.iter().map(|pod| release_ref(&job.tree, pod)).collect())]
        }
        Action::Write(status) => {
            let old = job.tree.at(path::STATUS).cloned().unwrap_or_default();
            let new = status.tree(&old);
            let patch = if old.is_null() { Some(new.clone()) } else { old.merge_patch_to(&new) };
            patch.map(|patch| Step::One(write(job, patch))).into_iter().collect()
        }
        Action::Note(severity, reason, message) => {
            vec![Step::Note(note(&job.tree, severity, reason, message))]
        }
        Action::DeleteJob => delete_job(job),
        Action::LookAgain(_) => Vec::new(),
    }
}

/// Creates in batches that double, so that a refusal that would meet them all is met by few.
fn create(job: &Tree, pods: &[NewPod]) -> Vec<Step> {
    let name = meta::name(job);
    let mut steps = Vec::new();
    let (mut rest, mut size) = (pods, 1);
    while !rest.is_empty() {
        let (batch, after) = rest.split_at(size.min(rest.len()));
        steps.push(Step::Each(batch.iter().map(|new| create_one(job, new)).collect()));
        steps.extend(batch.iter().map(|new| {
            let message = format!("Created pod: {}", new.name(&name));
            Step::Note(note(job, Severity::Normal, reasons::SUCCESSFUL_CREATE.into(), message))
        }));
        (rest, size) = (after, size * 2);
    }
    steps
}

fn create_one(job: &Tree, new: &NewPod) -> Call {
    let pod = pod_of(job, new);
    let on = meta::target(&kinds::PODS, &pod, Part::Main);
    Call { by: managers::JOB.clone(), on, guard: Guard::default(), act: Act::Create(pod) }
}

fn delete(job: &Tree, pods: &[PodRef]) -> Vec<Step> {
    let one = |pod: &PodRef| {
        Call::delete(managers::JOB.clone(), target(job, pod), pod.uid.clone(), Cascade::Background)
    };
    let mut steps = vec![Step::Each(pods.iter().map(one).collect())];
    steps.extend(pods.iter().map(|pod| {
        let message = format!("Deleted pod: {}", pod.name);
        Step::Note(note(job, Severity::Normal, reasons::SUCCESSFUL_DELETE.into(), message))
    }));
    steps
}

fn delete_job(job: &Object) -> Vec<Step> {
    let by = managers::TTL.clone();
    let on = meta::target(&kinds::JOBS, &job.tree, Part::Main);
    let look = Call { by: by.clone(), on: on.clone(), guard: Guard::default(), act: Act::Get };
    let delete = Call::delete(by, on, meta::uid(&job.tree), Cascade::Foreground);
    vec![Step::Look(look, Want::Unchanged(job.revision)), Step::One(delete)]
}

fn write(job: &Object, patch: Tree) -> Call {
    Call {
        by: managers::JOB.clone(),
        on: meta::target(&kinds::JOBS, &job.tree, Part::Status),
        guard: Guard { uid: Some(meta::uid(&job.tree)), revision: Some(job.revision) },
        act: Act::Merge(tree!({"status": patch})),
    }
}

fn target(job: &Tree, pod: &PodRef) -> Target {
    Target {
        kind: kinds::PODS.clone(),
        namespace: meta::namespace(job),
        name: pod.name.clone(),
        part: Part::Main,
    }
}

fn release_ref(job: &Tree, pod: &PodRef) -> Call {
    let guard = Guard { uid: Some(pod.uid.clone()), revision: None };
    let act = Act::Strategic(meta::finalizer_removal(finalizers::JOB_TRACKING));
    Call { by: managers::JOB.clone(), on: target(job, pod), guard, act }
}

fn release(pod: &PodFacts) -> Call {
    let on = Target {
        kind: kinds::PODS.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        part: Part::Main,
    };
    let guard = Guard { uid: Some(pod.uid.clone()), revision: None };
    let act = Act::Strategic(meta::finalizer_removal(finalizers::JOB_TRACKING));
    Call { by: managers::JOB.clone(), on, guard, act }
}

fn note(job: &Tree, severity: Severity, reason: Text, message: String) -> Event {
    let about = About::of(&kinds::JOBS, "Job", job);
    Event { by: managers::JOB.clone(), about, severity, reason, message: message.into() }
}
