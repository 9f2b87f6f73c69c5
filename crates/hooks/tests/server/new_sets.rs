//! JobSets when they are created.

use muster_jobset::FeatureGates;
use muster_jobset::admission::AdmissionSettings;
use muster_tree::{Tree, tree};

use crate::world::{SETS, World, asks, expect_denied, job, mounting, set};

/// Shows: 572-04, 572-05.
#[test]
fn what_is_left_out_is_filled_in_and_stays_so() {
    let world = World::new();
    let sent = set(
        "s",
        &tree!({"failurePolicy": {"maxRestarts": 2, "rules": [{"action": "FailJobSet"}]}, "volumeClaimPolicies": [
        {"templates": [{"metadata": {"name": "data"}, "spec": (asks("1Gi"))}]}, {"retentionPolicy": {}}],
        "replicatedJobs": [(mounting("w", &tree!({})))]}),
    );
    let path = format!("{SETS}/s");
    let (first, _) = world.apply(&path, &sent).unwrap();
    let spec = first.get("spec").unwrap();
    for (path, want) in [
        (&["successPolicy", "operator"][..], tree!("All")),
        (&["startupPolicy", "startupPolicyOrder"], tree!("AnyOrder")),
        (&["network"], tree!({"enableDNSHostnames": true, "publishNotReadyAddresses": true})),
        (&["failurePolicy", "restartStrategy"], tree!("Recreate")),
    ] {
        assert_eq!(spec.at(path), Some(&want), "{path:?}");
    }
    let one = &spec.items_at(&["replicatedJobs"])[0];
    assert_eq!(one.str_at(&["template", "spec", "completionMode"]), "Indexed");
    assert_eq!(one.str_at(&["template", "spec", "template", "spec", "restartPolicy"]), "OnFailure");
    for policy in spec.items_at(&["volumeClaimPolicies"]) {
        assert_eq!(policy.str_at(&["retentionPolicy", "whenDeleted"]), "Delete");
    }
    let (again, _) = world.apply(&path, &sent).unwrap();
    assert_eq!(again.int_at(&["metadata", "generation"]), Some(1), "the same manifest is no change");
    assert_eq!(
        again.str_at(&["metadata", "resourceVersion"]),
        first.str_at(&["metadata", "resourceVersion"])
    );
}

/// Shows: 572-05.
#[test]
fn claims_go_with_their_set_also_where_nobody_fills_in() {
    let world = World::without_admission();
    let sent = set(
        "s",
        &tree!({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"}, "spec": {}}]}, {}]}),
    );
    let path = format!("{SETS}/s");
    let (first, _) = world.apply(&path, &sent).unwrap_or_else(|status| panic!("{}", status.message));
    for policy in first.items_at(&["spec", "volumeClaimPolicies"]) {
        assert_eq!(policy.str_at(&["retentionPolicy", "whenDeleted"]), "Delete");
    }
    let (again, _) = world.apply(&path, &sent).unwrap_or_else(|status| panic!("{}", status.message));
    assert_eq!(again.int_at(&["metadata", "generation"]), Some(1), "the same manifest is no change");
}

#[test]
fn rules_of_names_order_and_policies_reach_the_client() {
    let jobs = |items: &[Tree]| tree!({"replicatedJobs": (Tree::list(items.iter().cloned()))});
    let waits = |name: &str, on: &str| job(name, &tree!({"dependsOn": [{"name": on, "status": "Ready"}]}));
    let plain = |name: &str| job(name, &tree!({}));
    let name = "spec.replicatedJobs[0].name";
    for (says, spec, want) in [
        (
            "a domain",
            tree!({"network": {"subdomain": "1a"}}),
            &[("spec.network.subdomain", "a DNS-1035 label must consist of")][..],
        ),
        ("a manager", tree!({"managedBy": "acme"}), &[("spec.managedBy", "must be a domain-prefixed path")]),
        (
            "too many pods",
            jobs(&[job("w", &tree!({"replicas": 2, "template": {"spec": {"parallelism": 2_000_000_000}}}))]),
            &[(
                "spec.replicatedJobs[0]",
                "the product of replicas and parallelism must not exceed 2147483647",
            )],
        ),
        (
            "a group",
            jobs(&[job("w", &tree!({"groupName": "1"}))]),
            &[("spec.replicatedJobs[0].groupName", "a DNS-1035 label must consist of")],
        ),
        (
            "names of Jobs",
            jobs(&[plain(&"w".repeat(60))]),
            &[(name, "job names generated for this JobSet will exceed 63 characters")],
        ),
        (
            "names of pods",
            jobs(&[job(&"w".repeat(55), &tree!({"template": {"spec": {"completions": 10}}}))]),
            &[(name, "pod names generated for this JobSet will exceed 63 characters")],
        ),
        (
            "the first waits for nobody",
            jobs(&[waits("a", "b"), plain("b")]),
            &[
                ("spec.replicatedJobs[0].dependsOn", "DependsOn can't be set for the first ReplicatedJob"),
                (
                    "spec.replicatedJobs[0].dependsOn[0].name",
                    "replicatedJob: a cannot depend on replicatedJob: b",
                ),
            ],
        ),
        (
            "nobody waits for itself",
            jobs(&[plain("a"), waits("b", "b")]),
            &[(
                "spec.replicatedJobs[1].dependsOn[0].name",
                "replicatedJob: b cannot depend on replicatedJob: b",
            )],
        ),
        (
            "there is no cycle",
            jobs(&[plain("a"), waits("b", "c"), waits("c", "b")]),
            &[(
                "spec.replicatedJobs[1].dependsOn[0].name",
                "replicatedJob: b cannot depend on replicatedJob: c",
            )],
        ),
        (
            "success of nobody",
            tree!({"successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]}}),
            &[(
                "spec.successPolicy.targetReplicatedJobs[0]",
                "invalid replicatedJob name 'x' does not appear in .spec.ReplicatedJobs",
            )],
        ),
        (
            "restarts in place without their gate",
            tree!({"failurePolicy": {"restartStrategy": "InPlaceRestart"}}),
            &[("spec.failurePolicy.restartStrategy", "when InPlaceRestart feature gate is disabled")],
        ),
        (
            "restarts of single Jobs without theirs",
            tree!({"failurePolicy": {"rules": [{"name": "r", "action": "RestartJob"}]}}),
            &[("spec.failurePolicy.rules", "when RestartJob feature gate is disabled")],
        ),
        (
            "rules",
            tree!({"failurePolicy": {"rules": [
                {"name": "r-", "action": "FailJobSet", "onJobFailureReasons": ["Because"]},
                {"name": "r", "action": "FailJobSet", "targetReplicatedJobs": ["x"]},
                {"name": "r", "action": "FailJobSet"}]}}),
            &[
                ("spec.failurePolicy.rules[0].name", "invalid failure policy rule name 'r-'"),
                (
                    "spec.failurePolicy.rules[0].onJobFailureReasons[0]",
                    "'Because' in failure policy is not a recognized",
                ),
                (
                    "spec.failurePolicy.rules[1].targetReplicatedJobs[0]",
                    "invalid replicatedJob name 'x' in failure",
                ),
                ("spec.failurePolicy.rules", "rules with indices [1 2] all have the same name 'r'"),
            ],
        ),
        (
            "a coordinator",
            tree!({"coordinator": {"replicatedJob": "x"}}),
            &[("spec.coordinator.replicatedJob", "coordinator replicatedJob x does not exist")],
        ),
    ] {
        expect_denied(says, &World::new().create(SETS, &set("s", &spec)), want);
    }
}

fn claims(templates: &Tree, pods: &Tree) -> Tree {
    let template = tree!({"spec": {"template": {"spec": pods}}});
    tree!({"replicatedJobs": [(job("w", &tree!({"resourceClaimTemplates": templates, "template": template})))]})
}

fn claim(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "c"}]}}})
}

/// Shows: 762-16, 762-31, 762-32, 762-33, 762-38, 762-39, 762-40.
#[test]
fn rules_of_device_claims_reach_the_client() {
    let world = World::new();
    let at = "spec.replicatedJobs[0].resourceClaimTemplates";
    let path = |rest: &str| format!("{at}{rest}");
    for (says, templates, place, words) in [
        (
            "two of a name",
            tree!([(claim("a")), (claim("a"))]),
            path("[1].metadata.name"),
            "duplicate resourceClaimTemplate name a",
        ),
        ("no label", tree!([(claim("a.b"))]), path("[0].metadata.name"), "must not contain dots"),
        (
            "nobody",
            tree!([(claim("a").with(&["containers"], tree!(["x"])))]),
            path("[0].containers[0]"),
            "has the name x",
        ),
        (
            "all and one",
            tree!([(claim("a").with(&["containers"], tree!(["c", "*"])))]),
            path("[0].containers[1]"),
            "must stand alone",
        ),
        (
            "no devices",
            tree!([{"metadata": {"name": "a"}, "spec": {}}]),
            path("[0].spec.devices"),
            "exactly one of",
        ),
        (
            "a namespace",
            tree!([(claim("a").with(&["metadata", "namespace"], "n"))]),
            path("[0].metadata.namespace"),
            "must be unset",
        ),
    ] {
        let written = world.create(SETS, &set("s", &claims(&templates, &tree!({}))));
        expect_denied(says, &written, &[(&place, words)]);
    }
    let meeting = tree!({"replicatedJobs": [
        (job("a", &tree!({"resourceClaimTemplates": [(claim("b-0-c"))]}))),
        (job("a-0-b", &tree!({"resourceClaimTemplates": [(claim("c"))]})))]});
    expect_denied(
        "names that meet",
        &world.create(SETS, &set("s", &meeting)),
        &[(
            "spec.replicatedJobs[1].resourceClaimTemplates[0].metadata.name",
            "resource claim name s-a-0-b-0-c is generated twice",
        )],
    );
    let gates = FeatureGates { claim_templates: false, ..FeatureGates::default() };
    let off = World::with(AdmissionSettings { gates, ..AdmissionSettings::default() });
    expect_denied(
        "the gate",
        &off.create(SETS, &set("s", &claims(&tree!([(claim("a"))]), &tree!({})))),
        &[(at, "cannot be set when JobSetResourceClaimTemplates feature gate is disabled")],
    );
    let plain = |world: &World| world.create(SETS, &set("s", &tree!({}))).unwrap().0.get("spec").cloned();
    assert_eq!(plain(&off), plain(&world), "sets without the field do not notice");
}

/// Shows: 762-28, 762-30, 762-50, 572-36.
#[test]
fn warnings_stand_beside_what_is_accepted() {
    let own = tree!({"resourceClaims": [{"name": "a", "resourceClaimName": "mine"}]});
    let dotted = tree!({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "a.b"}, "spec": (asks("1Gi"))}]}],
        "replicatedJobs": [(job("w", &tree!({"template": {"spec": {"template": {"spec": {"containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "a.b", "mountPath": "/d"}]}]}}}}})))]});
    let crowd = {
        let spec = claims(&tree!([(claim("a"))]), &tree!({}));
        let jobs = spec.get("replicatedJobs").unwrap();
        let pods = tree!({"template": {"spec": {"parallelism": 257, "completions": 257}}});
        tree!({"replicatedJobs": (jobs.map_items(|_, it| it.merge(&pods)))})
    };
    let overridden = claims(&tree!([(claim("a"))]), &own);
    for (says, spec, words) in [
        (
            "a pattern",
            tree!({"failurePolicy": {"rules": [{"name": "r", "action": "FailJobSet",
            "onJobFailureMessagePatterns": ["(open"]}]}}),
            "does not compile",
        ),
        ("a dotted volume", dotted, "volume claim template a.b"),
        ("a claim of the pods' own", overridden.clone(), "pod-level resource claim a overrides"),
        ("more pods than can share", crowd, "at most 256 pods"),
    ] {
        let (_, warnings) = World::new()
            .create(SETS, &set("s", &spec))
            .unwrap_or_else(|status| panic!("{says}: {}", status.message));
        assert!(warnings.len() == 1 && warnings[0].contains(words), "{says}: {warnings:?}");
    }
    let strict = World::with(AdmissionSettings { reject_overrides: true, ..AdmissionSettings::default() });
    let place = "spec.replicatedJobs[0].template.spec.template.spec.resourceClaims[0].name";
    expect_denied(
        "refused instead",
        &strict.create(SETS, &set("s", &overridden)),
        &[(place, "overrides the JobSet")],
    );
}

#[test]
fn a_name_that_the_server_makes_is_judged_as_it_is() {
    let made = |base: &str| {
        let set =
            set("s", &tree!({})).without(&["metadata", "name"]).with(&["metadata", "generateName"], base);
        World::new().create(SETS, &set)
    };
    assert!(made("train-").is_ok());
    expect_denied(
        "too long with what is added",
        &made(&"a".repeat(55)),
        &[("spec.replicatedJobs[0].name", "job names generated for this JobSet will exceed 63 characters")],
    );
}

/// What the server would refuse when the controller creates it is refused with the set.
#[test]
fn templates_of_what_is_created_are_validated() {
    let pods = |patch: &Tree| tree!({"replicatedJobs": [(job("w", &tree!({"template": {"spec": {"template": patch.clone()}}})))]});
    let at = "spec.replicatedJobs[0].template";
    let container = format!("{at}.spec.template.spec.containers[0]");
    let broken = asks("1Gi").with(&["accessModes"], tree!(["Sometimes"]));
    let volume = tree!({"volumeClaimPolicies": [{}, {"templates": [{"metadata": {"name": "data"}, "spec": broken}]}],
        "replicatedJobs": [(mounting("w", &tree!({})))]});
    let devices = |request: Tree| {
        claims(
            &tree!([{"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}}]),
            &tree!({}),
        )
    };
    for (says, spec, path, words) in [
        (
            "restarts",
            pods(&tree!({"spec": {"restartPolicy": "Always"}})),
            format!("{at}.spec.template.spec.restartPolicy"),
            "Required value: valid values: \"OnFailure\", \"Never\"",
        ),
        (
            "a name",
            pods(&tree!({"spec": {"containers": [{"name": "C_1", "image": "i"}]}})),
            format!("{container}.name"),
            "a lowercase RFC 1123 label must consist of",
        ),
        (
            "a mount of nothing",
            pods(
                &tree!({"spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}),
            ),
            format!("{container}.volumeMounts[0].name"),
            "Not found: \"v\"",
        ),
        (
            "devices without a limit",
            pods(
                &tree!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"a.b/gpu": 1}}}]}}),
            ),
            format!("{container}.resources.limits"),
            "Limit must be set for non overcommitable resources",
        ),
        (
            "a label",
            pods(&tree!({"metadata": {"labels": {"a": "no good"}}})),
            format!("{at}.spec.template.labels"),
            "Invalid value: \"no good\"",
        ),
        (
            "a deadline",
            tree!({"replicatedJobs": [(job("w", &tree!({"template": {"spec": {"activeDeadlineSeconds": -1}}})))]}),
            format!("{at}.spec.activeDeadlineSeconds"),
            "must be greater than or equal to 0",
        ),
        (
            "a shared volume",
            volume,
            "spec.volumeClaimPolicies[1].templates[0].spec.accessModes".to_owned(),
            "Unsupported value: \"Sometimes\"",
        ),
        (
            "a device claim",
            devices(tree!({"name": "r", "exactly": {"deviceClassName": "c", "count": -1}})),
            "spec.replicatedJobs[0].resourceClaimTemplates[0].spec.devices.requests[0].exactly.count"
                .to_owned(),
            "Invalid value: -1",
        ),
    ] {
        expect_denied(says, &World::new().create(SETS, &set("s", &spec)), &[(&path, words)]);
    }
    let bare = pods(&tree!({"spec": {"containers": [{"name": "c"}]}}));
    let (_, warnings) =
        World::new().create(SETS, &set("s", &bare)).unwrap_or_else(|status| panic!("{}", status.message));
    assert_eq!(warnings, [format!("{container}.image: Required value")], "a webhook may set it");
}
