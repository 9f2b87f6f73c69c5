//! Jobs in queues: what stands behind a Workload, and how it is started and stopped.
//!
//! [`work`] says what every kind of job supplies; [`batch`], [`jobset`] and [`trainjob`] supply it. [`plan`] decides what a job needs
//! next, [`admit`] what is filled in and refused when one is written. [`naming`], [`construct`], [`requests`], [`infos`],
//! [`priority`] and [`ancestors`] serve plain pods as well.
//!
//! # Invariants
//!
//! - A job runs only while a Workload that is like it is admitted.
//! - What a start adds to templates, a stop takes away: they end up as their user wrote them.
//! - Every step is safe to repeat, and may be the last one before a crash.

pub mod admit;
pub mod ancestors;
pub mod batch;
pub mod construct;
pub mod equal;
pub mod infos;
pub mod jobset;
pub mod naming;
pub mod plan;
pub mod priority;
pub mod requests;
pub mod trainjob;
pub mod work;

use muster_tree::Tree;

use work::{Named, Work};

/// Every kind of job that can be queued.
pub const KINDS: [Named; 3] = [batch::NAMED, jobset::NAMED, trainjob::NAMED];

/// The work behind an object of one of [`KINDS`] that tells all by itself: a TrainJob needs its runtime.
#[must_use]
pub fn work_of<'a>(group: &str, kind: &str, object: &'a Tree) -> Option<Box<dyn Work + 'a>> {
    let is = |named: Named| (named.group, named.kind) == (group, kind);
    if is(batch::NAMED) {
        return Some(Box::new(batch::BatchJob::of(object)));
    }
    if is(jobset::NAMED) {
        return Some(Box::new(jobset::SetOfJobs::of(object)));
    }
    None
}
