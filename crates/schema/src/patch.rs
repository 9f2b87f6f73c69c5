//! Why a patch could not be applied, and which answer that is on the wire.

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not one at all, or names something that the kind does not have: 400 `BadRequest`.
    #[error("{0}")]
    Malformed(String),
    /// The patch is well formed but does not fit the object: 422 `Invalid`. On the wire it has the fixed words that
    /// clients know; what did not fit is for logs and tests.
    #[error("the server rejected our request due to an error in our request")]
    Unfit(String),
    /// More operations than one patch may have: 413 `RequestEntityTooLarge`.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// The patch contradicts itself: 500 without a reason, as other servers answer it.
    #[error("{0}")]
    Confused(String),
}

impl PatchError {
    /// The HTTP code of the answer.
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
