use muster_tree::tree;

use super::*;

fn amounts(tree: &Tree) -> Vec<(String, String)> {
    of_tree(Some(tree)).into_iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect()
}

fn resource(group: &str, plural: &str) -> std::sync::Arc<Resource> {
    let all = crate::registry::builtin();
    let found = all.into_iter().find(|it| it.group == group && it.plural == plural);
    found.expect("a built-in resource")
}

/// The usage of a pod as a sorted list of `name=amount`.
fn counted(pod: &Tree) -> String {
    let pods = resource("", "pods");
    let item = CountedObject { resource: &pods, tree: pod, now: Time(0) };
    let list: Vec<String> =
        usage::of(&item).iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    list.join(" ")
}

#[test]
fn pods_count_their_maximum_concurrent_usage() {
    let cpu = |cpu: &str| tree!({"requests": {"cpu": cpu}, "limits": {"cpu": cpu}});
    for (says, spec, want) in [
        (
            "containers are added",
            tree!({"containers": [{"resources": cpu("1")}, {"resources": cpu("500m")}]}),
            "count/pods=1 cpu=1500m limits.cpu=1500m pods=1 requests.cpu=1500m",
        ),
        (
            "the largest init container counts alone",
            tree!({"initContainers": [{"resources": cpu("3")}, {"resources": cpu("2")}],
                "containers": [{"resources": cpu("1")}]}),
            "count/pods=1 cpu=3 limits.cpu=3 pods=1 requests.cpu=3",
        ),
        (
            "a sidecar runs beside all that follow",
            tree!({"initContainers": [{"restartPolicy": "Always", "resources": cpu("1")}, {"resources": cpu("3")}],
                "containers": [{"resources": cpu("1")}]}),
            "count/pods=1 cpu=4 limits.cpu=4 pods=1 requests.cpu=4",
        ),
        (
            "resources of the pod win",
            tree!({"resources": cpu("4"), "containers": [{"resources": cpu("1")}]}),
            "count/pods=1 cpu=4 limits.cpu=4 pods=1 requests.cpu=4",
        ),
        (
            "overhead is added, to limits that are there",
            tree!({"overhead": {"cpu": "250m", "memory": "1Mi"}, "containers": [{"resources": cpu("1")}]}),
            "count/pods=1 cpu=1250m limits.cpu=1250m memory=1Mi pods=1 requests.cpu=1250m requests.memory=1Mi",
        ),
        (
            "devices and huge pages are requests",
            tree!({"containers": [{"resources": {"requests": {"nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"}}}]}),
            "count/pods=1 hugepages-2Mi=4Mi pods=1 requests.hugepages-2Mi=4Mi requests.nvidia.com/gpu=2",
        ),
    ] {
        assert_eq!(counted(&tree!({"spec": spec})), want, "{says}");
    }
}

#[test]
fn finished_pods_count_as_objects_only() {
    let pod = tree!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
    for phase in ["Succeeded", "Failed"] {
        assert_eq!(counted(&pod.with(&["status", "phase"], phase)), "count/pods=1", "{phase}");
    }
    let doomed = tree!({"deletionTimestamp": "1970-01-01T00:00:10Z", "deletionGracePeriodSeconds": 5});
    let doomed = pod.with(&["metadata"], doomed);
    let pods = resource("", "pods");
    for (second, want) in [(15, true), (16, false)] {
        let item = CountedObject { resource: &pods, tree: &doomed, now: Time(second * 1_000_000) };
        assert_eq!(usage::of(&item).contains_key("pods"), want, "at second {second}");
    }
}

#[test]
fn scopes_select_pods() {
    let quick =
        tree!({"spec": {"activeDeadlineSeconds": 5, "priorityClassName": "high", "containers": [{}]}});
    let slow = tree!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}});
    let scope = |name: &str| tree!({"scopes": [name]});
    let class = |operator: &str, values: Tree| {
        tree!({"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
    };
    let pods = resource("", "pods");
    for (spec, want) in [
        (tree!({}), (true, true)),
        (scope("Terminating"), (true, false)),
        (scope("NotTerminating"), (false, true)),
        (scope("BestEffort"), (true, false)),
        (scope("NotBestEffort"), (false, true)),
        (scope("PriorityClass"), (true, false)),
        (scope("CrossNamespacePodAffinity"), (false, false)),
        (tree!({"scopes": ["Terminating", "NotBestEffort"]}), (false, false)),
        (class("In", tree!(["high", "low"])), (true, false)),
        (class("NotIn", tree!(["high"])), (false, true)),
        (class("Exists", tree!([])), (true, false)),
        (class("DoesNotExist", tree!([])), (false, true)),
    ] {
        let quota = tree!({"spec": spec, "status": {"hard": {"pods": "1"}}});
        let matches =
            |tree: &Tree| charge(&quota, &CountedObject { resource: &pods, tree, now: Time(0) }).is_some();
        assert_eq!((matches(&quick), matches(&slow)), want, "{quota:?}");
    }
}

#[test]
fn a_constrained_resource_must_be_specified() {
    let pods = resource("", "pods");
    let quota =
        tree!({"spec": {}, "status": {"hard": {"requests.cpu": "1", "limits.memory": "1Gi", "pods": "5"}}});
    let all = tree!({"requests": {"cpu": "1"}, "limits": {"memory": "1"}});
    for (spec, want) in [
        (tree!({"containers": [{"name": "a", "resources": &all}]}), None),
        (
            tree!({"containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}]}),
            Some("must specify limits.memory for: a,b; requests.cpu for: b"),
        ),
        (
            tree!({"containers": [{"name": "a", "resources": &all}], "initContainers": [{"name": "i"}]}),
            Some("must specify limits.memory for: i; requests.cpu for: i"),
        ),
        (tree!({"resources": {"requests": {"cpu": "1"}}, "containers": [{"name": "a"}]}), None),
    ] {
        let pod = tree!({"spec": spec});
        let words = unspecified(&quota, &CountedObject { resource: &pods, tree: &pod, now: Time(0) });
        assert_eq!(words.as_deref(), want, "{pod:?}");
    }
}

#[test]
fn usage_of_other_kinds() {
    for (group, plural, tree, want) in [
        ("", "secrets", tree!({}), "count/secrets=1 secrets=1"),
        ("batch", "jobs", tree!({}), "count/jobs.batch=1"),
        (
            "",
            "services",
            tree!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}}),
            "count/services=1 services=1 services.loadbalancers=1 services.nodeports=2",
        ),
        (
            "",
            "services",
            tree!({"spec": {"type": "ClusterIP", "ports": [{}]}}),
            "count/services=1 services=1 services.loadbalancers=0 services.nodeports=0",
        ),
        (
            "resource.k8s.io",
            "resourceclaims",
            tree!({"spec": {"devices": {"requests": [
            {"exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
            {"firstAvailable": [{"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}]}]}}}),
            "count/resourceclaims.resource.k8s.io=1 gpu.deviceclass.resource.k8s.io/devices=5",
        ),
        (
            "",
            "persistentvolumeclaims",
            tree!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1500m"}}}}),
            "count/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
             fast.storageclass.storage.k8s.io/requests.storage=2 persistentvolumeclaims=1 requests.storage=2",
        ),
    ] {
        let resource = resource(group, plural);
        let item = CountedObject { resource: &resource, tree: &tree, now: Time(0) };
        let usage = usage::of(&item);
        let list: Vec<String> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(list.join(" "), want);
        assert!(usage.keys().all(|name| usage::tracks(&resource, name)), "{plural}: {usage:?}");
    }
}

#[test]
fn usage_keeps_its_notation() {
    let quota = tree!({"status": {"used": {"requests.memory": "0", "pods": "2"}}});
    let one = of_tree(Some(&tree!({"requests.memory": "512Mi", "pods": "1"})));
    let more = charged(&quota, &Amounts::new(), &one);
    assert_eq!(
        amounts(&more.at(&["status", "used"]).cloned().unwrap()),
        [("pods".into(), "3".into()), ("requests.memory".into(), "512Mi".into())]
    );
    assert_eq!(charged(&more, &one, &Amounts::new()), quota, "given back");
}
