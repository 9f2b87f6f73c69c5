//! What keeps a JobSet from making progress without anything being refused: Jobs that do not go, and claims that pods name
//! and that do not exist.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::jobset::ReplicatedJob;
use muster_api::meta;
use muster_api::paths::{job as job_path, meta as meta_path, pod, pod_claim, pod_volume};
use muster_api::time::Time;
use muster_tree::Text;

use super::{Action, Pass, reasons};
use crate::children::Child;

/// How long a deleted Job may take beyond the time that its pods have to end.
const GOES_WITHIN: Duration = Duration::from_secs(60);
/// The time that pods have to end when they say nothing of it.
const GRACE_SECS: u64 = 30;
/// Finalizers with which a Job waits for what it owns.
const WAITS_FOR_OWNED: &str = "foregroundDeletion";

impl Pass<'_> {
    /// Says which deleted Jobs should be gone and are not: their names are not free.
    pub fn lingering(&mut self) {
        let seen = self.seen;
        let (mut late, mut next) = (Vec::new(), None::<Time>);
        for child in seen.children.iter().filter(|it| it.deleting) {
            let Some(since) = meta::deleting(child.tree) else { continue };
            let by = since + grace(child) + GOES_WITHIN;
            if by <= seen.now {
                late.push((child, since));
            } else {
                next = Some(next.map_or(by, |next| next.min(by)));
            }
        }
        if let Some((child, since)) = late.first() {
            let more = match late.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more jobs)"),
            };
            let message = format!(
                "job {:?} was deleted at {} and is still there: {}{more}",
                child.this.name.as_str(),
                since.to_seconds_text(),
                self.what_holds(child)
            );
            self.wait(reasons::JOB_TERMINATING, message);
        }
        self.steps.extend(next.map(Action::LookAgain));
    }

    /// Why a deleted Job is still there.
    fn what_holds(&self, child: &Child<'_>) -> String {
        if let Some((kind, name)) = self.seen.around.remains(&child.this.uid) {
            return format!("{kind} {name} of it is not gone");
        }
        let held = child.tree.items_at(meta_path::FINALIZERS).iter().filter_map(|it| it.as_str());
        let held: Vec<&str> = held.filter(|it| *it != WAITS_FOR_OWNED).collect();
        match held.is_empty() {
            true => "what it owns is not gone".to_owned(),
            false => format!("its finalizers are {}", held.join(", ")),
        }
    }

    /// Says which claims pods of Jobs that are not ready name in vain.
    pub fn absent_claims(&mut self) {
        if self.seen.set.suspend {
            return;
        }
        let waits = |it: &&&Child<'_>| !it.suspend && !it.deleting;
        let waiting: BTreeSet<&str> = self
            .sorted
            .active
            .iter()
            .filter(waits)
            .filter_map(|it| {
                let of = self.jobs.get(it.group?)?;
                (it.ready_or_succeeded < of.pods()).then_some(of.name.as_str())
            })
            .collect();
        let of = self.seen.set.jobs.iter().filter(|of| waiting.contains(of.name.as_str()));
        let absent: Vec<String> = of.flat_map(|of| self.absent(of)).collect();
        absent.into_iter().for_each(|message| self.wait(reasons::CLAIM_NOT_FOUND, message));
    }

    fn absent(&self, of: &ReplicatedJob) -> Vec<String> {
        let Some(pods) = of.template.at(job_path::TEMPLATE) else { return Vec::new() };
        let around = self.seen.around;
        let named = |kind: &str, name: &Text| {
            format!("{kind} {name}, which pods of replicatedJob {} name, does not exist", of.name)
        };
        let volumes = pods.items_at(pod::VOLUMES).iter().filter_map(|it| it.at(pod_volume::CLAIM)?.as_text());
        let volumes = volumes.filter(|name| around.volume_claim(name).is_none());
        let devices = pods.items_at(pod::CLAIMS).iter().filter_map(|it| it.at(pod_claim::CLAIM)?.as_text());
        let devices =
            devices.filter(|name| self.seen.claims.is_some() && around.device_claim(name).is_none());
        let volumes = volumes.map(|name| named("PersistentVolumeClaim", name));
        volumes.chain(devices.map(|name| named("ResourceClaim", name))).collect()
    }
}

/// How long pods of a Job may take to end.
fn grace(child: &Child<'_>) -> Duration {
    let said = child.tree.int_at(&["spec", "template", "spec", "terminationGracePeriodSeconds"]);
    Duration::from_secs(said.and_then(|it| u64::try_from(it).ok()).unwrap_or(GRACE_SECS))
}
