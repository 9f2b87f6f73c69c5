//! From Jobs to bound pods and to finished ones, our plane and the real one under the same client.
//!
//! Each plane is started alone, gets the same Jobs and ends before the next one starts. Nodes are simulated by the same
//! code: inside our process, and by a process beside the real plane, whose CPU is measured separately.
//!
//! # Deliberately absent
//!
//! Verdicts. The machine may be busy; the ratios of one run are what can be compared.

use std::path::Path;
use std::time::{Duration, Instant};

use muster_tests::real::{Disk, RealCluster};
use muster_tree::{Tree, tree};
use tempfile::TempDir;

use crate::api::Options;
use crate::client::{IN_FLIGHT, PATIENCE, Target, await_all};
use crate::measure::{cpu_of, resident_of};
use crate::up;

/// The controllers of both planes.
const CONTROLLERS: [&str; 5] = ["job", "scheduler", "gc", "namespace", "node"];
/// Gangs switched off: what pods that are in none pay for them shows beside it.
const NO_GANGS: &str = "GenericWorkloadPodGroup=false,GenericWorkload=false,GangScheduling=false";
/// How often it looks whether the nodes are ready.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is to be done.
#[derive(Clone, Copy)]
struct Work {
    nodes: usize,
    jobs: usize,
    pods_per_job: usize,
    /// How long a pod runs.
    run_seconds: &'static str,
}

impl Work {
    const SIDE_BY_SIDE: Work = Work { nodes: 100, jobs: 100, pods_per_job: 20, run_seconds: "1" };
    const LARGE: Work = Work { nodes: 10_000, jobs: 1_000, pods_per_job: 100, run_seconds: "86400" };

    fn pods(&self) -> usize {
        self.jobs * self.pods_per_job
    }

    fn job(&self, n: usize) -> Tree {
        tree!({"apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("job-{n}"), "namespace": "default"},
            "spec": {"completionMode": "Indexed", "completions": self.pods_per_job as i64,
                "parallelism": self.pods_per_job as i64, "template": {
                    "metadata": {"annotations": {"muster.dev/sim-run-seconds": self.run_seconds}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train",
                        "command": ["train"], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}}}})
    }
}

/// A plane under measurement.
struct Plane {
    name: &'static str,
    target: Target,
    /// The processes of the plane.
    pids: Vec<u32>,
    /// The process that plays the nodes, where it is not the plane itself.
    nodes: Option<u32>,
}

/// What it took until something was reached.
struct Reached {
    wall: Duration,
    cpu: Duration,
    nodes_cpu: Duration,
}

struct Figures {
    name: &'static str,
    bound: Reached,
    succeeded: Reached,
    complete: Reached,
    resident: u64,
}

/// Runs it on our plane and on the real one and prints both.
pub fn run(options: &Options) {
    let work = Work::SIDE_BY_SIDE;
    let folder = TempDir::new().expect("a folder can be made");
    let data = folder.path().join("data").display().to_string();
    let mut all = vec![
        ours("ours, ephemeral", &["--ephemeral"], folder.path(), work, finish),
        ours("  without gangs", &["--ephemeral", "--feature-gates", NO_GANGS], folder.path(), work, finish),
        ours("ours, durable", &["--data-dir", &data], folder.path(), work, finish),
    ];
    match real(options.disk, work) {
        Ok(figures) => all.push(figures),
        Err(why) => eprintln!("no real plane to compare with: {why}"),
    }
    print(&all, work);
}

/// Ours alone, with as many nodes and pods as a big cluster has: what it takes to hold them.
pub fn run_large() {
    let work = Work::LARGE;
    let folder = TempDir::new().expect("a folder can be made");
    let data = folder.path().join("data").display().to_string();
    println!("large: {} nodes, {} pods that keep running, durable store", work.nodes, work.pods());
    let at = |what: &str, plane: &Plane, since: &Meter<'_>| {
        let reached = since.reached();
        println!(
            "  {what:<14} {:>8.1} s {:>8.1} s CPU {:>8.0} MB resident",
            reached.wall.as_secs_f64(),
            reached.cpu.as_secs_f64(),
            mega(resident(plane))
        );
    };
    ours("ours, durable", &["--data-dir", &data], folder.path(), work, |plane, work| {
        let meter = plane.meter();
        at("nodes ready", plane, &meter);
        let meter = plane.meter();
        let bound = plane.target.first_of("pods", "spec.nodeName!=", work.pods());
        let running = plane.target.first_of("pods", "status.phase=Running", work.pods());
        plane.create_all(work);
        await_all(&bound, "bound pods");
        at("all bound", plane, &meter);
        await_all(&running, "running pods");
        at("all running", plane, &meter);
    });
    let bytes = std::fs::metadata(folder.path().join("data").join("store.redb")).map_or(0, |file| file.len());
    println!("  file on disk {:.0} MB", mega(bytes));
}

/// Starts our plane, waits for its nodes, and lets `play` use it.
fn ours<T>(
    name: &'static str,
    args: &[&str],
    folder: &Path,
    work: Work,
    play: impl FnOnce(&Plane, Work) -> T,
) -> T {
    eprintln!("{name}");
    let kubeconfig = folder.join(format!("{}.kubeconfig", args[0]));
    let (nodes, controllers) = (work.nodes.to_string(), CONTROLLERS.join(","));
    let rest = ["--sim-nodes", &nodes, "--controllers", &controllers, "--admission", "*,-ServiceAccount"];
    let args: Vec<&str> = args.iter().copied().chain(rest).collect();
    let mut child = up::start(&kubeconfig.display().to_string(), &args);
    let plane =
        Plane { name, target: Target::of_kubeconfig(&kubeconfig), pids: vec![child.id()], nodes: None };
    plane.await_nodes(work.nodes);
    let played = play(&plane, work);
    child.kill().and_then(|()| child.wait()).expect("it was running");
    played
}

fn real(disk: Disk, work: Work) -> Result<Figures, String> {
    let mut real = RealCluster::with_disk(disk, &CONTROLLERS)?;
    eprintln!("kube + etcd");
    let pids = real.pids();
    let nodes = Some(real.add_simulated_nodes(&up::binary(), work.nodes)?);
    let target = Target::of_token(real.server.base(), real.token());
    let plane = Plane { name: "kube + etcd", target, pids, nodes };
    plane.await_nodes(work.nodes);
    Ok(finish(&plane, work))
}

/// Creates all Jobs and waits until all are complete.
fn finish(plane: &Plane, work: Work) -> Figures {
    let bound = plane.target.first_of("pods", "spec.nodeName!=", work.pods());
    let succeeded = plane.target.first_of("pods", "status.phase=Succeeded", work.pods());
    let successful = format!("status.successful={}", work.pods_per_job);
    let complete = plane.target.first_of("jobs", &successful, work.jobs);
    let meter = plane.meter();
    plane.create_all(work);
    await_all(&bound, "bound pods");
    let bound = meter.reached();
    await_all(&succeeded, "pods that succeeded");
    let succeeded = meter.reached();
    await_all(&complete, "Jobs that have counted all pods");
    Figures { name: plane.name, bound, succeeded, complete: meter.reached(), resident: resident(plane) }
}

impl Plane {
    fn await_nodes(&self, count: usize) {
        let began = Instant::now();
        let mut connection = self.target.connect().expect("the server listens");
        let request = self.target.request("GET /api/v1/nodes", "", b"");
        loop {
            let (_, body) = connection.send(&request).expect("the server answers");
            let list = Tree::parse(body).expect("lists are JSON");
            let ready = list.items_at(&["items"]).iter().filter(|node| muster_api::node::is_ready(node));
            if ready.count() == count {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{count} nodes are not ready within {PATIENCE:?}");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn create_all(&self, work: Work) {
        self.target.send_all(work.jobs, |n| {
            vec![("POST /apis/batch/v1/namespaces/default/jobs".to_owned(), "application/json", work.job(n))]
        });
    }

    fn meter(&self) -> Meter<'_> {
        Meter { plane: self, began: Instant::now(), cpu: self.cpu(), nodes_cpu: self.nodes_cpu() }
    }

    fn cpu(&self) -> Duration {
        self.pids.iter().map(|pid| cpu_of(*pid)).sum()
    }

    fn nodes_cpu(&self) -> Duration {
        self.nodes.map_or(Duration::ZERO, cpu_of)
    }
}

fn resident(plane: &Plane) -> u64 {
    plane.pids.iter().map(|pid| resident_of(*pid)).sum()
}

/// A measurement under way.
struct Meter<'a> {
    plane: &'a Plane,
    began: Instant,
    cpu: Duration,
    nodes_cpu: Duration,
}

impl Meter<'_> {
    fn reached(&self) -> Reached {
        Reached {
            wall: self.began.elapsed(),
            cpu: self.plane.cpu().saturating_sub(self.cpu),
            nodes_cpu: self.plane.nodes_cpu().saturating_sub(self.nodes_cpu),
        }
    }
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn print(all: &[Figures], work: Work) {
    println!(
        "jobs: {} indexed Jobs of {} pods, each running {} s, on {} nodes; created over HTTPS, {IN_FLIGHT} at once",
        work.jobs, work.pods_per_job, work.run_seconds, work.nodes
    );
    println!(
        "  {:<16} {:<14} {:>8} {:>9} {:>8} {:>12} {:>10} {:>8}   {:>7} {:>6} {:>6}",
        "plane",
        "until",
        "s",
        "pods/s",
        "CPU s",
        "CPU µs/pod",
        "nodes' CPU",
        "RSS MB",
        "faster",
        "CPU",
        "RSS"
    );
    let real = all.iter().find(|figures| figures.name.starts_with("kube"));
    for figures in all {
        let against = real.filter(|real| real.name != figures.name);
        for (until, of) in UNTIL {
            let (reached, real) = (of(figures), against.map(of));
            let ratios = real.map_or_else(String::new, |real| {
                format!(
                    "{:>6.1}x {:>5.1}x {:>5.1}x",
                    real.wall.as_secs_f64() / reached.wall.as_secs_f64(),
                    real.cpu.as_secs_f64() / reached.cpu.as_secs_f64(),
                    against.map_or(0.0, |real| real.resident as f64 / figures.resident as f64),
                )
            });
            println!(
                "  {:<16} {until:<14} {:>8.3} {:>9.0} {:>8.2} {:>12.0} {:>10.2} {:>8.0}   {ratios}",
                figures.name,
                reached.wall.as_secs_f64(),
                work.pods() as f64 / reached.wall.as_secs_f64(),
                reached.cpu.as_secs_f64(),
                reached.cpu.as_secs_f64() * 1e6 / work.pods() as f64,
                reached.nodes_cpu.as_secs_f64(),
                mega(figures.resident),
            );
        }
    }
    println!(
        "  Nodes are played inside our process and beside the real plane: our CPU includes them, the real one's does not."
    );
}

type Of = fn(&Figures) -> &Reached;
const UNTIL: [(&str, Of); 3] = [
    ("all bound", |figures| &figures.bound),
    ("all succeeded", |figures| &figures.succeeded),
    ("all counted", |figures| &figures.complete),
];
