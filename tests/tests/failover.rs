//! Two operators: one dies amid restarts and the other goes on; one is asked to end and the other goes on at once; and what
//! a cluster is like while there is none.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use muster_tests::clients::{note, skip};
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::job_recorder::{JobRecorder, Uids};
use muster_tests::jobset_cluster::{
    JOBS, JOBS_EACH, JOBSETS, PODS, SERVICES, create_jobsets, items, jobset_cluster, jobset_label,
    lease_holder, name, patch, post, replicated_job, small_jobset, terminate_pod, wait_for,
};
use muster_tests::muster_process::MusterProcess;
use muster_tests::real;
use muster_tree::{Tree, tree};

const RESTARTING: usize = 200;
/// The JobSets whose pods have failed when the leader is killed.
const FAILED_BEFORE: usize = 120;
/// JobSets that have counted their restart when the leader is killed, at least.
const RESTARTED_BEFORE: usize = 20;
const NODES: usize = 8;
const IS_LEADER: &str = "muster is the leader at https://";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1";
/// Label and annotation of the pods of a JobSet.
const SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

fn operator(kubeconfig: &Path) -> MusterProcess {
    MusterProcess::start(&["operator", "--controllers", "jobset"], kubeconfig)
}

#[expect(clippy::disallowed_methods, reason = "tells how long it took; nothing depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn operators_follow_one_another() {
    let test = "operators_follow_one_another";
    if let Some(reason) = real::missing() {
        return skip(test, &reason);
    }
    let mut real = jobset_cluster(&["gc", "namespace", "job", "node", "scheduler"]).unwrap();
    real.add_simulated_nodes(&muster_tests::embedded_server::binary().unwrap(), NODES).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = real.kubeconfig(folder.path(), real.server.base()).unwrap();
    let server = &real.server;
    let mut first = operator(&kubeconfig);
    first.wait_for_line(IS_LEADER);
    let second = operator(&kubeconfig);
    let second = dies_amid_restarts(server, real.token(), first, second);
    let third = hands_over(server, second, &kubeconfig);
    assert_eq!(third.terminate(), 0);
    nobody_is_there(server);
}

/// Restarts them all, kills the leader in the middle, and looks at everything that was ever made.
fn dies_amid_restarts(
    server: &ApiClient,
    token: &str,
    first: MusterProcess,
    mut second: MusterProcess,
) -> MusterProcess {
    let names: Vec<String> = (0..RESTARTING).map(|n| format!("set-{n}")).collect();
    create_jobsets(server, &names);
    let pods = running(server);
    let witness = JobRecorder::start(ApiClient::new(server.base(), token)).unwrap();
    let before = lease_holder(server);
    let victims: Vec<&Tree> = names.iter().map(|set| &pods[set]).collect();
    victims[..FAILED_BEFORE].iter().for_each(|pod| terminate_pod(server, pod, 1));
    wait_for("some have counted their restart", || {
        let counted = items(server, JOBSETS).iter().filter(|set| restarts(set) == 1).count();
        if counted >= RESTARTED_BEFORE { Ok(()) } else { Err(format!("{counted} have")) }
    });
    drop(first);
    let killed = now();
    let sets = items(server, JOBSETS);
    let restarted = sets.iter().filter(|set| restarts(set) == 1).count();
    let whole = names.iter().filter(|set| is_renewed(server, set)).count();
    assert!(whole < FAILED_BEFORE, "it was killed when all was done");
    victims[FAILED_BEFORE..].iter().for_each(|pod| terminate_pod(server, pod, 1));
    second.wait_for_line(IS_LEADER);
    note(&format!(
        "failover: the leader is killed when {restarted} of {RESTARTING} JobSets have counted their restart and {whole} \
         are whole again; another is in charge after {:.1} s (lease: 15 s)",
        killed.elapsed().as_secs_f64()
    ));
    let after = lease_holder(server);
    assert!(!after.is_empty() && after != before, "the lease went from {before:?} to {after:?}");
    wait_for("all JobSets restarted", || restarted_once(server));
    // What would happen twice would happen about now.
    std::thread::sleep(std::time::Duration::from_secs(2));
    restarted_once(server).unwrap();
    each_was_made_once(&witness.finish().unwrap());
    let services: Vec<Tree> = items(server, SERVICES);
    let services: Vec<&str> = services.iter().map(name).filter(|it| it.starts_with("set-")).collect();
    assert_eq!(services.len(), RESTARTING, "one Service each: {services:?}");
    second
}

/// The first pod of every JobSet, when all run.
fn running(server: &ApiClient) -> BTreeMap<String, Tree> {
    let mut first = BTreeMap::new();
    wait_for("all pods run", || {
        let pods = items(server, PODS);
        let pods: Vec<Tree> =
            pods.into_iter().filter(|pod| pod.str_at(&["status", "phase"]) == "Running").collect();
        let count = pods.len();
        first = pods
            .into_iter()
            .filter(|pod| jobset_label(pod, "job-index") == "0")
            .map(|pod| (jobset_label(&pod, "jobset-name").to_owned(), pod))
            .collect();
        if count == RESTARTING * JOBS_EACH { Ok(()) } else { Err(format!("{count} pods run")) }
    });
    first
}

fn restarts(set: &Tree) -> i64 {
    set.int_at(&["status", "restarts"]).unwrap_or(0)
}

fn is_renewed(server: &ApiClient, set: &str) -> bool {
    (0..JOBS_EACH).all(|n| {
        let job = server.get(&format!("{JOBS}/{set}-w-{n}")).unwrap().body;
        jobset_label(&job, "restart-attempt") == "1"
    })
}

/// Every JobSet has counted one restart and has its Jobs of the new attempt, and nothing else.
fn restarted_once(server: &ApiClient) -> Result<(), String> {
    for set in items(server, JOBSETS) {
        let towards = set.int_at(&["status", "restartsCountTowardsMax"]);
        if (restarts(&set), towards) != (1, Some(1)) {
            return Err(format!("{}: {}", name(&set), set.at(&["status"]).unwrap_or(&Tree::Null).to_json()));
        }
    }
    let jobs = items(server, JOBS);
    let old = jobs.iter().find(|job| {
        jobset_label(job, "restart-attempt") != "1" || job.at(&["metadata", "deletionTimestamp"]).is_some()
    });
    match old {
        Some(job) => Err(format!("{} is still there", name(job))),
        None if jobs.len() != RESTARTING * JOBS_EACH => Err(format!("{} Jobs", jobs.len())),
        None => Ok(()),
    }
}

/// No Job of an attempt was made twice, and none is missing.
fn each_was_made_once(seen: &Uids) {
    let twice: Vec<_> = seen.iter().filter(|(_, uids)| uids.len() != 1).collect();
    assert!(twice.is_empty(), "made more than once: {twice:?}");
    assert_eq!(seen.len(), RESTARTING * JOBS_EACH * 2, "two attempts of each Job");
}

/// Asks the leader to end; the next is in charge.
fn hands_over(server: &ApiClient, second: MusterProcess, kubeconfig: &Path) -> MusterProcess {
    let mut third = operator(kubeconfig);
    let before = lease_holder(server);
    // It must have stood for election before: the hand-over is what is shown.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(lease_holder(server), before, "one that stands by takes nothing");
    let asked = now();
    assert_eq!(second.terminate(), 0);
    third.wait_for_line(IS_LEADER);
    note(&format!(
        "failover: the leader is asked to end; another is in charge after {:.1} s",
        asked.elapsed().as_secs_f64()
    ));
    let after = lease_holder(server);
    assert!(!after.is_empty() && after != before, "the lease went from {before:?} to {after:?}");
    restarted_once(server).unwrap();
    third
}

/// What we do not manage is left alone, what we manage is refused; and the rules of the definition hold by themselves.
fn nobody_is_there(server: &ApiClient) {
    let containers = tree!([{"name": "c", "image": "i"}]);
    let template = tree!({"spec": {"restartPolicy": "Never", "containers": containers.clone()}});
    // A pod without a priority label yet would be looked up for it.
    let labels = Tree::map([(SET_NAME, "any"), ("jobset.sigs.k8s.io/priority", "0")]);
    let pod = |name: &str, annotations: &[(&str, &str)]| {
        let meta =
            tree!({"name": name, "labels": (labels.clone()), "annotations": Tree::map(annotations.to_vec())});
        tree!({"metadata": meta, "spec": {"containers": containers.clone()}})
    };
    for (path, object) in [
        (PODS, tree!({"metadata": {"name": "free"}, "spec": {"containers": containers.clone()}})),
        // Of a JobSet, but there is nothing to say about it.
        (PODS, pod("anywhere", &[(SET_NAME, "any")])),
        (JOBS, tree!({"metadata": {"name": "free"}, "spec": {"template": template}})),
    ] {
        let made = post(server, path, &object).unwrap();
        assert_eq!(made.code, 201, "{}", made.body.to_json());
    }
    let refused = post(server, JOBSETS, &small_jobset("late", &tree!({}))).unwrap();
    let words = refused.body.str_at(&["message"]);
    assert_eq!(refused.code, 500, "{words}");
    assert!(words.contains("mjobset.kb.io"), "{words}");
    note(&format!("without an operator a JobSet is refused: {words}"));
    let placed = pod("placed", &[(SET_NAME, "any"), ("alpha.jobset.sigs.k8s.io/exclusive-topology", "rack")]);
    let refused = post(server, PODS, &placed).unwrap();
    let words = refused.body.str_at(&["message"]);
    assert_eq!(refused.code, 500, "{words}");
    assert!(words.contains("mpod.kb.io"), "{words}");
    for kind in ["mutating", "validating"] {
        let path = format!("{HOOKS}/{kind}webhookconfigurations/jobset-{kind}-webhook-configuration");
        let gone = server.send("DELETE", &path, &RequestStep::default(), Vec::new()).unwrap();
        assert_eq!(gone.code, 200, "{}", gone.body.to_json());
    }
    rules_hold(server);
}

fn rules_hold(server: &ApiClient) {
    let after = replicated_job("b", 1).with(&["dependsOn"], tree!([{"name": "a", "status": "Complete"}]));
    let before = replicated_job("a", 1);
    let order =
        tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}, "replicatedJobs": [before, after]});
    let claim = tree!({"metadata": {"name": "v", "namespace": "other"}, "spec": {}});
    let claims = tree!({"volumeClaimPolicies": [{"templates": [claim]}]});
    let making = |spec: &Tree| post(server, JOBSETS, &small_jobset("ruled", spec)).unwrap();
    // A server takes a moment to forget hooks.
    wait_for("nobody is asked any more", || match making(&order) {
        answer if answer.code == 500 => Err(answer.body.to_json()),
        _ => Ok(()),
    });
    let changed = tree!({"spec": {"failurePolicy": {"maxRestarts": 9}}});
    for (answer, words) in [
        (making(&order), "StartupPolicy and DependsOn APIs are mutually exclusive"),
        (making(&claims), "namespace cannot be set for VolumeClaimPolicies templates"),
        (patch(server, &format!("{JOBSETS}/set-0"), "merge", &changed).unwrap(), "Value is immutable"),
    ] {
        let said = answer.body.str_at(&["message"]);
        assert_eq!(answer.code, 422, "{words}: {said}");
        assert!(said.contains(words), "{said}");
    }
}
