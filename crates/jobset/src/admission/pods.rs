//! Pods of JobSets that have places for themselves.

use super::{Answer, Asked};

/// Puts a new pod of a JobSet where its Job has its place.
#[must_use]
pub fn mutate_pod(_asked: &Asked<'_>) -> Answer {
    Answer::default()
}

/// Refuses a new pod that would be elsewhere than the first of its Job.
#[must_use]
pub fn validate_pod(_asked: &Asked<'_>) -> Answer {
    Answer::default()
}
