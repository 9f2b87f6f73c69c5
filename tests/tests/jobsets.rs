//! Scenarios of JobSets, on both planes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_tests::clients::{note, skip};
use muster_tests::jobsets::{self, Gates, Scenario, Verdict};
use muster_tests::plane::{Mortal, Plane};
use muster_tests::planes::Planes;
use muster_tests::real;
use muster_tree::{Tree, from_tree};

/// Fewer scenarios than this show too little.
const SCENARIOS_MIN: usize = 130;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets")
}

#[test]
fn jobsets_do_what_is_written() {
    let all = jobsets::load(&folder()).unwrap();
    assert!(all.len() >= SCENARIOS_MIN, "only {} scenarios", all.len());
    let missing = real::missing();
    if let Some(reason) = &missing {
        skip("jobsets_do_what_is_written (on a real server)", reason);
    }
    let mut report = String::new();
    for gates in Gates::ALL {
        let those: Vec<Scenario> = all.iter().filter(|it| it.gates == gates).cloned().collect();
        report += &told(&played(gates, &those, missing.is_none()));
    }
    assert!(report.is_empty(), "{report}");
    let places = if missing.is_none() { "both planes" } else { "our plane" };
    note(&format!("jobsets: {} scenarios on {places}", all.len()));
}

fn played(gates: Gates, scenarios: &[Scenario], real: bool) -> Vec<Verdict> {
    if real {
        let planes = Planes::with_jobsets(gates.flag()).unwrap();
        return jobsets::judge(&planes.ours, Some(&planes.real), scenarios);
    }
    let args = ["--ephemeral", "--sim-nodes", "4", "--feature-gates", gates.flag()];
    let plane = Plane::start(&args).unwrap();
    jobsets::judge(&plane.server().unwrap(), None, scenarios)
}

/// All that differs, and why what could not be played could not.
fn told(verdicts: &[Verdict]) -> String {
    let mut report = String::new();
    for (name, verdict) in verdicts {
        match verdict {
            Ok(differences) => {
                for difference in differences {
                    writeln!(report, "{name}\n  {difference}").unwrap();
                }
            }
            Err(why) => writeln!(report, "{name}\n  {why}").unwrap(),
        }
    }
    report
}

/// What happens while the gate of claim templates is on.
const ON: &str = "
name: with the gate
devices: 1
set:
  jobs:
  - {name: a}
  - name: b
    after: {a: Complete}
    resourceClaimTemplates: [{metadata: {name: c}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: 'gpu-{ns}'}}]}}}]
steps:
- until: {status: {replicatedJobsStatus: [{name: a, ready: 1}]}}
";
/// And when the next start turned it off.
const OFF: &str = "
name: without it
steps:
- end: {job: js-a-0, exit: 0}
- event: {reason: ResourceClaimTemplatesDisabled, type: Warning}
- stays: {seconds: 1, what: [{count: {kind: Job, count: 1}}, {count: {kind: ResourceClaim, count: 0}}]}
- delete: Background
- gone: {kind: JobSet, name: js}
- count: {kind: Job, count: 0}
";

/// Shows: 762-41.
#[test]
fn without_their_gate_claim_templates_hold_the_jobs_that_have_them() {
    let read = |text: &str| from_tree::<Scenario>(&Tree::parse_yaml(text).unwrap()).unwrap();
    let mut plane = Mortal::with(&["--sim-nodes", "2"]).unwrap();
    jobsets::play(&plane.server().unwrap(), &read(ON), "held").unwrap();
    plane.kill();
    plane.change(&["--sim-nodes", "2", "--feature-gates", Gates::Claimless.flag()]);
    plane.revive().unwrap();
    jobsets::play(&plane.server().unwrap(), &read(OFF), "held").unwrap();
}
