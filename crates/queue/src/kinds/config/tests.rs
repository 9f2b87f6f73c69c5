//! What documents say.

use std::time::Duration;

use muster_api::selector::LabelSelector;
use muster_tree::{Tree, tree};

use super::read::span;
use super::{FRAMEWORKS, PreemptionStrategyConfig, QueueConfig, RequeuingStrategy, V1BETA1, V1BETA2};

fn read(document: &Tree) -> QueueConfig {
    QueueConfig::of(Some(document), "own").unwrap()
}

fn wrong(document: &Tree) -> Vec<String> {
    let wrong = QueueConfig::of(Some(document), "own").err().unwrap_or_default();
    wrong.iter().map(|it| format!("{}: {}", it.path, it.words)).collect()
}

fn lets_in(selector: &LabelSelector, namespace: &str) -> bool {
    selector.matches_labels(&[("kubernetes.io/metadata.name".into(), namespace.into())])
}

#[test]
fn defaults_enable_all_but_system_namespaces() {
    let all = QueueConfig::default_for("own");
    assert_eq!(all.frameworks, FRAMEWORKS);
    assert!(!all.without_queue_name && all.wait_for_pods_ready.is_none() && all.fair_sharing.is_none());
    for (namespace, want) in [("team", true), ("kube-system", false), ("kueue-system", false), ("own", false)]
    {
        assert_eq!(lets_in(&all.namespaces, namespace), want, "{namespace}");
    }
}

#[test]
fn wait_for_pods_ready_in_both_versions() {
    let of = |version: &str, wait: Tree| {
        read(&tree!({"apiVersion": version, "waitForPodsReady": wait})).wait_for_pods_ready
    };
    assert_eq!(of(V1BETA1, tree!({"timeout": "5m"})), None, "older: only when enabled");
    assert!(of(V1BETA1, tree!({"enable": true})).is_some());
    let plain = of(V1BETA2, tree!({})).unwrap();
    assert_eq!((plain.timeout, plain.recovery), (Duration::from_secs(1800), Some(Duration::from_secs(1800))));
    assert_eq!((plain.blocks, plain.requeuing), (false, RequeuingStrategy::default()));
    let said = of(
        V1BETA2,
        tree!({"timeout": "5m", "recoveryTimeout": "0s", "blockAdmission": true,
            "requeuingStrategy": {"timestamp": "Creation", "backoffLimitCount": 3, "backoffBaseSeconds": 1}}),
    )
    .unwrap();
    assert_eq!((said.timeout, said.recovery, said.blocks), (Duration::from_secs(300), None, true));
    let want = RequeuingStrategy { by_eviction: false, limit: Some(3), base_secs: 1, max_secs: 3600 };
    assert_eq!(said.requeuing, want);
}

#[test]
fn remaining_configuration_fields() {
    let all = read(&tree!({"manageJobsWithoutQueueName": true,
        "managedJobsNamespaceSelector": {"matchLabels": {"team": "a"}},
        "integrations": {"frameworks": ["batch/job", "ray.io/rayjob"], "externalFrameworks": ["Foo.v1.example.com"],
            "labelKeysToCopy": ["l"], "podOptions": {"podSelector": {"matchLabels": {"a": "b"}}}},
        "resources": {"excludeResourcePrefixes": ["x/"], "transformations": [{"input": "a", "strategy": "Replace",
            "outputs": {"b": "2"}}]},
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]},
        "objectRetentionPolicies": {"workloads": {"afterFinished": "1h", "afterDeactivatedByKueue": "90s"}}}));
    assert!(all.without_queue_name && all.serves("batch/job") && !all.serves("pod"));
    assert_eq!(all.unsupported_frameworks, ["ray.io/rayjob"]);
    let external = &all.external[0];
    let parts = (external.kind.as_str(), external.version.as_str(), external.group.as_str());
    assert_eq!(parts, ("Foo", "v1", "example.com"));
    assert_eq!(all.label_keys, ["l"]);
    assert!(all.pods.namespaces.is_none() && all.pods.pods.is_some());
    assert!(!all.resources.transformations[0].retains);
    assert_eq!(all.fair_sharing, Some(vec![PreemptionStrategyConfig::LessThanInitialShare]));
    assert_eq!(all.retention.after_finished, Some(Duration::from_secs(3600)));
    assert_eq!(all.retention.after_deactivated, Some(Duration::from_secs(90)));
}

#[test]
fn v1beta1_fair_sharing_needs_enable() {
    let of = |fair: Tree| read(&tree!({"apiVersion": V1BETA1, "fairSharing": fair})).fair_sharing;
    assert_eq!(of(tree!({})), None);
    assert_eq!(of(tree!({"enable": true})).map(|all| all.len()), Some(2));
}

#[test]
fn all_errors_have_their_path() {
    let everything = tree!({"matchLabels": {}});
    let told = wrong(&tree!({"managedJobsNamespaceSelector": everything.clone(),
        "integrations": {"frameworks": ["nothing"], "externalFrameworks": ["Foo"],
            "podOptions": {"namespaceSelector": everything}},
        "fairSharing": {"preemptionStrategies": ["LessThanInitialShare", "LessThanOrEqualToFinalShare"]},
        "resources": {"transformations": [{"input": "a", "outputs": {"b": "-1"}}, {"input": "a"}]},
        "waitForPodsReady": {"timeout": "soon"}}));
    let paths: Vec<&str> = told.iter().filter_map(|it| it.split(": ").next()).collect();
    let selectors = ["integrations.podOptions.namespaceSelector", "managedJobsNamespaceSelector"];
    let want = [
        "integrations.frameworks[0]",
        "integrations.externalFrameworks[0]",
        selectors[0],
        selectors[0],
        selectors[1],
        selectors[1],
        "waitForPodsReady.timeout",
        "resources.transformations[0].outputs[b]",
        "resources.transformations[1].input",
        "fairSharing.preemptionStrategies",
    ];
    assert_eq!(paths, want, "{told:#?}");
}

#[test]
fn times() {
    for (text, want) in [
        ("90s", Some(90_000)),
        ("1h30m", Some(5_400_000)),
        ("1.5h", Some(5_400_000)),
        ("300ms", Some(300)),
        ("5m0s", Some(300_000)),
        ("0", Some(0)),
        ("0s", Some(0)),
        ("", None),
        ("5", None),
        ("soon", None),
        ("-5s", None),
    ] {
        assert_eq!(span(text).map(|it| it.as_millis()), want, "{text:?}");
    }
}
