//! A rotation among API servers and replicas that hear late: at every moment all of them trust what any of them shows.

use std::time::Duration;

use muster_api::time::Time;
use muster_apiserver::http::authority::Certified;
use muster_apiserver::http::certificate::is_trusted;

use super::decide::{Elapsed, Step, decide};
use super::kept::Kept;
use super::{Lifetimes, Service};

const LIVES: Lifetimes = Lifetimes {
    authority: Duration::from_secs(60),
    serving: Duration::from_secs(12),
    pause: Duration::from_secs(4),
};
/// Each hears of the state so many seconds later; less than the pause.
const LATE: [usize; 4] = [0, 1, 2, 3];

fn secs(secs: usize) -> Duration {
    Duration::from_secs(u64::try_from(secs).unwrap())
}

/// Whether any of the trusted authorities certifies it.
fn trusts(bundle: &str, shown: &Certified, host: &str, now: Time) -> bool {
    let end = "-----END CERTIFICATE-----";
    bundle.split_inclusive(end).any(|authority| is_trusted(&shown.certificate, authority, host, now))
}

/// What is so, and since which second.
type Since = Option<(String, usize)>;

/// What happens to the configurations or the Secret at some second.
type Blow = fn(second: usize) -> bool;

/// Plays so many seconds; returns the steps that were done.
fn play(seconds: usize, leader_changes: Blow, deleted: Blow) -> Vec<Step> {
    let service = Service { namespace: "n".to_owned(), name: "s".to_owned() };
    let (names, host) = (service.names(), service.host());
    let (mut secret, mut done) = (Kept::default(), Vec::new());
    let (mut told, mut shown): (Vec<String>, Vec<Certified>) = (Vec::new(), Vec::new());
    let (mut trusted, mut former): (Since, Since) = (None, None);
    let mut remembered: Option<Kept> = None;
    for second in 0..seconds {
        let now = Time(1_800_000_000_000_000) + secs(second);
        if leader_changes(second) {
            (trusted, former) = (None, None);
        }
        if deleted(second) {
            secret = Kept::default();
        }
        loop {
            let picture = secret.picture(&names);
            if !secret.bundle().is_empty() && trusted.as_ref().is_none_or(|(it, _)| *it != secret.bundle()) {
                trusted = Some((secret.bundle(), second));
            }
            let now_former = secret.former().filter(|_| picture.serving.is_some());
            if former.as_ref().map(|(it, _)| it.as_str()) != now_former {
                former = now_former.map(|it| (it.to_owned(), second));
            }
            let elapsed = Elapsed {
                trusted: trusted.as_ref().map(|(_, since)| secs(second - since)),
                former: former.as_ref().map(|(_, since)| secs(second - since)).unwrap_or_default(),
            };
            match decide(&picture, elapsed, remembered.is_some(), now, &LIVES) {
                Step::Wait(_) => break,
                step => {
                    secret = secret.after(step, remembered.as_ref(), &names, now, &LIVES).unwrap();
                    done.push(step);
                }
            }
        }
        remembered = Some(secret.clone());
        told.push(secret.bundle());
        shown.push(secret.shown(&names).unwrap().clone());
        let heard = |late: usize| second.saturating_sub(late);
        for (api, replica) in LATE.iter().flat_map(|api| LATE.map(|replica| (*api, replica))) {
            let (bundle, shown) = (&told[heard(api)], &shown[heard(replica)]);
            assert!(
                trusts(bundle, shown, &host, now),
                "second {second}: late by {api} and {replica}; {done:?}"
            );
        }
    }
    done
}

fn count(done: &[Step], step: Step) -> usize {
    done.iter().filter(|it| **it == step).count()
}

#[test]
fn all_trust_what_any_shows_through_rotations() {
    let done = play(200, |_| false, |_| false);
    assert_eq!(count(&done, Step::MakeAll), 1);
    assert!(count(&done, Step::RenewServing) > 10, "{done:?}");
    let rotations = [Step::BeginAuthority, Step::ServeNext, Step::RetireFormer].map(|it| count(&done, it));
    assert_eq!(rotations, [4, 4, 4], "{done:?}");
}

#[test]
fn leaders_that_change_delay_a_rotation_and_break_nothing() {
    let done = play(200, |second| second % 7 == 0, |_| false);
    assert_eq!(count(&done, Step::MakeAll), 1);
    assert!(count(&done, Step::RetireFormer) >= 3, "{done:?}");
}

#[test]
fn a_secret_that_is_deleted_again_and_again_breaks_nothing() {
    let done = play(150, |_| false, |second| second % 23 == 22);
    assert_eq!((count(&done, Step::MakeAll), count(&done, Step::PutBack)), (1, 6), "{done:?}");
}
