//! The scheduler alone, in memory: how many decisions per second at how many nodes, and how often it had to look at
//! every node.

use std::time::{Duration, Instant};

use muster_api::client::ApiObject;
use muster_api::node::{NodeFacts, simulated_node};
use muster_api::time::Time;
use muster_scheduler::volumes::{ClaimFacts, StorageClassFacts, VolumeFacts};
use muster_scheduler::{Pod, Scheduler, SchedulingOutcome};
use muster_tree::{Text, Tree, tree};

const NODES: [usize; 4] = [100, 1_000, 5_000, 10_000];
/// Pods per scenario, at most.
const PODS_MAX: usize = 20_000;
/// Pods per scenario where every node is looked at.
const SCANNED_PODS_MAX: usize = 2_000;
const ZONES: usize = 10;
const CLASSES: usize = 50;
/// Groups asked for at once, as the controller does.
const TURN: usize = 256;

/// A scenario: its name, how many pods on so many nodes, and the n-th pod.
type Scenario = (&'static str, fn(usize) -> usize, fn(usize) -> Tree);

const SCENARIOS: &[Scenario] = &[
    ("plain, one class", plenty, |_| asks(500)),
    ("plain, 50 classes", plenty, |n| asks(100 + 10 * (n * 7_919 % CLASSES))),
    ("plain, each pod its own class", |nodes| plenty(nodes).min(SCANNED_PODS_MAX), |n| asks(100 + n)),
    ("spread over zones", plenty, |_| {
        spec(&tree!({"topologySpreadConstraints": [{"maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": app()}]}))
    }),
    (
        "one per host",
        |nodes| nodes,
        |_| {
            spec(&tree!({"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname", "labelSelector": app()}]}}}))
        },
    ),
    ("near by zone, preferred", scanned, |_| {
        spec(&tree!({"affinity": {"podAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm":
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": app()}}]}}}))
    }),
    ("none fits", plenty, |_| asks(1_000_000)),
];

/// A scenario of claims to devices: its name, how many pods on so many nodes, and what each asks for. A node has
/// [`DEVICES`] devices.
type ClaimScenario = (&'static str, fn(usize) -> usize, fn() -> Tree);

const CLAIMS: &[ClaimScenario] = &[
    ("claims, one device", |nodes| (nodes * DEVICES).min(PODS_MAX), || claim(1, &[])),
    (
        "claims, four of one switch",
        |nodes| (nodes * 2).min(PODS_MAX),
        || claim(4, &["gpu.example.com/switch"]),
    ),
    ("claims, none fits", |nodes| scanned(nodes) / 4, || claim(DEVICES + 1, &[])),
];
/// Devices of a node.
const DEVICES: usize = 8;

/// A scenario of volumes: its name, and the claim of the n-th pod.
type VolumeScenario = (&'static str, fn(usize) -> usize);

const VOLUMES: &[VolumeScenario] =
    &[("volumes, one made for each pod", |n| n), ("volumes, one for all pods", |_| 0)];

/// Runs them all and prints a table.
pub fn run() {
    println!("scheduler in memory, CPU time (feeding a pod is reading its manifest and queueing it)");
    println!(
        "{:<30} {:>6} {:>6} {:>9} {:>10} {:>8} {:>7} {:>7} {:>8} {:>9} {:>8}",
        "",
        "nodes",
        "pods",
        "feed µs",
        "decide/s",
        "µs each",
        "placed",
        "scans",
        "ranked",
        "diagnosed",
        "repeated"
    );
    for (name, many, pod) in SCENARIOS {
        NODES.iter().for_each(|nodes| one(name, *nodes, many(*nodes), *pod, |_, _| {}));
    }
    for (name, claim_of) in VOLUMES {
        NODES.iter().for_each(|nodes| {
            one(
                name,
                *nodes,
                plenty(*nodes),
                |_| asks(500),
                |scheduler, trees| feed_volumes(scheduler, trees, *claim_of),
            );
        });
    }
    for (name, many, claim) in CLAIMS {
        NODES.iter().for_each(|nodes| {
            one(
                name,
                *nodes,
                many(*nodes),
                |_| asks(500),
                |scheduler, trees| {
                    feed_devices(scheduler, *nodes, trees, &claim());
                },
            );
        });
    }
}

/// Plays one scenario; `more` adds further objects and what pods require of them.
fn one(
    name: &str,
    nodes: usize,
    pods: usize,
    shape: fn(usize) -> Tree,
    more: impl Fn(&mut Scheduler, &mut [Tree]),
) {
    let mut scheduler = Scheduler::default();
    (0..nodes).for_each(|n| scheduler.update_node(node(n)));
    let mut trees: Vec<Tree> = (0..pods).map(|n| manifest(n, &shape(n))).collect();
    more(&mut scheduler, &mut trees);
    let start = Start::now();
    trees.iter().for_each(|tree| scheduler.update_pod(&Pod::of(tree, &["default-scheduler"])));
    let feed = start.took();
    let (mut decided, mut placed) = (0, 0);
    let start = Start::now();
    while decided < pods {
        let decisions = scheduler.schedule(TURN, Time(0));
        placed += decisions.iter().filter(|it| matches!(it.outcome, SchedulingOutcome::Scheduled(_))).count();
        decided += decisions.len();
    }
    print(name, nodes, pods, placed, feed, start.took(), &scheduler);
}

/// The devices of all nodes, their class, and one claim for each pod.
fn feed_devices(scheduler: &mut Scheduler, nodes: usize, pods: &mut [Tree], claim: &Tree) {
    for n in 0..nodes {
        let name = format!("node-{n:05}");
        let device = |d: usize| {
            tree!({"name": format!("gpu-{d}"), "capacity": {"memory": {"value": "80Gi"}}, "attributes": {
                "model": {"string": "sim-a100"}, "switch": {"int": if d < DEVICES / 2 { 0 } else { 1 }},
                "uuid": {"string": format!("{n}-{d}")}}})
        };
        let slice = tree!({"metadata": {"name": &name}, "spec": {"driver": "gpu.example.com", "nodeName": &name,
            "pool": {"name": &name, "generation": 1, "resourceSliceCount": 1},
            "devices": Tree::list((0..DEVICES).map(device))}});
        scheduler.update_devices(|book| book.update_slice(&slice));
    }
    let expression = "device.driver == \"gpu.example.com\" && device.attributes[\"gpu.example.com\"].model == \"sim-a100\"";
    let class =
        tree!({"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    scheduler.update_devices(|book| book.update_class(&class));
    for (n, pod) in pods.iter_mut().enumerate() {
        let name = format!("claim-{n}");
        let meta = tree!({"metadata": {"namespace": "default", "name": &name, "uid": &name}});
        let object = ApiObject { tree: claim.merge(&meta), revision: 1 };
        scheduler.update_devices(|book| book.update_claim(&object));
        *pod = pod.with(&["spec", "resourceClaims"], tree!([{"name": "x", "resourceClaimName": name}]));
    }
}

/// A class that makes volumes, and claims to such; one that pods share is bound to a volume that all nodes reach.
fn feed_volumes(scheduler: &mut Scheduler, pods: &mut [Tree], claim_of: fn(usize) -> usize) {
    let class = tree!({"metadata": {"name": "late"}, "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer"});
    scheduler.update_volumes(|book| book.update_class(&"late".into(), Some(StorageClassFacts::of(&class))));
    let shared = claim_of(1) == claim_of(0);
    let volume = tree!({"metadata": {"name": "v"}, "spec": {"storageClassName": "late", "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "claim-0", "uid": "claim-0"}}, "status": {"phase": "Bound"}});
    scheduler
        .update_volumes(|book| book.update_volume(&"v".into(), shared.then(|| VolumeFacts::of(&volume))));
    for (n, pod) in pods.iter_mut().enumerate() {
        let name = Text::from(format!("claim-{}", claim_of(n)));
        let claim = tree!({"metadata": {"namespace": "default", "name": &name, "uid": &name},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}});
        let bound = tree!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "v"},
            "status": {"phase": "Bound"}});
        let facts = ClaimFacts::of(&if shared { claim.merge(&bound) } else { claim });
        scheduler.update_volumes(|book| book.update_claim(&("default".into(), name.clone()), Some(facts)));
        *pod = pod
            .with(&["spec", "volumes"], tree!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]));
    }
}

/// A claim to so many devices that share these attributes.
fn claim(count: usize, share: &[&str]) -> Tree {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let ask = tree!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    let constraints = share.iter().map(|attribute| tree!({"matchAttribute": *attribute}));
    tree!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": ask}],
        "constraints": Tree::list(constraints)}}})
}

fn print(
    name: &str,
    nodes: usize,
    pods: usize,
    placed: usize,
    feed: Duration,
    took: Duration,
    it: &Scheduler,
) {
    let (stats, each) = (it.stats(), |time: Duration| time.as_secs_f64() * 1e6 / pods as f64);
    println!(
        "{name:<30} {nodes:>6} {pods:>6} {:>9.2} {:>10.0} {:>8.2} {placed:>7} {:>7} {:>8} {:>9} {:>8}",
        each(feed),
        1e6 / each(took),
        each(took),
        stats.scans,
        stats.rankings,
        stats.diagnoses,
        stats.repeated,
    );
}

/// CPU time below this is below the resolution of the clock.
const CPU_MIN: Duration = Duration::from_millis(20);

struct Start {
    cpu: Duration,
    wall: Instant,
}

impl Start {
    fn now() -> Start {
        Start { cpu: on_cpu(), wall: Instant::now() }
    }

    /// The CPU time since then, or wall time where CPU time is below its resolution.
    fn took(&self) -> Duration {
        let cpu = on_cpu().saturating_sub(self.cpu);
        if cpu < CPU_MIN { self.wall.elapsed() } else { cpu }
    }
}

/// CPU time of this thread so far, to a few milliseconds: what else runs on the machine does not matter.
fn on_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// As many as fit easily.
fn plenty(nodes: usize) -> usize {
    (nodes * 20).min(PODS_MAX)
}

fn scanned(nodes: usize) -> usize {
    plenty(nodes).min(SCANNED_PODS_MAX)
}

fn app() -> Tree {
    tree!({"matchLabels": {"app": "a"}})
}

fn node(n: usize) -> NodeFacts {
    let has = tree!({"cpu": "64", "memory": "256Gi", "pods": "110"});
    let zone = tree!({"metadata": {"labels": {"topology.kubernetes.io/zone": format!("z{}", n % ZONES)}}});
    NodeFacts::of(&simulated_node(&Text::from(format!("node-{n:05}")), &has).merge(&zone))
}

fn asks(milli: usize) -> Tree {
    tree!({"containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{milli}m"), "memory": "256Mi"}}}]})
}

fn spec(more: &Tree) -> Tree {
    asks(500).merge(more)
}

fn manifest(n: usize, spec: &Tree) -> Tree {
    let spec = spec.with(&["schedulerName"], "default-scheduler");
    tree!({"metadata": {"namespace": "default", "name": format!("pod-{n:06}"), "labels": {"app": "a", "index": n.to_string()}},
        "spec": spec})
}
