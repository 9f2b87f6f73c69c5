//! Renders the collected objects as text and as data. Pure.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use super::train_job::{TrainJobContext, TrainJobView};
use crate::run::pods;

/// The upper bound of events shown.
const EVENTS_MAX: usize = 8;
/// The upper bound of distinct pod reasons shown.
const REASONS_MAX: usize = 5;

/// The collected objects.
#[derive(Debug, Default)]
pub struct WhyReport {
    pub what: &'static str,
    pub object: Tree,
    /// The topmost owner, as `Kind name`, if the object is not queued itself.
    pub above: Option<String>,
    /// The Workload of the object or of its topmost owner.
    pub workload: Option<Tree>,
    /// The explanation of that Workload.
    pub explanation: Option<Tree>,
    /// The reason why there is no explanation.
    pub unexplained: String,
    /// JobSet and runtime, if the object is a TrainJob.
    pub train: Option<TrainJobContext>,
    pub pods: Vec<Tree>,
    /// PodGroups of the pods that have no node.
    pub groups: Vec<Tree>,
    /// Events of the object, its Workload and its JobSet.
    pub events: Vec<Tree>,
    /// The time of the collection.
    pub now: Time,
}

/// The state of the object, with the reason and message behind it.
pub struct ExplainedState {
    state: String,
    reason: String,
    message: String,
}

/// A pod that does not run, and the reason.
pub struct PendingPod {
    pub pod: String,
    pub reason: String,
    pub message: String,
}

impl ExplainedState {
    pub fn new(state: &str, reason: &str, message: &str) -> ExplainedState {
        ExplainedState { state: state.to_owned(), reason: reason.to_owned(), message: message.to_owned() }
    }

    /// A state with the reason and message of a condition.
    pub fn from_condition(state: &str, condition: &Tree) -> ExplainedState {
        ExplainedState::new(state, condition.str_at(&["reason"]), condition.str_at(&["message"]))
    }
}

fn condition<'a>(object: &'a Tree, kind: &str) -> Option<&'a Tree> {
    object.items_at(&["status", "conditions"]).iter().find(|it| it.str_at(&["type"]) == kind)
}

fn holds<'a>(object: &'a Tree, kind: &str) -> Option<&'a Tree> {
    condition(object, kind).filter(|it| it.str_at(&["status"]) == "True")
}

impl WhyReport {
    pub fn data(&self) -> Tree {
        let verdict = self.state();
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
        for (key, value) in self.train_job_view().iter().flat_map(TrainJobView::data) {
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

    pub fn lines(&self) -> Vec<String> {
        let mut out = self.status_lines();
        out.extend(self.event_lines());
        if self.explanation.is_none() && self.workload.is_some() {
            out.push(format!("({}: this is what its conditions and events say)", self.unexplained));
        }
        out
    }

    /// The explanation as lines, without events.
    pub fn status_lines(&self) -> Vec<String> {
        let verdict = self.state();
        let name = format!("{} {}/{}", self.what, meta::namespace(&self.object), meta::name(&self.object));
        let mut out = vec![format!("{name}: {}", verdict.state)];
        if let Some(above) = &self.above {
            let queued = if self.workload.is_some() { "queued as " } else { "" };
            out.push(format!("  it is {queued}part of {above}"));
        }
        if self.explanation.is_none() || self.final_state().is_some() {
            out.extend(verdict.line());
        }
        let told = self.explanation.iter().flat_map(|it| it.items_at(&["text"]));
        out.extend(told.map(|it| format!("  {}", words(it))));
        out.extend(self.train_job_view().iter().flat_map(TrainJobView::lines));
        out.extend(self.conditions());
        out.extend(self.pod_lines());
        out.extend(self.groups.iter().flat_map(group_lines));
        out
    }

    /// The TrainJob view, if the object is a TrainJob.
    fn train_job_view(&self) -> Option<TrainJobView<'_>> {
        self.train.as_ref().map(|_| TrainJobView::of(&self.object, self.now))
    }

    /// The state of a TrainJob that takes precedence over the explanation of its queue.
    fn final_state(&self) -> Option<ExplainedState> {
        self.train_job_view().and_then(|it| it.final_state())
    }

    fn state(&self) -> ExplainedState {
        if let Some(it) = self.final_state() {
            return it;
        }
        if let Some(it) = &self.explanation {
            return ExplainedState::from_condition(it.str_at(&["state"]), it);
        }
        if let Some(it) = &self.workload {
            return workload_state(it);
        }
        match &self.train {
            Some(it) => {
                TrainJobView::of(&self.object, self.now).state(it, &self.shown_events(), &self.waiting())
            }
            None if self.what == "Pod" => pod_state(&self.object),
            None => job_state(&self.object, &self.waiting()),
        }
    }

    /// The conditions of the Workload, if there is no explanation.
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

    /// Pods that do not run: unscheduled pods first.
    fn waiting(&self) -> Vec<PendingPod> {
        let unstarted = self.pods.iter().filter_map(unstarted);
        self.unplaced().into_iter().chain(unstarted).collect()
    }

    /// Unscheduled pods.
    fn unplaced(&self) -> Vec<PendingPod> {
        let waits = |pod: &&Tree| {
            pod.str_at(&["spec", "nodeName"]).is_empty() && pod.str_at(&["status", "phase"]) != "Failed"
        };
        let why = |pod: &Tree| {
            let name = meta::name(pod).to_string();
            let said = condition(pod, "PodScheduled").filter(|it| it.str_at(&["status"]) == "False");
            let (reason, message) = said.map_or(("Pending", "no scheduler has evaluated it yet"), |it| {
                (it.str_at(&["reason"]), it.str_at(&["message"]))
            });
            PendingPod { pod: name, reason: reason.to_owned(), message: message.to_owned() }
        };
        self.pods.iter().filter(waits).map(why).collect()
    }

    fn pod_lines(&self) -> Vec<String> {
        if self.what == "Pod" && self.explanation.is_none() && self.workload.is_none() {
            return Vec::new();
        }
        let mut out = pod_reason_lines("are not scheduled", self.unplaced(), self.pods.len());
        let unstarted = self.pods.iter().filter_map(unstarted).collect();
        out.extend(pod_reason_lines("are scheduled but not running", unstarted, self.pods.len()));
        out
    }

    /// The newest events, oldest first, without duplicates.
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

impl ExplainedState {
    /// Reason and message as a line; `None` if both are empty.
    fn line(&self) -> Option<String> {
        let says = !self.reason.is_empty() || !self.message.is_empty();
        says.then(|| format!("  {}: {}", self.reason, self.message))
    }
}

/// A pod that has a node but does not run.
fn unstarted(pod: &Tree) -> Option<PendingPod> {
    let (reason, message) = pods::unstarted(pod)?;
    Some(PendingPod { pod: meta::name(pod).to_string(), reason, message })
}

/// Pods counted by reason and message.
fn pod_reason_lines(how: &str, waiting: Vec<PendingPod>, all: usize) -> Vec<String> {
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

fn workload_state(it: &Tree) -> ExplainedState {
    for (kind, state) in
        [("Finished", "Finished"), ("Admitted", "Admitted"), ("QuotaReserved", "QuotaReserved")]
    {
        if let Some(told) = holds(it, kind) {
            return ExplainedState::from_condition(state, told);
        }
    }
    match condition(it, "QuotaReserved") {
        Some(told) => ExplainedState::from_condition("Pending", told),
        None => ExplainedState::new("Pending", "PendingEvaluation", "it has not been evaluated yet"),
    }
}

fn pod_state(pod: &Tree) -> ExplainedState {
    let phase = pod.str_at(&["status", "phase"]);
    if !pod.str_at(&["spec", "nodeName"]).is_empty() || ["Succeeded", "Failed"].contains(&phase) {
        let node = format!("it is bound to node {}", pod.str_at(&["spec", "nodeName"]));
        return ExplainedState::new(phase, pod.str_at(&["status", "reason"]), &node);
    }
    let gates = pod.items_at(&["spec", "schedulingGates"]).iter().map(|it| it.str_at(&["name"]));
    let gates: Vec<&str> = gates.collect();
    if !gates.is_empty() {
        return ExplainedState::new(
            "Pending",
            "SchedulingGated",
            &format!("held by the gates {}", gates.join(", ")),
        );
    }
    match condition(pod, "PodScheduled").filter(|it| it.str_at(&["status"]) == "False") {
        Some(told) => ExplainedState::from_condition("Pending", told),
        None => {
            let by = pod.str_at(&["spec", "schedulerName"]);
            ExplainedState::new(
                "Pending",
                "NotScheduled",
                &format!("the scheduler {by} has not evaluated it yet"),
            )
        }
    }
}

fn job_state(job: &Tree, waiting: &[PendingPod]) -> ExplainedState {
    for (kind, state) in [
        ("Complete", "Finished"),
        ("Completed", "Finished"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
    ] {
        if let Some(told) = holds(job, kind) {
            return ExplainedState::from_condition(state, told);
        }
    }
    if job.bool_at(&["spec", "suspend"]) == Some(true) {
        return ExplainedState::new("Suspended", "Suspended", "spec.suspend is true, and it is not queued");
    }
    match waiting.first() {
        Some(it) => ExplainedState::new("Pending", &it.reason, &it.message),
        None => ExplainedState::new("Running", "", ""),
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
        let found = WhyReport {
            what: "Job",
            object: job(),
            workload: Some(workload),
            unexplained: "this server serves no explanations".to_owned(),
            events: vec![event.clone(), event],
            now: Time(15_000_000),
            ..WhyReport::default()
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
        let found = WhyReport { what: "Job", object: job(), explanation: Some(told), ..WhyReport::default() };
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
        let found = WhyReport {
            what: "Job",
            object: running,
            pods: vec![pod("a", "no room"), pod("b", "no room"), tree!({"spec": {"nodeName": "n"}})],
            groups: vec![group],
            ..WhyReport::default()
        };
        let want = [
            "Job team/train: Pending",
            "  Unschedulable: no room",
            "  2 of 3 pods are not scheduled:",
            "    2 × Unschedulable: no room",
            "  gang gang:",
            "    it needs 4 pods at once",
            "    PodGroupScheduled=False Unschedulable: no room for 4",
        ];
        assert_eq!(found.lines(), want);
        let lone = WhyReport { what: "Pod", object: pod("a", "no room"), ..WhyReport::default() };
        assert_eq!(lone.lines(), ["Pod team/a: Pending", "  Unschedulable: no room"]);
        let gated = pod("a", "x").with(&["spec", "schedulingGates"], tree!([{"name": "g"}]));
        let lone = WhyReport { what: "Pod", object: gated, ..WhyReport::default() };
        assert_eq!(lone.lines()[1], "  SchedulingGated: held by the gates g");
    }
}
