//! Why a patch could not be applied, and which answer that is on the wire.

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not one at all, or names something that the kind does not have: 400 `BadRequest`.
    #[error("{0}")]
    Malformed(String),
    /// The patch is well formed but does not fit the object: 422 `Invalid` without details. The first words are
    /// what clients know from other servers; the rest says what did not fit.
    #[error("the server rejected our request due to an error in our request: {0}")]
    Unfit(String),
    /// More operations than one patch may have: 413 `RequestEntityTooLarge`.
    #[error("Request entity too large: {0}")]
    TooLarge(String),
    /// The patch contradicts itself: 500 `InternalError`, as other servers answer it.
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
