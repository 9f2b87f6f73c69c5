//! The executables with tests: building them once, and reading which there are from cargo's messages.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// An executable with tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// The package: `muster-queue`.
    pub package: String,
    /// The target in it: `lib`, `bin muster`, `test main`.
    pub target: String,
    pub path: PathBuf,
    /// The folder of the package, in which its tests run.
    pub folder: PathBuf,
}

impl Executable {
    /// How it is called in reports.
    pub fn name(&self) -> String {
        format!("{} {}", self.package, self.target)
    }

    /// Whether it is the black-box suite that talks to running servers.
    pub fn is_black_box(&self) -> bool {
        self.package == super::selection::BLACK_BOX_PACKAGE && self.target.starts_with("test ")
    }

    /// Whether its tests are scenarios, of which each names its plane.
    pub fn is_scenarios(&self) -> bool {
        self.is_black_box() && self.target == "test scenarios"
    }
}

/// Builds with this cargo command and lists the executables with tests.
///
/// # Errors
/// Something does not compile; the compiler has said what.
pub fn build(command: &mut Command) -> Result<Vec<Executable>, String> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("starting cargo: {e}"))?;
    let output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let all = output.lines().map_while(Result::ok).filter_map(|line| read(&line)).collect();
    let status = child.wait().map_err(|e| format!("waiting for cargo: {e}"))?;
    if status.success() { Ok(all) } else { Err(format!("the tests do not compile: {status}")) }
}

/// Reads a message of cargo about an executable with tests.
fn read(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = PathBuf::from(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let (kind, name) = (message["target"]["kind"][0].as_str()?, message["target"]["name"].as_str()?);
    let target =
        if matches!(kind, "lib" | "proc-macro") { kind.to_owned() } else { format!("{kind} {name}") };
    Some(Executable { package: package(message["package_id"].as_str()?)?, target, path, folder })
}

/// The package's name in `path+file:///folder/name#0.1.0` or `path+file:///folder/elsewhere#name@0.1.0`.
fn package(id: &str) -> Option<String> {
    let (place, version) = id.rsplit_once('#')?;
    let name = version.split_once('@').map(|(name, _)| name).or_else(|| place.rsplit('/').next());
    name.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_cargo_name_the_executables_with_tests() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/queue#muster-queue@0.1.0","manifest_path":"/w/crates/queue/Cargo.toml","target":{"kind":["test"],"name":"main"},"profile":{"test":true},"executable":"/w/target/debug/deps/main-1"}"#;
        let found = read(line).expect("it is one");
        assert_eq!(found.name(), "muster-queue test main");
        assert_eq!(found.folder, PathBuf::from("/w/crates/queue"));
        assert!(!found.is_black_box());
        let plain = line.replace(r#""test":true"#, r#""test":false"#);
        assert_eq!(read(&plain), None, "an executable of the product is none");
        assert_eq!(package("path+file:///w/xtask#0.1.0").as_deref(), Some("xtask"));
    }
}
