//! Which Jobs are made now: what waits for others, and what starts in order.

use muster_api::condition::Wanted;
use muster_api::event::Severity;
use muster_api::jobset::{JobSetFacts, JobSetStatus, ReplicatedJob, Strategy, names};
use muster_api::words::jobset::conditions;
use muster_tree::Tree;

use super::draft::Draft;
use super::{Action, Held, Pass, reasons};

/// Makes the Jobs that are missing and may be.
pub fn create(pass: &mut Pass<'_>, draft: &mut Draft<'_>, may_create: bool) {
    let set = pass.seen.set;
    let blocked = set.strategy() == Strategy::BlockingRecreate && !pass.sorted.previous.is_empty();
    let mut jobs = Vec::new();
    let mut all_started = true;
    for of in &set.jobs {
        if !may_start(set, &draft.status, of) {
            all_started = false;
            continue;
        }
        let ordered = set.in_order && !set.suspend;
        if ordered && has_started(&draft.status, of) {
            continue;
        }
        if may_create && !blocked && pass.may_have_devices(of) {
            jobs.extend(missing(pass, of));
        }
        if ordered {
            in_progress(draft);
            all_started = false;
            break;
        }
    }
    if !jobs.is_empty() {
        pass.steps.push(Action::CreateJobs(jobs));
    }
    if set.in_order && !set.suspend && all_started && !set.jobs.is_empty() {
        let message = "in order startup policy has completed";
        let reason = "InOrderStartupPolicyCompleted";
        draft.set(Severity::Normal, &Wanted { kind: conditions::STARTED, holds: true, reason, message });
    }
}

/// Says that replicatedJobs start one after the other.
fn in_progress(draft: &mut Draft<'_>) {
    let message = "in order startup policy is in progress";
    let reason = "InOrderStartupPolicyInProgress";
    draft.set(Severity::Normal, &Wanted { kind: conditions::STARTING, holds: true, reason, message });
}

/// Whether everything a replicatedJob waits for is there.
pub fn may_start(set: &JobSetFacts, status: &JobSetStatus, of: &ReplicatedJob) -> bool {
    of.depends_on.iter().all(|dependency| {
        let Some(other) = set.job(&dependency.on) else { return false };
        let Some(is) = status.job(&dependency.on) else { return false };
        if dependency.complete { is.succeeded == other.replicas } else { has_started(status, other) }
    })
}

/// Whether all Jobs of a replicatedJob are ready or have ended.
pub fn has_started(status: &JobSetStatus, of: &ReplicatedJob) -> bool {
    status.job(&of.name).is_some_and(|is| is.ready + is.failed + is.succeeded == of.replicas)
}

/// The Jobs of a replicatedJob that are not there, but for those whose names are another's.
fn missing(pass: &mut Pass<'_>, of: &ReplicatedJob) -> Vec<Tree> {
    let there = pass.names();
    let name = |index: u32| names::job(&pass.seen.set.name, &of.name, index);
    let wanted: Vec<u32> = (0..of.replicas).filter(|index| !there.contains(&name(*index))).collect();
    let mut jobs = Vec::new();
    for index in wanted {
        let name = names::job(&pass.seen.set.name, &of.name, index);
        match pass.seen.around.job(&name) {
            None => jobs.push(pass.builder.job(of, index)),
            Some(held) if pass.is_conflict("job", &name, &held) => {}
            // One of ours whose owner was taken off, or that of a namesake: it goes by itself, or somebody must help.
            Some(held) if held.deleting => {}
            Some(held) => {
                let message = format!(
                    "job {:?} creation failed with error: a job of this name is {}",
                    name.as_str(),
                    of_whom(&held)
                );
                pass.wait(reasons::JOB_CREATION_FAILED, message);
            }
        }
    }
    jobs
}

/// Whose an object is, in words.
pub fn of_whom(held: &Held) -> String {
    match &held.controller {
        Some(owner) => format!("controlled by {} {} ({})", owner.kind, owner.name, owner.uid),
        None => "controlled by nobody".to_owned(),
    }
}
