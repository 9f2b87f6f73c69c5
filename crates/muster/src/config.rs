//! The configuration file: kind `Configuration` of `muster.dev/v1alpha1`. Unknown keys are errors.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use muster_control::schedule::Packing;
use muster_tree::{Tree, from_tree};
use serde::Deserialize;

use crate::cli::{Durability, Isolation, LogFormat, LogLevel, Runtime};

const API_VERSION: &str = "muster.dev/v1alpha1";
const KIND: &str = "Configuration";

/// What a file may say; each key is a flag in other letters.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// `muster.dev/v1alpha1`.
    pub api_version: String,
    /// `Configuration`.
    pub kind: String,
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// `--ephemeral`.
    #[serde(default)]
    pub ephemeral: bool,
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--sim-nodes`.
    pub sim_nodes: Option<u32>,
    /// `--nodes`.
    pub nodes: Option<PathBuf>,
    /// `--controllers`.
    pub controllers: Option<Vec<String>>,
    /// `--admission`.
    pub admission: Option<Vec<String>>,
    /// `--feature-gates`.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
    /// What pods fill nodes up by: `devices` (default), `everything` or `nothing`.
    pub packing: Option<Packed>,
    /// Device claims of JobSets.
    #[serde(default)]
    pub resource_claims: ResourceClaims,
    /// `--isolation`.
    pub isolation: Option<Isolation>,
    /// `--runtime`.
    pub runtime: Option<Runtime>,
    /// Processes and threads of a container on this machine, at most.
    pub pod_pids_limit: Option<u32>,
    /// `--durability`.
    pub durability: Option<Durability>,
    /// `--log-level`.
    pub log_level: Option<LogLevel>,
    /// `--log-format`.
    pub log_format: Option<LogFormat>,
}

/// Device claims of JobSets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceClaims {
    /// Whether a pod template with a claim of its own, of the same name as a claim template, is refused.
    #[serde(default)]
    pub reject_overrides: bool,
}

/// What pods fill nodes up by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Packed {
    /// Resources of somebody's own making, such as GPUs.
    #[default]
    Devices,
    /// Everything.
    Everything,
    /// Nothing: pods are spread.
    Nothing,
}

impl From<Packed> for Packing {
    fn from(packed: Packed) -> Packing {
        match packed {
            Packed::Devices => Packing::Devices,
            Packed::Everything => Packing::Everything,
            Packed::Nothing => Packing::Nothing,
        }
    }
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The operating system refused.
    #[error("reading configuration {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// What it holds is no configuration.
    #[error("configuration {path}: {problem}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or says something unknown.
pub fn read(path: &Path) -> Result<Config, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Io { path: path.to_path_buf(), source })?;
    parse(&text).map_err(|problem| ConfigError::Wrong { path: path.to_path_buf(), problem })
}

fn parse(text: &str) -> Result<Config, String> {
    let tree = Tree::parse_yaml(text).map_err(|e| e.to_string())?;
    let config: Config = from_tree(&tree).map_err(|e| e.to_string())?;
    if config.api_version != API_VERSION || config.kind != KIND {
        let found = format!("{} {}", config.api_version, config.kind);
        return Err(format!("expected kind {KIND} of {API_VERSION}, found `{found}`"));
    }
    if config.ephemeral && config.data_dir.is_some() {
        return Err("dataDir and ephemeral exclude each other: leave one out".to_owned());
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_strict() {
        let head = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\n";
        let good = format!(
            "{head}listen: 127.0.0.1:0\ncontrollers: ['*', '-job']\nlogLevel: debug\nruntime: podman\n"
        );
        let config = parse(&good).unwrap();
        assert_eq!(config.listen, Some("127.0.0.1:0".parse().unwrap()));
        assert_eq!(config.log_level, Some(LogLevel::Debug));
        assert_eq!(config.runtime, Some(Runtime::Podman));
        assert!(!config.resource_claims.reject_overrides);
        let strict = format!("{head}resourceClaims: {{rejectOverrides: true}}\n");
        assert!(parse(&strict).unwrap().resource_claims.reject_overrides);
        for (says, text, words) in [
            ("an unknown key", format!("{head}listne: x\n"), "listne"),
            ("an unknown key below", format!("{head}resourceClaims: {{reject: true}}\n"), "reject"),
            ("another kind", "apiVersion: v1\nkind: Pod\n".to_owned(), "expected kind Configuration"),
            ("both places", format!("{head}ephemeral: true\ndataDir: x\n"), "exclude each other"),
            ("an unknown engine", format!("{head}runtime: runc\n"), "runc"),
            ("a wrong address", format!("{head}listen: here\n"), "address"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(words), "{says}: {error}");
        }
    }
}
