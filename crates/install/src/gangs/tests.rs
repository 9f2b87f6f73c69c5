//! The CEL rules of the gang CRDs; `tests/tests/gang_cluster.rs` checks them against a real API server, too.

use muster_schema::crd::compile;
use muster_schema::rules::Rules;
use muster_tree::{Tree, tree};

use super::{crds, sources};

/// The validation errors of a write.
fn said(at: usize, new: &Tree, old: Option<&Tree>) -> String {
    let definition = crds()[at].clone();
    let schema = definition.items_at(&["spec", "versions"])[0].at(&["schema", "openAPIV3Schema"]).unwrap();
    let rules = Rules::compile(&compile(schema).unwrap()).unwrap();
    let errors = rules.check(new, old);
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn check(at: usize, cases: &[(&str, Tree, Option<Tree>, &str)]) {
    let whole = |spec: &Tree| tree!({"metadata": {"name": "a"}, "spec": spec.clone()});
    for (says, new, old, want) in cases {
        let said = said(at, &whole(new), old.as_ref().map(whole).as_ref());
        match *want {
            "" => assert_eq!(said, "", "{says}"),
            want => assert!(said.contains(want), "{says}: {said:?}"),
        }
    }
}

fn gang(min: i64) -> Tree {
    tree!({"gang": {"minCount": min}})
}

fn templates(all: &[(&str, Tree)]) -> Tree {
    let one = |(name, policy): &(&str, Tree)| tree!({"name": *name, "policy": policy.clone()});
    tree!({"podGroupTemplates": Tree::list(all.iter().map(one).collect::<Vec<_>>())})
}

/// Shows: 5832-63.
#[test]
fn workloads() {
    let basic = || tree!({"basic": {}});
    let two = || templates(&[("a", gang(2)), ("b", basic())]);
    let spelled =
        |key: &str, policy: Tree| tree!({"podGroupTemplates": [(tree!({"name": "a"}).with(&[key], policy))]});
    let both = |other: Tree| tree!({"podGroupTemplates": [{"name": "a", "policy": gang(2), "schedulingPolicy": other}]});
    let by = |name: &str| two().with(&["controllerRef"], tree!({"kind": "Job", "name": name}));
    let immutable = "field is immutable";
    check(
        0,
        &[
            ("two templates", two(), None, ""),
            ("the older list", tree!({"podGroups": [{"name": "a", "policy": basic()}]}), None, ""),
            ("no list", tree!({}), None, "exactly one of podGroupTemplates and podGroups"),
            ("both lists", two().merge(&tree!({"podGroups": []})), None, "exactly one of podGroupTemplates"),
            ("neither variant", templates(&[("a", tree!({}))]), None, "exactly one of basic and gang"),
            (
                "both variants",
                templates(&[("a", gang(1).merge(&basic()))]),
                None,
                "exactly one of basic and gang",
            ),
            ("the later spelling", spelled("schedulingPolicy", gang(2)), None, ""),
            ("no policy", spelled("priority", tree!(1)), None, "policy is required"),
            ("both, alike", both(gang(2)), None, ""),
            ("both, different", both(gang(3)), None, "policy and schedulingPolicy must agree"),
            ("another number", templates(&[("a", gang(5)), ("b", basic())]), Some(two()), ""),
            ("another order", templates(&[("b", basic()), ("a", gang(2))]), Some(two()), ""),
            ("another variant", templates(&[("a", basic()), ("b", basic())]), Some(two()), immutable),
            (
                "another variant under the other name",
                spelled("schedulingPolicy", basic()),
                Some(spelled("policy", gang(2))),
                immutable,
            ),
            (
                "one more",
                templates(&[("a", gang(2)), ("b", basic()), ("c", basic())]),
                Some(two()),
                immutable,
            ),
            ("one less", templates(&[("a", gang(2))]), Some(two()), immutable),
            ("another name", templates(&[("a", gang(2)), ("c", basic())]), Some(two()), immutable),
            ("a controller, later", by("j"), Some(two()), ""),
            ("another controller", by("k"), Some(by("j")), immutable),
            ("no controller any more", two(), Some(by("j")), immutable),
            ("a path", by(".."), None, "may not be '.' or '..'"),
        ],
    );
}

/// Shows: 5832-63.
#[test]
fn pod_groups() {
    let of = |name: &str| tree!({"workloadRef": {"name": name}});
    let reference = |name: &str| of("w").with(&["podGroupTemplateRef", "name"], name);
    let plain = |name: &str| of("w").with(&["podGroupTemplateName"], name);
    let own = |min: i64| tree!({"schedulingPolicy": gang(min)});
    let named = |key: &str, word: &str| reference("t").with(&["workloadRef", key], word);
    let immutable = "field is immutable";
    check(
        1,
        &[
            ("a reference", reference("t"), None, ""),
            ("a word", plain("t"), None, ""),
            ("both, alike", reference("t").merge(&plain("t")), None, ""),
            ("both, different", reference("t").merge(&plain("u")), None, "must agree"),
            ("no template", of("w"), None, "podGroupTemplateRef is required"),
            ("nothing", tree!({}), None, "workloadRef is required"),
            ("a policy of its own", own(2), None, ""),
            ("another kind", named("kind", "Job"), None, "kind must be Workload"),
            ("its own kind", named("kind", "Workload"), None, ""),
            ("another group", named("apiVersion", "scheduling.k8s.io/v1alpha1"), None, "apiVersion must be"),
            ("our group", named("apiVersion", "scheduling.muster.dev/v1alpha1"), None, ""),
            ("another Workload", plain("t").merge(&of("v")), Some(plain("t")), immutable),
            ("no Workload any more", own(1), Some(plain("t").merge(&own(1))), immutable),
            ("another template", plain("u"), Some(plain("t")), immutable),
            ("another spelling of the same", plain("t"), Some(reference("t")), ""),
            ("another number", own(3), Some(own(2)), ""),
            ("another variant", tree!({"schedulingPolicy": {"basic": {}}}), Some(own(2)), immutable),
            ("a policy of its own, later", plain("t").merge(&own(2)), Some(plain("t")), immutable),
            (
                "a claim of both sorts",
                own(1).with(
                    &["resourceClaims"],
                    tree!([{"name": "a", "resourceClaimName": "b", "resourceClaimTemplateName": "c"}]),
                ),
                None,
                "exactly one of resourceClaimName",
            ),
            (
                "no sort of disruption",
                own(1).with(&["disruptionMode"], tree!({})),
                None,
                "exactly one of single and all",
            ),
        ],
    );
}

#[test]
fn no_definition_is_in_a_group_of_kubernetes_and_each_is_what_its_source_says() {
    let plain = |tree: &Tree| {
        let version = tree.items_at(&["spec", "versions"])[0].without_key("schema");
        tree.with(&["spec", "versions"], Tree::list([version]))
    };
    for (definition, (_, source)) in crds().iter().zip(sources()) {
        assert_eq!(definition.str_at(&["spec", "group"]), "scheduling.muster.dev");
        assert!(!definition.to_json().contains("\"default\""), "readers take either spelling");
        assert_eq!(plain(definition), plain(&source));
    }
}
