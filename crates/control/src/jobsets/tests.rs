//! The JobSet controller: mapped events, events about failed requests, requests.

use std::cell::Cell;

use muster_api::client::{Subresource, WatchChange};
use muster_api::meta::OwnerReference;
use muster_jobset::rbac;
use muster_tree::tree;

use super::*;
use crate::controller::Step;

const NOW: Time = Time(1_000_000_000);

struct World {
    caches: Caches,
    sets: JobSetController,
    revision: u64,
}

impl World {
    fn new() -> World {
        let sets = JobSetController::new(FeatureGates::default(), Some(kinds::RESOURCE_CLAIMS.clone()));
        let sets = sets.gangs(Some(GangSupport::default()));
        World { caches: Caches::default(), sets, revision: 0 }
    }

    /// Puts an object there; the names of the sets that are woken.
    fn put(&mut self, kind: &Kind, tree: &Tree) -> Vec<String> {
        self.change(kind, tree, WatchChange::Applied)
    }

    fn gone(&mut self, kind: &Kind, tree: &Tree) -> Vec<String> {
        self.change(kind, tree, WatchChange::Deleted)
    }

    fn change(&mut self, kind: &Kind, tree: &Tree, change: fn(ApiObject) -> WatchChange) -> Vec<String> {
        self.revision += 1;
        let object = ApiObject { tree: tree.clone(), revision: self.revision };
        let Some(change) = self.caches.apply_watch_change(kind, change(object)) else { return Vec::new() };
        let wakes = self.sets.map_event(&change.event(), &self.caches);
        wakes.into_iter().map(|wake| wake.key.name.to_string()).collect()
    }

    fn plan(&mut self, set: &Tree, now: Time) -> Reconciled {
        self.sets.reconcile(&ObjectKey::of(&kinds::JOBSETS, set), &self.caches, now)
    }
}

fn set(name: &str, more: &Tree) -> Tree {
    let job = tree!({"name": "w", "replicas": 2, "template": {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}}}});
    tree!({"metadata": {"name": name, "namespace": "n", "uid": name, "generation": 1}, "spec": {
        "network": {"enableDNSHostnames": true}, "replicatedJobs": Tree::list([job])}})
    .merge(more)
}

fn owned(name: &str, set: Option<&str>) -> Tree {
    let owner = set.map(|set| {
        OwnerReference::controller_reference(words::API_VERSION, words::KIND, &set.into(), &set.into())
    });
    tree!({"metadata": {"name": name, "namespace": "n", "uid": name}})
        .with_option(&["metadata", "ownerReferences"], owner.map(|owner| Tree::list([owner])))
}

#[test]
fn who_is_woken() {
    let labelled = |name: &str| owned(name, None).with(&["metadata", "labels", words::NAME], "s");
    let mut world = World::new();
    assert_eq!(world.put(&kinds::JOBSETS, &set("s", &tree!({}))), ["s"]);
    assert_eq!(world.put(&kinds::JOBS, &owned("j", Some("s"))), ["s"], "of a Job");
    assert_eq!(world.put(&kinds::JOBS, &owned("j", None)), ["s"], "that loses its owner");
    assert_eq!(world.put(&kinds::JOBS, &owned("other", None)), [""; 0], "nobody's");
    assert_eq!(world.put(&kinds::SERVICES, &owned("s", Some("s"))), ["s"], "of the Service");
    assert_eq!(
        world.put(&kinds::PERSISTENT_VOLUME_CLAIMS, &labelled("kept")),
        ["s"],
        "of a volume without owner, by its label"
    );
    assert_eq!(
        world.put(&kinds::PERSISTENT_VOLUME_CLAIMS, &owned("kept", None)),
        ["s"],
        "that loses its label"
    );
    assert_eq!(world.put(&kinds::RESOURCE_CLAIMS, &labelled("c")), ["s"]);
    assert_eq!(world.gone(&kinds::RESOURCE_CLAIMS, &labelled("c")), ["s"], "of a claim whose Job is gone");
    let sharing = set("t", &tree!({"spec": {"network": {"subdomain": "net"}}}));
    world.put(&kinds::JOBSETS, &sharing);
    world.put(&kinds::SERVICES, &owned("net", Some("s")));
    assert_eq!(
        world.gone(&kinds::SERVICES, &owned("net", Some("s"))),
        ["s", "t"],
        "of a Service that is shared"
    );
}

/// Shows: 572-56, 762-54, 5832-50.
#[test]
fn no_call_goes_beyond_the_role() {
    let volumes = tree!({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "v"}, "spec": {}}]}]});
    let claims = tree!([{"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "d"}]}}}]);
    let plain = set("s", &tree!({"spec": volumes}));
    let plain = plain.with(&["metadata", "annotations", gang_words::GANG], "PerJob");
    let job = plain.items_at(&["spec", "replicatedJobs"])[0].with(&["resourceClaimTemplates"], claims);
    let one = plain.with(&["spec", "replicatedJobs"], Tree::list([job]));
    let mut world = World::new();
    world.put(&kinds::JOBSETS, &one);
    let mut made: Vec<ApiRequest> = Vec::new();
    for round in 0..6 {
        let now = NOW + Duration::from_secs(round * 10);
        for step in world.plan(&one, now).steps {
            let calls = match step {
                Step::Request(call) => vec![call],
                Step::Parallel(calls) | Step::Transaction(calls) => calls,
                Step::ParallelWithEvents(calls) => calls.into_iter().map(|(call, _)| call).collect(),
                Step::Precondition(..) | Step::Event(_) => Vec::new(),
            };
            for call in &calls {
                if let RequestVerb::Create(tree) = &call.verb {
                    let uid = format!("{}-{round}", call.target.name);
                    let failed = tree!({"conditions": [{"type": "Failed", "status": "True"}]});
                    let status = if round == 3 { failed } else { tree!({}) };
                    world.put(
                        &call.target.kind,
                        &tree.with(&["metadata", "uid"], uid).with(&["status"], status),
                    );
                }
            }
            made.extend(calls);
        }
    }
    let word = |call: &ApiRequest| {
        let part = if call.target.subresource == Subresource::Status { "/status" } else { "" };
        let verb = match &call.verb {
            RequestVerb::Create(_) => "create",
            RequestVerb::Delete { .. } => "delete",
            _ => "patch",
        };
        (call.target.kind.group.to_string(), format!("{}{part}", call.target.kind.plural), verb)
    };
    let asked: BTreeSet<(String, String, &str)> = made.iter().map(word).collect();
    for (group, resource, verb) in &asked {
        assert!(rbac::allow(group, resource, verb), "{verb} {resource} of {group:?}");
    }
    for what in ["jobs", "services", "persistentvolumeclaims", "resourceclaims", "workloads", "podgroups"] {
        assert!(
            asked.iter().any(|(_, resource, verb)| resource == what && *verb == "create"),
            "{what}: {asked:?}"
        );
    }
    // What is followed is read; volume claims are made and nothing else.
    for kind in world.sets.kinds() {
        assert!(
            ["get", "list", "watch"].iter().all(|verb| rbac::allow(&kind.group, &kind.plural, verb)),
            "{kind:?}"
        );
    }
    let claims = rbac::RULES.iter().find(|(_, resource, _)| *resource == "persistentvolumeclaims");
    assert_eq!(claims.map(|it| it.2), Some(&["get", "list", "watch", "create"][..]));
}

/// Shows: 572-24, 762-47.
#[test]
fn refusals_are_told_and_make_a_pause() {
    let one = set("s", &tree!({}));
    let key = ObjectKey::of(&kinds::JOBSETS, &one);
    let mut world = World::new();
    world.put(&kinds::JOBSETS, &one);
    let call = |kind: &Kind, name: &str| {
        let object = tree!({"metadata": {"name": name, "namespace": "n"}});
        ApiRequest {
            field_manager: "x".into(),
            target: meta::target(kind, &object, Subresource::Main),
            preconditions: Default::default(),
            verb: RequestVerb::Create(object),
        }
    };
    let no = ApiError::Forbidden("exceeded quota".to_owned());
    let cases = [
        (
            call(&kinds::PERSISTENT_VOLUME_CLAIMS, "v-s"),
            &no,
            "FailedCreatePVC",
            "Failed to create PVC v-s: exceeded quota",
        ),
        (call(&kinds::RESOURCE_CLAIMS, "c"), &no, "ResourceClaimCreationFailed", "exceeded quota"),
        (call(&kinds::SERVICES, "s"), &no, "HeadlessServiceCreationFailed", "exceeded quota"),
        (
            call(&kinds::JOBS, "s-w-0"),
            &no,
            "JobCreationFailed",
            "job \"s-w-0\" creation failed with error: exceeded quota",
        ),
        (call(&kinds::JOBS, "s-w-1"), &no, "", ""),
        (call(&kinds::SERVICES, "s"), &ApiError::AlreadyExists("there".to_owned()), "", ""),
    ];
    for (call, why, reason, words) in cases {
        let told = world.sets.on_request_error(&key, &call, why, &world.caches);
        assert_eq!(told.as_ref().map_or("", |it| it.reason.as_str()), reason, "{}", call.target.name);
        assert!(told.is_none_or(|it| it.message.contains(words)), "{words}");
    }
    let creates = |plan: &Reconciled| plan.steps.iter().any(|it| matches!(it, Step::Parallel(_)));
    let held = world.plan(&one, NOW);
    assert!(!creates(&held) && held.requeue_at == Some(NOW + Duration::from_secs(1)), "{held:?}");
    let written = held.steps.iter().find_map(|it| match it {
        Step::Request(ApiRequest { verb: RequestVerb::MergePatch(patch), .. }) => {
            Some(patch.items_at(&["status", "conditions"]))
        }
        _ => None,
    });
    let stalled = &written.unwrap()[0];
    assert_eq!(
        ["type", "status", "reason", "message"].map(|key| stalled.str_at(&[key])),
        ["Stalled", "True", "FailedCreatePVC", "Failed to create PVC v-s: exceeded quota"],
        "the first refusal"
    );
    assert!(creates(&world.plan(&one, NOW + Duration::from_secs(1))), "tried again");
    world.sets.on_request_error(&key, &call(&kinds::JOBS, "s-w-0"), &no, &world.caches);
    assert!(!creates(&world.plan(&one, NOW + Duration::from_secs(2))));
}

#[test]
fn pauses_double_until_a_creation_is_accepted() {
    let one = set("s", &tree!({}));
    let key = ObjectKey::of(&kinds::JOBSETS, &one);
    let mut world = World::new();
    world.put(&kinds::JOBSETS, &one);
    let object = tree!({"metadata": {"name": "s-w-0", "namespace": "n"}});
    let on = meta::target(&kinds::JOBS, &object, Subresource::Main);
    let call = ApiRequest {
        field_manager: "x".into(),
        target: on,
        preconditions: Default::default(),
        verb: RequestVerb::Create(object),
    };
    let no = ApiError::Invalid("Limit must be set for non overcommitable resources".to_owned());
    let creates = |plan: &Reconciled| plan.steps.iter().any(|it| matches!(it, Step::Parallel(_)));
    let now = Cell::new(NOW);
    let refuse = |world: &mut World| {
        world.sets.on_request_error(&key, &call, &no, &world.caches);
        let held = world.plan(&one, now.get());
        assert!(!creates(&held), "{held:?}");
        let until = held.requeue_at.expect("it is tried again");
        let pause = until.since(now.replace(until));
        assert!(creates(&world.plan(&one, until)), "after {pause:?}");
        pause.as_secs()
    };
    let pauses: Vec<u64> = (0..7).map(|_| refuse(&mut world)).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
    world.put(&kinds::JOBS, &owned("s-w-0", Some("s")));
    world.plan(&one, now.get());
    assert_eq!(refuse(&mut world), 1, "accepted once, the next refusal is the first");
}

#[test]
fn what_is_noted_once_is_noted_first() {
    let one = set("s", &tree!({}));
    let mut world = World::new();
    world.put(&kinds::JOBSETS, &one);
    world.put(&kinds::JOBS, &owned("s-w-0", None));
    let first = world.plan(&one, NOW);
    assert!(
        matches!(&first.steps[0], Step::Event(event) if event.reason == "JobCreationFailed"),
        "{:?}",
        first.steps
    );
    let notes = |plan: &Reconciled| {
        plan.steps
            .iter()
            .filter(|it| matches!(it, Step::Event(event) if event.reason == "JobCreationFailed"))
            .count()
    };
    assert_eq!(notes(&world.plan(&one, NOW)), 0, "and not again");
    let other = one.with(&["metadata", "generation"], 2);
    world.put(&kinds::JOBSETS, &other);
    assert_eq!(notes(&world.plan(&other, NOW)), 1, "unless the spec was changed");
}

#[test]
fn ends_and_restarts_are_counted_once() {
    let mut world = World::new();
    let with = |status: Tree| set("s", &tree!({"status": status}));
    let restarting = |status: &str, at: &str| tree!([{"type": "RestartingJobSet", "status": status, "reason": "R", "lastTransitionTime": at}]);
    world.put(&kinds::JOBSETS, &with(tree!({"restarts": 1})));
    assert_eq!(*world.sets.numbers.told(), JobSetMetrics::default(), "what was before us is not counted");
    world.put(
        &kinds::JOBSETS,
        &with(tree!({"restarts": 2, "conditions": restarting("True", "2026-01-01T00:00:00Z")})),
    );
    world.put(
        &kinds::JOBSETS,
        &with(tree!({"restarts": 2, "conditions": restarting("False", "2026-01-01T00:00:03Z")})),
    );
    world.put(&kinds::JOBSETS, &with(tree!({"restarts": 2, "terminalState": "Completed"})));
    let name = ("n".into(), "s".into());
    let numbers = world.sets.numbers.told();
    assert_eq!(numbers.restarts, [(("n".into(), "R".into()), 1)].into());
    assert_eq!((numbers.completed.get(&name), numbers.restart_times.sum), (Some(&1), Duration::from_secs(3)));
    world.gone(&kinds::JOBSETS, &set("s", &tree!({})));
    assert!(world.sets.numbers.told().completed.is_empty(), "gone with the JobSet");
}

/// Shows: 5832-44.
#[test]
fn gangs_wake_their_set_and_come_before_its_jobs() {
    let one = set("s", &tree!({})).with(&["metadata", "annotations", gang_words::GANG], "AllReplicas");
    let (workloads, groups) =
        (GangSupport::default().api.workloads(), GangSupport::default().api.groups().unwrap());
    let mut world = World::new();
    world.put(&kinds::JOBSETS, &one);
    let mut order = Vec::new();
    for round in 0..4 {
        for step in world.plan(&one, NOW + Duration::from_secs(round)).steps {
            let calls = match step {
                Step::Request(call) => vec![call],
                Step::Parallel(calls) => calls,
                Step::ParallelWithEvents(calls) => calls.into_iter().map(|(call, _)| call).collect(),
                _ => Vec::new(),
            };
            for call in calls {
                let RequestVerb::Create(tree) = &call.verb else { continue };
                let woken = world.put(&call.target.kind, &tree.with(&["metadata", "uid"], &call.target.name));
                assert!(call.target.kind == kinds::SERVICES || woken == ["s"], "{}", call.target.kind.plural);
                order.push(call.target.kind.plural.to_string());
            }
        }
    }
    assert_eq!(order, ["services", "workloads", "podgroups", "jobs", "jobs"]);
    let group = world.caches.all(groups).next().unwrap().tree.clone();
    let fares = group.with(&["status", "scheduledPods"], 2);
    assert_eq!(world.put(groups, &fares), [""; 0], "how it fares concerns nobody here");
    assert_eq!(world.gone(groups, &fares), ["s"]);
    let workload = world.caches.all(workloads).next().unwrap().tree.clone();
    assert_eq!(world.put(workloads, &workload.with(&["spec", "podGroupTemplates"], tree!([]))), ["s"]);
}
