//! Lets both schedulers decide about a cluster's pods, one by one, and compares.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::node::NodeFacts;
use muster_api::time::Time;
use muster_scheduler::{Budget, Outcome, Pod, PodKey, Scheduler, read_labels};
use muster_tree::{Text, Tree, tree};

use super::cluster::{Cluster, GPU, PRIORITIES};
use crate::differential::{Server, Step};

/// The only scheduler that pods name.
const SCHEDULER: &str = "default-scheduler";
/// A resource that no node has: whoever asks for it learns what is wrong with each node.
const NOWHERE: &str = "example.com/nowhere";
/// How often one looks for a decision, and how long apart.
const TRIES: u32 = 36_000;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// What came of some clusters.
#[derive(Debug, Default)]
pub struct Report {
    /// Pods that both placed.
    pub placed: usize,
    /// Of these, on the same node.
    pub same_node: usize,
    /// Pods that both refused.
    pub refused: usize,
    /// Of these, with room being made.
    pub preempting: usize,
    /// What differed.
    pub differences: Vec<String>,
}

impl Report {
    /// Adds what came of other clusters.
    pub fn add(&mut self, other: Report) {
        self.placed += other.placed;
        self.same_node += other.same_node;
        self.refused += other.refused;
        self.preempting += other.preempting;
        self.differences.extend(other.differences);
    }
}

/// Asks kube-scheduler of this server, and ours.
pub struct Referee<'a> {
    server: &'a Server,
    blunder: Blunder,
}

/// Changes what ours is told of a pod, to check that the referee sees a wrong decision.
pub type Blunder = fn(Pod) -> Pod;

/// What kube-scheduler did about a pod.
enum Real {
    Placed(Tree),
    Refused { message: String, nominated: String },
}

impl<'a> Referee<'a> {
    /// Judges by this server, whose kube-scheduler has it for itself.
    #[must_use]
    pub fn new(server: &'a Server) -> Self {
        Referee { server, blunder: |pod| pod }
    }

    /// Creates the PriorityClasses that all clusters share.
    pub fn prepare(server: &'a Server) -> Result<(), String> {
        let referee = Referee::new(server);
        for (name, value, policy) in PRIORITIES {
            let class = tree!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "preemptionPolicy": policy});
            referee.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", &class)?;
        }
        Ok(())
    }

    /// The same referee with a scheduler that is told something else.
    #[must_use]
    pub fn with_blunder(self, blunder: Blunder) -> Self {
        Referee { blunder, ..self }
    }

    /// Plays a cluster, and deletes it whatever came of it: the next one must find no node of it.
    pub fn play(&self, cluster: &Cluster, report: &mut Report) -> Result<(), String> {
        let played = self.fill(cluster, report);
        let cleared = self.clear(cluster);
        played.and(cleared)
    }

    fn fill(&self, cluster: &Cluster, report: &mut Report) -> Result<(), String> {
        let mut ours = Scheduler::default();
        self.build(cluster, &mut ours)?;
        self.wait_for_the_cluster(cluster, &mut ours)?;
        for pod in &cluster.pods {
            let name = format!("{} {}", cluster.name, pod.str_at(&["metadata", "name"]));
            let before = report.differences.len();
            self.pod(pod, &mut ours, report).map_err(|why| format!("{name}: {why}"))?;
            for difference in &mut report.differences[before..] {
                *difference = format!("{name}: {difference}");
            }
        }
        Ok(())
    }

    fn build(&self, cluster: &Cluster, ours: &mut Scheduler) -> Result<(), String> {
        for (name, team) in cluster.namespaces() {
            let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
            let space = self.send("POST", "/api/v1/namespaces", &space)?;
            let labels = read_labels(space.entries_at(&["metadata", "labels"]));
            ours.namespace(&space.text_at(&["metadata", "name"]), &labels);
        }
        for node in &cluster.nodes {
            self.send("POST", "/api/v1/nodes", node)?;
            // The server adds a taint of its own to a new node.
            let path = format!("/api/v1/nodes/{}", node.str_at(&["metadata", "name"]));
            let taints =
                tree!({"spec": {"taints": node.at(&["spec", "taints"]).cloned().unwrap_or_default()}});
            ours.node(NodeFacts::of(&self.send("PATCH", &path, &taints)?));
        }
        for budget in &cluster.budgets {
            let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", cluster.name);
            self.send("POST", &path, budget)?;
            let status = tree!({"status": budget.get("status").cloned().unwrap_or_default()});
            let made = self.send("PATCH", &format!("{path}/few/status"), &status)?;
            ours.budget(&key(&made), Budget::of(&made));
        }
        Ok(())
    }

    /// Waits until the real scheduler sees every node as it is: it says what ours says of a pod that fits nowhere.
    fn wait_for_the_cluster(&self, cluster: &Cluster, ours: &mut Scheduler) -> Result<(), String> {
        let amount = tree!({}).with(&[NOWHERE], "1");
        let probe = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": cluster.name.as_str(), "name": "probe"},
            "spec": {"containers": [{"name": "c", "image": "work", "resources": {"requests": amount.clone(), "limits": amount}}]}});
        let made = self.send("POST", &pods(&cluster.name), &probe)?;
        let want = refusal(ours, &made).ok_or("ours places the probe")?;
        let mut last = String::new();
        for _ in 0..TRIES {
            match self.decided(&key(&made))? {
                Some(Real::Refused { message, .. }) if message == want => {
                    ours.pod_gone(&key(&made));
                    return self.delete(&key(&made));
                }
                Some(Real::Refused { message, .. }) => last = message,
                _ => {}
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("of a pod that fits nowhere kube-scheduler says {last:?} and ours {want:?}"))
    }

    fn pod(&self, manifest: &Tree, ours: &mut Scheduler, report: &mut Report) -> Result<(), String> {
        let path = pods(manifest.str_at(&["metadata", "namespace"]));
        let made = self.send("POST", &path, manifest)?;
        let key = key(&made);
        ours.pod(&(self.blunder)(Pod::of(&made, &[SCHEDULER])));
        let (scores, rooms) = (ours.scores(&key), ours.best_rooms(&key));
        let decision = ours.decide(1, Time::default()).pop().ok_or("ours decides nothing")?;
        let real = self.decision(&key)?;
        match (decision.outcome, real) {
            (Outcome::Placed(places), Real::Placed(bound)) => {
                let theirs = bound.text_at(&["spec", "nodeName"]);
                let mine = places.first().map(|(_, node)| node.clone()).unwrap_or_default();
                report.placed += 1;
                report.same_node += usize::from(mine == theirs);
                report.differences.extend(as_good(&made, &scores, &mine, &theirs));
                ours.pod(&Pod::of(&bound, &[SCHEDULER]));
                Ok(())
            }
            (
                Outcome::Refused { why, evict, nominated, .. },
                Real::Refused { message, nominated: theirs },
            ) => {
                report.refused += 1;
                let mine = nominated.unwrap_or_default();
                report.preempting += usize::from(!theirs.is_empty());
                // Any of several nodes may be as cheap to clear.
                let cheapest = mine == theirs || rooms.iter().any(|node| *node == *theirs);
                let said = why.message();
                if !cheapest || said.replace(mine.as_str(), &theirs) != message {
                    report
                        .differences
                        .push(format!("kube-scheduler says\n    {message}\n  ours\n    {said}"));
                }
                self.delete(&key)?;
                ours.pod_gone(&key);
                if theirs.is_empty() { Ok(()) } else { self.leave(evict, mine == theirs, ours, report) }
            }
            (Outcome::Group(_), _) => Err("no pod here is in a group".to_owned()),
            (Outcome::Placed(places), Real::Refused { message, .. }) => {
                report
                    .differences
                    .push(format!("ours places it on {places:?}, kube-scheduler says {message:?}"));
                ours.pod_gone(&key);
                self.delete(&key)
            }
            (Outcome::Refused { why, .. }, Real::Placed(bound)) => {
                let node = bound.text_at(&["spec", "nodeName"]);
                report
                    .differences
                    .push(format!("kube-scheduler places it on {node}, ours says {:?}", why.message()));
                ours.pod(&Pod::of(&bound, &[SCHEDULER]));
                Ok(())
            }
        }
    }

    /// Plays the nodes whose pods are asked to make room: they go at once.
    fn leave(
        &self,
        mine: Vec<PodKey>,
        same_node: bool,
        ours: &mut Scheduler,
        report: &mut Report,
    ) -> Result<(), String> {
        let mine: BTreeSet<PodKey> = mine.into_iter().collect();
        let mut theirs = BTreeSet::new();
        let mut quiet = 0;
        // Nothing tells that the last one was asked; a while without another one does, and a longer one where ours has more.
        while theirs != mine && quiet < if theirs.len() < mine.len() { 1000 } else { 40 } {
            let now = self.deleting()?;
            quiet = if now == theirs && !now.is_empty() { quiet + 1 } else { 0 };
            theirs = now;
            std::thread::sleep(PAUSE);
        }
        // Of equally important pods, which have not begun to run, any may go.
        if same_node && self.priorities(&mine)? != self.priorities(&theirs)? {
            report.differences.push(format!("kube-scheduler evicts {theirs:?}, ours {mine:?}"));
        }
        for victim in &theirs {
            self.delete(victim)?;
            ours.pod_gone(victim);
        }
        for spared in mine.difference(&theirs) {
            ours.spared(spared, Time::default());
        }
        Ok(())
    }

    fn priorities(&self, pods: &BTreeSet<PodKey>) -> Result<Vec<Option<i64>>, String> {
        let priority = |key: &PodKey| Ok(self.server.get(&path_of(key))?.body.int_at(&["spec", "priority"]));
        let mut all = pods.iter().map(priority).collect::<Result<Vec<_>, String>>()?;
        all.sort_unstable();
        Ok(all)
    }

    fn deleting(&self) -> Result<BTreeSet<PodKey>, String> {
        let list = self.server.get("/api/v1/pods")?.body;
        let leaving = |pod: &&Tree| pod.at(&["metadata", "deletionTimestamp"]).is_some();
        Ok(list.items_at(&["items"]).iter().filter(leaving).map(key).collect())
    }

    fn decision(&self, key: &PodKey) -> Result<Real, String> {
        for _ in 0..TRIES {
            if let Some(real) = self.decided(key)? {
                return Ok(real);
            }
            std::thread::sleep(PAUSE);
        }
        Err("kube-scheduler decides nothing".to_owned())
    }

    fn decided(&self, key: &PodKey) -> Result<Option<Real>, String> {
        let pod = self.server.get(&path_of(key))?.body;
        if !pod.str_at(&["spec", "nodeName"]).is_empty() {
            return Ok(Some(Real::Placed(pod)));
        }
        let conditions = pod.items_at(&["status", "conditions"]);
        let refused = conditions.iter().find(|it| it.str_at(&["reason"]) == "Unschedulable");
        Ok(refused.map(|it| Real::Refused {
            message: it.str_at(&["message"]).to_owned(),
            nominated: pod.str_at(&["status", "nominatedNodeName"]).to_owned(),
        }))
    }

    fn clear(&self, cluster: &Cluster) -> Result<(), String> {
        for (name, _) in cluster.namespaces() {
            self.send("DELETE", &pods(&name), &at_once())?;
            self.send("DELETE", &format!("/api/v1/namespaces/{name}"), &tree!({}))?;
        }
        for node in &cluster.nodes {
            self.send(
                "DELETE",
                &format!("/api/v1/nodes/{}", node.str_at(&["metadata", "name"])),
                &tree!({}),
            )?;
        }
        Ok(())
    }

    fn delete(&self, key: &PodKey) -> Result<(), String> {
        self.send("DELETE", &path_of(key), &at_once()).map(|_| ())
    }

    fn send(&self, method: &str, path: &str, body: &Tree) -> Result<Tree, String> {
        let kind = if method == "PATCH" { "merge" } else { "" };
        let step = Step { kind: kind.to_owned(), ..Step::default() };
        let answer = self.server.send(method, path, &step, body.to_json_bytes())?;
        if answer.code < 300 {
            Ok(answer.body)
        } else {
            Err(format!("{method} {path}: {}\n{}", answer.body.to_json(), body.to_json()))
        }
    }
}

/// What ours says of a pod that fits nowhere.
fn refusal(ours: &mut Scheduler, pod: &Tree) -> Option<String> {
    ours.pod(&Pod::of(pod, &[SCHEDULER]));
    match ours.decide(1, Time::default()).pop()?.outcome {
        Outcome::Placed(_) => None,
        Outcome::Refused { why, .. } => Some(why.message()),
        Outcome::Group(_) => Some("no pod here is in a group".to_owned()),
    }
}

/// What is wrong with the nodes that were chosen, measured by our scores. Two choices may differ: ours packs those who
/// ask for devices, and the real one forgets what a pod asks for as a whole when it looks for the emptiest node.
fn as_good(pod: &Tree, scores: &[(Text, i64)], mine: &Text, theirs: &Text) -> Vec<String> {
    let best = scores.iter().map(|(_, score)| *score).max().unwrap_or(0);
    let of = |node: &Text| scores.iter().find(|(name, _)| name == node).map(|(_, score)| *score);
    let excused = pod.to_json().contains(GPU) || pod.at(&["spec", "resources"]).is_some();
    let mut wrong = Vec::new();
    for (who, node) in [("kube-scheduler", theirs), ("ours", mine)] {
        match of(node) {
            None => wrong.push(format!("{who} takes {node}, which does not fit by our scores")),
            Some(score) if score < best && !excused => {
                wrong.push(format!("{who} takes {node}, which is not as good as others: {scores:?}"));
            }
            Some(_) => {}
        }
    }
    wrong
}

fn key(object: &Tree) -> PodKey {
    (object.text_at(&["metadata", "namespace"]), object.text_at(&["metadata", "name"]))
}

fn pods(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn path_of((namespace, name): &PodKey) -> String {
    format!("{}/{name}", pods(namespace))
}

fn at_once() -> Tree {
    tree!({"gracePeriodSeconds": 0})
}
