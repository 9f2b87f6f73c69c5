//! `cargo xtask kube`: builds the binaries of the pinned Kubernetes from its published Go modules.
//!
//! They are built once into the user's cache directory. `KUBEBUILDER_ASSETS` may name a directory that has them already, as for
//! controller-runtime's envtest.
//!
//! # Deliberately absent
//!
//! Downloads of release binaries: modules have checksums and build on every platform that has Go.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use xtask::process;

/// The pinned version of Kubernetes.
pub const VERSION: &str = "1.37.1";
/// The version of the staging modules (`k8s.io/api` and others) of that release.
const LIBRARIES: &str = "v0.37.1";
const PROGRAMS: [&str; 4] = ["kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const ETCD: &str = "etcd";
const ETCD_MODULE: &str = "go.etcd.io/etcd/server/v3";

/// The task: builds the programs named in `args`, or all.
pub fn task(args: &[String]) -> Result<(), String> {
    let all: Vec<&str> = names().collect();
    if let Some(unknown) = args.iter().find(|name| !all.contains(&name.as_str())) {
        return Err(format!("{unknown}: not one of {}", all.join(", ")));
    }
    let wanted = all.iter().filter(|name| args.is_empty() || args.iter().any(|arg| arg == *name));
    for name in wanted {
        eprintln!("{}", program(name)?.display());
    }
    Ok(())
}

/// Builds all programs that are missing.
pub fn all() -> Result<(), String> {
    names().try_for_each(|name| program(name).map(drop))
}

fn names() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().chain([ETCD])
}

/// Returns the path of a program of the pinned Kubernetes, and builds it if it is missing.
pub fn program(name: &str) -> Result<PathBuf, String> {
    if let Some(found) = from_envtest(name) {
        return Ok(found);
    }
    let path = directory()?.join(name);
    if path.exists() {
        return Ok(path);
    }
    if !process::exists("go", "version") {
        return Err(format!(
            "{name} {VERSION} is not at {} and Go is not installed to build it",
            path.display()
        ));
    }
    eprintln!("building {name} {VERSION} (once; minutes)");
    if name == ETCD {
        build_etcd(&path)?;
    } else {
        build(name, &path)?;
    }
    Ok(path)
}

fn from_envtest(name: &str) -> Option<PathBuf> {
    let path = Path::new(&std::env::var_os("KUBEBUILDER_ASSETS")?).join(name);
    path.exists().then_some(path)
}

/// Returns this project's directory in the user's cache.
pub fn cache() -> Result<PathBuf, String> {
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    Ok(base.ok_or("neither XDG_CACHE_HOME nor HOME is set")?.join("muster"))
}

fn directory() -> Result<PathBuf, String> {
    Ok(cache()?.join(format!("kube-{VERSION}")))
}

fn build(name: &str, path: &Path) -> Result<(), String> {
    let work = directory()?.join("build");
    make_dir(&work)?;
    write(&work.join("go.mod"), &kubernetes_manifest()?)?;
    let (major_minor, variables) =
        (VERSION.rsplit_once('.').map_or("", |v| v.0), "k8s.io/component-base/version");
    let (major, minor) = major_minor.split_once('.').unwrap_or_default();
    let flags = format!(
        "-s -w -X {variables}.gitVersion=v{VERSION} -X {variables}.gitMajor={major} -X {variables}.gitMinor={minor}"
    );
    go_build(&work, &flags, &format!("k8s.io/kubernetes/cmd/{name}"), path)
}

/// Returns the `go.mod` of a module that requires Kubernetes. The `go.mod` of Kubernetes replaces the staging modules with
/// directories that the published module does not have; here each is replaced with the published staging module.
fn kubernetes_manifest() -> Result<String, String> {
    let manifest = kubernetes_go_mod()?;
    let go = manifest.lines().find(|line| line.starts_with("go ")).unwrap_or("go 1.26.0");
    let libraries = manifest.lines().filter_map(|line| {
        let (name, target) = line.trim().trim_start_matches("replace ").split_once(" => ")?;
        target.starts_with("./staging/").then(|| format!("replace {name} => {name} {LIBRARIES}"))
    });
    let libraries: Vec<String> = libraries.collect();
    Ok(format!("module kube\n\n{go}\n\nrequire k8s.io/kubernetes v{VERSION}\n\n{}\n", libraries.join("\n")))
}

fn kubernetes_go_mod() -> Result<String, String> {
    let mut download = Command::new("go");
    download.args(["mod", "download", "-json", &format!("k8s.io/kubernetes@v{VERSION}")]);
    let answer = process::retry(|| process::output(&mut download))?;
    let answer: Value = serde_json::from_str(&answer).map_err(|e| format!("go mod download: {e}"))?;
    let path = answer["GoMod"].as_str().ok_or("go mod download names no GoMod")?;
    fs::read_to_string(path).map_err(|e| format!("reading {path}: {e}"))
}

/// Builds etcd from a `main.go` of its own: etcd publishes the server as a library.
fn build_etcd(path: &Path) -> Result<(), String> {
    let manifest = kubernetes_go_mod()?;
    let line = manifest.lines().find(|line| line.trim().starts_with(ETCD_MODULE));
    let version = line.and_then(|line| line.split_whitespace().nth(1)).ok_or("Kubernetes names no etcd")?;
    let work = directory()?.join("build-etcd");
    make_dir(&work)?;
    write(&work.join("go.mod"), &format!("module etcd\n\ngo 1.26.0\n\nrequire {ETCD_MODULE} {version}\n"))?;
    let main = format!(
        "package main\n\nimport (\n\t\"os\"\n\n\t\"{ETCD_MODULE}/etcdmain\"\n)\n\nfunc main() {{ etcdmain.Main(os.Args) }}\n"
    );
    write(&work.join("main.go"), &main)?;
    go_build(&work, "-s -w", ".", path)
}

fn go_build(work: &Path, flags: &str, package: &str, path: &Path) -> Result<(), String> {
    // The rename makes the build atomic: an interrupted one leaves no file at `path`.
    let unfinished = path.with_extension("unfinished");
    let mut go = Command::new("go");
    go.current_dir(work).env("CGO_ENABLED", "0");
    go.args(["build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o"]).arg(&unfinished).arg(package);
    // Retried because the build downloads dependencies.
    process::retry(|| process::run(&mut go))?;
    fs::rename(&unfinished, path).map_err(|e| format!("moving to {}: {e}", path.display()))
}

fn make_dir(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|e| format!("creating {}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("writing {}: {e}", path.display()))
}
