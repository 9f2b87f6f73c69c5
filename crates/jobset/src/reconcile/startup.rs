//! The startup policy and `dependsOn`: which Jobs are created now.

use std::collections::BTreeSet;

use muster_api::condition::DesiredCondition;
use muster_api::consts::jobset::conditions;
use muster_api::event::EventType;
use muster_api::jobset::{JobSetFacts, JobSetStatus, ReplicatedJob, RestartStrategy, names};
use muster_tree::Text;

use super::status_update::StatusUpdate;
use super::{ExistingObject, JOBS_PER_LOOK_MAX, JobSetAction, RETRY, Reconciliation, reasons};

/// Creates the missing Jobs that may start.
pub fn create_missing_jobs<'a>(
    pass: &mut Reconciliation<'a>,
    draft: &mut StatusUpdate<'_>,
    may_create: bool,
) {
    let set = pass.snapshot.set;
    // `BlockingRecreate`: no Job of the new attempt is created before all Jobs of the old one are gone.
    let blocked = set.strategy() == RestartStrategy::BlockingRecreate && !pass.child_jobs.previous.is_empty();
    let there: BTreeSet<&Text> = pass.snapshot.children.iter().map(|it| &it.object_ref.name).collect();
    let mut jobs: Vec<(&'a ReplicatedJob, u32)> = Vec::new();
    let mut all_started = true;
    for (at, of) in set.jobs.iter().enumerate() {
        if !may_start(set, &draft.status, of) {
            all_started = false;
            continue;
        }
        let ordered = set.in_order && !set.suspend;
        if ordered && has_started(&draft.status, at, of) {
            continue;
        }
        if may_create && !blocked {
            missing_jobs(pass, of, &there, &mut jobs);
        }
        if ordered {
            in_progress(draft);
            all_started = false;
            break;
        }
    }
    // The rest follows in the next reconciliation.
    if jobs.len() == JOBS_PER_LOOK_MAX {
        pass.steps.push(JobSetAction::RequeueAt(pass.snapshot.now));
    }
    let jobs = pass.with_gangs(jobs);
    if !jobs.is_empty() {
        let jobs = jobs.into_iter().map(|(of, index)| pass.builder.job(of, index)).collect();
        pass.creates.push(JobSetAction::CreateJobs(jobs));
    }
    if set.in_order && !set.suspend && all_started && !set.jobs.is_empty() {
        let message = "in order startup policy has completed";
        let reason = "InOrderStartupPolicyCompleted";
        draft.set(
            EventType::Normal,
            &DesiredCondition { condition_type: conditions::STARTED, status: true, reason, message },
        );
    }
}

/// Sets the `StartupPolicyInProgress` condition.
fn in_progress(draft: &mut StatusUpdate<'_>) {
    let message = "in order startup policy is in progress";
    let reason = "InOrderStartupPolicyInProgress";
    draft.set(
        EventType::Normal,
        &DesiredCondition { condition_type: conditions::STARTING, status: true, reason, message },
    );
}

/// Whether all dependencies of a replicatedJob are satisfied.
pub fn may_start(set: &JobSetFacts, status: &JobSetStatus, of: &ReplicatedJob) -> bool {
    of.depends_on.iter().all(|dependency| {
        let other = set.jobs.iter().position(|it| it.name == dependency.replicated_job);
        other.is_some_and(|at| match dependency.complete {
            true => status.jobs[at].succeeded == set.jobs[at].replicas,
            false => has_started(status, at, &set.jobs[at]),
        })
    })
}

/// Whether all Jobs of a replicatedJob are ready or finished.
pub fn has_started(status: &JobSetStatus, at: usize, of: &ReplicatedJob) -> bool {
    let is = &status.jobs[at];
    is.ready + is.failed + is.succeeded == of.replicas
}

/// Collects the missing Jobs of a replicatedJob, up to the limit per reconciliation. A Job whose name is taken is
/// reported as a stall.
fn missing_jobs<'a>(
    pass: &mut Reconciliation<'_>,
    of: &'a ReplicatedJob,
    there: &BTreeSet<&Text>,
    jobs: &mut Vec<(&'a ReplicatedJob, u32)>,
) {
    let name = |index: u32| names::job(&pass.snapshot.set.name, &of.name, index);
    let room = JOBS_PER_LOOK_MAX - jobs.len();
    let wanted = (0..of.replicas).map(|index| (index, name(index))).filter(|(_, name)| !there.contains(name));
    let wanted: Vec<(u32, Text)> = wanted.take(room).collect();
    if wanted.is_empty() || !pass.devices_available(of) {
        return;
    }
    for (index, name) in wanted {
        match pass.snapshot.lister.job(&name) {
            None if pass.claim_names_free(of, &name) => jobs.push((of, index)),
            None => {}
            Some(held) if pass.is_conflict("job", &name, &held) => {}
            // The existing Job is terminating.
            Some(held) if held.deleting => {
                pass.steps.push(JobSetAction::RequeueAt(pass.snapshot.now + RETRY));
            }
            Some(held) => {
                let message = format!(
                    "job {:?} creation failed with error: a job of this name is {}",
                    name.as_str(),
                    ownership(&held)
                );
                pass.report_stall(reasons::JOB_CREATION_FAILED, message);
            }
        }
    }
}

/// The owner of an object, for messages.
pub fn ownership(held: &ExistingObject) -> String {
    match &held.controller {
        Some(owner) => format!("controlled by {} {} ({})", owner.kind, owner.name, owner.uid),
        None => match &held.jobset {
            Some(name) => format!("labelled as that of JobSet {name}"),
            None => "controlled by no object".to_owned(),
        },
    }
}
