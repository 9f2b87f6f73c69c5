//! From a runtime and a TrainJob to what runs.

use std::fmt;

use muster_tree::Tree;

/// What a TrainJob is made into, in the order in which it is applied: the JobSet comes last, so that what its pods need
/// is there before them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Built {
    /// The objects, each with apiVersion, kind, name, namespace and owner.
    pub objects: Vec<Tree>,
}

/// Why nothing can be made of a TrainJob, in words that fit an event after a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError(pub String);

impl BuildError {
    /// With these words.
    pub fn new(words: impl Into<String>) -> BuildError {
        BuildError(words.into())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}
