//! Which Jobs are made now: what waits for others, and what starts in order.

use std::collections::BTreeSet;

use muster_api::condition::Wanted;
use muster_api::event::Severity;
use muster_api::jobset::{JobSetFacts, JobSetStatus, ReplicatedJob, Strategy, names};
use muster_api::words::jobset::conditions;
use muster_tree::Text;

use super::draft::Draft;
use super::{Action, Held, JOBS_PER_LOOK_MAX, Pass, RETRY, reasons};

/// Makes the Jobs that are missing and may be.
pub fn create<'a>(pass: &mut Pass<'a>, draft: &mut Draft<'_>, may_create: bool) {
    let set = pass.seen.set;
    let blocked = set.strategy() == Strategy::BlockingRecreate && !pass.sorted.previous.is_empty();
    let there: BTreeSet<&Text> = pass.seen.children.iter().map(|it| &it.this.name).collect();
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
            missing(pass, of, &there, &mut jobs);
        }
        if ordered {
            in_progress(draft);
            all_started = false;
            break;
        }
    }
    if jobs.len() == JOBS_PER_LOOK_MAX {
        pass.steps.push(Action::LookAgain(pass.seen.now));
    }
    let jobs = pass.with_gangs(jobs);
    if !jobs.is_empty() {
        let jobs = jobs.into_iter().map(|(of, index)| pass.builder.job(of, index)).collect();
        pass.creates.push(Action::CreateJobs(jobs));
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
        let other = set.jobs.iter().position(|it| it.name == dependency.on);
        other.is_some_and(|at| match dependency.complete {
            true => status.jobs[at].succeeded == set.jobs[at].replicas,
            false => has_started(status, at, &set.jobs[at]),
        })
    })
}

/// Whether all Jobs of the replicatedJob at this place are ready or have ended.
pub fn has_started(status: &JobSetStatus, at: usize, of: &ReplicatedJob) -> bool {
    let is = &status.jobs[at];
    is.ready + is.failed + is.succeeded == of.replicas
}

/// The Jobs of a replicatedJob that are not there, but for those whose names are another's; no more than may be made
/// in one go.
fn missing<'a>(
    pass: &mut Pass<'_>,
    of: &'a ReplicatedJob,
    there: &BTreeSet<&Text>,
    jobs: &mut Vec<(&'a ReplicatedJob, u32)>,
) {
    let name = |index: u32| names::job(&pass.seen.set.name, &of.name, index);
    let room = JOBS_PER_LOOK_MAX - jobs.len();
    let wanted = (0..of.replicas).map(|index| (index, name(index))).filter(|(_, name)| !there.contains(name));
    let wanted: Vec<(u32, Text)> = wanted.take(room).collect();
    if wanted.is_empty() || !pass.may_have_devices(of) {
        return;
    }
    for (index, name) in wanted {
        match pass.seen.around.job(&name) {
            None if pass.may_have_claims(of, &name) => jobs.push((of, index)),
            None => {}
            Some(held) if pass.is_conflict("job", &name, &held) => {}
            // It goes by itself.
            Some(held) if held.deleting => pass.steps.push(Action::LookAgain(pass.seen.now + RETRY)),
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
}

/// Whose an object is, in words.
pub fn of_whom(held: &Held) -> String {
    match &held.controller {
        Some(owner) => format!("controlled by {} {} ({})", owner.kind, owner.name, owner.uid),
        None => match &held.jobset {
            Some(name) => format!("labelled as that of JobSet {name}"),
            None => "controlled by no object".to_owned(),
        },
    }
}
