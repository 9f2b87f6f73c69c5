//! Gangs of a JobSet: made before their Jobs, as large as these, and gone when nobody is in them any more.

use std::collections::BTreeSet;

use muster_api::event::Severity;
use muster_api::gang_make::words as gang_words;
use muster_api::jobset::ReplicatedJob;
use muster_api::meta;
use muster_tree::Tree;

use super::{Action, Made, Pass, RETRY};
use crate::children::Ref;
use crate::gangs::{self, Layout, Make, Place};

impl<'a> Pass<'a> {
    /// Finds out which gangs there are, tells what is wrong with the wish, and deletes groups that are left over.
    pub fn lay_out_gangs(&mut self) {
        let seen = self.seen;
        let (together, told) = gangs::together(seen.set, seen.groups.is_some());
        for (reason, message) in told {
            self.steps.push(Action::NoteOnce(Severity::Warning, reason.into(), message));
        }
        let Some((together, groups)) = together.zip(seen.groups) else { return };
        let layout = Layout::new(seen.set, together, groups, seen.around, &self.sorted);
        let over: Vec<Ref> = layout.left_over(seen.children).iter().map(|it| Ref::of(&it.tree)).collect();
        if let (Some(kind), false) = (groups.gangs.form.groups(), over.is_empty()) {
            self.steps.push(Action::DeleteGroups(kind.clone(), over));
        }
        self.builder.gangs = Some(layout);
    }

    /// Says how large the gangs are, before pods come or go.
    pub fn resize_gangs(&mut self) {
        let Some(layout) = &self.builder.gangs else { return };
        let form = layout.gangs().form;
        for (object, is_workload, patch) in layout.resizes(&self.sorted) {
            let kind = if is_workload { Some(form.workloads()) } else { form.groups() };
            let Some(kind) = kind else { continue };
            self.steps.push(Action::Resize(kind.clone(), Box::new(object.clone()), patch));
        }
    }

    /// Makes the gangs of new Jobs, and those that Jobs which are there miss; the Jobs that may be made.
    pub fn with_gangs(&mut self, jobs: Vec<(&'a ReplicatedJob, u32)>) -> Vec<(&'a ReplicatedJob, u32)> {
        let Some(layout) = self.builder.gangs.take() else { return jobs };
        let jobs = self.make_gangs(&layout, jobs);
        self.builder.gangs = Some(layout);
        jobs
    }

    fn make_gangs(
        &mut self,
        layout: &Layout<'a>,
        mut jobs: Vec<(&'a ReplicatedJob, u32)>,
    ) -> Vec<(&'a ReplicatedJob, u32)> {
        let form = layout.gangs().form;
        let joins = |(of, index): &(&ReplicatedJob, u32)| layout.member(of, *index).is_some();
        let mut places: BTreeSet<Place> = layout.in_use(&self.sorted).collect();
        places.extend(jobs.iter().filter(|it| joins(it)).map(|(of, index)| layout.place(of, *index)));
        if places.is_empty() {
            return jobs;
        }
        // The groups of a Workload that is being made follow at the next look: some say which one they are of.
        match layout.make_workload() {
            Make::Nothing => {}
            make => {
                let made = self.made(make, gang_words::WORKLOAD_CREATED, gang_words::WORKLOAD_KIND);
                self.creates
                    .extend(made.map(|made| Action::CreateGangs(form.workloads().clone(), vec![made])));
                jobs.retain(|it| !joins(it));
                return jobs;
            }
        }
        let (mut all, mut closed) = (Vec::new(), BTreeSet::new());
        for place in places {
            match layout.make_group(&place) {
                Make::Nothing => {}
                make @ Make::This(..) => {
                    all.extend(self.made(make, gang_words::GROUP_CREATED, gang_words::GROUP_KIND));
                }
                make @ Make::Wait(_) => {
                    self.made(make, gang_words::GROUP_CREATED, gang_words::GROUP_KIND);
                    closed.insert(place);
                }
            }
        }
        if let (Some(kind), false) = (form.groups(), all.is_empty()) {
            self.creates.push(Action::CreateGangs(kind.clone(), all));
        }
        jobs.retain(|it| !joins(it) || !closed.contains(&layout.place(it.0, it.1)));
        jobs
    }

    /// What is made, if anything; what is in the way is told and waited for.
    fn made(&mut self, make: Make, reason: &'static str, word: &str) -> Option<Made> {
        let told = |object: &Tree| Some((reason, format!("Created {word} {}", meta::name(object))));
        match make {
            Make::Nothing => None,
            Make::This(object, conflict) => {
                let conflict = conflict.map(|message| {
                    Action::NoteOnce(Severity::Warning, gang_words::NAME_CONFLICT.into(), message)
                });
                self.steps.extend(conflict);
                Some(Made { told: told(&object), object: *object })
            }
            Make::Wait(Some(message)) => {
                self.wait(gang_words::NAME_CONFLICT, message);
                None
            }
            // It goes by itself.
            Make::Wait(None) => {
                self.steps.push(Action::LookAgain(self.seen.now + RETRY));
                None
            }
        }
    }
}
