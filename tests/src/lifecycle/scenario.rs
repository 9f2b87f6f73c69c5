//! Deserialises `tests/lives/*.yaml`, and the steps that all dialects share.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use crate::yaml_documents;

/// Name of the Job of a scenario.
pub const JOB: &str = "a";

/// A Job, or any objects, and steps. `{ns}` is the namespace of the scenario in every text; cluster-scoped objects have it in their
/// names.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifecycleScenario {
    /// File name without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it proves, as a sentence.
    pub name: String,
    /// Ids of `docs/requirements` that it covers; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// Manifests to create instead of a Job; defaults may be omitted.
    #[serde(default)]
    pub objects: Vec<Tree>,
    /// Job spec, merged over a minimal one.
    #[serde(default)]
    pub job: Tree,
    /// Pod spec, merged over a minimal one.
    #[serde(default)]
    pub pod: Tree,
    /// Annotations for simulated pods without their prefix: `run-seconds`, `exit-code`, `start-seconds`.
    #[serde(default)]
    pub sim: Tree,
    /// Actions and assertions, in order.
    #[serde(default)]
    pub steps: Vec<ScenarioStep>,
}

/// An action or an assertion. A step acts on the subject of the scenario (the Job, or what the dialect defines) unless it names an
/// object: `until: {kind: Pod, name: a, has: …}`, `patch: {kind: …, name: …, patch: …}` (with `part: status` for the status),
/// `delete: {kind: …, name: …}`, `gone: {kind: …, name: …}`. A name that ends with `*` resolves to the first object with this prefix.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScenarioStep {
    /// Waits until the object contains this.
    Until(Tree),
    /// Waits until the condition of this type is `True`.
    Condition(String),
    /// Waits until exactly `count` pods contain this.
    Pods {
        count: usize,
        #[serde(default)]
        has: Tree,
    },
    /// Waits until the object is deleted.
    Gone(Tree),
    /// Sends a merge patch, which must succeed.
    Patch(Tree),
    /// Sends a merge patch, which must be rejected with 422.
    Refused(Tree),
    /// Deletes the object with this propagation policy.
    Delete(Tree),
    /// Terminates a pod by a status update, as a kubelet does.
    End {
        /// Completion index; any running pod when absent.
        #[serde(default)]
        index: Option<u32>,
        /// Name of the pod.
        #[serde(default)]
        name: String,
        /// Job of the pod; any when empty.
        #[serde(default)]
        job: String,
        exit: i64,
        /// Pod conditions to add.
        #[serde(default)]
        conditions: Vec<Tree>,
    },
    Kill {
        /// Completion index; any pod when absent.
        #[serde(default)]
        index: Option<u32>,
    },
    /// Sends a merge patch of a pod.
    Edit {
        /// Completion index; any pod when absent.
        #[serde(default)]
        index: Option<u32>,
        patch: Tree,
    },
    Create(Tree),
    /// Pauses for this many seconds.
    Seconds(f64),
    /// Waits until exactly `count` objects of a kind contain this.
    Count {
        kind: String,
        count: usize,
        #[serde(default)]
        has: Tree,
    },
    /// Waits until a path of an object has exactly this value.
    Exact(ExactValue),
    /// Waits until two timestamps of an object are set, and asserts the minimum interval between them.
    Apart(MinimumInterval),
    /// Waits until an event about an object exists.
    Event(ExpectedEvent),
    /// Asserts that conditions hold for a period.
    Stays {
        /// Length of the period.
        seconds: f64,
        what: Vec<ScenarioStep>,
    },
    /// Records UID and resource version of an object.
    Remember(RememberedObject),
    /// Waits until the object exists with the recorded UID.
    Same(RememberedObject),
    /// Waits until the object exists with another UID.
    Renewed(RememberedObject),
    /// Waits until the object exists with the recorded UID and resource version.
    Untouched(RememberedObject),
    /// Sends a request and checks the answer.
    Send(RequestCheck),
    /// Repeats a request without side effects, such as a dry run, until the answer is as expected.
    Answered(RequestCheck),
}

/// The exact value at a path of an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExactValue {
    /// Kind of the object; the subject when empty.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    /// Path: keys, list indexes, and `name` or `type` of list items.
    pub at: Vec<Tree>,
    /// Value without timestamps; null for absent.
    pub is: Tree,
}

/// A minimum interval between two timestamps of an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinimumInterval {
    /// Kind of the object; the subject when empty.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    /// Path of the earlier timestamp, as in [`ExactValue`].
    pub from: Vec<Tree>,
    /// Path of the later timestamp.
    pub to: Vec<Tree>,
    /// Minimum number of seconds between them.
    pub seconds: i64,
}

/// An event that must exist about an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedEvent {
    pub reason: String,
    /// `Normal` or `Warning`; any when empty.
    #[serde(default, rename = "type")]
    pub class: String,
    /// Exact note; any when empty.
    #[serde(default)]
    pub note: String,
    /// Substrings of the note.
    #[serde(default)]
    pub says: Vec<String>,
    /// Total count over all matching events; at least one when absent.
    #[serde(default)]
    pub times: Option<i64>,
    /// Kind of the regarding object; that of the subject when empty.
    #[serde(default)]
    pub kind: String,
    /// Name of the regarding object; that of the subject when empty.
    #[serde(default)]
    pub name: String,
}

/// An object and the key under which it is remembered.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RememberedObject {
    /// Kind of the object; the subject when empty.
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub name: String,
    pub r#as: String,
}

/// A request and the expected answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RequestCheck {
    pub create: Tree,
    pub apply: Tree,
    /// Merge patch: `{kind, name, part, patch}`.
    pub patch: Tree,
    /// Query, such as `fieldValidation=Strict`.
    pub query: String,
    /// Expected status code; any 2xx when 0.
    pub code: u16,
    /// Substrings of the message.
    pub says: Vec<String>,
    /// Causes: field, and a substring of the message.
    pub causes: Vec<Tree>,
    /// Contents of the body.
    pub has: Tree,
    pub warns: Vec<String>,
    /// Asserts that there is no warning.
    pub quiet: bool,
}

impl LifecycleScenario {
    /// Builds the Job manifest.
    #[must_use]
    pub fn manifest(&self) -> Tree {
        let annotations = self.sim.entries().iter().map(|(key, value)| {
            let text = value.as_str().map_or_else(|| value.to_json(), str::to_owned);
            (format!("muster.dev/sim-{key}"), Tree::from(text))
        });
        let plain = tree!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]});
        let base = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOB},
            "spec": {"template": {"metadata": {"annotations": Tree::map(annotations.collect::<Vec<_>>())},
                "spec": plain.merge(&or_empty(&self.pod))}}});
        base.merge(&tree!({"spec": or_empty(&self.job)}))
    }

    /// Returns the scenario with this scheduler name in every pod and pod template.
    #[must_use]
    pub fn scheduled_by(&self, scheduler: &str) -> LifecycleScenario {
        let named = |object: &Tree| with_scheduler_name(object, scheduler);
        let steps = self.steps.iter().map(|step| match step {
            ScenarioStep::Create(object) => ScenarioStep::Create(named(object)),
            other => other.clone(),
        });
        LifecycleScenario {
            objects: self.objects.iter().map(named).collect(),
            pod: or_empty(&self.pod).with(&["schedulerName"], scheduler),
            steps: steps.collect(),
            ..self.clone()
        }
    }
}

/// Sets the scheduler name of a Pod or Job.
fn with_scheduler_name(object: &Tree, scheduler: &str) -> Tree {
    match object.str_at(&["kind"]) {
        "Pod" => object.with(&["spec", "schedulerName"], scheduler),
        "Job" => object.with(&["spec", "template", "spec", "schedulerName"], scheduler),
        _ => object.clone(),
    }
}

fn or_empty(tree: &Tree) -> Tree {
    if tree.is_null() { Tree::empty_map() } else { tree.clone() }
}

/// Reads all scenarios of a directory in file name order. A file is a stream of YAML documents, one scenario each.
pub fn load(folder: &Path) -> Result<Vec<LifecycleScenario>, String> {
    let all = yaml_documents::load_with_files(folder)?;
    Ok(all.into_iter().map(|(file, scenario)| LifecycleScenario { file, ..scenario }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pods_of_a_scenario_name_the_scheduler() {
        let pod = tree!({"kind": "Pod", "spec": {"nodeName": ""}});
        let job = tree!({"kind": "Job"});
        let claim = tree!({"kind": "PersistentVolumeClaim", "spec": {}});
        let plain = tree!({"name": "plain"});
        let scenario: LifecycleScenario = muster_tree::from_tree(&plain).unwrap();
        let steps = vec![ScenarioStep::Create(pod.clone())];
        let scenario =
            LifecycleScenario { objects: vec![pod, job, claim.clone()], steps, ..scenario }.scheduled_by("s");
        let pod = tree!({"kind": "Pod", "spec": {"nodeName": "", "schedulerName": "s"}});
        let job = tree!({"kind": "Job", "spec": {"template": {"spec": {"schedulerName": "s"}}}});
        assert_eq!(scenario.objects, [pod.clone(), job, claim]);
        assert!(matches!(&scenario.steps[..], [ScenarioStep::Create(made)] if *made == pod));
        assert_eq!(scenario.manifest().str_at(&["spec", "template", "spec", "schedulerName"]), "s");
    }
}
