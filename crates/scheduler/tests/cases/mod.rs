//! Placement cases as data: the files beside this one, one document per theme, one case per list item.
//!
//! A case has `nodes` (by name), `placed` (pods by node), `pods` (scheduled in this order) and `wants`, one per
//! pod: a node, a list of nodes any of which will do, or the message of the refusal. `says` is its sentence.
//! `evicts` names the victims of the last decision. `rest` is the end of the message if preemption finds no victims:
//! `{useless: n, nobody: m}`. `slices`, `classes` and `claims` are about devices; `gives` lists per pod which
//! devices its claims get. `storage` is what volumes there are, `packing` what nodes are filled up by.

use std::collections::BTreeSet;
use std::path::Path;

use muster_api::time::Time;
use muster_scheduler::{Budget, Packing, Scheduler, SchedulingDecision, SchedulingOutcome};
use muster_tree::{Text, Tree};

use crate::build::{devices, node, on, pod};
use crate::storage;

/// With fewer cases than this a file is missing.
const CASES_MIN: usize = 150;

#[test]
fn placement() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|it| it == "yaml"));
    files.sort();
    let (mut count, mut says, mut failures) = (0, BTreeSet::new(), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let cases = Tree::parse_yaml(&text).unwrap_or_else(|e| panic!("{}: {e:?}", file.display()));
        for case in cases.items() {
            let title = format!("{}: {}", file.file_stem().unwrap().display(), case.str_at(&["says"]));
            assert!(says.insert(title.clone()), "{title}: said twice");
            count += 1;
            let (found, wanted) = (play(case), wanted(case));
            let same = found.len() == wanted.len() && found.iter().zip(&wanted).all(|(f, w)| w.contains(f));
            if !same {
                failures.push(format!("{title}\n  found  {found:?}\n  wanted {wanted:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} cases:\n{}", failures.len(), failures.join("\n"));
    assert!(count >= CASES_MIN, "{count} cases");
}

fn scheduler(case: &Tree) -> Scheduler {
    let packing = match case.str_at(&["packing"]) {
        "" => Packing::Devices,
        "everything" => Packing::Everything,
        "nothing" => Packing::Nothing,
        other => panic!("no such packing: {other}"),
    };
    let mut scheduler = Scheduler::packing(packing);
    for (name, labels) in case.entries_at(&["namespaces"]) {
        let labels = labels
            .entries()
            .iter()
            .map(|(k, v)| (k.clone(), v.as_text().cloned().expect("labels are texts")))
            .collect();
        scheduler.update_namespace(name, &labels);
    }
    for (name, words) in case.entries_at(&["nodes"]) {
        scheduler.update_node(node(name, words));
    }
    devices::feed(&mut scheduler, case);
    for (n, words) in case.items_at(&["budgets"]).iter().enumerate() {
        let budget = words.with(&["metadata", "namespace"], "ns");
        scheduler.update_budget(&("ns".into(), format!("b{n}").into()), Budget::of(&budget));
    }
    storage::feed(&mut scheduler, case);
    for (name, pods) in case.entries_at(&["placed"]) {
        for (n, words) in pods.items().iter().enumerate() {
            scheduler.update_pod(&on(pod(&format!("{name}-{n}"), words, 0), name));
        }
    }
    scheduler
}

/// The outcome of each pod; each is scheduled before the next one is created.
fn play(case: &Tree) -> Vec<String> {
    let mut scheduler = scheduler(case);
    let mut found = Vec::new();
    let overfull = scheduler.overfull();
    for (n, words) in case.items_at(&["pods"]).iter().enumerate() {
        scheduler.update_pod(&pod(&format!("p{n}"), words, 1));
        let decisions = scheduler.schedule(100, Time(1_000_000));
        found.extend(decisions.iter().map(spoken));
        if case.get("gives").is_some() {
            found.push(devices::given(&scheduler, &format!("p{n}")));
        }
        if let Some(SchedulingOutcome::Unschedulable { victims: evict, .. }) =
            decisions.last().map(|it| &it.outcome)
            && case.get("evicts").is_some()
        {
            let names: Vec<&str> = evict.iter().map(|(_, name)| name.as_str()).collect();
            found.push(names.join(","));
        }
        assert_eq!(scheduler.overfull(), overfull, "{}", case.str_at(&["says"]));
    }
    found
}

fn spoken(decision: &SchedulingDecision) -> String {
    match &decision.outcome {
        SchedulingOutcome::Scheduled(pods) => {
            pods.iter().map(|(_, node)| node.as_str()).collect::<Vec<_>>().join(",")
        }
        SchedulingOutcome::Unschedulable { error: why, .. } => why.message(),
        SchedulingOutcome::Group(outcome) => format!("{:?}", outcome.status),
    }
}

fn wanted(case: &Tree) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = case.items_at(&["wants"]).iter().map(|want| one(case, want)).collect();
    for (n, gives) in case.items_at(&["gives"]).iter().enumerate() {
        all.insert(2 * n + 1, vec![gives.as_str().unwrap_or_default().to_owned()]);
    }
    if let Some(evicts) = case.get("evicts") {
        let names: Vec<&str> = evicts.items().iter().filter_map(Tree::as_str).collect();
        all.push(vec![names.join(",")]);
    }
    all
}

fn one(case: &Tree, want: &Tree) -> Vec<String> {
    match want {
        Tree::List(_) => want.items().iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        Tree::Map(_) => {
            let nodes = case.entries_at(&["nodes"]).len();
            let number = |key: &str| want.int_at(&[key]).unwrap_or(0);
            let part = |n: i64, words: &str| (n > 0).then(|| format!("{n} {words}"));
            let mut rest: Vec<String> = Vec::new();
            rest.extend(part(number("useless"), "Preemption is not helpful for scheduling"));
            rest.extend(part(number("nobody"), "No preemption victims found for incoming pod"));
            rest.extend(want.items_at(&["also"]).iter().filter_map(|it| it.as_str().map(str::to_owned)));
            rest.sort();
            let why: Text = want.text_at(&["why"]);
            let rest = rest.join(", ");
            vec![format!(
                "0/{nodes} nodes are available: {why}. preemption: 0/{nodes} nodes are available: {rest}."
            )]
        }
        other => vec![other.as_str().unwrap_or_default().to_owned()],
    }
}
