//! The shell around the decisions: which calls are made, what is told and kept, and what crashes and refusals change.

mod bench;
mod bounds;
mod lives;
mod made;
mod refusals;
