//! `cargo xtask schema`: makes the schema table's data from the files that Kubernetes publishes.
//!
//! It reads the OpenAPI v3 documents, the discovery documents, the `.proto` files and (by a small Go program that
//! looks at the types) which fields are pointers and which zero values are written, and leaves compressed data
//! in `crates/schema/data`. Everything meant for human readers is left out on the way.
//!
//! # Invariants
//!
//! - Same versions in, same bytes out: all maps are sorted.
//! - An ordinary build never runs this; its results are checked in. It needs Go and the module proxy.

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

/// Where the results go, from the workspace's root.
const DATA: &str = "crates/schema/data";
/// Objects in JSON and in protobuf, for tests.
const VECTORS: &str = "../tests/vectors.json.lz4";

/// Makes all data files.
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

/// What the data was made from and what is in it.
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

/// The data folder, wherever the task was started from.
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

/// Reads one JSON file.
fn read_json(path: &Path) -> Result<Value, String> {
    let bytes = fs::read(path).map_err(|e| format!("reading {}: {e}", path.display()))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}
