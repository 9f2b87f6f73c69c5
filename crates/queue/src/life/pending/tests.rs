use super::*;

fn pending() -> Pending {
    let cpu = ResourceVerdict { resource: "cpu".into(), requested: 4000, available: 1500, maximum: 8000 };
    let flavor = |name: &str, verdict: Verdict, resources: Vec<ResourceVerdict>| FlavorVerdict {
        flavor: name.into(),
        verdict,
        resources,
    };
    let holder = |namespace: &str, amount| Holder {
        workload: (namespace.into(), "big".into()),
        cluster_queue: "research".into(),
        flavor: "spot".into(),
        resource: "cpu".into(),
        amount,
    };
    Pending {
        workload: ("team-a".into(), "train".into()),
        standing: Standing::Pending,
        local_queue: "main".into(),
        cluster_queue: "research".into(),
        reason: "WaitingForQuota".into(),
        message: "insufficient unused quota for cpu in flavor spot, 2500m more needed".to_owned(),
        position: Some(Position { in_local_queue: 0, in_cluster_queue: 2 }),
        sets: vec![SetVerdict {
            name: "main".into(),
            count: 4,
            flavors: vec![
                flavor("spot", Verdict::NobodyToPreempt, vec![cpu]),
                flavor(
                    "reserved",
                    Verdict::Unsuitable(
                        "untolerated taint {gpu yes NoSchedule <nil>} in flavor reserved".into(),
                    ),
                    Vec::new(),
                ),
            ],
        }],
        holders: vec![holder("team-a", 4000), holder("secret", 2500)],
        more_holders: 2,
        barred: vec![Barred { policy: "preemption.withinClusterQueue", words: "Never".into() }],
        evaluated_at: Some(Time(5_000_000)),
        departs: Vec::new(),
        estimate: Some(Estimate { wait: Duration::from_secs(90), basis: Basis::RunTimeLimits }),
        no_estimate: "",
    }
}

#[test]
fn people_read_where_it_stands_what_is_missing_and_who_has_it() {
    let want = [
        "WaitingForQuota: insufficient unused quota for cpu in flavor spot, 2500m more needed",
        "number 1 in LocalQueue main, number 3 in ClusterQueue research",
        "pod set main (4 pods):",
        "  flavor spot: no room now, and nobody may be preempted",
        "    cpu: 4 asked for, 1500m available, 8 at most, 2500m missing",
        "  flavor reserved: untolerated taint {gpu yes NoSchedule <nil>} in flavor reserved",
        "the quota is held by:",
        "  team-a/big in ClusterQueue research: 4 cpu of spot",
        "  and 3 more that are not shown",
        "nobody is preempted by preemption.withinClusterQueue: Never",
        "last looked at 3s ago",
        "may take another 90s, by the run-time limits of those who hold the quota",
    ];
    assert_eq!(lines(&pending(), &|namespace| namespace == "team-a", Time(8_000_000)), want);
}

#[test]
fn programs_read_the_same_and_hidden_namespaces_stay_hidden() {
    let told = data(&pending(), &|namespace| namespace == "team-a");
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
fn what_is_not_queued_has_no_number() {
    let of = Pending { position: None, cluster_queue: Text::new(), ..pending() };
    let told = lines(&of, &|_| true, Time(0));
    assert_eq!(told[1], "LocalQueue main, ClusterQueue no ClusterQueue");
}

#[test]
fn what_is_missing_is_never_negative() {
    let it = |available| ResourceVerdict { resource: "cpu".into(), requested: 10, available, maximum: 20 };
    assert_eq!([it(4), it(-5), it(12)].map(|it| it.shortfall()), [6, 10, 0]);
}

#[test]
fn what_is_not_known_is_told_with_the_reason() {
    let of = Pending { estimate: None, no_estimate: "nobody knows", ..pending() };
    let told = data(&of, &|_| true);
    assert_eq!(told.at(&["estimatedWait", "seconds"]), Some(&Tree::Null));
    assert_eq!(told.str_at(&["estimatedWait", "message"]), "nobody knows");
    assert_eq!(
        lines(&of, &|_| true, Time(0)).last().unwrap(),
        "how long it takes is not known: nobody knows"
    );
}

#[test]
fn a_trial_names_those_who_would_have_to_go() {
    let goes =
        |namespace: &str| Departure { workload: (namespace.into(), "w".into()), words: "lower".into() };
    let of = Pending {
        standing: Standing::WouldPreempt,
        reason: Text::new(),
        message: String::new(),
        departs: vec![goes("team-a"), goes("secret")],
        ..pending()
    };
    let told = data(&of, &|namespace| namespace == "team-a");
    assert_eq!((told.str_at(&["state"]), told.int_at(&["preemptsNotShown"])), ("WouldPreempt", Some(1)));
    assert!(!told.to_json().contains("secret"), "{}", told.to_json());
    let lines = lines(&of, &|namespace| namespace == "team-a", Time(0));
    assert_eq!(lines[0], "it would be admitted once others have gone for it");
    assert!(lines.contains(&"would preempt team-a/w: lower".to_owned()), "{lines:#?}");
}
