//! Queues in cohorts, full, and many who wait in them.

use std::collections::BTreeMap;

use muster_api::selector::Selector;
use muster_api::time::Time;
use muster_queue::engine::spec::{
    CohortSpec, FlavorSpec, Group, LocalQueueSpec, QueueSpec, Quota, Settings, WEIGHT_ONE,
};
use muster_queue::engine::workload::{Affinity, Info, Key, PodSet, Reservation, Stand};
use muster_queue::engine::{Engine, Outcome};
use muster_tree::{Text, tree};

/// Queues of one cohort.
const QUEUES_PER_COHORT: usize = 10;
/// Who holds quota in each queue at first; then it is full.
const HOLDERS: usize = 10;
/// Namespace of everybody.
const NAMESPACE: &str = "team";
const FLAVORS: [&str; 2] = ["spot", "reserved"];

/// One scene.
pub struct Scene {
    pub says: &'static str,
    pub queues: usize,
    pub waiting: usize,
    /// Shapes of Workloads in a queue.
    shapes: usize,
}

impl Scene {
    /// In full, or to see that it works.
    pub fn all(quick: bool) -> Vec<Scene> {
        let (queues, waiting) = if quick { (20, 2_000) } else { (200, 50_000) };
        vec![
            Scene { says: "Workloads of five shapes", queues, waiting, shapes: 5 },
            Scene { says: "Workloads of which no two are alike", queues, waiting, shapes: usize::MAX },
        ]
    }

    pub fn settings(&self) -> Settings {
        Settings::default()
    }

    /// How many wait in a queue.
    fn each(&self) -> usize {
        self.waiting / self.queues
    }

    fn queue_spec(&self, queue: usize, nominal: i64) -> QueueSpec {
        let quota = |nominal| Quota { nominal, borrowing: None, lending: None };
        let flavor = |name: &str| {
            let quotas =
                [("cpu", quota(nominal)), ("memory", quota(nominal << 20))].map(|(k, v)| (Text::from(k), v));
            (Text::from(name), BTreeMap::from(quotas))
        };
        QueueSpec {
            cohort: Some(format!("cohort-{}", queue / QUEUES_PER_COHORT).into()),
            groups: vec![Group { flavors: FLAVORS.map(flavor).into() }],
            namespaces: Selector::of(Some(&tree!({}))),
            ..QueueSpec::named(&name(queue))
        }
    }

    /// What a queue owns when nobody changed it: just what its holders hold.
    fn nominal() -> i64 {
        i64::try_from(HOLDERS / FLAVORS.len()).expect("small") * 1000
    }

    pub fn feed_queues(&self, engine: &mut Engine) {
        for name in FLAVORS {
            engine.flavor(FlavorSpec {
                name: name.into(),
                labels: BTreeMap::new(),
                taints: Vec::new(),
                tolerations: Vec::new(),
            });
        }
        engine.namespace(NAMESPACE, Vec::new());
        for cohort in 0..self.queues / QUEUES_PER_COHORT {
            let parent = Some(format!("tree-{}", cohort / 5).into());
            let name = format!("cohort-{cohort}").into();
            engine.cohort(CohortSpec { name, parent, groups: Vec::new(), weight: WEIGHT_ONE });
        }
        for queue in 0..self.queues {
            engine.cluster_queue(self.queue_spec(queue, Self::nominal()));
            let (namespace, queue) = (NAMESPACE.into(), name(queue));
            engine.local_queue(LocalQueueSpec { namespace, name: queue.clone(), queue, stopped: false });
        }
    }

    /// Feeds everybody; how many there are.
    pub fn feed_workloads(&self, engine: &mut Engine) -> usize {
        for queue in 0..self.queues {
            for n in 0..self.each() + HOLDERS {
                engine.workload(self.info(queue, n));
            }
        }
        self.queues * (self.each() + HOLDERS)
    }

    /// The n-th Workload of a queue. The first ones are those that fit at once.
    fn info(&self, queue: usize, n: usize) -> Info {
        let shape = i64::try_from(n.saturating_sub(HOLDERS) % self.shapes).expect("small");
        let requests = [("cpu", 1000), ("memory", (500 << 20) + shape)].map(|(k, v)| (Text::from(k), v));
        Info {
            key: key(queue, n),
            uid: format!("uid-{queue:04}-{n:06}").into(),
            job_uid: Some(format!("job-{queue:04}-{n:06}").into()),
            local_queue: name(queue),
            priority: 0,
            created: Time(i64::try_from(n).expect("small") * 1_000_000),
            pod_sets: vec![PodSet {
                name: "main".into(),
                count: 1,
                min_count: None,
                reclaimable: 0,
                requests: requests.into(),
                tolerations: Vec::new(),
                affinity: Affinity::default(),
            }],
            stand: Stand::Waiting,
            evicted: None,
            on_hold: false,
            requeue_at: None,
            checks_failed: false,
            wrong: None,
            pods_ready: true,
        }
    }

    /// All that was decided is written.
    pub fn confirm(&self, engine: &mut Engine) {
        let open: Vec<Info> =
            engine.known().filter(|(_, open)| *open).map(|(info, _)| info.clone()).collect();
        for info in open {
            written(engine, info);
        }
    }

    /// One that runs ends.
    pub fn end(&self, engine: &mut Engine, n: usize) {
        let queue = (n * 7) % self.queues;
        engine.workload_gone(&key(queue, n / self.queues % HOLDERS));
    }

    /// One more comes, of a shape that waits already.
    pub fn arrive(&self, engine: &mut Engine, n: usize) {
        let queue = (n * 7) % self.queues;
        engine.workload(self.info(queue, self.each() + HOLDERS + n));
    }

    /// A queue gets room for one more.
    pub fn grow(&self, engine: &mut Engine, n: usize) {
        engine.cluster_queue(self.queue_spec((n * 7) % self.queues, Self::nominal() + 1000 + nth(n)));
    }

    /// And loses it again.
    pub fn shrink(&self, engine: &mut Engine, n: usize) {
        engine.cluster_queue(self.queue_spec((n * 7) % self.queues, Self::nominal() - nth(n)));
    }
}

/// No two specs are equal: what is known already changes nothing.
fn nth(n: usize) -> i64 {
    i64::try_from(n).expect("small")
}

/// What was decided about a Workload was written and seen.
fn written(engine: &mut Engine, mut info: Info) {
    let key = info.key.clone();
    if let Stand::Reserved(Reservation { admitted, .. }) = &mut info.stand {
        *admitted = true;
    }
    engine.workload(info);
    engine.settle(&key, Outcome::Written);
}

fn name(queue: usize) -> Text {
    format!("queue-{queue:04}").into()
}

fn key(queue: usize, n: usize) -> Key {
    Key { namespace: NAMESPACE.into(), name: format!("workload-{queue:04}-{n:06}").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_is_full_and_somebody_waits() {
        let scene = &Scene::all(true)[0];
        let mut engine = Engine::new(scene.settings());
        scene.feed_queues(&mut engine);
        let all = scene.feed_workloads(&mut engine);
        while engine.is_restless() {
            engine.cycle(Time(0));
        }
        let held = engine.known().filter(|(info, _)| info.reservation().is_some()).count();
        assert_eq!((held, all - held), (scene.queues * HOLDERS, scene.waiting));
    }
}
