//! Deserialises `tests/scenarios/*.yaml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_tree::Tree;
use serde::Deserialize;

use crate::yaml_documents;

/// A named sequence of requests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestScenario {
    /// File name without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it proves, as a sentence.
    pub name: String,
    /// Ids of `docs/requirements` that it covers; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    pub steps: Vec<RequestStep>,
}

impl RequestScenario {
    /// Whether every request is inside the namespace of the scenario.
    #[must_use]
    pub fn is_namespaced(&self) -> bool {
        self.steps.iter().all(|step| step.call.contains("/namespaces/{ns}"))
    }

    /// Formats the scenario as YAML for a file of scenarios; bodies are JSON.
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

/// One request. `{ns}` is the namespace of the scenario; `{uid:N}`, `{rv:N}` and `{continue:N}` come from the answer of step N, counted
/// from 1.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestStep {
    /// `METHOD PATH`, `WATCH PATH` for a watch that is read until its timeout, or `SOCKET PATH` for a watch over a WebSocket.
    pub call: String,
    /// `json` (default), `yaml`, `merge`, `strategic`, `jsonpatch`, `apply`, or a media type.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// `Accept` header; `application/json` when empty.
    #[serde(default)]
    pub accept: String,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body as YAML data.
    #[serde(default)]
    pub body: Option<Tree>,
    /// Body as raw text, for malformed bodies.
    #[serde(default)]
    pub text: Option<String>,
    /// File with the body, relative to the workspace.
    #[serde(default)]
    pub file: Option<String>,
    /// Compares only the status code: for objects that a controller of one server is still writing.
    #[serde(default)]
    pub code_only: bool,
    /// Repeats the request until it gets this status code, for effects of controllers.
    #[serde(default)]
    pub until: Option<u16>,
}

impl RequestStep {
    /// Returns the method, and the path with its query.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.call.split_once(' ').unwrap_or(("GET", &self.call))
    }

    /// Returns the resource with its group: `pods`, `batch/jobs`.
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

/// Reads all scenarios of a directory in file name order. A file is a stream of YAML documents, one scenario each.
pub fn load(folder: &Path) -> Result<Vec<RequestScenario>, String> {
    let scenarios =
        yaml_documents::read(folder)?.into_iter().filter(|(file, _)| !file.ends_with("differences.yaml"));
    let read = |(file, document): (PathBuf, Tree)| {
        let scenario: RequestScenario = yaml_documents::value(&file, &document)?;
        Ok(RequestScenario { file: yaml_documents::short_name(&file), ..scenario })
    };
    scenarios.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resource_is_parsed_from_the_path() {
        for (call, resource) in [
            ("GET /api/v1/namespaces/{ns}/pods/a/status?x=/y", Some("pods")),
            ("GET /apis/batch/v1/namespaces/{ns}/jobs", Some("batch/jobs")),
            ("GET /apis/batch/v1/jobs?watch=1", Some("batch/jobs")),
            ("DELETE /api/v1/namespaces/{ns}", Some("namespaces")),
            ("GET /version", None),
            ("GET /api/v1", None),
        ] {
            let step = RequestStep { call: call.to_owned(), ..RequestStep::default() };
            assert_eq!(step.resource().as_deref(), resource, "{call}");
        }
    }

    #[test]
    fn a_scenario_can_be_printed_and_read_again() {
        let text = "{name: 'a: b', shows: [x-1], steps: [{call: 'GET /x'}, {call: PATCH /y, type: merge, body: {a: null}}]}";
        let read =
            |text: &str| muster_tree::from_tree::<RequestScenario>(&Tree::parse_yaml(text).unwrap()).unwrap();
        let printed = read(&read(text).to_yaml());
        assert_eq!((printed.name.as_str(), printed.steps.len()), ("a: b", 2));
        assert_eq!(printed.steps[1].body, Some(muster_tree::tree!({"a": null})));
        assert_eq!(printed.steps[1].content_type(), "application/merge-patch+json");
    }
}
