//! Many Jobs on many simulated nodes, with a durable store: no pod is lost, none counts twice.
//!
//! `MUSTER_FLEET="NODES JOBS PODS_PER_JOB"` makes it larger, for `cargo xtask soak`. The small one has its server killed
//! amid the work. Of a large one the pod garbage collector removes pods that have ended, so a watch takes down all that
//! were ever made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use muster_tests::clients::note;
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::RestartableServer;
use muster_tree::{Tree, tree};

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
/// How long one watch of the witness lasts.
const WATCH_SECS: u32 = 2;
/// Objects read at once.
const PAGE: usize = 500;
/// How long apart one looks how far the Jobs are.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Looks without progress before it is given up.
const LOOKS_MAX: u32 = 720;

#[derive(Debug, Clone, Copy)]
struct Fleet {
    nodes: usize,
    jobs: usize,
    pods_per_job: usize,
    /// Whether the server is killed amid the work.
    mortal: bool,
}

impl Fleet {
    fn wanted() -> Fleet {
        let asked = std::env::var("MUSTER_FLEET").unwrap_or_default();
        let numbers: Vec<usize> = asked.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        match numbers[..] {
            [nodes, jobs, pods_per_job] => Fleet { nodes, jobs, pods_per_job, mortal: false },
            [] => Fleet { nodes: 100, jobs: 100, pods_per_job: 20, mortal: true },
            _ => panic!("MUSTER_FLEET={asked}: want NODES JOBS PODS_PER_JOB"),
        }
    }

    fn pods(&self) -> usize {
        self.jobs * self.pods_per_job
    }

    /// Every second Job is indexed. They take one to ten seconds, so that a kill comes amid the work on any machine.
    fn job(&self, n: usize) -> Tree {
        let seconds = (1 + n % 10).to_string();
        let mode = if n.is_multiple_of(2) { "Indexed" } else { "NonIndexed" };
        let pods = i64::try_from(self.pods_per_job).unwrap();
        tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": format!("job-{n}")},
            "spec": {"completionMode": mode, "completions": pods, "parallelism": pods,
                "template": {"metadata": {"annotations": {"muster.dev/sim-run-seconds": seconds}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
                    "command": ["train"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}}})
    }
}

#[test]
fn no_pod_is_lost_and_none_counts_twice() {
    let fleet = Fleet::wanted();
    let nodes = fleet.nodes.to_string();
    let mut plane = RestartableServer::with_args(&["--sim-nodes", &nodes]).expect("muster up is ready");
    #[expect(clippy::disallowed_methods, reason = "tells how long it took; nothing depends on it")]
    let began = Instant::now();
    let server = plane.server().unwrap();
    let over = AtomicBool::new(false);
    let (took, made) = std::thread::scope(|scope| {
        let witness = (!fleet.mortal).then(|| scope.spawn(|| witness(&server, &over)));
        for n in 0..fleet.jobs {
            let made =
                server.send("POST", JOBS, &RequestStep::default(), fleet.job(n).to_json_bytes()).unwrap();
            assert_eq!(made.code, 201, "{}", made.body);
        }
        wait(&fleet, &mut plane, began);
        let took = began.elapsed();
        over.store(true, Ordering::Relaxed);
        (took, witness.map(|thread| thread.join().unwrap()))
    });
    let (cpu_secs, resident) = plane.usage();
    check(&fleet, &plane.server().unwrap(), made);
    note(&format!(
        "fleet: {} pods of {} Jobs on {} nodes, each counted once; {:.1} s, {:.0} pods/s, {cpu_secs:.1} s CPU, {} MB resident{}",
        fleet.pods(),
        fleet.jobs,
        fleet.nodes,
        took.as_secs_f64(),
        fleet.pods() as f64 / took.as_secs_f64(),
        resident >> 20,
        if fleet.mortal { " since the server was killed" } else { "" },
    ));
}

/// Waits until all Jobs finish, prints progress, and kills the server when some are finished and others are not.
fn wait(fleet: &Fleet, plane: &mut RestartableServer, began: Instant) {
    let (mut best, mut looks, mut kill) = ((0, 0), 0, fleet.mortal);
    while best.0 < fleet.jobs {
        // Before the kill one looks ten times as often.
        let patience = if kill { 10 * LOOKS_MAX } else { LOOKS_MAX };
        assert!(looks < patience, "no progress: {best:?} of {fleet:?}");
        std::thread::sleep(if kill { LOOK_PAUSE / 10 } else { LOOK_PAUSE });
        let now = progress(&plane.server().unwrap());
        looks = if now > best { 0 } else { looks + 1 };
        best = now.max(best);
        if kill && best.1 > 0 {
            assert!(best.0 < fleet.jobs, "killed amid the work, not after it");
            plane.kill();
            plane.restart().expect("the server starts again on its data");
            eprintln!("killed when {} Jobs were over and {} pods counted", best.0, best.1);
            kill = false;
        }
        if looks == 0 {
            let (cpu_secs, resident) = plane.usage();
            let secs = began.elapsed().as_secs_f64();
            eprintln!(
                "{secs:6.1} s: {} of {} Jobs over, {} pods counted, {cpu_secs:.1} s CPU, {} MB",
                best.0,
                fleet.jobs,
                best.1,
                resident >> 20
            );
        }
    }
}

/// Jobs that have ended, and pods that were counted.
fn progress(server: &ApiClient) -> (usize, i64) {
    let (mut over, mut counted) = (0, 0);
    each(server, JOBS, |job| {
        over += usize::from(!job.str_at(&["status", "completionTime"]).is_empty());
        counted += job.int_at(&["status", "succeeded"]).unwrap_or(0);
    });
    (over, counted)
}

/// Reads all objects, a page at a time.
fn each(server: &ApiClient, path: &str, mut see: impl FnMut(&Tree)) {
    let mut token = String::new();
    loop {
        let page = server.get(&format!("{path}?limit={PAGE}&continue={token}")).unwrap();
        assert_eq!(page.code, 200, "{}", page.body);
        page.body.items_at(&["items"]).iter().for_each(&mut see);
        token = page.body.str_at(&["metadata", "continue"]).to_owned();
        if token.is_empty() {
            return;
        }
    }
}

/// Pods by the UID of their Job: their own UIDs and indexes.
type Pods = BTreeMap<String, BTreeMap<String, Option<usize>>>;

fn take_down(pods: &mut Pods, pod: &Tree) {
    let name = pod.str_at(&["metadata", "name"]);
    let [owner] = pod.items_at(&["metadata", "ownerReferences"]) else { panic!("{name} has no one owner") };
    let index = pod.str_at(&["metadata", "annotations", "batch.kubernetes.io/job-completion-index"]);
    let uid = pod.str_at(&["metadata", "uid"]).to_owned();
    pods.entry(owner.str_at(&["uid"]).to_owned()).or_default().insert(uid, index.parse().ok());
}

/// Watches pods until it is stopped, and records each that is created.
fn witness(server: &ApiClient, over: &AtomicBool) -> Pods {
    let metadata_only = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let step = RequestStep { accept: metadata_only.into(), ..RequestStep::default() };
    let list = server.get(&format!("{PODS}?limit=1")).unwrap().body;
    let (mut pods, mut from) = (Pods::new(), list.str_at(&["metadata", "resourceVersion"]).to_owned());
    loop {
        // Asked before the watch: one more after the end sees the last.
        let last = over.load(Ordering::Relaxed);
        let path = format!("{PODS}?watch=true&resourceVersion={from}&timeoutSeconds={WATCH_SECS}");
        let seen = server.send("WATCH", &path, &step, Vec::new()).unwrap();
        assert_eq!(seen.code, 200, "{}", seen.body);
        for event in seen.body.items() {
            let pod = event.at(&["object"]).unwrap_or_else(|| panic!("{event}"));
            match event.str_at(&["type"]) {
                "ADDED" => take_down(&mut pods, pod),
                "MODIFIED" | "DELETED" => {}
                _ => panic!("the watch fell behind: {event}"),
            }
            from = pod.str_at(&["metadata", "resourceVersion"]).to_owned();
        }
        if last {
            return pods;
        }
    }
}

/// Holds every Job's counts against its pods: those that were made, or else those that are there.
fn check(fleet: &Fleet, server: &ApiClient, made: Option<Pods>) {
    let mut there = Pods::new();
    each(server, PODS, |pod| {
        let name = pod.str_at(&["metadata", "name"]);
        assert_eq!(pod.str_at(&["status", "phase"]), "Succeeded", "{name}");
        assert!(pod.items_at(&["metadata", "finalizers"]).is_empty(), "{name} is held");
        take_down(&mut there, pod);
    });
    let pods = made.unwrap_or(there);
    assert_eq!(
        pods.values().map(BTreeMap::len).sum::<usize>(),
        fleet.pods(),
        "no pod is lost, none is too many"
    );
    let mut seen = BTreeSet::new();
    each(server, JOBS, |job| {
        seen.insert(job.str_at(&["metadata", "name"]).to_owned());
        let own = pods.get(job.str_at(&["metadata", "uid"])).map(|own| own.values().copied().collect());
        check_job(fleet, job, own.unwrap_or_default());
    });
    assert_eq!(seen.len(), fleet.jobs, "all Jobs are there");
}

fn check_job(fleet: &Fleet, job: &Tree, pods: Vec<Option<usize>>) {
    let name = job.str_at(&["metadata", "name"]);
    let status = job.at(&["status"]).unwrap_or_else(|| panic!("{name} has no status"));
    let count = |field: &str| usize::try_from(status.int_at(&[field]).unwrap_or(0)).unwrap();
    let wanted = fleet.pods_per_job;
    assert_eq!(pods.len(), wanted, "{name}: pods");
    assert_eq!((count("succeeded"), count("failed"), count("active")), (wanted, 0, 0), "{name}: {status}");
    let uncounted = status.at(&["uncountedTerminatedPods"]);
    assert!(uncounted.is_none_or(|lists| lists.entries().is_empty()), "{name}: {status}");
    let complete = status.items_at(&["conditions"]).iter().filter(|c| c.str_at(&["type"]) == "Complete");
    assert_eq!(complete.count(), 1, "{name}: {status}");
    if job.str_at(&["spec", "completionMode"]) == "Indexed" {
        let indexes: BTreeSet<usize> = pods.into_iter().flatten().collect();
        assert_eq!(indexes, (0..wanted).collect(), "{name}: each index once");
        assert_eq!(status.str_at(&["completedIndexes"]), format!("0-{}", wanted - 1), "{name}");
    }
}
