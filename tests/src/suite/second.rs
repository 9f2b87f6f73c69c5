//! Second tries: on an overloaded machine a comparison of planes may differ once by chance.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Run;
use crate::clients::note;
use crate::differential::Difference;

/// The most second tries of one suite: where more cases differ, it is not by chance.
const MAX: usize = 8;

/// The second tries that a suite has left.
#[derive(Debug, Clone)]
pub struct SecondTries(Arc<AtomicUsize>);

impl Default for SecondTries {
    fn default() -> SecondTries {
        SecondTries(Arc::new(AtomicUsize::new(MAX)))
    }
}

impl SecondTries {
    /// Plays once, and once more if something differs; whether the second try was needed. `play` gets the number of the try,
    /// from 0.
    pub fn play(
        &self,
        run: &Run,
        name: &str,
        play: impl Fn(u32) -> Result<Vec<Difference>, String>,
    ) -> Result<bool, String> {
        let first = match require_no_differences(play(0)) {
            Ok(()) => return Ok(false),
            Err(why) => why,
        };
        if !self.take() {
            return Err(first);
        }
        run.count_second_try();
        require_no_differences(play(1))?;
        note(&format!("alike at the second try only: {name:?}: {first}"));
        Ok(true)
    }

    /// Takes one, if one is left.
    pub fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

fn require_no_differences(played: Result<Vec<Difference>, String>) -> Result<(), String> {
    let found = played?;
    if found.is_empty() { Ok(()) } else { Err(format_differences(&found)) }
}

/// Differences, one a line.
pub fn format_differences(found: &[Difference]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}
