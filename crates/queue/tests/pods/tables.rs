//! Table tests of group metadata, webhooks and single reconciliations.

use muster_api::gang_objects::{GangSupport, GroupMarker};
use muster_api::selector::LabelSelector;
use muster_queue::pods::mutate::{self, OwnerLookup, PodMutation, PodWebhookLister};
use muster_queue::pods::validate::{PodReview, PodWriter, validate};
use muster_queue::pods::{declared_pod_sets, group_metadata, role_hash};
use muster_tree::{Tree, tree};

use super::picture::{Case, pod};
use super::{cases, texts};

/// Errors match if each contains the expected words, in order, and none is left over.
fn same(got: &[String], want: &[String]) -> bool {
    got.len() == want.len() && got.iter().zip(want).all(|(got, want)| got.contains(want.as_str()))
}

/// Shows: 976-02, 976-18, 976-19, 976-20, 976-21, 976-22, 976-27, 976-28, 976-29, 976-30, 976-33.
#[test]
fn group_metadata() {
    for case in cases(include_str!("decl.yaml")) {
        let (decl, flaws) = group_metadata::read(&pod(case.get("pod").unwrap()));
        let says = case.str_at(&["says"]);
        let got: Vec<String> = flaws.iter().map(ToString::to_string).collect();
        let want = texts(&case, "wrong");
        assert!(same(&got, &want), "{says}\nwant {want:#?}\ngot {got:#?}");
        let number = |it: Option<u32>| it.map_or(Tree::Null, Tree::from);
        let shown = tree!({"mode": (format!("{:?}", decl.mode)), "total": number(decl.total), "count": number(decl.count),
            "roles": number(decl.roles), "roleCount": (decl.role_size()), "fast": decl.fast, "serving": decl.serving,
            "retriable": decl.retriable, "group": decl.group_name().map_or(Tree::Null, Tree::from)});
        for (key, want) in case.entries_at(&["want"]) {
            assert_eq!(shown.get(key), Some(want), "{says}: {key}");
        }
    }
}

/// Shows: 976-23, 976-24, 976-25, 976-27, 976-33.
#[test]
fn declared_sets() {
    for case in cases(include_str!("sets.yaml")) {
        let says = case.str_at(&["says"]);
        match declared_pod_sets::read(case.str_at(&["text"])) {
            Ok(all) => {
                let shown: Vec<Tree> = all
                    .iter()
                    .map(|set| tree!({"name": &set.name, "count": set.count, "template": set.template.clone().unwrap_or_default()}))
                    .collect();
                assert_eq!(Tree::list(shown), case.get("want").cloned().unwrap_or_default(), "{says}");
            }
            Err(why) => {
                let want = case.str_at(&["wrong"]);
                assert!(!want.is_empty() && why.contains(want), "{says}: {why}");
            }
        }
    }
}

#[test]
fn roles_and_sets() {
    for case in cases(include_str!("roles.yaml")) {
        let names = texts(&case, "sets");
        let at = group_metadata::set_of_role(case.str_at(&["role"]), names.iter().map(String::as_str));
        let got = at.map_or(Tree::Null, |at| Tree::from(names[at].as_str()));
        assert_eq!(Some(&got), case.get("want"), "{case}");
    }
}

#[test]
fn role_hashes() {
    let all = cases(include_str!("hash.yaml"));
    for case in &all {
        let pod = case.get("pod").unwrap();
        let (says, want) = (case.str_at(&["says"]), case.str_at(&["want"]));
        assert_eq!(role_hash::role_hash(pod).as_str(), want, "{says}");
    }
    let stamped = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/role-hash": "stamped"}}, "spec": {}});
    assert_eq!(role_hash::role_hash(&stamped).as_str(), "stamped", "what was stamped wins");
}

/// The lister of a case.
struct Around<'a>(&'a Tree);

impl PodWebhookLister for Around<'_> {
    fn namespace(&self) -> Result<Tree, String> {
        match self.0.str_at(&["broken"]) {
            "" => Ok(tree!({"metadata": {"labels": self.0.get("namespace").cloned().unwrap_or_default()}})),
            why => Err(why.to_owned()),
        }
    }

    fn ancestry(&self) -> OwnerLookup {
        match self.0.str_at(&["ancestor"]) {
            "" => OwnerLookup::Unmanaged,
            "managed" => OwnerLookup::Managed,
            why => OwnerLookup::Unknown(why.to_owned()),
        }
    }

    fn has_default_queue(&self) -> bool {
        self.0.bool_at(&["defaultQueue"]) == Some(true)
    }

    fn has_default_priority(&self) -> bool {
        self.0.bool_at(&["defaultPriority"]) == Some(true)
    }

    fn gangs(&self) -> Option<GangSupport> {
        let mark = self.0.get("gangs").expect("only a pod that asks for its gang needs to know");
        let mark = if mark.as_str() == Some("field") { GroupMarker::Field } else { GroupMarker::Annotations };
        Some(GangSupport { marker: mark, ..GangSupport::default() })
    }
}

/// Shows: 976-01, 976-03, 976-04, 976-05, 976-08, 976-09, 976-10, 976-11, 976-12, 976-16.
#[test]
fn pod_mutation() {
    for case in cases(include_str!("admit.yaml")) {
        let selector = |key: &str| case.get(key).map(|it| LabelSelector::of(Some(it)));
        let settings = mutate::PodWebhookSettings {
            namespaces: ["managedNamespaces", "namespaceSelector"].into_iter().filter_map(selector).collect(),
            pods: selector("podSelector"),
            without_queue: case.bool_at(&["withoutQueue"]) == Some(true),
        };
        let (says, sent) = (case.str_at(&["says"]), case.get("pod").unwrap());
        match mutate::mutate(sent, &Around(&case), &settings) {
            PodMutation::NotManaged => assert_eq!(case.str_at(&["want"]), "left alone", "{says}"),
            PodMutation::Denied(why) => {
                let want = case.str_at(&["want"]);
                assert!(
                    want.strip_prefix("refused: ").is_some_and(|want| why.contains(want)),
                    "{says}: {why}"
                );
            }
            PodMutation::Mutated(taken) => {
                let want = case.get("want").filter(|it| it.is_map());
                let want = want.unwrap_or_else(|| panic!("{says}: taken in as {taken}"));
                assert_eq!(taken, sent.merge(want), "{says}");
                let again = mutate::mutate(&taken, &Around(&case), &settings);
                assert_eq!(again, PodMutation::Mutated(taken), "{says}: twice is as good as once");
            }
        }
    }
}

/// Shows: 976-18, 976-19, 976-20, 976-21, 976-28, 976-29, 976-30, 976-32, 976-35.
#[test]
fn pod_validation() {
    for case in cases(include_str!("check.yaml")) {
        let old = case.get("old");
        let caller = if case.str_at(&["by"]) == "queue" { PodWriter::MayRelease } else { PodWriter::Other };
        let answer = validate(&PodReview {
            pod: case.get("pod").unwrap(),
            old,
            caller,
            owner_enabled: case.bool_at(&["ownerEnabled"]) == Some(true),
            default_queue: case.bool_at(&["defaultQueue"]) == Some(true),
        });
        let says = case.str_at(&["says"]);
        let got: Vec<String> = answer.errors.iter().map(ToString::to_string).collect();
        let want = texts(&case, "wrong");
        assert!(same(&got, &want), "{says}\nwant {want:#?}\ngot {got:#?}");
        let warned = texts(&case, "warns");
        assert!(same(&answer.warnings, &warned), "{says}\nwant {warned:#?}\ngot {:#?}", answer.warnings);
    }
}

#[test]
fn expectations_are_bounded() {
    use muster_queue::pods::expectations::{
        CLEANUPS_MAX, CleanupExpectations, UNGATES_MAX, UngateExpectations,
    };
    use muster_queue::pods::queued_pod::PodReference;
    use muster_tree::Text;
    let uid = |at: usize| Text::from(format!("u{at}"));
    let pod = |at: usize| PodReference { name: uid(at), uid: uid(at), revision: 1 };
    let (workload, set) = (Text::from("w"), Text::from("main"));
    let mut openings = UngateExpectations::default();
    assert!((0..UNGATES_MAX).all(|at| openings.sending(&workload, &set, &pod(at))));
    assert!(!openings.sending(&workload, &set, &pod(UNGATES_MAX)), "one too many");
    assert!(openings.sending(&workload, &set, &pod(0)), "the same again is none more");
    assert_eq!(
        (openings.remaining_capacity(), openings.pods_of_set(&workload, &set).count()),
        (0, UNGATES_MAX)
    );
    openings.forget(&uid(7));
    assert!(!openings.contains(&uid(7)) && openings.remaining_capacity() == 1);
    (0..UNGATES_MAX).for_each(|at| openings.forget(&uid(at)));
    assert_eq!(openings, UngateExpectations::default(), "nothing is left");

    let group = (Text::from("n"), Text::from("g"));
    let mut cleanups = CleanupExpectations::default();
    let all: Vec<PodReference> = (0..=CLEANUPS_MAX).map(pod).collect();
    assert!(!cleanups.sending(&group, &all) && cleanups.satisfied(&group), "all or none");
    assert!(cleanups.sending(&group, &all[..2]) && !cleanups.satisfied(&group));
    cleanups.forget(&uid(0));
    assert!(!cleanups.satisfied(&group));
    cleanups.forget(&uid(1));
    assert_eq!(cleanups, CleanupExpectations::default());
}

/// A call means one revision: a pod that is seen at a later one was opened and let go by then, or never will be.
///
/// Shows: 976-52, 976-53.
#[test]
fn expectations_end_at_a_later_resource_version() {
    use muster_api::client::ApiObject;
    use muster_queue::pods::expectations::PodExpectations;
    use muster_queue::pods::queued_pod::PodReference;
    use muster_tree::{Text, tree};
    let (workload, set, group) = (Text::from("w"), Text::from("main"), (Text::from("n"), Text::from("g")));
    let pod = PodReference { name: "p".into(), uid: "u".into(), revision: 5 };
    let seen = |revision: u64| {
        let tree = tree!({"metadata": {"name": "p", "uid": "u", "finalizers": ["kueue.x-k8s.io/managed"]},
            "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}});
        ApiObject { tree, revision }
    };
    let mut memory = PodExpectations::default();
    assert!(memory.ungates.sending(&workload, &set, &pod) && memory.cleanups.sending(&group, [&pod]));
    memory.observe_pod(&seen(5));
    assert!(memory.ungates.is_in_flight(&pod.uid) && !memory.cleanups.satisfied(&group), "not yet");
    memory.unheard(&pod.uid);
    assert!(
        !memory.ungates.is_in_flight(&pod.uid) && memory.cleanups.is_indeterminate(&pod.uid),
        "once more"
    );
    assert!(memory.ungates.is_expected_in(&workload, &set, &pod.uid), "it may be open");
    memory.observe_pod(&seen(6));
    assert_eq!(memory, PodExpectations::default(), "somebody else wrote: it is as it is seen");
}

fn play(table: &str) {
    for case in cases(table) {
        let mut case = Case::of(&case);
        let got = case.lines();
        assert_eq!(got, case.want, "{}", case.says);
        assert_eq!(case.lines(), got, "{}: same picture, same steps", case.says);
    }
}

/// Shows: 976-01, 976-12, 976-37, 976-38, 976-44, 976-50, 976-51, 976-63.
#[test]
fn single_pod() {
    play(include_str!("single.yaml"));
}

/// Shows: 976-25, 976-31, 976-36, 976-39, 976-41, 976-42, 976-45, 976-47, 976-48.
#[test]
fn composing_group_workloads() {
    play(include_str!("compose.yaml"));
}

/// Shows: 976-31, 976-34, 976-40, 976-49, 976-50, 976-52, 976-54, 976-55, 976-56, 976-57.
#[test]
fn starting_groups() {
    play(include_str!("start.yaml"));
}

/// Shows: 976-45, 976-46, 976-59, 976-60, 976-61, 976-62, 976-63, 976-64.
#[test]
fn ending_groups() {
    play(include_str!("end.yaml"));
}
