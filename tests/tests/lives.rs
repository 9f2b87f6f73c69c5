//! Jobs and other objects live as under the real controllers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use muster_tests::beside::until;
use muster_tests::clients::note;
use muster_tests::lives::{self, Verdict};
use muster_tests::planes::Planes;

/// Fewer lives than this show too little.
const LIVES_MIN: usize = 60;
/// The same for lives of volumes, devices and their pods.
const OBJECTS_MIN: usize = 50;
/// Who holds it schedules.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lives")
}

/// All that differed, and why what could not be played could not.
fn report(verdicts: &[Verdict]) -> String {
    let mut report = String::new();
    for (name, verdict) in verdicts {
        match verdict {
            Ok(differences) if differences.is_empty() => {}
            Ok(differences) => {
                writeln!(report, "{name}").unwrap();
                differences.iter().for_each(|difference| writeln!(report, "  {difference}").unwrap());
            }
            Err(why) => writeln!(report, "{name}\n  {why}").unwrap(),
        }
    }
    report
}

#[test]
fn objects_live_as_under_the_real_controllers() {
    let Some(planes) = Planes::at_work("objects_live_as_under_the_real_controllers") else {
        return;
    };
    let verdicts = lives::judge(&planes.ours, &planes.real, &folder(), "").unwrap();
    let report = report(&verdicts);
    assert!(report.is_empty(), "{report}");
    assert!(verdicts.len() >= LIVES_MIN, "only {} lives", verdicts.len());
    note(&format!("lives: {} on both planes, all alike", verdicts.len()));
}

#[test]
fn claims_live_alike_under_our_scheduler_on_a_real_server() {
    let Some(planes) = Planes::at_work("claims_live_alike_under_our_scheduler_on_a_real_server") else {
        return;
    };
    let operated = planes.operated().unwrap();
    until(&operated.server, LEASE, "an operator in charge", |lease| {
        (!lease.str_at(&["spec", "holderIdentity"]).is_empty()).then_some(())
    });
    let verdicts =
        lives::judge_scheduler("muster-scheduler", &operated.server, &planes.real, &folder()).unwrap();
    let report = report(&verdicts);
    assert!(report.is_empty(), "{report}");
    assert!(verdicts.len() >= OBJECTS_MIN, "only {} lives", verdicts.len());
    note(&format!(
        "muster operator: {} lives of volumes, devices and their pods on a real server, all as under kube-scheduler",
        verdicts.len()
    ));
}
