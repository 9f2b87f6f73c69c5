//! Properties of the manifests for all options.

use std::collections::BTreeSet;

use super::*;

fn all() -> Vec<Tree> {
    manifests(&Options::default())
}

fn one(kind: &str) -> Tree {
    all().into_iter().find(|it| it.str_at(&["kind"]) == kind).expect("there is one")
}

#[test]
fn every_object_says_whose_it_is_and_none_is_there_twice() {
    let key = |it: &Tree| format!("{}/{}", it.str_at(&["kind"]), it.str_at(&["metadata", "name"]));
    let keys: BTreeSet<String> = all().iter().map(key).collect();
    assert_eq!(keys.len(), all().len());
    for object in all() {
        assert_eq!(
            object.str_at(&["metadata", "labels", MANAGED_BY_LABEL.0]),
            MANAGED_BY_LABEL.1,
            "{}",
            key(&object)
        );
        let Kind { group, version, .. } = kind_of(&object);
        let want = if group.is_empty() { version.to_string() } else { format!("{group}/{version}") };
        assert_eq!(object.str_at(&["apiVersion"]), want, "{}", key(&object));
    }
}

#[test]
fn what_is_needed_comes_before_what_needs_it() {
    let place = |kind: &str| all().iter().position(|it| it.str_at(&["kind"]) == kind).expect("there is one");
    for (first, second) in [
        ("Namespace", "ServiceAccount"),
        ("CustomResourceDefinition", "Deployment"),
        ("ClusterRole", "ClusterRoleBinding"),
        ("ClusterRoleBinding", "Deployment"),
        ("ConfigMap", "Deployment"),
        ("Service", "MutatingWebhookConfiguration"),
        ("Deployment", "MutatingWebhookConfiguration"),
    ] {
        assert!(place(first) < place(second), "{first} before {second}");
    }
}

#[test]
fn options_are_heard() {
    let options = Options {
        namespace: "elsewhere".to_owned(),
        image: "registry/muster:1".to_owned(),
        replicas: 3,
        webhook_port: 8443,
        queues: true,
        training: true,
        validates_training: true,
        status_port: Some(10_443),
        runtimes: true,
        runtime_registry: String::new(),
        data_cache: false,
        config: "a: b\n".to_owned(),
    };
    let made = manifests(&options);
    let text: String = made.iter().map(Tree::to_json).collect();
    assert!(!text.contains(names::NAMESPACE), "everything is there");
    let find = |kind: &str| made.iter().find(|it| it.str_at(&["kind"]) == kind).expect("there is one");
    let deployment = find("Deployment");
    assert_eq!(deployment.int_at(&["spec", "replicas"]), Some(3));
    let pod = deployment.at(&["spec", "template"]).unwrap();
    assert_eq!(pod.items_at(&["spec", "containers"])[0].str_at(&["image"]), "registry/muster:1");
    assert_eq!(find("ConfigMap").str_at(&["data", "config.yaml"]), "a: b\n");
    let usual = one("Deployment").at(&["spec", "template", "metadata", "annotations"]).cloned();
    assert_ne!(pod.at(&["metadata", "annotations"]).cloned(), usual, "another configuration, other pods");
    let hook = &find("MutatingWebhookConfiguration").items_at(&["webhooks"])[0].clone();
    assert_eq!(hook.int_at(&["clientConfig", "service", "port"]), Some(8443));
    let group = find("APIService").at(&["spec", "service"]).cloned();
    let want = tree!({"namespace": "elsewhere", "name": "muster-visibility", "port": 8443});
    assert_eq!(group, Some(want));
    let ports = |it: &Tree, at: &[&str], key: &str| {
        let all = it.items_at(at).iter();
        all.map(|it| (it.str_at(&["name"]).to_owned(), it.int_at(&[key]).unwrap())).collect::<Vec<_>>()
    };
    let want = [("webhook".to_owned(), 8443), ("status".to_owned(), 10_443)];
    assert_eq!(ports(find("Service"), &["spec", "ports"], "port"), want);
    let container = &pod.items_at(&["spec", "containers"])[0];
    assert!(ports(container, &["ports"], "containerPort").contains(&want[1]), "pods listen there");
    assert!(!one("Service").to_json().contains("status"), "nobody is heard unless that is asked for");
    let untrained = manifests(&Options { training: false, ..options });
    let text: String = untrained.iter().map(Tree::to_json).collect();
    assert!(!text.contains("10443"), "without TrainJobs there is nothing to hear");
}

#[test]
fn services_find_the_pods_by_what_never_changes() {
    let deployment = one("Deployment");
    let labels = deployment.at(&["spec", "template", "metadata", "labels"]).unwrap();
    for (key, value) in selector().entries() {
        assert_eq!(labels.get(key), Some(value));
    }
    assert!(!selector().to_json().contains(VERSION), "a Deployment cannot change its selector");
}

#[test]
fn nothing_is_said_about_what_the_operator_keeps() {
    for object in all() {
        assert!(!object.to_json().contains("caBundle"), "{}", object.to_json());
        assert_ne!(object.str_at(&["kind"]), "Secret");
        assert_ne!(object.str_at(&["kind"]), "Lease");
    }
}
