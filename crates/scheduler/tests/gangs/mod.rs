//! Pod group scenarios as data: the files beside this one, one scenario per list item.
//!
//! A story has `nodes` and `placed` as placement cases do, `groups` (by name), `budgets`, and `steps`, played in this
//! order. `says` is its sentence, `patience` for how many seconds groups are held in silence. A pod is in the group that its `group` names.
//!
//! | step | what happens |
//! |---|---|
//! | `pods: {x: {…}}` | pods are created or updated; each is created a second after the one before |
//! | `same: {n: 3, name: w, pod: {…}}` | pods `w0`, `w1`, `w2` are created |
//! | `groups: {g: {…}}` | these groups come or change: `min` or `basic`, `priority`, `never`, `all`, `topology`, `deadline`, `waits` (for `group` or `workload`) |
//! | `group_gone: g` | the group is deleted |
//! | `nodes: {a: {…}}`, `node_gone: a` | nodes are added, updated or deleted |
//! | `bind: all`, `bind: [x]` | assumed pods are bound |
//! | `gone`, `ended`, `deleted: [x]` | pods are removed, terminate, or get a `deletionTimestamp` |
//! | `evicted: [x]` | preemption victims are removed |
//! | `retry: {g: [x]}` | the binding of members failed |
//! | `spared: [x]` | the eviction of victims failed |
//! | `wait: 5` | seconds pass |
//! | `decide: […]` | scheduling cycles run: one decision per line |
//! | `counts: {g: 3/1/0/2}` | all, assigned, assumed and waiting pods of groups |
//! | `told: {x: …}` | the last reported message of pods |
//! | `nominated: {x: a}` | the nominated node of pods |
//! | `quiet: true` | no entry is active or in backoff |
//! | `idle: true` | and no timer is pending |
//!
//! Lines: `g placed x→a y→b`, `g held pods: x y`, `g refused: …`, `g error: …`, `g late: …`; ` evicts x y` and
//! ` groups h` list the victims, ` outranks z` the cleared nominations. A single pod: `x→a`, `x refused`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use muster_api::time::Time;
use muster_scheduler::{
    Budget, DisruptionMode, GroupOutcome, GroupReadiness, GroupSpec, GroupStatus, HoldReason,
    MissingReference, Pod, PodKey, Scheduler, SchedulingDecision, SchedulingOutcome, SchedulingPolicy,
};
use muster_tree::{Text, Tree, tree};

use crate::build::{devices, node, on, pod};
use crate::storage;

/// With fewer stories than this a file is missing.
const STORIES_MIN: usize = 90;

pub fn key(name: &str) -> PodKey {
    ("ns".into(), name.into())
}

/// Plays all stories of one file.
fn play_file(name: &str) -> usize {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gangs").join(name);
    let text = std::fs::read_to_string(&file).expect("a file of stories");
    let stories = Tree::parse_yaml(&text).unwrap_or_else(|e| panic!("{}: {e:?}", file.display()));
    let (mut says, mut failures) = (BTreeSet::new(), Vec::new());
    for story in stories.items() {
        let title = story.str_at(&["says"]);
        assert!(!title.is_empty() && says.insert(title.to_owned()), "{title}: said twice, or nothing said");
        if let Err(why) = play(story) {
            failures.push(format!("{title}\n{why}"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), says.len(), failures.join("\n"));
    says.len()
}

/// Shows: 5832-30, 5832-32, 5832-33, 5832-34, 5832-35, 5832-36, 5832-38, 5832-39, 5832-42.
#[test]
fn the_life_of_groups() {
    let stories = play_file("gangs.yaml") + play_file("gang_preemption.yaml");
    assert!(stories >= STORIES_MIN, "{stories} stories");
}

/// `nodes` nodes, and a pod on each for each of so many CPUs.
fn full(nodes: usize, cpus: usize) -> (Scheduler, Vec<PodKey>) {
    let mut scheduler = Scheduler::default();
    let mut pods = Vec::new();
    for n in 0..nodes {
        let name = format!("n{n:03}");
        scheduler.update_node(node(&name, &tree!({"has": {"cpu": cpus.to_string(), "pods": "110"}})));
        for m in 0..cpus {
            let low = on(pod(&format!("low-{n:03}-{m}"), &tree!({"asks": {"cpu": "1"}}), 1), &name);
            scheduler.update_pod(&low);
            pods.push(low.key);
        }
    }
    (scheduler, pods)
}

fn gang(scheduler: &mut Scheduler, name: &str, size: usize, words: &Tree) {
    scheduler
        .update_group(&key(name), GroupReadiness::Ready(GroupSpec::of(SchedulingPolicy::Gang { min: size })));
    for n in 0..size {
        let member = pod(&format!("{name}-{n:04}"), words, 2);
        scheduler.update_pod(&Pod { group: Some(key(name)), ..member });
    }
}

fn group(decisions: &[SchedulingDecision]) -> &GroupOutcome {
    let [SchedulingDecision { outcome: SchedulingOutcome::Group(outcome), .. }] = decisions else {
        panic!("{decisions:?}")
    };
    outcome
}

#[test]
fn a_gang_of_equal_pods_ranks_the_nodes_once() {
    let mut scheduler = Scheduler::default();
    for n in 0..500 {
        scheduler.update_node(node(&format!("n{n:03}"), &tree!({})));
    }
    gang(&mut scheduler, "g", 1000, &tree!({"asks": {"cpu": "1"}}));
    let placed = group(&scheduler.schedule(9, Time(1))).scheduled.len();
    let stats = scheduler.stats();
    assert_eq!((placed, stats.fast, stats.scans, stats.diagnoses), (1000, 1000, 0, 0));
    assert!(stats.rankings < 10, "{stats:?}");
}

#[test]
fn refused_gangs_of_one_kind_are_worked_out_once() {
    let (mut scheduler, _) = full(20, 4);
    for n in 0..50 {
        gang(&mut scheduler, &format!("g{n:02}"), 3 + n % 2, &tree!({"asks": {"cpu": "1"}}));
    }
    let decisions = scheduler.schedule(100, Time(1));
    let mut words: BTreeSet<String> = BTreeSet::new();
    for decision in &decisions {
        let outcome = group(std::slice::from_ref(decision));
        words.extend(outcome.unschedulable.iter().map(|it| it.message.clone()));
    }
    let stats = scheduler.stats();
    assert_eq!((decisions.len(), stats.diagnoses, stats.repeated), (50, 1, 49));
    let found: Vec<&str> = words.iter().map(String::as_str).collect();
    let ending = "pod group preemption: No preemption victims found for incoming preemptor";
    assert_eq!(
        found,
        [
            format!("0/20 nodes are available: 20 Insufficient cpu. {ending}"),
            format!("minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, {ending}"),
            format!("minCount (4) cannot be satisfied: 0 scheduled, 3 remaining, {ending}"),
        ]
    );
}

#[test]
fn of_a_hundred_kinds_not_all_are_worked_out_but_all_hear_something() {
    let (mut scheduler, _) = full(20, 4);
    scheduler.update_group(&key("g"), GroupReadiness::Ready(GroupSpec::of(SchedulingPolicy::Basic)));
    for n in 0..100 {
        let member = pod(&format!("g-{n:02}"), &tree!({"asks": {"cpu": format!("{}m", 1000 + n)}}), 2);
        scheduler.update_pod(&Pod { group: Some(key("g")), ..member });
    }
    let decisions = scheduler.schedule(9, Time(1));
    let refused = &group(&decisions).unschedulable;
    let own = refused.iter().filter(|it| it.message.starts_with("0/20 nodes are available")).count();
    let told = refused.iter().filter(|it| !it.message.is_empty()).count();
    assert_eq!((scheduler.stats().diagnoses, own, told), (64, 64, 100));
    scheduler.delete_pod(&key("low-000-0"));
    let decisions = scheduler.schedule(1, Time(2));
    assert_eq!(group(&decisions).scheduled.len(), 1, "room wakes it");
}

#[test]
fn a_gang_has_a_thousand_pods_evicted_in_one_stroke_and_is_placed_in_another() {
    let (mut scheduler, mut low) = full(100, 10);
    gang(&mut scheduler, "g", 100, &tree!({"asks": {"cpu": "10"}, "priority": 5}));
    let decisions = scheduler.schedule(9, Time(1));
    let mut evicted = group(&decisions).victims.clone();
    evicted.sort();
    low.sort();
    assert_eq!(evicted, low);
    let (mut placed, mut looks) = (0, 0);
    for victim in &evicted {
        scheduler.delete_pod(victim);
        let decisions = scheduler.schedule(9, Time(1));
        looks += decisions.len();
        placed += decisions.iter().map(|it| group(std::slice::from_ref(it)).scheduled.len()).sum::<usize>();
    }
    assert_eq!((placed, looks), (100, 1), "it looks again when all have gone");
    assert_eq!(scheduler.overfull(), []);
}

#[test]
fn a_large_gang_is_not_put_beside_pods_that_rules_forbid() {
    let rule = |app: &str| tree!([{"key": "kubernetes.io/hostname", "app": app}]);
    let plain = |app: &str| tree!({"labels": {"app": app}, "asks": {"cpu": "100m"}});
    // One to a node.
    let alone = plain("g").with(&["asks", "cpu"], "3");
    let cases = [
        ("its own rule", plain("low"), alone.with(&["far"], rule("low"))),
        ("the rule of others", plain("low").with(&["far"], rule("g")), alone.clone()),
    ];
    for (says, low, member) in cases {
        let mut scheduler = Scheduler::default();
        let size = 460;
        for n in 0..size {
            let name = format!("n{n:03}");
            scheduler.update_node(node(&name, &tree!({"labels": {"kubernetes.io/hostname": name.as_str()}})));
            scheduler.update_pod(&on(pod(&format!("low-{n:03}"), &low, 1), &name));
        }
        gang(&mut scheduler, "g", size, &member.with(&["priority"], 5));
        let decisions = scheduler.schedule(9, Time(1));
        let outcome = group(&decisions);
        assert_eq!((outcome.scheduled.len(), outcome.victims.len()), (0, size), "{says}");
    }
}

struct Stage {
    scheduler: Scheduler,
    now: Time,
    second: i64,
    pods: BTreeMap<Text, Pod>,
    told: BTreeMap<Text, String>,
    nominated: BTreeMap<Text, Text>,
}

fn play(story: &Tree) -> Result<(), String> {
    let patience = seconds(story.get("patience").unwrap_or(&Tree::Null));
    let mut stage = Stage {
        scheduler: Scheduler::default().report_held_after(patience),
        now: Time(1_000_000_000),
        second: 0,
        pods: BTreeMap::new(),
        told: BTreeMap::new(),
        nominated: BTreeMap::new(),
    };
    for (name, words) in story.entries_at(&["nodes"]) {
        stage.scheduler.update_node(node(name, words));
    }
    devices::feed(&mut stage.scheduler, story);
    storage::feed(&mut stage.scheduler, story);
    for (n, words) in story.items_at(&["budgets"]).iter().enumerate() {
        let budget = words.with(&["metadata", "namespace"], "ns");
        stage.scheduler.update_budget(&key(&format!("b{n}")), Budget::of(&budget));
    }
    stage.groups(story.get("groups").unwrap_or(&Tree::Null));
    for (node, pods) in story.entries_at(&["placed"]) {
        for (n, words) in pods.items().iter().enumerate() {
            stage.come(&format!("{node}-{n}"), words, Some(node));
        }
    }
    stage.second = 10;
    for (at, step) in story.items_at(&["steps"]).iter().enumerate() {
        for (what, words) in step.entries() {
            stage.step(what, words).map_err(|why| format!("  step {at}, {what}: {why}"))?;
        }
    }
    Ok(())
}

fn seconds(words: &Tree) -> Duration {
    Duration::from_secs(words.as_int().and_then(|it| u64::try_from(it).ok()).unwrap_or(0))
}

fn names(words: &Tree) -> Vec<Text> {
    let one = words.as_text().cloned();
    words.items().iter().filter_map(|it| it.as_text().cloned()).chain(one).collect()
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("\n    found  {found:?}\n    wanted {wanted:?}")) }
}

impl Stage {
    fn step(&mut self, what: &str, words: &Tree) -> Result<(), String> {
        match what {
            "pods" => words.entries().iter().for_each(|(name, words)| self.come(name, words, None)),
            "same" => {
                for n in 0..words.int_at(&["n"]).expect("a number of pods") {
                    let name = format!("{}{n}", words.str_at(&["name"]));
                    self.come(&name, words.get("pod").expect("a pod"), None);
                }
            }
            "groups" => self.groups(words),
            "group_gone" => names(words).iter().for_each(|name| self.scheduler.delete_group(&key(name))),
            "nodes" => {
                words.entries().iter().for_each(|(name, it)| self.scheduler.update_node(node(name, it)));
            }
            "node_gone" => names(words).iter().for_each(|name| self.scheduler.delete_node(name)),
            "bind" => self.bind(&names(words)),
            "gone" => names(words).iter().for_each(|name| self.scheduler.delete_pod(&key(name))),
            "ended" => self.change(&names(words), |pod| pod.terminal = true),
            "deleted" => self.change(&names(words), |pod| (pod.deleting, pod.schedulable) = (true, false)),
            "evicted" => {
                self.change(&names(words), |pod| {
                    (pod.deleting, pod.evicted, pod.schedulable) = (true, true, false);
                });
                names(words).iter().for_each(|name| self.scheduler.delete_pod(&key(name)));
            }
            "retry" => {
                for (group, pods) in words.entries() {
                    let pods: Vec<PodKey> = names(pods).iter().map(|name| key(name)).collect();
                    self.scheduler.group_binding_failed(&key(group), &pods, self.now);
                }
            }
            "spared" => {
                names(words).iter().for_each(|name| self.scheduler.eviction_failed(&key(name), self.now));
            }
            "wait" => self.now = self.now + seconds(words),
            "decide" => return self.decide(words),
            "counts" => {
                for (group, wanted) in words.entries() {
                    let it = self.scheduler.group_counts(&key(group));
                    let found = format!("{}/{}/{}/{}", it.all, it.assigned, it.assumed, it.waiting);
                    same(&Some(found.as_str()), &wanted.as_str())?;
                }
            }
            "told" => {
                for (name, wanted) in words.entries() {
                    let found = self.told.get(name).map(String::as_str);
                    same(&found, &wanted.as_str())?;
                }
            }
            "nominated" => {
                for (name, wanted) in words.entries() {
                    let wanted = wanted.as_text().filter(|it| !it.is_empty());
                    same(&self.scheduler.nominated(&key(name)), &wanted)?;
                    same(&self.nominated.get(name), &wanted)?;
                }
            }
            "quiet" => same(&self.scheduler.has_pending(), &false)?,
            "idle" => same(&self.scheduler.requeue_at(), &None)?,
            other => panic!("no such step: {other}"),
        }
        Ok(())
    }

    /// A pod is created or updated; it may be bound from the start.
    fn come(&mut self, name: &str, words: &Tree, node: Option<&str>) {
        self.second += 1;
        let known = self.pods.get(name).map(|known| known.created);
        let mut fresh = pod(name, words, words.int_at(&["second"]).unwrap_or(self.second));
        fresh.created = known.unwrap_or(fresh.created);
        fresh.group = words.get("group").and_then(Tree::as_str).map(key);
        fresh.pre_enqueue_error = words.get("hold").and_then(Tree::as_text).cloned();
        fresh.started = words.int_at(&["started"]).map(|second| Time(second * 1_000_000));
        let node = node.or(words.get("on").and_then(Tree::as_str));
        let fresh = node.map_or_else(|| fresh.clone(), |node| on(fresh.clone(), node));
        self.scheduler.update_pod(&fresh);
        self.pods.insert(fresh.key.1.clone(), fresh);
    }

    fn change(&mut self, names: &[Text], change: impl Fn(&mut Pod)) {
        for name in names {
            let pod = self.pods.get_mut(name).expect("a pod that came");
            let node = self.scheduler.node_of(&pod.key).cloned();
            pod.node = if pod.node.is_empty() { Text::new() } else { node.unwrap_or_default() };
            change(pod);
            let pod = pod.clone();
            self.scheduler.update_pod(&pod);
        }
    }

    fn bind(&mut self, names: &[Text]) {
        let all = names.iter().any(|name| name == "all");
        for (name, pod) in &mut self.pods {
            if (all || names.contains(name))
                && let Some(node) = self.scheduler.node_of(&pod.key).cloned()
            {
                pod.node = node.clone();
                assert!(self.scheduler.confirm_bound(&pod.key, &node));
                self.scheduler.update_pod(pod);
            }
        }
    }

    fn groups(&mut self, words: &Tree) {
        for (name, words) in words.entries() {
            self.scheduler.update_group(&key(name), standing(words));
        }
    }

    fn decide(&mut self, wanted: &Tree) -> Result<(), String> {
        let overfull = self.scheduler.overfull();
        let decisions = self.scheduler.schedule(100, self.now);
        let found: Vec<String> = decisions.iter().map(|decision| self.hear(decision)).collect();
        let wanted: Vec<String> = names(wanted).iter().map(ToString::to_string).collect();
        same(&self.scheduler.overfull(), &overfull)?;
        same(&found, &wanted)
    }

    /// A decision as a line; the conditions of pods are recorded.
    fn hear(&mut self, decision: &SchedulingDecision) -> String {
        let name = &decision.group.1;
        match &decision.outcome {
            SchedulingOutcome::Scheduled(pods) => pairs(pods),
            SchedulingOutcome::Unschedulable { error: why, victims: evict, nominated, .. } => {
                self.told.insert(name.clone(), why.message());
                if let Some(node) = nominated {
                    self.nominated.insert(name.clone(), node.clone());
                }
                let evicts =
                    if evict.is_empty() { String::new() } else { format!(" evicts {}", list(evict)) };
                format!("{name} refused{evicts}")
            }
            SchedulingOutcome::Group(outcome) => self.hear_group(name, outcome),
        }
    }

    fn hear_group(&mut self, name: &Text, outcome: &GroupOutcome) -> String {
        for it in &outcome.unschedulable {
            self.told.insert(it.pod.1.clone(), it.message.clone());
            let wanted = if matches!(outcome.status, GroupStatus::Error(_)) {
                "SchedulerError"
            } else {
                "Unschedulable"
            };
            assert_eq!(it.reason, wanted, "{name}");
            match &it.nominated {
                Some(node) => self.nominated.insert(it.pod.1.clone(), node.clone()),
                None => self.nominated.remove(&it.pod.1),
            };
        }
        for ((_, pod), _) in &outcome.scheduled {
            self.nominated.remove(pod);
        }
        let refused: Vec<PodKey> = outcome.unschedulable.iter().map(|it| it.pod.clone()).collect();
        let mut line = match &outcome.status {
            GroupStatus::Placed => format!("{name} placed {}", pairs(&outcome.scheduled)),
            GroupStatus::Held(why) => {
                let why = match why {
                    HoldReason::Pods => "pods",
                    HoldReason::Group => "group",
                    HoldReason::Workload => "workload",
                    HoldReason::Gated => "gated",
                };
                format!("{name} held {why}: {}", list(&refused))
            }
            GroupStatus::Unschedulable(words) => format!("{name} refused: {words}"),
            GroupStatus::Error(words) => format!("{name} error: {words}"),
            GroupStatus::DeadlineExceeded(words) => format!("{name} late: {words}"),
        };
        for (what, keys) in [
            ("evicts", &outcome.victims),
            ("groups", &outcome.victim_groups),
            ("outranks", &outcome.nominations_cleared),
        ] {
            if !keys.is_empty() {
                line = format!("{line} {what} {}", list(keys));
            }
        }
        line
    }
}

fn pairs(pods: &[(PodKey, Text)]) -> String {
    let mut all: Vec<String> = pods.iter().map(|((_, pod), node)| format!("{pod}→{node}")).collect();
    all.sort();
    all.join(" ")
}

fn list(keys: &[PodKey]) -> String {
    let mut all: Vec<&str> = keys.iter().map(|(_, name)| name.as_str()).collect();
    all.sort_unstable();
    all.join(" ")
}

fn standing(words: &Tree) -> GroupReadiness {
    if let Some(why) = words.get("waits").and_then(Tree::as_str) {
        let why = if why == "group" { MissingReference::Group } else { MissingReference::Workload };
        return GroupReadiness::Waiting { why, words: words.text_at(&["words"]) };
    }
    let min = words.int_at(&["min"]).map(|min| usize::try_from(min).expect("a count"));
    GroupReadiness::Ready(GroupSpec {
        policy: min.map_or(SchedulingPolicy::Basic, |min| SchedulingPolicy::Gang { min }),
        priority: words.int_at(&["priority"]),
        preempts: words.bool_at(&["never"]).map(|never| !never),
        disruption: if words.bool_at(&["all"]) == Some(true) {
            DisruptionMode::All
        } else {
            DisruptionMode::Single
        },
        topology: words.get("topology").and_then(Tree::as_text).cloned(),
        deadline: words.get("deadline").map(seconds),
    })
}
