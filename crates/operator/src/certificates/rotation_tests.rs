//! Simulates rotations with API servers and replicas that observe changes late: at every moment all trust what any serves.

use std::time::Duration;

use muster_api::time::Time;
use muster_apiserver::http::certificate::is_trusted;
use muster_apiserver::http::certificate_authority::CertKeyPair;

use super::rotation_step::{Elapsed, RotationStep, next_step};
use super::secret::CertificateSet;
use super::{CertificateLifetimes, ServiceRef};

const LIVES: CertificateLifetimes = CertificateLifetimes {
    ca: Duration::from_secs(60),
    serving: Duration::from_secs(12),
    propagation_delay: Duration::from_secs(4),
};
/// Each observes the state this many seconds late; less than the propagation delay.
const LATE: [usize; 4] = [0, 1, 2, 3];

fn secs(secs: usize) -> Duration {
    Duration::from_secs(u64::try_from(secs).unwrap())
}

/// Whether any CA of the bundle signed the certificate.
fn trusts(bundle: &str, shown: &CertKeyPair, host: &str, now: Time) -> bool {
    let end = "-----END CERTIFICATE-----";
    bundle.split_inclusive(end).any(|authority| is_trusted(&shown.certificate, authority, host, now))
}

/// A value, and since which second it holds.
type Since = Option<(String, usize)>;

/// A fault at some second.
type Blow = fn(second: usize) -> bool;

/// Simulates this many seconds; returns the steps that were taken.
fn play(seconds: usize, leader_changes: Blow, deleted: Blow) -> Vec<RotationStep> {
    let service = ServiceRef { namespace: "n".to_owned(), name: "s".to_owned() };
    let (names, host) = (service.names(), service.host());
    let (mut secret, mut done) = (CertificateSet::default(), Vec::new());
    let (mut told, mut shown): (Vec<String>, Vec<CertKeyPair>) = (Vec::new(), Vec::new());
    let (mut trusted, mut former): (Since, Since) = (None, None);
    let mut remembered: Option<CertificateSet> = None;
    for second in 0..seconds {
        let now = Time(1_800_000_000_000_000) + secs(second);
        if leader_changes(second) {
            (trusted, former) = (None, None);
        }
        if deleted(second) {
            secret = CertificateSet::default();
        }
        loop {
            let picture = secret.snapshot(&names);
            if !secret.ca_bundle().is_empty()
                && trusted.as_ref().is_none_or(|(it, _)| *it != secret.ca_bundle())
            {
                trusted = Some((secret.ca_bundle(), second));
            }
            let now_former = secret.former_ca().filter(|_| picture.serving.is_some());
            if former.as_ref().map(|(it, _)| it.as_str()) != now_former {
                former = now_former.map(|it| (it.to_owned(), second));
            }
            let elapsed = Elapsed {
                trusted: trusted.as_ref().map(|(_, since)| secs(second - since)),
                former: former.as_ref().map(|(_, since)| secs(second - since)).unwrap_or_default(),
            };
            match next_step(&picture, elapsed, remembered.is_some(), now, &LIVES) {
                RotationStep::Wait(_) => break,
                step => {
                    secret = secret.apply_step(step, remembered.as_ref(), &names, now, &LIVES).unwrap();
                    done.push(step);
                }
            }
        }
        remembered = Some(secret.clone());
        told.push(secret.ca_bundle());
        shown.push(secret.serving_pair(&names).unwrap().clone());
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

fn count(done: &[RotationStep], step: RotationStep) -> usize {
    done.iter().filter(|it| **it == step).count()
}

#[test]
fn every_api_server_trusts_every_replica_through_rotations() {
    let done = play(200, |_| false, |_| false);
    assert_eq!(count(&done, RotationStep::CreateAll), 1);
    assert!(count(&done, RotationStep::RenewServing) > 10, "{done:?}");
    let rotations = [RotationStep::AddNextCa, RotationStep::SwitchCa, RotationStep::RemoveFormerCa]
        .map(|it| count(&done, it));
    assert_eq!(rotations, [4, 4, 4], "{done:?}");
}

#[test]
fn leader_changes_delay_a_rotation_and_break_nothing() {
    let done = play(200, |second| second % 7 == 0, |_| false);
    assert_eq!(count(&done, RotationStep::CreateAll), 1);
    assert!(count(&done, RotationStep::RemoveFormerCa) >= 3, "{done:?}");
}

#[test]
fn repeated_deletion_of_the_secret_breaks_nothing() {
    let done = play(150, |_| false, |second| second % 23 == 22);
    assert_eq!(
        (count(&done, RotationStep::CreateAll), count(&done, RotationStep::Restore)),
        (1, 6),
        "{done:?}"
    );
}
