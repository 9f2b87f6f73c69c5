//! When enough has succeeded.

use super::*;

fn with_rules(rules: Tree) -> Tree {
    begun(
        tree!({"completionMode": "Indexed", "completions": 5, "parallelism": 5, "successPolicy": {"rules": rules}}),
    )
}

#[test]
fn rules_of_the_success_policy() {
    let cases = [
        ("all the indexes of a rule", tree!([{"succeededIndexes": "0,2"}]), "0,2", Some(0)),
        ("one is missing", tree!([{"succeededIndexes": "0,2"}]), "0,1,3", None),
        (
            "as many of them as asked for",
            tree!([{"succeededIndexes": "0-3", "succeededCount": 2}]),
            "1,3",
            Some(0),
        ),
        ("others do not help", tree!([{"succeededIndexes": "0-3", "succeededCount": 2}]), "1,4", None),
        ("any so many", tree!([{"succeededCount": 3}]), "0,2,4", Some(0)),
        ("too few", tree!([{"succeededCount": 3}]), "0,2", None),
        (
            "the first rule that is met",
            tree!([{"succeededIndexes": "4"}, {"succeededCount": 1}]),
            "0",
            Some(1),
        ),
        ("indexes out of range are met by nobody", tree!([{"succeededIndexes": "7"}]), "0-3", None),
        ("nothing succeeded", tree!([{"succeededCount": 0}]), "", None),
    ];
    for (says, rules, completed, met) in cases {
        let job = with_rules(rules).with(&["status", "completedIndexes"], completed);
        let status = written(&look(&job, &[], at(0)));
        let found = condition::find(status.items_at(&["conditions"]), "SuccessCriteriaMet");
        let found = found.map(|c| (c.str_at(&["reason"]), c.str_at(&["message"])));
        let words = met.map(|at| format!("Matched rules at index {at}"));
        assert_eq!(found, words.as_deref().map(|words| ("SuccessPolicy", words)), "{says}");
    }
}

#[test]
fn the_other_pods_go_uncounted_and_the_end_waits_for_them() {
    let job = with_rules(tree!([{"succeededCount": 1}]));
    let others = |deleted: bool| {
        let other = pod(&job, "b", "Running", Some(1));
        let gone = other.with(meta_path::DELETED, at(9).to_seconds_text()).without(meta_path::FINALIZERS);
        if deleted { gone } else { other }
    };
    let done = pod(&job, "a", "Succeeded", Some(0));
    let steps = look(&job, &[done.clone(), others(false)], at(0));
    assert_eq!(short(&steps), ["write", "release a,b", "delete b"], "released before deleted: no failure");
    let status = written(&steps);
    assert_eq!((status.int_at(&["terminating"]), status.int_at(&["succeeded"])), (Some(1), Some(1)));
    assert_eq!(status.at(&["uncountedTerminatedPods"]), Some(&tree!({})));
    let job = job.with(path::STATUS, status);
    let done = done.without(meta_path::FINALIZERS);
    let steps = look(&job, &[done.clone(), others(true)], at(1));
    assert_eq!(condition_types(&written(&steps)), ["SuccessCriteriaMet"], "one is still ending");
    let steps = look(&job, &[done], at(2));
    assert_eq!(short(&steps), ["write", "note Completed"]);
    assert_eq!(condition_types(&written(&steps)), ["SuccessCriteriaMet", "Complete"]);
}

#[test]
fn a_failure_comes_before_a_success_unless_the_success_is_announced() {
    let job = with_rules(tree!([{"succeededCount": 1}])).with(path::BACKOFF_LIMIT, 0);
    let pods = [pod(&job, "a", "Succeeded", Some(0)), pod(&job, "b", "Failed", Some(1))];
    assert_eq!(condition_types(&written(&look(&job, &pods, at(0)))), ["FailureTarget"]);
    let announced = tree!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy"}]);
    let job = job.with(&["status", "conditions"], announced);
    assert_eq!(condition_types(&written(&look(&job, &pods, at(0)))), ["SuccessCriteriaMet"]);
}

#[test]
fn nothing_to_do_is_done_at_once() {
    let mut world = World { job: job(tree!({"completions": 0})), pods: vec![], now: at(0) };
    assert_eq!(short(&world.look()), ["write"]);
    assert_eq!(condition_types(world.status()), ["SuccessCriteriaMet"], "announced first");
    assert_eq!(short(&world.look()), ["write", "note Completed"]);
}

#[test]
fn more_successes_than_wanted_are_worth_a_warning() {
    let status = tree!({"succeeded": 3, "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]});
    let job = job(tree!({"completions": 2})).with(path::STATUS, status);
    assert_eq!(short(&look(&job, &[], at(0))), ["write", "note TooManySucceededPods", "note Completed"]);
}
