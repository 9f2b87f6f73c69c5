//! Errors of applying a patch, with their HTTP status.

/// Why a patch was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is malformed, or names a field that the kind lacks: 400 `BadRequest`.
    #[error("{0}")]
    Malformed(String),
    /// The patch is well-formed and does not apply to the object: 422 `Invalid`. The wire message is upstream's fixed text;
    /// the cause is for logs and tests.
    #[error("the server rejected our request due to an error in our request")]
    Unfit(String),
    /// Too many operations: 413 `RequestEntityTooLarge`.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// The patch contradicts itself: 500 without a reason, as upstream answers.
    #[error("{0}")]
    Confused(String),
}

impl PatchError {
    /// HTTP status of the response.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Unfit(_) => 422,
            Self::Confused(_) => 500,
        }
    }
}
