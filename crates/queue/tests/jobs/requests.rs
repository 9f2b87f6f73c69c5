//! Requests of pod sets.

use std::collections::BTreeMap;

use muster_api::quantity;
use muster_api::queue::{PodSet, WorkloadFacts};
use muster_queue::jobs::requests::{
    NamespaceLimits, PodEnvironment, ResourceAccounting, ResourceTransformation, TransformationStrategy,
    adjust_pod_sets, of_sets, of_workload, validate,
};
use muster_schema::formats::quantity_field;
use muster_tree::{Text, Tree, tree};

use super::{cases, part, says, text};

fn transformation(tree: &Tree) -> ResourceTransformation {
    let by = tree.text_at(&["multiplyBy"]);
    let output =
        |(name, value): &(Text, Tree)| (name.clone(), quantity::milli(value.as_str().unwrap()).unwrap());
    ResourceTransformation {
        input: tree.text_at(&["input"]),
        strategy: if tree.str_at(&["strategy"]) == "Replace" {
            TransformationStrategy::Replace
        } else {
            TransformationStrategy::Retain
        },
        multiply_by: (!by.is_empty()).then_some(by),
        outputs: tree.entries_at(&["outputs"]).iter().map(output).collect(),
    }
}

fn accounting(case: &Tree) -> ResourceAccounting {
    ResourceAccounting {
        exclude_prefixes: case
            .items_at(&["exclude"])
            .iter()
            .map(|it| it.as_text().unwrap().clone())
            .collect(),
        transformations: case.items_at(&["transform"]).iter().map(transformation).collect(),
    }
}

#[test]
fn pod_requests() {
    for case in cases(include_str!("requests.yaml")) {
        let limits = NamespaceLimits::of(case.items_at(&["ranges"]));
        let classes = case.get("classes").cloned().unwrap_or_default();
        let runtime_class = |name: &str| classes.get(name).map(|it| tree!({"overhead": {"podFixed": it}}));
        let around = PodEnvironment { limits: &limits, runtime_class: &runtime_class };
        let template = Tree::map([("spec", part(&case, "spec").clone())]);
        let count = case.int_at(&["count"]).unwrap_or(1);
        let set = tree!({"name": "main", "count": count, "template": &template});
        let sets = adjust_pod_sets(&[PodSet::of(&set)], &around);
        let reclaimed: BTreeMap<Text, u32> = case
            .int_at(&["reclaimable"])
            .map(|it| (text("main"), u32::try_from(it).unwrap()))
            .into_iter()
            .collect();
        let mut asked = of_sets(&sets, &reclaimed, &accounting(&case)).remove(0);
        if case.bool_at(&["countsPods"]) == Some(true) {
            asked = asked.counting_pods();
        }
        let total = Tree::map(asked.total().into_iter().map(|(name, amount)| (name, Tree::from(amount))));
        if let Some(want) = case.get("want") {
            assert_eq!(&total, want, "{}", says(&case));
        }
        let verdict = validate(&sets, &limits).err().map(|it| it.to_string()).unwrap_or_default();
        assert_eq!(verdict, case.str_at(&["refused"]), "{}", says(&case));
    }
}

/// Validation and accounting accept the same quantities.
#[test]
fn quantities_that_are_accepted_are_counted() {
    let texts = "1 +1 -1.5 .5 5. 1n 1u 1m 1k 1Ki 1E 1Ei 1e3 1E-3 1e+3 1e1.5 1e 1e99999999999 1e2147483648 1e2147483647 x \
                 1.1.1 . + 1GiB 1kk m 8.0000000000000000000000000000 1e30 0x1 1_0 --1 1-";
    for text in texts.split(' ').chain(["", " 1 ", "1 Gi"]) {
        let field = Tree::from(text);
        assert_eq!(quantity_field(&field).is_ok(), quantity::nanos(text).is_some(), "{text:?}");
    }
}

#[test]
fn admitted_workload_uses_its_admission() {
    let workload = |reclaimable: u32| {
        let reclaimable = tree!([{"name": "main", "count": reclaimable}]);
        WorkloadFacts::of(&tree!({"spec": {"podSets": [
                {"name": "main", "count": 4, "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "9"}}}]}}},
                {"name": "rest", "count": 2, "template": {"spec": {}}}]},
            "status": {"reclaimablePods": reclaimable, "admission": {"clusterQueue": "q", "podSetAssignments": [
                {"name": "main", "count": 3, "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "3", "memory": "6Gi"}},
                {"name": "rest", "resourceUsage": {"cpu": "1"}}]}}}))
    };
    let around = PodEnvironment { limits: &NamespaceLimits::default(), runtime_class: &|_| None };
    let of = |reclaimable| of_workload(&workload(reclaimable), &around, &ResourceAccounting::default());
    let whole = of(0);
    assert_eq!((whole[0].count, whole[0].total()[&text("cpu")]), (3, 3000), "admitted, not asked for");
    assert_eq!((whole[1].count, whole[1].total()[&text("cpu")]), (2, 1000), "no count: that of the set");
    let less = of(2);
    assert_eq!((less[0].count, less[0].total()[&text("memory")]), (1, 2 << 30));
    assert_eq!(of(9)[0].total()[&text("cpu")], 0, "never below nothing");
}

#[test]
fn pod_set_can_be_counted_partially() {
    let set = tree!({"name": "main", "count": 10,
        "template": {"spec": {"containers": [{"resources": {"requests": {"cpu": "100m"}}}]}}});
    let asked = of_sets(&[PodSet::of(&set)], &BTreeMap::new(), &ResourceAccounting::default());
    assert_eq!(asked[0].total_of(3)[&text("cpu")], 300);
    assert_eq!(asked[0].total_of(0)[&text("cpu")], 0);
}
