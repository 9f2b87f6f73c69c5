//! What happens to TrainJobs.

use std::time::Duration;

use muster_api::client::DeletionPropagation;
use muster_api::kinds;
use muster_api::train::consts::{conditions, reasons};
use muster_api::train::kinds::TRAIN_JOBS;
use muster_control::training::DeadlineClock;
use muster_tree::{Tree, tree};

use super::things::{BRIEF, BROKEN, GANG, LONG, MPI, QUICK, TOO_LONG};
use super::{Stage, Story};
use crate::scenario::{find, minutes};

/// A story in which nothing happens.
pub const BASE: Story = Story {
    says: "",
    clock: DeadlineClock::Auto,
    begin: |_| {},
    user: |_, _| {},
    takes: Duration::from_secs(300),
    end: |_| {},
};

pub fn all() -> Vec<Story> {
    [ends(), suspended(), troubled(), made()].into_iter().flatten().collect()
}

fn ends() -> Vec<Story> {
    vec![
        Story {
            says: "TrainJobs without TTL stay after they finish",
            begin: |stage| {
                stage.submit("good", QUICK, &tree!({}));
                stage.submit("bad", BROKEN, &tree!({}));
                stage.submit("busy", LONG, &tree!({}));
            },
            takes: minutes(60),
            end: |stage| {
                stage.is_complete("good");
                assert_eq!(stage.ended("bad").0, conditions::FAILED);
                assert!(!stage.facts("busy").status.is_finished());
            },
            ..BASE
        },
        Story {
            says: "finished TrainJobs are deleted at once, or after their TTL",
            begin: |stage| {
                for (name, runtime, ttl) in
                    [("a", QUICK, 0), ("b", BROKEN, 0), ("c", QUICK, 40), ("d", BROKEN, 40)]
                {
                    stage.submit(name, runtime, &tree!({"ttlSecondsAfterFinished": ttl}));
                }
            },
            end: |stage| assert!(stage.world.list(&TRAIN_JOBS).is_empty()),
            ..BASE
        },
        Story {
            says: "TrainJobs that are active for too long fail, and others do not",
            begin: |stage| {
                stage.submit("late", LONG, &tree!({"activeDeadlineSeconds": 30}));
                stage.submit("good", QUICK, &tree!({"activeDeadlineSeconds": 3000}));
            },
            takes: minutes(60),
            end: |stage| {
                stage.is_overdue("late");
                stage.is_complete("good");
                assert!(find(stage.world, &kinds::JOBSETS, "late").is_none());
            },
            ..BASE
        },
        Story {
            says: "two hours of training and one of remembering it",
            begin: |stage| {
                stage.submit(
                    "a",
                    LONG,
                    &tree!({"activeDeadlineSeconds": 7200, "ttlSecondsAfterFinished": 3600}),
                );
            },
            takes: minutes(200),
            end: |stage| assert!(!stage.has("a")),
            ..BASE
        },
        Story {
            says: "a JobSet deleted before its TrainJob is not created again",
            begin: |stage| stage.submit("a", BRIEF, &tree!({"ttlSecondsAfterFinished": 120})),
            takes: Duration::from_secs(80),
            end: |stage| {
                stage.is_complete("a");
                assert!(stage.world.list(&kinds::JOBSETS).is_empty());
                stage.world.run(muster_sim::Faults::none(), minutes(2));
                assert!(!stage.has("a"));
            },
            ..BASE
        },
        Story {
            says: "many TrainJobs finish and expire at the same time",
            begin: |stage| {
                for n in 0..12 {
                    stage.submit(
                        &format!("j{n}"),
                        QUICK,
                        &tree!({"ttlSecondsAfterFinished": 10, "activeDeadlineSeconds": 20}),
                    );
                }
            },
            end: |stage| assert!(stage.world.list(&TRAIN_JOBS).is_empty()),
            ..BASE
        },
    ]
}

/// Suspends and resumes by chance; in the end it runs.
fn toggle(stage: &mut Stage<'_>, round: u32) {
    if round == 7 {
        stage.patch("a", &tree!({"suspend": false}));
    } else if stage.dice.one_in(2) {
        let suspend = stage.dice.one_in(2);
        stage.patch("a", &tree!({"suspend": suspend}));
    }
}

fn suspended() -> Vec<Story> {
    let clocked = |says, clock| Story {
        says,
        clock,
        begin: |stage| {
            let suspend = stage.dice.one_in(2);
            stage.submit("a", LONG, &tree!({"activeDeadlineSeconds": 15, "suspend": suspend}));
        },
        user: toggle,
        takes: minutes(10),
        end: |stage| stage.is_overdue("a"),
    };
    vec![
        clocked("time runs on while a TrainJob is suspended", DeadlineClock::Creation),
        clocked("whoever is resumed has the whole time again", DeadlineClock::Active),
        Story {
            says: "a TrainJob that stays suspended never fails",
            begin: |stage| stage.submit("a", LONG, &tree!({"activeDeadlineSeconds": 5, "suspend": true})),
            takes: minutes(60),
            end: |stage| assert!(!stage.facts("a").status.is_finished()),
            ..BASE
        },
        Story {
            says: "changes while a TrainJob is suspended reach its pods",
            begin: |stage| stage.submit("a", QUICK, &tree!({"suspend": true})),
            user: |stage, round| match round {
                2 => stage.patch("a", &tree!({"runtimePatches": Tree::list([patch("red")])})),
                4 => stage.patch("a", &tree!({"suspend": false})),
                _ => {}
            },
            end: |stage| {
                stage.is_complete("a");
                let set = find(stage.world, &kinds::JOBSETS, "a").unwrap().tree;
                let job = &set.items_at(&["spec", "replicatedJobs"])[0];
                assert_eq!(
                    job.str_at(&["template", "spec", "template", "metadata", "labels", "color"]),
                    "red"
                );
            },
            ..BASE
        },
    ]
}

/// A user's change of a runtime.
fn patch(color: &str) -> Tree {
    let pods = tree!({"metadata": {"labels": {"color": color}}});
    let job = tree!({"name": "node", "template": {"spec": {"template": pods}}});
    tree!({"manager": "example.com/painter", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}})
}

fn troubled() -> Vec<Story> {
    vec![
        Story {
            says: "a TrainJob whose JobSet is always rejected fails by its deadline and expires by its TTL",
            begin: |stage| {
                stage.submit(
                    TOO_LONG,
                    QUICK,
                    &tree!({"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 60}),
                );
            },
            end: |stage| {
                assert!(!stage.has(TOO_LONG));
                assert!(stage.world.list(&kinds::JOBSETS).is_empty());
            },
            ..BASE
        },
        Story {
            says: "deleting or recreating a runtime does not affect its TrainJobs",
            begin: |stage| stage.submit("a", QUICK, &tree!({})),
            user: |stage, round| match round {
                7 if find(stage.world, &muster_api::train::kinds::CLUSTER_TRAINING_RUNTIMES, QUICK)
                    .is_some() => {}
                0 | 3 | 7 => stage.toggle_runtime(QUICK),
                _ => {}
            },
            end: |stage| stage.is_complete("a"),
            ..BASE
        },
        Story {
            says: "a TrainJob of the same name has nothing to do with the old one",
            begin: |stage| {
                stage.submit("a", QUICK, &tree!({"ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 12}));
            },
            user: |stage, _| {
                if stage.dice.one_in(3) {
                    stage.delete("a");
                }
                stage.submit("a", QUICK, &tree!({"ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 12}));
            },
            end: |stage| assert!(!stage.has("a")),
            ..BASE
        },
        Story {
            says: "a deleted JobSet is created again until the TrainJob finishes",
            begin: |stage| stage.submit("a", QUICK, &tree!({})),
            user: |stage, round| {
                if round % 3 == 1
                    && let Some(set) = find(stage.world, &kinds::JOBSETS, "a")
                {
                    stage.remove(&kinds::JOBSETS, &set.tree, DeletionPropagation::Background);
                }
            },
            end: |stage| stage.is_complete("a"),
            ..BASE
        },
        Story {
            says: "a TrainJob with another managedBy is left alone",
            begin: |stage| {
                let times = tree!({"activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 0});
                stage.submit("a", QUICK, &times.merge(&tree!({"managedBy": "kueue.x-k8s.io/multikueue"})));
            },
            end: |stage| {
                assert_eq!(stage.facts("a").status, Default::default());
                assert!(stage.world.list(&kinds::JOBSETS).is_empty());
            },
            ..BASE
        },
    ]
}

fn made() -> Vec<Story> {
    vec![
        Story {
            says: "a launcher and its nodes share one SSH key pair",
            begin: |stage| stage.submit("a", MPI, &tree!({})),
            end: |stage| {
                stage.is_complete("a");
                assert!(find(stage.world, &kinds::SECRETS, "a-mpi-ssh-auth").is_some());
            },
            ..BASE
        },
        Story {
            says: "pods of a TrainJob are gang scheduled",
            begin: |stage| stage.submit("a", GANG, &tree!({"ttlSecondsAfterFinished": 100_000})),
            end: |stage| {
                stage.is_complete("a");
                assert_eq!(stage.ended("a").1, "AllJobsCompleted");
                assert_ne!(stage.ended("a").1, reasons::DEADLINE_EXCEEDED);
            },
            ..BASE
        },
    ]
}
