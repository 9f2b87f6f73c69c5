//! Gangs that come, end, are evicted and lose nodes, for as long as one likes: nothing of them is left behind.
//!
//! `MUSTER_GANG_SOAK="NODES SECONDS"` makes it larger and longer, for `cargo xtask soak`. There is always more to do than
//! room, so that gangs wait, and every seventh is urgent, so that others have to go. While it lasts, no list shows a part
//! of a gang. When all gangs are gone:
//!
//! - every queue is empty, and no PodGroup is counted;
//! - a gang as large as the whole cluster fits: nothing is taken by pods that were placed and are no more;
//! - memory is what it was in the middle (long runs only: a store fills its history first).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use muster_tests::clients::note;
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::RestartableServer;
use muster_tree::{Tree, tree};

use crate::metrics::Scrape;

const GANGS: &str = "/apis/scheduling.k8s.io/v1alpha1/namespaces/default";
const PODS: &str = "/api/v1/namespaces/default/pods";
const EVICTIONS: &str = "/api/v1/namespaces/default/events?fieldSelector=reason%3DPreempted&limit=500";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const NODES: &str = "/api/v1/nodes";
/// The Workload of all gangs, and that of the one at the end.
const WORKLOAD: &str = "soak";
const WHOLE: &str = "whole";
/// CPUs of a simulated node, and of a pod: two fit on a node.
const NODE_CPUS: usize = 32;
const POD_CPUS: usize = 16;
/// Gangs that come at once, each from a client of its own.
const LANES: usize = 4;
/// Objects read at once.
const PAGE: usize = 500;
/// Looks without progress before it is given up.
const LOOKS_MAX: u32 = 300;
/// How long it goes on at most for want of an eviction.
const EVICTED_WITHIN: Duration = Duration::from_secs(180);
/// Runs from this long on say something about memory.
const LONG: Duration = Duration::from_secs(300);

/// How large it is, and how long.
#[derive(Debug, Clone, Copy)]
struct Soak {
    nodes: usize,
    time: Duration,
    sizes: [usize; 4],
    /// Seconds that pods run, at least and at most.
    runs: (usize, usize),
    pause: Duration,
}

impl Soak {
    fn wanted() -> Soak {
        let asked = std::env::var("MUSTER_GANG_SOAK").unwrap_or_default();
        let numbers: Vec<usize> = asked.split_whitespace().map(|n| n.parse().expect("a number")).collect();
        match numbers[..] {
            [] => Soak {
                nodes: 30,
                time: Duration::from_secs(15),
                sizes: [2, 3, 5, 12],
                runs: (1, 4),
                pause: Duration::from_millis(200),
            },
            [nodes, secs] => Soak {
                nodes,
                time: Duration::from_secs(secs as u64),
                sizes: [2, 8, 32, 128],
                runs: (10, 40),
                pause: Duration::from_secs(1),
            },
            _ => panic!("MUSTER_GANG_SOAK={asked}: want NODES SECONDS"),
        }
    }

    /// Pods that are there at once: a third more than there is room for.
    fn pods(&self) -> usize {
        self.nodes * (NODE_CPUS / POD_CPUS) * 4 / 3
    }

    /// A template for each size of gang that goes as a whole, and one for each that does not.
    fn workload(&self) -> Tree {
        let template = |(size, whole): (usize, bool)| {
            let mode = if whole { tree!({"all": {}}) } else { tree!({"single": {}}) };
            tree!({"name": template_of(size, whole), "policy": {"gang": {"minCount": count(size)}},
                "disruptionMode": mode})
        };
        let all = self.sizes.into_iter().flat_map(|size| [(size, false), (size, true)]);
        tree!({"metadata": {"name": WORKLOAD}, "spec": {"podGroupTemplates": Tree::list(all.map(template))}})
    }
}

fn template_of(size: usize, whole: bool) -> String {
    format!("{}-{size}", if whole { "whole" } else { "single" })
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap()
}

/// A gang that was made.
#[derive(Debug, Clone)]
struct Gang {
    name: String,
    size: usize,
    workload: &'static str,
    template: String,
    urgent: bool,
    seconds: usize,
    cpus: usize,
}

impl Gang {
    fn group(&self) -> Tree {
        tree!({"metadata": {"name": &*self.name}, "spec": {"workloadRef": {"name": self.workload},
            "podGroupTemplateRef": {"name": &*self.template}}})
    }

    fn pod(&self, n: usize) -> Tree {
        let asks = tree!({"requests": {"cpu": self.cpus.to_string()}});
        let pod = tree!({"metadata": {"name": format!("{}-{n}", self.name), "labels": {"gang": &*self.name},
            "annotations": {"muster.dev/sim-run-seconds": self.seconds.to_string()}},
            "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "workloadRef": {"name": self.workload, "podGroupName": &*self.name},
                "containers": [{"name": "main", "image": "train", "resources": asks}]}});
        if self.urgent { pod.with(&["spec", "priorityClassName"], "urgent") } else { pod }
    }

    fn make(&self, server: &ApiClient) {
        create(server, &format!("{GANGS}/podgroups"), &self.group());
        (0..self.size).for_each(|n| create(server, PODS, &self.pod(n)));
    }

    fn delete(&self, server: &ApiClient) {
        let pods = format!("{PODS}?labelSelector=gang%3D{}&gracePeriodSeconds=0", self.name);
        for path in [pods, format!("{GANGS}/podgroups/{}", self.name)] {
            let gone = server.send("DELETE", &path, &RequestStep::default(), Vec::new()).unwrap();
            assert_eq!(gone.code, 200, "{}", gone.body);
        }
    }
}

fn create(server: &ApiClient, path: &str, object: &Tree) {
    let made = server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{path}: {}", made.body);
}

/// What one list shows of a gang.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sight {
    /// Pods without a deletion timestamp.
    there: usize,
    bound: usize,
    succeeded: usize,
    /// On nodes that are gone, or failed with them.
    lost: usize,
}

/// Chance, the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

/// What became of gangs.
#[derive(Debug, Default)]
struct Ends {
    made: usize,
    finished: usize,
    /// Lost a member to an urgent one, or to a node that died.
    broken: usize,
    nodes: usize,
    evicted: usize,
}

struct Play {
    soak: Soak,
    server: ApiClient,
    dice: Dice,
    gangs: BTreeMap<String, Gang>,
    dead: BTreeSet<String>,
    ends: Ends,
    /// Resident memory, one look after another.
    memory: Vec<u64>,
}

/// Shows: 5832-66.
#[test]
fn nothing_of_gangs_is_left_behind() {
    let soak = Soak::wanted();
    let plane =
        RestartableServer::with_args(&["--sim-nodes", &soak.nodes.to_string()]).expect("muster up is ready");
    let server = plane.server().unwrap();
    let mut play = Play {
        soak,
        server,
        dice: Dice(5_832),
        gangs: BTreeMap::new(),
        dead: BTreeSet::new(),
        ends: Ends::default(),
        memory: Vec::new(),
    };
    play.set_up();
    play.churn(&plane);
    play.until_none_is_left();
    play.has_forgotten();
    play.has_the_whole_cluster();
    play.until_none_is_left();
    play.has_forgotten();
    let Play { ends, memory, .. } = play;
    assert!(ends.finished > 0 && ends.broken > 0 && ends.nodes > 0, "{ends:?}");
    if soak.time >= LONG {
        does_not_grow(&memory);
    }
    let (cpu_secs, resident) = plane.usage();
    note(&format!(
        "gangs: {} made on {} nodes in {} s, {} ended, {} broken up, {} nodes lost; {cpu_secs:.1} s CPU, {} MB resident",
        ends.made,
        soak.nodes,
        soak.time.as_secs(),
        ends.finished,
        ends.broken,
        ends.nodes,
        resident >> 20,
    ));
}

impl Play {
    fn set_up(&self) {
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        create(&self.server, classes, &tree!({"metadata": {"name": "urgent"}, "value": 1_000}));
        create(&self.server, &format!("{GANGS}/workloads"), &self.soak.workload());
        let ready = || self.living() == self.soak.nodes;
        assert!((0..LOOKS_MAX).any(|_| ready() || pause(self.soak.pause)), "all nodes are there");
    }

    /// Gangs come, end, are evicted and lose nodes.
    fn churn(&mut self, plane: &RestartableServer) {
        #[expect(clippy::disallowed_methods, reason = "how long it lasts is all that depends on it")]
        let began = Instant::now();
        let mut turn = 0;
        // On a busy machine little happens in the time; it goes on until there were evictions, within a bound.
        while began.elapsed() < self.soak.time || (self.ends.evicted == 0 && began.elapsed() < EVICTED_WITHIN)
        {
            let sights = self.look();
            self.tidy(&sights);
            self.come(&sights);
            if turn % 5 == 4 && self.dead.len() < self.soak.nodes / 10 {
                self.lose_a_node();
            }
            let (cpu_secs, resident) = plane.usage();
            self.memory.push(resident);
            if turn % 25 == 0 {
                let (ends, there) = (&self.ends, self.gangs.len());
                eprintln!(
                    "{:6.1} s: {there} gangs, {ends:?}, {cpu_secs:.1} s CPU, {} MB",
                    began.elapsed().as_secs_f64(),
                    resident >> 20
                );
            }
            self.take_events_away();
            turn += 1;
            pause(self.soak.pause);
        }
        assert!(self.ends.evicted > 0, "urgent gangs had others evicted");
        let placed = r#"scheduler_podgroup_schedule_attempts_total{result="scheduled"}"#;
        let placed = Scrape::of(&self.server).value(placed);
        assert!(placed >= self.ends.finished as f64, "{placed} groups counted, {:?}", self.ends);
    }

    /// Events have a TTL of an hour; with this many pods they would dominate the memory figure.
    fn take_events_away(&mut self) {
        self.ends.evicted += self.server.get(EVICTIONS).unwrap().body.items_at(&["items"]).len();
        let gone = self.server.send("DELETE", EVENTS, &RequestStep::default(), Vec::new()).unwrap();
        assert_eq!(gone.code, 200, "{}", gone.body);
    }

    /// Reads all pods at one instant; none of them may be a part of a gang that has nodes while the rest has none.
    fn look(&self) -> BTreeMap<String, Sight> {
        let mut sights: BTreeMap<String, Sight> = BTreeMap::new();
        each(&self.server, PODS, |pod| {
            let sight = sights.entry(pod.str_at(&["metadata", "labels", "gang"]).to_owned()).or_default();
            if !pod.str_at(&["metadata", "deletionTimestamp"]).is_empty() {
                return;
            }
            let (node, phase) = (pod.str_at(&["spec", "nodeName"]), pod.str_at(&["status", "phase"]));
            sight.there += 1;
            sight.bound += usize::from(!node.is_empty());
            sight.succeeded += usize::from(phase == "Succeeded");
            sight.lost +=
                usize::from(phase == "Failed" || (phase != "Succeeded" && self.dead.contains(node)));
        });
        for (name, sight) in &sights {
            let size = self.gangs.get(name).map_or(0, |gang| gang.size);
            let part = sight.there == size && 0 < sight.bound && sight.bound < size;
            assert!(!part, "a part of {name} has nodes: {sight:?}");
        }
        sights
    }

    /// Removes gangs that have ended, and those that lost a member.
    fn tidy(&mut self, sights: &BTreeMap<String, Sight>) {
        let seen = |gang: &Gang| sights.get(&gang.name).copied().unwrap_or_default();
        let (over, rest): (Vec<Gang>, Vec<Gang>) = self.gangs.values().cloned().partition(|gang| {
            let sight = seen(gang);
            sight.succeeded == gang.size || sight.there < gang.size || sight.lost > 0
        });
        for gang in &over {
            let whole = seen(gang).succeeded == gang.size;
            self.ends.finished += usize::from(whole);
            self.ends.broken += usize::from(!whole);
        }
        let server = &self.server;
        in_lanes(&over, |gang| gang.delete(server));
        self.gangs = rest.into_iter().map(|gang| (gang.name.clone(), gang)).collect();
    }

    /// As many gangs come as there is work missing.
    fn come(&mut self, sights: &BTreeMap<String, Sight>) {
        let waiting = |gang: &Gang| {
            let sight = sights.get(&gang.name).copied().unwrap_or_default();
            gang.size - sight.succeeded.min(gang.size)
        };
        let mut there: usize = self.gangs.values().map(waiting).sum();
        let mut come = Vec::new();
        while there < self.soak.pods() {
            let gang = self.next();
            there += gang.size;
            come.push(gang);
        }
        let server = &self.server;
        in_lanes(&come, |gang| gang.make(server));
        self.gangs.extend(come.into_iter().map(|gang| (gang.name.clone(), gang)));
    }

    fn next(&mut self) -> Gang {
        let number = self.ends.made;
        self.ends.made += 1;
        let size = self.soak.sizes[self.dice.below(self.soak.sizes.len())];
        let (least, most) = self.soak.runs;
        Gang {
            name: format!("gang-{number}"),
            size,
            workload: WORKLOAD,
            template: template_of(size, self.dice.below(2) == 0),
            urgent: number % 7 == 6,
            seconds: least + self.dice.below(most - least + 1),
            cpus: POD_CPUS,
        }
    }

    /// A node dies for good; what was on it is removed with its gang.
    fn lose_a_node(&mut self) {
        let name = format!("sim-{}", self.dice.below(self.soak.nodes));
        if self.dead.insert(name.clone()) {
            let gone =
                self.server.send("DELETE", &format!("{NODES}/{name}"), &RequestStep::default(), Vec::new());
            assert_eq!(gone.unwrap().code, 200, "{name}");
            self.ends.nodes += 1;
        }
    }

    fn living(&self) -> usize {
        let mut nodes = 0;
        each(&self.server, NODES, |_| nodes += 1);
        nodes
    }

    /// No gang comes any more: all that wait have their turn.
    fn until_none_is_left(&mut self) {
        let mut looks = 0;
        while !self.gangs.is_empty() {
            assert!(looks < LOOKS_MAX, "no gang ends any more: {:?}", self.gangs.keys());
            let before = self.gangs.len();
            let sights = self.look();
            self.tidy(&sights);
            looks = if self.gangs.len() < before { 0 } else { looks + 1 };
            pause(self.soak.pause);
        }
    }

    /// Nothing of all the gangs is there, queued or counted.
    fn has_forgotten(&self) {
        let mut last = Vec::new();
        let quiet = (0..LOOKS_MAX).any(|_| {
            last = self.remains();
            last.is_empty() || pause(self.soak.pause)
        });
        assert!(quiet, "left behind: {last:?}");
    }

    fn remains(&self) -> Vec<String> {
        let mut left = Vec::new();
        for path in [PODS.to_owned(), format!("{GANGS}/podgroups")] {
            each(&self.server, &path, |it| left.push(it.str_at(&["metadata", "name"]).to_owned()));
        }
        let counted = ["scheduler_pending_pods{", "muster_podgroups{"];
        let scrape = Scrape::of(&self.server);
        assert!(scrape.values.keys().any(|name| name.starts_with(counted[0])), "queues are told of");
        let counted = |name: &str| counted.iter().any(|begin| name.starts_with(begin));
        let waiting = scrape.values.iter().filter(|(name, value)| counted(name) && **value != 0.0);
        left.extend(waiting.map(|(name, value)| format!("{name} {value}")));
        left
    }

    /// One gang that needs every node that is left, and all of it.
    fn has_the_whole_cluster(&mut self) {
        let size = self.living();
        let template = tree!([{"name": WHOLE, "policy": {"gang": {"minCount": count(size)}}}]);
        let workload = tree!({"metadata": {"name": WHOLE}, "spec": {"podGroupTemplates": template}});
        create(&self.server, &format!("{GANGS}/workloads"), &workload);
        let (name, workload) = (WHOLE.to_owned(), WHOLE);
        let template = name.clone();
        let gang = Gang { name, size, workload, template, urgent: false, seconds: 1, cpus: NODE_CPUS };
        create(&self.server, &format!("{GANGS}/podgroups"), &gang.group());
        let numbers: Vec<usize> = (0..size).collect();
        let server = &self.server;
        in_lanes(&numbers, |n| create(server, PODS, &gang.pod(*n)));
        self.gangs.insert(gang.name.clone(), gang);
        let finished = self.ends.finished;
        self.until_none_is_left();
        assert_eq!(
            self.ends.finished,
            finished + 1,
            "a gang as large as the cluster ends well: {:?}",
            self.ends
        );
    }
}

/// Does something with each, several at once.
fn in_lanes<T: Sync>(all: &[T], act: impl Fn(&T) + Sync) {
    std::thread::scope(|scope| {
        for lane in all.chunks(all.len().div_ceil(LANES).max(1)) {
            scope.spawn(|| lane.iter().for_each(&act));
        }
    });
}

/// Waits; never the end of a search.
fn pause(time: Duration) -> bool {
    std::thread::sleep(time);
    false
}

/// Reads all objects as they are at one instant, a page at a time.
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

/// Memory is at the end what it was in the middle, a tenth and some megabytes aside.
fn does_not_grow(memory: &[u64]) {
    let typical = |part: &[u64]| {
        let mut sorted = part.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    let third = memory.len() / 3;
    let (middle, end) = (typical(&memory[third..2 * third]), typical(&memory[2 * third..]));
    eprintln!("memory: {} MB in the middle, {} MB at the end", middle >> 20, end >> 20);
    assert!(
        end <= middle + middle / 10 + (16 << 20),
        "memory grows: {middle} bytes in the middle, {end} at the end"
    );
}
