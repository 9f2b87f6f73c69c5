//! What an operator is at any moment, for whoever asks from outside: probes, metrics, the debug dump.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_control::queueing::desk::Desk;
use muster_control::run::{Health, Window};
use tokio::time::Instant;

use crate::webhooks::Tally;

/// How long controllers may be without a turn: they have one every few seconds even when nothing happens, and the
/// longest ever seen takes in a list of everything there is.
pub const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Whether it works or waits.
#[derive(Clone, Default)]
pub enum Role {
    /// Another is in charge, or nobody yet.
    #[default]
    StandsBy,
    /// It is in charge, and its controllers are seen here.
    Leads(Window),
}

/// Whether reviews are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Hooks {
    /// None are to be answered here, now.
    #[default]
    Unwanted,
    /// They are to be, but cannot yet.
    NotYet,
    Answer,
}

/// The last turn of the controllers that somebody noticed.
#[derive(Debug, Clone, Copy)]
struct Noticed {
    turns: u64,
    at: Instant,
}

/// One operator.
#[derive(Default)]
pub struct State {
    role: Mutex<Role>,
    hooks: Mutex<Hooks>,
    noticed: Mutex<Option<Noticed>>,
    /// What its webhooks were asked.
    pub tally: Arc<Tally>,
    /// Where its queues are asked about; closed while it stands by.
    pub desk: Desk,
}

impl State {
    /// From now on it is this.
    pub fn is(&self, role: Role) {
        *lock(&self.noticed) = None;
        *lock(&self.role) = role;
    }

    /// Reviews are to be answered here, and can be or cannot.
    pub fn hooks_answer(&self, can: bool) {
        *lock(&self.hooks) = if can { Hooks::Answer } else { Hooks::NotYet };
    }

    /// Reviews are not to be answered here any more: another does.
    pub fn hooks_rest(&self) {
        *lock(&self.hooks) = Hooks::Unwanted;
    }

    /// How its controllers are; `None` while it stands by.
    pub fn health(&self) -> Option<Health> {
        self.window().map(|window| window.health())
    }

    /// Whether no pod waits for a node of its scheduler's.
    pub fn places_nothing(&self) -> bool {
        self.health().is_none_or(|it| it.counters.scheduling.pending.values().all(|count| *count == 0))
    }

    /// Where its controllers are seen; `None` while it stands by.
    pub fn window(&self) -> Option<Window> {
        match &*lock(&self.role) {
            Role::StandsBy => None,
            Role::Leads(window) => Some(window.clone()),
        }
    }

    /// Whether it lives, at this time, or in words why not. Who stands by lives.
    pub fn alive(&self, now: Instant) -> Result<(), String> {
        let Some(health) = self.health() else { return Ok(()) };
        if !health.running {
            return Err("the controllers have ended by an error of their own".to_owned());
        }
        let mut noticed = lock(&self.noticed);
        let last = noticed.filter(|last| last.turns == health.turns);
        let last = *noticed.insert(last.unwrap_or(Noticed { turns: health.turns, at: now }));
        let still = now.saturating_duration_since(last.at);
        if still > STUCK_AFTER {
            return Err(format!("the controllers have had no turn for {} s", still.as_secs()));
        }
        Ok(())
    }

    /// Whether it can do what it is there for, with or without the lead, or in words what is missing.
    pub fn ready(&self) -> Result<(), String> {
        match *lock(&self.hooks) {
            Hooks::Unwanted | Hooks::Answer => Ok(()),
            Hooks::NotYet => Err("the webhooks cannot answer yet".to_owned()),
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(health: Health) -> State {
        let state = State::default();
        state.is(Role::Leads(Window::painted(health)));
        state
    }

    #[test]
    fn a_loop_that_has_no_turn_for_long_is_told_with_the_time() {
        let running = |turns| Health { running: true, turns, ..Health::default() };
        let (state, start) = (leads(running(5)), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        assert_eq!(state.alive(start), Ok(()));
        assert_eq!(state.alive(after(60)), Ok(()));
        let told = state.alive(after(61));
        assert_eq!(told, Err("the controllers have had no turn for 61 s".to_owned()));
        state.is(Role::Leads(Window::painted(running(6))));
        assert_eq!(state.alive(after(62)), Ok(()), "it had one");
        assert!(state.alive(after(200)).is_err());
        state.is(Role::StandsBy);
        assert_eq!(state.alive(after(300)), Ok(()), "who stands by has nothing to do");
        assert!(leads(Health::default()).alive(start).unwrap_err().contains("ended"));
    }

    #[test]
    fn ready_is_whose_webhooks_answer_if_there_are_to_be_any() {
        let state = State::default();
        assert_eq!(state.ready(), Ok(()));
        state.hooks_answer(false);
        assert_eq!(state.ready(), Err("the webhooks cannot answer yet".to_owned()));
        state.hooks_answer(true);
        assert_eq!(state.ready(), Ok(()));
        state.hooks_answer(false);
        state.hooks_rest();
        assert_eq!(state.ready(), Ok(()));
    }
}
