//! Why work waits, asked of the server while it does; and which work can never run on the nodes there are.
//!
//! # Guarantees
//!
//! - Explanations are requested on a thread of their own: a slow answer delays neither logs nor the end.
//! - [`never`] is pure, and says that work can never run only where requests are larger than all that a node, all nodes
//!   or a quota have: nothing that ends or is deleted can change that.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::kinds::NODES;
use muster_api::meta;
use muster_api::node::amount;
use muster_api::pod_requests;
use muster_api::port::Uid;
use muster_api::queue::amount_text;
use muster_cluster::KubeApi;
use muster_tree::{Text, Tree};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::run::picture::{Picture, Work, WorkKind};
use crate::why::{self, Found, Name, What};

/// Work that has waited so long is explained.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
/// The pause between two explanations.
const EXPLAIN_PAUSE: Duration = Duration::from_secs(2);
/// Pieces of work that are explained at once.
const WORKS_MAX: usize = 4;

/// Whether the nodes are those there will ever be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nodes {
    /// Those of a plane that was started for this run.
    Ours,
    /// Those of a cluster, which may get more.
    Others,
}

/// What the server says of a piece of work that waits.
struct Explained {
    work: Uid,
    lines: Vec<String>,
    never: Option<String>,
}

/// What waits, since when, and what was said of it.
pub struct Waits {
    api: KubeApi,
    nodes: Nodes,
    since: BTreeMap<Uid, Instant>,
    asked_at: Option<Instant>,
    /// How many answers are still to come.
    open: usize,
    answers: (mpsc::UnboundedSender<Option<Explained>>, mpsc::UnboundedReceiver<Option<Explained>>),
    /// What was printed last of each piece of work, without what changes with the time alone.
    told: BTreeMap<Uid, Vec<String>>,
}

impl Waits {
    /// Nothing waits yet.
    #[must_use]
    pub fn new(api: &KubeApi, nodes: Nodes) -> Waits {
        Waits {
            api: api.clone(),
            nodes,
            since: BTreeMap::new(),
            asked_at: None,
            open: 0,
            answers: mpsc::unbounded_channel(),
            told: BTreeMap::new(),
        }
    }

    /// Takes in answers and asks again when it is time; the lines that are new.
    pub fn turn(&mut self, picture: &mut Picture) -> Vec<String> {
        let mut lines = Vec::new();
        while let Ok(answer) = self.answers.1.try_recv() {
            self.open -= 1;
            let Some(Explained { work, lines: new, never }) = answer else { continue };
            // It may have begun meanwhile.
            if !picture.waiting().any(|it| it.uid == work) {
                continue;
            }
            picture.set_never(&work, never);
            let timeless: Vec<String> = new.iter().map(|line| without_times(line)).collect();
            if self.told.get(&work) != Some(&timeless) {
                self.told.insert(work, timeless);
                lines.extend(new);
            }
        }
        self.ask(picture);
        lines
    }

    fn ask(&mut self, picture: &Picture) {
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
            // On a thread of its own: the parts of a request cannot be moved between threads.
            tokio::task::spawn_blocking(move || {
                // The receiver is gone when the run is over.
                let _ = to.send(runtime.block_on(explain(&api, &work, nodes)));
            });
        }
    }
}

async fn explain(api: &KubeApi, work: &Work, nodes: Nodes) -> Option<Explained> {
    let what = match work.kind {
        WorkKind::Job => What::Job,
        WorkKind::Pod => What::Pod,
        WorkKind::JobSet => What::JobSet,
        WorkKind::TrainJob => What::TrainJob,
    };
    let asked = Name { what, name: work.name.clone() };
    let found = why::about(api, &asked, &work.namespace).await.ok()?;
    let all = match nodes {
        Nodes::Ours => api.labelled(&NODES, "", &[]).await.unwrap_or_default(),
        Nodes::Others => Vec::new(),
    };
    let all: Vec<Tree> = all.into_iter().map(|it| it.tree).collect();
    let never = never(&found, &all).filter(|_| nodes == Nodes::Ours);
    Some(Explained { work: work.uid.clone(), lines: found.standing(), never })
}

/// A line without spans of time, which change while nothing else does.
fn without_times(line: &str) -> String {
    let is_span = |word: &&str| {
        word.strip_suffix('s')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()))
    };
    line.split(' ').filter(|word| !is_span(word)).collect::<Vec<_>>().join(" ")
}

/// Why it can never run, if that is certain.
fn never(found: &Found, nodes: &[Tree]) -> Option<String> {
    beyond_quota(found).or_else(|| beyond_nodes(found, nodes))
}

/// A pod set for which every flavor has too little even when it is empty.
fn beyond_quota(found: &Found) -> Option<String> {
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

/// A pod that is larger than every node, or a gang that is larger than all of them.
fn beyond_nodes(found: &Found, nodes: &[Tree]) -> Option<String> {
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
    pod.or_else(|| found.groups.iter().find_map(|group| gang_beyond(group, &waiting, nodes)))
}

fn gang_beyond(group: &Tree, waiting: &[&Tree], nodes: &[Tree]) -> Option<String> {
    let min = group.int_at(&["spec", "schedulingPolicy", "gang", "minCount"])?;
    let name = meta::name(group);
    let member = |pod: &&&Tree| pod.str_at(&["spec", "schedulingGroup", "podGroupName"]) == name.as_str();
    let members: Vec<&Tree> = waiting.iter().filter(member).copied().collect();
    // As many as it needs wait: none of them runs already. The smallest decides.
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
            let found = Found { pods, groups, ..Found::default() };
            assert_eq!(never(&found, &nodes).as_deref(), want, "{says}");
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
            never(&Found { explanation: Some(explanation), ..Found::default() }, &[])
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
