//! Parses the words of a case: `queue a cohort=team cpu=10:5:2 within=lower`.

use std::collections::BTreeMap;

use muster_api::node::{Taint, TaintEffect};
use muster_api::selector::LabelSelector;
use muster_api::time::Time;
use muster_api::toleration::Toleration;
use muster_queue::engine::spec::{
    BorrowWithinCohortPolicy, ClusterQueueSpec, CohortSpec, EngineSettings, FairSharingStrategy,
    FlavorResourceQuota, FlavorSearchPolicy, FlavorSpec, FungibilityPreference, InactiveReason,
    QueueingPolicy, ReclaimWithinCohortPolicy, ResourceGroupSpec, WEIGHT_ONE, WithinClusterQueuePolicy,
};
use muster_queue::engine::workload::{
    Eviction, EvictionCause, FlavorNodeRequirements, NamespacedName, NodeSelectorOperator,
    NodeSelectorRequirement, PodSetResources, PodSetSpec, QuotaReservation, QuotaStatus, WorkloadInfo,
};
use muster_tree::{Text, tree};

pub const FLAVOR: &str = "std";
pub const NAMESPACE: &str = "ns";

pub fn seconds(text: &str) -> Time {
    Time(text.parse::<i64>().expect("seconds are a number") * 1_000_000)
}

pub fn number(text: &str) -> i64 {
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

/// Parses a quantity: cpu in cores or millicores.
pub fn amount(resource: &str, text: &str) -> i64 {
    let read = if resource == "cpu" { muster_api::quantity::milli } else { muster_api::quantity::whole };
    read(text).unwrap_or_else(|| panic!("{text:?} is no quantity"))
}

pub fn key(name: &str) -> NamespacedName {
    let (namespace, name) = name.split_once('/').unwrap_or((NAMESPACE, name));
    NamespacedName::new(namespace, name)
}

pub fn pair(word: &str) -> (&str, &str) {
    word.split_once('@').unwrap_or((word, FLAVOR))
}

/// The quota words: every `resource[@flavor]=value` that is not an option.
fn quotas<'a>(
    words: &[(&'a str, &'a str)],
    options: &[&str],
) -> Vec<(&'a str, &'a str, FlavorResourceQuota)> {
    let amounts = words.iter().filter(|(name, value)| !value.is_empty() && !options.contains(name));
    let quota = |(name, value): &(&'a str, &'a str)| {
        let (resource, flavor) = pair(name);
        let mut parts = value.split(':');
        let nominal = amount(resource, parts.next().expect("a nominal quota"));
        let mut limit = || parts.next().filter(|part| *part != "-").map(|part| amount(resource, part));
        (resource, flavor, FlavorResourceQuota { nominal, borrowing_limit: limit(), lending_limit: limit() })
    };
    amounts.map(quota).collect()
}

/// Resources that share a flavor form a resource group; flavors and groups keep their order.
pub fn groups(words: &[(&str, &str)], options: &[&str]) -> Vec<ResourceGroupSpec> {
    let mut groups: Vec<ResourceGroupSpec> = Vec::new();
    for (resource, flavor, quota) in quotas(words, options) {
        let has = |group: &ResourceGroupSpec| {
            group.covers(resource) || group.flavors.iter().any(|(name, _)| name == flavor)
        };
        let at = groups.iter().position(has).unwrap_or_else(|| {
            groups.push(ResourceGroupSpec::default());
            groups.len() - 1
        });
        let flavors = &mut groups[at].flavors;
        let place = flavors.iter().position(|(name, _)| name == flavor).unwrap_or_else(|| {
            flavors.push((flavor.into(), BTreeMap::new()));
            flavors.len() - 1
        });
        flavors[place].1.insert(resource.into(), quota);
    }
    groups
}

fn weight(text: &str) -> u64 {
    u64::try_from(muster_api::quantity::milli(text).expect("a weight")).expect("no debt")
        * (WEIGHT_ONE / 1000)
}

const QUEUE_OPTIONS: &[&str] = &[
    "cohort",
    "within",
    "reclaim",
    "borrow",
    "weight",
    "canborrow",
    "canpreempt",
    "prefer",
    "idle",
    "takes",
];

pub fn queue(name: &str, words: &[(&str, &str)]) -> ClusterQueueSpec {
    let mut spec = ClusterQueueSpec::named(name);
    spec.groups = groups(words, QUEUE_OPTIONS);
    spec.namespace_selector = LabelSelector::of(Some(&tree!({})));
    for &(word, value) in words {
        match word {
            "strict" => spec.strategy = QueueingPolicy::StrictFifo,
            "cohort" => spec.cohort = Some(value.into()),
            "within" => spec.preemption.within_cluster_queue = within(value),
            "reclaim" => spec.preemption.reclaim_within_cohort = reclaim(value),
            "borrow" => {
                let threshold = value.strip_prefix("lower:").map(number);
                spec.preemption.borrow_within_cohort =
                    Some(BorrowWithinCohortPolicy { max_priority_threshold: threshold });
            }
            "weight" => spec.weight = weight(value),
            "canborrow" => spec.fungibility.when_can_borrow = search(value),
            "canpreempt" => spec.fungibility.when_can_preempt = search(value),
            "prefer" => {
                assert_eq!(value, "preemption", "the other preference is the default");
                spec.fungibility.preference = FungibilityPreference::PreemptionOverBorrowing;
            }
            "idle" => spec.inactive = Some(idle(value)),
            "takes" => {
                let (label, want) = value.split_once(':').expect("takes=label:value");
                let map = tree!({}).with(&["matchLabels", label], want);
                spec.namespace_selector = LabelSelector::of(Some(&map).filter(|_| label != "-"));
            }
            _ => {}
        }
    }
    spec
}

fn within(word: &str) -> WithinClusterQueuePolicy {
    match word {
        "never" => WithinClusterQueuePolicy::Never,
        "lower" => WithinClusterQueuePolicy::LowerPriority,
        "newer" => WithinClusterQueuePolicy::LowerOrNewerEqualPriority,
        other => panic!("within={other}"),
    }
}

fn reclaim(word: &str) -> ReclaimWithinCohortPolicy {
    match word {
        "never" => ReclaimWithinCohortPolicy::Never,
        "lower" => ReclaimWithinCohortPolicy::LowerPriority,
        "any" => ReclaimWithinCohortPolicy::Any,
        other => panic!("reclaim={other}"),
    }
}

fn search(word: &str) -> FlavorSearchPolicy {
    match word {
        "stop" => FlavorSearchPolicy::MayStopSearch,
        "next" => FlavorSearchPolicy::TryNextFlavor,
        other => panic!("{other}: stop or next"),
    }
}

fn idle(word: &str) -> InactiveReason {
    match word {
        "stopped" => InactiveReason::Stopped,
        "terminating" => InactiveReason::Terminating,
        "checks" => InactiveReason::AdmissionChecks,
        other => panic!("idle={other}"),
    }
}

pub fn cohort(name: &str, words: &[(&str, &str)]) -> CohortSpec {
    let find = |word| words.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    CohortSpec {
        name: name.into(),
        parent: find("parent").map(Text::from),
        groups: groups(words, &["parent", "weight"]),
        weight: find("weight").map_or(WEIGHT_ONE, weight),
    }
}

pub fn flavor(name: &str, words: &[(&str, &str)]) -> FlavorSpec {
    let mut spec = FlavorSpec { name: name.into(), ..FlavorSpec::default() };
    for &(word, value) in words {
        match word.split_once(':') {
            Some(("label", label)) => {
                spec.labels.insert(label.into(), value.into());
            }
            Some(("taint", key)) => {
                let (value, effect) = value.split_once(':').expect("taint:key=value:effect");
                let effect = TaintEffect::of(effect).expect("an effect");
                spec.taints.push(Taint { key: key.into(), value: value.into(), effect });
            }
            _ if word == "tolerates" => spec.tolerations.push(toleration(value)),
            _ => panic!("flavor {name}: {word}"),
        }
    }
    spec
}

/// `key` tolerates any value, `key:value` only this one.
fn toleration(text: &str) -> Toleration {
    match text.split_once(':') {
        Some((key, value)) => Toleration::of(&tree!({"key": key, "operator": "Equal", "value": value})),
        None => Toleration::of(&tree!({"key": text, "operator": "Exists"})),
    }
}

pub fn settings(words: &[(&str, &str)]) -> EngineSettings {
    let mut settings = EngineSettings::default();
    let (last, first) =
        (FairSharingStrategy::LessThanOrEqualToFinalShare, FairSharingStrategy::LessThanInitialShare);
    for &(word, value) in words {
        match (word, value) {
            ("fair", "final") => settings.fair_sharing_strategies = Some(vec![last]),
            ("fair", "initial") => settings.fair_sharing_strategies = Some(vec![first]),
            ("fair", "") => settings.fair_sharing_strategies = Some(vec![last, first]),
            ("block", "") => settings.block_admission = true,
            ("heads", count) => settings.heads_per_cycle = count.parse().expect("a number of heads"),
            ("from", "creation") => {
                settings.requeuing_timestamp = muster_queue::engine::spec::RequeuingTimestamp::Creation;
            }
            other => panic!("settings {other:?}"),
        }
    }
    settings
}

const WORKLOAD_OPTIONS: &[&str] = &[
    "prio",
    "at",
    "since",
    "uid",
    "job",
    "x",
    "min",
    "done",
    "set",
    "until",
    "wrong",
    "tolerates",
    "select",
    "affinity",
    "evicted",
    "lq",
];

/// `wait w a cpu=2 x=3 min=1`: three pods of two cores each, at least one. Sets by themselves: `set=driver*1:cpu=1`.
pub fn workload(name: &str, queue: &str, words: &[(&str, &str)], seen: i64) -> WorkloadInfo {
    let key = key(name);
    let mut info = WorkloadInfo {
        uid: key.name.clone(),
        key,
        job_uid: None,
        local_queue: queue.into(),
        priority: 0,
        created: Time(seen * 1_000_000),
        pod_sets: Vec::new(),
        status: QuotaStatus::Pending,
        evicted: None,
        on_hold: false,
        requeue_at: None,
        checks_failed: false,
        invalid_resources: None,
        pods_ready: false,
    };
    let mut main = PodSetSpec { name: "main".into(), count: 1, ..PodSetSpec::default() };
    for &(word, value) in words {
        match word {
            "prio" => info.priority = number(value),
            "at" => info.created = seconds(value),
            "uid" => info.uid = value.into(),
            "job" => info.job_uid = Some(value.into()),
            "lq" => info.local_queue = value.into(),
            "x" => main.count = number(value),
            "min" => main.min_count = Some(number(value)),
            "done" => main.reclaimable = number(value),
            "set" => info.pod_sets.push(pod_set(value)),
            "hold" => info.on_hold = true,
            "until" => info.requeue_at = Some(seconds(value)),
            "failed-checks" => info.checks_failed = true,
            "wrong" => info.invalid_resources = Some(value.replace('-', " ")),
            "barred" => info.status = QuotaStatus::Blocked,
            "ready" => info.pods_ready = true,
            "evicted" => info.evicted = Some(eviction(value)),
            "tolerates" => main.tolerations.push(toleration(value)),
            "select" => {
                let (label, want) = value.split_once(':').expect("select=label:value");
                main.affinity.selector.insert(label.into(), want.into());
            }
            "affinity" => main.affinity = affinity(value),
            _ if WORKLOAD_OPTIONS.contains(&word) || value.is_empty() => {}
            _ => {
                let (resource, _) = pair(word);
                main.requests.insert(resource.into(), amount(resource, value));
            }
        }
    }
    if info.pod_sets.is_empty() {
        info.pod_sets.push(main);
    } else {
        for set in &mut info.pod_sets {
            set.tolerations.extend(main.tolerations.iter().cloned());
        }
    }
    info
}

/// `check@30`, `timeout@30` or `30`.
fn eviction(text: &str) -> Eviction {
    let (cause, at) = text.split_once('@').unwrap_or(("other", text));
    let cause = match cause {
        "check" => EvictionCause::AdmissionCheck,
        "timeout" => EvictionCause::PodsReadyTimeout,
        "other" => EvictionCause::Other,
        other => panic!("evicted={other}"),
    };
    Eviction { cause, at: seconds(at) }
}

/// `zone:In:a+b|disk:Exists`: terms by `|`, expressions of a term by `;`.
fn affinity(text: &str) -> FlavorNodeRequirements {
    let expression = |text: &str| {
        let mut parts = text.split(':');
        let key = parts.next().expect("a label");
        let operator = match parts.next().expect("an operator") {
            "In" => NodeSelectorOperator::In,
            "NotIn" => NodeSelectorOperator::NotIn,
            "Exists" => NodeSelectorOperator::Exists,
            "DoesNotExist" => NodeSelectorOperator::DoesNotExist,
            "Gt" => NodeSelectorOperator::Gt,
            "Lt" => NodeSelectorOperator::Lt,
            other => panic!("operator {other}"),
        };
        let values = parts.next().map(|all| all.split('+').map(Text::from).collect()).unwrap_or_default();
        NodeSelectorRequirement { key: key.into(), operator, values }
    };
    let terms = text.split('|').map(|term| term.split(';').map(expression).collect());
    FlavorNodeRequirements { terms: terms.collect(), ..FlavorNodeRequirements::default() }
}

/// `worker*4/2:cpu=2,gpu=1`: count 4, `minCount` 2.
fn pod_set(text: &str) -> PodSetSpec {
    let (head, requests) = text.split_once(':').unwrap_or((text, ""));
    let (name, count) = head.split_once('*').unwrap_or((head, "1"));
    let (count, least) = count.split_once('/').map_or((count, None), |(count, least)| (count, Some(least)));
    let request = |word: &str| {
        let (resource, value) = word.split_once('=').expect("resource=amount");
        (Text::from(resource), amount(resource, value))
    };
    PodSetSpec {
        name: name.into(),
        count: number(count),
        min_count: least.map(number),
        requests: requests.split(',').filter(|word| !word.is_empty()).map(request).collect(),
        ..PodSetSpec::default()
    }
}

/// The reservation of a `run` step: its requests, each in the flavor it names.
pub fn reservation(
    info: &WorkloadInfo,
    queue: &str,
    words: &[(&str, &str)],
    admitted: bool,
) -> QuotaReservation {
    let flavors: BTreeMap<Text, Text> = words
        .iter()
        .filter(|(word, value)| !value.is_empty() && !WORKLOAD_OPTIONS.contains(word))
        .map(|(word, _)| pair(word))
        .map(|(resource, flavor)| (resource.into(), flavor.into()))
        .collect();
    let set = |set: &PodSetSpec| PodSetResources {
        name: set.name.clone(),
        flavors: set
            .requests
            .keys()
            .map(|r| (r.clone(), flavors.get(r).cloned().unwrap_or(FLAVOR.into())))
            .collect(),
        usage: set.total_requests(set.count, false),
        count: set.count,
    };
    let since =
        words.iter().find(|(word, _)| *word == "since").map_or(info.created, |(_, value)| seconds(value));
    QuotaReservation {
        queue: queue.into(),
        pod_sets: info.pod_sets.iter().map(set).collect(),
        since,
        admitted,
    }
}
