//! Plays a life on one plane: a person, and now and then a node.

use std::time::Duration;

use muster_tree::{Tree, tree};

use super::life::{Happening, JOB, Life};
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
    let stage = Stage { server, root: format!("/api/v1/namespaces/{namespace}"), jobs: jobs(namespace) };
    stage.send("POST", "/api/v1/namespaces", "", &space)?;
    let made = stage.send("POST", &stage.jobs, "", &life.manifest())?;
    if made.code >= 300 {
        return Err(format!("the Job is refused: {}", made.body.to_json()));
    }
    for (n, step) in life.steps.iter().enumerate() {
        stage.perform(step).map_err(|why| format!("step {}: {step:?}: {why}", n + 1))?;
    }
    Ok(())
}

/// Where the Jobs of a namespace are.
pub fn jobs(namespace: &str) -> String {
    format!("/apis/batch/v1/namespaces/{namespace}/jobs")
}

struct Stage<'a> {
    server: &'a Server,
    root: String,
    jobs: String,
}

impl Stage<'_> {
    fn perform(&self, step: &Happening) -> Result<(), String> {
        let job = format!("{}/{JOB}", self.jobs);
        match step {
            Happening::Until(has) => self.wait(&job, |answer| has_at_least(&answer.body, has)),
            Happening::Condition(kind) => {
                let has = tree!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
                self.wait(&job, |answer| has_at_least(&answer.body, &has))
            }
            Happening::Gone => self.wait(&job, |answer| answer.code == 404),
            Happening::Pods { count, has } => self.wait(&format!("{}/pods", self.root), |answer| {
                let those = answer.body.items_at(&["items"]).iter().filter(|pod| has_at_least(pod, has));
                those.count() == *count
            }),
            Happening::Patch(patch) => self.accepted("PATCH", &job, "merge", patch),
            Happening::Refused(patch) => {
                let answer = self.send("PATCH", &job, "merge", patch)?;
                if answer.code == 422 { Ok(()) } else { Err(format!("answered {}", answer.code)) }
            }
            Happening::Delete(policy) => {
                self.accepted("DELETE", &job, "", &tree!({"propagationPolicy": policy}))
            }
            Happening::End { index, exit, conditions } => {
                let pod = self.pod(*index, "Running")?;
                let path = format!("{}/pods/{}/status", self.root, pod.str_at(&["metadata", "name"]));
                self.accepted("PATCH", &path, "strategic", &ended(&pod, *exit, conditions))
            }
            Happening::Kill { index } => {
                let pod = self.pod(*index, "")?;
                let path = format!("{}/pods/{}", self.root, pod.str_at(&["metadata", "name"]));
                self.accepted("DELETE", &path, "", &tree!({}))
            }
            Happening::Edit { index, patch } => {
                let pod = self.pod(*index, "")?;
                let path = format!("{}/pods/{}", self.root, pod.str_at(&["metadata", "name"]));
                self.accepted("PATCH", &path, "merge", patch)
            }
            Happening::Create { at, object } => {
                self.accepted("POST", &format!("{}/{at}", self.root), "", object)
            }
            Happening::Seconds(seconds) => {
                std::thread::sleep(Duration::from_secs_f64(*seconds));
                Ok(())
            }
        }
    }

    /// The first pod that has not ended and is not being deleted, of this index and in this phase if they are named.
    fn pod(&self, index: Option<u32>, phase: &str) -> Result<Tree, String> {
        let list = format!("{}/pods", self.root);
        let label = index.map(|n| n.to_string());
        let fits = |pod: &&Tree| {
            let labels = pod.at(&["metadata", "labels"]).cloned().unwrap_or_default();
            let index = labels.get("batch.kubernetes.io/job-completion-index").and_then(Tree::as_str);
            let is = pod.str_at(&["status", "phase"]);
            let lives = pod.at(&["metadata", "deletionTimestamp"]).is_none()
                && !["Succeeded", "Failed"].contains(&is)
                && (phase.is_empty() || phase == is);
            lives && (label.is_none() || label.as_deref() == index)
        };
        let mut found = None;
        self.wait(&list, |answer| {
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
