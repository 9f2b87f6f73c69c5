//! The whole server as a user starts it, beside a real one: start to ready, memory, CPU per write over HTTPS.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::real::{Disk, RealCluster};
use muster_tree::{Tree, tree};
use tempfile::TempDir;

use crate::measure::{cpu_of, resident_of};

/// How many pods are created.
const PODS: usize = 1_000;

struct Row {
    name: &'static str,
    ready: Duration,
    idle_bytes: u64,
    full_bytes: u64,
    cpu_micros: f64,
    rate: f64,
}

pub fn run() {
    println!("up: start to ready, then {PODS} pods created one after another by one client over HTTPS");
    let ours = ours();
    let real = real();
    println!(
        "  {:<16} {:>9} {:>10} {:>14} {:>10} {:>14} {:>10}",
        "server", "ready ms", "idle MB", "1,000 pods MB", "KB/pod", "CPU µs/create", "creates/s"
    );
    for row in ours.iter().chain(&real) {
        println!(
            "  {:<16} {:>9.0} {:>10.1} {:>14.1} {:>10.1} {:>14.0} {:>10.0}",
            row.name,
            row.ready.as_secs_f64() * 1e3,
            mega(row.idle_bytes),
            mega(row.full_bytes),
            row.full_bytes.saturating_sub(row.idle_bytes) as f64 / 1024.0 / PODS as f64,
            row.cpu_micros,
            row.rate
        );
    }
    if let (Some(ours), Some(real)) = (ours.first(), &real) {
        println!(
            "  real / ours      {:>8.1}x {:>9.1}x {:>13.1}x {:>10} {:>13.1}x {:>9.1}x",
            real.ready.as_secs_f64() / ours.ready.as_secs_f64(),
            real.idle_bytes as f64 / ours.idle_bytes as f64,
            real.full_bytes as f64 / ours.full_bytes as f64,
            "",
            real.cpu_micros / ours.cpu_micros,
            real.rate / ours.rate
        );
    }
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// Ours, in memory and durable.
fn ours() -> Vec<Row> {
    let folder = TempDir::new().expect("a folder can be made");
    let data = folder.path().join("data").display().to_string();
    let durable = ["--data-dir", &data, "--sim-nodes", "0"];
    [("ours, ephemeral", &["--ephemeral", "--sim-nodes", "0"][..]), ("ours, durable", &durable[..])]
        .into_iter()
        .map(|(name, args)| {
            let kubeconfig = folder.path().join(format!("{}.kubeconfig", args[0]));
            let began = Instant::now();
            let mut child = start(&kubeconfig.display().to_string(), args);
            let ready = began.elapsed();
            let server = ApiClient::of_kubeconfig(&kubeconfig).expect("up writes a kubeconfig");
            let row = measure(name, ready, &server, &[child.id()]);
            child.kill().and_then(|()| child.wait()).expect("it was running");
            row
        })
        .collect()
}

/// The release binary, which lies beside this one.
pub fn binary() -> PathBuf {
    std::env::current_exe().expect("a bench has a file").with_file_name("muster")
}

/// Starts the release binary and waits for the line that says it is ready.
pub fn start(kubeconfig: &str, args: &[&str]) -> Child {
    let binary = binary();
    let mut child = Command::new(&binary)
        .args(["up", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| {
            panic!("{}: {e}: build it with `cargo build --release -p muster`", binary.display())
        });
    let mut line = String::new();
    let output = child.stdout.take().expect("the output is piped");
    BufReader::new(output).read_line(&mut line).expect("it says when it is ready");
    child
}

/// kube-apiserver and etcd, if they are here.
fn real() -> Option<Row> {
    let began = Instant::now();
    match RealCluster::start_without_controllers(Disk::Unsynced) {
        Ok(real) => Some(measure("kube + etcd", began.elapsed(), &real.server, &real.pids())),
        Err(why) => {
            println!("  no real server to compare with: {why}");
            None
        }
    }
}

fn measure(name: &'static str, ready: Duration, server: &ApiClient, pids: &[u32]) -> Row {
    let sum = |of: fn(u32) -> u64| pids.iter().map(|pid| of(*pid)).sum::<u64>();
    // The first requests pay for connections and caches.
    create(server, PODS..PODS + 10);
    let idle_bytes = sum(resident_of);
    let cpu = || pids.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (before, began) = (cpu(), Instant::now());
    create(server, 0..PODS);
    let (wall, used) = (began.elapsed(), cpu() - before);
    Row {
        name,
        ready,
        idle_bytes,
        full_bytes: sum(resident_of),
        cpu_micros: used.as_secs_f64() * 1e6 / PODS as f64,
        rate: PODS as f64 / wall.as_secs_f64(),
    }
}

fn create(server: &ApiClient, range: std::ops::Range<usize>) {
    for n in range {
        let body = pod(n).to_json_bytes();
        let path = "/api/v1/namespaces/default/pods";
        let answer = server.send("POST", path, &RequestStep::default(), body).expect("the server answers");
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
}

/// A pod as a training Job would make it.
pub fn pod(n: usize) -> Tree {
    let variables = (0..8).map(|i| tree!({"name": format!("VARIABLE_{i}"), "value": format!("value-{i}")}));
    let container = tree!({
        "name": "train", "image": "registry.example.com/train:v1", "command": ["python", "train.py"],
        "env": Tree::list(variables), "ports": [{"containerPort": 29500}],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"memory": "16Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    tree!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("train-{n:05}"), "labels": {"app": "train", "index": n.to_string()}},
        "spec": {
            "restartPolicy": "Never", "containers": [container],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    })
}
