//! Decides the next step of a certificate rotation from the contents of the Secret.
//!
//! Pure: snapshot, time and lifetimes in; one step out.
//!
//! # Guarantees
//!
//! - Every step is one write of the Secret; the process may crash after any of them.
//! - A new CA signs nothing before it has been in every CA bundle for the propagation delay, unless the old CA is unusable.
//! - There is never both a next and a former CA: a rotation completes before the next one starts.

use std::time::Duration;

use muster_api::time::Time;
use muster_apiserver::http::certificate_authority::Validity;

use super::{BACKDATED, CertificateLifetimes};

/// The usable contents of the Secret; damaged parts count as absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CertificateSnapshot {
    /// The CA that signs serving certificates.
    pub ca: Option<Validity>,
    /// The CA of a rotation in progress, already in the CA bundles.
    pub next_ca: Option<Validity>,
    /// Whether the CA before the current one is still in the CA bundles.
    pub has_former_ca: bool,
    /// The serving certificate, if the current CA signed it for the wanted DNS names.
    pub serving: Option<Validity>,
}

/// How long a state has lasted, as far as this leader observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elapsed {
    /// Since all webhook configurations trust all CAs of the Secret; `None` when they do not.
    pub trusted: Option<Duration>,
    /// Since the current CA replaced the former one and signed the serving certificate.
    pub former: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RotationStep {
    /// Create a CA and a serving certificate.
    CreateAll,
    /// Restore the last good contents, and add a next CA.
    Restore,
    RenewServing,
    /// Create the next CA, so that CA bundles include it before it signs.
    AddNextCa,
    /// Sign the serving certificate with the next CA; the current one becomes the former.
    SwitchCa,
    /// Remove the former CA from the CA bundles.
    RemoveFormerCa,
    /// Nothing to do for this time.
    Wait(Duration),
}

/// The next step; `remembered` means that the last good contents are in memory, whole and valid.
#[must_use]
pub fn next_step(
    seen: &CertificateSnapshot,
    elapsed: Elapsed,
    remembered: bool,
    now: Time,
    lives: &CertificateLifetimes,
) -> RotationStep {
    let valid = |it: Option<Validity>| it.filter(|it| it.at(now));
    let Some(authority) = valid(seen.ca) else {
        return match seen.ca {
            // An absent CA means a damaged Secret: restoring keeps the trust of the API servers. An expired one is replaced.
            None if remembered => RotationStep::Restore,
            _ if valid(seen.next_ca).is_some() => RotationStep::SwitchCa,
            _ => RotationStep::CreateAll,
        };
    };
    let serving = valid(seen.serving).map(|it| renewal_time(it, lives.serving).since(now));
    let Some(serving) = serving.filter(|left| !left.is_zero()) else { return RotationStep::RenewServing };
    let (step, left) = match seen.next_ca {
        // The former CA is removed first: a third CA would outgrow the guarantee of two bundles.
        _ if seen.has_former_ca => {
            (RotationStep::RemoveFormerCa, Some(lives.propagation_delay.saturating_sub(elapsed.former)))
        }
        Some(next) if next.at(now) => {
            (RotationStep::SwitchCa, elapsed.trusted.map(|it| lives.propagation_delay.saturating_sub(it)))
        }
        Some(_) => return RotationStep::AddNextCa,
        None => (RotationStep::AddNextCa, Some(renewal_time(authority, lives.ca).since(now))),
    };
    match left {
        Some(Duration::ZERO) => step,
        left => RotationStep::Wait(left.unwrap_or(serving).min(serving)),
    }
}

/// When to renew: after two thirds of the lifetime, the configured one if that is shorter.
fn renewal_time(valid: Validity, lifetime: Duration) -> Time {
    let made = valid.from + BACKDATED;
    made + valid.until.since(made).min(lifetime) * 2 / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVES: CertificateLifetimes =
        CertificateLifetimes { ca: secs(3000), serving: secs(300), propagation_delay: secs(10) };
    /// The present, in seconds.
    const NOW: i64 = 1_000_000;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000)
    }

    /// Made so many seconds ago, for so long.
    fn made(ago: i64, lasts: i64) -> Option<Validity> {
        let made = NOW - ago;
        let before = i64::try_from(BACKDATED.as_secs()).unwrap();
        Some(Validity { from: at(made - before), until: at(made + lasts) })
    }

    fn held() -> CertificateSnapshot {
        CertificateSnapshot { ca: made(30, 3000), serving: made(30, 300), ..CertificateSnapshot::default() }
    }

    fn step(seen: &CertificateSnapshot, elapsed: Elapsed) -> RotationStep {
        next_step(seen, elapsed, false, at(NOW), &LIVES)
    }

    #[test]
    fn steps() {
        let (quiet, wait) = (Elapsed::default(), |secs| RotationStep::Wait(Duration::from_secs(secs)));
        let trusted = |secs| Elapsed { trusted: Some(Duration::from_secs(secs)), ..quiet };
        let former = |secs| Elapsed { former: Duration::from_secs(secs), ..quiet };
        let (old, fresh, gone) = (made(2500, 3000), made(1, 3000), made(4000, 3000));
        let future = made(-1_000_000, 3000);
        for (says, seen, elapsed, want) in [
            ("nothing is held", CertificateSnapshot::default(), quiet, RotationStep::CreateAll),
            ("all is well", held(), quiet, wait(170)),
            (
                "the certificate is damaged, or for other names",
                CertificateSnapshot { serving: None, ..held() },
                quiet,
                RotationStep::RenewServing,
            ),
            (
                "two thirds of its life are over",
                CertificateSnapshot { serving: made(200, 300), ..held() },
                quiet,
                RotationStep::RenewServing,
            ),
            ("a second before", CertificateSnapshot { serving: made(199, 300), ..held() }, quiet, wait(1)),
            (
                "it has ended",
                CertificateSnapshot { serving: made(400, 300), ..held() },
                quiet,
                RotationStep::RenewServing,
            ),
            (
                "it was made for longer than is wanted today",
                CertificateSnapshot { serving: made(250, 9000), ..held() },
                quiet,
                RotationStep::RenewServing,
            ),
            (
                "it was made shorter, as its authority ends",
                CertificateSnapshot { serving: made(30, 60), ..held() },
                quiet,
                wait(10),
            ),
            (
                "made by a clock that was ahead a little",
                CertificateSnapshot { serving: made(-100, 300), ..held() },
                quiet,
                wait(300),
            ),
            (
                "made by a clock that was ahead by more than is forgiven",
                CertificateSnapshot { serving: future, ..held() },
                quiet,
                RotationStep::RenewServing,
            ),
            (
                "an authority of such a clock",
                CertificateSnapshot { ca: future, ..held() },
                quiet,
                RotationStep::CreateAll,
            ),
            (
                "the authority is damaged",
                CertificateSnapshot { ca: None, ..held() },
                quiet,
                RotationStep::CreateAll,
            ),
            (
                "the authority has ended",
                CertificateSnapshot { ca: gone, ..held() },
                quiet,
                RotationStep::CreateAll,
            ),
            (
                "and the next one is there",
                CertificateSnapshot { ca: gone, next_ca: fresh, ..held() },
                quiet,
                RotationStep::SwitchCa,
            ),
            (
                "and the next one has ended too",
                CertificateSnapshot { ca: gone, next_ca: gone, ..held() },
                quiet,
                RotationStep::CreateAll,
            ),
            (
                "the authority is old",
                CertificateSnapshot { ca: old, ..held() },
                quiet,
                RotationStep::AddNextCa,
            ),
            (
                "but the certificate is more urgent",
                CertificateSnapshot { ca: old, serving: made(200, 300), ..held() },
                quiet,
                RotationStep::RenewServing,
            ),
            (
                "and a former one has to leave first",
                CertificateSnapshot { ca: old, has_former_ca: true, ..held() },
                quiet,
                wait(10),
            ),
            (
                "a next one that nobody trusts yet",
                CertificateSnapshot { ca: old, next_ca: fresh, ..held() },
                quiet,
                wait(170),
            ),
            (
                "that is trusted for a moment",
                CertificateSnapshot { ca: old, next_ca: fresh, ..held() },
                trusted(4),
                wait(6),
            ),
            (
                "that all have heard of",
                CertificateSnapshot { ca: old, next_ca: fresh, ..held() },
                trusted(10),
                RotationStep::SwitchCa,
            ),
            (
                "that was damaged: made again",
                CertificateSnapshot { ca: old, ..held() },
                trusted(10),
                RotationStep::AddNextCa,
            ),
            (
                "that has ended unused",
                CertificateSnapshot { ca: old, next_ca: gone, ..held() },
                trusted(10),
                RotationStep::AddNextCa,
            ),
            (
                "the former one leaves when all show what the new one certified",
                CertificateSnapshot { has_former_ca: true, ..held() },
                former(10),
                RotationStep::RemoveFormerCa,
            ),
            ("and not before", CertificateSnapshot { has_former_ca: true, ..held() }, former(3), wait(7)),
            (
                "nor while there is no such certificate",
                CertificateSnapshot { has_former_ca: true, serving: None, ..held() },
                former(10),
                RotationStep::RenewServing,
            ),
            (
                "a next one waits for the former one to leave",
                CertificateSnapshot { has_former_ca: true, next_ca: fresh, ..held() },
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
            ("the Secret was emptied", CertificateSnapshot::default(), RotationStep::Restore),
            ("the authority was damaged", CertificateSnapshot { ca: None, ..held() }, RotationStep::Restore),
            (
                "an authority that has ended is no damage",
                CertificateSnapshot { ca: made(4000, 3000), ..held() },
                RotationStep::CreateAll,
            ),
            (
                "a certificate alone is made anew",
                CertificateSnapshot { serving: None, ..held() },
                RotationStep::RenewServing,
            ),
        ] {
            assert_eq!(next_step(&seen, Elapsed::default(), true, at(NOW), &LIVES), want, "{says}");
        }
    }
}
