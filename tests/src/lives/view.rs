//! What is compared of a life: the Job, its pods and its events, without what chance and the clock put in.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_tree::{Text, Tree, tree};

use crate::differential::{Server, is_time, is_uid};

/// Nothing has changed for this long: the life is over.
const STILL: Duration = Duration::from_millis(2000);
/// How often one looks whether it is.
const LOOKS: u32 = 40;
/// The letters at the end of generated names.
const SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";
/// How many of them there are.
const SUFFIX_LEN: usize = 5;

/// What is there when nothing changes any more.
pub fn settled(look: impl Fn() -> Result<Tree, String>) -> Result<Tree, String> {
    let mut last = look()?;
    for _ in 0..LOOKS {
        std::thread::sleep(STILL);
        let now = look()?;
        if now == last {
            return Ok(now);
        }
        last = now;
    }
    Err(format!("it never came to rest: {}", last.to_json()))
}

/// A Job, its pods and its events.
pub fn picture(server: &Server, namespace: &str) -> Result<Tree, String> {
    let list = |path: String| Ok::<_, String>(server.get(&path)?.body.items_at(&["items"]).to_vec());
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let jobs: Vec<Tree> =
        list(format!("/apis/batch/v1/namespaces/{namespace}/jobs"))?.iter().map(job).collect();
    let mut pods: Vec<Tree> = list(core("pods"))?.iter().map(pod).collect();
    pods.sort_by_key(Tree::to_json);
    let made =
        tree!({"jobs": Tree::list(jobs), "pods": Tree::list(pods), "events": events(&list(core("events"))?)});
    Ok(plain(&made, namespace))
}

/// Of a Job, all but its template.
pub fn job(job: &Tree) -> Tree {
    tree!({"spec": kept(job, &["spec"]).without(&["template"]), "status": kept(job, &["status"]),
        "finalizers": kept(job, &["metadata", "finalizers"]), "generation": kept(job, &["metadata", "generation"])})
}

/// Of a pod, what the Job controller wrote and what it counts.
fn pod(pod: &Tree) -> Tree {
    let conditions = pod.items_at(&["status", "conditions"]).iter();
    let disruption = conditions.filter(|c| c.str_at(&["type"]) == "DisruptionTarget");
    let metadata = kept(pod, &["metadata"]);
    let metadata =
        ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "deletionTimestamp"]
            .iter()
            .fold(metadata, |it, key| it.without_key(key));
    let exits = pod.items_at(&["status", "containerStatuses"]).iter();
    let exits = exits.map(|c| c.at(&["state", "terminated", "exitCode"]).cloned().unwrap_or_default());
    tree!({"metadata": metadata, "phase": kept(pod, &["status", "phase"]), "exits": Tree::list(exits.collect::<Vec<_>>()),
        "deleting": pod.at(&["metadata", "deletionTimestamp"]).is_some(),
        "hostname": kept(pod, &["spec", "hostname"]), "env": env(pod), "disruption": Tree::list(disruption.cloned().collect::<Vec<_>>())})
}

fn env(pod: &Tree) -> Tree {
    let containers = pod.items_at(&["spec", "containers"]).iter();
    Tree::list(containers.map(|container| kept(container, &["env"])).collect::<Vec<_>>())
}

/// How often each event about a Job was told. What nodes and schedulers tell is their own business.
fn events(all: &[Tree]) -> Tree {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for event in all.iter().filter(|event| event.str_at(&["involvedObject", "kind"]) == "Job") {
        let words = ["type", "reason", "message"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
        let count = event.int_at(&["count"]).or(event.int_at(&["series", "count"])).unwrap_or(1);
        *counts.entry(without_suffixes(&words)).or_default() += count.max(1);
    }
    Tree::map(counts.into_iter().map(|(words, count)| (words, Tree::from(count))).collect::<Vec<_>>())
}

/// What is there, or nothing.
pub fn kept(tree: &Tree, path: &[&str]) -> Tree {
    tree.at(path).cloned().unwrap_or_default()
}

/// The tree without times, uids, names that chance made, and the namespace.
pub fn plain(tree: &Tree, namespace: &str) -> Tree {
    match tree {
        Tree::Map(_) => {
            let all = tree
                .entries()
                .iter()
                .map(|(key, value)| (Text::from(words(key, namespace)), plain(value, namespace)));
            Tree::map(all.collect::<Vec<_>>())
        }
        Tree::List(_) => {
            Tree::list(tree.items().iter().map(|item| plain(item, namespace)).collect::<Vec<_>>())
        }
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

/// Generated ends of names, which have no vowels and so are hardly ever words.
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
    fn what_chance_made_is_taken_out() {
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
