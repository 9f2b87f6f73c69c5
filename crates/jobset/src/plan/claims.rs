//! Devices that the pods of one Job share.

use muster_api::event::Severity;
use muster_api::jobset::{ClaimTemplate, ReplicatedJob, names};
use muster_api::port::Uid;
use muster_tree::Text;

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

    /// Makes the claims of Jobs that run.
    pub fn claims(&mut self) {
        let Some(kind) = self.seen.claims.filter(|_| self.seen.gates.claim_templates) else { return };
        let (mut made, mut strange, mut going) = (Vec::new(), Vec::new(), false);
        for child in self.sorted.active.iter().filter(|it| !it.suspend && !it.deleting) {
            for template in self.templates(child) {
                match self.claim(child, template) {
                    (name, None) => made.push(Made {
                        object: self.builder.device_claim(kind, child.tree, template),
                        told: Some((reasons::DEVICE_CLAIM_CREATED, format!("Created ResourceClaim {name}"))),
                    }),
                    (name, Some(held)) if !held.deleting && !is_of(&held, &child.this.uid) => {
                        strange.push(format!(
                            "ResourceClaim {name} exists and is not owned by Job {}: it is {}",
                            child.this.name,
                            startup::of_whom(&held)
                        ));
                    }
                    // It goes by itself, and ours follows.
                    (_, Some(held)) if held.deleting => going = true,
                    _ => {}
                }
            }
        }
        if going {
            self.steps.push(Action::LookAgain(self.seen.now + RETRY));
        }
        strange.into_iter().for_each(|message| self.wait(reasons::DEVICE_CLAIM_FAILED, message));
        if !made.is_empty() {
            self.creates.push(Action::CreateClaims(made));
        }
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

fn is_of(held: &Held, job: &Uid) -> bool {
    held.controller.as_ref().is_some_and(|owner| owner.uid == *job)
}
