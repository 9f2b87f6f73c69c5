//! Properties of the engine under random updates.

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_queue::engine::decision::{AdmitDecision, Decision};
use muster_queue::engine::spec::{EngineSettings, FairSharingStrategy, LocalQueueSpec};
use muster_queue::engine::workload::{NamespacedName, QuotaReservation, QuotaStatus, WorkloadInfo};
use muster_queue::engine::{Engine, WriteOutcome};
use proptest::collection::vec;
use proptest::prelude::*;

use super::read;

const QUEUES: [&str; 4] = ["a", "b", "c", "d"];
/// Bound on the cycles until the engine is idle.
const CYCLES_MAX: usize = 400;

/// The initial ClusterQueues, Cohorts and settings.
#[derive(Debug, Clone)]
struct Plan {
    queues: Vec<String>,
    cohorts: Vec<String>,
    fair: bool,
    heads: usize,
}

#[derive(Debug, Clone)]
enum Op {
    Arrive { queue: usize, cpu: i64, prio: i64 },
    Cycle { fails: bool },
    Finish(usize),
    LetGo(usize),
    Reprioritize(usize, i64),
    Grow { queue: usize, more: i64 },
}

fn limits() -> impl Strategy<Value = String> {
    (1_i64..8, prop::option::of(0_i64..4), prop::option::of(0_i64..8)).prop_map(|(nominal, borrow, lend)| {
        let text = |limit: Option<i64>| limit.map_or("-".into(), |limit| limit.to_string());
        format!("cpu={nominal}:{}:{}", text(borrow), text(lend.map(|lend| lend.min(nominal))))
    })
}

fn queue(preempts: bool) -> impl Strategy<Value = String> {
    let within = prop::sample::select(if preempts { vec!["never", "lower", "newer"] } else { vec!["never"] });
    let reclaim = prop::sample::select(if preempts { vec!["never", "lower", "any"] } else { vec!["never"] });
    let parent = prop::sample::select(vec!["left", "right", "top", ""]);
    let strict = prop::sample::select(vec!["", "strict"]);
    (limits(), parent, within, reclaim, strict, any::<bool>()).prop_map(
        |(limits, parent, within, reclaim, strict, borrow)| {
            let cohort = if parent.is_empty() { String::new() } else { format!("cohort={parent}") };
            let limits = if parent.is_empty() {
                limits.split(':').next().unwrap_or_default().to_owned()
            } else {
                limits
            };
            let borrow = if borrow && reclaim != "never" { "borrow=lower" } else { "" };
            format!("{limits} {cohort} within={within} reclaim={reclaim} {borrow} {strict}")
        },
    )
}

fn plan(preempts: bool) -> impl Strategy<Value = Plan> {
    (vec(queue(preempts), QUEUES.len()), any::<bool>(), 1_usize..3).prop_map(|(queues, fair, heads)| Plan {
        queues,
        cohorts: vec!["left parent=top".into(), "right parent=top cpu=1".into(), "top".into()],
        fair,
        heads,
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..QUEUES.len(), 0_i64..6, 0_i64..4).prop_map(|(queue, cpu, prio)| Op::Arrive { queue, cpu, prio }),
        4 => prop::bool::weighted(0.2).prop_map(|fails| Op::Cycle { fails }),
        2 => any::<usize>().prop_map(Op::Finish),
        1 => any::<usize>().prop_map(Op::LetGo),
        1 => (any::<usize>(), 0_i64..4).prop_map(|(who, prio)| Op::Reprioritize(who, prio)),
        1 => (0..QUEUES.len(), 1_i64..4).prop_map(|(queue, more)| Op::Grow { queue, more }),
    ]
}

/// The engine and the state of its caller.
struct Site {
    engine: Engine,
    plan: Plan,
    infos: BTreeMap<NamespacedName, WorkloadInfo>,
    born: i64,
    admitted: usize,
}

impl Site {
    fn new(plan: &Plan) -> Site {
        let rules =
            vec![FairSharingStrategy::LessThanOrEqualToFinalShare, FairSharingStrategy::LessThanInitialShare];
        let fair_sharing = plan.fair.then_some(rules);
        let settings = EngineSettings {
            heads_per_cycle: plan.heads,
            fair_sharing_strategies: fair_sharing,
            ..EngineSettings::default()
        };
        let (infos, plan) = (BTreeMap::new(), plan.clone());
        let mut site = Site { engine: Engine::new(settings), plan, infos, born: 0, admitted: 0 };
        site.engine.apply_flavor(read::flavor(read::FLAVOR, &[]));
        for cohort in site.plan.cohorts.clone() {
            let (name, words) = words(&cohort);
            site.engine.apply_cohort(read::cohort(name, &words));
        }
        for index in 0..QUEUES.len() {
            site.feed_queue(index);
        }
        site
    }

    fn feed_queue(&mut self, index: usize) {
        let line = format!("{} {}", QUEUES[index], self.plan.queues[index]);
        let (name, words) = words(&line);
        self.engine.apply_cluster_queue(read::queue(name, &words));
        self.engine.apply_local_queue(LocalQueueSpec {
            namespace: read::NAMESPACE.into(),
            name: name.into(),
            cluster_queue: name.into(),
            stopped: false,
        });
    }

    fn arrive(&mut self, queue: usize, cpu: i64, prio: i64) -> NamespacedName {
        self.born += 1;
        let (cpu, prio) = (cpu.to_string(), prio.to_string());
        let name = format!("w{:03}", self.born);
        let info = read::workload(&name, QUEUES[queue], &[("cpu", &cpu), ("prio", &prio)], self.born);
        let key = info.key.clone();
        self.feed(info);
        key
    }

    fn feed(&mut self, info: WorkloadInfo) {
        self.infos.insert(info.key.clone(), info.clone());
        self.engine.apply_workload(info);
    }

    fn cycle(&mut self, fails: bool) -> Vec<Decision> {
        let decisions = self.engine.run_cycle(Time(self.born * 1_000_000));
        for decision in &decisions {
            match decision {
                Decision::Admit(admission) if fails => {
                    self.engine.record_write_outcome(&admission.key, WriteOutcome::Failed);
                }
                Decision::Admit(admission) => self.confirm(admission),
                Decision::Preempt { victims, .. } => {
                    let keys: Vec<NamespacedName> = victims.iter().map(|victim| victim.key.clone()).collect();
                    keys.iter().for_each(|key| self.let_go(key));
                }
                Decision::Requeue(_) => {}
            }
        }
        decisions
    }

    fn confirm(&mut self, admission: &AdmitDecision) {
        self.admitted += 1;
        let Some(mut info) = self.infos.get(&admission.key).cloned() else { return };
        info.status = QuotaStatus::QuotaReserved(QuotaReservation {
            queue: admission.queue.clone(),
            pod_sets: admission.sets.clone(),
            since: Time(self.born * 1_000_000),
            admitted: true,
        });
        self.feed(info);
        self.engine.record_write_outcome(&admission.key, WriteOutcome::Written);
    }

    fn let_go(&mut self, key: &NamespacedName) {
        if let Some(mut info) = self.infos.get(key).filter(|info| info.reservation().is_some()).cloned() {
            info.status = QuotaStatus::Pending;
            self.feed(info);
        }
    }

    fn finish(&mut self, key: &NamespacedName) {
        self.infos.remove(key);
        self.engine.delete_workload(key);
    }

    fn nth(&self, index: usize, holds: bool) -> Option<NamespacedName> {
        let found = self.infos.values().filter(|info| info.reservation().is_some() == holds);
        let keys: Vec<NamespacedName> = found.map(|info| info.key.clone()).collect();
        (!keys.is_empty()).then(|| keys[index % keys.len()].clone())
    }

    fn act(&mut self, op: &Op) {
        match *op {
            Op::Arrive { queue, cpu, prio } => {
                self.arrive(queue, cpu, prio);
            }
            Op::Cycle { fails } => {
                self.cycle(fails);
            }
            Op::Finish(index) => {
                if let Some(key) = self.nth(index, true) {
                    self.finish(&key);
                }
            }
            Op::LetGo(index) => {
                if let Some(key) = self.nth(index, true) {
                    self.let_go(&key);
                }
            }
            Op::Reprioritize(index, prio) => {
                if let Some(key) = self.nth(index, index % 2 == 0) {
                    let mut info = self.infos[&key].clone();
                    info.priority = prio;
                    self.feed(info);
                }
            }
            Op::Grow { queue, more } => {
                let text = &self.plan.queues[queue];
                let at = text.find([':', ' ']).expect("quota ends somewhere");
                let nominal: i64 = text[4..at].parse().expect("a quota");
                self.plan.queues[queue] = format!("cpu={}{}", nominal + more, &text[at..]);
                self.feed_queue(queue);
            }
        }
    }

    /// Runs cycles until nothing is left to decide. Victims release their quota at once, and writes succeed.
    fn rest(&mut self) -> Result<Vec<Decision>, TestCaseError> {
        let mut all = Vec::new();
        for _ in 0..CYCLES_MAX {
            all.extend(self.cycle(false));
            if !self.engine.has_work() {
                return Ok(all);
            }
        }
        Err(TestCaseError::fail("cycles come to rest"))
    }

    /// Usage is within quota and never negative, and equals the sum of the reservations.
    fn check_quota(&mut self) -> Result<(), TestCaseError> {
        for queue in QUEUES {
            let held: i64 = self
                .infos
                .values()
                .filter(|info| info.reservation().is_some_and(|r| r.queue == *queue))
                .flat_map(|info| info.flavor_resource_usage().into_values())
                .sum();
            let room = self.engine.availability(queue, read::FLAVOR, "cpu").expect("a queue has room");
            prop_assert_eq!(room.used, held, "usage of {} is what is held", queue);
            prop_assert!(room.used <= room.maximum.max(0), "{} uses {:?}", queue, room);
            prop_assert!(room.available >= 0, "{} has {:?}", queue, room);
        }
        Ok(())
    }

    fn check_books(&mut self) -> Result<(), TestCaseError> {
        let anew = self.engine.rebuilt().recountable_state();
        prop_assert_eq!(self.engine.recountable_state(), anew);
        Ok(())
    }
}

fn words(line: &str) -> (&str, Vec<(&str, &str)>) {
    let mut all = line.split_whitespace();
    let name = all.next().expect("a name");
    (name, all.map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Quota only grows, so usage never exceeds it, whatever is admitted, preempted, deleted or updated.
    #[test]
    fn quota_is_never_exceeded_and_state_equals_recount(plan in plan(true), ops in vec(op(), 1..60)) {
        let mut site = Site::new(&plan);
        for op in &ops {
            site.act(op);
            site.check_quota()?;
            site.check_books()?;
        }
    }

    /// A cycle without preceding updates decides nothing and processes nothing.
    #[test]
    fn idle_engine_does_nothing(plan in plan(false), ops in vec(op(), 1..40)) {
        let mut site = Site::new(&plan);
        for op in &ops {
            site.act(op);
        }
        site.rest()?;
        let before = site.engine.stats();
        prop_assert!(site.engine.run_cycle(Time(0)).is_empty());
        prop_assert_eq!(site.engine.stats(), before);
    }

    /// What an idle engine keeps pending, a new engine fed the same objects keeps pending too: no admissible
    /// Workload is stuck.
    #[test]
    fn no_admissible_workload_is_stuck(plan in plan(false), ops in vec(op(), 1..40)) {
        let mut site = Site::new(&plan);
        for op in &ops {
            site.act(op);
        }
        site.rest()?;
        let mut twin = site.engine.rebuilt();
        for _ in 0..CYCLES_MAX {
            for decision in twin.run_cycle(Time(site.born * 1_000_000)) {
                prop_assert!(!matches!(decision, Decision::Admit(_)), "asleep: {decision:?}");
            }
            if !twin.has_work() {
                break;
            }
        }
    }

    /// When no more Workloads arrive and running ones finish, every Workload that fits a StrictFIFO queue has run.
    #[test]
    fn strict_fifo_never_starves(plan in plan(false), loads in vec((0..QUEUES.len(), 0_i64..6, 0_i64..4), 1..30)) {
        let mut plan = plan;
        for queue in &mut plan.queues {
            *queue = format!("{} strict", queue.replace(" strict", ""));
        }
        let mut site = Site::new(&plan);
        for &(queue, cpu, prio) in &loads {
            let most = site.engine.availability(QUEUES[queue], read::FLAVOR, "cpu").expect("a queue has room").maximum;
            site.arrive(queue, cpu.min(most / 1000), prio);
        }
        for _ in 0..=loads.len() {
            site.rest()?;
            while let Some(key) = site.nth(0, true) {
                site.finish(&key);
            }
        }
        prop_assert_eq!(site.admitted, loads.len());
        prop_assert!(site.infos.is_empty());
    }

    /// Preemption is effective and minimal: once the victims are gone their preemptor alone is admitted, and with
    /// any one of them spared it is not, unless it borrows.
    #[test]
    fn preemption_is_effective_and_minimal(
        plan in plan(true),
        loads in vec((0..QUEUES.len(), 1_i64..5, 0_i64..4), 1..16),
        last in (0..QUEUES.len(), 1_i64..6, 0_i64..6),
    ) {
        let mut site = Site::new(&plan);
        for &(queue, cpu, prio) in &loads {
            let key = site.arrive(queue, cpu, prio);
            site.engine.run_cycle(Time(0)).iter().for_each(|decision| if let Decision::Admit(it) = decision {
                site.confirm(it);
            });
            if site.infos[&key].reservation().is_none() {
                site.finish(&key);
            }
        }
        let (queue, cpu, prio) = last;
        let preemptor = site.arrive(queue, cpu, prio);
        let decisions = site.engine.run_cycle(Time(1));
        let Some(Decision::Preempt { victims, .. }) = decisions.first() else { return Ok(()) };
        for spared in victims {
            let mut other = site.engine.clone();
            victims.iter().filter(|it| it.key != spared.key).for_each(|it| other.delete_workload(&it.key));
            let admitted = other.run_cycle(Time(2)).iter().any(|it| matches!(it, Decision::Admit(it) if it.borrowing_height == 0));
            prop_assert!(!admitted, "{:?} went in vain", spared.key);
        }
        victims.iter().for_each(|it| site.engine.delete_workload(&it.key));
        let after = site.engine.run_cycle(Time(3));
        prop_assert!(matches!(after.first(), Some(Decision::Admit(it)) if it.key == preemptor), "{after:?}");
    }
}
