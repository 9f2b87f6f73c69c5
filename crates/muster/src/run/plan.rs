//! What is to be submitted, in which order, and what of it is the work.
//!
//! Everything that can be told without asking the server for more than its kinds is told here, before anything is
//! submitted.
//!
//! # Invariants
//!
//! - Pure: the same documents and kinds make the same plan.
//! - Definitions and namespaces come first, then runtimes; otherwise the order is that of the files.

use muster_api::port::Kind;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAINING_RUNTIMES};
use muster_api::train::words as train;
use muster_api::words::DEFAULT_NAMESPACE;
use muster_api::{kinds, meta};
use muster_cluster::Served;
use muster_tree::{Text, Tree, tree};

use crate::run::files::{Document, Origin};

/// The kinds that are work, when nothing in the files owns them.
const WORK: [(&str, &str); 4] =
    [("batch", "Job"), ("", "Pod"), ("jobset.x-k8s.io", "JobSet"), (train::GROUP, train::TRAIN_JOB)];

/// What is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Where it stands.
    pub origin: Origin,
    /// Its kind.
    pub kind: Kind,
    /// The object, with its namespace.
    pub tree: Tree,
    /// Whether it is work.
    pub is_work: bool,
}

impl Item {
    /// How people name it: `Job train`.
    #[must_use]
    pub fn title(&self) -> String {
        let name = meta::name(&self.tree);
        let name = if name.is_empty() { self.tree.text_at(&["metadata", "generateName"]) } else { name };
        format!("{} {name}", meta::kind_word(&self.tree))
    }
}

/// What is wrong with documents.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A document is no object.
    #[error("{origin}: {problem}\n\nhint: {hint}")]
    Document {
        /// Which one.
        origin: Origin,
        /// What is wrong.
        problem: String,
        /// What to do.
        hint: String,
    },
    /// There is no work.
    #[error(
        "there is no work in {files}\n\nhint: give a Job, a JobSet, a TrainJob or a Pod that no other object in the files owns; `muster up` serves objects without work"
    )]
    NoWork {
        /// What was read.
        files: String,
    },
}

/// Plans what these documents ask for. `namespace` is that of objects that name none.
///
/// # Errors
/// The first document that cannot be submitted, or that none is work.
pub fn plan(documents: &[Document], served: &[Served], namespace: &str) -> Result<Vec<Item>, PlanError> {
    let mut known = served.to_vec();
    for document in documents {
        known.extend(defined(&document.tree));
    }
    let item = |document: &Document| item(document, &known, namespace, documents);
    let mut items: Vec<Item> = documents.iter().map(item).collect::<Result<_, _>>()?;
    refuse_twins(&items)?;
    if !items.iter().any(|item| item.is_work) {
        return Err(PlanError::NoWork { files: files_of(documents) });
    }
    items.sort_by_key(|item| rank(&item.kind));
    Ok(items)
}

/// The same plan with the namespaces that it needs and no document makes, in front.
#[must_use]
pub fn with_namespaces(items: &[Item]) -> Vec<Item> {
    let made = |name: &Text| {
        items.iter().any(|item| item.kind == kinds::NAMESPACES && meta::name(&item.tree) == *name)
    };
    let mut needed: Vec<(Text, &Origin)> =
        items.iter().map(|item| (meta::namespace(&item.tree), &item.origin)).collect();
    needed.sort_by(|a, b| a.0.cmp(&b.0));
    needed.dedup_by(|a, b| a.0 == b.0);
    let missing =
        needed.into_iter().filter(|(name, _)| !name.is_empty() && name != DEFAULT_NAMESPACE && !made(name));
    let namespace = |(name, origin): (Text, &Origin)| Item {
        origin: origin.clone(),
        kind: kinds::NAMESPACES.clone(),
        tree: tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        is_work: false,
    };
    missing.map(namespace).collect::<Vec<_>>().into_iter().chain(items.iter().cloned()).collect()
}

/// Two documents for one object: the second would be refused when the first already runs.
fn refuse_twins(items: &[Item]) -> Result<(), PlanError> {
    for (at, item) in items.iter().enumerate() {
        let name = meta::name(&item.tree);
        let same = |other: &&Item| {
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

/// Others may live in namespaces, and be of kinds that definitions make; TrainJobs are refused before their runtime is
/// there.
fn rank(kind: &Kind) -> u8 {
    match kind.plural.as_str() {
        "namespaces" if kind.group.is_empty() => 0,
        "customresourcedefinitions" => 1,
        _ if *kind == TRAINING_RUNTIMES || *kind == CLUSTER_TRAINING_RUNTIMES => 2,
        _ => 3,
    }
}

fn item(document: &Document, known: &[Served], namespace: &str, all: &[Document]) -> Result<Item, PlanError> {
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
    let names = |s: &&Served| s.word == word && meta::api_version(&s.kind) == version;
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
    Ok(Item { origin: origin.clone(), kind: found.kind.clone(), tree, is_work })
}

/// Whether another document is its owner.
fn owned_inside(tree: &Tree, all: &[Document]) -> bool {
    meta::owners(tree).any(|owner| {
        all.iter()
            .any(|other| meta::kind_word(&other.tree) == owner.kind && meta::name(&other.tree) == owner.name)
    })
}

/// The kinds that a definition makes.
fn defined(tree: &Tree) -> Vec<Served> {
    if meta::kind_word(tree) != "CustomResourceDefinition" {
        return Vec::new();
    }
    let served = |version: &&Tree| version.bool_at(&["served"]) == Some(true);
    let versions = tree.items_at(&["spec", "versions"]).iter().filter(served);
    let kind = |version: &Tree| Served {
        kind: Kind {
            group: tree.text_at(&["spec", "group"]),
            version: version.text_at(&["name"]),
            plural: tree.text_at(&["spec", "names", "plural"]),
        },
        word: tree.text_at(&["spec", "names", "kind"]),
        namespaced: tree.str_at(&["spec", "scope"]) == "Namespaced",
    };
    versions.map(kind).collect()
}

fn others(word: &str, known: &[Served]) -> String {
    let alike = known.iter().filter(|s| s.word.eq_ignore_ascii_case(word));
    let words: Vec<String> =
        alike.map(|s| format!("`apiVersion: {}`, `kind: {}`", meta::api_version(&s.kind), s.word)).collect();
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

    fn served() -> Vec<Served> {
        let of = |kind: &Kind, word: &str| Served {
            kind: kind.clone(),
            word: word.into(),
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

    fn planned(text: &str) -> Result<Vec<Item>, PlanError> {
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
        let of = |kind: &Kind, word: &str, namespaced| Served {
            kind: kind.clone(),
            word: word.into(),
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
