//! What was found, as sentences for people and as data for programs. Pure.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use super::train::{Sight, Train};
use crate::run::pods;

/// The most events that are shown.
const EVENTS_MAX: usize = 8;
/// The most reasons of pods that are shown.
const REASONS_MAX: usize = 5;

/// Everything that is known of an object.
#[derive(Debug, Default)]
pub struct Found {
    /// What it is.
    pub what: &'static str,
    /// The object.
    pub object: Tree,
    /// What queues in its stead, in words.
    pub above: Option<String>,
    /// The Workload of a queue.
    pub workload: Option<Tree>,
    /// The server's explanation of that.
    pub explanation: Option<Tree>,
    /// Why there is none.
    pub unexplained: String,
    /// What is known beside it, if it is a TrainJob.
    pub train: Option<Train>,
    /// Its pods.
    pub pods: Vec<Tree>,
    /// Gangs of pods that wait.
    pub groups: Vec<Tree>,
    /// Events about it and its Workload.
    pub events: Vec<Tree>,
    /// When all this was found.
    pub now: Time,
}

/// What it comes to.
pub struct Verdict {
    state: String,
    reason: String,
    message: String,
}

/// A pod that does not run, and why.
pub struct Waiting {
    /// Which one.
    pub pod: String,
    /// In a word.
    pub reason: String,
    /// In words.
    pub message: String,
}

impl Verdict {
    /// Of a state, and why.
    pub fn new(state: &str, reason: &str, message: &str) -> Verdict {
        Verdict { state: state.to_owned(), reason: reason.to_owned(), message: message.to_owned() }
    }

    /// A state and what a condition says of it.
    pub fn told(state: &str, condition: &Tree) -> Verdict {
        Verdict::new(state, condition.str_at(&["reason"]), condition.str_at(&["message"]))
    }
}

fn condition<'a>(object: &'a Tree, kind: &str) -> Option<&'a Tree> {
    object.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == kind)
}

fn holds<'a>(object: &'a Tree, kind: &str) -> Option<&'a Tree> {
    condition(object, kind).filter(|it| it.str_at(&["status"]) == "True")
}

impl Found {
    /// For programs.
    pub fn data(&self) -> Tree {
        let verdict = self.verdict();
        let pods = self.waiting().into_iter().map(|it| {
            tree!({"name": it.pod.as_str(), "reason": it.reason.as_str(), "message": it.message.as_str()})
        });
        let events = self.shown_events().into_iter().map(|it| {
            tree!({"type": it.str_at(&["type"]), "reason": it.str_at(&["reason"]), "message": it.str_at(&["message"]),
                "object": it.str_at(&["involvedObject", "kind"]), "time": last_seen(it).map(Time::to_seconds_text)})
        });
        let mut data = tree!({
            "kind": self.what, "namespace": meta::namespace(&self.object), "name": meta::name(&self.object),
            "state": verdict.state.as_str(), "reason": verdict.reason.as_str(), "message": verdict.message.as_str(),
            "pods": Tree::list(pods), "events": Tree::list(events),
        });
        if let Some(above) = &self.above {
            data = data.with(&["queuedAs"], above.as_str());
        }
        for (key, value) in self.sight().iter().flat_map(Sight::data) {
            data = data.with(&[key], value);
        }
        if let Some(workload) = &self.workload {
            data = data.with(&["workload"], meta::name(workload));
        }
        match &self.explanation {
            Some(it) => data.with(&["explanation"], it.without(&["text"])),
            None if !self.unexplained.is_empty() => data.with(&["unexplained"], self.unexplained.as_str()),
            None => data,
        }
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let mut out = self.standing();
        out.extend(self.event_lines());
        if self.explanation.is_none() && self.workload.is_some() {
            out.push(format!("({}: this is what its conditions and events say)", self.unexplained));
        }
        out
    }

    /// How it stands and why, for people; without the events that led to it.
    pub fn standing(&self) -> Vec<String> {
        let verdict = self.verdict();
        let name = format!("{} {}/{}", self.what, meta::namespace(&self.object), meta::name(&self.object));
        let mut out = vec![format!("{name}: {}", verdict.state)];
        if let Some(above) = &self.above {
            let queued = if self.workload.is_some() { "queued as " } else { "" };
            out.push(format!("  it is {queued}part of {above}"));
        }
        if self.explanation.is_none() || self.settled().is_some() {
            out.extend(verdict.line());
        }
        let told = self.explanation.iter().flat_map(|it| it.items_at(&["text"]));
        out.extend(told.map(|it| format!("  {}", words(it))));
        out.extend(self.sight().iter().flat_map(Sight::lines));
        out.extend(self.conditions());
        out.extend(self.pod_lines());
        out.extend(self.groups.iter().flat_map(group_lines));
        out
    }

    /// The TrainJob, if it is one.
    fn sight(&self) -> Option<Sight<'_>> {
        self.train.as_ref().map(|_| Sight::of(&self.object, self.now))
    }

    /// What is certain of a TrainJob, whatever its queue says.
    fn settled(&self) -> Option<Verdict> {
        self.sight().and_then(|it| it.settled())
    }

    fn verdict(&self) -> Verdict {
        if let Some(it) = self.settled() {
            return it;
        }
        if let Some(it) = &self.explanation {
            return Verdict::told(it.str_at(&["state"]), it);
        }
        if let Some(it) = &self.workload {
            return of_workload(it);
        }
        match &self.train {
            Some(it) => Sight::of(&self.object, self.now).verdict(it, &self.shown_events(), &self.waiting()),
            None if self.what == "Pod" => of_pod(&self.object),
            None => of_job(&self.object, &self.waiting()),
        }
    }

    /// What the Workload says of itself, where no explanation does.
    fn conditions(&self) -> Vec<String> {
        let Some(workload) = self.workload.as_ref().filter(|_| self.explanation.is_none()) else {
            return Vec::new();
        };
        let queue = workload.str_at(&["spec", "queueName"]);
        let mut out = vec![format!("  Workload {} in LocalQueue {queue}", meta::name(workload))];
        let all = workload.items_at(&["status", "conditions"]).iter();
        out.extend(all.map(|it| {
            let word = |key: &str| it.str_at(&[key]).to_owned();
            format!("    {}={} {}: {}", word("type"), word("status"), word("reason"), word("message"))
        }));
        out
    }

    /// Pods that do not run, and why: those without a node first.
    fn waiting(&self) -> Vec<Waiting> {
        let unstarted = self.pods.iter().filter_map(unstarted);
        self.unplaced().into_iter().chain(unstarted).collect()
    }

    /// Pods without a node, and why.
    fn unplaced(&self) -> Vec<Waiting> {
        let waits = |pod: &&Tree| {
            pod.str_at(&["spec", "nodeName"]).is_empty() && pod.str_at(&["status", "phase"]) != "Failed"
        };
        let why = |pod: &Tree| {
            let name = meta::name(pod).to_string();
            let said = condition(pod, "PodScheduled").filter(|it| it.str_at(&["status"]) == "False");
            let (reason, message) = said.map_or(("Pending", "no scheduler has looked at it yet"), |it| {
                (it.str_at(&["reason"]), it.str_at(&["message"]))
            });
            Waiting { pod: name, reason: reason.to_owned(), message: message.to_owned() }
        };
        self.pods.iter().filter(waits).map(why).collect()
    }

    fn pod_lines(&self) -> Vec<String> {
        if self.what == "Pod" && self.explanation.is_none() && self.workload.is_none() {
            return Vec::new();
        }
        let mut out = counted("have no node", self.unplaced(), self.pods.len());
        let unstarted = self.pods.iter().filter_map(unstarted).collect();
        out.extend(counted("have one and do not run", unstarted, self.pods.len()));
        out
    }

    /// The newest events, oldest first, equal words once.
    fn shown_events(&self) -> Vec<&Tree> {
        let mut all: Vec<&Tree> = self.events.iter().collect();
        all.sort_by_key(|it| std::cmp::Reverse(last_seen(it)));
        let mut said = std::collections::BTreeSet::new();
        all.retain(|it| said.insert((it.str_at(&["reason"]), it.str_at(&["message"]))));
        all.truncate(EVENTS_MAX);
        all.reverse();
        all
    }

    fn event_lines(&self) -> Vec<String> {
        let events = self.shown_events();
        if events.is_empty() {
            return Vec::new();
        }
        let line = |it: &Tree| {
            let ago = last_seen(it)
                .map_or_else(String::new, |at| format!("{}s ago ", self.now.since(at).as_secs()));
            let word = |path: &[&str]| it.str_at(path).to_owned();
            let (kind, reason) = (word(&["involvedObject", "kind"]), word(&["reason"]));
            format!("    {ago}{kind} {reason}: {}", word(&["message"]))
        };
        let mut out = vec!["  events:".to_owned()];
        out.extend(events.into_iter().map(line));
        out
    }
}

impl Verdict {
    /// Why, as a line; none where there is nothing to say.
    fn line(&self) -> Option<String> {
        let says = !self.reason.is_empty() || !self.message.is_empty();
        says.then(|| format!("  {}: {}", self.reason, self.message))
    }
}

/// Why a pod that has a node does not run.
fn unstarted(pod: &Tree) -> Option<Waiting> {
    let (reason, message) = pods::unstarted(pod)?;
    Some(Waiting { pod: meta::name(pod).to_string(), reason, message })
}

/// How many pods wait for what.
fn counted(how: &str, waiting: Vec<Waiting>, all: usize) -> Vec<String> {
    if waiting.is_empty() {
        return Vec::new();
    }
    let mut out = vec![format!("  {} of {all} pods {how}:", waiting.len())];
    let mut by: BTreeMap<(String, String), usize> = BTreeMap::new();
    for it in waiting {
        *by.entry((it.reason, it.message)).or_default() += 1;
    }
    let shown = by.iter().take(REASONS_MAX);
    out.extend(shown.map(|((reason, message), count)| format!("    {count} × {reason}: {message}")));
    out
}

fn words(it: &Tree) -> String {
    it.as_text().map(Text::to_string).unwrap_or_default()
}

fn of_workload(it: &Tree) -> Verdict {
    for (kind, state) in
        [("Finished", "Finished"), ("Admitted", "Admitted"), ("QuotaReserved", "QuotaReserved")]
    {
        if let Some(told) = holds(it, kind) {
            return Verdict::told(state, told);
        }
    }
    match condition(it, "QuotaReserved") {
        Some(told) => Verdict::told("Pending", told),
        None => Verdict::new("Pending", "PendingEvaluation", "nobody has looked at it yet"),
    }
}

fn of_pod(pod: &Tree) -> Verdict {
    let phase = pod.str_at(&["status", "phase"]);
    if !pod.str_at(&["spec", "nodeName"]).is_empty() || ["Succeeded", "Failed"].contains(&phase) {
        let node = format!("it has the node {}", pod.str_at(&["spec", "nodeName"]));
        return Verdict::new(phase, pod.str_at(&["status", "reason"]), &node);
    }
    let gates = pod.items_at(&["spec", "schedulingGates"]).iter().map(|it| it.str_at(&["name"]));
    let gates: Vec<&str> = gates.collect();
    if !gates.is_empty() {
        return Verdict::new(
            "Pending",
            "SchedulingGated",
            &format!("held by the gates {}", gates.join(", ")),
        );
    }
    match condition(pod, "PodScheduled").filter(|it| it.str_at(&["status"]) == "False") {
        Some(told) => Verdict::told("Pending", told),
        None => {
            let by = pod.str_at(&["spec", "schedulerName"]);
            Verdict::new("Pending", "NotScheduled", &format!("the scheduler {by} has not looked at it yet"))
        }
    }
}

fn of_job(job: &Tree, waiting: &[Waiting]) -> Verdict {
    for (kind, state) in [
        ("Complete", "Finished"),
        ("Completed", "Finished"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
    ] {
        if let Some(told) = holds(job, kind) {
            return Verdict::told(state, told);
        }
    }
    if job.bool_at(&["spec", "suspend"]) == Some(true) {
        return Verdict::new("Suspended", "Suspended", "spec.suspend is true, and no queue has it");
    }
    match waiting.first() {
        Some(it) => Verdict::new("Pending", &it.reason, &it.message),
        None => Verdict::new("Running", "", ""),
    }
}

fn group_lines(group: &Tree) -> Vec<String> {
    let mut out = vec![format!("  gang {}:", meta::name(group))];
    let min = group.int_at(&["spec", "schedulingPolicy", "gang", "minCount"]);
    out.extend(min.map(|it| format!("    it needs {it} pods at once")));
    out.extend(group.items_at(&["status", "conditions"]).iter().map(|it| {
        let word = |key: &str| it.str_at(&[key]).to_owned();
        format!("    {}={} {}: {}", word("type"), word("status"), word("reason"), word("message"))
    }));
    out
}

fn last_seen(event: &Tree) -> Option<Time> {
    let paths: [&[&str]; 5] = [
        &["series", "lastObservedTime"],
        &["lastTimestamp"],
        &["eventTime"],
        &["firstTimestamp"],
        &["metadata", "creationTimestamp"],
    ];
    paths.iter().find_map(|path| Time::of(event.at(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Tree {
        tree!({"metadata": {"name": "train", "namespace": "team"}, "spec": {"suspend": true}})
    }

    #[test]
    fn without_an_explanation_conditions_and_events_tell() {
        let workload = tree!({"metadata": {"name": "job-train", "namespace": "team"}, "spec": {"queueName": "main"},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota",
                "message": "1 more needed"}]}});
        let event = tree!({"type": "Warning", "reason": "WaitingForQuota", "message": "1 more needed",
            "involvedObject": {"kind": "Workload"}, "lastTimestamp": "1970-01-01T00:00:10Z"});
        let found = Found {
            what: "Job",
            object: job(),
            workload: Some(workload),
            unexplained: "this server serves no explanations".to_owned(),
            events: vec![event.clone(), event],
            now: Time(15_000_000),
            ..Found::default()
        };
        let want = [
            "Job team/train: Pending",
            "  WaitingForQuota: 1 more needed",
            "  Workload job-train in LocalQueue main",
            "    QuotaReserved=False WaitingForQuota: 1 more needed",
            "  events:",
            "    5s ago Workload WaitingForQuota: 1 more needed",
            "(this server serves no explanations: this is what its conditions and events say)",
        ];
        assert_eq!(found.lines(), want);
        let data = found.data();
        assert_eq!((data.str_at(&["state"]), data.str_at(&["reason"])), ("Pending", "WaitingForQuota"));
        assert_eq!(data.items_at(&["events"]).len(), 1, "equal words once");
    }

    #[test]
    fn the_servers_explanation_is_shown_as_it_is() {
        let told = tree!({"state": "Pending", "reason": "WaitingForQuota", "message": "m",
            "text": ["WaitingForQuota: m", "number 1 in LocalQueue main"]});
        let found = Found { what: "Job", object: job(), explanation: Some(told), ..Found::default() };
        let want = ["Job team/train: Pending", "  WaitingForQuota: m", "  number 1 in LocalQueue main"];
        assert_eq!(found.lines(), want);
        assert_eq!(found.data().at(&["explanation", "text"]), None);
        assert_eq!(found.data().str_at(&["explanation", "reason"]), "WaitingForQuota");
    }

    #[test]
    fn pods_and_gangs_that_wait_are_told() {
        let pod = |name: &str, message: &str| {
            tree!({"metadata": {"name": name, "namespace": "team"}, "spec": {"schedulerName": "s"},
                "status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
                    "reason": "Unschedulable", "message": message}]}})
        };
        let group = tree!({"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}},
            "status": {"conditions": [{"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable",
                "message": "no room for 4"}]}});
        let running = tree!({"metadata": {"name": "train", "namespace": "team"}, "spec": {}});
        let found = Found {
            what: "Job",
            object: running,
            pods: vec![pod("a", "no room"), pod("b", "no room"), tree!({"spec": {"nodeName": "n"}})],
            groups: vec![group],
            ..Found::default()
        };
        let want = [
            "Job team/train: Pending",
            "  Unschedulable: no room",
            "  2 of 3 pods have no node:",
            "    2 × Unschedulable: no room",
            "  gang gang:",
            "    it needs 4 pods at once",
            "    PodGroupScheduled=False Unschedulable: no room for 4",
        ];
        assert_eq!(found.lines(), want);
        let lone = Found { what: "Pod", object: pod("a", "no room"), ..Found::default() };
        assert_eq!(lone.lines(), ["Pod team/a: Pending", "  Unschedulable: no room"]);
        let gated = pod("a", "x").with(&["spec", "schedulingGates"], tree!([{"name": "g"}]));
        let lone = Found { what: "Pod", object: gated, ..Found::default() };
        assert_eq!(lone.lines()[1], "  SchedulingGated: held by the gates g");
    }
}
