//! Feeds the objects of a case to the engine and records its decisions as short lines.

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_queue::engine::Engine;
use muster_queue::engine::amount;
use muster_queue::engine::decision::{AdmitDecision, Decision, PendingStatus, PreemptionVictim};
use muster_queue::engine::explain::{FlavorExplanation, ResourceExplanation, WorkloadExplanation};
use muster_queue::engine::report::UsageByFlavor;
use muster_queue::engine::spec::{EngineSettings, FlavorSpec, LocalQueueSpec};
use muster_queue::engine::workload::{
    Eviction, EvictionCause, NamespacedName, QuotaReservation, QuotaStatus, WorkloadInfo,
};
use muster_tree::{Text, Tree};

use super::read;

/// Bound on the cycles until the engine is idle.
const CYCLES_MAX: usize = 64;

pub struct World {
    engine: Engine,
    now: Time,
    seen: i64,
    infos: BTreeMap<NamespacedName, WorkloadInfo>,
    flavors: Vec<Text>,
    told: BTreeMap<NamespacedName, PendingStatus>,
    victims: BTreeMap<NamespacedName, PreemptionVictim>,
    /// Write outcomes are reported by the case, not at once.
    slow: bool,
}

impl Default for World {
    fn default() -> World {
        World {
            engine: Engine::new(EngineSettings::default()),
            now: Time(1_000_000_000),
            seen: 0,
            infos: BTreeMap::new(),
            flavors: Vec::new(),
            told: BTreeMap::new(),
            victims: BTreeMap::new(),
            slow: false,
        }
    }
}

impl World {
    /// Runs one step; the error is the difference from the expected lines.
    pub fn step(&mut self, step: &Tree) -> Result<(), String> {
        if let Some(line) = step.as_str() {
            self.act(line);
        } else {
            for (question, want) in step.entries() {
                self.ask(question, want)?;
            }
        }
        let (now, anew) = (self.engine.recountable_state(), self.engine.rebuilt().recountable_state());
        if now == anew {
            Ok(())
        } else {
            Err(format!("after {step:?}:\nbooks {now:#?}\nmade anew {anew:#?}"))
        }
    }

    fn act(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let verb = words.next().expect("a step has a verb");
        let name = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        let pairs = |words: &[&str]| -> Vec<(String, String)> {
            let split = |word: &str| {
                let (name, value) = word.split_once('=').unwrap_or((word, ""));
                (name.to_owned(), value.to_owned())
            };
            words.iter().map(|word| split(word)).collect()
        };
        let owned = pairs(&rest);
        let options: Vec<(&str, &str)> =
            owned.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        match verb {
            "settings" => {
                let mut all = pairs(&[name]);
                all.extend(owned.iter().cloned());
                let all: Vec<(&str, &str)> = all.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                self.engine = Engine::new(read::settings(&all));
            }
            "slow" => self.slow = true,
            "now" => self.now = read::seconds(name),
            "queue" => self.queue(name, &options),
            "queue-gone" => self.engine.delete_cluster_queue(name),
            "cohort" => self.engine.apply_cohort(read::cohort(name, &options)),
            "cohort-gone" => self.engine.delete_cohort(name),
            "flavor" => {
                self.flavors.push(name.into());
                self.engine.apply_flavor(read::flavor(name, &options));
            }
            "flavor-gone" => self.engine.delete_flavor(name),
            "local" => self.local(name, &options),
            "local-gone" => {
                let key = read::key(name);
                self.engine.delete_local_queue(&key.namespace, &key.name);
            }
            "namespace" => {
                let labels = options.iter().map(|(key, value)| (Text::from(*key), Text::from(*value)));
                self.engine.apply_namespace(name, labels.collect());
            }
            "wait" | "run" => {
                let queue = rest.first().expect("a queue");
                self.workload(verb, name, queue, &options[1..]);
            }
            "gone" => {
                self.infos.remove(&read::key(name));
                self.engine.delete_workload(&read::key(name));
            }
            "change" => self.change(name, &options),
            "settle" => self.settle(name, rest.first().copied() == Some("failed")),
            "flush" => self.engine.requeue_all_inadmissible(),
            "cycle" => {
                self.cycle();
            }
            other => panic!("unknown step {other:?}"),
        }
    }

    /// A ClusterQueue, a LocalQueue of the same name, and missing flavors.
    fn queue(&mut self, name: &str, options: &[(&str, &str)]) {
        let spec = read::queue(name, options);
        for (flavor, _) in spec.groups.iter().flat_map(|group| &group.flavors) {
            if !self.flavors.contains(flavor) {
                self.flavors.push(flavor.clone());
                self.engine.apply_flavor(FlavorSpec { name: flavor.clone(), ..FlavorSpec::default() });
            }
        }
        self.engine.apply_cluster_queue(spec);
        self.local(name, &[("queue", name)]);
    }

    fn local(&mut self, name: &str, options: &[(&str, &str)]) {
        let key = read::key(name);
        let queue = options.iter().find(|(word, _)| *word == "queue").map_or(name, |(_, value)| value);
        self.engine.apply_local_queue(LocalQueueSpec {
            namespace: key.namespace,
            name: key.name,
            cluster_queue: queue.into(),
            stopped: options.iter().any(|(word, _)| *word == "stopped"),
        });
    }

    fn workload(&mut self, verb: &str, name: &str, queue: &str, options: &[(&str, &str)]) {
        self.seen += 1;
        let mut info = read::workload(name, queue, options, self.seen);
        if verb == "run" {
            let has = |word| options.iter().any(|(name, _)| *name == word);
            info.status =
                QuotaStatus::QuotaReserved(read::reservation(&info, queue, options, !has("reserved")));
            info.pods_ready = !has("unready");
        }
        self.feed(info);
    }

    fn feed(&mut self, info: WorkloadInfo) {
        self.infos.insert(info.key.clone(), info.clone());
        self.engine.apply_workload(info);
    }

    /// `change w evicted`, `change w released`, `change w finished`, `change w done=2`, `change w prio=3` …
    fn change(&mut self, name: &str, options: &[(&str, &str)]) {
        let mut info = self.infos[&read::key(name)].clone();
        for &(word, value) in options {
            match word {
                "evicted" => info.evicted = Some(Eviction { cause: EvictionCause::Other, at: self.now }),
                "released" => info.status = QuotaStatus::Pending,
                "finished" => info.status = QuotaStatus::Finished,
                "barred" => info.status = QuotaStatus::Blocked,
                "unbarred" => info.status = QuotaStatus::Pending,
                "ready" => info.pods_ready = true,
                "unready" => info.pods_ready = false,
                "hold" => info.on_hold = true,
                "requeued" => (info.on_hold, info.requeue_at) = (false, None),
                "until" => info.requeue_at = Some(read::seconds(value)),
                "prio" => info.priority = read::number(value),
                "done" => info.pod_sets[0].reclaimable = read::number(value),
                "job" => info.job_uid = Some(value.into()),
                "lq" => info.local_queue = value.into(),
                "fixed" => (info.invalid_resources, info.checks_failed) = (None, false),
                resource => {
                    let amount = read::amount(resource, value);
                    info.pod_sets[0].requests.insert(resource.into(), amount);
                }
            }
        }
        self.feed(info);
    }

    fn settle(&mut self, name: &str, failed: bool) {
        use muster_queue::engine::WriteOutcome;
        let key = read::key(name);
        self.engine
            .record_write_outcome(&key, if failed { WriteOutcome::Failed } else { WriteOutcome::Written });
    }

    fn cycle(&mut self) -> Vec<String> {
        let decisions = self.engine.run_cycle(self.now);
        decisions.iter().map(|decision| self.note(decision)).collect()
    }

    /// Records a decision and performs the write of an admission.
    fn note(&mut self, decision: &Decision) -> String {
        match decision {
            Decision::Admit(admission) => {
                self.told.remove(&admission.key);
                let line = self.admitted(admission);
                if !self.slow {
                    self.confirm(admission);
                }
                line
            }
            Decision::Requeue(refusal) => {
                self.told.insert(refusal.key.clone(), refusal.clone());
                format!("refuse {} {}", short(&refusal.key), refusal.reason.word())
            }
            Decision::Preempt { pending: refusal, victims } => {
                self.told.insert(refusal.key.clone(), refusal.clone());
                self.victims.extend(victims.iter().map(|it| (it.key.clone(), it.clone())));
                let names: Vec<String> =
                    victims.iter().map(|it| format!("{} {}", short(&it.key), it.reason.as_str())).collect();
                format!("preempt {} <- {}", short(&refusal.key), names.join(" & "))
            }
        }
    }

    fn admitted(&self, admission: &AdmitDecision) -> String {
        let mut line = format!("admit {}", short(&admission.key));
        let mut flavors: Vec<&str> = Vec::new();
        for set in &admission.sets {
            for flavor in set.flavors.values() {
                if !flavors.contains(&flavor.as_str()) {
                    flavors.push(flavor);
                }
            }
        }
        if !flavors.is_empty() {
            line += &format!(" on {}", flavors.join("+"));
        }
        let full = self.infos[&admission.key].pod_sets.iter().map(|set| set.count - set.reclaimable);
        if !full.eq(admission.sets.iter().map(|set| set.count)) {
            let counts: Vec<String> = admission.sets.iter().map(|set| set.count.to_string()).collect();
            line += &format!(" with {}", counts.join("+"));
        }
        if admission.borrowing_height > 0 {
            line += &format!(" borrowing {}", admission.borrowing_height);
        }
        line
    }

    fn confirm(&mut self, admission: &AdmitDecision) {
        let mut info = self.infos[&admission.key].clone();
        info.status = QuotaStatus::QuotaReserved(QuotaReservation {
            queue: admission.queue.clone(),
            pod_sets: admission.sets.clone(),
            since: self.now,
            admitted: true,
        });
        info.evicted = None;
        info.pods_ready = false;
        self.feed(info);
        self.engine.record_write_outcome(&admission.key, muster_queue::engine::WriteOutcome::Written);
    }

    fn ask(&mut self, question: &str, want: &Tree) -> Result<(), String> {
        let words: Vec<&str> = question.split_whitespace().collect();
        let got: Vec<String> = match words.as_slice() {
            ["cycle"] => self.cycle(),
            ["rest"] => self.rest()?,
            ["told", name] => vec![self.refusal(name)?.message.clone()],
            ["asks", name] => self.requests(name)?,
            ["victim", name] => vec![self.victim(name)?.message.clone()],
            ["event", name] => vec![self.victim(name)?.event_suffix.clone()],
            ["pending", queue] => {
                self.engine.pending_workloads(queue).iter().map(|it| short(&it.key)).collect()
            }
            ["positions", queue] => {
                let line = |it: &muster_queue::engine::report::PendingWorkload| {
                    let (all, local) = (it.position_in_cluster_queue, it.position_in_local_queue);
                    format!("{} {all} {local}", short(&it.key))
                };
                self.engine.pending_workloads(queue).iter().map(line).collect()
            }
            ["local", name] => {
                let key = read::key(name);
                self.engine
                    .pending_workloads_in_local_queue(&key.namespace, &key.name)
                    .iter()
                    .map(|it| short(&it.key))
                    .collect()
            }
            ["room", queue, of] => vec![self.room(queue, of)?],
            ["usage", queue] => {
                let usage = self.engine.cluster_queue_usage(queue).ok_or("no such queue")?;
                usage_lines(&usage.flavors_reservation)
            }
            ["admitted", queue] => {
                let usage = self.engine.cluster_queue_usage(queue).ok_or("no such queue")?;
                usage_lines(&usage.flavors_usage)
            }
            ["local-usage", name] => {
                let key = read::key(name);
                let usage =
                    self.engine.local_queue_usage(&key.namespace, &key.name).ok_or("no such local queue")?;
                usage_lines(&usage.flavors_reservation)
            }
            ["counts", queue] => {
                let it = self.engine.cluster_queue_usage(queue).ok_or("no such queue")?;
                vec![format!(
                    "{} pending {} reserving {} admitted",
                    it.pending, it.reserving, it.admitted_workloads
                )]
            }
            ["share", queue] => {
                vec![
                    self.engine.cluster_queue_usage(queue).ok_or("no such queue")?.weighted_share.to_string(),
                ]
            }
            ["cohort-share", cohort] => {
                vec![self.engine.cohort_weighted_share(cohort).ok_or("no such cohort")?.to_string()]
            }
            ["idle", queue] => {
                vec![self.engine.inactive_reason(queue).map_or("no".into(), |it| format!("{it:?}"))]
            }
            ["wakes"] => {
                vec![
                    self.engine.next_requeue_at().map_or("never".into(), |at| (at.0 / 1_000_000).to_string()),
                ]
            }
            ["nominations"] => vec![self.engine.stats().nominations.to_string()],
            ["try", name, queue, options @ ..] => self.try_out(name, queue, options)?,
            ["why", name] => {
                let why = self.engine.explain(&read::key(name));
                why.map_or(vec!["it does not wait".into()], |why| why_lines(&why))
            }
            _ => panic!("unknown question {question:?}"),
        };
        let want: Vec<String> =
            if want.is_list() { want.items().iter().map(word).collect() } else { vec![word(want)] };
        if got == want { Ok(()) } else { Err(format!("  {question}\n    want {want:#?}\n    got  {got:#?}")) }
    }

    /// Runs a dry run.
    fn try_out(&mut self, name: &str, queue: &str, options: &[&str]) -> Result<Vec<String>, String> {
        let options: Vec<(&str, &str)> =
            options.iter().map(|word| word.split_once('=').unwrap_or((word, ""))).collect();
        let info = read::workload(name, queue, &options, self.seen + 1);
        let trial = self.engine.dry_run(&info).map_err(|(_, words)| words)?;
        let mut lines = vec![format!("{:?}", trial.assignment.representative_mode())];
        lines.extend(
            trial.targets.iter().map(|it| format!("{} {}", short(&it.workload.key), it.reason.as_str())),
        );
        Ok(lines)
    }

    /// Runs cycles until nothing is left to decide.
    fn rest(&mut self) -> Result<Vec<String>, String> {
        let mut all = Vec::new();
        for _ in 0..CYCLES_MAX {
            all.extend(self.cycle());
            if !self.engine.has_work() {
                return Ok(all);
            }
        }
        Err(format!("no rest after {CYCLES_MAX} cycles: {all:#?}"))
    }

    fn refusal(&self, name: &str) -> Result<&PendingStatus, String> {
        self.told.get(&read::key(name)).ok_or(format!("{name} was told nothing"))
    }

    fn victim(&self, name: &str) -> Result<&PreemptionVictim, String> {
        self.victims.get(&read::key(name)).ok_or(format!("{name} was never named"))
    }

    fn requests(&self, name: &str) -> Result<Vec<String>, String> {
        let set = |(set, amounts): &(Text, BTreeMap<Text, i64>)| {
            let list = amounts
                .iter()
                .map(|(name, &value)| format!("{name} {}", amount::quantity_string(name, value)));
            format!("{set}: {}", list.collect::<Vec<_>>().join(" "))
        };
        Ok(self.refusal(name)?.requests.iter().map(set).collect())
    }

    fn room(&mut self, queue: &str, of: &str) -> Result<String, String> {
        let (resource, flavor) = read::pair(of);
        let room = self.engine.availability(queue, flavor, resource).ok_or("no such room")?;
        let text = |value| amount::quantity_string(resource, value);
        Ok(format!("{} of {} used {}", text(room.available), text(room.maximum), text(room.used)))
    }
}

fn short(key: &NamespacedName) -> String {
    if key.namespace == read::NAMESPACE {
        key.name.to_string()
    } else {
        format!("{}/{}", key.namespace, key.name)
    }
}

fn word(tree: &Tree) -> String {
    match tree {
        Tree::Text(text) => text.to_string(),
        Tree::Int(number) => number.to_string(),
        Tree::Bool(value) => value.to_string(),
        other => panic!("{other:?} is no word"),
    }
}

fn usage_lines(usage: &UsageByFlavor) -> Vec<String> {
    let mut lines = Vec::new();
    for (flavor, resources) in usage {
        for it in resources {
            let text = |value| amount::quantity_string(&it.resource, value);
            lines.push(format!("{}@{flavor} {} borrowed {}", it.resource, text(it.total), text(it.borrowed)));
        }
    }
    lines
}

fn why_lines(why: &WorkloadExplanation) -> Vec<String> {
    let place = |at: Option<usize>| at.map_or("-".into(), |at| at.to_string());
    let (all, local) = (place(why.position_in_cluster_queue), place(why.position_in_local_queue));
    let mut lines = vec![format!("{} at {all} locally {local}", why.reason.word())];
    for set in &why.sets {
        for flavor in &set.flavors {
            lines.extend(flavor_lines(&set.name, flavor));
        }
    }
    lines.extend(why.barriers.iter().map(|barrier| format!("{barrier:?}")));
    lines
}

fn flavor_lines(set: &str, why: &FlavorExplanation) -> Vec<String> {
    if let Some(text) = &why.unsuitable {
        return vec![format!("{set} {}: {text}", why.flavor)];
    }
    why.resources.iter().map(|it| format!("{set} {}: {}", why.flavor, resource_line(it))).collect()
}

fn resource_line(it: &ResourceExplanation) -> String {
    let text = |value| amount::quantity_string(&it.trace.resource, value);
    let look = &it.trace;
    let mut line = format!(
        "{} asks {} has {} of {}",
        look.resource,
        text(look.requested),
        text(look.available),
        text(look.maximum)
    );
    if look.shortfall > 0 {
        line += &format!(" lacks {}", text(look.shortfall));
    }
    let holders = it.consumers.iter().map(|it| format!("{} {}", short(&it.key), text(it.amount)));
    let holders: Vec<String> = holders.collect();
    if !holders.is_empty() {
        line += &format!(" held by {}", holders.join(" & "));
    }
    if it.more_consumers > 0 {
        line += &format!(" and {} more", it.more_consumers);
    }
    line
}
