//! Job integrations: what a Workload is created from, and how a job is started and stopped.
//!
//! [`work`] defines what an integration implements; [`batch`], [`jobset`] and [`trainjob`] implement it.
//! [`plan`] is the job reconciler, [`admit`] defaults and validates jobs. [`naming`], [`construct`],
//! [`requests`], [`infos`], [`priority`] and [`ancestors`] are also used by the pod integration.
//!
//! # Guarantees
//!
//! - A job runs only while an equivalent Workload is admitted.
//! - What a start adds to pod templates, a stop removes: the templates end up as the user wrote them.
//! - Every action is idempotent, and the process may crash after any of them.

pub mod batch;
pub mod construct;
pub mod equivalence;
pub mod generic_job;
pub mod jobset;
pub mod naming;
pub mod owner_chain;
pub mod podset_info;
pub mod priority;
pub mod reconciler;
pub mod requests;
pub mod trainjob;
pub mod webhook;

use muster_tree::Tree;

use generic_job::{GenericJob, JobKind};

/// The kinds of jobs that can be queued.
pub const KINDS: [JobKind; 3] = [batch::NAMED, jobset::NAMED, trainjob::NAMED];

/// The job behind an object of one of [`KINDS`] that is read without lookups: a TrainJob needs its runtime.
#[must_use]
pub fn generic_job_of<'a>(group: &str, kind: &str, object: &'a Tree) -> Option<Box<dyn GenericJob + 'a>> {
    let is = |named: JobKind| (named.group, named.kind) == (group, kind);
    if is(batch::NAMED) {
        return Some(Box::new(batch::BatchJob::of(object)));
    }
    if is(jobset::NAMED) {
        return Some(Box::new(jobset::QueuedJobSet::of(object)));
    }
    None
}
