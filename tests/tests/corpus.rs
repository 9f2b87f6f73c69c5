//! The CRDs of JobSet, Kueue and Trainer on both servers: all are taken, and each of their CEL rules is broken once
//! per place, with the same answer.

use std::collections::BTreeSet;
use std::path::Path;

use muster_tests::clients::{note, skip};
use muster_tests::corpus::{Crd, Group, Pair, Place, crds, load, places};
use muster_tests::planes::Planes;
use muster_tests::real;

fn groups() -> Vec<Group> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap()
}

/// What only one of the two lists has.
fn uncovered(crds: &[Crd], groups: &[Group]) -> Vec<String> {
    let rules: BTreeSet<Place> = crds.iter().flat_map(places).collect();
    let spoken_of: BTreeSet<Place> = groups.iter().flat_map(Group::places).collect();
    let no_case = rules.difference(&spoken_of).map(|place| format!("no case breaks: {place}"));
    let no_rule = spoken_of.difference(&rules).map(|place| format!("a case, but no rule: {place}"));
    let has_none = |crd: &&Crd| groups.iter().all(|group| !group.kinds.iter().any(|kind| kind == crd.kind()));
    let no_group = crds.iter().filter(has_none).map(|crd| format!("no valid object: {}", crd.kind()));
    no_case.chain(no_rule).chain(no_group).collect()
}

#[test]
fn every_rule_of_the_corpus_is_broken_alike() {
    let test = "every_rule_of_the_corpus_is_broken_alike";
    let crds = match crds() {
        Ok(crds) => crds,
        Err(reason) => return skip(test, &reason),
    };
    let groups = groups();
    let missing = uncovered(&crds, &groups);
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    if let Some(reason) = real::missing() {
        return skip(test, &reason);
    }
    // Servers of its own: the definitions would show in the discovery that other tests compare.
    let planes = Planes::start(&["gc", "namespace"]).unwrap();
    let mut pair = Pair::new(&planes.ours, &planes.real).unwrap();
    for crd in &crds {
        pair.play_all(crd, &groups).unwrap();
    }
    let rules = crds.iter().flat_map(places).count();
    let report = &pair.report;
    assert!(report.problems.is_empty(), "{report}");
    note(&format!("corpus: {report}; {rules} CEL rules, all broken on both, same answers"));
}
