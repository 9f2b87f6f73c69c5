//! What is to be seen of a scenario.

use muster_tree::Tree;

use super::scenario::{Named, Step};
use super::stage::Stage;

/// What was asked for is there, or what is there instead; an error where nobody can look.
type Seen = Result<Result<(), String>, String>;

impl Stage<'_> {
    /// Looks once for what a step waits for.
    pub(super) fn look(&self, step: &Step) -> Seen {
        match step {
            Step::Bound(names) => self.bound(names, names.len()),
            Step::BoundOf { count, pods } => self.bound(pods, *count),
            Step::Left { count, pods } => self.left(pods, *count),
            Step::Whole { count, of } => self.whole(of, *count),
            Step::Placed { set, count } => self.placed(set, *count),
            Step::Ended(names) => {
                let running = self.those(names)?.into_iter().find(|pod| !has_ended(pod));
                Ok(running.map_or(Ok(()), |pod| Err(told(&pod))))
            }
            Step::Finished { set, r#as } => {
                let set = self.read(&Named::Set(set.clone()))?;
                Ok(seen(set.str_at(&["status", "terminalState"]) == r#as, &set))
            }
            Step::Just { workloads, groups } => {
                Ok(self.just("workloads", workloads)?.and(self.just("podgroups", groups)?))
            }
            Step::Waits { pods, reason, says } => self.waits(pods, reason, says),
            Step::Status { group, is, reason, says, pods } => {
                self.status(group, is, reason.as_deref(), says, *pods)
            }
            Step::Disrupted(group) => {
                let group = self.read(&Named::Group(group.clone()))?;
                let found = condition(&group, "DisruptionTarget");
                let reason = found.map(|it| it.str_at(&["reason"]).to_owned());
                Ok(seen(reason.as_deref() == Some("PreemptionByScheduler"), &group))
            }
            Step::Gone(all) => self.gone(all),
            Step::Going(it) => {
                let now = self.read(it)?;
                Ok(seen(now.at(&["metadata", "deletionTimestamp"]).is_some(), &now))
            }
            other => Err(format!("nobody can wait for {other:?}")),
        }
    }

    /// Whether a pod was placed or refused.
    pub(super) fn decided(&self, it: &Named) -> Seen {
        let pod = self.read(it)?;
        Ok(seen(condition(&pod, "PodScheduled").is_some(), &pod))
    }

    fn those(&self, names: &[String]) -> Result<Vec<Tree>, String> {
        names.iter().map(|name| self.read(&Named::Pod(name.clone()))).collect()
    }

    fn bound(&self, names: &[String], want: usize) -> Seen {
        let pods = self.those(names)?;
        let count = pods.iter().filter(|pod| has_node(pod)).count();
        let left = pods.iter().find(|pod| !has_node(pod)).map(told).unwrap_or_default();
        Ok(if count == want { Ok(()) } else { Err(format!("{count} of {want} have nodes; {left}")) })
    }

    fn whole(&self, groups: &[Vec<String>], want: usize) -> Seen {
        let counts = |names: &Vec<String>| Ok(self.those(names)?.iter().filter(|pod| has_node(pod)).count());
        let counts = groups.iter().map(counts).collect::<Result<Vec<usize>, String>>()?;
        let whole = groups.iter().zip(&counts).filter(|(names, count)| names.len() == **count).count();
        let torn = groups.len() - whole - counts.iter().filter(|count| **count == 0).count();
        let is_so = whole == want && torn == 0;
        Ok(if is_so { Ok(()) } else { Err(format!("{counts:?} of {groups:?} have nodes")) })
    }

    fn placed(&self, set: &str, want: usize) -> Seen {
        let selector = format!("labelSelector=jobset.sigs.k8s.io/jobset-name={set}");
        let pods = self.server.get(&format!("/api/v1/namespaces/{}/pods?{selector}", self.space))?.body;
        let lives = |pod: &&Tree| {
            has_node(pod) && !has_ended(pod) && pod.at(&["metadata", "deletionTimestamp"]).is_none()
        };
        let count = pods.items_at(&["items"]).iter().filter(lives).count();
        let all: Vec<String> = pods.items_at(&["items"]).iter().map(told).collect();
        Ok(if count == want { Ok(()) } else { Err(format!("{count} have nodes: {}", all.join("; "))) })
    }

    fn just(&self, plural: &str, want: &[String]) -> Seen {
        let all = self.server.get(&self.all(plural))?.body;
        let mut names: Vec<&str> =
            all.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"])).collect();
        names.sort_unstable();
        Ok(if names == want { Ok(()) } else { Err(format!("{plural}: {names:?}")) })
    }

    fn left(&self, names: &[String], want: usize) -> Seen {
        let all = names.iter().map(|name| self.server.get(&self.path(&Named::Pod(name.clone()))));
        let all = all.collect::<Result<Vec<_>, _>>()?;
        let there: Vec<&Tree> = all.iter().filter(|it| it.code == 200).map(|it| &it.body).collect();
        let ends = there.iter().any(|pod| pod.at(&["metadata", "deletionTimestamp"]).is_some());
        let is_so = there.len() == want && !ends && there.iter().all(|pod| has_node(pod));
        Ok(if is_so { Ok(()) } else { Err(format!("{} are there", there.len())) })
    }

    pub(super) fn unbound(&self, names: &[String]) -> Result<(), String> {
        let placed = self.those(names)?.into_iter().find(has_node);
        placed.map_or(Ok(()), |pod| Err(format!("it has a node: {}", told(&pod))))
    }

    fn waits(&self, names: &[String], reason: &str, says: &str) -> Seen {
        let is_so = |pod: &Tree| {
            let it = condition(pod, "PodScheduled").cloned().unwrap_or_default();
            !has_node(pod)
                && it.str_at(&["status"]) == "False"
                && it.str_at(&["reason"]) == reason
                && it.str_at(&["message"]).contains(says)
        };
        let other = self.those(names)?.into_iter().find(|pod| !is_so(pod));
        Ok(other.map_or(Ok(()), |pod| Err(told(&pod))))
    }

    fn status(&self, name: &str, is: &str, reason: Option<&str>, says: &str, pods: Option<i64>) -> Seen {
        let group = self.read(&Named::Group(name.to_owned()))?;
        let it = condition(&group, self.form.condition()).cloned().unwrap_or_default();
        if !self.form.tells_more() && is == "Unknown" {
            // This form knows no such status: nothing is said before something is decided.
            return Ok(seen(it.str_at(&["status"]) != "True", &group));
        }
        let count = pods.filter(|_| self.form.tells_more());
        let counted =
            count.is_none_or(|count| group.int_at(&["status", "scheduledPods"]).unwrap_or(0) == count);
        let reasoned = reason.is_none_or(|reason| it.str_at(&["reason"]) == self.form.reason(reason));
        let is_so = it.str_at(&["status"]) == is && it.str_at(&["message"]).contains(says);
        Ok(seen(is_so && reasoned && counted, &group))
    }

    fn gone(&self, all: &[Named]) -> Seen {
        for it in all {
            let answer = self.server.get(&self.path(it))?;
            if answer.code != 404 {
                return Ok(Err(format!("{it:?} is there: {}", answer.body.to_json())));
            }
        }
        Ok(Ok(()))
    }

    pub(super) fn share(&self, label: &str, names: &[String]) -> Result<(), String> {
        let mut values = Vec::new();
        for pod in self.those(names)? {
            let node = self.server.get(&format!("/api/v1/nodes/{}", pod.str_at(&["spec", "nodeName"])))?.body;
            values.push(node.str_at(&["metadata", "labels", label]).to_owned());
        }
        values.dedup();
        if values.len() == 1 { Ok(()) } else { Err(format!("they are on {values:?}")) }
    }

    /// Whoever could not be placed has an event that says so.
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

fn told(pod: &Tree) -> String {
    let status = pod.at(&["status", "conditions"]).map(Tree::to_json).unwrap_or_default();
    format!("{} on {:?}: {status}", pod.str_at(&["metadata", "name"]), pod.str_at(&["spec", "nodeName"]))
}

fn seen(is_so: bool, object: &Tree) -> Result<(), String> {
    let object = object.without(&["metadata", "managedFields"]);
    if is_so { Ok(()) } else { Err(object.to_json()) }
}
