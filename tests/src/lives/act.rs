//! Plays a life on one plane: a person, and now and then a node.

use std::time::Duration;

use muster_tree::{Tree, tree};

use super::life::{Happening, Life};
use super::objects;
use crate::differential::{Answer, Server, Step};

/// How often one looks for what is waited for, and how long apart.
const TRIES: u32 = 900;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// When a pod that is ended by hand began and ended: the same on both planes.
const BEGAN: &str = "2026-01-01T00:00:00Z";

/// Plays it in a namespace of its own.
pub fn play(server: &Server, life: &Life, namespace: &str) -> Result<(), String> {
    let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let stage = Stage { server, namespace, pods: format!("/api/v1/namespaces/{namespace}/pods") };
    stage.send("POST", "/api/v1/namespaces", "", &space)?;
    if life.objects.is_empty() {
        stage.create(&life.manifest()).map_err(|why| format!("the Job is refused: {why}"))?;
    }
    for object in &life.objects {
        stage.create(object).map_err(|why| format!("{}: {why}", object.to_json()))?;
    }
    for (n, step) in life.steps.iter().enumerate() {
        stage.perform(step).map_err(|why| format!("step {}: {step:?}: {why}", n + 1))?;
    }
    Ok(())
}

struct Stage<'a> {
    server: &'a Server,
    namespace: &'a str,
    pods: String,
}

impl Stage<'_> {
    fn perform(&self, step: &Happening) -> Result<(), String> {
        match step {
            Happening::Until(step) => {
                let (path, has) = self.about(step, "has")?;
                self.wait(&path, |answer| has_at_least(&answer.body, &has))
            }
            Happening::Condition(kind) => {
                let has = tree!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
                self.wait(&self.about(&has, "")?.0, |answer| has_at_least(&answer.body, &has))
            }
            Happening::Gone(step) => self.wait(&self.about(step, "")?.0, |answer| answer.code == 404),
            Happening::Pods { count, has } => self.wait(&self.pods, |answer| {
                let those = answer.body.items_at(&["items"]).iter().filter(|pod| has_at_least(pod, has));
                those.count() == *count
            }),
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
                let policy = step.as_str().unwrap_or("Background");
                self.accepted("DELETE", &self.about(step, "")?.0, "", &tree!({"propagationPolicy": policy}))
            }
            Happening::End { index, name, exit, conditions } => {
                let pod = self.pod(*index, name, "Running")?;
                self.accepted(
                    "PATCH",
                    &self.pod_path(&pod, "/status"),
                    "strategic",
                    &ended(&pod, *exit, conditions),
                )
            }
            Happening::Kill { index } => {
                let pod = self.pod(*index, "", "")?;
                self.accepted("DELETE", &self.pod_path(&pod, ""), "", &tree!({}))
            }
            Happening::Edit { index, patch } => {
                let pod = self.pod(*index, "", "")?;
                self.accepted("PATCH", &self.pod_path(&pod, ""), "merge", patch)
            }
            Happening::Create(object) => self.create(object),
            Happening::Seconds(seconds) => {
                std::thread::sleep(Duration::from_secs_f64(*seconds));
                Ok(())
            }
        }
    }

    /// Where the object of a step is, and what the step says of it: under this key, or all when it is about the Job.
    fn about(&self, step: &Tree, says: &str) -> Result<(String, Tree), String> {
        let step = objects::filled(step, self.namespace);
        let part = match step.str_at(&["part"]) {
            "" => String::new(),
            part => format!("/{part}"),
        };
        let path = objects::place(&step, self.namespace)? + &part;
        let said =
            if objects::names_object(&step) { step.get(says).cloned().unwrap_or_default() } else { step };
        Ok((path, said))
    }

    fn create(&self, manifest: &Tree) -> Result<(), String> {
        let (whole, sort) = objects::whole(&objects::filled(manifest, self.namespace))?;
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

    /// The first pod that has not ended and is not being deleted, of this index and name and in this phase if they
    /// are given.
    fn pod(&self, index: Option<u32>, name: &str, phase: &str) -> Result<Tree, String> {
        let label = index.map(|n| n.to_string());
        let fits = |pod: &&Tree| {
            let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
            let index = labels.get("batch.kubernetes.io/job-completion-index").and_then(Tree::as_str);
            let is = pod.str_at(&["status", "phase"]);
            let lives = pod.at(&["metadata", "deletionTimestamp"]).is_none()
                && !["Succeeded", "Failed"].contains(&is)
                && (phase.is_empty() || phase == is);
            let named = name.is_empty() || name == pod.str_at(&["metadata", "name"]);
            lives && named && (label.is_none() || label.as_deref() == index)
        };
        let mut found = None;
        self.wait(&self.pods, |answer| {
            found = answer.body.items_at(&["items"]).iter().find(fits).cloned();
            found.is_some()
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
        self.server.send(method, path, &step, body.to_json_bytes())
    }

    fn wait(&self, path: &str, mut good: impl FnMut(&Answer) -> bool) -> Result<(), String> {
        let mut last = None;
        for _ in 0..TRIES {
            let answer = self.server.get(path)?;
            if good(&answer) {
                return Ok(());
            }
            last = Some(answer);
            std::thread::sleep(PAUSE);
        }
        let last = last.map(|answer| answer.body.at(&["status"]).unwrap_or(&answer.body).to_json());
        Err(format!("never happened; last seen: {}", last.unwrap_or_default()))
    }
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

/// Whether a tree has all that another one names: maps by key, each item of a list somewhere in the list.
pub fn has_at_least(tree: &Tree, wanted: &Tree) -> bool {
    match (tree, wanted) {
        (_, Tree::Null) => true,
        (Tree::Map(_), Tree::Map(_)) => wanted
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
            (tree!({"list": [{"x": 2}]}), true),
            (tree!({"list": [{"x": 1, "y": 3}]}), false),
        ] {
            assert_eq!(has_at_least(&tree, &wanted), has, "{}", wanted.to_json());
        }
    }
}
