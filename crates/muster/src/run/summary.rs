//! The summary of a run: built from the snapshot, rendered as a table or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use muster_api::client::Uid;
use muster_api::meta;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use crate::run::format;
use crate::run::pods::{self, ContainerExit};
use crate::run::snapshot::{RunSnapshot, Work, WorkResult};

/// The upper bound of failed pods with details per piece of work.
const FAILED_PODS_MAX: usize = 5;
/// The upper bound of names of stopped pods per piece of work.
const STOPPED_MAX: usize = 16;

/// The result of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunResult {
    Completed,
    Failed,
    /// Work can never run: pods exceed the cluster, or are blocked on an object that no client will create.
    Stuck,
    /// `--timeout` expired.
    TimedOut,
    Interrupted,
    Terminated,
}

impl RunResult {
    /// The exit code: 124 as `timeout(1)`, 128 + signal number as shells.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            RunResult::Completed => 0,
            RunResult::Failed => 1,
            RunResult::Stuck => 2,
            RunResult::TimedOut => 124,
            RunResult::Interrupted => 130,
            RunResult::Terminated => 143,
        }
    }

    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            RunResult::Completed => "completed",
            RunResult::Failed => "failed",
            RunResult::Stuck => "could not be run",
            RunResult::TimedOut => "timed out",
            RunResult::Interrupted => "interrupted",
            RunResult::Terminated => "terminated",
        }
    }
}

/// A failed pod, with the details that the summary shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPod {
    pub name: Text,
    /// The completion index, if the Job is Indexed.
    pub rank: Option<String>,
    /// The reason in its status.
    pub reason: String,
    /// Containers that exited with an error.
    pub exits: Vec<ContainerExit>,
    /// The tail of its log.
    pub last_lines: Vec<String>,
}

/// The result of one piece of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSummary {
    pub work: Work,
    /// `None` if the work had not finished when the run ended.
    pub ended: Option<WorkResult>,
    pub succeeded: usize,
    pub failed: usize,
    pub restarts: i64,
    /// The time from submission until it finished.
    pub took: Duration,
    /// Pods that failed by themselves, in the order of failure; at most [`FAILED_PODS_MAX`].
    pub failed_pods: Vec<FailedPod>,
    /// Pods that were deleted before they finished: name and completion index.
    pub stopped: Vec<(Text, Option<String>)>,
    /// Why pods did not run when the run deleted the work.
    pub blocked_reasons: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    pub outcome: RunResult,
    pub parts: Vec<WorkSummary>,
}

impl Summary {
    /// Builds the summary of a snapshot. `held_up` has the reasons why pods of each piece of work did not run;
    /// `last_lines` returns the log tail of a pod.
    #[must_use]
    pub fn of(
        picture: &RunSnapshot,
        outcome: RunResult,
        now: Time,
        held_up: &BTreeMap<Uid, Vec<String>>,
        last_lines: impl Fn(&str) -> Vec<String>,
    ) -> Summary {
        let failed_pod = |pod: &Tree| FailedPod {
            name: meta::name(pod),
            rank: pods::rank(pod).map(str::to_owned),
            reason: pods::reason(pod),
            exits: pods::failed_exits(pod),
            last_lines: last_lines(&meta::uid(pod)),
        };
        let part = |work: &Work| {
            let (succeeded, failed) = picture.finished_pods(work);
            let (bad, stopped) = picture.failures_of(work);
            let named = |pod: &&Tree| (meta::name(pod), pods::rank(pod).map(str::to_owned));
            WorkSummary {
                work: work.clone(),
                ended: picture.result_of(work),
                succeeded,
                failed,
                restarts: picture.restarts(work),
                took: picture.duration(work, now),
                failed_pods: bad.into_iter().take(FAILED_PODS_MAX).map(failed_pod).collect(),
                stopped: stopped.iter().map(named).collect(),
                blocked_reasons: held_up.get(&work.uid).cloned().unwrap_or_default(),
            }
        };
        Summary { outcome, parts: picture.works().iter().map(part).collect() }
    }

    /// The table, followed by the failures and their reasons.
    #[must_use]
    pub fn text(&self) -> String {
        let mut rows = vec![["WORK", "RESULT", "SUCCEEDED", "FAILED", "RESTARTS", "TIME"].map(str::to_owned)];
        rows.extend(self.parts.iter().map(|part| {
            let numbers = [part.succeeded.to_string(), part.failed.to_string(), part.restarts.to_string()];
            let [succeeded, failed, restarts] = numbers;
            let result = self.result_of(part).words().to_owned();
            [part.work.title(), result, succeeded, failed, restarts, format::span(part.took)]
        }));
        let mut text = table(&rows);
        for part in &self.parts {
            match self.result_of(part) {
                RunResult::Completed => {}
                RunResult::Failed => failure(&mut text, part),
                result => stopped(&mut text, part, result.words()),
            }
        }
        text
    }

    fn result_of(&self, part: &WorkSummary) -> RunResult {
        match &part.ended {
            Some(WorkResult::Completed) => RunResult::Completed,
            // A failure that the deletion by this run caused is reported as timed out or interrupted.
            _ => self.outcome,
        }
    }

    /// The summary as data, for `-o json`.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let part = |part: &WorkSummary| {
            let why = match &part.ended {
                Some(WorkResult::Failed(why)) if self.result_of(part) == RunResult::Failed => {
                    Some(Tree::from(why.as_str()))
                }
                _ => None,
            };
            let word = part.work.kind.word();
            tree!({"kind": word, "namespace": &part.work.namespace, "name": &part.work.name,
                "result": self.result_of(part).words(), "succeeded": count(part.succeeded), "failed": count(part.failed),
                "restarts": part.restarts, "seconds": part.took.as_secs_f64(),
                "failedPods": Tree::list(part.failed_pods.iter().map(failed_pod_tree)),
                "heldUp": Tree::list(part.blocked_reasons.iter().map(String::as_str))})
            .with_option(&["reason"], why)
            .with_option(&["stopped"], stopped_tree(part))
        };
        tree!({"result": self.outcome.words(), "exitCode": i64::from(self.outcome.code()),
            "work": Tree::list(self.parts.iter().map(part))})
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The pods that were stopped after another one had failed.
fn stopped_tree(part: &WorkSummary) -> Option<Tree> {
    let is_told = !part.failed_pods.is_empty() && !part.stopped.is_empty();
    is_told.then(|| Tree::list(part.stopped.iter().map(|(name, _)| Tree::from(name))))
}

fn failed_pod_tree(pod: &FailedPod) -> Tree {
    let exit = |exit: &ContainerExit| {
        tree!({"container": &exit.container, "exitCode": exit.code, "reason": &exit.reason})
            .with_option(&["message"], (!exit.message.is_empty()).then(|| Tree::from(&exit.message)))
    };
    let reason = (!pod.reason.is_empty()).then(|| Tree::from(pod.reason.as_str()));
    tree!({"name": &pod.name, "containers": Tree::list(pod.exits.iter().map(exit)),
        "lastLines": Tree::list(pod.last_lines.iter().map(String::as_str))})
    .with_option(&["reason"], reason)
    .with_option(&["rank"], pod.rank.as_deref().map(Tree::from))
}

/// A table with left-aligned columns.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

fn stopped(text: &mut String, part: &WorkSummary, result: &str) {
    if part.blocked_reasons.is_empty() {
        return;
    }
    let when = if result == RunResult::Stuck.words() { "" } else { " before all its pods started" };
    let _ = writeln!(text, "\n{} {result}{when}", part.work.title());
    for reason in &part.blocked_reasons {
        let _ = writeln!(text, "  {reason}");
    }
}

fn failure(text: &mut String, part: &WorkSummary) {
    let Some(WorkResult::Failed(why)) = &part.ended else { return };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let _ = writeln!(text, "\n{} failed{why}", part.work.title());
    // The order of failures is of interest only if several pods were involved.
    let several = part.failed_pods.len() > 1 || !part.stopped.is_empty();
    for (at, pod) in part.failed_pods.iter().enumerate() {
        let exits = pod.exits.iter().map(|exit| {
            let words = pods::reason_text(&exit.reason, &exit.message);
            let words = if words.is_empty() { words } else { format!(" ({words})") };
            format!("container {} exited with code {}{words}", exit.container, exit.code)
        });
        let told: Vec<String> =
            Some(pod.reason.clone()).filter(|reason| !reason.is_empty()).into_iter().chain(exits).collect();
        let told = if told.is_empty() { "it says no more".to_owned() } else { told.join("; ") };
        let when = match (several, at) {
            (false, _) => "",
            (true, 0) => " failed first",
            (true, _) => " failed after it",
        };
        let _ = writeln!(text, "  {}{when}: {told}", display_name(&pod.name, pod.rank.as_deref()));
        for line in &pod.last_lines {
            let _ = writeln!(text, "    | {line}");
        }
    }
    let stopped = if part.failed_pods.is_empty() { &[][..] } else { &part.stopped };
    let told = part.failed_pods.len() + stopped.len();
    if part.failed > told && !part.failed_pods.is_empty() {
        let _ = writeln!(text, "  and {} more pods", part.failed - told);
    }
    if !stopped.is_empty() {
        let names: Vec<String> = stopped
            .iter()
            .take(STOPPED_MAX)
            .map(|(name, rank)| display_name(name, rank.as_deref()))
            .collect();
        let more = stopped.len().saturating_sub(STOPPED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "  stopped because of it: {}{more}", names.join(", "));
    }
}

/// The pod with its completion index, if it has one.
fn display_name(name: &str, rank: Option<&str>) -> String {
    rank.map_or_else(|| name.to_owned(), |rank| format!("rank {rank} ({name})"))
}
