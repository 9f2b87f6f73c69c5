//! Scenarios as they stand in the YAML files.

use std::path::Path;

use muster_tree::{Tree, from_tree};
use serde::Deserialize;

/// A list of requests that belong together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows, as a sentence.
    pub name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

/// One request. `{ns}` is the scenario's namespace, `{uid:N}` and `{rv:N}` are taken from the answer of step N
/// (counted from 1), `{continue:N}` is the token of list N.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `POST /api/v1/namespaces/{ns}/pods?dryRun=All`, or `WATCH …` for a watch that is read until its time-out.
    pub call: String,
    /// `json` (default), `yaml`, `merge`, `strategic`, `jsonpatch`, `apply`, or a media type.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `Accept` header; JSON when empty.
    #[serde(default)]
    pub accept: String,
    /// A body as data.
    #[serde(default)]
    pub body: Option<Tree>,
    /// A body as raw text, for bodies that are not well-formed.
    #[serde(default)]
    pub text: Option<String>,
    /// Whether only the code is compared: for objects that a controller of one server is still writing.
    #[serde(default)]
    pub code_only: bool,
    /// Repeats the request until the answer has this code (for what controllers do later), at most ten seconds.
    #[serde(default)]
    pub until: Option<u16>,
}

impl Step {
    /// (method, path with query).
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.call.split_once(' ').unwrap_or(("GET", &self.call))
    }

    /// The media type of the body.
    #[must_use]
    pub fn content_type(&self) -> &str {
        match self.kind.as_str() {
            "" | "json" => "application/json",
            "yaml" => "application/yaml",
            "merge" => "application/merge-patch+json",
            "strategic" => "application/strategic-merge-patch+json",
            "jsonpatch" => "application/json-patch+json",
            "apply" => "application/apply-patch+yaml",
            other => other,
        }
    }
}

/// Reads all scenarios of a folder, in order of file names. A file is a stream of YAML documents, one scenario each.
pub fn load(folder: &Path) -> Result<Vec<Scenario>, String> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml") && !path.ends_with("differences.yaml"))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let documents = Tree::parse_yaml_documents(&text).map_err(|e| format!("{}: {e}", file.display()))?;
        for document in documents {
            let scenario = from_tree(&document)
                .map_err(|e| format!("{}: {}: {e}", file.display(), document.str_at(&["name"])))?;
            all.push(scenario);
        }
    }
    Ok(all)
}
