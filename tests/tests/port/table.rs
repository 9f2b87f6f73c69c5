//! The calls that are played over every maker, in order.
//!
//! A row may use what earlier rows were answered. There are no controllers: what a row does stays done.

use muster_api::client::{ApiRequest, DeletionPropagation, RequestVerb, Subresource};
use muster_api::kinds::{CONFIG_MAPS, JOBS, LEASES, NAMESPACES, NODES, PODS};
use muster_tree::tree;

use super::made;
use super::words::*;

/// What it shows, and the call.
pub type Row = (&'static str, fn(&Seen) -> ApiRequest);

pub fn rows() -> Vec<Row> {
    [creates(), guards(), applies(), jobs(), pods(), scales(), made::rows(), deletes(), namespaces()].concat()
}

fn creates() -> Vec<Row> {
    vec![
        ("a namespace", |_| {
            let made = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}});
            call(on(&NAMESPACES, SPACE), RequestVerb::Create(made))
        }),
        ("nothing is there yet", |_| call(on(&CONFIG_MAPS, "a"), RequestVerb::Get)),
        ("an object", |_| {
            call(on(&CONFIG_MAPS, "a"), RequestVerb::Create(config("a", &tree!({"x": "1", "y": "1"}))))
        }),
        ("the name is taken", |_| call(on(&CONFIG_MAPS, "a"), RequestVerb::Create(config("a", &tree!({}))))),
        ("the target names what has no name", |_| {
            call(
                on(&CONFIG_MAPS, "named"),
                RequestVerb::Create(config("", &tree!({})).without(&["metadata"])),
            )
        }),
        ("a body that is of another kind", |_| call(on(&CONFIG_MAPS, "b"), RequestVerb::Create(pod("b")))),
        ("a body of another namespace", |_| {
            let body = config("b", &tree!({})).with(&["metadata", "namespace"], "elsewhere");
            call(on(&CONFIG_MAPS, "b"), RequestVerb::Create(body))
        }),
        ("a field nobody knows", |_| {
            call(on(&CONFIG_MAPS, "b"), RequestVerb::Create(config("b", &tree!({})).with(&["colour"], "red")))
        }),
        ("a name that is none", |_| {
            call(on(&CONFIG_MAPS, "B_"), RequestVerb::Create(config("B_", &tree!({}))))
        }),
        ("a value that is none", |_| {
            call(on(&CONFIG_MAPS, "b"), RequestVerb::Create(config("b", &tree!({"x": 1}))))
        }),
        ("a namespace that is none", |_| {
            let mut on = on(&CONFIG_MAPS, "b");
            on.namespace = "nowhere".into();
            call(on, RequestVerb::Create(tree!({})))
        }),
        ("a kind that is none", |_| {
            let mut kind = CONFIG_MAPS.clone();
            kind.plural = "gadgets".into();
            call(on(&kind, "b"), RequestVerb::Create(tree!({})))
        }),
        ("no guard holds back a create", |_| {
            uid(
                "u",
                revision(1, call(on(&CONFIG_MAPS, "free"), RequestVerb::Create(config("free", &tree!({}))))),
            )
        }),
        ("the object again", |_| call(on(&CONFIG_MAPS, "a"), RequestVerb::Get)),
    ]
}

fn guards() -> Vec<Row> {
    const A: &str = "a";
    vec![
        ("a merge", |_| {
            call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"data": {"x": "2", "y": null}})))
        }),
        ("a merge that changes nothing", |_| {
            call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"data": {"x": "2"}})))
        }),
        ("a merge of this incarnation and revision", |seen| {
            let merge = call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"data": {"x": "3"}})));
            uid(seen.uid(&CONFIG_MAPS, A), revision(seen.revision(&CONFIG_MAPS, A), merge))
        }),
        ("a merge of an earlier revision", |seen| {
            let merge = call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"data": {"x": "4"}})));
            revision(seen.revision(&CONFIG_MAPS, A) - 1, merge)
        }),
        ("a merge of another incarnation", |_| {
            uid("u", call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"data": {"x": "4"}}))))
        }),
        ("a strategic merge of another incarnation", |_| {
            uid("u", call(on(&CONFIG_MAPS, A), RequestVerb::StrategicMergePatch(tree!({"data": {"x": "4"}}))))
        }),
        ("a strategic merge of an earlier revision", |seen| {
            let merge =
                call(on(&CONFIG_MAPS, A), RequestVerb::StrategicMergePatch(tree!({"data": {"x": "4"}})));
            revision(seen.revision(&CONFIG_MAPS, A) - 1, merge)
        }),
        ("reading this incarnation", |seen| {
            uid(seen.uid(&CONFIG_MAPS, A), call(on(&CONFIG_MAPS, A), RequestVerb::Get))
        }),
        ("reading another incarnation", |_| uid("u", call(on(&CONFIG_MAPS, A), RequestVerb::Get))),
        ("reading another revision", |seen| {
            revision(seen.revision(&CONFIG_MAPS, A) - 1, call(on(&CONFIG_MAPS, A), RequestVerb::Get))
        }),
        ("a merge of what is not there", |_| {
            call(on(&CONFIG_MAPS, "no"), RequestVerb::MergePatch(tree!({})))
        }),
        ("a guarded merge of what is not there", |_| {
            uid("u", revision(1, call(on(&CONFIG_MAPS, "no"), RequestVerb::MergePatch(tree!({})))))
        }),
        ("deleting what is not there", |seen| {
            let mut call = delete(seen, &CONFIG_MAPS, A, DeletionPropagation::Background);
            call.target.name = "no".into();
            call
        }),
        ("deleting another incarnation", |seen| {
            uid("u", delete(seen, &CONFIG_MAPS, A, DeletionPropagation::Background))
        }),
        ("deleting an earlier revision", |seen| {
            revision(
                seen.revision(&CONFIG_MAPS, A) - 1,
                delete(seen, &CONFIG_MAPS, A, DeletionPropagation::Background),
            )
        }),
        ("a merge with what cannot be", |_| {
            call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"data": {"/": "x"}})))
        }),
        ("a merge with a field nobody knows", |_| {
            call(on(&CONFIG_MAPS, A), RequestVerb::MergePatch(tree!({"colour": "red"})))
        }),
    ]
}

fn applies() -> Vec<Row> {
    const B: &str = "applied";
    vec![
        ("an apply creates", |_| apply(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "1", "y": "1"})))),
        ("what is not listed goes", |_| apply(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "1"})))),
        ("an apply that changes nothing", |_| apply(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "1"})))),
        ("another owner adds", |_| by("second", apply(on(&CONFIG_MAPS, B), config(B, &tree!({"z": "1"}))))),
        ("another owner is refused", |_| {
            by("second", apply(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "2"}))))
        }),
        ("another owner takes", |_| by("second", force(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "2"}))))),
        ("of this incarnation and revision", |seen| {
            let apply = force(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "3"})));
            uid(seen.uid(&CONFIG_MAPS, B), revision(seen.revision(&CONFIG_MAPS, B), apply))
        }),
        ("of another incarnation", |_| uid("u", force(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "4"}))))),
        ("of an earlier revision", |seen| {
            let apply = force(on(&CONFIG_MAPS, B), config(B, &tree!({"x": "4"})));
            revision(seen.revision(&CONFIG_MAPS, B) - 1, apply)
        }),
        ("a known incarnation that is not there is not made anew", |_| {
            uid("u", force(on(&CONFIG_MAPS, "no"), config("no", &tree!({}))))
        }),
        ("a revision without an incarnation means too little to apply", |_| {
            revision(1, force(on(&CONFIG_MAPS, "no"), config("no", &tree!({}))))
        }),
        ("without a kind", |_| force(on(&CONFIG_MAPS, B), tree!({"data": {}}))),
        ("a field nobody knows", |_| {
            force(on(&CONFIG_MAPS, B), config(B, &tree!({})).with(&["colour"], "red"))
        }),
        ("a part that does not exist", |_| {
            force(part(&CONFIG_MAPS, B, Subresource::Status), config(B, &tree!({})))
        }),
    ]
}

fn jobs() -> Vec<Row> {
    vec![
        ("a job", |_| call(on(&JOBS, "j"), RequestVerb::Create(job("j")))),
        ("a job that cannot be", |_| {
            call(on(&JOBS, "k"), RequestVerb::Create(job("k").with(&["spec", "parallelism"], -1)))
        }),
        ("what cannot be changed", |_| {
            call(on(&JOBS, "j"), RequestVerb::MergePatch(tree!({"spec": {"completions": 5}})))
        }),
        ("its status", |_| {
            let status = tree!({"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {}}});
            call(part(&JOBS, "j", Subresource::Status), RequestVerb::MergePatch(status))
        }),
        ("a status with a guard", |seen| {
            let merge = call(
                part(&JOBS, "j", Subresource::Status),
                RequestVerb::MergePatch(tree!({"status": {"active": 2}})),
            );
            revision(seen.revision(&JOBS, "j"), uid(seen.uid(&JOBS, "j"), merge))
        }),
        ("a status by apply", |_| {
            let body = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": SPACE},
                "status": {"ready": 1}});
            by("status-writer", apply(part(&JOBS, "j", Subresource::Status), body))
        }),
        ("a status that cannot be", |_| {
            call(
                part(&JOBS, "j", Subresource::Status),
                RequestVerb::MergePatch(tree!({"status": {"failed": -1}})),
            )
        }),
        ("the spec is no part of the status", |_| {
            let both = tree!({"spec": {"suspend": true}, "status": {"active": 3}});
            call(part(&JOBS, "j", Subresource::Status), RequestVerb::MergePatch(both))
        }),
        ("the status alone", |_| call(part(&JOBS, "j", Subresource::Status), RequestVerb::Get)),
        ("its spec, whose status does not change", |_| {
            call(
                on(&JOBS, "j"),
                RequestVerb::MergePatch(tree!({"spec": {"suspend": true}, "status": {"active": 9}})),
            )
        }),
    ]
}

fn pods() -> Vec<Row> {
    vec![
        ("a node", |_| {
            call(
                on(&NODES, "n"),
                RequestVerb::Create(tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})),
            )
        }),
        ("a condition of the node", |_| {
            let ready = tree!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
            call(part(&NODES, "n", Subresource::Status), RequestVerb::StrategicMergePatch(ready))
        }),
        ("another condition beside it", |_| {
            let more = tree!({"status": {"conditions": [{"type": "DiskPressure", "status": "False"}]}});
            by("second", call(part(&NODES, "n", Subresource::Status), RequestVerb::StrategicMergePatch(more)))
        }),
        ("a pod", |_| call(on(&PODS, "p"), RequestVerb::Create(pod("p")))),
        ("a binding of another incarnation", |_| {
            uid("u", call(part(&PODS, "p", Subresource::Binding), binding()))
        }),
        ("a binding", |seen| {
            uid(seen.uid(&PODS, "p"), call(part(&PODS, "p", Subresource::Binding), binding()))
        }),
        ("a second binding", |seen| {
            uid(seen.uid(&PODS, "p"), call(part(&PODS, "p", Subresource::Binding), binding()))
        }),
        ("a binding of nobody", |_| call(part(&PODS, "no", Subresource::Binding), binding())),
        ("the bound pod", |_| call(on(&PODS, "p"), RequestVerb::Get)),
        ("its status", |_| {
            let runs =
                tree!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            call(part(&PODS, "p", Subresource::Status), RequestVerb::StrategicMergePatch(runs))
        }),
        ("a deletion with grace waits for the node", |seen| {
            grace(20, delete(seen, &PODS, "p", DeletionPropagation::Background))
        }),
        ("the pod on its way out", |_| call(on(&PODS, "p"), RequestVerb::Get)),
        ("a create under the name of one that is going", |_| {
            call(on(&PODS, "p"), RequestVerb::Create(pod("p")))
        }),
        ("no grace ends it", |seen| grace(0, delete(seen, &PODS, "p", DeletionPropagation::Background))),
        ("it is gone", |_| call(on(&PODS, "p"), RequestVerb::Get)),
        ("a second pod", |_| call(on(&PODS, "q"), RequestVerb::Create(pod("q")))),
        ("an eviction of another incarnation", |_| {
            uid("u", call(part(&PODS, "q", Subresource::Eviction), eviction("q")))
        }),
        ("an eviction", |seen| {
            uid(seen.uid(&PODS, "q"), call(part(&PODS, "q", Subresource::Eviction), eviction("q")))
        }),
        ("an eviction of nobody", |_| call(part(&PODS, "q", Subresource::Eviction), eviction("q"))),
    ]
}

fn binding() -> RequestVerb {
    RequestVerb::Create(
        tree!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p", "namespace": SPACE},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n"}}),
    )
}

fn eviction(name: &str) -> RequestVerb {
    RequestVerb::Create(
        tree!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": SPACE}}),
    )
}

fn scales() -> Vec<Row> {
    vec![
        ("a deployment", |_| {
            let labels = tree!({"app": "d"});
            let made = tree!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": SPACE},
                "spec": {"replicas": 2, "selector": {"matchLabels": labels.clone()},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
            call(on(&DEPLOYMENTS, "d"), RequestVerb::Create(made))
        }),
        ("its scale", |_| call(part(&DEPLOYMENTS, "d", Subresource::Scale), RequestVerb::Get)),
        ("more of it", |_| {
            call(
                part(&DEPLOYMENTS, "d", Subresource::Scale),
                RequestVerb::MergePatch(tree!({"spec": {"replicas": 5}})),
            )
        }),
        ("less than none", |_| {
            call(
                part(&DEPLOYMENTS, "d", Subresource::Scale),
                RequestVerb::MergePatch(tree!({"spec": {"replicas": -1}})),
            )
        }),
        ("more of another incarnation", |_| {
            uid(
                "u",
                call(
                    part(&DEPLOYMENTS, "d", Subresource::Scale),
                    RequestVerb::MergePatch(tree!({"spec": {"replicas": 6}})),
                ),
            )
        }),
        ("more of an earlier revision", |seen| {
            let more = call(
                part(&DEPLOYMENTS, "d", Subresource::Scale),
                RequestVerb::MergePatch(tree!({"spec": {"replicas": 6}})),
            );
            revision(seen.revision(&DEPLOYMENTS, "d"), more)
        }),
        ("the scaled deployment", |_| call(on(&DEPLOYMENTS, "d"), RequestVerb::Get)),
    ]
}

fn deletes() -> Vec<Row> {
    vec![
        ("dependents first: the object waits for the collector", |seen| {
            delete(seen, &JOBS, "j", DeletionPropagation::Foreground)
        }),
        ("and says so", |_| call(on(&JOBS, "j"), RequestVerb::Get)),
        ("no finalizer can be added to it", |_| {
            call(
                on(&JOBS, "j"),
                RequestVerb::MergePatch(tree!({"metadata": {"finalizers": ["foregroundDeletion", "a.b/c"]}})),
            )
        }),
        ("its last finalizer taken away, it goes", |_| {
            call(on(&JOBS, "j"), RequestVerb::MergePatch(tree!({"metadata": {"finalizers": null}})))
        }),
        ("it is gone", |_| call(on(&JOBS, "j"), RequestVerb::Get)),
        ("dependents stay: the object waits too", |seen| {
            delete(seen, &DEPLOYMENTS, "d", DeletionPropagation::Orphan)
        }),
        ("asked again, nothing changes", |seen| delete(seen, &DEPLOYMENTS, "d", DeletionPropagation::Orphan)),
        ("another wish replaces it", |seen| delete(seen, &DEPLOYMENTS, "d", DeletionPropagation::Background)),
        ("dependents afterwards: gone at once", |seen| {
            delete(seen, &CONFIG_MAPS, "named", DeletionPropagation::Background)
        }),
        ("gone is gone", |seen| delete(seen, &CONFIG_MAPS, "named", DeletionPropagation::Background)),
        ("a lease", |_| {
            let made = tree!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "l", "namespace": SPACE, "finalizers": ["a.b/c"]}});
            call(on(&LEASES, "l"), RequestVerb::Create(made))
        }),
        ("what has a finalizer stays", |seen| delete(seen, &LEASES, "l", DeletionPropagation::Background)),
        ("a merge of what is going", |_| {
            call(on(&LEASES, "l"), RequestVerb::MergePatch(tree!({"spec": {"holderIdentity": "me"}})))
        }),
    ]
}

fn namespaces() -> Vec<Row> {
    vec![
        ("a namespace to end", |_| {
            let made = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ends"}});
            call(on(&NAMESPACES, "ends"), RequestVerb::Create(made))
        }),
        ("it begins to end", |seen| delete(seen, &NAMESPACES, "ends", DeletionPropagation::Background)),
        ("nothing can be made in it", |_| {
            let mut on = on(&CONFIG_MAPS, "late");
            on.namespace = "ends".into();
            call(on, RequestVerb::Create(tree!({})))
        }),
        ("it is finalized", |seen| {
            let body = seen.tree(&NAMESPACES, "ends").with(&["spec", "finalizers"], tree!([]));
            call(part(&NAMESPACES, "ends", Subresource::Finalize), RequestVerb::MergePatch(body))
        }),
        ("it is gone", |_| call(on(&NAMESPACES, "ends"), RequestVerb::Get)),
    ]
}
