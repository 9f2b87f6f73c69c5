//! Schedules the pods of a cluster with both schedulers, one by one, and compares the decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use muster_api::node::NodeFacts;
use muster_api::time::Time;
use muster_scheduler::{Budget, Pod, PodKey, Scheduler, SchedulingOutcome, read_labels};
use muster_tree::{Text, Tree, tree};

use super::cluster::{GPU, PRIORITIES, RandomCluster};
use crate::differential::{ApiClient, RequestStep};

/// Scheduler name of all pods.
const SCHEDULER: &str = "default-scheduler";
/// A resource that no node has: the error for a pod that requests it lists the state of every node.
const NOWHERE: &str = "example.com/nowhere";
/// Polls of a decision, and the interval between them: three minutes in total.
const POLLS_MAX: u32 = 36_000;
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Counts and differences of a run.
#[derive(Debug, Default)]
pub struct PlacementReport {
    /// Pods that both schedulers bound.
    pub placed: usize,
    /// Of these, pods bound to the same node.
    pub same_node: usize,
    /// Pods that both rejected.
    pub refused: usize,
    /// Of these, pods with preemption.
    pub preempting: usize,
    pub differences: Vec<String>,
}

impl PlacementReport {
    pub fn add(&mut self, other: PlacementReport) {
        self.placed += other.placed;
        self.same_node += other.same_node;
        self.refused += other.refused;
        self.preempting += other.preempting;
        self.differences.extend(other.differences);
    }
}

/// Compares our scheduler with the kube-scheduler of a server.
pub struct PlacementComparison<'a> {
    server: &'a ApiClient,
    mutation: PodMutation,
}

/// Modifies the pods that our scheduler gets, to check that a wrong decision is detected.
pub type PodMutation = fn(Pod) -> Pod;

enum KubeSchedulerDecision {
    Placed(Tree),
    Refused { message: String, nominated: String },
}

impl<'a> PlacementComparison<'a> {
    /// Uses a server that no other test uses.
    #[must_use]
    pub fn new(server: &'a ApiClient) -> Self {
        PlacementComparison { server, mutation: |pod| pod }
    }

    pub fn prepare(server: &'a ApiClient) -> Result<(), String> {
        let referee = PlacementComparison::new(server);
        for (name, value, policy) in PRIORITIES {
            let class = tree!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "preemptionPolicy": policy});
            referee.send("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", &class)?;
        }
        Ok(())
    }

    #[must_use]
    pub fn with_mutation(self, mutation: PodMutation) -> Self {
        PlacementComparison { mutation, ..self }
    }

    /// Runs a cluster, and deletes it even after an error: the next one must not find its nodes.
    pub fn run(&self, cluster: &RandomCluster, report: &mut PlacementReport) -> Result<(), String> {
        let played = self.schedule_pods(cluster, report);
        let cleared = self.clear(cluster);
        played.and(cleared)
    }

    fn schedule_pods(&self, cluster: &RandomCluster, report: &mut PlacementReport) -> Result<(), String> {
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

    fn build(&self, cluster: &RandomCluster, ours: &mut Scheduler) -> Result<(), String> {
        for (name, team) in cluster.namespaces() {
            let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
            let space = self.send("POST", "/api/v1/namespaces", &space)?;
            let labels = read_labels(space.entries_at(&["metadata", "labels"]));
            ours.update_namespace(&space.text_at(&["metadata", "name"]), &labels);
        }
        for node in &cluster.nodes {
            self.send("POST", "/api/v1/nodes", node)?;
            // The server adds the not-ready taint to a new node.
            let path = format!("/api/v1/nodes/{}", node.str_at(&["metadata", "name"]));
            let taints =
                tree!({"spec": {"taints": node.at(&["spec", "taints"]).cloned().unwrap_or_default()}});
            ours.update_node(NodeFacts::of(&self.send("PATCH", &path, &taints)?));
        }
        for budget in &cluster.budgets {
            let path = format!("/apis/policy/v1/namespaces/{}/poddisruptionbudgets", cluster.name);
            self.send("POST", &path, budget)?;
            let status = tree!({"status": budget.get("status").cloned().unwrap_or_default()});
            let made = self.send("PATCH", &format!("{path}/few/status"), &status)?;
            ours.update_budget(&key(&made), Budget::of(&made));
        }
        Ok(())
    }

    /// Waits until kube-scheduler's cache has every node: until its message about a probe that fits nowhere equals ours.
    fn wait_for_the_cluster(&self, cluster: &RandomCluster, ours: &mut Scheduler) -> Result<(), String> {
        let amount = tree!({}).with(&[NOWHERE], "1");
        let probe = tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": cluster.name.as_str(), "name": "probe"},
            "spec": {"containers": [{"name": "c", "image": "work", "resources": {"requests": amount.clone(), "limits": amount}}]}});
        let made = self.send("POST", &pods(&cluster.name), &probe)?;
        let want = refusal(ours, &made).ok_or("our scheduler binds the probe")?;
        let mut last = String::new();
        for _ in 0..POLLS_MAX {
            match self.decided(&key(&made))? {
                Some(KubeSchedulerDecision::Refused { message, .. }) if message == want => {
                    ours.delete_pod(&key(&made));
                    return self.delete(&key(&made));
                }
                Some(KubeSchedulerDecision::Refused { message, .. }) => last = message,
                _ => {}
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err(format!("for a pod that fits nowhere kube-scheduler reports {last:?}, ours {want:?}"))
    }

    fn pod(&self, manifest: &Tree, ours: &mut Scheduler, report: &mut PlacementReport) -> Result<(), String> {
        let path = pods(manifest.str_at(&["metadata", "namespace"]));
        let made = self.send("POST", &path, manifest)?;
        let key = key(&made);
        ours.update_pod(&(self.mutation)(Pod::of(&made, &[SCHEDULER])));
        let (scores, rooms) = (ours.scores(&key), ours.best_rooms(&key));
        let decision = ours.schedule(1, Time::default()).pop().ok_or("our scheduler makes no decision")?;
        let real = self.decision(&key)?;
        match (decision.outcome, real) {
            (SchedulingOutcome::Scheduled(places), KubeSchedulerDecision::Placed(bound)) => {
                let theirs = bound.text_at(&["spec", "nodeName"]);
                let mine = places.first().map(|(_, node)| node.clone()).unwrap_or_default();
                report.placed += 1;
                report.same_node += usize::from(mine == theirs);
                report.differences.extend(worse_choices(&made, &scores, &mine, &theirs));
                ours.update_pod(&Pod::of(&bound, &[SCHEDULER]));
                Ok(())
            }
            (
                SchedulingOutcome::Unschedulable { error: why, victims: evict, nominated, .. },
                KubeSchedulerDecision::Refused { message, nominated: theirs },
            ) => {
                report.refused += 1;
                let mine = nominated.unwrap_or_default();
                report.preempting += usize::from(!theirs.is_empty());
                // Several nodes may have equal preemption cost.
                let cheapest = mine == theirs || rooms.iter().any(|node| *node == *theirs);
                let own = why.message();
                if !cheapest || own.replace(mine.as_str(), &theirs) != message {
                    report
                        .differences
                        .push(format!("kube-scheduler reports\n    {message}\n  ours\n    {own}"));
                }
                self.delete(&key)?;
                ours.delete_pod(&key);
                if theirs.is_empty() {
                    Ok(())
                } else {
                    self.delete_victims(evict, mine == theirs, ours, report)
                }
            }
            (SchedulingOutcome::Group(_), _) => Err("no pod here is in a group".to_owned()),
            (SchedulingOutcome::Scheduled(places), KubeSchedulerDecision::Refused { message, .. }) => {
                report
                    .differences
                    .push(format!("ours binds it to {places:?}, kube-scheduler reports {message:?}"));
                ours.delete_pod(&key);
                self.delete(&key)
            }
            (SchedulingOutcome::Unschedulable { error: why, .. }, KubeSchedulerDecision::Placed(bound)) => {
                let node = bound.text_at(&["spec", "nodeName"]);
                report
                    .differences
                    .push(format!("kube-scheduler binds it to {node}, ours reports {:?}", why.message()));
                ours.update_pod(&Pod::of(&bound, &[SCHEDULER]));
                Ok(())
            }
        }
    }

    /// Deletes the victims at once, as kubelets do.
    fn delete_victims(
        &self,
        mine: Vec<PodKey>,
        same_node: bool,
        ours: &mut Scheduler,
        report: &mut PlacementReport,
    ) -> Result<(), String> {
        let mine: BTreeSet<PodKey> = mine.into_iter().collect();
        let mut theirs = BTreeSet::new();
        let mut quiet = 0;
        // No signal marks the last eviction: wait until the set is stable for a while, and longer if ours has more victims.
        while theirs != mine && quiet < if theirs.len() < mine.len() { 1000 } else { 40 } {
            let now = self.deleting()?;
            quiet = if now == theirs && !now.is_empty() { quiet + 1 } else { 0 };
            theirs = now;
            std::thread::sleep(POLL_INTERVAL);
        }
        // Pods of equal priority without a start time are interchangeable.
        if same_node && self.priorities(&mine)? != self.priorities(&theirs)? {
            report.differences.push(format!("kube-scheduler evicts {theirs:?}, ours {mine:?}"));
        }
        for victim in &theirs {
            self.delete(victim)?;
            ours.delete_pod(victim);
        }
        for spared in mine.difference(&theirs) {
            ours.eviction_failed(spared, Time::default());
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

    fn decision(&self, key: &PodKey) -> Result<KubeSchedulerDecision, String> {
        for _ in 0..POLLS_MAX {
            if let Some(real) = self.decided(key)? {
                return Ok(real);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Err("kube-scheduler makes no decision".to_owned())
    }

    fn decided(&self, key: &PodKey) -> Result<Option<KubeSchedulerDecision>, String> {
        let pod = self.server.get(&path_of(key))?.body;
        if !pod.str_at(&["spec", "nodeName"]).is_empty() {
            return Ok(Some(KubeSchedulerDecision::Placed(pod)));
        }
        let conditions = pod.items_at(&["status", "conditions"]);
        let refused = conditions.iter().find(|it| it.str_at(&["reason"]) == "Unschedulable");
        Ok(refused.map(|it| KubeSchedulerDecision::Refused {
            message: it.str_at(&["message"]).to_owned(),
            nominated: pod.str_at(&["status", "nominatedNodeName"]).to_owned(),
        }))
    }

    fn clear(&self, cluster: &RandomCluster) -> Result<(), String> {
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
        let step = RequestStep { kind: kind.to_owned(), ..RequestStep::default() };
        let answer = self.server.send(method, path, &step, body.to_json_bytes())?;
        if answer.code < 300 {
            Ok(answer.body)
        } else {
            Err(format!("{method} {path}: {}\n{}", answer.body.to_json(), body.to_json()))
        }
    }
}

/// Returns our scheduler's message about a pod that fits nowhere.
fn refusal(ours: &mut Scheduler, pod: &Tree) -> Option<String> {
    ours.update_pod(&Pod::of(pod, &[SCHEDULER]));
    match ours.schedule(1, Time::default()).pop()?.outcome {
        SchedulingOutcome::Scheduled(_) => None,
        SchedulingOutcome::Unschedulable { error: why, .. } => Some(why.message()),
        SchedulingOutcome::Group(_) => Some("no pod here is in a group".to_owned()),
    }
}

/// Checks the chosen nodes by our scores. Two deviations are accepted: ours packs pods that request devices, and kube-scheduler ignores
/// pod-level requests in its least-allocated score.
fn worse_choices(pod: &Tree, scores: &[(Text, i64)], mine: &Text, theirs: &Text) -> Vec<String> {
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
