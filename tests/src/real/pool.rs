//! Pool of idle etcd and kube-apiserver pairs.
//!
//! A finished test returns its pair to the pool, and the next test that needs a server of this kind takes it. Objects of the earlier test
//! are deleted only then: a server that is never reused is not worth the requests.
//!
//! # Guarantees
//!
//! - A server that cannot be wiped is stopped, and a new one is started.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::backend::Backend;
use super::{Disk, ExistingCrds, GangSupport, wipe};

static IDLE: Mutex<Vec<Backend>> = Mutex::new(Vec::new());
static REUSES: AtomicBool = AtomicBool::new(true);
/// Maximum number of idle servers: they use memory.
const IDLE_MAX: usize = 4;

/// Disables reuse in this process. A benchmark measures servers from their start.
pub fn never_reuse() {
    REUSES.store(false, Ordering::Release);
}

/// Takes and wipes an idle server of this kind.
pub(super) fn take(disk: Disk, gangs: GangSupport, definitions: ExistingCrds) -> Option<Backend> {
    loop {
        let backend = take_idle(disk, gangs)?;
        match wipe::wipe(&backend.server(), definitions) {
            Ok(()) => return Some(backend),
            Err(why) => eprintln!("a real API server is not reused: {why}"),
        }
    }
}

/// Returns a server to the pool.
pub(super) fn release(backend: Backend) {
    if !REUSES.load(Ordering::Acquire) {
        return;
    }
    let mut idle = idle();
    idle.push(backend);
    // The longest idle server is the least likely to be needed.
    let ended = (idle.len() > IDLE_MAX).then(|| idle.remove(0));
    drop(idle);
    drop(ended);
}

fn take_idle(disk: Disk, gangs: GangSupport) -> Option<Backend> {
    let mut idle = idle();
    let found = idle.iter().position(|it| (it.disk, it.gangs) == (disk, gangs))?;
    Some(idle.remove(found))
}

fn idle() -> MutexGuard<'static, Vec<Backend>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
