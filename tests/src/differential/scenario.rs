//! Scenarios as they stand in the YAML files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_tree::Tree;
use serde::Deserialize;

use crate::documents;

/// A list of requests that belong together.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file it stands in, without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it shows, as a sentence.
    pub name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// The requests, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Whether it touches nothing outside its own namespace.
    #[must_use]
    pub fn stays_inside(&self) -> bool {
        self.steps.iter().all(|step| step.call.contains("/namespaces/{ns}"))
    }

    /// The YAML document of it, as it may stand in a file of scenarios: bodies as JSON, which is YAML too.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut text = format!("name: {}\nsteps:\n", Tree::from(&self.name).to_json());
        for step in &self.steps {
            text += &format!("- call: {}\n", Tree::from(&step.call).to_json());
            if !step.kind.is_empty() {
                text += &format!("  type: {}\n", step.kind);
            }
            if let Some(body) = &step.body {
                text += &format!("  body: {}\n", body.to_json());
            }
            if let Some(file) = &step.file {
                text += &format!("  file: {}\n", Tree::from(file).to_json());
            }
            if step.code_only {
                text += "  code_only: true\n";
            }
            if let Some(code) = step.until {
                text += &format!("  until: {code}\n");
            }
        }
        text
    }
}

/// One request. `{ns}` is the scenario's namespace, `{uid:N}` and `{rv:N}` are taken from the answer of step N
/// (counted from 1), `{continue:N}` is the token of list N.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// `POST /api/v1/namespaces/{ns}/pods?dryRun=All`, or `WATCH …` for a watch that is read until its time-out, or
    /// `SOCKET …` for the same over a WebSocket.
    pub call: String,
    /// `json` (default), `yaml`, `merge`, `strategic`, `jsonpatch`, `apply`, or a media type.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `Accept` header; JSON when empty.
    #[serde(default)]
    pub accept: String,
    /// Further headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A body as data.
    #[serde(default)]
    pub body: Option<Tree>,
    /// A body as raw text, for bodies that are not well-formed.
    #[serde(default)]
    pub text: Option<String>,
    /// A body from a file, whose path begins at the workspace's root.
    #[serde(default)]
    pub file: Option<String>,
    /// Whether only the code is compared: for objects that a controller of one server is still writing.
    #[serde(default)]
    pub code_only: bool,
    /// Repeats the request until the answer has this code (for what controllers do later), at most a minute.
    #[serde(default)]
    pub until: Option<u16>,
}

impl Step {
    /// (method, path with query).
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.call.split_once(' ').unwrap_or(("GET", &self.call))
    }

    /// The resource it is about, with its group: `pods`, `batch/jobs`.
    #[must_use]
    pub fn resource(&self) -> Option<String> {
        let path = self.parts().1.split('?').next().unwrap_or_default();
        let mut words = path.split('/').skip(1);
        let group = match words.next()? {
            "api" => String::new(),
            "apis" => format!("{}/", words.next()?),
            _ => return None,
        };
        let words: Vec<&str> = words.skip(1).collect();
        let resource = match words.as_slice() {
            ["namespaces", _, resource, ..] | [resource, ..] => resource,
            [] => return None,
        };
        Some(format!("{group}{resource}"))
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
    let scenarios =
        documents::read(folder)?.into_iter().filter(|(file, _)| !file.ends_with("differences.yaml"));
    let read = |(file, document): (PathBuf, Tree)| {
        let scenario: Scenario = documents::value(&file, &document)?;
        Ok(Scenario { file: documents::short_name(&file), ..scenario })
    };
    scenarios.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_knows_its_resource() {
        for (call, resource) in [
            ("GET /api/v1/namespaces/{ns}/pods/a/status?x=/y", Some("pods")),
            ("GET /apis/batch/v1/namespaces/{ns}/jobs", Some("batch/jobs")),
            ("GET /apis/batch/v1/jobs?watch=1", Some("batch/jobs")),
            ("DELETE /api/v1/namespaces/{ns}", Some("namespaces")),
            ("GET /version", None),
            ("GET /api/v1", None),
        ] {
            let step = Step { call: call.to_owned(), ..Step::default() };
            assert_eq!(step.resource().as_deref(), resource, "{call}");
        }
    }

    #[test]
    fn a_scenario_can_be_printed_and_read_again() {
        let text = "{name: 'a: b', shows: [x-1], steps: [{call: 'GET /x'}, {call: PATCH /y, type: merge, body: {a: null}}]}";
        let read = |text: &str| muster_tree::from_tree::<Scenario>(&Tree::parse_yaml(text).unwrap()).unwrap();
        let printed = read(&read(text).to_yaml());
        assert_eq!((printed.name.as_str(), printed.steps.len()), ("a: b", 2));
        assert_eq!(printed.steps[1].body, Some(muster_tree::tree!({"a": null})));
        assert_eq!(printed.steps[1].content_type(), "application/merge-patch+json");
    }
}
