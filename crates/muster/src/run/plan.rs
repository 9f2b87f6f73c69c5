//! Plans the submission: validates the documents, sorts them, and finds which of them are work.
//!
//! All checks that need only the discovery of the server are made here, before anything is submitted.
//!
//! # Guarantees
//!
//! - Pure: the same documents and served kinds give the same plan.
//! - Namespaces and CRDs come first, then training runtimes; otherwise the order of the files is kept.

use muster_api::client::Kind;
use muster_api::consts::DEFAULT_NAMESPACE;
use muster_api::train::consts as train;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES};
use muster_api::{kinds, meta};
use muster_cluster::ServedResource;
use muster_tree::{Text, Tree, tree};

use crate::run::files::{Document, Origin};

/// The kinds that count as work, unless an object in the files owns them.
const WORK: [(&str, &str); 4] =
    [("batch", "Job"), ("", "Pod"), ("jobset.x-k8s.io", "JobSet"), (train::GROUP, train::TRAIN_JOB)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedObject {
    pub origin: Origin,
    pub kind: Kind,
    /// The object, with its namespace set.
    pub tree: Tree,
    /// Whether the run follows it until it finishes.
    pub is_work: bool,
}

impl PlannedObject {
    /// `Kind name`, as in `Job train`.
    #[must_use]
    pub fn title(&self) -> String {
        let name = meta::name(&self.tree);
        let name = if name.is_empty() { self.tree.text_at(&["metadata", "generateName"]) } else { name };
        format!("{} {name}", meta::kind_name(&self.tree))
    }
}

/// The documents cannot be submitted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A document is invalid.
    #[error("{origin}: {problem}\n\nhint: {hint}")]
    Document { origin: Origin, problem: String, hint: String },
    /// No document is work.
    #[error(
        "there is no work in {files}\n\nhint: give a Job, a JobSet, a TrainJob or a Pod that no other object in the files owns; `muster up` serves objects without work"
    )]
    NoWork { files: String },
}

/// Plans the submission of these documents. `namespace` is the default of objects without one.
///
/// # Errors
/// The first document that cannot be submitted, or that no document is work.
pub fn plan(
    documents: &[Document],
    served: &[ServedResource],
    namespace: &str,
) -> Result<Vec<PlannedObject>, PlanError> {
    let mut known = served.to_vec();
    for document in documents {
        known.extend(defined(&document.tree));
    }
    let item = |document: &Document| item(document, &known, namespace, documents);
    let mut items: Vec<PlannedObject> = documents.iter().map(item).collect::<Result<_, _>>()?;
    reject_duplicates(&items)?;
    if !items.iter().any(|item| item.is_work) {
        return Err(PlanError::NoWork { files: files_of(documents) });
    }
    // A stable sort: within a rank the order of the files is kept.
    items.sort_by_key(|item| rank(&item.kind));
    Ok(items)
}

/// The plan, preceded by the namespaces that its objects need and no document creates.
#[must_use]
pub fn with_namespaces(items: &[PlannedObject]) -> Vec<PlannedObject> {
    let made = |name: &Text| {
        items.iter().any(|item| item.kind == kinds::NAMESPACES && meta::name(&item.tree) == *name)
    };
    let mut needed: Vec<(Text, &Origin)> =
        items.iter().map(|item| (meta::namespace(&item.tree), &item.origin)).collect();
    needed.sort_by(|a, b| a.0.cmp(&b.0));
    needed.dedup_by(|a, b| a.0 == b.0);
    let missing =
        needed.into_iter().filter(|(name, _)| !name.is_empty() && name != DEFAULT_NAMESPACE && !made(name));
    let namespace = |(name, origin): (Text, &Origin)| PlannedObject {
        origin: origin.clone(),
        kind: kinds::NAMESPACES.clone(),
        tree: tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        is_work: false,
    };
    missing.map(namespace).collect::<Vec<_>>().into_iter().chain(items.iter().cloned()).collect()
}

/// Rejects two documents of one object: the second create would fail while the work of the first is running.
fn reject_duplicates(items: &[PlannedObject]) -> Result<(), PlanError> {
    for (at, item) in items.iter().enumerate() {
        let name = meta::name(&item.tree);
        let same = |other: &&PlannedObject| {
            other.kind == item.kind
                && meta::name(&other.tree) == name
                && meta::namespace(&other.tree) == meta::namespace(&item.tree)
        };
        if let Some(first) = items[..at].iter().find(same).filter(|_| !name.is_empty()) {
            return Err(PlanError::Document {
                origin: item.origin.clone(),
                problem: format!("{} stands in {} already", item.title(), first.origin),
                hint: "give one of them another name, or name the file once".to_owned(),
            });
        }
    }
    Ok(())
}

/// The order of submission. Other objects may need a namespace or a CRD of the files; the validating webhook rejects a
/// TrainJob without an existing runtime.
fn rank(kind: &Kind) -> u8 {
    match kind.plural.as_str() {
        "namespaces" if kind.group.is_empty() => 0,
        "customresourcedefinitions" => 1,
        _ if *kind == TRAINING_RUNTIMES || *kind == CLUSTER_TRAINING_RUNTIMES => 2,
        _ => 3,
    }
}

fn item(
    document: &Document,
    known: &[ServedResource],
    namespace: &str,
    all: &[Document],
) -> Result<PlannedObject, PlanError> {
    let Document { origin, tree } = document;
    let wrong = |problem: String, hint: &str| PlanError::Document {
        origin: origin.clone(),
        problem,
        hint: hint.to_owned(),
    };
    if !tree.is_map() {
        return Err(wrong(
            format!("expected an object, found {}", tree.type_word()),
            "write `kind: Job` and so on",
        ));
    }
    let (version, word) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
    if version.is_empty() || word.is_empty() {
        let missing = if word.is_empty() { "kind" } else { "apiVersion" };
        return Err(wrong(format!("it has no {missing}"), "every manifest begins with apiVersion and kind"));
    }
    let names = |s: &&ServedResource| s.kind_name == word && meta::api_version(&s.kind) == version;
    let Some(found) = known.iter().find(names) else {
        return Err(wrong(format!("no kind {word} of {version} is served"), &others(word, known)));
    };
    let says = |key: &str| !tree.str_at(&["metadata", key]).is_empty();
    if !says("name") && !says("generateName") {
        return Err(wrong(format!("the {word} has no name"), "set metadata.name or metadata.generateName"));
    }
    let tree = match found.namespaced {
        true if !says("namespace") => tree.with(&["metadata", "namespace"], namespace),
        _ => tree.clone(),
    };
    let is_work = WORK.contains(&(found.kind.group.as_str(), word)) && !owned_inside(&tree, all);
    Ok(PlannedObject { origin: origin.clone(), kind: found.kind.clone(), tree, is_work })
}

/// Whether another document is the owner of this object.
fn owned_inside(tree: &Tree, all: &[Document]) -> bool {
    meta::owner_references(tree).any(|owner| {
        all.iter()
            .any(|other| meta::kind_name(&other.tree) == owner.kind && meta::name(&other.tree) == owner.name)
    })
}

/// The resources that a CRD defines.
fn defined(tree: &Tree) -> Vec<ServedResource> {
    if meta::kind_name(tree) != "CustomResourceDefinition" {
        return Vec::new();
    }
    let served = |version: &&Tree| version.bool_at(&["served"]) == Some(true);
    let versions = tree.items_at(&["spec", "versions"]).iter().filter(served);
    let kind = |version: &Tree| ServedResource {
        kind: Kind {
            group: tree.text_at(&["spec", "group"]),
            version: version.text_at(&["name"]),
            plural: tree.text_at(&["spec", "names", "plural"]),
        },
        kind_name: tree.text_at(&["spec", "names", "kind"]),
        namespaced: tree.str_at(&["spec", "scope"]) == "Namespaced",
    };
    versions.map(kind).collect()
}

fn others(word: &str, known: &[ServedResource]) -> String {
    let alike = known.iter().filter(|s| s.kind_name.eq_ignore_ascii_case(word));
    let words: Vec<String> = alike
        .map(|s| format!("`apiVersion: {}`, `kind: {}`", meta::api_version(&s.kind), s.kind_name))
        .collect();
    if words.is_empty() {
        return "`kubectl api-resources` lists the kinds; add the CustomResourceDefinition to the files"
            .to_owned();
    }
    format!("the server has {}", words.join(" and "))
}

fn files_of(documents: &[Document]) -> String {
    let mut files: Vec<&str> = documents.iter().map(|document| document.origin.file.as_str()).collect();
    files.dedup();
    if files.is_empty() { "the files".to_owned() } else { files.join(", ") }
}

#[cfg(test)]
mod tests {
    use muster_api::train::kinds::TRAIN_JOBS;

    use super::*;
    use crate::run::files;

    fn served() -> Vec<ServedResource> {
        let of = |kind: &Kind, word: &str| ServedResource {
            kind: kind.clone(),
            kind_name: word.into(),
            namespaced: !kinds::is_cluster_scoped(kind),
        };
        vec![
            of(&kinds::PODS, "Pod"),
            of(&kinds::JOBS, "Job"),
            of(&kinds::NAMESPACES, "Namespace"),
            of(&kinds::CONFIG_MAPS, "ConfigMap"),
            of(&kinds::CRDS, "CustomResourceDefinition"),
        ]
    }

    fn planned(text: &str) -> Result<Vec<PlannedObject>, PlanError> {
        plan(&files::documents("f.yaml", text).unwrap(), &served(), "here")
    }

    const JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n";

    #[test]
    fn definitions_and_namespaces_first_then_as_written() {
        let text = format!(
            "{JOB}---\napiVersion: thing.dev/v1\nkind: Thing\nmetadata: {{name: t}}\n---
apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.thing.dev}}
spec: {{group: thing.dev, scope: Cluster, names: {{plural: things, kind: Thing}}, versions: [{{name: v1, served: true}}]}}
---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: ns}}
---\napiVersion: v1\nkind: Pod\nmetadata: {{generateName: p-, namespace: ns}}\n"
        );
        let items = planned(&text).unwrap();
        let words: Vec<String> = items
            .iter()
            .map(|i| format!("{} in {:?} {}", i.title(), meta::namespace(&i.tree).as_str(), i.is_work))
            .collect();
        assert_eq!(
            words,
            [
                "Namespace ns in \"\" false",
                "CustomResourceDefinition things.thing.dev in \"\" false",
                "Job j in \"here\" true",
                "Thing t in \"\" false",
                "Pod p- in \"ns\" true",
            ]
        );
        let with = with_namespaces(&items);
        assert_eq!(with[0].title(), "Namespace here");
        assert_eq!(with[1..], items, "ns is made by a document");
    }

    #[test]
    fn runtimes_come_before_what_is_made_of_them() {
        let of = |kind: &Kind, word: &str, namespaced| ServedResource {
            kind: kind.clone(),
            kind_name: word.into(),
            namespaced,
        };
        let served = [
            of(&TRAIN_JOBS, "TrainJob", true),
            of(&TRAINING_RUNTIMES, "TrainingRuntime", true),
            of(&CLUSTER_TRAINING_RUNTIMES, "ClusterTrainingRuntime", false),
        ];
        let document =
            |kind: &str| format!("apiVersion: {}\nkind: {kind}\nmetadata: {{name: x}}\n", train::API_VERSION);
        let text = ["TrainJob", "TrainingRuntime", "ClusterTrainingRuntime"].map(document).join("---\n");
        let items = plan(&files::documents("f.yaml", &text).unwrap(), &served, "here").unwrap();
        let words: Vec<String> = items.iter().map(|it| format!("{} {}", it.title(), it.is_work)).collect();
        assert_eq!(words, ["TrainingRuntime x false", "ClusterTrainingRuntime x false", "TrainJob x true"]);
    }

    #[test]
    fn what_cannot_be_submitted_is_told_before_anything_is() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
        let owned = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: c, uid: u}]}\n";
        for (says, text, words) in [
            ("no kind", format!("{JOB}---\napiVersion: v1\n"), "f.yaml document 2: it has no kind"),
            ("no version", "kind: Job\n".to_owned(), "document 1: it has no apiVersion"),
            ("a list", "- 1\n".to_owned(), "expected an object, found array"),
            (
                "another version",
                JOB.replace("batch/v1", "batch/v2"),
                "the server has `apiVersion: batch/v1`, `kind: Job`",
            ),
            ("an unknown kind", JOB.replace("Job", "Jobset"), "add the CustomResourceDefinition"),
            ("no name", JOB.replace("name: j", ""), "the Job has no name"),
            ("nothing", String::new(), "there is no work in the files"),
            ("no work", map.to_owned(), "there is no work in f.yaml"),
            ("work that another owns", format!("{map}---\n{owned}"), "there is no work in f.yaml"),
        ] {
            let error = planned(&text).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("\n\nhint: "), "{says}: {error}");
        }
    }
}
