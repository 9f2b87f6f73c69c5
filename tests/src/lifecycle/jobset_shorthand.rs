//! JobSet shorthand: `jobs` beside `spec` stands for replicatedJobs of simulated pods.
//!
//! ```yaml
//! jobs:
//! - {name: w, replicas: 2, pods: 3, run: 1, exit: 1, after: {driver: Ready}, mounts: [data], job: {…}, pod: {…}}
//! ```
//!
//! `run`, `exit` and `start` set run time, exit code and start delay of the simulated pods; `pods` is the parallelism of each Job; `job`,
//! `pod` and `container` are merged into the specs. `backoffLimit` is 0, so that one failed pod fails its Job. `step` labels the Job as
//! that step of a TrainJob and names its container accordingly. All other keys are those of a replicatedJob.

use muster_tree::{Tree, tree};

/// Default name of a JobSet.
pub const NAME: &str = "js";
/// Default run time of pods, longer than any test.
const RUN_SECONDS: i64 = 900;
/// Keys that are fields of a replicatedJob.
const PLAIN: [&str; 5] = ["name", "replicas", "groupName", "dependsOn", "resourceClaimTemplates"];
/// Keys of the shorthand.
const SHORT: [&str; 11] =
    ["run", "exit", "start", "pods", "after", "mounts", "job", "pod", "container", "step", "template"];
/// Label of Jobs that are steps of a TrainJob.
const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";

/// Expands the shorthand of a JobSet.
pub fn complete_jobset(manifest: &Tree) -> Result<Tree, String> {
    let jobs = replicated_jobs(manifest.items_at(&["jobs"]))?;
    let plain = if manifest.at(&["metadata", "generateName"]).is_some() {
        tree!({"kind": "JobSet"})
    } else {
        tree!({"kind": "JobSet", "metadata": {"name": NAME}})
    };
    let plain =
        if jobs.is_empty() { plain } else { plain.with(&["spec", "replicatedJobs"], Tree::list(jobs)) };
    Ok(plain.merge(&manifest.without_key("jobs")))
}

/// Expands the shorthand of replicatedJobs.
pub fn replicated_jobs(jobs: &[Tree]) -> Result<Vec<Tree>, String> {
    jobs.iter().map(replicated).collect()
}

/// Expands `jobs` in a patch to the whole list of replicatedJobs, with the fields that admission has defaulted.
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

/// Returns the name of the main container of a Job.
fn container(job: &Tree) -> &str {
    match job.str_at(&["step"]) {
        "" => "main",
        "trainer" => "node",
        step => step,
    }
}

/// Builds the annotations of simulated pods.
fn sim(job: &Tree) -> Tree {
    let text =
        |key: &str| job.get(key).map(|value| value.as_str().map_or_else(|| value.to_json(), str::to_owned));
    let run = text("run").unwrap_or_else(|| RUN_SECONDS.to_string());
    let all = [("run-seconds", Some(run)), ("exit-code", text("exit")), ("start-seconds", text("start"))];
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
    fn the_shorthand_is_expanded_to_a_jobset() {
        let short = tree!({"jobs": [{"name": "w", "replicas": 2, "pods": 3, "exit": 1, "after": {"d": "Ready"},
            "mounts": ["data"], "job": {"backoffLimit": 1}}], "spec": {"suspend": true}});
        let whole = complete_jobset(&short).unwrap();
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
    fn training_steps_name_their_container() {
        for (step, name) in [("trainer", "node"), ("model-initializer", "model-initializer")] {
            let made =
                replicated_jobs(&[tree!({"name": "w", "step": step, "container": {"image": "i"}})]).unwrap();
            let template = made[0].get("template").unwrap();
            assert_eq!(template.str_at(&["metadata", "labels", STEP]), step);
            let containers = template.items_at(&["spec", "template", "spec", "containers"]);
            assert_eq!(containers, [tree!({"name": name, "image": "i"})]);
        }
    }

    #[test]
    fn an_unknown_key_is_an_error() {
        assert!(super::complete_jobset(&tree!({"jobs": [{"name": "w", "ends": 1}]})).is_err());
    }
}
