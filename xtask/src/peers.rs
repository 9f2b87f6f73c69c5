//! `cargo xtask peers`: builds the upstream controllers that benches and tests compare with, from their published Go modules.
//!
//! They are built once per version into the user's cache directory. Benches, the Helm chart test and the JobSet takeover test
//! need them and name the missing program.
//!
//! # Deliberately absent
//!
//! Upstream CRDs: the corpus test and the benches read them from the Go module cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::kube;
use xtask::process;

/// An upstream program.
struct PeerProgram {
    name: &'static str,
    /// The path of its Go module.
    module: &'static str,
    /// The main package in the module.
    program: &'static str,
    version: &'static str,
}

const PEERS: [PeerProgram; 4] = [
    PeerProgram { name: "jobset", module: "sigs.k8s.io/jobset", program: ".", version: "v0.10.1" },
    PeerProgram { name: "kueue", module: "sigs.k8s.io/kueue", program: "./cmd/kueue", version: "v0.19.2" },
    PeerProgram {
        name: "trainer",
        module: "github.com/kubeflow/trainer/v2",
        program: "./cmd/trainer-controller-manager",
        version: "v2.1.0",
    },
    // Renders our chart for the test that compares it with `muster install`.
    PeerProgram { name: "helm", module: "helm.sh/helm/v4", program: "./cmd/helm", version: "v4.3.1" },
];

/// The task: builds the programs named in `args`, or all, and prints their paths.
pub fn task(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.iter().find(|arg| PEERS.iter().all(|peer| peer.name != *arg)) {
        let names = PEERS.map(|peer| peer.name).join(", ");
        return Err(format!("{unknown}: not one of {names}"));
    }
    for peer in PEERS.iter().filter(|peer| args.is_empty() || args.iter().any(|arg| arg == peer.name)) {
        eprintln!("{}", program(peer)?.display());
    }
    Ok(())
}

/// Returns the path of a program by its name, and builds it if it is missing.
pub fn named(name: &str) -> Result<PathBuf, String> {
    let peer = PEERS.iter().find(|peer| peer.name == name);
    program(peer.ok_or_else(|| format!("{name} is not an upstream program of this list"))?)
}

/// Returns the path of a program, and builds it if it is missing.
fn program(peer: &PeerProgram) -> Result<PathBuf, String> {
    let path = path(peer)?;
    if path.exists() {
        return Ok(path);
    }
    if !process::exists("go", "version") {
        let (name, version) = (peer.name, peer.version);
        return Err(format!(
            "{name} {version} is not at {} and Go is not installed to build it",
            path.display()
        ));
    }
    eprintln!("building {} {} (once; minutes)", peer.name, peer.version);
    build(peer, &path)?;
    Ok(path)
}

fn path(peer: &PeerProgram) -> Result<PathBuf, String> {
    Ok(kube::cache()?.join("peers").join(format!("{}-{}", peer.name, peer.version)))
}

/// Builds in the module's directory in Go's cache, so that the program has exactly the dependencies of its release. The rename
/// makes the build atomic: an interrupted one leaves no file at `path`.
fn build(peer: &PeerProgram, path: &Path) -> Result<(), String> {
    let directory = path.parent().ok_or("the cache directory has no parent")?;
    fs::create_dir_all(directory).map_err(|e| format!("creating {}: {e}", directory.display()))?;
    let unfinished = path.with_file_name(format!("{}-unfinished", peer.name));
    let module = process::retry(|| module(peer))?;
    let mut go = Command::new("go");
    go.current_dir(module).env("CGO_ENABLED", "0");
    go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o"]);
    go.arg(&unfinished).arg(peer.program);
    // Retried because the build downloads dependencies.
    process::retry(|| process::run(&mut go)).map_err(|e| format!("{} {}: {e}", peer.name, peer.version))?;
    fs::rename(&unfinished, path).map_err(|e| format!("moving to {}: {e}", path.display()))
}

/// Returns the directory of the module in Go's cache, and downloads it if it is missing.
fn module(peer: &PeerProgram) -> Result<String, String> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", &format!("{}@{}", peer.module, peer.version)]);
    let answer = process::output(&mut download)?;
    let answer: Value = serde_json::from_str(&answer).map_err(|e| format!("go mod download: {e}"))?;
    answer["Dir"].as_str().map(str::to_owned).ok_or_else(|| "go mod download names no Dir".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_test_reads_crds_of_the_same_versions() {
        let corpus = include_str!("../../tests/src/corpus/modules.rs");
        // The bench compares with the newest release of Kueue and reads the CRDs of that release itself.
        for peer in PEERS.iter().filter(|peer| !["helm", "kueue"].contains(&peer.name)) {
            let named = format!("\"{}@{}\"", peer.module, peer.version);
            assert!(corpus.contains(&named), "tests/src/corpus/modules.rs does not contain {named}");
        }
    }

    #[test]
    fn the_chart_test_runs_the_built_helm() {
        let test = include_str!("../../tests/tests/install.rs");
        let helm = PEERS.iter().find(|peer| peer.name == "helm").expect("the program is listed");
        let named = format!("\"{}-{}\"", helm.name, helm.version);
        assert!(test.contains(&named), "tests/tests/install.rs does not contain {named}");
    }

    #[test]
    fn the_queueing_bench_runs_the_built_kueue() {
        let bench = include_str!("../../bench/src/queues_beside/kueue.rs");
        let kueue = PEERS.iter().find(|peer| peer.name == "kueue").expect("the program is listed");
        let program = format!("\"{}-{}\"", kueue.name, kueue.version);
        let module = format!("\"{}@{}\"", kueue.module, kueue.version);
        for named in [program, module] {
            assert!(bench.contains(&named), "bench/src/queues_beside/kueue.rs does not contain {named}");
        }
    }

    #[test]
    fn the_trainjob_bench_runs_the_built_trainer() {
        let bench = include_str!("../../bench/src/trainjobs_beside/upstream.rs");
        let trainer = PEERS.iter().find(|peer| peer.name == "trainer").expect("the program is listed");
        let program = format!("\"{}-{}\"", trainer.name, trainer.version);
        let module = format!("\"{}@{}\"", trainer.module, trainer.version);
        for named in [program, module] {
            assert!(
                bench.contains(&named),
                "bench/src/trainjobs_beside/upstream.rs does not contain {named}"
            );
        }
    }

    #[test]
    fn tests_and_benches_run_the_built_jobset_controller() {
        let peer = include_str!("../../tests/src/upstream_jobset.rs");
        let named = format!("\"{}-{}\"", PEERS[0].name, PEERS[0].version);
        assert!(peer.contains(&named), "tests/src/upstream_jobset.rs does not contain {named}");
    }
}
