//! Differential tests: the same requests to our server and to a real kube-apiserver, with the answers compared.
//!
//! Scenarios are data (`tests/scenarios/*.yaml`): lists of requests, each scenario in a namespace of its own. Answers are normalised (UIDs,
//! timestamps and resource versions become placeholders that keep their identity) and must then be equal: code, warnings, body, and
//! for watches every event in order.
//!
//! # Invariants
//!
//! - kube-apiserver is the reference: every difference is a bug of ours, or it is listed with its reason in
//!   `tests/scenarios/differences.yaml`.

mod client;
mod compare;
mod normalise;
mod report;
mod scenario;
mod socket;

pub use client::{AnswerFault, ApiClient, HttpAnswer, run_scenario};
pub use compare::{Difference, KnownDifference, compare, compare_trees};
pub use normalise::Normaliser;
pub(crate) use normalise::{first_uid, is_time, is_uid};
pub use report::{
    DifferenceTally, DifferentialReport, Finding, compare_scenarios, differences, known_differences,
};
pub use scenario::{RequestScenario, RequestStep, load};
