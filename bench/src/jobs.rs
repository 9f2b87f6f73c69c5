//! From a Job to bound pods and to finished ones: controllers, scheduler and simulated nodes over the embedded
//! engine, in one process, without HTTP.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use muster_api::paths::pod;
use muster_api::pod::Phase;
use muster_api::port::{Act, Api, Batch, Call, Change, Follow, Guard, Object, Part};
use muster_api::ports::{Clock, Entropy};
use muster_api::time::Time;
use muster_api::{kinds, meta};
use muster_apiserver::engine::{Engine, EngineOptions};
use muster_apiserver::local::LocalApi;
use muster_node::plane::{self, Nodes, Tidings};
use muster_store::{Store, StoreOptions};
use muster_tree::{Tree, tree};

use crate::measure::{Took, Watch, resident};

const JOBS: usize = 100;
const PODS_PER_JOB: usize = 20;
const NODES: usize = 100;
/// How long the bench waits before it gives up.
const PATIENCE: Duration = Duration::from_secs(120);

struct Machine;

impl Clock for Machine {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

/// Numbers that differ: a bench needs no more of chance.
#[derive(Default)]
struct Counting(std::sync::atomic::AtomicU64);

impl Entropy for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let next = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mixed = (next + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Runs it, in memory and on disk.
pub fn run() {
    one("in memory", Store::in_memory(StoreOptions::default(), Arc::new(Machine)));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::open(folder.path(), StoreOptions::default(), Arc::new(Machine)).expect("a new store");
    one("on disk", store.clone());
    store.close();
}

fn one(what: &str, store: Store) {
    let engine =
        Engine::new(store, Arc::new(Machine), Arc::new(Counting::default()), EngineOptions::default());
    let api = Arc::new(LocalApi::new(engine));
    let names: BTreeSet<String> =
        ["job", "scheduler", "gc", "namespace", "node"].iter().map(|name| (*name).to_owned()).collect();
    let tidings =
        Tidings { ready: Box::new(|| {}), crashed: Box::new(|| eprintln!("the controllers crashed")) };
    let shell = plane::start(api.clone(), Arc::new(Machine), &names, Nodes::Count(NODES), "".into(), tidings)
        .expect("a thread for the controllers");
    let mut nodes = Seen::new(&*api, &kinds::NODES);
    nodes.wait(|nodes| nodes.iter().filter(|node| muster_api::node::is_ready(&node.tree)).count() == NODES);
    let before = shell.health().counters;
    let watch = Watch::start();
    for n in 0..JOBS {
        create(&*api, &job(n));
    }
    let all = JOBS * PODS_PER_JOB;
    let mut pods = Seen::new(&*api, &kinds::PODS);
    let with_node = |pod: &&Object| !pod.tree.str_at(pod::NODE_NAME).is_empty();
    pods.wait(|pods| pods.iter().filter(with_node).count() == all);
    let bound = watch.took();
    let ended = |pod: &&Object| Phase::of(pod.tree.str_at(pod::PHASE)) == Phase::Succeeded;
    pods.wait(|pods| pods.iter().filter(ended).count() == all);
    let succeeded = watch.took();
    let mut jobs = Seen::new(&*api, &kinds::JOBS);
    let finished = |job: &&Object| muster_api::job::JobFacts::of(&job.tree).finished().is_some();
    jobs.wait(|jobs| jobs.iter().filter(finished).count() == JOBS);
    let complete = watch.took();
    let after = shell.health().counters;
    println!("jobs, {what}: {JOBS} indexed Jobs of {PODS_PER_JOB} pods on {NODES} nodes");
    line("all bound", &bound, all);
    line("all succeeded (each runs 1 s)", &succeeded, all);
    line("all Jobs complete", &complete, all);
    let per = |count: u64| count as f64 / all as f64;
    println!(
        "  per pod: {:.1} calls, {:.1} writes, of them {:.1} Events, {:.1} plans; refusals {}; resident {} MB",
        per(after.calls - before.calls),
        per(after.writes - before.writes),
        per(after.events - before.events),
        per(after.plans - before.plans),
        after.refusals - before.refusals,
        resident() >> 20
    );
    shell.stop();
}

fn line(what: &str, took: &Took, pods: usize) {
    let (secs, rate, cpu) = (took.wall.as_secs_f64(), took.rate(pods), took.cpu_micros(pods));
    println!("  {what:<30} {secs:>7.3} s  {rate:>8.0} pods/s  {cpu:>6.0} µs CPU per pod");
}

/// What is known of one kind, kept up to date while waiting.
struct Seen {
    follow: Box<dyn Follow>,
    objects: std::collections::BTreeMap<muster_tree::Text, Object>,
}

impl Seen {
    fn new(api: &dyn Api, kind: &muster_api::port::Kind) -> Seen {
        Seen { follow: api.follow(kind), objects: std::collections::BTreeMap::new() }
    }

    fn wait(&mut self, done: impl Fn(&[Object]) -> bool) {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            while let Some(batch) = self.follow.pull() {
                self.take(batch);
            }
            let now: Vec<Object> = self.objects.values().cloned().collect();
            if done(&now) {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        println!("  gave up waiting after {PATIENCE:?}");
    }

    fn take(&mut self, batch: Batch) {
        let changes = match batch {
            Batch::Reset(objects) => {
                self.objects.clear();
                objects.into_iter().map(Change::Put).collect()
            }
            Batch::Changes(changes) => changes,
        };
        for change in changes {
            match change {
                Change::Put(object) => drop(self.objects.insert(meta::uid(&object.tree), object)),
                Change::Gone(object) => drop(self.objects.remove(&meta::uid(&object.tree))),
            }
        }
    }
}

fn job(n: usize) -> Tree {
    tree!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": format!("job-{n}"), "namespace": "default"},
        "spec": {"completionMode": "Indexed", "completions": PODS_PER_JOB as i64, "parallelism": PODS_PER_JOB as i64,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
                "command": ["train"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}}})
}

fn create(api: &dyn Api, object: &Tree) {
    let on = meta::target(&kinds::JOBS, object, Part::Main);
    let call = Call { by: "bench".into(), on, guard: Guard::default(), act: Act::Create(object.clone()) };
    api.call(
        call,
        Box::new(|result| {
            if let Err(why) = result {
                println!("  refused: {why}");
            }
        }),
    );
}
