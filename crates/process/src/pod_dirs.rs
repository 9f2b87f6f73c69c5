//! The directory layout of pods on disk.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A run of a container; each restart is a new run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunId {
    pub pod: String,
    pub container: String,
    /// Restarts before this run.
    pub attempt: u32,
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.pod, self.container, self.attempt)
    }
}

/// Pod directories below one root. Pod names are UIDs and container names are validated: no path escapes.
#[derive(Debug, Clone)]
pub struct PodDirs {
    root: PathBuf,
}

impl PodDirs {
    #[must_use]
    pub fn new(root: PathBuf) -> PodDirs {
        PodDirs { root }
    }

    /// The directory of all pods.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.root.join(uid)
    }

    /// The pod's private hosts file.
    #[must_use]
    pub fn hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("hosts")
    }

    /// The directory of a volume with the lifetime of the pod.
    #[must_use]
    pub fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(name)
    }

    /// The directory of a container with all its runs.
    #[must_use]
    pub fn container(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("containers").join(name)
    }

    /// The directory of one run.
    #[must_use]
    pub fn run(&self, id: &RunId) -> PathBuf {
        self.container(&id.pod, &id.container).join(id.attempt.to_string())
    }
}
