//! Changes of JobSets.

use muster_jobset::FeatureGates;
use muster_jobset::admission::AdmissionSettings;
use muster_tree::{Tree, tree};

use crate::world::{SETS, World, Written, asks, expect_denied, expect_invalid, job, mounting, set};

const PATH: &str = "jobset.x-k8s.io/v1alpha2/default/jobsets/s";
const IMMUTABLE: &str = "field is immutable";

/// What comes of a set's change by a merge patch of its spec.
fn changed(world: &World, before: &Tree, patch: &Tree) -> Written {
    world.create(SETS, &set("s", before)).unwrap_or_else(|status| panic!("{}", status.message));
    world.merge(PATH, &tree!({"spec": patch}))
}

fn jobs(patch: &Tree) -> Tree {
    tree!({"replicatedJobs": [(job("w", patch))]})
}

fn volumes(when: &str) -> Tree {
    tree!({"volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": when},
        "templates": [{"metadata": {"name": "data"}, "spec": (asks("1Gi"))}]}]})
}

fn claims(name: &str) -> Tree {
    let devices = tree!({"requests": [{"name": "r", "deviceClassName": "c"}]});
    jobs(&tree!({"resourceClaimTemplates": [{"metadata": {"name": name}, "spec": {"devices": devices}}]}))
}

#[test]
fn replicated_jobs_and_managers_stay() {
    for (says, before, patch, want) in [
        ("replicas", tree!({}), jobs(&tree!({"replicas": 2})), "spec.replicatedJobs"),
        (
            "one more",
            tree!({}),
            tree!({"replicatedJobs": [(job("w", &tree!({}))), (job("v", &tree!({})))]}),
            "spec.replicatedJobs",
        ),
        ("none", tree!({}), tree!({"replicatedJobs": []}), "spec.replicatedJobs"),
        ("managed", tree!({}), tree!({"managedBy": "a.b/c"}), "spec.managedBy"),
        ("by another", tree!({"managedBy": "a.b/c"}), tree!({"managedBy": "a.b/d"}), "spec.managedBy"),
        ("by nobody", tree!({"managedBy": "a.b/c"}), tree!({"managedBy": null}), "spec.managedBy"),
    ] {
        expect_denied(says, &changed(&World::new(), &before, &patch), &[(want, IMMUTABLE)]);
    }
}

/// Shows: 762-34.
#[test]
fn claim_templates_stay_suspended_or_not() {
    for is_suspended in [false, true] {
        let held = |spec: &Tree| spec.with(&["suspend"], is_suspended);
        for (says, before, patch) in [
            ("changed", claims("a"), claims("b")),
            ("added", tree!({}), claims("a")),
            ("removed", claims("a"), jobs(&tree!({}))),
        ] {
            let written = changed(&World::new(), &held(&before), &patch);
            expect_denied(says, &written, &[("spec.replicatedJobs", IMMUTABLE)]);
        }
    }
}

/// Shows: 572-39.
#[test]
fn shared_volumes_stay_suspended_or_not() {
    for is_suspended in [false, true] {
        let held = |spec: &Tree| spec.with(&["suspend"], is_suspended);
        let path = "spec.volumeClaimPolicies";
        let mounted = volumes("Delete").merge(&tree!({"replicatedJobs": [(mounting("w", &tree!({})))]}));
        let written = changed(&World::new(), &held(&mounted), &volumes("Retain"));
        expect_invalid("changed", &written, &[(path, "Value is immutable")]);
        for (says, before, patch) in [
            ("added", &tree!({}), volumes("Delete")),
            ("removed", &mounted, tree!({"volumeClaimPolicies": null})),
        ] {
            expect_denied(says, &changed(&World::new(), &held(before), &patch), &[(path, IMMUTABLE)]);
        }
    }
}

/// A queue reads a set into the types of Go, resumes it and writes all of it back.
#[test]
fn what_go_writes_differently_is_no_change() {
    let world = World::new();
    let pods = |probe: Tree, divisor: Tree, size: &str, rest: Tree| {
        let env = tree!([{"name": "e", "valueFrom": {"resourceFieldRef": tree!({"resource": "limits.cpu"}).merge(&divisor)}}]);
        let container = tree!({"name": "main", "image": "i", "env": env,
            "livenessProbe": tree!({"tcpSocket": {"port": 80}}).merge(&probe)});
        let spec = tree!({"restartPolicy": "OnFailure", "containers": [(container.merge(&rest))],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": size}}]});
        tree!({"name": "w", "template": {"spec": {"completionMode": "Indexed", "template": {"spec": spec}}}})
    };
    let by_hand = pods(
        tree!({"timeoutSeconds": 0, "initialDelaySeconds": 0}),
        tree!({}),
        "1024Mi",
        tree!({"tty": false}),
    );
    let by_go = pods(tree!({}), tree!({"divisor": "0"}), "1Gi", tree!({"resources": {}}));
    world.create(SETS, &set("s", &tree!({"suspend": true, "replicatedJobs": [by_hand]}))).unwrap();
    let patch = tree!({"spec": {"suspend": false, "replicatedJobs": [by_go]}});
    world.merge(PATH, &patch).unwrap_or_else(|status| panic!("{}", status.message));
}

/// Shows: 762-34.
#[test]
fn devices_of_claim_templates_stay() {
    let asking = |class: &str| {
        let devices = tree!({"requests": [{"name": "r", "deviceClassName": class}]});
        jobs(&tree!({"resourceClaimTemplates": [{"metadata": {"name": "a"}, "spec": {"devices": devices}}]}))
    };
    expect_denied(
        "another class",
        &changed(&World::new(), &asking("a"), &asking("b")),
        &[("spec.replicatedJobs", IMMUTABLE)],
    );
}

#[test]
fn what_queues_change_is_free_while_suspended() {
    let pods = jobs(&tree!({"template": {"spec": {"template": {
        "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
        "spec": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
            "schedulingGates": [{"name": "a/b"}], "restartPolicy": "OnFailure"}},
        "completionMode": "Indexed"}}}));
    let suspended = tree!({"suspend": true});
    changed(&World::new(), &suspended, &pods).unwrap_or_else(|status| panic!("{}", status.message));
    changed(&World::new(), &suspended, &pods.with(&["suspend"], false))
        .unwrap_or_else(|status| panic!("{}", status.message));
    expect_denied(
        "not while it runs",
        &changed(&World::new(), &tree!({}), &pods),
        &[("spec.replicatedJobs", IMMUTABLE)],
    );
}

#[test]
fn the_rest_is_free() {
    let world = World::new();
    world.create(SETS, &set("s", &tree!({}))).unwrap();
    for spec in [
        tree!({"suspend": true}),
        tree!({"ttlSecondsAfterFinished": 5}),
        tree!({"coordinator": {"replicatedJob": "nobody"}}),
    ] {
        world.merge(PATH, &tree!({"spec": spec})).unwrap_or_else(|status| panic!("{}", status.message));
    }
    world.merge(PATH, &tree!({"metadata": {"labels": {"a": "b"}}})).unwrap();
    let status = tree!({"status": {"restarts": 1, "replicatedJobsStatus": []}});
    world.merge(&format!("{PATH}/status"), &status).unwrap_or_else(|status| panic!("{}", status.message));
}

#[test]
fn numbers_of_pods_are_elastic_when_that_is_on() {
    let gates = FeatureGates { elastic: true, ..FeatureGates::default() };
    let elastic = || World::with(AdmissionSettings { gates, ..AdmissionSettings::default() });
    let sized = |parallelism: i64, completions: i64| {
        jobs(&tree!({"template": {"spec": {"parallelism": parallelism, "completions": completions,
            "completionMode": "Indexed", "template": {"spec": {"restartPolicy": "OnFailure"}}}}}))
    };
    changed(&elastic(), &sized(2, 2), &sized(3, 3)).unwrap_or_else(|status| panic!("{}", status.message));
    let at = "spec.replicatedJobs[0].template.spec";
    expect_denied(
        "two numbers",
        &changed(&elastic(), &sized(2, 2), &sized(3, 4)),
        &[(
            &format!("{at}.completions"),
            "completions must be equal to parallelism for Elastic Indexed Jobs",
        )],
    );
    expect_denied(
        "off",
        &changed(&World::new(), &sized(2, 2), &sized(3, 3)),
        &[("spec.replicatedJobs", IMMUTABLE)],
    );
    let world = elastic();
    world.create(SETS, &set("s", &sized(2, 2))).unwrap();
    let ended = tree!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z"}]}});
    world.merge(&format!("{PATH}/status"), &ended).unwrap_or_else(|status| panic!("{}", status.message));
    expect_denied(
        "ended",
        &world.merge(PATH, &tree!({"spec": (sized(3, 3))})),
        &[(at, "terminal state (Completed or Failed)")],
    );
}

#[test]
fn an_update_as_typed_clients_send_it_changes_nothing() {
    let world = World::new();
    let env = tree!([{"name": "EMPTY", "value": ""}]);
    let container = tree!({"name": "c", "image": "i", "env": env, "resources": {"requests": {"cpu": "0.5"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": false}]});
    let pods = |container: Tree| {
        jobs(&tree!({"template": {"spec": {"completionMode": "Indexed", "template": {"spec": {
            "restartPolicy": "OnFailure", "tolerations": [], "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}]}}}}}))
    };
    let (made, _) = world.create(SETS, &set("s", &pods(container))).unwrap();
    let rewritten = tree!({"name": "c", "image": "i", "env": [{"name": "EMPTY"}], "resources": {"requests": {"cpu": "500m"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}]});
    let jobs = pods(rewritten).items_at(&["replicatedJobs"])[0].without(&[
        "template",
        "spec",
        "template",
        "spec",
        "tolerations",
    ]);
    let jobs = jobs.merge(&tree!({"groupName": "default", "replicas": 1}));
    let sent = made.with(&["spec", "replicatedJobs"], tree!([jobs]));
    world.update(PATH, &sent).unwrap_or_else(|status| panic!("{}", status.message));
}
