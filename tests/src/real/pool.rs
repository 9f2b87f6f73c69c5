//! Servers that wait for their next plane.
//!
//! A test that ends gives its etcd and kube-apiserver back, and the next one that needs a server of this kind takes them.
//! Objects of the test before are deleted when the server is taken: a server that no test takes again is not worth the
//! requests.
//!
//! # Guarantees
//!
//! - A server that cannot be made as new is ended, and a new one is started in its place.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::backend::Backend;
use super::{Definitions, Disk, Gangs, wipe};

/// Servers that no plane uses.
static IDLE: Mutex<Vec<Backend>> = Mutex::new(Vec::new());
static REUSES: AtomicBool = AtomicBool::new(true);
/// Idle servers at most: they hold memory.
const IDLE_MAX: usize = 4;

/// From now on each plane of this process has an etcd and an API server of its own. A bench measures them from their start.
pub fn never_reuse() {
    REUSES.store(false, Ordering::Release);
}

/// A server of this kind that an earlier plane has left.
pub(super) fn take(disk: Disk, gangs: Gangs, definitions: Definitions) -> Option<Backend> {
    loop {
        let backend = next(disk, gangs)?;
        match wipe::wipe(&backend.server(), definitions) {
            Ok(()) => return Some(backend),
            Err(why) => eprintln!("a real API server is not used again: {why}"),
        }
    }
}

/// Keeps the server of a plane that ended.
pub(super) fn give_back(backend: Backend) {
    if !REUSES.load(Ordering::Acquire) {
        return;
    }
    let mut idle = idle();
    idle.push(backend);
    // The one that has waited longest is the least likely to be wanted.
    let ended = (idle.len() > IDLE_MAX).then(|| idle.remove(0));
    drop(idle);
    drop(ended);
}

fn next(disk: Disk, gangs: Gangs) -> Option<Backend> {
    let mut idle = idle();
    let found = idle.iter().position(|it| (it.disk, it.gangs) == (disk, gangs))?;
    Some(idle.remove(found))
}

fn idle() -> MutexGuard<'static, Vec<Backend>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
