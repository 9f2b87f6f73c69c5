//! Injects every fault at every write of the JobSet controller in turn: a crash before, after or during the write, a lost
//! reply, a lost request, a spurious conflict, and stalled watches.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use muster_api::consts::managers;
use muster_api::kinds;
use muster_sim::{FaultInjection, Faults, InjectedFault, STALL_SECS_MAX, World};
use muster_tree::{Tree, tree};

use super::sets::{after, claiming, jobs, mounting, policy, rule, set, volume};
use super::{Stage, Story, Trouble, gangs, of_sets, perform};
use crate::devices;
use crate::scenario::{find, minutes};

/// The seed of the worlds: what users do in them.
const SEED: u64 = 3;
/// How many of the blows are tried at every write.
const ALWAYS: usize = 3;
/// One node is enough for a few pods.
const NODES: usize = 1;

/// One strike in one story.
struct Case {
    story: Story,
    strike: FaultInjection,
}

impl Case {
    fn play(&self) -> Result<(), String> {
        let mut world = World::new(SEED, NODES);
        world.inject(self.strike.clone());
        let late = self.strike.blow == InjectedFault::CrashInFlight;
        let unseen = Duration::from_secs(3 * STALL_SECS_MAX);
        let trouble = Trouble { unseen, late_calls: late, ..calm() };
        let played = catch_unwind(AssertUnwindSafe(|| perform(&self.story, &mut world, trouble, SEED)));
        played.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let told =
                std::env::var_os("MUSTER_SIM_STORY").map_or(String::new(), |_| world.timeline().join("\n"));
            let FaultInjection { write, blow, .. } = &self.strike;
            format!("{told}\n{blow:?} at write {write}, {}: {}", self.story.says, text.unwrap_or_default())
        })
    }
}

/// No random faults in this world.
fn calm() -> Trouble {
    Trouble { calms: minutes(2), ..Trouble::of(Faults::none()) }
}

/// Every write of the controller without faults, with each fault to inject.
fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for story in small() {
        let mut world = World::new(SEED, NODES);
        perform(&story, &mut world, calm(), SEED);
        let writes = world.writes_by(&managers::JOBSET);
        assert!(writes > 0, "{}", story.says);
        for write in 1..=writes {
            let strike = |blow| FaultInjection { by: managers::JOBSET.clone(), write, blow };
            all.extend(blows(write).into_iter().map(|blow| Case { story, strike: strike(blow) }));
        }
    }
    all
}

/// The faults for a write: all with many seeds, otherwise the most revealing ones and one of the others.
fn blows(write: u64) -> Vec<InjectedFault> {
    let (always, others) = InjectedFault::ALL.split_at(ALWAYS);
    let thorough = std::env::var("MUSTER_SEEDS").is_ok();
    let turn = usize::try_from(write).unwrap() % others.len();
    let others = if thorough { others } else { &others[turn..=turn] };
    [always, others].concat()
}

/// Small stories, each with what it needs and no more: every write is one more world.
fn small() -> Vec<Story> {
    let story = |says, begin, user| Story { says, begin, user, last: |_| {}, end: complete };
    vec![
        story(
            "restarted once, with volumes and devices",
            |stage| rich(stage, &policy(1, "BlockingRecreate", &[])),
            |stage, round| {
                if round == 2 {
                    stage.spoil();
                }
            },
        ),
        story(
            "one Job restarted once",
            |stage| plain(stage, &policy(1, "Recreate", &[rule("RestartJob", "a")])),
            |stage, round| {
                if round == 2 {
                    stage.spoil();
                }
            },
        ),
        story(
            "suspended, changed and resumed",
            |stage| plain(stage, &tree!({})),
            |stage, round| match round {
                2 => stage.patch("s", &tree!({"suspend": true})),
                4 => stage.retouch("s", "word", false),
                _ => {}
            },
        ),
        story(
            "deleted, and back under its name",
            |stage| rich(stage, &tree!({})),
            |stage, round| match round {
                2 => stage.delete("s"),
                6 => plain(stage, &tree!({})),
                _ => {}
            },
        ),
        Story { says: "gangs of two attempts", ..gangs::small() },
        Story {
            says: "gone when its time has come",
            begin: |stage| plain(stage, &tree!({"ttlSecondsAfterFinished": 1})),
            user: |_, _| {},
            last: |_| {},
            end: |stage| assert!(find(stage.world, &kinds::JOBSETS, "s").is_none()),
        },
    ]
}

/// A Job of one pod with a device that is given back when it has ended, or stays with it.
fn one(name: &str, deletion: &str) -> Tree {
    let thin = tree!({"template": {"spec": {"parallelism": 1, "completions": 1}}});
    claiming(&jobs(name, 1, 8), 1, deletion).merge(&thin)
}

/// Two Jobs, and no Service.
fn plain(stage: &mut Stage<'_>, more: &Tree) {
    declare_once(stage);
    let all = [one("a", "OnJobCompletion"), one("b", "OnJobDeletion")];
    stage.create(&set("s", &all, &tree!({"network": {"enableDNSHostnames": false}}).merge(more)));
}

/// Two Jobs one after the other, with volumes.
fn rich(stage: &mut Stage<'_>, more: &Tree) {
    declare_once(stage);
    let a = mounting(&one("a", "OnJobCompletion"), &["cache", "keep"]);
    let all = [a, after(&one("b", "OnJobDeletion"), "a", "Ready")];
    let volumes = Tree::list([volume("cache", "Delete"), volume("keep", "Retain")]);
    stage.create(&set("s", &all, &tree!({"volumeClaimPolicies": volumes}).merge(more)));
}

fn declare_once(stage: &mut Stage<'_>) {
    if stage.world.list(&kinds::DEVICE_CLASSES).is_empty() {
        devices::declare(stage.world);
    }
}

fn complete(stage: &mut Stage<'_>) {
    assert_eq!(stage.terminal("s"), "Completed", "{:?}", stage.facts("s").status);
    let left: Vec<_> = of_sets(stage.world, &kinds::RESOURCE_CLAIMS).into_iter().map(|it| it.name).collect();
    assert_eq!(left, ["s-b-0-gpu"], "claims of Jobs that ended are gone, or stay as long as their Job");
}

/// Shows: 762-57.
#[test]
fn a_blow_at_any_write_changes_nothing_in_the_end() {
    let all = cases();
    let (next, problems) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(case) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(problem) = case.play() {
                        problems.lock().unwrap().push(problem);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    println!("{} strikes, {} failed", all.len(), problems.len());
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}
