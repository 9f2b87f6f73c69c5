//! Where everything of a pod is on disk.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One run of one container: a restart is another run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Id {
    /// The pod's UID.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// How often it was restarted before.
    pub attempt: u32,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.pod, self.container, self.attempt)
    }
}

/// The folders below one root. Names of pods are UIDs, names of containers were checked by the server: neither leads out.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Everything below `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Layout {
        Layout { root }
    }

    /// The folder of all pods.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> PathBuf {
        self.root.join(uid)
    }

    /// The pod's private hosts file.
    #[must_use]
    pub fn hosts(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("hosts")
    }

    /// The folder of a volume that lives and ends with the pod.
    #[must_use]
    pub fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(name)
    }

    /// The folder of a container, all its runs in it.
    #[must_use]
    pub fn container(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("containers").join(name)
    }

    /// The folder of one run.
    #[must_use]
    pub fn run(&self, id: &Id) -> PathBuf {
        self.container(&id.pod, &id.container).join(id.attempt.to_string())
    }
}
