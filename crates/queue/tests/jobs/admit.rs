//! Defaulting and validation of jobs.

use muster_queue::jobs::webhook::{
    JobUpdate, JobWebhookContext, default_job, validate_job, validate_job_update, validate_queue_metadata,
    validate_queue_metadata_update,
};
use muster_schema::error::FieldError;
use muster_tree::{Tree, tree};

use super::{cases, part, says, texts};

fn lines(problems: &[FieldError]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn managed_new_jobs_are_suspended() {
    for case in cases(include_str!("filled_in.yaml")) {
        let flag = |key: &str, usual: bool| case.bool_at(&[key]).unwrap_or(usual);
        let around = JobWebhookContext {
            is_selected: flag("selected", true),
            has_default_queue: flag("defaultQueue", false),
            has_default_class: flag("defaultClass", false),
            without_queue: flag("withoutQueue", false),
            has_managed_owner: flag("ownerManaged", false),
        };
        let suspend = &["spec", "suspend"];
        let got = default_job(part(&case, "job"), suspend, around);
        assert_eq!(got, *part(&case, "want"), "{}", says(&case));
        assert_eq!(default_job(&got, suspend, around), got, "{}: twice is once", says(&case));
    }
}

#[test]
fn job_validation() {
    for case in cases(include_str!("refused.yaml")) {
        let (job, new) = (part(&case, "job"), case.get("new"));
        let problems = match new {
            None => [validate_queue_metadata(job), validate_job(job)].concat(),
            Some(new) => {
                let changed = JobUpdate {
                    old: job,
                    new,
                    is_suspended: new.bool_at(&["spec", "suspend"]) == Some(true),
                    has_default_queue: case.bool_at(&["defaultQueue"]) == Some(true),
                };
                [
                    validate_queue_metadata(new),
                    validate_queue_metadata_update(&changed),
                    validate_job(new),
                    validate_job_update(job, new),
                ]
                .concat()
            }
        };
        assert_eq!(lines(&problems), texts(part(&case, "want")), "{}", says(&case));
    }
}

#[test]
fn all_errors_are_reported_at_once() {
    let job = tree!({"metadata": {
            "labels": {"kueue.x-k8s.io/queue-name": "Q", "kueue.x-k8s.io/max-exec-time-seconds": "0"},
            "annotations": {"kueue.x-k8s.io/job-min-parallelism": "9",
                "kueue.x-k8s.io/job-completions-equal-parallelism": "true"}},
        "spec": {"parallelism": 3, "completions": 2}});
    let problems = [validate_queue_metadata(&job), validate_job(&job)].concat();
    assert_eq!(problems.len(), 5, "{:?}", lines(&problems));
    assert!(validate_queue_metadata(&Tree::Null).is_empty() && validate_job(&Tree::Null).is_empty());
}
