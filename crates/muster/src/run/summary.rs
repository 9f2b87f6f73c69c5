//! How it all ended: a value made of the picture, printed as a table or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use muster_api::meta;
use muster_api::port::Uid;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

use crate::run::picture::{Ended, Picture, Work};
use crate::run::pods::{self, Exit};
use crate::run::words;

/// Failed pods of one piece of work that are told of.
const FAILED_PODS_MAX: usize = 5;
/// Stopped pods of one piece of work that are named.
const STOPPED_MAX: usize = 16;

/// How the whole run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All work completed.
    Completed,
    /// Some failed.
    Failed,
    /// It can never run: pods wait for what nobody will give them.
    Stuck,
    /// The time was up.
    TimedOut,
    /// Somebody sent SIGINT.
    Interrupted,
    /// Somebody sent SIGTERM.
    Terminated,
}

impl Outcome {
    /// The exit code that tells it.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Outcome::Completed => 0,
            Outcome::Failed => 1,
            Outcome::Stuck => 2,
            Outcome::TimedOut => 124,
            Outcome::Interrupted => 130,
            Outcome::Terminated => 143,
        }
    }

    /// The words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Completed => "completed",
            Outcome::Failed => "failed",
            Outcome::Stuck => "could not be run",
            Outcome::TimedOut => "timed out",
            Outcome::Interrupted => "interrupted",
            Outcome::Terminated => "terminated",
        }
    }
}

/// A pod that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedPod {
    /// Its name.
    pub name: Text,
    /// Which of several like it, where they are counted.
    pub rank: Option<String>,
    /// What it says itself.
    pub reason: String,
    /// How its containers ended.
    pub exits: Vec<Exit>,
    /// The last lines of its log.
    pub last_lines: Vec<String>,
}

/// How one piece of work ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub work: Work,
    /// How; what had not ended when the run did, has no end of its own.
    pub ended: Option<Ended>,
    /// Pods that succeeded.
    pub succeeded: usize,
    /// Pods that failed.
    pub failed: usize,
    /// Restarts of containers.
    pub restarts: i64,
    /// How long it took.
    pub took: Duration,
    /// Pods that failed by themselves, in the order in which they did; no more than [`FAILED_PODS_MAX`].
    pub failed_pods: Vec<FailedPod>,
    /// Pods that were stopped before they ended: names, and ranks where they are counted.
    pub stopped: Vec<(Text, Option<String>)>,
    /// Why pods did not run when the work was ended.
    pub held_up: Vec<String>,
}

/// How everything ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// As a whole.
    pub outcome: Outcome,
    /// Piece by piece.
    pub parts: Vec<Part>,
}

impl Summary {
    /// Of what is known now. `held_up` tells by work why pods did not run when it was ended, `last_lines` are those
    /// of the log of a pod.
    #[must_use]
    pub fn of(
        picture: &Picture,
        outcome: Outcome,
        now: Time,
        held_up: &BTreeMap<Uid, Vec<String>>,
        last_lines: impl Fn(&str) -> Vec<String>,
    ) -> Summary {
        let failed_pod = |pod: &Tree| FailedPod {
            name: meta::name(pod),
            rank: pods::rank(pod).map(str::to_owned),
            reason: pods::reason(pod),
            exits: pods::bad_exits(pod),
            last_lines: last_lines(&meta::uid(pod)),
        };
        let part = |work: &Work| {
            let (succeeded, failed) = picture.tally(work);
            let (bad, stopped) = picture.failures_of(work);
            let named = |pod: &&Tree| (meta::name(pod), pods::rank(pod).map(str::to_owned));
            Part {
                work: work.clone(),
                ended: picture.end_of(work),
                succeeded,
                failed,
                restarts: picture.restarts(work),
                took: picture.took(work, now),
                failed_pods: bad.into_iter().take(FAILED_PODS_MAX).map(failed_pod).collect(),
                stopped: stopped.iter().map(named).collect(),
                held_up: held_up.get(&work.uid).cloned().unwrap_or_default(),
            }
        };
        Summary { outcome, parts: picture.works().iter().map(part).collect() }
    }

    /// The table, and below it what failed and why.
    #[must_use]
    pub fn text(&self) -> String {
        let mut rows = vec![["WORK", "RESULT", "SUCCEEDED", "FAILED", "RESTARTS", "TIME"].map(str::to_owned)];
        rows.extend(self.parts.iter().map(|part| {
            let numbers = [part.succeeded.to_string(), part.failed.to_string(), part.restarts.to_string()];
            let [succeeded, failed, restarts] = numbers;
            let result = self.result_of(part).words().to_owned();
            [part.work.title(), result, succeeded, failed, restarts, words::span(part.took)]
        }));
        let mut text = table(&rows);
        for part in &self.parts {
            match self.result_of(part) {
                Outcome::Completed => {}
                Outcome::Failed => failure(&mut text, part),
                result => stopped(&mut text, part, result.words()),
            }
        }
        text
    }

    fn result_of(&self, part: &Part) -> Outcome {
        match &part.ended {
            Some(Ended::Completed) => Outcome::Completed,
            // What failed because we ended it did not fail by itself.
            _ => self.outcome,
        }
    }

    /// The same for machines.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let part = |part: &Part| {
            let why = match &part.ended {
                Some(Ended::Failed(why)) if self.result_of(part) == Outcome::Failed => {
                    Some(Tree::from(why.as_str()))
                }
                _ => None,
            };
            let word = part.work.kind.word();
            tree!({"kind": word, "namespace": &part.work.namespace, "name": &part.work.name,
                "result": self.result_of(part).words(), "succeeded": count(part.succeeded), "failed": count(part.failed),
                "restarts": part.restarts, "seconds": part.took.as_secs_f64(),
                "failedPods": Tree::list(part.failed_pods.iter().map(failed_pod_tree)),
                "heldUp": Tree::list(part.held_up.iter().map(String::as_str))})
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

/// What was stopped because something failed.
fn stopped_tree(part: &Part) -> Option<Tree> {
    let is_told = !part.failed_pods.is_empty() && !part.stopped.is_empty();
    is_told.then(|| Tree::list(part.stopped.iter().map(|(name, _)| Tree::from(name))))
}

fn failed_pod_tree(pod: &FailedPod) -> Tree {
    let exit = |exit: &Exit| {
        tree!({"container": &exit.container, "exitCode": exit.code, "reason": &exit.reason})
            .with_option(&["message"], (!exit.message.is_empty()).then(|| Tree::from(&exit.message)))
    };
    let reason = (!pod.reason.is_empty()).then(|| Tree::from(pod.reason.as_str()));
    tree!({"name": &pod.name, "containers": Tree::list(pod.exits.iter().map(exit)),
        "lastLines": Tree::list(pod.last_lines.iter().map(String::as_str))})
    .with_option(&["reason"], reason)
    .with_option(&["rank"], pod.rank.as_deref().map(Tree::from))
}

/// Columns side by side; numbers are short, so all begin at the left.
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

fn stopped(text: &mut String, part: &Part, result: &str) {
    if part.held_up.is_empty() {
        return;
    }
    let when = if result == Outcome::Stuck.words() { "" } else { " before all its pods ran" };
    let _ = writeln!(text, "\n{} {result}{when}", part.work.title());
    for reason in &part.held_up {
        let _ = writeln!(text, "  {reason}");
    }
}

fn failure(text: &mut String, part: &Part) {
    let Some(Ended::Failed(why)) = &part.ended else { return };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    let _ = writeln!(text, "\n{} failed{why}", part.work.title());
    // Of one pod alone there is nothing to put in order.
    let several = part.failed_pods.len() > 1 || !part.stopped.is_empty();
    for (at, pod) in part.failed_pods.iter().enumerate() {
        let exits = pod.exits.iter().map(|exit| {
            let words = pods::words(&exit.reason, &exit.message);
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
        let _ = writeln!(text, "  {}{when}: {told}", called(&pod.name, pod.rank.as_deref()));
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
        let names: Vec<String> =
            stopped.iter().take(STOPPED_MAX).map(|(name, rank)| called(name, rank.as_deref())).collect();
        let more = stopped.len().saturating_sub(STOPPED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = writeln!(text, "  stopped because of it: {}{more}", names.join(", "));
    }
}

/// How a pod is called: by its rank, where pods are counted.
fn called(name: &str, rank: Option<&str>) -> String {
    rank.map_or_else(|| name.to_owned(), |rank| format!("rank {rank} ({name})"))
}
