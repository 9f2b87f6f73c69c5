//! `cargo xtask schema`: generates the data of the schema table from the files that Kubernetes publishes.
//!
//! It reads the OpenAPI v3 documents, the discovery documents, the `.proto` files and (by a small Go program that reflects on the types)
//! which fields are pointers and which zero values are written. It writes compressed data to `crates/schema/data`, without descriptions.
//!
//! # Invariants
//!
//! - The output is deterministic: all maps are sorted.
//! - A normal build does not run it; its output is checked in. It needs Go and the module proxy.

mod facts;
mod kinds;
mod modules;
mod openapi;
mod proto;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// Output directory, relative to the workspace.
const DATA: &str = "crates/schema/data";
/// Test vectors: objects in JSON and in protobuf.
const VECTORS: &str = "../tests/vectors.json.lz4";

/// Generates all data files.
pub fn run(_: &[String]) -> Result<(), String> {
    let kubernetes = modules::locate("k8s.io/kubernetes", modules::KUBERNETES)?;
    let kinds = kinds::read(&kubernetes.join("api/discovery"))?;
    let all = openapi::read(&kubernetes.join("api/openapi-spec/v3"))?;
    let components = openapi::reachable(&all, &kinds);
    let facts = facts::read()?;
    let (messages, descriptors) = proto::compile(&kinds)?;
    let counts = [
        ("kinds", kinds.len()),
        ("components", components.len()),
        ("Go types", facts.as_object().map_or(0, serde_json::Map::len)),
        ("protobuf messages", messages),
    ];
    let table = json!({"components": components, "kinds": kinds, "facts": facts});
    write_compressed("schema.json.lz4", table.to_string().as_bytes())?;
    write_compressed("descriptors.bin.lz4", &descriptors)?;
    write_compressed(VECTORS, &facts::run(include_str!("schema/vectors.go"))?)?;
    write("MANIFEST.txt", manifest(&counts).as_bytes())
}

/// Formats the sources of the data and its counts.
fn manifest(counts: &[(&str, usize)]) -> String {
    let mut text = String::from("Made by `cargo xtask schema`; do not edit.\n\n");
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        writeln!(text, "{name:<36}{value}").expect("writing to memory");
    };
    line("k8s.io/kubernetes", &modules::KUBERNETES);
    for library in modules::LIBRARIES {
        line(library, &modules::LIBRARY_VERSION);
    }
    counts.iter().for_each(|(name, count)| line(name, count));
    text
}

/// Returns the data directory, independent of the working directory.
fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DATA)
}

fn write(name: &str, bytes: &[u8]) -> Result<(), String> {
    let path = data_dir().join(name);
    fs::write(&path, bytes).map_err(|e| format!("writing {}: {e}", path.display()))
}

fn write_compressed(name: &str, bytes: &[u8]) -> Result<(), String> {
    let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
    out.write_all(bytes).map_err(|e| e.to_string())?;
    write(name, &out.finish().map_err(|e| e.to_string())?)
}

fn read_json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}
