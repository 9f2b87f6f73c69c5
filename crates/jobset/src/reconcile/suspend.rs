//! Suspend and resume.

use std::collections::BTreeMap;

use muster_api::condition::DesiredCondition;
use muster_api::consts::jobset::conditions;
use muster_api::event::EventType;
use muster_api::jobset::ReplicatedJob;
use muster_tree::{Tree, tree};

use super::status_update::StatusUpdate;
use super::{JobSetAction, Reconciliation, startup};
use crate::build;
use crate::child_jobs::{ChildJob, ObjectRef};

impl<'a> Reconciliation<'a> {
    /// Suspends every running Job.
    pub fn suspend(&mut self, draft: &mut StatusUpdate<'_>) {
        let running = self.child_jobs.running().filter(|it| !it.suspend && !it.deleting);
        let patch = tree!({"spec": {"suspend": true}});
        let all: Vec<(ObjectRef, Tree)> = running.map(|it| (it.object_ref.clone(), patch.clone())).collect();
        if !all.is_empty() {
            self.steps.push(JobSetAction::PatchJobs(all));
        }
        let message = "jobset is suspended";
        let wanted = DesiredCondition {
            condition_type: conditions::SUSPENDED,
            status: true,
            reason: "SuspendedJobs",
            message,
        };
        draft.set(EventType::Normal, &wanted);
        draft.not_restarting("JobSetSuspended", message);
    }

    /// Resumes the Jobs that may start.
    pub fn resume(&mut self, draft: &mut StatusUpdate<'_>) {
        let (mut changes, mut clear) = (Vec::new(), Vec::new());
        let due = self.startable(draft);
        let mut done = !self.snapshot.set.in_order || due.is_empty();
        let mut paused: BTreeMap<&str, Vec<&ChildJob<'_>>> = BTreeMap::new();
        for child in self.child_jobs.active.iter().filter(|it| it.suspend && !it.deleting) {
            paused.entry(child.group.unwrap_or_default()).or_default().push(child);
        }
        for of in due {
            for child in paused.remove(of.name.as_str()).unwrap_or_default() {
                match resumed(child, &self.wanted(child)).filter(|_| self.has_claims(child)) {
                    Some(patch) => {
                        // The API server rejects template changes of a Job with a start time.
                        let changes_template = patch.at(&["spec", "template"]).is_some();
                        clear.extend(
                            (changes_template && child.has_started()).then(|| child.object_ref.clone()),
                        );
                        changes.push((child.object_ref.clone(), patch));
                    }
                    None => done = false,
                }
            }
        }
        if !clear.is_empty() {
            self.steps.push(JobSetAction::ClearStartTimes(clear));
        }
        if !changes.is_empty() {
            self.steps.push(JobSetAction::PatchJobs(changes));
        }
        if done {
            let message = "jobset is resumed";
            let wanted = DesiredCondition {
                condition_type: conditions::SUSPENDED,
                status: false,
                reason: "ResumeJobs",
                message,
            };
            draft.set(EventType::Normal, &wanted);
        }
    }

    /// The replicatedJobs whose Jobs may run now: their dependencies are satisfied; with `InOrder` only the first that has
    /// not started.
    pub fn startable(&self, draft: &StatusUpdate<'_>) -> Vec<&'a ReplicatedJob> {
        let set = self.snapshot.set;
        let all = set.jobs.iter().enumerate().filter(|(at, of)| {
            startup::may_start(set, &draft.status, of)
                && !(set.in_order && startup::has_started(&draft.status, *at, of))
        });
        let most = if set.in_order { 1 } else { usize::MAX };
        all.map(|(_, of)| of).take(most).collect()
    }

    /// The Job as it would be created now.
    fn wanted(&self, child: &ChildJob<'_>) -> Tree {
        let of = child.group.and_then(|name| self.jobs.get(name).copied());
        match of.zip(child.index()) {
            Some((of, index)) => self.builder.job(of, index),
            None => child.tree.clone(),
        }
    }
}

/// The patch that resumes a Job; `None` while its template is immutable because the Job controller has not set its
/// `Suspended` condition yet.
fn resumed(child: &ChildJob<'_>, wanted: &Tree) -> Option<Tree> {
    let waits = build::resume_template(child.tree, wanted).is_some() && !child.is_suspended();
    (!waits).then(|| build::resume(child.tree, wanted))
}
