//! Descriptors of the published `.proto` files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use prost::Message as _;
use protox::file::{File, FileResolver};
use serde_json::Value;

use super::modules;

/// Packages besides those of the served groups.
const ALSO: &[&str] = &[
    "k8s.io/api/autoscaling/v1",
    "k8s.io/apimachinery/pkg/apis/meta/v1",
    "k8s.io/apimachinery/pkg/runtime",
    "k8s.io/apimachinery/pkg/util/intstr",
];

/// Compiles the packages of these rows; returns the number of messages and a descriptor set.
pub fn compile(rows: &[Value]) -> Result<(usize, Vec<u8>), String> {
    let mut packages: BTreeSet<String> = ALSO.iter().map(ToString::to_string).collect();
    packages.extend(rows.iter().filter(|row| row.get("plural").is_some()).map(package));
    let mut compiler = protox::Compiler::with_file_resolver(Modules::locate()?);
    compiler.include_imports(true).include_source_info(false);
    for package in packages {
        compiler.open_file(format!("{package}/generated.proto")).map_err(|e| e.to_string())?;
    }
    let set = compiler.file_descriptor_set();
    let messages = set.file.iter().map(|file| file.message_type.len()).sum();
    Ok((messages, set.encode_to_vec()))
}

/// Returns the protobuf package of a row.
fn package(row: &Value) -> String {
    let version = row["version"].as_str().unwrap_or_default();
    match row["group"].as_str().unwrap_or_default() {
        "" => format!("k8s.io/api/core/{version}"),
        "apiextensions.k8s.io" => {
            format!("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/{version}")
        }
        "apiregistration.k8s.io" => format!("k8s.io/kube-aggregator/pkg/apis/apiregistration/{version}"),
        group => format!("k8s.io/api/{}/{version}", group.split('.').next().unwrap_or_default()),
    }
}

/// Resolves `.proto` files in Go modules.
struct Modules(Vec<(&'static str, PathBuf)>);

impl Modules {
    fn locate() -> Result<Self, String> {
        let find =
            |library: &&'static str| Ok((*library, modules::locate(library, modules::LIBRARY_VERSION)?));
        modules::LIBRARIES.iter().map(find).collect::<Result<_, String>>().map(Self)
    }
}

impl FileResolver for Modules {
    fn resolve_path(&self, path: &std::path::Path) -> Option<String> {
        path.to_str().map(str::to_owned)
    }

    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let found = self.0.iter().find_map(|(library, folder)| {
            let rest = name.strip_prefix(library)?.strip_prefix('/')?;
            Some(folder.join(rest))
        });
        let text = found.and_then(|path| std::fs::read_to_string(path).ok());
        File::from_source(name, &text.ok_or_else(|| protox::Error::file_not_found(name))?)
    }
}
