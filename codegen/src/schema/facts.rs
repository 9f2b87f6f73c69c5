//! Reads facts that only Go's types contain: runs `facts.go` against the pinned libraries.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::modules;

/// The Go program that reflects on the types.
const PROGRAM: &str = include_str!("facts.go");

/// Returns facts by OpenAPI type name: fields dropped when zero, fields always written, inlined structs, and fields with another name
/// in protobuf.
pub fn read() -> Result<Value, String> {
    let answer = run(PROGRAM)?;
    let mut facts: Value = serde_json::from_slice(&answer).map_err(|e| format!("facts.go: {e}"))?;
    for one in facts.as_object_mut().into_iter().flat_map(serde_json::Map::values_mut) {
        for key in ["dropped", "written", "null", "inline"] {
            if let Some(names) = one.get_mut(key) {
                *names = json!(joined(names));
            }
        }
    }
    Ok(facts)
}

/// Joins names to one string, which parses faster than a list.
fn joined(names: &Value) -> String {
    let names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.join(" ")
}

/// Runs a Go program with the pinned libraries and returns its stdout.
pub fn run(program: &str) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let mut module = String::from("module facts\n\ngo 1.26\n");
    for library in modules::LIBRARIES {
        writeln!(module, "require {library} {}", modules::LIBRARY_VERSION).expect("writing to memory");
    }
    for (name, text) in [("go.mod", module.as_str()), ("main.go", program)] {
        fs::write(folder.path().join(name), text).map_err(|e| e.to_string())?;
    }
    let output = Command::new("go")
        .args(["run", "-mod=mod", "."])
        .current_dir(folder.path())
        .output()
        .map_err(|e| format!("starting go: {e}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("go run: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
