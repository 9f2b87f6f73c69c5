//! The load: what there is of queues, and which Workloads arrive when.
//!
//! The numbers are those with which Kueue's own test of its scheduler is published (`baseline`): 5 cohorts of 6
//! ClusterQueues, each with a quota of 20 CPUs and leave to borrow 100, and with 500 Workloads of three classes. Each
//! queue gets a Workload of a class at every interval of that class, the first after one interval.
//!
//! | class | of each queue | one every | CPUs | runs for | priority |
//! |---|---|---|---|---|---|
//! | small | 350 | 100 ms | 1 | 200 ms | 50 |
//! | medium | 100 | 500 ms | 5 | 500 ms | 100 |
//! | large | 50 | 1200 ms | 20 | 1000 ms | 200 |
//!
//! Quota bounds the time from below: [`Load::floor`].

use std::time::Duration;

use muster_api::queue::consts as queue;
use muster_tree::{Tree, tree};

const FLAVOR: &str = "default";
const JSON: &str = "application/json";
const ROOT: &str = "/apis/kueue.x-k8s.io/v1beta2";

/// Workloads that are alike.
pub struct Class {
    pub name: &'static str,
    count: usize,
    every: Duration,
    cpus: u32,
    pub runs: Duration,
    priority: i64,
}

/// How much of everything.
pub struct Load {
    pub name: &'static str,
    cohorts: usize,
    queues_each: usize,
    quota: u32,
    borrows: u32,
    pub classes: [Class; 3],
}

/// A Workload that is to come.
pub struct Arrival {
    pub at: Duration,
    pub queue: usize,
    /// Where its class stands among the classes.
    pub class: usize,
}

/// A request: the call, the media type of its body, and the body.
pub type Request = (String, &'static str, Tree);

impl Load {
    /// A share of the published load, all of it in a share of the time.
    pub fn of(name: &'static str, fewer: usize, faster: u32) -> Load {
        let class = |name, count: usize, every: u64, cpus, runs: u64, priority| Class {
            name,
            count: count / fewer,
            every: Duration::from_millis(every) / faster,
            cpus,
            runs: Duration::from_millis(runs) / faster,
            priority,
        };
        Load {
            name,
            cohorts: 5,
            queues_each: 6,
            quota: 20,
            borrows: 100,
            classes: [
                class("small", 350, 100, 1, 200, 50),
                class("medium", 100, 500, 5, 500, 100),
                class("large", 50, 1200, 20, 1000, 200),
            ],
        }
    }

    pub fn workloads(&self) -> usize {
        self.queues() * self.classes.iter().map(|class| class.count).sum::<usize>()
    }

    pub fn queues(&self) -> usize {
        self.cohorts * self.queues_each
    }

    /// The time in which all could have run one after another on all the quota there is, were they all there at once.
    pub fn floor(&self) -> Duration {
        let work = |class: &Class| class.runs * class.cpus * u32::try_from(class.count).unwrap_or(u32::MAX);
        self.classes.iter().map(work).sum::<Duration>() / self.quota
    }

    /// All Workloads in the order of their arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        let mut all = Vec::with_capacity(self.workloads());
        for (number, class) in self.classes.iter().enumerate() {
            for n in 1..=class.count {
                let at = class.every * u32::try_from(n).unwrap_or(u32::MAX);
                all.extend((0..self.queues()).map(|queue| Arrival { at, queue, class: number }));
            }
        }
        all.sort_by_key(|it| it.at);
        all
    }

    /// The ResourceFlavor of all queues: its creation shows that the APIs are served.
    pub fn flavor() -> Request {
        let flavor = tree!({"apiVersion": queue::API_VERSION, "kind": queue::RESOURCE_FLAVOR,
            "metadata": {"name": FLAVOR}});
        (format!("POST {ROOT}/resourceflavors"), JSON, flavor)
    }

    /// The n-th queue, with a namespace of its own.
    pub fn queue(&self, n: usize) -> Vec<Request> {
        let name = queue_name(n);
        let cohort = format!("cohort-{}", n / self.queues_each);
        let quota = tree!({"name": "cpu", "nominalQuota": self.quota.to_string(),
            "borrowingLimit": self.borrows.to_string()});
        let group = tree!({"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": [quota]}]});
        let cluster = tree!({"apiVersion": queue::API_VERSION, "kind": queue::CLUSTER_QUEUE,
            "metadata": {"name": name.clone()},
            "spec": {"cohortName": cohort, "namespaceSelector": {}, "queueingStrategy": "BestEffortFIFO",
                "resourceGroups": [group],
                "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}}});
        let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name.clone()}});
        let local = tree!({"apiVersion": queue::API_VERSION, "kind": queue::LOCAL_QUEUE,
            "metadata": {"name": name.clone(), "namespace": name.clone()},
            "spec": {"clusterQueue": name.clone()}});
        vec![
            (format!("POST {ROOT}/clusterqueues"), JSON, cluster),
            ("POST /api/v1/namespaces".to_owned(), JSON, space),
            (format!("POST {ROOT}/namespaces/{name}/localqueues"), JSON, local),
        ]
    }

    /// The Workload of an arrival, under its number among all.
    pub fn workload(&self, arrival: &Arrival, id: usize) -> Request {
        let class = &self.classes[arrival.class];
        let space = queue_name(arrival.queue);
        let asks = tree!({"requests": {"cpu": class.cpus.to_string()}});
        let pod = tree!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "train", "resources": asks}]});
        let workload = tree!({"apiVersion": queue::API_VERSION, "kind": queue::WORKLOAD,
            "metadata": {"name": workload_name(id), "namespace": space.clone()},
            "spec": {"queueName": space.clone(), "priority": class.priority,
                "podSets": [{"name": queue::MAIN, "count": 1, "template": {"spec": pod}}]}});
        (format!("POST {ROOT}/namespaces/{space}/workloads"), JSON, workload)
    }
}

/// Where the status of a Workload is.
pub fn status_path(arrival: &Arrival, id: usize) -> String {
    format!("{ROOT}/namespaces/{}/workloads/{}/status", queue_name(arrival.queue), workload_name(id))
}

/// All Workloads, from now on.
pub fn watch() -> String {
    format!("GET {ROOT}/workloads?watch=1&allowWatchBookmarks=true")
}

/// The conditions of all ClusterQueues.
pub fn cluster_queues() -> String {
    format!("{ROOT}/clusterqueues")
}

fn queue_name(n: usize) -> String {
    format!("queue-{n:02}")
}

/// The beginning of a Workload's name; its number follows.
pub const NAME: &str = "workload-";

fn workload_name(id: usize) -> String {
    format!("{NAME}{id:05}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_load() {
        let load = Load::of("published", 1, 1);
        assert_eq!((load.queues(), load.workloads()), (30, 15_000));
        // 350 times 1 CPU for 0.2 s, 100 times 5 for 0.5 s and 50 times 20 for 1 s, on 20 CPUs.
        assert_eq!(load.floor(), Duration::from_secs(66));
    }

    #[test]
    fn all_arrive_in_order_and_the_last_is_large() {
        let load = Load::of("tenth", 10, 1);
        let arrivals = load.arrivals();
        assert_eq!(arrivals.len(), 1_500);
        assert!(arrivals.is_sorted_by_key(|it| it.at));
        let last = arrivals.last().expect("there are some");
        assert_eq!((last.at, last.class), (Duration::from_secs(6), 2));
    }
}
