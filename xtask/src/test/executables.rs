//! Builds the test executables and reads their paths from cargo's messages.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A test executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestExecutable {
    /// The package, such as `muster-queue`.
    pub package: String,
    /// The target, such as `lib`, `bin muster` or `test main`.
    pub target: String,
    pub path: PathBuf,
    /// The directory of the package, which is the working directory of its tests.
    pub directory: PathBuf,
}

impl TestExecutable {
    /// Returns the name for reports.
    pub fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Whether the tests send requests to running servers.
    pub fn is_black_box(&self) -> bool {
        self.package == super::selection::BLACK_BOX_PACKAGE && self.target.starts_with("test ")
    }

    /// Whether the tests are scenarios, which start the control planes they need.
    pub fn is_scenarios(&self) -> bool {
        self.is_black_box() && self.target == "test scenarios"
    }
}

/// Runs a cargo command that builds tests, and returns the test executables.
///
/// # Errors
///
/// The tests do not compile; the compiler has printed the errors.
pub fn build(command: &mut Command) -> Result<Vec<TestExecutable>, String> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("starting cargo: {e}"))?;
    let output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let all = output.lines().map_while(Result::ok).filter_map(|line| read(&line)).collect();
    let status = child.wait().map_err(|e| format!("waiting for cargo: {e}"))?;
    if status.success() { Ok(all) } else { Err(format!("the tests do not compile: {status}")) }
}

/// Reads a message of cargo about a test executable.
fn read(line: &str) -> Option<TestExecutable> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let directory = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let (kind, name) = (message["target"]["kind"][0].as_str()?, message["target"]["name"].as_str()?);
    let target =
        if matches!(kind, "lib" | "proc-macro") { kind.to_owned() } else { format!("{kind} {name}") };
    Some(TestExecutable { package: package(message["package_id"].as_str()?)?, target, path, directory })
}

/// Returns the package name in `path+file:///dir/name#0.1.0` or `path+file:///dir/other#name@0.1.0`.
fn package(id: &str) -> Option<String> {
    let (path, version) = id.rsplit_once('#')?;
    let name = version.split_once('@').map(|(name, _)| name).or_else(|| path.rsplit('/').next());
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_executables_are_read_from_messages_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/queue#muster-queue@0.1.0","manifest_path":"/w/crates/queue/Cargo.toml","target":{"kind":["test"],"name":"main"},"profile":{"test":true},"executable":"/w/target/debug/deps/main-1"}"#;
        let found = read(line).expect("a test executable");
        assert_eq!(found.name(), "muster-queue test main");
        assert_eq!(found.directory, PathBuf::from("/w/crates/queue"));
        assert!(!found.is_black_box());
        let plain = line.replace(r#""test":true"#, r#""test":false"#);
        assert_eq!(read(&plain), None, "a program of the product is no test executable");
        assert_eq!(package("path+file:///w/xtask#0.1.0").as_deref(), Some("xtask"));
    }
}
