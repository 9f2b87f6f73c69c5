//! Many TrainJobs at once with a deadline and a TTL, with the worst delay of each; and the watch of one TrainJob until its deletion.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::{DIALECT, shorthand};
use crate::differential::{ApiClient, RequestStep};
use crate::jobset_cluster::{items, wait_for};
use crate::lifecycle::scenario_run::ScenarioRun;

/// Timeout of one watch.
const WATCH_SECS: u32 = 3;
/// Kinds of which no object remains.
const DELETED_KINDS: [&str; 4] = ["TrainJob", "JobSet", "Job", "Pod"];

/// TrainJobs that exceed their deadlines; a finalizer holds them so that their timestamps can be read.
pub struct DeadlineLoad<'a> {
    pub server: &'a ApiClient,
    pub namespace: &'a str,
    pub count: usize,
    /// Active deadline of each.
    pub deadline_secs: u64,
    pub ttl_secs: u64,
}

/// Worst delay of deadline and TTL.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorstDelay {
    /// Delay after the deadline.
    pub deadline: Duration,
    /// Delay after the TTL.
    pub ttl: Duration,
}

impl DeadlineLoad<'_> {
    /// Creates the TrainJobs and waits until all have failed and are deleted with their dependents; an early action is an error.
    pub fn run(&self) -> Result<WorstDelay, String> {
        let stage = ScenarioRun::new(self.server, self.namespace, DIALECT.subject)?;
        stage.create(&shorthand::runtime(&tree!({}))?)?;
        for n in 0..self.count {
            let shorthand = tree!({"name": format!("job-{n}"), "deadline": number(self.deadline_secs),
                "ttl": number(self.ttl_secs), "held": true});
            stage.create(&shorthand::train_job(&shorthand)?)?;
        }
        self.until("only our finalizer is left", |job| {
            let held = job.items_at(&["metadata", "finalizers"]).len();
            job.at(&["metadata", "deletionTimestamp"]).is_some() && held == 1
        });
        let all = self.all("TrainJob");
        let late = all.iter().map(|job| self.delay(job)).collect::<Result<Vec<_>, _>>()?;
        self.release(&all)?;
        for kind in DELETED_KINDS {
            wait_for(&format!("no {kind} is left"), || match self.all(kind).len() {
                0 => Ok(()),
                count => Err(format!("{count}")),
            });
        }
        let worst = |of: fn(&WorstDelay) -> Duration| late.iter().map(of).max().unwrap_or_default();
        Ok(WorstDelay { deadline: worst(|it| it.deadline), ttl: worst(|it| it.ttl) })
    }

    fn all(&self, kind: &str) -> Vec<Tree> {
        items(self.server, &path(kind, self.namespace))
    }

    fn until(&self, what: &str, is_so: impl Fn(&Tree) -> bool) {
        wait_for(what, || {
            let all = self.all("TrainJob");
            let count = all.iter().filter(|job| is_so(job)).count();
            if all.len() == self.count && count == self.count {
                return Ok(());
            }
            let other = all.iter().find(|job| !is_so(job)).map(Tree::to_json).unwrap_or_default();
            Err(format!("{count} of {}: {other}", all.len()))
        });
    }

    fn delay(&self, job: &Tree) -> Result<WorstDelay, String> {
        let failed = job.items_at(&["status", "conditions"]).iter();
        let failed = { failed }.find(|it| it.str_at(&["reason"]) == "DeadlineExceeded");
        let failed = failed.filter(|it| it.str_at(&["type"]) == "Failed" && it.str_at(&["status"]) == "True");
        let failed = failed.ok_or_else(|| format!("it did not fail by its deadline: {}", job.to_json()))?;
        let instant = |tree: &Tree, at: &[&str]| Time::of(tree.at(at)).ok_or_else(|| job.to_json());
        let created = instant(job, &["metadata", "creationTimestamp"])?;
        let ended = instant(failed, &["lastTransitionTime"])?;
        let deleted = instant(job, &["metadata", "deletionTimestamp"])?;
        let after = |is: Time, due: Time| {
            let early = format!("{is:?} comes before {due:?}: {}", job.to_json());
            if is < due { Err(early) } else { Ok(is.since(due)) }
        };
        Ok(WorstDelay {
            deadline: after(ended, created + Duration::from_secs(self.deadline_secs))?,
            ttl: after(deleted, ended + Duration::from_secs(self.ttl_secs))?,
        })
    }

    fn release(&self, all: &[Tree]) -> Result<(), String> {
        for job in all {
            let one = format!("{}/{}", path("TrainJob", self.namespace), job.str_at(&["metadata", "name"]));
            let step = RequestStep { kind: "merge".to_owned(), ..RequestStep::default() };
            let patch = tree!({"metadata": {"finalizers": Tree::Null}});
            let answer = self.server.send("PATCH", &one, &step, patch.to_json_bytes())?;
            if answer.code >= 300 {
                return Err(answer.body.to_json());
            }
        }
        Ok(())
    }
}

fn number(secs: u64) -> i64 {
    i64::try_from(secs).unwrap_or(i64::MAX)
}

fn path(kind: &str, namespace: &str) -> String {
    crate::lifecycle::objects::ResourceKind::of(kind).map(|sort| sort.path(namespace)).unwrap_or_default()
}

/// A watch event of a TrainJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchedChange {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub change: String,
    /// Whether the condition `Complete` is true.
    pub complete: bool,
    /// Whether it has a deletion timestamp.
    pub deleting: bool,
}

/// Returns all watch events of a TrainJob that runs for a second, with a TTL of zero, until its deletion.
pub fn watch_until_deleted(server: &ApiClient, namespace: &str) -> Result<Vec<WatchedChange>, String> {
    let stage = ScenarioRun::new(server, namespace, DIALECT.subject)?;
    stage.create(&shorthand::runtime(&tree!({"run": 1}))?)?;
    let all = path("TrainJob", namespace);
    let mut from = server.get(&all)?.body.str_at(&["metadata", "resourceVersion"]).to_owned();
    stage.create(&shorthand::train_job(&tree!({"ttl": 0}))?)?;
    let mut changes = Vec::new();
    wait_for("it is gone", || {
        let watch = format!("{all}?watch=true&resourceVersion={from}&timeoutSeconds={WATCH_SECS}");
        let events = server.send("WATCH", &watch, &RequestStep::default(), Vec::new())?;
        for event in events.body.items() {
            let job = event.get("object").cloned().unwrap_or_default();
            job.str_at(&["metadata", "resourceVersion"]).clone_into(&mut from);
            changes.push(watched_change(event.str_at(&["type"]), &job));
        }
        let is_gone = changes.last().is_some_and(|it: &WatchedChange| it.change == "DELETED");
        if is_gone { Ok(()) } else { Err(format!("{changes:?}")) }
    });
    Ok(changes)
}

fn watched_change(change: &str, job: &Tree) -> WatchedChange {
    let mut conditions = job.items_at(&["status", "conditions"]).iter();
    let complete =
        conditions.any(|it| it.str_at(&["type"]) == "Complete" && it.str_at(&["status"]) == "True");
    let deleting = job.at(&["metadata", "deletionTimestamp"]).is_some();
    WatchedChange { change: change.to_owned(), complete, deleting }
}
