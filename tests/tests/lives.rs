//! Jobs and other objects live as under the real controllers.

use std::fmt::Write as _;
use std::path::Path;

use muster_tests::clients::note;
use muster_tests::lives;
use muster_tests::planes::Planes;

/// Fewer lives than this show too little.
const LIVES_MIN: usize = 60;

#[test]
fn objects_live_as_under_the_real_controllers() {
    let Some(planes) = Planes::at_work("objects_live_as_under_the_real_controllers") else {
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lives");
    let verdicts = lives::judge(&planes.ours, &planes.real, &folder, "").unwrap();
    let mut report = String::new();
    for (name, verdict) in &verdicts {
        match verdict {
            Ok(differences) if differences.is_empty() => {}
            Ok(differences) => {
                writeln!(report, "{name}").unwrap();
                differences.iter().for_each(|difference| writeln!(report, "  {difference}").unwrap());
            }
            Err(why) => writeln!(report, "{name}\n  {why}").unwrap(),
        }
    }
    assert!(report.is_empty(), "{report}");
    assert!(verdicts.len() >= LIVES_MIN, "only {} lives", verdicts.len());
    note(&format!("lives: {} on both planes, all alike", verdicts.len()));
}
