//! What the installed operator asks a real server for, written down by the server itself.
//!
//! `cargo xtask test` names a folder in `MUSTER_TEST_AUDIT` and compares what it finds there with the roles of
//! `muster install`; without it the log stays in the folder of the plane.
//!
//! # Invariants
//!
//! - Only what the operator's own ServiceAccount asks is written down: administrators may do anything.
//! - Of objects that are made, and of claims that are given devices, what is sent is written down too: blocking the
//!   deletion of an owner and giving devices take rights of their own that no request names. Secrets are left out of that.

use std::path::{Path, PathBuf};

use super::parts::write;

/// The folder in which logs are collected.
const FOLDER: &str = "MUSTER_TEST_AUDIT";
/// More than any test writes: a log that is cut off would hide what came first.
const MEGABYTES_MAX: u32 = 4096;
/// Long watches are told of when they begin; nothing is told of before it is decided.
const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["system:serviceaccount:muster-system:muster-operator"]
  resources: [{group: "", resources: [secrets]}]
- level: Request
  users: ["system:serviceaccount:muster-system:muster-operator"]
  verbs: [create]
- level: Request
  users: ["system:serviceaccount:muster-system:muster-operator"]
  resources: [{group: resource.k8s.io, resources: [resourceclaims/status]}]
- level: Metadata
  users: ["system:serviceaccount:muster-system:muster-operator"]
- level: None
"#;

/// The flags of a kube-apiserver whose own files are in this folder.
pub(super) fn flags(folder: &Path) -> Result<Vec<String>, String> {
    let policy = write(folder, "audit-policy.yaml", POLICY)?;
    Ok(vec![
        format!("--audit-policy-file={policy}"),
        format!("--audit-log-path={}", log(folder).display()),
        format!("--audit-log-maxsize={MEGABYTES_MAX}"),
    ])
}

/// Where the log of the plane with this folder is: planes that are shared are never dropped, so that a log is not moved
/// but written where it is read.
pub(super) fn log(folder: &Path) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match std::env::var_os(FOLDER) {
        Some(collected) => Path::new(&collected).join(format!("{}.log", name.trim_start_matches('.'))),
        None => folder.join("audit.log"),
    }
}
