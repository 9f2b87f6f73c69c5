//! The README and the guides, played from top to bottom by their reader: each command, and each example that they link, on
//! the server that the page had the reader start, with this machine as its node.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use muster_tests::clients::program;
use muster_tests::doc_tests::{self, DocTester};
use muster_tests::trainjob_fixture::lock_rendezvous_port;

fn play(test: &str, page: &Path) {
    let Some(kubectl) = program("MUSTER_TEST_KUBECTL", test) else { return };
    DocTester::new(&kubectl).unwrap().run_page(page).unwrap_or_else(|why| panic!("{why}"));
}

/// Every page with commands is played: by a test of this file or by the one that is named here.
const PLAYED: [(&str, &str); 7] = [
    ("gangs.md", "the_guide_to_gangs_can_be_followed"),
    ("jobset.md", "the_guide_to_jobsets_can_be_followed"),
    ("queueing.md", "the_guide_to_queues_can_be_followed"),
    ("take-over.md", "takeover::the_page_can_be_followed"),
    ("trainjob.md", "the_guide_to_trainjobs_can_be_followed"),
    // Up to "Rolling back".
    ("trainjob-operations.md", "train_cluster::trainjobs_of_a_real_server_run_end_and_go"),
    // From "Rolling back" on.
    ("trainjob-operations.md", "train_versions::trainjobs_of_older_definitions_and_back"),
];

#[test]
fn every_guide_with_commands_is_played() {
    let mut with_commands = BTreeSet::new();
    for entry in std::fs::read_dir(doc_tests::page("guides")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !doc_tests::commands(&path).unwrap().is_empty() {
            with_commands.insert(name.clone());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let hidden = doc_tests::commands_outside_of_scripts(&text);
        assert!(hidden.is_empty(), "{name}: these lines belong in a block of `sh`: {hidden:?}");
    }
    let played: BTreeSet<String> = PLAYED.iter().map(|(page, _)| (*page).to_owned()).collect();
    assert_eq!(with_commands, played);
}

fn readme() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")
}

#[test]
fn the_readme_can_be_followed() {
    // Its examples run TrainJobs on this machine.
    let _alone = lock_rendezvous_port();
    play("the_readme_can_be_followed", &readme());
}

#[test]
fn the_guide_to_gangs_can_be_followed() {
    play("the_guide_to_gangs_can_be_followed", &doc_tests::page("guides/gangs.md"));
}

#[test]
fn the_guide_to_queues_can_be_followed() {
    // Its examples run TrainJobs on this machine.
    let _alone = lock_rendezvous_port();
    play("the_guide_to_queues_can_be_followed", &doc_tests::page("guides/queueing.md"));
}

#[test]
fn the_guide_to_jobsets_can_be_followed() {
    play("the_guide_to_jobsets_can_be_followed", &doc_tests::page("guides/jobset.md"));
}

#[test]
fn the_guide_to_trainjobs_can_be_followed() {
    // Its examples run TrainJobs on this machine.
    let _alone = lock_rendezvous_port();
    play("the_guide_to_trainjobs_can_be_followed", &doc_tests::page("guides/trainjob.md"));
}
