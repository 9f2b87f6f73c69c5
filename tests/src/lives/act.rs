//! Plays a life on one plane: a person, and now and then a node.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::{Tree, tree};

use super::life::{Happening, JOB, Known, Life, Request};
use super::look::Look;
use super::objects::{self, Sort, Subject};
use super::sets;
use crate::control_plane::ControlPlane;
use crate::differential::{Answer, Step};

/// How often one looks for what is waited for, and how long apart.
const TRIES: u32 = 1800;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// How a name ends of which only the beginning is known.
const REST: &str = "*";
/// When a pod that is ended by hand began and ended: the same on both planes.
const BEGAN: &str = "2026-01-01T00:00:00Z";

/// Plays it in a namespace of its own.
pub fn play(plane: &dyn ControlPlane, life: &Life, namespace: &str) -> Result<(), String> {
    let stage = Stage::new(plane, namespace, ("Job", JOB))?;
    if life.objects.is_empty() {
        stage.create(&life.manifest()).map_err(|why| format!("the Job is refused: {why}"))?;
    }
    stage.play(&life.objects, &life.steps)
}

/// A namespace of a control plane in which something is played.
pub struct Stage<'a> {
    pub(super) plane: &'a dyn ControlPlane,
    pub(super) namespace: &'a str,
    pub(super) subject: Subject,
    pods: String,
    /// Uid and version of what is kept in mind.
    pub(super) remembered: RefCell<BTreeMap<String, (String, String)>>,
}

impl<'a> Stage<'a> {
    /// Makes the namespace; steps are about the subject unless they name an object.
    pub fn new(
        plane: &'a dyn ControlPlane,
        namespace: &'a str,
        subject: Subject,
    ) -> Result<Stage<'a>, String> {
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let stage = Stage { plane, namespace, subject, pods, remembered: RefCell::default() };
        let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        stage.send("POST", "/api/v1/namespaces", "", &space)?;
        Ok(stage)
    }

    /// Creates objects, then performs steps.
    pub fn play(&self, objects: &[Tree], steps: &[Happening]) -> Result<(), String> {
        for object in objects {
            self.create(object).map_err(|why| format!("{}: {why}", object.to_json()))?;
        }
        for (n, step) in steps.iter().enumerate() {
            self.perform(step).map_err(|why| format!("step {}: {step:?}: {why}", n + 1))?;
        }
        Ok(())
    }

    fn perform(&self, step: &Happening) -> Result<(), String> {
        match step {
            Happening::Condition(kind) => {
                let has = tree!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
                self.perform(&Happening::Until(has))
            }
            Happening::Patch(step) => {
                let (path, patch) = self.about(step, "patch")?;
                self.accepted("PATCH", &path, "merge", &patch)
            }
            Happening::Refused(step) => {
                let (path, patch) = self.about(step, "patch")?;
                let answer = self.send("PATCH", &path, "merge", &patch)?;
                if answer.code == 422 { Ok(()) } else { Err(format!("answered {}", answer.code)) }
            }
            Happening::Delete(step) => {
                let policy = step.as_str().or(step.get("policy").and_then(Tree::as_str));
                let policy = tree!({"propagationPolicy": policy.unwrap_or("Background")});
                self.accepted("DELETE", &self.about(step, "")?.0, "", &policy)
            }
            Happening::End { index, name, job, exit, conditions } => {
                let pod = self.pod(*index, name, job, "Running")?;
                let path = self.pod_path(&pod, "/status");
                self.accepted("PATCH", &path, "strategic", &ended(&pod, *exit, conditions))
            }
            Happening::Kill { index } => {
                let pod = self.pod(*index, "", "", "")?;
                self.accepted("DELETE", &self.pod_path(&pod, ""), "", &tree!({}))
            }
            Happening::Edit { index, patch } => {
                let pod = self.pod(*index, "", "", "")?;
                self.accepted("PATCH", &self.pod_path(&pod, ""), "merge", patch)
            }
            Happening::Create(object) => self.create(object),
            Happening::Seconds(seconds) => {
                self.plane.pause(Duration::from_secs_f64(*seconds));
                Ok(())
            }
            Happening::Stays { seconds, what } => self.stays(*seconds, what),
            Happening::Remember(known) => self.remember(known),
            Happening::Send(request) => self.request(request),
            Happening::Answered(request) => self.wait(|| Ok(self.request(request))),
            waits => self.wait(|| self.look(waits)?.ok_or_else(|| "it means nothing".to_owned())),
        }
    }

    /// All is so at every look.
    fn stays(&self, seconds: f64, what: &[Happening]) -> Result<(), String> {
        what.iter().try_for_each(|step| self.perform(step))?;
        let looks = Duration::from_secs_f64(seconds).as_millis() / PAUSE.as_millis();
        for _ in 0..looks {
            self.plane.pause(PAUSE);
            for step in what {
                if let Some(Err(seen)) = self.look(step)? {
                    return Err(format!("no longer so: {step:?}: {seen}"));
                }
            }
        }
        Ok(())
    }

    fn remember(&self, known: &Known) -> Result<(), String> {
        let path = self.path_of(&known.kind, &known.name)?;
        let mut kept = None;
        self.wait(|| {
            let body = self.plane.get(&path)?.body;
            let meta = |key: &str| body.str_at(&["metadata", key]).to_owned();
            kept = Some((meta("uid"), meta("resourceVersion"))).filter(|(uid, _)| !uid.is_empty());
            Ok(if kept.is_some() { Ok(()) } else { Err(body.to_json()) })
        })?;
        self.remembered.borrow_mut().extend(kept.map(|kept| (known.r#as.clone(), kept)));
        Ok(())
    }

    /// Sends a request and looks at the answer.
    fn request(&self, request: &Request) -> Result<(), String> {
        let query = if request.query.is_empty() { String::new() } else { format!("?{}", request.query) };
        let answer = if request.patch.is_map() {
            let (path, patch) = self.about(&request.patch, "patch")?;
            self.send("PATCH", &(path + &query), "merge", &patch)?
        } else {
            let applies = request.apply.is_map();
            let manifest = if applies { &request.apply } else { &request.create };
            let (whole, sort) = objects::whole(&self.filled(manifest))?;
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
        answered(request, &answer, self.namespace)
    }

    /// Where an object is; the subject when no kind is given.
    pub(super) fn path_of(&self, kind: &str, name: &str) -> Result<String, String> {
        let step = if kind.is_empty() { tree!({}) } else { tree!({"kind": kind, "name": name}) };
        Ok(self.about(&step, "")?.0)
    }

    /// The whole name of the first object whose name begins so, where that is said; what is not there has none.
    pub(super) fn meant(&self, kind: &str, name: &str) -> Result<String, String> {
        let Some(start) = name.strip_suffix(REST) else { return Ok(name.to_owned()) };
        let all = self.plane.get(&Sort::of(kind)?.path(self.namespace))?.body;
        let names = all.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]));
        let found = { names }.find(|it| it.starts_with(start)).map(str::to_owned);
        Ok(found.unwrap_or_else(|| start.to_owned()))
    }

    /// A tree with the namespace in place of `{ns}`, for `{uid:WORD}` the uid that is kept in mind under the word, and what
    /// long values are written short for.
    pub(super) fn filled(&self, tree: &Tree) -> Tree {
        let start = objects::grown(&objects::filled(tree, self.namespace));
        let remembered = self.remembered.borrow();
        remembered
            .iter()
            .fold(start, |tree, (word, (uid, _))| objects::replaced(&tree, &format!("{{uid:{word}}}"), uid))
    }

    /// Where the object of a step is, and what the step says of it: under this key, or all when it is about the Job.
    pub(super) fn about(&self, step: &Tree, says: &str) -> Result<(String, Tree), String> {
        let step = self.filled(step);
        let part = match step.str_at(&["part"]) {
            "" => String::new(),
            part => format!("/{part}"),
        };
        let step = match (step.str_at(&["kind"]), step.str_at(&["name"])) {
            (kind, name) if name.ends_with(REST) => step.with(&["name"], self.meant(kind, name)?),
            _ => step,
        };
        let path = objects::place(&step, self.subject, self.namespace)? + &part;
        let said =
            if objects::names_object(&step) { step.get(says).cloned().unwrap_or_default() } else { step };
        Ok((path, if says == "patch" { sets::patch(&said)? } else { said }))
    }

    /// Creates an object, and gives it the status of the manifest if that has one.
    pub fn create(&self, manifest: &Tree) -> Result<(), String> {
        let (whole, sort) = objects::whole(&self.filled(manifest))?;
        let path = sort.path(self.namespace);
        self.accepted("POST", &path, "", &whole)?;
        // Where the status is a part of its own, a new object has none.
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

    /// The first pod that has not ended and is not being deleted, of this index, name and Job and in this phase if
    /// they are given.
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
        self.wait(|| {
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

    fn send(&self, method: &str, path: &str, kind: &str, body: &Tree) -> Result<Answer, String> {
        let step = Step { kind: kind.to_owned(), ..Step::default() };
        self.plane.send(method, path, &step, body.to_json_bytes())
    }

    fn wait(&self, mut look: impl FnMut() -> Result<Look, String>) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..TRIES {
            match look()? {
                Ok(()) => return Ok(()),
                Err(seen) => last = seen,
            }
            self.plane.pause(PAUSE);
        }
        Err(format!("never happened; last seen: {last}"))
    }
}

/// Whether an answer is as it must be.
fn answered(request: &Request, answer: &Answer, namespace: &str) -> Result<(), String> {
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
        format!("the words {words:?}")
    } else if let Some(cause) = request.causes.iter().find(cause) {
        format!("the cause {}", cause.to_json())
    } else if let Some(words) = request.warns.iter().find(warned) {
        format!("the warning {words:?} among {:?}", answer.warnings)
    } else if request.quiet && !answer.warnings.is_empty() {
        format!("silence instead of {:?}", answer.warnings)
    } else {
        return Ok(());
    };
    Err(format!("the answer lacks {missing}: {} {}", answer.code, answer.body.to_json()))
}

/// The status of a pod whose only container ended.
fn ended(pod: &Tree, exit: i64, conditions: &[Tree]) -> Tree {
    let (phase, reason) = if exit == 0 { ("Succeeded", "Completed") } else { ("Failed", "Error") };
    let name =
        pod.items_at(&["spec", "containers"]).first().map(|c| c.text_at(&["name"])).unwrap_or_default();
    let state =
        tree!({"terminated": {"exitCode": exit, "reason": reason, "startedAt": BEGAN, "finishedAt": BEGAN}});
    tree!({"status": {"phase": phase, "conditions": Tree::list(conditions.to_vec()),
        "containerStatuses": [{"name": name, "image": "work", "imageID": "", "ready": false, "restartCount": 0,
            "state": state}]}})
}

/// Stands for anything but nothing.
const ANY: &str = "<any>";
/// Stands for nothing.
const NONE: &str = "<none>";

/// Whether a tree has all that another one names: maps by key, each item of a list somewhere in the list.
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
    fn having_at_least() {
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
