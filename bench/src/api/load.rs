//! What is asked of a server, and the figures of one kind of request.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use muster_tree::{Tree, tree};

use crate::client::Target;
use crate::measure::{cpu_of, resident_of};
use crate::up::pod;

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Where pods are made for the watchers, so that lists stay as they are.
const WATCHED: &str = "/api/v1/namespaces/watched/pods";
const PAGE: usize = 500;
/// Requests under way at once: one, and enough to keep the server busy.
const IN_FLIGHT: [usize; 2] = [1, 16];
/// A row ends after this long, done or not; only the pods that lists need are made to the last.
const ROW_MAX: Duration = Duration::from_secs(5);

/// How much of everything.
pub struct Load {
    pub pods: usize,
    /// Requests of a row.
    requests: usize,
    lists: usize,
    pub watchers: usize,
    /// Pods made while they watch.
    watched: usize,
}

/// The figures of one kind of request.
pub struct Row {
    pub what: &'static str,
    pub in_flight: usize,
    pub done: usize,
    pub wall: Duration,
    pub latencies: Vec<Duration>,
    pub server_cpu: Duration,
    pub client_cpu: Duration,
    /// Memory of the server afterwards.
    pub resident: u64,
}

/// A request as bytes, and the code that a server must answer.
type Request = (Vec<u8>, u16);

impl Load {
    /// For figures to quote: two to three minutes for all servers.
    pub const FULL: Load = Load { pods: 5_000, requests: 2_000, lists: 20, watchers: 100, watched: 200 };
    /// To see that it works, and for profiles.
    pub const QUICK: Load = Load { pods: 500, requests: 300, lists: 5, watchers: 100, watched: 50 };

    /// Runs everything against one server.
    pub fn run(&self, target: &Target, pids: &[u32]) -> Vec<Row> {
        let bench = Bench { target, pids };
        let mut rows = self.creates(&bench);
        for (what, make) in WRITES {
            for in_flight in IN_FLIGHT {
                // Values differ from row to row: a patch that changes nothing is not a write.
                let request = |n| make(target, n % self.pods, n + in_flight * self.requests);
                rows.push(bench.row(
                    what,
                    in_flight,
                    &(0..self.requests).map(request).collect::<Vec<_>>(),
                    ROW_MAX,
                ));
            }
        }
        let list = (target.request(&format!("GET {PODS}"), "", b""), 200);
        rows.push(bench.row("list all pods", 1, &vec![list; self.lists], ROW_MAX));
        rows.push(bench.pages(self.lists * self.pods.div_ceil(PAGE)));
        rows.push(bench.watch(self.watchers, self.watched));
        rows
    }

    fn creates(&self, bench: &Bench<'_>) -> Vec<Row> {
        // The first requests pay for caches.
        let warm = (0..10).map(|n| create(bench.target, WATCHED, n + self.watched)).collect::<Vec<_>>();
        let body = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "watched"}});
        let namespace = bench.target.request("POST /api/v1/namespaces", JSON, &body.to_json_bytes());
        bench.row("", 1, &[(namespace, 201)], ROW_MAX);
        bench.row("", 1, &warm, ROW_MAX);
        let all: Vec<Request> = (0..self.pods).map(|n| create(bench.target, PODS, n)).collect();
        let (few, many) = all.split_at(self.pods / 5);
        let [one, several] = IN_FLIGHT;
        vec![
            bench.row("create a pod", one, few, Duration::MAX),
            bench.row("create a pod", several, many, Duration::MAX),
        ]
    }
}

const JSON: &str = "application/json";

/// (what, the request for pod `n` with a value that was not there before).
type Make = fn(&Target, usize, usize) -> Request;
const WRITES: [(&str, Make); 4] = [
    ("get a pod", get),
    ("merge patch", merge),
    ("strategic patch", strategic),
    ("server-side apply", apply),
];

fn create(target: &Target, path: &str, n: usize) -> Request {
    (target.request(&format!("POST {path}"), JSON, &pod(n).to_json_bytes()), 201)
}

fn get(target: &Target, n: usize, _: usize) -> Request {
    (target.request(&format!("GET {PODS}/{}", name(n)), "", b""), 200)
}

fn merge(target: &Target, n: usize, value: usize) -> Request {
    let body = tree!({"metadata": {"annotations": {"step": value.to_string()}}});
    patch(target, n, "", "application/merge-patch+json", &body)
}

fn strategic(target: &Target, n: usize, value: usize) -> Request {
    let body = tree!({"spec": {"containers": [{"name": "train", "image": format!("train:s{value}")}]}});
    patch(target, n, "", "application/strategic-merge-patch+json", &body)
}

fn apply(target: &Target, n: usize, value: usize) -> Request {
    let body = tree!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name(n), "labels": {"step": value.to_string()}},
        "spec": {"containers": [{"name": "train", "image": format!("train:a{value}")}]},
    });
    patch(target, n, "?fieldManager=bench&force=true", "application/apply-patch+yaml", &body)
}

fn patch(target: &Target, n: usize, query: &str, media: &str, body: &Tree) -> Request {
    let call = format!("PATCH {PODS}/{}{query}", name(n));
    (target.request(&call, media, &body.to_json_bytes()), 200)
}

fn name(n: usize) -> String {
    pod(n).str_at(&["metadata", "name"]).to_owned()
}

/// One server under measurement.
struct Bench<'a> {
    target: &'a Target,
    pids: &'a [u32],
}

impl Bench<'_> {
    /// Sends requests, `in_flight` at once, each over a connection that is already open.
    fn row(&self, what: &'static str, in_flight: usize, requests: &[Request], most: Duration) -> Row {
        let next = AtomicUsize::new(0);
        let barrier = Barrier::new(in_flight + 1);
        std::thread::scope(|scope| {
            let work = || {
                let mut connection = self.target.connect().expect("the server listens");
                // The handshake is done with the first request only.
                connection.send(&self.target.request("GET /readyz", "", b"")).expect("it answers");
                barrier.wait();
                let began = Instant::now();
                let mut latencies = Vec::new();
                while began.elapsed() < most
                    && let Some((request, want)) = requests.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let sent = Instant::now();
                    let (code, body) = connection.send(request).expect("it answers");
                    latencies.push(sent.elapsed());
                    assert_eq!(code, *want, "{what}: {}", String::from_utf8_lossy(body));
                }
                latencies
            };
            let workers: Vec<_> = (0..in_flight).map(|_| scope.spawn(work)).collect();
            barrier.wait();
            let meter = self.meter();
            let all = workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends"));
            self.done(what, in_flight, all.collect(), &meter)
        })
    }

    /// Reads all pods page by page, again and again.
    fn pages(&self, requests: usize) -> Row {
        let mut connection = self.target.connect().expect("the server listens");
        let (mut latencies, mut token) = (Vec::new(), String::new());
        let meter = self.meter();
        while latencies.len() < requests && meter.began.elapsed() < ROW_MAX {
            let call = format!("GET {PODS}?limit={PAGE}{token}");
            let sent = Instant::now();
            let (code, body) =
                connection.send(&self.target.request(&call, "", b"")).expect("the server answers");
            latencies.push(sent.elapsed());
            assert_eq!(code, 200, "{call}: {}", String::from_utf8_lossy(body));
            token = next_page(body).map(|token| format!("&continue={token}")).unwrap_or_default();
        }
        self.done("list a page of 500 pods", 1, latencies, &meter)
    }

    /// Makes pods one after another while many watch. A latency is from sending a pod to one watcher having it.
    fn watch(&self, watchers: usize, pods: usize) -> Row {
        let epoch = Instant::now();
        let sent: Arc<Vec<AtomicU64>> = Arc::new((0..pods).map(|_| AtomicU64::new(0)).collect());
        let barrier = Barrier::new(watchers + 1);
        let revision = self.revision();
        std::thread::scope(|scope| {
            let work = || {
                let mut connection = self.target.connect().expect("the server listens");
                let call = format!("GET {WATCHED}?watch=1&resourceVersion={revision}");
                let mut latencies = Vec::with_capacity(pods);
                let seen = |_: &[u8]| {
                    let at = Duration::from_nanos(sent[latencies.len()].load(Ordering::Acquire));
                    latencies.push(epoch.elapsed().saturating_sub(at));
                    latencies.len() < pods
                };
                let request = self.target.request(&call, "", b"");
                connection.watch(&request, || _ = barrier.wait(), seen).expect("the watch goes on");
                latencies
            };
            let workers: Vec<_> = (0..watchers).map(|_| scope.spawn(work)).collect();
            let mut connection = self.target.connect().expect("the server listens");
            barrier.wait();
            let meter = self.meter();
            for (n, at) in sent.iter().enumerate() {
                let now = u64::try_from(epoch.elapsed().as_nanos()).expect("a bench takes minutes");
                at.store(now, Ordering::Release);
                let (request, want) = create(self.target, WATCHED, n);
                let (code, body) = connection.send(&request).expect("the server answers");
                assert_eq!(code, want, "{}", String::from_utf8_lossy(body));
            }
            let all = workers.into_iter().flat_map(|worker| worker.join().expect("a watcher ends"));
            self.done("event to a watcher", 1, all.collect(), &meter)
        })
    }

    /// The revision of now.
    fn revision(&self) -> String {
        let mut connection = self.target.connect().expect("the server listens");
        let request = self.target.request(&format!("GET {WATCHED}?limit=1"), "", b"");
        let (_, body) = connection.send(&request).expect("the server answers");
        let list = Tree::parse(body).expect("lists are JSON");
        list.str_at(&["metadata", "resourceVersion"]).to_owned()
    }

    fn meter(&self) -> Meter {
        Meter { began: Instant::now(), server: self.cpu(), client: cpu_of(std::process::id()) }
    }

    fn cpu(&self) -> Duration {
        self.pids.iter().map(|pid| cpu_of(*pid)).sum()
    }

    fn done(&self, what: &'static str, in_flight: usize, mut latencies: Vec<Duration>, meter: &Meter) -> Row {
        let wall = meter.began.elapsed();
        latencies.sort_unstable();
        Row {
            what,
            in_flight,
            done: latencies.len(),
            wall,
            latencies,
            server_cpu: self.cpu().saturating_sub(meter.server),
            client_cpu: cpu_of(std::process::id()).saturating_sub(meter.client),
            resident: self.pids.iter().map(|pid| resident_of(*pid)).sum(),
        }
    }
}

/// A measurement under way.
struct Meter {
    began: Instant,
    server: Duration,
    client: Duration,
}

/// The token for the next page. It stands near the front; parsing the whole list would cost more than serving it.
fn next_page(body: &[u8]) -> Option<&str> {
    let key = br#""continue":""#;
    let at = body.windows(key.len()).position(|window| window == key)? + key.len();
    let length = body[at..].iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&body[at..at + length]).ok().filter(|token| !token.is_empty())
}
