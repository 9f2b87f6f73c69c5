//! Versions of TrainJobs that meet: jobs of an older definition, an operator over one, one that does not know the fields,
//! and the way back.
//!
//! The older definition is ours without `ttlSecondsAfterFinished` and without the rule that keeps both fields as they are: the
//! shape that upstream has. There is no earlier release of ours: an operator without the fields is played by an operator
//! without the controller `trainer`.

use std::collections::BTreeMap;

use muster_tests::clients::note;
use muster_tests::doc_tests;
use muster_tests::embedded_server;
use muster_tests::queue_fixture::QueueFixture;
use muster_tests::real;
use muster_tree::Tree;

use crate::train_cluster::{gone, is, job, runs, runtime};

const DEFINITION: &str = "trainjobs.trainer.kubeflow.org";
const BOTH: [&str; 2] = ["activeDeadlineSeconds: 3600", "ttlSecondsAfterFinished: 1"];
/// Lets a server drop fields that it does not know.
const UNCHECKED: [&str; 1] = ["--validate=false"];

/// The older definition: upstream's shape.
fn older() -> Tree {
    let ours = real::crd_manifest(&embedded_server::binary().unwrap(), DEFINITION).unwrap();
    let spec = ["schema", "openAPIV3Schema", "properties", "spec"];
    let versions = ours.at(&["spec", "versions"]).unwrap().map_items(|_, version| {
        let fields = [&spec[..], &["properties", "ttlSecondsAfterFinished"]].concat();
        let rules = [&spec[..], &["x-kubernetes-validations"]].concat();
        let about_both = |rule: &Tree| {
            ["ttlSecondsAfterFinished", "activeDeadlineSeconds"]
                .iter()
                .any(|it| rule.str_at(&["rule"]).contains(it))
        };
        let kept = Tree::list(version.items_at(&rules).iter().filter(|it| !about_both(it)).cloned());
        assert_ne!(kept.items().len(), version.items_at(&rules).len(), "a rule keeps both as they are");
        let older = version.without(&fields);
        if kept.is_empty() { older.without(&rules) } else { older.with(&rules, kept) }
    });
    ours.with(&["spec", "versions"], versions)
}

/// Puts the older definition in place of ours.
fn goes_back(stage: &QueueFixture) {
    let file = stage.write_file("older-trainjobs.yaml", &older().to_yaml());
    stage.kubectl(&["replace", "-f", &file]);
    served(stage, false);
}

/// Waits until the API server serves the CRD with the field, or the one without it. A webhook server has to answer
/// its webhooks meanwhile, where it has any.
fn served(stage: &QueueFixture, field: bool) {
    stage.until("the server goes by it", |stage| {
        let text = job("probe", "long", &["ttlSecondsAfterFinished: 100"]);
        let made = stage.try_apply(&text, &["--dry-run=server", "--validate=false", "--output", "json"])?;
        if made.contains("\"ttlSecondsAfterFinished\": 100") == field { Ok(()) } else { Err(made) }
    });
}

/// What must not change: of a TrainJob and its pods.
fn picture(stage: &QueueFixture, names: &[&str]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for name in names {
        let job = stage.get(&["trainjob", name]);
        let meta = |key: &str| job.at(&["metadata", key]).map(Tree::to_json).unwrap_or_default();
        all.insert(format!("trainjob {name}"), ["uid", "resourceVersion", "generation"].map(meta).join(" "));
        let selector = format!("jobset.sigs.k8s.io/jobset-name={name}");
        for pod in stage.get(&["pods", "--selector", &selector]).items_at(&["items"]) {
            all.insert(
                format!("pod {}", pod.str_at(&["metadata", "name"])),
                pod.str_at(&["metadata", "uid"]).to_owned(),
            );
        }
    }
    all
}

/// Our operator with the older CRD: the fields are dropped, as if they were not set.
fn a_new_operator_and_an_old_definition(stage: &QueueFixture) {
    stage.try_apply(&job("done", "quick", &BOTH), &UNCHECKED).unwrap();
    stage.try_apply(&job("goes-on", "long", &["ttlSecondsAfterFinished: 1"]), &UNCHECKED).unwrap();
    stage.until("it completes", is("done", "Complete", "AllJobsCompleted"));
    stage.until("the other runs", runs("goes-on"));
    stage.stays("a time to live that was dropped is none", is("done", "Complete", "AllJobsCompleted"));
    let told = stage.operator_log();
    assert!(told.contains("it lacks spec.ttlSecondsAfterFinished"), "{told}");
    assert!(!told.contains("ERROR muster"), "{told}");
    // The deadline is in both definitions.
    stage.apply_text(&job("late", "long", &["activeDeadlineSeconds: 3"]));
    stage.until("it fails", is("late", "Failed", "DeadlineExceeded"));
}

/// Upgrading writes to no job.
fn upgrading(stage: &mut QueueFixture) {
    let jobs = ["done", "goes-on"];
    let before = picture(stage, &jobs);
    assert!(before.keys().any(|it| it.starts_with("pod goes-on")), "{before:?}");
    stage.stop_operator();
    stage.reinstall(&[]).unwrap();
    stage.start_operator();
    served(stage, true);
    // Another one is looked at, and so were they.
    stage.apply_text(&job("new", "quick", &["ttlSecondsAfterFinished: 1"]));
    stage.until("a new one goes", gone("trainjob/new"));
    assert_eq!(picture(stage, &jobs), before);
}

/// An operator that knows nothing of TrainJobs leaves the fields and the jobs alone.
fn an_old_operator_and_a_new_definition(stage: &mut QueueFixture) {
    stage.apply_text(&job("both", "long", &BOTH));
    stage.until("it runs", runs("both"));
    stage.stop_operator();
    stage.start_operator_with(&["--controllers", "*,-trainer", "--admission", "*,-trainer"]);
    let before = picture(stage, &["both", "goes-on"]);
    stage.stays("nothing happens to them", |stage| {
        let now = picture(stage, &["both", "goes-on"]);
        if now == before { Ok(()) } else { Err(format!("{now:?}")) }
    });
    let both = stage.get(&["trainjob", "both"]);
    assert_eq!(both.int_at(&["spec", "ttlSecondsAfterFinished"]), Some(1), "{both}");
    let told = stage.operator_log();
    assert!(!told.contains("ERROR muster"), "{told}");
}

/// The way back, by the commands of the page for operators: accepted in this order, and nothing stops.
fn downgrading(stage: &mut QueueFixture) {
    let removal = r#"{"spec": {"ttlSecondsAfterFinished": null}}"#;
    let why = stage.run(&["patch", "trainjob", "both", "--type=merge", "-p", removal]).unwrap_err();
    assert!(why.contains("field is immutable"), "while ours is there: {why}");
    let pods = |stage: &QueueFixture| -> BTreeMap<String, String> {
        picture(stage, &["both", "goes-on"]).into_iter().filter(|it| it.0.starts_with("pod")).collect()
    };
    let before = pods(stage);
    stage.stop_operator();
    let _ = stage.write_file("older-trainjobs.yaml", &older().to_yaml());
    let all = doc_tests::commands(&doc_tests::page("guides/trainjob-operations.md")).unwrap();
    let from = all.iter().position(|it| it.contains("kubectl delete")).expect("it ends by rolling back");
    for block in &all[from..] {
        stage.shell(block, &[]).unwrap_or_else(|why| panic!("{block}: {why}"));
        if block.contains("older-trainjobs.yaml") {
            served(stage, false);
        }
    }
    for name in ["both", "goes-on", "done"] {
        let job = stage.get(&["trainjob", name]);
        for field in ["ttlSecondsAfterFinished", "activeDeadlineSeconds"] {
            assert_eq!(job.at(&["spec", field]), None, "{job}");
        }
    }
    stage.start_operator();
    stage.until("it goes on", runs("both"));
    stage.stays("and nothing is deleted", |stage| {
        if pods(stage) == before { Ok(()) } else { Err(format!("{:?}", pods(stage))) }
    });
}

/// Off and on again: those made without the fields stay, those made with them go.
fn off_and_on_again(stage: &mut QueueFixture) {
    stage.stop_operator();
    stage.reinstall(&[]).unwrap();
    stage.start_operator();
    served(stage, true);
    stage.apply_text(&job("without", "quick", &[]));
    stage.apply_text(&job("with", "quick", &["ttlSecondsAfterFinished: 1"]));
    stage.until("one goes", gone("trainjob/with"));
    stage.until("the other stays", is("without", "Complete", "AllJobsCompleted"));
    stage.until("and so do older ones", runs("both"));
}

/// Shows: 2899-53, 2899-54, 2899-55, 2899-56, 2899-57, 2899-64, 2899-67.
#[test]
fn trainjobs_of_older_definitions_and_back() {
    let Some(mut stage) = QueueFixture::real("trainjobs_of_older_definitions_and_back") else { return };
    stage.apply_text(&runtime("quick", 1));
    stage.apply_text(&runtime("long", 3600));
    goes_back(&stage);
    stage.stop_operator();
    stage.start_operator();
    a_new_operator_and_an_old_definition(&stage);
    upgrading(&mut stage);
    an_old_operator_and_a_new_definition(&mut stage);
    downgrading(&mut stage);
    off_and_on_again(&mut stage);
    note(
        "trainjobs: older definitions, an operator without them, and the way back and forth on a real server",
    );
}
