//! Locates Go modules, downloading them if needed.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// Pinned version of Kubernetes.
pub const KUBERNETES: &str = "v1.37.1";
/// Libraries with its types and `.proto` files.
pub const LIBRARIES: &[&str] =
    &["k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery", "k8s.io/kube-aggregator"];
/// Version of the libraries.
pub const LIBRARY_VERSION: &str = "v0.37.1";

/// Returns the directory of a module.
pub fn locate(module: &str, version: &str) -> Result<PathBuf, String> {
    let output = Command::new("go")
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .output()
        .map_err(|e| format!("starting go: {e}"))?;
    let answer: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("go mod download: {e}"))?;
    match answer["Dir"].as_str() {
        Some(dir) if output.status.success() => Ok(PathBuf::from(dir)),
        _ => Err(format!("go mod download {module}@{version}: {}", answer["Error"])),
    }
}
