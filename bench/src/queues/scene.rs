//! Full ClusterQueues in cohorts, with many pending Workloads.

use std::collections::BTreeMap;

use muster_api::selector::LabelSelector;
use muster_api::time::Time;
use muster_queue::engine::spec::{
    ClusterQueueSpec, CohortSpec, EngineSettings, FlavorResourceQuota, FlavorSpec, LocalQueueSpec,
    ResourceGroupSpec, WEIGHT_ONE,
};
use muster_queue::engine::workload::{
    FlavorNodeRequirements, NamespacedName, PodSetSpec, QuotaReservation, QuotaStatus, WorkloadInfo,
};
use muster_queue::engine::{Engine, WriteOutcome};
use muster_tree::{Text, tree};

/// Queues of one cohort.
const QUEUES_PER_COHORT: usize = 10;
/// The admitted Workloads that fill each ClusterQueue at first.
const HOLDERS: usize = 10;
/// The namespace of all Workloads.
const NAMESPACE: &str = "team";
const FLAVORS: [&str; 2] = ["spot", "reserved"];

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

    pub fn settings(&self) -> EngineSettings {
        EngineSettings::default()
    }

    /// How many wait in a queue.
    fn each(&self) -> usize {
        self.waiting / self.queues
    }

    fn queue_spec(&self, queue: usize, nominal: i64) -> ClusterQueueSpec {
        let quota = |nominal| FlavorResourceQuota { nominal, borrowing_limit: None, lending_limit: None };
        let flavor = |name: &str| {
            let quotas =
                [("cpu", quota(nominal)), ("memory", quota(nominal << 20))].map(|(k, v)| (Text::from(k), v));
            (Text::from(name), BTreeMap::from(quotas))
        };
        ClusterQueueSpec {
            cohort: Some(format!("cohort-{}", queue / QUEUES_PER_COHORT).into()),
            groups: vec![ResourceGroupSpec { flavors: FLAVORS.map(flavor).into() }],
            namespace_selector: LabelSelector::of(Some(&tree!({}))),
            ..ClusterQueueSpec::named(&name(queue))
        }
    }

    /// The initial nominal quota: exactly the usage of the admitted Workloads.
    fn nominal() -> i64 {
        i64::try_from(HOLDERS / FLAVORS.len()).expect("small") * 1000
    }

    pub fn feed_queues(&self, engine: &mut Engine) {
        for name in FLAVORS {
            engine.apply_flavor(FlavorSpec {
                name: name.into(),
                labels: BTreeMap::new(),
                taints: Vec::new(),
                tolerations: Vec::new(),
            });
        }
        engine.apply_namespace(NAMESPACE, Vec::new());
        for cohort in 0..self.queues / QUEUES_PER_COHORT {
            let parent = Some(format!("tree-{}", cohort / 5).into());
            let name = format!("cohort-{cohort}").into();
            engine.apply_cohort(CohortSpec { name, parent, groups: Vec::new(), weight: WEIGHT_ONE });
        }
        for queue in 0..self.queues {
            engine.apply_cluster_queue(self.queue_spec(queue, Self::nominal()));
            let (namespace, queue) = (NAMESPACE.into(), name(queue));
            engine.apply_local_queue(LocalQueueSpec {
                namespace,
                name: queue.clone(),
                cluster_queue: queue,
                stopped: false,
            });
        }
    }

    /// Adds all Workloads; returns their number.
    pub fn feed_workloads(&self, engine: &mut Engine) -> usize {
        for queue in 0..self.queues {
            for n in 0..self.each() + HOLDERS {
                engine.apply_workload(self.info(queue, n));
            }
        }
        self.queues * (self.each() + HOLDERS)
    }

    /// The n-th Workload of a queue. The first ones are those that fit at once.
    fn info(&self, queue: usize, n: usize) -> WorkloadInfo {
        let shape = i64::try_from(n.saturating_sub(HOLDERS) % self.shapes).expect("small");
        let requests = [("cpu", 1000), ("memory", (500 << 20) + shape)].map(|(k, v)| (Text::from(k), v));
        WorkloadInfo {
            key: key(queue, n),
            uid: format!("uid-{queue:04}-{n:06}").into(),
            job_uid: Some(format!("job-{queue:04}-{n:06}").into()),
            local_queue: name(queue),
            priority: 0,
            created: Time(i64::try_from(n).expect("small") * 1_000_000),
            pod_sets: vec![PodSetSpec {
                name: "main".into(),
                count: 1,
                min_count: None,
                reclaimable: 0,
                requests: requests.into(),
                tolerations: Vec::new(),
                affinity: FlavorNodeRequirements::default(),
            }],
            status: QuotaStatus::Pending,
            evicted: None,
            on_hold: false,
            requeue_at: None,
            checks_failed: false,
            invalid_resources: None,
            pods_ready: true,
        }
    }

    /// All that was decided is written.
    pub fn confirm(&self, engine: &mut Engine) {
        let open: Vec<WorkloadInfo> =
            engine.workload_infos().filter(|(_, open)| *open).map(|(info, _)| info.clone()).collect();
        for info in open {
            written(engine, info);
        }
    }

    /// One that runs ends.
    pub fn end(&self, engine: &mut Engine, n: usize) {
        let queue = (n * 7) % self.queues;
        engine.delete_workload(&key(queue, n / self.queues % HOLDERS));
    }

    /// One more comes, of a shape that waits already.
    pub fn arrive(&self, engine: &mut Engine, n: usize) {
        let queue = (n * 7) % self.queues;
        engine.apply_workload(self.info(queue, self.each() + HOLDERS + n));
    }

    /// A queue gets room for one more.
    pub fn grow(&self, engine: &mut Engine, n: usize) {
        engine.apply_cluster_queue(self.queue_spec((n * 7) % self.queues, Self::nominal() + 1000 + nth(n)));
    }

    /// And loses it again.
    pub fn shrink(&self, engine: &mut Engine, n: usize) {
        engine.apply_cluster_queue(self.queue_spec((n * 7) % self.queues, Self::nominal() - nth(n)));
    }
}

/// No two specs are equal: what is known already changes nothing.
fn nth(n: usize) -> i64 {
    i64::try_from(n).expect("small")
}

/// What was decided about a Workload was written and seen.
fn written(engine: &mut Engine, mut info: WorkloadInfo) {
    let key = info.key.clone();
    if let QuotaStatus::QuotaReserved(QuotaReservation { admitted, .. }) = &mut info.status {
        *admitted = true;
    }
    engine.apply_workload(info);
    engine.record_write_outcome(&key, WriteOutcome::Written);
}

fn name(queue: usize) -> Text {
    format!("queue-{queue:04}").into()
}

fn key(queue: usize, n: usize) -> NamespacedName {
    NamespacedName { namespace: NAMESPACE.into(), name: format!("workload-{queue:04}-{n:06}").into() }
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
        while engine.has_work() {
            engine.run_cycle(Time(0));
        }
        let held = engine.workload_infos().filter(|(info, _)| info.reservation().is_some()).count();
        assert_eq!((held, all - held), (scene.queues * HOLDERS, scene.waiting));
    }
}
