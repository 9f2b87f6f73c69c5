//! Runs the steps of a scenario against one control plane, in the role of a user and of a kubelet.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::assertions::PollOutcome;
use super::jobset_shorthand;
use super::objects::{self, DefaultObject, ResourceKind};
use super::scenario::{JOB, LifecycleScenario, RememberedObject, RequestCheck, ScenarioStep};
use crate::control_plane::ControlPlane;
use crate::differential::{HttpAnswer, RequestStep};

/// Polls of an assertion, and the interval between them: three minutes in total.
const POLLS_MAX: u32 = 1800;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Suffix of a name that is only a prefix.
const REST: &str = "*";
/// Start and finish time of a container that a step terminates: equal on both control planes.
const CONTAINER_TIME: &str = "2026-01-01T00:00:00Z";

/// Runs a scenario in a new namespace.
pub fn run_scenario(
    plane: &dyn ControlPlane,
    scenario: &LifecycleScenario,
    namespace: &str,
) -> Result<(), String> {
    let stage = ScenarioRun::new(plane, namespace, ("Job", JOB))?;
    if scenario.objects.is_empty() {
        stage.create(&scenario.manifest()).map_err(|why| format!("the Job is rejected: {why}"))?;
    }
    stage.run(&scenario.objects, &scenario.steps)
}

/// A scenario run: a namespace of a control plane.
pub struct ScenarioRun<'a> {
    pub(super) plane: &'a dyn ControlPlane,
    pub(super) namespace: &'a str,
    pub(super) subject: DefaultObject,
    pods: String,
    /// UID and resource version of remembered objects.
    pub(super) remembered: RefCell<BTreeMap<String, (String, String)>>,
}

impl<'a> ScenarioRun<'a> {
    /// Creates the namespace. Steps that name no object act on the subject.
    pub fn new(
        plane: &'a dyn ControlPlane,
        namespace: &'a str,
        subject: DefaultObject,
    ) -> Result<ScenarioRun<'a>, String> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let stage = ScenarioRun { plane, namespace, subject, pods, remembered: RefCell::default() };
        let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        stage.send("POST", "/api/v1/namespaces", "", &space)?;
        Ok(stage)
    }

    /// Creates the objects, then performs the steps.
    pub fn run(&self, objects: &[Tree], steps: &[ScenarioStep]) -> Result<(), String> {
        for object in objects {
            self.create(object).map_err(|why| format!("{}: {why}", object.to_json()))?;
        }
        for (n, step) in steps.iter().enumerate() {
            self.perform(step).map_err(|why| format!("step {}: {step:?}: {why}", n + 1))?;
        }
        Ok(())
    }

    fn perform(&self, step: &ScenarioStep) -> Result<(), String> {
        match step {
            ScenarioStep::Condition(kind) => {
                let has = tree!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
                self.perform(&ScenarioStep::Until(has))
            }
            ScenarioStep::Patch(step) => {
                let (path, patch) = self.target(step, "patch")?;
                self.accepted("PATCH", &path, "merge", &patch)
            }
            ScenarioStep::Refused(step) => {
                let (path, patch) = self.target(step, "patch")?;
                let answer = self.send("PATCH", &path, "merge", &patch)?;
                if answer.code == 422 { Ok(()) } else { Err(format!("answered {}", answer.code)) }
            }
            ScenarioStep::Delete(step) => {
                let policy = step.as_str().or(step.get("policy").and_then(Tree::as_str));
                let policy = tree!({"propagationPolicy": policy.unwrap_or("Background")});
                self.accepted("DELETE", &self.target(step, "")?.0, "", &policy)
            }
            ScenarioStep::End { index, name, job, exit, conditions } => {
                let pod = self.pod(*index, name, job, "Running")?;
                let path = self.pod_path(&pod, "/status");
                self.accepted("PATCH", &path, "strategic", &terminated_status(&pod, *exit, conditions))
            }
            ScenarioStep::Kill { index } => {
                let pod = self.pod(*index, "", "", "")?;
                self.accepted("DELETE", &self.pod_path(&pod, ""), "", &tree!({}))
            }
            ScenarioStep::Edit { index, patch } => {
                let pod = self.pod(*index, "", "", "")?;
                self.accepted("PATCH", &self.pod_path(&pod, ""), "merge", patch)
            }
            ScenarioStep::Create(object) => self.create(object),
            ScenarioStep::Seconds(seconds) => {
                self.plane.pause(Duration::from_secs_f64(*seconds));
                Ok(())
            }
            ScenarioStep::Stays { seconds, what } => self.stays(*seconds, what),
            ScenarioStep::Remember(known) => self.remember(known),
            ScenarioStep::Send(request) => self.request(request),
            ScenarioStep::Answered(request) => self.poll_until(|| Ok(self.request(request))),
            waits => self.poll_until(|| self.poll(waits)?.ok_or_else(|| "it is not an assertion".to_owned())),
        }
    }

    /// Waits until the assertions hold, then asserts that they hold at every poll.
    fn stays(&self, seconds: f64, what: &[ScenarioStep]) -> Result<(), String> {
        what.iter().try_for_each(|step| self.perform(step))?;
        let looks = Duration::from_secs_f64(seconds).as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..looks {
            self.plane.pause(POLL_INTERVAL);
            for step in what {
                if let Some(Err(seen)) = self.poll(step)? {
                    return Err(format!("no longer holds: {step:?}: {seen}"));
                }
            }
        }
        Ok(())
    }

    fn remember(&self, known: &RememberedObject) -> Result<(), String> {
        let path = self.path_of(&known.kind, &known.name)?;
        let mut kept = None;
        self.poll_until(|| {
            let body = self.plane.get(&path)?.body;
            let meta = |key: &str| body.str_at(&["metadata", key]).to_owned();
            kept = Some((meta("uid"), meta("resourceVersion"))).filter(|(uid, _)| !uid.is_empty());
            Ok(if kept.is_some() { Ok(()) } else { Err(body.to_json()) })
        })?;
        self.remembered.borrow_mut().extend(kept.map(|kept| (known.r#as.clone(), kept)));
        Ok(())
    }

    /// Sends a request and checks the answer.
    fn request(&self, request: &RequestCheck) -> Result<(), String> {
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        let answer = if request.patch.is_map() {
            let (path, patch) = self.target(&request.patch, "patch")?;
            self.send("PATCH", &(path + &query), "merge", &patch)?
        } else {
            let applies = request.apply.is_map();
            let manifest = if applies { &request.apply } else { &request.create };
            let (whole, sort) = objects::complete_manifest(&self.filled(manifest))?;
            let path = sort.path(self.namespace);
            if applies {
                let query = if query.is_empty() { "?" } else { &query };
                let path =
                    format!("{path}/{}{query}&fieldManager=scenario", whole.str_at(&["metadata", "name"]));
                self.send("PATCH", &path, "apply", &whole)?
            } else {
                self.send("POST", &(path + &query), "", &whole)?
            }
        };
        let has = self.filled(&request.has);
        if !has_at_least(&answer.body, &has) {
            return Err(format!("the answer lacks {}: {}", has.to_json(), answer.body.to_json()));
        }
        check_answer(request, &answer, self.namespace)
    }

    /// Returns the path of an object; of the subject when no kind is given.
    pub(super) fn path_of(&self, kind: &str, name: &str) -> Result<String, String> {
        let step = if kind.is_empty() { tree!({}) } else { tree!({"kind": kind, "name": name}) };
        Ok(self.target(&step, "")?.0)
    }

    /// Resolves a name that ends with `*` to the first object with this prefix, or to the prefix if there is none.
    pub(super) fn resolve_name(&self, kind: &str, name: &str) -> Result<String, String> {
        let Some(start) = name.strip_suffix(REST) else { return Ok(name.to_owned()) };
        let all = self.plane.get(&ResourceKind::of(kind)?.path(self.namespace))?.body;
        let names = all.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]));
        let found = { names }.find(|it| it.starts_with(start)).map(str::to_owned);
        Ok(found.unwrap_or_else(|| start.to_owned()))
    }

    /// Expands placeholders: `{ns}`, `{uid:WORD}` for the UID remembered under a word, and those for long values.
    pub(super) fn filled(&self, tree: &Tree) -> Tree {
        let start = objects::expand_placeholders(&objects::with_namespace(tree, self.namespace));
        let remembered = self.remembered.borrow();
        remembered
            .iter()
            .fold(start, |tree, (word, (uid, _))| objects::replaced(&tree, &format!("{{uid:{word}}}"), uid))
    }

    /// Returns the path of the object of a step, and the value of a key of the step; the whole step is the value when it names no object.
    pub(super) fn target(&self, step: &Tree, says: &str) -> Result<(String, Tree), String> {
        let step = self.filled(step);
        let part = match step.str_at(&["part"]) {
            "" => String::new(),
            part => format!("/{part}"),
        };
        let step = match (step.str_at(&["kind"]), step.str_at(&["name"])) {
            (kind, name) if name.ends_with(REST) => step.with(&["name"], self.resolve_name(kind, name)?),
            _ => step,
        };
        let path = objects::object_path(&step, self.subject, self.namespace)? + &part;
        let said =
            if objects::names_object(&step) { step.get(says).cloned().unwrap_or_default() } else { step };
        Ok((path, if says == "patch" { jobset_shorthand::patch(&said)? } else { said }))
    }

    /// Creates an object, then patches its status if the manifest has one.
    pub fn create(&self, manifest: &Tree) -> Result<(), String> {
        let (whole, sort) = objects::complete_manifest(&self.filled(manifest))?;
        let path = sort.path(self.namespace);
        self.accepted("POST", &path, "", &whole)?;
        // The server drops the status of a new object if status is a subresource.
        match whole.get("status") {
            Some(status) => {
                let path = format!("{path}/{}/status", whole.str_at(&["metadata", "name"]));
                self.accepted("PATCH", &path, "merge", &tree!({"status": status.clone()}))
            }
            None => Ok(()),
        }
    }

    fn pod_path(&self, pod: &Tree, part: &str) -> String {
        format!("{}/{}{part}", self.pods, pod.str_at(&["metadata", "name"]))
    }

    /// Waits for a pod that is neither terminated nor terminating, and matches index, name, Job and phase where they are given.
    fn pod(&self, index: Option<u32>, name: &str, job: &str, phase: &str) -> Result<Tree, String> {
        let label = index.map(|n| n.to_string());
        let fits = |pod: &&Tree| {
            let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
            let index = labels.get("batch.kubernetes.io/job-completion-index").and_then(Tree::as_str);
            let is = pod.str_at(&["status", "phase"]);
            let lives = pod.at(&["metadata", "deletionTimestamp"]).is_none()
                && !["Succeeded", "Failed"].contains(&is)
                && (phase.is_empty() || phase == is);
            let named = name.is_empty() || name == pod.str_at(&["metadata", "name"]);
            let named = named
                && (job.is_empty()
                    || labels.get("batch.kubernetes.io/job-name").and_then(Tree::as_str) == Some(job));
            lives && named && (label.is_none() || label.as_deref() == index)
        };
        let mut found = None;
        self.poll_until(|| {
            let all = self.plane.get(&self.pods)?.body;
            found = all.items_at(&["items"]).iter().find(fits).cloned();
            Ok(if found.is_some() { Ok(()) } else { Err(all.to_json()) })
        })?;
        found.ok_or_else(|| "no such pod".to_owned())
    }

    fn accepted(&self, method: &str, path: &str, kind: &str, body: &Tree) -> Result<(), String> {
        let answer = self.send(method, path, kind, body)?;
        if answer.code < 300 {
            Ok(())
        } else {
            Err(format!("answered {}: {}", answer.code, answer.body.to_json()))
        }
    }

    fn send(&self, method: &str, path: &str, kind: &str, body: &Tree) -> Result<HttpAnswer, String> {
        let step = RequestStep { kind: kind.to_owned(), ..RequestStep::default() };
        self.plane.send(method, path, &step, body.to_json_bytes())
    }

    fn poll_until(&self, mut look: impl FnMut() -> Result<PollOutcome, String>) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..POLLS_MAX {
            match look()? {
                Ok(()) => return Ok(()),
                Err(seen) => last = seen,
            }
            self.plane.pause(POLL_INTERVAL);
        }
        Err(format!("timed out; last: {last}"))
    }
}

/// Checks the code, message, causes and warnings of an answer.
fn check_answer(request: &RequestCheck, answer: &HttpAnswer, namespace: &str) -> Result<(), String> {
    let message = answer.body.str_at(&["message"]);
    let fill = |text: &str| text.replace("{ns}", namespace);
    let cause = |wanted: &&Tree| {
        !answer.body.items_at(&["details", "causes"]).iter().any(|cause| {
            cause.str_at(&["field"]) == wanted.str_at(&["field"])
                && cause.str_at(&["message"]).contains(&fill(wanted.str_at(&["message"])))
        })
    };
    let code = if request.code == 0 { answer.code < 300 } else { answer.code == request.code };
    let words = request.says.iter().find(|words| !message.contains(&fill(words)));
    let warned = |words: &&String| !answer.warnings.iter().any(|it| it.contains(&fill(words)));
    let missing = if !code {
        "the code".to_owned()
    } else if let Some(words) = words {
        format!("the text {words:?}")
    } else if let Some(cause) = request.causes.iter().find(cause) {
        format!("the cause {}", cause.to_json())
    } else if let Some(words) = request.warns.iter().find(warned) {
        format!("the warning {words:?} among {:?}", answer.warnings)
    } else if request.quiet && !answer.warnings.is_empty() {
        format!("no warnings, but got {:?}", answer.warnings)
    } else {
        return Ok(());
    };
    Err(format!("the answer lacks {missing}: {} {}", answer.code, answer.body.to_json()))
}

/// Builds the status of a pod whose only container terminated.
fn terminated_status(pod: &Tree, exit: i64, conditions: &[Tree]) -> Tree {
    let (phase, reason) = if exit == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let name =
        pod.items_at(&["spec", "containers"]).first().map(|c| c.text_at(&["name"])).unwrap_or_default();
    let state = tree!({"terminated": {"exitCode": exit, "reason": reason, "startedAt": CONTAINER_TIME, "finishedAt": CONTAINER_TIME}});
    tree!({"status": {"phase": phase, "conditions": Tree::list(conditions.to_vec()),
        "containerStatuses": [{"name": name, "image": "work", "imageID": "", "ready": false, "restartCount": 0,
            "state": state}]}})
}

/// Placeholder for any value except null.
const ANY: &str = "<any>";
/// Placeholder for an absent or null value.
const NONE: &str = "<none>";

/// Whether a tree contains another one: maps by key, and each wanted list item anywhere in the list.
pub fn has_at_least(tree: &Tree, wanted: &Tree) -> bool {
    match (tree, wanted) {
        (_, Tree::Null) => true,
        (tree, Tree::Text(text)) if *text == ANY || *text == NONE => tree.is_null() == (*text == NONE),
        (Tree::Null, Tree::Map(_)) if wanted.is_empty() => false,
        (Tree::Map(_) | Tree::Null, Tree::Map(_)) => wanted
            .entries()
            .iter()
            .all(|(key, value)| has_at_least(tree.get(key).unwrap_or(&Tree::Null), value)),
        (Tree::List(_), Tree::List(_)) => {
            wanted.items().iter().all(|want| tree.items().iter().any(|item| has_at_least(item, want)))
        }
        _ => tree == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containment() {
        let tree = tree!({"a": 1, "list": [{"x": 1, "y": 2}, {"x": 2}]});
        for (wanted, has) in [
            (tree!({}), true),
            (tree!({"a": 1}), true),
            (tree!({"a": 2}), false),
            (tree!({"b": 1}), false),
            (tree!({"a": "<any>", "b": "<none>"}), true),
            (tree!({"a": "<none>"}), false),
            (tree!({"b": {"c": "<none>"}}), true),
            (tree!({"b": {"c": 1}}), false),
            (tree!({"b": "<any>"}), false),
            (tree!({"list": [{"x": 2}]}), true),
            (tree!({"list": [{"x": 1, "y": 3}]}), false),
        ] {
            assert_eq!(has_at_least(&tree, &wanted), has, "{}", wanted.to_json());
        }
    }
}
