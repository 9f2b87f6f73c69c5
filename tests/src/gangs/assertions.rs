//! The assertions of gang scenarios.

use muster_tree::Tree;

use super::scenario::{GangStep, ObjectName};
use super::scenario_run::GangScenarioRun;

/// `Ok(Err(_))` is the observed state while the condition does not hold yet; `Err` is a failed read.
type PollResult = Result<Result<(), String>, String>;

impl GangScenarioRun<'_> {
    /// Evaluates the condition of a step once.
    pub(super) fn poll(&self, step: &GangStep) -> PollResult {
        match step {
            GangStep::Bound(names) => self.bound(names, names.len()),
            GangStep::BoundOf { count, pods } => self.bound(pods, *count),
            GangStep::Left { count, pods } => self.left(pods, *count),
            GangStep::Whole { count, of } => self.whole_groups(of, *count),
            GangStep::Placed { set, count } => self.placed(set, *count),
            GangStep::Ended(names) => {
                let running = self.read_pods(names)?.into_iter().find(|pod| !has_ended(pod));
                Ok(running.map_or(Ok(()), |pod| Err(describe_pod(&pod))))
            }
            GangStep::Finished { set, r#as } => {
                let set = self.read(&ObjectName::Set(set.clone()))?;
                Ok(check(set.str_at(&["status", "terminalState"]) == r#as, &set))
            }
            GangStep::Just { workloads, groups } => {
                Ok(self.exactly("workloads", workloads)?.and(self.exactly("podgroups", groups)?))
            }
            GangStep::Waits { pods, reason, says } => self.waits(pods, reason, says),
            GangStep::Status { group, is, reason, says, pods } => {
                self.status(group, is, reason.as_deref(), says, *pods)
            }
            GangStep::Disrupted(group) => {
                let group = self.read(&ObjectName::Group(group.clone()))?;
                let found = condition(&group, "DisruptionTarget");
                let reason = found.map(|it| it.str_at(&["reason"]).to_owned());
                Ok(check(reason.as_deref() == Some("PreemptionByScheduler"), &group))
            }
            GangStep::Gone(all) => self.gone(all),
            GangStep::Going(it) => {
                let now = self.read(it)?;
                Ok(check(now.at(&["metadata", "deletionTimestamp"]).is_some(), &now))
            }
            other => Err(format!("{other:?} is not an assertion")),
        }
    }

    /// Whether the scheduler has bound or rejected a pod.
    pub(super) fn decided(&self, it: &ObjectName) -> PollResult {
        let pod = self.read(it)?;
        Ok(check(condition(&pod, "PodScheduled").is_some(), &pod))
    }

    fn read_pods(&self, names: &[String]) -> Result<Vec<Tree>, String> {
        names.iter().map(|name| self.read(&ObjectName::Pod(name.clone()))).collect()
    }

    fn bound(&self, names: &[String], want: usize) -> PollResult {
        let pods = self.read_pods(names)?;
        let count = pods.iter().filter(|pod| has_node(pod)).count();
        let left = pods.iter().find(|pod| !has_node(pod)).map(describe_pod).unwrap_or_default();
        Ok(if count == want { Ok(()) } else { Err(format!("{count} of {want} have nodes; {left}")) })
    }

    fn whole_groups(&self, groups: &[Vec<String>], want: usize) -> PollResult {
        let counts =
            |names: &Vec<String>| Ok(self.read_pods(names)?.iter().filter(|pod| has_node(pod)).count());
        let counts = groups.iter().map(counts).collect::<Result<Vec<usize>, String>>()?;
        let whole = groups.iter().zip(&counts).filter(|(names, count)| names.len() == **count).count();
        let torn = groups.len() - whole - counts.iter().filter(|count| **count == 0).count();
        let is_so = whole == want && torn == 0;
        Ok(if is_so { Ok(()) } else { Err(format!("{counts:?} of {groups:?} have nodes")) })
    }

    fn placed(&self, set: &str, want: usize) -> PollResult {
        let selector = format!("labelSelector=jobset.sigs.k8s.io/jobset-name={set}");
        let pods = self.server.get(&format!("/api/v1/namespaces/{}/pods?{selector}", self.space))?.body;
        let lives = |pod: &&Tree| {
            has_node(pod) && !has_ended(pod) && pod.at(&["metadata", "deletionTimestamp"]).is_none()
        };
        let count = pods.items_at(&["items"]).iter().filter(lives).count();
        let all: Vec<String> = pods.items_at(&["items"]).iter().map(describe_pod).collect();
        Ok(if count == want { Ok(()) } else { Err(format!("{count} have nodes: {}", all.join("; "))) })
    }

    fn exactly(&self, plural: &str, want: &[String]) -> PollResult {
        let all = self.server.get(&self.all(plural))?.body;
        let mut names: Vec<&str> =
            all.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"])).collect();
        names.sort_unstable();
        Ok(if names == want { Ok(()) } else { Err(format!("{plural}: {names:?}")) })
    }

    fn left(&self, names: &[String], want: usize) -> PollResult {
        let all = names.iter().map(|name| self.server.get(&self.path(&ObjectName::Pod(name.clone()))));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let there: Vec<&Tree> = all.iter().filter(|it| it.code == 200).map(|it| &it.body).collect();
        let ends = there.iter().any(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_some());
        let is_so = there.len() == want && !ends && there.iter().all(|pod| has_node(pod));
        Ok(if is_so { Ok(()) } else { Err(format!("{} exist", there.len())) })
    }

    pub(super) fn unbound(&self, names: &[String]) -> Result<(), String> {
        let placed = self.read_pods(names)?.into_iter().find(has_node);
        placed.map_or(Ok(()), |pod| Err(format!("it has a node: {}", describe_pod(&pod))))
    }

    fn waits(&self, names: &[String], reason: &str, says: &str) -> PollResult {
        let is_so = |pod: &Tree| {
            let it = condition(pod, "PodScheduled").cloned().unwrap_or_default();
            !has_node(pod)
                && it.str_at(&["status"]) == "False"
                && it.str_at(&["reason"]) == reason
                && it.str_at(&["message"]).contains(says)
        };
        let other = self.read_pods(names)?.into_iter().find(|pod| !is_so(pod));
        Ok(other.map_or(Ok(()), |pod| Err(describe_pod(&pod))))
    }

    fn status(
        &self,
        name: &str,
        is: &str,
        reason: Option<&str>,
        says: &str,
        pods: Option<i64>,
    ) -> PollResult {
        let group = self.read(&ObjectName::Group(name.to_owned()))?;
        let it = condition(&group, self.form.condition()).cloned().unwrap_or_default();
        if !self.form.reports_unknown() && is == "Unknown" {
            // v1beta1 has no `Unknown` status: there is no condition before the scheduler has decided.
            return Ok(check(it.str_at(&["status"]) != "True", &group));
        }
        let count = pods.filter(|_| self.form.reports_unknown());
        let counted =
            count.is_none_or(|count| group.int_at(&["status", "scheduledPods"]).unwrap_or(0) == count);
        let reasoned = reason.is_none_or(|reason| it.str_at(&["reason"]) == self.form.reason(reason));
        let is_so = it.str_at(&["status"]) == is && it.str_at(&["message"]).contains(says);
        Ok(check(is_so && reasoned && counted, &group))
    }

    fn gone(&self, all: &[ObjectName]) -> PollResult {
        for it in all {
            let answer = self.server.get(&self.path(it))?;
            if answer.code != 404 {
                return Ok(Err(format!("{it:?} still exists: {}", answer.body.to_json())));
            }
        }
        Ok(Ok(()))
    }

    pub(super) fn share_label(&self, label: &str, names: &[String]) -> Result<(), String> {
        let mut values = Vec::new();
        for pod in self.read_pods(names)? {
            let node = self.server.get(&format!("/api/v1/nodes/{}", pod.str_at(&["spec", "nodeName"])))?.body;
            values.push(node.str_at(&["metadata", "labels", label]).to_owned());
        }
        values.dedup();
        if values.len() == 1 { Ok(()) } else { Err(format!("they are on {values:?}")) }
    }

    /// The scheduler emits a `FailedScheduling` event for each pod that it could not place.
    pub(super) fn never_tried(&self, names: &[String]) -> Result<(), String> {
        let events = self.server.get(&format!("/api/v1/namespaces/{}/events", self.space))?.body;
        let about = |event: &&Tree| {
            event.str_at(&["reason"]) == "FailedScheduling"
                && names.iter().any(|name| event.str_at(&["involvedObject", "name"]) == name)
        };
        let found = events.items_at(&["items"]).iter().find(about);
        found.map_or(Ok(()), |event| Err(event.to_json()))
    }
}

fn has_node(pod: &Tree) -> bool {
    !pod.str_at(&["spec", "nodeName"]).is_empty()
}

fn has_ended(pod: &Tree) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed")
}

fn condition<'a>(object: &'a Tree, kind: &str) -> Option<&'a Tree> {
    object.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == kind)
}

fn describe_pod(pod: &Tree) -> String {
    let status = pod.at(&["status", "conditions"]).map(Tree::to_json).unwrap_or_default();
    format!("{} on {:?}: {status}", pod.str_at(&["metadata", "name"]), pod.str_at(&["spec", "nodeName"]))
}

fn check(is_so: bool, object: &Tree) -> Result<(), String> {
    let object = object.without(&["metadata", "managedFields"]);
    if is_so { Ok(()) } else { Err(object.to_json()) }
}
