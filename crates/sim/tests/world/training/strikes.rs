//! Each write of the TrainJob controller in turn meets with each misfortune.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use muster_api::kinds;
use muster_api::train::consts::MANAGER;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_sim::{FaultInjection, Faults, InjectedFault, STALL_SECS_MAX, World};
use muster_tree::tree;

use super::stories::BASE;
use super::things::{GANG, LONG, MPI, QUICK};
use super::{Story, perform, told};
use crate::jobsets::Trouble;
use crate::scenario::minutes;

const SEED: u64 = 5;
/// One node is enough for a few pods.
const NODES: usize = 1;

/// Small stories: every write is seven more worlds.
fn small() -> Vec<Story> {
    let ends = |stage: &mut super::Stage<'_>| assert!(stage.world.list(&TRAIN_JOBS).is_empty());
    let takes = minutes(3);
    vec![
        Story {
            says: "fails by its deadline and goes",
            begin: |stage| {
                stage.submit("a", LONG, &tree!({"activeDeadlineSeconds": 20, "ttlSecondsAfterFinished": 20}));
            },
            takes,
            end: ends,
            ..BASE
        },
        Story {
            says: "suspended, resumed, done and gone",
            begin: |stage| stage.submit("a", MPI, &tree!({"suspend": true, "ttlSecondsAfterFinished": 0})),
            user: |stage, round| {
                if round == 3 {
                    stage.patch("a", &tree!({"suspend": false}));
                }
            },
            takes,
            end: ends,
            ..BASE
        },
        Story {
            says: "placed together and done",
            begin: |stage| stage.submit("a", GANG, &tree!({})),
            takes,
            end: |stage| stage.is_complete("a"),
            ..BASE
        },
        Story {
            says: "its JobSet is lost when it has ended",
            begin: |stage| stage.submit("a", QUICK, &tree!({})),
            user: |stage, round| {
                let ended = stage.facts("a").status.is_finished();
                let set = crate::scenario::find(stage.world, &kinds::JOBSETS, "a");
                if let Some(set) = set.filter(|_| ended && round > 4) {
                    stage.remove(
                        &kinds::JOBSETS,
                        &set.tree,
                        muster_api::client::DeletionPropagation::Background,
                    );
                }
            },
            takes,
            end: |stage| stage.is_complete("a"),
            ..BASE
        },
    ]
}

fn play(story: &Story, strike: &FaultInjection) -> Result<(), String> {
    let mut world = World::with_settings(SEED, NODES, told(story.clock, SEED));
    world.inject(strike.clone());
    let late = strike.blow == InjectedFault::CrashInFlight;
    let unseen = Duration::from_secs(3 * STALL_SECS_MAX);
    let trouble = Trouble { unseen, late_calls: late, ..Trouble::of(Faults::none()) };
    let played = catch_unwind(AssertUnwindSafe(|| perform(story, &mut world, trouble, SEED)));
    played.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let told =
            std::env::var_os("MUSTER_SIM_STORY").map_or(String::new(), |_| world.timeline().join("\n"));
        format!(
            "{told}\n{:?} at write {}, {}: {}",
            strike.blow,
            strike.write,
            story.says,
            text.unwrap_or_default()
        )
    })
}

/// Shows: 2899-28, 2899-48.
#[test]
fn a_blow_at_any_write_changes_nothing_in_the_end() {
    let (mut strikes, mut problems) = (0, Vec::new());
    for story in small() {
        let mut world = World::with_settings(SEED, NODES, told(story.clock, SEED));
        perform(&story, &mut world, Trouble::of(Faults::none()), SEED);
        let writes = world.writes_by(&MANAGER);
        assert!(writes > 2, "{}: {writes}", story.says);
        for write in 1..=writes {
            for blow in InjectedFault::ALL {
                strikes += 1;
                problems.extend(play(&story, &FaultInjection { by: MANAGER.clone(), write, blow }).err());
            }
        }
    }
    println!("{strikes} strikes, {} failed", problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
