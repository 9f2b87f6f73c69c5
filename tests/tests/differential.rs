//! Checks of the judge itself: a fault in one answer of ours is found where it is.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_tests::differential::{AnswerFault, DifferentialReport, HttpAnswer, compare_scenarios};
use muster_tests::server_pair;
use muster_tree::Tree;

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// Judges our server against another of ours, with a fault in the n-th answer for which `change` has another one.
fn judged_with_fault(
    filter: &str,
    nth: usize,
    change: impl Fn(&str, &HttpAnswer) -> Option<Tree> + Send + Sync + 'static,
) -> DifferentialReport {
    let pair = [(); 2].map(|()| server_pair::start_embedded(&["gc", "namespace"]).unwrap());
    let [broken, sound] = pair.each_ref().map(|plane| plane.server().unwrap());
    let seen = AtomicUsize::new(0);
    let fault: AnswerFault = Box::new(move |method, _, answer| match change(method, &answer) {
        Some(body) if seen.fetch_add(1, Ordering::Relaxed) == nth => HttpAnswer { body, ..answer },
        _ => answer,
    });
    compare_scenarios(&broken.with_fault(fault), &sound, &scenarios(), filter).unwrap()
}

/// (step, path of the difference) of everything found.
fn places(report: &DifferentialReport) -> Vec<(usize, &str)> {
    report.found.iter().map(|finding| (finding.step, finding.difference.path.as_str())).collect()
}

#[test]
fn a_lost_default_is_seen_where_it_is_lost() {
    let report = judged_with_fault("Services", 1, |method, answer| {
        let lost = ["spec", "sessionAffinity"];
        (method == "POST" && answer.body.at(&lost).is_some()).then(|| answer.body.without(&lost))
    });
    let [(_, path)] = places(&report)[..] else { panic!("one place: {report}") };
    assert_eq!(path, "body.spec.sessionAffinity");
    assert!(report.found[0].call.starts_with("POST"), "{report}");
    assert!(report.check().is_err());
}

#[test]
fn two_watch_events_in_the_wrong_order_are_seen() {
    let report = judged_with_fault("a watch from a resource version", 0, |method, answer| {
        let mut events = answer.body.items().to_vec();
        (method == "WATCH" && events.len() > 1).then(|| {
            events.swap(0, 1);
            Tree::list(events)
        })
    });
    let steps: Vec<usize> = places(&report).iter().map(|place| place.0).collect();
    assert!(!steps.is_empty() && steps.iter().all(|step| *step == steps[0]), "{report}");
    assert!(report.found[0].call.starts_with("WATCH"), "{report}");
    assert!(places(&report).contains(&(steps[0], "body[0].type")), "{report}");
}

#[test]
fn an_owner_lost_from_managed_fields_is_seen() {
    let report = judged_with_fault("server-side apply by two managers", 0, |method, answer| {
        let path = ["metadata", "managedFields"];
        let owners = answer.body.items_at(&path);
        (method == "PATCH" && owners.len() == 2)
            .then(|| answer.body.with(&path, Tree::list(owners[..1].to_vec())))
    });
    let [(_, path)] = places(&report)[..] else { panic!("one place: {report}") };
    assert_eq!(path, "body.metadata.managedFields");
    assert!(report.found[0].call.starts_with("PATCH"), "{report}");
}
