//! Shorthand for pods in queues and for assertions about them.
//!
//! ```yaml
//! - make: {pods: [a, b], group: g, count: 2, cpu: 1, run: 1}
//! - gated: [a, b]                        # open, runs, held, freed, gone, there likewise
//! - workload: {name: g, sets: {main: 2}, is: {QuotaReserved: ['False', WaitingForQuota]}}
//! - uses: 0
//! - quota: 2
//! - succeed: [a]                         # fail likewise
//! - event: {pod: a, reason: Started}
//! - refused: {make: {pod: c, group: g}, says: [should be set]}
//! - patch_rejected: {pod: a, patch: {…}, says: [field is immutable]}
//! ```
//!
//! Every other step is one of [`lifecycle`](crate::lifecycle); a pod manifest in it may be in shorthand, too.

use muster_tree::{Tree, tree};

/// Default run time of pods, longer than any scenario.
const RUN_SECONDS: i64 = 900;
/// Domain of pod group labels and annotations.
const DOMAIN: &str = "kueue.x-k8s.io";
/// Finalizer and label of managed pods.
const MANAGED: &str = "kueue.x-k8s.io/managed";
/// Scheduling gate of queued pods.
const GATE: &str = "kueue.x-k8s.io/admission";
/// Keys that are annotations.
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
/// Keys that are labels.
const LABELS: [(&str, &str); 6] = [
    ("queue", "queue-name"),
    ("group", "pod-group-name"),
    ("role", "pod-group-role"),
    ("prebuilt", "prebuilt-workload-name"),
    ("limit", "max-exec-time-seconds"),
    ("class", "priority-class"),
];
/// Other keys of the shorthand.
const OTHERS: [&str; 9] = ["pod", "pods", "cpu", "run", "exit", "grace", "labels", "annotations", "spec"];
/// Manifest fields allowed beside the shorthand.
const PLAIN: [&str; 1] = ["metadata"];

/// Expands a step in shorthand; other steps are returned unchanged.
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
        "uses" => vec![usage("flavorsUsage", said)],
        "reserves" => vec![usage("flavorsReservation", said)],
        "quota" => {
            let groups = quota(said.as_int().ok_or("a quota is a number")?);
            vec![
                tree!({"patch": {"kind": "ClusterQueue", "name": "{ns}", "patch": {"spec": {"resourceGroups": groups}}}}),
            ]
        }
        "event" => vec![tree!({"event": event_object(said)})],
        "refused" => vec![rejected_create(said)?],
        "patch_rejected" => vec![rejected_patch(said)],
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

/// Builds the resource groups of a CPU quota.
#[must_use]
pub fn quota(cpus: i64) -> Tree {
    let share = tree!({"name": "cpu", "nominalQuota": cpus.to_string()});
    tree!([{"coveredResources": ["cpu"], "flavors": [{"name": "{ns}", "resources": [share]}]}])
}

/// Expands a manifest of pods in shorthand; others are returned unchanged.
pub fn manifests(said: &Tree) -> Result<Vec<Tree>, String> {
    let short = said.get("pod").is_some() || said.get("pods").is_some();
    if short { pods(said) } else { Ok(vec![said.clone()]) }
}

/// Expands pods that differ only in their names.
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
    // Pods are in the LocalQueue `q` by default; `queue: null` omits the label.
    let labels = tree!({"kueue.x-k8s.io/queue-name": "q"}).merge(&of(&LABELS)).merge(&more("labels"));
    let life = tree!({"muster.dev/sim-run-seconds": said.get("run").map_or(RUN_SECONDS.to_string(), to_text),
        "muster.dev/sim-exit-code": said.get("exit").map_or("0".to_owned(), to_text)});
    let annotations = life.merge(&of(&ANNOTATIONS)).merge(&more("annotations"));
    let cpu = said.get("cpu").map_or("1".to_owned(), to_text);
    let container = tree!({"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}});
    let grace = said.int_at(&["grace"]).unwrap_or(1);
    let spec =
        tree!({"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [container]});
    tree!({"kind": "Pod", "spec": spec.merge(&more("spec")),
        "metadata": tree!({"name": name.clone(), "labels": labels, "annotations": annotations}).merge(&more("metadata"))})
}

/// Formats a label value; null stays null, which removes the label.
fn text(value: &Tree) -> Tree {
    if value.is_null() { Tree::Null } else { Tree::from(to_text(value)) }
}

fn to_text(value: &Tree) -> String {
    value.as_str().map_or_else(|| value.to_json(), str::to_owned)
}

fn named(names: &Tree, step: impl Fn(&Tree) -> Tree) -> Vec<Tree> {
    names.items().iter().map(step).collect()
}

fn each(names: &Tree, has: impl Fn(&Tree) -> Tree) -> Vec<Tree> {
    named(names, |name| tree!({"until": {"kind": "Pod", "name": name, "has": has(name)}}))
}

/// Expands `{name, sets, is, has}`: pod sets with counts, and conditions with status, reason and message.
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

/// Expands a condition: `True`, or `[True, Reason, 'the message']`.
fn condition(kind: &str, is: &Tree) -> Tree {
    let said = if is.is_list() { is.items().to_vec() } else { vec![is.clone()] };
    let keys = ["status", "reason", "message"];
    let parts = keys.into_iter().zip(said).chain([("type", Tree::from(kind))]);
    Tree::map(parts.collect::<Vec<_>>())
}

/// Expands a usage in the ClusterQueue's status: of its only flavor, or of `{cpu: 3, queue: other-{ns}, flavor: …}`.
fn usage(key: &str, said: &Tree) -> Tree {
    let cpu = if said.is_map() { said.get("cpu").cloned().unwrap_or_default() } else { said.clone() };
    let name = |word: &str| said.get(word).and_then(Tree::as_str).unwrap_or("{ns}").to_owned();
    let total = tree!({"name": "cpu", "total": to_text(&cpu)});
    let flavor = tree!({"name": name("flavor"), "resources": [total]});
    let has = tree!({"status": Tree::map([(key, tree!([flavor]))])});
    tree!({"until": {"kind": "ClusterQueue", "name": name("queue"), "has": has}})
}

/// Expands the regarding object: `{pod: a, reason: …}` or `{workload: g, reason: …}`.
fn event_object(said: &Tree) -> Tree {
    for (word, kind) in [("pod", "Pod"), ("workload", "Workload"), ("job", "Job")] {
        if let Some(name) = said.get(word) {
            return said.without_key(word).with(&["kind"], kind).with(&["name"], name.clone());
        }
    }
    said.clone()
}

/// Expands a create that must be rejected: `{make: {…}, code, says, causes}`.
fn rejected_create(said: &Tree) -> Result<Tree, String> {
    let pod = pods(said.get("make").ok_or("`make` is missing")?)?.into_iter().next();
    let answer = tree!({"code": 403}).merge(&said.without_key("make"));
    Ok(tree!({"send": answer.with(&["create"], pod.ok_or("`make` has no pod")?)}))
}

/// Expands a patch that must be rejected: `{pod: a, patch: {…}, code, says}`.
fn rejected_patch(said: &Tree) -> Tree {
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
    fn pod_shorthand_is_expanded() {
        let made = step(&read("make: {pods: [a, b], group: g, count: 2, run: 3, queue: null}")).unwrap();
        let names: Vec<&str> = made.iter().map(|it| it.str_at(&["create", "metadata", "name"])).collect();
        assert_eq!(names, ["a", "b"]);
        let meta = made[0].at(&["create", "metadata"]).unwrap();
        assert_eq!(meta.at(&["labels"]), Some(&tree!({"kueue.x-k8s.io/pod-group-name": "g"})));
        assert_eq!(meta.str_at(&["annotations", "kueue.x-k8s.io/pod-group-count"]), "2");
        assert_eq!(meta.str_at(&["annotations", "muster.dev/sim-run-seconds"]), "3");
        assert!(step(&read("make: {pod: a, grop: g}")).is_err(), "an unknown key is an error");
    }

    #[test]
    fn assertion_shorthand_is_expanded() {
        for (short, want) in [
            ("open: [a]", "until: {kind: Pod, name: a, has: {spec: {schedulingGates: <none>}}}"),
            ("gone: [a]", "gone: {kind: Pod, name: a}"),
            ("gone: {kind: Workload, name: g}", "gone: {kind: Workload, name: g}"),
            (
                "workload: {name: g, sets: {main: 2}, is: {Admitted: 'True', Evicted: ['False', Why]}}",
                "until: {kind: Workload, name: g, has: {spec: {podSets: [{name: main, count: 2}]}, status: {conditions: \
                 [{type: Admitted, status: 'True'}, {type: Evicted, status: 'False', reason: Why}]}}}",
            ),
            ("event: {pod: a, reason: R}", "event: {kind: Pod, name: a, reason: R}"),
            (
                "patch_rejected: {pod: a, patch: {x: 1}, says: [no]}",
                "send: {code: 403, says: [no], patch: {kind: Pod, name: a, patch: {x: 1}}}",
            ),
        ] {
            assert_eq!(step(&read(short)).unwrap(), [read(want)], "{short}");
        }
    }
}
