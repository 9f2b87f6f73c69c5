//! Decides what the certificates in a Secret need next.
//!
//! Pure: what is held, the time and the lifetimes in; one step out.
//!
//! # Invariants
//!
//! - Every step is one write of the Secret, and safe to be followed by a crash.
//! - A new authority certifies nothing before all API servers were told of it and had a pause to hear it, unless the old
//!   one is of no use any more.
//! - There is never a next and a former authority at once: a rotation ends before another begins.

use std::time::Duration;

use muster_api::time::Time;
use muster_apiserver::http::authority::Valid;

use super::{BACKDATED, Lifetimes};

/// What a Secret holds that can be used. Damaged parts are as good as none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Picture {
    /// The authority that certifies.
    pub authority: Option<Valid>,
    /// The one that will.
    pub next: Option<Valid>,
    /// Whether one that did before is still trusted.
    pub former: bool,
    /// What is shown: certified by the authority, for the names that are wanted.
    pub serving: Option<Valid>,
}

/// For how long something has been so, as far as the leader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elapsed {
    /// The configurations of the API server trust all authorities of the Secret; `None` when they do not.
    pub trusted: Option<Duration>,
    /// The former authority is a former one, and what is shown is certified by its successor.
    pub former: Duration,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make an authority and a certificate.
    MakeAll,
    /// Write again what was held before, with a new authority on its way.
    PutBack,
    /// Make a certificate.
    RenewServing,
    /// Make the next authority, and have it trusted.
    BeginAuthority,
    /// Make a certificate by the next authority; the present one becomes the former.
    ServeNext,
    /// Trust the former authority no longer.
    RetireFormer,
    /// Nothing for so long.
    Wait(Duration),
}

/// What these certificates need; `remembered` tells that those held before are at hand, whole and valid.
#[must_use]
pub fn decide(seen: &Picture, elapsed: Elapsed, remembered: bool, now: Time, lives: &Lifetimes) -> Step {
    let valid = |it: Option<Valid>| it.filter(|it| it.at(now));
    let Some(authority) = valid(seen.authority) else {
        return match seen.authority {
            None if remembered => Step::PutBack,
            _ if valid(seen.next).is_some() => Step::ServeNext,
            _ => Step::MakeAll,
        };
    };
    let serving = valid(seen.serving).map(|it| due(it, lives.serving).since(now));
    let Some(serving) = serving.filter(|left| !left.is_zero()) else { return Step::RenewServing };
    let (step, left) = match seen.next {
        _ if seen.former => (Step::RetireFormer, Some(lives.pause.saturating_sub(elapsed.former))),
        Some(next) if next.at(now) => {
            (Step::ServeNext, elapsed.trusted.map(|it| lives.pause.saturating_sub(it)))
        }
        Some(_) => return Step::BeginAuthority,
        None => (Step::BeginAuthority, Some(due(authority, lives.authority).since(now))),
    };
    match left {
        Some(Duration::ZERO) => step,
        left => Step::Wait(left.unwrap_or(serving).min(serving)),
    }
}

/// When a certificate is to be renewed: after two thirds of its life, or of the life it would have today.
fn due(valid: Valid, lifetime: Duration) -> Time {
    let made = valid.from + BACKDATED;
    made + valid.until.since(made).min(lifetime) * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: Lifetimes = Lifetimes { authority: secs(3000), serving: secs(300), pause: secs(10) };
    /// The present, in seconds.
    const NOW: i64 = 1_000_000;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000)
    }

    /// Made so many seconds ago, for so long.
    fn made(ago: i64, lasts: i64) -> Option<Valid> {
        let made = NOW - ago;
        let before = i64::try_from(BACKDATED.as_secs()).unwrap();
        Some(Valid { from: at(made - before), until: at(made + lasts) })
    }

    fn held() -> Picture {
        Picture { authority: made(30, 3000), serving: made(30, 300), ..Picture::default() }
    }

    fn step(seen: &Picture, elapsed: Elapsed) -> Step {
        decide(seen, elapsed, false, at(NOW), &LIVES)
    }

    #[test]
    fn steps() {
        let (quiet, wait) = (Elapsed::default(), |secs| Step::Wait(Duration::from_secs(secs)));
        let trusted = |secs| Elapsed { trusted: Some(Duration::from_secs(secs)), ..quiet };
        let former = |secs| Elapsed { former: Duration::from_secs(secs), ..quiet };
        let (old, fresh, gone) = (made(2500, 3000), made(1, 3000), made(4000, 3000));
        let future = made(-1_000_000, 3000);
        for (says, seen, elapsed, want) in [
            ("nothing is held", Picture::default(), quiet, Step::MakeAll),
            ("all is well", held(), quiet, wait(170)),
            (
                "the certificate is damaged, or for other names",
                Picture { serving: None, ..held() },
                quiet,
                Step::RenewServing,
            ),
            (
                "two thirds of its life are over",
                Picture { serving: made(200, 300), ..held() },
                quiet,
                Step::RenewServing,
            ),
            ("a second before", Picture { serving: made(199, 300), ..held() }, quiet, wait(1)),
            ("it has ended", Picture { serving: made(400, 300), ..held() }, quiet, Step::RenewServing),
            (
                "it was made for longer than is wanted today",
                Picture { serving: made(250, 9000), ..held() },
                quiet,
                Step::RenewServing,
            ),
            (
                "it was made shorter, as its authority ends",
                Picture { serving: made(30, 60), ..held() },
                quiet,
                wait(10),
            ),
            (
                "made by a clock that was ahead a little",
                Picture { serving: made(-100, 300), ..held() },
                quiet,
                wait(300),
            ),
            (
                "made by a clock that was ahead by more than is forgiven",
                Picture { serving: future, ..held() },
                quiet,
                Step::RenewServing,
            ),
            ("an authority of such a clock", Picture { authority: future, ..held() }, quiet, Step::MakeAll),
            ("the authority is damaged", Picture { authority: None, ..held() }, quiet, Step::MakeAll),
            ("the authority has ended", Picture { authority: gone, ..held() }, quiet, Step::MakeAll),
            (
                "and the next one is there",
                Picture { authority: gone, next: fresh, ..held() },
                quiet,
                Step::ServeNext,
            ),
            (
                "and the next one has ended too",
                Picture { authority: gone, next: gone, ..held() },
                quiet,
                Step::MakeAll,
            ),
            ("the authority is old", Picture { authority: old, ..held() }, quiet, Step::BeginAuthority),
            (
                "but the certificate is more urgent",
                Picture { authority: old, serving: made(200, 300), ..held() },
                quiet,
                Step::RenewServing,
            ),
            (
                "and a former one has to leave first",
                Picture { authority: old, former: true, ..held() },
                quiet,
                wait(10),
            ),
            (
                "a next one that nobody trusts yet",
                Picture { authority: old, next: fresh, ..held() },
                quiet,
                wait(170),
            ),
            (
                "that is trusted for a moment",
                Picture { authority: old, next: fresh, ..held() },
                trusted(4),
                wait(6),
            ),
            (
                "that all have heard of",
                Picture { authority: old, next: fresh, ..held() },
                trusted(10),
                Step::ServeNext,
            ),
            (
                "that was damaged: made again",
                Picture { authority: old, ..held() },
                trusted(10),
                Step::BeginAuthority,
            ),
            (
                "that has ended unused",
                Picture { authority: old, next: gone, ..held() },
                trusted(10),
                Step::BeginAuthority,
            ),
            (
                "the former one leaves when all show what the new one certified",
                Picture { former: true, ..held() },
                former(10),
                Step::RetireFormer,
            ),
            ("and not before", Picture { former: true, ..held() }, former(3), wait(7)),
            (
                "nor while there is no such certificate",
                Picture { former: true, serving: None, ..held() },
                former(10),
                Step::RenewServing,
            ),
            (
                "a next one waits for the former one to leave",
                Picture { former: true, next: fresh, ..held() },
                trusted(10),
                wait(10),
            ),
        ] {
            assert_eq!(step(&seen, elapsed), want, "{says}");
        }
    }

    #[test]
    fn what_was_held_comes_back() {
        for (says, seen, want) in [
            ("the Secret was emptied", Picture::default(), Step::PutBack),
            ("the authority was damaged", Picture { authority: None, ..held() }, Step::PutBack),
            (
                "an authority that has ended is no damage",
                Picture { authority: made(4000, 3000), ..held() },
                Step::MakeAll,
            ),
            ("a certificate alone is made anew", Picture { serving: None, ..held() }, Step::RenewServing),
        ] {
            assert_eq!(decide(&seen, Elapsed::default(), true, at(NOW), &LIVES), want, "{says}");
        }
    }
}
