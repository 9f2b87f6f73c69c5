//! Audit logging of the installed operator's requests by the real API server.
//!
//! `cargo xtask test` sets `MUSTER_TEST_AUDIT` to a directory and compares the logs there with the roles of `muster install`; without it
//! the log stays in the directory of the control plane.
//!
//! # Invariants
//!
//! - Only requests of the operator's ServiceAccount are logged: administrators have all permissions.
//! - Request bodies of creates and of ResourceClaim allocations are logged, too: `blockOwnerDeletion` and device allocation need
//!   permissions that the request line does not show. Secrets are never logged with their bodies.

use std::path::{Path, PathBuf};

use super::components::write;

/// Variable with the directory in which logs are collected.
const FOLDER: &str = "MUSTER_TEST_AUDIT";
/// Larger than any log of a test, so that rotation never drops events.
const MEGABYTES_MAX: u32 = 4096;
/// Logs watches at their start; `RequestReceived` is omitted because authorization is not decided there.
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

/// Returns the audit flags of a kube-apiserver with its files in this directory.
pub(super) fn flags(folder: &Path) -> Result<Vec<String>, String> {
    let policy = write(folder, "audit-policy.yaml", POLICY)?;
    Ok(vec![
        format!("--audit-policy-file={policy}"),
        format!("--audit-log-path={}", log(folder).display()),
        format!("--audit-log-maxsize={MEGABYTES_MAX}"),
    ])
}

/// Returns the path of the log. It is written directly to the directory where it is collected, because shared control planes are never
/// dropped and could not move it.
pub(super) fn log(folder: &Path) -> PathBuf {
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match std::env::var_os(FOLDER) {
        Some(collected) => Path::new(&collected).join(format!("{}.log", name.trim_start_matches('.'))),
        None => folder.join("audit.log"),
    }
}
