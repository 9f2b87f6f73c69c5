//! The store: writes per second, CPU per write, bytes per object, restart.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use muster_api::environment::Clock;
use muster_api::time::Time;
use muster_store::{
    Durability, ExpectedRevision, Key, Mutation, Store, StoreOptions, StoredObject, SyncMode, Write,
};
use muster_tree::{Text, Tree, tree};

use crate::measure::{Watch, resident};

/// How long each row is measured.
const ROW: Duration = Duration::from_millis(1500);
/// How many pods the write rows change in turn.
const PODS: usize = 10_000;
/// How many single writes are under way at once in the row of concurrent writers.
const CONCURRENT: usize = 200;

pub fn run() {
    println!("store: status writes of a 3.3 KB Pod; writes/s (CPU µs/write)");
    println!("{:28} {:>16} {:>16} {:>16} {:>16} {:>16}", "batch", 1, 10, 100, 1000, "200 × 1 at once");
    let memory = || Store::in_memory(StoreOptions::default(), clock());
    write_row("in memory", &memory());
    for (name, sync) in
        [("durable", SyncMode::EveryCommit), ("relaxed (sync every 100 ms)", SyncMode::Relaxed)]
    {
        let directory = tempfile::tempdir().expect("a temporary directory");
        write_row(name, &open(directory.path(), sync));
    }
    println!();
    println!(
        "resident bytes per stored Pod of one template, each parsed from its own JSON (with its history)"
    );
    for n in [1_000, 100_000] {
        in_own_process(n);
    }
    println!();
    restart_row(100_000);
}

fn write_row(name: &str, store: &Store) {
    let keys: Vec<Key> = (0..PODS).map(key).collect();
    fill(store, PODS);
    print!("{name:28}");
    for batch in [1, 10, 100, 1000] {
        print!(" {:>16}", updates(store, &keys, batch, 1));
    }
    println!(" {:>16}", updates(store, &keys, 1, CONCURRENT));
}

/// Updates keys in turn, `batch` in a transaction, `at_once` transactions under way.
fn updates(store: &Store, keys: &[Key], batch: usize, at_once: usize) -> String {
    let (tell, told) = mpsc::channel();
    let mut next = keys.chunks(batch).cycle();
    let watch = Watch::start();
    let mut written = 0;
    (0..at_once).for_each(|_| update(store, next.next().expect("it cycles"), &tell));
    while watch.wall() < ROW {
        written += wait(&told);
        update(store, next.next().expect("it cycles"), &tell);
    }
    (0..at_once).for_each(|_| written += wait(&told));
    let took = watch.took();
    format!("{:.0} ({:.1})", took.rate(written), took.cpu_micros(written))
}

fn update(store: &Store, keys: &[Key], tell: &Sender<usize>) {
    let writes: Vec<Write> = keys.iter().map(|key| status_write(store, key)).collect();
    let (count, tell) = (writes.len(), tell.clone());
    let reply = move |done: Result<Vec<StoredObject>, _>| {
        done.expect("nobody else writes these");
        tell.send(count).expect("somebody waits");
    };
    store.accept(writes, Durability::Wait, Box::new(reply));
}

fn wait(told: &Receiver<usize>) -> usize {
    told.recv().expect("every write is answered")
}

fn status_write(store: &Store, key: &Key) -> Write {
    let old = store.newest(key).expect("it was made before");
    let turn = old.tree.int_at(&["status", "turn"]).unwrap_or(0) + 1;
    let tree = old.tree.with(&["status", "turn"], turn).with(&["status", "phase"], "Running");
    Write {
        key: key.clone(),
        expect: ExpectedRevision::Revision(old.revision),
        change: Mutation::Put(StoredObject { tree, ..old }),
    }
}

/// Memory can be attributed only in a process that did nothing else before.
fn in_own_process(n: usize) {
    let run = std::env::current_exe()
        .and_then(|me| std::process::Command::new(me).args(["store-memory", &n.to_string()]).status());
    if let Err(error) = run {
        println!("{n} pods: {error}");
    }
}

/// Prints the memory that `n` pods take in a store.
pub fn memory_row(n: usize) {
    let before = resident();
    let no_history = StoreOptions { history_bytes_max: 0, ..StoreOptions::default() };
    let store = Store::in_memory(no_history, clock());
    fill(&store, n);
    let bare = resident();
    let with_history = Store::in_memory(StoreOptions::default(), clock());
    fill(&with_history, n);
    let second = resident();
    let each = |bytes: u64| bytes / n as u64;
    println!(
        "{n:>8} pods: {} ({}), {} MB resident in all before the second store",
        each(bare.saturating_sub(before)),
        each(second.saturating_sub(bare)),
        bare >> 20
    );
}

fn restart_row(n: usize) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = open(directory.path(), SyncMode::EveryCommit);
    let watch = Watch::start();
    fill(&store, n);
    let filled = watch.took();
    let disk = store.disk_bytes();
    drop(store);
    let watch = Watch::start();
    let store = open(directory.path(), SyncMode::EveryCommit);
    let took = watch.took();
    println!(
        "{n} pods made in {:.2} s (parsing included), {:.1} MB on disk, restart in {:.0} ms ({:.1} µs CPU each), revision {}",
        filled.wall.as_secs_f64(),
        disk as f64 / 1e6,
        took.wall.as_secs_f64() * 1e3,
        took.cpu_micros(n),
        store.revision()
    );
}

fn open(directory: &Path, sync: SyncMode) -> Store {
    let options = StoreOptions { sync, ..StoreOptions::default() };
    Store::open(directory, options, clock()).expect("the directory is empty or ours")
}

/// Creates pods, a thousand at a time, each parsed from its own text as a request would be.
fn fill(store: &Store, n: usize) {
    let (tell, told) = mpsc::channel();
    for first in (0..n).step_by(1000) {
        let writes = (first..n.min(first + 1000)).map(create).collect();
        let tell = tell.clone();
        let reply = move |done: Result<Vec<StoredObject>, _>| {
            tell.send(done.expect("nobody else writes these").len()).expect("somebody waits");
        };
        store.accept(writes, Durability::Wait, Box::new(reply));
        wait(&told);
    }
}

fn create(n: usize) -> Write {
    let whole = Tree::parse(&pod(n).to_json_bytes()).expect("it was written by us");
    Write {
        key: key(n),
        expect: ExpectedRevision::Absent,
        change: Mutation::Put(StoredObject::of_whole(&whole)),
    }
}

fn key(n: usize) -> Key {
    Key {
        resource: Text::from("pods"),
        namespace: Text::from("team-a"),
        name: Text::from(format!("train-{n:06}")),
    }
}

/// A Job's Pod of 3.3 KB, with managedFields about 6 KB.
fn pod(n: usize) -> Tree {
    let (name, job) = (format!("train-{n:06}"), format!("train-{}", n / 100));
    let uid = format!("6f1d2c3b-0000-4000-8000-{n:012}");
    let second = format!("2026-01-02T03:{:02}:{:02}Z", (n / 3000) % 60, (n / 50) % 60);
    let env: Vec<Tree> = (0..12)
        .map(|i| tree!({"name": (format!("SETTING_{i}")), "value": (format!("value-of-setting-{i}"))}))
        .collect();
    let condition = |kind: &str| tree!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": (second.as_str())});
    let conditions: Vec<Tree> =
        ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition).into();
    let labels = tree!({
        "batch.kubernetes.io/job-name": (job.as_str()), "job-name": (job.as_str()), "app": "train",
        "batch.kubernetes.io/job-completion-index": ((n % 100).to_string()), "team": "a",
    });
    let meta = tree!({
        "name": (name.as_str()), "generateName": (format!("{job}-")), "namespace": "team-a", "uid": uid,
        "creationTimestamp": (second.as_str()), "labels": labels,
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": (job.as_str()), "controller": true,
            "uid": (format!("aaaaaaaa-0000-4000-8000-{:012}", n / 100)), "blockOwnerDeletion": true}],
        "managedFields": (managed(&second)),
    });
    tree!({
        "apiVersion": "v1", "kind": "Pod", "metadata": meta,
        "spec": {
            "containers": [{
                "name": "worker", "image": "registry.example/team-a/train:1.4.2", "imagePullPolicy": "IfNotPresent",
                "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"], "env": env,
                "resources": {"limits": {"cpu": "4", "memory": "16Gi"}, "requests": {"cpu": "4", "memory": "16Gi"}},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [{"name": "config", "mountPath": "/etc/train"}, {"name": "scratch", "mountPath": "/scratch"}],
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Never", "schedulerName": "default-scheduler",
            "securityContext": {}, "serviceAccountName": "default", "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300},
                {"effect": "NoExecute", "key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 300},
            ],
            "volumes": [{"name": "config", "configMap": {"name": "train", "defaultMode": 420}}, {"name": "scratch", "emptyDir": {}}],
            "nodeName": (format!("node-{:04}", n % 1000)),
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed", "conditions": conditions, "startTime": second},
    })
}

fn managed(time: &str) -> Tree {
    let env = (0..12)
        .map(|i| (format!("k:{{\"name\":\"SETTING_{i}\"}}"), tree!({".": {}, "f:name": {}, "f:value": {}})));
    let container = tree!({
        ".": {}, "f:command": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:env": (Tree::map(env)),
        "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
        "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {},
    });
    let spec = tree!({
        "f:containers": {"k:{\"name\":\"worker\"}": container}, "f:dnsPolicy": {}, "f:restartPolicy": {},
        "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
    });
    let meta = tree!({
        "f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:job-name": {}, "f:team": {}},
        "f:ownerReferences": {".": {}, "k:{\"uid\":\"x\"}": {}},
    });
    tree!([
        {"manager": "muster", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": meta, "f:spec": spec}},
        {"manager": "node", "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1",
            "subresource": "status", "fieldsV1": {"f:status": {"f:conditions": {}, "f:phase": {}, "f:startTime": {}}}},
    ])
}

/// The clock of the machine.
struct Machine;

impl Clock for Machine {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(Machine)
}
