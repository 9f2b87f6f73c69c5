//! What an operator is at any moment, for whoever asks from outside: probes, metrics, the debug dump.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_control::run::Health;

/// Tells how the controllers are, whenever that is asked.
type Asked = Arc<dyn Fn() -> Health + Send + Sync>;

/// Whether it works or waits.
#[derive(Clone, Default)]
pub enum Role {
    /// Another is in charge, or nobody yet.
    #[default]
    StandsBy,
    /// It is in charge, and its controllers are so.
    Leads(Asked),
}

/// One operator.
#[derive(Default)]
pub struct State(Mutex<Role>);

impl State {
    /// From now on it is this.
    pub fn is(&self, role: Role) {
        *self.lock() = role;
    }

    /// How its controllers are; `None` while it stands by.
    pub fn health(&self) -> Option<Health> {
        let role = self.lock().clone();
        match role {
            Role::StandsBy => None,
            Role::Leads(asked) => Some(asked()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Role> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
