//! What a Secret holds, through a life of it.

use std::time::Duration;

use super::*;
use crate::certificates::Service;

const NOW: Time = Time(1_800_000_000_000_000);

fn lives() -> Lifetimes {
    let secs = Duration::from_secs;
    Lifetimes { authority: secs(3000), serving: secs(300), pause: secs(10) }
}

fn names() -> Vec<String> {
    Service { namespace: "n".to_owned(), name: "s".to_owned() }.names()
}

fn later(secs: u64) -> Time {
    NOW + Duration::from_secs(secs)
}

fn ours(secret: Option<&Tree>) -> Kept {
    match Found::of(secret) {
        Found::Ours(kept) => kept,
        Found::Foreign(why) => panic!("{why}"),
    }
}

fn after(kept: &Kept, step: Step) -> Kept {
    let made = kept.after(step, None, &names(), NOW, &lives()).unwrap();
    let read = ours(Some(&made.secret("n", "c")));
    assert!(read == made, "{step:?}: what is written is read");
    read
}

fn authorities(kept: &Kept) -> usize {
    kept.bundle().matches("BEGIN CERTIFICATE").count()
}

#[test]
fn a_life() {
    let first = after(&Kept::default(), Step::MakeAll);
    let picture = first.picture(&names());
    assert_eq!(picture.authority.map(|it| it.until), Some(later(3000)));
    assert_eq!(picture.serving.map(|it| it.until), Some(later(300)));
    assert!(picture.serving.unwrap().from < NOW, "clocks may be behind");
    assert_eq!((picture.next, picture.former, authorities(&first)), (None, false, 1));

    let renewed = after(&first, Step::RenewServing);
    assert!(renewed.serving != first.serving && renewed.bundle() == first.bundle());

    let begun = after(&renewed, Step::BeginAuthority);
    assert!(begun.picture(&names()).next.is_some() && authorities(&begun) == 2);
    assert!(begun.serving == renewed.serving, "nothing is shown yet that it certified");
    assert!(begun.bundle().starts_with(&first.bundle()));

    let served = after(&begun, Step::ServeNext);
    let picture = served.picture(&names());
    assert!(picture.serving.is_some() && picture.former && picture.next.is_none());
    assert!(served.authority == begun.next && authorities(&served) == 2, "both are trusted");

    let retired = after(&served, Step::RetireFormer);
    assert!(retired.serving == served.serving && authorities(&retired) == 1);
    let patched = served.secret("n", "c").merge(&retired.patch());
    assert!(ours(Some(&patched)) == retired, "the patch takes away what is gone");
    assert!(retired.differs(&served.secret("n", "c")) && !retired.differs(&patched));
}

#[test]
fn a_certificate_never_outlasts_its_authority() {
    let first = after(&Kept::default(), Step::MakeAll);
    let late = first.after(Step::RenewServing, None, &names(), later(2900), &lives()).unwrap();
    assert_eq!(late.picture(&names()).serving.map(|it| it.until), Some(later(3000)));
}

#[test]
fn what_was_held_comes_back_with_a_new_authority_on_its_way() {
    let first = after(&Kept::default(), Step::MakeAll);
    let back = Kept::default().after(Step::PutBack, Some(&first), &names(), NOW, &lives()).unwrap();
    assert!(back.authority == first.authority && back.serving == first.serving && back.next.is_some());
    let served = after(&after(&first, Step::BeginAuthority), Step::ServeNext);
    let back = Kept::default().after(Step::PutBack, Some(&served), &names(), NOW, &lives()).unwrap();
    assert!(back == served, "one rotation after the other");
}

#[test]
fn names_that_changed_and_parts_that_are_damaged() {
    let kept = after(&after(&Kept::default(), Step::MakeAll), Step::BeginAuthority);
    let secret = kept.secret("n", "c");
    let others = Service { namespace: "n".to_owned(), name: "t".to_owned() }.names();
    assert_eq!(kept.picture(&others).serving, None);
    let stranger = after(&Kept::default(), Step::MakeAll).secret("n", "c");
    let theirs = |key: &str| stranger.at(&["data", key]).unwrap().clone();
    let whole = kept.picture(&names());
    for (says, key, value, want) in [
        ("no base64", "tls.crt", Tree::from("%"), Picture { serving: None, ..whole }),
        ("no PEM", "tls.crt", Tree::from("AAAA"), Picture { serving: None, ..whole }),
        ("no key", "tls.key", Tree::from(""), Picture { serving: None, ..whole }),
        ("another's key", "tls.key", theirs("tls.key"), Picture { serving: None, ..whole }),
        (
            "an authority without its key",
            "authority.key",
            theirs("authority.key"),
            Picture { authority: None, serving: None, ..whole },
        ),
        (
            "a next authority that is damaged",
            "next-authority.crt",
            Tree::from("AAAA"),
            Picture { next: None, ..whole },
        ),
        ("a former one that is damaged", "former-authority.crt", Tree::from("AAAA"), whole),
        ("a former one", "former-authority.crt", theirs("ca.crt"), Picture { former: true, ..whole }),
    ] {
        let read = ours(Some(&secret.with(&["data", key], value)));
        assert_eq!(read.picture(&names()), want, "{says}");
        assert!(!read.bundle().contains("AAAA\n---"), "{says}: nothing damaged is trusted");
    }
    let mut foreign = kept.clone();
    foreign.serving = ours(Some(&stranger)).serving;
    assert_eq!(foreign.picture(&names()).serving, None, "certified by another authority");
}

#[test]
fn secrets_of_others_are_told_from_ours() {
    let kept = after(&Kept::default(), Step::MakeAll);
    let foreign = kept.secret("n", "c").without(&["metadata", "annotations"]);
    match Found::of(Some(&foreign)) {
        Found::Foreign(why) => assert!(why.contains("muster.dev/certificates=webhooks"), "{why}"),
        Found::Ours(_) => panic!("it is another's"),
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
        assert!(ours(secret.as_ref()) == Kept::default(), "{says}");
    }
    let damaged = tree!({"metadata": {"annotations": (mark())}, "data": {"other": "AAAA"}});
    assert!(ours(Some(&damaged)) == Kept::default(), "ours, of another shape");
}

/// Replicas of a version that certified fewer names go on with what is there, and the leader certifies them all.
#[test]
fn names_that_were_added_are_certified_and_not_waited_for() {
    let service = Service { namespace: "n".to_owned(), name: "s".to_owned() };
    let former = after(&Kept::default(), Step::MakeAll);
    assert!(former.shown(&service.names()).is_some(), "whoever comes new can show it");
    assert_eq!(former.picture(&service.certified()).serving, None, "the leader renews it");
    let renewed = former.after(Step::RenewServing, None, &service.certified(), NOW, &lives()).unwrap();
    assert!(renewed.picture(&service.certified()).serving.is_some());
    assert!(renewed.shown(&service.names()).is_some());
}
