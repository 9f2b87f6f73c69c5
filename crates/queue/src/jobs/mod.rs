//! Jobs in queues: what stands behind a Workload, and how it is started and stopped.
//!
//! [`work`] says what every kind of job supplies; [`batch`] and [`jobset`] supply it. [`plan`] decides what a job needs
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
pub mod work;
