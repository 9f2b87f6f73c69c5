//! `cargo xtask peers`: the upstream controllers that ours are measured against, built from their published Go
//! modules.
//!
//! They land in the user's cache folder, beside the programs of Kubernetes, and are built once per version. The benches
//! need them, and the tests of our chart and of taking JobSets over; all say so when they are absent.
//!
//! # Deliberately absent
//!
//! Their CRDs: the corpus test and the benches beside them read them from the modules, where Go keeps them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::kube;
use xtask::process;

/// A peer: how it is called here, its Go module, the package in it that is the program, and the version compared
/// with.
struct Peer {
    name: &'static str,
    module: &'static str,
    program: &'static str,
    version: &'static str,
}

const PEERS: [Peer; 4] = [
    Peer { name: "jobset", module: "sigs.k8s.io/jobset", program: ".", version: "v0.10.1" },
    Peer { name: "kueue", module: "sigs.k8s.io/kueue", program: "./cmd/kueue", version: "v0.19.2" },
    Peer {
        name: "trainer",
        module: "github.com/kubeflow/trainer/v2",
        program: "./cmd/trainer-controller-manager",
        version: "v2.1.0",
    },
    // No controller: it renders our chart, and that must be what we install.
    Peer { name: "helm", module: "helm.sh/helm/v4", program: "./cmd/helm", version: "v4.3.1" },
];

/// The task: builds the peers named by `args`, or all of them, and prints where they are.
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

/// Where the program of this name is, built if it has to be.
pub fn named(name: &str) -> Result<PathBuf, String> {
    let peer = PEERS.iter().find(|peer| peer.name == name);
    program(peer.ok_or_else(|| format!("{name} is none of the peers"))?)
}

/// Where a peer's program is, built if it has to be.
fn program(peer: &Peer) -> Result<PathBuf, String> {
    let path = path(peer)?;
    if path.exists() {
        return Ok(path);
    }
    if !process::exists("go", "version") {
        let (name, version) = (peer.name, peer.version);
        return Err(format!("{name} {version} is not at {} and there is no Go to build it", path.display()));
    }
    eprintln!("building {} {} (once; minutes)", peer.name, peer.version);
    build(peer, &path)?;
    Ok(path)
}

fn path(peer: &Peer) -> Result<PathBuf, String> {
    Ok(kube::cache()?.join("peers").join(format!("{}-{}", peer.name, peer.version)))
}

/// Builds in the module's own folder in Go's cache, so that it gets exactly the dependencies it was released with,
/// and moves the program in place: an interrupted build leaves nothing that looks finished.
fn build(peer: &Peer, path: &Path) -> Result<(), String> {
    let folder = path.parent().ok_or("the cache folder has no parent")?;
    fs::create_dir_all(folder).map_err(|e| format!("making {}: {e}", folder.display()))?;
    let unfinished = path.with_file_name(format!("{}-unfinished", peer.name));
    let module = process::retry(|| module(peer))?;
    let mut go = Command::new("go");
    go.current_dir(module).env("CGO_ENABLED", "0");
    go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o"]);
    go.arg(&unfinished).arg(peer.program);
    // Its dependencies are downloaded on the way.
    process::retry(|| process::run(&mut go)).map_err(|e| format!("{} {}: {e}", peer.name, peer.version))?;
    fs::rename(&unfinished, path).map_err(|e| format!("moving to {}: {e}", path.display()))
}

/// The folder in which Go keeps the peer's module, downloaded if it has to be.
fn module(peer: &Peer) -> Result<String, String> {
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
    fn the_corpus_reads_the_crds_of_the_same_versions() {
        let corpus = include_str!("../../tests/src/corpus/modules.rs");
        // Kueue is compared with in its newest release, whose definitions the bench reads itself.
        for peer in PEERS.iter().filter(|peer| !["helm", "kueue"].contains(&peer.name)) {
            let named = format!("\"{}@{}\"", peer.module, peer.version);
            assert!(corpus.contains(&named), "tests/src/corpus/modules.rs does not name {named}");
        }
    }

    #[test]
    fn the_chart_is_rendered_by_the_program_that_is_built() {
        let test = include_str!("../../tests/tests/install.rs");
        let helm = PEERS.iter().find(|peer| peer.name == "helm").expect("there is one");
        let named = format!("\"{}-{}\"", helm.name, helm.version);
        assert!(test.contains(&named), "tests/tests/install.rs does not name {named}");
    }

    #[test]
    fn the_bench_starts_the_kueue_that_is_built() {
        let bench = include_str!("../../bench/src/queues_beside/kueue.rs");
        let kueue = PEERS.iter().find(|peer| peer.name == "kueue").expect("there is one");
        let program = format!("\"{}-{}\"", kueue.name, kueue.version);
        let module = format!("\"{}@{}\"", kueue.module, kueue.version);
        for named in [program, module] {
            assert!(bench.contains(&named), "bench/src/queues_beside/kueue.rs does not name {named}");
        }
    }

    #[test]
    fn the_bench_starts_the_trainer_that_is_built() {
        let bench = include_str!("../../bench/src/trainjobs_beside/upstream.rs");
        let trainer = PEERS.iter().find(|peer| peer.name == "trainer").expect("there is one");
        let program = format!("\"{}-{}\"", trainer.name, trainer.version);
        let module = format!("\"{}@{}\"", trainer.module, trainer.version);
        for named in [program, module] {
            assert!(bench.contains(&named), "bench/src/trainjobs_beside/upstream.rs does not name {named}");
        }
    }

    #[test]
    fn tests_and_benches_start_the_program_that_is_built() {
        let peer = include_str!("../../tests/src/peer.rs");
        let named = format!("\"{}-{}\"", PEERS[0].name, PEERS[0].version);
        assert!(peer.contains(&named), "tests/src/peer.rs does not name {named}");
    }
}
