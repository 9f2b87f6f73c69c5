//! Validation of Workloads and PodGroups.

use super::*;

/// Shows: 5832-11, 5832-12, 5832-13.
#[test]
fn invalid_workloads_are_rejected() {
    let world = TestEngine::new();
    let base = workload("w");
    let templates = |list: Tree| with(&base, "spec.podGroupTemplates", list);
    let template = |template: Tree| templates(Tree::list([template]));
    let owner = |owner: Tree| with(&base, "spec.controllerRef", owner);
    let many: Vec<Tree> = (0..9).map(|i| gang(&format!("t{i}"), 1)).collect();
    let long = "x".repeat(64);
    for (says, tree, words) in [
        (
            "a name that is none",
            with(&base, "metadata.name", "W_1"),
            "metadata.name: Invalid value: \"W_1\": a lowercase RFC 1123 subdomain",
        ),
        ("no spec", without(&base, "spec"), "spec.podGroupTemplates: Required value"),
        ("no templates", templates(tree!([])), "spec.podGroupTemplates: Required value"),
        (
            "nine templates",
            templates(Tree::list(many)),
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
        ),
        (
            "a template without a name",
            template(without(&gang("t", 1), "name")),
            "spec.podGroupTemplates[0].name: Required value",
        ),
        (
            "a template's name with a dot",
            template(gang("a.b", 1)),
            "spec.podGroupTemplates[0].name: Invalid value: \"a.b\": must not contain dots",
        ),
        ("a template's name that is too long", template(gang(&long, 1)), "must be no more than 63"),
        (
            "two templates of one name",
            templates(tree!([(gang("t", 1)), (gang("t", 2))])),
            "spec.podGroupTemplates[1]: Duplicate value: {\"name\":\"t\"}",
        ),
        (
            "no policy",
            template(tree!({"name": "t"})),
            "spec.podGroupTemplates[0].policy: Invalid value: \"\": must specify one of: `basic`, `gang`",
        ),
        (
            "an empty policy",
            template(tree!({"name": "t", "policy": {}})),
            "spec.podGroupTemplates[0].policy: Invalid value",
        ),
        (
            "an empty policy by its later name",
            template(tree!({"name": "t", "schedulingPolicy": {}})),
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value",
        ),
        (
            "both policies",
            template(tree!({"name": "t", "policy": {"basic": {}, "gang": {"minCount": 1}}})),
            "spec.podGroupTemplates[0].policy: Invalid value: \"{basic, gang}\": must specify exactly one of: `basic`, `gang`",
        ),
        (
            "the two names of the policy disagree",
            template(
                tree!({"name": "t", "policy": {"basic": {}}, "schedulingPolicy": {"gang": {"minCount": 1}}}),
            ),
            "spec.podGroupTemplates[0].schedulingPolicy: Invalid value: {\"gang\":{\"minCount\":1}}: must equal spec.podGroupTemplates[0].policy when both are set",
        ),
        (
            "a gang without a count",
            template(tree!({"name": "t", "policy": {"gang": {}}})),
            "spec.podGroupTemplates[0].policy.gang.minCount: Required value",
        ),
        ("a gang of none", template(gang("t", 0)), "policy.gang.minCount: Required value"),
        (
            "a gang of less than none",
            template(gang("t", -1)),
            "spec.podGroupTemplates[0].policy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
        ),
        (
            "an owner without kind and name",
            owner(tree!({"apiGroup": "batch"})),
            "[spec.controllerRef.kind: Required value, spec.controllerRef.name: Required value]",
        ),
        (
            "an owner's group that is none",
            owner(tree!({"apiGroup": "A_b", "kind": "Job", "name": "j"})),
            "spec.controllerRef.apiGroup: Invalid value: \"A_b\"",
        ),
        (
            "an owner's name that leads elsewhere",
            owner(tree!({"apiGroup": "batch", "kind": "Job", "name": "a/b"})),
            "spec.controllerRef.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            "both lists",
            with(&base, "spec.podGroups", tree!([(gang("u", 1))])),
            "spec.podGroups: Forbidden: may not be set together with podGroupTemplates",
        ),
        (
            "an old list that breaks a rule",
            with(&without(&base, "spec.podGroupTemplates"), "spec.podGroups", tree!([(gang("t", -1))])),
            "spec.podGroups[0].policy.gang.minCount: Invalid value: -1",
        ),
        (
            "two priorities",
            templates(tree!([(with(&gang("t", 1), "priority", 1)), (with(&gang("u", 1), "priority", 2))])),
            "spec.podGroupTemplates[1].priority: Invalid value: 2: must be the same in all templates",
        ),
    ] {
        refused(says, world.create(&format!("{ALPHA}/workloads"), tree), words);
    }
}

/// Violations of the rules that templates and groups share.
fn broken_extras() -> Vec<(&'static str, &'static str, Tree, &'static str)> {
    let claim = |name: &str| tree!({"name": name, "resourceClaimName": "c"});
    let five: Vec<Tree> = (0..5).map(|i| claim(&format!("c{i}"))).collect();
    vec![
        (
            "two topologies",
            "schedulingConstraints",
            tree!({"topology": [{"key": "a"}, {"key": "b"}]}),
            "schedulingConstraints.topology: Too many: 2: must have at most 1 item",
        ),
        (
            "a topology without a key",
            "schedulingConstraints",
            tree!({"topology": [{}]}),
            "schedulingConstraints.topology[0].key: Required value",
        ),
        (
            "a topology that is no label",
            "schedulingConstraints",
            tree!({"topology": [{"key": "-a"}]}),
            "schedulingConstraints.topology[0].key: Invalid value: \"-a\"",
        ),
        (
            "five claims",
            "resourceClaims",
            Tree::list(five),
            "resourceClaims: Too many: 5: must have at most 4 items",
        ),
        (
            "two claims of one name",
            "resourceClaims",
            tree!([(claim("a")), (claim("a"))]),
            "resourceClaims[1]: Duplicate value",
        ),
        (
            "a claim without a name",
            "resourceClaims",
            tree!([{"resourceClaimName": "c"}]),
            "resourceClaims[0].name: Required value",
        ),
        (
            "a claim of nothing",
            "resourceClaims",
            tree!([{"name": "a"}]),
            "resourceClaims[0]: Invalid value: \"\": must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (
            "a claim of two things",
            "resourceClaims",
            tree!([{"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "d"}]),
            "resourceClaims[0]: Invalid value: \"{resourceClaimName, resourceClaimTemplateName}\": must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
        ),
        (
            "a claim of a bad name",
            "resourceClaims",
            tree!([{"name": "a", "resourceClaimName": "C"}]),
            "resourceClaims[0].resourceClaimName: Invalid value: \"C\"",
        ),
        (
            "no disruption mode",
            "disruptionMode",
            tree!({}),
            "disruptionMode: Invalid value: \"\": must specify one of: `single`, `all`",
        ),
        (
            "two disruption modes",
            "disruptionMode",
            tree!({"single": {}, "all": {}}),
            "disruptionMode: Invalid value: \"{single, all}\": must specify exactly one of: `single`, `all`",
        ),
        (
            "a preemption policy that is none",
            "preemptionPolicy",
            tree!("Sometimes"),
            "preemptionPolicy: Unsupported value: \"Sometimes\": supported values: \"Never\", \"PreemptLowerPriority\"",
        ),
    ]
}

/// Shows: 5832-11.
#[test]
fn templates_and_groups_share_their_validation() {
    let world = TestEngine::new();
    for (says, key, value, words) in broken_extras() {
        let template = gang("t", 1).with_key(key, value.clone());
        let tree = with(&workload("w"), "spec.podGroupTemplates", tree!([template]));
        refused(
            says,
            world.create(&format!("{ALPHA}/workloads"), tree),
            &format!("spec.podGroupTemplates[0].{words}"),
        );
        for (path, group) in [(ALPHA, group("g")), (BETA, released("g"))] {
            if key == "preemptionPolicy" && path == BETA {
                // In that version admission checks the preemption policy first.
                continue;
            }
            let tree = with(&group, &format!("spec.{key}"), value.clone());
            refused(says, world.create(&format!("{path}/podgroups"), tree), &format!("spec.{words}"));
        }
    }
    let whole = tree!({"schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}, "disruptionMode": {"all": {}},
        "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "c"}], "preemptionPolicy": "Never"});
    let of = |base: Tree| {
        whole.entries().iter().fold(base, |tree, (key, value)| tree.with_key(key, value.clone()))
    };
    let tree = with(&workload("w"), "spec.podGroupTemplates", tree!([(of(gang("t", 1)))]));
    assert_eq!(
        world.create(&format!("{ALPHA}/workloads"), tree.clone()).unwrap().at(&["spec", "podGroupTemplates"]),
        tree.at(&["spec", "podGroupTemplates"])
    );
    let group = group("g");
    let spec = of(group.get("spec").cloned().unwrap());
    let made = world.create(&format!("{ALPHA}/podgroups"), group.with_key("spec", spec.clone())).unwrap();
    assert_eq!(made.get("spec"), Some(&with(&spec, "podGroupTemplateName", "t")));
}

/// Shows: 5832-04, 5832-05, 5832-06.
#[test]
fn invalid_groups_are_rejected() {
    let world = TestEngine::new();
    let base = group("g");
    let reference = |key: &str, value: &str| with(&base, &format!("spec.workloadRef.{key}"), value);
    let long = "a".repeat(254);
    for (says, tree, words) in [
        (
            "a name that is none",
            with(&base, "metadata.name", "G"),
            "metadata.name: Invalid value: \"G\": a lowercase RFC 1123 subdomain",
        ),
        ("a name that is too long", with(&base, "metadata.name", &*long), "must be no more than 253"),
        ("no spec", without(&base, "spec"), "spec: Required value"),
        ("no Workload", tree!({"metadata": {"name": "g"}, "spec": {}}), "spec.workloadRef: Required value"),
        (
            "a template of no Workload",
            without(&base, "spec.workloadRef"),
            "spec.workloadRef: Required value: must be set when a template is named",
        ),
        (
            "a Workload without a name",
            with(&base, "spec.workloadRef", tree!({})),
            "spec.workloadRef.name: Required value",
        ),
        ("a Workload of a bad name", reference("name", "W"), "spec.workloadRef.name: Invalid value: \"W\""),
        (
            "a Workload elsewhere",
            reference("namespace", "other"),
            "spec.workloadRef.namespace: Invalid value: \"other\": must be empty or the namespace of the PodGroup (\"default\")",
        ),
        (
            "another kind",
            reference("kind", "Job"),
            "spec.workloadRef.kind: Unsupported value: \"Job\": supported values: \"Workload\"",
        ),
        (
            "another group",
            reference("apiVersion", "batch/v1"),
            "spec.workloadRef.apiVersion: Invalid value: \"batch/v1\": must be empty or a version of group scheduling.k8s.io",
        ),
        (
            "a version without a group",
            reference("apiVersion", "v1alpha1"),
            "spec.workloadRef.apiVersion: Invalid value",
        ),
        (
            "no template",
            without(&base, "spec.podGroupTemplateRef"),
            "spec.podGroupTemplateRef.name: Required value",
        ),
        (
            "a template of a bad name",
            with(&base, "spec.podGroupTemplateRef.name", "a.b"),
            "spec.podGroupTemplateRef.name: Invalid value: \"a.b\"",
        ),
        (
            "two templates",
            with(&base, "spec.podGroupTemplateName", "u"),
            "spec.podGroupTemplateName: Invalid value: \"u\": must equal spec.podGroupTemplateRef.name (\"t\")",
        ),
        (
            "an empty policy",
            with(&base, "spec.schedulingPolicy", tree!({})),
            "spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`",
        ),
        (
            "a gang of less than none",
            with(&base, "spec.schedulingPolicy", tree!({"gang": {"minCount": -2}})),
            "spec.schedulingPolicy.gang.minCount: Invalid value: -2",
        ),
    ] {
        refused(says, world.create(&format!("{ALPHA}/podgroups"), tree), words);
    }
    let whole = with(
        &base,
        "spec.workloadRef",
        tree!({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload",
        "name": "w", "namespace": "default", "uid": "u"}),
    );
    world.create(&format!("{ALPHA}/podgroups"), whole.clone()).expect("a reference that says everything");
    let again = world.create(&format!("{ALPHA}/podgroups"), whole).unwrap_err();
    assert_eq!((again.code, again.reason), (409, "AlreadyExists"), "a name counts once in a namespace");
    world.create("-/v1/-/namespaces", tree!({"metadata": {"name": "other"}})).unwrap();
    let elsewhere = "scheduling.k8s.io/v1alpha1/other/podgroups";
    world.create(elsewhere, base).expect("the same name in another namespace");
}

/// Shows: 5832-06.
#[test]
fn either_field_names_the_template() {
    let world = TestEngine::new();
    for (says, spelled) in [
        ("by reference", tree!({"podGroupTemplateRef": {"name": "t"}})),
        ("by name", tree!({"podGroupTemplateName": "t"})),
        ("both", tree!({"podGroupTemplateRef": {"name": "t"}, "podGroupTemplateName": "t"})),
        (
            "by name beside an empty reference",
            tree!({"podGroupTemplateRef": {}, "podGroupTemplateName": "t"}),
        ),
    ] {
        let spec = spelled.with(&["workloadRef", "name"], "w");
        let made = world
            .create(&format!("{ALPHA}/podgroups"), tree!({"metadata": {"generateName": "g-"}, "spec": spec}))
            .unwrap_or_else(|status| panic!("{says}: {}", status.message));
        let both = (
            made.str_at(&["spec", "podGroupTemplateRef", "name"]),
            made.str_at(&["spec", "podGroupTemplateName"]),
        );
        assert_eq!(both, ("t", "t"), "{says}");
    }
    let inline = tree!({"metadata": {"name": "alone"}, "spec": {"schedulingPolicy": {"basic": {}}}});
    let made = world
        .create(&format!("{ALPHA}/podgroups"), inline.clone())
        .expect("a policy of its own needs no Workload");
    assert_eq!(made.get("spec"), inline.get("spec"));
}

#[test]
fn priorities_are_resolved_from_priority_classes() {
    let world = TestEngine::new();
    let class = tree!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    world.create("scheduling.k8s.io/v1/-/priorityclasses", class).unwrap();
    let told = |made: &Tree| {
        let spec = made.get("spec").unwrap();
        (spec.int_at(&["priority"]), spec.text_at(&["preemptionPolicy"]).to_string())
    };
    let named = |group: Tree| with(&group, "spec.priorityClassName", "high");
    let made = world.create(&format!("{ALPHA}/podgroups"), group("plain")).unwrap();
    assert_eq!(told(&made), (None, String::new()), "the proposal's groups have the priority of their pods");
    let made = world.create(&format!("{ALPHA}/podgroups"), named(group("a"))).unwrap();
    assert_eq!(told(&made), (Some(1000), "Never".into()));
    let blank = without(&without(&made, "spec.priority"), "spec.preemptionPolicy");
    assert_eq!(
        world.update(&format!("{ALPHA}/podgroups/a"), blank).unwrap(),
        made,
        "a replacement need not know them"
    );
    let made = world.create(&format!("{BETA}/podgroups"), named(released("b"))).unwrap();
    assert_eq!(told(&made), (Some(1000), "Never".into()));
    let made = world.create(&format!("{BETA}/podgroups"), released("c")).unwrap();
    assert_eq!(told(&made), (Some(0), "PreemptLowerPriority".into()));
    let classed = with(
        &workload("w"),
        "spec.podGroupTemplates",
        tree!([(gang("t", 1).with_key("priorityClassName", tree!("high")))]),
    );
    let made = world.create(&format!("{ALPHA}/workloads"), classed.clone()).unwrap();
    assert_eq!(made.items_at(&["spec", "podGroupTemplates"])[0].int_at(&["priority"]), Some(1000));
    let again =
        with(&made, "spec.podGroupTemplates", classed.at(&["spec", "podGroupTemplates"]).unwrap().clone());
    assert_eq!(world.update(&format!("{ALPHA}/workloads/w"), again).unwrap(), made);
    for (says, path, tree, words) in [
        (
            "no such class",
            "podgroups",
            with(&group("x"), "spec.priorityClassName", "nope"),
            "no PriorityClass with name nope was found",
        ),
        (
            "a number of its own",
            "podgroups",
            with(&group("x"), "spec.priority", 7),
            "priority set in the pod group (7) must match the priority computed (0)",
        ),
        (
            "another number",
            "podgroups",
            with(&named(group("x")), "spec.priority", 7),
            "priority set in the pod group (7) must match the priority computed (1000)",
        ),
        (
            "another policy",
            "podgroups",
            with(&named(group("x")), "spec.preemptionPolicy", "PreemptLowerPriority"),
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided",
        ),
        (
            "no such class of a template",
            "workloads",
            with(
                &workload("x"),
                "spec.podGroupTemplates",
                tree!([(gang("t", 1).with_key("priorityClassName", tree!("nope")))]),
            ),
            "no PriorityClass with name nope was found",
        ),
    ] {
        let refused = world.create(&format!("{ALPHA}/{path}"), tree).unwrap_err();
        assert_eq!(refused.code, 403, "{says}");
        assert!(refused.message.contains(words), "{says}: {}", refused.message);
    }
}
