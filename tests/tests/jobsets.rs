//! Scenarios of JobSets, over three makers of the port.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_tests::clients::{note, skip};
use muster_tests::jobsets::{self, Gates, Makers, Place, Scenario, Verdict, differs};
use muster_tests::plane::Mortal;
use muster_tests::planes::{self, Outside, Planes};
use muster_tests::real;
use muster_tree::{Tree, from_tree};

/// Fewer scenarios than this show too little.
const SCENARIOS_MIN: usize = 130;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets")
}

#[test]
fn jobsets_do_what_is_written() {
    let mut all = jobsets::load(&folder()).unwrap();
    assert!(all.len() >= SCENARIOS_MIN, "only {} scenarios", all.len());
    // The others are played under virtual time.
    all.retain(|it| it.is_for(Place::Embedded) || it.is_for(Place::Real));
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
    note(&format!("jobsets: {} scenarios over {} makers", all.len(), 2 + usize::from(missing.is_none())));
    if missing.is_none() {
        tell_what_differs(&all);
    }
}

/// What stays different on a real server, with the reasons.
fn tell_what_differs(all: &[Scenario]) {
    let absent = all.iter().filter(|it| !it.is_for(Place::Real));
    let chance = all.iter().filter(|it| !it.chance.is_empty());
    let absent: Vec<String> = absent.map(|it| format!("{:?}: {}", it.name, it.because)).collect();
    let chance: Vec<String> = chance.map(|it| format!("{:?}: {}", it.name, it.chance)).collect();
    let told = |what: &str, those: &[String]| {
        note(&format!("jobsets: {} scenarios {what}: {}", those.len(), those.join("; ")));
    };
    told("are not played beside the real server", &absent);
    told("end by chance and are not compared", &chance);
    let parts = differs::PARTS.iter().map(|part| {
        let kind = if part.kind.is_empty() { "all kinds" } else { part.kind };
        format!("{kind}: {} ({})", part.what, part.why)
    });
    note(&format!("jobsets: not compared with the real server: {}", parts.collect::<Vec<_>>().join("; ")));
}

fn played(gates: Gates, scenarios: &[Scenario], real: bool) -> Vec<Verdict> {
    let flag = gates.flag();
    std::thread::scope(|scope| {
        let outside = scope.spawn(|| Outside::with_jobsets(flag).unwrap());
        if real {
            let (planes, outside) = (Planes::with_jobsets(flag).unwrap(), outside.join().unwrap());
            let (local, real) = (&planes.ours, Some(&planes.real));
            return jobsets::judge(Makers { local, outside: Some(&outside.server), real }, scenarios);
        }
        let (plane, outside) = (planes::with_jobsets(flag).unwrap(), outside.join().unwrap());
        let local = &plane.server().unwrap();
        jobsets::judge(Makers { local, outside: Some(&outside.server), real: None }, scenarios)
    })
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
