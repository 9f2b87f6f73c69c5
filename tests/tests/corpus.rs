//! The corpus has a case for each CEL rule of the published CRDs. The cases are scenarios of `tests/scenarios/main.rs`.

use std::collections::BTreeSet;
use std::path::Path;

use muster_tests::clients::{note, skip};
use muster_tests::corpus::{CorpusGroup, Crd, RuleLocation, crds, load, places};

fn groups() -> Vec<CorpusGroup> {
    load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).unwrap()
}

/// What only one of the two lists has.
fn uncovered(crds: &[Crd], groups: &[CorpusGroup]) -> Vec<String> {
    let rules: BTreeSet<RuleLocation> = crds.iter().flat_map(places).collect();
    let spoken_of: BTreeSet<RuleLocation> = groups.iter().flat_map(CorpusGroup::rule_locations).collect();
    let no_case = rules.difference(&spoken_of).map(|place| format!("no case breaks: {place}"));
    let no_rule = spoken_of.difference(&rules).map(|place| format!("a case, but no rule: {place}"));
    let has_none = |crd: &&Crd| groups.iter().all(|group| !group.kinds.iter().any(|kind| kind == crd.kind()));
    let no_group = crds.iter().filter(has_none).map(|crd| format!("no valid object: {}", crd.kind()));
    no_case.chain(no_rule).chain(no_group).collect()
}

#[test]
fn every_rule_has_a_case() {
    let test = "every_rule_has_a_case";
    let crds = match crds() {
        Ok(crds) => crds,
        Err(reason) => return skip(test, &reason),
    };
    let groups = groups();
    let missing = uncovered(&crds, &groups);
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    note(&format!("corpus: {} CEL rules, each with a case", crds.iter().flat_map(places).count()));
}
