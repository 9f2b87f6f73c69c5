//! Match conditions select exactly the requests that admission acts on, and registrations do not affect other objects.

use kube_cel::cel::{Context, Program, Value};
use muster_api::consts::labels;
use muster_jobset::admission::{
    AdmissionContext, AdmissionSettings, Answer, DryRun, LiveLister, default_jobset, mutate_pod,
    validate_jobset, validate_pod,
};
use muster_tree::Text;

use super::*;

fn hook(name: &str) -> &'static Webhook {
    WEBHOOKS.iter().find(|hook| hook.name == name).expect("there is such a hook")
}

fn json(tree: &Tree) -> serde_json::Value {
    serde_json::from_str(&tree.to_json()).unwrap()
}

/// Whether the match conditions of a webhook hold for a request.
fn asks(hook: &Webhook, object: &Tree, old: Option<&Tree>) -> bool {
    hook.match_conditions.iter().all(|condition| holds(condition, object, old))
}

fn holds(condition: &Condition, object: &Tree, old: Option<&Tree>) -> bool {
    let mut context = Context::default();
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    context.add_variable("request", serde_json::json!({"operation": operation})).unwrap();
    context.add_variable("object", json(object)).unwrap();
    context.add_variable("oldObject", json(old.unwrap_or(&Tree::Null))).unwrap();
    let text = condition.tree().text_at(&["expression"]);
    match Program::compile(&text).unwrap().execute(&context) {
        Ok(Value::Bool(holds)) => holds,
        other => panic!("{text} is {other:?} of {}", object.to_json()),
    }
}

/// An empty cluster.
struct Empty;

impl LiveLister for Empty {
    fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
        Ok(None)
    }

    fn device_claims(&self, _: &str, _: &str) -> Result<Vec<Tree>, String> {
        Ok(Vec::new())
    }

    fn node(&self, _: &str) -> Result<Option<Tree>, String> {
        Ok(None)
    }

    fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
        Ok(Vec::new())
    }

    fn dry_run(&self, _: &Kind, _: &Tree) -> DryRun {
        DryRun::Valid
    }
}

fn decided(decide: fn(&AdmissionContext<'_>) -> Answer, object: &Tree, old: Option<&Tree>) -> Answer {
    let (namespace, settings) = (Text::from("n"), AdmissionSettings::default());
    decide(&AdmissionContext { namespace: &namespace, object, old, live: &Empty, settings: &settings })
}

/// Pods with every combination of the fields that admission reads.
fn pods() -> Vec<Tree> {
    let bare = vec![tree!({"metadata": {"name": "p"}, "spec": {}})];
    let note = |key: &'static str, value: &'static str| {
        move |pod: &Tree| pod.with(&["metadata", "annotations", key], value)
    };
    let label =
        |value: &'static str| move |pod: &Tree| pod.with(&["metadata", "labels", words::PRIORITY], value);
    let priority = |value: i64| move |pod: &Tree| pod.with(&["spec", "priority"], value);
    type Change = Box<dyn Fn(&Tree) -> Tree>;
    let turns: Vec<Vec<Change>> = vec![
        vec![Box::new(note(words::NAME, "s"))],
        vec![Box::new(note(words::NODE_SELECTOR, "true"))],
        vec![Box::new(note(words::EXCLUSIVE_TOPOLOGY, "rack"))],
        vec![Box::new(note(labels::COMPLETION_INDEX, "0")), Box::new(note(labels::COMPLETION_INDEX, "1"))],
        vec![Box::new(label("0")), Box::new(label("7")), Box::new(label("-7"))],
        vec![Box::new(priority(0)), Box::new(priority(7)), Box::new(priority(-7))],
    ];
    turns.iter().fold(bare, |pods, changes| {
        let changed = pods.iter().flat_map(|pod| changes.iter().map(move |change| change(pod)));
        pods.iter().cloned().chain(changed).collect()
    })
}

#[test]
fn pods_are_asked_about_exactly_where_something_could_be_said() {
    let pods = pods();
    assert_eq!(pods.len(), 2 * 2 * 2 * 3 * 4 * 4);
    for pod in &pods {
        let refused = decided(validate_pod, pod, None) != Answer::default();
        assert_eq!(asks(hook("vpod.kb.io"), pod, None), refused, "{}", pod.to_json());
        let changed = decided(mutate_pod, pod, None) != Answer::default();
        // A follower pod gets the topology domain of the first pod of its Job, which does not exist here.
        let may = changed || decided(validate_pod, pod, None) != Answer::default();
        assert_eq!(asks(hook("mpod.kb.io"), pod, None), may, "{}", pod.to_json());
    }
}

#[test]
fn jobsets_are_asked_about_when_they_are_new_or_their_spec_changes() {
    let set = tree!({"metadata": {"name": "s"}, "spec": {"replicatedJobs": [{"name": "w"}]}});
    let filled = decided(default_jobset, &set, None).changed.unwrap();
    let labelled =
        filled.with(&["metadata", "labels"], tree!({"a": "b"})).with(&["status"], tree!({"restarts": 1}));
    let suspended = filled.with(&["spec", "suspend"], true);
    let without = filled.without(&["spec"]);
    for (says, new, old, want) in [
        ("a new one", &set, None, true),
        ("labels", &labelled, Some(&filled), false),
        ("the spec", &suspended, Some(&filled), true),
        ("no spec any more", &without, Some(&filled), true),
        ("no spec yet", &filled, Some(&without), true),
    ] {
        for name in ["mjobset.kb.io", "vjobset.kb.io"] {
            assert_eq!(asks(hook(name), new, old), want, "{says}");
        }
        if !want {
            assert_eq!(decided(default_jobset, new, old), Answer::default(), "{says}");
            assert_eq!(decided(validate_jobset, new, old), Answer::default(), "{says}");
        }
    }
}

/// Names, paths and rules of the training webhooks, as upstream has them.
#[test]
fn training_is_asked_about_under_the_names_that_are_known() {
    let url = WebhookClientConfig::Url { base: "https://127.0.0.1:1", authority: "authority" };
    let told: Vec<String> = WEBHOOKS
        .iter()
        .filter(|it| it.step == AdmissionStep::Training)
        .map(|it| {
            let hook = it.registration(&url, "ours");
            let rule = &hook.items_at(&["rules"])[0];
            let list = |key: &str| {
                rule.items_at(&[key]).iter().filter_map(Tree::as_str).collect::<Vec<_>>().join(",")
            };
            let selector = hook.at(&["objectSelector"]).map(Tree::to_json).unwrap_or_default();
            format!(
                "{} {} {:?} {} {} {} {selector}",
                hook.str_at(&["name"]),
                it.path,
                it.say,
                list("resources"),
                list("operations"),
                rule.str_at(&["scope"])
            )
        })
        .collect();
    let unless = r#"{"matchExpressions":[{"key":"trainer.kubeflow.org/webhook-validation","operator":"NotIn","values":["disabled"]}]}"#;
    let of = "/validate-trainer-kubeflow-org-v1alpha1-";
    let want = [
        "defaulter.trainjob.trainer.kubeflow.org /mutate-trainer-kubeflow-org-v1alpha1-trainjob Mutating trainjobs \
         CREATE,UPDATE Namespaced "
            .to_owned(),
        format!("validator.trainjob.trainer.kubeflow.org {of}trainjob Validating trainjobs CREATE,UPDATE Namespaced "),
        format!(
            "validator.trainingruntime.trainer.kubeflow.org {of}trainingruntime Validating trainingruntimes CREATE,UPDATE \
             Namespaced {unless}"
        ),
        format!(
            "validator.clustertrainingruntime.trainer.kubeflow.org {of}clustertrainingruntime Validating \
             clustertrainingruntimes CREATE,UPDATE Cluster {unless}"
        ),
    ];
    assert_eq!(told, want);
}

/// Shows: 2899-58.
#[test]
fn who_goes_is_held_up_by_nobody() {
    let job = tree!({"metadata": {"name": "t"}, "spec": {"runtimePatches": [{"manager": "a.io/b"}]}});
    let going = job.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    for hook in WEBHOOKS.iter().filter(|it| it.step == AdmissionStep::Training) {
        assert!(asks(hook, &job, None), "{}", hook.name);
        assert!(!asks(hook, &going, Some(&job)), "{}", hook.name);
        assert!(!asks(hook, &going.without(&["spec"]), Some(&going)), "{}", hook.name);
        assert!(hook.rule().to_json().find("status").is_none(), "{}: what is told of it passes", hook.name);
    }
}

#[test]
fn training_is_asked_about_where_something_could_be_said() {
    let find = |name: &str| WEBHOOKS.iter().find(|it| it.name.starts_with(name)).expect("there is one");
    let [fills, judges] = ["defaulter.trainjob.", "validator.trainjob."].map(find);
    let bare = tree!({"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "r"}}});
    let patched = bare.with(&["spec", "runtimePatches"], tree!([{"manager": "a.io/b"}]));
    for (says, job, want) in [
        ("nothing to fill in", bare.clone(), false),
        ("an empty list", bare.with(&["spec", "runtimePatches"], tree!([])), false),
        ("no spec", bare.without(&["spec"]), false),
        ("patches", patched, true),
    ] {
        assert_eq!(asks(fills, &job, None), want, "{says}");
        assert!(
            asks(judges, &job, Some(&job)),
            "{says}: whether its runtime is there is asked for every time"
        );
    }
    let runtime = tree!({"metadata": {"name": "r"}, "spec": {"mlPolicy": {"numNodes": 1}}});
    let label = |value: &str| runtime.with(&["metadata", "labels"], tree!({"a": value}));
    let held = runtime.with(&["metadata", "finalizers"], tree!(["trainer.kubeflow.org/resource-in-use"]));
    for kind in ["validator.trainingruntime.", "validator.clustertrainingruntime."] {
        let hook = find(kind);
        for (says, new, old, want) in [
            ("a new one", &runtime, None, true),
            ("the same again", &runtime, Some(&runtime), false),
            ("a finalizer comes off", &runtime, Some(&held), false),
            ("another spec", &runtime.with(&["spec", "mlPolicy", "numNodes"], 2), Some(&runtime), true),
            ("its first label", &label("b"), Some(&runtime), true),
            ("another label", &label("b"), Some(&label("c")), true),
            ("the same label", &label("b"), Some(&label("b")), false),
        ] {
            assert_eq!(asks(hook, new, old), want, "{kind} {says}");
        }
    }
}

/// Conditions are CEL of Kubernetes 1.29: plain operators and `has`, `exists`, `size`, `string` and `in`.
///
/// Shows: 2899-59.
#[test]
fn hooks_of_training_ask_a_server_for_nothing_new() {
    let url = WebhookClientConfig::Url { base: "https://127.0.0.1:1", authority: "authority" };
    let known = [
        "name",
        "clientConfig",
        "rules",
        "failurePolicy",
        "matchPolicy",
        "sideEffects",
        "timeoutSeconds",
        "admissionReviewVersions",
        "matchConditions",
        "objectSelector",
        "namespaceSelector",
    ];
    for hook in WEBHOOKS.iter().filter(|it| it.step == AdmissionStep::Training) {
        for (key, _) in hook.registration(&url, "ours").entries() {
            assert!(known.contains(&key.as_str()), "{}: {key}", hook.name);
        }
        for condition in hook.match_conditions {
            let text = condition.tree().text_at(&["expression"]);
            let calls = text.match_indices('(').filter_map(|(at, _)| {
                let name = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
                (!name.is_empty()).then(|| name.to_owned())
            });
            for call in calls {
                assert!(["has", "size"].contains(&call.as_str()), "{}: {call}", hook.name);
            }
        }
    }
}

#[test]
fn hooks_are_registered_so_that_nothing_passes_unseen_and_nobody_else_suffers() {
    let url = WebhookClientConfig::Url { base: "https://127.0.0.1:1", authority: "authority" };
    let service = WebhookClientConfig::Service { namespace: "ours", name: "us", port: 443 };
    for reached in [url, service] {
        for hook in &WEBHOOKS {
            let told = hook.registration(&reached, "ours");
            assert_eq!(told.str_at(&["failurePolicy"]), "Fail");
            assert_eq!(told.str_at(&["sideEffects"]), "None");
            let selector = told.items_at(&["objectSelector", "matchExpressions"]);
            let chosen =
                (hook.step == AdmissionStep::JobSets && hook.word == "Pod") || hook.word.ends_with("Runtime");
            assert_eq!(
                selector.len(),
                usize::from(chosen),
                "pods with our label, runtimes without that of theirs"
            );
            let spaces = told.items_at(&["namespaceSelector", "matchExpressions"]);
            let spared: Vec<&str> =
                spaces.iter().flat_map(|it| it.items_at(&["values"])).filter_map(Tree::as_str).collect();
            let want: &[&str] = match (hook.step, hook.word) {
                (AdmissionStep::JobSets, "Pod") => &["kube-system"],
                (AdmissionStep::Queues, "Pod" | "Job" | "JobSet" | "TrainJob") => &["kube-system", "ours"],
                _ => &[],
            };
            assert_eq!(spared, want, "{} of {:?}", hook.name, hook.step);
        }
    }
}

#[test]
fn names_are_told_apart_and_paths_ask_about_one_kind() {
    for configuration in &CONFIGURATIONS {
        let mut names: Vec<&str> = configuration.webhooks().map(|hook| hook.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", configuration.name);
    }
    for hook in &WEBHOOKS {
        let first = WEBHOOKS.iter().find(|it| it.path == hook.path).unwrap();
        assert_eq!((first.kind, first.word, first.say), (hook.kind, hook.word, hook.say), "{}", hook.path);
    }
}

#[test]
fn only_what_carries_a_key_of_queues_is_asked_about() {
    let of_queues =
        |name: &str| WEBHOOKS.iter().find(|it| it.step == AdmissionStep::Queues && it.name == name).unwrap();
    let bare = tree!({"metadata": {"name": "p"}, "spec": {}});
    let label = |key: &str| bare.with(&["metadata", "labels", key], "x");
    let note = |key: &str| bare.with(&["metadata", "annotations", key], "x");
    for (says, pod, want) in [
        ("nothing at all", bare.clone(), false),
        ("labels of others", label("app"), false),
        ("annotations of others", note("app"), false),
        ("a queue", label("kueue.x-k8s.io/queue-name"), true),
        ("a mark", label("kueue.x-k8s.io/managed"), true),
        ("a group", label("kueue.x-k8s.io/pod-group-name"), true),
        ("a group in a note", note("kueue.x-k8s.io/pod-group-name"), true),
        ("a parent that waits", note("kueue.x-k8s.io/pod-suspending-parent"), true),
        ("our finalizer", bare.with(&["metadata", "finalizers"], tree!(["kueue.x-k8s.io/managed"])), true),
        ("what a started pod is told", label("kueue.x-k8s.io/podset"), false),
    ] {
        for name in ["mpod.kb.io", "vpod.kb.io", "mjob.kb.io", "vjob.kb.io", "mjobset.kb.io", "vjobset.kb.io"]
        {
            assert_eq!(asks(of_queues(name), &pod, None), want, "{says}");
        }
        assert_eq!(asks(of_queues("vpod.kb.io"), &bare, Some(&pod)), want, "{says}, before");
        assert_eq!(
            holds(&match_conditions::IS_NOT_QUEUED, &pod, None),
            !want,
            "{says}, and everybody is asked about"
        );
    }
}

#[test]
fn jobs_of_jobsets_are_asked_about_when_they_ask_for_more() {
    let hook =
        WEBHOOKS.iter().find(|it| it.step == AdmissionStep::Queues && it.name == "vjob.kb.io").unwrap();
    let container = |cpu: &str| tree!([{"name": "c", "resources": {"requests": {"cpu": cpu}}}]);
    let template = tree!({"spec": {"containers": container("1")}});
    let of_set = tree!([{"kind": "JobSet", "name": "s", "uid": "u", "controller": true}]);
    let job = tree!({"metadata": {"name": "j", "ownerReferences": of_set}, "spec": {"parallelism": 2, "template": template}});
    let pod = |key: &str, value: Tree| job.with(&["spec", "template", "spec", key], value);
    for (says, new, want) in [
        ("nothing", job.clone(), false),
        ("more pods", job.with(&["spec", "parallelism"], 3), true),
        ("fewer pods", job.with(&["spec", "parallelism"], 1), false),
        ("one, where nothing is said", job.without(&["spec", "parallelism"]), false),
        ("bigger pods", pod("containers", container("2")), true),
        ("something before them", pod("initContainers", container("1")), true),
        ("the whole pod", pod("resources", tree!({"requests": {"cpu": "3"}})), true),
        ("where they go", pod("nodeSelector", tree!({"rack": "a"})), false),
        ("whether they go", job.with(&["spec", "suspend"], true), false),
    ] {
        assert_eq!(muster_queue::jobs::webhook::increases_requests(&job, &new), want, "{says}");
        assert_eq!(asks(hook, &new, Some(&job)), want, "{says}");
        let own = |it: &Tree| it.without(&["metadata", "ownerReferences"]);
        assert!(!asks(hook, &own(&new), Some(&own(&job))), "{says}, of nobody");
    }
}

#[test]
fn the_authority_is_named_only_where_it_is_known() {
    let hook = &WEBHOOKS[0];
    let url = WebhookClientConfig::Url { base: "https://127.0.0.1:1", authority: "authority" };
    let by_url = tree!({"url": format!("https://127.0.0.1:1{}", hook.path), "caBundle": "authority"});
    assert_eq!(hook.registration(&url, "ours").get("clientConfig"), Some(&by_url));
    let service = WebhookClientConfig::Service { namespace: "ours", name: "us", port: 443 };
    let by_service =
        tree!({"service": {"namespace": "ours", "name": "us", "path": (hook.path), "port": 443}});
    assert_eq!(
        hook.registration(&service, "ours").get("clientConfig"),
        Some(&by_service),
        "the operator's to write"
    );
}
