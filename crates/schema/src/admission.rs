//! What is answered when somebody is asked about a write, in process or as a webhook.

use muster_tree::Tree;

use crate::error::FieldError;

/// What is answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// The object with changes; `None` when there are none.
    pub changed: Option<Tree>,
    /// Everything that is wrong with fields: the write is refused with 422.
    pub problems: Vec<FieldError>,
    /// Why it is refused for another reason, with 403.
    pub refused: Option<String>,
    /// What the client should hear.
    pub warnings: Vec<String>,
}
