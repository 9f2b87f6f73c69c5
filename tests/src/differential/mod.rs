//! The judge: the same requests to our server and to a real kube-apiserver, answers compared.
//!
//! Scenarios are data (`tests/scenarios/*.yaml`): lists of requests, each scenario in a namespace of its own. What comes
//! back is normalised (uids, times and revisions become what they are: names for "the same one as before") and then
//! has to be equal, answer by answer: code, warnings, body, and for watches every event in order.
//!
//! # Invariants
//!
//! - Nothing here knows how either server works. Where they differ the real one is right, or the difference
//!   stands in `tests/scenarios/differences.yaml` with its reason.

mod compare;
mod judge;
mod normalise;
mod play;
mod scenario;
mod socket;

pub use compare::{Difference, Known, compare, compare_trees};
pub use judge::{Finding, Report, Tally, differences, judge, known};
pub use normalise::Normaliser;
pub(crate) use normalise::{first_uid, is_time, is_uid};
pub use play::{Answer, Fault, Server, play};
pub use scenario::{Scenario, Step, load};
