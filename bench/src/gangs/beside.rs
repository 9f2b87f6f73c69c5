//! Gangs on a real API server, placed by our operator and by kube-scheduler: how fast a backlog of them gets its nodes,
//! and how long a gang is bound in part.
//!
//! Each has a fresh server with the same nodes, PodGroups (`scheduling.k8s.io/v1beta1`, as Kubernetes 1.37 has them) and
//! waiting pods, one scheduler after the other. Times of binds are those at which one watch of all pods sees them.
//!
//! # Deliberately absent
//!
//! Verdicts. The machine may be busy; the ratios of one run are what can be compared.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use muster_tests::real::{Disk, RealCluster};
use muster_tree::{Tree, tree};

use crate::api::Options;
use crate::beside::node;
use crate::client::{PATIENCE, Target};
use crate::measure::{await_quiet, busy, cpu_of, resident_of, share};
use crate::up;

const GROUPS: &str = "POST /apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
const PODS: &str = "POST /api/v1/namespaces/default/pods";
/// All pods that have a node, from now on.
const BOUND: &str = "GET /api/v1/namespaces/default/pods?watch=1&fieldSelector=spec.nodeName%21%3D";
const JSON: &str = "application/json";
const KUBE: &str = "kube-scheduler";
/// The name of a pod begins with that of its gang, and both have a fixed length.
const GANG_LETTERS: usize = "gang-00000".len();
const POD_LETTERS: usize = "gang-00000-00000".len();

/// How many gangs of how many pods wait, on how many nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Load {
    nodes: usize,
    gangs: usize,
    each: usize,
}

impl Load {
    const FULL: [Load; 2] =
        [Load { nodes: 5_000, gangs: 1_000, each: 3 }, Load { nodes: 5_000, gangs: 3, each: 1_000 }];
    /// To see that it works.
    const QUICK: [Load; 2] =
        [Load { nodes: 200, gangs: 100, each: 3 }, Load { nodes: 200, gangs: 3, each: 100 }];

    fn pods(self) -> usize {
        self.gangs * self.each
    }

    /// The pod group of a gang: all pods or none.
    fn group(self, gang: usize) -> Tree {
        let policy = tree!({"gang": {"minCount": i64::try_from(self.each).unwrap_or(i64::MAX)}});
        tree!({"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": {"name": format!("gang-{gang:05}"), "namespace": "default"},
            "spec": {"schedulingPolicy": policy}})
    }

    /// The n-th of all pods; those of a gang come one after another.
    fn pod(self, n: usize, scheduler: &str) -> Tree {
        let gang = format!("gang-{:05}", n / self.each);
        let name = format!("{gang}-{:05}", n % self.each);
        let asks = tree!({"requests": {"cpu": "500m", "memory": "256Mi"}});
        tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"schedulerName": scheduler, "schedulingGroup": {"podGroupName": gang},
                "containers": [{"name": "main", "image": "train", "resources": asks}]}})
    }
}

/// A scheduler at work on a load.
struct Row {
    name: &'static str,
    load: Load,
    /// From the start of its process to the last bind; absent when not all were bound in time.
    whole: Option<Duration>,
    /// Pods that were bound.
    bound: usize,
    /// From the first bind to the last.
    binding: Duration,
    /// Of each gang, from its first bind to its last, sorted.
    gangs: Vec<Duration>,
    cpu: Duration,
    server_cpu: Duration,
    resident: u64,
}

/// Starts a scheduler on a server; returns its process.
type Start = fn(&mut RealCluster) -> Result<u32, String>;

/// Runs both and prints them.
pub fn run(options: &Options) {
    let both: [(&str, &str, Start); 2] = [
        ("muster operator", "muster-scheduler", |real| real.start_operator_as_admin(&up::binary(), &[])),
        (KUBE, "default-scheduler", RealCluster::start_scheduler),
    ];
    let mut rows = Vec::new();
    for load in if options.quick { Load::QUICK } else { Load::FULL } {
        for (name, scheduler, start) in both {
            eprintln!("{} of {}: {name}", load.gangs, load.each);
            match one(load, name, scheduler, start, options.disk) {
                Ok(row) => rows.push(row),
                Err(why) => eprintln!("  left out: {why}"),
            }
        }
    }
    if options.json {
        println!("{}", json(&rows));
    } else {
        println!("{}", text(&rows, options.disk));
    }
}

fn one(load: Load, name: &'static str, scheduler: &str, start: Start, disk: Disk) -> Result<Row, String> {
    let mut real = RealCluster::start_without_controllers(disk)?;
    let server = real.pids();
    let server_cpu = || server.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let target = Target::of_token(real.server.base(), real.token());
    target.send_all(load.nodes, node);
    target.send_all(load.gangs, |n| vec![(GROUPS.to_owned(), JSON, load.group(n))]);
    target.send_all(load.pods(), |n| vec![(PODS.to_owned(), JSON, load.pod(n, scheduler))]);
    let binds = follow(&target);
    let (began, before) = (Instant::now(), server_cpu());
    let pid = start(&mut real)?;
    let seen = hear(&binds, load.pods());
    // What it puts off costs as well: conditions of groups, events.
    await_quiet(pid);
    let (cpu, server_cpu) = (cpu_of(pid), server_cpu().saturating_sub(before));
    let (first, last) = (seen.values().min(), seen.values().max());
    let complete = seen.len() == load.pods();
    Ok(Row {
        name,
        load,
        whole: last.filter(|_| complete).map(|last| last.saturating_duration_since(began)),
        bound: seen.len(),
        binding: first.zip(last).map(|(first, last)| *last - *first).unwrap_or_default(),
        gangs: by_gang(&seen),
        cpu,
        server_cpu,
        resident: resident_of(pid),
    })
}

/// When each pod was first seen with a node.
type Seen = BTreeMap<String, Instant>;

/// Sends the name of every pod that is bound, with the time at which the watch reported it.
fn follow(target: &Target) -> Receiver<(String, Instant)> {
    let (tell, told) = channel();
    let (open, opened) = channel();
    let target = target.clone();
    std::thread::spawn(move || {
        let request = target.request(BOUND, "", b"");
        // A new watch begins with all pods bound by then. The receiver is gone when the control plane has ended.
        while let Ok(mut connection) = target.connect() {
            let mut listened = true;
            let seen = |event: &[u8]| {
                if let Some(name) = pod_of(event) {
                    listened = tell.send((name, Instant::now())).is_ok();
                }
                listened
            };
            if connection.watch(&request, || _ = open.send(()), seen).is_ok() {
                return;
            }
        }
    });
    opened.recv().expect("the watch opens");
    told
}

/// The pod of an event, found without reading the rest: its own name comes before any other like it.
fn pod_of(event: &[u8]) -> Option<String> {
    const MARK: &[u8] = br#""name":"gang-"#;
    let at = event.windows(MARK.len()).position(|it| it == MARK)? + MARK.len() - "gang-".len();
    event.get(at..at + POD_LETTERS).map(|name| String::from_utf8_lossy(name).into_owned())
}

/// Listens until so many pods have nodes, or for as long as there is patience without news.
fn hear(binds: &Receiver<(String, Instant)>, pods: usize) -> Seen {
    let mut seen = Seen::new();
    while seen.len() < pods {
        match binds.recv_timeout(PATIENCE / 5) {
            Ok((name, at)) => _ = seen.entry(name).or_insert(at),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    seen
}

/// From the first bind of each gang to its last, sorted.
fn by_gang(seen: &Seen) -> Vec<Duration> {
    let mut gangs: BTreeMap<&str, (Instant, Instant)> = BTreeMap::new();
    for (name, at) in seen {
        let ends = gangs.entry(&name[..GANG_LETTERS.min(name.len())]).or_insert((*at, *at));
        *ends = (ends.0.min(*at), ends.1.max(*at));
    }
    let mut took: Vec<Duration> = gangs.into_values().map(|(first, last)| last - first).collect();
    took.sort_unstable();
    took
}

fn text(rows: &[Row], disk: Disk) -> String {
    let disk = match disk {
        Disk::Synced => "etcd syncs every commit to disk",
        Disk::Unsynced => "etcd with --unsafe-no-fsync",
    };
    let mut text = format!(
        "gangs on a real API server, all waiting when the scheduler starts; {disk}; load average of the machine {}\n\n",
        busy()
    );
    text += &format!(
        "  {:<12} {:>6} {:<16} {:>8} {:>8} {:>8} {:>9} {:>9} {:>8} {:>9} {:>8}   {:>7} {:>7} {:>6} {:>6}\n",
        "gangs",
        "nodes",
        "scheduler",
        "bound",
        "s",
        "pods/s",
        "gang p50",
        "gang p99",
        "CPU s",
        "server s",
        "RSS MB",
        "pods/s",
        "gang",
        "CPU",
        "RSS"
    );
    rows.iter().for_each(|row| text += &(line(row, rows) + "\n"));
    text + "\n  s: from the start of the process to the last bind. pods/s: from the first bind to the last. gang: milliseconds from \
            the first bind of a gang to its last.\n  \
            CPU: until the scheduler is quiet; server: API server and etcd. The last columns: how many times better than \
            kube-scheduler."
}

fn line(row: &Row, rows: &[Row]) -> String {
    let whole = row.whole.map_or_else(|| "not all".to_owned(), |it| format!("{:.2}", it.as_secs_f64()));
    format!(
        "  {:<12} {:>6} {:<16} {:>8} {:>8} {:>8.0} {:>9.1} {:>9.1} {:>8.2} {:>9.2} {:>8.1}   {}",
        format!("{} of {}", row.load.gangs, row.load.each),
        row.load.nodes,
        row.name,
        row.bound,
        whole,
        rate(row),
        millis(share(&row.gangs, 0.5)),
        millis(share(&row.gangs, 0.99)),
        row.cpu.as_secs_f64(),
        row.server_cpu.as_secs_f64(),
        row.resident as f64 / 1e6,
        ratios(row, rows),
    )
}

/// How many times better than kube-scheduler on the same load.
fn ratios(row: &Row, rows: &[Row]) -> String {
    let kube = rows.iter().find(|it| it.name == KUBE && it.load == row.load);
    let Some(kube) = kube.filter(|_| row.name != KUBE) else { return String::new() };
    let better = |theirs: f64, ours: f64| {
        if ours > 0.0 { format!("{:.1}x", theirs / ours) } else { String::new() }
    };
    format!(
        "{:>7} {:>7} {:>6} {:>6}",
        better(rate(row), rate(kube)),
        better(millis(share(&kube.gangs, 0.5)), millis(share(&row.gangs, 0.5))),
        better(kube.cpu.as_secs_f64(), row.cpu.as_secs_f64()),
        better(kube.resident as f64, row.resident as f64),
    )
}

fn rate(row: &Row) -> f64 {
    let secs = row.binding.as_secs_f64();
    if secs > 0.0 { row.bound as f64 / secs } else { 0.0 }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The same figures, one object for each line.
fn json(rows: &[Row]) -> String {
    let one = |row: &Row| {
        tree!({
            "scheduler": row.name, "nodes": row.load.nodes as i64, "gangs": row.load.gangs as i64,
            "podsEach": row.load.each as i64, "bound": row.bound as i64,
            "seconds": row.whole.map_or(Tree::Null, |it| tree!(it.as_secs_f64())),
            "podsPerSecond": rate(row), "gangMillisP50": millis(share(&row.gangs, 0.5)),
            "gangMillisP99": millis(share(&row.gangs, 0.99)), "cpuSeconds": row.cpu.as_secs_f64(),
            "serverCpuSeconds": row.server_cpu.as_secs_f64(), "residentBytes": row.resident as i64,
        })
    };
    tree!({"load": busy(), "rows": Tree::list(rows.iter().map(one))}).to_string()
}
