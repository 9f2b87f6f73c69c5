//! What the local node asks of this machine, behind one port: a test plays a machine of its own.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use muster_api::pod_work::Check;
use muster_process::checks::{self, Done};
use muster_process::{Containers, Id, Layout};

use super::dress::{self, Volume};

/// This machine.
pub trait Machine: Send {
    /// What runs containers.
    fn containers(&self) -> &dyn Containers;

    /// Where everything of a pod is.
    fn layout(&self) -> &Layout;

    /// Puts a volume on disk.
    ///
    /// # Errors
    /// What is wrong.
    fn lay(&mut self, volume: &Volume) -> Result<(), String>;

    /// Writes the pod's hosts file, in place: containers have it mounted.
    ///
    /// # Errors
    /// What is wrong.
    fn write_hosts(&mut self, uid: &str, text: &str) -> Result<(), String>;

    /// Looks at a run; `done` is called later, from another thread.
    fn check(&mut self, id: &Id, address: &str, check: &Check, timeout: Duration, done: Done);
}

/// The machine we are on.
pub struct Here {
    containers: Arc<dyn Containers>,
    layout: Layout,
}

impl Here {
    /// The machine on which these containers run.
    #[must_use]
    pub fn new(containers: Arc<dyn Containers>, layout: Layout) -> Here {
        Here { containers, layout }
    }
}

impl Machine for Here {
    fn containers(&self) -> &dyn Containers {
        &*self.containers
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn lay(&mut self, volume: &Volume) -> Result<(), String> {
        dress::lay(volume)
    }

    fn write_hosts(&mut self, uid: &str, text: &str) -> Result<(), String> {
        let path = self.layout.hosts(uid);
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(self.layout.pod(uid))?;
            // Over the old text, not after cutting it off: somebody may be looking up a name.
            let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    fn check(&mut self, id: &Id, address: &str, check: &Check, timeout: Duration, done: Done) {
        checks::begin(self.containers.clone(), id.clone(), address.to_owned(), check.clone(), timeout, done);
    }
}
