//! Workloads and PodGroups of a JobSet: created before their Jobs, resized with them, deleted when no Job uses them.

use std::collections::BTreeSet;

use muster_api::event::EventType;
use muster_api::gang_objects::consts as gang_words;
use muster_api::jobset::ReplicatedJob;
use muster_api::meta;
use muster_tree::Tree;

use super::{CreatedObject, JobSetAction, RETRY, Reconciliation};
use crate::child_jobs::ObjectRef;
use crate::gangs::{self, Creation, GangLayout, GangSlot};

impl<'a> Reconciliation<'a> {
    /// Computes the gangs of the JobSet, reports an invalid annotation, and deletes orphaned PodGroups.
    pub fn lay_out_gangs(&mut self) {
        let seen = self.snapshot;
        let (together, told) = gangs::resolve_scope(seen.set, seen.groups.is_some());
        for (reason, message) in told {
            self.steps.push(JobSetAction::EmitEventOnce(EventType::Warning, reason.into(), message));
        }
        let Some((together, groups)) = together.zip(seen.groups) else { return };
        let layout = GangLayout::new(seen.set, together, groups, seen.lister, &self.child_jobs);
        let over: Vec<ObjectRef> =
            layout.orphaned(seen.children).iter().map(|it| ObjectRef::of(&it.tree)).collect();
        if let (Some(kind), false) = (groups.gangs.api.groups(), over.is_empty()) {
            self.steps.push(JobSetAction::DeleteGroups(kind.clone(), over));
        }
        self.builder.gangs = Some(layout);
    }

    /// Updates `minCount` of the gangs before their Jobs are resized.
    pub fn resize_gangs(&mut self) {
        let Some(layout) = &self.builder.gangs else { return };
        let form = layout.gangs().api;
        for (object, is_workload, patch) in layout.resizes(&self.child_jobs) {
            let kind = if is_workload { Some(form.workloads()) } else { form.groups() };
            let Some(kind) = kind else { continue };
            self.steps.push(JobSetAction::Resize(kind.clone(), Box::new(object.clone()), patch));
        }
    }

    /// Creates the gangs of new and of existing Jobs; returns the Jobs that may be created now.
    pub fn with_gangs(&mut self, jobs: Vec<(&'a ReplicatedJob, u32)>) -> Vec<(&'a ReplicatedJob, u32)> {
        let Some(layout) = self.builder.gangs.take() else { return jobs };
        let jobs = self.make_gangs(&layout, jobs);
        self.builder.gangs = Some(layout);
        jobs
    }

    fn make_gangs(
        &mut self,
        layout: &GangLayout<'a>,
        mut jobs: Vec<(&'a ReplicatedJob, u32)>,
    ) -> Vec<(&'a ReplicatedJob, u32)> {
        let form = layout.gangs().api;
        let joins = |(of, index): &(&ReplicatedJob, u32)| layout.member(of, *index).is_some();
        let mut places: BTreeSet<GangSlot> = layout.active_slots(&self.child_jobs).collect();
        places.extend(jobs.iter().filter(|it| joins(it)).map(|(of, index)| layout.slot(of, *index)));
        if places.is_empty() {
            return jobs;
        }
        // PodGroups follow in the next reconciliation: they reference the UID of the Workload.
        match layout.make_workload() {
            Creation::NotNeeded => {}
            make => {
                let made = self.made(make, gang_words::WORKLOAD_CREATED, gang_words::WORKLOAD_KIND);
                self.creates
                    .extend(made.map(|made| JobSetAction::CreateGangs(form.workloads().clone(), vec![made])));
                jobs.retain(|it| !joins(it));
                return jobs;
            }
        }
        let (mut all, mut closed) = (Vec::new(), BTreeSet::new());
        for place in places {
            match layout.make_group(&place) {
                Creation::NotNeeded => {}
                make @ Creation::Create(..) => {
                    all.extend(self.made(make, gang_words::GROUP_CREATED, gang_words::GROUP_KIND));
                }
                make @ Creation::Blocked(_) => {
                    self.made(make, gang_words::GROUP_CREATED, gang_words::GROUP_KIND);
                    closed.insert(place);
                }
            }
        }
        if let (Some(kind), false) = (form.groups(), all.is_empty()) {
            self.creates.push(JobSetAction::CreateGangs(kind.clone(), all));
        }
        jobs.retain(|it| !joins(it) || !closed.contains(&layout.slot(it.0, it.1)));
        jobs
    }

    /// The object to create, if any; a name conflict is reported as a stall.
    fn made(&mut self, make: Creation, reason: &'static str, word: &str) -> Option<CreatedObject> {
        let told = |object: &Tree| Some((reason, format!("Created {word} {}", meta::name(object))));
        match make {
            Creation::NotNeeded => None,
            Creation::Create(object, conflict) => {
                let conflict = conflict.map(|message| {
                    JobSetAction::EmitEventOnce(EventType::Warning, gang_words::NAME_CONFLICT.into(), message)
                });
                self.steps.extend(conflict);
                Some(CreatedObject { event: told(&object), object: *object })
            }
            Creation::Blocked(Some(message)) => {
                self.report_stall(gang_words::NAME_CONFLICT, message);
                None
            }
            // The existing object is terminating.
            Creation::Blocked(None) => {
                self.steps.push(JobSetAction::RequeueAt(self.snapshot.now + RETRY));
                None
            }
        }
    }
}
