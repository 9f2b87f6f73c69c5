//! Gangs of Jobs in the controller: watched kinds, mapped events, requests and events.

use muster_api::client::{Preconditions, Subresource, WatchChange};
use muster_api::consts::managers;
use muster_api::gang_objects::{
    GangApi, GangOwner, NewPodGroup, PodGroupTemplate, TemplatePolicy, group, names, workload,
};
use muster_api::paths::meta as meta_path;
use muster_tree::tree;

use super::*;

const NOW: Time = Time(1_000_000_000);

struct World {
    caches: Caches,
    jobs: JobController,
    revision: u64,
}

impl World {
    fn new(gangs: Option<GangSupport>) -> World {
        World { caches: Caches::default(), jobs: JobController::with_gangs(gangs), revision: 0 }
    }

    /// Puts an object there; the names of the Jobs that are woken.
    fn put(&mut self, kind: &Kind, tree: &Tree) -> Vec<String> {
        self.revision += 1;
        let object = ApiObject { tree: tree.clone(), revision: self.revision };
        let Some(change) = self.caches.apply_watch_change(kind, WatchChange::Applied(object)) else {
            return Vec::new();
        };
        let wakes = self.jobs.map_event(&change.event(), &self.caches);
        wakes.into_iter().map(|wake| wake.key.name.to_string()).collect()
    }

    /// The calls of one look, which are done.
    fn look(&mut self, name: &str) -> Vec<ApiRequest> {
        let key = ObjectKey::new(&kinds::JOBS, &"n".into(), &name.into());
        let mut calls = Vec::new();
        for step in self.jobs.reconcile(&key, &self.caches, NOW).steps {
            calls.extend(match step {
                Step::Request(call) => vec![call],
                Step::Parallel(calls) | Step::Transaction(calls) => calls,
                Step::ParallelWithEvents(calls) => calls.into_iter().map(|(call, _)| call).collect(),
                Step::Precondition(..) | Step::Event(_) => Vec::new(),
            });
        }
        for call in &calls {
            if let RequestVerb::Create(tree) = &call.verb {
                let uid = format!("uid-{}", call.target.name);
                self.put(&call.target.kind, &tree.with(meta_path::UID, uid));
            }
        }
        calls
    }
}

fn job(name: &str) -> Tree {
    tree!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"parallelism": 2, "completions": 2, "selector": {},
        "scheduling": {"schedulingPolicy": {"gang": {}}}, "template": {"spec": {"containers": []}}}})
}

fn said(calls: &[ApiRequest]) -> Vec<String> {
    let verb = |act: &RequestVerb| match act {
        RequestVerb::Create(_) => "create",
        RequestVerb::Delete { .. } => "delete",
        _ => "patch",
    };
    calls.iter().map(|call| format!("{} {}", verb(&call.verb), call.target.kind.plural)).collect()
}

/// Shows: 5832-44, 5832-52.
#[test]
fn one_after_the_other_and_each_once() {
    let mut world = World::new(Some(GangSupport::default()));
    world.put(&kinds::JOBS, &job("j"));
    let looks: Vec<Vec<String>> = (0..3).map(|_| said(&world.look("j"))).collect();
    assert_eq!(looks[0], ["create workloads"]);
    assert_eq!(looks[1], ["create podgroups"]);
    assert_eq!(looks[2], ["create pods", "create pods", "patch jobs"]);
    let pods: Vec<&ApiObject> = world.caches.all(&kinds::PODS).collect();
    let group = names::job_group(&names::job_workload("j", "j"), "j-pgt-0", "j");
    for pod in pods {
        assert_eq!(pod.tree.str_at(&["spec", "workloadRef", "podGroupName"]), group);
    }
    let wider = job("j")
        .with(path::PARALLELISM, 3)
        .with(path::COMPLETIONS, 3)
        .with(path::STATUS, tree!({"startTime": "2026-01-01T00:00:00Z"}));
    world.put(&kinds::JOBS, &wider);
    let calls = world.look("j");
    assert_eq!(said(&calls), ["patch workloads", "create pods", "patch jobs"]);
    assert!(
        calls[0].preconditions.revision.is_some() && calls[0].preconditions.uid.is_some(),
        "only over what was seen"
    );
    assert!(calls.iter().all(|call| call.field_manager == managers::JOB));
}

/// Shows: 5832-57.
#[test]
fn nobody_who_is_not_asked_looks_at_gangs() {
    let mut world = World::new(None);
    assert_eq!(world.jobs.kinds(), [kinds::JOBS.clone(), kinds::PODS.clone()]);
    world.put(&kinds::JOBS, &job("j"));
    assert_eq!(said(&world.look("j")), ["create pods", "create pods", "patch jobs"]);
    assert!(world.caches.all(&kinds::PODS).all(|pod| pod.tree.at(&["spec", "workloadRef"]).is_none()));
}

#[test]
fn who_is_woken() {
    let (form, kind) = (GangApi::Proposal, GangApi::Proposal.groups().unwrap());
    let mut world = World::new(Some(GangSupport::default()));
    world.put(&kinds::JOBS, &job("j"));
    let owner =
        tree!({"apiVersion": "x.dev/v1", "kind": "Train", "name": "t", "uid": "t", "controller": true});
    world.put(&kinds::JOBS, &job("child").with(meta_path::OWNERS, Tree::list([owner])));
    let templates = [PodGroupTemplate::new("t", TemplatePolicy::Basic)];
    let mine = GangOwner::of(&kinds::JOBS, "Job", &job("j"));
    assert_eq!(world.put(form.workloads(), &workload(form, &mine, &"w".into(), &templates)), ["j"]);
    let (name, of) = ("g".into(), "w".into());
    let new = NewPodGroup {
        name: &name,
        workload: &of,
        workload_uid: None,
        template: &templates[0],
        labels: Tree::empty_map(),
    };
    let made = group(form, &mine, &new);
    assert_eq!(world.put(kind, &made), ["j"]);
    let fares = made.with(&["status", "scheduledPods"], 1);
    assert_eq!(world.put(kind, &fares), [""; 0], "how it fares is not the Job's business");
    let train = GangOwner {
        api_version: "x.dev/v1".into(),
        kind: "Train",
        namespace: "n".into(),
        name: "t".into(),
        uid: "t".into(),
    };
    let theirs = workload(form, &train, &"t".into(), &templates);
    assert_eq!(world.put(form.workloads(), &theirs), ["child"], "of the owner's Workload");
    let by_hand = theirs.without(meta_path::OWNERS).with(meta_path::NAME, "u");
    assert_eq!(world.put(form.workloads(), &by_hand), ["child"], "that says whose it is");
}

#[test]
fn a_refused_workload_is_told_and_no_pod_is_made() {
    let mut world = World::new(Some(GangSupport::default()));
    let one = job("j");
    world.put(&kinds::JOBS, &one);
    let key = ObjectKey::of(&kinds::JOBS, &one);
    let object = tree!({"metadata": {"name": "w", "namespace": "n"}});
    let on = meta::target(GangApi::Proposal.workloads(), &object, Subresource::Main);
    let call = ApiRequest {
        field_manager: managers::JOB.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(object),
    };
    let no = ApiError::Forbidden("exceeded quota".to_owned());
    let told = world.jobs.on_request_error(&key, &call, &no, &world.caches).unwrap();
    assert_eq!(
        (told.reason.as_str(), told.message.contains("exceeded quota")),
        ("FailedWorkloadCreate", true)
    );
    assert_eq!(said(&world.look("j")), ["create workloads"], "and tried again");
}
