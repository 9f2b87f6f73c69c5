//! Many TrainJobs at once, with both a deadline and a time to live, and how punctual all was; and one that is watched to its end.

use std::time::Duration;

use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::{THEME, words};
use crate::differential::{Server, Step};
use crate::lives::act::Stage;
use crate::operators::{items, wait_for};

/// How long one watch lasts.
const WATCH_SECS: u32 = 3;
/// Kinds of which nothing is left in the end.
const LEFT: [&str; 4] = ["TrainJob", "JobSet", "Job", "Pod"];

/// TrainJobs that run for longer than they may, and are held so that their times can be read.
pub struct Crowd<'a> {
    /// Where.
    pub server: &'a Server,
    /// In which namespace, which is made.
    pub namespace: &'a str,
    /// How many.
    pub count: usize,
    /// For how long each may run.
    pub deadline_secs: u64,
    /// For how long each stays.
    pub ttl_secs: u64,
}

/// How late something was, at worst.
#[derive(Debug, Clone, Copy, Default)]
pub struct Late {
    /// After deadlines.
    pub deadline: Duration,
    /// After times to live.
    pub ttl: Duration,
}

impl Crowd<'_> {
    /// Makes them, waits until all failed, went and are gone with all they made; nothing was early, or this is an error.
    pub fn live(&self) -> Result<Late, String> {
        let stage = Stage::new(self.server, self.namespace, THEME.subject)?;
        stage.create(&words::runtime(&tree!({}))?)?;
        for n in 0..self.count {
            let said = tree!({"name": format!("job-{n}"), "deadline": number(self.deadline_secs),
                "ttl": number(self.ttl_secs), "held": true});
            stage.create(&words::train_job(&said)?)?;
        }
        self.until("all are held by us alone", |job| {
            let held = job.items_at(&["metadata", "finalizers"]).len();
            job.at(&["metadata", "deletionTimestamp"]).is_some() && held == 1
        });
        let all = self.all("TrainJob");
        let late = all.iter().map(|job| self.late(job)).collect::<Result<Vec<_>, _>>()?;
        self.release(&all)?;
        for kind in LEFT {
            wait_for(&format!("no {kind} is left"), || match self.all(kind).len() {
                0 => Ok(()),
                count => Err(format!("{count}")),
            });
        }
        let worst = |of: fn(&Late) -> Duration| late.iter().map(of).max().unwrap_or_default();
        Ok(Late { deadline: worst(|it| it.deadline), ttl: worst(|it| it.ttl) })
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

    fn late(&self, job: &Tree) -> Result<Late, String> {
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
        Ok(Late {
            deadline: after(ended, created + Duration::from_secs(self.deadline_secs))?,
            ttl: after(deleted, ended + Duration::from_secs(self.ttl_secs))?,
        })
    }

    fn release(&self, all: &[Tree]) -> Result<(), String> {
        for job in all {
            let one = format!("{}/{}", path("TrainJob", self.namespace), job.str_at(&["metadata", "name"]));
            let step = Step { kind: "merge".to_owned(), ..Step::default() };
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
    crate::lives::objects::Sort::of(kind).map(|sort| sort.path(namespace)).unwrap_or_default()
}

/// What a watcher was told of a TrainJob once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub change: String,
    /// Whether it was complete.
    pub complete: bool,
    /// Whether it was about to go.
    pub going: bool,
}

/// All that a watcher is told of a TrainJob that runs for a second and stays for no time at all, to its end.
pub fn seen(server: &Server, namespace: &str) -> Result<Vec<Seen>, String> {
    let stage = Stage::new(server, namespace, THEME.subject)?;
    stage.create(&words::runtime(&tree!({"run": 1}))?)?;
    let all = path("TrainJob", namespace);
    let mut from = server.get(&all)?.body.str_at(&["metadata", "resourceVersion"]).to_owned();
    stage.create(&words::train_job(&tree!({"ttl": 0}))?)?;
    let mut told = Vec::new();
    wait_for("it is gone", || {
        let watch = format!("{all}?watch=true&resourceVersion={from}&timeoutSeconds={WATCH_SECS}");
        let events = server.send("WATCH", &watch, &Step::default(), Vec::new())?;
        for event in events.body.items() {
            let job = event.get("object").cloned().unwrap_or_default();
            job.str_at(&["metadata", "resourceVersion"]).clone_into(&mut from);
            told.push(seen_once(event.str_at(&["type"]), &job));
        }
        let is_gone = told.last().is_some_and(|it: &Seen| it.change == "DELETED");
        if is_gone { Ok(()) } else { Err(format!("{told:?}")) }
    });
    Ok(told)
}

fn seen_once(change: &str, job: &Tree) -> Seen {
    let mut conditions = job.items_at(&["status", "conditions"]).iter();
    let complete =
        conditions.any(|it| it.str_at(&["type"]) == "Complete" && it.str_at(&["status"]) == "True");
    let going = job.at(&["metadata", "deletionTimestamp"]).is_some();
    Seen { change: change.to_owned(), complete, going }
}
