//! Pods of queues and what is seen of them, in few words.
//!
//! ```yaml
//! - make: {pods: [a, b], group: g, count: 2, cpu: 1, run: 1}
//! - gated: [a, b]                        # open, runs, held, freed, gone, there likewise
//! - workload: {name: g, sets: {main: 2}, is: {QuotaReserved: ['False', WaitingForQuota]}}
//! - uses: 0
//! - quota: 2
//! - succeed: [a]                         # fail likewise
//! - told: {pod: a, reason: Started}
//! - refused: {make: {pod: c, group: g}, says: [should be set]}
//! - kept: {pod: a, patch: {…}, says: [field is immutable]}
//! ```
//!
//! Every other step is one of [`lives`](crate::lives), in which a manifest of a pod may be written in these words, too.

use muster_tree::{Tree, tree};

/// Pods run longer than any scenario unless told otherwise.
const RUN_SECONDS: i64 = 900;
/// Where keys of groups live.
const DOMAIN: &str = "kueue.x-k8s.io";
/// The finalizer of pods, and the label by which they are known.
const MANAGED: &str = "kueue.x-k8s.io/managed";
/// Our gate.
const GATE: &str = "kueue.x-k8s.io/admission";
/// Words of a pod that are annotations, and their keys.
const ANNOTATIONS: [(&str, &str); 8] = [
    ("total", "pod-group-total-count"),
    ("count", "pod-group-count"),
    ("roles", "pod-group-roles"),
    ("roleCount", "pod-group-role-count"),
    ("sets", "pod-group-sets"),
    ("fast", "pod-group-fast-admission"),
    ("serving", "pod-group-serving"),
    ("retriable", "retriable-in-group"),
];
/// Words of a pod that are labels, and their keys.
const LABELS: [(&str, &str); 6] = [
    ("queue", "queue-name"),
    ("group", "pod-group-name"),
    ("role", "pod-group-role"),
    ("prebuilt", "prebuilt-workload-name"),
    ("limit", "max-exec-time-seconds"),
    ("class", "priority-class"),
];
/// Words that stand for something else.
const OTHERS: [&str; 9] = ["pod", "pods", "cpu", "run", "exit", "grace", "labels", "annotations", "spec"];
/// What may stand beside the words, as in every manifest.
const PLAIN: [&str; 1] = ["metadata"];

/// What a step in few words stands for; a step that is not in few words stands for itself.
pub fn step(short: &Tree) -> Result<Vec<Tree>, String> {
    let [(word, said)] = short.entries() else { return Err(format!("no step: {}", short.to_json())) };
    let steps = match word.as_str() {
        "make" => pods(said)?.into_iter().map(|pod| tree!({"create": pod})).collect(),
        "gated" => each(said, |_| tree!({"spec": {"schedulingGates": [{"name": GATE}]}})),
        "open" => each(said, |_| tree!({"spec": {"schedulingGates": "<none>"}})),
        "runs" => each(said, |_| tree!({"status": {"phase": "Running"}})),
        "held" => each(said, |_| tree!({"metadata": {"finalizers": [MANAGED]}})),
        "freed" => each(said, |_| tree!({"metadata": {"finalizers": "<none>"}})),
        "there" => each(said, |_| tree!({"metadata": {"deletionTimestamp": "<none>"}})),
        "gone" if said.is_list() => named(said, |name| tree!({"gone": {"kind": "Pod", "name": name}})),
        "delete" if said.is_list() => named(said, |name| tree!({"delete": {"kind": "Pod", "name": name}})),
        "succeed" => named(said, |name| tree!({"end": {"name": name, "exit": 0}})),
        "fail" => named(said, |name| tree!({"end": {"name": name, "exit": 1}})),
        "workload" => vec![workload(said)],
        "uses" => vec![numbers("flavorsUsage", said)],
        "reserves" => vec![numbers("flavorsReservation", said)],
        "quota" => {
            let groups = quota(said.as_int().ok_or("a quota is a number")?);
            vec![
                tree!({"patch": {"kind": "ClusterQueue", "name": "{ns}", "patch": {"spec": {"resourceGroups": groups}}}}),
            ]
        }
        "told" => vec![tree!({"event": about(said)})],
        "refused" => vec![refused(said)?],
        "kept" => vec![kept(said)],
        "stays" => vec![tree!({"stays": {"seconds": 1, "what": steps(said)?}})],
        "create" => manifests(said)?.into_iter().map(|it| tree!({"create": it})).collect(),
        _ => vec![short.clone()],
    };
    Ok(steps)
}

fn steps(all: &Tree) -> Result<Tree, String> {
    let all = all.items().iter().map(step).collect::<Result<Vec<_>, _>>()?;
    Ok(Tree::list(all.concat()))
}

/// The processors of a queue.
#[must_use]
pub fn quota(cpus: i64) -> Tree {
    let share = tree!({"name": "cpu", "nominalQuota": cpus.to_string()});
    tree!([{"coveredResources": ["cpu"], "flavors": [{"name": "{ns}", "resources": [share]}]}])
}

/// A manifest of pods in few words, or any other as it is.
pub fn manifests(said: &Tree) -> Result<Vec<Tree>, String> {
    let short = said.get("pod").is_some() || said.get("pods").is_some();
    if short { pods(said) } else { Ok(vec![said.clone()]) }
}

/// Pods that are alike but for their names.
fn pods(said: &Tree) -> Result<Vec<Tree>, String> {
    let known = |key: &str| {
        let keys = ANNOTATIONS.iter().chain(&LABELS).map(|(word, _)| *word);
        keys.chain(OTHERS).chain(PLAIN).any(|word| word == key)
    };
    if let Some((key, _)) = said.entries().iter().find(|(key, _)| !known(key)) {
        return Err(format!("a pod has no {key:?}"));
    }
    let one = said.get("pod").into_iter();
    Ok(one.chain(said.items_at(&["pods"])).map(|name| pod(name, said)).collect())
}

fn pod(name: &Tree, said: &Tree) -> Tree {
    let of = |words: &[(&str, &str)]| {
        let found = words.iter().filter_map(|(word, key)| Some((format!("{DOMAIN}/{key}"), said.get(word)?)));
        Tree::map(found.map(|(key, value)| (key, text(value))).collect::<Vec<_>>())
    };
    let more = |word: &str| said.get(word).cloned().unwrap_or_else(Tree::empty_map);
    // Who says nothing of a queue is in the one that every scenario has; `queue: null` is in none.
    let labels = tree!({"kueue.x-k8s.io/queue-name": "q"}).merge(&of(&LABELS)).merge(&more("labels"));
    let life = tree!({"muster.dev/sim-run-seconds": said.get("run").map_or(RUN_SECONDS.to_string(), in_words),
        "muster.dev/sim-exit-code": said.get("exit").map_or("0".to_owned(), in_words)});
    let annotations = life.merge(&of(&ANNOTATIONS)).merge(&more("annotations"));
    let cpu = said.get("cpu").map_or("1".to_owned(), in_words);
    let container = tree!({"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}});
    let grace = said.int_at(&["grace"]).unwrap_or(1);
    let spec =
        tree!({"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [container]});
    tree!({"kind": "Pod", "spec": spec.merge(&more("spec")),
        "metadata": tree!({"name": name.clone(), "labels": labels, "annotations": annotations}).merge(&more("metadata"))})
}

/// A value of a label; nothing stays nothing, so that it takes a label away.
fn text(value: &Tree) -> Tree {
    if value.is_null() { Tree::Null } else { Tree::from(in_words(value)) }
}

fn in_words(value: &Tree) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}

fn named(names: &Tree, step: impl Fn(&Tree) -> Tree) -> Vec<Tree> {
    names.items().iter().map(step).collect()
}

fn each(names: &Tree, has: impl Fn(&Tree) -> Tree) -> Vec<Tree> {
    named(names, |name| tree!({"until": {"kind": "Pod", "name": name, "has": has(name)}}))
}

/// `{name, sets, is, has}`: its pod sets with their counts, and its conditions with their reasons and messages.
fn workload(said: &Tree) -> Tree {
    let has = said.get("has").cloned().unwrap_or_else(Tree::empty_map);
    let sets = said.entries_at(&["sets"]).iter();
    let sets: Vec<Tree> = sets.map(|(name, count)| tree!({"name": name, "count": count.clone()})).collect();
    let has = if sets.is_empty() { has } else { has.with(&["spec", "podSets"], Tree::list(sets)) };
    let conditions: Vec<Tree> =
        said.entries_at(&["is"]).iter().map(|(kind, is)| condition(kind, is)).collect();
    let has =
        if conditions.is_empty() { has } else { has.with(&["status", "conditions"], Tree::list(conditions)) };
    tree!({"until": {"kind": "Workload", "name": said.get("name").cloned().unwrap_or_default(), "has": has}})
}

/// `True`, or `[True, Reason, 'the message']`.
fn condition(kind: &str, is: &Tree) -> Tree {
    let said = if is.is_list() { is.items().to_vec() } else { vec![is.clone()] };
    let keys = ["status", "reason", "message"];
    let parts = keys.into_iter().zip(said).chain([("type", Tree::from(kind))]);
    Tree::map(parts.collect::<Vec<_>>())
}

/// A number of the queue's status: of its only flavor, or of `{cpu: 3, queue: other-{ns}, flavor: …}`.
fn numbers(key: &str, said: &Tree) -> Tree {
    let cpu = if said.is_map() { said.get("cpu").cloned().unwrap_or_default() } else { said.clone() };
    let name = |word: &str| said.get(word).and_then(Tree::as_str).unwrap_or("{ns}").to_owned();
    let total = tree!({"name": "cpu", "total": in_words(&cpu)});
    let flavor = tree!({"name": name("flavor"), "resources": [total]});
    let has = tree!({"status": Tree::map([(key, tree!([flavor]))])});
    tree!({"until": {"kind": "ClusterQueue", "name": name("queue"), "has": has}})
}

/// `{pod: a, reason: …}` or `{workload: g, reason: …}`.
fn about(said: &Tree) -> Tree {
    for (word, kind) in [("pod", "Pod"), ("workload", "Workload"), ("job", "Job")] {
        if let Some(name) = said.get(word) {
            return said.without_key(word).with(&["kind"], kind).with(&["name"], name.clone());
        }
    }
    said.clone()
}

/// A pod that is not accepted: `{make: {…}, code, says, causes}`.
fn refused(said: &Tree) -> Result<Tree, String> {
    let pod = pods(said.get("make").ok_or("nothing is refused")?)?.into_iter().next();
    let answer = tree!({"code": 403}).merge(&said.without_key("make"));
    Ok(tree!({"send": answer.with(&["create"], pod.ok_or("nobody is refused")?)}))
}

/// A change of a pod that is not accepted: `{pod: a, patch: {…}, code, says}`.
fn kept(said: &Tree) -> Tree {
    let patch = tree!({"kind": "Pod", "name": said.text_at(&["pod"]), "patch": said.get("patch").cloned().unwrap_or_default()});
    let answer = tree!({"code": 403}).merge(&said.without_key("pod").without_key("patch"));
    tree!({"send": answer.with(&["patch"], patch)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tree {
        Tree::parse_yaml(text).unwrap()
    }

    #[test]
    fn pods_in_few_words() {
        let made = step(&read("make: {pods: [a, b], group: g, count: 2, run: 3, queue: null}")).unwrap();
        let names: Vec<&str> = made.iter().map(|it| it.str_at(&["create", "metadata", "name"])).collect();
        assert_eq!(names, ["a", "b"]);
        let meta = made[0].at(&["create", "metadata"]).unwrap();
        assert_eq!(meta.at(&["labels"]), Some(&tree!({"kueue.x-k8s.io/pod-group-name": "g"})));
        assert_eq!(meta.str_at(&["annotations", "kueue.x-k8s.io/pod-group-count"]), "2");
        assert_eq!(meta.str_at(&["annotations", "muster.dev/sim-run-seconds"]), "3");
        assert!(step(&read("make: {pod: a, grop: g}")).is_err(), "a slip is no word");
    }

    #[test]
    fn what_is_seen_in_few_words() {
        for (short, want) in [
            ("open: [a]", "until: {kind: Pod, name: a, has: {spec: {schedulingGates: <none>}}}"),
            ("gone: [a]", "gone: {kind: Pod, name: a}"),
            ("gone: {kind: Workload, name: g}", "gone: {kind: Workload, name: g}"),
            (
                "workload: {name: g, sets: {main: 2}, is: {Admitted: 'True', Evicted: ['False', Why]}}",
                "until: {kind: Workload, name: g, has: {spec: {podSets: [{name: main, count: 2}]}, status: {conditions: \
                 [{type: Admitted, status: 'True'}, {type: Evicted, status: 'False', reason: Why}]}}}",
            ),
            ("told: {pod: a, reason: R}", "event: {kind: Pod, name: a, reason: R}"),
            (
                "kept: {pod: a, patch: {x: 1}, says: [no]}",
                "send: {code: 403, says: [no], patch: {kind: Pod, name: a, patch: {x: 1}}}",
            ),
        ] {
            assert_eq!(step(&read(short)).unwrap(), [read(want)], "{short}");
        }
    }
}
