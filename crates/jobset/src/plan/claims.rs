//! Devices that the pods of one Job share.
//!
//! # Guarantees
//!
//! - No pod of a Job runs before each claim of the Job is the Job's own, by UID: the Job is created suspended, since its UID
//!   is what the claims name as their owner, and is resumed when they are there.
//! - A claim of another object is never adopted, changed or deleted.

use std::collections::BTreeSet;

use muster_api::event::Severity;
use muster_api::jobset::{ClaimTemplate, ReplicatedJob, names};
use muster_api::meta::Owner;
use muster_api::port::Uid;
use muster_tree::{Text, tree};

use super::draft::Draft;
use super::{Action, Held, Made, Pass, RETRY, reasons, startup};
use crate::build;
use crate::children::{Child, Ref};

impl Pass<'_> {
    /// Claims of Jobs that have ended go, unless they are to stay with the Job.
    pub fn release_claims(&mut self) {
        let mut gone = Vec::new();
        for child in self.sorted.present().filter(|it| it.ended.is_some()) {
            let templates = self.templates(child).filter(|it| !it.until_deleted);
            gone.extend(templates.filter_map(|it| {
                let (name, held) = self.claim(child, it);
                let held = held.filter(|held| !held.deleting && is_of(held, &child.this.uid))?;
                Some(Ref { name, uid: held.uid })
            }));
        }
        if !gone.is_empty() {
            self.steps.push(Action::DeleteClaims(gone));
        }
    }

    /// Makes the claims of Jobs that run or are about to. A Job whose claim is another object's does not run: it stays, or
    /// is, suspended.
    pub fn claims(&mut self, draft: &Draft<'_>) {
        let Some(kind) = self.seen.claims.filter(|_| self.seen.gates.claim_templates) else { return };
        let due: BTreeSet<&str> = match self.seen.set.suspend {
            true => BTreeSet::new(),
            false => self.due(draft).into_iter().map(|of| of.name.as_str()).collect(),
        };
        let is_due = |it: &&&Child<'_>| !it.suspend || it.group.is_some_and(|name| due.contains(name));
        let (mut made, mut strange, mut halted, mut going) = (Vec::new(), Vec::new(), Vec::new(), false);
        for child in self.sorted.active.iter().filter(|it| !it.deleting).filter(is_due) {
            let before = strange.len();
            for template in self.templates(child) {
                match self.claim(child, template) {
                    (name, None) => made.push(Made {
                        object: self.builder.device_claim(kind, child.tree, template),
                        told: Some((reasons::DEVICE_CLAIM_CREATED, format!("Created ResourceClaim {name}"))),
                    }),
                    // It goes by itself, and ours follows.
                    (_, Some(held)) if held.deleting => going = true,
                    (name, Some(held)) if !is_of(&held, &child.this.uid) => {
                        strange.push(not_owned(&name, &child.this.name, &held));
                    }
                    _ => {}
                }
            }
            if strange.len() > before && !child.suspend {
                halted.push((child.this.clone(), tree!({"spec": {"suspend": true}})));
            }
        }
        if going {
            self.steps.push(Action::LookAgain(self.seen.now + RETRY));
        }
        strange.into_iter().for_each(|message| self.wait(reasons::DEVICE_CLAIM_FAILED, message));
        // A set that is suspended suspends them anyway.
        if !halted.is_empty() && !self.seen.set.suspend {
            self.steps.push(Action::Change(halted));
        }
        if !made.is_empty() {
            self.creates.push(Action::CreateClaims(made));
        }
    }

    /// Whether every claim of a Job is there and its own, so that its pods may run.
    pub fn has_claims(&self, child: &Child<'_>) -> bool {
        self.templates(child).all(|it| {
            let (_, held) = self.claim(child, it);
            held.is_some_and(|held| !held.deleting && is_of(&held, &child.this.uid))
        })
    }

    /// Whether the names of the claims of a Job that is not there yet are free. What another object owns is
    /// reported; what goes by itself is waited for.
    pub fn may_have_claims(&mut self, of: &ReplicatedJob, job: &Text) -> bool {
        let mut is_free = true;
        for template in build::effective(of) {
            let name = names::device_claim(job, &template.name);
            let Some(held) = self.seen.around.device_claim(&name) else { continue };
            is_free = false;
            // Left by an earlier Job of this name, whose deletion takes it along.
            if held.deleting || held.controller.as_ref().is_some_and(|owner| is_job(owner, job)) {
                self.steps.push(Action::LookAgain(self.seen.now + RETRY));
            } else {
                self.wait(reasons::DEVICE_CLAIM_FAILED, not_owned(&name, job, &held));
            }
        }
        is_free
    }

    /// Whether Jobs of a replicatedJob could have their devices: what cannot is not run without them.
    pub fn may_have_devices(&mut self, of: &ReplicatedJob) -> bool {
        for name in of.claims.iter().map(|it| &it.name).filter(|it| build::own_claim(of, it).is_some()) {
            let message =
                format!("pod template of replicatedJob {} overrides resourceClaimTemplate {name}", of.name);
            self.steps.push(Action::NoteOnce(
                Severity::Warning,
                reasons::DEVICE_CLAIM_OVERRIDDEN.into(),
                message,
            ));
        }
        if of.claims.is_empty() {
            return true;
        }
        if !self.seen.gates.claim_templates {
            let message = format!(
                "replicatedJob {} has resourceClaimTemplates, and the JobSetResourceClaimTemplates feature gate is disabled: its jobs are not created",
                of.name
            );
            self.wait(reasons::DEVICE_CLAIMS_DISABLED, message);
            return false;
        }
        if build::effective(of).next().is_some() && self.seen.claims.is_none() {
            let message = format!(
                "resource.k8s.io is not served by this cluster: jobs of replicatedJob {} are not created",
                of.name
            );
            self.wait(reasons::DEVICE_CLAIM_FAILED, message);
            return false;
        }
        true
    }

    fn templates<'b>(&'b self, child: &Child<'_>) -> impl Iterator<Item = &'b ClaimTemplate> + use<'b> {
        let of = child.group.and_then(|name| self.jobs.get(name).copied());
        of.into_iter().flat_map(build::effective)
    }

    fn claim(&self, child: &Child<'_>, template: &ClaimTemplate) -> (Text, Option<Held>) {
        let name = names::device_claim(&child.this.name, &template.name);
        let held = self.seen.around.device_claim(&name);
        (name, held)
    }
}

fn not_owned(claim: &str, job: &str, held: &Held) -> String {
    let whose = startup::of_whom(held);
    format!("ResourceClaim {claim} exists and is not owned by Job {job}: it is {whose}")
}

/// Whether an owner is a Job of this name.
fn is_job(owner: &Owner, name: &str) -> bool {
    owner.kind == "Job" && owner.name == name
}

fn is_of(held: &Held, job: &Uid) -> bool {
    held.controller.as_ref().is_some_and(|owner| owner.uid == *job)
}
