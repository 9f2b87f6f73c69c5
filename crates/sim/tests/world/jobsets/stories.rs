//! What happens to JobSets.

use std::time::Duration;

use muster_api::client::Kind;
use muster_api::consts::jobset as words;
use muster_api::job::JobFacts;
use muster_api::{kinds, meta};
use muster_sim::Faults;
use muster_tree::{Text, Tree, tree};

use super::sets::{after, claiming, jobs, mounting, policy, rule, set, volume};
use super::{Made, Stage, Story, gangs, of_sets};
use crate::devices;
use crate::scenario::{find, minutes};

/// A story in which nothing happens.
pub const BASE: Story = Story { says: "", begin: |_| {}, user: |_, _| {}, last: |_| {}, end: |_| {} };

pub fn all() -> Vec<Story> {
    [restarts(), pauses(), volumes(), ends(), gangs::stories()].into_iter().flatten().collect()
}

fn restarts() -> Vec<Story> {
    vec![
        Story {
            says: "a JobSet whose Jobs fail is restarted until it is through or has failed too often",
            begin: |stage| begin_restarting(stage, &policy(3, "Recreate", &[])),
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
        Story {
            says: "a JobSet is restarted when all Jobs of the attempt before are gone",
            begin: |stage| begin_restarting(stage, &policy(3, "BlockingRecreate", &[])),
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
        Story {
            says: "single Jobs are restarted, and sometimes all",
            begin: |stage| {
                let rules = [rule("RestartJob", "a"), rule("RestartJobAndIgnoreMaxRestarts", "b")];
                begin_restarting(stage, &policy(4, "Recreate", &rules));
            },
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
        Story {
            says: "Jobs wait for others, also after a restart",
            begin: |stage| {
                let [a, b, c] = ["a", "b", "c"].map(|name| jobs(name, 2, stage.seconds()));
                let chain = [a, after(&b, "a", "Ready"), after(&c, "b", "Complete")];
                stage.create(&set("s", &chain, &policy(2, "Recreate", &[])));
            },
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
        Story {
            says: "replicatedJobs start one after the other, also after a restart",
            begin: |stage| {
                let all = ["a", "b", "c"].map(|name| jobs(name, 2, stage.seconds()));
                let order = tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
                stage.create(&set("s", &all, &policy(2, "Recreate", &[]).merge(&order)));
            },
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
    ]
}

fn begin_restarting(stage: &mut Stage<'_>, policy: &Tree) {
    let all = [jobs("a", 2, stage.seconds()), jobs("b", 1, stage.seconds()), jobs("c", 1, stage.seconds())];
    stage.create(&set("s", &all, policy));
}

pub fn spoil_sometimes(stage: &mut Stage<'_>, _: u32) {
    if stage.dice.one_in(3) {
        stage.spoil();
    }
}

/// It is finished; the history checks whether that is correct.
pub fn over(stage: &mut Stage<'_>) {
    assert!(!stage.terminal("s").is_empty(), "it has ended: {:?}", stage.facts("s").status);
}

fn complete(stage: &mut Stage<'_>) {
    assert_eq!(stage.terminal("s"), "Completed", "{:?}", stage.facts("s").status);
}

fn pauses() -> Vec<Story> {
    vec![
        Story {
            says: "a JobSet is suspended and goes on with what its templates say by then",
            begin: |stage| {
                let all =
                    [jobs("a", 2, stage.seconds()), after(&jobs("b", 1, stage.seconds()), "a", "Ready")];
                stage.create(&set("s", &all, &tree!({"suspend": stage.dice.one_in(2)})));
            },
            user: |stage, round| {
                let set = stage.facts("s");
                match stage.dice.below(4) {
                    _ if !set.status.terminal.is_empty() => {}
                    0 if set.suspend => stage.patch("s", &tree!({"suspend": false})),
                    1 if set.suspend => stage.retouch("s", &format!("w{round}"), stage.dice.one_in(2)),
                    0 | 1 => stage.patch("s", &tree!({"suspend": true})),
                    _ => {}
                }
            },
            last: |stage| {
                if !stage.terminal("s").is_empty() {
                    return;
                }
                stage.patch("s", &tree!({"suspend": true}));
                stage.world.run(Faults::none(), Duration::from_secs(20));
                let open = stage.world.list(&kinds::JOBS);
                let open = open.iter().filter(|it| JobFacts::of(&it.tree).finished_condition().is_none());
                stage.notes = open.map(|it| meta::uid(&it.tree)).collect();
                stage.retouch("s", "last", false);
            },
            end: |stage| {
                complete(stage);
                for job in stage.world.list(&kinds::JOBS) {
                    let word = job.tree.str_at(&["spec", "template", "metadata", "labels", "word"]);
                    let name = meta::name(&job.tree);
                    assert!(!stage.notes.contains(&meta::uid(&job.tree)) || word == "last", "{name}: {word}");
                }
            },
        },
        Story {
            says: "a JobSet that starts in order is suspended, fails and goes on",
            begin: |stage| {
                let all = ["a", "b"].map(|name| jobs(name, 2, stage.seconds()));
                let order = tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
                stage.create(&set("s", &all, &policy(2, "Recreate", &[]).merge(&order)));
            },
            user: |stage, _| {
                let set = stage.facts("s");
                match stage.dice.below(5) {
                    _ if !set.status.terminal.is_empty() => {}
                    0 | 1 => stage.patch("s", &tree!({"suspend": !set.suspend})),
                    2 => stage.spoil(),
                    _ => {}
                }
            },
            last: |stage| stage.patch("s", &tree!({"suspend": false})),
            end: over,
        },
        Story {
            says: "Jobs share devices, through restarts and pauses",
            begin: |stage| {
                devices::declare(stage.world);
                let a = claiming(&jobs("a", 3, stage.seconds()), 1, "OnJobCompletion");
                let b = claiming(&jobs("b", 1, stage.seconds()), 2, "OnJobDeletion");
                stage.create(&set("s", &[a, b], &policy(2, "Recreate", &[rule("RestartJob", "a")])));
            },
            user: |stage, _| {
                let set = stage.facts("s");
                match stage.dice.below(6) {
                    _ if !set.status.terminal.is_empty() => {}
                    0 | 1 => stage.patch("s", &tree!({"suspend": !set.suspend})),
                    2 => stage.spoil(),
                    _ => {}
                }
            },
            last: |stage| stage.patch("s", &tree!({"suspend": false})),
            end: |stage| {
                over(stage);
                let claims = of_sets(stage.world, &kinds::RESOURCE_CLAIMS);
                let own = |it: &Made| it.name == "s-b-0-gpu";
                assert!(claims.iter().all(own), "only claims that stay with their Jobs are left");
            },
        },
    ]
}

fn volumes() -> Vec<Story> {
    vec![
        Story {
            says: "volumes outlive restarts, and the one that is kept serves the next JobSet",
            begin: with_volumes,
            user: |stage, round| match find(stage.world, &kinds::JOBSETS, "s") {
                None if round > 6 => with_volumes(stage),
                Some(_) if round == 5 && stage.dice.one_in(2) => stage.delete("s"),
                _ => spoil_sometimes(stage, round),
            },
            last: |stage| {
                if find(stage.world, &kinds::JOBSETS, "s").is_none() {
                    stage.world.run(Faults::none(), minutes(2));
                    with_volumes(stage);
                }
            },
            end: |stage| {
                over(stage);
                let volumes: Vec<Text> = of_sets(stage.world, &kinds::PERSISTENT_VOLUME_CLAIMS)
                    .into_iter()
                    .map(|it| it.name)
                    .collect();
                assert_eq!(volumes, ["cache-s", "keep-s"]);
            },
        },
        Story {
            says: "two JobSets generate one volume name: one waits until the other is deleted",
            begin: |stage| {
                let both = [("b-c", "a"), ("c", "a-b")];
                for (name, template) in both {
                    let all = [mounting(&jobs("j", 1, stage.seconds()), &[template])];
                    let volumes = Tree::list([volume(template, "Delete")]);
                    stage.create(&set(name, &all, &tree!({"volumeClaimPolicies": volumes})));
                }
            },
            last: |stage| let_one_go(stage, &kinds::PERSISTENT_VOLUME_CLAIMS, "a-b-c"),
            end: only_one,
            ..BASE
        },
        Story {
            says: "two JobSets whose names differ in dots only: one waits until the other is deleted",
            begin: |stage| {
                for name in ["x.y", "x-y"] {
                    stage.create(&set(name, &[jobs("j", 2, stage.seconds())], &tree!({})));
                }
            },
            last: |stage| let_one_go(stage, &kinds::SERVICES, "x-y"),
            end: only_one,
            ..BASE
        },
    ]
}

fn with_volumes(stage: &mut Stage<'_>) {
    let all = [mounting(&jobs("a", 2, stage.seconds()), &["cache", "keep"]), jobs("b", 1, stage.seconds())];
    let volumes = Tree::list([volume("cache", "Delete"), volume("keep", "Retain")]);
    let more = policy(2, "Recreate", &[]).merge(&tree!({"volumeClaimPolicies": volumes}));
    stage.create(&set("s", &all, &more));
}

/// Of two JobSets with the same generated name, deletes the one that owns it.
fn let_one_go(stage: &mut Stage<'_>, kind: &Kind, what: &str) {
    stage.world.run(Faults::none(), minutes(2));
    let held = find(stage.world, kind, what).unwrap_or_else(|| panic!("nobody made {what}"));
    let owner = meta::controller_of(&held.tree).expect("it has an owner").name;
    for set in stage.world.list(&kinds::JOBSETS) {
        let (name, facts) = (meta::name(&set.tree), stage.facts(&meta::name(&set.tree)));
        let wanted = if name == owner { "Completed" } else { "" };
        assert_eq!(facts.status.terminal, wanted, "{name}: {owner} has {what}");
    }
    stage.delete(&owner);
}

fn only_one(stage: &mut Stage<'_>) {
    let sets: Vec<Text> = stage.world.list(&kinds::JOBSETS).iter().map(|it| meta::name(&it.tree)).collect();
    assert_eq!(sets.len(), 1);
    assert_eq!(stage.terminal(&sets[0]), "Completed");
}

/// A JobSet with everything there is.
fn rich(stage: &mut Stage<'_>, more: &Tree) {
    let a = mounting(&jobs("a", 2, stage.seconds()), &["cache", "keep"]);
    let b = claiming(&jobs("b", 2, stage.seconds()), 1, "OnJobDeletion");
    let volumes = Tree::list([volume("cache", "Delete"), volume("keep", "Retain")]);
    let base = policy(3, "Recreate", &[]).merge(&tree!({"volumeClaimPolicies": volumes}));
    stage.create(&set("s", &[a, after(&b, "a", "Ready")], &base.merge(more)));
}

fn ends() -> Vec<Story> {
    vec![
        Story {
            says: "a JobSet is deleted at any moment, and comes back under its name",
            begin: |stage| {
                devices::declare(stage.world);
                rich(stage, &tree!({}));
            },
            user: |stage, round| {
                let there = find(stage.world, &kinds::JOBSETS, "s").is_some();
                match stage.dice.below(4) {
                    0 if there => stage.delete("s"),
                    1 if !there => rich(stage, &tree!({})),
                    _ => spoil_sometimes(stage, round),
                }
            },
            end: |stage| {
                if find(stage.world, &kinds::JOBSETS, "s").is_some() {
                    over(stage);
                }
            },
            ..BASE
        },
        Story {
            says: "a finished JobSet is deleted after its TTL with everything that is not retained",
            begin: |stage| {
                devices::declare(stage.world);
                let ttl = u32::try_from(stage.dice.below(10)).unwrap();
                rich(stage, &tree!({"ttlSecondsAfterFinished": ttl}));
            },
            user: spoil_sometimes,
            end: |stage| {
                assert!(find(stage.world, &kinds::JOBSETS, "s").is_none(), "its time has come");
                let left = of_sets(stage.world, &kinds::PERSISTENT_VOLUME_CLAIMS);
                assert_eq!(left.into_iter().map(|it| it.name).collect::<Vec<_>>(), ["keep-s"]);
                let jobs = stage.world.list(&kinds::JOBS);
                assert!(jobs.iter().all(|it| meta::label(&it.tree, words::NAME).is_none()), "Jobs are left");
            },
            ..BASE
        },
    ]
}
