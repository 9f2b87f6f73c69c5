//! Stalls without a failed request: Jobs that do not terminate, and references to missing claims.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::jobset::ReplicatedJob;
use muster_api::meta;
use muster_api::paths::{job as job_path, meta as meta_path, pod, pod_claim, pod_volume};
use muster_api::time::Time;
use muster_tree::Text;

use super::{JobSetAction, Reconciliation, reasons};
use crate::child_jobs::ChildJob;

/// Time for a deleted Job to terminate, in addition to the termination_grace period of its pods.
const TERMINATION_SLACK: Duration = Duration::from_secs(60);
/// The API default of `terminationGracePeriodSeconds`.
const GRACE_SECS: u64 = 30;
/// The finalizer of foreground deletion.
const FOREGROUND_DELETION: &str = "foregroundDeletion";

impl Reconciliation<'_> {
    /// Reports deleted Jobs that are still terminating: their names are not free.
    pub fn report_terminating_jobs(&mut self) {
        let seen = self.snapshot;
        let (mut late, mut next) = (Vec::new(), None::<Time>);
        for child in seen.children.iter().filter(|it| it.deleting) {
            let Some(since) = meta::deletion_timestamp(child.tree) else { continue };
            let by = since + termination_grace(child) + TERMINATION_SLACK;
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
                child.object_ref.name.as_str(),
                since.to_seconds_text(),
                self.deletion_blocker(child)
            );
            self.report_stall(reasons::JOB_TERMINATING, message);
        }
        self.steps.extend(next.map(JobSetAction::RequeueAt));
    }

    /// Why a deleted Job is still terminating.
    fn deletion_blocker(&self, child: &ChildJob<'_>) -> String {
        if let Some((kind, name)) = self.snapshot.lister.remaining_dependent(&child.object_ref.uid) {
            return format!("{kind} {name} of it is not gone");
        }
        let held = child.tree.items_at(meta_path::FINALIZERS).iter().filter_map(|it| it.as_str());
        let held: Vec<&str> = held.filter(|it| *it != FOREGROUND_DELETION).collect();
        match held.is_empty() {
            true => "what it owns is not gone".to_owned(),
            false => format!("its finalizers are {}", held.join(", ")),
        }
    }

    /// Reports missing claims that pods of unready Jobs reference.
    pub fn report_missing_claims(&mut self) {
        if self.snapshot.set.suspend {
            return;
        }
        // Suspended Jobs have no pods, and terminating ones need none.
        let waits = |it: &&&ChildJob<'_>| !it.suspend && !it.deleting;
        let waiting: BTreeSet<&str> = self
            .child_jobs
            .active
            .iter()
            .filter(waits)
            .filter_map(|it| {
                let of = self.jobs.get(it.group?)?;
                (it.ready_or_succeeded < of.pods()).then_some(of.name.as_str())
            })
            .collect();
        let of = self.snapshot.set.jobs.iter().filter(|of| waiting.contains(of.name.as_str()));
        let absent: Vec<String> = of.flat_map(|of| self.missing_claims(of)).collect();
        absent.into_iter().for_each(|message| self.report_stall(reasons::CLAIM_NOT_FOUND, message));
    }

    fn missing_claims(&self, of: &ReplicatedJob) -> Vec<String> {
        let Some(pods) = of.template.at(job_path::TEMPLATE) else { return Vec::new() };
        let around = self.snapshot.lister;
        let named = |kind: &str, name: &Text| {
            format!("{kind} {name}, which pods of replicatedJob {} name, does not exist", of.name)
        };
        let volumes = pods.items_at(pod::VOLUMES).iter().filter_map(|it| it.at(pod_volume::CLAIM)?.as_text());
        let volumes = volumes.filter(|name| around.volume_claim(name).is_none());
        let devices = pods.items_at(pod::CLAIMS).iter().filter_map(|it| it.at(pod_claim::CLAIM)?.as_text());
        let devices =
            devices.filter(|name| self.snapshot.claims.is_some() && around.device_claim(name).is_none());
        let volumes = volumes.map(|name| named("PersistentVolumeClaim", name));
        volumes.chain(devices.map(|name| named("ResourceClaim", name))).collect()
    }
}

/// The termination termination_grace period of the pods of a Job.
fn termination_grace(child: &ChildJob<'_>) -> Duration {
    let said = child.tree.int_at(&["spec", "template", "spec", "terminationGracePeriodSeconds"]);
    Duration::from_secs(said.and_then(|it| u64::try_from(it).ok()).unwrap_or(GRACE_SECS))
}
