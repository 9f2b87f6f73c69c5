//! ResourceClaims shared by the pods of one Job (`resourceClaimTemplates`).
//!
//! # Guarantees
//!
//! - No pod of a Job runs before every claim of the Job is owned by it (by UID): the claims need the UID of the Job for
//!   their owner reference, so the Job is created suspended and resumed when they exist.
//! - A claim of another object is never adopted, changed or deleted.

use std::collections::BTreeSet;

use muster_api::client::Uid;
use muster_api::event::EventType;
use muster_api::jobset::{ClaimTemplate, ReplicatedJob, names};
use muster_api::meta::OwnerReference;
use muster_tree::{Text, tree};

use super::status_update::StatusUpdate;
use super::{CreatedObject, ExistingObject, JobSetAction, RETRY, Reconciliation, reasons, startup};
use crate::build;
use crate::child_jobs::{ChildJob, ObjectRef};

impl Reconciliation<'_> {
    /// Deletes the claims of finished Jobs, unless the template retains them until the Job is deleted.
    pub fn release_claims(&mut self) {
        let mut gone = Vec::new();
        for child in self.child_jobs.present().filter(|it| it.ended.is_some()) {
            let templates = self.templates(child).filter(|it| !it.until_deleted);
            gone.extend(templates.filter_map(|it| {
                let (name, held) = self.claim(child, it);
                let held = held.filter(|held| !held.deleting && is_of(held, &child.object_ref.uid))?;
                Some(ObjectRef { name, uid: held.uid })
            }));
        }
        if !gone.is_empty() {
            self.steps.push(JobSetAction::DeleteClaims(gone));
        }
    }

    /// Creates the claims of Jobs that run or can start. A Job whose claim is owned by another object is suspended.
    pub fn ensure_claims(&mut self, draft: &StatusUpdate<'_>) {
        let Some(kind) = self.snapshot.claims.filter(|_| self.snapshot.gates.claim_templates) else { return };
        let due: BTreeSet<&str> = match self.snapshot.set.suspend {
            true => BTreeSet::new(),
            false => self.startable(draft).into_iter().map(|of| of.name.as_str()).collect(),
        };
        let is_due = |it: &&&ChildJob<'_>| !it.suspend || it.group.is_some_and(|name| due.contains(name));
        let (mut made, mut strange, mut halted, mut going) = (Vec::new(), Vec::new(), Vec::new(), false);
        for child in self.child_jobs.active.iter().filter(|it| !it.deleting).filter(is_due) {
            let before = strange.len();
            for template in self.templates(child) {
                match self.claim(child, template) {
                    (name, None) => made.push(CreatedObject {
                        object: self.builder.device_claim(kind, child.tree, template),
                        event: Some((reasons::DEVICE_CLAIM_CREATED, format!("Created ResourceClaim {name}"))),
                    }),
                    // Terminating: the claim is created once the name is free.
                    (_, Some(held)) if held.deleting => going = true,
                    (name, Some(held)) if !is_of(&held, &child.object_ref.uid) => {
                        strange.push(not_owned(&name, &child.object_ref.name, &held));
                    }
                    _ => {}
                }
            }
            if strange.len() > before && !child.suspend {
                halted.push((child.object_ref.clone(), tree!({"spec": {"suspend": true}})));
            }
        }
        if going {
            self.steps.push(JobSetAction::RequeueAt(self.snapshot.now + RETRY));
        }
        strange.into_iter().for_each(|message| self.report_stall(reasons::DEVICE_CLAIM_FAILED, message));
        // A suspended JobSet suspends its Jobs anyway.
        if !halted.is_empty() && !self.snapshot.set.suspend {
            self.steps.push(JobSetAction::PatchJobs(halted));
        }
        if !made.is_empty() {
            self.creates.push(JobSetAction::CreateClaims(made));
        }
    }

    /// Whether every claim of a Job exists and is owned by it, so that its pods may run.
    pub fn has_claims(&self, child: &ChildJob<'_>) -> bool {
        self.templates(child).all(|it| {
            let (_, held) = self.claim(child, it);
            held.is_some_and(|held| !held.deleting && is_of(&held, &child.object_ref.uid))
        })
    }

    /// Whether the claim names of a Job to be created are free. A claim of another owner is reported as a stall; a
    /// terminating one is waited for.
    pub fn claim_names_free(&mut self, of: &ReplicatedJob, job: &Text) -> bool {
        let mut is_free = true;
        for template in build::effective(of) {
            let name = names::device_claim(job, &template.name);
            let Some(held) = self.snapshot.lister.device_claim(&name) else { continue };
            is_free = false;
            // Of an earlier Job of this name: it is garbage collected with that Job.
            if held.deleting || held.controller.as_ref().is_some_and(|owner| is_job(owner, job)) {
                self.steps.push(JobSetAction::RequeueAt(self.snapshot.now + RETRY));
            } else {
                self.report_stall(reasons::DEVICE_CLAIM_FAILED, not_owned(&name, job, &held));
            }
        }
        is_free
    }

    /// Whether Jobs of a replicatedJob can get their claims; otherwise they are not created.
    pub fn devices_available(&mut self, of: &ReplicatedJob) -> bool {
        for name in of.claims.iter().map(|it| &it.name).filter(|it| build::own_claim(of, it).is_some()) {
            let message =
                format!("pod template of replicatedJob {} overrides resourceClaimTemplate {name}", of.name);
            self.steps.push(JobSetAction::EmitEventOnce(
                EventType::Warning,
                reasons::DEVICE_CLAIM_OVERRIDDEN.into(),
                message,
            ));
        }
        if of.claims.is_empty() {
            return true;
        }
        if !self.snapshot.gates.claim_templates {
            let message = format!(
                "replicatedJob {} has resourceClaimTemplates, and the JobSetResourceClaimTemplates feature gate is disabled: its jobs are not created",
                of.name
            );
            self.report_stall(reasons::DEVICE_CLAIMS_DISABLED, message);
            return false;
        }
        if build::effective(of).next().is_some() && self.snapshot.claims.is_none() {
            let message = format!(
                "resource.k8s.io is not served by this cluster: jobs of replicatedJob {} are not created",
                of.name
            );
            self.report_stall(reasons::DEVICE_CLAIM_FAILED, message);
            return false;
        }
        true
    }

    fn templates<'b>(&'b self, child: &ChildJob<'_>) -> impl Iterator<Item = &'b ClaimTemplate> + use<'b> {
        let of = child.group.and_then(|name| self.jobs.get(name).copied());
        of.into_iter().flat_map(build::effective)
    }

    fn claim(&self, child: &ChildJob<'_>, template: &ClaimTemplate) -> (Text, Option<ExistingObject>) {
        let name = names::device_claim(&child.object_ref.name, &template.name);
        let held = self.snapshot.lister.device_claim(&name);
        (name, held)
    }
}

fn not_owned(claim: &str, job: &str, held: &ExistingObject) -> String {
    let whose = startup::ownership(held);
    format!("ResourceClaim {claim} exists and is not owned by Job {job}: it is {whose}")
}

/// Whether an owner is a Job of this name.
fn is_job(owner: &OwnerReference, name: &str) -> bool {
    owner.kind == "Job" && owner.name == name
}

fn is_of(held: &ExistingObject, job: &Uid) -> bool {
    held.controller.as_ref().is_some_and(|owner| owner.uid == *job)
}
