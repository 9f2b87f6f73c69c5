//! Shared volumes of JobSets when they are created.

use muster_tree::{Tree, tree};

use crate::world::{SETS, World, asks, expect_denied, mounting, set};

const CLAIMS: &str = "-/v1/default/persistentvolumeclaims";

fn policies(names: &[&str], when: &str, spec: &Tree) -> Tree {
    let template = |name: &&str| tree!({"metadata": {"name": *name}, "spec": spec});
    tree!({"volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": when},
        "templates": (Tree::list(names.iter().map(template)))}],
        "replicatedJobs": [(mounting("w", &tree!({})))]})
}

/// Shows: 572-31, 572-32, 572-34, 572-35, 572-37, 572-38.
#[test]
fn rules_of_volumes_reach_the_client() {
    let name = |at: usize| format!("spec.volumeClaimPolicies[0].template[{at}].name");
    let (first, second) = (name(0), name(1));
    let mount = |name: &str| {
        format!("replicatedJob containers don't have a matching volumeMount: {name} from VolumeClaimPolicies")
    };
    let declared = tree!({"template": {"spec": {"template": {"spec": {"volumes": [{"name": "data", "emptyDir": {}}]}}}}});
    let long = "d".repeat(62);
    let [other, odd, bad, too_long] = ["other", "Data_1", "B", &*long].map(mount);
    for (says, names, jobs, want) in [
        ("nobody mounts it", &["other"][..], tree!({}), &[("spec.replicatedJobs", &*other)][..]),
        (
            "a volume of its name",
            &["data"],
            tree!({"replicatedJobs": [(mounting("w", &declared))]}),
            &[(
                "spec.replicatedJobs[0].template.spec.template.spec.volumes[0].name",
                "volume name conflicts with VolumeClaimPolicy template name: data",
            )],
        ),
        (
            "two of a name",
            &["data", "data"],
            tree!({}),
            &[(&*second, "names must be unique for VolumeClaimPolicies")],
        ),
        (
            "no subdomain",
            &["Data_1"],
            tree!({}),
            &[(&*first, "a lowercase RFC 1123 subdomain must consist of"), ("spec.replicatedJobs", &*odd)],
        ),
        (
            "too long",
            &[&*long],
            tree!({}),
            &[
                (&*first, "VolumeClaimPolicies template name is too long"),
                ("spec.replicatedJobs", &*too_long),
            ],
        ),
        (
            "all faults",
            &["other", "B"],
            tree!({}),
            &[
                ("spec.replicatedJobs", &*other),
                (&*second, "a lowercase RFC 1123 subdomain must consist of"),
                ("spec.replicatedJobs", &*bad),
            ],
        ),
    ] {
        let spec = policies(names, "Delete", &asks("1Gi")).merge(&jobs);
        expect_denied(says, &World::new().create(SETS, &set("s", &spec)), want);
    }
}

/// Shows: 572-33.
#[test]
fn the_schema_refuses_a_namespace() {
    let spec = policies(&["data"], "Delete", &asks("1Gi"));
    let policy = spec.items_at(&["volumeClaimPolicies"])[0].with(
        &["templates"],
        tree!([{"metadata": {"name": "data", "namespace": "n"}, "spec": (asks("1Gi"))}]),
    );
    let refused =
        World::new().create(SETS, &set("s", &tree!({"volumeClaimPolicies": [policy]}))).unwrap_err();
    assert_eq!(refused.code, 422);
    assert!(
        refused.message.contains("namespace cannot be set for VolumeClaimPolicies templates"),
        "{}",
        refused.message
    );
}

/// Shows: 572-40, 572-41.
#[test]
fn a_retained_claim_serves_the_next_set_with_what_the_server_filled_in() {
    let world = World::new();
    let claim = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data-s"},
        "spec": (asks("1Gi"))});
    let (claim, _) = world.create(CLAIMS, &claim).unwrap();
    assert_eq!(
        claim.str_at(&["spec", "volumeMode"]),
        "Filesystem",
        "the server fills in more than was asked"
    );
    let create =
        |when: &str, size: &str| world.create(SETS, &set("s", &policies(&["data"], when, &asks(size))));
    expect_denied(
        "under Delete it would go with the set",
        &create("Delete", "1Gi"),
        &[(
            "spec.volumeClaimPolicies[0].retentionPolicy.whenDeleted",
            "retentionPolicy must be retain when PVC exists",
        )],
    );
    expect_denied(
        "another size",
        &create("Retain", "2Gi"),
        &[(
            "spec.volumeClaimPolicies[0].template[0].spec.resources.requests.storage",
            "spec does not match existing PVC data-s in namespace default",
        )],
    );
    assert!(create("Retain", "1024Mi").is_ok(), "the same size in other letters");
}

/// Shows: 572-42.
#[test]
fn a_claim_of_another_set_is_refused() {
    let world = World::new();
    let owner = tree!([{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "other", "uid": "u",
        "controller": true}]);
    let claim = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-s", "ownerReferences": owner}, "spec": (asks("1Gi"))});
    world.create(CLAIMS, &claim).unwrap();
    expect_denied(
        "retained or not",
        &world.create(SETS, &set("s", &policies(&["data"], "Retain", &asks("1Gi")))),
        &[("spec.volumeClaimPolicies[0].template[0].name", "PVC data-s is controlled by JobSet other")],
    );
}
