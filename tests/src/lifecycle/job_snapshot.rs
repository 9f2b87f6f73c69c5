//! The comparable parts of a Job, its pods and its events, without generated values.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::{Text, Tree, tree};

use crate::differential::{ApiClient, is_time, is_uid};

/// The objects are stable if they did not change for this long.
const STABLE_INTERVAL: Duration = Duration::from_millis(2000);
/// Maximum number of intervals to wait.
const POLLS_MAX: u32 = 40;
/// Alphabet of generated name suffixes.
const SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";
/// Length of generated name suffixes.
const SUFFIX_LEN: usize = 5;

/// Reads repeatedly until two consecutive results are equal.
pub fn wait_until_stable(look: impl Fn() -> Result<Tree, String>) -> Result<Tree, String> {
    let mut last = look()?;
    for _ in 0..POLLS_MAX {
        std::thread::sleep(STABLE_INTERVAL);
        let now = look()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    Err(format!("the objects did not become stable: {}", last.to_json()))
}

/// Reads the Jobs, pods and Job events of a namespace.
pub fn job_snapshot(server: &ApiClient, namespace: &str) -> Result<Tree, String> {
    let list = |path: String| Ok::<_, String>(server.get(&path)?.body.items_at(&["items"]).to_vec());
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let jobs: Vec<Tree> =
        list(format!("/apis/batch/v1/namespaces/{namespace}/jobs"))?.iter().map(job).collect();
    let mut pods: Vec<Tree> = list(core("pods"))?.iter().map(pod).collect();
    pods.sort_by_key(Tree::to_json);
    let made =
        tree!({"jobs": Tree::list(jobs), "pods": Tree::list(pods), "events": events(&list(core("events"))?)});
    Ok(without_generated_values(&made, namespace))
}

/// A Job without its template.
pub fn job(job: &Tree) -> Tree {
    tree!({"spec": value_or_null(job, &["spec"]).without(&["template"]), "status": value_or_null(job, &["status"]),
        "finalizers": value_or_null(job, &["metadata", "finalizers"]), "generation": value_or_null(job, &["metadata", "generation"])})
}

/// The parts of a pod that the Job controller writes or counts.
fn pod(pod: &Tree) -> Tree {
    let conditions = pod.items_at(&["status", "conditions"]).iter();
    let disruption = conditions.filter(|c| c.str_at(&["type"]) == "DisruptionTarget");
    let metadata = value_or_null(pod, &["metadata"]);
    let metadata =
        ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "deletionTimestamp"]
            .iter()
            .fold(metadata, |it, key| it.without_key(key));
    let exits = pod.items_at(&["status", "containerStatuses"]).iter();
    let exits = exits.map(|c| c.at(&["state", "terminated", "exitCode"]).cloned().unwrap_or_default());
    tree!({"metadata": metadata, "phase": value_or_null(pod, &["status", "phase"]), "exits": Tree::list(exits.collect::<Vec<_>>()),
        "deleting": pod.at(&["metadata", "deletionTimestamp"]).is_some(),
        "hostname": value_or_null(pod, &["spec", "hostname"]), "env": env(pod), "disruption": Tree::list(disruption.cloned().collect::<Vec<_>>())})
}

fn env(pod: &Tree) -> Tree {
    let containers = pod.items_at(&["spec", "containers"]).iter();
    Tree::list(containers.map(|container| value_or_null(container, &["env"])).collect::<Vec<_>>())
}

/// Counts the events about Jobs. Events of kubelets and schedulers are not compared.
fn events(all: &[Tree]) -> Tree {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for event in all.iter().filter(|event| event.str_at(&["involvedObject", "kind"]) == "Job") {
        let words = ["type", "reason", "message"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
        let count = event.int_at(&["count"]).or(event.int_at(&["series", "count"])).unwrap_or(1);
        *counts.entry(without_suffixes(&words)).or_default() += count.max(1);
    }
    Tree::map(counts.into_iter().map(|(words, count)| (words, Tree::from(count))).collect::<Vec<_>>())
}

/// Returns the value at a path, or null.
pub fn value_or_null(tree: &Tree, path: &[&str]) -> Tree {
    tree.at(path).cloned().unwrap_or_default()
}

/// Replaces timestamps, UIDs, generated name suffixes and the namespace.
pub fn without_generated_values(tree: &Tree, namespace: &str) -> Tree {
    match tree {
        Tree::Map(_) => {
            let all = tree.entries().iter().map(|(key, value)| {
                (Text::from(words(key, namespace)), without_generated_values(value, namespace))
            });
            Tree::map(all.collect::<Vec<_>>())
        }
        Tree::List(_) => Tree::list(
            tree.items().iter().map(|item| without_generated_values(item, namespace)).collect::<Vec<_>>(),
        ),
        Tree::Text(text) => Tree::from(words(text, namespace)),
        other => other.clone(),
    }
}

fn words(text: &str, namespace: &str) -> String {
    if is_time(text) {
        return "<time>".to_owned();
    }
    if is_uid(text.as_bytes()) {
        return "<uid>".to_owned();
    }
    without_suffixes(&text.replace(namespace, "<ns>"))
}

/// Replaces generated name suffixes. They contain no vowels, so ordinary words rarely match.
pub fn without_suffixes(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('-') {
        let (before, after) = rest.split_at(at + 1);
        made.push_str(before);
        let letters: String = after.chars().take_while(char::is_ascii_alphanumeric).collect();
        let generated = letters.len() == SUFFIX_LEN && letters.chars().all(|c| SUFFIX.contains(c));
        made.push_str(if generated { "<chance>" } else { &letters });
        rest = &after[letters.len()..];
    }
    made.push_str(rest);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_values_are_replaced() {
        for (text, want) in [
            ("Created pod: a-0-bcdfg", "Created pod: a-0-<chance>"),
            ("a-xk2c9", "a-<chance>"),
            ("job-controller", "job-controller"),
            ("2026-01-01T00:00:00Z", "<time>"),
            ("life-1/a-bcdfg matching", "<ns>/a-<chance> matching"),
        ] {
            assert_eq!(words(text, "life-1"), want);
        }
    }
}
