//! `muster install` on a real Kubernetes, and the chart beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, HttpAnswer, RequestStep};
use muster_tests::embedded_server;
use muster_tests::muster_process::command;
use muster_tests::real::{self, RealCluster};
use muster_tree::{Tree, tree};

const OPERATOR: &str = "/apis/apps/v1/namespaces/muster-system/deployments/muster-operator";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io";

struct Stage {
    real: RealCluster,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let real = RealCluster::with(&["gc", "namespace"]).unwrap();
        let kubeconfig = real.kubeconfig(folder.path(), real.server.base()).unwrap();
        Stage { real, kubeconfig, folder }
    }

    fn server(&self) -> &ApiClient {
        &self.real.server
    }

    /// What became of each object.
    fn install(&self, words: &[&str]) -> BTreeMap<String, Tree> {
        let output = run(&self.kubeconfig, &[&["install", "-o", "json"], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let told = Tree::parse(&output.stdout).unwrap();
        let objects = told.items_at(&["objects"]).iter();
        objects.map(|it| (it.str_at(&["object"]).to_owned(), it.clone())).collect()
    }

    fn refused(&self, kubeconfig: &Path) -> String {
        let output = run(kubeconfig, &["install"]);
        assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(output.stdout.is_empty(), "nothing was done: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    fn get(&self, path: &str) -> Tree {
        self.server().get(path).unwrap().body
    }

    fn send(&self, method: &str, kind: &str, path: &str, body: &Tree) -> HttpAnswer {
        let step = RequestStep { kind: kind.into(), ..RequestStep::default() };
        let answer = self.server().send(method, path, &step, body.to_json_bytes()).unwrap();
        assert!(answer.code < 300, "{method} {path}: {}", answer.body.to_json());
        answer
    }
}

fn run(kubeconfig: &Path, words: &[&str]) -> Output {
    command(words, kubeconfig).output().expect("the binary starts")
}

fn printed(words: &[&str]) -> Vec<u8> {
    let mut command = std::process::Command::new(embedded_server::binary().unwrap());
    let output = command.args(words).output().expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn results(done: &BTreeMap<String, Tree>, result: &str) -> Vec<String> {
    let of = |(name, it): (&String, &Tree)| (it.str_at(&["result"]) == result).then(|| name.clone());
    done.iter().filter_map(of).collect()
}

/// The first time everything is made, the second time nothing is written.
fn twice_is_as_good_as_once(stage: &Stage) {
    let first = stage.install(&[]);
    assert_eq!(results(&first, "created").len(), first.len(), "{first:?}");
    let paths = [OPERATOR, DEFINITION, "/api/v1/namespaces/muster-system"];
    let revisions = || paths.map(|path| stage.get(path).text_at(&["metadata", "resourceVersion"]));
    let before = revisions();
    let second = stage.install(&[]);
    assert_eq!(results(&second, "unchanged").len(), first.len(), "{second:?}");
    assert_eq!(revisions(), before);
    let definition = stage.get(DEFINITION);
    assert!(definition.to_json().contains(r#""type":"Established""#), "JobSets are served");
}

/// Objects that the operator maintains stay; changes by others to our objects are reverted and reported.
fn what_others_wrote(stage: &Stage) {
    let hooks = format!("{HOOKS}/mutatingwebhookconfigurations/jobset-mutating-webhook-configuration");
    let authority = tree!([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "QUJD"}]);
    stage.send("PATCH", "jsonpatch", &hooks, &authority);
    stage.send("PATCH", "merge", OPERATOR, &tree!({"spec": {"replicas": 5}}));
    let done = stage.install(&[]);
    let changed = results(&done, "configured");
    assert_eq!(changed, ["deployment.apps/muster-operator"], "{done:?}");
    let note = done["deployment.apps/muster-operator"].str_at(&["note"]).to_owned();
    assert!(note.contains("replicas were 5, and are 2"), "{note}");
    let hook = stage.get(&hooks).items_at(&["webhooks"])[0].clone();
    assert_eq!(hook.str_at(&["clientConfig", "caBundle"]), "QUJD", "the operator's authority stays");
}

/// What a former version installed goes; what is not ours, and what users would miss, stays.
fn what_is_left_over(stage: &Stage) {
    let labels = Tree::map([("app.kubernetes.io/managed-by", "muster-install")]);
    let maps = "/api/v1/namespaces/default/configmaps";
    stage.send("POST", "", maps, &tree!({"metadata": {"name": "ours", "labels": (labels.clone())}}));
    stage.send("POST", "", maps, &tree!({"metadata": {"name": "theirs"}}));
    stage.send("POST", "", "/api/v1/namespaces", &tree!({"metadata": {"name": "former", "labels": labels}}));
    let done = stage.install(&[]);
    assert_eq!(results(&done, "removed"), ["configmap/ours"], "{done:?}");
    assert_eq!(stage.server().get(&format!("{maps}/ours")).unwrap().code, 404);
    assert_eq!(stage.server().get(&format!("{maps}/theirs")).unwrap().code, 200);
    assert_eq!(stage.server().get("/api/v1/namespaces/former").unwrap().code, 200);
}

/// A user without rights gets the list of missing rights, and nothing is applied.
fn who_may_not(stage: &Stage) {
    let config = std::fs::read_to_string(&stage.kubeconfig).unwrap();
    let nobody = stage.folder.path().join("nobody");
    std::fs::write(&nobody, config.replace("user: {token:", "user: {as: nobody, token:")).unwrap();
    let said = stage.refused(&nobody);
    assert!(said.contains("nothing was changed") && said.contains("\"nobody\""), "{said}");
    for name in ["namespace/muster-system", "deployment.apps/muster-operator"] {
        assert!(said.contains(&format!("  {name}: ")), "all of it is told: {said}");
    }
}

/// A foreign controller and the namespace of its Deployments.
fn other(stage: &Stage, of: &str, labels: &[(&'static str, &str)]) -> String {
    let space = format!("{of}-system");
    stage.send("POST", "", "/api/v1/namespaces", &tree!({"metadata": {"name": (space.as_str())}}));
    let labels = Tree::map(labels.iter().copied());
    let pod =
        tree!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let name = format!("{of}-controller-manager");
    let deployment = tree!({"metadata": {"name": (name.as_str()), "labels": labels},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pod}});
    let all = format!("/apis/apps/v1/namespaces/{space}/deployments");
    stage.send("POST", "", &all, &deployment);
    let said = stage.refused(&stage.kubeconfig);
    assert!(said.contains(&format!("{name} in namespace {space}")), "{said}");
    assert!(said.contains("--take-over"), "{said}");
    all
}

/// Two controllers must not admit against the same quota.
fn another_queue(stage: &Stage) {
    let all = other(stage, "kueue", &[("app.kubernetes.io/name", "kueue")]);
    stage.install(&["--take-over"]);
    let scaled = stage.get(&format!("{all}/kueue-controller-manager"));
    assert_eq!(scaled.int_at(&["spec", "replicas"]), Some(0));
}

/// Two controllers must not create the JobSet of one TrainJob. Their webhooks are removed, their runtimes stay.
fn another_trainer(stage: &Stage) {
    let labels = [("app.kubernetes.io/part-of", "kubeflow"), ("app.kubernetes.io/name", "trainer")];
    let all = other(stage, "trainer", &labels);
    let theirs = tree!({"name": "validator.trainjob.trainer.kubeflow.org", "clientConfig": {"url": "https://127.0.0.1:1/"},
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"a": "b"}}});
    let name = "validator.trainer.kubeflow.org";
    let hooks = format!("{HOOKS}/validatingwebhookconfigurations/{name}");
    stage.send("DELETE", "", &hooks, &tree!({}));
    let found = tree!({"metadata": {"name": name}, "webhooks": [theirs]});
    stage.send("POST", "", &format!("{HOOKS}/validatingwebhookconfigurations"), &found);
    let runtimes = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes";
    stage.send("DELETE", "", &format!("{runtimes}/torch-distributed"), &tree!({}));
    let runtime = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "metadata": {"name": "torch-distributed", "labels": {"trainer.kubeflow.org/webhook-validation": "disabled"}},
        "spec": {"mlPolicy": {"numNodes": 7}}});
    stage.send("POST", "", runtimes, &runtime);
    let done = stage.install(&["--take-over"]);
    let left = &done["clustertrainingruntime.trainer.kubeflow.org/torch-distributed"];
    assert_eq!(left.str_at(&["note"]), "it was there before, and is left to its owner", "{left}");
    let scaled = stage.get(&format!("{all}/trainer-controller-manager"));
    assert_eq!(scaled.int_at(&["spec", "replicas"]), Some(0));
    let after = stage.get(&hooks);
    assert_eq!(after.items_at(&["webhooks"]).len(), 3, "{after}");
    assert!(!after.to_json().contains("127.0.0.1") && !after.to_json().contains(r#""a":"b""#), "{after}");
}

/// Two controllers of JobSets are one too many.
fn another_controller(stage: &Stage) {
    let all = other(stage, "jobset", &[("app.kubernetes.io/part-of", "jobset")]);
    let theirs = tree!({"name": "theirs.kb.io", "clientConfig": {"url": "https://127.0.0.1:1/"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"]});
    let name = "jobset-validating-webhook-configuration";
    let hooks = format!("{HOOKS}/validatingwebhookconfigurations/{name}");
    stage.send("DELETE", "", &hooks, &tree!({}));
    let found = tree!({"metadata": {"name": name}, "webhooks": [theirs]});
    stage.send("POST", "", &format!("{HOOKS}/validatingwebhookconfigurations"), &found);
    stage.install(&["--take-over"]);
    let scaled = stage.get(&format!("{all}/jobset-controller-manager"));
    assert_eq!(scaled.int_at(&["spec", "replicas"]), Some(0));
    let names: Vec<String> =
        stage.get(&hooks).items_at(&["webhooks"]).iter().map(|it| it.str_at(&["name"]).to_owned()).collect();
    assert_eq!(names, ["vjobset.kb.io", "vpod.kb.io"], "nothing of theirs stays in ours");
}

/// The namespace enforces "restricted", and the pods pass without a word.
fn pods_are_held_to_what_they_need(stage: &Stage) {
    let space = stage.get("/api/v1/namespaces/muster-system");
    assert_eq!(space.str_at(&["metadata", "labels", "pod-security.kubernetes.io/enforce"]), "restricted");
    let template = stage.get(OPERATOR).at(&["spec", "template"]).cloned().unwrap();
    let pods = "/api/v1/namespaces/muster-system/pods?dryRun=All";
    let pod = template.with(&["metadata", "name"], "one");
    let made = stage.send("POST", "", pods, &pod);
    assert_eq!(made.warnings, [""; 0]);
    let bold = tree!({"metadata": {"name": "bold"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let refused = stage.server().send("POST", pods, &RequestStep::default(), bold.to_json_bytes()).unwrap();
    assert_eq!(refused.code, 403, "others do not: {}", refused.body.to_json());
}

#[test]
fn a_cluster_is_installed_on_and_brought_up_to_date() {
    let test = "a_cluster_is_installed_on_and_brought_up_to_date";
    if let Some(reason) = real::missing() {
        return skip(test, &reason);
    }
    let stage = Stage::new();
    who_may_not(&stage);
    twice_is_as_good_as_once(&stage);
    what_others_wrote(&stage);
    what_is_left_over(&stage);
    pods_are_held_to_what_they_need(&stage);
    another_controller(&stage);
    another_queue(&stage);
    another_trainer(&stage);
    note(
        "muster install: idempotent on a real server, keeps the operator's fields, removes its own leftovers, passes Pod Security restricted",
    );
}

#[test]
fn what_is_printed_is_the_same_every_time() {
    let yaml = || printed(&["install", "--dry-run"]);
    assert_eq!(yaml(), yaml());
    let list = Tree::parse(&printed(&["install", "--dry-run", "-o", "json"])).unwrap();
    let documents = muster_tree::Tree::parse_yaml_documents(&String::from_utf8(yaml()).unwrap()).unwrap();
    assert_eq!(documents, list.items_at(&["items"]));
}

fn by_name(objects: impl IntoIterator<Item = Tree>) -> BTreeMap<String, Tree> {
    let key = |it: &Tree| format!("{} {}", it.str_at(&["kind"]), it.str_at(&["metadata", "name"]));
    objects.into_iter().map(|it| (key(&it), it)).collect()
}

/// The chart renders what `muster install` applies, apart from the managed-by labels.
#[test]
fn the_chart_installs_the_same() {
    let missing = |reason| std::env::var("MUSTER_TEST_HELM_MISSING").unwrap_or(reason);
    let helm = match real::upstream_program("helm-v4.3.1").map_err(missing) {
        Ok(helm) => helm,
        Err(reason) => return skip("the_chart_installs_the_same", &reason),
    };
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart");
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    let gate = "apiVersion: muster.dev/v1alpha1\nkind: Configuration\nfeatureGates: {TrainJobStatus: true}\n";
    std::fs::write(&config, gate).unwrap();
    let config = config.display().to_string();
    for (values, words) in [
        (&[][..], &[][..]),
        (&["--set", "statusPort=10443", "--set-file", &format!("config={config}")], &["--config", &config]),
        (
            &["--set", "replicas=3,webhookPort=8443,image.repository=r/muster,image.tag=t"][..],
            &["--replicas", "3", "--webhook-port", "8443", "--image", "r/muster:t"][..],
        ),
    ] {
        let mut helm = std::process::Command::new(&helm);
        helm.args(["template", "muster"]).arg(&chart).args(["--namespace", "muster-system"]);
        // Runtimes come once their kind is known.
        helm.args(["--kube-version", "1.37.1", "--api-versions", "trainer.kubeflow.org/v1alpha1"]);
        let output = helm.args(values).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let documents = Tree::parse_yaml_documents(&String::from_utf8(output.stdout).unwrap()).unwrap();
        let ours = |it: &Tree| {
            let it = it.with(&["metadata", "labels", "app.kubernetes.io/managed-by"], "muster-install");
            match it.str_at(&["kind"]) {
                "CustomResourceDefinition" | "ClusterTrainingRuntime" | "Namespace" => {
                    it.without(&["metadata", "annotations"])
                }
                _ => it,
            }
        };
        let rendered = by_name(documents.iter().filter(|it| it.is_map()).map(ours));
        let list = Tree::parse(&printed(&[&["install", "--dry-run", "-o", "json"], words].concat())).unwrap();
        let mut installed = by_name(list.items_at(&["items"]).iter().cloned());
        installed.remove("Namespace muster-system");
        assert_eq!(rendered.keys().collect::<Vec<_>>(), installed.keys().collect::<Vec<_>>());
        for (name, object) in &installed {
            assert_eq!(&rendered[name], object, "{name}");
        }
    }
    note("the chart renders what muster install applies, object by object");
}
