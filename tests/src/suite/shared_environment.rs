//! Environments that several cases share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::run::{CaseRun, panic_message};

/// Environments start one at a time: each uses all CPUs while it starts, and its readiness timeout must not expire.
static STARTING: Mutex<()> = Mutex::new(());

/// An environment that is started by the first case that needs it, and stopped when the last case that holds it is dropped.
pub struct SharedEnvironment<T> {
    name: &'static str,
    start: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    started: OnceLock<Result<T, String>>,
}

impl<T> SharedEnvironment<T> {
    pub fn new(
        name: &'static str,
        start: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Arc<SharedEnvironment<T>> {
        Arc::new(SharedEnvironment { name, start: Box::new(start), started: OnceLock::new() })
    }

    /// Returns the environment, and restarts the timer of the case. If the start failed, every case fails with the reason.
    pub fn get(&self, run: &CaseRun) -> Result<&T, String> {
        let started = self.started.get_or_init(|| {
            let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
            let started = catch_unwind(AssertUnwindSafe(|| (self.start)()));
            let started = started.unwrap_or_else(|panic| Err(panic_message(&*panic)));
            started.map_err(|why| format!("{} failed to start: {why}", self.name))
        });
        run.restart_timer();
        started.as_ref().map_err(Clone::clone)
    }

    /// Returns the environment if a case has started it.
    pub fn if_started(&self) -> Option<&T> {
        self.started.get().and_then(|it| it.as_ref().ok())
    }
}
