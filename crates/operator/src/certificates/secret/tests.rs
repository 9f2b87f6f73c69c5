//! The contents of the Secret through all steps of a rotation.

use std::time::Duration;

use super::*;
use crate::certificates::ServiceRef;

const NOW: Time = Time(1_800_000_000_000_000);

fn lives() -> CertificateLifetimes {
    let secs = Duration::from_secs;
    CertificateLifetimes { ca: secs(3000), serving: secs(300), propagation_delay: secs(10) }
}

fn names() -> Vec<String> {
    ServiceRef { namespace: "n".to_owned(), name: "s".to_owned() }.names()
}

fn later(secs: u64) -> Time {
    NOW + Duration::from_secs(secs)
}

fn ours(secret: Option<&Tree>) -> CertificateSet {
    match CertificateSecret::of(secret) {
        CertificateSecret::Owned(kept) => kept,
        CertificateSecret::Foreign(why) => panic!("{why}"),
    }
}

fn after(kept: &CertificateSet, step: RotationStep) -> CertificateSet {
    let made = kept.apply_step(step, None, &names(), NOW, &lives()).unwrap();
    let read = ours(Some(&made.secret("n", "c")));
    assert!(read == made, "{step:?}: what is written is read");
    read
}

fn authorities(kept: &CertificateSet) -> usize {
    kept.ca_bundle().matches("BEGIN CERTIFICATE").count()
}

#[test]
fn a_life() {
    let first = after(&CertificateSet::default(), RotationStep::CreateAll);
    let picture = first.snapshot(&names());
    assert_eq!(picture.ca.map(|it| it.until), Some(later(3000)));
    assert_eq!(picture.serving.map(|it| it.until), Some(later(300)));
    assert!(picture.serving.unwrap().from < NOW, "clocks may be behind");
    assert_eq!((picture.next_ca, picture.has_former_ca, authorities(&first)), (None, false, 1));

    let renewed = after(&first, RotationStep::RenewServing);
    assert!(renewed.serving != first.serving && renewed.ca_bundle() == first.ca_bundle());

    let begun = after(&renewed, RotationStep::AddNextCa);
    assert!(begun.snapshot(&names()).next_ca.is_some() && authorities(&begun) == 2);
    assert!(begun.serving == renewed.serving, "nothing is shown yet that it certified");
    assert!(begun.ca_bundle().starts_with(&first.ca_bundle()));

    let served = after(&begun, RotationStep::SwitchCa);
    let picture = served.snapshot(&names());
    assert!(picture.serving.is_some() && picture.has_former_ca && picture.next_ca.is_none());
    assert!(served.ca == begun.next_ca && authorities(&served) == 2, "both are trusted");

    let retired = after(&served, RotationStep::RemoveFormerCa);
    assert!(retired.serving == served.serving && authorities(&retired) == 1);
    let patched = served.secret("n", "c").merge(&retired.patch());
    assert!(ours(Some(&patched)) == retired, "the patch takes away what is gone");
    assert!(retired.differs(&served.secret("n", "c")) && !retired.differs(&patched));
}

#[test]
fn a_certificate_never_outlasts_its_authority() {
    let first = after(&CertificateSet::default(), RotationStep::CreateAll);
    let late = first.apply_step(RotationStep::RenewServing, None, &names(), later(2900), &lives()).unwrap();
    assert_eq!(late.snapshot(&names()).serving.map(|it| it.until), Some(later(3000)));
}

#[test]
fn what_was_held_comes_back_with_a_new_authority_on_its_way() {
    let first = after(&CertificateSet::default(), RotationStep::CreateAll);
    let back = CertificateSet::default()
        .apply_step(RotationStep::Restore, Some(&first), &names(), NOW, &lives())
        .unwrap();
    assert!(back.ca == first.ca && back.serving == first.serving && back.next_ca.is_some());
    let served = after(&after(&first, RotationStep::AddNextCa), RotationStep::SwitchCa);
    let back = CertificateSet::default()
        .apply_step(RotationStep::Restore, Some(&served), &names(), NOW, &lives())
        .unwrap();
    assert!(back == served, "one rotation after the other");
}

#[test]
fn names_that_changed_and_parts_that_are_damaged() {
    let kept = after(&after(&CertificateSet::default(), RotationStep::CreateAll), RotationStep::AddNextCa);
    let secret = kept.secret("n", "c");
    let others = ServiceRef { namespace: "n".to_owned(), name: "t".to_owned() }.names();
    assert_eq!(kept.snapshot(&others).serving, None);
    let stranger = after(&CertificateSet::default(), RotationStep::CreateAll).secret("n", "c");
    let theirs = |key: &str| stranger.at(&["data", key]).unwrap().clone();
    let whole = kept.snapshot(&names());
    for (says, key, value, want) in [
        ("no base64", "tls.crt", Tree::from("%"), CertificateSnapshot { serving: None, ..whole }),
        ("no PEM", "tls.crt", Tree::from("AAAA"), CertificateSnapshot { serving: None, ..whole }),
        ("no key", "tls.key", Tree::from(""), CertificateSnapshot { serving: None, ..whole }),
        ("another's key", "tls.key", theirs("tls.key"), CertificateSnapshot { serving: None, ..whole }),
        (
            "an authority without its key",
            "authority.key",
            theirs("authority.key"),
            CertificateSnapshot { ca: None, serving: None, ..whole },
        ),
        (
            "a next authority that is damaged",
            "next-authority.crt",
            Tree::from("AAAA"),
            CertificateSnapshot { next_ca: None, ..whole },
        ),
        ("a former one that is damaged", "former-authority.crt", Tree::from("AAAA"), whole),
        (
            "a former one",
            "former-authority.crt",
            theirs("ca.crt"),
            CertificateSnapshot { has_former_ca: true, ..whole },
        ),
    ] {
        let read = ours(Some(&secret.with(&["data", key], value)));
        assert_eq!(read.snapshot(&names()), want, "{says}");
        assert!(!read.ca_bundle().contains("AAAA\n---"), "{says}: nothing damaged is trusted");
    }
    let mut foreign = kept.clone();
    foreign.serving = ours(Some(&stranger)).serving;
    assert_eq!(foreign.snapshot(&names()).serving, None, "certified by another authority");
}

#[test]
fn secrets_of_others_are_told_from_ours() {
    let kept = after(&CertificateSet::default(), RotationStep::CreateAll);
    let foreign = kept.secret("n", "c").without(&["metadata", "annotations"]);
    match CertificateSecret::of(Some(&foreign)) {
        CertificateSecret::Foreign(why) => assert!(why.contains("muster.dev/certificates=webhooks"), "{why}"),
        CertificateSecret::Owned(_) => panic!("it is another's"),
    }
    for (says, secret) in [
        ("there is none", None),
        (
            "there is one without contents",
            Some(tree!({"metadata": {"name": "c"}, "type": "kubernetes.io/tls"})),
        ),
        (
            "of empty contents",
            Some(tree!({"metadata": {"name": "c"}, "data": {"tls.crt": "", "tls.key": ""}})),
        ),
    ] {
        assert!(ours(secret.as_ref()) == CertificateSet::default(), "{says}");
    }
    let damaged = tree!({"metadata": {"annotations": (owner_annotation())}, "data": {"other": "AAAA"}});
    assert!(ours(Some(&damaged)) == CertificateSet::default(), "ours, of another shape");
}

/// Replicas keep serving a certificate of an older version with fewer DNS names; the leader replaces it by one with
/// all of them.
#[test]
fn names_that_were_added_are_certified_and_not_waited_for() {
    let service = ServiceRef { namespace: "n".to_owned(), name: "s".to_owned() };
    let former = after(&CertificateSet::default(), RotationStep::CreateAll);
    assert!(former.serving_pair(&service.names()).is_some(), "whoever comes new can show it");
    assert_eq!(former.snapshot(&service.certificate_names()).serving, None, "the leader renews it");
    let renewed = former
        .apply_step(RotationStep::RenewServing, None, &service.certificate_names(), NOW, &lives())
        .unwrap();
    assert!(renewed.snapshot(&service.certificate_names()).serving.is_some());
    assert!(renewed.serving_pair(&service.names()).is_some());
}
