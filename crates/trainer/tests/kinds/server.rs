//! A minimal API server: one write, with schema, admission and storage in the order of the real one.

use std::sync::OnceLock;

use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::RuntimeKind;
use muster_schema::node::SchemaRef;
use muster_schema::rules::Rules;
use muster_schema::{crd, structure, validate};
use muster_trainer::kinds::admission::{
    self, TrainingLister, TrainingReview, TrainingWebhookType, webhook_name,
};
use muster_trainer::kinds::{bundled_runtimes, crds};
use muster_tree::{Text, Tree, tree};

/// The time of all writes.
const NOW: &str = "2026-01-01T00:10:00Z";

/// A kind with its compiled CRD.
pub struct Served {
    word: String,
    pub schema: SchemaRef,
    rules: Rules,
}

/// The kind with this name.
pub fn served(word: &str) -> &'static Served {
    static ALL: OnceLock<Vec<Served>> = OnceLock::new();
    let read = |definition: &Tree| {
        let version = &definition.items_at(&["spec", "versions"])[0];
        let schema = crd::compile(version.at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap();
        let rules = Rules::compile(&schema).unwrap();
        Served { word: definition.str_at(&["spec", "names", "kind"]).to_owned(), schema, rules }
    };
    let all = ALL.get_or_init(|| crds().iter().map(read).collect());
    all.iter().find(|it| it.word == word).unwrap()
}

/// The response to a write.
pub struct Answered {
    /// The code and the message, then the warnings.
    pub lines: Vec<String>,
    /// The object as it is stored, or would be if it was accepted.
    pub stored: Tree,
}

/// The stored objects of the server.
pub struct Server {
    objects: Vec<Tree>,
}

const FIXTURES: &str = include_str!("there.yaml");

impl Server {
    /// With the bundled runtimes, those that the tables share and those of the case, without the ones in `gone`.
    pub fn of(case: &Tree) -> Server {
        let mut objects = bundled_runtimes::bundled_runtimes("");
        objects.extend(Tree::parse_yaml(FIXTURES).unwrap().items().iter().cloned());
        objects.extend(case.items_at(&["there"]).iter().cloned());
        let gone: Vec<&str> = case.items_at(&["gone"]).iter().filter_map(Tree::as_str).collect();
        objects.retain(|it| !gone.contains(&meta::name(it).as_str()));
        Server { objects }
    }

    /// Writes the object of a case: `object` is a patch of the default one, or of the result of `old`.
    pub fn write(&self, case: &Tree) -> Answered {
        let kind = case.get("kind").and_then(Tree::as_str).unwrap_or("TrainJob");
        let usual = usual(kind);
        let old =
            case.get("old").map(|patch| structure::default(served(kind).schema.view(), &usual.merge(patch)));
        let start = old.clone().unwrap_or(usual);
        let object = case.get("object").map_or_else(|| start.clone(), |patch| start.merge(patch));
        self.judge(kind, &object, old.as_ref())
    }

    /// Mutates and validates an object.
    pub fn judge(&self, kind: &str, object: &Tree, old: Option<&Tree>) -> Answered {
        let Served { schema, rules, .. } = served(kind);
        let mut unknown = Vec::new();
        let pruned = structure::prune(schema.view(), object, &mut unknown);
        let defaulted = structure::default(schema.view(), &pruned);
        let namespace = Text::from("ns");
        let now = Time::parse(NOW).unwrap();
        let asked = |object| TrainingReview { namespace: &namespace, object, old, live: self, now };
        let filled = admission::mutate(kind, &asked(&defaulted)).changed;
        let stored = structure::default(schema.view(), &filled.unwrap_or_else(|| defaulted.clone()));
        let mut problems = validate::validate(schema.view(), &stored, old);
        if problems.is_empty() {
            problems = rules.check(&stored, old);
        }
        let lines = if problems.is_empty() {
            judged(admission::validate(kind, &asked(&stored)), kind, old)
        } else {
            problems.iter().map(|it| format!("422 {it}")).collect()
        };
        Answered { lines, stored }
    }

    fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<Tree> {
        let is = |it: &&Tree| {
            meta::kind_name(it) == kind && meta::name(it) == name && meta::namespace(it) == namespace
        };
        self.objects.iter().find(is).cloned()
    }
}

fn judged(answer: admission::Answer, kind: &str, old: Option<&Tree>) -> Vec<String> {
    assert!(answer.problems.is_empty(), "a webhook has no way to say 422");
    let first = match answer.refused {
        Some(why) => {
            let who = webhook_name(TrainingWebhookType::Validating, kind);
            format!("403 admission webhook {who:?} denied the request: {why}")
        }
        None if old.is_some() => "200".to_owned(),
        None => "201".to_owned(),
    };
    [first].into_iter().chain(answer.warnings.into_iter().map(|it| format!("warning: {it}"))).collect()
}

/// The default object of a kind, which cases patch.
fn usual(kind: &str) -> Tree {
    let api_version = "trainer.kubeflow.org/v1alpha1";
    if kind == "TrainJob" {
        return tree!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "train", "namespace": "ns", "uid": "u"},
            "spec": {"runtimeRef": {"name": "torch-distributed"}}});
    }
    let pods = tree!({"spec": {"containers": [{"name": "node", "image": "i"}]}});
    let job = tree!({"metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": {"template": pods}});
    tree!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "mine"},
        "spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}}})
}

impl TrainingLister for Server {
    fn runtime(&self, kind: RuntimeKind, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        let namespace = if kind == RuntimeKind::Cluster { "" } else { namespace };
        Ok(self.find(kind.word(), namespace, name))
    }

    fn config_map(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.find("ConfigMap", namespace, name))
    }

    fn jobset(&self, namespace: &str, name: &str) -> Result<Option<Tree>, String> {
        Ok(self.find("JobSet", namespace, name))
    }

    fn has_priority_class(&self, name: &str) -> Result<bool, String> {
        match name {
            "unknown" => Err("the server is away".to_owned()),
            _ => Ok(self.find("PriorityClass", "", name).is_some()),
        }
    }
}
