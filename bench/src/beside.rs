//! Our scheduler and kube-scheduler on the same real API server: how fast a backlog of pods gets its nodes.
//!
//! Each has a fresh server with the same nodes and the same pods waiting; the clock runs from the start of the
//! scheduler's process until the last pod is bound. Neither has limits on its requests that it could reach.

use std::time::{Duration, Instant};

use muster_api::node::simulated_node;
use muster_tests::real::{Disk, RealCluster};
use muster_tree::{Text, Tree, tree};

use crate::client::{Target, await_all};
use crate::measure::{cpu_of, resident_of};
use crate::up;

const NODES: usize = 1_000;
const PODS: usize = 3_000;

struct Figures {
    name: &'static str,
    wall: Duration,
    cpu: Duration,
    server_cpu: Duration,
    resident: u64,
}

/// Starts a scheduler on a server; returns its process.
type Start = fn(&mut RealCluster) -> Result<u32, String>;

/// Runs both and prints them.
pub fn run(disk: Disk) {
    let both: [(&str, &str, Start); 2] = [
        ("muster operator", "muster-scheduler", |real| real.start_muster(&up::binary(), &["operator"])),
        ("kube-scheduler", "default-scheduler", RealCluster::start_scheduler),
    ];
    let mut all = Vec::new();
    for (name, scheduler, start) in both {
        eprintln!("{name}");
        match one(name, scheduler, start, disk) {
            Ok(figures) => all.push(figures),
            Err(why) => return eprintln!("no real plane to compare on: {why}"),
        }
    }
    print(&all);
}

fn one(name: &'static str, scheduler: &str, start: Start, disk: Disk) -> Result<Figures, String> {
    let mut real = RealCluster::start_without_controllers(disk)?;
    let server = real.pids();
    let target = Target::of_token(real.server.base(), real.token());
    target.send_all(NODES, node);
    target.send_all(PODS, |n| pod(n, scheduler));
    let bound = target.first_of("pods", "spec.nodeName!=", PODS);
    let cpu = |pids: &[u32]| pids.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (began, before) = (Instant::now(), cpu(&server));
    let pid = start(&mut real)?;
    await_all(&bound, "bound pods");
    Ok(Figures {
        name,
        wall: began.elapsed(),
        cpu: cpu_of(pid),
        server_cpu: cpu(&server).saturating_sub(before),
        resident: resident_of(pid),
    })
}

/// A ready node: the server taints a new one until the taint is removed.
pub fn node(n: usize) -> Vec<(String, &'static str, Tree)> {
    let name = Text::from(format!("node-{n:05}"));
    let has = tree!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    let ready = tree!({"type": "Ready", "status": "True", "reason": "Bench", "message": "",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let node = simulated_node(&name, &has).merge(&tree!({"status": {"conditions": [(ready)]}}));
    let bare = tree!({"spec": {"taints": null}});
    vec![
        ("POST /api/v1/nodes".to_owned(), "application/json", node),
        (format!("PATCH /api/v1/nodes/{name}"), "application/merge-patch+json", bare),
    ]
}

fn pod(n: usize, scheduler: &str) -> Vec<(String, &'static str, Tree)> {
    let asks = tree!({"requests": {"cpu": "500m", "memory": "256Mi"}});
    let pod = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{n:05}"), "namespace": "default"},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "train", "resources": asks}]}});
    vec![("POST /api/v1/namespaces/default/pods".to_owned(), "application/json", pod)]
}

fn print(all: &[Figures]) {
    println!(
        "schedulers on a real API server: {PODS} waiting pods, {NODES} nodes, from the start of the process until all are bound"
    );
    println!(
        "  {:<16} {:>8} {:>9} {:>8} {:>12} {:>8} {:>13}   {:>7} {:>6} {:>6}",
        "", "s", "pods/s", "CPU s", "CPU µs/pod", "RSS MB", "server CPU s", "faster", "CPU", "RSS"
    );
    let kube = all.iter().find(|it| it.name == "kube-scheduler");
    for it in all {
        let against = kube.filter(|kube| kube.name != it.name);
        let ratios = against.map_or_else(String::new, |kube| {
            let of = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64();
            let memory = kube.resident as f64 / it.resident as f64;
            format!("{:>6.1}x {:>5.1}x {memory:>5.1}x", of(kube.wall, it.wall), of(kube.cpu, it.cpu))
        });
        println!(
            "  {:<16} {:>8.2} {:>9.0} {:>8.2} {:>12.0} {:>8.0} {:>13.2}   {ratios}",
            it.name,
            it.wall.as_secs_f64(),
            PODS as f64 / it.wall.as_secs_f64(),
            it.cpu.as_secs_f64(),
            it.cpu.as_secs_f64() * 1e6 / PODS as f64,
            it.resident as f64 / 1e6,
            it.server_cpu.as_secs_f64(),
        );
    }
}
