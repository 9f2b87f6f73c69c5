//! Finds Go modules on this machine, fetching them if need be.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The pinned Kubernetes.
pub const KUBERNETES: &str = "v1.37.1";
/// Its libraries that types and `.proto` files come from.
pub const LIBRARIES: &[&str] =
    &["k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/apimachinery", "k8s.io/kube-aggregator"];
/// The version that they carry.
pub const LIBRARY_VERSION: &str = "v0.37.1";

/// The folder of a module's sources.
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
