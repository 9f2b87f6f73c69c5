//! What is filled in and refused.

use muster_queue::jobs::admit::{
    Around, Changed, check_job, check_job_change, check_queue_change, check_queue_words, filled_in,
};
use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::{cases, part, says, texts};

fn lines(problems: &[FieldError]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn new_jobs_stand_still_if_they_are_taken_in() {
    for case in cases(include_str!("filled_in.yaml")) {
        let flag = |key: &str, usual: bool| case.bool_at(&[key]).unwrap_or(usual);
        let around = Around {
            is_selected: flag("selected", true),
            has_default_queue: flag("defaultQueue", false),
            has_default_class: flag("defaultClass", false),
            without_queue: flag("withoutQueue", false),
            has_managed_owner: flag("ownerManaged", false),
        };
        let suspend = &["spec", "suspend"];
        let got = filled_in(part(&case, "job"), suspend, around);
        assert_eq!(got, *part(&case, "want"), "{}", says(&case));
        assert_eq!(filled_in(&got, suspend, around), got, "{}: twice is once", says(&case));
    }
}

#[test]
fn what_is_refused_of_jobs() {
    for case in cases(include_str!("refused.yaml")) {
        let (job, new) = (part(&case, "job"), case.get("new"));
        let problems = match new {
            None => [check_queue_words(job), check_job(job)].concat(),
            Some(new) => {
                let changed = Changed {
                    old: job,
                    new,
                    is_suspended: new.bool_at(&["spec", "suspend"]) == Some(true),
                    has_default_queue: case.bool_at(&["defaultQueue"]) == Some(true),
                };
                [
                    check_queue_words(new),
                    check_queue_change(&changed),
                    check_job(new),
                    check_job_change(job, new),
                ]
                .concat()
            }
        };
        assert_eq!(lines(&problems), texts(part(&case, "want")), "{}", says(&case));
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let job = tree!({"metadata": {
            "labels": {"kueue.x-k8s.io/queue-name": "Q", "kueue.x-k8s.io/max-exec-time-seconds": "0"},
            "annotations": {"kueue.x-k8s.io/job-min-parallelism": "9",
                "kueue.x-k8s.io/job-completions-equal-parallelism": "true"}},
        "spec": {"parallelism": 3, "completions": 2}});
    let problems = [check_queue_words(&job), check_job(&job)].concat();
    assert_eq!(problems.len(), 5, "{:?}", lines(&problems));
    assert!(check_queue_words(&Tree::Null).is_empty() && check_job(&Tree::Null).is_empty());
}
