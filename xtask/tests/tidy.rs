//! Checks what no lint does: the dependencies between crates, and figures in the documentation that must not be missing.
//!
//! `ARCHITECTURE.md` draws the dependencies; these tests read the manifests and reject any other. The rules about source text
//! are checked by the unit tests of `cargo xtask tidy` (`xtask/src/tidy`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The workspace crates that each crate may depend on. Dev-dependencies are not restricted.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
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

/// Crates without async code, sockets and clients: they run as they are in the simulator.
const SYNCHRONOUS: &[&str] = &[
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

/// Async runtimes, clients and servers.
const ASYNC_CRATES: &[&str] =
    &["tokio", "hyper", "hyper-util", "axum", "reqwest", "kube", "k8s-openapi", "async-std"];

/// The crates that may depend on the client crates, which compile for long.
const MAY_NAME_KUBE: &[&str] = &["muster-cluster", "muster-tests", "kube-rs-test"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace root")
}

/// Returns each package with its normal dependencies.
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
            let normal = list(&package, "dependencies").into_iter().filter(|it| it["kind"].is_null());
            (name(&package), normal.map(|it| name(&it)).collect())
        })
        .collect()
}

#[test]
fn crates_depend_only_on_the_crates_of_the_architecture() {
    let packages = packages();
    assert!(
        packages.len() >= ALLOWED_DEPENDENCIES.len(),
        "cargo metadata listed only {} packages",
        packages.len()
    );
    for (name, dependencies) in &packages {
        let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(from, _)| from == name) else {
            continue;
        };
        for to in dependencies.iter().filter(|d| d.starts_with("muster-")) {
            assert!(
                allowed.contains(&to.as_str()),
                "{name} may not depend on {to}: see ARCHITECTURE.md, or write an ADR"
            );
        }
    }
}

#[test]
fn synchronous_crates_depend_on_no_runtime_client_or_server() {
    for (name, dependencies) in packages() {
        for dependency in &dependencies {
            if SYNCHRONOUS.contains(&name.as_str()) {
                assert!(
                    !ASYNC_CRATES.contains(&dependency.as_str()),
                    "{name} is synchronous and may not depend on {dependency}"
                );
            }
            if dependency == "kube" || dependency == "k8s-openapi" {
                assert!(
                    MAY_NAME_KUBE.contains(&name.as_str()),
                    "{name} may not depend on {dependency}: it adds 20 s to every build"
                );
            }
        }
    }
}

#[test]
fn every_crate_inherits_the_workspace_lints() {
    for member in ["crates", "tests", "."] {
        for entry in std::fs::read_dir(root().join(member)).expect("the directory exists").flatten() {
            let Ok(manifest) = std::fs::read_to_string(entry.path().join("Cargo.toml")) else {
                continue;
            };
            let inherits = manifest.contains("[lints]\nworkspace = true");
            assert!(inherits, "{} lacks `[lints] workspace = true`", entry.path().display());
        }
    }
}

/// A dash marks a figure that is not measured yet.
///
/// Shows: 2899-65.
#[test]
fn the_trainjob_figures_are_complete() {
    let file = root().join("docs/guides/trainjob-figures.md");
    let text = std::fs::read_to_string(&file).expect("the figures can be read");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 20, "{}: only {} rows", file.display(), rows.len());
    let empty: Vec<&&str> = rows.iter().filter(|row| row.split('|').any(|cell| cell.trim() == "–")).collect();
    assert!(empty.is_empty(), "{}: not measured: {empty:#?}", file.display());
    assert!(!text.contains("not run yet"), "{}: the benchmark was not run", file.display());
}

/// `cargo xtask coverage` prints the figure and fails below the minimum. It takes too long to run with the tests.
///
/// Shows: 2899-61.
#[test]
fn the_coverage_figure_is_above_the_minimum() {
    let file = root().join("docs/guides/trainjob-figures.md");
    let text = std::fs::read_to_string(&file).expect("the figures can be read");
    let line = text.lines().find(|line| line.starts_with("| both |")).expect("a row for both crates");
    let covered = line.trim_end_matches(['|', ' ', '%']).rsplit('|').next();
    let percent = covered.and_then(|it| it.trim().parse::<f64>().ok());
    assert!(percent.is_some_and(|percent| percent > 80.0), "{}: {line}", file.display());
}
