use std::collections::BTreeSet;

use muster_api::gang_objects::{GangApi, GangSupport, GroupMarker, PodGroupTemplate, TemplatePolicy, consts};
use muster_api::meta;
use muster_tree::{Tree, tree};

use super::{JobSetAction, Played, jobs, spec};
use crate::FeatureGates;

/// A replicatedJob with this parallelism and these completions.
fn wide(name: &str, replicas: u32, parallelism: u32, completions: u32) -> Tree {
    jobs(name, replicas)
        .with(&["template", "spec", "parallelism"], parallelism)
        .with(&["template", "spec", "completions"], completions)
}

fn asking(word: &str, all: &[Tree], more: &Tree) -> Played {
    let mut played = Played::new(&spec(all, more));
    played.set = played.set.with(&["metadata", "annotations", consts::GANG], word);
    played
}

fn restarting() -> Tree {
    tree!({"failurePolicy": {"maxRestarts": 3}})
}

/// The templates of the only Workload, each with its minCount.
fn mins(played: &Played) -> Vec<(String, u32)> {
    let workload = played.all("workload").next().unwrap_or_else(|| panic!("no Workload: {:?}", played.said));
    let one = |it: &Tree| {
        let name = it.str_at(&["name"]);
        match PodGroupTemplate::find(workload, name).unwrap().policy {
            TemplatePolicy::Gang { min } => (name.to_owned(), min),
            TemplatePolicy::Basic => panic!("{name} is no gang"),
        }
    };
    workload.items_at(&["spec", "podGroupTemplates"]).iter().map(one).collect()
}

fn min_of(played: &Played, template: &str) -> u32 {
    mins(played).into_iter().find(|(name, _)| name == template).unwrap().1
}

/// The group that the pods of a Job name.
fn group_of<'a>(played: &'a Played, job: &str) -> &'a str {
    played.one("job", job).str_at(&["spec", "template", "spec", "workloadRef", "podGroupName"])
}

fn position(played: &Played, what: &str) -> usize {
    played
        .done
        .iter()
        .position(|it| it.starts_with(what))
        .unwrap_or_else(|| panic!("{what}: {:?}", played.done))
}

fn named(pairs: &[(&str, u32)]) -> Vec<(String, u32)> {
    pairs.iter().map(|(name, min)| ((*name).to_owned(), *min)).collect()
}

/// Shows: 5832-44, 5832-50, 5832-45.
#[test]
fn gangs_and_their_sizes() {
    let all = [wide("a", 2, 3, 3), wide("b", 1, 4, 2)];
    for (word, templates, groups, of) in [
        ("AllReplicas", named(&[("all", 8)]), vec!["s"], [("s-a-0", "s"), ("s-b-0", "s")]),
        (
            "PerReplicatedJob",
            named(&[("a", 6), ("b", 2)]),
            vec!["s-a", "s-b"],
            [("s-a-1", "s-a"), ("s-b-0", "s-b")],
        ),
        (
            "PerJob",
            named(&[("a", 3), ("b", 2)]),
            vec!["s-a-0", "s-a-1", "s-b-0"],
            [("s-a-1", "s-a-1"), ("s-b-0", "s-b-0")],
        ),
    ] {
        let mut played = asking(word, &all, &tree!({}));
        played.settle();
        assert_eq!((played.names("workload"), mins(&played)), (vec!["s".to_owned()], templates), "{word}");
        assert_eq!(played.names("group"), groups, "{word}");
        for (job, group) in of {
            assert_eq!(group_of(&played, job), group, "{word}");
            assert_eq!(
                played.one("job", job).str_at(&["spec", "template", "spec", "workloadRef", "name"]),
                "s"
            );
        }
        let order = ["+workload", "+group", "+job"].map(|it| position(&played, it));
        assert!(order.is_sorted(), "{word}: {:?}", played.done);
        for object in played.all("workload").chain(played.all("group")) {
            let owner = meta::controller_of(object).unwrap();
            assert_eq!(
                (owner.kind.as_str(), owner.uid.as_str(), owner.block_owner_deletion),
                ("JobSet", "set-uid", true)
            );
            assert_eq!(meta::owner_references(object).count(), 1, "to the Workload a group only refers");
        }
        assert_eq!(
            played.said.iter().filter(|(reason, _)| reason == "PodGroupCreated").count(),
            groups.len()
        );
        let before = played.done.len();
        played.settle();
        assert_eq!(played.done.len(), before, "{word}: nothing more: {:?}", played.done);
    }
}

/// Shows: 5832-57.
#[test]
fn no_gang_without_the_annotation() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.settle();
    assert_eq!((played.names("workload").len(), played.names("group").len()), (0, 0));
    assert_eq!(group_of(&played, "s-a-0"), "");
    for (says, word, gangs) in [
        ("a word that is none", "yes", Some(GangSupport::default())),
        ("gangs are not served", "AllReplicas", None),
    ] {
        let mut played = asking(word, &[jobs("a", 2)], &tree!({}));
        played.gangs = gangs;
        played.settle();
        assert_eq!((played.names("workload").len(), played.names("job").len()), (0, 2), "{says}");
        assert!(played.reasons().contains(&"GangIgnored"), "{says}: {:?}", played.said);
    }
    let marked = jobs("a", 1).with(
        &["template", "spec", "template", "spec", "workloadRef"],
        tree!({"name": "w", "podGroupName": "g"}),
    );
    let mut played = asking("AllReplicas", &[marked], &tree!({}));
    played.settle();
    assert_eq!(
        (played.names("workload").len(), group_of(&played, "s-a-0")),
        (0, "g"),
        "pods of another gang"
    );
}

/// Shows: 5832-55.
#[test]
fn what_starts_in_order_is_no_single_gang() {
    let after = |on: &str| tree!({"dependsOn": [{"name": on, "status": "Ready"}]});
    let depends = [jobs("a", 1), jobs("b", 2).merge(&after("a"))];
    let ordered = tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
    for (says, all, more, split) in [
        ("dependsOn", &depends[..], tree!({}), true),
        ("InOrder", &[jobs("a", 1), jobs("b", 2)][..], ordered.clone(), true),
        ("neither", &[jobs("a", 1), jobs("b", 2)][..], tree!({}), false),
        ("only one", &[jobs("a", 2)][..], ordered, false),
    ] {
        let mut played = asking("AllReplicas", all, &more);
        played.settle();
        assert_eq!(played.reasons().contains(&"GangSplit"), split, "{says}");
        assert_eq!(mins(&played)[0].0 == "all", !split, "{says}");
        if split {
            played.ready("s-a-0");
            played.settle();
            assert_eq!(played.names("group"), ["s-a", "s-b"], "{says}");
            assert_eq!(group_of(&played, "s-b-1"), "s-b", "{says}");
        }
    }
}

#[test]
fn more_replicated_jobs_than_templates() {
    let many: Vec<Tree> = (0..9).map(|n| jobs(&format!("j{n}"), 1)).collect();
    for word in ["PerReplicatedJob", "PerJob"] {
        let mut played = asking(word, &many, &tree!({}));
        played.settle();
        assert_eq!(mins(&played), named(&[("all", 9)]), "{word}");
        assert!(played.reasons().contains(&"TooManyReplicatedJobs"));
    }
    let mut ordered =
        asking("PerReplicatedJob", &many, &tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}}));
    ordered.settle();
    assert_eq!((ordered.names("workload").len(), ordered.names("job").len()), (0, 1), "it would never start");
    let mut eight = asking("PerReplicatedJob", &many[..8], &tree!({}));
    eight.settle();
    assert_eq!(mins(&eight).len(), 8);
}

/// Shows: 5832-48, 5832-53.
#[test]
fn each_attempt_has_groups_of_its_own() {
    for (word, before, after) in [
        ("AllReplicas", vec!["s"], vec!["s-r1"]),
        ("PerReplicatedJob", vec!["s-a"], vec!["s-a-r1"]),
        ("PerJob", vec!["s-a-0", "s-a-1"], vec!["s-a-0-r1", "s-a-1-r1"]),
    ] {
        let mut played = asking(word, &[jobs("a", 2)], &restarting());
        played.lingers = true;
        played.settle();
        let workload = meta::uid(played.one("workload", "s"));
        assert_eq!(played.names("group"), before, "{word}");
        played.fail("s-a-1");
        played.settle();
        assert_eq!(played.names("group"), before, "{word}: old pods are still there");
        ["s-a-0", "s-a-1"].iter().for_each(|job| played.gone(job));
        played.settle();
        assert_eq!(played.names("group"), after, "{word}");
        assert_eq!(meta::uid(played.one("workload", "s")), workload, "{word}");
        assert_eq!(group_of(&played, "s-a-0"), after[0], "{word}");
        assert_eq!(min_of(&played, &mins(&played)[0].0), if word == "PerJob" { 1 } else { 2 }, "{word}");
    }
}

/// Shows: 5832-47.
#[test]
fn a_job_takes_its_group_along() {
    let mut single = asking(
        "PerJob",
        &[jobs("a", 2)],
        &tree!({"failurePolicy": {"maxRestarts": 3, "rules": [
        {"name": "one", "action": "RestartJob"}]}}),
    );
    single.gates = FeatureGates { restart_job: true, ..FeatureGates::default() };
    single.settle();
    let kept = meta::uid(single.one("group", "s-a-1"));
    single.fail("s-a-0");
    single.settle();
    assert_eq!(single.names("group"), ["s-a-0-r1", "s-a-1"], "{:?}", single.done);
    assert_eq!(meta::uid(single.one("group", "s-a-1")), kept, "others stay");
    let mut any = asking("PerJob", &[jobs("a", 3)], &tree!({"successPolicy": {"operator": "Any"}}));
    any.settle();
    any.succeed("s-a-1");
    any.settle();
    assert_eq!(
        (any.terminal(), any.names("job"), any.names("group")),
        ("Completed", vec!["s-a-1".to_owned()], vec!["s-a-1".to_owned()])
    );
    let mut remade = asking("PerJob", &[jobs("a", 2)], &tree!({}));
    remade.settle();
    let uids = |played: &Played| played.all("group").map(meta::uid).collect::<Vec<_>>();
    let before = uids(&remade);
    remade.gone("s-a-0");
    remade.settle();
    assert_eq!(
        (uids(&remade), remade.names("job").len()),
        (before, 2),
        "a Job that comes again finds its group"
    );
}

/// Shows: 5832-54.
#[test]
fn a_gang_grows_and_shrinks_before_its_jobs_do() {
    for form in [GangApi::Proposal, GangApi::Released, GangApi::Own] {
        let mut played = asking("AllReplicas", &[wide("a", 1, 4, 4)], &tree!({}));
        played.gangs = Some(GangSupport { api: form, marker: GroupMarker::Field });
        played.gates = FeatureGates { elastic: true, ..FeatureGates::default() };
        played.settle();
        let uids = |played: &Played| {
            played.all("workload").chain(played.all("group")).map(meta::uid).collect::<BTreeSet<_>>()
        };
        let before = uids(&played);
        for size in [8, 4] {
            played.done.clear();
            played.set = played.set.with(&["spec", "replicatedJobs"], Tree::list([wide("a", 1, size, size)]));
            played.settle();
            assert_eq!(min_of(&played, "all"), size, "{form:?}");
            assert!(position(&played, "~workload") < position(&played, "~job"), "{:?}", played.done);
            let inline = played.one("group", "s").int_at(&["spec", "schedulingPolicy", "gang", "minCount"]);
            assert_eq!(inline, (form == GangApi::Released).then_some(i64::from(size)), "{form:?}");
            assert_eq!(uids(&played), before);
        }
    }
}

/// A replacement pod does not wait for pods that succeeded already.
///
/// Shows: 5832-55.
#[test]
fn min_count_is_lowered_when_pods_are_pending() {
    let mut played = asking("AllReplicas", &[jobs("a", 2)], &restarting());
    played.settle();
    ["s-a-0", "s-a-1"].iter().for_each(|job| played.ready(job));
    played.settle();
    played.succeed("s-a-0");
    played.settle();
    assert_eq!(min_of(&played, "all"), 2, "nobody waits");
    played.change("job", "s-a-1", &tree!({"status": {"active": 1, "ready": 0}}));
    played.settle();
    assert_eq!(min_of(&played, "all"), 1);
    played.fail("s-a-1");
    played.settle();
    assert_eq!((min_of(&played, "all"), played.names("group")), (2, vec!["s-r1".to_owned()]), "all anew");
    assert!(position(&played, "+job") < position(&played, "~workload"));
    let few = |played: &mut Played, job: &str| {
        played.change("job", job, &tree!({"status": {"active": 1, "ready": 0, "succeeded": 2}}));
        played.settle();
    };
    let mut last = asking("PerJob", &[wide("a", 2, 2, 3)], &tree!({}));
    last.settle();
    assert_eq!(min_of(&last, "a"), 2);
    few(&mut last, "s-a-0");
    assert_eq!(min_of(&last, "a"), 1, "one of three is left");
}

/// Shows: 5832-53.
#[test]
fn names_of_others() {
    let mut played = asking("AllReplicas", &[jobs("a", 1)], &tree!({}));
    for sort in ["workload", "group"] {
        played.put(sort, &tree!({"metadata": {"name": "s"}}));
    }
    let before = (played.one("workload", "s").clone(), played.one("group", "s").clone());
    played.settle();
    assert_eq!((played.one("workload", "s").clone(), played.one("group", "s").clone()), before);
    let group = group_of(&played, "s-a-0").to_owned();
    assert!(group.starts_with("s-") && played.names("group").contains(&group), "{group}");
    let conflicts = played.said.iter().filter(|(reason, _)| reason == "PodGroupNameConflict").count();
    assert_eq!(conflicts, 2, "{:?}", played.said);
    assert_eq!((played.names("workload").len(), played.names("group").len()), (2, 2));
    played.objects.remove(&("group", "s".into()));
    played.settle();
    assert_eq!(played.names("group"), [group], "it keeps the name it has");

    // Those of an earlier JobSet of this name go by themselves.
    let mut waits = asking("AllReplicas", &[jobs("a", 1)], &tree!({}));
    let owner = tree!({"kind": "JobSet", "name": "s", "uid": "earlier", "controller": true});
    waits.put("workload", &tree!({"metadata": {"name": "s", "ownerReferences": [owner]}}));
    waits.settle();
    assert_eq!((waits.names("workload"), waits.names("job").len()), (vec!["s".to_owned()], 0));
    assert!(waits.steps().iter().any(|it| matches!(it, JobSetAction::RequeueAt(_))) && waits.said.is_empty());
    waits.objects.remove(&("workload", "s".into()));
    waits.settle();
    assert_eq!((waits.names("workload"), waits.names("job").len()), (vec!["s".to_owned()], 1));

    // Two places of one JobSet that would have the same name.
    let mut twins = asking("PerReplicatedJob", &[jobs("w", 1), jobs("w-r1", 1)], &restarting());
    twins.lingers = true;
    twins.settle();
    twins.fail("s-w-0");
    twins.settle();
    twins.gone("s-w-0");
    twins.settle();
    assert_ne!(group_of(&twins, "s-w-0"), "s-w-r1", "{:?}", twins.names("group"));
    twins.gone("s-w-r1-0");
    twins.settle();
    let names = ["s-w-0", "s-w-r1-0"].map(|job| group_of(&twins, job).to_owned());
    assert_eq!(twins.names("group").into_iter().collect::<BTreeSet<_>>(), names.into_iter().collect());
}

/// Shows: 5832-48.
#[test]
fn a_deleted_group_is_created_again_under_its_name() {
    let mut played = asking("PerReplicatedJob", &[jobs("a", 2)], &tree!({}));
    played.settle();
    let (workload, old) = (meta::uid(played.one("workload", "s")), meta::uid(played.one("group", "s-a")));
    played.objects.remove(&("group", "s-a".into()));
    played.settle();
    assert_ne!(meta::uid(played.one("group", "s-a")), old);
    assert_eq!(meta::uid(played.one("workload", "s")), workload);
}

/// Shows: 5832-44.
#[test]
fn a_pause_keeps_gangs_and_their_jobs_together() {
    let mut played = asking("AllReplicas", &[jobs("a", 2)], &tree!({"suspend": true}));
    played.settle();
    assert_eq!((played.names("group"), group_of(&played, "s-a-0")), (vec!["s".to_owned()], "s"));
    played.set = played.set.with(&["spec", "suspend"], false);
    played.settle();
    assert_eq!((played.names("group"), group_of(&played, "s-a-1")), (vec!["s".to_owned()], "s"));
    assert_eq!(min_of(&played, "all"), 2);
}

/// Shows: 5832-55.
#[test]
fn jobs_that_were_made_without_a_gang_stay_without() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &restarting()));
    played.settle();
    played.set = played.set.with(&["metadata", "annotations", consts::GANG], "AllReplicas");
    played.settle();
    assert_eq!((played.names("workload").len(), played.names("group").len()), (0, 0));
    played.gone("s-a-0");
    played.settle();
    assert_eq!((group_of(&played, "s-a-0"), played.names("group").len()), ("", 0), "as its brothers");
    played.fail("s-a-0");
    played.settle();
    assert_eq!(
        (group_of(&played, "s-a-0"), mins(&played)),
        ("s-r1", named(&[("all", 2)])),
        "the next attempt has one"
    );
}

/// Shows: 5832-45.
#[test]
fn other_forms() {
    let class = |job: Tree, name: &str| {
        job.with(&["template", "spec", "template", "spec", "priorityClassName"], name)
    };
    let all = [class(jobs("a", 1), "high"), class(jobs("b", 1), "low")];
    let mut released = asking("PerReplicatedJob", &all, &tree!({}));
    released.gangs = Some(GangSupport { api: GangApi::Released, marker: GroupMarker::Field });
    released.settle();
    let template = &released.one("workload", "s").items_at(&["spec", "podGroupTemplates"])[0];
    assert_eq!(template.str_at(&["priorityClassName"]), "", "templates must agree there");
    let group = released.one("group", "s-a");
    assert_eq!(group.str_at(&["spec", "priorityClassName"]), "high");
    let owners: Vec<(String, bool)> =
        meta::owner_references(group).map(|it| (it.kind.to_string(), it.controller)).collect();
    assert_eq!(owners, [("JobSet".to_owned(), true), ("Workload".to_owned(), false)]);
    let field =
        released.one("job", "s-a-0").str_at(&["spec", "template", "spec", "schedulingGroup", "podGroupName"]);
    assert_eq!(field, "s-a");

    let mut own = asking("AllReplicas", &[jobs("a", 1)], &tree!({}));
    own.gangs = Some(GangSupport { api: GangApi::Own, marker: GroupMarker::Annotations });
    own.settle();
    let pod = own.one("job", "s-a-0").at(&["spec", "template"]).unwrap();
    assert_eq!(
        (meta::annotation(pod, consts::POD_GROUP), meta::annotation(pod, consts::WORKLOAD)),
        (Some("s"), Some("s"))
    );
    assert_eq!(meta::label(pod, consts::POD_GROUP_HASH).map(str::len), Some(16));

    let mut legacy = asking("PerJob", &[jobs("a", 1)], &tree!({}));
    legacy.gangs = Some(GangSupport { api: GangApi::Legacy, marker: GroupMarker::Field });
    legacy.settle();
    assert_eq!((legacy.names("workload").len(), legacy.names("group").len()), (1, 0));
    let mark = legacy.one("job", "s-a-0").at(&["spec", "template", "spec", "workloadRef"]).unwrap();
    assert_eq!(*mark, tree!({"name": "s", "podGroup": "a", "podGroupReplicaKey": "s-a-0"}));
}
