//! JobSets in few words: `jobs` beside `spec` stands for replicatedJobs of simulated pods.
//!
//! ```yaml
//! jobs:
//! - {name: w, replicas: 2, pods: 3, run: 1, exit: 1, after: {driver: Ready}, mounts: [data], job: {…}, pod: {…}}
//! ```
//!
//! `run`, `exit` and `start` are what the simulated pods do (they run for long unless told otherwise), `pods` is how many
//! of them each Job has, `job`, `pod` and `container` are merged into the specs. A pod that fails is not tried again, so that
//! one failure is the failure of its Job. `step` makes it that step of training, whose container has the name that such
//! steps look for. All other keys are those of a replicatedJob.

use muster_tree::{Tree, tree};

/// The name of a JobSet that is given none.
pub const NAME: &str = "js";
/// Pods run longer than any test unless told otherwise.
const RUN_SECONDS: i64 = 900;
/// Keys of a replicatedJob that stand for themselves.
const PLAIN: [&str; 5] = ["name", "replicas", "groupName", "dependsOn", "resourceClaimTemplates"];
/// Keys that stand for something else.
const SHORT: [&str; 11] =
    ["run", "exit", "start", "pods", "after", "mounts", "job", "pod", "container", "step", "template"];
/// The label of Jobs that are steps of training.
const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";

/// A JobSet with all that its few words stand for.
pub fn whole(manifest: &Tree) -> Result<Tree, String> {
    let jobs = all(manifest.items_at(&["jobs"]))?;
    let plain = if manifest.at(&["metadata", "generateName"]).is_some() {
        tree!({"kind": "JobSet"})
    } else {
        tree!({"kind": "JobSet", "metadata": {"name": NAME}})
    };
    let plain =
        if jobs.is_empty() { plain } else { plain.with(&["spec", "replicatedJobs"], Tree::list(jobs)) };
    Ok(plain.merge(&manifest.without_key("jobs")))
}

/// replicatedJobs with all that their few words stand for.
pub fn all(jobs: &[Tree]) -> Result<Vec<Tree>, String> {
    jobs.iter().map(replicated).collect()
}

/// A patch in which `jobs` stands for all replicatedJobs, with what admission filled in when they were made.
pub fn patch(patch: &Tree) -> Result<Tree, String> {
    let Some(jobs) = patch.get("jobs") else { return Ok(patch.clone()) };
    let mode = tree!({"template": {"spec": {"completionMode": "Indexed"}}});
    let jobs = jobs.items().iter().map(|job| Ok(mode.merge(&replicated(job)?)));
    let jobs = Tree::list(jobs.collect::<Result<Vec<_>, String>>()?);
    Ok(patch.without_key("jobs").with(&["spec", "replicatedJobs"], jobs))
}

fn replicated(job: &Tree) -> Result<Tree, String> {
    let odd = job
        .entries()
        .iter()
        .find(|(key, _)| !PLAIN.contains(&key.as_str()) && !SHORT.contains(&key.as_str()));
    if let Some((key, _)) = odd {
        return Err(format!("a job of a JobSet has no {key:?}"));
    }
    let kept = job.entries().iter().filter(|(key, _)| PLAIN.contains(&key.as_str())).cloned();
    let mut made = Tree::map(kept.collect::<Vec<_>>());
    if let Some(after) = job.get("after") {
        let each =
            after.entries().iter().map(|(name, status)| tree!({"name": name, "status": status.clone()}));
        made = made.with(&["dependsOn"], Tree::list(each.collect::<Vec<_>>()));
    }
    let given = job.get("template").cloned().unwrap_or(Tree::empty_map());
    Ok(made.with(&["template"], template(job).merge(&given)))
}

fn template(job: &Tree) -> Tree {
    let mounts = job.items_at(&["mounts"]).iter();
    let mounts: Vec<Tree> = mounts
        .map(|name| tree!({"name": name.clone(), "mountPath": format!("/{}", name.as_str().unwrap_or_default())}))
        .collect();
    let container = tree!({"name": container(job), "image": "work"}).merge(&or_empty(job.get("container")));
    let container =
        if mounts.is_empty() { container } else { container.with(&["volumeMounts"], Tree::list(mounts)) };
    let pod = tree!({"restartPolicy": "Never", "containers": [container]}).merge(&or_empty(job.get("pod")));
    let spec = tree!({"backoffLimit": 0, "template": {"metadata": {"annotations": sim(job)}, "spec": pod}});
    let spec = match job.get("pods") {
        Some(pods) => spec.with(&["parallelism"], pods.clone()).with(&["completions"], pods.clone()),
        None => spec,
    };
    let template = tree!({"spec": spec.merge(&or_empty(job.get("job")))});
    match job.get("step") {
        Some(step) => template.with(&["metadata", "labels", STEP], step.clone()),
        None => template,
    }
}

/// The name of the container that does the work of a Job.
fn container(job: &Tree) -> &str {
    match job.str_at(&["step"]) {
        "" => "main",
        "trainer" => "node",
        step => step,
    }
}

/// The annotations of simulated pods.
fn sim(job: &Tree) -> Tree {
    let told =
        |key: &str| job.get(key).map(|value| value.as_str().map_or_else(|| value.to_json(), str::to_owned));
    let run = told("run").unwrap_or_else(|| RUN_SECONDS.to_string());
    let all = [("run-seconds", Some(run)), ("exit-code", told("exit")), ("start-seconds", told("start"))];
    let all = all
        .into_iter()
        .filter_map(|(key, value)| Some((format!("muster.dev/sim-{key}"), Tree::from(value?))));
    Tree::map(all.collect::<Vec<_>>())
}

fn or_empty(tree: Option<&Tree>) -> Tree {
    tree.cloned().unwrap_or(Tree::empty_map())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_words_become_a_jobset() {
        let short = tree!({"jobs": [{"name": "w", "replicas": 2, "pods": 3, "exit": 1, "after": {"d": "Ready"},
            "mounts": ["data"], "job": {"backoffLimit": 1}}], "spec": {"suspend": true}});
        let whole = whole(&short).unwrap();
        let job = &whole.items_at(&["spec", "replicatedJobs"])[0];
        assert_eq!(whole.str_at(&["metadata", "name"]), NAME);
        assert_eq!(whole.bool_at(&["spec", "suspend"]), Some(true));
        assert_eq!(job.at(&["dependsOn"]).unwrap(), &tree!([{"name": "d", "status": "Ready"}]));
        let spec = job.at(&["template", "spec"]).unwrap();
        assert_eq!(
            ["parallelism", "completions", "backoffLimit"].map(|key| spec.int_at(&[key])),
            [Some(3), Some(3), Some(1)]
        );
        let annotations = spec.at(&["template", "metadata", "annotations"]).unwrap();
        assert_eq!(annotations.str_at(&["muster.dev/sim-exit-code"]), "1");
        let container = &spec.items_at(&["template", "spec", "containers"])[0];
        assert_eq!(
            container.at(&["volumeMounts"]).unwrap(),
            &tree!([{"name": "data", "mountPath": "/data"}])
        );
    }

    #[test]
    fn steps_of_training_have_their_container() {
        for (step, name) in [("trainer", "node"), ("model-initializer", "model-initializer")] {
            let made = all(&[tree!({"name": "w", "step": step, "container": {"image": "i"}})]).unwrap();
            let template = made[0].get("template").unwrap();
            assert_eq!(template.str_at(&["metadata", "labels", STEP]), step);
            let containers = template.items_at(&["spec", "template", "spec", "containers"]);
            assert_eq!(containers, [tree!({"name": name, "image": "i"})]);
        }
    }

    #[test]
    fn a_word_that_means_nothing_is_told() {
        assert!(super::whole(&tree!({"jobs": [{"name": "w", "ends": 1}]})).is_err());
    }
}
