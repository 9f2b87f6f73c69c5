//! In whatever order the objects come that a job or pod needs, it runs in the end: no event is lost.

use super::*;

/// Objects in every order, each of them settled before the next one comes; `runs` holds in the end.
fn in_every_order(objects: &[(&'static Kind, Tree)], runs: &dyn Fn(&Bench) -> bool) {
    let mut order: Vec<usize> = (0..objects.len()).collect();
    permuted(&mut order, 0, &mut |order| {
        let mut bench = Bench::empty();
        for &at in order {
            let (kind, tree) = &objects[at];
            bench.put(kind, tree.clone());
            bench.settle(None);
        }
        let names: Vec<&str> = order.iter().map(|&at| &*objects[at].0.plural).collect();
        assert!(runs(&bench), "{names:?}: {:#?}", bench.caches.all(&kinds::WORKLOADS).collect::<Vec<_>>());
    });
}

fn permuted(order: &mut [usize], from: usize, each: &mut dyn FnMut(&[usize])) {
    if from == order.len() {
        return each(order);
    }
    for at in from..order.len() {
        order.swap(from, at);
        permuted(order, from + 1, each);
        order.swap(from, at);
    }
}

fn with_queue(more: impl IntoIterator<Item = (&'static Kind, Tree)>) -> Vec<(&'static Kind, Tree)> {
    queue().into_iter().chain(more).collect()
}

fn a_job_runs(bench: &Bench) -> bool {
    bench.running() == ["j"]
}

/// A pod as admission makes it, without a group.
fn pod(rest: &Tree) -> Tree {
    let meta = tree!({"finalizers": ["kueue.x-k8s.io/managed"],
        "labels": {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/managed": "true"}});
    let gates = tree!({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]});
    let spec = template().at(&["spec"]).cloned().unwrap_or_default().merge(&gates);
    let pod = tree!({"metadata": meta, "spec": spec, "status": {"phase": "Pending"}});
    object("p", "ns", &pod.merge(rest))
}

fn a_pod_is_open(bench: &Bench) -> bool {
    bench.caches.all(&PODS).all(|it| it.tree.items_at(&["spec", "schedulingGates"]).is_empty())
}

/// A Workload that a user made for so many pods.
fn workload(count: i64) -> Tree {
    let sets = tree!([{"name": "main", "count": count, "template": (template())}]);
    object("w", "ns", &tree!({"spec": {"queueName": "lq", "active": true, "podSets": sets}}))
}

fn names_workload() -> Tree {
    tree!({"metadata": {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "w"}}})
}

#[test]
fn a_job_and_its_workload_priority_class() {
    let label = tree!({"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}});
    let class = (&kinds::PRIORITY_CLASSES, object("high", "", &tree!({"value": 10})));
    in_every_order(&with_queue([class, (&JOBS, job("j", &label))]), &a_job_runs);
}

#[test]
fn a_job_and_the_priority_class_of_its_pods() {
    let class = (&PRIORITY_CLASSES, object("high", "", &tree!({"value": 10})));
    let named = tree!({"spec": {"template": {"spec": {"priorityClassName": "high"}}}});
    in_every_order(&with_queue([class, (&JOBS, job("j", &named))]), &a_job_runs);
}

#[test]
fn a_job_and_the_workload_that_it_names() {
    let workload = (&kinds::WORKLOADS, workload(CPU));
    in_every_order(&with_queue([workload, (&JOBS, job("j", &names_workload()))]), &a_job_runs);
}

#[test]
fn a_pod_and_the_workload_that_it_names() {
    let workload = (&kinds::WORKLOADS, workload(1));
    in_every_order(&with_queue([workload, (&PODS, pod(&names_workload()))]), &a_pod_is_open);
}

#[test]
fn pods_of_a_group_and_the_workload_that_they_name() {
    let group = tree!({"metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "w"}}});
    let marked = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/is-group-workload": "true"}}});
    let workload = (&kinds::WORKLOADS, workload(1).merge(&marked));
    let member = pod(&names_workload()).merge(&group);
    in_every_order(&with_queue([workload, (&PODS, member)]), &a_pod_is_open);
}

/// An owner that is not queued: the Job queues for itself, which it may do only once its owner is known.
#[test]
fn a_job_and_its_owner() {
    let owner = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "s-uid", "controller": true});
    let owned = job("j", &tree!({"metadata": {"ownerReferences": [owner]}}));
    let set = (&JOBSETS, object("s", "ns", &tree!({"spec": {}})));
    let has_workload = |bench: &Bench| bench.caches.count(&kinds::WORKLOADS) == 1;
    in_every_order(&with_queue([set, (&JOBS, owned)]), &has_workload);
}

/// Someone else admits a Workload with a flavor that is created later: its nodes are known only then.
#[test]
fn an_admitted_job_and_its_flavor() {
    let flavor = (&kinds::RESOURCE_FLAVORS, object("f", "", &tree!({"spec": {"nodeLabels": {"pool": "a"}}})));
    let owner =
        tree!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j-uid", "controller": true});
    let set = tree!({"name": "main", "count": CPU, "flavors": {"cpu": "f"}});
    let condition = |kind: &str| tree!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": "1970-01-01T00:00:01Z"});
    let status = tree!({"admission": {"clusterQueue": "cq", "podSetAssignments": [set]},
        "conditions": [(condition("QuotaReserved")), (condition("Admitted"))]});
    let admitted = workload(CPU).merge(&tree!({"metadata": {"ownerReferences": [owner]}, "status": status}));
    let namespace = (&NAMESPACES, object("ns", "", &tree!({})));
    let objects = [namespace, flavor, (&kinds::WORKLOADS, admitted), (&JOBS, job("j", &tree!({})))];
    let runs = |bench: &Bench| {
        let job = bench.caches.get(&JOBS, &"ns".into(), &"j".into()).expect("it is there");
        job.tree.str_at(&["spec", "template", "spec", "nodeSelector", "pool"]) == "a"
    };
    // The Job and its Workload come together: without the Job the Workload would end.
    for order in [[&[3, 2][..], &[0], &[1]], [&[3, 2], &[1], &[0]], [&[0], &[3, 2], &[1]]] {
        let mut bench = Bench::empty();
        for together in order {
            for &at in together {
                let (kind, tree) = &objects[at];
                bench.put(kind, tree.clone());
            }
            bench.settle(None);
        }
        assert!(runs(&bench), "{order:?}");
    }
}
