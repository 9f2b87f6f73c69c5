use super::*;

fn pending() -> Explanation {
    let cpu = ResourceVerdict { resource: "cpu".into(), requested: 4000, available: 1500, maximum: 8000 };
    let flavor = |name: &str, verdict: FlavorVerdict, resources: Vec<ResourceVerdict>| FlavorResult {
        flavor: name.into(),
        verdict,
        resources,
    };
    let holder = |namespace: &str, amount| QuotaHolder {
        workload: (namespace.into(), "big".into()),
        cluster_queue: "research".into(),
        flavor: "spot".into(),
        resource: "cpu".into(),
        amount,
    };
    Explanation {
        workload: ("team-a".into(), "train".into()),
        state: ExplanationState::Pending,
        local_queue: "main".into(),
        cluster_queue: "research".into(),
        reason: "WaitingForQuota".into(),
        message: "insufficient unused quota for cpu in flavor spot, 2500m more needed".to_owned(),
        position: Some(QueuePositions { in_local_queue: 0, in_cluster_queue: 2 }),
        sets: vec![PodSetVerdict {
            name: "main".into(),
            count: 4,
            flavors: vec![
                flavor("spot", FlavorVerdict::NobodyToPreempt, vec![cpu]),
                flavor(
                    "reserved",
                    FlavorVerdict::Unsuitable(
                        "untolerated taint {gpu yes NoSchedule <nil>} in flavor reserved".into(),
                    ),
                    Vec::new(),
                ),
            ],
        }],
        holders: vec![holder("team-a", 4000), holder("secret", 2500)],
        more_holders: 2,
        impossible_preemptions: vec![ImpossiblePreemption {
            policy: "preemption.withinClusterQueue",
            words: "Never".into(),
        }],
        evaluated_at: Some(Time(5_000_000)),
        potential_victims: Vec::new(),
        estimate: Some(WaitEstimate { wait: Duration::from_secs(90), basis: EstimateBasis::RunTimeLimits }),
        no_estimate: "",
    }
}

#[test]
fn lines_show_position_shortfall_and_holders() {
    let want = [
        "WaitingForQuota: insufficient unused quota for cpu in flavor spot, 2500m more needed",
        "number 1 in LocalQueue main, number 3 in ClusterQueue research",
        "pod set main (4 pods):",
        "  flavor spot: quota in use, and preemption is not possible",
        "    cpu: 4 asked for, 1500m available, 8 at most, 2500m missing",
        "  flavor reserved: untolerated taint {gpu yes NoSchedule <nil>} in flavor reserved",
        "the quota is held by:",
        "  team-a/big in ClusterQueue research: 4 cpu of spot",
        "  and 3 more that are not shown",
        "nobody is preempted by preemption.withinClusterQueue: Never",
        "last evaluated 3s ago",
        "estimated wait 90s, by the maximum execution times of the quota holders",
    ];
    assert_eq!(to_lines(&pending(), &|namespace| namespace == "team-a", Time(8_000_000)), want);
}

#[test]
fn data_matches_lines_and_hides_namespaces() {
    let told = to_tree(&pending(), &|namespace| namespace == "team-a");
    assert!(!told.to_json().contains("secret"), "{}", told.to_json());
    assert_eq!(told.int_at(&["holdersNotShown"]), Some(3));
    assert_eq!(told.int_at(&["positionInClusterQueue"]), Some(2));
    assert_eq!(told.int_at(&["estimatedWait", "seconds"]), Some(90));
    let flavor = &told.items_at(&["podSets"])[0].items_at(&["flavors"])[0];
    assert_eq!(flavor.str_at(&["verdict"]), "NobodyToPreempt");
    let want =
        tree!({"name": "cpu", "requested": "4", "available": "1500m", "maximum": "8", "shortfall": "2500m"});
    assert_eq!(flavor.items_at(&["resources"])[0], want);
}

#[test]
fn unqueued_workload_has_no_position() {
    let of = Explanation { position: None, cluster_queue: Text::new(), ..pending() };
    let told = to_lines(&of, &|_| true, Time(0));
    assert_eq!(told[1], "LocalQueue main, ClusterQueue no ClusterQueue");
}

#[test]
fn shortfall_is_never_negative() {
    let it = |available| ResourceVerdict { resource: "cpu".into(), requested: 10, available, maximum: 20 };
    assert_eq!([it(4), it(-5), it(12)].map(|it| it.shortfall()), [6, 10, 0]);
}

#[test]
fn missing_estimate_has_a_reason() {
    let of = Explanation { estimate: None, no_estimate: "no data", ..pending() };
    let told = to_tree(&of, &|_| true);
    assert_eq!(told.at(&["estimatedWait", "seconds"]), Some(&Tree::Null));
    assert_eq!(told.str_at(&["estimatedWait", "message"]), "no data");
    assert_eq!(to_lines(&of, &|_| true, Time(0)).last().unwrap(), "estimated wait unknown: no data");
}

#[test]
fn dry_run_names_potential_victims() {
    let goes =
        |namespace: &str| PotentialVictim { workload: (namespace.into(), "w".into()), words: "lower".into() };
    let of = Explanation {
        state: ExplanationState::WouldPreempt,
        reason: Text::new(),
        message: String::new(),
        potential_victims: vec![goes("team-a"), goes("secret")],
        ..pending()
    };
    let told = to_tree(&of, &|namespace| namespace == "team-a");
    assert_eq!((told.str_at(&["state"]), told.int_at(&["preemptsNotShown"])), ("WouldPreempt", Some(1)));
    assert!(!told.to_json().contains("secret"), "{}", told.to_json());
    let lines = to_lines(&of, &|namespace| namespace == "team-a", Time(0));
    assert_eq!(lines[0], "it would be admitted after preemption");
    assert!(lines.contains(&"would preempt team-a/w: lower".to_owned()), "{lines:#?}");
}
