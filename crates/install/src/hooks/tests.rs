//! Conditions and decisions say the same, and registrations leave nobody else out in the rain.

use kube_cel::cel::{Context, Program, Value};
use muster_api::words::labels;
use muster_jobset::admission::{
    Answer, Asked, Live, Settings, default_jobset, mutate_pod, validate_jobset, validate_pod,
};
use muster_tree::Text;

use super::*;

fn hook(name: &str) -> &'static Hook {
    HOOKS.iter().find(|hook| hook.name == name).expect("there is such a hook")
}

fn json(tree: &Tree) -> serde_json::Value {
    serde_json::from_str(&tree.to_json()).unwrap()
}

/// Whether a server would ask, as far as conditions decide.
fn asks(hook: &Hook, object: &Tree, old: Option<&Tree>) -> bool {
    hook.conditions.iter().all(|condition| holds(condition, object, old))
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

/// A cluster with nothing in it.
struct Empty;

impl Live for Empty {
    fn volume_claim(&self, _: &str, _: &str) -> Result<Option<Tree>, String> {
        Ok(None)
    }

    fn node(&self, _: &str) -> Result<Option<Tree>, String> {
        Ok(None)
    }

    fn first_pods(&self, _: &str, _: &str, _: &str) -> Result<Vec<Tree>, String> {
        Ok(Vec::new())
    }
}

fn decided(decide: fn(&Asked<'_>) -> Answer, object: &Tree, old: Option<&Tree>) -> Answer {
    let (namespace, settings) = (Text::from("n"), Settings::default());
    decide(&Asked { namespace: &namespace, object, old, live: &Empty, settings: &settings })
}

/// Every pod that differs in what decisions look at.
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
        // The others of a Job are put onto the place of its first pod, which is nowhere here.
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

#[test]
fn hooks_are_registered_so_that_nothing_passes_unseen_and_nobody_else_suffers() {
    let url = Reached::Url { base: "https://127.0.0.1:1", authority: "authority" };
    let service = Reached::Service { namespace: "ours", name: "us", port: 443 };
    for reached in [url, service] {
        for hook in &HOOKS {
            let told = hook.registration(&reached, "ours");
            assert_eq!(told.str_at(&["failurePolicy"]), "Fail");
            assert_eq!(told.str_at(&["sideEffects"]), "None");
            let selector = told.items_at(&["objectSelector", "matchExpressions"]);
            let of_sets = hook.step == Step::JobSets && hook.word == "Pod";
            assert_eq!(selector.len(), usize::from(of_sets), "of JobSets only pods with our label are ours");
            let spaces = told.items_at(&["namespaceSelector", "matchExpressions"]);
            let spared: Vec<&str> =
                spaces.iter().flat_map(|it| it.items_at(&["values"])).filter_map(Tree::as_str).collect();
            let want: &[&str] = match (hook.step, hook.word) {
                (Step::JobSets, "Pod") => &["kube-system"],
                (Step::Queues, "Pod" | "Job" | "JobSet") => &["kube-system", "ours"],
                _ => &[],
            };
            assert_eq!(spared, want, "{} of {:?}", hook.name, hook.step);
        }
    }
}

#[test]
fn names_are_told_apart_and_paths_ask_about_one_kind() {
    for configuration in &CONFIGURATIONS {
        let mut names: Vec<&str> = configuration.of().map(|hook| hook.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{}", configuration.name);
    }
    for hook in &HOOKS {
        let first = HOOKS.iter().find(|it| it.path == hook.path).unwrap();
        assert_eq!((first.kind, first.word, first.say), (hook.kind, hook.word, hook.say), "{}", hook.path);
    }
}

#[test]
fn only_what_carries_a_key_of_queues_is_asked_about() {
    let of_queues = |name: &str| HOOKS.iter().find(|it| it.step == Step::Queues && it.name == name).unwrap();
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
        assert_eq!(holds(&conditions::UNKEYED, &pod, None), !want, "{says}, and everybody is asked about");
    }
}

#[test]
fn the_authority_is_named_only_where_it_is_known() {
    let hook = &HOOKS[0];
    let url = Reached::Url { base: "https://127.0.0.1:1", authority: "authority" };
    let by_url = tree!({"url": format!("https://127.0.0.1:1{}", hook.path), "caBundle": "authority"});
    assert_eq!(hook.registration(&url, "ours").get("clientConfig"), Some(&by_url));
    let service = Reached::Service { namespace: "ours", name: "us", port: 443 };
    let by_service =
        tree!({"service": {"namespace": "ours", "name": "us", "path": (hook.path), "port": 443}});
    assert_eq!(
        hook.registration(&service, "ours").get("clientConfig"),
        Some(&by_service),
        "the operator's to write"
    );
}
