//! Applying and restoring PodSetInfo.

use muster_api::queue::WorkloadFacts;
use muster_queue::jobs::podset_info::{PodSetInfo, of_workload};
use muster_tree::{Tree, tree};

use super::{cases, flavor, part, says};

/// An admitted Workload with one pod set, these flavors and checks.
fn workload(case: &Tree) -> WorkloadFacts {
    let queue = case.get("clusterQueue").cloned().unwrap_or_else(|| "cq".into());
    let assignment = tree!({"name": "main", "flavors": part(case, "flavors")})
        .with_option(&["count"], case.get("admitted").cloned());
    WorkloadFacts::of(&tree!({"metadata": {"name": "wl"},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 4, "template": part(case, "template")}]},
        "status": {"admission": {"clusterQueue": queue, "podSetAssignments": [assignment]},
            "admissionChecks": part(case, "checks")}}))
}

#[test]
fn podset_info_of_a_start() {
    let stamp = |template: &Tree| {
        let stamped = template.merge(&tree!({"metadata": {
            "labels": {"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/local-queue-name": "lq",
                "kueue.x-k8s.io/cluster-queue-name": "cq"},
            "annotations": {"kueue.x-k8s.io/workload": "wl"}}}));
        if stamped.get("spec").is_some() { stamped } else { stamped.with(&["spec"], Tree::empty_map()) }
    };
    for case in cases(include_str!("infos.yaml")) {
        let workload = workload(&case);
        let template = part(&case, "template");
        let infos = of_workload(&workload, &flavor);
        let got = infos.map_err(|why| why.to_string()).and_then(|infos| {
            let put = infos[0].merge_into(template).map_err(|why| why.to_string())?;
            let again = infos[0].merge_into(&put).map_err(|why| why.to_string())?;
            assert_eq!(again, put, "{}: twice is once", says(&case));
            assert_eq!(i64::from(infos[0].count), case.int_at(&["admitted"]).unwrap_or(4), "{}", says(&case));
            let undone = PodSetInfo::of_template(&"main".into(), 4, template).restore(&put);
            assert_eq!(undone, *template, "{}: taken out again", says(&case));
            Ok(put)
        });
        match (case.get("refused"), case.get("want")) {
            (Some(why), _) => assert_eq!(got, Err(why.as_str().unwrap().to_owned()), "{}", says(&case)),
            (None, want) => {
                let want = stamp(&want.cloned().unwrap_or_default());
                let want = case.get("exactly").cloned().unwrap_or(want);
                assert_eq!(got, Ok(want), "{}", says(&case));
            }
        }
    }
}
