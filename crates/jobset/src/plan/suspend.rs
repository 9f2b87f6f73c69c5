//! Pausing and going on.

use std::collections::BTreeMap;

use muster_api::condition::Wanted;
use muster_api::event::Severity;
use muster_api::words::jobset::conditions;
use muster_tree::{Tree, tree};

use super::draft::Draft;
use super::{Action, Pass, startup};
use crate::build;
use crate::children::{Child, Ref};

impl Pass<'_> {
    /// Suspends every Job that runs.
    pub fn suspend(&mut self, draft: &mut Draft<'_>) {
        let running = self.sorted.active.iter().filter(|it| !it.suspend && !it.deleting);
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
        let set = self.seen.set;
        let (mut changes, mut clear) = (Vec::new(), Vec::new());
        let mut done = true;
        let mut paused: BTreeMap<&str, Vec<&Child<'_>>> = BTreeMap::new();
        for child in self.sorted.active.iter().filter(|it| it.suspend && !it.deleting) {
            paused.entry(child.group.unwrap_or_default()).or_default().push(child);
        }
        for (at, of) in set.jobs.iter().enumerate() {
            if !startup::may_start(set, &draft.status, of) {
                continue;
            }
            if set.in_order && startup::has_started(&draft.status, at, of) {
                continue;
            }
            for child in paused.remove(of.name.as_str()).unwrap_or_default() {
                match resumed(child, &self.wanted(child)) {
                    Some(patch) => {
                        let changes_template = patch.at(&["spec", "template"]).is_some();
                        clear.extend((changes_template && child.has_started()).then(|| child.this.clone()));
                        changes.push((child.this.clone(), patch));
                    }
                    None => done = false,
                }
            }
            if set.in_order {
                done = false;
                break;
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
