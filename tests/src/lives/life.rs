//! Lives as they stand in the YAML files.

use std::path::Path;

use muster_tree::{Tree, tree};
use serde::Deserialize;

use crate::documents;

/// The name of every Job.
pub const JOB: &str = "a";

/// One Job, or any objects, and what happens to them. `{ns}` stands for the namespace of the life in every text: what
/// has no namespace carries it in its name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Life {
    /// The file it stands in, without number and extension.
    #[serde(skip)]
    pub file: String,
    /// What it shows, as a sentence.
    pub name: String,
    /// The ids of `docs/requirements` that it shows; `cargo xtask requirements` reads them.
    #[serde(default)]
    pub shows: Vec<String>,
    /// Manifests that are created at the start, instead of a Job; what is plain about them may be left out.
    #[serde(default)]
    pub objects: Vec<Tree>,
    /// The Job's spec, merged over a plain one.
    #[serde(default)]
    pub job: Tree,
    /// The pods' spec, merged over a plain one.
    #[serde(default)]
    pub pod: Tree,
    /// Annotations of simulated pods without their prefix: `run-seconds`, `exit-code`, `start-seconds`.
    #[serde(default)]
    pub sim: Tree,
    /// What happens, in order.
    #[serde(default)]
    pub steps: Vec<Happening>,
}

/// One thing that happens, or that is waited for. Where a step is about the Job it may be about any other object as
/// well: `until: {kind: Pod, name: a, has: …}`, `patch: {kind: …, name: …, patch: …}` (with `part: status` for the
/// status), `delete: {kind: …, name: …}`, `gone: {kind: …, name: …}`. A name that ends with `*` stands for the first of its
/// kind that begins so. Scenarios of JobSets are made of the same steps; there they are about the JobSet.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Happening {
    /// Waits until the Job has at least this.
    Until(Tree),
    /// Waits until a condition of this type is true.
    Condition(String),
    /// Waits until so many pods are there that have at least this.
    Pods {
        /// How many.
        count: usize,
        /// What they have.
        #[serde(default)]
        has: Tree,
    },
    /// Waits until the Job is gone.
    Gone(Tree),
    /// A merge patch of the Job.
    Patch(Tree),
    /// A merge patch of the Job that both planes refuse.
    Refused(Tree),
    /// Deletes the Job with this propagation.
    Delete(Tree),
    /// A pod ends as its node would tell it.
    End {
        /// Of this index; the first of all that run when absent.
        #[serde(default)]
        index: Option<u32>,
        /// Or of this name.
        #[serde(default)]
        name: String,
        /// Of this Job; of any when empty.
        #[serde(default)]
        job: String,
        /// With this exit code.
        exit: i64,
        /// And these conditions.
        #[serde(default)]
        conditions: Vec<Tree>,
    },
    /// Deletes a pod.
    Kill {
        /// Of this index; the first of all when absent.
        #[serde(default)]
        index: Option<u32>,
    },
    /// A merge patch of a pod.
    Edit {
        /// Of this index; the first of all when absent.
        #[serde(default)]
        index: Option<u32>,
        /// The patch.
        patch: Tree,
    },
    /// Creates a further object.
    Create(Tree),
    /// Nothing happens for so many seconds.
    Seconds(f64),
    /// Waits until so many objects of a kind are there that have at least this.
    Count {
        /// The kind.
        kind: String,
        /// How many.
        count: usize,
        /// What they have.
        #[serde(default)]
        has: Tree,
    },
    /// Waits until what is at a place of an object is exactly this.
    Exact(Exact),
    /// Waits until both instants that an object tells are there, and the later one is not too early.
    Apart(Apart),
    /// Waits until an object was told of so.
    Event(Told),
    /// All of this is so, and stays so.
    Stays {
        /// For so many seconds.
        seconds: f64,
        /// Steps that wait for something.
        what: Vec<Happening>,
    },
    /// Keeps in mind which object this is, and its version.
    Remember(Known),
    /// Waits until the object is there and still the one that was kept in mind.
    Same(Known),
    /// Waits until another one than that is there.
    Renewed(Known),
    /// Nobody has written the object since it was kept in mind.
    Untouched(Known),
    /// Sends something and looks at the answer.
    Send(Request),
    /// Sends something that changes nothing, such as a dry run, until the answer is as it must be.
    Answered(Request),
}

/// What must be at a place of an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exact {
    /// The object; the subject when empty.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Keys, numbers of items, and names or types of items, from the top.
    pub at: Vec<Tree>,
    /// What is there, times left out; null for nothing at all.
    pub is: Tree,
}

/// Two instants that an object tells.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Apart {
    /// The object; the subject when empty.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Where the earlier one is, as in [`Exact`].
    pub from: Vec<Tree>,
    /// Where the later one is.
    pub to: Vec<Tree>,
    /// So many seconds after the other one at least.
    pub seconds: i64,
}

/// An event that must have been told of an object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Its reason.
    pub reason: String,
    /// `Normal` or `Warning`; any when empty.
    #[serde(default, rename = "type")]
    pub class: String,
    /// Its words, whole; any when empty.
    #[serde(default)]
    pub note: String,
    /// Words within them.
    #[serde(default)]
    pub says: Vec<String>,
    /// How often it was told in all, at least once when absent.
    #[serde(default)]
    pub times: Option<i64>,
    /// Of the object of this kind; of the subject's when empty.
    #[serde(default)]
    pub kind: String,
    /// And of this name; of the subject's when empty.
    #[serde(default)]
    pub name: String,
}

/// An object, and the word under which it is kept in mind.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The object; the subject when empty.
    #[serde(default)]
    pub kind: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// The word.
    pub r#as: String,
}

/// One request, and what its answer must be.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// A manifest to create.
    pub create: Tree,
    /// A manifest to apply.
    pub apply: Tree,
    /// A merge patch: `{kind, name, part, patch}`.
    pub patch: Tree,
    /// The query, such as `fieldValidation=Strict`.
    pub query: String,
    /// The code of the answer; any that accepts when 0.
    pub code: u16,
    /// Words of its message.
    pub says: Vec<String>,
    /// Causes it names: field, and words of the message.
    pub causes: Vec<Tree>,
    /// What its body has at least.
    pub has: Tree,
    /// Words of its warnings.
    pub warns: Vec<String>,
    /// Whether it has no warning.
    pub quiet: bool,
}

impl Life {
    /// The Job as it is created.
    #[must_use]
    pub fn manifest(&self) -> Tree {
        let annotations = self.sim.entries().iter().map(|(key, value)| {
            let text = value.as_str().map_or_else(|| value.to_json(), str::to_owned);
            (format!("muster.dev/sim-{key}"), Tree::from(text))
        });
        let plain = tree!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "work"}]});
        let base = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOB},
            "spec": {"template": {"metadata": {"annotations": Tree::map(annotations.collect::<Vec<_>>())},
                "spec": plain.merge(&or_empty(&self.pod))}}});
        base.merge(&tree!({"spec": or_empty(&self.job)}))
    }

    /// The same life, where every pod, and every template of pods, names this scheduler.
    #[must_use]
    pub fn scheduled_by(&self, scheduler: &str) -> Life {
        let named = |object: &Tree| named(object, scheduler);
        let steps = self.steps.iter().map(|step| match step {
            Happening::Create(object) => Happening::Create(named(object)),
            other => other.clone(),
        });
        Life {
            objects: self.objects.iter().map(named).collect(),
            pod: or_empty(&self.pod).with(&["schedulerName"], scheduler),
            steps: steps.collect(),
            ..self.clone()
        }
    }
}

/// An object whose pods name this scheduler, if it is or has any.
fn named(object: &Tree, scheduler: &str) -> Tree {
    match object.str_at(&["kind"]) {
        "Pod" => object.with(&["spec", "schedulerName"], scheduler),
        "Job" => object.with(&["spec", "template", "spec", "schedulerName"], scheduler),
        _ => object.clone(),
    }
}

fn or_empty(tree: &Tree) -> Tree {
    if tree.is_null() { Tree::empty_map() } else { tree.clone() }
}

/// Reads all lives of a folder, in order of file names. A file is a stream of YAML documents, one life each.
pub fn load(folder: &Path) -> Result<Vec<Life>, String> {
    let all = documents::load_with_files(folder)?;
    Ok(all.into_iter().map(|(file, life)| Life { file, ..life }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pods_of_a_life_name_the_scheduler() {
        let pod = tree!({"kind": "Pod", "spec": {"nodeName": ""}});
        let job = tree!({"kind": "Job"});
        let claim = tree!({"kind": "PersistentVolumeClaim", "spec": {}});
        let plain = tree!({"name": "plain"});
        let life: Life = muster_tree::from_tree(&plain).unwrap();
        let steps = vec![Happening::Create(pod.clone())];
        let life = Life { objects: vec![pod, job, claim.clone()], steps, ..life }.scheduled_by("s");
        let pod = tree!({"kind": "Pod", "spec": {"nodeName": "", "schedulerName": "s"}});
        let job = tree!({"kind": "Job", "spec": {"template": {"spec": {"schedulerName": "s"}}}});
        assert_eq!(life.objects, [pod.clone(), job, claim]);
        assert!(matches!(&life.steps[..], [Happening::Create(made)] if *made == pod));
        assert_eq!(life.manifest().str_at(&["spec", "template", "spec", "schedulerName"]), "s");
    }
}
