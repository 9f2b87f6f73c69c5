//! Keeps Jobs on their way: which changes concern them, and their plans as calls.
//!
//! # Invariants
//!
//! - What is kept here can be lost: names of pods without owner are learnt from the first list, and what is
//!   remembered of failures only makes a pause longer.
//! - A pod without owner, or whose Job is gone, does not keep the finalizer.

mod calls;
mod gangs;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::event::{Event, Severity};
use muster_api::gang_make::{self, Gangs, JobAsks, Makes, words as gang_words};
use muster_api::job::{JobFacts, JobStatus};
use muster_api::job_pod::JobPod;
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::job as path;
use muster_api::pod::PodFacts;
use muster_api::port::{Act, Call, Kind, Object, Refusal, Uid};
use muster_api::selector::Selector;
use muster_api::time::Time;
use muster_api::words::{NAMESPACE_TERMINATING, finalizers, reasons};
use muster_job::{Action, Observed, Past};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, Seen};
use crate::plan::{Controller, Key, Plan, Step, Wake};

/// Pods that end within this time are counted together.
const ENDS_TOGETHER: Duration = Duration::from_millis(20);
/// Other changes of pods are shown in a Job's status at most this often.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// The Job controller, the one that deletes finished Jobs included.
#[derive(Debug, Default)]
pub struct Jobs {
    /// UIDs under which tracked pods know the Job of a key: to find its pods when the Job is gone.
    known: BTreeMap<Key, BTreeSet<Uid>>,
    /// Pods that nobody controls, by namespace.
    orphans: BTreeMap<Text, BTreeSet<Text>>,
    /// Failures of each Job since its last success.
    pasts: BTreeMap<Uid, Past>,
    /// Jobs whose last try to make a pod was refused.
    refused: BTreeSet<Uid>,
    /// How gangs are written, where Jobs make them.
    gangs: Option<Gangs>,
}

impl Controller for Jobs {
    fn name(&self) -> &'static str {
        "job"
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut all = vec![kinds::JOBS.clone(), kinds::PODS.clone()];
        all.extend(self.gangs.into_iter().flat_map(gang_make::kinds).cloned());
        all
    }

    fn wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        if seen.key.kind == kinds::JOBS {
            if seen.after.is_none() {
                self.forget(&meta::uid(&seen.newest().tree));
            }
            let after = if only_shows(seen) { STATUS_EVERY } else { Duration::ZERO };
            return vec![Wake { key: seen.key.clone(), after }];
        }
        if seen.key.kind != kinds::PODS {
            let ours = self.gangs.is_some_and(|gangs| gangs::is_kind(gangs, &seen.key.kind));
            return if ours { gangs::wakes(seen, caches) } else { Vec::new() };
        }
        let [before, after] = [seen.before, seen.after].map(|pod| pod.map(|pod| &pod.tree));
        let mut wakes: Vec<Wake> = self.owner_wakes(seen).into_iter().collect();
        if let (Some(old), true) = (before.and_then(job_of), after.is_some()) {
            let key = Key::new(&kinds::JOBS, &seen.key.namespace, &old.name);
            wakes.extend((after.and_then(job_of).as_ref() != Some(&old)).then(|| key.into()));
        }
        wakes.extend(self.orphan_wakes(seen, caches));
        wakes
    }

    fn plan(&mut self, key: &Key, caches: &Caches, now: Time) -> Plan {
        if key.kind == kinds::PODS {
            return caches.find(key).map(plan_orphan).unwrap_or_default();
        }
        let live = caches.find(key).map(|job| meta::uid(&job.tree));
        let mut plan = caches.find(key).map(|job| self.plan_job(job, caches, now)).unwrap_or_default();
        let lost = self.lost_pods(key, live.as_ref(), caches);
        if !lost.is_empty() {
            plan.steps.push(Step::Each(lost));
        }
        plan
    }

    fn refused(&mut self, key: &Key, call: &Call, why: &Refusal, caches: &Caches) -> Option<Event> {
        let job = caches.find(key).filter(|_| key.kind == kinds::JOBS)?;
        let (reason, message) = match (&call.act, why) {
            (_, Refusal::AlreadyExists(_) | Refusal::Unknown(_) | Refusal::Conflict(_)) => return None,
            (Act::Create(_), _) if call.on.kind != kinds::PODS => {
                let words = why.words();
                let message = format!("Failed to create {} for Job {}: {words}", call.on.name, key.name);
                (gang_words::CREATE_FAILED, message)
            }
            (Act::Create(_), _) => {
                self.refused.insert(meta::uid(&job.tree));
                (reasons::FAILED_CREATE, format!("Error creating: {}", why.words()))
            }
            (Act::Delete { .. }, _) if call.on.kind == kinds::PODS => {
                (reasons::FAILED_DELETE, format!("Error deleting: {}", why.words()))
            }
            _ => return None,
        };
        // A namespace that goes takes the Job along soon: not worth a note.
        let told = !message.contains(NAMESPACE_TERMINATING);
        told.then(|| calls::note(&job.tree, Severity::Warning, reason.into(), message))
    }
}

impl Jobs {
    /// Jobs that make gangs, written so.
    #[must_use]
    pub fn making(gangs: Option<Gangs>) -> Jobs {
        Jobs { gangs, ..Jobs::default() }
    }

    fn forget(&mut self, job: &Uid) {
        self.pasts.remove(job);
        self.refused.remove(job);
    }

    /// Wakes the Job that controls a pod.
    fn owner_wakes(&mut self, seen: &Seen<'_>) -> Option<Wake> {
        let pod = &seen.newest().tree;
        let owner = job_of(pod)?;
        let key = Key::new(&kinds::JOBS, &seen.key.namespace, &owner.name);
        if meta::has_finalizer(pod, finalizers::JOB_TRACKING) {
            self.known.entry(key.clone()).or_default().insert(owner.uid);
        }
        let urgent = seen.after.is_none() || !PodFacts::of(pod).active();
        Some(Wake { key, after: if urgent { ENDS_TOGETHER } else { STATUS_EVERY } })
    }

    /// Keeps the names of pods without owner; wakes the pod itself if it is tracked, and the Jobs that may adopt it.
    fn orphan_wakes(&mut self, seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
        let is_orphan = |pod: &&Object| meta::controller(&pod.tree).is_none();
        let Some(orphan) = seen.after.filter(is_orphan) else {
            if seen.before.is_some_and(|pod| is_orphan(&pod)) {
                drop_name(&mut self.orphans, seen.key);
            }
            return Vec::new();
        };
        let names = self.orphans.entry(seen.key.namespace.clone()).or_default();
        let new = names.insert(seen.key.name.clone());
        let tracked = meta::has_finalizer(&orphan.tree, finalizers::JOB_TRACKING);
        let mut wakes: Vec<Wake> = tracked.then(|| seen.key.clone().into()).into_iter().collect();
        let same = |before: &Object| Selector::same_labels(&before.tree, &orphan.tree);
        if new || !seen.before.is_some_and(same) {
            let jobs = caches.in_namespace(&kinds::JOBS, &seen.key.namespace);
            let may = jobs.filter(|job| selector(&job.tree).selects(&orphan.tree));
            wakes.extend(may.map(|job| Wake { key: Key::of(&kinds::JOBS, &job.tree), after: ENDS_TOGETHER }));
        }
        wakes
    }

    fn plan_job(&mut self, job: &Object, caches: &Caches, now: Time) -> Plan {
        let facts = JobFacts::of(&job.tree);
        let pods: Vec<JobPod> =
            pods_of(&facts.uid, caches).map(|pod| JobPod::of(&pod.tree, &facts)).collect();
        let names = self.orphans.get(&facts.namespace).into_iter().flatten();
        let orphans = names.filter_map(|name| caches.get(&kinds::PODS, &facts.namespace, name));
        let orphans = orphans.filter(|pod| facts.selector.selects(&pod.tree));
        let orphans: Vec<JobPod> = orphans.map(|pod| JobPod::of(&pod.tree, &facts)).collect();
        let taken = |name: &Text| caches.get(&kinds::PODS, &facts.namespace, name).is_some();
        let asks = self.gangs.map(|_| JobAsks::of(&job.tree)).filter(|asks| asks.makes != Makes::Nothing);
        let held = |kind: &Kind, name: &Text| caches.get(kind, &facts.namespace, name).is_some();
        let groups =
            self.gangs.zip(asks.as_ref()).map(|(gangs, asks)| gangs::groups(gangs, asks, caches, &held));
        let decision = muster_job::plan(&Observed {
            job: &facts,
            pods: &pods,
            orphans: &orphans,
            past: self.pasts.get(&facts.uid).unwrap_or(&Past::default()),
            taken: &taken,
            groups: groups.as_ref(),
            creates_refused: self.refused.remove(&facts.uid),
            now,
        });
        self.remember(&facts.uid, decision.past);
        let joins = self.gangs.zip(decision.member.as_ref());
        let mut plan = Plan::nothing();
        for action in decision.steps {
            match action {
                Action::LookAgain(at) => plan = plan.again(at),
                other => plan.steps.extend(calls::steps(job, joins, other)),
            }
        }
        plan
    }

    fn remember(&mut self, job: &Uid, past: Past) {
        if past == Past::default() {
            self.pasts.remove(job);
        } else {
            self.pasts.insert(job.clone(), past);
        }
    }

    /// Calls that let go of pods whose Job is gone.
    fn lost_pods(&mut self, key: &Key, live: Option<&Uid>, caches: &Caches) -> Vec<Call> {
        let Some(uids) = self.known.get_mut(key) else { return Vec::new() };
        let mut calls = Vec::new();
        uids.retain(|uid| {
            let pods =
                pods_of(uid, caches).filter(|pod| meta::has_finalizer(&pod.tree, finalizers::JOB_TRACKING));
            let held: Vec<Call> = pods.map(calls::untrack_orphan).collect();
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

/// Whether a Job changed in nothing but how many pods are at work, which follows from the pods. Were our own writes of
/// these numbers to wake the Job at once, it would write them as fast as pods become ready.
fn only_shows(seen: &Seen<'_>) -> bool {
    let (Some(before), Some(after)) = (seen.before, seen.after) else { return false };
    let status = after.tree.at(path::STATUS).cloned().unwrap_or_default();
    if before.tree.with(path::STATUS, status) != after.tree {
        return false;
    }
    let [before, after] = [before, after].map(|job| JobStatus {
        active: 0,
        ready: None,
        terminating: None,
        start_time: None,
        tracks: true,
        ..JobFacts::of(&job.tree).status
    });
    before == after
}

fn drop_name(orphans: &mut BTreeMap<Text, BTreeSet<Text>>, key: &Key) {
    if let Some(names) = orphans.get_mut(&key.namespace) {
        names.remove(&key.name);
        if names.is_empty() {
            orphans.remove(&key.namespace);
        }
    }
}

/// The Job that controls a pod.
fn job_of(pod: &Tree) -> Option<meta::Owner> {
    meta::controller(pod).filter(|owner| owner.kind == "Job" && owner.group() == kinds::JOBS.group)
}

fn selector(job: &Tree) -> Selector {
    Selector::of(job.at(path::SELECTOR))
}

/// A pod without owner does not keep the finalizer.
fn plan_orphan(pod: &Object) -> Plan {
    let tracked = meta::has_finalizer(&pod.tree, finalizers::JOB_TRACKING);
    if !tracked || meta::controller(&pod.tree).is_some() {
        return Plan::nothing();
    }
    Plan::of(vec![Step::One(calls::untrack_orphan(pod))])
}

fn pods_of<'a>(uid: &'a Uid, caches: &'a Caches) -> impl Iterator<Item = &'a Object> {
    let pods = caches.owned_by(uid).filter(|(key, _)| key.kind == kinds::PODS);
    pods.map(|(_, pod)| pod)
        .filter(move |pod| meta::controller(&pod.tree).is_some_and(|owner| owner.uid == *uid))
}
