//! The objects that TrainJobs and runtimes build, as tables.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod case;
mod changes;
mod look;
mod scripts;

use case::{cases, says};
use muster_trainer::build::BuildError;

/// Runs the cases of a table, and reports all failures.
fn play(table: &str) {
    let mut wrong = Vec::new();
    for case in cases(table) {
        let built = case::build(&case);
        assert_eq!(built, case::build(&case), "{}: the same question has the same answer", says(&case));
        let got = built.map_err(|error| BuildError::from(error).to_string());
        let problems = match (case.get("refused"), got) {
            (Some(words), Err(got)) if words.as_str() == Some(&got) => Vec::new(),
            (Some(words), got) => vec![format!("want {words}, got {got:?}")],
            (None, Err(got)) => vec![got],
            (None, Ok(built)) => {
                look::is_complete(&built);
                look::differences(&case, &built)
            }
        };
        wrong.extend(problems.into_iter().map(|problem| format!("{}\n  {problem}", says(&case))));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_patches_come_to() {
    play(include_str!("patches.yaml"));
}

#[test]
fn what_a_trainer_says() {
    play(include_str!("trainer.yaml"));
}

#[test]
fn what_is_fetched_before() {
    play(include_str!("initializers.yaml"));
}

#[test]
fn torch() {
    play(include_str!("torch.yaml"));
}

#[test]
fn torchtune() {
    play(include_str!("torchtune.yaml"));
}

#[test]
fn mpi() {
    play(include_str!("mpi.yaml"));
}

#[test]
fn jax_and_xgboost() {
    play(include_str!("jax_xgboost.yaml"));
}

#[test]
fn flux() {
    play(include_str!("flux.yaml"));
}

#[test]
fn what_is_placed_together() {
    play(include_str!("groups.yaml"));
}

#[test]
fn whole_objects() {
    play(include_str!("whole.yaml"));
}

#[test]
fn what_a_queue_is_asked_for() {
    play(include_str!("queue.yaml"));
}
