//! Pausing and going on.

use std::collections::BTreeMap;

use muster_api::condition::Wanted;
use muster_api::event::Severity;
use muster_api::jobset::ReplicatedJob;
use muster_api::words::jobset::conditions;
use muster_tree::{Tree, tree};

use super::draft::Draft;
use super::{Action, Pass, startup};
use crate::build;
use crate::children::{Child, Ref};

impl<'a> Pass<'a> {
    /// Suspends every Job that runs.
    pub fn suspend(&mut self, draft: &mut Draft<'_>) {
        let running = self.sorted.running().filter(|it| !it.suspend && !it.deleting);
        let patch = tree!({"spec": {"suspend": true}});
        let all: Vec<(Ref, Tree)> = running.map(|it| (it.this.clone(), patch.clone())).collect();
        if !all.is_empty() {
            self.steps.push(Action::Change(all));
        }
        let message = "jobset is suspended";
        let wanted = Wanted { kind: conditions::SUSPENDED, holds: true, reason: "SuspendedJobs", message };
        draft.set(Severity::Normal, &wanted);
        draft.not_restarting("JobSetSuspended", message);
    }

    /// Lets the Jobs go on that may.
    pub fn resume(&mut self, draft: &mut Draft<'_>) {
        let (mut changes, mut clear) = (Vec::new(), Vec::new());
        let due = self.due(draft);
        let mut done = !self.seen.set.in_order || due.is_empty();
        let mut paused: BTreeMap<&str, Vec<&Child<'_>>> = BTreeMap::new();
        for child in self.sorted.active.iter().filter(|it| it.suspend && !it.deleting) {
            paused.entry(child.group.unwrap_or_default()).or_default().push(child);
        }
        for of in due {
            for child in paused.remove(of.name.as_str()).unwrap_or_default() {
                match resumed(child, &self.wanted(child)).filter(|_| self.has_claims(child)) {
                    Some(patch) => {
                        let changes_template = patch.at(&["spec", "template"]).is_some();
                        clear.extend((changes_template && child.has_started()).then(|| child.this.clone()));
                        changes.push((child.this.clone(), patch));
                    }
                    None => done = false,
                }
            }
        }
        if !clear.is_empty() {
            self.steps.push(Action::ClearStarts(clear));
        }
        if !changes.is_empty() {
            self.steps.push(Action::Change(changes));
        }
        if done {
            let message = "jobset is resumed";
            let wanted = Wanted { kind: conditions::SUSPENDED, holds: false, reason: "ResumeJobs", message };
            draft.set(Severity::Normal, &wanted);
        }
    }

    /// The replicatedJobs whose Jobs may run now: what they depend on holds, and of those that start in order it is the
    /// first that has not started.
    pub fn due(&self, draft: &Draft<'_>) -> Vec<&'a ReplicatedJob> {
        let set = self.seen.set;
        let all = set.jobs.iter().enumerate().filter(|(at, of)| {
            startup::may_start(set, &draft.status, of)
                && !(set.in_order && startup::has_started(&draft.status, *at, of))
        });
        let most = if set.in_order { 1 } else { usize::MAX };
        all.map(|(_, of)| of).take(most).collect()
    }

    /// The Job as it would be made now.
    fn wanted(&self, child: &Child<'_>) -> Tree {
        let of = child.group.and_then(|name| self.jobs.get(name).copied());
        match of.zip(child.index()) {
            Some((of, index)) => self.builder.job(of, index),
            None => child.tree.clone(),
        }
    }
}

/// What lets a Job go on; `None` while its template may not change yet: its own controller has not suspended it.
fn resumed(child: &Child<'_>, wanted: &Tree) -> Option<Tree> {
    let waits = build::resume_template(child.tree, wanted).is_some() && !child.is_suspended();
    (!waits).then(|| build::resume(child.tree, wanted))
}
