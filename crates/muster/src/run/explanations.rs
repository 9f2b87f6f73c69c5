//! Explains pending work while a run follows it, and detects work that can never run on the nodes of the cluster.
//!
//! # Guarantees
//!
//! - Explanations are requested on another thread: a slow reply delays neither logs nor the end of the run.
//! - [`never`] is pure. It reports work as impossible only if its requests exceed the capacity of every node, of all
//!   nodes together, or of a quota: no pod that terminates can change that.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::Uid;
use muster_api::kinds::NODES;
use muster_api::meta;
use muster_api::node::amount;
use muster_api::pod_requests;
use muster_api::queue::amount_text;
use muster_cluster::KubeApi;
use muster_tree::{Text, Tree};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::run::snapshot::{RunSnapshot, Work, WorkKind};
use crate::why::{self, ExplainTarget, ExplainableKind, WhyReport};

/// Work is explained once it has been pending for this long.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
/// The pause between two rounds of explanations.
const EXPLAIN_PAUSE: Duration = Duration::from_secs(2);
/// The upper bound of pieces of work in one round.
const WORKS_MAX: usize = 4;

/// Whether nodes can be added during the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeSupply {
    /// The nodes of the embedded control plane of this run: fixed.
    Fixed,
    /// The nodes of a cluster, to which an autoscaler may add more.
    MayGrow,
}

/// The explanation of one pending piece of work.
struct WorkExplanation {
    work: Uid,
    lines: Vec<String>,
    never: Option<String>,
}

/// The pending work, since when it is pending, and its last explanation.
pub struct PendingExplanations {
    api: KubeApi,
    nodes: NodeSupply,
    since: BTreeMap<Uid, Instant>,
    asked_at: Option<Instant>,
    /// Explanations in flight.
    open: usize,
    answers:
        (mpsc::UnboundedSender<Option<WorkExplanation>>, mpsc::UnboundedReceiver<Option<WorkExplanation>>),
    /// The last printed explanation of each piece of work, without durations: those change on every round.
    told: BTreeMap<Uid, Vec<String>>,
}

impl PendingExplanations {
    #[must_use]
    pub fn new(api: &KubeApi, nodes: NodeSupply) -> PendingExplanations {
        PendingExplanations {
            api: api.clone(),
            nodes,
            since: BTreeMap::new(),
            asked_at: None,
            open: 0,
            answers: mpsc::unbounded_channel(),
            told: BTreeMap::new(),
        }
    }

    /// Processes replies and starts the next round when it is due. Returns the lines that have changed.
    pub fn poll(&mut self, picture: &mut RunSnapshot) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(answer) = self.answers.1.try_recv() {
            self.open -= 1;
            let Some(WorkExplanation { work, lines: new, never }) = answer else { continue };
            // The work may have started since the request.
            if !picture.waiting().any(|it| it.uid == work) {
                continue;
            }
            picture.set_impossible(&work, never);
            let timeless: Vec<String> = new.iter().map(|line| without_times(line)).collect();
            if self.told.get(&work) != Some(&timeless) {
                self.told.insert(work, timeless);
                lines.extend(new);
            }
        }
        self.ask(picture);
        lines
    }

    fn ask(&mut self, picture: &RunSnapshot) {
        let now = Instant::now();
        let waiting: Vec<Work> = picture.waiting().cloned().collect();
        self.since.retain(|uid, _| waiting.iter().any(|work| work.uid == *uid));
        for work in &waiting {
            self.since.entry(work.uid.clone()).or_insert(now);
        }
        if self.open > 0 || self.asked_at.is_some_and(|at| now - at < EXPLAIN_PAUSE) {
            return;
        }
        let long = |work: &&Work| self.since.get(&work.uid).is_some_and(|at| now - *at >= EXPLAIN_AFTER);
        let asked: Vec<Work> = waiting.iter().filter(long).take(WORKS_MAX).cloned().collect();
        if asked.is_empty() {
            return;
        }
        (self.asked_at, self.open) = (Some(now), asked.len());
        for work in asked {
            let (api, nodes, to) = (self.api.clone(), self.nodes, self.answers.0.clone());
            let runtime = tokio::runtime::Handle::current();
            // A blocking thread, because the future of a request is not `Send`.
            tokio::task::spawn_blocking(move || {
                // The receiver is dropped at the end of the run.
                let _ = to.send(runtime.block_on(explain(&api, &work, nodes)));
            });
        }
    }
}

async fn explain(api: &KubeApi, work: &Work, nodes: NodeSupply) -> Option<WorkExplanation> {
    let what = match work.kind {
        WorkKind::Job => ExplainableKind::Job,
        WorkKind::Pod => ExplainableKind::Pod,
        WorkKind::JobSet => ExplainableKind::JobSet,
        WorkKind::TrainJob => ExplainableKind::TrainJob,
    };
    let asked = ExplainTarget { what, name: work.name.clone() };
    let found = why::collect(api, &asked, &work.namespace).await.ok()?;
    let all = match nodes {
        NodeSupply::Fixed => api.list_by_labels(&NODES, "", &[]).await.unwrap_or_default(),
        NodeSupply::MayGrow => Vec::new(),
    };
    let all: Vec<Tree> = all.into_iter().map(|it| it.tree).collect();
    let never = impossible_reason(&found, &all).filter(|_| nodes == NodeSupply::Fixed);
    Some(WorkExplanation { work: work.uid.clone(), lines: found.status_lines(), never })
}

/// A line without durations, to compare explanations.
fn without_times(line: &str) -> String {
    let is_span = |word: &&str| {
        word.strip_suffix('s')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()))
    };
    line.split(' ').filter(|word| !is_span(word)).collect::<Vec<_>>().join(" ")
}

/// Why work can never run, if that is certain.
fn impossible_reason(found: &WhyReport, nodes: &[Tree]) -> Option<String> {
    exceeds_quota(found).or_else(|| exceeds_nodes(found, nodes))
}

/// A pod set that exceeds the nominal quota of every flavor, even if nothing else used it.
fn exceeds_quota(found: &WhyReport) -> Option<String> {
    let sets = found.explanation.as_ref()?.items_at(&["podSets"]);
    let too_big = |set: &&Tree| {
        let flavors = set.items_at(&["flavors"]);
        !flavors.is_empty() && flavors.iter().all(|it| it.str_at(&["verdict"]) == "TooBig")
    };
    let set = sets.iter().find(too_big)?;
    let flavor = set.items_at(&["flavors"]).first()?;
    let is_more = |it: &&Tree| {
        let name = it.str_at(&["name"]);
        let number = |key: &str| it.at(&[key]).and_then(|value| amount(name, value));
        number("requested") > number("maximum")
    };
    let resource = flavor.items_at(&["resources"]).iter().find(is_more)?;
    Some(format!(
        "it can never be admitted: pod set {} asks for {} of {}, and quota of flavor {} is at most {}",
        set.str_at(&["name"]),
        resource.str_at(&["requested"]),
        resource.str_at(&["name"]),
        flavor.str_at(&["name"]),
        resource.str_at(&["maximum"])
    ))
}

/// A pod that requests more than any node has, or a gang that requests more than all nodes have together.
fn exceeds_nodes(found: &WhyReport, nodes: &[Tree]) -> Option<String> {
    if nodes.is_empty() {
        return None;
    }
    let waits = |pod: &&Tree| pod.str_at(&["spec", "nodeName"]).is_empty();
    let waiting: Vec<&Tree> = found.pods.iter().filter(waits).collect();
    let pod = waiting.iter().find_map(|pod| {
        let (resource, asked) = pod_requests::effective(pod, &[])
            .into_iter()
            .find(|(name, asked)| *asked > largest(nodes, name))?;
        Some(format!(
            "it can never run here: pod {} asks for {} of {resource}, and {} {}",
            meta::name(pod),
            amount_text(&resource, asked),
            if nodes.len() == 1 { "the only node has" } else { "the largest node has" },
            amount_text(&resource, largest(nodes, &resource))
        ))
    });
    pod.or_else(|| found.groups.iter().find_map(|group| gang_exceeds_nodes(group, &waiting, nodes)))
}

fn gang_exceeds_nodes(group: &Tree, waiting: &[&Tree], nodes: &[Tree]) -> Option<String> {
    let min = group.int_at(&["spec", "schedulingPolicy", "gang", "minCount"])?;
    let name = meta::name(group);
    let member = |pod: &&&Tree| pod.str_at(&["spec", "schedulingGroup", "podGroupName"]) == name.as_str();
    let members: Vec<&Tree> = waiting.iter().filter(member).copied().collect();
    // Only if minCount members are pending is the whole gang unscheduled. The smallest member gives the lower bound of
    // what the gang needs.
    if i64::try_from(members.len()).unwrap_or(0) < min {
        return None;
    }
    let smallest =
        members.iter().map(|pod| pod_requests::effective(pod, &[])).reduce(|mut least, other| {
            for (name, asked) in &mut least {
                *asked = (*asked).min(other.get(name).copied().unwrap_or(0));
            }
            least
        })?;
    let total =
        |resource: &str| nodes.iter().map(|node| allocatable(node, resource)).fold(0, i64::saturating_add);
    let (resource, each) =
        smallest.into_iter().find(|(resource, each)| each.saturating_mul(min) > total(resource))?;
    Some(format!(
        "it can never run here: gang {name} asks for {min} × {} of {resource} at once, and {} {}",
        amount_text(&resource, each),
        if nodes.len() == 1 { "the only node has" } else { "all nodes together have" },
        amount_text(&resource, total(&resource))
    ))
}

fn largest(nodes: &[Tree], resource: &Text) -> i64 {
    nodes.iter().map(|node| allocatable(node, resource)).max().unwrap_or(0)
}

fn allocatable(node: &Tree, resource: &str) -> i64 {
    node.at(&["status", "allocatable", resource]).and_then(|it| amount(resource, it)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn pod(name: &str, cpu: &str) -> Tree {
        tree!({"metadata": {"name": name}, "spec": {"schedulingGroup": {"podGroupName": "g"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    fn node(cpu: &str) -> Tree {
        tree!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu, "memory": "4Gi"}}})
    }

    fn group(min: i64) -> Tree {
        tree!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": min}}}})
    }

    #[test]
    fn what_never_fits_is_told_and_what_may_fit_later_is_not() {
        let placed = pod("b", "9").with(&["spec", "nodeName"], "n");
        for (says, pods, groups, nodes, want) in [
            ("room for it when others go", vec![pod("a", "2")], vec![], vec![node("2")], None),
            (
                "larger than the machine",
                vec![pod("a", "2500m")],
                vec![],
                vec![node("2")],
                Some("it can never run here: pod a asks for 2500m of cpu, and the only node has 2"),
            ),
            (
                "larger than every node",
                vec![pod("a", "3")],
                vec![],
                vec![node("2"), node("2")],
                Some("it can never run here: pod a asks for 3 of cpu, and the largest node has 2"),
            ),
            ("it has a node", vec![placed], vec![], vec![node("2")], None),
            ("no node yet", vec![pod("a", "3")], vec![], vec![], None),
            (
                "a gang larger than the machine",
                vec![pod("a", "1"), pod("b", "1"), pod("c", "1")],
                vec![group(3)],
                vec![node("2")],
                Some("it can never run here: gang g asks for 3 × 1 of cpu at once, and the only node has 2"),
            ),
            ("a gang that fits", vec![pod("a", "1"), pod("b", "1")], vec![group(2)], vec![node("2")], None),
            ("a gang of which some run", vec![pod("a", "1")], vec![group(3)], vec![node("2")], None),
        ] {
            let found = WhyReport { pods, groups, ..WhyReport::default() };
            assert_eq!(impossible_reason(&found, &nodes).as_deref(), want, "{says}");
        }
    }

    #[test]
    fn what_is_beyond_every_quota_is_told() {
        let flavor = |verdict: &str| {
            tree!({"name": "default", "verdict": verdict, "resources": [
            {"name": "cpu", "requested": "8", "maximum": "4"}]})
        };
        let told = |flavors: Tree| {
            let explanation = tree!({"podSets": [{"name": "main", "count": 4, "flavors": flavors}]});
            impossible_reason(&WhyReport { explanation: Some(explanation), ..WhyReport::default() }, &[])
        };
        let want = "it can never be admitted: pod set main asks for 8 of cpu, and quota of flavor default is at most 4";
        assert_eq!(told(Tree::list([flavor("TooBig")])).as_deref(), Some(want));
        assert_eq!(told(Tree::list([flavor("TooBig"), flavor("NoRoom")])), None);
        assert_eq!(told(tree!([])), None);
    }

    #[test]
    fn time_alone_is_no_news() {
        assert_eq!(without_times("last looked at 12s ago"), without_times("last looked at 14s ago"));
        assert_ne!(without_times("2 of 3 pods"), without_times("1 of 3 pods"));
    }
}
