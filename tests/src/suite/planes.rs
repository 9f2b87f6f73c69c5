//! Planes that several cases share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::run::{Run, words};

/// Planes start one at a time: each takes the whole machine while it starts, and none waits for ever to be ready.
static STARTING: Mutex<()> = Mutex::new(());

/// A plane that the first case that needs it starts, and that ends when the last case that holds it is dropped.
pub struct Shared<T> {
    name: &'static str,
    start: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    started: OnceLock<Result<T, String>>,
}

impl<T> Shared<T> {
    pub fn new(
        name: &'static str,
        start: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Arc<Shared<T>> {
        Arc::new(Shared { name, start: Box::new(start), started: OnceLock::new() })
    }

    /// The plane; the time of the case begins when it is there. A plane that did not start fails every case with the reason.
    pub fn get(&self, run: &Run) -> Result<&T, String> {
        let started = self.started.get_or_init(|| {
            let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
            let started = catch_unwind(AssertUnwindSafe(|| (self.start)()));
            let started = started.unwrap_or_else(|panic| Err(words(&*panic)));
            started.map_err(|why| format!("{} does not start: {why}", self.name))
        });
        run.begin_again();
        started.as_ref().map_err(Clone::clone)
    }

    /// The plane, if a case has started it.
    pub fn if_started(&self) -> Option<&T> {
        self.started.get().and_then(|it| it.as_ref().ok())
    }
}
