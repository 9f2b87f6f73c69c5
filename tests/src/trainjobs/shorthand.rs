//! Shorthand for TrainJobs, their runtimes and assertions about them.
//!
//! ```yaml
//! runtime: {policy: {torch: {}}, jobs: [{name: node, step: trainer, run: 1}]}   # `r`, or with `cluster: true` `{ns}`
//! job: {trainer: {numNodes: 2}, ttl: 2, deadline: 3, suspend: true}             # `tj`, of `r`
//! steps:
//! - refused: {make: {ttl: -1}, says: [ttlSecondsAfterFinished]}       # 422; `denied` is 403, `accepted` 201, all as a dry run
//! - patch_rejected: {patch: {spec: {…}}, says: [field is immutable]}  # a patch that is rejected; `changed` is one that is accepted
//! - is: {Complete: ['True', AllJobsCompleted]}                        # conditions, some of them
//! - conditions: [[Complete, 'True', AllJobsCompleted, words]]         # all of them, in order
//! - counts: [node 1 0 0 1 0]                                          # ready, succeeded, failed, active, suspended
//! - made: {node/node env: [A=1], Secret/tj-x data: {…}}               # exact values at paths of the dependents
//! - event: {reason: Completed}
//! - overdue: {seconds: 2}                                             # failed by its deadline, and not too early
//! - deleted: {seconds: 2, after: Complete}                            # of a TrainJob with `held`: terminating, and not too early
//! - released: {}                                                      # removes the finalizer, after which it is deleted
//! ```
//!
//! Paths in `made` are `set PATH`, `JOB/job PATH`, `JOB/pod PATH` (the pod template), `JOB/CONTAINER PATH`, `JOB/init/CONTAINER PATH` and
//! `Kind/name PATH`; variables are `NAME=value`, with `<index>` for the completion index. Every other step is one of
//! [`lifecycle`](crate::lifecycle).

use muster_tree::{Tree, tree};

use crate::lifecycle::jobset_shorthand;

/// Default name of a TrainJob, and of its JobSet.
pub const JOB: &str = "tj";
/// Default name of a TrainingRuntime.
const RUNTIME: &str = "r";
/// Default name of a ClusterTrainingRuntime.
const CLUSTER_RUNTIME: &str = "{ns}";
/// Finalizer of TrainJobs with `held`.
const HOLD: &str = "example.com/hold";
/// Message of the condition `Failed` after the deadline.
const OVERDUE: &str = "TrainJob exceeded its active deadline";

/// Keys of a TrainJob that are fields of its spec.
const FIELDS: [(&str, &str); 6] = [
    ("ttl", "ttlSecondsAfterFinished"),
    ("deadline", "activeDeadlineSeconds"),
    ("suspend", "suspend"),
    ("trainer", "trainer"),
    ("initializer", "initializer"),
    ("managedBy", "managedBy"),
];
/// Other keys of a TrainJob.
const OF_JOB: [&str; 8] = ["name", "runtime", "patches", "labels", "annotations", "metadata", "spec", "held"];
/// Keys of a runtime.
const OF_RUNTIME: [&str; 12] = [
    "name", "cluster", "policy", "groups", "jobs", "run", "exit", "set", "meta", "labels", "metadata", "spec",
];
/// Keys of a runtime patch.
const OF_PATCH: [&str; 4] = ["by", "time", "set", "jobs"];

/// Expands a step in shorthand; other steps are returned unchanged.
pub fn step(short: &Tree) -> Result<Vec<Tree>, String> {
    let [(word, said)] = short.entries() else { return Err(format!("no step: {}", short.to_json())) };
    let steps = match word.as_str() {
        "make" => vec![tree!({"create": train_job(said)?})],
        "runtime" => vec![tree!({"create": runtime(said)?})],
        "refused" if said.get("patch").is_none() => vec![dry_run(said, 422)?],
        "denied" => vec![dry_run(said, 403)?],
        "accepted" => vec![dry_run(said, 201)?],
        "patch_rejected" => vec![change(said, 422)],
        "changed" => vec![change(said, 200)],
        "is" => vec![has_conditions(said)],
        "conditions" => vec![conditions(said)],
        "counts" => vec![counts(said)?],
        "made" => exact_values(said)?,
        "nothing" => none_left(said),
        "overdue" => overdue(said),
        "deleted" => deleted(said),
        "released" => released(said),
        "stays" if said.is_list() => vec![tree!({"stays": {"seconds": 1, "what": steps(said)?}})],
        "stays" => {
            let what = steps(said.get("what").unwrap_or(&Tree::Null))?;
            vec![tree!({"stays": said.with_key("what", what)})]
        }
        _ => vec![short.clone()],
    };
    Ok(steps)
}

fn steps(all: &Tree) -> Result<Tree, String> {
    let all = all.items().iter().map(step).collect::<Result<Vec<_>, _>>()?;
    Ok(Tree::list(all.concat()))
}

/// Expands a TrainJob in shorthand.
pub fn train_job(said: &Tree) -> Result<Tree, String> {
    let known = FIELDS.iter().map(|(word, _)| *word).chain(OF_JOB);
    reject_unknown_keys("a TrainJob", said, &known.collect::<Vec<_>>())?;
    let given = FIELDS.iter().filter_map(|(word, field)| Some((*field, said.get(word)?.clone())));
    let patches = said.items_at(&["patches"]).iter().map(patch).collect::<Result<Vec<_>, _>>()?;
    let patches = (!patches.is_empty()).then(|| ("runtimePatches", Tree::list(patches)));
    let spec = tree!({"runtimeRef": reference(said.get("runtime"))})
        .with_all(given.chain(patches))
        .merge(&or_empty(said.get("spec")));
    Ok(tree!({"kind": "TrainJob", "metadata": metadata(said, JOB), "spec": spec}))
}

trait WithAll {
    /// Adds entries to a map, including nulls.
    fn with_all<'a>(self, all: impl Iterator<Item = (&'a str, Tree)>) -> Tree;
}

impl WithAll for Tree {
    fn with_all<'a>(self, all: impl Iterator<Item = (&'a str, Tree)>) -> Tree {
        all.fold(self, |tree, (key, value)| tree.with_key(key, value))
    }
}

/// Builds the runtime reference: the TrainingRuntime by default, a ClusterTrainingRuntime by name, or as written.
fn reference(said: Option<&Tree>) -> Tree {
    match said {
        None => tree!({"name": RUNTIME, "kind": "TrainingRuntime"}),
        Some(Tree::Text(name)) => tree!({"name": name.clone()}),
        Some(other) => other.clone(),
    }
}

/// Builds the metadata; `held` adds a finalizer.
fn metadata(said: &Tree, plain: &str) -> Tree {
    let name = said.get("name").cloned().unwrap_or_else(|| Tree::from(plain));
    let copied =
        ["labels", "annotations"].into_iter().filter_map(|word| Some((word, said.get(word)?.clone())));
    let held = (said.bool_at(&["held"]) == Some(true)).then(|| ("finalizers", tree!([HOLD])));
    tree!({"name": name}).with_all(copied.chain(held)).merge(&or_empty(said.get("metadata")))
}

/// Expands a runtime patch `{by, time, set: metadata of the JobSet, jobs: {NAME: {meta, pods, pod}}}`, where `meta` is the metadata of
/// the Job, `pods` that of its pods, and `pod` their spec.
fn patch(said: &Tree) -> Result<Tree, String> {
    if said.get("by").is_none() {
        return Ok(said.clone());
    }
    reject_unknown_keys("a patch", said, &OF_PATCH)?;
    let job = |(name, of): &(muster_tree::Text, Tree)| {
        reject_unknown_keys("a patched job", of, &["meta", "pods", "pod"])?;
        let pods = some([("metadata", of.get("pods")), ("spec", of.get("pod"))]);
        let spec = pods.map(|pods| tree!({"template": pods}));
        let template = some([("metadata", of.get("meta")), ("spec", spec.as_ref())]);
        Ok(tree!({"name": name}).with_all(template.into_iter().map(|it| ("template", it))))
    };
    let jobs = said.entries_at(&["jobs"]).iter().map(job).collect::<Result<Vec<Tree>, String>>()?;
    let jobs = (!jobs.is_empty()).then(|| tree!({"replicatedJobs": Tree::list(jobs)}));
    let template = some([("metadata", said.get("set")), ("spec", jobs.as_ref())]);
    let whole = template.map(|template| tree!({"template": template}));
    let by = tree!({"manager": said.get("by").cloned().unwrap_or_default()});
    let more = some([("time", said.get("time")), ("trainingRuntimeSpec", whole.as_ref())]);
    Ok(by.merge(&or_empty(more.as_ref())))
}

/// Builds a map of the present values; `None` if there are none.
fn some<'a>(parts: impl IntoIterator<Item = (&'a str, Option<&'a Tree>)>) -> Option<Tree> {
    let there = parts.into_iter().filter_map(|(key, value)| Some((key, value?.clone())));
    let there = Tree::empty_map().with_all(there);
    (!there.is_empty()).then_some(there)
}

/// Expands a runtime in shorthand. Without `jobs` it has one training Job with one pod.
pub fn runtime(said: &Tree) -> Result<Tree, String> {
    reject_unknown_keys("a runtime", said, &OF_RUNTIME)?;
    let (kind, name) = match said.bool_at(&["cluster"]) {
        Some(true) => ("ClusterTrainingRuntime", CLUSTER_RUNTIME),
        _ => ("TrainingRuntime", RUNTIME),
    };
    let life = ["run", "exit"].into_iter().filter_map(|word| Some((word, said.get(word)?.clone())));
    let plain = tree!({"name": "node", "step": "trainer"}).with_all(life);
    let jobs = match said.get("jobs") {
        Some(jobs) => jobset_shorthand::replicated_jobs(jobs.items())?,
        None => jobset_shorthand::replicated_jobs(&[plain])?,
    };
    let set = tree!({"replicatedJobs": Tree::list(jobs)}).merge(&or_empty(said.get("set")));
    let template = some([("metadata", said.get("meta")), ("spec", Some(&set))]);
    let policies = [("mlPolicy", said.get("policy")), ("podGroupPolicy", said.get("groups"))];
    let spec = some(policies.into_iter().chain([("template", template.as_ref())]));
    let spec = or_empty(spec.as_ref()).merge(&or_empty(said.get("spec")));
    Ok(tree!({"kind": kind, "metadata": metadata(said, name), "spec": spec}))
}

/// Expands a dry run and the expected status code: `{make | runtime | create, says, warns, has, …}`.
fn dry_run(said: &Tree, code: i64) -> Result<Tree, String> {
    let what = ["make", "runtime", "create"].into_iter().find_map(|word| Some((word, said.get(word)?)));
    let (word, given) = what.ok_or("the request has no object")?;
    let object = match word {
        "make" => train_job(given)?,
        "runtime" => runtime(given)?,
        _ => given.clone(),
    };
    let answer = tree!({"code": code, "query": "dryRun=All"}).merge(&said.without_key(word));
    Ok(tree!({"send": answer.with_key("create", object)}))
}

/// Expands a patch of the TrainJob, or of the object in `of`, and the expected status code.
fn change(said: &Tree, code: i64) -> Tree {
    let patch = said.get("patch").cloned().unwrap_or_default();
    let of = said.get("of").cloned().unwrap_or_else(|| tree!({"kind": "TrainJob", "name": JOB}));
    let answer = tree!({"code": code}).merge(&said.without_key("patch").without_key("of"));
    tree!({"send": answer.with_key("patch", of.with_key("patch", patch))})
}

/// Expands conditions by type, each with its status or `[status, reason, message]`; of the TrainJob in `of`.
fn has_conditions(said: &Tree) -> Tree {
    let all = said.without_key("of");
    let all = all.entries().iter().map(|(kind, is)| match is {
        Tree::List(_) => condition(kind, is.items()),
        status => condition(kind, std::slice::from_ref(status)),
    });
    let has = tree!({"status": {"conditions": Tree::list(all.collect::<Vec<_>>())}});
    tree!({"until": {"kind": "TrainJob", "name": name(said), "has": has}})
}

fn name(said: &Tree) -> String {
    said.get("of").and_then(Tree::as_str).unwrap_or(JOB).to_owned()
}

fn condition(kind: &str, said: &[Tree]) -> Tree {
    let parts = ["status", "reason", "message"].into_iter().zip(said.iter().cloned());
    Tree::map(parts.chain([("type", Tree::from(kind))]).collect::<Vec<_>>())
}

fn conditions(said: &Tree) -> Tree {
    let all = said.items().iter().filter_map(|it| it.items().split_first());
    let all = all.map(|(kind, rest)| condition(kind.as_str().unwrap_or_default(), rest));
    let all = (!said.items().is_empty()).then(|| Tree::list(all.collect::<Vec<_>>()));
    tree!({"exact": {"at": ["status", "conditions"], "is": all.unwrap_or_default()}})
}

fn counts(said: &Tree) -> Result<Tree, String> {
    let one = |line: &Tree| {
        let words: Vec<&str> = line.as_str().unwrap_or_default().split(' ').collect();
        let [name, numbers @ ..] = &words[..] else { return Err("a count needs a name".to_owned()) };
        let numbers = numbers.iter().map(|it| it.parse::<i64>().map_err(|e| format!("{it:?}: {e}")));
        let [ready, succeeded, failed, active, suspended] = numbers.collect::<Result<Vec<_>, _>>()?[..]
        else {
            return Err(format!("{line} has other than five numbers"));
        };
        Ok(tree!({"name": *name, "ready": ready, "succeeded": succeeded, "failed": failed, "active": active,
            "suspended": suspended}))
    };
    let all = said.items().iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(tree!({"exact": {"at": ["status", "jobsStatus"], "is": Tree::list(all)}}))
}

/// Expands exact values at paths; the JobSet is that of the TrainJob in `of`.
fn exact_values(said: &Tree) -> Result<Vec<Tree>, String> {
    let set = name(said);
    let all = said.without_key("of");
    all.entries().iter().map(|(place, is)| exact_value(&set, place, is)).collect()
}

fn exact_value(set: &str, place: &str, is: &Tree) -> Result<Tree, String> {
    let (what, path) = place.split_once(' ').unwrap_or((place, ""));
    let pods = ["template", "spec", "template"];
    let of = |job: &str, rest: &[&str]| {
        let all = ["spec", "replicatedJobs", job].into_iter().chain(rest.iter().copied());
        all.map(Tree::from).collect::<Vec<_>>()
    };
    let parts: Vec<&str> = what.split('/').collect();
    let (kind, name, mut at) = match parts[..] {
        ["set"] => ("JobSet", set, Vec::new()),
        [kind, name] if kind.starts_with(char::is_uppercase) => (kind, name, Vec::new()),
        [job, "job"] => ("JobSet", set, of(job, &[])),
        [job, "pod"] => ("JobSet", set, of(job, &pods)),
        [job, "init", one] => {
            ("JobSet", set, of(job, &[&pods[..], &["spec", "initContainers", one]].concat()))
        }
        [job, one] => ("JobSet", set, of(job, &[&pods[..], &["spec", "containers", one]].concat())),
        _ => return Err(format!("{place:?} is no path")),
    };
    let keys = path.split('.').filter(|key| !key.is_empty());
    at.extend(keys.map(|key| key.parse::<i64>().map_or_else(|_| Tree::from(key), Tree::from)));
    let is = if path == "env" { variables(is)? } else { is.clone() };
    Ok(tree!({"exact": {"kind": kind, "name": name, "at": Tree::list(at), "is": is}}))
}

/// Expands `NAME=value`, and `NAME=<index>` for the completion index.
fn variables(said: &Tree) -> Result<Tree, String> {
    const INDEX: &str = "metadata.annotations['batch.kubernetes.io/job-completion-index']";
    if !said.is_list() {
        return Ok(said.clone());
    }
    let one = |line: &Tree| match line.as_str().and_then(|line| line.split_once('=')) {
        Some((name, "<index>")) => Ok(tree!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": INDEX}}})),
        Some((name, value)) => Ok(tree!({"name": name, "value": value})),
        None if line.is_map() => Ok(line.clone()),
        None => Err(format!("{line} is no variable")),
    };
    Ok(Tree::list(said.items().iter().map(one).collect::<Result<Vec<_>, _>>()?))
}

/// Expands to the assertion that no object of these kinds exists.
fn none_left(kinds: &Tree) -> Vec<Tree> {
    kinds.items().iter().map(|kind| tree!({"count": {"kind": kind.clone(), "count": 0}})).collect()
}

/// Expands to: failed by its deadline, counted from its creation, or from its last start with `from: resume`; its JobSet is deleted.
fn overdue(said: &Tree) -> Vec<Tree> {
    let name = name(said);
    let from = match said.str_at(&["from"]) {
        "resume" => tree!(["status", "conditions", "Suspended", "lastTransitionTime"]),
        _ => tree!(["metadata", "creationTimestamp"]),
    };
    let seconds = said.int_at(&["seconds"]).unwrap_or_default();
    vec![
        has_conditions(&tree!({"of": &name, "Failed": ["True", "DeadlineExceeded", OVERDUE]})),
        tree!({"apart": {"kind": "TrainJob", "name": &name, "from": from,
            "to": ["status", "conditions", "Failed", "lastTransitionTime"], "seconds": seconds}}),
        tree!({"gone": {"kind": "JobSet", "name": &name}}),
    ]
}

/// Expands to: terminating since the TTL after its end, with only our finalizer; its JobSet is deleted.
fn deleted(said: &Tree) -> Vec<Tree> {
    let (name, seconds) = (name(said), said.int_at(&["seconds"]).unwrap_or_default());
    let end = said.text_at(&["after"]);
    vec![
        tree!({"apart": {"kind": "TrainJob", "name": &name,
            "from": ["status", "conditions", end, "lastTransitionTime"],
            "to": ["metadata", "deletionTimestamp"], "seconds": seconds}}),
        tree!({"exact": {"kind": "TrainJob", "name": &name, "at": ["metadata", "finalizers"], "is": [HOLD]}}),
        tree!({"gone": {"kind": "JobSet", "name": &name}}),
    ]
}

fn released(said: &Tree) -> Vec<Tree> {
    let name = name(said);
    vec![
        tree!({"patch": {"kind": "TrainJob", "name": &name, "patch": {"metadata": {"finalizers": Tree::Null}}}}),
        tree!({"gone": {"kind": "TrainJob", "name": &name}}),
    ]
}

fn reject_unknown_keys(what: &str, said: &Tree, known: &[&str]) -> Result<(), String> {
    let odd = said.entries().iter().find(|(key, _)| !known.contains(&key.as_str()));
    odd.map_or(Ok(()), |(key, _)| Err(format!("{what} has no {key:?}")))
}

fn or_empty(tree: Option<&Tree>) -> Tree {
    tree.cloned().unwrap_or_else(Tree::empty_map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tree {
        Tree::parse_yaml(text).unwrap()
    }

    #[test]
    fn trainjob_shorthand_is_expanded() {
        let short = "{ttl: 0, held: true, labels: {a: b}, trainer: {numNodes: 2}, patches: [{by: a.io/b, jobs: {node: {pod: {nodeSelector: {c: d}}}}}]}";
        let want = "{kind: TrainJob, metadata: {name: tj, labels: {a: b}, finalizers: [example.com/hold]}, spec: {runtimeRef: {name: r, \
            kind: TrainingRuntime}, ttlSecondsAfterFinished: 0, trainer: {numNodes: 2}, runtimePatches: [{manager: a.io/b, \
            trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {nodeSelector: \
            {c: d}}}}}}]}}}}]}}";
        assert_eq!(train_job(&read(short)).unwrap(), read(want));
        assert!(train_job(&read("{tll: 0}")).is_err(), "an unknown key is an error");
    }

    #[test]
    fn runtime_shorthand_is_expanded() {
        let made = runtime(&read("{cluster: true, policy: {torch: {}}, run: 1}")).unwrap();
        assert_eq!(
            (made.str_at(&["kind"]), made.str_at(&["metadata", "name"])),
            ("ClusterTrainingRuntime", "{ns}")
        );
        assert_eq!(made.at(&["spec", "mlPolicy"]), Some(&tree!({"torch": {}})));
        let jobs = made.items_at(&["spec", "template", "spec", "replicatedJobs"]);
        assert_eq!(jobs.len(), 1);
        let sim = jobs[0].str_at(&[
            "template",
            "spec",
            "template",
            "metadata",
            "annotations",
            "muster.dev/sim-run-seconds",
        ]);
        assert_eq!(sim, "1");
    }

    #[test]
    fn assertion_shorthand_is_expanded() {
        for (short, want) in [
            (
                "is: {Complete: 'True'}",
                "until: {kind: TrainJob, name: tj, has: {status: {conditions: [{type: Complete, status: 'True'}]}}}",
            ),
            ("conditions: []", "exact: {at: [status, conditions], is: null}"),
            (
                "counts: [node 1 2 3 4 5]",
                "exact: {at: [status, jobsStatus], is: [{name: node, ready: 1, succeeded: 2, failed: 3, active: 4, suspended: 5}]}",
            ),
            (
                "made: {node/node env: [A=b=c]}",
                "exact: {kind: JobSet, name: tj, at: [spec, replicatedJobs, node, template, spec, template, spec, containers, node, \
                 env], is: [{name: A, value: b=c}]}",
            ),
            ("made: {Secret/s data: {a: b}}", "exact: {kind: Secret, name: s, at: [data], is: {a: b}}"),
            (
                "patch_rejected: {patch: {spec: {suspend: true}}, says: [no]}",
                "send: {code: 422, says: [no], patch: {kind: TrainJob, name: tj, patch: {spec: {suspend: true}}}}",
            ),
        ] {
            assert_eq!(step(&read(short)).unwrap(), [read(want)], "{short}");
        }
    }
}
