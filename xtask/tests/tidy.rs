//! What lints cannot say and what really breaks designs: the arrows between crates.
//!
//! `ARCHITECTURE.md` draws them; this test reads the manifests and refuses any other.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Which crates of ours each crate may name, besides in its tests.
const ARROWS: &[(&str, &[&str])] = &[
    ("muster-tree", &[]),
    ("muster-api", &["muster-tree"]),
    ("muster-schema", &["muster-tree", "muster-api"]),
    ("muster-store", &["muster-tree", "muster-api", "muster-schema"]),
    ("muster-apiserver", &["muster-tree", "muster-api", "muster-schema", "muster-store"]),
    (
        "muster-hooks",
        &[
            "muster-tree",
            "muster-api",
            "muster-store",
            "muster-apiserver",
            "muster-jobset",
            "muster-queue",
            "muster-trainer",
        ],
    ),
    ("muster-job", &["muster-tree", "muster-api"]),
    ("muster-jobset", &["muster-tree", "muster-api", "muster-schema"]),
    ("muster-queue", &["muster-tree", "muster-api", "muster-schema"]),
    ("muster-trainer", &["muster-tree", "muster-api", "muster-schema", "muster-jobset"]),
    ("muster-install", &["muster-tree", "muster-api", "muster-jobset", "muster-queue", "muster-trainer"]),
    ("muster-devices", &["muster-tree", "muster-api", "muster-schema"]),
    ("muster-scheduler", &["muster-tree", "muster-api", "muster-devices"]),
    (
        "muster-control",
        &[
            "muster-tree",
            "muster-api",
            "muster-job",
            "muster-jobset",
            "muster-queue",
            "muster-scheduler",
            "muster-trainer",
        ],
    ),
    ("muster-cluster", &["muster-tree", "muster-api"]),
    ("muster-process", &["muster-api"]),
    ("muster-kubelet", &["muster-tree", "muster-api", "muster-process"]),
    ("muster-node", &["muster-tree", "muster-api", "muster-control", "muster-process"]),
    (
        "muster-operator",
        &[
            "muster-tree",
            "muster-api",
            "muster-schema",
            "muster-apiserver",
            "muster-hooks",
            "muster-install",
            "muster-jobset",
            "muster-queue",
            "muster-trainer",
            "muster-control",
            "muster-cluster",
        ],
    ),
    (
        "muster-sim",
        &[
            "muster-tree",
            "muster-api",
            "muster-apiserver",
            "muster-hooks",
            "muster-store",
            "muster-control",
            "muster-jobset",
            "muster-queue",
            "muster-trainer",
            "muster-node",
            "muster-process",
        ],
    ),
];

/// Crates below the rim: nothing here may wait, listen or call out.
const BELOW_THE_RIM: &[&str] = &[
    "muster-tree",
    "muster-api",
    "muster-schema",
    "muster-store",
    "muster-job",
    "muster-jobset",
    "muster-queue",
    "muster-trainer",
    "muster-install",
    "muster-devices",
    "muster-scheduler",
    "muster-control",
    "muster-node",
    "muster-sim",
];

/// Runtimes, clients and servers.
const RIM_ONLY: &[&str] =
    &["tokio", "hyper", "hyper-util", "axum", "reqwest", "kube", "k8s-openapi", "async-std"];

/// The heavy client crates may be named by these alone.
const MAY_NAME_KUBE: &[&str] = &["muster-cluster", "muster-tests", "kube-rs-test"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// (package, its ordinary dependencies).
fn packages() -> Vec<(String, Vec<String>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let name = |of: &Value| of["name"].as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata, "packages").into_iter();
    packages
        .map(|package| {
            let ordinary = list(&package, "dependencies").into_iter().filter(|it| it["kind"].is_null());
            (name(&package), ordinary.map(|it| name(&it)).collect())
        })
        .collect()
}

#[test]
fn arrows_point_one_way() {
    let packages = packages();
    assert!(packages.len() >= ARROWS.len(), "cargo metadata listed only {} packages", packages.len());
    for (name, depends) in &packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| from == name) else {
            continue;
        };
        for to in depends.iter().filter(|d| d.starts_with("muster-")) {
            assert!(
                allowed.contains(&to.as_str()),
                "{name} may not name {to}: see ARCHITECTURE.md, or write an ADR"
            );
        }
    }
}

#[test]
fn nothing_below_the_rim_can_wait() {
    for (name, depends) in packages() {
        for dependency in &depends {
            if BELOW_THE_RIM.contains(&name.as_str()) {
                assert!(
                    !RIM_ONLY.contains(&dependency.as_str()),
                    "{name} is below the rim and names {dependency}"
                );
            }
            if dependency == "kube" || dependency == "k8s-openapi" {
                assert!(
                    MAY_NAME_KUBE.contains(&name.as_str()),
                    "{name} names {dependency}: 20 s more build each time"
                );
            }
        }
    }
}

#[test]
fn every_crate_obeys_the_one_lint_table() {
    for member in ["crates", "tests", "."] {
        for entry in std::fs::read_dir(root().join(member)).expect("folder exists").flatten() {
            let Ok(manifest) = std::fs::read_to_string(entry.path().join("Cargo.toml")) else {
                continue;
            };
            let obeys = manifest.contains("[lints]\nworkspace = true");
            assert!(obeys, "{} lacks `[lints] workspace = true`", entry.path().display());
        }
    }
}

/// A dash stands where nothing was measured yet.
///
/// Shows: 2899-65.
#[test]
fn the_last_figures_of_trainjobs_are_written_down() {
    let file = root().join("docs/guides/trainjob-figures.md");
    let text = std::fs::read_to_string(&file).expect("the page of figures can be read");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 20, "{}: only {} rows", file.display(), rows.len());
    let empty: Vec<&&str> = rows.iter().filter(|row| row.split('|').any(|cell| cell.trim() == "–")).collect();
    assert!(empty.is_empty(), "{}: nothing was measured of {empty:#?}", file.display());
    assert!(!text.contains("not run yet"), "{}: it was not run", file.display());
}

/// `cargo xtask coverage` prints the figure and fails below the limit; it is too dear for every run of the tests.
///
/// Shows: 2899-61.
#[test]
fn the_last_figure_of_coverage_is_written_down() {
    let file = root().join("docs/guides/trainjob-figures.md");
    let text = std::fs::read_to_string(&file).expect("the page of figures can be read");
    let line = text.lines().find(|line| line.starts_with("| both |")).expect("a row about all of the code");
    let covered = line.trim_end_matches(['|', ' ', '%']).rsplit('|').next();
    let percent = covered.and_then(|it| it.trim().parse::<f64>().ok());
    assert!(percent.is_some_and(|percent| percent > 80.0), "{}: {line}", file.display());
}
