//! Volumes that all Jobs share.

use muster_api::jobset::names;

use super::{Action, Made, Pass, reasons, startup};

impl Pass<'_> {
    /// Makes the claims that are missing; whether Jobs may be made. A claim that is another's, or about to go, is not
    /// used: what it holds would go with its owner.
    pub fn volumes(&mut self) -> bool {
        let set = self.seen.set;
        let (mut made, mut usable) = (Vec::new(), true);
        for template in &set.volumes {
            let name = names::volume_claim(&template.name, &set.name);
            let Some(held) = self.seen.around.volume_claim(&name) else {
                let told = Some((reasons::CLAIM_CREATED, format!("Created PVC {name}")));
                made.push(Made { object: self.builder.volume_claim(template), told });
                continue;
            };
            // A retained claim has no owner: the label says whose data it is.
            let stranger = match &held.controller {
                Some(owner) => owner.uid != set.uid,
                None => held.jobset.as_ref().is_some_and(|name| *name != set.name),
            };
            if stranger || held.deleting {
                let why = match stranger {
                    true => format!("it exists and is {}", startup::of_whom(&held)),
                    false => "it is being deleted".to_owned(),
                };
                self.wait(reasons::CLAIM_FAILED, format!("Failed to create PVC {name}: {why}"));
                usable = false;
            }
        }
        if !made.is_empty() {
            self.creates.push(Action::CreateVolumeClaims(made));
        }
        usable
    }
}
