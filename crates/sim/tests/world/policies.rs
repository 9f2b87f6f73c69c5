//! Each policy of Jobs: the counts are exact, the Job ends as it should, and then nothing is written.

use muster_api::pod::PodFacts;
use muster_sim::{Faults, World};
use muster_tree::tree;

use crate::kubelet::{End, Ledger};
use crate::play::{BASE, Play, patch_job};
use crate::scenario::{Scenario, minutes};

/// The policies as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    limits().into_iter().chain(users()).map(Scenario::from).collect()
}

/// How much may fail, and what is enough.
fn limits() -> Vec<Play> {
    vec![
        Play {
            says: "each index has its own limit",
            spec: || tree!({"completionMode": "Indexed", "completions": 4, "parallelism": 3, "backoffLimitPerIndex": 1}),
            ends: |asked| match (asked.index, asked.ended_before) {
                (Some(0), _) | (Some(1), 0) => End::Bad(1),
                _ => End::Good,
            },
            end: ("Failed", "FailedIndexes"),
            counts: |_, _| (3, 3),
            indexes: ("1-3", "0"),
            ..BASE
        },
        Play {
            says: "one failed index is too many",
            spec: || tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}),
            ends: |asked| if asked.index == Some(2) { End::Bad(1) } else { End::Later },
            end: ("Failed", "MaxFailedIndexesExceeded"),
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            indexes: ("", "2"),
            ..BASE
        },
        Play {
            says: "a rule fails the Job",
            spec: || {
                tree!({"completions": 4, "parallelism": 4, "podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}})
            },
            ends: |asked| if asked.round > 6 { End::Bad(42) } else { End::Later },
            end: ("Failed", "PodFailurePolicy"),
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            ..BASE
        },
        Play {
            says: "disruptions are ignored",
            spec: || {
                tree!({"completions": 3, "parallelism": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}})
            },
            ends: |asked| if asked.ended_before < 2 { End::Disrupted } else { End::Good },
            counts: |_, _| (3, 0),
            ..BASE
        },
        Play {
            says: "a rule fails an index, others are ignored",
            spec: || {
                tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 3,
                "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [5]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}})
            },
            ends: |asked| match (asked.index, asked.ended_before) {
                (Some(0), _) => End::Bad(5),
                (Some(1), 0 | 1) => End::Disrupted,
                _ => End::Good,
            },
            end: ("Failed", "FailedIndexes"),
            counts: |_, _| (2, 1),
            indexes: ("1,2", "0"),
            ..BASE
        },
        Play {
            says: "the leader index suffices, and the others are no failures",
            spec: || {
                tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "0"}]}})
            },
            ends: |asked| if asked.index == Some(0) { End::Good } else { End::Later },
            end: ("Complete", "SuccessPolicy"),
            counts: |_, _| (1, 0),
            indexes: ("0", ""),
            ..BASE
        },
    ]
}

/// What users do to a Job that is under way.
fn users() -> Vec<Play> {
    vec![
        Play {
            says: "suspended and resumed: removed pods are no failures",
            spec: || tree!({"completions": 4, "parallelism": 2}),
            user: |world, _, round| match round {
                3 | 9 => patch_job(world, &tree!({"suspend": true})),
                6 | 12 => patch_job(world, &tree!({"suspend": false})),
                _ => {}
            },
            ends: |asked| if asked.round > 12 { End::Good } else { End::Later },
            counts: |_, _| (4, 0),
            ..BASE
        },
        Play {
            says: "made smaller, then larger",
            spec: || tree!({"completionMode": "Indexed", "completions": 4, "parallelism": 4}),
            user: |world, _, round| match round {
                3 => patch_job(world, &tree!({"completions": 2, "parallelism": 2})),
                7 => patch_job(world, &tree!({"completions": 6, "parallelism": 6})),
                _ => {}
            },
            ends: |asked| if asked.round > 8 || asked.index == Some(3) { End::Good } else { End::Later },
            counts: |_, _| (6, 0),
            indexes: ("0-5", ""),
            ..BASE
        },
        Play {
            says: "each pod that a user deletes is one failure, replaced at once",
            spec: || tree!({"completions": 3, "parallelism": 3, "backoffLimit": 99}),
            user: delete_some,
            ends: |asked| if asked.round > 8 { End::Good } else { End::Later },
            counts: |ledger, _| (3, u32::try_from(ledger.deleted.len()).unwrap()),
            ..BASE
        },
        Play {
            says: "each pod that a user deletes is one failure, replaced when it has ended",
            spec: || tree!({"completions": 3, "parallelism": 3, "backoffLimit": 99, "podReplacementPolicy": "Failed"}),
            user: |world, ledger, round| {
                // A pod without a node is removed without a terminal phase: this policy does not count it as failed.
                if Ledger::active(world).is_some_and(|pod| !PodFacts::of(&pod.tree).node.is_empty()) {
                    delete_some(world, ledger, round);
                }
            },
            ends: |asked| if asked.round > 8 { End::Good } else { End::Later },
            counts: |ledger, _| (3, u32::try_from(ledger.deleted.len()).unwrap()),
            ..BASE
        },
        Play {
            says: "it has run too long",
            spec: || tree!({"completions": 3, "parallelism": 3, "activeDeadlineSeconds": 30}),
            ends: |_| End::Later,
            end: ("Failed", "DeadlineExceeded"),
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            ..BASE
        },
        Play {
            says: "a limit of failures for all pods together",
            spec: || tree!({"completions": 2, "parallelism": 2, "backoffLimit": 2}),
            ends: |_| End::Bad(1),
            end: ("Failed", "BackoffLimitExceeded"),
            // More pods than the limit allows may be under way when it is reached: each of them counts.
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            ..BASE
        },
        Play {
            says: "a failure that no rule names is counted",
            spec: || {
                tree!({"completions": 2, "parallelism": 2, "backoffLimit": 3, "podFailurePolicy": {"rules": [
                {"action": "Count", "onExitCodes": {"operator": "In", "values": [3]}},
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}})
            },
            ends: |asked| match asked.ended_before {
                0 => End::Bad(3),
                1 => End::Bad(9),
                _ => End::Good,
            },
            counts: |_, _| (2, 2),
            ..BASE
        },
        Play {
            says: "a work queue Job ends when a pod reports that no work is left",
            spec: || tree!({"parallelism": 3}),
            ends: |asked| if asked.round > 5 { End::Good } else { End::Later },
            counts: |ledger, _| (u32::try_from(ledger.pods.len()).unwrap(), 0),
            ..BASE
        },
        Play {
            says: "created suspended, and begun later",
            spec: || tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 2, "suspend": true}),
            user: |world, ledger, round| {
                if round == 5 {
                    assert!(ledger.pods.is_empty(), "a suspended Job has no pods");
                    patch_job(world, &tree!({"suspend": false}));
                }
            },
            counts: |_, _| (3, 0),
            indexes: ("0-2", ""),
            ..BASE
        },
        Play {
            says: "the deadline does not run while a Job is suspended, and starts again",
            spec: || tree!({"completions": 2, "parallelism": 2, "activeDeadlineSeconds": 300}),
            user: |world, _, round| match round {
                3 => patch_job(world, &tree!({"suspend": true})),
                5 => world.run(Faults::none(), minutes(20)),
                6 => patch_job(world, &tree!({"suspend": false})),
                _ => {}
            },
            ends: |asked| if asked.round > 9 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..BASE
        },
        Play {
            says: "parallelism is lowered, zero, then raised: removed pods are no failures",
            spec: || tree!({"completions": 6, "parallelism": 4}),
            user: |world, _, round| match round {
                3 => patch_job(world, &tree!({"parallelism": 1})),
                6 => patch_job(world, &tree!({"parallelism": 0})),
                9 => patch_job(world, &tree!({"parallelism": 3})),
                _ => {}
            },
            ends: |asked| if asked.round > 10 { End::Good } else { End::Later },
            counts: |_, _| (6, 0),
            ..BASE
        },
    ]
}

fn delete_some(world: &mut World, ledger: &mut Ledger, round: u32) {
    if let (3..6, Some(pod)) = (round, Ledger::active(world)) {
        ledger.delete(world, &pod);
    }
}
