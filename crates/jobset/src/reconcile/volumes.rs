//! PersistentVolumeClaims shared by all Jobs (`volumeClaimPolicies`).

use muster_api::jobset::names;

use super::{CreatedObject, JobSetAction, Reconciliation, reasons, startup};

impl Reconciliation<'_> {
    /// Creates missing claims; whether Jobs may be created. A claim of another owner or a terminating claim is not used: its
    /// data would be deleted with its owner.
    pub fn ensure_volume_claims(&mut self) -> bool {
        let set = self.snapshot.set;
        let (mut made, mut usable) = (Vec::new(), true);
        for template in &set.volumes {
            let name = names::volume_claim(&template.name, &set.name);
            let Some(held) = self.snapshot.lister.volume_claim(&name) else {
                let told = Some((reasons::CLAIM_CREATED, format!("Created PVC {name}")));
                made.push(CreatedObject { object: self.builder.volume_claim(template), event: told });
                continue;
            };
            // A retained claim has no owner reference: its label names the JobSet that the data belongs to.
            let stranger = match &held.controller {
                Some(owner) => owner.uid != set.uid,
                None => held.jobset.as_ref().is_some_and(|name| *name != set.name),
            };
            if stranger || held.deleting {
                let why = match stranger {
                    true => format!("it exists and is {}", startup::ownership(&held)),
                    false => "it is being deleted".to_owned(),
                };
                self.report_stall(reasons::CLAIM_FAILED, format!("Failed to create PVC {name}: {why}"));
                usable = false;
            }
        }
        if !made.is_empty() {
            self.creates.push(JobSetAction::CreateVolumeClaims(made));
        }
        usable
    }
}
